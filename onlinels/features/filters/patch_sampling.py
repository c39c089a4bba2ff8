"""Patches drawn at random from images."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from onlinels.arrays import Floats, Integers, Matrix


def check_size(shape: tuple[int, ...], size: int) -> None:
    """Raise unless patches of this size fit into images of shape (height, width, n_channels).

    Raises
    ------
    ValueError
        If they do not.
    """
    height, width = shape[:2]
    if size > min(height, width):
        raise ValueError(
            f"size={size} exceeds images of {height} x {width} pixels. Pass a size of at most "
            f"{min(height, width)}, or larger images."
        )


def draw(random: np.random.Generator, n_available: int, n_wanted: int) -> Integers:
    """Draw positions (n_wanted,) below `n_available`, with replacement only if they are too few.

    Examples
    --------
    >>> sorted(draw(np.random.default_rng(0), 3, 3).tolist())
    [0, 1, 2]
    """
    return random.choice(n_available, n_wanted, replace=n_wanted > n_available)


def sample_patches(
    images: Matrix, size: int, n_patches: int, random: np.random.Generator
) -> Floats:
    """Draw patches from random places of random images, every place at most once.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
    size : int
        At most height and width.
    n_patches : int
    random : Generator

    Returns
    -------
    ndarray (n_patches or all there are, size, size, n_channels), float64

    Examples
    --------
    >>> images = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> sample_patches(images, 2, 5, np.random.default_rng(0)).shape
    (5, 2, 2, 1)
    """
    windows = sliding_window_view(images, (size, size), axis=(1, 2))
    n_places = int(np.prod(windows.shape[:3]))
    drawn = draw(random, n_places, min(n_patches, n_places))
    patches = windows[np.unravel_index(drawn, windows.shape[:3])]
    return np.ascontiguousarray(np.moveaxis(patches, 1, 3), dtype=np.float64)


def choose(patches: Floats, n_wanted: int, random: np.random.Generator, joint: bool) -> Integers:
    """Choose patches (n, size, size, n_channels) that are not even, if there are any.

    Of channels that are kept apart, none should be even; of joint ones, not all.

    Returns
    -------
    ndarray (n_wanted,) of int
        Rows, some more than once if there are too few.
    """
    spread = np.ptp(patches, axis=(1, 2))
    groups = [spread.any(axis=1)] if joint else [spread.all(axis=1), spread.any(axis=1)]
    uneven = [np.flatnonzero(group) for group in groups if group.any()]
    rows = uneven[0] if uneven else np.arange(len(patches))
    chosen: Integers = rows[draw(random, len(rows), n_wanted)]
    return chosen
