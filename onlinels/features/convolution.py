"""Stage 1 of the paper: convolve, apply a nonlinearity, pool, downsample, normalise.

M. D. McDonnell and T. Vladusich (2015), Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log10, prod
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onlinels.checks import Floats, Integers, Matrix, check_not_negative, check_positive, check_room
from onlinels.features.images import LARGEST_PIXEL, Shape, slices
from onlinels.features.preprocessing import normalize_contrast
from onlinels.numerics import SMALL_PRODUCT, Scratch, even_parts, in_threads
from onlinels.saving import savable_settings

SQUARE_ROOTS = {1.0: 0, 0.5: 1, 0.25: 2}
"""How many square roots of an absolute value are a power of it."""


@savable_settings()
@dataclass(frozen=True)
class Power:
    """The power ``|u|^exponent`` of every response u.

    Parameters
    ----------
    exponent : float, above 0
        2 gives squares, 1 absolute values, 0.25 fourth roots.

    Raises
    ------
    TypeError
        If `exponent` is no number.
    ValueError
        If it is not above 0 and finite.

    Notes
    -----
    Of large exponents small responses leave the precision: in float32 powers below 1e-45 are 0,
    those of a response of 0.001 from an exponent of 15 on.

    Examples
    --------
    >>> Power(2.0).apply(np.array([-3.0, 0.0, 2.0]))
    (array([9., 0., 4.]),)
    """

    exponent: float

    n_maps: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("exponent", self.exponent)

    def apply(self, values: Matrix) -> tuple[Matrix]:
        """Return the powers of `values` (floats of any shape), in their place.

        Notes
        -----
        A pass over the values for a square and for an absolute value, two and three for a square
        root and a fourth root. Other exponents need a logarithm and an exponential a value, some
        20 times as long.
        """
        if self.exponent == 2.0:
            return (np.square(values, out=values),)
        np.abs(values, out=values)
        for _ in range(SQUARE_ROOTS.get(self.exponent, 0)):
            np.sqrt(values, out=values)
        if self.exponent not in SQUARE_ROOTS:
            np.power(values, values.dtype.type(self.exponent), out=values)
        return (values,)


@savable_settings()
@dataclass(frozen=True)
class TwoSidedRectifier:
    """The two parts max(0, u - threshold) and max(0, -u - threshold) of every response u.

    Parameters
    ----------
    threshold : float, at least 0

    Raises
    ------
    TypeError
        If `threshold` is no number.
    ValueError
        If it is negative or not finite.

    References
    ----------
    A. Coates and A. Y. Ng (2011), "The Importance of Encoding Versus Training with Sparse Coding
    and Vector Quantization": soft thresholding with the signs kept apart.

    Examples
    --------
    >>> TwoSidedRectifier(1.0).apply(np.array([-3.0, 0.0, 2.0]))
    (array([0., 0., 1.]), array([2., 0., 0.]))
    """

    threshold: float

    n_maps: ClassVar[int] = 2

    exponent: ClassVar[float] = 1.0
    """Far from the threshold the parts grow like this power of the response."""

    def __post_init__(self) -> None:
        check_not_negative("threshold", self.threshold)

    def apply(self, values: Matrix) -> tuple[Matrix, Matrix]:
        """Return the part above the threshold in place of `values`, and that below in a new array.

        Notes
        -----
        Four passes over the values. The parts are arrays of their own, not halves of one:
        each is then pooled at full speed.
        """
        threshold = values.dtype.type(self.threshold)
        # Measured: numpy compares with an array four times as fast as with a number.
        zeros = np.zeros(values.shape[-2:], dtype=values.dtype)
        below: Matrix = np.subtract(-threshold, values)
        np.maximum(below, zeros, out=below)
        np.subtract(values, threshold, out=values)
        np.maximum(values, zeros, out=values)
        return values, below


SQUARE = Power(2.0)
FOURTH_ROOT = Power(0.25)


def lp_pooling(exponent: float) -> tuple[Power, Power]:
    """Return what to do before and after averaging so that responses are pooled by an Lp norm.

    ``(mean |u|^p)^(1/p)``, the Lp norm up to a constant: p = 1 averages the sizes of responses,
    larger ones come closer to their maximum.

    Parameters
    ----------
    exponent : float, above 0
        The power p.

    Returns
    -------
    before_pooling, after_pooling : Power

    Raises
    ------
    TypeError, ValueError
        If `exponent` is no finite number above 0.

    References
    ----------
    P. Sermanet, S. Chintala and Y. LeCun (2012), "Convolutional Neural Networks Applied to House
    Numbers Digit Classification".

    Examples
    --------
    >>> lp_pooling(4)
    (Power(exponent=4.0), Power(exponent=0.25))
    """
    check_positive("exponent", exponent)
    return Power(float(exponent)), Power(1.0 / exponent)


def gaussian(behind: Integers, pool_size: int) -> Floats:
    """Return weights exp(-d^2 / (2 s^2)) / sum, d from the box's middle and s = Q / sqrt(12)."""

    def bell(behind: Integers) -> Floats:
        return np.exp(-6.0 * ((behind - (pool_size - 1) / 2) / pool_size) ** 2)

    # They add up to 1 over all positions of an image without edges.
    return np.asarray(bell(behind) / bell(np.arange(-6 * pool_size, 7 * pool_size)).sum())


