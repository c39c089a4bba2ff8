"""Stage 1 of the paper: convolve, square, pool, root, downsample, normalise (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from onlinels.arrays import Matrix

ROUNDINGS = 16.0
"""Rounding errors of a convolution, relative to the brightest pixel times the filter's size."""

TILE_IMAGES = 16
"""Images convolved at once. Measured: larger tiles fall out of the cache and are slower."""


@dataclass(frozen=True)
class Convolution:
    """The geometry of stage 1, apart from the filters.

    Parameters
    ----------
    pool_size : int
        Side Q of the pooling window, in pixels.
    stride : int
        Downsampling D of the pooled map.
    padding : int
        Blank pixels added on every side before the convolution. 0 is the paper's valid
        convolution, ``filter_size - 1`` a full one.
    drop_ring : int
        Pooled positions left out on every side before downsampling. Their windows hang over the
        edge of the convolved image.
    normalize : bool
        Whether every filter's response to an image is divided by its sum.
    """

    pool_size: int
    stride: int
    padding: int = 0
    drop_ring: int = 0
    normalize: bool = True

    def pooled_side(self, image_side: int, filter_size: int) -> int:
        """Return ceil((J - W + Q) / D), the side of the downsampled map, 0 if nothing is left."""
        convolved = image_side + 2 * self.padding - filter_size + 1
        full = convolved + self.pool_size - 1 - 2 * self.drop_ring
        return ceil(max(0, full) / self.stride) if convolved > 0 else 0

    def pooling_matrix(self, image_side: int, filter_size: int, dtype: type) -> Matrix:
        """Return box pooling, ring and stride along one axis as a matrix.

        Returns
        -------
        ndarray (pooled_side, convolved_side)
            Row k sums the convolved positions under the pooling window of the k-th kept
            position and divides by Q (by Q^2 once both axes are pooled).
        """
        convolved = image_side + 2 * self.padding - filter_size + 1
        kept = self.drop_ring + self.stride * np.arange(self.pooled_side(image_side, filter_size))
        behind = kept[:, None] - np.arange(convolved)[None, :]
        window = (behind >= 0) & (behind < self.pool_size)
        matrix: Matrix = window.astype(dtype) / dtype(self.pool_size)
        return matrix


def convolve(images: Matrix, bank: Matrix, stage: Convolution) -> Matrix:
    """Turn images into shallow convolutional features.

    For every channel x and filter h: u = (x * h)^2, v = (u * 1/Q^2)^(1/4), then every D-th
    position of v, divided by the sum over positions (Algorithm 1 of the paper).

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels), float32 or float64
    bank : ndarray (n_filters, filter_size, filter_size, 1 or n_channels)
        A single channel is applied to every channel of the images.
    stage : Convolution

    Returns
    -------
    ndarray (n, n_features), dtype of `images`
        Ordered by channel, then filter, then row and column. A blank image gives zeros.

    Notes
    -----
    n * C * P * W^2 * J^2 multiplications, as one matrix product per tile of 16 images; pooling,
    ring and stride are two small products, along rows and then along columns.

    Examples
    --------
    >>> image, bar = np.eye(6).reshape(1, 6, 6, 1), np.ones((1, 3, 1, 1))
    >>> convolve(image, np.ones((2, 3, 3, 1)), Convolution(pool_size=2, stride=2)).shape
    (1, 18)
    """
    n_images, height, width, n_channels = images.shape
    dtype = images.dtype.type
    filter_size = bank.shape[1]
    pool_rows = stage.pooling_matrix(height, filter_size, dtype)
    pool_columns = stage.pooling_matrix(width, filter_size, dtype)
    n_positions = len(pool_rows) * len(pool_columns)
    features = np.empty((n_images, n_channels, len(bank), n_positions), dtype=dtype)
    margin = ((0, 0), (stage.padding, stage.padding), (stage.padding, stage.padding))
    for channel in range(n_channels):
        kernel = _kernel_columns(bank[..., channel % bank.shape[3]], dtype)
        for start in range(0, n_images, TILE_IMAGES):
            tile = slice(start, start + TILE_IMAGES)
            padded = np.pad(images[tile, :, :, channel], margin)
            maps = _squared_maps(padded, kernel, filter_size)
            features[tile, channel] = _pool(maps, pool_rows, pool_columns)
    if stage.normalize:
        _normalize(features, _faintest_responses(images, bank))
    return features.reshape(n_images, -1)


def _kernel_columns(filters: Matrix, dtype: type) -> Matrix:
    """Return the filters as columns, turned by 180 degrees as a convolution turns them."""
    return np.ascontiguousarray(filters[:, ::-1, ::-1].reshape(len(filters), -1).T, dtype=dtype)


def _squared_maps(images: Matrix, kernel: Matrix, filter_size: int) -> Matrix:
    """Return (x * h)^2 of every position and filter: (n, rows, columns, n_filters)."""
    windows = sliding_window_view(images, (filter_size, filter_size), axis=(1, 2))
    maps = windows.reshape(*windows.shape[:3], -1) @ kernel
    squared: Matrix = np.square(maps, out=maps)
    return squared


def _pool(maps: Matrix, pool_rows: Matrix, pool_columns: Matrix) -> Matrix:
    """Average over windows and take the fourth root: (n, n_filters, n_positions)."""
    n_images, rows, columns, n_filters = maps.shape
    along_rows = pool_rows @ maps.reshape(n_images, rows, columns * n_filters)
    pooled: Matrix = pool_columns @ along_rows.reshape(n_images, len(pool_rows), columns, n_filters)
    np.sqrt(pooled, out=pooled)
    np.sqrt(pooled, out=pooled)
    return pooled.reshape(n_images, -1, n_filters).swapaxes(1, 2)


def _faintest_responses(images: Matrix, bank: Matrix) -> Matrix:
    """Return the response (n, n_channels, n_filters) that rounding errors alone may give."""
    brightest = np.abs(images).max(axis=(1, 2))[:, :, None]
    strengths = np.broadcast_to(np.abs(bank).sum(axis=(1, 2)).T, (images.shape[3], len(bank)))
    faintest: Matrix = np.sqrt(ROUNDINGS * np.finfo(images.dtype).eps * brightest * strengths)
    return faintest


def _normalize(features: Matrix, faintest: Matrix) -> None:
    """Divide every filter's response by its sum, in place.

    A response of zeros stays, and one that is nothing but rounding errors, as that of a filter of
    zero mean to even brightness, becomes zeros: divided by its sum it would pass for a strong one.
    """
    features[features.max(axis=-1) <= faintest] = 0.0
    totals = features.sum(axis=-1, keepdims=True)
    totals[totals == 0.0] = 1.0
    features /= totals
