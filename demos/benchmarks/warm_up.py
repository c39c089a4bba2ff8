"""Measure how well a network classifies during its warm-up, beside a classifier of pixels.

python demos/benchmarks/warm_up.py
python demos/benchmarks/warm_up.py --data mnist.npz --preset mnist
python demos/benchmarks/warm_up.py --data cifar10.npz --preset cifar10 --validate 1000 [--crop 24]

Without --data, the network learns scikit-learn's 8x8 digits. Before 100 images, or 400 if images
are whitened, a least-squares classifier of pixels predicts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import (
    Array,
    bar,
    digits_images,
    machine,
    make_parser,
    not_negative,
    positive,
    print_table,
    read_images,
    table_of,
)

from onlinels import LeastSquaresClassifier, ShallowConvClassifier
from onlinels.network import PIXEL_RIDGE, PRESETS, unit_pixels

IMAGES = [50, 100, 300, 1000, 3000]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="images to learn and to test, as an .npz file")
    parser.add_argument("--preset", default="digits", choices=PRESETS)
    parser.add_argument("--images", type=positive, nargs="+", default=IMAGES, help="their counts")
    parser.add_argument("--test", type=positive, default=1000, help="most images to test")
    parser.add_argument("--validate", type=not_negative, default=0, help="hold out training images")
    parser.add_argument("--crop", type=not_negative, default=0, help="side of the middle to learn")
    arguments = parser.parse_args()
    path, n_held_out = arguments.data, arguments.validate
    data = read_images(path, n_held_out) if path else digits_images()
    order = np.random.default_rng(0).permutation(len(data.x_train))
    images, labels = middle(data.x_train, arguments.crop)[order], data.y_train[order].ravel()
    test = middle(data.x_test, arguments.crop)[: arguments.test]
    answers = data.y_test[: arguments.test].ravel()
    network = ShallowConvClassifier.from_preset(arguments.preset, warm_up=len(images) + 1)
    pixels = LeastSquaresClassifier(PIXEL_RIDGE, priors=network.priors)
    table = table_of("images", "classifier of pixels", "network", title="Accuracy")
    learnt = 0
    print(f"{arguments.preset}; {machine()}")
    for count in bar([n for n in arguments.images if n <= len(images)], "Images"):
        part = slice(learnt, count)
        network.learn_many(images[part], labels[part])
        pixels.learn_many(unit_pixels(in_four(images[part])), labels[part])
        learnt = count
        found = pixels.predict_many(unit_pixels(in_four(test))), network.predict_many(test)
        table.add_row(f"{count:,}", *(f"{np.mean(each == answers):.1%}" for each in found))
    print_table(table)


def middle(images: Array, side: int) -> Array:
    """Return the middle of images; all of them if the side is 0."""
    if not side:
        return images
    top, left = ((size - side) // 2 for size in images.shape[1:3])
    return images[:, top : top + side, left : left + side]


def in_four(images: Array) -> Array:
    """Return images (n, height, width, n_channels)."""
    return images.reshape(*images.shape[:3], -1)


if __name__ == "__main__":
    main()
