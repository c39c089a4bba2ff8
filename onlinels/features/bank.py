"""FilterBank: convolution filters with offsets, and how they are made from what `filters` may be.

A convolution turns a filter by 180 degrees before it multiplies it with a patch of the image. What
is fitted to patches (WhitenedPatches, KMeansPatches) is stored turned, so that the convolution
gives the product of patch and filter. Other filters, those of Patches too, are stored as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from onlinels.arrays import Floats, Matrix, check_values, frozen_copy
from onlinels.features.filters import BANKS, check_bank
from onlinels.features.images import read_images
from onlinels.features.pixels import GREY_WEIGHTS
from onlinels.settings import check_count, check_flag


@dataclass(frozen=True, eq=False)
class FilterBank:
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
        filters, offsets = np.asarray(self.filters), np.asarray(self.offsets)
        check_values("filters", filters)
        check_values("offsets", offsets)
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
        object.__setattr__(self, "filters", frozen_copy(filters.astype(np.float64)))
        object.__setattr__(self, "offsets", frozen_copy(offsets.astype(np.float64)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the very same bank: it is never written to."""
        return self

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
        own = self.filters.shape[3]
        if own == n_channels:
            return self
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
        offsets = self.offsets if self.offsets.ndim == 1 else self.offsets @ mix
        return FilterBank(self.filters @ mix, offsets)

    def padded(self, height: int, width: int) -> FilterBank:
        """Return the bank with zeros around its filters, one row or column more behind if odd."""
        extra = np.array([height, width]) - self.filters.shape[1:3]
        before = extra // 2
        margins = np.array([(0, 0), *zip(before, extra - before, strict=True), (0, 0)])
        return FilterBank(np.pad(self.filters, margins), self.offsets)


class Recipe(ABC):
    """Settings of a filter bank that is made from examples."""

    @abstractmethod
    def make(
        self, images: Matrix, labels: Any, joint: bool, random: np.random.Generator
    ) -> FilterBank:
        """Return the bank made from images (n, height, width, n_channels) and their labels."""


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
        if isinstance(member, (str, np.ndarray, list)):
            check_bank(member)
        elif not isinstance(member, (FilterBank, Recipe)):
            raise TypeError(
                f"filters holds {member!r}, expected a name, an array, a FilterBank, a recipe such "
                "as Patches(), or a tuple of these. Pass one of them."
            )


def needs_examples(filters: Any) -> bool:
    """Tell whether there is a recipe among `filters`, which images have to be given for.

    Examples
    --------
    >>> needs_examples("hand-designed")
    False
    """
    return any(isinstance(member, Recipe) for member in _members(filters))


def make_bank(
    filters: Any, images: Any = None, labels: Any = None, seed: int = 0, joint: bool = False
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
    banks = []
    for place, member in enumerate(_members(filters)):
        if not isinstance(member, Recipe):
            banks.append(_as_bank(member))
        elif values is None:
            raise ValueError(f"There are no images, expected some for {member!r}. Pass images.")
        else:
            random = np.random.default_rng([seed, place + 1])
            banks.append(member.make(values, labels, joint, random))
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
