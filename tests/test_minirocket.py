"""MiniRocketFeatures: the definition in loops, and the same features whatever the batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import MiniRocketFeatures
from onlinels.features import minirocket as module
from onlinels.features.minirocket import make_dilations, minirocket_kernels, quantiles
from support.strategies import examples

NORMAL = np.random.default_rng(0).normal(size=(20, 30, 3))


def literal_response(window, weights, dilation, padded):
    """Return the responses of one kernel to (length, n_channels), sample by sample."""
    reach = 4 * dilation
    line = np.pad(window.sum(axis=1), reach if padded else 0)
    places = range(len(line) - 2 * reach)
    return np.array([line[t : t + 2 * reach + 1 : dilation] @ weights for t in places])


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


make = MiniRocketFeatures.from_examples
MODEL, FIRST = make(NORMAL, n_features=84), np.ones((2, 3, 30))
HINT = r"X looks channels first, \(n, 3, 30\): pass np\.moveaxis\(X, 1, -1\)"
REFUSED = [
    (lambda: make(np.ones((2, 8))), "Windows have 8 samples, expected at least 9"),
    (lambda: make(np.full((2, 20), np.nan)), "nan"),
    (lambda: make(np.full((2, 20), 1e100)), "as large as 1e.100, expected at most 1e.60"),
    (lambda: make(np.ones(20)), "expected .length,. or"),
    (lambda: make([{0: 1.0}]), "Set window_shape"),
    (lambda: make(NORMAL, n_features=83), "n_features=83 must be at least 84"),
    (lambda: make(FIRST), HINT),
    (lambda: MODEL.transform_many(FIRST), HINT),
    (lambda: MODEL.transform_many(NORMAL[..., :2]), r"A window has shape \(30, 2\), .*\(30, 3\)"),
    (lambda: MODEL.transform_one(NORMAL[0, 1:]), r"A window has shape \(29, 3\), .* \(30, 3\)"),
    (
        lambda: MiniRocketFeatures().transform_many(NORMAL),
        r"Use MiniRocketFeatures.from_examples",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_windows_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
