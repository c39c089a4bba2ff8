"""Learn a stream of images in one pass, meet the 9 halfway, and check against a batch solve.

Every mini-batch is first predicted, then learnt. The first half of the stream holds no 9; the
second half brings it as a class never seen before. At the end the online weights are compared
with those that plain numpy solves from all rows at once, and a picture tells the story.

python demos/stream_images.py                       # scikit-learn's digits, some seconds
python demos/stream_images.py --data mnist.npz      # MNIST, about a minute
python demos/stream_images.py --data fashion-mnist  # a folder of IDX files, gzipped or not
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from stream_images_data import check_data, read_data
from stream_images_plot import Curve, Tested, draw
from whole_numbers import not_negative, positive

from onlinels import ShallowConvClassifier
from onlinels.datasets import ImageData
from onlinels.presets import PRESETS

Array = NDArray[Any]

NEW_CLASS = 9
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {},
    # A third of the preset's hidden units: a thirtieth of the time for each solve.
    "mnist": {"n_hidden": 2000},
}
QUICK = {"rows": 800, "test_rows": 300, "n_hidden": 200}
BATCHES = 60
"""Mini-batches by default; each prediction after learning solves the linear system anew."""
SMALLEST_WINDOW = 100
"""Rows that the recent accuracy looks back on, unless a mini-batch is larger."""


@dataclass(frozen=True)
class Comparison:
    """How far the online weights are from the batch solve, and what explains it.

    `rounding` is the condition number of the linear system times the precision of float64: how
    far apart two exact methods may be. `other_labels` counts test images labelled otherwise.
    """

    difference: float
    rounding: float
    other_labels: int


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if not arguments.output.absolute().parent.is_dir():
        parser.error(f"the folder of {arguments.output} does not exist")
    sizes = (QUICK["rows"], QUICK["test_rows"]) if arguments.quick else (None, None)
    try:
        data = read_data(arguments.data, *sizes)
        n_rows = len(data.y_train)
        batch_size = arguments.batch_size or max(1, n_rows // BATCHES)
        model = make_model(arguments, n_rows, batch_size)
        check_data(data, model)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    if batch_size > n_rows // 2:
        parser.error(
            f"--batch-size is {batch_size}, expected at most {n_rows // 2}, half of the stream: "
            f"the first mini-batch, which fixes the features, holds no {NEW_CLASS}"
        )
    images, labels, new_class_at = in_stream_order(data, arguments.seed)
    console = Console()
    curve = Curve(max(SMALLEST_WINDOW, batch_size), NEW_CLASS, new_class_at)
    started = time.perf_counter()
    test_then_train(model, images, labels, batch_size, curve, console)
    rate = len(labels) / (time.perf_counter() - started)
    tested = Tested(data.x_test, data.y_test, model.predict_many(data.x_test))
    with console.status("Solving once more, from all rows, with plain numpy"):
        compared = compare_with_batch(model, images, labels, batch_size, tested)
    subtitle = (
        f"{model.count:,} images in one pass, none kept  ·  {rate:,.0f} rows per second  ·  "
        f"{100 * tested.error:.2f}% test error  ·  "
        f"weights within {compared.difference:.1e} (relative) of a batch solve"
    )
    draw(arguments.output, subtitle, curve, tested, model.bank.filters)
    console.print(summary(model, rate, tested, compared, arguments.output))


def in_stream_order(data: ImageData, seed: int) -> tuple[Array, Array, int]:
    """Return all training rows in the stream's order, and the row at which the 9 may first come.

    The first half of the rows is drawn from the other classes; the second half is what is left of
    them with all the 9s mixed in. No row is dropped.
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
    settings = SETTINGS[preset] | {"seed": arguments.seed}
    if arguments.quick or arguments.n_hidden:
        settings["n_hidden"] = arguments.n_hidden or QUICK["n_hidden"]
    # The hidden layer's input weights are made from the warm-up, so without any 9. A short stream
    # must not be all warm-up. Whole batches, so that it ends with one.
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
    """Predict every mini-batch before learning it, and note the course of the accuracy.

    Until the warm-up is full the model answers from a provisional classifier on raw pixels.
    """
    recent: deque[bool] = deque(maxlen=curve.window)
    correct = 0
    with progress_bar(console) as progress:
        task = progress.add_task("", total=len(labels), recent=0.0, overall=0.0, classes=0)
        for batch in batches(len(labels), batch_size):
            hits = model.predict_many(images[batch]) == labels[batch]
            if not model.features_fixed:
                curve.warm_up_rows = batch.stop
            model.learn_many(images[batch], labels[batch])
            recent.extend(hits.tolist())
            correct += int(hits.sum())
            curve.add(batch.stop, sum(recent) / len(recent), correct / batch.stop)
            progress.update(
                task,
                completed=batch.stop,
                recent=100 * curve.recent[-1],
                overall=100 * curve.overall[-1],
                classes=len(model.classes),
            )


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.fields[classes]} classes"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("accuracy {task.fields[recent]:.1f}% now, {task.fields[overall]:.1f}% in all"),
        TimeElapsedColumn(),
        console=console,
    )


def batches(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def compare_with_batch(
    model: ShallowConvClassifier, images: Array, labels: Array, batch_size: int, tested: Tested
) -> Comparison:
    """Solve the output weights from all stored rows at once, with plain numpy."""
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

    The model keeps no rows; only this demo stores them, to have something to compare with. The
    products are summed over pieces because the activations of 60,000 images would take 1 GB.
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
    table = Table(box=SIMPLE, show_header=False)
    table.add_row("Rows learnt", f"{model.count:,}")
    table.add_row("Rows per second, predicted and learnt", f"{rate:,.0f}")
    table.add_row("Classes in order of appearance", " ".join(map(str, model.classes)))
    table.add_row("Test error", f"{100 * tested.error:.2f}% of {len(tested.labels):,} images")
    table.add_row("Largest relative difference to batch weights", f"{compared.difference:.1e}")
    table.add_row("  which rounding alone can make as large as", f"{compared.rounding:.1e}")
    table.add_row("Test images the batch weights label otherwise", f"{compared.other_labels}")
    table.add_row("Picture", str(picture))
    return table


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="MNIST or Fashion-MNIST: a folder of IDX files, or an .npz file with x_train, "
        "y_train, x_test and y_test (default: scikit-learn's digits)",
    )
    parser.add_argument("--n-hidden", type=positive, help="hidden units (400; with --data 2000)")
    parser.add_argument(
        "--batch-size", type=positive, help=f"rows at a time (a {BATCHES}th of the stream)"
    )
    parser.add_argument(
        "--seed", type=not_negative, default=0, help="for the order and the hidden units"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("stream_images.png"), help="picture (%(default)s)"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"only {QUICK['rows']} rows, {QUICK['n_hidden']} units"
    )
    return parser


if __name__ == "__main__":
    main()
