"""Convert a model to a JSON description with separate arrays, and back."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, timezone
from functools import cache
from io import BytesIO
from itertools import count
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.numerics import owned
from onlinels.saving.classes import (
    MAX_COMPUTED_BYTES,
    PLAIN_TYPES,
    TYPES,
    SavableClass,
    in_plain_types,
    is_plain,
    kind_named,
    kind_of,
    state_of,
)

Node = Any
"""A JSON value: plain values and lists stand for themselves, other values are {"kind": …}."""

DTYPE_CODES = {np.dtype(code).newbyteorder("<").str for code in "?bBhHiIlLqQefd"}
NUMPY_TYPES = {code: np.dtype(code).type for code in DTYPE_CODES}
"""Types of numbers that can be saved, by their codes."""

MAX_VALUES_PER_BYTE = 8
"""Most values per byte of a description; a value that occurs twice counts twice."""

MAX_NAMES_PER_HASH = 100
"""Most names in a dict with the same hash.

The hashes of text are random, but numbers with the same hash can be chosen to slow a dict down.
"""

MAX_HEADER_BYTES = 1_000
"""Most bytes of an array's header, which numpy reads as a Python literal. It writes some 100."""

SAVING_REMEDY = (
    "It cannot be saved. Labels, names and settings must be of type str, int, bool, float, None or "
    "tuple, and steps must be among those on the guide's page on saving: pass str(label) or "
    "str(name), and leave out other steps."
)


