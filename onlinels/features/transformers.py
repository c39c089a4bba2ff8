"""ConvolutionalFeatures: stage 1 of the paper as a river transformer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from onlinels.checks import PRECISIONS, Floats, Matrix, check_choice, check_count, check_positive
from onlinels.features.convolution import POOLING_WEIGHTS, Convolution, convolve, largest_pixel
from onlinels.features.filters import (
    Patches,
    for_channels,
    frozen_filters,
    make_bank,
    outline,
    recipes,
)
from onlinels.features.images import (
    IMAGE,
    ImageTransformer,
    Kind,
    Shape,
    check_image_shape,
    check_pixels,
    check_some,
    full_shape,
    not_made,
    read_images,
)
from onlinels.saving import savable, settings_hold

NORMALIZATIONS = {True: "map", False: None, "map": "map", "image": "image"}
"""Divisors of features: the sum of their map, nothing, or the length of all features."""


def _bank_fits(features: Any) -> bool:
    made: Any = None if recipes(features.filters) else make_bank(features.filters)
    return settings_hold(features) and np.array_equal(features._bank, made)


@savable(_bank_fits)
@dataclass(eq=False, repr=False)
class ConvolutionalFeatures(ImageTransformer):
    """Turn images into shallow convolutional features with fixed filters.

    This is Algorithm 1 of the paper: for every channel x and filter h, the valid convolution x * h
    is squared and averaged over windows of Q x Q positions (a full convolution with 1/Q^2), its
    fourth root is taken, every D-th position is kept, and the response is divided by its sum. The
    default settings are exactly this algorithm; other values of `normalize`, `padding` and
    `drop_ring` deviate from it.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]), Patches or tuple of these
        Filters of the bank, used unchanged: no mean is removed. A tuple combines banks, in order. A
        filter without channels is applied to every channel of the images, and a filter with
        channels channel by channel. Grey channels get the grey version, 0.299 R + 0.587 G +
        0.114 B, of filters for red, green and blue. `from_examples` turns `Patches` into filters.
    pool_size : int
        Side Q of the pooling window, in pixels.
    stride : int
        Downsampling factor D of the pooled maps.
    padding : int
        Number of blank pixels added on every side of the image; ``filter_size - 1`` makes the
        convolution full.
    drop_ring : int
        Number of pooled positions dropped on every side, where windows extend beyond the image. The
        author's script drops 5 and classifies better.
    normalize : bool, "map" or "image"
        Divisor of the features. With True or "map", each map of an image is divided by its sum.
        With "image", all features of an image are divided by their length. With False, nothing is
        divided.
    before_pooling, after_pooling : float, above 0
        Powers of the absolute responses and of their averages: the square and the fourth root by
        default. Powers p and 1/p give Lp pooling: the larger p is, the closer the features are to
        the largest response. Other powers than 2, 1, 0.5 and 0.25 take about 20 times as long.
    channels : "each" or "joint"
        Whether every channel has its own maps ("each", as in the paper), or responses are summed
        over channels ("joint", for filters that are colour patches).
    image_shape : (height, width) or (height, width, n_channels), optional
        Shape of an image. Required for dicts of pixels, frames and flat arrays; for other input it
        is checked.
    dtype : "float64" or "float32"
        Precision of the features. float32 is about twice as fast.
    seed : int
        Seed for `Patches`, which draws examples at random.
    pooling : "box" or "gaussian"
        Weights of the pooling window: equal over Q x Q positions, as in the paper, or a gaussian of
        the same width (standard deviation Q / sqrt(12)), which classifies better.
    prefix : str
        Prefix of the output names in a TransformerUnion: ``"u_"`` gives ``u_h0``, ``u_h1``, …

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these, or `filters` combines banks whose channels do not fit.

    Notes
    -----
    There are C P ceil((J + 2 padding - W + Q - 2 drop_ring) / D)^2 features for C channels, P
    filters of size W and images of size J, ordered by channel, filter, row and column. Joint
    channels give P maps instead of C P. A blank image gives zeros.

    Cost: ``2 n C P W^2 (J - W + 1)^2`` operations for n images. Memory: the features and, on each
    thread, 2 MiB of responses and the copies of pixels that they are computed from.

    A sample {"image": array} gives {"h": array}. A dict of pixels gives {"h0": …, "h1": …}, with
    the names of the columns that frames get. Arrays give arrays (n, n_features).

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015, Algorithm 1 and equations 4 to 6.

    Examples
    --------
    >>> import numpy as np
    >>> features = ConvolutionalFeatures(stride=3)
    >>> features.transform_many(np.ones((2, 28, 28))).shape
    (2, 4300)
    >>> features.transform_one({"image": np.eye(28)})["h"].shape
    (4300,)
    """

    kind: ClassVar[Kind] = IMAGE

    filters: Any = "hand-designed"
    pool_size: int = 8
    stride: int = 2
    padding: int = 0
    drop_ring: int = 0
    normalize: bool | str = True
    before_pooling: float = 2.0
    after_pooling: float = 0.25
    channels: str = "each"
    image_shape: Shape | None = None
    dtype: str = "float64"
    seed: int = 0
    pooling: str = "box"
    prefix: str = ""

    def __post_init__(self) -> None:
        self._check_settings()
        for name, minimum in {"pool_size": 1, "stride": 1, "padding": 0, "drop_ring": 0}.items():
            check_count(name, getattr(self, name), minimum)
        check_choice("pooling", self.pooling, POOLING_WEIGHTS)
        if self.normalize not in NORMALIZATIONS:
            problem = f"normalize={self.normalize!r} is not known"
            raise ValueError(f"{problem}. Pass True, False, 'map' or 'image'.")
        check_choice("channels", self.channels, ("each", "joint"))
        check_positive("before_pooling", self.before_pooling)
        check_positive("after_pooling", self.after_pooling)
        unmade = recipes(self.filters)
        vars(self)["filters"] = frozen_filters(self.filters)
        self._bank = None if unmade else make_bank(self.filters)

    @classmethod
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return a transformer whose filters are made from examples.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images in the form of those to transform.
        y : array, series or list of n labels, optional
            Labels of the images. Only `Patches` without whitening needs them.
        **settings
            Settings of the class; `filters` is ``Patches()`` by default.

        Returns
        -------
        ConvolutionalFeatures
            A transformer that is ready for use.

        Raises
        ------
        TypeError, ValueError
            If a setting is invalid, or filters cannot be made from these images.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinels import Patches
        >>> photos = np.random.default_rng(0).random((9, 8, 8, 3))
        >>> patches = Patches(5, size=3, whitening=0.01)
        >>> ConvolutionalFeatures.from_examples(photos, filters=patches).bank.shape
        (5, 3, 3, 3)
        """
        model = cls(**{"filters": Patches(), **settings})
        if model.is_fixed:
            return model
        images = check_some(read_images(X, model.image_shape))
        model.check_images(images)
        made = make_bank(model.filters, images, y, model.seed, model.channels == "joint")
        return cls(**{**settings, "filters": made})

    @property
    def is_fixed(self) -> bool:
        """Whether the features can transform: False only for `Patches` without examples."""
        return self._bank is not None

    @property
    def bank(self) -> Floats:
        """The filters (n_filters, height, width, 1 or n_channels), read-only.

        Raises
        ------
        ValueError
            If the filters are made from examples, and no examples were given.
        """
        if self._bank is None:
            raise not_made(f"filters={self.filters!r} are", "ConvolutionalFeatures")
        return self._bank

    def _bank_for(self, n_channels: int) -> Floats:
        """Return the bank for so many channels, with bounds in place of `Patches`, or raise."""
        if self._bank is None:
            return outline(self.filters, n_channels)
        return for_channels(self._bank, n_channels)

    def _stage(self) -> Convolution:
        return Convolution(
            self.pool_size,
            self.stride,
            self.padding,
            self.drop_ring,
            NORMALIZATIONS[self.normalize],
            float(self.before_pooling),
            float(self.after_pooling),
            self.channels,
            self.pooling,
        )

    def n_features(self, shape: Shape) -> int:
        """Return the number of features of images of this shape.

        Parameters
        ----------
        shape : (height, width[, n_channels])
            Shape of one image.

        Returns
        -------
        int
            Number of features of each image.

        Raises
        ------
        ValueError
            If `shape` is not such a shape, the pooled maps of such images are empty, or the
            channels do not fit the filters.

        Examples
        --------
        >>> from onlinels import ConvolutionalFeatures
        >>> ConvolutionalFeatures(stride=2).n_features((28, 28))
        9675
        """
        check_image_shape("shape", shape)
        height, width, n_channels = full_shape(shape, None)
        stage, filters = self._stage(), self._bank_for(n_channels)
        n_positions = prod(stage.pooled_size(side, filters.shape[1]) for side in (height, width))
        if not n_positions:
            problem = f"Images of {height} x {width} pixels have empty pooled maps"
            raise ValueError(f"{problem} with these filters. Raise padding, or lower drop_ring.")
        return stage.n_groups(n_channels) * len(filters) * n_positions

    def check_images(self, images: Matrix, next_dtype: str | None = None) -> int:
        """Return the number of features of images (n, height, width, n_channels).

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
            Images.
        next_dtype : "float32" or "float64", optional
            Precision of the step that reads the features; the features' own by default.

        Returns
        -------
        int
            Number of features of each image.

        Raises
        ------
        ValueError
            If the images do not fit `image_shape`, their pooled maps are empty, their channels do
            not fit the filters, they are smaller than the patches that filters are made of, or a
            pixel is so large that a power of its responses overflows the precision.
        """
        shape = images.shape[1:]
        full_shape(shape, self.image_shape)
        if self._bank is None:
            for recipe in recipes(self.filters):
                recipe.check_size(shape)
        n_features, bank, stage = self.n_features(shape), self._bank_for(shape[-1]), self._stage()
        following = next_dtype or self.dtype
        allowed = largest_pixel(bank, stage, self.dtype, following)
        # The lower of the two precisions: "float32" sorts before "float64".
        reason = f"dtype={min(self.dtype, following)!r} and the filters and powers"
        check_pixels(images, allowed, reason)
        return n_features

    def _transform(self, images: Matrix) -> Matrix:
        _ = self.bank  # Raises if the bank still needs examples.
        self.check_images(images)
        values = images.astype(PRECISIONS[self.dtype], copy=False)
        return convolve(values, self._bank_for(images.shape[3]), self._stage())
