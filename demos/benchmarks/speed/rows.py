"""Measure single rows in river's form: predict_one and learn_one on dicts of floats.

The floor is a recursion of forty lines with an exact intercept, a check of the input, a lock and
all changes in one C loop. Every ratio is relative to the floor in the same run.

    OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/rows.py [--features 4 10 32 64] [--peers]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import starmap
from operator import call, itemgetter
from statistics import median
from threading import RLock
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dger, dsymv, dsyr

import onlinels

N_CLASSES = 3
ROWS, REPEATS = 2_000, 9


class Floor:
    """Recursive least squares on one-hot labels, with as few calls as possible."""

    def __init__(self, names: Sequence[str], classes: Sequence[Any], ridge: float = 1.0) -> None:
        size = len(names), len(classes)
        self.classes, self.pick, self.n_names = list(classes), itemgetter(*names), len(names)
        self.columns = {label: column for column, label in enumerate(classes)}
        self.inverse = np.eye(size[0], order="F") / ridge
        self.weights = np.zeros(size, order="F")
        self.mean, self.target_mean = np.zeros(size[0]), np.zeros(size[1])
        self.count, self.lock = 0.0, RLock()

    def read(self, x: dict[str, float]) -> Any:
        """Return the values in the order of the columns."""
        row = np.array(self.pick(x))
        if len(x) != self.n_names or not ddot(row, row) < 1e150:
            raise ValueError("x has other names, or values that are not finite numbers")
        return row

    def predict_one(self, x: dict[str, float]) -> Any:
        """Return the label with the highest score."""
        with self.lock:
            scores = (self.read(x) - self.mean).dot(self.weights)
            scores += self.target_mean
            return self.classes[scores.argmax()]

    def learn_one(self, x: dict[str, float], y: Any) -> None:
        """Learn a row relative to the mean, with weight n / (n + 1)."""
        with self.lock:
            deviation, total = self.read(x) - self.mean, self.count + 1.0
            target_deviation = -self.target_mean
            target_deviation[self.columns[y]] += 1.0
            image = dsymv(1.0, self.inverse, deviation)
            share = 1.0 / (total / max(self.count, 1e-300) + ddot(deviation, image))
            errors = target_deviation - deviation.dot(self.weights)
            changes = (
                (dsyr, -share, image, 0, 1, 0, len(image), self.inverse, 1),
                (dger, share, image, errors, 1, 1, self.weights, 0, 0, 1),
                (daxpy, deviation, self.mean, len(deviation), 1.0 / total),
                (daxpy, target_deviation, self.target_mean, len(errors), 1.0 / total),
                (setattr, self, "count", total),
            )
            deque(starmap(call, changes), maxlen=0)


def stream(n_features: int, n_rows: int) -> list[tuple[dict[str, float], str]]:
    """Return samples whose label is the largest of three noisy linear scores."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    scores = X @ random.normal(size=(n_features, N_CLASSES)) + random.normal(size=(n_rows, 3))
    names = [f"x{column}" for column in range(n_features)]
    labels = [f"class {column}" for column in scores.argmax(axis=1)]
    return [
        (dict(zip(names, row, strict=True)), y) for row, y in zip(X.tolist(), labels, strict=True)
    ]


def pairs_per_row(model: Any, rows: Sequence[Any]) -> float:
    """Return the microseconds per row of a prediction and learning."""
    start = perf_counter()
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    return (perf_counter() - start) / len(rows) * 1e6


def python_calls(model: Any, rows: Sequence[Any]) -> float:
    """Return the number of calls of Python functions per pair."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    sys.setprofile(None)
    return count / len(rows)


def models(names: Sequence[str], classes: Sequence[str], peers: bool) -> dict[str, Any]:
    """Return the models to measure, by name."""
    made: dict[str, Callable[[], Any]] = {
        "floor": lambda: Floor(names, classes),
        "recursive": lambda: onlinels.LeastSquaresClassifier(1.0, accumulator="recursive"),
        "default": onlinels.LeastSquaresClassifier,
        "StreamClassifier": onlinels.StreamClassifier,
    }
    if peers:
        from river import linear_model, naive_bayes

        made["river SoftmaxRegression"] = linear_model.SoftmaxRegression
        made["river GaussianNB"] = naive_bayes.GaussianNB
    return {name: make() for name, make in made.items()}


def main() -> None:
    """Print microseconds per pair, ratios to the floor, and calls of Python functions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, nargs="+", default=[4, 10, 32, 64])
    parser.add_argument("--peers", action="store_true", help="river's models, too")
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, medians of {REPEATS} runs of {options.rows} rows, us per pair")
    for n_features in options.features:
        rows = stream(n_features, options.rows * 2)
        warm, timed = rows[: options.rows], rows[options.rows :]
        names, classes = list(rows[0][0]), sorted({y for _, y in rows})
        measured = models(names, classes, options.peers)
        for model in measured.values():
            pairs_per_row(model, warm)
        # The models take turns, so that slow moments of the machine affect all of them.
        times: dict[str, list[float]] = {name: [] for name in measured}
        for _ in range(REPEATS):
            for name, model in measured.items():
                times[name].append(pairs_per_row(model, timed))
        floor = times["floor"]
        print(f"\n{n_features} features")
        for name, model in measured.items():
            ratio = median(mine / its for mine, its in zip(times[name], floor, strict=True))
            calls = python_calls(model, timed[:200])
            print(f"  {name:26}{median(times[name]):8.1f} us{ratio:8.2f} x{calls:8.1f} calls")


if __name__ == "__main__":
    main()
