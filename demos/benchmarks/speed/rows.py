"""Measure single rows in river's form: a prediction and learn_one on dicts of floats.

    OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/rows.py [--features 5 10 20 64 256]
    ONLINELS_CORE=reference python demos/benchmarks/speed/rows.py

Every ratio is relative to river's LogisticRegression in the same turn. The models take turns in
pieces of 100 rows: the median piece is the cost of a row, and the mean also holds selections of the
ridge and new solutions. Times are CPU times.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from statistics import fmean, median
from time import process_time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import sys
from pathlib import Path

import numpy as np
from rich.table import Table
from river import linear_model, naive_bayes

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import bar, machine, make_parser, positive, print_table

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor, StreamClassifier
from onlinels.core import IN_USE

PEER = "river, LogisticRegression"
PIECE = 100

Pair = Callable[[dict[str, float], bool, float], None]
"""A function that predicts a row and learns it, given its label and its target."""


def main() -> None:
    """Print microseconds per pair, and ratios, for each number of features."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--features", type=positive, nargs="+", default=[5, 10, 20, 64, 256])
    add("--rows", type=positive, default=4000, help="rows before and while timing (%(default)s)")
    add("--peers", action="store_true", help="other models, too")
    add("--quick", action="store_true", help="300 rows of 5 features")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.features, arguments.rows = [5], 300
    print(f"{machine()}; core: {IN_USE}; one thread, us per pair")
    for n_features in arguments.features:
        compare(n_features, arguments.rows, arguments.peers)


def pairs(peers: bool) -> dict[str, Pair]:
    """Return what to measure, by name."""

    def of_labels(model: Any) -> Pair:
        def pair(x: dict[str, float], label: bool, target: float) -> None:
            model.predict_one(x)
            model.learn_one(x, label)

        return pair

    def of_numbers(model: Any, ask: str = "predict_one") -> Pair:
        answer = getattr(model, ask)

        def pair(x: dict[str, float], label: bool, target: float) -> None:
            answer(x)
            model.learn_one(x, target)

        return pair

    made = {
        PEER: of_labels(linear_model.LogisticRegression()),
        "classifier, default": of_labels(LeastSquaresClassifier()),
        "classifier, recursive": of_labels(LeastSquaresClassifier(1.0, "recursive")),
        "regressor, default": of_numbers(LeastSquaresRegressor()),
        "regressor, recursive": of_numbers(LeastSquaresRegressor(1.0, "recursive")),
        "with an interval": of_numbers(LeastSquaresRegressor(1.0), "predict_interval_one"),
    }
    if peers:
        made["StreamClassifier"] = of_labels(StreamClassifier())
        made["river, LinearRegression"] = of_numbers(linear_model.LinearRegression())
        made["river, SoftmaxRegression"] = of_labels(linear_model.SoftmaxRegression())
        untyped: Any = naive_bayes.GaussianNB  # Its constructor has no types.
        made["river, GaussianNB"] = of_labels(untyped())
    return made


def stream(n_features: int, n_rows: int) -> list[tuple[dict[str, float], bool, float]]:
    """Return samples with a noisy linear target and its sign."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    y = X @ random.normal(size=n_features) + random.normal(size=n_rows)
    names = [f"x{column}" for column in range(n_features)]
    samples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return list(zip(samples, (y > 0.0).tolist(), y.tolist(), strict=True))


def seconds(pair: Pair, rows: Sequence[Any]) -> float:
    """Return the CPU time of predicting and learning rows."""
    start = process_time()
    for x, label, target in rows:
        pair(x, label, target)
    return process_time() - start


def compare(n_features: int, n_rows: int, peers: bool) -> None:
    """Print a table for one number of features."""
    rows, made = stream(n_features, 2 * n_rows), pairs(peers)
    for pair in made.values():
        seconds(pair, rows[:n_rows])
    times: dict[str, list[float]] = {name: [] for name in made}
    starts = range(n_rows, 2 * n_rows, PIECE)
    for start in bar(starts, f"{n_features} features", len(starts)):
        piece = rows[start : start + PIECE]
        for name, pair in made.items():
            times[name].append(seconds(pair, piece) / len(piece) * 1e6)
    table = Table(title=f"{n_features} features, rows {n_rows:,} to {2 * n_rows:,}")
    for column in ("", "median", f"to {PEER}", "mean", "to the peer's mean"):
        table.add_column(column, justify="left" if not column else "right")
    for name, each in times.items():
        ratio = median(a / b for a, b in zip(each, times[PEER], strict=True))
        of_means = fmean(each) / fmean(times[PEER])
        figures = median(each), ratio, fmean(each), of_means
        table.add_row(name, *(f"{figure:.3g}" for figure in figures))
    print_table(table)


if __name__ == "__main__":
    main()
