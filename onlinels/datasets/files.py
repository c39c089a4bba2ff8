"""Rows of equal size in a binary file, gzipped or not, whole or in chunks."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onlinels.bounded import LARGEST_FILE, LARGEST_RATIO, read_up_to
from onlinels.settings import check_path

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
