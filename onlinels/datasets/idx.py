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
IDX_REMEDY = f"get MNIST from {URL} or Fashion-MNIST from {FASHION_URL}"
FILE_PREFIXES = {"train": "train", "test": "t10k"}
N_DIMENSIONS_BY_KIND = {"images": 3, "labels": 1}
"""Numbers of dimensions of the two kinds of files, which are part of their names."""
WORD_BYTES = 4


def _names(start: str, kind: str) -> tuple[str, ...]:
    # With a hyphen or a dot, gzipped or not.
    end = f"idx{N_DIMENSIONS_BY_KIND[kind]}-ubyte"
    return tuple(f"{start}-{kind}{mark}{end}{zipped}" for zipped in ("", ".gz") for mark in "-.")


def _open(*paths: Path) -> list[Source]:
    """Open the files of images (height, width) and of labels."""
    images, labels = map(open_idx, paths)
    if len(images.shape) != N_DIMENSIONS_BY_KIND["images"]:
        raise images.damaged(f"has the shape {images.shape}, expected (n, height, width)")
    return [paired(images, labels, n_classes=10, axes=(0, 1, 2))]


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes from an IDX file.

    Parameters
    ----------
    path : str or Path
        Path of the file; a file that ends in ".gz" is decompressed.

    Returns
    -------
    ndarray of uint8
        Array of the shape in the file's header: (n, height, width) or (n,).

    Raises
    ------
    TypeError
        If `path` is not a path.
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the path is that of a folder, or the file is damaged or in another format.

    Notes
    -----
    The format: two zero bytes, the type code, the number of dimensions, each dimension as a
    big-endian 32-bit number, then the values. A file may expand to at most 2 GiB, and a compressed
    byte to at most 1,032 bytes; files that state more are refused before memory is allocated.

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
    return open_idx(as_file(path, IDX_REMEDY)).read()


def open_idx(path: Path) -> RowFile:
    """Read the header of an IDX file of unsigned bytes."""
    with opened(path, IDX_REMEDY) as file:
        header = file.read(WORD_BYTES * 256)
    if len(header) < WORD_BYTES or header[:3] != bytes([0, 0, 8]):
        expected = "00 00 08 (unsigned bytes) and the number of dimensions"
        raise damaged(
            path, f"begins with {header[:WORD_BYTES].hex(' ')}, expected {expected}", IDX_REMEDY
        )
    start = WORD_BYTES * (1 + header[3])
    shape = tuple(
        int.from_bytes(header[at : at + WORD_BYTES], "big")
        for at in range(WORD_BYTES, start, WORD_BYTES)
    )
    return RowFile(path, start, shape, np.dtype(np.uint8), IDX_REMEDY)


IDX_FILES = {
    part: [_names(start, kind) for kind in N_DIMENSIONS_BY_KIND]
    for part, start in FILE_PREFIXES.items()
}
IDX = Format("MNIST or Fashion-MNIST", IDX_REMEDY, IDX_FILES, _open)
