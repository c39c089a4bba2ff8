"""Output weights from a triangular factor, without ever squaring the condition number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd
from scipy.linalg.lapack import dtrcon, dtrtrs

from onlinels.arrays import Floats, Integers
from onlinels.solve import NULL_ENTRY
from onlinels.triangle import add_rows, no_targets

RANK_TOLERANCE = 1e-13
"""Largest singular value of the scaled factor, relative to the greatest, that counts as 0.

Times M if that is more: at least 10 eps M. Rounding errors of a stream move the M unit columns by
some eps each, so the singular values by some eps M at most, whereas the columns of a polynomial of
degree 10 (NIST's Filip) have one of 2e-10.
"""

WELL_CONDITIONED = 1e-4
"""Of the factor with its ridge, scaled: above it dependent features do no harm.

Their rounding errors reach the weights divided by its square: as 1e-8 at most.
"""


@dataclass(frozen=True)
class System:
    """Triangular equations whose solution is the output weights of the active features.

    With weights W = basis @ u (basis = I if None): triangle @ u = rotated.

    Parameters
    ----------
    triangle : ndarray (n_directions, n_directions), float64, Fortran order
    rotated : ndarray (n_directions, n_targets)
    basis : ndarray (n_active, n_directions), optional
    """

    triangle: Floats
    rotated: Floats
    basis: Floats | None = None

    def solve(self) -> Floats:
        """Return the output weights (n_active, n_targets)."""
        solution: Floats = dtrtrs(self.triangle, self.rotated)[0]
        return solution if self.basis is None else self.basis @ solution

    def leverages(self, rows: Floats) -> Floats:
        """Return x'(A'A + c I)^-1 x of every row x (n, n_active), (n,)."""
        within = rows if self.basis is None else rows @ self.basis
        shares: Floats = dtrtrs(self.triangle, within.T, trans=1)[0]
        squares: Floats = np.einsum("ij,ij->j", shares, shares)
        return squares


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
    unit length (so that units do not matter) have a singular value of at most max(1e-13, 10 eps M)
    of the largest, and the ridge is too small to hide that. An SVD, in about 20 M^3 operations,
    then leaves these directions out; they get the weights that the ridge (or the minimum norm)
    gives them.

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


def factor_leverages(factor: Floats, rows: Floats, ridge: float, diagonal: Floats) -> Floats:
    """Return x'(R'R + c I)^-1 x of every row x, (n,).

    Parameters are those of `solve_factor`; `rows` has shape (n, n_features). Features whose
    diagonal is 0 add x^2 / c where there is a ridge.

    Examples
    --------
    >>> factor_leverages(np.diag([2.0, 1.0]), np.array([[1.0, 1.0]]), 0.0, np.array([4.0, 1.0]))
    array([1.25])
    """
    leverages = np.zeros(len(rows))
    active = np.flatnonzero(diagonal > 0.0)
    if active.size:
        nothing = np.zeros((len(factor), 0), order="F")
        system = _system(factor, nothing, ridge, diagonal, active)
        leverages += system.leverages(rows[:, active])
    if ridge > 0.0:
        leverages += (rows[:, diagonal <= 0.0] ** 2).sum(axis=1) / ridge
    return leverages


def _system(
    factor: Floats, rotated: Floats, ridge: float, diagonal: Floats, active: Integers
) -> System:
    factor, rotated = _of_active(factor, rotated, active)
    with_ridge = System(factor, rotated)
    if ridge > 0.0:
        with_ridge = System(factor.copy(order="F"), rotated.copy(order="F"))
        _add_ridge(with_ridge, np.eye(len(factor), order="F"), ridge, len(factor))
    size = diagonal[active]
    tolerance = max(RANK_TOLERANCE, 10.0 * float(np.finfo(np.float64).eps) * len(factor))
    scale = 1.0 / np.sqrt(size + ridge)
    if (
        # The estimate, in the 1-norm, is off by a factor of up to M, and some.
        _reciprocal_condition(factor, 1.0 / np.sqrt(size)) > 10.0 * len(factor) * tolerance
        or _reciprocal_condition(with_ridge.triangle, scale) > WELL_CONDITIONED
    ):
        return with_ridge
    return _in_present_directions(factor, rotated, ridge, scale, tolerance) or with_ridge


def _of_active(factor: Floats, rotated: Floats, active: Integers) -> tuple[Floats, Floats]:
    """Return factor and targets of some of the features: triangular again."""
    if active.size == len(factor):
        return np.asfortranarray(factor), np.asfortranarray(rotated)
    smaller = np.zeros((active.size, active.size), order="F")
    targets = np.zeros((active.size, rotated.shape[1]), order="F")
    add_rows(
        smaller,
        targets,
        np.asfortranarray(factor[:, active]),
        lambda columns: np.array(rotated[:, columns], order="F"),
    )
    return smaller, targets


def _add_ridge(system: System, basis: Floats, ridge: float, n_triangular: int) -> None:
    """Add the rows sqrt(c) basis, with targets of 0, in place; the basis is overwritten."""
    basis *= np.sqrt(ridge)
    add_rows(system.triangle, system.rotated, basis, no_targets(len(basis)), n_triangular)


def _reciprocal_condition(triangle: Floats, scale: Floats) -> float:
    return float(dtrcon(triangle * scale)[0])


def _in_present_directions(
    factor: Floats, rotated: Floats, ridge: float, scale: Floats, tolerance: float
) -> System | None:
    """Return the equations in the directions that are present, or None if all of them are.

    The directions are kept orthogonal to the null space.
    """
    left, singular, right = svd(factor * scale)
    present = singular > tolerance * singular[0]
    if present.all():
        return None
    basis = np.asfortranarray(right[present].T * scale[:, None])
    absent = right[~present].T
    # Rounding errors, which the scale of a small feature would blow up.
    absent[np.abs(absent) < NULL_ENTRY] = 0.0
    null_space = qr(absent * scale[:, None], mode="economic")[0]
    basis -= null_space @ (null_space.T @ basis)
    projected = np.asfortranarray(left[:, present].T @ rotated)
    system = System(np.asfortranarray(np.diag(singular[present])), projected, basis)
    if ridge > 0.0:
        _add_ridge(system, basis.copy(order="F"), ridge, 0)
    return system
