"""Stage 1 in one dimension: that of images of height 1, for windows in any form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from literal import is_nothing_but_rounding, literal_features
from onlinels import ConvolutionalFeatures, Power, TwoSidedRectifier, WindowFeatures
from strategies import convolution_settings

VALUES = np.random.default_rng(0).normal(size=(5, 12, 2))


@st.composite
def cases(draw):
    size = draw(st.integers(1, 5))
    length = draw(st.integers(size, 20))
    settings = draw(convolution_settings()) | {
        "pool_size": draw(st.integers(1, 5)),
        "stride": draw(st.integers(1, 4)),
        "padding": draw(st.integers(0, 3)),
    }
    full = length + 2 * settings["padding"] - size + settings["pool_size"]
    settings["drop_ring"] = draw(st.integers(0, (full - 1) // 2))
    n_channels = draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (3, size, n_channels) if draw(st.booleans()) else (3, size)
    windows = random.normal(size=(draw(st.integers(1, 5)), length, n_channels))
    return windows, random.normal(size=shape), settings


@given(cases())
def test_windows_are_images_of_height_1(case):
    windows, filters, settings = case
    assume(not is_nothing_but_rounding(filters, windows.shape[2], settings))
    model = WindowFeatures(filters, **settings)
    features = model.transform_many(windows)
    assert features.shape == (len(windows), model.n_features(windows.shape[1:]))
    bank = filters.reshape(3, 1, filters.shape[1], -1)
    expected = literal_features(windows[:, None], bank, model._stage())
    np.testing.assert_allclose(features, expected, rtol=1e-7, atol=1e-9)
    stage = model._stage()
    assert (stage.rows.pool_size, stage.rows.padding, stage.rows.drop_ring) == (1, 0, 0)


def test_one_channel_by_numpy_alone():
    window, kernel = VALUES[0, :, 0], np.array([1.0, -2.0, 0.5])
    model = WindowFeatures(kernel[None], pool_size=4, stride=2, normalize=False)
    pooled = np.convolve(np.convolve(window, kernel, "valid") ** 2, np.full(4, 0.25), "full")
    np.testing.assert_allclose(model.transform_many(window[None])[0], pooled[::2] ** 0.25)


@given(st.integers(9, 60), st.integers(1, 3), st.sampled_from(["each", "joint"]))
def test_the_number_of_features(length, n_channels, channels):
    model = WindowFeatures(before_pooling=TwoSidedRectifier(0.5), channels=channels)
    windows = np.ones((1, length, n_channels))
    maps = 2 * 84 * (n_channels if channels == "each" else 1)
    n_features = maps * -(-(length - 9 + 8) // 2)
    assert model.n_features((length, n_channels)) == n_features
    assert model.transform_many(windows).shape == (1, n_features)
    assert not model.transform_many(windows).any()


def model_of_values(**settings):
    return WindowFeatures(padding=3, window_shape=(12, 2), **settings)


WINDOW_FORMS = {
    "array": {"window": VALUES[0]},
    "flat array": {"window": VALUES[0].ravel()},
    "positions": dict(enumerate(VALUES[0].ravel())),
    "text": {f"sensor_{t}_{c}": VALUES[0, t, c] for t in range(12) for c in range(2)},
    "pairs": {(t, c): VALUES[0, t, c] for c in range(2) for t in reversed(range(12))},
}


@pytest.mark.parametrize("form", WINDOW_FORMS)
def test_one_window_in_any_form(form):
    expected = model_of_values().transform_many(VALUES)[0]
    out = model_of_values().transform_one(WINDOW_FORMS[form])
    if "array" in form:
        np.testing.assert_allclose(out["h"], expected, rtol=1e-12)
    else:
        assert list(out) == [f"h{k}" for k in range(len(expected))]
        np.testing.assert_allclose(list(out.values()), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 5)), "Windows of 5 values leave no pooled position"),
        (np.ones(30), r"A window has shape \(\), expected \(length,\) or \(length, n_channels\)"),
        (np.full((1, 30), 1e140), "A window holds values as large as 1e.140"),
        ([{"window": np.ones(30)}, {"window": np.ones(31)}], "X holds windows of shapes"),
        ([{"window": np.ones(30), "mask": 1.0}], 'expected one window. Pass {"window": array}'),
        ([{0: 1.0}], "Windows came as named values.*Set window_shape"),
    ],
)
def test_bad_windows(X, message):
    with pytest.raises(ValueError, match=message):
        WindowFeatures().transform_many(X)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"filters": "rocket"}, ValueError, "filters='rocket' is not known"),
        ({"filters": np.ones(9)}, ValueError, "filters has shape"),
        ({"filters": None}, TypeError, "filters"),
        ({"filters": [[1.0, 2.0], [1.0]]}, ValueError, "filters holds lists of different lengths"),
        ({"normalize": "maps"}, ValueError, "normalize='maps' .* Pass True, False, 'map' or"),
        ({"window_shape": (3, 4, 5)}, ValueError, "is no window shape. Pass .length,. or"),
        ({"after_pooling": 0.25}, TypeError, "must be a Power"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        WindowFeatures(**settings)


def test_channels_must_fit_the_filters():
    model = WindowFeatures(np.ones((1, 3, 2)), after_pooling=Power(1.0))
    with pytest.raises(ValueError, match="Windows have 3 channels, expected 2"):
        model.transform_many(np.ones((1, 8, 3)))


def test_windows_whose_summed_channels_leave_the_precision_are_refused():
    model = WindowFeatures(channels="joint", normalize=False, dtype="float32")
    windows = np.tile(np.repeat([-4e15, 8e15, 0.0], [6, 3, 3])[None, :, None], (1, 1, 1000))
    with pytest.raises(ValueError, match=r"values as large as 8e\+15, expected at most"):
        model.transform_many(windows)
    assert np.isfinite(model.transform_many(windows / 1000.0)).all()


@pytest.mark.parametrize("make", [WindowFeatures, ConvolutionalFeatures])
@pytest.mark.parametrize("shape", [50, None, (0, 3), [9, 9]])
def test_a_shape_that_is_none_is_named_as_it_was_passed(make, shape):
    with pytest.raises(ValueError, match=r"^shape=.* is no .* shape\. Pass \("):
        make().n_features(shape)
