"""Balanced classes: the batch solution at the final class frequencies, whatever led there."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import laws
import strategies
from onlinels import KFold, LeastSquaresClassifier, ShallowConvClassifier

KINDS = {
    "classwise": strategies.classifier_settings(st.sampled_from(["gram", "orthogonal"])).filter(
        lambda settings: not isinstance(settings["ridge"], KFold)
    ),
    "priors": strategies.classifier_settings(),
}
balanced_settings = st.sampled_from(sorted(KINDS)).flatmap(
    lambda balance: KINDS[balance].map(lambda settings: settings | {"balance": balance})
)
unlearning_settings = balanced_settings.map(
    lambda settings: settings | {"accumulator": "gram", "ridge": settings["ridge"] or 0.5}
)


def factors_of(y, w):
    """Return n / (K n_k) of every class."""
    weights = {label: sum(w[row] for row in range(len(y)) if y[row] == label) for label in set(y)}
    n_present = sum(weight > 0.0 for weight in weights.values())
    total = sum(weights.values())
    return {label: total / (n_present * n) if n else 0.0 for label, n in weights.items()}


def balanced(rows):
    """Return the rows with every weight multiplied by the factor of its class."""
    factors = factors_of(rows.y, rows.w)
    return strategies.Rows(rows.X, rows.y, rows.w * [factors[label] for label in rows.y])


def without_factors(model, rows):
    """Return a model's views with the columns of its weights divided by the classes' factors."""
    factors = factors_of(rows.y, rows.w)
    columns = np.array([factors[label] for label in model.classes])
    assert not model.output_weights[:, columns == 0.0].any()
    assert not model.intercept[columns == 0.0].any()
    columns[columns == 0.0] = 1.0
    names = ("classes", "count", "feature_names", "fit_intercept", "ridge_", "ridge_diagonal")
    views = {name: getattr(model, name) for name in (*names, "accumulator", "ridge")}
    views["output_weights"] = model.output_weights / columns
    return SimpleNamespace(**views, intercept=model.intercept / columns)


def assert_is_balanced(model, rows, size=0.0):
    """Assert the explicit definition of a model's balance on these rows."""
    if model.balance == "classwise":
        largest = max([1.0, *factors_of(rows.y, rows.w).values()])
        laws.assert_is_batch_solution(model, balanced(rows), size=largest * size)
    else:
        laws.assert_is_batch_solution(without_factors(model, rows), rows, size=size)


def learnt(rows, settings):
    model = LeastSquaresClassifier(**settings)
    model.learn_many(rows.X, rows.y, rows.w)
    return model


@given(st.data(), strategies.rows(), balanced_settings)
def test_any_split_is_the_balanced_batch_solution(data, rows, settings):
    """In any order, asked in between, rows of weight 0 and classes of nothing else included."""
    rows = rows.take(data.draw(st.permutations(range(len(rows)))))
    model = LeastSquaresClassifier(**settings)
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        if len(part) == 1:
            model.learn_one(part.dicts()[0], part.y[0], part.w[0])
        else:
            model.learn_many(part.X, part.y, part.w)
        model.predict_many(part.X)
    assert_is_balanced(model, rows)


@given(strategies.rows(min_rows=2), balanced_settings)
def test_a_late_class_is_as_if_known_from_the_start(rows, settings):
    late = rows.y[-1]
    rows = rows.take(sorted(range(len(rows)), key=lambda row: rows.y[row] == late))
    model = LeastSquaresClassifier(**settings)
    for x, y, w in zip(rows.dicts(), rows.y, rows.w, strict=True):
        model.predict_one(x)
        model.learn_one(x, y, w)
    assert_is_balanced(model, rows)


@given(st.data(), strategies.rows(min_rows=2), balanced_settings)
def test_any_tree_of_merges_is_the_balanced_batch_solution(data, rows, settings):
    models = []
    for batch in data.draw(strategies.splits(len(rows))):
        models.append(learnt(rows.take(batch), settings))
        if data.draw(st.booleans()):
            models[-1].predict_many(rows.X)
    while len(models) > 1:
        right = models.pop(data.draw(st.integers(0, len(models) - 1)))
        left = models.pop(data.draw(st.integers(0, len(models) - 1)))
        models.append(left + right if data.draw(st.booleans()) else left.merge(right))
    assert_is_balanced(models[0], rows)
    assert_is_balanced(models[0].empty() + models[0], rows)


@given(st.data(), strategies.rows(min_rows=2, whole=True), unlearning_settings)
def test_any_subset_is_unlearnt(data, rows, settings):
    """Classes leave with their rows, and may come back."""
    model = learnt(rows, settings)
    taken = data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1, max_size=len(rows) - 1))
    for batch in data.draw(strategies.splits(len(taken))):
        part = rows.take([sorted(taken)[row] for row in batch])
        model.unlearn_many(part.X, part.y, part.w)
    kept = rows.take(row for row in range(len(rows)) if row not in taken)
    size = float((rows.w @ rows.X.astype(float) ** 2).sum())
    assert_is_balanced(model, kept, size=size)
    part = rows.take(sorted(taken))
    model.learn_many(part.X, part.y, part.w)
    assert_is_balanced(model, rows, size=size)


@given(st.data(), strategies.rows(), balanced_settings, st.sampled_from([0.7, 0.9, 0.999]))
def test_weights_that_decay_are_balanced_as_they_are_now(data, rows, settings, factor):
    model = LeastSquaresClassifier(**settings, forgetting_factor=factor)
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        model.learn_many(part.X, part.y, part.w)
        model.predict_many(part.X)
    decayed = rows.w * factor ** np.arange(len(rows) - 1.0, -1.0, -1.0)
    assert_is_balanced(model, strategies.Rows(rows.X, rows.y, decayed))


