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


def calendar(x):
    return {f"hour {x['hour']}": 1, "known": x["known"]}


FORECASTERS = {
    "all steps": lambda: DirectForecaster(LeastSquaresMultiTargetRegressor(), 4, 6),
    "each step": lambda: DirectForecaster(LeastSquaresRegressor(), 4, 6),
    "stream": lambda: DirectForecaster(StreamRegressor(), 4, 6),
    "of river": lambda: DirectForecaster(peers.BayesianLinearRegression(), 4, 6),
    "inside": lambda: time_series.SNARIMAX(6, 0, 0, regressor=LeastSquaresRegressor()),
    "stream inside": lambda: time_series.SNARIMAX(6, 0, 0, regressor=StreamRegressor()),
}


@pytest.mark.parametrize("kind", FORECASTERS)
def test_river_evaluates_forecasters(kind):
    """Behind a function, with features that are known ahead; beside the mean as the forecast."""
    model = compose.FuncTransformer(calendar) | FORECASTERS[kind]()
    rows = [*zip(*series(300), strict=True)]
    errors = evaluate.evaluate(rows, model, metrics.MSE(), horizon=4).get()
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
    given_model = LeastSquaresRegressor(ridge=1.0)
    given_model.learn_one({"y-1": 1.0}, 5.0)
    forecaster = learn(DirectForecaster(given_model, 2, 1), *series(20))
    assert given_model.count == 1
    before, copied = forecaster.forecast(2, [{}, {}]), copy.copy(forecaster)
    learn(copied, *series(9))
    assert forecaster.forecast(2, [{}, {}]) == before != copied.forecast(2, [{}, {}])
    assert [(model.count, model.ridge) for model in forecaster.models] == [(19, 1.0), (18, 1.0)]
    assert forecaster.clone().models[0].count == 0


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
    ("__setattr__", ("horizon", 3), "horizon cannot change"),
    ("__setattr__", ("lags", 1), "lags cannot change"),
    ("__setattr__", ("model", StreamRegressor()), "model cannot change"),
]


@pytest.mark.parametrize("kind", ["all steps", "each step"])
@pytest.mark.parametrize(("method", "arguments", "match"), BAD_CALLS)
def test_bad_calls_change_nothing(kind, method, arguments, match):
    forecaster = learn(DirectForecaster(MODELS[kind](), 2, 3), *series(20))
    errors, call = (TypeError, ValueError, AttributeError), getattr(forecaster, method)
    laws.assert_refused(lambda: call(*arguments), forecaster, match, errors)


