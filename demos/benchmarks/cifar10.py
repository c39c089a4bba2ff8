"""Learn CIFAR-10, or any photographs of 32 x 32 pixels, in one pass and report the test error.

python demos/benchmarks/cifar10.py --train train.npz --test test.npz --result result.json
python demos/benchmarks/cifar10.py --train train.npz --test test.npz --quick

The files hold arrays x (n, 32, 32, 3), uint8 RGB, and y (n,), whole numbers: any number of rows,
any labels. Rows come in random order, as files may be sorted by class. The first of them, the
warm-up, fix the features: filters are whitened patches of them, and every feature is divided by its
standard deviation among them. Then every row is learnt, once, in mini-batches, and none is kept.
Labels of test rows are looked at only to count errors.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from labelled_images import IMAGE_SHAPE, LabelledImages, read_labelled_images
from numpy.typing import NDArray
from patch_network import MirrorFeatures, Settings
from rich.console import Console
from rich.progress import track
from shifts import shifted
from stopwatch import Stopwatch
from threads import Threads

from onlinels import LeastSquaresClassifier

Array = NDArray[Any]

QUICK = {"contrast_filters": 70, "colour_filters": 30, "n_sample": 20_000}
QUICK_WARM_UP = 500
QUICK_ROWS = 3000
"""With --quick: few filters, and that many rows at most of each file."""

SCALED_ROWS = 2000
"""Rows of the warm-up, at most, from which features' standard deviations are estimated."""


@dataclass(frozen=True, eq=False)
class Run:
    """What one run of this script needs to know."""

    settings: Settings
    warm_up: int
    ridge: float
    batch_size: int
    test_shifts: int
    threads: Threads
    show: bool = True

    def batches(self, n_rows: int, text: str) -> Iterator[slice]:
        """Yield slices of rows, and show how far they have come."""
        starts = range(0, n_rows, self.batch_size)
        for start in track(starts, description=text, disable=not self.show):
            yield slice(start, start + self.batch_size)


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
        np.save(arguments.predictions, predictions)
    if arguments.result is not None:
        arguments.result.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    console.print_json(data=result)
    console.print(f"Test error: {result['error']:.2%}")


def prepare(arguments: argparse.Namespace) -> tuple[Run, LabelledImages, LabelledImages]:
    """Read and check everything before anything takes long."""
    for path in (arguments.result, arguments.predictions):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{path.parent} is no folder, expected one to write {path.name} to.")
    given = {f.name: getattr(arguments, f.name) for f in fields(Settings)}
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = replace(Settings(**QUICK if arguments.quick else {}), **chosen)
    settings.n_features(IMAGE_SHAPE)
    if not 0.0 < arguments.ridge < np.inf:
        raise ValueError(f"--ridge is {arguments.ridge}, expected a number above 0.")
    if arguments.test_shifts not in range(32):
        raise ValueError(f"--test-shifts is {arguments.test_shifts}, expected 0 to 31 pixels.")
    rows = slice(QUICK_ROWS if arguments.quick else None)
    train, test = (read_labelled_images(path) for path in (arguments.train, arguments.test))
    order = np.random.default_rng(settings.seed).permutation(len(train))[rows]
    train = LabelledImages(train.x[order], train.y[order])
    test = LabelledImages(test.x[rows], test.y[rows])
    if (train.y.dtype.kind in "US") != (test.y.dtype.kind in "US"):
        raise ValueError(
            f"Labels are {train.y.dtype} in {arguments.train} and {test.y.dtype} in "
            f"{arguments.test}, expected one kind. Convert one of them."
        )
    warm_up = arguments.warm_up or (QUICK_WARM_UP if arguments.quick else 5000)
    if len(train) < warm_up:
        raise ValueError(
            f"{arguments.train} holds {len(train)} rows, expected at least {warm_up} for the "
            f"warm-up. Pass more rows, or --warm-up {len(train)}."
        )
    run = Run(
        settings,
        warm_up,
        arguments.ridge,
        arguments.batch_size,
        arguments.test_shifts,
        Threads(arguments.threads),
        arguments.progress,
    )
    return run, train, test


def learn(
    run: Run, train: LabelledImages, watch: Stopwatch
) -> tuple[MirrorFeatures, LeastSquaresClassifier]:
    """Fix the features, learn all rows in one pass, and solve for the output weights."""
    with watch.stage("warm_up"):
        features = fix_features(run, train.x[: run.warm_up])
    model = LeastSquaresClassifier(run.ridge * len(train), fit_intercept=True)
    for rows in run.batches(len(train), "Learning"):
        with watch.stage("features"):
            activations = run.threads.map_rows(features.transform, train.x[rows])
        with watch.stage("learning"):
            model.learn_many(activations, train.y[rows])
    with watch.stage("solving"):
        _ = model.output_weights
    return features, model


def fix_features(run: Run, x: Array) -> MirrorFeatures:
    """Return features of variance 1 whose filters are patches of these images."""
    features = MirrorFeatures.from_examples(x, run.settings)
    some = x[:SCALED_ROWS]
    activations = [
        run.threads.map_rows(features.transform, some[rows])
        for rows in run.batches(len(some), "Warm-up")
    ]
    return features.scaled_by(np.concatenate(activations))


def predict(
    run: Run, features: MirrorFeatures, model: LeastSquaresClassifier, x: Array, watch: Stopwatch
) -> Array:
    """Return for every image the label of the largest score, summed over shifted views."""
    labels, answers = np.array(model.classes), []
    with watch.stage("testing"):
        for rows in run.batches(len(x), "Testing"):
            scores = np.zeros((len(x[rows]), len(labels)))
            for view in shifted(x[rows], run.test_shifts, "edge"):
                scores += model.scores_many(run.threads.map_rows(features.transform, view))
            answers.append(labels[scores.argmax(axis=1)])
    return np.concatenate(answers)


def summary(
    run: Run, train: LabelledImages, test: LabelledImages, predictions: Array, watch: Stopwatch
) -> dict[str, Any]:
    """Return what the result file holds."""
    settings = run.settings.as_json() | {
        name: getattr(run, name) for name in ("warm_up", "ridge", "batch_size", "test_shifts")
    }
    return {
        "error": float(np.mean(predictions != test.y)),
        "n_train": len(train),
        "n_test": len(test),
        "n_classes": len(np.unique(train.y)),
        "seconds": watch.rounded(),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
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
    parser.add_argument("--warm-up", type=positive, help="rows that fix the features (5000)")
    parser.add_argument(
        "--ridge", type=float, default=0.02, help="ridge for each training row (%(default)s)"
    )
    parser.add_argument(
        "--batch-size", type=positive, default=500, help="rows at a time (%(default)s)"
    )
    parser.add_argument(
        "--test-shifts",
        type=int,
        default=0,
        help="sum scores over test images shifted four ways by so many pixels (0: do not)",
    )
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--threads", type=positive, default=cores, help="threads for the features (%(default)s)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"100 filters, warm-up of {QUICK_WARM_UP}, at most {QUICK_ROWS} rows of each file",
    )
    parser.add_argument("--no-progress", dest="progress", action="store_false")
    return parser


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    main()
