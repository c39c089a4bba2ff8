"""WindowedClassifier: classify sliding windows of sensor readings that arrive one at a time.

Readings are resampled to evenly spaced samples. The last samples form a window, and the label of
the window follows from their labels. The wrapped classifier learns the windows that are due and
have a label.
"""

from __future__ import annotations

import reprlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from math import floor, lcm
from typing import Any

import numpy as np
from river import base

from onlinels.checks import (
    Floats,
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_room,
    refusal,
    wrong_type,
)
from onlinels.core.apply import apply
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.scoring import ScoringClassifier, table_of
from onlinels.locks import Lock
from onlinels.meta import MetaClassifier, aside, is_blank
from onlinels.numerics import read_whole
from onlinels.pipelines import FIXED_STEPS, last_step, steps_of
from onlinels.rows.answers import labels_like
from onlinels.rows.batch import (
    Columns,
    Layout,
    Name,
    check_mapping,
    holds_array,
    matched_by_position,
    read_batch,
    read_sample,
    samples_of,
    source_of,
)
from onlinels.rows.labels import Label, read_label, read_labels
from onlinels.rows.times import (
    DATES,
    NUMBERS,
    PER_SECOND,
    Time,
    elapsed,
    exact,
    from_seconds,
    is_time,
    rational,
    read_times,
)
from onlinels.saving import savable, settings_hold
from onlinels.saving.description import SavedState

MaybeLabel = tuple[Label, ...]
"""(label,), or () for no label."""


def read_stamps(rows: list[Any], timestamp: Name | None) -> tuple[list[Any], list[Time], bool]:
    """Return readings without their times, the exact times, and whether these are dates.

    The time of a reading is its entry `timestamp`. With timestamp=None all times are 0.
    """
    if timestamp is None or not all(isinstance(x, Mapping) for x in rows):
        return rows, [0] * len(rows), False
    if not all(timestamp in x for x in rows):
        remedy = "Pass the time, or leave timestamp out."
        raise refusal("x", f"has no {timestamp!r}", "the time of every reading", remedy)
    rows = [dict(x) for x in rows]
    stamps = [x.pop(timestamp) for x in rows]
    dates = isinstance(stamps[0], DATES)
    for stamp in stamps:
        if not isinstance(stamp, DATES if dates else NUMBERS) or isinstance(stamp, bool):
            fault = f"{timestamp!r} is {stamp!r} of type {type(stamp).__name__}"
            raise TypeError(f"{fault}, expected only seconds, or only dates. Convert the time.")
    times = read_times(stamps, len(stamps), dates, repr(timestamp)).tolist()
    return rows, [rational(exact(time)) for time in times] if dates else times, dates


def shown_time(time: Any, dates: bool | None) -> str:
    """Return a time as messages show it."""
    return str(np.datetime64(int(time), "ns")) if dates and abs(time) < 2**63 else repr(time)


def channels_of(columns: Columns, layouts: Sequence[Layout]) -> Columns:
    """Return the channels of the first reading; raise if another reading has other channels."""
    if any(map(holds_array, layouts)):
        expected = "one number for each channel"
        raise refusal("A reading", "holds an array", expected, "Pass readings one by one.")
    columns = columns if len(columns) else columns.extended(layouts[:1])
    if not len(columns):
        raise refusal("A reading", "has no channels", "a number for each", "Leave it out.")
    known, fewest = columns.extended(layouts), min(layouts, key=len)
    missing = {*range(len(columns))} - {*columns.locate(fewest).tolist()}
    expected = f"exactly {list(columns.names)}, as in the first reading"
    if known is not columns:
        found = f"has a new channel {known.names[len(columns)]!r}"
        remedy = "Leave the channel out, or make a new model for all channels with clone()."
        raise refusal("A reading", found, expected, remedy)
    if missing:
        found = f"lacks the channel {columns.names[min(missing)]!r}"
        remedy = "Fill in the channel's last value (last | x), or leave the reading out."
        raise refusal("A reading", found, expected, remedy)
    return columns


