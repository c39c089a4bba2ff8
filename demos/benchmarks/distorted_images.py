"""Learn images together with distorted copies of them, in one pass of mini-batches.

python demos/benchmarks/distorted_images.py --data mnist.npz --copies 9 --n-hidden 8000 --seeds 5
python demos/benchmarks/distorted_images.py --data mnist.npz --validate --rows 10000 --seeds 1
python demos/benchmarks/distorted_images.py --data fashion-mnist.npz --copies 1 --flip 0.5
    --rotation 0 --scale 0 --shear 0 --elastic-strength 0    (one line)

Undistorted images, the warm-up, fix filters and input weights. Then every mini-batch of images is
learnt, and after it its distorted copies, each drawn when it is learnt; nothing is kept. The data
is an .npz file with x_train, y_train, x_test and y_test, or a folder with the files of MNIST. Every
finished run is a line in a results file; an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from command_line import above_zero, not_negative, positive
from distorted_runs import NORMALIZE, DistortedRun, read_rows, run_here
from held_out import parts_key
from own_process import call_alone, until_interrupted
from results_file import ResultsFile
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from onlinels import Distortion

DISTORTION: dict[str, Any] = {
    "rotation": 8.0,
    "scale": 0.08,
    "shear": 0.1,
    "shift": 1.0,
    "elastic_strength": 0.4,
    "elastic_smoothness": 4.0,
    "flip": 0.0,
    "fill": "zero",
}

HELD_OUT = 10_000


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    return until_interrupted(lambda: measure_all(parser, arguments))


def measure_all(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Measure what is not in the results yet, and report; return the exit code."""
    runs = [make_run(arguments, seed) for seed in range(arguments.seeds)]
    try:
        Distortion(**runs[0].distortion)
        data = read_rows(runs[0])
        results = ResultsFile(arguments.results)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    console = Console()
    n_train = len(data.x_train)
    console.print(
        f"{os.cpu_count()} cores; {n_train} images and {arguments.copies} copies of each, "
        f"{len(data.x_test)} {'held-out' if arguments.validate else 'test'} images, "
        f"n_hidden={arguments.n_hidden}"
    )
    known = parts_key(arguments.data, data)
    del data
    for run in runs:
        if results.find(run.key(known)) is None:
            results.add(run.key(known), call_alone(run_here, run))
    measured = [found for run in runs if (found := results.find(run.key(known)))]
    errors = [result["error"] for result in measured]
    console.print(table(measured))
    console.print(f"error: mean {sum(errors) / len(errors):.3%}, best {min(errors):.3%}")
    return 0


def make_run(arguments: argparse.Namespace, seed: int) -> DistortedRun:
    """Return what defines the run with this seed."""
    return DistortedRun(
        path=str(arguments.data),
        n_hidden=arguments.n_hidden,
        warm_up=arguments.warm_up,
        seed=seed,
        ridge=arguments.ridge,
        copies=arguments.copies,
        rows=arguments.rows,
        held_out=arguments.validate,
        batch_size=arguments.batch_size,
        test_shifts=arguments.test_shifts,
        pooling=arguments.pooling,
        normalize=arguments.normalize,
        stride=arguments.stride,
        deskew=arguments.deskew,
        distortion={each.name: getattr(arguments, each.name) for each in fields(Distortion)},
    )


def table(results: list[dict[str, Any]]) -> Table:
    """Show the error, time and memory of every run."""
    shown = Table("", *(f"seed {seed}" for seed in range(len(results))), box=SIMPLE)
    shown.add_row("error", *(f"{result['error']:.3%}" for result in results))
    for stage in results[0]["seconds"]:
        shown.add_row(f"{stage}, s", *(f"{result['seconds'][stage]:.1f}" for result in results))
    shown.add_row("peak memory, GiB", *(f"{result['peak_memory']:.2f}" for result in results))
    return shown


HELP = {
    "rotation": "largest angle, degrees",
    "scale": "largest relative change of size",
    "shear": "largest slant, columns per row",
    "shift": "largest shift, pixels",
    "elastic_strength": "size of elastic displacements, pixels",
    "elastic_smoothness": "width of the gaussian that smooths them, pixels",
    "flip": "probability of a left-right mirror image",
    "fill": "what lies outside an image: zero or edge",
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help=".npz file or folder")
    add("--copies", type=not_negative, default=9, help="copies of each image (%(default)s)")
    add("--n-hidden", type=positive, default=8000, help="hidden units (%(default)s)")
    add("--seeds", type=positive, default=5, help="runs, with seeds 0, 1, ... (%(default)s)")
    add("--warm-up", type=positive, default=3000, help="images that fix features (%(default)s)")
    add(
        "--ridge",
        type=above_zero,
        default=2e-8,
        help="multiple of the activations' mean sum of squares about the mean (%(default)s)",
    )
    add("--batch-size", type=positive, default=1000, help="images at a time (%(default)s)")
    add("--rows", type=positive, help="training images, the first ones (all)")
    add(
        "--validate",
        type=positive,
        nargs="?",
        const=HELD_OUT,
        default=0,
        help=f"leave test images alone; hold out so many training images, the last ({HELD_OUT})",
    )
    add(
        "--test-shifts",
        type=not_negative,
        default=0,
        help="average scores over test images shifted four ways by so many pixels (0: do not)",
    )
    pooling = "window that averages positions (%(default)s)"
    add("--pooling", choices=("box", "gaussian"), default="gaussian", help=pooling)
    divided = "divide features by nothing, each map by its sum, or all by length (%(default)s)"
    add("--normalize", choices=tuple(NORMALIZE), default="image", help=divided)
    add("--stride", type=positive, default=2, help="distance of pooled positions (%(default)s)")
    add("--deskew", action="store_true", help="straighten slanted images, distorted ones too")
    for name, default in DISTORTION.items():
        text = f"{HELP[name]} (%(default)s)"
        add(f"--{name.replace('_', '-')}", type=type(default), default=default, help=text)
    add(
        "--results",
        type=Path,
        default=Path("distorted_images.jsonl"),
        help="results so far, a line per run (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
