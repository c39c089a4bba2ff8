"""Predictive variances: by definition, calibrated, and never NaN."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets, proba
from scipy import stats

from onlinels import LeastSquaresMultiTargetRegressor, LeastSquaresRegressor
from support import laws, strategies

X_NEW = np.array([[1.0], [2.0]])


@given(
    strategies.real_rows(scales=(1.0,), whole=True),
    strategies.accumulators,
    st.booleans(),
    st.floats(0.5, 100.0),
    st.sampled_from([1.0, 0.9]),
)
def test_distributions_and_intervals_by_definition(
    rows, accumulator, fit_intercept, ridge, forgetting_factor
):
    """Those of Bayesian linear regression on the rows, as they are weighted at the end."""
    model = LeastSquaresRegressor(ridge, accumulator, fit_intercept, forgetting_factor)
    model.learn_many(rows.X, rows.y, rows.w)
    X, Y = rows.X.astype(np.float64), np.array(rows.y)[:, None]
    w = rows.w * forgetting_factor ** np.arange(len(rows))[::-1]
    A, T, x_mean, _ = laws.weighted_centred(X, Y, w, fit_intercept)
    inverse = np.linalg.inv(A.T @ A + np.diag(model.ridge_diagonal))
    n_free = w.sum() - np.trace(inverse @ A.T @ A) - fit_intercept
    noise = ((T - A @ (inverse @ A.T @ T)) ** 2).sum() / n_free if n_free > 1e-6 else np.inf
    about = X - x_mean
    leverages = np.einsum("ij,jk,ik->i", about, inverse, about) + fit_intercept / w.sum()
    for x, leverage in zip(rows.dicts(), leverages, strict=True):
        lower, upper = model.predict_interval_one(x, level=0.8)
        if np.isfinite(noise):
            expected = np.sqrt(noise * (1.0 + leverage))
            assert spread(model, x) == pytest.approx(expected, rel=1e-5, abs=1e-6)
            expected *= stats.t.ppf(0.9, n_free)
            assert (upper - lower) / 2 == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert (upper + lower) / 2 == pytest.approx(
                model.predict_one(x), abs=1e-6 + 1e-9 * upper
            )
        elif n_free < -1e-6:
            assert spread(model, x) == math.inf
            assert (lower, upper) == (-math.inf, math.inf)


@given(st.data(), strategies.real_rows(), strategies.classifier_settings())
def test_distributions_are_never_nan(data, rows, settings):
    model = LeastSquaresRegressor(**settings)
    for batch in data.draw(strategies.splits(len(rows))):
        part = rows.take(batch)
        model.learn_many(part.X, part.y, part.w)
        for x in [*part.dicts(), {}, {0: 1e6, 99: 1.0}]:
            fresh = model.predict_one(x, with_dist=True)
            assert fresh.mu == model.predict_one(x)
            assert fresh.sigma >= 0.0
            assert 0.0 <= fresh.cdf(fresh.mu + 1.0) <= 1.0
            assert not math.isnan(fresh(fresh.mu))
            assert isinstance(repr(fresh), str)


def linear_data(random, n_rows, noise, slopes):
    """Draw correlated features far from 0 of different units, and targets with noise."""
    n_features = len(slopes)
    mixing = np.tril(np.full((n_features, n_features), 0.6)) + 0.4 * np.eye(n_features)
    centred = random.normal(size=(n_rows, n_features)) @ mixing
    y = centred @ slopes + 3.0 + noise * random.normal(size=n_rows)
    return (centred + 5.0) * 10.0 ** np.linspace(-1.0, 1.0, n_features), y


def spread(model, x):
    return model.predict_one(x, with_dist=True).sigma


def covered(model, X, y):
    """Return the share of targets inside the interval that is to hold 95% of them."""
    mean, deviation = model.predict_many(X, with_dist=True)
    return np.mean(abs(y - mean) <= 1.959964 * deviation)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_intervals_cover_as_often_as_they_say(seed, fit_intercept):
    """95% intervals hold 94% to 96% of 10,000 fresh targets."""
    random = np.random.default_rng(seed)
    n_features = int(random.integers(3, 12))
    slopes = random.normal(size=n_features)
    noise, ridge = 10.0 ** random.uniform(-2, 1.5), 10.0 ** random.uniform(-6, 0)
    X, y = linear_data(random, 14_000, noise, slopes)
    if not fit_intercept:
        # A constant feature stands in for the intercept, with the ridge that it carries.
        X = np.hstack([X, np.ones((len(X), 1))])
    model = LeastSquaresRegressor(ridge=ridge, fit_intercept=fit_intercept)
    for start in range(0, 4000, 500):
        model.learn_many(X[start : start + 500], y[start : start + 500])
    assert 0.94 <= covered(model, X[4000:], y[4000:]) <= 0.96


def test_intervals_of_few_rows_widen_by_the_leverage():
    """With 30 rows and 15 features a fresh target varies far more than a residual."""
    random = np.random.default_rng(0)
    shares = []
    for _ in range(100):
        slopes = random.normal(size=15)
        X, y = linear_data(random, 60, 0.5, slopes)
        model = LeastSquaresRegressor(ridge=1e-6)
        model.learn_many(X[:30], y[:30])
        lower, upper = model.predict_interval_many(X[30:], level=0.9)
        shares.append(
            (covered(model, X[30:], y[30:]), ((lower <= y[30:]) & (y[30:] <= upper)).mean())
        )
    # Student's t of 14 degrees of freedom holds 93.0% within 1.96 deviations, and 90% in its own.
    normal, own = np.mean(shares, axis=0)
    assert 0.92 <= normal <= 0.94
    assert 0.89 <= own <= 0.91


def test_intervals_of_many_rows_hold_what_they_say():
    random = np.random.default_rng(0)
    X, y = linear_data(random, 14_000, 0.5, random.normal(size=6))
    model = LeastSquaresRegressor(forgetting_factor=0.995)
    model.learn_many(X[:4000], y[:4000])
    for level in (0.5, 0.9):
        lower, upper = model.predict_interval_many(X[4000:], level)
        assert ((lower <= y[4000:]) & (y[4000:] <= upper)).mean() == pytest.approx(level, abs=0.02)


@given(
    st.data(),
    strategies.real_rows(("b", "a", 7), scales=(1.0,), whole=True),
    strategies.accumulators,
    st.booleans(),
    st.sampled_from([1.0, 0.9]),
)
def test_many_are_one_by_one_and_every_target_is_alone(
    data, rows, accumulator, fit_intercept, forgetting_factor
):
    settings = 2.0, accumulator, fit_intercept, forgetting_factor
    model, alone = LeastSquaresMultiTargetRegressor(*settings), LeastSquaresRegressor(*settings)
    laws.learn_in_batches(model, rows, data, ask=True)
    alone.learn_many(rows.X, [y["a"] for y in rows.y], rows.w)
    asked, near = [*rows.dicts(), {0: 3.0, 99: 1.0}, {}], {"rel": 1e-5, "abs": 1e-6}
    dists, singles = model.predict_many(asked, with_dist=True), alone.predict_many(asked, True)
    ends, single_ends = model.predict_interval_many(asked), alone.predict_interval_many(asked)
    for x, dist, single, end, single_end in zip(
        asked, dists, singles, ends, single_ends, strict=True
    ):
        one, one_end = model.predict_one(x, with_dist=True), model.predict_interval_one(x)
        assert tuple(one) == tuple(dist) == tuple(end) == tuple(one_end) == model.target_names
        for name in one:
            assert isinstance(dist[name], proba.Gaussian)
            assert dist[name].mu == pytest.approx(one[name].mu, **near)
            assert dist[name].sigma == pytest.approx(one[name].sigma, **near)
            assert end[name] == pytest.approx(one_end[name], **near)
        assert single.mu == pytest.approx(one["a"].mu, **near)
        assert single.sigma == pytest.approx(one["a"].sigma, **near)
        assert single_end == pytest.approx(one_end["a"], **near)
        assert alone.predict_interval_one(x) == pytest.approx(one_end["a"], **near)


def test_distributions_and_intervals_come_in_kind():
    X = np.random.default_rng(0).normal(size=(40, 2))
    Y = pd.DataFrame({"down": X[:, 0], "up": X[:, 1] + X[:, 0] ** 2})
    frame = pd.DataFrame(X, columns=["a", "b"], index=range(100, 140))
    one, many = LeastSquaresRegressor(), LeastSquaresMultiTargetRegressor()
    one.learn_many(frame, Y["up"].to_numpy())
    many.learn_many(frame, Y)
    by_array = LeastSquaresRegressor()
    by_array.learn_many(X, Y["up"].to_numpy())
    mean, std = by_array.predict_many(X, with_dist=True)
    lower, upper = by_array.predict_interval_many(X)
    assert mean.shape == std.shape == lower.shape == upper.shape == (40,)
    for kind in (pd.DataFrame, pl.DataFrame):
        table = kind(frame) if kind is pd.DataFrame else pl.from_pandas(frame)
        found = one.predict_many(table, with_dist=True), one.predict_interval_many(table)
        assert all(isinstance(each, kind) for each in found)
        assert [list(each.columns) for each in found] == [["mean", "std"], ["lower", "upper"]]
        np.testing.assert_allclose(found[0].to_numpy(), np.c_[mean, std])
        np.testing.assert_allclose(found[1].to_numpy(), np.c_[lower, upper])
        found = many.predict_many(table, with_dist=True), many.predict_interval_many(table)
        names = [f"{name}_{part}" for name in ("down", "up") for part in ("mean", "std")]
        assert list(found[0].columns) == names
        assert list(found[1].columns) == ["down_lower", "down_upper", "up_lower", "up_upper"]
        assert found[0]["up_std"].to_list() == pytest.approx(std, rel=0.3)
    assert one.predict_many(frame, with_dist=True).index.tolist() == frame.index.tolist()
    many = LeastSquaresMultiTargetRegressor()
    many.learn_many(X, Y.to_numpy())
    for pair in (many.predict_many(X, with_dist=True), many.predict_interval_many(X)):
        assert [each.shape for each in pair] == [(40, 2)] * 2


@pytest.mark.parametrize("kind", [LeastSquaresRegressor, LeastSquaresMultiTargetRegressor])
def test_levels_are_between_0_and_1(kind):
    for level in (0.0, 1.0, -0.5, 90, np.nan, "0.9", None, True):
        for call, x in (("predict_interval_one", {"a": 1.0}), ("predict_interval_many", X_NEW)):
            with pytest.raises((TypeError, ValueError), match="level="):
                getattr(kind(), call)(x, level)


def test_nothing_learnt_is_infinitely_wide():
    model, many = LeastSquaresRegressor(), LeastSquaresMultiTargetRegressor()
    assert model.predict_interval_one({"a": 1.0}) == (-math.inf, math.inf)
    assert [each.tolist() for each in model.predict_interval_many(X_NEW)] == [
        [-math.inf] * 2,
        [math.inf] * 2,
    ]
    assert many.predict_one({"a": 1.0}, with_dist=True) == {}
    assert many.predict_interval_one({"a": 1.0}) == {}
    assert many.predict_interval_many([{}, {}]) == [{}, {}]
    assert [each.shape for each in many.predict_many(X_NEW, with_dist=True)] == [(2, 0)] * 2


def test_nothing_known_is_infinitely_uncertain():
    model = LeastSquaresRegressor()
    for x, y in [({}, 1.0), ({"a": 1.0}, 2.0)]:
        fresh = model.predict_one({"a": 1.0}, with_dist=True)
        assert fresh.mu == model.predict_one({"a": 1.0})
        assert fresh.sigma == math.inf
        assert fresh.cdf(17.0) == 0.5
        model.learn_one(x, y, w=0.0 if not x else 1.0)
    assert spread(model, {"a": 1.0}) == math.inf
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6.0) + 0.1
    for fit_intercept in (True, False):
        model = LeastSquaresRegressor(ridge=1.0, fit_intercept=fit_intercept)
        model.learn_many(X, y, w=np.full(6, 0.1))
        model.unlearn_many(X[::-1], y[::-1], w=np.full(6, 0.1))
        assert abs(model.predict_one({0: 1.0})) < 1e-9
        assert spread(model, {0: 1.0}) == math.inf


def test_as_many_parameters_as_rows_leave_no_degree_of_freedom():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(8, 5)), random.normal(size=8)
    model = LeastSquaresRegressor(ridge=0.0)
    for row in range(8):
        model.learn_many(X[row : row + 1], y[row : row + 1])
        assert math.isinf(spread(model, dict(enumerate(X[0])))) == (row + 1 <= 6)


def test_an_exact_fit_is_as_certain_as_rounding_lets_it_be():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = LeastSquaresRegressor(ridge=0.0)
    model.learn_many(X, X @ np.array([1.0, -2.0, 3.0]))
    assert 0.0 < spread(model, dict(enumerate(X[0]))) < 1e-6
    constant = LeastSquaresRegressor(ridge=0.0)
    constant.learn_many(X, np.full(50, 7.0))
    fresh = constant.predict_one(dict(enumerate(X[0])), with_dist=True)
    assert (fresh.mu, fresh.sigma) == (7.0, 0.0)


def test_a_feature_never_learnt_is_one_that_was_always_zero():
    """Its weight is known from the ridge alone."""
    X, y = np.random.default_rng(0).normal(size=(2, 40, 2)), np.arange(40.0)
    rows = [{"a": a, "b": b} for a, b in X[0].tolist()]
    without, always_zero = (LeastSquaresRegressor(ridge=4.0) for _ in range(2))
    without.learn_many(rows, y)
    always_zero.learn_many([x | {"c": 0.0} for x in rows], y)
    found, query = spread(without, {"a": 1.0, "c": 3.0}), {"a": 1.0, "c": 3.0}
    assert found == pytest.approx(spread(always_zero, query), rel=1e-12)
    assert found > 1.2 * spread(without, {"a": 1.0})


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("n_features", [1, 3])
def test_without_a_ridge_a_feature_that_was_always_zero_has_no_variance(accumulator, n_features):
    random = np.random.default_rng(0)
    X = np.c_[random.normal(size=(20, n_features - 1)), np.zeros(20)]
    model = LeastSquaresRegressor(ridge=0.0, accumulator=accumulator)
    model.learn_many(X, random.normal(size=20))
    without, beside = dict.fromkeys(range(n_features), 0.0), {n_features - 1: 100.0}
    assert spread(model, without | beside) == pytest.approx(spread(model, without), rel=1e-9)


def test_variances_follow_learning_and_the_ridge():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 4)), random.normal(size=60)
    query = dict(enumerate(X[0].tolist()))
    model = LeastSquaresRegressor(ridge=1.0, forgetting_factor=0.9)
    for start in range(0, 60, 20):
        model.learn_many(X[start : start + 20], y[start : start + 20])
        model.predict_one(query, with_dist=True)
    model.mutate({"ridge": 3.0})
    fresh = LeastSquaresRegressor(ridge=3.0, forgetting_factor=0.9)
    fresh.learn_many(X, y)
    sigma = spread(fresh, query)
    assert spread(model, query) == pytest.approx(sigma, rel=1e-9)
    model.unlearn_many(X[-1:], y[-1:])
    assert spread(model, query) != pytest.approx(sigma, rel=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-15, 1e-10, 1e-6])
def test_near_singular_systems_count_no_parameter_twice(ridge):
    """One feature is there twice: with and without it the spread is the same."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(30, 2)), random.normal(size=30)
    once, twice = LeastSquaresRegressor(ridge=ridge), LeastSquaresRegressor(ridge=ridge)
    once.learn_many(X, y)
    twice.learn_many(np.column_stack([X, X[:, 0]]), y)
    for a, b in X.tolist():
        found = spread(twice, {0: a, 1: b, 2: a})
        assert found == pytest.approx(spread(once, {0: a, 1: b}), rel=1e-3)


def test_on_a_real_stream_the_intervals_hold():
    """Progressive validation on river's data: predict, then learn, row by row."""
    model, inside, total = LeastSquaresRegressor(), 0, 0
    for x, y in datasets.TrumpApproval():
        fresh = model.predict_one(x, with_dist=True)
        inside += abs(y - fresh.mu) <= 1.959964 * fresh.sigma
        total += 1
        model.learn_one(x, y)
    assert inside / total > 0.9
