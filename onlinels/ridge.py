"""The ridge: a number, or chosen from the sufficient statistics alone."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinels.arrays import Floats
from onlinels.scalars import as_number, shown
from onlinels.settings import check_count

FLOOR = 10.0 * float(np.finfo(np.float64).eps)
"""Smallest ridge that "paper" answers with, relative to the median feature's sum of squares."""


NAMES = ("paper", "auto")
"""Settings of the ridge that are names."""

REMEDY = 'Pass a float >= 0, "paper", "auto" or KFold(n_folds).'


@dataclass(frozen=True)
class KFold:
    """Choose the ridge by exact K-fold cross-validation, from statistics kept in K folds.

    Rows are dealt into folds by their content, so folds merge, and rows can be unlearnt.

    Parameters
    ----------
    n_folds : int
        K, at least 2.

    Raises
    ------
    TypeError, ValueError
        If it is not.

    Notes
    -----
    K times the memory of "auto", and ten to twenty-five times its time for a choice. Take it where
    the squared error itself counts and a few rows lie far outside the others: what these would
    spoil shows on held-out rows, which "auto" has none of. In its share of wrong labels "auto" was
    as good or better on average (demos/benchmarks/README.md).

    Examples
    --------
    >>> KFold()
    KFold(n_folds=5)
    """

    n_folds: int = 5

    def __post_init__(self) -> None:
        check_count("n_folds", self.n_folds, 2)


Ridge = float | str | KFold
"""A setting: a number, "paper", "auto" or KFold."""


def check_ridge(ridge: Any) -> None:
    """Raise unless `ridge` is a finite number of at least 0, "paper", "auto" or a KFold.

    Raises
    ------
    TypeError
        If it is none of a number, a string and a KFold.
    ValueError
        If it is a negative, infinite or NaN number, or an unknown name.

    Examples
    --------
    >>> check_ridge("best")
    Traceback (most recent call last):
        ...
    ValueError: ridge='best' is not known. Pass a float >= 0, "paper", "auto" or KFold(n_folds).
    """
    if isinstance(ridge, str):
        if ridge not in NAMES:
            raise ValueError(f"ridge={ridge!r} is not known. {REMEDY}")
    elif not isinstance(ridge, KFold):
        number = ridge if type(ridge) is float else _as_real(ridge)
        if number is None:
            raise TypeError(f"ridge={ridge!r} must be a number, a name or a KFold. {REMEDY}")
        if not 0.0 <= number < np.inf:
            what = shown(ridge, number)
            raise ValueError(f"ridge={what} must be at least 0 and finite. {REMEDY}")


def _as_real(value: Any) -> float | None:
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return as_number(value) if is_real else None


def choose_ridge(ridge: float | str, diagonal: Floats, n_targets: int) -> float:
    """Return the ridge in force: a pure function of the setting and the statistics.

    "auto" and KFold look at more of the statistics: see `onlinels.selection.gcv_ridge` and
    `FoldedAccumulator.select_ridge`.

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
    if ridge == "auto" or isinstance(ridge, KFold):
        raise ValueError(f'ridge={ridge!r} is not chosen here. Pass a float >= 0 or "paper".')
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
