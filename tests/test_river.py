"""River's own suite, with nothing skipped: what works in river works with these estimators.

The default run has one setting of every class, and a fourth of the rows; the long run has all, and
each behind a scaler.
"""

import random

import numpy as np
import pytest
from river import checks, drift, preprocessing

from onlinels import (
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    MiniRocketFeatures,
    ShallowConvClassifier,
)
from onlinels.features.filters import Patches
from onlinels.features.preprocessing import ImagePreprocessing
from support import models
from support.digits_network import DIGITS
from support.slow import shorten_river_streams

LONG = "check_bounded_memory_growth"
"""What the long run checks: it takes as long as half of the others (see also test_memory)."""


def run_suite(model, left_out):
    """Run the checks of river's suite but one; none may be skipped by the model itself."""
    assert not model._unit_test_skips()
    for check in checks.yield_checks(model):
        random.seed(0)
        if check.__name__ != left_out:
            check(model.clone())


# A window needs readings of the same channels throughout.
MODELS = {kind: make for kind, make in models.MODELS.items() if kind != "windowed"} | {
    "less of the past": lambda: DriftAwareClassifier(
        LeastSquaresClassifier(1.0, "recursive"), drift.PageHinkley(), keep=0.1
    ),
    "drift behind hidden units": lambda: (
        HiddenLayer(10) | DriftAwareClassifier(LeastSquaresClassifier(1.0), drift.binary.HDDMA())
    ),
    "hidden": lambda: HiddenLayer(20),
    "hidden by default": HiddenLayer,
    "rectified": lambda: HiddenLayer(9, "bipolar", "relu", seed=3, bias=True),
}
FIRST = (
    "gram",
    "regressor",
    "several",
    "stream",
    "stream regressor",
    "calibrated",
    "drift",
    "hidden",
)


def each_of(table, first):
    """Return a parametrisation by the names of a table, of which the first run by default."""
    names = [pytest.param(name, 1, marks=pytest.mark.slow) for name in table]
    return pytest.mark.parametrize(("name", "step"), [*((name, 8) for name in first), *names])


# River leaves out names: the date then counts as 0.
@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@each_of(MODELS, FIRST)
def test_models(name, step, monkeypatch):
    shorten_river_streams(monkeypatch, step)
    run_suite(MODELS[name](), LONG)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
# River sorts labels to print them: those of priors are of several types.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "priors"])
def test_scaled_models_and_their_memory(name):
    # River's StandardScaler scales a whole batch by its end, a row by what came before it.
    scaled = preprocessing.StandardScaler() | MODELS[name]()
    run_suite(scaled, "check_learn_many_matches_learn_one")


def conv(**settings):
    return ConvolutionalFeatures(pool_size=3, stride=4, padding=3, **settings)


SQUARE = {"image_shape": (8, 8)}
SMALL = conv(normalize=False, **SQUARE)
IMAGE_MODELS = {
    "small": lambda: SMALL,
    "joint": lambda: conv(before_pooling=1.0, channels="joint", pooling="gaussian", **SQUARE),
    # All steps that grey digits allow, whitened by the first of them.
    "whitened": lambda: ImagePreprocessing.from_examples(
        DIGITS.data[:100], downsample=2, scale=16.0, whitening=0.01, **SQUARE
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
        warm_up=25,
        preprocessing=ImagePreprocessing(downsample=2, scale=16.0, whitening=0.1, **SQUARE),
    ),
    # The rows of a digit are the times of a window, whose last one is absent.
    "windows": lambda: MiniRocketFeatures.from_examples(
        np.pad(DIGITS.images[:40], [(0, 0), (0, 1), (0, 0)]), n_features=84, window_shape=(9, 8)
    ),
    "in a pipeline": lambda: SMALL | HiddenLayer(30) | LeastSquaresClassifier(ridge=1.0),
}


@pytest.mark.filterwarnings(
    "ignore:Most hidden units are 0", "ignore:The network hardly recognises"
)
@each_of(IMAGE_MODELS, ["small", "whitened", "windows", "difference, 25"])
def test_images_of_digits(name, step, monkeypatch):
    """The whole suite, on digits in place of the streams that river would choose."""

    def digits(model, scale=1):
        names = [f"pixel_{k // 8}_{k % 8}" for k in range(64)]
        rows = zip(DIGITS.data.tolist(), DIGITS.target.tolist(), strict=True)
        n_images = scale * (60 if step == 1 else 32)
        yield [(dict(zip(names, x, strict=True)), y) for x, y in rows][:n_images]

    monkeypatch.setattr(checks, "_yield_datasets", digits)
    run_suite(IMAGE_MODELS[name](), LONG)
