"""Labels and names of any kind: how they come, what they become, and which are refused.

`labels` name classes that are known before their first row: the probability of a class without rows
is the estimate of Krichevsky and Trofimov; the others share the rest as without `labels`.
"""

import copy
import enum
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import preprocessing

from onlinels import (
    CalibratedClassifier,
    LeastSquaresClassifier,
    StreamClassifier,
    WindowedClassifier,
    dumps,
    export,
    loads,
    merge,
)
from onlinels.pipelines import unlearn_many, unlearn_one
from support import laws, models, strategies

# -- labels of rows -------------------------------------------------------------------------------

FORMS = {name: form for name, form in strategies.LABEL_FORMS.items() if name != "floats"}
FORMS["scalars of pyarrow"] = lambda labels: [*map(pa.scalar, labels)]


@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
@pytest.mark.parametrize("form", FORMS)
def test_labels_come_in_many_forms(form, make):
    model = laws.fitted(make(), np.eye(2), FORMS[form](["a", "b"]))
    assert model.classes == ("a", "b")
    assert [type(label) for label in model.classes] == [str, str]


KINDS = [
    *(("O", [2**63, -1]), ("O", ["a", "a\0"]), ("O", [1, 2.5]), ("O", [1, "a"])),
    *(("i", [1, 2]), ("U", ["a", "bc"]), ("b", [True])),
]


@pytest.mark.parametrize(("kind", "labels"), KINDS)
def test_arrays_of_answers_have_the_labels_own_type(kind, labels):
    rows, model = np.eye(len(labels)), LeastSquaresClassifier(1e-9, fit_intercept=False)
    answers = laws.fitted(model, rows, labels).predict_many(rows)
    assert answers.dtype.kind == kind
    assert answers.tolist() == labels


