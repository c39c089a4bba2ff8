"""Symmetric products and Cholesky factors of matrices too large for BLAS to take whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg.blas import dsyr2k, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from onlinels.arrays import Floats

LARGEST_WHOLE = 16_384
"""Columns up to which BLAS and LAPACK get a symmetric matrix whole.

Measured: scipy's OpenBLAS 0.3.30 on two threads crashes in dsyrk and dpotrf from between 19,000 and
20,000 columns on. General products of panels do not.
"""

PANEL_COLUMNS = 1024
"""Columns dealt with at once beyond that: the products of a panel take 0.3 GB for 40,000 rows."""


def add_products(gram: Floats, rows: Floats, w: float | Floats) -> Floats:
    """Add sum_k w_k a_k a_k' to the upper triangle of a Gram, in place.

    Parameters
    ----------
    gram : ndarray (n_features, n_features), float64, Fortran order
    rows : ndarray (n, n_features), float64
        The rows a_k.
    w : float, or ndarray (n,)
        One weight for all, or one for each, of any sign.

    Returns
    -------
    ndarray (n_features, n_features)
        `gram` itself, as BLAS hands it back. Weights enter linearly: sqrt(w) would round.

    Notes
    -----
    ``n n_features^2`` operations. In panels one more pass over the Gram for each block of rows.

    Examples
    --------
    >>> add_products(np.zeros((2, 2), order="F"), np.array([[1.0, 3.0]]), 2.0)
    array([[ 2.,  6.],
           [ 0., 18.]])
    """
    if len(gram) > LARGEST_WHOLE:
        weighted = rows * (w if isinstance(w, float) else w[:, None])
        # Transposed, so that products lie in memory as the Gram does: three times as fast.
        for panel in _panels(0, len(gram)):
            gram.T[panel, : panel.stop] += weighted[:, panel].T @ rows[:, : panel.stop]
        return gram
    if isinstance(w, float):
        return np.asarray(dsyrk(w, rows.T, 1.0, gram, overwrite_c=1))
    # w a a' as half of a (wa)' + (wa) a'.
    weighted = rows * w[:, None]
    return np.asarray(dsyr2k(0.5, rows.T, weighted.T, 1.0, gram, overwrite_c=1))


def factor_in_place(system: Floats) -> bool:
    """Replace the upper triangle of a system by its Cholesky factor R, system = R'R.

    Parameters
    ----------
    system : ndarray (n, n), float64, Fortran order
        Only its upper triangle is read and written.

    Returns
    -------
    bool
        Whether it is positive definite, to rounding. If not, what is left is of no use.

    Notes
    -----
    ``n^3 / 3`` operations.

    Examples
    --------
    >>> system = np.array([[4.0, 2.0], [0.0, 10.0]], order="F")
    >>> factor_in_place(system), system
    (True, array([[2., 1.],
           [0., 3.]]))
    """
    if len(system) <= LARGEST_WHOLE:
        _, failed = dpotrf(system, lower=0, overwrite_a=1, clean=0)
        return not failed
    for panel in _panels(0, len(system)):
        corner, failed = dpotrf(system[panel, panel], lower=0, clean=0)
        if failed:
            return False
        system[panel, panel] = corner
        beside = dtrsm(1.0, corner, system[panel, panel.stop :], lower=0, trans_a=1)
        system[panel, panel.stop :] = beside
        for later in _panels(panel.stop, len(system)):
            above = beside[:, : later.stop - panel.stop]
            own = beside[:, later.start - panel.stop : later.stop - panel.stop]
            system.T[later, panel.stop : later.stop] -= own.T @ above
    return True


def _panels(start: int, stop: int) -> Iterator[slice]:
    for first in range(start, stop, PANEL_COLUMNS):
        yield slice(first, min(first + PANEL_COLUMNS, stop))
