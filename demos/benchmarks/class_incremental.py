"""Rules that learn classes as they come, on the embeddings of a pretrained network.

python demos/benchmarks/class_incremental.py --images cifar10.npz --cache cifar10-embeddings.npz
python demos/benchmarks/class_incremental.py --text
python demos/benchmarks/class_incremental.py --quick

The items are those of demos/new_classes.py. Classes arrive in five tasks. The first table holds the
accuracy over all classes seen after each task, and after so many examples of every class, a mean of
three draws. The second table holds what a late class costs: all other classes are learnt from all
rows, then one class from its first rows; the recall of that class and the accuracy of the others
are means over four classes. The third table compares models that learnt the classes in other
orders, and in other mini-batches, with one that learnt all rows at once. Every embedding is
computed once and kept in the file --cache.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import Array, bar, make_parser, not_negative, print_table, table_of
from new_classes import AllAtOnce, GradientDescent, NearestMean, Rows, embedded, read

from onlinels import HiddenLayer, LeastSquaresClassifier

N_TASKS = 5
SHOTS = 1, 2, 5, 10, 50
N_DRAWS = 3
N_HELD_OUT = 5000
N_ORDERS = 3
MAX_BATCH = 1000
DEEP_SLDA_SHRINKAGE = 1e-4

Rule = Callable[[], Any]


class DeepSLDA(NearestMean):
    """Deep streaming linear discriminant analysis (Hayes and Kanan 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self._products: Any = 0.0

    def learn(self, rows: Rows) -> None:
        """Learn a mini-batch."""
        super().learn(rows)
        self._products = self._products + rows.X.T @ rows.X

    def predict(self, X: Array) -> Array:
        """Return the labels of rows."""
        labels = list(self._sums)
        counts = np.array([self._counts[label] for label in labels])
        means = np.array([self._sums[label] for label in labels]) / counts[:, None]
        covariance = (self._products - (means.T * counts) @ means) / counts.sum()
        shrunken = (1.0 - DEEP_SLDA_SHRINKAGE) * covariance
        shrunken.flat[:: len(shrunken) + 1] += DEEP_SLDA_SHRINKAGE
        weights = np.linalg.solve(shrunken, means.T)
        scores = X @ weights - 0.5 * (means.T * weights).sum(axis=0)
        chosen: Array = np.array(labels)[scores.argmax(axis=1)]
        return chosen


class Model:
    """A model or pipeline of onlinels."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def learn(self, rows: Rows) -> None:
        """Learn a mini-batch."""
        self._model.learn_many(rows.X, rows.y)

    def predict(self, X: Array) -> Array:
        """Return the labels of rows."""
        return np.asarray(self._model.predict_many(X))


def least_squares(n_hidden: int, priors: Any) -> Model:
    last = LeastSquaresClassifier(priors=priors)
    if not n_hidden:
        return Model(last)
    return Model(HiddenLayer(n_hidden, activation="relu", bias=False) | last)


def rules(classes: Array, n_hidden: int) -> dict[str, Rule]:
    """Return makers of rules by their names."""
    made: dict[str, Rule] = {
        "nearest class mean": NearestMean,
        "Deep SLDA": DeepSLDA,
        "gradient descent": partial(GradientDescent, classes),
    }
    names = {None: "labels", "equal": "equal priors", "learnt": "learnt priors"}
    for size in (0, n_hidden) if n_hidden else (0,):
        layer = f", {size:,} units" if size else ""
        for priors, name in names.items():
            made[f"least squares, {name}{layer}"] = partial(least_squares, size, priors)
    return made


def main() -> None:
    parser = make_parser(__doc__)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", action="store_true", help="descriptions of Debian's packages")
    source.add_argument("--images", type=Path, metavar="FILE", help="images and labels")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="embeddings, kept there")
    parser.add_argument("--hidden", type=not_negative, default=2000, help="units (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="600 digits, 100 units")
    args = parser.parse_args()
    args.limit = 600 if args.quick else None
    train, test = read_embeddings(args)
    classes = np.unique(train.y)
    made = rules(classes, 100 if args.quick else args.hidden)
    tasks = np.array_split(classes, N_TASKS)
    after_tasks = table_of(
        "rule", *(f"task {n + 1}" for n in range(N_TASKS)), *map(str, SHOTS), "s"
    )
    late = table_of("rule", *(f"{shots} rows" for shots in SHOTS))
    for name, rule in bar(made.items(), "Rules", len(made)):
        start = time.perf_counter()
        accuracies = after_each_task(rule(), train, test, tasks)
        took = time.perf_counter() - start
        few = [few_shots(rule, train, test, shots) for shots in SHOTS]
        after_tasks.add_row(name, *map(percent, [*accuracies, *few]), f"{took:.0f}")
        if name != "gradient descent":
            late.add_row(name, *late_class(rule, train, test, classes))
    rule = AllAtOnce()
    rule.learn(train)
    at_once = accuracy(rule, test)
    after_tasks.add_row("logistic regression, all rows at once", "", "", "", "", percent(at_once))
    print_table(after_tasks)
    print_table(late)
    print_table(orders(train, test, classes))


def read_embeddings(args: Any) -> tuple[Rows, Rows]:
    """Return embeddings to learn and to test, from the cache if it is there."""
    if args.cache is not None and args.cache.exists():
        with np.load(args.cache) as file:
            X, y = file["X"].astype(np.float64), file["y"]
    else:
        train, test = embedded(read(args), Console(stderr=True))
        X, y = np.vstack([train.X, test.X]), np.concatenate([train.y, test.y])
        if args.cache is not None:
            np.savez(args.cache, X=X.astype(np.float32), y=y)
    n = len(y) - min(N_HELD_OUT, len(y) // 3)
    return Rows(X[:n], y[:n]), Rows(X[n:], y[n:])


def accuracy(rule: Any, rows: Rows) -> float:
    return float((rule.predict(rows.X) == rows.y).mean())


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def learn_all(rule: Any, rows: Rows) -> None:
    for batch in rows.batches():
        rule.learn(batch)


def after_each_task(rule: Any, train: Rows, test: Rows, tasks: list[Array]) -> list[float]:
    """Return the accuracy over the classes seen so far, after each task."""
    found = []
    for number, task in enumerate(tasks):
        learn_all(rule, train.of(task))
        found.append(accuracy(rule, test.of(np.concatenate(tasks[: number + 1]))))
    return found


def few_shots(make: Rule, train: Rows, test: Rows, shots: int) -> float:
    """Return the mean accuracy after so many examples of every class, class by class."""
    accuracies = []
    for seed in range(N_DRAWS):
        random, rule = np.random.default_rng(seed), make()
        for label in np.unique(train.y):
            own = train.of(label)
            chosen = random.permutation(len(own))[:shots]
            rule.learn(Rows(own.X[chosen], own.y[chosen]))
        accuracies.append(accuracy(rule, test))
    return float(np.mean(accuracies))


def late_class(make: Rule, train: Rows, test: Rows, classes: Array) -> list[str]:
    """Return recalls of a class of few rows, and accuracies of the others, for every number."""
    chosen = classes[:: -(-len(classes) // 4)]
    found = np.zeros((len(SHOTS), 2))
    for label in chosen:
        others, own, rule = np.setdiff1d(classes, [label]), train.of(label), make()
        learn_all(rule, train.of(others))
        learnt = 0
        for row, shots in enumerate(SHOTS):
            rule.learn(Rows(own.X[learnt:shots], own.y[learnt:shots]))
            learnt = shots
            pair = accuracy(rule, test.of(label)), accuracy(rule, test.of(others))
            found[row] += np.array(pair) / len(chosen)
    return [f"{percent(recall)} / {percent(rest)}" for recall, rest in found]


def orders(train: Rows, test: Rows, classes: Array) -> Table:
    """Return a table of models that learnt the same rows in other orders and mini-batches."""
    table = table_of(
        "ridge", "order", "mini-batches", "correct, %", "other labels", "largest difference"
    )
    at_once = LeastSquaresClassifier(priors="equal")
    at_once.learn_many(train.X, train.y)
    for ridge in ("auto", round(at_once.ridge_, 1)):
        at_once.ridge = ridge
        labels, scores = np.asarray(at_once.predict_many(test.X)), sorted_scores(at_once, test.X)
        table.add_row(str(ridge), "as they are", "1", percent((labels == test.y).mean()), "", "")
        for seed in range(N_ORDERS):
            model = LeastSquaresClassifier(ridge, priors="equal")
            random = np.random.default_rng(seed)
            batches = list(shuffled(random, train, classes))
            for batch in batches:
                model.learn_many(batch.X, batch.y)
            predicted = np.asarray(model.predict_many(test.X))
            difference = np.abs(sorted_scores(model, test.X) - scores).max()
            table.add_row(
                str(ridge),
                f"tasks in order {seed + 1}",
                f"{len(batches):,}",
                percent((predicted == test.y).mean()),
                str((predicted != labels).sum()),
                f"{difference / np.abs(scores).max():.0e}",
            )
    return table


def shuffled(random: np.random.Generator, train: Rows, classes: Array) -> Iterator[Rows]:
    """Yield all rows in mini-batches of any size, task after task, in an order that is drawn."""
    for task in np.array_split(random.permutation(classes), N_TASKS):
        rows, start = train.of(task), 0
        order = random.permutation(len(rows))
        while start < len(rows):
            batch = order[start : start + int(random.integers(1, MAX_BATCH))]
            yield Rows(rows.X[batch], rows.y[batch])
            start += len(batch)


def sorted_scores(model: LeastSquaresClassifier, X: Array) -> Array:
    """Return scores (n, n_classes) with the classes in the order of their labels."""
    scores: Array = model.scores_many(X)[:, np.argsort(np.array(model.classes))]
    return scores


if __name__ == "__main__":
    main()
