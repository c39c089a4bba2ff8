"""Draw the held-out error against the ridge, and where ridge="auto" lands.

Of each data set of scikit-learn 40 to 200 rows are learnt, the others tested; features in units of
their deviations.
"""

from __future__ import annotations

import numpy as np
from drawing import BLUE, GREEN, GREY, VERMILLION, figure, output_of
from numpy.typing import NDArray
from rich.progress import track
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import OneHotEncoder

from onlinels import LeastSquaresMultiTargetRegressor

Floats = NDArray[np.float64]
SETS = [
    ("wine, 40 rows", load_wine, 40, BLUE),
    ("diabetes, 60 rows", load_diabetes, 60, VERMILLION),
    ("breast cancer, 60 rows", load_breast_cancer, 60, GREEN),
    ("digits, 200 rows", load_digits, 200, GREY),
]
RIDGES = np.logspace(-4, 4, 49)


def rows_of(names: list[int], targets: Floats) -> list[dict[int, float]]:
    """Return targets as a dict for every row."""
    return [dict(zip(names, row, strict=True)) for row in targets.tolist()]


def error(ridge: float | str, X: Floats, Y: Floats, n: int) -> tuple[float, float]:
    """Return the squared error on the rows that are not learnt, and the ridge in force."""
    names = list(range(Y.shape[1]))
    model = LeastSquaresMultiTargetRegressor(ridge, scaling="standard")
    model.learn_many(X[:n], rows_of(names, Y[:n]))
    answers = np.array([[answer[k] for k in names] for answer in model.predict_many(X[n:])])
    return float(np.mean((answers - Y[n:]) ** 2)), float(model.ridge_)


def main() -> None:
    output = output_of(__doc__, "ridge-path")
    with figure(output, 6.0, 3.8) as made:
        axes = made.add_subplot()
        for name, load, n, colour in track(SETS, "data sets"):
            X, y = load(return_X_y=True)
            Y = y[:, None]
            if load is not load_diabetes:
                Y = OneHotEncoder(sparse_output=False).fit_transform(Y)
            order = np.random.default_rng(0).permutation(len(X))
            X, Y = X[order], Y[order]
            errors = np.array([error(float(ridge), X, Y, n)[0] for ridge in RIDGES])
            own, ridge = error("auto", X, Y, n)
            axes.semilogx(RIDGES, errors / errors.min(), color=colour, lw=1.8, label=name)
            axes.plot(ridge, own / errors.min(), "o", color=colour, ms=9, mec="white")
        axes.set_ylim(0.95, 2.0)
        axes.set_title('Error on fresh rows / error at the best ridge; dots: "auto"')
        axes.set_xlabel("ridge, on standardised features")
        axes.grid(axis="y")
        axes.legend(frameon=False)


if __name__ == "__main__":
    main()
