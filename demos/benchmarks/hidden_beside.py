"""The paper's network beside patches: its hidden units are more features of one linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from patch_network import unit_scale

from onlinels import ConvolutionalFeatures, HiddenLayer, Patches

Array = NDArray[Any]

HIDDEN_SIZE = 22.0
"""Standard deviation of hidden units beside patches', whose is 1: as if their ridge were 1/484.

Chosen on held-out training images of Fashion-MNIST.
"""

STAGE: dict[str, Any] = {
    "pool_size": 4,
    "stride": 2,
    "drop_ring": 2,
    "normalize": "image",
    "pooling": "gaussian",
    "dtype": "float32",
}


class Features(Protocol):
    """What turns images into features, and can be scaled."""

    def transform(self, images: Array) -> Array:
        """Return the features (n, n_features), float32, of images."""
        ...

    def scaled_by(self, features: Array) -> Self:
        """Return features of variance 1 in rows (n, n_features) of these features."""
        ...


@dataclass(frozen=True)
class HiddenFeatures:
    """Hidden units of images, added to those of their mirror images.

    43 hand-designed filters and 17 patches, gaussian windows, and squared differences of classes:
    the paper's network up to its linear layer.

    Parameters
    ----------
    stage : ConvolutionalFeatures
    hidden : HiddenLayer
    scale : ndarray (n_hidden,)
        What hidden units are multiplied by.
    """

    stage: ConvolutionalFeatures
    hidden: HiddenLayer
    scale: Array

    @classmethod
    def from_examples(cls, images: Array, labels: Array, n_hidden: int, seed: int) -> Self:
        """Make filters and input weights from labelled images (n, height, width[, n_channels])."""
        recipe = ("hand-designed", Patches(17))
        stage = ConvolutionalFeatures.from_examples(
            images, labels, filters=recipe, seed=seed, **STAGE
        )
        examples = stage.transform_many(images)
        names = labels.tolist()
        settings: dict[str, Any] = {
            "input_weights": "centred-difference",
            "seed": seed,
            "dtype": "float32",
        }
        hidden = HiddenLayer.from_examples(examples, names, n_hidden, **settings)
        return cls(stage, hidden, np.ones(n_hidden, dtype=np.float32))

    def scaled_by(self, features: Array) -> Self:
        """Return features of one size in rows (n, n_hidden) of these features."""
        scale = self.scale * HIDDEN_SIZE * unit_scale(features)
        return type(self)(self.stage, self.hidden, scale.astype(np.float32))

    def transform(self, images: Array) -> Array:
        """Return the features (n, n_hidden), float32, of images of bytes."""
        features: Array = self.hidden.transform_many(self.stage.transform_many(images))
        features += self.hidden.transform_many(self.stage.transform_many(images[:, :, ::-1]))
        features *= self.scale
        return features


@dataclass(frozen=True)
class Joint:
    """Features side by side, for one linear layer.

    Parameters
    ----------
    parts : tuple of Features
    """

    parts: tuple[Features, ...]

    def transform(self, images: Array) -> Array:
        """Return the features (n, n_features), float32, of images of bytes."""
        return np.concatenate([part.transform(images) for part in self.parts], axis=1)
