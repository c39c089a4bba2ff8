"""Arguments of the wrong kind are named, with what was expected."""

from __future__ import annotations

import numpy as np
import pytest

from onlinels import (
    ConvolutionalFeatures,
    FilterBank,
    ImagePreprocessing,
    LeastSquaresRegressor,
    Patches,
    WhitenedPatches,
    WindowFeatures,
)
from onlinels.datasets import (
    download,
    read_idx,
    read_image_data,
    read_norb,
    stream_image_data,
)
from onlinels.features.filters import read_filters

IMAGES = np.random.default_rng(0).random((4, 9, 9))


@pytest.mark.parametrize("read", [read_norb, read_idx])
def test_paths_may_be_text_but_no_folder(tmp_path, read):
    path = tmp_path / "file"
    norb = np.array([0x1E3D4C55, 1, 2, 1, 1], "<i4").tobytes() + b"ab"
    path.write_bytes(norb if read is read_norb else bytes([0, 0, 8, 1, 0, 0, 0, 2]) + b"ab")
    assert read(str(path)).tolist() == [97, 98]
    with pytest.raises(ValueError, match="is a folder, expected a file"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*missing.* get .*https?://"):
        read(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ImagePreprocessing().output_shape(None), ValueError, "shape=None is no image"),
        (lambda: ConvolutionalFeatures().n_features(None), ValueError, "shape=None is no image"),
        (lambda: ConvolutionalFeatures().transform_many(list(IMAGES)), TypeError, r"np\.stack"),
        (lambda: WindowFeatures().transform_many(list(IMAGES)), TypeError, r"np\.stack"),
        (lambda: WindowFeatures(Patches()), TypeError, "filters has dtype object"),
        (
            lambda: WindowFeatures(FilterBank(np.ones((1, 1, 3, 1)), np.zeros(1))),
            TypeError,
            "filters has dtype object",
        ),
        (
            lambda: ConvolutionalFeatures.from_examples(
                IMAGES, [1, 2, 3], filters=WhitenedPatches(2, 3)
            ),
            ValueError,
            "3 labels, expected 4",
        ),
    ],
)
def test_wrong_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "error", "remedy"),
    [
        (lambda x: ConvolutionalFeatures().transform_many(x * np.nan), ValueError, "or leave out"),
        (lambda x: ConvolutionalFeatures(x * np.nan), ValueError, "or leave out"),
        (lambda x: FilterBank(x[..., None] * np.nan, np.zeros(4)), ValueError, "or leave out"),
        (lambda x: ConvolutionalFeatures().transform_many(x * np.inf), ValueError, "rescale large"),
        (lambda x: ConvolutionalFeatures().transform_many(x * 1j), TypeError, "their magnitude"),
        (lambda x: ConvolutionalFeatures(x * 1j), TypeError, "their magnitude"),
        (lambda x: ConvolutionalFeatures().transform_many(x.astype(str)), TypeError, "Convert"),
        (
            lambda x: ConvolutionalFeatures().transform_one({"image": x[0].tolist()}),
            TypeError,
            r"x\['image'\] is a list, .*np\.asarray",
        ),
        (lambda x: LeastSquaresRegressor().learn_one({"a": 1j}, 1), TypeError, "their magnitude"),
        (lambda x: LeastSquaresRegressor().learn_many(x[0] * 1j, x[0]), TypeError, "magnitude"),
    ],
)
def test_remedies_fit_images(call, error, remedy):
    with pytest.raises(error, match=remedy) as raised:
        call(IMAGES)
    assert "river" not in str(raised.value)


@pytest.mark.parametrize("path", [None, 5])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (read_image_data, "path"),
        (lambda path: stream_image_data(path, 5), "path"),
        (read_idx, "path"),
        (read_norb, "path"),
        (read_filters, "path"),
        (lambda folder: download("mnist", folder), "folder"),
    ],
)
def test_paths_are_named(call, name, path):
    with pytest.raises(TypeError, match=f"^{name}={path} must be a path"):
        call(path)


def test_extra_is_a_flag(tmp_path):
    with pytest.raises(TypeError, match="extra='yes' must be a bool"):
        read_image_data(tmp_path, extra="yes")
