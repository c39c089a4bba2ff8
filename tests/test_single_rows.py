"""Rows that come one by one, in every way in which a model answers: follow, solve, hand back."""

import copy
import pickle
from contextlib import suppress
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import (
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    core,
)
from onlinels.core.constants import FOLLOW, HAND_BACK, MAX_FEATURES_SOLVED, SOLVE, SOLVED
from onlinels.linear import single
from onlinels.linear.following import MAX_ROWS_BETWEEN_PREDICTIONS
from onlinels.linear.ridge import penalties_of
from onlinels.linear.solving import solve, spread_of
from onlinels.linear.state import in_force, ready
from support import laws, strategies

compiled = pytest.mark.skipif(core.IN_USE != "compiled", reason="the extension is not in use")

FORGETTING = {}, {"forgetting_factor": 0.95}, {"forgetting_factor": 0.5}, {"half_life": 9.0}


@st.composite
def settings(draw):
    """Draw the settings of a model, and whether it is a classifier."""
    ridge = draw(st.sampled_from([1.0, 1e-3, 1e-9, 30.0, 0.0, "paper", "auto"]))
    scaling = draw(st.sampled_from(["auto", None] if ridge == 0.0 else strategies.SCALINGS))
    drawn = {"ridge": ridge, "scaling": scaling, "fit_intercept": draw(st.booleans())}
    drawn["accumulator"] = draw(st.sampled_from(["gram", "recursive"]))
    kind = draw(st.sampled_from([LeastSquaresClassifier, LeastSquaresRegressor]))
    return kind, drawn | draw(st.sampled_from(FORGETTING))


@st.composite
def streams(draw, max_rows=60):
    """Draw settings, and rows as dicts with targets: independent, correlated or collinear."""
    kind, drawn = draw(settings())
    n, m = draw(st.integers(2, max_rows)), draw(st.integers(1, 9))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X, rank = numbers.normal(size=(n, m)), draw(st.sampled_from([m, m, 2, 1]))
    if rank < m:
        near = draw(st.sampled_from([0.0, 1e-7, 1e-3, 0.1]))
        X = numbers.normal(size=(n, rank)) @ numbers.normal(size=(rank, m)) + near * X
    X *= draw(st.sampled_from([1.0, 100.0])) ** numbers.integers(-1, 2, m)
    X += draw(st.sampled_from([0.0, 0.0, 10.0]))
    X[:, numbers.random(m) < 0.1] = draw(st.sampled_from([0.0, 0.1]))
    y = X @ numbers.normal(size=m) + numbers.normal(size=n)
    y = y > y.mean() if kind is LeastSquaresClassifier else y
    return (lambda: kind(**drawn)), [dict(enumerate(row)) for row in X.tolist()], y.tolist()


def asks(model, x):
    """Return answers to a row."""
    if isinstance(model, LeastSquaresClassifier):
        return [model.predict_one(x), model.scores_one(x)]
    return [model.predict_one(x), model.predict_interval_one(x)]


def mode_of(model):
    """Return how the core answers questions about a model."""
    made, state = [], ready(model._state).copied()
    made_of = mock.Mock(side_effect=lambda **named: made.append(named) or mock.Mock())
    with mock.patch.object(single, "SingleRows", made_of):
        single.rows_of(state)
    return made[0]["mode"]


def residual_of(model):
    """Return how far the weights are from solving the normal equations, relative to their terms."""
    state = ready(model._state)
    penalties, diagonal = penalties_of(*in_force(state), state.statistics)
    gram, cross = state.statistics.products.gram_and_cross()
    gram = np.triu(gram) + np.triu(gram, 1).T + np.diag(np.broadcast_to(penalties, len(gram)))
    W, active = model.output_weights, diagonal > 0.0
    W = W[:, state.statistics.target_squares > 0.0] if state.statistics.is_centred else W
    cross = (
        cross[:, state.statistics.target_squares > 0.0] if state.statistics.is_centred else cross
    )
    apart, sizes = np.abs(gram @ W - cross), np.abs(gram) @ np.abs(W) + np.abs(cross)
    scale = np.sqrt(np.where(active, gram.diagonal(), np.inf))[:, None]
    largest = (sizes / scale).max(initial=0.0) or 1.0
    assert not W[~active].any()
    return float((apart / scale)[active].max(initial=0.0) / largest)


def unlearnt(model, row, _):
    """Unlearn the last row, unless it has been forgotten in part, or few digits would be left."""
    if model.forgetting_factor == 1.0 and model.half_life is None:
        with suppress(ValueError):
            model.unlearn_one(*row)
    return model


def merged(model, _, rows):
    other = model.empty()
    other.learn_many(*(each[:3] for each in rows))
    return model.merge(other)


