"""A network of the paper, all of it that depends on data made from the first training images.

`ShallowConvClassifier.from_preset` does the same by itself. Until then it answers from a classifier
on the pixels, whose statistics would take 2.7 GB of NORB's 96 x 96 x 2 pixels: nobody asks here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)
from onlinels.features.preprocessing.preprocessing import ImagePreprocessing

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


def make_network(images: Array, labels: Array, settings: Parts) -> ShallowConvClassifier:
    """Return a network that has learnt nothing yet, its parts made from examples."""
    stage = Stage(images, labels, settings)
    hidden = HiddenLayer.from_examples(stage.features(images), labels, **settings["hidden"])
    layer = LeastSquaresClassifier(**settings["classifier"])
    return ShallowConvClassifier(stage.filters, hidden, layer, preprocessing=stage.before)


def joined(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Put mini-batches of images and labels together."""
    images, labels = zip(*batches, strict=True)
    return np.concatenate(images), np.concatenate(labels)
