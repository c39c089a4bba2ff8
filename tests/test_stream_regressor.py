"""StreamRegressor: exact in every expert, of any units, calibrated, unharmed by bad input."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import proba

from onlinels import LeastSquaresRegressor, StreamRegressor
from onlinels.stream.regressor import MEMORIES
from support import laws, strategies
from support.laws import assert_alike_streams as assert_alike
from support.slow import the_rest_slow


def learnt(stream, model=None, rows=None):
    return laws.learn_stream(stream, model or StreamRegressor(), rows)


def drawn(n_rows, seed, noise=0.1, turned=None):
    """Return rows of three features of different units, the sign of whose effect may turn."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    y = X[:, 0] * np.where(np.arange(n_rows) < (turned or n_rows), 2.0, -2.0) + np.sin(3 * X[:, 1])
    X = X * [1e-3, 1.0, 1e5] + [0.0, 2.0, 1e6]
    return X, y + noise * random.standard_normal(n_rows)


def as_rows(X, y):
    return [
        (dict(enumerate(row)), target) for row, target in zip(X.tolist(), y.tolist(), strict=True)
    ]


@strategies.examples(20)
@given(strategies.number_streams(always=True))
def test_predictions_agree_with_each_other(stream):
    model = learnt(stream, StreamRegressor())
    ones = [model.predict_one(x, with_dist=True) for x in stream.samples]
    assert all(isinstance(each, proba.Gaussian) for each in ones)
    means = [model.predict_one(x) for x in stream.samples]
    assert model.predict_many(stream.samples) == [each.mu for each in ones] == means
    assert len({each.sigma for each in ones}) == 1
    low, high = min(stream.labels), max(stream.labels)
    margin = 0.1 * (high - low) + 1e-9 * (abs(low) + abs(high))
    assert low - margin <= min(means) <= max(means) <= high + margin


@strategies.examples(20)
@given(st.data(), strategies.number_streams(always=True))
def test_predictions_leave_no_trace(data, stream):
    """Of rows that are never learnt, and of the next one, however often it is asked about."""
    a, b = StreamRegressor(), StreamRegressor()
    never = [x | {"never met": number} for number, x in enumerate(stream.samples)]
    asked = [*never, {"never met": 1.0, "text 0": "never met"}, {}]
    for x, y in zip(stream.samples, stream.labels, strict=True):
        for sample in [*data.draw(st.permutations(asked))[:3], *[x] * data.draw(st.integers(0, 2))]:
            a.predict_one(sample, with_dist=True)
        a.learn_one(x, y)
        b.learn_one(x, y)
    assert_alike(a, b, asked)


@strategies.examples(20)
@given(strategies.number_streams(), st.integers(1, 5))
def test_late_rows_of_a_batch_are_late_rows(stream, delay):
    rows = [(x | {"row": float(row)}, stream.labels[row]) for row, x in enumerate(stream.samples)]
    samples, plain, in_batches = [x for x, _ in rows], StreamRegressor(), StreamRegressor()
    for now, x in enumerate(samples):
        plain.predict_one(x)
        plain.predict_interval_one(x)
        in_batches.predict_many([x], with_dist=True)
        if now >= delay:
            x, y = rows[now - delay]
            plain.learn_one(x, y)
            in_batches.learn_many([x], [y])
    assert laws.answers_of(in_batches, samples) == laws.answers_of(plain, samples)
    assert in_batches.shares == plain.shares


