"""Checks before rows are taken out: no more than was learnt, so far as sums can tell."""

from __future__ import annotations

import numpy as np

from onlinels.checks import Floats, Matrix, row_blocks
from onlinels.targets import target_sums

SLACK = 1e-9
"""Relative excess that rounding errors and decayed weights may cause."""


def check_removable(
    what: str, held: Floats | float, taken: Floats | float, before: Floats | float = 0.0
) -> None:
    """Raise if sums of what is to be taken out exceed those of what was learnt.

    Parameters
    ----------
    what : str
        What was summed, for the error.
    held, taken : ndarray (n,) or float
        Sums of non-negative numbers over the rows learnt and the rows to be taken out.
    before : ndarray (n,) or float
        Sums over what was taken out before, of which rounding errors stay.

    Raises
    ------
    ValueError
        If `taken` is larger anywhere.

    Examples
    --------
    >>> check_removable("weight", held=2.0, taken=3.0)
    Traceback (most recent call last):
        ...
    ValueError: The weight to be taken out is 3, expected at most the 2 learnt. ...
    """
    excess = np.atleast_1d(taken > held + SLACK * (np.abs(held) + before))
    if excess.any():
        column = int(excess.argmax())
        where = f" in column {column}" if np.ndim(held) else ""
        raise ValueError(
            f"The {what} to be taken out is {np.atleast_1d(taken)[column]:g}{where}, expected at "
            f"most the {np.atleast_1d(held)[column]:g} learnt. Take out only rows that are in, "
            "with their weights as they count now."
        )


def row_squares(
    activations: Matrix, targets: Matrix, n_targets: int, w: Floats
) -> tuple[Floats, Floats]:
    """Return the weighted sums of squares of features and targets over rows.

    Examples
    --------
    >>> row_squares(np.array([[1.0, 2.0]]), np.array([1]), 2, np.array([3.0]))
    (array([ 3., 12.]), array([0., 3.]))
    """
    features = np.zeros(activations.shape[1])
    for rows in row_blocks(*activations.shape):
        features += w[rows] @ np.square(activations[rows], dtype=np.float64)
    squares = targets if targets.ndim == 1 else np.square(targets)
    return features, target_sums(squares, n_targets, w)
