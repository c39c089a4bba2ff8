"""A running mean that keeps its digits however far from 0 it lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.checks import Floats, Integers, Matrix
from onlinels.targets import target_sums


@dataclass(frozen=True)
class Mean:
    """The mean of rows, as an origin (their first row, at first) and an offset from it.

    A mean of 1e9 in one float64 is rounded by 1e-7 with every row; an offset of the size of the
    rows' deviation is not. If the first row lay far off, the offset would be as large: so the
    origin is `settled` at the mean from time to time.

    Parameters
    ----------
    origin, offset : ndarray (n_columns,)

    Examples
    --------
    >>> mean = Mean(np.array([1e9]), np.array([0.25]))
    >>> mean.moved(np.array([0.5])).minus(mean)
    array([0.5])
    """

    origin: Floats
    offset: Floats

    @classmethod
    def zeros(cls, n_columns: int) -> Mean:
        """Return the mean of nothing."""
        return cls(np.zeros(n_columns), np.zeros(n_columns))

    @classmethod
    def of(cls, row: Floats) -> Mean:
        """Return the mean of a single row."""
        return cls(row.copy(), np.zeros(len(row)))

    @classmethod
    def of_target(cls, targets: Matrix, n_targets: int) -> Mean:
        """Return the mean of one target, (1,) a label's column or (1, at most n_targets)."""
        return cls(Mean.zeros(n_targets).to_target(targets), np.zeros(n_targets))

    @property
    def value(self) -> Floats:
        """The mean, (n_columns,)."""
        return self.origin + self.offset

    def minus(self, other: Mean) -> Floats:
        """Return how far this mean lies from another."""
        return (self.origin - other.origin) + (self.offset - other.offset)

    def to(self, row: Floats) -> Floats:
        """Return how far a row lies from this mean."""
        apart = row - self.origin
        apart -= self.offset
        return apart

    def to_target(self, targets: Matrix) -> Floats:
        """Return how far one target, (1,) a label's column or (1, n_targets), lies from this."""
        apart = -self.origin
        if targets.ndim == 1:
            apart[targets[0]] += 1.0
        else:
            apart[: targets.shape[1]] += targets[0]
        apart -= self.offset
        return apart

    def moved(self, step: Floats) -> Mean:
        """Return the mean with its offset moved."""
        return Mean(self.origin, self.offset + step)

    def settled(self) -> Mean:
        """Return the same mean, exactly, with its value as the origin.

        References
        ----------
        D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2, theorem B.

        Examples
        --------
        >>> Mean(np.array([-1e16]), np.array([1e16 + 2.0])).settled()
        Mean(origin=array([2.]), offset=array([0.]))
        """
        value = self.value
        apart = value - self.origin
        return Mean(value, (self.origin - (value - apart)) + (self.offset - apart))

    def lengthened(self, n_columns: int) -> Mean:
        """Return the mean with columns appended that were 0 in every row."""
        return Mean(lengthened(self.origin, n_columns), lengthened(self.offset, n_columns))

    def placed(self, columns: Integers, n_columns: int) -> Mean:
        """Return the mean with its columns at the given places, and 0 elsewhere."""
        mean = Mean.zeros(n_columns)
        mean.origin[columns], mean.offset[columns] = self.origin, self.offset
        return mean

    def kept(self, columns: Integers) -> Mean:
        """Return the mean of some columns only."""
        return Mean(self.origin[columns], self.offset[columns])


def about_mean(block: Matrix, w: float | Floats, total: float) -> tuple[Floats, Mean]:
    """Return rows (n, n_columns) about their mean, and the mean, for weights and their total.

    Examples
    --------
    >>> centred, mean = about_mean(np.array([[1.0], [3.0]]), 1.0, 2.0)
    >>> centred.ravel(), mean.value
    (array([-1.,  1.]), array([2.]))
    """
    # Relative to the first row: a constant feature then has exactly its value as mean.
    first = block[0].astype(np.float64)
    centred = block - first
    shift = centred.mean(axis=0) if isinstance(w, float) else w @ centred / total
    centred -= shift
    return centred, Mean(first, shift)


def targets_about_mean(
    targets: Matrix, n_targets: int, w: float | Floats, total: float
) -> tuple[Matrix, Mean, Floats]:
    """Return targets about their mean, the mean, and the weighted sums of squares about it.

    Label columns stay as they are: their weighted sum over centred rows is the same.

    Examples
    --------
    >>> about, mean, squares = targets_about_mean(np.array([[1.0], [3.0]]), 1, 1.0, 2.0)
    >>> about.ravel(), mean.value, squares
    (array([-1.,  1.]), array([2.]), array([2.]))
    """
    weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(targets))
    if targets.ndim == 1:
        shares = target_sums(targets, n_targets, weights) / total
        return targets, Mean(np.zeros(n_targets), shares), total * shares * (1.0 - shares)
    about = targets - targets[0]
    shift = target_sums(about, n_targets, weights) / total
    about -= shift[: targets.shape[1]]
    squares = target_sums(about**2, n_targets, weights)
    return about, Mean(lengthened(targets[0].copy(), n_targets), shift), squares