def test_bad_settings_are_refused():
    for arguments, match in (
        ((LeastSquaresClassifier(),), "model is of type LeastSquaresClassifier"),
        ((LeastSquaresRegressor,), "model is the class LeastSquaresRegressor"),
        ((5,), "model=5 must be a Regressor"),
        ((LeastSquaresRegressor(), 0), "horizon=0"),
        *(((LeastSquaresRegressor(), 2, lags), "lags=0") for lags in (0, [1, 0])),
        ((LeastSquaresRegressor(), 2, []), "lags is empty"),
        ((LeastSquaresRegressor(), 2, "ab"), "lags='a'"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            DirectForecaster(*arguments)
    # A lag that is named twice counts once.
    forecaster = DirectForecaster(LeastSquaresRegressor(), 2, [1, 3, *range(1, 3)])
    assert forecaster.lags == forecaster.clone().lags == (1, 3, 2)


@pytest.mark.parametrize("n_values", [0, 20])
def test_intervals_are_refused_if_there_are_none(n_values):
    """During the warm-up, too; the intervals of a wrapped model are not those of the wrapper."""
    scaled = preprocessing.TargetStandardScaler(LeastSquaresRegressor())
    for model in (peers.LinearRegression(), scaled):
        forecaster = learn(DirectForecaster(model, 2, 1), *series(n_values))
        expected = f"is of type {type(model).__name__}, expected a model with predict_interval_one"
        with pytest.raises(TypeError, match=expected):
            forecaster.forecast_interval(2, [{"hour": 1}] * 2)
    forecaster = learn(DirectForecaster(LeastSquaresRegressor(), 2, 1), *series(n_values))
    with pytest.raises(ValueError, match="level=1"):
        forecaster.forecast_interval(2, level=1.5)


REFUSING = {
    "room for two": lambda: LeastSquaresMultiTargetRegressor(max_features=6),
    "room for two, each step": lambda: LeastSquaresRegressor(max_features=6),
    "scaled": lambda: preprocessing.StandardScaler() | LeastSquaresMultiTargetRegressor(),
    "scaled, each step": lambda: preprocessing.StandardScaler() | LeastSquaresRegressor(),
    "range": lambda: preprocessing.MinMaxScaler() | LeastSquaresMultiTargetRegressor(),
    "range, each step": lambda: preprocessing.MinMaxScaler() | LeastSquaresRegressor(),
}
BAD_VALUES = None, math.nan, math.inf, "six", [1.0]
"""Values of a feature; a list has rows of another shape."""


@examples(60)
@given(
    st.sampled_from([*REFUSING]),
    st.dictionaries(st.integers(0, 39), st.sampled_from(range(len(BAD_VALUES))), max_size=6),
)
def test_bad_features_are_refused_by_the_call_that_brings_them(kind, bad):
    """Nothing learns them, a river scaler included, and the same value can be passed again."""
    forecaster, never = (DirectForecaster(REFUSING[kind](), 3, 4) for _ in range(2))
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
    for now in range(30):
        x = {"a": now % 2} if now == 20 else {"b": now % 2} if now == 21 else {}
        if now == 21:
            with pytest.raises(ValueError, match=r"no room for the features \['b'\]"):
                forecaster.learn_one(float(now), x)
        else:
            forecaster.learn_one(float(now), x)
    assert forecaster.models[0].feature_names == ("y-1", "a")


def test_features_that_a_step_makes_into_numbers_are_learnt():
    filled = preprocessing.StatImputer(("hour", stats.Mean()))
    for step, value in ((preprocessing.OneHotEncoder(), "six"), (filled, None)):
        for model in (LeastSquaresMultiTargetRegressor(), LeastSquaresRegressor()):
            forecaster = DirectForecaster(step.clone() | model, 2, 1)
            for now in range(20):
                forecaster.learn_one(float(now), {"hour": value if now % 3 else 7})
            assert forecaster.models[0][-1].count >= 18


def rejecting(x):
    if x.get("hour") == 99:
        raise KeyError("hour 99")
    return x


def test_a_row_that_a_step_refuses_later_is_skipped():
    """The model for all steps sees the row two values later. These values are kept."""
    pipeline = compose.FuncTransformer(rejecting) | LeastSquaresMultiTargetRegressor()
    forecaster, told = DirectForecaster(pipeline, 3, 1), []
    for now in range(30):
        try:
            forecaster.learn_one(float(now % 4), {"hour": 99 if now == 20 else 1})
        except KeyError as error:
            told.append((now, error.__notes__))
    assert told == [(22, [ROW_IS_SKIPPED.format("the value 2 steps ago")])]
    assert forecaster.models[0][-1].count == 26


def test_the_suite_of_river():
    for check in checks.yield_checks(DirectForecaster(LeastSquaresMultiTargetRegressor(), 3, 2)):
        check(DirectForecaster(LeastSquaresMultiTargetRegressor(), 3, 2))


@pytest.mark.parametrize("last", [LeastSquaresRegressor, StreamRegressor])
def test_a_lag_that_a_step_of_a_pipeline_refuses_costs_some_rows_alone(last):
    def logs(x):
        return {name: math.log(value) for name, value in x.items()}

    model = DirectForecaster(compose.FuncTransformer(logs) | last(), 3, [1, 2])
    refused = []
    for step in range(60):
        try:
            model.learn_one(0.0 if step == 30 else 2.0 + math.sin(step))
        except ValueError as error:
            refused.append((step, error.__notes__))
    # Lags 1 and 2 of the three steps ahead.
    assert refused == [(k, [ROW_IS_SKIPPED.format("this value")]) for k in (31, 32, 33, 34)]
    assert len(model.forecast(3)) == 3
    assert [list(each.steps.values())[-1].count for each in model.models] == [56, 55, 54]
