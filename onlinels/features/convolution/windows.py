"""WindowFeatures: stage 1 in one dimension, for windows of sensor values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from onlinels.arrays import Floats, Matrix, as_array, frozen_copy
from onlinels.features.convolution.nonlinearities import Power, TwoSidedRectifier
from onlinels.features.convolution.pooling import Axis
from onlinels.features.convolution.transformer import FilteringTransformer
from onlinels.features.filters.bank import FilterBank, Recipe
from onlinels.features.filters.kernels import minirocket_kernels
from onlinels.features.images import Shape, check_image_shape
from onlinels.features.kinds import WINDOW, Kind
from onlinels.settings import check_choice

KERNELS: dict[str, Callable[[], Floats]] = {"minirocket": minirocket_kernels}


class WindowFeatures(FilteringTransformer):
    """Turn windows of sensor values into shallow convolutional features with fixed filters.

    Algorithm 1 of the paper in one dimension, that of time: for every channel x and filter h, the
    convolution x * h is squared, averaged over Q positions, the fourth root is taken, and every
    D-th position is kept. Other than images' features, these are not divided by their sum unless
    `normalize` says so: in sensor signals how strongly a filter responds tells most.

    Parameters
    ----------
    filters : "minirocket" or ndarray (n_filters, filter_size[, n_channels])
        The bank. A filter without channels is applied to every channel of the windows, one with
        channels is applied channel by channel. Recipes and a FilterBank are not taken.
    pool_size, stride, padding, drop_ring, normalize, before_pooling, after_pooling, channels,
    contrast_offset, dtype, seed, pooling
        As those of ConvolutionalFeatures, along time alone.
    window_shape : (length,) or (length, n_channels), optional
        Needed where windows come as dicts of numbers, frames or flat arrays; otherwise a check.

    Notes
    -----
    There are C P ceil((J + 2 padding - W + Q - 2 drop_ring) / D) features for C channels, P filters
    of size W and windows of length J, ordered by channel, filter and time; see
    ConvolutionalFeatures for joint channels and rectifiers. A window of zeros gives zeros. Cost:
    ``2 n C P W (J - W + 1)`` operations.

    A sample {"window": array} gives {"h": array}; a dict of numbers, named by position, by
    (time, channel) or by text that ends in these numbers, gives {"h0": …, "h1": …}.

    References
    ----------
    M. D. McDonnell and T. Vladusich (2015), Algorithm 1, for the operator; A. Dempster,
    D. F. Schmidt and G. I. Webb (2021), "MiniRocket", for the filters.

    Examples
    --------
    >>> features = WindowFeatures(pool_size=8, stride=4)
    >>> features.transform_many(np.ones((2, 50, 3))).shape
    (2, 3276)
    >>> features.transform_one({"window": np.arange(50.0)})["h"].shape
    (1092,)
    """

    def __init__(
        self,
        filters: str | Matrix = "minirocket",
        pool_size: int = 8,
        stride: int = 2,
        padding: int = 0,
        drop_ring: int = 0,
        normalize: bool | str = False,
        before_pooling: Power | TwoSidedRectifier | None = None,
        after_pooling: Power | None = None,
        channels: str = "each",
        contrast_offset: float | None = None,
        window_shape: Shape | None = None,
        dtype: str = "float64",
        seed: int = 0,
        pooling: str = "box",
    ) -> None:
        _check_filters(filters)
        check_image_shape(window_shape, WINDOW)
        super().__init__(
            pool_size,
            stride,
            padding,
            drop_ring,
            normalize,
            before_pooling,
            after_pooling,
            channels,
            contrast_offset,
            dtype,
            seed,
            pooling,
        )
        self.filters = filters if isinstance(filters, str) else frozen_copy(filters)
        self.window_shape = window_shape
        values = KERNELS[filters]() if isinstance(filters, str) else np.asarray(filters)
        values = values if values.ndim == 3 else values[..., None]
        self._bank = FilterBank(values[:, None], np.zeros(len(values)))

    kind: ClassVar[Kind] = WINDOW

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"window_shape": (12,), "padding": 4}

    @property
    def bank(self) -> FilterBank:
        """The filters (n_filters, 1, filter_size, 1 or n_channels), without offsets."""
        return self._bank

    def _bank_for(self, n_channels: int) -> FilterBank:
        if self._bank.filters.shape[3] not in (1, n_channels):
            raise ValueError(
                f"Windows have {n_channels} channels, expected {self._bank.filters.shape[3]} as "
                "the filters. Pass filters without channels, or windows with as many."
            )
        return self._bank.for_channels(n_channels)

    @property
    def _shape(self) -> Shape | None:
        return self.window_shape

    def _rows(self) -> Axis:
        """Return the geometry of a single row: nothing is padded or pooled across it."""
        return Axis()


def _check_filters(filters: Any) -> None:
    if isinstance(filters, str):
        check_choice("filters", filters, KERNELS)
        return
    if isinstance(filters, (FilterBank, Recipe)):
        raise TypeError(
            f"filters holds {filters!r}, expected a name or an array, no recipe and no FilterBank. "
            "Pass an array (n_filters, filter_size[, n_channels])."
        )
    bank = as_array("filters", filters)
    if bank.ndim not in (2, 3) or 0 in bank.shape:
        raise ValueError(
            f"filters has shape {bank.shape}, expected (n_filters, filter_size[, n_channels]). "
            "Reshape them."
        )