EVENTS = {
    "unlearn": unlearnt,
    "merge": merged,
    "fade": lambda model, *_: model.fade(0.5) or model,
    "copy": lambda model, *_: copy.copy(model),
    "save": lambda model, *_: onlinels.loads(onlinels.dumps(model)),
    "batch": lambda model, _, rows: model.learn_many(*rows) or model,
    "none": lambda model, *_: model,
}
"""What comes between rows: functions of a model, its last row, and all rows."""


@pytest.mark.filterwarnings("ignore")
@strategies.examples(60)
@given(streams(), st.data())
def test_weights_solve_the_sums_in_every_way(stream, data):
    """Whenever rows are asked for, forgotten, unlearnt, merged or faded."""
    make, rows, y = stream
    model = make()
    n_asked = data.draw(st.sampled_from([1, 1, 2, MAX_ROWS_BETWEEN_PREDICTIONS + 2]))
    at = data.draw(st.integers(0, len(rows) - 1))
    event = data.draw(
        st.sampled_from(["unlearn", "merge", "fade", "copy", "save", "batch", "none"])
    )
    for k, (x, target) in enumerate(zip(rows, y, strict=True)):
        if k % n_asked == 0:
            asks(model, x)
        model.learn_one(x, target)
        if k != at:
            continue
        model = EVENTS[event](model, (x, target), (rows, y))
    one = model._row_scores(rows[0])
    np.testing.assert_allclose(one, model._batch_scores(rows[:1])[1][0], rtol=1e-6, atol=1e-9)
    # Without a ridge, directions that count as dependent are left out.
    assert residual_of(model) < (1e-5 if make().ridge == 0.0 else 1e-8)


@pytest.mark.filterwarnings("ignore")
@strategies.examples(40)
@given(streams(), st.data())
def test_a_copy_at_any_row_goes_on_with_the_same_bits(stream, data):
    make, rows, y = stream
    model, n_asked = make(), data.draw(st.sampled_from([1, 1, 1, 2, 3]))
    ways = copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))
    ways += (lambda m: onlinels.loads(onlinels.dumps(m)),)
    way, at = data.draw(st.sampled_from(ways)), data.draw(st.integers(0, len(rows) - 1))
    asked_before, many = data.draw(st.booleans()), data.draw(st.booleans())
    other, both = None, [model]
    for k, (x, target) in enumerate(zip(rows, y, strict=True)):
        if k == at:
            if asked_before:
                asks(model, x)
            if many:
                model.predict_many(rows[:2])
            other = way(model)
            both = [model, other]
        if k % n_asked == 0:
            found = [asks(each, x) for each in both]
            assert repr(found[0]) == repr(found[-1])
        for each in both:
            each.learn_one(x, target)
    weights = [each.output_weights for each in both]
    np.testing.assert_array_equal(weights[0], weights[-1])


@compiled
@pytest.mark.filterwarnings("ignore")
@strategies.examples(30)
@given(streams())
def test_one_row_and_many_have_the_same_weights(stream):
    """Weights are solved once, whoever asks first."""
    make, rows, y = stream
    first, second = make(), make()
    for x, target in zip(rows, y, strict=True):
        first.predict_one(x)
        one = solve(ready(first._state)).output_weights
        many = solve(ready(second._state)).output_weights
        second.predict_one(x)
        np.testing.assert_array_equal(one, many)
        first.learn_one(x, target)
        second.learn_one(x, target)


@compiled
@pytest.mark.parametrize(
    ("settings_", "mode"),
    [
        ({"ridge": 1.0}, FOLLOW),
        ({}, FOLLOW),
        ({"ridge": 1.0, "accumulator": "recursive", "forgetting_factor": 0.9}, FOLLOW),
        ({"ridge": 1.0, "forgetting_factor": 0.9}, SOLVE),
        ({"ridge": 1.0, "half_life": 9.0}, SOLVE),
        ({"ridge": 1.0, "scaling": "standard"}, SOLVE),
        ({"ridge": "paper"}, SOLVE),
        ({"ridge": 0.0}, SOLVE),
        ({"ridge": 1.0, "accumulator": "orthogonal"}, HAND_BACK),
        ({"ridge": onlinels.KFold(3)}, HAND_BACK),
    ],
)
def test_settings_decide_how_a_model_answers(settings_, mode):
    model, numbers = LeastSquaresRegressor(**settings_), np.random.default_rng(0)
    for row in numbers.normal(size=(40, 3)).tolist():
        model.learn_one(dict(enumerate(row)), sum(row))
    assert mode_of(model) == mode


