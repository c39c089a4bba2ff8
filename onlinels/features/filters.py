"""What `filters` may be, and the filter bank that it stands for."""

from __future__ import annotations

import os
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from onlinels.array_files import ArrayArchive, read_npy
from onlinels.checks import (
    Floats,
    Integers,
    Matrix,
    as_array,
    check_choice,
    check_count,
    check_flag,
    check_path,
    check_values,
    frozen_copy,
    plain_array,
)
from onlinels.damage import UNREADABLE
from onlinels.features.images import GREY_WEIGHTS, Shape, read_images
from onlinels.labels import read_labels
from onlinels.numerics import Frozen

MINIROCKET_SIZE = 9


@cache
def minirocket_kernels() -> Floats:
    """Return the 84 kernels of MiniRocket: length 9, six weights -1 and three weights 2.

    Returns
    -------
    ndarray (84, 9), float64, read-only
        All choices of three places, in lexicographic order. Every kernel's mean is 0, so a
        constant has no response. Read backwards the kernels are the same set: whether they are
        convolved or correlated makes a difference to the order of the maps alone.

    References
    ----------
    A. Dempster, D. F. Schmidt and G. I. Webb (2021), "MiniRocket: A Very Fast (Almost)
    Deterministic Transform for Time Series Classification". The original moreover dilates the
    kernels and pools by the share of positive values.

    Examples
    --------
    >>> kernels = minirocket_kernels()
    >>> kernels.shape, kernels[0].tolist()
    ((84, 9), [2.0, 2.0, 2.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0])
    """
    places = np.array(list(combinations(range(MINIROCKET_SIZE), 3)))
    kernels = np.full((len(places), MINIROCKET_SIZE), -1.0)
    np.put_along_axis(kernels, places, 2.0, axis=1)
    return frozen_copy(kernels)


def check_size(shape: tuple[int, ...], size: int) -> None:
    """Raise unless patches of this size fit into images of shape (height, width, n_channels).

    Raises
    ------
    ValueError
        If they do not.
    """
    height, width = shape[:2]
    if size > min(height, width):
        raise ValueError(
            f"size={size} exceeds images of {height} x {width} pixels. Pass a size of at most "
            f"{min(height, width)}, or larger images."
        )


def draw(random: np.random.Generator, n_available: int, n_wanted: int) -> Integers:
    """Draw positions (n_wanted,) below `n_available`, with replacement only if they are too few.

    Examples
    --------
    >>> sorted(draw(np.random.default_rng(0), 3, 3).tolist())
    [0, 1, 2]
    """
    return random.choice(n_available, n_wanted, replace=n_wanted > n_available)


def sample_patches(
    images: Matrix, size: int, n_patches: int, random: np.random.Generator
) -> Floats:
    """Draw patches from random places of random images, every place at most once.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
    size : int
        At most height and width.
    n_patches : int
    random : Generator

    Returns
    -------
    ndarray (n_patches or all there are, size, size, n_channels), float64

    Examples
    --------
    >>> images = np.arange(16.0).reshape(1, 4, 4, 1)
    >>> sample_patches(images, 2, 5, np.random.default_rng(0)).shape
    (5, 2, 2, 1)
    """
    windows = sliding_window_view(images, (size, size), axis=(1, 2))
    n_places = int(np.prod(windows.shape[:3]))
    drawn = draw(random, n_places, min(n_patches, n_places))
    patches = windows[np.unravel_index(drawn, windows.shape[:3])]
    return np.ascontiguousarray(np.moveaxis(patches, 1, 3), dtype=np.float64)


