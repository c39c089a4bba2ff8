"""What the models of dict streams share: what they have learnt, and how a call changes it."""

from __future__ import annotations

import copy
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np

from onlinels.checks import (
    Floats,
    Integers,
    check_count,
    check_weight,
    check_weights,
    checked_assignment,
    refusal,
    warn_caller,
)
from onlinels.core import StreamRows, note_core
from onlinels.core.apply import apply
from onlinels.core.constants import (
    DELAY,
    LAST_LABEL,
    MAX_ROW_WEIGHT,
    N_STREAM_NUMBERS,
    ROWS_LEARNT,
)
from onlinels.explain import feature_effects, named_scores
from onlinels.linear.model import N_SHOWN_FEATURES
from onlinels.linear.settings import check_feature_count
from onlinels.linear.single import LABEL_TYPES
from onlinels.locks import Lock
from onlinels.numerics import (
    Calls,
    are_counts,
    enlarged,
    is_array,
    read_whole,
    restore,
    shallow_copy,
)
from onlinels.rows.batch import (
    PLAIN_NUMBER_TYPES,
    Layout,
    Name,
    as_numpy,
    check_mapping,
    form_of,
    matched_by_position,
    samples_of,
    sorted_names,
    source_of,
    warn_of_absent,
)
from onlinels.saving import attributes_of, locked_copy, locked_deepcopy, locked_state, save_method
from onlinels.stream.features import (
    Activations,
    RunningScaler,
    Sample,
    StreamColumns,
    StreamRow,
    read_stream_batch,
)
from onlinels.stream.plain import PlainExpert
from onlinels.stream.rows import ArrayRows
from onlinels.stream.waiting import (
    MAX_WAITING,
    Found,
    Key,
    KeyedSample,
    Sought,
    Stored,
    Waiting,
    WaitingForecasts,
    plain_sample,
    read_key,
    sample_key,
)
from onlinels.sums.recursion import Recursion

MIN_NUMBER_ROWS, MIN_WHOLE_NUMBER_ROWS = 8, 64
"""Numbers of rows from which texts that are numbers are told of, if all are whole from the second.

Whole numbers may be identifiers, of which one in some tens begins with a zero.
"""

NAMES_OF_FORMER = "_told", "_seen", "_asked", "_count", "_delay"
"""Attributes of models in files of earlier versions that models no longer have."""

NO_VALUES = StreamRow(np.zeros(0))
"""A sample that Python code has not read."""


