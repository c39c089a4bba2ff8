"""Priors: linear discriminant analysis from the statistics of least squares."""

import copy
import pickle
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    LeastSquaresClassifier,
    ShallowConvClassifier,
    dumps,
    export,
    loads,
)
from support import digits_network, laws, strategies

PRIORS = "learnt", "equal", {"a": 0.7, "c": 1e-4}
SIZES = st.tuples(st.integers(1, 5), st.integers(2, 3))


@given(st.data(), st.integers(0, 2**32 - 1), st.sampled_from(["gram", "orthogonal"]), st.booleans())
def test_without_a_ridge_it_is_that_of_scikit_learn(data, seed, accumulator, intercept):
    """Of wines of two or three kinds, with weights that are numbers of rows."""
    random, n_features, n_kinds = np.random.default_rng(seed), *data.draw(SIZES)
    # Equal priors shrink the means of three classes.
    priors = data.draw(st.sampled_from([*PRIORS, {}] if n_kinds == 2 else [*PRIORS[::2], {}]))
    X, y = load_wine(return_X_y=True)
    some = random.permutation(np.flatnonzero(y < n_kinds))[: random.integers(30, 80)]
    labels, times = [str("abc"[kind]) for kind in y[some]], random.integers(1, 4, len(some))
    rows = strategies.Rows(X[some, :n_features], labels, times.astype(float))
    model = LeastSquaresClassifier(0.0, accumulator, intercept, priors=priors)
    laws.learn_in_batches(model, rows, data, ask=True, singly=True)
    # With other priors than the shares, scikit-learn would weigh the covariances by them.
    expected = LinearDiscriminantAnalysis(solver="lsqr")
    expected.fit(np.repeat(rows.X, times, axis=0), np.repeat(rows.y, times))
    shares = list(zip(expected.classes_.tolist(), expected.priors_, strict=True))
    known = expected.predict_proba(rows.X) / expected.priors_
    known *= [laws.prior_of(priors, *each) for each in shares]
    found = model.predict_proba_many(rows.X)[:, [model.classes.index(label) for label, _ in shares]]
    # Without the share of a class that has no row yet. Small ones too, as far as rounding lets.
    found, known = (each / each.sum(axis=1, keepdims=True) for each in (found, known))
    allowed = 1e-5 * (1.0 + np.abs(model.scores_many(rows.X)).max())
    np.testing.assert_allclose(found, known, rtol=allowed, atol=1e-9 * allowed)


@given(st.data(), strategies.cases("labels"))
def test_priors_change_at_any_time_and_only_answers(data, case):
    """A model that changes its priors between batches is the one that was made with the last."""
    rows, make = case
    chosen = st.one_of(st.none(), strategies.priors(rows.y))
    last = data.draw(chosen)
    model, made = make(), make(priors=last)
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        for each in (model, made):
            each.learn_many(part.X, part.y, part.w)
            each.predict_one(part.dicts()[0])
        model.priors = data.draw(chosen)
        model.predict_many(part.X)
    model.priors = last
    assert model.priors == made.priors == last
    assert model.ridge_ == made.ridge_
    np.testing.assert_array_equal(model.predict_proba_many(rows.X), made.predict_proba_many(rows.X))
    assert dumps(model.empty()) == dumps(made.empty())
    again = loads(dumps(model))
    np.testing.assert_array_equal(again.scores_many(rows.X), model.scores_many(rows.X))


test_messages_about_priors = laws.settings_refused(
    LeastSquaresClassifier,
    [
        ({"priors": bad}, error, message)
        for bad, error, message in (
            ("balanced", ValueError, "priors='balanced' is not known. Pass None, \"learnt\""),
            (True, ValueError, "priors=True is not known"),
            ([0.5, 0.5], ValueError, r"priors=\[0.5, 0.5\] is not known"),
            ({"a": 0.0}, ValueError, r"priors\['a'\]=0.0 must be finite and above 0"),
            ({"a": -1.0}, ValueError, r"priors\['a'\]=-1.0"),
            ({"a": np.nan}, ValueError, r"priors\['a'\]=nan"),
            ({"a": "much"}, TypeError, r"priors\['a'\]='much' must be a number"),
            ({None: 1.0}, ValueError, "A label in priors is None"),
        )
    ],
)


