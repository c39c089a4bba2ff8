"""Names of features: when two of them are one feature, and in which order new ones come."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from onlinels.scalars import equals_itself

Name = Hashable

OUTPUT_NAME = "h"
"""What transformers call their output: "h0", "h1", … as numbers, "h" as an array."""


def plain_name(name: Name) -> Name:
    """Return a name as a plain Python value: numpy scalars as what they hold, 1.0 and True as 1.

    Examples
    --------
    >>> plain_name(np.str_("a")), plain_name(np.int64(3)), plain_name(2.0)
    ('a', 3, 2)
    """
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return tuple(map(plain_name, name))
    if isinstance(name, (bool, float)) and name == name // 1:
        return int(name)
    return str(name) if isinstance(name, str) else name


def feature_key(name: Name) -> Name:
    """Return what stands for a feature, whichever way it is named.

    The i-th output of a transformer is one feature, as "h3", as entry ("h", 3) of an array, or as
    column 3 of a plain array; so pipelines may learn from arrays and predict from dicts.

    Examples
    --------
    >>> feature_key("h3"), feature_key(("h", 3)), feature_key(3), feature_key("3")
    (3, 3, 3, '3')
    """
    name = plain_name(name)
    if isinstance(name, str) and (match := re.fullmatch(OUTPUT_NAME + r"(0|[1-9]\d*)", name)):
        return int(match[1])
    if isinstance(name, tuple) and len(name) == 2 and name[0] == OUTPUT_NAME:
        return name[1] if isinstance(name[1], int) else name
    return name


def check_distinct(names: Iterable[Name]) -> list[Name]:
    """Return the keys of names that come together, each of another feature.

    Raises
    ------
    ValueError
        If two names stand for one feature, or a name is NaN.

    Examples
    --------
    >>> check_distinct(["a", 3, "h3"])
    Traceback (most recent call last):
        ...
    ValueError: The names 3 and 'h3' stand for one feature, expected each once. ...
    """
    names = list(names)
    keys = [feature_key(name) for name in names]
    if not all(map(equals_itself, keys)):
        raise ValueError("A feature's name is NaN, expected one that equals itself. Rename it.")
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        first, second = [n for n, key in zip(names, keys, strict=True) if key == twice][:2]
        raise ValueError(
            f"The names {first!r} and {second!r} stand for one feature, expected each once. "
            "Rename one, for instance with river's compose.Prefixer."
        )
    return keys


def key_text(key: Name) -> str:
    """Return a text that stands for a feature's key, the same in every process.

    Raises
    ------
    TypeError
        If the name has no spelling of its own, only the address of an object.

    Examples
    --------
    >>> key_text(3), key_text("3")
    ('int:3', "str:'3'")
    """
    parts = key if isinstance(key, tuple) else (key,)
    if not all(map(_has_spelling, parts)):
        raise TypeError(
            f"Feature name {key!r} has no spelling of its own, expected a str, a number or a tuple "
            "of these. Rename it, or give its class a __repr__."
        )
    return f"{type(key).__name__}:{_spelling(key)}"


def _spelling(key: Any) -> str:
    """Return what `repr` does; of a tuple, also where a signal's handler asks amid its `repr`."""
    if type(key) is not tuple:
        return repr(key)
    return f"({', '.join(map(_spelling, key))}{',' * (len(key) == 1)})"


def _has_spelling(part: Any) -> bool:
    # The order of a set is not the same in every process.
    return _spelling(part) != object.__repr__(part) and not isinstance(part, (set, frozenset))


def sorted_names(names: Iterable[Name]) -> list[Name]:
    """Sort names of any hashable types: numbered ones by number, others by type and spelling.

    Examples
    --------
    >>> sorted_names(["b", "h10", "h9", "a"])
    ['h9', 'h10', 'a', 'b']
    """
    return sorted(names, key=_sorting_key)


def _sorting_key(name: Name) -> tuple[Any, ...]:
    key = feature_key(name)
    if isinstance(key, int):
        return (0, key)
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int):
        return (1, _spelling(key[0]), key[1])
    return (2, type(key).__name__, _spelling(key))
