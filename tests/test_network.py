"""ShallowConvClassifier: however images are learnt, it is its parts and a batch solution."""

import contextlib
import copy
import functools
import gzip
import itertools
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

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
from onlinels.images import ImagePreprocessing, Patches
from support import laws, strategies
from support.digits_network import IMAGES, LABELS, learn, small

# Features of two images, or of one image much brighter than the others, are often equal.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Most hidden units are 0:UserWarning"),
    pytest.mark.filterwarnings("ignore:Features are made from few:UserWarning"),
]


def of_digits(**settings):
    """Return a network of the preset for digits; small, unless settings say otherwise."""
    settings = {"warm_up": 30, "n_hidden": 40, "ridge": 1.0} | settings
    return ShallowConvClassifier.from_preset("digits", **settings)


# -- any history is the batch solution -------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """A case worked through part by part, the features made from its first images."""

    case: strategies.NetworkCase
    weights: np.ndarray
    activations: np.ndarray
    ridge: float

    @classmethod
    def of(cls, case, weights):
        first, labels = case.images[: case.warm_up], case.labels[: case.warm_up]
        before = ImagePreprocessing.from_examples(first, **case.preprocessing)
        first = before.transform_many(first)
        features = ConvolutionalFeatures.from_examples(first, labels, **case.features)
        names = labels if len(set(labels)) > 1 else list(range(len(labels)))
        rows = np.asarray(features.transform_many(first))
        hidden = HiddenLayer.from_examples(rows, names, **case.hidden, standardize=False)
        processed = before.transform_many(case.images)
        activations = hidden.transform_many(np.asarray(features.transform_many(processed)))
        # Differences of images that are nearly the same are noise, another one in each batch.
        assume(np.abs(activations).max() > 1e-6 or not activations.any())
        ridge = case.ridge_share * float(np.square(activations).sum(axis=0).mean())
        return cls(case, weights, activations, ridge or 1.0)

    def network(self, least=None):
        """Return a network of the same settings that has learnt nothing."""
        return ShallowConvClassifier(
            ConvolutionalFeatures(**self.case.features),
            HiddenLayer(**self.case.hidden),
            LeastSquaresClassifier(ridge=self.ridge, fit_intercept=False),
            warm_up=self.case.warm_up,
            preprocessing=ImagePreprocessing(**self.case.preprocessing),
            few_images_ridge=least and least * self.ridge,
        )

    def batch(self, rows):
        """Return images, labels and weights of some rows."""
        return self.case.images[rows], [self.case.labels[row] for row in rows], self.weights[rows]

    def learn(self, model, rows, data=None):
        if rows:
            images, labels, w = self.batch(rows)
            model.learn_many(images, labels, w)
            # The array is the caller's.
            images[:] = 0
        return model

    def assert_learnt(self, model, ridge):
        """The network is the chain with the batch ridge solution of all rows."""
        A = self.activations
        found = model.transform_many(self.case.images)
        np.testing.assert_allclose(found, A, atol=1e-8 * np.abs(A).max(initial=1e-9))
        Y, W = laws.one_hot(self.case.labels, model.classes), model.output_weights
        laws.assert_solves_weighted_ridge(W, np.full(len(W), ridge), A, Y, self.weights)
        np.testing.assert_allclose(model.scores_many(self.case.images), A @ W, atol=1e-6)
        assert model.count == len(A)


def one_by_one(chain, model, rows, data):
    for image, label, w in zip(*chain.batch(rows), strict=True):
        model.learn_one({"image": image}, label, w)
    return model


def predicted_first(chain, model, rows, data):
    model.predict_learn_many(*chain.batch(rows))
    return model


def there_and_back(chain, model, rows, data):
    """Learn other images, too, and remove them; in a warm-up, no more than it has room for."""
    chain.learn(model, rows)
    room = len(rows) if model.features_fixed else chain.case.warm_up - model.count - 1
    images, labels, w = (each[:room] for each in chain.batch(rows))
    if len(images):
        model.learn_many(images[:, ::-1], labels, w)
        model.unlearn_one({"image": images[0, ::-1]}, labels[0], w[0])
        model.unlearn_many(images[1:, ::-1], labels[1:], w[1:])
    return model


