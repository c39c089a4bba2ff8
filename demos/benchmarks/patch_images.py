"""Learn Fashion-MNIST or MNIST in one pass with patches as filters, and report the test error.

python demos/benchmarks/patch_images.py --data fashion-mnist/
python demos/benchmarks/patch_images.py --data fashion-mnist/ --validate 10000

Whitened patches of the first images are the filters: some brought to the same contrast, others
as they are. Features of an image and of its mirror image are added, which is as good as
learning mirrored copies too; no hidden layer follows. See cifar10.py for the same on photographs.
"""

from __future__ import annotations

import argparse
import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
from labelled_images import LabelledImages
from patch_network import Settings
from photograph_run import Run, learn, predict
from results_file import ResultsFile
from rich.console import Console
from stopwatch import Stopwatch
from threads import Threads

from onlinels.datasets import read_image_data

SETTINGS = Settings(
    contrast_filters=400, colour_filters=400, pool_size=9, stride=6, padding=2, variance_offset=0.1
)
"""Four by four windows that overlap, on images of 28 x 28 pixels."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    console = Console()
    results = ResultsFile(arguments.results)
    try:
        train, test = read_parts(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    errors = []
    for seed in range(arguments.seeds):
        settings = replace(
            SETTINGS,
            contrast_filters=arguments.filters,
            colour_filters=arguments.filters,
            seed=seed,
        )
        key = settings.as_json() | {
            "data": str(arguments.data),
            "rows": len(train),
            "validate": arguments.validate,
            "ridge": arguments.ridge,
            "test_shifts": arguments.test_shifts,
        }
        found = results.find(key)
        if found is None:
            found = run_once(settings, arguments, train, test)
            results.add(key, found)
        errors.append(found["error"])
        console.print(f"seed {seed}: {found}")
    console.print(
        f"{os.cpu_count()} cores; error: mean {np.mean(errors):.2%}, best {min(errors):.2%}"
    )


def read_parts(arguments: argparse.Namespace) -> tuple[LabelledImages, LabelledImages]:
    """Return the rows to learn and those to answer for."""
    data = read_image_data(arguments.data)
    if arguments.validate not in range(len(data.x_train)):
        raise ValueError(
            f"--validate is {arguments.validate}, expected less than the {len(data.x_train)} rows."
        )
    if not arguments.validate:
        train = LabelledImages(data.x_train[: arguments.rows], data.y_train[: arguments.rows])
        return train, LabelledImages(data.x_test, data.y_test)
    split = len(data.x_train) - arguments.validate
    rows = slice(min(split, arguments.rows or split))
    return (
        LabelledImages(data.x_train[rows], data.y_train[rows]),
        LabelledImages(data.x_train[split:], data.y_train[split:]),
    )


def run_once(
    settings: Settings,
    arguments: argparse.Namespace,
    train: LabelledImages,
    test: LabelledImages,
) -> dict[str, float]:
    run = Run(
        settings,
        min(arguments.warm_up, len(train)),
        arguments.ridge,
        arguments.batch_size,
        arguments.test_shifts,
        Threads(arguments.threads),
        arguments.progress,
    )
    watch = Stopwatch()
    features, model = learn(run, train, watch)
    answers = predict(run, features, model, test.x, watch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    error = float(np.mean(answers != test.y))
    return {"error": error, "peak_memory_gib": round(peak, 2)} | watch.rounded()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help=".npz file or folder of IDX files")
    add("--filters", type=int, default=400, help="filters of each of the two kinds (%(default)s)")
    add("--ridge", type=float, default=0.01, help="ridge for each training row (%(default)s)")
    add("--rows", type=int, help="training rows (all)")
    add("--validate", type=int, default=0, help="training rows to hold out and test on instead")
    add("--seeds", type=int, default=1, help="repeat with seeds 0, 1, ...")
    add("--warm-up", type=int, default=5000, help="rows that fix the features (%(default)s)")
    add("--batch-size", type=int, default=500, help="rows at a time (%(default)s)")
    add("--test-shifts", type=int, default=0, help="average over views shifted by so many pixels")
    add("--threads", type=int, default=os.cpu_count() or 1, help="threads for the features")
    add("--results", type=Path, default=Path("patch_images.jsonl"), help="a line per finished run")
    add("--no-progress", dest="progress", action="store_false")
    return parser


if __name__ == "__main__":
    main()