class ExpertsState(ABC):
    """What a model of a stream has learnt.

    `rows`, an object of `onlinels.core`, forecasts rows and learns them into the arrays of the
    state. What it does not know, it hands back. Then a call makes a draft of the state, with room
    for new names and classes, and puts the draft in the place of the state as its last act, in one
    C loop with what `rows` of the draft plans to write, and with what becomes of forecasts that
    wait for their labels. Nothing else changes a state that a model holds, but for what changes no
    answer: plain least squares learns a row late, and C settles factors.

    A forecast is an array of numbers (see `onlinels.core.constants`).
    """

    forgetting: ClassVar[Floats]
    """The forgetting factor of each memory."""

    blank: ClassVar[Floats]
    """The forecast for a sample before the first row."""

    in_place: ClassVar[tuple[str, ...]] = "memories", "plain", "waiting", "scaler", "numbers"
    """Attributes whose arrays and dicts change in place; all others are replaced."""

    names_of_former: ClassVar[tuple[str, ...]] = NAMES_OF_FORMER
    """Attributes of models in files of earlier versions that models no longer have."""

    memories: list[Recursion]

    def __init__(self, seed: int, plain: Any) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        self.activations = Activations(seed)
        self.plain, self.waiting = PlainExpert(plain), Waiting()
        # See `onlinels.core.constants`.
        self.numbers = np.zeros(N_STREAM_NUMBERS)
        self.numbers[LAST_LABEL] = -1.0
        # Features of whose texts the model has warned.
        self.warned_of: tuple[Name, ...] = ()
        # `rows`, and the objects that may be replaced without this state.
        self.made: tuple[Any, Any, Any] | None = None

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        return int(self.numbers[ROWS_LEARNT])

    @property
    def delay(self) -> int:
        """Number of rows learnt between the last row's forecast and its label."""
        return int(self.numbers[DELAY])

    @property
    def rows(self) -> Any:
        """What forecasts and learns rows in the arrays of this state."""
        plain, names = self.plain.rows(self.n_outputs), self.columns.places
        if self.made is None or self.made[1] is not plain or self.made[2] is not names:
            numbers = self.numbers, self.waiting.counts, *self.scaler.arrays
            of_plain = self.plain.factors, self.plain.pending
            rows = (StreamRows or ArrayRows)(
                names=names,
                types=PLAIN_NUMBER_TYPES,
                gap_rows=self.scaler.gap_rows,
                waiting=self.waiting.stored,
                plain=plain,
                label_types=LABEL_TYPES,
                experts=self.arrays(),
                arrays=(*numbers, *of_plain, *self.own_arrays()),
                **self.labels(),
            )
            self.made = rows, plain, names
        return self.made[0]

    @property
    def known_rows(self) -> Any:
        """The last `rows`, if nothing was replaced since; or None."""
        made, plain = self.made, self.plain.model._state.following.rows
        return None if made is None or made[1] is not plain else made[0]

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of outputs of plain least squares."""

    @property
    def scales_forecasts(self) -> bool:
        """Whether the scale learns rows when they are forecast."""
        return False

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of numbers of a forecast."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """What answers need beside a forecast: the scale of probabilities, or the deviation.

        It is stored with the forecast of a row with a key, whose answers stay the same.
        """

    @abstractmethod
    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays of the linear experts (see `onlinels.core.reference.Experts`)."""

    @abstractmethod
    def own_arrays(self) -> tuple[Any, ...]:
        """Return further arrays for `StreamRows`."""

    def labels(self) -> dict[str, Any]:
        """Return the arguments of `StreamRows` about labels."""
        return {"outputs": None, "labels": ()}

    def memory_arrays(self, views: Iterable[Integers]) -> tuple[Any, ...]:
        """Return those of the memories, given the places in a row that each of them sees.

        Their forgetting factors come first.
        """
        arrays: tuple[Any, ...] = (self.forgetting,)
        for view, each in zip(views, self.memories, strict=True):
            arrays = *arrays, view, each.weights, each.inverse, each.pending, each.factors
        return arrays

    def copied(self) -> Self:
        """Return a draft that learns into arrays of its own."""
        self.plain.learn_pending(self.count)
        return self.with_copies(*self.in_place)

    def with_copies(self, *names: str) -> Self:
        """Return a draft that has copies of some attributes."""
        new = shallow_copy(self)
        vars(new).update(copy.deepcopy({name: vars(self)[name] for name in names}))
        new.made = None
        return new

    def grow(self, columns: StreamColumns) -> None:
        """Make room in a draft for new features."""
        # The last row has the features that it had: zeros for new ones would round in another way.
        self.plain.learn_pending(self.count)
        n_features = len(columns.names)
        self.scaler = self.scaler.grown(n_features, columns.columns_of)
        self.plain, self.columns = self.plain.grown(n_features), columns
        self.made = None

    @abstractmethod
    def make_room(self, columns: StreamColumns, target: Any) -> tuple[Any, bool]:
        """Make room in a draft for a row in given columns.

        Return the target of the row as `learn` takes it, and whether its class is new.
        """

    def placed(self, row: StreamRow, is_scaled: bool) -> tuple[Floats, tuple[int, ...]]:
        """Return a row as `StreamRows` takes it; a draft counts its gaps if its scale learns it."""
        scaler = self.scaler.with_gaps(row.gaps) if is_scaled else self.scaler
        if scaler is not self.scaler:
            self.scaler, self.made = scaler, None
        return row.values, scaler.places_of(row.gaps)

    def plain_scores(self, row: StreamRow) -> Floats:
        """Return the scores of plain least squares, for which Python code may have to make room."""
        scores = self.plain.score(row.values, self.scaler.means, self.count)
        return enlarged(scores, self.n_outputs)

    def forecast(self, row: StreamRow) -> tuple[Floats, Calls]:
        """Return the forecast for a row; plan that the scale of a draft learns it."""
        given, forecast = self.placed(row, self.scales_forecasts), np.empty(self.size)
        calls: Any = self.rows.forecast(given, forecast, None)
        if calls is NotImplemented:
            plain = self.plain_scores(row)
            calls = self.rows.forecast(given, forecast, plain)
        return forecast, calls

    def forecast_sample(self, x: Any) -> tuple[Any, Any]:
        """Return the same for a sample that C knows; otherwise None and NotImplemented."""
        if type(x) is not dict or not self.count:
            return None, NotImplemented
        forecast = np.empty(self.size)
        return forecast, (self.known_rows or self.rows).forecast(x, forecast, None)

    def first_forecast(self, x: Any) -> tuple[Floats, Calls]:
        """Return the forecast for a sample before the first row, and plan what else it changes."""
        return self.blank, ()

    def recall(self, found: Found | None, delay: int) -> Floats | None:
        """Return the stored forecast of a row, if the row is learnt with it."""
        return None if found is None else found.forecast

    def learn(self, x: Any, y: Any, w: float, key: Sought, is_new: bool = False) -> Any:
        """Plan that a row of weight w is learnt into a draft.

        Parameters
        ----------
        x : dict, or StreamRow
            A sample, of which this method returns NotImplemented if C does not know it; or a row.
        y : object
            Label or number; the column of the label of a row.
        key : int, or tuple of a key
            What finds the stored forecast of the row, if there is one.
        is_new : bool
            Whether the class of the row is new.
        """
        found = self.waiting.find(key, self.count, self.delay)
        delay = self.delay if found is None else found.delay
        stored = self.recall(found, delay)
        of_label = stored, float(delay), is_new
        if not isinstance(x, StreamRow):
            calls: Any = (self.known_rows or self.rows).plan(x, y, w, *of_label, None)
            if calls is NotImplemented:
                return calls
            return *calls, *self.waiting.plan_label(key, found, delay)
        row = self.placed(x, is_scaled=True)
        calls = self.rows.plan(row, y, w, *of_label, None)
        if calls is NotImplemented:
            plain = self.plain_scores(x)
            self.restore_ridges()
            calls = self.rows.plan(row, y, w, *of_label, plain)
        if calls is NotImplemented:
            raise ValueError("x outweighs all earlier rows, expected similar rows. Rescale x.")
        return *calls, *self.waiting.plan_label(key, found, delay)

    def restore_ridges(self) -> None:
        """Restore, in a draft, the ridges that another row would decay too far."""
        pairs = [*zip(self.memories, self.forgetting.tolist(), strict=True)]
        due = [each.share * decay < each.least for each, decay in pairs]
        if any(due):
            news = zip(self.memories, due, strict=True)
            self.memories = [each.restored() if is_due else each for each, is_due in news]
            self.made = None

    def is_sound(self, kind: type, n_labels: int, is_forecast: Callable[[Stored], bool]) -> bool:
        """Return whether the loaded parts that streams share fit each other."""
        n_features, made, plain = len(self.columns.names), self.activations, self.plain
        fits = n_features == len(self.scaler.means) == made.n_features == plain.n_features
        fits = fits and type(plain.model) is kind and made.n_labels == n_labels
        fits = fits and is_array(self.numbers, N_STREAM_NUMBERS)
        fits = fits and are_counts(self.numbers[[ROWS_LEARNT, DELAY]])
        return fits and self.waiting.fits(self.count, is_forecast)

    def take_former(self, saved: Mapping[str, Any]) -> None:
        """Take the numbers of a file of an earlier version."""
        for name, number in {"_count": ROWS_LEARNT, "_delay": DELAY}.items():
            self.numbers[number] = check_count(name, saved[name], 0)
        self.plain = self.plain.grown(len(self.columns.names))

    def numbers_as_text(self) -> list[Name]:
        """Return the names whose texts are numbers, if the next row makes a power of 2 rows."""
        n_rows = self.count + 1
        if n_rows < MIN_NUMBER_ROWS or n_rows.bit_count() > 1:
            return []
        return self.columns.numbers_as_text(n_rows >= MIN_WHOLE_NUMBER_ROWS)

    def not_warned_of(self, names: Sequence[Name]) -> str:
        """Return, as text, the names of which the model has not warned; note them in a draft."""
        if not names:
            return ""
        new = sorted_names({*names} - {*self.warned_of})
        self.warned_of = (*self.warned_of, *new)
        return ", ".join(map(repr, new))


