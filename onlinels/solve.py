"""Output weights from a Gram: the only place where a linear system is solved."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, qr

from onlinels.checks import Floats
from onlinels.linalg.packed import (
    SymmetricPanels,
    factor_in_place,
    inverse_of_factored,
    smallest_eigenvalue,
    solve_factored,
)

SMALLEST_EIGENVALUE = 1e-14
"""Of the system scaled to unit diagonal: below it Cholesky would return rounding errors."""

RANK_TOLERANCE = 1e-12
"""Largest eigenvalue of the scaled Gram, relative to the greatest, that counts as 0."""

NULL_ENTRY = 1e-13
"""Entries of eigenvectors of the null space up to which they are rounding errors."""


def solve_gram(gram: SymmetricPanels, cross: Floats, ridge: float, diagonal: Floats) -> Floats:
    """Solve (A'A + c I) W = A'Y for the output weights W.

    Parameters
    ----------
    gram : SymmetricPanels
        A'A.
    cross : ndarray (n_features, n_targets), float64
        A'Y.
    ridge : float
        The ridge c >= 0. At 0.0 the result is the minimum-norm solution, the pseudo-inverse of A
        times Y, as in the paper's W_out = Y A^+.
    diagonal : ndarray (n_features,), float64
        The Gram's diagonal, with 0 for features that hold nothing but rounding errors: they get
        no weight.

    Returns
    -------
    ndarray (n_features, n_targets), float64

    Notes
    -----
    The system is scaled to unit diagonal, so features' units do not matter. Cholesky
    solves it in M^3/3 operations and one copy of the Gram. At ridge 0, and where the smallest
    eigenvalue of the scaled system is estimated below 1e-14, the eigendecomposition does, in
    about 10 M^3 operations: directions with an eigenvalue of at most 1e-12 of the largest count
    as linearly dependent, and get the weights that the ridge (or the minimum norm) gives them.

    Examples
    --------
    >>> gram, cross = SymmetricPanels.of(np.diag([3.0, 1.0])), np.array([[4.0], [2.0]])
    >>> solve_gram(gram, cross, 1.0, np.array([3.0, 1.0])).ravel()
    array([1., 1.])
    """
    weights = np.zeros(cross.shape, order="F")
    active = np.flatnonzero(diagonal > 0.0)
    if not (active.size and cross.size):
        return weights
    scale = _scale_of(diagonal, ridge)
    factor = _cholesky_factor(gram, scale) if ridge > 0.0 else None
    if factor is None:
        square = gram.upper()[np.ix_(active, active)]
        weights[active] = _in_eigenbasis(square, cross[active], ridge, scale[active])
        return weights
    solution: Floats = solve_factored(factor, cross * scale[:, None])
    solution *= scale[:, None]
    return solution


def invert_gram(gram: SymmetricPanels, ridge: float, diagonal: Floats) -> tuple[Floats, float]:
    """Return (A'A + c I)^-1 and its trace with A'A, the effective number of parameters.

    Parameters are those of `solve_gram`. A feature whose diagonal is 0 has 1 / c on the diagonal,
    at ridge 0 it has 0; a direction that counts as linearly dependent has 0.

    Notes
    -----
    About M^3 operations and three arrays of the Gram's size; `solve_gram` says when it is more.

    Examples
    --------
    >>> invert_gram(SymmetricPanels.of(np.diag([3.0, 0.0])), 1.0, np.array([3.0, 0.0]))
    (array([[0.25, 0.  ],
           [0.  , 1.  ]]), 0.75)
    """
    inverse = np.diag(np.full(len(gram), 1.0 / ridge if ridge > 0.0 else 0.0))
    active = np.flatnonzero(diagonal > 0.0)
    if not active.size:
        return inverse, 0.0
    chosen, rank = np.ix_(active, active), active.size
    scale = _scale_of(diagonal, ridge)
    factor = _cholesky_factor(gram, scale) if ridge > 0.0 else None
    if factor is None:
        square = gram.upper()[chosen]
        solved = _in_eigenbasis(square, np.eye(active.size), ridge, scale[active])
        # The trace of a projection is its rank, up to rounding.
        rank = np.rint(np.sum(solved.T * _symmetric(square)) + ridge * np.trace(solved))
    else:
        solved = _scaled(_symmetric(inverse_of_factored(factor)), scale)[chosen]
    inverse[chosen] = solved
    return inverse, float(rank - ridge * np.trace(solved))


def _scale_of(diagonal: Floats, ridge: float) -> Floats:
    """Return what scales the system to unit diagonal: 0 for features that have no weight."""
    scale = np.zeros(len(diagonal))
    return np.divide(1.0, np.sqrt(diagonal + ridge), out=scale, where=diagonal > 0.0)


def _symmetric(upper: Floats) -> Floats:
    """Return the matrix whose upper triangle is given."""
    full: Floats = np.triu(upper)
    full += np.triu(upper, 1).T
    return full


def _scaled(gram: Floats, scale: Floats) -> Floats:
    system = np.array(gram, order="F")
    system *= scale
    system *= scale[:, None]
    return system


def _cholesky_factor(gram: SymmetricPanels, scale: Floats) -> SymmetricPanels | None:
    """Return the factor of the scaled system, or None if it is singular to rounding.

    Of features that have no weight only a diagonal of 1 is left.
    """
    system = gram.scaled(scale)
    # Scaled by the Gram's diagonal and the ridge, that is what it is.
    system.set_diagonal(1.0)
    if not factor_in_place(system) or smallest_eigenvalue(system) < SMALLEST_EIGENVALUE:
        return None
    return system


def _in_eigenbasis(gram: Floats, cross: Floats, ridge: float, scale: Floats) -> Floats:
    """Solve in the directions that are present, kept orthogonal to the null space."""
    eigenvalues, eigenvectors = eigh(_scaled(gram, scale), lower=False, overwrite_a=True)
    present = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    basis = eigenvectors[:, present] * scale[:, None]
    projected = basis.T @ cross
    if not present.all():
        absent = eigenvectors[:, ~present]
        # Rounding errors, which the scale of a small feature would blow up.
        absent[np.abs(absent) < NULL_ENTRY] = 0.0
        null_space = qr(absent * scale[:, None], mode="economic")[0]
        basis -= null_space @ (null_space.T @ basis)
    # Scaled by the diagonal and the ridge, no entry is over 1: the system stays definite.
    shrunk = np.sqrt(ridge) * basis
    system = shrunk.T @ shrunk
    system.flat[:: len(system) + 1] += eigenvalues[present]
    solution: Floats = basis @ cho_solve(cho_factor(system), projected)
    return solution
