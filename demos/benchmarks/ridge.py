"""Compare ways to choose the ridge with the best ridge in hindsight, and time the choice.

python demos/benchmarks/ridge.py
python demos/benchmarks/ridge.py --data folder    (more data sets: .npz files with arrays x, y)
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from command_line import splits_parser
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from river import datasets as streams
from sklearn import datasets  # type: ignore[import-untyped]

from onlinels import HiddenLayer
from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.held_out import held_out_errors
from onlinels.checks import Floats
from onlinels.linalg.selection import (
    Spectrum,
    best_ridge,
    candidate_ridges,
    gcv_criterion,
    gcv_ridge,
    likelihood_criterion,
    paper_ridge,
)

BEST = "hindsight"
"""The ridge with the smallest squared error on the held-out rows themselves."""

MOST_ROWS = 6000
"""Rows taken, at random, from a larger data set."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows (n, n_features) and targets (n, n_targets): one-hot, or one real target."""

    name: str
    x: Floats
    y: Floats

    @property
    def is_classification(self) -> bool:
        """Whether the targets are one-hot."""
        return bool(self.y.shape[1] > 1)


@dataclass(frozen=True, eq=False)
class Case:
    """A data set, its features and the share of rows that are learnt."""

    data: Data
    n_hidden: int
    activation: str
    share: float


@dataclass(frozen=True)
class Result:
    """What every method's ridge gave on held-out rows, beside the best ridge in hindsight."""

    n_train: int
    n_test: int
    n_features: int
    ratios: dict[str, float]
    errors: dict[str, float]

    def excess(self, name: str) -> float:
        """Return a method's test error over that of the best ridge, in binomial errors of it."""
        best = self.errors[BEST]
        deviation = np.sqrt(max(best * (1.0 - best), 1e-9) / self.n_test)
        return float((self.errors[name] - best) / deviation)


def main() -> None:
    arguments = parse_arguments()
    console = Console(width=170, force_jupyter=False)
    console.print(f"{os.cpu_count()} cores, {arguments.seeds} random splits of each data set")
    cases = list(make_cases(arguments))
    results: dict[Case, list[Result]] = {case: [] for case in cases}
    with Progress(console=console, transient=True, disable=not arguments.progress) as progress:
        for case in progress.track(cases, description="Choosing ridges"):
            results[case] = [run(case, seed) for seed in range(arguments.seeds)]
    console.print(ratio_table(results))
    console.print(error_table(results))
    console.print(summary_table(results))
    console.print(cost_table([100, 300] if arguments.quick else [100, 300, 1000, 3000]))


