"""Output weights from a triangular factor, without ever squaring the condition number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg.lapack import dtrcon, dtrtrs

from onlinels.checks import Floats, Integers
from onlinels.null_space import null_rows, rank_tolerance
from onlinels.triangle import add_rows, no_targets, weighted_targets

WELL_CONDITIONED = 1e-4
"""Of the factor with its ridge, scaled: above it dependent features do no harm.

Their rounding errors reach the weights divided by its square: as 1e-8 at most.
"""


@dataclass(frozen=True)
class System:
    """Triangular equations whose solution is the output weights of the active features.

    Parameters
    ----------
    triangle : ndarray (n_active, n_active), float64, Fortran order
        T in T W = Z.
    rotated : ndarray (n_active, n_targets), float64, Fortran order
        Z.
    of_rows : ndarray (n_active, n_active), optional
        The triangle of the rows and the ridge alone, where T holds rows of the null space too.
    """

    triangle: Floats
    rotated: Floats
    of_rows: Floats | None = None

    def solve(self) -> Floats:
        """Return the output weights (n_active, n_targets)."""
        solution: Floats = dtrtrs(self.triangle, self.rotated)[0]
        return solution

    def root_of_inverse(self) -> Floats:
        """Return S with S'S = (A'A + c I)^-1, (n_active, n_active)."""
        root: Floats = dtrtrs(self.triangle, np.eye(len(self.triangle), order="F"), trans=1)[0]
        if self.of_rows is not None:
            root = self.of_rows @ dtrtrs(self.triangle, root)[0]
        return root

    def with_rows(self, rows: Floats, n_triangular: int = 0) -> System:
        """Return the equations with rows added whose targets are 0; the rows are overwritten."""
        triangle, rotated = self.triangle.copy(order="F"), self.rotated.copy(order="F")
        add_rows(triangle, rotated, rows, no_targets, n_triangular)
        return System(triangle, rotated)


def solve_factor(factor: Floats, rotated: Floats, ridge: float, diagonal: Floats) -> Floats:
    """Solve the least-squares problem min |R W - Z|^2 + c |W|^2 for the output weights W.

    With A = Q R and Z = Q'Y that is (A'A + c I) W = A'Y.

    Parameters
    ----------
    factor : ndarray (n_features, n_features), float64
        Upper triangular R.
    rotated : ndarray (n_features, n_targets), float64
        Z.
    ridge : float
        The ridge c >= 0. At 0.0 the result is the minimum-norm solution, the pseudo-inverse of A
        times Y.
    diagonal : ndarray (n_features,), float64
        Sums of squares of the columns of R, with 0 for features that hold nothing but rounding
        errors: they get no weight.

    Returns
    -------
    ndarray (n_features, n_targets), float64

    Notes
    -----
    The ridge is M more rows, sqrt(c) I, in a copy of the factor, for 2/3 M^3 operations. Then one
    triangular solve is all, unless features are linearly dependent: the factor's columns scaled to
    unit length (so that units do not matter) have a singular value of at most max(1e-12, 10 eps M)
    of the largest, and the ridge is too small to hide that. An SVD, in about 20 M^3 operations,
    then finds these directions, and more rows with targets of 0 keep the weights out of them: what
    the ridge, or the minimum norm, makes of directions in which the rows say nothing.

    Examples
    --------
    >>> factor, rotated = np.diag([2.0, 1.0]), np.array([[4.0], [2.0]])
    >>> solve_factor(factor, rotated, 0.0, np.array([4.0, 1.0])).ravel()
    array([2., 2.])
    """
    weights = np.zeros(rotated.shape, order="F")
    active = np.flatnonzero(diagonal > 0.0)
    if active.size and rotated.size:
        weights[active] = _system(factor, rotated, ridge, diagonal, active).solve()
    return weights


def invert_factor(factor: Floats, ridge: float, diagonal: Floats) -> tuple[Floats, float]:
    """Return (R'R + c I)^-1 and its trace with R'R, the effective number of parameters.

    Parameters are those of `solve_factor`. A feature whose diagonal is 0 has 1 / c on the diagonal,
    at ridge 0 it has 0; a direction that counts as linearly dependent has 0.

    Notes
    -----
    About 3 M^3 operations; `solve_factor` says when it is more.

    Examples
    --------
    >>> inverse, n_parameters = invert_factor(np.diag([2.0, 0.0]), 1.0, np.array([4.0, 0.0]))
    >>> inverse.round(3), round(n_parameters, 3)
    (array([[0.2, 0. ],
           [0. , 1. ]]), 0.8)
    """
    inverse = np.diag(np.full(len(factor), 1.0 / ridge if ridge > 0.0 else 0.0))
    active = np.flatnonzero(diagonal > 0.0)
    if not active.size:
        return inverse, 0.0
    nothing = np.zeros((len(factor), 0), order="F")
    root = _system(factor, nothing, ridge, diagonal, active).root_of_inverse()
    inverse[np.ix_(active, active)] = root.T @ root
    return inverse, float(np.sum((factor[:, active] @ root.T) ** 2))


def _system(
    factor: Floats, rotated: Floats, ridge: float, diagonal: Floats, active: Integers
) -> System:
    system = _of_active(factor, rotated, active)
    squares, rows = diagonal[active], system.triangle
    if ridge > 0.0:
        ridge_rows = np.zeros(rows.shape, order="F")
        np.fill_diagonal(ridge_rows, np.sqrt(ridge))
        system = system.with_rows(ridge_rows, len(ridge_rows))
    # The estimate, in the 1-norm, is off by a factor of up to M, and some.
    full_rank = 10.0 * len(rows) * rank_tolerance(len(rows))
    if (
        _reciprocal_condition(rows, squares) > full_rank
        or _reciprocal_condition(system.triangle, squares + ridge) > WELL_CONDITIONED
    ):
        return system
    dependent = null_rows(rows, np.sqrt(squares))
    if dependent is None:
        return system
    return replace(system.with_rows(dependent), of_rows=system.triangle)


def _of_active(factor: Floats, rotated: Floats, active: Integers) -> System:
    """Return the equations of some of the features: triangular again."""
    if active.size == len(factor):
        return System(np.asfortranarray(factor), np.asfortranarray(rotated))
    smaller = np.zeros((active.size, active.size), order="F")
    targets = np.zeros((active.size, rotated.shape[1]), order="F")
    add_rows(
        smaller,
        targets,
        np.asfortranarray(factor[:, active]),
        partial(weighted_targets, rotated, np.ones(len(rotated))),
    )
    return System(smaller, targets)


def _reciprocal_condition(triangle: Floats, squares: Floats) -> float:
    """Estimate the reciprocal condition number with columns scaled to unit length."""
    return float(dtrcon(triangle / np.sqrt(squares))[0])
