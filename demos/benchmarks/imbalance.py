"""Compare ways to balance classes on imbalanced streams, by balanced accuracy.

python demos/benchmarks/imbalance.py
python demos/benchmarks/imbalance.py --data folder    (more data sets: .npz files with arrays x, y)
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from command_line import positive, ridge, share, splits_parser
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from river import datasets as streams
from river import metrics
from river.preprocessing import StandardScaler
from sklearn import datasets  # type: ignore[import-untyped]

from onlinels import HiddenLayer, LeastSquaresClassifier
from onlinels.checks import Floats, Integers
from onlinels.features.hidden import ACTIVATIONS

BALANCES = (None, "classwise", "priors")

MOST_ROWS = 4000
"""Rows taken, at random, from a larger data set, before classes are made rare."""

HELD_OUT = 0.3
"""Share of the rows, as frequent as they are, on which models are tested at the end."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows (n, n_features) and labels (n,)."""

    name: str
    x: Floats
    y: Any


@dataclass(frozen=True)
class Result:
    """Balanced accuracies of every balance on one stream, and what the stream was like."""

    n_rows: int
    rare_share: float
    streaming: dict[str | None, float]
    held_out: dict[str | None, float]


def main() -> None:
    arguments = parse_arguments()
    console = Console(width=170, force_jupyter=False)
    console.print(
        f"{os.cpu_count()} cores, {arguments.seeds} random splits of each data set, "
        f"{arguments.n_hidden} {arguments.activation} units, "
        f"rare classes: {arguments.share:.0%} of the frequent ones' rows each"
    )
    results: dict[str, list[Result]] = {}
    with Progress(console=console, transient=True, disable=not arguments.progress) as progress:
        for data in progress.track(list(read_all(arguments)), description="Learning streams"):
            results[data.name] = [run(data, seed, arguments) for seed in range(arguments.seeds)]
    console.print(accuracy_table(results))


def read_all(arguments: argparse.Namespace) -> Iterator[Data]:
    """Yield data sets of scikit-learn and river, one made by river, and those in a folder."""
    for name in ("breast_cancer",) if arguments.quick else ("breast_cancer", "digits"):
        bunch = getattr(datasets, f"load_{name}")()
        yield Data(name, bunch.data, bunch.target)
    for name in ("Phishing",) if arguments.quick else ("Phishing", "Bananas", "ImageSegments"):
        yield read_stream(name, getattr(streams, name)())
    if arguments.quick:
        return
    made = streams.synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=3, n_features=10)
    yield read_stream("RandomRBF", itertools.islice(made, MOST_ROWS))
    for path in sorted(arguments.data.glob("*.npz")) if arguments.data else ():
        with np.load(path) as arrays:
            if {"x", "y"} <= set(arrays.files) and arrays["x"].ndim == 2:
                x, y = arrays["x"].astype(float), arrays["y"]
                complete = np.isfinite(x).all(axis=1)
                yield Data(path.stem.split("_")[0], x[complete], y[complete])


def read_stream(name: str, stream: Any) -> Data:
    samples = list(stream)
    features = sorted(samples[0][0])
    x = np.array([[row[feature] for feature in features] for row, _ in samples], dtype=float)
    return Data(name, x, np.array([y for _, y in samples]))


def split(data: Data, seed: int, share: float) -> tuple[Integers, Integers, float]:
    """Return the rows of an imbalanced stream, held-out rows, and the rare classes' share.

    The less frequent half of the classes is made rare: of each, as many rows stay in the stream as
    are the given share of all rows of the other classes. Balanced accuracy does not ask how
    frequent a class is, so all held-out rows are kept.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(data.x))[:MOST_ROWS]
    n_test = round(HELD_OUT * len(order))
    test, train = order[:n_test], order[n_test:]
    classes, counts = np.unique(data.y, return_counts=True)
    rare = classes[np.argsort(counts, kind="stable")[: len(classes) // 2]]
    frequent = ~np.isin(data.y[train], rare)
    n_each = max(2, round(share * np.count_nonzero(frequent)))
    # At random: the first ones would all come early in the stream.
    kept = [random.permutation(np.flatnonzero(data.y[train] == label))[:n_each] for label in rare]
    stay = np.sort(np.concatenate([np.flatnonzero(frequent), *kept]))
    return train[stay], test, 1.0 - np.count_nonzero(frequent) / len(stay)


def run(data: Data, seed: int, arguments: argparse.Namespace) -> Result:
    """Learn one imbalanced stream under every balance, row by row, predicting each row first."""
    train, test, rare_share = split(data, seed, arguments.share)
    streaming, held_out = {}, {}
    for balance in BALANCES:
        model = make_model(balance, seed, arguments)
        streaming[balance] = score(model, data, train, learn=True)
        held_out[balance] = score(model, data, test, learn=False)
    return Result(len(train), rare_share, streaming, held_out)


def make_model(balance: str | None, seed: int, arguments: argparse.Namespace) -> Any:
    layer = HiddenLayer(arguments.n_hidden, activation=arguments.activation, seed=seed)
    return StandardScaler() | layer | LeastSquaresClassifier(arguments.ridge, balance=balance)


def score(model: Any, data: Data, rows: Integers, learn: bool) -> float:
    """Return the balanced accuracy on rows, each of which is learnt after it is predicted."""
    metric: Any = metrics.BalancedAccuracy()  # type: ignore[no-untyped-call]
    for row, label in zip(data.x[rows].tolist(), data.y[rows].tolist(), strict=True):
        x = {f"x{column}": value for column, value in enumerate(row)}
        answer = model.predict_one(x)
        if answer is not None:
            metric.update(label, answer)
        if learn:
            model.learn_one(x, label)
    return float(metric.get())


def accuracy_table(results: dict[str, list[Result]]) -> Table:
    """Return the balanced accuracies of every data set: medians over splits."""
    names = [str(balance) for balance in BALANCES]
    columns = [f"{kind}: {name}" for kind in ("streaming", "held out") for name in names]
    table = Table("data", "rows", "rare", *columns, title="Balanced accuracy, medians over splits")
    for name, runs in results.items():
        kinds = ([run.streaming for run in runs], [run.held_out for run in runs])
        medians = [np.median([run[b] for run in kind]) for kind in kinds for b in BALANCES]
        table.add_row(
            name,
            f"{np.median([run.n_rows for run in runs]):.0f}",
            f"{np.median([run.rare_share for run in runs]):.1%}",
            *(f"{median:.1%}" for median in medians),
        )
    return table


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = splits_parser(__doc__)
    add = parser.add_argument
    add("--share", type=share, default=0.03, help="of frequent rows, a rare class")
    add("--n-hidden", type=positive, default=100)
    add("--activation", choices=list(ACTIVATIONS), default="relu")
    add("--ridge", type=ridge, default="auto", help='a number, "paper" or "auto"')
    add("--quick", action="store_true", help="two small data sets, none of --data")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
