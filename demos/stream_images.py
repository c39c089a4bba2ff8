"""Learn a stream of images in one pass, with a new class halfway through the stream.

Every mini-batch is predicted and then learnt. The first half of the stream contains no 9; in the
second half, 9 appears as a new class. At the end, the demo compares the online weights with a batch
solution in numpy on all rows, and draws a picture.

python demos/stream_images.py                       # scikit-learn's digits, a few seconds
python demos/stream_images.py --data mnist.npz      # MNIST, about a minute
python demos/stream_images.py --data fashion-mnist  # a folder of IDX files, gzipped or not
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from image_data import ImageData, read_image_data
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import SubFigure
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from show import (
    BLUE,
    DASHED,
    GREY,
    INK,
    PALE,
    SHADE,
    VERMILLION,
    figure,
    make_parser,
    mark_shares,
    not_negative,
    note,
    positive,
    progress_bar,
    table_of,
)
from sklearn.datasets import load_digits

from onlinels import ShallowConvClassifier
from onlinels.network import PRESETS

Array = NDArray[Any]

NEW_CLASS = 9
MNIST_HIDDEN = 2000
"""Hidden units with --data: a third of the preset's, with a thirtieth of its solving time."""
QUICK_ROWS, QUICK_TEST_ROWS, QUICK_HIDDEN = 800, 300, 200
FEWEST_ROWS = 4
"""The first half then contains two rows, which fix the features."""
DIGITS_TEST_ROWS = 500
BATCHES = 60
"""Default number of mini-batches; each prediction after learning solves for the weights again."""
SMALLEST_WINDOW = 100
"""Rows of the recent accuracy, unless a mini-batch is larger."""


@dataclass
class Curve:
    """The accuracy in the recent window and over all rows, after every mini-batch."""

    window: int
    new_class_at: int
    warm_up_rows: int = 0
    rows: list[int] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    overall: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Tested:
    """Test images, their labels and the predicted labels."""

    images: Array
    labels: Array
    predicted: Array

    @property
    def error(self) -> float:
        """Share of misclassified images."""
        return float(np.mean(self.labels != self.predicted))


@dataclass(frozen=True)
class Comparison:
    """The difference between the online weights and the batch solution, and its bound.

    `rounding` is the condition number of the linear system times the precision of float64: the
    largest difference that rounding can cause. `other_labels` counts test images whose label
    differs.
    """

    difference: float
    rounding: float
    other_labels: int


def main(argv: list[str] | None = None) -> None:
    parser = parser_of_options()
    arguments = parser.parse_args(argv)
    try:
        data = read_data(arguments)
        n_rows = len(data.y_train)
        batch_size = arguments.batch_size or max(1, n_rows // BATCHES)
        model = make_model(arguments, n_rows, batch_size)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    if batch_size > n_rows // 2:
        parser.error(
            f"--batch-size is {batch_size}, expected at most {n_rows // 2}, half of the stream: "
            f"the first mini-batch, which fixes the features, must contain no {NEW_CLASS}"
        )
    images, labels, new_class_at = in_stream_order(data, arguments.seed)
    console = Console()
    curve = Curve(max(SMALLEST_WINDOW, batch_size), new_class_at)
    started = time.perf_counter()
    test_then_train(model, images, labels, batch_size, curve, console)
    rate = len(labels) / (time.perf_counter() - started)
    # The batch solution below is least squares, without priors.
    model.priors = None
    tested = Tested(data.x_test, data.y_test, model.predict_many(data.x_test))
    with console.status("Solving the batch solution in numpy"):
        compared = compare_with_batch(model, images, labels, batch_size, tested)
    subtitle = (
        f"{model.count:,} images in one pass, none stored  ·  "
        f"{100 * tested.error:.2f}% test error\n"
        f"weights within {compared.difference:.1e} (relative) of a batch solution"
    )
    draw(arguments.output, subtitle, curve, tested, model.bank)
    console.print(summary(model, rate, tested, compared, arguments.output))


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__, "stream_images.png")
    add = parser.add_argument
    data = (
        "MNIST or Fashion-MNIST: a folder of IDX files, or an .npz file with x_train, y_train, "
        "x_test and y_test (default: scikit-learn's digits)"
    )
    add("--data", type=Path, help=data)
    add("--n-hidden", type=positive, help=f"hidden units (400; with --data {MNIST_HIDDEN})")
    add("--batch-size", type=positive, help=f"rows per mini-batch (1/{BATCHES} of the stream)")
    add("--seed", type=not_negative, default=0, help="for the order and the hidden units")
    quick = f"only {QUICK_ROWS} rows and {QUICK_HIDDEN} hidden units"
    add("--quick", action="store_true", help=quick)
    return parser


