"""Which ridge is in force: selected at checkpoints, whatever the cutting of the stream."""

from __future__ import annotations

import copy
import functools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
import strategies
from onlinels import KFold, LeastSquaresClassifier


def stream(n_rows, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 6))
    return strategies.Rows(X, (X[:, 0] + random.normal(size=n_rows) > 0).tolist(), np.ones(n_rows))


def ridge_of(rows):
    """The ridge selected from the statistics of some rows: a merged model selects anew."""
    model, last = LeastSquaresClassifier(), LeastSquaresClassifier()
    model.learn_many(rows.X[:-1], rows.y[:-1], rows.w[:-1])
    last.learn_many(rows.X[-1:], rows.y[-1:], rows.w[-1:])
    return (model + last).ridge_


@strategies.examples(25)
@given(st.data(), st.integers(1, 70), st.booleans(), st.sampled_from([1.0, 0.97]))
def test_no_cutting_changes_the_ridge(data, n_rows, fit_intercept, factor):
    rows = stream(n_rows)
    settings = {"ridge": "auto", "fit_intercept": fit_intercept, "forgetting_factor": factor}
    whole, cut = LeastSquaresClassifier(**settings), LeastSquaresClassifier(**settings)
    whole.learn_many(rows.X, rows.y)
    for batch in data.draw(strategies.splits(n_rows)):
        part = rows.take(batch)
        if data.draw(st.booleans()):
            cut.predict_many(part.X)
        if len(batch) == 1:
            cut.learn_one(part.dicts()[0], part.y[0])
        else:
            cut.learn_many(part.X, part.y)
    assert cut.ridge_ == pytest.approx(whole.ridge_)
    np.testing.assert_allclose(cut.output_weights, whole.output_weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_rows", [16, 17, 31, 32, 33, 64, 100])
def test_the_ridge_is_that_of_the_last_power_of_two(n_rows):
    rows = stream(n_rows)
    model = LeastSquaresClassifier(ridge="auto")
    model.learn_many(rows.X, rows.y)
    checkpoint = 2 ** int(np.log2(n_rows))
    assert model.ridge_ == pytest.approx(ridge_of(rows.take(range(checkpoint))))
    laws.assert_is_batch_solution(model, rows)


def test_merging_and_unlearning_select_anew():
    rows = stream(50)
    left, right = LeastSquaresClassifier(ridge="auto"), LeastSquaresClassifier(ridge="auto")
    left.learn_many(rows.X[:30], rows.y[:30])
    right.learn_many(rows.X[30:], rows.y[30:])
    merged, reverse = left + right, right + left
    assert merged.ridge_ == reverse.ridge_ == pytest.approx(ridge_of(rows))
    merged.unlearn_many(rows.X[40:], rows.y[40:])
    assert merged.ridge_ == pytest.approx(ridge_of(rows.take(range(40))))
    laws.assert_is_batch_solution(merged, rows.take(range(40)), size=300.0)


def test_an_empty_model_changes_no_choice():
    rows = stream(45)
    model = LeastSquaresClassifier(ridge="auto")
    model.learn_many(rows.X, rows.y)
    for merged in (model + model.empty(), model.empty() + model, copy.deepcopy(model)):
        assert merged.ridge_ == model.ridge_
        merged.learn_many(rows.X, rows.y)
        assert merged.count == 90


def test_a_setting_that_changes_takes_effect():
    rows = stream(45)
    model = LeastSquaresClassifier(ridge="auto")
    model.learn_many(rows.X, rows.y)
    selected = model.ridge_
    model.mutate({"ridge": 7.0})
    assert model.ridge_ == 7.0
    model.mutate({"ridge": "auto"})
    assert model.ridge_ == selected
    assert selected == pytest.approx(ridge_of(rows.take(range(32))))


@pytest.mark.parametrize("setting", ["auto", KFold(3)])
def test_while_rows_say_too_little_the_ridge_is_the_papers(setting):
    """Few rows, or all of one class at the checkpoint: nothing can be selected."""
    rows = stream(40)
    for y, n_rows in ((rows.y, 15), ([True] * 32 + [False] * 8, 40)):
        model, paper = LeastSquaresClassifier(setting), LeastSquaresClassifier("paper")
        for one in (model, paper):
            one.learn_many(rows.X[:n_rows], y[:n_rows])
        assert model.ridge_ == pytest.approx(paper.ridge_)
    model.unlearn_many(rows.X[:1], [True])
    assert model.ridge_ != pytest.approx(paper.ridge_)


def test_folds_cannot_be_had_later():
    model = LeastSquaresClassifier()
    model.learn_many(stream(40).X, stream(40).y)
    model.mutate({"ridge": KFold(3)})
    with pytest.raises(ValueError, match="needs statistics in 3 folds"):
        model.predict_one({0: 1.0})
    with pytest.raises(ValueError, match="do not go together"):
        LeastSquaresClassifier(ridge=KFold(3), accumulator="recursive")


@strategies.examples(12)
@given(st.data(), st.integers(16, 70), st.booleans())
def test_no_cutting_or_merging_changes_the_ridge_of_folds(data, n_rows, fit_intercept):
    rows = stream(n_rows)
    whole = LeastSquaresClassifier(KFold(3), fit_intercept=fit_intercept)
    cut, parts = whole.empty(), []
    whole.learn_many(rows.X, rows.y)
    for batch in data.draw(strategies.splits(n_rows)):
        part = rows.take(batch)
        cut.learn_many(part.X, part.y)
        parts.append(whole.empty())
        parts[-1].learn_many(part.X, part.y)
    assert cut.ridge_ == whole.ridge_
    merged = functools.reduce(operator.add, parts)
    if len(parts) > 1:
        # Merging selects anew, as merging the last row alone does.
        first, last = whole.empty(), whole.empty()
        first.learn_many(rows.X[:-1], rows.y[:-1])
        last.learn_many(rows.X[-1:], rows.y[-1:])
        assert merged.ridge_ == (first + last).ridge_
    else:
        assert merged.ridge_ == whole.ridge_
    laws.assert_is_batch_solution(merged, rows)


def test_before_anything_is_learnt_there_is_a_ridge():
    assert LeastSquaresClassifier(ridge="auto").ridge_ == 0.0


@pytest.mark.parametrize("ridge", ["auto", KFold(2)])
def test_constant_features_leave_the_ridge_open_however_they_became_so(ridge):
    model, fresh = LeastSquaresClassifier(ridge=ridge), LeastSquaresClassifier(ridge=ridge)
    for one in (model, fresh):
        one.learn_many([{"a": 0.6}] * 20, list("xy") * 10)
    for a, label in ((1.0, "x"), (0.9, "y"), (0.0, "x")):
        model.learn_one({"a": a}, label)
    for a, label in ((1.0, "x"), (0.9, "y"), (0.0, "x")):
        model.unlearn_one({"a": a}, label)
    assert model.ridge_ == fresh.ridge_ == 0.0
