"""Filter banks: what `filters` may be, recipes from examples, and filters from files."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import convolve2d

from onlinels import ConvolutionalFeatures, FilterBank, KMeansPatches, Patches, WhitenedPatches
from onlinels.features.filters import (
    OVERFEAT_FILES,
    hand_designed,
    make_bank,
    parts_of,
    read_filters,
)
from onlinels.features.patches import choose, sample_patches
from strategies import filter_arrays, labelled_images, whitened_settings

IMAGES = np.random.default_rng(0).random((6, 9, 9, 3))

LABELS = ["a", "b", "a", "c", "b", "a"]


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


@pytest.mark.parametrize(("own", "others"), [(2, [1, 3, 4]), (3, [5, 6]), (4, [1, 2, 3, 5])])
def test_other_channels_do_not_fit(own, others):
    for n_channels in others:
        with pytest.raises(ValueError, match=f"Images have {n_channels} channels, expected"):
            random_bank(1, 2, own).for_channels(n_channels)


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
        ((), ValueError, "empty tuple"),
        (("hand-designed", "bars"), ValueError, "'bars' is not known"),
        ((np.ones((1, 3, 3)), np.ones((1, 3, 4))), ValueError, "square filters"),
        ([Patches()], TypeError, "filters has dtype object"),
        ([np.ones((2, 3, 3)), np.ones((2, 5, 5))], ValueError, "lists of different lengths"),
    ],
)
def test_bad_filters(filters, error, message):
    with pytest.raises(error, match=message):
        parts_of(filters)
    with pytest.raises(error, match=message):
        make_bank(filters, IMAGES, LABELS)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "There are no images, expected some for Patches"),
        ({"images": IMAGES}, ValueError, "Pass labels"),
        ({"images": IMAGES, "labels": LABELS[:2]}, ValueError, "2 labels, expected 6"),
        ({"images": IMAGES[:, :5], "labels": LABELS}, ValueError, "size=7 exceeds images of 5 x 9"),
    ],
)
def test_bad_examples(arguments, error, message):
    with pytest.raises(error, match=message):
        make_bank(Patches(), **arguments)


contrast_offsets = st.one_of(st.none(), st.floats(1e-4, 10.0))


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
def test_what_contradicts_a_contrast_offset_is_refused_before_any_image(kind):
    recipe = kind(3, 4, keep_mean=True)
    for filters in (recipe, ("hand-designed", (recipe,))):
        with pytest.raises(ValueError, match=r"keep_mean=True with contrast_offset=0\.1"):
            ConvolutionalFeatures(filters, contrast_offset=0.1)
        assert not ConvolutionalFeatures(filters).is_fixed


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


@pytest.mark.parametrize("recipe", [WhitenedPatches, KMeansPatches])
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_filters": 0}, ValueError, "n_filters=0"),
        ({"variance_offset": np.nan}, ValueError, "variance_offset=nan"),
        ({"keep_mean": 1}, TypeError, "keep_mean=1"),
        ({"n_filters": 9, "n_sample": 8}, ValueError, "n_sample=8 must be at least 9"),
    ],
)
def test_bad_settings(recipe, settings, error, message):
    with pytest.raises(error, match=message):
        recipe(**settings)


@pytest.mark.parametrize("recipe", [Patches(2, 6), WhitenedPatches(2, 6), KMeansPatches(2, 6)])
def test_patches_must_fit_the_images(recipe):
    with pytest.raises(ValueError, match="size=6 exceeds images of 9 x 5 pixels"):
        make_bank(recipe, IMAGES[:, :, :5], ["a"] * 6)


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
    offsets = made.offsets if made.offsets.ndim == 2 and not joint else made.offsets[:, None]
    groups = [made.filters] if joint else np.split(made.filters, images.shape[3], axis=3)
    for group, offset in zip(groups, np.broadcast_to(offsets.T, (len(groups), 4)), strict=True):
        # Of normalised contrast, the pixels of a patch are about 1.
        largest = np.abs(images).max() if contrast_offset is None else 1.0
        responses = largest * np.sqrt(group[0].size) * np.linalg.norm(group.reshape(4, -1), axis=1)
        most = recipe.largest * group[0].size * largest
        assert (responses + np.abs(offset) <= (1.0 + 1e-9) * most + 1e-12).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("filters")


def write_overfeat(path, size, values):
    """A file as large as OverFeat's that takes no room, with weights at its start."""
    with path.open("wb") as file:
        file.write(values.astype("<f4").tobytes())
        file.truncate(size)


