"""Image data in an .npz file of numpy arrays."""

from __future__ import annotations

from pathlib import Path

from onlinels.array_files import ArrayArchive
from onlinels.damage import UNREADABLE
from onlinels.datasets.source import Batch

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
IMAGE_DIMENSIONS = (3, 4)
ZIPPED = b"PK"
"""What an .npz file begins with."""


def read_npz(path: Path, part: str) -> Batch:
    """Read the images and labels of one part from an .npz file.

    Parameters
    ----------
    path : Path
    part : {"train", "test"}

    Returns
    -------
    images, labels : ndarray

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If it is damaged or no .npz file, an array is missing, or images and labels differ in
        number.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist or is no file. Pass an .npz file with x_train, y_train, x_test "
            "and y_test, or a folder with the files of MNIST, Fashion-MNIST, CIFAR-10, SVHN or "
            "small NORB."
        )
    try:
        with path.open("rb") as opened:
            if opened.read(len(ZIPPED)) != ZIPPED:
                raise ValueError("it is no .npz file")
            opened.seek(0)
            images, labels = _load(ArrayArchive(opened), part)
    except UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read: {str(error).rstrip('.')}. Pass an .npz file of plain arrays "
            "x_train, y_train, x_test and y_test; or, of a data set in several files, their "
            f"folder: {path.absolute().parent}."
        ) from error
    if images.ndim not in IMAGE_DIMENSIONS or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(
            f"{path}: x_{part} has shape {images.shape} and y_{part} {labels.shape}, expected "
            "(n, height, width[, n_channels]) and (n,). Pass one label per image."
        )
    return images, labels


def _load(archive: ArrayArchive, part: str) -> Batch:
    missing = [name for name in ARRAYS if name not in archive.names]
    if missing:
        raise ValueError(f"no array {missing[0]}")
    return archive.read(f"x_{part}"), archive.read(f"y_{part}")
