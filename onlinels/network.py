"""ShallowConvClassifier: from images to labels, both stages of the paper in one estimator.

Images are held until whitening, filters and input weights can be made of them; then the network is
fixed, and only its linear layer learns (`FixedNetwork`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import (
    Floats,
    Matrix,
    check_count,
    check_mergeable,
    check_part,
    check_weights,
    same,
)
from onlinels.features.filters import FilterBank
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import Shape, block_means, read_image, read_images, slices
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.features.transformers import ConvolutionalFeatures
from onlinels.labels import Label, read_label, read_labels
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.discriminant import Priors
from onlinels.linear.prequential import (
    Answers,
    answered,
    joined_answers,
    label_and_learn,
    tabulate_and_learn,
)
from onlinels.numerics import Lock, Update, all_held, apply, shallow_copy, zero_added
from onlinels.presets import KINDS, preset_settings
from onlinels.rows import Name, check_mapping
from onlinels.saving import (
    ANYTHING,
    LABEL,
    SHARE,
    array,
    made_of,
    maybe,
    row,
    savable,
    savable_settings,
)
from onlinels.scoring import ScoringClassifier
from onlinels.wrappers import MetaClassifier

BLOCK_IMAGES = 1000
"""Images turned into activations at once, to bound memory."""

IMAGE = array(("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"), 3)


@savable({"image": IMAGE, "label": LABEL, "weight": SHARE, "time": ANYTHING})
class Example(NamedTuple):
    """A checked image (height, width, n_channels) and all that is known of it."""

    image: Matrix
    label: Label
    weight: float
    time: Any


PIXEL_RIDGE = 0.3
"""Measured on 8x8 and 28x28 digits: best or next to it for 50 to 900 images of unit length."""


MOST_PIXELS = 1024
"""Pixels, of all channels, that the classifier learns: its statistics then take 8 MiB at most."""


def _pixels(images: Matrix) -> Floats:
    height, width, n_channels = images.shape[1:]
    # How many blocks cover an image, the last of them in part.
    sizes = ((size, -(-height // size) * -(-width // size)) for size in count(1))
    size = next(size for size, n in sizes if n * n_channels <= MOST_PIXELS or n == 1)
    if size > 1:
        behind = [(0, 0), (0, -height % size), (0, -width % size), (0, 0)]
        images = block_means(np.pad(images, behind), size, np.float64)
    pixels: Floats = images.reshape(len(images), -1).astype(np.float64)
    lengths = np.linalg.norm(pixels, axis=1, keepdims=True)
    pixels /= np.where(lengths == 0.0, 1.0, lengths)
    return pixels


def cut(examples: Sequence[Example]) -> list[list[Example]]:
    """Cut images into as few blocks as may be: all images of a block have times, or none has."""
    runs = [list(run) for _, run in groupby(examples, lambda each: each.time is None)]
    return [run[part] for run in runs for part in slices(0, len(run), BLOCK_IMAGES)]


PARTS = {part: made_of(kind) for part, kind in KINDS.items()}
"""What may be saved of a network's parts."""


