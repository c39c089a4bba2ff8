"""Batches without rows: results of the same kind without rows, and nothing is learnt."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river.compose import Pipeline
from scipy import sparse

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    Embedding,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    StreamRegressor,
    WindowedClassifier,
)
from onlinels.images import ImagePreprocessing, Patches
from support import models
from support.laws import assert_refused
from support.slow import pairs_in_turn

ROWS = np.column_stack([np.arange(40) % 7, np.arange(40) % 5, np.arange(40) % 3]).astype(float)
NAMES = ["a", "b", "c"]
FORMS = {
    "array": np.asarray,
    "sparse": sparse.csr_array,
    "dicts": lambda rows: [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()],
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES),
    "polars": lambda rows: pl.DataFrame(rows, schema=NAMES),
    "pyarrow": lambda rows: pa.table(dict(zip(NAMES, rows.T, strict=True))),
}
"""Batches of every kind."""

NONE_OF = {
    "array": [np.zeros((0, 3)), np.zeros((0, 3), int), np.empty((0, 3), object)],
    "sparse": [sparse.csr_array((0, 3)), sparse.csc_matrix((0, 3))],
    "dicts": [[]],
    "pandas": [
        pd.DataFrame(columns=NAMES),
        pd.DataFrame(),
        pd.DataFrame({name: pd.Series([], dtype=str) for name in NAMES}),
        pd.DataFrame(ROWS, columns=NAMES, index=pd.date_range("2020", periods=40)).iloc[:0],
    ],
    "polars": [pl.DataFrame(schema=NAMES), pl.DataFrame(), pl.DataFrame({"a": []})],
    "pyarrow": [pa.table({name: pa.array([], pa.float64()) for name in NAMES}), pa.table({})],
}
"""Batches without rows, as they come of filters, queries and slices."""

LABELS = [("low", "middle", "high")[k % 3] for k in range(40)]
NUMBERS = [float(k % 11) for k in range(40)]
SEVERAL = [{"p": float(k % 4), "q": float(k % 9)} for k in range(40)]

MODELS = {
    "truth": (LeastSquaresClassifier, [k % 2 == 0 for k in range(40)]),
    "whole numbers": (LeastSquaresClassifier, [k % 3 for k in range(40)]),
    **{
        name: (make, LABELS)
        for name, make in models.CLASSIFIERS.items()
        if name not in ("no intercept", "recursive", "calibrated pipeline")
    },
    "regressor": (LeastSquaresRegressor, NUMBERS),
    "stream regressor": (StreamRegressor, NUMBERS),
    "several": (LeastSquaresMultiTargetRegressor, SEVERAL),
}


def kind_of(answer):
    """Return what an answer without rows has in common with the answer to one row."""
    if isinstance(answer, tuple):
        return tuple(map(kind_of, answer))
    if isinstance(answer, np.ndarray):
        # The length of texts is that of the longest among them.
        return np.ndarray, answer.dtype.kind, answer.shape[1:]
    if isinstance(answer, pd.DataFrame):
        return pd.DataFrame, list(answer.columns), [str(dtype) for dtype in answer.dtypes]
    kind = (str(getattr(answer, name, "")) for name in ("schema", "dtype", "type"))
    return type(answer), *kind


def n_rows(answer):
    """Return the number of rows of an answer, which may be a pair of arrays."""
    return n_rows(answer[0]) if isinstance(answer, tuple) else len(answer)


def targets_like(y, form):
    """Return several targets as a frame for all kinds of batches but dicts."""
    return pd.DataFrame(y) if isinstance(y[0], dict) and form != "dicts" else y


def assert_teaches_nothing(model, none, no_targets):
    """Check that learning and unlearning no rows leaves no trace."""
    before = pickle.dumps(model)
    weights = [] if isinstance(model, WindowedClassifier | Pipeline) else [[], np.zeros(0), 2.0]
    for w in [None, *weights]:
        given = {} if w is None else {"w": w}
        model.learn_many(none, no_targets, **given)
        for name in ("predict_learn_many", "predict_proba_learn_many"):
            if hasattr(model, name):
                assert n_rows(getattr(model, name)(none, no_targets, **given)) == 0
        if hasattr(model, "unlearn_many") and getattr(model, "features_fixed", True):
            model.unlearn_many(none, no_targets, **given)
    if getattr(model, "half_life", None):
        model.learn_many(none, no_targets, t=[])
        model.predict_learn_many(none, no_targets, t=np.zeros(0))
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(("name", "form"), pairs_in_turn(MODELS, FORMS, 2))
def test_no_rows_are_answered_as_a_row_and_teach_nothing(name, form):
    make, y = MODELS[name]
    model, rows, y = make(), FORMS[form](ROWS), targets_like(y, form)
    for none in NONE_OF[form]:
        for ask in models.questions_of(model).values():
            assert n_rows(ask(none)) == 0
        assert_teaches_nothing(model, none, y[:0])
    model.learn_many(rows, y)
    row = FORMS[form](ROWS[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = {question: ask(row) for question, ask in models.questions_of(model).items()}
        for none in NONE_OF[form]:
            before = pickle.dumps(model)
            for question, ask in models.questions_of(model).items():
                assert n_rows(ask(none)) == 0
                assert kind_of(ask(none)) == kind_of(answers[question]), question
            assert pickle.dumps(model) == before
            assert_teaches_nothing(model, none, y[:0])


@pytest.mark.parametrize("name", MODELS)
def test_targets_of_no_rows_are_refused(name):
    """A filter that was applied to X and not to y."""
    make, y = MODELS[name]
    model = make()
    for none in ([], np.zeros((0, 3))):
        assert_refused(lambda none=none: model.learn_many(none, y[:2]), model, "expected 0|has 2")


IMAGES = np.arange(24 * 64, dtype=float).reshape(24, 8, 8) % 11


GREY = {"image_shape": (8, 8)}
IMAGE_MODELS = {
    "network": lambda: models.digits_network(10, **GREY),
    "warming up": lambda: models.digits_network(100, **GREY),
    "calibrated network": lambda: CalibratedClassifier(models.digits_network(10, **GREY)),
}
WHITENING = ImagePreprocessing.from_examples(IMAGES, whitening=0.001, **GREY)
ROCKET = MiniRocketFeatures.from_examples(IMAGES.reshape(24, 64), window_shape=(64,), n_features=84)
TRANSFORMERS = {
    "convolution": (ConvolutionalFeatures(**GREY), (8, 8)),
    "whitening": (WHITENING, (8, 8)),
    "nothing to do": (ImagePreprocessing(**GREY), (8, 8)),
    "minirocket": (ROCKET, (64,)),
    "hidden": (HiddenLayer(5, dtype="float32"), (64,)),
    "pipeline": (ConvolutionalFeatures(**GREY) | HiddenLayer(5), (8, 8)),
}


def forms_of(images):
    """Yield images as arrays, samples and rows of pixels of every kind."""
    pixels, names = images.reshape(len(images), 64), [f"p{number}" for number in range(64)]
    yield images
    yield images.astype(np.uint8)
    yield pixels
    yield [{"image": image} for image in images]
    yield [dict(zip(names, row, strict=True)) for row in pixels.tolist()]
    yield pd.DataFrame(pixels, columns=names)
    yield pl.DataFrame(pixels, schema=names)
    yield pa.table(dict(zip(names, pixels.T, strict=True)))


@pytest.mark.filterwarnings("ignore:The network hardly recognises")
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_no_images_are_answered_as_an_image_and_teach_nothing(name):
    model, y = IMAGE_MODELS[name](), LABELS[:24]
    for _ in range(2):
        for one, none in zip(forms_of(IMAGES[:1]), forms_of(IMAGES[:0]), strict=True):
            for ask in (model.predict_many, model.predict_proba_many):
                assert n_rows(ask(none)) == 0
                if model.classes:
                    assert kind_of(ask(none)) == kind_of(ask(one))
            assert_teaches_nothing(model, none, [])
        if name == "network" and model.classes:
            assert model.transform_many(IMAGES[:0]).shape == (0, 9)
        model.learn_many(IMAGES, y)
    with pytest.raises(ValueError, match=r"shape \(9, 9\)"):
        model.predict_many(np.zeros((0, 9, 9)))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_no_rows_are_transformed_as_a_row(name):
    step, shape = TRANSFORMERS[name]
    all_of = IMAGES.reshape(24, *shape)
    for one, none in zip(forms_of(all_of[:1]), forms_of(all_of[:0]), strict=True):
        model = step.clone()
        of_none = model.transform_many(none)
        assert n_rows(of_none) == 0
        assert kind_of(of_none) == kind_of(model.transform_many(one))


def embed(items):
    """Embed texts; fail for no texts, as many functions do."""
    assert items
    return [[float(len(text)), text.count("a")] for text in items]


def test_no_items_are_embedded_as_an_item():
    for table in (lambda items: items["text"], pd.DataFrame, pl.DataFrame):
        forms = (table({"text": items}) for items in (["a"], []))
        of_one, of_none = map(Embedding(embed).transform_many, forms)
        assert (n_rows(of_none), kind_of(of_none)) == (0, kind_of(of_one))
    assert Embedding(embed).transform_many(np.array([])).shape == (0, 2)


def test_examples_need_rows():
    X, images = np.zeros((0, 64)), np.zeros((0, 8, 8))
    for call in (
        lambda: HiddenLayer.from_examples(X, n_hidden=3),
        lambda: HiddenLayer.from_examples(X, [], n_hidden=3),
        lambda: ImagePreprocessing.from_examples(images),
        lambda: ConvolutionalFeatures.from_examples(images, filters=Patches(4, 3)),
        lambda: MiniRocketFeatures.from_examples(X),
    ):
        with pytest.raises(ValueError, match=r"X has 0 .*expected at least one"):
            call()
