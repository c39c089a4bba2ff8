"""Measure log-loss and calibration error of probabilities, predicting every row before learning it.

python demos/benchmarks/probabilities.py --data mnist.npz   # with MNIST, or a folder of IDX files
python demos/benchmarks/probabilities.py                    # only streams included in river
python demos/benchmarks/probabilities.py --quick            # their first 300 rows
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Array,
    Floats,
    bar,
    machine,
    make_parser,
    positive,
    print_table,
    row_slices,
    seconds_of,
    table_of,
)
from image_data import read_image_data
from river import datasets, metrics, preprocessing
from show import BLUE, GREY, VERMILLION, figure

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)

ROWS, QUICK_ROWS = 10_000, 300
"""Most rows of a stream: the first fifth of Shuttle, and all rows of the others."""
BATCH = 500
"""Images in a mini-batch, but at most a quarter of all images."""
BINS = 15
STREAMS = ("Phishing", "Bananas", "ImageSegments", "Shuttle")
KINDS = ("softmax", "clip", "default", "calibrated")


@dataclass
class Measured:
    """Log-loss by river's CrossEntropy, and the confidence and accuracy of the top label."""

    loss: Any = field(default_factory=metrics.CrossEntropy)
    sure: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)

    def add(self, classes: tuple[Any, ...], probabilities: Floats, label: Any) -> None:
        """Add one prediction. A label never seen before adds no loss, as in river."""
        self.loss.update(label, dict(zip(classes, probabilities.tolist(), strict=True)))
        top = int(probabilities.argmax())
        self.sure.append(float(probabilities[top]))
        self.right.append(classes[top] == label)

    def bins(self) -> Floats:
        """Return mean confidence, accuracy and share of rows, for each bin that has rows."""
        sure, right = np.array(self.sure), np.array(self.right)
        places = np.minimum((sure * BINS).astype(int), BINS - 1)
        parts = [places == place for place in np.unique(places)]
        return np.array([[sure[part].mean(), right[part].mean(), part.mean()] for part in parts])

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the top label."""
        sure, right, share = self.bins().T
        return float((np.abs(sure - right) * share).sum())


@dataclass
class Result:
    """Figures of one stream; `extra` is the share of the learning time spent on calibration."""

    name: str
    kinds: dict[str, Measured] = field(default_factory=lambda: {k: Measured() for k in KINDS})
    extra: float = 0.0


def main() -> None:
    parser = make_parser(__doc__, "probabilities.png")
    add = parser.add_argument
    add("--data", type=Path, help=".npz file or folder of IDX files (default: none)")
    add("--images", type=positive, default=20_000, help="images (%(default)s)")
    add("--n-hidden", type=positive, default=1000, help="for images (%(default)s)")
    add("--quick", action="store_true", help=f"first {QUICK_ROWS} rows only")
    arguments = parser.parse_args()
    results = [run_stream(name, QUICK_ROWS if arguments.quick else ROWS) for name in STREAMS]
    if arguments.data:
        data = read_image_data(arguments.data)
        images, labels = data.x_train[: arguments.images], data.y_train[: arguments.images].tolist()
        parts = row_slices(len(labels), min(BATCH, max(1, len(labels) // 4)))
        plain = ShallowConvClassifier.from_preset("mnist", n_hidden=arguments.n_hidden)
        wrapped = CalibratedClassifier(plain.clone())
        batches = [(images[part], labels[part]) for part in parts]
        results.append(test_then_train("images", plain, wrapped, batches))
    print_results(results)
    draw(results, arguments.output)


def run_stream(name: str, n_rows: int) -> Result:
    """Learn a stream row by row; both models share the features."""
    features = preprocessing.StandardScaler() | HiddenLayer(100, activation="relu", bias=False)
    batches = []
    for x, y in islice(getattr(datasets, name)(), n_rows):
        features.learn_one(x)
        batches.append((np.array([list(features.transform_one(x).values())]), [y]))
    plain = LeastSquaresClassifier()
    return test_then_train(name, plain, CalibratedClassifier(plain.clone()), batches)


def test_then_train(
    name: str, plain: Any, wrapped: Any, batches: list[tuple[Array, list[Any]]]
) -> Result:
    """Predict every batch with both models, then let both learn it."""
    result, seconds = Result(name), {"plain": 0.0, "wrapped": 0.0}
    for X, labels in bar(batches, name):
        if plain.classes:
            scores = np.asarray(plain.scores_many(X))
            tables = (
                softmax(scores),
                clip_and_renormalise(scores),
                np.asarray(plain.predict_proba_many(X)),
                np.asarray(wrapped.predict_proba_many(X)),
            )
            for measured, table in zip(result.kinds.values(), tables, strict=True):
                for row, label in zip(table, labels, strict=True):
                    measured.add(plain.classes, row, label)
        for model, key in ((plain, "plain"), (wrapped, "wrapped")):
            seconds[key] += seconds_of(partial(model.learn_many, X, labels))
    result.extra = 1.0 - seconds["plain"] / seconds["wrapped"]
    return result


def softmax(scores: Floats) -> Floats:
    likelihoods = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    return shares


def clip_and_renormalise(scores: Floats) -> Floats:
    clipped = np.clip(scores, 0.0, 1.0)
    totals = clipped.sum(axis=1, keepdims=True)
    shares: Floats = np.full_like(clipped, 1 / scores.shape[1])
    np.divide(clipped, totals, out=shares, where=totals > 0)
    return shares


def print_results(results: list[Result]) -> None:
    title = "Log-loss (probabilities clipped to [1e-15, 1 - 1e-15]) and ECE"
    columns = ("stream", *KINDS, "ECE default", "ECE calibrated", "extra time")
    table = table_of(*columns, title=title)
    for result in results:
        losses = [f"{measured.loss.get():.4f}" for measured in result.kinds.values()]
        errors = [f"{result.kinds[kind].calibration_error:.4f}" for kind in KINDS[2:]]
        table.add_row(result.name, *losses, *errors, f"{result.extra:.0%}")
    print_table(table)
    print(f"{machine()}; ECE: {BINS} bins, top label; extra: share of learning time")


def draw(results: list[Result], path: Path) -> None:
    """Plot the accuracy of the top label against its probability."""
    heading = "Reliability of the top label, before learning each row"
    with figure(path, 3.2 * len(results), 4.4, heading) as made:
        tiles = made.subplots(1, len(results), sharey=True, squeeze=False)[0]
        for axes, result in zip(tiles, results, strict=True):
            axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
            for kind, colour in (("default", VERMILLION), ("calibrated", BLUE)):
                sure, right, share = result.kinds[kind].bins().T
                axes.plot(sure, right, color=colour, linewidth=1.2, label=kind)
                axes.scatter(sure, right, 8 + 200 * share, color=colour, alpha=0.7, linewidth=0)
            axes.set_title(result.name, size=10)
            axes.set_xlabel("probability of the top label")
            axes.set(xlim=(0, 1.04), ylim=(0, 1.04))
        tiles[0].set_ylabel("accuracy")
        tiles[0].legend(frameon=False, loc="upper left")


if __name__ == "__main__":
    main()