def choose(patches: Floats, n_wanted: int, random: np.random.Generator, joint: bool) -> Integers:
    """Choose patches (n, size, size, n_channels) that are not even, if there are any.

    Of channels that are kept apart, none should be even; of joint ones, not all.

    Returns
    -------
    ndarray (n_wanted,) of int
        Rows, some more than once if there are too few.
    """
    spread = np.ptp(patches, axis=(1, 2))
    groups = [spread.any(axis=1)] if joint else [spread.all(axis=1), spread.any(axis=1)]
    uneven = [np.flatnonzero(group) for group in groups if group.any()]
    rows = uneven[0] if uneven else np.arange(len(patches))
    chosen: Integers = rows[draw(random, len(rows), n_wanted)]
    return chosen


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
            raise ValueError(
                f"filters has shape {filters.shape}, expected (n_filters, height, width, 1 or "
                "n_channels). Reshape them."
            )
        shapes = (filters.shape[:1], filters.shape[::3])
        if offsets.shape not in shapes:
            raise ValueError(
                f"offsets has shape {offsets.shape}, expected {shapes[0]} or {shapes[1]}. "
                "Pass one number per filter, 0 for none."
            )
        object.__setattr__(self, "filters", filters.astype(np.float64))
        object.__setattr__(self, "offsets", offsets.astype(np.float64))
        super().__post_init__()

    def __len__(self) -> int:
        return len(self.filters)

    def __repr__(self) -> str:
        n_filters, height, width, n_channels = self.filters.shape
        plural = "s" * (n_channels > 1)
        return (
            f"FilterBank({n_filters} filters of {height} x {width}, {n_channels} channel{plural})"
        )

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
        if n_channels == self.filters.shape[3]:
            return self
        # Measured: to mix anew for a single image takes a tenth of the time of its convolution.
        mixed = MIXED.setdefault(self, {})
        if n_channels not in mixed:
            mixed[n_channels] = _mixed(self, n_channels)
        return mixed[n_channels]

    def padded(self, height: int, width: int) -> FilterBank:
        """Return the bank with zeros around its filters, one row or column more behind if odd."""
        extra = np.array([height, width]) - self.filters.shape[1:3]
        before = extra // 2
        margins = np.array([(0, 0), *zip(before, extra - before, strict=True), (0, 0)])
        return FilterBank(np.pad(self.filters, margins), self.offsets)


MIXED: WeakKeyDictionary[FilterBank, dict[int, FilterBank]] = WeakKeyDictionary()
"""Banks for other numbers of channels than their own, as long as these are in use."""


def _mixed(bank: FilterBank, n_channels: int) -> FilterBank:
    own = bank.filters.shape[3]
    if own == 1:
        mix = np.ones((1, n_channels))
    elif own == 3 and n_channels in (1, 2):
        mix = np.repeat(np.transpose([GREY_WEIGHTS]), n_channels, axis=1)
    elif own == 3 and n_channels == 4:
        mix = np.column_stack([np.eye(3), GREY_WEIGHTS])
    else:
        raise ValueError(
            f"Images have {n_channels} channels, expected {'1 to 4' if own == 3 else own} as "
            f"the filters have {own}. Pass filters without channels, or images with as many."
        )
    offsets = bank.offsets if bank.offsets.ndim == 1 else bank.offsets @ mix
    return FilterBank(bank.filters @ mix, offsets)


def frozen_filters(filters: Any) -> Any:
    """Return filters that nobody can write to, each of a tuple.

    Examples
    --------
    >>> frozen_filters((np.eye(3),))[0].flags.writeable
    False
    """
    if isinstance(filters, tuple):
        return tuple(map(frozen_filters, filters))
    return frozen_copy(filters) if isinstance(filters, (np.ndarray, list)) else filters


class Recipe(ABC):
    """Settings of a filter bank that is made from examples: n_filters of size x size pixels."""

    n_filters: int
    size: int
    keep_mean: bool = False

    def check_contrast(self, contrast_offset: float | None) -> None:
        """Raise ValueError if patches are to keep a mean that the contrast offset takes."""
        if self.keep_mean and contrast_offset is not None:
            raise ValueError(
                f"keep_mean=True with contrast_offset={contrast_offset!r}, expected None: patches "
                "of normalised contrast have no mean. Set one of them."
            )

    @abstractmethod
    def make(
        self,
        images: Matrix,
        labels: Any,
        random: np.random.Generator,
        joint: bool = False,
        contrast_offset: float | None = None,
    ) -> FilterBank:
        """Return the bank made from images (n, height, width, n_channels) and their labels.

        The responses of joint channels will be summed, and with a contrast offset every patch of
        an image be of normalised contrast.
        """

    @abstractmethod
    def bound(self, largest: float, n_channels: int, normalised: bool) -> FilterBank:
        """Return a bank that no bank made from pixels of this magnitude exceeds anywhere."""