@compiled
@pytest.mark.parametrize("ridge", [1.0, 0.0, "paper", "auto"])
def test_solutions_are_not_of_this_library_alone(ridge, monkeypatch):
    """LAPACK solves for the same weights, and knows the same intervals."""
    numbers = np.random.default_rng(1)
    X = 3.0 + numbers.normal(size=(200, 3)) @ numbers.normal(size=(3, 12))
    X += 0.1 * numbers.normal(size=X.shape)
    rows = [dict(enumerate(row)) for row in X.tolist()]
    y = (X.sum(axis=1) + numbers.normal(size=200)).tolist()
    for more in ({}, {"forgetting_factor": 0.98}, {"scaling": "standard"}):
        if ridge == 0.0 and "scaling" in more:
            continue
        model = LeastSquaresRegressor(ridge, **more)
        for x, target in zip(rows, y, strict=True):
            model.predict_interval_one(x)
            model.learn_one(x, target)
        found = model.predict_interval_one(rows[0]), model.output_weights
        assert mode_of(model) == (FOLLOW if ridge in (1.0, "auto") and not more else SOLVE)
        with monkeypatch.context() as patch:
            patch.setattr("onlinels.linear.single.is_solved_in_core", lambda state: False)
            patch.setattr("onlinels.linear.solving.is_solved_in_core", lambda state: False)
            state = model._state
            model._state = state.with_sums(state.subsets, penalty=state.penalty)
            model._state.following.registers[:] = state.following.registers
            expected = model.predict_interval_one(rows[0]), model.output_weights
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8)


@compiled
@given(st.integers(0, 2**32 - 1))
def test_without_a_ridge_dependent_features_have_the_weights_of_minimum_norm(seed):
    """The core solves by pivots what LAPACK solves in the eigenbasis, and what the rows tell."""
    numbers = np.random.default_rng(seed)
    m, n_rows, n_removed = numbers.integers(2, 20), numbers.integers(4, 30), numbers.integers(0, 3)
    rank = numbers.integers(1, m)
    X = numbers.integers(-3, 4, (n_rows, rank)) @ numbers.integers(-2, 3, (rank, m))
    X = X * 2.0 ** numbers.integers(-8, 9, m) + 4.0 * numbers.integers(0, 2)
    X = X.astype(numbers.choice([np.float64, np.float32]))
    Y, w = numbers.normal(size=(n_rows, 2)), numbers.choice([1.0, 0.5, 2.0], n_rows)
    model = LeastSquaresMultiTargetRegressor(0.0, fit_intercept=bool(seed % 2))
    names = [f"x{column}" for column in range(m)]
    samples = [
        (dict(zip(names, x, strict=True)), dict(enumerate(y)))
        for x, y in zip(X, Y.tolist(), strict=True)
    ]
    for (x, y), weight in zip(samples, w.tolist(), strict=True):
        model.learn_one(x, y, weight)
    for (x, y), weight in zip(samples[:n_removed], w.tolist(), strict=False):
        model.unlearn_one(x, y, weight)
    X = X[n_removed:, [int(name[1:]) for name in model.feature_names]].astype(float)
    Y, w = Y[n_removed:], w[n_removed:, None]
    if model.fit_intercept:
        X, Y = X - (w * X).sum(axis=0) / w.sum(), Y - (w * Y).sum(axis=0) / w.sum()
    X[:, np.abs(X).max(axis=0) < 1e-9] = 0.0
    state = ready(model._state)
    statistics, rows = state.statistics, single.rows_of(state)
    found = np.zeros(statistics.shape, order="F")
    done = rows.solve(found)
    is_dependent = np.linalg.matrix_rank(np.sqrt(w) * X) < np.count_nonzero(statistics.diagonal)
    assert done == SOLVED or not X.any() or n_removed
    by_lapack = statistics.solve(0.0, statistics.diagonal)
    expected = laws.minimum_norm(np.sqrt(w) * X, np.sqrt(w) * Y)
    effects = np.sqrt((w * X**2).sum(axis=0))[:, None]
    for weights in (found, by_lapack) if done == SOLVED else (by_lapack,):
        np.testing.assert_allclose(effects * weights, effects * expected, rtol=1e-8, atol=1e-8)
    if done != SOLVED or not is_dependent or len(X.T) < m:
        return
    x, spread = samples[-1][0], spread_of(state)
    known = rows.spread(x)
    if spread.free > 0.0:
        row = np.array([[x[name] for name in model.feature_names]], dtype=float)
        leverage = spread.covariance.leverages(row)
        variances = [variance for _, variance in known[0].values()]
        np.testing.assert_allclose(variances, spread.noise * (1.0 + leverage), 1e-6, 1e-12)
    elsewhere = {name: value + 7.0 * (name == "x0") for name, value in x.items()}
    beyond = rows.spread(elsewhere)
    assert beyond is NotImplemented or known[1] == beyond[1] == 0.0 or not effects[0].any()


@compiled
def test_wide_rows_are_left_to_lapack():
    model, numbers = LeastSquaresRegressor(1.0), np.random.default_rng(0)
    for row in numbers.normal(size=(20, MAX_FEATURES_SOLVED + 1)).tolist():
        x = dict(enumerate(row))
        model.predict_one(x)
        model.learn_one(x, sum(row))
        assert mode_of(model) == (FOLLOW if model._state.following.recursion else HAND_BACK)
    assert residual_of(model) < 1e-12
