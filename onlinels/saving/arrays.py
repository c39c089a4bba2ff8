"""Arrays of numbers or text in numpy's file formats, read with memory bounded by the file size."""

from __future__ import annotations

import hashlib
import math
import re
import struct
import sys
import zipfile
import zlib
from contextlib import suppress
from io import SEEK_END
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from onlinels.checks import Matrix, check_path

MAX_FILE_BYTES = 1 << 31
"""Most bytes that compressed content or a data set's file may expand to: 2 GiB."""

MAX_COMPRESSION_RATIO = 1032
"""Most bytes that a compressed byte expands to: deflate copies 258 bytes with 2 bits at best."""

READ_BYTES = 1 << 20
"""Bytes read at a time, so that memory follows the content and not the size in a header."""

DAMAGE_ERRORS = (EOFError, struct.error, zlib.error, zipfile.BadZipFile)

# RuntimeError is raised for encrypted archives and for unknown kinds of compression.
READ_ERRORS = (OSError, ValueError, TypeError, MemoryError, RuntimeError, *DAMAGE_ERRORS)
"""Errors raised by damaged files and files in other formats, found by changing single bytes."""

HEADER_LENGTH_BYTES = {b"\x93NUMPY\1\0": 2, b"\x93NUMPY\2\0": 4, b"\x93NUMPY\3\0": 4}
"""Number of bytes that hold the length of the header, by the first bytes of the file."""

MAX_HEADER_BYTES = 10_000
"""Most bytes of a header: numpy's own limit."""

HEADER_PATTERN = re.compile(
    r"""\{ (?: \s* (?:
        'descr' \s*:\s* '(?P<dtype> [<>|=]? (?:b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,8}) )'
        | 'fortran_order' \s*:\s* (?P<by_column> True|False)
        | 'shape' \s*:\s* \( (?P<shape> (?:\s*\d{1,18}L?\s*,)* (?:\s*\d{1,18}L?)? \s*) \)
    ) \s* (?: ,\s* | (?=\}) ) ){3} \}""",
    re.VERBOSE,
)
"""The three entries of a header, in any order. Python 2 wrote an L after long numbers."""


class Hashed:
    """A file whose bytes are hashed while they are read or written."""

    def __init__(self, file: Any) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        content: bytes = self._file.read(size)
        self.hash.update(content)
        return content

    def write(self, content: bytes) -> None:
        """Write the next bytes."""
        self.hash.update(content)
        self._file.write(content)


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


def read_up_to(file: Any, n_bytes: int) -> bytearray:
    """Return the next bytes of a file, fewer if it ends; memory is allocated while reading.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_up_to(BytesIO(b"abc"), 1 << 60)
    bytearray(b'abc')
    """
    content = bytearray()
    while piece := file.read(min(READ_BYTES, n_bytes - len(content))):
        content += piece
    return content


