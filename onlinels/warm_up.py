"""Images held until the network's features can be fixed, and answers in the meantime."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.commit import Commit
from onlinels.examples import Examples
from onlinels.features.pixels import block_means
from onlinels.finishing import learn_and_finish

PIXEL_RIDGE = 0.3
"""Measured on 8x8 and 28x28 digits: best or next to it for 50 to 900 images of unit length."""


MOST_PIXELS = 1024
"""Pixels, of all channels, that the classifier learns: its statistics then take 8 MiB at most."""


class WarmUp:
    """Hold images, and answer from a least-squares classifier on their pixels.

    Images of more than 1,024 pixels and channels are brought to fewer for it, by means of square
    blocks, and all are scaled to unit length, so one ridge suits all. (Statistics of all pixels of
    2 x 96 x 96 would take 2.7 GB, and a prediction after learning minutes.)

    Examples
    --------
    >>> waiting = WarmUp()
    >>> waiting.hold(Examples(np.ones((2, 4, 4, 1)), ["a", "b"], np.ones(2), None), Commit())
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

    def hold(self, examples: Examples, commit: Commit) -> None:
        """Keep a copy of a batch, with changes elsewhere that made twice are as made once."""
        pixels, held = _pixels(examples.images), examples.copied()
        # A new list: to append a batch twice is not to append it once.
        commit.set(self, batches=[*self.batches, held])

        def learn() -> None:
            """Learn the batch."""
            self.classifier.learn_many(pixels, held.labels, held.weights)

        learn_and_finish(self.classifier, learn, commit.make)

    def holding(self, batches: Iterable[Examples]) -> WarmUp:
        """Return one that holds these batches, too."""
        waiting = copy.copy(self)
        waiting.classifier = copy.deepcopy(self.classifier)
        for batch in batches:
            waiting.hold(batch, Commit())
        return waiting

    def scores(self, images: Matrix) -> Floats:
        """Return the scores (n, n_classes) of the classifier on pixels."""
        scores: Floats = self.classifier.scores_many(_pixels(images))
        return scores


def _pixels(images: Matrix) -> Floats:
    *sides, n_channels = images.shape[1:]
    size = 1
    while size < max(sides) and _n_blocks(sides, size) * n_channels > MOST_PIXELS:
        size += 1
    if size > 1:
        behind = [(0, -side % size) for side in sides]
        images = block_means(np.pad(images, [(0, 0), *behind, (0, 0)]), size, np.float64)
    pixels: Floats = images.reshape(len(images), -1).astype(np.float64)
    lengths = np.linalg.norm(pixels, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0
    pixels /= lengths
    return pixels


def _n_blocks(sides: list[int], size: int) -> int:
    """Return how many blocks cover an image, the last of them in part."""
    height, width = sides
    return -(-height // size) * -(-width // size)
