"""Filter banks: what `filters` may be, and the bank that it stands for."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from onlinels.checks import (
    Floats,
    Matrix,
    as_array,
    check_choice,
    check_count,
    check_path,
    check_values,
    frozen_copy,
)
from onlinels.features.images import Shape
from onlinels.features.preprocessing import GREY_WEIGHTS
from onlinels.labels import read_labels
from onlinels.numerics import Frozen
from onlinels.saving import ANYTHING, array, savable, settings_hold
from onlinels.saving.arrays import UNREADABLE, ArrayArchive, read_npy


@savable({"filters": array("f8", 4), "offsets": ANYTHING}, settings_hold)
@dataclass(frozen=True, eq=False, repr=False)
class FilterBank(Frozen):
    """Filters h with offsets: the response of an image x is x * h + offset.

    Parameters
    ----------
    filters : ndarray (n_filters, height, width, 1 or n_channels)
        Taken as they are, without removing a mean.
    offsets : ndarray (n_filters,) or (n_filters, n_channels)
        Added to every map of a filter, or one for each channel's response. Where the responses of
        channels are summed, the offsets of channels are as well.

    Examples
    --------
    >>> bank = FilterBank(np.ones((2, 3, 3, 1)), np.zeros(2))
    >>> bank, bank.for_channels(4).filters.shape
    (FilterBank(2 filters of 3 x 3, 1 channel), (2, 3, 3, 4))
    """

    filters: Floats
    offsets: Floats

    def __post_init__(self) -> None:
        filters = as_array("filters", self.filters)
        offsets = as_array("offsets", self.offsets)
        if filters.ndim != 4 or 0 in filters.shape:
            raise ValueError(f"filters has shape {filters.shape}, expected 4 sizes above 0.")
        shapes = (filters.shape[:1], filters.shape[::3])
        if offsets.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            raise ValueError(f"offsets has shape {offsets.shape}, expected {expected}. Pass zeros.")
        object.__setattr__(self, "filters", filters.astype(np.float64))
        object.__setattr__(self, "offsets", offsets.astype(np.float64))
        super().__post_init__()

    def __len__(self) -> int:
        return len(self.filters)

    def __repr__(self) -> str:
        n_filters, height, width, n_channels = self.filters.shape
        return f"FilterBank({n_filters} filters of {height} x {width}, {channels(n_channels)})"

    def for_channels(self, n_channels: int) -> FilterBank:
        """Return the bank with a channel for each channel of the images.

        One channel serves every channel of the images. As many channels as the images have meet
        them one by one. Of three channels (red, green and blue), grey images and stereo pairs (1 or
        2 channels) meet the grey version 0.299 R + 0.587 G + 0.114 B, and the fourth channel of
        colour images with a grey channel meets it too.

        Raises
        ------
        ValueError
            If the images have another number of channels.
        """
        check_count("n_channels", n_channels, 1)
        return self if n_channels == self.filters.shape[3] else _mixed(self, n_channels)

    def padded(self, height: int, width: int) -> FilterBank:
        """Return the bank with zeros around its filters, one row or column more behind if odd."""
        extra = np.array([height, width]) - self.filters.shape[1:3]
        before = extra // 2
        margins = np.array([(0, 0), *zip(before, extra - before, strict=True), (0, 0)])
        return FilterBank(np.pad(self.filters, margins), self.offsets)


def channels(number: int) -> str:
    """Return a number of channels in words."""
    return f"{number} channel{'s' * (number > 1)}"


def plain_bank(filters: Matrix) -> FilterBank:
    """Return filters (n_filters, height, width[, n_channels]) as a bank without offsets."""
    return FilterBank(filters if filters.ndim == 4 else filters[..., None], np.zeros(len(filters)))


# Measured: to mix anew for a single image takes a tenth of the time of its convolution.
@lru_cache(maxsize=8)
def _mixed(bank: FilterBank, n_channels: int) -> FilterBank:
    """Return a bank that meets another number of channels than its own."""
    own = bank.filters.shape[3]
    if own == 1:
        mix = np.ones((1, n_channels))
    elif own == 3 and n_channels in (1, 2):
        mix = np.repeat(np.transpose([GREY_WEIGHTS]), n_channels, axis=1)
    elif own == 3 and n_channels == 4:
        mix = np.column_stack([np.eye(3), GREY_WEIGHTS])
    else:
        expected = f"{'1 to 4' if own == 3 else own} as the filters have {own}"
        raise ValueError(f"Images have {n_channels} channels, expected {expected}. Pass others.")
    offsets = bank.offsets if bank.offsets.ndim == 1 else bank.offsets @ mix
    return FilterBank(bank.filters @ mix, offsets)


def zero_mean(bank: Floats) -> Floats:
    """Return the bank with every filter's mean removed (per channel, if it has channels)."""
    return np.asarray(bank - bank.mean(axis=(1, 2), keepdims=True))


N_ORIENTATIONS = 20


