"""The one home of hypothesis strategies: data and hyperparameters."""

import functools
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from onlinels import (
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.features.filters import Patches
from onlinels.features.hidden import ACTIVATIONS


def examples(number):
    """Return settings for number / 50 of the examples of the profile."""
    return settings(max_examples=max(1, number * settings().max_examples // 50))


ridges = st.one_of(
    st.sampled_from(["paper", "auto"]),
    st.just(0.0),
    st.floats(1e-3, 1e3),
    st.sampled_from([1e-15, 1e-12, 1e-8, 1e-6, 1.0, 10.0]),
)
ridges_or_folds = st.one_of(ridges, st.builds(KFold, st.integers(2, 4)))
ridges_of = {"gram": ridges_or_folds, "orthogonal": ridges, "recursive": ridges_or_folds}
SCALINGS = "auto", "standard", None
positive_ridges = st.floats(1e-2, 1e3)
accumulators = st.sampled_from(["gram", "orthogonal", "recursive"])
unlearning_accumulators = st.sampled_from(["gram", "recursive"])
dtypes = st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.int16])
labels = st.sampled_from(
    [("cat", "dog", "emu", "fox"), (0, 1, 2, 3), (False, True), ("a", 1, (2, "b"), (None, 3)), (7,)]
)

powers = st.one_of(st.sampled_from([0.25, 0.5, 1.0, 2, 3.0]), st.floats(0.2, 4.0))


@st.composite
def convolution_settings(draw):
    """Draw the hyperparameters of stage 1 apart from filters and geometry."""
    return {
        "normalize": draw(st.sampled_from([True, False, "map", "image"])),
        "before_pooling": draw(powers),
        "after_pooling": draw(powers),
        "channels": draw(st.sampled_from(["each", "joint"])),
    }


@st.composite
def classifier_settings(draw, accumulators=accumulators):
    """Draw the hyperparameters of a LeastSquaresClassifier."""
    accumulator = draw(accumulators)
    ridge = draw(ridges_of[accumulator])
    return {
        "ridge": ridge,
        "fit_intercept": draw(st.booleans()),
        "accumulator": accumulator,
        "scaling": draw(st.sampled_from(["auto", None] if ridge == 0.0 else SCALINGS)),
    }


@st.composite
def hidden_settings(draw):
    """Draw the hyperparameters of a HiddenLayer with random input weights."""
    return {
        "n_hidden": draw(st.integers(1, 24)),
        "input_weights": draw(st.sampled_from(["gaussian", "uniform", "bipolar"])),
        "activation": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "seed": draw(st.integers(0, 1000)),
        "bias": draw(st.booleans()),
    }


Differences = namedtuple("Differences", "X y kind n_hidden seed")
"""Examples of at least two classes, and how input weights are made from them."""


@st.composite
def differences(draw, dtypes="fd"):
    """Draw examples whose differences are 0, or at least 0.3 long (0.5 without their means)."""
    n_rows = draw(st.integers(2, 12))
    n_features = draw(st.integers(1, 8))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.integers(-3, 4, (n_rows, n_features)).astype(draw(st.sampled_from(dtypes)))
    X += draw(st.sampled_from([0, 200])) * random.integers(0, 3, n_features)
    for row in range(draw(st.integers(0, n_rows - 1))):
        X[row] = X[row + 1] + draw(st.sampled_from([0.0, 1.0, 0.3] if row == 0 else [0.0, 1.0]))
    y = [0, 1, *draw(st.lists(st.integers(0, 3), min_size=n_rows - 2, max_size=n_rows - 2))]
    kind = draw(st.sampled_from(["difference", "centred-difference"]))
    return Differences(X, y, kind, draw(st.integers(1, 40)), draw(st.integers(0, 1000)))


@dataclass(frozen=True)
class Rows:
    """Rows with labels and whole-number weights."""

    X: np.ndarray
    y: list[Any]
    w: np.ndarray

    def __len__(self):
        return len(self.y)

    def take(self, rows):
        """Return some of the rows."""
        rows = list(rows)
        return Rows(self.X[rows], [self.y[row] for row in rows], self.w[rows])

    def weighing(self, w):
        """Return the rows with other weights."""
        return Rows(self.X, self.y, w)

    def dicts(self, names=None):
        """Return the rows as river samples, named as columns of an array are, or otherwise."""
        names = range(self.X.shape[1]) if names is None else names
        return [dict(zip(names, row, strict=True)) for row in self.X.tolist()]


@st.composite
def rows(draw, min_rows=1, max_rows=24, max_features=6, whole=False):
    """Draw rows, often rank-deficient, of any dtype: whole numbers, or such that sums round."""
    n_rows = draw(st.integers(min_rows, max_rows))
    n_features = draw(st.integers(1, max_features))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.integers(0, 6, (n_rows, n_features))
    kind = draw(st.sampled_from(["any", "any", "one-hot", "powers"]))
    if kind == "one-hot":
        X = np.eye(n_features, dtype=np.int64)[random.integers(0, n_features, n_rows)]
    elif kind == "powers":
        X = random.integers(0, 3, (n_rows, 1)) ** np.arange(1, n_features + 1)
    if draw(st.booleans()):
        X[:, random.integers(n_features)] = X[:, 0]
    if draw(st.booleans()):
        X[:, random.integers(n_features)] = 0
    if not whole and draw(st.booleans()):
        # Sums round, and constants have no exact value; spread stays in sight beside the mean.
        scale, offset = draw(st.sampled_from([(0.1, 0.7), (1e-3, 0.0), (37.2, 1e3), (0.3, -5.1)]))
        X = X * scale + offset
    choice = draw(labels)
    y = [choice[k] for k in random.integers(0, len(choice), n_rows)]
    w = random.integers(0, 4, n_rows) if draw(st.booleans()) else np.ones(n_rows, dtype=np.int64)
    w[random.integers(n_rows)] = 1
    fractions = not whole and draw(st.booleans())
    return Rows(X.astype(draw(dtypes)), y, w * (random.random(n_rows) if fractions else 1.0))


@st.composite
def few_rows(draw, min_rows=2, max_rows=8):
    """Draw features (n, p) of few rows, which often fit equally well in all units."""
    n_rows = draw(st.integers(min_rows, max_rows))
    n_features = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    one_hot = np.eye(n_features)[random.integers(0, n_features, n_rows)]
    kind = draw(st.sampled_from(["one-hot", "powers", "whole", "units", "mixed"]))
    if kind == "one-hot":
        return one_hot
    if kind == "powers":
        x = np.round(random.normal(size=n_rows), draw(st.integers(0, 3)))
        return x[:, None] ** np.arange(1.0, n_features + 1.0)
    if kind == "whole":
        return random.integers(0, 3, (n_rows, n_features)).astype(float)
    numbers = random.normal(size=(n_rows, n_features)) * 10.0 ** random.integers(-3, 4, n_features)
    return numbers if kind == "units" else np.hstack([one_hot, numbers])


@st.composite
def real_rows(draw, names=(), scales=(1.0, 1e-3, 1e3), **sizes):
    """Draw rows whose targets are numbers, or dicts of numbers by name if there are names."""
    drawn = draw(rows(**sizes))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random.integers(-9, 10, (len(drawn), max(1, len(names)))) * draw(
        st.sampled_from(scales)
    )
    if draw(st.booleans()):
        values += 100.0 * draw(st.sampled_from(scales))
    y = [dict(zip(names, row, strict=True)) if names else row[0] for row in values.tolist()]
    return Rows(drawn.X, y, drawn.w)


def priors(y):
    """Return a strategy of priors for the labels of rows."""
    given = st.lists(st.floats(1e-3, 1e3), min_size=len(y), max_size=len(y))
    return st.one_of(
        st.sampled_from(["learnt", "equal"]),
        given.map(lambda each: dict(zip(y, each, strict=True))),
    )


KINDS = {
    "labels": (LeastSquaresClassifier, None),
    "labels with priors": (LeastSquaresClassifier, None),
    "numbers": (LeastSquaresRegressor, ()),
    "several numbers": (LeastSquaresMultiTargetRegressor, ("b", "a", 7)),
}


@st.composite
def cases(draw, kind, unlearns=False, **sizes):
    """Draw rows, and what makes a model of a kind and of drawn settings for them."""
    model, names = KINDS[kind]
    scales = (1.0,) if sizes.get("whole") else (1.0, 1e-3, 1e3)
    drawn = draw(rows(**sizes) if names is None else real_rows(names, scales, **sizes))
    which = unlearning_accumulators if unlearns else accumulators
    settings = draw(classifier_settings(which))
    if kind == "labels with priors":
        settings["priors"] = draw(priors(drawn.y))
    return drawn, functools.partial(model, **settings)


kinds = pytest.mark.parametrize("kind", KINDS)


Trained = namedtuple("Trained", "model linear layer X y others")
"""A trained model, the linear one in it, the layer before it or None, its rows, and other rows.

Rows are exact in single precision. Labels are of a type of which numpy has arrays.
"""

HIDDEN = "raw", "drawn", "differences"
"""How a hidden layer before a linear model has its input weights."""


def hidden_layer(X, how, settings):
    """Return a hidden layer, for examples X or any."""
    if how == "raw":
        return HiddenLayer(**settings)
    if how == "drawn":
        return HiddenLayer.from_examples(X, **settings)
    settings = settings | {"input_weights": "centred-difference"}
    return HiddenLayer.from_examples(X, [k % 2 for k in range(len(X))], **settings)


@st.composite
def trained_models(draw, kind, wrap=lambda model: model, hidden=()):
    """Draw a model of a kind and drawn settings, behind a hidden layer if named, and rows for it.

    Features have means up to 1e6, or as small as a layer needs that does not standardise them.
    """
    n_rows, n_features = draw(st.integers(4, 30)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.normal(size=(2 * n_rows, n_features)) * 10.0 ** random.integers(-3, 4, n_features)
    offset, how = draw(st.sampled_from([0.0, 0.0, 1.0, 1e3, 1e6])), None
    if hidden:
        how, of_layer = draw(st.sampled_from(hidden)), draw(hidden_settings())
    if how == "raw":
        offset = 1.0 if of_layer["activation"] != "cube" else 0.1
        X /= np.abs(X).max() / offset
    X += offset * random.integers(-1, 2, n_features)
    X, others = np.split(X.astype(np.float32), 2)
    settings, (model, names) = draw(classifier_settings()), KINDS[kind]
    if names is None:
        known = st.sampled_from(
            [("emu", "cat", "dog"), (3, -1, 2**40), (True, False), (0.5, -2.0), ("b", "a"), ("a",)]
        )
        choice = draw(known)
        y = [choice[k] for k in random.integers(0, len(choice), n_rows)]
        if kind == "labels with priors":
            settings["priors"] = draw(priors(y))
    else:
        values = random.normal(size=(n_rows, max(1, len(names)))) * draw(
            st.sampled_from([1.0, 1e3])
        )
        y = [dict(zip(names, row, strict=True)) if names else row[0] for row in values.tolist()]
    linear, layer = model(**settings), None if how is None else hidden_layer(X, how, of_layer)
    trained = wrap(linear) if layer is None else layer | linear
    trained.learn_many(X, y)
    return Trained(trained, linear, layer, X, y, np.concatenate([others, X[:1]]))


@st.composite
def splits(draw, n_rows):
    """Draw a way to cut rows into mini-batches."""
    cuts = draw(st.sets(st.integers(1, max(1, n_rows - 1)), max_size=n_rows))
    edges = [0, *sorted(cut for cut in cuts if cut < n_rows), n_rows]
    return [range(start, stop) for start, stop in pairwise(edges)]


def batches(data, n_rows):
    """Draw consecutive batches of very different lengths, one after the other."""
    start = 0
    while start < n_rows:
        stop = start + data.draw(st.sampled_from([1, 3, 5, 17, 20, 200, 300]))
        yield slice(start, stop)
        start = stop


SHAPES = {
    "plain": lambda random, n: random.normal(size=(n, 3)),
    "far": lambda random, n: 3.0 + random.normal(size=(n, 1)),
    "units": lambda random, n: 10.0 ** random.uniform(-1.0, 6.0, (n, 3)),
    "scales": lambda random, n: random.normal(size=(n, 4)) * np.logspace(-1.0, 3.0, 4),
    "constant": lambda random, n: np.column_stack([random.normal(size=n), np.full(n, 7.0)]),
    "rare": lambda random, n: random.normal(size=(n, 5)) * (random.random((n, 5)) < 0.1),
    "equal": lambda random, n: np.repeat(random.normal(size=(n, 2)), 2, axis=1),
    "jumps": lambda random, n: (
        random.normal(size=(n, 2)) + 100.0 * (np.arange(n) > n // 2)[:, None]
    ),
}
"""Features (n, n_features) of awkward sizes, from a generator and a number of rows."""


@st.composite
def lopsided_rows(draw, max_rows=90):
    """Draw rows with real targets, of which some outweigh the others by orders of magnitude."""
    n_rows, shape = draw(st.integers(2, max_rows)), draw(st.sampled_from(sorted(SHAPES)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = SHAPES[shape](random, n_rows)
    X[random.integers(n_rows)] *= 10.0 ** draw(st.sampled_from([0.0, 0.0, 3.0, 6.0]))
    y = X[:, 0] / (np.abs(X[:, 0]).max() or 1.0) + random.normal(size=n_rows)
    y[random.integers(n_rows)] *= draw(st.sampled_from([1.0, 1.0, 1e5]))
    w = np.ones(n_rows) if draw(st.booleans()) else 10.0 ** random.uniform(-2.0, 4.0, n_rows)
    return Rows(X, y.tolist(), w)


LabelledImages = namedtuple("LabelledImages", "images labels")
"""Images (n, height, width, n_channels) with labels."""


@st.composite
def labelled_images(draw, min_side=1, max_side=9):
    """Draw images of any number of channels and dtype, some with blank parts, with labels."""
    n_images, n_channels = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    height, width = draw(st.integers(min_side, max_side)), draw(st.integers(min_side, max_side))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images = random.random((n_images, height, width, n_channels))
    if draw(st.booleans()):
        images[:, : height // 2] = 0.0
    if draw(st.booleans()):
        images = (images * 255).astype(np.uint8)
    choice = draw(labels)
    return LabelledImages(images, [choice[k] for k in random.integers(0, len(choice), n_images)])


@st.composite
def filter_arrays(draw, channels=(0, 1, 3)):
    """Draw an array of square filters, with 0 channels one without an axis of channels."""
    size, n_channels = draw(st.integers(1, 6)), draw(st.sampled_from(channels))
    shape = (draw(st.integers(1, 5)), size, size, *([n_channels] if n_channels else []))
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(size=shape)


@st.composite
def preprocessing_settings(draw, n_channels):
    """Draw the hyperparameters of an ImagePreprocessing without whitening."""
    return {
        "downsample": draw(st.integers(1, 3)),
        "scale": draw(st.sampled_from([None, 255.0, 16, 0.3])),
        "grey_channel": n_channels == 3 and draw(st.booleans()),
        "dtype": draw(st.sampled_from(["float32", "float64"])),
    }


@st.composite
def image_batches(draw, n_channels, multiple, max_images=9):
    """Draw images (n, height, width, n_channels) of any dtype, with sides that are multiples."""
    sides = [multiple * draw(st.integers(1, 4)) for _ in range(2)]
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (draw(st.integers(1, max_images)), *sides, n_channels)
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_]))
    return random.integers(0, 256, shape).astype(dtype)


@st.composite
def filter_choices(draw, max_size=4, combined=True):
    """Draw what `filters` may be: a name, an array, recipes, or a combination of these."""
    sizes = st.integers(1, 5), st.integers(1, max_size)
    whitened = st.builds(
        Patches,
        *sizes,
        whitening=st.floats(1e-3, 10.0),
        n_iterations=st.sampled_from([0, 2]),
        n_sample=st.integers(5, 200),
    )
    patches = st.builds(Patches, *sizes), whitened
    one = st.one_of(st.just("hand-designed"), filter_arrays(), *patches)
    few = st.lists(one, min_size=2, max_size=3).map(tuple)
    return draw(st.one_of(one, few) if combined else one)


@dataclass(frozen=True)
class NetworkCase:
    """Images with labels, and the settings of every part of a network that learns them."""

    images: np.ndarray
    labels: list[Any]
    warm_up: int
    preprocessing: dict[str, Any]
    features: dict[str, Any]
    hidden: dict[str, Any]
    ridge_share: float

    def __len__(self):
        return len(self.labels)


@st.composite
def network_cases(draw):
    """Draw images of any number of channels, enough for the warm-up, and a network for them."""
    n_images, n_channels = draw(st.integers(10, 24)), draw(st.sampled_from([1, 2, 3]))
    downsample = draw(st.integers(1, 2))
    shape = (n_images, 5 * downsample, draw(st.integers(5, 6)) * downsample, n_channels)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images = random.integers(0, 256, shape).astype(draw(st.sampled_from("Bfd")))
    n_classes = draw(st.integers(1, 3))
    features = {
        "filters": draw(filter_choices()),
        "pool_size": draw(st.integers(1, 3)),
        "stride": draw(st.integers(2, 4)),
        "padding": 3,
        "normalize": draw(st.sampled_from([True, False, "map", "image"])),
        "before_pooling": draw(st.sampled_from([2.0, 1.0])),
        "after_pooling": draw(st.sampled_from([0.25, 1.0])),
        "channels": draw(st.sampled_from(["each", "joint"])),
        "seed": draw(st.integers(0, 9)),
    }
    weights = ["difference", "centred-difference", "gaussian"]
    hidden = {
        "n_hidden": draw(st.sampled_from([1, 5, 60])),
        "input_weights": draw(st.sampled_from(weights)),
        "activation": draw(st.sampled_from(["square", "relu", "absolute"])),
        "seed": draw(st.integers(0, 9)),
    }
    preprocessing = {
        "downsample": downsample,
        "scale": draw(st.sampled_from([None, 255.0])),
        "grey_channel": n_channels == 3 and draw(st.booleans()),
        "whitening": draw(st.sampled_from([None, 0.1])),
    }
    labels = [int(k) for k in random.integers(0, n_classes, n_images)]
    warm_up = draw(st.integers(2, n_images // 2))
    share = draw(st.sampled_from([0.01, 1.0]))
    return NetworkCase(images, labels, warm_up, preprocessing, features, hidden, share)


@dataclass(frozen=True)
class Stream:
    """Samples as river has them, with labels and perhaps with weights."""

    samples: list[dict[str, Any]]
    labels: list[Any]
    w: list[float] | None = None

    def __len__(self):
        return len(self.labels)


def _stream_value(kind, class_number, random):
    """Return a value that says something about a latent class."""
    near = class_number + 0.5 * random.standard_normal()
    if kind == "text":
        return f"t{random.integers(4) if random.random() < 0.3 else class_number}"
    if kind == "bool":
        return bool(near > 1.0)
    if kind == "mixed":
        return "n/a" if random.random() < 0.3 else float(near)
    if kind == "whole":
        return int(5 * near)
    if kind == "constant":
        return 0.1
    return np.array([near, -3.0]) if kind == "array" else float(near)


GAPS = {
    "None": None,
    "nan": float("nan"),
    "-nan": -float("nan"),
    "float16": np.float16("nan"),
    "long double": np.longdouble("nan"),
    "Decimal": Decimal("NaN"),
    "signalling": Decimal("sNaN"),
    "NaT": pd.NaT,
    "date of numpy": np.datetime64("NaT", "s"),
    "duration of numpy": np.timedelta64("NaT", "ns"),
    "NA": pd.NA,
    "masked": np.ma.masked,
    "masked array": np.ma.array(1.0, mask=True),
    "array": np.array(np.nan),
    "array of an object": np.array(None),
    "pyarrow": pa.scalar(None),
    "pyarrow number": pa.scalar(None, pa.float64()),
    "pyarrow text": pa.scalar(None, pa.string()),
    "pyarrow nan": pa.scalar(float("nan")),
}
"""Missing values and labels of every kind."""

STREAM_KINDS = "number", "number", "text", "bool", "whole", "constant", "array"


@st.composite
def streams(draw, max_rows=30, kinds=STREAM_KINDS, gaps=True, always=False, weighed=False):
    """Draw features of any kind and scale, some late, and labels of a latent class, which drift.

    Rows that are weighed have weights, 1.0 each perhaps.
    """
    n_rows = draw(st.integers(1, max_rows))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = {}
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=5))):
        start = draw(st.sampled_from([0, 0, n_rows // 2]))
        scale = 10.0 ** draw(st.sampled_from([0, 0, -6, 6, -100, 100]))
        features[f"{kind} {number}"] = kind, start, scale, draw(st.sampled_from([0.0, 7.3]))
    choice, drift = draw(labels), draw(st.integers(0, 2 * n_rows))
    share = draw(st.sampled_from([0.0, 0.3])) if gaps else 0.0
    samples = []
    y = []
    for row in range(n_rows):
        latent = int(random.integers(len(choice) if row >= n_rows // 3 else 1))
        y.append(choice[(latent + (row >= drift)) % len(choice)])
        samples.append({"always": float(latent + random.standard_normal())} if always else {})
        for name, (kind, start, scale, offset) in features.items():
            value = _stream_value(kind, latent, random)
            if kind == "number":
                value = scale * (value + offset)
            if random.random() < share:
                value = (None, np.nan, ...)[random.integers(3)]
            if row >= start and value is not ...:
                samples[-1][name] = value
    if not weighed:
        return Stream(samples, y)
    weights = draw(st.sampled_from([[1.0], [0.0, 0.3, 1.0, 2.0, 30.0]]))
    return Stream(samples, y, random.choice(weights, n_rows).tolist())


@st.composite
def number_streams(draw, **what):
    """Draw a stream as `streams` does, of numbers of any scale in place of labels."""
    stream = draw(streams(**what))
    scale, offset = draw(st.sampled_from([(1.0, 0.0), (1e-6, 0.0), (3.7, 1e3), (1e100, -1e100)]))
    noise = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).standard_normal(len(stream))
    places = [stream.labels.index(label) for label in stream.labels]
    numbers = (scale * (places + 0.3 * noise) + offset).tolist()
    return Stream(stream.samples, numbers, stream.w)


def turned_labels(n_rows, every, seed):
    """Return a stream (n_rows, 3) whose labels are turned round again and again."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3)) * [1e-3, 1.0, 1e5] + [0.0, 2.0, 1e6]
    turned = np.arange(n_rows) // every % 2 == 1
    return X, ((X[:, 1] > 2.0) != turned).tolist()


@st.composite
def cuts(draw, n_rows):
    """Draw the lengths of the chunks of rows, some of them 0."""
    chunks = draw(st.lists(st.integers(0, 12), min_size=1, max_size=30))
    ends = np.minimum(np.cumsum(chunks), n_rows)
    return (*np.diff(ends, prepend=0).tolist(), n_rows - int(ends[-1]))


MissingLabels = namedtuple("MissingLabels", "y missing labels")
"""Labels of which some are missing, in one form, and the places of these."""


LABEL_FORMS = {
    "list": list,
    "tuple": tuple,
    "objects": lambda labels: as_objects(labels),
    "pandas objects": lambda labels: pd.Series(labels, dtype=object),
    "pandas": lambda labels: pd.Series([None if pd.isna(y) else y for y in labels]),
    "category": lambda labels: pd.Series(labels, dtype="category"),
    "categories": pd.Categorical,
    "index": lambda labels: pd.Index(labels, dtype=object),
    "polars": lambda labels: pl.Series([None if pd.isna(y) else y for y in labels]),
    "pyarrow": lambda labels: pa.array([None if pd.isna(y) else y for y in labels]),
    "chunked": lambda labels: pa.chunked_array([[None if pd.isna(y) else y for y in labels]]),
    "masked": lambda labels: np.ma.array(
        ["" if pd.isna(y) else y for y in labels], mask=list(map(pd.isna, labels))
    ),
    "floats": lambda labels: np.array([np.nan if pd.isna(y) else ord(y) for y in labels]),
}


def as_objects(values):
    """Return values as an array of objects, tuples too."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@st.composite
def missing_labels(draw):
    """Draw labels of which at least one is missing, as None, NaN, NA, NaT or masked."""
    labels = draw(st.lists(st.sampled_from("uv"), min_size=2, max_size=8))
    missing = draw(st.sets(st.integers(0, len(labels) - 1), min_size=1, max_size=len(labels) - 1))
    nothing = draw(st.sampled_from([None, float("nan"), np.float64("nan"), pd.NA, pd.NaT]))
    holed = [nothing if k in missing else label for k, label in enumerate(labels)]
    form = draw(st.sampled_from([*LABEL_FORMS]))
    return MissingLabels(LABEL_FORMS[form](holed), sorted(missing), labels)


LARGE = 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, -(2**63)
ODD = "a", "", "a\0", "é", ("a", 1), (1,), (), ((2, "b"), None)
OTHERS = 0, 1, -5, 2**64, -(10**30), 0.5, 1e300, float("inf"), True, *ODD
odd_labels = st.sampled_from([(*LARGE, *OTHERS), (*LARGE, 0, -5), ("a", "", "a\0")]).flatmap(
    lambda pool: st.lists(st.sampled_from(pool), min_size=1, max_size=5, unique=True)
)
"""Different labels of several types, of which some equal no number that 64 bits hold."""
