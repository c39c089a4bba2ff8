"""Measure the cost of a row and of a solution by the number of features, with a plot.

python demos/benchmarks/speed/sizes.py
python demos/benchmarks/speed/sizes.py --quick

Rows are arrays of 64 to 16,384 features with ten classes, without an intercept. "predict, learn
one" is the recursive form, row by row; "learn_many" uses batches of 1,000; "solve" follows a batch.
Exponents are fitted to the upper half of the sizes.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Piece,
    bar,
    draw,
    in_words,
    machine,
    make_parser,
    print_table,
    seconds_of,
    table_of,
)
from show import figure

from onlinels import LeastSquaresClassifier

BATCH, N_CLASSES = 1000, 10
Costs = dict[str, dict[int, float]]


def main() -> None:
    parser = make_parser(__doc__, "sizes.png")
    parser.add_argument("--quick", action="store_true", help="64 to 1,024 features")
    arguments = parser.parse_args()
    sizes = [64 * 2**power for power in range(5 if arguments.quick else 9)]
    costs: Costs = {"predict, learn one": {}, "learn_many, a row": {}, "solve": {}}
    for size in bar(sizes, "Measuring"):
        figures = row_by_row(size), *batch_and_solution(size)
        for cost, seconds in zip(costs.values(), figures, strict=True):
            cost[size] = seconds
    exponents = {name: exponent(cost) for name, cost in costs.items()}
    print(machine())
    table = table_of("features", *costs)
    for size in sizes:
        table.add_row(str(size), *(in_words(cost[size]) for cost in costs.values()))
    table.add_row("exponent", *(f"{value:.2f}" for value in exponents.values()))
    print_table(table)
    plot(costs, exponents, arguments.output)
    print(f"Plot: {arguments.output}")


def median_seconds(piece: Piece, enough: float = 1.0) -> float:
    """Return the median seconds of at least three calls, and of as many as fit into a second."""
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < enough and len(taken) < 200):
        taken.append(seconds_of(piece))
    return statistics.median(taken)


def row_by_row(size: int) -> float:
    rows = [{"x": row} for row in draw(64, size).astype(np.float64)]
    model = LeastSquaresClassifier(1.0, accumulator="recursive", fit_intercept=False)
    model.learn_many(draw(N_CLASSES, size), list(range(N_CLASSES)))

    def learn() -> None:
        for row in rows:
            _ = model.predict_one(row)
            model.learn_one(row, 0)

    return median_seconds(learn) / len(rows)


def batch_and_solution(size: int) -> tuple[float, float]:
    X, y = draw(BATCH, size), (np.arange(BATCH) % N_CLASSES).tolist()
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    model.learn_many(X, y)
    learnt = median_seconds(lambda: model.learn_many(X, y))
    solved = []
    for _ in range(3):
        model.learn_many(X, y)
        solved.append(seconds_of(lambda: model.output_weights))
    return learnt / BATCH, statistics.median(solved)


def exponent(cost: dict[int, float]) -> float:
    """Return the slope of the upper half in a log-log plot."""
    sizes = sorted(cost)[len(cost) // 2 :]
    seconds = [cost[size] for size in sizes]
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def plot(costs: Costs, exponents: dict[str, float], path: Path) -> None:
    with figure(path, 6, 4.5) as made:
        axes = made.subplots()
        for name, cost in costs.items():
            label = f"{name}: M^{exponents[name]:.2f}"
            axes.loglog(list(cost), list(cost.values()), marker="o", label=label)
        axes.set(xlabel="features M", ylabel="seconds", title="Cost of learning and solving")
        axes.grid(which="both", alpha=0.3)
        axes.legend(frameon=False)


if __name__ == "__main__":
    main()
