"""ConvolutionalFeatures and WindowFeatures: stage 1 of the paper as river transformers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from onlinels.checks import (
    PRECISIONS,
    Matrix,
    as_array,
    check_between,
    check_choice,
    check_count,
    check_kind,
    frozen_copy,
)
from onlinels.features.convolution import (
    FOURTH_ROOT,
    POOLING_WEIGHTS,
    SQUARE,
    Axis,
    Convolution,
    Power,
    TwoSidedRectifier,
    convolve,
    largest_pixel,
)
from onlinels.features.filters import (
    FilterBank,
    frozen_filters,
    make_bank,
    minirocket_kernels,
    outline,
    plain_bank,
    recipes,
)
from onlinels.features.images import (
    IMAGE,
    WINDOW,
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
from onlinels.features.patches import Patches
from onlinels.saving import savable, settings_hold

NORMALIZATIONS = {True: "map", False: None, "map": "map", "image": "image"}
"""Divisors of features: the sum of their map, nothing, or the length of all features."""


@dataclass(eq=False, repr=False)
class FilteringTransformer(ImageTransformer):
    """Turn images or windows into features with the fixed filters of a subclass."""

    # The first settings; subclasses add the shape and others.
    filters: Any
    pool_size: int = 8
    stride: int = 2
    padding: int = 0
    drop_ring: int = 0
    normalize: bool | str = True
    before_pooling: Power | TwoSidedRectifier | None = None
    after_pooling: Power | None = None
    channels: str = "each"
    contrast_offset: float | None = None

    def _check_settings(self) -> None:
        """Check all settings except the filters."""
        super()._check_settings()
        self._bank: FilterBank | None = None
        for name, minimum in {"pool_size": 1, "stride": 1, "padding": 0, "drop_ring": 0}.items():
            check_count(name, getattr(self, name), minimum)
        check_choice("pooling", self.pooling, POOLING_WEIGHTS)
        if self.normalize not in NORMALIZATIONS:
            problem = f"normalize={self.normalize!r} is not known"
            raise ValueError(f"{problem}. Pass True, False, 'map' or 'image'.")
        check_choice("channels", self.channels, ("each", "joint"))
        if self.contrast_offset is not None:
            # A smaller number is 0 in this precision.
            limits = np.finfo(self.dtype)
            smallest, largest = float(limits.tiny), float(limits.max)
            check_between("contrast_offset", self.contrast_offset, smallest, largest)
        # Signatures have None for these defaults, because river allows only plain values there.
        if self.before_pooling is None:
            vars(self)["before_pooling"] = SQUARE
        if self.after_pooling is None:
            vars(self)["after_pooling"] = FOURTH_ROOT
        check_kind("before_pooling", self.before_pooling, (Power, TwoSidedRectifier))
        check_kind("after_pooling", self.after_pooling, (Power,))

    @property
    def bank(self) -> FilterBank:
        """The filters (n_filters, height, width, 1 or n_channels) and their offsets.

        Filters of windows have height 1 and no offsets.

        Raises
        ------
        ValueError
            If the filters are made from examples, and no examples were given.
        """
        if self._bank is None:
            raise not_made(f"filters={self.filters!r} are", "ConvolutionalFeatures")
        return self._bank

    @abstractmethod
    def _bank_for(self, n_channels: int) -> FilterBank:
        """Return the bank for so many channels (bounds if it needs examples), or raise."""

    def _stage(self) -> Convolution:
        columns = Axis(self.pool_size, self.stride, self.padding, self.drop_ring, self.pooling)
        # Windows have a single row, along which nothing is padded or pooled.
        rows = columns if self.kind is IMAGE else Axis()
        name = NORMALIZATIONS[self.normalize]
        before, after = self.before_pooling or SQUARE, self.after_pooling or FOURTH_ROOT
        return Convolution(rows, columns, name, before, after, self.channels, self.contrast_offset)

    def n_features(self, shape: Shape) -> int:
        """Return the number of features of images or windows of this shape.

        Parameters
        ----------
        shape : (height, width[, n_channels]), or (length[, n_channels]) of a window
            Shape of one image or window.

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
        rows, columns = self.map_shape(shape)
        n_channels = (*shape, 1)[self.kind.n_axes]
        stage, n_filters = self._stage(), len(self._bank_for(n_channels))
        return stage.n_groups(n_channels) * stage.before_pooling.n_maps * n_filters * rows * columns

    def map_shape(self, shape: Shape) -> tuple[int, int]:
        """Return the rows and columns of one filter's pooled map.

        Features consist of such maps, one per filter and channel. Windows have maps of one row.
        Parameters and errors are those of `n_features`.

        Examples
        --------
        >>> from onlinels import ConvolutionalFeatures
        >>> ConvolutionalFeatures(stride=2, drop_ring=5).map_shape((28, 28))
        (10, 10)
        """
        check_image_shape("shape", shape, self.kind)
        *sizes, n_channels = full_shape(shape, None, self.kind)
        filters = self._bank_for(n_channels).filters
        pooled = self._stage().pooled_shape((1, *sizes)[-2:], filters)
        if not all(pooled):
            sides = f"{' x '.join(map(str, sizes))} {self.kind.pixel}s"
            problem = f"{self.kind.name.capitalize()}s of {sides} have empty pooled maps"
            raise ValueError(f"{problem} with these filters. Raise padding, or lower drop_ring.")
        return pooled

    def check_images(self, images: Matrix, next_dtype: str | None = None) -> int:
        """Return the number of features of images (n, height, width, n_channels).

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
            Images, or windows with height 1.
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
        shape = images.shape[3 - self.kind.n_axes :]
        full_shape(shape, self._shape, self.kind)
        if self._bank is None:
            for recipe in recipes(self.filters):
                recipe.check_size(shape)
        n_features, bank, stage = self.n_features(shape), self._bank_for(shape[-1]), self._stage()
        added = stage.offsets_of_groups(bank.offsets, shape[-1])
        following = next_dtype or self.dtype
        allowed = largest_pixel(bank.filters, added, stage, self.dtype, following)
        # The lower of the two precisions: "float32" sorts before "float64".
        reason = f"dtype={min(self.dtype, following)!r}, {stage.before_pooling} and the filters"
        check_pixels(images, allowed, reason, self.kind)
        return n_features

    def _transform(self, images: Matrix) -> Matrix:
        _ = self.bank  # Raises if the bank still needs examples.
        self.check_images(images)
        bank = self._bank_for(images.shape[3])
        values = images.astype(PRECISIONS[self.dtype], copy=False)
        return convolve(values, bank.filters, self._stage(), bank.offsets)


@savable(settings_hold)
@dataclass(eq=False, repr=False)
class WindowFeatures(FilteringTransformer):
    """Turn windows of sensor values into shallow convolutional features with fixed filters.

    This is Algorithm 1 of the paper in one dimension, time: for every channel x and filter h, the
    convolution x * h is squared and averaged over Q positions, its fourth root is taken, and every
    D-th position is kept. Unlike features of images, these are divided by their sum only if
    `normalize` is set, because the strength of a response matters most in sensor signals.

    Parameters
    ----------
    filters : "minirocket" or ndarray (n_filters, filter_size[, n_channels])
        Filters of the bank. A filter without channels is applied to every channel of the windows,
        one with channels is applied channel by channel. Recipes and FilterBanks are not accepted.
    pool_size, stride, padding, drop_ring, normalize, before_pooling, after_pooling, channels,
    contrast_offset, dtype, seed, pooling, prefix
        Settings of ConvolutionalFeatures, applied along time.
    window_shape : (length,) or (length, n_channels), optional
        Shape of a window. Required for dicts of numbers, frames and flat arrays; for other input it
        is checked.

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these.

    Notes
    -----
    There are C P ceil((J + 2 padding - W + Q - 2 drop_ring) / D) features for C channels, P filters
    of size W and windows of length J, ordered by channel, filter and time; see
    ConvolutionalFeatures for joint channels and rectifiers. A window of zeros gives zeros. Cost:
    ``2 n C P W (J - W + 1)`` operations for n windows.

    A sample {"window": array} gives {"h": array}. A dict of numbers gives {"h0": …, "h1": …}; its
    names are positions, pairs (time, channel), or text that ends in these numbers.

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

    kind: ClassVar[Kind] = WINDOW

    filters: str | Matrix = "minirocket"
    normalize: bool | str = False
    window_shape: Shape | None = None
    dtype: str = "float64"
    seed: int = 0
    pooling: str = "box"
    prefix: str = ""

    def __post_init__(self) -> None:
        self._check_settings()
        if isinstance(self.filters, str):
            check_choice("filters", self.filters, ("minirocket",))
            values = minirocket_kernels()
        else:
            values = vars(self)["filters"] = frozen_copy(as_array("filters", self.filters))
        if values.ndim not in (2, 3) or 0 in values.shape:
            expected = "(n_filters, W[, n_channels]) without a 0. Reshape it"
            raise ValueError(f"filters has shape {values.shape}, expected {expected}.")
        self._bank = plain_bank(values[:, None])

    def _bank_for(self, n_channels: int) -> FilterBank:
        # A bank mixes the channels of colours, but not those of sensors.
        own = self.bank.filters.shape[3]
        if own not in (1, n_channels):
            expected = f"{own}, since the filters have {own}. Pass other windows or filters"
            raise ValueError(f"Windows have {n_channels} channels, expected {expected}.")
        return self.bank.for_channels(n_channels)


