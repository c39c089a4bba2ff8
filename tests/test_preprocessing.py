"""Preprocessing of images against literal loops, and the forms in which images come and go."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power

from onlinels.images import ImagePreprocessing
from support.laws import assert_refused
from support.strategies import image_batches, preprocessing_settings

PIXELS = np.random.default_rng(0).integers(0, 256, (60, 8, 8)).astype(np.uint8)

PHOTOS = np.random.default_rng(1).integers(0, 256, (60, 6, 6, 3)).astype(np.uint8)


def literal(image, downsample=1, scale=None, grey_channel=False):
    """All steps but whitening on one image (height, width, n_channels), pixel by pixel."""
    height, width, n_channels = image.shape
    out = np.zeros((height // downsample, width // downsample, n_channels + grey_channel))
    for row, column, channel in np.ndindex(*out.shape[:2], n_channels):
        block = [
            float(image[downsample * row + r, downsample * column + c, channel])
            for r in range(downsample)
            for c in range(downsample)
        ]
        out[row, column, channel] = sum(block) / len(block) / (1.0 if scale is None else scale)
    if grey_channel:
        for row, column in np.ndindex(*out.shape[:2]):
            red, green, blue = out[row, column, :3]
            out[row, column, 3] = 0.299 * red + 0.587 * green + 0.114 * blue
    return out


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


def steps_of(settings):
    return {name: value for name, value in settings.items() if name != "dtype"}


@st.composite
def cases(draw):
    n_channels = draw(st.integers(1, 4))
    settings = draw(preprocessing_settings(n_channels))
    return draw(image_batches(n_channels, settings["downsample"])), settings


@given(cases())
def test_steps_are_the_literal_ones(case):
    images, settings = case
    model = ImagePreprocessing(**settings)
    out = model.transform_many(images)
    expected = np.stack([literal(image, **steps_of(settings)) for image in images])
    assert out.shape[1:] == expected.shape[1:] == model.output_shape(images.shape[1:])
    assert out.shape[1:] == model.check_images(images)
    assert out.dtype == (images.dtype if model.is_identity else settings["dtype"])
    eps = np.finfo(settings["dtype"]).eps
    assert np.allclose(out, expected, rtol=9 * eps)


@given(cases(), st.floats(0.1, 10.0), st.integers(0, 2**32 - 1))
def test_whitening_comes_last_and_is_fixed_by_the_sample(case, offset, seed):
    images, settings = case
    sample = np.random.default_rng(seed).integers(0, 256, (7, *images.shape[1:]))
    model = ImagePreprocessing.from_examples(sample, whitening=offset, **settings)
    before_whitening = [
        np.stack([literal(image, **steps_of(settings)) for image in batch])
        for batch in (sample, images)
    ]
    expected = literal_whitening(*before_whitening, offset)
    out = model.transform_many(images)
    assert out.dtype == settings["dtype"]
    assert np.allclose(out, expected, rtol=0.0, atol=rounding(images, settings, offset))


def test_a_whitening_of_few_images_amplifies_noise_less():
    sample = PIXELS.astype(float) / 255.0
    few = ImagePreprocessing.from_examples(sample[:20], whitening=0.001).transform_many(sample[20:])
    assert few.std() < 3.0
    many = np.tile(sample, (4, 1, 1))
    assert np.allclose(
        ImagePreprocessing.from_examples(many, whitening=0.001).transform_many(sample)[..., None],
        literal_whitening(many[..., None], sample[..., None], 0.001),
    )


@pytest.mark.parametrize("images", [PIXELS, PHOTOS, PHOTOS / 7.0], ids=["grey", "RGB", "floats"])
def test_with_nothing_to_do_images_pass_unchanged(images):
    model = ImagePreprocessing()
    out = model.transform_many(images)
    assert out.dtype == images.dtype
    assert np.array_equal(out, images)
    assert np.shares_memory(out, images)
    assert np.shares_memory(model.transform_one({"image": images[0]})["image"], images)


BATCHES = {
    "images": PIXELS,
    "channels": PIXELS[..., None],
    "flat": PIXELS.reshape(60, 64),
    "arrays with a channel": [{"image": image} for image in PIXELS[..., None]],
    "arrays": [{"image": image} for image in PIXELS],
    "dicts": [dict(enumerate(image.ravel().tolist())) for image in PIXELS],
    "pandas": pd.DataFrame(PIXELS.reshape(60, 64)),
    "polars": pl.DataFrame(PIXELS.reshape(60, 64), schema=[f"p{k}" for k in range(64)]),
}

STEPS = {"downsample": 2, "scale": 255.0, "image_shape": (8, 8)}


@pytest.mark.parametrize("form", BATCHES)
def test_images_come_out_in_the_form_they_came_in(form):
    batch = BATCHES[form]
    model = ImagePreprocessing.from_examples(batch, **STEPS)
    expected = ImagePreprocessing.from_examples(PIXELS, **STEPS).transform_many(PIXELS)
    out = model.transform_many(batch)
    if isinstance(batch, np.ndarray):
        # The axis of channels stays as it came; a flat row is of the shape that was set.
        assert out.shape == (60, 4, 4, *batch.shape[3:])
    if isinstance(batch, list):
        assert {np.shape(x.get("image")) for x in out} <= {(), (4, 4), (4, 4, 1)}
        assert [list(x) for x in out] == [list(model.transform_one(x)) for x in batch]
        out = np.array([x["image"] if "image" in x else list(x.values()) for x in out])
    elif not isinstance(batch, np.ndarray):
        assert type(out) is type(batch)
        assert list(out.columns) == [f"h{k}" for k in range(16)]
    assert np.allclose(np.asarray(out).reshape(60, 16), expected.reshape(60, 16))


def fixed_model(**settings):
    return ImagePreprocessing.from_examples(PHOTOS, **settings)


UNFIXED = r"whitening=0.01 is made from examples.*from_examples"
BAD_IMAGES = [
    (lambda: ImagePreprocessing(4), PHOTOS, "6 x 6 pixels, expected multiples of downsample=4"),
    (lambda: ImagePreprocessing(grey_channel=True), PIXELS, "1 channels, expected 3"),
    (lambda: fixed_model(), PHOTOS[..., :2], "2 channels, expected those of FixedZCA"),
    (lambda: fixed_model(image_shape=(6, 6, 3)), PHOTOS[:, :4, :4], "expected"),
    (lambda: ImagePreprocessing(), np.full((1, 8, 8), np.nan), "nan"),
    (lambda: ImagePreprocessing(2), np.full((1, 8, 8), 1e70), "as large as 1e.70"),
    (lambda: ImagePreprocessing(2, dtype="float32"), np.full((1, 8, 8), -1e20), "float32"),
    (lambda: ImagePreprocessing(scale=1e-30), np.full((1, 8, 8), 1e40), "at most 1e.30"),
    (lambda: ImagePreprocessing(whitening=0.01), PHOTOS, UNFIXED),
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


BAD_SETTINGS = [
    ({"downsample": 0}, ValueError, "downsample=0"),
    ({"scale": 0.0}, ValueError, "scale=0.0 must be from 1e-30"),
    ({"scale": "bytes"}, TypeError, "scale='bytes' must be a number"),
    ({"grey_channel": "yes"}, TypeError, "grey_channel='yes'"),
    ({"whitening": "ZCA"}, TypeError, "whitening='ZCA' must be a number"),
    ({"whitening": 0.0}, ValueError, "whitening=0.0 must be from 1e-20"),
    ({"image_shape": (8, 8), "downsample": 3}, ValueError, "8 x 8 pixels, expected multiples"),
    ({"image_shape": (8, 8), "grey_channel": True}, ValueError, "1 channels, expected 3"),
]


def test_bad_settings():
    for settings, error, message in BAD_SETTINGS:
        with pytest.raises(error, match=message):
            ImagePreprocessing(**settings)
        with pytest.raises(error, match=message):
            ImagePreprocessing.from_examples(PIXELS, **settings)
    with pytest.raises(ValueError, match="shape=None is not the shape of an image"):
        ImagePreprocessing().output_shape(None)
