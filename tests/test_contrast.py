"""Local contrast: exact where patches are even, or bright beside their contrast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import ConvolutionalFeatures
from onlinels.features.convolution import Power, TwoSidedRectifier
from onlinels.features.preprocessing import normalize_contrast
from strategies import convolution_settings, nonlinearities, powers


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(1e-6, 1e6), st.floats(-1e4, 1e4))
def test_patches_have_mean_0_and_the_variance_of_the_definition(seed, size, offset, brightness):
    patches = np.random.default_rng(seed).normal(size=(3, 2, size)) + brightness
    before = patches.copy()
    expected = patches - patches.mean(axis=-1, keepdims=True)
    expected /= np.sqrt(patches.var(axis=-1, keepdims=True) + offset)
    np.testing.assert_allclose(
        normalize_contrast(patches, offset), expected, rtol=1e-9, atol=1e-9 + 1e-12 / offset**0.5
    )
    np.testing.assert_array_equal(patches, before)


@given(
    st.sampled_from([np.float32, np.float64]),
    st.floats(-1e10, 1e10, width=32),
    st.integers(1, 300),
    st.sampled_from([1e-30, 1e-6, 10.0]),
)
def test_even_patches_are_exactly_0(dtype, brightness, size, offset):
    assert not normalize_contrast(np.full((2, size), brightness, dtype=dtype), offset).any()


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
