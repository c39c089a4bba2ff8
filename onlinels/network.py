"""ShallowConvClassifier: from images to labels, both stages of the paper in one estimator."""

from __future__ import annotations

import copy
from typing import Any, Self

from onlinels.classifier import LeastSquaresClassifier
from onlinels.commit import Commit
from onlinels.features.convolution.shallow import ConvolutionalFeatures
from onlinels.features.hidden.layer import HiddenLayer
from onlinels.features.images import Shape
from onlinels.features.preprocessing.preprocessing import ImagePreprocessing
from onlinels.fixed import FixedNetwork
from onlinels.learning import NetworkLearning
from onlinels.merging import check_mergeable
from onlinels.presets import preset_settings
from onlinels.saving.files import Savable
from onlinels.settings import check_count, check_part
from onlinels.threads import CopyableLock, merged
from onlinels.warm_up import WarmUp


class ShallowConvClassifier(NetworkLearning, Savable):
    """Classify images by the paper's network, learnt online and exactly in one pass.

    Both stages in one estimator: `ImagePreprocessing`, `ConvolutionalFeatures`, `HiddenLayer` and
    `LeastSquaresClassifier`. Only the output weights are learnt, and they equal the batch solution
    on the activations of all images learnt.

    Parameters
    ----------
    features : ConvolutionalFeatures, optional
        Stage 1; the paper's hand-designed filters by default.
    hidden : HiddenLayer, optional
        The hidden layer; 1,000 units with class-difference input weights by default.
    classifier : LeastSquaresClassifier, optional
        The linear layer; by default as in the paper: its ridge, no intercept.
    warm_up : int
        Number of images from which whitening, filters from patches and class-difference input
        weights are made, images of weight 0 too. Not used if nothing is to be made from examples.
    preprocessing : ImagePreprocessing, optional
        What is done to images first; nothing by default.

    Notes
    -----
    What depends on data is fixed once: when `warm_up` images have come, or earlier by
    `fix_features`. Until then the images are held, and a least-squares classifier on their pixels
    answers predictions, or on means of blocks of them where there are more than 1,024. Then the
    images held are learnt like any others and dropped. From then on nothing is kept, no cutting or
    order of the stream changes the result, and models that share their features merge. If all
    warm-up images are of one class, differences of any two of them serve as input weights.

    `X` may be an array (n, height, width[, n_channels]), a list of {"image": array}, or, with the
    `image_shape` of the first part that does anything, rows of pixels: a flat array, a frame, or
    dicts of pixels (an absent one is 0).

    Cost per image: that of the two stages and ``n_hidden^2`` operations for the statistics, which
    take ``8 n_hidden^2`` bytes; solving costs ``n_hidden^3 / 3`` operations when a prediction is
    first asked for after learning.

    Whatever is raised while it learns, merges or fixes features, by an interrupt or for want of
    memory too, the network is as before or as after. More than 1,000 images at once are learnt in a
    copy of the statistics, which takes their memory once more for as long; up to 1,000 need none.

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
    >>> right = model.predict_many(digits.images[1000:]) == digits.target[1000:]
    >>> bool(right.mean() > 0.96)
    True
    """

    def __init__(
        self,
        features: ConvolutionalFeatures | None = None,
        hidden: HiddenLayer | None = None,
        classifier: LeastSquaresClassifier | None = None,
        warm_up: int = 1000,
        preprocessing: ImagePreprocessing | None = None,
    ) -> None:
        check_count("warm_up", warm_up, 2)
        check_part("preprocessing", preprocessing, ImagePreprocessing)
        check_part("features", features, ConvolutionalFeatures)
        check_part("hidden", hidden, HiddenLayer)
        check_part("classifier", classifier, LeastSquaresClassifier)
        self.preprocessing = ImagePreprocessing() if preprocessing is None else preprocessing
        self.features = ConvolutionalFeatures() if features is None else features
        self.hidden = HiddenLayer(1000, "difference") if hidden is None else hidden
        self.classifier = (
            LeastSquaresClassifier("paper", fit_intercept=False)
            if classifier is None
            else classifier
        )
        self.warm_up = warm_up
        self._image_shape: Shape | None = None
        self._waiting = WarmUp()
        self._fixed: FixedNetwork | None = None
        self._alone = CopyableLock()
        if all(part.is_fixed for part in (self.preprocessing, self.features, self.hidden)):
            parts = (self.preprocessing, self.features)
            self._fixed = FixedNetwork(*parts, self.hidden.clone(), self.classifier.clone())

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Return a network with settings that are known to classify well.

        Parameters
        ----------
        name : "mnist", "norb", "svhn", "cifar10" or "digits"
            28x28 images such as MNIST and Fashion-MNIST, stereo pairs of 96x96 (NORB-small), RGB
            images of 32x32 (SVHN and CIFAR-10; "cifar10" whitens them), or 8x8 digits.
        **overrides
            Any setting of the four parts (`n_hidden`, `stride`, `ridge`, `seed`, …) or `warm_up`.
            `seed` is that of filters and input weights, `dtype` the precision of all that have one.

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
            preprocessing=ImagePreprocessing(**settings["preprocessing"]),
        )

    def empty(self) -> Self:
        """Return a network with the same settings and fixed features that has learnt nothing.

        Models that start from one model's `empty` share their features, so they merge.
        """
        model = self.clone()
        if self._fixed is not None:
            model._fixed = self._fixed.empty()
            model._image_shape = self._image_shape
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
            If settings, fixed features or image shapes differ; nothing has changed then.
        """
        check_mergeable(self, other)
        return merged(self, other)

    def _merge(self, other: Self) -> None:
        if other._image_shape is not None:
            self._check_shape(other._image_shape)
        if other._fixed is None:
            if other._waiting.batches:
                self._learn(list(other._waiting.batches))
            return
        commit = Commit()
        commit.set(self, _image_shape=self._image_shape or other._image_shape)
        if self._fixed is not None:
            self._fixed.check_same_features(other._fixed)
            layer = self._linear_layer
            if self._image_shape is None:
                # No image has come: a copy holds little, and takes its place with the shape.
                layer = copy.deepcopy(layer)
                commit.set(self._fixed, classifier=layer)
            layer.merge(other._linear_layer)
        else:
            fixed = copy.deepcopy(other._fixed)
            fixed.learn_anew(self._waiting.batches)
            commit.set(self, _fixed=fixed, _waiting=WarmUp())
        commit.make()

    def __add__(self, other: Self) -> Self:
        """Return a new network that has learnt the images of both."""
        return copy.copy(self).merge(other)