def by_a_site(chain, model, rows, data):
    """Merge a network that waits or has the features, which learnt as much as a warm-up holds."""
    site = data.draw(st.sampled_from([model.clone, model.empty]))()
    chain.learn(site, rows[: chain.case.warm_up - 1])
    # What both hold is in the order of the stream.
    pair = [model, site]
    if model.features_fixed and data.draw(st.booleans()):
        pair.reverse()
    before = [pickle.dumps(each) for each in pair]
    merged = pair[0] + pair[1]
    assert [pickle.dumps(each) for each in pair] == before
    return chain.learn(merged, rows[chain.case.warm_up - 1 :])


WAYS = Chain.learn, one_by_one, predicted_first, there_and_back, by_a_site
RIDGES = (
    lambda model, ridge: setattr(model, "ridge", ridge),
    lambda model, ridge: setattr(model.classifier, "ridge", ridge),
    lambda model, ridge: model.mutate({"classifier": {"ridge": ridge}}),
)
COPIES = copy.copy, lambda model: loads(dumps(model)), lambda model: model.empty() + model


@pytest.mark.filterwarnings("ignore:The network hardly recognises")
@strategies.examples(100)
@given(st.data(), strategies.network_cases())
def test_any_stream_is_the_chain_and_the_batch_solution(data, case):
    """Cut anywhere and learnt in any way, copied in between; the ridge may be set at any time.

    Below three images a unit, the ridge of few images is in force, if there is one.
    """
    weights = data.draw(st.sampled_from([[1.0], [1.0, 0.0, 2.0]]))
    chain = Chain.of(case, np.resize(weights, len(case)))
    least = data.draw(st.sampled_from([None, 7.0]))
    model, parts = chain.network(least), data.draw(strategies.splits(len(case)))
    ridge, is_few = chain.ridge, len(case) < 3 * case.hidden["n_hidden"]
    changed = data.draw(st.sampled_from([None, *parts]))
    for rows in parts:
        if rows is changed:
            ridge = 3.0 * chain.ridge
            data.draw(st.sampled_from(RIDGES))(model, ridge)
        model = data.draw(st.sampled_from(WAYS))(chain, model, list(rows), data)
        model.predict_many(case.images[:2])
        model = data.draw(st.sampled_from(COPIES))(model)
    in_force = max(ridge, model.few_images_ridge or 0.0) if is_few else ridge
    assert (model.ridge, model.ridge_) == (ridge, in_force)
    chain.assert_learnt(model, in_force)


@pytest.mark.parametrize(
    ("decay", "weight"),
    [({"forgetting_factor": 0.98}, 0.98**49), ({"half_life": 40.0}, 0.5 ** (49 / 40))],
)
def test_a_network_forgets_and_unlearns_as_its_linear_layer_does(decay, weight):
    """Any cut across the edge of the warm-up, with times out of order."""
    times = 100.0 + np.arange(90) * 37 % 90
    whole, cut, waits = of_digits(**decay), of_digits(**decay), of_digits(warm_up=400, **decay)
    for model, edges in ((whole, [0, 90]), (cut, [0, 1, 20, 55, 90]), (waits, [0, 90])):
        for rows in itertools.starmap(slice, itertools.pairwise(edges)):
            model.learn_many(IMAGES[rows], LABELS[rows], t=times[rows])
    layer = LeastSquaresClassifier(1.0, fit_intercept=False, priors="equal", **decay)
    activations = whole.transform_many(IMAGES[:90])
    layer.learn_many(activations, LABELS[:90], t=times)
    layer.unlearn_many(activations[40:41], LABELS[40:41], weight)
    for model in (whole, cut, waits):
        # What 49 images or seconds have left of its weight.
        model.unlearn_one(IMAGES[40], LABELS[40], weight)
    for model in (whole, cut):
        np.testing.assert_allclose(model.output_weights, layer.output_weights, atol=1e-9)
    assert waits.count == whole.count == 89


