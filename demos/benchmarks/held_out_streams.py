"""Measure the stream models on streams in files, beside models of river.

python demos/benchmarks/held_out_streams.py --data folder
python demos/benchmarks/held_out_streams.py --data folder --rows 1000

The folder holds an .npz file per stream, with rows in time order: numbers x (n, m), where NaN is a
missing value, optional texts t (n, k), where "" is a missing value, and targets y (n,). Floats are
numeric targets, all other targets are labels. Every row is predicted and then learnt.
"""

from __future__ import annotations

import os

# Before numpy is imported.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})

# isort: split
from pathlib import Path
from typing import Any

import numpy as np
import stream_regressors
import streams
from common import bar, folder_of_arrays, machine, make_parser, markdown, positive
from scipy.stats import rankdata

CLASSIFIERS = {
    name: streams.MODELS[name] for name in ("StreamClassifier", "ARF", "HAT", "NoChange")
}
REGRESSORS = {
    name: stream_regressors.MODELS[name]
    for name in ("StreamRegressor", "ARF", "HAT", "KNN", "SGD", "last target")
}


def rows_of(path: Path, n_rows: int) -> list[tuple[dict[str, Any], Any]]:
    """Return the first rows of a file as dicts without missing values, with their targets."""
    with np.load(path) as arrays:
        x, y = arrays["x"][:n_rows].astype(float), arrays["y"][:n_rows].tolist()
        texts = arrays["t"][:n_rows].tolist() if "t" in arrays.files else [()] * len(y)
    return [
        (
            {f"f{column}": value for column, value in enumerate(numbers) if value == value}
            | {f"t{column}": text for column, text in enumerate(words) if text},
            target,
        )
        for numbers, words, target in zip(x.tolist(), texts, y, strict=True)
    ]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=folder_of_arrays, required=True, help="folder of streams")
    rows = "most rows of a stream, the first ones (%(default)s)"
    parser.add_argument("--rows", type=positive, default=2000, help=rows)
    arguments = parser.parse_args()
    files = {path.stem: rows_of(path, arguments.rows) for path in arguments.data.glob("*.npz")}
    is_number = {name: isinstance(found[0][1], float) for name, found in files.items()}
    kinds: list[tuple[Any, ...]] = [
        (False, "accuracy", CLASSIFIERS, streams.test_then_train, ".1%", max),
        (True, "error", REGRESSORS, stream_regressors.test_then_train, ".4g", min),
    ]
    for of_numbers, score, models, measure, form, best in kinds:
        names = sorted(name for name in files if is_number[name] == of_numbers)
        runs = [(name, model) for name in names for model in models]
        found = [measure(models[model](), files[name])[score] for name, model in bar(runs, score)]
        table = np.reshape(found, (len(names), len(models)))
        signed = table if best is min else -table
        lines = [
            (name, row.tolist(), form, best) for name, row in zip(names, table, strict=True)
        ] + [("mean rank", rankdata(signed, axis=1).mean(axis=0).tolist(), ".2f", min)]
        print(markdown(score, list(models), lines), flush=True)
    print(f"{machine()}, one thread; at most {arguments.rows} rows of a stream.")


if __name__ == "__main__":
    main()
