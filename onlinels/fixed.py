"""The network once its features are fixed: activations, linear layer, merging."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.commit import Commit
from onlinels.examples import Examples, joined
from onlinels.features.convolution.shallow import ConvolutionalFeatures
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.features.preprocessing.preprocessing import ImagePreprocessing
from onlinels.finishing import learn_and_finish
from onlinels.merging import same
from onlinels.ridge import Ridge

BLOCK_IMAGES = 1000
"""Images turned into activations at once, to bound memory."""


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
        network.learn_anew(batches)
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

    def learn(self, batches: Sequence[Examples], commit: Commit) -> None:
        """Learn batches of images with labels, weights and times: all of them, or none.

        Parameters
        ----------
        batches : sequence of Examples
        commit : Commit
            Changes elsewhere that are made with this one; made twice, they are as made once.

        Raises
        ------
        ValueError
            If an image does not fit the features, or the linear layer refuses a row.

        Notes
        -----
        A block is learnt whole or not at all. Several of them are learnt in a copy of the linear
        layer, which is there as long as this takes.
        """
        blocks = self._blocks(batches)
        if len(blocks) > 1:
            layer = copy.deepcopy(self.classifier)
            self._learn_blocks(layer, blocks)
            commit.set(self, classifier=layer)
            commit.make()
        else:
            layer = self.classifier
            learn_and_finish(layer, lambda: self._learn_blocks(layer, blocks), commit.make)

    def learn_anew(self, batches: Sequence[Examples]) -> None:
        """Learn batches as `learn` does, in a network that is dropped if it is refused."""
        self._learn_blocks(self.classifier, self._blocks(batches))

    def _blocks(self, batches: Sequence[Examples]) -> list[Examples]:
        return [part for batch in joined(batches) for part in batch.blocks(BLOCK_IMAGES)]

    def _learn_blocks(self, layer: LeastSquaresClassifier, blocks: Sequence[Examples]) -> None:
        for block in blocks:
            rows = self._block_activations(block.images)
            layer.learn_many(rows, block.labels, block.weights, block.times)

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
