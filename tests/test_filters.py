"""Filter banks: what `filters` may be, and patches of examples."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from onlinels import ConvolutionalFeatures, HiddenLayer, ShallowConvClassifier
from onlinels.features.filters import FilterRecipe, for_channels, hand_designed
from onlinels.images import Patches
from support.strategies import labelled_images

IMAGES = np.random.default_rng(0).random((6, 9, 9, 3))
LABELS = ["a", "b", "a", "c", "b", "a"]
CHANNELS = st.sampled_from(["each", "joint"])


def bank_of(filters, images=IMAGES, labels=LABELS, **settings):
    return ConvolutionalFeatures.from_examples(images, labels, filters=filters, **settings).bank


def random_bank(n_filters, size, n_channels, seed=0):
    return np.random.default_rng(seed).normal(size=(n_filters, size, size, n_channels))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_three_channels_meet_grey_images_pairs_and_a_fourth_channel(n_filters, size, seed):
    bank = random_bank(n_filters, size, 3, seed)
    grey = (0.299 * bank[..., 0] + 0.587 * bank[..., 1] + 0.114 * bank[..., 2])[..., None]
    for n_channels in (1, 2):
        np.testing.assert_allclose(
            for_channels(bank, n_channels), np.repeat(grey, n_channels, axis=3), rtol=1e-13
        )
    four = for_channels(bank, 4)
    np.testing.assert_allclose(four, np.concatenate([bank, grey], axis=3), rtol=1e-13)
    assert for_channels(bank, 3) is bank


@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_banks_of_any_channels_meet_those_of_the_images(n_channels):
    colour = random_bank(2, 5, 3)
    images = np.random.default_rng(2).random((3, 9, 9, n_channels))
    bank = bank_of(("hand-designed", colour, Patches(3, 4)), images, LABELS[:3])
    assert bank.shape == (48, 7, 7, n_channels)
    assert np.array_equal(bank[:43], np.repeat(hand_designed()[..., None], n_channels, 3))
    assert np.array_equal(bank[43:45, 1:6, 1:6], for_channels(colour, n_channels))


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


def test_seeds_and_places_differ():
    patches = Patches(4, 3, whitening=0.1, n_sample=30)
    bank = bank_of((patches, patches))
    assert not np.allclose(bank[:4], bank[4:])
    assert not np.allclose(bank_of(patches, seed=1), bank[:4])


ONES = np.ones((2, 3, 3))
BAD_FILTERS = [
    (None, TypeError, "filters holds None"),
    (Patches, TypeError, r"an array, Patches\(\), or a tuple"),
    ((), ValueError, "empty tuple"),
    (("hand-designed", "bars"), ValueError, "'bars' is not known"),
    ((np.ones((1, 3, 3)), np.ones((1, 3, 4))), ValueError, "square filters"),
    (np.ones((7, 7)), ValueError, "filters has shape"),
    ((np.ones((1, 3, 3, 2)), np.ones((1, 3, 3, 3))), ValueError, r"banks of \[2, 3\] channels"),
    ([Patches()], TypeError, "filters has dtype object"),
    ([ONES, np.ones((2, 5, 5))], ValueError, "lists of different lengths"),
    (ONES * np.nan, ValueError, "holds nan at position"),
    (ONES * 1j, TypeError, "expected real numbers"),
]
WHITENED = Patches(2, 6, whitening=0.1)
BAD_EXAMPLES = [
    (Patches(2, 4), IMAGES, None, "Pass labels"),
    (Patches(2, 4), IMAGES, LABELS[:2], "2 labels, expected 6"),
    (WHITENED, IMAGES, [1], "1 labels, expected 6"),
    (Patches(2, 6), IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pixels"),
    (WHITENED, IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pixels"),
]
BAD_PATCHES = [
    ({"n_filters": 0}, ValueError, "n_filters=0"),
    ({"size": 2.5}, TypeError, "size=2.5"),
    ({"whitening": np.nan}, ValueError, "whitening=nan"),
    ({"n_iterations": 3}, ValueError, "n_iterations=3 without whitening"),
    ({"n_filters": 9, "n_sample": 8}, ValueError, "n_sample=8 must be at least 9"),
]


def refused(error, message, call, *values, **settings):
    with pytest.raises(error, match=message):
        call(*values, **settings)


def test_what_filters_cannot_be():
    for filters, error, message in BAD_FILTERS:
        refused(error, message, ConvolutionalFeatures, filters)
    for filters, images, labels, message in BAD_EXAMPLES:
        refused(ValueError, message, bank_of, filters, images, labels)
    for settings, error, message in BAD_PATCHES:
        refused(error, message, Patches, **settings)
    for own, others in ((2, [1, 3, 4]), (3, [5, 6]), (4, [1, 2, 3, 5])):
        model = ConvolutionalFeatures(random_bank(1, 2, own))
        for n_channels in others:
            message, images = f"Images have {n_channels} channels", np.ones((1, 9, 9, n_channels))
            refused(ValueError, message, model.transform_many, images)


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
    classes, filters = list(dict.fromkeys(labels)), iter(bank)
    for place, label in enumerate(classes):
        count = n_filters // len(classes) + (place < n_filters % len(classes))
        own = [row for row, other in enumerate(labels) if other == label]
        drawn = [next(filters) for _ in range(count)]
        alike = [[row for row in own if np.allclose(h, middle[row])] for h in drawn]
        assert all(alike)
        # Without replacement as long as there are enough images.
        distinct = {rows[0] for rows in alike if len(rows) == 1}
        if count <= len(own) and all(len(rows) == 1 for rows in alike):
            assert len(distinct) == count
    assert next(filters, None) is None


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
