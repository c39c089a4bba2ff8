"""Stage 1 of the paper in general form: convolve, take powers, pool, take roots, normalise."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.features.convolution.magnitudes import faintest_maps
from onlinels.features.convolution.normalization import NORMALIZATIONS
from onlinels.features.convolution.stage import Convolution, repeat_channel
from onlinels.features.convolution.tiles import Tiles
from onlinels.threads import Scratch, even_parts, in_threads

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
