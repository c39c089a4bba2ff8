"""WindowedClassifier: a classifier of windows that is fed one reading of the sensors at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from math import floor
from numbers import Real
from typing import Any, Protocol

import numpy as np
from river import base

from onlinels.ahead import FIXED, learn_as_one
from onlinels.checks import Floats, Matrix, check_choice, check_count, check_positive, check_room
from onlinels.classifier import LeastSquaresClassifier
from onlinels.commit import Commit
from onlinels.labels import Label, read_label, read_labels
from onlinels.linear.forgetting import read_times
from onlinels.numerics import Lock
from onlinels.rows import (
    ArrayFeature,
    Batch,
    Columns,
    Layout,
    Name,
    as_frame,
    labels_like,
    names_of,
    read_batch,
    read_frame,
    read_sample,
    table_like,
)
from onlinels.saving.files import Savable
from onlinels.scoring import ScoringClassifier
from onlinels.wrapping import last_step, planned, steps_of


class _Unlabelled:
    """The label of samples that have none; None can be a label."""

    def __repr__(self) -> str:
        return "UNLABELLED"

    def __reduce__(self) -> str:
        return "UNLABELLED"


UNLABELLED = _Unlabelled()


def _last(labels: Sequence[Label]) -> Label:
    return labels[-1]


def _majority(labels: Sequence[Label]) -> Label:
    # The most frequent, on a tie the one that came last: counters keep the order of arrival.
    return Counter(reversed(labels)).most_common(1)[0][0]


def _unanimous(labels: Sequence[Label]) -> Label:
    return labels[-1] if all(label == labels[-1] for label in labels) else UNLABELLED


LABEL_RULES: dict[str, Callable[[Sequence[Label]], Label]] = {
    "last": _last,
    "majority": _majority,
    "unanimous": _unanimous,
}
"""From the labels of a window's samples to its own; samples without a label count as one class."""


@dataclass(frozen=True, eq=False)
class Sliding:
    """The last samples of a stream, which may not fill a window yet. Values never change.

    Parameters
    ----------
    values : ndarray (n_samples, n_channels)
    labels : tuple of n_samples labels
    since : int, optional
        Samples since the last window that was learnt; None before the first of the stream, or of
        what came after a gap.

    Examples
    --------
    >>> sliding = Sliding.begin(1)
    >>> for value in (1.0, 2.0, 3.0):
    ...     sliding = sliding.followed_by(np.array([value]), "walk", window=2)
    >>> sliding.values.ravel(), sliding.is_due(window=2, hop=5)
    (array([2., 3.]), True)
    >>> sliding.learnt().is_due(window=2, hop=5)
    False
    """

    values: Floats
    labels: tuple[Label, ...]
    since: int | None = None

    @classmethod
    def begin(cls, n_channels: int) -> Sliding:
        """Return the window before the first sample."""
        return cls(np.empty((0, n_channels)), ())

    def followed_by(self, sample: Floats, label: Label, window: int) -> Sliding:
        """Return the window, of `window` samples at most, after one more sample (n_channels,)."""
        values = np.concatenate([self.values, sample[None]])[-window:]
        since = None if self.since is None else self.since + 1
        return Sliding(values, (*self.labels, label)[-window:], since)

    def learnt(self) -> Sliding:
        """Return the same window, from which the samples to the next one count."""
        return replace(self, since=0)

    def is_due(self, window: int, hop: int) -> bool:
        """Tell whether this window is full, and the first or `hop` samples on from the last."""
        return len(self.values) >= window and (self.since is None or self.since >= hop)


REGULAR = 0.1
"""Share of the first spacing by which later ones may differ from it without a sample rate."""

OF_GAP = "Lower largest_gap, or sample_rate."

EARLY = 1e-3
"""Share of a sampling period by which a reading before a sample's time counts as at that time.

Times in seconds since 1970 are rounded to 2.4e-7 seconds.
"""


@dataclass(frozen=True, eq=False)
class Position:
    """The last reading of a stream, and where the samples stand.

    Parameters
    ----------
    time : float
        Time of the reading, in seconds.
    values : ndarray (n_channels,)
        The reading.
    start : float
        Time of sample 0.
    reached : int
        Number of the last sample.
    spacing : float, optional
        Seconds between the first two readings.
    """

    time: float
    values: Floats
    start: float
    reached: int = 0
    spacing: float | None = None


