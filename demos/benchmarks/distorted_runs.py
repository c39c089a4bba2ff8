"""One run of learning images together with distorted copies of them: one pass, nothing stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from held_out import read_parts
from numpy.typing import NDArray
from own_process import peak_memory
from results_file import Key
from rich.progress import track
from shifts import check_shifts, shifted
from slices import row_slices
from stopwatch import Stopwatch

from onlinels import (
    ConvolutionalFeatures,
    Distortion,
    FilterBank,
    HiddenLayer,
    ImagePreprocessing,
    LeastSquaresClassifier,
    Patches,
)
from onlinels.datasets import ImageData

Array = NDArray[Any]

RIDGE_ROWS = 2000
"""Rows of the warm-up, at most, whose activations tell how large a ridge is small."""

RECIPE = ("hand-designed", Patches(17))

STAGE: dict[str, Any] = {
    "pool_size": 8,
    "drop_ring": 5,
    "dtype": "float32",
}

NORMALIZE: dict[str, Any] = {"none": False, "map": "map", "image": "image"}
"""What features may be divided by, as the command line says it: nothing, sums or lengths."""


@dataclass(frozen=True)
class DistortedRun:
    """All that defines a run, and where the data lies.

    Parameters
    ----------
    path : str
        Where the data lies.
    n_hidden, warm_up, seed : int
    ridge : float
        Multiple of the activations' mean sum of squares about the mean.
    copies : int
        Distorted copies of each row.
    rows : int, optional
        Training rows, the first ones; all by default.
    held_out : int
        The last training rows, on which errors are counted instead of on test rows; 0 for none.
    batch_size : int
    test_shifts : int
        Pixels by which images are shifted four ways when they are classified, besides not at all.
    pooling, normalize : str
        Of the features; see `NORMALIZE`.
    stride : int
        Distance of pooled positions.
    deskew : bool
        Whether to straighten images, distorted ones as well.
    distortion : dict
        Settings of `onlinels.Distortion`.
    """

    path: str
    n_hidden: int
    warm_up: int
    seed: int
    ridge: float
    copies: int
    rows: int | None
    held_out: int
    batch_size: int
    test_shifts: int
    pooling: str
    normalize: str
    stride: int
    deskew: bool
    distortion: dict[str, Any]

    def key(self, data: Key) -> dict[str, Any]:
        """Return what the results file knows the run by: everything but where the data lies."""
        own = {name: value for name, value in asdict(self).items() if name != "path"}
        return own | dict(data)

    @property
    def stage(self) -> dict[str, Any]:
        """The settings of the features, apart from the filters."""
        return STAGE | {
            "pooling": self.pooling,
            "normalize": NORMALIZE[self.normalize],
            "stride": self.stride,
        }


def read_rows(run: DistortedRun) -> ImageData:
    """Return the rows to learn and the rows to test on.

    Raises
    ------
    OSError, ValueError
        If the data cannot be read, there are too few rows, or images are too small.
    """
    data = read_parts(Path(run.path), run.held_out, run.rows)
    if len(data.x_train) < run.warm_up:
        raise ValueError(
            f"{run.path} leaves {len(data.x_train)} training rows, expected at least {run.warm_up} "
            "for the warm-up. Lower --warm-up, or --validate, or raise --rows."
        )
    image_shape = data.x_train.shape[1:]
    ConvolutionalFeatures(RECIPE, **run.stage).n_features(image_shape)
    check_shifts(run.test_shifts, image_shape)
    return data


def run_here(run: DistortedRun) -> dict[str, Any]:
    """Learn and test; return the error, seconds by stage and peak memory in GiB."""
    data, watch = read_rows(run), Stopwatch()
    random = np.random.default_rng([run.seed, 1])
    order = random.permutation(len(data.x_train))
    x, y = data.x_train[order], data.y_train[order]
    with watch.stage("warm_up"):
        layers = make_layers(x[: run.warm_up], y[: run.warm_up], run)
        model = make_classifier(layers, x, run)
    distortion = Distortion(**run.distortion)
    for rows in track(row_slices(len(x), run.batch_size), f"Learning, seed {run.seed}"):
        for images in with_copies(x[rows], distortion, run.copies, random, watch):
            with watch.stage("features"):
                activations = layers.transform(images)
            with watch.stage("learning"):
                model.learn_many(activations, y[rows])
    with watch.stage("solving"):
        _ = model.output_weights
    with watch.stage("testing"):
        error = test_error(layers, model, data, run)
    return {"error": error, "seconds": watch.rounded(), "peak_memory": peak_memory()}


@dataclass(frozen=True)
class Layers:
    """What turns images into activations, fixed."""

    preprocessing: ImagePreprocessing
    features: ConvolutionalFeatures
    hidden: HiddenLayer

    def transform(self, images: Array) -> Array:
        """Return the hidden activations (n, n_hidden) of images."""
        for layer in (self.preprocessing, self.features, self.hidden):
            images = layer.transform_many(images)
        return images


def make_layers(x: Array, y: Array, run: DistortedRun) -> Layers:
    """Fix filters and input weights from undistorted images.

    Filters are divided by their length, and features of an image by theirs unless asked otherwise,
    so that no few of them decide how images differ.
    """
    preprocessing = ImagePreprocessing(deskew=run.deskew, dtype="float32")
    x = preprocessing.transform_many(x)
    bank = ConvolutionalFeatures.from_examples(x, y, filters=RECIPE, seed=run.seed).bank
    features = ConvolutionalFeatures(of_unit_length(bank), **run.stage)
    hidden = HiddenLayer.from_examples(
        features.transform_many(x),
        y,
        run.n_hidden,
        "centred-difference",
        "square",
        run.seed,
        "float32",
    )
    return Layers(preprocessing, features, hidden)


def of_unit_length(bank: FilterBank) -> FilterBank:
    """Return a bank whose filters have length 1; those of zeros stay."""
    lengths = np.sqrt((bank.filters**2).sum(axis=(1, 2, 3)))
    lengths[lengths == 0.0] = 1.0
    return FilterBank(bank.filters / lengths[:, None, None, None], np.zeros(len(bank)))


def make_classifier(layers: Layers, x: Array, run: DistortedRun) -> LeastSquaresClassifier:
    """Return the linear layer, with a ridge in proportion to the sums of squares to come."""
    activations = layers.transform(x[: min(run.warm_up, RIDGE_ROWS)])
    variance = float(activations.var(axis=0, dtype=np.float64).mean())
    n_rows = len(x) * (1 + run.copies)
    return LeastSquaresClassifier(run.ridge * variance * n_rows, fit_intercept=True)


def with_copies(
    images: Array,
    distortion: Distortion,
    n_copies: int,
    random: np.random.Generator,
    watch: Stopwatch,
) -> Iterator[Array]:
    """Yield images, then distorted copies of them, one batch at a time."""
    yield images
    copies = distortion.copies(images, n_copies, random)
    for _ in range(n_copies):
        with watch.stage("distorting"):
            copy = next(copies)
        yield copy


def test_error(
    layers: Layers, model: LeastSquaresClassifier, data: ImageData, run: DistortedRun
) -> float:
    """Return the share of test images whose label is not the one of the largest mean score."""
    labels = np.array(model.classes)
    wrong = 0
    for rows in track(row_slices(len(data.x_test), run.batch_size), "Testing"):
        views = shifted(data.x_test[rows], run.test_shifts, run.distortion["fill"])
        scores = sum(np.asarray(model.scores_many(layers.transform(view))) for view in views)
        wrong += int((labels[np.argmax(scores, axis=1)] != data.y_test[rows]).sum())
    return wrong / len(data.x_test)
