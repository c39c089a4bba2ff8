"""Numbers and settings on the command line, checked as argparse wants it."""

from __future__ import annotations

import argparse
import ast
from typing import Any

from onlinels.presets import PARTS


def positive(text: str) -> int:
    return _whole_number(text, 1)


def not_negative(text: str) -> int:
    return _whole_number(text, 0)


def _whole_number(text: str, smallest: int) -> int:
    if not text.isdecimal() or int(text) < smallest:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {smallest}")
    return int(text)


def above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, a setting of the network."""
    name, equals, value = text.partition("=")
    settable = {name for names in PARTS.values() for name in names} - {"seed"}
    if not equals or name not in settable:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE of {sorted(settable)}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value
