"""predict_learn_many answers the rows of a batch before it learns them: as one by one, to rounding.

So do linear models, wrappers, pipelines in them, and the network.
"""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from river import base, compose, preprocessing

from onlinels import (
    CalibratedClassifier,
    ConvolutionalFeatures,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
)
from onlinels.linear.scoring import SCALE_PENALTIES
from support import laws, strategies
from support.models import Scheduled
from support.slow import the_rest_slow
from support.strategies import splits

RIDGES = 1.0, 1e-3, 30.0, "auto", "auto", "paper", 0.0


@st.composite
def forms(draw, ridges=RIDGES):
    """Draw settings of a linear model, those in which a solution goes on more often."""
    accumulator = draw(st.sampled_from(["gram", "gram", "recursive", "recursive", "orthogonal"]))
    ridge = draw(st.sampled_from(ridges))
    if accumulator == "gram" and 0.0 in ridges:
        ridge = draw(st.sampled_from([ridge, ridge, KFold(3)]))
    forgetting = draw(st.sampled_from([{}, {}, {"forgetting_factor": 0.95}, {"half_life": 20.0}]))
    settings = {"accumulator": accumulator, "ridge": ridge, **forgetting}
    settings["fit_intercept"] = draw(st.booleans())
    settings["scaling"] = draw(
        st.sampled_from(["auto", None] if ridge == 0.0 else ["auto", "auto", "standard", None])
    )
    return settings


