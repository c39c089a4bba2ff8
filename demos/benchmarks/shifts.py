"""Images as they are and shifted four ways, for scores that are averaged over these views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def check_shifts(by: int, image_shape: tuple[int, ...]) -> None:
    """Raise unless images (height, width[, n_channels]) shifted so far leave something to see.

    Raises
    ------
    ValueError
        If they are as small as that, or `by` is negative.
    """
    smallest = min(image_shape[:2])
    if by not in range(smallest):
        raise ValueError(f"--test-shifts is {by}, expected 0 to {smallest - 1} pixels.")


def shifted(images: Array, by: int, fill: Literal["zero", "edge"] = "zero") -> Iterator[Array]:
    """Yield images as they are, and, unless `by` is 0, shifted down, up, right and left.

    Parameters
    ----------
    images : ndarray (n, height, width[, n_channels])
    by : int
        Pixels.
    fill : "zero" or "edge"
        What comes in at the edge: zeros, or the nearest pixel of the image.
    """
    yield images
    if not by:
        return
    height, width = images.shape[1:3]
    margins = ((0, 0), (by, by), (by, by), *((0, 0),) * (images.ndim - 3))
    wide = np.pad(images, margins, mode="edge" if fill == "edge" else "constant")
    for top, left in ((0, by), (2 * by, by), (by, 0), (by, 2 * by)):
        yield wide[:, top : top + height, left : left + width]
