"""What the network refuses leaves no trace, whatever its parts and whenever it comes."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

import laws
from onlinels import (
    ZCA,
    ConvolutionalFeatures,
    HiddenLayer,
    ImagePreprocessing,
    KMeansPatches,
    LeastSquaresClassifier,
    Patches,
    Power,
    ShallowConvClassifier,
    WhitenedPatches,
    WindowFeatures,
)

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images, DIGITS.target
PLAIN = {"normalize": False, "before_pooling": Power(1.0), "after_pooling": Power(1.0)}

PARTS = {
    "whitened patches": ({}, {"filters": WhitenedPatches(5, size=3), "contrast_offset": 1.0}),
    "clusters": ({}, {"filters": ("hand-designed", KMeansPatches(5, size=3))}),
    "all": (
        {"downsample": 2, "scale": 16.0, "whitening": ZCA(0.1)},
        {"filters": ("hand-designed", Patches(5, size=3)), "channels": "joint"},
    ),
    "single precision": (
        {"scale": 16.0, "whitening": ZCA(0.1), "dtype": "float32"},
        {"filters": Patches(5, size=3), "dtype": "float32"},
    ),
}


def network(parts="all", learnt=0, **settings):
    preprocessing, features = PARTS[parts]
    settings = {"ridge": 1.0, "fit_intercept": False, **settings}
    model = ShallowConvClassifier(
        ConvolutionalFeatures(**{"pool_size": 3, "stride": 4, "padding": 3, **features}),
        HiddenLayer(30, "difference"),
        LeastSquaresClassifier(**settings),
        warm_up=20,
        preprocessing=ImagePreprocessing(image_shape=(8, 8), **preprocessing),
    )
    if learnt:
        model.learn_many(IMAGES[:learnt], LABELS[:learnt])
    return model


def assert_refused(model, images, labels, message, w=None):
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.learn_many(images, labels, w)
    laws.assert_unchanged(before, model, pickle.dumps)


@pytest.mark.parametrize("learnt", [0, 12, 40])
@pytest.mark.parametrize("parts", PARTS)
def test_one_bad_image_among_many_changes_nothing(parts, learnt):
    """Before the edge of the warm-up, at it, after it and in a batch that crosses it."""
    model = network(parts, learnt)
    for row in (0, 7, 8, 30):
        images = IMAGES[40:80].copy()
        images[row, 3, 3] = 1e140
        assert_refused(model, images, LABELS[40:80], "Rescale")
    model.learn_many(IMAGES[40:80], LABELS[40:80])
    assert model.count == learnt + 40


@pytest.mark.parametrize(
    ("activation", "size", "weight"), [("cube", 1e57, 1.0), ("square", 1e55, 1e149)]
)
def test_activations_that_are_refused_halfway_leave_nothing_learnt(
    monkeypatch, activation, size, weight
):
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 20)
    features = ConvolutionalFeatures(**PLAIN)
    model = ShallowConvClassifier(features, HiddenLayer(10, "gaussian", activation))
    model.learn_many(IMAGES[:30], LABELS[:30])
    images, w = IMAGES[30:80].copy(), np.ones(50)
    images[45] *= size
    w[45] = weight
    assert_refused(model, images, LABELS[30:80], r"[Rr]escale", w)


@pytest.mark.parametrize("normalize", [False, "image", "map"])
@pytest.mark.parametrize("learnt", [0, 30])
def test_pixels_must_fit_the_precision_of_the_hidden_layer_too(monkeypatch, learnt, normalize):
    """Else a block that is learnt could stand before one that is refused, or a held image."""
    monkeypatch.setattr("onlinels.network.BLOCK_IMAGES", 20)
    features = ConvolutionalFeatures(normalize=normalize)
    hidden = HiddenLayer(10, "difference", dtype="float32")
    model = ShallowConvClassifier(features, hidden, warm_up=25)
    if learnt:
        model.learn_many(IMAGES[:learnt], LABELS[:learnt])
    images = IMAGES[30:80].copy()
    images[45] *= 1e45
    if normalize:
        model.learn_many(images, LABELS[30:80])
        assert model.count == learnt + 50
    else:
        assert_refused(model, images, LABELS[30:80], r"dtype='float32'.*Rescale")


def test_masked_arrays_are_refused():
    """What is under a mask would be learnt, NaN included."""
    masked = np.ma.array(np.where(IMAGES[:9] > 8.0, np.nan, IMAGES[:9]), mask=IMAGES[:9] > 8.0)
    for read in (
        lambda: ConvolutionalFeatures().transform_many(masked),
        lambda: ConvolutionalFeatures().transform_one({"image": masked[0]}),
        lambda: ConvolutionalFeatures(masked),
        lambda: ConvolutionalFeatures.from_examples(masked, filters=WhitenedPatches(2, 3)),
        lambda: WindowFeatures().transform_many(masked),
        lambda: ImagePreprocessing().transform_many(masked),
        lambda: ImagePreprocessing.from_examples(masked),
        lambda: ShallowConvClassifier().learn_many(masked, LABELS[:9]),
        lambda: ShallowConvClassifier().predict_many(masked),
    ):
        with pytest.raises(TypeError, match=r"is a masked array.*filled"):
            read()


@pytest.mark.parametrize(
    ("preprocessing", "features", "images", "message"),
    [
        ({}, {"filters": Patches(5, size=9)}, np.ones((1, 8, 8)), "size=9 exceeds images of 8 x 8"),
        ({"downsample": 3}, {}, np.ones((1, 8, 8)), "multiples of downsample=3"),
        ({"downsample": 2}, {"image_shape": (8, 8)}, np.ones((1, 8, 8)), r"expected \(8, 8\)"),
        ({}, {"image_shape": (9, 9)}, np.ones((1, 9, 9)), r"expected \(8, 8\)"),
        ({"grey_channel": True, "image_shape": (8, 8, 2)}, {}, np.ones((1, 8, 8, 2)), "3 .RGB"),
        ({}, {"filters": np.ones((2, 3, 3, 5))}, np.ones((1, 8, 8)), "1 channels, expected 5"),
    ],
)
def test_images_that_can_never_be_learnt_are_not_held(preprocessing, features, images, message):
    """Else the end of the warm-up would be refused, however the stream went on."""
    with pytest.raises(ValueError, match=message):
        ShallowConvClassifier(
            ConvolutionalFeatures(pool_size=3, padding=4, **features),
            preprocessing=ImagePreprocessing(**{"image_shape": (8, 8), **preprocessing}),
        ).learn_many(images, [1])


def largest_held(parts):
    """Return by how much digits can be multiplied and still be held, as a power of 10."""
    for exponent in range(140, 0, -1):
        with contextlib.suppress(ValueError):
            network(parts).learn_many(IMAGES[35:36] * 10.0**exponent, LABELS[35:36])
            return 10.0**exponent
    return 1.0


@pytest.mark.parametrize("parts", PARTS)
def test_what_is_held_can_be_learnt_when_the_warm_up_ends(parts):
    """However large a pixel is held, whatever is then made of it."""
    model = network(parts)
    model.learn_many(IMAGES[:1] * largest_held(parts), LABELS[:1])
    model.learn_many(IMAGES[10:50], LABELS[10:50])
    assert model.count == 41


@pytest.mark.parametrize(
    ("settings", "hidden", "images", "cause"),
    [
        ({"accumulator": "recursive", "ridge": 1e-12}, {}, IMAGES * 1e5, "outweigh"),
        ({"ridge": 1.0}, {"activation": "cube", "dtype": "float32"}, IMAGES * 6e10, "float32"),
    ],
)
def test_images_held_that_cannot_be_learnt_say_what_to_do(settings, hidden, images, cause):
    """The advice about rows comes too late for those that are held."""
    features = ConvolutionalFeatures(np.ones((20, 3, 3)), pool_size=1, **PLAIN)
    parts = (features, HiddenLayer(30, "difference", **hidden))
    model = ShallowConvClassifier(*parts, LeastSquaresClassifier(**settings), warm_up=20)
    with pytest.raises(ValueError, match=cause) as caught:
        model.learn_many(images[:20], LABELS[:20])
    assert "held" not in str(caught.value)
    model.learn_many(images[:12], LABELS[:12])
    message = rf"(?s){cause}.*12 of these images were held.*Start a new model"
    assert_refused(model, images[12:30], LABELS[12:30], message)
    with pytest.raises(ValueError, match=message):
        model.fix_features()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("parts", PARTS)
def test_merging_is_all_or_nothing(parts, turned):
    """An image that was held may be too large for the filters of the other network."""
    fixed, waiting = network(parts, learnt=30), network(parts)
    waiting.learn_many(IMAGES[30:35], LABELS[30:35])
    waiting.learn_many(IMAGES[35:36] * largest_held(parts), LABELS[35:36])
    models = (waiting, fixed) if turned else (fixed, waiting)
    before = [pickle.dumps(model) for model in models]
    merged = False
    with contextlib.suppress(ValueError):
        merged = models[0].merge(models[1]).count == 36
    assert [pickle.dumps(model) for model in models][merged:] == before[merged:]


@pytest.mark.parametrize(
    ("name", "preprocessing", "filters"),
    [
        ("preprocessing", {"scale": 16.0}, Patches(5, size=3)),
        ("preprocessing", {"whitening": ZCA(0.2)}, Patches(5, size=3)),
        ("features", {"whitening": ZCA(0.1)}, Patches(6, size=3)),
        ("features", {"whitening": ZCA(0.1)}, (Patches(5, size=3), Patches(5, size=3))),
        ("features", {"whitening": ZCA(0.1)}, KMeansPatches(5, size=3)),
        ("features", {"whitening": ZCA(0.1)}, np.ones((5, 3, 3))),
    ],
)
def test_networks_of_other_parts_do_not_merge(name, preprocessing, filters):
    mine, other = (
        ShallowConvClassifier(
            ConvolutionalFeatures(each, pool_size=3, stride=4, padding=3),
            warm_up=20,
            preprocessing=ImagePreprocessing(**before),
        )
        for each, before in (
            (Patches(5, size=3), {"whitening": ZCA(0.1)}),
            (filters, preprocessing),
        )
    )
    for learnt in (10, 30):
        mine.learn_many(IMAGES[:learnt], LABELS[:learnt])
        before = pickle.dumps(mine)
        with pytest.raises(ValueError, match=rf"different settings \({name}: "):
            mine.merge(other)
        assert pickle.dumps(mine) == before


@pytest.mark.parametrize("parts", PARTS)
def test_networks_of_other_warm_up_images_do_not_merge(parts):
    a, b, twin = network(parts, learnt=30), network(parts), network(parts, learnt=30)
    b.learn_many(IMAGES[30:60], LABELS[30:60])
    with pytest.raises(ValueError, match="made from other images"):
        a.merge(b)
    assert a.merge(twin).count == 60
