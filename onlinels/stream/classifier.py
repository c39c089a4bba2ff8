"""A classifier for streams of dicts without hyperparameters to choose."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dger

from onlinels.checks import Floats, row_blocks
from onlinels.core.reference import apply
from onlinels.linear.scoring import (
    SOFTMAX_SCALES,
    ScoringClassifier,
    best_scale,
    calibrate,
    table_of,
)
from onlinels.numerics import (
    Calls,
    enlarged,
    shallow_copy,
)
from onlinels.rows.batch import check_mapping, labels_like, samples_of, source_of
from onlinels.rows.labels import Classes, Label, read_label, read_labels
from onlinels.saving import savable, settings_hold
from onlinels.stream.base import (
    MAX_WAITING_FORECASTS,
    Memories,
    StreamModel,
    Waiting,
    sample_key,
    shares_of,
)
from onlinels.stream.features import Cells, Lookup, Sample, StreamColumns, StreamRow, row_products

ERROR_DECAY = 0.995
"""Factor on an error with each further row: about 200 rows count."""

LATE_ERROR_DECAY = 0.998
"""The same while labels are late: about 500 rows, as the best expert d rows ago may differ now."""

LEARNING_RATE = 0.5
"""Each further recent error multiplies an expert's share by exp(-0.5).

Errors are those made before learning each row.
"""

RATE_DELAY = 5.0
"""If labels are d rows late, the rate is 0.5 / sqrt(1 + d / 5): late errors are less informative.

From 3 to 10 the mean accuracy on fifteen streams stayed within 0.1 points.
"""

GRADIENT_RATE = 0.01
"""Learning rate of the softmax regressions, as in river's models.

They adapt slowly, so late labels harm them less.
"""

SCORE_RANGE = -0.5, 1.5
"""Scores are clipped to this range: a single wrong expert must not outvote the others."""

TIE_TOLERANCE = 1e-9
"""Largest difference of scores that count as equal: each of their classes is then correct."""

SCALE_SAMPLING_INTERVAL = 4
"""Every fourth row updates the losses of the scales, which saves a tenth of the time of a row."""

VIEWS, MEMORIES = ("units", "features"), ("long", "short")
EXPERTS = tuple(f"{view}, {memory} memory" for view in VIEWS for memory in MEMORIES)
"""The input and the memory of every expert, in order."""

LATE_EXPERTS = (*(f"{view}, by gradient" for view in VIEWS), "cells")
"""Further experts while labels are late: softmax regressions, and the shares in cells."""


class Scored(NamedTuple):
    """Rows with their scores before they are learnt."""

    # The scaled features, and the contents of the rows' cells.
    features: Floats
    found: Lookup
    # The input of each view, (..., n_activations), and the scores of the 4 or 7 experts,
    # (n_experts, ..., n_classes).
    views: tuple[Floats, Floats]
    scores: Floats


class ForecastInputs(NamedTuple):
    """The inputs of a forecast that may have changed when its label arrives."""

    # The scaled features, and the scores of the experts: maybe fewer than now.
    features: Floats
    scores: Floats
    # The column of the last label then, and whether the scaler has already learnt the row.
    last: int | None
    is_scaled: bool

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Return the forecast from its packed form."""
        n_features, n_experts, last, is_scaled = values[:N_SAID].astype(int).tolist()
        scores = values[N_SAID + n_features :].reshape(n_experts, -1)
        features = values[N_SAID : N_SAID + n_features]
        return cls(features, scores, None if last < 0 else last, bool(is_scaled))


N_SAID = 4
"""How many numbers are packed before features and scores."""


def packed(features: Floats, scores: Floats, last: int | None, is_scaled: bool) -> Floats:
    """Return forecasts of features (..., n_features), scores (n_experts, ..., n_classes) as rows.

    Examples
    --------
    >>> ForecastInputs.of(packed(np.array([0.5]), np.array([[0.2, 0.8]]), None, False))
    ForecastInputs(features=array([0.5]), scores=array([[0.2, 0.8]]), last=None, is_scaled=False)
    """
    head = features.shape[-1], len(scores), -1 if last is None else last, is_scaled
    if features.ndim == 1:
        return np.concatenate((head, features, scores.ravel()))
    parts = np.tile(head, (len(features), 1)), features, *scores
    return np.concatenate(parts, axis=1)


def _without_scores(features: Floats, is_scaled: bool = False) -> Floats:
    """Return the forecast to store for features that arrived before the first row was learnt."""
    return packed(features, np.zeros((len(EXPERTS), 0)), None, is_scaled)