HAND_DESIGNED_SIZE = 7
N_ORIENTATIONS = 20
CORNER_ARM = 4
SQUARE_SIDES = (3, 4, 5)


@cache
def hand_designed() -> Floats:
    """Return the paper's hand-designed bank: 20 bars, 20 corners and 3 squares, 7x7, zero mean.

    Returns
    -------
    ndarray (43, 7, 7), float64, read-only
        Bars one pixel wide, turned in steps of 9 degrees; corners whose two arms are 4 pixels
        long and meet in the middle, turned in steps of 18 degrees; centred squares of side 3, 4
        and 5. Turned lines are anti-aliased: a pixel's value falls linearly to 0 at a distance
        of one pixel. Every filter's mean is 0, so even brightness has no response.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), section III-B.

    Examples
    --------
    >>> bank = hand_designed()
    >>> bank.shape, bool(abs(bank.mean(axis=(1, 2))).max() < 1e-15)
    ((43, 7, 7), True)
    """
    return frozen_copy(zero_mean(np.concatenate([_bars(), _corners(), _squares()])))


def zero_mean(bank: Floats) -> Floats:
    """Return the bank with every filter's mean removed (per channel, if it has channels)."""
    centred: Floats = bank - bank.mean(axis=(1, 2), keepdims=True)
    return centred


def _offsets() -> tuple[Floats, Floats]:
    """Return the pixels' vertical and horizontal distances from the middle of a 7x7 filter."""
    middle = (HAND_DESIGNED_SIZE - 1) / 2
    distances = np.arange(HAND_DESIGNED_SIZE, dtype=np.float64) - middle
    rows, columns = np.meshgrid(distances, distances, indexing="ij")
    return rows, columns


def _bars() -> Floats:
    rows, columns = _offsets()
    angles = np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    return np.stack([_ink(rows * np.sin(a) + columns * np.cos(a)) for a in angles])


def _corners() -> Floats:
    angles = 2 * np.pi * np.arange(N_ORIENTATIONS) / N_ORIENTATIONS
    return np.stack([np.maximum(_arm(a), _arm(a + np.pi / 2)) for a in angles])


def _arm(angle: float) -> Floats:
    """Draw a line of 4 pixels, the first of them in the middle of the filter."""
    rows, columns = _offsets()
    along = columns * np.cos(angle) + rows * np.sin(angle)
    across = rows * np.cos(angle) - columns * np.sin(angle)
    beyond = along - np.clip(along, 0.0, CORNER_ARM - 1)
    return _ink(np.hypot(across, beyond))


def _ink(distance: Floats) -> Floats:
    """Shade pixels by their distance from a line one pixel wide."""
    return np.clip(1.0 - np.abs(distance), 0.0, 1.0)


def _squares() -> Floats:
    """Fill squares about the middle; the edges of the even one cover half a pixel on every side."""
    rows, columns = _offsets()
    return np.stack([_within(rows, side) * _within(columns, side) for side in SQUARE_SIDES])


def _within(offsets: Floats, side: int) -> Floats:
    """Return the share of a pixel's width that lies within half a side of the middle."""
    return np.clip((side + 1) / 2 - np.abs(offsets), 0.0, 1.0)


BANKS: dict[str, Callable[[], Floats]] = {"hand-designed": hand_designed}


