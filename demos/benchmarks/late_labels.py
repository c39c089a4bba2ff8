"""Measure the accuracy of classifiers on streams whose labels arrive late.

python demos/benchmarks/late_labels.py
python demos/benchmarks/late_labels.py --data folder      (elec2, gas and wisdm, too: .npz files)
python demos/benchmarks/late_labels.py --streams folder   (all .npz files with labels, too)
python demos/benchmarks/late_labels.py --quick            (300 rows of each stream)

Every row is predicted, and learnt after a delay in rows: a fixed number, a random number, or 100
for a random fifth of the rows, while the other rows never get a label. `StreamClassifier()` is
compared with the best of four plain models: `LeastSquaresClassifier()`, river's logistic regression
(softmax regression with more than two classes) behind its StandardScaler, the most frequent class,
and the last known label. For these, the first 64 texts of a name are features of 0 and 1. The last
row of the table is `StreamClassifier()` if every row has its number as key. Rows count from the
first label on. Files of --streams are those of held_out_streams.py. The script takes some minutes.
"""

from __future__ import annotations

import os

# Before numpy is imported.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})

# isort: split
import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from common import bar, folder_of_arrays, make_parser, print_table, table_of
from held_out_streams import rows_of
from river import datasets, dummy, linear_model
from river.datasets import synth
from river.preprocessing import StandardScaler
from stream_regressors import bundled, water_flow
from streams import FILES, MADE, Row, of_file, three_concepts

from onlinels import LeastSquaresClassifier, StreamClassifier
from onlinels.core.constants import MAX_CATEGORIES

ROWS, QUICK_ROWS = 4000, 300
DELAYS = "0", "48", "200", "1000", "random", "a fifth"
QUICK_DELAYS = DELAYS[:2]
ELEC2 = {"elec2, first rows": 0, "elec2, from row 16,000": 16_000, "elec2, from row 32,000": 32_000}
"""Sections of Electricity, of 4,000 rows each."""


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--data", type=folder_of_arrays, help="folder of .npz files (default: none)"
    )
    help_of_streams = "folder of further streams (default: none)"
    parser.add_argument("--streams", type=folder_of_arrays, help=help_of_streams)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows of each stream")
    arguments = parser.parse_args()
    n_rows, delays = (QUICK_ROWS, QUICK_DELAYS) if arguments.quick else (ROWS, DELAYS)
    found = streams_in(arguments.data) | further_streams(arguments.streams)
    streams = {name: rows[:n_rows] for name, rows in found.items()}
    measured = {}
    for name, delay in bar([(name, delay) for delay in delays for name in streams], "streams"):
        if is_long_enough(streams[name], delay):
            measured[name, delay] = measure(streams[name], delay)
    report(streams, delays, measured)
    return 0


def above_median(rows: list[tuple[dict[str, Any], float]]) -> list[Row]:
    """Return rows labelled by whether the target is above the median of all targets."""
    middle = median(y for _, y in rows)
    return [(x, y > middle) for x, y in rows]


def streams_in(folder: Path | None) -> dict[str, list[Row]]:
    """Return the streams by name, including those with a file in the folder."""
    found: dict[str, list[Row]] = {}
    if folder is not None and (folder / FILES["elec2"]).is_file():
        rows = list(of_file(folder / FILES["elec2"]))
        found |= {name: rows[start : start + ROWS] for name, start in ELEC2.items()}
    for name in ("gas", "wisdm"):
        if folder is not None and (folder / FILES[name]).is_file():
            found[name] = list(islice(of_file(folder / FILES[name]), ROWS))
    made = {
        "SEA": lambda k: synth.SEA(k, seed=1 + k, noise=0.1),
        "Agrawal": lambda k: synth.Agrawal(k, seed=1 + k),
        "STAGGER": lambda k: synth.STAGGER(k, seed=1 + k),
    }
    return found | {
        "Phishing": list(datasets.Phishing()),
        "ImageSegments": list(datasets.ImageSegments()),  # type: ignore[no-untyped-call]
        "Bananas": list(islice(datasets.Bananas(), ROWS)),  # type: ignore[no-untyped-call]
        "TrumpApproval": above_median(list(bundled("TrumpApproval"))),
        "WaterFlow": above_median(list(water_flow())),
        **{name: list(three_concepts(make, ROWS - 1)) for name, make in made.items()},
        **{name: list(islice(MADE[name](), ROWS)) for name in ("Hyperplane", "RBFDrift")},
    }


