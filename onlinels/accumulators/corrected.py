"""A symmetric matrix to which terms of rank one are added faster than one at a time."""

from __future__ import annotations

from operator import setitem

import numpy as np
from scipy.linalg.blas import dgemv, dsymm, dsymv, dsyr, dsyrk

from onlinels.checks import Floats, Integers
from onlinels.commit import AT_ONCE, Commit, draft_of
from onlinels.numerics import capacity, enlarged, product
from onlinels.triangle import columns_of_upper

SMALL = 320
"""Size up to which a single column is taken in at once.

Measured, for product and update: 14 us against 21 us gathered at 256, 24 against 27 at 311, and 63
against 48 at 512.
"""

N_RECENT = 64
"""Columns that are gathered before one rank-k update takes them in."""


class CorrectedMatrix:
    """Hold the symmetric matrix B - U diag(signs) U' with up to 64 recent columns U.

    Parameters
    ----------
    diagonal : ndarray (n,)
        The matrix is diagonal at first.

    Notes
    -----
    Memory: ``8 * (n^2 + 64 n)`` bytes. Adding a column costs n, and n^2 when it is taken in
    with 63 others by one symmetric rank-k update: the matrix is written once for 64 columns.

    Examples
    --------
    >>> matrix = CorrectedMatrix(np.array([1.0, 2.0]))
    >>> matrix.subtract(np.array([[1.0], [1.0]]), sign=1.0)
    >>> matrix.times(np.asfortranarray(np.eye(2)))
    array([[ 0., -1.],
           [-1.,  1.]])
    """

    def __init__(self, diagonal: Floats) -> None:
        # Fortran order: BLAS would silently work on a copy of anything else. Upper triangle only.
        self._base = np.zeros((len(diagonal), len(diagonal)), order="F")
        self._base.flat[:: len(diagonal) + 1] = diagonal
        self._recent = np.zeros((len(diagonal), N_RECENT), order="F")
        self._signs = np.zeros(N_RECENT)
        # A numpy integer is pickled to the same number of bytes whatever its value.
        self._n_recent = np.int64(0)

    def settle(self) -> None:
        """Take the recent columns in, and leave no trace of them: they tell of single rows."""
        if self._recent.any():
            commit = Commit()
            self._fold_into(self._base, commit)
            commit.set(self, _n_recent=np.int64(0))
            commit.then(setitem, self._recent, slice(None), 0.0)
            commit.make()

    def __len__(self) -> int:
        """Return the number of rows and of columns, reserved ones included."""
        return len(self._base)

    def times(self, columns: Floats) -> Floats:
        """Return the product with columns (n, k) in Fortran order."""
        recent, signs = self._recent[:, : self._n_recent], self._signs[: self._n_recent]
        result: Floats = dsymm(1.0, self._base, columns)
        if len(signs):
            result -= product(recent, signs[:, None] * product(recent.T, columns))
        return result

    def times_one(self, column: Floats) -> Floats:
        """Return the product with a vector (n,): `times` at a fraction of its calls' cost."""
        result: Floats = dsymv(1.0, self._base, column)
        if self._n_recent:
            recent = self._recent[:, : self._n_recent]
            shares = dgemv(1.0, recent, column, trans=1)
            shares *= self._signs[: self._n_recent]
            result = dgemv(-1.0, recent, shares, 1.0, result, overwrite_y=1)
        return result

    def picked(self, places: Integers) -> Floats:
        """Return some columns, (n, k), without a product."""
        picked = columns_of_upper(self._base, places)
        recent, signs = self._recent[:, : self._n_recent], self._signs[: self._n_recent]
        return np.asfortranarray(picked - recent @ (signs[:, None] * recent[places].T))

    def subtract(self, columns: Floats, sign: float, commit: Commit = AT_ONCE) -> None:
        """Subtract u u' for every column u (sign 1), or add it (-1), when the commit is made."""
        if columns.shape[1] > N_RECENT:
            commit.then(dsyrk, -sign, columns, 1.0, self._base, overwrite_c=1)
        else:
            start = self._plan_room(columns.shape[1], commit)
            places = slice(start, start + columns.shape[1])
            commit.then(setitem, self._recent, (slice(None), places), columns)
            commit.then(setitem, self._signs, places, sign)

    def subtract_one(
        self, column: Floats, factor: float, sign: float, commit: Commit = AT_ONCE
    ) -> None:
        """Subtract u u' for u = factor times a vector (sign 1), or add it (-1), as `subtract`."""
        if len(self) <= SMALL:
            commit.then(dsyr, -sign * factor**2, column, a=self._base, overwrite_a=1)
            return
        start = self._plan_room(1, commit)
        commit.then(np.multiply, column, factor, self._recent[:, start])
        commit.then(setitem, self._signs, start, sign)

    def _plan_room(self, n_columns: int, commit: Commit) -> int:
        """Take the recent columns in if there is no room for more; return where these begin."""
        start = int(self._n_recent)
        if start + n_columns > N_RECENT:
            self._fold_into(self._base, commit)
            start = 0
        commit.assign(self, _n_recent=np.int64(start + n_columns))
        return start

    def _fold(self) -> None:
        """Take the recent columns into the base, at once."""
        self._fold_into(self._base, AT_ONCE)
        self._n_recent = np.int64(0)

    def _fold_into(self, base: Floats, commit: Commit) -> None:
        """Take the recent columns into a base, by one rank-k update for each sign."""
        recent, signs = self._recent[:, : self._n_recent], self._signs[: self._n_recent]
        for sign in (1.0, -1.0):
            which = signs == sign
            if which.any():
                columns = recent if which.all() else np.asfortranarray(recent[:, which])
                commit.then(dsyrk, -sign, columns, 1.0, base, overwrite_c=1)

    def corner(self, size: int) -> Floats:
        """Return the first rows and columns as a new array; its lower triangle holds anything."""
        base = self._base.copy(order="F")
        self._fold_into(base, AT_ONCE)
        return base if size == len(base) else np.asfortranarray(base[:size, :size])

    def set_corner(self, upper: Floats) -> None:
        """Replace the first rows and columns, of which only the upper triangle is read."""
        self._fold()
        self._base[: len(upper), : len(upper)] = upper

    def divide(self, divisor: float) -> None:
        """Divide all entries."""
        self._fold()
        self._base /= divisor

    def draft(self) -> CorrectedMatrix:
        """Return a matrix of the same memory, for changes that are committed."""
        return draft_of(self)

    def copied(self) -> CorrectedMatrix:
        """Return a copy."""
        new = self.draft()
        new._base, new._recent = self._base.copy(order="F"), self._recent.copy(order="F")
        new._signs = self._signs.copy()
        return new

    def grow(self, n_used: int, n_needed: int, entry: float) -> None:
        """Reserve room, with an entry on the diagonal of what comes into use.

        Nothing that shares the memory reads what was not in use.
        """
        size = capacity(len(self), n_needed)
        base, recent = enlarged(self._base, size, size), enlarged(self._recent, size, N_RECENT)
        new = np.arange(n_used, n_needed)
        base[new, new] = entry
        self._base, self._recent = base, recent
