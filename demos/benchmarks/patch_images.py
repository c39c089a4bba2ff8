"""Learn images in one pass with image patches as filters, and report the test error.

python demos/benchmarks/patch_images.py --data fashion-mnist/
python demos/benchmarks/patch_images.py --data fashion-mnist/ --validate 10000
python demos/benchmarks/patch_images.py --data cifar10.npz --validate 5000
python demos/benchmarks/patch_images.py --data cifar10.npz --validate 5000 --quick

The filters are whitened patches of the first images, some of them normalised to the same contrast.
No hidden layer follows. For grey images, hidden units of the paper's network with their own pooling
windows are added, and one linear layer learns both. The features of an image and of its mirror
image are summed, which is equivalent to learning mirrored copies. Every feature is divided by its
standard deviation among the first rows. Grey images and photographs (in colour) have different
settings. Photographs are learnt in random order, because files may be sorted by class. Every
finished run is a line in a results file; an interrupted command continues where it stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Array,
    ResultsFile,
    Stopwatch,
    above_zero,
    bar,
    check_warm_up,
    contents_of,
    machine,
    make_parser,
    not_negative,
    peak_memory,
    positive,
    read_images,
    row_slices,
    shifted,
)

from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    LeastSquaresClassifier,
    Patches,
    Power,
    TwoSidedRectifier,
    WhitenedPatches,
    __version__,
)
from onlinels.datasets import ImageData

BRIGHTNESS = 64.0
"""What bytes are divided by: patches of photographs then vary by about 1."""
SMALLEST_DEVIATION = 1e-3
"""Standard deviation of a feature, relative to the mean one, that is not amplified any more."""
SCALED_ROWS = 2000
"""Rows of the warm-up, at most, from which features' standard deviations are estimated."""
HIDDEN_SIZE = 22.0
"""Standard deviation of hidden units beside patches', whose is 1: as if their ridge were 1/484.

Chosen on held-out training images of Fashion-MNIST.
"""
QUICK_ROWS, QUICK_WARM_UP, QUICK_FILTERS = 3000, 500, (70, 30)


@dataclass(frozen=True)
class Settings:
    """All that decides a run, apart from the images.

    Parameters
    ----------
    filters : tuple of int
        Whitened 6 x 6 patches as filters: of patches brought to mean 0 and about the same variance,
        and of patches as they are, whose brightness and colour count.
    pool_size, stride, padding : int
        Side of the pooling windows, how far they are apart, and black pixels around the image. All
        windows lie inside these.
    n_hidden : int
        Hidden units of the paper's network beside the patches.
    ridge : float
        For each training row.
    warm_up : int
        The first rows, which fix filters, input weights and scales.
    shuffled : bool
        Whether rows come in random order.
    test_shifts : int
        Sum scores over test images shifted four ways by so many pixels; 0: do not.
    seed : int
    """

    filters: tuple[int, int]
    pool_size: int
    stride: int
    padding: int
    n_hidden: int
    ridge: float
    warm_up: int = 5000
    shuffled: bool = False
    test_shifts: int = 0
    seed: int = 0


GREY = Settings((150, 150), 9, 6, 2, 6400, 0.005)
"""Four by four windows that overlap, on images of 28 x 28 pixels."""
PHOTOGRAPHS = Settings((2100, 900), 16, 11, 0, 0, 0.02, shuffled=True)
"""Two by two windows that overlap, on images of 32 x 32 pixels in colour."""


def main() -> None:
    parser = parser_of_options()
    arguments = parser.parse_args()
    try:
        data = read_parts(arguments)
        settings = settings_of(arguments, data)
        check_warm_up(arguments.data, len(data.x_train), settings.warm_up)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    results, contents = ResultsFile(arguments.results), contents_of(data)
    tested = "held-out" if arguments.validate else "test"
    print(f"{machine()}; {len(data.x_train)} images, {len(data.x_test)} {tested} images")
    del data
    errors = []
    for seed in range(arguments.seeds):
        of_seed = replace(settings, seed=seed)
        key = {"settings": repr(of_seed), "contents": contents, "version": __version__}
        found = results.measured(key, run, of_seed, arguments)
        errors.append(found["error"])
        print(f"seed {seed}: {found}", flush=True)
    print(f"error: mean {np.mean(errors):.2%}, best {min(errors):.2%}")


