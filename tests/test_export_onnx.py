"""`onlinels.export.onnx`: ONNX files that answer as the model does, by onnxruntime alone."""

import functools
import json

import numpy as np
import onnx as onnx_package
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from river import preprocessing

import onlinels
from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    MiniRocketFeatures,
    ShallowConvClassifier,
    StreamClassifier,
    WindowedClassifier,
)
from onlinels.export import onnx, onnx_model, predictor, to_sklearn
from onlinels.images import ImagePreprocessing, Patches
from onlinels.sklearn import IncrementalRidge
from support.digits_network import IMAGES, small
from support.laws import fitted, fitted_by_row, own_rounding, sizes_of_scores
from support.strategies import (
    HIDDEN,
    KINDS,
    convolution_settings,
    examples,
    filter_arrays,
    trained_models,
)

EPS = float(np.finfo(np.float32).eps)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("export") / "model.onnx"


def outputs_of(path, X):
    """Return the outputs of an ONNX file by name."""
    session = onnxruntime.InferenceSession(path)
    names, (given,) = [output.name for output in session.get_outputs()], session.get_inputs()
    dtype = np.uint8 if given.type == "tensor(uint8)" else np.float32
    return dict(zip(names, session.run(None, {"X": X.astype(dtype)}), strict=True))


def metadata_of(path):
    """Return the metadata of an ONNX file."""
    return {each.key: each.value for each in onnx_package.load(path).metadata_props}


def bound_of(linear, features, spread=0.0):
    """Return the rounding errors of scores of features that err by `spread` roundings."""
    roundings = EPS * (4.0 + len(linear.feature_names))
    return roundings * sizes_of_scores(linear, features, spread) + own_rounding(linear, features)


def activations_of(layer, X):
    """Return what a linear model sees of rows, and what it errs by, in roundings."""
    if layer is None:
        return X, 0.0
    h = layer.transform_many(X)
    u = layer._made.project(layer._columns.place((range(X.shape[1]),), X))
    # Powers, and functions whose slope is at most 1.
    return h, 3.0 * np.abs(h) + np.abs(u)


def assert_outputs(path, model, linear, X, features, bound):
    """Compare an ONNX file with a model, of which scores may differ by a bound (n, n_outputs)."""
    found = outputs_of(path, X)
    scores = getattr(linear, "scores_many", linear.predict_many)(features).reshape(len(X), -1)
    finite = np.isfinite(scores)
    given = found.get("scores", found.get("values"))
    assert (np.isfinite(given) == finite).all()
    assert (np.abs(given - scores) <= bound)[finite].all()
    if "label" not in found:
        return
    largest = np.where(finite, bound, 0.0).max(axis=1)
    highest = np.sort(np.column_stack([np.full(len(X), -np.inf), scores]), axis=1)
    clear = highest[:, -1] - highest[:, -2] > 2.0 * largest
    own, steepness = model.predict_many(X), getattr(model, "scale", 1.0)
    assert found["label"][clear].tolist() == own[clear].tolist()
    atol = 1e-6 + 8.0 * steepness * largest * np.sqrt(scores.shape[1])
    probabilities = model.predict_proba_many(X)
    assert (np.abs(found["probabilities"] - probabilities) <= atol[:, None]).all()


MODELS = {
    **{kind: (kind, {}) for kind in KINDS},
    "calibrated": ("labels", {"wrap": CalibratedClassifier}),
    "drift": ("labels", {"wrap": DriftAwareClassifier}),
    "hidden labels": ("labels", {"hidden": HIDDEN}),
    "hidden numbers": ("numbers", {"hidden": HIDDEN}),
}


@pytest.mark.parametrize("name", MODELS)
@examples(20)
@given(st.data())
def test_answers_are_equal_up_to_rounding(path, name, data):
    kind, form = MODELS[name]
    trained = data.draw(trained_models(kind, **form))
    model, linear, X = trained.model, trained.linear, trained.others.astype(np.float64)
    onnx(model, path)
    h, spread = activations_of(trained.layer, X)
    assert_outputs(path, model, linear, X, h, bound_of(linear, h, spread))
    said = metadata_of(path)
    assert json.loads(said.get("classes", "[]")) == list(getattr(linear, "classes", ()))
    assert len(json.loads(said["feature_names"])) == X.shape[1]
    assert said["onlinels_version"] == onlinels.__version__


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_of_landmarks_are_equal_up_to_rounding(path, dtype):
    X, y = np.random.default_rng(0).normal(size=(30, 400)), list("ab" * 15)
    layer = HiddenLayer.from_examples(X, y, n_hidden=400, activation="tanh", dtype=dtype)
    linear = LeastSquaresClassifier(1.0)
    onnx(fitted(layer | linear, X, y), path)
    scores = linear.scores_many(layer.transform_many(X))
    np.testing.assert_allclose(outputs_of(path, X)["scores"], scores, atol=1e-5)


