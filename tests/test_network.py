"""ShallowConvClassifier: warm-up, exactness once features are fixed, merging, presets."""

import copy
import functools
import gzip
import itertools
import pickle
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DataWarning,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
    checks,
    difference,
    dumps,
    loads,
)
from onlinels.export import answers_only
from onlinels.images import Patches
from support import laws, strategies
from support.digits_network import IMAGES, LABELS, learn, small
from support.slow import the_rest_slow

# -- learning, merging and settings ---------------------------------------------------------------


def assert_is_batch_solution(model, images, labels, w=None):
    """Assert that the weights solve the batch problem on the activations of these images."""
    A = model.transform_many(images)
    rows = strategies.Rows(A, [int(y) for y in labels], np.ones(len(A)) if w is None else w * 1.0)
    laws.assert_is_batch_solution(model._stage.classifier, rows)


def test_answers_before_the_warm_up_is_full():
    model = small(warm_up=1000)
    assert model.predict_one({"image": IMAGES[0]}) is None
    assert model.predict_proba_one({"image": IMAGES[0]}) == {}
    learn(model, 300)
    assert not model.features_fixed
    assert (model.count, len(model.classes)) == (300, 10)
    assert np.mean(model.predict_many(IMAGES[300:600]) == LABELS[300:600]) > 0.75
    assert (model.feature_names, model.output_weights.shape) == ((), (0, 10))
    assert (model.intercept.tolist(), model.ridge_) == ([0.0] * 10, 1.0)
    fixed = small(n_hidden=7, ridge=2.0, learnt=40)
    assert fixed.feature_names == tuple(range(7))
    with pytest.raises(ValueError, match=r"300 of 1,000 warm-up images.*fix_features"):
        model.transform_many(IMAGES[:5])


@pytest.mark.parametrize(("count", "size", "n_hidden"), [(100, 100, 200), (330, 200, 300)])
@pytest.mark.parametrize("cuts", [[], [1, 100, 150, 201], range(330)])
def test_a_network_of_the_held_images_predicts_during_the_warm_up(count, size, n_hidden, cuts):
    """Its features are made from 100, 200, 400, … images; it has learnt them all."""
    model, fixed = small(warm_up=500, n_hidden=300), small(size, n_hidden, learnt=count)
    for part in np.split(np.arange(count), [cut for cut in cuts if 0 < cut < count]):
        model.learn_many(IMAGES[part], LABELS[part])
        if len(cuts) < 10:
            model.predict_one(IMAGES[0])
    asked = IMAGES[:400]
    for each in (model, loads(dumps(model)), copy.copy(model)):
        np.testing.assert_array_equal(each.predict_many(asked), fixed.predict_many(asked))
        np.testing.assert_allclose(each.scores_many(asked), fixed.scores_many(asked), atol=1e-9)
    whole = learn(small(warm_up=500, n_hidden=300), 600)
    learn(model, count, 600)
    np.testing.assert_array_equal(model.predict_many(asked), whole.predict_many(asked))


def test_a_draft_is_no_part_of_the_state():
    """Files do not depend on what was asked, and settings apply to it at once."""
    model, unasked = (learn(small(warm_up=500, ridge=3.0), 150) for _ in range(2))
    model.predict_one(IMAGES[0])
    assert dumps(model) == dumps(unasked)
    model.ridge = 1e4
    assert model.ridge_ == 1e4
    assert "150 of 500 warm-up images" in repr(model)
    assert "warm-up" not in repr(learn(model, 150, 550))


def test_images_leave_the_warm_up():
    model, never = (learn(small(warm_up=300, n_hidden=40), 120) for _ in range(2))
    learn(model, 120, 150)
    model.predict_one(IMAGES[0])
    model.unlearn_many(IMAGES[120:149], LABELS[120:149])
    model.unlearn_one(IMAGES[149], LABELS[149])
    assert dumps(model) == dumps(never)
    for image, label, w in (
        (IMAGES[130], LABELS[130], 1.0),
        (IMAGES[3], LABELS[3], 2.0),
        (IMAGES[3], 11, 1.0),
    ):
        remove = functools.partial(model.unlearn_many, image[None], [label], w)
        laws.assert_refused(remove, model, r"^X\[0\] with label .* among the 120 warm-up images")


