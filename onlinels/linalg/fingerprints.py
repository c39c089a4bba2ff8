"""Fingerprints of columns: whether a column is 0, or constant, in the rows that stay.

Rounding errors can hide what is left in sums of squares after rows were removed. Sums of whole
numbers have no rounding errors. So every value gets a whole number h of 21 bits, 0 for 0, and two
sums are kept for each column: of h and of h^2 over all rows. Both add up when models are merged and
subtract when rows are removed. n sum(h^2) = sum(h)^2 only if all h are equal (Cauchy and Schwarz).
One pair of values in two million has the same h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix

Prints = NDArray[np.uint64]
"""Sums of h and of h^2 of every column, (2, n_columns)."""

# Arrays without axes: numpy takes a third less time than for its scalars.
ZERO = np.array(0.0)

MULTIPLIER = np.array(0x9E3779B97F4A7C15, np.uint64)
"""An odd number near 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming,
section 6.4): its products with the bits of similar values differ in their first bits."""

IGNORED_BITS, DROPPED_BITS = np.array(20, np.uint64), np.array(43, np.uint64)
"""Last bits of a value that do not count, and last bits of a product that are dropped.

A row may be rounded differently when it is removed than when it was learnt, for example by a
transformer that computes a batch. Values that agree to 2e-10 have one number.
"""

VALUES_AT_ONCE = 1 << 14
"""Number of values whose numbers fit into the cache."""


def numbers_of(values: Matrix, out: Prints | None = None) -> Prints:
    """Return the number h of every value, in an array of the same shape, `out` if it is given.

    Examples
    --------
    >>> numbers_of(np.array([0.0, -0.0, 1.0, -1.0, 1.0])).tolist()
    [0, 0, 1397946, 2085071, 1397946]
    """
    # Adding 0 makes -0.0 the same as 0.0.
    numbers: Prints = np.right_shift((values + ZERO).view(np.uint64), IGNORED_BITS, out=out)
    numbers *= MULTIPLIER
    numbers >>= DROPPED_BITS
    return numbers


def prints_of_row(values: Floats) -> Prints:
    """Return h and h^2 of every value of a row, (2, n_columns)."""
    both = np.empty((2, len(values)), np.uint64)
    numbers = numbers_of(values, both[0])
    np.multiply(numbers, numbers, both[1])
    return both


def prints_of(values: Matrix) -> Prints:
    """Return the sums of h and of h^2 of every column of a batch (n_rows, n_columns)."""
    sums = np.zeros((2, values.shape[1]), np.uint64)
    step = max(1, VALUES_AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        numbers = numbers_of(values[start : start + step].astype(np.float64, copy=False))
        sums[0] += numbers.sum(axis=0)
        numbers *= numbers
        sums[1] += numbers.sum(axis=0)
    return sums


def prints_of_counts(counts: Integers) -> Prints:
    """Return the sums of the one-hot targets of labels, given the number of rows of each label."""
    one, times = numbers_of(np.ones(1)), counts.astype(np.uint64)
    return np.stack((times * one, times * one * one))


def unknown_prints(n_columns: int) -> Prints:
    """Return sums that no rows have, for rows that are not known: never 0, never constant."""
    return np.array([[1], [0]], np.uint64).repeat(n_columns, axis=1)


def are_zero(prints: Prints) -> NDArray[np.bool_]:
    """Return which columns are 0 in every row."""
    zero: NDArray[np.bool_] = prints[0] == 0
    return zero


def are_constant(prints: Prints, count: int) -> NDArray[np.bool_]:
    """Return which columns have one value in all of `count` rows.

    Sums of more than four million rows overflow, by whole multiples of 2^64, which cancel.

    Examples
    --------
    >>> rows = np.array([[0.1, 0.0, 1.0], [0.1, 0.0, 2.0], [0.1, 0.0, 1.0]])
    >>> are_constant(prints_of(rows), 3)
    array([ True,  True, False])
    """
    sums, squares = prints
    equal: NDArray[np.bool_] = np.uint64(count) * squares == sums * sums
    return equal
