"""The IDX format of MNIST and Fashion-MNIST, gzipped or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlinels.datasets.reading import (
    PUBLISHED,
    Format,
    RowFile,
    Source,
    damaged,
    opened,
    paired,
)
from onlinels.saving.arrays import as_file

URL, FASHION_URL = PUBLISHED["mnist"][0], PUBLISHED["fashion-mnist"][0]
WHERE = f"get MNIST from {URL} or Fashion-MNIST from {FASHION_URL}"
STARTS = {"train": "train", "test": "t10k"}
KINDS = {"images": 3, "labels": 1}
"""Dimensions of the two kinds of files; their names tell them."""
WORD = 4


def _names(start: str, kind: str) -> tuple[str, ...]:
    # With a hyphen or a dot, unzipped or not.
    end = f"idx{KINDS[kind]}-ubyte"
    return tuple(f"{start}-{kind}{mark}{end}{zipped}" for zipped in ("", ".gz") for mark in "-.")


def _open(*paths: Path) -> list[Source]:
    """Open the files of images (height, width) and of labels."""
    images, labels = map(open_idx, paths)
    if len(images.shape) != KINDS["images"]:
        raise images.damaged(f"states the shape {images.shape}, expected (n, height, width)")
    return [paired(images, labels, n_classes=10, axes=(0, 1, 2))]


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes from an IDX file.

    Parameters
    ----------
    path : str or Path
        The file; one that ends in ".gz" is unzipped.

    Returns
    -------
    ndarray of uint8
        Of the shape that the file states: (n, height, width) or (n,).

    Raises
    ------
    TypeError
        If `path` is no path.
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is a folder, damaged or of another format.

    Notes
    -----
    Two zero bytes, the type code, the number of dimensions, each dimension as a big-endian 32-bit
    number, then the values. A file stands for at most 2 GiB, a byte that is zipped for at most
    1,032: what states more is refused before any memory is taken.

    References
    ----------
    Y. LeCun, C. Cortes and C. J. C. Burges, "The MNIST database of handwritten digits".

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.idx"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    return open_idx(as_file(path, WHERE)).read()


def open_idx(path: Path) -> RowFile:
    """Read the header of an IDX file of unsigned bytes."""
    with opened(path, WHERE) as file:
        header = file.read(WORD * 256)
    if len(header) < WORD or header[:3] != bytes([0, 0, 8]):
        expected = "00 00 08 (unsigned bytes) and the number of dimensions"
        raise damaged(path, f"begins with {header[:WORD].hex(' ')}, expected {expected}", WHERE)
    start = WORD * (1 + header[3])
    shape = tuple(int.from_bytes(header[at : at + WORD], "big") for at in range(WORD, start, WORD))
    return RowFile(path, start, shape, np.dtype(np.uint8), WHERE)


FILES = {part: [_names(start, kind) for kind in KINDS] for part, start in STARTS.items()}
IDX = Format("MNIST or Fashion-MNIST", WHERE, FILES, _open)
