"""ShallowConvClassifier.from_preset: the paper's geometry, and small versions that learn."""

import numpy as np
import pytest

from onlinels import ShallowConvClassifier
from onlinels.images import Patches
from support.slow import the_rest_slow

# Shape, number of features, least ridge of few images, precision and number of hidden units.
# C P ceil((J - W + Q - 2 x ring) / D)^2 with Tables 1 and 2 of the paper.
PRESETS = {
    "mnist": ((28, 28), 60 * 10 * 10, 1e-4, "float32", 12_000),
    "mnist-paper": ((28, 28), 60 * 15 * 15, None, "float32", 12_000),
    "norb": ((96, 96, 2), 2 * 60 * 13 * 13, 1e-4, "float32", 10_000),
    "svhn": ((32, 32, 3), 4 * 96 * 5 * 5, 1e-4, "float32", 40_000),
    "cifar10": ((32, 32, 3), 4 * 96 * 8 * 8, 1e-4, "float32", 40_000),
    "digits": ((8, 8), 43 * 6 * 6, None, "float64", 400),
}


@pytest.mark.parametrize("name", PRESETS)
def test_the_number_of_features_follows_from_the_geometry(name):
    shape, n_features, few_images_ridge, *layer = PRESETS[name]
    model = ShallowConvClassifier.from_preset(name)
    assert model.image_shape == shape
    assert model.features.n_features(model.preprocessing.output_shape(shape)) == n_features
    assert model.few_images_ridge == few_images_ridge
    assert [model.hidden.dtype, model.hidden.n_hidden] == layer
    assert ShallowConvClassifier.from_preset(name, ridge=2.0).few_images_ridge is None


def striped(n_images, shape):
    """Noise with stripes along rows or columns, in every channel: two classes."""
    random = np.random.default_rng(len(shape))
    images = random.integers(0, 100, (n_images, *shape))
    labels = random.integers(0, 2, n_images)
    stripes = 100 * (np.arange(shape[0]) // (shape[0] // 8) % 2)
    for image, label in zip(images, labels, strict=True):
        image.swapaxes(0, 1 - label)[...] += stripes.reshape(-1, *[1] * (len(shape) - 1))
    return images, np.array(["across", "down"])[labels]


# A whitening of 30 images that amplifies every direction fits nothing but these.
SMALL = {name: {"filters": Patches(6), "stride": 7} for name in PRESETS}
SMALL |= {"digits": {}, "cifar10": SMALL["cifar10"] | {"whitening": 10.0, "normalize": False}}


@pytest.mark.parametrize("name", the_rest_slow(["digits", "svhn", "mnist", "norb", "cifar10"], 3))
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_small_versions_learn_images_of_the_genuine_shape(name, dtype):
    X, labels = striped(80, PRESETS[name][0])
    settings = {"n_hidden": 40, "warm_up": 30, "ridge": "paper"} | SMALL[name]
    model, X = ShallowConvClassifier.from_preset(name, **settings), X.astype(dtype)
    model.learn_many(X[:20], labels[:20])
    model.learn_many(X[20:60], labels[20:60])
    assert np.mean(model.predict_many(X[60:]) == labels[60:]) > 0.8
    flat = X[60:].reshape(20, -1)
    np.testing.assert_array_equal(model.scores_many(flat), model.scores_many(X[60:]))


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match=r"'strides' is not a setting of the network, .*stride, "):
        ShallowConvClassifier.from_preset("digits", strides=3)
