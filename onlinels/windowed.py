"""WindowedClassifier: a classifier of windows that is fed one reading of the sensors at a time.

Readings become evenly spaced samples, the last samples a window, their labels the label of the
window; windows that are due and have a label are learnt by the wrapped classifier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from math import floor
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from river import base

from onlinels.checks import Floats, check_choice, check_count, check_positive, check_room
from onlinels.labels import Label, read_label, read_labels
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.forgetting import read_times
from onlinels.numerics import Lock
from onlinels.rows import (
    Batch,
    Columns,
    Name,
    as_frame,
    holds_array,
    labels_like,
    read_batch,
    read_sample,
    samples_of,
    table_like,
)
from onlinels.saving import (
    FINITE,
    FLAG,
    MATRIX,
    REAL,
    TEXT,
    VECTOR,
    WHOLE,
    Field,
    locked_copy,
    locked_state,
    made_of,
    maybe,
    savable,
    savable_settings,
    save_method,
    saved,
    settings_hold,
)
from onlinels.scoring import ScoringClassifier
from onlinels.wrappers import FIXED, learn_and_note, restored_on_error, steps_of

# Readings of sensors, as they come: a dict, or rows that follow one another.


class Readings(NamedTuple):
    """What was read, and the times in seconds, if readings have them."""

    batch: Batch
    times: Floats | None
    dates: bool


def read_reading(x: Any, timestamp: Name | None) -> Readings:
    """Read one reading, a dict of numbers, and its time if it has the name `timestamp`."""
    return _read([x], timestamp, lambda rows: read_sample(rows[0]))


def read_readings(X: Any, timestamp: Name | None) -> Readings:
    """Read readings that follow one another: an array (n, n_columns), a frame or a list of dicts.

    The time is the column, or the entry of each dict, of the name `timestamp`.
    """
    return _read(list(samples_of(X)), timestamp, read_batch)


def kind_of(X: Any) -> Any:
    """Return a batch of readings as answers in its kind need it."""
    return X if isinstance(X, (np.ndarray, list, tuple)) else as_frame(X)


def _read(rows: list[Any], timestamp: Name | None, read: Callable[[Any], Batch]) -> Readings:
    stamps = None
    if timestamp is not None and all(isinstance(x, Mapping) for x in rows):
        if not all(timestamp in x for x in rows):
            raise ValueError(
                f"x has no {timestamp!r}, expected the time of every reading under this name. "
                "Pass it, or leave timestamp out if readings are evenly spaced."
            )
        stamps = [x[timestamp] for x in rows]
        rows = [{name: x[name] for name in x if name != timestamp} for x in rows]
    batch = read(rows)
    if any(map(holds_array, batch.layouts)):
        raise ValueError(
            "A reading holds an array, expected one number for each channel. Pass readings one "
            "by one, or whole windows to the wrapped classifier itself."
        )
    return Readings(batch, *((None, False) if stamps is None else _seconds(stamps, timestamp)))


def _seconds(stamps: Sequence[Any], timestamp: Name) -> tuple[Floats, bool]:
    """Return the times of readings in seconds, and whether they are dates."""
    is_date = isinstance(stamps[0], DATES)
    for stamp in stamps:
        if not isinstance(stamp, DATES if is_date else Real) or isinstance(stamp, bool):
            kind = type(stamp).__name__
            raise TypeError(
                f"{timestamp!r} is {stamp!r} of type {kind}, expected a number of seconds or a "
                "datetime, the same for all readings. Convert it."
            )
    return np.concatenate([read_times(stamp, 1, is_date) for stamp in stamps]), is_date


DATES = (datetime, np.datetime64)


# Where a stream of readings stands.


class Unlabelled:
    """The label of samples that have none; None can be a label."""

    def __repr__(self) -> str:
        return "UNLABELLED"

    def __reduce__(self) -> str:
        return "UNLABELLED"


UNLABELLED = Unlabelled()
saved(Unlabelled, {}, take=lambda label: {}, make=lambda state: UNLABELLED)


@savable(
    {"time": FINITE, "values": VECTOR, "start": FINITE, "reached": WHOLE, "spacing": maybe(REAL)}
)
@dataclass(frozen=True, eq=False)
class Position:
    """The last reading of a stream with times, and where the samples stand.

    Sample 0 lies at the time `start`, and `reached` is the number of the last sample; `spacing` is
    the time between the first two readings.
    """

    time: float
    values: Floats
    start: float
    reached: int = 0
    spacing: float | None = None


def _state_fits(state: Any) -> bool:
    shapes = {state.values.shape[1]} if state.labels else set()
    if state.position is not None:
        shapes.add(len(state.position.values))
    return len(state.values) == len(state.labels) and shapes <= {len(state.columns)}


@savable(
    {
        "columns": made_of(Columns),
        "dates": maybe(FLAG),
        "position": maybe(made_of(Position)),
        "values": MATRIX,
        "labels": Field("a tuple of labels", lambda value: type(value) is tuple),
        "since": maybe(WHOLE),
        "n_windows": WHOLE,
    },
    _state_fits,
)
@dataclass(frozen=True, eq=False)
class StreamState:
    """The channels, the last reading and the last samples: there is a new one after each reading.

    `since` counts the samples since the last window that was learnt; it is None before the first of
    the stream, or of what came after a gap.
    """

    columns: Columns = field(default_factory=Columns)
    dates: bool | None = None
    position: Position | None = None
    values: Floats = field(default_factory=lambda: np.empty((0, 0)))
    labels: tuple[Label, ...] = ()
    since: int | None = None
    n_windows: int = 0

    def of_channels(self, readings: Readings) -> StreamState:
        """Return the state with channels known, or raise if those of the readings are others."""
        if self.dates not in (None, readings.dates):
            was, came = ("dates", "numbers") if self.dates else ("numbers", "dates")
            raise TypeError(
                f"Times are {came}, expected {was} as before. Convert them, or restart()."
            )
        layouts = readings.batch.layouts
        columns = self.columns if len(self.columns) else Columns().extended(layouts[:1])
        if not len(columns):
            raise ValueError("A reading has no channels, expected a number for each. Leave it out.")
        known = columns.extended(layouts)
        if known is not columns:
            raise ValueError(
                f"A reading has a new channel {known.names[len(columns)]!r}, expected only "
                f"{list(columns.names)} as in the first reading. Leave it out, or begin with a new "
                "model."
            )
        shortest = min(layouts, key=len)
        if len(shortest) < len(columns):
            missing = min({*range(len(columns))} - {*columns.locate(shortest).tolist()})
            raise ValueError(
                f"A reading lacks the channel {columns.names[missing]!r}, expected all of those of "
                "the first reading. Fill it first, for instance with river's "
                "preprocessing.StatImputer."
            )
        return replace(self, columns=columns, dates=readings.dates)


# From readings to evenly spaced samples.

REGULAR = 0.1
"""Share of the first spacing by which later ones may differ from it without a sample rate."""

EARLY = 1e-3
"""Share of a sampling period by which a reading before a sample's time counts as at that time.

