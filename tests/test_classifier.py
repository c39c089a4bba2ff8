"""LeastSquaresClassifier: answers in kind, labels of any kind, and calls that must not harm."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from onlinels import LeastSquaresClassifier, dumps
from support import laws

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])
Y = ["low", "low", "high", "high"]
ROW = {"a": 1.0, "b": 2.0}


def trained(**settings):
    return laws.fitted(LeastSquaresClassifier(**settings), pd.DataFrame(X, columns=["a", "b"]), Y)


def test_labels_that_read_alike_need_an_array_or_pandas():
    model = LeastSquaresClassifier()
    frame = pl.DataFrame(X, schema=["a", "b"])
    model.learn_many(frame, [1, "1", 1, "1"])
    assert list(model.predict_proba_many(frame.to_pandas()).columns) == [1, "1"]
    with pytest.raises(ValueError, match="would be called '1'"):
        model.predict_proba_many(frame)


def test_array_values_in_dicts():
    model, other = LeastSquaresClassifier(), LeastSquaresClassifier()
    for row, label in zip(X, Y, strict=True):
        model.learn_one({"h": row, "bias": 1.0}, label)
    assert set(model.feature_names) == {("h", 0), ("h", 1), "bias"}
    with pytest.raises(ValueError, match=r"x\['h'\] has 3 values, expected 2"):
        model.learn_one({"h": np.ones(3)}, "low")
    assert model.count == 4
    other.learn_one({"h": np.ones(3), "bias": 1.0}, "low")
    laws.assert_refused(lambda: model.merge(other), model, "has 3 values, expected 2")


def test_views_are_read_only_and_aligned():
    model = trained(ridge=0.5)
    weights = model.output_weights
    assert weights.shape == (2, 2)
    for view in (weights, model.intercept, model.ridge_diagonal):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1.0
    expected = X[0] @ weights + model.intercept
    assert list(model.scores_one({"a": 0.0, "b": 1.0}).values()) == pytest.approx(expected)
    assert model.ridge_diagonal.tolist() == [0.5, 0.5]
    # Unknown features of a query count for nothing.
    assert model.scores_one({"a": 1.0, "new": 9.0}) == model.scores_one({"a": 1.0})
    before = weights.copy()
    model.learn_one({"a": -7.0, "b": 2.0}, "low")
    assert (weights == before).all()
    assert not np.allclose(model.output_weights, before)


NO_WEIGHTS = [
    *(np.array([each], dtype=object) for each in ("3", b"3", ...)),
    *(["3"], np.array([1j]), np.array(["2020-01-01"], dtype="M8[D]")),
]
NOT_ONE = [None, [1.0], [1.0, 2.0], np.array([1.0]), np.ma.masked]
BAD_CALLS = [
    ("learn_one", ({"new": 1.0}, {}), TypeError, "hashable"),
    ("learn_one", (ROW, "low", -1.0), ValueError, "at least 0"),
    ("learn_one", (ROW, "low", float("nan")), ValueError, "w holds nan"),
    ("learn_one", (ROW, "new", "heavy"), TypeError, "w is .*, expected one number"),
    *(("learn_one", (ROW, "new", w), TypeError, "w is .*, expected one") for w in NOT_ONE),
    *(("unlearn_one", (ROW, "low", w), TypeError, "w is .*, expected one") for w in NOT_ONE),
    ("learn_many", ([ROW, {"new": 1.0}], ["new"]), ValueError, "1 labels, expected 2"),
    ("learn_many", ([ROW], ["new"], [-1.0]), ValueError, "at least 0"),
    *(("learn_many", ([ROW], ["new"], w), TypeError, "w is .*, expected num") for w in NO_WEIGHTS),
]
test_bad_calls_leave_the_state_untouched = laws.calls_refused(trained, BAD_CALLS)


def test_debug_one_shows_what_adds_up_to_the_score():
    model = trained()
    text = model.debug_one({"b": 5.0, "a": 3.0})
    assert "low: probability" in text
    assert "from the mean *" in text
    # The strongest feature comes first.
    parts = [float(line.split("= ")[1]) for line in text.splitlines() if "= " in line][:2]
    assert len(parts) == 2
    assert abs(parts[0]) > abs(parts[1])


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
