"""Stage 1, of images and of windows, against slow transcriptions of the paper, and its options.

Windows, nonlinearities, normalised contrast, and how large values may be, are tested, too.
"""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.signal import convolve2d
from scipy.stats import norm

from onlinels import (
    ConvolutionalFeatures,
    FilterBank,
    Patches,
    Power,
    TwoSidedRectifier,
    WindowFeatures,
    lp_pooling,
)
from onlinels.features import convolution
from onlinels.features.convolution import Axis, Convolution, convolve
from onlinels.features.filters import hand_designed
from support.laws import settings_refused
from support.stage1_reference import is_nothing_but_rounding, literal_features
from support.strategies import axes, convolution_settings, nonlinearities, powers

# -- images: the paper's Algorithm 1, and options -------------------------------------------------

PIXELS = np.random.default_rng(0).random((5, 8, 8))


def literal(image, filters, pool_size, stride, *, padding=0, drop_ring=0, normalize=True):
    """Algorithm 1 of the paper, one image (height, width, n_channels), step by step."""
    window = np.full((pool_size, pool_size), 1.0 / pool_size**2)
    responses = []
    for channel in range(image.shape[2]):
        for h in filters:
            x = np.pad(image[..., channel], padding)
            convolved = convolve2d(x, h if h.ndim == 2 else h[..., channel], mode="valid")
            rooted = convolve2d(convolved**2, window, mode="full") ** 0.25
            height, width = (length - drop_ring for length in rooted.shape)
            response = rooted[drop_ring:height:stride, drop_ring:width:stride].ravel()
            if normalize and response.sum():
                response = response / response.sum()
            responses.append(response)
    return np.concatenate(responses)