@dataclass(frozen=True, eq=False)
class Step:
    """What a reading brings.

    Parameters
    ----------
    position : Position, optional
        Where the stream stands after it.
    samples : ndarray (n_samples, n_channels)
        The samples that it completes, none to several.
    afresh : bool
        Whether no window may reach back over it.
    """

    position: Position | None
    samples: Floats
    afresh: bool = False


class Spacing(Protocol):
    """What turns readings into evenly spaced samples, one by one and without state."""

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return what a reading brings after a position, None at the start of a stream."""


@dataclass(frozen=True)
class Even:
    """Every reading is a sample.

    Examples
    --------
    >>> Even().follow(None, None, np.array([1.0, 2.0])).samples
    array([[1., 2.]])
    """

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return the reading as a sample."""
        return Step(None, values[None])


@dataclass(frozen=True)
class Regular:
    """Every reading is a sample, and times must be a tenth of their spacing from even at most.

    Parameters
    ----------
    name : hashable
        What the time is called in errors.

    Examples
    --------
    >>> first = Regular("t").follow(None, 0.0, np.array([1.0])).position
    >>> Regular("t").follow(first, 0.5, np.array([2.0])).position.spacing
    0.5
    """

    name: Name

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return the reading as a sample, or raise ValueError if it comes at no regular time."""
        now = float(time or 0.0)
        if position is None:
            return Step(Position(now, values, now), values[None])
        passed = _passed(self.name, position, now)
        spacing = position.spacing or passed
        if abs(passed - spacing) > REGULAR * spacing:
            raise ValueError(
                f"{self.name!r} is {now!r}, {passed:g} s after the reading before, expected "
                f"{spacing:g} s as between the first two, up to a tenth. Pass sample_rate (for "
                f"instance {1.0 / spacing:g}) and readings are resampled to it, or call restart() "
                "after a pause."
            )
        return Step(Position(now, values, position.start, spacing=spacing), values[None])


@dataclass(frozen=True)
class Resampled:
    """Samples on a grid of times, each between two readings on the straight line between them.

    Sample k lies at the time s + k / rate, s the time of the first reading, and after a gap that of
    the reading behind it.

    Parameters
    ----------
    name : hashable
        What the time is called in errors.
    rate : float
        Samples a second.
    largest_gap : float
        Sampling periods between two readings over which values are still drawn in.

    Examples
    --------
    >>> grid = Resampled("t", rate=2.0, largest_gap=4.0)
    >>> first = grid.follow(None, 0.0, np.array([0.0])).position
    >>> grid.follow(first, 1.25, np.array([5.0])).samples
    array([[2.],
           [4.]])
    """

    name: Name
    rate: float
    largest_gap: float

    def follow(self, position: Position | None, time: float | None, values: Floats) -> Step:
        """Return the samples since the reading before, which may be none."""
        now = float(time or 0.0)
        if position is None:
            return Step(Position(now, values, now), values[None])
        passed = _passed(self.name, position, now)
        if passed * self.rate > self.largest_gap * (1.0 + EARLY):
            return Step(Position(now, values, now), values[None], afresh=True)
        reached = max(position.reached, floor((now - position.start) * self.rate + EARLY))
        n_bytes = 8 * (reached - position.reached) * (2 + len(values))
        check_room(n_bytes, "A gap of {:,} samples", reached - position.reached, remedy=OF_GAP)
        times = position.start + np.arange(position.reached + 1, reached + 1) / self.rate
        share = np.clip((times - position.time) / passed, 0.0, 1.0)[:, None]
        # Both ends are weighed, so that a sample at a reading's time is that reading, exactly.
        samples = (1.0 - share) * position.values + share * values
        return Step(Position(now, values, position.start, reached), samples)


def _passed(name: Name, position: Position, now: float) -> float:
    """Return the time since the reading before, or raise ValueError if it is not above 0."""
    if now <= position.time:
        before = "as" if now == position.time else "before"
        raise ValueError(
            f"{name!r} is {now!r}, {before} that of the reading before, expected a time after "
            f"{position.time!r}. Leave out readings that repeat or come late, or call restart() "
            "where another recording begins."
        )
    return now - position.time


def make_spacing(timestamp: Any, sample_rate: Any, largest_gap: Any) -> Spacing:
    """Return the spacing of these settings; see `onlinels.WindowedClassifier`.

    Raises
    ------
    TypeError, ValueError
        If the rate is no number above 0 or comes without the name of the times, or the gap is no
        number of at least 1.
    """
    check_positive("largest_gap", largest_gap)
    if largest_gap < 1.0:
        raise ValueError(
            f"largest_gap={largest_gap!r} must be at least 1 sampling period. Pass a larger number."
        )
    if sample_rate is None:
        return Even() if timestamp is None else Regular(timestamp)
    check_positive("sample_rate", sample_rate)
    if timestamp is None:
        raise ValueError(
            f"sample_rate={sample_rate!r} needs the times of readings. Pass timestamp, the name "
            "under which they come, or leave sample_rate out if readings are evenly spaced."
        )
    return Resampled(timestamp, float(sample_rate), float(largest_gap))


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of sensors.

    Parameters
    ----------
    values : ndarray (n, n_channels)
    layouts : tuple of Layout
        Those of the readings; the last one describes the columns of `values`.
    times : ndarray (n,), optional
        In seconds.
    dates : bool
        Whether the times came as dates.
    source : narwhals DataFrame, list or ndarray
        What was read, for answers in kind.
    """

    values: Matrix
    layouts: tuple[Layout, ...]
    times: Floats | None = None
    dates: bool = False
    source: Any = None


