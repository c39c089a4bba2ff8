"""Powers and rectifiers, and how large pixels may be for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import ConvolutionalFeatures
from onlinels.features.convolution import Power, TwoSidedRectifier, lp_pooling
from strategies import nonlinearities, powers

FLOATS = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20)


@given(FLOATS, powers, st.sampled_from([np.float32, np.float64]))
def test_powers(numbers, power, dtype):
    values = np.array(numbers, dtype=dtype)
    expected = [math.pow(abs(u), power.exponent) for u in values.tolist()]
    (found,) = power.apply(values)
    assert found is values
    precision = np.finfo(dtype)
    np.testing.assert_allclose(found, expected, rtol=50 * precision.eps, atol=precision.tiny)


@given(FLOATS, st.floats(0.0, 3.0), st.sampled_from([np.float32, np.float64]))
def test_the_two_sides_of_a_rectifier(numbers, threshold, dtype):
    values = np.array(numbers, dtype=dtype)
    above, below = TwoSidedRectifier(threshold).apply(values.copy())
    size = np.abs(values).max() + threshold
    rounding = {"rtol": 0, "atol": 2 * np.finfo(dtype).eps * size}
    np.testing.assert_allclose(
        above, [max(0.0, u - threshold) for u in values.tolist()], **rounding
    )
    np.testing.assert_allclose(
        below, [max(0.0, -u - threshold) for u in values.tolist()], **rounding
    )
    assert above.dtype == below.dtype == dtype


@given(st.floats(0.1, 20.0))
def test_lp_pooling_averages_as_a_norm_does(exponent):
    before, after = lp_pooling(exponent)
    values = np.array([-3.0, 0.5, 2.0, 0.0])
    (powered,) = before.apply(values.copy())
    (pooled,) = after.apply(powered.mean(keepdims=True))
    np.testing.assert_allclose(
        pooled * 4 ** (1 / exponent), (np.abs(values) ** exponent).sum() ** (1 / exponent)
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Power(0.0), ValueError, "exponent=0.0 must be finite and above 0"),
        (lambda: Power(-1), ValueError, "exponent=-1"),
        (lambda: Power(math.nan), ValueError, "exponent=nan"),
        (lambda: Power(math.inf), ValueError, "exponent=inf"),
        (lambda: Power("2"), TypeError, "exponent='2' must be a number"),
        (lambda: Power(True), TypeError, "exponent=True"),
        (lambda: TwoSidedRectifier(-0.5), ValueError, "threshold=-0.5 must be finite and at least"),
        (lambda: TwoSidedRectifier(math.inf), ValueError, "threshold=inf"),
        (lambda: TwoSidedRectifier(None), TypeError, "threshold=None"),
        (lambda: lp_pooling(0), ValueError, "exponent=0"),
        (lambda: lp_pooling("2"), TypeError, "exponent='2'"),
    ],
)
def test_bad_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()


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
        if "filters and their offsets" in str(error):
            return
        allowed = float(str(error).split("expected at most ")[1].split(" ")[0])
    features = model.transform_many(images * allowed * 0.999)
    assert np.isfinite(features).all()
    with pytest.raises(ValueError, match=r"as large as .* Rescale"):
        model.transform_many(images * allowed * 1.001)


def test_filters_too_large_for_a_power_are_named():
    model = ConvolutionalFeatures(
        np.full((1, 3, 3), 1e10),
        before_pooling=Power(8.0),
        contrast_offset=1.0,
        dtype="float32",
    )
    with pytest.raises(ValueError, match=r"filters and their offsets give responses .*Power"):
        model.transform_many(np.ones((1, 6, 6)))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"before_pooling": 2.0}, TypeError, "must be a Power or TwoSidedRectifier"),
        ({"before_pooling": "square"}, TypeError, "before_pooling='square'"),
        ({"after_pooling": TwoSidedRectifier(0.0)}, TypeError, "after_pooling=.*must be a Power"),
        ({"channels": "all"}, ValueError, "channels='all' is not known"),
        ({"contrast_offset": 0.0}, ValueError, "contrast_offset=0.0"),
        ({"contrast_offset": "10"}, TypeError, "contrast_offset='10'"),
        ({"contrast_offset": 1e-50, "dtype": "float32"}, ValueError, "is 0 in float32"),
        ({"seed": -1}, ValueError, "seed=-1"),
    ],
)
def test_bad_settings_of_features(settings, error, message):
    with pytest.raises(error, match=message):
        ConvolutionalFeatures(**settings)