@pytest.mark.parametrize("fixes", [True, False])
def test_a_forgetting_network_unlearns_images_of_their_current_weights(fixes):
    settings = {"warm_up": 400, "n_hidden": 40, "forgetting_factor": 0.99}
    model = ShallowConvClassifier.from_preset("digits", **settings)
    learn(model, 60)
    if fixes:
        with pytest.warns(UserWarning, match="from few images. 60 images, expected at least 100"):
            model.fix_features()
    model.unlearn_one(IMAGES[40], LABELS[40], 0.99**19)
    assert model.count == 59
    assert model.predict_one(IMAGES[0]) == LABELS[0]


def test_images_with_dates_leave_the_warm_up():
    """No time passes when they are removed."""
    dates = np.datetime64("2026-01-01") + np.arange(6)
    settings = {"warm_up": 10, "half_life": timedelta(days=3)}
    model = ShallowConvClassifier.from_preset("digits", **settings)
    model.learn_many(IMAGES[:6], LABELS[:6], t=dates)
    model.unlearn_many(IMAGES[4:6], LABELS[4:6])
    assert model.count == 4


def test_pixels_by_row_and_column_go_on_after_the_first_image():
    model = ShallowConvClassifier.from_preset("digits", image_shape=(8, 8))
    whole = learn(model.clone(), 3)
    for image, label in zip(IMAGES[:3], LABELS[:3], strict=True):
        model.learn_one(dict(np.ndenumerate(image)), label)
    assert dumps(model) == dumps(whole)


@pytest.mark.parametrize("shape", [(9, 7), (12, 12, 3)])
def test_a_preset_takes_images_of_any_shape(shape):
    """From the first image on, rows of pixels are of its shape."""
    random = np.random.default_rng(0)
    X, y = random.random((130, *shape)), np.arange(130) % 3
    X += y.reshape(-1, *(1,) * len(shape))
    model = ShallowConvClassifier.from_preset("digits", warm_up=120, n_hidden=30)
    model.learn_one(X[0], y[0])
    model.learn_many(X[1:], y[1:])
    for answers in (model.predict_many(X), model.predict_many(X.reshape(130, -1))):
        assert np.mean(answers == y) > 0.9
    assert model.predict_one(X[5]) == model.predict_one({"image": X[5]}) == y[5]
    with pytest.raises(ValueError, match=r"is an image of shape .*Pass X\[None\]"):
        model.predict_many(X[0])
    with pytest.raises(ValueError, match="shape"):
        model.predict_one(np.zeros((5, 5)))
    pixels = ShallowConvClassifier.from_preset("digits")
    pixels.learn_many(IMAGES[:3].reshape(3, -1), LABELS[:3])
    assert pixels.predict_one(IMAGES[0]) == LABELS[0]
    strict = ShallowConvClassifier.from_preset("digits", image_shape=(8, 8))
    laws.assert_refused(lambda: strict.learn_many(X, y), strict, r"expected \(8, 8\)")


def test_weights_count_from_the_first_row_on():
    w, model = np.arange(50) % 3, small()
    model.learn_many(IMAGES[:50], LABELS[:50], w)
    assert_is_batch_solution(model, IMAGES[:50], LABELS[:50], w)


