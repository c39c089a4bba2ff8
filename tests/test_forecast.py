"""Direct forecasts: each step is the batch solution on the rows whose values have arrived."""

import copy
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import checks, compose, evaluate, metrics, preprocessing, stats, time_series
from river import linear_model as peers

from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamRegressor,
)
from onlinels.forecasting import ROW_IS_SKIPPED, DirectForecaster
from support import laws
from support.strategies import examples

MODELS = {
    "all steps": LeastSquaresMultiTargetRegressor,
    "each step": LeastSquaresRegressor,
    "hidden": lambda **settings: HiddenLayer(9) | LeastSquaresRegressor(**settings),
}


def series(n_values, seed=0):
    """Return the features of steps, an hour and a number known ahead, and values of a cycle."""
    random, values = np.random.default_rng(seed), []
    features = [{"hour": step % 6, "known": float(random.normal())} for step in range(n_values)]
    noise = random.normal(size=n_values)
    for x, shock in zip(features, noise, strict=True):
        before = values[-1] if values else 0.0
        values.append(float(0.5 * before + x["hour"] + x["known"] + shock))
    return features, values


def learn(forecaster, features, values):
    for x, y in zip(features, values, strict=True):
        forecaster.learn_one(y, x)
    return forecaster


def rows_of(features, values, step, horizon, lags, is_joint):
    """Return the rows that a step has learnt, by the definition, and the row to predict next."""
    rows, ahead = [], 1 if is_joint else step
    for now in range(max(lags) - 1, len(values)):
        row = {f"y-{lag}": values[now - lag + 1] for lag in lags}
        rows.append((features[now + ahead] | row, now + step))
    # The series ends before the features do. A model for all steps learns when the last one can.
    first = max(lags) - 1 + (horizon if is_joint else step)
    late = horizon - step if is_joint else 0
    learnt = [(x, values[at]) for x, at in rows if first - late <= at < len(values) - late]
    return learnt, rows[-1][0]


@examples(40)
@given(
    st.sampled_from([*MODELS]),
    st.sets(st.integers(1, 6), min_size=1),
    st.integers(1, 5),
    st.integers(0, 40),
    st.integers(0, 99),
)
def test_every_step_is_a_model_of_the_values_that_have_arrived(kind, lags, horizon, n, seed):
    make, is_joint, lags = MODELS[kind], kind == "all steps", sorted(lags)
    features, values = series(n + horizon, seed)
    forecaster = DirectForecaster(make(ridge=1.0), horizon, lags)
    learn(forecaster, features[:n], values[:n])
    ahead = features[n:]
    found = forecaster.forecast(horizon, ahead)
    ends = forecaster.forecast_interval(horizon, iter(ahead), level=0.8)
    n_learnt = min(horizon, max(0, n - max(lags)))
    if is_joint and n_learnt < horizon:
        n_learnt = 0
    n_waiting = horizon - n_learnt
    assert found[n_learnt:] == [values[n - 1] if n else 0.0] * n_waiting
    assert ends[n_learnt:] == [(-math.inf, math.inf)] * n_waiting
    for step in range(1, n_learnt + 1):
        learnt, asked = rows_of(features, values[:n], step, horizon, lags, is_joint)
        model = MODELS["each step" if is_joint else kind](ridge=1.0)
        for row in learnt:
            model.learn_one(*row)
        assert np.isclose(found[step - 1], model.predict_one(asked), rtol=1e-7, atol=1e-7)
        last = model[-1] if kind == "hidden" else model
        asked = model.transform_one(asked) if kind == "hidden" else asked
        expected = last.predict_interval_one(asked, level=0.8)
        np.testing.assert_allclose(ends[step - 1], expected, rtol=1e-6, atol=1e-6)
    shorter = forecaster.forecast(1, ahead[:1])
    assert shorter == found[:1]


FORECASTERS = [
    DirectForecaster(peers.BayesianLinearRegression(), 4, 6),
    time_series.SNARIMAX(6, 0, 0, regressor=StreamRegressor()),
]


@pytest.mark.parametrize("forecaster", FORECASTERS, ids=lambda each: type(each).__name__)
def test_river_evaluates_forecasters(forecaster):
    """One around a regressor of river's, and one of river's around a model of a stream.

    Behind a function, with features that are known ahead; beside the mean as the forecast.
    """
    calendar = compose.FuncTransformer(lambda x: {f"hour {x['hour']}": 1, "known": x["known"]})
    rows = [*zip(*series(300), strict=True)]
    errors = evaluate.evaluate(rows, calendar | forecaster, metrics.MSE(), horizon=4).get()
    assert len(errors) == 4
    assert max(errors) < np.var([y for _, y in rows])


