"""The Cholesky factor of a symmetric matrix in panels, in place, and what it solves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg.blas import dgemm, dsymm, dsyr2k, dsyrk, dtrsm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri, dpotrs
from scipy.sparse.linalg import LinearOperator, onenormest

from onlinels.checks import Floats, Integers, Matrix
from onlinels.commit import AT_ONCE, Commit, draft_of
from onlinels.numerics import Scratch, capacity, enlarged, padded, product


@dataclass
class Panel:
    """Some columns of the upper triangle.

    Parameters
    ----------
    start : int
        The first column.
    above : ndarray (start, n), float64, Fortran order
        The rows above the diagonal block.
    corner : ndarray (n, n), float64, Fortran order
        The diagonal block, of which only the upper triangle means anything.
    """

    start: int
    above: Floats
    corner: Floats

    @property
    def columns(self) -> slice:
        """The columns in the whole matrix, reserved ones too."""
        return slice(self.start, self.start + len(self.corner))

    def add_to_corner(self, own: Floats, w: float | Floats, commit: Commit) -> None:
        """Add sum_k w_k a_k a_k' to the diagonal block, in place, when the commit is made.

        Parameters
        ----------
        own : ndarray (n, n_columns), float64
            These columns of the rows a_k, in either order.
        w : float, or ndarray (n,)
        commit : Commit
        """
        # As they lie in memory, transposed if need be, BLAS takes them without a copy.
        trans = int(own.flags.f_contiguous)
        rows = own if trans else own.T
        if isinstance(w, float):
            # By position: names cost half a microsecond. The 0 is for the upper triangle.
            commit.then(dsyrk, w, rows, 1.0, self.corner, trans, 0, 1)
            return
        # w a a' as half of a (wa)' + (wa) a'.
        weighted = rows * (w[:, None] if trans else w)
        commit.then(dsyr2k, 0.5, rows, weighted, 1.0, self.corner, trans, 0, 1)

    def add_above(self, by_column: Floats, w: float | Floats, commit: Commit) -> None:
        """Add the products of these columns with those before them, when the commit is made.

        Parameters
        ----------
        by_column : ndarray (n, size), float64, Fortran order
            The rows a_k.
        w : float, or ndarray (n,)
        commit : Commit
        """
        if not self.start:
            return
        left, own = by_column[:, : self.start], by_column[:, self.columns]
        factor, weighted = (w, own) if isinstance(w, float) else (1.0, own * w[:, None])
        commit.then(dgemm, factor, left, weighted, 1.0, self.above, trans_a=1, overwrite_c=1)


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


LARGEST_WHOLE = 16_384
"""Columns up to which LAPACK may invert a matrix whole.

Measured: scipy's OpenBLAS 0.3.30 on two threads crashes from between 19,000 and 20,000 columns on.
"""


def factor_in_place(system: SymmetricPanels) -> bool:
    """Replace a matrix by its Cholesky factor R, system = R'R.

    Returns
    -------
    bool
        Whether it is positive definite, to rounding. If not, what is left is of no use.

    Notes
    -----
    ``M^3 / 3`` operations, in products of panels and factors of diagonal blocks by LAPACK.

    Examples
    --------
    >>> system = SymmetricPanels.of(np.array([[4.0, 2.0], [2.0, 10.0]]))
    >>> factor_in_place(system), np.triu(system.upper())
    (True, array([[2., 1.],
           [0., 3.]]))
    """
    for number, panel in enumerate(system.panels):
        if number:
            # By row, so that the rows above those of any earlier panel lie beside one another.
            by_row = np.ascontiguousarray(panel.above)
            for earlier in system.panels[:number]:
                _eliminate(by_row, earlier)
            panel.above[:] = by_row
            panel.corner = dsyrk(-1.0, panel.above, 1.0, panel.corner, trans=1, overwrite_c=1)
        panel.corner, failed = dpotrf(panel.corner, lower=0, overwrite_a=1, clean=0)
        if failed:
            return False
    return True


def _eliminate(above: Floats, earlier: Panel) -> None:
    """Make those rows of a panel (in C order) final that meet the columns of an earlier one."""
    rows = earlier.columns
    # Transposed, so that what is left lies in memory as LAPACK wants it.
    left = product(above[: earlier.start].T, earlier.above).T
    np.subtract(above[rows], left, out=left)
    above[rows] = dtrsm(1.0, earlier.corner, left, lower=0, trans_a=1, overwrite_b=1)


def solve_factored(factor: SymmetricPanels, targets: Floats) -> Floats:
    """Return the solution X (size, n) of R'R X = targets.

    Examples
    --------
    >>> factor = SymmetricPanels.of(np.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> solve_factored(factor, np.array([[4.0], [20.0]]))
    array([[0.],
           [2.]])
    """
    if len(factor.panels) == 1:
        whole: Floats = dpotrs(factor.panels[0].corner, targets, lower=0)[0]
        return whole
    # By row, so that those of panels to the left, or above, lie beside one another.
    solution = np.array(targets, dtype=np.float64, order="C")
    for panel in factor.panels:
        own = panel.columns
        left = solution[own] - product(panel.above.T, solution[: panel.start])
        solution[own] = dtrsm(1.0, panel.corner, left, lower=0, trans_a=1)
    for panel in reversed(factor.panels):
        own = panel.columns
        solution[own] = dtrsm(1.0, panel.corner, solution[own], lower=0)
        solution[: panel.start] -= product(panel.above, solution[own])
    return solution


def inverse_of_factored(factor: SymmetricPanels) -> Floats:
    """Return (R'R)^-1, of which only the upper triangle means anything.

    Notes
    -----
    ``2/3 M^3`` operations, ``2 M^3`` beyond 16,384 columns.
    """
    if len(factor) > LARGEST_WHOLE:
        return solve_factored(factor, np.eye(len(factor), order="F"))
    inverse: Floats = dpotri(factor.upper(), lower=0, overwrite_c=1)[0]
    return inverse


def smallest_eigenvalue(factor: SymmetricPanels) -> float:
    """Estimate 1 / |(R'R)^-1| in the 1-norm, which no eigenvalue of R'R is below.

    The estimate is that or a little more.

    References
    ----------
    N. J. Higham (1988), "FORTRAN codes for estimating the one-norm of a real or complex matrix,
    with applications to condition estimation", which LAPACK and scipy use.
    """
    if len(factor.panels) == 1:
        # With a norm of 1 the reciprocal condition number is that of the inverse's norm.
        return float(dpocon(factor.panels[0].corner, 1.0)[0])
    size = len(factor)

    def times(column: Floats) -> Floats:
        """Return the inverse's product with a column."""
        return solve_factored(factor, column.reshape(size, -1)).reshape(column.shape)

    inverse = LinearOperator((size, size), matvec=times, rmatvec=times, matmat=times, rmatmat=times)
    # One column at a time is Higham's algorithm, and draws no random numbers.
    return 1.0 / float(onenormest(inverse, t=1))
