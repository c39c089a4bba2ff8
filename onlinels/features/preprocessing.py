"""ImagePreprocessing: downsample, scale, add grey and whiten, before the filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh

from onlinels.checks import (
    PRECISIONS,
    Floats,
    Matrix,
    check_between,
    check_choice,
    check_count,
    check_flag,
)
from onlinels.features.images import (
    IMAGE,
    MAX_PIXEL,
    Images,
    Shape,
    block_means,
    channels_hint,
    check_image_shape,
    check_pixels,
    check_some,
    of_images,
    read_image,
    read_images,
)
from onlinels.features.transformer import FixedTransformer, itself, not_made
from onlinels.numerics import Frozen
from onlinels.rows.answers import output_table
from onlinels.rows.batch import matched_by_position
from onlinels.saving import is_small, savable, settings_hold

GREY_WEIGHTS = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in perceived brightness (ITU-R BT.601)."""


def fit_whitening(rows: Matrix, variance_offset: float) -> tuple[Floats, Floats]:
    """Return the mean and matrix of (x - mean) matrix, the ZCA whitening of rows (n, n_values)."""
    # n n_values^2 + 9 n_values^3 operations.
    # The matrix is V (D + variance_offset)^(-1/2) V', where V D V' is the sample's covariance:
    # A. J. Bell and T. J. Sejnowski (1997); A. Coates, H. Lee and A. Y. Ng (2011) for the offset.
    values = np.asarray(rows, dtype=np.float64)
    mean = values.mean(axis=0)
    centred = values - mean
    variances, directions = eigh(centred.T @ centred / len(values))
    # Rounding may make variances slightly negative.
    scales = 1.0 / np.sqrt(np.maximum(variances, 0.0) + variance_offset)
    return mean, (directions * scales) @ directions.T


FEW_EXAMPLES_SHARE = 0.1
"""Share of the mean variance in the offset of a whitening that few examples are fitted to.

Accuracy of preset "cifar10" with 1,000 hidden units, in percent: on 2,000 images of CIFAR-10 (mean
of two draws; the last line of one) and on 24 x 24 frames of digits over photographs, with noise:

    images    CIFAR-10: share 0, share 0.1    frames: share 0, share 0.1
    400                 28.1     33.2                 58.6     83.5
    800                 40.2     40.8                 65.8     84.9
    1,600               50.3     50.3                 77.3     79.9
"""


def offset_for(rows: Matrix, offset: float) -> float:
    """Return the variance offset of a whitening of n examples (n, p): larger if n < 3 p.

    Directions of little variance in few examples are noise, which a whitening amplifies.
    """
    n, p = rows.shape
    if n >= 3 * p:
        return offset
    share: float = FEW_EXAMPLES_SHARE * (3.0 * p / n - 1.0)
    return offset + share * float(rows.var(axis=0, dtype=np.float64).mean())


def _by_channel(images: Matrix) -> Matrix:
    """Return the pixels (n_channels, n, n_pixels) of images (n, height, width, n_channels)."""
    return np.moveaxis(images, 3, 0).reshape(images.shape[3], len(images), -1)


def _fits(whitening: Any) -> bool:
    n_channels, n_pixels = whitening.means.shape
    same = whitening.matrices.shape == (n_channels, n_pixels, n_pixels)
    return same and prod(whitening.image_shape) == n_pixels and len(whitening.image_shape) == 2


@savable(_fits)
@dataclass(frozen=True, eq=False, repr=False)
class FixedZCA(Frozen):
    """Whitening of all pixels of a channel together, (x - mean) matrix, fitted to examples."""

    image_shape: tuple[int, ...]
    means: Matrix
    matrices: Matrix

    def __repr__(self) -> str:
        height, width = self.image_shape
        return f"FixedZCA({height} x {width} pixels, {len(self.means)} channels)"

    def apply(self, images: Matrix) -> Matrix:
        """Whiten images (n, height, width, n_channels) with one matrix product per channel."""
        whitened = (_by_channel(images) - self.means[:, None]) @ self.matrices
        by_channel = whitened.reshape(-1, *images.shape[:3])
        return np.ascontiguousarray(np.moveaxis(by_channel, 0, 3), images.dtype)


