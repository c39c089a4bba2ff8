"""Rows answered before they are learnt: pipelines, the network, wrappers, as rows one by one."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import base, compose, preprocessing

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    ShallowConvClassifier,
)
from onlinels.linear.scoring import SCALE_PENALTIES
from support import laws, strategies
from support.models import Scheduled
from support.strategies import splits


@st.composite
def settings(draw, ridges=(1.0, 1e-2, "auto", "paper")):
    """Draw settings of a linear classifier."""
    forgetting = draw(st.sampled_from([{}, {}, {"forgetting_factor": 0.95}, {"half_life": 20.0}]))
    return {
        "accumulator": draw(st.sampled_from(["gram", "gram", "recursive", "orthogonal"])),
        "ridge": draw(st.sampled_from(ridges)),
        "fit_intercept": draw(st.booleans()),
        "priors": draw(st.sampled_from([None, None, "learnt", "equal"])),
        **forgetting,
    }


@st.composite
def labelled_rows(draw, max_rows=100):
    """Draw rows as dicts with late features, labels of which some come late, weights and times."""
    n_rows, n_features = draw(st.integers(1, max_rows)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.normal(size=(n_rows, n_features)) + draw(st.sampled_from([0.0, 2.0]))
    if draw(st.booleans()):
        X[: draw(st.integers(0, n_rows)), -1] = 0.0
    names = draw(st.sampled_from([["cat", "dog", "emu"], [False, True], [3, 1, (2, "a")]]))
    places = (X[:, 0] + 0.5 * random.normal(size=n_rows) > 0.5).astype(int)
    places[n_rows // 2 :] += random.integers(0, 2, n_rows - n_rows // 2)
    y = [names[place % len(names)] for place in places.tolist()]
    rows = [{k: v for k, v in enumerate(row) if v or k == 0} for row in X.tolist()]
    w = random.integers(0, 3, n_rows).astype(float) if draw(st.booleans()) else np.ones(n_rows)
    t = np.cumsum(random.random(n_rows)) if draw(st.booleans()) else np.arange(n_rows, dtype=float)
    return rows, y, w, t


def one_by_one(model, rows, y, w, t):
    """Return probabilities, label and margin of every row from a loop, which teaches the model."""
    answers = []
    for x, label, weight, time in zip(rows, y, w.tolist(), t.tolist(), strict=True):
        margin = 1.0
        if isinstance(model, CalibratedClassifier):
            margin = np.diff(np.sort(model._losses + SCALE_PENALTIES)[:2]).item()
        probabilities = model.predict_proba_one(x)
        highest = sorted([*probabilities.values(), 0.0, 0.0])[-2:]
        margin = min(margin, highest[1] - highest[0])
        answers.append((probabilities, model.predict_one(x), margin))
        model.learn_one(x, label, w=weight, t=time)
    return answers


def in_batches(learn, y, w, t, rows, parts):
    """Call a method of learning, or of learning and answering, batch by batch."""
    answers = []
    for part in parts:
        block = slice(part.start, part.stop)
        answers += learn(rows[block], y[block], w=w[block], t=t[block]) or []
    return answers


def assert_as_one_by_one(model, rows, y, w, t, parts):
    """Assert that batches are answered as rows one by one; return models that learnt them."""
    labels, single = copy.deepcopy(model), copy.deepcopy(model)
    ask = model.predict_proba_learn_many, labels.predict_learn_many
    found, named = (in_batches(method, y, w, t, rows, parts) for method in ask)
    expected = one_by_one(single, rows, y, w, t)
    for row, label, (probabilities, predicted, margin) in zip(found, named, expected, strict=True):
        assert list(row) == list(probabilities)
        # A near tie, of labels or of the scales of a calibration, may be decided either way.
        if margin > 1e-6:
            assert label == predicted
            values = list(row.values()), list(probabilities.values())
            np.testing.assert_allclose(*values, rtol=0.0, atol=1e-6)
    return single, [model, labels]


def assert_same_linear(model, other):
    """Assert that two models, pipelines or wrappers hold the same linear layer."""
    one, two = (getattr(each, "classifier", each) for each in (model, other))
    one, two = (each[-1] if isinstance(each, compose.Pipeline) else each for each in (one, two))
    if isinstance(one, ShallowConvClassifier):
        assert one.features_fixed == two.features_fixed
        one, two = one._linear_layer(), two._linear_layer()
    one, two = (getattr(each, "classifier", each) for each in (one, two))
    assert (one.count, one.classes, one.feature_names) == (
        two.count,
        two.classes,
        two.feature_names,
    )
    scale = 1.0 + np.abs(two.output_weights).max(initial=0.0)
    np.testing.assert_allclose(one.output_weights, two.output_weights, rtol=0.0, atol=1e-6 * scale)
    np.testing.assert_allclose(one.intercept, two.intercept, rtol=0.0, atol=1e-6 * scale)


HIDDEN = HiddenLayer(6, activation="relu", seed=1)


def prepared(model, form):
    """Let a model learn some rows first where the ridge is chosen: with few it may be nearly 0."""
    if isinstance(form["ridge"], str):
        random = np.random.default_rng(7)
        for x in random.normal(size=(40, 4)).tolist():
            model.learn_one(dict(enumerate(x)), ["first", "second"][int(random.integers(2))])
    return model


class Doubled(base.Transformer):
    """A step that transforms single rows only."""

    def transform_one(self, x):
        return {name: 2.0 * value for name, value in x.items()}


IMAGES = np.random.default_rng(0).random((120, 6, 6))
DIGITS = [int(image[:3].sum() > image[3:].sum()) + 2 * (k > 60) for k, image in enumerate(IMAGES)]
DIGITS = [digit % 3 for digit in DIGITS]


def network(ridge=1.0, warm_up=40, **others):
    return ShallowConvClassifier(
        ConvolutionalFeatures(pool_size=3, stride=3, padding=3),
        HiddenLayer(6, "difference"),
        LeastSquaresClassifier(ridge, fit_intercept=False, **others),
        warm_up=warm_up,
    )


@strategies.examples(15)
@given(data=st.data(), ridge=st.sampled_from([1.0, "auto", "paper"]), warm_up=st.integers(2, 130))
def test_a_network_answers_as_image_by_image(data, ridge, warm_up):
    """Features get fixed in the middle of a batch of several blocks, or never."""
    warm_up = max(warm_up, 30) if ridge == "auto" else warm_up
    half_life = data.draw(st.sampled_from([None, 30.0]))
    model = network(ridge, warm_up, half_life=half_life)
    if data.draw(st.booleans()):
        model.learn_many(IMAGES[:7], DIGITS[:7])
    n_images = data.draw(st.integers(1, 120))
    rows = [{"image": image} for image in IMAGES[:n_images]]
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    w = random.integers(0, 3, n_images) + 0.0 if data.draw(st.booleans()) else np.ones(n_images)
    stream = rows, DIGITS[:n_images], w, np.arange(n_images) / 2.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinels.network.BLOCK_IMAGES", 17)
        single, models = assert_as_one_by_one(model, *stream, data.draw(splits(n_images)))
    for each in models:
        assert_same_linear(each, single)
        assert len(each._held) == len(single._held)


@pytest.mark.parametrize("n_before", [0, 39, 60])
def test_images_that_are_refused_change_nothing(n_before):
    model = network()
    if n_before:
        model.learn_many(IMAGES[:n_before], DIGITS[:n_before])
        model.predict_many(IMAGES[:1])
    laws.assert_batches_refused(model, IMAGES, DIGITS)
    unlike = [{"image": IMAGES[0]}, {"image": np.ones(3)}]
    laws.assert_refused(lambda: model.predict_learn_many(unlike, [1, 2]), model, "image")


def wrapped(data, form):
    """Draw what a wrapper wraps."""
    kind = data.draw(st.sampled_from(["linear", "linear", "hidden", "scaled", "function"]))
    model = LeastSquaresClassifier(**form)
    if kind == "hidden":
        return HIDDEN.clone() | model
    if kind == "scaled":
        return preprocessing.StandardScaler() | model
    # Of river's: it learns nothing, and transforms no lists.
    return Doubled() | model if kind == "function" else model


@strategies.examples(20)
@given(st.data(), settings(), labelled_rows())
def test_a_calibrated_classifier_answers_as_row_by_row(data, form, stream):
    model = prepared(CalibratedClassifier(wrapped(data, form)), form)
    single, models = assert_as_one_by_one(model, *stream, data.draw(splits(len(stream[1]))))
    for each in models:
        assert_same_linear(each, single)
        np.testing.assert_allclose(each._losses, single._losses, rtol=1e-6, atol=1e-6)


def test_a_calibrated_network():
    for ridge, warm_up in ((1.0, 30), ("paper", 30), ("auto", 200)):
        model = CalibratedClassifier(network(ridge, warm_up))
        rows = [{"image": image} for image in IMAGES]
        stream = rows, DIGITS, np.ones(120), np.arange(120.0)
        single, models = assert_as_one_by_one(model, *stream, [range(50), range(50, 120)])
        for each in models:
            assert_same_linear(each.classifier, single.classifier)
            np.testing.assert_allclose(each._losses, single._losses, rtol=1e-6, atol=1e-6)


@strategies.examples(20)
@given(
    st.data(),
    settings(ridges=(1.0, 1e-2)),
    labelled_rows(),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sets(st.integers(1, 100), max_size=6),
)
def test_a_drift_aware_classifier_answers_as_row_by_row(data, form, stream, keep, alarms):
    """Blocks end at alarms; with `keep` at 0 classes and features are forgotten there."""
    model = DriftAwareClassifier(wrapped(data, form), Scheduled(alarms), keep)
    parts, silent = data.draw(splits(len(stream[1]))), copy.deepcopy(model)
    single, models = assert_as_one_by_one(model, *stream, parts)
    rows, y, w, t = stream
    in_batches(silent.learn_many, y, w, t, rows, parts)
    for each in (*models, silent):
        assert_same_linear(each, single)
        assert each.n_alarms == single.n_alarms
        assert each.detector.seen == single.detector.seen


def test_classes_that_were_forgotten_have_columns_behind_the_others():
    model = DriftAwareClassifier(LeastSquaresClassifier(1.0), Scheduled({4}))
    X = np.array([[0.0], [1.0], [0.2], [1.1], [0.1], [0.3]])
    table = model.predict_proba_learn_many(X, ["b", "a", "b", "a", "c", "c"])
    assert model.classes == ("c",)
    assert table.shape == (6, 3)
    assert (table[:5, 0] == 0.0).all()
    np.testing.assert_allclose(table.sum(axis=1), [0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert table[5].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("wrap", [CalibratedClassifier, DriftAwareClassifier])
def test_rows_that_a_wrapper_refuses_change_nothing(wrap, is_scaled):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), random.integers(0, 2, 200).tolist()
    linear = LeastSquaresClassifier(1.0)
    model = wrap(preprocessing.StandardScaler() | linear if is_scaled else linear)
    for x, label in zip(strategies.Rows(X[:40], y, None).dicts(), y, strict=False):
        model.learn_one(x, label)
    model.predict_one({0: 1.0, 1: 1.0, 2: 0.0})
    laws.assert_batches_refused(model, X, y)
    late = lambda: model.predict_learn_many(X, y, t=[1.0, 2.0])  # noqa: E731
    laws.assert_refused(late, model, "t has shape")
