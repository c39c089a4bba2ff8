"""Draw the time to predict and learn a row against features, beside river and padasip.

Rows of dicts for all but padasip, which takes arrays; one number is forecast. Medians of five
turns on one thread; `pip install '.[bench]'` brings padasip.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from drawing import BLUE, GREEN, GREY, PURPLE, VERMILLION, figure, label_log_ends, output_of
from matplotlib.ticker import ScalarFormatter
from numpy.typing import NDArray
from padasip.filters import FilterRLS
from rich.progress import track
from river import linear_model

from onlinels import LeastSquaresRegressor

SIZES = [4, 8, 16, 32, 64, 128, 256]
N_ROWS, N_TURNS = 600, 5
Floats = NDArray[np.float64]


class Padasip:
    """Padasip's recursive least squares under the names of river's methods."""

    def __init__(self, n_features: int) -> None:
        self._filter = FilterRLS(n_features, mu=1.0 - 1e-9)
        self.predict_one, self.learn_one = self._filter.predict, self._learn

    def _learn(self, x: Floats, y: float) -> None:
        self._filter.adapt(y, x)


MODELS: list[tuple[str, str, Callable[[int], Any]]] = [
    ("onlinels, recursive", BLUE, lambda n: LeastSquaresRegressor(1.0, "recursive")),
    ("onlinels, default", GREEN, lambda n: LeastSquaresRegressor()),
    ("padasip, RLS", VERMILLION, Padasip),
    ("river, Bayesian", PURPLE, lambda n: linear_model.BayesianLinearRegression()),
    ("river, SGD", GREY, lambda n: linear_model.LinearRegression()),
]


def time_of(make: Callable[[int], Any], X: Floats, y: list[float]) -> float:
    """Return microseconds a row: of the second half of the rows, the first warms up."""
    model = make(X.shape[1])
    samples = list(X) if make is Padasip else [dict(enumerate(x)) for x in X.tolist()]
    begin = 0.0
    for k, (x, target) in enumerate(zip(samples, y, strict=True)):
        if k == len(y) // 2:
            begin = time.process_time()
        model.predict_one(x)
        model.learn_one(x, target)
    return (time.process_time() - begin) / (len(y) - len(y) // 2) * 1e6


def main() -> None:
    output = output_of(__doc__, "time-per-row")
    times: dict[str, list[float]] = {name: [] for name, _, _ in MODELS}
    generator = np.random.default_rng(0)
    for size in track(SIZES, "features"):
        X = generator.normal(size=(2 * N_ROWS, size))
        y = (X[:, 0] + generator.normal(size=2 * N_ROWS)).tolist()
        turns = [[time_of(make, X, y) for _, _, make in MODELS] for _ in range(N_TURNS)]
        for (name, _, _), taken in zip(MODELS, zip(*turns, strict=True), strict=True):
            times[name].append(median(taken))
    with figure(output, 6.0, 3.8) as made:
        axes, ends = made.add_subplot(), []
        for name, colour, _ in MODELS:
            axes.loglog(SIZES, times[name], "o-", color=colour, lw=1.8, ms=4)
            ends.append((float(times[name][-1]), name, colour))
        axes.set_title("Microseconds to predict and learn a row")
        axes.set_xlabel("features")
        axes.set_xticks(SIZES)
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter("")
        axes.grid(axis="y")
        label_log_ends(axes, ends, 0.07)


if __name__ == "__main__":
    main()
