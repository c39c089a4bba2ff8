"""The binary version of CIFAR-10.

A row is one byte of label and 3072 bytes of image: the red, the green and the blue channel, each of
them row by row. There is no header, so a file truncated between two rows is a valid smaller file.

A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from onlinels.datasets.reading import (
    PUBLISHED,
    Batch,
    Format,
    RowFile,
    Source,
    check_labels,
    damaged,
)

ARCHIVE = "cifar-10-binary.tar.gz"
CIFAR_REMEDY = f"get the binary version from {PUBLISHED['cifar10'][0]}{ARCHIVE} and unpack it"
CIFAR_FILES = {
    "train": [(f"data_batch_{n}.bin",) for n in range(1, 6)],
    "test": [("test_batch.bin",)],
}
ROW_BYTES = 1 + 3 * 32 * 32


def _source(path: Path) -> Source:
    """Open a file of images (32, 32, 3) and labels from 0 to 9."""
    n_bytes = path.stat().st_size
    if n_bytes % ROW_BYTES or not n_bytes:
        raise damaged(
            path, f"has {n_bytes} bytes, expected a multiple of {ROW_BYTES}", CIFAR_REMEDY
        )
    file = RowFile(path, 0, (n_bytes // ROW_BYTES, ROW_BYTES), np.dtype(np.uint8), CIFAR_REMEDY)

    def source(n_rows: int) -> Iterator[Batch]:
        for rows in file.chunks(n_rows):
            labels = rows[:, 0].copy()
            check_labels(file, labels, n_classes=10)
            channels = rows[:, 1:].reshape(-1, 3, 32, 32)
            yield np.ascontiguousarray(channels.transpose(0, 2, 3, 1)), labels

    return source


CIFAR = Format("CIFAR-10", CIFAR_REMEDY, CIFAR_FILES, lambda *paths: map(_source, paths))
