"""River's own suite, with nothing skipped: what works in river works with these estimators.

The default run has one setting of every class, and a fourth of the rows; the long run has all, and
each behind a scaler.
"""

import itertools
import random

import pytest
from river import checks, compose, drift, preprocessing
from sklearn.datasets import load_digits

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)
from onlinels.features.filters import Patches
from onlinels.features.preprocessing import ImagePreprocessing
from support import models
from support.slow import shorten_river_streams

# River's StandardScaler scales a whole batch by its end, a row by what came before it.
SCALER, WHOLE_BATCHES = preprocessing.StandardScaler(), {"check_learn_many_matches_learn_one"}

LONG = {"check_bounded_memory_growth"}
"""What the long run checks: it takes as long as half of the others (see also test_memory)."""


def run_suite(model, left_out=frozenset()):
    """Run the checks of river's suite but the long one; none may be skipped by the model itself."""
    assert not model._unit_test_skips()
    ran = set()
    for check in checks.yield_checks(model):
        random.seed(0)
        if check.__name__ not in left_out | LONG:
            check(model.clone())
        ran.add(check.__name__)
    return ran


DRIFT_AWARE = {
    "less of the past": lambda: DriftAwareClassifier(
        LeastSquaresClassifier(1.0, "recursive"), drift.PageHinkley(), keep=0.1
    ),
    "behind hidden units": lambda: (
        HiddenLayer(10) | DriftAwareClassifier(LeastSquaresClassifier(1.0), drift.binary.HDDMA())
    ),
    "calibrated behind hidden units": lambda: (
        HiddenLayer(10) | CalibratedClassifier(LeastSquaresClassifier())
    ),
}
LAYERS = {
    "hidden": lambda: HiddenLayer(20),
    "hidden by default": HiddenLayer,
    "rectified": lambda: HiddenLayer(9, "bipolar", "relu", seed=3, bias=True),
}
# A window needs readings of the same channels throughout.
MODELS = {kind: make for kind, make in models.MODELS.items() if kind != "windowed"}
SCALED = {f"scaled, {kind}": lambda make=make: SCALER | make() for kind, make in MODELS.items()}
MODELS |= LAYERS | DRIFT_AWARE | SCALED
IN_THE_DEFAULT_RUN = {
    *("gram", "regressor", "several", "stream", "stream regressor"),
    *("calibrated", "drift", "hidden", "small", "whitened", "difference, 25"),
}


def each_of(table):
    """Return a parametrisation by the names of a table, of which few run by default."""
    slow = [pytest.param(name, 1, marks=pytest.mark.slow) for name in table]
    return pytest.mark.parametrize(
        ("name", "step"), [*((name, 8) for name in table if name in IN_THE_DEFAULT_RUN), *slow]
    )


# River leaves out names: the date then counts as 0.
@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@each_of(MODELS)
def test_models(name, step, monkeypatch):
    shorten_river_streams(monkeypatch, step)
    run_suite(MODELS[name](), WHOLE_BATCHES if name in SCALED else frozenset())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_memory_of_models_stays_bounded(name):
    found = [each for each in checks.yield_checks(MODELS[name]()) if each.__name__ in LONG]
    assert found
    for check in found:
        random.seed(0)
        check(MODELS[name]())


def digit_stream(n_images):
    """8x8 digits as dicts of named pixels."""
    digits = load_digits()
    for pixels, label in itertools.islice(zip(digits.data, digits.target, strict=True), n_images):
        yield {f"pixel_{k // 8}_{k % 8}": float(v) for k, v in enumerate(pixels)}, int(label)


def conv(**settings):
    return ConvolutionalFeatures(pool_size=3, stride=4, padding=3, **settings)


SMALL = conv(normalize=False, image_shape=(8, 8))
SQUARE = {"image_shape": (8, 8)}
IMAGE_MODELS = {
    "small": lambda: SMALL,
    "general": lambda: conv(
        before_pooling=1.0, after_pooling=1.0, channels="joint", pooling="gaussian", **SQUARE
    ),
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
    "in a pipeline": lambda: (
        ImagePreprocessing(scale=16.0, **SQUARE)
        | SMALL
        | HiddenLayer(30)
        | LeastSquaresClassifier(ridge=1.0)
    ),
}


@each_of(IMAGE_MODELS)
def test_images_of_digits(name, step, monkeypatch):
    """The whole suite, on digits in place of the streams that river would choose."""
    n_images = 60 if step == 1 else 32
    monkeypatch.setattr(
        checks,
        "_yield_datasets",
        lambda model, scale=1: iter([list(digit_stream(n_images * scale))]),
    )
    model = IMAGE_MODELS[name]()
    ran = run_suite(model)
    if isinstance(model, ShallowConvClassifier):
        assert "check_learn_many_matches_learn_one" in ran
        assert "check_predict_proba_many_matches_predict_proba_one" in ran
    elif not isinstance(model, compose.Pipeline):
        assert "check_transform_many_matches_transform_one" in ran
        assert "check_shuffle_features_no_impact" in ran
