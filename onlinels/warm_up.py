"""Images held until the network's features can be fixed, and answers in the meantime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.labels import Label

PIXEL_RIDGE = 0.3
"""Measured on 8x8 and 28x28 digits: best or next to it for 50 to 900 images of unit length."""


class WarmUp:
    """Hold images, and answer from a least-squares classifier on their pixels.

    The images are scaled to unit length for it, so one ridge suits all.

    Examples
    --------
    >>> waiting = WarmUp()
    >>> waiting.hold(np.ones((2, 4, 4, 1)), ["a", "b"], np.ones(2))
    >>> waiting.count, waiting.classifier.classes
    (2, ('a', 'b'))
    """

    def __init__(self) -> None:
        self.classifier = LeastSquaresClassifier(ridge=PIXEL_RIDGE)
        self._images: list[Matrix] = []
        self._labels: list[Label] = []
        self._weights: list[float] = []

    @property
    def count(self) -> int:
        """Number of images held."""
        return len(self._labels)

    def hold(self, images: Matrix, labels: Sequence[Label], weights: Floats) -> None:
        """Keep a copy of checked images (n, height, width, n_channels) with labels and weights."""
        self.classifier.learn_many(_pixels(images), labels, weights)
        self._images.append(images.copy())
        self._labels.extend(labels)
        self._weights.extend(weights.tolist())

    def rows(self) -> tuple[Matrix, list[Label], Floats]:
        """Return all images held, with labels and weights."""
        images = np.concatenate(self._images) if self._images else np.empty((0, 1, 1, 1))
        return images, list(self._labels), np.array(self._weights)

    def scores(self, images: Matrix) -> Floats:
        """Return the scores (n, n_classes) of the classifier on pixels."""
        scores: Floats = self.classifier.scores_many(_pixels(images))
        return scores


def _pixels(images: Matrix) -> Floats:
    pixels: Floats = images.reshape(len(images), -1).astype(np.float64)
    lengths = np.linalg.norm(pixels, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0
    pixels /= lengths
    return pixels
