"""Pack what a model has learnt into one block of memory and a few plain values, and unpack it.

Pickles and copies of models are made of packs: a pickler takes ten times as long for some twenty
arrays and fifteen objects as for a text, a tuple and bytes. Nothing is checked here, because a
pickle can run any code; files are checked (`onlinels.saving.files`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache, lru_cache, partial
from math import prod
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Matrix
from onlinels.numerics import Block, owned, restore
from onlinels.saving.description import (
    PACKED_AS_THEY_ARE,
    PLAIN_TYPES,
    SHORT,
    kind_named,
    kind_of,
    state_of,
)

PACKED_VERSION = 5
"""Version of packs, which changes with their form."""

MAX_PACKED_BYTES = 1 << 16
"""Bytes up to which an array is copied into the block. Larger ones stay arrays, which a pickler
can pass on without another copy."""

MAX_FORMS = 1024
"""Number of forms that are remembered: a few for each kind, setting and width of models."""

MAX_FORM = 1 << 14
"""Length of forms that are remembered. Those of models that hold many rows are longer, and are
different with every row: a plan of 10,000 values takes about 1 MiB."""

SHARED_TYPES = frozenset((*PLAIN_TYPES, bytes, complex, date, datetime, timedelta, Fraction))
"""Types of values that are never copied."""

Packed = tuple[int, str, tuple[Any, ...], bytes]
"""The version, the form, all values but small arrays, and the numbers of these arrays.

