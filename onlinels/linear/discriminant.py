"""Linear discriminant analysis from the statistics and the weights of least squares.

C = A'Y holds the sum of the rows of every class, N = diag(n_k) the weights of the classes. The
scatter of the rows about the means of their classes is S_w = A'A - C N^-1 C'. By Woodbury's formula
(S_w + D)^-1 C N^-1 = W (N - G)^-1, where W = (A'A + D)^-1 C are the least-squares weights and
G = W'C. The discriminant scores are therefore an affine function of the K least-squares scores.

Q = C N^-1 (S_w + D)^-1 C N^-1, the products of the means of the classes, is also a function of G.
So the means can be shrunk, and the discriminants of the shrunken means computed, with K x K
matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, check_positive
from onlinels.rows.labels import Label, read_label
from onlinels.saving import savable

Priors = str | Mapping[Label, float] | None
"""The setting `priors`: None, "learnt", "equal", or a dict of prior probabilities by label."""

MIN_CLASS_SHARE = 1e-20
"""Share of the total weight up to which a class counts as a class without weight.

The sums keep about 16 - log10(1 / share) / 2 digits of its mean.
"""

MAX_ROW_NOISE = 4.0
"""Largest noise of one row, in typical squared distances between classes; see `shrinkage`."""

MIN_SCATTER_SHARE = 1e-10
"""Smallest share of scatter within classes in a direction; rounding hides smaller shares."""


@savable()
class Discriminant(NamedTuple):
    """The affine map from least-squares scores to discriminant scores.

    Attributes
    ----------
    matrix : ndarray (n_classes, n_classes), or (n, n_classes, n_classes) for each of n rows
        Factor on the least-squares scores.
    constant : ndarray (n_classes,) or (n, n_classes)
        Constant of every class; -inf for classes without weight.
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
    """Return the setting `priors`, with a mapping as a new dict; raise if it is not valid."""
    if priors is None:
        return None
    if isinstance(priors, str) and priors in ("learnt", "equal"):
        return str.__str__(priors)
    if not isinstance(priors, Mapping):
        raise ValueError(
            f'priors={priors!r} is not known. Pass None, "learnt", "equal" or a dict '
            "{label: prior probability}."
        )
    for label, prior in priors.items():
        check_positive(f"priors[{label!r}]", prior)
    return {read_label(label, "A label in priors"): float(p) for label, p in priors.items()}


