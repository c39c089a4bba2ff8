"""River's own suite, with nothing skipped: what works in river works with these estimators."""

import itertools
import random

import numpy as np
import pytest
from river import checks, compose, datasets, drift, evaluate, metrics, preprocessing
from sklearn.datasets import load_digits

from onlinels import (
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
)
from onlinels.features.convolution import Power, TwoSidedRectifier
from onlinels.features.patches import KMeansPatches, Patches, WhitenedPatches
from onlinels.features.preprocessing import ZCA, ImagePreprocessing
from onlinels.features.transformers import WindowFeatures


def drawn_settings(n_settings):
    """Draw hyperparameters of classifier and hidden layer, the same ones on every run."""
    draw = random.Random(0)
    return [
        (
            model_settings(draw, ["gram", "orthogonal", "recursive"][number % 3]),
            {
                "n_hidden": draw.randint(1, 40),
                "input_weights": draw.choice(["gaussian", "uniform", "bipolar"]),
                "activation": draw.choice(["square", "relu", "logistic"]),
                "seed": draw.randint(0, 1000),
            },
        )
        for number in range(n_settings)
    ]


def model_settings(draw, accumulator):
    """Draw hyperparameters of a classifier or a regressor that go with an accumulator."""
    # Squares of raw features grow to 1e11, beside which the recursive form holds no ridge of 0.01.
    ridges = ["paper", "auto", 10 ** draw.uniform(0 if accumulator == "recursive" else -3, 3)]
    if accumulator != "recursive":
        ridges += [0.0, 10 ** draw.uniform(-6, -3)]
    if accumulator == "gram":
        ridges += [KFold(2), KFold(5)]
    return {
        "ridge": draw.choice(ridges),
        "fit_intercept": draw.random() < 0.5,
        "accumulator": accumulator,
        **draw.choice([{}, {"forgetting_factor": 0.99}, {"half_life": 30.0}]),
    }


def the_rest_slow(settings, n_here):
    """Return settings of which only the first ones are tried in the default run."""
    slow = [pytest.param(each, marks=pytest.mark.slow) for each in settings[n_here:]]
    return [*settings[:n_here], *slow]


SETTINGS = [({}, {}), *drawn_settings(18)]
BALANCED = [({"balance": "classwise"}, {}), ({"balance": "priors"}, {})]


def run_suite(model, allowed_to_fail=()):
    """Run every check of river's suite; none may be skipped by the model itself."""
    assert not model._unit_test_skips()
    for check in checks.yield_checks(model):
        random.seed(0)
        if check.__name__ not in allowed_to_fail:
            check(model.clone())


@pytest.mark.parametrize(
    "settings", the_rest_slow([*BALANCED, *SETTINGS], 7), ids=lambda s: str(s[0])
)
def test_classifier(settings):
    run_suite(LeastSquaresClassifier(**settings[0]))


@pytest.mark.parametrize("seed", the_rest_slow([0, 7], 1))
def test_stream_classifier(seed):
    run_suite(StreamClassifier(seed))


def test_stream_classifier_behind_other_steps():
    # River's StandardScaler scales a whole batch by its end, a row by what came before it.
    run_suite(
        preprocessing.StandardScaler() | StreamClassifier(),
        allowed_to_fail={"check_learn_many_matches_learn_one"},
    )


REGRESSORS = [LeastSquaresRegressor, LeastSquaresMultiTargetRegressor]


def regressor_settings(n_settings):
    """Draw hyperparameters of regressor and hidden layer, the same ones on every run."""
    draw = random.Random(1)
    return [
        (model_settings(draw, ["gram", "orthogonal", "recursive"][number % 3]), hidden)
        for number, (_, hidden) in enumerate(drawn_settings(n_settings))
    ]


REGRESSOR_SETTINGS = [({}, {}), *regressor_settings(7)]


@pytest.mark.parametrize("settings", the_rest_slow(REGRESSOR_SETTINGS, 2), ids=lambda s: str(s[0]))
@pytest.mark.parametrize("kind", REGRESSORS)
def test_regressors(kind, settings):
    run_suite(kind(**settings[0]))


@pytest.mark.parametrize("settings", the_rest_slow(REGRESSOR_SETTINGS, 1), ids=str)
@pytest.mark.parametrize("kind", REGRESSORS)
def test_regressors_behind_a_hidden_layer(kind, settings):
    run_suite(HiddenLayer(**settings[1]) | kind(**settings[0]))


