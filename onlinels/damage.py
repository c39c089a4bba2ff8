"""What reading a damaged file, or another one, raises."""

from __future__ import annotations

import struct
import zipfile
import zlib

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    MemoryError,
    # Encryption that is not there, and compression that nobody knows.
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""Found by changing files byte by byte."""
