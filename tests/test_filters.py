"""Filter banks: what `filters` may be, and recipes from examples."""

import copy
import pickle
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import (
    ConvolutionalFeatures,
    FilterBank,
    KMeansPatches,
    Patches,
    WhitenedPatches,
    WindowFeatures,
)
from support.strategies import labelled_images

IMAGES = np.random.default_rng(0).random((6, 9, 9, 3))
LABELS = ["a", "b", "a", "c", "b", "a"]
HAND_DESIGNED = ConvolutionalFeatures().bank.filters
CHANNELS = st.sampled_from(["each", "joint"])
CONTRAST_OFFSETS = st.one_of(st.none(), st.floats(1e-4, 10.0))


def bank_of(filters, images=IMAGES, labels=LABELS, **settings):
    return ConvolutionalFeatures.from_examples(images, labels, filters=filters, **settings).bank


def random_bank(n_filters, size, n_channels, seed=0, own_offsets=True):
    random = np.random.default_rng(seed)
    shape = (n_filters, n_channels) if own_offsets else (n_filters,)
    return FilterBank(
        random.normal(size=(n_filters, size, size, n_channels)), random.normal(size=shape)
    )


def grey(values):
    return 0.299 * values[..., 0] + 0.587 * values[..., 1] + 0.114 * values[..., 2]


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_three_channels_meet_grey_images_pairs_and_a_fourth_channel(n_filters, size, own, seed):
    bank = random_bank(n_filters, size, 3, seed, own)
    in_grey = grey(bank.filters)
    for n_channels in (1, 2):
        fitted = bank.for_channels(n_channels)
        expected = np.repeat(in_grey[..., None], n_channels, axis=3)
        np.testing.assert_allclose(fitted.filters, expected, rtol=1e-13)
    four = bank.for_channels(4)
    expected = np.concatenate([bank.filters, in_grey[..., None]], axis=3)
    np.testing.assert_allclose(four.filters, expected, rtol=1e-13)
    expected = np.column_stack([bank.offsets, grey(bank.offsets)]) if own else bank.offsets
    np.testing.assert_allclose(four.offsets, expected, rtol=1e-13)
    assert bank.for_channels(3) is bank


@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_banks_of_any_channels_meet_those_of_the_images(n_channels):
    colour = random_bank(2, 5, 3)
    images = np.random.default_rng(2).random((3, 9, 9, n_channels))
    bank = bank_of(("hand-designed", colour, Patches(3, 4)), images, LABELS[:3])
    assert bank.filters.shape == (48, 7, 7, n_channels)
    assert np.array_equal(bank.filters[:43], np.repeat(HAND_DESIGNED, n_channels, 3))
    fitted = colour.for_channels(n_channels)
    assert np.array_equal(bank.filters[43:45, 1:6, 1:6], fitted.filters)
    assert np.array_equal(bank.offsets[43:45], fitted.offsets)
    assert not bank.offsets[45:].any()


@pytest.mark.parametrize("channels", ["each", "joint"])
@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_a_combination_gives_the_features_that_its_banks_give_alone(channels, n_channels):
    images = np.random.default_rng(0).random((2, 8, 8, n_channels))
    shared, own = random_bank(2, 3, 1, own_offsets=False), random_bank(3, 3, 3)
    settings = {"channels": channels, "normalize": False}
    n_groups = n_channels if channels == "each" else 1
    of_shared, of_own, together = (
        ConvolutionalFeatures(filters, **settings).transform_many(images).reshape(2, n_groups, -1)
        for filters in (shared, own, (shared, own))
    )
    expected = np.concatenate([of_shared, of_own], axis=2)
    np.testing.assert_allclose(together, expected, atol=1e-12)


