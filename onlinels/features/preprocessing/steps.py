"""What is done to images before they are whitened."""

from __future__ import annotations

from dataclasses import dataclass

from onlinels.arrays import Matrix
from onlinels.features.images import Shape
from onlinels.features.pixels import scaled_means, with_grey
from onlinels.features.preprocessing.slant import deskew
from onlinels.settings import DTYPES


@dataclass(frozen=True)
class Steps:
    """Downsampling, scaling, deskewing and a grey channel, in this order.

    Parameters
    ----------
    downsample : int
    scale : float or None
    deskew, grey_channel : bool
    dtype : "float64" or "float32"
        As of `onlinels.ImagePreprocessing`, and checked there.
    """

    downsample: int
    scale: float | None
    deskew: bool
    grey_channel: bool
    dtype: str

    @property
    def is_identity(self) -> bool:
        """Whether there is nothing to do."""
        flags = self.deskew or self.grey_channel
        return self.downsample == 1 and self.scale is None and not flags

    def output_shape(self, shape: tuple[int, int, int]) -> Shape:
        """Return what images of (height, width, n_channels) turn into.

        Raises
        ------
        ValueError
            If a side is not a multiple of `downsample`, or there are not 3 channels to make grey
            of.
        """
        height, width, n_channels = shape
        if height % self.downsample or width % self.downsample:
            raise ValueError(
                f"Images have {height} x {width} pixels, expected multiples of "
                f"downsample={self.downsample}. Crop or pad them."
            )
        if self.grey_channel and n_channels != 3:
            raise ValueError(
                f"Images have {n_channels} channels, expected 3 (RGB) to make grey of. "
                "Set grey_channel=False."
            )
        sides = height // self.downsample, width // self.downsample
        return (*sides, n_channels + self.grey_channel)

    def apply(self, images: Matrix) -> Matrix:
        """Return images (n, height, width, n_channels) after all steps, in `dtype`."""
        images = scaled_means(images, self.downsample, self.scale, DTYPES[self.dtype])
        images = deskew(images) if self.deskew else images
        return with_grey(images) if self.grey_channel else images
