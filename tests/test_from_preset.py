"""ShallowConvClassifier.from_preset: the paper's geometry, and settings."""

import pytest

from onlinels import ShallowConvClassifier

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


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match=r"'strides' is not a setting of the network, .*stride, "):
        ShallowConvClassifier.from_preset("digits", strides=3)
