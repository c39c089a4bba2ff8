"""Forecasts stored until their labels arrive, each under a hash of its sample."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats
from onlinels.core.reference import apply
from onlinels.numerics import Calls, owned, shallow_copy
from onlinels.rows.batch import Name, feature_key, key_text, plain_names
from onlinels.saving import savable
from onlinels.stream.features import RunningScaler
from onlinels.stream.rows import StreamColumns, is_gap

MAX_WAITING_FORECASTS = 4096
"""Maximum number of stored forecasts; a new forecast then replaces the oldest one."""

_pack_number = struct.Struct("d").pack

GAP = _pack_number(np.nan)
"""The bytes of a gap."""

NEGATIVE_ZERO = _pack_number(-0.0)
"""The bytes of -0.0, which equals 0.0."""

PackedForecast = tuple[Floats, int]
"""A packed forecast, (n,), and the number of rows learnt before it."""


def sample_key(x: Mapping[Any, Any]) -> int:
    """Return a hash of 63 bits of a sample's names and values, the same in every process.

    The order of names, the types of equal names and values, and the sign of zeros do not matter;
    None, NaN and pandas.NA are equal. In a sample of numbers alone the sign of NaN matters. The
    sample must be valid for a stream model. Measured: 2 microseconds for 8 numbers, and 12 more for
    a set of names that is not among the latest 256.

    Examples
    --------
    >>> sample_key({"a": 1, "b": None}) == sample_key({"b": float("nan"), "a": 1.0})
    True
    """
    if not x:
        return 0
    pick, pack, names = _reader_of(plain_names(x))
    values = pick(x)
    try:
        packed = pack(*values)
        if NEGATIVE_ZERO in packed:
            # Adding 0 changes nothing but the sign of zeros.
            packed = (np.frombuffer(packed) + 0.0).tobytes()
    except struct.error:
        packed = b"".join(map(_packed, values))
    digest = blake2b(packed, key=names, digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@lru_cache(maxsize=256)
def _reader_of(names: tuple[Name, ...]) -> tuple[Callable[..., Any], Callable[..., bytes], bytes]:
    """Return a function that selects values by sorted name, one that packs them, and a hash."""
    by_text = {key_text(feature_key(name)): name for name in names}
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
    if isinstance(value, str):
        content = str.encode(value, "utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray) and value.ndim:
        content = (value.astype(np.float64) + 0.0).tobytes()
    else:
        return GAP if is_gap(value) else _pack_number(float(value) + 0.0)
    return struct.pack("q", len(content)) + content


@savable()
class Waiting:
    """Store packed forecasts whose labels have not arrived yet, by `sample_key`.

    Attributes
    ----------
    columns, scaler : StreamColumns, RunningScaler
        Columns and scaler of samples predicted before the first row is learnt.

    Examples
    --------
    >>> waiting, key = Waiting(), sample_key({"a": 1.0})
    >>> waiting.add(key, np.array([0.3]), count=20)
    >>> waiting.find(key, count=25)
    (array([0.3]), 5)
    """

    def __init__(self) -> None:
        self.columns, self.scaler = StreamColumns(), RunningScaler()
        # In the order in which they were made.
        self._waiting: dict[int, PackedForecast] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: int) -> bool:
        return key in self._waiting

    def plan_add(self, key: int, forecast: Floats, count: int) -> Calls:
        """Plan to store a forecast that was made after `count` rows were learnt."""
        # The latest of equal samples counts. A sample may be predicted again, for its probabilities
        # for example, or may never get a label: with an older forecast, labels would seem late that
        # are not. If equal samples return before their labels, the delay is underestimated.
        waiting, left = self._waiting, key
        if key not in waiting and len(waiting) >= MAX_WAITING_FORECASTS:
            left = next(iter(waiting))
        return (waiting.pop, left, None), (waiting.__setitem__, key, (forecast, count))

    def add(self, key: int, forecast: Floats, count: int) -> None:
        """Store a forecast that was made after `count` rows were learnt."""
        apply(self.plan_add(key, forecast, count))

    def watch(self, x: Mapping[Any, Any], made_of_features: Callable[[Floats], Floats]) -> None:
        """Store a sample predicted before the first learnt row, in place; the scaler learns it.

        Nothing happens if the sample is stored already, or has values that cannot be learnt.
        """
        with suppress(Exception):
            key = sample_key(x)
            if key in self._waiting:
                return
            columns, row = self.columns.extended_and_read(x)
            scaler = self.scaler.grown(len(columns.names), columns.columns_of)
            forecast = made_of_features(scaler.transform(row.values))
            scaler = scaler.learnt(row.values, row.gaps)
            watched = {"columns": columns, "scaler": scaler}
            apply((*self.plan_add(key, forecast, 0), (vars(self).update, watched)))

    def with_first(self, changed: Callable[[Floats], Floats]) -> Self:
        """Return a copy in which the forecasts made before the first learnt row are changed."""
        new = copy.deepcopy(self)
        for key, (values, count) in self._waiting.items():
            if not count:
                new._waiting[key] = changed(values), 0
        new.columns, new.scaler = StreamColumns(), RunningScaler()
        return new

    def find(self, key: int, count: int) -> PackedForecast | None:
        """Return a stored forecast and the number of rows learnt since, or None.

        `count` is the number of rows learnt in all.
        """
        found = self._waiting.get(key)
        return None if found is None else (found[0], count - found[1])

    def plan_take(self, key: int) -> Calls:
        """Plan to remove a forecast."""
        return ((self._waiting.pop, key, None),)

    def __deepcopy__(self, memo: Any = None) -> Self:
        # The forecasts, columns and scaler are shared, as they do not change.
        new = shallow_copy(self)
        new._waiting = self._waiting.copy()
        return new

    def __getstate__(self) -> dict[str, Any]:
        # Writing one array for each forecast would take a second.
        forecasts = [forecast for forecast, _ in self._waiting.values()]
        counts, sizes = [count for _, count in self._waiting.values()], [*map(len, forecasts)]
        waiting = np.array([[*self._waiting], counts, sizes], dtype=np.intp)
        values = np.concatenate([np.zeros(0), *forecasts])
        return vars(self) | {"_waiting": waiting, "_values": values}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.columns, self.scaler, self._waiting = state["columns"], state["scaler"], {}
        values = owned(state["_values"])
        keys, counts, sizes = state["_waiting"].tolist()
        if min(sizes, default=0) < 0 or sum(sizes) != len(values):
            raise ValueError("the sizes of forecasts do not add up to their values")
        for key, count, size in zip(keys, counts, sizes, strict=True):
            self._waiting[key], values = (values[:size], count), values[size:]
