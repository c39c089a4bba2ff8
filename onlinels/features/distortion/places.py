"""Places in images that distorted images are sampled at: affine maps and smooth random fields."""

from __future__ import annotations

from math import ceil

import numpy as np

from onlinels.arrays import Floats, Matrix

REACH = 3
"""Points of noise beyond an image's edges, a standard deviation apart (or a pixel, if larger)."""


def inverse_maps(angles: Floats, heights: Floats, widths: Floats, slants: Floats) -> Floats:
    """Return the inverses of maps that change the size, then slant, then rotate.

    Parameters
    ----------
    angles : ndarray (n,)
        In radians, clockwise as images are shown (rows count downwards).
    heights, widths : ndarray (n,)
        New sizes, relative to the given ones.
    slants : ndarray (n,)
        Columns moved per row.

    Returns
    -------
    ndarray (n, 2, 2), on (row, column)

    Examples
    --------
    >>> none = np.zeros(1)
    >>> inverse_maps(none, none + 2.0, none + 1.0, none)[0].tolist()
    [[0.5, -0.0], [0.0, 1.0]]
    """
    cosine, sine = np.cos(angles), np.sin(angles)
    # Backwards: turn, straighten, then undo the change of size.
    row = [cosine / heights, -sine / heights]
    column = [(sine - slants * cosine) / widths, (cosine + slants * sine) / widths]
    back: Floats = np.array([row, column]).transpose(2, 0, 1)
    return back


def affine_places(
    back: Floats, shifts: Floats, mirrored: Matrix, height: int, width: int
) -> tuple[Matrix, Matrix]:
    """Return where pixels lie in the given image if the new one is its affine image.

    place = back (pixel - centre - shift) + centre; of a mirror image, column width - 1 - column.

    Parameters
    ----------
    back : ndarray (n, 2, 2)
        The inverse of the map from the given image to the new one, on (row, column).
    shifts : ndarray (n, 2)
        Rows and columns by which the new image is shifted, in pixels.
    mirrored : ndarray (n,) of bool
        Whether the given image is mirrored left to right, before the map.
    height, width : int

    Returns
    -------
    rows, columns : ndarray (n, height, width), float32
        Exact where they are whole, below 2^23.

    Notes
    -----
    One addition per place: a part that depends on the row and one that depends on the column.

    Examples
    --------
    >>> shift, no = np.array([[0.0, 1.0]]), np.array([False])
    >>> affine_places(np.eye(2)[None], shift, no, height=1, width=3)[1]
    array([[[-1.,  0.,  1.]]], dtype=float32)
    """
    centre = (np.array([height, width]) - 1.0) / 2.0
    down = np.arange(height) - centre[0] - shifts[:, :1]
    right = np.arange(width) - centre[1] - shifts[:, 1:]
    sign = np.where(mirrored, -1.0, 1.0)[:, None]
    # The centre goes to the part that it cancels in, so that whole places stay whole.
    rows = _sums(back[:, 0, :1] * down + centre[0], back[:, 0, 1:] * right)
    columns = _sums(sign * back[:, 1, :1] * down, sign * back[:, 1, 1:] * right + centre[1])
    return rows, columns


def _sums(per_row: Floats, per_column: Floats) -> Matrix:
    """Return the sum of a part for every row and one for every column: (n, height, width)."""
    sums: Matrix = per_row.astype(np.float32)[:, :, None] + per_column.astype(np.float32)[:, None]
    return sums


def noise_factor(side: int, smoothness: float) -> Matrix:
    """Return the matrix L that makes smooth random numbers of white noise along one axis.

    L[i, j] is proportional to exp(-(i - p_j)^2 / (2 smoothness^2)), the p_j being max(1,
    smoothness) apart, and every row has length 1. So L noise has variance 1 at every pixel and
    correlation exp(-d^2 / (4 smoothness^2)) at distance d, as noise at every pixel would give.

    Parameters
    ----------
    side : int
    smoothness : float
        Standard deviation of the gaussian, in pixels.

    Returns
    -------
    ndarray (side, n_points), float32

    Notes
    -----
    Noise at few points spares drawing and multiplying: of 28 pixels smoothed by 4, 14 points a
    side. The correlation is off by at most 1e-3 (smoothness >= 1). For an image take
    L_rows noise L_columns'.

    Examples
    --------
    >>> noise_factor(28, 4.0).shape
    (28, 14)
    """
    spacing = max(1.0, smoothness)
    points = spacing * (np.arange(ceil((side - 1) / spacing) + 1 + 2 * REACH) - REACH)
    # Smoothed by less than a tenth of a pixel, noise is as good as white.
    distances = (np.arange(side)[:, None] - points) / max(0.1, smoothness)
    weights = np.exp(-0.5 * distances**2)
    factor: Matrix = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    return factor.astype(np.float32)
