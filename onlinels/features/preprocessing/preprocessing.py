"""ImagePreprocessing: downsample, scale, deskew, add grey and whiten, before the filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from river import base

from onlinels.arrays import Matrix
from onlinels.features.images import IMAGE_NAME, Shape, check_image_shape, read_image, read_images
from onlinels.features.pixels import check_pixel_size, magnitude
from onlinels.features.preprocessing.image_whitening import ZCA, FixedZCA, check_whitening
from onlinels.features.preprocessing.steps import Steps
from onlinels.outputs import output_row, output_table
from onlinels.saving.files import Savable
from onlinels.settings import DTYPES, check_between, check_choice, check_count, check_flag

LARGEST_SCALE = 1e30


class ImagePreprocessing(base.MiniBatchTransformer, Savable):
    """Downsample images, scale and deskew them, add a grey channel and whiten, in this order.

    1. Blocks of downsample x downsample pixels become their mean.
    2. Pixels are divided by `scale`.
    3. Rows are shifted against one another until bright pixels have no slant.
    4. Grey, 0.299 R + 0.587 G + 0.114 B, follows red, green and blue as a fourth channel.
    5. Every channel x becomes (x - mean) V (D + variance_offset)^(-1/2) V', where V D V' is the
       covariance of its pixels in a warm-up sample (ZCA whitening).

    Parameters
    ----------
    downsample : int
        Side of the blocks, in pixels; both sides of an image are multiples of it.
    scale : float, optional
        What pixels are divided by: 255.0 brings bytes to [0, 1].
    grey_channel : bool
        Whether to add grey to images of 3 channels.
    whitening : ZCA or FixedZCA, optional
        How to whiten. `ZCA(variance_offset)` is made a `FixedZCA` by `from_examples`, before use.
    deskew : bool
        Whether to straighten slanted writing, bright on a dark background; see
        `onlinels.features.preprocessing.slant.deskew`.
    image_shape : (height, width) or (height, width, n_channels), optional
        That of images as they come. Needed where they come as dicts of pixels, frames or flat
        arrays; otherwise a check.
    dtype : "float64" or "float32"
        Precision of the steps and of the images that come out.

    Notes
    -----
    Images come out as they came in. Arrays (n, height, width[, n_channels]) give arrays with as
    many axes, {"image": array} gives {"image": array}. Dicts of pixels give {"h0": …, "h1": …},
    row by row, the names of the columns that frames get; what follows in a pipeline needs
    ``image_shape=preprocessing.output_shape(image_shape)`` for these.

    With nothing to do, arrays are passed on as they are, in their own dtype and memory. Whitening
    n images of p pixels costs ``2 n p^2`` operations per channel, as one matrix product.

    Examples
    --------
    >>> halved = ImagePreprocessing(downsample=2, scale=255.0)
    >>> halved.transform_one({"image": np.full((2, 4), 51)})
    {'image': array([[0.2, 0.2]])}
    >>> photos = np.random.default_rng(0).integers(0, 256, (50, 12, 12, 3))
    >>> ImagePreprocessing.from_examples(photos, downsample=3).transform_many(photos).shape
    (50, 4, 4, 3)
    """

    def __init__(
        self,
        downsample: int = 1,
        scale: float | None = None,
        grey_channel: bool = False,
        whitening: ZCA | FixedZCA | None = None,
        image_shape: Shape | None = None,
        dtype: str = "float64",
        deskew: bool = False,
    ) -> None:
        check_count("downsample", downsample, 1)
        if scale is not None:
            check_between("scale", scale, 1.0 / LARGEST_SCALE, LARGEST_SCALE)
        check_flag("grey_channel", grey_channel)
        check_flag("deskew", deskew)
        check_whitening(whitening)
        check_choice("dtype", dtype, DTYPES)
        self.downsample = downsample
        self.scale = scale
        self.grey_channel = grey_channel
        self.whitening = whitening
        self.image_shape = image_shape
        self.dtype = dtype
        self.deskew = deskew
        self._fixed: FixedZCA | None = None
        if isinstance(whitening, FixedZCA):
            self._fixed = whitening.as_type(DTYPES[dtype])
        if image_shape is not None:
            self.output_shape(image_shape)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"image_shape": (8, 8), "downsample": 2, "scale": 16.0}

    @classmethod
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return a preprocessing whose whitening is made from a warm-up sample.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images as they come, before any step.
        y : optional
            Labels; they do not matter.
        **settings
            As for the class, but `whitening` is ``ZCA()`` unless it is given. If it is None or
            fixed already, `X` does not matter.

        Raises
        ------
        TypeError, ValueError
            If the settings are not the class's, or `X` cannot be read as images that fit them.

        Examples
        --------
        >>> photos = np.random.default_rng(0).random((50, 4, 4))
        >>> ImagePreprocessing.from_examples(photos, whitening=ZCA(0.01)).is_fixed
        True
        """
        model = cls(**{"whitening": ZCA(), **settings})
        images = read_images(X, model.image_shape)
        model.check_pixels(images.values)
        if not isinstance(model.whitening, ZCA):
            return model
        fixed = model.whitening.fit(model._steps.apply(images.values))
        return cls(**{**settings, "whitening": fixed.as_type(DTYPES[model.dtype])})

    @property
    def is_fixed(self) -> bool:
        """Whether it can transform; only a `ZCA` without examples cannot."""
        return not isinstance(self.whitening, ZCA)

    def output_shape(self, image_shape: Shape) -> Shape:
        """Return the shape of what images of shape (height, width[, n_channels]) turn into.

        Raises
        ------
        ValueError
            If a side is not a multiple of `downsample`, there are not 3 channels to make grey
            of, or the whitening was made from images of another shape.

        Examples
        --------
        >>> ImagePreprocessing(downsample=3, grey_channel=True).output_shape((96, 96, 3))
        (32, 32, 4)
        """
        check_image_shape(image_shape, optional=False)
        height, width, n_channels = (*image_shape, 1)[:3]
        shape = self._steps.output_shape((height, width, n_channels))
        if self._fixed is not None:
            self._fixed.check_shape(shape)
        return shape[: len(image_shape)]

    def check_images(self, images: Matrix) -> Shape:
        """Return the shape (height, width, n_channels) that images turn into.

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)

        Raises
        ------
        ValueError
            If the whitening is not fixed, the images do not fit the settings, or a pixel is too
            large for the precision.
        """
        if not self.is_fixed:
            raise ValueError(
                f"whitening={self.whitening!r} is made from examples, and none were given. Use "
                "ImagePreprocessing.from_examples(X, ...) before the first image."
            )
        return self.check_pixels(images)

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return {"image": array} of {"image": array}, or pixels of a dict of pixels."""
        images = read_image(x, self.image_shape)
        processed = self._process(images.values)
        if images.from_pixels:
            return output_row(processed.ravel(), as_array=False)
        return {IMAGE_NAME: images.shape_like(processed)[0]}

    def transform_many(self, X: Any) -> Any:
        """Return a mini-batch of images, in the kind of `X`.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            A column per pixel needs `image_shape`. Flat arrays come out as images.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read as images of one shape, or `check_images` raises.
        """
        images = read_images(X, self.image_shape)
        processed = self._process(images.values)
        if images.from_pixels:
            return output_table(images.source, processed.reshape(len(processed), -1), False)
        shaped = images.shape_like(processed)
        return shaped if isinstance(X, np.ndarray) else [{IMAGE_NAME: image} for image in shaped]

    def _process(self, images: Matrix) -> Matrix:
        self.check_images(images)
        if self.is_identity:
            return images
        processed = self._steps.apply(images)
        return processed if self._fixed is None else self._fixed.apply(processed)

    @property
    def is_identity(self) -> bool:
        """Whether there is nothing to do."""
        return self._steps.is_identity and self.whitening is None

    def check_pixels(self, images: Matrix) -> Shape:
        """Do as `check_images`, but for the whitening, which need not be fixed yet."""
        shape = self.output_shape(images.shape[1:])
        if not self.is_identity:
            check_pixel_size(images, 1.0 if self.scale is None else float(self.scale), self.dtype)
        return shape

    def magnitude(self, images: Matrix, n_examples: int) -> float:
        """Return the largest pixel that checked images turn into, or more than that.

        More if the whitening is yet to be made, from `n_examples` images and these among them.
        """
        if not isinstance(self.whitening, ZCA):
            return magnitude(self._process(images))
        return self.whitening.bound(self._steps.apply(images), n_examples)

    @property
    def _steps(self) -> Steps:
        """All steps but the last."""
        return Steps(self.downsample, self.scale, self.deskew, self.grey_channel, self.dtype)
