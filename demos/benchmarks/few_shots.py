"""Compare priors after a few examples of a new class, and the log-loss of probabilities.

python demos/benchmarks/few_shots.py
python demos/benchmarks/few_shots.py --data folder    (more data sets: .npz files with arrays x, y)
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
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
    tables_of,
)
from sklearn.datasets import load_digits

from onlinels import CalibratedClassifier, HiddenLayer, LeastSquaresClassifier

RULES = None, "learnt", "equal"
SHOTS = 1, 2, 5, 10, 20, 100

MOST_ROWS = 9000
"""Most rows of a data set; a larger one is sampled at random."""

HELD_OUT = 0.4
"""Share of the rows on which models are tested."""

SURE = 1e-15
"""Smallest probability in the log-loss, as in river."""

Found = dict[Any, list[Any]]
"""Figures of each split, by the number of shots or the kind of probabilities."""


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=folder_of_arrays, help="folder of .npz files with arrays x and y")
    add("--only", help="only the data set with this name")
    add("--splits", type=positive, default=10, help="splits, each with another new class")
    add("--n-hidden", type=positive, default=300, help="relu units (%(default)s)")
    add("--quick", action="store_true", help="two splits of digits, 50 units")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.splits, arguments.n_hidden, arguments.data = 2, 50, None
    print(f"{machine()}, {arguments.splits} splits, {arguments.n_hidden} relu units, ridge 'auto'")
    shots: dict[str, Found] = {}
    losses: dict[str, Found] = {}
    for name, x, y in read_all(arguments):
        shots[name], losses[name] = defaultdict(list), defaultdict(list)
        for seed in bar(range(arguments.splits), name):
            measure(x, y, seed, arguments.n_hidden, shots[name], losses[name])
    print_table(shots_table(shots))
    print_table(losses_table(losses))


def read_all(arguments: argparse.Namespace) -> Iterator[tuple[str, Floats, Array]]:
    """Yield digits and the data sets of a folder."""
    x, y = load_digits(return_X_y=True)
    for name, *data in (("digits", x, y), *tables_of(arguments.data)):
        if arguments.only in (None, name):
            yield name, *data


def measure(x: Floats, y: Array, seed: int, n_hidden: int, shots: Found, losses: Found) -> None:
    """Learn all classes except one, then a few rows of that class; then learn all rows at once."""
    order = np.random.default_rng(seed).permutation(len(x))[:MOST_ROWS]
    n_test = round(HELD_OUT * len(order))
    test, train = order[:n_test], order[n_test:]
    classes = np.unique(y)
    new = classes[seed % len(classes)]
    old, news = train[y[train] != new], train[y[train] == new]
    layer = HiddenLayer.from_examples(x[old], y[old], n_hidden, seed=seed)
    activations = layer.transform_many(x)
    model: Any = LeastSquaresClassifier()
    model.learn_many(activations[old], y[old])
    n_learnt = 0
    for n_shots in SHOTS:
        if len(news) < n_shots:
            break
        rows = news[n_learnt:n_shots]
        model.learn_many(activations[rows], y[rows])
        n_learnt = n_shots
        for rule in RULES:
            model.priors = rule
            right = model.predict_many(activations[test]) == y[test]
            is_new = y[test] == new
            shots[n_shots, rule].append((right[is_new].mean(), right[~is_new].mean()))
    for rule in RULES[:2]:
        model = CalibratedClassifier(LeastSquaresClassifier(priors=rule))
        model.learn_many(activations[train], y[train])
        for kind, each in (("uncalibrated", model.classifier), ("calibrated", model)):
            probabilities = each.predict_proba_many(activations[test])
            columns = [each.classes.index(label) for label in y[test].tolist()]
            likelihoods = probabilities[np.arange(n_test), columns]
            losses[rule, kind].append(-np.log(np.maximum(likelihoods, SURE)).mean())


def shots_table(shots: dict[str, Found]) -> Any:
    """Return a table of the new class's recall and the old classes' accuracy, means over splits."""
    columns = [f"{what}: {rule}" for what in ("new", "old") for rule in RULES]
    title = "Recall of the new class and accuracy of the old ones"
    table = table_of("data", "shots", *columns, title=title)
    for name, found in shots.items():
        for n_shots in SHOTS:
            if (n_shots, None) in found:
                means = np.array([np.mean(found[n_shots, rule], axis=0) for rule in RULES])
                table.add_row(name, str(n_shots), *(f"{share:.1%}" for share in means.T.ravel()))
    return table


def losses_table(losses: dict[str, Found]) -> Any:
    """Return a table of the log-losses after learning all classes, means over splits."""
    kinds = list(next(iter(losses.values())))
    title = "Log-loss on held-out rows"
    table = table_of("data", *(f"{rule}, {kind}" for rule, kind in kinds), title=title)
    for name, found in losses.items():
        table.add_row(name, *(f"{np.mean(found[kind]):.3f}" for kind in kinds))
    return table


if __name__ == "__main__":
    main()
