"""transform_one and transform_many: one law for all transformers, and for what learns behind them.

What each of them computes is told by the file of its name.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import onlinels
from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    MiniRocketFeatures,
    ShallowConvClassifier,
)
from onlinels.images import ImagePreprocessing, Patches
from support import digits_network, laws, models

WINDOWS = np.random.default_rng(0).normal(size=(30, 16))
WINDOWS[np.abs(WINDOWS) < 0.3] = 0.0
IMAGES = WINDOWS.reshape(30, 4, 4)
LABELS = [k % 3 for k in range(30)]
NAMES = [f"p{k}" for k in range(16)]
OF_4, OF_8 = {"image_shape": (4, 4)}, {"image_shape": (8, 8)}


def flat(X):
    return X.reshape(len(X), -1)


def samples(X, names=range(16)):
    return [dict(zip(names, row, strict=True)) for row in flat(X).tolist()]


FORMS = {
    "array": lambda X: (X, samples(X)),
    "flat": lambda X: (flat(X), samples(X)),
    "arrays": lambda X: ([{"image": each} for each in X],) * 2,
    "arrays with a channel": lambda X: ([{"image": each[..., None]} for each in X],) * 2,
    "numbers": lambda X: (samples(X),) * 2,
    "pandas": lambda X: (pd.DataFrame(flat(X)), samples(X)),
    "polars": lambda X: (pl.DataFrame(flat(X), schema=NAMES), samples(X, NAMES)),
    "pyarrow": lambda X: (pa.table([*flat(X).T], NAMES), samples(X, NAMES)),
    "pairs": lambda X: (X, samples(X, [*np.ndindex(4, 4)])),
    "without zeros": lambda X: (X, [{k: v for k, v in x.items() if v} for x in samples(X)]),
}
"""A batch from an array, and its rows as samples."""

OF_IMAGES = [*FORMS]
OF_WINDOWS = [form for form in FORMS if form != "pairs"]
OF_ROWS = [form for form in OF_WINDOWS if form != "arrays with a channel"]
OF_EXAMPLES = "array", "numbers", "pandas"
FRAME = pd.DataFrame(WINDOWS)
TRANSFORMERS = {
    "hidden": (HiddenLayer(5, prefix="u_"), WINDOWS, OF_ROWS),
    "hidden, float32": (HiddenLayer(5, dtype="float32", bias=False), WINDOWS, OF_ROWS),
    "standardised": (HiddenLayer.from_examples(FRAME, n_hidden=5), WINDOWS, OF_EXAMPLES[1:]),
    "differences": (HiddenLayer.from_examples(WINDOWS, LABELS, 5), WINDOWS, OF_EXAMPLES),
    "images": (ConvolutionalFeatures(np.ones((2, 3, 3)), prefix="c_", **OF_4), IMAGES, OF_IMAGES),
    "preprocessing": (
        ImagePreprocessing.from_examples(FRAME, downsample=2, whitening=0.1, image_shape=(4, 4, 1)),
        IMAGES,
        OF_IMAGES,
    ),
    "windows": (
        MiniRocketFeatures.from_examples(WINDOWS, n_features=84, window_shape=(16,)),
        WINDOWS,
        OF_WINDOWS,
    ),
}
CASES = [(name, form) for name, (*_, forms) in TRANSFORMERS.items() for form in forms]


def numbers_of(rows):
    """Return the outputs of rows as an array (n, n_outputs)."""
    rows = [[*row.values()] if isinstance(row, dict) else row for row in laws.entries(rows)]
    return np.array(rows, dtype=float).reshape(len(rows), -1)


def names_of(rows):
    """Return the names of the outputs of every row that has names."""
    return [list(row) for row in laws.entries(rows) if isinstance(row, dict)]


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_a_batch_is_transformed_as_its_rows_in_its_own_form(kind, form):
    made, X, _ = TRANSFORMERS[kind]
    transformer, (batch, rows) = made.clone(), FORMS[form](X.copy())
    found = transformer.transform_many(batch)
    expected = [transformer.transform_one(row) for row in rows]
    assert isinstance(found, type(batch))
    assert names_of(found) in ([], names_of(expected))
    np.testing.assert_allclose(numbers_of(found), numbers_of(expected), rtol=1e-5, atol=1e-6)
    # An array, or numbers.
    prefix, n_outputs = getattr(transformer, "prefix", ""), numbers_of(found).shape[1]
    numbered = [f"{prefix}h{k}" for k in range(n_outputs)]
    assert names_of(expected)[0] in ([f"{prefix}h"], ["image"], numbered)
    np.testing.assert_array_equal(numbers_of(batch), flat(X))
    # What is returned is the caller's.
    for _ in range(3):
        given = transformer.transform_one(rows[0])
        np.testing.assert_array_equal(numbers_of([given]), numbers_of(expected[:1]))
        for value in given.values():
            np.asarray(value)[...] = 7.0
        given.clear()


def test_outputs_have_the_precision_and_index_that_were_given():
    for made, X, _ in TRANSFORMERS.values():
        transformer, index = made.clone(), [f"row {k}" for k in range(len(X))]
        dtype = getattr(transformer, "dtype", "float32")
        assert np.asarray(transformer.transform_many(pd.DataFrame(flat(X)))).dtype == dtype
        frame = transformer.transform_many(pd.DataFrame(flat(X), index=index))
        assert frame.index.tolist() == index


# -- what learns behind a transformer --------------------------------------------------------------

OF_PLACES = "array", "flat", "numbers", "pandas"
BEHIND = {
    "hidden": (TRANSFORMERS["hidden"][0], WINDOWS, OF_PLACES),
    "two layers": (HiddenLayer(4) | HiddenLayer(5), WINDOWS, OF_PLACES),
    "images": TRANSFORMERS["images"],
    "windows": TRANSFORMERS["windows"],
    "images, hidden": (TRANSFORMERS["images"][0] | HiddenLayer(5), IMAGES, OF_IMAGES),
}
ENDS = "no intercept", "calibrated", "drift", "stream"
MODELS = [(kind, "no intercept") for kind in BEHIND] + [("hidden", end) for end in ENDS]


@pytest.mark.filterwarnings("ignore:X lacks")
@pytest.mark.parametrize(("kind", "end"), MODELS)
def test_outputs_have_one_name_in_every_form(kind, end):
    """So a model learns rows in one form, others in another, and predicts in any."""
    (features, X, forms), scores, names = BEHIND[kind], [], set()
    for place, form in enumerate(forms):
        model = features.clone() | models.MODELS[end]()
        others, samples = FORMS[forms[place - 1]](X[10:18])
        batch, rows = FORMS[form](X[:10])
        model.learn_many(batch, LABELS[:10])
        laws.fitted_by_row(model, samples, LABELS[10:18])
        model.learn_many(others, LABELS[10:18])
        for each in (model, onlinels.loads(onlinels.dumps(model))):
            found = numbers_of(each.predict_proba_many(batch))
            scores += [found, numbers_of([each.predict_proba_one(row) for row in rows])]
        names.add(frozenset(onlinels.pipelines.end_of(model)[1].feature_names))
    np.testing.assert_allclose(scores, [scores[0]] * len(scores), atol=1e-7)
    (known,) = names
    assert all(isinstance(name, str) for name in known)


# -- refusals --------------------------------------------------------------------------------------

FIRST = np.random.default_rng(0).random((9, 3, 24, 24))
"""Images with the channels first, as torch has them."""


def fixed(X):
    return np.moveaxis(X, 1, -1)


READERS = {
    "patches": lambda X: ConvolutionalFeatures.from_examples(X, LABELS[:9], filters=Patches(2)),
    "maps": lambda X: ConvolutionalFeatures(padding=0).transform_many(X),
    "channels": lambda X: ConvolutionalFeatures(np.ones((1, 3, 3, 3)), padding=9).transform_many(X),
    "shape": lambda X: ConvolutionalFeatures(image_shape=(24, 24, 3)).transform_many(X),
    "one image": lambda X: ConvolutionalFeatures(padding=0).transform_one({"image": X[0]}),
    "grey": lambda X: ImagePreprocessing(grey_channel=True).transform_many(X),
    "blocks": lambda X: ImagePreprocessing(downsample=2).transform_many(X),
    "whitening": lambda X: ImagePreprocessing.from_examples(fixed(X)).transform_many(X),
    "network": lambda X: ShallowConvClassifier.from_preset("svhn").learn_many(X, LABELS[:9]),
    "later images": lambda X: laws.fitted(
        ShallowConvClassifier(), fixed(X), LABELS[:9]
    ).predict_many(X),
}


@pytest.mark.parametrize("reader", READERS)
def test_images_with_the_channels_first_are_told_how_to_move_them(reader):
    message = r"\. X looks channels first, \(n, 3, 24, 24\): pass np\.moveaxis\(X, 1,"
    with pytest.raises(ValueError, match=message):
        READERS[reader](FIRST)


def test_images_with_the_channels_last_are_not_told_so():
    with pytest.raises(ValueError, match=r"Pass a smaller size\.$"):
        ConvolutionalFeatures.from_examples(np.ones((9, 5, 24, 3)), LABELS[:9], filters=Patches(2))


GREY = np.random.default_rng(0).random((2, 8, 8))
MASKED = np.ma.array(GREY, mask=GREY > 0.9)
BAD_BATCHES = [
    (np.ones((2, 5, 5)), ValueError, r"shape \(5, 5\), expected \(8, 8\)"),
    (np.ones((2, 63)), ValueError, r"63 pixels, expected the 64 of an image of shape \(8, 8\)"),
    (GREY[0], ValueError, r"is an image of shape \(8, 8\), expected a batch .*Pass X\[None\]"),
    (np.array(5.0), ValueError, r"shape \(\)"),
    ([{"image": GREY[0]}, {"image": GREY[1, :4]}], ValueError, r"expected \(8, 8"),
    ([{0: 0.5}, {1: np.ones(2), 2: 0.5}], ValueError, "holds an array among its pixels"),
    ([*GREY], TypeError, r"np\.stack"),
    (GREY * np.nan, ValueError, "X holds nan"),
    (GREY * np.inf, ValueError, "rescale large"),
    (GREY * 1j, TypeError, "expected real numbers"),
    (GREY.astype(str), TypeError, "Convert"),
    # What is under a mask would be read, NaN included.
    (MASKED, TypeError, r"is a masked array.*filled"),
]
BAD_SAMPLES = [
    ({64: 1.0}, ValueError, "64 names no pixel"),
    ({"colour": 1.0}, ValueError, "'colour' names no pixel"),
    ({(8, 0): 1.0}, ValueError, "no pixel"),
    ({3: 1.0, "3": 2.0}, ValueError, "Two names of pixels mean the same position"),
    ({0: None}, ValueError, "None"),
    ({0: np.ones(2), 1: 0.5}, ValueError, "2 features, some of them arrays, expected one"),
    ({0: "dark"}, TypeError, "'dark'"),
    ({"image": GREY[0].tolist()}, TypeError, "of type list, expected a number"),
    ({"image": GREY[0, 1:]}, ValueError, r"shape \(7, 8.*, expected \(8, 8"),
    ({"image": GREY[0] * np.nan}, ValueError, "Leave the image out"),
    ({"image": np.array([["a"]])}, TypeError, "dtype"),
    ({"image": "cat.png"}, TypeError, "cat.png"),
    ({"image": MASKED[0]}, TypeError, r"is a masked array.*filled"),
    ("dark", TypeError, r"expected an array or .*np\.asarray\(image\)"),
    (GREY[0].tolist(), TypeError, "np.asarray"),
    (None, TypeError, "expected an array"),
    ({}, ValueError, "no pixels, expected an image"),
]


READS = {
    "features": (ConvolutionalFeatures(padding=3, **OF_8).transform_many, BAD_BATCHES),
    "features of one": (ConvolutionalFeatures(padding=3, **OF_8).transform_one, BAD_SAMPLES),
    "learnt": (lambda X: digits_network.small().learn_many(X, [0, 0]), BAD_BATCHES),
    "one learnt": (lambda x: digits_network.small().learn_one(x, 0), BAD_SAMPLES),
    "asked": (digits_network.small(learnt=30).predict_many, BAD_BATCHES),
    "asked of one": (digits_network.small(learnt=30).predict_one, BAD_SAMPLES),
    "preprocessing": (ImagePreprocessing(2, **OF_8).transform_many, BAD_BATCHES),
    "preprocessing of one": (ImagePreprocessing(2, **OF_8).transform_one, BAD_SAMPLES),
    "examples": (lambda X: ImagePreprocessing.from_examples(X, **OF_8), BAD_BATCHES),
}


@pytest.mark.parametrize(
    ("reader", "bad"), [(reader, bad) for reader, (_, rows) in READS.items() for bad in rows]
)
def test_bad_images_are_refused(reader, bad):
    x, error, message = bad
    with pytest.raises(error, match=message):
        READS[reader][0](x)
