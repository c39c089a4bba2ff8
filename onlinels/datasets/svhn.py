"""The cropped digits of SVHN in MATLAB 5 files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat

from onlinels.datasets.files import LARGEST_FILE, LARGEST_RATIO, find_file
from onlinels.datasets.source import Batch, Format, ImageSource, slices_of

URL = "http://ufldl.stanford.edu/housenumbers/"
WHERE = f"get SVHN's cropped digits from {URL}"
PARTS = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
EXTRA = "extra_32x32.mat"
NAMES = (*PARTS.values(), EXTRA)
IMAGE = (32, 32, 3)
ADVICE = f"Pass the file as it was published; {WHERE}"
LABEL_OF_ZERO = 10
LABEL_TYPES = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "single", "double"}
"""MATLAB's plain numeric types; objects, cells and structures are not read."""


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
    `X` (32, 32, 3, n) uint8 and `y` (n, 1), the digit zero labelled 10. A file is read whole: its
    arrays are compressed as one block each, which MATLAB's reader does not read in parts. The
    extra images take 1.6 GB in memory.

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
    n_images = _count(path)
    return ImageSource(n_images, IMAGE, np.dtype(np.uint8), partial(_chunks, path))


def _count(path: Path) -> int:
    # The headers say what the arrays would need, before anything of that size is allocated.
    listed = [entry for entry in _listed(path) if entry[0] in ("X", "y")]
    held = {name: (shape, kind) for name, shape, kind in listed}
    images, image_type = held.get("X", ((), "nothing"))
    labels, label_type = held.get("y", ((), "nothing"))
    n_images = images[-1] if images else 0
    if images != (*IMAGE, n_images) or image_type != "uint8" or n_images < 1:
        found, expected = f"X of {image_type} {images}", "uint8 (32, 32, 3, n)"
    elif labels != (n_images, 1) or label_type not in LABEL_TYPES:
        found, expected = f"y of {label_type} {labels}", f"one number for each of {n_images} images"
    elif len(listed) > len(held):
        found, expected = "X or y twice", "one of each"
    else:
        _check_size(path, n_images * math.prod(IMAGE))
        return n_images
    raise ValueError(f"{path} holds {found}, expected {expected}. {ADVICE}")


def _check_size(path: Path, n_bytes: int) -> None:
    held = path.stat().st_size
    if n_bytes > min(LARGEST_FILE, held * LARGEST_RATIO):
        raise ValueError(
            f"{path} has a size of {held} bytes and states {n_bytes} bytes of images, expected at "
            f"most {LARGEST_FILE}, or a larger file. {ADVICE}"
        )


def _chunks(path: Path, n_rows: int) -> Iterator[Batch]:
    images, numbers = _loaded(path)
    if not np.isin(numbers, np.arange(1, LABEL_OF_ZERO + 1)).all():
        raise ValueError(f"{path} holds labels other than 1 to 9, and 10 for zero. {ADVICE}")
    labels = np.where(numbers == LABEL_OF_ZERO, 0, numbers)[:, 0].astype(np.uint8)
    for some_images, some_labels in slices_of(images.transpose(3, 0, 1, 2), labels, n_rows):
        yield np.ascontiguousarray(some_images), some_labels


def _loaded(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with _readable(path):
        held = loadmat(path, appendmat=False, variable_names=["X", "y"])
        images, numbers = held["X"], held["y"]
        if images.dtype != np.uint8 or numbers.dtype.kind not in "uif":
            raise ValueError(f"X of {images.dtype} and y of {numbers.dtype}")
        return images, numbers


def _listed(path: Path) -> Sequence[tuple[str, tuple[int, ...], str]]:
    with _readable(path):
        return whosmat(path, appendmat=False)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    # MATLAB's reader ends on damaged bytes with whatever they lead it to, a warning at times.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    except Exception as error:
        raise ValueError(f"{path} is no MATLAB 5 file or damaged: {error}. {ADVICE}") from error


SVHN = Format("SVHN", NAMES, WHERE, svhn_sources)
