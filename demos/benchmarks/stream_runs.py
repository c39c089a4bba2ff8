"""Runs of models on streams, each a line of a results file, and what is found there again."""

from __future__ import annotations

import gc
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from results_file import ResultsFile
from stream_scores import test_then_train
from stream_sources import Source

from onlinels import __version__

Factory = Callable[[], Any]
Result = dict[str, float]
Measured = dict[str, dict[str, Result]]
"""By stream, then by model."""


def machine() -> dict[str, Any]:
    """Return the name of the processor and the number of cores."""
    name, information = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {"processor": name, "cores": os.cpu_count()}


def versions(*libraries: str) -> dict[str, str]:
    """Return the versions of Python, of onlinels and of other libraries."""
    found = {"python": platform.python_version(), "onlinels": __version__}
    return found | {library: version(library) for library in libraries}


@dataclass(frozen=True)
class Plan:
    """Which rows are learnt how often, by which versions of what: the same in all runs.

    Parameters
    ----------
    at_most : int or None
        Rows of each stream that are learnt: the first ones.
    repeats : int
        Times that each run is measured.
    versions : dict of str to str
    """

    at_most: int | None
    repeats: int
    versions: Mapping[str, str]

    @property
    def conditions(self) -> dict[str, Any]:
        """What must be the same for times to be compared."""
        return {"at_most": self.at_most, **machine()}

    def key(self, stream: str, model: str, repeat: int) -> dict[str, Any]:
        """Return what the results file knows a run by."""
        run = {"stream": stream, "model": model, "repeat": repeat}
        return self.conditions | run | {"versions": dict(self.versions)}

    def missing(
        self, streams: Iterable[str], models: Iterable[str], results: ResultsFile
    ) -> list[tuple[str, str, int]]:
        """Return stream, model and repeat of the runs to do; of a stream, the models in turns."""
        models = list(models)
        runs = [(s, m, r) for s in streams for r in range(self.repeats) for m in models]
        return [run for run in runs if results.find(self.key(*run)) is None]


def measure(
    plan: Plan,
    runs: Iterable[tuple[str, str, int]],
    sources: Mapping[str, Source],
    factories: Mapping[str, Factory],
    results: ResultsFile,
) -> dict[str, str]:
    """Do runs, write down each at once, and return what went wrong, by stream and model."""
    failed: dict[str, str] = {}
    held, rows = None, []
    for stream, model, repeat in runs:
        try:
            if stream != held:
                rows = list(islice(sources[stream](), plan.at_most))
                held = stream
            # What the last model left behind is not cleared away in the time of this one.
            gc.collect()
            found = test_then_train(factories[model](), rows)
        except Exception as error:
            failed[f"{model} on {stream}"] = f"{type(error).__name__}: {error}"
        else:
            results.add(plan.key(stream, model, repeat), found)
    return failed


def collect(plan: Plan, streams: Iterable[str], results: ResultsFile) -> Measured:
    """Return medians over repeats. Of runs with several versions, those with the last one count."""
    found: Measured = {}
    for stream in streams:
        lines: dict[str, list[Result]] = {}
        used: dict[str, Any] = {}
        for run, result in results.matching(plan.conditions | {"stream": stream}):
            model = run["model"]
            if used.get(model) != run["versions"]:
                lines[model], used[model] = [], run["versions"]
            lines[model].append(result)
        if lines:
            found[stream] = {model: _medians(line) for model, line in lines.items()}
    return found


def _medians(repeats: list[Result]) -> Result:
    return {name: median(result[name] for result in repeats) for name in repeats[0]}
