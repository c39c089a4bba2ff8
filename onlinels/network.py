"""ShallowConvClassifier: from images to labels, both stages of the paper in one estimator.

Images are held until whitening, filters and input weights can be made from them. Then these parts
are fixed, and only the linear layer learns (`FixedNetwork`). Meanwhile a smaller network predicts,
which is made anew whenever the number of held images has doubled.
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, groupby, pairwise
from typing import Any, NamedTuple, Self, get_type_hints

import numpy as np

from onlinels.checks import (
    Floats,
    Matrix,
    check_choice,
    check_count,
    check_mergeable,
    check_part,
    check_positive,
    check_room,
    check_weights,
    read_only,
    same,
    settings_of,
    warn_caller,
)
from onlinels.features.convolution import ConvolutionalFeatures
from onlinels.features.filters import Patches
from onlinels.features.hidden import HiddenLayer
from onlinels.features.images import (
    IMAGE,
    Images,
    Shape,
    block_means,
    channels_hint,
    check_image_shape,
    of_images,
    one_of_a_batch,
    read_image,
    read_images,
    slices,
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
from onlinels.linear.ridge import Penalty
from onlinels.linear.scoring import Priors, ScoringClassifier
from onlinels.locks import Lock, all_held
from onlinels.meta import MetaClassifier
from onlinels.numerics import read_whole, shallow_copy, zero_added
from onlinels.rows.batch import Name, as_numpy, matched_by_position
from onlinels.rows.labels import Classes, Label, read_label, read_labels
from onlinels.rows.times import ReadTimes, Time, exact, read_times, times_of
from onlinels.saving import is_small, savable, settings_hold
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
    time: Time | None


FIRST_DRAFT = 100
"""Number of held images from which a network predicts, and not a classifier of pixels.

Accuracy of pixels and network, in percent (demos/benchmarks/warm_up.py):

    images           50        100       300       1,000
    8x8 digits       81, 80    84, 89    90, 94    90, 98
    MNIST            58, 67    74, 91    77, 95    81, 98
"""

FIRST_WHITENED = 400
"""The same if whitening is made from the images: of fewer, it costs accuracy.

CIFAR-10 after 100, 200 and 300 images: 22, 25, 29%; a classifier of pixels 27, 29, 30%.
"""

UNITS_PER_IMAGE = 2
"""Number of hidden units of a draft per held image from which its features are made.

Measured on MNIST: twice and four times as many units classify as well.
"""

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


def draft_size(n_held: int, first: int = FIRST_DRAFT) -> int:
    """Return from how many of the held images the features of a draft are made; 0 for no draft.

    Examples
    --------
    >>> draft_size(99), draft_size(199), draft_size(900), draft_size(900, first=400)
    (0, 100, 800, 800)
    """
    return first << (n_held // first).bit_length() - 1 if n_held >= first else 0


def cut(examples: Sequence[Example]) -> list[list[Example]]:
    """Cut images into as few blocks as possible, in which either all images have times or none."""
    runs = [list(run) for _, run in groupby(examples, lambda each: each.time is None)]
    return [run[part] for run in runs for part in slices(0, len(run), BLOCK_IMAGES)]


def are_pixels(X: Any, read: Callable[..., Images]) -> bool:
    """Return whether images come as rows of pixels; as one row, if `read` is `read_image`."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    if isinstance(first, Mapping):
        return not any(getattr(value, "ndim", 0) for value in first.values())
    return getattr(X, "ndim", 2) == (1 if read is read_image else 2)


def in_blocks(function: Callable[[Matrix], Matrix], images: Matrix) -> Matrix:
    """Return what a function returns for images, a row for each, with bounded memory."""
    parts = slices(0, len(images), BLOCK_IMAGES)
    return np.concatenate([function(images[part]) for part in parts])


def is_same_example(one: Example, other: Example, any_weight: bool) -> bool:
    """Return whether two images have the same pixels, label and weight, or any weight."""
    if one.label != other.label or not (any_weight or one.weight == other.weight):
        return False
    return np.array_equal(one.image, other.image)


