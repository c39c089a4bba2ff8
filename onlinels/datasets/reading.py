"""Images and their labels from where they lie: rows of binary files and .npz files, in chunks."""

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

Batch = tuple[NDArray[Any], NDArray[Any]]

Source = Callable[[int], Iterator[Batch]]
"""Yields images and labels in order, at most so many at a time, as often as it is called."""

CHUNK = 1024
"""Images that are read at a time when all are wanted."""

MOST_DIMENSIONS = 32
"""Numpy's arrays have at most 64."""


@dataclass(frozen=True)
class Format:
    """How a data set is published; `open_part` opens "train" or "test" of a folder."""

    title: str
    names: tuple[str, ...]
    where: str
    open_part: Callable[[Path, str], tuple[Source, ...]]


@dataclass(frozen=True)
class RowFile:
    """Rows of equal size in a binary file, unzipped as they are read if it ends in ".gz"."""

    # The size of a zipped file is known once it has been read: what it states is bounded by what
    # the best compression could hold (RFC 1951). Rows take memory as they are read, not as stated.

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
        """Yield the rows in order, so many at a time; raise ValueError where they end too soon."""
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
        """Return all rows."""
        try:
            return next(self.chunks(len(self)))
        except MemoryError as error:
            raise ValueError(
                f"{self.path} states the shape {self.shape}, which takes more memory than there "
                f"is. Take other data, or {self.where}"
            ) from error

    def with_labels(
        self, labels: NDArray[Any], arranged: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> Source:
        """Return the rows as images, their axes arranged, with a label for each."""

        def source(n_rows: int) -> Iterator[Batch]:
            for number, rows in enumerate(self.chunks(n_rows)):
                yield np.ascontiguousarray(arranged(rows)), labels[number * n_rows :][: len(rows)]

        return source


@contextmanager
def _opened(path: Path, where: str) -> Iterator[BufferedIOBase]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast("BufferedIOBase", file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is no gzip file or damaged: {error}; {where}") from error


def read_beginning(path: Path, n_bytes: int, where: str) -> bytes:
    """Return the first bytes of a file, unzipped; fewer if it is shorter."""
    with _opened(path, where) as file:
        return file.read(n_bytes)


def as_file(path: str | Path, where: str) -> Path:
    """Return the path of a file that is there, or raise."""
    path = check_path("path", path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Pass one that is there, or {where}")
    if not path.is_file():
        # What is neither would be waited for, or never end.
        kind = "folder" if path.is_dir() else "device or a pipe"
        raise ValueError(f"{path} is a {kind}, expected a file. Pass one, or {where}")
    return path


def find_file(folder: Path, names: tuple[str, ...], where: str) -> Path:
    """Return the first file of a folder that has one of the names, or raise."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} holds no file {' or '.join(names)}. Put it there; {where}")


def check_pairs(images: RowFile, labels_path: Path, labels: NDArray[Any], n_classes: int) -> None:
    """Raise ValueError unless there is one label from 0 to `n_classes` - 1 for every image."""
    if labels.shape != (len(images),):
        raise ValueError(
            f"{labels_path} holds labels of shape {labels.shape}, expected ({len(images)},): one "
            f"for every image of {images.path}. Get both files again; {images.where}"
        )
    check_labels(labels_path, labels, n_classes, images.where)


def check_labels(path: Path, labels: NDArray[Any], n_classes: int, where: str) -> None:
    """Raise ValueError unless all labels are from 0 to `n_classes` - 1."""
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(
            f"{path} holds labels from {labels.min()} to {labels.max()}, expected 0 to "
            f"{n_classes - 1}. Pass other data as an .npz file, or {where}"
        )


ARRAYS = ("x_train", "y_train", "x_test", "y_test")
ZIPPED = b"PK"
"""What an .npz file begins with."""


def read_npz(path: Path, part: str) -> Batch:
    """Return the images and labels of "train" or "test" in an .npz file."""
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
            archive = ArrayArchive(opened)
            if missing := [name for name in ARRAYS if name not in archive.names]:
                raise ValueError(f"no array {missing[0]}")
            images, labels = archive.read(f"x_{part}"), archive.read(f"y_{part}")
    except UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read: {str(error).rstrip('.')}. Pass an .npz file of plain arrays "
            "x_train, y_train, x_test and y_test; or, of a data set in several files, their "
            f"folder: {path.absolute().parent}."
        ) from error
    if images.ndim not in (3, 4) or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(
            f"{path}: x_{part} has shape {images.shape} and y_{part} {labels.shape}, expected "
            "(n, height, width[, n_channels]) and (n,). Pass one label per image."
        )
    return images, labels


def read_all(sources: tuple[Source, ...]) -> Batch:
    """Return all images and labels of sources."""
    return _joined([chunk for source in sources for chunk in source(CHUNK)])


def batches_of(sources: tuple[Source, ...], batch_size: int) -> Iterator[Batch]:
    """Yield sources one after the other in batches of one size, the last of what is left."""
    held: list[Batch] = []
    for chunk in (chunk for source in sources for chunk in source(batch_size)):
        held.append(chunk)
        n_over = sum(len(labels) for _, labels in held) - batch_size
        if n_over >= 0:
            images, labels = _joined(held)
            yield images[:batch_size], labels[:batch_size]
            held = [(images[batch_size:], labels[batch_size:])] if n_over else []
    if held:
        yield _joined(held)


def _joined(batches: Iterable[Batch]) -> Batch:
    all_images, all_labels = zip(*batches, strict=True)
    if len(all_labels) == 1:
        return all_images[0], all_labels[0]
    return np.concatenate(all_images), np.concatenate(all_labels)


def slices_of(images: NDArray[Any], labels: NDArray[Any], n_rows: int) -> Iterator[Batch]:
    """Cut arrays into contiguous chunks of `n_rows` rows."""
    for at in range(0, len(labels), n_rows):
        yield np.ascontiguousarray(images[at : at + n_rows]), labels[at : at + n_rows]