@pytest.mark.parametrize("window_size", [None, 50])
def test_scalers_and_names(path, window_size):
    random = np.random.default_rng(0)
    X = (random.normal(size=(60, 3)) + np.array([0.0, 1e6, -1e3])).astype(np.float32)
    rows = [dict(zip(("size", "age", ("h", 1)), row, strict=True)) for row in X.tolist()]
    model = (
        preprocessing.StandardScaler(window_size=window_size)
        | HiddenLayer(20)
        | CalibratedClassifier(LeastSquaresClassifier(0.1))
    )
    fitted_by_row(model, rows, ["far" if row["age"] > 1e6 else "near" for row in rows])
    onnx(model, path)
    names = json.loads(metadata_of(path)["feature_names"])
    assert sorted(names, key=str) == [["h", 1], "age", "size"]
    columns = [("size", "age", ["h", 1]).index(name) for name in names]
    found = outputs_of(path, X[:, columns])
    assert found["label"].tolist() == [model.predict_one(row) for row in rows]
    own = [list(model.predict_proba_one(row).values()) for row in rows]
    np.testing.assert_allclose(found["probabilities"], own, atol=1e-4)


@examples(20)
@given(convolution_settings(), filter_arrays(), st.data())
def test_networks(path, settings, filters, data):
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_channels = filters.shape[3] if filters.ndim == 4 else data.draw(st.integers(1, 3))
    images, y = random.random((40, 8, 9, n_channels)), list("abcd" * 10)
    settings |= {
        "pooling": data.draw(st.sampled_from(["box", "gaussian"])),
        "pool_size": data.draw(st.integers(1, 4)),
        "stride": data.draw(st.integers(1, 3)),
        "padding": data.draw(st.integers(0, 2)),
    }
    model = ShallowConvClassifier(
        # In the precision of the graph: maps that count as rounding errors are the same.
        ConvolutionalFeatures(filters, **settings, dtype="float32"),
        HiddenLayer(30, "difference", "logistic"),
        LeastSquaresClassifier(data.draw(st.sampled_from([1.0, 0.01]))),
        warm_up=20,
        preprocessing=ImagePreprocessing(scale=data.draw(st.sampled_from([None, 2.0]))),
    )
    try:
        model.learn_many(images, y)
    except ValueError as error:
        # Large filters and powers whose features leave no room for images in float32.
        assume("Rescale the images" not in str(error))
        raise
    onnx(model, path)
    check_images(path, model, images if n_channels > 1 else images[..., 0])


def check_images(path, model, images, tolerance=2e-4):
    """Compare the answers of an ONNX file and a network within a share of the largest terms."""
    found, own = outputs_of(path, images), model.scores_many(images)
    activations = np.abs(model.transform_many(images)) @ np.abs(model.output_weights)
    bound = tolerance * (activations + np.abs(model.intercept))
    assert (np.abs(found["scores"] - own) <= bound).all()
    clear = model.margin_many(images) > 2.0 * bound.max(axis=1)
    assert (found["label"] == model.predict_many(images))[clear].all()


GREY = {"grey_channel": True}
NETWORKS = {
    "whitened": ShallowConvClassifier(
        ConvolutionalFeatures(Patches(5, 3), pool_size=2),
        HiddenLayer(40, "centred-difference", bias=False),
        LeastSquaresClassifier(0.1, priors="equal"),
        warm_up=50,
        preprocessing=ImagePreprocessing(2, 255.0, whitening=0.01, **GREY),
    ),
    **{
        kind: ShallowConvClassifier(
            ConvolutionalFeatures(pool_size=3, normalize="image", dtype="float32"),
            HiddenLayer(n_hidden, kind, dtype="float32"),
            LeastSquaresClassifier(0.1),
            warm_up=50,
            preprocessing=ImagePreprocessing(scale=255.0, **GREY),
        )
        for kind, n_hidden in (("difference", 900), ("centred-difference", 20))
    },
}