# -- the stream and the model ---------------------------------------------------------------------


def read_data(arguments: argparse.Namespace) -> ImageData:
    """Read the training and test images; with --quick, the first of each.

    The test digits are the last ones of the data set. They are harder than random digits, because
    other people wrote them.
    """
    if arguments.data:
        data = read_image_data(arguments.data)
    else:
        digits = load_digits()
        x_train, x_test = np.split(digits.images, [-DIGITS_TEST_ROWS])
        y_train, y_test = np.split(digits.target, [-DIGITS_TEST_ROWS])
        data = ImageData(x_train, y_train, x_test, y_test)
    if len(data.x_train) < FEWEST_ROWS or not len(data.x_test):
        raise ValueError(
            f"There are {len(data.x_train)} training images and {len(data.x_test)} test images, "
            f"expected at least {FEWEST_ROWS} and 1. Pass more images."
        )
    if not arguments.quick:
        return data
    rows, test_rows = slice(QUICK_ROWS), slice(QUICK_TEST_ROWS)
    return ImageData(
        data.x_train[rows], data.y_train[rows], data.x_test[test_rows], data.y_test[test_rows]
    )


def in_stream_order(data: ImageData, seed: int) -> tuple[Array, Array, int]:
    """Return all training rows in stream order, and the first row that can be a 9.

    The first half of the rows is drawn from the other classes. The second half contains the
    remaining rows of these classes and all 9s, shuffled. No row is dropped.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(data.y_train))
    is_new = data.y_train[order] == NEW_CLASS
    first, left = np.split(order[~is_new], [len(order) // 2])
    second = random.permutation(np.concatenate([left, order[is_new]]))
    stream = np.concatenate([first, second])
    return data.x_train[stream], data.y_train[stream], len(first)


def make_model(
    arguments: argparse.Namespace, n_rows: int, batch_size: int
) -> ShallowConvClassifier:
    preset = "mnist" if arguments.data else "digits"
    settings: dict[str, Any] = {"seed": arguments.seed}
    if arguments.n_hidden or arguments.quick:
        settings["n_hidden"] = arguments.n_hidden or QUICK_HIDDEN
    elif arguments.data:
        settings["n_hidden"] = MNIST_HIDDEN
    # The input weights come from the warm-up, so from no 9. A short stream must not be warm-up
    # alone. The warm-up consists of whole batches.
    warm_up = min(PRESETS[preset]["warm_up"], n_rows // 5)
    settings["warm_up"] = max(2, batch_size, warm_up // batch_size * batch_size)
    return ShallowConvClassifier.from_preset(preset, **settings)


def test_then_train(
    model: ShallowConvClassifier,
    images: Array,
    labels: Array,
    batch_size: int,
    curve: Curve,
    console: Console,
) -> None:
    """Predict every mini-batch, then learn it, and record the accuracy.

    Until the warm-up is complete, a provisional classifier on raw pixels predicts.
    """
    recent: deque[bool] = deque(maxlen=curve.window)
    correct = 0
    accuracy = "accuracy {task.fields[recent]:.1%} now, {task.fields[overall]:.1%} in all"
    with progress_bar(console, accuracy) as progress:
        task = progress.add_task("", total=len(labels), recent=0.0, overall=0.0)
        for batch in batches(len(labels), batch_size):
            hits = model.predict_many(images[batch]) == labels[batch]
            if not model.features_fixed:
                curve.warm_up_rows = batch.stop
            model.learn_many(images[batch], labels[batch])
            recent.extend(hits.tolist())
            correct += int(hits.sum())
            curve.rows.append(batch.stop)
            curve.recent.append(sum(recent) / len(recent))
            curve.overall.append(correct / batch.stop)
            progress.update(
                task,
                description=f"{len(model.classes)} classes",
                completed=batch.stop,
                recent=curve.recent[-1],
                overall=curve.overall[-1],
            )


def batches(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


# -- the batch solution ---------------------------------------------------------------------------


def compare_with_batch(
    model: ShallowConvClassifier, images: Array, labels: Array, batch_size: int, tested: Tested
) -> Comparison:
    """Solve the output weights from all stored rows with numpy, and compare them."""
    system, cross = normal_equations(model, images, labels, batch_size)
    weights = np.linalg.solve(system, cross)
    eigenvalues = np.linalg.eigvalsh(system)
    difference = np.abs(model.output_weights - weights).max() / np.abs(weights).max()
    scores = model.transform_many(tested.images) @ weights
    labelled = np.array(model.classes)[scores.argmax(axis=1)]
    return Comparison(
        difference=float(difference),
        rounding=float(np.finfo(np.float64).eps * eigenvalues[-1] / eigenvalues[0]),
        other_labels=int((labelled != tested.predicted).sum()),
    )


def normal_equations(
    model: ShallowConvClassifier, images: Array, labels: Array, batch_size: int
) -> tuple[Array, Array]:
    """Return A'A + c I and A'Y of the activations A of all rows.

    The model stores no rows; the demo stores them for this comparison. It sums the products over
    mini-batches, because the activations of 60,000 images would take 1 GB.
    """
    one_hot = (labels[:, None] == np.array(model.classes)).astype(np.float64)
    gram: Array = np.zeros((model.hidden.n_hidden, model.hidden.n_hidden))
    cross: Array = np.zeros((model.hidden.n_hidden, len(model.classes)))
    for batch in batches(len(labels), batch_size):
        activations = model.transform_many(images[batch]).astype(np.float64)
        gram += activations.T @ activations
        cross += activations.T @ one_hot[batch]
    gram[np.diag_indices_from(gram)] += model.ridge_
    return gram, cross


def summary(
    model: ShallowConvClassifier, rate: float, tested: Tested, compared: Comparison, picture: Path
) -> Table:
    table = table_of()
    table.add_row("Rows learnt", f"{model.count:,}")
    table.add_row("Rows per second, predicted and learnt", f"{rate:,.0f}")
    table.add_row("Classes in order of appearance", " ".join(map(str, model.classes)))
    table.add_row("Test error", f"{100 * tested.error:.2f}% of {len(tested.labels):,} images")
    table.add_row("Largest relative difference to batch weights", f"{compared.difference:.1e}")
    table.add_row("  largest difference from rounding alone", f"{compared.rounding:.1e}")
    table.add_row("Test images with another label by batch weights", f"{compared.other_labels}")
    table.add_row("Picture", str(picture))
    return table


# -- the picture ----------------------------------------------------------------------------------

LEFT = 0.005
FILTERS = {"bars": range(0, 20, 2), "corners": range(20, 40, 3), "squares": range(40, 43)}
"""Filters in the picture, of the bank's 20 bars, 20 corners and 3 squares."""
FILTER_COLUMNS = 10


