"""Balanced classes: the batch solution at the final class frequencies, whatever led there."""

import functools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import KFold, LeastSquaresClassifier, ShallowConvClassifier
from support import laws, strategies
from support.laws import balanced, factors_of, learnt

both = pytest.mark.parametrize("balance", strategies.BALANCES)


@both
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_class_that_has_faded_out_counts_until_its_digits_are_gone(balance, fit_intercept):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 3)), [0, 1] * 20
    settings = {"fit_intercept": fit_intercept, "balance": balance}
    model = LeastSquaresClassifier(1e-3, **settings, half_life=1.0)
    model.learn_many(X, y, t=0.0)
    model.learn_many(X[::2] + 1.0, [0] * 20, t=500.0)
    rows = strategies.Rows(
        np.vstack([X, X[::2] + 1.0]), y + [0] * 20, np.array([0.5**500.0] * 40 + [1.0] * 20)
    )
    laws.assert_is_batch_solution(model, rows)
    model.learn_many(X[::2] + 1.0, [0] * 20, t=1050.0)
    assert model.classes == (0, 1)
    assert np.isfinite(model.output_weights).all()
    assert not model.output_weights[:, 1].any()


@given(strategies.rows(min_rows=2), st.booleans(), st.sampled_from(["auto", "paper", 0.0]))
def test_the_ridge_is_chosen_from_what_is_solved(rows, fit_intercept, setting):
    """That of rows weighted by hand, at a checkpoint: 16 rows of weight."""
    assume(setting != "auto" or len(rows) == 16)
    make = functools.partial(LeastSquaresClassifier, setting, fit_intercept=fit_intercept)
    model, plain = learnt(lambda: make(balance="classwise"), rows), learnt(make, balanced(rows))
    # At a tie, or where nothing can be told, rounding decides.
    assume(setting != "auto" or len(set(rows.y)) > 1)
    if setting != "auto" or rows.w.all():
        assert model.ridge_ == pytest.approx(plain.ridge_, rel=1e-6)
    laws.assert_is_batch_solution(model, rows)


@given(strategies.cases("balanced labels"))
def test_views_scores_and_probabilities_agree(case):
    rows, make = case
    model, X = learnt(make, rows), rows.X.astype(float)
    scores = X @ model.output_weights + model.intercept
    allowed = 1e-9 * (1.0 + np.abs(X).max() * np.abs(model.output_weights).max(initial=0.0))
    np.testing.assert_allclose(model.scores_many(rows.X), scores, atol=allowed)
    one = model.scores_one(rows.dicts()[0])
    assert list(one) == list(model.classes)
    np.testing.assert_allclose(list(one.values()), scores[0], atol=allowed)
    np.testing.assert_allclose(model.predict_proba_many(rows.X).sum(axis=1), 1.0)
    assert f"{model.classes[0]}: score" in model.debug_one(rows.dicts()[0])


@both
def test_the_rare_class_is_found(balance):
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 4))
    y = (random.random(2000) < 0.03).tolist()
    X[y] += 1.0
    plain, model = LeastSquaresClassifier(), LeastSquaresClassifier(balance=balance)
    for each in (plain, model):
        each.learn_many(X, y)
    found = [np.mean(each.predict_many(X[y])) for each in (plain, model)]
    assert found[0] < 0.1
    assert found[1] > 0.75


def test_priors_go_with_folds():
    X, y = np.random.default_rng(0).normal(size=(64, 3)), [0, 0, 0, 1] * 16
    plain, model = (LeastSquaresClassifier(KFold(3), balance=each) for each in (None, "priors"))
    for each in (plain, model):
        each.learn_many(X, y)
    assert model.ridge_ == plain.ridge_
    np.testing.assert_allclose(model.output_weights, plain.output_weights * [2 / 3, 2.0])
    np.testing.assert_allclose(model.intercept, plain.intercept * [2 / 3, 2.0])


@both
def test_balance_is_a_setting_like_others(balance):
    model = LeastSquaresClassifier(balance=balance)
    assert model.clone().balance == model.empty().balance == balance
    with pytest.raises(ValueError, match=f"balance: '{balance}' and None"):
        model.merge(LeastSquaresClassifier())
    assert not model.predict_proba_one({"a": 1.0})
    assert model.output_weights.shape == (0, 0)
    network = ShallowConvClassifier.from_preset("digits", balance=balance)
    assert network.classifier.balance == balance


