"""A classifier for streams of dicts, with nothing to choose."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress, islice
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import Floats, Integers, check_not_empty, row_blocks
from onlinels.labels import Classes, Label, read_label, read_labels
from onlinels.numerics import Calls, Lock, State, apply, shallow_copy
from onlinels.rows import check_mapping, labels_like, samples_of, source_of, table_like
from onlinels.saving import (
    NOTHING,
    SHARE,
    VECTOR,
    WHOLE,
    listed,
    made_of,
    savable_settings,
    settings_hold,
)
from onlinels.scoring import SCALES, ScoringClassifier, best_scale, calibrate
from onlinels.stream.base import StreamModel, put_in_place, read_weight
from onlinels.stream.cells import MOST_LABELS, Cells, Lookup
from onlinels.stream.experts import Memories, learn_in_blocks, shares_of
from onlinels.stream.features import Activations, RunningScaler, row_products
from onlinels.stream.rows import N_HASHES, Sample, StreamColumns, StreamRow, read_stream_batch
from onlinels.stream.softmax import Softmax, to_probabilities
from onlinels.stream.waiting import MOST_WAITING, Waiting, sample_key

RECENT = 0.995
"""What is left of an error after each further row: some 200 rows count."""

RECENT_IF_LATE = 0.998
"""The same while labels are late: some 500 rows, as what was best d rows ago is hardly so now."""

RATE = 0.5
"""An expert's share falls by the factor exp(-0.5) with each recent error more.

These are errors made before learning each row.
"""

LATENESS = 5.0
"""Where labels are d rows late, the rate is 0.5 / sqrt(1 + d / 5): late errors tell less.

From 3 to 10 the mean accuracy on fifteen streams stayed within 0.1 points.
"""

CREDIBLE = -0.5, 1.5
"""Scores beyond this range are taken as its ends: an expert far off must not outvote the rest."""

TIE = 1e-9
"""Difference of scores that are equal but for rounding: each of their classes counts as right."""

SAMPLED = 4
"""Of so many rows one is used to choose the scale: a tenth of the time of a row saved."""

VIEWS, MEMORIES = ("units", "features"), ("long", "short")
EXPERTS = tuple(f"{view}, {memory} memory" for view in VIEWS for memory in MEMORIES)
"""What the experts see and how long they remember, in their order."""

LATE_EXPERTS = (*(f"{view}, by gradient" for view in VIEWS), "cells")
"""Those that come after them where labels are late: softmax regressions, and shares in cells."""

N_EXPERTS = len(EXPERTS) + len(LATE_EXPERTS)
"""Experts once a label was late."""


class Answer(NamedTuple):
    """Rows as they are answered before they are learnt."""

    # Of the classes known then, (n, n_classes).
    scores: Floats
    # What turns the scores of each row into probabilities, (n,); see `calibrate`.
    scales: Floats
    counts: Integers


class Scored(NamedTuple):
    """Rows with the scores that they have before they are learnt."""

    # What the cells of rows hold.
    found: Lookup
    # What each view sees, (..., n_activations), and the scores of the 4 or 7 experts that there
    # are, (n_experts, ..., n_classes).
    views: tuple[Floats, Floats]
    scores: Floats


class Forecast(NamedTuple):
    """What a forecast was made of that has changed when its label comes."""

    # The features as they were scaled, and the scores of experts: fewer than now, perhaps.
    features: Floats
    scores: Floats
    # The column of the last label then, and whether the scale has learnt the row already.
    last: int | None
    is_scaled: bool

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Return the forecast that was `packed`."""
        n_features, n_experts, last, is_scaled = values[:N_SAID].astype(int).tolist()
        scores = values[N_SAID + n_features :].reshape(n_experts, -1)
        features = values[N_SAID : N_SAID + n_features]
        return cls(features, scores, None if last < 0 else last, bool(is_scaled))


N_SAID, LAST_LABEL = 4, 2
"""Numbers that are packed before features and scores, and the place of the last label."""


def packed(features: Floats, scores: Floats, last: int | None, is_scaled: bool) -> Floats:
    """Return forecasts of features (..., n_features), scores (n_experts, ..., n_classes) as rows.

    Examples
    --------
    >>> Forecast.of(packed(np.array([0.5]), np.array([[0.2, 0.8]]), None, False))
    Forecast(features=array([0.5]), scores=array([[0.2, 0.8]]), last=None, is_scaled=False)
    """
    said = features.shape[-1], len(scores), -1 if last is None else last, is_scaled
    if features.ndim == 1:
        return np.concatenate((said, features, scores.ravel()))
    parts = np.tile(said, (len(features), 1)), features, *scores
    return np.concatenate(parts, axis=1)