def batch_of(
    examples: Sequence[Example], rows_of: Callable[[Matrix], Matrix]
) -> tuple[Matrix, Sequence[Label], Any, Any]:
    """Return the arguments of `learn_many` of the classifier that learns the rows of images."""
    images, labels, weights, times = zip(*examples, strict=True)
    # One weight for all rows spares their multiplication.
    w = np.array(weights) if any(weight != 1.0 for weight in weights) else 1.0
    t = None if times[0] is None else ReadTimes(times_of(times))
    return rows_of(np.stack(images)), labels, w, t


@savable(lambda net: len(net.classifier.feature_names) in (0, net.hidden.n_hidden))
@dataclass(eq=False)
class FixedNetwork:
    """Both stages with all features fixed, and the linear layer that learns."""

    preprocessing: ImagePreprocessing
    features: ConvolutionalFeatures
    hidden: HiddenLayer
    classifier: LeastSquaresClassifier

    def __post_init__(self) -> None:
        # Its columns are the numbers of features, also if it was made from outputs of stage 1.
        if not self.hidden._columns.is_numbered:
            self.hidden = copy.copy(self.hidden)
            self.hidden._columns = self.hidden._columns.as_numbered()

    def fit_features(self, images: Matrix, labels: list[Label]) -> FixedNetwork:
        """Return a network with whitening, filters and input weights made from images.

        Differences are those of images of distinct classes, or of any two images if all are of one
        class. The new network has learnt nothing.
        """
        settings = self.preprocessing._get_params()
        preprocessing = ImagePreprocessing.from_examples(images, **settings)
        settings = self.features._get_params()
        processed = preprocessing.transform_many(images)
        features = ConvolutionalFeatures.from_examples(processed, labels, **settings)
        hidden = self.hidden.clone()
        if not hidden.is_fixed:
            names = labels if len(set(labels)) > 1 else range(len(labels))
            hidden = hidden.from_images(preprocessing, features, images, names)
        return FixedNetwork(preprocessing, features, hidden, self.classifier.empty())

    @property
    def feature_settings(self) -> list[dict[str, Any]]:
        """The settings that determine the hidden activations, up to rounding."""
        # Input weights that two machines make of the same images differ by rounding.
        origin = self.hidden._made.origin
        weights = {} if origin is None else {"input_weights": origin}
        parts = self.preprocessing, self.features, self.hidden
        preprocessing, features, hidden = (part._get_params() for part in parts)
        return [preprocessing, features, hidden | weights]

    def empty(self) -> FixedNetwork:
        """Return a network with the same features that has learnt nothing."""
        return replace(self, hidden=copy.copy(self.hidden), classifier=self.classifier.empty())

    def activations(self, images: Matrix) -> Matrix:
        """Return the hidden activations (n, n_hidden) of images."""
        processed = self.preprocessing.transform_many(images)
        self.hidden.check_width(self.features.check_images(processed, self.hidden.dtype))
        features = np.asarray(self.features.transform_many(processed))
        return np.asarray(self.hidden.transform_many(features))

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn all images block by block, or none of them."""
        blocks = cut(examples)
        if len(blocks) == 1:
            self.classifier.learn_many(*batch_of(blocks[0], self.activations))
            return

        def learnt() -> LeastSquaresClassifier:
            layer = copy.deepcopy(self.classifier)
            for block in blocks:
                layer.learn_many(*batch_of(block, self.activations))
            return layer

        # A later block may be refused or interrupted, so several blocks are learnt in a copy.
        self.classifier = read_whole(learnt, self)

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states differ; see `read_whole`."""
        return self.classifier, *self.classifier._version


# Presets

PresetSettings = dict[str, Any]

KINDS: dict[str, Any] = get_type_hints(FixedNetwork)
"""Classes of the parts of the network."""

PART_PARAMETERS = {part: {*settings_of(kind)} - {"prefix"} for part, kind in KINDS.items()}
# The preprocessing reads the images and knows the shape of those that it passes on.
PART_PARAMETERS["features"].remove("image_shape")
PART_PARAMETERS["network"] = {"warm_up", "image_shape", "few_images_ridge"}
"""Settings of every part of the network; precision and seed belong to several parts."""

