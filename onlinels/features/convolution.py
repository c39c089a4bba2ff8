"""What stage 1 does to images: geometry, nonlinearities, channels and contrast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log10, prod
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onlinels.checks import Floats, Integers, Matrix, check_not_negative, check_positive, check_room
from onlinels.features.images import LARGEST_PIXEL
from onlinels.features.preprocessing import normalize_contrast
from onlinels.numerics import SMALL_PRODUCT, Scratch, even_parts, in_threads


@dataclass(frozen=True)
class Power:
    """The power |u|^exponent of every response u.

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
        if self.exponent != 2.0:
            np.abs(values, out=values)
        self.raise_sizes(values)
        return (values,)

    def raise_sizes(self, values: Matrix) -> None:
        """Put powers in the place of values that are not negative."""
        if self.exponent in (0.5, 0.25):
            np.sqrt(values, out=values)
        if self.exponent == 0.25:
            np.sqrt(values, out=values)
        elif self.exponent == 2.0:
            np.square(values, out=values)
        elif self.exponent not in (0.5, 1.0):
            np.power(values, values.dtype.type(self.exponent), out=values)


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

    (mean |u|^p)^(1/p), the Lp norm up to a constant: p = 1 averages the sizes of responses, larger
    ones come closer to their maximum.

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


def box(behind: Integers, pool_size: int) -> Floats:
    """Return 1/Q where a position lies 0 to Q - 1 behind the window's end, 0 elsewhere."""
    within: Floats = ((behind >= 0) & (behind < pool_size)) / pool_size
    return within


def gaussian(behind: Integers, pool_size: int) -> Floats:
    """Return weights exp(-d^2 / (2 s^2)), d from the box's middle and s = Q / sqrt(12).

    They add up to 1 over all positions of an image without edges.
    """
    around = np.arange(-6 * pool_size, 7 * pool_size)
    weights: Floats = _bell(behind, pool_size) / _bell(around, pool_size).sum()
    return weights


def _bell(behind: Integers, pool_size: int) -> Floats:
    middle = (pool_size - 1) / 2
    bell: Floats = np.exp(-6.0 * ((behind - middle) / pool_size) ** 2)
    return bell


WINDOWS: dict[str, Callable[[Integers, int], Floats]] = {"box": box, "gaussian": gaussian}


@dataclass(frozen=True)
class Axis:
    """The geometry of stage 1 along one axis, apart from the filters.

    Parameters
    ----------
    pool_size : int
        Length Q of the pooling window, in pixels.
    stride : int
        Downsampling D of the pooled map.
    padding : int
        Blank pixels added at both ends before the convolution. 0 is the paper's valid
        convolution, ``filter_size - 1`` a full one.
    drop_ring : int
        Pooled positions left out at both ends before downsampling. Their windows hang over the
        edge of the convolved image.
    window : "box" or "gaussian"
        What positions are weighed by: alike over Q of them, or by a gaussian about the middle of
        these with the standard deviation Q / sqrt(12), that of a continuous box.
    """

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
        """Return pooling, ring and stride as a matrix.

        Returns
        -------
        ndarray (pooled_size, convolved_size)
            Row k averages the convolved positions under the window of the k-th kept position.
            Positions beyond the edge count as 0.
        """
        convolved = self.convolved_size(image_size, filter_size)
        kept = self.drop_ring + self.stride * np.arange(self.pooled_size(image_size, filter_size))
        behind = kept[:, None] - np.arange(convolved)[None, :]
        return WINDOWS[self.window](behind, self.pool_size).astype(dtype)


