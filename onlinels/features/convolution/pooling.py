"""Convolution and pooling along one axis of an image, and pooling along both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from onlinels.arrays import Floats, Integers, Matrix
from onlinels.threads import SMALL_PRODUCT, Scratch


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
