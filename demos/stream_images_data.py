"""The images of stream_images.py: read, and checked before anything takes long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from onlinels import ShallowConvClassifier
from onlinels.checks import check_values
from onlinels.datasets import ImageData, read_image_data
from onlinels.labels import read_labels

DIGITS_TEST_ROWS = 500
FEWEST_ROWS = 4
"""So that two, which fix the features, come in the first half."""


def read_data(path: Path | None, rows: int | None, test_rows: int | None) -> ImageData:
    """Read the first so many images to learn and to test on; None: all."""
    data = read_image_data(path) if path else split_digits()
    return ImageData(
        data.x_train[:rows], data.y_train[:rows], data.x_test[:test_rows], data.y_test[:test_rows]
    )


def split_digits() -> ImageData:
    """Test on the last rows in the data set's own order: harder than rows from everywhere."""
    digits = load_digits()
    x_train, x_test = np.split(digits.images, [-DIGITS_TEST_ROWS])
    y_train, y_test = np.split(digits.target, [-DIGITS_TEST_ROWS])
    return ImageData(x_train, y_train, x_test, y_test)


def check_data(data: ImageData, model: ShallowConvClassifier) -> None:
    """Raise unless the model can learn all images and be tested; it is left as it is.

    Raises
    ------
    TypeError, ValueError
        If images are too few, or pixels, their shape or labels do not fit.
    """
    if len(data.x_train) < FEWEST_ROWS or not len(data.x_test):
        raise ValueError(
            f"There are {len(data.x_train)} images to learn and {len(data.x_test)} to test on, "
            f"expected at least {FEWEST_ROWS} and 1. Pass more images."
        )
    # Its warm-up is never full: what is made from a few extreme images may fail.
    trial = model.clone({"warm_up": 1000})
    for part in ("train", "test"):
        images, labels = getattr(data, f"x_{part}"), getattr(data, f"y_{part}")
        check_values(f"x_{part}", images)
        read_labels(labels, len(images))
        # What the model refuses of numbers is their size.
        extremes = np.unravel_index([images.argmin(), images.argmax()], images.shape)[0]
        trial.learn_many(images[extremes], labels[extremes])
