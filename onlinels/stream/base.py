"""Base of the models of dict streams: a plain expert, and forecasts that wait for late labels."""

from __future__ import annotations

import copy
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import (
    Floats,
    check_count,
    check_weights,
    checked_assignment,
    quiet,
    warn_caller,
)
from onlinels.core import note_core
from onlinels.core.apply import apply
from onlinels.explain import feature_effects, named_scores
from onlinels.linear.model import N_SHOWN_FEATURES
from onlinels.locks import Lock
from onlinels.numerics import (
    Calls,
    enlarged,
    is_array,
    is_count,
    owned,
    read_whole,
    restore,
    shallow_copy,
)
from onlinels.rows.batch import (
    PLAIN_NUMBER_TYPES,
    Layout,
    Name,
    as_numpy,
    form_of,
    matched_by_position,
    name_text,
    plain_names,
    samples_of,
    sorted_names,
    source_of,
    warn_of_absent,
)
from onlinels.rows.labels import Classes
from onlinels.saving import locked_copy, locked_deepcopy, locked_state, savable, save_method
from onlinels.stream.features import (
    Activations,
    RunningScaler,
    Sample,
    StreamColumns,
    StreamRow,
    plain_content,
    read_stream_batch,
)

MAX_WAITING_FORECASTS = 4096
"""Maximum number of stored forecasts; a new forecast then replaces the oldest one."""

_pack_number = struct.Struct("d").pack

GAP = _pack_number(np.nan)
"""The bytes of a gap."""

NEGATIVE_ZERO, NEGATIVE_NAN = _pack_number(-0.0), _pack_number(-np.nan)
"""The bytes of -0.0, which equals 0.0, and of 0.0 / 0.0 on many machines, which is a gap."""

AnyForecast = Any
"""A forecast with a method `packed`, or the numbers (n,) that this method returns."""


