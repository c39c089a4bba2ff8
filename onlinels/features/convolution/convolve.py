"""Stage 1 of the paper in general form: convolve, take powers, pool, take roots, normalise."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Matrix
from onlinels.features.convolution.magnitudes import faintest_maps
from onlinels.features.convolution.normalization import NORMALIZATIONS
from onlinels.features.convolution.pooling import pool
from onlinels.features.convolution.stage import Convolution, repeat_channel
from onlinels.threads import SMALL_PRODUCT, in_threads

TILE_FILTERS = 128
TILE_BYTES = 1 << 21
"""Filters and bytes of maps computed at once. Measured: larger tiles fall out of the cache, and
smaller ones pay for more calls, for which threads wait for one another."""

PART_IMAGES = 128
"""Images that one thread deals with before it takes others."""


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
    their images are held as well. Parts of 128 images are dealt with at the same time, on as
    many threads as `onlinels.threads.n_threads` says; their number does not change the result.

    Examples
    --------
    >>> from onlinels.features.convolution.pooling import Axis
    >>> image, bar = np.eye(6).reshape(1, 6, 6, 1), np.ones((2, 1, 3, 1))
    >>> stage = Convolution(rows=Axis(2, 2), columns=Axis(2, 2))
    >>> convolve(image, bar, stage).shape
    (1, 24)
    """
    n_channels = images.shape[3]
    filters = repeat_channel(filters, n_channels)
    given = np.zeros(len(filters)) if offsets is None else offsets
    added = stage.offsets_of_groups(given, n_channels).astype(images.dtype)
    groups = stage.groups(n_channels)
    height, width = stage.pooled_shape(images.shape[1:], filters)
    shape = (len(images), len(groups), stage.before_pooling.n_maps, len(filters), height, width)
    features = np.empty(shape, dtype=images.dtype)

    def work(part: slice) -> None:
        """Write the features of some of the images."""
        for group, channels in enumerate(groups):
            bank, some = filters[..., channels], images[part, ..., channels]
            _fill(features[part, group], some, bank, added[group], stage)
        if stage.normalization is not None:
            # What is nothing but rounding errors, as a filter of zero mean leaves of even
            # brightness, would pass for a strong response once it is divided by its size.
            faintest = faintest_maps(images[part], filters, added, stage)
            maps = features[part].reshape(-1, *shape[1:4], height * width)
            maps[maps.max(axis=-1) <= faintest[:, :, None]] = 0.0
            NORMALIZATIONS[stage.normalization](maps)

    starts = range(0, len(images), PART_IMAGES)
    in_threads(work, [slice(start, start + PART_IMAGES) for start in starts])
    return features.reshape(len(images), -1)


def _fill(
    features: Matrix, images: Matrix, filters: Matrix, offsets: Matrix, stage: Convolution
) -> None:
    """Write the features of images whose channels are summed, tile by tile."""
    pools = stage.pooling_matrices(images.shape[1:], filters, images.dtype.type)
    kernel = _kernel_rows(filters, images.dtype.type)
    n_bytes = pools[0].shape[1] * pools[1].shape[1] * images.itemsize
    n_bytes *= stage.before_pooling.n_maps
    products = kernel.shape[1] * pools[1].shape[1]
    tile_filters = max(1, min(TILE_FILTERS, TILE_BYTES // n_bytes, SMALL_PRODUCT // products))
    n_filters = min(len(filters), tile_filters)
    group = max(1, SMALL_PRODUCT // (products * n_filters))
    tile_images = group * max(1, TILE_BYTES // (n_bytes * n_filters * group))
    for start in range(0, len(images), tile_images):
        some = slice(start, min(start + tile_images, len(images)))
        # What is left at the end, one by one.
        together = group if (some.stop - start) % group == 0 else 1
        patches = stage.patches(images[some], filters, together)
        for first in range(0, len(filters), tile_filters):
            those = slice(first, first + tile_filters)
            responses = kernel[those] @ patches
            if offsets.any():
                responses += offsets[those, None]
            for side, maps in enumerate(stage.before_pooling.apply(responses)):
                by_image = maps.reshape(*maps.shape[:3], together, pools[1].shape[1])
                (pooled,) = stage.after_pooling.apply(pool(by_image, *pools))
                in_order = pooled.transpose(0, 3, 2, 1, 4)
                target = features[some, side, those]
                target[:] = in_order.reshape(target.shape)


def _kernel_rows(filters: Matrix, dtype: type) -> Matrix:
    """Return the filters as rows, turned by 180 degrees as a convolution turns them."""
    return np.ascontiguousarray(filters[:, ::-1, ::-1].reshape(len(filters), -1), dtype=dtype)
