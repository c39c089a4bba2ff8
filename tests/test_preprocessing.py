"""ImagePreprocessing: its steps in plain numpy, and what it refuses."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power

from onlinels.images import ImagePreprocessing
from support.laws import assert_refused
from support.strategies import image_batches, preprocessing_settings

PHOTOS = np.random.default_rng(1).integers(0, 256, (60, 6, 6, 3)).astype(np.uint8)
GREY = np.random.default_rng(0).integers(0, 256, (60, 8, 8)).astype(np.uint8)


def literal(images, downsample=1, scale=None, grey_channel=False):
    """All steps but whitening on images (n, height, width, n_channels)."""
    n, height, _, n_channels = images.shape
    blocks = images.reshape(n, height // downsample, downsample, -1, downsample, n_channels)
    out = blocks.mean(axis=(2, 4)) / (scale or 1.0)
    return np.concatenate([out, out @ [[0.299], [0.587], [0.114]]], 3) if grey_channel else out


def literal_whitening(sample, images, offset):
    """Whiten images by the covariance of a sample, channel by channel."""
    whitened = np.empty(images.shape)
    for channel in range(images.shape[3]):
        rows = sample[..., channel].reshape(len(sample), -1)
        covariance, n_pixels = np.atleast_2d(np.cov(rows.T, bias=True)), rows.shape[1]
        # Of fewer than 3 images per pixel, with a share of the mean variance.
        few = max(0.0, 3.0 * n_pixels / len(rows) - 1.0) / 10.0
        added = offset + few * np.trace(covariance) / n_pixels
        covariance += added * np.eye(n_pixels)
        root = fractional_matrix_power(covariance, -0.5).real
        centred = images[..., channel].reshape(len(images), -1) - rows.mean(axis=0)
        whitened[..., channel] = (centred @ root).reshape(images.shape[:3])
    return whitened


def rounding(images, settings, offset):
    """Return how far whitened pixels may be off: each sums p centred ones times up to 1/sqrt(c).

    Eigenvalues have rounding errors relative to the largest, beside which the offset is small.
    """
    n_pixels, scale = images[0].size, settings["scale"] or 1.0
    size = 255.0 / scale
    eps = np.finfo(settings["dtype"]).eps + np.finfo(float).eps * n_pixels * size**2 / offset
    return 10 * eps * size * n_pixels / np.sqrt(offset)


@st.composite
def cases(draw):
    n_channels = draw(st.integers(1, 4))
    settings = draw(preprocessing_settings(n_channels))
    return draw(image_batches(n_channels, settings["downsample"])), settings


@given(cases(), st.floats(0.1, 10.0), st.sampled_from([7, 60]), st.integers(0, 2**32 - 1))
def test_steps_are_the_literal_ones(case, offset, n_sample, seed):
    """Whitening comes last and is fixed by a sample, of a few images or of many for each pixel."""
    images, settings = case
    sample = np.random.default_rng(seed).integers(0, 256, (n_sample, *images.shape[1:]))
    model = ImagePreprocessing(**settings)
    steps = {name: value for name, value in settings.items() if name != "dtype"}
    known, expected = (literal(X.astype(float), **steps) for X in (sample, images))
    out = model.transform_many(images)
    assert out.shape[1:] == expected.shape[1:] == model.output_shape(images.shape[1:])
    assert out.shape[1:] == model.check_images(images)
    assert out.dtype == (images.dtype if model.is_identity else settings["dtype"])
    np.testing.assert_allclose(out, expected, rtol=9 * np.finfo(settings["dtype"]).eps)
    model = ImagePreprocessing.from_examples(sample, whitening=offset, **settings)
    out, expected = model.transform_many(images), literal_whitening(known, expected, offset)
    assert out.dtype == settings["dtype"]
    allowed = rounding(images, settings, offset)
    np.testing.assert_allclose(out, expected, rtol=0.0, atol=allowed)


@pytest.mark.parametrize("images", [GREY, PHOTOS, PHOTOS / 7.0], ids=["grey", "RGB", "floats"])
def test_with_nothing_to_do_images_pass_unchanged(images):
    model = ImagePreprocessing()
    out = model.transform_many(images)
    assert out.dtype == images.dtype
    assert np.array_equal(out, images)
    assert np.shares_memory(out, images)
    assert np.shares_memory(model.transform_one({"image": images[0]})["image"], images)


FIXED = functools.partial(ImagePreprocessing.from_examples, PHOTOS)
BAD_IMAGES = [
    (lambda: ImagePreprocessing(4), PHOTOS, "6 x 6 pixels, expected multiples of downsample=4"),
    (lambda: ImagePreprocessing(grey_channel=True), GREY, "1 channels, expected 3"),
    (FIXED, PHOTOS[..., :2], "2 channels, expected those of FixedZCA"),
    (lambda: FIXED(image_shape=(6, 6, 3)), PHOTOS[:, :4, :4], "expected"),
    (lambda: ImagePreprocessing(2), np.full((1, 8, 8), 1e70), "as large as 1e.70"),
    (lambda: ImagePreprocessing(2, dtype="float32"), np.full((1, 8, 8), -1e20), "float32"),
    (lambda: ImagePreprocessing(scale=1e-30), np.full((1, 8, 8), 1e40), "at most 1e.30"),
    (lambda: ImagePreprocessing(whitening=0.01), PHOTOS, r"is made from examples.*from_examples"),
]


@pytest.mark.parametrize(("make", "X", "message"), BAD_IMAGES)
def test_bad_images_change_nothing(make, X, message):
    model = make()
    assert_refused(lambda: model.transform_many(X), model, message)
    assert_refused(lambda: model.transform_one({"image": X[0]}), model, message)
    if model.whitening is None:
        settings = model._get_params() | {"whitening": 0.001}
        with pytest.raises(ValueError, match=message):
            ImagePreprocessing.from_examples(X, **settings)


def test_a_shape_that_does_not_fit_the_steps():
    for settings, message in (
        ({"downsample": 3}, "8 x 8 pixels, expected multiples"),
        ({"grey_channel": True}, "1 channels, expected 3"),
    ):
        with pytest.raises(ValueError, match=message):
            ImagePreprocessing(**settings, image_shape=(8, 8))
    with pytest.raises(ValueError, match="shape=None is not the shape of an image"):
        ImagePreprocessing().output_shape(None)
