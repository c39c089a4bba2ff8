"""What may come of reading a file, and whether it did.

A reader returns what a file says or refuses it, whatever its bytes are, within the memory that the
file's size allows; nothing else.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hostile_attacks import Crafted
from hostile_formats import Form

from onlinels.datasets import ImageData

FIXED_BYTES = 4 << 20
"""What any reader may allocate, however small the file: pieces of 1 MiB, errors, zlib's windows."""


@dataclass(frozen=True)
class Reader:
    """A reader, the file it reads and what may come of it.

    Parameters
    ----------
    name : str
    file_name : str
        Of the file that is hostile.
    forms : tuple of callable
        Genuine files, of a change of what they hold before it is compressed.
    read : callable
        Of the file's path: arrays of all that it holds, in lists and tuples.
    factor : int
        Bytes that may be allocated for each byte of the files.
    crafted : tuple of callable
        Files made to do harm, of choices.
    others : mapping of str to bytes
        Genuine files that lie beside it.
    size : int or None
        That every file is brought to, cut or lengthened without taking room.
    refusals : tuple of type
        What a file that is refused may raise.
    """

    name: str
    file_name: str
    forms: tuple[Form, ...]
    read: Callable[[Path], Any]
    factor: int
    crafted: tuple[Crafted, ...] = ()
    others: Mapping[str, bytes] = field(default_factory=dict)
    size: int | None = None
    refusals: tuple[type[Exception], ...] = (ValueError,)

    def largest(self, n_bytes: int) -> int:
        """Return how many bytes may be allocated while a file of `n_bytes` is read."""
        n_others = sum(map(len, self.others.values()))
        return FIXED_BYTES + self.factor * (n_bytes + n_others)


@dataclass(frozen=True)
class Outcome:
    """What came of a file: "read", "refused", or in words what should not have come."""

    kind: str
    seconds: float
    allocated: int


def prepare(reader: Reader, folder: Path) -> Path:
    """Write the files that lie beside a reader's hostile one; return that one's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in reader.others.items():
        (folder / name).write_bytes(content)
    return folder / reader.file_name


def attempt(reader: Reader, path: Path, content: bytes, measured: bool) -> Outcome:
    """Read a file of any content, and tell what came of it.

    Parameters
    ----------
    reader : Reader
    path : Path
        As of `prepare`.
    content : bytes
    measured : bool
        Whether allocations are traced, which makes reading slower; 0 bytes if not.
    """
    path.write_bytes(content)
    if reader.size is not None:
        os.truncate(path, reader.size)
    if measured:
        tracemalloc.start()
    started = time.process_time()
    try:
        kind = _read(reader, path)
        seconds = time.process_time() - started
        allocated = tracemalloc.get_traced_memory()[1] if measured else 0
    finally:
        tracemalloc.stop()
    if allocated > reader.largest(len(content)):
        kind = f"allocated {allocated:,} bytes for a file of {len(content):,}"
    return Outcome(kind, seconds, allocated)


def _read(reader: Reader, path: Path) -> str:
    try:
        result = reader.read(path)
    except reader.refusals as error:
        if str(path.parent) not in str(error):
            return f"a refusal that does not name the file: {error}"
        return ran_out(error) or "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for array in arrays_in(result):
        # Values that cannot be printed or copied are no values.
        repr(array[:1])
        array.tobytes()
    return "read"


def ran_out(error: BaseException | None) -> str:
    """Say whether an error came of one of too little memory or stack, "" if not."""
    while error is not None:
        if isinstance(error, (MemoryError, RecursionError)):
            return f"refused after {type(error).__name__}: {error}"
        error = error.__cause__ or error.__context__
    return ""


def arrays_in(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays of what a reader returned."""
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, ImageData):
        yield from vars(result).values()
    elif isinstance(result, (list, tuple)):
        for each in result:
            yield from arrays_in(each)
