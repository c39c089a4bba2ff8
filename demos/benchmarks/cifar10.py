"""Learn CIFAR-10, or any photographs of 32 x 32 pixels, in one pass and report the test error.

python demos/benchmarks/cifar10.py --train train.npz --test test.npz --result result.json
python demos/benchmarks/cifar10.py --train train.npz --test test.npz --quick

The files hold arrays x (n, 32, 32, 3), uint8 RGB, and y (n,), whole numbers or text: any number of
rows from the warm-up on, any labels. Rows come in random order, as files may be sorted by class.
The first of them, the warm-up, fix the features: filters are whitened patches of them, and every
feature is divided by its standard deviation among them. Then every row is learnt, once, in
mini-batches, and none is kept. With --n-hidden, hidden units of the paper's network are learnt
beside the patches' features. Labels of test rows are looked at only to count errors.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from command_line import above_zero, not_negative, positive
from labelled_images import IMAGE_SHAPE, LabelledImages, read_labelled_images
from numpy.typing import NDArray
from own_process import peak_memory
from patch_network import Settings
from photograph_run import PhotographRun, learn, predict
from rich.console import Console
from shifts import check_shifts
from stopwatch import Stopwatch

Array = NDArray[Any]

WARM_UP = 5000
QUICK = {"contrast_filters": 70, "colour_filters": 30, "n_sample": 20_000}
QUICK_WARM_UP = 500
QUICK_ROWS = 3000
"""With --quick: few filters, and that many rows at most of each file."""


def main(argv: list[str] | None = None) -> None:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    console = Console()
    try:
        run, train, test = prepare(arguments)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    watch = Stopwatch()
    features, model = learn(run, train, watch)
    predictions = predict(run, features, model, test.x, watch)
    result = summary(run, train, test, predictions, watch)
    if arguments.predictions is not None:
        with arguments.predictions.open("wb") as file:
            np.save(file, predictions)
    if arguments.result is not None:
        arguments.result.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    console.print_json(data=result)
    console.print(f"Test error: {result['error']:.2%}")


def prepare(arguments: argparse.Namespace) -> tuple[PhotographRun, LabelledImages, LabelledImages]:
    """Read and check everything before anything takes long."""
    for path in (arguments.result, arguments.predictions):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{path.parent} is no folder, expected one to write {path.name} to.")
    run = make_run(arguments)
    train, test = (read_labelled_images(path) for path in (arguments.train, arguments.test))
    if label_kind(train.y) != label_kind(test.y):
        raise ValueError(
            f"Labels are {train.y.dtype} in {arguments.train} and {test.y.dtype} in "
            f"{arguments.test}, expected one kind. Convert one of them."
        )
    rows = slice(QUICK_ROWS if arguments.quick else None)
    order = np.random.default_rng(run.settings.seed).permutation(len(train))[rows]
    if len(order) < run.warm_up:
        raise ValueError(
            f"{arguments.train} holds {len(train)} rows, expected at least {run.warm_up} for the "
            f"warm-up. Pass more rows, or --warm-up {len(order)}."
        )
    in_order = LabelledImages(train.x[order], train.y[order])
    first = np.unique(in_order.y[: run.warm_up])
    if run.n_hidden and len(first) < 2:
        raise ValueError(
            f"The warm-up holds only the label {first[0]}, expected two at least for hidden units. "
            "Pass --n-hidden 0."
        )
    return run, in_order, LabelledImages(test.x[rows], test.y[rows])


def label_kind(labels: Array) -> str:
    """Return what labels can be equal to: numbers ("i"), text ("U") or bytes ("S")."""
    kind = labels.dtype.kind
    return kind if kind in "US" else "i"


def make_run(arguments: argparse.Namespace) -> PhotographRun:
    """Return checked settings: those of the command line, others by default."""
    given = {f.name: getattr(arguments, f.name) for f in fields(Settings)}
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = replace(Settings(**QUICK if arguments.quick else {}), **chosen)
    settings.n_features(IMAGE_SHAPE)
    check_shifts(arguments.test_shifts, IMAGE_SHAPE)
    return PhotographRun(
        settings,
        arguments.warm_up or (QUICK_WARM_UP if arguments.quick else WARM_UP),
        arguments.ridge,
        arguments.batch_size,
        arguments.test_shifts,
        arguments.progress,
        arguments.n_hidden,
    )


def summary(
    run: PhotographRun,
    train: LabelledImages,
    test: LabelledImages,
    predictions: Array,
    watch: Stopwatch,
) -> dict[str, Any]:
    """Return what the result file holds."""
    names = ("warm_up", "ridge", "batch_size", "test_shifts", "n_hidden")
    settings = run.settings.as_json() | {name: getattr(run, name) for name in names}
    return {
        "error": float(np.mean(predictions != test.y)),
        "n_train": len(train),
        "n_test": len(test),
        "n_classes": len(np.unique(train.y)),
        "seconds": watch.rounded(),
        "peak_memory_gib": round(peak_memory(), 2),
        "cores": os.cpu_count(),
        "settings": settings,
    }


HELP = {
    "contrast_filters": "filters that see contrast",
    "colour_filters": "filters that see brightness and colour as well",
    "patch_size": "side of the patches that become filters, in pixels",
    "threshold": "of the two-sided rectifier",
    "pool_size": "side of the pooling windows",
    "stride": "distance of the pooling windows",
    "padding": "black pixels around the image",
    "contrast_offset": "added to the variance of patches, in squared bytes",
    "variance_offset": "added to every direction's variance in whitening",
    "n_sample": "patches to estimate the whitening from",
    "seed": "of the order of the rows and of the patches",
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, required=True, help=".npz file of rows to learn")
    parser.add_argument("--test", type=Path, required=True, help=".npz file of rows to test on")
    parser.add_argument("--result", type=Path, help="JSON file to write the error and figures to")
    parser.add_argument("--predictions", type=Path, help=".npy file to write the labels to")
    for name, default in Settings().as_json().items():
        text = f"{HELP[name]} ({default})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), help=text)
    hidden = "hidden units of the paper's network beside the patches (%(default)s)"
    parser.add_argument("--n-hidden", type=not_negative, default=0, help=hidden)
    parser.add_argument("--warm-up", type=positive, help=f"rows that fix the features ({WARM_UP})")
    parser.add_argument(
        "--ridge", type=above_zero, default=0.02, help="ridge for each training row (%(default)s)"
    )
    parser.add_argument(
        "--batch-size", type=positive, default=500, help="rows at a time (%(default)s)"
    )
    parser.add_argument(
        "--test-shifts",
        type=not_negative,
        default=0,
        help="sum scores over test images shifted four ways by so many pixels (0: do not)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"100 filters, warm-up of {QUICK_WARM_UP}, at most {QUICK_ROWS} rows of each file",
    )
    parser.add_argument("--no-progress", dest="progress", action="store_false")
    return parser


if __name__ == "__main__":
    main()
