"""Symmetric matrices in half the memory: the upper triangle in panels of columns."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dgemm, dsymm, dsyr2k, dsyrk, dtrsm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri, dpotrs

from onlinels.checks import Floats, Matrix
from onlinels.numerics import Calls, are_columns, product
from onlinels.saving import savable
from onlinels.sums.axes import Places, Room, gathered, is_growth

PANEL_COLUMNS = 1024
"""Number of columns of a panel.

Measured at 6,400 columns: 1024 and 2048 are as fast as one BLAS update of the whole matrix, 512 is
15% slower. Moreover, OpenBLAS 0.3.30 of scipy crashes on two threads in updates and factors of a
whole matrix of 19,000 columns and more.
"""

MAX_COLUMNS_INVERTED_WHOLE = 16_384
"""Number of columns up to which LAPACK inverts a matrix as a whole; see `PANEL_COLUMNS`."""


@savable(
    lambda panel: (
        are_columns(*panel) and panel.corner.shape == (panel.above.shape[1], panel.above.shape[1])
    )
)
class Panel(NamedTuple):
    """Some columns of the upper triangle: the rows above the diagonal block, and the block.

    Both are in Fortran order: BLAS would silently work on a copy of an array in another order.
    """

    above: Floats
    corner: Floats

    @property
    def start(self) -> int:
        """The first column of the panel in the whole matrix."""
        return len(self.above)

    @property
    def columns(self) -> slice:
        """The columns of the panel in the whole matrix."""
        return slice(self.start, self.start + len(self.corner))


def _are_sound(matrix: Any) -> bool:
    stops = [panel.columns.stop for panel in matrix.panels]
    return [panel.start for panel in matrix.panels] == [0, *stops][: len(stops)]


@savable(_are_sound)
class PackedSymmetric:
    """A symmetric matrix (size, size).

    Parameters
    ----------
    size : int
        Number of rows and of columns, all zero at first.

    Examples
    --------
    >>> from onlinels.core.apply import apply
    >>> matrix = PackedSymmetric(2)
    >>> apply(matrix.plan_products(np.array([[1.0, 2.0]]), 1.0))
    >>> matrix.upper()
    array([[1., 2.],
           [0., 4.]])
    """

    def __init__(self, size: int = 0) -> None:
        self.panels = []
        for start in range(0, size, PANEL_COLUMNS):
            width = min(PANEL_COLUMNS, size - start)
            above = np.zeros((start, width), order="F")
            self.panels.append(Panel(above, np.zeros((width, width), order="F")))

    @classmethod
    def of(cls, matrix: Floats) -> Self:
        """Return a copy of a matrix, of which only the upper triangle is read."""
        new = cls(len(matrix))
        for panel in new.panels:
            panel.above[:] = matrix[: panel.start, panel.columns]
            panel.corner[:] = np.triu(matrix[panel.columns, panel.columns])
        return new

    @property
    def size(self) -> int:
        """Number of rows and of columns."""
        return self.panels[-1].columns.stop if self.panels else 0

    def plan_products(self, rows: Matrix, w: float | Floats, sign: float = 1.0) -> Calls:
        """Return calls that add sign sum_k w_k a_k a_k' for rows (n, size)."""
        if len(self.panels) == 1:
            return (self._to_corner(rows, w, sign, self.panels[0].corner),)
        by_column = np.asarray(rows, dtype=np.float64, order="F")
        calls = []
        for panel in self.panels:
            own = by_column[:, panel.columns]
            calls.append(self._to_corner(own, w, sign, panel.corner))
            if panel.start:
                left = by_column[:, : panel.start]
                factor, right = (w, own) if isinstance(w, float) else (1.0, own * w[:, None])
                calls.append((dgemm, sign * factor, left, right, 1.0, panel.above, 1, 0, 1))
        return tuple(calls)

    @staticmethod
    def _to_corner(rows: Floats, w: float | Floats, sign: float, corner: Floats) -> tuple[Any, ...]:
        # In their order in memory, transposed if necessary, BLAS makes no copy of the rows.
        turned = int(rows.flags.f_contiguous)
        factor = rows if turned else rows.T
        # Arguments by position: names cost half a microsecond. The 0 is for the upper triangle.
        if isinstance(w, float):
            return (dsyrk, sign * w, factor, 1.0, corner, turned, 0, 1)
        # w a a' as half of a (wa)' + (wa) a': without square roots, whole numbers stay exact.
        weighted = factor * (w[:, None] if turned else w)
        return (dsyr2k, 0.5 * sign, factor, weighted, 1.0, corner, turned, 0, 1)

    def plan_scaling(self, factor: float) -> Calls:
        """Return calls that multiply the matrix by a factor."""
        parts = (part for panel in self.panels for part in panel)
        return tuple((np.multiply, part, factor, part) for part in parts)

    def add(self, other: Self) -> None:
        """Add a matrix of as many columns, in place."""
        for mine, theirs in zip(self.panels, other.panels, strict=True):
            np.add(mine.above, theirs.above, out=mine.above)
            np.add(mine.corner, theirs.corner, out=mine.corner)

    def scaled(self, scale: Floats) -> Self:
        """Return a new matrix with row and column k multiplied by scale[k]."""
        new = type(self)(self.size)
        for panel, mine in zip(new.panels, self.panels, strict=True):
            own = scale[panel.columns]
            for part, old, rows in zip(panel, mine, (scale[: panel.start], own), strict=True):
                np.multiply(old, own, out=part)
                np.multiply(part, rows[:, None], out=part)
        return new

    def diagonal(self) -> Floats:
        """Return the diagonal (size,), a new array."""
        return np.concatenate([np.zeros(0), *(panel.corner.diagonal() for panel in self.panels)])

    def column(self, number: int) -> Floats:
        """Return a column of the symmetric matrix (size,), a new array."""
        first, *later = self.panels[number // PANEL_COLUMNS :]
        own = number - first.start
        within = first.above[:, own], first.corner[:own, own], first.corner[own, own:]
        return np.concatenate([*within, *(panel.above[number] for panel in later)])

    def upper(self) -> Floats:
        """Return the matrix (size, size) in Fortran order; only its upper triangle is defined."""
        if len(self.panels) == 1:
            return self.panels[0].corner
        square = np.zeros((self.size, self.size), order="F")
        for panel in self.panels:
            square[: panel.start, panel.columns] = panel.above
            square[panel.columns, panel.columns] = panel.corner
        return square

    def square(self) -> Floats:
        """Return `upper` in new memory."""
        square = self.upper()
        return square.copy(order="F") if len(self.panels) == 1 else square

    def reindexed(self, places: Places) -> Self:
        """Return the rows and columns of other features; both matrices may share panels."""
        columns = places.features
        if is_growth(columns, self.size):
            return self.with_room(Room((self.size, 0), (len(columns), 0)))
        return type(self).of(gathered(symmetric(self.upper()), columns, columns))

    def with_room(self, room: Room) -> Self:
        """Return a matrix with room for more columns, or this matrix."""
        size, old = room.new[0], self.panels
        if size == room.old[0]:
            return self
        new = type(self)(size)
        for number, (above, corner) in enumerate(old):
            larger, width = new.panels[number], len(corner)
            if width == PANEL_COLUMNS:
                new.panels[number] = old[number]
                continue
            larger.corner[:width, :width] = corner
            if number:
                larger.above[:, :width] = above
        return new

    def times(self, columns: Floats) -> Floats:
        """Return the product with columns (size, n), in Fortran order."""
        result = np.zeros(columns.shape, order="F")
        for panel in self.panels:
            own = panel.columns
            result[own] += dsymm(1.0, panel.corner, columns[own])
            if panel.start:
                result[: panel.start] += product(panel.above, columns[own])
                result[own] += product(panel.above.T, columns[: panel.start])
        return result


def symmetric(upper: Floats) -> Floats:
    """Return the symmetric matrix with a given upper triangle, in Fortran order."""
    full = np.asfortranarray(np.triu(upper))
    full += np.triu(upper, 1).T
    return full


def factor_in_place(system: PackedSymmetric) -> bool:
    """Replace a matrix by its Cholesky factor R, system = R'R; False if it is not definite."""
    for number, panel in enumerate(system.panels):
        if number:
            # Row-major, so that the rows of any earlier panel are contiguous.
            by_row = np.ascontiguousarray(panel.above)
            for earlier in system.panels[:number]:
                # The rows that meet the columns of the earlier panel, transposed for LAPACK.
                own = by_row[earlier.columns]
                left = product(by_row[: earlier.start].T, earlier.above).T
                np.subtract(own, left, out=left)
                own[:] = dtrsm(1.0, earlier.corner, left, lower=0, trans_a=1, overwrite_b=1)
            panel.above[:] = by_row
            dsyrk(-1.0, panel.above, 1.0, panel.corner, trans=1, overwrite_c=1)
        if dpotrf(panel.corner, lower=0, overwrite_a=1, clean=0)[1]:
            return False
    return True


def solve_factored(factor: PackedSymmetric, targets: Floats) -> Floats:
    """Return the solution X (size, n) of R'R X = targets."""
    if len(factor.panels) == 1:
        whole: Floats = dpotrs(factor.panels[0].corner, targets, lower=0)[0]
        return whole
    # Row-major, so that the rows of earlier panels are contiguous.
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


def inverse_of_factored(factor: PackedSymmetric) -> Floats:
    """Return (R'R)^-1; only its upper triangle is defined."""
    if factor.size > MAX_COLUMNS_INVERTED_WHOLE:
        return solve_factored(factor, np.eye(factor.size, order="F"))
    inverse: Floats = dpotri(factor.upper(), lower=0, overwrite_c=1)[0]
    return inverse


def smallest_eigenvalue(factor: PackedSymmetric) -> float:
    """Estimate 1 / |(R'R)^-1| in the 1-norm, a lower bound of the eigenvalues of R'R."""
    if len(factor.panels) == 1:
        # With a norm of 1, the reciprocal condition number is the reciprocal norm of the inverse.
        return float(dpocon(factor.panels[0].corner, 1.0)[0])
    size = factor.size

    def times(column: Floats) -> Floats:
        """Return the product of the inverse with a column."""
        return solve_factored(factor, column.reshape(size, -1)).reshape(column.shape)

    from scipy.sparse.linalg import LinearOperator, onenormest  # Only large matrices need it.

    inverse = LinearOperator((size, size), matvec=times, rmatvec=times, matmat=times, rmatmat=times)
    # With one column at a time (t=1), the algorithm draws no random numbers.
    return 1.0 / float(onenormest(inverse, t=1))
