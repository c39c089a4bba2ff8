"""Targets and weights of linear models: of any kind, read by name, or refused without a trace."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

from onlinels import (
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    dumps,
)
from support import laws

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])
SAMPLES = [{"a": a, "b": b} for a, b in X.tolist()]
TARGETS = pd.DataFrame({"up": [0.5, 1.5, 2.0, 4.0], "down": [9.0, 8.0, 8.5, 1.0]})
ROW, UP = {"a": 1.0, "b": 2.0}, {"up": 1.0, "down": 2.0}
MODELS = {
    "labels": (LeastSquaresClassifier, ["low", "low", "high", "high"]),
    "number": (LeastSquaresRegressor, [0.5, 1.5, 2.25, 4.0]),
    "several": (LeastSquaresMultiTargetRegressor, TARGETS.to_dict("records")),
}


def trained(kind, **settings):
    make, y = MODELS[kind]
    return laws.fitted(make(**settings), SAMPLES, y)


# -- refusals --------------------------------------------------------------------------------------

BAD_TARGETS = [
    ("labels", {}, TypeError, "hashable"),
    ("number", None, ValueError, "y is None.*row out until its target"),
    ("number", "high", TypeError, "y is 'high' of type str, expected a number"),
    ("number", "3", TypeError, "y is '3'"),
    ("number", float("nan"), ValueError, "y is nan.*row out until"),
    ("number", float("-inf"), ValueError, "y is -inf"),
    ("number", 1e151, ValueError, "magnitude at most 1e.150"),
    ("number", 1j, TypeError, "complex"),
    ("number", [1.0], TypeError, "list"),
    ("number", {"y": 1.0}, TypeError, "LeastSquaresMultiTargetRegressor"),
    ("number", pd.NA, ValueError, "y is <NA>, expected a number"),
    ("number", np.datetime64("2026-01-01"), TypeError, "datetime64"),
    ("several", {"up": 1.0}, ValueError, "lacks the target 'down'.*Regressor per target"),
    ("several", UP | {"side": 1.0}, ValueError, "y holds the new target 'side'"),
    ("several", {}, ValueError, "y holds no target"),
    ("several", 3.0, TypeError, "y is of type float, expected a dict"),
    ("several", None, TypeError, "NoneType"),
    ("several", UP | {"up": None}, ValueError, r"y\['up'\] is None"),
    ("several", UP | {"up": np.nan}, ValueError, r"y\['up'\] is nan"),
    ("several", UP | {"up": "x"}, TypeError, r"y\['up'\] is 'x'"),
    ("several", UP | {"up": np.ones(2)}, TypeError, "ndarray"),
]
BAD_BATCHES = [
    ("labels", ["new"], ValueError, "1 labels, expected 2"),
    ("number", [1.0], ValueError, "y has 1 targets, expected 2"),
    ("number", None, TypeError, "y is of type NoneType.*one target per row"),
    ("number", "7", TypeError, "str"),
    ("number", 7.0, TypeError, "float"),
    ("number", np.ones((2, 1)), ValueError, r"y has shape \(2, 1\)"),
    ("number", pd.DataFrame({"y": [1.0, 2.0]}), ValueError, r"y has shape \(2, 1\)"),
    ("number", [1.0, None], ValueError, r"y\[1\] is None"),
    ("number", [1.0, "x"], TypeError, r"y\[1\] is 'x'"),
    ("number", np.array([1.0, np.nan]), ValueError, r"y holds nan.*\(1,\).*row out"),
    ("number", pd.Series([1.0, np.inf]), ValueError, "inf"),
    ("number", np.ma.array([1.0, 2.0], mask=[True, False]), ValueError, r"y\[0\] is masked"),
    ("several", [UP] * 3, ValueError, "y has 3 rows of 2 targets, expected 2"),
    ("several", [UP, {"up": 1.0}], ValueError, "lacks the target 'down'"),
    ("several", [UP, None], TypeError, r"y\[1\] is of type NoneType"),
    ("several", np.ones((2, 2)), ValueError, "lacks the target 'down'"),
    ("several", np.ones(2), ValueError, r"y has shape \(2,\)"),
    ("several", pd.DataFrame({"up": [1.0, 2.0], "down": ["x", "y"]}), TypeError, "y has a col"),
    ("several", pd.DataFrame({"up": [1.0, 2.0], "down": [1.0, np.nan]}), ValueError, "y holds"),
    ("several", pd.Series([1.0, 2.0]), TypeError, "y is of type Series"),
]
BAD_WEIGHTS = [
    (-1.0, ValueError, "at least 0"),
    (float("nan"), ValueError, "w holds nan"),
    (10**400, ValueError, r"w holds a number beyond.*\(of type int\)"),
    ("heavy", TypeError, "w is .*, expected one number"),
    *((w, TypeError, "w is .*, expected one") for w in (None, [1.0], np.ones(1), np.ma.masked)),
]
BAD_COLUMNS = [
    ([1.0, -1.0], ValueError, "at least 0"),
    ([1.0, -(10**400)], ValueError, r"w holds a number beyond.*in row 1"),
    (["3", "3"], TypeError, "w is .*, expected num"),
    (np.array(["3", b"3"], dtype=object), TypeError, "w is .*, expected num"),
    (np.array([1j, 1j]), TypeError, "w is .*, expected num"),
    (np.array(["2020-01-01"] * 2, dtype="M8[D]"), TypeError, "w is .*, expected num"),
]
MASKED = np.ma.array(1, mask=True)
NEW = [ROW, {"new": 1.0}]
CALLS = [
    *((kind, "learn_one", (NEW[1], y), *told) for kind, y, *told in BAD_TARGETS),
    *((kind, "learn_many", (NEW, y), *told) for kind, y, *told in BAD_BATCHES),
    *(("number", "learn_one", (NEW[1], 1.0, w), *told) for w, *told in BAD_WEIGHTS),
    *(("labels", "learn_many", (NEW, ["a", "b"], w), *told) for w, *told in BAD_COLUMNS),
    ("labels", "unlearn_one", (ROW, "low", None), TypeError, "w is .*, expected one"),
    ("number", "learn_many", ([ROW], [1.0], [MASKED]), TypeError, "w is .*one number per"),
    ("number", "learn_one", (ROW, 1e150, 10.0), ValueError, "weight times squared value"),
    ("number", "unlearn_one", ({"a": 1.0, "new": 1.0}, 1.0), ValueError, "was learnt"),
    ("number", "unlearn_one", (ROW, None), ValueError, "y is None"),
    ("number", "unlearn_many", ([ROW] * 5, [1.0] * 5), ValueError, "at most the 4"),
    ("several", "unlearn_one", (ROW, {"up": 1.0}), ValueError, "lacks"),
    ("several", "unlearn_many", ([ROW] * 5, [UP] * 5), ValueError, "at most the 4"),
]


@pytest.mark.parametrize(("kind", "method", "arguments", "error", "message"), CALLS, ids=str)
def test_bad_calls_leave_no_trace(kind, method, arguments, error, message):
    model = trained(kind)
    laws.assert_refused(partial(getattr(model, method), *arguments), model, message, error)


# -- targets of any kind, by name ------------------------------------------------------------------


def test_order_of_targets_never_matters():
    model, y = trained("several"), TARGETS[["down", "up"]]
    other = laws.fitted(model.empty(), SAMPLES, y)
    singly = laws.fitted_by_row(model.empty(), SAMPLES, y.to_dict("records"))
    assert other.target_names == singly.target_names == model.target_names == ("down", "up")
    assert (other.output_weights == model.output_weights).all()
    laws.assert_same_model(singly, model)


@pytest.mark.parametrize("value", [1.5, -3, True, np.float32(0.5), 1e200, "1", None], ids=repr)
@pytest.mark.parametrize("last", [UP, {"up": 2.0}, UP | {"side": 2.0}, [1.0, 2.0]], ids=str)
@pytest.mark.parametrize("is_known", [False, True])
def test_targets_of_many_rows_are_those_of_each(value, last, is_known):
    """Many dicts of plain numbers are read at once: learnt, or refused with all of their batch."""
    y = [{"down": 2.0, "up": value}, last]
    many, single = (trained("several") if is_known else trained("several").empty() for _ in "ab")
    before = pickle.dumps(many)
    try:
        laws.fitted_by_row(single, SAMPLES[:2], y)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            many.learn_many(SAMPLES[:2], y)
        assert pickle.dumps(many) == before
    else:
        laws.assert_same_model(laws.fitted(many, SAMPLES[:2], y), single)


# -- what a model shows ----------------------------------------------------------------------------


def test_labels_that_read_alike_need_an_array_or_pandas():
    model, frame = LeastSquaresClassifier(), pl.DataFrame(X, schema=["a", "b"])
    model.learn_many(frame, [1, "1", 1, "1"])
    assert list(model.predict_proba_many(frame.to_pandas()).columns) == [1, "1"]
    with pytest.raises(ValueError, match="would be called '1'"):
        model.predict_proba_many(frame)


def test_views_are_read_only_and_those_of_now():
    model = trained("labels", ridge=0.5)
    weights = model.output_weights
    for view in (weights, model.intercept, model.ridge_diagonal):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1.0
    before = weights.copy()
    model.learn_one({"a": -7.0, "b": 2.0}, "low")
    assert (weights == before).all()
    assert not np.allclose(model.output_weights, before)


def test_debug_one_shows_what_adds_up_to_the_score():
    text = trained("labels").debug_one({"b": 5.0, "a": 3.0})
    assert "low: probability" in text
    assert "from the mean *" in text
    # The strongest feature comes first.
    first, second = [float(each.split("= ")[1]) for each in text.splitlines() if "= " in each][:2]
    assert abs(first) > abs(second)


@pytest.mark.filterwarnings("always:The model knows none of the features:UserWarning")
def test_a_row_of_unknown_names_warns_once(recwarn):
    model = LeastSquaresClassifier()
    model.predict_one({"tenp": 1.0})
    for row in range(20):
        model.learn_one({"temp": float(row), "hum": 1.0}, "low" if row < 10 else "high")
    for x in ({}, {"temp": 1.0, "new": 2.0}):
        model.predict_one(x)
    assert model.unknown_features({"temp": 1.0, "new": 2.0}) == ("new",)
    assert not recwarn
    with pytest.warns(UserWarning, match=r"none of the features of x\. \['tenp'\].*'hum', 'temp'"):
        model.predict_one({"tenp": 1.0})
    before = dumps(model)
    model.predict_proba_one({"tenp": 3.0})
    assert not recwarn
    with pytest.warns(UserWarning, match="'humm'"):
        model.predict_one({"humm": 1.0})
    assert dumps(model) == before
