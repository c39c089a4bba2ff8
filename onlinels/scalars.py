"""Single numbers of any type, and what errors say of them."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from onlinels.arrays import OF_COMPLEX, OF_FEATURES


def no_number(name: str, value: Any) -> str:
    """Say that what is neither a number nor an array was expected to be, and what to do."""
    kind, expected = type(value).__name__, "expected a number or an array of numbers"
    if isinstance(value, (list, tuple)):
        return f"{name} is a {kind}, {expected}. Make an array of it, with np.asarray."
    remedy = OF_COMPLEX if np.iscomplexobj(value) else OF_FEATURES["text"]
    return f"{name} is {reprlib.repr(value)} of type {kind}, {expected}. {remedy}"


def as_number(value: Any) -> float | None:
    """Return a value as a float: infinity if it is too large, None if it is no number.

    Examples
    --------
    >>> as_number(True), as_number(10**400), as_number("3")
    (1.0, inf, None)
    """
    kind = value.dtype.kind if isinstance(value, (np.generic, np.ndarray)) else "O"
    if not hasattr(value, "__float__") or kind not in "biufO" or value is np.ma.masked:
        return None
    if getattr(value, "ndim", 0):
        return None
    try:
        return float(value)
    except OverflowError:
        return -np.inf if value < 0 else np.inf
    except ValueError:
        return np.inf


def shown(value: Any, number: float) -> str:
    """Return what errors call a value that reads as a number, though it may be too long to write.

    Examples
    --------
    >>> shown(10**400, np.inf), shown("inf", np.inf), shown(np.float64(2e200), 2e200)
    ('about 1e+400', 'inf', '2e+200')
    """
    try:
        digits = int(value).bit_length() * np.log10(2.0) if np.isinf(number) else 0.0
    except (OverflowError, ValueError):
        digits = 0.0
    return f"about {'-' * (number < 0.0)}1e+{int(digits)}" if digits else str(number)


def equals_itself(value: Any) -> bool:
    """Tell whether a label or name can be found again: NaN cannot, nor a tuple that holds it.

    Examples
    --------
    >>> equals_itself("a"), equals_itself(("a", float("nan")))
    (True, False)
    """
    if isinstance(value, tuple):
        # Python takes two tuples for equal that hold the very same NaN.
        return all(map(equals_itself, value))
    try:
        return bool(value == value)
    except TypeError:
        # pandas.NA answers NA, which has no truth value.
        return False
