"""A running mean that keeps its digits however far from 0 it lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.arrays import Floats, Integers, Matrix


@dataclass(frozen=True)
class Mean:
    """The mean of rows, as a fixed origin (their first row) and an offset from it.

    A mean of 1e9 in one float64 is rounded by 1e-7 with every row; an offset of the size of the
    rows' deviation is not.

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
