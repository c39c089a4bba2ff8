"""Cholesky factors of updates, checked by their pivots before anything changes."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from onlinels.checks import Floats

LEFT = 1e-6
"""Share of what was known in a direction that must be left when rows are taken out."""

OUTWEIGHED = 1e14
"""Largest ratio of new rows to what was known in their direction: beyond, nothing is left."""

REMEDY = 'set a larger ridge, or accumulator="gram"'


def check_pivots(lowest: float, highest: float, sign: float) -> None:
    """Raise ValueError unless rows can be added (sign 1) or taken out (-1).

    Parameters
    ----------
    lowest, highest : float
        Least and greatest pivot of I + X P X', or of I - X P X'.
    sign : float
    """
    if sign < 0 and not lowest > LEFT:
        raise ValueError(
            f"rows to take out hold all but {max(lowest, 0.0):.1g} of what is known in a "
            f"direction, expected at least {LEFT:g} to be left. Take out only rows that are in, "
            f"with the weights that they have now; or {REMEDY}."
        )
    if not lowest > 0.0:
        raise ValueError(
            "rounding errors have overgrown what is known in a direction, expected features whose "
            f"squares the ridge can stand beside. Scale them, {REMEDY}."
        )
    if not highest <= OUTWEIGHED:
        raise ValueError(
            f"rows outweigh what is known in a direction by {highest:.1g}, expected at most "
            f"{OUTWEIGHED:g}, which float64 resolves. Rescale the features, {REMEDY}."
        )


def checked_factor(system: Floats, sign: float) -> Floats:
    """Return the upper Cholesky factor of I + X P X' (or -), given X P X', which is overwritten."""
    system *= sign
    system.flat[:: len(system) + 1] += 1.0
    factor, failed = dpotrf(system.T, lower=0, overwrite_a=1)
    pivots = factor.diagonal() ** 2
    check_pivots(0.0 if failed else float(pivots.min()), float(pivots.max()), sign)
    upper: Floats = factor
    return upper


def inverted(matrix: Floats, least_pivots: Floats | float = 0.0) -> Floats:
    """Return the upper triangle of the inverse, in the matrix's place; the lower holds anything.

    Raises
    ------
    ValueError
        If a pivot is not above its least value.

    Notes
    -----
    ``M^3`` operations.
    """
    if not len(matrix):
        return matrix
    factor, failed = dpotrf(matrix, lower=0, overwrite_a=1, clean=0)
    if failed or not np.all(factor.diagonal() ** 2 > least_pivots):
        raise ValueError(
            "the statistics are not positive definite, expected more data than is taken out, and "
            f"a ridge above rounding errors. Take out only rows that are in; or {REMEDY}."
        )
    inverse: Floats = dpotri(factor, lower=0, overwrite_c=1)[0]
    return inverse
