"""Presets: every value can be overridden, and small versions learn images of the genuine shapes."""

from __future__ import annotations

import numpy as np
import pytest

from onlinels import (
    ZCA,
    Patches,
    Power,
    ReceptiveFields,
    ShallowConvClassifier,
    TwoSidedRectifier,
)
from onlinels.presets import PARTS, PRESETS

SHAPES = {
    "mnist": (28, 28),
    "norb": (96, 96, 2),
    "svhn": (32, 32, 3),
    "cifar10": (32, 32, 3),
    "digits": (8, 8),
}
OTHER_VALUES = {
    "downsample": 4,
    "scale": 7.0,
    "grey_channel": False,
    "deskew": True,
    "whitening": ZCA(7.0),
    "image_shape": (48, 48),
    "dtype": "float64",
    "filters": np.ones((2, 5, 5)),
    "pool_size": 6,
    "stride": 7,
    "padding": 6,
    "drop_ring": 1,
    "normalize": "image",
    "before_pooling": TwoSidedRectifier(0.5),
    "after_pooling": Power(1.0),
    "channels": "joint",
    "contrast_offset": 0.7,
    "seed": 7,
    "n_hidden": 77,
    "input_weights": "gaussian",
    "activation": "relu",
    "bias": True,
    "receptive_fields": ReceptiveFields((7, 7)),
    "ridge": 0.7,
    "accumulator": "orthogonal",
    "fit_intercept": True,
    "forgetting_factor": 0.7,
    "half_life": 7.0,
    "pooling": "gaussian",
    "balance": "priors",
    "warm_up": 77,
}
GO_TOGETHER = {"bias": {"input_weights": "gaussian"}}


def striped(n_images, shape, dtype=np.uint8):
    """Noise with stripes along rows or columns, in every channel: two classes."""
    random = np.random.default_rng(len(shape))
    images = random.integers(0, 100, (n_images, *shape))
    labels = random.integers(0, 2, n_images)
    stripes = 100 * (np.arange(shape[0]) // (shape[0] // 8) % 2)
    for image, label in zip(images, labels, strict=True):
        image.swapaxes(0, 1 - label)[...] += stripes.reshape(-1, *[1] * (len(shape) - 1))
    return images.astype(dtype), np.array(["across", "down"])[labels]


def small(name, **settings):
    return ShallowConvClassifier.from_preset(
        name, **{"n_hidden": 40, "warm_up": 30, "ridge": "paper", **settings}
    )


def test_every_setting_of_a_preset_is_one_of_a_part():
    taken = {setting for settings in PARTS.values() for setting in settings}
    assert set(OTHER_VALUES) == taken
    assert set(SHAPES) == set(PRESETS)
    assert all(settings.keys() <= taken for settings in PRESETS.values())


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_can_be_overridden(name):
    for setting, value in OTHER_VALUES.items():
        overrides = {setting: value, **GO_TOGETHER.get(setting, {})}
        if setting == "image_shape" and PRESETS[name].get("grey_channel"):
            overrides["grey_channel"] = False
        model = ShallowConvClassifier.from_preset(name, **overrides)
        parts = [part for part, settings in PARTS.items() if setting in settings]
        for holder in [getattr(model, part, model) for part in parts]:
            np.testing.assert_equal(getattr(holder, setting), value)


@pytest.mark.parametrize(
    ("name", "n_features"),
    [
        # C P ceil((J - W + Q - 2 x ring) / D)^2 with Tables 1 and 2 of the paper.
        ("mnist", 60 * 10 * 10),
        ("norb", 2 * 60 * 13 * 13),
        ("svhn", 4 * 96 * 5 * 5),
        ("cifar10", 4 * 96 * 8 * 8),
    ],
)
def test_the_number_of_features_follows_from_the_geometry(name, n_features):
    model = ShallowConvClassifier.from_preset(name)
    assert model.features.n_features(model.preprocessing.output_shape(SHAPES[name])) == n_features


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("name", PRESETS)
def test_small_versions_learn_images_of_the_genuine_shape(name, dtype):
    images, labels = striped(80, SHAPES[name], dtype)
    filters = {} if name == "digits" else {"filters": Patches(6), "stride": 7}
    if name == "cifar10":
        # A whitening of 30 images that amplifies every direction fits nothing but these.
        filters |= {"whitening": ZCA(10.0), "normalize": False}
    model = small(name, **filters)
    model.learn_many(images[:20], labels[:20])
    model.learn_many(images[20:60], labels[20:60])
    precision = "float64" if name == "digits" else "float32"
    assert model.transform_many(images[:2]).dtype == precision
    assert np.mean(model.predict_many(images[60:]) == labels[60:]) > 0.8
    flat = images[60:].reshape(20, -1)
    scores = model.scores_many(images[60:])
    np.testing.assert_array_equal(model.scores_many(flat), scores)
    other = {"image": images[60]}
    np.testing.assert_allclose(list(model.scores_one(other).values()), scores[0], atol=1e-2)


def test_bytes_are_learnt_as_floats_are():
    images, labels = striped(50, (32, 32, 3))
    scores = []
    for dtype in (np.uint8, np.int64, np.float32, np.float64):
        model = small("cifar10", filters=Patches(4), downsample=2, dtype="float64", ridge=1.0)
        model.learn_many(images.astype(dtype), labels)
        scores.append(model.scores_many(images.astype(dtype)))
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=1e-9)


def test_colour_filters_do_not_meet_five_channels():
    filters = np.ones((96, 7, 7, 3))
    model = small("svhn", filters=filters, grey_channel=False, image_shape=(32, 32, 5))
    with pytest.raises(ValueError, match="5 channels, expected 1 to 4"):
        model.learn_many(np.ones((2, 32, 32, 5)), [0, 1])