@given(labelled_images(min_side=4), st.integers(0, 2**32 - 1), CHANNELS)
def test_a_bank_is_a_function_of_recipe_seed_and_examples(examples, seed, channels):
    recipes = (Patches(5, 3), (WhitenedPatches(4, 3, n_sample=30), KMeansPatches(3, 4, n_sample=9)))
    settings = {"seed": seed, "channels": channels}
    one, other = (bank_of(recipes, examples.images, examples.labels, **settings) for _ in range(2))
    assert np.array_equal(one.filters, other.filters)
    assert np.array_equal(one.offsets, other.offsets)
    assert len(one) == 12
    alone = bank_of(recipes[0], examples.images, examples.labels, **settings)
    assert np.array_equal(one.filters[:5, :3, :3], alone.filters)


def test_seeds_and_places_differ():
    recipe = WhitenedPatches(4, 3, n_sample=30)
    bank = bank_of((recipe, recipe))
    assert not np.allclose(bank.filters[:4], bank.filters[4:])
    assert not np.allclose(bank_of(recipe, seed=1).filters, bank.filters[:4])


def test_a_bank_is_never_written_to():
    filters, offsets = np.ones((1, 2, 2, 1)), np.zeros(1)
    bank = FilterBank(filters, offsets)
    filters[:] = 9.0
    assert bank.filters.max() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        bank.filters[0] = 2.0
    assert copy.deepcopy(bank) is bank
    assert bank_of(bank) is bank
    back = pickle.loads(pickle.dumps(bank))
    assert np.array_equal(back.filters, bank.filters)
    assert not back.filters.flags.writeable
    assert repr(random_bank(2, 3, 4)) == "FilterBank(2 filters of 3 x 3, 4 channels)"


