"""Photos as arrays of pixels, and their embeddings by a pretrained network."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

SMALL, LARGE = (24, 32, 3), (96, 128, 3)
"""Height, width and colours of a photo for the small network, and for a pretrained one."""
REMEMBERED = 2000
"""Embeddings that are kept, so that a photo is not embedded again to learn and unlearn it."""


def read_photo(shape: tuple[int, ...], pixels: Any) -> Image:
    """Return the pixels that a page sends, one byte for each colour, in base64.

    Raises
    ------
    ValueError
        If they are not the bytes of an image of that shape.
    """
    try:
        content = b64decode(pixels, validate=True)
    except (TypeError, ValueError, binascii.Error):
        content = b""
    if len(content) != np.prod(shape):
        raise ValueError(f"The photo holds {len(content)} bytes, expected {np.prod(shape)}.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def embedding(network: Path) -> Callable[[Image], NDArray[np.float32]]:
    """Return a function that embeds a photo by a network in ONNX's format.

    The network takes "images" (n, 3, height, width), of which it gets pixels of -1 to 1; the
    guide's page on images makes one.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError("--network needs onnxruntime: pip install onnxruntime") from error
    try:
        session = onnxruntime.InferenceSession(network)
    except Exception as error:  # Of many classes, which onnxruntime does not name.
        raise ValueError(f"{network} cannot be read as a network: {error}") from error

    @lru_cache(REMEMBERED)
    def embed(content: bytes) -> NDArray[np.float32]:
        pixels = np.frombuffer(content, np.uint8).reshape(LARGE).astype(np.float32)
        row = session.run(None, {"images": (pixels.transpose(2, 0, 1)[None] - 127) / 128})[0][0]
        return np.asarray(row, np.float32)

    return lambda photo: embed(photo.tobytes())
