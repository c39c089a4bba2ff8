"""What removed rows leave in sums: rounding errors, and fingerprints of the rows that stay.

Rounding errors can hide what is left in sums of squares after rows were removed. Sums of whole
numbers have no rounding errors. So every value gets a whole number h of 21 bits, 0 for 0, and three
sums are kept for each column, its fingerprint: of h and of h^2 over all rows, and the number of
rows in which the value is not 0. They add up when models are merged and subtract when rows are
removed. n sum(h^2) = sum(h)^2 only if all h are equal (Cauchy and Schwarz). One pair of values in
two million has the same h. The number of rows does not depend on the digits with which a row is
removed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix
from onlinels.core.constants import EPS
from onlinels.core.reference import hashes_of
from onlinels.numerics import Block, is_array
from onlinels.saving import savable
from onlinels.sums.axes import Places, Room, has_axes, moved_by_axes

MAX_LOST = 5e-7
"""Largest estimated error of the fit, relative to the targets, that removals may cause.

1e-6 is promised. Errors may exceed their estimates.
"""

MAX_WHOLE = 2.0**40
"""Sum of squares up to which other than whole numbers are hardly ever rounded to whole numbers."""

ROWS_PER_PRODUCT = 256
"""Number of rows whose products BLAS sums up, about, before it adds them to the sums."""


@savable(
    lambda rounding: is_array(rounding.sums, *rounding.squares.shape),
    take=lambda rounding: rounding.shared()._asdict(),
    make=lambda state: Rounding(**state).shared(),
    is_value=True,
)
@has_axes(squares=("columns",), sums=("columns",))
class Rounding(NamedTuple):
    """Rounding errors of sums from which rows were removed: estimates of their largest size.

    Adding rows rounds sums at their size. The errors stay when rows are removed and the sums
    shrink, so they are noted at every removal. Before the first removal they are 0: the errors of
    rows that only add up are as small as those of any float64 sum. What is noted of a removal is a
    power of 2, which depends on the sums before it, not on the removed rows: these cannot be
    computed from it.

    Attributes
    ----------
    squares : ndarray (n_features + n_targets,)
        Errors of the sums of squares of the features, followed by those of the targets.
    sums : ndarray (n_features + n_targets,)
        Errors of the sums of the features and of the targets: of their means, times the weight of
        the rows.
    weight : float
        Error of the weight of the rows.
    offset : float
        Number of roundings of the sums since the last removal, minus the number of rows. So a
        single row, which is one addition, changes nothing here.
    """

    squares: Floats
    sums: Floats
    weight: float = 0.0
    offset: float = 0.0

    @classmethod
    def none(cls, size: int, offset: float = 0.0) -> Rounding:
        """Return the errors of sums of `size` features and targets before any removal."""
        zeros = no_errors(size)
        return cls(zeros, zeros, 0.0, offset)

    @property
    def is_none(self) -> bool:
        """Whether no row was removed, as the shared zeros tell."""
        return self.squares is self.sums is no_errors(len(self.sums))

    def shared(self) -> Rounding:
        """Return equal errors, which are the shared zeros before a removal."""
        parts = self.squares, self.sums
        is_zero = all(is_array(each, len(each)) and not each.any() for each in parts)
        is_zero = is_zero and len(self.squares) == len(self.sums) and not self.weight
        return Rounding.none(len(self.sums), self.offset) if is_zero else self

    def __reduce__(self) -> Any:
        return (
            (no_rounding, (len(self.sums), self.offset)) if self.is_none else (Rounding, (*self,))
        )

    def reindexed(self, places: Places) -> Rounding:
        """Return the errors of other features and targets."""
        if self.is_none:
            return Rounding.none(len(places.of("columns")), self.offset)
        return moved_by_axes(self, places)

    def with_room(self, room: Room) -> Rounding:
        """Return the errors of more features and targets, which were 0 so far."""
        if self.squares is self.sums is no_errors(len(self.sums)):  # `is_none`, without a call
            zeros = no_errors(sum(room.new))
            return Rounding(zeros, zeros, 0.0, self.offset)
        squares, sums = (room.array(each, ("columns",)) for each in (self.squares, self.sums))
        return self._replace(squares=squares, sums=sums)

    def scaled(self, decay: float) -> Rounding:
        """Return the errors of sums that are multiplied by a factor."""
        if self.is_none:
            return self
        squares, sums, weight, offset = self
        return Rounding(squares * decay, sums * decay, weight * decay, offset)

    def after(self, n_rows: int) -> Rounding:
        """Return the errors after a batch of rows is added."""
        return self._replace(offset=self.offset + n_additions(n_rows) - n_rows)

    def relative(self, count: int, n_rows: int) -> float:
        """Return the relative error of sums of `count` rows after `n_rows` are removed at once."""
        # A row about the mean, its products and the sums: four roundings of up to EPS / 2 each.
        return float(EPS * np.sqrt(max(0.0, count + self.offset) + float(n_additions(n_rows))))

    def hides(self, left: float, past: float, count: int, n_rows: int) -> bool:
        """Tell whether a weight that is left has too few digits beside the weight of the past."""
        if left > 0.0 and past.is_integer() and left.is_integer() and past <= MAX_WHOLE:
            return False  # Whole weights add up exactly.
        error = self.relative(count, n_rows) * past
        return not left * MAX_LOST > np.hypot(self.weight, error)

    def after_removal(
        self,
        squares: Floats,
        removed_squares: Floats,
        past: float,
        removed: float,
        count: int,
        n_rows: int,
        is_centred: bool,
    ) -> Rounding:
        """Return the errors after rows are removed.

        Parameters
        ----------
        squares, removed_squares : ndarray (n_features + n_targets,)
            Sums of squares before the removal, and what the removal subtracts from them.
        past, removed : float
            Weights of all rows before the removal, and of the rows removed.
        count, n_rows : int
            Numbers of rows before the removal, and of rows removed.
        is_centred : bool
            Whether the sums are about a mean.
        """
        each = self.relative(count, n_rows)
        # The mean moves by share * difference, and rounds as it does so. Squares about it contain
        # share * past * difference**2, which is at most all of them.
        left = past - removed
        share = removed / left if is_centred and left > 0.0 else 0.0
        of_mean = 2.0 * EPS * share * squares
        wholes = squares % 1.0 == 0.0, removed_squares % 1.0 == 0.0, squares <= MAX_WHOLE
        if np.logical_and.reduce(wholes).all():
            # Sums of whole numbers are exact.
            each = 0.0
        # The same rows may be learnt and removed again and again, with the same rounding errors.
        return Rounding(
            self.squares + coarse(np.hypot(each * squares, of_mean)),
            self.sums + coarse(2.0 * EPS * np.sqrt(share * past * np.abs(squares))),
            self.weight + float(coarse(each * past)),
            float(n_rows - count),
        )

    def joined(self, other: Rounding, count: int, other_count: int) -> Rounding:
        """Return the errors of the sum of two sums of so many rows.

        The sum is rounded once more than the sum that was rounded more often.
        """
        n_rounded = max(count + self.offset, other_count + other.offset) + 1.0
        offset = n_rounded - (count + other_count)
        if self.is_none and other.is_none:
            return self._replace(offset=offset)
        squares, sums = self.squares + other.squares, self.sums + other.sums
        return Rounding(squares, sums, self.weight + other.weight, offset)


@lru_cache(32)
def no_errors(size: int) -> Floats:
    """Return zeros (size,), which all sums before a removal share."""
    zeros = np.ndarray(size, np.float64, Block(8 * size))
    zeros.flags.writeable = False
    return zeros


def no_rounding(size: int, offset: float) -> Rounding:
    """Return `Rounding.none` of these."""
    return Rounding.none(size, offset)


def coarse(values: Any) -> Floats:
    """Return the nearest powers of 2; 0 for 0.

    Examples
    --------
    >>> coarse(np.array([0.0, 0.5, 0.7, 0.8, 17.0]))
    array([ 0. ,  0.5,  0.5,  1. , 16. ])
    """
    mantissas, exponents = np.frexp(values)
    return np.where(np.greater(values, 0.0), np.ldexp(1.0, exponents - (mantissas < 0.5**0.5)), 0.0)


def n_additions(n_rows: int) -> int:
    """Return how many times a product of a batch of rows is rounded at the size of the sums.

    Examples
    --------
    >>> n_additions(1), n_additions(100), n_additions(256_000)
    (1, 100, 1256)
    """
    return min(n_rows, ROWS_PER_PRODUCT) + n_rows // ROWS_PER_PRODUCT


Prints = NDArray[np.uint64]
"""Sums of h and of h^2 of every column, and its number of values that are not 0, (3, n_columns)."""

UNKNOWN_NUMBER = 1 << 40
"""Number of values of rows that are not known: more than any removals take away."""

VALUES_AT_ONCE = 1 << 14
"""Number of values whose numbers fit into the cache."""


def prints_of(values: Matrix) -> Prints:
    """Return the fingerprints of the columns of a batch (n_rows, n_columns)."""
    sums = np.zeros((3, values.shape[1]), np.uint64)
    step = max(1, VALUES_AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        part = values[start : start + step]
        numbers = hashes_of(part.astype(np.float64, copy=False))
        sums[0] += numbers.sum(axis=0)
        numbers *= numbers
        sums[1] += numbers.sum(axis=0)
        # Measured: BLAS counts in a half of the time of numpy's sum, and float32 does so exactly.
        counts = np.ones(len(part), np.float32) @ (part != 0.0).astype(np.float32)
        sums[2] += counts.astype(np.uint64)
    return sums


def prints_of_counts(counts: Integers) -> Prints:
    """Return the prints of the one-hot targets of labels, given the number of rows of each."""
    one, times = hashes_of(np.ones(1)), counts.astype(np.uint64)
    return np.stack((times * one, times * one * one, times))


def unknown_prints(n_columns: int) -> Prints:
    """Return sums that no rows have, for rows that are not known: never 0, never constant."""
    return np.array([[1], [0], [UNKNOWN_NUMBER]], np.uint64).repeat(n_columns, axis=1)


def with_numbers(prints: Prints) -> Prints:
    """Return fingerprints of earlier versions, (2, n_columns), with a number of values."""
    numbers = np.where(prints.any(axis=0), UNKNOWN_NUMBER, 0).astype(np.uint64)
    return np.vstack((prints, numbers))


def are_constant(prints: Prints, count: int) -> NDArray[np.bool_]:
    """Return which columns have one value in all of `count` rows.

    Sums of more than four million rows overflow, by whole multiples of 2^64, which cancel.

    Examples
    --------
    >>> rows = np.array([[0.1, 0.0, 1.0], [0.1, 0.0, 2.0], [0.1, 0.0, 1.0]])
    >>> are_constant(prints_of(rows), 3)
    array([ True,  True, False])
    """
    sums, squares, _ = prints
    equal: NDArray[np.bool_] = np.uint64(count % (1 << 64)) * squares == sums * sums
    return equal
