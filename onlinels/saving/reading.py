"""A file of arrays that may be damaged, or made to do harm: nothing is believed before a check."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.damage import UNREADABLE
from onlinels.saving.container import CHECKSUM, DESCRIPTION, MOST_NESTED, Entry, nesting
from onlinels.saving.unread import Unread

LOCAL_HEADER = 30
"""Bytes of the header of a zip member, before its name."""


class Container:
    """The arrays of a file, read one by one when they are asked for, and their description.

    Parameters
    ----------
    descriptor : int
        Of a file open for reading. It is closed when nobody waits for an array any more.
    name : str
        What errors call it.

    Raises
    ------
    ValueError
        If it is no such file, or what was read does not match its checksum.

    Notes
    -----
    Members are stored as they are and do not overlap, so all arrays together take no more memory
    than the file has bytes; the description, and the directory of members, at most 50 times theirs.
    """

    # There before an interrupt can come, for `__del__`.
    _descriptor = -1

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self.name = descriptor, name
        self._lock = Lock()
        self._places: dict[str, tuple[int, int]] = {}
        self.description: dict[str, Any] = {}
        self.entries: dict[str, Entry] = {}
        self.n_described = 0
        try:
            self.checked(self._open)
        except BaseException:
            # An error's traceback would keep the file open.
            self.close()
            raise

    def __del__(self) -> None:
        # Whoever waits for arrays holds this; after the last of them nobody does.
        self.close()

    def close(self) -> None:
        """Close the file: no array can be read any more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def checked(self, read: Callable[[], Any]) -> Any:
        """Return what a function reads, or raise the one error that says what is the matter."""
        try:
            return read()
        except MemoryError:
            # Nothing is larger than the file: there is truly no room.
            raise
        except (*UNREADABLE, RecursionError, OverflowError, LookupError, AttributeError) as error:
            why = f"{error} is missing or unknown" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{self.name} cannot be read as a saved model: {why}. It was not written by "
                "save, or is damaged: load another copy, or save the model again."
            ) from error

    def _open(self) -> None:
        with (
            open(self._descriptor, "rb", closefd=False) as file,
            zipfile.ZipFile(file) as members,
        ):
            infos, end = members.infolist(), members.start_dir
        self._places = {info.filename: self._place(info) for info in infos}
        if len(self._places) < len(infos):
            raise ValueError("two of its members have one name")
        self._check_apart(end)
        text = self._member(DESCRIPTION)
        if hashlib.sha256(text).hexdigest().encode() != self._member(CHECKSUM):
            raise ValueError("its description does not match its checksum")
        if nesting(text) > MOST_NESTED:
            raise ValueError("its description is nested too deeply")
        self.n_described = len(text)
        self.description = json.loads(text.decode())
        said = self.description["arrays"]
        self.entries = {name: Entry.from_json(each) for name, each in said.items()}
        self._check_members()

    def _place(self, info: zipfile.ZipInfo) -> tuple[int, int]:
        """Return where the content of a member begins and ends."""
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"{info.filename[:80]!r} is compressed, expected it stored as it is")
        header = bytearray(LOCAL_HEADER)
        self._fill(memoryview(header), info.header_offset)
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        start = info.header_offset + LOCAL_HEADER + lengths
        return start, start + info.file_size

    def _check_apart(self, end: int) -> None:
        last = 0
        for start, stop in sorted(self._places.values()):
            if start < last or stop > end:
                raise ValueError("its members overlap")
            last = stop

    def _check_members(self) -> None:
        expected = {name + ".npy" for name in self.entries} | {DESCRIPTION, CHECKSUM}
        if expected != self._places.keys():
            raise ValueError("it has other members than it describes")
        for name, entry in self.entries.items():
            start, stop = self._places[name + ".npy"]
            if stop - start != len(entry.header) + entry.n_bytes:
                raise ValueError(f"{name[:80]!r} has {stop - start} bytes, not as it describes")

    def _member(self, name: str) -> bytes:
        if name not in self._places:
            raise ValueError(f"it has no member {name!r}")
        start, stop = self._places[name]
        content = bytearray(stop - start)
        self._fill(memoryview(content), start)
        return bytes(content)

    def _fill(self, buffer: memoryview, start: int) -> None:
        """Fill a buffer with what is in the file from a byte on."""
        filled = 0
        while filled < len(buffer):
            came = self._read_into(buffer[filled:], start + filled)
            if not came:
                raise EOFError("it ends too early")
            filled += came

    def _read_into(self, buffer: memoryview, start: int) -> int:
        if hasattr(os, "preadv"):
            # Does not move where others read, be it in another thread or a forked process.
            return os.preadv(self._descriptor, [buffer], start)
        with self._lock:
            os.lseek(self._descriptor, start, os.SEEK_SET)
            came = os.read(self._descriptor, len(buffer))
        buffer[: len(came)] = came
        return len(came)

    def array(self, name: str) -> Matrix:
        """Return an array.

        Raises
        ------
        ValueError, LookupError, EOFError
            If it does not match its checksum, or is not there; `checked` explains that.
        """
        entry, (start, _) = self.entries[name], self._places[name + ".npy"]
        header = bytearray(len(entry.header))
        self._fill(memoryview(header), start)
        if header != entry.header:
            raise ValueError(f"{name!r} does not begin as numpy's arrays do")
        flat = np.empty(entry.n_bytes, dtype=np.uint8)
        self._fill(flat.data, start + len(header))
        if hashlib.sha256(flat.data).hexdigest() != entry.sha256:
            raise ValueError(f"{name!r} does not match its checksum")
        if entry.dtype == "|b1" and flat.size and flat.max() > 1:
            raise ValueError(f"{name!r} holds other things than truth values")
        shaped = flat.view(entry.dtype).reshape(entry.shape, order="F" if entry.fortran else "C")
        return shaped.astype(shaped.dtype.newbyteorder("="), copy=False)

    def unread(self, name: str) -> Unread:
        """Return an array that is read when it is needed."""
        entry = self.entries[name]
        by_column = entry.fortran or sum(size > 1 for size in entry.shape) <= 1
        return Unread(
            entry.shape, entry.dtype, by_column, lambda: self.checked(lambda: self.array(name))
        )