# -- the warm-up -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "size"),
    [((32, 32, 1), 1), ((33, 64, 1), 2), ((32, 32, 3), 2), ((1, 1, 2000), 1), ((70, 70, 1), 3)],
)
def test_few_images_are_classified_by_means_of_their_pixels(shape, size):
    """By at most 1,024, unless there are more channels, and relative to their length."""
    height, width, _ = shape
    images = np.random.default_rng(0).integers(1, 256, (6, *shape)).astype(np.uint8)
    images[5] = 0
    model = ShallowConvClassifier(ConvolutionalFeatures(padding=3))
    model.learn_many(images, list("ababab"))
    margins = [(0, 0), (0, -height % size), (0, -width % size), (0, 0)]
    means = ImagePreprocessing(size).transform_many(np.pad(images.astype(float), margins))
    rows = means.reshape(6, -1)
    rows[:5] /= np.linalg.norm(rows[:5], axis=1, keepdims=True)
    layer = laws.fitted(LeastSquaresClassifier(0.3), rows, list("ababab"))
    np.testing.assert_allclose(model.scores_many(images), layer.scores_many(rows), atol=1e-9)


@pytest.mark.parametrize(
    ("count", "size", "n_hidden", "cuts"),
    [
        (100, 100, 200, range(1, 100)),
        (330, 200, 300, [1, 100, 150, 201]),
        (330, 200, 300, []),
    ],
)
def test_a_network_of_the_held_images_predicts_during_the_warm_up(count, size, n_hidden, cuts):
    """Its features are made from 100, 200, 400, … images; it has learnt them all."""
    model, fixed = small(warm_up=500, n_hidden=300), small(size, n_hidden, learnt=count)
    for part in np.split(np.arange(count), cuts):
        model.learn_many(IMAGES[part], LABELS[part])
        model.predict_one(IMAGES[0])
    with pytest.raises(ValueError, match=rf"{count} of 500 warm-up images.*fix_features"):
        model.transform_many(IMAGES[:5])
    asked = IMAGES[:200]
    for each in (model, loads(dumps(model)), copy.copy(model)):
        np.testing.assert_array_equal(each.predict_many(asked), fixed.predict_many(asked))
        np.testing.assert_allclose(each.scores_many(asked), fixed.scores_many(asked), atol=1e-9)


def test_a_draft_is_no_part_of_the_state():
    """Files do not depend on what was asked or removed, and settings apply to it at once."""
    model, unasked = (learn(of_digits(warm_up=300, ridge=3.0), 120) for _ in range(2))
    model.predict_one(IMAGES[0])
    learn(model, 120, 150)
    model.predict_one(IMAGES[0])
    model.unlearn_many(IMAGES[120:150], LABELS[120:150])
    assert dumps(model) == dumps(unasked)
    for image, label, w in ((130, LABELS[130], 1.0), (3, LABELS[3], 2.0), (3, 11, 1.0)):
        remove = functools.partial(model.unlearn_many, IMAGES[[image]], [label], w)
        laws.assert_refused(remove, model, r"^X\[0\] with label .* among the 120 warm-up images")
    assert "120 of 300 warm-up images" in repr(model)
    assert "warm-up" not in repr(learn(model, 120, 300))


def test_images_of_another_shape_than_the_held_ones_do_not_merge():
    wide = laws.fitted(of_digits(), np.ones((2, 9, 9)), [1, 2])
    for model in (learn(of_digits(), 40), of_digits().merge(learn(of_digits(), 2))):
        with pytest.raises(ValueError, match=r"shape \(9, 9, 1\), expected \(8, 8, 1\)"):
            model.predict_many(np.ones((1, 9, 9)))
        merge = functools.partial(model.merge, wide)
        laws.assert_refused(merge, model, r"expected \(8, 8, 1\)")


RANDOM = np.random.default_rng(0)
TOLD = dict.fromkeys([40, 80], "hardly recognises")
TOLD[20] = "names [0-9] of 20 images .* For photos, learn embedd"


