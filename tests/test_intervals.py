"""How sure models are: probabilities, margins, variances and intervals, each by its definition."""

import copy
import math
import pickle
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from river import proba
from scipy import stats

from onlinels import (
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.core import IN_USE
from support import laws, strategies

# -- classifiers: from scores to probabilities ----------------------------------------------------

SPREAD_PROBABILITY = 0.02
"""Probability that is spread over all classes."""


def probabilities_of(scores):
    """Ask a model whose scores are the features themselves."""
    n_classes = scores.shape[1]
    model = LeastSquaresClassifier(ridge=0.0, fit_intercept=False)
    model.learn_many(np.eye(n_classes), list(range(n_classes)))
    np.testing.assert_allclose(model.scores_many(scores), scores, rtol=1e-12)
    return model.predict_proba_many(scores)


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 7)),
        elements=st.one_of(st.floats(-2.0, 2.0), st.floats(-1e6, 1e6)),
    ),
    st.integers(0, 2**32 - 1),
)
def test_probabilities_are_the_nearest_distribution_that_is_nowhere_0(scores, seed):
    """No other one is nearer: the variational inequality (s - p).(q - p) <= 0."""
    p, n_classes = probabilities_of(scores), scores.shape[1]
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert (p >= (1.0 - 1e-12) * SPREAD_PROBABILITY / n_classes).all()
    q = np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=len(scores))
    others = SPREAD_PROBABILITY / n_classes + (1.0 - SPREAD_PROBABILITY) * q
    allowed = 1e-12 * (1.0 + np.abs(scores).max())
    assert (((scores - p) * (others - p)).sum(axis=1) <= allowed).all()
    for row, probabilities in zip(scores, p, strict=True):
        assert (np.diff(probabilities[np.argsort(row)]) >= 0).all()


# -- margins, variances, distributions, intervals and errors of weights ---------------------------


@pytest.mark.parametrize("kind", ["labels", "labels with priors"])
@given(st.data())
def test_margins_by_definition(kind, data):
    rows, make = data.draw(strategies.cases(kind))
    assert make().margin_many(rows.X).tolist() == [0.0] * len(rows)
    model = laws.learnt(make, rows)
    scores, margins = np.sort(model.scores_many(rows.X), axis=1), model.margin_many(rows.X)
    # Of a single class, the best score is that of the next, too.
    assert (margins == scores[:, -1] - scores[:, -2:].min(axis=1)).all()
    # A score of one row and of many may differ by rounding.
    ones = [model.margin_one(x) for x in rows.dicts()]
    largest = np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    np.testing.assert_allclose(ones, margins, atol=1e-5 * (1.0 + largest))


X_NEW = np.array([[1.0], [2.0]])


def known_from(rows, y, w, ridges, fit_intercept):
    """Return leverages of rows, squares of residuals, degrees of freedom, and (A'A + R)^-1."""
    X, Y = rows.X.astype(np.float64), np.reshape(y, (len(rows), -1))
    A, T, x_mean, _ = laws.weighted_centred(X, Y, w, fit_intercept)
    inverse = np.linalg.inv(A.T @ A + np.diag(ridges))
    n_free = w.sum() - np.trace(inverse @ A.T @ A) - fit_intercept
    residuals, about = T - A @ (inverse @ A.T @ T), X - x_mean
    leverages = np.einsum("ij,jk,ik->i", about, inverse, about) + fit_intercept / w.sum()
    return leverages, (residuals**2).sum(axis=0), n_free, inverse


SETTINGS = strategies.accumulators, st.floats(0.5, 100.0), st.booleans()


