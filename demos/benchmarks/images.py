"""Train the network on MNIST or Fashion-MNIST in one pass and report time, memory and test error.

python demos/benchmarks/images.py --data mnist.npz
python demos/benchmarks/images.py --data mnist.npz --set pooling=gaussian --seeds 3
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Stopwatch,
    bar,
    check_warm_up,
    machine,
    make_parser,
    not_negative,
    peak_memory,
    positive,
    read_images,
    row_slices,
    setting,
)
from image_data import ImageData

from onlinels import ShallowConvClassifier


def main() -> None:
    parser = parser_of_options()
    arguments = parser.parse_args()
    settings = {"n_hidden": arguments.n_hidden} | dict(arguments.set)
    try:
        data = read_images(arguments.data, arguments.validate)
        model = ShallowConvClassifier.from_preset(arguments.preset, **settings)
        check_warm_up(arguments.data, len(data.x_train), model.warm_up)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    print(f"{machine()}; {len(data.x_train)} images, {shown}")
    errors = [run(data, settings | {"seed": seed}, arguments) for seed in range(arguments.seeds)]
    if len(errors) > 1:
        print(f"test error: mean {100 * np.mean(errors):.2f}%, best {100 * min(errors):.2f}%")


def run(data: ImageData, settings: dict[str, Any], arguments: argparse.Namespace) -> float:
    """Learn all training images in one pass of mini-batches; return the test error."""
    model, watch = ShallowConvClassifier.from_preset(arguments.preset, **settings), Stopwatch()
    for batch in bar(row_slices(len(data.x_train), arguments.batch_size), "Learning"):
        with watch.stage("learning"):
            model.learn_many(data.x_train[batch], data.y_train[batch])
    with watch.stage("solving"):
        _ = model.output_weights
    with watch.stage("testing"):
        error = float(np.mean(model.predict_many(data.x_test) != data.y_test))
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in watch.rounded().items())
    print(
        f"seed {settings['seed']}: {seconds}; peak memory {peak_memory():.2f} GiB so far; "
        f"test error {100 * error:.2f}%",
        flush=True,
    )
    return error


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help=".npz file or folder of IDX files")
    add("--preset", choices=["mnist", "mnist-paper"], default="mnist", help="(%(default)s)")
    add("--n-hidden", type=positive, default=6400, help="hidden units (%(default)s)")
    other = "another setting of the network, such as pooling=gaussian; may be repeated"
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help=other)
    held_out = "training images, the last ones, to hold out and test on instead (%(default)s)"
    add("--validate", type=not_negative, default=0, help=held_out)
    add("--batch-size", type=positive, default=1000, help="images at a time (%(default)s)")
    add("--seeds", type=positive, default=1, help="repeat with seeds 0, 1, ... (%(default)s)")
    return parser


if __name__ == "__main__":
    main()