@st.composite
def cases(draw):
    size = draw(st.integers(1, 4))
    settings = {
        "pool_size": draw(st.integers(1, 5)),
        "stride": draw(st.integers(1, 4)),
        "padding": draw(st.integers(0, 3)),
        "normalize": draw(st.booleans()),
    }
    height, width = draw(st.integers(size, 9)), draw(st.integers(size, 9))
    shortest = min(height, width) + 2 * settings["padding"] - size + settings["pool_size"]
    settings["drop_ring"] = draw(st.integers(0, (shortest - 1) // 2))
    n_channels = draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images = random.normal(size=(draw(st.integers(1, 20)), height, width, n_channels))
    shape = (3, size, size, n_channels) if draw(st.booleans()) else (3, size, size)
    return images, random.normal(size=shape), settings


@given(cases())
def test_features_are_algorithm_1(case):
    images, filters, settings = case
    model = ConvolutionalFeatures(filters, **settings)
    features = model.transform_many(images)
    expected = np.stack([literal(image, filters, **settings) for image in images])
    assert features.shape == (len(images), model.n_features(images.shape[1:]))
    np.testing.assert_allclose(features, expected, rtol=1e-9, atol=1e-12)


@st.composite
def general_cases(draw):
    """Draw images, rectangular filters with offsets, and all of what stage 1 may do."""
    filter_shape = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    sizes = [draw(st.integers(size, 8)) for size in filter_shape]
    rows, columns = (draw(axes(*pair)) for pair in zip(sizes, filter_shape, strict=True))
    settings = draw(convolution_settings())
    normalize = settings.pop("normalize")
    settings["normalization"] = {True: "map", False: None}.get(normalize, normalize)
    stage = Convolution(rows, columns, **settings)
    n_channels = draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images = random.normal(size=(draw(st.integers(1, 5)), *sizes, n_channels))
    n_filters = draw(st.integers(1, 4))
    filters = random.normal(size=(n_filters, *filter_shape, draw(st.sampled_from([1, n_channels]))))
    offsets = random.normal(size=draw(st.sampled_from([(n_filters,), (n_filters, n_channels)])))
    return images, filters, offsets * draw(st.integers(0, 1)), stage


def faintest(stage):
    """What small powers make of rounding errors where a response is exactly 0."""
    return max(1e-9, 1e-14 ** (stage.before_pooling.exponent * stage.after_pooling.exponent))


@given(general_cases())
def test_features_are_the_general_form(case):
    images, filters, offsets, stage = case
    nothing = is_nothing_but_rounding(filters, images.shape[3], vars(stage))
    assume(offsets.any() or not nothing)
    by_channel = offsets if offsets.ndim == 2 else offsets[:, None]
    if stage.channels == "joint":
        by_channel = by_channel.sum(axis=1)
    expected = literal_features(images, filters, stage, by_channel)
    features = convolve(images, filters, stage, offsets)
    assert features.shape == expected.shape
    np.testing.assert_allclose(features, expected, rtol=1e-7, atol=faintest(stage))
    if not offsets.any():
        np.testing.assert_array_equal(convolve(images, filters, stage), features)


@given(cases(), convolution_settings())
def test_transformer_does_the_same(case, settings):
    images, filters, geometry = case
    assume(not is_nothing_but_rounding(filters, images.shape[3], settings))
    settings = geometry | settings
    model = ConvolutionalFeatures(filters, **settings)
    bank = filters if filters.ndim == 4 else filters[..., None]
    features = model.transform_many(images)
    assert features.shape == (len(images), model.n_features(images.shape[1:]))
    expected = literal_features(images, bank, model._stage())
    np.testing.assert_allclose(features, expected, rtol=1e-7, atol=faintest(model._stage()))


sizes = st.sampled_from([1, 300, 1 << 20])


@given(general_cases(), st.integers(1, 3), st.integers(1, 3), sizes, sizes)
def test_tiles_and_threads_make_no_difference(
    case, part_images, tile_filters, tile_bytes, small_product
):
    images, filters, offsets, stage = case
    whole = convolve(images, filters, stage, offsets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "MAX_IMAGES_PER_TASK", part_images)
        patch.setattr(convolution, "TILE_FILTERS", tile_filters)
        patch.setattr(convolution, "TILE_BYTES", tile_bytes)
        patch.setattr(convolution, "MAX_SINGLE_THREAD_PRODUCT", small_product)
        patch.setattr("onlinels.numerics._n_cores", lambda: 16)
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        tiled = convolve(images, filters, stage, offsets)
        patch.setenv("OPENBLAS_NUM_THREADS", "3")
        assert (convolve(images, filters, stage, offsets) == tiled).all()
    np.testing.assert_allclose(tiled, whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normalize", ["map", "image"])
@pytest.mark.parametrize(
    ("shape", "n_filters", "n_images"),
    [((32, 32, 4), 96, 33), ((64, 64, 3), 43, 3), ((9, 9), 5, 700)],
)
def test_threads_make_no_difference_to_the_last_bit(
    monkeypatch, normalize, shape, n_filters, n_images
):
    random = np.random.default_rng(1)
    filters = random.normal(size=(n_filters, 7, 7))
    model = ConvolutionalFeatures(
        filters, pool_size=7, stride=3, drop_ring=3, normalize=normalize, dtype="float32"
    )
    images = random.random((n_images, *shape), dtype=np.float32)
    monkeypatch.setattr("onlinels.numerics._n_cores", lambda: 16)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    alone = model.transform_many(images)
    for threads in "2357":
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
        assert (model.transform_many(images) == alone).all()


def test_offsets_of_channels_are_summed_by_every_member_of_a_combination():
    random = np.random.default_rng(0)
    filters, offsets = random.normal(size=(2, 2, 3, 3, 1)), np.array([[0.5], [1.0]])
    members = tuple(FilterBank(each, offsets) for each in filters)
    together = FilterBank(np.concatenate(filters), np.concatenate([offsets, offsets]))
    images, features = random.random((4, 8, 8, 3)), []
    for bank in (members, together):
        model = ConvolutionalFeatures(bank, channels="joint", pool_size=2, normalize=False)
        features.append(model.transform_many(images))
    np.testing.assert_allclose(*features, rtol=1e-12)


def test_more_filters_than_a_tile_holds():
    random = np.random.default_rng(3)
    images, filters = random.random((2, 9, 9, 3)), random.normal(size=(300, 4, 4, 3))
    model = ConvolutionalFeatures(
        filters, before_pooling=TwoSidedRectifier(0.3), after_pooling=Power(1.0), channels="joint"
    )
    expected = literal_features(images, filters, model._stage())
    np.testing.assert_allclose(model.transform_many(images), expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("channels", ["each", "joint"])
@pytest.mark.parametrize("contrast_offset", [None, 0.01])
@pytest.mark.parametrize(
    ("before", "after"),
    [lp_pooling(1), lp_pooling(3), (TwoSidedRectifier(0.5), Power(1.0))],
    ids=["mean of sizes", "cubes", "rectifier"],
)
def test_float32_in_general_form(channels, contrast_offset, before, after):
    random = np.random.default_rng(4)
    images, filters = random.random((3, 12, 12, 3)), random.normal(size=(5, 3, 3))
    settings = {"before_pooling": before, "after_pooling": after, "channels": channels}
    settings["contrast_offset"] = contrast_offset
    single, double = (
        ConvolutionalFeatures(filters, **settings, dtype=dtype).transform_many(images)
        for dtype in ("float32", "float64")
    )
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-6)


def test_default_is_the_paper_to_the_letter():
    image = np.random.default_rng(1).random((28, 28))
    features = ConvolutionalFeatures().transform_many(image[None])
    expected = literal(image[..., None], hand_designed(), pool_size=8, stride=2)
    np.testing.assert_allclose(features[0], expected, rtol=1e-9)
    assert features.shape[1] == 43 * 15**2  # ceil((28 - 7 + 8) / 2) = 15
    np.testing.assert_allclose(features.reshape(43, -1).sum(axis=1), 1.0)


def test_the_authors_ring_in_the_full_full_grid():
    """Positions W+5 ... J+Q-1-5, counted from 1: padding W-1 and a ring of W+4."""
    filters = hand_designed()[:4]
    image = np.random.default_rng(2).random((28, 28))
    model = ConvolutionalFeatures(filters, stride=3, padding=6, drop_ring=11, normalize=False)
    window, responses = np.full((8, 8), 1 / 64), model.transform_many(image[None])
    for h, response in zip(filters, responses.reshape(4, 7, 7), strict=True):
        grid = convolve2d(convolve2d(image, h, mode="full") ** 2, window, mode="full") ** 0.25
        assert grid.shape == (28 + 7 + 8 - 2,) * 2
        kept = slice(7 + 5 - 1, 28 + 8 - 1 - 5, 3)
        np.testing.assert_allclose(response, grid[kept, kept], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("brightness", [0.0, 0.3, 0.7, 1.0, 200.0])
def test_rounding_errors_are_not_normalised_to_full_strength(dtype, brightness):
    """Even brightness has no response to filters of zero mean but rounding errors."""
    image = np.full((1, 28, 28), brightness)
    assert not ConvolutionalFeatures(dtype=dtype).transform_many(image).any()
    if brightness <= 1.0 and dtype == "float64":
        assert ConvolutionalFeatures(normalize=False).transform_many(image).max() < 1e-7
    if brightness:
        image[0, 10, 10] *= 1.01
        assert ConvolutionalFeatures(dtype=dtype).transform_many(image).any()


def test_the_hand_designed_bank():
    bank = hand_designed()
    assert bank.shape == (43, 7, 7)
    np.testing.assert_allclose(bank.mean(axis=(1, 2)), 0.0, atol=1e-16)
    ink = bank - bank.min(axis=(1, 2), keepdims=True)
    # Upright and level bars are one pixel wide and seven long.
    assert (ink[0] > 0.5).sum() == 7
    np.testing.assert_allclose(ink[10], ink[0].T, atol=1e-12)
    # The first corner has two arms of 4 pixels that share the middle one.
    assert (ink[20] > 0.5).sum() == 7
    np.testing.assert_allclose(ink[40:].sum(axis=(1, 2)), [9, 16, 25])
    np.testing.assert_allclose(ink[40:], ink[40:, ::-1, ::-1])
    # No two filters are alike.
    flat = bank.reshape(43, -1) / np.linalg.norm(bank.reshape(43, -1), axis=1, keepdims=True)
    assert (flat @ flat.T - np.eye(43)).max() < 0.99


def test_float32_is_float64_to_its_precision():
    images = (PIXELS * 255).astype(np.uint8)
    single, double = (
        ConvolutionalFeatures(padding=3, pool_size=3, dtype=dtype).transform_many(images)
        for dtype in ("float32", "float64")
    )
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-3)


IMAGE_FORMS = {
    "array": {"image": PIXELS[0]},
    "array with a channel": {"image": PIXELS[0][..., None]},
    "positions": dict(enumerate(PIXELS[0].ravel())),
    "text": {str(k): v for k, v in enumerate(PIXELS[0].ravel())},
    "scikit-learn's names": {f"pixel_{r}_{c}": PIXELS[0, r, c] for r in range(8) for c in range(8)},
    "pairs": {(r, c): PIXELS[0, r, c] for r in reversed(range(8)) for c in range(8)},
}


@pytest.mark.parametrize("form", IMAGE_FORMS)
def test_one_image_in_any_form(form):
    model = ConvolutionalFeatures(padding=3, image_shape=(8, 8))
    expected = model.transform_many(PIXELS)[0]
    out = model.transform_one(IMAGE_FORMS[form])
    if "array" in form:
        np.testing.assert_allclose(out["h"], expected, rtol=1e-12)
    else:
        assert list(out) == [f"h{k}" for k in range(len(expected))]
        np.testing.assert_allclose(list(out.values()), expected, rtol=1e-12)
    # Absent pixels are zero.
    whole = model.transform_one(dict.fromkeys(range(64), 0.0) | {4: 1.0})
    assert model.transform_one({4: 1.0}) == whole


@pytest.mark.parametrize(
    "batch",
    [
        PIXELS,
        PIXELS[..., None],
        PIXELS.reshape(5, 64),
        [{"image": image} for image in PIXELS],
        [dict(enumerate(image.ravel())) for image in PIXELS],
        pd.DataFrame(PIXELS.reshape(5, 64)),
        pl.DataFrame(PIXELS.reshape(5, 64), schema=[f"p{k}" for k in range(64)]),
    ],
    ids=["images", "channels", "flat", "arrays", "dicts", "pandas", "polars"],
)
def test_many_images_in_any_form(batch):
    model = ConvolutionalFeatures(padding=3, image_shape=(8, 8))
    expected = model.transform_many(PIXELS)
    out = model.transform_many(batch)
    if isinstance(out, list):
        out = np.array([x["h"] if "h" in x else list(x.values()) for x in out])
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 5, 5)), "Images of 5 x 5 pixels have empty pooled maps"),
        (np.ones((2, 64)), "set image_shape"),
        (np.ones(3), "set image_shape"),
        (np.full((1, 8, 8), np.nan), "nan"),
        ([{"image": np.ones((8, 8))}, {"image": np.ones((9, 9))}], "one shape. Resize"),
        ([{"image": np.ones((8, 8)), "mask": 1.0}], "expected one image"),
        ([{0: 1.0}], "image_shape"),
    ],
)
def test_bad_images(X, message):
    with pytest.raises(ValueError, match=message):
        ConvolutionalFeatures().transform_many(X)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ({64: 1.0}, ValueError, "64 names no pixel"),
        ({"colour": 1.0}, ValueError, "'colour' names no pixel"),
        ({(8, 0): 1.0}, ValueError, "no pixel"),
        ({-1: 1.0}, ValueError, "no pixel"),
        ({3: 1.0, "3": 2.0}, ValueError, "Two names of pixels mean the same position"),
        ({0: None}, ValueError, "None"),
        ({0: np.ones(2), 1: 0.5}, ValueError, "2 features, some of them arrays, expected one"),
        ({0: "dark"}, TypeError, "'dark'"),
        ({"image": np.ones((9, 8))}, ValueError, r"shape \(9, 8\), expected \(8, 8\)"),
        ({"image": np.array([["a"]])}, TypeError, "dtype"),
        (PIXELS[0], TypeError, "expected a dict"),
    ],
)
def test_bad_samples(x, error, message):
    with pytest.raises(error, match=message):
        ConvolutionalFeatures(image_shape=(8, 8), padding=3).transform_one(x)