def make_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Yield every data set raw and through hidden units, with many and with few training rows."""
    layers = [(0, ""), (200, "square"), (200, "relu"), (500, "square"), (500, "relu")]
    for data in read_all(arguments.data, arguments.quick):
        for n_hidden, activation in layers[:3] if arguments.quick else layers:
            for share in (0.7, 0.2):
                yield Case(data, n_hidden, activation, share)


def read_all(folder: Path | None, quick: bool) -> Iterator[Data]:
    """Yield data sets of scikit-learn and river, and those in a folder."""
    for name in ("digits", "wine", "breast_cancer"):
        bunch = getattr(datasets, f"load_{name}")()
        yield Data(name, bunch.data, one_hot(bunch.target))
    bunch = datasets.load_diabetes()
    yield Data("diabetes", bunch.data, bunch.target[:, None].astype(float))
    if quick:
        return
    for name in ("Phishing", "Bananas", "ImageSegments"):
        x, y = read_stream(name)
        yield Data(name, x, one_hot(y))
    x, y = read_stream("TrumpApproval")
    yield Data("TrumpApproval", x, y[:, None].astype(float))
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path) as arrays:
            if {"x", "y"} <= set(arrays.files) and arrays["x"].ndim == 2:
                x, y = arrays["x"].astype(float), arrays["y"]
                complete = np.isfinite(x).all(axis=1)
                yield Data(path.stem.split("_")[0], x[complete], one_hot(y[complete]))


def read_stream(name: str) -> tuple[Floats, Any]:
    samples = list(getattr(streams, name)())
    features = sorted(samples[0][0])
    x = np.array([[row[feature] for feature in features] for row, _ in samples], dtype=float)
    return x, np.array([y for _, y in samples])


def one_hot(labels: Any) -> Floats:
    hot: Floats = (np.asarray(labels)[:, None] == np.unique(labels)).astype(float)
    return hot


def run(case: Case, seed: int) -> Result:
    """Learn the training rows of a random split, choose ridges, and test them on the others."""
    x, y, n_train = split(case, seed)
    train = CentredAccumulator(GramAccumulator())
    train.update(x[:n_train], y[:n_train])
    test = CentredAccumulator(GramAccumulator())
    test.update(x[n_train:], y[n_train:])
    ridges = choose(train, x[:n_train], y[:n_train])
    # 16 ridges a decade, where the candidates have 8.
    coarse = candidate_ridges(float(train.spectrum().eigenvalues[-1]))
    tried = np.concatenate([coarse, coarse * 10 ** (1 / 16), list(ridges.values())])
    squares = held_out_errors(train.sums_about(train), test.sums_about(train), tried)
    chosen = {BEST: tried[np.argmin(squares)]} | ridges
    errors = dict.fromkeys(chosen, np.nan)
    if case.data.is_classification:
        errors = {
            name: test_error(train, ridge, x[n_train:], y[n_train:])
            for name, ridge in chosen.items()
        }
    relative = [1.0, *(squares[2 * len(coarse) :] / squares.min()).tolist()]
    ratios = dict(zip(chosen, relative, strict=True))
    return Result(n_train, len(x) - n_train, x.shape[1], ratios, errors)


def split(case: Case, seed: int) -> tuple[Floats, Floats, int]:
    """Return rows in random order, standardised by those that come first, which are learnt."""
    order = np.random.default_rng(seed).permutation(len(case.data.x))[:MOST_ROWS]
    n_train = int(case.share * len(order))
    x, y = case.data.x[order], case.data.y[order]
    deviation = x[:n_train].std(axis=0)
    x = (x - x[:n_train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    if case.n_hidden:
        layer = HiddenLayer(case.n_hidden, activation=case.activation, seed=seed)
        x = layer.transform_many(x / np.sqrt(x.shape[1]))
    return x, y, n_train


def choose(train: Accumulator, x: Floats, y: Floats) -> dict[str, float]:
    """Return the ridge that every method chooses from the training rows' statistics."""
    folded = FoldedAccumulator(lambda: CentredAccumulator(GramAccumulator()), 5)
    folded.update(x, y)
    spectrum = train.spectrum()
    ridges = candidate_ridges(float(spectrum.eigenvalues[-1]))
    return {
        "auto": choose_auto(train),
        "KFold(5)": folded.select_ridge(),
        "paper": max(paper_ridge(train.diagonal, train.n_targets), float(ridges[0])),
        "GCV": best_ridge(ridges, gcv_criterion(spectrum, ridges, 1.0)),
        "GCV 1.2": best_ridge(ridges, gcv_criterion(spectrum, ridges, 1.2)),
        "GCV 1.4": best_ridge(ridges, gcv_criterion(spectrum, ridges, 1.4)),
        "robust GCV": best_ridge(ridges, robust_criterion(spectrum, ridges)),
        "REML": best_ridge(ridges, likelihood_criterion(spectrum, ridges)),
    }


def robust_criterion(spectrum: Spectrum, ridges: Floats, gamma: float = 0.3) -> Floats:
    """Return the logarithm of (gamma + (1 - gamma) tr(H^2) / n) GCV (Lukas 2006)."""
    fitted = spectrum.eigenvalues[:, None] / (spectrum.eigenvalues[:, None] + ridges)
    squared_trace = spectrum.n_free + (fitted**2).sum(axis=0)
    criterion: Floats = gcv_criterion(spectrum, ridges, 1.0) + np.log(
        gamma + (1.0 - gamma) * squared_trace / spectrum.weight
    )
    return criterion


def test_error(train: Accumulator, ridge: float, x: Floats, y: Floats) -> float:
    """Return the share of rows whose largest output is not their class."""
    weights = train.solve(ridge)
    scores = x @ weights + train.intercept(weights)
    return float(np.mean(scores.argmax(axis=1) != y.argmax(axis=1)))


