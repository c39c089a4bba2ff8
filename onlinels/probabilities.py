"""From least-squares scores to probabilities."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats

UNSURE = 0.02
"""Probability that is spread over all classes, however sure the scores are.

Measured test-then-train on four streams and on images: without it one row in a hundred or so has a
label of probability 0, which costs more log-loss than all other rows; from 0.01 to 0.05 the
log-loss hardly changes.
"""


def probabilities_of(scores: Floats) -> Floats:
    """Turn scores into probabilities: the nearest point, row by row, of a simplex without 0.

    Least squares on one-hot targets estimates class probabilities, but its scores may leave
    [0, 1] and need not sum to 1. The nearest probabilities often are 0, and no finite number of
    rows makes anyone that sure; so each of N classes has at least 0.02 / N.

    Parameters
    ----------
    scores : ndarray (n, n_classes)

    Returns
    -------
    ndarray (n, n_classes)
        The nearest point to the scores among all p with sum 1 and p_k >= 0.02 / N. The order of
        the scores is kept, and scores that are such a point are the answer.

    Notes
    -----
    O(N log N) a row; a function of the scores alone.

    Examples
    --------
    >>> probabilities_of(np.array([[0.75, 0.25], [1.3, -0.3]]))
    array([[0.75, 0.25],
           [0.99, 0.01]])
    """
    if not scores.shape[1]:
        return scores
    least = UNSURE / scores.shape[1]
    shares = project_to_simplex((scores - least) / (1.0 - UNSURE))
    probabilities: Floats = least + (1.0 - UNSURE) * shares
    return probabilities


def project_to_simplex(scores: Floats) -> Floats:
    """Turn scores into probabilities: the nearest point, row by row, of the probability simplex.

    Least squares on one-hot targets estimates class probabilities, but its scores may leave
    [0, 1] and need not sum to 1.

    Parameters
    ----------
    scores : ndarray (n, n_classes)

    Returns
    -------
    ndarray (n, n_classes)
        p = max(scores - t, 0) with the t of each row for which p sums to 1. The order of the
        scores is kept.

    Notes
    -----
    O(N log N) a row.

    References
    ----------
    J. Duchi et al., "Efficient projections onto the l1-ball for learning in high dimensions",
    ICML 2008, figure 1.

    Examples
    --------
    >>> project_to_simplex(np.array([[0.9, 0.3, -0.2]]))
    array([[0.8, 0.2, 0. ]])
    """
    if not scores.shape[1]:
        return scores
    # Relative to the highest score: what is far below it cannot cost the others their digits.
    scores = scores - scores.max(axis=1, keepdims=True)
    descending = -np.sort(-scores, axis=1)
    excess = np.cumsum(descending, axis=1) - 1.0
    kept = descending * np.arange(1, scores.shape[1] + 1) > excess
    last = kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1)
    threshold = np.take_along_axis(excess, last[:, None], axis=1) / (last[:, None] + 1)
    probabilities: Floats = np.maximum(scores - threshold, 0.0)
    return probabilities