def _state_fits(state: Any) -> bool:
    shape = (len(state.labels), len(state.columns)) if state.labels else (0, 0)
    fits: bool = state.values.shape == shape and is_time(state.start)
    if state.time is not None:
        # Between two times lie no more samples than a call draws.
        fits = fits and is_time(state.time) and len(state.reading) == len(state.columns)
    return fits


def _state_of(saved: SavedState) -> StreamState:
    times = {name: from_seconds(saved[name], bool(saved["dates"])) for name in ("time", "start")}
    return StreamState(**saved | times)


@savable(_state_fits, make=_state_of)
@dataclass(frozen=True, eq=False)
class StreamState:
    """The state of a stream after a reading. Every reading creates a new state.

    `time` is the exact time of the last reading, if readings have times; of dates in nanoseconds
    since 1970, as is `start`. `spacing` is the number of seconds between the first two readings.
    Sample k has the time ``start + k / sample_rate``.

    `values` and `labels` belong to the last samples. A label is (label,), or () for no label.
    `wait` is the number of samples before the next window is due.
    """

    columns: Columns = field(default_factory=Columns)
    n_windows: int = 0
    dates: bool | None = None
    time: Time | None = None
    reading: Floats = field(default_factory=lambda: np.empty(0))
    start: Time = 0
    spacing: float | None = None
    values: Floats = field(default_factory=lambda: np.empty((0, 0)))
    labels: tuple[MaybeLabel, ...] = ()
    wait: int = 0


MAX_SPACING_DIFFERENCE = 0.1
"""Maximum relative difference of a spacing from the first spacing, without a sample rate."""

MAX_LEAD = 1e-3
"""Share of a sampling period by which a reading may precede a sample and count as simultaneous.

Seconds since 1970 in floating point are rounded to 2.4e-7 seconds.
"""

LABEL_RULES: dict[str, Callable[[Sequence[MaybeLabel]], MaybeLabel]] = {
    "last": lambda labels: labels[-1],
    # The most frequent label, and on a tie the latest: counters keep the order of insertion.
    "majority": lambda labels: Counter(reversed(labels)).most_common(1)[0][0],
    "unanimous": lambda labels: labels[-1] if len(set(labels)) == 1 else (),
}
"""Functions from the labels of samples to the label of their window.

Samples without a label count as a class of their own.
"""

Labelled = tuple[dict[str, Floats], Label]
"""A sample {"window": array (length, n_channels)} and its label."""

BLOCK_READINGS = 256
"""Number of readings that are predicted at once; so many windows are in memory at a time."""


def _takes_lists(model: Any) -> bool:
    """Return whether lists of windows are learnt all or none, with the same result as singly."""
    return all(isinstance(step, (*FIXED_STEPS, ScoringClassifier)) for step in steps_of(model))


