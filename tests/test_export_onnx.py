"""`onlinels.export.onnx`: ONNX files that answer as the model does, by onnxruntime alone."""

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
from support.laws import fitted
from support.strategies import (
    convolution_settings,
    examples,
    filter_arrays,
    hidden_settings,
    kinds,
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


def scores_of(model, X):
    """Return the scores or values (n, n_outputs) of a model or pipeline."""
    last = model["last"] if hasattr(model, "steps") else model
    features = model.transform_many(X) if last is not model else X
    scores = last.scores_many if hasattr(last, "scores_many") else last.predict_many
    return scores(features).reshape(len(X), -1)


def check_outputs(path, model, X, bound, steepness=1.0):
    """Compare an ONNX file with its model, of which scores may differ by a bound (n, n_outputs)."""
    found, scores = outputs_of(path, X), scores_of(model, X)
    if "values" in found:
        assert (np.abs(found["values"] - scores) <= bound).all()
        return
    finite = np.isfinite(scores)
    assert (np.isfinite(found["scores"]) == finite).all()
    assert (np.abs(found["scores"] - scores)[finite] <= bound[finite]).all()
    largest = np.where(finite, bound, 0.0).max(axis=1)
    highest = np.sort(scores, axis=1)
    clear = np.full(len(X), True)
    if scores.shape[1] > 1:
        clear = highest[:, -1] - highest[:, -2] > 2.0 * largest
    own = model.predict_many(X)
    assert found["label"][clear].tolist() == own[clear].tolist()
    atol = 1e-6 + 4.0 * steepness * largest * np.sqrt(scores.shape[1])
    probabilities = model.predict_proba_many(X)
    assert (np.abs(found["probabilities"] - probabilities) <= atol[:, None]).all()


def bound_of(linear, features, spread):
    """Return the rounding errors of scores of features that err by `spread` roundings."""
    weights, mean = np.abs(linear.output_weights), linear._state.statistics.feature_mean
    at_mean = np.abs(linear.intercept + mean @ linear.output_weights)
    errors = (np.abs(features - mean) + spread) @ weights + np.where(
        np.isfinite(at_mean), at_mean, 0.0
    )
    own = 0.0
    if getattr(linear, "priors", None) is not None:
        # Rounding errors of the model, which maps least-squares scores to discriminants.
        own = np.abs(features) @ np.abs(linear._solved().output_weights)
        own = 1e-13 * own @ np.abs(linear._rule().matrix)
    return EPS * (4.0 + len(weights)) * errors + own + 1e-30


@kinds
@examples(20)
@given(st.data())
def test_linear_models(path, kind, data):
    trained = data.draw(trained_models(kind))
    model, X = trained.model, trained.others.astype(np.float64)
    onnx(model, path)
    check_outputs(path, model, X, bound_of(model, X, 0.0))
    said = metadata_of(path)
    assert json.loads(said["feature_names"]) == list(model.feature_names)
    if kind.startswith("labels"):
        assert json.loads(said["classes"]) == list(model.classes)
    assert said["onlinels_version"] == onlinels.__version__


@examples(10)
@given(st.data())
def test_wrappers(path, data):
    def make(model, X, y):
        return wrap(model)

    wrap = data.draw(st.sampled_from([CalibratedClassifier, DriftAwareClassifier]))
    trained = data.draw(trained_models("labels", make))
    model, X = trained.model, trained.others.astype(np.float64)
    onnx(model, path)
    found, inner = outputs_of(path, X), model.classifier
    bound, scores = bound_of(inner, X, 0.0), inner.scores_many(X)
    assert (np.abs(found["scores"] - scores) <= bound).all()
    atol = 1e-6 + 8.0 * getattr(model, "scale", 1.0) * bound.max(axis=1, keepdims=True)
    assert (np.abs(found["probabilities"] - model.predict_proba_many(X)) <= atol).all()


@pytest.mark.parametrize("kind", ["labels", "numbers"])
@examples(30)
@given(st.data())
def test_hidden_layers(path, kind, data):
    settings = data.draw(hidden_settings())
    chosen = data.draw(st.sampled_from(["examples", "differences", "raw"]))
    layers = []

    def make(model, X, y):
        own = settings
        if chosen == "raw":
            layers.append(HiddenLayer(**own))
        else:
            distinct = [k % 2 for k in range(len(X))] if chosen == "differences" else None
            if distinct is not None:
                own = settings | {"input_weights": "centred-difference"}
            layers.append(HiddenLayer.from_examples(X, distinct, **own))
        pipeline = layers[0] | model
        pipeline.steps = {"first": layers[0], "last": model}
        return pipeline

    scale = 1.0 if settings["activation"] != "cube" else 0.1
    trained = data.draw(trained_models(kind, make, largest=1e6 if chosen != "raw" else scale))
    model, X = trained.model, trained.others.astype(np.float64)
    onnx(model, path)
    layer, linear = model["first"], model["last"]
    h = layer.transform_many(X)
    u = layer._made.project(layer._columns.place((range(X.shape[1]),), X))
    # In units of a rounding: of powers, and of functions whose slope is at most 1.
    bound = bound_of(linear, h, 3.0 * np.abs(h) + np.abs(u))
    check_outputs(path, model, X, bound)


def test_landmarks_and_single_precision(path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(30, 400)), list("ab" * 15)
    for dtype in ("float32", "float64"):
        layer = HiddenLayer.from_examples(X, y, n_hidden=400, activation="tanh", dtype=dtype)
        assert type(layer.input_weights).__name__ == "LandmarkWeights"
        model = fitted(layer | LeastSquaresClassifier(1.0), X, y)
        onnx(model, path)
        scores = model["LeastSquaresClassifier"].scores_many(layer.transform_many(X))
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
    for row in rows:
        model.learn_one(row, "far" if row["age"] > 1e6 else "near")
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
    settings["pooling"] = data.draw(st.sampled_from(["box", "gaussian"]))
    geometry = {
        "pool_size": data.draw(st.integers(1, 4)),
        "stride": data.draw(st.integers(1, 3)),
        "padding": data.draw(st.integers(0, 2)),
    }
    model = ShallowConvClassifier(
        # In the precision of the graph: maps that count as rounding errors are the same.
        ConvolutionalFeatures(filters, **settings, **geometry, dtype="float32"),
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
    images = images if n_channels > 1 else images[..., 0]
    check_images(path, model, images)


def check_images(path, model, images, tolerance=2e-4):
    """Compare the answers of an ONNX file and a network within a share of the largest terms."""
    found, own = outputs_of(path, images), model.scores_many(images)
    activations = np.abs(model.transform_many(images)) @ np.abs(model.output_weights)
    bound = tolerance * (activations + np.abs(model.intercept))
    assert (np.abs(found["scores"] - own) <= bound).all()
    clear = model.margin_many(images) > 2.0 * bound.max(axis=1)
    assert (found["label"] == model.predict_many(images))[clear].all()


def test_preprocessing(path):
    random = np.random.default_rng(0)
    images, y = random.integers(0, 256, (60, 8, 12, 3)), list("abc" * 20)
    model = ShallowConvClassifier(
        ConvolutionalFeatures(Patches(5, 3), pool_size=2),
        HiddenLayer(40, "centred-difference", bias=False),
        LeastSquaresClassifier(0.1, priors="equal"),
        warm_up=50,
        preprocessing=ImagePreprocessing(2, 255.0, grey_channel=True, whitening=0.01),
    )
    model.learn_many(images, y)
    onnx(model, path)
    check_images(path, model, images)
    found = outputs_of(path, images)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba_many(images), atol=2e-3)


@pytest.mark.parametrize("kind", ["difference", "centred-difference"])
@pytest.mark.parametrize("n_hidden", [20, 900])
def test_a_network_takes_bytes_and_its_file_may_hold_images(path, kind, n_hidden):
    random = np.random.default_rng(0)
    images, y = random.integers(0, 256, (60, 16, 12, 3)).astype(np.uint8), list("abc" * 20)
    model = ShallowConvClassifier(
        ConvolutionalFeatures(pool_size=3, normalize="image", dtype="float32"),
        HiddenLayer(n_hidden, kind, dtype="float32"),
        LeastSquaresClassifier(0.1),
        warm_up=50,
        preprocessing=ImagePreprocessing(scale=255.0, grey_channel=True),
    )
    model.learn_many(images, y)
    sizes = []
    for store_images in (False, True):
        onnx(model, path, store_images=store_images)
        (given,) = onnxruntime.InferenceSession(path).get_inputs()
        assert (given.type, given.shape) == ("tensor(uint8)", ["batch", 16, 12, 3])
        check_images(path, model, images)
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] / 3
    with pytest.raises(TypeError, match="store_images"):
        onnx(model, path, store_images="yes")


