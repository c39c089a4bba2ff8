"""`labels`: classes that are known before their first row, in calibrated models.

The probability of a class without rows is the estimate of Krichevsky and Trofimov; the others share
the rest as without `labels`.
"""

import copy
import enum
import math
import pickle

import numpy as np
import pandas as pd
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
from onlinels.core import IN_USE
from support import strategies


def stream(labels=None):
    return StreamClassifier(labels=labels)


def calibrated(labels=None):
    return CalibratedClassifier(LeastSquaresClassifier(), labels=labels)


def calibrated_after_a_scaler(labels=None):
    scaled = preprocessing.StandardScaler() | LeastSquaresClassifier(1.0)
    return CalibratedClassifier(scaled, labels=labels)


MAKERS = stream, calibrated, calibrated_after_a_scaler
GIVEN = ("ok", "fault", 3, ("worn", 1))


@st.composite
def labelled_rows(draw, max_rows=40):
    """Draw rows of some of the given labels and of others, and the labels that are given."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = draw(st.lists(st.sampled_from([*GIVEN, "new", 7]), min_size=1, unique=True))
    columns = random.integers(0, len(pool), draw(st.integers(0, max_rows)))
    far = draw(st.sampled_from([0.0, 1.0, 100.0]))
    rows = [{"a": far * k + random.normal(), "b": random.normal()} for k in columns.tolist()]
    given = draw(st.lists(st.sampled_from(GIVEN), min_size=2, unique=True))
    return rows, [pool[k] for k in columns], tuple(given)


def expected_of(plain, given, count):
    """Return the probabilities that `labels` make of those without them."""
    unseen = [label for label in given if label not in plain]
    share = 0.5 / (count + (len(plain) + len(unseen)) / 2)
    left = 1.0 - share * len(unseen)
    return {label: left * p for label, p in plain.items()} | dict.fromkeys(unseen, share)


@pytest.mark.parametrize("make", MAKERS)
@strategies.examples(15)
@given(labelled_rows())
def test_unseen_classes_have_their_share_and_the_others_the_rest(make, drawn):
    rows, y, given = drawn
    model, plain = make(given), make()
    for count, (x, label) in enumerate(zip(rows, y, strict=True)):
        found, before = model.predict_proba_one(x), plain.predict_proba_one(x)
        assert list(found) == [*model.classes, *(k for k in given if k not in model.classes)]
        assert found == pytest.approx(expected_of(before, given, count), rel=1e-12, abs=0.0)
        assert math.fsum(found.values()) == pytest.approx(1.0, rel=1e-12)
        assert all(0.0 < p < 1.0 for p in found.values())
        predicted = model.predict_one(x)
        assert predicted == plain.predict_one(x)
        if count:
            assert found[predicted] == max(found.values())
        else:
            assert predicted is None
            assert set(found.values()) == {1.0 / len(given)}
        model.learn_one(x, label)
        plain.learn_one(x, label)
    assert model.classes == plain.classes
    if rows:
        assert model.scores_one(rows[0]) == plain.scores_one(rows[0])


@pytest.mark.parametrize("make", [stream, calibrated])
@strategies.examples(10)
@given(labelled_rows(), st.data())
def test_batches_equal_rows(make, drawn, data):
    rows, y, given = drawn
    batch, loop, expected = make(given), make(given), []
    for x, label in zip(rows, y, strict=True):
        expected.append(loop.predict_proba_one(x))
        loop.learn_one(x, label)
    parts = data.draw(strategies.splits(len(rows))) if rows else []
    for part in parts:
        X = [rows[row] for row in part]
        found = copy.copy(batch).predict_proba_many(X)
        assert found[0] == pytest.approx(batch.predict_proba_one(X[0]), rel=1e-9)
        table = copy.copy(batch).predict_proba_learn_many(pd.DataFrame(X), [y[row] for row in part])
        found = batch.predict_proba_learn_many(X, [y[row] for row in part])
        for row, known, columns in zip(part, found, table.to_dict("records"), strict=True):
            assert list(known) == list(expected[row])
            assert known == pytest.approx(expected[row], rel=1e-6)
            assert columns == pytest.approx({k: known.get(k, 0.0) for k in columns}, rel=1e-6)
            assert known.keys() <= columns.keys()
    assert batch.classes == loop.classes
    empty = make(given).predict_proba_many(np.ones((2, 1)))
    np.testing.assert_allclose(empty, 1.0 / len(given))


@pytest.mark.parametrize("make", MAKERS)
def test_labels_are_a_setting_like_others(make):
    given = ["ok", "fault"]
    model = make(given)
    given.append("other")
    for again in (model, model.clone(), copy.copy(model), copy.deepcopy(model)):
        assert again.labels == ("ok", "fault")
    assert model._get_params()["labels"] == ("ok", "fault")
    assert model.clone({"labels": None}).labels is None
    with pytest.raises(AttributeError, match="labels cannot change"):
        model.labels = None
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


@pytest.mark.parametrize("make", [stream, calibrated])
def test_bad_labels_are_refused(make):
    for bad, error, message in (
        ("ok", ValueError, "labels is 'ok', expected a sequence of labels. Pass a list"),
        ([], ValueError, "labels is empty, expected at least one label"),
        (["a", "b", "a"], ValueError, "labels holds 'a' at 2, equal to that at 0"),
        ([1, True], ValueError, "labels holds True at 1, equal to that at 0"),
        (["red", Colour.RED], ValueError, "at 1, equal to that at 0"),
        (["a", None], ValueError, r"labels\[1\] is None"),
        ([math.nan], ValueError, r"labels\[0\] is nan"),
        ([["a", "b"]], TypeError, r"labels\[0\] is \['a', 'b'\] of type list"),
        ({"a", "b"}, TypeError, "labels is of type set, expected an array, series or list"),
        (2, TypeError, "labels is of type int"),
    ):
        with pytest.raises(error, match=message):
            make(bad)


def test_one_label_alone_is_certain():
    model = stream(["ok"])
    assert model.predict_proba_one({"a": 1.0}) == {"ok": 1.0}
    model.learn_one({"a": 1.0}, "ok")
    assert model.predict_proba_one({"a": 1.0}) == {"ok": 1.0}


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


def test_windows_of_readings_name_them():
    model = WindowedClassifier(calibrated(["ok", "fault"]), window=2)
    for reading in (1.0, 2.0):
        model.learn_one({"a": reading}, "ok")
    assert model.predict_proba_one({"a": 3.0}) == {"ok": 0.75, "fault": 0.25}


@pytest.mark.skipif(IN_USE != "compiled", reason="it would take half a minute")
@pytest.mark.parametrize("make", [stream, calibrated])
def test_the_first_faults_cost_little_while_their_labels_are_late(make):
    """The first fault comes at row 2,000, and labels 400 rows late."""
    random = np.random.default_rng(0)
    y = np.where((np.arange(3000) >= 2000) & (random.random(3000) < 0.2), "fault", "ok").tolist()
    y[2000] = "fault"
    X = random.normal(size=(3000, 5)) + 3.0 * (np.array(y) == "fault")[:, None] * np.eye(5)[:2].sum(
        0
    )
    rows = [dict(zip("abcde", row, strict=True)) for row in X.tolist()]
    losses = {}
    for labels in (None, ("ok", "fault")):
        model, loss = make(labels), []
        for row, x in enumerate(rows):
            share = model.predict_proba_one(x).get(y[row], 0.0) if row >= 2000 else 1.0
            loss.append(-math.log(max(share, 1e-15)))
            if row >= 400:
                model.learn_one(rows[row - 400], y[row - 400])
        losses[labels] = np.mean(loss[2000:])
    assert losses[None] > 3.0
    assert losses["ok", "fault"] < 1.0