Times in seconds since 1970 are rounded to 2.4e-7 seconds.
"""


def _regular(name: Name, position: Position, now: float, values: Floats) -> Position:
    """Return the position after a reading, or raise ValueError if it comes at no regular time."""
    passed = now - position.time
    spacing = position.spacing or passed
    if abs(passed - spacing) > REGULAR * spacing:
        raise ValueError(
            f"{name!r} is {now!r}, {passed:g} s after the reading before, expected "
            f"{spacing:g} s as between the first two, up to a tenth. Pass sample_rate (for "
            f"instance {1.0 / spacing:g}) and readings are resampled to it, or call restart() "
            "after a pause."
        )
    return Position(now, values, position.start, spacing=spacing)


def _resampled(
    position: Position, now: float, values: Floats, rate: float
) -> tuple[Position, Floats]:
    """Return the position after a reading, and the samples since the one before, maybe none.

    Sample k lies at the time start + k / rate, on the straight line between two readings.
    """
    reached = max(position.reached, floor((now - position.start) * rate + EARLY))
    n_new = reached - position.reached
    remedy = "Lower largest_gap, or sample_rate."
    check_room(8 * n_new * (2 + len(values)), "A gap of {:,} samples", n_new, remedy=remedy)
    times = position.start + np.arange(position.reached + 1, reached + 1) / rate
    share = np.clip((times - position.time) / (now - position.time), 0.0, 1.0)[:, None]
    # Both ends are weighed, so that a sample at a reading's time is that reading, exactly.
    samples = (1.0 - share) * position.values + share * values
    return Position(now, values, position.start, reached), samples


# From samples to windows with a label.


LABEL_RULES: dict[str, Callable[[Sequence[Label]], Label]] = {
    "last": lambda labels: labels[-1],
    # The most frequent, on a tie the one that came last: counters keep the order of arrival.
    "majority": lambda labels: Counter(reversed(labels)).most_common(1)[0][0],
    "unanimous": lambda labels: labels[-1] if len(set(labels)) == 1 else UNLABELLED,
}
"""From the labels of a window's samples to its own; samples without a label count as one class."""


