"""Measure images: learning and predicting, and the files for small boards.

python demos/benchmarks/speed/network.py --data mnist.npz
python demos/benchmarks/speed/network.py --only images --n-hidden 12000
OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/network.py --only boards --repeats 15
python demos/benchmarks/speed/network.py --quick

- images: an image with the "mnist" preset, learnt and predicted in batches of 1,000 and singly, and
  predicted, then learnt, singly. The floors are the bare calls of BLAS of the same shapes, timed in
  turns with the network; after a single image, they update an inverse. Without --data, images are
  random: the time is the same. 12,000 hidden units take 7 GB and some minutes.
- boards: sizes of files and the time of one prediction; sizes and times do not depend on the
  images, which are random bytes. "images" is the ONNX file with `store_images=True`.

`pip install 'onlinels[bench,onnx]' onnxruntime` installs the peers; what is absent is left out.
"""

from __future__ import annotations

import copy
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, dsyr, dsyrk

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Array,
    Floats,
    Piece,
    bar,
    in_turns,
    in_words,
    positive,
    print_table,
    seconds_of,
    speed_arguments,
    speed_parser,
    table_of,
)
from image_data import read_image_data

import onlinels
from onlinels import ShallowConvClassifier
from onlinels.export import answers_only, onnx

BATCH, TILE = 1000, 16
SIZES = [1000, 2000, 3200, 6400]
"""Default numbers of hidden units."""
SINGLE = 10
"""Images that are learnt or predicted one by one in one measurement."""

Calls = dict[str, tuple[Piece, int]]
"""Calls of BLAS by name, each with its number of images."""


def main() -> None:
    parser = speed_parser(__doc__, 3, PARTS)
    add = parser.add_argument
    add("--data", help=".npz file or folder of IDX files (random images)")
    add("--n-hidden", type=positive, nargs="+", default=SIZES, metavar="N", help=f"{SIZES}")
    arguments = speed_arguments(parser)
    if arguments.quick:
        arguments.n_hidden = [300]
    for name in arguments.only:
        PARTS[name](arguments)


# -- images ---------------------------------------------------------------------------------------


def images(arguments: Any) -> None:
    """Compare an image in batches and singly with the bare calls."""
    warm_up = 500 if arguments.quick else 4000
    random = np.random.default_rng(0)
    x: Array = random.integers(0, 256, (warm_up + BATCH, 28, 28), dtype=np.uint8)
    y: Array = np.arange(len(x)) % 10
    if arguments.data is not None:
        data = read_image_data(arguments.data)
        x, y = data.x_train, data.y_train
    for n_hidden in arguments.n_hidden:
        measure(x, y, n_hidden, warm_up, arguments.repeats)


def measure(x: Array, y: Array, n_hidden: int, warm_up: int, repeats: int) -> None:
    """Print the cost of an image, and that of the bare calls."""
    model = ShallowConvClassifier.from_preset("mnist", n_hidden=n_hidden, warm_up=warm_up)
    model.learn_many(x[:warm_up], y[:warm_up])
    x, y = x[warm_up:][:BATCH], y[warm_up:][:BATCH]
    predictor, both = copy.deepcopy(model), copy.deepcopy(model)
    single = [({"image": image}, int(label)) for image, label in zip(x[:SINGLE], y, strict=False)]
    gram, inverse = (np.zeros((n_hidden, n_hidden), order="F") for _ in range(2))
    row = np.full(n_hidden, 1e-3)
    many, one = (calls(n_hidden, warm_up, n, gram) for n in (BATCH, 1))
    learning, predicting = (("convolution", "pooling", "landmarks", x) for x in ("Gram", "scores"))

    def learn_singly() -> None:
        for sample, label in single:
            model.learn_one(sample, label)

    def pairs(model: ShallowConvClassifier) -> None:
        for sample, label in single:
            model.predict_one(sample)
            model.learn_one(sample, label)

    def bare_pairs() -> None:
        call(one, (*learning, *predicting), SINGLE)
        for _ in single:
            dsymv(1.0, inverse, row)
            dsyr(-1.0, row, a=inverse, overwrite_a=1)

    bare: list[tuple[Piece, int]] = [
        (partial(call, many, learning, BATCH), BATCH),
        (partial(call, one, learning, SINGLE), SINGLE),
        (partial(call, many, predicting, BATCH), BATCH),
        (partial(call, one, predicting, SINGLE), SINGLE),
        (bare_pairs, SINGLE),
    ]
    ours: dict[str, Piece] = {
        "learnt in batches of 1,000": partial(model.learn_many, x, y),
        "learnt singly": learn_singly,
        "predicted in batches of 1,000": partial(predictor.predict_many, x),
        "predicted singly": lambda: [predictor.predict_one(sample) for sample, _ in single],
        "predicted, then learnt, singly": partial(pairs, both),
    }
    # After a mini-batch, the first prediction computes the weights and starts the inverse.
    pairs(both)
    floors = {f"bare {name}": floor for name, (floor, _) in zip(ours, bare, strict=True)}
    seconds = in_turns(ours | floors, repeats)
    table = table_of("an image", "time", "bare calls", "ratio", title=f"{n_hidden} hidden units")
    for name, (_, n_images) in zip(ours, bare, strict=True):
        taken, floor = seconds[name], seconds[f"bare {name}"]
        cells = in_words(taken / n_images), in_words(floor / n_images), f"{taken / floor:.2f}"
        table.add_row(name, *cells)
    print_table(table)


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