def draw(path: Path, subtitle: str, curve: Curve, tested: Tested, bank: Array) -> None:
    """Draw the accuracy, the confusion matrix, filters and misclassified images."""
    with figure(path, 6.8, 7.2) as made:
        made.set_layout_engine("constrained", rect=(0.008, 0.01, 0.984, 0.98))
        grid = made.add_gridspec(4, 2, height_ratios=(0.45, 1.4, 0.7, 1.1))
        heading = made.add_subfigure(grid[0, :])
        title = "A new class halfway through the stream"
        heading.text(LEFT / 2, 0.7, title, size=15, weight="bold")
        heading.text(LEFT / 2, 0.1, subtitle, color=GREY)
        draw_accuracy(made.add_subfigure(grid[1, :]), curve)
        draw_confusion(made.add_subfigure(grid[2:, 0]), tested)
        draw_filters(made.add_subfigure(grid[2, 1]), bank)
        draw_misread(made.add_subfigure(grid[3, 1]), tested)


def add_title(part: SubFigure, text: str) -> None:
    part.suptitle(text, size=11, weight="bold", x=LEFT, ha="left")


def draw_accuracy(part: SubFigure, curve: Curve) -> None:
    add_title(part, "Accuracy on rows not yet learnt")
    axes = part.subplots()
    settled = np.array(curve.rows) > curve.warm_up_rows
    shown = np.concatenate([np.array(curve.recent)[settled], np.array(curve.overall)[settled]])
    axes.set_ylim(min(shown, default=0.0) - 0.05, 1.005)
    axes.set_xlim(0, curve.rows[-1])
    axes.axvspan(0, curve.warm_up_rows, color=SHADE, linewidth=0, label="warm-up: raw pixels")
    axes.axvline(curve.new_class_at, color=VERMILLION, linewidth=1.5, linestyle=DASHED)
    axes.plot(curve.rows, curve.overall, color=GREY, linewidth=1.6, label="all rows so far")
    recent = f"last {curve.window:,} rows"
    axes.plot(curve.rows, curve.recent, color=BLUE, linewidth=2.4, label=recent)
    note(axes, curve.new_class_at, f" class {NEW_CLASS} appears from here on", VERMILLION)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.08), frameon=False, reverse=True)
    mark_shares(axes, "rows learnt")