@given(st.data(), strategies.rows(), *SETTINGS)
def test_variances_of_scores_by_definition(data, rows, accumulator, ridge, fit_intercept):
    model = LeastSquaresClassifier(7.0, accumulator, fit_intercept)
    laws.learn_in_batches(model, rows, data, ask=True)
    model.ridge = ridge
    Y = laws.one_hot(rows.y, model.classes)
    found, ridges = model.variance_many(rows.X), model.ridge_diagonal
    leverages, squares, n_free, _ = known_from(rows, Y, rows.w, ridges, fit_intercept)
    if n_free < 1e-6 * rows.w.sum():
        assert n_free > -1e-6 * rows.w.sum() or np.isinf(found).all()
        return
    noise = squares / n_free
    size = (1.0 + leverages[:, None]) * (1.0 + noise) * (1.0 + 1.0 / n_free)
    assert (np.abs(found - np.outer(leverages, noise)) <= 1e-6 * size).all()


@given(strategies.real_rows(scales=(1.0,), whole=True), *SETTINGS, st.sampled_from([1.0, 1.0, 0.9]))
def test_distributions_intervals_and_errors_of_weights_by_definition(
    rows, accumulator, ridge, fit_intercept, forgetting_factor
):
    """Those of Bayesian linear regression on the rows, as they are weighted at the end.

    If rows are forgotten, their mean weight comes in, because errors do not decay, until the memory
    is full.
    """
    model = LeastSquaresRegressor(ridge, accumulator, fit_intercept, forgetting_factor)
    model.learn_many(rows.X, rows.y, rows.w)
    w, ridges = rows.w * forgetting_factor ** np.arange(len(rows))[::-1], model.ridge_diagonal
    leverages, (squares,), n_free, inverse = known_from(rows, rows.y, w, ridges, fit_intercept)
    counts = factor = 1.0
    if forgetting_factor < 1.0 and w.any() and (mean := (w @ w) / w.sum()) < 1.0:
        counts, factor = (mean, mean) if mean > 0.55 else (0.0, 1.0)
    n_free = w.sum() - counts * (w.sum() - n_free)
    if abs(n_free) <= 1e-6:
        return
    noise = squares / n_free if n_free > 0.0 else math.inf
    errors = np.sqrt(noise * factor * np.diag(inverse))
    np.testing.assert_allclose(model.weight_errors[:, 0], errors, rtol=1e-5, atol=1e-6)
    assert not model.weight_errors.flags.writeable
    for x, leverage in zip(rows.dicts(), leverages, strict=True):
        deviation, middle = np.sqrt(noise * (1.0 + factor * leverage)), model.predict_one(x)
        assert spread(model, x) == pytest.approx(deviation, rel=1e-5, abs=1e-6)
        reach = deviation * stats.t.ppf(0.9, max(n_free, 1e-6))
        expected = middle - reach, middle + reach
        near = {"rel": 1e-4, "abs": 1e-5 + 1e-9 * abs(middle)}
        assert model.predict_interval_one(x, level=0.8) == pytest.approx(expected, **near)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
