"""What several benchmarks share: storing results, measuring times and memory.

Command-line numbers, tables, progress bars and figures come from the demos (`show.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

sys.path.append(str(Path(__file__).resolve().parents[1]))

from show import make_parser as make_parser
from show import positive as positive
from show import table_of as table_of

Array = NDArray[Any]
Floats = NDArray[np.float64]

# -- command lines and progress -------------------------------------------------------------------


def folder_of_arrays(text: str) -> Path:
    """Read the path of a folder of .npz files from a command line."""
    path = Path(text)
    if not any(path.glob("*.npz")):
        raise argparse.ArgumentTypeError(f"{path} is not a folder with .npz files")
    return path


def bar(steps: Iterable[Any], text: str, total: int | None = None) -> Iterator[Any]:
    """Show a progress bar on the error stream, so that only results go to the output."""
    yield from track(steps, f"{text:<18}", total, console=Console(stderr=True), transient=True)


def print_table(table: Any) -> None:
    """Print a table in its full width, even if the output is not a terminal."""
    Console(width=None if sys.stdout.isatty() else 190, force_jupyter=False).print(table)


def row_slices(n_rows: int, size: int) -> list[slice]:
    """Return slices of `size` rows that cover all rows; the last one may be shorter."""
    return [slice(start, start + size) for start in range(0, n_rows, size)]


# -- results --------------------------------------------------------------------------------------


class ResultsFile:
    """A file with one line of JSON per finished run, so that an interruption loses only one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        for text in path.read_text("utf-8").splitlines() if path.exists() else ():
            try:
                self.lines.append(json.loads(text))
            except json.JSONDecodeError:
                continue

    def find(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of the run with this key, or None if it has not finished."""
        found = (line["result"] for line in self.lines if line["run"] == dict(key))
        return next(found, None)

    def add(self, key: Mapping[str, Any], result: Any) -> None:
        """Append the result of a finished run."""
        line = {"run": dict(key), "result": result}
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            # A truncated last line has no line break.
            file.write("\n" * (file.tell() > 0) + json.dumps(line))

    def measured(self, key: Mapping[str, Any], function: Callable[..., Any], *values: Any) -> Any:
        """Return the stored result of a run, or measure it in a new process and store it."""
        found = self.find(key)
        if found is None:
            found = call_alone(function, *values)
            self.add(key, found)
        return found


# -- processes, times and memory ------------------------------------------------------------------


def call_alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new process, so that its memory is measured separately."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def memory(name: str) -> int:
    """Return a memory figure of this process in bytes, by its name in Linux; 0 elsewhere."""
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if name in line), 0)


def forget_peak() -> int:
    """Reset the peak of memory; return the current memory."""
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5")
    return memory("VmRSS")


def machine() -> str:
    """Return the name of the processor and the number of cores."""
    name, information = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    for line in information.read_text("utf-8").splitlines() if information.exists() else ():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    return f"{name}, {os.cpu_count()} cores"


Piece = Callable[[], object]

REST = 0.3
"""Seconds of rest before every turn. Threads of numpy, scipy and torch keep spinning for a while
and would slow down the next piece."""
SHORT = 0.1
"""Seconds up to which a piece is called once untimed after the rest, to warm up the caches."""


def seconds_of(piece: Piece) -> float:
    """Return the seconds of one call."""
    started = time.perf_counter()
    piece()
    return time.perf_counter() - started


def in_turns(pieces: Mapping[str, Piece], repeats: int) -> dict[str, float]:
    """Return the median seconds of pieces that take turns, so that slow moments affect all.

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
    return {name: statistics.median(each) for name, each in taken.items()}


def compare(title: str, pieces: Mapping[str, Piece], repeats: int, per: int, floor: str) -> None:
    """Print the time of each piece per row, for `per` rows, and its ratio to the floor's."""
    seconds = in_turns(pieces, repeats)
    table = table_of(title, "time", f"times {floor}")
    for name, taken in seconds.items():
        table.add_row(name, in_words(taken / per), f"{taken / seconds[floor]:.2f}")
    print_table(table)


def in_words(seconds: float) -> str:
    """Return a time with a suitable unit.

    Examples
    --------
    >>> in_words(0.0123), in_words(4.5e-6)
    ('12.3 ms', '4.5 us')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def speed_parser(description: str | None, repeats: int, parts: Iterable[str]) -> Any:
    """Return a parser with --repeats, --only and --quick."""
    parser, parts = make_parser(description), list(parts)
    parser.add_argument("--repeats", type=positive, default=repeats, help="turns (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, metavar="PART")
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds in total")
    return parser


def speed_arguments(parser: Any) -> argparse.Namespace:
    """Read the command line, and print the number of cores."""
    arguments: argparse.Namespace = parser.parse_args()
    if arguments.quick:
        arguments.repeats = min(arguments.repeats, 2)
    print(f"{machine()}; medians of {arguments.repeats} turns")
    return arguments
