"""Images and their labels from where they lie: whole or in mini-batches."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import check_path
from onlinels.saving.arrays import (
    LARGEST_FILE,
    LARGEST_RATIO,
    UNREADABLE,
    ArrayArchive,
    read_up_to,
)

MOST_DIMENSIONS = 32
"""Numpy's arrays have at most 64."""


@dataclass(frozen=True)
class RowFile:
    """Rows of equal size in a binary file.

    Parameters
    ----------
    path : Path
        The file; one that ends in ".gz" is unzipped as it is read.
    start : int
        Bytes before the first row.
    shape : tuple of int
        The number of rows, then the shape of a row.
    dtype : dtype
        Of the values.
    where : str
        Where to get the file, for messages.

    Raises
    ------
    ValueError
        If the file cannot hold so many rows; nothing has been allocated by then.

    Notes
    -----
    The size of a zipped file is known once it has been read: its reading fails at the end, or here
    if not even the best compression could hold the rows. So a file stands for at most 2 GiB and
    1,032 times its own bytes, and no more is unzipped than its header states. Rows take memory as
    they are read, not as they are stated.

    References
    ----------
    P. Deutsch, "DEFLATE compressed data format specification version 1.3", RFC 1951, 1996.
    """

    path: Path
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    where: str

    def __post_init__(self) -> None:
        n_bytes = self.start + math.prod(self.shape) * self.dtype.itemsize
        fits = 1 <= len(self.shape) <= MOST_DIMENSIONS and n_bytes <= LARGEST_FILE
        if not fits or min(self.shape) < 1:
            raise ValueError(
                f"{self.path} states the shape {self.shape}, expected dimensions of at least 1, at "
                f"most {MOST_DIMENSIONS} of them, and at most {LARGEST_FILE} bytes. It is damaged "
                f"or of another format; {self.where}"
            )
        held = self.path.stat().st_size
        zipped = self.path.suffix == ".gz"
        if held * LARGEST_RATIO < n_bytes if zipped else held != n_bytes:
            raise ValueError(
                f"{self.path} has a size of {held} bytes, expected {n_bytes} bytes"
                f"{' before zipping' * zipped} for the shape {self.shape}. It is cut short or "
                f"damaged; {self.where}"
            )

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Read the rows in order, so many at a time.

        Parameters
        ----------
        n_rows : int
            Rows of a chunk; the last one may be shorter.

        Yields
        ------
        ndarray
            Rows of the shape and type that the file has.

        Raises
        ------
        ValueError
            If the file turns out to be damaged.
        """
        with _opened(self.path, self.where) as file:
            file.read(self.start)
            for at in range(0, len(self), n_rows):
                n_left = len(self) - at
                shape = (min(n_rows, n_left), *self.shape[1:])
                n_bytes = math.prod(shape) * self.dtype.itemsize
                content = read_up_to(file, n_bytes)
                if len(content) < n_bytes or (n_left <= n_rows and file.read(1)):
                    raise ValueError(
                        f"{self.path} holds {'fewer' if len(content) < n_bytes else 'more'} values "
                        f"than expected for the shape {self.shape}. It is cut short or damaged; "
                        f"{self.where}"
                    )
                yield np.ndarray(shape, self.dtype, content)

    def read(self) -> NDArray[Any]:
        """Read all rows.

        Returns
        -------
        ndarray of the shape and type that the file has

        Raises
        ------
        ValueError
            If the file turns out to be damaged, or they do not fit into memory.
        """
        try:
            return next(self.chunks(len(self)))
        except MemoryError as error:
            raise ValueError(
                f"{self.path} states the shape {self.shape}, which takes more memory than there "
                f"is. Take other data, or {self.where}"
            ) from error


def read_beginning(path: Path, n_bytes: int, where: str) -> bytes:
    """Return the first bytes of a file, unzipped; fewer if it is shorter."""
    with _opened(path, where) as file:
        return file.read(n_bytes)


def as_file(path: str | Path, where: str) -> Path:
    """Return the path of a file that is there.

    Parameters
    ----------
    path : str or Path
    where : str
        Where to get the file, for the message.

    Raises
    ------
    TypeError
        If it is no path.
    FileNotFoundError
        If nothing is there.
    ValueError
        If it is a folder, a device or a pipe.
    """
    path = check_path("path", path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Pass one that is there, or {where}")
    if not path.is_file():
        # What is neither would be waited for, or never end.
        kind = "folder" if path.is_dir() else "device or a pipe"
        raise ValueError(f"{path} is a {kind}, expected a file. Pass one, or {where}")
    return path


def check_pairs(images: RowFile, labels_path: Path, labels: NDArray[Any], n_classes: int) -> None:
    """Raise unless there is one label from 0 to `n_classes` - 1 for every image."""
    if labels.shape != (len(images),):
        raise ValueError(
            f"{labels_path} holds labels of shape {labels.shape}, expected ({len(images)},): one "
            f"for every image of {images.path}. Get both files again; {images.where}"
        )
    check_labels(labels_path, labels, n_classes, images.where)


def check_labels(path: Path, labels: NDArray[Any], n_classes: int, where: str) -> None:
    """Raise unless all labels are from 0 to `n_classes` - 1."""
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(
            f"{path} holds labels from {labels.min()} to {labels.max()}, expected 0 to "
            f"{n_classes - 1}. Pass other data as an .npz file, or {where}"
        )


def find_file(folder: Path, names: tuple[str, ...], where: str) -> Path:
    """Return the first file of a folder that has one of the names.

    Parameters
    ----------
    folder : Path
    names : tuple of str
    where : str
        Where to get the file, for the message.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} holds no file {' or '.join(names)}. Put it there; {where}")


