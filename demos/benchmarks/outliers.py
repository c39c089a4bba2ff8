"""Compare ridges on data with outliers: "auto", five folds, and the best ridge in hindsight.

python demos/benchmarks/outliers.py
python demos/benchmarks/outliers.py --quick

Targets are linear, with noise. Some rows are 10 to a million times as large as the others: in all
features, in one feature, or in the target. Errors are mean squared errors of predictions on clean
rows, noise included; every setting is a geometric mean over random data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from common import bar, machine, make_parser, positive, print_table, table_of

from onlinels import KFold, LeastSquaresRegressor

KINDS = {"x": "all features", "f": "one feature", "y": "the target"}
Ridge = float | str | KFold

SIZES = [(10, 500, 4.0), (50, 300, 4.0), (10, 500, 0.25)]
"""Features, rows, and variance of the signal for a noise variance of 1."""

SHARES, FACTORS = [0.0, 0.01, 0.1], [10.0, 100.0, 1e4, 1e6]
"""Shares of rows that are outliers (0 stands for one row), and how much larger they are."""

GRID = np.logspace(-6.0, 10.0, 33)
N_TEST = 4000


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=positive, default=5, help="data sets of each setting")
    parser.add_argument("--quick", action="store_true", help="one size, two factors, one data set")
    arguments = parser.parse_args()
    sizes, factors, seeds = SIZES, FACTORS, arguments.seeds
    if arguments.quick:
        sizes, factors, seeds = SIZES[:1], FACTORS[:2], 1
    print(f"{machine()}; {seeds} data sets of each setting")
    table = table_of("outliers in", "settings", *RIDGES, title="Error / that of the best ridge")
    for kind, name in KINDS.items():
        settings = list(product(sizes, SHARES, factors))
        found = []
        for size, share, factor in bar(settings, f"Outliers in {name}"):
            each = [list(errors(kind, seed, size, share, factor)) for seed in range(seeds)]
            logs = np.log(np.array(each)).mean(axis=0)
            found.append(np.exp(logs[:-1] - logs[-1]))
        cells = [
            f"{np.exp(np.log(ratios).mean()):.3f}, worst {ratios.max():.2f}"
            for ratios in np.transpose(found)
        ]
        table.add_row(name, str(len(settings)), *cells)
    print_table(table)


RIDGES: dict[str, Ridge] = {"auto": "auto", "KFold(5)": KFold(5), "1e-6": 1e-6}
"""Settings of the ridge, by their names in the table."""


def errors(
    kind: str, seed: int, size: tuple[int, int, float], share: float, factor: float
) -> Iterator[float]:
    """Yield the error of each of the ridges, and that of the best ridge in hindsight."""
    n_features, n_rows, signal = size
    random = np.random.default_rng(seed)
    weights = random.normal(size=n_features) * np.sqrt(signal / n_features)
    X, test = (random.normal(size=(n, n_features)) for n in (n_rows, N_TEST))
    y = X @ weights + random.normal(size=n_rows)
    # The first rows are clean, as of a stream that runs already.
    bad = 20 + random.choice(n_rows - 20, max(1, round(share * n_rows)), replace=False)
    if kind == "y":
        y[bad] *= factor
    else:
        X[bad, : n_features if kind == "x" else 1] *= factor

    def error(model: LeastSquaresRegressor) -> float:
        return float(1.0 + np.mean((model.predict_many(test) - test @ weights) ** 2))

    def fitted(ridge: Ridge, scaling: str | None = "auto") -> LeastSquaresRegressor:
        model = LeastSquaresRegressor(ridge, scaling=scaling)
        model.learn_many(X, y)
        return model

    for ridge in RIDGES.values():
        yield error(fitted(ridge))
    yield min(least_error(fitted(1.0, scaling), error) for scaling in (None, "standard"))


def least_error(
    model: LeastSquaresRegressor, error: Callable[[LeastSquaresRegressor], float]
) -> float:
    """Return the smallest error of a model over the grid of ridges."""
    best = np.inf
    for ridge in GRID:
        model.ridge = float(ridge)
        best = min(best, error(model))
    return best


if __name__ == "__main__":
    main()
