"""Measure log-loss and calibration error of probabilities, predicting every row before learning it.

python demos/benchmarks/probabilities.py --data mnist.npz   # with MNIST, or a folder of IDX files
python demos/benchmarks/probabilities.py                    # only streams that come with river
python demos/benchmarks/probabilities.py --quick            # their first 300 rows
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from command_line import positive
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table
from river import datasets, metrics, preprocessing

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)
from onlinels.checks import check_values
from onlinels.datasets import read_image_data
from onlinels.labels import Label, read_labels
from onlinels.scoring import probabilities_of

Array = NDArray[np.float64]

ROWS = 10_000
"""Rows of a stream at most: of Shuttle the first fifth, of the others all."""
QUICK_ROWS = 300
BATCH = 500
"""Images of a mini-batch, or fewer: of few images, a quarter."""
FEWEST_BATCHES = 4
BINS = 15
STREAMS: dict[str, Callable[[], Any]] = {
    "Phishing": datasets.Phishing,
    "Bananas": datasets.Bananas,
    "ImageSegments": datasets.ImageSegments,
    "Shuttle": datasets.Shuttle,
}
KINDS = ("softmax", "clip", "default", "calibrated")


@dataclass
class Measured:
    """Log-loss by river's CrossEntropy, and how sure and how right the top label was."""

    loss: metrics.CrossEntropy = field(default_factory=metrics.CrossEntropy)
    sure: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)

    def add(self, classes: tuple[Label, ...], probabilities: Array, label: Label) -> None:
        """Note one prediction. A label never seen before costs nothing, as river has it."""
        self.loss.update(label, dict(zip(classes, probabilities.tolist(), strict=True)))
        top = int(probabilities.argmax())
        self.sure.append(float(probabilities[top]))
        self.right.append(classes[top] == label)

    def bins(self) -> Iterator[tuple[float, float, float]]:
        """Yield, for each of 15 equal bins that has rows: mean sureness, share right, share."""
        sure, right = np.array(self.sure), np.array(self.right)
        places = np.minimum((sure * BINS).astype(int), BINS - 1)
        for place in np.unique(places):
            rows = places == place
            yield float(sure[rows].mean()), float(right[rows].mean()), float(rows.mean())

    @property
    def log_loss(self) -> float:
        """Mean log-loss."""
        loss: Any = self.loss
        return float(loss.get())

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the top label."""
        return sum(abs(sure - right) * share for sure, right, share in self.bins())


@dataclass
class Result:
    """What was measured on one stream; `extra` is the share of the time that the scale took."""

    name: str
    kinds: dict[str, Measured] = field(default_factory=lambda: {k: Measured() for k in KINDS})
    extra: float = 0.0


def softmax(scores: Array) -> Array:
    likelihoods = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    return shares


def clip_and_renormalise(scores: Array) -> Array:
    clipped = np.clip(scores, 0.0, 1.0)
    totals = clipped.sum(axis=1, keepdims=True)
    shares: Array = np.full_like(clipped, 1 / scores.shape[1])
    np.divide(clipped, totals, out=shares, where=totals > 0)
    return shares


def test_then_train(name: str, plain: Any, wrapped: Any, batches: list[Any]) -> Result:
    """Predict every batch with both models, then let both learn it."""
    result, seconds = Result(name), {"plain": 0.0, "wrapped": 0.0}
    for X, labels in track(batches, description=f"{name:>13}", console=Console(stderr=True)):
        if plain.classes:
            scores = np.asarray(plain.scores_many(X))
            rows = zip(
                softmax(scores),
                clip_and_renormalise(scores),
                probabilities_of(scores),
                np.asarray(wrapped.predict_proba_many(X)),
                labels,
                strict=True,
            )
            for *probabilities, label in rows:
                for measured, row in zip(result.kinds.values(), probabilities, strict=True):
                    measured.add(plain.classes, row, label)
        for model, key in ((plain, "plain"), (wrapped, "wrapped")):
            started = time.perf_counter()
            model.learn_many(X, labels)
            seconds[key] += time.perf_counter() - started
    result.extra = 1.0 - seconds["plain"] / seconds["wrapped"]
    return result


def run_stream(name: str, n_rows: int) -> Result:
    """Learn a stream row by row: the features are computed once, for both models."""
    features = preprocessing.StandardScaler() | HiddenLayer(100, activation="relu")
    batches = []
    for x, y in itertools.islice(STREAMS[name](), n_rows):
        features.learn_one(x)
        batches.append((np.array([list(features.transform_one(x).values())]), [y]))
    plain = LeastSquaresClassifier()
    return test_then_train(name, plain, CalibratedClassifier(plain.clone()), batches)


def read_images(arguments: argparse.Namespace, plain: ShallowConvClassifier) -> list[Any]:
    """Return mini-batches of images and labels that the model can learn.

    Raises
    ------
    OSError, TypeError, ValueError
        If there are none, or none would be left to predict.
    """
    n_rows = QUICK_ROWS if arguments.quick else arguments.images
    data = read_image_data(arguments.data)
    images, labels = data.x_train[:n_rows], data.y_train[:n_rows].tolist()
    if len(labels) < 2:
        raise ValueError(f"{len(labels)} images, expected at least 2: the first is not predicted")
    check_values("x_train", images)
    plain.clone().learn_many(images[:1], read_labels(labels, len(images))[:1])
    size = min(BATCH, max(1, len(labels) // FEWEST_BATCHES))
    rows = [slice(start, start + size) for start in range(0, len(labels), size)]
    return [(images[batch], labels[batch]) for batch in rows]


def print_table(results: list[Result]) -> None:
    table = Table(
        box=SIMPLE, title="Log-loss (probabilities clipped to [1e-15, 1 - 1e-15]) and ECE"
    )
    for column in ("stream", *KINDS, "ECE default", "ECE calibrated", "extra time"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    for result in results:
        losses = [f"{measured.log_loss:.4f}" for measured in result.kinds.values()]
        errors = [f"{result.kinds[kind].calibration_error:.4f}" for kind in KINDS[2:]]
        table.add_row(result.name, *losses, *errors, f"{result.extra:.0%}")
    Console(width=110).print(table)
    print(f"{os.cpu_count()} cores; ECE: {BINS} bins, top label; extra: share of learning time")


def draw(results: list[Result], path: Path) -> None:
    """Draw how often the top label is right against how sure the model was."""
    figure = Figure(figsize=(3.2 * len(results), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("Reliability of the top label, before learning each row", weight="bold")
    tiles = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for axes, result in zip(tiles, results, strict=True):
        axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
        for kind, colour in (("default", "#C44E00"), ("calibrated", "#0072B2")):
            sure, right, share = np.array(list(result.kinds[kind].bins())).T
            axes.plot(sure, right, color=colour, linewidth=1.2, label=kind)
            axes.scatter(sure, right, 8 + 200 * share, color=colour, alpha=0.7, linewidth=0)
        axes.set_title(result.name, size=10)
        axes.set_xlabel("probability of the top label")
        axes.set(xlim=(0, 1.04), ylim=(0, 1.04))
    tiles[0].set_ylabel("share right")
    tiles[0].legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=150)


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if not arguments.output.absolute().parent.is_dir():
        parser.error(f"the folder of {arguments.output} does not exist")
    plain = ShallowConvClassifier.from_preset("mnist", n_hidden=arguments.n_hidden)
    try:
        batches = read_images(arguments, plain) if arguments.data else []
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    n_rows = QUICK_ROWS if arguments.quick else ROWS
    results = [run_stream(name, n_rows) for name in STREAMS]
    if batches:
        wrapped = CalibratedClassifier(plain.clone())
        results.append(test_then_train("images", plain, wrapped, batches))
    print_table(results)
    draw(results, arguments.output)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help=".npz file or folder of IDX files (default: none)")
    parser.add_argument("--images", type=positive, default=20_000, help="images (%(default)s)")
    parser.add_argument("--n-hidden", type=positive, default=1000, help="for images (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("probabilities.png"))
    parser.add_argument("--quick", action="store_true", help=f"first {QUICK_ROWS} rows only")
    return parser


if __name__ == "__main__":
    main()
