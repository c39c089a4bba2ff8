"""ShallowConvClassifier: from images to labels, in two stages, of which it holds one at a time."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from onlinels.checks import (
    Floats,
    Matrix,
    check_count,
    check_mergeable,
    check_part,
    check_positive,
    check_room,
    check_weight,
    check_weights,
    read_only,
    warn_caller,
)
from onlinels.features.convolution import ConvolutionalFeatures
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import (
    IMAGE,
    Images,
    Shape,
    check_image_shape,
    of_images,
    one_of_a_batch,
    read_image,
    read_images,
)
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.prequential import (
    Answers,
    answered,
    joined_answers,
    label_and_learn,
    tabulate_and_learn,
)
from onlinels.linear.scoring import Priors, ScoringClassifier
from onlinels.locks import Lock, all_held
from onlinels.meta import MetaClassifier
from onlinels.network.presets import KINDS, preset_settings
from onlinels.network.stages import (
    FIRST_DRAFT,
    Example,
    FixedNetwork,
    PixelNetwork,
    WarmUp,
    batch_of,
    cut,
    in_blocks,
    with_ridge,
)
from onlinels.numerics import read_whole, restore, shallow_copy, zero_added
from onlinels.rows.batch import Name, as_numpy, matched_by_position
from onlinels.rows.labels import Label, read_label, read_labels
from onlinels.rows.times import exact
from onlinels.saving import attributes_of, is_small, savable, settings_hold

FEW_IMAGES_PER_UNIT = 3
"""Number of images per hidden unit from which `few_images_ridge` is no longer in force.

With a ridge as small as 5e-7 a linear layer fits its images exactly until there are more of them
than hidden units, and its errors are largest at equal numbers. Accuracy on photos of four parts,
150 units, and errors on MNIST, 1,000 units (demos/benchmarks/README.md):

    images per unit      1       1.5     2       3       4       8
    photos, 5e-7         37%     49%     55%     61%     64%
    photos, 1e-4         56%     59%     62%     63%     67%
    MNIST, 5e-7          2.16%           1.34%           1.03%   0.75%
    MNIST, 1e-4          1.67%           1.39%           1.20%   0.88%
"""


def are_pixels(X: Any, read: Callable[..., Images]) -> bool:
    """Return whether images come as rows of pixels; as one row, if `read` is `read_image`."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    if isinstance(first, Mapping):
        return not any(getattr(value, "ndim", 0) for value in first.values())
    return getattr(X, "ndim", 2) == (1 if read is read_image else 2)