ONE = np.ones((1, 8, 8))
BAD_CALLS = [
    ("learn_many", (np.ones((2, 9, 8)), [1, 2]), ValueError, "shape"),
    ("learn_many", (np.ones((2, 8, 8)), [1]), ValueError, "1 labels, expected 2"),
    ("learn_many", (ONE * np.nan, [1]), ValueError, "nan"),
    ("learn_many", (ONE, [float("nan")]), ValueError, "is nan, expected a label"),
    ("learn_many", (ONE, ["new"], [-1.0]), ValueError, "at least 0"),
    ("learn_many", (ONE, [[1]]), TypeError, "hashable"),
    ("learn_many", (np.array(5.0), [1]), ValueError, r"shape \(\)"),
    ("learn_many", ([{3: np.ones(8), 4: 1.0}], [1]), ValueError, "one image"),
    ("learn_one", ({"image": None}, 1), ValueError, "None"),
    ("learn_one", ({"image": "cat.png"}, 1), TypeError, "cat.png"),
    ("predict_many", (np.ones((2, 9, 8)),), ValueError, "shape"),
    ("predict_one", (None,), TypeError, "expected an array"),
    ("transform_many", (np.ones((2, 9, 9)),), ValueError, "shape"),
]


@pytest.mark.parametrize("learnt", [0, 10, 40])
@pytest.mark.parametrize(("method", "arguments", "error", "message"), BAD_CALLS, ids=str)
def test_bad_calls_leave_the_state_untouched(learnt, method, arguments, error, message):
    model = small(learnt=learnt)
    laws.assert_refused(lambda: getattr(model, method)(*arguments), model, message, error)


def test_networks_merge_whose_input_weights_two_machines_made_of_the_same_images():
    model = small(learnt=40)
    other, expected = loads(dumps(model)), model + model
    hidden = other._stage.hidden
    made = replace(hidden._made, landmarks=hidden._made.landmarks * (1.0 + 1e-15))
    vars(hidden).update(_made=made, input_weights=made)
    merged = model + other
    np.testing.assert_array_equal(merged.output_weights, expected.output_weights)


def test_input_weights_made_from_other_features():
    layer = HiddenLayer.from_examples(np.eye(5), list("ababa"), 4)
    model = ShallowConvClassifier(ConvolutionalFeatures(padding=3), layer)
    with pytest.raises(ValueError, match="expected 5 as in the examples"):
        model.learn_many(IMAGES[:5], LABELS[:5])


def test_images_keep_one_shape_without_a_setting_and_merging_passes_it_on():
    features = ConvolutionalFeatures(padding=3)
    model = ShallowConvClassifier(features, HiddenLayer(5, "gaussian"), warm_up=2)
    other = learn(model.clone(), 2)
    for network in (learn(model.clone(), 2), model.clone().merge(other)):
        with pytest.raises(ValueError, match=r"shape \(9, 9, 1\), expected \(8, 8, 1\)"):
            network.predict_many(np.ones((1, 9, 9)))
        with pytest.raises(ValueError, match=r"expected \(8, 8, 1\)"):
            network.learn_many(np.ones((2, 9, 9)), [1, 2])


def test_networks_of_the_same_images_do_not_differ():
    """In the warm-up and after it; features made from other images are refused."""
    start = small(learnt=0)
    for learnt in (6, 40):
        model = learn(start.clone(), learnt)
        other = copy.copy(model)
        assert model.difference(other) == 0.0
        other.learn_many(IMAGES[40:44], LABELS[40:44])
        assert model.difference(other) > 1e-3
    other.unlearn_many(IMAGES[40:44], LABELS[40:44])
    assert difference(model, other) < 1e-9
    model.ridge = other.ridge = "auto"
    model.select_ridge()
    other.select_ridge()
    assert model.difference(other) < 1e-6
    late = start.clone()
    late.learn_many(IMAGES[20:60], LABELS[20:60])
    late.ridge = "auto"
    laws.assert_refused(lambda: model.difference(late), model, "different fixed features")


def test_networks_made_by_empty_draw_no_input_weights_again(monkeypatch):
    model = ShallowConvClassifier.from_preset(
        "digits", warm_up=2, input_weights="gaussian", n_hidden=20
    )
    images = np.random.default_rng(0).random((3, 8, 8))
    model.learn_many(images, ["a", "b", "a"])
    monkeypatch.setattr("onlinels.features.hidden.draw_row", None)
    other = model.empty()
    other.learn_one(images[0], "c")
    np.testing.assert_array_equal(other.transform_many(images), model.transform_many(images))
    assert (other.classes, model.classes) == (("c",), ("a", "b"))


