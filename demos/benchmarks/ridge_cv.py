"""Compare alpha="auto" with scikit-learn's cross-validated ridge: test errors and fitting times.

python demos/benchmarks/ridge_cv.py
python demos/benchmarks/ridge_cv.py --raw    (without StandardScaler)
python demos/benchmarks/ridge_cv.py --quick

The data are all data sets included in scikit-learn and river. One half of the rows is learnt, the
other half is the test set; figures are medians over random halves. The error is 1 - R^2 (the mean
over targets) for regression, and the share of wrong labels for classification. RidgeCV (for labels,
RidgeClassifierCV) tries its default alphas 0.1, 1 and 10, or 25 alphas from 1e-6 to 1e6. Text, and
numbers that are names, become indicators; dates become days.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from statistics import median
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from common import (
    Array,
    Floats,
    bar,
    in_words,
    machine,
    make_parser,
    positive,
    print_table,
    seconds_of,
    table_of,
)
from river import datasets as streams
from sklearn import datasets
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier

BUNCHES = ("diabetes", "linnerud", "breast_cancer", "wine", "iris", "digits")
NUMBERS = ("AirlinePassengers", "ChickWeights", "SP500Stocks", "TrumpApproval", "WaterFlow")
SEVERAL = ("SolarFlare", "Yeast")
LABELS = ("Bananas", "ImageSegments", "Phishing", "Shuttle")
QUICK = ("diabetes", "linnerud", "wine", "AirlinePassengers", "SolarFlare", "Phishing")
NAMES = {"ChickWeights": ("chick", "diet")}
"""Columns whose numbers are names."""

MANY = np.logspace(-6.0, 6.0, 25)
MODELS = ('alpha="auto"', "RidgeCV", "RidgeCV, 25 alphas")
DAY = timedelta(days=1)


class Outcome(NamedTuple):
    """Errors and seconds of all models on one split."""

    errors: list[float]
    seconds: list[float]


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--seeds", type=positive, default=5, help="random halves of each data set (%(default)s)")
    add("--raw", action="store_true", help="raw columns, without StandardScaler")
    add("--quick", action="store_true", help="six data sets, two halves of each")
    arguments = parser.parse_args()
    n_seeds = min(arguments.seeds, 2) if arguments.quick else arguments.seeds
    names = QUICK if arguments.quick else (*BUNCHES, *NUMBERS, *SEVERAL, *LABELS)
    columns = "raw" if arguments.raw else "standardised"
    print(f"{machine()}; one thread, medians over {n_seeds} random halves; {columns} columns")
    auto, default, many = MODELS
    heads = f"error, {auto}", default, "ratio", many, "ratio", "time, auto", default, many
    table = table_of("data", "rows x columns", *heads)
    ratios = []
    for name in bar(names, "Learning halves"):
        x, y = read(name)
        runs = [outcome(x, y, seed, arguments.raw) for seed in range(n_seeds)]
        own, *others = np.median([run.errors for run in runs], axis=0).tolist()
        seconds = np.median([run.seconds for run in runs], axis=0).tolist()
        ratios.append([own / max(other, 1e-12) if own else 1.0 for other in others])
        shown = f"{own:.4f}", *cells(others[0], ratios[-1][0]), *cells(others[1], ratios[-1][1])
        table.add_row(name, f"{len(x):,} x {x.shape[1]}", *shown, *map(in_words, seconds))
    print_table(table)
    for model, each in zip((default, many), zip(*ratios, strict=True), strict=True):
        print(f"error of {auto} / error of {model}, median over data sets: {median(each):.3f}")


def cells(error: float, ratio: float) -> tuple[str, str]:
    return f"{error:.4f}", f"{ratio:.3f}"


def outcome(x: Floats, y: Array, seed: int, raw: bool) -> Outcome:
    """Fit all models to one random half, and test them on the other half."""
    learnt, held_out, targets, truth = train_test_split(x, y, test_size=0.5, random_state=seed)
    if not raw:
        scaler = StandardScaler().fit(learnt)
        learnt, held_out = scaler.transform(learnt), scaler.transform(held_out)
    if y.dtype.kind == "f":
        models: list[Any] = [IncrementalRidge(), RidgeCV(), RidgeCV(alphas=MANY)]
    else:
        several = RidgeClassifierCV(alphas=MANY)
        models = [IncrementalRidgeClassifier(), RidgeClassifierCV(), several]
    # IncrementalRidge solves for the weights when `coef_` is read.
    seconds = [seconds_of(lambda m=m: m.fit(learnt, targets).coef_) for m in models]  # type: ignore[misc]
    return Outcome([1.0 - model.score(held_out, truth) for model in models], seconds)


# -- data -----------------------------------------------------------------------------------------


def read(name: str) -> tuple[Floats, Array]:
    """Return rows, and targets: one or several columns of floats, or labels."""
    if name in BUNCHES:
        bunch = getattr(datasets, f"load_{name}")()
        is_numbers = name in ("diabetes", "linnerud")
        return bunch.data, bunch.target.astype(float) if is_numbers else bunch.target
    samples = list(getattr(streams, name)())
    x = np.column_stack(list(columns_of([row for row, _ in samples], NAMES.get(name, ()))))
    if name in SEVERAL:
        return x, np.array([[float(value) for value in y.values()] for _, y in samples])
    y = np.array([target for _, target in samples])
    return x, y.astype(float) if name in NUMBERS else y


def columns_of(rows: list[dict[str, Any]], names: tuple[str, ...]) -> Iterator[Floats]:
    """Yield numbers, dates as days, and indicators for text and for columns of names."""
    for feature, example in rows[0].items():
        values = [row[feature] for row in rows]
        if isinstance(example, datetime):
            yield np.array([(value - values[0]) / DAY for value in values])
        elif isinstance(example, str) or feature in names:
            yield (np.array(values)[:, None] == np.unique(values)).astype(float)
        else:
            yield np.array(values, dtype=float)


if __name__ == "__main__":
    main()
