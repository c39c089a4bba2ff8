"""Powers, rectifiers and normalised contrast, and how large pixels may be for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import ConvolutionalFeatures, Power, TwoSidedRectifier, lp_pooling
from onlinels.features.preprocessing import normalize_contrast
from strategies import convolution_settings, nonlinearities, powers

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
        (lambda: Power(math.nan), ValueError, "exponent=nan"),
        (lambda: Power("2"), TypeError, "exponent='2' must be a number"),
        (lambda: TwoSidedRectifier(-0.5), ValueError, "threshold=-0.5 must be finite and at least"),
        (lambda: TwoSidedRectifier(None), TypeError, "threshold=None"),
        (lambda: lp_pooling(0), ValueError, "exponent=0"),
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
        allowed = float(str(error).split("expected at most ")[1].split(" ")[0])
        if not allowed:
            return  # The filters are too large already.
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
    with pytest.raises(ValueError, match=r"at most 0 for dtype='float32', Power.* and the filters"):
        model.transform_many(np.ones((1, 6, 6)))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"before_pooling": 2.0}, TypeError, "must be a Power or TwoSidedRectifier"),
        ({"after_pooling": TwoSidedRectifier(0.0)}, TypeError, "after_pooling=.*must be a Power"),
        ({"channels": "all"}, ValueError, "channels='all' is not known"),
        ({"contrast_offset": 0.0}, ValueError, "contrast_offset=0.0"),
        (
            {"contrast_offset": 1e-50, "dtype": "float32"},
            ValueError,
            "contrast_offset=1e-50 must be from 1.17",
        ),
    ],
)
def test_bad_settings_of_features(settings, error, message):
    with pytest.raises(error, match=message):
        ConvolutionalFeatures(**settings)


@pytest.mark.parametrize("brightness", [1e3, 1e5])
def test_float32_sees_faint_contrast_beside_brightness(brightness):
    """The square of 1e5 is rounded by 1000 in float32: beside it box sums would see no steps."""
    steps = np.random.default_rng(0).integers(0, 4, (50, 36)) / 64
    patches = (brightness + steps).astype(np.float32)
    np.testing.assert_array_equal(patches.astype(np.float64) - brightness, steps)
    found = normalize_contrast(patches, 1e-8)
    np.testing.assert_allclose(found, normalize_contrast(steps, 1e-8), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.var(axis=1), 1.0, rtol=1e-3)


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


def test_contrast_does_not_depend_on_brightness_or_unit():
    images = np.random.default_rng(4).integers(0, 256, (3, 10, 10, 3))
    settings = {"channels": "joint", "before_pooling": TwoSidedRectifier(0.1), "normalize": False}
    filters = np.random.default_rng(5).normal(size=(4, 3, 3, 3))
    features = ConvolutionalFeatures(filters, contrast_offset=10.0, **settings)
    scaled = ConvolutionalFeatures(filters, contrast_offset=10.0 / 2.0**16, **settings)
    np.testing.assert_allclose(
        scaled.transform_many(images / 2.0**8 + 5.0), features.transform_many(images), atol=1e-6
    )
