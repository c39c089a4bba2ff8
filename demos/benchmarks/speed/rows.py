"""One row at a time, predict, then learn: the recursive form against peers and its floor.

python demos/benchmarks/speed/rows.py
python demos/benchmarks/speed/rows.py --quick

Ten classes. The floor is BLAS's dsymv, the product of the symmetric inverse with a row. padasip's
FilterRLS and river's BayesianLinearRegression have one output; the line "ten of them" is ten times
that, one for each class. River's models and "onlinels, dicts" are given dicts, the others arrays.
Needs padasip (`pip install 'onlinels[bench]'`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
import padasip
from measure import Comparison, Piece, arguments_of, compare, show
from numpy.typing import NDArray
from river import linear_model
from scipy.linalg.blas import dsymv

from onlinels import LeastSquaresClassifier, RecursiveAccumulator

Array = NDArray[Any]

N_CLASSES = 10
N_ROWS = 64
"""Different rows, taken in turn."""

N_FEW = 4
"""Rows for peers that take long."""


def main() -> None:
    arguments = arguments_of(__doc__, repeats=9)
    for n_features in (64, 256) if arguments.quick else (64, 256, 1024, 4096):
        compared = measure(n_features, arguments.repeats, slow=n_features <= 1024)
        show(compared, "dsymv")


def measure(n_features: int, repeats: int, slow: bool) -> Comparison:
    """Time pieces that each deal with some rows; `slow` ones take seconds beyond 1,024 features."""
    random = np.random.default_rng(0)
    X = random.standard_normal((N_ROWS, n_features))
    y = (np.arange(N_ROWS) % N_CLASSES).tolist()
    # As many as the recursive form gathers corrections of, before it takes them in at once.
    n_rows = N_ROWS
    pieces: dict[str, Piece] = {
        "dsymv": symmetric_product(X, n_rows),
        "onlinels, accumulator": with_accumulator(X, y, n_rows),
        "onlinels, dicts": with_dicts(X, y, n_rows),
        "numpy, as in textbooks": with_numpy(X, y, n_rows),
    }
    compared = compare(f"{n_features} features", pieces, repeats, n_rows)
    seconds = dict(compared.seconds)
    if slow:
        few = {
            "padasip, one output": with_padasip(X, y, N_FEW),
            "river, one output, dicts": with_river(X, y, N_FEW),
        }
        for name, taken in compare("", few, repeats).seconds.items():
            seconds[name] = taken * n_rows / N_FEW
            seconds[name.replace("one output", "ten of them")] = N_CLASSES * seconds[name]
    return Comparison(compared.title, seconds, n_rows)


def rows_of(X: Array, y: list[int]) -> Iterator[tuple[Array, int]]:
    return cycle(zip(X, y, strict=True))


def samples_of(X: Array, y: list[int]) -> Iterator[tuple[dict[Any, float], int]]:
    names = [f"feature {number}" for number in range(X.shape[1])]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return cycle(zip(dicts, y, strict=True))


def symmetric_product(X: Array, n_rows: int) -> Piece:
    inverse, rows = np.eye(X.shape[1], order="F"), cycle(X)

    def run() -> None:
        for _ in range(n_rows):
            dsymv(1.0, inverse, next(rows))

    return run


def with_accumulator(X: Array, y: list[int], n_rows: int) -> Piece:
    accumulator = RecursiveAccumulator(X.shape[1], N_CLASSES, ridge=1.0)
    rows = rows_of(X, y)

    def run() -> None:
        for _ in range(n_rows):
            row, label = next(rows)
            _ = row @ accumulator.solve(1.0)
            accumulator.update(row[None], np.array([label]))

    return run


def with_dicts(X: Array, y: list[int], n_rows: int) -> Piece:
    model = LeastSquaresClassifier(ridge=1.0, accumulator="recursive", fit_intercept=False)
    samples = samples_of(X, y)

    def run() -> None:
        for _ in range(n_rows):
            x, label = next(samples)
            model.predict_one(x)
            model.learn_one(x, label)

    return run


def with_numpy(X: Array, y: list[int], n_rows: int) -> Piece:
    state = [np.eye(X.shape[1]), np.zeros((X.shape[1], N_CLASSES))]
    rows, targets = rows_of(X, y), np.eye(N_CLASSES)

    def run() -> None:
        for _ in range(n_rows):
            row, label = next(rows)
            inverse, weights = state
            error = targets[label] - row @ weights
            product = inverse @ row
            gain = product / (1.0 + row @ product)
            state[:] = inverse - np.outer(gain, product), weights + np.outer(gain, error)

    return run


def with_padasip(X: Array, y: list[int], n_rows: int) -> Piece:
    model = padasip.filters.FilterRLS(X.shape[1], mu=1.0, eps=1.0)
    rows = rows_of(X, y)

    def run() -> None:
        for _ in range(n_rows):
            row, label = next(rows)
            model.predict(row)
            model.adapt(float(label == 0), row)

    return run


def with_river(X: Array, y: list[int], n_rows: int) -> Piece:
    model: Any = linear_model.BayesianLinearRegression()
    samples = samples_of(X, y)

    def run() -> None:
        for _ in range(n_rows):
            x, label = next(samples)
            model.predict_one(x)
            model.learn_one(x, float(label == 0))

    return run


if __name__ == "__main__":
    main()
