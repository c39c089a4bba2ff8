"""Train the network on MNIST or Fashion-MNIST in one pass and report time, memory and test error.

python demos/benchmarks/images.py --data mnist.npz
python demos/benchmarks/images.py --data mnist.npz --pooling gaussian --normalize image --seeds 3
"""

from __future__ import annotations

import argparse
import os
import resource
import time

import numpy as np
from rich.progress import track

from onlinels import ShallowConvClassifier
from onlinels.datasets import ImageData, read_image_data


def main() -> None:
    arguments = parse_arguments()
    data = read_image_data(arguments.data)
    print(f"{os.cpu_count()} cores; {len(data.x_train)} images, n_hidden={arguments.n_hidden}")
    errors = [run(data, arguments, seed) for seed in range(arguments.seeds)]
    if len(errors) > 1:
        print(f"test error: mean {100 * np.mean(errors):.2f}%, best {100 * min(errors):.2f}%")


def run(data: ImageData, arguments: argparse.Namespace, seed: int) -> float:
    """Learn all training images in one pass of mini-batches; return the test error."""
    model = ShallowConvClassifier.from_preset("mnist", n_hidden=arguments.n_hidden, seed=seed)
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


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help=".npz file or folder of IDX files")
    parser.add_argument("--n-hidden", type=int, default=6400)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1, help="repeat with seeds 0, 1, ...")
    parser.add_argument("--no-progress", dest="progress", action="store_false")
    return parser.parse_args()


if __name__ == "__main__":
    main()
