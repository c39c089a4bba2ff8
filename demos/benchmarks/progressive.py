"""Measure the cost of predicting and then learning a row, for every accumulator.

    python demos/benchmarks/progressive.py
    python demos/benchmarks/progressive.py --features 64 300 --classes 10 --rows 2000

river's `evaluate.progressive_val_score` runs every model on the same stream of dicts. Ratios are
relative to the recursive form with a ridge of 1. --quick takes seconds.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
from common import bar, machine, make_parser, positive, print_table, seconds_of, table_of
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


def progress_through(settings: dict[str, Any], rows: Rows) -> None:
    evaluate.progressive_val_score(rows, LeastSquaresClassifier(**settings), ACCURACY())


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--features", type=positive, nargs="+", default=[20, 300])
    add("--classes", type=positive, default=10)
    add("--rows", type=positive, default=2000)
    add("--repeats", type=positive, default=3)
    add("--quick", action="store_true", help="a few rows only")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.features, arguments.rows, arguments.repeats = [20], 200, 1
    table = table_of("model", "features", "classes", "microseconds a row", "ratio")
    for n_features in arguments.features:
        rows = stream(n_features, arguments.classes, arguments.rows)
        taken: dict[str, list[float]] = {name: [] for name in MODELS}
        # The models take turns, so that slow moments of the machine affect all of them.
        for _ in bar(range(arguments.repeats), f"{n_features} features"):
            for name, settings in MODELS.items():
                taken[name].append(seconds_of(partial(progress_through, settings, rows)))
        medians = {name: statistics.median(times) for name, times in taken.items()}
        for name, median in medians.items():
            ratio = median / medians["recursive, ridge 1.0"]
            sizes = str(n_features), str(arguments.classes)
            table.add_row(name, *sizes, f"{median / len(rows) * 1e6:.0f}", f"{ratio:.2f}")
    print_table(table)
    print(f"{machine()}; medians of {arguments.repeats}")


if __name__ == "__main__":
    main()
