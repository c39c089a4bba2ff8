"""The promise: online equals batch, whatever the cutting, the order and the tree of merges."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_linnerud, load_wine
from sklearn.linear_model import Ridge

from onlinels import (
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.sums import solve
from support import laws, strategies
from support.laws import learnt
from support.strategies import kinds


@kinds
@given(st.data())
def test_any_split_is_the_batch_solution(kind, data):
    rows, make = data.draw(strategies.cases(kind))
    rows = rows.take(data.draw(st.permutations(range(len(rows)))))
    model = laws.learn_in_batches(make(), rows, data, ask=True, singly=True)
    laws.assert_is_batch_solution(model, rows)


@kinds
@given(st.data(), st.booleans())
def test_any_order_and_row_by_row_is_the_batch_solution(kind, data, is_late):
    """A class that comes late is as if known from the start."""
    rows, make = data.draw(strategies.cases(kind))
    order = data.draw(st.permutations(range(len(rows))))
    if is_late:
        order = sorted(order, key=lambda row: rows.y[row] == rows.y[-1])
    order = rows.take(order)
    model, whole = make(), learnt(make, order)
    for x, y, w in zip(order.dicts(), order.y, order.w, strict=True):
        model.predict_one(x)
        model.learn_one(x, y, w=w)
    laws.assert_is_batch_solution(model, rows)
    laws.assert_is_batch_solution(whole, rows)
    if kind == "labels":
        laws.assert_same_model(model, whole)
        laws.assert_same_model(whole, learnt(make, rows))


@kinds
@given(st.data())
def test_any_tree_of_merges_is_the_batch_solution(kind, data):
    """An empty model among them changes nothing."""
    rows, make = data.draw(strategies.cases(kind, min_rows=2))
    models = [learnt(make, rows.take(part)) for part in data.draw(strategies.splits(len(rows)))]
    for model in models:
        if data.draw(st.booleans()):
            model.predict_many(rows.X)
    merged = laws.merged_in_any_tree([*models, make()], data)
    laws.assert_is_batch_solution(merged, rows)
    for again in (merged + merged.empty(), merged.empty() + merged):
        laws.assert_is_batch_solution(again, rows)
        if kind == "labels":
            laws.assert_same_model(again, merged)


@pytest.mark.parametrize("kind", ["labels", "numbers"])
@given(st.data())
def test_weights_are_repeated_rows(kind, data):
    rows, make = data.draw(strategies.cases(kind, whole=True))
    rows.w[:] = np.maximum(rows.w, 1)
    repeated = rows.take(np.repeat(np.arange(len(rows)), rows.w.astype(int)))
    plain = learnt(make, repeated.weighing(None))
    laws.assert_same_model(learnt(make, rows), plain, count=False)


@kinds
@given(st.data())
def test_a_late_feature_is_as_if_zero_before(kind, data):
    rows, make = data.draw(strategies.cases(kind, min_rows=2))
    first = data.draw(st.integers(1, len(rows) - 1))
    kept = data.draw(st.integers(0, rows.X.shape[1]))
    rows.X[:first, kept:] = 0
    model = make()
    for number, (x, y, w) in enumerate(zip(rows.dicts(), rows.y, rows.w, strict=True)):
        known = {name: value for name, value in x.items() if number >= first or name < kept}
        model.predict_one(known)
        model.learn_one(known, y, w)
    laws.assert_is_batch_solution(model, rows)


NAMES = ["a", "h0", "h1", "h10", 7, ("h", 2), ("x", 0), ("x", 1), "z"]


@given(st.data(), strategies.cases("labels", min_rows=2))
def test_models_of_different_features_merge_by_name(data, case):
    """Sites see different features and classes, vanishing ones too, in any order of keys."""
    rows, make = case
    names = data.draw(st.permutations(NAMES))[: rows.X.shape[1]]
    seen = np.array(data.draw(st.lists(st.booleans(), min_size=rows.X.size, max_size=rows.X.size)))
    rows.X[~seen.reshape(rows.X.shape)] = 0
    samples = [
        {name: x[name] for name in data.draw(st.permutations(list(x))) if x[name]}
        for x in rows.dicts(names)
    ]
    models = []
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        models.append(make())
        models[-1].learn_many([samples[row] for row in batch], part.y, part.w)
    merged = functools.reduce(operator.add, data.draw(st.permutations(models)))
    known = [names.index(name) for name in merged.feature_names]
    assert not np.delete(rows.X, known, axis=1).any()
    by_column = strategies.Rows(rows.X[:, known], rows.y, rows.w)
    laws.assert_is_batch_solution(merged, by_column, range(len(known)))


def test_many_blocks_are_one_batch(monkeypatch):
    rows = strategies.Rows(np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 3, None)
    whole = learnt(LeastSquaresClassifier, rows)
    laws.small_blocks(monkeypatch)
    laws.assert_same_model(whole, learnt(LeastSquaresClassifier, rows))


@pytest.mark.parametrize(
    ("load", "kind"),
    [
        (load_wine, LeastSquaresClassifier),
        (load_diabetes, LeastSquaresRegressor),
        (load_linnerud, LeastSquaresMultiTargetRegressor),
    ],
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_against_scikit_learn(load, kind, fit_intercept):
    """Ridge with an unpenalised intercept is scikit-learn's Ridge."""
    X, y = load(return_X_y=True)
    targets = np.eye(3)[y] if load is load_wine else y
    w = np.random.default_rng(0).random(len(X))
    model = kind(ridge=2.5, fit_intercept=fit_intercept)
    for start in range(0, len(X), 7):
        rows = slice(start, start + 7)
        model.learn_many(X[rows], y[rows], w[rows])
    reference = Ridge(alpha=2.5, solver="svd", fit_intercept=fit_intercept)
    reference.fit(X, targets, sample_weight=w)
    weights = model.output_weights.squeeze().T
    np.testing.assert_allclose(weights, reference.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept.squeeze(), reference.intercept_, rtol=1e-8)
    predict = model.scores_many if load is load_wine else model.predict_many
    np.testing.assert_allclose(predict(X), reference.predict(X), rtol=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [1e-2, 1.0, 1e4, "auto"])