def test_priors_are_a_setting_like_others():
    given = {"b": 3}
    model = LeastSquaresClassifier(priors=given)
    given["b"] = -1.0
    assert model.priors == model.clone().priors == model.empty().priors == {"b": 3.0}
    with pytest.raises(ValueError, match=r"priors: {'b': 3.0} and None"):
        model.merge(LeastSquaresClassifier())
    assert model.output_weights.shape == (0, 0)
    assert model.variance_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0}, "b")
    for ask, rows in ((model.variance_one, {"a": 1.0}), (model.variance_many, [{"a": 1.0}])):
        with pytest.raises(ValueError, match=r"Set priors=None first"):
            ask(rows)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_new_class_is_found_after_five_rows(fit_intercept):
    """Its mean is mostly noise, in 100 features; after many rows hardly anything is shrunk."""
    random, answers = np.random.default_rng(0), []
    centres, y = 1.0 + 0.4 * random.normal(size=(6, 100)), random.integers(0, 6, 8000)
    X = centres[y] + random.normal(size=(8000, 100))
    model = LeastSquaresClassifier(1.0, fit_intercept=fit_intercept)
    known, new = np.flatnonzero(y[:5000] < 5), np.flatnonzero(y[:5000] == 5)
    for rows in np.append(known, new[:5]), new[5:]:
        model.learn_many(X[rows], y[rows])
        for model.priors in {}, "equal":
            answers.append(model.predict_many(X[5000:]))
    is_new, are_right = y[5000:] == 5, np.array(answers) == y[5000:]
    assert are_right[:, ~is_new].mean(axis=1).min() > 0.98
    few, few_shrunken, *many = are_right[:, is_new].mean(axis=1)
    assert few < 0.5 < 0.8 < few_shrunken
    assert min(many) > 0.95
    assert (answers[2] != answers[3]).mean() < 0.001


@pytest.mark.filterwarnings("ignore:t is")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_class_that_has_faded_out_counts_until_its_digits_are_gone(fit_intercept):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 3)), [0, 1] * 20
    model = LeastSquaresClassifier(1e-3, "gram", fit_intercept, half_life=1.0, priors="equal")
    model.learn_many(X, y, t=0.0)
    model.learn_many(X[::2] + 1.0, [0] * 20, t=40.0)
    rows = strategies.Rows(
        np.vstack([X, X[::2] + 1.0]), y + [0] * 20, np.array([0.5**40.0] * 40 + [1.0] * 20)
    )
    laws.assert_is_batch_solution(model, rows)
    assert np.isfinite(model.intercept).all()
    model.learn_many(X[::2] + 1.0, [0] * 20, t=120.0)
    assert model.classes == (0, 1)
    assert np.isfinite(model.output_weights).all()
    assert not model.output_weights[:, 1].any()
    assert model.predict_proba_one({0: 1.0}) == {0: 1.0, 1: 0.0}


PRIOR = {"ok": 0.9, "fault": 0.1}


def before_the_first_fault(model):
    """Return a model that has learnt rows of one class."""
    return laws.fitted_by_row(model, [{"rms": float(value)} for value in range(5)], ["ok"] * 5)


@pytest.mark.parametrize(
    "wrapper", [lambda model: model, CalibratedClassifier, DriftAwareClassifier]
)
def test_a_class_without_rows_has_its_prior(wrapper):
    model, x = before_the_first_fault(wrapper(LeastSquaresClassifier(priors=PRIOR))), {"rms": 50.0}
    rows = pd.DataFrame({"rms": [1.0, 50.0]})
    assert (model.predict_one(x), model.predict_proba_many([x])) == ("ok", [PRIOR])
    assert model.predict_proba_many(rows).to_dict("list") == {"ok": [0.9] * 2, "fault": [0.1] * 2}
    for same in (model, loads(dumps(model)), copy.copy(model), export.answers_only(model)):
        assert same.predict_proba_one(x) == pytest.approx(PRIOR)
    model.learn_one(x, "fault")
    assert model.predict_proba_one(x)["fault"] > 0.8


