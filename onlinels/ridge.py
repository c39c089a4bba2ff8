"""The ridge: a number, or chosen from the sufficient statistics alone."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from onlinels.arrays import Floats

FLOOR = 10.0 * float(np.finfo(np.float64).eps)
"""Smallest ridge that "paper" answers with, relative to the median feature's sum of squares."""


def check_ridge(ridge: Any) -> None:
    """Raise unless `ridge` is a finite number of at least 0 or "paper".

    Raises
    ------
    TypeError
        If it is neither a number nor a string.
    ValueError
        If it is a negative, infinite or NaN number, or an unknown name.
    """
    remedy = 'Pass a float >= 0 or "paper".'
    if isinstance(ridge, str):
        if ridge != "paper":
            raise ValueError(f"ridge={ridge!r} is not known. {remedy}")
    elif isinstance(ridge, bool) or not isinstance(ridge, numbers.Real):
        raise TypeError(f"ridge={ridge!r} must be a number or a name. {remedy}")
    elif not 0.0 <= float(ridge) < np.inf:
        raise ValueError(f"ridge={ridge!r} must be at least 0 and finite. {remedy}")


def choose_ridge(ridge: float | str, diagonal: Floats, n_targets: int) -> float:
    """Return the ridge in force: a pure function of the setting and the statistics.

    Parameters
    ----------
    ridge : float or "paper"
        The setting.
    diagonal : ndarray (n_features,)
        Diagonal of the Gram: every feature's sum of squares.
    n_targets : int
        Number of classes.

    Examples
    --------
    >>> choose_ridge("paper", np.array([8.0, 2.0]), n_targets=2)
    2.0
    """
    check_ridge(ridge)
    return paper_ridge(diagonal, n_targets) if isinstance(ridge, str) else float(ridge)


def paper_ridge(diagonal: Floats, n_targets: int) -> float:
    """Return the paper's heuristic, c = (N/M)^2 min(diag(A'A)).

    Parameters
    ----------
    diagonal : ndarray (n_features,)
        Diagonal of the Gram A'A. Features whose sum of squares is 0 (hidden units that were never
        active) are left out of the minimum: they would make the ridge 0, and whatever the ridge
        is, their own weights are 0.
    n_targets : int
        Number of classes N; M is the number of features.

    Returns
    -------
    float
        At least ``10 * eps * M`` times the median sum of squares (eps = 2.2e-16): for hidden
        units of one kind a smaller ridge drowns in the rounding errors of the Gram. 0.0 if all
        features are always 0.

    Notes
    -----
    The ridge grows with the number of rows as the Gram does, so its strength relative to the data
    settles. It is a function of the statistics alone: no cutting of the stream changes it.

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015, section II-C.

    Examples
    --------
    >>> paper_ridge(np.array([4.0, 0.0, 16.0, 4.0]), n_targets=2)
    1.0
    """
    active = diagonal[diagonal > 0.0]
    if not active.size:
        return 0.0
    heuristic = (n_targets / diagonal.size) ** 2 * active.min()
    return float(max(heuristic, FLOOR * active.size * np.median(active)))
