"""ShallowConvClassifier: from images to labels, both stages of the paper in one estimator."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import numpy as np

from onlinels.checks import Floats, Matrix, check_count, check_part, check_weights
from onlinels.classifier import LeastSquaresClassifier
from onlinels.commit import Commit
from onlinels.features.filters import FilterBank
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import Shape, block_means, read_image, read_images
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.features.transformers import ConvolutionalFeatures
from onlinels.finishing import learn_and_finish
from onlinels.labels import Label, read_labels
from onlinels.linalg.selection import Ridge
from onlinels.linear.forgetting import Clock
from onlinels.merging import check_mergeable, same
from onlinels.numerics import Lock, all_held
from onlinels.presets import preset_settings
from onlinels.rows import Name
from onlinels.saving.files import Savable
from onlinels.scoring import ScoringClassifier


@dataclass(frozen=True)
class Examples:
    """A mini-batch of checked images and all that is known of them.

    Parameters
    ----------
    images : ndarray (n, height, width, n_channels)
    labels : list of n labels
    weights : float for all, or ndarray (n,)
    times : list of n times, or None
    """

    images: Matrix
    labels: list[Label]
    weights: float | Floats
    times: list[Any] | None

    @classmethod
    def read(cls, images: Matrix, y: Any, w: Any, t: Any, clock: Clock) -> Examples:
        """Read what belongs to images (n, height, width, n_channels).

        Raises
        ------
        TypeError, ValueError
            If labels, weights or times cannot be read or do not fit.
        """
        n_rows = len(images)
        labels = read_labels(y, n_rows)
        weights = check_weights(w, n_rows)
        clock.read(t, n_rows)
        if t is not None:
            t = [t] * n_rows if np.ndim(t) == 0 else list(t)
        return cls(images, labels, weights, t)

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: slice) -> Examples:
        """Return some of the rows."""
        times = None if self.times is None else self.times[rows]
        weights = self.weights if isinstance(self.weights, float) else self.weights[rows]
        return Examples(self.images[rows], self.labels[rows], weights, times)

    def blocks(self, size: int) -> Iterator[Examples]:
        """Cut into blocks of at most so many rows."""
        for start in range(0, len(self), size):
            yield self.part(slice(start, start + size))

    def copied(self) -> Examples:
        """Return examples that share no image with what was passed in."""
        return Examples(self.images.copy(), self.labels, self.weights, self.times)


def split(batches: Sequence[Examples], n_first: int) -> tuple[list[Examples], list[Examples]]:
    """Cut a sequence of batches in two, the first of so many rows.

    Examples
    --------
    >>> batches = [Examples(np.ones((2, 4, 4, 1)), ["a", "b"], 1.0, None)] * 2
    >>> [[len(batch) for batch in part] for part in split(batches, 3)]
    [[2, 1], [1]]
    """
    first: list[Examples] = []
    rest: list[Examples] = []
    for batch in batches:
        n_taken = min(n_first, len(batch))
        if n_taken:
            first.append(batch.part(slice(n_taken)))
        if n_taken < len(batch):
            rest.append(batch.part(slice(n_taken, None)))
        n_first -= n_taken
    return first, rest


def joined(batches: Sequence[Examples]) -> list[Examples]:
    """Return as few batches as there can be: neighbours are one if both have times or neither.

    Images that were held one by one are so worked through many at a time.

    Examples
    --------
    >>> batch = Examples(np.ones((2, 4, 4, 1)), ["a", "b"], 1.0, None)
    >>> [len(batch) for batch in joined([batch, batch])]
    [4]
    """
    groups = groupby(batches, key=lambda batch: batch.times is None)
    return [_join(list(group)) for _, group in groups]


def _join(batches: list[Examples]) -> Examples:
    if len(batches) == 1:
        return batches[0]
    timed = batches[0].times is not None
    return Examples(
        np.concatenate([batch.images for batch in batches]),
        [label for batch in batches for label in batch.labels],
        np.concatenate([np.broadcast_to(batch.weights, len(batch)) for batch in batches]),
        [time for batch in batches for time in batch.times or ()] if timed else None,
    )


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
        with self._lock:
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
        with self._lock:
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
        with self._lock:
            state = (
                "fixed" if self.features_fixed else f"warming up, {self.count} of {self.warm_up}"
            )
            scores = [f"{label}: score {score:.5f}" for label, score in self.scores_one(x).items()]
            return "\n".join([f"features {state}", *scores])


class NetworkLearning(NetworkAnswers):
    """Learn images, or hold them until there are enough to fix the features."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one image, {"image": array} or a dict of pixels; see `learn_many`."""
        with self._lock:
            images = read_image(x, self._given_shape).values
            self._learn([self._examples(images, [y], w, t)])

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch of images, with the same result as learning them one by one.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or rows of pixels if `image_shape` is set
        y : array, series or list of n labels
        w : float, or array, series or list of n floats, optional
            Weights, at least 0; 1 by default.
        t : number or datetime, or array, series or list of n of them, optional
            Times of the images, for classifiers with a `half_life`.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        with self._lock:
            self._learn([self._batch(X, y, w, t)])

    def _learn(self, batches: Sequence[Examples]) -> None:
        """Learn or hold batches that were checked, or nothing of them if one is refused."""
        commit = Commit()
        commit.set(self, _image_shape=batches[0].images.shape[1:])
        if self._fixed is not None:
            self._fixed.learn(batches, commit)
        elif self._waiting.count + sum(map(len, batches)) >= self.warm_up:
            self._fix(batches, commit)
        elif len(batches) > 1:
            commit.set(self, _waiting=self._waiting.holding(batches))
            commit.make()
        else:
            self._waiting.hold(batches[0], commit)

    def _fix(self, batches: Sequence[Examples], commit: Commit) -> None:
        """Fix the features from what is held and as much of the batches as is wanted; learn all."""
        n_examples = max(self.warm_up if batches else 0, self._waiting.count)
        first, rest = split([*self._waiting.batches, *batches], n_examples)
        parts = (self.preprocessing, self.features, self.hidden, self.classifier.clone())
        try:
            fixed = FixedNetwork.from_examples(*parts, first)
        except ValueError as error:
            if not self._waiting.count or n_examples < 2:
                raise
            raise ValueError(f"{error} {self._remedy()}") from error
        fixed.learn_anew(rest)
        commit.set(self, _fixed=fixed, _waiting=WarmUp())
        commit.make()

    def _remedy(self) -> str:
        """Say what to do about images that are refused at the edge, those held among them."""
        return (
            f"{self._waiting.count} of these images were held for the warm-up and stay held: if "
            "the cause is theirs, they cannot be learnt with these settings whatever follows. "
            "Start a new model with other settings (ridge, accumulator, scale, dtype), and learn "
            "its images from the first."
        )

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one image out again; see `unlearn_many`."""
        with self._lock:
            images = read_image(x, self._given_shape).values
            self._network.unlearn(self._examples(images, [y], w))

    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Take images out of what was learnt, as `LeastSquaresClassifier.unlearn_many` does.

        Input weights that were made from them in the warm-up stay as they are. The activations of
        the whole batch are held: take many images out in mini-batches.

        Raises
        ------
        TypeError, ValueError
            As there, or if the features are not fixed yet; nothing has changed then.
        """
        with self._lock:
            self._network.unlearn(self._batch(X, y, w))

    def fix_features(self) -> None:
        """Fix what depends on data now, from the images held so far, unless it is fixed already.

        Useful at the end of a stream that is shorter than the warm-up.

        Raises
        ------
        ValueError
            If fewer than two images have come.
        """
        with self._lock:
            if self._fixed is None:
                self._fix([], Commit())


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
        self._lock = Lock()
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
        with all_held(self._lock, other._lock):
            self._merge(other)
        return self

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