@st.composite
def streams(draw, shapes=("plain", "late", "constant", "dependent", "whole")):
    """Draw rows with late features, constants, offsets and dependent columns, and weights."""
    n_rows, n_features = draw(st.integers(1, 150)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.normal(size=(n_rows, n_features)) * draw(st.sampled_from([1.0, 1e-3, 50.0]))
    X += draw(st.sampled_from([0.0, 0.0, 3.0]))
    shape = draw(st.sampled_from(shapes))
    if shape == "late":
        X[: draw(st.integers(0, n_rows)), -1] = 0.0
    elif shape == "constant":
        X[:, 0] = 0.7
    elif shape == "dependent":
        X[:, -1] = X[:, 0]
    elif shape == "whole":
        X = random.integers(0, 3, X.shape).astype(float)
    w = random.integers(0, 3, n_rows).astype(float) if draw(st.booleans()) else np.ones(n_rows)
    t = np.cumsum(random.random(n_rows)) if draw(st.booleans()) else None
    if t is not None and draw(st.booleans()):
        t = random.permutation(t)
    return X, w, t, random


def one_by_one(model, rows, y, w, t, ask):
    """Return what a loop of questions and answers gives, and the model after it."""
    given = []
    for row, x in enumerate(rows.tolist() if isinstance(rows, np.ndarray) else rows):
        x = dict(enumerate(x)) if isinstance(x, list) else x
        given.append(ask(model, x))
        model.learn_one(x, y[row], w=float(w[row]), t=None if t is None else t[row])
    return given


def in_batches(learn, rows, y, w, t, parts):
    """Call a method of learning, or of learning and answering, batch by batch."""
    answers = []
    for part in parts:
        block = slice(part.start, part.stop)
        when = None if t is None else t[block]
        answers += learn(rows[block], y[block], w=w[block], t=when) or []
    return answers


def answers_of(model, x):
    """Return probabilities, label, and how far what is decided is from a tie: label, and scale."""
    apart = 1.0
    if isinstance(model, CalibratedClassifier):
        apart = np.diff(np.sort(model._losses + SCALE_PENALTIES)[:2]).item()
    probabilities = model.predict_proba_one(x)
    highest = sorted([*probabilities.values(), 0.0, 0.0])[-2:]
    return probabilities, model.predict_one(x), highest[1] - highest[0], apart


def linear_of(model):
    """Return the linear model within a wrapper, a pipeline or a network."""
    if not isinstance(model, ShallowConvClassifier):
        model = getattr(model, "classifier", model)
        model = model[-1] if isinstance(model, compose.Pipeline) else model
    if isinstance(model, ShallowConvClassifier):
        # Its own `classifier` has the settings and learns nothing.
        model = model._answering()
    return getattr(model, "classifier", model)


def assert_same_model(model, other, rtol=1e-6):
    """Assert that two models, pipelines or wrappers have learnt the same."""
    for name in ("_losses", "n_alarms", "features_fixed"):
        found, expected = (getattr(each, name, 0.0) for each in (model, other))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    heard, expected = (getattr(each, "detector", None) for each in (model, other))
    assert getattr(heard, "seen", None) == getattr(expected, "seen", None)
    one, two = linear_of(model), linear_of(other)
    assert (one.count, one.feature_names) == (two.count, two.feature_names)
    assert laws.outputs_of(one) == laws.outputs_of(two)
    assert one.ridge_ == pytest.approx(two.ridge_, rel=1e-6)
    if one.ridge == 0.0 and np.abs(two.output_weights).max(initial=0.0) > 1e6:
        return  # Rounding decides about the rank of nearly dependent rows.
    np.testing.assert_allclose(one.output_weights, two.output_weights, rtol=rtol, atol=1e-6)
    np.testing.assert_allclose(one.intercept, two.intercept, rtol=rtol, atol=1e-6)


def assert_as_one_by_one(model, rows, y, w, t, parts, tolerance=1e-6):
    """Assert that batches are answered and learnt as rows one by one; return the model of these."""
    labels, silent, single = (copy.deepcopy(model) for _ in range(3))
    found = in_batches(model.predict_proba_learn_many, rows, y, w, t, parts)
    named = in_batches(labels.predict_learn_many, rows, y, w, t, parts)
    expected = one_by_one(single, rows, y, w, t, answers_of)
    for row, label, answer in zip(found, named, expected, strict=True):
        probabilities, predicted, *margins = answer
        assert list(row) == list(probabilities)
        # A near tie, of labels or of the scales of a calibration, may be decided either way.
        assert label == predicted or min(margins) <= tolerance
        if margins[1] > tolerance:
            values = [*row.values()], [*probabilities.values()]
            np.testing.assert_allclose(*values, rtol=0.0, atol=tolerance)
    models = [model, labels]
    # A calibration learns of predictions before a batch where a batch is only learnt.
    if not isinstance(model, CalibratedClassifier):
        in_batches(silent.learn_many, rows, y, w, t, parts)
        models.append(silent)
    for each in models:
        assert_same_model(each, single, tolerance)
    return single, models


# -- linear models and wrappers --------------------------------------------------------------------


class Doubled(base.Transformer):
    """A step of river's that transforms single rows only: it learns nothing."""

    def transform_one(self, x):
        return {name: 2.0 * value for name, value in x.items()}


HIDDEN = HiddenLayer(6, activation="relu", seed=1)
BEFORE = {
    "hidden": HIDDEN.clone,
    "scaled": preprocessing.StandardScaler,
    "function": Doubled,
}


@st.composite
def classifiers(draw):
    """Draw a linear classifier of any settings."""
    priors = st.sampled_from([None, "learnt", "equal", {"cat": 0.01}])
    return LeastSquaresClassifier(**draw(forms()), priors=draw(priors))


@st.composite
def ends(draw, ridges):
    """Draw what a wrapper wraps: a linear classifier, perhaps behind a step."""
    priors = st.sampled_from([None, None, "learnt", "equal"])
    model = LeastSquaresClassifier(**draw(forms(ridges)), priors=draw(priors))
    before = draw(st.sampled_from([None, None, *BEFORE]))
    return model if before is None else BEFORE[before]() | model


@st.composite
def calibrated(draw):
    """Draw a calibrated classifier, which has learnt rows: a ridge of few may be nearly 0."""
    model, random = CalibratedClassifier(draw(ends((1.0, 1e-2, "auto", "paper")))), RANDOM(7)
    for x in random.normal(size=(40, 4)).tolist():
        model.learn_one(dict(enumerate(x)), ["first", "second"][int(random.integers(2))])
    return model


@st.composite
def drift_aware(draw):
    """Draw a classifier with alarms; with `keep` at 0 they forget classes and features, too."""
    alarms, keep = draw(st.sets(st.integers(1, 100), max_size=6)), st.sampled_from([0.0, 0.1, 1.0])
    return DriftAwareClassifier(draw(ends((1.0, 1e-2))), Scheduled(alarms), draw(keep))


RANDOM = np.random.default_rng
KINDS = {
    "linear": (classifiers(), streams(), 1e-5),
    "calibrated": (calibrated(), streams(("plain", "late")), 1e-6),
    "drift": (drift_aware(), streams(("plain", "late")), 1e-6),
}
NAMES_OF_CLASSES = ["cat", "dog", "emu"], [False, True], [3, 1, (2, "a")]


@pytest.mark.parametrize("kind", KINDS)
@strategies.examples(25)
@given(data=st.data())
def test_labels_and_probabilities_are_those_of_rows_one_by_one(kind, data):
    """New classes and features come in the middle of a batch, and blocks end at alarms."""
    models, rows, tolerance = KINDS[kind]
    model, (X, w, t, random) = data.draw(models), data.draw(rows)
    names = data.draw(st.sampled_from(NAMES_OF_CLASSES))
    places = (X[:, 0] + random.normal(size=len(X)) > 0.0).astype(int)
    places[len(X) // 2 :] += random.integers(0, 2, len(X) - len(X) // 2)
    y = [names[place % len(names)] for place in places.tolist()]
    samples = [{k: v for k, v in enumerate(row) if v or k == 0} for row in X.tolist()]
    parts = data.draw(splits(len(X)))
    assert_as_one_by_one(model, samples, y, w, t, parts, tolerance)


@strategies.examples(25)
@given(st.data(), forms(), streams(), st.booleans())
def test_numbers_and_distributions_are_those_of_rows_one_by_one(data, form, stream, has_several):
    X, w, t, random = stream
    X, w, t = X[:90], w[:90], None if t is None else t[:90]
    Y = X[:, [0, -1]] / (np.abs(X).max() or 1.0) + random.normal(size=(len(X), 2))
    kind = LeastSquaresMultiTargetRegressor if has_several else LeastSquaresRegressor
    model, single, plain = kind(**form), kind(**form), kind(**form)
    y = Y if has_several else Y[:, 0]
    targets = [dict(enumerate(row)) for row in Y.tolist()] if has_several else y
    found = []
    for part in strategies.batches(data, len(X)):
        when = None if t is None else t[part]
        found.append(model.predict_learn_many(X[part], y[part], w[part], when, with_dist=True))
        means = plain.predict_learn_many(X[part], y[part], w[part], when)
        np.testing.assert_allclose(means, found[-1][0], rtol=1e-5, atol=1e-5)

    def ask(single, x):
        fresh = single.predict_one(x, with_dist=True)
        fresh = list(fresh.values()) if has_several else [fresh]
        return [each.mu for each in fresh], [each.sigma for each in fresh]

    given = one_by_one(single, X, targets, w, t, ask)
    for which, rtol in ((0, 1e-5), (1, 1e-4)):
        part = np.concatenate([np.reshape(pair[which], (len(pair[which]), -1)) for pair in found])
        expected = np.array([row[which] or [0.0, 0.0] for row in given])
        if which == 1:
            # Residuals below 1.5e-8 of the targets are beyond what sums tell.
            part, expected = np.maximum(part, 1e-5), np.maximum(expected, 1e-5)
        first = 1 if has_several else 0
        np.testing.assert_allclose(part[first:], expected[first:], rtol=rtol, atol=1e-5)
    for each in (model, plain):
        assert_same_model(each, single, 1e-5)


NAMES = ["0", "1", "2"]
FORMS = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES, index=range(len(X), 0, -1)),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "dicts": lambda X: [dict(zip(NAMES, row, strict=True)) for row in X.tolist()],
    "csr": scipy.sparse.csr_array,
    "coo": scipy.sparse.coo_array,
}