def read_reading(x: Any, timestamp: Name | None) -> Readings:
    """Read one reading, a dict of numbers, and its time if it has the name `timestamp`.

    Raises
    ------
    TypeError
        If `x` is no dict, a value no number, or the time neither a number nor a date.
    ValueError
        If a value or the time is missing or not finite, or a value is an array.

    Examples
    --------
    >>> reading = read_reading({"ax": 1.0, "ay": 2.0, "t": 0.5}, "t")
    >>> reading.values, reading.layouts, reading.times
    (array([[1., 2.]]), (('ax', 'ay'),), array([0.5]))
    """
    if timestamp is None or not isinstance(x, Mapping):
        return _readings(read_sample(x))
    return _readings(read_sample(_without(x, timestamp)), [_time(x, timestamp)], timestamp)


def read_readings(X: Any, timestamp: Name | None) -> Readings:
    """Read readings that follow one another: an array (n, n_columns), a frame or a list of dicts.

    The time is the column, or the entry of each dict, of the name `timestamp`; an array's columns
    are named 0, 1, …

    Raises
    ------
    TypeError, ValueError
        As `read_reading`.

    Examples
    --------
    >>> readings = read_readings(np.array([[0.0, 3.0], [0.5, 4.0]]), timestamp=0)
    >>> readings.values.ravel(), readings.layouts, readings.times
    (array([3., 4.]), ((1,),), array([0. , 0.5]))
    """
    if timestamp is None:
        return _readings(read_batch(X))
    if isinstance(X, np.ndarray):
        return _read_array(X, timestamp)
    if isinstance(X, (list, tuple)):
        if not all(isinstance(x, Mapping) for x in X):
            return _readings(read_batch(X))
        batch = read_batch([_without(x, timestamp) for x in X])
        return _readings(batch, [_time(x, timestamp) for x in X], timestamp, X)
    return _read_frame(X, timestamp)


def _read_array(X: Matrix, timestamp: Name) -> Readings:
    batch = read_batch(X)
    columns = list(range(batch.values.shape[1]))
    if timestamp not in columns:
        raise _no_time("X", timestamp)
    kept = [column for column in columns if column != timestamp]
    stamps = batch.values[:, columns.index(timestamp)].tolist()
    placed = Batch(batch.values[:, kept], (tuple(kept),), X)
    return _readings(placed, stamps, timestamp)


def _read_frame(X: Any, timestamp: Name) -> Readings:
    frame = as_frame(X)
    name: Any = timestamp
    if name not in frame.columns:
        raise _no_time("X", timestamp)
    stamps = frame.get_column(name).to_list()
    return _readings(read_frame(frame.drop(name).to_native()), stamps, timestamp, frame)


def _without(x: Mapping[Any, Any], timestamp: Name) -> dict[Any, Any]:
    return {name: value for name, value in x.items() if name != timestamp}


