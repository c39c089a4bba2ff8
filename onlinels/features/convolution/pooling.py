"""Convolution and box pooling along one axis of an image, and pooling along both."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from onlinels.arrays import Matrix


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
    """

    pool_size: int = 1
    stride: int = 1
    padding: int = 0
    drop_ring: int = 0

    def convolved_size(self, image_size: int, filter_size: int) -> int:
        """Return J - W + 1, the length of the convolved image, 0 if the filter does not fit."""
        return max(0, image_size + 2 * self.padding - filter_size + 1)

    def pooled_size(self, image_size: int, filter_size: int) -> int:
        """Return ceil((J - W + Q) / D), the length of the downsampled map, 0 if none is left."""
        convolved = self.convolved_size(image_size, filter_size)
        full = convolved + self.pool_size - 1 - 2 * self.drop_ring
        return ceil(max(0, full) / self.stride) if convolved else 0

    def pooling_matrix(self, image_size: int, filter_size: int, dtype: type) -> Matrix:
        """Return box pooling, ring and stride as a matrix.

        Returns
        -------
        ndarray (pooled_size, convolved_size)
            Row k sums the convolved positions under the pooling window of the k-th kept
            position and divides by Q (by Q^2 once both axes are pooled).
        """
        convolved = self.convolved_size(image_size, filter_size)
        kept = self.drop_ring + self.stride * np.arange(self.pooled_size(image_size, filter_size))
        behind = kept[:, None] - np.arange(convolved)[None, :]
        window = (behind >= 0) & (behind < self.pool_size)
        matrix: Matrix = window.astype(dtype) / dtype(self.pool_size)
        return matrix


def pool(maps: Matrix, pool_rows: Matrix, pool_columns: Matrix) -> Matrix:
    """Average maps over windows, along rows and then along columns.

    Parameters
    ----------
    maps : ndarray (n, rows, columns, n_filters)
    pool_rows : ndarray (pooled_rows, rows)
    pool_columns : ndarray (pooled_columns, columns)

    Returns
    -------
    ndarray (n, pooled_rows, pooled_columns, n_filters)

    Examples
    --------
    >>> pool(np.ones((1, 4, 4, 1)), np.full((1, 4), 0.25), np.full((1, 4), 0.25)).shape
    (1, 1, 1, 1)
    """
    n_images, rows, columns, n_filters = maps.shape
    along_rows = pool_rows @ maps.reshape(n_images, rows, columns * n_filters)
    pooled: Matrix = pool_columns @ along_rows.reshape(n_images, len(pool_rows), columns, n_filters)
    return pooled