@savable(settings_hold)
@dataclass(eq=False, repr=False)
class ConvolutionalFeatures(FilteringTransformer):
    """Turn images into shallow convolutional features with fixed filters.

    This is Algorithm 1 of the paper: for every channel x and filter h, the valid convolution x * h
    is squared and averaged over windows of Q x Q positions (a full convolution with 1/Q^2), its
    fourth root is taken, every D-th position is kept, and the response is divided by its sum. The
    default settings are exactly this algorithm; other values of `normalize`, `padding` and
    `drop_ring` deviate from it.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]), FilterBank, recipe or tuple
        Filters of the bank; a tuple combines banks, in order. A filter without channels is applied
        to every channel of the images, and a filter with channels channel by channel. Grey channels
        get the grey version of filters for red, green and blue (`FilterBank.for_channels`).
        `from_examples` turns recipes (`Patches`, `WhitenedPatches`, `KMeansPatches`) into banks.
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
        Divisor of the features. With True or "map", each map of an image (each side of a rectifier
        separately) is divided by its sum. With "image", all features of an image are divided by
        their length. With False, nothing is divided.
    before_pooling : Power or TwoSidedRectifier, optional
        Function of the responses, ``Power(2.0)`` by default. The rectifier gives two maps.
    after_pooling : Power, optional
        Function of the averages, ``Power(0.25)`` by default; see also `lp_pooling`.
    channels : "each" or "joint"
        Whether every channel has its own maps ("each", as in the paper), or responses are summed
        over channels ("joint", for filters that are colour patches).
    contrast_offset : float, above 0, optional
        Constant in the normalisation of contrast, in squared units of the pixels. If given, the
        mean of every patch under a filter (blank pixels included) is subtracted, and the patch is
        divided by sqrt(variance + contrast_offset). Mean and variance are those of the channel, or
        of all channels if they are joint.
    image_shape : (height, width) or (height, width, n_channels), optional
        Shape of an image. Required for dicts of pixels, frames and flat arrays; for other input it
        is checked.
    dtype : "float64" or "float32"
        Precision of the features. float32 is about twice as fast.
    seed : int
        Seed for recipes that draw examples at random.
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
    channels give P maps instead of C P. A rectifier gives twice as many maps, first those above the
    threshold, then those below. A blank image gives zeros, unless the filters have offsets.

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
    image_shape: Shape | None = None
    dtype: str = "float64"
    seed: int = 0
    pooling: str = "box"
    prefix: str = ""

    def __post_init__(self) -> None:
        self._check_settings()
        unmade = recipes(self.filters)
        for recipe in unmade:
            recipe.check_contrast(self.contrast_offset)
        vars(self)["filters"] = frozen_filters(self.filters)
        self._bank = None if unmade else make_bank(self.filters, joint=self.channels == "joint")

    @classmethod
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return a transformer whose filters are made from examples.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images in the form of those to transform.
        y : array, series or list of n labels, optional
            Labels of the images. Only `Patches` needs them.
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
        >>> from onlinels.features.patches import WhitenedPatches
        >>> photos = np.random.default_rng(0).random((9, 8, 8, 3))
        >>> recipe = WhitenedPatches(5, size=3)
        >>> ConvolutionalFeatures.from_examples(photos, filters=recipe, channels="joint").bank
        FilterBank(5 filters of 3 x 3, 3 channels)
        """
        model = cls(**{"filters": Patches(), **settings})
        if model.is_fixed:
            return model
        images = check_some(read_images(X, model.image_shape))
        model.check_images(images)
        joint, contrast_offset = model.channels == "joint", model.contrast_offset
        made = make_bank(model.filters, images, y, model.seed, joint, contrast_offset)
        return cls(**{**settings, "filters": made})

    @property
    def is_fixed(self) -> bool:
        """Whether the features can transform: False only for recipes without examples."""
        return self._bank is not None

    def _bank_for(self, n_channels: int) -> FilterBank:
        # In a combination, every member is adapted to the channels separately.
        alone = not isinstance(self.filters, tuple)
        if self._bank is not None and (alone or self._bank.filters.shape[3] == n_channels):
            return self._bank.for_channels(n_channels)
        return outline(self.filters, n_channels, self.channels == "joint")
