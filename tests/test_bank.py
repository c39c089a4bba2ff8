"""Filter banks: which channels meet, combinations, and what `filters` may be."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import convolve2d

from onlinels.features.filters import (
    FilterBank,
    check_filters,
    hand_designed,
    make_bank,
    recipes,
)
from onlinels.features.patches import KMeansPatches, Patches, WhitenedPatches
from onlinels.features.transformers import ConvolutionalFeatures
from strategies import filter_arrays, labelled_images

IMAGES = np.random.default_rng(0).random((6, 9, 9, 3))
LABELS = ["a", "b", "a", "c", "b", "a"]


def responses(bank, image):
    """x * h + offset for each filter and channel, from the definition of a convolution."""
    offsets = bank.offsets.reshape(len(bank), -1)
    return np.array(
        [
            [
                convolve2d(image[..., c], h[..., c], mode="valid") + o[min(c, len(o) - 1)]
                for c in range(image.shape[2])
            ]
            for h, o in zip(bank.filters, offsets, strict=True)
        ]
    )


def random_bank(n_filters, size, n_channels, seed=0, own_offsets=True):
    random = np.random.default_rng(seed)
    shape = (n_filters, n_channels) if own_offsets else (n_filters,)
    return FilterBank(
        random.normal(size=(n_filters, size, size, n_channels)), random.normal(size=shape)
    )


def grey(values):
    return 0.299 * values[..., 0] + 0.587 * values[..., 1] + 0.114 * values[..., 2]


@given(
    n_filters=st.integers(1, 4), size=st.integers(1, 4), own=st.booleans(), seed=st.integers(0, 99)
)
def test_three_channels_meet_grey_images_pairs_and_a_fourth_channel(n_filters, size, own, seed):
    bank = random_bank(n_filters, size, 3, seed, own)
    in_grey = grey(bank.filters)
    for n_channels in (1, 2):
        fitted = bank.for_channels(n_channels)
        assert fitted.filters.shape == (n_filters, size, size, n_channels)
        for channel in range(n_channels):
            np.testing.assert_allclose(fitted.filters[..., channel], in_grey, rtol=1e-13)
    four = bank.for_channels(4)
    assert np.array_equal(four.filters[..., :3], bank.filters)
    np.testing.assert_allclose(four.filters[..., 3], in_grey, rtol=1e-13)
    if own:
        assert np.array_equal(four.offsets[:, :3], bank.offsets)
        np.testing.assert_allclose(four.offsets[:, 3], grey(bank.offsets), rtol=1e-13)
    else:
        assert np.array_equal(four.offsets, bank.offsets)
    assert bank.for_channels(3) is bank


@given(n_channels=st.integers(1, 8), seed=st.integers(0, 99))
def test_one_channel_serves_all(n_channels, seed):
    bank = random_bank(3, 2, 1, seed)
    fitted = bank.for_channels(n_channels)
    assert np.array_equal(fitted.filters, np.repeat(bank.filters, n_channels, axis=3))
    assert np.array_equal(fitted.offsets, np.repeat(bank.offsets, n_channels, axis=1))


@pytest.mark.parametrize(("own", "others"), [(2, [1, 3, 4]), (3, [5, 6]), (4, [1, 2, 3, 5])])
def test_other_channels_do_not_fit(own, others):
    for n_channels in others:
        with pytest.raises(ValueError, match=f"Images have {n_channels} channels, expected"):
            random_bank(1, 2, own).for_channels(n_channels)


@given(filter_arrays())
def test_arrays_are_taken_as_they_are(filters):
    bank = make_bank(filters)
    assert np.array_equal(bank.filters.reshape(filters.shape), filters)
    assert bank.filters.ndim == 4
    assert not bank.offsets.any()
    assert np.array_equal(make_bank(filters.tolist()).filters, bank.filters)


@given(data=st.data(), n_banks=st.integers(1, 4), n_channels=st.sampled_from([1, 3]))
def test_combinations_keep_every_response(data, n_banks, n_channels):
    arrays = [data.draw(filter_arrays((0, 1, n_channels))) for _ in range(n_banks)]
    both = make_bank(tuple(arrays))
    assert len(both) == sum(map(len, arrays))
    image = np.random.default_rng(1).random((12, 12, n_channels))
    size = both.filters.shape[1]
    assert size == max(array.shape[1] for array in arrays)
    combined = iter(responses(both.for_channels(n_channels), image))
    for array in arrays:
        # A filter in the middle of zeros responds as it does alone, away from the border.
        behind = -(-(size - array.shape[1]) // 2)
        n_rows = 12 - size + 1
        kept = slice(behind, behind + n_rows)
        for response in responses(make_bank(array).for_channels(n_channels), image):
            expected = response[:, kept, kept]
            np.testing.assert_allclose(next(combined), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_banks_of_any_channels_meet_those_of_the_images(n_channels):
    colour = random_bank(2, 5, 3)
    images = np.random.default_rng(2).random((3, 9, 9, n_channels))
    bank = make_bank(("hand-designed", colour, Patches(3, 4)), images, LABELS[:3])
    assert bank.filters.shape == (48, 7, 7, n_channels)
    assert np.array_equal(bank.filters[:43], np.repeat(hand_designed()[..., None], n_channels, 3))
    fitted = colour.for_channels(n_channels)
    assert np.array_equal(bank.filters[43:45, 1:6, 1:6], fitted.filters)
    assert np.array_equal(bank.offsets[43:45], fitted.offsets)
    assert not bank.offsets[45:].any()


def test_offsets_of_summed_channels_are_summed():
    each, shared = random_bank(2, 3, 3, 0), random_bank(1, 3, 3, 1, own_offsets=False)
    bank = make_bank((each, shared), joint=True)
    np.testing.assert_allclose(bank.offsets, [*each.offsets.sum(axis=1), *shared.offsets])
    apart = make_bank((each, shared))
    np.testing.assert_allclose(apart.offsets, [*each.offsets, np.repeat(shared.offsets, 3)])


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


def test_banks_of_different_channels_need_images():
    with pytest.raises(ValueError, match=r"banks of \[2, 3\] channels"):
        make_bank((random_bank(1, 2, 2), random_bank(1, 2, 3)))


@given(labelled_images(min_side=4), st.integers(0, 2**32 - 1), st.booleans())
def test_a_bank_is_a_function_of_recipe_seed_and_examples(examples, seed, joint):
    recipes = (Patches(5, 3), (WhitenedPatches(4, 3, n_sample=30), KMeansPatches(3, 4, n_sample=9)))
    made = [
        make_bank(recipes, examples.images, examples.labels, seed, joint=joint) for _ in range(2)
    ]
    assert np.array_equal(made[0].filters, made[1].filters)
    assert np.array_equal(made[0].offsets, made[1].offsets)
    assert len(made[0]) == 12
    alone = make_bank(recipes[0], examples.images, examples.labels, seed, joint)
    assert np.array_equal(made[0].filters[:5, :3, :3], alone.filters)


def test_seeds_and_places_differ():
    recipe = WhitenedPatches(4, 3, n_sample=30)
    bank = make_bank((recipe, recipe), IMAGES)
    assert not np.allclose(bank.filters[:4], bank.filters[4:])
    assert not np.allclose(make_bank(recipe, IMAGES, seed=1).filters, bank.filters[:4])


def test_what_needs_examples():
    assert not recipes("hand-designed")
    assert not recipes((hand_designed(), ("hand-designed", make_bank("hand-designed"))))
    assert recipes(Patches())
    assert recipes(("hand-designed", (KMeansPatches(),)))


def test_a_bank_is_never_written_to():
    filters, offsets = np.ones((1, 2, 2, 1)), np.zeros(1)
    bank = FilterBank(filters, offsets)
    filters[:] = 9.0
    assert bank.filters.max() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        bank.filters[0] = 2.0
    assert copy.deepcopy(bank) is bank
    assert make_bank(bank) is bank
    back = pickle.loads(pickle.dumps(bank))
    assert np.array_equal(back.filters, bank.filters)
    assert not back.filters.flags.writeable
    assert repr(random_bank(2, 3, 4)) == "FilterBank(2 filters of 3 x 3, 4 channels)"


@pytest.mark.parametrize(
    ("filters", "offsets", "error", "message"),
    [
        (np.ones((2, 3, 3)), np.zeros(2), ValueError, "filters has shape"),
        (np.ones((0, 3, 3, 1)), np.zeros(0), ValueError, "filters has shape"),
        (np.ones((2, 3, 3, 3)), np.zeros(3), ValueError, r"expected \(2,\) or \(2, 3\)"),
        (np.ones((2, 3, 3, 3)), np.zeros((2, 1)), ValueError, "offsets has shape"),
        (np.full((1, 1, 1, 1), np.nan), np.zeros(1), ValueError, "filters holds nan"),
        (np.ones((1, 1, 1, 1)), np.full(1, np.inf), ValueError, "offsets holds inf"),
        (np.full((1, 1, 1, 1), "a"), np.zeros(1), TypeError, "filters has dtype"),
        ([[1.0, 2.0], [1.0]], np.zeros(2), ValueError, "filters holds lists of different lengths"),
    ],
)
def test_bad_banks(filters, offsets, error, message):
    with pytest.raises(error, match=message):
        FilterBank(filters, offsets)


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        (None, TypeError, "filters holds None"),
        (Patches, TypeError, "a recipe such as Patches"),
        (3, TypeError, "filters holds 3"),
        ((), ValueError, "empty tuple"),
        (("hand-designed", None), TypeError, "filters holds None"),
        (("hand-designed", "bars"), ValueError, "'bars' is not known"),
        ((np.ones((1, 3, 3)), np.ones((1, 3, 4))), ValueError, "square filters"),
        ([Patches()], TypeError, "list of 1 members.*Pass a tuple to combine banks"),
        ([np.ones((2, 3, 3)), np.ones((2, 5, 5))], TypeError, "Pass a tuple to combine banks"),
        (["hand-designed", "hand-designed"], TypeError, "Pass a tuple to combine banks"),
    ],
)
def test_bad_filters(filters, error, message):
    with pytest.raises(error, match=message):
        check_filters(filters)
    with pytest.raises(error, match=message):
        make_bank(filters, IMAGES, LABELS)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "There are no images, expected some for Patches"),
        ({"images": IMAGES}, ValueError, "Pass labels"),
        ({"images": IMAGES, "labels": LABELS[:2]}, ValueError, "2 labels, expected 6"),
        ({"images": IMAGES[:, :5], "labels": LABELS}, ValueError, "size=7 exceeds images of 5 x 9"),
        ({"images": IMAGES[:0], "labels": []}, ValueError, "0 images"),
        ({"images": IMAGES * np.nan, "labels": LABELS}, ValueError, "nan"),
        ({"images": IMAGES, "labels": LABELS, "seed": -1}, ValueError, "seed=-1"),
        ({"images": IMAGES, "labels": LABELS, "joint": 1}, TypeError, "joint=1"),
    ],
)
def test_bad_examples(arguments, error, message):
    with pytest.raises(error, match=message):
        make_bank(Patches(), **arguments)