def test_errors_of_weights_are_those_of_ordinary_least_squares(accumulator):
    """By the formula for one feature, and infinite where nothing is known."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=50), np.full(50, 7.0)])
    y = 2.0 * X[:, 0] + random.normal(size=50)
    model = laws.fitted(LeastSquaresRegressor(0.0, accumulator), X, y)
    known, beside = model.weight_errors[:, 0]
    assert known == pytest.approx(stats.linregress(X[:, 0], y).stderr, rel=1e-9)
    assert beside == np.inf


def spread(model, x):
    return model.predict_one(x, with_dist=True).sigma


@given(st.floats(-1e6, 1e6), st.floats(-1e3, 1e3), st.integers(1, 30))
def test_distributions_are_those_of_river(offset, x, seed):
    """Also when they are copied, or updated."""
    random = np.random.default_rng(seed)
    model = LeastSquaresMultiTargetRegressor(1.0)
    model.learn_many(random.normal(size=(9, 1)), random.normal(size=(9, 2)) + offset)
    for found in model.predict_one({0: x}, with_dist=True).values():
        expected = proba.Gaussian._from_state(1, found.mu, found.sigma**2, ddof=0)
        for each in (found, copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
            assert (each.mu, each.mode, each.n_samples) == (found.mu, found.mu, 1)
            assert repr(each) == repr(expected)
            assert each.cdf(offset) == pytest.approx(expected.cdf(offset))
            assert each.log_pdf(offset) == pytest.approx(expected.log_pdf(offset))
            assert isinstance(each.sample(), float)
        found.update(x)
        expected.update(x)
        assert (found.mu, found.sigma) == pytest.approx((expected.mu, expected.sigma))


# -- single rows while a model learns -------------------------------------------------------------

FORGETTING = [{}, {}, {"forgetting_factor": 0.97}, {"half_life": 15.0}]


@st.composite
def settings_that_are_solved(draw):
    """Draw settings in which weights follow rows, or are solved for each question."""
    settings = {
        "ridge": draw(st.sampled_from([0.1, 5.0, 5.0, "auto"])),
        "accumulator": draw(st.sampled_from(["gram", "recursive"])),
        "fit_intercept": draw(st.booleans()),
        "scaling": draw(st.sampled_from([None, "auto", "standard"])),
    }
    return settings | draw(st.sampled_from(FORGETTING))


def stream(seed, n_features, is_collinear):
    """Yield rows, and three numbers for each, of which the last is only rounding."""
    numbers = np.random.default_rng(seed)
    for _ in range(4 * n_features + 12):
        row = numbers.normal(size=n_features) + 1.0
        if is_collinear:
            row[-1] = row[0] + 1e-7 * row[-1]
        y = row @ np.arange(n_features) + numbers.normal(size=3) * (1.0, 10.0, 1e-12)
        yield dict(enumerate(row.tolist())), y.tolist()


@given(settings_that_are_solved(), st.integers(1, 6), st.integers(0, 2**32 - 1), st.integers(0, 4))
def test_every_row_has_the_uncertainty_of_a_batch_of_it(settings, n_features, seed, n_asked):
    """From the first row on, however often models are asked. Every target is alone."""
    several, one = LeastSquaresMultiTargetRegressor(**settings), LeastSquaresRegressor(**settings)
    # Names that Python compares are those for which the core hands rows back.
    names = [("u", "v", "w"), (("t", 1), ("t", 2), ("t", 3))][seed % 2]
    classifier, near = LeastSquaresClassifier(**settings), {"rel": 1e-6, "abs": 1e-6}
    for number, (x, y) in enumerate(stream(seed, n_features, seed % 5 == 0)):
        if number % (n_asked + 1) == 0:
            asked = np.array([[*x.values()]])
            found = classifier.variance_one(x)
            assert tuple(found) == classifier.classes
            variances = classifier.variance_many(asked)[0]
            assert [*found.values()] == pytest.approx(variances, rel=1e-6, abs=1e-9)
            told, (low, high) = one.predict_one(x, True), one.predict_interval_one(x, 0.5)
            assert told.mu == one.predict_one(x)
            (mean,), (deviation,) = one.predict_many(asked, True)
            (lower,), (upper,) = one.predict_interval_many(asked, 0.5)
            assert (told.mu, told.sigma) == pytest.approx((mean, deviation), **near)
            assert (low, high) == pytest.approx((lower, upper), **near)
            dists, ends = several.predict_one(x, True), several.predict_interval_one(x, 0.5)
            (known,) = several.predict_many([x], True)
            (known_ends,) = several.predict_interval_many([x], 0.5)
            assert tuple(dists) == tuple(ends) == tuple(known) == several.target_names
            for name, each in dists.items():
                expected = known[name].mu, known[name].sigma
                assert (each.mu, each.sigma) == pytest.approx(expected, **near)
                assert ends[name] == pytest.approx(known_ends[name], **near)
                assert (each.sigma == np.inf) == (ends[name] == (-np.inf, np.inf))
            if number and settings["ridge"] != "auto":
                alone = dists[names[0]]
                assert (alone.mu, alone.sigma) == pytest.approx((told.mu, told.sigma), **near)
        one.learn_one(x, y[0])
        several.learn_one(x, dict(zip(names, y, strict=True)))
        classifier.learn_one(x, "abc"[int(y[0]) % 3])


PRIORS = "learnt", "equal", {}, {"a": 2.0, "unseen": 1.0}
SCORES = "predict_one", "predict_proba_one", "scores_one", "margin_one"
NUMBERS = "predict_one", "predict_interval_one"


@pytest.mark.skipif(IN_USE != "compiled", reason="the extension is not in use")
@pytest.mark.parametrize(
    ("model", "asks", "targets"),
    [
        (LeastSquaresClassifier(1.0), (*SCORES, "variance_one"), lambda y: "ab"[y > 6.0]),
        *((LeastSquaresClassifier(1.0, priors=p), SCORES, lambda y: "ab"[y > 6.0]) for p in PRIORS),
        (LeastSquaresRegressor(1.0), NUMBERS, float),
        (LeastSquaresRegressor(1.0, scaling="standard"), NUMBERS, float),
        (LeastSquaresMultiTargetRegressor(1.0), NUMBERS, lambda y: {"u": y, "v": -y}),
    ],
)
def test_no_other_code_answers_single_rows(model, asks, targets, monkeypatch):
    """Once predictions keep coming."""
    model = model.clone()
    for number, (x, y) in enumerate([*stream(0, 4, False), *stream(1, 4, False)]):
        if number == 28:
            for name in ("_variances", "_scores_asked"):
                monkeypatch.setattr(model, name, mock.Mock(side_effect=AssertionError))
        for name in asks:
            getattr(model, name)(x)
        model.learn_one(x, targets(y[0]))


# -- kinds of answers, and how much is known ------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_distributions_and_intervals_come_in_kind(kind):
    X = np.random.default_rng(0).normal(size=(40, 2))
    Y, table = pd.DataFrame(X**2, columns=["down", "up"]), kind({"a": X[:, 0], "b": X[:, 1]})
    plain = laws.fitted(LeastSquaresRegressor(), X, X[:, 1] ** 2)
    one = laws.fitted(LeastSquaresRegressor(), table, X[:, 1] ** 2)
    many = laws.fitted(LeastSquaresMultiTargetRegressor(), table, Y)
    for names, ask in (
        (["mean", "std"], lambda model, rows: model.predict_many(rows, with_dist=True)),
        (["lower", "upper"], lambda model, rows: model.predict_interval_many(rows)),
    ):
        found, each = ask(one, table), ask(many, table)
        assert isinstance(found, kind)
        assert [*found.columns] == names
        assert [*each.columns] == [f"{target}_{name}" for target in Y for name in names]
        np.testing.assert_allclose(found.to_numpy(), np.column_stack(ask(plain, X)))


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.999, 0.99999])
def test_intervals_have_students_quantiles_for_few_and_for_many_rows(level):
    """Rows of weight w count as w rows: 2.5 to 1e7 degrees of freedom."""
    for freedom in (2.5, 9.0, 11.0, 12.5, 30.0, 499.0, 501.0, 1e7):
        model = LeastSquaresRegressor(ridge=0.0)
        for number in range(4):
            model.learn_one({"x": float(number)}, float(number % 3), w=(freedom + 2.0) / 4.0)
            model.predict_one({"x": 1.0})
        reach = stats.t.ppf((1.0 + level) / 2.0, freedom) * spread(model, {"x": 1.0})
        lower, upper = model.predict_interval_one({"x": 1.0}, level=level)
        assert upper - lower == pytest.approx(2.0 * reach, rel=1e-10)


@pytest.mark.parametrize("kind", [LeastSquaresRegressor, LeastSquaresMultiTargetRegressor])
def test_levels_are_between_0_and_1(kind):
    for level in (0.0, 1.0, -0.5, 90, np.nan, "0.9", None, True):
        for call, x in (("predict_interval_one", {"a": 1.0}), ("predict_interval_many", X_NEW)):
            with pytest.raises((TypeError, ValueError), match="level="):
                getattr(kind(), call)(x, level)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_what_nobody_knows(accumulator):
    model, x = LeastSquaresClassifier(1.0, accumulator), {"a": 1.0}
    model.learn_one(x, "yes")
    assert (model.variance_one(x), model.margin_one(x)) == ({"yes": np.inf}, 0.0)
    model, several = LeastSquaresRegressor(1.0, accumulator), LeastSquaresMultiTargetRegressor()
    assert model.weight_errors.shape == (0, 1)
    assert np.array(model.predict_interval_many(X_NEW)).tolist() == [[-np.inf] * 2, [np.inf] * 2]
    for w in (0.0, 1.0):
        told = model.predict_one(x, with_dist=True)
        assert (told.mu, told.sigma, told.cdf(17.0)) == (model.predict_one(x), math.inf, 0.5)
        model.learn_one(x, 2.0, w)
    assert np.isinf(model.weight_errors).all()
    assert several.predict_interval_many([{}, {}]) == [{}, {}]
    assert [each.shape for each in several.predict_many(X_NEW, with_dist=True)] == [(2, 0)] * 2


def test_an_exact_fit_is_as_certain_as_rounding_lets_it_be():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = laws.fitted(LeastSquaresRegressor(ridge=0.0), X, X @ np.array([1.0, -2.0, 3.0]))
    assert 0.0 < spread(model, dict(enumerate(X[0]))) < 1e-6
    constant = laws.fitted(LeastSquaresRegressor(ridge=0.0), X, np.full(50, 7.0))
    fresh = constant.predict_one(dict(enumerate(X[0])), with_dist=True)
    assert (fresh.mu, fresh.sigma) == (7.0, 0.0)


@pytest.mark.parametrize("ridge", [4.0, 0.0])
@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
def test_a_feature_never_learnt_is_one_that_was_always_zero(accumulator, ridge):
    """Its weight is known from the ridge alone; without a ridge, it has no variance."""
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40.0)
    without = laws.fitted(LeastSquaresRegressor(ridge, accumulator), X, y)
    zero = laws.fitted(LeastSquaresRegressor(ridge, accumulator), np.c_[X, np.zeros(40)], y)
    near, far = {0: 1.0}, {0: 1.0, 2: 3.0}
    assert spread(without, far) == pytest.approx(spread(zero, far), rel=1e-9)
    assert (spread(zero, far) > 1.2 * spread(zero, near)) == (ridge > 0.0)


@pytest.mark.parametrize("ridge", [0.0, 1e-15, 1e-10, 1e-6])
def test_near_singular_systems_count_no_parameter_twice(ridge):
    """One feature is there twice: with and without it the spread is the same."""
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0) % 7
    (_, expected), (_, found) = (
        laws.fitted(LeastSquaresRegressor(ridge=ridge), rows, y).predict_many(rows, with_dist=True)
        for rows in (X, X[:, [0, 1, 0]])
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize(("n_features", "factor"), [(5, 0.99), (50, 0.97), (50, 0.9)])
def test_intervals_cover_what_they_say_where_memory_is_short(n_features, factor):
    covered, widths = [], []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X = random.normal(size=(900, n_features))
        y = X @ random.normal(size=n_features) / n_features**0.5 + 0.7 * random.normal(size=900)
        model = laws.fitted(LeastSquaresRegressor(forgetting_factor=factor), X[:600], y[:600])
        lower, upper = model.predict_interval_many(X[600:], level=0.9)
        errors = model.predict_many(X[600:]) - y[600:]
        covered.append(((lower <= y[600:]) & (y[600:] <= upper)).mean())
        widths.append((upper - lower).mean() / (2.0 * 1.645 * np.sqrt((errors**2).mean())))
    assert 0.84 < np.mean(covered) < 0.94
    assert 0.9 < np.mean(widths) < 1.15
