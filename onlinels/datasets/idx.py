"""The IDX format of MNIST and Fashion-MNIST, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

UNSIGNED_BYTE = 0x08
MAGIC_BYTES = 4
LARGEST_FILE = 1 << 31
"""Most bytes that an IDX file may hold: 2 GiB, so that a damaged header asks for no more."""


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes from an IDX file.

    Parameters
    ----------
    path : Path
        The file; one that ends in ".gz" is unzipped.

    Returns
    -------
    ndarray of uint8
        Of the shape that the file states: (n, height, width) or (n,).

    Raises
    ------
    ValueError
        If the file is damaged or of another format.

    Notes
    -----
    Two zero bytes, the type code, the number of dimensions, each dimension as a big-endian 32-bit
    number, then the values.

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
    if path.suffix == ".gz":
        try:
            with gzip.open(path) as file:
                content = file.read(LARGEST_FILE + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(
                f"{path} is no gzip file or damaged: {error}. Get it again."
            ) from error
    else:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    return _parse(path, content)


def _parse(path: Path, content: bytes) -> NDArray[np.uint8]:
    if len(content) > LARGEST_FILE:
        raise ValueError(f"{path} holds more than {LARGEST_FILE} bytes, expected a smaller file.")
    if len(content) < MAGIC_BYTES or content[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise ValueError(
            f"{path} begins with {content[:MAGIC_BYTES].hex(' ')}, expected 00 00 08 and the "
            "number of dimensions. Pass an IDX file of unsigned bytes."
        )
    n_dimensions = content[3]
    start = MAGIC_BYTES * (1 + n_dimensions)
    shape = tuple(
        int.from_bytes(content[at : at + MAGIC_BYTES], "big")
        for at in range(MAGIC_BYTES, start, MAGIC_BYTES)
    )
    size = 1
    for length in shape:
        size *= length
    if len(content) - start != size or not n_dimensions:
        raise ValueError(
            f"{path} holds {max(0, len(content) - start)} values, expected {size} for shape "
            f"{shape}. It is cut short or damaged; get it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
