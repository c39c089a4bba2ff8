"""Numbers on the command line, checked as argparse wants it."""

from __future__ import annotations


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
