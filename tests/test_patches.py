"""Filters from patches, against explicit computations on every patch."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import convolve2d

from onlinels import ConvolutionalFeatures
from onlinels.features.filters import make_bank
from onlinels.features.patches import (
    FoldedRecipe,
    KMeansPatches,
    Patches,
    WhitenedPatches,
    choose,
    draw,
    sample_patches,
)
from strategies import labelled_images, whitened_settings

contrast_offsets = st.one_of(st.none(), st.floats(1e-4, 10.0))
IMAGES = np.random.default_rng(0).random((6, 9, 9, 3))


@given(labelled_images(), st.integers(1, 20), st.data())
def test_patches_are_the_middle_of_images_of_each_class(examples, n_filters, data):
    images, labels = examples.images.astype(float), examples.labels
    height, width = images.shape[1:3]
    size = data.draw(st.integers(1, min(height, width)))
    bank = make_bank(Patches(n_filters, size), examples.images, labels)
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


def normalized(rows, contrast_offset):
    """Each row less its mean, divided by sqrt(variance + offset), one by one."""
    scales = [1.0 if contrast_offset is None else np.sqrt(r.var() + contrast_offset) for r in rows]
    return np.array([(r - r.mean()) / s for r, s in zip(rows, scales, strict=True)])


def whitening_of(rows, variance_offset):
    """Mean and symmetric inverse root of the covariance, by another decomposition."""
    centred = rows - rows.mean(axis=0)
    covariance = centred.T @ centred / len(rows) + variance_offset * np.eye(rows.shape[1])
    left, values, right = np.linalg.svd(covariance)
    return rows.mean(axis=0), left / np.sqrt(values) @ right


def unit(rows):
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clustered(rows, centroids, n_iterations):
    """Lloyd's algorithm, literally."""
    for _ in range(n_iterations):
        nearest = ((rows[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
        centroids = np.array(
            [
                rows[nearest == k].mean(axis=0) if k in nearest else c
                for k, c in enumerate(centroids)
            ]
        )
    return centroids


def met(rows, recipe, contrast_offset):
    """Rows of patches as filters of a recipe meet them."""
    return rows.astype(float) if recipe.keep_mean else normalized(rows, contrast_offset)


def check_responses(recipe, images, joint, seed, contrast_offset):
    """The convolution of a patch plus offset is d . whiten(patch), for every patch and filter."""
    bank = make_bank(recipe, images, None, seed, joint, contrast_offset)
    random = np.random.default_rng([seed, 1])
    sample = sample_patches(images, recipe.size, recipe.n_sample, random)
    chosen = choose(sample, recipe.n_filters, random, joint)
    fresh = np.random.default_rng(seed).normal(size=(5, *sample.shape[1:]))
    n_channels = sample.shape[3]
    for channels in [list(range(n_channels))] if joint else [[c] for c in range(n_channels)]:
        rows, patches = (
            met(part[..., channels].reshape(len(part), -1), recipe, contrast_offset)
            for part in (sample, fresh)
        )
        mean, matrix = whitening_of(rows, recipe.variance_offset)
        whitened = (rows - mean) @ matrix
        directions = whitened[chosen]
        if isinstance(recipe, KMeansPatches):
            directions = clustered(whitened, directions, recipe.n_iterations)
        if np.linalg.norm(directions, axis=1).min() < 1e-6:
            continue  # A direction made of rounding errors is any direction.
        expected = (patches - mean) @ matrix @ unit(directions).T
        offsets = bank.offsets.reshape(len(bank), -1)[:, 0 if joint else channels[0]]
        shape = (len(fresh), recipe.size, recipe.size, len(channels))
        for k, h in enumerate(bank.filters[..., channels]):
            for patch, response in zip(patches.reshape(shape), expected[:, k], strict=True):
                planes = [
                    convolve2d(patch[..., c], h[..., c], "valid") for c in range(len(channels))
                ]
                tolerance = 1e-8 / recipe.variance_offset
                assert np.allclose(sum(planes) + offsets[k], response, 1e-7, tolerance)
    return bank


@given(
    labelled_images(min_side=4),
    whitened_settings(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    contrast_offsets,
)
def test_whitening_is_folded_into_filters(examples, settings, joint, seed, contrast_offset):
    recipe = WhitenedPatches(**settings)
    bank = check_responses(recipe, examples.images, joint, seed, contrast_offset)
    assert bank.filters.shape[:3] == (settings["n_filters"], settings["size"], settings["size"])
    # So that without normalised contrast the mean of a patch does not count either.
    over = (1, 2, 3) if joint else (1, 2)
    largest = np.abs(bank.filters).max()
    np.testing.assert_allclose(bank.filters.mean(axis=over), 0.0, atol=1e-13 * largest)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_channels=st.integers(1, 3),
    n_iterations=st.integers(1, 5),
    settings=whitened_settings(),
    joint=st.booleans(),
    contrast_offset=contrast_offsets,
)
def test_centroids_are_folded_into_filters(
    seed, n_channels, n_iterations, settings, joint, contrast_offset
):
    images = np.random.default_rng(seed).random((4, 8, 8, n_channels))
    settings["size"] = max(2, settings["size"])
    recipe = KMeansPatches(**settings, n_iterations=n_iterations)
    check_responses(recipe, images, joint, seed, contrast_offset)


@given(
    labelled_images(min_side=4),
    whitened_settings(),
    st.sampled_from([WhitenedPatches, KMeansPatches]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_filters_of_patches_that_keep_their_mean(examples, settings, kind, joint, seed):
    recipe = kind(**settings, keep_mean=True)
    check_responses(WhitenedPatches(**settings, keep_mean=True), examples.images, joint, seed, None)
    images = np.random.default_rng(seed).random((4, 8, 8, 2)) + 3.0
    check_responses(recipe, images, joint, seed, None)


@pytest.mark.parametrize("kind", [WhitenedPatches, KMeansPatches])
def test_filters_see_brightness_only_where_patches_keep_their_mean(kind):
    photos = np.random.default_rng(0).random((30, 7, 7, 3))
    photos += np.random.default_rng(1).random((30, 1, 1, 3))
    patch = np.ones((1, 4, 4, 3))
    for keep_mean in (False, True):
        bank = make_bank(kind(5, 4, n_sample=400, keep_mean=keep_mean), photos, joint=True)
        sums = (bank.filters * patch).sum(axis=(1, 2, 3))
        assert (np.abs(sums) > 1e-3).all() == keep_mean
        assert (np.abs(sums) < 1e-9).all() != keep_mean


def test_a_mean_that_no_patch_has_is_not_kept():
    recipe = WhitenedPatches(3, 4, keep_mean=True)
    with pytest.raises(ValueError, match=r"keep_mean=True with contrast_offset=0.*expected None"):
        make_bank(recipe, IMAGES, joint=True, contrast_offset=0.5)


@pytest.mark.parametrize("kind", [WhitenedPatches, KMeansPatches])
def test_what_contradicts_a_contrast_offset_is_refused_before_any_image(kind):
    recipe = kind(3, 4, keep_mean=True)
    for filters in (recipe, ("hand-designed", (recipe,))):
        with pytest.raises(ValueError, match=r"keep_mean=True with contrast_offset=0\.1"):
            ConvolutionalFeatures(filters, contrast_offset=0.1)
        assert not ConvolutionalFeatures(filters).is_fixed


def test_plain_images_meet_whitened_patches_where_contrast_is_left_alone():
    recipe = WhitenedPatches(3, 4, variance_offset=0.5, n_sample=50)
    bank = make_bank(recipe, IMAGES, joint=True)
    patch = np.random.default_rng(1).random((4, 4, 3))
    for shift in (0.0, 7.0):
        planes = [
            convolve2d(patch[..., c] + shift, bank.filters[0, ..., c], "valid") for c in range(3)
        ]
        if not shift:
            first = sum(planes)
    np.testing.assert_allclose(sum(planes), first, atol=1e-10)


@pytest.mark.parametrize("recipe", [WhitenedPatches(6, 3), KMeansPatches(6, 3)])
@pytest.mark.parametrize("joint", [True, False])
def test_blank_images_give_filters_without_warnings(recipe, joint):
    for brightness in (0.0, 0.7):
        bank = make_bank(recipe, np.full((2, 5, 5, 2), brightness), joint=joint)
        assert np.abs(bank.filters).max() < 10.0


def test_empty_clusters_keep_their_centroid():
    images = np.zeros((1, 4, 4, 1))
    images[0, 0, 0] = 1.0
    # One of nine patches is not even: all clusters start from it.
    bank = make_bank(KMeansPatches(5, 2), images)
    assert len(bank) == 5
    assert np.isfinite(bank.filters).all()


def test_even_patches_become_filters_only_if_there_are_no_others():
    patches = np.zeros((20, 2, 2, 2))
    patches[[3, 7], 0, 1, 1] = 1.0
    random = np.random.default_rng(0)
    for joint in (True, False):
        assert sorted(choose(patches, 2, random, joint)) == [3, 7]
        assert set(choose(patches, 5, random, joint)) <= {3, 7}
        assert len(set(choose(np.ones((20, 2, 2, 1)), 20, random, joint))) == 20
    patches[7, 0, 1, 0] = 1.0
    assert choose(patches, 2, random, joint=False).tolist() == [7, 7]
    assert sorted(choose(patches, 2, random, joint=True)) == [3, 7]


@given(labelled_images(), st.integers(1, 300), st.integers(0, 2**32 - 1), st.data())
def test_every_place_is_drawn_at_most_once(examples, n_patches, seed, data):
    shape = examples.images.shape
    size = data.draw(st.integers(1, min(shape[1:3])))
    # Pixels that name their place.
    images = np.arange(np.prod(shape), dtype=float).reshape(shape)
    patches = sample_patches(images, size, n_patches, np.random.default_rng(seed))
    n_places = shape[0] * (shape[1] - size + 1) * (shape[2] - size + 1)
    assert patches.shape == (min(n_patches, n_places), size, size, shape[3])
    for patch in patches:
        image, top, left, _ = np.argwhere(images == patch[0, 0, 0])[0]
        assert np.array_equal(patch, images[image, top : top + size, left : left + size])
    assert len(np.unique(patches[:, 0, 0, 0])) == len(patches)


@given(st.integers(1, 20), st.integers(0, 40), st.integers(0, 99))
def test_replacement_only_where_there_are_too_few(n_available, n_wanted, seed):
    drawn = draw(np.random.default_rng(seed), n_available, n_wanted)
    assert len(drawn) == n_wanted
    assert set(drawn) <= set(range(n_available))
    if n_wanted <= n_available:
        assert max(Counter(drawn.tolist()).values(), default=0) <= 1


def test_the_sample_is_bounded_by_memory(monkeypatch):
    seen = []
    monkeypatch.setattr("onlinels.features.patches.SAMPLE_BYTES", 8 * 3 * 2**2 * 40)
    fold = FoldedRecipe._fold

    def spy(self, rows, chosen):
        seen.append(len(rows))
        return fold(self, rows, chosen)

    monkeypatch.setattr(FoldedRecipe, "_fold", spy)
    make_bank(WhitenedPatches(30, 2), IMAGES, joint=True)
    make_bank(WhitenedPatches(30, 2, n_sample=35), IMAGES, joint=True)
    make_bank(WhitenedPatches(50, 2), IMAGES, joint=True)
    assert seen == [40, 35, 50]


@pytest.mark.parametrize("recipe", [WhitenedPatches, KMeansPatches])
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_filters": 0}, ValueError, "n_filters=0"),
        ({"size": 2.5}, TypeError, "size=2.5"),
        ({"variance_offset": np.nan}, ValueError, "variance_offset=nan"),
        ({"variance_offset": None}, TypeError, "variance_offset=None"),
        ({"variance_offset": True}, TypeError, "variance_offset=True"),
        ({"keep_mean": 1}, TypeError, "keep_mean=1"),
        ({"n_filters": 9, "n_sample": 8}, ValueError, "n_sample=8 must be at least 9"),
    ],
)
def test_bad_settings(recipe, settings, error, message):
    with pytest.raises(error, match=message):
        recipe(**settings)


def test_bad_settings_of_one_recipe():
    with pytest.raises(ValueError, match="n_filters=0"):
        Patches(n_filters=0)
    with pytest.raises(ValueError, match="size=0"):
        Patches(size=0)
    with pytest.raises(ValueError, match="n_iterations=0"):
        KMeansPatches(n_iterations=0)


def test_recipes_are_equal_by_their_settings():
    assert Patches(3, 5) == Patches(3, 5)
    assert WhitenedPatches(3) != KMeansPatches(3)
    assert hash(KMeansPatches(3)) == hash(KMeansPatches(3))


@pytest.mark.parametrize("recipe", [Patches(2, 6), WhitenedPatches(2, 6), KMeansPatches(2, 6)])
def test_patches_must_fit_the_images(recipe):
    with pytest.raises(ValueError, match="size=6 exceeds images of 9 x 5 pixels"):
        make_bank(recipe, IMAGES[:, :, :5], ["a"] * 6)


def test_no_channel_of_a_filter_is_of_an_even_patch_while_there_are_others():
    random = np.random.default_rng(0)
    images = random.random((40, 6, 6, 2))
    images[:30, :, :, 1] = 0.5
    bank = WhitenedPatches(8, size=6, n_sample=40).make(images, None, random)
    for channel in range(2):
        filters = bank.filters[..., channel].reshape(8, -1)
        cosines = filters @ filters.T / np.outer(*[np.linalg.norm(filters, axis=1)] * 2)
        assert np.abs(np.triu(cosines, 1)).max() < 0.999


@pytest.mark.parametrize("contrast_offset", [None, 0.1])
@given(
    labelled_images(min_side=3),
    st.sampled_from([Patches(4, 3), WhitenedPatches(4, 3), KMeansPatches(4, 3)]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9),
)
def test_made_banks_never_exceed_their_bounds(
    contrast_offset, examples, recipe, joint, keep_mean, seed
):
    images, labels = examples.images, examples.labels
    if keep_mean and contrast_offset is None and not isinstance(recipe, Patches):
        recipe = dataclasses.replace(recipe, keep_mean=True)
    random = np.random.default_rng(seed)
    made = recipe.make(images, labels, random, joint, contrast_offset)
    largest, n_channels = float(np.abs(images).max()), images.shape[3]
    bound = recipe.bound(largest, n_channels, contrast_offset is not None)
    slack = 1.0 + 1e-9
    assert np.abs(made.filters).max() <= slack * bound.filters.max()
    assert np.abs(made.offsets).max() <= slack * bound.offsets.max() + 1e-12
