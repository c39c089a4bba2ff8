"""Read images and labels from binary files and .npz files, in chunks of rows."""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onlinels.saving.arrays import (
    MAX_COMPRESSION_RATIO,
    MAX_FILE_BYTES,
    READ_ERRORS,
    ArrayArchive,
    read_up_to,
)

Batch = tuple[NDArray[Any], NDArray[Any]]

Source = Callable[[int], Iterator[Batch]]
"""A function that yields images and labels in order, at most so many at a time, on each call."""

# The SHA-256 checksums of the files are those in the tables of tensorflow-datasets.
PUBLISHED_BLOCKS = Path(__file__).with_name("published.txt").read_text("utf-8").split("\n\n")
PUBLISHED: dict[str, tuple[str, dict[str, str]]] = {
    name: (url, dict(zip(words[1::2], words[::2], strict=True)))
    for name, url, *words in map(str.split, PUBLISHED_BLOCKS)
}
"""URL of every data set, and the names and checksums of its files."""

BLOCK_IMAGES = 1024
"""Images read at a time when all are read."""

MAX_DIMENSIONS = 32
"""Most dimensions of an array in a file; numpy allows 64."""


@dataclass(frozen=True)
class Format:
    """The published files of a data set: for every part, the possible names of each file."""

    title: str
    where: str
    files: Mapping[str, Sequence[tuple[str, ...]]]
    open_files: Callable[..., Iterable[Source]]

    @property
    def names(self) -> list[str]:
        """All possible names of files."""
        return [name for files in self.files.values() for names in files for name in names]

    def lies_in(self, folder: Path) -> bool:
        """Return whether a folder holds any of the files."""
        return any((folder / name).is_file() for name in self.names)


def damaged(path: Path, problem: str, where: str) -> ValueError:
    """Return the error for a file that is not in the expected format."""
    cause = "The file is truncated, damaged or in another format"
    return ValueError(f"{path} {problem}. {cause}; {where}")