The form has a word for every value, in the order in which a tree is read:

    -                    None
    .                    the next of the other values
    @                    the same; it may have arrays in memory of others
    #f8,8,3F             the next array: dtype, shape, and F if it is stored by columns
    =4                   the array, list, dict or object that was completed as number 4, again
    (2  [2  {2           a tuple, a list or a dict of two values, which follow; a dict also has its
                         keys among the other values
    &Mean:origin,offset  an object of a savable class, whose attributes follow
    *Clock:now,timed     the same, whose attributes are one of the other values, a tuple
    !Columns             an object that is made of the next of the other values: see `Short`
"""

# ---- Packing -------------------------------------------------------------------------------------


class Recipe(NamedTuple):
    """How objects of a class are taken apart."""

    # Names of their attributes; None if each object tells its own, with their values.
    names: str | None
    # Returns the values of the attributes, or a dict of them.
    take: Callable[[Any], Any]


@cache
def _recipe_of(kind: Any, is_copy: bool) -> Recipe | None:
    """Return how objects of a class are taken apart; None if they are not.

    Objects of other packages are not, and for copies those that copy themselves.
    """
    if kind in PACKED_AS_THEY_ARE:
        return Recipe(None, vars)
    copies_itself = hasattr(kind, "__deepcopy__") and not hasattr(kind, "_own_state")
    if kind_of(kind) is None or not kind.__module__.startswith("onlinels."):
        return None
    if kind.__getstate__ is not object.__getstate__:
        return None if is_copy and copies_itself else Recipe(None, state_of)
    if issubclass(kind, tuple):
        return Recipe(",".join(kind._fields), tuple)
    if copies_itself:
        return None
    if getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        names = [field.name for field in fields(kind)]
        if len(names) > 1:
            return Recipe(",".join(names), attrgetter(*names))
    return Recipe(None, vars)


@lru_cache(MAX_FORMS)
def _word_of(dtype: np.dtype[Any], shape: tuple[int, ...], is_by_column: bool) -> str | None:
    """Return the word of an array; None if it is not packed."""
    is_native = dtype.kind in "fiub" and dtype.isnative
    if not is_native or prod(shape) * dtype.itemsize > MAX_PACKED_BYTES:
        return None
    return "#" + ",".join((dtype.str[1:], *map(str, shape))) + "F" * is_by_column


class Packer:
    """Pack values. `memo` holds copies by the id of the original, as for `copy.deepcopy`."""

    def __init__(self, memo: dict[int, Any] | None) -> None:
        self._is_copy, self._known = memo is not None, memo or {}
        self._memo: dict[int, Any] = {} if memo is None else memo
        self._form: list[str] = []
        self._others: list[Any] = []
        self._numbers: list[bytes] = []
        # The numbers of what was completed, by identity; what has one is kept alive.
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []

    def packed(self, value: Any) -> Packed:
        """Return the pack of a value."""
        self._put(value)
        numbers = b"".join(self._numbers)
        return PACKED_VERSION, " ".join(self._form), tuple(self._others), numbers

    def _put(self, value: Any) -> None:
        kind, known = type(value), id(value)
        if value is None:
            self._form.append("-")
        elif kind in SHARED_TYPES:
            self._put_other(".", value)
        elif known in self._places:
            self._form.append(f"={self._places[known]}")
        elif known in self._known:
            self._put_other(".", self._known[known])
        elif kind is tuple:
            if SHARED_TYPES.issuperset(map(type, value)):
                self._put_other(".", value)
            else:
                self._put_several("(", value)
        else:
            self._put_new(kind, value)
            self._places[known] = len(self._places)

    def _put_other(self, word: str, value: Any) -> None:
        self._form.append(word)
        self._others.append(value)

    def _put_several(self, bracket: str, parts: Iterable[Any]) -> None:
        values = list(parts)
        self._form.append(f"{bracket}{len(values)}")
        for part in values:
            self._put(part)

    def _put_new(self, kind: Any, value: Any) -> None:
        """Put what has an identity, and was not met before."""
        if kind is np.ndarray:
            self._put_array(value)
        elif kind in SHORT and (short := SHORT[kind].take(value)) is not None:
            self._put_other(f"!{kind.__name__}", short)
        elif kind is list:
            self._put_several("[", value)
        elif kind is dict:
            self._others.append(tuple(value))
            self._put_several("{", value.values())
        else:
            recipe = _recipe_of(kind, self._is_copy)
            if recipe is None:
                self._put_other("@", copy.deepcopy(value, self._memo))
            else:
                self._put_object(kind.__name__, recipe, value)

    def _put_array(self, value: Matrix) -> None:
        is_by_column = value.ndim > 1 and value.flags.f_contiguous
        word = _word_of(value.dtype, value.shape, is_by_column)
        if word is None:
            self._put_other("@", copy.deepcopy(value, self._memo))
            return
        self._form.append(word)
        numbers = value.tobytes("A")
        self._numbers.append(numbers)
        if len(numbers) % 8:
            self._numbers.append(bytes(-len(numbers) % 8))

    def _put_object(self, kind: str, recipe: Recipe, value: Any) -> None:
        names, parts = recipe.names, recipe.take(value)
        values = parts
        if names is None:
            names, values = ",".join(parts), parts.values()
        if SHARED_TYPES.issuperset(map(type, values)):
            self._put_other(f"*{kind}:{names}", tuple(values))
            return
        self._form.append(f"&{kind}:{names}")
        # Some of them may have been made for this call.
        self._kept.append(parts)
        for part in values:
            # Measured: most parts are None, a number or an array, and a call costs as much as this.
            if part is None:
                self._form.append("-")
            elif type(part) in SHARED_TYPES:
                self._form.append(".")
                self._others.append(part)
            elif type(part) is np.ndarray and id(part) not in self._places:
                self._put_array(part)
                self._places[id(part)] = len(self._places)
            else:
                self._put(part)


def pack(value: Any, memo: dict[int, Any] | None = None) -> Packed:
    """Return a pack of a value, which shares no memory with it that can change.

    Parameters
    ----------
    value
        A model's attributes, or any other value.
    memo : dict, optional
        For a copy: copies by the id of the original, as for `copy.deepcopy`, which stand for the
        original.

    Examples
    --------
    >>> pack({"a": np.ones(2), "b": ["text", 3]})[1:3]
    ('{2 #f8,2 [2 . .', (('a', 'b'), 'text', 3))
    >>> unpack(pack({"a": np.ones(2), "b": ["text", 3]}))
    {'a': array([1., 1.]), 'b': ['text', 3]}
    """
    return Packer(memo).packed(value)


# ---- Unpacking -----------------------------------------------------------------------------------


def unpack(packed: Packed) -> Any:
    """Return the value of a pack, with all its arrays in new memory: small ones in one block."""
    version, form, others, numbers = packed
    if version != PACKED_VERSION:
        raise ValueError(
            f"The pickle is of version {version}, expected {PACKED_VERSION}. Load it with the "
            "version of onlinels that wrote it, and save the model to a file."
        )
    plan = plan_of(form) if len(form) <= MAX_FORM else plan_of.__wrapped__(form)
    values = list(others)
    for place in plan.foreign:
        values[place] = owned(values[place])
    if plan.arrays:
        block = Block(numbers)
        array = np.ndarray
        values += [array(shape, kind, block, at, None, by) for shape, kind, at, by in plan.arrays]
    values.append(None)
    for make, parts_of in plan.steps:
        values.append(make(parts_of(values)))
    return values[plan.root]


class Plan(NamedTuple):
    """How a packed value is made: by steps, from a list of values to which every step adds one.

    First come the values other than arrays, then the arrays, then None.
    """

    # Places of values that may have arrays in memory of others.
    foreign: list[int]
    # The shape, dtype, place in the block and order of every array.
    arrays: list[tuple[Any, ...]]
    # What makes a value of earlier ones, and what returns these from the list.
    steps: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]]
    # Place of the whole.
    root: int


@lru_cache(MAX_FORMS)
def plan_of(form: str) -> Plan:
    """Return how the value of a form is made."""
    planner = _Planner(form.split(" "))
    root = planner.read()
    return Plan(planner.foreign, planner.arrays, planner.steps, root)


class _Planner:
    """Read the words of a form: every method returns the place of a value."""

    def __init__(self, words: list[str]) -> None:
        self._n_others = sum(word[0] in ".@{*!" for word in words)
        self._nothing = self._n_others + sum(word[0] == "#" for word in words)
        self._words, self._others = iter(words), iter(range(self._n_others))
        self._completed: list[int] = []
        self._size = 0
        self.foreign: list[int] = []
        self.arrays: list[tuple[Any, ...]] = []
        self.steps: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = []

    def read(self) -> int:
        """Read the next value."""
        word = next(self._words)
        return READERS[word[0]](self, word[1:])

    def _read_none(self, word: str) -> int:
        return self._nothing

    def _read_other(self, word: str) -> int:
        return next(self._others)

    def _read_known(self, word: str) -> int:
        return self._completed[int(word)]

    def _complete(self, place: int) -> int:
        self._completed.append(place)
        return place

    def _read_foreign(self, word: str) -> int:
        self.foreign.append(next(self._others))
        return self._complete(self.foreign[-1])

    def _read_array(self, word: str) -> int:
        code, *sides = word.removesuffix("F").split(",")
        dtype, shape, order = np.dtype(code), tuple(map(int, sides)), "CF"[word[-1] == "F"]
        self.arrays.append((shape, dtype, self._size, order))
        self._size += -(-prod(shape) * dtype.itemsize // 8) * 8
        return self._complete(self._n_others + len(self.arrays) - 1)

    def _step(self, make: Callable[[Any], Any], parts_of: Callable[[Any], Any]) -> int:
        self.steps.append((make, parts_of))
        return self._nothing + len(self.steps)

    def _read_tuple(self, word: str) -> int:
        return self._step(tuple, _parts_at([self.read() for _ in range(int(word))]))

    def _read_list(self, word: str) -> int:
        places = [self.read() for _ in range(int(word))]
        return self._complete(self._step(list, _parts_at(places)))

    def _read_dict(self, word: str) -> int:
        places = [next(self._others), *(self.read() for _ in range(int(word)))]
        return self._complete(self._step(_dict_of, _parts_at(places)))

    def _read_object(self, word: str) -> int:
        name, _, names = word.partition(":")
        attributes = names.split(",") if names else []
        places = [self.read() for _ in attributes]
        return self._complete(self._step(_maker_of(name, attributes), _parts_at(places)))

    def _read_plain_object(self, word: str) -> int:
        name, _, names = word.partition(":")
        make = _maker_of(name, names.split(",") if names else [])
        return self._complete(self._step(make, itemgetter(next(self._others))))

    def _read_short(self, word: str) -> int:
        kind = kind_named(word)
        assert kind is not None
        return self._complete(self._step(SHORT[kind.made].make, itemgetter(next(self._others))))


READERS: dict[str, Callable[[_Planner, str], int]] = {
    "-": _Planner._read_none,
    ".": _Planner._read_other,
    "@": _Planner._read_foreign,
    "#": _Planner._read_array,
    "=": _Planner._read_known,
    "(": _Planner._read_tuple,
    "[": _Planner._read_list,
    "{": _Planner._read_dict,
    "&": _Planner._read_object,
    "*": _Planner._read_plain_object,
    "!": _Planner._read_short,
}
"""What reads a value, by the first letter of its word."""


def _parts_at(places: list[int]) -> Callable[[Any], Any]:
    """Return a function that returns a tuple of the values at some places of a list."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _dict_of(parts: tuple[Any, ...]) -> dict[Any, Any]:
    return dict(zip(parts[0], parts[1:], strict=True))


def _maker_of(name: str, attributes: list[str]) -> Callable[[Any], Any]:
    """Return what makes an object of a savable class, given a tuple of its attributes."""
    kind = kind_named(name)
    assert kind is not None
    made: Any = kind.made
    if issubclass(made, tuple):
        if [*made._fields] == attributes:
            return partial(tuple.__new__, made)
        return lambda parts: made(**dict(zip(attributes, parts, strict=True)))
    new, put = object.__new__, object.__setattr__

    def make(parts: tuple[Any, ...]) -> Any:
        value = new(made)
        # One by one: so objects share the table of their names.
        for attribute, part in zip(attributes, parts, strict=True):
            put(value, attribute, part)
        return value

    def restored(parts: tuple[Any, ...]) -> Any:
        value = new(made)
        value.__setstate__(dict(zip(attributes, parts, strict=True)))
        return value

    # A class with a `__setstate__` of its own may read attributes of earlier versions.
    is_current = is_dataclass(made) and attributes == [field.name for field in fields(made)]
    is_current = is_current or made in PACKED_AS_THEY_ARE
    return make if is_current or made.__setstate__ is restore else restored
