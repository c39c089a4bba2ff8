"""LeastSquaresClassifier: exact online least squares behind river's classifier interface."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from onlinels.checks import Floats, read_only
from onlinels.linear.forgetting import HalfLife
from onlinels.linear.model import LinearModel, linear_is_sound, read_asked
from onlinels.linear.prequential import Answers, answered, label_and_learn, tabulate_and_learn
from onlinels.linear.ridge import Ridge, Scaling
from onlinels.linear.scoring import (
    Discriminant,
    Priors,
    ScoringClassifier,
    check_keywords,
    discriminant,
    posteriors,
    read_priors,
    unseen_classes,
)
from onlinels.linear.settings import Settings
from onlinels.linear.single import rows_of
from onlinels.numerics import product
from onlinels.rows.answers import table_like
from onlinels.rows.batch import Batch, array_in, matched_by_position, read_sample
from onlinels.rows.labels import Classes, Label, read_label, read_labels
from onlinels.saving import savable
from onlinels.sums.audit import held_targets
from onlinels.sums.rows import Targets
from onlinels.sums.statistics import RowSums


def _labels_are_sound(model: Any) -> bool:
    return linear_is_sound(model) and model._state.counts is not None


@savable(_labels_are_sound)
class LeastSquaresClassifier(LinearModel, ScoringClassifier):
    """Classify by ridge regression on one-hot labels, learnt online and exactly.

    After any sequence of `learn_one`, `learn_many` and `merge`, the output weights equal the batch
    solution W = (A'A + c S^2)^-1 A'Y on all rows learnt (equation 3 of McDonnell and Vladusich,
    with samples as rows), where S = diag(s_j) holds the units of the features. With an intercept, A
    and Y are about the means of the rows and the labels. The order of the rows and the size of the
    batches do not matter. There is no learning rate, and no row is kept.

    Parameters
    ----------
    ridge : float, "auto", "paper" or KFold
        The penalty c >= 0 on the weights of all features. The intercept has no penalty.

        - A number is the ridge itself. 0.0 gives the minimum-norm (pseudo-inverse) solution.
        - "auto" selects the ridge from the statistics alone
          (`onlinels.sums.selection.select_ridge`).
        - `KFold` selects the ridge by exact cross-validation from statistics in folds.
        - "paper" is the heuristic (N/M)^2 min(diag(A'A)) for N classes and M features.

        The ridge can be changed at any time, except to a KFold. See the notes for when a ridge is
        selected.
    accumulator : "gram", "orthogonal" or "recursive"
        What the model remembers of the stream: sums of products ("gram"); the factor R of A = QR,
        which keeps the digits of nearly collinear features but cannot unlearn ("orthogonal"); or
        sums of products with a ridge that decays with the rows, for predicting and learning row by
        row with forgetting ("recursive"). Below, these are called the Gram form, the orthogonal
        form and the recursive form.
    fit_intercept : bool
        Whether every class has an intercept. The intercept is exact and has no penalty: it is
        computed from the means of the rows and the labels.
    forgetting_factor : float
        Factor in (0, 1] by which every row learnt multiplies the weight of all earlier rows.
    half_life : float or timedelta, optional
        Time in which the weight of a row halves, in units of the times `t` of the rows; a timedelta
        of Python, numpy or pandas if these are dates. A row without `t` lets one unit pass. The
        ridge does not decay, except with accumulator="recursive" (see the notes). See also
        `onlinels.linear.forgetting.Clock`.
    priors : None, "learnt", "equal" or dict
        Prior probabilities of the classes, for linear discriminant analysis from the same
        statistics. The setting can be changed at any time.

        - None: no discriminant analysis. The label is the class with the highest least-squares
          score, and the probabilities are the projected scores.
        - "learnt": the prior of a class is its share of the weight learnt.
        - "equal": all priors are equal. The means of classes with few rows are also shrunk, so that
          a new class is predicted after a few rows.
        - A dict {label: prior}: the priors need not sum to 1, and a label that is not in the dict
          counts as 1. A class of the dict that has no rows yet has its prior as probability,
          whatever the row. ``{}`` gives equal priors without shrinkage.
    scaling : "auto", "standard" or None
        The units s_j of the features on which the ridge acts.

        - None: features as they are, s_j = 1.
        - "standard": features divided by their standard deviations s_j over all rows. Without an
          intercept, s_j is the root of the mean square.
        - "auto": where the ridge is selected, None or "standard", whichever has the higher
          likelihood. With a number, "paper" or 0.0 as ridge, "auto" means None.
    max_features : int, optional
        Number of features, each entry of an array counted, up to which new ones are learnt. Rows, a
        batch or a merge that would bring more are refused. By default, there is no limit. It can be
        changed at any time, to at least the number of features that are known.

    Notes
    -----
    **Cost.** A model of M features needs about ``4 M^2`` bytes (``8 M^2`` up to 1,024 features),
    and about as much again while weights are computed.

    ============================================  ==========================
    step                                          operations
    ============================================  ==========================
    learn a row                                   ``M^2``
    solve for the weights                         ``M^3 / 3``
    select a ridge and solve for the weights      about 10 times as many
    predict and learn a row, with an updated      ``3 M^2``, and ``8 M^2``
    solution (below)                              bytes more
    ============================================  ==========================

    Above 500 features, `learn_many` is faster than `learn_one`. The weights are computed when they
    are first needed after learning.

    **Predictions between single rows.** While at least one prediction is made in max(4, M/16) rows,
    the model updates its last solution with every row instead of solving again. It solves again at
    multiples of max(16,384, 16 M rounded up to a power of two) rows, and after any change that is
    not a single row. The updated weights may differ from newly computed weights by rounding; the
    sums do not differ. With accumulator="orthogonal", ridge="paper" or 0.0, scaling="standard" or
    nearly collinear features, every prediction after a row solves for the weights; so it does in
    the Gram form with a forgetting_factor or half_life. With these, prefer the recursive form: the
    ridge decays with the rows, and only when half of it is left is it set to c again, and the next
    prediction solves for the weights. Merging and unlearning rows, `fade` and another ridge also
    set the ridge to c.

    **When a ridge is selected.** After every row from the second to the 16th, then whenever the
    number of rows has grown by a sixteenth (with a KFold by a quarter; with more than 128 features
    by more, up to doublings), unless the restricted likelihood accepts the ridge that was selected
    at the last doubling. With forgetting, also each time that four times the memory has
    passed; the memory is the number of rows, or the time, in which weights fall to 1/e. Merging,
    unlearning, `fade` and a change of the ridge also lead to a new selection. Where a few rows
    outweigh all others, the growth of the weight of all rows counts, too. The guide's page
    "Choose a model and its settings" has the details.

    **Units of features.** With scaling="standard", multiplying a feature by a constant changes no
    prediction; with an intercept, neither does adding a constant. The model equals ridge regression
    behind a scaler that has seen all rows, also after merging, unlearning and forgetting: s_j^2 is
    (A'A)_jj / n, weighted and decayed like the rows. (A KFold assigns rows to folds by their
    values, so other units give other folds.) A constant feature has the weight 0. If "auto" selects
    standardised features, the s_j are those of the rows at the last selection, and a feature that
    begins to vary later gets the s_j of its first two values. The last solution can therefore be
    updated, and the size of the batches changes no solution. An explicit "standard" follows every
    row, and every prediction between single rows solves for the weights. `ridge_diagonal` is the
    ridge in force on each feature.

    **New features and classes.** They can appear at any time; the weights are those of a model that
    had known them from the first row. A feature that is absent from a sample counts as 0. If a
    frame passed to a prediction lacks learnt columns, a warning names them. The order of dict keys
    and of frame columns does not matter. Before anything is learnt, `predict_one` returns None and
    `predict_proba_one` returns {}, without reading the values of the sample.

    **Priors.** A rare class has small least-squares scores, so by default it is hardly ever
    predicted. With `priors`, the score of class k is its linear discriminant function
    x'R^-1 m_k - m_k'R^-1 m_k / 2 + log p_k. m_k is the mean of the class, p_k its prior, and
    R = (S_w + c S^2) / n the covariance within classes: S_w is the scatter of the rows about the
    means of their classes, and n the weight of all rows. With an intercept, x and m_k are about the
    mean of all rows. The probabilities are the softmax of the scores: Bayes' rule for normal
    classes with one covariance.

    - "learnt" with ridge=0.0 equals scikit-learn's ``LinearDiscriminantAnalysis(solver="lsqr")``,
      also after merging, unlearning and forgetting. Other priors in a dict change only the
      constants; scikit-learn also weights R by them. ``{}`` with a fixed ridge is the rule of deep
      streaming linear discriminant analysis (Hayes and Kanan 2020).
    - "equal" shrinks the mean of a class that is farther from the other classes than is typical
      (`onlinels.linear.scoring.shrinkage`). The shrinkage vanishes as 1 / n_k for n_k rows of
      the class, and changes nothing for two classes.
    - The discriminants of K classes are the least-squares weights times a K x K matrix (Hastie,
      Buja and Tibshirani, "Penalized discriminant analysis", 1995). No further statistics are kept,
      and a solution costs ``M K^2 + 20 K^3`` operations more.
    - A class without weight has the score -inf. Where classes are separated to ten digits in a
      direction, 1e-10 of the scatter counts as scatter within classes; with ridge=0.0 and fewer
      rows than features this happens in every direction.
    - The probabilities are too confident if there are few rows per feature. Calibrate them with
      `CalibratedClassifier`.

    **Input.** `X` is an array (n_rows, n_features), a scipy.sparse matrix, a pandas, polars or
    pyarrow frame, or a list of dicts, and predictions have the same kind (an array for a sparse
    matrix). With a number as ridge, sparse rows are learnt by sparse products if these are faster,
    otherwise in dense blocks of 64 MiB; the orthogonal form learns them as dense rows. The values
    of a dict are numbers or arrays: an array under "h" counts as the features ("h", 0), ("h", 1), …
    Columns of a plain array are named 0, 1, …

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced image classification with a fast-learning shallow
    convolutional neural network", IJCNN 2015.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LeastSquaresClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 88.87%
    """

    def __init__(
        self,
        ridge: Ridge = "auto",
        accumulator: str = "gram",
        fit_intercept: bool = True,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
        priors: Priors = None,
        scaling: Scaling = "auto",
        max_features: int | None = None,
    ) -> None:
        priors = read_priors(priors)
        settings = ridge, accumulator, fit_intercept, forgetting_factor, half_life, priors, scaling
        super().__init__(Settings(*settings, max_features), Classes(), np.zeros(0))

    @property
    def priors(self) -> Any:
        """Priors of the classes, which can be changed at any time; a dict is returned as a copy."""
        return copy.copy(self._state.settings.priors)

    @priors.setter
    def priors(self, priors: Priors) -> None:
        priors = read_priors(priors)
        if priors == self._state.settings.priors:
            return
        with self._lock:
            state = self._state
            settings = state.settings._replace(priors=priors)
            following = state.following.without_rule(state.count)
            self._state = replace(state, settings=settings, following=following)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"priors"}

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt so far, in the order of the columns of `output_weights`."""
        labels: tuple[Label, ...] = self._state.outputs.labels
        return labels

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label with the highest score for one sample, None if nothing is learnt yet."""
        if kwargs:
            check_keywords(self, kwargs)
        with self._lock:
            rows = self._state.following.rows or rows_of(self._state)
            if rows is not None:
                label = rows.label(x)
                if label is not NotImplemented:
                    return label
            return super().predict_one(x)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample, {} before anything is learnt.

        See `predict_proba_many` for classes without rows.
        """
        if kwargs:
            check_keywords(self, kwargs)
        with self._lock:
            rows = self._state.following.rows or rows_of(self._state)
            if rows is not None:
                known = rows.probabilities(x)
                if known is not NotImplemented:
                    return known  # type: ignore[no-any-return]
            return super().predict_proba_one(x)

    def scores_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the score of every class for one sample; see `scores_many`."""
        with self._lock:
            rows = self._state.following.rows or rows_of(self._state)
            if rows is not None:
                known = rows.scores(x)
                if known is not NotImplemented:
                    return known  # type: ignore[no-any-return]
            return super().scores_one(x)

    def _read_targets(self, y: Any, n_rows: int | None) -> Targets:
        labels = [read_label(y)] if n_rows is None else read_labels(y, n_rows)
        classes = self._state.outputs.extended(labels)
        return Targets(classes.columns(labels), classes)

    def statistics(self) -> RowSums:
        """Return the sums of the rows learnt; see `LeastSquaresRegressor.statistics`.

        Examples
        --------
        >>> from onlinels import from_sums
        >>> model = LeastSquaresClassifier(ridge=1.0)
        >>> model.learn_many(np.array([[1.0], [2.0], [6.0]]), ["low", "low", "high"])
        >>> sums = model.statistics()
        >>> by_class = sums.cross.T, sums.target_sums, model.classes, sums.origin
        >>> from_sums.classifier_from_sums(model, sums.gram, *by_class).predict_one({0: 5.0})
        'high'
        """
        with self._lock:
            sums, own = super().statistics(), self._state.statistics
            weights = read_only(own.raw_squares[own.n_features :])
            if not self.fit_intercept:
                sums = sums._replace(sums=read_only(sums.cross.sum(axis=1)))
        origin = read_only(np.zeros(len(weights)))
        return sums._replace(target_sums=weights, target_squares=weights, target_origin=origin)

    def _target_of(self, read: Targets, row: int) -> Label:
        return read.outputs.labels[read.values[row]]

    def _rule(self) -> Discriminant:
        """Return the map from least-squares scores to discriminant scores, as of now."""
        solution, statistics = self._solved(), self._state.statistics
        if solution.rule is not None:
            return solution.rule
        # One rule answers single rows and batches.
        n_classes, rows = statistics.n_targets, rows_of(self._state)
        rule = Discriminant(np.empty((n_classes, n_classes), order="F"), np.empty(n_classes))
        if rows is None or not rows.rule(*rule):
            explained = statistics.products.explained_products(solution.output_weights)
            known = held_targets(statistics), statistics.target_mean
            rule = discriminant(explained, *known, self._state.settings.priors, self.classes)
        # The labels are compared with those of the priors by code of their own.
        self._state.following.keep_rule(solution, rule)
        return rule

    def _weights(self) -> tuple[Floats, Floats]:
        weights, intercept = super()._weights()
        if self._state.settings.priors is None:
            return weights, intercept
        rule = self._rule()
        return product(weights, rule.matrix), rule.scores(intercept)

    def _answers(self, outputs: Floats) -> Floats:
        return outputs if self._state.settings.priors is None else self._rule().scores(outputs)

    def _probabilities(self, scores: Floats) -> Floats:
        priors = self._state.settings.priors
        if priors is None:
            return super()._probabilities(scores)
        return posteriors(scores, priors, self.classes[: scores.shape[1]])

    def _unseen(self, n_known: int) -> dict[Label, float]:
        return unseen_classes(self._state.settings.priors, self.classes[:n_known])

    def _shown(self, scores: Floats) -> list[str]:
        shares = self._with_unseen(scores[None])[1][0, : len(scores)]
        return [f"probability {each:.5f}, " for each in shares]

    def _answered(self, X: Any, y: Any, w: Any, t: Any = None, are_asked: bool = True) -> Answers:
        """Return the scores of every row before it is learnt, and a model that has learnt all."""
        with self._lock:
            return answered(self, X, y, w, t, are_asked=are_asked)

    @matched_by_position
    def predict_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train. The
        result is that of calling `predict_one` and `learn_one` for every row in turn, at the speed
        of a batch. The errors are the recursive residuals of the stream.

        Parameters
        ----------
        X, y, w, t
            Rows, labels, weights and times, as in `learn_many`.

        Returns
        -------
        array, series or list of n_rows labels
            In the kind of `X`. None for rows before the first learnt row.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt. The model is then unchanged.

        Notes
        -----
        Wherever the last solution can be updated (see the notes of the class), a row costs
        ``3 M^2`` operations for M features, in matrix products over blocks of 32 or 64 rows. A
        block ends where the ridge is selected and before a new class, which is often while few rows
        are known. With ridge="paper" or 0.0, scaling="standard", accumulator="orthogonal", or
        forgetting in the Gram form, the call costs as much as the loop, and every prediction solves
        for the weights.

        References
        ----------
        A. P. Dawid, "Present position and potential developments: some personal views. Statistical
        theory: the prequential approach" (1984).

        Examples
        --------
        >>> model = LeastSquaresClassifier(ridge=1.0)
        >>> model.predict_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], ["low", "high", "high"])
        [None, 'low', 'high']
        """
        with self._lock:
            return label_and_learn(self, X, y, w, t)

    @matched_by_position
    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Return the probabilities of every row before it is learnt, then learn it.

        See `predict_learn_many`.

        Returns
        -------
        table (n_rows, n_classes)
            In the kind of `X`, with a column for each class that is known after the batch: 0 in
            rows before the first row of the class. Dicts hold only the classes known at their row.
            A class that a dict of `priors` names is known from the first row on, with its prior;
            without rows in the batch, its column comes last.

        Examples
        --------
        >>> model = LeastSquaresClassifier(ridge=1.0)
        >>> model.predict_proba_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], list("xyy"))[:2]
        [{}, {'x': 1.0}]
        """
        with self._lock:
            return tabulate_and_learn(self, X, y, w, t)

    def variance_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Return the variance of the score of every class for one sample; see `variance_many`."""
        with self._lock:
            rows = self._state.following.rows
            if rows is not None:
                known = rows.variances(x)
                if known is not NotImplemented:
                    return known  # type: ignore[no-any-return]
            found = self._variances_asked(x)  # Code of the sample may add classes.
            return dict(zip(self.classes, found, strict=True))

    def _variances_asked(self, x: Mapping[Any, Any]) -> list[float]:
        """Return the variances of one sample, for which the core does not answer."""
        if self._state.is_blank:
            array_in(x)
            return []
        sample = read_sample(x)
        if self._state.settings.priors is None:
            self._scores_asked(x)  # As a prediction, which lets the weights follow the next rows.
        found: list[float] = self._variances(sample, own=0.0)[0].tolist()
        return found

    def variance_many(self, X: Any) -> Any:
        """Return the variances of the scores, a column per class, in the kind of `X`.

        The score of class k has the variance s_k^2 x'(A'A + c S^2)^-1 x, plus the variance of the
        intercept. s_k^2 = RSS_k / (n - p) is the residual sum of squares divided by the total
        weight of the rows minus the effective number of parameters. The variance measures how far
        the score may be from its limit for infinitely many rows. The label of a row, 0 or 1,
        deviates from the score by the noise variance s_k^2 in addition. With forgetting, variances
        are those of `LeastSquaresRegressor.predict_one`.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts

        Returns
        -------
        table (n_rows, n_classes)
            Variances in squared units of a score; infinite unless n is greater than p.

        Raises
        ------
        ValueError
            If the model has priors: its scores are then not least-squares scores.

        Notes
        -----
        A row costs ``M^2`` operations. The first call after learning, even of a single row, also
        computes the covariance, for about ``M^3`` operations and another ``8 M^2`` bytes. Weights
        count as numbers of rows, and the ridge as prior knowledge about the weights; see
        `LeastSquaresRegressor.predict_one`.

        References
        ----------
        C. M. Bishop, "Pattern Recognition and Machine Learning", 2006, equation 3.59.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0], [3.0]]), list("aabb"))
        >>> model.variance_many(np.array([[1.5], [9.0]])).round(3)
        array([[0.025, 0.025],
               [1.15 , 1.15 ]])
        """
        with self._lock:
            batch = read_asked(self, X)
            return table_like(batch.source, self.classes, self._variances(batch, own=0.0))

    def _variances(self, batch: Batch, own: float) -> Floats:
        if self._state.settings.priors is not None:
            raise ValueError(
                f"priors={self.priors!r}, expected None for variances, which are defined for "
                "least-squares scores only. Set priors=None first."
            )
        return super()._variances(batch, own)
