"""The numbers that every accumulator keeps: rows, their weight, their targets' squares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

from onlinels.accumulators.removal import SLACK
from onlinels.checks import (
    SMALLEST_SQUARES,
    TOO_MANY_FEATURES,
    Floats,
    Integers,
    Matrix,
    check_room,
)
from onlinels.commit import Commit
from onlinels.targets import add_target_sums

MOST_ROWS = int(np.iinfo(np.int64).max)
"""Rows that can be counted."""

RESIDUE = 1e-13
"""Sum of squares, relative to what was taken out of it, up to which nothing is left."""


class Ledger(ABC):
    """Count rows, their total weight and the weighted sum of squares of every target.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    """

    def __init__(self, n_features: int = 0, n_targets: int = 0) -> None:
        self._n_features = self._n_targets = 0
        self.check_room(n_features, n_targets)
        self._n_features = n_features
        self._n_targets = n_targets
        # A numpy integer is pickled to the same number of bytes whatever its value.
        self._count = np.int64(0)
        self._weight = 0.0
        self._target_squares = np.zeros(n_targets)
        # Squares of features and targets that were taken out, whose rounding errors stay.
        self._removed: tuple[Floats, ...] = np.zeros(0), np.zeros(0)

    @property
    def n_features(self) -> int:
        """Number of columns of the activations."""
        return self._n_features

    @property
    def n_targets(self) -> int:
        """Number of targets (classes)."""
        return self._n_targets

    @property
    def _sizes(self) -> tuple[int, int]:
        return self._n_features, self._n_targets

    room_remedy = TOO_MANY_FEATURES
    """What to do about too many features or targets."""

    @abstractmethod
    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""

    def check_room(self, n_features: int, n_targets: int) -> None:
        """Raise if so many features and targets can never fit into memory.

        Raises
        ------
        ValueError
            If they are more than there are so far, and too many; see `onlinels.memory`.
        """
        if n_features > self._n_features or n_targets > self._n_targets:
            sizes = max(n_features, self._n_features), max(n_targets, self._n_targets)
            what = "To learn and to solve {:,} features with {:,} targets"
            check_room(self.bytes_for(*sizes), what, *sizes, remedy=self.room_remedy)

    def check_joins(self, other: Self, n_features: int, n_targets: int) -> None:
        """Raise if statistics of two streams can never be held together.

        Raises
        ------
        ValueError
            If features and targets take too much memory, or rows are too many to be counted in
            64 bits, or sums of squares beyond float64.
        """
        self.check_room(n_features, n_targets)
        if self.count + other.count > MOST_ROWS:
            raise ValueError(
                f"other has learnt {other.count} rows, expected at most {MOST_ROWS} together with "
                f"the {self.count} here: rows are counted in 64 bits. Leave one of them out."
            )
        with np.errstate(over="ignore"):
            squares = [self._raw_squares(), other._raw_squares()]
            largest = [sum(float(part.max(initial=0.0)) for part in each) for each in squares]
        if not sum(largest) < np.inf:
            raise ValueError(
                f"other has sums of squares of {largest[1]:g}, those here are {largest[0]:g}, "
                "expected sums that float64 holds. Rescale features or weights of rows."
            )

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

    def _weigh(self, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add the weights of rows, of any one sign, and their targets' squares."""
        sums = self.target_squares
        if targets.shape == (1,) and isinstance(w, float):
            sums[targets[0]] += w
            total = w
        else:
            weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(targets))
            add_target_sums(sums, targets if targets.ndim == 1 else targets**2, weights)
            total = float(weights.sum())
        commit.assign(self, _target_squares=sums, _weight=max(0.0, self._weight + total))

    def _add_weights(self, other: Self, sign: int) -> None:
        """Add or take away the weight and the targets' squares of `other`."""
        self._weight = max(0.0, self._weight + sign * other._weight)
        theirs = lengthened(other._target_squares, self._n_targets)
        self._target_squares = self.target_squares + sign * theirs

    def _without_residue(self, squares: Floats) -> Floats:
        """Set sums of squares of features to 0 where only rounding errors can be left, in place.

        That is also where squares are below 1e-305.
        """
        squares[squares < SMALLEST_SQUARES] = 0.0
        if len(self._removed[0]):
            squares[squares <= RESIDUE * lengthened(self._removed[0], len(squares))] = 0.0
        return squares

    @property
    def _weightless(self) -> NDArray[np.bool_]:
        """Whether all that was learnt of a target is taken out again, (n_targets,)."""
        held: NDArray[np.bool_] = self._raw_squares()[1] <= SLACK * lengthened(
            self._removed[1], self._n_targets
        )
        return held

    @property
    def _held_squares(self) -> Floats:
        """Every target's sum of squares, 0 where all is taken out again; labels': their weights."""
        squares = self._raw_squares()[1]
        residue = RESIDUE * lengthened(self._removed[1], self._n_targets)
        held: Floats = np.where(squares > residue, squares, 0.0)
        return held

    @abstractmethod
    def _raw_squares(self) -> tuple[Floats, Floats]:
        """Return the weighted sums of squares of features and targets, not about their means."""

    def _remove_squares(self, features: Floats, targets: Floats) -> None:
        """Take note of sums of squares that are taken out."""
        removed = self._removed
        self._removed = (
            lengthened(removed[0], self._n_features) + lengthened(features, self._n_features),
            lengthened(removed[1], self._n_targets) + lengthened(targets, self._n_targets),
        )

    def _weigh_like(self, other: Self, feature_columns: Integers, target_columns: Integers) -> None:
        """Take over the numbers of statistics whose columns are placed here."""
        places = zip(self._sizes, (feature_columns, target_columns), other._removed, strict=True)
        self._removed = tuple(_placed(*each) for each in places)
        self._count, self._weight = other._count, other._weight
        self._target_squares = _placed(self._n_targets, target_columns, other.target_squares)

    def _keep_weights(self, columns: Integers) -> None:
        """Drop the numbers of all targets but some."""
        removed = self._removed[0], lengthened(self._removed[1], self._n_targets)[columns]
        self._target_squares, self._removed = self.target_squares[columns], removed
        self._n_targets = len(columns)


def _placed(length: int, columns: Integers, vector: Floats) -> Floats:
    placed = np.zeros(length)
    placed[columns] = lengthened(vector, len(columns))
    return placed


def lengthened(vector: Matrix, length: int) -> Matrix:
    """Return a vector with zeros appended up to a length: itself, if it has that already.

    Examples
    --------
    >>> lengthened(np.ones(1), 3)
    array([1., 0., 0.])
    """
    if len(vector) == length:
        return vector
    longer = np.zeros(length, dtype=vector.dtype)
    longer[: len(vector)] = vector
    return longer