@pytest.mark.parametrize(
    "model",
    [
        LeastSquaresClassifier(),
        LeastSquaresClassifier(1.0),
        LeastSquaresClassifier(1.0, "recursive"),
        CalibratedClassifier(LeastSquaresClassifier(1.0)),
        DriftAwareClassifier(LeastSquaresClassifier(1.0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("form", FORMS)
def test_answers_come_in_the_kind_of_the_rows(model, form):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 3)).round(3), random.integers(0, 2, 60).tolist()
    rows, learnt = FORMS[form](X), model.clone()
    expected = model.clone().predict_learn_many(X, y)
    probabilities = model.clone().predict_proba_learn_many(X, y)
    found = learnt.predict_learn_many(rows, y)
    assert (expected.dtype, expected[0]) == (object, None)
    assert list(found) == expected.tolist()
    table = model.clone().predict_proba_learn_many(rows, y)
    assert type(found) is type(learnt.predict_many(rows))
    assert type(table) is type(learnt.predict_proba_many(rows))
    if form == "pandas":
        assert table.index.equals(rows.index)
        assert found.index.equals(rows.index)
    if form == "dicts":
        table = [[row.get(label, 0.0) for label in (y[0], 1 - y[0])] for row in table]
    np.testing.assert_allclose(np.asarray(table), probabilities, atol=1e-9)


@pytest.mark.parametrize(
    "form",
    [{}, {"ridge": 1.0}, {"ridge": 1.0, "accumulator": "recursive"}, {"ridge": "paper"}],
    ids=str,
)
def test_refused_rows_change_nothing(form):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), random.integers(0, 2, 200).tolist()
    model = LeastSquaresClassifier(**form)
    model.predict_learn_many(X, y)
    laws.assert_batches_refused(model, X, y)
    laws.assert_refused(lambda: model.predict_proba_learn_many(X[0], y), model, "X")


@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
def test_a_row_that_outweighs_the_others_is_learnt_beside_the_sums():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(100, 2)), random.normal(size=100)
    X[[20, 21, 70]] *= 1e5
    model, single = LeastSquaresRegressor(1.0), LeastSquaresRegressor(1.0)
    found = model.predict_learn_many(X, y)
    expected = one_by_one(single, X, y, np.ones(100), None, LeastSquaresRegressor.predict_one)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert_same_model(model, single, 1e-5)


