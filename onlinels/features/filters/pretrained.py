"""Filters from files: arrays, and the first layer of OverFeat from its own weight files."""

from __future__ import annotations

import os
import reprlib
from pathlib import Path

import numpy as np

from onlinels.array_files import ArrayArchive, read_npy
from onlinels.arrays import Floats, Matrix, check_values
from onlinels.damage import UNREADABLE
from onlinels.features.filters.hand_designed import check_bank, zero_mean
from onlinels.settings import check_path

OVERFEAT_FILES = {
    583_683_488: ("net_weight_0", (96, 3, 11, 11)),
    578_625_952: ("net_weight_1", (96, 3, 7, 7)),
}
"""Sizes in bytes, names, and shapes (filter, channel, row, column) of what the files start with."""

MOST_VALUES = 1 << 24
"""Of a bank of filters: 128 MiB of float64, 16,384 filters of 32 x 32."""

ZIPPED = b"PK"
"""What an archive of arrays begins with."""

ARRAY_NAMES = ("weights", "filters")
"""Names of the filters in an archive of several arrays."""

EXPECTED = (
    "Expected a .npy or .npz file of an array (n_filters, W, W[, n_channels]), or OverFeat's file "
    + " or ".join(f"{name} ({size:,} bytes)" for size, (name, _) in OVERFEAT_FILES.items())
    + ", which the script download_weights.py in https://github.com/sermanet/OverFeat fetches."
)


def read_filters(path: str | os.PathLike[str]) -> Floats:
    """Read a bank of convolution filters from a file, and remove each filter's mean per channel.

    Parameters
    ----------
    path : str or path
        A .npy file, or a .npz file of one array or with one named "weights" or "filters", of shape
        (n_filters, W, W) or (n_filters, W, W, n_channels); or one of OverFeat's own weight files,
        "net_weight_0" (11x11, its fast network) or "net_weight_1" (7x7, its accurate one), which is
        recognised by its exact size.

    Returns
    -------
    ndarray (n_filters, W, W[, n_channels]), float64
        OverFeat's are (96, W, W, 3), channels in the order red, green, blue.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError, ValueError
        If `path` is no path, or the file holds anything else, more than 2^24 values, no square
        filters, or a value that is no finite number.

    Notes
    -----
    Nothing is unpickled, and no more of OverFeat's file is read than its first layer. Filters are
    taken as they are stored, not turned. Memory: a few times that of the filters as float64,
    which are at most 2^24 values, and no compressed byte stands for more than 1,032 bytes.

    OverFeat's weights are for research and evaluation only, and its licence grants no right to pass
    them on. They come with no part of this package.

    References
    ----------
    P. Sermanet, D. Eigen, X. Zhang, M. Mathieu, R. Fergus and Y. LeCun, "OverFeat: Integrated
    Recognition, Localization and Detection using Convolutional Networks", ICLR 2014.

    Examples
    --------
    >>> read_filters("overfeat/net_weight_1")
    Traceback (most recent call last):
        ...
    FileNotFoundError: There is no file overfeat/net_weight_1. Expected a .npy or .npz file ...
    """
    file = check_path("path", path)
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {path}. {EXPECTED}")
    if file.suffix in (".npy", ".npz"):
        values = _read_array(file)
    elif file.stat().st_size in OVERFEAT_FILES:
        values = _read_overfeat(file)
    else:
        raise ValueError(f"{path} has {file.stat().st_size:,} bytes and is no array. {EXPECTED}")
    _check_filters(file, values)
    return zero_mean(values.astype(np.float64))


def _read_overfeat(file: Path) -> Matrix:
    _, shape = OVERFEAT_FILES[file.stat().st_size]
    values = np.fromfile(file, dtype="<f4", count=int(np.prod(shape)))
    return values.reshape(shape).transpose(0, 2, 3, 1)


def _read_array(file: Path) -> Matrix:
    try:
        with file.open("rb") as stream:
            if stream.peek(len(ZIPPED))[: len(ZIPPED)] == ZIPPED:
                return _only_array(ArrayArchive(stream))
            return read_npy(stream, file.stat().st_size, MOST_VALUES)
    except UNREADABLE as error:
        raise ValueError(f"{file} cannot be read: {str(error).rstrip('.')}. {EXPECTED}") from error


def _only_array(archive: ArrayArchive) -> Matrix:
    names = list(archive.names)
    found = names if len(names) == 1 else [name for name in names if name in ARRAY_NAMES]
    if len(found) != 1:
        raise ValueError(
            f"it holds the arrays {reprlib.repr(names)}, expected one, or one named "
            f"{' or '.join(ARRAY_NAMES)}."
        )
    return archive.read(found[0], MOST_VALUES)


def _check_filters(file: Path, values: Matrix) -> None:
    check_values(f"{file}", values)
    try:
        check_bank(values)
    except ValueError as error:
        raise ValueError(
            f"{file}: {error} Filters stored as (n_filters, n_channels, W, W) need "
            "transpose(0, 2, 3, 1)."
        ) from error
