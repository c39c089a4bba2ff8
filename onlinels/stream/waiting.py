"""Predictions whose labels have not arrived yet, and how labels find them."""

from __future__ import annotations

import reprlib
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import (
    MAX_VALUE,
    Floats,
    Integers,
    plain_scalar,
    refusal,
    warn_caller,
    wrong_type,
)
from onlinels.core.constants import N_JUDGED_LABELS, N_LABELS
from onlinels.numerics import Calls, is_array, owned, shallow_copy
from onlinels.rows.batch import (
    PLAIN_NAME_TYPES,
    PLAIN_NUMBER_TYPES,
    ArrayFeature,
    Name,
    check_distinct,
    name_text,
    names_of,
    plain_names,
)
from onlinels.saving import savable
from onlinels.saving.description import MAX_NAMES_PER_HASH
from onlinels.stream.features import (
    RunningScaler,
    StreamColumns,
    plain_content,
    read_stream_row,
)

MAX_WAITING = 4096
"""Default maximum number of stored forecasts with a key, and of those without.

A new forecast then replaces the oldest one of its kind.
"""

MAX_KEY_DEPTH, MAX_KEY_SIZE = 20, 4096
"""Largest number of tuples within each other in a key, and of its characters, bytes and entries.

Files hold deeper keys, and ints of more digits, only with effort.
"""

Key = str | int | bytes | tuple["Key", ...]
"""What a user tells rows apart by, in plain types."""

Sought = int | tuple[Key]
"""What a forecast is found by: the hash of its sample, or a tuple of the key of its row."""


def read_key(key: Any) -> Key:
    """Return the key of a row in plain types, or raise TypeError or ValueError.

    Examples
    --------
    >>> read_key(("order", np.int64(7))), read_key(b"7")
    (('order', 7), b'7')
    """
    plain = _plain_key(key, MAX_KEY_DEPTH)
    if _size_of(plain) > MAX_KEY_SIZE:
        expected = f"at most {MAX_KEY_SIZE:,} characters, digits, bytes and entries"
        raise refusal("key", "is too large", expected, KEY_REMEDY)
    return plain


KEY_REMEDY = "Pass a hash of it, such as hashlib.sha256(repr(key).encode()).digest()."
"""What to do with a large key."""


def _size_of(key: Key) -> int:
    """Return the number of characters, bytes and entries of a key, and about that of digits."""
    if isinstance(key, tuple):
        return len(key) + sum(map(_size_of, key))
    return key.bit_length() // 3 if isinstance(key, int) else len(key)


def _plain_key(key: Any, depth: int) -> Key:
    """Return a key in plain types, with at most `depth` tuples within each other."""
    plain = plain_scalar(key)
    if isinstance(plain, tuple):
        if not depth:
            expected = f"at most {MAX_KEY_DEPTH} tuples within each other"
            raise refusal("key", "is too deep", expected, KEY_REMEDY)
        return tuple(_plain_key(each, depth - 1) for each in plain)
    if isinstance(plain, str):
        return str.__str__(plain)
    if isinstance(plain, int) and not isinstance(plain, bool):
        return int.__int__(plain)
    if type(plain) is bytes:
        return plain
    # Equal keys are one, and 1 == 1.0 == True.
    raise wrong_type("key", key, "a str, an int, bytes or a tuple of them", "Pass str(key).")


class KeyedSample(NamedTuple):
    """A sample that is predicted, with the key of its row."""

    x: Any
    key: Key


def keyed(x: Any, key: Any) -> Any:
    """Return a sample with the key of its row; raise TypeError if it is none."""
    return KeyedSample(x, read_key(key))


PLAIN_CONTENTS = frozenset({float, str, type(None)})
"""Types of the values of a plain sample, besides arrays."""


def is_within(content: Any) -> bool:
    """Return whether a plain value is no number, or one that can be learnt."""
    return type(content) is not float or abs(content) <= MAX_VALUE


