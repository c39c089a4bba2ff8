"""Presets: every value can be overridden, and small versions learn images of the genuine shapes."""

import numpy as np
import pytest

from onlinels import ZCA, Patches, Power, ReceptiveFields, ShallowConvClassifier, TwoSidedRectifier

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


def striped(n_images, shape, dtype=np.uint8):
    """Noise with stripes along rows or columns, in every channel: two classes."""
    random = np.random.default_rng(len(shape))
    images = random.integers(0, 100, (n_images, *shape))
    labels = random.integers(0, 2, n_images)
    stripes = 100 * (np.arange(shape[0]) // (shape[0] // 8) % 2)
    for image, label in zip(images, labels, strict=True):
        image.swapaxes(0, 1 - label)[...] += stripes.reshape(-1, *[1] * (len(shape) - 1))
    return images.astype(dtype), np.array(["across", "down"])[labels]


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


@pytest.mark.parametrize("name", SHAPES)
def test_every_value_can_be_overridden(name):
    for setting, value in OTHER_VALUES.items():
        overrides = {setting: value}
        if setting == "bias":
            overrides["input_weights"] = "gaussian"
        if setting == "image_shape":
            overrides["grey_channel"] = False
        model = ShallowConvClassifier.from_preset(name, **overrides)
        parts = (model, model.preprocessing, model.features, model.hidden, model.classifier)
        holders = [part for part in parts if hasattr(part, setting)]
        if setting == "image_shape":
            # Of images as they come; filters meet others.
            holders = [model.preprocessing]
        assert holders
        for holder in holders:
            np.testing.assert_equal(getattr(holder, setting), value)


@pytest.mark.parametrize("name", SHAPES)
def test_small_versions_learn_images_of_the_genuine_shape(name):
    images, labels = striped(80, SHAPES[name])
    settings = {"n_hidden": 40, "warm_up": 30, "ridge": "paper"}
    if name != "digits":
        settings |= {"filters": Patches(6), "stride": 7}
    if name == "cifar10":
        # A whitening of 30 images that amplifies every direction fits nothing but these.
        settings |= {"whitening": ZCA(10.0), "normalize": False}
    precision, scores = "float64" if name == "digits" else "float32", []
    for dtype in (np.uint8, np.int64, np.float32, np.float64):
        model, X = ShallowConvClassifier.from_preset(name, **settings), images.astype(dtype)
        model.learn_many(X[:20], labels[:20])
        model.learn_many(X[20:60], labels[20:60])
        assert model.transform_many(X[:2]).dtype == precision
        assert np.mean(model.predict_many(X[60:]) == labels[60:]) > 0.8
        scores.append(model.scores_many(X[60:]))
        flat = X[60:].reshape(20, -1)
        np.testing.assert_array_equal(model.scores_many(flat), scores[-1])
        one = list(model.scores_one({"image": X[60]}).values())
        np.testing.assert_allclose(one, scores[-1][0], atol=1e-2)
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=1e-2)
