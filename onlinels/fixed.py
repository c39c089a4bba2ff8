"""The network once its features are fixed: activations, linear layer, merging."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.examples import Examples, joined
from onlinels.features.convolution.shallow import ConvolutionalFeatures
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.features.preprocessing.preprocessing import ImagePreprocessing
from onlinels.merging import same
from onlinels.ridge import Ridge

BLOCK_IMAGES = 1000
"""Images turned into activations at once, to bound memory."""

SAFE_WEIGHT = 1e50
"""Weight that no squared activation, of features that are checked, is too large for."""


class FixedNetwork:
    """Both stages with nothing left to fix, and the linear layer that learns.

    Parameters
    ----------
    preprocessing : ImagePreprocessing
    features : ConvolutionalFeatures
    hidden : HiddenLayer
        Like the two before, one that can transform.
    classifier : LeastSquaresClassifier
        The linear layer, on hidden activations.
    """

    def __init__(
        self,
        preprocessing: ImagePreprocessing,
        features: ConvolutionalFeatures,
        hidden: HiddenLayer,
        classifier: LeastSquaresClassifier,
    ) -> None:
        self.preprocessing = preprocessing
        self.features = features
        self.hidden = hidden
        self.classifier = classifier

    @classmethod
    def from_examples(
        cls,
        preprocessing: ImagePreprocessing,
        features: ConvolutionalFeatures,
        hidden: HiddenLayer,
        classifier: LeastSquaresClassifier,
        batches: Sequence[Examples],
    ) -> Self:
        """Make whitening, filters and input weights from batches of images, and learn these.

        Differences are of images of distinct classes, or, if all are of one class, of any two.

        Raises
        ------
        ValueError
            If there are fewer than two images.
        """
        labels = [label for batch in batches for label in batch.labels]
        if len(labels) < 2:
            raise ValueError(
                f"{len(labels)} images have come, expected at least 2 to make input weights from. "
                "Learn more images first."
            )
        batches = joined(batches)
        images = np.concatenate([batch.images for batch in batches])
        before = ImagePreprocessing.from_examples(images, **preprocessing._get_params())
        images = before.transform_many(images)
        filters = ConvolutionalFeatures.from_examples(images, labels, **features._get_params())
        examples = filters.transform_many(images)
        names = labels if len(set(labels)) > 1 else range(len(labels))
        made = HiddenLayer.from_examples(examples, list(names), **hidden._get_params())
        del examples, images
        network = cls(before, filters, made, classifier)
        network.learn(batches)
        return network

    def empty(self) -> Self:
        """Return a network with the same features that has learnt nothing."""
        parts = (self.preprocessing, self.features, self.hidden.clone())
        return type(self)(*parts, self.classifier.empty())

    def _preprocessed(self, images: Matrix) -> Matrix:
        """Return what the filters meet, or raise if they cannot."""
        processed: Matrix = self.preprocessing.transform_many(images)
        n_features = self.features.check_images(processed, self.hidden.dtype)
        self.hidden.check_width(n_features)
        return processed

    def _block_activations(self, images: Matrix) -> Matrix:
        features = self.features.transform_many(self._preprocessed(images))
        activations: Matrix = self.hidden.transform_many(features)
        return activations

    def _activations(self, images: Matrix) -> Iterator[Matrix]:
        for start in range(0, len(images), BLOCK_IMAGES):
            yield self._block_activations(images[start : start + BLOCK_IMAGES])

    def activations(self, images: Matrix) -> Matrix:
        """Return the hidden activations (n, n_hidden) of images."""
        activations = np.empty((len(images), self.hidden.n_hidden), dtype=self.hidden.dtype)
        start = 0
        for block in self._activations(images):
            activations[start : start + len(block)] = block
            start += len(block)
        return activations

    def learn(self, batches: Sequence[Examples]) -> None:
        """Learn batches of images with labels, weights and times: all of them, or none.

        Raises
        ------
        ValueError
            If an image does not fit the features, or the linear layer refuses a row.
        """
        blocks = [part for batch in joined(batches) for part in batch.blocks(BLOCK_IMAGES)]
        if len(blocks) > 1:
            # Processed here to be checked, and once more to be learnt: all of a large batch at
            # once could take many times its memory.
            for block in blocks:
                self._preprocessed(block.images)
        risky = self._may_refuse_later(blocks)
        before = copy.deepcopy(self.classifier) if risky else self.classifier
        try:
            for block in blocks:
                rows = self._block_activations(block.images)
                self.classifier.learn_many(rows, block.labels, block.weights, block.times)
        except ValueError:
            self.classifier = before
            raise

    def _may_refuse_later(self, blocks: Sequence[Examples]) -> bool:
        """Tell, at little cost, whether rows might be refused when others are learnt already.

        A block is learnt whole or not at all. Squares of features that are checked are never too
        large, but cubes may be, as may rows of huge weights or rows for a ridge held inside.
        """
        if len(blocks) < 2:
            return False
        heaviest = max(float(np.max(block.weights)) for block in blocks)
        cubes = self.hidden.activation == "cube"
        recursive = self.classifier.accumulator == "recursive"
        return cubes or recursive or heaviest > SAFE_WEIGHT

    def unlearn(self, examples: Examples) -> None:
        """Take checked images out again."""
        rows = self.activations(examples.images)
        self.classifier.unlearn_many(rows, examples.labels, examples.weights)

    def at_ridge(self, ridge: Ridge) -> LeastSquaresClassifier:
        """Return the linear layer under a ridge, which enters when weights are solved."""
        self.classifier.ridge = ridge
        return self.classifier

    def scores(self, images: Matrix, ridge: Ridge) -> Floats:
        """Return the scores (n, n_classes) of images."""
        layer, blocks = self.at_ridge(ridge), self._activations(images)
        return np.concatenate([layer.scores_many(block) for block in blocks])

    def check_same_features(self, other: FixedNetwork) -> None:
        """Raise unless another network of the same settings has the same fixed features.

        Raises
        ------
        ValueError
            If they were made from other images.
        """
        parts = ("preprocessing", "features", "hidden")
        params = [[getattr(net, part)._get_params() for part in parts] for net in (self, other)]
        if not all(map(same, *params)):
            raise ValueError(
                "other has other fixed features, expected the same. They were made from other "
                "images; start all models from one model's empty()."
            )