def discriminant(
    explained: Floats, weights: Floats, centre: Floats, priors: Priors, labels: Sequence[Label]
) -> Discriminant:
    """Return the map from least-squares scores to discriminant scores.

    The score of class k is x'S^-1 m_k - m_k'S^-1 m_k / 2 + log p_k, with the covariance within
    classes S = (S_w + D) / n, the mean m_k of the class (the shrunken mean if priors are "equal")
    and its prior p_k. With an intercept, x and m_k are about the mean of all rows. The softmax of
    the scores gives the posterior probabilities of normal classes with covariance S.

    Parameters
    ----------
    explained : ndarray (n_classes, n_classes), or (n, n_classes, n_classes) for each of n rows
        G = W'A'Y, for the least-squares weights W.
    weights : ndarray (n_classes,) or (n, n_classes)
        The weight n_k of every class.
    centre : ndarray (n_classes,) or (n, n_classes)
        The mean of the targets; 0 without an intercept.
    priors : "learnt", "equal" or dict
        Setting of the priors. A dict need not sum to 1; a label that is not in it counts as 1.
    labels : sequence
        Labels of all classes.

    Notes
    -----
    About 20 K^3 operations for K classes.

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
    present = weights > MIN_CLASS_SHARE * totals
    weights = np.where(present, weights, np.inf)
    roots = 1.0 / np.sqrt(weights)
    scaled = roots[..., :, None] * explained * roots[..., None, :]
    # Without rounding errors G is symmetric, and its shares lie between 0 and 1.
    shares, vectors = np.linalg.eigh(scaled + scaled.swapaxes(-1, -2))
    shares = np.clip(0.5 * shares, 0.0, 1.0 - MIN_SCATTER_SHARE)
    within = 1.0 / (1.0 - shares)
    scales = totals[..., None] * roots[..., :, None] * roots[..., None, :]
    matrix = scales * ((vectors * within[..., None, :]) @ vectors.swapaxes(-1, -2))
    # The inner products of the means of the classes, because within - 1 is shares * within.
    products = matrix - scales * np.eye(len(labels))
    if priors == "equal":
        means = shrinkage(products, np.where(present, weights, 0.0))
        matrix = matrix @ means
        products = means.swapaxes(-1, -2) @ products @ means
    distances = np.diagonal(products, axis1=-2, axis2=-1)
    constant = -(centre[..., None, :] @ matrix)[..., 0, :] - 0.5 * distances
    return Discriminant(matrix, constant + log_priors(priors, labels, weights, present))


def shrinkage(products: Floats, weights: Floats) -> Floats:
    """Return shrunken means of classes, a column each, as combinations of the means.

    The mean of a class of n_k rows is m_k = mu_k + e_k. With many features, the noise e_k is almost
    orthogonal to everything else, so it adds its square to the squared distances d_jk^2 of m_k from
    the other means. Let t_k be the mean of d_jk^2 over the rows of the other classes, and t, the
    typical squared distance, the mean over all pairs of rows of different classes. Both means are
    harmonic, because classes that are close cause the errors. The excess of t_k over t counts as
    noise, up to a bound: v_k = min(max(t_k - t, 0), 4 t / n_k). m_k is then shrunk towards the mean
    of all rows by the factor 1 - v_k / |m_k|^2 of James and Stein.

    The means of two classes stay as they are, and the shrinkage vanishes as 1 / n_k.

    Parameters
    ----------
    products : ndarray (..., n_classes, n_classes)
        The inner products of the means.
    weights : ndarray (..., n_classes)
        The weight n_k of every class; 0 for classes that are not present.

    References
    ----------
    W. James and C. Stein, "Estimation with quadratic loss", Proceedings of the fourth Berkeley
    Symposium (1961); R. Tibshirani and others, "Diagnosis of multiple cancer types by shrunken
    centroids of gene expression", PNAS 99 (2002).

    Examples
    --------
    Three classes with products of means 2; the mean of the last class has a noise of 3.

    >>> products = np.diag([2.0, 2.0, 5.0])
    >>> shrinkage(products, np.array([1000.0, 1000.0, 2.0])).round(2)
    array([[1.  , 0.  , 0.25],
           [0.  , 1.  , 0.25],
           [0.  , 0.  , 0.5 ]])
    """
    unit = np.eye(products.shape[-1])
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    distances = np.maximum(squares[..., :, None] + squares[..., None, :] - 2.0 * products, 0.0)
    # With fewer than two classes, the distances are unknown: NaN.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.nan_to_num(weights / weights.sum(axis=-1, keepdims=True))
        pairs = shares[..., :, None] * shares[..., None, :] * (1.0 - unit)
        inverses = np.where(pairs > 0.0, pairs / distances, 0.0)
        means = pairs.sum(axis=-1) / inverses.sum(axis=-1)
        typical = (pairs.sum(axis=(-2, -1)) / inverses.sum(axis=(-2, -1)))[..., None]
        noise = np.minimum(means - typical, MAX_ROW_NOISE * typical / weights)
        # The squared distance from the mean of all rows.
        lengths = (distances @ shares[..., None])[..., 0]
        lengths -= 0.5 * (shares * lengths).sum(axis=-1, keepdims=True)
        factors = 1.0 - np.clip(np.nan_to_num(noise / lengths), 0.0, 1.0)
    shrunken: Floats = factors[..., None, :] * unit
    shrunken += (1.0 - factors)[..., None, :] * shares[..., :, None]
    return shrunken


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
    # If no class has weight, all priors are unknown.
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
