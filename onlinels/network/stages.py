"""The two stages of a network: images are stored; then features are fixed, and a layer learns.

A stage is frozen. What a network learns, unlearns or merges makes another stage, with which the
network then goes on. Two things change without a new stage: the sums of the linear layer, which one
call of the layer changes, and the draft of a warm-up, which follows from the images stored.
"""

from __future__ import annotations

import copy
import math
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import compress, count, groupby
from typing import Any, NamedTuple, Self

import numpy as np

from onlinels.checks import Floats, Matrix, check_weights, same, warn_caller
from onlinels.features.convolution import ConvolutionalFeatures
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import Images, Shape, block_means, full_shape, of_images, slices
from onlinels.features.preprocessing import ImagePreprocessing
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.numerics import shallow_copy
from onlinels.rows.labels import Classes, Label, read_labels
from onlinels.rows.times import ReadTimes, Time, exact, read_times, times_of
from onlinels.saving import is_small, savable
from onlinels.saving.description import SavedState

BLOCK_IMAGES = 1000
"""Images whose activations are computed at once, to bound memory."""


def _example_of(state: SavedState) -> Example:
    time = state["time"]
    if time is not None:
        # Older versions wrote datetimes.
        time = exact(read_times(time, 1, dates=isinstance(time, datetime))[0])
    return Example(**state | {"time": time})


@savable(make=_example_of)
class Example(NamedTuple):
    """A checked image (height, width, n_channels) with its label, weight and exact time."""

    image: Matrix
    label: Label
    weight: float
    time: Time | None = None

    def is_like(self, other: Example, any_weight: bool) -> bool:
        """Return whether two images have the same pixels, label and weight, or any weight."""
        if self.label != other.label or not (any_weight or self.weight == other.weight):
            return False
        return np.array_equal(self.image, other.image)


def cut(examples: Sequence[Example]) -> list[Sequence[Example]]:
    """Cut images into as few blocks as possible, in which either all images have times or none."""
    runs = [list(run) for _, run in groupby(examples, lambda each: each.time is None)]
    return [run[part] for run in runs for part in slices(0, len(run), BLOCK_IMAGES)]


def in_blocks(function: Callable[[Matrix], Matrix], images: Matrix) -> Matrix:
    """Return what a function returns for images, a row for each, with bounded memory."""
    parts = slices(0, len(images), BLOCK_IMAGES)
    return np.concatenate([function(images[part]) for part in parts])


def batch_of(
    examples: Sequence[Example], rows_of: Callable[[Matrix], Matrix]
) -> tuple[Matrix, Sequence[Label], Any, Any]:
    """Return the arguments of `learn_many` of the classifier that learns the rows of images."""
    images, labels, weights, times = zip(*examples, strict=True)
    # One weight for all rows spares their multiplication.
    w = np.array(weights) if any(weight != 1.0 for weight in weights) else 1.0
    t = None if times[0] is None else ReadTimes(times_of(times))
    return rows_of(np.stack(images)), labels, w, t


# The fixed network


def with_ridge(layer: LeastSquaresClassifier, ridge: Any) -> LeastSquaresClassifier:
    """Return a linear layer with another ridge, which shares its sums."""
    if layer.ridge == ridge:
        return layer
    new, state = shallow_copy(layer), layer._state
    new._state = state.with_sums(state.subsets, settings=state.settings._replace(ridge=ridge))
    return new


@dataclass(frozen=True, eq=False)
class Network:
    """The parts of a network in order, and the shape of the images that it has met."""

    preprocessing: ImagePreprocessing
    features: ConvolutionalFeatures
    hidden: HiddenLayer
    classifier: LeastSquaresClassifier
    # Height, width and number of channels; None before the first image.
    shape: Shape | None = None

    @property
    def known_shape(self) -> Shape | None:
        """The shape that images must have: that of the part that reads them, or of those met."""
        reads = self.preprocessing.image_shape
        if reads is None and self.preprocessing.is_identity:
            reads = self.features.image_shape
        return reads or self.shape

    def joint_shape(self, other: Network) -> Shape | None:
        """Return the shape of the images of two networks; raise ValueError if they have two."""
        if self.shape is None or other.shape is None:
            return self.shape or other.shape
        return full_shape(other.shape, self.shape)