WINDOWS: dict[str, Callable[[Integers, int], Floats]] = {
    # 1/Q where a position lies 0 to Q - 1 behind the window's end, 0 elsewhere.
    "box": lambda behind, pool_size: ((behind >= 0) & (behind < pool_size)) / pool_size,
    "gaussian": gaussian,
}


@dataclass(frozen=True)
class Axis:
    """The geometry of stage 1 along one axis, as `ConvolutionalFeatures` has it for both."""

    pool_size: int = 1
    stride: int = 1
    padding: int = 0
    drop_ring: int = 0
    window: str = "box"

    def convolved_size(self, image_size: int, filter_size: int) -> int:
        """Return J - W + 1, the length of the convolved image, 0 if the filter does not fit."""
        return max(0, image_size + 2 * self.padding - filter_size + 1)

    def pooled_size(self, image_size: int, filter_size: int) -> int:
        """Return ceil((J - W + Q) / D), the length of the downsampled map, 0 if none is left."""
        convolved = self.convolved_size(image_size, filter_size)
        full = convolved + self.pool_size - 1 - 2 * self.drop_ring
        return ceil(max(0, full) / self.stride) if convolved else 0

    def pooling_matrix(self, image_size: int, filter_size: int, dtype: type) -> Matrix:
        """Return pooling, ring and stride as a matrix (pooled_size, convolved_size)."""
        kept = self.drop_ring + self.stride * np.arange(self.pooled_size(image_size, filter_size))
        behind = kept[:, None] - np.arange(self.convolved_size(image_size, filter_size))
        return WINDOWS[self.window](behind, self.pool_size).astype(dtype)


