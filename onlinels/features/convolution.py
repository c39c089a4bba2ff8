"""Stage 1 of the paper: convolve, apply a nonlinearity, pool, downsample, normalise.

M. D. McDonnell and T. Vladusich (2015), Algorithm 1. `ConvolutionalFeatures` is the river
transformer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onlinels.checks import (
    PRECISIONS,
    Floats,
    Integers,
    Matrix,
    check_choice,
    check_count,
    check_positive,
    check_room,
    ignoring,
    same,
)
from onlinels.features.filters import (
    FilterRecipe,
    Patches,
    for_channels,
    frozen_filters,
    make_bank,
    recipes,
)
from onlinels.features.images import (
    IMAGE,
    MAX_PIXEL,
    ImageTransformer,
    Kind,
    Shape,
    channels_hint,
    check_image_shape,
    check_pixels,
    check_some,
    full_shape,
    read_images,
    slices,
)
from onlinels.features.transformer import not_made
from onlinels.numerics import MAX_SINGLE_THREAD_PRODUCT, Scratch, even_parts, in_threads
from onlinels.rows.batch import matched_by_position
from onlinels.saving import is_small, savable

N_SQUARE_ROOTS = {1.0: 0, 0.5: 1, 0.25: 2}
"""Number of square roots of an absolute value that make a power, by its exponent."""


def power(values: Matrix, exponent: float) -> Matrix:
    """Replace values u (floats of any shape) by their powers ``|u|^exponent``, and return them.

    ==========  ================================================================
    exponent    cost
    ==========  ================================================================
    2 or 1      one pass over the values
    0.5         two passes
    0.25        three passes
    any other   a logarithm and an exponential per value, about 20 times as slow
    ==========  ================================================================

    With a large exponent, powers of small values underflow: in float32, powers below 1e-45 are 0.
    """
    if exponent == 2.0:
        return np.square(values, out=values)
    np.abs(values, out=values)
    for _ in range(N_SQUARE_ROOTS.get(exponent, 0)):
        np.sqrt(values, out=values)
    if exponent not in N_SQUARE_ROOTS:
        np.power(values, values.dtype.type(exponent), out=values)
    return values


def gaussian_weights(offsets: Integers, pool_size: int) -> Floats:
    """Return weights exp(-d^2 / (2 s^2)) / sum, d from the box's middle and s = Q / sqrt(12)."""

    def bell(offsets: Integers) -> Floats:
        return np.exp(-6.0 * ((offsets - (pool_size - 1) / 2) / pool_size) ** 2)

    # The weights add up to 1 over all positions of an image without edges.
    return np.asarray(bell(offsets) / bell(np.arange(-6 * pool_size, 7 * pool_size)).sum())


POOLING_WEIGHTS: dict[str, Callable[[Integers, int], Floats]] = {
    # 1/Q where a position lies 0 to Q - 1 before the window's end, 0 elsewhere.
    "box": lambda offsets, pool_size: ((offsets >= 0) & (offsets < pool_size)) / pool_size,
    "gaussian": gaussian_weights,
}


def grouped(values: Matrix, channels: str) -> Matrix:
    """Return values (..., n_channels) as (..., n_groups, channels of a group)."""
    # The responses of a group of channels are summed.
    n_groups = 1 if channels == "joint" else values.shape[-1]
    return values.reshape(*values.shape[:-1], n_groups, -1)


def convolution_bytes(shape: Shape, stage: ConvolutionalFeatures) -> int:
    """Return the bytes of the features of images (n, height, width, n_channels) and of one image.

    Raises ValueError if they exceed the memory.
    """
    n_images, *sides, n_channels = shape
    padded, n_features = [side + 2 * stage.padding for side in sides], stage.n_features(shape[1:])
    # One copy of the image for every column of a filter, and one filter's response and map.
    lines = stage.bank.shape[2] * n_channels + 2
    n_values = prod(padded) * lines + n_images * n_features
    n_bytes: int = np.dtype(PRECISIONS[stage.dtype]).itemsize * n_values
    what = "The convolution of {:,} images ({:,} x {:,} with padding) into {:,} features"
    remedy = "Lower padding, raise stride, or pass fewer images at once."
    check_room(n_bytes, what, n_images, *padded, n_features, remedy=remedy)
    return n_bytes