def pool(maps: Matrix, pool_rows: Matrix, pool_columns: Matrix, scratch: Scratch) -> Matrix:
    """Average maps over windows, along rows and then along columns.

    Parameters
    ----------
    maps : ndarray (n_groups, rows, ..., columns), C order
    pool_rows : ndarray (pooled_rows, rows)
    pool_columns : ndarray (pooled_columns, columns)
    scratch : Scratch
        Holds the result until the next call.

    Returns
    -------
    ndarray (n_groups, pooled_rows, ..., pooled_columns)

    Notes
    -----
    Two calls for all maps, as rows come first and columns last, of stacks of products that BLAS
    does not divide among its threads: several threads may pool at the same time.

    Examples
    --------
    >>> average = np.full((1, 4), 0.25)
    >>> pool(np.ones((3, 4, 7, 2, 4)), average, average, Scratch()).shape
    (3, 1, 7, 2, 1)
    """
    n_groups, columns = len(maps), maps.shape[-1]
    n_lines = maps[0, 0].size
    step = _small_step(n_lines, SMALL_PRODUCT // pool_rows.size)
    along_rows = scratch.array("along_rows", (n_groups, len(pool_rows), n_lines), maps.dtype)
    cut = [each.reshape(n_groups, -1, n_lines // step, step) for each in (maps, along_rows)]
    np.matmul(pool_rows, cut[0].swapaxes(1, 2), out=cut[1].swapaxes(1, 2))
    lines = along_rows.reshape(-1, columns)
    step = _small_step(len(lines) // n_groups, SMALL_PRODUCT // pool_columns.size)
    shape = (len(lines) // step, step, len(pool_columns))
    pooled = scratch.array("pooled", shape, maps.dtype)
    # Measured: by columns of their own, not by rows turned over, in two thirds of the time.
    np.matmul(lines.reshape(-1, step, columns), np.ascontiguousarray(pool_columns.T), out=pooled)
    return pooled.reshape(n_groups, len(pool_rows), *maps.shape[2:-1], len(pool_columns))


@lru_cache(maxsize=256)
def _small_step(n: int, most: int) -> int:
    """Return the largest divisor of n that is at most `most`, at least 1."""
    return next(step for step in range(max(1, min(most, n)), 0, -1) if n % step == 0)


def normalize_maps(features: Matrix) -> None:
    """Divide every map (each side of a rectifier on its own) by its sum, in place.

    Parameters
    ----------
    features : ndarray (n, ..., n_positions)
        Not negative. A map of zeros stays.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), Algorithm 1.

    Examples
    --------
    >>> maps = np.array([[[1.0, 3.0], [0.0, 0.0]]])
    >>> normalize_maps(maps)
    >>> maps
    array([[[0.25, 0.75],
            [0.  , 0.  ]]])
    """
    totals = features.sum(axis=-1, keepdims=True)
    totals[totals == 0.0] = 1.0
    features /= totals


def normalize_images(features: Matrix) -> None:
    """Divide all features of an image by their length, in place.

    Parameters
    ----------
    features : ndarray (n, ...)
        Those of an image without any but zeros stay.

    Examples
    --------
    >>> images = np.array([[[3.0, 0.0], [0.0, 4.0]]])
    >>> normalize_images(images)
    >>> images
    array([[[0.6, 0. ],
            [0. , 0.8]]])
    """
    rows = features.reshape(len(features), -1)
    lengths = np.sqrt(np.vecdot(rows, rows))
    lengths[lengths == 0.0] = 1.0
    rows /= lengths[:, None]


NORMALIZATIONS: dict[str, Callable[[Matrix], None]] = {
    "map": normalize_maps,
    "image": normalize_images,
}


def check_normalize(normalize: Any) -> None:
    """Raise unless `normalize` is known.

    Raises
    ------
    ValueError
        If it is no bool and no name of a normalisation.
    """
    known = isinstance(normalize, (bool, np.bool_))
    if not known and not (isinstance(normalize, str) and normalize in NORMALIZATIONS):
        raise ValueError(
            f"normalize={normalize!r} is not known. Pass True, False, "
            f"{' or '.join(map(repr, NORMALIZATIONS))}."
        )


ROUNDINGS = 16.0
"""Rounding errors of a convolution, relative to the brightest pixel times the filter's size."""

LARGEST_SHARE = {"float32": 1e30, "float64": 1e120}
"""Largest feature of a map that is divided by its sum, of up to 100 million positions."""

LARGEST_FEATURE = {"float32": 1e13, "float64": 1e60}
"""Largest feature whose hidden activations, and their squares, still fit the precision."""


def faintest_maps(images: Matrix, filters: Matrix, offsets: Matrix, stage: Convolution) -> Floats:
    """Return how large maps may be by rounding errors alone.

    (16 eps s)^(p q), with s the largest sum of products that a response may consist of, p the
    power before pooling (1 of a rectifier) and q that after it.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
    filters : ndarray (n_filters, filter_height, filter_width, n_channels)
    offsets : ndarray (n_groups, n_filters)
    stage : Convolution

    Returns
    -------
    ndarray (n, n_groups, n_filters), float64
    """
    groups = [
        _sizes(images[..., channels], filters[..., channels], stage)
        for channels in stage.groups(images.shape[3])
    ]
    sums = np.stack(groups, axis=1) + np.abs(offsets, dtype=np.float64)
    exponent = stage.before_pooling.exponent * stage.after_pooling.exponent
    faintest: Floats = (ROUNDINGS * np.finfo(images.dtype).eps * sums) ** exponent
    return faintest


def _sizes(images: Matrix, filters: Matrix, stage: Convolution) -> Floats:
    """Return the largest sum of products (n, n_filters) of pixels and filters.

    That is the brightest pixel times the filter's absolute sum, by channel. After normalisation no
    pixel of a patch is over the difference of the image's brightest and darkest divided by
    sqrt(contrast_offset): 0 of an image that is even throughout.
    """
    if stage.contrast_offset is None:
        brightest = np.abs(images).max(axis=(1, 2)).astype(np.float64)
        # Not by a product of matrices: its last digits depend on how many images there are.
        strengths = np.abs(filters).sum(axis=(1, 2))
        sizes: Floats = (brightest[:, None] * strengths).sum(axis=-1)
        return sizes
    low = images.min(axis=(1, 2, 3)).astype(np.float64)
    high = images.max(axis=(1, 2, 3)).astype(np.float64)
    if stage.rows.padding or stage.columns.padding:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    by_range = (high - low) / np.sqrt(stage.contrast_offset)
    strengths = np.abs(filters).sum(axis=(1, 2, 3))
    return np.minimum(np.outer(by_range, strengths), _longest_responses(filters))


def _longest_responses(filters: Matrix) -> Floats:
    """Return the largest responses (n_filters,) to normalised patches, of length sqrt(K)."""
    flat = filters.reshape(len(filters), -1)
    longest: Floats = np.sqrt(flat.shape[1]) * np.linalg.norm(flat, axis=1)
    return longest


def largest_pixel(
    filters: Matrix, offsets: Matrix, stage: Convolution, dtype: str, next_dtype: str
) -> float:
    """Return the largest magnitude of a pixel for which nothing leaves the range of a precision.

    With r the largest response, its power r^p before pooling must stay below 1e34 in float32 and
    1e120 in float64, and the feature r^(p q) below 1e13 and 1e60, so that hidden activations and
    their squares fit as well (or below 1e30 and 1e120, if it is divided by its map's sum).

    Parameters
    ----------
    filters : ndarray (n_filters, filter_height, filter_width, n_channels)
    offsets : ndarray (n_groups, n_filters)
    stage : Convolution
    dtype, next_dtype : "float32" or "float64"
        The precision of the features, and of what takes them.

    Raises
    ------
    ValueError
        If the filters themselves are too large: their offsets, or their responses to patches of
        normalised contrast, which do not depend on the pixels.
    """
    largest = LARGEST_PIXEL[dtype]
    before, after = stage.before_pooling.exponent, stage.after_pooling.exponent
    feature = LARGEST_FEATURE[next_dtype]
    if stage.normalization is not None:
        feature = LARGEST_SHARE[dtype] if stage.normalization == "map" else LARGEST_FEATURE[dtype]
    room = (log10(largest), log10(largest) * 2.0 / before, log10(feature) / (before * after))
    allowed = 10.0 ** min(room)
    groups = [filters[..., channels] for channels in stage.groups(filters.shape[3])]
    fixed = float(np.abs(offsets).max())
    if stage.contrast_offset is not None:
        fixed += max(float(_longest_responses(bank).max()) for bank in groups)
    if fixed > allowed:
        raise ValueError(
            f"filters and their offsets give responses as large as {fixed:g}, expected at most "
            f"{allowed:g} for {stage.before_pooling}, {stage.after_pooling} and dtype={dtype!r}. "
            "Rescale them."
        )
    if stage.contrast_offset is not None:
        return largest / float(np.sqrt(groups[0][0].size))
    strength = max(float(np.abs(bank).sum(axis=(1, 2, 3)).max()) for bank in groups)
    return min((allowed - fixed) / strength, largest**2) if strength else largest**2


TILE_FILTERS = 128
TILE_BYTES = 1 << 21
"""Filters and bytes of maps computed at once. Measured: larger tiles fall out of the cache, and
smaller ones pay for more calls, for which threads wait for one another."""


class Tiles:
    """The part of stage 1 that is done tile by tile, for channels whose responses are summed.

    Parameters
    ----------
    filters : ndarray (n_filters, filter_height, filter_width, n_channels)
    offsets : ndarray (n_filters,)
        Added to the responses.
    pooling : tuple of ndarray
        Pooling along rows and along columns as matrices, in the dtype of the images.
    stage : Convolution
    """

    def __init__(
        self, filters: Matrix, offsets: Matrix, pooling: tuple[Matrix, Matrix], stage: Convolution
    ) -> None:
        self.filter_shape = filters.shape[1:3]
        self.kernel = _kernel_rows(filters, pooling[0].dtype.type)
        self.offsets = offsets[:, None] if offsets.any() else None
        self.pooling = pooling
        self.stage = stage
        self._measure(len(filters), pooling[0].shape[1], pooling[1].shape[1])

    def _measure(self, n_filters: int, rows: int, columns: int) -> None:
        """Choose how many filters, and images, make up a tile."""
        n_bytes = rows * columns * self.kernel.itemsize * self.stage.before_pooling.n_maps
        products = self.kernel.shape[1] * columns
        most = max(1, min(TILE_FILTERS, TILE_BYTES // n_bytes, SMALL_PRODUCT // products))
        self.tile_filters = min(n_filters, most)
        self.together = max(1, SMALL_PRODUCT // (products * self.tile_filters))
        by_group = n_bytes * self.tile_filters * self.together
        self.tile_images = self.together * max(1, TILE_BYTES // by_group)

    def fill(self, features: Matrix, images: Matrix, scratch: Scratch) -> None:
        """Write the pooled maps of images.

        Parameters
        ----------
        features : ndarray (n, n_sides, n_filters, pooled_rows, pooled_columns), written to
        images : ndarray (n, height, width, n_channels)
        scratch : Scratch
        """
        whole = len(images) - len(images) % self.together
        for start in range(0, whole, self.tile_images):
            some = slice(start, min(start + self.tile_images, whole))
            self._fill_some(features[some], images[some], self.together, scratch)
        if whole < len(images):
            # What is left at the end, one by one.
            self._fill_some(features[whole:], images[whole:], 1, scratch)

    def _fill_some(self, features: Matrix, images: Matrix, together: int, scratch: Scratch) -> None:
        patches = self.stage.patches(images, self.filter_shape, together, scratch)
        for first in range(0, len(self.kernel), self.tile_filters):
            those = slice(first, first + self.tile_filters)
            self._fill_tile(features[:, :, those], patches, those, together, scratch)

    def _fill_tile(
        self, features: Matrix, patches: Matrix, those: slice, together: int, scratch: Scratch
    ) -> None:
        """Write the pooled maps of some images and filters."""
        shape = (*patches.shape[:2], features.shape[2], patches.shape[3])
        responses = scratch.array("responses", shape, patches.dtype)
        np.matmul(self.kernel[those], patches, out=responses)
        if self.offsets is not None:
            responses += self.offsets[those]
        for side, maps in enumerate(self.stage.before_pooling.apply(responses)):
            by_image = maps.reshape(*shape[:3], together, -1)
            in_order = pool(by_image, *self.pooling, scratch).transpose(0, 3, 2, 1, 4)
            features[:, side].reshape(in_order.shape)[:] = in_order


def _kernel_rows(filters: Matrix, dtype: type) -> Matrix:
    """Return the filters as rows, turned by 180 degrees as a convolution turns them."""
    return np.ascontiguousarray(filters[:, ::-1, ::-1].reshape(len(filters), -1), dtype=dtype)


PART_IMAGES = 512
"""Images, at most, that one thread deals with before it takes others.

Measured: with a quarter of them 1,000 images take a tenth longer, as threads meet more often.
"""


def convolve(
    images: Matrix, filters: Matrix, stage: Convolution, offsets: Matrix | None = None
) -> Matrix:
    """Turn images into shallow convolutional features.

    For every channel x and filter h: u = g1(x * h + offset), v = g2(u * 1/Q^2), then every D-th
    position of v, divided by the sum over positions; with g1 the square and g2 the fourth root
    Algorithm 1 of the paper.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels), float32 or float64
    filters : ndarray (n_filters, filter_height, filter_width, 1 or n_channels)
        A single channel is applied to every channel of the images.
    stage : Convolution
    offsets : ndarray (n_filters,) or (n_filters, 1 or n_channels), optional
        For every map of a filter, or for each channel's response.

    Returns
    -------
    ndarray (n, n_features), dtype of `images`
        Ordered by channel (if each is kept apart), side of the rectifier (above, then below),
        filter, row and column.

    Notes
    -----
    n * C * P * W^2 * J^2 multiplications, in tiles of at most 128 filters and 2 MiB of maps, by
    stacks of products that BLAS does not divide among its threads. W C lines for every row of
    their images are held as well. Parts of the images are dealt with at the same time, on as
    many threads as `onlinels.numerics.n_threads` says; their number does not change the result.

    Examples
    --------
    >>> from onlinels.features.convolution import Axis
    >>> image, bar = np.eye(6).reshape(1, 6, 6, 1), np.ones((2, 1, 3, 1))
    >>> stage = Convolution(rows=Axis(2, 2), columns=Axis(2, 2))
    >>> convolve(image, bar, stage).shape
    (1, 24)
    """
    n_channels = images.shape[3]
    filters = repeat_channel(filters, n_channels)
    stage.check_room(images, filters)
    given = np.zeros(len(filters)) if offsets is None else offsets
    added = stage.offsets_of_groups(given, n_channels).astype(images.dtype)
    pooling = stage.pooling_matrices(images.shape[1:], filters, images.dtype.type)
    groups = list(zip(stage.groups(n_channels), added, strict=True))
    tiles = [Tiles(filters[..., each], offset, pooling, stage) for each, offset in groups]
    shape = (len(groups), stage.before_pooling.n_maps, len(filters), *map(len, pooling))
    features = np.empty((len(images), *shape), dtype=images.dtype)
    scratch = Scratch()

    def work(part: slice) -> None:
        """Write the features of some of the images."""
        for group, (channels, _) in enumerate(groups):
            tiles[group].fill(features[part, group], images[part, ..., channels], scratch)
        stage.after_pooling.raise_sizes(features[part])
        if stage.normalization is not None:
            maps = features[part].reshape(-1, *shape[:3], shape[3] * shape[4])
            # What is nothing but rounding errors, as a filter of zero mean leaves of even
            # brightness, would pass for a strong response once it is divided by its size.
            _clear_faint(maps, faintest_maps(images[part], filters, added, stage))
            NORMALIZATIONS[stage.normalization](maps)

    in_threads(work, even_parts(len(images), tiles[0].together, PART_IMAGES))
    return features.reshape(len(images), -1)


def _clear_faint(maps: Matrix, faintest: Floats) -> None:
    """Set maps (n, n_groups, n_sides, n_filters, n_positions) to 0 that are nowhere brighter."""
    # Few images have a map that is faint in its middle, and only of these every position is read.
    in_the_middle = maps[..., maps.shape[-1] // 2] <= faintest[:, :, None]
    for image in np.flatnonzero(in_the_middle.any(axis=(1, 2, 3))):
        faint = maps[image].max(axis=-1) <= faintest[image, :, None]
        maps[image, faint] = 0.0


CHANNELS = ("each", "joint")


@dataclass(frozen=True)
class Convolution:
    """What stage 1 does to images, apart from the filters.

    Parameters
    ----------
    rows, columns : Axis
        The geometry along the height and along the width.
    normalization : "map", "image" or None
        What features are divided by.
    before_pooling : Power or TwoSidedRectifier
    after_pooling : Power
    channels : "each" or "joint"
        Whether every channel is convolved and kept apart, or responses are summed over channels.
    contrast_offset : float or None
        Added to the variance of every patch that is brought to mean 0 and variance 1; None
        leaves patches as they are.
    """

    rows: Axis
    columns: Axis
    normalization: str | None = "map"
    before_pooling: Power | TwoSidedRectifier = SQUARE
    after_pooling: Power = FOURTH_ROOT
    channels: str = "each"
    contrast_offset: float | None = None

    def groups(self, n_channels: int) -> list[slice]:
        """Return the channels whose responses are summed: one by one, or all of them."""
        if self.channels == "joint":
            return [slice(0, n_channels)]
        return [slice(channel, channel + 1) for channel in range(n_channels)]

    def pooled_shape(self, image_shape: tuple[int, ...], filters: Matrix) -> tuple[int, int]:
        """Return height and width of the pooled maps, 0 where nothing is left."""
        _, filter_height, filter_width, _ = filters.shape
        return (
            self.rows.pooled_size(image_shape[0], filter_height),
            self.columns.pooled_size(image_shape[1], filter_width),
        )

    def check_room(self, images: Matrix, filters: Matrix) -> None:
        """Raise if features, and what a padded image is turned into, cannot fit into memory."""
        n_images, height, width, n_channels = images.shape
        padded = height + 2 * self.rows.padding, width + 2 * self.columns.padding
        n_maps = len(self.groups(n_channels)) * self.before_pooling.n_maps * len(filters)
        n_features = n_maps * prod(self.pooled_shape((height, width), filters))
        # A line for every column of a filter, and of one filter its response and its maps.
        lines = filters.shape[2] * n_channels + 1 + self.before_pooling.n_maps
        n_bytes = images.itemsize * (prod(padded) * lines + n_images * n_features)
        what = "{:,} images of {:,} x {:,} with their padding, of {:,} features,"
        remedy = "Lower padding, raise stride, or pass fewer images at once."
        check_room(n_bytes, what, n_images, *padded, n_features, remedy=remedy)

    def pooling_matrices(
        self, image_shape: tuple[int, ...], filters: Matrix, dtype: type
    ) -> tuple[Matrix, Matrix]:
        """Return pooling along rows and along columns as matrices."""
        _, filter_height, filter_width, _ = filters.shape
        return (
            self.rows.pooling_matrix(image_shape[0], filter_height, dtype),
            self.columns.pooling_matrix(image_shape[1], filter_width, dtype),
        )

    def patches(
        self, images: Matrix, filter_shape: tuple[int, ...], group: int, scratch: Scratch
    ) -> Matrix:
        """Return the patch under the filters at every position of padded images.

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
        filter_shape : (filter_height, filter_width)
        group : int
            Images whose columns of positions stand beside one another; n is a multiple of it.
        scratch : Scratch
            Holds the result until the next call.

        Returns
        -------
        ndarray (n / group, rows, filter_height * filter_width * n_channels, group * columns)
            A view, or a new array of normalised contrast if there is a contrast offset.

        Notes
        -----
        Only what lies beside one another is copied, a row of the filters for every pixel: patches
        of one row of positions begin where those of the row above go on, a line further down.
        """
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
        flat = lines.reshape(n_groups, height, filter_width * n_channels, group * columns)
        patches = _overlapping(flat, filter_height)
        if self.contrast_offset is None:
            return patches
        return normalize_contrast(patches, self.contrast_offset, axis=2)

    def offsets_of_groups(self, offsets: Matrix, n_channels: int) -> Matrix:
        """Return what is added to the responses of every group of channels.

        Parameters
        ----------
        offsets : ndarray (n_filters,), (n_filters, 1) or (n_filters, n_channels)
            One number for every map of a filter, or one for each channel's response; of channels
            whose responses are summed the offsets are as well.

        Returns
        -------
        ndarray (n_groups, n_filters)
        """
        groups = self.groups(n_channels)
        if offsets.ndim == 1:
            return offsets[None].repeat(len(groups), axis=0)
        by_channel = repeat_channel(offsets, n_channels).T
        return np.stack([by_channel[channels].sum(axis=0) for channels in groups])


def _overlapping(lines: Matrix, n_lines: int) -> Matrix:
    """Return every `n_lines` successive ones of lines (..., height, k, n), one below the other.

    Returns
    -------
    ndarray (..., height - n_lines + 1, n_lines * k, n)
        A read-only view.

    Examples
    --------
    >>> _overlapping(np.arange(6).reshape(1, 3, 2, 1), 2)[0, ..., 0]
    array([[0, 1, 2, 3],
           [2, 3, 4, 5]])
    """
    *groups, height, per_line, width = lines.shape
    shape = (*groups, height - n_lines + 1, n_lines * per_line, width)
    return as_strided(lines, shape, lines.strides, writeable=False)


def repeat_channel(values: Matrix, n_channels: int) -> Matrix:
    """Return values (..., 1 or n_channels) as (..., n_channels).

    Examples
    --------
    >>> repeat_channel(np.ones((2, 1)), 3).shape
    (2, 3)
    """
    if values.shape[-1] == n_channels:
        return values
    return np.broadcast_to(values, (*values.shape[:-1], n_channels))
