"""Read files whose bytes were changed at random, or made to do harm, by every reader.

python demos/benchmarks/hostile_files.py --inputs 100000
python demos/benchmarks/hostile_files.py --only 4711        (one of them again, its error in full)

A reader returns what the file says or raises ValueError, within a second and the memory that the
file's size allows. The exit code is 1 if one did anything else: raise another error or a warning,
take longer, take more memory, leave a file open.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from command_line import not_negative, positive
from hostile_readers import READERS, hostile
from hostile_reading import Outcome, attempt, prepare
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

LONGEST = 1.0
"""Seconds of the processor that a file may take."""

MEASURED_EVERY = 4
"""Allocations of one file in so many are traced, which makes its reading several times slower."""

ROOM = 3 << 30
"""Bytes by which this process may grow, so that no file takes the machine's memory unseen."""

SHOWN = 20
"""Failures that are listed."""


@dataclass
class Tally:
    """What came of a reader's files."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    longest: float = 0.0
    largest: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, number: int, outcome: Outcome) -> None:
        """Count what came of a file."""
        self.inputs += 1
        self.read += outcome.kind == "read"
        self.refused += outcome.kind == "refused"
        self.longest = max(self.longest, outcome.seconds)
        self.largest = max(self.largest, outcome.allocated)
        if outcome.kind not in ("read", "refused"):
            self.failures.append(f"{number}: {outcome.kind}")
        elif outcome.seconds > LONGEST:
            self.failures.append(f"{number}: {outcome.kind} after {outcome.seconds:.1f} s")


def main() -> int:
    arguments = parse_arguments()
    console = Console(width=120, force_jupyter=False)
    with tempfile.TemporaryDirectory() as folder, bounded_memory():
        if arguments.only is not None:
            return read_again(arguments, Path(folder), console)
        tallies = run(arguments, Path(folder), console)
    console.print(f"{os.cpu_count()} cores, seed {arguments.seed}")
    console.print(as_table(tallies))
    failures = [f"{name}, {each}" for name, tally in tallies.items() for each in tally.failures]
    for failure in failures[:SHOWN]:
        console.print(failure, markup=False)
    return 1 if failures else 0


def run(arguments: argparse.Namespace, folder: Path, console: Console) -> dict[str, Tally]:
    """Read all files, each reader's in turn."""
    paths = prepare_all(folder)
    tallies = {reader.name: Tally() for reader in READERS}
    with Progress(console=console, transient=True, disable=not arguments.progress) as progress:
        for number in progress.track(range(arguments.inputs), description="Reading hostile files"):
            reader = READERS[number % len(READERS)]
            measured = number // len(READERS) % MEASURED_EVERY == 0
            content = hostile(reader, choices_of(arguments.seed, number))
            with strict() as left_open:
                outcome = attempt(reader, paths[reader.name], content, measured)
            if left_open:
                outcome = Outcome(left_open[0], outcome.seconds, outcome.allocated)
            tallies[reader.name].add(number, outcome)
    return tallies


def read_again(arguments: argparse.Namespace, folder: Path, console: Console) -> int:
    """Read one of the files again; what it raises is raised."""
    reader = READERS[arguments.only % len(READERS)]
    path = prepare_all(folder)[reader.name]
    content = hostile(reader, choices_of(arguments.seed, arguments.only))
    console.print(f"{reader.name}: {len(content):,} bytes, which begin with {content[:64]!r}")
    with strict():
        console.print(attempt(reader, path, content, measured=True))
        console.print(reader.read(path))
    return 0


def prepare_all(folder: Path) -> dict[str, Path]:
    """Give every reader a folder of its own, with the files that lie beside the hostile one."""
    return {
        reader.name: prepare(reader, folder / str(place)) for place, reader in enumerate(READERS)
    }


def choices_of(seed: int, number: int) -> np.random.Generator:
    """Return what decides about the file of a number, so that it can be made alone."""
    return np.random.default_rng([seed, number])


@contextmanager
def strict() -> Iterator[list[str]]:
    """Make errors of warnings, and note files that nobody closed."""
    left_open: list[str] = []

    def note(unraisable: Any) -> None:
        left_open.append(f"{unraisable.exc_value!r} when it was cleared away")

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield left_open
    finally:
        sys.unraisablehook = before


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let this process grow by no more than `ROOM`; only Linux keeps to it."""
    status = Path("/proc/self/statm")
    before = resource.getrlimit(resource.RLIMIT_AS)
    if status.exists():
        held = int(status.read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def as_table(tallies: dict[str, Tally]) -> Table:
    """Return what came of every reader's files."""
    columns = ("inputs", "read", "refused", "slowest, ms", "largest allocation, kB", "failures")
    table = Table("reader", *columns)
    for name, tally in tallies.items():
        counts = (tally.inputs, tally.read, tally.refused)
        table.add_row(
            name,
            *(f"{count:,}" for count in counts),
            f"{1000 * tally.longest:.1f}",
            f"{tally.largest / 1000:,.0f}",
            f"{len(tally.failures):,}",
        )
    return table


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--inputs", type=positive, default=100_000, help="files, spread over all readers")
    add("--seed", type=not_negative, default=0, help="of all that is random")
    add("--only", type=not_negative, metavar="NUMBER", help="read the file of this number alone")
    add("--quick", action="store_const", const=1_000, dest="inputs", help="1,000 files")
    add("--no-progress", dest="progress", action="store_false")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