def patches_of(
    images: Matrix, filter_size: int, group: int, padding: int, scratch: Scratch
) -> Matrix:
    """Return the patches (n / group, rows, values, group * columns), held by `scratch`."""
    # The columns of positions of `group` images are side by side.
    if padding:
        margin = (padding, padding)
        images = np.pad(images, ((0, 0), margin, margin, (0, 0)))
    n_images, height, width, n_channels = images.shape
    n_groups, columns = n_images // group, width - filter_size + 1
    by_image, by_row, by_column, by_channel = images.strides
    shape = (n_groups, height, filter_size, n_channels, group, columns)
    strides = (group * by_image, by_row, by_column, by_channel, by_image, by_column)
    lines = scratch.array("lines", shape, images.dtype)
    lines[:] = as_strided(images, shape, strides, writeable=False)
    # Only one row of a patch is copied per pixel: consecutive patches of a column overlap in
    # all rows but one, and are views of the same lines.
    per_line, across = filter_size * n_channels, group * columns
    flat = lines.reshape(n_groups, height, per_line, across)
    stacked = (n_groups, height - filter_size + 1, filter_size * per_line, across)
    return as_strided(flat, stacked, flat.strides, writeable=False)


def pool(maps: Matrix, scratch: Scratch, pool_rows: Matrix, pool_columns: Matrix) -> Matrix:
    """Average maps (n_groups, rows, ..., columns) along rows and then along columns."""
    # Two calls of matmul for all maps. The products in each stack are so small that BLAS does not
    # divide them among its threads, so that several threads can pool at the same time.
    n_groups, n_lines, columns = len(maps), maps[0, 0].size, maps.shape[-1]
    step = _small_step(n_lines, MAX_SINGLE_THREAD_PRODUCT // pool_rows.size)
    along_rows = scratch.array("along_rows", (n_groups, len(pool_rows), n_lines), maps.dtype)
    cut = [each.reshape(n_groups, -1, n_lines // step, step) for each in (maps, along_rows)]
    np.matmul(pool_rows, cut[0].swapaxes(1, 2), out=cut[1].swapaxes(1, 2))
    lines = along_rows.reshape(-1, columns)
    step = _small_step(len(lines) // n_groups, MAX_SINGLE_THREAD_PRODUCT // pool_columns.size)
    pooled = scratch.array("pooled", (len(lines) // step, step, len(pool_columns)), maps.dtype)
    # Measured: a contiguous copy of the transpose takes two thirds of the time of a view.
    np.matmul(lines.reshape(-1, step, columns), np.ascontiguousarray(pool_columns.T), out=pooled)
    return pooled.reshape(n_groups, len(pool_rows), *maps.shape[2:-1], len(pool_columns))


@lru_cache(maxsize=256)
def _small_step(n: int, most: int) -> int:
    """Return the largest divisor of n that is at most `most`, or 1."""
    return next(step for step in range(max(1, min(most, n)), 0, -1) if n % step == 0)


def normalize(features: Matrix, by: str) -> None:
    """Divide non-negative maps (n, ..., n_positions) by their sum, or images by their length."""
    rows = features if by == "map" else features.reshape(len(features), -1)
    sizes = rows.sum(axis=-1) if by == "map" else np.sqrt(np.vecdot(rows, rows))
    # Maps of zeros stay 0.
    sizes[sizes == 0.0] = 1.0
    rows /= sizes[..., None]


MAX_ROUNDING_ERRORS = 16.0
"""Rounding errors of a convolution, in units of eps times the largest sum of products."""


def rounding_bounds(images: Matrix, filters: Matrix, exponent: float) -> Floats:
    """Return the values (n, n_groups, n_filters) up to which maps may be rounding errors."""
    # (16 eps s)^p, where s bounds the sum of the absolute products in a response.
    brightest = np.abs(images).max(axis=(1, 2)).astype(np.float64)
    # Not by a matrix product, whose last digits depend on the number of images.
    strengths = np.abs(filters).sum(axis=(1, 2)).swapaxes(0, 1)
    sums: Floats = (brightest[:, :, None] * strengths).sum(axis=-1)
    return np.asarray((MAX_ROUNDING_ERRORS * np.finfo(images.dtype).eps * sums) ** exponent)


TILE_FILTERS = 128
TILE_BYTES = 1 << 21
"""Filters and bytes of maps computed at once. Measured: larger tiles exceed the cache; smaller ones
need more calls, for which threads wait for one another."""


def _tile_sizes(kernels: Matrix, pooling: list[Matrix]) -> tuple[int, int, int]:
    """Return the numbers of filters, of images per product, and of images computed at once."""
    n_filters, n_values = kernels.shape[1:]
    rows, columns = (matrix.shape[1] for matrix in pooling)
    n_bytes, products = rows * columns * kernels.itemsize, n_values * columns
    most = max(1, min(TILE_FILTERS, TILE_BYTES // n_bytes, MAX_SINGLE_THREAD_PRODUCT // products))
    n_filters = min(n_filters, most)
    per_product = max(1, MAX_SINGLE_THREAD_PRODUCT // (products * n_filters))
    by_group = n_bytes * n_filters * per_product
    return n_filters, per_product, per_product * max(1, TILE_BYTES // by_group)


MAX_IMAGES_PER_TASK = 512
"""Most images that a thread processes before it takes the next part.

Measured: with a quarter of this number, 1,000 images take 10% longer, because threads wait for one
another more often.
"""


def convolve(images: Matrix, filters: Matrix, stage: ConvolutionalFeatures) -> Matrix:
    """Turn images (n, height, width, n_channels) into features (n, n_features) of their dtype.

    The filters have the channels of the images.
    """
    # For every channel x and filter h: u = |x * h|^p, v = (u * 1/Q^2)^q, then every D-th position
    # of v, divided by the sum over positions. This is Algorithm 1 if p = 2 and q = 1/4. Features
    # are ordered by channel (unless channels are joint), filter, row and column.
    n_images, *sides, _ = images.shape
    convolution_bytes(images.shape, stage)
    images, filters = grouped(images, stage.channels), grouped(filters, stage.channels)
    # One row per filter, rotated by 180 degrees: a convolution is a correlation with such filters.
    turned = np.moveaxis(filters[:, ::-1, ::-1], 3, 0)
    kernels = np.ascontiguousarray(turned.reshape(*turned.shape[:2], -1), images.dtype)
    size, divisor = filters.shape[1], NORMALIZATIONS[stage.normalize]
    pooling = [stage._pooling_matrix(side, size, images.dtype.type) for side in sides]
    tile_filters, per_product, tile_images = _tile_sizes(kernels, pooling)
    shape = (len(kernels), len(filters), *map(len, pooling))
    features, scratch = np.empty((n_images, *shape), dtype=images.dtype), Scratch()

    def fill(block: slice, per_product: int) -> None:
        """Write the pooled maps of a block of images."""
        for group, of_group in enumerate(kernels):
            part = images[block, :, :, group]
            patches = patches_of(part, size, per_product, stage.padding, scratch)
            for tile in slices(0, len(filters), tile_filters):
                sizes = (*patches.shape[:2], len(filters[tile]), patches.shape[3])
                out = scratch.array("responses", sizes, patches.dtype)
                maps = power(np.matmul(of_group[tile], patches, out=out), stage.before_pooling)
                by_image = maps.reshape(*maps.shape[:3], per_product, -1)
                in_order = pool(by_image, scratch, *pooling).transpose(0, 3, 2, 1, 4)
                features[block, group, tile].reshape(in_order.shape)[:] = in_order

    @ignoring("over", "invalid")
    def work(part: slice) -> None:
        whole = part.stop - (part.stop - part.start) % per_product
        # The remaining images, too few for a product, are processed one by one.
        rest = slices(whole, part.stop, per_product)
        for block in (*slices(part.start, whole, tile_images), *rest):
            fill(block, per_product if block.start < whole else 1)
        power(features[part], stage.after_pooling)
        if not np.isfinite((features[part].min(), features[part].max())).all():
            found = f"pixels as large as {np.abs(images[part]).max():g} overflow {images.dtype}"
            raise ValueError(f"Features of {found}, expected finite features. Rescale the images.")
        if divisor is not None:
            maps = features[part].reshape(-1, *shape[:2], shape[2] * shape[3])
            # A filter of zero mean leaves nothing but rounding errors of even brightness. Divided
            # by their size, they would pass for a strong response.
            bounds = rounding_bounds(images[part], filters, stage._exponent)
            maps[maps.max(axis=-1) <= bounds] = 0.0
            normalize(maps, divisor)

    in_threads(work, even_parts(n_images, per_product, MAX_IMAGES_PER_TASK))
    return features.reshape(n_images, -1)


NORMALIZATIONS = {True: "map", False: None, "map": "map", "image": "image"}
"""Divisors of features: the sum of their map, nothing, or the length of all features."""


MAX_MARGIN = 1000
"""Largest padding and pooling window of a file, in pixels: an image takes the square as memory."""


def _bank_fits(features: Any) -> bool:
    sizes = max(features.padding, features.pool_size) <= MAX_MARGIN
    sizes = sizes and is_small(*(features.image_shape or ()))
    return sizes and same(features._bank, type(features)(**features._get_params())._bank)


@savable(_bank_fits)
@dataclass(eq=False, repr=False)
class ConvolutionalFeatures(ImageTransformer):
    """Turn images into shallow convolutional features with fixed filters.

    This is Algorithm 1 of the paper: for every channel x and filter h, the valid convolution x * h
    is squared and averaged over windows of Q x Q positions (a full convolution with 1/Q^2), its
    fourth root is taken, every D-th position is kept, and the response is divided by its sum. The
    default settings are exactly this algorithm; other values of `normalize`, `padding` and
    `drop_ring` deviate from it.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]), Patches or tuple of these
        Filters of the bank, used unchanged: no mean is removed. A tuple combines banks, in order. A
        filter without channels is applied to every channel of the images, and a filter with
        channels channel by channel. Grey channels get the grey version, 0.299 R + 0.587 G +
        0.114 B, of filters for red, green and blue. `from_examples` turns `Patches` into filters.
    pool_size : int
        Side Q of the pooling window, in pixels.
    stride : int
        Downsampling factor D of the pooled maps.
    padding : int
        Number of blank pixels added on every side of the image; ``filter_size - 1`` makes the
        convolution full.
    drop_ring : int
        Number of pooled positions dropped on every side, where windows extend beyond the image. The
        author's script drops 5 and classifies better.
    normalize : bool, "map" or "image"
        Divisor of the features. With True or "map", each map of an image is divided by its sum.
        With "image", all features of an image are divided by their length. With False, nothing is
        divided.
    before_pooling, after_pooling : float, above 0
        Powers of the absolute responses and of their averages: the square and the fourth root by
        default. Powers p and 1/p give Lp pooling: the larger p is, the closer the features are to
        the largest response. Other powers than 2, 1, 0.5 and 0.25 take about 20 times as long.
    channels : "each" or "joint"
        Whether every channel has its own maps ("each", as in the paper), or responses are summed
        over channels ("joint", for filters that are colour patches).
    image_shape : (height, width) or (height, width, n_channels), optional
        Shape of an image. Required for dicts of pixels, frames and flat arrays; for other input it
        is checked.
    dtype : "float64" or "float32"
        Precision of the features. float32 is about twice as fast.
    seed : int
        Seed for `Patches`, which draws examples at random.
    pooling : "box" or "gaussian"
        Weights of the pooling window: equal over Q x Q positions, as in the paper, or a gaussian of
        the same width (standard deviation Q / sqrt(12)), which classifies better.
    prefix : str
        Prefix of the output names in a TransformerUnion: ``"u_"`` gives ``u_h0``, ``u_h1``, …

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these, or `filters` combines banks whose channels do not fit.

    Notes
    -----
    There are C P ceil((J + 2 padding - W + Q - 2 drop_ring) / D)^2 features for C channels, P
    filters of size W and images of size J, ordered by channel, filter, row and column. Joint
    channels give P maps instead of C P. A blank image gives zeros.

    Cost: ``2 n C P W^2 (J - W + 1)^2`` operations for n images. Memory: the features and, on each
    thread, 2 MiB of responses and the copies of pixels that they are computed from.

    A sample {"image": array} gives {"h": array}. A dict of pixels gives {"h0": …, "h1": …}, with
    the names of the columns that frames get. Arrays give arrays (n, n_features).

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015, Algorithm 1 and equations 4 to 6.

    Examples
    --------
    >>> import numpy as np
    >>> features = ConvolutionalFeatures(stride=3)
    >>> features.transform_many(np.ones((2, 28, 28))).shape
    (2, 4300)
    >>> features.transform_one({"image": np.eye(28)})["h"].shape
    (4300,)
    """

    kind: ClassVar[Kind] = IMAGE

    filters: Any = "hand-designed"
    pool_size: int = 8
    stride: int = 2
    padding: int = 0
    drop_ring: int = 0
    normalize: bool | str = True
    before_pooling: float = 2.0
    after_pooling: float = 0.25
    channels: str = "each"
    image_shape: Shape | None = None
    dtype: str = "float64"
    seed: int = 0
    pooling: str = "box"
    prefix: str = ""

    def __post_init__(self) -> None:
        self._check_settings()
        for name, minimum in {"pool_size": 1, "stride": 1, "padding": 0, "drop_ring": 0}.items():
            check_count(name, getattr(self, name), minimum)
        check_choice("pooling", self.pooling, POOLING_WEIGHTS)
        if self.normalize not in NORMALIZATIONS:
            problem = f"normalize={self.normalize!r} is not known"
            raise ValueError(f"{problem}. Pass True, False, 'map' or 'image'.")
        check_choice("channels", self.channels, ("each", "joint"))
        check_positive("before_pooling", self.before_pooling)
        check_positive("after_pooling", self.after_pooling)
        unmade = recipes(self.filters)
        vars(self)["filters"] = frozen_filters(self.filters)
        self._bank = None if unmade else make_bank(self.filters)

    @classmethod
    @matched_by_position
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return a transformer whose filters are made from examples.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images in the form of those to transform.
        y : array, series or list of n labels, optional
            Labels of the images. Only `Patches` without whitening needs them.
        **settings
            Settings of the class; `filters` is ``Patches()`` by default.

        Returns
        -------
        ConvolutionalFeatures
            A transformer that is ready for use.

        Raises
        ------
        TypeError, ValueError
            If a setting is invalid, or filters cannot be made from these images.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinels.images import Patches
        >>> photos = np.random.default_rng(0).random((9, 8, 8, 3))
        >>> patches = Patches(5, size=3, whitening=0.01)
        >>> ConvolutionalFeatures.from_examples(photos, filters=patches).bank.shape
        (5, 3, 3, 3)
        """
        model = cls(**{"filters": Patches(), **settings})
        if model.is_fixed:
            return model
        images = check_some(read_images(X, model.image_shape))
        model.check_images(images)
        joint = model.channels == "joint"

        def make(recipe: FilterRecipe, place: int) -> Floats:
            # Every position in a tuple has its own random numbers.
            return recipe.make(images, y, np.random.default_rng([model.seed, place]), joint)

        return cls(**{**settings, "filters": make_bank(model.filters, images.shape[3], make)})

    @property
    def is_fixed(self) -> bool:
        """Whether the features can transform: False only for `Patches` without examples."""
        return self._bank is not None

    @property
    def bank(self) -> Floats:
        """The filters (n_filters, height, width, 1 or n_channels), read-only.

        Raises
        ------
        ValueError
            If the filters are made from examples, and no examples were given.
        """
        if self._bank is None:
            raise not_made(f"filters={self.filters!r} are", "ConvolutionalFeatures")
        return self._bank

    @property
    def _exponent(self) -> float:
        """Exponent p of a feature |u|^p of a response u."""
        return float(self.before_pooling) * float(self.after_pooling)

    def _sides(self, side: int, filter_size: int) -> tuple[int, int]:
        """Return J - W + 1 and ceil((J - W + Q) / D): sides of the convolved image and the map."""
        convolved = max(0, side + 2 * self.padding - filter_size + 1)
        full = max(0, convolved + self.pool_size - 1 - 2 * self.drop_ring)
        return convolved, ceil(full / self.stride) if convolved else 0

    def _pooling_matrix(self, side: int, filter_size: int, dtype: type) -> Matrix:
        """Return the matrix (side of the map, convolved side) that pools and downsamples."""
        convolved, pooled = self._sides(side, filter_size)
        kept = self.drop_ring + self.stride * np.arange(pooled)
        offsets = kept[:, None] - np.arange(convolved)
        return POOLING_WEIGHTS[self.pooling](offsets, self.pool_size).astype(dtype)

    def n_features(self, shape: Shape) -> int:
        """Return the number of features of images of this shape.

        Parameters
        ----------
        shape : (height, width[, n_channels])
            Shape of one image.

        Returns
        -------
        int
            Number of features of each image.

        Raises
        ------
        ValueError
            If `shape` is not such a shape, the pooled maps of such images are empty, or the
            channels do not fit the filters.

        Examples
        --------
        >>> from onlinels import ConvolutionalFeatures
        >>> ConvolutionalFeatures(stride=2).n_features((28, 28))
        9675
        """
        check_image_shape("shape", shape)
        height, width, n_channels = full_shape(shape, None)
        bank = make_bank(self.filters, n_channels) if self._bank is None else self._bank
        filters = for_channels(bank, n_channels, shape)
        n_positions = prod(self._sides(side, filters.shape[1])[1] for side in (height, width))
        if not n_positions:
            problem = f"Images of {height} x {width} pixels have empty pooled maps"
            remedy = f"Raise padding, or lower drop_ring.{channels_hint(shape)}"
            raise ValueError(f"{problem} with these filters. {remedy}")
        n_groups = 1 if self.channels == "joint" else n_channels
        return n_groups * len(filters) * n_positions

    def check_images(self, images: Matrix, next_dtype: str = "float64") -> int:
        """Return the number of features of images (n, height, width, n_channels).

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
            Images.
        next_dtype : "float32" or "float64"
            Precision of the step that reads the features.

        Returns
        -------
        int
            Number of features of each image.

        Raises
        ------
        ValueError
            If the images do not fit `image_shape`, their pooled maps are empty, their channels do
            not fit the filters, they are smaller than the patches that filters are made of, or a
            pixel is too large for the lower of the two precisions.
        """
        shape = images.shape[1:]
        full_shape(shape, self.image_shape)
        if self._bank is None:
            for recipe in recipes(self.filters):
                recipe.check_size(shape)
        # "float32" sorts before "float64".
        dtype = min(self.dtype, next_dtype)
        check_pixels(images, MAX_PIXEL[dtype], f"dtype={dtype!r}")
        return self.n_features(shape)

    def features_of(self, images: Matrix, next_dtype: str = "float64") -> Matrix:
        """Return the features (n, n_features) of images; see `check_images`."""
        bank = for_channels(self.bank, images.shape[3], images.shape[1:])
        self.check_images(images, next_dtype)
        return convolve(images.astype(PRECISIONS[self.dtype], copy=False), bank, self)
