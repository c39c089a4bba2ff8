"""Learn ten million rows, and compare the weights with the definition in sixty digits on the way.

python demos/benchmarks/long_runs.py
python demos/benchmarks/long_runs.py --rows 100000 --single-rows 10000
"""

from __future__ import annotations

import one_thread as one_thread

# isort: split
import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from command_line import positive
from long_figure import draw
from long_streams import N_CLASSES, define, make_table, moments
from long_streams import Table as Stream
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from onlinels import LeastSquaresClassifier
from onlinels.checks import Floats

BATCH = 5000
"""Rows that are learnt at once."""

SHARE = 10
"""Part of the rows that the recursive form gets where it forgets: it learns them one by one."""

HALF_LIFE, PER_SECOND = 100.0, 8
"""Half-life in seconds, and rows a second."""

DECAYS = {
    "nothing": Decimal(1),
    "factor 0.999": Decimal.from_float(0.999),
    "factor 0.99": Decimal.from_float(0.99),
    "half-life": Decimal(2) ** (-1 / (Decimal(HALF_LIFE) * PER_SECOND)),
}
"""What is forgotten, and what is left of a weight after each further row."""

SETTINGS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "factor 0.999": {"forgetting_factor": 0.999},
    "factor 0.99": {"forgetting_factor": 0.99},
    "half-life": {"half_life": HALF_LIFE},
}

ACCUMULATORS = "gram", "orthogonal", "recursive"

THOROUGH = "independent", "one direction rare"
"""Streams on which all ways to forget are tried."""

SMALL = 1e-6
"""A ridge that is small, for streams of nearly collinear features."""


@dataclass(frozen=True)
class Case:
    """A stream, a model and how it is fed."""

    stream: str
    accumulator: str
    fit_intercept: bool = True
    forgets: str = "nothing"
    ridge: float = 1.0
    singly: bool = False

    @property
    def name(self) -> str:
        """The stream, and its ridge if that is small."""
        return self.stream if self.ridge == 1.0 else f"{self.stream}, ridge {self.ridge:g}"


@dataclass(frozen=True)
class Result:
    """Errors of the weights, relative to the largest, and of the equations, at some moments."""

    moments: list[int]
    errors: list[float]
    residuals: list[float]
    microseconds: float

    @property
    def peak(self) -> int:
        """Which moment has the largest error."""
        return int(np.argmax(self.errors))


def main(arguments: list[str] | None = None) -> None:
    chosen = parse_arguments(arguments)
    console = Console(width=190, force_jupyter=False)
    results = {}
    with Progress(console=console, disable=not chosen.progress) as progress:
        for case in progress.track(list(cases()), description="runs"):
            results[case] = run(case, chosen.single_rows if case.singly else chosen.rows)
    console.print(table_of(results))
    if chosen.figure:
        draw(results, chosen.figure)
        console.print(f"errors against rows: {chosen.figure}")


def cases() -> Iterator[Case]:
    """Yield all runs: streams with an intercept and without, forgetting nothing and something."""
    for accumulator in ACCUMULATORS:
        for forgets in SETTINGS:
            for stream in THOROUGH:
                yield Case(stream, accumulator, forgets=forgets)
        for forgets in ("nothing", "factor 0.999"):
            for stream in ("far from 0", "one direction never", "constant", "nearly collinear"):
                yield Case(stream, accumulator, forgets=forgets)
            yield Case("nearly collinear", accumulator, forgets=forgets, ridge=SMALL)
            yield Case("one direction rare", accumulator, False, forgets)
            yield Case("one direction rare", accumulator, forgets=forgets, singly=True)
        for stream in ("independent", "one direction never", "constant", "nearly collinear"):
            yield Case(stream, accumulator, False)


def run(case: Case, n_rows: int) -> Result:
    """Learn the rows of a case, and compare the weights at thirty moments on the way."""
    if case.accumulator == "recursive" and case.forgets != "nothing" and not case.singly:
        n_rows = max(1, n_rows // SHARE)
    stream, model = make_table(case.stream), model_of(case)
    errors, residuals, seconds, start = [], [], 0.0, 0
    stops = moments(n_rows)
    for stop in stops:
        started = time.perf_counter()
        (learn_singly if case.singly else learn)(model, stream, start, stop)
        seconds += time.perf_counter() - started
        error, residual = compare(model, stream, DECAYS[case.forgets])
        errors.append(error)
        residuals.append(residual)
        start = stop
    return Result(stops, errors, residuals, 1e6 * seconds / n_rows)


def model_of(case: Case) -> LeastSquaresClassifier:
    return LeastSquaresClassifier(
        ridge=case.ridge,
        accumulator=case.accumulator,
        fit_intercept=case.fit_intercept,
        **SETTINGS[case.forgets],
    )


def learn(model: LeastSquaresClassifier, stream: Stream, start: int, stop: int) -> None:
    """Learn rows in batches."""
    for first in range(start, stop, BATCH):
        last = min(first + BATCH, stop)
        X, y = stream.between(first, last)
        t = None if model.half_life is None else np.arange(first, last) / PER_SECOND
        model.learn_many(X, y, t=t)


def learn_singly(model: LeastSquaresClassifier, stream: Stream, start: int, stop: int) -> None:
    """Learn rows one by one, each of which enters the statistics alone."""
    for first in range(start, stop, BATCH):
        X, y = stream.between(first, min(first + BATCH, stop))
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(enumerate(row)), label)
            # To look is what lets a row in.
            _ = model.count


def compare(model: LeastSquaresClassifier, stream: Stream, decay: Decimal) -> tuple[float, float]:
    """Return the error of the weights, relative to the largest one, and that of the equations."""
    definition = define(stream, model.count, decay, model.ridge_diagonal, model.fit_intercept)
    weights, exact = weights_of(model), definition.solution()
    error = np.abs(weights - exact).max() / np.abs(exact).max()
    return float(error), definition.residual(weights)


def weights_of(model: LeastSquaresClassifier) -> Floats:
    """Return weights by class, 0 for one that did not come yet; the intercept, if any, below."""
    below = [model.intercept] if model.fit_intercept else []
    weights = np.zeros((len(model.feature_names) + len(below), N_CLASSES))
    weights[:, list(model.classes)] = np.vstack([model.output_weights, *below])
    return weights


def table_of(results: dict[Case, Result]) -> Table:
    """Return for every run its largest error, and when, and those at the end."""
    columns = ("stream", "accumulator", "intercept", "forgets", "fed", "rows", "largest error")
    table = Table(*columns, "digits", "at row", "at the end", "residual at the end", "us a row")
    for case, result in results.items():
        peak = result.errors[result.peak]
        table.add_row(
            case.name,
            case.accumulator,
            "yes" if case.fit_intercept else "no",
            case.forgets,
            "one by one" if case.singly else "batches",
            f"{result.moments[-1]:,}",
            f"{peak:.0e}",
            f"{-np.log10(max(peak, 1e-17)):.1f}",
            f"{result.moments[result.peak]:,}",
            f"{result.errors[-1]:.0e}",
            f"{max(result.residuals[-1], 0.0):.0e}",
            f"{result.microseconds:.1f}",
        )
    return table


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rows", type=positive, default=10_000_000, help="rows of each run in batches")
    add("--single-rows", type=positive, default=1_000_000, help="rows of each run one by one")
    add("--figure", type=Path, default=Path("long_runs.png"), help="where to draw the errors")
    add("--no-figure", dest="figure", action="store_const", const=None)
    add("--no-progress", dest="progress", action="store_false")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
