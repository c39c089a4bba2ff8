"""FilterBank: convolution filters with offsets, and recipes for them.

A convolution turns a filter by 180 degrees before it multiplies it with a patch of the image. What
is fitted to patches (WhitenedPatches, KMeansPatches) is stored turned, so that the convolution
gives the product of patch and filter. Other filters, those of Patches too, are stored as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from onlinels.arrays import Floats, Matrix, as_array, frozen_copy
from onlinels.features.pixels import GREY_WEIGHTS
from onlinels.frozen import Frozen
from onlinels.settings import check_count


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
