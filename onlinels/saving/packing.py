"""Pack what a model has learnt while its locks are held: a pickle, beside one block of its arrays.

Nothing is checked here, because a pickle can run any code; files are checked
(`onlinels.saving.files`).
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.numerics import Block

PACKED_VERSION = 6
"""Version of packs, which changes with their form."""

MAX_PACKED_BYTES = 1 << 16
"""Bytes up to which an array is copied into the block. Larger ones stay arrays, which a pickler
can pass on without another copy."""

Packed = tuple[int, bytes, list[int | Matrix], bytes]
"""The version, a pickle without numbers of arrays, for each array its number of bytes in the block
or its bytes, and the block."""


def pack(value: Any) -> Packed:
    """Return a pack of a value, which shares no memory with it that can change.

    Examples
    --------
    >>> unpack(pack({"a": np.ones(2), "b": ["text", 3]}))
    {'a': array([1., 1.]), 'b': ['text', 3]}
    """
    held: list[int | Matrix] = []
    small: list[bytes] = []

    def hold(buffer: pickle.PickleBuffer) -> None:
        numbers = buffer.raw()
        if numbers.nbytes > MAX_PACKED_BYTES:
            held.append(np.frombuffer(numbers, np.uint8).copy())
            return
        held.append(numbers.nbytes)
        small.append(numbers.tobytes())
        # Numbers of eight bytes begin at a multiple of eight.
        small.append(bytes(-numbers.nbytes % 8))

    text = pickle.dumps(value, 5, buffer_callback=hold)
    return PACKED_VERSION, text, held, b"".join(small)


def unpack(packed: Packed) -> Any:
    """Return the value of a pack, with all its arrays in new memory: small ones in one block."""
    version, text, held, numbers = packed
    if version != PACKED_VERSION:
        raise ValueError(
            f"The pickle is of version {version}, expected {PACKED_VERSION}. Load it with the "
            "version of onlinels that wrote it, and save the model to a file."
        )
    block, start = memoryview(Block(numbers)), 0
    buffers = []
    for each in held:
        if isinstance(each, int):
            buffers.append(block[start : start + each])
            start += each + -each % 8
        else:
            buffers.append(memoryview(Block(each.data)))
    return pickle.loads(text, buffers=buffers)  # noqa: S301