def test_few_rows_of_many_features_are_solved_by_rank(ridge, fit_intercept, monkeypatch):
    """Row by row, of smooth features and constant ones: no factor of all features is made."""
    random, times = np.random.default_rng(0), np.linspace(0.0, 6.0, 400)
    X = np.array([np.sin(times * (1.0 + 0.1 * k)) for k in range(20)])
    X += 0.1 * random.normal(size=X.shape)
    X[:, ::9] = 3.0 if fit_intercept else 0.0
    y = random.normal(size=20)
    model = LeastSquaresRegressor(ridge, fit_intercept=fit_intercept, scaling=None)
    monkeypatch.setattr(solve, "_cholesky_factor", None)
    for k, row in enumerate(X):
        model.learn_one(dict(enumerate(row.tolist())), float(y[k]))
        if k >= 4:
            rows = X[: k + 1], y[: k + 1, None], np.ones(k + 1)
            A, T, _, _ = laws.weighted_centred(*rows, fit_intercept)
            expected = A.T @ np.linalg.solve(A @ A.T + model.ridge_ * np.eye(k + 1), T)
            np.testing.assert_allclose(model.output_weights, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n_rows", [2, 3, 5])
def test_what_memory_held_before_is_in_no_sum(n_rows):
    """The core adds four rows at once, also where there are fewer."""
    X = np.random.default_rng(0).normal(size=(20 + n_rows, 120))
    model, y = laws.fitted(LeastSquaresRegressor(1.0), X[:20], X[:20, 0]), X[20:, 0].copy()
    model.learn_many(X[20:], y)  # For what is made with the first rows.
    former = [np.full(4 * 121, np.nan) for _ in range(100)]
    del former
    model.learn_many(X[20:], y)
    assert np.isfinite(model.statistics().gram).all()
