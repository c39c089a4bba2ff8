"""From a model to a description that JSON knows, with arrays beside it, and back."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from functools import cache
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.saving.fields import (
    CONSTANTS,
    FACTORIES,
    KINDS,
    KINDS_BY_NAME,
    PLAIN,
    Kind,
    check_fields,
    is_plain,
)

Node = Any
"""A value as JSON knows it: plain values and lists are themselves, others {"kind": …}."""

DTYPES = {np.dtype(code).newbyteorder("<").str for code in "?bBhHiIlLqQefd"}
"""Kinds of numbers that arrays may hold."""

MAPPINGS: dict[type, str] = {
    dict: "dict",
    Counter: "counter",
    defaultdict: "defaultdict",
}
"""What descriptions call them."""

LONGEST_KEY = 40
"""Characters of a key that errors, and names of arrays, tell; others are numbered."""

MOST_VALUES = 8
"""Values for each byte of a description, counted as often as they occur."""

MOST_ALIKE = 100
"""Names of one hash in a dict: those of texts are drawn, but those of numbers may be chosen."""

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
        # By identity; what has a name or number stays alive, so that nothing else takes its place.
        self._names: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

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
        made = type(value)
        if made in KINDS:
            return self._object(value, KINDS[made], path)
        if made in PLAIN:
            return value
        if made is list:
            return [self.node(each, f"{path}.{place}") for place, each in enumerate(value)]
        if made is np.ndarray:
            return self._array(value, path)
        if made in MAPPINGS:
            return {MAPPINGS[made]: self._pairs(value, path), **_factory(value, path)}
        return {key: self.node(part, path) for key, part in _parts(value, path).items()}

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
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        return {"object": kind.name, "state": nodes}

    def _array(self, array: Matrix, path: str) -> Node:
        little = array.dtype.newbyteorder("<")
        if little.str not in DTYPES:
            raise TypeError(_refusal(array, path))
        # Paths differ, as keys do.
        name = self._names.setdefault(id(array), path)
        self._alive.append(array)
        self.arrays[name] = array.astype(little, copy=False)
        return {"array": name}

    def _pairs(self, found: dict[Any, Any], path: str) -> list[list[Node]]:
        pairs = []
        for place, (key, value) in enumerate(zip(_keys(found), found.values(), strict=True)):
            # In errors, and as the name of an array, a key that can be one says more.
            said = isinstance(key, str) and key.isidentifier() and len(key) <= LONGEST_KEY
            name = key if said else place
            pairs.append([self.node(key, f"{path}.{place}"), self.node(value, f"{path}.{name}")])
        return pairs


def _factory(found: dict[Any, Any], path: str) -> dict[str, str]:
    if not isinstance(found, defaultdict):
        return {}
    name = getattr(found.default_factory, "__name__", "")
    if name not in FACTORIES or FACTORIES[name] is not found.default_factory:
        raise TypeError(_refusal(found, path))
    return {"of": name}


def _parts(value: Any, path: str) -> dict[str, Any]:
    """Return simpler values that stand for one; `MADE` has how the first key makes it of them."""
    if type(value) in PARTS:
        return PARTS[type(value)](value)
    if type(value) is datetime:
        if type(value.tzinfo) not in (type(None), timezone) or value.fold:
            # Of a time zone with rules, isoformat tells the offset of this one moment.
            raise TypeError(f"{path} is {value!r}, expected UTC, a fixed offset or no time zone.")
        return {"datetime": value.isoformat()}
    if isinstance(value, np.generic) and value.dtype.newbyteorder("<").str in DTYPES:
        return {"scalar": value.dtype.newbyteorder("<").str, "is": value.item()}
    for name, only in CONSTANTS.items():
        if value is only:
            return {"constant": name}
    raise TypeError(_refusal(value, path))


PARTS: dict[type, Callable[[Any], dict[str, Any]]] = {
    tuple: lambda value: {"tuple": list(value)},
    set: lambda value: {"set": sorted(_keys(value), key=repr)},
    deque: lambda value: {"deque": list(value), "most": value.maxlen},
    timedelta: lambda value: {"timedelta": [value.days, value.seconds, value.microseconds]},
    date: lambda value: {"date": value.isoformat()},
    bytes: lambda value: {"bytes": value.hex()},
}


def _odd_one(values: Any) -> str:
    """Say which of labels or names is none that can be saved, "" if none is odd."""
    for value in values if isinstance(values, (dict, tuple)) else ():
        if isinstance(value, tuple) and (odd := _odd_one(value)):
            return odd
        if not (is_plain(value) or type(value) in (np.ndarray, *KINDS)):
            return f"{repr(value)[:80]} of type {type(value).__name__}"
    return ""


def _refusal(value: Any, path: str) -> str:
    return f"{path} is {repr(value)[:80]} of type {type(value).__name__}. {REMEDY}"


class Builder:
    """Make values of descriptions: only what is known is made, each object once, and checked.

    Parameters
    ----------
    read_array : callable
        Returns the array of a name.
    n_described : int
        Bytes of the description, which bound how many values it may stand for.
    """

    def __init__(self, read_array: Callable[[str], Matrix], n_described: int) -> None:
        self._read_array = cache(read_array)
        self._most_values = MOST_VALUES * n_described
        self._n_values = 0
        # Each with the number of values in it, were what occurs twice two.
        self._made: list[tuple[Any, int]] = []

    def value(self, node: Node) -> Any:
        """Return what a node describes.

        Raises
        ------
        ValueError, TypeError, LookupError
            If it describes nothing that is known.
        """
        self._count(1)
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.value(each) for each in node]
            case {"object": str() as name, "state": dict() as state}:
                return self._object(KINDS_BY_NAME[name], state)
            case {"same": int() as number} if 0 <= number < len(self._made):
                value, n_values = self._made[number]
                self._count(n_values)
                return value
            case {"array": str() as name}:
                return self._read_array(name)
            case dict() if node:
                make = MADE[next(iter(node))]
                return make(*map(self.value, node.values()))
        raise ValueError(f"it describes nothing by {str(node)[:80]}")

    def _count(self, n_values: int) -> None:
        """Refuse objects in objects, again and again, that would take for ever to go through."""
        self._n_values += n_values
        if self._n_values > self._most_values:
            raise ValueError("its objects hold each other too often")

    def _object(self, kind: Kind, nodes: Mapping[str, Node]) -> Any:
        before = self._n_values
        state = {name: self.value(node) for name, node in nodes.items()}
        check_fields(kind.name, kind.fields, state)
        value = kind.make(state)
        if not kind.check(value):
            raise ValueError(f"the parts of its {kind.name} do not fit")
        self._made.append((value, self._n_values - before))
        return value


def _table(pairs: list[list[Any]]) -> dict[Any, Any]:
    keys = _keys(key for key, _ in pairs)
    return dict(zip(keys, (value for _, value in pairs), strict=True))


def _keys(found: Iterable[Any]) -> list[Any]:
    """Return keys for a dict or set, none of which many share a hash: that would take long."""
    keys = list(found)
    for key in keys:
        if not (is_plain(key) or isinstance(key, np.generic)):
            raise TypeError(_refusal(key, "a name or key"))
    if keys and max(Counter(map(hash, keys)).values()) > MOST_ALIKE:
        raise TypeError(f"More than {MOST_ALIKE} of its names have one hash. {REMEDY}")
    return keys


def _scalar(dtype: str, value: Any) -> Any:
    if dtype not in DTYPES:
        raise ValueError(f"it has a number of type {dtype[:80]}")
    return np.dtype(dtype).newbyteorder("=").type(value)


MADE: dict[str, Callable[..., Any]] = {
    "tuple": tuple,
    "set": lambda said: set(_keys(said)),
    "deque": deque,
    "timedelta": lambda said: timedelta(*said),
    "date": date.fromisoformat,
    "bytes": bytes.fromhex,
    "datetime": datetime.fromisoformat,
    "scalar": _scalar,
    "constant": CONSTANTS.__getitem__,
    "dict": _table,
    "counter": lambda said: Counter(_table(said)),
    "defaultdict": lambda said, of: defaultdict(FACTORIES[of], _table(said)),
}
"""What is made of the values that a description has, by its first key."""
