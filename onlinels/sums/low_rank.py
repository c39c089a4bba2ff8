"""Save A'A of few rows, and its inverse with a ridge, as a factor with as many columns as rows."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

from onlinels.checks import Floats, Integers, ignoring
from onlinels.numerics import is_array, product
from onlinels.saving import savable
from onlinels.sums.packed import PackedSymmetric

MIN_COLUMNS, MAX_COLUMNS = 128, 2048
"""Numbers of columns between which a factor is worth its time: with 3,000 columns of 700 rows, it
would take a second to save.
"""

MAX_ROWS = 1024
"""Largest number of rows of a factor. Sums of so many products of slices are exact."""

MAX_SHARE_OF_ROWS = 0.25
"""Largest number of rows of a factor for each column: with more, the factor saves little."""

SLICE = 2.0**21
"""The number by which the first of three slices is multiplied to become a whole number."""

WORTHWHILE = 0.6
"""Largest size of this form, relative to the matrix. Measured with 1,280 features of 200 rows: 3.2
instead of 11 MB, in 0.4 s instead of 0.01 s; to load it takes 0.3 s.
"""

MIN_SQUARE = 2.0**-1000
"""Sums of squares below this count as this, so that units and their inverses are finite."""

NONE = np.zeros(0)
"""The diagonal of D^-1 of A'A, which has no ridge."""

BYTES = 8
"""Bytes of a number, which are compressed apart: the first of all numbers, then the second."""


def _slices(values: Floats) -> list[Floats]:
    """Return whole numbers of values * SLICE, of the rest * SLICE, and of its rest * SLICE."""
    slices, rest = [], values
    for _ in range(3):
        rest = rest * SLICE
        slices.append(np.rint(rest))
        rest = rest - slices[-1]
    return slices


def sliced_product(left: Floats, right: Floats) -> Floats:
    """Return left @ right.T for values of at most 1, with the same bits on every machine.

    Three slices of 21 bits stand for a number. Products of slices, and sums of these, are whole
    numbers below 2^53, so they are exact in whatever order BLAS adds them (S. M. Rump, T. Ogita
    and S. Oishi, "Accurate floating-point summation", 2008, name the principle).
    """
    a, b, c = _slices(left)
    x, y, z = (each.T for each in _slices(right))
    third = product(a, z) + product(c, x) + product(b, y)
    second = product(a, y) + product(b, x)
    whole: Floats = ((third / SLICE + second) / SLICE + product(a, x)) / SLICE**2
    return whole


def _ordered(values: Floats) -> Integers:
    """Return integers in the order of the numbers: neighbouring numbers differ by 1."""
    bits = values.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _upper_entries(matrix: PackedSymmetric) -> list[Floats]:
    """Return the upper triangle in one array for each panel."""
    parts = []
    for above, corner in matrix.panels:
        own = corner.T[np.tril_indices(len(corner))]
        parts.append(np.concatenate([above.ravel("F"), own]))
    return parts


