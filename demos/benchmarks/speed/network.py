"""Measure the whole network, from raw images to the test error, against its bare BLAS calls.

python demos/benchmarks/speed/network.py --data mnist.npz
python demos/benchmarks/speed/network.py --per-image
python demos/benchmarks/speed/network.py --per-image 12000
python demos/benchmarks/speed/network.py --quick

The network is the "mnist" preset with 6,400 hidden units. The floor is the time of the bare matrix
products, one symmetric update per batch and one Cholesky factor, of the same sizes and on arrays
that are already in memory. Without --data, images are random: the time is the same, and the error
is meaningless.

--per-image measures an image instead: learning and predicting in batches of 1,000 and singly, and
predicting followed by learning for each image. It uses 1,000, 2,000, 3,200 and 6,400 hidden units,
or the numbers given (12,000 take 7 GB and some minutes). The floors are the bare calls of the same
shapes, timed in turns with the network; after a single image, they update an inverse.
"""

from __future__ import annotations

import copy
import math
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, dsyr, dsyrk
from scipy.linalg.lapack import dpotrf

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Floats,
    Piece,
    bar,
    draw,
    in_turns,
    in_words,
    positive,
    print_table,
    row_slices,
    seconds_of,
    speed_arguments,
    speed_parser,
    table_of,
)
from image_data import ImageData, read_image_data

from onlinels import ShallowConvClassifier

BATCH, TILE = 1000, 16
SIZES = [1000, 2000, 3200, 6400]
"""Default numbers of hidden units for --per-image."""
SINGLE = 10
"""Images that are learnt or predicted one by one in one measurement."""

Calls = dict[str, tuple[Piece, int]]
"""Calls of BLAS by name, each with its number of images."""


def main() -> None:
    parser = speed_parser(__doc__, repeats=3)
    parser.add_argument("--data", help=".npz file or folder of IDX files (random images)")
    per_image = f"measure one image, for these numbers of hidden units ({SIZES})"
    parser.add_argument("--per-image", type=positive, nargs="*", metavar="N", help=per_image)
    arguments = speed_arguments(parser)
    data = random_images(arguments.quick) if arguments.data is None else read(arguments.data)
    warm_up = 500 if arguments.quick else 4000
    if arguments.per_image is None:
        measure_whole(data, 300 if arguments.quick else 6400, warm_up, arguments.repeats)
        return
    print("Random images" if arguments.data is None else arguments.data)
    for n_hidden in arguments.per_image or ([300] if arguments.quick else SIZES):
        measure_image(data, n_hidden, warm_up, arguments.repeats)


def measure_whole(data: ImageData, n_hidden: int, warm_up: int, repeats: int) -> None:
    """Print the time of learning and testing on all images, and that of the bare calls."""
    n_learnt, n_tested = len(data.x_train), len(data.x_test)
    whole, floors = [], []
    for _ in bar(range(repeats), "Measuring"):
        whole.append(run(data, n_hidden, warm_up))
        floors.append(bare(n_hidden, warm_up, n_learnt, n_tested))
    table = table_of("bare calls", "time", title=f"{n_learnt} images learnt, {n_tested} tested")
    total = statistics.median(sum(each.values()) for each in floors)
    for name in floors[0]:
        table.add_row(name, in_words(statistics.median(each[name] for each in floors)))
    seconds = statistics.median(each for each, _ in whole)
    table.add_row("their sum", in_words(total))
    table.add_row("the network", in_words(seconds))
    print_table(table)
    print(f"{seconds / total:.2f} times the sum; test error {whole[0][1]:.2%}")


def measure_image(data: ImageData, n_hidden: int, warm_up: int, repeats: int) -> None:
    """Print the cost of an image in batches and singly, and that of the bare calls."""
    model = ShallowConvClassifier.from_preset("mnist", n_hidden=n_hidden, warm_up=warm_up)
    for rows in row_slices(warm_up, BATCH):
        model.learn_many(data.x_train[rows], data.y_train[rows])
    images, labels = data.x_train[warm_up:][:BATCH], data.y_train[warm_up:][:BATCH]
    predictor, both = copy.deepcopy(model), copy.deepcopy(model)
    single = [({"image": image}, int(y)) for image, y in zip(images[:SINGLE], labels, strict=False)]
    gram, inverse = (np.zeros((n_hidden, n_hidden), order="F") for _ in range(2))
    row = np.full(n_hidden, 1e-3)
    many, one = (calls(n_hidden, warm_up, n, gram) for n in (BATCH, 1))

    def learn_singly() -> None:
        for x, y in single:
            model.learn_one(x, y)

    def bare_pairs() -> None:
        call(one, learning, SINGLE)
        call(one, predicting, SINGLE)
        for _ in single:
            dsymv(1.0, inverse, row)
            dsyr(-1.0, row, a=inverse, overwrite_a=1)

    learning, predicting = (("convolution", "pooling", "landmarks", x) for x in ("Gram", "scores"))
    measured: dict[str, tuple[Piece, Piece, int]] = {
        "learnt in batches of 1,000": (
            lambda: model.learn_many(images, labels),
            lambda: call(many, learning, BATCH),
            BATCH,
        ),
        "learnt singly": (
            learn_singly,
            lambda: call(one, learning, SINGLE),
            SINGLE,
        ),
        "predicted in batches of 1,000": (
            lambda: predictor.predict_many(images),
            lambda: call(many, predicting, BATCH),
            BATCH,
        ),
        "predicted singly": (
            lambda: [predictor.predict_one(x) for x, _ in single],
            lambda: call(one, predicting, SINGLE),
            SINGLE,
        ),
        "predicted, then learnt, singly": (
            lambda: predict_then_learn(both, single),
            bare_pairs,
            SINGLE,
        ),
    }
    # After a mini-batch, the first prediction computes the weights and starts the inverse.
    predict_then_learn(both, single)
    pieces = {name: ours for name, (ours, _, _) in measured.items()}
    floors = {f"bare {name}": floor for name, (_, floor, _) in measured.items()}
    seconds = in_turns(pieces | floors, repeats)
    table = table_of("an image", "time", "bare calls", "ratio", title=f"{n_hidden} hidden units")
    for name, (_, _, n_images) in measured.items():
        ours, floor = seconds[name], seconds[f"bare {name}"]
        cells = in_words(ours / n_images), in_words(floor / n_images), f"{ours / floor:.2f}"
        table.add_row(name, *cells)
    print_table(table)


