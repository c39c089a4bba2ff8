"""Distortions of images against scipy's interpolation, and the laws they obey."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from onlinels import Distortion

MODES = {"zero": "grid-constant", "edge": "nearest"}

"""What scipy calls the ways to fill."""

seeds = st.integers(0, 2**32 - 1)

fills = st.sampled_from(list(MODES))

distortions = st.builds(
    Distortion,
    rotation=st.sampled_from([0.0, 10.0, 180.0]),
    scale=st.sampled_from([0.0, 0.1, 0.9]),
    shear=st.sampled_from([0.0, 0.2]),
    shift=st.sampled_from([0.0, 1.5, 30.0]),
    elastic_strength=st.sampled_from([0.0, 1.5]),
    elastic_smoothness=st.sampled_from([0.05, 0.7, 4.0]),
    flip=st.sampled_from([0.0, 0.5, 1.0]),
    fill=fills,
)

dtypes = st.sampled_from([np.float64, np.float32, np.uint8, np.int64, np.bool_, np.float16])


@st.composite
def image_batches(draw, min_images=1):
    n_images = draw(st.integers(min_images, 6))
    shape = (n_images, *draw(st.tuples(st.integers(1, 12), st.integers(1, 12))))
    shape += draw(st.sampled_from([(), (1,), (3,)]))
    random = np.random.default_rng(draw(seeds))
    return random.integers(0, 256, shape).astype(draw(dtypes))


def by_scipy(images, rows, columns, fill):
    """Sample channel by channel, image by image."""
    wanted = np.empty((*rows.shape, images.shape[3]))
    for k, channel in np.ndindex(len(images), images.shape[3]):
        picture = images[k, ..., channel].astype(np.float64)
        wanted[k, ..., channel] = ndimage.map_coordinates(
            picture, [rows[k], columns[k]], order=1, mode=MODES[fill]
        )
    return wanted


@given(images=image_batches(), distortion=distortions, seed=seeds)
def test_distorting_is_one_bilinear_sampling_at_the_places_drawn(images, distortion, seed):
    rows, columns = distortion.places(*images.shape[:3], np.random.default_rng(seed))
    wanted = by_scipy(images.reshape(*images.shape[:3], -1), rows, columns, distortion.fill)
    distorted = distortion.distort(images, seed)
    assert distorted.dtype == (np.float64 if images.dtype == np.float64 else np.float32)
    assert np.allclose(distorted, wanted.reshape(images.shape), rtol=0.0, atol=255.0 * 2e-5)


@given(images=image_batches(), fill=fills, seed=seeds)
def test_without_distortion_or_flipped_values_are_the_very_same(images, fill, seed):
    assert (Distortion(fill=fill).distort(images, seed) == images).all()
    assert (Distortion(flip=1.0).distort(images, seed) == images[:, :, ::-1]).all()
    for given_image, image in zip(images, Distortion(flip=0.5).distort(images, seed), strict=True):
        assert (image == given_image).all() or (image == given_image[:, ::-1]).all()


def test_every_amount_is_drawn_apart_from_the_others():
    settings = Distortion(30.0, 0.2, 0.3, 2.0, flip=0.5)
    rows, columns = settings.places(4000, 3, 3, np.random.default_rng(0))
    places = np.stack([rows, columns], axis=1).astype(np.float64)
    back = np.stack(
        [places[:, :, 2, 1] - places[:, :, 0, 1], np.diff(places[:, :, 1, ::2])[..., 0]]
    )
    back = back.transpose(1, 2, 0) / 2.0
    mirrored = np.linalg.det(back) < 0.0
    back[mirrored, 1] *= -1.0
    offsets = (places[:, :, 1, 1] - 1.0) * np.where(mirrored[:, None], [1.0, -1.0], 1.0)
    forth = np.linalg.inv(back)
    shifts = -(forth @ offsets[..., None])[..., 0]
    angles = np.arctan2(forth[:, 0, 1], forth[:, 1, 1])
    widths = np.hypot(forth[:, 0, 1], forth[:, 1, 1])
    heights = np.linalg.det(forth) / widths
    slants = (forth[:, :, 0] * forth[:, :, 1]).sum(axis=1) / (widths * heights)
    amounts = [angles, heights, widths, slants, *shifts.T, mirrored]
    spreads = [np.deg2rad(30.0), 0.2, 0.2, 0.3, 2.0, 2.0, 3.0**0.5 / 2.0]
    # A uniform number between -1 and 1 has variance 1/3.
    assert np.allclose(np.std(amounts, axis=1), np.divide(spreads, 3.0**0.5), rtol=0.05)
    assert np.allclose(np.corrcoef(amounts), np.eye(7), atol=0.07)


def test_fields_have_the_strength_and_correlation_asked_for():
    settings = Distortion(elastic_strength=1.5, elastic_smoothness=3.0)
    rows, columns = settings.places(4000, 12, 10, np.random.default_rng(0))
    fields = np.stack([rows, columns]) - np.indices((12, 10))[:, None]
    assert np.allclose(np.square(fields).mean(axis=1), 1.5**2, rtol=0.15)
    near = (fields[:, :, 5, 5] * fields[:, :, 5, 8]).mean(axis=1) / 1.5**2
    assert np.allclose(near, np.exp(-(3.0**2) / 36.0), atol=0.08)
    assert abs((fields[0] * fields[1]).mean()) < 0.1


@given(images=image_batches(min_images=2), distortion=distortions, seed=seeds, data=st.data())
def test_parts_in_order_come_out_as_the_whole_does(images, distortion, seed, data):
    whole = distortion.distort(images, seed)
    cut = data.draw(st.integers(1, len(images) - 1))
    random = np.random.default_rng(seed)
    parts = [distortion.distort(part, random) for part in (images[:cut], images[cut:])]
    assert (np.concatenate(parts) == whole).all()


@pytest.mark.parametrize("elastic_strength", [0.0, 2.0])
def test_a_batch_of_many_tiles_comes_out_as_its_images_do(elastic_strength):
    settings = Distortion(20.0, 0.1, 0.1, 2.0, elastic_strength, 4.0, 0.5)
    images = np.random.default_rng(0).random((500, 20, 18), dtype=np.float32)
    whole = settings.distort(images, 5)
    random = np.random.default_rng(5)
    alone = [settings.distort(image[None], random) for image in images]
    assert (np.concatenate(alone) == whole).all()


@given(images=image_batches(), distortion=distortions, seed=seeds, n_copies=st.integers(0, 3))
def test_copies_are_batches_distorted_one_after_the_other(images, distortion, seed, n_copies):
    before = images.copy()
    copies = list(distortion.copies(images, n_copies, seed))
    random = np.random.default_rng(seed)
    assert len(copies) == n_copies
    for copy in copies:
        assert (copy == distortion.distort(images, random)).all()
        assert not np.shares_memory(copy, images)
    assert (images == before).all()


IMAGES = np.ones((2, 3, 3))
BAD_SETTINGS = [
    ({"rotation": "10"}, TypeError, "rotation='10' must be a number"),
    ({"rotation": 181.0}, ValueError, "rotation=181.0 must be from 0 to 180"),
    ({"flip": np.nan}, ValueError, "flip=nan must be from 0 to 1"),
    ({"elastic_strength": 1.0}, ValueError, "elastic_smoothness=0 with elastic_strength=1.0"),
    ({"fill": "mirror"}, ValueError, 'fill=\'mirror\' is not known. Pass one of "zero", "edge"'),
]
BAD_IMAGES = [
    ([[1.0]], 0, TypeError, "images is of type list"),
    (np.ma.masked_array(IMAGES), 0, TypeError, "images is a masked array"),
    (IMAGES[0], 0, ValueError, r"images has shape \(3, 3\)"),
    (IMAGES.astype(str), 0, TypeError, "images has dtype <U32"),
    (IMAGES * np.nan, 0, ValueError, r"images holds nan at position \(0, 0, 0\)"),
    (IMAGES, 1.0, TypeError, "random=1.0 must be a numpy Generator or an int"),
    (IMAGES, -1, ValueError, "random=-1 must be at least 0"),
]


def test_bad_calls():
    for settings, error, message in BAD_SETTINGS:
        with pytest.raises(error, match=message):
            Distortion(**settings)
    for images, random, error, message in BAD_IMAGES:
        with pytest.raises(error, match=message):
            Distortion().distort(images, random)
        with pytest.raises(error, match=message):
            Distortion().copies(images, 1, random)


def test_extreme_settings_give_numbers():
    settings = Distortion(180.0, 0.99, 10.0, 1e6, 1e6, 1e6, 1.0)
    assert np.isfinite(settings.distort(IMAGES, 0)).all()
    tiny = Distortion(elastic_strength=1.0, elastic_smoothness=1e-300)
    assert np.isfinite(tiny.distort(IMAGES, 0)).all()