def further_streams(folder: Path | None) -> dict[str, list[Row]]:
    """Return the first rows of the files with labels in a folder."""
    paths = [] if folder is None else sorted(folder.glob("*.npz"))
    found = {path.stem: rows_of(path, ROWS) for path in paths}
    return {name: rows for name, rows in found.items() if not isinstance(rows[0][1], float)}


def labels_due(n_rows: int, delay: str) -> list[list[int]]:
    """Return, for each row and for the end, the rows whose labels arrive just before it."""
    random = np.random.default_rng(7)
    delays, labelled = np.full(n_rows, 100), np.ones(n_rows, dtype=bool)
    if delay == "random":
        delays = random.exponential(150, n_rows).astype(int) + 1
    elif delay == "a fifth":
        labelled = random.random(n_rows) < 0.2
    else:
        # A label without delay arrives before the next row.
        delays[:] = max(1, int(delay))
    due: list[list[int]] = [[] for _ in range(n_rows + 1)]
    for row in np.flatnonzero(labelled).tolist():
        due[min(n_rows, row + int(delays[row]))].append(row)
    return due


def is_long_enough(rows: Sequence[Row], delay: str) -> bool:
    """Return whether at least half of the rows come after the first label."""
    return len(rows) >= 2 * (int(delay) if delay.isdecimal() else 100)


def plain_models(n_classes: int) -> list[Any]:
    """Return the models without special treatment of late labels."""
    kind = linear_model.LogisticRegression if n_classes == 2 else linear_model.SoftmaxRegression
    models = LeastSquaresClassifier(), StandardScaler() | kind()
    return [*models, dummy.PriorClassifier(), dummy.NoChangeClassifier()]


def measure(rows: Sequence[Row], delay: str) -> tuple[float, float, float]:
    """Return the accuracy of StreamClassifier, of the best plain model, and of it with keys."""
    models = plain_models(len({label for _, label in rows}))
    numbers = as_numbers(rows)
    best = max(accuracy(model, numbers, delay) for model in models)
    ours = [accuracy(StreamClassifier(), rows, delay, keys) for keys in (False, True)]
    return ours[0], best, ours[1]


def as_numbers(rows: Sequence[Row]) -> list[Row]:
    """Return rows in which each of the first texts of a name is a feature of value 1."""
    known: dict[str, dict[str, str]] = defaultdict(dict)
    made: list[Row] = []
    for x, label in rows:
        numbers = {}
        for name, value in x.items():
            if not isinstance(value, str):
                numbers[name] = value
            elif value in known[name] or len(known[name]) < MAX_CATEGORIES:
                numbers[known[name].setdefault(value, f"{name}={value}")] = 1.0
        made.append((numbers, label))
    return made


def accuracy(model: Any, rows: Sequence[Row], delay: str, has_keys: bool = False) -> float:
    """Return the share of rows predicted correctly, from the first label on."""
    due, right = labels_due(len(rows), delay), list[bool]()
    for number, ((x, label), labelled) in enumerate(zip(rows, due, strict=False)):
        for row in labelled:
            model.learn_one(*rows[row], **({"key": row} if has_keys else {}))
        predicted = model.predict_one(x, **({"key": number} if has_keys else {}))
        if right or labelled or delay == "0":
            right.append(predicted == label)
    return fmean(right)


def report(
    names: Any, delays: Sequence[str], measured: dict[tuple[str, str], tuple[float, float, float]]
) -> None:
    """Print the accuracies, and their difference to the best plain model, in points."""
    table = table_of("StreamClassifier, rows late", *delays)
    for name in names:
        cells = (measured.get((name, delay)) for delay in delays)
        table.add_row(name, *("" if each is None else shown(*each) for each in cells))
    means = []
    for delay in delays:
        found = [each for (_, late), each in measured.items() if late == delay]
        means.append(tuple(map(fmean, zip(*found, strict=True))))
    table.add_row("mean", *(shown(*each) for each in means))
    table.add_row("mean with keys", *(f"{100 * with_keys:.1f}" for _, _, with_keys in means))
    print_table(table)


def shown(ours: float, best: float, _: float) -> str:
    return f"{100 * ours:.1f} ({100 * (ours - best):+.1f})"


if __name__ == "__main__":
    sys.exit(main())
