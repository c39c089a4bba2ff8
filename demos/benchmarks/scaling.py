"""Compare a ridge on raw features, on standardised features, and the default.

python demos/benchmarks/scaling.py
python demos/benchmarks/scaling.py --data folder    (more data: .npz files with arrays x, y)
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.signal
import scipy.stats
import sklearn.ensemble
import sklearn.linear_model
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
    table_of_stream,
    tables_of,
)
from river import datasets as streams
from sklearn import datasets

from onlinels import HiddenLayer, LeastSquaresClassifier, LeastSquaresRegressor

SETTINGS = {"None": None, '"standard"': "standard", '"auto" (the default)': "auto"}
MOST_ROWS = 6000
"""Most rows of a data set; a larger one is sampled at random."""

TITLE = "Error on the other half: share of wrong labels, or absolute error / that of the mean"

Data = tuple[str, Floats, Array]


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=folder_of_arrays, help="folder of .npz files with arrays x and y")
    add("--seeds", type=positive, default=10, help="random halves of each data set")
    add("--quick", action="store_true", help="four data sets, none of --data")
    arguments = parser.parse_args()
    print(f"{machine()}, means over {arguments.seeds} random halves; raw columns")
    columns = ("data", "rows learnt", "features", *SETTINGS, "default / better of the others")
    table = table_of(*columns, title=TITLE)
    for name, x, y in bar(list(read_all(arguments)), "Learning halves"):
        errors = np.array([errors_of(x, y, seed) for seed in range(arguments.seeds)])
        means = errors.mean(axis=0)
        ratio = means[2] / max(means[:2].min(), 1e-12)
        figures = (f"{mean:.4f}" for mean in means)
        learnt = min(len(x), MOST_ROWS) // 2
        table.add_row(name, str(learnt), str(x.shape[1]), *figures, f"{ratio:.3f}")
    print_table(table)


def errors_of(x: Floats, y: Array, seed: int) -> list[float]:
    """Return the error of each setting on one random half, after learning the other half.

    For numbers it is the absolute error: in the gas concentrations, one row in thousands accounts
    for most of the squared error of any model.
    """
    order = np.random.default_rng(seed).permutation(len(x))[:MOST_ROWS]
    learnt, held_out = np.split(order, [len(order) // 2])
    errors = []
    for scaling in SETTINGS.values():
        if y.dtype.kind == "f":
            regressor = LeastSquaresRegressor(scaling=scaling)
            regressor.learn_many(x[learnt], y[learnt])
            apart = np.abs(regressor.predict_many(x[held_out]) - y[held_out])
            errors.append(float(apart.mean() / np.abs(y[held_out] - y[learnt].mean()).mean()))
        else:
            classifier = LeastSquaresClassifier(scaling=scaling)
            classifier.learn_many(x[learnt], y[learnt])
            errors.append(float(np.mean(classifier.predict_many(x[held_out]) != y[held_out])))
    return errors


# -- data -----------------------------------------------------------------------------------------


def read_all(arguments: argparse.Namespace) -> Iterator[Data]:
    """Yield data sets of numbers, indicators, words and hidden units, with labels or floats."""
    random = np.random.default_rng(0)
    for name in ("wine", "diabetes", "breast_cancer", "iris", "digits"):
        bunch = getattr(datasets, f"load_{name}")()
        yield name, bunch.data, bunch.target
    if arguments.quick:
        return
    for name in ("Phishing", "Bananas", "ImageSegments", "TrumpApproval"):
        x, y = table_of_stream(getattr(streams, name)())
        yield name, x, y
        if name == "Bananas":
            yield "Bananas, 200 relu units", hidden(x, 200, "relu"), y
    yield "ChickWeights, indicators of chicks and diets", *chicks()
    bunch = datasets.load_wine()
    yield "wine, 200 relu units of raw columns", hidden(bunch.data, 200, "relu"), bunch.target
    bunch = datasets.load_digits()
    yield "digits, 400 square units", hidden(bunch.data, 400, "square"), bunch.target
    for n_words, n_rows in ((300, 6000), (1000, 6000), (1000, 1600)):
        yield f"{n_words} words of docstrings, counts", *words(n_words, n_rows)
    yield "300 categories, 3 numbers of any unit", *categories(random)
    for name, x, y in tables_of(arguments.data):
        yield name, x, y
    if arguments.data and (arguments.data / "gas_drift_b1-6_8_9.npz").exists():
        with np.load(arguments.data / "gas_drift_b1-6_8_9.npz") as arrays:
            x, y = arrays["x"], arrays["concentration"].astype(float)
        yield "gas concentrations", x, y
        some = random.permutation(len(x))[:300]
        yield "gas concentrations, 300 rows", x[some], y[some]


def hidden(x: Floats, n_hidden: int, activation: str) -> Floats:
    """Return hidden activations of raw columns, all divided by one number to about unit size."""
    layer = HiddenLayer(n_hidden, activation=activation, bias=True)
    units: Floats = layer.transform_many(x / np.abs(x).mean())
    return units


def chicks() -> tuple[Floats, Array]:
    """Return rows of age and indicators of chick and diet, and the weights of the chicks."""
    stream: Any = streams.ChickWeights
    rows = list(stream())
    names = sorted({(key, row[key]) for row, _ in rows for key in ("chick", "diet")})
    x = np.array([[row["time"], *(row[key] == value for key, value in names)] for row, _ in rows])
    return x.astype(float), np.array([float(y) for _, y in rows])


def words(n_words: int, n_rows: int) -> tuple[Floats, Array]:
    """Return counts of words in sentences of docstrings, and the number of their module."""
    modules = (np, np.linalg, scipy.stats, scipy.signal, sklearn.linear_model, sklearn.ensemble)
    texts, labels, seen = [], [], set()
    for label, module in enumerate(modules):
        for _, thing in inspect.getmembers(module, callable):
            for sentence in re.split(r"(?<=[.:])\s+", inspect.getdoc(thing) or ""):
                found = tuple(re.findall(r"[a-z]+", sentence.lower()))
                if len(found) > 5 and found not in seen:
                    seen.add(found)
                    texts.append(Counter(found))
                    labels.append(label)
    common = Counter(word for text in texts for word in text).most_common(n_words)
    x = np.array([[text[word] for word, _ in common] for text in texts], dtype=float)
    order = np.random.default_rng(0).permutation(len(x))[:n_rows]
    return x[order], np.array(labels)[order]


def categories(random: Any) -> tuple[Floats, Array]:
    """Return indicators of 300 categories and three numbers, and a target that depends on both."""
    n_rows = 3000
    which, effects = random.integers(0, 300, n_rows), random.normal(size=300)
    numbers = random.normal(size=(n_rows, 3)) * [1e-3, 1.0, 1e4] + [0.0, 5.0, 1e5]
    x = np.column_stack([which[:, None] == np.arange(300), numbers]).astype(float)
    target = effects[which] + numbers @ [1e3, 1.0, 1e-4] + random.normal(size=n_rows)
    return x, target


if __name__ == "__main__":
    main()