def _stage_is_sound(network: Any) -> bool:
    width = len(network.classifier.feature_names)
    return width in (0, network.hidden.n_hidden) and is_small(*(network.shape or ()))


@savable(_stage_is_sound)
@dataclass(frozen=True, eq=False)
class FixedNetwork(Network):
    """Both stages of the paper with all features fixed, and the linear layer, which learns."""

    def __post_init__(self) -> None:
        # Its columns are the numbers of features, also if it was made from outputs of stage 1.
        if not self.hidden._columns.is_numbered:
            hidden = self.hidden.clone()
            hidden._columns = hidden._columns.as_numbered()
            vars(self)["hidden"] = hidden

    @property
    def count(self) -> int:
        """Number of images learnt."""
        return self.classifier.count

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt, in the order of their first occurrence."""
        return self.classifier.classes

    def empty(self) -> Self:
        """Return a network with the same features that has learnt nothing."""
        return replace(self, hidden=copy.copy(self.hidden), classifier=self.classifier.empty())

    def asked(self) -> FixedNetwork:
        """Return the network that predicts."""
        return self

    def changes(self, n_new: int) -> set[int]:
        """Return the counts of images at which another network predicts: none."""
        return set()

    def after(self, examples: Sequence[Example], network: FixedNetwork) -> FixedNetwork:
        """Return the stage with images that a copy of the network that predicts has learnt."""
        return replace(network, shape=examples[0].image.shape)

    def fixed(self) -> FixedNetwork:
        """Return the network with fixed features."""
        return self

    def check_images(self, images: Matrix) -> None:
        """Raise unless images fit the parts: `activations` does."""

    def activations(self, images: Matrix) -> Matrix:
        """Return the hidden activations (n, n_hidden) of images."""
        processed = self.preprocessing.outlook(images)
        return self.hidden.activations_of(self.features.features_of(processed, self.hidden.dtype))

    def learn_block(self, examples: Sequence[Example]) -> None:
        """Let the linear layer learn a block of images in place: all of them, or none."""
        rows, labels, w, t = batch_of(examples, self.activations)
        layer = self.classifier
        if len(rows) > 1 or layer.half_life is not None or not layer.count:
            layer.learn_many(rows, labels, w, t)
            return
        layer.learn_one(dict(enumerate(rows[0].tolist())), labels[0], examples[0].weight)

    def learnt(self, examples: Sequence[Example]) -> FixedNetwork:
        """Return the network after learning images, with a linear layer of its own."""
        layer = copy.deepcopy(self.classifier)
        for block in cut(examples):
            layer.learn_many(*batch_of(block, self.activations))
        shape = examples[0].image.shape if examples else self.shape
        return replace(self, classifier=layer, shape=shape)

    def unlearnt(self, images: Images, y: Any, w: Any, t: Any, age: Any) -> FixedNetwork:
        """Return the network without images that are read."""
        layer = shallow_copy(self.classifier)
        rows_of = partial(in_blocks, self.activations)
        layer.unlearn_many(of_images(rows_of, images), y, w, t, age)
        return replace(self, classifier=layer)

    def merged(self, other: FixedNetwork) -> FixedNetwork:
        """Return the network after what another with the same features has learnt."""
        self.check_same_features(other)
        layer = shallow_copy(self.classifier)
        layer.merge(with_ridge(other.classifier, layer.ridge))
        return replace(self, classifier=layer, shape=self.joint_shape(other))

    def check_same_features(self, other: FixedNetwork) -> None:
        """Raise ValueError unless two networks have the same fixed features."""
        if not same(self._feature_settings(), other._feature_settings()):
            problem = "other has different fixed features, made from other images"
            remedy = "Start both networks from the empty() of one"
            raise ValueError(f"{problem}, expected the same. {remedy}.")

    def _feature_settings(self) -> list[dict[str, Any]]:
        """Return the settings that determine the hidden activations, up to rounding."""
        # Input weights that two machines make of the same images differ by rounding.
        origin = self.hidden._made.origin
        weights = {} if origin is None else {"input_weights": origin}
        parts = self.preprocessing, self.features, self.hidden
        preprocessing, features, hidden = (part._get_params() for part in parts)
        return [preprocessing, features, hidden | weights]


# The warm-up

FIRST_DRAFT = 100
"""Number of stored images from which a network predicts, and not a classifier of pixels.

