"""What numpy's reader of array files raises on damaged or other files, and what it means."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    SyntaxError,
    MemoryError,
    # Encryption that is not there, and compression that nobody knows.
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tokenize.TokenError,
)
"""Found by changing files byte by byte; numpy documents the first three."""


def reason(error: BaseException) -> str:
    """Say why a file cannot be read, without numpy's advice to read it unsafely.

    Examples
    --------
    >>> reason(ValueError("Object arrays cannot be loaded when allow_pickle=False"))
    'it holds other things than arrays of numbers'
    """
    said = str(error)
    return "it holds other things than arrays of numbers" if "pickle" in said else said