def test_classes_without_rows_leave_their_share_to_others():
    x, prior = {"rms": 50.0}, {"a": 0.5, "b": 0.25, "ok": 0.25}
    model = before_the_first_fault(LeastSquaresClassifier(priors=prior))
    assert (model + model).predict_proba_one(x) == {"ok": 0.25, "a": 0.5, "b": 0.25}
    assert (model.classes, [*model.scores_one(x)]) == (("ok",), ["ok"])
    assert "ok: probability 0.25000" in model.debug_one(x)
    with pytest.raises(ValueError, match=r"priors name 'a', .*of which no row was learnt"):
        export.to_sklearn(model)
    # A row without weight tells nothing about its class either.
    model.learn_one(x, "a", w=0.0)
    for same in (model, export.answers_only(model)):
        assert same.predict_proba_one(x) == prior
    model.unlearn_one(x, "a", w=0.0)
    model.priors = "learnt"
    assert model.predict_proba_one(x) == {"ok": 1.0}
    # Nothing is learnt, or no prior is known.
    for priors in (PRIOR, "equal", {}):
        assert LeastSquaresClassifier(priors=priors).predict_proba_one(x) == {}
        assert LeastSquaresClassifier(priors=priors).predict_proba_many(np.ones((2, 1))).size == 0


