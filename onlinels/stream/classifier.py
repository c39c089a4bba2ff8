"""A classifier for streams of dicts without hyperparameters to choose."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import Floats
from onlinels.core import Experts, judge_row, mix_scores
from onlinels.core.apply import apply
from onlinels.core.constants import ERROR_DECAY, MIN_RIDGE_SHARE, N_EXPERTS, PLAIN
from onlinels.core.reference import shares_of
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.scoring import (
    SOFTMAX_SCALES,
    ScoringClassifier,
    best_scale,
    calibrate,
    table_of,
)
from onlinels.numerics import are_columns, enlarged, is_array, read_whole, shallow_copy
from onlinels.rows.answers import labels_like
from onlinels.rows.batch import check_mapping, matched_by_position, samples_of, source_of
from onlinels.rows.labels import Classes, Label, read_label, read_labels
from onlinels.saving import savable
from onlinels.stream.base import (
    Found,
    PlainExpert,
    StreamModel,
    Waiting,
    sample_key,
    stream_is_sound,
)
from onlinels.stream.features import (
    MAX_REMEMBERED_LABELS,
    Cells,
    Sample,
    StreamColumns,
    StreamRow,
)
from onlinels.sums.recursion import Recursion

MEMORIES = {1.0: 30.0, 0.998: 1.0, 0.99: 1.0}
"""Forgetting factors of the recursions, and the ridge on their weights.

All rows count, about 500, or about 100. Activations are of about unit size, so a ridge weighs as
much as that many rows.
"""

EXPERTS = (
    "all rows, random features",
    "500 recent rows, random features",
    "100 recent rows, random features",
    "gradient descent, features",
    "gradient descent, random features",
    "classes after the last label",
    "plain least squares",
)
"""What every expert learns from, in order."""

PRIORS = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0])
"""Shares of the experts, relative to each other, before any error.

Where features say little, as in prices, plain least squares is the best expert by a small margin,
which recent errors do not show.
"""

LEARNING_RATE = 0.5
"""Each further recent error multiplies an expert's share by exp(-0.5).

Errors are those made before learning each row.
"""

RATE_DELAY = 5.0
"""If labels are d rows late, the rate is 0.5 / sqrt(1 + d / 5): late errors are less informative.

