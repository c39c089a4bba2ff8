"""Convolution and pooling along one axis of an image, and pooling along both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.threads import SMALL_PRODUCT


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


def pool(maps: Matrix, pool_rows: Matrix, pool_columns: Matrix) -> Matrix:
    """Average maps over windows, along rows and then along columns.

    Parameters
    ----------
    maps : ndarray (rows, ..., columns), C order
    pool_rows : ndarray (pooled_rows, rows)
    pool_columns : ndarray (pooled_columns, columns)

    Returns
    -------
    ndarray (pooled_rows, ..., pooled_columns)

    Notes
    -----
    Two matrix products for all maps, as rows come first and columns last, in parts that BLAS does
    not divide among its threads: several threads may pool at the same time.

    Examples
    --------
    >>> pool(np.ones((4, 7, 2, 4)), np.full((1, 4), 0.25), np.full((1, 4), 0.25)).shape
    (1, 7, 2, 1)
    """
    rows, columns = maps.shape[0], maps.shape[-1]
    flat = maps.reshape(rows, -1)
    along_rows = np.empty((len(pool_rows), flat.shape[1]), dtype=maps.dtype)
    for part in _small_parts(flat.shape[1], pool_rows.size):
        np.matmul(pool_rows, flat[:, part], out=along_rows[:, part])
    lines = along_rows.reshape(-1, columns)
    pooled = np.empty((len(lines), len(pool_columns)), dtype=maps.dtype)
    for part in _small_parts(len(lines), pool_columns.size):
        np.matmul(lines[part], pool_columns.T, out=pooled[part])
    return pooled.reshape(len(pool_rows), *maps.shape[1:-1], len(pool_columns))


def _small_parts(n: int, n_products: int) -> Iterator[slice]:
    """Cut n lines that take so many multiplications each into parts that are small for BLAS."""
    step = max(1, SMALL_PRODUCT // n_products)
    return (slice(start, start + step) for start in range(0, n, step))