def read_parts(arguments: argparse.Namespace) -> ImageData:
    rows = QUICK_ROWS if arguments.quick else arguments.rows
    data = read_images(arguments.data, arguments.validate, rows)
    if not arguments.quick:
        return data
    return ImageData(data.x_train, data.y_train, data.x_test[:rows], data.y_test[:rows])


def settings_of(arguments: argparse.Namespace, data: ImageData) -> Settings:
    settings = PHOTOGRAPHS if data.x_train.ndim == 4 else GREY
    if arguments.quick:
        settings = replace(settings, filters=QUICK_FILTERS, warm_up=QUICK_WARM_UP, n_hidden=0)
    chosen = {name: getattr(arguments, name) for name in asdict(settings) if name in arguments}
    given = {name: value for name, value in chosen.items() if value is not None}
    if "filters" in given:
        given["filters"] = given["filters"][0], given["filters"][-1]
    return replace(settings, **given)


def run(settings: Settings, arguments: argparse.Namespace) -> dict[str, float]:
    """Learn and test; return the error, peak memory in GiB and seconds by stage."""
    data, watch, size = read_parts(arguments), Stopwatch(), arguments.batch_size
    x, y = data.x_train, data.y_train
    if settings.shuffled:
        order = np.random.default_rng(settings.seed).permutation(len(x))
        x, y = x[order], y[order]
    with watch.stage("warm_up"):
        features = Features(x[: settings.warm_up], y[: settings.warm_up], settings)
    model = LeastSquaresClassifier(settings.ridge * len(x))
    for rows in bar(row_slices(len(x), size), f"Learning, seed {settings.seed}"):
        with watch.stage("features"):
            activations = features.transform(x[rows])
        with watch.stage("learning"):
            model.learn_many(activations, y[rows])
    with watch.stage("solving"):
        _ = model.output_weights
    labels, wrong = np.array(model.classes), 0
    with watch.stage("testing"):
        for rows in bar(row_slices(len(data.x_test), size), "Testing"):
            views = shifted(data.x_test[rows], settings.test_shifts, "edge")
            scores = sum(np.asarray(model.scores_many(features.transform(view))) for view in views)
            wrong += int((labels[np.argmax(scores, axis=1)] != data.y_test[rows]).sum())
    error = wrong / len(data.x_test)
    return {"error": error, "peak_memory_gib": round(peak_memory(), 2)} | watch.rounded()


class Features:
    """Features of images, added to those of their mirror images, and scaled.

    Learnt with such sums, a row per image, ridge regression gives the output weights that it would
    give if every image were learnt together with its mirror image, from a bank of filters that
    holds the mirror image of every filter: the weights of the differences come out as 0.

    Parameters
    ----------
    images : ndarray (n, height, width[, n_channels])
        Bytes; filters, input weights and scales are made from them.
    labels : ndarray (n,)
    settings : Settings
    """

    def __init__(self, images: Array, labels: Array, settings: Settings) -> None:
        pixels = as_pixels(images)
        self.banks = [
            ConvolutionalFeatures.from_examples(pixels, **bank) for bank in banks_of(settings)
        ]
        self.network = make_network(images, labels, settings) if settings.n_hidden else None
        sizes = [1.0] * len(self.banks) + [HIDDEN_SIZE] * (self.network is not None)
        some = images[:SCALED_ROWS]
        batches = [self.unscaled(some[rows]) for rows in row_slices(len(some), 500)]
        self.scales = [
            size * unit_scale(np.concatenate(parts))
            for size, parts in zip(sizes, zip(*batches, strict=True), strict=True)
        ]

    def unscaled(self, images: Array) -> list[Array]:
        """Return the features of every bank, and of the hidden units."""
        pixels, found = as_pixels(images), []
        for bank in self.banks:
            part = bank.transform_many(pixels)
            part += bank.transform_many(pixels[:, :, ::-1])
            found.append(part)
        if self.network is not None:
            stage, hidden = self.network
            part = hidden.transform_many(stage.transform_many(images))
            part += hidden.transform_many(stage.transform_many(images[:, :, ::-1]))
            found.append(part)
        return found

    def transform(self, images: Array) -> Array:
        """Return the features (n, n_features), float32, of images of bytes."""
        parts = self.unscaled(images)
        for part, scale in zip(parts, self.scales, strict=True):
            part *= scale.astype(np.float32)
        return np.concatenate(parts, axis=1)


