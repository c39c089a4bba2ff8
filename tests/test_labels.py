"""Labels and names of any kind: how they come, what they become, and which are refused."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    LeastSquaresClassifier,
    StreamClassifier,
    WindowedClassifier,
)
from onlinels.pipelines import unlearn_many, unlearn_one
from support import laws, models, strategies


@pytest.mark.parametrize("form", [form for form in strategies.LABEL_FORMS if form != "floats"])
def test_labels_come_in_many_forms(form):
    model = LeastSquaresClassifier()
    model.learn_many(np.eye(2), strategies.LABEL_FORMS[form](["a", "b"]))
    assert model.classes == ("a", "b")
    assert [type(label) for label in model.classes] == [str, str]


KINDS = {
    "O": [[2**63, -1], ["a", "a\0"], [1, 2.5], [1, "a"]],
    "i": [[1, 2]],
    "U": [["a", "bc"]],
    "b": [[True]],
}


@pytest.mark.parametrize(("kind", "labels"), [(kind, y) for kind in KINDS for y in KINDS[kind]])
def test_arrays_of_answers_have_the_labels_own_type(kind, labels):
    rows, model = np.eye(len(labels)), LeastSquaresClassifier(1e-9, fit_intercept=False)
    model.learn_many(rows, labels)
    answers = model.predict_many(rows)
    assert answers.dtype.kind == kind
    assert answers.tolist() == labels


NAN = float("nan")
BAD_LABELS = [
    (None, ValueError, "is None, expected a label"),
    (NAN, ValueError, "is nan, expected a label"),
    (pd.NA, ValueError, "is <NA>, expected a label"),
    (pd.NaT, ValueError, "is NaT, expected a label"),
    (("a", NAN), ValueError, r"is \('a', nan\), expected a label"),
    ((("a", (NAN,)), 1), ValueError, "nan.*, expected a label"),
    ([1, 2], TypeError, "hashable"),
    ({"a": 1}, TypeError, "hashable"),
    (np.array([1]), TypeError, "hashable"),
    (np.datetime64("2020-01-01"), TypeError, "dates to text"),
    (np.timedelta64(3, "s"), TypeError, "dates to text"),
    (np.ma.masked, ValueError, "is None, expected a label"),
]
BAD_BATCHES = [
    (["a"], ValueError, "1 labels, expected 2"),
    (np.eye(2), ValueError, r"one-hot rows np.asarray\(y\).argmax"),
    ("ab", TypeError, "str"),
    (5, TypeError, "int"),
    (pd.DataFrame({"y": [1, 2]}), ValueError, "shape"),
    (pl.DataFrame({"y": [1, 2]}), ValueError, r"shape \(2, 1\).*y\['name'\]"),
    (iter([1, 2]), TypeError, r"Pass a list"),
    (np.array(["2020-01-01", "NaT"], "M8[ns]"), TypeError, "dates to text"),
    (np.ma.array([1, 2], mask=[True, False]), ValueError, r"^y\[0\] is None"),
    (range(3), ValueError, "3 labels, expected 2"),
    # None in old versions of pandas.
    (pd.Series(["a", None]), ValueError, r"^y\[1\] is (nan|None), .*until its label is known"),
    *(([label, "a"], error, message) for label, error, message in BAD_LABELS),
]
BAD_NAMES = [NAN, pd.NA, ("a", NAN), (("a", (NAN,)), 1), (pd.NA, 0)]


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
        for x in ({name: 1.0}, {"a": 2.0, name: 1.0}) * 3:
            with pytest.raises(ValueError, match=r"equals itself|NaN"):
                model.learn_one(x, "u")
    assert (model.count, model.classes, model.feature_names) == (1, ("u",), ("a",))


CLASSIFIERS = {
    name: models.CLASSIFIERS[name]
    for name in ("gram", "recursive", "stream", "drift", "calibrated", "pipeline")
}
CLASSIFIERS["windowed"] = lambda: WindowedClassifier(LeastSquaresClassifier(), window=1, hop=1)
CLASSIFIERS["network"] = models.digits_network
OF_FRAMES = [kind for kind in CLASSIFIERS if kind not in ("network", "pipeline")]


def state_of(model):
    """Return the state of what learns: a hidden layer in front knows names that it has met."""
    model = getattr(model, "classifier", model)
    return pickle.dumps([*model.steps.values()][-1] if hasattr(model, "steps") else model)


def test_the_time_of_a_reading_is_found_among_any_names():
    model = WindowedClassifier(LeastSquaresClassifier(), 1, 1, timestamp=("t", 0))
    for k in range(3):
        model.learn_one({("t", 0): float(k), np.int64(5): 1.0}, "u")
    assert (model.channels, model.n_windows) == ((5,), 3)


def rows_for(kind, n_rows):
    """Return rows as an array, and each by itself."""
    if kind == "network":
        X = np.arange(1.0, 64.0 * n_rows + 1.0).reshape(n_rows, 8, 8)
        return X, [{"image": image} for image in X]
    X = np.arange(1.0, 2.0 * n_rows + 1.0).reshape(n_rows, 2)
    return X, strategies.Rows(X, [], None).dicts()


@pytest.mark.parametrize("kind", CLASSIFIERS)
@strategies.examples(12)
@given(strategies.missing_labels(), st.booleans())
def test_missing_labels_are_refused_before_anything_changes(kind, drawn, knows):
    y, first, model = drawn.y, drawn.missing[0], CLASSIFIERS[kind]()
    X, rows = rows_for(kind, len(drawn.labels))
    if knows:
        model.learn_many(X, drawn.labels)
    nothing = list(y)[first]
    nothing = nothing.as_py() if hasattr(nothing, "as_py") else nothing
    in_batch, alone = rf"^y\[{first}\] is .*expected a label\. ", r"^y is .*expected a label\. "
    calls = [
        (lambda: model.learn_many(X, y), in_batch),
        (lambda: model.learn_one(rows[first], nothing), alone),
    ]
    if kind in ("gram", "recursive", "pipeline") or (kind == "network" and knows):
        calls += [
            (lambda: unlearn_many(model, X, y), in_batch),
            (lambda: unlearn_one(model, rows[first], nothing), alone),
        ]
    for call, message in calls:
        laws.assert_refused(call, model, message, (TypeError, ValueError), state_of)


def typed(values):
    return [(type(value), repr(value)) for value in values]


def assert_answers(model, table, expected):
    """Assert that labels are exactly these, or that the library of a table has no such series."""
    try:
        answers = laws.entries(model.predict_many(table))
    except ValueError as error:
        answers = str(error)
    if isinstance(answers, str):
        assert "cannot be one series of this library" in answers
        assert isinstance(table, (pl.DataFrame, pa.Table))
        is_one = len(set(map(type, expected))) == 1 and type(expected[0]) is not tuple
        assert not is_one or not -(2**63) <= min(expected) <= max(expected) < 2**63
    else:
        assert typed(answers) == typed(expected)
    shares = model.predict_proba_many(table)
    classes = getattr(model, "classifier", model).classes
    if isinstance(shares, (pd.DataFrame, list)):
        assert typed(shares if isinstance(shares, pd.DataFrame) else shares[0]) == typed(classes)


@pytest.mark.parametrize("kind", OF_FRAMES)
@strategies.examples(15)
@given(strategies.odd_labels, st.booleans(), st.sampled_from([list, pd.Series, np.array, None]))
def test_labels_of_any_kinds_are_learnt_and_answered_exactly(kind, labels, singly, make):
    as_objects = strategies.as_objects
    model, y = CLASSIFIERS[kind](), as_objects(labels)
    kinds = set(map(type, labels))
    if make is not None and len(kinds) == 1 and tuple not in kinds:
        y = make(labels)
    if isinstance(y, np.ndarray) and len(set(y.tolist())) < len(labels):
        y = as_objects(labels)
    # Numpy may have made other values of them: those are learnt.
    labels = y if isinstance(y, list) else y.tolist()
    X = 3.0 * np.eye(len(labels)) + 1.0
    frame = pd.DataFrame(X, columns=list("abcde")[: len(X)])
    rows = frame.to_dict("records")
    for _ in range(3):
        if not singly:
            model.learn_many(frame, y)
        for x, label in zip(rows, y, strict=True) if singly else ():
            model.learn_one(x, label)
    classes = getattr(model, "classifier", model).classes
    assert typed(classes) == typed(labels)
    answers = [model.predict_one(x) for x in rows]
    assert {*typed(answers)} <= {*typed(classes)}
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), rows):
        assert_answers(model, table, answers)


@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_scalars_of_pyarrow_are_the_labels_that_they_hold(make):
    column, model, samples = pa.array(["u", "v", None]), make(), [{"a": 1.0}] * 3
    for number, label in enumerate(column[:2]):
        model.learn_one({"a": float(number)}, label)
    assert model.classes == ("u", "v")
    with pytest.raises(ValueError, match="y is None, expected a label"):
        model.learn_one(samples[0], column[2])
    with pytest.raises(ValueError, match=r"y\[2\] is None, expected a label"):
        model.learn_many(samples, list(column))