ONES, RAGGED = np.ones((2, 3, 3)), [[1.0, 2.0], [1.0]]
BAD_FILTERS = [
    (None, TypeError, "filters holds None"),
    (Patches, TypeError, "a recipe such as Patches"),
    ((), ValueError, "empty tuple"),
    (("hand-designed", "bars"), ValueError, "'bars' is not known"),
    ((np.ones((1, 3, 3)), np.ones((1, 3, 4))), ValueError, "square filters"),
    ([Patches()], TypeError, "filters has dtype object"),
    ([ONES, np.ones((2, 5, 5))], ValueError, "lists of different lengths"),
    (ONES * np.nan, ValueError, "or leave out"),
    (ONES * 1j, TypeError, "their magnitude"),
]
BAD_BANKS = [
    (ONES, np.zeros(2), ValueError, "filters has shape"),
    (ONES[:0, ..., None], np.zeros(0), ValueError, "filters has shape"),
    (np.ones((2, 3, 3, 3)), np.zeros(3), ValueError, r"expected \(2,\) or \(2, 3\)"),
    (ONES[..., None], [0, np.inf], ValueError, "offsets holds inf"),
    (np.full((1, 1, 1, 1), "a"), [0], TypeError, "filters has dtype"),
    (RAGGED, np.zeros(2), ValueError, "filters holds lists of different lengths"),
    (ONES[..., None] * np.nan, np.zeros(2), ValueError, "or leave out"),
]
BAD_EXAMPLES = [
    (Patches(2, 4), IMAGES, None, "Pass labels"),
    (Patches(2, 4), IMAGES, LABELS[:2], "2 labels, expected 6"),
    (WhitenedPatches(2, 3), IMAGES, [1], "1 labels, expected 6"),
    (Patches(2, 6), IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pixels"),
    (WhitenedPatches(2, 6), IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pixels"),
    (KMeansPatches(2, 6), IMAGES[:, :, :5], LABELS, "size=6 exceeds images of 9 x 5 pixels"),
]
BAD_RECIPES = [
    ({"n_filters": 0}, ValueError, "n_filters=0"),
    ({"variance_offset": np.nan}, ValueError, "variance_offset=nan"),
    ({"keep_mean": 1}, TypeError, "keep_mean=1"),
    ({"n_filters": 9, "n_sample": 8}, ValueError, "n_sample=8 must be at least 9"),
]


def refused(error, message, call, *values, **settings):
    with pytest.raises(error, match=message):
        call(*values, **settings)


def test_what_filters_cannot_be():
    for filters, error, message in BAD_FILTERS:
        refused(error, message, ConvolutionalFeatures, filters)
    for filters, offsets, error, message in BAD_BANKS:
        refused(error, message, FilterBank, filters, offsets)
    for filters in (Patches(), random_bank(1, 3, 1)):
        refused(TypeError, "filters has dtype object", WindowFeatures, filters)
    for filters, images, labels, message in BAD_EXAMPLES:
        refused(ValueError, message, bank_of, filters, images, labels)
    for kind in (WhitenedPatches, KMeansPatches):
        for settings, error, message in BAD_RECIPES:
            refused(error, message, kind, **settings)
        message, recipe = r"keep_mean=True with contrast_offset=0\.1", kind(3, 4, keep_mean=True)
        for filters in (recipe, ("hand-designed", (recipe,))):
            refused(ValueError, message, ConvolutionalFeatures, filters, contrast_offset=0.1)


@pytest.mark.parametrize(("own", "others"), [(2, [1, 3, 4]), (3, [5, 6]), (4, [1, 2, 3, 5])])
def test_other_channels_do_not_fit(own, others):
    model = ConvolutionalFeatures(random_bank(1, 2, own))
    for n_channels in others:
        message = f"Images have {n_channels} channels, expected"
        refused(ValueError, message, model.transform_many, np.ones((1, 9, 9, n_channels)))


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
    assert bank.filters.shape == (n_filters, size, size, images.shape[3])
    assert not bank.offsets.any()
    classes = list(dict.fromkeys(labels))
    filters = iter(bank.filters)
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


def as_met(rows, recipe, contrast_offset):
    """Rows of patches as filters of a recipe meet them, one by one."""
    if recipe.keep_mean:
        return rows
    scales = [1.0 if contrast_offset is None else np.sqrt(r.var() + contrast_offset) for r in rows]
    return np.array([(r - r.mean()) / s for r, s in zip(rows, scales, strict=True)])


def clustered(rows, centroids, n_iterations):
    """Lloyd's algorithm, literally."""
    for _ in range(n_iterations):
        nearest = ((rows[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
        means = [
            rows[nearest == k].mean(axis=0) if k in nearest else c for k, c in enumerate(centroids)
        ]
        centroids = np.array(means)
    return centroids


def whitened_groups(recipe, images, channels, contrast_offset):
    """Yield, for each group of channels, responses of filters and what they are made of.

    The convolution of five fresh patches plus offset, for every filter; the whitened fresh patches;
    all patches of the images whitened, by the symmetric inverse root of their covariance.
    """
    settings = {"channels": channels, "contrast_offset": contrast_offset}
    bank = bank_of(recipe, images, None, **settings)
    windows = np.lib.stride_tricks.sliding_window_view(images, (recipe.size,) * 2, axis=(1, 2))
    sample = np.moveaxis(windows.reshape(-1, *windows.shape[3:]), 1, 3).astype(float)
    fresh = np.random.default_rng(0).normal(size=(5, *sample.shape[1:]))
    numbers = list(range(images.shape[3]))
    for group in [numbers] if channels == "joint" else [[c] for c in numbers]:
        rows, patches = (
            as_met(part[..., group].reshape(len(part), -1), recipe, contrast_offset)
            for part in (sample, fresh)
        )
        covariance = np.cov(rows.T, bias=True) + recipe.variance_offset * np.eye(rows.shape[1])
        left, values, right = np.linalg.svd(covariance)
        matrix = left / np.sqrt(values) @ right
        h = bank.filters[:, ::-1, ::-1, group].reshape(len(bank), -1)
        offsets = bank.offsets.reshape(len(bank), -1)[:, 0 if channels == "joint" else group[0]]
        # Without normalised contrast the mean of a patch does not count either.
        raw = patches if contrast_offset else fresh[..., group].reshape(5, -1)
        mean = rows.mean(axis=0)
        yield raw @ h.T + offsets, (patches - mean) @ matrix, (rows - mean) @ matrix


def along(patches, directions):
    return patches @ (directions / np.linalg.norm(directions, axis=-1, keepdims=True)).T


@st.composite
def whitened_cases(draw, kind, sizes, most_filters, **settings):
    n_filters, size = draw(st.integers(1, most_filters)), draw(sizes)
    keep_mean, variance_offset = draw(st.booleans()), draw(st.floats(1e-3, 10.0))
    recipe = kind(n_filters, size, variance_offset, keep_mean=keep_mean, **settings)
    return recipe, draw(CHANNELS), None if keep_mean else draw(CONTRAST_OFFSETS)


@given(labelled_images(min_side=3), whitened_cases(WhitenedPatches, st.integers(1, 3), 8))
def test_whitening_is_folded_into_filters(examples, case):
    """Every filter is some patch of the examples, not an even one, the same one in all channels."""
    recipe, channels, contrast_offset = case
    images = examples.images
    windows = np.lib.stride_tricks.sliding_window_view(images, (recipe.size,) * 2, axis=(1, 2))
    spread = np.ptp(windows.astype(float), axis=(-2, -1)).reshape(-1, images.shape[3])
    uneven = spread.any(axis=1) if channels == "joint" else spread.all(axis=1)
    matches = (uneven | ~uneven.any())[None]
    for found, patches, whitened in whitened_groups(recipe, images, channels, contrast_offset):
        # A direction made of rounding errors is any direction.
        assume(np.linalg.norm(whitened[matches.any(axis=0)], axis=1).min() > 1e-6)
        with np.errstate(invalid="ignore"):
            expected = along(patches, whitened)
        tolerance = 1e-8 / recipe.variance_offset
        close = np.isclose(found.T[:, :, None], expected[None], 1e-7, tolerance)
        matches = matches & close.all(axis=1)
        assert matches.any(axis=1).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.data(), st.integers(1, 5))
def test_centroids_are_folded_into_filters(seed, n_channels, data, n_iterations):
    """From some of the five patches, whichever they are."""
    images = np.random.default_rng(seed).random((5, 3, 3, n_channels))
    case = data.draw(whitened_cases(KMeansPatches, st.just(3), 3, n_iterations=n_iterations))
    recipe, channels, contrast_offset = case
    starts = set(permutations(range(5), recipe.n_filters))
    for found, patches, whitened in whitened_groups(recipe, images, channels, contrast_offset):
        for chosen in list(starts):
            directions = clustered(whitened, whitened[list(chosen)], n_iterations)
            sure = np.linalg.norm(directions, axis=1) > 1e-6
            expected = along(patches, directions)[:, sure]
            tolerance = 1e-8 / recipe.variance_offset
            if not np.allclose(found[:, sure], expected, 1e-7, tolerance):
                starts.remove(chosen)
    assert starts


@pytest.mark.parametrize("recipe", [WhitenedPatches(6, 3), KMeansPatches(6, 3)])
@pytest.mark.parametrize("channels", ["joint", "each"])
def test_blank_images_give_filters_without_warnings(recipe, channels):
    for brightness in (0.0, 0.7):
        bank = bank_of(recipe, np.full((2, 5, 5, 2), brightness), None, channels=channels)
        assert np.abs(bank.filters).max() < 10.0


def test_empty_clusters_keep_their_centroid():
    images = np.zeros((1, 4, 4, 1))
    images[0, 0, 0] = 1.0
    # One of nine patches is not even: all clusters start from it.
    bank = bank_of(KMeansPatches(5, 2), images, None)
    assert len(bank) == 5
    assert np.isfinite(bank.filters).all()
