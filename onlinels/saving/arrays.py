"""Arrays of numbers or text in numpy's file formats, read with memory bounded by the file size."""

from __future__ import annotations

import math
import struct
import sys
import zipfile
import zlib
from io import SEEK_END, BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from onlinels.checks import Matrix, check_path

MAX_FILE_BYTES = 1 << 31
"""Most bytes that compressed content may expand to: 2 GiB."""

MAX_COMPRESSION_RATIO = 1032
"""Most bytes that a compressed byte expands to: deflate copies 258 bytes with 2 bits at best."""

READ_BYTES = 1 << 20
"""Bytes read at a time, so that memory follows the content and not the size in a header."""

DAMAGE_ERRORS = (EOFError, struct.error, zlib.error, zipfile.BadZipFile)

# RuntimeError is raised for encrypted archives and for unknown kinds of compression, OverflowError
# for sizes beyond 64 bits.
READ_ERRORS = (
    *(OSError, ValueError, TypeError, MemoryError, RuntimeError, OverflowError),
    *DAMAGE_ERRORS,
)
"""Errors raised by damaged files and files in other formats, found by changing single bytes."""

MAX_HEADER_BYTES = 1_000
"""Most bytes of an array's header, which numpy reads as a Python literal. It writes some 100."""

HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    # Of arrays of numbers or text, the same.
    (3, 0): np.lib.format.read_array_header_2_0,
}
"""By version of the format."""


def as_file(path: str | PathLike[str], remedy: str) -> Path:
    """Return the path of an existing file, or raise."""
    path = check_path("path", path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Pass an existing file, or {remedy}")
    if not path.is_file():
        # Reading a device or a pipe could block or never end.
        kind = "folder" if path.is_dir() else "device or a pipe"
        raise ValueError(f"{path} is a {kind}, expected a file. Pass a file, or {remedy}")
    return path


def read_up_to(file: Any, n_bytes: int, start: bytes = b"") -> bytearray:
    """Return `start` and the next bytes of a file, `n_bytes` in all or fewer if the file ends.

    Memory is allocated while reading.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_up_to(BytesIO(b"abc"), 1 << 60)
    bytearray(b'abc')
    """
    content = bytearray(start)
    while piece := file.read(min(READ_BYTES, n_bytes - len(content))):
        content += piece
    return content


def read_npy(file: Any, n_bytes: int) -> Matrix:
    """Read an array of numbers or text from `n_bytes` bytes in numpy's format.

    Examples
    --------
    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> np.save(file, [[1, 2], [3, 4]])
    >>> read_npy(BytesIO(file.getvalue()), len(file.getvalue()))
    array([[1, 2],
           [3, 4]])
    """
    # Nothing is unpickled. `numpy.load` allocates any size that a header states; here, memory never
    # exceeds the size of the file.
    start = file.read(min(n_bytes, MAX_HEADER_BYTES))
    stream = BytesIO(start)
    try:
        read_header = HEADER_READERS[np.lib.format.read_magic(stream)]
        shape, by_column, dtype = read_header(stream, max_header_size=MAX_HEADER_BYTES)
        if dtype.kind not in "biufcSU" or not dtype.itemsize:
            raise TypeError(dtype)
    except Exception as error:
        raise ValueError("it holds other things than arrays of numbers or text") from error
    n_values, n_header = math.prod(shape), stream.tell()
    if n_values * dtype.itemsize != n_bytes - n_header:
        stated = f"the shape {shape} and dtype {dtype}"
        raise ValueError(f"it states {stated}, and holds {n_bytes - n_header} bytes")
    content = read_up_to(file, n_bytes, start)
    if len(content) < n_bytes:
        raise ValueError(f"it ends after {len(content)} of {n_bytes} bytes")
    if dtype.kind == "U":
        # numpy fails to print or compare text with invalid characters.
        characters = np.frombuffer(content, f"{dtype.byteorder}u4", offset=n_header)
        if characters.max(initial=0) > sys.maxunicode:
            raise ValueError("it holds text with invalid characters")
    return np.ndarray(shape, dtype, content, n_header, order="F" if by_column else "C")


class ArrayArchive:
    """Arrays by name in an .npz file, which is a zip file of .npy files.

    Examples
    --------
    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> np.savez_compressed(file, weights=[0.5, 2.0])
    >>> ArrayArchive(file).read("weights")
    array([0.5, 2. ])
    """

    # Memory is allocated while an array is read, and deflate expands a byte to at most 1,032. Other
    # compression is refused, because its ratio has no known bound; so is all compression, unless
    # `compressed`. Arrays that overlap are refused, because these limits hold for all arrays
    # together. Damaged files raise the errors in `READ_ERRORS`.

    def __init__(self, file: BinaryIO, compressed: bool = True) -> None:
        self._archive = zipfile.ZipFile(file)
        self._methods = {zipfile.ZIP_STORED, *([zipfile.ZIP_DEFLATED] if compressed else [])}
        members = self._archive.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        # In the order of the file.
        self.names = self._members.keys()
        self.start = min((member.header_offset for member in members), default=0)
        if sum(member.compress_size for member in members) > file.seek(0, SEEK_END):
            raise ValueError("its arrays overlap: together they are larger than the file")

    def read(self, name: str) -> Matrix:
        """Read one of the arrays with `read_npy`."""
        with self._open(name) as file:
            return read_npy(file, self._members[name].file_size)

    def read_bytes(self, name: str) -> bytearray:
        """Read a member."""
        with self._open(name) as file:
            return read_up_to(file, self._members[name].file_size)

    def _open(self, name: str) -> IO[bytes]:
        if name not in self._members:
            raise ValueError(f"it holds no array {name[:80]}")
        member = self._members[name]
        if member.compress_type not in self._methods:
            raise ValueError(f"its array {name[:80]} has an unsupported kind of compression")
        return self._archive.open(member)
