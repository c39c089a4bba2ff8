"""What a row and a solution cost by the number of features, with fitted exponents and a plot.

python demos/benchmarks/speed/sizes.py
python demos/benchmarks/speed/sizes.py --quick

Arrays of 64 to 16,384 features, ten classes, no intercept. "predict, learn" is the recursive form,
row by row; "learn_many" are batches of 1,000; "solve" follows a batch. Exponents are fitted to the
upper half of the sizes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from measure import draw, in_words
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from onlinels import LeastSquaresClassifier, RecursiveAccumulator

BATCH, N_CLASSES = 1000, 10
Costs = dict[str, dict[int, float]]


def main() -> None:
    mpl.use("Agg")
    arguments = parse_arguments()
    sizes = [64 * 2**power for power in range(5 if arguments.quick else 9)]
    costs: Costs = {"predict, learn one": {}, "learn_many, a row": {}, "solve": {}}
    for size in track(sizes, "Measuring"):
        costs["predict, learn one"][size] = row_by_row(size)
        learnt, solved = batch_and_solution(size)
        costs["learn_many, a row"][size], costs["solve"][size] = learnt, solved
    exponents = {name: exponent(cost) for name, cost in costs.items()}
    print(f"{os.cpu_count()} cores")
    table = Table("features", *costs, box=SIMPLE)
    for size in sizes:
        table.add_row(str(size), *(in_words(cost[size]) for cost in costs.values()))
    table.add_row("exponent", *(f"{value:.2f}" for value in exponents.values()))
    Console().print(table)
    plot(costs, exponents, arguments.output)
    print(f"Plot: {arguments.output}")


def seconds_of(piece: Callable[[], object], enough: float = 1.0) -> float:
    """Return the median of at least three calls, and as many as take a second."""
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < enough and len(taken) < 200):
        started = time.perf_counter()
        piece()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def row_by_row(size: int) -> float:
    rows, label = draw(64, size).astype(np.float64), np.array([0])
    accumulator = RecursiveAccumulator(size, N_CLASSES, ridge=1.0)

    def learn() -> None:
        for row in rows:
            _ = row @ accumulator.solve(1.0)
            accumulator.update(row[None], label)

    return seconds_of(learn) / len(rows)


def batch_and_solution(size: int) -> tuple[float, float]:
    X, y = draw(BATCH, size), (np.arange(BATCH) % N_CLASSES).tolist()
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    model.learn_many(X, y)
    learnt = seconds_of(lambda: model.learn_many(X, y))
    solved = []
    for _ in range(3):
        model.learn_many(X, y)
        solved.append(seconds_once(lambda: model.output_weights))
    return learnt / BATCH, statistics.median(solved)


def seconds_once(piece: Callable[[], Any]) -> float:
    started = time.perf_counter()
    piece()
    return time.perf_counter() - started


def exponent(cost: dict[int, float]) -> float:
    """Return the slope of the upper half in a plot of logarithms."""
    sizes = sorted(cost)[len(cost) // 2 :]
    seconds = [cost[size] for size in sizes]
    slope: float = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    return float(slope)


def plot(costs: Costs, exponents: dict[str, float], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
    for name, cost in costs.items():
        label = f"{name}: M^{exponents[name]:.2f}"
        axes.loglog(list(cost), list(cost.values()), marker="o", label=label)
    axes.set(xlabel="features M", ylabel="seconds", title="What learning and solving cost")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("sizes.png"), help="(%(default)s)")
    parser.add_argument("--quick", action="store_true", help="64 to 1,024 features")
    arguments = parser.parse_args()
    if not arguments.output.resolve().parent.is_dir():
        parser.error(f"--output is {arguments.output}, expected a file in a folder that exists.")
    return arguments


if __name__ == "__main__":
    main()
