"""Labels and names of any kind: how they come, what they become, and which are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from onlinels import LeastSquaresClassifier, StreamClassifier

LABELS_IN_FORMS = [
    ["a", "b"],
    ("a", "b"),
    np.array(["a", "b"]),
    np.array(["a", "b"], dtype=object),
    pd.Series(["a", "b"], dtype="category"),
    pl.Series(["a", "b"]),
    pa.chunked_array([["a"], ["b"]]),
    pd.Index(["a", "b"]),
    pd.Categorical(["a", "b"]),
]


@pytest.mark.parametrize("y", LABELS_IN_FORMS, ids=lambda y: type(y).__name__)
def test_labels_come_in_many_forms(y):
    model = LeastSquaresClassifier()
    model.learn_many(np.eye(2), y)
    assert model.classes == ("a", "b")
    assert [type(label) for label in model.classes] == [str, str]


@pytest.mark.parametrize(
    ("y", "expected"),
    [(np.int64(3), 3), (np.bool_(True), True), (np.str_("a"), "a"), (None, None), ((1, 2), (1, 2))],
)
def test_numpy_scalars_become_python_values(y, expected):
    model = LeastSquaresClassifier()
    model.learn_one({"x": 1.0}, y)
    assert model.classes == (expected,)
    assert type(model.classes[0]) is type(expected)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([2**63, -1], "O"),
        (["a", "a\0"], "O"),
        ([1, 2.5], "O"),
        ([1, 2], "i"),
        (["a", "bc"], "U"),
        ([True], "b"),
        ([1, "a"], "O"),
    ],
)
def test_arrays_of_answers_have_the_labels_own_type(labels, kind):
    rows, model = np.eye(len(labels)), LeastSquaresClassifier(1e-9, fit_intercept=False)
    model.learn_many(rows, labels)
    answers = model.predict_many(rows)
    assert answers.dtype.kind == kind
    assert answers.tolist() == labels


NAN = float("nan")
BAD_LABELS = [
    (NAN, ValueError, "equals itself"),
    (pd.NA, ValueError, "equals itself"),
    (pd.NaT, ValueError, "equals itself"),
    (("a", NAN), ValueError, "equals itself"),
    ((("a", (NAN,)), 1), ValueError, "equals itself"),
    ([1, 2], TypeError, "hashable"),
    ({"a": 1}, TypeError, "hashable"),
    (np.array([1]), TypeError, "hashable"),
    (np.datetime64("2020-01-01"), TypeError, "dates to text"),
    (np.timedelta64(3, "s"), TypeError, "dates to text"),
    (np.ma.masked, TypeError, "masked"),
]
BAD_BATCHES = [
    (["a"], ValueError, "1 labels, expected 2"),
    (np.eye(2), ValueError, "one-hot"),
    ("ab", TypeError, "str"),
    (5, TypeError, "int"),
    (pd.DataFrame({"y": [1, 2]}), ValueError, "shape"),
    (pl.DataFrame({"y": [1, 2]}), ValueError, r"shape \(2, 1\).*Pass y\['y'\]"),
    (iter([1, 2]), TypeError, r"Pass list\(y\)"),
    (np.array(["2020-01-01", "NaT"], "M8[ns]"), TypeError, "dates to text"),
    (np.ma.array([1, 2], mask=[True, False]), TypeError, "masked"),
    (range(3), ValueError, "3 labels, expected 2"),
    (pd.Series(["a", None]), ValueError, "equals itself"),
    *(([label, "a"], error, message) for label, error, message in BAD_LABELS),
]
BAD_NAMES = [("a", NAN), (("a", (NAN,)), 1)]


@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_what_is_no_label_and_no_name_leaves_no_trace(make):
    model = make()
    model.learn_one({"a": 1.0}, "u")
    for label, error, message in BAD_LABELS:
        with pytest.raises(error, match=message):
            model.learn_one({"a": 1.0}, label)
    for y, error, message in BAD_BATCHES:
        with pytest.raises(error, match=message):
            model.learn_many([{"a": 1.0}, {"a": 2.0}], y)
    for name in BAD_NAMES:
        with pytest.raises(ValueError, match=r"equals itself|NaN"):
            model.learn_one({name: 1.0}, "u")
    assert (model.count, model.classes, model.feature_names) == (1, ("u",), ("a",))


@pytest.mark.parametrize("t", [np.ma.masked, np.ma.array([1.0], mask=[True])])
def test_masked_times_are_refused(t):
    model = LeastSquaresClassifier(half_life=3.0)
    with pytest.raises(ValueError, match="t holds masked times"):
        model.learn_one({"a": 1.0}, "x", t=t)
    assert model.count == 0
