"""Draw the learning curve of a million rows of 20 features, every row answered before it is learnt.

The target is linear in the features, with noise of deviation 1. Drawn is the mean squared distance
between the answers and the targets without their noise, beside its expectation M / n.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from drawing import BLUE, GREY, VERMILLION, figure, label_log_ends, output_of
from numpy.typing import NDArray
from rich.progress import track
from river import linear_model

from onlinels import LeastSquaresRegressor

Floats = NDArray[np.float64]

N_ROWS, N_FEATURES = 1_000_000, 20
EDGES = np.unique(np.geomspace(25, N_ROWS, 49).astype(int))


def main() -> None:
    output = output_of(__doc__, "million-rows")
    random = np.random.default_rng(0)
    X = random.normal(size=(N_ROWS, N_FEATURES))
    expected = X @ random.normal(size=N_FEATURES)
    y = expected + random.normal(size=N_ROWS)
    start = perf_counter()
    answers = LeastSquaresRegressor().predict_learn_many(X, y)
    seconds = perf_counter() - start
    print(f"LeastSquaresRegressor().predict_learn_many: {seconds:.1f} s")
    start = perf_counter()
    by_river = answers_of_river(X, y)
    print(f"river's LinearRegression, row by row: {perf_counter() - start:.1f} s")
    rows = np.sqrt(EDGES[:-1] * EDGES[1:])
    curves = [
        (excess(answers, expected), "LeastSquares-\nRegressor()", BLUE),
        (excess(by_river, expected), "river's Linear-\nRegression()", VERMILLION),
    ]
    with figure(output, 6.0, 3.8) as made:
        axes = made.add_subplot()
        expectation = N_FEATURES / rows
        axes.loglog(rows, expectation, color=GREY, lw=1.2, ls=(0, (4, 3)))
        for curve, _, colour in curves:
            axes.loglog(rows, curve, color=colour, lw=1.8)
        ends = [(float(curve[-1]), name, colour) for curve, name, colour in curves]
        label_log_ends(axes, ends, 0.35)
        here = len(rows) // 2
        axes.text(rows[here], 0.4 * expectation[here], "expected: M / n", color=GREY, ha="right")
        axes.set_title(f"Squared error beyond the noise: {N_ROWS:,} rows")
        axes.set_xlabel("rows, each predicted before it is learnt")


def answers_of_river(X: Floats, y: Floats) -> Floats:
    """Return what river's linear regression answers row by row."""
    model: Any = linear_model.LinearRegression()
    answers = np.empty(len(y))
    for row in track(range(len(y)), "river, row by row"):
        x = dict(enumerate(X[row].tolist()))
        answers[row] = model.predict_one(x)
        model.learn_one(x, float(y[row]))
    return answers


def excess(answers: Floats, expected: Floats) -> Floats:
    """Return the mean squared distance from what was expected, between the edges."""
    totals = np.add.reduceat((answers - expected) ** 2, EDGES[:-1])
    totals[-1] -= ((answers - expected)[EDGES[-1] :] ** 2).sum()
    means: Floats = totals / np.diff(EDGES)
    return means


if __name__ == "__main__":
    main()
