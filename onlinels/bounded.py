"""How many bytes a file may stand for, and reading no more of them than there are."""

from __future__ import annotations

from typing import Protocol

LARGEST_FILE = 1 << 31
"""Most bytes that compressed content or a data set's file may stand for: 2 GiB."""

LARGEST_RATIO = 1032
"""Most bytes that a compressed byte stands for: deflate copies 258 bytes in 2 bits at best."""

PIECE = 1 << 20
"""Bytes that are asked for at a time: what a header promises takes no memory until it is there."""


class Readable(Protocol):
    """A file, or the content of one that is unzipped as it is read."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most so many."""


def read_up_to(file: Readable, n_bytes: int) -> bytearray:
    """Return the next bytes of a file, fewer if it ends before.

    Parameters
    ----------
    file : Readable
    n_bytes : int

    Returns
    -------
    bytearray

    Notes
    -----
    Memory: that of what is returned and 1 MiB, however many bytes are asked for.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_up_to(BytesIO(b"abc"), 1 << 60)
    bytearray(b'abc')
    """
    content = bytearray()
    while piece := file.read(min(PIECE, n_bytes - len(content))):
        content += piece
    return content