def plain_sample(x: Any) -> dict[Name, Any]:
    """Return a copy of a sample in plain types, which is learnt as the sample is; or raise.

    Numbers are floats, gaps are None, and arrays have memory of their own.

    Examples
    --------
    >>> plain_sample({"size": 3, "colour": np.str_("red"), "age": float("nan")})
    {'size': 3.0, 'colour': 'red', 'age': None}
    """
    if type(x) is dict and PLAIN_NAME_TYPES.issuperset(map(type, x)):
        # Measured: for 8 floats, a thirtieth of the time of the code below.
        contents = x.values()
        if PLAIN_CONTENTS.issuperset(map(type, contents)) and all(map(is_within, contents)):
            return x.copy()
    layout, numbers, texts, gaps = read_stream_row(x)
    check_distinct(names_of(layout))
    plain: dict[Name, Any] = {}
    for entry in layout:
        n_values = entry.length if isinstance(entry, ArrayFeature) else 1
        values, numbers = numbers[:n_values], numbers[n_values:]
        if not isinstance(entry, ArrayFeature):
            plain[entry] = float(values[0])
        elif entry.are_outputs:
            plain |= zip(entry.names(), values.tolist(), strict=True)
        else:
            plain[entry.name] = values.copy()
    return plain | dict(texts) | dict.fromkeys(gaps)


@dataclass(frozen=True)
class WaitingForecasts:
    """The forecasts of a stream model whose labels have not arrived yet.

    Attributes
    ----------
    n_forecasts : int
        Number of forecasts, with and without a key.
    oldest_age : int
        Number of rows learnt since the oldest of them was made; 0 if there is none.
    keys : tuple of keys
        Keys of the forecasts that have one, the oldest first.
    """

    n_forecasts: int
    oldest_age: int
    keys: tuple[Key, ...] = field(repr=False)


_pack_number = struct.Struct("d").pack

GAP = _pack_number(np.nan)
"""The bytes of a gap."""

