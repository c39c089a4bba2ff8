"""Features of photographs from patches as filters, the same for an image and its mirror image."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinels import ConvolutionalFeatures, Power, TwoSidedRectifier, WhitenedPatches

Array = NDArray[Any]

BRIGHTNESS = 64.0
"""What bytes are divided by: patches of photographs then vary by about 1."""

SMALLEST_DEVIATION = 1e-3
"""Standard deviation of a feature, relative to the mean one, that is not amplified any more."""


@dataclass(frozen=True)
class Settings:
    """All that decides what the features are, apart from the images.

    Parameters
    ----------
    contrast_filters, colour_filters : int
        Whitened patches as filters: of patches brought to mean 0 and about the same variance, and
        of patches as they are, whose brightness and colour count.
    patch_size : int
        Side of the patches, in pixels.
    threshold : float
        Of the two-sided rectifier.
    pool_size, stride : int
        Side of the pooling windows, and how far they are apart. All lie inside the image.
    padding : int
        Black pixels added on every side of the image.
    contrast_offset : float
        Added to the variance of patches (bytes squared) that are brought to the same variance.
    variance_offset : float
        Added to the variance of patches along every direction when they are whitened.
    n_sample : int
        Patches from which the whitening is estimated.
    seed : int
    """

    contrast_filters: int = 2100
    colour_filters: int = 900
    patch_size: int = 6
    threshold: float = 0.5
    pool_size: int = 16
    stride: int = 11
    padding: int = 0
    contrast_offset: float = 10.0
    variance_offset: float = 0.1
    n_sample: int = 100_000
    seed: int = 0

    def banks(self) -> list[dict[str, Any]]:
        """Return the settings of each bank's ConvolutionalFeatures, leaving out empty banks."""
        shared = {
            "pool_size": self.pool_size,
            "stride": self.stride,
            "padding": self.padding,
            "drop_ring": self.pool_size - 1,
            "normalize": False,
            "before_pooling": TwoSidedRectifier(self.threshold),
            "after_pooling": Power(0.5),
            "channels": "joint",
            "dtype": "float32",
            "seed": self.seed,
        }
        contrast = {"contrast_offset": self.contrast_offset / BRIGHTNESS**2}
        return [
            shared | special | {"filters": self._recipe(n_filters, keep_mean)}
            for n_filters, keep_mean, special in (
                (self.contrast_filters, False, contrast),
                (self.colour_filters, True, {}),
            )
            if n_filters
        ]

    def n_features(self, image_shape: tuple[int, ...]) -> int:
        """Return the number of features of images of this shape.

        Raises
        ------
        TypeError, ValueError
            If a setting is none, there is no filter, or no window fits into such images.
        """
        banks = self.banks()
        if not banks:
            raise ValueError(
                "There are 0 filters, expected at least one. Raise one of the numbers."
            )
        return sum(ConvolutionalFeatures(**bank).n_features(image_shape) for bank in banks)

    def _recipe(self, n_filters: int, keep_mean: bool) -> WhitenedPatches:
        n_sample = max(self.n_sample, n_filters)
        return WhitenedPatches(
            n_filters, self.patch_size, self.variance_offset, n_sample, keep_mean=keep_mean
        )

    def as_json(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


class MirrorFeatures:
    """Features of images added to those of their mirror images.

    Learnt with such sums, a row per image, ridge regression gives the output weights that it would
    give if every image were learnt together with its mirror image, from a bank of filters that
    holds the mirror image of every filter: the weights of the differences come out as 0.

    Parameters
    ----------
    stages : list of ConvolutionalFeatures
    scale : ndarray (n_features,)
        What features are multiplied by.
    """

    def __init__(self, stages: list[ConvolutionalFeatures], scale: Array) -> None:
        self.stages = stages
        self.scale = scale

    @classmethod
    def from_examples(cls, images: Array, settings: Settings) -> Self:
        """Make the filters from images (n, height, width[, n_channels]) of bytes."""
        pixels = _pixels(images)
        stages = [ConvolutionalFeatures.from_examples(pixels, **bank) for bank in settings.banks()]
        return cls(stages, np.ones(settings.n_features(images.shape[1:]), dtype=np.float32))

    def scaled_by(self, features: Array) -> Self:
        """Return features of variance 1 in rows (n, n_features) of these features."""
        return type(self)(self.stages, (self.scale * unit_scale(features)).astype(np.float32))

    def transform(self, images: Array) -> Array:
        """Return the features (n, n_features), float32, of images of bytes."""
        pixels = _pixels(images)
        features = np.empty((len(images), len(self.scale)), dtype=np.float32)
        start = 0
        for stage in self.stages:
            part = stage.transform_many(pixels)
            part += stage.transform_many(pixels[:, :, ::-1])
            features[:, start : start + part.shape[1]] = part
            start += part.shape[1]
        features *= self.scale
        return features


def unit_scale(features: Array) -> Array:
    """Return what brings features (n, n_features) to variance 1, (n_features,)."""
    deviations = features.std(axis=0, dtype=np.float64)
    floor = SMALLEST_DEVIATION * deviations.mean() or 1.0
    scale: Array = 1.0 / np.maximum(deviations, floor)
    return scale


def _pixels(images: Array) -> Array:
    return images.astype(np.float32) / np.float32(BRIGHTNESS)
