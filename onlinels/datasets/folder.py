"""Training and test images from an .npz file or from a folder of IDX files."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels.datasets.idx import read_idx

IDX_NAMES = {
    "x_train": "train-images",
    "y_train": "train-labels",
    "x_test": "t10k-images",
    "y_test": "t10k-labels",
}


@dataclass(frozen=True)
class ImageData:
    """Images and labels to learn from and to test on.

    Parameters
    ----------
    x_train, x_test : ndarray (n, height, width[, n_channels])
    y_train, y_test : ndarray (n,)
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]


def read_image_data(path: str | Path) -> ImageData:
    """Read an image data set.

    Parameters
    ----------
    path : str or Path
        An .npz file with the arrays x_train, y_train, x_test and y_test, or a folder with the
        four IDX files of MNIST or Fashion-MNIST (train-images-idx3-ubyte, … or the same names
        with ".idx3-ubyte", gzipped or not).

    Raises
    ------
    FileNotFoundError
        If the path or one of the files does not exist.
    ValueError
        If a file is damaged, an array is missing, or images and labels differ in number.
    """
    path = Path(path)
    if path.is_dir():
        arrays = {name: read_idx(_find(path, start)) for name, start in IDX_NAMES.items()}
    elif path.exists():
        arrays = _read_npz(path)
    else:
        raise FileNotFoundError(
            f"{path} does not exist. Pass an .npz file with x_train, y_train, x_test and y_test, "
            "or a folder with the IDX files of MNIST or Fashion-MNIST."
        )
    for part in ("train", "test"):
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if images.ndim < 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(
                f"{path}: x_{part} has shape {images.shape} and y_{part} {labels.shape}, expected "
                "(n, height, width[, n_channels]) and (n,). Pass one label per image."
            )
    return ImageData(**arrays)


def _find(folder: Path, start: str) -> Path:
    found = sorted(folder.glob(f"{start}[-.]idx*-ubyte*"))
    if not found:
        raise FileNotFoundError(
            f"{folder} holds no file {start}-idx*-ubyte[.gz]. Get the four IDX files of MNIST "
            "(yann.lecun.com/exdb/mnist) or Fashion-MNIST "
            "(github.com/zalandoresearch/fashion-mnist) into it."
        )
    return found[0]


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            missing = [name for name in IDX_NAMES if name not in file]
            if missing:
                raise ValueError(f"no array {missing[0]}")
            return {name: file[name] for name in IDX_NAMES}
    except (ValueError, OSError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} cannot be read: {error}. Pass an .npz file of plain arrays x_train, y_train, "
            "x_test and y_test."
        ) from error
