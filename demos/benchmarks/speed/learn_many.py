"""Measure learning in the Gram form against the bare product, hpelm and scikit-learn.

python demos/benchmarks/speed/learn_many.py
python demos/benchmarks/speed/learn_many.py --quick

Rows are float32, like the output of hidden layers, with labels of ten classes. The floor is BLAS's
dsyrk (rank-k update of a symmetric matrix) on 2,000 float64 rows that are already in memory. hpelm
(its own Gram, as in `add_data`) and scikit-learn's Ridge, which learns a single batch, also solve
for the weights, and so does onlinels in that comparison. All compute in float64.
`pip install 'onlinels[bench]'` installs both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import Array, Piece, compare, row_slices, speed_arguments, speed_parser

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor

N_CLASSES = 10


def main() -> None:
    arguments = speed_arguments(speed_parser(__doc__, repeats=5))
    n_features = 800 if arguments.quick else 6400
    by_batch_size(n_features, arguments.repeats)
    of_few_features(arguments.repeats)
    by_threads(n_features, arguments.repeats)
    by_classes(n_features, arguments.repeats)
    against_peers(n_features // 4, arguments.repeats)


class Floor:
    """dsyrk of float64 rows into a Gram, in Fortran order, in place."""

    def __init__(self, n_features: int, n_rows: int) -> None:
        self.gram = np.zeros((n_features, n_features), order="F")
        self.rows = np.random.default_rng(0).standard_normal((n_rows, n_features))

    def __call__(self) -> None:
        """Add the rows once."""
        self.gram = dsyrk(1.0, self.rows.T, 1.0, self.gram, overwrite_c=1)


def draw(n_rows: int, n_features: int, n_classes: int = N_CLASSES) -> tuple[Array, list[int]]:
    random = np.random.default_rng(1)
    rows = random.standard_normal((n_rows, n_features), dtype=np.float32)
    return rows, (np.arange(n_rows) % n_classes).tolist()


def learner(n_rows: int, batch_size: int, n_features: int, n_classes: int = N_CLASSES) -> Piece:
    """Return a function that learns rows in batches, in a model with known features and classes."""
    X, y = draw(n_rows, n_features, n_classes)
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    model.learn_many(X, y)

    def learn() -> None:
        for rows in row_slices(n_rows, batch_size):
            model.learn_many(X[rows], y[rows])

    return learn


def by_batch_size(n_features: int, repeats: int) -> None:
    floor = f"dsyrk, {n_features} features"
    pieces: dict[str, Piece] = {floor: Floor(n_features, 2000)}
    for batch_size in (2000, 1000, 200, 50):
        pieces[f"learn_many, {batch_size} rows"] = learner(2000, batch_size, n_features)
    compare("a row into the Gram", pieces, repeats, 2000, floor)


def of_few_features(repeats: int) -> None:
    """Compare batches of 1,000 rows of few features, with an intercept and one numeric target."""
    for n_features in (10, 64):
        X = np.random.default_rng(1).standard_normal((1000, n_features))
        model = LeastSquaresRegressor(ridge=1.0)
        model.learn_many(X, X[:, 0])
        pieces = {
            f"dsyrk, {n_features} features": a_hundred_times(Floor(n_features, 1000)),
            "learn_many": a_hundred_times(partial(model.learn_many, X, X[:, 0])),
        }
        compare("a row in batches of 1,000", pieces, repeats, 100_000, next(iter(pieces)))


def a_hundred_times(function: Callable[[], None]) -> Piece:
    """Return a function that calls another a hundred times."""

    def run() -> None:
        for _ in range(100):
            function()

    return run


def by_threads(n_features: int, repeats: int) -> None:
    learn = learner(1000, 1000, n_features)

    def limited(count: int) -> Piece:
        def run() -> None:
            with threadpool_limits(count, user_api="blas"):
                learn()

        return run

    most = max(library["num_threads"] for library in threadpool_info())
    pieces = {f"{count} threads": limited(count) for count in sorted({1, most})}
    compare("threads of BLAS", pieces, repeats, 1000, "1 threads")


def by_classes(n_features: int, repeats: int) -> None:
    pieces = {
        f"{n_classes} classes": learner(2000, 1000, n_features, n_classes)
        for n_classes in (10, 100, 1000)
    }
    compare("classes", pieces, repeats, 2000, "10 classes")


def against_peers(n_features: int, repeats: int) -> None:
    n_rows = 5 * n_features
    X, y = draw(n_rows, n_features)
    one_hot = np.eye(N_CLASSES)[y]
    pieces: dict[str, Piece] = {
        "onlinels": lambda: learn_and_solve(X, y),
        "scikit-learn Ridge": lambda: Ridge(1.0, fit_intercept=False).fit(
            X.astype(np.float64), one_hot
        ),
        "hpelm": lambda: with_hpelm(X.astype(np.float64), one_hot),
    }
    title = f"{n_rows} rows of {n_features} features learnt and solved"
    compare(title, pieces, repeats, n_rows, "onlinels")


def learn_and_solve(X: Array, y: list[int]) -> Array:
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    for rows in row_slices(len(X), 1000):
        model.learn_many(X[rows], y[rows])
    return model.output_weights


def with_hpelm(X: Array, one_hot: Array) -> Array:
    """Learn batches and solve with hpelm, whose hidden layer has only linear neurons."""
    from hpelm import ELM

    elm = ELM(X.shape[1], N_CLASSES, norm=1.0, batch=1000)
    elm.add_neurons(X.shape[1], "lin", np.eye(X.shape[1]), np.zeros(X.shape[1]))
    elm.train(X, one_hot, "r")
    weights: Array = elm.nnet.get_B()
    return weights


if __name__ == "__main__":
    main()