def test_the_callers_parts_stay_the_callers():
    layer, bank = HiddenLayer(5), np.ones((2, 3, 3))
    expected = layer.transform_one({"a": 1.0})
    model = ShallowConvClassifier(ConvolutionalFeatures(bank, pool_size=2), layer)
    scores = []
    for _ in range(2):
        scores.append(learn(model.clone(), 10).scores_many(IMAGES[:10]))
        bank[:] = 7.0
    np.testing.assert_array_equal(*scores)
    assert layer.transform_one({"a": 1.0}) == expected


test_bad_settings = laws.settings_refused(
    ShallowConvClassifier,
    [
        *(({"warm_up": n}, ValueError, "warm_up=") for n in (1, 0)),
        *(({"warm_up": n}, TypeError, "warm_up=") for n in (2.5, None)),
        ({"hidden": "x"}, TypeError, "hidden is of type"),
        ({"features": 5}, TypeError, "features is of type"),
        ({"classifier": LeastSquaresClassifier}, TypeError, "classifier is of type"),
    ],
)


@pytest.mark.parametrize("decay", [{"forgetting_factor": 0.98}, {"half_life": 40.0}], ids=str)
def test_the_network_forgets_as_its_linear_layer_does(decay):
    """Any cut across the edge of the warm-up, with times out of order."""
    times = np.random.default_rng(0).permutation(100.0 + np.arange(90))
    t = times if "half_life" in decay else None
    whole, cut = (
        ShallowConvClassifier.from_preset("digits", warm_up=30, n_hidden=40, ridge=1.0, **decay)
        for _ in range(2)
    )
    whole.learn_many(IMAGES[:90], LABELS[:90], t=t)
    for rows in (slice(0, 1), slice(1, 20), slice(20, 55), slice(55, 90)):
        cut.learn_many(IMAGES[rows], LABELS[rows], t=None if t is None else t[rows])
    np.testing.assert_allclose(cut.output_weights, whole.output_weights, atol=1e-9)
    activations = whole.transform_many(IMAGES[:90])
    layer = LeastSquaresClassifier(1.0, fit_intercept=False, priors="equal", **decay)
    layer.learn_many(activations, LABELS[:90], t=t)
    np.testing.assert_allclose(layer.output_weights, whole.output_weights, atol=1e-9)
    remembering = LeastSquaresClassifier(1.0, fit_intercept=False, priors="equal")
    remembering.learn_many(activations, LABELS[:90])
    assert not np.allclose(whole.output_weights, remembering.output_weights, atol=1e-3)


@pytest.mark.parametrize("w", [None, np.ones(1)])
def test_a_weight_that_is_no_number_is_refused(w):
    model = ShallowConvClassifier.from_preset("digits", warm_up=30)
    for call in (model.learn_one, model.unlearn_one):
        with pytest.raises(TypeError, match=r"w is .*, expected one number"):
            call({"image": IMAGES[0]}, LABELS[0], w)
    assert model.count == 0


def test_bad_times_are_refused_while_images_are_held():
    model = ShallowConvClassifier.from_preset("digits", warm_up=30, half_life=5.0)
    with pytest.raises(TypeError, match="'noon'"):
        model.learn_many(IMAGES[:2], LABELS[:2], t="noon")
    assert model.count == 0


def test_images_are_unlearnt():
    model = ShallowConvClassifier.from_preset("digits", warm_up=30, n_hidden=40, ridge=1.0)
    learn(model, 60)
    kept = learn(model.empty(), 50)
    model.unlearn_many(IMAGES[50:59], LABELS[50:59])
    model.unlearn_one({"image": IMAGES[59]}, LABELS[59])
    assert model.count == 50
    np.testing.assert_allclose(model.output_weights, kept.output_weights, atol=1e-8)


