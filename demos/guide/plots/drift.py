"""Draw the accuracy over a drifting stream, with forgetting and without.

River's Hyperplane: ten features, labels by the side of a plane that turns a little with every row.
"""

from __future__ import annotations

import numpy as np
from drawing import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    figure,
    label_ends,
    mark_shares,
    moving_accuracy,
    output_of,
)
from rich.progress import track
from river.datasets import synth

from onlinels import LeastSquaresClassifier, StreamClassifier

N_ROWS, WINDOW = 10_000, 500
MODELS = [
    ("StreamClassifier()", StreamClassifier(), GREEN),
    (
        "forgetting_factor=0.995",
        LeastSquaresClassifier(1.0, "recursive", forgetting_factor=0.995),
        BLUE,
    ),
    ("nothing forgotten", LeastSquaresClassifier(1.0, "recursive"), VERMILLION),
]


def main() -> None:
    output = output_of(__doc__, "drift")
    plane = synth.Hyperplane(
        seed=3, n_features=10, n_drift_features=10, mag_change=0.005, noise_percentage=0.05
    )
    stream = list(plane.take(N_ROWS))
    with figure(output, 6.0, 3.6) as made:
        axes, ends = made.add_subplot(), []
        for name, model, colour in MODELS:
            right = np.zeros(N_ROWS)
            for k, (x, y) in enumerate(track(stream, name)):
                right[k] = model.predict_one(x) == y
                model.learn_one(x, y)
            recent = moving_accuracy(right, WINDOW)[WINDOW - 1 :]
            axes.plot(np.arange(WINDOW, N_ROWS + 1), recent, color=colour, lw=1.8)
            ends.append((float(recent[-1]), name, colour))
        axes.axhline(0.95, color=GREY, lw=1.0, ls=":")
        axes.text(WINDOW, 0.952, "5% of the labels are noise", color=GREY, size=9.5, va="bottom")
        axes.set_title(f"Right among the last {WINDOW} rows")
        axes.set_ylim(0.7, 1.0)
        mark_shares(axes, "rows")
        label_ends(axes, ends, 0.07)


if __name__ == "__main__":
    main()
