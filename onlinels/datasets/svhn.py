"""The cropped digits of SVHN in MATLAB 5 files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels.datasets.matlab import NUMBERS, MatlabArray, list_arrays
from onlinels.datasets.reading import Batch, Format, ImageSource, find_file, with_labels

URL = "http://ufldl.stanford.edu/housenumbers/"
WHERE = f"get SVHN's cropped digits from {URL}"
PARTS = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
EXTRA = "extra_32x32.mat"
NAMES = (*PARTS.values(), EXTRA)
IMAGE = (32, 32, 3)
ADVICE = f"Pass the file as it was published; {WHERE}"
LABEL_OF_ZERO = 10


def svhn_sources(folder: Path, part: str, extra: bool | None = None) -> tuple[ImageSource, ...]:
    """Open SVHN's files in a folder.

    Parameters
    ----------
    folder : Path
    part : {"train", "test"}
    extra : bool or None
        Whether the extra images follow the training images; None if their file lies there.

    Returns
    -------
    tuple of ImageSource, one for each file
        Images of uint8 (32, 32, 3), labels of uint8 from 0 to 9.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If one is damaged or does not hold what is expected.

    Notes
    -----
    `X` (32, 32, 3, n) uint8 and `y` (n, 1), the digit zero labelled 10.

    References
    ----------
    Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and A. Y. Ng, "Reading digits in natural
    images with unsupervised feature learning", NIPS workshop 2011.
    """
    names = [PARTS[part]]
    if part == "train" and (extra or (extra is None and (folder / EXTRA).is_file())):
        names.append(EXTRA)
    return tuple(_source(find_file(folder, (name,), WHERE)) for name in names)


def _source(path: Path) -> ImageSource:
    listed = list_arrays(path, ADVICE)
    images, numbers = (_only(path, listed, name) for name in ("X", "y"))
    n_images = images.shape[-1] if images.shape else 0
    if images.kind != "uint8" or images.shape != (*IMAGE, n_images) or n_images < 1:
        raise ValueError(
            f"{path} holds X of {images.kind} {images.shape}, expected uint8 (32, 32, 3, n). "
            f"{ADVICE}"
        )
    if numbers.kind not in NUMBERS or numbers.shape != (n_images, 1):
        raise ValueError(
            f"{path} holds y of {numbers.kind} {numbers.shape}, expected one number for each of "
            f"{n_images} images. {ADVICE}"
        )
    images.check()
    labels = _labels(path, next(numbers.chunks(n_images)))
    return ImageSource(n_images, IMAGE, labels.dtype, partial(_chunks, images, labels))


def _only(path: Path, listed: list[MatlabArray], name: str) -> MatlabArray:
    found = [array for array in listed if array.name == name]
    if len(found) != 1:
        raise ValueError(f"{path} holds {len(found)} arrays {name}, expected one. {ADVICE}")
    return found[0]


def _labels(path: Path, numbers: NDArray[Any]) -> NDArray[np.uint8]:
    if not np.isin(numbers, np.arange(1, LABEL_OF_ZERO + 1)).all():
        raise ValueError(f"{path} holds labels other than 1 to 9, and 10 for zero. {ADVICE}")
    return np.where(numbers == LABEL_OF_ZERO, 0, numbers).astype(np.uint8)


def _chunks(images: MatlabArray, labels: NDArray[Any], n_rows: int) -> Iterator[Batch]:
    # The first index runs fastest: read back to front.
    columns = (
        values.reshape(-1, *IMAGE[::-1]).transpose(0, 3, 2, 1)
        for values in images.chunks(n_rows * math.prod(IMAGE))
    )
    return with_labels(map(np.ascontiguousarray, columns), labels)


SVHN = Format("SVHN", NAMES, WHERE, svhn_sources)
