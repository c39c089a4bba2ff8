"""MiniRocketFeatures: shares of positive responses to dilated kernels, as a river transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from river import base

from onlinels.arrays import Matrix
from onlinels.features.convolution.proportions import make_kernels, proportions
from onlinels.features.filters.dilated import N_KERNELS, DilatedKernels
from onlinels.features.filters.kernels import MINIROCKET_SIZE
from onlinels.features.images import Images, Shape, check_image_shape, read_image, read_images
from onlinels.features.kinds import WINDOW
from onlinels.features.pixels import LARGEST_PIXEL, magnitude
from onlinels.outputs import output_row, output_table
from onlinels.saving.files import Savable
from onlinels.settings import DTYPES, check_choice, check_count, check_part


class MiniRocketFeatures(base.MiniBatchTransformer, Savable):
    """Turn windows of sensor values into shares of positive responses to dilated kernels.

    Of each of 84 kernels of length 9, with weights -1 and 2, at each dilation: the share of samples
    at which its response is over a bias. Every second kernel sees zeros around the window, the
    others only what lies inside. With several channels, every kernel at every dilation sums over
    some of them, drawn from the seed. Biases are quantiles of responses to examples, so features
    are made by `from_examples` before use.

    Parameters
    ----------
    n_features : int, at least 84
        The multiple of 84 below is made: 9,996 by default, as published.
    max_dilations : int
        Dilations of each kernel, at most; 32 as published.
    window_shape : (length,) or (length, n_channels), optional
        Needed where windows come as dicts of numbers, frames or flat arrays; otherwise a check.
    dtype : "float64" or "float32"
        Precision of responses and features. float32 is up to twice as fast.
    seed : int
        For the channels of kernels, and the example from which each has its biases.
    kernels : DilatedKernels, optional
        Kernels that are made already.

    Notes
    -----
    Shares lie from 0 to 1, whatever the scale of the channels: only their sizes relative to one
    another matter, where they are summed, so standardise channels of different units. Of a window
    in which nothing changes, rounding decides where a bias is 0. A window's features are the same,
    to the last bit, alone and among others. With 9,996 features a window of 64 samples in 6
    channels took 0.4 ms in batches of 256 and 4 ms alone, in float32 on one core.

    A sample {"window": array} gives {"h": array}; a dict of numbers gives {"h0": …, "h1": …}.

    References
    ----------
    A. Dempster, D. F. Schmidt and G. I. Webb (2021), "MiniRocket: A Very Fast (Almost)
    Deterministic Transform for Time Series Classification", KDD; the choice of channels is that of
    the multivariate code the authors published with it.

    Examples
    --------
    >>> examples = np.random.default_rng(0).normal(size=(20, 50, 3))
    >>> features = MiniRocketFeatures.from_examples(examples, n_features=1000)
    >>> features.kernels, features.transform_one({"window": examples[0]})["h"].shape
    (DilatedKernels(924 features of 50 samples, 3 channels), (924,))
    """

    def __init__(
        self,
        n_features: int = 10_000,
        max_dilations: int = 32,
        window_shape: Shape | None = None,
        dtype: str = "float64",
        seed: int = 0,
        kernels: DilatedKernels | None = None,
    ) -> None:
        check_count("n_features", n_features, N_KERNELS)
        check_count("max_dilations", max_dilations, 1)
        check_image_shape(window_shape, WINDOW)
        check_choice("dtype", dtype, DTYPES)
        check_count("seed", seed, 0)
        check_part("kernels", kernels, DilatedKernels)
        self.n_features = n_features
        self.max_dilations = max_dilations
        self.window_shape = window_shape
        self.dtype = dtype
        self.seed = seed
        self.kernels = kernels

    @classmethod
    def _unit_test_params(cls) -> Any:
        examples = np.random.default_rng(0).normal(size=(5, 12))
        made = cls.from_examples(examples, n_features=84, window_shape=(12,))
        yield made._get_params()

    @classmethod
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return features whose biases are quantiles of responses to examples.

        Parameters
        ----------
        X : ndarray (n, length[, n_channels]), or (n, n_values), frame or list of dicts
            Windows, as those to be transformed. One is drawn for every kernel and dilation.
        y : object, optional
            Not used.
        **settings
            As for the class.

        Raises
        ------
        TypeError, ValueError
            If the settings are not the class's, or windows cannot be read or are shorter than 9.

        Examples
        --------
        >>> MiniRocketFeatures.from_examples(np.eye(9), n_features=200).kernels
        DilatedKernels(168 features of 9 samples, 1 channel)
        """
        model = cls(**settings)
        if model.is_fixed:
            return model
        windows = model._values(read_images(X, model.window_shape, WINDOW))
        if windows.shape[1] < MINIROCKET_SIZE:
            raise ValueError(
                f"Windows have {windows.shape[1]} samples, expected at least {MINIROCKET_SIZE} as "
                "the kernels. Pass longer windows."
            )
        made = make_kernels(windows, model.n_features, model.max_dilations, model.seed)
        return cls(**{**settings, "kernels": made})

    @property
    def is_fixed(self) -> bool:
        """Whether it can transform: whether its kernels are made."""
        return self.kernels is not None

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the features of a sample with one array, or of a dict of numbers.

        Parameters
        ----------
        x : {"window": array}, or a dict of values if their shape is set
        """
        windows = read_image(x, self.window_shape, WINDOW)
        return output_row(self._transform(windows)[0], as_array=not windows.from_pixels)

    def transform_many(self, X: Any) -> Any:
        """Return the features of a mini-batch, in the kind of `X`.

        Parameters
        ----------
        X : ndarray (n, length[, n_channels]), or (n, n_values), frame or list of dicts
            A column per value needs `window_shape`.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read as windows of the examples' shape.
        """
        windows = read_images(X, self.window_shape, WINDOW)
        return output_table(windows.source, self._transform(windows), not windows.from_pixels)

    def _transform(self, windows: Images) -> Matrix:
        if self.kernels is None:
            raise ValueError(
                "The biases are made from examples, and none were given. Use "
                "MiniRocketFeatures.from_examples(X, ...) before the first window."
            )
        values = self._values(windows)
        expected = (self.kernels.length, self.kernels.n_channels)
        if values.shape[1:] != expected:
            raise ValueError(
                f"A window has shape {values.shape[1:]}, expected {expected} as the examples. "
                "Bring windows to one shape, or make features for these with from_examples."
            )
        return proportions(values, self.kernels)

    def _values(self, windows: Images) -> Matrix:
        """Return windows (n, length, n_channels) in the precision, which must hold their sums."""
        largest = magnitude(windows.values)
        if largest > LARGEST_PIXEL[self.dtype]:
            raise ValueError(
                f"A window holds values as large as {largest:g}, expected at most "
                f"{LARGEST_PIXEL[self.dtype]:g} for dtype={self.dtype!r}. Rescale."
            )
        return windows.values[:, 0].astype(DTYPES[self.dtype], copy=False)
