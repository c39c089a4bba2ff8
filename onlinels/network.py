"""ShallowConvClassifier: from images to labels, both stages of the paper in one estimator."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from onlinels.arrays import Floats, Matrix, check_count, check_weights
from onlinels.classifier import LeastSquaresClassifier
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import Shape, read_image, read_images
from onlinels.features.shallow import ConvolutionalFeatures
from onlinels.labels import Label, read_label, read_labels
from onlinels.merging import check_mergeable, same
from onlinels.presets import preset_settings
from onlinels.scoring import ScoringClassifier
from onlinels.warm_up import WarmUp

BLOCK_IMAGES = 1000
"""Images turned into activations at once, to bound memory."""


class ShallowConvClassifier(ScoringClassifier):
    """Classify images by the paper's network, learnt online and exactly in one pass.

    Both stages in one estimator: `ConvolutionalFeatures`, `HiddenLayer` and
    `LeastSquaresClassifier`. Only the output weights are learnt, and they equal the batch solution
    on the activations of all images learnt.

    Parameters
    ----------
    features : ConvolutionalFeatures, optional
        Stage 1; the paper's hand-designed filters by default.
    hidden : HiddenLayer, optional
        The hidden layer; 1,000 units with class-difference input weights by default.
    classifier : LeastSquaresClassifier, optional
        The linear layer; without intercept by default, as in the paper.
    warm_up : int
        Number of images from which class-difference input weights are made. Not used if the
        hidden layer's weights are random or made from examples already.

    Notes
    -----
    What depends on data is fixed once: when `warm_up` images have come, or earlier by
    `fix_features`. Until then the images are held, and a least-squares classifier on their pixels
    answers predictions. Then the images held are learnt like any others and dropped. From then on
    nothing is kept, no cutting or order of the stream changes the result, and models that share
    their features merge. If all warm-up images are of one class, differences of any two of them
    serve as input weights.

    `X` may be an array (n, height, width[, n_channels]), a list of {"image": array}, or, with
    `image_shape`, rows of pixels: a flat array, a frame, dicts of pixels (an absent one is 0).

    Cost per image: that of the two stages and ``n_hidden^2`` operations for the statistics, which
    take ``8 n_hidden^2`` bytes; solving costs ``n_hidden^3 / 3`` operations when a prediction is
    first asked for after learning.

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> model = ShallowConvClassifier.from_preset("digits")
    >>> model.learn_many(digits.images[:1000], digits.target[:1000])
    >>> round(float(np.mean(model.predict_many(digits.images[1000:]) == digits.target[1000:])), 2)
    0.98
    """

    def __init__(
        self,
        features: ConvolutionalFeatures | None = None,
        hidden: HiddenLayer | None = None,
        classifier: LeastSquaresClassifier | None = None,
        warm_up: int = 1000,
    ) -> None:
        check_count("warm_up", warm_up, 2)
        self.features = ConvolutionalFeatures() if features is None else features
        self.hidden = HiddenLayer(1000, "difference") if hidden is None else hidden
        self.classifier = (
            LeastSquaresClassifier(fit_intercept=False) if classifier is None else classifier
        )
        self.warm_up = warm_up
        self._hidden = self.hidden.clone() if self.hidden.is_fixed else None
        self._linear = self.classifier.clone()
        self._waiting = WarmUp(LeastSquaresClassifier())
        self._image_shape: Shape | None = None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Return a network with settings that are known to classify well.

        Parameters
        ----------
        name : "mnist" or "digits"
            28x28 images such as MNIST and Fashion-MNIST, or 8x8 digits.
        **overrides
            Any setting of the three parts (`n_hidden`, `stride`, `ridge`, `seed`, …) or `warm_up`.

        Raises
        ------
        ValueError
            If the preset or a setting is not known.

        Examples
        --------
        >>> ShallowConvClassifier.from_preset("mnist", n_hidden=100).hidden.n_hidden
        100
        """
        settings = preset_settings(name, overrides)
        return cls(
            ConvolutionalFeatures(**settings["features"]),
            HiddenLayer(**settings["hidden"]),
            LeastSquaresClassifier(**settings["classifier"]),
            **settings["network"],
        )

    @property
    def features_fixed(self) -> bool:
        """Whether everything that depends on data is fixed, so that rows are learnt at once."""
        return self._hidden is not None

    @property
    def _answering(self) -> LeastSquaresClassifier:
        return self._linear if self.features_fixed else self._waiting.classifier

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._answering.classes

    @property
    def count(self) -> int:
        """Number of images learnt, those held for the warm-up included."""
        return self._answering.count

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_hidden, n_classes), read-only; on pixels before features are fixed."""
        return self._answering.output_weights

    @property
    def intercept(self) -> Floats:
        """Constant added to every score, (n_classes,), read-only."""
        return self._answering.intercept

    @property
    def ridge_(self) -> float:
        """The ridge in force."""
        return self._answering.ridge_

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """Numbers of the hidden units, in the order of the rows of `output_weights`."""
        return self._answering.feature_names

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one image, {"image": array} or a dict of pixels; see `learn_many`."""
        images = read_image(x, self.features.image_shape).values
        self._learn(images, [read_label(y)], np.full(1, check_weights(w, 1)))

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn a mini-batch of images, with the same result as learning them one by one.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or rows of pixels if `image_shape` is set
        y : array, series or list of n labels
        w : float, or array, series or list of n floats, optional
            Weights, at least 0; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        images = read_images(X, self.features.image_shape).values
        labels = read_labels(y, len(images))
        weights = np.broadcast_to(check_weights(w, len(images)), len(images))
        self._learn(images, labels, weights)

    def _learn(self, images: Matrix, labels: Sequence[Label], weights: Floats) -> None:
        self._check_shape(images)
        self._image_shape = images.shape[1:]
        if not self.features_fixed:
            wanted = self.warm_up - self._waiting.count
            self._waiting.hold(images[:wanted], labels[:wanted], weights[:wanted])
            images, labels, weights = images[wanted:], labels[wanted:], weights[wanted:]
            if self._waiting.count >= self.warm_up:
                self.fix_features()
        for block in self._blocks(len(images)):
            self._linear.learn_many(self._activations(images[block]), labels[block], weights[block])

    def fix_features(self) -> None:
        """Fix what depends on data now, from the images held so far, and learn them.

        Useful at the end of a stream that is shorter than the warm-up. Does nothing if the
        features are fixed already.

        Raises
        ------
        ValueError
            If fewer than two images have come.
        """
        if self.features_fixed:
            return
        images, labels, weights = self._waiting.rows()
        if len(images) < 2:
            raise ValueError(
                f"{len(images)} images have come, expected at least 2 to make input weights from. "
                "Learn more images first."
            )
        examples = self.features.transform_many(images)
        names = labels if len(set(labels)) > 1 else list(range(len(labels)))
        hidden = HiddenLayer.from_examples(examples, names, **self.hidden._get_params())
        self._linear.learn_many(hidden.transform_many(examples), labels, weights)
        self._hidden = hidden
        self._waiting = WarmUp(LeastSquaresClassifier())

    def _check_shape(self, images: Matrix) -> None:
        shape = images.shape[1:]
        if self._image_shape is not None and shape != self._image_shape:
            raise ValueError(
                f"An image has shape {shape}, expected {self._image_shape} as before. Resize it."
            )
        self.features.n_features(shape)

    def _activations(self, images: Matrix) -> Matrix:
        assert self._hidden is not None
        activations: Matrix = self._hidden.transform_many(self.features.transform_many(images))
        return activations

    def _blocks(self, n_images: int) -> Iterator[slice]:
        return (slice(s, s + BLOCK_IMAGES) for s in range(0, n_images, BLOCK_IMAGES))

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        return self._image_scores(read_image(x, self.features.image_shape).values)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        images = read_images(X, self.features.image_shape)
        return images.source, self._image_scores(images.values)

    def _image_scores(self, images: Matrix) -> Floats:
        self._check_shape(images)
        if not self.features_fixed:
            return self._waiting.scores(images)
        blocks = [self._activations(images[block]) for block in self._blocks(len(images))]
        return np.concatenate([self._linear.scores_many(block) for block in blocks])

    def empty(self) -> Self:
        """Return a network with the same settings and fixed features that has learnt nothing.

        Models that start from one model's `empty` share their features, so they merge.
        """
        model = self.clone()
        model._hidden = self._hidden
        model._image_shape = self._image_shape if self.features_fixed else None
        return model

    def merge(self, other: Self) -> Self:
        """Add what another network has learnt, in place, matching classes by name.

        Parameters
        ----------
        other : ShallowConvClassifier
            A network with the same settings and features, or one whose features are not fixed
            yet: its images are then learnt. It stays as it is.

        Returns
        -------
        ShallowConvClassifier
            This network, as if it had learnt the images of both.

        Raises
        ------
        TypeError, ValueError
            If settings or fixed features differ; nothing has changed then.
        """
        check_mergeable(self, other)
        if not other.features_fixed:
            if other._waiting.count:
                self._learn(*other._waiting.rows())
        elif self._hidden is not None:
            self._check_same_features(other)
            self._linear.merge(other._linear)
        else:
            held = self._waiting
            self._hidden, self._linear = other._hidden, copy.deepcopy(other._linear)
            self._image_shape = other._image_shape
            self._waiting = WarmUp(LeastSquaresClassifier())
            if held.count:
                self._learn(*held.rows())
        return self

    def _check_same_features(self, other: Self) -> None:
        assert self._hidden is not None
        assert other._hidden is not None
        fixed_alike = same(self._hidden._get_params(), other._hidden._get_params())
        if not fixed_alike or self._image_shape != other._image_shape:
            raise ValueError(
                "other has other fixed features, expected the same. They were made from other "
                "images; start all models from one model's empty()."
            )

    def __add__(self, other: Self) -> Self:
        """Return a new network that has learnt the images of both."""
        return copy.deepcopy(self).merge(other)

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the state of the features and the score of every class for one image."""
        state = "fixed" if self.features_fixed else f"warming up, {self.count} of {self.warm_up}"
        scores = [f"{label}: score {score:.5f}" for label, score in self.scores_one(x).items()]
        return "\n".join([f"features {state}", *scores])
