"""Straighten slanted images: sheared until their ink has no slope."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.features.sampling import sample, tiles

LARGEST_SLANT = 1.0
"""Columns per row: images are turned upright from 45 degrees at most."""

SMALLEST_SPREAD = 1e-6
"""Variance of the rows of ink, in squared pixels, below which it has no slant but rounding's."""


def deskew(images: Matrix) -> Matrix:
    """Return images sheared along their rows so that rows and columns of ink are uncorrelated.

    Row i of an image is shifted by s (i - m), with m the mean row of its ink and s its slant.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels), float32 or float64
        Bright on a dark background: what lies outside is 0, and brightness counts as ink.

    Returns
    -------
    ndarray, shape and dtype of `images`
        Between pixels they are interpolated. An upright or blank image stays as it is.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-Based Learning Applied to Document
    Recognition", Proceedings of the IEEE, 1998: "deslanting" by moments of inertia.

    Examples
    --------
    >>> slanted = np.flip(np.eye(3), axis=1).reshape(1, 3, 3, 1)
    >>> deskew(slanted)[0, :, :, 0]
    array([[0., 1., 0.],
           [0., 1., 0.],
           [0., 1., 0.]])
    """
    n_images, height, width, _ = images.shape
    upright = np.empty_like(images)
    for tile in tiles(n_images, height * width):
        part = images[tile]
        below, slants = row_slants(part)
        shifts = (slants[:, None] * below).astype(images.dtype)
        columns = np.arange(width, dtype=images.dtype) + shifts[:, :, None]
        rows = np.arange(height, dtype=images.dtype)[:, None]
        places = np.broadcast_to(rows, columns.shape), columns
        upright[tile] = sample(part, *places, "zero")
    return upright


def row_slants(images: Matrix) -> tuple[Floats, Floats]:
    """Return how far below the mean row of ink each row lies, and the slants.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)

    Returns
    -------
    below : ndarray (n, height)
        In pixels.
    slants : ndarray (n,)
        cov(row, column) / var(row) of the ink, |x| summed over channels, in columns per row,
        between -1 and 1; 0 where all ink lies in one row.

    Examples
    --------
    >>> row_slants(np.eye(3).reshape(1, 3, 3, 1))
    (array([[-1.,  0.,  1.]]), array([1.]))
    """
    ink = np.abs(images).sum(axis=3, dtype=np.float64)
    rows, columns = (np.arange(side, dtype=np.float64) for side in ink.shape[1:])
    # Sums rather than products of matrices: BLAS rounds an image by how many come with it.
    by_row = ink.sum(axis=2)
    mass = by_row.sum(axis=1)
    there = mass > 0.0
    by_row[there] /= mass[there, None]
    below = rows - (by_row * rows).sum(axis=1)[:, None]
    spread = (by_row * below**2).sum(axis=1)
    moments = (ink * columns).sum(axis=2)
    moments[there] /= mass[there, None]
    slants = np.zeros(len(ink))
    np.divide((moments * below).sum(axis=1), spread, out=slants, where=spread > SMALLEST_SPREAD)
    return below, np.clip(slants, -LARGEST_SLANT, LARGEST_SLANT)
