"""Rows that an inverse can take in or give back, told from those that it must refuse."""

from __future__ import annotations

import numpy as np

from onlinels.accumulators.inverse import RunningInverse
from onlinels.accumulators.pivots import OUTWEIGHED, check_pivots
from onlinels.checks import Floats
from onlinels.linalg.selection import check_ridge


def check_rows(inverse: RunningInverse, ridge: float, rows: Floats, w: Floats) -> None:
    """Raise if rows, all together, cannot be added (or, of weights below 0, taken out).

    Parameters
    ----------
    inverse : RunningInverse
    ridge : float
        c; no entry of the inverse is over 2/c.
    rows : ndarray (n, n_columns)
        Columns beyond those of the inverse are new features.
    w : ndarray (n,)
        Weights of one sign, none of them 0.

    Raises
    ------
    ValueError
        If rows to take out were never learnt, or too little would be left; or if a row outweighs
        all that is known in its direction by more than float64 resolves.
    """
    known, new = rows[:, : inverse.n_features], rows[:, inverse.n_features :]
    if w[0] < 0.0:
        if new.any():
            raise ValueError(
                f"activations has {rows.shape[1]} columns that are not all 0, expected the "
                f"{inverse.n_features} that were learnt. Take out only rows that are in."
            )
        inverse.check_removable(known, -w)
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # What overflows is refused.
            heaviest = _heaviest(inverse, ridge, np.sqrt(w)[:, None] * rows)
        check_pivots(1.0, heaviest, 1.0)


def _heaviest(inverse: RunningInverse, ridge: float, rows: Floats) -> float:
    """Return 1 plus the largest leverage of rows scaled to unit weight, or 1 if it is harmless."""
    # A product with the inverse is rarely needed to be sure.
    if (rows**2).sum(axis=1).max() <= 0.5 * OUTWEIGHED * ridge:
        return 1.0
    known, new = rows[:, : inverse.n_features], rows[:, inverse.n_features :]
    leverages = np.einsum("ij,ji->i", known, inverse.times(known.T))
    leverages += (new**2).sum(axis=1) / ridge
    return 1.0 + float(leverages.max())


def check_fixable(ridge: float) -> None:
    """Raise unless a ridge can be held inside statistics: a number greater than 0."""
    check_ridge(ridge)
    if isinstance(ridge, str) or not ridge > 0.0:
        raise ValueError(
            f"ridge={ridge!r} must be a number greater than 0 for the recursive form, which holds "
            'an inverse. Pass a positive ridge, or accumulator="gram" or "orthogonal".'
        )