@dataclass(frozen=True)
class RowFile:
    """Rows of equal size in a binary file, decompressed while reading if it ends in ".gz"."""

    # The decompressed size of a file is known only after reading. Until then, the size in its
    # header is bounded by the best compression ratio (RFC 1951), and rows take memory as they are
    # read.

    path: Path
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    where: str

    def __post_init__(self) -> None:
        n_bytes = self.start + math.prod(self.shape) * self.dtype.itemsize
        fits = 1 <= len(self.shape) <= MAX_DIMENSIONS and n_bytes <= MAX_FILE_BYTES
        if not fits or min(self.shape) < 1:
            expected = f"1 to {MAX_DIMENSIONS} sizes above 0 and at most {MAX_FILE_BYTES} bytes"
            raise self.damaged(f"has the shape {self.shape}, expected {expected}")
        held, zipped = self.path.stat().st_size, self.path.suffix == ".gz"
        if held * MAX_COMPRESSION_RATIO < n_bytes if zipped else held != n_bytes:
            expected = f"{n_bytes}{' before compression' * zipped}"
            raise self.damaged(f"has {held} bytes, expected {expected}")

    def damaged(self, problem: str) -> ValueError:
        """Return the error for this file."""
        return damaged(self.path, problem, self.where)

    def chunks(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Yield `n_rows` rows at a time; raise ValueError if the file ends too soon or too late."""
        with opened(self.path, self.where) as file:
            file.read(self.start)
            for n_left in range(self.shape[0], 0, -n_rows):
                shape = (min(n_rows, n_left), *self.shape[1:])
                n_bytes = math.prod(shape) * self.dtype.itemsize
                content = read_up_to(file, n_bytes)
                if len(content) < n_bytes or (n_left <= n_rows and file.read(1)):
                    held = "fewer" if len(content) < n_bytes else "more"
                    raise self.damaged(f"holds {held} values than the shape {self.shape}")
                yield np.ndarray(shape, self.dtype, content)

    def read(self) -> NDArray[Any]:
        """Return all rows."""
        return next(self.chunks(self.shape[0]))


@contextmanager
def opened(path: Path, where: str) -> Iterator[BufferedIOBase]:
    """Open a file for reading, decompressed."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast("BufferedIOBase", file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, f"is not a gzip file: {error}", where) from error


def paired(images: RowFile, labels: RowFile, n_classes: int, axes: tuple[int, ...]) -> Source:
    """Return a source of images, with their axes reordered, and labels below `n_classes`."""
    numbers = labels.read()
    if numbers.shape != images.shape[:1]:
        expected = f"{images.shape[:1]}, one for every image of {images.path}"
        raise labels.damaged(f"holds labels of shape {numbers.shape}, expected {expected}")
    check_labels(labels, numbers, n_classes)

    def source(n_rows: int) -> Iterator[Batch]:
        for number, rows in enumerate(images.chunks(n_rows)):
            batch = numbers[number * n_rows :][: len(rows)]
            yield np.ascontiguousarray(rows.transpose(axes)), batch

    return source


def check_labels(file: RowFile, labels: NDArray[Any], n_classes: int) -> None:
    """Raise ValueError unless all labels are from 0 to `n_classes` - 1."""
    found = labels.min(), labels.max()
    if found[0] < 0 or found[1] >= n_classes:
        raise file.damaged(f"holds labels {found[0]} to {found[1]}, expected 0 to {n_classes - 1}")


def read_npz(path: Path, part: str) -> Batch:
    """Return the images and labels of "train" or "test" in an .npz file."""
    if not path.is_file():
        problem = f"{path} does not exist, or is neither a file nor a folder"
        raise FileNotFoundError(f"{problem}. Pass an .npz file or a folder.")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not an .npz file")
        with path.open("rb") as file:
            archive = ArrayArchive(file)
            images, labels = archive.read(f"x_{part}"), archive.read(f"y_{part}")
    except READ_ERRORS as error:
        remedy = f"Pass an .npz file, or the folder of other files: {path.absolute().parent}."
        raise ValueError(f"{path} cannot be read: {str(error).rstrip('.')}. {remedy}") from error
    if images.ndim not in (3, 4) or labels.ndim != 1 or len(images) != len(labels):
        found = f"x_{part} has shape {images.shape} and y_{part} {labels.shape}"
        expected = "(n, height, width[, n_channels]) and (n,), one label per image"
        raise ValueError(f"{path}: {found}, expected {expected}. Save arrays like these.")
    return images, labels


def read_all(sources: Iterable[Source]) -> Batch:
    """Return all images and labels of the sources."""
    return _joined([chunk for source in sources for chunk in source(BLOCK_IMAGES)])


def batches_of(sources: Iterable[Source], batch_size: int) -> Iterator[Batch]:
    """Yield the sources one after the other in batches of one size; the last may be smaller."""
    held: list[Batch] = []
    for chunk in (chunk for source in sources for chunk in source(batch_size)):
        images, labels = _joined([*held, chunk])
        if len(labels) >= batch_size:
            yield images[:batch_size], labels[:batch_size]
            images, labels = images[batch_size:], labels[batch_size:]
        held = [(images, labels)] if len(labels) else []
    yield from held


def _joined(batches: Iterable[Batch]) -> Batch:
    all_images, all_labels = zip(*batches, strict=True)
    if len(all_labels) == 1:
        return all_images[0], all_labels[0]
    return np.concatenate(all_images), np.concatenate(all_labels)


def slices_of(images: NDArray[Any], labels: NDArray[Any], n_rows: int) -> Iterator[Batch]:
    """Yield contiguous chunks of `n_rows` rows: at least one, even if it is empty."""
    for at in range(0, max(1, len(labels)), n_rows):
        yield np.ascontiguousarray(images[at : at + n_rows]), labels[at : at + n_rows]
