"""Numeric arrays in MATLAB 5 files, in chunks."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels.saving.arrays import LARGEST_FILE, LARGEST_RATIO

HEADER = 128
LITTLE_ENDIAN = bytes([0, 1]) + b"IM"
"""The last bytes of the header: version 5, least byte first."""
TAG = 8
MATRIX, COMPRESSED = 14, 15
MOST_ARRAYS = 1000
BEGINNING = 1024
"""Bytes of an element among which its shape, its name and the type of its values lie."""
OTHER_KINDS = ("unknown", "cell", "struct", "object", "char", "sparse")
NUMBERS = ("double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32")
KINDS = (*OTHER_KINDS, *NUMBERS)
COMPLEX = 0x0800
STORED = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8"}
"""Types that values are stored in, at times smaller than that of the array."""


@dataclass(frozen=True)
class MatlabArray:
    """An array in a MATLAB 5 file.

    Parameters
    ----------
    path : Path
    place : tuple of (int, int)
        Of its element in the file: after how many bytes, and how many.
    zipped : bool
        Whether the element is compressed.
    name : str
    kind : str
        MATLAB's name of its type.
    shape : tuple of int
    stored : int
        The number of the type that the values are stored in.
    start, n_bytes : int
        The place of the values in the element, unzipped.
    advice : str
        What to do about a damaged file, for messages.
    """

    path: Path
    place: tuple[int, int]
    zipped: bool
    name: str
    kind: str
    shape: tuple[int, ...]
    stored: int
    start: int
    n_bytes: int
    advice: str

    def check(self) -> None:
        """Raise unless the file can hold the values that the array is stated to have."""
        with refusing_damage(self.path, self.advice):
            dtype = STORED.get(self.stored)
            n_bytes = math.prod(self.shape) * np.dtype(dtype or "V1").itemsize
            room = self.place[1] * (LARGEST_RATIO if self.zipped else 1)
            if dtype is None or n_bytes != self.n_bytes or self.start + n_bytes > room:
                raise ValueError(
                    f"{self.name} of shape {self.shape} states {self.n_bytes} bytes of type "
                    f"{self.stored} in {self.place[1]} bytes, which does not fit"
                )
            if n_bytes > LARGEST_FILE:
                raise ValueError(f"{self.name} has more than {LARGEST_FILE} bytes")

    def chunks(self, n_values: int) -> Iterator[NDArray[Any]]:
        """Read the values in the order of the file: the first index runs fastest.

        Parameters
        ----------
        n_values : int
            Of a chunk; the last one may be shorter.

        Yields
        ------
        ndarray (n_values,)

        Raises
        ------
        ValueError
            If the file turns out to be damaged.
        """
        self.check()
        dtype = np.dtype(STORED[self.stored])
        with refusing_damage(self.path, self.advice), self.path.open("rb") as file:
            element = _Element(file, self.place, self.zipped)
            element.read(self.start)
            for n_left in range(math.prod(self.shape), 0, -n_values):
                n_bytes = min(n_values, n_left) * dtype.itemsize
                content = element.read(n_bytes)
                if len(content) < n_bytes or (n_left <= n_values and not element.ends()):
                    raise ValueError(f"{self.name} has fewer or more values than it states")
                yield np.frombuffer(content, dtype)


class _Element:
    """The bytes of an element, unzipped as they are read."""

    def __init__(self, file: BufferedReader, place: tuple[int, int], zipped: bool) -> None:
        file.seek(place[0])
        self._file, self._n_left = file, place[1]
        self._inflating = zlib.decompressobj() if zipped else None

    def read(self, n_bytes: int) -> bytearray:
        """Return the next bytes; fewer where the element ends."""
        content = bytearray()
        while len(content) < n_bytes:
            n_missing = n_bytes - len(content)
            if self._inflating is None:
                fresh = some = self._stored(n_missing)
            else:
                fresh = self._inflating.unconsumed_tail or self._stored(1 << 16)
                some = self._inflating.decompress(fresh, n_missing)
            if not fresh and not some:
                break
            content += some
        return content

    def ends(self) -> bool:
        """Return whether only padding follows, and the checksum is right."""
        return len(self.read(TAG)) < TAG and (self._inflating is None or self._inflating.eof)

    def _stored(self, n_bytes: int) -> bytes:
        content = self._file.read(min(n_bytes, self._n_left))
        self._n_left -= len(content)
        return content


def list_arrays(path: Path, advice: str) -> list[MatlabArray]:
    """List the arrays in a MATLAB 5 file, without reading their values.

    Parameters
    ----------
    path : Path
    advice : str
        What to do about a damaged file, for messages.

    Returns
    -------
    list of MatlabArray
        In the order of the file. Those of numbers can be read.

    Raises
    ------
    ValueError
        If the file is damaged or of another format.

    Notes
    -----
    After a header of 128 bytes there is one element for each array, alone or compressed. It
    and its parts (flags, shape, name, values) each begin with their type and length.
    `scipy.io.loadmat` reads arrays whole, and damaged files crashed it.

    References
    ----------
    The MathWorks, "MAT-File Format", chapter "Version 5 MAT-File Format".
    """
    size = path.stat().st_size
    found: list[MatlabArray] = []
    with refusing_damage(path, advice), path.open("rb") as file:
        if file.read(HEADER)[HEADER - len(LITTLE_ENDIAN) :] != LITTLE_ENDIAN:
            raise ValueError("it has another header")
        at = HEADER
        while at < size:
            file.seek(at)
            kind, n_bytes = struct.unpack("<II", file.read(TAG))
            if kind not in (MATRIX, COMPRESSED) or at + TAG + n_bytes > size:
                raise ValueError(f"the element at {at} is cut short or no array")
            if len(found) == MOST_ARRAYS:
                raise ValueError(f"it has more than {MOST_ARRAYS} arrays")
            place = (at + TAG, n_bytes)
            beginning = bytes(_Element(file, place, kind == COMPRESSED).read(BEGINNING))
            skipped = TAG if kind == COMPRESSED else 0
            described = _described(beginning, skipped)
            found.append(MatlabArray(path, place, kind == COMPRESSED, *described, advice))
            at += TAG + n_bytes
    return found


@contextmanager
def refusing_damage(path: Path, advice: str) -> Iterator[None]:
    """Name the file and the remedy in what damaged content leads to."""
    try:
        yield
    except (ValueError, struct.error, zlib.error) as error:
        raise ValueError(f"{path} is no MATLAB 5 file or damaged: {error}. {advice}") from error


def _described(beginning: bytes, at: int) -> tuple[str, str, tuple[int, ...], int, int, int]:
    (flags,) = struct.unpack_from("<I", beginning, at + TAG)
    number = flags & 0xFF
    if not 0 < number < len(KINDS):
        # What is of a type of its own may have other parts; nobody asks for it.
        return "", KINDS[0], (), 0, 0, 0
    _, shape_at, n_bytes, at = _part(beginning, at + 2 * TAG)
    shape = struct.unpack_from(f"<{n_bytes // 4}i", beginning, shape_at)
    _, name_at, n_bytes, at = _part(beginning, at)
    name = beginning[name_at : name_at + n_bytes].decode("latin1")
    kind = "complex " * bool(flags & COMPLEX) + KINDS[number]
    stored, start, n_bytes, _ = _part(beginning, at) if KINDS[number] in NUMBERS else (0, 0, 0, 0)
    return name, kind, shape, stored, start, n_bytes


def _part(beginning: bytes, at: int) -> tuple[int, int, int, int]:
    # The type, where the content begins, its length, and where the next part begins. Up to four
    # bytes share the eight of the tag, whose first half then holds both type and length.
    kind, n_bytes = struct.unpack_from("<II", beginning, at)
    if kind >> 16:
        return kind & 0xFFFF, at + TAG // 2, min(kind >> 16, TAG // 2), at + TAG
    start = at + TAG
    return kind, start, n_bytes, start + -(-n_bytes // TAG) * TAG
