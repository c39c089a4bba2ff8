"""ConvolutionalFeatures: stage 1 of the paper as a river transformer."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from onlinels.features.convolution.nonlinearities import Power, TwoSidedRectifier
from onlinels.features.convolution.transformer import FilteringTransformer
from onlinels.features.filters.bank import FilterBank, frozen_filters
from onlinels.features.filters.combination import (
    bounding,
    check_contrast,
    check_filters,
    check_source,
    make_bank,
    needs_examples,
    outline,
)
from onlinels.features.filters.patches import Patches
from onlinels.features.images import Shape, check_image_shape, full_shape, read_images
from onlinels.features.kinds import IMAGE, Kind


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

    def __init__(
        self,
        filters: Any = "hand-designed",
        pool_size: int = 8,
        stride: int = 2,
        padding: int = 0,
        drop_ring: int = 0,
        normalize: bool | str = True,
        before_pooling: Power | TwoSidedRectifier | None = None,
        after_pooling: Power | None = None,
        channels: str = "each",
        contrast_offset: float | None = None,
        image_shape: Shape | None = None,
        dtype: str = "float64",
        seed: int = 0,
        pooling: str = "box",
    ) -> None:
        check_filters(filters)
        check_image_shape(image_shape)
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
        check_contrast(filters, contrast_offset)
        self.filters = frozen_filters(filters)
        self.image_shape = image_shape
        self._bank = make_bank(self.filters, joint=self._joint) if self.is_fixed else None

    kind: ClassVar[Kind] = IMAGE

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"image_shape": (8, 8), "padding": 3}

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
        >>> from onlinels.features.filters.patches import WhitenedPatches
        >>> photos = np.random.default_rng(0).random((9, 8, 8, 3))
        >>> recipe = WhitenedPatches(5, size=3)
        >>> ConvolutionalFeatures.from_examples(photos, filters=recipe, channels="joint").bank
        FilterBank(5 filters of 3 x 3, 3 channels)
        """
        model = cls(**{"filters": Patches(), **settings})
        if model.is_fixed:
            return model
        images = read_images(X, model.image_shape).values
        model.check_shape(images.shape[1:])
        made = make_bank(model.filters, images, y, model.seed, model._joint, model.contrast_offset)
        return cls(**{**settings, "filters": made})

    def check_shape(self, shape: Shape) -> int:
        """Return the number of features of images (height, width, n_channels), made filters or not.

        Raises
        ------
        ValueError
            If `image_shape` is another, nothing is left of such an image, its channels do not fit
            the filters, or it is smaller than the patches that filters are made of.
        """
        full_shape(shape, self.image_shape, self.kind)
        check_source(self.filters, shape)
        return self.n_features(shape)

    def check_magnitude(
        self, largest: float, n_channels: int, next_dtype: str | None = None
    ) -> None:
        """Raise unless pixels of this magnitude fit the filters, whatever is made of such pixels.

        Parameters are those of `check_images`.

        Raises
        ------
        ValueError
            If a power of a response could leave the range of the precision.
        """
        bank = bounding(self.filters, largest, n_channels, self._joint, self.contrast_offset)
        self._check_largest(largest, bank, next_dtype)

    @property
    def is_fixed(self) -> bool:
        """Whether it can transform; only recipes without examples cannot."""
        return not needs_examples(self.filters)

    @property
    def bank(self) -> FilterBank:
        """The filters (n_filters, filter_size, filter_size, 1 or n_channels) and their offsets.

        Raises
        ------
        ValueError
            If they are to be made from examples, and none were given.
        """
        if self._bank is None:
            raise ValueError(
                f"filters={self.filters!r} are made from examples, and none were given. Use "
                "ConvolutionalFeatures.from_examples(X, y, ...) before the first image."
            )
        return self._bank

    @property
    def _joint(self) -> bool:
        return self.channels == "joint"

    def _bank_for(self, n_channels: int) -> FilterBank:
        # Of a combination every member is fitted to the channels by itself.
        alone = not isinstance(self.filters, tuple)
        if self._bank is not None and (alone or self._bank.filters.shape[3] == n_channels):
            return self._bank.for_channels(n_channels)
        return outline(self.filters, n_channels, self._joint)

    @property
    def _shape(self) -> Shape | None:
        return self.image_shape
