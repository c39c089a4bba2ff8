"""Stage 1: windows, nonlinearities, normalised contrast, and how large values may be."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import ConvolutionalFeatures, Power, TwoSidedRectifier, WindowFeatures, lp_pooling
from support.stage1_reference import is_nothing_but_rounding, literal_features
from support.strategies import convolution_settings, nonlinearities, powers

VALUES = np.random.default_rng(0).normal(size=(5, 12, 2))
IMAGES = np.random.default_rng(0).random((4, 9, 9))


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


@given(st.floats(0.1, 20.0))
def test_lp_pooling_averages_as_a_norm_does(exponent):
    before, after = lp_pooling(exponent)
    values = np.array([-3.0, 0.5, 2.0, 0.0])
    (powered,) = before.apply(values.copy())
    (pooled,) = after.apply(powered.mean(keepdims=True))
    np.testing.assert_allclose(
        pooled * 4 ** (1 / exponent), (np.abs(values) ** exponent).sum() ** (1 / exponent)
    )


@given(
    nonlinearities,
    st.sampled_from([0.25, 0.5, 1.0, 3.0]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([None, 1e-6, 10.0]),
    st.sampled_from(["each", "joint"]),
    st.floats(-3.0, 3.0),
)
def test_allowed_pixels_stay_in_range(before, after, dtype, contrast_offset, channels, log_size):
    """The largest pixels that are let in give finite features; larger ones raise."""
    random = np.random.default_rng(0)
    model = ConvolutionalFeatures(
        10.0**log_size * random.normal(size=(2, 3, 3)),
        pool_size=3,
        before_pooling=before,
        after_pooling=Power(after),
        channels=channels,
        contrast_offset=contrast_offset,
        dtype=dtype,
    )
    images = random.choice([-1.0, 1.0], size=(2, 6, 6, 2))
    try:
        model.check_images(images * 1e149)
    except ValueError as error:
        allowed = float(str(error).split("expected at most ")[1].split(" ")[0])
        if not allowed:
            return  # The filters are too large already.
    features = model.transform_many(images * allowed * 0.999)
    assert np.isfinite(features).all()
    with pytest.raises(ValueError, match=r"as large as .* Rescale"):
        model.transform_many(images * allowed * 1.001)


@given(
    nonlinearities,
    powers,
    st.sampled_from(["each", "joint"]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([None, 1e-12, 1.0]),
    st.floats(0.01, 300.0),
)
def test_even_images_give_zeros(before, after, channels, dtype, contrast_offset, brightness):
    """Rounding errors pass for nothing, whatever is made of them; a step in brightness does not."""
    filters = np.random.default_rng(1).normal(size=(3, 5, 5))
    filters -= filters.mean(axis=(1, 2), keepdims=True)
    model = ConvolutionalFeatures(
        filters,
        pool_size=3,
        before_pooling=before,
        after_pooling=after,
        channels=channels,
        contrast_offset=contrast_offset,
        dtype=dtype,
    )
    images = np.full((2, 9, 9, 2), brightness)
    # Powers of powers leave float32 soon.
    assume(before.exponent * after.exponent < 6.0)
    assert not model.transform_many(images).any()
    images[1, 4:] *= 3.0
    if not isinstance(before, TwoSidedRectifier):
        features = model.transform_many(images).reshape(2, -1, 16)
        assert not features[0].any()
        np.testing.assert_allclose(features[1].sum(axis=-1), 1.0, rtol=1e-4)


@given(convolution_settings(), st.floats(1e-3, 1e3))
def test_faint_contrast_counts_in_full(settings, offset):
    """An image of little contrast beside its offset has small maps, which normalisation sees."""
    settings |= {"normalize": True, "before_pooling": Power(1.0), "contrast_offset": offset}
    settings |= {"dtype": "float32"}
    image = np.random.default_rng(2).random((1, 8, 8)) * 1e-6 * offset**0.5
    filters = np.random.default_rng(3).normal(size=(4, 3, 3))
    features = ConvolutionalFeatures(filters, **settings).transform_many(image)
    np.testing.assert_allclose(features.reshape(4, -1).sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "brightness", "atol"), [("float64", 1e9, 1e-6), ("float32", 1e5, 1e-3)]
)
def test_contrast_does_not_depend_on_brightness_or_unit(dtype, brightness, atol):
    """The square of 1e5 is rounded by 1000 in float32: beside it box sums would see no steps."""
    images = np.random.default_rng(4).integers(0, 4, (3, 10, 10, 3)) / 64.0
    filters = np.random.default_rng(5).normal(size=(4, 3, 3, 3))
    settings = {"channels": "joint", "before_pooling": TwoSidedRectifier(0.1), "dtype": dtype}
    features, far, small = (
        ConvolutionalFeatures(
            filters, contrast_offset=1e-4 * unit**2, normalize=False, **settings
        ).transform_many(images * unit + offset)
        for unit, offset in ((1.0, 0.0), (1.0, brightness), (2.0**-8, 5.0))
    )
    np.testing.assert_allclose(far, features, atol=atol)
    np.testing.assert_allclose(small, features, atol=atol)


ROWS = np.ones((2, 5))
BAD_WINDOWS = [
    (ROWS, ValueError, "Windows of 5 values leave no pooled position"),
    (np.ones(30), ValueError, r"A window has shape \(\), expected \(length,\) or \(length, n_chan"),
    (np.full((1, 30), 1e140), ValueError, "A window holds values as large as 1e.140"),
    ([{"window": np.ones(30)}, {"window": np.ones(31)}], ValueError, "X holds windows of shapes"),
    ([{"window": np.ones(30), "mask": 1.0}], ValueError, 'one window. Pass {"window": array}'),
    ([{0: 1.0}], ValueError, "Windows came as named values.*Set window_shape"),
    (list(VALUES), TypeError, r"np\.stack"),
]
BAD_IMAGES = [
    (list(IMAGES), TypeError, r"np\.stack"),
    (IMAGES * np.nan, ValueError, "or leave out"),
    (IMAGES * np.inf, ValueError, "rescale large"),
    (IMAGES * 1j, TypeError, "their magnitude"),
    (IMAGES.astype(str), TypeError, "Convert"),
    ([{"image": IMAGES[0].tolist()}], TypeError, r"np\.asarray"),
]
BAD_SETTINGS = [
    ({"filters": "rocket"}, ValueError, "filters='rocket' is not known"),
    ({"filters": np.ones(9)}, ValueError, "filters has shape"),
    ({"filters": None}, TypeError, "filters"),
    ({"filters": [[1.0, 2.0], [1.0]]}, ValueError, "filters holds lists of different lengths"),
    ({"normalize": "maps"}, ValueError, "normalize='maps' .* Pass True, False, 'map' or"),
    ({"window_shape": (3, 4, 5)}, ValueError, "is no window shape. Pass .length,. or"),
    ({"after_pooling": 0.25}, TypeError, "must be a Power"),
    ({"after_pooling": TwoSidedRectifier(0.0)}, TypeError, "after_pooling=.*must be a Power"),
    ({"before_pooling": 2.0}, TypeError, "must be a Power or TwoSidedRectifier"),
    ({"channels": "all"}, ValueError, "channels='all' is not known"),
    ({"contrast_offset": 0.0}, ValueError, "contrast_offset=0.0"),
    ({"contrast_offset": 1e-50, "dtype": "float32"}, ValueError, "=1e-50 must be from 1.17"),
]
BAD_NUMBERS = [
    (Power, 0.0, ValueError, "exponent=0.0 must be finite and above 0"),
    (Power, math.nan, ValueError, "exponent=nan"),
    (Power, "2", TypeError, "exponent='2' must be a number"),
    (TwoSidedRectifier, -0.5, ValueError, "threshold=-0.5 must be finite and at least"),
    (TwoSidedRectifier, None, TypeError, "threshold=None"),
    (lp_pooling, 0, ValueError, "exponent=0"),
]
TOO_LARGE = {"before_pooling": Power(8.0), "contrast_offset": 1.0, "dtype": "float32"}


def refused(error, message, call, *values, **settings):
    with pytest.raises(error, match=message) as raised:
        call(*values, **settings)
    # A remedy for images, not one for features.
    assert "Scaler" not in str(raised.value)
    assert "Imputer" not in str(raised.value)


def test_bad_calls():
    for windows, error, message in BAD_WINDOWS:
        refused(error, message, WindowFeatures().transform_many, windows)
    for images, error, message in BAD_IMAGES:
        refused(error, message, ConvolutionalFeatures().transform_many, images)
    for settings, error, message in BAD_SETTINGS:
        refused(error, message, WindowFeatures, **settings)
    for kind, value, error, message in BAD_NUMBERS:
        refused(error, message, kind, value)
    for shape in (50, None, (0, 3), [9, 9]):
        for kind in (WindowFeatures, ConvolutionalFeatures):
            refused(ValueError, r"^shape=.* is no .* shape\. Pass \(", kind().n_features, shape)
    of_two_channels = WindowFeatures(np.ones((1, 3, 2)))
    message = "Windows have 3 channels, expected 2"
    refused(ValueError, message, of_two_channels.transform_many, np.ones((1, 8, 3)))
    too_large = ConvolutionalFeatures(np.full((1, 3, 3), 1e10), **TOO_LARGE)
    message = r"at most 0 for dtype='float32', Power.* and the filters"
    refused(ValueError, message, too_large.transform_many, IMAGES)


def test_windows_whose_summed_channels_leave_the_precision_are_refused():
    model = WindowFeatures(channels="joint", normalize=False, dtype="float32")
    windows = np.tile(np.repeat([-4e15, 8e15, 0.0], [6, 3, 3])[None, :, None], (1, 1, 1000))
    with pytest.raises(ValueError, match=r"values as large as 8e\+15, expected at most"):
        model.transform_many(windows)
    assert np.isfinite(model.transform_many(windows / 1000.0)).all()
