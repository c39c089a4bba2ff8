"""Stage 1 against a slow transcription of the paper's Algorithm 1, and its options."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.signal import convolve2d
from scipy.stats import norm

from onlinels import ConvolutionalFeatures, FilterBank, Patches
from onlinels.features import convolution
from onlinels.features.convolution import (
    Axis,
    Convolution,
    Power,
    TwoSidedRectifier,
    convolve,
    lp_pooling,
)
from onlinels.features.filters import hand_designed
from support.laws import settings_refused
from support.stage1_reference import is_nothing_but_rounding, literal_features
from support.strategies import axes, convolution_settings

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
        patch.setattr(convolution, "PART_IMAGES", part_images)
        patch.setattr(convolution, "TILE_FILTERS", tile_filters)
        patch.setattr(convolution, "TILE_BYTES", tile_bytes)
        patch.setattr(convolution, "SMALL_PRODUCT", small_product)
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
        (np.ones((2, 5, 5)), "Images of 5 x 5 pixels leave no pooled position"),
        (np.ones((2, 64)), "Pass image_shape"),
        (np.ones(3), "Pass image_shape"),
        (np.ones((0, 8, 8)), "0 images"),
        (np.full((1, 8, 8), np.nan), "nan"),
        ([{"image": np.ones((8, 8))}, {"image": np.ones((9, 9))}], "one. Resize"),
        ([{"image": np.ones((8, 8)), "mask": 1.0}], "expected one image"),
        ([{0: 1.0}], "image_shape"),
        ([], "0 rows"),
    ],
)
def test_bad_images(X, message):
    with pytest.raises(ValueError, match=message):
        ConvolutionalFeatures().transform_many(X)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ({64: 1.0}, ValueError, "64 is no pixel"),
        ({"colour": 1.0}, ValueError, "'colour' is no pixel"),
        ({(8, 0): 1.0}, ValueError, "no pixel"),
        ({-1: 1.0}, ValueError, "no pixel"),
        ({3: 1.0, "3": 2.0}, ValueError, "Two names stand for one pixel"),
        ({0: None}, ValueError, "None"),
        ({0: np.ones(2), 1: 0.5}, ValueError, "2 features with arrays among them, expected one"),
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
        with pytest.raises(ValueError, match=r"is no image shape\. Pass"):
            model.n_features(shape)
    with pytest.raises(ValueError, match="A sample holds an array among its pixels, expected num"):
        model.transform_many([{0: 0.5}, {1: np.ones(2), 2: 0.5}])
    with pytest.raises(ValueError, match="Images have 3 channels, expected 2"):
        ConvolutionalFeatures(np.ones((1, 3, 3, 2))).transform_many(np.ones((1, 8, 8, 3)))
    with pytest.raises(ValueError, match=r"Patches.* are made from examples, and none were given"):
        ConvolutionalFeatures(filters=Patches(5, 3)).bank  # noqa: B018 - asking is what is tested
