"""What the runs measured beside what the paper reports: a table to print, and one in markdown."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from textwrap import fill
from typing import Any

from paper_runs import NETWORKS, DataSet, Run, Settings
from results_file import ResultsFile
from rich.box import SIMPLE_HEAD
from rich.table import Table

from onlinels.features.filters import make_bank
from onlinels.features.patches import Patches

SCRIPT = "demos/benchmarks/paper_tables.py"


@dataclass(frozen=True)
class Plan:
    """The runs of one data set, and how they were asked for."""

    data: DataSet
    overrides: Settings
    filters_file: str | None
    arguments: argparse.Namespace

    @property
    def runs(self) -> list[Run]:
        """One run per draw."""
        seeds = range(self.arguments.draws)
        return [Run(self.data, self.overrides, self.arguments.batch_size, seed) for seed in seeds]

    def measured(self, results: ResultsFile) -> list[dict[str, Any]]:
        """Return the results of the draws that are done."""
        found = [results.find(run.key) for run in self.runs]
        return [result for result in found if result is not None]

    @property
    def used(self) -> Any:
        """The filters in force: the preset's, or others that were asked for."""
        return self.runs[0].settings["features"]["filters"]

    @property
    def filters(self) -> str:
        """The filters in words."""
        filters = self.used
        if self.filters_file is not None:
            return f"{len(filters)} of {Path(self.filters_file).name}"
        members = filters if isinstance(filters, tuple) else (filters,)
        return " + ".join(map(_in_words, members))

    def cells(self, results: ResultsFile) -> dict[str, str]:
        """Return what a table shows, by heading."""
        measured = self.measured(results)
        errors = [100 * run["error"] for run in measured]
        paper_error = NETWORKS[self.data.name].paper_error
        cells = {
            "data": self.data.name,
            "hidden units": f"{self.runs[0].settings['hidden']['n_hidden']:,}",
            "filters": self.filters,
            "training images": f"{self.data.rows:,}",
            "paper's best error": "" if paper_error is None else f"{paper_error:.2f}%",
            "mean error here": f"{fmean(errors):.2f}%",
            "best error here": f"{min(errors):.2f}%",
            "draws done": str(len(measured)),
        }
        for part in ("learning", "solving", "testing"):
            cells[f"{part}, s"] = f"{median(run[part] for run in measured):.1f}"
        peak = max(run["peak_memory"] for run in measured)
        return cells | {"peak memory, GiB": f"{peak:.2f}"}

    @property
    def command(self) -> str:
        """The command that reproduces the row."""
        asked = self.arguments
        words = ["--data", str(asked.data), "--only", self.data.name, "--draws", str(asked.draws)]
        if asked.n_hidden is not None:
            words += ["--n-hidden", str(asked.n_hidden)]
        if asked.rows is not None:
            words += ["--rows", str(asked.rows)]
        words += ["--batch-size", str(asked.batch_size)]
        if self.filters_file is not None:
            words += ["--filters", f"{self.data.name}={self.filters_file}"]
        for name, value in asked.set:
            words += ["--set", f"{name}={value}"]
        return shlex.join(["python", SCRIPT, *words, "--figure-draws", "0"])


def _in_words(member: Any) -> str:
    if isinstance(member, Patches):
        return f"{member.n_filters} patches"
    if isinstance(member, str):
        return f"{len(make_bank(member))} {'by hand' if member == 'hand-designed' else member}"
    return repr(member)


def terminal_table(plans: list[Plan], results: ResultsFile) -> Table:
    """Return the table with a column per data set, which fits into 80 characters."""
    cells = [plan.cells(results) for plan in plans]
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    headings = iter(cells[0])
    shown.add_column(next(headings), no_wrap=True)
    for one in cells:
        shown.add_column(one["data"], justify="right", overflow="fold")
    for heading in headings:
        texts = (one[heading] for one in cells)
        shown.add_row(heading, *(fill(text, 9, break_long_words=False) for text in texts))
    return shown


def notes(plans: list[Plan]) -> str:
    """Say what the columns mean and what else is to be known."""
    lines = [
        f"{os.cpu_count()} cores. One pass over the training images. Learning is features and "
        "statistics, reading the files not counted; of seconds the median over draws, of peak "
        "memory the largest.",
        "The paper states few times and sizes: stage 1 on MNIST about 120 s; CIFAR-10 under an "
        "hour on 4 cores, with about 70 GB of memory.",
    ]
    stand_in = [p.data.name for p in plans if isinstance(p.used, Patches)]
    if stand_in:
        lines.append(
            f"Filters of {' and '.join(stand_in)}: patches of the training images stand in for "
            "OverFeat's filters, which the paper used (--filters)."
        )
    return "\n".join(lines)


def commands(plans: list[Plan]) -> list[str]:
    """Return the command that reproduces each data set's figures."""
    return [plan.command for plan in plans]


def markdown(plans: list[Plan], results: ResultsFile) -> str:
    """Return the table with a row per data set, the notes after it."""
    cells = [plan.cells(results) | {"command": f"`{plan.command}`"} for plan in plans]
    rows = [list(cells[0]), ["---"] * len(cells[0]), *(list(one.values()) for one in cells)]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join([*lines, "", *notes(plans).splitlines(), ""])