def as_pixels(images: Array) -> Array:
    return images.astype(np.float32) / np.float32(BRIGHTNESS)


def banks_of(settings: Settings) -> list[dict[str, Any]]:
    """Return the settings of the banks that have filters."""
    shared = {
        "pool_size": settings.pool_size,
        "stride": settings.stride,
        "padding": settings.padding,
        "drop_ring": settings.pool_size - 1,
        "normalize": False,
        "before_pooling": TwoSidedRectifier(0.5),
        "after_pooling": Power(0.5),
        "channels": "joint",
        "dtype": "float32",
        "seed": settings.seed,
    }
    banks = []
    for n_filters, keep_mean in zip(settings.filters, (False, True), strict=True):
        # Patches from which the whitening is estimated.
        n_sample = max(100_000, n_filters)
        filters = WhitenedPatches(n_filters, 6, 0.1, n_sample, keep_mean=keep_mean)
        contrast = {} if keep_mean else {"contrast_offset": 10.0 / BRIGHTNESS**2}
        banks.append(shared | contrast | {"filters": filters})
    return banks


def make_network(
    images: Array, labels: Array, settings: Settings
) -> tuple[ConvolutionalFeatures, HiddenLayer]:
    """Return the paper's network up to its linear layer, in small gaussian windows."""
    stage = ConvolutionalFeatures.from_examples(
        images,
        labels,
        filters=("hand-designed", Patches(17)),
        pool_size=4,
        stride=2,
        drop_ring=2,
        normalize="image",
        pooling="gaussian",
        dtype="float32",
        seed=settings.seed,
    )
    hidden = HiddenLayer.from_examples(
        stage.transform_many(images),
        labels.tolist(),
        settings.n_hidden,
        "centred-difference",
        "square",
        seed=settings.seed,
        dtype="float32",
        bias=False,
        standardize=False,
    )
    return stage, hidden


def unit_scale(features: Array) -> Array:
    """Return what brings features (n, n_features) to variance 1, (n_features,)."""
    deviations = features.std(axis=0, dtype=np.float64)
    floor = SMALLEST_DEVIATION * deviations.mean() or 1.0
    scale: Array = 1.0 / np.maximum(deviations, floor)
    return scale


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    add, default = parser.add_argument, " (%(default)s)"
    data = ".npz file or folder, as data sets are published, or an .npz file with arrays x and y"
    add("--data", type=Path, required=True, help=data)
    filters = "of the same contrast and as they are, or one number for both (150; 2100 and 900)"
    add("--filters", type=positive, nargs="+", metavar="N", help=filters)
    add("--n-hidden", type=not_negative, help="hidden units beside them, 0 for none (6400; 0)")
    add("--ridge", type=above_zero, help="ridge for each training row (0.005; 0.02)")
    add("--warm-up", type=positive, help="rows that fix the features (5000)")
    shifts = "sum scores over test images shifted four ways by so many pixels (0: do not)"
    add("--test-shifts", type=not_negative, help=shifts)
    add("--rows", type=positive, help="training rows, the first ones (all)")
    held_out = "training rows, the last, to hold out and test on instead"
    add("--validate", type=not_negative, default=0, help=held_out)
    add("--seeds", type=positive, default=1, help="repeat with seeds 0, 1, ..." + default)
    add("--batch-size", type=positive, default=500, help="rows at a time" + default)
    results = Path("patch_images.jsonl")
    add("--results", type=Path, default=results, help="a line per finished run" + default)
    quick = f"100 filters, no hidden units, at most {QUICK_ROWS} rows to learn and to test on"
    add("--quick", action="store_true", help=quick)
    return parser


if __name__ == "__main__":
    main()
