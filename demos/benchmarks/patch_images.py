"""Learn images in one pass with patches as filters, and report the test error.

python demos/benchmarks/patch_images.py --data fashion-mnist/
python demos/benchmarks/patch_images.py --data fashion-mnist/ --validate 10000
python demos/benchmarks/patch_images.py --data cifar10.npz --validate 5000
python demos/benchmarks/patch_images.py --data cifar10.npz --validate 5000 --quick

The filters are whitened patches of the first images, some with normalised contrast and some
unchanged. One linear layer learns their pooled responses, together with hidden units of the paper's
network, which has its own pooling windows. The features of an image and of its mirror image are
added, which is equivalent to learning mirrored copies too. Every feature is divided by its standard
deviation in the first rows. Grey images and colour photographs have different settings; photographs
are shuffled, since files may be sorted by class. Every finished run is a line in a results file, so
an interrupted command resumes where it stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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
from image_data import ImageData
from numpy.lib.stride_tricks import sliding_window_view

from onlinels import ConvolutionalFeatures, HiddenLayer, LeastSquaresClassifier, __version__
from onlinels.features.preprocessing import fit_whitening
from onlinels.images import Patches

BRIGHTNESS = 64.0
"""Divisor of bytes: the variance of patches of photographs is then about 1."""
PATCH_SIZE, THRESHOLD, WHITENING, SAMPLE = 6, 0.5, 0.1, 100_000
"""Side of a patch, threshold of its response, and offset and sample size of the whitening."""
CONTRAST_OFFSET = 10.0 / BRIGHTNESS**2
TILE_FILTERS = 256
"""Filters whose responses are computed at once, so that they fit the cache."""
SMALLEST_DEVIATION = 1e-3
"""Smallest standard deviation of a feature, relative to the mean, that is scaled to 1."""
SCALED_ROWS = 2000
"""Most rows of the warm-up from which standard deviations of features are estimated."""
HIDDEN_SIZE = 22.0
"""Standard deviation of hidden units, relative to patches: equivalent to 1/484 of the ridge.