@pytest.mark.parametrize("stored", ["saved", "pickled"])
def test_networks_of_format_3_go_on(stored):
    """One in its warm-up, which had answered, and one after it."""
    path = Path(__file__).parent / "networks_of_format_3.npz.gz"
    said = loads(gzip.decompress(path.read_bytes()))
    models = said if stored == "saved" else pickle.loads(said["pickled"])
    images, expected = IMAGES[:, 2:6:2, 2:6:2], said["told"]
    waits, fixed = models["waits"], models["fixed"]
    np.testing.assert_allclose(waits.predict_proba_many(images[:3]), expected["waits"], atol=1e-9)
    np.testing.assert_allclose(fixed.scores_many(images[:3]), expected["fixed"], atol=1e-9)
    assert (waits.count, waits.features_fixed, waits.image_shape) == (4, False, (2, 2))
    assert (fixed.count, fixed.features_fixed, fixed.ridge_) == (8, True, 0.5)
    for model in (waits, fixed):
        with pytest.raises(ValueError, match=r"expected \(2, 2, 1\)"):
            model.learn_many(IMAGES[:2], LABELS[:2])
        model.learn_many(images[8:40], LABELS[8:40], t=np.arange(8.0, 40.0))
        assert model.features_fixed
        again = loads(dumps(model))
        np.testing.assert_array_equal(again.scores_many(images), model.scores_many(images))


# -- few images ----------------------------------------------------------------------------------


def accuracies(draw, counts, **settings):
    """Return accuracies after numbers of digits, of which a third have a wrong label."""
    random = np.random.default_rng(draw)
    order = random.permutation(len(IMAGES))
    noisy = np.where(random.random(len(LABELS)) < 0.3, random.permutation(LABELS), LABELS)
    model = ShallowConvClassifier.from_preset("digits", n_hidden=200, warm_up=150, **settings)
    found = []
    for start, end in itertools.pairwise([0, *counts]):
        part = order[start:end]
        model.learn_many(IMAGES[part], noisy[part])
        found.append(np.mean(model.predict_many(IMAGES[order[-300:]]) == LABELS[order[-300:]]))
    return np.array(found)


def test_more_images_make_no_worse_network():
    """Neither in the warm-up, as images become as many as hidden units, nor after it."""
    counts = (100, 149, 150, 200, 300, 450)
    small_ridge = accuracies(0, counts, ridge=1e-9)
    assert small_ridge[0] - small_ridge[3] > 0.2
    settings = {"ridge": 1e-9, "few_images_ridge": 1e-3}
    mean = np.mean([accuracies(draw, counts, **settings) for draw in range(3)], axis=0)
    assert (np.maximum.accumulate(mean) - mean).max() < 0.03
    assert mean[-1] > mean[0] + 0.05


def test_the_ridge_of_few_images():
    """It is in force below three images a unit, in any order, and no part of exactness after it."""
    settings = {"n_hidden": 20, "warm_up": 30, "ridge": 1e-3}
    network = functools.partial(ShallowConvClassifier.from_preset, "digits", **settings)
    model = learn(network(few_images_ridge=0.5), 59)
    assert (model.ridge, model.ridge_, loads(dumps(model)).ridge_) == (1e-3, 0.5, 0.5)
    same = learn(model.empty(), 59)
    always, never = network(ridge=0.5), network()
    for each in (always, never):
        learn(each, 59)
    np.testing.assert_array_equal(model.scores_many(IMAGES), always.scores_many(IMAGES))
    for each in (model, same):
        each.learn_one(IMAGES[59], LABELS[59])
    learn(never, 59, 60)
    assert model.ridge_ == 1e-3
    np.testing.assert_allclose(model.scores_many(IMAGES), never.scores_many(IMAGES), atol=1e-9)
    model.unlearn_one(IMAGES[59], LABELS[59])
    assert model.ridge_ == 0.5
    # Predicted, then learnt: as one by one.
    one, many = (learn(same.empty(), 50) for _ in range(2))
    labels = []
    for image, label in zip(IMAGES[50:70], LABELS[50:70], strict=True):
        labels.append(one.predict_one(image))
        one.learn_one(image, label)
    assert many.predict_learn_many(IMAGES[50:70], LABELS[50:70]).tolist() == labels
    assert one.ridge_ == many.ridge_ == 1e-3
    assert difference(one, many) < 1e-9
    # One that has learnt few, and one that has learnt many.
    few = learn(same.empty(), 70, 80)
    assert difference(few, one) > 0.0
    assert learn(one, 70, 80).difference(many.merge(few)) < 1e-9
    assert few.ridge_ == 0.5
    assert few.merge(many).ridge_ == 1e-3


