"""Compare priors of classes on imbalanced streams, by balanced accuracy.

python demos/benchmarks/imbalance.py
python demos/benchmarks/imbalance.py --data folder    (more data sets: .npz files with arrays x, y)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from common import (
    Array,
    Floats,
    bar,
    folder_of_arrays,
    machine,
    make_parser,
    positive,
    print_table,
    table_of,
    table_of_stream,
    tables_of,
)
from river import datasets as streams
from river import metrics
from river.preprocessing import StandardScaler
from sklearn import datasets

from onlinels import HiddenLayer, LeastSquaresClassifier

PRIORS = (None, "learnt", "equal")

MOST_ROWS = 4000
"""Rows taken, at random, from a larger data set, before classes are made rare."""

HELD_OUT = 0.3
"""Share of the rows, as frequent as they are, on which models are tested at the end."""


Data = tuple[Floats, Array]
"""Rows (n, n_features) and labels (n,)."""


@dataclass(frozen=True)
class Result:
    """Balanced accuracies by priors on one stream, and what the stream was like."""

    n_rows: int
    rare_share: float
    streaming: dict[str | None, float]
    held_out: dict[str | None, float]


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=folder_of_arrays, help="folder of .npz files with arrays x and y")
    add("--seeds", type=positive, default=5, help="random splits of each data set (%(default)s)")
    add("--share", type=float, default=0.03, help="of frequent rows, a rare class (%(default)s)")
    add("--n-hidden", type=positive, default=100, help="relu units (%(default)s)")
    add("--quick", action="store_true", help="two small data sets, none of --data")
    arguments = parser.parse_args()
    print(
        f"{machine()}, {arguments.seeds} random splits of each data set, {arguments.n_hidden} "
        f"units, rare classes: {arguments.share:.0%} of the frequent ones' rows each"
    )
    results = {
        name: [run((x, y), seed, arguments) for seed in range(arguments.seeds)]
        for name, x, y in bar(list(read_all(arguments)), "Learning streams")
    }
    print_table(accuracy_table(results))


def read_all(arguments: argparse.Namespace) -> Iterator[tuple[str, Floats, Array]]:
    """Yield data sets of scikit-learn and river, one made by river, and those in a folder."""
    for name in ("breast_cancer",) if arguments.quick else ("breast_cancer", "digits"):
        bunch = getattr(datasets, f"load_{name}")()
        yield name, bunch.data, bunch.target
    for name in ("Phishing",) if arguments.quick else ("Phishing", "Bananas", "ImageSegments"):
        yield name, *table_of_stream(getattr(streams, name)())
    if not arguments.quick:
        made = streams.synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=3, n_features=10)
        yield "RandomRBF", *table_of_stream(islice(made, MOST_ROWS))
        yield from tables_of(arguments.data)


def split(data: Data, seed: int, share: float) -> tuple[Array, Array, float]:
    """Return the rows of an imbalanced stream, held-out rows, and the rare classes' share.

    The less frequent half of the classes is made rare: of each, as many rows stay in the stream as
    are the given share of all rows of the other classes. Balanced accuracy does not ask how
    frequent a class is, so all held-out rows are kept.
    """
    (x, y), random = data, np.random.default_rng(seed)
    order = random.permutation(len(x))[:MOST_ROWS]
    n_test = round(HELD_OUT * len(order))
    test, train = order[:n_test], order[n_test:]
    classes, counts = np.unique(y, return_counts=True)
    rare = classes[np.argsort(counts, kind="stable")[: len(classes) // 2]]
    frequent = ~np.isin(y[train], rare)
    n_each = max(2, round(share * np.count_nonzero(frequent)))
    # At random: the first ones would all come early in the stream.
    kept = [random.permutation(np.flatnonzero(y[train] == label))[:n_each] for label in rare]
    stay = np.sort(np.concatenate([np.flatnonzero(frequent), *kept]))
    return train[stay], test, 1.0 - np.count_nonzero(frequent) / len(stay)


def run(data: Data, seed: int, arguments: argparse.Namespace) -> Result:
    """Learn one imbalanced stream with all priors, row by row, predicting each row first."""
    train, test, rare_share = split(data, seed, arguments.share)
    streaming, held_out = {}, {}
    for priors in PRIORS:
        model = make_model(priors, seed, arguments)
        streaming[priors] = score(model, data, train, learn=True)
        held_out[priors] = score(model, data, test, learn=False)
    return Result(len(train), rare_share, streaming, held_out)


def make_model(priors: str | None, seed: int, arguments: argparse.Namespace) -> Any:
    layer = HiddenLayer(arguments.n_hidden, activation="relu", seed=seed, bias=False)
    return StandardScaler() | layer | LeastSquaresClassifier(priors=priors)


def score(model: Any, data: Data, rows: Array, learn: bool) -> float:
    """Return the balanced accuracy on rows, each of which is learnt after it is predicted."""
    x, y = data
    metric: Any = metrics.BalancedAccuracy()  # type: ignore[no-untyped-call]
    for row, label in zip(x[rows].tolist(), y[rows].tolist(), strict=True):
        sample = {f"x{column}": value for column, value in enumerate(row)}
        answer = model.predict_one(sample)
        if answer is not None:
            metric.update(label, answer)
        if learn:
            model.learn_one(sample, label)
    return float(metric.get())


def accuracy_table(results: dict[str, list[Result]]) -> Any:
    """Return the balanced accuracies of every data set: medians over splits."""
    names = [str(priors) for priors in PRIORS]
    columns = [f"{kind}: {name}" for kind in ("streaming", "held out") for name in names]
    table = table_of(
        "data", "rows", "rare", *columns, title="Balanced accuracy, medians over splits"
    )
    for name, runs in results.items():
        kinds = ([run.streaming for run in runs], [run.held_out for run in runs])
        medians = [np.median([run[each] for run in kind]) for kind in kinds for each in PRIORS]
        table.add_row(
            name,
            f"{np.median([run.n_rows for run in runs]):.0f}",
            f"{np.median([run.rare_share for run in runs]):.1%}",
            *(f"{median:.1%}" for median in medians),
        )
    return table


if __name__ == "__main__":
    main()
