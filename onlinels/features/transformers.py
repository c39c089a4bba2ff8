"""ConvolutionalFeatures and WindowFeatures: stage 1 of the paper as river transformers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from onlinels.checks import (
    DTYPES,
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
    SQUARE,
    WINDOWS,
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
    full_shape,
    not_made,
    read_images,
)
from onlinels.features.patches import Patches
from onlinels.saving import made_of, maybe, savable_settings

NORMALIZATIONS = {True: "map", False: None, "map": "map", "image": "image"}
"""What features are divided by: the sum of their map, nothing, or the length of their image."""


@dataclass(eq=False, repr=False)
class FilteringTransformer(ImageTransformer):
    """Turn images or windows into features with fixed filters; subclasses say which filters."""

    # Settings that come first; subclasses add the shape, and others behind it.
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
        """Check the settings but for the filters."""
        super()._check_settings()
        self._bank: FilterBank | None = None
        for name, minimum in {"pool_size": 1, "stride": 1, "padding": 0, "drop_ring": 0}.items():
            check_count(name, getattr(self, name), minimum)
        check_choice("pooling", self.pooling, WINDOWS)
        if self.normalize not in NORMALIZATIONS:
            came = f"normalize={self.normalize!r} is not known"
            raise ValueError(f"{came}. Pass True, False, 'map' or 'image'.")
        check_choice("channels", self.channels, ("each", "joint"))
        if self.contrast_offset is not None:
            # What is less is 0 in this precision.
            limits = np.finfo(self.dtype)
            smallest, largest = float(limits.tiny), float(limits.max)
            check_between("contrast_offset", self.contrast_offset, smallest, largest)
        # None stands for them in signatures: river allows nothing but plain values there.
        if self.before_pooling is None:
            vars(self)["before_pooling"] = SQUARE
        if self.after_pooling is None:
            vars(self)["after_pooling"] = FOURTH_ROOT
        check_kind("before_pooling", self.before_pooling, (Power, TwoSidedRectifier))
        check_kind("after_pooling", self.after_pooling, (Power,))

    @property
    def bank(self) -> FilterBank:
        """The filters (n_filters, height, width, 1 or n_channels) and their offsets.

        Windows have filters of height 1, without offsets.

        Raises
        ------
        ValueError
            If they are to be made from examples, and none were given.
        """
        if self._bank is None:
            raise not_made(f"filters={self.filters!r} are", "ConvolutionalFeatures")
        return self._bank

    @abstractmethod
    def _bank_for(self, n_channels: int) -> FilterBank:
        """Return the bank for so many channels, a bound if it is not made yet, or raise."""

    def _stage(self) -> Convolution:
        columns = Axis(self.pool_size, self.stride, self.padding, self.drop_ring, self.pooling)
        # Windows have a single row: nothing is padded or pooled across it.
        rows = columns if self.kind is IMAGE else Axis()
        name = NORMALIZATIONS[self.normalize]
        before, after = self.before_pooling or SQUARE, self.after_pooling or FOURTH_ROOT
        return Convolution(rows, columns, name, before, after, self.channels, self.contrast_offset)

    def n_features(self, shape: Shape) -> int:
        """Return the number of features of images or windows of this shape.

        Parameters
        ----------
        shape : (height, width[, n_channels]), or (length[, n_channels]) of a window

        Raises
        ------
        ValueError
            If it is no such shape, nothing is left of such an image, or its channels do not fit
            the filters.

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
        """Return the rows and columns of one filter's pooled map, of which features are made up.

        Parameters and errors are those of `n_features`. Windows have maps of one row.

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
            came = f"{self.kind.name.capitalize()}s of {sides} leave no pooled position"
            raise ValueError(f"{came} with these filters. Raise padding, or lower drop_ring.")
        return pooled

    def check_images(self, images: Matrix, next_dtype: str | None = None) -> int:
        """Return the number of features that images (n, height, width, n_channels) turn into.

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
        next_dtype : "float32" or "float64", optional
            Precision of what takes the features; their own by default.

        Raises
        ------
        ValueError
            If `image_shape` is another, nothing is left of images of this shape, their channels do
            not fit the filters, they are smaller than the patches that filters are yet to be made
            of, or a pixel is so large that a power of its responses leaves the range of the
            precision.
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
        # The narrower of the two: "float32" comes before "float64".
        reason = f"dtype={min(self.dtype, following)!r}, {stage.before_pooling} and the filters"
        check_pixels(images, allowed, reason, self.kind)
        return n_features

    def _transform(self, images: Matrix) -> Matrix:
        _ = self.bank  # Raises if there is none yet.
        self.check_images(images)
        bank = self._bank_for(images.shape[3])
        values = images.astype(DTYPES[self.dtype], copy=False)
        return convolve(values, bank.filters, self._stage(), bank.offsets)