@given(
    st.integers(2, 8), st.integers(0, 99), st.sampled_from(["gram", "orthogonal"]), st.booleans()
)
def test_separated_classes_are_told_apart(n_rows, seed, accumulator, fit_intercept):
    """Without a ridge, on fewer rows than features: 1e-10 counts as scattered within classes."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(n_rows, 12)), [*"ab", *random.choice([*"abc"], n_rows - 2)]
    model = LeastSquaresClassifier(0.0, accumulator, fit_intercept, priors="learnt")
    model.learn_many(X, y)
    assert model.predict_many(X).tolist() == y
    margins = [*model.margin_many(X), model.margin_one(dict(enumerate(X[0])))]
    assert 1e10 < min(margins) <= max(margins) < 1e11


def test_images_follow_the_priors_of_the_linear_layer():
    images, model = digits_network.IMAGES[60:80], digits_network.small(learnt=60)
    model.priors = "equal"
    made = ShallowConvClassifier.from_preset("digits", priors="equal")
    assert model.classifier.priors == made.priors == made.classifier.priors == "equal"
    probabilities, scores = model.predict_proba_many(images), model.scores_many(images)
    np.testing.assert_allclose(probabilities, softmax(scores, axis=1))
    model.priors = None
    assert model.scores_many(images).max() < 3.0


def test_a_class_that_is_shrunk_to_the_mean_makes_no_difference():
    X = np.array([[-2.6, 0.4], [-0.6, -0.5], [-0.2, -2], [-0.2, -0.9], [3.3, 0.2], [-12, -9]])
    one = LeastSquaresClassifier(1.0, priors="equal")
    two = one.empty()
    one.learn_many(X, list("320334"))
    two.learn_many(X[::-1], list("433023"))
    assert one.difference(two) < 1e-12
    two.learn_many(X[:1], ["2"])
    assert one.difference(two) > 0.01


# Single rows, which compiled code answers where it is.


def assert_answers_agree(model, x):
    """Assert that single answers, asked again too, are those of a batch and of the weights."""
    scores, told = model.scores_one(x), model.predict_proba_one(x)
    known, probabilities = model.scores_many([x])[0], model.predict_proba_many([x])[0]
    finite = [abs(score) for score in known.values() if np.isfinite(score)]
    allowed = 1e-9 * (1.0 + max(finite, default=0.0))
    assert [*scores] == [*known] == [*model.classes]
    assert [*scores.values()] == pytest.approx([*known.values()], rel=1e-9, abs=allowed)
    for found in (told, model.predict_proba_one(x)):
        assert [*found] == [*probabilities]
        assert [*found.values()] == pytest.approx([*probabilities.values()], abs=allowed)
    assert model.predict_many([x]) == [max(known, key=known.get)]
    assert scores[model.predict_one(x)] == max(scores.values())
    highest = sorted(scores.values())[-2:]
    assert model.margin_one(x) == (highest[1] - highest[0] if len(highest) > 1 else 0.0)
    view = copy.deepcopy(model)
    values, weights = [x.get(name, 0.0) for name in view.feature_names], view.output_weights
    allowed = 1e-8 * (1.0 + np.abs(values).max() * np.abs(weights).max() + max(finite, default=0.0))
    expected = values @ weights + view.intercept
    np.testing.assert_allclose([*known.values()], expected, rtol=0.0, atol=allowed)
    assert sum(told.values()) == pytest.approx(1.0)
    if model.priors is not None and view.statistics().weight:
        rows = np.array([[*told.values()]])
        laws.assert_absent_have_priors(model, rows, np.isfinite(expected))


def one_unlearnt(model):
    """Let a model unlearn a row like many others, if it can."""
    with suppress(ValueError):
        model.unlearn_one({"x": 0.0}, 0, 0.01)


CHANGES = {
    "nothing": lambda model, priors: model,
    "unlearn": lambda model, priors: one_unlearnt(model) or model,
    "fade": lambda model, priors: model.fade(0.5) or model,
    "priors": lambda model, priors: model.mutate({"priors": priors}) or model,
    "copy": lambda model, priors: copy.copy(model),
    "pickle": lambda model, priors: pickle.loads(pickle.dumps(model)),
}
LABELS = [
    [0, "a", "b", 3, True, 2.5, "long label", b"bytes", "c", "d"],
    [0, ("a", 1), Fraction(1, 3), "plain", (), frozenset({1})],
]


@pytest.mark.filterwarnings("ignore:Digits of the fit")
@pytest.mark.filterwarnings("ignore:A removal leaves a part of a row")
@strategies.examples(100)
@given(
    st.data(),
    st.sampled_from(LABELS),
    st.integers(0, 2**32 - 1),
    st.fixed_dictionaries(
        {
            "ridge": st.sampled_from([0.1, 1.0, 30.0]),
            "accumulator": st.sampled_from(["gram", "recursive"]),
            "fit_intercept": st.booleans(),
            "forgetting_factor": st.sampled_from([1.0, 1.0, 0.97]),
        }
    ),
)
def test_single_rows_are_answered_as_batches_are(data, labels, seed, settings):
    """With any classes, however far apart, priors and weights, and whatever was unlearnt."""
    draw, random = data.draw, np.random.default_rng(seed)
    all_priors = st.one_of(
        st.sampled_from([None, "learnt", "equal", {}]),
        st.dictionaries(st.sampled_from([*labels, "unseen", "new"]), st.floats(1e-3, 1e3)),
    )
    model = LeastSquaresClassifier(**settings, priors=draw(all_priors))
    labels, names = labels[: draw(st.integers(1, 10))], "xyzuv"[: draw(st.integers(1, 5))]
    means = draw(st.sampled_from([1.0, 1.0, 1e2, 1e4])) * random.normal(size=(10, len(names)))
    for step in range(draw(st.integers(5, 40))):
        column = int(random.integers(len(labels))) if step % 7 else 0
        row = means[column] + random.normal(size=len(names))
        x = dict(zip(names, row.tolist(), strict=True))
        if step:
            assert_answers_agree(model, x)
        model.learn_one(
            x, labels[column], draw(st.sampled_from([1.0] * 6 + [0.5, 2.0, 0.0, 1e-21]))
        )
        model = CHANGES[draw(st.sampled_from(["nothing"] * 15 + [*CHANGES]))](
            model, draw(all_priors)
        )
