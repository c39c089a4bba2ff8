"""A classifier for streams of dicts, with nothing to choose."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, check_count
from onlinels.commit import Commit, draft_of
from onlinels.labels import Classes, Label, read_label, read_labels
from onlinels.numerics import Lock
from onlinels.rows import Name, table_like
from onlinels.saving.files import Savable
from onlinels.scoring import ScoringClassifier
from onlinels.stream.experts import EXPERTS, Outlook, Pool
from onlinels.stream.features import Activations, RandomUnits, RunningScaler
from onlinels.stream.rows import ReadOnce, RowReader, Sample, read_stream_batch

Look = tuple[Sample, int | None, Floats, Outlook]


class StreamForecasts(ScoringClassifier):
    """The answering half of `StreamClassifier`: a row is placed, scaled, spread and scored."""

    _lock: Lock
    _samples: ReadOnce
    _reader: RowReader
    _scaler: RunningScaler
    _units: RandomUnits
    _activations: Activations
    _pool: Pool
    _classes: Classes
    _recent: deque[int]
    _count: int
    _seen: Look | None

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._classes.labels

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        return self._reader.names

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the four experts in the forecast, by what they see and how they remember."""
        return dict(zip(EXPERTS, self._pool.forecaster.shares.tolist(), strict=True))

    def _look(self, sample: Sample, last: int | None) -> Look:
        """Return a sample, the last label, the sample as a row, and what the experts think of it.

        A sample that is predicted and then learnt is looked at once.
        """
        seen = self._seen
        if seen is None or seen[0] is not sample or seen[1] != last:
            row = self._reader.row(sample)
            features = self._scaler.transform(row)
            activations = self._activations.of(self._units(features), features, last)
            self._seen = seen = sample, last, row, self._pool.look(activations)
        return seen

    def _mixture(self, sample: Sample) -> Floats:
        """Return the forecast (n_classes,) for a sample."""
        if not self._recent:
            return np.zeros(0)
        return self._look(sample, self._recent[-1])[3].mixture

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        return self._mixture(self._samples.read(x))[None]

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of highest score for one sample; None before anything is learnt."""
        with self._lock:
            mixture = self._mixture(self._samples.read(x))
            return self._classes.labels[mixture.argmax()] if self._count else None

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        source, samples = read_stream_batch(X)
        return source, np.array([self._mixture(sample) for sample in samples])

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class for one sample; {} before anything is learnt."""
        with self._lock:
            (probabilities,) = self._pool.forecaster.probabilities(self._row_scores(x))
            return dict(zip(self.classes, probabilities.tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities, a column per class, in the kind of `X`."""
        with self._lock:
            source, scores = self._batch_scores(X)
            return table_like(source, self.classes, self._pool.forecaster.probabilities(scores))


class StreamClassifier(StreamForecasts, Savable):
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
    cost, and models neither merge nor unlearn. A row of M features and classes costs
    about ``7 ((M + 200)^2 + M^2)`` operations to learn (see demos/benchmarks/README.md for times);
    memory is ``16 ((M + 200)^2 + M^2)`` bytes and does not depend on the number of rows.

    Whatever is raised while it learns, by an interrupt from the keyboard or for want of memory too,
    the model is as before or as after, bit for bit, and goes on. A row's changes are made at once;
    a batch of several rows is learnt in a copy, which takes the same memory again and the time of
    one to three rows.

    References
    ----------
    `Memories` and `Forecaster`, in `onlinels.stream`, name the sources of the two rules; I.
    Zliobaite et al., "Evaluation methods and decision theory for classification of streaming data
    with temporal dependence", Machine Learning 98 (2015), that of the last label as a feature.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), StreamClassifier(), metrics.Accuracy())
    Accuracy: 90.87%
    """

    def __init__(self, seed: int = 0, label_delay: int = 0) -> None:
        self.seed = check_count("seed", seed, 0)
        self.label_delay = check_count("label_delay", label_delay, 0)
        self._samples = ReadOnce()
        self._lock = Lock()
        self._reader = RowReader()
        self._scaler = RunningScaler()
        self._units = RandomUnits(seed)
        self._activations = Activations()
        self._pool = Pool()
        self._classes = Classes()
        # The labels learnt last, by column: as many as come between a prediction and its label.
        self._recent: deque[int] = deque(maxlen=label_delay + 1)
        self._count = 0
        self._seen: Look | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What was looked at last is no part of what was learnt.
        return vars(self) | {"_samples": ReadOnce(), "_seen": None}

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
            self._learn(self._samples.read(x), read_label(y))

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
            _, samples = read_stream_batch(X)
            labels = read_labels(y, len(samples))
            # Samples that do not fit together are refused before the first is learnt.
            self._reader.knowing(samples)
            model = self if len(samples) == 1 else self._copied()
            for sample, label in zip(samples, labels, strict=True):
                model._learn(sample, label)
            vars(self).update(vars(model))

    def _copied(self) -> Self:
        """Return a model that has learnt the same, and learns on its own from here."""
        model = draft_of(self)
        model._pool, model._recent = self._pool.copied(), self._recent.copy()
        return model

    def _learn(self, sample: Sample, label: Label) -> None:
        column = self._classes.column(label)
        is_new = column is None
        classes = self._classes.extended([label]) if is_new else self._classes
        model = self._with_room(self._reader.knowing([sample]), classes)
        # Not the last label of all, but the last one that was there to predict this sample with.
        was_there = len(self._recent) > self.label_delay
        _, _, row, outlook = model._look(sample, self._recent[0] if was_there else None)
        column = len(classes) - 1 if column is None else column
        scaler, commit = draft_of(model._scaler), Commit()
        scaler.learn(row)
        commit.then(self._recent.append, column)
        model._pool.learn(outlook, column, is_new, commit)
        if model is not self:
            commit.set(self, **vars(model))
        commit.set(self, _scaler=scaler, _seen=None, _count=self._count + 1)
        commit.make()

    def _with_room(self, reader: RowReader, classes: Classes) -> Self:
        """Return this model, or a draft with room for features and classes met first."""
        if reader is self._reader and classes is self._classes:
            return self
        model = draft_of(self)
        model._scaler, model._units = draft_of(self._scaler), draft_of(self._units)
        model._activations = draft_of(self._activations)
        n_features, n_classes = len(reader.names), len(classes)
        model._scaler.grow(n_features)
        model._units.grow(reader.names)
        model._activations.grow(n_features, n_classes)
        model._pool = self._pool.grown(model._activations.n_wide, n_classes)
        model._reader, model._classes, model._seen = reader, classes, None
        return model
