"""Train the network on MNIST or Fashion-MNIST in one pass and report time, memory and test error.

python demos/benchmarks/images.py --data mnist.npz
python demos/benchmarks/images.py --data mnist.npz --set pooling=gaussian --seeds 3
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from command_line import not_negative, positive, setting
from held_out import read_parts
from own_process import peak_memory
from rich.progress import track
from slices import row_slices

from onlinels import ShallowConvClassifier
from onlinels.datasets import ImageData


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        data = read_parts(arguments.data, arguments.validate)
        settings = {"n_hidden": arguments.n_hidden} | dict(arguments.set)
        check(data, settings, arguments.data)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    print(f"{os.cpu_count()} cores; {len(data.x_train)} images, {shown}")
    errors = [run(data, settings | {"seed": seed}, arguments) for seed in range(arguments.seeds)]
    if len(errors) > 1:
        print(f"test error: mean {100 * np.mean(errors):.2f}%, best {100 * min(errors):.2f}%")


def check(data: ImageData, settings: dict[str, Any], path: Path) -> None:
    """Check that there is such a network, for such images, and that its warm-up will end.

    Until it has ended, the network answers by a classifier of pixels.

    Raises
    ------
    TypeError, ValueError
        If a setting or the images are none of this network's, or the images are too few.
    """
    model = ShallowConvClassifier.from_preset("mnist", **settings)
    n_train = len(data.x_train)
    if n_train < model.warm_up:
        raise ValueError(
            f"{path} leaves {n_train} training rows, expected at least {model.warm_up} for the "
            f"warm-up. Hold out fewer, or pass --set warm_up={n_train}."
        )
    model.learn_many(data.x_train[:1], data.y_train[:1])


def run(data: ImageData, settings: dict[str, Any], arguments: argparse.Namespace) -> float:
    """Learn all training images in one pass of mini-batches; return the test error."""
    model = ShallowConvClassifier.from_preset("mnist", **settings)
    started = time.perf_counter()
    batches = row_slices(len(data.x_train), arguments.batch_size)
    for batch in track(batches, description="Learning", disable=not arguments.progress):
        model.learn_many(data.x_train[batch], data.y_train[batch])
    learnt = time.perf_counter()
    _ = model.output_weights
    solved = time.perf_counter()
    error = float(np.mean(model.predict_many(data.x_test) != data.y_test))
    tested = time.perf_counter()
    peak = peak_memory()
    print(
        f"seed {settings['seed']}: learning {learnt - started:.1f} s, "
        f"solving {solved - learnt:.1f} s, testing {tested - solved:.1f} s, "
        f"all {tested - started:.1f} s; peak memory {peak:.2f} GiB so far; "
        f"test error {100 * error:.2f}%",
        flush=True,
    )
    return error


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help=".npz file or folder of IDX files")
    add("--n-hidden", type=positive, default=6400, help="hidden units (%(default)s)")
    other = "another setting of the network, as pooling=gaussian; may be repeated"
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help=other)
    held_out = "training images, the last, to hold out and test on instead (%(default)s)"
    add("--validate", type=not_negative, default=0, help=held_out)
    add("--batch-size", type=positive, default=1000, help="images at a time (%(default)s)")
    add("--seeds", type=positive, default=1, help="repeat with seeds 0, 1, ... (%(default)s)")
    add("--no-progress", dest="progress", action="store_false")
    return parser


if __name__ == "__main__":
    main()
