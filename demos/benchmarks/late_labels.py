"""Accuracy of classifiers on streams whose labels come late.

python demos/benchmarks/late_labels.py
python demos/benchmarks/late_labels.py --data folder    (elec2.npz, too: its first 8,000 rows)
python demos/benchmarks/late_labels.py --quick

River's `progressive_val_score` with a delay: every row is predicted, and learnt when so many more
have been predicted. TrumpApproval and WaterFlow are labelled by whether the target is above its
median; STAGGER changes its concept at rows 1,000 and 2,000.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from common import bar, folder_of_arrays, make_parser, print_table, table_of
from river import datasets, evaluate, metrics
from river.datasets import synth
from stream_regressors import bundled, water_flow
from streams import FILES, Row, of_file, three_concepts

from onlinels import LeastSquaresClassifier, StreamClassifier

DELAYS = 0, 10, 50, 200
ELEC2_ROWS, QUICK_ROWS = 8000, 300

MODELS: dict[str, Callable[[int], Any]] = {
    "StreamClassifier()": lambda _: StreamClassifier(),
    "StreamClassifier(label_delay=delay)": lambda delay: StreamClassifier(label_delay=delay),
    "LeastSquaresClassifier()": lambda _: LeastSquaresClassifier(),
    "forgetting": lambda _: LeastSquaresClassifier(
        1.0, "recursive", scaling="standard", forgetting_factor=0.99
    ),
}


def above_median(rows: list[tuple[dict[str, Any], float]]) -> list[Row]:
    """Return rows labelled by whether their target is above the median of all targets."""
    middle = median(y for _, y in rows)
    return [(x, y > middle) for x, y in rows]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=folder_of_arrays, help="folder of elec2.npz (default: none)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows of each stream")
    arguments = parser.parse_args()
    n_rows = QUICK_ROWS if arguments.quick else None
    for name, rows in streams_in(arguments.data):
        measure(name, rows[:n_rows])
    return 0


def streams_in(folder: Path | None) -> list[tuple[str, list[Row]]]:
    """Return the streams; elec2 if it is there."""
    stagger = three_concepts(lambda concept: synth.STAGGER(concept, seed=1 + concept), 3000)
    found = [
        ("Phishing", list(datasets.Phishing())),
        ("STAGGER", list(stagger)),
        ("TrumpApproval", above_median(list(bundled("TrumpApproval")))),
        ("WaterFlow", above_median(list(water_flow()))),
    ]
    if folder is not None and (folder / FILES["elec2"]).is_file():
        found.append(("elec2", list(islice(of_file(folder / FILES["elec2"]), ELEC2_ROWS))))
    return found


def measure(name: str, rows: list[Row]) -> None:
    """Print the accuracy of every model at every delay."""
    table = table_of(f"{name}, rows late", *map(str, DELAYS))
    for model, make in bar(MODELS.items(), name):
        table.add_row(model, *(f"{accuracy(make(delay), rows, delay):.1%}" for delay in DELAYS))
    print_table(table)


def accuracy(model: Any, rows: list[Row], delay: int) -> float:
    """Return the share of rows predicted rightly with labels that come so many rows late."""
    metric: Any = metrics.Accuracy()  # type: ignore[no-untyped-call]
    score = partial(evaluate.progressive_val_score, rows, model, metric)
    return float((score(delay=delay) if delay else score()).get())


if __name__ == "__main__":
    sys.exit(main())