def test_a_ridge_of_the_user_holds_for_few_images_too():
    for name in SHAPES:
        preset = ShallowConvClassifier.from_preset(name)
        assert preset.few_images_ridge == (None if name in ("digits", "mnist-paper") else 1e-4)
        assert ShallowConvClassifier.from_preset(name, ridge=2.0).few_images_ridge is None
    model = learn(small(warm_up=20, ridge=1e-3), 30)
    vars(model)["few_images_ridge"] = 2.0
    model.ridge = 1e-4
    assert (model.ridge_, model.few_images_ridge) == (1e-4, None)
    for bad, error in ((0.0, ValueError), (-1, ValueError), ("auto", TypeError)):
        with pytest.raises(error, match="few_images_ridge"):
            ShallowConvClassifier(few_images_ridge=bad)


# -- frames of a camera ---------------------------------------------------------------------------


def frames(n, classes=3, shape=(24, 24, 3)):
    """Return frames of noise, brighter in one third of their rows for every class, and labels."""
    labels = np.arange(n) % classes
    images = np.random.default_rng(0).integers(0, 120, (n, *shape), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[8 * label : 8 * label + 8] += 100
    return images, labels


def network_of_frames(n=40, preset="svhn", **settings):
    settings = {"n_hidden": 30, "warm_up": 30, "filters": Patches(6)} | settings
    model, (X, y) = ShallowConvClassifier.from_preset(preset, **settings), frames(n)
    model.learn_many(X, y)
    return model


def test_equal_frames_in_the_warm_up_are_reported():
    model = network_of_frames(0)
    with pytest.warns(UserWarning, match=r"hidden units are 0 .* 30 of 30 .*more varied images"):
        model.learn_many(np.zeros((40, 24, 24, 3), np.uint8), ["nothing"] * 40)
    assert model.features_fixed
    model = network_of_frames(29, warm_up=200)
    with pytest.warns(UserWarning, match="from few images. 29 images, expected at least 100"):
        model.fix_features()


def test_a_network_that_memory_cannot_hold_is_refused_at_the_first_image(monkeypatch):
    monkeypatch.setattr(checks, "memory_limit", lambda: 1e6)
    model, (X, y) = network_of_frames(0, n_hidden=1000), frames(1)
    laws.assert_refused(lambda: model.learn_many(X, y), model, "smaller n_hidden")
    network_of_frames(29)


@pytest.mark.parametrize("preset", ["svhn", "digits"])
@pytest.mark.parametrize("shape", [(25, 25, 3), (3, 24, 24), (24, 24, 4), (24, 24)])
def test_frames_of_another_shape_are_refused_without_sums_too(preset, shape):
    model = network_of_frames(preset=preset, filters="hand-designed")
    small, X = answers_only(model), frames(5)[0]
    np.testing.assert_array_equal(small.predict_many(X), model.predict_many(X))
    assert small.predict_one({"image": X[1]}) == model.predict_one(X[1])
    for each in (model, loads(dumps(small))):
        with pytest.raises(ValueError, match=r"expected \(24, 24, 3\).*convert its channels"):
            each.predict_many(np.zeros((2, *shape), np.uint8))


@pytest.mark.parametrize("n_learnt", [0, 10, 40])
@pytest.mark.parametrize("wrap", [lambda model: model, CalibratedClassifier])
def test_a_single_frame(n_learnt, wrap):
    model, (X, y) = wrap(network_of_frames(n_learnt)), frames(40)
    model.predict_one(X[0])
    for call in (lambda: model.learn_many(X[0], ["mug"]), lambda: model.learn_one({}, "mug")):
        message = r"X is an image of shape \(24, 24, 3\).*X\[None\]|no pixels|named pixels"
        laws.assert_refused(call, model, message)
    for x in (X[0].tolist(), "frame.png"):
        laws.assert_refused(lambda x=x: model.learn_one(x, 1), model, "np.asarray", TypeError)
    bad = X[0] * np.nan
    laws.assert_refused(lambda: model.learn_one(bad, 1), model, "Leave the image out")
    model.learn_one(X[0], y[0])
    if n_learnt:
        with pytest.raises(ValueError, match="no pixels"):
            model.predict_one({})
        assert model.predict_one(X[1]) == model.predict_one({"image": X[1]}) == y[1]


# -- presets --------------------------------------------------------------------------------------

SHAPES = {
    "mnist": (28, 28),
    "mnist-paper": (28, 28),
    "norb": (96, 96, 2),
    "svhn": (32, 32, 3),
    "cifar10": (32, 32, 3),
    "digits": (8, 8),
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
        ("mnist-paper", 60 * 15 * 15),
        ("norb", 2 * 60 * 13 * 13),
        ("svhn", 4 * 96 * 5 * 5),
        ("cifar10", 4 * 96 * 8 * 8),
    ],
)
def test_the_number_of_features_follows_from_the_geometry(name, n_features):
    model = ShallowConvClassifier.from_preset(name)
    assert model.features.n_features(model.preprocessing.output_shape(SHAPES[name])) == n_features