def check_bank(filters: Any) -> None:
    """Raise unless `filters` names a bank or is an array of square filters.

    Raises
    ------
    TypeError
        If it is neither a name nor numbers.
    ValueError
        If the name is not known, the shape is not (n_filters, filter_size, filter_size) with or
        without channels, or a value is not finite.
    """
    if isinstance(filters, str):
        check_choice("filters", filters, BANKS)
        return
    bank = plain_array("filters", filters)
    check_values("filters", bank)
    if bank.ndim not in (3, 4) or bank.shape[1] != bank.shape[2] or 0 in bank.shape:
        raise ValueError(
            f"filters has shape {bank.shape}, expected (n_filters, filter_size, filter_size[, "
            "n_channels]) with square filters. Reshape or pad them."
        )


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


def check_filters(filters: Any) -> None:
    """Raise unless `filters` is a bank, a name, an array, a recipe or a tuple of these.

    Raises
    ------
    TypeError, ValueError
        If it is not, a name is not known, a tuple is empty, or an array holds no square filters.

    Examples
    --------
    >>> check_filters(("hand-designed", np.eye(5)[None]))
    """
    members = list(_members(filters))
    if not members:
        raise ValueError("filters is an empty tuple, expected at least one bank. Name one.")
    for member in members:
        if isinstance(member, list):
            _check_list(member)
        if isinstance(member, (str, np.ndarray, list)):
            check_bank(member)
        elif not isinstance(member, (FilterBank, Recipe)):
            raise TypeError(
                f"filters holds {member!r}, expected a name, an array, a FilterBank, a recipe such "
                "as Patches(), or a tuple of these. Pass one of them."
            )


def _check_list(filters: list[Any]) -> None:
    """Raise unless a list is of filters of one shape, as an array is."""
    try:
        is_array = np.asarray(filters).dtype.kind not in "OSU"
    except ValueError:
        is_array = False
    if not is_array:
        raise TypeError(
            f"filters is a list of {len(filters)} members, expected filters of one shape. Pass a "
            "tuple to combine banks."
        )


def needs_examples(filters: Any) -> bool:
    """Tell whether there is a recipe among `filters`, which images have to be given for.

    Examples
    --------
    >>> needs_examples("hand-designed")
    False
    """
    return any(isinstance(member, Recipe) for member in _members(filters))


def check_contrast(filters: Any, contrast_offset: float | None) -> None:
    """Raise unless the recipes among `filters` can do with a contrast offset, or with None.

    Raises
    ------
    ValueError
        If patches are to keep a mean that the contrast offset takes.

    Examples
    --------
    >>> check_contrast("hand-designed", 0.1)
    """
    for member in _members(filters):
        if isinstance(member, Recipe):
            member.check_contrast(contrast_offset)


def check_source(filters: Any, shape: Shape) -> None:
    """Raise unless the recipes among `filters` find patches in images of this shape.

    Raises
    ------
    ValueError
        If a patch is larger than the images.

    Examples
    --------
    >>> check_source("hand-designed", (3, 3, 1))
    """
    for member in _members(filters):
        if isinstance(member, Recipe):
            check_size(shape, member.size)


def outline(filters: Any, n_channels: int, joint: bool = False) -> FilterBank:
    """Return the bank that images of so many channels meet, zeros for what needs examples.

    Examples
    --------
    >>> from onlinels.features.patches import Patches
    >>> outline(("hand-designed", Patches(17)), n_channels=1)
    FilterBank(60 filters of 7 x 7, 1 channel)
    """
    return _fitted(map(_without_examples, _members(filters)), n_channels, joint)


def bounding(
    filters: Any,
    largest: float,
    n_channels: int,
    joint: bool = False,
    contrast_offset: float | None = None,
) -> FilterBank:
    """Return a bank that `filters` will not exceed if no pixel is larger than `largest`.

    Examples
    --------
    >>> from onlinels.features.patches import Patches
    >>> bounding(Patches(2), largest=1.0, n_channels=1).filters.max()
    np.float64(1.0)
    """
    normalised = contrast_offset is not None
    members = (
        member.bound(largest, n_channels, normalised) if isinstance(member, Recipe) else member
        for member in _members(filters)
    )
    return _fitted(members, n_channels, joint)