NAN = float("nan")
BAD_LABELS = [
    *((gap, ValueError, r"(?s)is .*, expected a label") for gap in strategies.GAPS.values()),
    (("a", NAN), ValueError, r"is \('a', nan\), expected a label"),
    ((("a", (NAN,)), 1), ValueError, "nan.*, expected a label"),
    ([1, 2], TypeError, "hashable"),
    ({"a": 1}, TypeError, "hashable"),
    (np.array([1]), TypeError, "hashable"),
    (np.datetime64("2020-01-01"), TypeError, "dates to text"),
    (np.timedelta64(3, "s"), TypeError, "dates to text"),
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


LINEAR = {name: models.CLASSIFIERS[name] for name in ("gram", "recursive")}
OTHERS = {name: models.CLASSIFIERS[name] for name in ("stream", "drift", "calibrated")}
OTHERS["windowed"] = lambda: WindowedClassifier(LeastSquaresClassifier(), window=1, hop=1)
CLASSIFIERS = LINEAR | OTHERS
UNLEARNING = LINEAR | {"pipeline": models.CLASSIFIERS["pipeline"]}
ALL = CLASSIFIERS | UNLEARNING | {"network": lambda: models.digits_network(image_shape=(8, 8))}


def state_of(model):
    """Return the state of what learns: a hidden layer in front knows names that it has met."""
    model = getattr(model, "classifier", model)
    return pickle.dumps([*model.steps.values()][-1] if hasattr(model, "steps") else model)


@pytest.mark.parametrize("kind", ALL)
@strategies.examples(12)
@given(strategies.missing_labels(), st.booleans())
def test_missing_labels_are_refused_before_anything_changes(kind, drawn, knows):
    model, first = ALL[kind](), drawn.missing[0]
    X = np.arange(1.0, 64.0 * len(drawn.labels) + 1.0).reshape(-1, 64)
    x, nothing = dict(enumerate(X[first].tolist())), list(drawn.y)[first]
    nothing = nothing.as_py() if hasattr(nothing, "as_py") else nothing
    if knows:
        model.learn_many(X, drawn.labels)
    learn = type(model).learn_many, type(model).learn_one
    methods = {kind: learn} | dict.fromkeys(UNLEARNING, (unlearn_many, unlearn_one))
    for many, one in (learn, methods[kind]):
        for call, place in (
            (lambda: many(model, X, drawn.y), rf"\[{first}\]"),  # noqa: B023
            (lambda: one(model, x, nothing), ""),  # noqa: B023
        ):
            message, errors = rf"^y{place} is .*expected a label\. ", (TypeError, ValueError)
            laws.assert_refused(call, model, message, errors, state_of)


def typed(values):
    return [(type(value), repr(value)) for value in values]


def assert_answers(model, table, expected):
    """Assert that labels are exactly these, or that the library of a table has no such series."""
    try:
        answers = laws.entries(model.predict_many(table))
    except ValueError as error:
        answers = str(error)
    if not isinstance(answers, str):
        assert typed(answers) == typed(expected)
        return
    assert "cannot be one series of this library" in answers
    assert isinstance(table, (pl.DataFrame, pa.Table))
    is_one = len(set(map(type, expected))) == 1 and type(expected[0]) is not tuple
    assert not is_one or not -(2**63) <= min(expected) <= max(expected) < 2**63


@pytest.mark.parametrize("kind", CLASSIFIERS)
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
    frame = pd.DataFrame(3.0 * np.eye(len(labels)) + 1.0).rename(columns=str)
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
    for shares in (model.predict_proba_many(frame), model.predict_proba_many(rows)[0]):
        assert typed(shares) == typed(classes)


# -- labels that are known before their rows ------------------------------------------------------


def stream(labels=None):
    return StreamClassifier(labels=labels)


def calibrated(labels=None):
    return CalibratedClassifier(LeastSquaresClassifier(), labels=labels)


def calibrated_after_a_scaler(labels=None):
    scaled = preprocessing.StandardScaler() | LeastSquaresClassifier(1.0)
    return CalibratedClassifier(scaled, labels=labels)


GIVEN = ("ok", "fault", 3, ("worn", 1))
makers = pytest.mark.parametrize("make", [stream, calibrated])


@st.composite
def labelled_rows(draw, max_rows=40):
    """Draw rows of some of the given labels and of others, and the labels that are given."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = draw(st.lists(st.sampled_from([*GIVEN, "new", 7]), min_size=1, unique=True))
    columns = random.integers(0, len(pool), draw(st.integers(1, max_rows)))
    far = draw(st.sampled_from([0.0, 1.0, 100.0]))
    rows = [{"a": far * k + random.normal(), "b": random.normal()} for k in columns.tolist()]
    given = draw(st.lists(st.sampled_from(GIVEN), min_size=1, unique=True))
    return rows, [pool[k] for k in columns], tuple(given)


def expected_of(plain, given, count):
    """Return the probabilities that `labels` make of those without them."""
    unseen = [label for label in given if label not in plain]
    share = 0.5 / (count + (len(plain) + len(unseen)) / 2)
    left = 1.0 - share * len(unseen)
    return {label: left * p for label, p in plain.items()} | dict.fromkeys(unseen, share)


@pytest.mark.parametrize(
    ("make", "form"),
    # Scalers of river's take no lists.
    [(stream, list), (calibrated, list), (calibrated_after_a_scaler, pd.DataFrame)],
)
@strategies.examples(25)
@given(labelled_rows(), st.data())
def test_unseen_classes_have_their_share_and_the_others_the_rest(make, form, drawn, data):
    """Of single rows by the definition; batches name and weigh them as rows in turn do."""
    rows, y, given = drawn
    model, batch, plain, expected = make(given), make(given), make(), []
    for count, (x, label) in enumerate(zip(rows, y, strict=True)):
        found, before = model.predict_proba_one(x), plain.predict_proba_one(x)
        assert list(found) == [*model.classes, *(k for k in given if k not in model.classes)]
        assert found == pytest.approx(expected_of(before, given, count), rel=1e-12, abs=0.0)
        assert math.fsum(found.values()) == pytest.approx(1.0, rel=1e-12)
        assert model.predict_one(x) == plain.predict_one(x)
        assert found.get(model.predict_one(x), max(found.values())) == max(found.values())
        expected.append(found)
        model.learn_one(x, label)
        plain.learn_one(x, label)
    assert model.classes == plain.classes
    assert model.scores_one(rows[0]) == plain.scores_one(rows[0])
    for part in data.draw(strategies.splits(len(rows))):
        X, labels = [rows[row] for row in part], [y[row] for row in part]
        found = laws.entries(copy.copy(batch).predict_proba_many(form(X)))
        assert found[0] == pytest.approx(batch.predict_proba_one(X[0]), rel=1e-9)
        table = copy.copy(batch).predict_proba_learn_many(pd.DataFrame(X), labels)
        found = batch.predict_proba_learn_many(X, labels)
        for row, known, columns in zip(part, found, table.to_dict("records"), strict=True):
            assert list(known) == list(expected[row])
            assert known == pytest.approx(expected[row], rel=1e-6)
            assert columns == pytest.approx({k: known.get(k, 0.0) for k in columns}, rel=1e-6)
            assert known.keys() <= columns.keys()


@makers
def test_known_labels_are_a_setting_like_others(make):
    given = ["ok", "fault"]
    model = make(given)
    given.append("other")
    assert model.clone().labels == model._get_params()["labels"] == ("ok", "fault")
    assert model.clone({"labels": None}).labels is None
    assert make(np.array(["a", "b"])).labels == make(pd.Series(["a", "b"])).labels == ("a", "b")
    for k in range(5):
        model.learn_one({"a": float(k)}, "ok")
    x = {"a": 9.0}
    for again in (copy.copy(model), pickle.loads(pickle.dumps(model)), loads(dumps(model))):
        assert again.labels == ("ok", "fault")
        assert again.predict_proba_one(x) == {"ok": 1.0 - 0.5 / 6.0, "fault": 0.5 / 6.0}
    state = model.__getstate__()
    del state["labels"]  # As in files of earlier versions.
    old = object.__new__(type(model))
    old.__setstate__(state)
    assert old.labels is None
    assert old.predict_proba_one(x) == {"ok": 1.0}


class Colour(enum.StrEnum):
    RED = "red"


@makers
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("ok", "labels is 'ok', expected a sequence of labels. Pass a list"),
        ([], "labels is empty, expected at least one label"),
        (["a", "b", "a"], "labels holds 'a' at 2, equal to that at 0"),
        ([1, True], "labels holds True at 1, equal to that at 0"),
        (["red", Colour.RED], "at 1, equal to that at 0"),
        (["a", None], r"labels\[1\] is None"),
        ([math.nan], r"labels\[0\] is nan"),
        ([["a", "b"]], r"labels\[0\] is \['a', 'b'\] of type list"),
        ({"a", "b"}, "labels is of type set, expected an array, series or list"),
        (2, "labels is of type int"),
    ],
)
def test_bad_known_labels_are_refused(make, bad, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(bad)


def test_calibrated_models_merge_unlearn_and_export_their_labels():
    one, other = calibrated(["ok", "fault"]), calibrated(["ok", "fault"])
    for k in range(4):
        one.learn_one({"a": float(k)}, "ok")
        other.learn_one({"a": float(k)}, "ok")
    both, x = merge(one, other), {"a": 2.0}
    assert both.labels == both.empty().labels == ("ok", "fault")
    assert both.predict_proba_one(x) == {"ok": 1.0 - 0.5 / 9.0, "fault": 0.5 / 9.0}
    with pytest.raises(ValueError, match=r"labels: \('ok', 'fault'\) and None"):
        one.merge(calibrated())
    small = export.answers_only(both)
    for answers in (small, loads(dumps(small)), copy.copy(small)):
        assert answers.predict_proba_one(x) == both.predict_proba_one(x)
        assert answers.predict_proba_many([x]) == both.predict_proba_many([x])
    # The class comes and is forgotten.
    both.learn_one(x, "fault")
    assert both.predict_proba_one(x)["fault"] > 0.05
    both.classifier.unlearn_one(x, "fault")
    assert both.predict_proba_one(x)["fault"] == 0.5 / 9.0


def test_onnx_refuses_a_class_without_rows():
    pytest.importorskip("onnx")
    model = calibrated(["ok", "fault"])
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["ok", "bad"])
    with pytest.raises(ValueError, match=r"labels name 'fault', of which no row was learnt"):
        export.onnx(model, "unused.onnx")


def test_a_prior_is_the_share_of_a_class_without_rows():
    plain = LeastSquaresClassifier(priors={"ok": 0.9, "fault": 0.1})
    model = CalibratedClassifier(plain, labels=["ok", "fault"])
    assert model.predict_proba_one({"a": 1.0}) == {"ok": 0.5, "fault": 0.5}
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["ok", "ok"])
    assert model.predict_proba_one({"a": 1.0}) == {"ok": 0.9, "fault": 0.1}
    model = CalibratedClassifier(model.classifier, labels=["ok", "worn"])
    share = 0.5 / 3.5
    expected = {"ok": 0.9 * (1.0 - share), "fault": 0.1 * (1.0 - share), "worn": share}
    assert model.predict_proba_one({"a": 1.0}) == pytest.approx(expected)


def test_windows_of_readings_name_known_labels():
    model = WindowedClassifier(calibrated(["ok", "fault"]), window=2)
    for reading in (1.0, 2.0):
        model.learn_one({"a": reading}, "ok")
    assert model.predict_proba_one({"a": 3.0}) == {"ok": 0.75, "fault": 0.25}