def in_stages(state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a network, also from those of files of format 3."""
    if "_stage" in state:
        return state
    # Older files lack these settings.
    state = {"image_shape": None, "few_images_ridge": None} | state
    fixed, stored, shape = (state.pop(name) for name in ("_fixed", "_held", "_image_shape"))
    del state["_of_pixels"]
    parts = {part: state[part] for part in KINDS}
    waits = WarmUp(**parts, shape=shape, warm_up=state["warm_up"], stored=stored)
    return state | {"_stage": waits if fixed is None else replace(fixed, shape=shape)}


def _network_fits(model: Any) -> bool:
    return is_small(*(model.image_shape or ())) and settings_hold(model)


@savable(_network_fits)
class ShallowConvClassifier(MetaClassifier, ScoringClassifier):
    """Classify images by the paper's network, learnt online and exactly in one pass.

    One estimator holds both stages: `ImagePreprocessing`, `ConvolutionalFeatures`, `HiddenLayer`
    and `LeastSquaresClassifier`. Only the output weights are learnt. They equal the batch solution
    on the activations of all images learnt.

    Parameters
    ----------
    features : ConvolutionalFeatures, optional
        Stage 1; by default with the paper's hand-designed filters.
    hidden : HiddenLayer, optional
        Hidden layer; by default that of the paper: 1,000 units with class-difference input weights,
        squared, without a bias.
    classifier : LeastSquaresClassifier, optional
        Linear layer; by default that of the paper: the paper's ridge, no intercept.
    warm_up : int, at least 2
        Number of images (including those of weight 0) from which whitening, filters from patches
        and class-difference input weights are made. Ignored if no part needs examples.
    preprocessing : ImagePreprocessing, optional
        Preprocessing of the images; none by default.
    image_shape : (height, width) or (height, width, n_channels), optional
        Shape of images that come as rows of pixels before the first image comes as an array. An
        `image_shape` of a part applies to all images instead.
    few_images_ridge : float, optional
        Least ridge as long as the network has learnt fewer than three images per hidden unit, if
        the ridge of the linear layer is a number; by default that number holds from the beginning.
        Most presets set it. Assigning `ridge` sets it to None.

    Raises
    ------
    TypeError, ValueError
        If `warm_up` is not an int of at least 2, `few_images_ridge` is not a positive number, or a
        part is not of its class.

    Notes
    -----
    Everything that depends on data is fixed once: after `warm_up` images, or earlier by
    `fix_features`. Until then, the network holds the images, and a smaller network predicts, which
    has learnt them: with features made from the first 100, 200, 400, … of them (from 400 on if
    images are whitened), and two hidden units for each. Before, a least-squares classifier of the
    pixels (of means of blocks if there are more than 1,024) predicts. No attribute tells of these
    two: until the features are fixed, `classes` and `count` are those of the images stored, and
    `feature_names`, `output_weights` and `intercept` have no hidden units. After the warm-up, the
    network learns the stored images like any others and drops them, except those whose features its
    input weights are differences of: files hold these images, and `load` makes the input weights
    again. From then on its result does not depend on the order of the stream or on its division
    into batches, and models that share their features merge. If all warm-up images are of one
    class, the input weights are differences of any two images.

    `X` can be an array (n, height, width[, n_channels]) or a list of {"image": array}, and `x` an
    array or {"image": array}. If their shape is known, from the first image or an `image_shape`,
    `X` can also hold rows of pixels: a flat array, a frame, or dicts of pixels, in which an absent
    pixel is 0. Before anything is learnt, the values
    of a single image are not read, and `predict_one` returns None.

    The filters of the presets respond to differences between neighbouring pixels, and features are
    divided by their sum or length, so a network hardly sees overall brightness and flat colours. If
    classes differ only in these, use a `HiddenLayer` on the pixels.

    With a very small ridge, a network makes most errors when it has learnt as many images as it has
    hidden units. `few_images_ridge` prevents that, in the warm-up and after it. A ridge that you
    pass to `from_preset` or assign is in force from the first image.

    ===========================  ==============================================================
    step                         cost
    ===========================  ==============================================================
    learning an image            the two stages, and n_hidden^2 operations for the statistics
    first prediction afterwards  n_hidden^3 / 3 operations to solve for the weights
    statistics                   8 n_hidden^2 bytes
    over 1,000 images at once    the statistics a second time, while a copy of the linear layer
                                 learns 1,000 images at a time
    ===========================  ==============================================================

    Only the ridge and the priors of a network can change, also during the warm-up:
    ``model.ridge = 2.0``, ``model.priors = None``. Assigning any other setting, including those of
    the parts, raises AttributeError.

    If an error is raised while the network learns, merges or fixes features, including interrupts
    and lack of memory, the network is in the state before or after the call.

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
        image_shape: Shape | None = None,
        few_images_ridge: float | None = None,
    ) -> None:
        check_count("warm_up", warm_up, 2)
        if image_shape is not None:
            check_image_shape("image_shape", image_shape)
        if few_images_ridge is not None:
            check_positive("few_images_ridge", few_images_ridge)
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
        self.image_shape = image_shape
        self.few_images_ridge = few_images_ridge
        parts = self.preprocessing, self.features, self.hidden, self.classifier
        # Whatever is learnt is in the stage. A call that changes the network assigns it at its end,
        # or changes the linear layer of a fixed network by one call.
        self._stage: WarmUp | FixedNetwork = WarmUp(*parts, warm_up=warm_up)
        if all(part.is_fixed for part in parts[:3]):
            self._stage = FixedNetwork(*parts[:3], self.classifier.empty())
        self._lock = Lock()

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Return a network with settings that are known to classify well.

        Parameters
        ----------
        name : "mnist", "mnist-paper", "norb", "svhn", "cifar10" or "digits"
            Name of the preset:

            - "mnist": images of 28x28, such as MNIST and Fashion-MNIST;
            - "mnist-paper": the same images, with exactly the settings of the paper;
            - "norb": stereo pairs of 96x96 (small NORB);
            - "svhn", "cifar10": RGB images of 32x32; "cifar10" whitens them;
            - "digits": digits of 8x8.
        **overrides
            Settings of the four parts (`n_hidden`, `stride`, `ridge`, `seed`, …) or `warm_up` to
            replace. `seed` applies to filters and input weights, and `dtype` to all parts that have
            a precision.

        Returns
        -------
        ShallowConvClassifier
            A network that has learnt nothing.

        Raises
        ------
        ValueError
            If the preset or a setting is unknown.

        Examples
        --------
        >>> ShallowConvClassifier.from_preset("mnist", n_hidden=100).hidden.n_hidden
        100
        """
        settings = preset_settings(name, overrides)
        parts = {part: kind(**settings[part]) for part, kind in KINDS.items()}
        return cls(**parts, **settings["network"])

    def __setstate__(self, state: Any) -> None:
        restore(self, in_stages(attributes_of(state)))

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved."""
        return vars(self) | {"_stage": self._settled}

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        return self._stage, *self._stage.classifier._version

    def __repr__(self) -> str:
        progress = f"  # {self.count:,} of {self.warm_up:,} warm-up images"
        return super().__repr__() + ("" if self.features_fixed else progress)

    @property
    def features_fixed(self) -> bool:
        """Whether everything that depends on data is fixed: False during the warm-up."""
        return isinstance(self._stage, FixedNetwork)

    @property
    def _network(self) -> FixedNetwork:
        """The network with fixed features; ValueError during the warm-up."""
        if isinstance(self._stage, FixedNetwork):
            return self._stage
        problem = f"{self.count:,} of {self.warm_up:,} warm-up images are learnt"
        remedy = "Learn more images, or call fix_features()."
        raise ValueError(f"Features are not fixed yet: {problem}. {remedy}")

    def _answering(self) -> FixedNetwork | PixelNetwork:
        """Return the network that predicts, with the settings in force.

        During the warm-up, its linear layer learns the stored images here.
        """
        with self._lock:
            network = self._stage.asked()
            # These settings can change at any time, and count when weights are computed.
            network.classifier.priors = self.classifier.priors
            if isinstance(network, FixedNetwork):
                few = FEW_IMAGES_PER_UNIT * network.hidden.n_hidden
                ridge, least = self.classifier.ridge, self.few_images_ridge
                if self.count < few and least is not None and isinstance(ridge, numbers.Real):
                    ridge = max(ridge, least)
                # Rows that were removed may leave too few digits for a smaller ridge.
                with suppress(ValueError):
                    network.classifier.ridge = ridge
            return network

    @property
    def _settled(self) -> WarmUp | FixedNetwork:
        """The stage; its linear layer, which is blank during a warm-up, has the settings in force.

        So a file does not depend on what was asked.
        """
        if self.features_fixed:
            self._answering()
        return self._stage

    @property
    def ridge(self) -> Any:
        """Ridge setting of the linear layer; it can be assigned at any time.

        An assigned ridge is in force whatever the number of images.
        """
        return self.classifier.ridge

    @ridge.setter
    def ridge(self, ridge: Any) -> None:
        with self._lock:
            # The fixed layer is assigned first: after an interrupt between the two assignments, it
            # gets the old ridge again from `self.classifier`.
            self._settled.classifier.ridge = ridge
            self.classifier.ridge = ridge
            vars(self)["few_images_ridge"] = None

    def select_ridge(self) -> None:
        """Select the ridge now; see `LeastSquaresClassifier.select_ridge`."""
        with self._lock:
            self._answering().classifier.select_ridge()

    @property
    def priors(self) -> Any:
        """Priors setting of the linear layer; it can be assigned at any time."""
        return self.classifier.priors

    @priors.setter
    def priors(self, priors: Priors) -> None:
        self.classifier.priors = priors

    def _probabilities(self, scores: Floats) -> Floats:
        return self._answering().classifier._probabilities(scores)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier", "ridge", "priors"}

    # What these properties say of the network is known without learning: during the warm-up, it has
    # classes, but no hidden units yet.

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt so far, in the order of their first occurrence."""
        with self._lock:
            return self._stage.classes

    @property
    def count(self) -> int:
        """Number of images learnt, including those stored for the warm-up."""
        return self._stage.count

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Numbers of the hidden units, in the order of weights; () during the warm-up."""
        return self._settled.classifier.feature_names

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_hidden, n_classes), read-only; (0, n_classes) during the warm-up."""
        if self.features_fixed:
            return self._settled.classifier.output_weights
        return read_only(np.zeros((0, len(self.classes))))

    @property
    def intercept(self) -> Floats:
        """Constants (n_classes,) added to the scores, read-only; zeros during the warm-up."""
        if self.features_fixed:
            return self._settled.classifier.intercept
        return read_only(np.zeros(len(self.classes)))

    @property
    def ridge_(self) -> float:
        """The ridge in force; during the warm-up, that of a network that has learnt nothing."""
        return self._settled.classifier.ridge_

    def transform_many(self, X: Any) -> Matrix:
        """Return the hidden activations (n, n_hidden) that the linear layer learns from.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or rows of pixels if `image_shape` is set
            Images.

        Returns
        -------
        ndarray (n, n_hidden)
            Activations, a row per image.

        Raises
        ------
        TypeError, ValueError
            If the features are not fixed yet, or `X` cannot be read as images of their shape.
        """
        with self._lock:
            images = self._read(X)
            return of_images(partial(in_blocks, self._network.activations), images)

    @property
    def bank(self) -> Floats:
        """The filters, as of `ConvolutionalFeatures`; ValueError if they are not fixed yet."""
        return (self.features if self.features.is_fixed else self._network.features).bank

    def _read(self, X: Any, read: Callable[..., Images] = read_images) -> Images:
        """Read images of the known shape; rows of pixels before the first image by the setting."""
        shape = self._stage.known_shape
        if shape is None and are_pixels(X, read):
            shape = self.image_shape
        return read(X, shape)

    def _batch_examples(self, images: Matrix, y: Any, w: Any, t: Any) -> list[Example]:
        """Return images of a batch with their labels, weights and times, checked."""
        labels = read_labels(y)
        # A colour image reads as many images of 3 or 4 columns.
        if images.shape[2:] in ((3, 1), (4, 1)) and len(images) > len(labels) == 1:
            raise one_of_a_batch(images.shape[:-1])
        return self._examples(images, read_labels(labels, len(images)), w, t)

    def _examples(self, images: Matrix, labels: Sequence[Label], w: Any, t: Any) -> list[Example]:
        """Return images with a checked label each, and with their weights and times."""
        n_rows = len(images)
        if n_rows:
            self._stage.check_images(images)
        weights = np.broadcast_to(check_weights(w, n_rows), n_rows).tolist()
        read = self.classifier._state.clock.read(t, n_rows)
        times = [None] * n_rows if read is None else [*map(exact, read.tolist())]
        if n_rows and not (self.features_fixed or self.count):
            n_bytes = self.classifier._state.subsets.bytes_for(self.hidden.n_hidden, len({*labels}))
            what, remedy = "Learning {:,} hidden units", "Pass a smaller n_hidden."
            check_room(n_bytes, what, self.hidden.n_hidden, remedy=remedy)
        return list(map(Example, images, labels, weights, times))

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        if not self.count:
            IMAGE.check_sample(as_numpy(x))
            return np.zeros(0)
        return self._image_scores(self._read(x, read_image).values).reshape(-1)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        images = self._read(X)
        return images.source, of_images(self._image_scores, images)

    def _image_scores(self, images: Matrix) -> Floats:
        self._stage.check_images(images)
        network = self._answering()
        layer, rows_of = network.classifier, network.activations
        return in_blocks(lambda block: layer.scores_many(rows_of(block)), images)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one image: an array, {"image": array} or a dict of pixels; see `learn_many`."""
        with self._lock:

            def read() -> list[Example]:
                images, label = self._read(x, read_image).values, read_label(y)
                return self._examples(images, [label], check_weight(w), t)

            self._learn(read_whole(read, self))

    @matched_by_position
    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch of images, with the same result as learning them one by one.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or rows of pixels if `image_shape` is set
            Images.
        y : array, series or list of n labels
            Labels of the images.
        w : float, or array, series or list of n floats, optional
            Weights of the images, at least 0; 1 by default.
        t : number or date, or array, series or list of n of them, optional
            Times of the images, for classifiers with a `half_life`.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; the model is unchanged then.
        """
        with self._lock:
            self._learn(
                read_whole(lambda: self._batch_examples(self._read(X).values, y, w, t), self)
            )

    @matched_by_position
    def predict_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Predict every image of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train. The
        result equals that of `predict_one` followed by `learn_one` for each image in turn, at the
        speed of a batch.

        Parameters
        ----------
        X, y, w, t
            Images, labels, weights and times, as for `learn_many`.

        Returns
        -------
        array, series or list of n labels
            Predictions in the kind of `X`; None for images before the first learnt image.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; the model is unchanged then.

        Notes
        -----
        The cost is that of `LeastSquaresClassifier.predict_learn_many` on hidden activations. With
        the paper's ridge, the default without a preset, the weights are computed again for every
        image: use a linear layer whose ridge is a number or "auto".

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

    @matched_by_position
    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Return the probabilities of every image before it is learnt, then learn it.

        See `predict_learn_many` for parameters and errors, and
        `LeastSquaresClassifier.predict_proba_learn_many` for the table that is returned.
        """
        with self._lock:
            return tabulate_and_learn(self, X, y, w, t)

    def _answered(self, X: Any, y: Any, w: Any, t: Any = None, are_asked: bool = True) -> Answers:
        """Return the scores of images before each is learnt, and the network after learning."""
        with self._lock:
            images = self._read(X)
            examples = self._batch_examples(images.values, y, w, t)
            new, none = shallow_copy(self), np.zeros(0, dtype=np.intp)
            parts = [Answers(None, None, np.zeros((0, len(self.classes))), none)]
            for block in self._cut_at_changes(examples):
                network: Any = new._answering()
                part = answered(network.classifier, *batch_of(block, network.activations))
                new._stage = new._stage.after(block, replace(network, classifier=part.model))
                # Intermediate models are not stored.
                parts.append(part._replace(model=None))
            return joined_answers(new, images.source, parts)

    def _cut_at_changes(self, examples: Sequence[Example]) -> list[Sequence[Example]]:
        """Cut images into blocks before each of which one network with one ridge predicts."""
        changes = {FEW_IMAGES_PER_UNIT * self.hidden.n_hidden, *self._stage.changes(len(examples))}
        ends = [max(0, change - self.count) for change in sorted(changes)]
        parts = (examples[start:end] for start, end in pairwise([0, *ends, len(examples)]))
        return [block for part in parts for block in cut(part)]

    def _learn(self, examples: Sequence[Example]) -> None:
        """Learn or hold all checked images, or none of them if one is refused."""
        stage, is_block = self._stage, len(examples) == 1 or len(cut(examples)) == 1
        if is_block and isinstance(stage, FixedNetwork) and stage.shape is not None:
            stage.learn_block(examples)
        elif examples:
            # A later block may be refused or interrupted, so several are learnt in a copy.
            self._stage = read_whole(lambda: self._stage.learnt(examples), self)

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None, age: Any = None
    ) -> None:
        """Unlearn one image; see `unlearn_many`."""

        def left() -> Any:
            image, label = self._read(x, read_image), read_label(y)
            return self._stage.unlearnt(image, [label], check_weight(w), t, age)

        with self._lock:
            self._stage = read_whole(left, self)

    @matched_by_position
    def unlearn_many(self, X: Any, y: Any, w: Any = None, t: Any = None, age: Any = None) -> None:
        """Unlearn images, as `LeastSquaresClassifier.unlearn_many` does.

        Input weights that were made from these images in the warm-up do not change. During the
        warm-up, the images leave those that are stored: pass the pixels, the label and, unless rows
        are forgotten, the weight that were learnt. Memory holds the activations of the whole batch:
        unlearn many images in batches.

        Parameters
        ----------
        X, y, w
            Images, labels and weights, as for `learn_many`.
        t, age : optional
            As for `LeastSquaresClassifier.unlearn_many`. Without meaning during the warm-up.

        Raises
        ------
        TypeError, ValueError
            As for `LeastSquaresClassifier.unlearn_many`, or if an image is not among those that are
            stored during the warm-up. The model is unchanged then.
        """
        with self._lock:
            self._stage = read_whole(
                lambda: self._stage.unlearnt(self._read(X), y, w, t, age), self
            )

    def fix_features(self) -> None:
        """Fix everything that depends on data now, from the images stored so far.

        Use it at the end of a stream that is shorter than the warm-up. If the features are fixed
        already, nothing happens.

        Raises
        ------
        ValueError
            If the network has learnt fewer than two images.

        Warns
        -----
        DataWarning
            If the network has learnt fewer than 100 images (or `warm_up`, if that is smaller), or
            most hidden units are 0 for all of them. The latter is also reported when the warm-up
            ends.
        """
        with self._lock:
            least = min(FIRST_DRAFT, self.warm_up)
            if not self.features_fixed and 2 <= self.count < least:
                warn_caller(
                    "Features are made from few images.",
                    f"{self.count} images, expected at least {least}. Learn more images before "
                    "fix_features().",
                )
            self._stage = read_whole(lambda: self._stage.fixed(), self)

    def empty(self) -> Self:
        """Return a network with the same settings and fixed features that has learnt nothing.

        Networks made by one network's `empty` share their features, so they merge.
        """
        model = self.clone()
        if self.features_fixed:
            model._stage = self._network.empty()
        return model

    def merge(self, other: Self) -> Self:
        """Add what another network has learnt, in place, matching classes by name.

        Parameters
        ----------
        other : ShallowConvClassifier
            A network with the same settings and features. If its features are not fixed yet, this
            network learns its images. The other network stays unchanged.

        Returns
        -------
        ShallowConvClassifier
            This network, as if it had learnt the images of both.

        Raises
        ------
        TypeError, ValueError
            If settings, fixed features or image shapes differ; both models are unchanged then.
        """
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            theirs = other._settled
            self._stage.joint_shape(theirs)  # Raises if there are two.
            if isinstance(theirs, WarmUp):
                self._learn(theirs.stored)
            else:
                self._stage = read_whole(lambda: self._settled.merged(theirs), self, other)
        return self

    def difference(self, other: Self) -> float:
        """Return how far another network is from this one; see `onlinels.difference`."""
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            if self.features_fixed and other.features_fixed:
                self._network.check_same_features(other._network)
            layer = self._answering().classifier
            return layer.difference(with_ridge(other._answering().classifier, layer.ridge))

    def __add__(self, other: Self) -> Self:
        """Return a new network that has learnt the images of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added
