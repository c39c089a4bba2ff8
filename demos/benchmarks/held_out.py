"""Read an image data set; while settings are chosen, training images stand in for the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from digests import digest
from results_file import data_key

from onlinels.datasets import ImageData, read_image_data


def read_parts(path: Path, n_held_out: int = 0, n_rows: int | None = None) -> ImageData:
    """Read the images to learn and those to test on.

    Parameters
    ----------
    path : Path
        As `onlinels.datasets.read_image_data` takes it.
    n_held_out : int
        0 tests on the test images; otherwise the last so many training images are not learnt, and
        stand in for them.
    n_rows : int or None
        Learn the first so many of the training images that are left; None: all.

    Raises
    ------
    OSError, ValueError
        If the data cannot be read, or no image is left to learn.
    """
    data = read_image_data(path)
    n_left = len(data.x_train) - n_held_out
    if n_left < 1:
        raise ValueError(
            f"--validate is {n_held_out}, expected less than the {len(data.x_train)} training "
            f"images of {path}. Hold out fewer."
        )
    train = data.x_train[:n_left][:n_rows], data.y_train[:n_left][:n_rows]
    if not n_held_out:
        return ImageData(*train, data.x_test, data.y_test)
    return ImageData(*train, data.x_train[n_left:], data.y_train[n_left:])


def parts_key(path: Path, data: ImageData) -> dict[str, Any]:
    """Return what keys tell these images by, wherever they lie: their numbers and contents."""
    contents = digest(data.x_train, data.y_train, data.x_test, data.y_test)
    name, sizes = path.stem, (len(data.x_train), len(data.x_test))
    return data_key(name, *sizes) | {"contents": contents}
