"""Filter banks, and the bank that a value of the setting `filters` describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from onlinels.checks import (
    Floats,
    Matrix,
    as_array,
    check_choice,
    check_count,
    frozen_copy,
)
from onlinels.features.images import Shape
from onlinels.features.preprocessing import GREY_WEIGHTS
from onlinels.labels import read_labels
from onlinels.numerics import Frozen
from onlinels.saving import savable, settings_hold


@savable(settings_hold)
@dataclass(frozen=True, eq=False, repr=False)
class FilterBank(Frozen):
    """Hold filters h with offsets: the response to an image x is x * h + offset.

    Parameters
    ----------
    filters : ndarray (n_filters, height, width, 1 or n_channels)
        Filters, used unchanged: no mean is removed.
    offsets : ndarray (n_filters,) or (n_filters, n_channels)
        Constants added to the responses of a filter: one for all channels, or one per channel.
        Where the responses of channels are summed, so are their offsets.

    Raises
    ------
    TypeError, ValueError
        If an argument is not an array of finite numbers, or the shapes do not fit.

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
            expected = "(n_filters, height, width, n_channels), none of them 0. Reshape it"
            raise ValueError(f"filters has shape {filters.shape}, expected {expected}.")
        shapes = (filters.shape[:1], filters.shape[::3])
        if offsets.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            remedy = "Pass np.zeros(len(filters)) if there are none."
            raise ValueError(f"offsets has shape {offsets.shape}, expected {expected}. {remedy}")
        object.__setattr__(self, "filters", filters.astype(np.float64))
        object.__setattr__(self, "offsets", offsets.astype(np.float64))
        super().__post_init__()

    def __len__(self) -> int:
        return len(self.filters)

    def __repr__(self) -> str:
        n_filters, height, width, n_channels = self.filters.shape
        return f"FilterBank({n_filters} filters of {height} x {width}, {channels(n_channels)})"

    def for_channels(self, n_channels: int) -> FilterBank:
        """Return the bank with one filter channel for every channel of the images.

        =================  ==================  ====================================================
        filter channels    image channels      filters of the bank returned
        =================  ==================  ====================================================
        1                  any number          the same filter for every channel
        n                  n                   this bank
        3 (RGB)            1 or 2              the grey version 0.299 R + 0.587 G + 0.114 B
        3 (RGB)            4 (RGB and grey)    the three channels and the grey version
        =================  ==================  ====================================================

        Parameters
        ----------
        n_channels : int
            Number of channels of the images.

        Raises
        ------
        ValueError
            If the filters do not fit images of this number of channels.
        """
        check_count("n_channels", n_channels, 1)
        return self if n_channels == self.filters.shape[3] else _mixed(self, n_channels)

    def padded(self, height: int, width: int) -> FilterBank:
        """Return the bank with filters of this size, padded with zeros around their middle."""
        # An odd number of zeros leaves one more row or column at the end.
        extra = np.array([height, width]) - self.filters.shape[1:3]
        before = extra // 2
        margins = np.array([(0, 0), *zip(before, extra - before, strict=True), (0, 0)])
        return FilterBank(np.pad(self.filters, margins), self.offsets)


def channels(number: int) -> str:
    """Return "1 channel", "3 channels", … for messages."""
    return f"{number} channel{'s' * (number > 1)}"


def plain_bank(filters: Matrix) -> FilterBank:
    """Return filters (n_filters, height, width[, n_channels]) as a bank without offsets."""
    return FilterBank(filters if filters.ndim == 4 else filters[..., None], np.zeros(len(filters)))


# Measured: without the cache, mixing takes a tenth of the time of convolving a single image.
@lru_cache(maxsize=8)
def _mixed(bank: FilterBank, n_channels: int) -> FilterBank:
    """Return a bank for images whose number of channels differs from the filters'."""
    own = bank.filters.shape[3]
    if own == 1:
        mix = np.ones((1, n_channels))
    elif own == 3 and n_channels in (1, 2):
        mix = np.repeat(np.transpose([GREY_WEIGHTS]), n_channels, axis=1)
    elif own == 3 and n_channels == 4:
        mix = np.column_stack([np.eye(3), GREY_WEIGHTS])
    else:
        expected = f"{'1 to 4' if own == 3 else own}, since the filters have {own}"
        remedy = "Pass other images or filters."
        raise ValueError(f"Images have {n_channels} channels, expected {expected}. {remedy}")
    offsets = bank.offsets if bank.offsets.ndim == 1 else bank.offsets @ mix
    return FilterBank(bank.filters @ mix, offsets)


def zero_mean(bank: Floats) -> Floats:
    """Subtract the mean of every filter, per channel if filters have channels."""
    return np.asarray(bank - bank.mean(axis=(1, 2), keepdims=True))


N_ORIENTATIONS = 20


@cache
def hand_designed() -> Floats:
    """Return the paper's bank (43, 7, 7), section III-B: 20 bars, 20 corners, 3 squares, mean 0."""
    # Bars one pixel wide, in steps of 9 degrees. Corners, in steps of 18 degrees, whose two arms
    # are 4 pixels long and meet in the middle. Centred squares; the edges of the even one cover
    # half a pixel. Lines are anti-aliased: values fall linearly to 0 at a distance of one pixel.
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
    """Return the 84 kernels of MiniRocket (84, 9): 2 at three of the positions, -1 elsewhere."""
    # Every kernel has mean 0. Reversed kernels are the same set, so convolution and correlation
    # give the same maps in another order.
    places = np.array(list(combinations(range(MINIROCKET_SIZE), 3)))
    kernels = np.full((len(places), MINIROCKET_SIZE), -1.0)
    np.put_along_axis(kernels, places, 2.0, axis=1)
    return frozen_copy(kernels)


