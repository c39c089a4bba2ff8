"""Numbers and settings on the command line, checked as argparse wants it."""

from __future__ import annotations

import argparse
import ast
from typing import Any

from onlinels.presets import PARTS


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def above_zero(text: str) -> float:
    number = float(text)
    if not 0.0 < number < float("inf"):
        raise ValueError(text)
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
