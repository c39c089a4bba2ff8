"""Labels and probabilities from scores; with `priors`, from linear discriminants.

Linear discriminant analysis needs the statistics and the weights of least squares alone.
C = A'Y holds the sum of the rows of every class, N = diag(n_k) the weights of the classes. The
scatter of the rows about the means of their classes is S_w = A'A - C N^-1 C'. By Woodbury's formula
(S_w + D)^-1 C N^-1 = W (N - G)^-1, where W = (A'A + D)^-1 C are the least-squares weights and
G = W'C. The discriminant scores are therefore an affine function of the K least-squares scores.

Q = C N^-1 (S_w + D)^-1 C N^-1, the products of the means of the classes, is also a function of G.
So the means can be shrunk, and the discriminants of the shrunken means computed, with K x K
matrices.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from river import base

from onlinels.checks import Floats, Integers, check_positive, ignoring
from onlinels.core.constants import (
    MAX_ROW_NOISE,
    MIN_CLASS_SHARE,
    MIN_SCATTER_SHARE,
    SPREAD_PROBABILITY,
)
from onlinels.locks import Lock
from onlinels.rows.answers import labels_like, numbers_like, table_like
from onlinels.rows.labels import Label, read_label
from onlinels.saving import savable


def probabilities_of(scores: Floats) -> Floats:
    """Return the nearest probabilities to the scores of every row, each at least 0.02 / n_classes.

    Least squares on one-hot targets estimates class probabilities, but the scores may leave [0, 1]
    and need not sum to 1. The nearest probabilities are often 0, a certainty that no finite number
    of rows justifies. Therefore each of N classes has a probability of at least 0.02 / N.

    Parameters
    ----------
    scores : ndarray (n, n_classes)
        Scores of n rows.

    Returns
    -------
    ndarray (n, n_classes)
        The nearest point to the scores among all p with sum 1 and p_k >= 0.02 / N. The order of
        the scores is kept. Scores that fulfil both conditions are returned unchanged.

    Notes
    -----
    The cost is O(N log N) per row. The result depends on the scores alone.

    References
    ----------
    J. Duchi et al., "Efficient projections onto the l1-ball for learning in high dimensions",
    ICML 2008, figure 1.

    Examples
    --------
    >>> probabilities_of(np.array([[0.75, 0.25], [1.3, -0.3]]))
    array([[0.75, 0.25],
           [0.99, 0.01]])
    """
    n_classes = scores.shape[1]
    if not n_classes:
        return scores
    least = SPREAD_PROBABILITY / n_classes
    # Projected onto the simplex: p = max(scores - t, 0), with the t for which p sums to 1.
    scores = (scores - least) / (1.0 - SPREAD_PROBABILITY)
    # Relative to the highest score, so that very low scores do not cost the others their digits.
    scores = scores - scores.max(axis=1, keepdims=True)
    descending = -np.sort(-scores, axis=1)
    # By the k highest scores alone, t would be (their sum - 1) / k; the largest of these holds.
    thresholds = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, n_classes + 1)
    shares = np.maximum(scores - thresholds.max(axis=1, keepdims=True), 0.0)
    probabilities: Floats = least + (1.0 - SPREAD_PROBABILITY) * shares
    return probabilities


SOFTMAX_SCALES: Floats = 2.0 ** (np.arange(-8, 33) / 4)
"""Candidate scales, from 1/4 to 256 in steps of 19%."""

DEFAULT_SCALE = 4.0
"""Initial scale, between the best scale for two classes (about 3) and for ten classes (11)."""

SCALE_PENALTIES: Floats = 0.5 * np.log(SOFTMAX_SCALES / DEFAULT_SCALE) ** 2
"""Log-loss by which a scale must be better than the usual scale; a few rows outweigh it."""


def calibrate(
    scores: Floats, scale: float | Floats, count: float | Integers | Floats, n_classes: Any = None
) -> Floats:
    """Return probabilities from scores by a scaled softmax and Laplace's rule of succession.

    Parameters
    ----------
    scores : ndarray (..., n_classes)
        Scores of rows.
    scale : float, or ndarray that broadcasts against `scores`
        The scale a, above 0.
    count : int, or ndarray that broadcasts against `scores`
        The number n of rows learnt before the scores were computed.
    n_classes : int, or ndarray that broadcasts against `scores`, optional
        The number N of classes that were known, which have the first scores. The other scores are
        -inf, and their probabilities have no meaning.

    Returns
    -------
    ndarray (..., n_classes)
        p_k = (n q_k + 1) / (n + N) with q = softmax(a scores) over N classes: Laplace's rule of
        succession, which counts one more row of each class. No probability is 0, and the order of
        the scores is kept.

    Examples
    --------
    >>> calibrate(np.array([1.0, 0.0]), scale=4.0, count=98).round(3)
    array([0.972, 0.028])
    """
    # Relative to the highest score, so that exp does not overflow.
    likelihoods = np.exp(scale * (scores - np.maximum.reduce(scores, axis=-1, keepdims=True)))
    shares = likelihoods / np.add.reduce(likelihoods, axis=-1, keepdims=True)
    n_classes = scores.shape[-1] if n_classes is None else n_classes
    probabilities: Floats = (count * shares + 1.0) / (count + n_classes)
    return probabilities


def log_losses(
    scores: Floats,
    columns: Integers,
    weights: float | Floats,
    counts: float | Integers | Floats,
    n_classes: int | Integers,
) -> Floats:
    """Return the log-loss of every row at every scale in `SOFTMAX_SCALES`.

    Parameters
    ----------
    scores : ndarray (n, n_classes)
        Scores of the rows, computed before the rows were learnt.
    columns : ndarray (n,)
        Column of each row's label, or -1 for a new label, for which the loss is 0 at every scale.
    weights : float, or ndarray (n,)
        Weights of the rows.
    counts : int, or ndarray (n,)
        Number of rows learnt before the scores were computed.
    n_classes : int, or ndarray (n,)
        Number of classes that were known then; see `calibrate`.

    Returns
    -------
    ndarray (n, len(SOFTMAX_SCALES))
        Log-losses, which can be summed over rows, batches and models.

    Notes
    -----
    The cost is 41 softmaxes per row, which are all in memory.
    """
    each = (np.asarray(number)[..., None, None] for number in (counts, n_classes))
    probabilities = calibrate(scores[:, None], SOFTMAX_SCALES[:, None], *each)
    of_label = probabilities[np.arange(len(scores)), :, columns]
    of_label[columns < 0] = 1.0
    losses: Floats = -np.asarray(weights)[..., None] * np.log(of_label)
    return losses


def best_scale(losses: Floats) -> float:
    """Return the scale with the lowest log-loss, the usual scale before any row.

    Examples
    --------
    >>> best_scale(np.zeros(len(SOFTMAX_SCALES)))
    4.0
    """
    return float(best_scales(losses))


def best_scales(losses: Floats) -> Floats:
    """Return the scales with the lowest log-loss, (...), for losses (..., len(SOFTMAX_SCALES))."""
    scales: Floats = SOFTMAX_SCALES[(losses + SCALE_PENALTIES).argmin(axis=-1)]
    return scales


class ScoringClassifier(base.MiniBatchClassifier):
    """A classifier that computes all predictions from a score per class.

    Subclasses compute the scores of a sample and of a batch. The predicted label is the class with
    the highest score, on a tie the first of them. The probabilities are the scores projected onto
    the simplex (see `onlinels.linear.scoring.probabilities_of`).
    """

    _lock: Lock

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    @abstractmethod
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""

    @abstractmethod
    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return the scores of one sample, (n_classes,)."""

    def _scores_one(self, x: Mapping[Any, Any]) -> list[float]:
        """Return the scores of one sample."""
        scores: list[float] = self._row_scores(x).tolist()
        return scores

    @abstractmethod
    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        """Return the input, which determines the kind of the result, and scores (n, n_classes)."""

    def _probabilities(self, scores: Floats) -> Floats:
        return probabilities_of(scores)

    def _unseen(self, n_known: int) -> dict[Label, float]:
        """Return the probabilities of unseen classes, if the first `n_known` classes are known."""
        return unseen_classes(getattr(self, "priors", None), self.classes[:n_known])

    @property
    def _known_labels(self) -> tuple[tuple[Label, ...] | None, int]:
        """The labels of a model that takes them beforehand, and its number of rows; None and 0."""
        given = getattr(self, "labels", None)
        return given, 0 if given is None else self.count  # type: ignore[attr-defined]

    def _with_unseen(self, scores: Floats) -> tuple[tuple[Label, ...], Floats]:
        """Return labels, also of unseen classes, and the probability of each, (n, n_labels).

        The columns of the scores are those of the first classes.
        """
        labels, known = self.classes[: scores.shape[1]], self._probabilities(scores)
        return _with_fixed(labels, known, self._unseen(len(labels)))

    def scores_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the score of every class for one sample; see `scores_many`."""
        with self._lock:
            scores = self._scores_one(x)  # Reading x may run code that learns a class.
            return dict(zip(self.classes, scores, strict=True))

    def scores_many(self, X: Any) -> Any:
        """Return the scores, a column per class, in the kind of `X`.

        The scores are the raw least-squares outputs, or the linear discriminant functions in linear
        models with `priors`.
        """
        with self._lock:
            source, scores = self._batch_scores(X)
            return table_like(source, self.classes, scores)

    def margin_one(self, x: Mapping[Any, Any]) -> float:
        """Return the margin of one sample: its highest score minus the next; see `margin_many`.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier(ridge=0.0)
        >>> model.learn_many([{"a": 0.0}, {"a": 1.0}], ["low", "high"])
        >>> round(model.margin_one({"a": 0.9}), 9)
        0.8
        """
        with self._lock:
            scores = sorted(self._scores_one(x))
            return scores[-1] - scores[-2] if len(scores) > 1 else 0.0

    def margin_many(self, X: Any) -> Any:
        """Return the margin of every row: its highest score minus the next, in the kind of `X`.

        Margins are differences of scores, because probabilities do not distinguish large
        differences of scores. With fewer than two classes the margin is 0.

        Parameters
        ----------
        X : array, sparse matrix, frame or list of dicts
            Rows, as in `predict_many`.

        Returns
        -------
        array, series or list of n_rows floats
            Margins of at least 0, in units of a score: the target of the true class is 1, and that
            of other classes 0. With `priors` of a linear model, the margin is the logarithm of the
            odds of the two classes.
        """
        with self._lock:
            source, scores = self._batch_scores(X)
            return numbers_like(source, margins(scores))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample, {} before anything is learnt.

        See `predict_proba_many` for classes without rows.
        """
        check_keywords(self, kwargs)
        with self._lock:
            labels, probabilities = self._with_unseen(self._row_scores(x)[None])
            shares = dict(zip(labels, probabilities[0].tolist(), strict=True))
            given, count = self._known_labels
            return shares if given is None else with_unseen_labels(shares, given, count)

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`.

        The first columns are those of `classes`. A column follows for each label of a dict of
        `priors`, or of `labels` of a model that takes them, that no row has had so far, in the
        order of these.
        """
        with self._lock:
            source, scores = self._batch_scores(X)
            labels, probabilities = self._with_unseen(scores)
            given, count = self._known_labels
            unseen = {} if given is None else unseen_labels(given, {*labels}, count)
            return table_like(source, *_with_fixed(labels, probabilities, unseen))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label with the highest score for one sample, None if nothing is learnt yet."""
        check_keywords(self, kwargs)
        with self._lock:
            scores = self._scores_one(x)
            return self.classes[scores.index(max(scores))] if scores else None

    def predict_many(self, X: Any) -> Any:
        """Return the label with the highest score for every row, in the kind of `X`."""
        with self._lock:
            source, scores = self._batch_scores(X)
            classes = self.classes or (None,)
            best = scores.argmax(axis=1) if scores.shape[1] else [0] * len(scores)
            return labels_like(source, [classes[column] for column in best], classes)


def check_keywords(model: Any, given: Mapping[str, Any]) -> None:
    """Raise TypeError for keywords of a prediction that are none of `learn_one` either.

    River passes both the same ones, such as the weight `w` of a row, which a prediction ignores.
    """
    if given:
        known = inspect.signature(model.learn_one).parameters
        for name in given:
            if name not in known:
                method = f"{type(model).__name__}.learn_one"
                raise TypeError(
                    f"{name!r} is an unknown keyword, expected one of {method}. Leave it out."
                )


def _with_fixed(
    labels: tuple[Label, ...], shares: Floats, fixed: dict[Label, float]
) -> tuple[tuple[Label, ...], Floats]:
    """Return labels and probabilities (n, n_labels) with those of further labels.

    These are equal in all rows; the labels before share the rest in the same proportions.
    """
    if not fixed:
        return labels, shares
    rows = np.tile([*fixed.values()], (len(shares), 1))
    return (*labels, *fixed), np.hstack((shares * (1.0 - sum(fixed.values())), rows))


def margins(scores: Floats) -> Floats:
    """Return the difference of the two highest scores of every row, 0 with fewer than two classes.

    Examples
    --------
    >>> margins(np.array([[0.1, 0.9, 0.3], [0.5, 0.2, 0.5]])).round(9)
    array([0.6, 0. ])
    """
    if scores.shape[1] < 2:
        return np.zeros(len(scores))
    highest = np.partition(scores, -2, axis=1)[:, -2:]
    differences: Floats = highest[:, 1] - highest[:, 0]
    return differences


def table_of(source: Any, rows: list[dict[Label, float]], classes: Sequence[Label] = ()) -> Any:
    """Return probabilities by label in the kind of the input; dicts are returned unchanged.

    A table has a column for each of `classes`, then for each further class of a row.
    """
    if isinstance(source, (list, tuple)):
        return rows
    columns = list(dict.fromkeys([*classes, *(label for row in rows for label in row)]))
    values = [[row.get(label, 0.0) for label in columns] for row in rows]
    return table_like(source, columns, np.array(values).reshape(len(rows), len(columns)))


Priors = str | Mapping[Label, float] | None
"""The setting `priors`: None, "learnt", "equal", or a dict of prior probabilities by label."""


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


@ignoring("divide", "over", "invalid")
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


@ignoring("divide", "invalid")
def log_priors(priors: Priors, labels: Sequence[Label], weights: Floats, present: Any) -> Floats:
    """Return the logarithms of priors that sum to 1 over the classes that are present."""
    if isinstance(priors, Mapping):
        given = np.array([priors.get(label, 1.0) for label in labels])
        weights = np.broadcast_to(given / given.max(initial=1.0), present.shape)
    elif priors == "equal":
        weights = np.ones(present.shape)
    weights = np.where(present, weights, 0.0)
    logarithms = np.log(weights / weights.sum(axis=-1, keepdims=True))
    # If no class has weight, all priors are unknown.
    known: Floats = np.where(present.any(axis=-1, keepdims=True), logarithms, 0.0)
    return known


def posteriors(scores: Floats, priors: Priors = None, labels: Sequence[Label] = ()) -> Floats:
    """Return posterior probabilities (n, n_classes): the softmax of discriminant scores.

    A class without weight, whose score is -inf, has its prior if `priors` name it, otherwise 0.

    Examples
    --------
    >>> posteriors(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    >>> posteriors(np.array([[0.0, -np.inf]]), {"a": 0.9, "b": 0.1}, ("a", "b"))
    array([[0.9, 0.1]])
    """
    if not scores.shape[1]:
        return scores
    likelihoods = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: Floats = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    absent = np.isneginf(scores)
    if isinstance(priors, Mapping) and absent.any():
        named = np.array([label in priors for label in labels])
        fixed = np.where(absent & named, normalized(priors, labels), 0.0)
        probabilities = probabilities * (1.0 - fixed.sum(axis=1, keepdims=True)) + fixed
    return probabilities


def normalized(priors: Mapping[Label, float], labels: Sequence[Label]) -> Floats:
    """Return the priors of labels, which sum to 1."""
    given = np.array([priors.get(label, 1.0) for label in labels])
    given /= given.max()  # The sum may exceed float64.
    shares: Floats = given / given.sum()
    return shares


def unseen_classes(priors: Priors, labels: Sequence[Label]) -> dict[Label, float]:
    """Return the probabilities of the labels in a dict of priors that are not among `labels`.

    The mean of a class without rows is not known, so its probability is its prior for every row.
    The priors are divided by the sum of those of all labels. There is none before the first row.

    Examples
    --------
    >>> unseen_classes({"ok": 3.0, "fault": 1.0}, ("ok",)), unseen_classes({"ok": 3.0}, ())
    ({'fault': 0.25}, {})
    """
    if not (isinstance(priors, Mapping) and labels):
        return {}
    known = {*labels}
    unseen = {label: prior for label, prior in priors.items() if label not in known}
    if not unseen:
        return {}
    shares = normalized(priors, (*unseen, *labels)).tolist()
    return dict(zip(unseen, shares, strict=False))


def unseen_labels(
    labels: Sequence[Label], known: Collection[Label], count: int
) -> dict[Label, float]:
    """Return the probabilities of the labels that are not among the known ones.

    Each is the estimate of Krichevsky and Trofimov for a label without rows, 1/2 / (n + K/2) after
    n rows, where K counts all labels. It is 1 / K before the first row and vanishes as rows come.

    References
    ----------
    R. Krichevsky and V. Trofimov, "The performance of universal encoding", IEEE Transactions on
    Information Theory 27 (1981).

    Examples
    --------
    >>> unseen_labels(("ok", "fault"), (), 0), unseen_labels(("ok", "fault"), ("ok",), 99)
    ({'ok': 0.5, 'fault': 0.5}, {'fault': 0.005})
    """
    unseen = [label for label in labels if label not in known]
    if not unseen:
        return {}
    return dict.fromkeys(unseen, 0.5 / (count + 0.5 * (len(known) + len(unseen))))


def with_unseen_labels(
    shares: dict[Label, float], labels: Sequence[Label], count: int
) -> dict[Label, float]:
    """Return the probabilities of a row with those of the labels without rows.

    The others share the rest in the same proportions.

    Examples
    --------
    >>> with_unseen_labels({"ok": 1.0}, ("fault", "ok"), 99)
    {'ok': 0.995, 'fault': 0.005}
    """
    unseen = unseen_labels(labels, shares, count)
    if not unseen:
        return shares
    left = 1.0 - sum(unseen.values())
    return {label: share * left for label, share in shares.items()} | unseen
