"""Drawings as 28x28 images in the manner of MNIST, from strokes or from 8x8 digits."""

from __future__ import annotations

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
MAX_STROKES, MAX_POINTS, MAX_PLACE = 200, 5000, 10_000.0

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
    paths = [_points(stroke) for stroke in _some("strokes", strokes, MAX_STROKES)]
    points = np.concatenate(paths)
    if len(points) > MAX_POINTS:
        raise ValueError(f"The drawing has {len(points):,} points, expected at most {MAX_POINTS:,}.")
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


def digits() -> tuple[Image, list[str]]:
    """Return scikit-learn's 1,797 digits of 8x8 pixels, normalised like drawings, and labels."""
    data, margin = load_digits(), (SIDE - BOX) // 2 * FINE
    sizes = [BOX * FINE / 8] * 2
    large = (zoom(each, sizes, order=1, mode="nearest", grid_mode=True) for each in data.images)
    images = [_centred(np.pad(each / 16.0, margin)) for each in large]
    return np.stack(images), [str(label) for label in data.target]


def _centred(ink: NDArray[np.float64]) -> Image:
    """Return an image of ink in subpixels, from 0 to 1, with its centre of mass in the middle."""
    margin, weights = (SIDE - BOX) // 2 * FINE, (ink.sum(axis=1), ink.sum(axis=0))
    means = np.array([np.average(np.arange(len(each)) + 0.5, weights=each) for each in weights])
    move = np.clip(np.rint(SIDE * FINE / 2 - means), -margin, margin).astype(int)
    blocks = np.roll(ink, move, axis=(0, 1)).reshape(SIDE, FINE, SIDE, FINE)
    return np.rint(255.0 * blocks.mean(axis=(1, 3))).astype(np.uint8)


def _points(stroke: Any) -> NDArray[np.float64]:
    places = [_some("point", each, 2) for each in _some("stroke", stroke, MAX_POINTS)]
    for place in places:
        if len(place) != 2 or not all(
            type(each) in (int, float) and abs(each) <= MAX_PLACE for each in place
        ):
            raise ValueError(f"A point is {str(place)[:50]}, expected two numbers [x, y].")
    return np.array(places, dtype=np.float64)


def _some(name: str, value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        found = f"{len(value)} items" if isinstance(value, list) else type(value).__name__
        raise ValueError(f"{name} is {found}, expected a list of 1 to {most:,} items.")
    return value