COMMON_SETTINGS: PresetSettings = {
    "drop_ring": 5,
    "normalize": "image",
    "dtype": "float32",
    "input_weights": "centred-difference",
    "activation": "square",
    "bias": False,
    "ridge": 5e-7,
    "few_images_ridge": 1e-4,
    "scaling": None,
    "fit_intercept": False,
    "priors": "equal",
    "warm_up": 4000,
}
"""Common settings of the presets unless they replace them: those that classify best.

The paper's text divides every map by its sum and keeps all pooled positions. The author's script
drops the ring of positions whose windows extend beyond the image, which classifies better (MNIST,
3,200 units: 0.58% errors without the ring, 0.68% with it). Dividing all features of an image by
their length, which neither the text nor the script does, lowers the squared error by 2% and hardly
changes the number of errors. Linear discriminants with equal priors, in place of the paper's
least-squares scores, make fewer errors on digits and CIFAR-10, and recognise new classes after a
few images. On MNIST, with 12,000 hidden units, the error is 0.37% without priors and 0.41% with
equal priors.

The paper's ridge grows with the number of images, so every image changes the whole solution. One
number for all counts of images classifies as well or better, since all features have the same
length. Errors on MNIST with 2,000 units (demos/benchmarks/README.md):

    images           4,000   10,000  60,000
    one number       0.95%   0.66%   0.51%
    paper's ridge    1.00%   0.66%   0.53%

The ridges of "norb" and "svhn" are those of "mnist" and "cifar10".
"""

PRESET_COLUMNS = ("image_shape", "filters", "pool_size", "stride", "n_hidden")


def _preset(*row: Any, **others: Any) -> PresetSettings:
    """Return the settings of `PRESET_COLUMNS`, as in the paper's tables, and other settings."""
    return COMMON_SETTINGS | dict(zip(PRESET_COLUMNS, row, strict=True)) | others


PAPER_FILTERS = ("hand-designed", Patches(17))
COLOUR_SETTINGS: PresetSettings = {"scale": 255.0, "grey_channel": True, "ridge": 1e-4}
PAPER_FEATURES: PresetSettings = {"normalize": True, "input_weights": "difference"}
PAPER_SETTINGS = PAPER_FEATURES | {"drop_ring": 0, "ridge": "paper", "priors": None}
DIGIT_SETTINGS = PAPER_FEATURES | {"dtype": "float64", "warm_up": 200, "ridge": 5e-6}
for _settings in (PAPER_SETTINGS, DIGIT_SETTINGS):
    _settings["few_images_ridge"] = None

PRESETS: dict[str, PresetSettings] = {
    # Tables 1, 2 and 4: C = 1, W = 7, Q = 8, D = 2, P = 60, M = 12,000.
    "mnist-paper": _preset((28, 28), PAPER_FILTERS, 8, 2, 12_000, **PAPER_SETTINGS),
    # The same sizes: 0.37% errors on average over five draws, 0.41% with box pooling.
    "mnist": _preset((28, 28), PAPER_FILTERS, 8, 2, 12_000, pooling="gaussian", priors=None),
    # C = 2 (stereo), 96 x 96 pixels downsampled to 32 x 32, W = 7, Q = 10, D = 2, P = 60,
    # M = 10,000.
    "norb": _preset((96, 96, 2), PAPER_FILTERS, 10, 2, 10_000, downsample=3, scale=255.0),
    # C = 4 (RGB and grey), W = 7, Q = 7, D = 5, P = 96, M = 40,000.
    "svhn": _preset((32, 32, 3), Patches(96), 7, 5, 40_000, **COLOUR_SETTINGS),
    # C = 4, ZCA whitening of every channel, W = 7, Q = 7, D = 3, P = 96, M = 40,000.
    "cifar10": _preset((32, 32, 3), Patches(96), 7, 3, 40_000, **COLOUR_SETTINGS, whitening=0.001),
    # With normalised responses and 400 units, the condition number of the Gram is about 1e7, so
    # online and batch weights agree to 9 digits. With 800 units and no normalisation, they agree to
    # 6 digits, and the accuracy is no better.
    "digits": _preset((8, 8), "hand-designed", 3, 2, 400, padding=6, drop_ring=2, **DIGIT_SETTINGS),
}
"""Values of M. D. McDonnell and T. Vladusich (2015), Tables 1 (data), 2 (stage 1) and 4 (P and M).

For "svhn" and "cifar10", the paper uses the filters of OverFeat's first stage, which may not be
redistributed: if you have them, pass them as an array (96, 7, 7, 3), ``filters=array``. These
presets use the same number of patches of the training images, of the same size, instead.
"""