Accuracy of pixels and network, in percent:

    images           50        100       300       1,000
    8x8 digits       81, 80    84, 89    90, 94    90, 98
    MNIST            58, 67    74, 91    77, 95    81, 98
"""

FIRST_WHITENED = 400
"""The same if whitening is made from the images: of fewer, it costs accuracy.

CIFAR-10 after 100, 200 and 300 images: 22, 25, 29%; a classifier of pixels 27, 29, 30%.
"""

UNITS_PER_IMAGE = 2
"""Number of hidden units of a draft per stored image from which its features are made.

Measured on MNIST: twice and four times as many units classify as well.
"""

PIXEL_RIDGE = 0.3
"""Measured on 8x8 and 28x28 digits: best or nearly so for 50 to 900 images of unit length."""


MAX_LEARNT_PIXELS = 1024
"""Most pixels, over all channels, that the warm-up classifier learns: 8 MiB of statistics."""


def unit_pixels(images: Matrix) -> Floats:
    """Return images as rows of length 1 for the warm-up classifier, averaged over blocks."""
    height, width, n_channels = images.shape[1:]
    # For every block size, the number of blocks that cover an image; the last may be partial.
    sizes = ((size, -(-height // size) * -(-width // size)) for size in count(1))
    size = next(size for size, n in sizes if n * n_channels <= MAX_LEARNT_PIXELS or n == 1)
    if size > 1:
        margins = [(0, 0), (0, -height % size), (0, -width % size), (0, 0)]
        images = block_means(np.pad(images, margins), size, np.float64)
    pixels: Floats = images.reshape(len(images), -1).astype(np.float64)
    lengths = np.linalg.norm(pixels, axis=1, keepdims=True)
    pixels /= np.where(lengths == 0.0, 1.0, lengths)
    return pixels


@dataclass(frozen=True, eq=False)
class PixelNetwork:
    """A classifier of pixels, which predicts before there are images enough for a draft."""

    classifier: LeastSquaresClassifier

    def activations(self, images: Matrix) -> Matrix:
        """Return the pixels that the classifier learns."""
        return unit_pixels(images)


def draft_size(n_stored: int, first: int = FIRST_DRAFT) -> int:
    """Return from how many of the stored images the features of a draft are made; 0 for no draft.

    Examples
    --------
    >>> draft_size(99), draft_size(199), draft_size(900), draft_size(900, first=400)
    (0, 100, 800, 800)
    """
    return first << (n_stored // first).bit_length() - 1 if n_stored >= first else 0


TESTED_AT = 20, 40, 80
"""Numbers of stored images from which the classifier of pixels is tested on them, when it is asked.

