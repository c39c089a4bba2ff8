"""Predict, then learn, row by row: what a row costs with the default, and with every accumulator.

    python demos/benchmarks/progressive.py
    python demos/benchmarks/progressive.py --features 64 300 --classes 10 --rows 2000

Every model goes through river's `evaluate.progressive_val_score` on one stream of dicts. The ratio
is to the recursive form, which keeps its weights up to date after every row. --quick takes seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import numpy as np
from command_line import positive
from rich.console import Console
from rich.progress import track
from rich.table import Table
from river import evaluate, metrics

from onlinels import LeastSquaresClassifier

MODELS: dict[str, dict[str, Any]] = {
    "recursive, ridge 1.0": {"accumulator": "recursive", "ridge": 1.0},
    "default": {},
    "ridge 1.0": {"ridge": 1.0},
    'ridge "paper"': {"ridge": "paper"},
    "recursive": {"accumulator": "recursive"},
    "orthogonal, ridge 1.0": {"accumulator": "orthogonal", "ridge": 1.0},
    "recursive, ridge 1.0, forgetting 0.99": {
        "accumulator": "recursive",
        "ridge": 1.0,
        "forgetting_factor": 0.99,
    },
    "ridge 1.0, forgetting 0.99": {"ridge": 1.0, "forgetting_factor": 0.99},
}

Rows = list[tuple[dict[Any, Any], int]]
ACCURACY: Any = metrics.Accuracy


def stream(n_features: int, n_classes: int, n_rows: int) -> Rows:
    """Draw rows whose classes are linear in the features, with noise."""
    random = np.random.default_rng(0)
    names: list[Any] = [f"feature {number}" for number in range(n_features)]
    X = random.normal(size=(n_rows, n_features))
    scores = X @ random.normal(size=(n_features, n_classes))
    noise = np.sqrt(n_features) * random.normal(size=scores.shape)
    labels = (scores + noise).argmax(axis=1)
    rows = zip(X.tolist(), labels.tolist(), strict=True)
    return [(dict(zip(names, row, strict=True)), label) for row, label in rows]


def microseconds(settings: dict[str, Any], rows: Rows) -> float:
    """Return the time that predicting and learning a row takes."""
    started = time.perf_counter()
    evaluate.progressive_val_score(rows, LeastSquaresClassifier(**settings), ACCURACY())
    return (time.perf_counter() - started) / len(rows) * 1e6


def main() -> None:
    arguments = parse_arguments()
    console = Console(stderr=True)
    table = Table("model", "features", "classes", "microseconds a row", "ratio")
    for n_features in arguments.features:
        rows = stream(n_features, arguments.classes, arguments.rows)
        taken: dict[str, list[float]] = {name: [] for name in MODELS}
        # In turns, so that a slow moment of the machine falls on all of them.
        for _ in track(range(arguments.repeats), f"{n_features} features", console=console):
            for name, settings in MODELS.items():
                taken[name].append(microseconds(settings, rows))
        medians = {name: statistics.median(times) for name, times in taken.items()}
        for name, median in medians.items():
            ratio = median / medians["recursive, ridge 1.0"]
            sizes = str(n_features), str(arguments.classes)
            table.add_row(name, *sizes, f"{median:.0f}", f"{ratio:.2f}")
    print_console = Console()
    print_console.print(table)
    print_console.print(f"{os.cpu_count()} cores; medians of {arguments.repeats}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--features", type=positive, nargs="+", default=[20, 300])
    parser.add_argument("--classes", type=positive, default=10)
    parser.add_argument("--rows", type=positive, default=2000)
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--quick", action="store_true", help="a few rows only")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.features, arguments.rows, arguments.repeats = [20], 200, 1
    return arguments


if __name__ == "__main__":
    main()