def preset_settings(name: str, overrides: PresetSettings) -> dict[str, PresetSettings]:
    """Return a preset's settings by part of the network, after replacing some.

    Raises
    ------
    ValueError
        If the preset or a setting is unknown.

    Examples
    --------
    >>> preset_settings("mnist", {"n_hidden": 100})["hidden"]["n_hidden"]
    100
    """
    check_choice("name", name, PRESETS)
    known = {setting for settings in PART_PARAMETERS.values() for setting in settings}
    for setting in overrides.keys() - known:
        problem = f"{setting!r} is not a setting of the network, expected one of"
        raise ValueError(f"{problem} {', '.join(sorted(known))}. Remove or rename it.")
    # A ridge of the caller's is in force whatever the number of images.
    own = {"few_images_ridge": None} if "ridge" in overrides else {}
    chosen = PRESETS[name] | own | overrides
    parts = {
        part: {setting: chosen[setting] for setting in chosen if setting in settings}
        for part, settings in PART_PARAMETERS.items()
    }
    # Images of another size than the preset's may come, but not of another than the caller's.
    del parts["network" if "image_shape" in overrides else "preprocessing"]["image_shape"]
    return parts


def with_ridge(layer: LeastSquaresClassifier, ridge: Any) -> LeastSquaresClassifier:
    """Return a linear layer with another ridge, which shares its sums."""
    if layer.ridge == ridge:
        return layer
    return layer._draft(_settings=layer._settings._replace(ridge=ridge), _penalty=Penalty())


def check_same_features(one: FixedNetwork, other: FixedNetwork) -> None:
    """Raise ValueError unless two networks have the same fixed features."""
    if not same(one.feature_settings, other.feature_settings):
        problem = "other has different fixed features, made from other images"
        remedy = "Start both networks from the empty() of one"
        raise ValueError(f"{problem}, expected the same. {remedy}.")