@dataclass(frozen=True)
class Convolution:
    """What stage 1 does to images, apart from the filters; see `ConvolutionalFeatures`."""

    rows: Axis
    columns: Axis
    normalization: str | None = "map"
    before_pooling: Power | TwoSidedRectifier = SQUARE
    after_pooling: Power = FOURTH_ROOT
    channels: str = "each"
    contrast_offset: float | None = None

    @property
    def power(self) -> float:
        """The power of a response that a feature is, far from a rectifier's threshold."""
        return self.before_pooling.exponent * self.after_pooling.exponent

    def n_groups(self, n_channels: int) -> int:
        """Return how many groups of channels there are, each summed: of one, or of all."""
        return 1 if self.channels == "joint" else n_channels

    def grouped(self, values: Matrix) -> Matrix:
        """Return values (..., n_channels) as (..., n_groups, channels of a group)."""
        return values.reshape(*values.shape[:-1], self.n_groups(values.shape[-1]), -1)

    def pooled_shape(self, image_shape: Shape, filters: Matrix) -> tuple[int, int]:
        """Return height and width of the pooled maps, 0 where nothing is left."""
        rows = self.rows.pooled_size(image_shape[0], filters.shape[1])
        return rows, self.columns.pooled_size(image_shape[1], filters.shape[2])

    def check_room(self, images: Matrix, filters: Matrix) -> None:
        """Raise if features, and what a padded image is turned into, cannot fit into memory."""
        n_images, height, width, n_channels = images.shape
        padded = height + 2 * self.rows.padding, width + 2 * self.columns.padding
        n_maps = self.n_groups(n_channels) * self.before_pooling.n_maps * len(filters)
        n_features = n_maps * prod(self.pooled_shape((height, width), filters))
        # A line for every column of a filter, and of one filter its response and its maps.
        lines = filters.shape[2] * n_channels + 1 + self.before_pooling.n_maps
        n_bytes = images.itemsize * (prod(padded) * lines + n_images * n_features)
        what = "{:,} images of {:,} x {:,} with their padding, of {:,} features,"
        remedy = "Lower padding, raise stride, or pass fewer images at once."
        check_room(n_bytes, what, n_images, *padded, n_features, remedy=remedy)

    def patches(self, images: Matrix, filter_shape: Shape, group: int, scratch: Scratch) -> Matrix:
        """Return the patches (n / group, rows, values, group * columns), held by `scratch`."""
        # Of `group` images the columns of positions stand beside one another.
        below, beside = self.rows.padding, self.columns.padding
        if below or beside:
            images = np.pad(images, ((0, 0), (below, below), (beside, beside), (0, 0)))
        n_images, height, width, n_channels = images.shape
        filter_height, filter_width = filter_shape
        n_groups, columns = n_images // group, width - filter_width + 1
        by_image, by_row, by_column, by_channel = images.strides
        shape = (n_groups, height, filter_width, n_channels, group, columns)
        strides = (group * by_image, by_row, by_column, by_channel, by_image, by_column)
        lines = scratch.array("lines", shape, images.dtype)
        lines[:] = as_strided(images, shape, strides, writeable=False)
        # Only a row of the filters is copied for every pixel: patches of one row of positions
        # begin where those of the row above go on, a line further down.
        per_line, across = filter_width * n_channels, group * columns
        flat = lines.reshape(n_groups, height, per_line, across)
        stacked = (n_groups, height - filter_height + 1, filter_height * per_line, across)
        patches = as_strided(flat, stacked, flat.strides, writeable=False)
        if self.contrast_offset is None:
            return patches
        return normalize_contrast(patches, self.contrast_offset, axis=2)

    def responses(self, patches: Matrix, kernel: Matrix, offset: Matrix, found: Matrix) -> Any:
        """Return the parts (n / group, rows, n_filters, group * columns) of the responses."""
        np.matmul(kernel, patches, out=found)
        if offset.any():
            found += offset[:, None]
        return self.before_pooling.apply(found)

    def offsets_of_groups(self, offsets: Matrix, n_channels: int) -> Matrix:
        """Return what is added to the responses of groups of channels (n_groups, n_filters)."""
        if offsets.ndim == 1:
            return offsets[None].repeat(self.n_groups(n_channels), axis=0)
        by_channel = np.broadcast_to(offsets, (len(offsets), n_channels))
        return np.asarray(self.grouped(by_channel).sum(axis=2).T)