def test_a_network_in_its_warm_up(path):
    model = small(warm_up=1000, n_hidden=300, dtype="float32", learnt=150)
    onnx(model, path)
    found = outputs_of(path, IMAGES)["scores"]
    np.testing.assert_allclose(found, model.scores_many(IMAGES), atol=1e-4)


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
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
    model = ImagePreprocessing(2, image_shape=(4, 6, 3)) | LeastSquaresClassifier(1.0)
    for k, image in enumerate(images):
        model.learn_one({"image": image}, "ab"[k % 2])
    onnx(model, path)
    own = [list(model.predict_proba_one({"image": image}).values()) for image in images]
    np.testing.assert_allclose(outputs_of(path, images)["probabilities"], own, atol=1e-5)
    model.learn_one({"picture": images[0]}, "a")
    model["LeastSquaresClassifier"].learn_one({"other": 1.0}, "a")
    with pytest.raises(ValueError, match="has learnt the feature 'other', which no step before"):
        onnx(model, path)
    of_images = ConvolutionalFeatures(pool_size=4) | LeastSquaresClassifier(1.0)
    of_images.learn_many(np.random.default_rng(0).random((9, 16, 16)), list("abc") * 3)
    with pytest.raises(ValueError, match="Pass input_shape"):
        onnx(of_images, path)
    with pytest.raises(
        ValueError, match=r"learnt the feature .*, and pass their shape as input_shape"
    ):
        onnx(of_images, path, input_shape=(10, 10))


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


