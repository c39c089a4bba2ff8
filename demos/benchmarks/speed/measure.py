"""Timing for rows.py, from the module of helpers above."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import in_turns, in_words, print_table, speed_arguments, speed_parser, table_of

Piece = Callable[[], object]


@dataclass(frozen=True)
class Comparison:
    """Median seconds of pieces that were timed in turns; each deals with `per` rows."""

    title: str
    seconds: dict[str, float]
    per: int = 1


def compare(title: str, pieces: Mapping[str, Piece], repeats: int, per: int = 1) -> Comparison:
    """Time pieces in turns."""
    return Comparison(title, in_turns(pieces, repeats), per)


def show(comparison: Comparison, reference: str) -> None:
    """Print the times of one row, and their ratios to that of a piece."""
    table = table_of(comparison.title, "time", f"times {reference}")
    for name, seconds in comparison.seconds.items():
        ratio = seconds / comparison.seconds[reference]
        table.add_row(name, in_words(seconds / comparison.per), f"{ratio:.2f}")
    print_table(table)


def arguments_of(description: str | None, repeats: int) -> argparse.Namespace:
    """Read --repeats and --quick, and print the number of cores."""
    return speed_arguments(speed_parser(description, repeats))
