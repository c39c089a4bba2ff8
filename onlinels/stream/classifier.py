"""A classifier for streams of dicts without hyperparameters to choose."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from onlinels.checks import Floats, check_count
from onlinels.core.constants import (
    LABEL_RATE,
    LAST_LABEL,
    MIN_RIDGE_SHARE,
    N_BEST,
    N_EXPERTS,
    N_FEATURES,
    N_HEAD,
)
from onlinels.core.reference import is_one_of, pace_of, shares_of
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.scoring import (
    SCALE_PENALTIES,
    SOFTMAX_SCALES,
    ScoringClassifier,
    best_scale,
    calibrate,
    check_keywords,
    table_of,
    with_unseen_labels,
)
from onlinels.linear.single import LABEL_TYPES
from onlinels.numerics import Calls, are_columns, enlarged, is_array
from onlinels.rows.answers import labels_like
from onlinels.rows.batch import matched_by_position, source_of
from onlinels.rows.labels import Classes, Label, read_known_labels, read_label, read_labels
from onlinels.saving import savable
from onlinels.stream.base import ExpertsState, StreamModel
from onlinels.stream.features import (
    MAX_REMEMBERED_LABELS,
    Cells,
    Sample,
    StreamColumns,
)
from onlinels.stream.waiting import MAX_WAITING, Found, Key, Stored, keyed
from onlinels.sums.axes import grown
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


class ClassifierState(ExpertsState):
    """What a `StreamClassifier` has learnt."""

    forgetting, blank = np.array([*MEMORIES]), np.array([0.0, -1.0, 0.0, 0.0])
    in_place = (*ExpertsState.in_place, "cells", "softmaxes", "errors", "losses")
    names_of_former = (*ExpertsState.names_of_former, "_last")

    def __init__(self, seed: int) -> None:
        super().__init__(seed, LeastSquaresClassifier())
        self.cells = Cells(seed)
        size = self.activations.n_wide
        self.memories = [Recursion(size, 0, c, MIN_RIDGE_SHARE) for c in MEMORIES.values()]
        # The weights (n_activations, n_classes) of the softmax regressions.
        self.softmaxes = [np.zeros((n, 0), order="F") for n in (1, size)]
        # Recent errors of every expert.
        self.errors = np.zeros(len(EXPERTS))
        self.losses = np.zeros(len(SOFTMAX_SCALES))
        self.classes = Classes()
        # Whether the scale is that of the samples predicted before the first row was learnt.
        self.is_watched = False

    @property
    def n_outputs(self) -> int:
        """Number of outputs of plain least squares."""
        return len(self.classes)

    @property
    def scales_forecasts(self) -> bool:
        """Whether the scale learns rows when they are forecast."""
        return self.delay > 0

    @property
    def size(self) -> int:
        """Number of numbers of a forecast."""
        return N_HEAD + len(self.columns.names) + N_EXPERTS + len(self.classes)

    @property
    def spread(self) -> float:
        """The scale of probabilities."""
        return best_scale(self.losses)

    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays of the linear experts (see `onlinels.core.reference.Experts`)."""
        made = self.activations
        every = np.arange(made.n_wide, dtype=np.int64)
        narrow, wide = self.softmaxes
        memories = self.memory_arrays([every] * len(MEMORIES))
        rows = *made.arrays, *self.cells.arrays, *made.places
        return *rows, *memories, made.narrow, narrow, every, wide

    def own_arrays(self) -> tuple[Any, ...]:
        """Return further arrays for `StreamRows`."""
        return PRIORS, self.errors, self.losses, SOFTMAX_SCALES, SCALE_PENALTIES

    def labels(self) -> dict[str, Any]:
        """Return the arguments of `StreamRows` about labels."""
        index = self.classes.index
        # If the labels may be compared by Python code, no label is known.
        are_plain = all(is_one_of(LABEL_TYPES, label) for label in index)
        return {"outputs": index if are_plain else {}, "labels": self.classes.labels}

    def first_forecast(self, x: Any) -> tuple[Floats, Calls]:
        """Return the forecast for a sample before the first row, and plan to learn its scale."""
        features, calls = self.waiting.watched(x)
        return np.concatenate(([len(features), -1.0, True, 0.0], features)), calls

    def make_room(self, columns: StreamColumns, target: tuple[Classes, int]) -> tuple[int, bool]:
        """Make room in a draft for a row, given the classes with its own, and its column."""
        classes, column = target
        is_new = column >= len(self.classes)
        if classes is not self.classes or columns is not self.columns:
            self.classes = classes
            self.grow(columns)
        return column, is_new

    def recall(self, found: Found | None, delay: int) -> Floats | None:
        """Return the stored forecast of a row, if the row is learnt with it."""
        if delay and not self.is_watched:
            self.take_watched_scale()
        if found is None:
            return None
        stored = found.forecast
        # Without delay, the current forecast is as good, which knows all features. Before the first
        # row was learnt, rows were scaled in another way.
        is_whole = delay > 0 or stored[N_FEATURES] == len(self.columns.names)
        return stored if is_whole and (stored[N_BEST] or self.is_watched) else None

    def take_watched_scale(self) -> None:
        """Take the scale of the rows predicted before the first label, in a draft.

        It is taken if it has learnt more rows and knows all features: the rows are then learnt as
        they were predicted.
        """
        watched = self.waiting.scaler
        if watched.n_rows > self.count and self.waiting.columns.names == self.columns.names:
            # Later samples are not watched into the arrays of this state.
            self.scaler, self.made = copy.deepcopy(watched), None
            self.is_watched = True

    def grow(self, columns: StreamColumns) -> None:
        """Make room in a draft for new features, and for its classes."""
        super().grow(columns)
        n_classes = len(self.classes)
        self.cells = self.cells.grown(columns.names, n_classes)
        self.activations = self.activations.grown(columns.names, n_classes)
        size, n_narrow = self.activations.n_wide, len(self.activations.narrow)
        self.memories = [grown(each, size, n_classes) for each in self.memories]
        softmaxes = zip(self.softmaxes, (n_narrow, size), strict=True)
        self.softmaxes = [enlarged(each, n, n_classes) for each, n in softmaxes]

    def take_former(self, saved: Mapping[str, Any]) -> None:
        """Take the numbers of a file of an earlier version."""
        super().take_former(saved)
        last = saved["_last"]
        self.numbers[LAST_LABEL] = -1 if last == -1 else check_count("_last", last, 0)


