"""Which models may merge: those of one kind with the same settings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def check_mergeable(model: Any, other: Any) -> None:
    """Raise unless `other` is a model of the same kind with the same settings.

    Raises
    ------
    TypeError
        If it is of another class.
    ValueError
        If settings differ; the error names them.
    """
    if type(other) is not type(model):
        raise TypeError(
            f"other is of type {type(other).__name__}, expected {type(model).__name__}. "
            "Merge models of one kind."
        )
    mine, theirs = model._get_params(), other._get_params()
    differing = [name for name in mine if not same(mine[name], theirs[name])]
    if differing:
        shown = ", ".join(
            f"{n}: {getattr(model, n)!r} and {getattr(other, n)!r}" for n in differing
        )
        raise ValueError(
            f"other has different settings ({shown}), expected equal ones. "
            "Start all models from one model's empty()."
        )


def same(a: Any, b: Any) -> bool:
    """Tell whether two settings are equal, arrays, dataclasses and nested settings included.

    Examples
    --------
    >>> same({"filters": np.ones(2)}, {"filters": np.ones(2)}), same(1.0, "paper")
    (True, False)
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if is_dataclass(a) and type(a) is type(b):
        names = [field.name for field in fields(a)]
        return a is b or all(same(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)