@given(filters=filter_arrays((0, 1, 2, 3)), dtype=st.sampled_from(["f4", "f8", ">f8", "i2"]))
@pytest.mark.parametrize("name", ["", "weights", "filters", "anything"])
def test_arrays(folder, name, filters, dtype):
    stored = (filters * 100).astype(dtype)
    path = folder / ("bank.npz" if name else "bank.npy")
    if name in ("weights", "filters"):
        np.savez(path, **{name: stored, "names": np.array(["a", "b"])})
    elif name:
        np.savez_compressed(path, **{name: stored})
    else:
        np.save(path, stored)
    read = read_filters(str(path))
    assert read.dtype == np.float64
    assert read.shape == filters.shape
    expected = stored.astype(float) - stored.astype(float).mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(read, expected, atol=1e-9)
    assert make_bank(read).filters.shape[:3] == filters.shape[:3]


@pytest.mark.parametrize("size", OVERFEAT_FILES)
def test_overfeats_own_files(folder, size):
    name, shape = OVERFEAT_FILES[size]
    weights = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    write_overfeat(folder / name, size, weights)
    filters = read_filters(folder / name)
    side = shape[2]
    assert filters.shape == (96, side, side, 3)
    for out, channel in [(0, 0), (95, 2), (17, 1)]:
        plane = weights[out, channel].astype(float)
        np.testing.assert_allclose(filters[out, :, :, channel], plane - plane.mean(), atol=1e-12)
    np.testing.assert_allclose(filters.mean(axis=(1, 2)), 0.0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("net_weight_1", b"\0" * 100, ValueError, "100 bytes .*578,625,952 bytes.*OverFeat"),
        ("text.npy", b"hello", ValueError, "text.npy cannot be read"),
        ("zip.npz", b"PK\x03\x04 and then nothing", ValueError, "zip.npz cannot be read"),
        ("shape.npy", np.ones((2, 3, 7, 7)), ValueError, "square filters.*transpose"),
        ("flat.npy", np.ones((7, 7)), ValueError, "flat.npy: filters has shape"),
        ("nan.npy", np.full((1, 2, 2), np.nan), ValueError, "nan.npy holds nan"),
        ("text_array.npy", np.full((1, 2, 2), "a"), TypeError, "dtype <U1"),
        (
            "objects.npy",
            np.full((1, 2, 2), None),
            ValueError,
            "cannot be read: it holds other things than arrays of",
        ),
    ],
)
def test_bad_files(folder, name, content, error, message):
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        np.save(folder / name, content)
    with pytest.raises(error, match=message) as raised:
        read_filters(folder / name)
    assert "pickle" not in str(raised.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.ones((1, 2, 2)), "b": np.ones((1, 2, 2))}, r"\['a', 'b'\], expected one"),
        ({}, r"the arrays \[\]"),
        (
            {"objects": np.full((1, 2, 2), None)},
            "cannot be read: it holds other things than arrays of",
        ),
    ],
)
def test_bad_archives(folder, arrays, message):
    np.savez(folder / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_filters(folder / "bad.npz")


@pytest.mark.parametrize(
    ("name", "write"),
    [("a.npy", np.save), ("a.npz", np.savez), ("a.npz", np.savez_compressed)],
)
def test_files_with_any_one_byte_changed(folder, name, write):
    path = folder / name
    write(path, np.random.default_rng(0).normal(size=(2, 3, 3)))
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with contextlib.suppress(ValueError, TypeError):
            read_filters(path)


def test_missing_files(folder):
    for missing in (folder / "nowhere.npy", folder):
        with pytest.raises(FileNotFoundError, match=r"There is no file .*download_weights\.py"):
            read_filters(missing)
