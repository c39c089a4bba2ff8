"""Draw the learning curves of two models on a stream of river's: ImageSegments.

Accuracy per window of 200 rows, and over all rows so far; each row is predicted, then learnt.
"""

from __future__ import annotations

from typing import Any

from drawing import BLUE, GREEN, figure, label_ends, output_of
from river import datasets, metrics

from onlinels import LeastSquaresClassifier, StreamClassifier, progressive_val_score

SEGMENTS: Any = datasets.ImageSegments
ACCURACY: Any = metrics.Accuracy
WINDOW = 200
MODELS = [(StreamClassifier(), GREEN), (LeastSquaresClassifier(), BLUE)]


def main() -> None:
    output = output_of(__doc__, "evaluate")
    scores = [
        progressive_val_score(SEGMENTS(), model, ACCURACY(), window=WINDOW) for model, _ in MODELS
    ]
    with figure(output, 6.0, 3.6) as made:
        axes = made.add_subplot()
        axes.set_prop_cycle(color=[colour for _, colour in MODELS])
        first, *others = scores
        first.plot(*others, path_or_axes=axes)
        legend: Any = axes.get_legend()
        legend.remove()
        axes.set_ylim(0.7, 1.0)
        axes.set_xlabel("rows of ImageSegments")
        ends = [
            (float(score.cumulative[-1]), f"{score.name}()\n{score.cumulative[-1]:.1%}", colour)
            for score, (_, colour) in zip(scores, MODELS, strict=True)
        ]
        label_ends(axes, ends, 0.12)


if __name__ == "__main__":
    main()
