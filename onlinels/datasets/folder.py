"""Read image data sets, as a whole or in mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from onlinels.checks import check_choice, check_count, check_flag, check_path
from onlinels.datasets.cifar import CIFAR
from onlinels.datasets.idx import IDX
from onlinels.datasets.norb import NORB
from onlinels.datasets.reading import (
    Batch,
    Format,
    Source,
    batches_of,
    read_all,
    read_npz,
    slices_of,
)
from onlinels.datasets.svhn import SVHN

SPLITS = ("train", "test")


@dataclass(frozen=True)
class ImageData:
    """Hold the images and labels of a training set and a test set.

    Parameters
    ----------
    x_train, x_test : ndarray (n, height, width[, n_channels])
        Images.
    y_train, y_test : ndarray (n,)
        Labels of the images.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.zeros((3, 28, 28), dtype=np.uint8)
    >>> data = ImageData(images[:2], np.array([5, 0]), images[2:], np.array([4]))
    >>> data.x_train.shape, data.y_test.tolist()
    ((2, 28, 28), [4])
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]


def read_image_data(path: str | Path, *, extra: bool | None = None) -> ImageData:
    """Read an image data set from its published files.

    Parameters
    ----------
    path : str or Path
        Path of a folder with the files of one of these data sets, of a folder with one such folder
        inside, or of an .npz file with the arrays x_train, y_train, x_test and y_test.

        - MNIST, Fashion-MNIST: train-images-idx3-ubyte, train-labels-idx1-ubyte, and the same with
          t10k (also with ".idx", gzipped or not); images (n, 28, 28).
        - CIFAR-10, binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin; images
          (n, 32, 32, 3).
        - SVHN, cropped digits: train_32x32.mat, test_32x32.mat and extra_32x32.mat; images
          (n, 32, 32, 3).
        - small NORB: smallnorb-…-training-dat.mat and -cat.mat, and the same with testing (gzipped
          or not); stereo pairs (n, 96, 96, 2).
    extra : bool, optional
        Whether to add the extra images of SVHN to the training images. By default, they are added
        if their file exists. Only for SVHN.

    Returns
    -------
    ImageData
        Images of uint8 with values from 0 to 255, and labels from 0 on. The arrays of an .npz file
        are returned unchanged.

    Raises
    ------
    TypeError
        If `path` is not a path, or `extra` is not a bool.
    FileNotFoundError
        If the path or one of the files does not exist.
    ValueError
        If a file is damaged, an array is missing, the numbers of images and labels differ, the
        folder holds more than one data set, or the images do not fit into memory.

    Notes
    -----
    Memory: about twice that of the arrays returned; `stream_image_data` reads mini-batches. A file,
    or a compressed array of an .npz file, may expand to at most 2 GiB, and a compressed byte to at
    most 1,032 bytes; files that state more are refused.

    SVHN's files are read by `scipy.io.loadmat`, to which none of these limits applies, and which is
    not safe for files from untrusted sources. Read only the published files; `download` verifies
    them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
    ...         _ = Path(folder, f"{name}.bin").write_bytes(bytes([7]) + bytes(3072))
    ...     read_image_data(folder).y_train
    array([7, 7, 7, 7, 7], dtype=uint8)
    """
    train, test = (open_part(path, part, extra) for part in SPLITS)
    try:
        return ImageData(*read_all(train), *read_all(test))
    except MemoryError as error:
        problem = f"The images in {path} do not fit into memory"
        raise ValueError(f"{problem}. Read them with stream_image_data.") from error


def stream_image_data(
    path: str | Path, batch_size: int, part: str = "train", *, extra: bool | None = None
) -> Iterator[Batch]:
    """Read an image data set in mini-batches, in the order of its files.

    Parameters
    ----------
    path : str or Path
        Path of a folder or an .npz file, as for `read_image_data`.
    batch_size : int
        Number of images in a mini-batch; the last one may be smaller.
    part : {"train", "test"}
        Part of the data set to read.
    extra : bool, optional
        Whether to add the extra images of SVHN, as for `read_image_data`.

    Returns
    -------
    iterator over (images, labels)
        Mini-batches, which together are the arrays that `read_image_data` returns.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    FileNotFoundError
        If the path or one of the files does not exist.
    ValueError
        If an argument is invalid, a file is damaged, the numbers of images and labels differ, or
        the folder holds more than one data set. The error is raised by the call if headers and
        sizes reveal it, and otherwise while reading, for instance for a truncated gzipped file.

    Notes
    -----
    Memory: one or two mini-batches and the labels, whether the files are compressed or not. The
    arrays of an .npz file are read as a whole. So are SVHN's files, by `scipy.io.loadmat`, which is
    not safe for files from untrusted sources.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     arrays = {"x_train": np.ones((5, 8, 8)), "y_train": [3, 1, 4, 1, 5]}
    ...     np.savez(f"{folder}/data.npz", x_test=np.ones((0, 8, 8)), y_test=[], **arrays)
    ...     [labels.tolist() for _, labels in stream_image_data(f"{folder}/data.npz", 2)]
    [[3, 1], [4, 1], [5]]
    """
    batch_size = check_count("batch_size", batch_size, 1)
    check_choice("part", part, SPLITS)
    return batches_of(open_part(path, part, extra), batch_size)


def open_part(path: str | Path, part: str, extra: bool | None) -> Iterable[Source]:
    """Open an .npz file, or the files of the data set in a folder or in one of its folders."""
    path = check_path("path", path)
    if extra is not None:
        check_flag("extra", extra)
    folder, found = _recognised(path) if path.is_dir() else (path, None)
    if extra is not None and found is not SVHN:
        problem = f"extra={extra!r} is only for SVHN, and {path} holds other data"
        raise ValueError(f"{problem}, expected None. Leave extra out.")
    if found is None:
        return [partial(slices_of, *read_npz(path, part))]
    extra = (folder / "extra_32x32.mat").is_file() if extra is None else extra
    parts = ["train", "extra"] if extra and part == "train" else [part]
    files = [names for each in parts for names in found.files[each]]
    return list(found.open_files(*(_find_file(folder, names, found.where) for names in files)))


def _find_file(folder: Path, names: tuple[str, ...], where: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    problem = f"{folder} holds no file {' or '.join(names)}"
    raise FileNotFoundError(f"{problem}. Put the file there; {where}")


FORMATS = (IDX, CIFAR, SVHN, NORB)


def _recognised(folder: Path) -> tuple[Path, Format]:
    """Return the folder that holds a data set (this folder or one inside), and its format."""
    for places in ([folder], sorted(path for path in folder.iterdir() if path.is_dir())):
        found = [(place, each) for place in places for each in FORMATS if each.lies_in(place)]
        if len(found) > 1:
            listed = ", ".join(f"{each.title} in {place}" for place, each in found)
            expected = "expected one. Pass the folder of one data set"
            raise ValueError(f"{folder} holds more than one data set: {listed}, {expected}.")
        if found:
            return found[0]
    sought = "; ".join(f"{each.title} ({', '.join(each.names)}): {each.where}" for each in FORMATS)
    raise FileNotFoundError(f"{folder} holds no known data set, expected one of these: {sought}.")