@pytest.mark.parametrize(
    ("images", "labels", "told"),
    [
        (RANDOM.random((80, 16, 16)), RANDOM.integers(0, 4, 80), TOLD),
        *((IMAGES, labels, {}) for labels in (LABELS, np.zeros(80, int), np.arange(80) < 3)),
    ],
    ids=["noise", "digits", "one class", "hardly another class"],
)
def test_a_network_warns_that_answers_from_pixels_tell_no_classes_apart(images, labels, told):
    """Once at each of three numbers of images, when it is asked."""
    model = ShallowConvClassifier.from_preset("digits")
    for count in (18, 19, 20, 21, 39, 40, 41, 80):
        model.learn_many(images[model.count : count], labels[model.count : count])
        quiet = contextlib.nullcontext()
        with pytest.warns(DataWarning, match=told[count]) if count in told else quiet:
            model.predict_one(images[0])


def test_features_of_few_or_equal_images_are_reported():
    model = of_digits(warm_up=200)
    learn(model, 29)
    with pytest.warns(UserWarning, match="from few images. 29 images, expected at least 100"):
        model.fix_features()
    model = of_digits()
    with pytest.warns(UserWarning, match=r"hidden units are 0 .* 40 of 40 .*more varied images"):
        model.learn_many(np.zeros((40, 8, 8)), ["nothing"] * 40)
    assert model.features_fixed


# -- few images ------------------------------------------------------------------------------------


def test_the_ridge_of_few_images():
    """It changes in the middle of a batch, too, and is in force in the warm-up."""
    one, many = (
        learn(of_digits(n_hidden=20, ridge=1e-3, few_images_ridge=0.5), 50) for _ in range(2)
    )
    labels = []
    for image, label in zip(IMAGES[50:70], LABELS[50:70], strict=True):
        labels.append(one.predict_one(image))
        one.learn_one(image, label)
    assert many.predict_learn_many(IMAGES[50:70], LABELS[50:70]).tolist() == labels
    assert one.ridge_ == many.ridge_ == 1e-3
    # One that has learnt few, and one that has learnt many.
    few = learn(one.empty(), 70, 80)
    assert difference(few, one) > 0.0
    assert learn(one, 70, 80).difference(many.merge(few)) < 1e-9
    assert few.merge(many).ridge_ == 1e-3
    draft, known = (small(300, 300, ridge=ridge) for ridge in (1e-9, 1e-2))
    draft = learn(draft.clone({"few_images_ridge": 1e-2}), 150)
    learn(known, 150)
    np.testing.assert_array_equal(draft.scores_many(IMAGES), known.scores_many(IMAGES))
    draft.ridge = 1e-4
    assert draft.few_images_ridge is None


# -- forms of images -------------------------------------------------------------------------------

IMAGE_FORMS = {
    "arrays": lambda X: [{"image": image} for image in X],
    "flat": lambda X: X.reshape(len(X), -1),
    "positions": lambda X: [dict(enumerate(row)) for row in X.reshape(len(X), -1).tolist()],
    "frame": lambda X: pd.DataFrame(X.reshape(len(X), -1)),
}


@pytest.mark.parametrize("form", IMAGE_FORMS)
@pytest.mark.parametrize("shape", [(8, 10, 3), (8, 10)])
def test_images_of_any_form_go_by_the_shape_of_images_as_they_come(form, shape):
    """Not as the filters meet them, after they were made smaller and greyed."""
    images = np.random.default_rng(0).integers(0, 256, (40, *shape)).astype(float)
    labels, X = list("abcd" * 10), IMAGE_FORMS[form](images)
    settings = {"downsample": 2, "scale": 255.0, "grey_channel": len(shape) == 3, "whitening": 0.1}
    model = small(before=ImagePreprocessing(**settings), filters=Patches(5, size=3), pool_size=2)
    # Rows of pixels come after an array, or a setting tells their shape.
    told, shown = model.clone({"image_shape": shape}), model.clone()
    for each, rows in ((model, images), (told, X), (shown, X)):
        first = X if each is told else [{"image": image} for image in images]
        for batch, part in ((first, slice(0, 7)), (rows, slice(7, 31)), (rows, slice(31, 40))):
            each.learn_many(batch[part], labels[part])
        np.testing.assert_allclose(each.scores_many(images), model.scores_many(images), atol=1e-6)
        assert list(each.predict_many(X)) == list(model.predict_many(images))


