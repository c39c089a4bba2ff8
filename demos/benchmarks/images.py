"""Train the network on MNIST or Fashion-MNIST in one pass and report time, memory and test error.

python demos/benchmarks/images.py --data mnist.npz
python demos/benchmarks/images.py --data mnist.npz --pooling gaussian --deskew --seeds 3
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from typing import Any

import numpy as np
from command_line import positive
from rich.progress import track

from onlinels import ShallowConvClassifier
from onlinels.datasets import ImageData, read_image_data

NORMALIZE: dict[str, Any] = {"none": False, "map": "map", "image": "image"}


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        data = read_image_data(arguments.data)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    settings = ", ".join(f"{name}={value}" for name, value in overrides(arguments).items())
    print(f"{os.cpu_count()} cores; {len(data.x_train)} images, {settings}")
    errors = [run(data, arguments, seed) for seed in range(arguments.seeds)]
    if len(errors) > 1:
        print(f"test error: mean {100 * np.mean(errors):.2f}%, best {100 * min(errors):.2f}%")


def overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that are not the preset's."""
    given: dict[str, Any] = {"n_hidden": arguments.n_hidden}
    if arguments.deskew:
        given["deskew"] = True
    if arguments.stride is not None:
        given["stride"] = arguments.stride
    if arguments.pooling is not None:
        given["pooling"] = arguments.pooling
    if arguments.normalize is not None:
        given["normalize"] = NORMALIZE[arguments.normalize]
    return given


def run(data: ImageData, arguments: argparse.Namespace, seed: int) -> float:
    """Learn all training images in one pass of mini-batches; return the test error."""
    model = ShallowConvClassifier.from_preset("mnist", **overrides(arguments), seed=seed)
    started = time.perf_counter()
    starts = range(0, len(data.x_train), arguments.batch_size)
    for start in track(starts, description="Learning", disable=not arguments.progress):
        batch = slice(start, start + arguments.batch_size)
        model.learn_many(data.x_train[batch], data.y_train[batch])
    learnt = time.perf_counter()
    _ = model.output_weights
    solved = time.perf_counter()
    error = float(np.mean(model.predict_many(data.x_test) != data.y_test))
    tested = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"seed {seed}: learning {learnt - started:.1f} s, solving {solved - learnt:.1f} s, "
        f"testing {tested - solved:.1f} s, all {tested - started:.1f} s; "
        f"peak memory {peak:.2f} GiB; test error {100 * error:.2f}%"
    )
    return error


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", required=True, help=".npz file or folder of IDX files")
    add("--n-hidden", type=positive, default=6400, help="hidden units (%(default)s)")
    pooling = "window that averages positions (the preset's, box)"
    add("--pooling", choices=("box", "gaussian"), help=pooling)
    divided = (
        "divide features by nothing, each map by its sum, or all by length (the preset's, image)"
    )
    add("--normalize", choices=tuple(NORMALIZE), help=divided)
    add("--stride", type=positive, help="distance of pooled positions (the preset's, 2)")
    add("--deskew", action="store_true", help="straighten slanted images first")
    add("--batch-size", type=positive, default=1000, help="images at a time (%(default)s)")
    add("--seeds", type=positive, default=1, help="repeat with seeds 0, 1, ... (%(default)s)")
    add("--no-progress", dest="progress", action="store_false")
    return parser


if __name__ == "__main__":
    main()