def draw(*shape: int) -> Array:
    """Return random numbers between 0 and 1, float32."""
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def call(some: Mapping[str, tuple[Piece, int]], names: Iterable[str], n_images: int) -> None:
    """Make the named calls as often as `n_images` images need."""
    for piece, size in (some[name] for name in names):
        for _ in range(math.ceil(n_images / size)):
            piece()


# -- boards ---------------------------------------------------------------------------------------

SMALL = (24, 24, 3)
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("digits", {"image_shape": (8, 8)}),
    ("digits", {"image_shape": SMALL}),
    ("digits", {"image_shape": SMALL, "dtype": "float32"}),
    ("mnist", {"image_shape": (28, 28), "n_hidden": 2000, "warm_up": 500}),
    ("mnist", {"image_shape": (28, 28), "n_hidden": 2000}),
    *(
        (preset, {"image_shape": SMALL, **size})
        for preset in ("mnist", "svhn", "cifar10")
        for size in ({"n_hidden": 1000, "warm_up": 500}, {"n_hidden": 2000})
    ),
]


def boards(arguments: Any) -> None:
    """Print sizes in MB, and the times of loading and of one prediction."""
    if not find_spec("onnxruntime"):
        print("boards are left out: onnxruntime is not installed")
        return
    columns = ("full save", "predictor", "ONNX", "images", "load", "predict_one", "onnxruntime")
    table = table_of("preset", *columns, title="sizes in MB")
    for preset, settings in bar(NETWORKS[:2] if arguments.quick else NETWORKS, "Networks"):
        table.add_row(*of_board(preset, settings, arguments.repeats))
    print_table(table)


def of_board(preset: str, settings: dict[str, Any], repeats: int) -> list[str]:
    """Return the cells of a network."""
    import onnxruntime

    network = ShallowConvClassifier.from_preset(preset, **settings)
    random = np.random.default_rng(0)
    shape = network.warm_up, *settings["image_shape"]
    made = random.integers(0, 256, shape, dtype=np.uint8)
    network.learn_many(made, np.arange(len(made)) % 10)
    predictor = answers_only(network)
    saved = onlinels.dumps(predictor)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("plain.onnx", "images.onnx")]
        for path, store_images in zip(paths, (False, True), strict=True):
            onnx(network, path, store_images=store_images)
        sizes = [len(onlinels.dumps(network)), len(saved), *(each.stat().st_size for each in paths)]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(paths[0], options)
    pieces: dict[str, Piece] = {
        "ours": partial(predictor.predict_one, made[0]),
        "onnx": partial(session.run, None, {"X": made[:1]}),
    }
    loading, seconds = seconds_of(partial(onlinels.loads, saved)), in_turns(pieces, repeats)
    text = ", ".join(f"{name} {value}" for name, value in settings.items())
    times = (in_words(each) for each in (loading, *seconds.values()))
    return [f"{preset}, {text}", *(f"{size / 1e6:.2f}" for size in sizes), *times]


PARTS: dict[str, Callable[[Any], None]] = {"images": images, "boards": boards}

if __name__ == "__main__":
    main()
