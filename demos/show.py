"""Helpers that all demos share: command lines, progress bars, tables, and figures in one style."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray
from PIL import Image
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

# Okabe and Ito's colours, which colour-blind readers can distinguish, and greys.
BLUE, VERMILLION, GREEN = "#0072B2", "#C44E00", "#007A5A"
INK, GREY, LINE, SHADE = "#222222", "#6B6B6B", "#CCCCCC", "#E4E4E4"
DASHED = (0, (4, 3))
STYLE: dict[Any, Any] = {
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": SHADE,
}


def positive(text: str) -> int:
    """Read a whole number of at least 1 from a command line."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Read a whole number of at least 0 from a command line."""
    return _at_least(0, text)


def _at_least(smallest: int, text: str) -> int:
    if not text.isdecimal() or int(text) < smallest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {smallest}")
    return int(text)


def picture(text: str) -> Path:
    """Read the path of a picture from a command line; its folder must exist."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of {path} does not exist")
    return path


def make_parser(description: str | None, output: str | None = None) -> argparse.ArgumentParser:
    """Return a parser that keeps the lines of a description, with --output for a picture."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if output is not None:
        text = "file for the picture (%(default)s)"
        parser.add_argument("--output", type=picture, default=Path(output), help=text)
    return parser


def progress_bar(console: Console, *fields: str) -> Progress:
    """Return a bar with a description, the number of steps, the given fields and the time."""
    columns = [TextColumn(field) for field in fields]
    start = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    return Progress(*start, *columns, TimeElapsedColumn(), console=console)


def table_of(*columns: str, title: str | None = None) -> Table:
    """Return an empty table; without columns, it is a table of names and values."""
    return Table(*columns, box=SIMPLE, title=title, show_header=bool(columns))


@contextmanager
def figure(path: Path, width: float, height: float, heading: str = "") -> Iterator[Figure]:
    """Yield a figure in the common style, and write it to a file at the end."""
    with rc_context(STYLE):
        made = Figure(figsize=(width, height), facecolor="white", layout="constrained")
        FigureCanvasAgg(made)
        if heading:
            made.suptitle(heading, x=0.01, ha="left", size=16, weight="bold")
        yield made
        made.savefig(path, dpi=150)
    if path.suffix.lower() == ".png":
        # With a palette, a picture takes about a third of the bytes.
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


def moving_accuracy(hits: NDArray[Any], window: int) -> NDArray[np.float64]:
    """Return for every row the share of hits among the last `window` rows, or all rows so far."""
    sums = np.concatenate([[0], np.cumsum(hits)])
    ends = np.arange(1, len(hits) + 1)
    starts = np.maximum(ends - window, 0)
    shares: NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return shares


def mark_shares(axes: Axes, rows: str) -> None:
    """Label axes that show shares in percent against numbers of rows."""
    axes.set_xlabel(rows)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y")


def note(axes: Axes, at: float, text: str, colour: str) -> None:
    """Write at the bottom of axes, to the right of a position."""
    foot = axes.get_xaxis_transform()
    axes.text(at, 0.03, f" {text}", color=colour, size=9.5, transform=foot)


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], gap: float) -> None:
    """Write labels (height, text, colour) to the right of the axes, at least a gap apart."""
    low, high = axes.get_ylim()
    lowest = float("inf")
    for value, text, colour in sorted(ends, reverse=True):
        place = min((value - low) / (high - low), lowest - gap)
        axes.text(1.01, place, text, color=colour, va="center", transform=axes.transAxes)
        lowest = place
