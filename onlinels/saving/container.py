"""Arrays and a description of them in one file: numpy's npz, stored as they are, with checksums."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import numpy as np

from onlinels.checks import Matrix

DESCRIPTION = "model.json"
CHECKSUM = "model.sha256"
"""Members beside the arrays: what these mean, and the SHA-256 of that, in hexadecimal digits.

The description holds the SHA-256 of every array, so one checksum covers all the content.
"""

DTYPES = {np.dtype(kind + size).newbyteorder("<").str for kind in "iu" for size in "1248"} | {
    "|b1",
    "<f2",
    "<f4",
    "<f8",
}
"""Kinds of numbers that arrays may hold."""

MOST_DIMENSIONS = 32

AT_ONCE = 1 << 24
"""Bytes that are written and hashed at once."""

MOST_NESTED = 300
"""Levels of a description: more would be too deep for those who read it."""

ESCAPED, STRING = re.compile(rb"\\.", re.DOTALL), re.compile(rb'"[^"]*"')
"""Looked for one after the other: together they take a time in the square of some texts."""

BRACKETS = b"[{]}"
OTHERS = bytes(set(range(256)) - set(BRACKETS))
STEPS = bytes.maketrans(BRACKETS, b"\x01\x01\xff\xff")
"""One level more, or one less: -1 as an int8."""


def nesting(text: bytes) -> int:
    """Return how many levels of lists and dicts a text of JSON has, were it valid.

    Examples
    --------
    >>> nesting(b'{"[[[": [1, [2]]}')
    3
    """
    bare = STRING.sub(b"", ESCAPED.sub(b"", text)).translate(STEPS, OTHERS)
    depths = np.cumsum(np.frombuffer(bare, dtype=np.int8), dtype=np.int64)
    return int(depths.max(initial=0))


@dataclass(frozen=True)
class Entry:
    """What is known of an array before it is read.

    Parameters
    ----------
    dtype : str
        As numpy writes it, of DTYPES.
    shape : tuple of int
    fortran : bool
        Whether columns lie together, not rows.
    sha256 : str
        Of the numbers as they lie in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool
    sha256: str

    @property
    def n_bytes(self) -> int:
        """Bytes of the numbers."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def header(self) -> bytes:
        """What stands before the numbers: numpy's format 1.0."""
        # As Python spells a dict. Of a tuple it would not, where a handler asks amid its spelling.
        shape = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        said = f"'descr': {self.dtype!r}, 'fortran_order': {self.fortran!r}, 'shape': ({shape})"
        text = f"{{{said}}}".encode("latin1")
        # The numbers begin at a multiple of 64 bytes, after a line's end.
        padded = text + b" " * (-(len(text) + 11) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded

    def as_json(self) -> list[Any]:
        """Return what the description says of the array."""
        return [self.dtype, list(self.shape), self.fortran, self.sha256]

    @classmethod
    def from_json(cls, said: Any) -> Entry:
        """Return what a description says, checked.

        Raises
        ------
        ValueError
            If it is no description of an array.
        """
        match said:
            case [str() as dtype, list() as shape, bool() as fortran, str() as sha256]:
                sizes = all(type(size) is int and 0 <= size < 1 << 63 for size in shape)
                if dtype in DTYPES and sizes and len(shape) <= MOST_DIMENSIONS:
                    return cls(dtype, tuple(shape), fortran, sha256)
        raise ValueError(f"it describes no array by {str(said)[:80]}")


def write_container(
    file: BinaryIO, description: Mapping[str, Any], arrays: Mapping[str, Matrix]
) -> None:
    """Write arrays and what they mean; equal content gives equal bytes.

    Parameters
    ----------
    file : file open for writing
    description : mapping
        Of what JSON knows, without "arrays".
    arrays : mapping
        Names to arrays of numbers; they become members ``name.npy``.

    Raises
    ------
    TypeError
        If an array holds anything but numbers, or tuples are nested too deeply.
    """
    members = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
    try:
        _write_members(members, description, arrays)
    except BaseException:
        # To end it amid a member is an error of its own, which would stand in for an interrupt.
        members.fp = None
        raise
    members.close()


def _write_members(
    members: zipfile.ZipFile, description: Mapping[str, Any], arrays: Mapping[str, Matrix]
) -> None:
    entries = {}
    for name, array in arrays.items():
        entries[name] = _write_array(members, name + ".npy", array)
    said = {**description, "arrays": {name: each.as_json() for name, each in entries.items()}}
    text = json.dumps(said, allow_nan=False, separators=(",", ":")).encode()
    if nesting(text) > MOST_NESTED:
        raise TypeError("Tuples are nested too deeply to be saved. Convert labels and names.")
    _write(members, DESCRIPTION, text)
    _write(members, CHECKSUM, hashlib.sha256(text).hexdigest().encode())


def _write_array(members: zipfile.ZipFile, name: str, array: Matrix) -> Entry:
    little = array.dtype.newbyteorder("<")
    if little.str not in DTYPES:
        raise TypeError(f"An array of dtype {array.dtype} cannot be saved, expected real numbers.")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    lying = np.require(array.T if fortran else array, little, "C")
    numbers = lying.reshape(-1).view(np.uint8).data if lying.size else memoryview(b"")
    entry = Entry(little.str, array.shape, fortran, hashlib.sha256(numbers).hexdigest())
    _write(members, name, entry.header, numbers)
    return entry


def _write(members: zipfile.ZipFile, name: str, *parts: bytes | memoryview) -> None:
    info = zipfile.ZipInfo(name)
    info.file_size = sum(len(part) for part in parts)
    with members.open(info, "w") as member:
        for part in parts:
            for start in range(0, len(part), AT_ONCE):
                member.write(part[start : start + AT_ONCE])