@contextmanager
def _opened(path: Path, where: str) -> Iterator[BufferedIOBase]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast("BufferedIOBase", file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is no gzip file or damaged: {error}; {where}") from error


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


Batch = tuple[NDArray[Any], NDArray[Any]]
CHUNK = 1024
"""Images that are read at a time when all are wanted."""


@dataclass(frozen=True)
class ImageSource:
    """Images with labels that can be read in order, from the first on, as often as wanted.

    Parameters
    ----------
    n_images : int
    image_shape : tuple of int
        (height, width[, n_channels]).
    label_type : dtype
    chunks : callable
        Of a number of rows: an iterator over (images, labels) of at most so many rows each.
    """

    n_images: int
    image_shape: tuple[int, ...]
    label_type: np.dtype[Any]
    chunks: Callable[[int], Iterator[Batch]]


@dataclass(frozen=True)
class Format:
    """How a data set is published.

    Parameters
    ----------
    title : str
    names : tuple of str
        Of its files.
    where : str
        Where to get them, for messages.
    open_part : callable
        Of a folder and "train" or "test": the sources of its images.
    """

    title: str
    names: tuple[str, ...]
    where: str
    open_part: Callable[[Path, str], tuple[ImageSource, ...]]


def with_labels(images: Iterator[NDArray[Any]], labels: NDArray[Any]) -> Iterator[Batch]:
    """Yield batches of images together with their labels, the next ones of all labels."""
    at = 0
    for batch in images:
        yield batch, labels[at : at + len(batch)]
        at += len(batch)


def read_all(sources: tuple[ImageSource, ...]) -> Batch:
    """Read all images and labels of sources with images of one shape.

    Parameters
    ----------
    sources : tuple of ImageSource

    Returns
    -------
    images : ndarray of uint8 (n, height, width[, n_channels])
    labels : ndarray (n,)

    Notes
    -----
    The arrays are filled a chunk at a time: hardly more memory than they need themselves.
    """
    n_images = sum(source.n_images for source in sources)
    images = np.empty((n_images, *sources[0].image_shape), np.uint8)
    labels = np.empty(n_images, sources[0].label_type)
    at = 0
    for source in sources:
        for some_images, some_labels in source.chunks(CHUNK):
            rows = slice(at, at + len(some_labels))
            images[rows], labels[rows] = some_images, some_labels
            at = rows.stop
    return images, labels


def batches_of(sources: tuple[ImageSource, ...], batch_size: int) -> Iterator[Batch]:
    """Read sources one after the other in mini-batches of one size; the last may be smaller.

    Parameters
    ----------
    sources : tuple of ImageSource
    batch_size : int

    Yields
    ------
    images : ndarray (batch_size, height, width[, n_channels])
    labels : ndarray (batch_size,)

    Notes
    -----
    A batch may begin in one source and end in the next. At most two batches are held.
    """
    chunks = (chunk for source in sources for chunk in source.chunks(batch_size))
    held: list[Batch] = []
    for chunk in chunks:
        held.append(chunk)
        n_over = sum(len(labels) for _, labels in held) - batch_size
        if n_over >= 0:
            images, labels = _joined(held)
            yield images[:batch_size], labels[:batch_size]
            held = [(images[batch_size:], labels[batch_size:])] if n_over else []
    if held:
        yield _joined(held)


def slices_of(images: NDArray[Any], labels: NDArray[Any], n_rows: int) -> Iterator[Batch]:
    """Cut arrays into chunks of `n_rows` rows."""
    for at in range(0, len(labels), n_rows):
        yield images[at : at + n_rows], labels[at : at + n_rows]


def _joined(batches: Iterable[Batch]) -> Batch:
    all_images, all_labels = zip(*batches, strict=True)
    if len(all_labels) == 1:
        return all_images[0], all_labels[0]
    return np.concatenate(all_images), np.concatenate(all_labels)