def sample_key(x: Mapping[Any, Any]) -> int:
    """Return a hash of 63 bits of a sample's names and values, the same in every process.

    The order of names, the types of equal names and values, and the sign of zeros do not matter;
    all gaps are equal (`onlinels.checks.is_missing`). The sample must be valid for a stream model.
    Measured: 2 microseconds for 8 numbers, and 12 more for a set of names that is not among the
    latest 256.

    Examples
    --------
    >>> sample_key({"a": 1, "b": None}) == sample_key({"b": float("nan"), "a": 1.0})
    True
    """
    if not x:
        return 0
    pick, pack, names = _reader_of(plain_names(x))
    values = pick(x)
    packed = b""
    # Other types are converted first: masked entries, for example, warn when they become floats.
    if PLAIN_NUMBER_TYPES.issuperset(map(type, values)):
        with suppress(struct.error):  # An integer beyond float64.
            packed = pack(*values)
    if NEGATIVE_ZERO in packed or NEGATIVE_NAN in packed:
        numbers = np.frombuffer(packed) + 0.0  # Changes nothing but the sign of zeros.
        packed = np.where(numbers == numbers, numbers, np.nan).tobytes()
    packed = packed or b"".join(map(_packed, values))
    digest = blake2b(packed, key=names, digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@lru_cache(maxsize=256)
def _reader_of(names: tuple[Name, ...]) -> tuple[Callable[..., Any], Callable[..., bytes], bytes]:
    """Return a function that selects values by sorted name, one that packs them, and a hash."""
    by_text = {name_text(name): name for name in names}
    ordered = [by_text[text] for text in sorted(by_text)]
    # With a single name, itemgetter returns no tuple.
    pick = itemgetter(*ordered) if ordered[1:] else lambda x: (x[ordered[0]],)
    of_names = blake2b("\0".join(sorted(by_text)).encode("utf-8", "surrogatepass"))
    return pick, struct.Struct(f"{len(ordered)}d").pack, of_names.digest()


def _packed(value: Any) -> bytes:
    """Return the bytes of a number (as packed with others), a text, an array or a gap."""
    if type(value) is float and value == value:
        # A third of the time of the general case below, as measured.
        return _pack_number(value + 0.0)
    value = plain_content(value)
    if isinstance(value, str):
        content = str.encode(value, "utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray) and value.ndim:
        content = (value.astype(np.float64) + 0.0).tobytes()
    else:
        return GAP if value is None else _pack_number(float(value) + 0.0)
    return struct.pack("q", len(content)) + content


TOLERANCE = 32
"""Rows by which the delays of successive labels may differ, and a quarter of the delay.

A forecast of an equal sample that has waited much longer, or less long, belongs to another row.
"""


class Found(NamedTuple):
    """A stored forecast."""

    # Its number in the order of forecasts, and the number of rows learnt since it was made.
    number: int
    forecast: AnyForecast
    delay: int
    # Whether no forecast of an equal sample could be the right one as well.
    is_sure: bool


N_JUDGED_LABELS = 500
"""Number of labels after which the model looks at how many of them found their forecasts."""

MANY_LABELS, NEARLY_ALL_LABELS = 50, 450
"""Number of these labels of which the model warns, and one that allows for a few late labels."""


class Matches(NamedTuple):
    """How the labels since the last multiple of 500 found their forecasts.

    A label without a forecast is no fault if rows are learnt that were never predicted. So they
    are counted as lost only if about as many rows were predicted as learnt.

    Examples
    --------
    >>> Matches(n_labels=500, n_lost=60, n_asked=520, n_stored=520).are_lost
    True
    >>> Matches(n_labels=500, n_lost=500, n_asked=20, n_stored=20).are_lost
    False
    """

    n_labels: int = 0
    # Labels without a forecast while others wait or labels are late, and labels that met several
    # forecasts of equal samples that are about as late as the last label was, and none just so.
    n_lost: int = 0
    n_unsure: int = 0
    # Predicted samples; those among them that did not share the forecast of an equal sample.
    n_asked: int = 0
    n_stored: int = 0
    # Whether the model has warned of lost or unsure labels, and they have not become few since.
    were_lost: bool = False
    were_unsure: bool = False

    @property
    def are_unsure(self) -> bool:
        """Whether many labels may have found, or taken, the forecast of another row."""
        shared = self.n_stored < NEARLY_ALL_LABELS <= self.n_asked
        return self.n_unsure >= MANY_LABELS or (shared and self.n_lost >= MANY_LABELS)

    @property
    def are_lost(self) -> bool:
        """Whether many labels found no forecast, although their rows were predicted."""
        # The forecast of a row is also lost if another label took it.
        are_asked = self.n_stored >= NEARLY_ALL_LABELS
        return self.n_lost >= MANY_LABELS and are_asked and not self.are_unsure

    def with_label(self, is_lost: bool, is_unsure: bool) -> Matches:
        """Return the counts with those of one more label."""
        known = self._in_progress()
        # Rows of a history that are learnt before others are predicted are not lost.
        is_lost = is_lost and known.n_asked + MANY_LABELS // 2 >= known.n_labels
        return known._replace(
            n_labels=known.n_labels + 1,
            n_lost=known.n_lost + is_lost,
            n_unsure=known.n_unsure + is_unsure,
        )

    def with_sample(self, is_stored: bool) -> Matches:
        """Return the counts with those of one more predicted sample."""
        known = self._in_progress()
        return known._replace(n_asked=known.n_asked + 1, n_stored=known.n_stored + is_stored)

    def _in_progress(self) -> Matches:
        """Return the counts, or new ones if they are those of 500 labels."""
        if self.n_labels < N_JUDGED_LABELS:
            return self
        # If few rows were predicted meanwhile, labels tell nothing new.
        is_old = self.n_asked < NEARLY_ALL_LABELS
        return Matches(
            were_lost=self.are_lost or (self.were_lost and is_old),
            were_unsure=self.are_unsure or (self.were_unsure and is_old),
        )


def _waiting_fits(waiting: Any) -> bool:
    return len(waiting.columns.names) == len(waiting.scaler.means)


@savable(_waiting_fits)
class Waiting:
    """Store forecasts whose labels have not arrived yet, by `sample_key`.

    Attributes
    ----------
    columns, scaler : StreamColumns, RunningScaler
        Columns and scaler of samples predicted before the first row is learnt.
    matches : Matches
        How the latest labels found their forecasts.

    Examples
    --------
    >>> waiting, key = Waiting(), sample_key({"a": 1.0})
    >>> waiting.add(key, np.array([0.3]), count=20)
    >>> waiting.find(key, count=25)
    Found(number=0, forecast=array([0.3]), delay=5, is_sure=True)
    """

    def __init__(self) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        # The key, the forecast and the number of rows learnt before it, by number, in the order in
        # which they were made; and the numbers of every key.
        self._stored: dict[int, tuple[int, AnyForecast, int]] = {}
        self._numbers: dict[int, tuple[int, ...]] = {}
        self._n_made = 0
        self.matches = Matches()

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states differ; see `read_whole`."""
        return self.columns, self.scaler, self._n_made

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, key: int) -> bool:
        return key in self._numbers

    def plan_add(self, key: int, forecast: AnyForecast, count: int) -> Calls:
        """Plan to store a forecast that was made after `count` rows were learnt.

        It replaces the last forecast of an equal sample if no row was learnt since: the sample is
        predicted again, for its probabilities for example.
        """
        numbers, number, left = self._numbers.get(key, ()), self._n_made, -1
        is_stored = True
        if numbers and self._stored[numbers[-1]][2] == count and (count or self.is_last(key)):
            left, is_stored = numbers[-1], False
        elif len(self._stored) >= MAX_WAITING_FORECASTS:
            left = next(iter(self._stored))
        calls = self.plan_take(left) if left >= 0 else ()
        all_numbers: tuple[int, ...] = (number,)
        if numbers:
            all_numbers = *(each for each in numbers if each != left), number
        return (
            *calls,
            (self._stored.__setitem__, number, (key, forecast, count)),
            (self._numbers.__setitem__, key, all_numbers),
            (
                vars(self).update,
                {"_n_made": number + 1, "matches": self.matches.with_sample(is_stored)},
            ),
        )

    def add(self, key: int, forecast: AnyForecast, count: int) -> None:
        """Store a forecast that was made after `count` rows were learnt."""
        apply(self.plan_add(key, forecast, count))

    def count_again(self) -> None:
        """Count a sample that shares the stored forecast of an equal sample."""
        self.matches = self.matches.with_sample(is_stored=False)

    def watch(self, x: Mapping[Any, Any], forecast_of: Callable[[Floats], AnyForecast]) -> None:
        """Store a sample predicted before the first learnt row, in place; the scaler learns it.

        Nothing happens if the sample was the last one, or has values that cannot be learnt.
        """
        with suppress(Exception):
            read = read_whole(lambda: (sample_key(x), self.columns.extended_and_read(x)), self)
            key, (columns, row) = read
            if self.is_last(key):
                return
            scaler = self.scaler.grown(len(columns.names), columns.columns_of)
            forecast = forecast_of(scaler.transform(row.values))
            scaler = scaler.learnt(row.values, row.gaps)
            watched = {"columns": columns, "scaler": scaler}
            apply((*self.plan_add(key, forecast, 0), (vars(self).update, watched)))

    def with_first(self, changed: Callable[[AnyForecast], AnyForecast]) -> Self:
        """Return a copy in which the forecasts made before the first learnt row are changed."""
        new = copy.deepcopy(self)
        for number, (key, forecast, count) in self._stored.items():
            if not count:
                new._stored[number] = key, changed(forecast), 0
        new.columns, new.scaler = StreamColumns(), RunningScaler()
        return new

    def find(self, key: int, count: int, delay: int = 0) -> Found | None:
        """Return the stored forecast of a sample, or None.

        Labels mostly arrive in the order of their rows. Of several forecasts for equal samples, one
        is found that is about as late as the last row was: the one that has waited longest of all
        forecasts, or the one whose delay is nearest.

        Parameters
        ----------
        count : int
            Number of rows learnt in all.
        delay : int
            Delay of the last row.
        """
        numbers = self._numbers.get(key)
        if numbers is None:
            return None
        number, is_sure = numbers[-1], True
        if numbers[0] != number:
            lateness = {each: abs(count - self._stored[each][2] - delay) for each in numbers}
            near = [each for each in numbers if lateness[each] <= TOLERANCE + delay / 4]
            if not near:
                return None
            is_first = near[0] == next(iter(self._stored))
            number = near[0] if is_first else min(near, key=lateness.__getitem__)
            is_sure = is_first or not lateness[number] or not near[1:]
        _, forecast, before = self._stored[number]
        return Found(number, forecast, count - before, is_sure)

    def latest(self, key: int, count: int) -> AnyForecast | None:
        """Return the forecast of a sample if no row was learnt since it was made, or None."""
        numbers = self._numbers.get(key)
        stored = None if numbers is None else self._stored[numbers[-1]]
        return stored[1] if stored is not None and stored[2] == count else None

    def is_last(self, key: int) -> bool:
        """Return whether the last forecast of all is one of a sample."""
        return key in self and self._numbers[key][-1] == self._n_made - 1

    def fits(self, count: int, is_sound: Callable[[Floats], bool]) -> bool:
        """Return whether loaded forecasts were made before the last of `count` rows, and are sound.

        Their numbers are sizes and columns when their labels arrive.
        """
        return all(before <= count and is_sound(each) for _, each, before in self._stored.values())

    def forecast(self, number: int) -> AnyForecast:
        """Return the forecast of a number."""
        return self._stored[number][1]

    def plan_take(self, number: int) -> Calls:
        """Plan to remove a forecast by its number."""
        key = self._stored[number][0]
        numbers = self._numbers[key]
        of_key: tuple[Any, ...] = self._numbers.pop, key, None
        if numbers[1:]:
            left = tuple(each for each in numbers if each != number)
            of_key = self._numbers.__setitem__, key, left
        return (self._stored.pop, number, None), of_key

    def plan_label(self, key: int, found: Found | None, delay: int) -> Calls:
        """Plan to remove the forecast that a label found, and to count the label of a delay."""
        is_unsure = not found.is_sure if found else key in self
        is_lost = found is None and not is_unsure and (len(self) > 0 or delay > 0)
        matches = self.matches.with_label(is_lost, is_unsure)
        calls = () if found is None else self.plan_take(found.number)
        return (*calls, (vars(self).update, {"matches": matches}))

    def __deepcopy__(self, memo: Any = None) -> Self:
        # The forecasts, columns and scaler are shared, as they do not change.
        new = shallow_copy(self)
        new._stored, new._numbers = self._stored.copy(), self._numbers.copy()
        return new

    def __getstate__(self) -> dict[str, Any]:
        # Writing one array for each forecast would take a second.
        keys, known, counts = zip(*self._stored.values(), strict=True) if self._stored else [()] * 3
        forecasts = [each if isinstance(each, np.ndarray) else each.packed() for each in known]
        waiting = np.array([keys, counts, [*map(len, forecasts)]], dtype=np.intp)
        values = np.concatenate([np.zeros(0), *forecasts])
        # A sample that is predicted again leaves no trace.
        matches = np.array(self.matches._replace(n_asked=self.matches.n_stored))
        made = {"_waiting": waiting, "_values": values, "_matches": matches}
        return {"columns": self.columns, "scaler": self.scaler} | made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.columns, self.scaler = state["columns"], state["scaler"]
        values, waiting = owned(state["_values"]), state["_waiting"]
        if not (is_array(values, len(values)) and waiting.dtype == np.intp):
            raise ValueError("forecasts are not of float64, or their sizes no integers")
        keys, counts, sizes = waiting.tolist()
        if min((*counts, *sizes), default=0) < 0 or sum(sizes) != len(values):
            raise ValueError("the sizes of forecasts do not add up to their values")
        for number, (key, count, size) in enumerate(zip(keys, counts, sizes, strict=True)):
            self._stored[number], values = (key, values[:size], count), values[size:]
            self._numbers[key] = *self._numbers.get(key, ()), number
        self._n_made = len(keys)
        # Files of earlier versions have no counts.
        counts = np.asarray(state.get("_matches", Matches()), dtype=np.intp).tolist()
        if len(counts) != len(Matches()) or min(counts) < 0:
            raise ValueError("the counts of labels and forecasts are not those of a stream model")
        self.matches = Matches(*counts)


MIN_NUMBER_ROWS, MIN_WHOLE_NUMBER_ROWS = 8, 64
"""Numbers of rows from which texts that are numbers are told of, if all are whole from the second.

Whole numbers may be identifiers, of which one in some tens begins with a zero.
"""

MAX_ROW_WEIGHT = 1e5
"""Largest weight of a row."""

IN_PLACE = "_memories", "_cells", "_softmaxes", "_waiting", "_plain"
"""Attributes that change in place; all others are replaced."""

MAX_PLAIN_VALUE = 1e140
"""Limit of a value: its square times the largest weight stays within float64 in all sums."""

MIN_UNIT_EXPONENT = -500
"""Least power of 2 as a unit, so that no value in this unit exceeds float64."""


def units_of(values: Floats) -> Floats:
    """Return the power of 2 above every value other than 0.

    Examples
    --------
    >>> units_of(np.array([3.0, -0.2]))
    array([4.  , 0.25])
    """
    return np.ldexp(1.0, np.maximum(np.frexp(values)[1], MIN_UNIT_EXPONENT))


def _plain_fits(expert: Any) -> bool:
    row, _, weight = expert._owed or ({}, None, 0.0)
    numbers = *row.values(), weight, expert._limit
    fits = is_array(expert._factors, len(expert._factors))
    return fits and all(type(number) is float for number in numbers)


@savable(_plain_fits)
class PlainExpert:
    """A linear model of all rows on the raw features, in units of their own.

    The unit of a feature is the power of 2 above its first value other than 0, because the model
    selects its ridge between standardised and given units. The model learns a row when the next row
    is predicted or learnt. So a stream model that learns a row replaces its expert together with
    all other attributes, and the model inside is the same.

    Attributes
    ----------
    model : LeastSquaresClassifier or LeastSquaresRegressor
        The model, which selects its ridge; features are named by their columns.

    Examples
    --------
    >>> from onlinels import LeastSquaresRegressor
    >>> expert, row = PlainExpert(LeastSquaresRegressor()), np.array([3.0])
    >>> expert = expert.knowing(row)
    >>> expert = expert.owing(expert.read(row, means=np.zeros(1)), 5.0, w=1.0)
    >>> expert.score({0: 0.5}, count=1)
    array([5.])
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        # What turns values into units, 0 if unknown, and a row that is not learnt. Classes are
        # named by their columns: code of the labels does not run in the middle of a call.
        self._factors, self._limit = np.zeros(0), MAX_PLAIN_VALUE
        self._owed: tuple[dict[int, float], Any, float] | None = None

    def __getstate__(self) -> dict[str, Any]:
        model, state = shallow_copy(self.model), self.model._state
        # Without the solution, which the model keeps or not, depending on how it was predicted: no
        # solution is of -1 rows.
        model._state = replace(state, following=state.following.saved(-1))
        return vars(self) | {"model": model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore(self, state)
        held = self.model._state
        if held.counts is None:
            return
        classes = held.outputs
        # In files of earlier versions, classes are named by their labels.
        if self._owed is not None:
            row, y, w = self._owed
            self._owed = row, classes.index.get(y, len(classes)), w
        held.following.drop_rows()
        self.model._state = replace(held, outputs=Classes().extended(range(len(classes))))

    def knowing(self, row: Floats) -> Self:
        """Return the expert with units for the values of a row (n_features,)."""
        if len(row) == len(self._factors) and self._factors.all():
            return self
        new, known = shallow_copy(self), enlarged(self._factors, len(row))
        is_first = (known == 0.0) & (row != 0.0) & (row == row)
        new._factors = np.where(is_first, 1.0 / units_of(np.where(is_first, row, 1.0)), known)
        # Sum of squares of a row whose values need no limit.
        new._limit = MAX_PLAIN_VALUE / max(1.0, float(new._factors.max(initial=0.0))) ** 2
        return new

    def read(self, row: Floats, means: Floats) -> dict[int, float]:
        """Return values in units by column: the mean if unknown, the largest limited.

        Features without a unit, which are new, are left out.
        """
        factors = self._factors
        row, means = row[: len(factors)], means[: len(factors)]
        scaled = row * factors
        if not row.dot(row) <= self._limit:
            scaled = np.where(row == row, scaled, means * factors)
            scaled = np.clip(scaled, -MAX_PLAIN_VALUE, MAX_PLAIN_VALUE)
        return dict(enumerate(scaled.tolist()))

    def owing(self, row: dict[int, float], y: Any, w: float) -> Self:
        """Return the expert with a row to learn; the model has learnt all earlier rows."""
        new = shallow_copy(self)
        new._owed = row, y, w
        return new

    def catch_up(self, count: int) -> None:
        """Let the model learn the last row, unless it has learnt `count` rows."""
        if self._owed is not None:
            # Whether a row was scored before the next decides how weights follow rows: always one
            # is, so that predictions leave no trace.
            self.score(self._owed[0], count)

    @quiet
    def score(self, row: dict[int, float], count: int) -> Floats:
        """Return the scores (n_outputs,) of a row after the last of `count` rows is learnt."""
        if self._owed is not None and self.model.count < count:
            self.model.learn_one(*self._owed)
        scores: Floats = self.model._row_scores(row)
        self._owed = None  # No row is kept once it is learnt.
        return scores


def stream_is_sound(model: Any, kind: type, n_labels: int = 0) -> bool:
    """Return whether the parts that loaded models of streams share fit each other."""
    check_count("seed", model.seed, 0)
    n_features, made = len(model._columns.names), model._activations
    fits = n_features == len(model._scaler.means) == made.n_features and made.n_labels == n_labels
    fits = fits and len(model._plain._factors) <= n_features and type(model._plain.model) is kind
    return fits and is_count(model._count) and is_count(model._delay)


class StreamModel(ABC):
    """A model of a stream of dicts in which the order of rows matters."""

    _memories: list[Any]
    _plain: PlainExpert
    # Forecasts whose labels have not arrived yet.
    _waiting: Waiting

    # Features of whose texts the model has warned; files of earlier versions have none.
    _told: tuple[Name, ...] = ()

    takes_gaps = True
    """Whether None is an unknown value."""

    save = save_method
    __copy__, __deepcopy__, __getstate__ = locked_copy, locked_deepcopy, locked_state
    __setattr__ = checked_assignment

    def __init__(self, seed: int) -> None:
        note_core()
        self.seed = check_count("seed", seed, 0)
        self._lock = Lock()
        self._columns = StreamColumns()
        self._scaler = RunningScaler()
        self._activations = Activations(seed)
        # Rows learnt.
        self._count = 0
        # What is made of other attributes, and the last predicted row: the number of rows before,
        # its number of names, its values and its key.
        self._seen: Any = None
        self._asked: tuple[int, int, bytes, int] | None = None

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved."""
        self._catch_up()
        return vars(self) | {"_seen": None, "_asked": None}

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        return self._columns, self._waiting, *self._waiting._version, self._count

    def _key_of(self, x: Mapping[Any, Any], row: StreamRow) -> int:
        """Return the key of a sample, which was often predicted just now."""
        # Measured: a tenth of the time of a new hash.
        if self._asked is not None:
            *asked, key = self._asked
            if asked == [self._count, len(x), row.values.tobytes()]:
                return key
        return sample_key(x)

    def _warn_of_matches(self) -> None:
        """Warn, once, if many of the last 500 labels have not found the forecasts of their rows."""
        matches = self._waiting.matches
        if matches.n_labels < N_JUDGED_LABELS:
            return
        if matches.are_lost and not matches.were_lost:
            warn_caller(
                "Many labels do not find the forecasts of their rows.",
                f"Of the last {N_JUDGED_LABELS} rows learnt, {matches.n_lost} had not been "
                f"predicted, and {len(self._waiting):,} forecasts of other rows wait. If labels "
                "are late, accuracy suffers. Pass the same x to predict_one and learn_one, with "
                "all digits; put no transformer that learns before the model, which scales "
                f"features itself. At most {MAX_WAITING_FORECASTS:,} forecasts wait for labels.",
            )
        if matches.are_unsure and not matches.were_unsure:
            warn_caller(
                "Many rows equal other rows whose labels have not arrived.",
                f"Of the last {N_JUDGED_LABELS} labels, {matches.n_unsure + matches.n_lost} may "
                "belong to the forecast of another row, and accuracy suffers. Add a feature that "
                "tells rows apart, such as a random number that you store with the row.",
            )

    def _row(self, x: Any) -> StreamRow:
        """Return a sample to predict as a row; warn of texts among numbers."""
        row = self._columns.row(x)
        self._warn_of_texts(row.texts)
        return row

    def _warn_of_texts(self, names: Sequence[Name]) -> None:
        """Warn, once for each feature, of texts in features that have had numbers."""
        if names and (told := self._untold(names)):
            warn_caller(
                "Texts among numbers count as unknown values.",
                f"They are in the features {told}. Convert the values to numbers before the model, "
                "for example with float(), and marks of missing values to None. If a feature is a "
                "category, convert all its values to text with str().",
            )

    def _warn_of_numbers(self) -> None:
        """Warn, once for each feature, of texts that are numbers, at powers of 2 rows."""
        if self._count < MIN_NUMBER_ROWS or self._count.bit_count() > 1:
            return
        names = self._columns.numbers_as_text(self._count >= MIN_WHOLE_NUMBER_ROWS)
        if names and (told := self._untold(names)):
            warn_caller(
                "Numbers as text are learnt as categories.",
                f"They are in the features {told}. Convert them to numbers before the model, for "
                "example with float(), or with `converters` of river's stream.iter_csv. If they "
                "are codes of categories, put a letter in front to avoid this warning, as in "
                "'c12'.",
            )

    def _untold(self, names: Sequence[Name]) -> str:
        """Return, as text, the names of which the model has not warned, and note them."""
        new = sorted_names({*names} - {*self._told})
        self._told = (*self._told, *new)
        return ", ".join(map(repr, new))

    def _catch_up(self) -> None:
        """Let the plain expert learn the last row."""
        self._plain.catch_up(self._count)

    def _read_asked(self, X: Any) -> list[Sample]:
        """Read rows to predict; warn of columns that X lacks."""
        X = as_numpy(X)
        samples = read_stream_batch(X)
        if samples:
            warn_of_absent(*self._columns.differences(X))
        return samples

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features so far; a text is named (name, text)."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt."""
        return self._count

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

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        y : hashable, or number
            The label, which may be new, or the target. None, NaN and pandas.NA raise an error.
        w : float
            Weight of the row, from 0 to 1e5; see the notes of the class.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> from onlinels import StreamClassifier
        >>> model = StreamClassifier()
        >>> model.learn_one({"size": 3.0, "colour": "red", "age": None}, "apple")
        >>> model.predict_one({"size": 4.0})
        'apple'
        """
        with self._lock:
            read = read_whole(lambda: self._read_row(x, y, w), self)
            self._learn(*read)
            self._warn_of_texts(read[1].texts)
            self._warn_of_numbers()

    def _read_row(
        self, x: Mapping[Any, Any], y: Any, w: float
    ) -> tuple[StreamColumns, StreamRow, Any, int, float]:
        """Return the arguments of `_learn`."""
        columns, row = self._columns.extended_and_read(x)
        # For speed: 0.1 us for most weights instead of 4, as measured.
        weight = 1.0 if type(w) is float and w == 1.0 else read_weights(w, 1).item()
        return columns, row, self._read_target(y), self._key_of(x, row), weight

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
            self._catch_up()
            later = shallow_copy(self)
            own = {name: vars(self)[name] for name in IN_PLACE if hasattr(self, name)}
            vars(later).update(copy.deepcopy(own), _seen=None, _asked=None)
            if samples:
                later._take_form(form_of(rows))
            for x, target, weight in zip(samples_of(rows), targets, weights, strict=True):
                if answer is not None:
                    answers.append(answer(later, x))
                later.learn_one(x, target, weight)
            return later, in_kind(source_of(rows), answers, getattr(later, "classes", ()))

        with self._lock:
            later, converted = read_whole(read, self)
            self._become(later)
            return converted

    def _take_form(self, layout: Layout) -> None:
        """Note whether rows that are learnt one by one, as dicts, come from a plain array."""
        self._columns = self._columns.in_form(layout)

    def _become(self, draft: Self, calls: Calls = ()) -> None:
        """Take all attributes of a draft, and make further planned changes, at once."""
        apply((*calls, (object.__setattr__, self, "__dict__", vars(draft))))

    @abstractmethod
    def _read_targets(self, samples: list[Sample], y: Any) -> list[Any]:
        """Return labels or numbers; raise if the rows cannot be learnt, all together."""

    @abstractmethod
    def _read_target(self, y: Any) -> Any:
        """Return the target of a row as `_learn` takes it."""

    @abstractmethod
    def _learn(self, columns: StreamColumns, row: StreamRow, y: Any, key: int, w: float) -> None:
        """Learn a row of weight w in given columns; its key may have a stored forecast."""

    def _extend_columns(self, columns: StreamColumns) -> None:
        """Make room in a draft of the model for the scales of more columns."""
        self._scaler = self._scaler.grown(len(columns.names), columns.columns_of)
        self._columns, self._seen = columns, None


def read_weights(w: Any, n_rows: int) -> Floats:
    """Return the weights of rows, (n_rows,)."""
    return np.broadcast_to(check_weights(w, n_rows, largest=MAX_ROW_WEIGHT), n_rows)