def test_stream_models_find_their_forecasts_when_values_arrive():
    """Each step equals a StreamRegressor that is told the same rows as late; nothing warns."""
    features, values = series(300)
    forecaster = DirectForecaster(StreamRegressor(), 3, [1, 2])
    alone, asked = StreamRegressor(), []
    for now, (x, y) in enumerate(zip(features, values, strict=True)):
        if now >= 4:
            late = asked[now - 3] if now > 6 else features[now] | {"y-1": values[now - 3]}
            alone.learn_one(late | {"y-2": values[now - 4]}, y)
        forecaster.learn_one(y, x)
        ahead = features[now + 1 : now + 4]
        if len(ahead) == 3:
            found = forecaster.forecast(3, ahead)
            row = ahead[2] | {"y-1": y, "y-2": values[now - 1]}
            asked.append(row)
            if now >= 4:
                assert found[2] == alone.predict_one(row)


def test_models_and_copies_learn_on_their_own():
    """A lag that is named twice counts once."""
    given_model = LeastSquaresRegressor(ridge=1.0)
    given_model.learn_one({"y-1": 1.0}, 5.0)
    forecaster = learn(DirectForecaster(given_model, 2, [2, 1, *range(1, 3)]), *series(20))
    assert given_model.count == 1
    before, copied = forecaster.forecast(2, [{}, {}]), copy.copy(forecaster)
    learn(copied, *series(9))
    assert forecaster.forecast(2, [{}, {}]) == before != copied.forecast(2, [{}, {}])
    assert [(model.count, model.ridge) for model in forecaster.models] == [(18, 1.0), (17, 1.0)]
    assert forecaster.clone().models[0].count == 0
    assert forecaster.lags == forecaster.clone().lags == (2, 1)


BAD_CALLS = [
    ("learn_one", ("high",), "y is 'high'"),
    ("learn_one", (None,), "y is None.*Fill a gap"),
    ("learn_one", (math.nan,), "y is nan.*Fill a gap"),
    ("learn_one", (1.0, {"hour": "six"}), "six"),
    ("learn_one", (1.0, {"hour": None}), "None"),
    ("learn_one", (1.0, 5), "int"),
    ("learn_one", ({"hour": 6}, 1.0), r"learn_one\(y, x\). Only a pipeline"),
    ("learn_one", (1.0, {"y-1": 2.0}), r"x\['y-1'\] has the name of a lag, expected another"),
    ("forecast", (1, [{"y-1": 2.0}]), r"x\['y-1'\] has the name of a lag, expected another"),
    ("forecast", (3,), "horizon is 3, expected at most 2"),
    ("forecast", (0,), "horizon=0 must be at least 1"),
    ("forecast", (1.0,), "horizon=1.0 must be an int"),
    ("forecast", (2, [{}]), "xs has 1 entries, expected 2"),
    ("forecast", (2, 5), "xs is of type int, expected a list of dicts"),
    ("forecast", (1, {"hour": 6}), "xs is of type dict, expected a list of dicts"),
    ("forecast", (2, [{}, [1.0]]), r"xs\[1\] is of type list"),
    ("forecast", (2, pd.DataFrame({"hour": [1, 2]})), r"frame.to_dict\('records'\)"),
    ("forecast", (2, [{"hour": "six"}] * 2), r"x\['hour'\] is 'six'"),
    ("forecast_interval", (2, [{}] * 2, 1.0), "level"),
]


@pytest.mark.parametrize("kind", ["all steps", "each step"])
@pytest.mark.parametrize(("method", "arguments", "match"), BAD_CALLS)
def test_bad_calls_change_nothing(kind, method, arguments, match):
    forecaster = learn(DirectForecaster(MODELS[kind](), 2, 3), *series(20))
    errors, call = (TypeError, ValueError, AttributeError), getattr(forecaster, method)
    laws.assert_refused(lambda: call(*arguments), forecaster, match, errors)


test_bad_settings_are_refused = laws.settings_refused(
    DirectForecaster,
    [
        ({"model": LeastSquaresClassifier()}, TypeError, "model is of type LeastSquaresClassifier"),
        ({"model": LeastSquaresRegressor}, TypeError, "model is the class LeastSquaresRegressor"),
        ({"model": 5}, TypeError, "model=5 must be a Regressor"),
        ({"model": LeastSquaresRegressor(), "lags": [1, 0]}, ValueError, "lags=0"),
        ({"model": LeastSquaresRegressor(), "lags": []}, ValueError, "lags is empty"),
        ({"model": LeastSquaresRegressor(), "lags": "ab"}, TypeError, "lags='a'"),
    ],
)

NO_INTERVALS = [
    (peers.LinearRegression(), 0.9, "type LinearRegression, expected a model with predict_interv"),
    # The intervals of a wrapped model are not those of the wrapper.
    (preprocessing.TargetStandardScaler(LeastSquaresRegressor()), 0.9, "type TargetStandardSca"),
    (LeastSquaresRegressor(), 1.5, "level=1"),
]