@pytest.mark.parametrize("balance", ["classwise", "priors"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_class_that_has_faded_out_counts_until_its_digits_are_gone(balance, fit_intercept):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 3)), [0, 1] * 20
    settings = {"ridge": 1e-3, "fit_intercept": fit_intercept, "balance": balance}
    model = LeastSquaresClassifier(**settings, half_life=1.0)
    model.learn_many(X, y, t=0.0)
    model.learn_many(X[::2] + 1.0, [0] * 20, t=500.0)
    rows = strategies.Rows(
        np.vstack([X, X[::2] + 1.0]), y + [0] * 20, np.array([0.5**500.0] * 40 + [1.0] * 20)
    )
    assert_is_balanced(model, rows)
    model.learn_many(X[::2] + 1.0, [0] * 20, t=1050.0)
    assert model.classes == (0, 1)
    assert np.isfinite(model.output_weights).all()
    assert not model.output_weights[:, 1].any()


@given(strategies.rows(min_rows=2), st.booleans(), st.sampled_from(["auto", "paper", 0.0]))
def test_the_ridge_is_chosen_from_what_is_solved(rows, fit_intercept, setting):
    """That of rows weighted by hand, at a checkpoint: 16 rows of weight."""
    assume(setting != "auto" or len(rows) == 16)
    settings = {"ridge": setting, "fit_intercept": fit_intercept}
    model = learnt(rows, settings | {"balance": "classwise"})
    plain = learnt(balanced(rows), settings)
    # At a tie, or where nothing can be told, rounding decides.
    assume(setting != "auto" or len(set(rows.y)) > 1)
    if setting != "auto" or rows.w.all():
        assert model.ridge_ == pytest.approx(plain.ridge_, rel=1e-6)
    assert_is_balanced(model, rows)


@given(strategies.rows(), balanced_settings)
def test_views_scores_and_probabilities_agree(rows, settings):
    model = learnt(rows, settings)
    X = rows.X.astype(float)
    scores = X @ model.output_weights + model.intercept
    allowed = 1e-9 * (1.0 + np.abs(X).max() * np.abs(model.output_weights).max(initial=0.0))
    np.testing.assert_allclose(model.scores_many(rows.X), scores, atol=allowed)
    one = model.scores_one(rows.dicts()[0])
    assert list(one) == list(model.classes)
    np.testing.assert_allclose(list(one.values()), scores[0], atol=allowed)
    np.testing.assert_allclose(model.predict_proba_many(rows.X).sum(axis=1), 1.0)
    assert f"{model.classes[0]}: score" in model.debug_one(rows.dicts()[0])


@pytest.mark.parametrize("balance", ["classwise", "priors"])
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
    random = np.random.default_rng(0)
    X, y = random.normal(size=(64, 3)), [0, 0, 0, 1] * 16
    settings = {"ridge": KFold(3)}
    plain, model = learnt_all(X, y, settings), learnt_all(X, y, settings | {"balance": "priors"})
    assert model.ridge_ == plain.ridge_
    np.testing.assert_allclose(model.output_weights, plain.output_weights * [2 / 3, 2.0])
    np.testing.assert_allclose(model.intercept, plain.intercept * [2 / 3, 2.0])


def learnt_all(X, y, settings):
    return learnt(strategies.Rows(X, y, np.ones(len(y))), settings)


@pytest.mark.parametrize("balance", ["classwise", "priors"])
def test_balance_is_a_setting_like_others(balance):
    model = LeastSquaresClassifier(balance=balance)
    assert model.clone().balance == model.empty().balance == balance
    with pytest.raises(ValueError, match=f"balance: '{balance}' and None"):
        model.merge(LeastSquaresClassifier())
    assert not model.predict_proba_one({"a": 1.0})
    assert model.output_weights.shape == (0, 0)
    network = ShallowConvClassifier.from_preset("digits", balance=balance)
    assert network.classifier.balance == balance


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"balance": "balanced"}, "balance='balanced' is not known. Pass None, \"classwise\" or"),
        ({"balance": True}, "balance=True is not known"),
        (
            {"balance": "classwise", "accumulator": "recursive"},
            'accumulator="recursive" and balance="classwise" .* accumulator="gram"',
        ),
        (
            {"balance": "classwise", "ridge": KFold(4)},
            r'ridge=KFold\(n_folds=4\) and balance="classwise" .* Pass ridge="auto"',
        ),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        LeastSquaresClassifier(**settings)


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
    assert_is_balanced(model, kept, size=1e3)


@given(strategies.rows(min_rows=2), st.floats(1e-2, 1e2))
def test_what_priors_leave_of_a_score_is_the_discriminant_of_its_class(rows, ridge):
    """K s_k = 1 + n (x - m)'(C + c I)^-1 (m_k - m), whatever the weight of the class."""
    X = rows.X.astype(float) / (1.0 + np.abs(rows.X.astype(float)).max())
    rows = strategies.Rows(X, rows.y, rows.w)
    model = learnt(rows, {"ridge": ridge, "balance": "priors"})
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
    settings = {"ridge": 1.0, "fit_intercept": fit_intercept, "balance": "classwise"}
    model, never = LeastSquaresClassifier(**settings), LeastSquaresClassifier(**settings)
    for each in (model, never):
        each.learn_many(X, ["b"] * 20)
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
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.unlearn_many(np.array(X), y, w)
    assert pickle.dumps(model) == before