@savable(lambda model: settings_hold(model) and len(model._state.values) <= model.window)
@dataclass(eq=False, repr=False)
class WindowedClassifier(MetaClassifier, base.MiniBatchClassifier):
    """Classify sliding windows of sensor readings that arrive one at a time.

    A reading is a dict with a number for every channel. The wrapped classifier receives
    {"window": array (window, n_channels)}: the samples up to this reading, with the channels sorted
    by name. It learns the first full window, and another window after every `hop` further samples.
    If a window that is due has no label, the next window with a label is learnt instead.

    Parameters
    ----------
    classifier : classifier or pipeline
        The model that learns samples {"window": array}, such as
        ``features | LeastSquaresClassifier()`` with `MiniRocketFeatures`.
    window, hop : int
        Number of samples in a window, and the minimum number of samples from one learnt window to
        the next.
    timestamp : hashable, optional
        Name of the entry of a reading that holds its time: a number of seconds, or a date of
        Python, numpy or pandas, which is read to its last digit. Without it, readings count as
        evenly spaced, and every reading is a sample.
    sample_rate : float, optional
        Samples per second to which readings are resampled by linear interpolation. Without it,
        the spacing of readings with times must be regular to a tenth; other readings raise a
        ValueError.
    largest_gap : float
        Maximum gap between two readings that is interpolated, in sampling periods, at least 1.
        After a longer gap the window starts empty.
    label_rule : "last", "majority" or "unanimous"
        The label of a window in which labels change. A resampled sample has the label of the
        reading that completes it.

        - "last": the label of the last sample, which is the label that `predict_one` predicts.
        - "majority": the most frequent label.
        - "unanimous": no label, so that the window is not learnt.

    Notes
    -----
    **Windows.** The model stores the last `window` samples and no others. The windows depend on the
    readings and labels alone: `learn_many` equals `learn_one` in a loop. The channels are those of
    the first reading that is learnt or observed. `observe_one` adds a reading without a label, and
    no window that ends in this reading is learnt. Call `restart` where another recording begins.
    `windows_of` cuts the same windows, for features that are made from examples.

    **Predictions.** `predict_one` predicts the label of the window that ends in the reading
    (resampled: in the last sample up to the reading). It changes nothing, and reads no values
    before the wrapped classifier has learnt something. `predict_many` treats its readings as
    consecutive.

    **Cost.** Every reading copies ``8 window n_channels`` bytes.

    **Errors.** Several windows are learnt as one batch if all steps are features and least-squares
    classifiers of this package. Otherwise a copy of the classifier learns them one by one; the
    classifier becomes the copy afterwards, and is unchanged if a window is rejected. The stored
    samples change only after the windows have been learnt, so an error before that leaves them
    unchanged.
    If a single window is rejected by the last step, steps of other packages before it may have
    learnt the window.

    Examples
    --------
    >>> model = WindowedClassifier(LeastSquaresClassifier(), window=3, hop=1)
    >>> for k in range(40):
    ...     model.learn_one({"ax": k % 2, "ay": 1.0}, "shaken" if k % 2 else "not")
    >>> model.predict_one({"ax": 0.0, "ay": 1.0}), model.channels, model.n_windows
    ('not', ('ax', 'ay'), 38)
    """

    classifier: base.Classifier
    window: int = 64
    hop: int = 16
    timestamp: Name | None = None
    sample_rate: float | None = None
    largest_gap: float = 4.0
    label_rule: str = "last"

    def __post_init__(self) -> None:
        if not isinstance(self.classifier, base.Classifier):
            expected = "a classifier, or a pipeline that ends in one"
            raise wrong_type("classifier", self.classifier, expected, "Pass a classifier.")
        check_choice("label_rule", self.label_rule, LABEL_RULES)
        expected = "at least 1 sampling period"
        check_number("largest_gap", self.largest_gap, lambda gap: 1.0 <= gap < np.inf, expected)
        if self.sample_rate is not None:
            check_positive("sample_rate", self.sample_rate)
            if self.timestamp is None:
                raise ValueError("sample_rate needs the times of readings. Pass timestamp.")
        for name in ("window", "hop"):
            vars(self)[name] = check_count(name, getattr(self, name), 1)
        self._state, self._lock = StreamState(), Lock()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": LeastSquaresClassifier(), "window": 1, "hop": 1}

    def _unit_test_skips(self) -> set[str]:
        # These checks add and drop channels, which raises an error here.
        changes = "emerging", "disappearing", "radically_disappearing"
        skipped = {f"check_{change}_features" for change in changes}
        return skipped | {"check_learn_many_matches_learn_one"}

    @property
    def _multiclass(self) -> bool:
        return bool(self.classifier._multiclass)

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        return self._state, *getattr(last_step(self.classifier), "_version", ())

    @property
    def channels(self) -> tuple[Name, ...]:
        """Names of the channels, in the order of a window's columns; () before a reading."""
        return self._state.columns.names

    @property
    def n_windows(self) -> int:
        """Number of windows learnt."""
        return self._state.n_windows

    def restart(self) -> None:
        """Start another recording: no window contains readings from before and after this call.

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
            self._state = StreamState(state.columns, state.n_windows)

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Add one reading with its label, and learn the windows that become due.

        Parameters
        ----------
        x : mapping
            Channel names to numbers, and `timestamp` to the time, if `timestamp` is set.
        y : hashable
            Label of the reading.

        Raises
        ------
        TypeError
            If a value is not a number, or the time is neither a number nor a date.
        ValueError
            If a value is missing or not finite, a channel is missing or new, the time is not after
            the time of the previous reading, times are irregular without `sample_rate`, or the
            wrapped classifier rejects the window. The model is then unchanged.
        """
        with self._lock:
            self._learn([x], [(read_label(y),)])

    @matched_by_position
    def learn_many(self, X: Any, y: Any) -> None:
        """Add consecutive readings, all or none, with the same result as `learn_one` in a loop.

        Parameters
        ----------
        X : array (n, n_columns), frame, or list of dicts
            The readings.
        y : array, series or list of n labels
            Labels of the readings.

        Raises
        ------
        TypeError, ValueError
            Under the conditions of `learn_one`. The model is then unchanged.
        """
        with self._lock:
            rows = list(samples_of(X, self.timestamp))
            labels = read_labels(y, len(rows))
            self._learn(rows, [(label,) for label in labels])

    def observe_one(self, x: Mapping[Any, Any]) -> None:
        """Add one reading without a label, and learn nothing.

        Raises the same errors for readings as `learn_one`.

        Examples
        --------
        >>> model = WindowedClassifier(LeastSquaresClassifier(), window=2, hop=1)
        >>> model.observe_one({"ax": 1.0})
        >>> model.learn_one({"ax": 2.0}, "walk")
        >>> model.n_windows
        1
        """
        with self._lock:
            self._learn([x], [()])

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Label | None:
        """Return the label of the window that ends in a reading, None if the window is not full."""
        with self._lock:
            return self._answer("predict", None, x)

    def predict_many(self, X: Any) -> Any:
        """Return the label of the window that ends in each reading, in the kind of `X`."""
        with self._lock:
            labels = self._answers("predict", None, list(samples_of(X, self.timestamp)))
            return labels_like(source_of(X), labels, self._classes)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class, {} if the window is not full."""
        with self._lock:
            return dict(self._answer("predict_proba", {}, x))

    def predict_proba_many(self, X: Any) -> Any:
        """Return probabilities in the kind of `X`; rows of a table are 0 if the window is not full.

        In a list of dicts, the dict is empty instead.
        """
        with self._lock:
            rows = self._answers("predict_proba", {}, list(samples_of(X, self.timestamp)))
            return table_of(source_of(X), rows, self._classes)

    @property
    def _classes(self) -> tuple[Label, ...]:
        """Labels of the wrapped classifier; none if it does not tell them."""
        return tuple(getattr(last_step(self.classifier), "classes", ()))

    def _learn(self, rows: list[Any], labels: list[MaybeLabel]) -> None:
        def read() -> tuple[StreamState, list[Labelled]]:
            due: list[Labelled] = []
            # Every state has a window of its own, so only the last state is kept.
            (state,) = deque(chain([self._state], self._follow(rows, labels, due)), maxlen=1)
            return state, due

        state, due = read_whole(read, self)
        before, last = self._state, last_step(self.classifier)
        count = getattr(last, "count", None)
        try:
            # Code of the labels may add readings while the windows are learnt.
            self._state = state
            self._learn_windows(due)
        except BaseException:
            if getattr(last, "count", None) == count and self._state is state:
                self._state = before
            raise

    def _follow(
        self, rows: list[Any], labels: list[MaybeLabel], due: list[Labelled]
    ) -> Iterator[StreamState]:
        """Yield the state after each reading; append the windows that become due to `due`."""
        if not rows:
            return
        state, rule = self._state, LABEL_RULES[self.label_rule]
        rows, times, dates = read_stamps(rows, self.timestamp)
        batch = read_batch(rows) if rows[1:] else read_sample(rows[0])
        if state.dates not in (None, dates):
            was, are = ("dates", "numbers") if state.dates else ("numbers", "dates")
            remedy = "Convert them, or call restart()."
            raise TypeError(f"Times are {are}, expected {was} as before. {remedy}")
        columns = channels_of(state.columns, batch.layouts)
        state = replace(state, columns=columns, dates=dates)
        readings = columns.place(batch.layouts, batch.values).astype(np.float64)
        for now, reading, label in zip(times, readings, labels, strict=True):
            state, samples = self._sampled(state, now, reading)
            for sample in samples:
                before = state.values.reshape(-1, len(sample))
                values = np.concatenate((before, sample[None]))[-self.window :]
                known = (*state.labels, label)[-self.window :]
                wait = max(0, state.wait - 1)
                state = replace(state, values=values, labels=known, wait=wait)
                is_due = len(known) == self.window and not wait
                of_window = rule(known) if is_due and label else ()
                if of_window:
                    # Copied, because later windows share most of these samples.
                    due.append(({"window": values.copy()}, of_window[0]))
                    state = replace(state, wait=self.hop, n_windows=state.n_windows + 1)
            yield state

    def _sampled(
        self, state: StreamState, now: Time, reading: Floats
    ) -> tuple[StreamState, Floats]:
        """Return the state after a reading, and the samples (none to several) that it completes."""
        rate, last, samples = self.sample_rate, state.time, reading[None]
        if self.timestamp is None:
            return state, samples
        per_second = PER_SECOND if state.dates else 1
        passed = np.inf if last is None else elapsed(now, last) / per_second
        if passed <= 0.0:
            shown, before = (shown_time(time, state.dates) for time in (now, last))
            expected = f"a later time than {before} of the reading before"
            remedy = "Leave out readings that are late, or call restart()."
            raise refusal(repr(self.timestamp), f"is {shown}", expected, remedy)
        if last is None or (rate and passed * rate > self.largest_gap * (1.0 + MAX_LEAD)):
            # No window includes samples from before the gap.
            known = state.columns, state.n_windows, state.dates
            return StreamState(*known, time=now, reading=reading, start=now), samples
        spacing = state.spacing or passed
        if rate is not None:
            # Sample k has the time start + k / rate and is interpolated between two readings,
            # whose places among the samples are exact.
            per_time = rational(exact(rate)) / Fraction(per_second)
            places = [(rational(time) - rational(state.start)) * per_time for time in (last, now)]
            first, stop = (floor(place + Fraction(MAX_LEAD)) + 1 for place in places)
            n_bytes, remedy = 8 * (2 + len(reading)), "Lower largest_gap, or sample_rate."
            n_new = stop - first
            check_room(n_new * n_bytes, "A gap of {:,} samples", n_new, remedy=remedy)
            # In whole parts of the spacing of samples, of which the quotients are rounded once.
            parts = lcm(*(place.denominator for place in places))
            begin, end = (int(place * parts) for place in places)
            shares = [(k * parts - begin) / (end - begin) for k in range(first, stop)]
            share = np.clip(np.array(shares, dtype=np.float64), 0.0, 1.0)[:, None]
            # Both ends have a weight, so that a sample at a reading's time equals it exactly.
            samples = (1.0 - share) * state.reading + share * reading
        elif abs(passed - spacing) > MAX_SPACING_DIFFERENCE * spacing:
            found = f"is {shown_time(now, state.dates)}, {passed:g} s after the reading before"
            expected = f"{spacing:g} s as between the first two readings, within 10%"
            remedy = "Pass sample_rate, or call restart()."
            raise refusal(repr(self.timestamp), found, expected, remedy)
        return replace(state, time=now, reading=reading, spacing=spacing), samples

    def _learn_windows(self, due: Sequence[Labelled]) -> None:
        """Teach the wrapped classifier the windows in order; of several windows all or none."""
        model: Any = self.classifier
        if len(due) > 1 and _takes_lists(model):
            model.learn_many([sample for sample, _ in due], [label for _, label in due])
            return
        later, parts_after = aside(model) if len(due) > 1 else (model, tuple)
        for sample, label in due:
            later.learn_one(sample, label)
        apply(parts_after())

    def _answer(self, method: str, nothing: Any, x: Any) -> Any:
        """Return the prediction for one reading; a blank model does not read its values."""
        check_mapping(x)
        return nothing if is_blank(self.classifier) else self._answers(method, nothing, [x])[0]

    def _answers(self, method: str, nothing: Any, rows: list[Any]) -> list[Any]:
        """Return the prediction for each reading, and `nothing` if its window is not full."""
        return read_whole(lambda: self._predicted(method, nothing, rows), self)

    def _predicted(self, method: str, nothing: Any, rows: list[Any]) -> list[Any]:
        followed = self._follow(rows, [()] * len(rows), [])
        given: list[Any] = []
        while block := [state.values for state in islice(followed, BLOCK_READINGS)]:
            full = [{"window": each.copy()} for each in block if len(each) == self.window]
            if len(full) > 1 and _takes_lists(self.classifier):
                answers = iter(getattr(self.classifier, f"{method}_many")(full))
            else:
                answers = map(getattr(self.classifier, f"{method}_one"), full)
            given += [next(answers) if len(each) == self.window else nothing for each in block]
        return given


def windows_of(
    stream: Iterable[tuple[Mapping[Any, Any], Any]], **settings: Any
) -> tuple[Floats, list[Label]]:
    """Cut a stream of readings into the windows that a `WindowedClassifier` would learn.

    Use the windows as examples for features that are made from examples, before the classifier is
    created.

    Parameters
    ----------
    stream : iterable of (reading, label)
        Readings as dicts with their labels, as in river's streams. For arrays, pass
        ``river.stream.iter_array(X, y)``. The stream is read to its end: pass only the beginning of
        an endless stream.
    **settings
        Settings of `WindowedClassifier`, such as `window` and `hop`.

    Returns
    -------
    ndarray (n_windows, window, n_channels), list of n_windows labels
        The windows and their labels.

    Raises
    ------
    TypeError, ValueError
        If a `WindowedClassifier` would reject the settings or the readings, or if no window is
        full.

    Examples
    --------
    >>> readings = [({"ax": k / 10, "ay": 1.0}, k > 9) for k in range(20)]
    >>> windows, labels = windows_of(readings, window=8, hop=4)
    >>> windows.shape, labels
    ((4, 8, 2), [False, True, True, True])
    """
    model = WindowedClassifier(LeastSquaresClassifier(), **settings)
    pairs = list(stream)
    for each in pairs:
        if not isinstance(each, (tuple, list)) or len(each) != 2:
            found = f"stream yields {reprlib.repr(each)}"
            raise TypeError(
                f"{found}, expected pairs (reading, label). Pass zip(readings, labels)."
            )
    due: list[Labelled] = []
    labels = [(read_label(y, f"The label of reading {n}"),) for n, (_, y) in enumerate(pairs)]
    deque(model._follow([x for x, _ in pairs], labels, due), maxlen=0)
    if not due:
        found = f"fill no window of {model.window} that has a label"
        remedy = "Pass more readings, or a shorter window."
        raise refusal(f"{len(pairs)} readings", found, "at least one", remedy)
    return np.stack([sample["window"] for sample, _ in due]), [label for _, label in due]
