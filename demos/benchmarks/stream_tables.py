"""Tables of what was measured on streams, for the terminal and in markdown, and the summary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, geometric_mean, median

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from scipy.stats import rankdata
from stream_runs import Measured

Write = Callable[[float], str]
Average = Callable[[list[float]], float]
Best = Average | None

MISSING = ""


def write_time(microseconds: float) -> str:
    """Return whole microseconds, of few the first decimal too."""
    return f"{microseconds:,.{int(microseconds < 10)}f}"


@dataclass(frozen=True)
class Line:
    """A value for every model, how they are written, and which of them is the best, if any."""

    name: str
    values: list[float]
    write: Write
    best: Best = None

    def cells(self, embolden: Callable[[str], str]) -> list[str]:
        """Return the values as text, the best ones emboldened."""
        known = [value for value in self.values if not math.isnan(value)]
        best = self.best(known) if self.best is not None and known else None
        texts = [MISSING if math.isnan(value) else self.write(value) for value in self.values]
        pairs = zip(self.values, texts, strict=True)
        return [embolden(text) if value == best else text for value, text in pairs]


@dataclass(frozen=True)
class Sheet:
    """A table with a column for every model."""

    title: str
    models: list[str]
    lines: list[Line]

    def terminal(self) -> Table:
        """Return it as rich prints it."""
        table = Table("", title=self.title, box=SIMPLE_HEAD)
        for model in self.models:
            table.add_column(model, justify="right")
        for line in self.lines:
            table.add_row(line.name, *line.cells(lambda text: f"[bold]{text}[/bold]"))
        return table

    def markdown(self) -> str:
        """Return it in markdown."""
        rows = [["", *self.models], ["---", *["---:"] * len(self.models)]]
        rows += [[line.name, *line.cells(lambda text: f"**{text}**")] for line in self.lines]
        return "\n".join([f"{self.title}:", "", *(f"| {' | '.join(row)} |" for row in rows), ""])


def shared_streams(measured: Measured, models: list[str]) -> list[str]:
    """Return the streams on which all of the models were measured."""
    return [stream for stream, found in measured.items() if set(models) <= set(found)]


def mean_ranks(measured: Measured, models: list[str]) -> list[float]:
    """Return the mean rank of each model by accuracy: 1 is the best, ties share their ranks."""
    shared = shared_streams(measured, models)
    if not shared:
        return [math.nan] * len(models)
    accuracies = [[measured[stream][m]["accuracy"] for m in models] for stream in shared]
    ranks: list[float] = rankdata(-np.array(accuracies), axis=1).mean(axis=0).tolist()
    return ranks


def make_sheets(measured: Measured, models: list[str], peer: str) -> list[Sheet]:
    """Return the tables of accuracy, kappa, log-loss, time, its ratios, memory, and all at once."""
    kinds = {
        "Accuracy": ("accuracy", "{:.2%}".format, max),
        "Cohen's kappa": ("kappa", "{:.3f}".format, max),
        "Log-loss": ("log_loss", "{:.3f}".format, min),
        "Microseconds a row": ("microseconds", write_time, None),
    }
    sheets = []
    for title, (name, write, best) in kinds.items():
        columns = {stream: _values(measured, stream, models, name) for stream in measured}
        lines = [Line(stream, values, write, best) for stream, values in columns.items()]
        sheets.append(Sheet(title, models, lines))
    if peer in models:
        sheets.append(_ratio_sheet(measured, models, peer))
    kibibytes = [
        Line(s, [v / 1024 for v in _values(measured, s, models, "bytes")], "{:,.0f}".format)
        for s in measured
    ]
    sheets.append(Sheet("KiB of the pickled model after the last row", models, kibibytes))
    return [*sheets, _overall_sheet(measured, models)]


def _ratio_sheet(measured: Measured, models: list[str], peer: str) -> Sheet:
    lines = []
    for stream in measured:
        taken = np.array(_values(measured, stream, models, "microseconds"))
        ratios = (taken[models.index(peer)] / taken).tolist()
        lines.append(Line(stream, ratios, "{:,.2f}".format))
    return Sheet(f"How many times as long {peer} takes for a row", models, lines)


def _overall_sheet(measured: Measured, models: list[str]) -> Sheet:
    shared = shared_streams(measured, models)

    def line(label: str, name: str, mean: Average, write: Write, best: Best = None) -> Line:
        columns = [[measured[stream][model][name] for stream in shared] for model in models]
        return Line(label, [mean(column) for column in columns], write, best)

    lines = [Line("rank by accuracy", mean_ranks(measured, models), "{:.2f}".format, min)]
    if shared:
        lines += [
            line("accuracy", "accuracy", fmean, "{:.2%}".format, max),
            line("kappa", "kappa", fmean, "{:.3f}".format, max),
            line("log-loss", "log_loss", fmean, "{:.3f}".format, min),
            line("microseconds, geometric mean", "microseconds", geometric_mean, write_time),
        ]
    return Sheet(f"Means over the {len(shared)} streams that all models have", models, lines)


def _values(measured: Measured, stream: str, models: list[str], name: str) -> list[float]:
    found = measured[stream]
    return [found[model][name] if model in found else math.nan for model in models]


def summary(measured: Measured, ours: str, peer: str) -> list[str]:
    """Say where one model is at least as accurate as another, and how much faster it is."""
    shared = shared_streams(measured, [ours, peer])
    if not shared:
        return []
    pairs = [(measured[stream][ours], measured[stream][peer]) for stream in shared]
    n_as_good = sum(one["accuracy"] >= other["accuracy"] for one, other in pairs)
    ratios = [other["microseconds"] / one["microseconds"] for one, other in pairs]
    return [
        f"{ours} is at least as accurate as {peer} on {n_as_good} of {len(shared)} streams.",
        f"{peer} takes {median(ratios):.2f} times as long for a row as {ours} (median over the "
        f"streams; {min(ratios):.2f} to {max(ratios):.2f}).",
    ]