Photos of four parts, three orders, 20, 40 and 80 of them: the test warns in 9 of 9, and the
classifier names 23 to 33% of new photos. CIFAR-10: in 5 of 6; digits of 8x8 and 28x28 pixels: in
none of 12.
"""

MIN_TESTED_PER_CLASS = 4
"""Number of images per class from which the classifier is tested: fewer tell too little."""

N_FOLDS = 5


def n_recognised(layer: LeastSquaresClassifier, stored: Sequence[Example]) -> int:
    """Return how many images a classifier of pixels names if every fifth is left out in turn."""
    rows = unit_pixels(np.stack([each.image for each in stored]))
    labels, n_right = [each.label for each in stored], 0
    fold_of = np.random.default_rng(0).permutation(len(stored)) % N_FOLDS
    for fold in range(N_FOLDS):
        model, learnt, left = layer.empty(), fold_of != fold, fold_of == fold
        model.learn_many(rows[learnt], [*compress(labels, learnt)])
        answers = zip(model.predict_many(rows[left]), compress(labels, left), strict=True)
        n_right += sum(bool(answer == label) for answer, label in answers)
    return n_right


@savable()
@dataclass(eq=False)
class Draft:
    """What predicts during a warm-up; it is no part of copies and files.

    Attributes
    ----------
    made : tuple (size, network) or None
        The network, and from how many images its features are made. It has learnt the first of the
        images stored; those that it lacks are learnt when it is asked.
    n_tested : int
        Number of images stored when it was last tested.
    """

    made: tuple[int, FixedNetwork | PixelNetwork] | None = None
    n_tested: int = 0

    def test(self, layer: LeastSquaresClassifier, stored: Sequence[Example]) -> None:
        """Warn, at some numbers of images, if pixels hardly tell the classes apart."""
        n_images, n_before = len(stored), self.n_tested
        if bisect(TESTED_AT, n_images) in (0, bisect(TESTED_AT, n_before)):
            return
        counts = Counter(each.label for each in stored)
        if n_images < MIN_TESTED_PER_CLASS * len(counts):
            return
        self.n_tested, most = n_images, max(counts.values())
        # As many as the most frequent label has, and two standard deviations.
        limit = most + 2.0 * math.sqrt(most * (1 - most / n_images))
        if limit >= n_images:  # Nearly all are of one class.
            return
        n_right = n_recognised(layer, stored)
        if n_right <= limit:
            warn_caller(
                "The network hardly recognises the images that it has learnt so far.",
                f"It names {n_right} of {n_images} images that are left out in turn; {most} have "
                "the most frequent label. Learn at least 100 images. For photos, learn embeddings "
                "of a pretrained network by a LeastSquaresClassifier.",
            )

    def __getstate__(self) -> dict[str, Any]:
        return {}


@savable(lambda stage: is_small(*(stage.shape or ())))
@dataclass(frozen=True, eq=False)
class WarmUp(Network):
    """The images that are stored until whitening, filters and input weights are made from them.

    Meanwhile a smaller network predicts (`asked`), which is made anew whenever the number of stored
    images has doubled.
    """

    # Number of images from which features are made.
    warm_up: int = 1000
    stored: tuple[Example, ...] = ()
    draft: Draft = field(default_factory=Draft)

    @property
    def count(self) -> int:
        """Number of images stored."""
        return len(self.stored)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels of the images stored, in the order of their first occurrence."""
        return Classes().extended(each.label for each in self.stored).labels

    def check_images(self, images: Matrix) -> None:
        """Raise unless images fit the parts, so that they can be learnt when the warm-up ends."""
        processed = self.preprocessing.outlook(images)
        self.hidden.check_width(self.features.check_images(processed, self.hidden.dtype))

    def learnt(self, examples: Sequence[Example]) -> WarmUp | FixedNetwork:
        """Return the stage with more images: a fixed network if these are enough."""
        if self.count + len(examples) >= self.warm_up:
            return self.fixed(examples)
        stored = [each._replace(image=each.image.copy()) for each in examples]
        return replace(self, stored=(*self.stored, *stored), shape=examples[0].image.shape)

    def unlearnt(self, images: Images, y: Any, w: Any, t: Any, age: Any) -> WarmUp:
        """Return the stage without some of the images; raise ValueError if one is not stored."""
        labels, n_rows = read_labels(y, len(images.values)), len(images.values)
        weights = np.broadcast_to(check_weights(w, n_rows), n_rows).tolist()
        stored, forgets = [*self.stored], self.classifier._state.clock.forgets
        for number, each in enumerate(map(Example, images.values, labels, weights)):
            places = (place for place, one in enumerate(stored) if one.is_like(each, forgets))
            place = next(places, None)
            if place is None:
                problem = f"X[{number}] with label {each.label!r} and weight {each.weight:g} is"
                expected = f"not among the {self.count:,} warm-up images, expected one of them"
                raise ValueError(f"{problem} {expected}. Remove only images that were learnt.")
            del stored[place]
        return replace(self, stored=tuple(stored), draft=Draft())

    def fixed(self, new: Sequence[Example] = ()) -> FixedNetwork:
        """Return the network made from the first `warm_up` of the stored and new images.

        It has learnt them all.
        """
        examples = (*self.stored, *new)
        if len(examples) < 2:
            found = f"The network has learnt {self.count} images"
            raise ValueError(f"{found}, expected at least 2. Learn more images first.")
        network = self._made_from(examples[: self.warm_up]).learnt(examples)
        # Input weights that are the difference of equal images are 0.
        dead = network.classifier._state.statistics.are_zero[: self.hidden.n_hidden]
        if dead.mean() > 0.5:
            warn_caller(
                "Most hidden units are 0 for all images so far.",
                f"{dead.sum():,} of {len(dead):,} are, because too many of the warm-up images are "
                "equal, or have equal features. Start a new network with more varied images, or a "
                "larger warm_up.",
            )
        return network

    def _made_from(self, examples: Sequence[Example], n_hidden: int | None = None) -> FixedNetwork:
        """Return a network with features made from images, which has learnt nothing.

        Input weights are differences of images of distinct classes, or of any two images if all are
        of one class. `n_hidden` replaces the number of hidden units that need examples.
        """
        images, labels = np.stack([each.image for each in examples]), [e.label for e in examples]
        settings = self.preprocessing._get_params()
        preprocessing = ImagePreprocessing.from_examples(images, **settings)
        settings = self.features._get_params()
        processed = preprocessing.transform_many(images)
        features = ConvolutionalFeatures.from_examples(processed, labels, **settings)
        hidden = self.hidden
        if not hidden.is_fixed:
            names: Sequence[Hashable] = labels if len(set(labels)) > 1 else range(len(labels))
            hidden = hidden.clone({"n_hidden": n_hidden or hidden.n_hidden})
            hidden = hidden.from_images(preprocessing, features, images, names)
        return FixedNetwork(preprocessing, features, hidden, self.classifier.empty())

    def merged(self, other: FixedNetwork) -> FixedNetwork:
        """Return another network after the images stored, with a hidden layer of its own."""
        network = replace(other, hidden=copy.copy(other.hidden), shape=self.joint_shape(other))
        return network.learnt(self.stored)

    def changes(self, n_new: int) -> set[int]:
        """Return the counts of images at which another network predicts, within so many new."""
        counts = range(self.count + 1, min(self.count + n_new, self.warm_up) + 1)
        return {self.warm_up, *map(self.size_of_draft, counts)}

    def after(
        self, examples: Sequence[Example], network: FixedNetwork | PixelNetwork
    ) -> WarmUp | FixedNetwork:
        """Return the stage with images that a copy of the network that predicts has learnt."""
        stage = self.learnt(examples)
        if isinstance(stage, WarmUp):
            made = self.size_of_draft(self.count), network
            stage = replace(stage, draft=Draft(made, self.draft.n_tested))
        return stage

    def size_of_draft(self, n_stored: int) -> int:
        """Return from how many images the features of a draft are made, if so many are stored."""
        return draft_size(n_stored, FIRST_DRAFT if self.preprocessing.is_fixed else FIRST_WHITENED)

    def asked(self) -> FixedNetwork | PixelNetwork:
        """Return the network that predicts, after it has learnt the images stored."""
        size, made = self.size_of_draft(self.count), self.draft.made
        if made is None or made[0] != size:
            network: FixedNetwork | PixelNetwork = PixelNetwork(LeastSquaresClassifier(PIXEL_RIDGE))
            if size:
                n_hidden = min(self.hidden.n_hidden, UNITS_PER_IMAGE * size)
                network = self._made_from(self.stored[:size], n_hidden)
            self.draft.made = made = size, network
        layer = made[1].classifier
        for block in cut(self.stored[layer.count :]):
            layer.learn_many(*batch_of(block, made[1].activations))
        if not size:
            self.draft.test(layer, self.stored)
        return made[1]