DRIFT_AWARE = [
    DriftAwareClassifier(LeastSquaresClassifier()),
    DriftAwareClassifier(LeastSquaresClassifier(1.0, "recursive"), drift.PageHinkley(), keep=0.1),
    DriftAwareClassifier(
        preprocessing.StandardScaler() | HiddenLayer(10) | LeastSquaresClassifier(1.0),
        drift.binary.DDM(warm_start=5),
        keep=0.5,
    ),
    HiddenLayer(10) | DriftAwareClassifier(LeastSquaresClassifier(1.0), drift.binary.HDDMA()),
]


@pytest.mark.parametrize(
    "model", the_rest_slow(DRIFT_AWARE, 2), ids=lambda model: " ".join(str(model).split())
)
def test_drift_aware_classifiers(model):
    run_suite(model)


def test_river_itself_finds_nothing():
    kinds = [LeastSquaresClassifier, StreamClassifier, HiddenLayer, *REGRESSORS]
    for model in (*(kind() for kind in kinds), DRIFT_AWARE[0]):
        checks.check_estimator(model)


@pytest.mark.parametrize("settings", the_rest_slow(SETTINGS, 2), ids=lambda s: str(s[1]))
def test_hidden_layer(settings):
    run_suite(HiddenLayer(**settings[1]))


@pytest.mark.parametrize("settings", the_rest_slow(SETTINGS, 2), ids=str)
def test_classifier_behind_a_hidden_layer(settings):
    run_suite(HiddenLayer(**settings[1]) | LeastSquaresClassifier(**settings[0]))


@pytest.mark.parametrize("settings", the_rest_slow(SETTINGS[:8], 1), ids=str)
def test_classifier_behind_a_scaler(settings):
    """River's StandardScaler scales a whole batch by its end, a row by what came before it."""
    run_suite(
        preprocessing.StandardScaler()
        | HiddenLayer(**settings[1])
        | LeastSquaresClassifier(**settings[0]),
        allowed_to_fail={"check_learn_many_matches_learn_one"},
    )


def digit_stream(n_images=200):
    """8x8 digits as dicts of named pixels."""
    digits = load_digits()
    for pixels, label in itertools.islice(zip(digits.data, digits.target, strict=True), n_images):
        yield {f"pixel_{k // 8}_{k % 8}": float(v) for k, v in enumerate(pixels)}, int(label)


def run_on_digits(model, monkeypatch):
    """Run the whole suite on digits in place of the streams that river would choose.

    Every check that river yields for such an estimator applies; none is left out.
    """
    monkeypatch.setattr(
        checks, "_yield_datasets", lambda model, scale=1: iter([list(digit_stream(60 * scale))])
    )
    ran = set()
    for check in checks.yield_checks(model):
        random.seed(0)
        check(model.clone())
        ran.add(check.__name__)
    return ran


def small_features():
    return ConvolutionalFeatures(
        pool_size=3, stride=4, padding=3, normalize=False, image_shape=(8, 8)
    )


def general_features():
    return ConvolutionalFeatures(
        pool_size=3,
        stride=4,
        padding=3,
        before_pooling=TwoSidedRectifier(0.1),
        after_pooling=Power(1.0),
        channels="joint",
        contrast_offset=10.0,
        image_shape=(8, 8),
    )


def window_features():
    """Rows of digits are the time, columns the channels."""
    return WindowFeatures(stride=4, padding=4, normalize=False, window_shape=(8, 8))


@pytest.mark.parametrize("make", [small_features, general_features, window_features])
def test_fixed_features_on_digits(make, monkeypatch):
    ran = run_on_digits(make(), monkeypatch)
    assert {"check_transform_many_matches_transform_one", "check_shuffle_features_no_impact"} <= ran


@pytest.mark.parametrize("warm_up", the_rest_slow([25, 5, 1000], 1))
@pytest.mark.parametrize("input_weights", ["difference", "gaussian"])
def test_network_on_digits(warm_up, input_weights, monkeypatch):
    """Fixed at once, in the middle of the stream, or never within it."""
    model = ShallowConvClassifier(small_features(), HiddenLayer(40, input_weights), warm_up=warm_up)
    ran = run_on_digits(model, monkeypatch)
    assert "check_learn_many_matches_learn_one" in ran
    assert "check_predict_proba_many_matches_predict_proba_one" in ran


