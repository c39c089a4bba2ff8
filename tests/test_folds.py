"""KFold models: rows are dealt by content, the ridge is the best, and any row may leave."""

from __future__ import annotations

import functools
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
import strategies
from onlinels import KFold, LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.accumulators.grouped import fold_of_rows

fold_counts = st.integers(2, 5)


@given(st.data(), strategies.rows(min_rows=2, max_rows=16), fold_counts, st.booleans())
def test_any_learnt_rows_can_be_unlearnt_in_any_order(data, rows, n_folds, fit_intercept):
    model = LeastSquaresClassifier(ridge=KFold(n_folds), fit_intercept=fit_intercept)
    samples = rows.dicts("abcdef"[: rows.X.shape[1]])
    samples = [{name: value for name, value in x.items() if value} for x in samples]
    for x, y, w in zip(samples, rows.y, rows.w, strict=True):
        model.learn_one(x, y, w)
    order = data.draw(st.permutations(range(len(rows))))
    n_gone = data.draw(st.integers(1, len(rows)))
    for row in order[:n_gone]:
        model.unlearn_one(samples[row], rows.y[row], rows.w[row])
    kept = rows.take(sorted(order[n_gone:]))
    assert model.count == len(kept)
    if len(kept):
        columns = ["abcdef".index(name) for name in model.feature_names]
        size = float((rows.w @ rows.X.astype(float) ** 2).sum())
        laws.assert_is_batch_solution(laws.at_ridge(model, 1.0), kept, columns, size)


@given(st.data(), strategies.rows(min_rows=2), fold_counts, st.booleans())
def test_weights_are_those_without_folds_at_one_ridge(data, rows, n_folds, fit_intercept):
    """However the rows came: in batches, by merging, decayed, and some of them taken out."""
    factor = data.draw(st.sampled_from([1.0, 0.25]))
    gone = rows.take(range(data.draw(st.integers(0, len(rows) - 1))))
    models = []
    for ridge in (KFold(n_folds), 1.0):
        parts = []
        for batch in data.draw(strategies.splits(len(rows))):
            part = rows.take(batch)
            parts.append(LeastSquaresClassifier(ridge=ridge, fit_intercept=fit_intercept))
            parts[-1].learn_many(part.X, part.y, part.w)
        models.append(functools.reduce(operator.add, parts))
        models[-1].fade(factor)
        if len(gone):
            models[-1].unlearn_many(gone.X, gone.y, factor * gone.w)
    size = float((rows.w @ rows.X.astype(float) ** 2).sum())
    kept = rows.take(range(len(gone), len(rows)))
    kept = strategies.Rows(kept.X, kept.y, factor * kept.w)
    for model in models:
        laws.assert_is_batch_solution(laws.at_ridge(model, 1.0), kept, size=size)


def explicit_error(X, y, folds, ridge, n_folds):
    """K-fold cross-validation with all rows at hand."""
    error = 0.0
    for fold in range(n_folds):
        out = folds == fold
        x_mean, y_mean = X[~out].mean(axis=0), y[~out].mean()
        A = X[~out] - x_mean
        weights = np.linalg.solve(A.T @ A + ridge * np.eye(X.shape[1]), A.T @ (y[~out] - y_mean))
        error += (((X[out] - x_mean) @ weights + y_mean - y[out]) ** 2).sum()
    return error


@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_the_ridge_is_the_best_of_cross_validation(n_folds, noise):
    random = np.random.default_rng(n_folds)
    X = random.normal(size=(64, 8)) + 0.5
    y = X @ random.normal(size=8) + noise * random.normal(size=64)
    model = LeastSquaresRegressor(ridge=KFold(n_folds))
    model.learn_many(X, y)
    folds = folds_of(X, n_folds)
    ridges = model.ridge_ * 2.0 ** np.arange(-8.0, 9.0)
    errors = [explicit_error(X, y, folds, ridge, n_folds) for ridge in ridges]
    assert errors[8] <= min(errors) * (1.0 + 1e-3)


