"""Predictive variances: by definition, calibrated, and never NaN."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets

import laws
import strategies
from onlinels import LeastSquaresRegressor


@given(
    strategies.real_rows(scales=(1.0,), whole=True),
    strategies.accumulators,
    st.booleans(),
    st.floats(0.5, 100.0),
)
def test_the_predictive_variance_by_definition(rows, accumulator, fit_intercept, ridge):
    model = laws.learnt(lambda: LeastSquaresRegressor(ridge, accumulator, fit_intercept), rows)
    X, Y = rows.X.astype(np.float64), np.array(rows.y)[:, None]
    A, T, x_mean, _ = laws.weighted_centred(X, Y, rows.w, fit_intercept)
    inverse = np.linalg.inv(A.T @ A + ridge * np.eye(A.shape[1]))
    n_free = rows.w.sum() - np.trace(inverse @ A.T @ A) - fit_intercept
    noise = ((T - A @ (inverse @ A.T @ T)) ** 2).sum() / n_free if n_free > 1e-6 else np.inf
    about = X - x_mean
    leverages = np.einsum("ij,jk,ik->i", about, inverse, about) + fit_intercept / rows.w.sum()
    for x, leverage in zip(rows.dicts(), leverages, strict=True):
        if np.isfinite(noise):
            expected = np.sqrt(noise * (1.0 + leverage))
            assert spread(model, x) == pytest.approx(expected, rel=1e-5, abs=1e-6)
        elif n_free < -1e-6:
            assert spread(model, x) == math.inf


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
    inside = 0
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        fresh = model.predict_one(dict(enumerate(row)), with_dist=True)
        inside += abs(target - fresh.mu) <= 1.959964 * fresh.sigma
    return inside / len(y)


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
        shares.append(covered(model, X[30:], y[30:]))
    # Student's t of 14 degrees of freedom holds 93.0% within 1.96 deviations.
    assert 0.92 <= np.mean(shares) <= 0.94


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
