"""ConvolutionalFeatures: stage 1 is a slow transcription of the paper; filters and their makers."""

from dataclasses import dataclass
from functools import partial

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
    given = filters.copy()
    model = ConvolutionalFeatures(given, **settings)
    # The array is the caller's.
    given[:] = 7.0
    whole = model.clone().transform_many(images)
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
    geometry = {"pool_size": 8, "stride": 2, "padding": 0, "drop_ring": 0, "pooling": "box"}
    powers = {"before_pooling": 2.0, "after_pooling": 0.25, "normalize": True, "channels": "each"}
    paper = ConvolutionalFeatures("hand-designed", **geometry, **powers)
    assert paper._get_params() == ConvolutionalFeatures()._get_params()


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


def test_an_empty_cluster_keeps_its_centre():
    """One of nine patches is not even: all clusters start from it."""
    images = np.zeros((1, 4, 4, 1))
    images[0, 0, 0] = 1.0
    bank = bank_of(Patches(5, 2, whitening=0.1, n_iterations=10), images, None)
    assert np.isfinite(bank).all()


# -- refusals --------------------------------------------------------------------------------------


def features(images, filters="hand-designed", **settings):
    return ConvolutionalFeatures(filters, **settings).transform_many(images)


def of_channels(own, other):
    return features(np.ones((1, 9, 9, other)), np.ones((1, 2, 2, own)))


ONES, LARGE = np.ones((2, 3, 3, 3)), np.full((1, 3, 3), 1e30)
GREY, NARROW = IMAGES[..., 0], IMAGES[:, :, :5]
POWER = {"before_pooling": 8, "dtype": "float32"}
REFUSED = [
    # Filters
    (lambda: ConvolutionalFeatures(None), TypeError, "filters holds None"),
    (lambda: ConvolutionalFeatures(ONES * 1j), TypeError, "expected real numbers"),
    (lambda: ConvolutionalFeatures(np.ma.array(ONES)), TypeError, "masked array"),
    (lambda: ConvolutionalFeatures(Patches), TypeError, r"an array, Patches\(\), or a tuple"),
    (lambda: ConvolutionalFeatures(()), ValueError, "empty tuple"),
    (lambda: ConvolutionalFeatures(("hand-designed", "bars")), ValueError, "'bars' is not known"),
    (lambda: ConvolutionalFeatures((ONES, np.ones((1, 3, 4)))), ValueError, "square filters"),
    (lambda: ConvolutionalFeatures(np.ones((7, 7))), ValueError, "filters has shape"),
    (lambda: ConvolutionalFeatures((ONES[..., :2], ONES)), ValueError, r"banks of \[2, 3\] chann"),
    (lambda: ConvolutionalFeatures([Patches()]), TypeError, "filters has dtype object"),
    (lambda: ConvolutionalFeatures([ONES, ONES[:, 1:]]), ValueError, "lists of different lengths"),
    (lambda: ConvolutionalFeatures(ONES * np.nan), ValueError, "holds nan at position"),
    # Recipes
    (lambda: Patches(0), ValueError, "n_filters=0"),
    (lambda: Patches(size=2.5), TypeError, "size=2.5"),
    (lambda: Patches(whitening=np.nan), ValueError, "whitening=nan"),
    (lambda: Patches(n_iterations=3), ValueError, "n_iterations=3 without whitening"),
    (lambda: Patches(9, n_sample=8), ValueError, "n_sample=8 must be at least 9"),
    # Examples
    (lambda: bank_of(Patches(2, 4), IMAGES, None), ValueError, "Pass labels"),
    (lambda: bank_of(Patches(2, 4), IMAGES, LABELS[:2]), ValueError, "2 labels, expected 6"),
    (lambda: bank_of(Patches(2, whitening=0.1), IMAGES, [1]), ValueError, "1 labels, expected 6"),
    (lambda: bank_of(Patches(2, 6), NARROW), ValueError, "size=6 exceeds images of 9 x 5 pixels"),
    (lambda: bank_of(Patches(2, 6, whitening=1.0), NARROW), ValueError, "size=6 exceeds images of"),
    # Images
    (lambda: features(ONES), ValueError, "Images of 3 x 3 pixels have empty pooled maps"),
    (lambda: features(np.ones((2, 64))), ValueError, "set image_shape"),
    (lambda: features([{0: 1.0}]), ValueError, "Set image_shape"),
    (lambda: features([{"image": GREY[0]}, {"image": GREY[1, 1:]}]), ValueError, "shape. Resize"),
    (lambda: features(GREY, Patches(5, 3)), ValueError, r"Patches.* are made from .*no examples"),
    (lambda: features(GREY, LARGE, **POWER), ValueError, "overflow float32, .* Rescale the images"),
    (lambda: features(1e20 * GREY, **POWER), ValueError, "at most .* for dtype='float32'. Rescale"),
    *(
        (partial(of_channels, own, other), ValueError, f"have {other} channels")
        for own, other in ((2, 1), (2, 3), (3, 5), (4, 1), (4, 3), (4, 5))
    ),
    *(
        (partial(ConvolutionalFeatures().n_features, shape), ValueError, r"^shape=.* is not the")
        for shape in ((28,), None, (28, 0), [9, 9], (28, 28, 1, 1))
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_cannot_be_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
