"""The numbers that every accumulator keeps: rows, their weight, their targets' squares."""

from __future__ import annotations

from typing import Self

import numpy as np

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.targets import add_target_sums


class Ledger:
    """Count rows, their total weight and the weighted sum of squares of every target.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    """

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        self._n_features = n_features
        self._n_targets = n_targets
        # A numpy integer is pickled to the same number of bytes whatever its value.
        self._count = np.int64(0)
        self._weight = 0.0
        self._target_squares = np.zeros(n_targets)

    @property
    def n_features(self) -> int:
        """Number of columns of the activations."""
        return self._n_features

    @property
    def n_targets(self) -> int:
        """Number of targets (classes)."""
        return self._n_targets

    @property
    def count(self) -> int:
        """Number of rows learnt, whatever their weights."""
        return int(self._count)

    @property
    def weight(self) -> float:
        """Total weight of the rows learnt, as it counts now."""
        return self._weight

    @property
    def target_squares(self) -> Floats:
        """Every target's weighted sum of squares, (n_targets,), as a new array."""
        return lengthened(self._target_squares, self._n_targets).copy()

    def _check_shape(self, activations: Matrix, sign: int) -> None:
        """Raise unless rows have all known features, and rows to take out are not too many."""
        if activations.shape[1] < self._n_features:
            raise ValueError(
                f"activations has {activations.shape[1]} columns, expected at least "
                f"{self._n_features}. Pass 0 for features that are absent."
            )
        if sign < 0 and len(activations) > self._count:
            raise ValueError(
                f"activations has {len(activations)} rows, expected at most the {self._count} that "
                "were learnt. Take out only rows that are in."
            )

    def _weigh(self, targets: Matrix, w: float | Floats) -> None:
        """Add the weights of rows, of any one sign, and their targets' squares."""
        weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(targets))
        squares = targets if targets.ndim == 1 else targets**2
        self._target_squares = lengthened(self._target_squares, self._n_targets)
        add_target_sums(self._target_squares, squares, weights)
        self._weight = max(0.0, self._weight + float(weights.sum()))

    def _add_weights(self, other: Self, sign: int) -> None:
        """Add or take away the weight and the targets' squares of `other`."""
        self._weight = max(0.0, self._weight + sign * other._weight)
        theirs = lengthened(other._target_squares, self._n_targets)
        self._target_squares = self.target_squares + sign * theirs

    def _weigh_like(self, other: Self, target_columns: Integers) -> None:
        """Take over the numbers of statistics whose targets are placed here."""
        self._count, self._weight = other._count, other._weight
        self._target_squares = np.zeros(self._n_targets)
        self._target_squares[target_columns] = other.target_squares


def lengthened(vector: Floats, length: int) -> Floats:
    """Return a vector with zeros appended up to a length: itself, if it has that already.

    Examples
    --------
    >>> lengthened(np.ones(1), 3)
    array([1., 0., 0.])
    """
    return vector if len(vector) == length else np.pad(vector, (0, length - len(vector)))
