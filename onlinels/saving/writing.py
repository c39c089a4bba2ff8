"""From a model to a description that JSON knows, and the arrays beside it."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, timezone
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.saving.container import DTYPES
from onlinels.saving.fields import PLAIN, check_fields, is_plain
from onlinels.saving.kinds import KINDS, Kind

Node = Any
"""A value as JSON knows it: plain values and lists are themselves, others {"kind": …}."""

MOST_BITS = 63
"""Whole numbers up to this size are written in decimal digits, others in hexadecimal ones."""


LONGEST_NAME = 200
"""Characters of an array's name; one at a longer path is numbered."""

REMEDY = (
    "It cannot be saved. Labels, names and settings are to be of str, int, bool, float, None or "
    "tuples of these, and steps of a pipeline those that README names: convert it, or save the "
    "classifier alone."
)


class Writer:
    """Describe a value, and gather its arrays; what occurs twice is described once.

    Examples
    --------
    >>> writer = Writer()
    >>> writer.node(("a", np.ones(2)), "model")
    {'tuple': ['a', {'array': 'model.1'}]}
    >>> writer.arrays
    {'model.1': array([1., 1.])}
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Matrix] = {}
        self._numbers: dict[int, int] = {}
        self._names: dict[int, str] = {}
        # What has a number stays alive, so that no other object takes its place.
        self._described: list[Any] = []

    def node(self, value: Any, path: str) -> Node:
        """Return a value's description.

        Parameters
        ----------
        value : object
        path : str
            Where it is, for errors and as names of arrays.

        Raises
        ------
        TypeError
            If it, or something in it, cannot be saved, or is not as its class is known to be.
        """
        kind = KINDS.by_class.get(type(value))
        if kind is not None:
            return self._object(value, kind, path)
        if type(value) in PLAIN:
            return _plain(value)
        describe = _DESCRIBED.get(type(value))
        if describe is not None:
            return describe(self, value, path)
        if isinstance(value, np.generic) and value.dtype.newbyteorder("<").str in DTYPES:
            return {"scalar": value.dtype.newbyteorder("<").str, "is": _plain(value.item())}
        for name, only in KINDS.constants.items():
            if value is only:
                return {"constant": name}
        raise TypeError(_refusal(value, path))

    def _object(self, value: Any, kind: Kind, path: str) -> Node:
        if id(value) in self._numbers:
            return {"same": self._numbers[id(value)]}
        state = kind.take(value)
        try:
            check_fields(path, kind.fields, state)
        except ValueError as error:
            odd = next(filter(None, map(_odd_one, state.values())), "")
            raise TypeError(f"{path} holds {odd}. {REMEDY}" if odd else str(error)) from error
        # In the order of the fields: that of attributes depends on what came to be when.
        nodes = {name: self.node(state[name], f"{path}.{name}") for name in kind.fields}
        # Parts come before the whole, here and when they are made again.
        number = self._numbers[id(value)] = len(self._described)
        self._described.append(value)
        return {"object": kind.name, "number": number, "state": nodes}

    def _array(self, array: Matrix, path: str) -> Node:
        if array.dtype.kind not in "biuf":
            raise TypeError(_refusal(array, path))
        plain = path.isascii() and len(path) <= LONGEST_NAME and path not in self.arrays
        name = self._names.setdefault(id(array), path if plain else f"array {len(self.arrays)}")
        self.arrays[name] = array
        return {"array": name}

    def _list(self, values: Iterable[Any], path: str) -> list[Node]:
        return [self.node(value, f"{path}.{place}") for place, value in enumerate(values)]

    def _pairs(self, found: dict[Any, Any], path: str) -> list[list[Node]]:
        pairs = []
        for place, (key, value) in enumerate(found.items()):
            # In errors, and as the name of an array, a key that can be one says more.
            name = key if isinstance(key, str) and key.isidentifier() else place
            pairs.append([self.node(key, f"{path}.{place}"), self.node(value, f"{path}.{name}")])
        return pairs

    def _datetime(self, value: datetime, path: str) -> Node:
        if type(value.tzinfo) not in (type(None), timezone) or value.fold:
            # Of a time zone with rules, isoformat tells the offset of this one moment.
            raise TypeError(f"{path} is {value!r}, expected UTC, a fixed offset or no time zone.")
        return {"datetime": value.isoformat()}

    def _set(self, values: set[Any], path: str) -> Node:
        return {"set": self._list(sorted(values, key=repr), path)}

    def _deque(self, values: deque[Any], path: str) -> Node:
        return {"deque": self._list(values, path), "most": values.maxlen}

    def _defaultdict(self, found: defaultdict[Any, Any], path: str) -> Node:
        factory: Any = found.default_factory
        of, values = (
            (factory.func, factory.args)
            if isinstance(factory, partial) and not factory.keywords
            else (factory, ())
        )
        for name, known in KINDS.factories.items():
            if of is known:
                pairs = self._pairs(found, path)
                return {"defaultdict": pairs, "of": name, "with": self._list(values, path)}
        raise TypeError(_refusal(found, path))


def _plain(value: Any) -> Node:
    if type(value) is str and not value.isascii() and any("\ud800" <= x <= "\udfff" for x in value):
        # Halves of characters, of which JSON would make whole ones.
        return {"text": value.encode("utf-8", "surrogatepass").hex()}
    if type(value) is float and not isfinite(value):
        return {"float": str(value)}
    if type(value) is int and value.bit_length() > MOST_BITS:
        return {"int": hex(value)}
    return value


def _odd_one(values: Any) -> str:
    """Say which of labels or names is none that can be saved, "" if none is odd."""
    for value in values if isinstance(values, (dict, tuple)) else ():
        if isinstance(value, tuple) and (odd := _odd_one(value)):
            return odd
        if not (is_plain(value) or type(value) in (np.ndarray, *KINDS.by_class)):
            return f"{repr(value)[:80]} of type {type(value).__name__}"
    return ""


def _refusal(value: Any, path: str) -> str:
    shown = repr(value)
    return f"{path} is {shown[:80]} of type {type(value).__name__}. {REMEDY}"


_DESCRIBED: dict[type, Callable[..., Node]] = {
    np.ndarray: Writer._array,
    list: Writer._list,
    tuple: lambda writer, value, path: {"tuple": writer._list(value, path)},
    dict: lambda writer, value, path: {"dict": writer._pairs(value, path)},
    OrderedDict: lambda writer, value, path: {"ordered": writer._pairs(value, path)},
    Counter: lambda writer, value, path: {"counter": writer._pairs(value, path)},
    defaultdict: Writer._defaultdict,
    set: Writer._set,
    deque: Writer._deque,
    timedelta: lambda writer, value, path: {
        "timedelta": [value.days, value.seconds, value.microseconds]
    },
    datetime: Writer._datetime,
    date: lambda writer, value, path: {"date": value.isoformat()},
    bytes: lambda writer, value, path: {"bytes": value.hex()},
}
"""How values of types that are no kinds of their own are described."""
