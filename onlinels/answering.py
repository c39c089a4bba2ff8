"""The answering half of the network: scores, activations and views, whatever state it is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinels.arrays import Floats, Matrix
from onlinels.classifier import LeastSquaresClassifier
from onlinels.examples import Examples
from onlinels.features.convolution.shallow import ConvolutionalFeatures
from onlinels.features.filters.bank import FilterBank
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.features.images import Shape, read_image, read_images
from onlinels.features.preprocessing.preprocessing import ImagePreprocessing
from onlinels.fixed import FixedNetwork
from onlinels.labels import Label
from onlinels.names import Name
from onlinels.scoring import ScoringClassifier
from onlinels.warm_up import WarmUp


class NetworkAnswers(ScoringClassifier):
    """Answer from the network if its features are fixed, else from the images held so far."""

    preprocessing: ImagePreprocessing
    features: ConvolutionalFeatures
    hidden: HiddenLayer
    classifier: LeastSquaresClassifier
    warm_up: int
    _image_shape: Shape | None
    _waiting: WarmUp
    _fixed: FixedNetwork | None

    @property
    def features_fixed(self) -> bool:
        """Whether everything that depends on data is fixed, so that rows are learnt at once."""
        return self._fixed is not None

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier"}

    @property
    def _linear_layer(self) -> LeastSquaresClassifier:
        if self._fixed is None:
            return self._waiting.classifier
        return self._fixed.at_ridge(self.classifier.ridge)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._linear_layer.classes

    @property
    def count(self) -> int:
        """Number of images learnt, those held for the warm-up included."""
        return self._linear_layer.count

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Numbers of the hidden units (during the warm-up: pixels), in the order of weights."""
        return self._linear_layer.feature_names

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_hidden, n_classes), read-only; during the warm-up those of pixels."""
        return self._linear_layer.output_weights

    @property
    def intercept(self) -> Floats:
        """Constant added to every score, (n_classes,), read-only."""
        return self._linear_layer.intercept

    @property
    def ridge_(self) -> float:
        """The ridge in force."""
        return self._linear_layer.ridge_

    @property
    def ridge_diagonal(self) -> Floats:
        """The ridge in force on each hidden unit, (n_hidden,), read-only."""
        return self._linear_layer.ridge_diagonal

    def __getstate__(self) -> dict[str, Any]:
        with self._alone.to_look():
            return vars(self).copy()

    def transform_many(self, X: Any) -> Matrix:
        """Return the hidden activations (n, n_hidden) that the linear layer learns from.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or rows of pixels if `image_shape` is set

        Raises
        ------
        ValueError
            If the features are not fixed yet, or `X` cannot be read as images of their shape.
        """
        with self._alone.lock:
            images = read_images(X, self._given_shape).values
            self._check_shape(images.shape[1:])
            return self._network.activations(images)

    @property
    def bank(self) -> FilterBank:
        """The filters and their offsets, once they are fixed."""
        fixed = self.features.is_fixed
        return self.features.bank if fixed else self._network.features.bank

    @property
    def _network(self) -> FixedNetwork:
        """The network, whose features must be fixed."""
        if self._fixed is None:
            raise ValueError(
                f"The features are not fixed yet: {self.count} of {self.warm_up} images have come. "
                "Learn more images, or call fix_features() to fix them now."
            )
        return self._fixed

    def _batch(self, X: Any, y: Any, w: Any, t: Any = None) -> Examples:
        return self._examples(read_images(X, self._given_shape).values, y, w, t)

    def _examples(self, images: Matrix, y: Any, w: Any, t: Any = None) -> Examples:
        examples = Examples.read(images, y, w, t, self.classifier._clock)
        self._check_images(images)
        return examples

    def _check_images(self, images: Matrix) -> None:
        """Raise unless images fit what came before and the parts; a fixed network checks more."""
        self._check_shape(images.shape[1:])
        if self._fixed is None:
            shape = self.preprocessing.check_pixels(images)
            if self.hidden.receptive_fields is not None:
                self.hidden.receptive_fields.check_maps(self.features.map_shape(shape))
            self.hidden.check_width(self.features.check_shape(shape))
            n_examples = max(self.warm_up, self.count + len(images))
            largest = self.preprocessing.magnitude(images, n_examples)
            self.features.check_magnitude(largest, shape[2], self.hidden.dtype)

    @property
    def _given_shape(self) -> Shape | None:
        """The shape of images as they come, if it was set."""
        if self.preprocessing.is_identity:
            return self.preprocessing.image_shape or self.features.image_shape
        return self.preprocessing.image_shape

    def _check_shape(self, shape: Shape) -> None:
        if self._image_shape is not None and shape != self._image_shape:
            raise ValueError(
                f"An image has shape {shape}, expected {self._image_shape} as before. Resize it."
            )

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        return self._image_scores(read_image(x, self._given_shape).values)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        images = read_images(X, self._given_shape)
        return images.source, self._image_scores(images.values)

    def _image_scores(self, images: Matrix) -> Floats:
        self._check_images(images)
        if self._fixed is None:
            return self._waiting.scores(images)
        return self._fixed.scores(images, self.classifier.ridge)

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the state of the features and the score of every class for one image."""
        with self._alone.lock:
            state = (
                "fixed" if self.features_fixed else f"warming up, {self.count} of {self.warm_up}"
            )
            scores = [f"{label}: score {score:.5f}" for label, score in self.scores_one(x).items()]
            return "\n".join([f"features {state}", *scores])