Labelled = tuple[dict[str, Floats], Label]
"""A sample {"window": array (length, n_channels)} and its label."""

TOGETHER = (*FIXED, ScoringClassifier)
"""Steps that take lists of windows, all or none, with the same result as one by one."""

BLOCK = 256
"""Readings that are answered together: as many windows are held at a time."""


def _takes_lists(model: Any) -> bool:
    """Tell whether a classifier, or every step of a pipeline, takes lists of windows."""
    return all(isinstance(step, TOGETHER) for step in steps_of(model))


def _windowed_fits(model: Any) -> bool:
    fits = settings_hold(model) and len(model._state.values) <= model.window
    position = model._state.position
    if position is None or model.sample_rate is None:
        return fits
    # Samples were drawn up to the last reading: else the next one would draw those between.
    ahead = (position.time - position.start) * model.sample_rate - position.reached
    return fits and bool(abs(ahead) <= 2.0)


@savable_settings(_windowed_fits, label_rule=TEXT, _state=made_of(StreamState), _lock=made_of(Lock))
class WindowedClassifier(base.MiniBatchClassifier):
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
    one by one, and a copy of the classifier is kept meanwhile: if one of them is refused, it is put
    back as it was. The readings count as taken in once their windows are learnt: what is held is as
    before if anything is raised until then. Of a single window that is refused, steps of other
    packages may have learnt before the last step refuses it.

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
        check_positive("largest_gap", largest_gap)
        if largest_gap < 1.0:
            raise ValueError(
                f"largest_gap={largest_gap!r} must be at least 1 sampling period. Pass more."
            )
        if sample_rate is not None:
            check_positive("sample_rate", sample_rate)
            if timestamp is None:
                raise ValueError(
                    f"sample_rate={sample_rate!r} needs the times of readings. Pass timestamp, the "
                    "name under which they come, or leave sample_rate out if readings are evenly "
                    "spaced."
                )
        self.classifier: Any = classifier
        self.window = check_count("window", window, 1)
        self.hop = check_count("hop", hop, 1)
        self.timestamp = timestamp
        self.sample_rate = sample_rate
        self.largest_gap = largest_gap
        self.label_rule = label_rule
        self._state = StreamState()
        self._lock = Lock()

    save = save_method
    __copy__ = locked_copy
    __getstate__ = locked_state

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
        return self._state.n_windows

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
            state = self._state
            self._state = StreamState(state.columns, n_windows=state.n_windows)

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
            self._learn(readings, read_labels(y, len(readings.batch)))

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

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of the window that ends in a reading; None before it is full."""
        with self._lock:
            return self._answers("predict", read_reading(x, self.timestamp), None)[0]

    def predict_many(self, X: Any) -> Any:
        """Return the label of the window that ends in each reading, in the kind of `X`."""
        with self._lock:
            readings = read_readings(X, self.timestamp)
            return labels_like(kind_of(X), self._answers("predict", readings, None))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class; {} before the window is full."""
        with self._lock:
            table: dict[Label, float]
            (table,) = self._answers("predict_proba", read_reading(x, self.timestamp), {})
            return table

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities in the kind of `X`; in tables 0 where the window is not full."""
        with self._lock:
            rows = self._answers("predict_proba", read_readings(X, self.timestamp), {})
            if isinstance(X, (list, tuple)):
                return rows
            classes = list(dict.fromkeys(label for row in rows for label in row))
            values = [[row.get(label, 0.0) for label in classes] for row in rows]
            return table_like(kind_of(X), classes, np.array(values).reshape(len(rows), -1))

    def _learn(self, readings: Readings, labels: list[Label]) -> None:
        state, due = self._state, list[Labelled]()
        # Of the states only the last is held: each has a window of its own.
        for latest, windows in self._follow(readings, labels):
            state = latest
            due += windows
        learn_and_note(partial(self._learn_windows, due), self, "_state", state)

    def _follow(
        self, readings: Readings, labels: Sequence[Label]
    ) -> Iterator[tuple[StreamState, list[Labelled]]]:
        """Yield the state after each reading, and the windows to be learnt with it."""
        batch, rule = readings.batch, LABEL_RULES[self.label_rule]
        state = self._state.of_channels(readings)
        rows = state.columns.place(batch.layouts, batch.values).astype(np.float64)
        times = np.zeros(len(rows)) if readings.times is None else readings.times
        for now, reading, label in zip(times.tolist(), rows, labels, strict=True):
            state, samples = self._sampled(state, now, reading)
            due: list[Labelled] = []
            for sample in samples:
                before = state.values.reshape(-1, len(sample))
                values = np.concatenate((before, sample[None]))[-self.window :]
                known = (*state.labels, label)[-self.window :]
                since = None if state.since is None else state.since + 1
                state = replace(state, values=values, labels=known, since=since)
                is_due = len(known) == self.window and (since is None or since >= self.hop)
                of_window = rule(known) if is_due and label is not UNLABELLED else UNLABELLED
                if of_window is not UNLABELLED:
                    # A copy, as most of the window is part of later ones too.
                    due.append(({"window": values.copy()}, of_window))
                    state = replace(state, since=0, n_windows=state.n_windows + 1)
            yield state, due

    def _sampled(
        self, state: StreamState, now: float, reading: Floats
    ) -> tuple[StreamState, Floats]:
        """Return the state after a reading, and the samples that it completes, none to several."""
        position, samples, rate = state.position, reading[None], self.sample_rate
        if self.timestamp is None:
            return state, samples
        if position is None:
            return replace(state, position=Position(now, reading, now)), samples
        if now <= position.time:
            before = "as" if now == position.time else "before"
            raise ValueError(
                f"{self.timestamp!r} is {now!r}, {before} that of the reading before, expected a "
                f"time after {position.time!r}. Leave out readings that repeat or come late, or "
                "call restart() where another recording begins."
            )
        if rate is None:
            position = _regular(self.timestamp, position, now, reading)
        elif (now - position.time) * rate > self.largest_gap * (1.0 + EARLY):
            # No window reaches back over what came before.
            state = replace(state, values=np.empty((0, 0)), labels=(), since=None)
            position = Position(now, reading, now)
        else:
            position, samples = _resampled(position, now, reading, float(rate))
        return replace(state, position=position), samples

    def _learn_windows(self, due: Sequence[Labelled]) -> None:
        """Let the wrapped classifier learn windows in order: all or none of several."""
        model = self.classifier
        if len(due) < 2:
            for sample, label in due:
                model.learn_one(sample, label)
        elif _takes_lists(model):
            model.learn_many([sample for sample, _ in due], [label for _, label in due])
        else:
            with restored_on_error(steps_of(model)):
                for sample, label in due:
                    model.learn_one(sample, label)

    def _answers(self, method: str, readings: Readings, nothing: Any) -> list[Any]:
        """Return what the wrapped classifier answers for each reading, if its window is full."""
        followed = self._follow(readings, [UNLABELLED] * len(readings.batch))
        given: list[Any] = []
        while block := [state.values for state, _ in islice(followed, BLOCK)]:
            full = [{"window": each.copy()} for each in block if len(each) == self.window]
            if len(full) > 1 and _takes_lists(self.classifier):
                answers = iter(getattr(self.classifier, f"{method}_many")(full))
            else:
                answers = map(getattr(self.classifier, f"{method}_one"), full)
            given += [next(answers) if len(each) == self.window else nothing for each in block]
        return given
