"""Stage 1 against slow transcriptions of the paper, its options, and the forms of images."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.signal import convolve2d
from scipy.stats import norm

from onlinels import ConvolutionalFeatures, LeastSquaresClassifier
from onlinels.features import convolution
from onlinels.features.filters import hand_designed
from onlinels.images import Patches
from support.laws import settings_refused
from support.strategies import convolution_settings, filter_arrays, powers

PIXELS = np.random.default_rng(0).random((5, 8, 8))
IMAGES = np.random.default_rng(0).random((4, 9, 9))


def literal_paper(image, filters, pool_size, stride):
    """Algorithm 1 of the paper on one image (height, width), step by step."""
    window, responses = np.full((pool_size, pool_size), 1.0 / pool_size**2), []
    for h in filters:
        convolved = convolve2d(image, h, mode="valid")
        rooted = convolve2d(convolved**2, window, mode="full") ** 0.25
        response = rooted[::stride, ::stride].ravel()
        responses.append(response / response.sum())
    return np.concatenate(responses)


def test_default_is_the_paper_to_the_letter():
    image = np.random.default_rng(1).random((28, 28))
    features = ConvolutionalFeatures().transform_many(image[None])
    expected = literal_paper(image, hand_designed(), pool_size=8, stride=2)
    np.testing.assert_allclose(features[0], expected, rtol=1e-9)
    assert features.shape[1] == 43 * 15**2  # ceil((28 - 7 + 8) / 2) = 15
    np.testing.assert_allclose(features.reshape(43, -1).sum(axis=1), 1.0)


def literal_weights(n_kept, n_convolved, model):
    """Return the weight of every position in every window, about the middle of the box."""
    size, rows = model.pool_size, []
    for kept in model.drop_ring + model.stride * np.arange(n_kept):
        offsets = kept - np.arange(n_convolved)
        middle, deviation = (size - 1) / 2, size / np.sqrt(12)
        bell = norm.pdf(offsets, middle, deviation)
        bell = bell / norm.pdf(np.arange(-300, 300), middle, deviation).sum()
        box = ((offsets >= 0) & (offsets < size)) / size
        rows.append(bell if model.pooling == "gaussian" else box)
    return np.array(rows)


def literal(image, filters, model):
    """The features of one image (height, width, n_channels), one map at a time."""
    channels = range(image.shape[2])
    x = np.pad(image, [(model.padding,) * 2] * 2 + [(0, 0)])
    maps = []
    for group in [channels] if model.channels == "joint" else [[c] for c in channels]:
        for h in np.broadcast_to(filters, (*filters.shape[:3], len(channels))):
            u = sum(convolve2d(x[..., c], h[..., c], mode="valid") for c in group)
            full = [n + model.pool_size - 1 - 2 * model.drop_ring for n in u.shape]
            kept = [-(-n // model.stride) for n in full]
            rows, columns = (
                literal_weights(n, m, model) for n, m in zip(kept, u.shape, strict=True)
            )
            pooled = rows @ np.abs(u) ** model.before_pooling @ columns.T
            maps.append(pooled.ravel() ** model.after_pooling)
    if model.normalize in (True, "map"):
        maps = [each / (each.sum() or 1.0) for each in maps]
    row = np.concatenate(maps)
    return row / (np.linalg.norm(row) or 1.0) if model.normalize == "image" else row


@st.composite
def cases(draw):
    """Draw images, filters, and all of what stage 1 may do."""
    filters = draw(filter_arrays())
    size = filters.shape[1]
    settings = draw(convolution_settings()) | {
        "pool_size": draw(st.integers(1, 5)),
        "stride": draw(st.integers(1, 4)),
        "padding": draw(st.integers(0, 3)),
        "pooling": draw(st.sampled_from(["box", "gaussian"])),
    }
    height, width = draw(st.integers(size, 9)), draw(st.integers(size, 9))
    shortest = min(height, width) + 2 * settings["padding"] - size + settings["pool_size"]
    settings["drop_ring"] = draw(st.integers(0, (shortest - 1) // 2))
    n_channels = filters.shape[3] if filters.ndim == 4 else draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images = random.normal(size=(draw(st.integers(1, 20)), height, width, n_channels))
    return images, filters, settings


@given(cases())
def test_features_are_the_literal_ones(case):
    images, filters, settings = case
    model = ConvolutionalFeatures(filters, **settings)
    features = model.transform_many(images)
    assert features.shape == (len(images), model.n_features(images.shape[1:]))
    bank = filters if filters.ndim == 4 else filters[..., None]
    expected = np.stack([literal(image, bank, model) for image in images])
    # Small powers enlarge rounding errors where a response is 0.
    atol = max(1e-9, 1e-14 ** (model.before_pooling * model.after_pooling))
    np.testing.assert_allclose(features, expected, rtol=1e-7, atol=atol)


sizes = st.sampled_from([1, 300, 1 << 20])


@given(cases(), st.integers(1, 3), st.integers(1, 3), sizes, sizes)
def test_tiles_and_threads_make_no_difference(
    case, part_images, tile_filters, tile_bytes, small_product
):
    images, filters, settings = case
    model = ConvolutionalFeatures(filters, **settings)
    whole = model.transform_many(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "MAX_IMAGES_PER_TASK", part_images)
        patch.setattr(convolution, "TILE_FILTERS", tile_filters)
        patch.setattr(convolution, "TILE_BYTES", tile_bytes)
        patch.setattr(convolution, "MAX_SINGLE_THREAD_PRODUCT", small_product)
        patch.setattr("onlinels.numerics._n_cores", lambda: 16)
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        tiled = model.transform_many(images)
        patch.setenv("OPENBLAS_NUM_THREADS", "3")
        assert (model.transform_many(images) == tiled).all()
    np.testing.assert_allclose(tiled, whole, rtol=1e-9, atol=1e-9)


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


# -- large and faint values -----------------------------------------------------------------------


@given(
    powers,
    powers,
    st.sampled_from(["each", "joint"]),
    st.sampled_from(["float32", "float64"]),
    st.floats(0.01, 300.0),
)
def test_even_images_give_zeros(before, after, channels, dtype, brightness):
    """Rounding errors pass for nothing, whatever is made of them; a step in brightness does not."""
    # Powers of powers leave float32 soon.
    assume(before * after < 6.0)
    filters = np.random.default_rng(1).normal(size=(3, 5, 5))
    filters -= filters.mean(axis=(1, 2), keepdims=True)
    settings = {"before_pooling": before, "after_pooling": after, "pool_size": 3, "dtype": dtype}
    model = ConvolutionalFeatures(filters, channels=channels, **settings)
    images = np.full((2, 9, 9, 2), brightness)
    assert not model.transform_many(images).any()
    images[1, 4:] *= 3.0
    features = model.transform_many(images).reshape(2, -1, 16)
    assert not features[0].any()
    np.testing.assert_allclose(features[1].sum(axis=-1), 1.0, rtol=1e-4)


# -- forms of images, and bad calls ---------------------------------------------------------------

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


BAD_IMAGES = [
    (np.ones((2, 5, 5)), ValueError, "Images of 5 x 5 pixels have empty pooled maps"),
    (np.ones((2, 64)), ValueError, "set image_shape"),
    (np.ones(3), ValueError, "set image_shape"),
    ([{"image": np.ones((8, 8))}, {"image": np.ones((9, 9))}], ValueError, "one shape. Resize"),
    ([{"image": np.ones((8, 8)), "mask": 1.0}], ValueError, "expected one image"),
    ([{0: 1.0}], ValueError, "image_shape"),
    (list(IMAGES), TypeError, r"np\.stack"),
    (IMAGES * np.nan, ValueError, "X holds nan"),
    (IMAGES * np.inf, ValueError, "rescale large"),
    (IMAGES * 1j, TypeError, "expected real numbers"),
    (IMAGES.astype(str), TypeError, "Convert"),
    ([{"image": IMAGES[0].tolist()}], TypeError, "of type list, expected a number"),
]
BAD_SAMPLES = [
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
    ("dark", TypeError, r"expected an array or .*np\.asarray\(image\)"),
    ({}, ValueError, "no pixels, expected an image"),
]


def refused(error, message, call, *values):
    with pytest.raises(error, match=message):
        call(*values)


def test_bad_images():
    for images, error, message in BAD_IMAGES:
        refused(error, message, ConvolutionalFeatures().transform_many, images)
    model = ConvolutionalFeatures(image_shape=(8, 8), padding=3)
    for x, error, message in BAD_SAMPLES:
        with pytest.raises(error, match=message):
            model.transform_one(x)
    message = "A sample holds an array among its pixels, expected num"
    refused(ValueError, message, model.transform_many, [{0: 0.5}, {1: np.ones(2), 2: 0.5}])
    for shape in ((28,), 28, None, (28, 0), [9, 9], (28, 28, 1, 1)):
        message = r"^shape=.* is not the shape of an image\. Pass \("
        refused(ValueError, message, model.n_features, shape)
    unmade = ConvolutionalFeatures(filters=Patches(5, 3))
    message = r"Patches.* are made from examples, and no examples were"
    refused(ValueError, message, unmade.transform_many, IMAGES)
    too_large = ConvolutionalFeatures(np.full((1, 3, 3), 1e30), before_pooling=8, dtype="float32")
    message = "as large as .* overflow float32, expected finite features. Rescale the images"
    refused(ValueError, message, too_large.transform_many, IMAGES)
    message = "as large as .*, expected at most .* for dtype='float32'. Rescale the images"
    refused(ValueError, message, too_large.transform_many, 1e20 * IMAGES)


test_bad_settings = settings_refused(
    ConvolutionalFeatures,
    [
        ({"pool_size": 0}, ValueError, "pool_size=0"),
        ({"stride": 0}, ValueError, "stride=0"),
        ({"stride": 1.5}, TypeError, "stride=1.5"),
        ({"padding": -1}, ValueError, "padding=-1"),
        ({"drop_ring": -1}, ValueError, "drop_ring=-1"),
        ({"normalize": "sum"}, ValueError, "normalize='sum' .* Pass True, False, 'map' or"),
        ({"normalize": 2}, ValueError, "normalize=2 is not known"),
        ({"before_pooling": 0.0}, ValueError, "before_pooling=0.0 must be finite and above 0"),
        ({"after_pooling": np.nan}, ValueError, "after_pooling=nan"),
        ({"after_pooling": "root"}, TypeError, "after_pooling='root' must be a number"),
        ({"channels": "all"}, ValueError, "channels='all' is not known"),
        ({"pooling": "max"}, ValueError, "pooling='max' is not known"),
        *(({"image_shape": shape}, ValueError, "image_shape=") for shape in ((8,), 8, (8, 0))),
        ({"dtype": "int8"}, ValueError, "dtype='int8'"),
    ],
)


def test_images_of_another_size_are_refused_by_the_model_after_the_features():
    random = np.random.default_rng(0)
    model = ConvolutionalFeatures() | LeastSquaresClassifier(1.0)
    for label in "ab":
        model.learn_one({"image": random.random((12, 12))}, label)
    for size in (10, 14):
        other = {"image": random.random((size, size))}
        for call in (lambda x: model.learn_one(x, "a"), model.predict_one):
            with pytest.raises(ValueError, match="as many as in other rows"):
                call(other)
    assert model["LeastSquaresClassifier"]._state.statistics.count == 2
