"""Numbers and settings on the command line, checked as argparse wants it."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

from onlinels.linalg.selection import check_ridge
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


def share(text: str) -> float:
    number = float(text)
    if not 0.0 < number <= 1.0:
        raise ValueError(text)
    return number


def ridge(text: str) -> float | str:
    """Read a number of at least 0, or a name."""
    try:
        value: float | str = float(text)
    except ValueError:
        value = text
    try:
        check_ridge(value)
    except ValueError as error:
        expected = 'expected a number of at least 0, "paper" or "auto"'
        raise argparse.ArgumentTypeError(f"{text!r}, {expected}") from error
    return value


def folder_of_arrays(text: str) -> Path:
    """Read the path of a folder of .npz files."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is no folder")
    if not any(path.glob("*.npz")):
        raise argparse.ArgumentTypeError(f"{path} holds no .npz file")
    return path


def splits_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options of benchmarks on random splits of data sets, and of those in a folder."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=folder_of_arrays, help="folder of .npz files with arrays x and y")
    add("--seeds", type=positive, default=5, help="random splits of each data set")
    add("--no-progress", dest="progress", action="store_false")
    return parser


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
