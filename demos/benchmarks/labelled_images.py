"""Images of 32 x 32 pixels in colour with their labels, read from .npz files and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels.saving.arrays import UNREADABLE, ArrayArchive

Array = NDArray[Any]

IMAGE_SHAPE = (32, 32, 3)


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images x (n, 32, 32, 3), uint8 RGB, and their labels y (n,)."""

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.x)


def read_labelled_images(path: Path) -> LabelledImages:
    """Read the arrays x and y of an .npz file.

    Raises
    ------
    ValueError
        If the file does not exist or cannot be read, lacks an array, or one has another shape or
        type than it should.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist. Pass an .npz file with arrays x and y.")
    try:
        with path.open("rb") as opened:
            archive = ArrayArchive(opened)
            missing = [name for name in ("x", "y") if name not in archive.names]
            if missing:
                raise ValueError(f"it has no array {missing[0]}, only {sorted(archive.names)}")
            read = LabelledImages(archive.read("x"), archive.read("y"))
    except UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read: {error}. Pass an .npz file with arrays x and y."
        ) from error
    _check(path, read)
    return read


def _check(path: Path, read: LabelledImages) -> None:
    if read.x.ndim != 4 or read.x.shape[1:] != IMAGE_SHAPE:
        raise ValueError(
            f"{path}: x has shape {read.x.shape}, expected (n, 32, 32, 3). Rows of 3,072 bytes as "
            "in CIFAR-10's own files: x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)."
        )
    if read.x.dtype != np.uint8:
        raise ValueError(
            f"{path}: x has dtype {read.x.dtype}, expected uint8, 0 to 255. Convert the pixels."
        )
    if read.y.shape != (len(read.x),):
        raise ValueError(
            f"{path}: y has shape {read.y.shape}, expected ({len(read.x)},) for x of shape "
            f"{read.x.shape}. Pass one label per image."
        )
    if read.y.dtype.kind not in "iubUS":
        raise ValueError(
            f"{path}: y has dtype {read.y.dtype}, expected whole numbers or text. Convert it."
        )
    if not len(read.x):
        raise ValueError(f"{path} holds no rows, expected at least one.")
