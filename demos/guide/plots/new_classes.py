"""Draw the accuracy over the classes seen so far: 8x8 digits whose classes arrive two at a time."""

from __future__ import annotations

import numpy as np
from drawing import BLUE, GREY, VERMILLION, figure, label_ends, output_of
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import StandardScaler

from onlinels import LeastSquaresClassifier

N_LEARNT = 1198
ONE_PASS, SGD = "least squares, one pass", "logistic regression, SGD"
ALL_ROWS = "logistic regression, all rows"
COLOURS = {ONE_PASS: BLUE, SGD: VERMILLION, ALL_ROWS: GREY}


def main() -> None:
    output = output_of(__doc__, "new-classes")
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    X, y = StandardScaler().fit_transform(images[order]), labels[order]
    least_squares, anew = LeastSquaresClassifier(priors="equal"), LogisticRegression(C=0.01)
    descent = SGDClassifier(loss="log_loss", random_state=0)
    curves: dict[str, list[float]] = {name: [] for name in COLOURS}
    for last in range(1, 10, 2):
        new = np.flatnonzero(y[:N_LEARNT] // 2 == last // 2)
        for batch in np.array_split(new, 2):
            least_squares.learn_many(X[batch], y[batch])
            descent.partial_fit(X[batch], y[batch], classes=range(10))
        seen = np.flatnonzero(y[:N_LEARNT] <= last)
        anew.fit(X[seen], y[seen])
        tested = N_LEARNT + np.flatnonzero(y[N_LEARNT:] <= last)
        rules = least_squares.predict_many, descent.predict, anew.predict
        for name, predict in zip(COLOURS, rules, strict=True):
            curves[name].append(float(np.mean(predict(X[tested]) == y[tested])))
    with figure(output, 6.5, 3.6) as made:
        axes = made.add_subplot()
        for name, curve in curves.items():
            style = "dashed" if name == ALL_ROWS else "solid"
            axes.plot(range(2, 11, 2), curve, "o", ls=style, color=COLOURS[name], lw=2, ms=5)
        axes.set(xlabel="classes seen so far", ylim=(0.0, 1.02), xticks=range(2, 11, 2))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_title("8x8 digits: accuracy over all classes seen so far")
        axes.grid(axis="y")
        label_ends(axes, [(curve[-1], name, COLOURS[name]) for name, curve in curves.items()], 0.07)


if __name__ == "__main__":
    main()