def draw_confusion(part: SubFigure, tested: Tested) -> None:
    add_title(part, f"Predictions for {len(tested.labels):,} test images")
    names, cells = np.unique([tested.labels, tested.predicted], return_inverse=True)
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, tuple(cells.reshape(2, -1)), 1)
    axes = part.subplots()
    # Logarithmic, so that a single misclassified image stays visible beside the diagonal.
    scale = LogNorm(vmin=0.4, vmax=1.5 * counts.max())
    axes.set_facecolor(PALE)
    axes.imshow(np.ma.masked_equal(counts, 0), cmap="Blues", norm=scale)
    for row, column in np.argwhere(counts):
        number = counts[row, column]
        colour = "white" if scale(number) > 0.6 else INK
        axes.text(column, row, f"{number}", ha="center", va="center", color=colour, size=9)
    for ticks in (axes.set_xticks, axes.set_yticks):
        ticks(np.arange(len(names)), [str(name) for name in names])
        ticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")


def draw_filters(part: SubFigure, bank: Array) -> None:
    chosen = [(name, number) for name, numbers in FILTERS.items() for number in numbers]
    add_title(part, f"{len(chosen)} of the {len(bank)} fixed filters")
    tiles = part.subplots(len(chosen) // FILTER_COLUMNS, FILTER_COLUMNS).ravel()
    captioned = set()
    for axes, (name, number) in zip(tiles, chosen, strict=True):
        image = bank[number, :, :, 0]
        limit = np.abs(image).max()
        draw_tile(axes, image, cmap="RdBu", vmin=-limit, vmax=limit)
        if name not in captioned:
            axes.set_title(name, loc="left", size=9.5, color=GREY)
            captioned.add(name)


def draw_misread(part: SubFigure, tested: Tested) -> None:
    misread = np.flatnonzero(tested.labels != tested.predicted)
    n_rows, n_columns = (1 if len(misread) <= 6 else 2), (4 if len(misread) <= 4 else 6)
    shown = misread[: n_rows * n_columns]
    share = "All" if len(shown) == len(misread) else f"{len(shown)} of"
    add_title(part, f"{share} {len(misread):,} errors: true → predicted")
    tiles = part.subplots(n_rows, n_columns).ravel()
    for axes in tiles[len(shown) :]:
        axes.set_axis_off()
    for axes, number in zip(tiles, shown, strict=False):
        draw_tile(axes, np.squeeze(tested.images[number]), cmap="gray_r")
        axes.set_title(f"{tested.labels[number]} → {tested.predicted[number]}", size=10.5)


def draw_tile(axes: Axes, image: Array, **style: Any) -> None:
    axes.imshow(image, **style)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)


if __name__ == "__main__":
    main()
