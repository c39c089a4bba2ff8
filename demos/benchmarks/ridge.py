"""Compare the selected ridge with the best ridge in hindsight.

python demos/benchmarks/ridge.py
python demos/benchmarks/ridge.py --data folder    (more data sets: .npz files with arrays x, y)

Rows of a random split are learnt, raw or as hidden units of standardised rows; a model selects its
ridge. The figures are medians over splits of the squared error on the other rows, relative to that
of the best of 16 ridges per decade.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
)
from river import datasets as streams
from sklearn import datasets

from onlinels import HiddenLayer, KFold, LeastSquaresClassifier, LeastSquaresRegressor

RIDGES: dict[str, Any] = {"auto": "auto", "KFold(5)": KFold(5), "paper": "paper"}
MOST_ROWS = 6000
"""Most rows of a data set; a larger one is sampled at random."""
LAYERS = [(0, "raw"), (200, "square"), (200, "relu"), (500, "square"), (500, "relu")]
SHARES = (0.7, 0.2)
NUMERIC = "diabetes", "TrumpApproval"
"""Data sets with a numeric target."""


class Case(NamedTuple):
    """A data set, the hidden units of its rows, and the share of rows that are learnt."""

    name: str
    x: Floats
    y: Array
    n_hidden: int
    activation: str
    share: float


def main() -> None:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=folder_of_arrays, help="folder of .npz files with arrays x and y")
    add("--seeds", type=positive, default=5, help="random splits of each data set (%(default)s)")
    add("--quick", action="store_true", help="four data sets, none of --data, small sizes")
    arguments = parser.parse_args()
    print(f"{machine()}, {arguments.seeds} random splits of each data set")
    table = table_of("data", "features", "n", *RIDGES, title="Squared error / best in hindsight")
    found: dict[str, list[Floats]] = {}
    for case in bar(list(cases(arguments.data, arguments.quick)), "Choosing ridges"):
        runs = [ratios(case, seed) for seed in range(arguments.seeds)]
        medians = np.median(runs, axis=0)
        features, n_train = f"{case.n_hidden or ''} {case.activation}", case.share * len(case.x)
        cells = case.name, features, f"{min(n_train, case.share * MOST_ROWS):.0f}"
        table.add_row(*cells, *(f"{each:.3f}" for each in medians))
        found.setdefault(case.activation, []).append(medians)
    print_table(table)
    table = table_of("features", "ridge", "median", "within 2%", "within 5%", "worst")
    for activation, each in found.items():
        for name, column in zip(RIDGES, np.transpose(each), strict=True):
            shares = (f"{(column <= most).mean():.0%}" for most in (1.02, 1.05))
            worst = f"{column.max():.4g}"
            table.add_row(activation, name, f"{np.median(column):.3f}", *shares, worst)
    print_table(table)


def cases(folder: Path | None, quick: bool) -> Iterator[Case]:
    """Yield every data set raw and with hidden units, with many and with few rows learnt."""
    for name, x, y in read_all(folder, quick):
        for n_hidden, activation in LAYERS[:3] if quick else LAYERS:
            for share in SHARES:
                yield Case(name, x, y, n_hidden, activation, share)


def read_all(folder: Path | None, quick: bool) -> Iterator[tuple[str, Floats, Array]]:
    """Yield data sets of scikit-learn and river, and the complete rows of those in a folder."""
    for name in ("digits", "wine", "breast_cancer", "diabetes"):
        bunch = getattr(datasets, f"load_{name}")()
        yield name, bunch.data, bunch.target
    if quick:
        return
    for name in ("Phishing", "Bananas", "ImageSegments", "TrumpApproval"):
        rows = list(getattr(streams, name)())
        features = sorted(rows[0][0])
        x = np.array([[row[feature] for feature in features] for row, _ in rows], dtype=float)
        yield name, x, np.array([y for _, y in rows])
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path) as arrays:
            if {"x", "y"} <= set(arrays.files) and arrays["x"].ndim == 2:
                complete = np.isfinite(arrays["x"].astype(float)).all(axis=1)
                yield path.stem, arrays["x"][complete].astype(float), arrays["y"][complete]


def ratios(case: Case, seed: int) -> list[float]:
    """Return the held-out squared error of every ridge relative to the best ridge in hindsight."""
    order = np.random.default_rng(seed).permutation(len(case.x))[:MOST_ROWS]
    n_train = int(case.share * len(order))
    x, y = case.x[order], case.y[order]
    deviation = x[:n_train].std(axis=0)
    x = (x - x[:n_train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    if case.n_hidden:
        layer = HiddenLayer(case.n_hidden, activation=case.activation, seed=seed, bias=False)
        x = layer.transform_many(x / np.sqrt(x.shape[1]))
    targets = y[:, None] if case.name in NUMERIC else (y[:, None] == np.unique(y)).astype(float)
    selected = [selected_ridge(case, how, x[:n_train], y[:n_train]) for how in RIDGES.values()]
    errors = held_out_errors(x, targets, n_train, selected)
    return [float(error / errors.min()) for error in errors[-len(selected) :]]


def selected_ridge(case: Case, ridge: Any, x: Floats, y: Array) -> float:
    """Return the ridge that a model selects from all rows: merging selects it anew."""
    make = LeastSquaresRegressor if case.name in NUMERIC else LeastSquaresClassifier
    models: list[Any] = [make(ridge, scaling=None) for _ in range(2)]
    for model, part in zip(models, (slice(0, -1), slice(-1, None)), strict=True):
        model.learn_many(x[part], y[part].tolist())
    return float((models[0] + models[1]).ridge_)


def held_out_errors(x: Floats, y: Floats, n_train: int, selected: list[float]) -> Floats:
    """Return the squared errors on the last rows of 16 ridges per decade, then of the selected.

    At ridge c, the weights are V diag(1 / (s + c)) V'A'Y for the eigenvalues s and eigenvectors V
    of A'A, and the errors of all ridges follow without reading the rows again.
    """
    x, y = x - x[:n_train].mean(axis=0), y - y[:n_train].mean(axis=0)
    eigenvalues, vectors = np.linalg.eigh(x[:n_train].T @ x[:n_train])
    eigenvalues = np.maximum(eigenvalues, 0.0)
    cross = vectors.T @ (x[:n_train].T @ y[:n_train])
    rows, targets = x[n_train:] @ vectors, y[n_train:]
    gram, held_out_cross = rows.T @ rows, rows.T @ targets
    top = np.log10(eigenvalues[-1])
    grid = 10.0 ** (np.arange(np.ceil(16 * (top - 13)), np.floor(16 * (top + 3))) / 16)
    ridges = [*grid, *(max(ridge, float(grid[0])) for ridge in selected)]
    weights = (cross / (eigenvalues + ridge)[:, None] for ridge in ridges)
    squares = float((targets**2).sum())
    return np.array([squares + (w * (gram @ w - 2.0 * held_out_cross)).sum() for w in weights])


if __name__ == "__main__":
    main()
