"""A symmetric matrix of which only the upper triangle is kept, in panels of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from scipy.linalg.blas import dsymm

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.capacity import capacity, enlarged, padded
from onlinels.panel import Panel
from onlinels.products import product
from onlinels.threads import Scratch

PANEL = 1024
"""Columns of a panel.

Measured at 6,400 columns: 1024 and 2048 are as fast as one BLAS update of the whole matrix, 512 is
15% slower. Besides, OpenBLAS 0.3.30 of scipy crashes on two threads in updates and factors of a
whole matrix of 19,000 columns and more.
"""


SCRATCH = Scratch()


class SymmetricPanels:
    """The upper triangle of a symmetric matrix, in half the memory of the whole, that may grow.

    Parameters
    ----------
    size : int
        Rows, and columns. They are zeros.

    Notes
    -----
    ``4 M (M + 1024)`` bytes for M columns, ``8 M^2`` up to 1,024.

    Examples
    --------
    >>> sums = SymmetricPanels(2)
    >>> sums.add_products(np.array([[1.0, 3.0], [2.0, 0.0]]), 1.0)
    >>> sums.full()
    array([[5., 3.],
           [3., 9.]])
    """

    def __init__(self, size: int = 0) -> None:
        self._size = 0
        self._panels: list[Panel] = []
        self.grow(size)

    @classmethod
    def of(cls, matrix: Floats) -> Self:
        """Return a copy of a matrix, of which only the upper triangle is read."""
        new = cls(len(matrix))
        for panel in new._panels:
            panel.above[:] = matrix[: panel.start, panel.columns]
            panel.corner[:] = np.triu(matrix[panel.columns, panel.columns])
        return new

    def __len__(self) -> int:
        return self._size

    @property
    def reserved(self) -> int:
        """Columns that there is room for."""
        return self._panels[-1].columns.stop if self._panels else 0

    @property
    def panels(self) -> list[Panel]:
        """The panels from left to right; the last may have room for columns to come."""
        return self._panels

    def grow(self, size: int) -> None:
        """Append columns of zeros, in place.

        Notes
        -----
        Only the last panel is copied, and once for half as many columns as it has.
        """
        self._size = max(size, self._size)
        if self._panels:
            self._widen_last()
        while self.reserved < self._size:
            start = self.reserved
            width = min(PANEL, self._size - start)
            above, corner = (np.zeros((rows, width), order="F") for rows in (start, width))
            self._panels.append(Panel(start, above, corner))

    def _widen_last(self) -> None:
        last = self._panels[-1]
        width = min(PANEL, capacity(len(last.corner), self._size - last.start))
        if width > len(last.corner):
            last.above = enlarged(last.above, last.start, width)
            last.corner = enlarged(last.corner, width, width)

    def as_lines(self, rows: Matrix) -> Floats:
        """Return rows (n, at most `reserved`) as BLAS adds them without a copy, zeros behind.

        Returns
        -------
        ndarray (n, reserved), float64
            In C order if there is a single panel, in Fortran order otherwise, in memory that the
            next call takes again.
        """
        if len(self._panels) == 1:
            return padded(rows, self.reserved)
        lines = SCRATCH.array("lines", (self.reserved, len(rows)), np.float64).T
        lines[:, : rows.shape[1]] = rows
        lines[:, rows.shape[1] :] = 0.0
        return lines

    def add_products(self, rows: Floats, w: float | Floats) -> None:
        """Add sum_k w_k a_k a_k', in place.

        Parameters
        ----------
        rows : ndarray (n, reserved), float64
            The rows a_k; fastest as `as_lines` returns them.
        w : float, or ndarray (n,)
            One weight for all, or one for each, of any sign. They enter linearly: sqrt(w) would
            round.

        Notes
        -----
        ``n M^2`` operations, by BLAS in place.
        """
        if len(self._panels) == 1:
            self._panels[0].add_to_corner(rows, w)
            return
        by_column = np.asfortranarray(rows)
        for panel in self._panels:
            panel.add_to_corner(by_column[:, panel.columns], w)
            panel.add_above(by_column, w)

    def add(self, other: Self, sign: float) -> None:
        """Add a matrix of at most as many columns, times `sign`, in place."""
        for mine, theirs in zip(self._panels, other._panels, strict=False):
            n = min(len(theirs.corner), other._size - theirs.start)
            mine.above[:, :n] += sign * theirs.above[:, :n]
            mine.corner[:n, :n] += sign * theirs.corner[:n, :n]

    def scale(self, factor: float) -> None:
        """Multiply everything, in place."""
        for panel in self._panels:
            panel.above *= factor
            panel.corner *= factor

    def scaled(self, scale: Floats) -> Self:
        """Return a new matrix with row and column k multiplied by scale[k]."""
        new = type(self)(self._size)
        for panel, (mine, n) in zip(new._panels, self._filled(), strict=True):
            own = scale[panel.columns]
            np.multiply(mine.above[:, :n], own, out=panel.above)
            panel.above *= scale[: panel.start, None]
            np.multiply(mine.corner[:n, :n], own, out=panel.corner)
            panel.corner *= own[:, None]
        return new

    def diagonal(self) -> Floats:
        """Return the diagonal (size,), a new array."""
        parts = [panel.corner.diagonal()[:n] for panel, n in self._filled()]
        return np.concatenate([np.zeros(0), *parts])

    def set_diagonal(self, value: float) -> None:
        """Set all entries of the diagonal, in place."""
        for panel in self._panels:
            np.fill_diagonal(panel.corner, value)

    def upper(self) -> Floats:
        """Return the matrix (size, size) in Fortran order; below the diagonal it holds anything.

        Of up to 1,024 columns it is a view of what is kept, otherwise a new array.
        """
        if len(self._panels) == 1:
            return self._panels[0].corner[: self._size, : self._size]
        square = np.zeros((self._size, self._size), order="F")
        for panel, n in self._filled():
            columns = slice(panel.start, panel.start + n)
            square[: panel.start, columns] = panel.above[:, :n]
            square[columns, columns] = panel.corner[:n, :n]
        return square

    def full(self) -> Floats:
        """Return the symmetric matrix (size, size), a new array."""
        upper = np.triu(self.upper())
        upper += np.triu(upper, 1).T
        return upper

    def placed(self, places: Integers, size: int) -> Self:
        """Return a new matrix of `size` columns; row and column k stand at places[k], else 0."""
        square = np.zeros((size, size), order="F")
        square[np.ix_(places, places)] = self.full()
        return type(self).of(square)

    def times(self, columns: Floats) -> Floats:
        """Return the product with columns (size, n), in Fortran order."""
        if len(self._panels) == 1:
            whole: Floats = dsymm(1.0, self.upper(), columns)
            return whole
        result = np.zeros(columns.shape, order="F")
        for panel, n in self._filled():
            own = slice(panel.start, panel.start + n)
            result[own] += dsymm(1.0, panel.corner[:n, :n], columns[own])
            if panel.start:
                above = panel.above[:, :n]
                result[: panel.start] += product(above, columns[own])
                result[own] += product(above.T, columns[: panel.start])
        return result

    def _filled(self) -> Iterator[tuple[Panel, int]]:
        """Yield the panels and how many of their columns are in use."""
        return ((panel, min(len(panel.corner), self._size - panel.start)) for panel in self._panels)