SHARES = {"whitened": 1.4, "difference": 0.33, "centred-difference": 0.33}
"""What a file with images takes of one with input weights, of which whitening has few."""


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_takes_bytes_and_its_file_may_hold_images(path, name):
    random, model, sizes = np.random.default_rng(0), NETWORKS[name].clone(), []
    images = random.integers(0, 256, (60, 16, 12, 3)).astype(np.uint8)
    model.learn_many(images, list("abc" * 20))
    for store_images in (False, True):
        onnx(model, path, store_images=store_images)
        (given,) = onnxruntime.InferenceSession(path).get_inputs()
        assert (given.type, given.shape) == ("tensor(uint8)", ["batch", 16, 12, 3])
        check_images(path, model, images)
        found = outputs_of(path, images)["probabilities"]
        np.testing.assert_allclose(found, model.predict_proba_many(images), atol=2e-3)
        sizes.append(path.stat().st_size)
    assert sizes[1] < SHARES[name] * sizes[0]


def test_a_network_in_its_warm_up(path):
    model = small(warm_up=1000, n_hidden=300, dtype="float32", learnt=150)
    onnx(model, path)
    found = outputs_of(path, IMAGES)["scores"]
    np.testing.assert_allclose(found, model.scores_many(IMAGES), atol=1e-4)


@pytest.mark.parametrize(("n_channels", "dtype"), [(1, "float64"), (3, "float32")])
def test_windows(path, n_channels, dtype):
    # Sums of whole numbers are exact, and so are comparisons with a bias.
    random = np.random.default_rng(n_channels)
    windows = random.integers(-9, 10, (40, 30, n_channels)).astype(float)
    y = ["up" if window[:9].mean() > 0 else "down" for window in windows]
    features = MiniRocketFeatures.from_examples(windows, n_features=700, dtype=dtype, prefix="u_")
    linear = LeastSquaresClassifier(1.0)
    pipeline = fitted(features | linear, windows, y)
    onnx(pipeline, path)
    shares = features.transform_many(windows)
    given = windows if n_channels > 1 else windows[..., 0]
    found, bound = outputs_of(path, given), bound_of(linear, shares, np.abs(shares))
    assert (np.abs(found["scores"] - linear.scores_many(shares)) <= bound).all()


def test_a_linear_model_of_preprocessed_pixels(path):
    images = np.random.default_rng(0).random((20, 4, 6, 3))
    model, rows = ImagePreprocessing(2, image_shape=(4, 6, 3)), [{"image": each} for each in images]
    model = fitted_by_row(model | LeastSquaresClassifier(1.0), rows, "ab" * 10)
    onnx(model, path)
    own = [list(model.predict_proba_one(row).values()) for row in rows]
    np.testing.assert_allclose(outputs_of(path, images)["probabilities"], own, atol=1e-5)


@pytest.mark.parametrize("steps", ["none", "rocket"])
def test_a_windowed_classifier_takes_its_window(path, steps):
    random = np.random.default_rng(0)
    readings = random.integers(-9, 10, (80, 2)).astype(float)
    rows = [{"ax": a, "ay": b} for a, b in readings.tolist()]
    classifier = LeastSquaresClassifier(1.0)
    if steps == "rocket":
        examples = np.stack([readings[k : k + 12] for k in range(20)])
        classifier = MiniRocketFeatures.from_examples(examples, n_features=100) | classifier
    model = WindowedClassifier(classifier, window=12, hop=3)
    for k, row in enumerate(rows[:70]):
        model.learn_one(row, k % 20 < 10)
    onnx(model, path)
    assert json.loads(metadata_of(path)["channels"]) == list(model.channels)
    window = readings[59:71][None]
    found, own = outputs_of(path, window), model.predict_proba_one(rows[70])
    assert found["label"].tolist() == [model.predict_one(rows[70])]
    np.testing.assert_allclose(found["probabilities"][0], list(own.values()), atol=1e-5)


PICTURES = np.random.default_rng(0).random((4, 16, 16))


def of(model, *y, X=None):
    """Return a model that has learnt a row for each target."""
    return fitted(model, np.eye(len(y)) if X is None else X, [*y])


