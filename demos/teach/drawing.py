"""Drawings as 28x28 images in the manner of MNIST, from strokes or from 8x8 digits."""

from __future__ import annotations

import reprlib
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, zoom
from sklearn.datasets import load_digits

SIDE, BOX, FINE = 28, 20, 4
"""Pixels of a side and of the box that a drawing fills, and subpixels of a pixel's side."""
PEN = 1.3
"""Radius of the pen in pixels, whatever the size of the drawing."""
SMALLEST = 100.0
"""Extent up to which a drawing is not enlarged to fill the box: a dot stays a dot."""
MAX_POINTS, FARTHEST = 5000, 10_000.0

Image = NDArray[np.uint8]


def normalise(strokes: Any) -> Image:
    """Return strokes as an image, with size and position normalised as in MNIST.

    The strokes are scaled to a box of 20x20 pixels with their proportions kept, drawn with a pen
    of constant width, and moved so that the centre of mass is the centre of the 28x28 image (by at
    most the margin of 4 pixels, so that all ink stays inside). See Y. LeCun, C. Cortes and C. J. C.
    Burges, "The MNIST database of handwritten digits".

    Parameters
    ----------
    strokes : list of lists of points [x, y]
        Places of the pen, x to the right and y downwards, in thousandths of the canvas.

    Returns
    -------
    ndarray (28, 28) of uint8
        Ink from 0 to 255.

    Raises
    ------
    ValueError
        If the strokes are not lists of points, empty, or too many.
    """
    paths = _read(strokes)
    points = np.concatenate(paths)
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (BOX - 2 * PEN) / max(*(high - low), SMALLEST)
    touched = np.zeros((SIDE * FINE, SIDE * FINE), dtype=bool)
    for path in paths:
        places = ((path - (low + high) / 2) * scale + SIDE / 2) * FINE
        steps = np.hypot(*np.diff(places, axis=0).T)
        so_far = np.concatenate([[0.0], np.cumsum(steps)])
        at = np.linspace(0.0, so_far[-1], 2 * int(so_far[-1]) + 1)  # Two places a subpixel.
        x, y = (np.interp(at, so_far, axis).astype(int) for axis in places.T)
        touched[y, x] = True
    return _centred(np.asarray(distance_transform_edt(~touched) <= PEN * FINE, dtype=np.float64))


@cache
def digits() -> tuple[Image, list[str]]:
    """Return scikit-learn's 1,797 digits of 8x8 pixels, normalised like drawings, and labels."""
    data, margin, factor = load_digits(), (SIDE - BOX) // 2 * FINE, BOX * FINE / 8
    large = (zoom(each, factor, order=1, mode="nearest", grid_mode=True) for each in data.images)
    images = [_centred(np.pad(each / 16.0, margin)) for each in large]
    return np.stack(images), [str(label) for label in data.target]


def _centred(ink: NDArray[np.float64]) -> Image:
    """Return an image of ink in subpixels, from 0 to 1, with its centre of mass in the middle."""
    margin, weights = (SIDE - BOX) // 2 * FINE, (ink.sum(axis=1), ink.sum(axis=0))
    means = np.array([np.average(np.arange(len(each)) + 0.5, weights=each) for each in weights])
    move = np.clip(np.rint(SIDE * FINE / 2 - means), -margin, margin).astype(int)
    blocks = np.roll(ink, move, axis=(0, 1)).reshape(SIDE, FINE, SIDE, FINE)
    image: Image = np.rint(255.0 * blocks.mean(axis=(1, 3))).astype(np.uint8)
    return image


def _read(strokes: Any) -> list[NDArray[np.float64]]:
    with suppress(TypeError, ValueError, OverflowError):
        paths = [np.array([(float(x), float(y)) for x, y in stroke]) for stroke in strokes]
        points = np.concatenate(paths)
        if 0 < len(points) <= MAX_POINTS and (abs(points) <= FARTHEST).all():
            return paths
    found = f"strokes={reprlib.repr(strokes):.50}"
    raise ValueError(f"{found}, expected lists of points, 1 to {MAX_POINTS:,}.")