def labelled(results: dict[Case, list[Result]]) -> Iterator[tuple[list[str], list[Result]]]:
    for case, runs in results.items():
        features = f"{case.n_hidden} {case.activation}" if case.n_hidden else "raw"
        sizes = [str(runs[0].n_train), str(runs[0].n_features)]
        yield [case.data.name, features, *sizes], runs


def ratio_table(results: dict[Case, list[Result]]) -> Table:
    """Return held-out squared errors relative to the best in hindsight: medians over splits."""
    methods = list(next(iter(results.values()))[0].ratios)[1:]
    table = Table("data", "features", "n", "M", *methods, title="Held-out MSE / best in hindsight")
    for labels, runs in labelled(results):
        medians = [np.median([run.ratios[name] for run in runs]) for name in methods]
        table.add_row(*labels, *(f"{median:.3f}" for median in medians))
    return table


def error_table(results: dict[Case, list[Result]]) -> Table:
    """Return test errors over that of the best ridge, in standard errors: medians over splits."""
    methods = ["auto", "KFold(5)", "paper"]
    columns = ("data", "features", "n", "M", "test error at the best ridge", *methods)
    table = Table(*columns, title="Test error above that of the best ridge, in standard errors")
    for labels, runs in labelled(results):
        if not np.isnan(runs[0].errors[BEST]):
            medians = [np.median([run.excess(name) for run in runs]) for name in methods]
            best = f"{100 * np.median([run.errors[BEST] for run in runs]):.2f}%"
            table.add_row(*labels, best, *(f"{median:+.2f}" for median in medians))
    return table


def summary_table(results: dict[Case, list[Result]]) -> Table:
    """Return every method's figures over all cases with features of one kind."""
    columns = ["cases", "method", "MSE ratio: median case", "within 2%", "within 5%", "worst case"]
    table = Table(*columns, "mean test error", "within one standard error", title="All cases")
    groups: dict[str, list[list[Result]]] = {}
    for case, runs in results.items():
        few = "n < 2 M" if runs[0].n_train < 2 * runs[0].n_features else "n >= 2 M"
        groups.setdefault(f"{case.activation or 'raw'}, {few}", []).append(runs)
    for group, chosen in sorted(groups.items()):
        for name in chosen[0][0].ratios:
            table.add_row(f"{len(chosen)} {group}", name, *summary(chosen, name))
    return table


def summary(chosen: list[list[Result]], name: str) -> list[str]:
    medians = np.array([np.median([run.ratios[name] for run in runs]) for runs in chosen])
    figures = [
        f"{np.median(medians):.3f}",
        f"{np.mean(medians <= 1.02):.0%}",
        f"{np.mean(medians <= 1.05):.0%}",
        f"{medians.max():.4g}",
    ]
    tested = [runs for runs in chosen if not np.isnan(runs[0].errors[name])]
    if not tested:
        return figures
    errors = np.mean([[run.errors[name] for run in runs] for runs in tested])
    excess = np.array([np.median([run.excess(name) for run in runs]) for runs in tested])
    return [*figures, f"{errors:.2%}", f"{np.mean(excess <= 1.0):.0%}"]


def cost_table(sizes: list[int]) -> Table:
    """Return seconds for one Cholesky solve, and for choosing the ridge beforehand."""
    table = Table(
        "M", "solve, s", "auto, s", "auto / solve", "KFold(5), s", title="Cost, 10 targets"
    )
    random = np.random.default_rng(0)
    for size in sizes:
        x, y = random.normal(size=(2 * size, size)), random.normal(size=(2 * size, 10))
        folded = FoldedAccumulator(lambda: CentredAccumulator(GramAccumulator()), 5)
        folded.update(x, y)
        total = folded.total
        solve = fastest(partial(total.solve, 1.0))
        auto = fastest(partial(choose_auto, total))
        folds = fastest(folded.select_ridge, repeats=1)
        table.add_row(
            str(size), f"{solve:.4f}", f"{auto:.4f}", f"{auto / solve:.0f}", f"{folds:.3f}"
        )
    return table


def choose_auto(train: Accumulator) -> float:
    return gcv_ridge(train.spectrum())


def fastest(call: Callable[[], Any], repeats: int = 3) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = splits_parser(__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="four data sets, none of --data, small sizes"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