class Writer:
    """Describe a value and collect its arrays; an object that occurs twice is described once.

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
        # By identity. The objects are kept alive, so that no other object gets the same id.
        self._described: dict[int, tuple[Any, Node]] = {}
        self._numbers = count()
        self._most_computed = MAX_COMPUTED_BYTES

    def node(self, value: Any, path: str) -> Node:
        """Return the description of a value; its path appears in errors and names its array."""
        if id(value) in self._described:
            return self._described[id(value)][1]
        if type(value) in PLAIN_TYPES:
            return value
        if type(value) is list:
            return [self.node(each, f"{path}.{place}") for place, each in enumerate(value)]
        try:
            kind = kind_of(type(value))
            return self._other(value, path) if kind is None else self._object(kind, value, path)
        except ValueError as error:
            # Names of private attributes mean nothing to readers of the error.
            place = path.rpartition("._")[0] or path
            raise TypeError(f"{place} holds {error}. {SAVING_REMEDY}") from error

    def _other(self, value: Any, path: str) -> Node:
        # All numbers of numpy are of one kind, and so are all types.
        several = (kind for kind in (np.generic, type) if isinstance(value, kind))
        made = next(several, type(value))
        if made is np.ndarray:
            # Paths are unique, because keys are.
            self.arrays[path] = value.astype(_known_dtype(value), copy=False)
            self._described[id(value)] = value, {"array": path}
            return {"array": path}
        if made in CONTAINERS_BY_TYPE:
            name, take = CONTAINERS_BY_TYPE[made]
            return {name: self.node(take(value), path)}
        # For example a member of a StrEnum, whose class may not exist where the file is read.
        plain = in_plain_types(value)
        if plain is value or not is_plain(plain):
            raise ValueError(_typed(value))
        return self.node(plain, path)

    def _object(self, kind: SavableClass, value: Any, path: str) -> Node:
        state = kind.take(value)
        n_computed = kind.computed(state)
        if n_computed > self._most_computed:
            n_computed, state = 0, state_of(value)
        self._most_computed -= n_computed
        # In the order of the names, because the order of attributes depends on the past.
        nodes = {name: self.node(state[name], f"{path}.{name}") for name in sorted(state)}
        # Parts are numbered before the whole, here and when they are loaded.
        self._described[id(value)] = value, {"same": next(self._numbers)}
        return {"object": kind.name, "state": nodes}


def _known_dtype(value: Any) -> str:
    little = value.dtype.newbyteorder("<").str
    if little not in NUMPY_TYPES:
        raise ValueError(_typed(value))
    return str(little)


def _typed(value: Any) -> str:
    # In one line: river's models have several.
    return f"{' '.join(repr(value).split())[:80]} of type {type(value).__name__}"


def _type_name(value: type) -> str:
    name = f"{value.__module__}.{value.__qualname__}"
    if TYPES.get(name) is not value:
        raise ValueError(f"the type {name}, expected one of {', '.join(TYPES)}")
    return name


def _moment(value: datetime) -> str:
    if type(value.tzinfo) not in (type(None), timezone) or value.fold:
        # For a time zone with rules, isoformat keeps only the offset at this moment.
        raise ValueError(f"{value!r}, expected UTC, a fixed offset or no time zone")
    return value.isoformat()


class Builder:
    """Make values from descriptions: only those of known classes, and each object once."""

    def __init__(self, read_array: Callable[[str], Matrix], n_described: int) -> None:
        # Owned at once: otherwise all arrays would be in memory twice, until the last is read.
        self._read_array = cache(lambda name: owned(read_array(name)))
        self._most_values = MAX_VALUES_PER_BYTE * n_described
        self._n_values = 0
        self._most_computed = MAX_COMPUTED_BYTES
        # Each object with its number of values, in which repeated values count each time.
        self._made: list[tuple[Any, int]] = []

    @property
    def parts(self) -> list[Any]:
        """All objects that were made so far."""
        return [made for made, _ in self._made]

    def value(self, node: Node) -> Any:
        """Return the value of a node, or raise if it is unknown."""
        # Objects that repeatedly hold each other would take exponential time to check.
        self._n_values += 1
        if self._n_values > self._most_values:
            raise ValueError("its objects hold each other too often")
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.value(each) for each in node]
            case {"object": str() as name, "state": dict() as state}:
                return self._object(name, state)
            case {"same": int() as number} if 0 <= number < len(self._made):
                value, n_values = self._made[number]
                self._n_values += n_values
                return value
            case {"array": str() as name}:
                return self._read_array(name)
            case dict() if len(node) == 1:
                ((name, said),) = node.items()
                return CONTAINERS[name][2](self.value(said))
        raise ValueError(f"it describes an unknown value {str(node)[:80]}")

    def _object(self, name: str, nodes: dict[str, Node]) -> Any:
        kind = kind_named(name)
        if kind is None:
            raise ValueError(f"it describes an object of an unknown class {name[:80]}")
        before = self._n_values
        state = {name: self.value(node) for name, node in nodes.items()}
        self._most_computed -= kind.computed(state)
        if self._most_computed < 0:
            raise ValueError("it leaves out more numbers than may be computed")
        value = kind.make(state)
        if not kind.check(value):
            raise ValueError(f"the parts of its {kind.name} contradict each other")
        self._made.append((value, self._n_values - before))
        return value


def read_npy(content: bytes) -> Matrix:
    """Read an array of numbers in numpy's format, in the memory of its content.

    Examples
    --------
    >>> file = BytesIO()
    >>> np.save(file, [[1, 2], [3, 4]])
    >>> read_npy(file.getvalue())
    array([[1, 2],
           [3, 4]])
    """
    # Nothing is unpickled. `numpy.load` allocates any size that a header states.
    stream = BytesIO(content[:MAX_HEADER_BYTES])
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("numpy writes the arrays of models in version 1.0")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream, MAX_HEADER_BYTES)
        if dtype.newbyteorder("<").str not in NUMPY_TYPES:
            raise TypeError(dtype)
    except Exception as error:
        raise ValueError("it holds other things than arrays of numbers") from error
    n_header = stream.tell()
    if math.prod(shape) * dtype.itemsize != len(content) - n_header:
        stated = f"the shape {shape} and dtype {dtype}"
        raise ValueError(f"it states {stated}, and holds {len(content) - n_header} bytes")
    return np.ndarray(shape, dtype, content, n_header, order="F" if by_column else "C")


def _table(pairs: list[list[Any]]) -> dict[Any, Any]:
    _keys(key for key, _ in pairs)
    return dict(map(tuple, pairs))


def _keys(found: Iterable[Any]) -> list[Any]:
    """Return the keys for a dict or set; raise if so many share a hash that it becomes slow."""
    keys = [*map(in_plain_types, found)]
    for key in keys:
        if not is_plain(key):
            raise ValueError(_typed(key))
    if keys and max(Counter(map(hash, keys)).values()) > MAX_NAMES_PER_HASH:
        raise ValueError(f"more than {MAX_NAMES_PER_HASH} names have the same hash")
    return keys


CONTAINERS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "dict": (dict, lambda value: [[key, value[key]] for key in _keys(value)], _table),
    "tuple": (tuple, list, tuple),
    "set": (set, lambda value: sorted(_keys(value), key=repr), lambda said: set(_keys(said))),
    "deque": (deque, lambda value: [list(value), value.maxlen], lambda said: deque(*said)),
    "timedelta": (timedelta, lambda t: t // timedelta.resolution, lambda n: timedelta(0, 0, n)),
    "date": (date, date.isoformat, date.fromisoformat),
    "datetime": (datetime, _moment, datetime.fromisoformat),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "scalar": (
        np.generic,
        lambda n: [_known_dtype(n), n.item()],
        lambda n: NUMPY_TYPES[n[0]](n[1]),
    ),
    "type": (type, _type_name, TYPES.__getitem__),
}
"""Other kinds of values: the type, its conversion to plain values, and the conversion back."""

CONTAINERS_BY_TYPE = {made: (name, take) for name, (made, take, _) in CONTAINERS.items()}