def test_frames_go_by_the_shape_of_the_first_one():
    """Also within a wrapper, without sums, and whatever the shape of the preset."""
    X, y = np.random.default_rng(0).integers(0, 120, (40, 24, 24, 3), np.uint8), [0, 1, 2, 1] * 10
    # One third of the rows tells the class.
    X += np.uint8(100) * (np.arange(24)[:, None, None] // 8 == np.reshape(y, (40, 1, 1, 1)))
    model = of_digits(filters=Patches(6))
    refused = r"of shape \(24, 24, 3\).*X\[None\]"
    laws.assert_refused(lambda: model.learn_many(X[0], ["mug"]), model, refused)
    # Rows of pixels have the shape of the preset, other arrays their own.
    for first in (X[0, ..., 0], IMAGES[0], IMAGES[0].ravel()):
        of_digits().learn_one(first, "mug")
    wrapped = laws.fitted_by_row(CalibratedClassifier(model), X, y)
    assert wrapped.predict_one(X[1]) == wrapped.predict_one({"image": X[1]}) == y[1]
    model = wrapped.classifier
    predictor = loads(dumps(answers_only(model)))
    np.testing.assert_array_equal(predictor.predict_many(X), model.predict_many(X))
    for each in (model, predictor):
        for shape in ((25, 25, 3), (3, 24, 24), (24, 24, 4), (24, 24)):
            with pytest.raises(ValueError, match=r"expected \(24, 24, 3\).*convert its channels"):
                each.predict_many(np.zeros((2, *shape), np.uint8))


# -- refusals --------------------------------------------------------------------------------------

ONE = np.ones((1, 8, 8))
BAD_CALLS = [
    ("learn_many", (np.ones((2, 9, 8)), [1, 2]), ValueError, "shape"),
    ("learn_many", (np.ones((2, 8, 8)), [1]), ValueError, "1 labels, expected 2"),
    ("learn_many", (ONE, [float("nan")]), ValueError, "is nan, expected a label"),
    ("learn_many", (ONE, ["new"], [-1.0]), ValueError, "at least 0"),
    ("learn_many", (ONE, [[1]]), TypeError, "hashable"),
    ("learn_many", (ONE, [1], None, "noon"), TypeError, "'noon'"),
    ("learn_one", ({}, 1), ValueError, "no pixels"),
    *(("learn_one", (ONE[0], 1, w), TypeError, "w is .*, expected one n") for w in (None, ONE[0])),
    *(("unlearn_one", (ONE[0], 1, w), TypeError, "w is .*, expected one") for w in (None, ONE[0])),
    ("predict_many", (np.ones((2, 9, 8)),), ValueError, "shape"),
    ("transform_many", (np.ones((2, 9, 9)),), ValueError, "shape"),
    ("merge", (LeastSquaresClassifier(),), TypeError, "LeastSquaresClassifier"),
]


@pytest.mark.parametrize("learnt", [0, 10, 40])
@pytest.mark.parametrize(("method", "arguments", "error", "message"), BAD_CALLS, ids=str)
def test_bad_calls_leave_the_state_untouched(learnt, method, arguments, error, message):
    model = learn(of_digits(image_shape=(8, 8), half_life=9.0), learnt)
    laws.assert_refused(lambda: getattr(model, method)(*arguments), model, message, error)


PLAIN = {"normalize": False, "before_pooling": 1.0, "after_pooling": 1.0}


@pytest.mark.parametrize(
    ("preprocessing", "features", "message"),
    [
        ({"downsample": 3}, {}, "multiples of downsample=3"),
        ({"downsample": 2}, {"image_shape": (8, 8)}, r"expected \(8, 8\)"),
        ({}, {"filters": Patches(5, size=9)}, "size=9 exceeds images of 8 x 8"),
        ({}, {"filters": np.ones((2, 3, 3, 5))}, "1 channels, expected 5"),
        ({}, {}, "expected 5 as in the examples"),
    ],
)
def test_images_that_can_never_be_learnt_are_not_held(preprocessing, features, message):
    """Else the end of the warm-up would be refused, however the stream went on."""
    before = ImagePreprocessing(**preprocessing)
    features = ConvolutionalFeatures(pool_size=3, padding=4, **features)
    hidden = HiddenLayer.from_examples(np.eye(5), list("ababa"), 4)
    model = ShallowConvClassifier(features, hidden, preprocessing=before)
    laws.assert_refused(lambda: model.learn_many(ONE, [1]), model, message)


def test_a_network_that_memory_cannot_hold_is_refused_at_the_first_image(monkeypatch):
    monkeypatch.setattr(checks, "memory_limit", lambda: 1e6)
    model = of_digits(n_hidden=1000)
    learn(model, 0)
    laws.assert_refused(lambda: learn(model, 1), model, "smaller n_hidden")
    learn(of_digits(), 29)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("limit", "dtype", "downsample", "filters"),
    [
        (1e60, "float64", 2, ("hand-designed", Patches(5, size=3))),
        (1e17, "float32", 1, Patches(5, size=3)),
    ],
)
def test_what_is_held_can_be_learnt_when_the_warm_up_ends(
    turned, limit, dtype, downsample, filters
):
    """However large a pixel is held; filters of another network merge all images or none."""
    before = ImagePreprocessing(downsample, 16.0, whitening=0.1, image_shape=(8, 8), dtype=dtype)
    make = functools.partial(small, before=before, filters=filters, dtype=dtype)
    fixed, waiting, largest = make(learnt=30), make(learnt=5), IMAGES[35:36] * (limit / 16.0)
    too_large = functools.partial(waiting.learn_many, 1.01 * largest, LABELS[35:36])
    laws.assert_refused(too_large, waiting, "Rescale the images")
    waiting.learn_many(largest, LABELS[35:36])
    models = (waiting, fixed) if turned else (fixed, waiting)
    before = [pickle.dumps(model) for model in models]
    merged = False
    with contextlib.suppress(ValueError):
        merged = models[0].merge(models[1]).count == 36
    assert [pickle.dumps(model) for model in models][merged:] == before[merged:]
    alone = laws.fitted(make(), largest, LABELS[35:36])
    assert learn(alone, 10, 50).count == 41


