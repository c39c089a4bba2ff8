"""From a description and its arrays to a model: only what is known is made, and checked."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.saving.container import DTYPES
from onlinels.saving.fields import check_fields, is_plain
from onlinels.saving.kinds import KINDS, Kind
from onlinels.saving.reading import Container
from onlinels.saving.unread import Unread
from onlinels.saving.writing import Node

READ_LATER = 1 << 20
"""Bytes from which an array that predictions do not need stays in the file until it is needed."""


MOST_VALUES = 8
"""Values for each byte of a description, counted as often as they occur."""

MOST_ALIKE = 100
"""Names of one hash in a dict: those of texts are drawn, but those of numbers may be chosen."""


class Builder:
    """Make values of descriptions; each object that has a number once.

    Parameters
    ----------
    container : Container
        The arrays.
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self._made: list[Any] = []
        # How many values each of them holds, were what occurs twice two; and how many there are.
        self._sizes: list[int] = []
        self._n_values = 0
        self._arrays: dict[str, Matrix] = {}

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
            case {"object": name, "number": number, "state": state, **rest} if not rest:
                return self._object(KINDS.by_name[name], number, state)
            case {"same": int() as number}:
                return self._same(number)
            case {"array": str() as name}:
                return self._array(name)
            case dict() if node:
                return self._built(node)
        raise ValueError(f"it describes nothing by {str(node)[:80]}")

    def _count(self, n_values: int) -> None:
        """Refuse objects in objects, again and again, that would take for ever to go through."""
        self._n_values += n_values
        if self._n_values > MOST_VALUES * self._container.n_described:
            raise ValueError("its objects hold each other too often")

    def _object(self, kind: Kind, number: int, nodes: dict[str, Node]) -> Any:
        before = self._n_values
        state = {name: self._part(kind, name, node) for name, node in nodes.items()}
        check_fields(kind.name, kind.fields, state)
        unread = {name: part for name, part in state.items() if isinstance(part, Unread)}
        value = kind.make({name: part for name, part in state.items() if name not in unread})
        if unread:
            value.leave_unread(unread)
        if not kind.check(value):
            raise ValueError(f"the parts of its {kind.name} do not fit")
        if number != len(self._made):
            raise ValueError("its objects are not numbered in order")
        self._made.append(value)
        self._sizes.append(self._n_values - before)
        return value

    def _part(self, kind: Kind, name: str, node: Node) -> Any:
        match node:
            case {"array": str() as array} if name in kind.later:
                if self._container.entries[array].n_bytes >= READ_LATER:
                    return self._container.unread(array)
        return self.value(node)

    def _same(self, number: int) -> Any:
        if not 0 <= number < len(self._made):
            raise ValueError(f"it has no object {number}")
        self._count(self._sizes[number])
        return self._made[number]

    def _array(self, name: str) -> Matrix:
        if name not in self._arrays:
            self._arrays[name] = self._container.array(name)
        return self._arrays[name]

    def _built(self, node: dict[str, Node]) -> Any:
        match node:
            case {"defaultdict": pairs, "of": str() as name, "with": list() as values}:
                known = KINDS.factories[name]
                factory = partial(known, *map(self.value, values)) if values else known
                return defaultdict(factory, self._pairs(pairs))
            case {"scalar": str() as dtype, "is": value} if dtype in DTYPES:
                return np.dtype(dtype).newbyteorder("=").type(self.value(value))
            case {"deque": list() as values, "most": None | int() as most}:
                return deque(map(self.value, values), most)
        ((kind, said),) = node.items()
        return _BUILT[kind](self, said)

    def _pairs(self, pairs: list[list[Node]]) -> list[tuple[Any, Any]]:
        keys = self._keys(key for key, _ in pairs)
        return [(key, self.value(value)) for key, (_, value) in zip(keys, pairs, strict=True)]

    def _keys(self, nodes: Iterable[Node]) -> list[Any]:
        """Return keys for a dict or set, none of which many share a hash: that would take long."""
        keys = list(map(self._key, nodes))
        ((_, most),) = Counter(map(hash, keys)).most_common(1) or [(0, 0)]
        if most > MOST_ALIKE:
            raise ValueError(f"{most} of its names have one hash")
        return keys

    def _key(self, node: Node) -> Any:
        key = self.value(node)
        if not (is_plain(key) or isinstance(key, np.generic)):
            raise ValueError(f"it has {str(node)[:80]} for a name")
        return key


_BUILT: dict[str, Callable[[Builder, Any], Any]] = {
    "tuple": lambda builder, said: tuple(map(builder.value, said)),
    "dict": lambda builder, said: dict(builder._pairs(said)),
    "ordered": lambda builder, said: OrderedDict(builder._pairs(said)),
    "counter": lambda builder, said: Counter(dict(builder._pairs(said))),
    "set": lambda builder, said: set(builder._keys(said)),
    "timedelta": lambda builder, said: timedelta(*said),
    "datetime": lambda builder, said: datetime.fromisoformat(said),
    "date": lambda builder, said: date.fromisoformat(said),
    "bytes": lambda builder, said: bytes.fromhex(said),
    "text": lambda builder, said: bytes.fromhex(said).decode("utf-8", "surrogatepass"),
    "int": lambda builder, said: int(said, 16),
    "float": lambda builder, said: float(said),
    "constant": lambda builder, said: KINDS.constants[said],
}
"""What is made of a description that has one entry."""