class Recipe:
    """Settings of a filter bank made from examples: `n_filters` of `size` x `size` pixels."""

    n_filters: int
    size: int
    keep_mean: bool = False

    make: Callable[..., FilterBank]
    """Return the bank made from images (n, height, width, n_channels) and their labels.

    Further arguments are a random generator, whether the responses of channels are summed, and the
    contrast offset of the convolution, or None.
    """

    def __post_init__(self) -> None:
        check_count("n_filters", self.n_filters, 1)
        check_count("size", self.size, 1)

    @property
    def largest(self) -> float:
        """A bound: filters with this value everywhere respond at least as much as any bank."""
        return 1.0

    def check_contrast(self, contrast_offset: float | None) -> None:
        """Raise ValueError if patches keep a mean that the contrast offset removes."""
        if self.keep_mean and contrast_offset is not None:
            problem = f"keep_mean=True with contrast_offset={contrast_offset!r}, expected None"
            remedy = "Set only one of the two."
            raise ValueError(f"{problem}: patches of normalised contrast have no mean. {remedy}")

    def check_size(self, shape: Shape) -> None:
        """Raise ValueError unless patches fit into images of shape (height, width, n_channels)."""
        if self.size > min(shape[:2]):
            problem = f"size={self.size} exceeds images of {shape[0]} x {shape[1]} pixels"
            raise ValueError(f"{problem}, expected at most {min(shape[:2])}. Pass a smaller size.")


def square_filters(filters: Any) -> Matrix:
    """Return filters, given as an array or list, as an array; raise unless they are square."""
    bank = as_array("filters", filters)
    if bank.ndim not in (3, 4) or bank.shape[1] != bank.shape[2] or 0 in bank.shape:
        expected = "square filters (n_filters, W, W[, n_channels]). Pad or transpose them"
        raise ValueError(f"filters has shape {bank.shape}, expected {expected}.")
    return bank


def parts_of(filters: Any) -> list[FilterBank | Recipe]:
    """Return the banks and recipes that `filters` consists of, or raise."""
    if isinstance(filters, (FilterBank, Recipe)):
        return [filters]
    if isinstance(filters, tuple):
        if not filters:
            raise ValueError("filters is an empty tuple, expected at least one bank. Add a bank.")
        return [part for member in filters for part in parts_of(member)]
    if isinstance(filters, str):
        check_choice("filters", filters, ("hand-designed",))
        return [plain_bank(hand_designed())]
    if not isinstance(filters, (np.ndarray, list)):
        expected = "a name, an array, a FilterBank, a recipe such as Patches(), or a tuple of these"
        raise TypeError(f"filters holds {filters!r}, expected {expected}. Pass one of these.")
    return [plain_bank(square_filters(filters))]


def recipes(filters: Any) -> list[Recipe]:
    """Return the recipes among `filters`, whose banks are made from examples."""
    return [part for part in parts_of(filters) if isinstance(part, Recipe)]


def frozen_filters(filters: Any) -> Any:
    """Return read-only filters; in a tuple, each of them."""
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
    """Return the bank of `filters`; recipes use the images (n, height, width, n_channels)."""
    if images is not None and labels is not None:
        read_labels(labels, len(images))
    banks = []
    for place, part in enumerate(parts_of(filters), start=1):
        if isinstance(part, Recipe):
            # Every position in a tuple has its own random numbers.
            random = np.random.default_rng([seed, place])
            part = part.make(images, labels, random, joint, contrast_offset)
        banks.append(part)
    return _combined(banks, joint, None if images is None else images.shape[3])


def outline(filters: Any, n_channels: int, joint: bool = False) -> FilterBank:
    """Return the bank for images of so many channels, with bounds in place of recipes."""
    # Every part is adapted to the channels before its offsets are summed over channels.
    banks = []
    for part in parts_of(filters):
        if isinstance(part, Recipe):
            part = plain_bank(np.full((part.n_filters, part.size, part.size), part.largest))
        banks.append(part.for_channels(n_channels))
    return _combined(banks, joint)


def _combined(banks: list[FilterBank], joint: bool, n_channels: int | None = None) -> FilterBank:
    """Join banks of any size, adapted to the channels of the images if theirs differ."""
    if len(banks) == 1:
        return banks[0]
    numbers = {bank.filters.shape[3] for bank in banks}
    if len(numbers) > 1 and n_channels is not None:
        numbers = {n_channels}
    elif len(numbers - {1}) > 1:
        problem = f"filters combines banks of {sorted(numbers)} channels"
        expected = "expected one number, or 1 and one other number"
        remedy = "Pass FilterBanks that for_channels(n_channels) has adapted to the images."
        raise ValueError(f"{problem}, {expected}. {remedy}")
    height, width = np.max([bank.filters.shape[1:3] for bank in banks], axis=0)
    fitted = [bank.for_channels(max(numbers)).padded(height, width) for bank in banks]
    offsets = [bank.offsets for bank in fitted]
    if joint:
        offsets = [each if each.ndim == 1 else each.sum(axis=1) for each in offsets]
    elif any(each.ndim == 2 for each in offsets):
        offsets = [np.broadcast_to(each.T, (max(numbers), len(each))).T for each in offsets]
    return FilterBank(np.concatenate([b.filters for b in fitted]), np.concatenate(offsets))