test_bad_settings = settings_refused(
    ConvolutionalFeatures,
    [
        ({"filters": "bars"}, ValueError, "filters='bars' is not known"),
        ({"filters": np.ones((7, 7))}, ValueError, "filters has shape"),
        ({"filters": np.ones((2, 3, 4))}, ValueError, "square filters"),
        ({"filters": np.full((1, 2, 2), np.nan)}, ValueError, "nan"),
        ({"filters": None}, TypeError, "filters"),
        ({"pool_size": 0}, ValueError, "pool_size=0"),
        ({"stride": 0}, ValueError, "stride=0"),
        ({"stride": 1.5}, TypeError, "stride=1.5"),
        ({"padding": -1}, ValueError, "padding=-1"),
        ({"drop_ring": -1}, ValueError, "drop_ring=-1"),
        ({"normalize": "sum"}, ValueError, "normalize='sum' is not known"),
        ({"pooling": "max"}, ValueError, "pooling='max' is not known"),
        ({"normalize": 2}, ValueError, "normalize=2 is not known"),
        *(({"image_shape": shape}, ValueError, "image_shape=") for shape in ((8,), 8, (8, 0))),
        ({"dtype": "int8"}, ValueError, "dtype='int8'"),
    ],
)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 40), st.integers(0, 3))
def test_gaussian_pooling_weighs_positions_about_the_middle_of_the_box(pool_size, stride, n, ring):
    axis = Axis(pool_size, stride, 0, min(ring, (n + pool_size - 2) // 2), "gaussian")
    matrix = axis.pooling_matrix(n, 1, np.float64)
    kept = axis.drop_ring + stride * np.arange(axis.pooled_size(n, 1))
    for weights, last in zip(matrix, kept, strict=True):
        middle, deviation = last - (pool_size - 1) / 2, pool_size / np.sqrt(12)
        bell = norm.pdf(np.arange(-200, 240), middle, deviation)
        np.testing.assert_allclose(weights, (bell / bell.sum())[200 : 200 + n], atol=1e-9)


def test_gaussian_pooling_through_the_transformer():
    images = np.random.default_rng(0).random((2, 14, 14))
    box, bell = (
        ConvolutionalFeatures(stride=1, drop_ring=7, normalize=False, pooling=pooling)
        for pooling in ("box", "gaussian")
    )
    pooled = bell.transform_many(images) ** 4
    assert pooled.shape == box.transform_many(images).shape
    responses = convolve2d(images[0], bell.bank.filters[0, ..., 0], "valid") ** 2
    weights = norm.pdf(np.arange(8) - 3.5, scale=8 / np.sqrt(12))
    weights /= norm.pdf(np.arange(-99, 101) - 0.5, scale=8 / np.sqrt(12)).sum()
    np.testing.assert_allclose(pooled[0, 0], weights @ responses @ weights, rtol=1e-9)


def test_shapes_and_recipes_that_do_not_fit():
    model = ConvolutionalFeatures(padding=3, image_shape=(8, 8))
    for shape in ((28,), 28, (28, 0), (28, 28, 1, 1)):
        with pytest.raises(ValueError, match=r"is not the shape of an image\. Pass"):
            model.n_features(shape)
    with pytest.raises(ValueError, match="A sample holds an array among its pixels, expected num"):
        model.transform_many([{0: 0.5}, {1: np.ones(2), 2: 0.5}])
    with pytest.raises(ValueError, match="Images have 3 channels, expected 2"):
        ConvolutionalFeatures(np.ones((1, 3, 3, 2))).transform_many(np.ones((1, 8, 8, 3)))
    with pytest.raises(ValueError, match=r"Patches.* are made from examples, and no examples were"):
        ConvolutionalFeatures(filters=Patches(5, 3)).bank  # noqa: B018 - asking is what is tested


# -- windows, nonlinearities, contrast, and large values ------------------------------------------

VALUES = np.random.default_rng(0).normal(size=(5, 12, 2))
IMAGES = np.random.default_rng(0).random((4, 9, 9))


@st.composite
def window_cases(draw):
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


@given(window_cases())
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
    (ROWS, ValueError, "Windows of 5 values have empty pooled maps"),
    (np.ones(30), ValueError, r"A window has shape \(\), expected \(length,\) or \(length, n_chan"),
    (np.full((1, 30), 1e140), ValueError, "A window holds values as large as 1e.140"),
    ([{"window": np.ones(30)}, {"window": np.ones(31)}], ValueError, "X holds windows of shapes"),
    ([{"window": np.ones(30), "mask": 1.0}], ValueError, 'one window. Pass {"window": array}'),
    ([{0: 1.0}], ValueError, "Windows are given as named values.*Set window_shape"),
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
    ({"window_shape": (3, 4, 5)}, ValueError, "is not the shape of a window. Pass .length,. or"),
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
            message = r"^shape=.* is not the shape of .*\. Pass \("
            refused(ValueError, message, kind().n_features, shape)
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
