"""Measure StreamClassifier and StreamRegressor by rows and by batches, in one run.

Without data, the stream is synthetic, with 8 features and a rule that reverses repeatedly, as in
Elec2. With `--data`, it is the first rows of elec2.npz in that folder.

    OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/stream_blocks.py [--data folder]
"""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import onlinels

ROWS, BATCH, REPEATS = 3_000, 1_000, 7
N_FEATURES = 8

Act = Callable[[Any, Any, Any, Any], object]
"""A function of a model, samples, the samples as an array, and targets."""


def made_up(n_rows: int) -> tuple[Any, Any]:
    """Return rows that change smoothly, and labels by a rule that reverses repeatedly."""
    random = np.random.default_rng(0)
    X = np.cumsum(random.normal(size=(n_rows, N_FEATURES)), axis=0)
    X -= 0.98 * np.vstack((np.zeros(N_FEATURES), X[:-1]))
    above = X[:, 0] + X[:, 1] * X[:, 2] > np.median(X[:, 0])
    turned = np.arange(n_rows) // 1_000 % 2 == 1
    return X, (above != turned).astype(int)


def elec2(folder: Path, n_rows: int) -> tuple[Any, Any]:
    """Return the first rows of Elec2."""
    with np.load(folder / "elec2.npz") as data:
        return data["x"][:n_rows].astype(float), data["y"][:n_rows]


def learn_one(model: Any, samples: Any, X: Any, y: Any) -> None:
    """Learn rows one by one."""
    for x, target in zip(samples, y, strict=True):
        model.learn_one(x, target)


def predict_and_learn_one(model: Any, samples: Any, X: Any, y: Any) -> None:
    """Predict every row, then learn it."""
    for x, target in zip(samples, y, strict=True):
        model.predict_one(x)
        model.learn_one(x, target)


def in_batches(method: str, of_dicts: bool = False) -> Act:
    """Return a function that calls a method on batches of an array, or of dicts."""

    def act(model: Any, samples: Any, X: Any, y: Any) -> None:
        rows = samples if of_dicts else X
        for start in range(0, len(y), BATCH):
            part = slice(start, start + BATCH)
            getattr(model, method)(rows[part], y[part])

    return act


ACTS: dict[str, Act] = {
    "learn_one": learn_one,
    "learn_many, dicts": in_batches("learn_many", of_dicts=True),
    "learn_many, array": in_batches("learn_many"),
    "predict_one, learn_one": predict_and_learn_one,
    "predict_learn_many, array": in_batches("predict_learn_many"),
    "predict_proba_learn_many, array": in_batches("predict_proba_learn_many"),
}


def main() -> None:
    """Print the microseconds per row, the minimum over runs, and ratios to learn_one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of elec2.npz")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    n_rows = 2 * options.rows
    X, y = elec2(options.data, n_rows) if options.data else made_up(n_rows)
    runs = f"minimum of {options.repeats} runs"
    print(f"{os.cpu_count()} cores, batches of {BATCH}, {runs}, us per row")
    for kind in (onlinels.StreamClassifier, onlinels.StreamRegressor):
        regression = kind is onlinels.StreamRegressor
        # The target is column 3, the price in Elec2.
        features, targets = (np.delete(X, 3, axis=1), X[:, 3]) if regression else (X, y)
        labels = targets.tolist()
        samples = [dict(enumerate(row)) for row in features.tolist()]
        warm = kind()
        warm.learn_many(features[: options.rows], labels[: options.rows])
        rest = samples[options.rows :], features[options.rows :], labels[options.rows :]
        timed = {name: act for name, act in ACTS.items() if not (regression and "proba" in name)}
        times = {name: list[float]() for name in timed}
        # The functions take turns, so that slow moments of the machine affect all of them.
        for _ in range(options.repeats):
            for name, act in timed.items():
                model = copy.deepcopy(warm)
                start = perf_counter()
                act(model, *rest)
                times[name].append((perf_counter() - start) / options.rows * 1e6)
        least = {name: min(each) for name, each in times.items()}
        print(f"\n{kind.__name__}, {features.shape[1]} features")
        for name, each in least.items():
            print(f"  {name:32}{each:8.1f} us{each / least['learn_one']:8.2f} x learn_one")


if __name__ == "__main__":
    main()
