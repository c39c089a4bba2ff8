"""ConvolutionalFeatures: stage 1 is a slow transcription of the paper; filters and their makers."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import convolve2d
from scipy.stats import norm

from onlinels import (
    ConvolutionalFeatures,
    HiddenLayer,
    ShallowConvClassifier,
)
from onlinels.features import convolution
from onlinels.features.filters import FilterRecipe, hand_designed
from onlinels.images import Patches
from support.laws import settings_refused
from support.strategies import convolution_settings, filter_arrays, labelled_images, powers

IMAGES = np.random.default_rng(0).random((6, 9, 9, 3))
LABELS = ["a", "b", "a", "c", "b", "a"]
CHANNELS = st.sampled_from(["each", "joint"])


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


sizes = st.sampled_from([1, 300, 1 << 20])


@given(cases(), st.integers(1, 3), st.integers(1, 3), sizes, sizes)
def test_features_are_the_literal_ones(case, part_images, tile_filters, tile_bytes, small_product):
    """In tiles of any size, and by any number of threads."""
    images, filters, settings = case
    model = ConvolutionalFeatures(filters, **settings)
    whole = model.transform_many(images)
    assert whole.shape == (len(images), model.n_features(images.shape[1:]))
    bank = filters if filters.ndim == 4 else filters[..., None]
    expected = np.stack([literal(image, bank, model) for image in images])
    # Small powers enlarge rounding errors where a response is 0.
    atol = max(1e-9, 1e-14 ** (model.before_pooling * model.after_pooling))
    np.testing.assert_allclose(whole, expected, rtol=1e-7, atol=atol)
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


def test_the_defaults_are_the_paper():
    image, model = np.random.default_rng(1).random((1, 28, 28, 1)), ConvolutionalFeatures()
    assert (model.pool_size, model.stride, model.padding, model.drop_ring) == (8, 2, 0, 0)
    assert (model.before_pooling, model.after_pooling) == (2.0, 0.25)
    assert (model.normalize, model.pooling, model.channels) == (True, "box", "each")
    features = model.transform_many(image)
    assert features.shape[1] == 43 * 15**2  # ceil((28 - 7 + 8) / 2) = 15
    expected = literal(image[0], hand_designed()[..., None], model)
    np.testing.assert_allclose(features[0], expected, rtol=1e-9)


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


# -- filters ---------------------------------------------------------------------------------------


def bank_of(filters, images=IMAGES, labels=LABELS, **settings):
    return ConvolutionalFeatures.from_examples(images, labels, filters=filters, **settings).bank


def test_the_hand_designed_bank():
    bank = hand_designed()
    assert bank.shape == (43, 7, 7)
    np.testing.assert_allclose(bank.mean(axis=(1, 2)), 0.0, atol=1e-16)
    ink = bank - bank.min(axis=(1, 2), keepdims=True)
    # Level bars are upright ones turned, and corners have two arms of 4 pixels that share one.
    np.testing.assert_allclose(ink[10], ink[0].T, atol=1e-12)
    assert (ink[0] > 0.5).sum() == (ink[20] > 0.5).sum() == 7
    np.testing.assert_allclose(ink[40:].sum(axis=(1, 2)), [9, 16, 25])
    # No two filters are alike.
    flat = bank.reshape(43, -1) / np.linalg.norm(bank.reshape(43, -1), axis=1, keepdims=True)
    assert (flat @ flat.T - np.eye(43)).max() < 0.99


@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_banks_of_any_channels_meet_those_of_the_images(n_channels):
    """Three channels are colours: grey for fewer, and after them for a fourth one."""
    colour = np.random.default_rng(0).normal(size=(2, 5, 5, 3))
    grey = (colour @ [0.299, 0.587, 0.114])[..., None]
    expected = [grey, np.repeat(grey, 2, axis=3), colour, np.concatenate([colour, grey], axis=3)]
    images = np.random.default_rng(2).random((3, 9, 9, n_channels))
    bank = bank_of(("hand-designed", colour, Patches(3, 4)), images, LABELS[:3])
    assert bank.shape == (48, 7, 7, n_channels)
    assert np.array_equal(bank[:43], np.repeat(hand_designed()[..., None], n_channels, 3))
    found = bank[43:45, 1:6, 1:6]
    np.testing.assert_allclose(found, expected[n_channels - 1], rtol=1e-13, atol=1e-15)


def test_an_array_of_filters_is_copied():
    bank = np.ones((2, 3, 3))
    model = ConvolutionalFeatures(bank, pool_size=2)
    before = model.clone().transform_many(IMAGES)
    bank[:] = 7.0
    np.testing.assert_array_equal(model.clone().transform_many(IMAGES), before)


@dataclass(frozen=True)
class Corners(FilterRecipe):
    """Filters that are the upper left corners of images, one after the other."""

    n_filters: int = 2
    size: int = 3

    def make(self, images, labels, random, joint=False):
        return images[: self.n_filters, : self.size, : self.size]


def test_a_new_recipe_needs_no_other_code():
    bank = bank_of((Patches(3, 4), Corners()))
    np.testing.assert_array_equal(bank[3:, :3, :3], IMAGES[:2, :3, :3])
    features = ConvolutionalFeatures(Corners(), padding=4)
    assert (features.is_fixed, features.n_features((9, 9, 3))) == (False, 3 * 2 * 11 * 11)
    with pytest.raises(ValueError, match="size=10 exceeds images of 9 x 9"):
        bank_of(Corners(size=10))
    model = ShallowConvClassifier(features, HiddenLayer(5, "difference"), warm_up=4)
    model.learn_many(IMAGES, LABELS)
    np.testing.assert_array_equal(model.bank, IMAGES[:2, :3, :3])


@given(labelled_images(min_side=4), st.integers(0, 2**32 - 1), CHANNELS)
def test_a_bank_is_a_function_of_patches_seed_and_examples(examples, seed, channels):
    whitened = Patches(4, 3, whitening=0.1, n_sample=30)
    clusters = Patches(3, 4, whitening=0.1, n_iterations=2, n_sample=9)
    recipes, settings = (Patches(5, 3), (whitened, clusters)), {"seed": seed, "channels": channels}
    one, other = (bank_of(recipes, examples.images, examples.labels, **settings) for _ in range(2))
    assert np.array_equal(one, other)
    assert len(one) == 12
    alone = bank_of(recipes[0], examples.images, examples.labels, **settings)
    assert np.array_equal(one[:5, :3, :3], alone)
    # Other seeds and places have other filters.
    both = bank_of((whitened, whitened))
    assert not np.allclose(both[:4], both[4:])
    assert not np.allclose(bank_of(whitened, seed=1), both[:4])


@given(labelled_images(), st.integers(1, 20), st.data())
def test_patches_are_the_middle_of_images_of_each_class(examples, n_filters, data):
    images, labels = examples.images.astype(float), examples.labels
    height, width = images.shape[1:3]
    size = data.draw(st.integers(1, min(height, width)))
    bank = bank_of(Patches(n_filters, size), examples.images, labels)
    top, left = (height - size) // 2, (width - size) // 2
    middle = images[:, top : top + size, left : left + size]
    middle = middle - middle.mean(axis=(1, 2), keepdims=True)
    lengths = np.linalg.norm(middle.reshape(len(middle), -1), axis=1)
    middle[lengths < 1e-9], lengths[lengths < 1e-9] = 0.0, 1.0
    middle = middle / lengths[:, None, None, None]
    assert bank.shape == (n_filters, size, size, images.shape[3])
    alike = np.isclose(bank[:, None], middle).all(axis=(2, 3, 4))
    for place, label in enumerate(dict.fromkeys(labels)):
        own = np.array([other == label for other in labels])
        share, rest = divmod(n_filters, len(set(labels)))
        drawn, alike = np.split(alike, [share + (place < rest)])
        assert drawn[:, own].any(axis=1).all()
        # Without replacement as long as there are enough images.
        if len(drawn) <= own.sum():
            assert drawn[:, own].any(axis=0).sum() >= len(drawn)
    assert not len(alike)


def whitened_groups(patches, images, channels):
    """Yield, for each group of channels, responses of filters and what they are made of.

    The responses of every filter to five fresh patches; the fresh patches, whitened; all patches of
    the images, whitened by the symmetric inverse root of their covariance.
    """
    bank = bank_of(patches, images, None, channels=channels)
    windows = sliding_window_view(images, (patches.size,) * 2, axis=(1, 2))
    sample = np.moveaxis(windows.reshape(-1, *windows.shape[3:]), 1, 3).astype(float)
    fresh = np.random.default_rng(0).normal(size=(5, *sample.shape[1:]))
    numbers = list(range(images.shape[3]))
    for group in [numbers] if channels == "joint" else [[c] for c in numbers]:
        rows, others = (each[..., group].reshape(len(each), -1) for each in (sample, fresh))
        rows = rows - rows.mean(axis=1, keepdims=True)
        covariance = np.cov(rows.T, bias=True) + patches.whitening * np.eye(rows.shape[1])
        left, values, right = np.linalg.svd(covariance)
        matrix = left / np.sqrt(values) @ right
        h = bank[:, ::-1, ::-1, group].reshape(len(bank), -1)
        centred = others - others.mean(axis=1, keepdims=True)
        # The mean of a patch does not count.
        yield others @ h.T, centred @ matrix, (rows - rows.mean(axis=0)) @ matrix


def along(patches, directions):
    return patches @ (directions / np.linalg.norm(directions, axis=-1, keepdims=True)).T


@given(labelled_images(min_side=3), st.integers(1, 8), st.integers(2, 3), CHANNELS, st.data())
def test_whitening_is_folded_into_filters(examples, n_filters, size, channels, data):
    """Every filter is some patch of the examples, not an even one, the same one in all channels."""
    patches = Patches(n_filters, size, whitening=data.draw(st.floats(1e-3, 10.0)))
    images = examples.images
    windows = sliding_window_view(images, (size, size), axis=(1, 2))
    uneven = np.ptp(windows.astype(float), axis=(-2, -1)).reshape(-1, images.shape[3]).any(axis=1)
    matches = (uneven | ~uneven.any())[None]
    for found, fresh, whitened in whitened_groups(patches, images, channels):
        # A direction made of rounding errors is any direction.
        assume(np.linalg.norm(whitened[matches.any(axis=0)], axis=1).min() > 1e-6)
        with np.errstate(invalid="ignore"):
            expected = along(fresh, whitened)
        close = np.isclose(found.T[:, :, None], expected[None], 1e-7, 1e-8 / patches.whitening)
        matches = matches & close.all(axis=1)
        assert matches.any(axis=1).all()


@pytest.mark.parametrize("n_iterations", [0, 10])
@pytest.mark.parametrize("channels", ["joint", "each"])
def test_blank_images_give_filters_without_warnings(n_iterations, channels):
    patches = Patches(6, 3, whitening=0.1, n_iterations=n_iterations)
    for brightness in (0.0, 0.7):
        bank = bank_of(patches, np.full((2, 5, 5, 2), brightness), None, channels=channels)
        assert np.abs(bank).max() < 10.0
    images = np.zeros((1, 4, 4, 1))
    images[0, 0, 0] = 1.0
    # One of nine patches is not even: all clusters start from it, and empty ones keep their centre.
    bank = bank_of(Patches(5, 2, whitening=0.1, n_iterations=10), images, None)
    assert np.isfinite(bank).all()


BAD_EXAMPLES = [
    (Patches(2, 4), IMAGES, None, "Pass labels"),
    (Patches(2, 4), IMAGES, LABELS[:2], "2 labels, expected 6"),
    (Patches(2, 6, whitening=0.1), IMAGES, [1], "1 labels, expected 6"),
    (Patches(2, 6), IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pixels"),
    (Patches(2, 6, whitening=0.1), IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pix"),
]


@pytest.mark.parametrize(("filters", "images", "labels", "message"), BAD_EXAMPLES)
def test_bad_examples_of_filters(filters, images, labels, message):
    with pytest.raises(ValueError, match=message):
        bank_of(filters, images, labels)


test_bad_patches = settings_refused(
    Patches,
    [
        ({"n_filters": 0}, ValueError, "n_filters=0"),
        ({"size": 2.5}, TypeError, "size=2.5"),
        ({"whitening": np.nan}, ValueError, "whitening=nan"),
        ({"n_iterations": 3}, ValueError, "n_iterations=3 without whitening"),
        ({"n_filters": 9, "n_sample": 8}, ValueError, "n_sample=8 must be at least 9"),
    ],
)


# -- refusals --------------------------------------------------------------------------------------

GREY = IMAGES[..., 0]
LARGE = {"filters": np.full((1, 3, 3), 1e30), "before_pooling": 8, "dtype": "float32"}
BAD_IMAGES = [
    ({}, np.ones((2, 5, 5)), "Images of 5 x 5 pixels have empty pooled maps"),
    ({}, np.ones((2, 64)), "set image_shape"),
    ({}, [{0: 1.0}], "Set image_shape"),
    ({}, [{"image": GREY[0]}, {"image": GREY[1, :8]}], "one shape. Resize"),
    ({"filters": Patches(5, 3)}, GREY, r"Patches.* are made from examples, and no examples were"),
    (LARGE, GREY, "overflow float32, expected finite features. Rescale the images"),
    (LARGE, 1e20 * GREY, "at most .* for dtype='float32'. Rescale the images"),
    *(
        ({"filters": np.ones((1, 2, 2, own))}, IMAGES[..., [0] * other], f"have {other} channels")
        for own, other in ((2, 1), (2, 3), (3, 5), (4, 1), (4, 3), (4, 5))
    ),
]


@pytest.mark.parametrize(("settings", "images", "message"), BAD_IMAGES)
def test_images_that_do_not_fit_are_refused(settings, images, message):
    with pytest.raises(ValueError, match=message):
        ConvolutionalFeatures(**settings).transform_many(images)


@pytest.mark.parametrize("shape", [(28,), 28, None, (28, 0), [9, 9], (28, 28, 1, 1)])
def test_what_is_no_shape_of_an_image(shape):
    with pytest.raises(ValueError, match=r"^shape=.* is not the shape of an image\. Pass \("):
        ConvolutionalFeatures().n_features(shape)


ONES = np.ones((2, 3, 3, 3))
BAD_FILTERS = [
    (None, TypeError, "filters holds None"),
    (Patches, TypeError, r"an array, Patches\(\), or a tuple"),
    ((), ValueError, "empty tuple"),
    (("hand-designed", "bars"), ValueError, "'bars' is not known"),
    ((np.ones((1, 3, 3)), np.ones((1, 3, 4))), ValueError, "square filters"),
    (np.ones((7, 7)), ValueError, "filters has shape"),
    ((ONES[..., :2], ONES), ValueError, r"banks of \[2, 3\] channels"),
    ([Patches()], TypeError, "filters has dtype object"),
    ([ONES, ONES[:, :2, :2]], ValueError, "lists of different lengths"),
    (ONES * np.nan, ValueError, "holds nan at position"),
    (ONES * 1j, TypeError, "expected real numbers"),
    (np.ma.array(ONES), TypeError, "masked array"),
]


@pytest.mark.parametrize(("filters", "error", "message"), BAD_FILTERS)
def test_what_filters_cannot_be(filters, error, message):
    with pytest.raises(error, match=message):
        ConvolutionalFeatures(filters)
