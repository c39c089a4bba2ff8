"""Learn images together with distorted copies of them, in one pass of mini-batches.

python demos/benchmarks/distorted_images.py --data mnist.npz --copies 9 --n-hidden 8000 --seeds 5
python demos/benchmarks/distorted_images.py --data mnist.npz --validate --rows 10000 --seeds 1
python demos/benchmarks/distorted_images.py --data fashion-mnist.npz --copies 1 --flip 0.5
    --rotation 0 --scale 0 --shear 0 --elastic-strength 0    (one line)

Undistorted images (the warm-up) fix filters and input weights. Then every mini-batch of images is
learnt, followed by its distorted copies, which are drawn as they are learnt and not stored. The
data is an .npz file with x_train, y_train, x_test and y_test, or a folder with the files of MNIST.
Every finished run is a line in a results file, so an interrupted command resumes where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
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
    print_table,
    read_images,
    row_slices,
    shifted,
    table_of,
)
from scipy.ndimage import map_coordinates

from onlinels import ConvolutionalFeatures, HiddenLayer, LeastSquaresClassifier, __version__
from onlinels.images import Patches

Layer = Callable[[Array], Array]

RIDGE_ROWS = 2000
"""Most rows of the warm-up from which the scale of the ridge is estimated."""
HELD_OUT = 10_000
NORMALIZE: dict[str, Any] = {"none": False, "map": "map", "image": "image"}
"""Divisors of features by their names on the command line: nothing, sums or lengths."""
DISTORTION: dict[str, tuple[float, str]] = {
    "rotation": (8.0, "largest angle, degrees"),
    "scale": (0.08, "largest relative change of size"),
    "shear": (0.1, "largest slant, columns per row"),
    "shift": (1.0, "largest shift, pixels"),
    "elastic_strength": (0.4, "size of elastic displacements, pixels"),
    "elastic_smoothness": (4.0, "width of the gaussian that smooths them, pixels"),
    "flip": (0.0, "probability of a left-right mirror image"),
}
FILLS: dict[str, Any] = {"zero": "grid-constant", "edge": "nearest"}
"""Names of scipy's modes for values outside an image."""
NOISE_MARGIN = 3
"""Points of noise beyond each edge of an image, one smoothness (at least one pixel) apart."""
MAX_SLANT, MIN_ROW_VARIANCE = 1.0, 1e-6
"""Largest slant removed, and variance of the rows of ink up to which a slant is rounding errors."""


@dataclass(frozen=True)
class Distortion:
    """Mirror, scale, slant, rotate, shift and bend images at random, as one map of positions.

    Angle, scales, slant and shifts are uniform between minus and plus the settings. The smooth
    field that bends an image has the root mean square `elastic_strength` along each axis; at a
    distance d, its correlation is exp(-d^2 / (4 elastic_smoothness^2)). See P. Y. Simard,
    D. Steinkraus and J. C. Platt (2003). Numbers are drawn image by image: parts of a batch,
    distorted one after the other, give the same images as the batch.
    """

    rotation: float
    scale: float
    shear: float
    shift: float
    elastic_strength: float
    elastic_smoothness: float
    flip: float
    fill: str

    def distort(self, images: Array, random: np.random.Generator) -> Array:
        """Return a distorted copy, float32, of images (n, height, width[, n_channels])."""
        n_images, height, width = images.shape[:3]
        factors = [noise_factor(side, self.elastic_smoothness) for side in (height, width)]
        noise_shape = (n_images, 2, *(factor.shape[1] for factor in factors))
        n_noise = int(np.prod(noise_shape[1:])) if self.elastic_strength else 0
        draws = random.random((n_images, 7 + n_noise), dtype=np.float32)
        places = self.affine_places(draws[:, :7].astype(float), height, width)
        if n_noise:
            # Uniform numbers between -1 and 1 have variance 1/3.
            noise = self.elastic_strength * 3**0.5 * (2 * draws[:, 7:].reshape(noise_shape) - 1)
            places += factors[0] @ noise @ factors[1].T
        return sampled(images, places, FILLS[self.fill])

    def affine_places(self, draws: Array, height: int, width: int) -> Array:
        """Return the rows and columns (n, 2, height, width) that are sampled, without the field."""
        signed = 2 * draws.T[:, :, None, None] - 1
        angles = np.deg2rad(self.rotation) * signed[0]
        heights, widths = 1 + self.scale * signed[1:3]
        slants, shifts = self.shear * signed[3], self.shift * signed[4:6]
        # position = mirror (scale^-1 slant^-1 rotation^-1 (pixel - centre - shift)) + centre
        middle, centre = (height - 1) / 2, (width - 1) / 2
        down = np.arange(height)[:, None] - middle - shifts[0]
        right = np.arange(width) - centre - shifts[1]
        turned_down = np.cos(angles) * down - np.sin(angles) * right
        turned_right = np.sin(angles) * down + np.cos(angles) * right
        mirror = np.where(draws[:, 6] < self.flip, -1, 1)[:, None, None]
        columns = mirror * (turned_right - slants * turned_down) / widths
        return np.stack([turned_down / heights + middle, columns + centre], axis=1)