NETWORKS = {
    "whitened, with patches": (
        {"scale": 16.0, "whitening": ZCA(0.1), "image_shape": (8, 8)},
        {"filters": ("hand-designed", Patches(5, size=3))},
        "centred-difference",
    ),
    "downsampled, with whitened patches": (
        {"downsample": 2, "image_shape": (8, 8)},
        {"filters": WhitenedPatches(5, size=3, n_sample=200), "channels": "joint"},
        "difference",
    ),
    "with clusters": (
        {},
        {
            "filters": KMeansPatches(5, size=3, n_sample=200),
            "contrast_offset": 10.0,
            "before_pooling": TwoSidedRectifier(0.1),
            "normalize": "image",
            "image_shape": (8, 8),
        },
        "gaussian",
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network_of_all_parts_on_digits(name, monkeypatch):
    before, features, weights = NETWORKS[name]
    model = ShallowConvClassifier(
        ConvolutionalFeatures(pool_size=3, stride=4, padding=3, **features),
        HiddenLayer(40, weights),
        LeastSquaresClassifier(ridge=1.0, fit_intercept=False),
        warm_up=25,
        preprocessing=ImagePreprocessing(**before),
    )
    ran = run_on_digits(model, monkeypatch)
    assert "check_learn_many_matches_learn_one" in ran
    assert "check_predict_proba_many_matches_predict_proba_one" in ran


def whitening_preprocessing():
    """All steps that grey digits allow, whitened by the first of them."""
    settings = {"downsample": 2, "scale": 16.0, "whitening": ZCA(0.01), "image_shape": (8, 8)}
    return ImagePreprocessing.from_examples([x for x, _ in digit_stream(100)], **settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ImagePreprocessing(image_shape=(8, 8)),
        lambda: ImagePreprocessing(downsample=2, scale=16.0, image_shape=(8, 8)),
        whitening_preprocessing,
    ],
    ids=["nothing to do", "downsampled and scaled", "whitened"],
)
def test_preprocessing_on_digits(make, monkeypatch):
    ran = run_on_digits(make(), monkeypatch)
    assert {"check_transform_many_matches_transform_one", "check_shuffle_features_no_impact"} <= ran


def test_in_the_middle_of_a_pipeline_of_preprocessed_images(monkeypatch):
    preprocessing_steps = ImagePreprocessing(scale=16.0, image_shape=(8, 8))
    model = preprocessing_steps | small_features() | LeastSquaresClassifier(ridge=1.0)
    run_on_digits(model, monkeypatch)


def test_in_the_middle_of_a_pipeline_of_images(monkeypatch):
    run_on_digits(
        small_features() | HiddenLayer(30) | LeastSquaresClassifier(ridge=1.0), monkeypatch
    )


def test_progressive_validation():
    model = preprocessing.StandardScaler() | HiddenLayer(100) | LeastSquaresClassifier()
    score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    assert score.get() > 0.88


def test_weights_pass_through_a_pipeline():
    x, w = {"a": 1.0, "b": 2.0}, 3.0
    pipeline = preprocessing.Normalizer() | LeastSquaresClassifier()
    pipeline.learn_one(x, "yes", w=w)
    pipeline.learn_one({"a": 2.0, "b": -1.0}, "no")
    alone = LeastSquaresClassifier()
    alone.learn_one(preprocessing.Normalizer().transform_one(x), "yes", w=w)
    alone.learn_one(preprocessing.Normalizer().transform_one({"a": 2.0, "b": -1.0}), "no")
    assert pipeline["LeastSquaresClassifier"].scores_one(x) == alone.scores_one(x)


def test_raw_features_beside_hidden_ones():
    model = (HiddenLayer(3) + compose.Select("a", "b")) | LeastSquaresClassifier()
    model.learn_one({"a": 1.0, "b": 2.0}, "yes")
    assert set(model["LeastSquaresClassifier"].feature_names) == {"a", "b", "h0", "h1", "h2"}


def test_raw_features_that_are_numbers_need_a_prefix():
    """Column 0 and "h0" are one feature, so that arrays and dicts meet; together they clash."""
    model = (HiddenLayer(3) + compose.Select(0, 1)) | LeastSquaresClassifier()
    with pytest.raises(ValueError, match=r"stand for one feature.*Prefixer"):
        model.learn_one({0: 1.0, 1: 2.0}, "yes")
    raw = compose.Select(0, 1) | compose.Prefixer("raw_")
    model = (HiddenLayer(3) + raw) | LeastSquaresClassifier()
    model.learn_one({0: 1.0, 1: 2.0}, "yes")
    names = set(model["LeastSquaresClassifier"].feature_names)
    assert names == {"raw_0", "raw_1", "h0", "h1", "h2"}


@pytest.mark.parametrize("model", [LeastSquaresClassifier(), HiddenLayer(4)], ids=str)
def test_numpy_booleans_and_integers_are_values(model):
    x = {"a": np.bool_(True), "b": np.int8(3)}
    if isinstance(model, HiddenLayer):
        assert model.transform_one(x) == model.transform_one({"a": 1.0, "b": 3.0})
    else:
        model.learn_one(x, np.str_("y"))
        assert model.predict_one(x) == "y"