@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@strategies.examples(40)
@given(
    strategies.lopsided_rows(),
    st.sampled_from([1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0]),
    st.sampled_from(["gram", "recursive"]),
    st.booleans(),
)
def test_a_batch_costs_no_more_digits_than_its_rows(rows, ridge, accumulator, fit_intercept):
    model = LeastSquaresRegressor(ridge, accumulator, fit_intercept)
    single = copy.deepcopy(model)
    one_by_one(single, rows.X, rows.y, rows.w, None, LeastSquaresRegressor.predict_one)
    model.predict_learn_many(rows.X, rows.y, rows.w)
    found, expected = (laws.error_of_fit(each, rows) for each in (model, single))
    assert found <= 1e-9 + 100.0 * expected


@pytest.mark.parametrize("size", [37, 7, 60])
@pytest.mark.parametrize("half_lives", the_rest_slow([range(1, 40, 7), range(1, 40)]), ids=str)
def test_whole_half_lives_bring_the_ridge_back_at_the_same_row(half_lives, size):
    """After them the ridge has come to just the share below which it does not stay."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    y = X @ [1.0, 2.0]
    for half_life in half_lives:
        model, single = (
            LeastSquaresRegressor(10.0, "recursive", False, half_life=float(half_life))
            for _ in range(2)
        )
        found = [
            model.predict_learn_many(X[start : start + size], y[start : start + size])
            for start in range(0, len(X), size)
        ]
        ones = np.ones(len(X))
        expected = one_by_one(single, X, y, ones, None, LeastSquaresRegressor.predict_one)
        np.testing.assert_allclose(np.concatenate(found), expected, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(model.ridge_diagonal, single.ridge_diagonal, rtol=1e-9)


@pytest.mark.parametrize("ridge", [1e-12, 1e-6, 1.0])
@pytest.mark.parametrize("spread", [1e-4, 0.1])
@pytest.mark.parametrize("size", the_rest_slow([800, 64]))
def test_values_that_grow_without_end_do_not_lead_a_solution_astray(ridge, spread, size):
    """Beside sums that become nearly singular a solution is refined, trusted less, or made anew."""
    random = np.random.default_rng(0)
    z = 1.03 ** np.maximum(0, np.arange(1000) - 200) * random.normal(size=1000)
    X = np.stack([z, z + spread * random.normal(size=1000)], axis=1)
    y = (X[:, 0] - X[:, 1]) / spread + 0.1 * random.normal(size=1000)
    model = laws.fitted(LeastSquaresRegressor(ridge), X[:200], y[:200])
    for start in range(200, 1000, size):
        part = slice(start, start + size)
        assert np.abs(model.predict_learn_many(X[part], y[part])).max() < 3.0 * np.abs(y).max()


@pytest.mark.parametrize("X", [[{}] * 12, np.zeros((12, 0))])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_rows_without_features(X, fit_intercept, accumulator):
    model = LeastSquaresRegressor(1.0, accumulator, fit_intercept)
    expected = np.append(0.0, np.ones(11)) * fit_intercept
    assert list(model.predict_learn_many(X, [1.0] * 12)) == pytest.approx(expected)


def test_rare_classes_keep_the_digits_of_their_weight_beside_a_heavy_row():
    random = np.random.default_rng(0)
    X, y, w = random.normal(size=(30, 3)), ["b"] + ["a", "c"] * 14 + ["b"], np.ones(30)
    w[0], w[-1] = 1e-7, 1e10
    model = LeastSquaresClassifier(1.0, priors="equal")
    single = copy.deepcopy(model)
    found = model.predict_proba_learn_many(X, y, w)
    rows = one_by_one(single, X, y, w, None, LeastSquaresClassifier.predict_proba_one)
    expected = [[row.get(label, 0.0) for label in model.classes] for row in rows]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)


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


# -- the network -----------------------------------------------------------------------------------

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
        patch.setattr("onlinels.network.stages.BLOCK_IMAGES", 17)
        single, models = assert_as_one_by_one(model, *stream, data.draw(splits(n_images)))
    for each in models:
        assert (each.count, each.features_fixed) == (single.count, single.features_fixed)


@pytest.mark.parametrize("n_before", [0, 39, 60])
def test_images_that_are_refused_change_nothing(n_before):
    model = network()
    if n_before:
        model.learn_many(IMAGES[:n_before], DIGITS[:n_before])
        model.predict_many(IMAGES[:1])
    laws.assert_batches_refused(model, IMAGES, DIGITS)
    unlike = [{"image": IMAGES[0]}, {"image": np.ones(3)}]
    laws.assert_refused(lambda: model.predict_learn_many(unlike, [1, 2]), model, "image")


@pytest.mark.filterwarnings("ignore:The network hardly recognises")
def test_a_calibrated_network():
    for ridge, warm_up in ((1.0, 30), ("paper", 30), ("auto", 200)):
        model = CalibratedClassifier(network(ridge, warm_up))
        rows = [{"image": image} for image in IMAGES]
        stream = rows, DIGITS, np.ones(120), np.arange(120.0)
        assert_as_one_by_one(model, *stream, [range(50), range(50, 120)])
