"""Rows of a batch that are answered before they are learnt: as one by one, to rounding."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from support import laws, strategies
from support.slow import the_rest_slow


@st.composite
def forms(draw):
    """Draw settings of a linear model, those in which a solution goes on more often."""
    accumulator = draw(st.sampled_from(["gram", "gram", "recursive", "recursive", "orthogonal"]))
    ridge = draw(st.sampled_from([1.0, 1e-3, 30.0, "auto", "auto", "paper", 0.0]))
    if accumulator == "gram":
        ridge = draw(st.sampled_from([ridge, ridge, KFold(3)]))
    forgetting = draw(st.sampled_from([{}, {}, {"forgetting_factor": 0.95}, {"half_life": 20.0}]))
    settings = {"accumulator": accumulator, "ridge": ridge, **forgetting}
    settings["fit_intercept"] = draw(st.booleans())
    settings["scaling"] = draw(
        st.sampled_from(["auto", None] if ridge == 0.0 else ["auto", "auto", "standard", None])
    )
    return settings


@st.composite
def streams(draw):
    """Draw rows with late features, constants, offsets and dependent columns, and weights."""
    n_rows, n_features = draw(st.integers(1, 150)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = random.normal(size=(n_rows, n_features)) * draw(st.sampled_from([1.0, 1e-3, 50.0]))
    X += draw(st.sampled_from([0.0, 0.0, 3.0]))
    shape = draw(st.sampled_from(["plain", "late", "constant", "dependent", "whole"]))
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


def one_by_one(model, X, y, w, t, ask):
    """Return what a loop of questions and answers gives, and the model after it."""
    given = []
    for row, x in enumerate(X.tolist() if isinstance(X, np.ndarray) else X):
        x = dict(enumerate(x)) if isinstance(x, list) else x
        given.append(ask(model, x))
        model.learn_one(x, y[row], float(w[row]), None if t is None else t[row])
    return given


def assert_same_state(model, other):
    assert model.count == other.count
    assert model.feature_names == other.feature_names
    assert model.ridge_ == pytest.approx(other.ridge_, rel=1e-6)
    np.testing.assert_allclose(model.output_weights, other.output_weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.intercept, other.intercept, rtol=1e-5, atol=1e-6)


@strategies.examples(50)
@given(st.data(), forms(), streams(), st.sampled_from([None, "learnt", "equal", {"a": 0.01}]))
def test_labels_and_probabilities_are_those_of_rows_one_by_one(data, form, stream, priors):
    """New classes and new features come in the middle of a batch, in dicts of their own."""
    X, w, t, random = stream
    y = ["b" if value > 0.0 else "a" for value in X[:, 0] + random.normal(size=len(X))]
    y[len(y) // 2 :] = [label * int(random.integers(1, 3)) for label in y[len(y) // 2 :]]
    rows = [{k: v for k, v in enumerate(row) if v or k == 0} for row in X.tolist()]
    model = LeastSquaresClassifier(**form, priors=priors)
    labels, single = copy.deepcopy(model), copy.deepcopy(model)
    found, named = [], []
    for part in strategies.batches(data, len(X)):
        when = None if t is None else t[part]
        found += model.predict_proba_learn_many(rows[part], y[part], w[part], when)
        named += labels.predict_learn_many(rows[part], y[part], w[part], when)

    def ask(single, x):
        return single.predict_proba_one(x), single.predict_one(x), single.margin_one(x)

    expected = one_by_one(single, rows, y, w, t, ask)
    for row, label, (probabilities, predicted, margin) in zip(found, named, expected, strict=True):
        assert list(row) == list(probabilities)
        np.testing.assert_allclose(
            list(row.values()), list(probabilities.values()), rtol=0.0, atol=1e-5
        )
        assert label == predicted or margin < 1e-5
    assert_same_state(model, single)
    assert model.classes == single.classes == labels.classes


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
        assert_same_state(each, single)


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
    assert_same_state(model, single)


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
