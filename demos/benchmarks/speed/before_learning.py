"""Measure predictions before learning in batches, compared with a loop and other libraries.

    python demos/benchmarks/speed/before_learning.py [--features 10 20 64 213 1024]
    python demos/benchmarks/speed/before_learning.py --rows 1000000 --features 20

Rows have Gaussian features, and a noisy linear target or three classes. Times include reading
arrays and labels. The loop calls predict_one and learn_one on dicts. The compiled floor is
polars-ols (`pip install polars-ols`), recursive least squares in Rust for one target without an
intercept. The other peers are padasip (`pip install padasip`) and river. All of them use one thread
and take turns; figures are medians of CPU microseconds per row, and ratios within the same turn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["POLARS_MAX_THREADS"] = os.environ["RAYON_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from rich.table import Table
from river import linear_model

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import Array, Floats, bar, machine, make_parser, positive, print_table

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor

N_CLASSES = 3
POLARS = "polars-ols, rls"
LOOP = "onlinels, recursive: the loop"
BATCH = "onlinels, recursive"

Run = Callable[[int], float]
"""A function that predicts and learns the first rows, up to a number, and returns the seconds."""


def main() -> None:
    """Print a table for each number of features."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--features", type=positive, nargs="+", default=[10, 20, 64, 213, 1024])
    add("--rows", type=positive, help="rows (200,000 to 4,000, fewer for more features)")
    add("--repeats", type=positive, default=5, help="turns (%(default)s)")
    add("--quick", action="store_true", help="2,000 rows of 10 features, one turn")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.features, arguments.rows, arguments.repeats = [10], 2000, 1
    print(f"{machine()}; one thread, medians of {arguments.repeats} turns")
    for n_features in arguments.features:
        n_rows = arguments.rows or min(200_000, 4_000_000 // n_features)
        compare(n_features, n_rows, arguments.repeats)


def compare(n_features: int, n_rows: int, repeats: int) -> None:
    """Measure all runs in turns, and print a table."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    y = X @ random.normal(size=n_features) + random.normal(size=n_rows)
    labels = (X @ random.normal(size=(n_features, N_CLASSES))).argmax(axis=1)
    runs = of_one_target(X, y) | of_classes(X, labels)
    lengths = {name: length_of(name, n_features, n_rows) for name in runs}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in bar(range(repeats), f"{n_features} features"):
        for name, run in runs.items():
            seconds[name].append(run(lengths[name]) / lengths[name] * 1e6)
    table = Table(title=f"{n_features} features, {n_rows:,} rows")
    for column in ("", "us per row", f"ratio to {POLARS}", "ratio to the loop"):
        table.add_column(column, justify="left" if not column else "right")
    for name, each in seconds.items():
        ratios = [
            f"{median(a / b for a, b in zip(each, seconds[to], strict=True)):.3g}"
            if to in seconds
            else "-"
            for to in (POLARS, LOOP)
        ]
        table.add_row(name, f"{median(each):.3g}", *ratios)
    print_table(table)


def length_of(name: str, n_features: int, n_rows: int) -> int:
    """Return the number of rows to measure, fewer for slow runs."""
    slow = "loop" in name or "river" in name or "padasip" in name
    return min(n_rows, max(200, 500_000 // n_features)) if slow else n_rows


def timed(function: Callable[[], Any]) -> float:
    """Return the CPU time of a call, in seconds."""
    start = process_time()
    function()
    return process_time() - start


def batch(make: Callable[[], Any], X: Floats, y: Array) -> Run:
    """Return a run in one batch."""

    def run(n_rows: int) -> float:
        model = make()
        return timed(lambda: model.predict_learn_many(X[:n_rows], y[:n_rows]))

    return run


def loop(make: Callable[[], Any], X: Floats, y: Array) -> Run:
    """Return a run of predict_one and learn_one on dicts that are made before timing."""

    def run(n_rows: int) -> float:
        model = make()
        rows = [dict(enumerate(row)) for row in X[:n_rows].tolist()]
        targets = y[:n_rows].tolist()

        def predict_and_learn() -> None:
            for x, target in zip(rows, targets, strict=True):
                model.predict_one(x)
                model.learn_one(x, target)

        return timed(predict_and_learn)

    return run


def of_one_target(X: Floats, y: Floats) -> dict[str, Run]:
    """Return the runs with one numeric target, by name."""
    runs = {
        BATCH: batch(lambda: LeastSquaresRegressor(1.0, "recursive"), X, y),
        "onlinels, Gram": batch(lambda: LeastSquaresRegressor(1.0), X, y),
        'onlinels, Gram, ridge="auto"': batch(LeastSquaresRegressor, X, y),
        LOOP: loop(lambda: LeastSquaresRegressor(1.0, "recursive"), X, y),
    }
    if find_spec("polars_ols"):
        runs[POLARS] = by_polars(X, y)
    runs["river, BayesianLinearRegression: the loop"] = loop(
        linear_model.BayesianLinearRegression, X, y
    )
    frame, target = pd.DataFrame(X), pd.Series(y)

    def by_river(n_rows: int) -> float:
        model = linear_model.LinearRegression()

        def predict_and_learn() -> None:
            for start in range(0, n_rows, 1000):
                part = slice(start, min(start + 1000, n_rows))
                model.predict_many(frame.iloc[part])
                model.learn_many(frame.iloc[part], target.iloc[part])

        return timed(predict_and_learn)

    runs["river, LinearRegression: predict_many, then learn_many"] = by_river
    if find_spec("padasip"):
        runs["padasip, FilterRLS"] = by_padasip(X, y)
    return runs


def of_classes(X: Floats, labels: Array) -> dict[str, Run]:
    """Return the runs with classes, by name."""
    is_first = labels == 0
    return {
        "3 classes, recursive": batch(lambda: LeastSquaresClassifier(1.0, "recursive"), X, labels),
        "3 classes, Gram": batch(lambda: LeastSquaresClassifier(1.0), X, labels),
        '3 classes, Gram, ridge="auto"': batch(LeastSquaresClassifier, X, labels),
        "3 classes, recursive: the loop": loop(
            lambda: LeastSquaresClassifier(1.0, "recursive"), X, labels
        ),
        "2 classes, river, LogisticRegression: the loop": loop(
            linear_model.LogisticRegression, X, is_first
        ),
    }


def by_polars(X: Floats, y: Floats) -> Run:
    """Return recursive least squares of polars-ols."""
    import polars as pl
    import polars_ols  # noqa: F401 -- it adds the attribute least_squares to columns.

    names = [f"x{column}" for column in range(X.shape[1])]
    frame = pl.DataFrame(X, schema=names).with_columns(pl.Series("y", y))
    target: Any = pl.col("y")

    def run(n_rows: int) -> float:
        rows = frame.head(n_rows)
        expression = target.least_squares.rls(*map(pl.col, names), mode="predictions")
        return timed(lambda: rows.select(expression))

    return run


def by_padasip(X: Floats, y: Floats) -> Run:
    """Return recursive least squares of padasip."""
    import padasip

    def run(n_rows: int) -> float:
        model = padasip.filters.FilterRLS(n=X.shape[1], mu=1.0)
        return timed(lambda: model.run(y[:n_rows], X[:n_rows]))

    return run


if __name__ == "__main__":
    main()