def learnt(model, X=None, y=("a", "b")):
    """Return a model that has learnt two rows."""
    model.learn_many(np.eye(2) if X is None else X, list(y))
    return model


def scaled_one_by_one():
    """Return a pipeline of a step that takes no arrays."""
    model = preprocessing.Normalizer() | LeastSquaresClassifier()
    for row in ({"a": 1.0}, {"a": 2.0, "b": 1.0}):
        model.learn_one(row, "x")
    return model


PICTURES = np.random.default_rng(0).random((4, 9, 9))


SMALL = 1e-60 * np.eye(2), (1.0, 2.0)
REFUSED = [
    (LeastSquaresClassifier, "has learnt nothing.* Call learn_one"),
    (lambda: learnt(StreamClassifier()), "model is of type StreamClassifier, expected"),
    (lambda: learnt(LeastSquaresClassifier(), y=[(1, 2), "b"]), "The labels .* do not fit an ONNX"),
    (lambda: learnt(LeastSquaresClassifier(), y=[2**63, 1]), "The labels .* do not fit an ONNX"),
    (lambda: learnt(LeastSquaresRegressor(0.0), *SMALL), "float32"),
    (scaled_one_by_one, "The step 'Normalizer' is of type Normalizer, .* Export the last step"),
    (lambda: learnt(ShallowConvClassifier(), PICTURES, "abab"), "Features are not fixed yet"),
    (lambda: LeastSquaresClassifier, r"model is of type \w+, expected"),
    (IncrementalRidge, "of type IncrementalRidge, .* has to_river"),
    (lambda: None, "model is of type NoneType, expected .* has to_river"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_cannot_be_exported_is_refused_by_name(tmp_path, make, said):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"as it was")
    model = make()
    with pytest.raises(ValueError, match=said):
        onnx(model, path)
    assert path.read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [path]


def test_an_installation_without_an_extra_is_told_its_name(monkeypatch):
    monkeypatch.setattr(onnx_model, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'onlinels\[onnx\]'"):
        onnx(learnt(LeastSquaresClassifier()), "unused.onnx")
    monkeypatch.setattr(predictor, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'onlinels\[sklearn\]'"):
        to_sklearn(learnt(LeastSquaresClassifier()))


def test_an_input_shape_is_for_images():
    with pytest.raises(ValueError, match=r"input_shape=.* came with a model of named columns"):
        onnx(learnt(LeastSquaresClassifier()), "unused.onnx", input_shape=(2,))
    with pytest.raises(TypeError, match="path"):
        onnx(learnt(LeastSquaresClassifier()), 3)


def network_of(*shape):
    return ShallowConvClassifier.from_preset("digits", image_shape=shape, warm_up=20)


def one_row_of_three():
    filters = np.random.default_rng(0).normal(size=(2, 6, 6))
    features = ConvolutionalFeatures(filters, pool_size=1, stride=3, dtype="float32")
    return ShallowConvClassifier(features, HiddenLayer(30), LeastSquaresClassifier(0.01), 20)


LETTERS = list("abc") * 8
GREY = {"image_shape": (8, 8)}
SHAPES = {
    "linear": (LeastSquaresClassifier, (3,)),
    "numbers": (LeastSquaresRegressor, (3,)),
    "network": (lambda: network_of(8, 8), (8, 8)),
    "colours": (lambda: network_of(8, 8, 2), (8, 8, 2)),
    # Strides of 3 keep the first of 3 rows of responses: a pooling matrix of one row, not of 1 x 1.
    "one row": (lambda: one_row_of_three(), (8, 9)),
    "images": (lambda: ConvolutionalFeatures(**GREY) | LeastSquaresClassifier(), (8, 8)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_inputs_and_outputs_are_those_that_the_guide_describes(path, name):
    make, shape = SHAPES[name]
    model, X = make(), np.random.RandomState(0).random_sample((24, *shape))
    model.learn_many(X, X.reshape(24, -1)[:, 0] if name == "numbers" else LETTERS)
    onnx(model, path)
    if isinstance(model, ShallowConvClassifier):
        check_images(path, model, X)
    session, metadata = onnxruntime.InferenceSession(path), metadata_of(path)
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("X", "tensor(float)", ["batch", *shape])
    assert ("feature_names" in metadata) == (len(shape) == 1)
    outputs = {each.name: each.shape for each in session.get_outputs()}
    if name == "numbers":
        assert outputs == {"values": ["batch", 1]}
        assert json.loads(metadata["targets"]) == ["y"]
    else:
        tables = {key: ["batch", 3] for key in ("probabilities", "scores")}
        assert outputs == {"label": ["batch"], **tables}
        assert json.loads(metadata["classes"]) == ["a", "b", "c"]