def pool(maps: Matrix, scratch: Scratch, pool_rows: Matrix, pool_columns: Matrix) -> Matrix:
    """Average maps (n_groups, rows, ..., columns) along rows and then along columns."""
    # Two calls for all maps, of stacks of products that BLAS does not divide among its threads:
    # several threads may pool at the same time.
    n_groups, n_lines, columns = len(maps), maps[0, 0].size, maps.shape[-1]
    step = _small_step(n_lines, SMALL_PRODUCT // pool_rows.size)
    along_rows = scratch.array("along_rows", (n_groups, len(pool_rows), n_lines), maps.dtype)
    cut = [each.reshape(n_groups, -1, n_lines // step, step) for each in (maps, along_rows)]
    np.matmul(pool_rows, cut[0].swapaxes(1, 2), out=cut[1].swapaxes(1, 2))
    lines = along_rows.reshape(-1, columns)
    step = _small_step(len(lines) // n_groups, SMALL_PRODUCT // pool_columns.size)
    pooled = scratch.array("pooled", (len(lines) // step, step, len(pool_columns)), maps.dtype)
    # Measured: by columns of their own, not by rows turned over, in two thirds of the time.
    np.matmul(lines.reshape(-1, step, columns), np.ascontiguousarray(pool_columns.T), out=pooled)
    return pooled.reshape(n_groups, len(pool_rows), *maps.shape[2:-1], len(pool_columns))


@lru_cache(maxsize=256)
def _small_step(n: int, most: int) -> int:
    """Return the largest divisor of n that is at most `most`, at least 1."""
    return next(step for step in range(max(1, min(most, n)), 0, -1) if n % step == 0)


def normalize(features: Matrix, by: str) -> None:
    """Divide maps (n, ..., n_positions), none negative, by their sum, or images by their length."""
    rows = features if by == "map" else features.reshape(len(features), -1)
    sizes = rows.sum(axis=-1) if by == "map" else np.sqrt(np.vecdot(rows, rows))
    # Zeros stay.
    sizes[sizes == 0.0] = 1.0
    rows /= sizes[..., None]


ROUNDINGS = 16.0
"""Rounding errors of a convolution, relative to the brightest pixel times the filter's size."""


def faintest_maps(images: Matrix, filters: Matrix, offsets: Matrix, stage: Convolution) -> Floats:
    """Return how large maps (n, n_groups, n_filters) of grouped channels may be by rounding."""
    # (16 eps s)^p, with s the largest sum of products that a response may consist of.
    brightest = np.abs(images).max(axis=(1, 2)).astype(np.float64)
    if stage.contrast_offset is not None:
        # Less than this is left of a pixel without the mean of its patch.
        brightest[:] = 2.0 * brightest.max(axis=2, keepdims=True) / np.sqrt(stage.contrast_offset)
    # Not by a product of matrices: its last digits depend on how many images there are.
    strengths = np.abs(filters).sum(axis=(1, 2)).swapaxes(0, 1)
    sums: Floats = (brightest[:, :, None] * strengths).sum(axis=-1)
    if stage.contrast_offset is not None:
        sums = np.minimum(sums, _longest(filters))
    sums += np.abs(offsets, dtype=np.float64)
    return np.asarray((ROUNDINGS * np.finfo(images.dtype).eps * sums) ** stage.power)


def _longest(filters: Matrix) -> Floats:
    """Return the largest responses (n_groups, n_filters) to patches of length sqrt(K)."""
    flat = np.moveaxis(filters, 3, 0).reshape(filters.shape[3], len(filters), -1)
    return np.asarray(np.sqrt(flat.shape[2]) * np.linalg.norm(flat, axis=2))


LARGEST_SHARE = {"float32": 1e30, "float64": 1e120}
"""Largest feature of a map that is divided by its sum, of up to 100 million positions."""

LARGEST_FEATURE = {"float32": 1e13, "float64": 1e60}
"""Largest feature whose hidden activations, and their squares, still fit the precision."""


def largest_pixel(
    filters: Matrix, offsets: Matrix, stage: Convolution, dtype: str, next_dtype: str
) -> float:
    """Return the largest magnitude of a pixel for which nothing leaves the range of a precision."""
    # With r the largest response, its power r^p before pooling must stay below 1e34 in float32 and
    # 1e120 in float64, and the feature r^(p q) below 1e13 and 1e60, so that hidden activations and
    # their squares fit as well (or below 1e30 and 1e120, if it is divided by its map's sum).
    largest = LARGEST_PIXEL[dtype]
    features = {"map": LARGEST_SHARE[dtype], "image": LARGEST_FEATURE[dtype]}
    feature = features.get(str(stage.normalization), LARGEST_FEATURE[next_dtype])
    before = log10(largest) * 2.0 / stage.before_pooling.exponent
    allowed = 10.0 ** min(log10(largest), before, log10(feature) / stage.power)
    filters = stage.grouped(filters)
    fixed = float(np.abs(offsets).max())
    if stage.contrast_offset is not None:
        # Responses to patches of normalised contrast do not depend on the pixels.
        fixed += float(_longest(filters).max())
    if fixed > allowed:
        return 0.0
    if stage.contrast_offset is not None:
        return largest / float(np.sqrt(filters[0, :, :, 0].size))
    strength = float(np.abs(filters).sum(axis=(1, 2, 4)).max())
    return min((allowed - fixed) / strength, largest**2) if strength else largest**2


TILE_FILTERS = 128
TILE_BYTES = 1 << 21
"""Filters and bytes of maps computed at once. Measured: larger tiles fall out of the cache, and
smaller ones pay for more calls, for which threads wait for one another."""


def _tile_sizes(kernels: Matrix, pooling: list[Matrix], n_maps: int) -> tuple[int, int, int]:
    """Return how many filters, images of one product, and images are dealt with at once."""
    n_filters, n_values = kernels.shape[1:]
    rows, columns = (matrix.shape[1] for matrix in pooling)
    n_bytes, products = rows * columns * kernels.itemsize * n_maps, n_values * columns
    most = max(1, min(TILE_FILTERS, TILE_BYTES // n_bytes, SMALL_PRODUCT // products))
    n_filters = min(n_filters, most)
    together = max(1, SMALL_PRODUCT // (products * n_filters))
    by_group = n_bytes * n_filters * together
    return n_filters, together, together * max(1, TILE_BYTES // by_group)


PART_IMAGES = 512
"""Images, at most, that one thread deals with before it takes others.

Measured: with a quarter of them 1,000 images take a tenth longer, as threads meet more often.
"""


def convolve(
    images: Matrix, filters: Matrix, stage: Convolution, offsets: Matrix | None = None
) -> Matrix:
    """Turn images (n, height, width, n_channels) into features (n, n_features) of their dtype."""
    # For every channel x and filter h: u = g1(x * h + offset), v = g2(u * 1/Q^2), then every D-th
    # position of v, divided by the sum over positions; with g1 the square and g2 the fourth root
    # Algorithm 1. Ordered by channel (if each is kept apart), side of the rectifier (above, then
    # below), filter, row and column.
    n_images, *sides, n_channels = images.shape
    filters = np.broadcast_to(filters, (*filters.shape[:3], n_channels))
    stage.check_room(images, filters)
    given = np.zeros(len(filters)) if offsets is None else offsets
    added = stage.offsets_of_groups(given, n_channels).astype(images.dtype)
    images, filters = stage.grouped(images), stage.grouped(filters)
    # As rows, turned by 180 degrees as a convolution turns them.
    turned = np.moveaxis(filters[:, ::-1, ::-1], 3, 0)
    kernels = np.ascontiguousarray(turned.reshape(*turned.shape[:2], -1), images.dtype)
    axes = zip((stage.rows, stage.columns), sides, filters.shape[1:3], strict=True)
    pooling = [axis.pooling_matrix(j, w, images.dtype.type) for axis, j, w in axes]
    n_maps = stage.before_pooling.n_maps
    tile_filters, together, tile_images = _tile_sizes(kernels, pooling, n_maps)
    shape = (len(kernels), n_maps, len(filters), *map(len, pooling))
    features, scratch = np.empty((n_images, *shape), dtype=images.dtype), Scratch()

    def fill(some: slice, together: int) -> None:
        """Write the pooled maps of some images."""
        for group, offset in enumerate(added):
            part = images[some, :, :, group]
            patches = stage.patches(part, filters.shape[1:3], together, scratch)
            for those in slices(0, len(filters), tile_filters):
                sizes = (*patches.shape[:2], len(filters[those]), patches.shape[3])
                found = scratch.array("responses", sizes, patches.dtype)
                parts = stage.responses(patches, kernels[group, those], offset[those], found)
                for side, maps in enumerate(parts):
                    by_image = maps.reshape(*maps.shape[:3], together, -1)
                    in_order = pool(by_image, scratch, *pooling).transpose(0, 3, 2, 1, 4)
                    features[some, group, side, those].reshape(in_order.shape)[:] = in_order

    def work(part: slice) -> None:
        whole = part.stop - (part.stop - part.start) % together
        # What is left at the end is dealt with one by one.
        rest = slices(whole, part.stop, together)
        for some in (*slices(part.start, whole, tile_images), *rest):
            fill(some, together if some.start < whole else 1)
        stage.after_pooling.apply(features[part])
        if stage.normalization is not None:
            maps = features[part].reshape(-1, *shape[:3], shape[3] * shape[4])
            # What is nothing but rounding errors, as a filter of zero mean leaves of even
            # brightness, would pass for a strong response once it is divided by its size.
            faintest = faintest_maps(images[part], filters, added, stage)
            maps[maps.max(axis=-1) <= faintest[:, :, None]] = 0.0
            normalize(maps, stage.normalization)

    in_threads(work, even_parts(n_images, together, PART_IMAGES))
    return features.reshape(n_images, -1)