def _network_fits(model: Any) -> bool:
    sizes = is_small(*(model.image_shape or ())) and is_small(*(model._image_shape or ()))
    return sizes and settings_hold(model)


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
    two: until the features are fixed, `classes` and `count` are those of the images held, and
    `feature_names`, `output_weights` and `intercept` have no hidden units. After the warm-up, the
    network learns the held images like any others and drops them, except those whose features its
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
        self._image_shape: Shape | None = None
        self._fixed: FixedNetwork | None = None
        # During the warm-up: the images held, and a classifier of their pixels that predicts. It
        # learns the held images when a prediction is asked for.
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

    # Networks in files of earlier versions have no such settings.
    image_shape: Shape | None = None
    few_images_ridge: float | None = None

    # During the warm-up: the network that predicts, and the number of images it is made from.
    _draft: tuple[int, FixedNetwork] | None = None

    def _parts(self) -> FixedNetwork:
        return FixedNetwork(self.preprocessing, self.features, self.hidden, self.classifier)

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved."""
        # The draft is made from the held images.
        return {name: each for name, each in vars(self).items() if name != "_draft"}

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        of_layer = () if self._fixed is None else self._fixed._version
        return self._fixed, self._held, self._image_shape, *of_layer

    def __repr__(self) -> str:
        held = f"  # {self.count:,} of {self.warm_up:,} warm-up images"
        return super().__repr__() + ("" if self.features_fixed else held)

    @property
    def features_fixed(self) -> bool:
        """Whether everything that depends on data is fixed: False during the warm-up."""
        return self._fixed is not None

    def _answering(self) -> tuple[LeastSquaresClassifier, Callable[[Matrix], Matrix]]:
        """Return the linear layer that predicts, and the function from images to its rows.

        During the warm-up, the layer learns the held images here.
        """
        with self._lock:
            network = self._fixed or self._current_draft()
            layer = network.classifier if network else self._of_pixels
            rows_of = network.activations if network else unit_pixels
            # These settings can change at any time, and count when weights are computed.
            layer.priors = self.classifier.priors
            if network:
                self._set_ridge(network)
            for block in cut(self._held[layer.count :]):
                layer.learn_many(*batch_of(block, rows_of))
            return layer, rows_of

    def _set_ridge(self, network: FixedNetwork) -> None:
        """Set the ridge of a network's linear layer, by the number of images learnt."""
        ridge, least = self.classifier.ridge, self.few_images_ridge
        are_few = self.count < FEW_IMAGES_PER_UNIT * network.hidden.n_hidden
        if are_few and least is not None and isinstance(ridge, numbers.Real):
            ridge = max(ridge, least)
        # Rows that were removed may leave too few digits for a smaller ridge.
        with suppress(ValueError):
            network.classifier.ridge = ridge

    def _linear_layer(self) -> LeastSquaresClassifier:
        """Return the classifier of hidden activations, or of pixels early in the warm-up."""
        return self._answering()[0]

    def _draft_size(self, n_held: int) -> int:
        whitens = not self.preprocessing.is_fixed
        return draft_size(n_held, FIRST_WHITENED if whitens else FIRST_DRAFT)

    def _current_draft(self) -> FixedNetwork | None:
        """Return the network whose features are made from the first of the held images."""
        size = self._draft_size(len(self._held))
        if not size:
            return None
        if self._draft is None or self._draft[0] != size:
            parts, images = self._parts(), np.stack([each.image for each in self._held[:size]])
            if not parts.hidden.is_fixed:
                n_hidden = min(self.hidden.n_hidden, UNITS_PER_IMAGE * size)
                parts.hidden = self.hidden.clone({"n_hidden": n_hidden})
            labels = [each.label for each in self._held[:size]]
            self._draft = size, parts.fit_features(images, labels)
        return self._draft[1]

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
            if self._fixed is not None:
                self._fixed.classifier.ridge = ridge
            self.classifier.ridge = ridge
            vars(self)["few_images_ridge"] = None

    def select_ridge(self) -> None:
        """Select the ridge now; see `LeastSquaresClassifier.select_ridge`."""
        with self._lock:
            self._linear_layer().select_ridge()

    @property
    def priors(self) -> Any:
        """Priors setting of the linear layer; it can be assigned at any time."""
        return self.classifier.priors

    @priors.setter
    def priors(self, priors: Priors) -> None:
        self.classifier.priors = priors

    def _probabilities(self, scores: Floats) -> Floats:
        return self._linear_layer()._probabilities(scores)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier", "ridge", "priors"}

    # What these properties say of the network is known without learning: during the warm-up, it has
    # classes, but no hidden units yet.

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels learnt so far, in the order of their first occurrence."""
        with self._lock:
            if self._fixed is None:
                return Classes().extended(each.label for each in self._held).labels
            return self._fixed.classifier.classes

    @property
    def count(self) -> int:
        """Number of images learnt, including those held for the warm-up."""
        return len(self._held) if self._fixed is None else self._fixed.classifier.count

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Numbers of the hidden units, in the order of weights; () during the warm-up."""
        return () if self._fixed is None else self._fixed.classifier.feature_names

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_hidden, n_classes), read-only; (0, n_classes) during the warm-up."""
        if self._fixed is None:
            return read_only(np.zeros((0, len(self.classes))))
        return self._fixed.classifier.output_weights

    @property
    def intercept(self) -> Floats:
        """Constants (n_classes,) added to the scores, read-only; zeros during the warm-up."""
        if self._fixed is None:
            return read_only(np.zeros(len(self.classes)))
        return self._fixed.classifier.intercept

    @property
    def ridge_(self) -> float:
        """The ridge in force; during the warm-up, that of a network that has learnt nothing."""
        return (self.classifier if self._fixed is None else self._fixed.classifier).ridge_

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
            return of_images(self._activations, self._read(X))

    def _activations(self, images: Matrix) -> Matrix:
        self._check_shape(images.shape[1:])
        return in_blocks(self._network.activations, images)

    @property
    def bank(self) -> Floats:
        """The filters, as of `ConvolutionalFeatures`; ValueError if they are not fixed yet."""
        return (self.features if self.features.is_fixed else self._network.features).bank

    @property
    def _network(self) -> FixedNetwork:
        """The network with fixed features; ValueError during the warm-up."""
        if self._fixed is None:
            problem = f"{self.count:,} of {self.warm_up:,} warm-up images are learnt"
            remedy = "Learn more images, or call fix_features()."
            raise ValueError(f"Features are not fixed yet: {problem}. {remedy}")
        return self._fixed

    def _examples(self, images: Matrix, y: Any, w: Any, t: Any) -> list[Example]:
        """Return images with their labels, weights and times, checked."""
        n_rows = len(images)
        # A colour image reads as many images of 3 or 4 columns.
        if images.shape[2:] in ((3, 1), (4, 1)) and n_rows > len(read_labels(y)) == 1:
            raise one_of_a_batch(images.shape[:-1])
        if n_rows:
            self._check_images(images)
        labels = read_labels(y, n_rows)
        weights = np.broadcast_to(check_weights(w, n_rows), n_rows).tolist()
        read = self.classifier._clock.read(t, n_rows)
        times = [None] * n_rows if read is None else [*map(exact, read.tolist())]
        if n_rows and self._fixed is None and not self._held:
            n_bytes = self.classifier._statistics.bytes_for(self.hidden.n_hidden, len({*labels}))
            what, remedy = "Learning {:,} hidden units", "Pass a smaller n_hidden."
            check_room(n_bytes, what, self.hidden.n_hidden, remedy=remedy)
        return list(map(Example, images, labels, weights, times))

    def _check_images(self, images: Matrix) -> None:
        """Raise unless images fit the parts and earlier images; a fixed network checks more."""
        if images.shape[:-1] == self._image_shape != images.shape[1:]:
            raise one_of_a_batch(images.shape[:-1])
        self._check_shape(images.shape[1:])
        if self._fixed is None:
            processed = self.preprocessing.outlook(images)
            self.hidden.check_width(self.features.check_images(processed, self.hidden.dtype))

    def _read(self, X: Any, read: Callable[..., Images] = read_images) -> Images:
        """Read images, or rows of pixels by the shape of a part, earlier images or the setting."""
        comes_first = self.features.image_shape if self.preprocessing.is_identity else None
        shape = self.preprocessing.image_shape or comes_first
        if shape is None and are_pixels(X, read):
            shape = self._image_shape or self.image_shape
        return read(X, shape)

    def _check_shape(self, shape: Shape | None) -> None:
        if None not in (shape, self._image_shape) and shape != self._image_shape:
            expected = f"{self._image_shape} like the images before: (height, width, channels)"
            remedy = f"Resize the image, or convert its channels.{channels_hint(shape or ())}"
            raise ValueError(f"An image has shape {shape}, expected {expected}. {remedy}")

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        if not (self._held if self._fixed is None else self._fixed.classifier.classes):
            IMAGE.check_sample(as_numpy(x))
            return np.zeros(0)
        return self._image_scores(self._read(x, read_image).values).reshape(-1)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        images = self._read(X)
        return images.source, of_images(self._image_scores, images)

    def _image_scores(self, images: Matrix) -> Floats:
        self._check_images(images)
        layer, rows_of = self._answering()
        return in_blocks(lambda block: layer.scores_many(rows_of(block)), images)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one image: an array, {"image": array} or a dict of pixels; see `learn_many`."""
        with self._lock:
            self._learn(read_whole(lambda: self._one_example(x, y, w, t), self))

    def _one_example(self, x: Any, y: Any, w: Any, t: Any) -> list[Example]:
        label = read_label(y)
        return self._examples(self._read(x, read_image).values, [label], w, t)

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
            read = read_whole(lambda: self._examples(self._read(X).values, y, w, t), self)
            self._learn(read)

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
            examples = self._examples(images.values, y, w, t)
            new, none = shallow_copy(self), np.zeros(0, dtype=np.intp)
            # The parts of a draft are made once, and its layer learns.
            new._of_pixels, new._draft = copy.copy(self._of_pixels), None
            if self._draft is not None:
                size, draft = self._draft
                new._draft = size, replace(draft, classifier=copy.copy(draft.classifier))
            parts = [Answers(None, None, np.zeros((0, len(self.classes))), none)]
            for block in self._cut_at_changes(examples):
                layer, rows_of = new._answering()
                part = answered(layer, *batch_of(block, rows_of))
                if new._fixed is None:
                    new._learn(block)
                else:
                    new._fixed = replace(new._fixed, classifier=part.model)
                    new._image_shape = block[0].image.shape
                    new._set_ridge(new._fixed)
                # Intermediate models are not held.
                parts.append(part._replace(model=None))
            return joined_answers(new, images.source, parts)

    def _cut_at_changes(self, examples: Sequence[Example]) -> list[list[Example]]:
        """Cut images into blocks before each of which one network with one ridge predicts."""
        n_held, changes = self.count, {FEW_IMAGES_PER_UNIT * self.hidden.n_hidden}
        if self._fixed is None:
            counts = range(n_held + 1, min(n_held + len(examples), self.warm_up) + 1)
            changes |= {self._draft_size(n) for n in counts} | {self.warm_up}
        ends = [max(0, change - n_held) for change in sorted(changes)]
        parts = (examples[start:end] for start, end in pairwise([0, *ends, len(examples)]))
        return [block for part in parts for block in cut(part)]

    def _learn(self, examples: Sequence[Example]) -> None:
        """Learn or hold all checked images, or none of them if one is refused."""
        if not examples:
            return
        news = read_whole(lambda: self._warming_up(examples), self)
        if self._fixed is not None:
            self._fixed.learn(examples)
        vars(self).update(news)
        if self._fixed is not None:
            self._set_ridge(self._fixed)

    def _warming_up(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Return the attributes after more images during the warm-up, or their shape after it."""
        shape = examples[0].image.shape
        if self._fixed is not None:
            return {"_image_shape": shape}
        if self.count + len(examples) >= self.warm_up:
            return self._fixing(examples)
        held = [each._replace(image=each.image.copy()) for each in examples]
        return {"_held": (*self._held, *held), "_image_shape": shape}

    def _fixing(self, new: Sequence[Example] = ()) -> dict[str, Any]:
        """Fix the features from the first `warm_up` of the held and new images; learn them all.

        Return the attributes that change.
        """
        examples = (*self._held, *new)
        if len(examples) < 2:
            found = f"The network has learnt {self.count} images"
            raise ValueError(f"{found}, expected at least 2. Learn more images first.")
        images, labels, *_ = zip(*examples[: self.warm_up], strict=True)
        fixed = self._parts().fit_features(np.stack(images), list(labels))
        fixed.learn(examples)
        # Input weights that are the difference of equal images are 0.
        dead = fixed.classifier._statistics.are_zero[: self.hidden.n_hidden]
        if dead.mean() > 0.5:
            warn_caller(
                "Most hidden units are 0 for all images so far.",
                f"{dead.sum():,} of {len(dead):,} are, because too many of the warm-up images are "
                "equal, or have equal features. Start a new network with more varied images, or a "
                "larger warm_up.",
            )
        return self._warmed_up(fixed, images[0].shape)

    def _warmed_up(self, fixed: FixedNetwork, shape: Shape | None) -> dict[str, Any]:
        """Return what replaces the held images by a fixed network that has learnt them."""
        pixels = self._of_pixels.empty()
        news = {"_fixed": fixed, "_image_shape": shape, "_held": (), "_of_pixels": pixels}
        return news | {"_draft": None}

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Unlearn one image; see `unlearn_many`."""
        with self._lock:
            self._unlearn(self._read(x, read_image), [read_label(y)], w)

    @matched_by_position
    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Unlearn images, as `LeastSquaresClassifier.unlearn_many` does.

        Input weights that were made from these images in the warm-up do not change. During the
        warm-up, the images leave those that are held: pass the pixels, the label and, unless rows
        are forgotten, the weight that were learnt. Memory holds the activations of the whole batch:
        unlearn many images in batches.

        Parameters
        ----------
        X, y, w
            Images, labels and weights, as for `learn_many`.

        Raises
        ------
        TypeError, ValueError
            As for `LeastSquaresClassifier.unlearn_many`, or if an image is not among those that are
            held during the warm-up. The model is unchanged then.
        """
        with self._lock:
            self._unlearn(self._read(X), y, w)

    def _unlearn(self, images: Images, y: Any, w: Any) -> None:
        """Unlearn images that are read: all of them, or none if an error is raised."""
        if self._fixed is not None:
            self._fixed.classifier.unlearn_many(of_images(self._activations, images), y, w)
            self._set_ridge(self._fixed)
            return
        vars(self).update(read_whole(lambda: self._unheld(images, y, w), self))

    def _unheld(self, images: Images, y: Any, w: Any) -> dict[str, Any]:
        """Return the attributes without some images that are held during the warm-up."""
        held, forgets = [*self._held], self.classifier._clock.forgets
        for number, each in enumerate(self._examples(images.values, y, w, None)):
            same = (k for k, one in enumerate(held) if is_same_example(one, each, forgets))
            place = next(same, None)
            if place is None:
                problem = f"X[{number}] with label {each.label!r} and weight {each.weight:g} is"
                expected = f"not among the {self.count:,} warm-up images, expected one of them"
                raise ValueError(f"{problem} {expected}. Remove only images that were learnt.")
            del held[place]
        pixels = self._of_pixels.empty()
        return {"_held": tuple(held), "_of_pixels": pixels, "_draft": None}

    def fix_features(self) -> None:
        """Fix everything that depends on data now, from the images held so far.

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
            if self._fixed is None and 2 <= self.count < least:
                warn_caller(
                    "Features are made from few images.",
                    f"{self.count} images, expected at least {least}. Learn more images before "
                    "fix_features().",
                )
            if self._fixed is None:
                vars(self).update(
                    read_whole(lambda: self._fixing() if self._fixed is None else {}, self)
                )
                self._set_ridge(self._network)

    def empty(self) -> Self:
        """Return a network with the same settings and fixed features that has learnt nothing.

        Networks made by one network's `empty` share their features, so they merge.
        """
        model = self.clone()
        if self._fixed is not None:
            vars(model).update(model._warmed_up(self._fixed.empty(), self._image_shape))
            model._set_ridge(model._network)
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
            self._check_shape(other._image_shape)
            shape, theirs = self._image_shape or other._image_shape, other._fixed
            if theirs is None:
                self._learn(other._held)
            elif self._fixed is None:
                vars(self).update(read_whole(lambda: self._fixed_by(other), self, other))
            else:
                check_same_features(self._fixed, theirs)
                layer = self._linear_layer()
                layer.merge(with_ridge(other._linear_layer(), layer.ridge))
                self._image_shape = shape
            if self._fixed is not None:
                self._set_ridge(self._fixed)
        return self

    def _fixed_by(self, other: Self) -> dict[str, Any]:
        """Return the attributes with the features of another network, which learns the images."""
        fixed = copy.deepcopy(other._network)
        fixed.learn(self._held)
        return self._warmed_up(fixed, self._image_shape or other._image_shape)

    def difference(self, other: Self) -> float:
        """Return how far another network is from this one; see `onlinels.difference`."""
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            if self._fixed is not None and other._fixed is not None:
                check_same_features(self._fixed, other._fixed)
            layer = self._linear_layer()
            return layer.difference(with_ridge(other._linear_layer(), layer.ridge))

    def __add__(self, other: Self) -> Self:
        """Return a new network that has learnt the images of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added
