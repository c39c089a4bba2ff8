"""River's own suite, with nothing skipped: what works in river works with these estimators.

The default run has one setting of every class; the long run has more, and pipelines of them.
"""

import itertools
import random

import pytest
from river import checks, compose, drift, preprocessing
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
    StreamRegressor,
)
from onlinels.features.filters import Patches
from onlinels.features.preprocessing import ImagePreprocessing
from support.slow import the_rest_slow

ACCUMULATORS = "gram", "orthogonal", "recursive"


def drawn(number):
    """Draw hyperparameters of a linear model and a hidden layer, the same ones on every run."""
    draw, accumulator = random.Random(number), ACCUMULATORS[number % 3]
    # Squares of raw features grow to 1e11, beside which the recursive form holds no ridge of 0.01.
    ridges = ["paper", "auto", 10 ** draw.uniform(0 if accumulator == "recursive" else -3, 3)]
    if accumulator != "recursive":
        ridges += [0.0, 10 ** draw.uniform(-6, -3)]
    if accumulator == "gram":
        ridges += [KFold(2), KFold(5)]
    linear = {
        "ridge": draw.choice(ridges),
        "fit_intercept": draw.random() < 0.5,
        "accumulator": accumulator,
        **draw.choice([{}, {"forgetting_factor": 0.99}, {"half_life": 30.0}]),
    }
    hidden = {
        "n_hidden": draw.randint(1, 40),
        "input_weights": draw.choice(["gaussian", "uniform", "bipolar"]),
        "activation": draw.choice(["square", "relu", "logistic"]),
        "seed": draw.randint(0, 1000),
    }
    return linear, hidden


# Defaults, with fewer hidden units: the long run has the 300 of the default, too.
SETTINGS = [({}, {"n_hidden": 20}), *map(drawn, range(12)), ({}, {})]
LINEAR = LeastSquaresClassifier, LeastSquaresRegressor, LeastSquaresMultiTargetRegressor
STREAMS = StreamClassifier, StreamRegressor

# River's StandardScaler scales a whole batch by its end, a row by what came before it.
WHOLE_BATCHES = {"check_learn_many_matches_learn_one"}


def run_suite(model, left_out=frozenset()):
    """Run every check of river's suite; none may be skipped by the model itself."""
    assert not model._unit_test_skips()
    ran = set()
    for check in checks.yield_checks(model):
        random.seed(0)
        if check.__name__ not in left_out:
            check(model.clone())
        ran.add(check.__name__)
    return ran


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
PRIORS = [LeastSquaresClassifier(priors=each) for each in ("equal", "learnt", {True: 0.1})]
MODELS = [
    *the_rest_slow([HiddenLayer(**hidden) for _, hidden in SETTINGS]),
    *the_rest_slow(DRIFT_AWARE),
    *the_rest_slow(PRIORS, 0),
]
for kind in STREAMS:
    MODELS += the_rest_slow([kind(seed) for seed in (0, 7)])
for kind in LINEAR:
    MODELS += the_rest_slow([kind(**linear) for linear, _ in SETTINGS])
    MODELS += the_rest_slow([HiddenLayer(**hidden) | kind(**it) for it, hidden in SETTINGS], 0)


def spelt(model):
    return " ".join(str(model).split())


@pytest.mark.parametrize("model", MODELS, ids=spelt)
def test_models(model):
    run_suite(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        *(preprocessing.StandardScaler() | kind() for kind in STREAMS),
        *(
            preprocessing.StandardScaler()
            | HiddenLayer(**hidden)
            | LeastSquaresClassifier(**linear)
            for linear, hidden in SETTINGS[:8]
        ),
    ],
    ids=spelt,
)
def test_models_behind_a_scaler(model):
    run_suite(model, WHOLE_BATCHES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [HiddenLayer(), DRIFT_AWARE[0], *(kind() for kind in LINEAR + STREAMS)], ids=spelt
)
def test_river_itself_finds_nothing(model):
    checks.check_estimator(model)


def digit_stream(n_images):
    """8x8 digits as dicts of named pixels."""
    digits = load_digits()
    for pixels, label in itertools.islice(zip(digits.data, digits.target, strict=True), n_images):
        yield {f"pixel_{k // 8}_{k % 8}": float(v) for k, v in enumerate(pixels)}, int(label)


def conv(**settings):
    return ConvolutionalFeatures(pool_size=3, stride=4, padding=3, **settings)


SMALL = conv(normalize=False, image_shape=(8, 8))
SQUARE = {"image_shape": (8, 8)}
PREPROCESSED = ImagePreprocessing(scale=16.0, **SQUARE)
IMAGE_MODELS = {
    "small": lambda: SMALL,
    "general": lambda: conv(
        before_pooling=1.0, after_pooling=1.0, channels="joint", pooling="gaussian", **SQUARE
    ),
    "nothing to do": lambda: ImagePreprocessing(**SQUARE),
    "downsampled and scaled": lambda: ImagePreprocessing(downsample=2, scale=16.0, **SQUARE),
    # All steps that grey digits allow, whitened by the first of them.
    "whitened": lambda: ImagePreprocessing.from_examples(
        [x for x, _ in digit_stream(100)], downsample=2, scale=16.0, whitening=0.01, **SQUARE
    ),
    # Fixed in the middle of the stream, at once, or never within it.
    **{
        f"{weights}, {warm_up}": lambda weights=weights, warm_up=warm_up: ShallowConvClassifier(
            SMALL, HiddenLayer(40, weights), warm_up=warm_up
        )
        for weights in ("difference", "gaussian")
        for warm_up in (25, 5, 1000)
    },
    "whitened, with patches": lambda: ShallowConvClassifier(
        conv(filters=("hand-designed", Patches(5, 3, whitening=1.0, n_sample=200))),
        HiddenLayer(40, "centred-difference"),
        LeastSquaresClassifier(ridge=1.0, fit_intercept=False),
        warm_up=25,
        preprocessing=ImagePreprocessing(downsample=2, scale=16.0, whitening=0.1, **SQUARE),
    ),
    "preprocessed": lambda: PREPROCESSED | SMALL | LeastSquaresClassifier(ridge=1.0),
    "hidden": lambda: SMALL | HiddenLayer(30) | LeastSquaresClassifier(ridge=1.0),
}


IN_THE_DEFAULT_RUN = {"small", "whitened", "difference, 25"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_THE_DEFAULT_RUN else pytest.mark.slow)
        for name in IMAGE_MODELS
    ],
)
def test_images_of_digits(name, monkeypatch):
    """The whole suite, on digits in place of the streams that river would choose."""
    monkeypatch.setattr(
        checks, "_yield_datasets", lambda model, scale=1: iter([list(digit_stream(60 * scale))])
    )
    model = IMAGE_MODELS[name]()
    ran = run_suite(model)
    if isinstance(model, ShallowConvClassifier):
        assert "check_learn_many_matches_learn_one" in ran
        assert "check_predict_proba_many_matches_predict_proba_one" in ran
    elif not isinstance(model, compose.Pipeline):
        assert "check_transform_many_matches_transform_one" in ran
        assert "check_shuffle_features_no_impact" in ran