def mixture_of(forecast: Floats) -> Floats:
    """Return the scores of a forecast, which are those of the last classes in it."""
    return forecast[int(forecast[N_FEATURES] + forecast[N_BEST]) + N_HEAD :]


def _packed_fits(stored: Stored, n_features: int, n_classes: int) -> bool:
    """Return whether a loaded forecast is one of a model of so many features and classes."""
    packed = stored.forecast
    n, last, is_scaled, n_experts = packed[:4].tolist()
    n_scores = len(packed) - 4 - n - n_experts
    fits = n in range(n_features + 1) and last in range(-1, n_classes) and is_scaled in (0, 1)
    fits = fits and n_experts in (0, N_EXPERTS) and n_scores in range(n_classes + 1)
    # The spread may be unknown.
    return fits and not stored.spread > SOFTMAX_SCALES[-1]


def _experts_are_sound(model: Any) -> bool:
    state, made = model._state, model._state.activations
    n_features, n = len(state.columns.names), len(state.classes)
    n_labels = min(n, MAX_REMEMBERED_LABELS)
    # Rows that were watched before the first label may have other features.
    most = max(n_features, len(state.waiting.columns.names))
    fits = state.is_sound(LeastSquaresClassifier, n_labels, lambda p: _packed_fits(p, most, n))
    fits = fits and (state.cells.n_features, state.cells.n_labels) == (n_features, n_labels)
    shapes = [each.weights.shape for each in state.memories]
    fits = fits and shapes == [(made.n_wide, n)] * len(MEMORIES)
    shapes = [each.shape for each in state.softmaxes]
    fits = fits and shapes == [(len(made.narrow), n), (made.n_wide, n)]
    fits = fits and are_columns(*state.softmaxes)
    fits = fits and is_array(state.errors, len(EXPERTS))
    fits = fits and is_array(state.losses, len(SOFTMAX_SCALES)) and type(state.is_watched) is bool
    fits = fits and model.labels == read_known_labels(model.labels)
    return fits and state.numbers.item(LAST_LABEL) in range(-1, n)


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
    labels : sequence of labels, optional
        Labels of classes that are known beforehand, also if no row of them has come: see the notes.
    max_features : int, optional
        Largest number of features, of which each text is one. A row that would bring more is
        refused, by name, before anything changes. It can be changed at any time.
    max_waiting : int
        Maximum number of forecasts with a key that wait for their labels, and of those without; at
        least 1. A new one then replaces the oldest of its kind: forecasts without a key never
        replace those with one.

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
    the first row is learnt, every value is accepted without a key, and `predict_one` returns None.

    **Classes that have not come.** With `labels`, `predict_proba_one` names all of them from the
    first question on, in equal shares before the first row. After n rows learnt, of K classes in
    all, a class without rows has the probability 1/2 / (n + K/2), the estimate of Krichevsky and
    Trofimov, and the classes with rows share the rest as they would without `labels`. No
    probability of two or more labels is 0 or 1. A class is learnt as ever from its first row on,
    also if `labels` do not name it; it then counts in K. Labels, scores and what is learnt stay the
    same: `predict_one` returns None before the first row, and names no class without rows.

    **Late labels.** If rows have an identity, pass it as `key` to `predict_one` and other questions
    about one sample, and to `learn_one` or `learn_late`: the model then stores the sample with its
    forecast, and learns both when the label arrives, whatever rows are equal and labels late.
    `drop` forgets a row whose label will not come, and `waiting` says how many forecasts wait.

    The last label learnt is also a feature: in many streams it is the best one. A row whose label
    is late must therefore be learnt with the label that was the last one when the row was
    predicted. The model stores every forecast until the label arrives, without a key under a hash
    of the sample; it stores at most `max_waiting` of these, of a few numbers each. A row is late if
    other rows were learnt between its forecast and its label. A late row is learnt with the last
    label and the scaled features of its forecast, and experts are judged by what they predicted in
    the forecast. The later labels arrive, the less a recent error reduces an expert's share. While
    labels are late, the scale follows the predicted rows, from the first one on, so a prediction
    changes later predictions. Rows that were not predicted count as late as the last row that was.
    Without a key, pass the same sample to `predict_one` and `learn_one`: a sample that has changed
    since it was predicted, for example by a scaler before the model, is not recognised. The model
    warns if a tenth of the last 500 labels finds no forecast or may have found that of an equal
    sample.

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

    R. Krichevsky and V. Trofimov, "The performance of universal encoding", IEEE Transactions on
    Information Theory 27 (1981): the probability of a class without rows.

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

    _blank_state = ClassifierState

    def __init__(
        self,
        seed: int = 0,
        *,
        labels: Any = None,
        max_features: int | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        super().__init__(seed, max_features, max_waiting)
        self.labels = read_known_labels(labels)

    def __setstate__(self, saved: Any) -> None:
        # In files of earlier versions there are no labels.
        super().__setstate__(saved if "labels" in saved else saved | {"labels": None})

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt so far, in the order of their first rows."""
        labels: tuple[Label, ...] = self._known.classes.labels
        return labels

    @property
    def shares(self) -> dict[str, float]:
        """The share of each expert in the forecast, by what the expert learns from.

        Three experts are least-squares models of the random features, the features and the last
        label, fitted to all rows or to recent rows; two are softmax regressions; one predicts the
        class that follows the last label most often; and one is `LeastSquaresClassifier`.
        """
        state = self._known
        shares = shares_of(state.errors, LABEL_RATE * pace_of(state.delay), PRIORS)
        return dict(zip(EXPERTS, shares.tolist(), strict=True))

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
            batch: 0 in rows before the first row of the class, unless `labels` name it. For a list
            of dicts, each dict holds the classes known before its row, and those of `labels`.

        Examples
        --------
        >>> model = StreamClassifier()
        >>> model.predict_proba_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], list("xyy"))[:2]
        [{}, {'x': 1.0}]
        """
        return self._answer_and_learn(StreamClassifier.predict_proba_one, table_of, X, y, w)

    def _read_targets(self, samples: list[Sample], y: Any) -> list[Label]:
        state, labels = self._state, read_labels(y, len(samples))
        classes = state.classes.extended(labels)
        state.activations.grown(state.columns.extended(samples).names, len(classes))
        return labels

    def _read_target(self, y: Any) -> tuple[Classes, int]:
        """Return the classes with that of a label, and its column."""
        known = self._state.classes
        column = known.column_of(y)
        if column is not None:
            return known, column
        label = read_label(y)
        classes = known.extended([label])
        return classes, int(classes.columns([label])[0])

    def predict_proba_one(
        self, x: Mapping[Any, Any], *, key: Key | None = None, **kwargs: Any
    ) -> dict[Label, float]:
        """Return the probability of every class for one sample, also of classes without rows.

        The classes without rows are the others of `labels`, in their order, after those in
        `classes`. Without `labels`, the result is {} before anything is learnt. See
        `predict_one` for the key.

        Examples
        --------
        >>> model = StreamClassifier(labels=["ok", "fault"])
        >>> model.predict_proba_one({"rms": 0.2})
        {'ok': 0.5, 'fault': 0.5}
        >>> for _ in range(99):
        ...     model.learn_one({"rms": 0.2}, "ok")
        >>> model.predict_proba_one({"rms": 0.9})
        {'ok': 0.995, 'fault': 0.005}
        """
        if kwargs:
            check_keywords(self, kwargs)
        with self._lock:
            if key is not None:
                return self._keyed_probabilities(*keyed(x, key))
            rows = self._rows_for(x)
            found = NotImplemented if rows is None else rows.probabilities(x)
            if found is NotImplemented:
                return super().predict_proba_one(x)
            if self.labels is None:
                return found  # type: ignore[no-any-return]
            return with_unseen_labels(found, self.labels, self.count)

    def _keyed_probabilities(self, x: Any, key: Key) -> dict[Label, float]:
        """Return the probabilities of the forecast of a row with a key, as they were then."""
        stored = self._forecast_row(x, key)
        scores, count = mixture_of(stored.forecast), stored.before
        shares = calibrate(scores, stored.spread, count) if scores.size else scores
        found = dict(zip(self.classes, shares.tolist(), strict=False))
        return found if self.labels is None else with_unseen_labels(found, self.labels, count)

    def predict_one(
        self, x: Mapping[Any, Any], *, key: Key | None = None, **kwargs: Any
    ) -> Label | None:
        """Return the label with the highest score for one sample, None if nothing is learnt yet.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        key : str, int, bytes, or tuple of them, optional
            What tells the row apart from others until its label arrives, such as the number of an
            order. The label is then learnt by ``learn_one(x, y, key=key)`` or
            ``learn_late(key, y)``. Later questions with the same key and sample have the answers
            of this time, whatever was learnt since. A row with more new features than
            `max_features` allows is refused: its label could never be learnt.

        Raises
        ------
        TypeError, ValueError
            If `x` cannot be read, or a forecast of another sample waits under the key; nothing has
            changed then.

        Examples
        --------
        >>> model = StreamClassifier()
        >>> model.learn_one({"size": 3.0}, "apple")
        >>> model.predict_one({"size": 4.0}, key="order 12")
        'apple'
        >>> model.learn_late("order 12", "pear")
        >>> model.classes
        ('apple', 'pear')
        """
        if kwargs:
            check_keywords(self, kwargs)
        with self._lock:
            x = x if key is None else keyed(x, key)
            rows = self._rows_for(x)
            found = NotImplemented if rows is None else rows.label(x)
            return super().predict_one(x) if found is NotImplemented else found

    def scores_one(self, x: Mapping[Any, Any], *, key: Key | None = None) -> dict[Label, float]:
        """Return the score of every class for one sample.

        See `scores_many`, and `predict_one` for the key: its forecast has the classes known then.
        """
        with self._lock:
            scores = self._scores_one(x if key is None else keyed(x, key))
            return dict(zip(self.classes, scores, strict=False))

    def margin_one(self, x: Mapping[Any, Any], *, key: Key | None = None) -> float:
        """Return the margin of one sample: its highest score minus the next; see `margin_many`.

        See `predict_one` for the key.
        """
        with self._lock:
            return super().margin_one(x if key is None else keyed(x, key))

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        rows = self._rows_for(x)
        found = NotImplemented if rows is None else rows.scores(x)
        if found is not NotImplemented:
            return np.array(found)
        return mixture_of(self._forecast_one(x))

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        scores = [mixture_of(each) for each in self._forecast_many(X)]
        return source_of(X), np.array(scores).reshape(len(scores), len(self.classes))

    def _probabilities(self, scores: Floats) -> Floats:
        if not scores.size:
            return scores
        return calibrate(scores, self._state.spread, self.count)