@savable(
    make=lambda state: LowRank(**state).matrix(),
    # The matrix, and what its computation takes beside it.
    computed=lambda state: 16 * np.size(state["units"]) ** 2,
    whole=lambda low_rank: low_rank.matrix(),
)
class LowRank(NamedTuple):
    """A'A as U F F' U, or P = (A'A + D)^-1 as D^-1 - U F F' U, plus what rounding leaves of them.

    Loaded, it is the same `PackedSymmetric`, to the last bit.

    Attributes
    ----------
    units : ndarray (size,)
        The diagonal of U: powers of two, at least the roots of the diagonal of U F F' U.
    factor : ndarray (size, rank)
        F, with values of at most 1.
    differences : ndarray of uint8
        For every entry of the upper triangle, the number of floats between both, compressed.
    without_rows : ndarray (size,) or (0,)
        The diagonal of D^-1; none for A'A.

    Examples
    --------
    >>> rows = np.arange(300.0).reshape(2, 150) / 7
    >>> matrix = PackedSymmetric.of(rows.T @ rows)
    >>> small = LowRank.of(matrix, n_rows=2)
    >>> small.factor.shape, bool((small.matrix().upper() == matrix.upper()).all())
    ((150, 2), True)
    """

    units: Floats
    factor: Floats
    differences: np.ndarray[Any, np.dtype[np.uint8]]
    without_rows: Floats = NONE

    @classmethod
    @ignoring("over", "invalid")
    def of(
        cls, matrix: PackedSymmetric, n_rows: int, without_rows: Floats = NONE
    ) -> LowRank | PackedSymmetric:
        """Return a matrix of `n_rows` rows in this form, or as it is if it would not be smaller.

        `without_rows` is the diagonal of D^-1 if the matrix is P, finite.
        """
        size = matrix.size
        is_of_few = n_rows <= min(MAX_ROWS, MAX_SHARE_OF_ROWS * size)
        if not (is_of_few and MIN_COLUMNS <= size <= MAX_COLUMNS):
            return matrix
        squares = without_rows - matrix.diagonal() if without_rows.size else matrix.diagonal()
        units = np.ldexp(1.0, np.frexp(np.sqrt(np.maximum(squares, MIN_SQUARE)))[1])
        scaled = matrix.scaled(1.0 / units).square()
        if without_rows.size:
            np.negative(scaled, out=scaled)
            np.fill_diagonal(scaled, squares / units**2)
        upper, pivots, rank, _ = dpstrf(scaled, lower=0, overwrite_a=1)
        factor = np.zeros((size, min(rank, MAX_ROWS)))
        factor[pivots - 1] = np.triu(upper[: factor.shape[1]]).T
        new = cls(units, factor, np.zeros(0, dtype=np.uint8), without_rows)
        if not new.is_exact:  # Removals may leave anything where sums of squares are 0.
            return matrix
        pairs = zip(_upper_entries(matrix), _upper_entries(new._rounded()), strict=True)
        steps = np.concatenate([_ordered(one) - _ordered(other) for one, other in pairs])
        # Small numbers of either sign have small values, whose upper bytes compress to nothing.
        small = ((steps << 1) ^ (steps >> 63)).astype("<i8")
        planes = small.view(np.uint8).reshape(-1, BYTES).T
        text = zlib.compress(np.ascontiguousarray(planes).data, 1)
        new = new._replace(differences=np.frombuffer(text, dtype=np.uint8))
        stored = sum(part.nbytes for panel in matrix.panels for part in panel)
        return new if sum(each.nbytes for each in new) < WORTHWHILE * stored else matrix

    def _rounded(self) -> PackedSymmetric:
        """Return U F F' U, or D^-1 less this, with the same bits on every machine."""
        matrix = PackedSymmetric(len(self.units))
        for panel in matrix.panels:
            stop = panel.columns.stop
            columns = sliced_product(self.factor[:stop], self.factor[panel.columns])
            columns *= self.units[:stop, None]
            columns *= self.units[panel.columns]
            if self.without_rows.size:
                np.negative(columns, out=columns)
                own = columns[panel.columns]
                own.flat[:: len(panel.corner) + 1] += self.without_rows[panel.columns]
            panel.above[:], panel.corner[:] = columns[: panel.start], columns[panel.start :]
            panel.corner[np.tril_indices(len(panel.corner), -1)] = 0.0
        return matrix

    @property
    def is_exact(self) -> bool:
        """Whether the sums of products of slices of the factor are exact."""
        return bool((np.abs(self.factor) <= 1.0).all())

    def _fits(self) -> bool:
        """Return whether the parts, which may come from a file, fit each other."""
        units, factor, differences, without_rows = self
        if not all(type(each) is np.ndarray for each in self) or factor.ndim != 2:
            return False
        size, n_rows = factor.shape
        fits = is_array(units, size) and is_array(factor, size, n_rows) and n_rows <= MAX_ROWS
        fits = fits and is_array(differences, differences.size, dtype=np.uint8)
        fits = fits and is_array(without_rows, size if without_rows.size else 0)
        fits = fits and MIN_COLUMNS <= size <= MAX_COLUMNS
        return fits and self.is_exact and bool(((units > 0.0) & (units < np.inf)).all())

    def matrix(self) -> PackedSymmetric:
        """Return the matrix; raise ValueError if the parts of a file do not fit."""
        if not self._fits():
            raise ValueError("the factor of sums of products does not fit them")
        n_entries = len(self.units) * (len(self.units) + 1) // 2
        reader = zlib.decompressobj()
        try:
            text = reader.decompress(self.differences.tobytes(), BYTES * n_entries)
        except zlib.error as error:
            raise ValueError("the digits of sums of products cannot be read") from error
        if reader.decompress(reader.unconsumed_tail, 1) or not (
            reader.eof and len(text) == BYTES * n_entries
        ):
            raise ValueError("the digits of sums of products are not as many as their entries")
        planes = np.frombuffer(text, dtype=np.uint8).reshape(BYTES, n_entries)
        values = np.ascontiguousarray(planes.T).view("<u8").ravel()
        steps = (values >> 1).astype(np.int64) ^ -(values & 1).astype(np.int64)
        matrix = self._rounded()
        for (above, corner), entries in zip(matrix.panels, _upper_entries(matrix), strict=True):
            exact, steps = _ordered(entries) + steps[: entries.size], steps[entries.size :]
            exact = _ordered(exact.view(np.float64)).view(np.float64)
            above[:] = exact[: above.size].reshape(above.shape, order="F")
            corner.T[np.tril_indices(len(corner))] = exact[above.size :]
        return matrix