def _time(x: Mapping[Any, Any], timestamp: Name) -> Any:
    if timestamp not in x:
        raise _no_time("x", timestamp)
    return x[timestamp]


def _no_time(argument: str, timestamp: Name) -> ValueError:
    return ValueError(
        f"{argument} has no {timestamp!r}, expected the time of every reading under this name. "
        "Pass it, or leave timestamp out if readings are evenly spaced."
    )


def _readings(
    batch: Batch, stamps: Sequence[Any] | None = None, timestamp: Name = None, source: Any = None
) -> Readings:
    for layout in batch.layouts:
        if not isinstance(layout, range) and any(isinstance(e, ArrayFeature) for e in layout):
            raise ValueError(
                "A reading holds an array, expected one number for each channel. Pass readings one "
                "by one, or whole windows to the wrapped classifier itself."
            )
    times, dates = (None, False) if stamps is None else _seconds(stamps, timestamp)
    shown = batch.source if source is None else source
    return Readings(batch.values, batch.layouts, times, dates, shown)


def _seconds(stamps: Sequence[Any], timestamp: Name) -> tuple[Floats, bool]:
    """Return the times of readings in seconds, and whether they are dates."""
    dates = [isinstance(stamp, (datetime, np.datetime64)) for stamp in stamps]
    for stamp, is_date in zip(stamps, dates, strict=True):
        number = isinstance(stamp, Real) and not isinstance(stamp, bool)
        if not (is_date or number) or is_date is not dates[0]:
            kind = type(stamp).__name__
            raise TypeError(
                f"{timestamp!r} is {stamp!r} of type {kind}, expected a number of seconds or a "
                "datetime, the same for all readings. Convert it."
            )
    return np.concatenate([read_times(s, 1, dates[0]) for s in stamps]), dates[0]


Labelled = tuple[Floats, Label]
"""A window (length, n_channels) and its label."""


@dataclass(frozen=True, eq=False)
class ReadingState:
    """Where a stream of readings stands: there is a new one after each reading.

    Parameters
    ----------
    columns : Columns
        The channels.
    position : Position, optional
        The last reading, if readings have times.
    sliding : Sliding, optional
        The window so far.
    dates : bool, optional
        Whether times are dates.
    """

    columns: Columns = field(default_factory=Columns)
    position: Position | None = None
    sliding: Sliding | None = None
    dates: bool | None = None

    def restarted(self) -> ReadingState:
        """Return the state before the first reading of another recording of these channels."""
        return ReadingState(self.columns)

    def latest(self, length: int) -> Floats | None:
        """Return the window (length, n_channels), None if it is not full."""
        full = self.sliding is not None and len(self.sliding.values) == length
        return self.sliding.values if self.sliding is not None and full else None


@dataclass(frozen=True)
class Follower:
    """What cuts windows from readings; it has no state.

    Parameters
    ----------
    window, hop : int
        Samples in a window, and from one that is learnt to the next, at least: a window that is due
        and has no label leaves the one after it due.
    spacing : Spacing
        What makes samples of readings.
    label_rule : str
        A name in LABEL_RULES.

    Examples
    --------
    >>> from onlinels.windowed.readings import read_readings
    >>> from onlinels.windowed.spacing import Even
    >>> readings = read_readings(np.array([[1.0], [2.0], [3.0]]), None)
    >>> steps = Follower(2, 1, Even(), "last").follow(ReadingState(), readings, ["a", "b", "c"])
    >>> [[(window.ravel().tolist(), label) for window, label in due] for _, due in steps]
    [[], [([1.0, 2.0], 'b')], [([2.0, 3.0], 'c')]]
    """

    window: int
    hop: int
    spacing: Spacing
    label_rule: str

    def follow(
        self, state: ReadingState, readings: Readings, labels: Sequence[Label]
    ) -> Iterator[tuple[ReadingState, list[Labelled]]]:
        """Yield the state after each reading, and the labelled windows that are due with it.

        Raises
        ------
        TypeError, ValueError
            If channels differ from before, or a time does not follow the one before.
        """
        state = _of_channels(state, readings)
        values = state.columns.place(readings.layouts, readings.values).astype(np.float64)
        times = [None] * len(values) if readings.times is None else readings.times.tolist()
        for time, sample, label in zip(times, values, labels, strict=True):
            step = self.spacing.follow(state.position, time, sample)
            sliding = state.sliding
            if sliding is None or step.afresh:
                sliding = Sliding.begin(len(sample))
            due = []
            for value in step.samples:
                sliding = sliding.followed_by(value, label, self.window)
                of = self._label(sliding)
                if of is not UNLABELLED:
                    due.append((sliding.values, of))
                    sliding = sliding.learnt()
            state = replace(state, position=step.position, sliding=sliding)
            yield state, due

    def _label(self, sliding: Sliding) -> Label:
        """Return the label of a window that is due now, UNLABELLED if it has none or is not due."""
        if sliding.labels[-1] is UNLABELLED or not sliding.is_due(self.window, self.hop):
            return UNLABELLED
        return LABEL_RULES[self.label_rule](sliding.labels)


