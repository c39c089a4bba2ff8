"""Time pieces of code in turns, and print medians and ratios."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1]))

from command_line import positive as positive

Array = NDArray[Any]
Piece = Callable[[], object]

REST = 0.3
"""Seconds before every turn. Threads of numpy's, scipy's and torch's libraries go on spinning for a
while in wait of more work, and would slow down whatever comes next."""

SHORT = 0.1
"""Seconds of a piece that is called once more after the rest, which cools caches, untimed."""


@dataclass(frozen=True)
class Comparison:
    """Median seconds of pieces that were timed in turns.

    Parameters
    ----------
    title : str
    seconds : dict of str to float
        Medians, by name of the piece.
    per : int
        Rows or images that a piece deals with; the table shows the time of one.
    """

    title: str
    seconds: dict[str, float]
    per: int = 1

    def ratio(self, piece: str, other: str) -> float:
        """Return how many times longer a piece takes than another."""
        return self.seconds[piece] / self.seconds[other]


def compare(title: str, pieces: Mapping[str, Piece], repeats: int, per: int = 1) -> Comparison:
    """Time pieces in turns, so that a slow moment of the machine falls on all of them.

    Every piece is called once before, to warm up caches and threads.
    """
    first = {name: seconds_of(piece) for name, piece in pieces.items()}
    taken: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(repeats):
        for name, piece in pieces.items():
            time.sleep(REST)
            if first[name] < SHORT:
                piece()
            taken[name].append(seconds_of(piece))
    return Comparison(title, {name: statistics.median(each) for name, each in taken.items()}, per)


def seconds_of(piece: Piece) -> float:
    """Return how long a piece takes, once."""
    started = time.perf_counter()
    piece()
    return time.perf_counter() - started


def show(comparison: Comparison, reference: str, console: Console | None = None) -> None:
    """Print the times of one row or image, and their ratios to that of a piece."""
    table = Table(comparison.title, "time", f"times {reference}", box=SIMPLE, title_justify="left")
    for name, seconds in comparison.seconds.items():
        one = in_words(seconds / comparison.per)
        table.add_row(name, one, f"{comparison.ratio(name, reference):.2f}")
    (console or Console()).print(table)


def in_words(seconds: float) -> str:
    """Return a time with a unit of its size.

    Examples
    --------
    >>> in_words(0.0123), in_words(4.5e-6)
    ('12.3 ms', '4.5 us')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def draw(*shape: int) -> Array:
    """Return random numbers between 0 and 1, float32."""
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def arguments_of(description: str, repeats: int) -> argparse.Namespace:
    """Read --repeats and --quick, and print the number of cores."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=positive, default=repeats, help="turns (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds in all")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = min(arguments.repeats, 2)
    print(f"{os.cpu_count()} cores; medians of {arguments.repeats} turns")
    return arguments
