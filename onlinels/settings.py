"""Checks of settings, raised when an estimator is made."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"float32": np.float32, "float64": np.float64}
"""Precisions in which features and activations may be computed."""


def check_count(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`.

    Raises
    ------
    TypeError
        If `value` is not an integer.
    ValueError
        If it is smaller than `minimum`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}={value!r} must be an int. Pass an int >= {minimum}.")
    if value < minimum:
        raise ValueError(f"{name}={value!r} must be at least {minimum}. Pass an int >= {minimum}.")
    return int(value)


def check_between(name: str, value: Any, smallest: float, largest: float) -> None:
    """Raise unless `value` is a number from `smallest` to `largest`.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is out of bounds or NaN.
    """
    _check_number(name, value, f"from {smallest:g} to {largest:g}")
    if not smallest <= value <= largest:
        raise ValueError(
            f"{name}={value!r} must be from {smallest:g} to {largest:g}. Pass such a float."
        )


def check_not_negative(name: str, value: Any) -> None:
    """Raise unless `value` is a finite number of at least 0.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is negative, infinite or NaN.
    """
    _check_number(name, value, ">= 0")
    if not 0.0 <= value < np.inf:
        raise ValueError(f"{name}={value!r} must be finite and at least 0. Pass a float >= 0.")


def check_positive(name: str, value: Any) -> None:
    """Raise unless `value` is a finite number above 0.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is 0 or negative, infinite or NaN.
    """
    _check_number(name, value, "> 0")
    if not 0.0 < value < np.inf:
        raise ValueError(f"{name}={value!r} must be finite and above 0. Pass a float > 0.")


def _check_number(name: str, value: Any, expected: str) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not number or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number. Pass a float {expected}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless `value` is a bool.

    Raises
    ------
    TypeError
        If it is not.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r} must be a bool. Pass True or False.")


def check_path(name: str, value: Any) -> Path:
    """Return `value` as a path.

    Raises
    ------
    TypeError
        If it is neither text nor a path.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}={value!r} must be a path. Pass a str or a pathlib.Path.")
    return Path(value)


def check_kind(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    """Raise unless `value` is an instance of one of `kinds`.

    Raises
    ------
    TypeError
        If it is not.
    """
    if not isinstance(value, kinds):
        known = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}={value!r} must be a {known}. Pass one.")


def check_part(name: str, value: Any, kind: type) -> None:
    """Raise unless `value` is None or an instance of `kind`.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if value is not None and not isinstance(value, kind):
        raise TypeError(
            f"{name} is of type {type(value).__name__}, expected {kind.__name__}. "
            f"Pass a {kind.__name__}, or None for the default."
        )


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise unless `value` is one of the names in `choices`.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{name}={value!r} is not known. Pass one of {known}.")
