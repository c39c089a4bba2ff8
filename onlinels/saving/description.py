"""From a model to a description that JSON knows, with arrays beside it, and back."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from functools import cache, partial
from math import isfinite
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

DTYPES = {np.dtype(kind + size).newbyteorder("<").str for kind in "iu" for size in "1248"} | {
    "|b1",
    "<f2",
    "<f4",
    "<f8",
}
"""Kinds of numbers that arrays may hold."""

MAPPINGS: dict[type, str] = {
    dict: "dict",
    OrderedDict: "ordered",
    Counter: "counter",
    defaultdict: "defaultdict",
}
"""What descriptions call them."""

MOST_BITS = 63
"""Whole numbers up to this size are written in decimal digits, others in hexadecimal ones."""

MOST_NESTED = 200
"""Values in values: more would be too deep for those who read them."""

LONGEST_NAME = 200
"""Characters of an array's name; one at a longer path is numbered."""

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
        self._depth = 0

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
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise TypeError("model holds itself, or values that are nested too deeply.")
        node = self._node(value, path)
        self._depth -= 1
        return node

    def _node(self, value: Any, path: str) -> Node:
        made = type(value)
        if made in KINDS:
            return self._object(value, KINDS[made], path)
        if made in PLAIN:
            return _plain(value)
        if made is list:
            return [self.node(each, f"{path}.{place}") for place, each in enumerate(value)]
        if made is np.ndarray:
            return self._array(value, path)
        if made in MAPPINGS:
            return {MAPPINGS[made]: self._pairs(value, path), **self._factory(value, path)}
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
        plain = path.isascii() and len(path) <= LONGEST_NAME and path not in self.arrays
        name = self._names.setdefault(id(array), path if plain else f"array {len(self.arrays)}")
        self._alive.append(array)
        self.arrays[name] = array.astype(little, copy=False)
        return {"array": name}

    def _pairs(self, found: dict[Any, Any], path: str) -> list[list[Node]]:
        pairs = []
        for place, (key, value) in enumerate(found.items()):
            # In errors, and as the name of an array, a key that can be one says more.
            name = key if isinstance(key, str) and key.isidentifier() else place
            pairs.append([self.node(key, f"{path}.{place}"), self.node(value, f"{path}.{name}")])
        return pairs

    def _factory(self, found: dict[Any, Any], path: str) -> dict[str, Node]:
        if not isinstance(found, defaultdict):
            return {}
        made: Any = found.default_factory
        plain = not isinstance(made, partial) or made.keywords
        of, values = (made, ()) if plain else (made.func, made.args)
        for name, known in FACTORIES.items():
            if of is known:
                return {"of": name, "with": self.node(list(values), path)}
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
    set: lambda value: {"set": sorted(value, key=repr)},
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
            raise ValueError(f"it has {str(key)[:80]} for a name")
    ((_, most),) = Counter(map(hash, keys)).most_common(1) or [(0, 0)]
    if most > MOST_ALIKE:
        raise ValueError(f"{most} of its names have one hash")
    return keys


def _default(pairs: list[list[Any]], of: str, values: list[Any]) -> defaultdict[Any, Any]:
    factory = partial(FACTORIES[of], *values) if values else FACTORIES[of]
    return defaultdict(factory, _table(pairs))


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
    "text": lambda said: bytes.fromhex(said).decode("utf-8", "surrogatepass"),
    "int": lambda said: int(said, 16),
    "float": float,
    "dict": _table,
    "ordered": lambda said: OrderedDict(_table(said)),
    "counter": lambda said: Counter(_table(said)),
    "defaultdict": _default,
}
"""What is made of the values that a description has, by its first key."""