def folds_of(X, n_folds):
    return fold_of_rows(range(X.shape[1]), X, n_folds)


def test_folds_are_about_equal_and_the_same_in_every_process():
    """Whole numbers, small and often 0, as well as reals: chi-squared of 9 degrees of freedom."""
    random = np.random.default_rng(0)
    for values in (
        np.unique(random.integers(0, 8, (20_000, 6)), axis=0).astype(float),
        random.normal(size=(20_000, 1)),
        np.arange(20_000.0)[:, None],
    ):
        sizes = np.bincount(folds_of(values, 10), minlength=10)
        expected = len(values) / 10
        assert ((sizes - expected) ** 2 / expected).sum() < 35
    values = np.arange(20.0).reshape(10, 2) / 3.0
    assert (folds_of(values, 5) == folds_of(values.astype(np.float32), 5)).all()


@given(st.data(), st.integers(0, 2**32 - 1), st.integers(17, 40), fold_counts)
def test_order_of_columns_absent_zeros_and_cutting_do_not_change_the_ridge(
    data, seed, n_rows, n_folds
):
    random = np.random.default_rng(seed)
    names = ["a", ("b", 2), 3, "4", "h5", None]
    X = random.normal(size=(n_rows, 6)) * (random.random((n_rows, 6)) < 0.7)
    y = (X @ random.normal(size=6) + random.normal(size=n_rows)).tolist()
    order = data.draw(st.permutations(range(6)))
    whole, cut = (LeastSquaresRegressor(ridge=KFold(n_folds)) for _ in range(2))
    whole.learn_many([dict(zip(names, row, strict=True)) for row in X.tolist()], y)
    samples = [{names[k]: row[k] for k in order if row[k]} for row in X.tolist()]
    for batch in data.draw(strategies.splits(n_rows)):
        cut.learn_many([samples[row] for row in batch], [y[row] for row in batch])
    assert cut.ridge_ == pytest.approx(whole.ridge_, rel=1e-6)


def test_settings_of_folds():
    assert KFold() == KFold(n_folds=5)
    assert hash(KFold(3)) != hash(KFold(4))
    assert pickle.loads(pickle.dumps(KFold(7))) == KFold(7)
    for n_folds, error in ((1, ValueError), (2.0, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_folds="):
            KFold(n_folds)


def test_models_that_were_made_with_other_folds_merge_at_an_equal_ridge():
    """Neither empty() nor equal settings of now say in how many folds rows were kept."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(30, 3)), (np.arange(30) % 3).tolist()
    folded = LeastSquaresClassifier(ridge=KFold(3))
    folded.learn_many(X[:20], y[:20])
    folded.mutate({"ridge": 2.0})
    plain, both = folded.empty(), LeastSquaresClassifier(ridge=2.0)
    kept = folded + plain
    kept.mutate({"ridge": KFold(3)})
    assert kept.ridge_ > 0.0
    plain.learn_many(X[20:], y[20:])
    both.learn_many(X, y)
    for merged in (folded + plain, plain + folded):
        laws.assert_same_model(merged, both)


def test_folds_that_are_needed_must_be_as_many():
    models = [LeastSquaresClassifier(ridge=ridge) for ridge in (KFold(3), 1.0)]
    for model in models:
        model.learn_many([{"a": 1.0}, {"b": 2.0}], ["x", "y"])
        model.mutate({"ridge": KFold(3)})
    before = [pickle.dumps(model) for model in models]
    with pytest.raises(ValueError, match="needs statistics in 3 folds"):
        models[1].learn_one({"new": 1.0}, "z")
    with pytest.raises(ValueError, match="statistics in 1 folds, expected 3"):
        models[0].merge(models[1])
    assert [pickle.dumps(model) for model in models] == before
    with pytest.raises(ValueError, match="ridge: KFold"):
        LeastSquaresClassifier(ridge=KFold(3)).merge(LeastSquaresClassifier(ridge=KFold(4)))
