"""Predictions whose labels have not arrived yet, and how labels find them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import Floats, Integers, warn_caller
from onlinels.core.constants import N_JUDGED_LABELS, N_LABELS
from onlinels.numerics import Calls, is_array, owned, shallow_copy
from onlinels.rows.batch import PLAIN_NUMBER_TYPES, Name, name_text, plain_names
from onlinels.saving import savable
from onlinels.stream.features import RunningScaler, StreamColumns, plain_content

MAX_WAITING_FORECASTS = 4096
"""Maximum number of stored forecasts; a new forecast then replaces the oldest one."""

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
    """Store forecasts whose labels have not arrived yet, by `sample_key`.

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
    >>> apply(waiting.plan_add(key, np.array([0.3]), count=20))
    >>> waiting.find(key, count=25)
    Found(number=0, forecast=array([0.3]), delay=5, is_sure=True)
    """

    def __init__(self) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        # The key, the forecast and the number of rows learnt before it, by number, in the order in
        # which they were made; and the numbers of every key.
        self._stored: dict[int, tuple[int, Floats, int]] = {}
        self._numbers: dict[int, tuple[int, ...]] = {}
        self._n_made = 0
        self.counts: Integers = np.zeros(len(Matches()), dtype=np.int64)

    @property
    def stored(self) -> dict[int, tuple[int, Floats, int]]:
        """The forecasts with their keys and the numbers of rows learnt before them, by number."""
        return self._stored

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, key: int) -> bool:
        return key in self._numbers

    def latest(self, key: int | None, count: int) -> Floats | None:
        """Return the forecast of a sample if no row was learnt since it was made, or None.

        The sample is predicted again, for its probabilities for example. Before the first row is
        learnt, equal samples are one only if they follow each other.
        """
        numbers = self._numbers.get(key) if key is not None else None
        if numbers is None or not (count or numbers[-1] == self._n_made - 1):
            return None
        _, forecast, before = self._stored[numbers[-1]]
        return forecast if before == count else None

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

    def plan_add(self, key: int, forecast: Floats, count: int) -> Calls:
        """Plan to store a forecast that was made after `count` rows were learnt."""
        number, left = self._n_made, -1
        calls: Calls = ()
        if len(self._stored) >= MAX_WAITING_FORECASTS:
            left = next(iter(self._stored))
            calls = self._plan_take(left)
        numbers = *(each for each in self._numbers.get(key, ()) if each != left), number
        return (
            *calls,
            (self._stored.__setitem__, number, (key, forecast, count)),
            (self._numbers.__setitem__, key, numbers),
            (vars(self).update, {"_n_made": number + 1}),
        )

    def watched(self, x: Any) -> tuple[Floats, Calls]:
        """Return the scaled values of a sample before the first row; plan to learn its scale."""
        columns, row = self.columns.extended_and_read(x)
        scaler = self.scaler.grown(len(columns.names), columns.columns_of)
        news = {"columns": columns, "scaler": scaler.learnt(row.values, row.gaps)}
        return scaler.transform(row.values), ((vars(self).update, news),)

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

    def fits(self, count: int, is_sound: Callable[[Floats], bool]) -> bool:
        """Return whether loaded forecasts were made before the last of `count` rows, and are sound.

        Their numbers are sizes and columns when their labels arrive.
        """
        return all(before <= count and is_sound(each) for _, each, before in self._stored.values())

    def _plan_take(self, number: int) -> Calls:
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
        calls = () if found is None else self._plan_take(found.number)
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
                f"At most {MAX_WAITING_FORECASTS:,} forecasts wait for labels.",
            )
        if matches.are_unsure and not matches.were_unsure:
            warn_caller(
                "Many rows equal other rows whose labels have not arrived.",
                f"Of the last {N_JUDGED_LABELS} labels, {matches.n_unsure + matches.n_lost} may "
                "belong to the forecast of another row, and accuracy suffers. Add a feature that "
                "tells rows apart, such as a random number that you store with the row.",
            )

    def __deepcopy__(self, memo: Any = None) -> Self:
        # The forecasts, columns and scaler are shared, as they do not change.
        new = shallow_copy(self)
        new._stored, new._numbers = self._stored.copy(), self._numbers.copy()
        new.counts = self.counts.copy()
        return new

    def __getstate__(self) -> dict[str, Any]:
        # Writing one array for each forecast would take a second.
        keys, known, counts = zip(*self._stored.values(), strict=True) if self._stored else [()] * 3
        waiting = np.array([keys, counts, [*map(len, known)]], dtype=np.intp)
        values = np.concatenate([np.zeros(0), *known])
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
        self.counts = np.array(state.get("_matches", Matches()), dtype=np.int64)
        if self.counts.shape != (len(Matches()),) or min(self.counts) < 0:
            raise ValueError("the counts of labels and forecasts are not those of a stream model")