def _write_scores(forecast: Forecast, scores: Floats, column: int) -> bool:
    """Write scores that experts gave in a forecast over those that they give now.

    Experts that were not there then are judged by what they say now. Returns whether the class in a
    column was known then.
    """
    n_experts, n_classes = forecast.scores.shape
    scores[:n_experts] = 0.0
    scores[:n_experts, :n_classes] = forecast.scores
    return bool(column < n_classes)


def rate_of(delay: Any) -> Any:
    """Return by how much an error takes from an expert's share where labels are so late."""
    return RATE / (1.0 + delay / LATENESS) ** 0.5


def _errs(scores: Floats, columns: Integers) -> Integers:
    """Return 1 where experts, by scores (n_experts, n, n_classes), are wrong about rows, else 0."""
    of_label = scores[:, np.arange(len(columns)), columns]
    errs: Integers = (of_label < scores.max(axis=2) - TIE).astype(np.intp)
    return errs


def _without_scores(features: Floats, is_scaled: bool = False) -> Floats:
    """Return what waits of features that came before anything was learnt."""
    return packed(features, np.zeros((len(EXPERTS), 0)), None, is_scaled)


def _watch(waiting: Waiting, samples: Iterable[Mapping[Any, Any]]) -> None:
    """Let samples wait that come before anything is learnt, scaled by those before them."""
    for x in samples:
        # Values may be anything yet.
        with suppress(Exception):
            waiting.watch(x, _without_scores)


def _are_sound(waiting: Waiting, model: Any) -> bool:
    """Tell whether forecasts that wait are some that a model may have made."""
    n_classes, n_known = len(model._classes), len(model._columns.names)
    n_watched = max(n_known, len(waiting.columns.names))
    for values, count in waiting:
        said = values[:N_SAID]
        if len(said) < N_SAID or not np.isfinite(values).all() or (said % 1.0).any():
            return False
        n_features, n_experts, last, is_scaled = said.tolist()
        n_scores = len(values) - N_SAID - n_features
        fits = 0 <= n_features <= (n_known if count else n_watched) and 0 <= count <= model._count
        fits = fits and n_experts in (len(EXPERTS), N_EXPERTS) and -1 <= last < n_classes
        fits = fits and is_scaled in (0, 1) and n_scores % n_experts == 0
        if not fits or not 0 <= n_scores <= n_experts * n_classes:
            return False
    return True


def _is_sound(model: Any) -> bool:
    n_features, n_classes = len(model._columns.names), len(model._classes)
    activations, cells = model._activations, model._cells
    shapes = [each.shape for each in model._memories]
    expected = [(n, n_classes) for n in (activations.n_wide, activations.n_narrow)]
    fits = shapes == (expected if n_classes else [(0, 0)] * len(VIEWS))
    fits = fits and len(model._scaler.means) == len(activations._features) == n_features
    fits = fits and len(activations._texts) == cells._n_names == model._columns.n_crowded
    n_shares = len(cells._sums) - 1
    fits = fits and len(activations._labels) == n_shares == min(n_classes, MOST_LABELS)
    fits = fits and len(cells._ranks) == n_features
    fits = fits and len(model._losses) == len(SCALES) and (not model._delay or model._softmaxes)
    if model._softmaxes:
        fits = fits and [each.weights.shape for each in model._softmaxes] == shapes
    fits = fits and len(model._errors) == (N_EXPERTS if model._softmaxes else len(EXPERTS))
    fits = fits and _are_sound(model._waiting, model)
    fits = fits and model._recent.maxlen == model.label_delay + 1
    fits = fits and all(type(each) is int and 0 <= each < n_classes for each in model._recent)
    return bool(fits) and settings_hold(model)


