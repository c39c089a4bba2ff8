"""Linear discriminant analysis from the statistics and the weights of least squares.

C = A'Y holds the sum of the rows of every class, N = diag(n_k) the weights of the classes. The
scatter of the rows about the means of their classes is S_w = A'A - C N^-1 C'. By Woodbury's formula
(S_w + D)^-1 C N^-1 = W (N - G)^-1, where W = (A'A + D)^-1 C are the least-squares weights and
G = W'C. So discriminant scores are an affine function of the K least-squares scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, check_positive
from onlinels.labels import Label, read_label

Priors = str | Mapping[Label, float] | None
"""A setting: None, "learnt", "equal", or prior probabilities by label."""

LIGHTEST = 1e-20
"""Share of all weight up to which a class counts as one without weight.

The sums keep some 16 - log10(1 / share) / 2 digits of its mean.
"""

UNEXPLAINED = 1e-10
"""Least share of scatter within classes in a direction; a smaller share is lost in rounding."""


class Discriminant(NamedTuple):
    """The affine map from least-squares scores to discriminant scores.

    Attributes
    ----------
    matrix : ndarray (n_classes, n_classes), or (n, n_classes, n_classes) for each of n rows
    constant : ndarray (n_classes,) or (n, n_classes)
        -inf of classes without weight.
    """

    matrix: Floats
    constant: Floats

    def scores(self, outputs: Floats) -> Floats:
        """Return the discriminant scores of least-squares scores (n_classes,) or (n, n_classes)."""
        one_for_all = self.matrix.ndim == 2
        mapped = outputs @ self.matrix if one_for_all else (outputs[:, None] @ self.matrix)[:, 0]
        scores: Floats = mapped + self.constant
        return scores


def read_priors(priors: Any) -> Priors:
    """Return the setting `priors`, a mapping as a new dict; raise if it is not valid."""
    if priors is None:
        return None
    if isinstance(priors, str) and priors in ("learnt", "equal"):
        return str(priors)
    if not isinstance(priors, Mapping):
        raise ValueError(
            f'priors={priors!r} is not known. Pass None, "learnt", "equal" or a dict of labels '
            "and their prior probabilities."
        )
    for label, prior in priors.items():
        check_positive(f"priors[{label!r}]", prior)
    return {read_label(label, "A label in priors"): float(p) for label, p in priors.items()}


def discriminant(
    explained: Floats, weights: Floats, centre: Floats, priors: Priors, labels: Sequence[Label]
) -> Discriminant:
    """Return the map from least-squares scores to discriminant scores.

    The score of class k is x'S^-1 m_k - m_k'S^-1 m_k / 2 + log p_k, with the covariance within
    classes S = (S_w + D) / n, the mean m_k of the class and its prior p_k. With an intercept, x and
    m_k are about the mean of all rows. The softmax of the scores gives the posterior probabilities
    of normal classes of covariance S.

    Parameters
    ----------
    explained : ndarray (n_classes, n_classes), or (n, n_classes, n_classes) for each of n rows
        G = W'A'Y, for the least-squares weights W.
    weights : ndarray (n_classes,) or (n, n_classes)
        The weight n_k of every class.
    centre : ndarray (n_classes,) or (n, n_classes)
        The mean of the targets, 0 where there is no intercept.
    priors : "learnt", "equal" or dict
        Priors of a dict need not sum to 1; a label that is not in it counts as 1.
    labels : sequence
        The labels of all classes.

    Notes
    -----
    About 10 K^3 operations for K classes.

    References
    ----------
    T. Hastie, A. Buja and R. Tibshirani, "Penalized discriminant analysis", The Annals of
    Statistics 23 (1995).

    Examples
    --------
    Four rows of -2, 0, 1 and 3, two of each class: means -1 and 2, scatter within classes 4.

    >>> rule = discriminant(
    ...     np.array([[0.692, -0.692], [-0.692, 0.692]]), np.array([2.0, 2.0]),
    ...     np.array([0.5, 0.5]), "equal", ("a", "b"))
    >>> rule.scores(np.array([0.5, 0.5])).round(2)
    array([-1.82, -1.82])
    """
    totals = weights.sum(axis=-1, keepdims=True)
    present = weights > LIGHTEST * totals
    weights = np.where(present, weights, np.inf)
    roots = 1.0 / np.sqrt(weights)
    scaled = roots[..., :, None] * explained * roots[..., None, :]
    # Without rounding errors G is symmetric, and its shares lie between 0 and 1.
    shares, vectors = np.linalg.eigh(scaled + scaled.swapaxes(-1, -2))
    shares = np.clip(0.5 * shares, 0.0, 1.0 - UNEXPLAINED)
    within = 1.0 / (1.0 - shares)
    inverse = (vectors * within[..., None, :]) @ vectors.swapaxes(-1, -2)
    matrix = totals[..., None] * roots[..., :, None] * inverse * roots[..., None, :]
    # The squared distance of a class's mean from the centre.
    distances = totals / weights * ((vectors**2) @ (shares * within)[..., None])[..., 0]
    constant = -(centre[..., None, :] @ matrix)[..., 0, :] - 0.5 * distances
    return Discriminant(matrix, constant + log_priors(priors, labels, weights, present))


def log_priors(priors: Priors, labels: Sequence[Label], weights: Floats, present: Any) -> Floats:
    """Return the logarithms of priors that sum to 1 over the classes that are present."""
    if isinstance(priors, Mapping):
        given = np.array([priors.get(label, 1.0) for label in labels])
        weights = np.broadcast_to(given / given.max(initial=1.0), present.shape)
    elif priors == "equal":
        weights = np.ones(present.shape)
    weights = np.where(present, weights, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(weights / weights.sum(axis=-1, keepdims=True))
    # Where no class has weight, nothing is known of any.
    known: Floats = np.where(present.any(axis=-1, keepdims=True), logarithms, 0.0)
    return known


def posteriors(scores: Floats) -> Floats:
    """Return posterior probabilities (n, n_classes): the softmax of discriminant scores.

    Examples
    --------
    >>> posteriors(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    if not scores.shape[1]:
        return scores
    likelihoods = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: Floats = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    return probabilities
