"""Measure the hidden layer: differences of landmark examples against the full product.

python demos/benchmarks/speed/hidden.py
python demos/benchmarks/speed/hidden.py --quick

The layer has 12,000 hidden units on 13,500 features in float32, such as 135 filters pooled to
10 x 10. It stores the examples (landmarks) whose differences are its input weights; the full
product multiplies by the differences themselves.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import Array, Piece, compare, speed_arguments, speed_parser

from onlinels import HiddenLayer

N_FEATURES = 13_500
N_HIDDEN = 12_000
LANDMARKS = (500, 1000, 2000, 4000)
N_CLASSES = 10


def main() -> None:
    arguments = speed_arguments(speed_parser(__doc__, repeats=7))
    n_features, n_hidden, n_rows = N_FEATURES, N_HIDDEN, 1000
    landmarks: tuple[int, ...] = LANDMARKS
    if arguments.quick:
        n_features, n_hidden, n_rows, landmarks = 600, 500, 200, (50, 100)
    random = np.random.default_rng(0)
    rows = random.random((n_rows, n_features), dtype=np.float32)
    full = random.standard_normal((n_features, n_hidden), dtype=np.float32)
    offsets = random.standard_normal(n_hidden, dtype=np.float32)
    pieces: dict[str, Piece] = {"full product": partial(full_product, rows, full, offsets)}
    for n_examples in landmarks:
        layer = make_layer(n_features, n_hidden, n_examples, random)
        pieces[f"{n_examples} landmarks"] = partial(layer.transform_many, rows)
    title = f"{n_hidden} units, {n_features} features, {n_rows} rows at a time"
    compare(title, pieces, arguments.repeats, n_rows, "full product")


def make_layer(n_features: int, n_hidden: int, n_examples: int, random: Any) -> HiddenLayer:
    examples = random.random((n_examples, n_features), dtype=np.float32)
    labels = (np.arange(n_examples) % N_CLASSES).tolist()
    settings: dict[str, Any] = {
        "n_hidden": n_hidden,
        "input_weights": "centred-difference",
        "activation": "square",
        "dtype": "float32",
        "bias": False,
        "standardize": False,
    }
    return HiddenLayer.from_examples(examples, labels, **settings)


def full_product(rows: Array, input_weights: Array, offsets: Array) -> Array:
    projections: Array = rows @ input_weights
    projections -= offsets
    return np.square(projections, out=projections)


if __name__ == "__main__":
    main()
