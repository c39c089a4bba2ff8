"""Digests of settings and arrays, by which results and files are known."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def digest(*things: Any) -> str:
    """Return 16 hexadecimal digits that differ if any setting or array does.

    Arrays count with all their values, also those inside mappings, tuples, lists and dataclasses;
    anything else counts as its `repr`.
    """
    found = hashlib.sha256()
    for thing in things:
        _add(found, thing)
    return found.hexdigest()[:16]


def _add(found: hashlib._Hash, thing: Any) -> None:
    if isinstance(thing, np.ndarray):
        found.update(f"{thing.shape} {thing.dtype.str}:".encode())
        found.update(np.ascontiguousarray(thing).tobytes())
        return
    inside = _inside(thing)
    if inside is None:
        found.update(f"{thing!r};".encode())
        return
    found.update(f"{type(thing).__qualname__} of {len(inside)}:".encode())
    for name, part in inside:
        found.update(f"{name!r}=".encode())
        _add(found, part)


def _inside(thing: Any) -> list[tuple[Any, Any]] | None:
    """Return what a thing consists of, by name or position; None if it is one by itself."""
    if isinstance(thing, Mapping):
        return [(name, thing[name]) for name in sorted(thing)]
    if isinstance(thing, (tuple, list)):
        return list(enumerate(thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return [(field.name, getattr(thing, field.name)) for field in fields(thing)]
    return None