def _without_examples(member: Any) -> Any:
    if not isinstance(member, Recipe):
        return member
    return np.zeros((member.n_filters, member.size, member.size))


def make_bank(
    filters: Any,
    images: Any = None,
    labels: Any = None,
    seed: int = 0,
    joint: bool = False,
    contrast_offset: float | None = None,
) -> FilterBank:
    """Return the filter bank that `filters` stands for: a function of the arguments alone.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]), FilterBank, recipe or tuple
        A tuple is a combination, in order. Smaller filters are padded with zeros to the largest
        size, and where numbers of channels differ, all meet the channels of the images.
    images : ndarray (n, height, width[, n_channels]), optional
        Examples; only recipes need them.
    labels : sequence of n labels, optional
        Only Patches needs them.
    seed : int
        Start of the random numbers. Each place in a tuple has its own.
    joint : bool
        Whether the responses of channels will be summed, so that patches are whitened over all
        channels together, not each channel on its own.
    contrast_offset : float, above 0, optional
        That by which the convolution will normalise the contrast of patches, if it will.

    Returns
    -------
    FilterBank

    Raises
    ------
    TypeError, ValueError
        If `filters` is none of these, a recipe has no images to draw from, or channels do not fit.

    Examples
    --------
    >>> make_bank(("hand-designed", np.ones((2, 9, 9))))
    FilterBank(45 filters of 9 x 9, 1 channel)
    """
    check_filters(filters)
    check_count("seed", seed, 0)
    check_flag("joint", joint)
    values = None if images is None else read_images(images, None).values
    if values is not None and labels is not None:
        read_labels(labels, len(values))
    banks = []
    for place, member in enumerate(_members(filters)):
        if not isinstance(member, Recipe):
            banks.append(_as_bank(member))
        elif values is None:
            raise ValueError(f"There are no images, expected some for {member!r}. Pass images.")
        else:
            random = np.random.default_rng([seed, place + 1])
            banks.append(member.make(values, labels, random, joint, contrast_offset))
    return banks[0] if len(banks) == 1 else _combined(banks, values, joint)


def _members(filters: Any) -> Iterator[Any]:
    """Yield what a combination consists of, tuples in tuples included."""
    if isinstance(filters, tuple):
        for member in filters:
            yield from _members(member)
    else:
        yield filters


def _as_bank(member: Any) -> FilterBank:
    if isinstance(member, FilterBank):
        return member
    values = BANKS[member]() if isinstance(member, str) else np.asarray(member)
    return FilterBank(values if values.ndim == 4 else values[..., None], np.zeros(len(values)))


def _fitted(members: Iterable[Any], n_channels: int, joint: bool) -> FilterBank:
    """Join what meets images of so many channels, each fitted to them by itself.

    Offsets of channels that were summed before could not be fitted to other channels any more.
    """
    banks = [_as_bank(member).for_channels(n_channels) for member in members]
    return banks[0] if len(banks) == 1 else _combined(banks, None, joint)


def _combined(banks: list[FilterBank], images: Matrix | None, joint: bool) -> FilterBank:
    """Join banks of any size and number of channels."""
    numbers = {bank.filters.shape[3] for bank in banks}
    if len(numbers) > 1 and images is not None:
        numbers = {images.shape[3]}
    elif len(numbers - {1}) > 1:
        raise ValueError(
            f"filters combines banks of {sorted(numbers)} channels, expected one number beside 1. "
            "Pass images, whose channels all banks then meet."
        )
    height, width = np.max([bank.filters.shape[1:3] for bank in banks], axis=0)
    fitted = [bank.for_channels(max(numbers)).padded(height, width) for bank in banks]
    offsets = [bank.offsets for bank in fitted]
    if joint:
        offsets = [each if each.ndim == 1 else each.sum(axis=1) for each in offsets]
    elif any(each.ndim == 2 for each in offsets):
        offsets = [np.broadcast_to(each.T, (max(numbers), len(each))).T for each in offsets]
    return FilterBank(np.concatenate([b.filters for b in fitted]), np.concatenate(offsets))
