"""Linearly dependent features: the directions in which the rows say nothing."""

from __future__ import annotations

import numpy as np
from scipy.linalg import svd

from onlinels.checks import Floats

RANK_TOLERANCE = 1e-12
"""Largest singular value of the scaled factor, relative to the greatest, that counts as 0.

Or 10 eps M if that is more: rounding errors move M unit columns by some eps each, so the singular
values by some eps M at most. Measured for dependent columns: 8e-15 after 20,000 single rows, 3e-14
where means are a thousand deviations away. Columns of a polynomial of degree 10 (NIST's Filip) are
not dependent: 2e-10.
"""

EPS = float(np.finfo(np.float64).eps)


def rank_tolerance(n_features: int) -> float:
    """Return the largest relative singular value that counts as 0: max(1e-12, 10 eps M).

    Examples
    --------
    >>> rank_tolerance(100)
    1e-12
    """
    return max(RANK_TOLERANCE, 10.0 * EPS * n_features)


def null_rows(factor: Floats, sizes: Floats) -> Floats | None:
    """Return rows that span the null space of a factor, or None if it has full rank.

    Solutions W with n W = 0 for all these rows n are those of minimum norm, so the rows, with
    targets of 0, make the solution unique without changing how well it fits.

    Parameters
    ----------
    factor : ndarray (n_features, n_features), float64
        R.
    sizes : ndarray (n_features,)
        Lengths of its columns, none of them 0.

    Returns
    -------
    ndarray (n_dependent, n_features), float64, Fortran order
        As large as the factor's columns allow without standing out of them.

    Notes
    -----
    The rank is that of the columns scaled to unit length, so features' units do not matter. About
    20 M^3 operations.

    Examples
    --------
    >>> rows = null_rows(np.array([[2.0, 2.0], [0.0, 0.0]]), np.array([2.0, 2.0]))
    >>> np.abs(rows), np.abs(rows.sum(axis=1)).round(12)
    (array([[2., 2.]]), array([0.]))
    """
    _, singular, right = svd(factor / sizes)
    present = singular > rank_tolerance(len(factor)) * singular[0]
    if present.all():
        return None
    # Errors of singular vectors grow as the gap between the values shrinks.
    rounding = 10.0 * EPS * np.sqrt(len(sizes)) * singular[0] / singular[present][-1]
    smallest_first = np.argsort(sizes)
    rows = np.empty((int((~present).sum()), len(sizes)), order="F")
    rows[:, smallest_first] = _staircase(right[np.ix_(~present, smallest_first)], rounding)
    # Back to the features' own units, and then as large as the factor's columns.
    rows /= sizes
    rows /= np.abs(rows).max(axis=1)[:, None]
    rows /= np.abs(rows / sizes).max(axis=1)[:, None]
    return rows


def _staircase(rows: Floats, rounding: float) -> Floats:
    """Rotate rows so that each begins further right than the one above; rounding errors become 0.

    A direction among large features thus has nothing of the small ones, in whose units even a
    rounding error would be a large weight.
    """
    done = 0
    for column in range(rows.shape[1]):
        below = rows[done:, column]
        length = np.linalg.norm(below)
        if length <= rounding:
            below[:] = 0.0
            continue
        mirror = below.copy()
        mirror[0] += np.copysign(length, mirror[0])
        mirror /= np.linalg.norm(mirror)
        rows[done:] -= 2.0 * np.outer(mirror, mirror @ rows[done:])
        rows[done + 1 :, column] = 0.0
        done += 1
        if done == len(rows):
            break
    return rows
