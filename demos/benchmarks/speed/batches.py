"""Measure batches of rows: learning them, and scikit-learn's chunks.

python demos/benchmarks/speed/batches.py
python demos/benchmarks/speed/batches.py --only learn partial_fit
python demos/benchmarks/speed/batches.py --quick

- learn: `learn_many` of float32 rows beside BLAS's dsyrk (rank-k update of a symmetric matrix) of
  float64 rows; the same rows learnt and solved beside scikit-learn's Ridge.
- partial_fit: chunks of 10,000 rows of 200 correlated columns of different scales beside Ridge.fit
  on all rows and SGD. Every model has one thread and, unless --quick, a process of its own. Memory
  is the peak beyond that before the first chunk and one chunk; errors are those on 20,000 other
  rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.linear_model import Ridge, RidgeClassifier, SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Array,
    Floats,
    Piece,
    call_alone,
    compare,
    forget_peak,
    memory,
    print_table,
    row_slices,
    seconds_of,
    speed_arguments,
    speed_parser,
    table_of,
)

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier

on_one_thread: Any = threadpool_limits.wrap(limits=1, user_api="blas")

N_CLASSES, CHUNK, N_COLUMNS, HELD_OUT = 10, 10_000, 200, 20_000


def main() -> None:
    arguments = speed_arguments(speed_parser(__doc__, 5, PARTS))
    for name in arguments.only:
        PARTS[name](arguments.quick, arguments.repeats)


# -- learn ----------------------------------------------------------------------------------------


class Floor:
    """dsyrk of float64 rows into a Gram, in Fortran order, in place."""

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.gram = np.zeros((n_features, n_features), order="F")
        self.rows = np.random.default_rng(0).standard_normal((n_rows, n_features))

    def __call__(self) -> None:
        """Add the rows once."""
        self.gram = dsyrk(1.0, self.rows.T, 1.0, self.gram, overwrite_c=1)


def learn(quick: bool, repeats: int) -> None:
    """Compare batches of different sizes, few features, one thread, and other libraries."""
    n_features = 800 if quick else 6400
    floor = f"dsyrk, {n_features} features"
    pieces: dict[str, Piece] = {floor: Floor(2000, n_features)}
    for size in (2000, 1000, 200, 50):
        pieces[f"learn_many, {size} rows"] = learning(2000, size, n_features)
    pieces["learn_many, 1000 rows, one thread"] = on_one_thread(learning(2000, 1000, n_features))
    compare("a row into the Gram", pieces, repeats, 2000, floor)
    for n_few in (10, 64):
        X = np.random.default_rng(1).standard_normal((1000, n_few))
        model, floor = LeastSquaresRegressor(ridge=1.0), f"dsyrk, {n_few} features"
        ours = partial(model.learn_many, X, X[:, 0])
        pieces = {floor: many_times(Floor(1000, n_few)), "learn_many": many_times(ours)}
        compare("a row in batches of 1,000", pieces, repeats, 100_000, floor)
    against_peers(n_features // 4, repeats)


def labelled(n_rows: int, n_features: int) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    X = random.standard_normal((n_rows, n_features), dtype=np.float32)
    return X, np.arange(n_rows) % N_CLASSES


def learning(n_rows: int, batch_size: int, n_features: int) -> Piece:
    """Return a function that learns rows in batches, in a model with known features and classes."""
    X, y = labelled(n_rows, n_features)
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
    model.learn_many(X, y)
    return lambda: [model.learn_many(X[rows], y[rows]) for rows in row_slices(n_rows, batch_size)]


def many_times(function: Piece) -> Piece:
    return lambda: [function() for _ in range(100)]


def against_peers(n_features: int, repeats: int) -> None:
    """Compare learning and solving with scikit-learn."""
    n_rows = 5 * n_features
    X, y = labelled(n_rows, n_features)
    one_hot = np.eye(N_CLASSES)[y]

    def ours() -> None:
        model = LeastSquaresClassifier(ridge=1.0, fit_intercept=False)
        for rows in row_slices(n_rows, 1000):
            model.learn_many(X[rows], y[rows])
        _ = model.output_weights

    ridge = Ridge(1.0, fit_intercept=False)
    pieces: dict[str, Piece] = {
        "onlinels": ours,
        "scikit-learn Ridge": lambda: ridge.fit(X.astype(float), one_hot),
    }
    title = f"{n_rows} rows of {n_features} features learnt and solved"
    compare(title, pieces, repeats, n_rows, "onlinels")


# -- chunks of scikit-learn -----------------------------------------------------------------------

AT_ONCE = "Ridge.fit, RidgeClassifier.fit"
ESTIMATORS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    AT_ONCE: (Ridge, RidgeClassifier),
    "IncrementalRidge, alpha=1.0": (IncrementalRidge, IncrementalRidgeClassifier),
    'IncrementalRidge, alpha="auto"': (
        lambda: IncrementalRidge(alpha="auto"),
        lambda: IncrementalRidgeClassifier(alpha="auto"),
    ),
    "SGD after StandardScaler": (
        lambda: make_pipeline(StandardScaler(), SGDRegressor(random_state=0)),
        lambda: make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
    ),
}
"""Estimators of numbers, and of labels."""


def partial_fit(quick: bool, repeats: int) -> None:
    """Compare chunks with all rows at once, for numbers, 2 and 10 classes."""
    # Starting processes would take most of the time of small chunks.
    n_rows, measured = (20_000, fitted) if quick else (1_000_000, partial(call_alone, fitted))
    for n_classes in (0, 2, 10):
        runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ESTIMATORS}
        for _ in range(repeats):
            for name, each in runs.items():
                each.append(measured(name, n_classes, n_rows))
        columns = "seconds", f"times {AT_ONCE}", "memory beyond a chunk, MiB", "1 - score"
        title = f"{n_rows:,} rows, {n_classes or 'no'} classes"
        table = table_of(title, *columns)
        floor = median(seconds for seconds, _, _ in runs[AT_ONCE])
        for name, each in runs.items():
            seconds, held, error = (median(values) for values in zip(*each, strict=True))
            cells = f"{seconds / floor:.2f}", f"{held / 2**20:.1f}", f"{error:.4g}"
            table.add_row(name, f"{seconds:.2f}", *cells)
        print_table(table)


def chunk(number: int, n_rows: int, n_classes: int) -> tuple[Floats, Array]:
    """Generate the rows and targets of the chunk with this number."""
    task, random = np.random.default_rng(0), np.random.default_rng((1, number))
    scales = np.exp(task.uniform(-1.5, 1.5, N_COLUMNS))
    weights = task.standard_normal((N_COLUMNS, max(n_classes, 1)))
    X = random.standard_normal((n_rows, N_COLUMNS))
    X[:, 1:] += 0.7 * X[:, :-1]
    scores = X @ weights
    scores += 0.5 * N_COLUMNS**0.5 * random.standard_normal(scores.shape)
    X *= scales
    return X, scores.argmax(axis=1) if n_classes else scores[:, 0]


def fitted(name: str, n_classes: int, n_rows: int) -> tuple[float, float, float]:
    """Return seconds, bytes held beyond one chunk and the error of a model, in this process."""
    model = ESTIMATORS[name][bool(n_classes)]()
    parts = [min(CHUNK, n_rows - start) for start in range(0, n_rows, CHUNK)]
    with threadpool_limits(1):
        fit_part(ESTIMATORS[name][bool(n_classes)](), *chunk(0, 500, n_classes), n_classes)
        before, peak, seconds = forget_peak(), 0, 0.0
        if name == AT_ONCE:
            X, y = np.empty((n_rows, N_COLUMNS)), np.empty(n_rows)
            for number, size in enumerate(parts, 1):
                rows = slice((number - 1) * CHUNK, (number - 1) * CHUNK + size)
                X[rows], y[rows] = chunk(number, size, n_classes)
            forget_peak()
            seconds, peak = seconds_of(partial(model.fit, X, y)), memory("VmHWM")
        else:
            for number, size in enumerate(parts, 1):
                X, y = chunk(number, size, n_classes)
                forget_peak()
                seconds += seconds_of(partial(fit_part, model, X, y, n_classes))
                peak = max(peak, memory("VmHWM"))
            seconds += seconds_of(lambda: getattr(model, "coef_", None))
        X, y = chunk(0, HELD_OUT, n_classes)
        held = max(0, peak - before - 8 * N_COLUMNS * parts[0])
        return seconds, held, 1.0 - model.score(X, y)


def fit_part(model: Any, X: Floats, y: Array, n_classes: int) -> None:
    """Learn a chunk: in a pipeline, first the scales."""
    if not hasattr(model, "steps") and not hasattr(model, "partial_fit"):
        model.fit(X, y)
        return
    if hasattr(model, "steps"):
        X = model[0].partial_fit(X).transform(X)
        model = model[-1]
    model.partial_fit(X, y, **({"classes": np.arange(n_classes)} if n_classes else {}))


PARTS: dict[str, Callable[[bool, int], None]] = {
    "learn": learn,
    "partial_fit": partial_fit,
}

if __name__ == "__main__":
    main()
