"""Bilinear sampling: the values of images between their pixels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from onlinels.arrays import Matrix

FILLS: dict[str, Literal["constant", "edge"]] = {"zero": "constant", "edge": "edge"}
"""What lies outside an image, by numpy's names of ways to pad: zeros, or the nearest edge pixel."""

TILE_PIXELS = 1 << 16
"""Pixels sampled at once. Measured: larger tiles gain little, smaller ones pay for calls."""


def tiles(n_images: int, n_pixels: int) -> Iterator[slice]:
    """Yield slices of as many images of `n_pixels` pixels as are fast to sample at once.

    Examples
    --------
    >>> list(tiles(100, 28 * 28))
    [slice(0, 83, None), slice(83, 166, None)]
    """
    tile = max(1, TILE_PIXELS // n_pixels)
    return (slice(start, start + tile) for start in range(0, n_images, tile))


def sample(images: Matrix, rows: Matrix, columns: Matrix, fill: str) -> Matrix:
    """Return the images' values at places between their pixels.

    The value at (r + a, c + b), 0 <= a, b < 1, is (1-a)(1-b) x[r, c] + (1-a) b x[r, c+1]
    + a (1-b) x[r+1, c] + a b x[r+1, c+1]. At a pixel it is that pixel, exactly.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels), float32 or float64
    rows, columns : ndarray (n, new_height, new_width), float32 or float64
        Places in pixels; (0, 0) is the centre of the first pixel. Image k is sampled at places k.
    fill : {"zero", "edge"}
        What lies outside the image: zeros, which the pixels of the border fade to within one
        pixel, or the nearest edge pixel.

    Returns
    -------
    ndarray (n, new_height, new_width, n_channels), dtype of `images`

    Notes
    -----
    Four gathers from the padded images and some ten passes over the places, which are made once
    for all channels. Fast if all of that fits the cache: see `tiles`.

    Examples
    --------
    >>> image = np.array([[0.0, 4.0], [8.0, 12.0]]).reshape(1, 2, 2, 1)
    >>> row, column = np.full((1, 1, 1), 0.5), np.full((1, 1, 1), 0.25)
    >>> float(sample(image, row, column, "zero")[0, 0, 0, 0])
    5.0
    """
    n_images, height, width, n_channels = images.shape
    first_rows, down = _split(rows, height)
    first, right = _split(columns, width)
    stride = width + 2
    # Positions of the upper left neighbours in the flat array of padded images.
    first += first_rows * stride
    first += (np.arange(n_images) * ((height + 2) * stride))[:, None, None]
    sampled = np.empty((*rows.shape, n_channels), dtype=images.dtype)
    for channel in range(n_channels):
        border = ((0, 0), (1, 1), (1, 1))
        flat = np.pad(images[..., channel], border, mode=FILLS[fill]).ravel()
        above = _between(flat, first, 1, right)
        below = _between(flat[stride:], first, 1, right)
        below -= above
        below *= down
        np.add(above, below, out=sampled[..., channel])
    return sampled


def _split(places: Matrix, side: int) -> tuple[Matrix, Matrix]:
    """Return the pixel before each place, counted in the padded image, and the way on from it."""
    within = np.clip(places, -1, side)
    within += 1
    # Truncation rounds down, as nothing is negative; the last pixel is nobody's first neighbour.
    first = within.astype(np.intp)
    np.minimum(first, side, out=first)
    within -= first
    return first, within


def _between(flat: Matrix, first: Matrix, step: int, way: Matrix) -> Matrix:
    """Return the values part of the way from one neighbour to the one `step` further on."""
    # Positions are in range; mode "clip" spares numpy the check of each.
    values: Matrix = flat.take(first, mode="clip")
    change = flat[step:].take(first, mode="clip")
    change -= values
    change *= way
    values += change
    return values