@savable_settings(
    _is_sound,
    _lock=made_of(Lock),
    _columns=made_of(StreamColumns),
    _scaler=made_of(RunningScaler),
    _activations=made_of(Activations),
    _cells=made_of(Cells),
    _memories=listed(made_of(Memories)),
    _softmaxes=listed(made_of(Softmax)),
    _waiting=made_of(Waiting),
    _delay=WHOLE,
    _errors=listed(SHARE),
    _losses=VECTOR,
    _classes=made_of(Classes),
    _recent=made_of(deque),
    _count=WHOLE,
    _seen=NOTHING,
)
class StreamClassifier(StreamModel, ScoringClassifier):
    """Classify a stream of dicts, whatever is in them and however it changes.

    Every row is put on one scale by the rows before it, spread over 160 fixed random units, looked
    up in the cells of 40 random partitions of two or three features, where the shares of the
    classes among the latest rows stand, and learnt by four recursive least-squares models: with and
    without units and cells, with a long and a short memory. The forecast mixes them by their recent
    errors, made before learning each row.
    When a short-memory model is clearly better than the long-memory model beside it, the
    long-memory model is reset to a copy of it. So scale, features, forgetting and the share of each
    model follow the stream, and there is nothing to set.

    Parameters
    ----------
    seed : int
        Of the random units; models of one seed and one stream are alike.
    label_delay : int
        Samples that are predicted, about, between a sample and its label. Only samples that this
        model did not predict before it learns them need it.

    Notes
    -----
    Features are numbers, bools, arrays of numbers without NaN, or text. The first 64 texts of a
    name are a feature each, called (name, text). A later one, as of ten thousand user ids, is known
    by a hash of 16 bits, and told by the shares of the classes among its latest rows: a feature for
    each of the first 32 classes. Absent features are 0, as in river's linear models; None and NaN
    are unknown, and count as the mean, or as no text. New features, up to 4,096, and new classes
    may come at any time. Scores are those of the forecast: a mixture of least-squares outputs
    within [-0.5, 1.5]. Before anything is learnt no value is refused, and `predict_one` is None.

    The label learnt last is a feature too: in many streams it is the best feature of all. So a row
    whose label is late must be learnt with the label that was the last one at its prediction.
    Every forecast therefore waits, under a hash of the sample, until `learn_one` brings the label;
    up to 4,096 wait, each with a few numbers. A row is late if other rows were learnt between its
    forecast and its label. A late row is learnt with the last label and the scaled features of its
    forecast, experts are judged by the scores that they gave in the forecast, no long memory is
    reset, and three experts more join the forecast: two softmax regressions by stochastic gradient
    descent, and the cells' mixture. The later labels come, the less a recent error takes from an
    expert's share, and the longer it counts. While labels are late the scale follows the predicted
    rows, from the very first on, so a prediction then changes later ones. If samples are learnt
    that the model did not predict, or that a transformer has changed since, `label_delay` says
    which label was the last one; without it, labels that come late mislead.

    Each expert's weights are the exact ridge solution on the rows so far, in the features as they
    were when each row was learnt. Of n rows since the last takeover, the rows of a long memory
    weigh 1, and those before it what they weighed in the short memory then; in a short one they
    weigh 0.99 to the power of the rows since. The ridge is 1 on every weight, and
    where rows are forgotten, or were until a takeover, between 1/16 and 1.

    The weight `w` of a row multiplies its squared errors in every expert, its step in the softmax
    regressions, what it adds to cells, and the losses by which experts, partitions and the scale of
    probabilities are judged. Scale, time, names, classes and the last label follow every row alike:
    a row of weight 0 is a row of the stream that teaches nothing else. Weights count beside a ridge
    of 1, so divide them by their mean if that is far from 1.

    Order is part of the data here: a batch is learnt row by row, as if it came so, to rounding, and
    models neither merge nor unlearn. Rows of known features and classes are learnt in blocks of up
    to 256, by matrix products: `learn_many`, and `predict_learn_many` with the answers, take a
    quarter of the time of many calls of `learn_one`. (A value at the edge of a cell, or a sum at a
    limit, may fall on either side by rounding.) `predict_many` takes a quarter of the time of
    many calls of `predict_one`. A row of M features and classes costs about
    ``6 ((M + 160)^2 + M^2)`` operations to learn, and one in 276, with which the ridge of the
    short memories is brought back to 1, ``3 ((M + 160)^3 + M^3)`` more (see
    demos/benchmarks/README.md for times); memory is ``16 ((M + 160)^2 + M^2)`` bytes, and for N
    classes, 32 at most, ``20,480 (N + 1)`` and ``8 (N + 1)`` for each hash of a text; it does not
    depend on the number of rows.

    Whatever is raised while it learns, by an interrupt from the keyboard or for want of memory too,
    the model is as before or as after, bit for bit, and goes on. A row's changes are made at once;
    a batch is checked as a whole, and what is raised between its blocks comes out after the last.

    References
    ----------
    S. H. Bach and M. A. Maloof, "Paired learners for concept drift", ICDM 2008: a stable learner
    that is made anew from recent rows when a reactive one does better.

    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11:
    the exponentially weighted average forecaster, which mixes the models.

    I. Zliobaite et al., "Evaluation methods and decision theory for classification of streaming
    data with temporal dependence", Machine Learning 98 (2015): the last label as a feature.

    M. Ozuysal et al., "Fast keypoint recognition using random ferns", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 32 (2010): the shares of classes in cells of few features.

    D. Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes", ACM
    SIGKDD Explorations 3 (2001): texts told by the shares of the classes.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), StreamClassifier(), metrics.Accuracy())
    Accuracy: 90.39%
    """

    # Of a row, and the label before it.
    _seen: tuple[tuple[Any, ...], int | None, Scored] | None

    def __init__(self, seed: int = 0, label_delay: int = 0) -> None:
        super().__init__(seed, label_delay)
        self._cells = Cells(seed)
        self._memories = [Memories() for _ in VIEWS]
        # Of each view, once a label was late.
        self._softmaxes: list[Softmax] = []
        self._waiting = Waiting()
        # Rows that were learnt between the last row's forecast and its label.
        self._delay = 0
        # Of every expert. Plain floats: numpy takes longer over four numbers.
        self._errors = [0.0] * len(EXPERTS)
        self._losses = np.zeros(len(SCALES))
        self._classes = Classes()
        # The labels learnt last, by column: as many as come between a prediction and its label.
        self._recent: deque[int] = deque(maxlen=label_delay + 1)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._classes.labels

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the experts in the forecast, by what they see and how they remember.

        They are four, and seven while labels are late.
        """
        names = EXPERTS + LATE_EXPERTS if self._late else EXPERTS
        return dict(zip(names, self._shares().tolist(), strict=True))

    @property
    def _late(self) -> bool:
        return self._delay > 0

    def _shares(self) -> Floats:
        if not self._delay:
            return shares_of(self._errors[: len(EXPERTS)], RATE)
        return shares_of(self._errors, rate_of(self._delay))

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers, arrays of numbers, text, None or NaN.
        y : hashable
            The label; new ones at any time. None, NaN and pandas.NA count as missing: refused.
        w : float
            Weight, from 0 to 1e5; see the notes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> model = StreamClassifier()
        >>> model.learn_one({"size": 3.0, "colour": "red", "age": None}, "apple")
        >>> model.predict_one({"size": 4.0})
        'apple'
        """
        with self._lock:
            taken, weight = self._columns.taking(x), read_weight(w)
            key = sample_key(x) if len(self._waiting) else None
            apply(self._plan(*taken, y, key, weight))

    def predict_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train: the
        result is that of `predict_one` and `learn_one` for one row after the other, to rounding, at
        the speed of `learn_many`. With a `label_delay` it costs what the loop costs.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels
        w : float, or array, series or list of n_rows floats, optional
            Weights, from 0 to 1e5; 1 by default.

        Returns
        -------
        array, series or list of n_rows labels
            In the kind of `X`. None for a row before which nothing was learnt.

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
        with self._lock:
            source, later, answers = self._answered(X, y, w)
            labels: list[Label | None] = []
            for answer in answers:
                known = later.classes[: answer.scores.shape[1]]
                best = answer.scores.argmax(axis=1).tolist() if known else [0] * len(answer.scores)
                labels += [(known or (None,))[column] for column in best]
            predicted = labels_like(source, labels)
            put_in_place(self, later)
            return predicted

    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Return the probabilities of every row before it is learnt, then learn it.

        See `predict_learn_many`.

        Returns
        -------
        table (n_rows, n_classes)
            In the kind of `X`, with a column for each class that is known after the batch: 0 in
            rows before the first row of the class. Dicts hold the classes that were known.

        Examples
        --------
        >>> model = StreamClassifier()
        >>> model.predict_proba_learn_many([{"a": 0.0}, {"a": 3.0}, {"a": 4.0}], list("xyy"))[:2]
        [{}, {'x': 1.0}]
        """
        with self._lock:
            source, later, answers = self._answered(X, y, w)
            n_rows, classes = sum(len(answer.scores) for answer in answers), later.classes
            probabilities, n_known, start = np.zeros((n_rows, len(classes))), list[int](), 0
            for answer in answers:
                stop, n_classes = start + len(answer.scores), answer.scores.shape[1]
                if n_classes:
                    scales, counts = answer.scales[:, None], answer.counts[:, None]
                    known = calibrate(answer.scores, scales, counts)
                    probabilities[start:stop, :n_classes] = known
                n_known += [n_classes] * (stop - start)
                start = stop
            table = table_like(source, classes, probabilities)
            if isinstance(source, (list, tuple)):
                met = zip(table, n_known, strict=True)
                table = [{label: row[label] for label in classes[:n]} for row, n in met]
            put_in_place(self, later)
            return table

    def _read_targets(self, samples: list[Sample], y: Any) -> tuple[list[Label], list[int]]:
        labels, columns = read_labels(y, len(samples)), self._columns.knowing(samples)
        classes = self._classes.extended(labels)
        self._activations.grown(columns.names, len(classes), columns.n_crowded)
        first = {labels.index(label) for label in classes.labels[len(self._classes) :]}
        return labels, sorted(first.union(self._columns.new_rows(samples)))

    def _keys_of(
        self, X: Any, n_rows: int, new: Sequence[int], is_answered: bool
    ) -> tuple[list[int | None], Iterable[int]]:
        if not len(self._waiting) and not self._late:
            return [None] * n_rows, []
        keys: list[int | None] = [sample_key(x) for x in samples_of(X)]
        waiting = [row for row, key in enumerate(keys) if key in self._waiting]
        if is_answered or new or not self._softmaxes or len(set(keys)) < n_rows:
            return keys, [0, *waiting]
        # From the second row on those that wait are late: then rows are learnt together.
        until_late = next((row for row in waiting if row), n_rows - 1)
        n_features = len(self._columns.names)
        forecasts = ((row, self._waiting.find(keys[row], 0)) for row in waiting)
        grown = [row for row, each in forecasts if each and int(each[0][0]) < n_features]
        return keys, [*(range(until_late + 1) if waiting else [0]), *grown]

    def _answer(self, sample: Sample, key: int | None) -> Answer:
        scores = np.zeros((1, len(self._classes)))
        if self._recent:
            row = self._columns.placed([sample])[0]
            if key is None:
                # Nothing waits, and this row is learnt next.
                found = self._score(row, self._recent[-1]).scores
            else:
                found = self._forecast(key, row)
            scores[0] = self._mixture(found)
        return Answer(scores, np.array([best_scale(self._losses)]), np.array([self._count]))

    def _independent(self) -> Self:
        model = super()._independent()
        model._cells, model._recent = self._cells.copied(), self._recent.copy()
        model._softmaxes = [each.copied() for each in self._softmaxes]
        model._waiting = self._waiting.copied()
        return model

    def _plan_block(
        self,
        samples: Sequence[Sample],
        labels: Sequence[Label],
        keys: Sequence[int | None],
        weights: Floats,
    ) -> tuple[tuple[Calls, State], Answer]:
        """Plan to learn rows of known features and classes; return their answers, too.

        The answers are not those of rows of which a forecast waits. All of these are late.
        """
        rows, columns = self._columns.placed(samples), self._classes.columns(labels)
        cells, n_rows, every_row = self._cells, len(rows), np.arange(len(rows))
        forecasts = self._waiting.forecasts_of(keys)
        scaler, features = self._scaled_along(rows, forecasts)
        texts = [row.texts for row in rows]
        mixtures, of_texts, (calls, state) = cells.along(
            cells.of(features), texts, columns, weights
        )
        activations, recent = self._activations, [*self._recent, *columns.tolist()]
        wide = activations.of(features)
        # The last label that was there to predict each row with.
        missing = [-1] * (self.label_delay + 1 - len(self._recent))
        last_labels = [*missing, *recent][:n_rows]
        for row, values in forecasts.items():
            last_labels[row] = int(values[LAST_LABEL])
        activations.add_labels_along(wide, np.array(last_labels), mixtures)
        for row, shares in of_texts.items():
            activations.add_texts(wide[row], [text // N_HASHES for text in texts[row]], shares)
        views = wide, activations.narrow(wide)
        targets = np.zeros((n_rows, len(self._classes)))
        targets[every_row, columns] = 1.0
        scores = np.zeros((len(self._errors), *targets.shape))
        softmaxes = self._late_experts_along(views, targets, weights, mixtures, scores)

        def compare(start: int, found: Sequence[Floats]) -> list[list[int]]:
            part = slice(start, start + found[0].shape[1])
            np.concatenate(found, out=scores[: len(EXPERTS), part])
            errs = _errs(scores[: len(EXPERTS), part], columns[part])
            # As in `_plan_experts`.
            differences = (errs[::2] - errs[1::2]).T * (not self._late)
            as_list: list[list[int]] = differences.tolist()
            return as_list

        memories = learn_in_blocks(self._memories, views, [targets] * len(VIEWS), weights, compare)
        is_judged = np.ones(n_rows, dtype=bool)
        for row, values in forecasts.items():
            is_judged[row] = _write_scores(Forecast.of(values), scores[:, row], columns[row])
        errs = _errs(scores, columns) * (weights * is_judged)
        errors, counts = [self._errors], self._count + every_row
        recent_left = RECENT_IF_LATE if self._late else RECENT
        for of_row in zip(errs.T.tolist(), is_judged.tolist(), strict=True):
            recent_errors = zip(errors[-1], of_row[0], strict=True)
            after = [recent_left * each + err for each, err in recent_errors]
            errors.append(after if of_row[1] else errors[-1])
        # As `_mixture` does; a share for every row.
        n_experts = N_EXPERTS if self._late else len(EXPERTS)
        by_row = np.array(errors[:-1])[:, :n_experts]
        delays = self._delays_along(keys)
        rates = rate_of(np.array(delays[:-1]))[:, None]
        by_row = np.exp(rates * (by_row.min(axis=1, keepdims=True) - by_row))
        by_row /= by_row.sum(axis=1, keepdims=True)
        mixture = np.einsum("re,erk->rk", by_row, np.clip(scores[:n_experts], *CREDIBLE))
        losses, chosen, n_sampled = [self._losses], [best_scale(self._losses)], list[int]()
        for row, count in enumerate(counts.tolist()):
            n_sampled.append(len(losses) - 1)
            if count % SAMPLED == 0 and is_judged[row]:
                likelihoods = self._likelihoods(mixture[row], columns[row], count)
                losses.append(losses[-1] - weights[row] * np.log(likelihoods))
                chosen.append(best_scale(losses[-1]))
        scales = np.array(chosen)[n_sampled]
        changes = {
            "_errors": errors[-1],
            "_losses": losses[-1],
            "_memories": memories,
            "_softmaxes": softmaxes,
            "_scaler": scaler,
            "_count": self._count + n_rows,
            "_delay": delays[-1],
            "_seen": None,
        }
        state = (*state, *((self, name, value) for name, value in changes.items()))
        taken = chain(*(self._waiting.plan_take(keys[row]) for row in forecasts))
        update = (*calls, *taken, (self._recent.extend, columns.tolist())), state
        return update, Answer(mixture, scales, counts)

    def _delays_along(self, keys: Sequence[int | None]) -> list[int]:
        """Return how late labels are before every row of a block, and after the last."""
        delays = [self._delay]
        for row, key in enumerate(keys):
            found = self._waiting.find(key, self._count + row)
            delays.append(delays[-1] if found is None else found[1])
        return delays

    def _scaled_along(
        self, rows: Sequence[StreamRow], forecasts: Mapping[int, Floats]
    ) -> tuple[RunningScaler, Floats]:
        """Return the scaler after rows, and their features: as their forecasts saw them, if any."""
        features, is_new = np.empty((len(rows), len(rows[0].values))), np.ones(len(rows), bool)
        for row, values in forecasts.items():
            forecast = Forecast.of(values)
            features[row], is_new[row] = forecast.features, not forecast.is_scaled
        new = list(compress(rows, is_new.tolist()))
        if not new:
            return self._scaler, features
        values = np.array([row.values for row in new])
        scaler, scalers = self._scaler.along(values, [row.gaps for row in new])
        scaled = np.empty(features.shape)
        scaled[is_new] = scalers.transform(values)
        is_new[[*forecasts]] = False
        features[is_new] = scaled[is_new]
        return scaler, features

    def _late_experts_along(
        self,
        views: Sequence[Floats],
        targets: Floats,
        weights: Floats,
        mixtures: Floats,
        scores: Floats,
    ) -> list[Softmax]:
        """Write the scores of the experts for late labels, and return those that learn, later."""
        softmaxes = self._softmaxes.copy()
        for view, each in enumerate(self._softmaxes):
            scores[len(EXPERTS) + view], softmaxes[view] = each.along(views[view], targets, weights)
        if softmaxes:
            scores[-1, :, : mixtures.shape[1]] = mixtures + 1.0 / mixtures.shape[1]
        return softmaxes

    def _plan(
        self, columns: StreamColumns, row: StreamRow, y: Any, key: int | None, w: float
    ) -> tuple[Calls, State]:
        """Plan to learn a row in given columns: one pass, and changes that are made together.

        A forecast may wait under its key; w is its weight.
        """
        found = None if key is None else self._waiting.find(key, self._count)
        delay = self._delay if found is None else found[1]
        late, model = delay > 0, self
        if late and not self._softmaxes:
            model = self._noticing_late()
            found = None if key is None else model._waiting.find(key, self._count)
        column = self._classes.column(y)
        is_new = column is None
        if column is None or columns is not self._columns:
            label = read_label(y)
            classes = self._classes.extended([label])
            (column,) = classes.columns([label]).tolist()
            model = model._grown(columns, classes)
        forecast = None if found is None else Forecast.of(found[0])
        if forecast is None or not (late or forecast.is_scaled):
            # Not the last label of all, but the last one that was there to predict this sample.
            was_there = len(self._recent) > self.label_delay
            forecast, last = None, self._recent[0] if was_there else None
            scored = model._score(row, last)
            judged: Floats | None = None if is_new else scored.scores
        else:
            scored, judged = model._score_as(forecast, row, column)
        scaler = model._scaler
        if forecast is None or not forecast.is_scaled:
            scaler = scaler.learnt(row.values, row.gaps)
        calls, state, changes = model._plan_experts(scored, judged, column, late, w)
        of_cells = model._cells.plan(scored.found, column, is_new, w)
        calls += of_cells[0]
        state += of_cells[1]
        if found is not None and key is not None:
            calls += model._waiting.plan_take(key)
        if model is not self:
            changes = vars(model) | changes
        changes |= {"_count": self._count + 1, "_scaler": scaler, "_seen": None, "_delay": delay}
        calls.append((self._recent.append, column))
        state += [(self, name, value) for name, value in changes.items()]
        return tuple(calls), tuple(state)

    def _score_as(
        self, forecast: Forecast, row: StreamRow, column: int
    ) -> tuple[Scored, Floats | None]:
        """Return a row as its forecast saw it, scored now, and the scores that experts gave then.

        These are None if the class was not known then. The cells are read as they are now: with
        what they held at the forecast Agrawal and STAGGER lose 3 and 2 points, 200 rows late.
        """
        features = forecast.features
        if len(features) < len(row.values):
            features = self._scaler.transform(row.values)
            features[: len(forecast.features)] = forecast.features
        laid = self._cells.of(features), self._activations.of(features)
        scored = self._score_laid_out(*laid, forecast.last, row.texts)
        judged = scored.scores.copy()
        return scored, judged if _write_scores(forecast, judged, column) else None

    def _plan_experts(
        self, scored: Scored, judged: Floats | None, column: int, late: bool, w: float
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return calls, states of the memories and new attributes to learn a row with scores.

        Experts are judged by scores that they gave when the label was not known, if any.
        """
        changes = dict[str, Any]()
        errs = [False] * len(self._errors)
        # Nobody could be right about a label that is met for the first time.
        if judged is not None:
            errs = (judged[:, column] < np.maximum.reduce(judged, axis=1) - TIE).tolist()
            recent = zip(self._errors, errs, strict=True)
            left = RECENT_IF_LATE if late else RECENT
            changes["_errors"] = [left * errors + w * err for errors, err in recent]
            if self._count % SAMPLED == 0:
                likelihoods = self._likelihoods(self._mixture(judged), column, self._count)
                changes["_losses"] = self._losses - w * np.log(likelihoods)
        targets = np.zeros(len(self._classes))
        targets[column] = 1.0
        calls, state = list[Any](), list[Any]()
        for view, row in enumerate(scored.views):
            long, short = 2 * view, 2 * view + 1
            # A short memory that was better is out of date where labels are late.
            difference = 0 if late else errs[long] - errs[short]
            both = scored.scores[long : short + 1]
            planned = self._memories[view].plan(row, targets, both, difference, w)
            calls += planned[0]
            state += planned[1]
            if self._softmaxes:
                expert = scored.scores[len(EXPERTS) + view]
                calls.append(self._softmaxes[view].plan(row, targets - expert, w))
        return calls, state, changes

    def _noticing_late(self) -> Self:
        """Return a model with the experts for late labels, as a draft.

        Its scale is that of the rows predicted before any label came, if that has learnt more rows
        and knows all features: then the rows are learnt as they were seen, not by the scale of the
        time of their labels.
        """
        model, watched = shallow_copy(self), self._waiting
        fits = watched.columns.names == self._columns.names
        if fits and watched.scaler.n_rows > self._count:
            model._scaler = watched.scaler
            model._waiting = watched.with_first(
                lambda values: _without_scores(Forecast.of(values).features, is_scaled=True)
            )
        else:
            model._waiting = watched.with_first(lambda _: _without_scores(np.zeros(0)))
        model._softmaxes = [Softmax().grown(*each.shape) for each in self._memories]
        model._errors = self._errors + [max(self._errors)] * len(LATE_EXPERTS)
        model._seen = None
        return model

    def _grown(self, columns: StreamColumns, classes: Classes) -> Self:
        """Return a model with room for features and classes met first, as a draft."""
        model = self._in_columns(columns)
        model._classes = classes
        model._cells = self._cells.grown(columns.names, len(classes), columns.n_crowded)
        sizes = len(classes), columns.n_crowded
        model._activations = activations = self._activations.grown(columns.names, *sizes)
        widths = activations.n_wide, activations.n_narrow
        pairs = zip(self._memories, widths, strict=True)
        model._memories = [each.grown(size, len(classes)) for each, size in pairs]
        # As long as no label was late, there are none.
        late = zip(self._softmaxes, widths, strict=False)
        model._softmaxes = [each.grown(size, len(classes)) for each, size in late]
        return model

    def _score(self, row: StreamRow, last: int | None) -> Scored:
        """Return a row, after a label, with its scores: made once, if it is learnt next."""
        key, seen = (row.values.tobytes(), *row.texts), self._seen
        if seen is not None and seen[0] == key and seen[1] == last:
            return seen[2]
        features = self._scaler.transform(row.values)
        laid = self._cells.of(features), self._activations.of(features)
        scored = self._score_laid_out(*laid, last, row.texts)
        self._seen = key, last, scored
        return scored

    def _score_laid_out(
        self, places: Integers, wide: Floats, last: int | None, texts: Sequence[int] = ()
    ) -> Scored:
        """Return rows that are laid out (..., n_wide), after a label, with their scores."""
        cells, activations = self._cells, self._activations
        found = cells.lookup(places, texts)
        mixture = cells.mixture(found)
        activations.add_labels(wide, last, mixture)
        if texts:
            names = [text // N_HASHES for text in texts]
            activations.add_texts(wide, names, cells.of_texts(found))
        views = wide, activations.narrow(wide)
        pairs = zip(views, self._memories, strict=True)
        seen = [(view, each) for view, pair in pairs for each in (pair.long, pair.short)]
        scores = np.zeros((len(self._errors), *wide.shape[:-1], len(self._classes)))
        for (view, expert), out in zip(seen, scores, strict=False):
            row_products(view, expert.weights, out)
        if self._softmaxes:
            softmaxes = scores[len(EXPERTS) : -1]
            for view, each, out in zip(views, self._softmaxes, softmaxes, strict=True):
                row_products(view, each.weights, out)
            to_probabilities(softmaxes)
            scores[-1, ..., : mixture.shape[-1]] = mixture + 1.0 / mixture.shape[-1]
        return Scored(found, views, scores)

    def _mixture(self, scores: Floats) -> Floats:
        """Return the forecast (..., n_classes) of the scores of experts (4, ..., n_classes)."""
        low, high = CREDIBLE
        shares = self._shares()
        credible = np.minimum(np.maximum(scores[: len(shares)], low), high)
        if scores.ndim == 2:
            mixture: Floats = shares.dot(credible)
        else:
            # Every row as if it were alone, bit for bit.
            mixture = np.matmul(shares, np.ascontiguousarray(credible.swapaxes(0, 1)))
        return mixture

    def _likelihoods(self, mixture: Floats, column: int, count: int) -> Floats:
        """Return the probability of a class by every scale, as `calibrate` has it."""
        # Classes by scales: measured, half the time of `calibrate`.
        likelihoods = np.exp((mixture - mixture[mixture.argmax()])[:, None] * SCALES)
        shares = likelihoods[column] / np.add.reduce(likelihoods)
        probabilities: Floats = (count * shares + 1.0) / (count + len(mixture))
        return probabilities

    def _forecast(self, key: int, row: StreamRow) -> Floats:
        """Return the scores of experts for a row, which wait for its label."""
        waits = self._waiting.find(key, self._count)
        before = None if waits is None else Forecast.of(waits[0])
        if self._late and waits is not None and before is not None and not waits[1]:
            # Asked again: the scale has learnt this row.
            return before.scores
        last, state = self._recent[-1], list[Any]()
        scored = self._score(row, last)
        is_scaled = before is not None and before.is_scaled
        features = self._activations.features_in(scored.views[0])
        if self._late and not is_scaled:
            scaler, is_scaled = self._scaler.learnt(row.values, row.gaps), True
            state = [(self, "_scaler", scaler), (self, "_seen", None)]
        forecast = packed(features, scored.scores, last, is_scaled)
        apply((self._waiting.plan_add(key, forecast, self._count), tuple(state)))
        return scored.scores

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        if not self._recent:
            check_mapping(x)
            _watch(self._waiting, [x])
            return np.zeros(0)
        # Read first: it refuses what has no key.
        row = self._columns.row(x)
        return self._mixture(self._forecast(sample_key(x), row))

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        samples, source = read_stream_batch(X), source_of(X)
        check_not_empty("X", len(samples))
        if not self._recent:
            waiting = self._waiting.copied()
            _watch(waiting, samples_of(X))
            apply(((), ((self, "_waiting", waiting),)))
            return source, np.zeros((len(samples), 0))
        rows = self._columns.placed(samples)
        # Of rows that were asked about before the scale may know.
        first = 0 if self._softmaxes else max(0, len(rows) - MOST_WAITING)
        keys = [sample_key(x) for x in islice(samples_of(X), first, None)]
        asked_again = len(set(keys)) < len(keys) or any(key in self._waiting for key in keys)
        if (self._softmaxes and asked_again) or any(row.texts for row in rows):
            pairs = zip((sample_key(x) for x in samples_of(X)), rows, strict=True)
            return source, np.array([self._mixture(self._forecast(*each)) for each in pairs])
        values, last, parts = np.array([row.values for row in rows]), self._recent[-1], []
        forecasts, scaler = deque[Floats](maxlen=MOST_WAITING), self._scaler
        for some in row_blocks(len(rows), 4 * self._activations.n_wide):
            before = self._scaler
            if self._late:
                scaler, before = scaler.along(values[some], [row.gaps for row in rows[some]])
            features = before.transform(values[some])
            laid = self._cells.of(features), self._activations.of(features)
            scores = self._score_laid_out(*laid, last).scores
            forecasts.extend(packed(features, scores, last, self._late))
            parts.append(self._mixture(scores))
        waiting = self._waiting.with_added(keys[-MOST_WAITING:], forecasts, self._count)
        changes = {"_waiting": waiting, "_scaler": scaler}
        if self._late:
            changes["_seen"] = None
        apply(((), tuple((self, *each) for each in changes.items())))
        return source, np.concatenate(parts)

    def _probabilities(self, scores: Floats) -> Floats:
        return calibrate(scores, best_scale(self._losses), self._count) if scores.size else scores
