"""Targets of a batch: label columns, or a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels.checks import Floats, Matrix, check_matrix
from onlinels.numerics import product


def check_targets(targets: Any, n_rows: int) -> tuple[Matrix, int]:
    """Return the targets as an array, and how many target columns they need.

    Parameters
    ----------
    targets : array-like (n_rows,) of int, or (n_rows, n_targets) of numbers
        The column of every row's label, or a matrix of targets.
    n_rows : int

    Raises
    ------
    TypeError
        If label columns are not integers or the matrix is not numeric.
    ValueError
        If there are more or fewer rows than `n_rows`, a label column is negative, or a value is
        not finite.

    Examples
    --------
    >>> check_targets([0, 2], n_rows=2)
    (array([0, 2]), 3)
    """
    array = np.asarray(targets)
    if array.ndim == 1:
        _check_label_columns(array)
        n_targets = int(array.max()) + 1 if array.size else 0
    else:
        array = check_matrix("targets", array).astype(np.float64, copy=False)
        n_targets = array.shape[1]
    if len(array) != n_rows:
        raise ValueError(
            f"targets has {len(array)} rows, expected {n_rows}. Pass one target per row."
        )
    return array, n_targets


def _check_label_columns(labels: Matrix) -> None:
    if labels.dtype.kind not in "iu":
        raise TypeError(
            f"targets has dtype {labels.dtype}, expected the integer columns of the labels. "
            "Pass real-valued targets as a matrix (n_rows, n_targets)."
        )
    if labels.size and labels.min() < 0:
        raise ValueError(
            f"targets holds {labels.min()}, expected label columns of at least 0. "
            "Number the labels from 0."
        )


def target_sums(targets: Matrix, n_targets: int, w: Floats) -> Floats:
    """Return the weighted sum of every target: the labels' weights if they are label columns.

    Examples
    --------
    >>> target_sums(np.array([0, 1, 1, 1]), n_targets=3, w=np.ones(4))
    array([1., 3., 0.])
    """
    sums = np.zeros(n_targets)
    add_target_sums(sums, targets, w)
    return sums


def add_target_sums(sums: Floats, targets: Matrix, w: Floats) -> None:
    """Add the weighted sum of every target to sums (n_targets,), in place."""
    if targets.ndim == 1:
        np.add.at(sums, targets, w)
    else:
        sums[: targets.shape[1]] += w @ targets


def errors_of(rows: Floats, output_weights: Floats, targets: Matrix) -> Floats:
    """Return the targets minus the scores that output weights give rows.

    Parameters
    ----------
    rows : ndarray (n, n_features)
    output_weights : ndarray (n_features, n_targets)
    targets : ndarray (n,) of int, or (n, at most n_targets) of float
        The column of every row's label, or the first targets; the others are 0.

    Returns
    -------
    ndarray (n, n_targets)

    Examples
    --------
    >>> errors_of(np.ones((1, 2)), np.ones((2, 2)), np.array([1]))
    array([[-2., -1.]])
    """
    errors: Floats = rows @ output_weights if len(rows) == 1 else product(rows, output_weights)
    np.negative(errors, out=errors)
    if targets.ndim == 2:
        errors[:, : targets.shape[1]] += targets
    elif len(rows) == 1:
        errors[0, targets[0]] += 1.0
    else:
        errors[np.arange(len(rows)), targets] += 1.0
    return errors
