"""Steps on the pixels of images that need no examples: block means and a grey channel."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Matrix

GREY_WEIGHTS = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in brightness as the eye sees it (ITU-R BT.601)."""

LARGEST_PIXEL = {"float32": 1e17, "float64": 1e60}
"""Largest pixel, before and after scaling, and largest response of a filter: squares fit too."""


def magnitude(images: Matrix) -> float:
    """Return the largest magnitude of a pixel.

    Examples
    --------
    >>> magnitude(np.array([-3.0, 2.0]))
    3.0
    """
    return max(-float(images.min()), float(images.max()))


def check_pixel_size(images: Matrix, scale: float, dtype: str) -> None:
    """Raise if a pixel, by itself or divided by `scale`, is too large for a precision.

    Raises
    ------
    ValueError
        If its magnitude is over 1e17 for "float32" or 1e60 for "float64".
    """
    largest = magnitude(images)
    allowed = LARGEST_PIXEL[dtype] * min(1.0, scale)
    if largest > allowed:
        raise ValueError(
            f"An image holds pixels as large as {largest:g}, expected at most {allowed:g} for "
            f"dtype={dtype!r} and scale={scale:g}. Rescale."
        )


def block_means(images: Matrix, size: int, dtype: type) -> Matrix:
    """Return the mean of every block of size x size pixels.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
        Of any real dtype; height and width are multiples of `size`.
    size : int
    dtype : float32 or float64

    Returns
    -------
    ndarray (n, height / size, width / size, n_channels), dtype

    Notes
    -----
    One sum over the images per pixel of a block, and no copy of the images. Measured on 96 x 96
    pixels in blocks of 3: three times as fast as numpy's mean over the axes of blocks.

    Examples
    --------
    >>> block_means(np.arange(8).reshape(1, 2, 4, 1), 2, np.float64).ravel()
    array([2.5, 4.5])
    """
    n_images, height, width, n_channels = images.shape
    means = np.zeros((n_images, height // size, width // size, n_channels), dtype=dtype)
    for row in range(size):
        for column in range(size):
            means += images[:, row::size, column::size]
    means /= size**2
    return means


def scaled_means(images: Matrix, size: int, scale: float | None, dtype: type) -> Matrix:
    """Return the means of blocks of size x size pixels, divided by `scale` if there is one.

    Examples
    --------
    >>> scaled_means(np.full((1, 2, 2, 1), 51), 2, 255.0, np.float64).ravel()
    array([0.2])
    """
    means = block_means(images, size, dtype) if size > 1 else images.astype(dtype, copy=False)
    return means if scale is None else means / dtype(scale)


def with_grey(images: Matrix) -> Matrix:
    """Return RGB images (n, height, width, 3) with grey, 0.299 R + 0.587 G + 0.114 B, as a fourth.

    Examples
    --------
    >>> with_grey(np.array([[[[1.0, 0.0, 0.0]]]])).ravel()
    array([1.   , 0.   , 0.   , 0.299])
    """
    widened = np.empty((*images.shape[:3], 4), dtype=images.dtype)
    widened[..., :3] = images
    widened[..., 3] = images @ np.array(GREY_WEIGHTS, dtype=images.dtype)
    return widened
