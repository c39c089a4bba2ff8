"""MiniRocketFeatures: the definition in loops, and the same features whatever the batch."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import checks

from onlinels import LeastSquaresClassifier, MiniRocketFeatures
from onlinels.features import minirocket as module
from onlinels.features.minirocket import make_dilations, minirocket_kernels, quantiles
from support.laws import settings_refused
from support.strategies import examples

NORMAL = np.random.default_rng(0).normal(size=(20, 30, 3))


def literal_response(window, weights, dilation, padded):
    """Return the responses of one kernel to (length, n_channels), weight by weight."""
    length, reach = len(window), 4 * dilation
    first, last = (0, length) if padded else (reach, length - reach)
    found = []
    for t in range(first, last):
        places = [t + (j - 4) * dilation for j in range(9)]
        inside = [(j, place) for j, place in enumerate(places) if 0 <= place < length]
        found.append(sum(weights[j] * window[place].sum() for j, place in inside))
    return np.array(found)


def literal_kernels(kernels):
    """Yield what each kernel is: channels, weights, dilation, whether it is padded, and biases."""
    weights, feature = minirocket_kernels(), 0
    for number, dilation in enumerate(kernels.dilations):
        for kernel in range(84):
            some = slice(feature, feature + kernels.n_biases[number])
            feature, padded = some.stop, (number + kernel) % 2 == 0
            yield kernels.channels[number, kernel], weights[kernel], dilation, padded, some
    assert feature == len(kernels.biases)


@st.composite
def cases(draw):
    length, n_channels = draw(st.integers(9, 40)), draw(st.sampled_from([1, 1, 2, 3, 6, 12]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    windows = generator.normal(size=(draw(st.integers(1, 4)), length, n_channels))
    if draw(st.booleans()):
        windows = np.round(4 * windows)
    settings = {
        "n_features": draw(st.integers(84, 84 * 8)),
        "seed": draw(st.integers(0, 1000)),
        "dtype": draw(st.sampled_from(["float32", "float64"])),
    }
    return windows, settings


@examples(10)
@given(cases())
def test_features_and_biases_are_those_of_the_definition(case):
    """Shares of responses that are over biases, which are quantiles of responses to an example."""
    windows, settings = case
    model = MiniRocketFeatures.from_examples(windows, **settings)
    kernels, found = model.kernels, model.transform_many(windows)
    assert found.dtype == settings["dtype"]
    assert found.shape == (len(windows), settings["n_features"] // 84 * 84)
    levels, n_sure, close = quantiles(len(kernels.biases)), 0, {"float32": 1e-3, "float64": 1e-9}
    for channels, weights, dilation, padded, some in literal_kernels(kernels):
        biases, distances = kernels.biases[some], []
        for window, features in zip(windows[:, :, channels], found[:, some], strict=True):
            whole = literal_response(window, weights, dilation, True)
            off = np.abs(np.quantile(whole, levels[some]) - biases)
            distances.append(off.max(initial=0.0))
            responses = whole if padded else literal_response(window, weights, dilation, False)
            over = responses[:, None] - biases
            # Where a response is as large as its bias but for rounding, rounding decides.
            sure = np.abs(over).min(axis=0) > close[settings["dtype"]]
            np.testing.assert_allclose(features[sure], (over > 0.0).mean(axis=0)[sure], rtol=1e-6)
            n_sure += sure.sum()
        assert min(distances) < close[settings["dtype"]]
    assert n_sure


@given(st.integers(9, 3000), st.integers(84, 12_000), st.integers(1, 40))
def test_dilations_fit_the_window_and_share_the_features(length, n_features, most):
    dilations, n_biases = make_dilations(length, n_features, most)
    assert n_biases.sum() == n_features // 84
    assert n_biases.min() >= 1
    assert len(dilations) <= most
    assert dilations[0] == 1
    assert (np.diff(dilations) > 0).all()
    assert 8 * dilations[-1] <= length - 1


def test_published_numbers_and_channels():
    """9,996 features; the first of a sequence of fractions of the golden ratio."""
    model = MiniRocketFeatures.from_examples(NORMAL)
    assert model.transform_many(NORMAL).shape == (20, 9996)
    np.testing.assert_allclose(quantiles(3), [0.618034, 0.236068, 0.854102], atol=1e-6)
    windows = np.random.default_rng(0).normal(size=(2, 30, 12))
    channels = MiniRocketFeatures.from_examples(windows).kernels.channels
    assert set(channels.sum(axis=2).ravel()) == set(range(1, 10))
    assert channels.any(axis=(0, 1)).all()
    assert MiniRocketFeatures.from_examples(windows[:, :, :1]).kernels.channels.all()
    # A response as large as its bias is not over it.
    model = MiniRocketFeatures.from_examples(np.zeros((2, 20)), n_features=300)
    assert not model.kernels.biases.any()
    assert not model.transform_many(np.zeros((2, 20))).any()


@pytest.mark.parametrize(
    ("length", "dtype"), [(9, "float32"), (30, "float64"), (300, "float32"), (700, "float64")]
)
def test_a_window_has_the_same_features_alone_and_among_others(length, dtype, monkeypatch):
    windows = np.random.default_rng(0).normal(size=(10, length, 2))
    model = MiniRocketFeatures.from_examples(windows, n_features=500, dtype=dtype)
    features = model.transform_many(windows)
    assert 0.0 <= features.min() < 0.1
    assert 0.9 < features.max() <= 1.0
    alone = [model.transform_one({"window": window})["h"] for window in windows]
    np.testing.assert_array_equal(np.stack(alone), features)
    monkeypatch.setattr(module, "TILE_RESPONSES", 1)
    monkeypatch.setattr(module, "TILE_COMPARISONS", 1)
    np.testing.assert_array_equal(model.transform_many(windows), features)


def test_river_finds_nothing(monkeypatch):
    """Values are named by time and channel: twelve times of two channels."""
    generator = np.random.default_rng(0)
    windows = generator.normal(size=(40, 12, 2)) + np.arange(40)[:, None, None] % 2
    rows = [{f"v_{t}_{c}": float(w[t, c]) for t in range(12) for c in range(2)} for w in windows]
    stream = [(x, k % 2) for k, x in enumerate(rows)]
    monkeypatch.setattr(checks, "_yield_datasets", lambda model, scale=1: iter([stream]))
    features = MiniRocketFeatures.from_examples(windows, n_features=84, window_shape=(12, 2))
    for model in (features, features | LeastSquaresClassifier(ridge=1.0)):
        assert not model._unit_test_skips()
        for check in checks.yield_checks(model):
            random.seed(0)
            check(model.clone())


test_bad_examples = settings_refused(
    MiniRocketFeatures.from_examples,
    [
        ({"X": np.ones((2, 8))}, ValueError, "Windows have 8 samples, expected at least 9"),
        ({"X": np.full((2, 20), np.nan)}, ValueError, "nan"),
        ({"X": np.full((2, 20), 1e100)}, ValueError, "as large as 1e.100, expected at most 1e.60"),
        ({"X": np.ones(20)}, ValueError, "expected .length,. or"),
        ({"X": [{0: 1.0}]}, ValueError, "Set window_shape"),
    ],
)


test_bad_settings = settings_refused(
    MiniRocketFeatures,
    [
        ({"n_features": 83}, ValueError, "n_features=83 must be at least 84"),
        ({"n_features": 1e4}, TypeError, "n_features"),
        ({"window_shape": (3, 4, 5)}, ValueError, "is not the shape of a window"),
        ({"dtype": "float16"}, ValueError, "dtype='float16'"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"kernels": "minirocket"}, TypeError, "kernels is of type str"),
    ],
)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match=r"Use MiniRocketFeatures.from_examples\(X, ...\)"):
        MiniRocketFeatures().transform_many(NORMAL)
    model = MiniRocketFeatures.from_examples(NORMAL, n_features=84)
    for shape in ((31, 3), (30, 2)):
        message = rf"A window has shape \({shape[0]}, {shape[1]}\), expected \(30, 3\)"
        with pytest.raises(ValueError, match=message):
            model.transform_many(np.ones((1, *shape)))
        with pytest.raises(ValueError, match=message):
            model.transform_one({"window": np.ones(shape)})
    first = r"X looks channels first, \(n, 3, 30\): pass np\.moveaxis\(X, 1, -1\)"
    for call in (model.transform_many, MiniRocketFeatures.from_examples):
        with pytest.raises(ValueError, match=first):
            call(np.ones((2, 3, 30)))
