"""Batches without rows and models without knowledge: answers of the same kind, nothing learnt."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, preprocessing
from scipy import sparse

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    Embedding,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    MiniRocketFeatures,
)
from onlinels.images import ImagePreprocessing, Patches
from support import laws, models
from support.slow import pairs_in_turn
from support.strategies import examples

# -- batches without rows --------------------------------------------------------------------------

ROWS = np.column_stack([np.arange(40) % 7, np.arange(40) % 5, np.arange(40) % 3]).astype(float)
NAMES = ["a", "b", "c"]
FORMS = {
    "array": (np.asarray, [np.zeros((0, 3)), np.zeros((0, 3), int), np.empty((0, 3), object)]),
    "sparse": (sparse.csr_array, [sparse.csr_array((0, 3)), sparse.csc_matrix((0, 3))]),
    "dicts": (lambda rows: pd.DataFrame(rows, columns=NAMES).to_dict("records"), [[]]),
    "pandas": (
        lambda rows: pd.DataFrame(rows, columns=NAMES),
        [
            pd.DataFrame(columns=NAMES),
            pd.DataFrame(),
            pd.DataFrame({"a": pd.Series([], dtype=str)}),
        ],
    ),
    "polars": (
        lambda rows: pl.DataFrame(rows, schema=NAMES),
        [pl.DataFrame(schema=NAMES), pl.DataFrame(), pl.DataFrame({"a": []})],
    ),
    "pyarrow": (
        lambda rows: pa.table(dict(zip(NAMES, rows.T, strict=True))),
        [pa.table({name: pa.array([], pa.float64()) for name in NAMES}), pa.table({})],
    ),
}
"""What makes a batch of an array, and batches without rows as they come of filters and slices."""

NUMBERS, LABELS = [float(k % 11) for k in range(40)], [*("low middle high " * 14).split()][:40]
SEVERAL = pd.DataFrame({"p": NUMBERS, "q": NUMBERS[::-1]})
TARGETS = {
    **dict.fromkeys(models.CLASSIFIERS, LABELS),
    **dict.fromkeys(["regressor", "regressor of folds", "stream regressor"], NUMBERS),
    **dict.fromkeys(["several", "several of folds"], SEVERAL),
}
WEIGHTS = [{}, {"w": []}, {"w": np.zeros(0)}, {"w": 2.0}]
WITHOUT_WEIGHTS = {"pipeline": [{}], "windowed": [{}]}


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


def assert_teaches_nothing(model, none, y, weights=({},)):
    """Check that learning and unlearning no rows leaves no trace."""
    before = pickle.dumps(model)
    for w in weights:
        model.learn_many(none, y, **w)
        for name in ("predict_learn_many", "predict_proba_learn_many"):
            if hasattr(model, name):
                assert n_rows(getattr(model, name)(none, y, **w)) == 0
        if hasattr(model, "unlearn_many") and getattr(model, "features_fixed", True):
            model.unlearn_many(none, y, **w)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(("kind", "form"), pairs_in_turn(TARGETS, FORMS, 1))
def test_no_rows_are_answered_as_a_row_and_teach_nothing(kind, form):
    model, y, (make, all_none) = models.MODELS[kind](), TARGETS[kind], FORMS[form]
    weights = WITHOUT_WEIGHTS.get(kind, WEIGHTS)
    for _ in range(2):
        questions = models.questions_of(model).items()
        kinds = {question: kind_of(ask(make(ROWS[:1]))) for question, ask in questions}
        for none in all_none:
            before = pickle.dumps(model)
            for question, ask in models.questions_of(model).items():
                assert n_rows(ask(none)) == 0
                assert kind_of(ask(none)) == kinds[question], question
            assert pickle.dumps(model) == before
            assert_teaches_nothing(model, none, y[:0], weights)
            with pytest.raises(ValueError, match=r"expected 0|has 2"):
                model.learn_many(none, y[:2])
        model.learn_many(make(ROWS), y)


IMAGES = np.arange(24 * 64, dtype=float).reshape(24, 8, 8) % 11
GREY = {"image_shape": (8, 8)}
NETWORKS = {
    "network": lambda: models.digits_network(10, **GREY),
    "warming up": lambda: models.digits_network(100, **GREY),
    "calibrated network": lambda: CalibratedClassifier(models.digits_network(10, **GREY)),
}
PIXELS = IMAGES.reshape(24, 64)
TRANSFORMERS = {
    "convolution": (ConvolutionalFeatures(**GREY), IMAGES),
    "whitening": (ImagePreprocessing.from_examples(IMAGES, whitening=0.001, **GREY), IMAGES),
    "nothing to do": (ImagePreprocessing(**GREY), IMAGES),
    "minirocket": (
        MiniRocketFeatures.from_examples(PIXELS, window_shape=(64,), n_features=84),
        PIXELS,
    ),
    "hidden": (HiddenLayer(5, dtype="float32"), PIXELS),
    "pipeline": (ConvolutionalFeatures(**GREY) | HiddenLayer(5), IMAGES),
}


def forms_of(images):
    """Yield images as arrays, samples and rows of pixels of every kind."""
    frame = pd.DataFrame(images.reshape(len(images), 64), columns=[f"p{k}" for k in range(64)])
    yield from (images, images.astype(np.uint8), frame.to_numpy(), frame)
    yield from (frame.to_dict("records"), pl.from_pandas(frame), pa.Table.from_pandas(frame))
    yield [{"image": image} for image in images]


@pytest.mark.filterwarnings("ignore:The network hardly recognises")
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_no_images_are_answered_as_an_image_and_teach_nothing(make):
    model = make()
    for _ in range(2):
        for one, none in zip(forms_of(IMAGES[:1]), forms_of(IMAGES[:0]), strict=True):
            for ask in (model.predict_many, model.predict_proba_many):
                assert n_rows(ask(none)) == 0
                assert not model.classes or kind_of(ask(none)) == kind_of(ask(one))
            assert_teaches_nothing(model, none, [])
        model.learn_many(IMAGES, LABELS[:24])
    with pytest.raises(ValueError, match=r"shape \(9, 9\)"):
        model.predict_many(np.zeros((0, 9, 9)))


@pytest.mark.parametrize(("step", "images"), TRANSFORMERS.values(), ids=TRANSFORMERS)
def test_no_rows_are_transformed_as_a_row(step, images):
    for one, none in zip(forms_of(images[:1]), forms_of(images[:0]), strict=True):
        model = step.clone()
        of_none = model.transform_many(none)
        assert n_rows(of_none) == 0
        assert kind_of(of_none) == kind_of(model.transform_many(one))


def embed(items):
    """Embed texts; fail for no texts, as many functions do."""
    assert items
    return [[float(len(text)), text.count("a")] for text in items]


@pytest.mark.parametrize("table", [lambda items: items["text"], pd.DataFrame, pl.DataFrame])
def test_no_items_are_embedded_as_an_item(table):
    forms = (table({"text": items}) for items in (["a"], []))
    of_one, of_none = map(Embedding(embed).transform_many, forms)
    assert (n_rows(of_none), kind_of(of_none)) == (0, kind_of(of_one))


def test_examples_need_rows():
    for call in (
        lambda: HiddenLayer.from_examples(PIXELS[:0], n_hidden=3),
        lambda: HiddenLayer.from_examples(PIXELS[:0], [], n_hidden=3),
        lambda: ImagePreprocessing.from_examples(IMAGES[:0]),
        lambda: ConvolutionalFeatures.from_examples(IMAGES[:0], filters=Patches(4, 3)),
        lambda: MiniRocketFeatures.from_examples(PIXELS[:0]),
    ):
        with pytest.raises(ValueError, match=r"X has 0 .*expected at least one"):
            call()


# -- models that have learnt nothing ---------------------------------------------------------------


def unlearnt():
    model = laws.fitted(LeastSquaresClassifier(), [{"a": 1.0}], ["x"])
    model.unlearn_one({"a": 1.0}, "x")
    return model


BLANK = {
    # The steps of a plain pipeline read the values.
    **{kind: models.MODELS[kind] for kind in TARGETS if kind != "pipeline"},
    "unlearnt": unlearnt,
    "network": models.digits_network,
    "drift around a scaler": lambda: DriftAwareClassifier(
        preprocessing.MinMaxScaler() | (HiddenLayer(5) | LeastSquaresClassifier())
    ),
}
NOT_READ = [np.nan, np.inf, None, 1e200, "red", 1j, np.array([np.nan, 1.0]), [1, 2], object()]


@pytest.mark.parametrize("make", BLANK.values(), ids=BLANK)
@examples(10)
@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from([*NOT_READ, 1.0])))
def test_blank_models_answer_before_they_read_values(make, x):
    model = make()
    model.predict_one({})
    before = pickle.dumps(laws.unasked(model))
    for question, nothing in (("predict_proba", {}), ("scores", {}), ("variance", {})):
        assert getattr(model, f"{question}_one", lambda x, nothing=nothing: nothing)(x) == nothing
    assert model.predict_one(x) in (None, 0.0, {})
    assert pickle.dumps(laws.unasked(model)) == before
    for other in ([1.0], "a", None)[: 3 * (not isinstance(model, compose.Pipeline))]:
        with pytest.raises(TypeError, match=r"x is of type .*, expected (a dict|an array)"):
            model.predict_one(other)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("make", "nothing", "n_outputs"),
    [
        (LeastSquaresClassifier, None, 0),
        (LeastSquaresRegressor, 0.0, 1),
        (LeastSquaresMultiTargetRegressor, {}, 0),
    ],
)
def test_blank_linear_models_answer_batches(make, nothing, n_outputs, fit_intercept):
    model, X = make(fit_intercept=fit_intercept), np.ones((4, 2))
    assert model.predict_many([{}, {"a": 1.0}]) == [nothing] * 2
    assert model.predict_many(X).tolist() == [[] if nothing == {} else nothing] * 4
    for name in ("predict_proba_many", "scores_many", "variance_many"):
        if hasattr(model, name):
            assert getattr(model, name)(X).shape == (4, 0)
            assert len(getattr(model, name)(pd.DataFrame(X))) == 4
    assert (model.feature_names, model.count, model.ridge_) == ((), 0, 0.0)
    assert model.output_weights.shape == (0, n_outputs)
    assert model.intercept.tolist() == [0.0] * n_outputs


@pytest.mark.parametrize("wrap", [DriftAwareClassifier, CalibratedClassifier])
def test_wrappers_learn_behind_scalers_that_start_with_nan(wrap):
    model = wrap(preprocessing.MinMaxScaler() | (HiddenLayer(3) | LeastSquaresClassifier()))
    for value in ("red", np.nan, None):
        with pytest.raises((TypeError, ValueError)):
            model.learn_one({"a": value}, 0)
    assert model.count == 0
    for i in range(100):
        model.learn_one({"a": float(i % 7)}, i % 7 > 3)
    assert [model.predict_one({"a": value}) for value in (0.0, 1.0, 5.0, 6.0)] == [0, 0, 1, 1]
