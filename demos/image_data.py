"""Download and read image data sets in the formats in which they are published.

python demos/image_data.py mnist data/mnist    # or fashion-mnist, cifar10, svhn, svhn-extra, norb

`read_image_data` reads a folder of these files, or an .npz file. Read only files that you trust:
`download` keeps a file only if its SHA-256 checksum is that of the published file.

- MNIST and Fashion-MNIST: Y. LeCun, C. Cortes and C. J. C. Burges, "The MNIST database of
  handwritten digits".
- CIFAR-10: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
- SVHN: Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and A. Y. Ng, "Reading digits in natural
  images with unsupervised feature learning", NIPS workshop 2011.
- small NORB: Y. LeCun, F. J. Huang and L. Bottou, "Learning methods for generic object recognition
  with invariance to pose and lighting", CVPR 2004.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

Array = NDArray[Any]

# The checksums are those in the tables of tensorflow-datasets.
PUBLISHED_BLOCKS = Path(__file__).with_suffix(".txt").read_text("utf-8").split("\n\n")
PUBLISHED: dict[str, tuple[str, dict[str, str]]] = {
    name: (url, dict(zip(words[1::2], words[::2], strict=True)))
    for name, url, *words in map(str.split, PUBLISHED_BLOCKS)
}
"""URL of every data set, and the names and checksums of its files."""

NORB_DTYPES = {0x1E3D4C55: "u1", 0x1E3D4C54: "<i4"}
"""Magic numbers of matrices of bytes and of 32-bit integers."""


@dataclass(frozen=True)
class ImageData:
    """Images (n, height, width[, n_channels]) and labels (n,) of a training and a test set."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array


def main() -> None:
    parser = argparse.ArgumentParser(description="Download an image data set into a folder.")
    parser.add_argument("name", choices=list(PUBLISHED))
    parser.add_argument("folder", type=Path, help="created if it does not exist")
    arguments = parser.parse_args()
    download(arguments.name, arguments.folder)


def download(name: str, folder: Path) -> None:
    """Download a data set; files that are in the folder are only verified."""
    url, checksums = PUBLISHED[name]
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, checksum in checksums.items():
        path = folder / file_name
        if not path.exists():
            part = path.with_name(f"{file_name}.part")
            request = urllib.request.urlopen(url + file_name)  # noqa: S310
            with request as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
            verify(part, checksum)
            part.replace(path)
        verify(path, checksum)
        if path.suffixes[-2:] == [".tar", ".gz"]:
            with tarfile.open(path) as packed:
                packed.extractall(folder, filter="data")


def verify(path: Path, checksum: str) -> None:
    """Raise ValueError if a file is not the published one."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
            problem = f"{path} is not the published file of SHA-256 {checksum}"
            raise ValueError(f"{problem}. Delete it, or move it to another folder.")


def read_image_data(path: str | Path) -> ImageData:
    """Read a folder of published files, or an .npz file of x_train, y_train, x_test and y_test.

    The published files may lie in a folder inside. Images are uint8, labels begin at 0. The extra
    images of SVHN are added to the training images if their file is there.
    """
    path = Path(path)
    try:
        if path.is_dir():
            read, folder = recognised(path)
            parts = [*read(folder, "train"), *read(folder, "test")]
        else:
            with np.load(path) as arrays:
                parts = [arrays[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    except OSError:
        raise
    except Exception as error:
        # Damaged files raise errors of numpy, zlib, zipfile and scipy.
        raise ValueError(f"{path} cannot be read: {error}. Download it again.") from error
    for images, labels in (parts[:2], parts[2:]):
        if labels.shape != images.shape[:1]:
            found = f"{path} has images of shape {images.shape} and labels of shape {labels.shape}"
            raise ValueError(f"{found}, expected one label per image. Download the files again.")
    return ImageData(*parts)


def recognised(path: Path) -> tuple[Any, Path]:
    """Return the reader of the data set in a folder or in one inside it, and this folder."""
    for folder in (path, *sorted(each for each in path.iterdir() if each.is_dir())):
        for pattern, read in READERS.items():
            if any(folder.glob(pattern)):
                return read, folder
    raise ValueError(f"it has none of the files {', '.join(READERS)}")


def only(folder: Path, pattern: str) -> Path:
    """Return the file of this name."""
    for path in sorted(folder.glob(pattern)):
        return path
    raise FileNotFoundError(f"{folder} has no file {pattern}. Download it.")


def content_of(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in ".gz"."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def read_idx(path: Path) -> Array:
    """Read an IDX file of bytes: 0, 0, 8, the number of dimensions, big-endian sizes, values."""
    content = content_of(path)
    shape = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def read_norb(path: Path) -> Array:
    """Read a matrix of small NORB: magic number, number of dimensions, at least 3 sizes, values."""
    content = content_of(path)
    magic, n_dimensions = np.frombuffer(content, "<i4", 2).tolist()
    shape = np.frombuffer(content, "<i4", n_dimensions, 8)
    start = 8 + 4 * max(3, n_dimensions)
    return np.frombuffer(content, NORB_DTYPES[magic], offset=start).reshape(shape)


def mnist(folder: Path, part: str) -> tuple[Array, Array]:
    start = {"train": "train", "test": "t10k"}[part]
    images, labels = (only(folder, f"{start}-{kind}?idx*") for kind in ("images", "labels"))
    return read_idx(images), read_idx(labels)


def cifar10(folder: Path, part: str) -> tuple[Array, Array]:
    """Read rows of one byte of label, and the red, the green and the blue channel."""
    names = [f"data_batch_{n}.bin" for n in range(1, 6)] if part == "train" else ["test_batch.bin"]
    rows = np.concatenate([np.fromfile(folder / name, np.uint8) for name in names])
    rows = rows.reshape(-1, 1 + 3 * 32 * 32)
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, 0].copy()


def svhn(folder: Path, part: str) -> tuple[Array, Array]:
    """Read MATLAB 5 files, in which 10 is the label of the digit 0."""
    paths = [folder / f"{part}_32x32.mat"]
    if part == "train" and (folder / "extra_32x32.mat").exists():
        paths.append(folder / "extra_32x32.mat")
    files = [loadmat(path) for path in paths]
    images = np.concatenate([file["X"].transpose(3, 0, 1, 2) for file in files])
    return images, np.concatenate([file["y"][:, 0] % 10 for file in files])


def norb(folder: Path, part: str) -> tuple[Array, Array]:
    """Read stereo pairs, with a channel per camera, and categories."""
    start = f"smallnorb-*-{part}ing-"
    images, labels = (read_norb(only(folder, f"{start}{kind}.mat*")) for kind in ("dat", "cat"))
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels


READERS = {
    "train-images?idx3-ubyte*": mnist,
    "data_batch_1.bin": cifar10,
    "train_32x32.mat": svhn,
    "smallnorb-*-training-dat.mat*": norb,
}
"""Readers of data sets, by a file that each of them has."""

if __name__ == "__main__":
    main()
