"""Output weights from a Gram: the only place where a linear system is solved."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, qr
from scipy.linalg.lapack import dpotrf, dpotrs

from onlinels.arrays import Floats

RANK_TOLERANCE = 1e-12
"""Largest eigenvalue, relative to the greatest of the scaled Gram, that counts as 0."""


def solve_gram(gram: Floats, cross: Floats, ridge: float, diagonal: Floats) -> Floats:
    """Solve (A'A + c I) W = A'Y for the output weights W.

    Parameters
    ----------
    gram : ndarray (n_features, n_features), float64
        A'A; only its upper triangle is read.
    cross : ndarray (n_features, n_targets), float64
        A'Y.
    ridge : float
        The ridge c >= 0. At 0.0 the result is the minimum-norm solution, the pseudo-inverse of A
        times Y, as in the paper's W_out = Y A^+.
    diagonal : ndarray (n_features,), float64
        The Gram's diagonal, with 0 for features that hold nothing but rounding errors.

    Returns
    -------
    ndarray (n_features, n_targets), float64, Fortran order

    Notes
    -----
    Cholesky: M^3/3 operations and one copy of the Gram. At ridge 0, and where the factor does not
    exist because the ridge is below the rounding errors of the Gram (it then counts as 0), the
    eigendecomposition of the Gram scaled to a unit diagonal is used, about 10 M^3 operations:
    directions with an eigenvalue of at most 1e-12 of the largest count as linearly dependent.
    The scaling makes this independent of the features' units.

    Examples
    --------
    >>> solve_gram(np.diag([3.0, 1.0]), np.array([[4.0], [2.0]]), 1.0, np.array([3.0, 1.0])).ravel()
    array([1., 1.])
    """
    if not cross.size:
        return np.zeros(cross.shape, order="F")
    if ridge > 0.0:
        system = np.array(gram, order="F")
        system.flat[:: len(system) + 1] += ridge
        factor, failed = dpotrf(system, lower=0, overwrite_a=1, clean=0)
        if not failed:
            weights: Floats = dpotrs(factor, cross, lower=0)[0]
            return weights
        del system, factor
    weights = np.zeros(cross.shape, order="F")
    active = np.flatnonzero(diagonal > 0.0)
    if active.size:
        scale = 1.0 / np.sqrt(diagonal[active])
        weights[active] = _minimum_norm(gram[np.ix_(active, active)], cross[active], scale)
    return weights


def _minimum_norm(gram: Floats, cross: Floats, scale: Floats) -> Floats:
    """Return the pseudo-inverse solution, the rank decided on the Gram scaled to unit diagonal."""
    eigenvalues, eigenvectors = eigh(gram * scale * scale[:, None], lower=False)
    present = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    basis = eigenvectors[:, present] * scale[:, None]
    weights: Floats = basis @ ((basis.T @ cross) / eigenvalues[present][:, None])
    if present.all():
        return weights
    null_space = qr(eigenvectors[:, ~present] * scale[:, None], mode="economic")[0]
    projected: Floats = weights - null_space @ (null_space.T @ weights)
    return projected
