"""Balanced classes: the batch solution at the final class frequencies, whatever led there."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onlinels.accumulators.classwise import ClasswiseAccumulator

import laws
import strategies
from onlinels import KFold, LeastSquaresClassifier, ShallowConvClassifier
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.linalg.selection import gcv_ridge

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
    model = learnt(rows, {"ridge": 1.0, "fit_intercept": fit_intercept, "balance": "classwise"})
    plain = learnt(balanced(rows), {"ridge": 1.0, "fit_intercept": fit_intercept})
    theirs, mine = plain._statistics.spectrum(), model._statistics.spectrum()
    assert mine.weight == pytest.approx(rows.w.sum())
    largest = theirs.eigenvalues[-1]
    np.testing.assert_allclose(mine.eigenvalues, theirs.eigenvalues, atol=1e-10 * (largest + 1e-9))
    np.testing.assert_allclose(mine.target_squares, theirs.target_squares, atol=1e-10)
    model.mutate({"ridge": setting})
    if setting == "auto":
        expected = gcv_ridge(mine)
    else:
        plain.mutate({"ridge": setting})
        expected = plain.ridge_
    # One that is selected is that of the last power of two.
    if setting != "auto" or (
        len(rows) == 16 and mine.target_squares.any() and mine.eigenvalues.any()
    ):
        assert model.ridge_ == pytest.approx(expected, rel=1e-6)
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


def centred_gram():
    return CentredAccumulator(GramAccumulator())


def centred_orthogonal():
    return CentredAccumulator(OrthogonalAccumulator())


makers = st.sampled_from([GramAccumulator, centred_gram, OrthogonalAccumulator, centred_orthogonal])


def labelled_rows(data, min_rows=2):
    """Draw rows whose labels are the columns 0 to 3."""
    rows = data.draw(strategies.rows(min_rows=min_rows))
    y = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    return strategies.Rows(rows.X.astype(float), y, rows.w)


def assert_solves(accumulator, X, y, w, make, n_targets):
    """Assert that statistics are those of rows balanced by their labels."""
    factors = factors_of(y, w)
    plain = make()
    plain.grow(X.shape[1], n_targets)
    if len(y):
        plain.update(X, np.array(y), w * [factors[label] for label in y])
    total = float((plain._raw_squares()[0]).sum()) + 1.0
    ridge = 1e-3 * total
    np.testing.assert_allclose(accumulator.solve(ridge), plain.solve(ridge), atol=1e-8)
    weights = plain.solve(ridge)
    np.testing.assert_allclose(accumulator.diagonal, plain.diagonal, atol=1e-10 * total)
    np.testing.assert_allclose(accumulator.intercept(weights), plain.intercept(weights), atol=1e-9)
    np.testing.assert_allclose(accumulator.target_squares, plain.target_squares, atol=1e-9)
    np.testing.assert_allclose(
        accumulator.explained_squares(weights), plain.explained_squares(weights), atol=1e-8
    )
    covariances = [each.covariance(ridge) for each in (accumulator, plain)]
    assert covariances[0].n_parameters == pytest.approx(covariances[1].n_parameters)
    assert accumulator.weight == pytest.approx(w.sum())
    raw = accumulator._raw_squares()
    np.testing.assert_allclose(raw[0], w @ X**2, rtol=1e-9, atol=1e-9)
    shares = np.bincount(y, w, minlength=n_targets) if len(y) else np.zeros(n_targets)
    np.testing.assert_allclose(raw[1], shares, rtol=1e-9, atol=1e-9)


@given(st.data(), makers)
def test_columns_move_and_classes_leave(data, make):
    rows = labelled_rows(data)
    acc = ClasswiseAccumulator(make)
    acc.update(rows.X, np.array(rows.y), rows.w)
    n_targets, n_features = acc.n_targets, acc.n_features
    features = np.array(data.draw(st.permutations(range(n_features + 1))))[:n_features]
    places = np.array(data.draw(st.permutations(range(n_targets + 1))))[:n_targets]
    placed = acc.placed(features, places, n_features + 1, n_targets + 1)
    X = np.zeros((len(rows), n_features + 1))
    X[:, features] = rows.X
    y = [int(places[label]) for label in rows.y]
    assert placed.count == len(rows)
    assert_solves(placed, X, y, rows.w, make, n_targets + 1)
    kept = data.draw(st.permutations(range(n_targets + 1)))
    kept = kept[: data.draw(st.integers(0, n_targets + 1))]
    placed.keep_targets(np.array(kept, dtype=np.intp))
    stay = [row for row in range(len(rows)) if y[row] in kept]
    assert placed.count == len(stay)
    y = [kept.index(y[row]) for row in stay]
    assert_solves(placed, X[stay], y, rows.w[stay], make, len(kept))
    assert_solves(acc, rows.X, rows.y, rows.w, make, n_targets)


@given(st.data(), st.sampled_from([GramAccumulator, centred_gram]), st.sampled_from([1.0, 0.5]))
def test_subtracting_undoes_merging(data, make, factor):
    rows, others = labelled_rows(data), labelled_rows(data)
    others = strategies.Rows(others.X[:, : rows.X.shape[1]], others.y, others.w)
    acc, other = ClasswiseAccumulator(make), ClasswiseAccumulator(make)
    acc.update(rows.X, np.array(rows.y), rows.w)
    other.update(others.X, np.array(others.y), others.w)
    acc.merge(other)
    acc.scale(factor)
    other.scale(factor)
    acc.subtract(other)
    assert acc.count == len(rows)
    held = acc._held_squares > 0.0
    expected = np.bincount(rows.y, factor * rows.w, minlength=acc.n_targets) > 0.0
    assert (held == expected).all()
    if np.abs(others.X).max() <= 10.0 * np.abs(rows.X).max():
        assert_solves(acc, rows.X, rows.y, factor * rows.w, make, acc.n_targets)
    acc.subtract(acc)
    assert (acc.count, acc.weight) == (0, 0)
    assert not acc.total.diagonal.any()


@pytest.mark.parametrize("make", [GramAccumulator, centred_gram])
@pytest.mark.parametrize(
    ("X", "y", "w", "message"),
    [
        ([[1.0]], [1], 1.0, "sum of squares"),
        ([[1.0], [1.0]], [1, 1], 0.4, "2 rows, expected at most the 1"),
        ([[1.0]], [0], 4.0, "weight to be taken out is 4"),
        ([[0.0]], [2], 1.0, "1 rows, expected at most the 0"),
        ([[0.5], [1.0]], [0, 2], 1.0, "1 rows, expected at most the 0"),
    ],
)
def test_no_class_gives_more_than_it_has(make, X, y, w, message):
    """Though all classes together would have it, and nothing changes then."""
    acc = ClasswiseAccumulator(make)
    acc.update(np.array([[1.0], [2.0], [0.5]]), np.array([0, 0, 1]), np.array([1.0, 1.0, 3.0]))
    part = ClasswiseAccumulator(make)
    part.update(np.array(X), np.array(y), w)
    before = pickle.dumps(acc)
    with pytest.raises(ValueError, match=message):
        acc.downdate(np.array(X), np.array(y), w)
    with pytest.raises(ValueError, match=message.replace("rows, expected", "rows, ").split(",")[0]):
        acc.subtract(part)
    assert pickle.dumps(acc) == before


def test_a_matrix_of_targets_has_no_classes():
    acc = ClasswiseAccumulator(GramAccumulator)
    acc.update(np.ones((2, 1)), np.array([0, 1]))
    before = pickle.dumps(acc)
    for method in (acc.update, acc.downdate):
        with pytest.raises(ValueError, match=r"targets has shape \(2, 2\), expected \(2,\)"):
            method(np.ones((2, 1)), np.eye(2))
    assert pickle.dumps(acc) == before


def test_rows_cannot_be_taken_out_of_factors():
    acc = ClasswiseAccumulator(OrthogonalAccumulator)
    acc.update(np.ones((2, 1)), np.array([0, 1]))
    with pytest.raises(ValueError, match="cannot take rows out"):
        acc.downdate(np.ones((1, 1)), np.array([0]))
    with pytest.raises(ValueError, match="cannot take rows out"):
        acc.subtract(acc)


def test_nothing_of_an_emptied_class_is_blown_up():
    """Rounding errors that rows leave behind would outweigh the next rows of their class."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    y = np.array([0, 1, 1] * 20)
    w = random.random(60)
    acc = ClasswiseAccumulator(GramAccumulator)
    acc.update(X, y, w)
    rare = np.flatnonzero(y == 0)
    for row in random.permutation(rare):
        acc.downdate(X[[row]], y[[row]], w[[row]])
    assert not acc._members[0]._gram.full().any()
    assert_solves(acc, X[y == 1], y[y == 1].tolist(), w[y == 1], GramAccumulator, 2)
    acc.update(X[:1], y[:1], 1e-8)
    weights = np.append(w[y == 1], 1e-8)
    rows = np.vstack([X[y == 1], X[:1]])
    assert_solves(acc, rows, [*y[y == 1].tolist(), 0], weights, GramAccumulator, 2)


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


@pytest.mark.parametrize("make", [GramAccumulator, centred_gram])
def test_a_large_class_leaves_the_digits_of_the_others(make):
    X = np.random.default_rng(0).normal(size=(20, 2))
    acc = ClasswiseAccumulator(make)
    acc.update(X, np.full(20, 1))
    acc.update(1e9 * X, np.zeros(20, dtype=int))
    acc.downdate(1e9 * X, np.zeros(20, dtype=int))
    assert_solves(acc, X, [1] * 20, np.ones(20), make, 2)


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
