"""Images held until the network's features can be fixed, and answers in the meantime."""

from __future__ import annotations

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.examples import Examples

PIXEL_RIDGE = 0.3
"""Measured on 8x8 and 28x28 digits: best or next to it for 50 to 900 images of unit length."""


class WarmUp:
    """Hold images, and answer from a least-squares classifier on their pixels.

    The images are scaled to unit length for it, so one ridge suits all.

    Examples
    --------
    >>> waiting = WarmUp()
    >>> waiting.hold(Examples(np.ones((2, 4, 4, 1)), ["a", "b"], np.ones(2), None))
    >>> waiting.count, waiting.classifier.classes
    (2, ('a', 'b'))
    """

    def __init__(self) -> None:
        self.classifier = LeastSquaresClassifier(ridge=PIXEL_RIDGE)
        self.batches: list[Examples] = []

    @property
    def count(self) -> int:
        """Number of images held."""
        return self.classifier.count

    def hold(self, examples: Examples) -> None:
        """Keep a copy of a batch."""
        self.classifier.learn_many(_pixels(examples.images), examples.labels, examples.weights)
        self.batches.append(examples.copied())

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
