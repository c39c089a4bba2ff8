"""A symmetric matrix of which only the upper triangle is kept, in panels of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from scipy.linalg.blas import dsymm

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.capacity import capacity, enlarged, padded
from onlinels.commit import AT_ONCE, Commit, draft_of
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
        self._size = size
        self._panels = _panels_after([], size)

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

    def grown(self, size: int) -> Self:
        """Return the matrix with columns of zeros appended, sharing its panels: itself if it fits.

        Notes
        -----
        Only the last panel is copied, and once for half as many columns as it has.
        """
        if size <= self._size:
            return self
        new = draft_of(self)
        new._size = size
        if self._panels:
            new._panels = [*self._panels[:-1], _widened(self._panels[-1], size)]
        new._panels = _panels_after(new._panels, size)
        return new

    def as_lines(self, rows: Matrix, commit: Commit = AT_ONCE) -> Floats:
        """Return rows (n, at most `reserved`) as BLAS adds them without a copy, zeros behind.

        Returns
        -------
        ndarray (n, reserved), float64
            In C order if there is a single panel, in Fortran order otherwise, in memory that the
            next commit takes again.
        """
        if len(self._panels) == 1:
            return padded(rows, self.reserved)
        shape = self.reserved, len(rows)
        if len(rows) > 1 and commit.takes_scratch():
            lines = SCRATCH.array("lines", shape, np.float64).T
        else:
            lines = np.empty(shape).T
        lines[:, : rows.shape[1]] = rows
        lines[:, rows.shape[1] :] = 0.0
        return lines

    def add_products(self, rows: Floats, w: float | Floats, commit: Commit = AT_ONCE) -> None:
        """Add sum_k w_k a_k a_k', in place, when the commit is made.

        Parameters
        ----------
        rows : ndarray (n, reserved), float64
            The rows a_k; fastest as `as_lines` returns them.
        w : float, or ndarray (n,)
            One weight for all, or one for each, of any sign. They enter linearly: sqrt(w) would
            round.
        commit : Commit, optional
            By default, at once.

        Notes
        -----
        ``n M^2`` operations, by BLAS in place.
        """
        if len(self._panels) == 1:
            self._panels[0].add_to_corner(rows, w, commit)
            return
        by_column = np.asfortranarray(rows)
        for panel in self._panels:
            panel.add_to_corner(by_column[:, panel.columns], w, commit)
            panel.add_above(by_column, w, commit)

    def add(self, other: Self, sign: int, commit: Commit) -> None:
        """Add a matrix of at most as many columns, or take it away, when the commit is made."""
        change = np.add if sign > 0 else np.subtract
        for mine, theirs in zip(self._panels, other._panels, strict=False):
            n = min(len(theirs.corner), other._size - theirs.start)
            for here, there in (
                (mine.above[:, :n], theirs.above[:, :n]),
                (mine.corner[:n, :n], theirs.corner[:n, :n]),
            ):
                commit.then(change, here, there, out=here)

    def scale(self, factor: float, commit: Commit) -> None:
        """Multiply everything, in place, when the commit is made."""
        for panel in self._panels:
            for part in (panel.above, panel.corner):
                commit.then(np.multiply, part, factor, out=part)

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


def _panels_after(panels: list[Panel], size: int) -> list[Panel]:
    """Return panels, and behind them new ones of zeros, for a matrix of a size."""
    panels = panels.copy()
    start = panels[-1].columns.stop if panels else 0
    while start < size:
        width = min(PANEL, size - start)
        above, corner = (np.zeros((rows, width), order="F") for rows in (start, width))
        panels.append(Panel(start, above, corner))
        start += width
    return panels


def _widened(panel: Panel, size: int) -> Panel:
    """Return the last panel with room for a matrix of a size, so far as a panel goes."""
    width = min(PANEL, capacity(len(panel.corner), size - panel.start))
    above = enlarged(panel.above, panel.start, width)
    return Panel(panel.start, above, enlarged(panel.corner, width, width))