LINEAR, MODEL = LeastSquaresClassifier, of(LeastSquaresClassifier(), "a", "b")
NORMALIZED = fitted_by_row(preprocessing.Normalizer() | LINEAR(), [{"a": 2.0, "b": 1.0}], ["x"])
OF_PIXELS = ImagePreprocessing(image_shape=(2, 2)) | LINEAR(1.0)
fitted_by_row(OF_PIXELS, [{"image": np.ones((2, 2))}], ["a"])
OF_PIXELS["LeastSquaresClassifier"].learn_one({"other": 1.0}, "a")
OF_IMAGES = of(ConvolutionalFeatures(pool_size=4) | LINEAR(), *"abab", X=PICTURES)
REFUSED = [
    (LINEAR(), {}, "has learnt nothing.* Call learn_one"),
    (StreamClassifier(), {}, "model is of type StreamClassifier, expected"),
    (of(LINEAR(), (1, 2), "b"), {}, "The labels .* do not fit an ONNX"),
    (of(LINEAR(), 2**63, 1), {}, "The labels .* do not fit an ONNX"),
    (of(LeastSquaresRegressor(0.0), 1.0, 2.0, X=1e-60 * np.eye(2)), {}, "float32"),
    (NORMALIZED, {}, "The step 'Normalizer' is of type Normalizer, .* Export the last"),
    (of(ShallowConvClassifier(), *"abab", X=PICTURES), {}, "Features are not fixed yet"),
    (LINEAR, {}, r"model is of type \w+, expected"),
    (IncrementalRidge(), {}, "of type IncrementalRidge, .* has to_river"),
    (None, {}, "model is of type NoneType, expected .* has to_river"),
    (OF_PIXELS, {}, "has learnt the feature 'other', which no step before it makes"),
    (OF_IMAGES, {}, "Pass input_shape"),
    (OF_IMAGES, {"input_shape": (10, 10)}, "and pass their shape as input_shape"),
    (MODEL, {"input_shape": (2,)}, "input_shape=.* came with a model of named columns"),
    (MODEL, {"store_images": "yes"}, "store_images"),
]


@pytest.mark.parametrize(("model", "settings", "said"), REFUSED)
def test_what_cannot_be_exported_is_refused_and_the_file_stays_as_it_was(
    tmp_path, model, settings, said
):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"as it was")
    with pytest.raises((TypeError, ValueError), match=said):
        onnx(model, path, **settings)
    assert path.read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_is_one_and_an_installation_without_an_extra_is_told_its_name(monkeypatch):
    with pytest.raises(TypeError, match="path"):
        onnx(MODEL, 3)
    for module, extra, export in ((onnx_model, "onnx", onnx), (predictor, "sklearn", to_sklearn)):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
        with pytest.raises(ImportError, match=rf"pip install 'onlinels\[{extra}\]'"):
            export(MODEL, *["unused.onnx"] * (export is onnx))


def one_row_of_three():
    filters = np.random.default_rng(0).normal(size=(2, 6, 6))
    features = ConvolutionalFeatures(filters, pool_size=1, stride=3, dtype="float32")
    return ShallowConvClassifier(features, HiddenLayer(30), LINEAR(0.01), 20)


NUMBERED = {"values": ["batch", 1]}
LABELLED = {"label": ["batch"], "probabilities": ["batch", 3], "scores": ["batch", 3]}
NETWORK = functools.partial(ShallowConvClassifier.from_preset, "digits", warm_up=20)
SHAPES = {
    "linear": (LINEAR(), (3,), LABELLED, "classes"),
    "numbers": (LeastSquaresRegressor(), (3,), NUMBERED, "targets"),
    "network": (NETWORK(image_shape=(8, 8)), (8, 8), LABELLED, "classes"),
    "colours": (NETWORK(image_shape=(8, 8, 2)), (8, 8, 2), LABELLED, "classes"),
    # Strides of 3 keep the first of 3 rows of responses: a pooling matrix of one row, not of 1 x 1.
    "one row": (one_row_of_three(), (8, 9), LABELLED, "classes"),
    "images": (ConvolutionalFeatures(image_shape=(8, 8)) | LINEAR(), (8, 8), LABELLED, "classes"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_inputs_and_outputs_are_those_that_the_guide_describes(path, name):
    model, shape, outputs, named = SHAPES[name]
    X = np.random.RandomState(0).random_sample((24, *shape))
    Y = X.reshape(24, -1)[:, 0] if outputs is NUMBERED else list("abc") * 8
    onnx(fitted(model, X, Y), path)
    own, found = model.predict_many(X), outputs_of(path, X)
    session, metadata = onnxruntime.InferenceSession(path), metadata_of(path)
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("X", "tensor(float)", ["batch", *shape])
    assert json.loads(metadata[named]) == {"targets": ["y"], "classes": ["a", "b", "c"]}[named]
    assert ("feature_names" in metadata) == (len(shape) == 1)
    assert {each.name: each.shape for each in session.get_outputs()} == outputs
    assert found.get("label", own).tolist() == own.tolist()
    numbers = getattr(model, "predict_proba_many", lambda X: own[:, None])(X)
    np.testing.assert_allclose(found.get("probabilities", found.get("values")), numbers, atol=1e-4)