test_settings_that_do_not_go_together = laws.settings_refused(
    LeastSquaresClassifier,
    [
        (
            {"balance": "balanced"},
            ValueError,
            "'balanced' is not known. Pass None, \"classwise\" or",
        ),
        ({"balance": True}, ValueError, "balance=True is not known"),
        (
            {"balance": "classwise", "accumulator": "recursive"},
            ValueError,
            'accumulator="recursive" and balance="classwise" .* accumulator="gram"',
        ),
        (
            {"balance": "classwise", "ridge": KFold(4)},
            ValueError,
            r'ridge=KFold\(n_folds=4\) and balance="classwise" .* Pass ridge="auto"',
        ),
    ],
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_feature_that_only_unlearnt_rows_had_has_no_weight(fit_intercept, seed):
    random = np.random.default_rng(seed)
    X = np.abs(random.normal(size=(90, 3))) + 0.1
    X[30:, 2] = 0.0
    y = random.integers(0, 3, 90).tolist()
    model = LeastSquaresClassifier(0.0, fit_intercept=fit_intercept, balance="classwise")
    model.learn_many(X, y)
    for row in random.permutation(30):
        model.unlearn_many(X[[row]], [y[row]])
    assert not model.output_weights[2].any()
    kept = strategies.Rows(X[30:], y[30:], np.ones(60))
    laws.assert_is_batch_solution(model, kept, size=1e3)


@given(strategies.rows(min_rows=2), st.floats(1e-2, 1e2))
def test_what_priors_leave_of_a_score_is_the_discriminant_of_its_class(rows, ridge):
    """K s_k = 1 + n (x - m)'(C + c I)^-1 (m_k - m), whatever the weight of the class."""
    X = rows.X / (1.0 + np.abs(rows.X.astype(float)).max())
    rows = strategies.Rows(X, rows.y, rows.w)
    model = learnt(lambda: LeastSquaresClassifier(ridge, balance="priors"), rows)
    mean = np.average(X, axis=0, weights=rows.w)
    comoments = (rows.w[:, None] * (X - mean)).T @ (X - mean) + ridge * np.eye(X.shape[1])
    present = [label for label, factor in factors_of(rows.y, rows.w).items() if factor > 0.0]
    for label in present:
        mine = np.array([other == label for other in rows.y])
        apart = np.average(X[mine], axis=0, weights=rows.w[mine]) - mean
        discriminant = rows.w.sum() * (X - mean) @ np.linalg.solve(comoments, apart)
        scores = model.scores_many(X)[:, model.classes.index(label)]
        np.testing.assert_allclose(len(present) * scores, 1.0 + discriminant, atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_large_class_leaves_the_digits_of_the_others(fit_intercept):
    X = np.random.default_rng(0).normal(size=(20, 2))
    rows = strategies.Rows(X, ["b"] * 20, None)
    settings = {"ridge": 1.0, "fit_intercept": fit_intercept, "balance": "classwise"}
    model, never = (learnt(lambda: LeastSquaresClassifier(**settings), rows) for _ in range(2))
    model.learn_many(1e9 * X, ["a"] * 20)
    model.unlearn_many(1e9 * X, ["a"] * 20)
    laws.assert_same_model(model, never)


@pytest.mark.parametrize(
    ("X", "y", "w", "message"),
    [
        ([[1.0]], ["b"], 1.0, "sum of squares"),
        ([[1.0], [1.0]], ["b", "b"], 0.4, "2 times|2 rows"),
        ([[1.0]], ["a"], 4.0, "weight to be taken out is 4"),
        ([[0.0]], ["c"], 1.0, "y holds 'c'"),
    ],
)
def test_no_class_gives_more_than_it_has(X, y, w, message):
    """Though all classes together would have it, and nothing changes then."""
    model = LeastSquaresClassifier(1.0, balance="classwise")
    model.learn_many([{0: 1.0}, {0: 2.0}, {0: 0.5}], ["a", "a", "b"], [1.0, 1.0, 3.0])
    laws.assert_refused(lambda: model.unlearn_many(np.array(X), y, w), model, message)