def _of_channels(state: ReadingState, readings: Readings) -> ReadingState:
    """Return the state with channels known, or raise if those of the readings are others."""
    if state.dates not in (None, readings.dates):
        was, came = ("dates", "numbers") if state.dates else ("numbers", "dates")
        raise TypeError(f"Times are {came}, expected {was} as before. Convert them, or restart().")
    columns = state.columns if len(state.columns) else Columns().extended(readings.layouts[:1])
    if not len(columns):
        raise ValueError("A reading has no channels, expected a number for each. Leave it out.")
    for layout in readings.layouts:
        _check_channels(columns, layout)
    return replace(state, columns=columns, dates=readings.dates)


def _check_channels(columns: Columns, layout: Layout) -> None:
    located = columns.locate(layout)
    new = [name for name, column in zip(names_of(layout), located, strict=True) if column < 0]
    if new:
        raise ValueError(
            f"A reading has a new channel {new[0]!r}, expected only {list(columns.names)} as in "
            "the first reading. Leave it out, or begin with a new model."
        )
    if len(located) < len(columns):
        missing = columns.names[min(set(range(len(columns))) - set(located.tolist()))]
        raise ValueError(
            f"A reading lacks the channel {missing!r}, expected all of those of the first reading. "
            "Fill it first, for instance with river's preprocessing.StatImputer."
        )


TOGETHER = (*FIXED, ScoringClassifier)
"""Steps that take lists of windows, all or none, with the same result as one by one."""


def learn_windows(
    classifier: base.Classifier, due: Sequence[Labelled], gather: Callable[[Commit], None]
) -> None:
    """Let a classifier learn labelled windows, in order, as one with changes elsewhere.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}.
    due : sequence of (window, label)
    gather : callable
        Gathers the changes elsewhere.
    """
    samples, labels = [_sample(window) for window, _ in due], [label for _, label in due]
    together = len(due) > 1 and takes_together(classifier)

    def learn(model: Any) -> None:
        """Learn the windows that are due."""
        if together:
            model.learn_many(samples, labels)
            return
        for sample, label in zip(samples, labels, strict=True):
            model.learn_one(sample, label)

    # What learns several windows one by one does so in a copy.
    copied = [last_step(classifier)] if len(due) > 1 and not together else []
    learn_as_one(classifier, learn, gather, copied)


def answers(
    classifier: base.Classifier, method: str, windows: Sequence[Floats | None], nothing: Any
) -> list[Any]:
    """Return what a classifier answers for each window, and `nothing` where there is none.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}.
    method : "predict" or "predict_proba"
    windows : sequence of ndarray (length, n_channels) or None
    nothing : object
    """
    model: Any = classifier
    samples = [_sample(window) for window in windows if window is not None]
    if len(samples) > 1 and takes_together(model):
        given = iter(getattr(model, f"{method}_many")(samples))
    else:
        given = iter([getattr(model, f"{method}_one")(sample) for sample in samples])
    return [nothing if window is None else next(given) for window in windows]


def takes_together(model: Any) -> bool:
    """Tell whether a classifier, or every step of a pipeline, takes lists of windows."""
    return all(isinstance(step, TOGETHER) for step in steps_of(model))


def _sample(window: Floats) -> dict[str, Floats]:
    """Return a sample with a copy of the window, as most of it is part of later ones too."""
    return {"window": window.copy()}


BLOCK = 256
"""Readings that are answered together: as many windows are held at a time."""


