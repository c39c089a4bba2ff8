"""The Cholesky factor of a symmetric matrix in panels, in place, and what it solves."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri, dpotrs
from scipy.sparse.linalg import LinearOperator, onenormest

from onlinels.arrays import Floats
from onlinels.panel import Panel
from onlinels.panels import SymmetricPanels
from onlinels.products import product

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