def key_of(x: Any) -> int | None:
    """Return the key of a dict, which may run code of the caller; None for what is no sample."""
    with suppress(Exception):
        return sample_key(x) if type(x) is dict else None
    return None


def warn_of_texts(names: str) -> None:
    """Warn of texts in features that have had numbers, if there are any."""
    if names:
        warn_caller(
            "Texts among numbers count as unknown values.",
            f"They are in the features {names}. Convert the values to numbers before the model, "
            "for example with float(), and marks of missing values to None. If a feature is a "
            "category, convert all its values to text with str().",
        )


def warn_of_numbers(names: str) -> None:
    """Warn of texts that are numbers, if there are any."""
    if names:
        warn_caller(
            "Numbers as text are learnt as categories.",
            f"They are in the features {names}. Convert them to numbers before the model, for "
            "example with float(), or with `converters` of river's stream.iter_csv. If they are "
            "codes of categories, put a letter in front to avoid this warning, as in 'c12'.",
        )


class StreamModel(ABC):
    """A model of a stream of dicts in which the order of rows matters."""

    _blank_state: ClassVar[type[Any]]
    """Makes, of a seed, the state of a model that has learnt nothing."""

    takes_gaps = True
    """Whether None is an unknown value."""

    save = save_method
    __copy__, __deepcopy__, __getstate__ = locked_copy, locked_deepcopy, locked_state
    __setattr__ = checked_assignment

    # Files of earlier versions lack it.
    _max_features: int | None = None

    def __init__(self, seed: int, max_features: int | None, max_waiting: int = MAX_WAITING) -> None:
        note_core()
        self.seed = check_count("seed", seed, 0)
        self.max_waiting = check_count("max_waiting", max_waiting, 1)
        self._lock = Lock()
        self._state = self._blank_state(self.seed)
        self.max_features = max_features

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"max_features"}

    @property
    def max_features(self) -> Any:
        """Number of features up to which new ones are learnt; it can be changed."""
        return self._max_features

    @max_features.setter
    def max_features(self, most: int | None) -> None:
        with self._lock:
            if most is not None:
                most = check_count("max_features", most, max(1, len(self.feature_names)))
            self._max_features = most

    @property
    def _state(self) -> Any:
        """The state, in which the forecast of the last sample is stored that C has kept."""
        with self._lock:
            state: ExpertsState = self._known
            waits = None if state.made is None else state.made[0].waits()
            if waits is not None:
                key, forecast = sample_key(waits[0]), np.frombuffer(waits[1])
                new = Stored(key, forecast, state.count)
                calls = state.waiting.plan_add(new, self.max_waiting)
                apply((*calls, (state.made[0].forget,)))  # type: ignore[index]
            return state

    @_state.setter
    def _state(self, state: ExpertsState) -> None:
        vars(self)["_state"] = state

    @property
    def _known(self) -> Any:
        """The state, but for the last sample, whose forecast C may keep."""
        return vars(self)["_state"]

    def _rows_for(self, x: Any) -> Any:
        """Return what predicts a sample in C, or None."""
        state: ExpertsState = vars(self)["_state"]
        if not len(state.waiting):
            return state.known_rows
        if state.numbers.item(DELAY):
            return None
        # An equal sample may have a forecast that waits.
        key = key_of(x)
        return None if key is None or key in self._known.waiting else self._known.known_rows

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved: those of the state, too."""
        state = self._state
        own = vars(self).copy()
        del own["_state"]
        state.plain.learn_pending(state.count)
        return own | {f"_{name}": part for name, part in vars(state).items() if name != "made"}

    def __setstate__(self, saved: Any) -> None:
        # Models of earlier versions have no other maximum.
        saved = {"max_waiting": MAX_WAITING} | attributes_of(saved)
        most = check_count("max_waiting", saved["max_waiting"], 1)
        if saved.get("_max_features") is not None:
            check_count("max_features", saved["_max_features"], 1)
        state = self._blank_state(check_count("seed", saved["seed"], 0))
        names = {f"_{name}": name for name in vars(state) if name != "made"}
        if "_told" in saved:
            saved = saved | {"_warned_of": saved["_told"]}
        restore(state, {name: saved[each] for each, name in names.items() if each in saved})
        if "_numbers" not in saved:
            state.take_former(saved)
        if state.waiting.n_of_kind > most:
            raise ValueError(f"{len(state.waiting)} forecasts wait, and max_waiting is {most}")
        others = {*names, *state.names_of_former}
        own = {each: part for each, part in saved.items() if each not in others}
        restore(self, own | {"_state": state})

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects and counts by which states of the model differ; see `read_whole`."""
        state = self._state
        return state, state.count, *state.waiting.counts.tolist()

    def _change(self, draft: ExpertsState, calls: Calls = ()) -> None:
        """Put a draft in the place of the state, and make its planned changes, at once."""
        apply((*calls, (vars(self).update, {"_state": draft})))

    def _read_asked(self, X: Any) -> list[Sample]:
        """Read rows to predict; warn of columns that X lacks."""
        X = as_numpy(X)
        samples = read_stream_batch(X)
        if samples:
            warn_of_absent(*self._state.columns.differences(X))
        return samples

    def _forecast_one(self, x: Any) -> Floats:
        """Return the forecast for a sample, and store it until its label arrives."""
        if type(x) is KeyedSample:
            return self._forecast_row(*x).forecast
        return self._forecast_sample(x)

    def _forecast_sample(self, x: Any) -> Floats:
        """Return the forecast for a sample without a key."""

        def read() -> tuple[int | None, StreamRow, tuple[Floats, Calls | None]]:
            state = self._state
            if state.count:
                row = state.columns.row(x)
                return sample_key(x), row, (NO_VALUES.values, None)
            check_mapping(x)
            # Values are not checked before the first learnt row.
            with suppress(Exception):
                return sample_key(x), NO_VALUES, state.first_forecast(x)
            return None, NO_VALUES, (state.blank, ())

        key, row = key_of(x), NO_VALUES
        forecast: Floats
        calls: Any = NotImplemented
        state: ExpertsState = self._state
        again = state.waiting.latest(key, state.count) if state.count else None
        if again is None and key is not None:
            forecast, calls = state.forecast_sample(x)
        if again is None and calls is NotImplemented:
            key, row, (forecast, calls) = read_whole(read, self)
            state = shallow_copy(self._state)
            again = state.waiting.latest(key, state.count)
        waiting, count = state.waiting, state.count
        if again is not None:
            apply(waiting.plan_asked(is_stored=False))
            return again
        if calls is None:
            forecast, calls = state.forecast(row)
        texts = state.not_warned_of(row.texts)
        if key is not None:
            stored = waiting.plan_add(Stored(key, forecast, count), self.max_waiting)
            calls = *calls, *stored, *waiting.plan_asked(is_stored=True)
        self._change(state, calls)
        warn_of_texts(texts)
        return forecast

    def _forecast_row(self, x: Any, key: Key) -> Stored:
        """Return the forecast for the sample of a row with a key, and store it with the sample.

        If the row has a forecast, return that one. Raise if the row could never be learnt.
        """

        def read() -> tuple[dict[Name, Any], int]:
            sample = plain_sample(x)
            return sample, sample_key(sample)  # Raises if names have no fixed spelling.

        sample, of_sample = read_whole(read, self)
        state: ExpertsState = shallow_copy(self._state)
        waiting, row = state.waiting, NO_VALUES
        if (key,) in waiting:
            _, known = waiting.of_key(key, self.max_waiting)
            if sample_key(known.sample or {}) != of_sample:
                expected = "the same sample until its label is learnt, or a key of its own"
                remedy = "Pass another key, or drop this one first."
                text = f"key={reprlib.repr(key)}"
                raise refusal(text, "waits for the label of another sample", expected, remedy)
            apply(waiting.plan_asked(is_stored=False))
            is_whole = known.spread == known.spread
            return known if is_whole else known._replace(spread=state.spread)
        forecast, calls = state.forecast_sample(sample)
        if calls is NotImplemented:
            self._extended_and_read(sample)
            row = state.columns.row(sample)
            made = state.forecast(row) if state.count else state.first_forecast(sample)
            forecast, calls = made
        texts = state.not_warned_of(row.texts)
        new = Stored((key,), forecast, state.count, sample, state.spread)
        stored = waiting.plan_add(new, self.max_waiting)
        self._change(state, (*calls, *stored, *waiting.plan_asked(is_stored=True)))
        warn_of_texts(texts)
        return new

    def _extended_and_read(self, x: Any) -> tuple[StreamColumns, StreamRow]:
        """Return the columns with those of a sample, and the sample; raise if they are too many."""
        known = self._state.columns
        columns, row = known.extended_and_read(x)
        if columns is not known:
            check_feature_count(self.max_features, columns.names, len(known.names))
        return columns, row

    def _forecast_many(self, X: Any) -> list[Floats]:
        """Return the forecasts for the rows of a batch, and store them."""

        def read() -> tuple[ExpertsState, list[Floats]]:
            self._read_asked(X)
            later = shallow_copy(self)
            later._state = self._state.with_copies("waiting", "scaler")
            forecasts = [later._forecast_one(x) for x in samples_of(X)]
            return later._state, forecasts

        draft, forecasts = read_whole(read, self)
        self._change(draft)
        return forecasts

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        names: tuple[Name, ...] = self._known.columns.names
        return names

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        count: int = self._known.count
        return count

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the scores or the prediction, and the ten features with the largest effects.

        `onlinels.explain.feature_effects` defines effects, and states when they are approximate.
        """
        # Of a copy, because another thread may teach the model.
        model = copy.copy(self)
        scores, effects, lines = named_scores(model, x), feature_effects(model, x), list[str]()
        for output, score in scores.items():
            lines.append(f"{output}: {score:.6g}")
            strongest = sorted(effects[output].items(), key=lambda each: -abs(each[1]))
            lines += [f"    {name}: {effect:+.6g}" for name, effect in strongest[:N_SHOWN_FEATURES]]
        return "\n".join(lines)

    @property
    def waiting(self) -> WaitingForecasts:
        """The forecasts whose labels have not arrived: their number, the oldest age, their keys.

        The age is the number of rows learnt since the oldest forecast was made.

        Examples
        --------
        >>> from onlinels import StreamClassifier
        >>> model = StreamClassifier()
        >>> for number in range(3):
        ...     answer = model.predict_one({"size": 0.5 * number}, key=f"box {number}")
        >>> model.learn_late("box 1", "large")
        >>> model.waiting
        WaitingForecasts(n_forecasts=2, oldest_age=1)
        >>> model.waiting.keys
        ('box 0', 'box 2')
        """
        with self._lock:
            state: ExpertsState = self._state
            return state.waiting.told(state.count)

    def drop(self, key: Key) -> None:
        """Forget the forecast of a row whose label will not come, and its sample.

        Parameters
        ----------
        key : str, int, bytes, or tuple of them
            The key with which the row was predicted.

        Raises
        ------
        TypeError, ValueError
            If no forecast with this key waits; nothing has changed then.

        Examples
        --------
        >>> from onlinels import StreamClassifier
        >>> model = StreamClassifier()
        >>> model.predict_one({"size": 3.0}, key="box 7")
        >>> model.drop("box 7")
        >>> model.waiting
        WaitingForecasts(n_forecasts=0, oldest_age=0)
        """
        with self._lock:
            state = shallow_copy(self._state)
            number, _ = state.waiting.of_key(read_key(key), self.max_waiting)
            self._change(state, state.waiting.plan_take(number))

    def learn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, key: Key | None = None
    ) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        y : hashable, or number
            The label, which may be new, or the target. None, NaN and pandas.NA raise an error.
        w : float
            Weight of the row, from 0 to 1e5; see the notes of the class.
        key : str, int, bytes, or tuple of them, optional
            The key with which the row was predicted. Then the sample that was predicted is learnt,
            as by `learn_late`, and `x` may be rounded, or scaled in another way.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt, or no forecast with this key waits; nothing has changed
            then.

        Examples
        --------
        >>> from onlinels import StreamClassifier
        >>> model = StreamClassifier()
        >>> model.learn_one({"size": 3.0, "colour": "red", "age": None}, "apple")
        >>> model.predict_one({"size": 4.0})
        'apple'
        """
        with self._lock:
            if key is not None:
                check_mapping(x)
                self.learn_late(key, y, w)
                return
            rows = self._known.known_rows
            if rows is None or rows.learn(x, y, w) is NotImplemented:
                self._learn(x, y, w)

    def learn_late(self, key: Key, y: Any, w: float = 1.0) -> None:
        """Learn a row that was predicted with a key, as it was predicted.

        Parameters
        ----------
        key : str, int, bytes, or tuple of them
            The key with which the row was predicted. Afterwards, another row may have it.
        y : hashable, or number
            The label, which may be new, or the target.
        w : float
            Weight of the row, from 0 to 1e5.

        Raises
        ------
        TypeError, ValueError
            If no forecast with this key waits, or the row cannot be learnt; nothing has changed
            then.

        Examples
        --------
        >>> from onlinels import StreamRegressor
        >>> model = StreamRegressor()
        >>> for hour in range(3):
        ...     answer = model.predict_one({"hour": hour}, key=hour)
        >>> model.learn_late(2, 4.5)
        >>> model.count, model.waiting.keys
        (1, (0, 1))
        """
        with self._lock:
            self._learn(None, y, w, (read_key(key),))

    def _learn(self, x: Any, y: Any, w: Any, key: tuple[Key] | None = None) -> None:
        """Learn a sample, or the sample of a key, by Python code, and warn of what is found."""
        draft, calls, row = self._planned_lesson(x, y, w, key)
        texts = draft.not_warned_of(row.texts)
        numbers = draft.not_warned_of(draft.numbers_as_text())
        self._change(draft, calls)
        draft.waiting.warn_of_labels()
        warn_of_texts(texts)
        warn_of_numbers(numbers)

    def _planned_lesson(
        self, x: Any, y: Any, w: Any, of_row: tuple[Key] | None
    ) -> tuple[ExpertsState, Calls, StreamRow]:
        """Return a draft that learns a sample, the changes that it plans, and the sample.

        If the row has a key, the sample is the one that was predicted with it.
        """
        key: Sought | None = key_of(x) if of_row is None else of_row
        draft = shallow_copy(self._state)
        if key is not None and draft.count:
            sample = x if of_row is None else self._sample_of(of_row)
            calls = draft.learn(sample, y, w, key)
            if calls is not NotImplemented:
                return draft, calls, NO_VALUES
        columns, row, target, key, weight = read_whole(
            lambda: self._read_row(x, y, w, of_row), self
        )
        draft = shallow_copy(self._state)
        target, is_new = draft.make_room(columns, target)
        return draft, draft.learn(row, target, weight, key, is_new), row

    def _sample_of(self, of_row: tuple[Key]) -> dict[Name, Any]:
        """Return the sample that was predicted with a key; raise ValueError if none was."""
        waiting: Waiting = self._state.waiting
        return waiting.of_key(*of_row, self.max_waiting)[1].sample or {}

    def _read_row(
        self, x: Any, y: Any, w: float, of_row: tuple[Key] | None
    ) -> tuple[StreamColumns, StreamRow, Any, Sought, float]:
        """Return the columns with those of a row, the row, its target, its key and its weight."""
        x = x if of_row is None else self._sample_of(of_row)
        columns, row = self._extended_and_read(x)
        weight = 1.0 if type(w) is float and w == 1.0 else check_weight(w, MAX_ROW_WEIGHT)
        key: Sought = sample_key(x) if of_row is None else of_row
        return columns, row, self._read_target(y), key, weight

    @matched_by_position
    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn a mini-batch row by row, with the result of `learn_one` in a loop.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows of features.
        y : array, series or list of n_rows labels, or numbers
            Labels or targets of the rows.
        w : float, or array, series or list of n_rows floats, optional
            Weights of the rows, from 0 to 1e5; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        self._answer_and_learn(None, lambda *_: None, X, y, w)

    def _answer_and_learn(
        self,
        answer: Callable[[Any, Any], Any] | None,
        in_kind: Callable[..., Any],
        X: Any,
        y: Any,
        w: Any,
    ) -> Any:
        """Learn rows, and return the answers of a copy of the model to each before learning it.

        `in_kind` converts the answers, given the input and the classes of a classifier. Raises
        before anything changes if a row cannot be learnt, alone or together with the others.
        """

        def read() -> tuple[Any, Any]:
            rows, answers = as_numpy(X), []
            samples = read_stream_batch(rows) if answer is None else self._read_asked(rows)
            targets = self._read_targets(samples, y)
            weights = read_weights(w, len(samples)).tolist()
            later = shallow_copy(self)
            later._state = self._state.copied()
            if samples:
                later._take_form(form_of(rows))
            for x, target, weight in zip(samples_of(rows), targets, weights, strict=True):
                if answer is not None:
                    answers.append(answer(later, x))
                later.learn_one(x, target, weight)
            converted = in_kind(source_of(rows), answers, getattr(later, "classes", ()))
            return later._state, converted

        with self._lock:
            draft, converted = read_whole(read, self)
            self._change(draft)
            return converted

    @property
    def _columns(self) -> StreamColumns:
        """The columns of the features so far."""
        columns: StreamColumns = self._known.columns
        return columns

    def _take_form(self, layout: Layout) -> None:
        """Note whether rows that are learnt one by one, as dicts, come from a plain array."""
        draft = shallow_copy(self._state)
        draft.columns = draft.columns.in_form(layout)
        self._change(draft)

    @abstractmethod
    def _read_targets(self, samples: list[Sample], y: Any) -> list[Any]:
        """Return labels or numbers; raise if the rows cannot be learnt, all together."""

    @abstractmethod
    def _read_target(self, y: Any) -> Any:
        """Return the target of a row as `ExpertsState.make_room` takes it."""


def read_weights(w: Any, n_rows: int) -> Floats:
    """Return the weights of rows, (n_rows,)."""
    return np.broadcast_to(check_weights(w, n_rows, largest=MAX_ROW_WEIGHT), n_rows)
