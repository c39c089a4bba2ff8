"""The regressors: answers in kind, and calls that must not harm."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from support import laws

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])
Y = [0.5, 1.5, 2.25, 4.0]
ROW = {"a": 1.0, "b": 2.0}


def trained(**settings):
    return laws.fitted(LeastSquaresRegressor(**settings), pd.DataFrame(X, columns=["a", "b"]), Y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", ["auto", 1.0])
def test_without_features_the_prediction_is_the_mean(ridge, fit_intercept):
    model = LeastSquaresRegressor(ridge, fit_intercept=fit_intercept)
    for target in (3.0, 4.0):
        model.predict_one({})
        model.learn_one({}, target)
    assert model.predict_one({}) == (3.5 if fit_intercept else 0.0)


@pytest.mark.parametrize(
    "y",
    [
        [1, 2, 0, 1],
        (True, 2.0, np.float32(0), Decimal(1)),
        np.array([1.0, 2.0, 0.0, 1.0], dtype=object),
        pd.Series([1.0, 2.0, 0.0, 1.0], index=list("dcba")),
        pa.chunked_array([[1.0, 2.0], [0.0, 1.0]]),
    ],
    ids=lambda y: type(y).__name__,
)
def test_targets_of_any_kind(y):
    model, expected = LeastSquaresRegressor(), LeastSquaresRegressor()
    expected.learn_many(X, np.array([1.0, 2.0, 0.0, 1.0]))
    model.learn_many(X, y)
    assert (model.output_weights == expected.output_weights).all()
    single = LeastSquaresRegressor()
    for target in (True, np.bool_(False), np.int8(3), np.float32(2.5), Decimal("0.5")):
        single.learn_one({}, target)
    assert single.predict_one({}) == pytest.approx(7.0 / 5.0)


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (LeastSquaresRegressor(ridge=2.0), ValueError, "ridge: 'auto' and 2.0"),
        (LeastSquaresRegressor(half_life=2.0), ValueError, "half_life: None and 2.0"),
        (LeastSquaresClassifier(), TypeError, "LeastSquaresClassifier"),
        (LeastSquaresMultiTargetRegressor(), TypeError, "MultiTarget"),
        (HiddenLayer(), TypeError, "HiddenLayer"),
    ],
)
def test_models_that_do_not_merge(other, error, message):
    model = trained()
    laws.assert_refused(lambda: model.merge(other), model, message, error)


def test_what_is_asked_leaves_no_trace():
    model = trained()
    # What is solved when it is first asked for is kept.
    model.predict_one({"new": 1.0})
    before = pickle.dumps(model)
    model.predict_one({"new": 1.0}, with_dist=True)
    model.predict_many([{"a": 1.0}])
    model.debug_one({"a": 1.0})
    assert pickle.dumps(model) == before


BAD_CALLS = [
    ("learn_one", (ROW, None), ValueError, "y is None.*row out until its target"),
    ("learn_one", (ROW, "high"), TypeError, "y is 'high' of type str, expected a number"),
    ("learn_one", ({"new": 1.0}, "3"), TypeError, "y is '3'"),
    ("learn_one", (ROW, float("nan")), ValueError, "y is nan.*row out until"),
    ("learn_one", (ROW, float("-inf")), ValueError, "y is -inf"),
    ("learn_one", (ROW, 1e151), ValueError, "magnitude at most 1e.150"),
    ("learn_one", (ROW, 1j), TypeError, "complex"),
    ("learn_one", (ROW, [1.0]), TypeError, "list"),
    ("learn_one", (ROW, {"y": 1.0}), TypeError, "LeastSquaresMultiTargetRegressor"),
    ("learn_one", (ROW, pd.NA), ValueError, "y is <NA>, expected a number"),
    ("learn_one", (ROW, np.datetime64("2026-01-01")), TypeError, "datetime64"),
    ("learn_one", (ROW, 1e150, 10.0), ValueError, "weight times squared value"),
    ("learn_many", ([ROW, {"new": 1.0}], [1.0]), ValueError, "y has 1 targets, expected 2"),
    ("learn_many", ([ROW], None), TypeError, "y is of type NoneType.*one target per row"),
    ("learn_many", ([ROW], "7"), TypeError, "str"),
    ("learn_many", ([ROW], 7.0), TypeError, "float"),
    ("learn_many", ([ROW], np.ones((1, 1))), ValueError, r"y has shape \(1, 1\)"),
    ("learn_many", ([ROW], pd.DataFrame({"y": [1.0]})), ValueError, r"y has shape \(1, 1\)"),
    ("learn_many", ([ROW] * 2, [1.0, None]), ValueError, r"y\[1\] is None"),
    ("learn_many", ([ROW] * 2, [1.0, "x"]), TypeError, r"y\[1\] is 'x'"),
    (
        "learn_many",
        ([ROW] * 2, np.array([1.0, np.nan])),
        ValueError,
        r"y holds nan.*\(1,\).*row out",
    ),
    ("learn_many", ([ROW] * 2, pd.Series([1.0, np.inf])), ValueError, "inf"),
    ("learn_many", ([ROW], np.ma.array([1.0], mask=[True])), ValueError, r"y\[0\] is masked"),
    ("learn_many", ([ROW], [1.0], [-1.0]), ValueError, "at least 0"),
    ("learn_one", (ROW, 1.0, 10**400), ValueError, r"w holds a number beyond.*\(of type int\)"),
    ("learn_many", ([ROW], [1.0], [-(10**400)]), ValueError, r"w holds a number beyond.*in row 0"),
    ("learn_many", ([ROW], [1.0], [np.ma.array(1, mask=True)]), TypeError, "w is .*one number per"),
    ("unlearn_one", ({"a": 1.0, "new": 1.0}, 1.0), ValueError, "was learnt"),
    ("unlearn_one", (ROW, None), ValueError, "y is None"),
    ("unlearn_many", ([ROW] * 5, [1.0] * 5), ValueError, "at most the 4"),
]


test_bad_calls_leave_the_state_untouched = laws.calls_refused(trained, BAD_CALLS)
