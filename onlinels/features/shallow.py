"""ConvolutionalFeatures: stage 1 of the paper as a river transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base

from onlinels.arrays import Matrix, frozen_copy
from onlinels.features.convolution import Convolution, convolve
from onlinels.features.filters import BANKS, check_bank
from onlinels.features.images import (
    Images,
    Shape,
    check_image_shape,
    read_image,
    read_images,
)
from onlinels.outputs import output_row, output_table
from onlinels.settings import DTYPES, check_choice, check_count, check_flag

LARGEST_RESPONSE = {"float32": 1e17, "float64": 1e60}
"""Largest convolution whose square, average and hidden activations still fit the precision."""


class ConvolutionalFeatures(base.MiniBatchTransformer):
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
        Whether each filter's response to an image is divided by its sum.
    image_shape : (height, width) or (height, width, n_channels), optional
        Needed where images come as dicts of pixels, frames or flat arrays; otherwise a check.
    dtype : "float64" or "float32"
        Precision of the features. float32 is about twice as fast.

    Notes
    -----
    There are C P ceil((J - W + Q) / D)^2 features for C channels, P filters of size W and images
    of size J, ordered by channel, filter, row and column. A blank image gives zeros. Cost:
    ``2 n C P W^2 (J - W + 1)^2`` operations for n images, and the memory of 16 images' maps.

    A sample {"image": array} gives {"h": array}; a dict of pixels gives {"h0": …, "h1": …}, the
    names of the columns that frames get. Arrays in give arrays (n, n_features) out.

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015, Algorithm 1 and equations 4 to 6.

    Examples
    --------
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
        image_shape: Shape | None = None,
        dtype: str = "float64",
    ) -> None:
        check_bank(filters)
        check_count("pool_size", pool_size, 1)
        check_count("stride", stride, 1)
        check_count("padding", padding, 0)
        check_count("drop_ring", drop_ring, 0)
        check_flag("normalize", normalize)
        check_image_shape(image_shape)
        check_choice("dtype", dtype, DTYPES)
        self.filters = filters if isinstance(filters, str) else frozen_copy(filters)
        self.pool_size = pool_size
        self.stride = stride
        self.padding = padding
        self.drop_ring = drop_ring
        self.normalize = normalize
        self.image_shape = image_shape
        self.dtype = dtype

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"image_shape": (8, 8), "padding": 3}

    @property
    def bank(self) -> Matrix:
        """The filters as an array (n_filters, filter_size, filter_size, 1 or n_channels)."""
        bank = BANKS[self.filters]() if isinstance(self.filters, str) else self.filters
        return bank if bank.ndim == 4 else bank[..., None]

    def n_features(self, image_shape: Shape) -> int:
        """Return the number of features of images of shape (height, width[, n_channels]).

        Raises
        ------
        ValueError
            If nothing is left of such an image, or its channels do not fit the filters.

        Examples
        --------
        >>> ConvolutionalFeatures(stride=2).n_features((28, 28))
        9675
        """
        height, width, n_channels = (*image_shape, 1)[:3]
        n_filters, filter_size, _, filter_channels = self.bank.shape
        stage = self._stage()
        sides = (stage.pooled_side(height, filter_size), stage.pooled_side(width, filter_size))
        if not all(sides):
            raise ValueError(
                f"Images of {height} x {width} pixels leave no pooled position with filters of "
                f"size {filter_size}. Raise padding, lower drop_ring, or pass smaller filters."
            )
        if filter_channels not in (1, n_channels):
            raise ValueError(
                f"Images have {n_channels} channels, expected {filter_channels} as the filters. "
                "Pass filters without channels, or images with as many."
            )
        return int(n_channels * n_filters * sides[0] * sides[1])

    def check_images(self, images: Matrix) -> int:
        """Return the number of features that images (n, height, width, n_channels) turn into.

        Raises
        ------
        ValueError
            If nothing is left of images of this shape, their channels do not fit the filters, or
            a pixel is too large for the precision.
        """
        n_features = self.n_features(images.shape[1:])
        strength = float(np.abs(self.bank).sum(axis=(1, 2)).max())
        largest = max(-float(images.min()), float(images.max()))
        if largest * strength > LARGEST_RESPONSE[self.dtype]:
            raise ValueError(
                f"An image holds pixels as large as {largest:g}, expected at most "
                f"{LARGEST_RESPONSE[self.dtype] / strength:g} for dtype={self.dtype!r}. Rescale."
            )
        return n_features

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the features of {"image": array}, or of a dict of pixels if their shape is set."""
        images = read_image(x, self.image_shape)
        return output_row(self._convolve(images)[0], as_array=not images.from_pixels)

    def transform_many(self, X: Any) -> Any:
        """Return the features of a mini-batch of images, in the kind of `X`.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            A column per pixel needs `image_shape`.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read as images of one shape that fits the filters.
        """
        images = read_images(X, self.image_shape)
        return output_table(images.source, self._convolve(images), not images.from_pixels)

    def _convolve(self, images: Images) -> Matrix:
        self.check_images(images.values)
        values = images.values.astype(DTYPES[self.dtype], copy=False)
        return convolve(values, self.bank, self._stage())

    def _stage(self) -> Convolution:
        return Convolution(
            self.pool_size, self.stride, self.padding, self.drop_ring, self.normalize
        )
