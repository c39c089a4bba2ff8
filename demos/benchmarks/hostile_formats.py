"""Small genuine files of the formats that are read, whose content can be changed inside."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Mapping

import numpy as np
from hostile_changes import Change
from scipy.io import savemat

Form = Callable[[Change], bytes]
"""A file whose content, as it is before it is compressed, went through a change."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
"""Of compression in zip files; numpy writes the first two."""

PIXELS = bytes(range(256)) * 12


def big_endian(*numbers: int) -> bytes:
    return b"".join((number % 2**32).to_bytes(4, "big") for number in numbers)


def words(*numbers: int) -> bytes:
    return b"".join((number % 2**32).to_bytes(4, "little") for number in numbers)


IDX_IMAGES = bytes([0, 0, 8, 3]) + big_endian(3, 4, 5) + bytes(range(60))
IDX_LABELS = bytes([0, 0, 8, 1]) + big_endian(3) + bytes([7, 2, 1])
CIFAR = (bytes([7]) + PIXELS) * 2
NORB_BYTES, NORB_NUMBERS = 0x1E3D4C55, 0x1E3D4C54
NORB_LABELS = words(NORB_NUMBERS, 1, 2, 1, 1, 4, 0)
NORB_IMAGES = words(NORB_BYTES, 4, 2, 2, 96, 96) + PIXELS * 12
OVERFEAT = np.linspace(-1.0, 1.0, 96 * 3 * 11 * 11).astype("<f4").tobytes()


def plain(content: bytes) -> Form:
    return lambda change: change(content)


def gzipped(content: bytes) -> Form:
    return lambda change: gzip.compress(change(content), 1, mtime=0)


def zipped(members: Mapping[str, bytes], method: int) -> Form:
    def form(change: Change) -> bytes:
        return zip_of({name: change(content) for name, content in members.items()}, method)

    return form


def zip_of(members: Mapping[str, bytes], method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def matlab(*, compressed: bool) -> Form:
    """Return a file of SVHN's, of two images."""
    images = np.frombuffer(PIXELS * 2, np.uint8).reshape(32, 32, 3, 2)
    file = io.BytesIO()
    # Its stubs know of paths alone.
    savemat(file, {"X": images, "y": np.array([[10], [3]], np.uint8)})  # type: ignore[arg-type]
    content = file.getvalue()
    if not compressed:
        return plain(content)
    end = 136 + int.from_bytes(content[132:136], "little")
    elements = (content[128:end], content[end:])
    return lambda change: (
        content[:128] + b"".join(deflated_element(change(each)) for each in elements)
    )


def deflated_element(content: bytes) -> bytes:
    packed = zlib.compress(content, 1)
    return words(15, len(packed)) + packed


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=False)
    return file.getvalue()


FILTERS = npy(np.linspace(0.0, 1.0, 18).reshape(2, 3, 3))
IMAGE_ARRAYS = {
    "x_train.npy": npy(np.arange(24, dtype=np.uint8).reshape(2, 3, 4)),
    "y_train.npy": npy(["cat", "dog"]),
    "x_test.npy": npy(np.asfortranarray(np.ones((1, 3, 4), "<f4"))),
    "y_test.npy": npy([True]),
}