class WindowedAnswers(base.MiniBatchClassifier):
    """The answering half of `WindowedClassifier`."""

    _lock: Lock
    classifier: base.Classifier
    window: int
    timestamp: Name | None
    _follower: Follower
    _state: ReadingState

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return vars(self).copy()

    def _answers(self, method: str, readings: Readings, nothing: Any) -> list[Any]:
        """Return what the wrapped classifier answers for each reading, if its window is full."""
        unlabelled = [UNLABELLED] * len(readings.values)
        steps = self._follower.follow(self._state, readings, unlabelled)
        windows = (state.latest(self.window) for state, _ in steps)
        given: list[Any] = []
        while block := list(islice(windows, BLOCK)):
            given += answers(self.classifier, method, block, nothing)
        return given

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of the window that ends in a reading; None before it is full."""
        with self._lock:
            return self._answers("predict", read_reading(x, self.timestamp), None)[0]

    def predict_many(self, X: Any) -> Any:
        """Return the label of the window that ends in each reading, in the kind of `X`."""
        with self._lock:
            readings = read_readings(X, self.timestamp)
            return labels_like(readings.source, self._answers("predict", readings, None))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class; {} before the window is full."""
        with self._lock:
            table: dict[Label, float]
            (table,) = self._answers("predict_proba", read_reading(x, self.timestamp), {})
            return table

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities in the kind of `X`; in tables 0 where the window is not full."""
        with self._lock:
            readings = read_readings(X, self.timestamp)
            rows = self._answers("predict_proba", readings, {})
            if isinstance(readings.source, (list, tuple)):
                return rows
            classes = list(dict.fromkeys(label for row in rows for label in row))
            values = [[row.get(label, 0.0) for label in classes] for row in rows]
            return table_like(readings.source, classes, np.array(values).reshape(len(rows), -1))


class WindowedClassifier(WindowedAnswers, Savable):
    """Classify sliding windows of sensor readings that come one at a time.

    A reading is a dict with a number for every channel. The wrapped classifier sees
    {"window": array (window, n_channels)}: the samples up to this reading, channels sorted by name.
    It learns the first full window, and one after every `hop` further samples; a window that is due
    but has no label leaves it to the next one that has.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}, such as ``WindowFeatures() | LeastSquaresClassifier()``.
    window, hop : int
        Samples in a window, and the least number from one that is learnt to the next.
    timestamp : hashable, optional
        Name of the entry of readings with their time: a number of seconds, or a datetime. Without
        it readings are taken as evenly spaced, each as a sample.
    sample_rate : float, optional
        Samples a second onto which readings are resampled, on the straight line between them.
        Without it, readings with times that are not regular to a tenth of their spacing are
        refused.
    largest_gap : float
        Sampling periods between readings over which that line is drawn, at least 1. After a longer
        gap the window starts afresh.
    label_rule : "last", "majority" or "unanimous"
        The label of a window in which labels change: that of its last sample, which is what
        `predict_one` is asked for; the most frequent; or none, so that it is not learnt. A
        resampled sample has the label of the reading that completes it.

    Notes
    -----
    Nothing but the last `window` samples is held, and the windows depend on the readings and labels
    alone: `learn_many` equals `learn_one` in a loop. `predict_one` answers for the window that ends
    in the reading (resampled: in the last sample up to it) and changes nothing; `predict_many`
    takes its readings as following one another. The channels are those of the first reading that
    is taken in.
    A reading without a label is taken in by `observe_one`, and no window that ends in it is learnt;
    where another recording begins, call `restart`.

    A reading costs ``8 window n_channels`` bytes that are copied. Several windows at a time are
    learnt together if all steps are this package's features and least-squares classifiers, else
    one by one, in a copy of the classifier. For one window only steps of other packages are
    copied, so a scaler of river's costs a copy of its statistics. Whatever is raised while it
    learns, by an interrupt too: what is held and the wrapped classifier, copied parts included, are
    all as before or all as after.

    Examples
    --------
    >>> model = WindowedClassifier(LeastSquaresClassifier(), window=3, hop=1)
    >>> for k in range(40):
    ...     model.learn_one({"ax": k % 2, "ay": 1.0}, "shaken" if k % 2 else "not")
    >>> model.predict_one({"ax": 0.0, "ay": 1.0}), model.channels, model.n_windows
    ('not', ('ax', 'ay'), 38)
    """

    def __init__(
        self,
        classifier: base.Classifier,
        window: int = 64,
        hop: int = 16,
        timestamp: Name | None = None,
        sample_rate: float | None = None,
        largest_gap: float = 4.0,
        label_rule: str = "last",
    ) -> None:
        if not isinstance(classifier, base.Classifier):
            raise TypeError(
                f"classifier is of type {type(classifier).__name__}, expected a classifier, or a "
                'pipeline that ends in one, which takes {"window": array}. Pass one.'
            )
        check_choice("label_rule", label_rule, LABEL_RULES)
        self.classifier = planned(classifier)
        self.window = check_count("window", window, 1)
        self.hop = check_count("hop", hop, 1)
        self.timestamp = timestamp
        self.sample_rate = sample_rate
        self.largest_gap = largest_gap
        self.label_rule = label_rule
        spacing = make_spacing(timestamp, sample_rate, largest_gap)
        self._follower = Follower(self.window, self.hop, spacing, label_rule)
        self._state = ReadingState()
        self._n_windows = 0
        self._lock = Lock()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": LeastSquaresClassifier(), "window": 1, "hop": 1}

    def _unit_test_skips(self) -> set[str]:
        # In these, channels come and go: such readings are refused.
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
            "check_learn_many_matches_learn_one",
        }

    @property
    def _multiclass(self) -> bool:
        return bool(self.classifier._multiclass)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier"}

    @property
    def channels(self) -> tuple[Name, ...]:
        """Names of the channels, in the order of a window's columns; none before a reading."""
        return self._state.columns.names

    @property
    def n_windows(self) -> int:
        """Number of windows learnt."""
        return self._n_windows

    def restart(self) -> None:
        """Let another recording begin: no window holds readings from before and after.

        Examples
        --------
        >>> model = WindowedClassifier(LeastSquaresClassifier(), window=2, hop=1)
        >>> for value in (1.0, 2.0):
        ...     model.learn_one({"ax": value}, "walk")
        ...     model.restart()
        >>> model.n_windows
        0
        """
        with self._lock:
            self._state = self._state.restarted()

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Take in one reading with its label, and learn the windows that are due with it.

        Parameters
        ----------
        x : mapping
            Channels to numbers, and `timestamp` to the time if it is set.
        y : hashable

        Raises
        ------
        TypeError
            If a value is no number, or the time neither a number nor a date.
        ValueError
            If a value is missing or not finite, a channel is missing or new, the time is not after
            the one before or irregular without `sample_rate`, or the wrapped classifier refuses
            the window. Nothing has changed then.
        """
        with self._lock:
            self._learn(read_reading(x, self.timestamp), [read_label(y)])

    def learn_many(self, X: Any, y: Any) -> None:
        """Take in readings that follow one another, as by `learn_one` in a loop, all or none.

        Parameters
        ----------
        X : array (n, n_columns), frame, or list of dicts
        y : array, series or list of n labels

        Raises
        ------
        TypeError, ValueError
            As `learn_one`; nothing has changed then.
        """
        with self._lock:
            readings = read_readings(X, self.timestamp)
            self._learn(readings, read_labels(y, len(readings.values)))

    def observe_one(self, x: Mapping[Any, Any]) -> None:
        """Take in one reading without a label and learn nothing; errors as `learn_one`.

        Examples
        --------
        >>> model = WindowedClassifier(LeastSquaresClassifier(), window=2, hop=1)
        >>> model.observe_one({"ax": 1.0})
        >>> model.learn_one({"ax": 2.0}, "walk")
        >>> model.n_windows
        1
        """
        with self._lock:
            self._learn(read_reading(x, self.timestamp), [UNLABELLED])

    def _learn(self, readings: Readings, labels: list[Label]) -> None:
        state = self._state
        due: list[Labelled] = []
        # Of the states only the last is held: each has a window of its own.
        for latest, windows in self._follower.follow(state, readings, labels):
            state = latest
            due.extend(windows)
        changes = {"_state": state, "_n_windows": self._n_windows + len(due)}
        if due:
            learn_windows(self.classifier, due, lambda commit: commit.set(self, **changes))
        else:
            vars(self).update(changes)