@cache
def hand_designed() -> Floats:
    """Return the paper's bank (43, 7, 7), section III-B: 20 bars, 20 corners, 3 squares, mean 0."""
    # Bars one pixel wide, in steps of 9 degrees; corners whose two arms are 4 pixels long and meet
    # in the middle, in steps of 18; centred squares, of which the even one's edges cover half a
    # pixel. Lines are anti-aliased: values fall linearly to 0 at a distance of one pixel.
    rows, columns = np.indices((7, 7)) - 3.0

    def ink(distance: Floats) -> Floats:
        return np.clip(1.0 - np.abs(distance), 0.0, 1.0)

    def arm(angle: float) -> Floats:
        along = columns * np.cos(angle) + rows * np.sin(angle)
        across = rows * np.cos(angle) - columns * np.sin(angle)
        return ink(np.hypot(across, along - np.clip(along, 0.0, 3.0)))

    def within(offsets: Floats, side: int) -> Floats:
        return np.clip((side + 1) / 2 - np.abs(offsets), 0.0, 1.0)

    turns = np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    bars = [ink(rows * np.sin(angle) + columns * np.cos(angle)) for angle in turns]
    turns = 2 * np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    corners = [np.maximum(arm(angle), arm(angle + np.pi / 2)) for angle in turns]
    squares = [within(rows, side) * within(columns, side) for side in (3, 4, 5)]
    return frozen_copy(zero_mean(np.stack([*bars, *corners, *squares])))


MINIROCKET_SIZE = 9


@cache
def minirocket_kernels() -> Floats:
    """Return the 84 kernels of MiniRocket (84, 9): -1, and 2 at all choices of three places."""
    # Every kernel's mean is 0. Read backwards they are the same set: whether they are convolved or
    # correlated makes a difference to the order of the maps alone.
    places = np.array(list(combinations(range(MINIROCKET_SIZE), 3)))
    kernels = np.full((len(places), MINIROCKET_SIZE), -1.0)
    np.put_along_axis(kernels, places, 2.0, axis=1)
    return frozen_copy(kernels)


class Recipe:
    """Settings of a filter bank that is made from examples: n_filters of size x size pixels."""

    n_filters: int
    size: int
    keep_mean: bool = False

    make: Callable[..., FilterBank]
    """Returns the bank made from images (n, height, width, n_channels) and their labels.

    Further arguments are a random generator, whether the responses of channels will be summed, and
    the contrast offset with which patches of an image will be of normalised contrast, or None.
    """

    def __post_init__(self) -> None:
        check_count("n_filters", self.n_filters, 1)
        check_count("size", self.size, 1)

    @property
    def largest(self) -> float:
        """A number that, everywhere in filters without offsets, responds as much as any bank."""
        return 1.0

    def check_contrast(self, contrast_offset: float | None) -> None:
        """Raise ValueError if patches are to keep a mean that the contrast offset takes."""
        if self.keep_mean and contrast_offset is not None:
            came = f"keep_mean=True with contrast_offset={contrast_offset!r}, expected None"
            raise ValueError(f"{came}: patches of normalised contrast have no mean. Set one.")

    def check_size(self, shape: Shape) -> None:
        """Raise ValueError unless patches fit into images of shape (height, width, n_channels)."""
        if self.size > min(shape[:2]):
            raise ValueError(f"size={self.size} exceeds images of {shape[0]} x {shape[1]} pixels.")


def square_filters(filters: Any, name: str = "filters") -> Matrix:
    """Return an array, or a list, of square filters of one shape, or raise."""
    bank = as_array(name, filters)
    if bank.ndim not in (3, 4) or bank.shape[1] != bank.shape[2] or 0 in bank.shape:
        expected = "square filters (n_filters, W, W[, n_channels]). Pad or transpose them"
        raise ValueError(f"{name} has shape {bank.shape}, expected {expected}.")
    return bank


def parts_of(filters: Any) -> list[FilterBank | Recipe]:
    """Return the banks and recipes that `filters` consists of, or raise."""
    if isinstance(filters, (FilterBank, Recipe)):
        return [filters]
    if isinstance(filters, tuple):
        if not filters:
            raise ValueError("filters is an empty tuple, expected at least one bank. Name one.")
        return [part for member in filters for part in parts_of(member)]
    if isinstance(filters, str):
        check_choice("filters", filters, ("hand-designed",))
        return [plain_bank(hand_designed())]
    if not isinstance(filters, (np.ndarray, list)):
        expected = "a name, an array, a FilterBank, a recipe such as Patches(), or a tuple of these"
        raise TypeError(f"filters holds {filters!r}, expected {expected}. Pass one.")
    return [plain_bank(square_filters(filters))]


def recipes(filters: Any) -> list[Recipe]:
    """Return the recipes among `filters`, which images have to be given for."""
    return [part for part in parts_of(filters) if isinstance(part, Recipe)]


def frozen_filters(filters: Any) -> Any:
    """Return filters that nobody can write to, each of a tuple."""
    if isinstance(filters, tuple):
        return tuple(map(frozen_filters, filters))
    return frozen_copy(filters) if isinstance(filters, (np.ndarray, list)) else filters