@pytest.mark.parametrize(
    ("hidden", "n_learnt", "size", "weight", "message"),
    [
        (HiddenLayer(10, "gaussian", "cube"), 30, 1e57, 1.0, r"[Rr]escale"),
        (HiddenLayer(10, "gaussian", "square"), 30, 1e55, 1e149, r"[Rr]escale"),
        # Pixels must fit the precision of the hidden layer, too, also before it is made.
        (HiddenLayer(10, "difference", dtype="float32"), 0, 1e45, 1.0, r"dtype='float32'.*Rescale"),
        (HiddenLayer(10, "difference", dtype="float32"), 30, 1e45, 1.0, r"dtype='float32'.*Rescal"),
    ],
)
@pytest.mark.parametrize("row", [0, 19, 45])
def test_images_that_are_refused_halfway_leave_nothing_learnt_or_held(
    monkeypatch, hidden, n_learnt, size, weight, message, row
):
    """In blocks, of which only one is refused."""
    monkeypatch.setattr("onlinels.network.stages.BLOCK_IMAGES", 20)
    model = ShallowConvClassifier(ConvolutionalFeatures(**PLAIN), hidden, warm_up=25)
    model.learn_many(IMAGES[:n_learnt], LABELS[:n_learnt])
    images, w = IMAGES[30:80].copy(), np.ones(50)
    images[row] *= size
    w[row] = weight
    laws.assert_refused(lambda: model.learn_many(images, LABELS[30:80], w), model, message)
    learn(model, 30, 80)
    assert model.count == n_learnt + 50


