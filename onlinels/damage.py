"""What numpy's reader of array files raises if a file is damaged or of another format."""

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
