"""The binary matrix format of small NORB, gzipped or not.

Y. LeCun, F. J. Huang and L. Bottou, "Learning methods for generic object recognition with
invariance to pose and lighting", CVPR 2004.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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

NORB_REMEDY = f"get small NORB from {PUBLISHED['norb'][0]}"
DTYPES_BY_MAGIC: dict[int, np.dtype[Any]] = {
    0x1E3D4C55: np.dtype(np.uint8),
    0x1E3D4C54: np.dtype("<i4"),
}
"""Magic numbers of matrices of bytes and of 32-bit integers."""
WORD_BYTES = 4
MAX_DIMENSIONS = 8


def _files(part: str) -> list[tuple[str, ...]]:
    zipped = [name for name in PUBLISHED["norb"][1] if part in name and "info" not in name]
    return [(name.removesuffix(".gz"), name) for name in zipped]


def _open(*paths: Path) -> list[Source]:
    """Open the files of stereo pairs (96, 96, 2), with a channel per camera, and of categories."""
    # 0 animal, 1 human, 2 airplane, 3 truck, 4 car. The info file, with instance, elevation,
    # azimuth and lighting, is not needed; `read_norb` reads it.
    images, labels = map(open_norb, paths)
    if images.shape[1:] != (2, 96, 96) or images.dtype != np.uint8:
        raise images.damaged(f"is {images.dtype} {images.shape}, expected uint8 (n, 2, 96, 96)")
    return [paired(images, labels, n_classes=5, axes=(0, 2, 3, 1))]


def read_norb(path: str | Path) -> NDArray[Any]:
    """Read a matrix of bytes or of 32-bit integers in the format of small NORB.

    Parameters
    ----------
    path : str or Path
        Path of the file; a file that ends in ".gz" is decompressed.

    Returns
    -------
    ndarray of uint8 or int32
        Array of the shape in the file's header: (n, 2, 96, 96) for the images, (n,) for the
        categories, (n, 4) for instance, elevation, azimuth and lighting.

    Raises
    ------
    TypeError
        If `path` is not a path.
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the path is that of a folder, or the file is damaged or in another format.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bytes.mat"
    ...     _ = path.write_bytes(np.array([0x1E3D4C55, 1, 2, 1, 1], "<i4").tobytes() + b"ab")
    ...     read_norb(path)
    array([97, 98], dtype=uint8)
    """
    return open_norb(as_file(path, NORB_REMEDY)).read()


def open_norb(path: Path) -> RowFile:
    """Read the header of a binary matrix."""
    # Little-endian 32-bit words: the magic number, the number of dimensions, and the dimensions.
    # At least three dimensions are stored, even if fewer are used.
    with opened(path, NORB_REMEDY) as file:
        beginning = file.read(WORD_BYTES * (2 + MAX_DIMENSIONS))
    words = np.frombuffer(beginning, "<i4", count=len(beginning) // WORD_BYTES).tolist()
    if len(words) < 5 or words[0] not in DTYPES_BY_MAGIC:
        expected = "55 4c 3d 1e (bytes) or 54 4c 3d 1e (32-bit integers) and the dimensions"
        raise damaged(
            path, f"begins with {beginning[:WORD_BYTES].hex(' ')}, expected {expected}", NORB_REMEDY
        )
    n_words = max(words[1], 3)
    if not 1 <= words[1] <= MAX_DIMENSIONS or len(words) < 2 + n_words:
        problem = f"has {words[1]} dimensions, expected 1 to {MAX_DIMENSIONS}, each with its size"
        raise damaged(path, problem, NORB_REMEDY)
    shape = tuple(words[2 : 2 + words[1]])
    return RowFile(path, WORD_BYTES * (2 + n_words), shape, DTYPES_BY_MAGIC[words[0]], NORB_REMEDY)


NORB_FILES = {"train": _files("training"), "test": _files("testing")}
NORB = Format("small NORB", NORB_REMEDY, NORB_FILES, _open)
