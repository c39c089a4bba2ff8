"""Responses of filters, pooled, of as many images and filters at once as the cache can hold."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Matrix
from onlinels.features.convolution.pooling import pool
from onlinels.features.convolution.stage import Convolution
from onlinels.threads import SMALL_PRODUCT, Scratch

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