@savable_settings(_bank=made_of(FilterBank))
@dataclass(eq=False, repr=False)
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
    contrast_offset, dtype, seed, pooling, prefix
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
            raise ValueError(
                f"filters has shape {values.shape}. Pass (n_filters, W[, n_channels])."
            )
        self._bank = plain_bank(values[:, None])

    def _bank_for(self, n_channels: int) -> FilterBank:
        # Channels of sensors are no colours, which a bank would mix.
        own = self.bank.filters.shape[3]
        if own not in (1, n_channels):
            raise ValueError(f"Windows have {n_channels} channels, expected {own} as the filters.")
        return self.bank.for_channels(n_channels)


@savable_settings(_bank=maybe(made_of(FilterBank)))
@dataclass(eq=False, repr=False)
class ConvolutionalFeatures(FilteringTransformer):
    """Turn images into shallow convolutional features with fixed filters.

    Algorithm 1 of the paper: for every channel x and filter h, the valid convolution x * h is
    squared, averaged over windows of Q x Q positions (a full convolution with 1/Q^2), the fourth
    root is taken, every D-th position is kept, and the response is divided by its sum. With the
    default settings this is the algorithm to the letter; `normalize`, `padding` and `drop_ring`
    depart from it.

    Parameters
    ----------
    filters : "hand-designed", ndarray (n_filters, W, W[, n_channels]), FilterBank, recipe or tuple
        The bank; a tuple is a combination of banks, in order. A filter without channels is applied
        to every channel of the images, one with channels is applied channel by channel, and one of
        red, green and blue by its grey version to grey channels (`FilterBank.for_channels`).
        Recipes (`Patches`, `WhitenedPatches`, `KMeansPatches`) are made banks by `from_examples`.
    pool_size : int
        Side Q of the pooling window, in pixels.
    stride : int
        Downsampling D of the pooled maps.
    padding : int
        Blank pixels added on every side of the image; ``filter_size - 1`` makes the convolution
        full.
    drop_ring : int
        Pooled positions left out on every side, where windows hang over the edge of the image.
        The author's own script leaves 5 out and classifies better for it.
    normalize : bool, "map" or "image"
        Whether each map of an image (each side of a rectifier on its own) is divided by its sum, as
        "map" says too; with "image" all features of an image are divided by their length instead.
    before_pooling : Power or TwoSidedRectifier, optional
        Applied to the responses, ``Power(2.0)`` if it is not given. The rectifier gives two maps.
    after_pooling : Power, optional
        Applied to the averages, ``Power(0.25)`` if it is not given; see also `lp_pooling`.
    channels : "each" or "joint"
        Whether every channel is convolved and kept apart, as in the paper, or responses are summed
        over channels, as of filters that are colour patches.
    contrast_offset : float, above 0, optional
        Where given, every patch under a filter, blank pixels included, has its mean removed and is
        divided by sqrt(variance + contrast_offset): over its channel, or over all if they are
        joint. In squared units of the pixels.
    image_shape : (height, width) or (height, width, n_channels), optional
        Needed where images come as dicts of pixels, frames or flat arrays; otherwise a check.
    dtype : "float64" or "float32"
        Precision of the features. float32 is about twice as fast.
    seed : int
        For filters that are drawn.
    pooling : "box" or "gaussian"
        What positions are averaged with: the Q x Q alike, as in the paper, or by a gaussian about
        their middle that is as wide (standard deviation Q / sqrt(12)), which classifies better.
    prefix : str
        What the names of outputs begin with, for a TransformerUnion: ``"u_"`` gives
        ``u_h0``, ``u_h1``, …

    Notes
    -----
    There are C P ceil((J + 2 padding - W + Q - 2 drop_ring) / D)^2 features for C channels, P
    filters of size W and images of size J, ordered by channel, filter, row and column; P such maps
    of joint channels, and twice the maps, first those above, then those below, with a rectifier. A
    blank image gives zeros, unless the filters have offsets.
    Cost: ``2 n C P W^2 (J - W + 1)^2`` operations for n images, and the memory of the features, of
    2 MiB of responses on each thread, and of the lines of pixels that they are made of.

    A sample {"image": array} gives {"h": array}; a dict of pixels gives {"h0": …, "h1": …}, the
    names of the columns that frames get. Arrays in give arrays (n, n_features) out.

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
        """Return features whose filters are made from examples.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images, as those to be transformed.
        y : array, series or list of n labels, optional
            Only `Patches` needs them.
        **settings
            As for the class; `filters` is ``Patches()`` unless it is given.

        Raises
        ------
        TypeError, ValueError
            If the settings are not the class's, or filters cannot be made from these images.

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
        images = read_images(X, model.image_shape).values
        model.check_images(images)
        joint, contrast_offset = model.channels == "joint", model.contrast_offset
        made = make_bank(model.filters, images, y, model.seed, joint, contrast_offset)
        return cls(**{**settings, "filters": made})

    @property
    def is_fixed(self) -> bool:
        """Whether it can transform; only recipes without examples cannot."""
        return self._bank is not None

    def _bank_for(self, n_channels: int) -> FilterBank:
        # Of a combination every member is fitted to the channels by itself.
        alone = not isinstance(self.filters, tuple)
        if self._bank is not None and (alone or self._bank.filters.shape[3] == n_channels):
            return self._bank.for_channels(n_channels)
        return outline(self.filters, n_channels, self.channels == "joint")