def test_late_targets_leave_plain_least_squares_little_advantage():
    """A drifting level whose target is 300 rows late: only the features are informative."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    y = X @ [3.0, -2.0, 1.0] + np.sin(np.arange(2000) / 100.0) + random.normal(size=2000)
    rows, errors, inside = as_rows(X, y), [], []
    models = StreamRegressor(), LeastSquaresRegressor()
    for now, (x, target) in enumerate(rows):
        errors.append([abs(model.predict_one(x) - target) for model in models])
        lower, upper = models[0].predict_interval_one(x)
        inside.append(lower <= target <= upper)
        for model in models if now >= 300 else ():
            model.learn_one(*rows[now - 300])
    ours, plain = np.mean(errors[301:], axis=0)
    assert ours <= 1.1 * plain
    assert 0.85 <= np.mean(inside[700:]) <= 0.95


@strategies.examples(20)
@given(st.data(), strategies.number_streams(kinds=("number", "whole"), always=True))
def test_units_are_no_matter(data, stream):
    """Features and targets multiplied by powers of 2: forecasts follow, bit for bit."""
    names = sorted({name for x in stream.samples for name in x})
    powers = {name: 2.0 ** data.draw(st.integers(-20, 20)) for name in [*names, "target"]}
    scaled = strategies.Stream(
        [{n: v if v is None else v * powers[n] for n, v in x.items()} for x in stream.samples],
        [powers["target"] * y for y in stream.labels],
    )
    a, b = (learnt(each, StreamRegressor()) for each in (stream, scaled))
    for x, other in zip(stream.samples, scaled.samples, strict=True):
        one, two = a.predict_one(x, with_dist=True), b.predict_one(other, with_dist=True)
        assert (two.mu, two.sigma) == (powers["target"] * one.mu, powers["target"] * one.sigma)
    assert a.shares == b.shares


@pytest.mark.parametrize(
    ("noise", "name"),
    [
        (lambda random, n: random.normal(size=n), "normal"),
        (lambda random, n: random.standard_t(2, size=n), "heavy tails"),
        (lambda random, n: np.exp(np.sin(np.arange(n) / 150)) * random.normal(size=n), "changing"),
        (lambda random, n: np.cumsum(random.normal(size=n)), "walk"),
    ],
)
@pytest.mark.parametrize("delay", the_rest_slow([0, 10]))
def test_intervals_of_90_percent_hold_90_percent(noise, name, delay):
    random, inside = np.random.default_rng(0), []
    rows = as_rows(*drawn(1200, seed=2, noise=0.0))
    rows = [(x, y + e) for (x, y), e in zip(rows, noise(random, len(rows)).tolist(), strict=True)]
    model = StreamRegressor()
    for number, (x, y) in enumerate(rows):
        fresh = model.predict_one(x, with_dist=True)
        inside.append(abs(fresh.mu - y) <= 1.645 * fresh.sigma)
        if number >= delay:
            model.learn_one(*rows[number - delay])
    # Errors of forecasts that overlap are alike: they say less.
    assert np.mean(inside[200:]) == pytest.approx(0.9, abs=0.05 if delay else 0.03), name


def test_nothing_learnt():
    model = StreamRegressor()
    assert (model.predict_one({"a": 1.0}), model.count, model.feature_names) == (0.0, 0, ())
    assert model.predict_one({"a": "x"}, with_dist=True).sigma == math.inf
    assert model.predict_many([{}, {"a": 1.0}]) == [0.0, 0.0]
    assert model.predict_many(np.ones((2, 3)), with_dist=True)[1].tolist() == [math.inf] * 2
    assert sum(model.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("x", "targets"),
    [
        ({}, [1.0] * 9),
        ({"a": 1.0}, [1e150 * (-1) ** n for n in range(9)]),
        ({"a": 1e150, "b": 5e-324}, [5e-324 * n for n in range(9)]),
        ({"a": None, "b": "text"}, [0.0, 1e150, 1e-150, 0.0, -1e149, 0.0]),
        ({"a": np.arange(300.0)}, [True, False, 3, np.float32(2.5)]),
    ],
)
def test_extremes_are_learnt(x, targets):
    model = StreamRegressor()
    for target in targets:
        model.learn_one(x, target)
        fresh = model.predict_one(x, with_dist=True)
        assert math.isfinite(fresh.mu)
        assert fresh.sigma >= 0.0


def test_intervals_are_those_of_the_distribution():
    model, x = StreamRegressor(), {"a": 3.0}
    assert model.predict_interval_one(x, 1e-300) == (-math.inf, math.inf)
    for n in range(50):
        model.learn_one({"a": float(n % 7)}, math.sin(n))
    fresh = model.predict_one(x, with_dist=True)
    lower, upper = ends = model.predict_interval_one(x, level=0.5)
    assert fresh.cdf(lower) == pytest.approx(0.25)
    assert fresh.cdf(upper) == pytest.approx(0.75)
    assert model.predict_interval_many([x], 0.5) == [ends]
    frame = model.predict_interval_many(pd.DataFrame([x]), 0.5)
    assert frame.to_dict("records") == [{"lower": lower, "upper": upper}]
    lowers, uppers = model.predict_interval_many(pd.DataFrame([x, x])).to_numpy().T
    assert (lowers < uppers).all()
    for level in (0.0, 1.0, math.nan, "0.9"):
        for call, rows in (("one", x), ("many", [x])):
            with pytest.raises((ValueError, TypeError), match="level="):
                getattr(model, f"predict_interval_{call}")(rows, level)


def test_plain_least_squares_inside_gives_no_warnings():
    """Neither of a feature that varies by rounding alone, nor of a row far from all others."""
    model = StreamRegressor()
    for row in range(600):
        x = {"a": 1e9 + 1e-7 * (row % 2), "b": 1e6 if row == 500 else float(row % 7)}
        model.predict_one(x)
        model.learn_one(x, float(row % 5))
    assert model.count == 600


GOOD = {"newer": 3.0, "newest": "text"}
BAD_CALLS = [
    ({"a": np.inf}, 1.0, r"x\['a'\] is inf"),
    ({"h3": np.ones(1), ("h3", 0): 1.0}, 1.0, "stand for one feature"),
    (GOOD, None, "is None"),
    (GOOD, np.nan, "is nan"),
    (GOOD, np.inf, "is inf"),
    (GOOD, 1e151, r"is 1e\+151"),
    (GOOD, "text", "is 'text'"),
    (GOOD, [1.0], r"y(\[\d\])? is \[1.0\] of type list.*several targets"),
    (GOOD, {"y": 1.0}, "is {'y': 1.0}"),
    (GOOD, 1j, "is 1j"),
]
BAD_BATCHES = [
    ([GOOD], [1.0, 2.0], "y has 2 targets, expected 1"),
    ([GOOD], 1.0, "y is of type float"),
    ([GOOD], np.ones((1, 2)), r"y has shape \(1, 2\)"),
    ([GOOD], pd.DataFrame({"y": [1.0]}), r"y has shape \(1, 1\)"),
    *(([GOOD, x, GOOD], [1.0, y, 2.0], text) for x, y, text in BAD_CALLS),
]


def test_bad_input_leaves_no_trace():
    calls = [("learn_one", *each) for each in BAD_CALLS]
    calls += [("learn_many", X, y, laws.in_batch(message)) for X, y, message in BAD_BATCHES]
    laws.assert_stream_refuses(StreamRegressor(), calls, [float(n**2) for n in range(9)])


@strategies.examples(20)
@given(st.data(), strategies.number_streams(max_rows=50, weighed=True), st.integers(0, 9))
def test_every_recursion_is_the_weighted_ridge_solution(data, stream, seed):
    model = StreamRegressor(seed)
    learn = partial(laws.learn_stream_in, data.draw(strategies.splits(len(stream))), stream)
    decays = [decay for *_, decay in MEMORIES]
    laws.assert_memories_exact(model, laws.learn_logged(model, learn), decays)
    assert model.count == len(stream)
    assert sum(model.shares.values()) == pytest.approx(1.0)