@savable(lambda steps: is_small(*(steps.image_shape or ())) and settings_hold(steps))
@dataclass(eq=False, repr=False)
class ImagePreprocessing(FixedTransformer):
    """Downsample images, scale them, add a grey channel and whiten, in this order.

    1. Blocks of `downsample` x `downsample` pixels are replaced by their means.
    2. Pixels are divided by `scale`.
    3. Grey, 0.299 R + 0.587 G + 0.114 B, is added to red, green and blue as a fourth channel.
    4. Every channel x becomes (x - mean) V (D + variance_offset)^(-1/2) V', where V D V' is the
       covariance of its pixels in a warm-up sample (ZCA whitening).

    Parameters
    ----------
    downsample : int
        Side of the blocks, in pixels. Both sides of an image must be multiples of it.
    scale : float, from 1e-30 to 1e30, optional
        Divisor of the pixels: 255.0 maps bytes to [0, 1].
    grey_channel : bool
        Whether to add grey to images of 3 channels.
    whitening : float from 1e-20 to 1e20, optional
        The variance offset of the whitening, in squared units of the pixels; `from_examples` fits
        the whitening before use. Directions of much smaller variance (fine detail and noise) are
        all amplified equally. 0.001 suits pixels in [0, 1].
    image_shape : (height, width) or (height, width, n_channels), optional
        Shape of an image before all steps. Required for dicts of pixels, frames and flat arrays;
        for other input it is checked.
    dtype : "float64" or "float32"
        Precision of the steps and of the processed images.

    Raises
    ------
    TypeError, ValueError
        If a setting is not one of these, or `image_shape` does not fit the others.

    Notes
    -----
    Images are returned in the form in which they are given:

    =======================================  ==============================================
    input                                    output
    =======================================  ==============================================
    array (n, height, width[, n_channels])   array with the same number of axes
    array (n, n_pixels)                      array of images
    {"image": array}                         {"image": array}
    dict of pixels                           {"h0": …, "h1": …}, row by row
    frame                                    frame with the columns h0, h1, …
    =======================================  ==============================================

    After dicts of pixels or frames, the next step in a pipeline needs
    ``image_shape=preprocessing.output_shape(image_shape)``.

    Without any step, arrays are returned unchanged: same dtype, same memory. Whitening n images of
    p pixels costs ``2 n p^2`` operations per channel, as one matrix product. Fitting it costs
    ``n p^2 + 9 p^3`` operations and ``8 p^2`` bytes per channel: seconds for 32 x 32 pixels, hours
    and gigabytes for 96 x 96.

    Measured accuracy on 4,000 other images after learning 8,000 images of CIFAR-10, with
    hand-designed filters and 2,000 hidden units:

    =============  ========
    whitening      accuracy
    =============  ========
    None           54.2%
    0.1            54.7%
    0.01           56.4%
    0.001          58.1%
    0.0001         58.2%
    =============  ========

    Use a warm-up sample of at least 3 images per pixel. With n images of p pixels, n < 3 p, the
    variance offset is larger by (3 p / n - 1) / 10 of the mean variance of the pixels, because a
    whitening amplifies noise. Noisy images may be classified better without whitening.

    Examples
    --------
    >>> halved = ImagePreprocessing(downsample=2, scale=255.0)
    >>> halved.transform_one({"image": np.full((2, 4), 51)})
    {'image': array([[0.2, 0.2]])}
    >>> photos = np.random.default_rng(0).integers(0, 256, (50, 12, 12, 3))
    >>> ImagePreprocessing.from_examples(photos, downsample=3).transform_many(photos).shape
    (50, 4, 4, 3)
    """

    downsample: int = 1
    scale: float | None = None
    grey_channel: bool = False
    whitening: float | FixedZCA | None = None
    image_shape: Shape | None = None
    dtype: str = "float64"

    __deepcopy__ = itself

    def __post_init__(self) -> None:
        check_count("downsample", self.downsample, 1)
        if self.scale is not None:
            check_between("scale", self.scale, 1e-30, 1e30)
        check_flag("grey_channel", self.grey_channel)
        check_choice("dtype", self.dtype, PRECISIONS)
        if not self.is_fixed:
            # Whitened pixels then fit any precision.
            check_between("whitening", self.whitening, 1e-20, 1e20)
        if self.image_shape is not None:
            self.output_shape(self.image_shape)

    @classmethod
    @matched_by_position
    def from_examples(cls, X: Any, y: Any = None, **settings: Any) -> Self:
        """Return a preprocessing whose whitening is fitted to a warm-up sample.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images before any step.
        y : optional
            Ignored.
        **settings
            Settings of the class; `whitening` is 0.001 by default. If it is None or fitted
            already, nothing is fitted to `X`.

        Returns
        -------
        ImagePreprocessing
            A preprocessing that is ready for use.

        Raises
        ------
        TypeError, ValueError
            If a setting is invalid, or `X` cannot be read as images that fit the settings.

        Examples
        --------
        >>> photos = np.random.default_rng(0).random((50, 4, 4))
        >>> ImagePreprocessing.from_examples(photos, whitening=0.01).is_fixed
        True
        """
        model = cls(**{"whitening": 0.001, **settings})
        images = check_some(read_images(X, model.image_shape))
        model.check_images(images)
        if model.whitening is None or isinstance(model.whitening, FixedZCA):
            return model
        images, offset = model.outlook(images), float(model.whitening)
        # n p^2 + 9 p^3 operations and 8 p^2 bytes per channel for p pixels.
        whitenings = (fit_whitening(rows, offset_for(rows, offset)) for rows in _by_channel(images))
        fitted = zip(*whitenings, strict=True)
        means, matrices = (np.stack(each).astype(PRECISIONS[model.dtype]) for each in fitted)
        return cls(**{**settings, "whitening": FixedZCA(images.shape[1:3], means, matrices)})

    @property
    def is_fixed(self) -> bool:
        """Whether the preprocessing can transform: False only for a whitening without examples."""
        return self.whitening is None or isinstance(self.whitening, FixedZCA)

    @property
    def is_identity(self) -> bool:
        """Whether the preprocessing returns images unchanged."""
        unscaled = self.downsample == 1 and self.scale is None
        return unscaled and not (self.grey_channel or self.whitening)

    def output_shape(self, image_shape: Shape) -> Shape:
        """Return the shape of processed images.

        Parameters
        ----------
        image_shape : (height, width) or (height, width, n_channels)
            Shape of an image before all steps.

        Returns
        -------
        (height, width) or (height, width, n_channels)
            Shape of the image after all steps.

        Raises
        ------
        ValueError
            If a side is not a multiple of `downsample`, grey is added to images without 3 channels,
            or the whitening was fitted to images of another shape.

        Examples
        --------
        >>> ImagePreprocessing(downsample=3, grey_channel=True).output_shape((96, 96, 3))
        (32, 32, 4)
        """
        check_image_shape("image_shape", image_shape)
        height, width, n_channels = (*image_shape, 1)[:3]
        if height % self.downsample or width % self.downsample:
            found = f"{height} x {width} pixels, expected multiples of downsample={self.downsample}"
            raise ValueError(f"Images have {found}. Crop or pad them.{channels_hint(image_shape)}")
        if self.grey_channel and n_channels != 3:
            problem = f"Images have {n_channels} channels, expected 3 (RGB) to add grey"
            raise ValueError(f"{problem}. Pass grey_channel=False.{channels_hint(image_shape)}")
        sides = height // self.downsample, width // self.downsample
        shape = (*sides, n_channels + self.grey_channel)
        fixed = self.whitening
        if isinstance(fixed, FixedZCA) and shape != (*fixed.image_shape, len(fixed.means)):
            found = f"{sides[0]} x {sides[1]} pixels and {shape[2]} channels"
            problem = f"Images to whiten have {found}, expected those of {fixed}"
            raise ValueError(f"{problem}. Use from_examples again.{channels_hint(image_shape)}")
        return shape[: len(image_shape)]

    def check_images(self, images: Matrix) -> Shape:
        """Return the shape (height, width, n_channels) of processed images.

        Parameters
        ----------
        images : ndarray (n, height, width, n_channels)
            Images before any step.

        Raises
        ------
        ValueError
            If the images do not fit the settings, or a pixel is too large for the precision.
        """
        shape = self.output_shape(images.shape[1:])
        scale = 1.0 if self.scale is None else float(self.scale)
        if not self.is_identity:
            allowed = MAX_PIXEL[self.dtype] * min(1.0, scale)
            check_pixels(images, allowed, f"dtype={self.dtype!r} and scale={scale:g}")
        return shape

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the processed image of one sample: {"image": array}, or a dict of pixels."""
        return dict(self._output(read_image(x, self.image_shape))[0])

    def transform_many(self, X: Any) -> Any:
        """Return the processed images of a mini-batch, in the kind of `X`.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or (n, n_pixels), frame or list of dicts
            Images. Rows of pixels need `image_shape`.

        Returns
        -------
        array, frame or list of dicts
            Processed images; rows of pixels in an array become images.

        Raises
        ------
        TypeError, ValueError
            If the whitening still needs examples, `X` cannot be read as images of one shape, or
            `check_images` raises.
        """
        return self._output(read_images(X, self.image_shape))

    def _output(self, images: Images) -> Any:
        """Return processed images in the kind of their source."""
        if not self.is_fixed:
            raise not_made(f"whitening={self.whitening!r} is", "ImagePreprocessing")
        processed = of_images(self.outlook, images)
        if images.from_pixels:
            rows = processed.reshape(len(processed), prod(processed.shape[1:]))
            return output_table(images.source, rows, False)
        channels = slice(None) if images.has_channels else 0
        if isinstance(images.source, np.ndarray):
            return processed[..., channels]
        return [{IMAGE.name: image[..., channels]} for image in processed]

    def outlook(self, images: Matrix) -> Matrix:
        """Return processed images, not whitened if the whitening still needs examples."""
        self.check_images(images)
        if self.is_identity:
            return images
        dtype = PRECISIONS[self.dtype]
        if self.downsample > 1:
            images = block_means(images, self.downsample, dtype)
        images = images.astype(dtype, copy=False)
        if self.scale is not None:
            images = images / dtype(self.scale)
        if self.grey_channel:
            grey = images @ np.array(GREY_WEIGHTS, dtype=dtype)
            images = np.concatenate([images, grey[..., None]], axis=3)
        return self.whitening.apply(images) if isinstance(self.whitening, FixedZCA) else images