NEGATIVE_ZERO, NEGATIVE_NAN = _pack_number(-0.0), _pack_number(-np.nan)
"""The bytes of -0.0, which equals 0.0, and of 0.0 / 0.0 on many machines, which is a gap."""


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
    value = plain_content(value)
    if isinstance(value, str):
        content = str.encode(value, "utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray) and value.ndim:
        content = (value.astype(np.float64) + 0.0).tobytes()
    else:
        return GAP if value is None else _pack_number(float(value) + 0.0)
    return struct.pack("q", len(content)) + content


class Stored(NamedTuple):
    """A forecast that waits for its label, and what belongs to it."""

    # What it is found by, and the number of rows learnt before it.
    key: Sought
    forecast: Floats
    before: int
    # If it has a key: the sample, and the number with which it answers
    # (`onlinels.stream.base.ExpertsState.spread`); NaN in files of earlier versions.
    sample: dict[Name, Any] | None = None
    spread: float = np.nan


TOLERANCE = 32
"""Rows by which the delays of successive labels may differ, and a quarter of the delay.

A forecast of an equal sample that has waited much longer, or less long, belongs to another row.
"""


class Found(NamedTuple):
    """A stored forecast."""

    # Its number in the order of forecasts, and the number of rows learnt since it was made.
    number: int
    forecast: Floats
    delay: int
    # Whether no forecast of an equal sample could be the right one as well.
    is_sure: bool


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
    were_lost: int = 0
    were_unsure: int = 0

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

    def in_progress(self) -> Matches:
        """Return the counts, or new ones if they are those of 500 labels."""
        if self.n_labels < N_JUDGED_LABELS:
            return self
        # If few rows were predicted meanwhile, labels tell nothing new.
        is_old = self.n_asked < NEARLY_ALL_LABELS
        return Matches(
            were_lost=self.are_lost or (self.were_lost and is_old),
            were_unsure=self.are_unsure or (self.were_unsure and is_old),
        )


ASKED, ASKED_AND_STORED, LABEL = (
    np.array(step, dtype=np.int64)
    for step in (Matches(n_asked=1), Matches(n_asked=1, n_stored=1), Matches(n_labels=1))
)
"""Counts of one predicted sample, and of one label."""


def _waiting_fits(waiting: Any) -> bool:
    return len(waiting.columns.names) == len(waiting.scaler.means)


@savable(_waiting_fits)
class Waiting:
    """Store forecasts whose labels have not arrived yet, by `sample_key` or by the key of the row.

    The sample of a row with a key is stored too, because the row is learnt without it.

    Attributes
    ----------
    columns, scaler : StreamColumns, RunningScaler
        Columns and scaler of samples predicted before the first row is learnt.
    counts : ndarray (7,)
        Those of `matches`, to which `onlinels.core.StreamRows` writes.

    Examples
    --------
    >>> from onlinels.core.apply import apply
    >>> waiting, key = Waiting(), sample_key({"a": 1.0})
    >>> apply(waiting.plan_add(Stored(key, np.array([0.3]), before=20), most=9))
    >>> waiting.find(key, count=25)
    Found(number=0, forecast=array([0.3]), delay=5, is_sure=True)
    """

    def __init__(self) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        # The forecasts by number, in the order in which they were made; the numbers of all that
        # forecasts are found by; and the numbers of those without and with a key, as keys.
        self._stored: dict[int, Stored] = {}
        self._numbers: dict[Sought, tuple[int, ...]] = {}
        self._kinds: tuple[dict[int, None], dict[int, None]] = {}, {}
        self._n_made = 0
        self.counts: Integers = np.zeros(len(Matches()), dtype=np.int64)

    @property
    def stored(self) -> dict[int, Stored]:
        """The forecasts by number, with what belongs to them."""
        return self._stored

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, key: Sought) -> bool:
        return key in self._numbers

    @property
    def n_of_kind(self) -> int:
        """Number of forecasts with a key, or of those without, whichever is larger."""
        return max(map(len, self._kinds))

    def told(self, count: int) -> WaitingForecasts:
        """Return how many forecasts wait after `count` rows, for how long, and their keys."""
        ages = (count - each.before for each in self._stored.values())
        keys = (each.key[0] for each in self._stored.values() if isinstance(each.key, tuple))
        return WaitingForecasts(len(self), next(ages, 0), tuple(keys))

    def of_key(self, key: Key, most: int) -> tuple[int, Stored]:
        """Return the number of the forecast of a row with a key, and the forecast.

        `most` is the maximum number of forecasts with a key, for the message of the ValueError that
        is raised if there is no forecast.
        """
        if (key,) not in self:
            remedy = (
                "Its label has been learnt, or the forecast was dropped, or was the oldest of more "
                f"than {most:,} with keys, as `max_waiting` says. Learn a row without a forecast "
                "by learn_one(x, y), without a key."
            )
            expected = f"one of the {len(self):,} forecasts that wait"
            raise refusal(f"key={reprlib.repr(key)}", "has no forecast", expected, remedy)
        (number,) = self._numbers[(key,)]
        return number, self._stored[number]

    def latest(self, key: int | None, count: int) -> Floats | None:
        """Return the forecast of a sample if no row was learnt since it was made, or None.

        The sample is predicted again, for its probabilities for example. Before the first row is
        learnt, equal samples are one only if they follow each other.
        """
        numbers = self._numbers.get(key) if key is not None else None
        if numbers is None or not (count or numbers[-1] == self._n_made - 1):
            return None
        last = self._stored[numbers[-1]]
        return last.forecast if last.before == count else None

    @property
    def matches(self) -> Matches:
        """How the latest labels found their forecasts."""
        return Matches._make(self.counts.tolist())

    def _plan_counts(self, step: Integers) -> Calls:
        """Plan to add to the counts, after those of 500 labels to new ones."""
        calls: Calls = ((np.add, self.counts, step, self.counts),)
        if self.counts.item(N_LABELS) < N_JUDGED_LABELS:
            return calls
        begun = np.array(self.matches.in_progress(), dtype=np.int64)
        return (self.counts.__setitem__, ..., begun), *calls

    def plan_asked(self, is_stored: bool) -> Calls:
        """Plan to count a predicted sample, which may share the forecast of an equal sample."""
        return self._plan_counts(ASKED_AND_STORED if is_stored else ASKED)

    def plan_add(self, new: Stored, most: int) -> Calls:
        """Plan to store a forecast.

        If `most` forecasts wait that have a key as it has, or have none, it replaces the oldest.
        """
        number, left, key = self._n_made, -1, new.key
        of_kind = self._kinds[type(key) is tuple]
        calls: Calls = ()
        if len(of_kind) >= most:
            left = next(iter(of_kind))
            calls = self.plan_take(left)
        numbers = *(each for each in self._numbers.get(key, ()) if each != left), number
        return (
            *calls,
            (self._stored.__setitem__, number, new),
            (self._numbers.__setitem__, key, numbers),
            (of_kind.__setitem__, number, None),
            (vars(self).update, {"_n_made": number + 1}),
        )

    def watched(self, x: Any) -> tuple[Floats, Calls]:
        """Return the scaled values of a sample before the first row; plan to learn its scale."""
        columns, row = self.columns.extended_and_read(x)
        scaler = self.scaler.grown(len(columns.names), columns.columns_of)
        news = {"columns": columns, "scaler": scaler.learnt(row.values, row.gaps)}
        return scaler.transform(row.values), ((vars(self).update, news),)

    def find(self, key: Sought, count: int, delay: int = 0) -> Found | None:
        """Return the stored forecast of a sample or of a row with a key, or None.

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
            lateness = {each: abs(count - self._stored[each].before - delay) for each in numbers}
            near = [each for each in numbers if lateness[each] <= TOLERANCE + delay / 4]
            if not near:
                return None
            is_first = near[0] == next(iter(self._stored))
            number = near[0] if is_first else min(near, key=lateness.__getitem__)
            is_sure = is_first or not lateness[number] or not near[1:]
        found = self._stored[number]
        return Found(number, found.forecast, count - found.before, is_sure)

    def fits(self, count: int, is_sound: Callable[[Stored], bool]) -> bool:
        """Return whether loaded forecasts were made before the last of `count` rows, and are sound.

        Their numbers are sizes and columns when their labels arrive.
        """
        stored = self._stored.values()
        return all(each.before <= count and is_sound(each) for each in stored)

    def plan_take(self, number: int) -> Calls:
        """Plan to remove a forecast by its number."""
        key = self._stored[number].key
        numbers = self._numbers[key]
        of_key: tuple[Any, ...] = self._numbers.pop, key, None
        if numbers[1:]:
            left = tuple(each for each in numbers if each != number)
            of_key = self._numbers.__setitem__, key, left
        of_kind = self._kinds[type(key) is tuple]
        return (self._stored.pop, number, None), of_key, (of_kind.pop, number, None)

    def plan_label(self, key: Sought, found: Found | None, delay: int) -> Calls:
        """Plan to remove the forecast that a label found, and to count the label of a delay."""
        is_unsure = not found.is_sure if found else key in self
        is_lost = found is None and not is_unsure and (len(self) > 0 or delay > 0)
        calls = () if found is None else self.plan_take(found.number)
        if not (is_lost or is_unsure):
            return *calls, *self._plan_counts(LABEL)
        matches = self.matches.in_progress()
        # Rows of a history that are learnt before others are predicted are not lost.
        is_lost = is_lost and matches.n_asked + MANY_LABELS // 2 >= matches.n_labels
        step = Matches(n_labels=1, n_lost=is_lost, n_unsure=is_unsure)
        return *calls, *self._plan_counts(np.array(step, dtype=np.int64))

    def warn_of_labels(self) -> None:
        """Warn, once, if many of the last 500 labels have not found the forecasts of their rows."""
        if self.counts.item(N_LABELS) < N_JUDGED_LABELS:
            return
        matches = self.matches
        if matches.are_lost and not matches.were_lost:
            warn_caller(
                "Many labels do not find the forecasts of their rows.",
                f"Of the last {N_JUDGED_LABELS} rows learnt, {matches.n_lost} had not been "
                f"predicted, and {len(self):,} forecasts of other rows wait. If labels are late, "
                "accuracy suffers. Pass the same x to predict_one and learn_one, with all digits; "
                "put no transformer that learns before the model, which scales features itself. "
                "Or pass a key to both. At most `max_waiting` forecasts wait for labels.",
            )
        if matches.are_unsure and not matches.were_unsure:
            warn_caller(
                "Many rows equal other rows whose labels have not arrived.",
                f"Of the last {N_JUDGED_LABELS} labels, {matches.n_unsure + matches.n_lost} may "
                "belong to the forecast of another row, and accuracy suffers. Add a feature that "
                "tells rows apart, such as a random number that you store with the row, or pass a "
                "key to predict_one and learn_one.",
            )

    def __deepcopy__(self, memo: Any = None) -> Self:
        # The forecasts, columns and scaler are shared, as they do not change.
        new = shallow_copy(self)
        new._stored, new._numbers = self._stored.copy(), self._numbers.copy()
        without, with_key = self._kinds
        new._kinds = without.copy(), with_key.copy()
        new.counts = self.counts.copy()
        return new

    def __getstate__(self) -> dict[str, Any]:
        # Writing one array for each forecast would take a second.
        stored = self._stored.values()
        # Hashes are at least 0.
        hashes = [OF_KEY if isinstance(each.key, tuple) else each.key for each in stored]
        counts, sizes = [each.before for each in stored], [len(each.forecast) for each in stored]
        waiting = np.array([hashes, counts, sizes], dtype=np.intp)
        values = np.concatenate([np.zeros(0), *(each.forecast for each in stored)])
        # Most samples have the same names, which are written once.
        names: dict[tuple[Name, ...], int] = {}
        rows = [self._stored[number] for number in self._kinds[True]]
        keyed_rows = [
            [key[0], names.setdefault((*sample,), len(names)), [*sample.values()]]
            for key, _, _, sample, _ in rows
            if isinstance(key, tuple) and sample is not None
        ]
        spreads = np.array([each.spread for each in rows], dtype=np.float64)
        # A sample that is predicted again leaves no trace.
        matches = np.array(self.matches._replace(n_asked=self.matches.n_stored))
        made = {"_waiting": waiting, "_values": values, "_matches": matches}
        of_keys = {"_keyed": keyed_rows, "_names": [*map(dict.fromkeys, names)]}
        of_keys["_spreads"] = spreads
        return {"columns": self.columns, "scaler": self.scaler} | made | of_keys

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.columns, self.scaler = state["columns"], state["scaler"]
        values, waiting = owned(state["_values"]), state["_waiting"]
        if not (is_array(values, len(values)) and waiting.dtype == np.intp):
            raise ValueError("forecasts are not of float64, or their sizes no integers")
        hashes, counts, sizes = waiting.tolist()
        if min((*counts, *sizes), default=0) < 0 or sum(sizes) != len(values):
            raise ValueError("the sizes of forecasts do not add up to their values")
        # Files of earlier versions have no keys.
        samples = read_keyed(state.get("_keyed", []), state.get("_names", []))
        if hashes.count(OF_KEY) != len(samples):
            raise ValueError("there is not a forecast for every key")
        spreads = owned(state.get("_spreads", np.full(len(samples), np.nan)))
        if not is_array(spreads, len(samples)) or (spreads < 0.0).any():
            raise ValueError("there is not a spread of at least 0 for every key")
        of_keys = zip(samples, samples.values(), spreads.tolist(), strict=True)
        for number, (of_sample, count, size) in enumerate(zip(hashes, counts, sizes, strict=True)):
            key, *of_key = next(of_keys) if of_sample == OF_KEY else (of_sample,)
            self._stored[number] = Stored(key, values[:size], count, *of_key)
            values = values[size:]
            self._numbers[key] = *self._numbers.get(key, ()), number
            self._kinds[type(key) is tuple][number] = None
        self._n_made = len(hashes)
        # Files of earlier versions have no counts.
        self.counts = np.array(state.get("_matches", Matches()), dtype=np.int64)
        if self.counts.shape != (len(Matches()),) or min(self.counts) < 0:
            raise ValueError("the counts of labels and forecasts are not those of a stream model")


OF_KEY = -1
"""What a file has in place of the hash of a sample whose row has a key."""


def read_keyed(keyed: Any, names: Any) -> dict[tuple[Key], dict[Name, Any]]:
    """Return the samples of a file by their keys, or raise.

    Each of `keyed` is a key, the place of the names of its sample in `names`, which are dicts, and
    the values.
    """
    keys = [(read_key(key),) for key, _, _ in keyed]
    # Ints that share a hash can be chosen to slow a dict down.
    if max(Counter(map(hash, keys)).values(), default=0) > MAX_NAMES_PER_HASH:
        raise ValueError(f"more than {MAX_NAMES_PER_HASH} keys have the same hash")
    samples = (dict(zip(names[place], values, strict=True)) for _, place, values in keyed)
    found = dict(zip(keys, map(plain_sample, samples), strict=True))
    if len(found) < len(keys):
        raise ValueError("a key occurs twice")
    return found
