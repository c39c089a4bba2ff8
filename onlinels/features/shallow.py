"""ConvolutionalFeatures: stage 1 of the paper as a river transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from onlinels.arrays import Matrix, frozen_copy
from onlinels.features.filters import BANKS, check_bank
from onlinels.features.images import Shape, check_image_shape
from onlinels.features.kinds import IMAGE, Kind
from onlinels.features.nonlinearities import Power, TwoSidedRectifier
from onlinels.features.transformer import FilteringTransformer


class ConvolutionalFeatures(FilteringTransformer):
    """Turn images into shallow convolutional features with fixed filters.

    Algorithm 1 of the paper: for every channel x and filter h, the valid convolution x * h is
    squared, averaged over windows of Q x Q positions (a full convolution with 1/Q^2), the fourth
    root is taken, every D-th position is kept, and the response is divided by its sum. With the
    default settings this is the algorithm to the letter; `normalize`, `padding` and `drop_ring`
    depart from it.

    Parameters
    ----------
    filters : "hand-designed" or ndarray (n_filters, filter_size, filter_size[, n_channels])
        The bank. A filter without channels is applied to every channel of the images, one with
        channels is applied channel by channel.
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
    normalize : bool
        Whether each map of an image (each side of a rectifier on its own) is divided by its sum.
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

    Notes
    -----
    There are C P ceil((J - W + Q) / D)^2 features for C channels, P filters of size W and images
    of size J, ordered by channel, filter, row and column; P such maps of joint channels, and twice
    the maps, first those above, then those below, with a rectifier. A blank image gives zeros.
    Cost: ``2 n C P W^2 (J - W + 1)^2`` operations for n images, and the memory of the features, of
    1 MiB of responses and of the W^2 pixels under each of them.

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
        filters: str | Matrix = "hand-designed",
        pool_size: int = 8,
        stride: int = 2,
        padding: int = 0,
        drop_ring: int = 0,
        normalize: bool = True,
        before_pooling: Power | TwoSidedRectifier | None = None,
        after_pooling: Power | None = None,
        channels: str = "each",
        contrast_offset: float | None = None,
        image_shape: Shape | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        check_bank(filters)
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
        )
        self.filters = filters if isinstance(filters, str) else frozen_copy(filters)
        self.image_shape = image_shape

    kind: ClassVar[Kind] = IMAGE

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"image_shape": (8, 8), "padding": 3}

    @property
    def bank(self) -> Matrix:
        """The filters as an array (n_filters, filter_size, filter_size, 1 or n_channels)."""
        bank = BANKS[self.filters]() if isinstance(self.filters, str) else self.filters
        return bank if bank.ndim == 4 else bank[..., None]

    @property
    def _shape(self) -> Shape | None:
        return self.image_shape
