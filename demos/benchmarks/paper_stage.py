"""Stage 1 of a network of the paper by itself, for curves that need its features only once."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onlinels import ConvolutionalFeatures, ImagePreprocessing

Array = NDArray[Any]
Parts = dict[str, dict[str, Any]]


class Stage:
    """Preprocessing and filters, made from examples."""

    def __init__(self, images: Array, labels: Array, settings: Parts) -> None:
        wanted = {"whitening": None, **settings["preprocessing"]}
        self.before = ImagePreprocessing.from_examples(images, **wanted)
        images = self.before.transform_many(images)
        self.filters = ConvolutionalFeatures.from_examples(images, labels, **settings["features"])

    def features(self, images: Array) -> Array:
        """Return the features (n, n_features) of images."""
        found: Array = self.filters.transform_many(self.before.transform_many(images))
        return found
