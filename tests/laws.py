"""Reusable laws: what must hold between an online model and the batch solution."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels import (
    GramAccumulator,
    OrthogonalAccumulator,
    RecursiveAccumulator,
    StreamClassifier,
)
from strategies import Rows, Stream

EPS = np.finfo(np.float64).eps


def one_hot(y: list[Any], classes: tuple[Any, ...]) -> np.ndarray:
    """Return targets (n, n_classes)."""
    return np.array([[float(label == other) for other in classes] for label in y])


def outputs_of(model: Any) -> tuple[Any, ...]:
    """Return the names of the columns of a model's weights."""
    return model.classes if hasattr(model, "classes") else getattr(model, "target_names", ("y",))


def targets_of(model: Any, y: list[Any]) -> np.ndarray:
    """Return what a model regresses on, (n, n_targets): one-hot labels, or the numbers."""
    if hasattr(model, "classes"):
        assert set(model.classes) == set(y)
        return one_hot(y, model.classes)
    rows = [targets if isinstance(targets, dict) else {"y": targets} for targets in y]
    return np.array([[float(row[name]) for name in outputs_of(model)] for row in rows])


def weighted_centred(
    X: np.ndarray, Y: np.ndarray, w: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return sqrt(w)-weighted rows and targets about their means, and the means."""
    zero = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    weights = w / w.sum() if w.any() else w
    x_mean, y_mean = (weights @ X, weights @ Y) if fit_intercept else zero
    root = np.sqrt(w)[:, None]
    return root * (X - x_mean), root * (Y - y_mean), x_mean, y_mean


def assert_is_batch_solution(
    model: Any, rows: Rows, columns: Any = None, size: float = 0.0, count: int | None = None
) -> None:
    """Assert that the weights solve the batch problem on these rows, by the backward residual.

    The model's features are columns of the rows, by number unless `columns` says otherwise.

    What rows that were taken out again weighed is the `size` that rounding errors are relative to.
    Rows that were taken out in part do not count any more: the model's `count` is then less.

    The residual of (A'A + c I) W = A'Y, relative to the size of its terms, is at rounding level
    whatever the condition number. At ridge 0 the weights moreover have no part in the null space,
    unless rounding errors of rows that were taken out hide it.
    """
    assert model.count == (len(rows) if count is None else count)
    X = rows.X.astype(np.float64)[:, list(model.feature_names if columns is None else columns)]
    Y = targets_of(model, rows.y)
    A, T, x_mean, y_mean = weighted_centred(X, Y, rows.w, model.fit_intercept)
    W = model.output_weights
    assert W.shape == (X.shape[1], Y.shape[1])
    residual = A.T @ (A @ W - T) + model.ridge_diagonal[:, None] * W
    largest = max(1.0, np.abs(Y).max(initial=0.0))
    hidden = size > 0.0
    size += np.linalg.norm(A) ** 2 * max(1.0, np.linalg.norm(W))
    size += np.linalg.norm(A) * len(Y) * largest
    allowed = 1e4 * EPS * (size + 1.0) * lost_digits(model, max(size, np.linalg.norm(A) ** 2))
    assert np.abs(residual).max(initial=0.0) <= allowed, (np.abs(residual).max(), allowed)
    if model.ridge_ == 0.0 and not hidden:
        # Minimum norm: W = A^+ A W.
        projected = np.linalg.pinv(A, rcond=1e-9) @ (A @ W)
        np.testing.assert_allclose(W, projected, atol=1e-7 * (1.0 + np.abs(W).max(initial=0.0)))
    if model.fit_intercept:
        constant = y_mean - x_mean @ W
        np.testing.assert_allclose(model.intercept, constant, atol=1e-10 * largest)
    else:
        assert not model.intercept.any()


def lost_digits(model: Any, size: float) -> float:
    """Return how much larger than elsewhere rounding errors of the recursive form may be.

    Those of its inverse are relative to 1 / ridge, so what has grown to s keeps 16 - log10(s / c)
    digits.
    """
    if model._statistics.fixed_ridge is None or not len(model.ridge_diagonal):
        return 1.0
    return 1.0 + size / float(model.ridge_diagonal.min())


def assert_same_model(a: Any, b: Any) -> None:
    """Assert that two models have learnt the same, feature by feature and output by output."""
    assert a.count == b.count
    assert set(outputs_of(a)) == set(outputs_of(b))
    assert set(a.feature_names) == set(b.feature_names)
    expected, found = aligned_gram(a, a), aligned_gram(b, a)
    allowed = 1e-10 + 1e-12 * np.abs(expected) + rounding(a)
    assert (np.abs(found - expected) <= allowed).all(), (found, expected)


def gram_and_cross(statistics: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return A'A and A'Y, from their factor where that is what is kept."""
    if isinstance(statistics, OrthogonalAccumulator):
        factor = statistics.factor
        return factor.T @ factor, factor.T @ statistics.rotated_targets
    if isinstance(statistics, RecursiveAccumulator):
        statistics = statistics._gram()
    return statistics.gram, statistics.cross


def inner_statistics(model: Any) -> Any:
    """Return what is inside the accumulator that centres, or the accumulator itself."""
    statistics = model._statistics.unfolded()
    return getattr(statistics, "_comoments", statistics)


def aligned_gram(model: Any, like: Any) -> np.ndarray:
    """Return [gram, cross] of a model in the order of features and outputs of another."""
    features = [model.feature_names.index(name) for name in like.feature_names]
    outputs = [outputs_of(model).index(name) for name in outputs_of(like)]
    gram, cross = gram_and_cross(inner_statistics(model))
    return np.hstack([gram[np.ix_(features, features)], cross[np.ix_(features, outputs)]])


def rounding(model: Any) -> Any:
    """Return how far sums of products may be off by rounding, entry by entry of `aligned_gram`.

    A sum of products is a sum, right to rounding itself. A factor is that of slightly other
    columns: off by eps times the length of the two columns.
    """
    statistics = inner_statistics(model)
    if isinstance(statistics, GramAccumulator):
        return 0.0
    lengths = np.sqrt(statistics.diagonal)
    targets = np.sqrt(np.abs(model._statistics._raw_squares()[1]))
    allowed = 100 * EPS * np.outer(lengths, np.hstack([lengths, targets]))
    return allowed * lost_digits(model, 10.0 * float(statistics.diagonal.sum()))


def assert_unchanged(before: bytes, model: Any, dump: Any) -> None:
    """Assert that a failed call left no trace in the model's state."""
    assert dump(model) == before


def assert_solves_weighted_ridge(
    W: np.ndarray, diagonal: np.ndarray, A: np.ndarray, Y: np.ndarray, w: np.ndarray
) -> None:
    """Assert (A'DA + R) W = A'DY for weights D = diag(w) and ridge R, by the backward residual.

    Relative to the size of its terms it is at rounding level, times the digits lost by what has
    grown beside the ridge (see `lost_digits`).
    """
    assert W.shape == (A.shape[1], Y.shape[1])
    assert diagonal.shape == (A.shape[1],)
    residual = A.T @ (w[:, None] * (A @ W - Y)) + diagonal[:, None] * W
    squares = float(w @ (A**2).sum(axis=1))
    size = squares * np.linalg.norm(W) + np.sqrt(squares * w.sum())
    allowed = 10.0 * EPS * (1.0 + squares / diagonal.min(initial=np.inf)) * (1.0 + size)
    assert np.abs(residual).max(initial=0.0) <= allowed, (np.abs(residual).max(), allowed)


def stream_state(model: Any) -> tuple[Any, ...]:
    """Return all that later answers depend on."""
    arrays = [model._scaler.counts, model._scaler.means, model._scaler.variances]
    for memories in (model._pool.wide, model._pool.narrow):
        for recursion in (memories.long, memories.short):
            arrays += [recursion.weights, np.array(recursion.level)]
    rest = model.count, model.classes, model.feature_names, model.shares, list(model._recent)
    return [array.tobytes() for array in arrays], rest


def assert_alike_streams(a: Any, b: Any, samples: list[Any]) -> None:
    """Assert that two models are one, bit for bit, and answer alike."""
    assert stream_state(a) == stream_state(b)
    assert a.predict_proba_many(samples) == b.predict_proba_many(samples)


def learn_stream(stream: Stream, model: Any = None, rows: Any = None) -> Any:
    """Learn samples one by one, all unless `rows` says which, and return the model."""
    model = StreamClassifier() if model is None else model
    for row in range(len(stream)) if rows is None else rows:
        model.learn_one(stream.samples[row], stream.labels[row])
    return model