@pytest.mark.parametrize(("model", "level", "match"), NO_INTERVALS)
@pytest.mark.parametrize("n_values", [0, 20])
def test_intervals_are_refused_if_there_are_none(model, level, match, n_values):
    """During the warm-up, too."""
    forecaster = learn(DirectForecaster(model, 2, 1), *series(n_values))
    with pytest.raises((TypeError, ValueError), match=match):
        forecaster.forecast_interval(2, [{"hour": 1}] * 2, level)


REFUSING = {
    "room for two": lambda make: make(max_features=6),
    "scaled": lambda make: preprocessing.StandardScaler() | make(),
    "range": lambda make: preprocessing.MinMaxScaler() | make(),
}
BAD_VALUES = None, math.nan, math.inf, "six", [1.0]
"""Values of a feature; a list has rows of another shape."""


@examples(60)
@given(
    st.sampled_from([*REFUSING]),
    st.sampled_from([LeastSquaresMultiTargetRegressor, LeastSquaresRegressor]),
    st.dictionaries(st.integers(0, 39), st.sampled_from(range(len(BAD_VALUES))), max_size=6),
)
def test_bad_features_are_refused_by_the_call_that_brings_them(kind, make, bad):
    """Nothing learns them, a river scaler included, and the same value can be passed again."""
    forecaster, never = (DirectForecaster(REFUSING[kind](make), 3, 4) for _ in range(2))
    for now in range(40):
        y, x = float(now % 7), {"h": float(now % 3)}
        if now in bad:
            rejected = {"h": BAD_VALUES[bad[now]]}
            if kind.startswith("room"):
                rejected = x | {"q": 1.0, "r": 1.0}
            with pytest.raises((TypeError, ValueError), match=r"x\['h'\]|max_features=6"):
                forecaster.learn_one(y, rejected)
        for each in (forecaster, never):
            each.learn_one(y, x)
    ahead = [{"h": 1.0}] * 3
    assert forecaster.forecast(3, ahead) == never.forecast(3, ahead)
    assert forecaster.forecast_interval(3, ahead) == never.forecast_interval(3, ahead)


def test_names_that_wait_take_room():
    """Each of two rows fits beside what is learnt; the second does not fit beside the first."""
    forecaster = DirectForecaster(LeastSquaresMultiTargetRegressor(max_features=2), 3, 1)
    learn(forecaster, [*[{}] * 20, {"a": 0.0}], range(21))
    with pytest.raises(ValueError, match=r"no room for the features \['b'\]"):
        forecaster.learn_one(21.0, {"b": 1.0})
    learn(forecaster, [{}] * 8, range(8))
    assert forecaster.models[0].feature_names == ("y-1", "a")


def test_features_that_a_step_makes_into_numbers_are_learnt():
    filled = preprocessing.StatImputer(("hour", stats.Mean()))
    for step, value in ((preprocessing.OneHotEncoder(), "six"), (filled, None)):
        for model in (LeastSquaresMultiTargetRegressor(), LeastSquaresRegressor()):
            forecaster = DirectForecaster(step.clone() | model, 2, 1)
            for now in range(20):
                forecaster.learn_one(float(now), {"hour": value if now % 3 else 7})
            assert forecaster.models[0][-1].count >= 18


def test_the_suite_of_river():
    for check in checks.yield_checks(DirectForecaster(LeastSquaresMultiTargetRegressor(), 3, 2)):
        check(DirectForecaster(LeastSquaresMultiTargetRegressor(), 3, 2))


THIS, BEFORE = "this value", "the value 2 steps ago"


@pytest.mark.parametrize(
    ("last", "steps", "features", "counts"),
    [
        (LeastSquaresRegressor, (31, 32, 33, 34), THIS, [56, 55, 54]),
        (StreamRegressor, (31, 32, 33, 34), THIS, [56, 55, 54]),
        (LeastSquaresMultiTargetRegressor, (33, 34), BEFORE, [54]),
    ],
)
def test_a_row_that_a_step_of_a_pipeline_refuses_is_skipped(last, steps, features, counts):
    """A value that is a lag of some rows; the values that were passed with them are kept."""
    logs = compose.FuncTransformer(lambda x: {name: math.log(value) for name, value in x.items()})
    model, refused = DirectForecaster(logs | last(), 3, [1, 2]), []
    for step in range(60):
        try:
            model.learn_one(0.0 if step == 30 else 2.0 + math.sin(step))
        except ValueError as error:
            refused.append((step, error.__notes__))
    assert refused == [(step, [ROW_IS_SKIPPED.format(features)]) for step in steps]
    assert len(model.forecast(3)) == 3
    assert [each[-1].count for each in model.models] == counts