def test_images_held_that_cannot_be_learnt_stay_held():
    features = ConvolutionalFeatures(np.ones((20, 3, 3)), pool_size=1, **PLAIN)
    hidden = HiddenLayer(30, "difference", activation="cube", dtype="float32")
    model = ShallowConvClassifier(features, hidden, LeastSquaresClassifier(1.0), warm_up=20)
    model.learn_many(IMAGES[:12] * 6e10, LABELS[:12])
    learn_more = functools.partial(model.learn_many, IMAGES[12:30] * 6e10, LABELS[12:30])
    for call in (learn_more, model.fix_features):
        laws.assert_refused(call, model, "float32")


# -- networks that do not merge --------------------------------------------------------------------

OWN = {"before": ImagePreprocessing(whitening=0.1), "filters": Patches(5, size=3)}
OTHERS = [
    ("preprocessing", {"before": ImagePreprocessing(whitening=0.2)}),
    ("features", {"filters": (Patches(5, size=3), Patches(5, size=3))}),
    ("features", {"filters": np.ones((5, 3, 3))}),
    ("warm_up", {"warm_up": 21}),
]


@pytest.mark.parametrize("learnt", [10, 30])
@pytest.mark.parametrize(("name", "settings"), OTHERS)
def test_networks_of_other_settings_do_not_merge(learnt, name, settings):
    model, other = small(**OWN, learnt=learnt), small(**OWN | settings)
    laws.assert_refused(lambda: model.merge(other), model, rf"different settings \({name}: ")


@pytest.mark.parametrize("learnt", [6, 40])
def test_networks_of_the_same_images_do_not_differ(learnt):
    """Those of other warm-up images do, and do not merge."""
    model = learn(small(), learnt)
    other = copy.copy(model)
    assert model.difference(other) == 0.0
    learn(other, 40, 44)
    assert model.difference(other) > 1e-3
    other.unlearn_many(IMAGES[40:44], LABELS[40:44])
    assert difference(model, other) < 1e-9
    model.ridge = other.ridge = "auto"
    model.select_ridge()
    other.select_ridge()
    assert model.difference(other) < 1e-6
    learn(model, 40, 60)
    late = learn(small(ridge="auto"), 60, 90)
    for call in (model.merge, model.difference):
        laws.assert_refused(lambda call=call: call(late), model, "different fixed features, made f")


def test_networks_merge_whose_input_weights_two_machines_made_of_the_same_images():
    model = small(learnt=40)
    other, expected = loads(dumps(model)), model + model
    hidden = other._stage.hidden
    made = replace(hidden._made, landmarks=hidden._made.landmarks * (1.0 + 1e-15))
    vars(hidden).update(_made=made, input_weights=made)
    np.testing.assert_array_equal((model + other).output_weights, expected.output_weights)


@pytest.mark.parametrize("read", [lambda said: said, lambda said: pickle.loads(said["pickled"])])
def test_networks_of_format_3_go_on(read):
    """One in its warm-up, which had answered, and one after it."""
    path = Path(__file__).parent / "networks_of_format_3.npz.gz"
    said = loads(gzip.decompress(path.read_bytes()))
    models, expected, images = read(said), said["told"], IMAGES[:, 2:6:2, 2:6:2]
    waits, fixed = models["waits"], models["fixed"]
    np.testing.assert_allclose(waits.predict_proba_many(images[:3]), expected["waits"], atol=1e-9)
    np.testing.assert_allclose(fixed.scores_many(images[:3]), expected["fixed"], atol=1e-9)
    assert (waits.count, waits.features_fixed, waits.image_shape) == (4, False, (2, 2))
    assert (fixed.count, fixed.features_fixed, fixed.ridge_) == (8, True, 0.5)
    for model in (waits, fixed):
        with pytest.raises(ValueError, match=r"expected \(2, 2, 1\)"):
            learn(model, 2)
        model.learn_many(images[8:40], LABELS[8:40], t=np.arange(8.0, 40.0))
        assert model.features_fixed
        again = loads(dumps(model))
        np.testing.assert_array_equal(again.scores_many(images), model.scores_many(images))