From 2 to 20 the mean accuracy on twenty-five streams stayed within 0.1 points.
"""

NONE = np.zeros(0)
"""The predictions of experts that had learnt no row."""


class Prediction(NamedTuple):
    """What a row looked like when it was predicted, and what the experts said."""

    # The scaled features.
    features: Floats
    # The column of the last label; -1 for none.
    last: int
    # Whether the scaler has learnt the row.
    is_scaled: bool
    # The class that each expert predicted, and the scores (n_classes,) of their mixture: both are
    # empty if no row was learnt.
    best: Floats
    mixture: Floats

    def packed(self) -> Floats:
        """Return the forecast as numbers (n,)."""
        head = len(self.features), self.last, self.is_scaled, len(self.best)
        return np.concatenate((head, self.features, self.best, self.mixture))

    @classmethod
    def of(cls, known: Any) -> Prediction:
        """Return a forecast, or the forecast of packed numbers.

        Examples
        --------
        >>> forecast = Prediction(np.ones(2), -1, False, np.array([1.0]), np.array([0.2, 0.8]))
        >>> Prediction.of(forecast.packed()).mixture
        array([0.2, 0.8])
        """
        if isinstance(known, Prediction):
            return known
        n_features, last, is_scaled, n_experts = known[:4].astype(int).tolist()
        features, best, mixture = np.split(known[4:], [n_features, n_features + n_experts])
        return cls(features, last, bool(is_scaled), best, mixture)


def unpredicted(features: Floats, is_scaled: bool = False) -> Prediction:
    """Return the forecast of a row that arrived before the first row was learnt."""
    return Prediction(features, -1, is_scaled, NONE, NONE)


def _packed_fits(packed: Floats, n_features: int, n_classes: int) -> bool:
    """Return whether packed numbers are a forecast of a model of so many features and classes."""
    n, last, is_scaled, n_experts = packed[:4].tolist()
    n_scores = len(packed) - 4 - n - n_experts
    fits = n in range(n_features + 1) and last in range(-1, n_classes) and is_scaled in (0, 1)
    return fits and n_experts in (0, N_EXPERTS) and n_scores in range(n_classes + 1)


def _experts_are_sound(model: Any) -> bool:
    n_features, n = len(model._columns.names), len(model._classes)
    n_labels, made = min(n, MAX_REMEMBERED_LABELS), model._activations
    fits = stream_is_sound(model, LeastSquaresClassifier, n_labels)
    fits = fits and (model._cells.n_features, model._cells.n_labels) == (n_features, n_labels)
    shapes = [each.weights.shape for each in model._memories]
    fits = fits and shapes == [(made.n_wide, n)] * len(MEMORIES)
    shapes = [each.shape for each in model._softmaxes]
    fits = fits and shapes == [(made.n_narrow, n), (made.n_wide, n)]
    fits = fits and are_columns(*model._softmaxes)
    fits = fits and is_array(model._errors, len(EXPERTS))
    fits = fits and is_array(model._losses, len(SOFTMAX_SCALES))
    # Rows that were watched before the first label may have other features.
    most = max(n_features, len(model._waiting.columns.names))
    waiting = model._waiting.fits(model._count, lambda packed: _packed_fits(packed, most, n))
    return fits and waiting and type(model._last) is int and -1 <= model._last < n


@savable(_experts_are_sound)
class StreamClassifier(StreamModel, ScoringClassifier):
    """Classify a stream of dicts with numbers, texts and gaps, and adapt to drift.

    The model standardises every row by the rows before it and adds features: 160 fixed random
    units, and the shares of the classes among the latest rows in the cells of 40 random partitions
    of two or three features. Seven experts learn the row, and the forecast is an average of their
    scores, weighted by their recent errors on rows that they had not yet learnt:

    - three recursive least-squares models with these features, which remember all rows, about 500
      or about 100;
    - two softmax regressions by stochastic gradient descent, with and without the added features;
    - the shares of the classes after the last label, which also represent the majority class;
    - `LeastSquaresClassifier` on the raw features of all rows, whose share is three times that of
      another expert before any error. Where features say little, it is the best expert.

    Scale, features, forgetting and the share of each expert therefore follow the stream, and no
    hyperparameter has to be set.

    Parameters
    ----------
    seed : int
        Seed of the random units. Models with the same seed and the same stream are equal.

    Notes
    -----
    **Features** are numbers, bools, arrays of numbers without NaN, or texts. The type decides: a
    text is a category, also if it looks like a number.

    =====================  =======================================================================
    value                  how it enters
    =====================  =======================================================================
    text                   the first 64 texts of a name are a feature each, called (name, text);
                           later texts count as no text
    text after a number    unknown, as None: a mark of missing values such as "n/a", or a number
                           that was not converted; the model warns once for each feature
    absent                 0, as in river's linear models
    None, NaN, NaT, …      unknown: the mean of the feature, or no text
    new feature or class   may arrive at any time; at most 4,096 features
    =====================  =======================================================================

    Scores are those of the forecast: a mixture of least-squares outputs within [-0.5, 1.5]. Before
    the first row is learnt, every value is accepted and `predict_one` returns None.

    **Late labels.** The last label learnt is also a feature: in many streams it is the best one. A
    row whose label is late must therefore be learnt with the label that was the last one when the
    row was predicted. The model stores every forecast, under a hash of the sample, until
    `learn_one` supplies the label; it stores at most 4,096 forecasts of a few numbers each. A row
    is late if other rows were learnt between its forecast and its label. A late row is learnt with
    the last label and the scaled features of its forecast, and experts are judged by what they
    predicted in the forecast. The later labels arrive, the less a recent error reduces an expert's
    share. While labels are late, the scale follows the predicted rows, from the first one on, so a
    prediction changes later predictions. Rows that were not predicted count as late as the last row
    that was. Pass the same sample to `predict_one` and `learn_one`: a sample that has changed since
    it was predicted, for example by a scaler before the model, is not recognised. The model warns
    if a tenth of the last 500 labels finds no forecast or may have found that of an equal sample.

    **Weights and ridge.** The weights of each recursive expert are the exact ridge solution on the
    rows so far, with the features as they were when each row was learnt. A row weighs 1, or 0.998
    or 0.99 to the power of the number of rows since. The ridge on every weight is 30 for all rows
    and 1 for recent rows; there it decays with the rows to 1/16, and is then restored to 1. The
    plain expert is exact too, and selects its ridge.

    The weight `w` of a row multiplies its squared errors in every expert, its step in the softmax
    regressions, its amount in the cells, and the losses by which experts, partitions and the scale
    of probabilities are judged. Scale, time, names, classes and the last label follow every row
    equally, even a row of weight 0. Weights count relative to a ridge of 1, so divide them by their
    mean if the mean is far from 1.

    **Batches.** The order of rows matters: a batch is learnt row by row, and models neither merge
    nor unlearn.

    **Costs** for M features and classes together (demos/benchmarks/README.md has times). Memory
    does not depend on the number of rows.

    ===================================  ==========================================================
    learn a row                          about ``6 (M + 160)^2`` operations
    one row in 276                       ``3 (M + 160)^3`` more: a ridge is restored to 1
    `learn_many`, `predict_learn_many`   the time of as many calls of `learn_one`, and the memory
                                         of a second model during the call
    `predict_many`                       the time of as many calls of `predict_one`
    memory                               ``24 (M + 160)^2 + 20 M^2`` bytes
    for N classes, at most 32            ``20,500 (N + 1)`` bytes more
    ===================================  ==========================================================

    **Exceptions.** If a call raises, also by an interrupt from the keyboard or for lack of memory,
    the model is as before the call or as after it, bit for bit, and remains usable. A batch is
    checked as a whole, and learnt by a copy of the model that then replaces its state.

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11:
    the exponentially weighted average forecaster, which mixes the models.

    I. Zliobaite et al., "Evaluation methods and decision theory for classification of streaming
    data with temporal dependence", Machine Learning 98 (2015): the last label as a feature.

    M. Ozuysal et al., "Fast keypoint recognition using random ferns", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 32 (2010): the shares of classes in cells of few features.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), StreamClassifier(), metrics.Accuracy())
    Accuracy: 91.67%
    """

    _seen: Experts | None

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._cells, self._plain = (
            Cells(seed),
            PlainExpert(LeastSquaresClassifier()),
        )
        size = self._activations.n_wide
        self._memories = [Recursion(size, 0, c, MIN_RIDGE_SHARE) for c in MEMORIES.values()]
        # The weights (n_activations, n_classes) of the softmax regressions.
        self._softmaxes = [np.zeros((n, 0), order="F") for n in (1, size)]
        self._waiting = Waiting()
        # Rows that were learnt between the last row's forecast and its label.
        self._delay = 0
        # Recent errors of every expert.
        self._errors = np.zeros(len(EXPERTS))
        self._losses = np.zeros(len(SOFTMAX_SCALES))
        self._classes = Classes()
        # The column of the last label; -1 before the first one.
        self._last = -1

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt so far, in the order of their first rows."""
        return self._classes.labels

    @property
    def shares(self) -> dict[str, float]:
        """The share of each expert in the forecast, by what the expert learns from.

        Three experts are least-squares models of the random features, the features and the last
        label, fitted to all rows or to recent rows; two are softmax regressions; one predicts the
        class that follows the last label most often; and one is `LeastSquaresClassifier`.
        """
        return dict(zip(EXPERTS, self._shares().tolist(), strict=True))

    def _shares(self) -> Floats:
        return shares_of(self._errors, self._rate(), PRIORS)

    def _rate(self) -> float:
        """Return the learning rate of the shares."""
        return LEARNING_RATE / sqrt(1.0 + self._delay / RATE_DELAY)

    @matched_by_position
    def predict_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train. The
        result equals that of calling `predict_one` and `learn_one` for one row after the other.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows of features.
        y : array, series or list of n_rows labels
            Labels of the rows.
        w : float, or array, series or list of n_rows floats, optional
            Weights of the rows, from 0 to 1e5; 1 by default.

        Returns
        -------
        array, series or list of n_rows labels
            Predictions, of the same kind as `X`; None for a row before the first learnt row.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        References
        ----------
        A. P. Dawid, "Present position and potential developments: some personal views. Statistical
        theory: the prequential approach" (1984).

        Examples
        --------
        >>> model = StreamClassifier()
        >>> model.predict_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], ["low", "high", "high"])
        [None, 'low', 'high']
        """
        return self._answer_and_learn(StreamClassifier.predict_one, labels_like, X, y, w)

    @matched_by_position
    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Return the probabilities of every row before it is learnt, then learn it.

        See `predict_learn_many`.

        Returns
        -------
        table (n_rows, n_classes)
            Probabilities, of the same kind as `X`, with a column for each class known after the
            batch: 0 in rows before the first row of the class. For a list of dicts, each dict holds
            the classes known before its row.

        Examples
        --------
        >>> model = StreamClassifier()
        >>> model.predict_proba_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], list("xyy"))[:2]
        [{}, {'x': 1.0}]
        """
        return self._answer_and_learn(StreamClassifier.predict_proba_one, table_of, X, y, w)

    def _read_targets(self, samples: list[Sample], y: Any) -> list[Label]:
        labels, columns = read_labels(y, len(samples)), self._columns.extended(samples)
        self._activations.grown(columns.names, len(self._classes.extended(labels)))
        return labels

    def _read_target(self, y: Any) -> tuple[Classes, int]:
        """Return the classes with that of a label, and its column."""
        column = self._classes.column_of(y)
        if column is not None:
            return self._classes, column
        label = read_label(y)
        classes = self._classes.extended([label])
        return classes, int(classes.columns([label])[0])

    def _learn(self, columns: StreamColumns, row: StreamRow, y: Any, key: int, w: float) -> None:
        self._catch_up()
        classes, column = y
        found = self._waiting.find(key, self._count, self._delay)
        delay, n_known = self._delay if found is None else found.delay, len(self._classes)
        model = self._with_room(columns, classes, delay)
        forecast = model._forecast_before(row, found, delay)
        model, scores = model._prepared(forecast, w)
        plain = self._plain.knowing(row.values)
        raw = plain.read(row.values, model._scaler.means)
        if not len(forecast.best) and column < n_known:
            # Experts are judged by the current prediction if there was none.
            scores[PLAIN] = self._plain.score(raw, self._count)
            best, mixture = self._mixed(scores)
            forecast = forecast._replace(best=best, mixture=mixture)
        errors, losses = self._errors.copy(), self._losses.copy()
        if column < len(forecast.mixture):
            judged = forecast.best, forecast.mixture, SOFTMAX_SCALES, errors, losses
            judge_row(*judged, column, self._count, w)
        else:
            # No expert could predict a class that was unknown.
            errors *= ERROR_DECAY
        news: dict[str, Any] = {"_delay": delay, "_errors": errors, "_losses": losses}
        owing = plain.owing(raw, column, w)
        news |= {"_plain": owing, "_count": self._count + 1, "_last": column}
        if not forecast.is_scaled:
            news["_scaler"] = model._scaler.learnt(row.values, row.gaps)
        calls = model._experts().plan(column, column >= n_known, w)
        calls = *calls, *model._waiting.plan_label(key, found, delay)
        changed = news if model is self else vars(model) | news
        apply((*calls, (vars(self).update, changed)))
        self._warn_of_matches()

    def _with_room(self, columns: StreamColumns, classes: Classes, delay: int) -> Self:
        """Return the model, or a draft with room for a row."""
        model = self
        if classes is not self._classes or columns is not self._columns:
            model = shallow_copy(self)
            model._grow(columns, classes)
        if delay and self._waiting.scaler.n_rows:
            model = shallow_copy(model)
            model._take_watched_scale()
        return model

    def _forecast_before(self, row: StreamRow, found: Found | None, delay: int) -> Prediction:
        """Return the forecast for a row that is learnt, or what is known of it without one."""
        stored = None if found is None else self._waiting.forecast(found.number)
        forecast = None if stored is None else Prediction.of(stored)
        n_known = 0 if forecast is None else len(forecast.features)
        if forecast is not None and len(forecast.best) and n_known == len(row.values):
            return forecast
        if forecast is None or not delay:
            # The last label that was known then is not known if labels are late.
            last = -1 if delay else self._last
            return Prediction(self._scaler.transform(row.values), last, False, NONE, NONE)
        features = self._scaler.transform(row.values)
        features[:n_known] = forecast.features
        return forecast._replace(features=features)

    def _prepared(self, forecast: Prediction, w: float) -> tuple[Self, Floats]:
        """Return the model, or a draft with restored ridges, and the scores of a row to learn."""
        seen = forecast.features, forecast.last
        model, scores = self, self._scores(*seen)
        if not self._experts().prepare(w):
            model = shallow_copy(self)
            model._restore_ridges()
            scores = model._scores(*seen)
            if not model._experts().prepare(w):
                raise ValueError("x outweighs all earlier rows, expected similar rows. Rescale x.")
        return model, scores

    def _take_watched_scale(self) -> None:
        """Take the scale of the rows predicted before the first label, in a draft of the model.

        It is taken if it has learnt more rows and knows all features: the rows are then learnt as
        they were predicted.
        """
        waiting = self._waiting
        fits = waiting.columns.names == self._columns.names
        is_scaled = fits and waiting.scaler.n_rows > self._count
        if is_scaled:
            self._scaler = waiting.scaler
        n_known = len(waiting.columns.names) if is_scaled else 0
        self._waiting = waiting.with_first(
            lambda known: unpredicted(Prediction.of(known).features[:n_known], is_scaled)
        )

    def _grow(self, columns: StreamColumns, classes: Classes) -> None:
        """Make room for new features and classes in a draft of the model."""
        self._extend_columns(columns)
        self._classes, n_classes = classes, len(classes)
        self._cells = self._cells.grown(columns.names, n_classes)
        self._activations = self._activations.grown(columns.names, n_classes)
        size, n_narrow = self._activations.n_wide, self._activations.n_narrow
        self._memories = [each.grown(size, n_classes) for each in self._memories]
        softmaxes = zip(self._softmaxes, (n_narrow, size), strict=True)
        self._softmaxes = [enlarged(each, n, n_classes) for each, n in softmaxes]

    def _restore_ridges(self) -> None:
        """Restore ridges that the next row would decay too far, in a draft of the model."""
        self._seen, pairs = None, zip(self._memories, MEMORIES, strict=True)
        self._memories = [
            each.restored() if each.share * decay < each.least else each for each, decay in pairs
        ]

    def _experts_arrays(self) -> tuple[Any, ...]:
        """Return the arrays of this model that experts read and write."""
        arrays: tuple[Any, ...] = *self._activations.arrays, *self._cells.arrays
        arrays = *arrays, *self._activations.places, *self._softmaxes
        for each in self._memories:
            arrays = *arrays, each.inverse, each.pending, each.weights, each.factors
        return arrays

    def _experts(self) -> Experts:
        """Return what scores and learns rows with the arrays of this model."""
        if self._seen is None:
            self._seen = Experts(self._experts_arrays(), *MEMORIES)
        return self._seen

    def _scores(self, features: Floats, last: int) -> Floats:
        """Return the scores (n_experts, n_classes) of a row, without those of the plain expert."""
        scores = np.zeros((N_EXPERTS, len(self._classes)))
        self._experts().scores(features, last, scores)
        return scores

    def _mixed(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the best classes of experts with scores (n_experts, n_classes), and a mixture."""
        best, mixture = np.empty(N_EXPERTS), np.empty(scores.shape[1])
        mix_scores(scores, PRIORS, self._errors, best, mixture, self._rate())
        return best, mixture

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return the scores of a row, and store those of its experts until its label arrives."""
        if not self._count:
            check_mapping(x)
            self._waiting.watch(x, unpredicted)
        # Code of the sample may have taught the first row.
        if not self._count:
            return np.zeros(0)
        # Read the row first: this raises for samples that have no key.
        row, key, n_names = read_whole(lambda: (self._row(x), sample_key(x), len(x)), self)
        is_scaled = False
        again = self._waiting.latest(key, self._count) if self._delay else None
        if again is not None:
            # The scaler has learnt this row.
            self._waiting.count_again()
            return Prediction.of(again).mixture
        features, last, values = self._scaler.transform(row.values), self._last, row.values
        news: dict[str, Any] = {"_asked": (self._count, n_names, values.tobytes(), key)}
        if self._delay:
            is_scaled = True
            news["_scaler"] = self._scaler.learnt(values, row.gaps)
        scores, raw = self._scores(features, last), self._plain.read(values, self._scaler.means)
        scores[PLAIN] = self._plain.score(raw, self._count)
        best, mixture = self._mixed(scores)
        forecast = Prediction(features, last, is_scaled, best, mixture)
        adding = self._waiting.plan_add(key, forecast, self._count)
        apply((*adding, (vars(self).update, news)))
        return mixture

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        def read() -> tuple[Any, Any, Floats]:
            samples, draft = self._read_asked(X), shallow_copy(self)
            draft._waiting = copy.deepcopy(self._waiting)
            scores = [draft._row_scores(x) for x in samples_of(X)]
            made = np.array(scores).reshape(len(samples), len(self.classes))
            return draft, source_of(X), made

        draft, source, scores = read_whole(read, self)
        self._become(draft)
        return source, scores

    def _probabilities(self, scores: Floats) -> Floats:
        return calibrate(scores, best_scale(self._losses), self._count) if scores.size else scores
