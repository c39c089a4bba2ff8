"""Draw how far the weights are from the batch solution while a stream is learnt.

Diabetes' 442 rows (scikit-learn), standardised, one by one, three times over; ridge 1.
"""

from __future__ import annotations

import numpy as np
from drawing import BLUE, GREEN, GREY, VERMILLION, figure, label_log_ends, output_of
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import NDArray
from rich.progress import track
from sklearn.datasets import load_diabetes
from sklearn.linear_model import SGDRegressor
from sklearn.preprocessing import scale

from onlinels import LeastSquaresRegressor

Floats = NDArray[np.float64]
ACCUMULATORS = [("gram", BLUE), ("orthogonal", GREEN), ("recursive", GREY)]


def batch_solution(X: Floats, y: Floats) -> Floats:
    """Solve ridge regression on all rows by numpy: the ridge is as many rows more."""
    n_features = X.shape[1]
    rows = np.vstack([X - X.mean(0), np.eye(n_features)])
    weights: Floats = np.linalg.lstsq(rows, np.append(y - y.mean(), np.zeros(n_features)))[0]
    return weights


def main() -> None:
    output = output_of(__doc__, "exactness")
    X, y = load_diabetes(return_X_y=True)
    X, y = np.tile(np.asarray(scale(X)), (3, 1)), np.tile(np.asarray(scale(y)), 3)
    models = [LeastSquaresRegressor(1.0, name) for name, _ in ACCUMULATORS]
    descent = SGDRegressor(alpha=0.0, random_state=0)
    counts, distances = [], []
    for k in track(range(len(X)), "rows"):
        for model in models:
            model.learn_one(dict(enumerate(X[k].tolist())), float(y[k]))
        descent.partial_fit(X[k : k + 1], y[k : k + 1])
        if k >= 19 and k % 10 == 9:
            batch = batch_solution(X[: k + 1], y[: k + 1])
            online = [*(model.output_weights.ravel() for model in models), descent.coef_]
            counts.append(k + 1)
            distances.append([np.linalg.norm(w - batch) / np.linalg.norm(batch) for w in online])
    with figure(output, 6.0, 3.6) as made:
        axes, ends = made.add_subplot(), []
        named = [*ACCUMULATORS, ("SGD (scikit-learn)", VERMILLION)]
        for (name, colour), way in zip(named, np.array(distances).T, strict=True):
            axes.semilogy(counts, np.maximum(way, 1e-17), color=colour, lw=1.8)
            ends.append((float(way[-1]), name, colour))
        axes.set_ylim(1e-17, 10.0)
        axes.set_title("Distance to the batch solution, relative to its length")
        axes.set_xlabel("rows")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(axis="y")
        label_log_ends(axes, ends, 0.07)


if __name__ == "__main__":
    main()
