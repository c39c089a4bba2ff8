"""Output weights from a Gram: the only place where a linear system is solved."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from onlinels.arrays import Floats

EPS = float(np.finfo(np.float64).eps)


def solve_gram(gram: Floats, cross: Floats, ridge: float) -> Floats:
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

    Returns
    -------
    ndarray (n_features, n_targets), float64, Fortran order

    Notes
    -----
    Cholesky: M^3/3 operations and one copy of the Gram. Where that cannot be (ridge 0, or a ridge
    so far below the rounding errors of the Gram that the factor does not exist), the
    eigendecomposition is used, about 10 M^3 operations: directions whose eigenvalue is at most
    M * eps times the largest (eps = 2.2e-16) count as absent from the data and get no weight,
    which is what the exact solution tends to as the ridge goes to 0.

    Examples
    --------
    >>> solve_gram(np.diag([3.0, 1.0]), np.array([[4.0], [2.0]]), ridge=1.0).ravel()
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
    return _solve_in_eigenbasis(gram, cross, ridge)


def _solve_in_eigenbasis(gram: Floats, cross: Floats, ridge: float) -> Floats:
    eigenvalues, eigenvectors = eigh(gram, lower=False)
    present = eigenvalues > len(gram) * EPS * eigenvalues[-1]
    basis = eigenvectors[:, present]
    scaled = (basis.T @ cross) / (eigenvalues[present] + ridge)[:, None]
    return np.asfortranarray(basis @ scaled)
