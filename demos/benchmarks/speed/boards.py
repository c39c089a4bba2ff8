"""Measure the files of image networks, and one prediction, for small boards.

OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/boards.py
OPENBLAS_NUM_THREADS=1 python demos/benchmarks/speed/boards.py --quick

Images are random bytes: neither sizes nor times depend on their content. A prediction is
`predict_one` of the predictor, and one image in onnxruntime on one thread. The floor is the matrix
products of a prediction alone: filters, pooling, input weights and output weights, in the precision
of the model. "images" is the ONNX file with `store_images=True`.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import (
    Array,
    Piece,
    bar,
    in_turns,
    print_table,
    seconds_of,
    speed_arguments,
    speed_parser,
    table_of,
)

import onlinels
from onlinels import ShallowConvClassifier
from onlinels.export import answers_only, onnx

SMALL = (24, 24, 3)
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("digits", {"image_shape": (8, 8)}),
    ("digits", {"image_shape": SMALL}),
    ("digits", {"image_shape": SMALL, "dtype": "float32"}),
    ("mnist", {"image_shape": (28, 28), "n_hidden": 2000, "warm_up": 500}),
    ("mnist", {"image_shape": (28, 28), "n_hidden": 2000}),
    ("mnist", {"image_shape": SMALL, "n_hidden": 1000, "warm_up": 500}),
    ("mnist", {"image_shape": SMALL, "n_hidden": 2000}),
    ("svhn", {"image_shape": SMALL, "n_hidden": 1000, "warm_up": 500}),
    ("svhn", {"image_shape": SMALL, "n_hidden": 2000}),
    ("cifar10", {"image_shape": SMALL, "n_hidden": 1000, "warm_up": 500}),
    ("cifar10", {"image_shape": SMALL, "n_hidden": 2000}),
]
N_CLASSES = 10


def main() -> None:
    arguments = speed_arguments(speed_parser(__doc__, repeats=15))
    networks = NETWORKS[:2] if arguments.quick else NETWORKS
    columns = ("full save", "predictor", "ONNX", "images", "load, s", "predict_one, ms")
    table = table_of("preset", *columns, "times floor", "onnxruntime, ms", title="sizes in MB")
    for preset, settings in bar(networks, "Networks"):
        table.add_row(*measured(preset, settings, arguments.repeats))
    print_table(table)


def measured(preset: str, settings: dict[str, Any], repeats: int) -> list[str]:
    """Return the cells of a network."""
    network = ShallowConvClassifier.from_preset(preset, **settings)
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (network.warm_up, *settings["image_shape"]), dtype=np.uint8)
    network.learn_many(images, np.arange(len(images)) % N_CLASSES)
    _ = network.output_weights
    predictor, image = answers_only(network), images[0]
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
        "floor": products_of(predictor, network.transform_many(images[:1]), image),
        "one": partial(predictor.predict_one, image),
        "onnx": partial(session.run, None, {"X": image[None]}),
    }
    loading, seconds = seconds_of(partial(onlinels.loads, saved)), in_turns(pieces, repeats)
    text = ", ".join(f"{name} {value}" for name, value in settings.items())
    cells = [f"{preset}, {text}", *(f"{size / 1e6:.2f}" for size in sizes), f"{loading:.2f}"]
    one = f"{1e3 * seconds['one']:.1f}", f"{seconds['one'] / seconds['floor']:.2f}"
    return [*cells, *one, f"{1e3 * seconds['onnx']:.1f}"]


def products_of(predictor: Any, activations: Array, image: Array) -> Piece:
    """Return a function that computes the matrix products of one prediction."""
    features, hidden = predictor["features"], predictor["hidden"]
    made = hidden.input_weights
    row = features.transform_many(predictor["preprocessing"].transform_many(image[None]))
    (side, *_), size = image.shape, features.bank.shape[1]
    pooling = features._pooling_matrix(side, size, row.dtype.type)
    pooled, convolved = pooling.shape
    n_maps = row.size // pooled**2
    patches = np.ones((size**2, convolved**2), row.dtype)
    filters, responses = np.ones((n_maps, size**2), row.dtype), np.ones((n_maps, convolved**2))
    responses = responses.astype(row.dtype).reshape(n_maps, convolved, convolved)
    matrix = made.landmarks.T if hasattr(made, "landmarks") else made.weights
    # As vectors, whose products with a matrix are faster than those of a matrix of one row.
    vector, units = row[0].astype(matrix.dtype), activations[0].astype(np.float64)
    weights = np.ones((len(units), N_CLASSES))

    def products() -> None:
        _ = filters @ patches, pooling @ responses @ pooling.T, vector @ matrix, units @ weights

    return products


if __name__ == "__main__":
    main()