@pytest.mark.parametrize("name", the_rest_slow(sorted(SHAPES), 3))
def test_small_versions_learn_images_of_the_genuine_shape(name):
    images, labels = striped(80, SHAPES[name])
    settings = {"n_hidden": 40, "warm_up": 30, "ridge": "paper"}
    if name != "digits":
        settings |= {"filters": Patches(6), "stride": 7}
    if name == "cifar10":
        # A whitening of 30 images that amplifies every direction fits nothing but these.
        settings |= {"whitening": 10.0, "normalize": False}
    precision, scores = "float64" if name == "digits" else "float32", []
    # Whitening takes a second a time.
    dtypes = (np.uint8, np.int64, np.float32, np.float64)[:: 4 if name == "cifar10" else 1]
    for dtype in dtypes:
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


def test_a_network_warns_while_it_answers_from_pixels_that_tell_no_classes_apart():
    random = np.random.default_rng(0)
    images, labels = random.random((60, 16, 16)), random.integers(0, 4, 60)
    model = ShallowConvClassifier.from_preset("mnist", n_hidden=30)
    model.learn_many(images[:19], labels[:19])
    model.predict_one(images[0])
    model.learn_one(images[19], labels[19])
    with pytest.warns(DataWarning, match="names [0-9] of 20 images .* For photos, learn embedd"):
        model.predict_one(images[0])
    model.learn_many(images[20:39], labels[20:39])
    model.predict_one(images[0])
    model.learn_many(images[39:], labels[39:])
    with pytest.warns(DataWarning, match="hardly recognises"):
        model.predict_many(images[:2])


@pytest.mark.parametrize("n_images", [20, 40, 80])
def test_a_network_does_not_warn_if_pixels_tell_classes_apart_or_there_is_one_class(n_images):
    model = ShallowConvClassifier.from_preset("digits")
    model.learn_many(IMAGES[:n_images], LABELS[:n_images])
    models = [model, model.clone(), model.clone()]
    models[1].learn_many(IMAGES[:n_images], np.zeros(n_images, dtype=int))
    models[2].learn_many(IMAGES[:n_images], np.arange(n_images) < 3)
    for each in models:
        each.predict_one(IMAGES[-1])
