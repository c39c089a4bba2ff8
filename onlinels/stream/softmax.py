"""Softmax regression by stochastic gradient descent: it adapts slowly, so late labels harm less."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.linalg.blas import dger

from onlinels.checks import Floats
from onlinels.numerics import enlarged, shallow_copy
from onlinels.saving import savable
from onlinels.stream.features import row_products

LEARNING_RATE = 0.01
"""Learning rate, as in river's models."""


@savable()
class Softmax:
    """Softmax regression: each row z of weight w adds 0.01 w z (y - softmax(z'W))' to weights W.

    Attributes
    ----------
    weights : ndarray (n_features, n_classes)
        The weights W.

    Examples
    --------
    >>> from onlinels.numerics import apply
    >>> softmax, row = Softmax().grown(1, 2), np.array([10.0])
    >>> errors = np.array([0.0, 1.0]) - softmax.probabilities(row)
    >>> apply(((softmax.plan(row, errors),), ()))
    >>> softmax.probabilities(row).round(2)
    array([0.27, 0.73])
    """

    def __init__(self) -> None:
        self.weights = np.zeros((0, 0), order="F")

    def grown(self, n_features: int, n_classes: int) -> Self:
        """Return a copy with room for new features and classes."""
        new = shallow_copy(self)
        new.weights = enlarged(self.weights, n_features, n_classes)
        return new

    def copied(self) -> Self:
        """Return an independent copy."""
        new = shallow_copy(self)
        new.weights = self.weights.copy(order="F")
        return new

    def probabilities(self, rows: Floats) -> Floats:
        """Return the probabilities (..., n_classes) of rows (..., n_features)."""
        probabilities = np.empty((*rows.shape[:-1], self.weights.shape[1]))
        row_products(rows, self.weights, probabilities)
        to_probabilities(probabilities)
        return probabilities

    def plan(self, row: Floats, errors: Floats, w: float = 1.0) -> tuple[Any, ...]:
        """Plan to learn a row (n_features,), given targets minus probabilities (n_classes,)."""
        return (dger, w * LEARNING_RATE, row, errors, 1, 1, self.weights, 0, 0, 1)


def to_probabilities(scores: Floats) -> None:
    """Replace scores (..., n_classes) by their softmax, in place."""
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=-1, keepdims=True)