@savable(settings_hold)
class StreamClassifier(StreamModel, ScoringClassifier):
    """Classify a stream of dicts with numbers, texts and gaps, and adapt to drift.

    The model standardises every row by the rows before it and adds features: 160 fixed random
    units, and the shares of the classes among the latest rows in the cells of 40 random partitions
    of two or three features. Four recursive least-squares models learn the row: two with the added
    features and two without, in each pair one with a long and one with a short memory. The forecast
    is an average of the four, weighted by their recent errors on rows that they had not yet learnt.
    When a short-memory model is clearly better than the corresponding long-memory model, the
    long-memory model is reset to a copy of it. Scale, features, forgetting and the share of each
    model therefore follow the stream, and no hyperparameter has to be set.

    Parameters
    ----------
    seed : int
        Seed of the random units. Models with the same seed and the same stream are equal.
    label_delay : int
        About how many samples are predicted between a sample and its label. It is needed only for
        samples that this model learns without having predicted them.

    Notes
    -----
    **Features** are numbers, bools, arrays of numbers without NaN, or texts.

    =====================  =======================================================================
    value                  how it enters
    =====================  =======================================================================
    text                   the first 64 texts of a name are a feature each, called (name, text). A
                           later text, for example one of ten thousand user ids, is identified by
                           a hash of 16 bits, and represented by the shares of the classes among
                           its latest rows: one feature for each of the first 32 classes
    absent                 0, as in river's linear models
    None, NaN              unknown: the mean of the feature, or no text
    new feature or class   may arrive at any time; at most 4,096 features
    =====================  =======================================================================

    Scores are those of the forecast: a mixture of least-squares outputs within [-0.5, 1.5]. Before
    the first row is learnt, every value is accepted and `predict_one` returns None.

    **Late labels.** The last label learnt is also a feature: in many streams it is the best one. A
    row whose label is late must therefore be learnt with the label that was the last one when the
    row was predicted. The model stores every forecast, under a hash of the sample, until
    `learn_one` supplies the label; it stores at most 4,096 forecasts of a few numbers each. A row
    is late if other rows were learnt between its forecast and its label. A late row is learnt with
    the last label and the scaled features of its forecast; experts are judged by the scores that
    they gave in the forecast; no long memory is reset; and three more experts join the forecast:
    two softmax regressions by stochastic gradient descent, and the mixture of the cells. The later
    labels arrive, the less a recent error reduces an expert's share, and the longer it counts.
    While labels are late, the scale follows the predicted rows, from the first one on, so a
    prediction changes later predictions. If the model learns samples that it did not predict, or
    that a transformer has changed since the prediction, `label_delay` is used to determine which
    label was the last one at the time; without it, late labels reduce accuracy.

    **Weights and ridge.** Each expert's weights are the exact ridge solution on the rows so far,
    with the features as they were when each row was learnt. In a long memory, rows since its last
    reset weigh 1, and rows before the reset weigh as much as they weighed in the short memory then.
    In a short memory, a row weighs 0.99 to the power of the number of rows since. The ridge on
    every weight is 1; where rows are forgotten, or were forgotten before a reset, it is between
    1/16 and 1.

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
    learn a row                          about ``6 ((M + 160)^2 + M^2)`` operations
    one row in 276                       ``3 ((M + 160)^3 + M^3)`` more: the ridge of the short
                                         memories is restored to 1
    `learn_many`, `predict_learn_many`   the time of as many calls of `learn_one`, and the memory
                                         of a second model during the call
    `predict_many`                       a quarter of the time of as many calls of `predict_one`
    memory                               ``16 ((M + 160)^2 + M^2)`` bytes
    for N classes, at most 32            ``20,480 (N + 1)`` bytes more, and ``8 (N + 1)`` for each
                                         hash of a text
    ===================================  ==========================================================

    **Exceptions.** If a call raises, also by an interrupt from the keyboard or for lack of memory,
    the model is as before the call or as after it, bit for bit, and remains usable. A batch is
    checked as a whole, and learnt by a copy of the model that then replaces its state.

    References
    ----------
    S. H. Bach and M. A. Maloof, "Paired learners for concept drift", ICDM 2008: a stable learner
    that is replaced by a learner of recent rows when the recent one does better.

    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11:
    the exponentially weighted average forecaster, which mixes the models.

    I. Zliobaite et al., "Evaluation methods and decision theory for classification of streaming
    data with temporal dependence", Machine Learning 98 (2015): the last label as a feature.

    M. Ozuysal et al., "Fast keypoint recognition using random ferns", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 32 (2010): the shares of classes in cells of few features.

    D. Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes", ACM
    SIGKDD Explorations 3 (2001): texts represented by the shares of the classes.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), StreamClassifier(), metrics.Accuracy())
    Accuracy: 90.39%
    """

    # The key of a row, the label before it, and its scores.
    _seen: tuple[tuple[Any, ...], int | None, Scored] | None

    def __init__(self, seed: int = 0, label_delay: int = 0) -> None:
        super().__init__(seed, label_delay)
        self._cells = Cells(seed)
        self._memories = [Memories() for _ in VIEWS]
        # The weights (n_activations, n_classes) of a softmax regression for each view, after the
        # first late label.
        self._softmaxes: list[Floats] = []
        self._waiting = Waiting()
        # Rows that were learnt between the last row's forecast and its label.
        self._delay = 0
        # Recent errors of every expert. Plain floats: numpy is slower with four numbers.
        self._errors = [0.0] * len(EXPERTS)
        self._losses = np.zeros(len(SOFTMAX_SCALES))
        self._classes = Classes()
        # The columns of the last labels: as many as arrive between a prediction and its label.
        self._recent: deque[int] = deque(maxlen=min(self.label_delay + 1, sys.maxsize))

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt so far, in the order of their first rows."""
        return self._classes.labels

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the experts in the forecast, by their input and memory.

        There are four experts, and seven while labels are late.
        """
        return dict(zip(EXPERTS + LATE_EXPERTS, self._shares().tolist(), strict=False))

    def _shares(self) -> Floats:
        errors = self._errors if self._delay else self._errors[: len(EXPERTS)]
        return shares_of(errors, LEARNING_RATE / (1.0 + self._delay / RATE_DELAY) ** 0.5)

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
        classes = self._classes.extended(labels)
        self._activations.grown(columns.names, len(classes), columns.n_crowded)
        return labels

    def _learn(self, columns: StreamColumns, row: StreamRow, y: Any, key: int, w: float) -> None:
        draft, found = shallow_copy(self), self._waiting.find(key, self._count)
        delay = self._delay if found is None else found[1]
        if delay and not self._softmaxes:
            draft._add_late_experts()
            found = draft._waiting.find(key, self._count)
        column = self._classes.column_of(y)
        if column is None or columns is not self._columns:
            label = read_label(y)
            draft._grow(columns, self._classes.extended([label]))
            (column,) = draft._classes.columns([label]).tolist()
        is_new = column == len(self._classes)
        forecast = None if found is None else ForecastInputs.of(found[0])
        if forecast is None or not (delay or forecast.is_scaled):
            # The last label that was known when this sample was predicted, not the latest label.
            was_known = len(self._recent) > self.label_delay
            forecast, last = None, self._recent[0] if was_known else None
            scored = draft._score(row, last)
            judged: Floats | None = None if is_new else scored.scores
        else:
            scored, judged = draft._score_as(forecast, row, column)
        if forecast is None or not forecast.is_scaled:
            draft._scaler = draft._scaler.learnt(row.values, row.gaps)
        # No expert could predict a label that arrives for the first time.
        errs = [False] * 4 if judged is None else draft._judge(judged, column, delay, w)
        # With late labels, a short memory that was better is already out of date.
        calls = draft._plan_experts(scored, [False] * 4 if delay else errs, column, w)
        of_cells, draft._cells = draft._cells.plan(scored.found, column, is_new, w)
        draft._count, draft._seen, draft._delay = self._count + 1, None, delay
        calls = *calls, *of_cells, *draft._waiting.plan_take(key), (self._recent.append, column)
        self._become(draft, calls)

    def _score_as(
        self, forecast: ForecastInputs, row: StreamRow, column: int
    ) -> tuple[Scored, Floats | None]:
        """Return a row with the features of its forecast and current scores, and the scores then.

        The scores of the forecast are None if the class was unknown then. Cells are read in their
        current state: with their state at the forecast, Agrawal and STAGGER lose 3 and 2 points if
        labels are 200 rows late.
        """
        features = forecast.features
        if len(features) < len(row.values):
            features = self._scaler.transform(row.values)
            features[: len(forecast.features)] = forecast.features
        scored = self._score_features(features, forecast.last, row.texts)
        judged, (n_experts, n_classes) = scored.scores.copy(), forecast.scores.shape
        # Experts that did not exist at the forecast keep their current scores.
        judged[:n_experts] = enlarged(forecast.scores, n_experts, judged.shape[1])
        return scored, judged if column < n_classes else None

    def _judge(self, scores: Floats, column: int, delay: int, w: float) -> list[bool]:
        """Return which experts erred, by their scores before the label was known.

        Their errors and the losses of the scales change: this is a draft of the model.
        """
        errs: list[bool]
        errs = (scores[:, column] < np.maximum.reduce(scores, axis=1) - TIE_TOLERANCE).tolist()
        if self._count % SCALE_SAMPLING_INTERVAL == 0:
            # As `calibrate` computes it, but an array of classes by scales takes half the time.
            mixture = self._mixture(scores)
            likelihoods = np.exp((mixture - mixture[mixture.argmax()])[:, None] * SOFTMAX_SCALES)
            shares = likelihoods[column] / np.add.reduce(likelihoods)
            probabilities = (self._count * shares + 1.0) / (self._count + len(mixture))
            self._losses = self._losses - w * np.log(probabilities)
        left = LATE_ERROR_DECAY if delay else ERROR_DECAY
        recent = zip(self._errors, errs, strict=True)
        self._errors = [left * errors + w * err for errors, err in recent]
        return errs

    def _plan_experts(self, scored: Scored, errs: list[bool], column: int, w: float) -> Calls:
        """Plan to learn a scored row in all experts, given which memories erred."""
        calls: Calls = ()
        targets = np.zeros(len(self._classes))
        targets[column] = 1.0
        for view, row in enumerate(scored.views):
            long, short = 2 * view, 2 * view + 1
            both, difference = scored.scores[long : short + 1], errs[long] - errs[short]
            calls += self._memories[view].plan(row, targets, both, difference, w)
            if self._softmaxes:
                # W += 0.01 w z (y - softmax(z'W))', in place.
                gradient = targets - scored.scores[len(EXPERTS) + view]
                given = w * GRADIENT_RATE, row, gradient, 1, 1, self._softmaxes[view], 0, 0, 1
                calls += ((dger, *given),)
        return calls

    def _add_late_experts(self) -> None:
        """Add the experts for late labels to a draft of the model.

        Its scale becomes that of the rows predicted before the first label, if that scale has
        learnt more rows and knows all features: the rows are then learnt as they were predicted.
        """
        waiting = self._waiting
        fits = waiting.columns.names == self._columns.names
        is_scaled = fits and waiting.scaler.n_rows > self._count
        if is_scaled:
            self._scaler = waiting.scaler
        n_known = len(waiting.columns.names) if is_scaled else 0
        self._waiting = waiting.with_first(
            lambda values: _without_scores(ForecastInputs.of(values).features[:n_known], is_scaled)
        )
        self._softmaxes = [np.zeros(each.long.weights.shape, order="F") for each in self._memories]
        self._errors = self._errors + [max(self._errors)] * len(LATE_EXPERTS)
        self._seen = None

    def _grow(self, columns: StreamColumns, classes: Classes) -> None:
        """Make room in a draft of the model for new features and classes."""
        self._extend_columns(columns)
        self._classes, sizes = classes, (len(classes), columns.n_crowded)
        self._cells = self._cells.grown(columns.names, *sizes)
        self._activations = self._activations.grown(columns.names, *sizes)
        widths = self._activations.n_wide, self._activations.n_narrow
        pairs = zip(self._memories, widths, strict=True)
        self._memories = [each.grown(size, len(classes)) for each, size in pairs]
        # There are none before the first late label.
        late = zip(self._softmaxes, widths, strict=False)
        self._softmaxes = [enlarged(each, size, len(classes)) for each, size in late]

    def _score(self, row: StreamRow, last: int | None) -> Scored:
        """Return a row, after a label, with its scores; they are reused if it is learnt next."""
        key, seen = (row.values.tobytes(), *row.texts), self._seen
        if seen is not None and seen[0] == key and seen[1] == last:
            return seen[2]
        scored = self._score_features(self._scaler.transform(row.values), last, row.texts)
        self._seen = key, last, scored
        return scored

    def _score_features(
        self, features: Floats, last: int | None, texts: Sequence[int] = ()
    ) -> Scored:
        """Return rows of scaled features (..., n_features), after a label, with their scores."""
        cells, activations = self._cells, self._activations
        found = cells.lookup(cells.of(features), texts)
        mixture = cells.mixture(found)
        wide = activations.of(features, mixture, last)
        if texts:
            activations.add_texts(wide, found)
        views = wide, activations.narrow(wide)
        pairs = zip(views, self._memories, strict=True)
        linear = [(view, each.weights) for view, pair in pairs for each in (pair.long, pair.short)]
        linear += zip(views, self._softmaxes, strict=False)
        scores = np.zeros((len(self._errors), *wide.shape[:-1], len(self._classes)))
        for (view, weights), out in zip(linear, scores, strict=False):
            row_products(view, weights, out)
        if self._softmaxes:
            softmaxes = scores[len(EXPERTS) : -1]
            softmaxes -= np.maximum.reduce(softmaxes, axis=-1, keepdims=True)
            np.exp(softmaxes, out=softmaxes)
            softmaxes /= np.add.reduce(softmaxes, axis=-1, keepdims=True)
            scores[-1, ..., : mixture.shape[-1]] = mixture + 1.0 / mixture.shape[-1]
        return Scored(features, found, views, scores)

    def _mixture(self, scores: Floats) -> Floats:
        """Return the forecast (..., n_classes) of the scores of experts (4, ..., n_classes)."""
        low, high = SCORE_RANGE
        shares = self._shares()
        credible = np.minimum(np.maximum(scores[: len(shares)], low), high)
        # Rows first, so that many rows are mixed bit for bit as a single row.
        mixture: Floats = shares @ np.ascontiguousarray(credible.swapaxes(0, -2))
        return mixture

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return the scores of a row, and store those of its experts until its label arrives."""
        if not self._recent:
            check_mapping(x)
            self._waiting.watch(x, _without_scores)
            return np.zeros(0)
        # Read the row first: this raises for samples that have no key.
        row, key, is_scaled = self._columns.row(x), sample_key(x), False
        found = self._waiting.find(key, self._count)
        if found is not None:
            before = ForecastInputs.of(found[0])
            is_scaled = before.is_scaled
            if self._delay and not found[1]:
                # Predicted again: the scaler has learnt this row.
                return self._mixture(before.scores)
        news: dict[str, Any] = {}
        last = self._recent[-1]
        scored = self._score(row, last)
        if self._delay and not is_scaled:
            is_scaled = True
            news = {"_scaler": self._scaler.learnt(row.values, row.gaps), "_seen": None}
        forecast = packed(scored.features, scored.scores, last, is_scaled)
        adding = self._waiting.plan_add(key, forecast, self._count)
        apply((*adding, (vars(self).update, news)))
        return self._mixture(scored.scores)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        samples, draft = self._read_asked(X), shallow_copy(self)
        rows, draft._waiting = self._columns.placed(samples), copy.deepcopy(self._waiting)
        is_late = bool(self._softmaxes)
        # While labels are late, the scaler may have learnt rows that were predicted before.
        first = 0 if is_late else max(0, len(rows) - MAX_WAITING_FORECASTS)
        keys = [sample_key(x) for x in islice(samples_of(X), first, None)]
        has_repeats = len(set(keys)) < len(keys) or any(key in self._waiting for key in keys)
        in_turn = (is_late and has_repeats) or any(row.texts for row in rows)
        if in_turn or not (rows and self._recent):
            each = [draft._row_scores(x) for x in samples_of(X)]
            scores = np.array(each).reshape(len(rows), len(self.classes))
        else:
            scores = draft._block_scores(rows, keys)
        self._become(draft)
        return source_of(X), scores

    def _block_scores(self, rows: list[StreamRow], keys: list[int]) -> Floats:
        """Return the scores of rows without texts; store their forecasts in a draft."""
        last = self._recent[-1]
        features = self._scaler.transform(np.array([row.values for row in rows]))
        if self._delay:
            for row, scaled in zip(rows, features, strict=True):
                scaled[:] = self._scaler.transform(row.values)
                self._scaler, self._seen = self._scaler.learnt(row.values, row.gaps), None
        forecasts, parts = deque[Floats](maxlen=MAX_WAITING_FORECASTS), []
        for some in row_blocks(len(rows), 4 * self._activations.n_wide):
            scores = self._score_features(features[some], last).scores
            forecasts.extend(packed(features[some], scores, last, bool(self._delay)))
            parts.append(self._mixture(scores))
        for key, forecast in zip(keys[-MAX_WAITING_FORECASTS:], forecasts, strict=True):
            self._waiting.add(key, forecast, self._count)
        return np.concatenate(parts)

    def _probabilities(self, scores: Floats) -> Floats:
        return calibrate(scores, best_scale(self._losses), self._count) if scores.size else scores