def predict_then_learn(model: ShallowConvClassifier, images: Iterable[tuple[Any, int]]) -> None:
    """Predict every image, then learn it."""
    for x, y in images:
        model.predict_one(x)
        model.learn_one(x, y)


def read(path: str) -> ImageData:
    return read_image_data(path)


def random_images(quick: bool) -> ImageData:
    random = np.random.default_rng(0)
    n_train, n_test = (2000, 500) if quick else (60_000, 10_000)
    x = random.integers(0, 256, (n_train + n_test, 28, 28), dtype=np.uint8)
    y = (np.arange(len(x)) % 10).astype(np.uint8)
    return ImageData(x[:n_train], y[:n_train], x[n_train:], y[n_train:])


def run(data: ImageData, n_hidden: int, warm_up: int) -> tuple[float, float]:
    """Return the seconds of learning and testing, and the test error."""
    started = time.perf_counter()
    model = ShallowConvClassifier.from_preset("mnist", n_hidden=n_hidden, warm_up=warm_up)
    for rows in row_slices(len(data.x_train), BATCH):
        model.learn_many(data.x_train[rows], data.y_train[rows])
    error = float(np.mean(model.predict_many(data.x_test) != data.y_test))
    return time.perf_counter() - started, error


def calls(n_hidden: int, warm_up: int, n_rows: int, gram: Floats) -> Calls:
    """Return the network's calls of BLAS for batches of `n_rows` images."""
    n_features, tile = 6000, min(TILE, n_rows)
    patches, kernel = draw(22, 49, tile * 22), draw(60, 49)
    pooling, maps, pooled = draw(10, 22), draw(22, 60 * tile * 22), draw(600 * tile, 22)
    features, landmarks = draw(n_rows, n_features), draw(n_features, min(warm_up, 2 * n_hidden))
    rows = draw(n_rows, n_hidden).astype(np.float64)
    activations, weights = draw(n_rows, n_hidden), draw(n_hidden, 10)

    def update() -> None:
        if n_rows == 1:
            dsyr(1.0, rows[0], a=gram, overwrite_a=1)
        else:
            dsyrk(1.0, rows.T, 1.0, gram, overwrite_c=1)

    return {
        "convolution": (lambda: kernel @ patches, tile),
        "pooling": (lambda: (pooling @ maps, pooled @ pooling.T), tile),
        "landmarks": (lambda: features @ landmarks, n_rows),
        "Gram": (update, n_rows),
        "scores": (lambda: activations @ weights, n_rows),
    }


def call(some: Mapping[str, tuple[Piece, int]], names: Iterable[str], n_images: int = 1) -> None:
    """Make the named calls as often as `n_images` images need."""
    for piece, size in (some[name] for name in names):
        for _ in range(math.ceil(n_images / size)):
            piece()


def bare(n_hidden: int, warm_up: int, n_learnt: int, n_tested: int) -> dict[str, float]:
    """Return the seconds of the network's calls of BLAS and LAPACK."""
    gram = np.zeros((n_hidden, n_hidden), order="F")
    system = np.asfortranarray(np.eye(n_hidden) * n_hidden + 1.0)
    n_images = dict.fromkeys(("convolution", "pooling", "landmarks"), n_learnt + n_tested)
    n_images |= {"Gram": n_learnt, "scores": n_tested}
    some = calls(n_hidden, warm_up, BATCH, gram)
    seconds = {
        name: n_images[name] / size * median_seconds(piece) for name, (piece, size) in some.items()
    }
    return seconds | {"factor": median_seconds(lambda: dpotrf(system), 1)}


def median_seconds(piece: Piece, repeats: int = 5) -> float:
    return statistics.median(seconds_of(piece) for _ in range(repeats))


if __name__ == "__main__":
    main()