def noise_factor(side: int, smoothness: float) -> Array:
    """Return the matrix (side, n_points) that smooths white noise along one axis."""
    # L[i, j] is proportional to exp(-(i - p_j)^2 / (2 smoothness^2)), and every row has length 1.
    spacing = max(1.0, smoothness)
    points = spacing * (np.arange(ceil((side - 1) / spacing) + 1 + 2 * NOISE_MARGIN) - NOISE_MARGIN)
    # A smoothness below a tenth of a pixel leaves the noise white.
    distances = (np.arange(side)[:, None] - points) / max(0.1, smoothness)
    weights = np.exp(-0.5 * distances**2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def deskewed(images: Array) -> Array:
    """Shear images along their rows so that the rows and columns of ink are uncorrelated."""
    # Y. LeCun, L. Bottou, Y. Bengio and P. Haffner (1998): row i is shifted by s (i - m), where m
    # is the mean row of the ink |x| and s = cov(row, column) / var(row) its slant.
    ink = np.abs(images.reshape(*images.shape[:3], -1)).sum(axis=3, dtype=float)
    mass = ink.sum(axis=(1, 2))
    ink /= np.where(mass == 0, 1, mass)[:, None, None]
    rows, columns = np.indices(ink.shape[1:])
    below = rows - (ink * rows).sum(axis=(1, 2))[:, None, None]
    spread = (ink * below**2).sum(axis=(1, 2))
    moments = (ink * below * columns).sum(axis=(1, 2))
    slants = moments / np.where(spread > MIN_ROW_VARIANCE, spread, np.inf)
    shifts = np.clip(slants, -MAX_SLANT, MAX_SLANT)[:, None, None] * below
    places = np.stack(np.broadcast_arrays(rows, columns + shifts), axis=1)
    return sampled(images, places, FILLS["zero"])


def sampled(images: Array, places: Array, mode: Any) -> Array:
    """Return images, float32, interpolated linearly at places (n, 2, height, width)."""
    found = np.empty((*images.shape[:3], images[0, 0, 0].size), dtype=np.float32)
    for number, image in enumerate(images.reshape(found.shape).astype(np.float32)):
        for channel in range(found.shape[3]):
            flat: Any = image[..., channel]
            found[number, ..., channel] = map_coordinates(
                flat, places[number], np.float32, order=1, mode=mode
            )
    return found.reshape(images.shape)


def main() -> None:
    parser = parser_of_options()
    arguments = parser.parse_args()
    try:
        data = read_images(arguments.data, arguments.validate, arguments.rows)
        check_warm_up(arguments.data, len(data.x_train), arguments.warm_up)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(
        f"{machine()}; {len(data.x_train)} images and {arguments.copies} copies of each, "
        f"{len(data.x_test)} {'held-out' if arguments.validate else 'test'} images, "
        f"n_hidden={arguments.n_hidden}"
    )
    apart = ("data", "results", "seeds")
    settings = {name: value for name, value in vars(arguments).items() if name not in apart}
    key = settings | {"contents": contents_of(data), "version": __version__}
    del data
    results = ResultsFile(arguments.results)
    measured = [
        results.measured(key | {"seed": seed}, run, arguments, seed)
        for seed in range(arguments.seeds)
    ]
    table = table_of("", *(f"seed {seed}" for seed in range(len(measured))))
    table.add_row("error", *(f"{each['error']:.3%}" for each in measured))
    for stage in measured[0]["seconds"]:
        table.add_row(f"{stage}, s", *(f"{each['seconds'][stage]:.1f}" for each in measured))
    table.add_row("peak memory, GiB", *(f"{each['peak_memory']:.2f}" for each in measured))
    print_table(table)
    errors = [each["error"] for each in measured]
    print(f"error: mean {np.mean(errors):.3%}, best {min(errors):.3%}")


def distortion_of(arguments: argparse.Namespace) -> Distortion:
    amounts = {name: getattr(arguments, name) for name in DISTORTION}
    return Distortion(**amounts, fill=arguments.fill)


def run(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Learn and test; return the error, seconds by stage and peak memory in GiB."""
    data = read_images(arguments.data, arguments.validate, arguments.rows)
    watch, random = Stopwatch(), np.random.default_rng([seed, 1])
    order = random.permutation(len(data.x_train))
    x, y, warm_up = data.x_train[order], data.y_train[order], slice(arguments.warm_up)
    with watch.stage("warm_up"):
        layers = make_layers(x[warm_up], y[warm_up], arguments, seed)
        model = make_classifier(layers, x, arguments)
    distortion = distortion_of(arguments)
    for rows in bar(row_slices(len(x), arguments.batch_size), f"Learning, seed {seed}"):
        for images in with_copies(x[rows], distortion, arguments.copies, random, watch):
            with watch.stage("features"):
                activations = transform(layers, images)
            with watch.stage("learning"):
                model.learn_many(activations, y[rows])
    with watch.stage("solving"):
        _ = model.output_weights
    labels, wrong = np.array(model.classes), 0
    with watch.stage("testing"):
        for rows in bar(row_slices(len(data.x_test), arguments.batch_size), "Testing"):
            mode = "edge" if arguments.fill == "edge" else "constant"
            views = shifted(data.x_test[rows], arguments.test_shifts, mode)
            scores = sum(np.asarray(model.scores_many(transform(layers, view))) for view in views)
            wrong += int((labels[np.argmax(scores, axis=1)] != data.y_test[rows]).sum())
    error = wrong / len(data.x_test)
    return {"error": error, "seconds": watch.rounded(), "peak_memory": peak_memory()}


def make_layers(x: Array, y: Array, arguments: argparse.Namespace, seed: int) -> list[Layer]:
    """Make filters and input weights from undistorted images.

    Filters are divided by their length, and so are the features of an image by default, so that no
    small number of them dominates the differences between images.
    """
    first: list[Layer] = [deskewed] if arguments.deskew else []
    x = transform(first, x)
    recipe = ("hand-designed", Patches(17))
    bank = ConvolutionalFeatures.from_examples(x, y, filters=recipe, seed=seed).bank
    features = ConvolutionalFeatures(
        of_unit_length(bank),
        pool_size=8,
        drop_ring=5,
        stride=arguments.stride,
        pooling=arguments.pooling,
        normalize=NORMALIZE[arguments.normalize],
        dtype="float32",
    )
    hidden = HiddenLayer.from_examples(
        features.transform_many(x),
        y,
        arguments.n_hidden,
        "centred-difference",
        activation="square",
        seed=seed,
        dtype="float32",
        bias=False,
        standardize=False,
    )
    return [*first, features.transform_many, hidden.transform_many]


def of_unit_length(bank: Array) -> Array:
    """Return a bank whose filters have length 1; filters of zeros stay 0."""
    lengths = np.sqrt((bank**2).sum(axis=(1, 2, 3), keepdims=True))
    lengths[lengths == 0.0] = 1.0
    return np.asarray(bank / lengths)


def transform(layers: list[Layer], images: Array) -> Array:
    """Return the hidden activations (n, n_hidden) of images."""
    for layer in layers:
        images = layer(images)
    return images


def make_classifier(
    layers: list[Layer], x: Array, arguments: argparse.Namespace
) -> LeastSquaresClassifier:
    """Return the linear layer, with a ridge proportional to the expected sums of squares."""
    activations = transform(layers, x[: min(arguments.warm_up, RIDGE_ROWS)])
    variance = float(activations.var(axis=0, dtype=np.float64).mean())
    n_rows = len(x) * (1 + arguments.copies)
    return LeastSquaresClassifier(arguments.ridge * variance * n_rows)


def with_copies(
    images: Array,
    distortion: Distortion,
    n_copies: int,
    random: np.random.Generator,
    watch: Stopwatch,
) -> Iterator[Array]:
    """Yield the images, then batches of distorted copies."""
    yield images
    for _ in range(n_copies):
        with watch.stage("distorting"):
            copy = distortion.distort(images, random)
        yield copy


def parser_of_options() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    add, default = parser.add_argument, " (%(default)s)"
    add("--data", type=Path, required=True, help=".npz file or folder")
    add("--copies", type=not_negative, default=9, help="copies of each image" + default)
    add("--n-hidden", type=positive, default=8000, help="hidden units" + default)
    add("--seeds", type=positive, default=5, help="runs, with seeds 0, 1, ..." + default)
    add("--warm-up", type=positive, default=3000, help="images that fix features" + default)
    ridge = "ridge, divided by the activations' mean sum of squares about the mean" + default
    add("--ridge", type=above_zero, default=2e-8, help=ridge)
    add("--batch-size", type=positive, default=1000, help="images at a time" + default)
    add("--rows", type=positive, help="training images, the first ones (all)")
    held = f"training images, the last ones, to hold out and test on instead ({HELD_OUT})"
    add("--validate", type=positive, nargs="?", const=HELD_OUT, default=0, help=held)
    shifts = "pixels by which test images are also shifted in four directions (0)"
    add("--test-shifts", type=not_negative, default=0, help=shifts)
    pooling = "window that averages positions" + default
    add("--pooling", choices=("box", "gaussian"), default="gaussian", help=pooling)
    divided = "divide nothing, each map by its sum, or all features by their length" + default
    add("--normalize", choices=tuple(NORMALIZE), default="image", help=divided)
    add("--stride", type=positive, default=2, help="distance of pooled positions" + default)
    add("--deskew", action="store_true", help="straighten slanted images, also distorted ones")
    for name, (value, text) in DISTORTION.items():
        add(f"--{name.replace('_', '-')}", type=float, default=value, help=text + default)
    outside = "values outside an image: zeros, or the nearest edge pixel" + default
    add("--fill", choices=tuple(FILLS), default="zero", help=outside)
    results = Path("distorted_images.jsonl")
    add("--results", type=Path, default=results, help="file with a line per finished run" + default)
    return parser


if __name__ == "__main__":
    main()