def read_npy(file: Any, n_bytes: int, most_values: float = math.inf) -> Matrix:
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
    # Nothing is unpickled, and no Python is evaluated. `numpy.load` evaluates the header, warns for
    # some headers, and allocates any size that they state. Here, memory never exceeds the size of
    # the file. (R. Kern, "A simple file format for NumPy arrays", NEP 1, 2007.)
    start = file.read(8)
    n_length = HEADER_LENGTH_BYTES.get(start, 0)
    n_header = int.from_bytes(file.read(n_length), "little")
    text = file.read(min(n_header, MAX_HEADER_BYTES + 1))
    header = HEADER_PATTERN.fullmatch(text.decode("latin1").strip().replace('"', "'"))
    if len(text) > MAX_HEADER_BYTES or header is None or None in header.groups():
        # Old arrays of objects are pickled without a header.
        raise ValueError("it holds other things than arrays of numbers or text")
    dtype = np.dtype(header["dtype"])
    shape = tuple(map(int, re.findall(r"\d+", header["shape"])))
    n_values = math.prod(shape)
    n_expected, n_left = n_values * dtype.itemsize, n_bytes - len(start) - n_length - n_header
    if n_expected != n_left:
        stated = f"the shape {shape} and dtype {dtype}, which are {n_expected} bytes"
        raise ValueError(f"it states {stated}, and holds {n_left} bytes")
    if n_values > most_values:
        raise ValueError(f"it has {n_values} values, expected at most {most_values}")
    content = read_up_to(file, n_expected)
    if len(content) < n_expected:
        raise ValueError(f"it ends after {len(content)} of {n_expected} bytes")
    # numpy fails to print or compare values whose bytes are invalid for their type.
    values = np.ndarray(n_values, dtype, content)
    if dtype.kind == "b" and values.view(np.uint8).max(initial=0) > 1:
        raise ValueError("it holds booleans other than 0 or 1")
    if dtype.kind == "U":
        characters = values.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if characters.max(initial=0) > sys.maxunicode:
            raise ValueError("it holds text with invalid characters")
    return np.ndarray(shape, dtype, content, order="F" if header["by_column"] == "True" else "C")


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

    # A compressed array may expand to at most 1,032 times its bytes, which deflate cannot exceed,
    # and to at most 2 GiB; the caller may set a lower ratio. An uncompressed array has its own
    # size. Compression that numpy does not write is refused, because its ratio has no known bound.
    # Arrays that overlap are refused, because the limits hold for all arrays together. Memory is
    # allocated while an array is read. Damaged files raise the errors in `READ_ERRORS`.

    def __init__(self, file: BinaryIO, largest_ratio: int = MAX_COMPRESSION_RATIO) -> None:
        self._archive, self._largest_ratio = zipfile.ZipFile(file), largest_ratio
        members = self._archive.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        # In the order of the file.
        self.names = self._members.keys()
        self.start = min((member.header_offset for member in members), default=0)
        if len(self._members) < len(members):
            raise ValueError("it holds two arrays with one name")
        if len({member.header_offset for member in members}) < len(members):
            raise ValueError("its arrays overlap: two of them begin at the same byte")
        if sum(member.compress_size for member in members) > file.seek(0, SEEK_END):
            raise ValueError("its arrays overlap: together they are larger than the file")

    def read(self, name: str, most_values: float = math.inf) -> Matrix:
        """Read one of the arrays with `read_npy`."""
        with self._open(name) as file:
            return read_npy(file, self._members[name].file_size, most_values)

    def read_bytes(self, name: str, most: int = 0) -> bytearray:
        """Read a member: at most its stored size, or `most` bytes if it is compressed."""
        with self._open(name, most) as file:
            return read_up_to(file, self._members[name].file_size)

    def read_hashed(self, name: str, sha256: str) -> Matrix:
        """Read one of the arrays; raise ValueError unless its member has this SHA-256."""
        # A wrong checksum of the zip file itself (BadZipFile) gives the same message.
        with self._open(name) as opened, suppress(zipfile.BadZipFile):
            file = Hashed(opened)
            values = read_npy(file, self._members[name].file_size)
            if file.hash.hexdigest() == sha256:
                return values
        raise ValueError(f"{name[:80]!r} does not match its checksum")

    def _open(self, name: str, most: int = 0) -> IO[bytes]:
        if name not in self._members:
            raise ValueError(f"it holds no array {name[:80]}")
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its array {name[:80]} has an unsupported kind of compression")
        held = member.compress_size
        largest = max(held, most, min(held * self._largest_ratio, MAX_FILE_BYTES))
        if member.file_size > largest:
            told = f"at most {largest} of {held} held; numpy.savez stores larger ones uncompressed"
            raise ValueError(f"its array {name} states {member.file_size} bytes, expected {told}")
        return self._archive.open(member)


def write_array(archive: zipfile.ZipFile, name: str, array: Matrix) -> str:
    """Write an array to a zip file, and return the SHA-256 of its bytes."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        file: Any = Hashed(member)
        np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return str(file.hash.hexdigest())
