"""A classifier for streams of dicts, with nothing to choose."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, check_count, check_not_empty
from onlinels.labels import Classes, Label, read_label, read_labels
from onlinels.numerics import Calls, Lock, State, apply, apply_in_blocks, shallow_copy
from onlinels.rows import Name, as_frame, check_aligned, samples_of
from onlinels.saving import (
    NOTHING,
    SHARE,
    VECTOR,
    WHOLE,
    listed,
    locked_copy,
    locked_state,
    made_of,
    savable_settings,
    save_method,
    settings_hold,
)
from onlinels.scoring import SCALES, ScoringClassifier, best_scale, calibrate
from onlinels.stream.experts import Memories, shares_of
from onlinels.stream.features import N_UNITS, Activations, RunningScaler
from onlinels.stream.rows import StreamColumns, read_stream_row

RECENT = 0.995
"""What is left of an error after each further row: some 200 rows count."""

RATE = 0.5
"""An expert's share falls by the factor exp(-0.5) with each recent error more.

These are errors made before learning each row.
"""

CREDIBLE = -0.5, 1.5
"""Scores beyond this range are taken as its ends: an expert far off must not outvote the rest."""

SAMPLED = 4
"""Of so many rows one is used to choose the scale: a tenth of the time of a row saved."""

VIEWS, MEMORIES = ("units", "features"), ("long", "short")
EXPERTS = tuple(f"{view}, {memory} memory" for view in VIEWS for memory in MEMORIES)
"""What the experts see and how long they remember, in their order."""

Outlook = tuple[Floats, Floats, Floats]
"""What is thought of a row before it is learnt: activations, scores of experts, mixture."""


def _is_sound(model: Any) -> bool:
    n_features, n_classes = len(model._columns.names), len(model._classes)
    n_wide, shapes = model._activations.n_wide, [each.shape for each in model._memories]
    expected = [(n_wide, n_classes), (n_wide - N_UNITS, n_classes)]
    fits = shapes == (expected if n_classes else [(0, 0)] * len(VIEWS))
    fits = fits and len(model._scaler.means) == len(model._activations._features) == n_features
    fits = fits and (len(model._errors), len(model._losses)) == (len(EXPERTS), len(SCALES))
    fits = fits and model._recent.maxlen == model.label_delay + 1
    fits = fits and all(type(each) is int and 0 <= each < n_classes for each in model._recent)
    return fits and settings_hold(model)


@savable_settings(
    _is_sound,
    _lock=made_of(Lock),
    _columns=made_of(StreamColumns),
    _scaler=made_of(RunningScaler),
    _activations=made_of(Activations),
    _memories=listed(made_of(Memories)),
    _errors=listed(SHARE),
    _losses=VECTOR,
    _classes=made_of(Classes),
    _recent=made_of(deque),
    _count=WHOLE,
    _seen=NOTHING,
)
class StreamClassifier(ScoringClassifier):
    """Classify a stream of dicts, whatever is in them and however it changes.

    Every row is put on one scale by the rows before it, spread over 200 fixed random units, and
    learnt by four recursive least-squares models: with and without the units, with a long and a
    short memory. The forecast mixes them by their recent errors, made before learning each row.
    Where a short memory turns out better than the long one beside it, the long one goes on from
    there. So scale, features, forgetting and the share of each model follow the stream, and there
    is nothing to set.

    Parameters
    ----------
    seed : int
        Of the random units; models of one seed and one stream are alike.
    label_delay : int
        Samples that are predicted, about, between one that is predicted and its label: 0 where
        every label is learnt before the next prediction.

    Notes
    -----
    Features are numbers, bools, arrays of numbers without NaN, or text, of which every value is a
    feature of its own (64 values a name at most), called (name, text). Absent features are 0, as in
    river's linear models; None and NaN are unknown, and count as the mean. New features, up to
    4,096, and new classes may come at any time. Scores are those of the forecast: a mixture of
    least-squares outputs within [-0.5, 1.5].

    The label learnt last is a feature too: in many streams it says more than all others. With a
    `label_delay` of d a row is learnt with the label that came d rows before that, which was the
    last one when the row was predicted; without it, labels that come late mislead.

    Each expert's weights are the exact ridge solution on the rows so far, in the features as they
    were when each row was learnt. Of n rows since the last takeover, the rows of a long memory
    weigh 1, and those before it what they weighed in the short memory then; in a short one they
    weigh 0.99 to the power of the rows since. The ridge is 1 on every weight, and
    where rows are forgotten, or were until a takeover, between 1/16 and 1.

    Order is part of the data here: a batch is learnt row by row, as if it came so, at the same
    cost, and models neither merge nor unlearn. A row of M features and classes costs about
    ``6 ((M + 200)^2 + M^2)`` operations to learn, and one in 276, with which the ridge of the
    short memories is brought back to 1, ``3 ((M + 200)^3 + M^3)`` more (see
    demos/benchmarks/README.md for times); memory is ``16 ((M + 200)^2 + M^2)`` bytes and does not
    depend on the number of rows.

    Whatever is raised while it learns, by an interrupt from the keyboard or for want of memory too,
    the model is as before or as after, bit for bit, and goes on. A row's changes are made at once;
    a batch is checked as a whole, and what is raised between its rows comes out after the last.

    References
    ----------
    S. H. Bach and M. A. Maloof, "Paired learners for concept drift", ICDM 2008: a stable learner
    that is made anew from recent rows when a reactive one does better.

    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11:
    the exponentially weighted average forecaster, which mixes the models.

    I. Zliobaite et al., "Evaluation methods and decision theory for classification of streaming
    data with temporal dependence", Machine Learning 98 (2015): the last label as a feature.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), StreamClassifier(), metrics.Accuracy())
    Accuracy: 90.71%
    """

    save = save_method
    __copy__ = locked_copy

    def __init__(self, seed: int = 0, label_delay: int = 0) -> None:
        self.seed = check_count("seed", seed, 0)
        self.label_delay = check_count("label_delay", label_delay, 0)
        self._lock = Lock()
        self._columns = StreamColumns()
        self._scaler = RunningScaler()
        self._activations = Activations(seed)
        self._memories = [Memories() for _ in VIEWS]
        # Of every expert. Plain floats: numpy takes longer over four numbers.
        self._errors = [0.0] * len(EXPERTS)
        self._losses = np.zeros(len(SCALES))
        self._classes = Classes()
        # The labels learnt last, by column: as many as come between a prediction and its label.
        self._recent: deque[int] = deque(maxlen=label_delay + 1)
        self._count = 0
        # The row looked at last with the last label then: what is predicted is often learnt next.
        self._seen: tuple[bytes, int | None, Outlook] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return locked_state(self) | {"_seen": None}

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._classes.labels

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        return self._columns.names

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the four experts in the forecast, by what they see and how they remember."""
        return dict(zip(EXPERTS, shares_of(self._errors, RATE).tolist(), strict=True))

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        return self._count

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers, arrays of numbers, text, None or NaN.
        y : hashable
            The label; new ones at any time.

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
            apply(self._plan(x, y))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a mini-batch row by row, as `learn_one` would.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        with self._lock:
            check_aligned(X, y=y)
            rows = list(samples_of(X))
            check_not_empty("X", len(rows))
            labels = read_labels(y, len(rows))
            # Rows that do not fit, or not together, are refused before the first is learnt.
            columns = self._columns.knowing([read_stream_row(x) for x in rows])
            classes = self._classes.extended(labels)
            self._activations.grown(columns.names, len(classes))
            blocks = (slice(row, row + 1) for row in range(len(rows)))
            apply_in_blocks(blocks, lambda one: self._plan(rows[one.start], labels[one.start]))

    def _plan(self, x: Any, y: Any) -> tuple[Calls, State]:
        """Plan to learn a sample: one pass, and changes that are made together."""
        columns, row = self._columns.taking(x)
        column, model = self._classes.column(y), self
        is_new = column is None
        if column is None or columns is not self._columns:
            label = read_label(y)
            classes = self._classes.extended([label])
            (column,) = classes.columns([label]).tolist()
            model = self._grown(columns, classes)
        # Not the last label of all, but the last one that was there to predict this sample with.
        was_there = len(self._recent) > self.label_delay
        outlook = model._look(row, self._recent[0] if was_there else None)
        calls, state, changes = model._plan_experts(outlook, column, is_new)
        if model is not self:
            changes = vars(model) | changes
        changes |= {"_count": self._count + 1, "_scaler": model._scaler.learnt(row), "_seen": None}
        calls.append((self._recent.append, column))
        state += [(self, name, value) for name, value in changes.items()]
        return tuple(calls), tuple(state)

    def _plan_experts(
        self, outlook: Outlook, column: int, is_new: bool
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return calls and states of the memories, and new attributes, to learn a row looked at."""
        activations, scores, mixture = outlook
        changes: dict[str, Any] = {}
        errs = [False] * len(EXPERTS)
        # Nobody could be right about a label that is met for the first time.
        if not is_new:
            errs = (scores.argmax(axis=1) != column).tolist()
            recent = zip(self._errors, errs, strict=True)
            changes["_errors"] = [RECENT * errors + err for errors, err in recent]
            if self._count % SAMPLED == 0:
                likelihoods = calibrate(mixture, SCALES[:, None], self._count)[:, column]
                changes["_losses"] = self._losses - np.log(likelihoods)
        targets = np.zeros(len(self._classes))
        targets[column] = 1.0
        calls, state = list[Any](), list[Any]()
        views = zip(self._memories, (activations, activations[N_UNITS:]), strict=True)
        for view, (memories, row) in enumerate(views):
            long, short = 2 * view, 2 * view + 1
            difference = errs[long] - errs[short]
            planned = memories.plan(row, targets, scores[long : short + 1], difference)
            calls += planned[0]
            state += planned[1]
        return calls, state, changes

    def _grown(self, columns: StreamColumns, classes: Classes) -> Self:
        """Return a model with room for features and classes met first, as a draft."""
        model = shallow_copy(self)
        model._columns, model._classes, model._seen = columns, classes, None
        model._scaler = self._scaler.grown(len(columns.names))
        model._activations = self._activations.grown(columns.names, len(classes))
        n_wide = model._activations.n_wide
        memories = zip(self._memories, (n_wide, n_wide - N_UNITS), strict=True)
        model._memories = [each.grown(size, len(classes)) for each, size in memories]
        return model

    def _look(self, row: Floats, last: int | None) -> Outlook:
        """Return what the experts think of a row after a label: once, if it is learnt next."""
        key, seen = row.tobytes(), self._seen
        if seen is not None and seen[0] == key and seen[1] == last:
            return seen[2]
        activations = self._activations.of(self._scaler.transform(row), last)
        wide, narrow = self._memories
        scores = np.concatenate((wide.scores(activations), narrow.scores(activations[N_UNITS:])))
        low, high = CREDIBLE
        mixture = shares_of(self._errors, RATE).dot(np.minimum(np.maximum(scores, low), high))
        outlook = activations, scores, mixture
        self._seen = key, last, outlook
        return outlook

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        row = self._columns.row(x)
        return self._look(row, self._recent[-1])[2] if self._recent else np.zeros(0)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        mixtures = [self._row_scores(x) for x in samples_of(X)]
        check_not_empty("X", len(mixtures))
        source = X if isinstance(X, (np.ndarray, list, tuple)) else as_frame(X)
        return source, np.array(mixtures)

    def _probabilities(self, scores: Floats) -> Floats:
        return calibrate(scores, best_scale(self._losses), self._count) if scores.size else scores
