"""Learn Fashion-MNIST or MNIST in one pass with patches as filters, and report the test error.

python demos/benchmarks/patch_images.py --data fashion-mnist/
python demos/benchmarks/patch_images.py --data fashion-mnist/ --validate 10000

Whitened patches of the first images are the filters: some brought to the same contrast, others
as they are; no hidden layer follows. Beside them stand the hidden units of the paper's network,
with windows of its own, and one linear layer learns both. Features of an image and of its mirror
image are added, which is as good as learning mirrored copies too. See cifar10.py for photographs.
Every finished run is a line in a results file; an interrupted command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from command_line import above_zero, not_negative, positive
from held_out import parts_key, read_parts
from labelled_images import LabelledImages
from own_process import call_alone, peak_memory, until_interrupted
from patch_network import Settings
from photograph_run import PhotographRun, learn, predict
from results_file import Key, ResultsFile
from rich.console import Console
from shifts import check_shifts
from stopwatch import Stopwatch

SETTINGS = Settings(
    contrast_filters=150, colour_filters=150, pool_size=9, stride=6, padding=2, variance_offset=0.1
)
"""Four by four windows that overlap, on images of 28 x 28 pixels."""


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    return until_interrupted(lambda: measure_all(parser, arguments))


def measure_all(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Measure what is not in the results yet, and report; return the exit code."""
    try:
        data = check(arguments)
        results = ResultsFile(arguments.results)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    console = Console()
    tested = "held-out" if arguments.validate else "test"
    n_train, n_test = data["images"]
    console.print(f"{os.cpu_count()} cores; {n_train} images, {n_test} {tested} images")
    errors = []
    for seed in range(arguments.seeds):
        settings = make_settings(arguments, seed)
        key = make_key(settings, arguments, data)
        found = results.find(key)
        if found is None:
            found = call_alone(run_here, settings, arguments)
            results.add(key, found)
        errors.append(found["error"])
        console.print(f"seed {seed}: {found}")
    console.print(f"error: mean {np.mean(errors):.2%}, best {min(errors):.2%}")
    return 0


def check(arguments: argparse.Namespace) -> Key:
    """Return what the results file knows the data by.

    Raises
    ------
    OSError, TypeError, ValueError
        If the shifts are too large, or the data cannot be read or do not fit.
    """
    data = read_parts(arguments.data, arguments.validate, arguments.rows)
    n_train, shape = len(data.x_train), data.x_train.shape[1:]
    make_settings(arguments, 0).n_features(shape)
    check_shifts(arguments.test_shifts, shape)
    if n_train < arguments.warm_up:
        raise ValueError(
            f"{arguments.data} leaves {n_train} training rows, expected at least "
            f"{arguments.warm_up} for the warm-up. Pass more rows, or --warm-up {n_train}."
        )
    return parts_key(arguments.data, data)


def make_settings(arguments: argparse.Namespace, seed: int) -> Settings:
    """Return the settings of the features."""
    n_filters = arguments.filters
    return replace(SETTINGS, contrast_filters=n_filters, colour_filters=n_filters, seed=seed)


def make_key(settings: Settings, arguments: argparse.Namespace, data: Key) -> Key:
    """Return what the results file knows the run by."""
    names = ("validate", "ridge", "warm_up", "test_shifts", "n_hidden")
    given = {name: getattr(arguments, name) for name in names}
    return settings.as_json() | given | dict(data)


def run_here(settings: Settings, arguments: argparse.Namespace) -> dict[str, float]:
    """Learn and test; return the error, peak memory in GiB and seconds by stage."""
    data = read_parts(arguments.data, arguments.validate, arguments.rows)
    run = PhotographRun(
        settings,
        arguments.warm_up,
        arguments.ridge,
        arguments.batch_size,
        arguments.test_shifts,
        arguments.progress,
        arguments.n_hidden,
    )
    watch = Stopwatch()
    features, model = learn(run, LabelledImages(data.x_train, data.y_train), watch)
    answers = predict(run, features, model, data.x_test, watch)
    error = float(np.mean(answers != data.y_test))
    return {"error": error, "peak_memory_gib": round(peak_memory(), 2)} | watch.rounded()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, default = parser.add_argument, " (%(default)s)"
    add("--data", type=Path, required=True, help=".npz file or folder of IDX files")
    add("--filters", type=positive, default=150, help="filters of each of the two kinds" + default)
    hidden = "hidden units of the paper's network beside them, 0 for none" + default
    add("--n-hidden", type=not_negative, default=6400, help=hidden)
    add("--ridge", type=above_zero, default=0.005, help="ridge for each training row" + default)
    add("--rows", type=positive, help="training rows, the first ones (all)")
    held_out = "training rows, the last, to hold out and test on instead"
    add("--validate", type=not_negative, default=0, help=held_out)
    add("--seeds", type=positive, default=1, help="repeat with seeds 0, 1, ..." + default)
    add("--warm-up", type=positive, default=5000, help="rows that fix the features" + default)
    add("--batch-size", type=positive, default=500, help="rows at a time" + default)
    shifts = "sum scores over test images shifted four ways by so many pixels (0: do not)"
    add("--test-shifts", type=not_negative, default=0, help=shifts)
    results = Path("patch_images.jsonl")
    add("--results", type=Path, default=results, help="a line per finished run" + default)
    add("--no-progress", dest="progress", action="store_false")
    return parser


if __name__ == "__main__":
    sys.exit(main())