Chosen on held-out training images of Fashion-MNIST.
"""
QUICK_ROWS, QUICK_WARM_UP, QUICK_FILTERS = 3000, 500, (70, 30)


@dataclass(frozen=True)
class Settings:
    """The settings that determine a run, together with the images.

    Parameters
    ----------
    filters : tuple of int
        Numbers of filters made of whitened 6 x 6 patches: with normalised contrast (mean 0 and
        about the same variance), and unchanged, so that brightness and colour count.
    pool_size, stride, padding : int
        Side of the pooling windows, their distance, and black pixels around the image. All windows
        lie inside the padded image.
    n_hidden : int
        Number of hidden units of the paper's network besides the patches.
    ridge : float
        Ridge per training row.
    warm_up : int
        Number of rows, the first ones, that fix filters, input weights and scales.
    shuffled : bool
        Whether rows are learnt in random order.
    test_shifts : int
        Pixels by which test images are also shifted in four directions; scores are summed.
    seed : int
        Seed of the random numbers.
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
"""Four by four overlapping windows on images of 28 x 28 pixels."""
PHOTOGRAPHS = Settings((2100, 900), 16, 11, 0, 0, 0.02, shuffled=True)
"""Two by two overlapping windows on colour images of 32 x 32 pixels."""


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
    """Compute features of images, added to those of their mirror images, and scaled.

    Ridge regression on these sums, one row per image, gives the same output weights as learning
    every image together with its mirror image, with a bank that contains the mirror image of every
    filter: the weights of the differences are 0.

    Parameters
    ----------
    images : ndarray (n, height, width[, n_channels])
        Bytes from which filters, input weights and scales are made.
    labels : ndarray (n,)
        Labels of the images.
    settings : Settings
        Settings of the run.
    """

    def __init__(self, images: Array, labels: Array, settings: Settings) -> None:
        pixels = as_pixels(images)
        self.banks = [
            PatchBank(pixels, n_filters, contrast, settings)
            for n_filters, contrast in zip(settings.filters, (True, False), strict=True)
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
            found.append(bank.transform(pixels) + bank.transform(pixels[:, :, ::-1]))
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


class PatchBank:
    """Filters of whitened patches of the first images, and what is made of their responses.

    The response to a patch c of an image is u = d . whiten(c), where d is the whitened patch of an
    example, of length 1 (A. Coates and A. Y. Ng, 2011). It becomes max(0, u - 0.5) and
    max(0, -u - 0.5), averaged over pooling windows inside the image; square roots follow.

    Parameters
    ----------
    pixels : ndarray (n, height, width[, n_channels])
        Images that patches are drawn from.
    n_filters : int
        Number of filters.
    contrast : bool
        Whether every patch has its mean subtracted and is divided by sqrt(variance + offset).
    settings : Settings
        Settings of the run.
    """

    def __init__(self, pixels: Array, n_filters: int, contrast: bool, settings: Settings) -> None:
        self.contrast, self.settings = contrast, settings
        random = np.random.default_rng([settings.seed, 1])
        windows = sliding_window_view(with_channels(pixels), (PATCH_SIZE, PATCH_SIZE), axis=(1, 2))
        n_places = int(np.prod(windows.shape[:3]))
        n_sample = min(n_places, max(SAMPLE, n_filters))
        places = random.choice(n_places, n_sample, replace=False)
        patches = windows[np.unravel_index(places, windows.shape[:3])].astype(float)
        uneven = np.flatnonzero(np.ptp(patches, axis=(2, 3)).any(axis=1))
        chosen = uneven[random.choice(len(uneven), n_filters, replace=n_filters > len(uneven))]
        rows = self.normalized(np.moveaxis(patches, 1, 3).reshape(n_sample, -1))
        # The response d . (c - mean) M is c . (M d) - mean . (M d).
        mean, matrix = fit_whitening(rows, WHITENING)
        directions = (rows[chosen] - mean) @ matrix
        filters = directions / np.linalg.norm(directions, axis=1, keepdims=True) @ matrix
        self.filters = filters.T.astype(np.float32)
        self.offsets = -(filters @ mean).astype(np.float32)

    def normalized(self, rows: Array) -> Array:
        """Return patches with normalised contrast, or unchanged if brightness and colour count."""
        if not self.contrast:
            return rows
        # The middle pixel is subtracted first: no digits are lost to the brightness.
        rows = rows - rows[..., [rows.shape[-1] // 2]]
        rows -= rows.mean(axis=-1, keepdims=True)
        variance = np.square(rows).mean(axis=-1, keepdims=True)
        return np.asarray(rows / np.sqrt(variance + rows.dtype.type(CONTRAST_OFFSET)))

    def transform(self, pixels: Array) -> Array:
        """Return the features (n, n_features) of images (n, height, width[, n_channels])."""
        padding = (self.settings.padding, self.settings.padding)
        images = np.pad(with_channels(pixels), ((0, 0), padding, padding, (0, 0)))
        windows = sliding_window_view(images, (PATCH_SIZE, PATCH_SIZE), axis=(1, 2))
        pooling = np.kron(*(self.pooling(side) for side in windows.shape[1:3]))
        features = np.empty((len(images), 2, len(pooling), len(self.offsets)), np.float32)
        for image, found in zip(windows, features, strict=True):
            patches = self.normalized(np.moveaxis(image, 2, 4).reshape(len(pooling.T), -1))
            for tile in row_slices(len(self.offsets), TILE_FILTERS):
                responses = patches @ self.filters[:, tile]
                responses += self.offsets[tile]
                for side, sign in enumerate((1, -1)):
                    excess = sign * responses - np.float32(THRESHOLD)
                    np.maximum(excess, 0, out=excess)
                    found[side, :, tile] = pooling @ excess
        return np.sqrt(features.reshape(len(images), -1))

    def pooling(self, n_positions: int) -> Array:
        """Return the matrix (n_windows, n_positions) that averages positions along one axis."""
        size, stride = self.settings.pool_size, self.settings.stride
        starts = np.arange(0, n_positions - size + 1, stride)[:, None]
        offsets = np.arange(n_positions) - starts
        return ((offsets >= 0) & (offsets < size)).astype(np.float32) / np.float32(size)


def with_channels(pixels: Array) -> Array:
    """Return images (n, height, width, n_channels)."""
    return pixels if pixels.ndim == 4 else pixels[..., None]


def make_network(
    images: Array, labels: Array, settings: Settings
) -> tuple[ConvolutionalFeatures, HiddenLayer]:
    """Return the paper's network without its linear layer, with small gaussian windows."""
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
        activation="square",
        seed=settings.seed,
        dtype="float32",
        bias=False,
        standardize=False,
    )
    return stage, hidden


def unit_scale(features: Array) -> Array:
    """Return the factors (n_features,) that scale features (n, n_features) to variance 1."""
    deviations = features.std(axis=0, dtype=np.float64)
    floor = SMALLEST_DEVIATION * deviations.mean() or 1.0
    scale: Array = 1.0 / np.maximum(deviations, floor)
    return scale


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    add, default = parser.add_argument, " (%(default)s)"
    data = "folder or .npz file of a published data set, or an .npz file with arrays x and y"
    add("--data", type=Path, required=True, help=data)
    filters = "normalised and unchanged patches, or one number for both (150; 2100 and 900)"
    add("--filters", type=positive, nargs="+", metavar="N", help=filters)
    add("--n-hidden", type=not_negative, help="hidden units besides patches (6400; 0)")
    add("--ridge", type=above_zero, help="ridge per training row (0.005; 0.02)")
    add("--warm-up", type=positive, help="rows that fix the features (5000)")
    shifts = "pixels by which test images are also shifted in four directions (0)"
    add("--test-shifts", type=not_negative, help=shifts)
    add("--rows", type=positive, help="training rows, the first ones (all)")
    held_out = "training rows, the last ones, to hold out and test on instead"
    add("--validate", type=not_negative, default=0, help=held_out)
    add("--seeds", type=positive, default=1, help="repeat with seeds 0, 1, ..." + default)
    add("--batch-size", type=positive, default=500, help="rows at a time" + default)
    results = Path("patch_images.jsonl")
    add("--results", type=Path, default=results, help="file with a line per finished run" + default)
    quick = f"100 filters, no hidden units, at most {QUICK_ROWS} rows to learn and to test on"
    add("--quick", action="store_true", help=quick)
    return parser


if __name__ == "__main__":
    main()