@savable(PARTS, lambda net: len(net.classifier.feature_names) in (0, net.hidden.n_hidden))
@dataclass(eq=False)
class FixedNetwork:
    """Both stages with nothing left to fix, and the linear layer that learns."""

    preprocessing: ImagePreprocessing
    features: ConvolutionalFeatures
    hidden: HiddenLayer
    classifier: LeastSquaresClassifier

    def made_from(self, images: Matrix, labels: list[Label]) -> FixedNetwork:
        """Make whitening, filters and input weights of these settings from images; learn nothing.

        Differences are of images of distinct classes, or, if all are of one class, of any two.
        """
        settings = self.preprocessing._get_params()
        preprocessing = ImagePreprocessing.from_examples(images, **settings)
        images = preprocessing.transform_many(images)
        settings = self.features._get_params()
        features = ConvolutionalFeatures.from_examples(images, labels, **settings)
        rows = features.transform_many(images)
        names = labels if len(set(labels)) > 1 else list(range(len(labels)))
        settings = self.hidden._get_params()
        # Features of images have one unit.
        hidden = HiddenLayer.from_examples(rows, names, **settings, standardize=False)
        return FixedNetwork(preprocessing, features, hidden, self.classifier.empty())

    def empty(self) -> FixedNetwork:
        """Return a network with the same features that has learnt nothing."""
        return replace(self, hidden=self.hidden.clone(), classifier=self.classifier.empty())

    def activations(self, images: Matrix) -> Matrix:
        """Return the hidden activations (n, n_hidden) of images."""
        processed = self.preprocessing.transform_many(images)
        self.hidden.check_width(self.features.check_images(processed, self.hidden.dtype))
        hidden: Matrix = self.hidden.transform_many(self.features.transform_many(processed))
        return hidden

    def blocks(self, images: Matrix) -> Iterator[Matrix]:
        """Return an iterator over the hidden activations of some images after the others."""
        return (self.activations(images[part]) for part in slices(0, len(images), BLOCK_IMAGES))

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn images block by block: all of them, or none."""
        blocks = cut(examples)
        # A later block may be refused, or interrupted.
        layer = self.classifier if len(blocks) == 1 else copy.deepcopy(self.classifier)
        for block in blocks:
            layer.learn_many(*self._batch(block))
        self.classifier = layer

    def answered(self, examples: Sequence[Example]) -> tuple[FixedNetwork, list[Answers]]:
        """Return a network that has learnt images, and its scores of each before it was learnt."""
        layer, parts = self.classifier, []
        for block in cut(examples):
            part = answered(layer, *self._batch(block))
            layer = part.model
            # Models in between are not held.
            parts.append(part._replace(model=None))
        return replace(self, classifier=layer), parts

    def _batch(self, examples: Sequence[Example]) -> tuple[Any, ...]:
        """Return images as the linear layer learns them."""
        images, labels, weights, times = zip(*examples, strict=True)
        # Rows that all weigh 1 need not be multiplied.
        w = np.array(weights) if any(weight != 1.0 for weight in weights) else 1.0
        t = None if times[0] is None else times
        return self.activations(np.stack(images)), labels, w, t

    @property
    def fixed_settings(self) -> list[dict[str, Any]]:
        """What all parts but the linear layer are made of."""
        return [part._get_params() for part in (self.preprocessing, self.features, self.hidden)]


@savable_settings(
    **PARTS,
    _image_shape=ANYTHING,
    _held=row(made_of(Example)),
    _of_pixels=made_of(LeastSquaresClassifier),
    _fixed=maybe(made_of(FixedNetwork)),
    _lock=made_of(Lock),
)
class ShallowConvClassifier(MetaClassifier, ScoringClassifier):
    """Classify images by the paper's network, learnt online and exactly in one pass.

    Both stages in one estimator: `ImagePreprocessing`, `ConvolutionalFeatures`, `HiddenLayer` and
    `LeastSquaresClassifier`. Only the output weights are learnt, and they equal the batch solution
    on the activations of all images learnt.

    Parameters
    ----------
    features : ConvolutionalFeatures, optional
        Stage 1; the paper's hand-designed filters by default.
    hidden : HiddenLayer, optional
        The hidden layer; by default as in the paper: 1,000 units with class-difference input
        weights, squared, without a bias.
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
    dicts of pixels (an absent one is 0). Before anything is learnt the values of a single image are
    not read, and `predict_one` is None.

    Cost per image: that of the two stages and ``n_hidden^2`` operations for the statistics, which
    take ``8 n_hidden^2`` bytes; solving costs ``n_hidden^3 / 3`` operations when a prediction is
    first asked for after learning.

    Only the ridge and the priors of a network can change, during the warm-up too:
    ``model.ridge = 2.0``, ``model.priors = None``. All other settings stay as the network was
    made, those of its parts included; to assign one raises AttributeError.

    Whatever is raised while it learns, merges or fixes features, by an interrupt or for want of
    memory too, the network is as before or as after. More than 1,000 images at once are learnt in a
    copy, 1,000 at a time, which takes the memory of the statistics once more for as long.

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
        self.preprocessing = preprocessing or ImagePreprocessing()
        self.features = features or ConvolutionalFeatures()
        self.hidden = hidden or HiddenLayer(1000, "difference", "square", bias=False)
        self.classifier = classifier or LeastSquaresClassifier(
            "paper", fit_intercept=False, scaling=None
        )
        self.warm_up = warm_up
        self._image_shape: Shape | None = None
        self._fixed: FixedNetwork | None = None
        # Before it is there: images, and a classifier of their pixels, which answers. It learns
        # what is held when it is asked.
        self._held: tuple[Example, ...] = ()
        self._of_pixels = LeastSquaresClassifier(PIXEL_RIDGE, priors=self.classifier.priors)
        self._lock = Lock()
        if all(part.is_fixed for part in (self.preprocessing, self.features, self.hidden)):
            self._fixed = self._parts().empty()

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Return a network with settings that are known to classify well.

        Parameters
        ----------
        name : "mnist", "mnist-paper", "norb", "svhn", "cifar10" or "digits"
            28x28 images such as MNIST and Fashion-MNIST, the same by the letter of the paper,
            stereo pairs of 96x96 (NORB-small), RGB images of 32x32 (SVHN and CIFAR-10; "cifar10"
            whitens them), or 8x8 digits.
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
        parts = {part: kind(**settings[part]) for part, kind in KINDS.items()}
        return cls(**parts, **settings["network"])

    def _parts(self) -> FixedNetwork:
        return FixedNetwork(self.preprocessing, self.features, self.hidden, self.classifier)

    @property
    def features_fixed(self) -> bool:
        """Whether everything that depends on data is fixed, so that rows are learnt at once."""
        return self._fixed is not None

    @property
    def _linear_layer(self) -> LeastSquaresClassifier:
        """The layer that learns hidden activations, or pixels as long as features are not fixed."""
        with self._lock:
            if self._fixed is not None:
                # Settings that may be changed at any time, and enter when weights are solved.
                self._fixed.classifier.ridge = self.classifier.ridge
                self._fixed.classifier.priors = self.classifier.priors
                return self._fixed.classifier
            self._of_pixels.priors = self.classifier.priors
            new = self._held[self._of_pixels.count :]
            if new:
                images, labels, weights, _ = zip(*new, strict=True)
                self._of_pixels.learn_many(_pixels(np.stack(images)), labels, np.array(weights))
            return self._of_pixels

    @property
    def ridge(self) -> Any:
        """The setting of the linear layer's ridge, which may be changed at any time."""
        return self.classifier.ridge

    @ridge.setter
    def ridge(self, ridge: Any) -> None:
        with self._lock:
            # The layer that has learnt comes first: it is set back to the other's ridge, if an
            # interrupt comes between the two.
            for network in (self._fixed, self):
                if network is not None:
                    network.classifier.ridge = ridge

    @property
    def priors(self) -> Any:
        """The setting of the linear layer's priors, which may be changed at any time."""
        return self.classifier.priors

    @priors.setter
    def priors(self, priors: Priors) -> None:
        self.classifier.priors = priors

    def _probabilities(self, scores: Floats) -> Floats:
        return self._linear_layer._probabilities(scores)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier", "ridge", "priors"}

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in the order in which they were first learnt."""
        return self._linear_layer.classes

    @property
    def count(self) -> int:
        """Number of images learnt, those held for the warm-up included."""
        return len(self._held) if self._fixed is None else self._fixed.classifier.count

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
            return np.concatenate([*self._network.blocks(images)])

    @property
    def bank(self) -> FilterBank:
        """The filters and their offsets, once they are fixed."""
        return (self.features if self.features.is_fixed else self._network.features).bank

    @property
    def _network(self) -> FixedNetwork:
        """The network, whose features must be fixed."""
        if self._fixed is None:
            came = f"{self.count} of {self.warm_up} images have come"
            raise ValueError(f"Features are not fixed yet: {came}. Learn more, or fix_features().")
        return self._fixed

    def _examples(self, images: Matrix, y: Any, w: Any, t: Any) -> list[Example]:
        """Check images and what belongs to them."""
        n_rows = len(images)
        labels = read_labels(y, n_rows)
        weights = np.broadcast_to(check_weights(w, n_rows), n_rows).tolist()
        if self.classifier._clock.read(t, n_rows) is None:
            t = None
        times = [t] * n_rows if np.ndim(t) == 0 else t
        self._check_images(images)
        return list(map(Example, images, labels, weights, times))

    def _check_images(self, images: Matrix) -> None:
        """Raise unless images fit what came before and the parts; a fixed network checks more."""
        self._check_shape(images.shape[1:])
        if self._fixed is None:
            features, hidden = self.features, self.hidden
            processed = self.preprocessing.outlook(images)
            if hidden.receptive_fields is not None:
                hidden.receptive_fields.check_maps(features.map_shape(processed.shape[1:]))
            hidden.check_width(features.check_images(processed, hidden.dtype))

    @property
    def _given_shape(self) -> Shape | None:
        """The shape of images as they come, if it was set."""
        comes_first = self.features.image_shape if self.preprocessing.is_identity else None
        return self.preprocessing.image_shape or comes_first

    def _check_shape(self, shape: Shape | None) -> None:
        if None not in (shape, self._image_shape) and shape != self._image_shape:
            raise ValueError(f"An image has shape {shape}, expected {self._image_shape}. Resize.")

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        if not (self._held if self._fixed is None else self._fixed.classifier.classes):
            check_mapping(x)
            return np.zeros(0)
        return self._image_scores(read_image(x, self._given_shape).values).reshape(-1)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        images = read_images(X, self._given_shape)
        return images.source, self._image_scores(images.values)

    def _image_scores(self, images: Matrix) -> Floats:
        self._check_images(images)
        layer = self._linear_layer
        blocks = [_pixels(images)] if self._fixed is None else self._fixed.blocks(images)
        return np.concatenate([layer.scores_many(rows) for rows in blocks])

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the state of the features and the score of every class for one image."""
        with self._lock:
            warming_up = f"warming up, {self.count} of {self.warm_up}"
            lines = [f"features {'fixed' if self.features_fixed else warming_up}"]
            lines += [f"{label}: score {score:.5f}" for label, score in self.scores_one(x).items()]
            return "\n".join(lines)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one image, {"image": array} or a dict of pixels; see `learn_many`."""
        with self._lock:
            label = read_label(y)
            self._learn(self._examples(read_image(x, self._given_shape).values, [label], w, t))

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
            self._learn(self._examples(read_images(X, self._given_shape).values, y, w, t))

    def predict_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Predict every image of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train: the
        result is that of `predict_one` and `learn_one` for one image after the other, at the speed
        of a batch. During the warm-up the classifier of pixels answers.

        Parameters
        ----------
        X, y, w, t
            As `learn_many` reads them.

        Returns
        -------
        array, series or list of n labels
            In the kind of `X`. None for an image before which nothing was learnt.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Notes
        -----
        The cost is that of `LeastSquaresClassifier.predict_learn_many` on hidden activations. With
        the paper's ridge, the default without a preset, every image has the weights solved anew:
        pass a linear layer with a number or "auto" as ridge.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> digits = load_digits()
        >>> model = ShallowConvClassifier.from_preset("digits", ridge=1e-3)
        >>> labels = model.predict_learn_many(digits.images, digits.target)
        >>> bool((labels == digits.target)[200:].mean() > 0.9)
        True
        """
        with self._lock:
            return label_and_learn(self, X, y, w, t)

    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Return the probabilities of every image before it is learnt, then learn it.

        See `predict_learn_many`; the table is that of
        `LeastSquaresClassifier.predict_proba_learn_many`.
        """
        with self._lock:
            return tabulate_and_learn(self, X, y, w, t)

    def _answered(self, X: Any, y: Any, w: Any, t: Any = None) -> Answers:
        """Return the scores of images before each is learnt, and a network that has learnt them."""
        with self._lock:
            images = read_images(X, self._given_shape)
            examples = self._examples(images.values, y, w, t)
            new, parts = shallow_copy(self), []
            if self._fixed is None:
                n_held = min(self.warm_up - self.count, len(examples))
                held, examples = examples[:n_held], examples[n_held:]
                new._of_pixels = copy.copy(self._of_pixels)
                _, labels, weights, _ = zip(*held, strict=True)
                rows = _pixels(images.values[:n_held])
                part = answered(new._linear_layer, rows, labels, np.array(weights), None)
                new._of_pixels = part.model
                new._learn(held)
                parts.append(part._replace(model=None))
            if examples:
                # The ridge in force is that of the linear layer.
                fixed = replace(new._network, classifier=new._linear_layer)
                new._image_shape = examples[0].image.shape
                new._fixed, others = fixed.answered(examples)
                parts += others
            return joined_answers(new, images.source, parts)

    def _learn(self, examples: Sequence[Example]) -> None:
        """Learn or hold images that were checked, or nothing of them if one is refused."""
        shape = examples[0].image.shape
        if self._fixed is not None:
            self._fixed.learn(examples)
            self._image_shape = shape
        elif self.count + len(examples) >= self.warm_up:
            self._fix(examples)
        else:
            held = [each._replace(image=each.image.copy()) for each in examples]
            state = (self, "_held", (*self._held, *held)), (self, "_image_shape", shape)
            apply(Update(state=state))

    def _fix(self, new: Sequence[Example] = ()) -> None:
        """Fix the features from what is held and as many new images as are wanted; learn all."""
        examples, n_held = (*self._held, *new), len(self._held)
        if len(examples) < 2:
            raise ValueError(f"{n_held} images have come, expected at least 2. Learn more first.")
        images, labels, *_ = zip(*examples[: self.warm_up], strict=True)
        try:
            fixed = self._parts().made_from(np.stack(images), list(labels))
            fixed.learn(examples)
        except ValueError as error:
            if not n_held:
                raise
            held = f"{n_held} of these images were held for the warm-up and stay held"
            remedy = "Start a new model with other settings if they are the cause"
            raise ValueError(f"{error} {held}. {remedy}.") from error
        self._take(fixed, images[0].shape)

    def _take(self, fixed: FixedNetwork, shape: Shape | None) -> None:
        """Go on as a network that is fixed and has learnt what was held."""
        pixels = self._of_pixels.empty()
        state = ("_fixed", fixed), ("_image_shape", shape), ("_held", ()), ("_of_pixels", pixels)
        apply(Update(state=tuple((self, *each) for each in state)))

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one image out again; see `unlearn_many`."""
        self.unlearn_many([x], [read_label(y)], w)

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
            self._network.classifier.unlearn_many(self.transform_many(X), y, w)

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
                self._fix()

    def empty(self) -> Self:
        """Return a network with the same settings and fixed features that has learnt nothing.

        Models that start from one model's `empty` share their features, so they merge.
        """
        model = self.clone()
        if self._fixed is not None:
            model._take(self._fixed.empty(), self._image_shape)
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
            self._check_shape(other._image_shape)
            shape, theirs = self._image_shape or other._image_shape, other._fixed
            if theirs is None:
                if other._held:
                    self._learn(other._held)
            elif self._fixed is None:
                theirs.classifier._statistics.products.check_has_sums()
                fixed = copy.deepcopy(theirs)
                fixed.learn(self._held)
                self._take(fixed, shape)
            else:
                if not all(map(same, self._fixed.fixed_settings, theirs.fixed_settings)):
                    came = "other has other fixed features, made from other images"
                    raise ValueError(f"{came}, expected the same. Start from one's empty().")
                self._linear_layer.merge(other._linear_layer)
                self._image_shape = shape
        return self

    def __add__(self, other: Self) -> Self:
        """Return a new network that has learnt the images of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added
