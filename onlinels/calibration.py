"""One scale per stream that turns scores into calibrated probabilities, fitted by its log-loss."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats, Integers, row_blocks

SCALES: Floats = 2.0 ** (np.arange(-8, 33) / 4)
"""Scales tried, 1/4 to 256 in steps of 19%."""

USUAL_SCALE = 4.0
"""Scale before anything is known: between the best of two classes (about 3) and of ten (11)."""

PRIOR: Floats = 0.5 * np.log(SCALES / USUAL_SCALE) ** 2
"""Log-loss by which a scale must be better than the usual one; a few rows make up for it."""


def calibrate(scores: Floats, scale: float | Floats, count: int) -> Floats:
    """Turn scores into probabilities by a scaled softmax, kept off 0 by the rows learnt so far.

    Parameters
    ----------
    scores : ndarray (..., n_classes)
    scale : float, or ndarray that broadcasts against `scores`
        a, above 0.
    count : int
        n, the rows from which the scores come.

    Returns
    -------
    ndarray (..., n_classes)
        p_k = (n q_k + 1) / (n + N) with q = softmax(a scores) over N classes: Laplace's rule of
        succession, as if each class had been met once more. The order of the scores is kept.

    Examples
    --------
    >>> calibrate(np.array([1.0, 0.0]), scale=4.0, count=98).round(3)
    array([0.972, 0.028])
    """
    # Relative to the highest score, so that nothing overflows.
    likelihoods = np.exp(scale * (scores - scores.max(axis=-1, keepdims=True)))
    shares = likelihoods / likelihoods.sum(axis=-1, keepdims=True)
    probabilities: Floats = (count * shares + 1.0) / (count + scores.shape[-1])
    return probabilities


def log_losses(scores: Floats, columns: Integers, weights: Floats, count: int) -> Floats:
    """Return the log-loss of every scale in `SCALES`, summed over rows.

    Parameters
    ----------
    scores : ndarray (n, n_classes)
        Made before the rows were learnt.
    columns : ndarray (n,)
        Column of each row's label; -1, a label never seen before, has no probability to improve.
    weights : ndarray (n,)
    count : int
        Rows from which the scores come.

    Returns
    -------
    ndarray (len(SCALES),)
        Sums add over rows, batches and models.

    Notes
    -----
    41 softmaxes a row.
    """
    known = columns >= 0
    scores, columns, weights = scores[known], columns[known], weights[known]
    total = np.zeros(len(SCALES))
    for rows in row_blocks(len(scores), len(SCALES) * max(1, scores.shape[1])):
        probabilities = calibrate(scores[rows, None, :], SCALES[:, None], count)
        of_label = np.take_along_axis(probabilities, columns[rows, None, None], axis=2)[..., 0]
        total -= weights[rows] @ np.log(of_label)
    return total


def best_scale(losses: Floats) -> float:
    """Return the scale of least log-loss, the usual one if nothing speaks for another.

    Examples
    --------
    >>> best_scale(np.zeros(len(SCALES)))
    4.0
    """
    return float(SCALES[np.argmin(losses + PRIOR)])