def make_bank(
    filters: Any,
    images: Matrix | None = None,
    labels: Any = None,
    seed: int = 0,
    joint: bool = False,
    contrast_offset: float | None = None,
) -> FilterBank:
    """Return the bank that `filters` stands for, made of images (n, height, width, n_channels)."""
    if images is not None and labels is not None:
        read_labels(labels, len(images))
    banks = []
    for place, part in enumerate(parts_of(filters), start=1):
        if isinstance(part, Recipe):
            # Each place in a tuple has random numbers of its own.
            random = np.random.default_rng([seed, place])
            part = part.make(images, labels, random, joint, contrast_offset)
        banks.append(part)
    return _combined(banks, joint, None if images is None else images.shape[3])


def outline(filters: Any, n_channels: int, joint: bool = False) -> FilterBank:
    """Return the bank that so many channels meet, with bounds of what needs examples."""
    # Each is fitted by itself: offsets of channels, once summed, fit no other channels any more.
    banks = []
    for part in parts_of(filters):
        if isinstance(part, Recipe):
            part = plain_bank(np.full((part.n_filters, part.size, part.size), part.largest))
        banks.append(part.for_channels(n_channels))
    return _combined(banks, joint)


def _combined(banks: list[FilterBank], joint: bool, n_channels: int | None = None) -> FilterBank:
    """Join banks of any size; where channels differ, all meet those of the images, if known."""
    if len(banks) == 1:
        return banks[0]
    numbers = {bank.filters.shape[3] for bank in banks}
    if len(numbers) > 1 and n_channels is not None:
        numbers = {n_channels}
    elif len(numbers - {1}) > 1:
        came = f"filters combines banks of {sorted(numbers)} channels, expected one number beside 1"
        raise ValueError(f"{came}. Pass images, whose channels all banks then meet.")
    height, width = np.max([bank.filters.shape[1:3] for bank in banks], axis=0)
    fitted = [bank.for_channels(max(numbers)).padded(height, width) for bank in banks]
    offsets = [bank.offsets for bank in fitted]
    if joint:
        offsets = [each if each.ndim == 1 else each.sum(axis=1) for each in offsets]
    elif any(each.ndim == 2 for each in offsets):
        offsets = [np.broadcast_to(each.T, (max(numbers), len(each))).T for each in offsets]
    return FilterBank(np.concatenate([b.filters for b in fitted]), np.concatenate(offsets))


OVERFEAT_FILES = {
    583_683_488: ("net_weight_0", (96, 3, 11, 11)),
    578_625_952: ("net_weight_1", (96, 3, 7, 7)),
}
"""Sizes in bytes, names, and shapes (filter, channel, row, column) of what the files start with."""

MAX_FILTER_VALUES = 1 << 24
"""Of a bank of filters: 128 MiB of float64, 16,384 filters of 32 x 32."""

ARRAY_NAMES = ("weights", "filters")
"""Names of the filters in an archive of several arrays."""

KNOWN = " or ".join(f"{name} ({size:,} bytes)" for size, (name, _) in OVERFEAT_FILES.items())
EXPECTED = f"Expected a .npy or .npz file of filters, or {KNOWN} of OverFeat's download_weights.py."


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

    OverFeat's files are fetched by the script download_weights.py in
    https://github.com/sermanet/OverFeat. Its weights are for research and evaluation only, and its
    licence grants no right to pass them on. They come with no part of this package.

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
    n_bytes = file.stat().st_size
    if file.suffix in (".npy", ".npz"):
        values = _read_array(file)
    elif n_bytes in OVERFEAT_FILES:
        _, shape = OVERFEAT_FILES[n_bytes]
        weights = np.fromfile(file, dtype="<f4", count=int(np.prod(shape)))
        values = weights.reshape(shape).transpose(0, 2, 3, 1)
    else:
        raise ValueError(f"{path} has {n_bytes:,} bytes and is no array. {EXPECTED}")
    check_values(f"{file}", values)
    return zero_mean(square_filters(values, f"{file}: filters").astype(np.float64))


def _read_array(file: Path) -> Matrix:
    """Read a .npy file, or the filters among the arrays of an .npz file."""
    try:
        with file.open("rb") as stream:
            if not stream.peek(2).startswith(b"PK"):  # As zip files do.
                return read_npy(stream, file.stat().st_size, MAX_FILTER_VALUES)
            archive = ArrayArchive(stream)
            names = list(archive.names)
            found = names if len(names) == 1 else [name for name in names if name in ARRAY_NAMES]
            if len(found) != 1:
                known, every = " or ".join(ARRAY_NAMES), reprlib.repr(names)
                raise ValueError(f"it holds the arrays {every}, expected one named {known}.")
            return archive.read(found[0], MAX_FILTER_VALUES)
    except UNREADABLE as error:
        raise ValueError(f"{file} cannot be read: {str(error).rstrip('.')}. {EXPECTED}") from error
