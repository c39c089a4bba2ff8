"""What StreamClassifier refuses, by name and before anything changes, and what it bears."""

from __future__ import annotations

import datetime
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import strategies
from laws import assert_alike_streams as assert_alike
from laws import learn_stream as learnt
from laws import stream_state as state_of
from onlinels import StreamClassifier
from onlinels.linalg.recursion import Recursion

BAD_SAMPLES = [
    (["a"], "x is of type list"),
    (None, "x is of type NoneType"),
    ({"a": np.inf}, r"x\['a'\] is inf"),
    ({"a": -1e151}, r"x\['a'\] is -1e\+151"),
    ({"a": 1.0, "b": {}}, r"x\['b'\] is {}"),
    ({"a": datetime.date(2020, 1, 1)}, r"x\['a'\] is 2020-01-01 of type date.*seconds"),
    ({"a": [1.0, 2.0]}, r"x\['a'\] is a list"),
    ({"a": b"text"}, r"x\['a'\] is b'text'"),
    ({"a": np.array([1.0, np.inf])}, r"x\['a'\] holds inf"),
    ({"array": np.ones(3)}, r"x\['array'\] has 3 values, expected 2"),
    ({"new": np.ones(1), "h3": 1.0, 3: 1.0}, "The names 'h3' and 3 stand for one feature"),
    ({np.nan: 1.0}, "name is NaN"),
    ({"new": "text", np.nan: "text"}, "name is NaN"),
    ({"new": 2.0, object(): 1.0}, "Feature name <object object"),
]
BAD_LABELS = [
    (["x"], "y is .* of type list"),
    (float("nan"), "y is nan"),
    ({}, "y is {}"),
    (np.datetime64("2020"), "y is np.datetime64"),
    (pd.NA, "y is <NA>"),
]


def twins():
    samples = [{"a": float(n % 4), "array": np.array([n, 1.0]), "b": "xy"[n % 2]} for n in range(9)]
    labels = [n % 4 > 1 for n in range(9)]
    stream = strategies.Stream(samples, labels)
    return learnt(stream), learnt(stream), stream


def assert_unharmed(model, twin, stream):
    assert_alike(model, twin, stream.samples)
    further = [*stream.samples, {"new": 1.0, "newer": "text"}]
    for x, y in zip(further, [*stream.labels, "new"], strict=True):
        model.learn_one(x, y)
        twin.learn_one(x, y)
    assert_alike(model, twin, further)


@pytest.mark.parametrize(("sample", "message"), BAD_SAMPLES)
def test_bad_samples_leave_no_trace(sample, message):
    model, twin, stream = twins()
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(sample, "new class")
    good = {"newer": 3.0, "newest": "text"}
    for batch in ([sample], [good, sample, good]):
        with pytest.raises((ValueError, TypeError), match=message):
            model.learn_many(batch, ["new class", 1, 2][: len(batch)])
    assert_unharmed(model, twin, stream)


@pytest.mark.parametrize(("label", "message"), BAD_LABELS)
def test_bad_labels_leave_no_trace(label, message):
    model, twin, stream = twins()
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one({"new": 1.0}, label)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_many([{"new": 1.0}, {"a": 2.0}, {"b": "z"}], ["new class", label, 1])
    assert_unharmed(model, twin, stream)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros(3), [1, 2, 3], r"X has shape \(3,\)"),
        (np.zeros((2, 2, 2)), [1, 2], r"X has shape \(2, 2, 2\)"),
        (np.zeros((0, 2)), [], "X has 0 rows"),
        ([], [], "X has 0 rows"),
        (pd.DataFrame({"a": []}), [], "X has 0 rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], "X has columns of one name"),
        (pd.Series([1.0]), [1], "X is of type Series"),
        ({"a": 1.0}, [1], "X is of type dict"),
        (None, [1], "X is of type NoneType"),
        (np.array([[1.0], [np.inf]]), [1, 2], r"x\[0\] is inf"),
        ([{"new": 1.0}, {"a": 1.0}], [1], "y has 1 labels, expected 2"),
        ([{"new": 1.0}], [1, "new class"], "y has 2 labels, expected 1"),
        ([{"new": 1.0}], 1, "y is of type int"),
        ([{"new": 1.0}], np.ones((1, 2)), r"y has shape \(1, 2\)"),
        ([{"c": np.ones(2)}, {"c": np.ones(3)}], [1, 2], r"x\['c'\] has 3 values"),
    ],
)
def test_bad_batches_leave_no_trace(X, y, message):
    model, twin, stream = twins()
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_many(X, y)
    assert_unharmed(model, twin, stream)


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_bad_seed_is_refused(seed, error):
    with pytest.raises(error, match="seed="):
        StreamClassifier(seed)


@pytest.mark.parametrize(
    "samples",
    [
        [{}] * 9,
        [{"a": 7.0}] * 9,
        [{"a": scale * (1 + n)} for n, scale in enumerate([1e-150, 1e149] * 5)],
        [{"a": 1e150 * (-1) ** n, "b": 1e-300 * n, "c": 5e-324} for n in range(9)],
        [{"a": None, "b": np.nan}] * 9,
        [{"a": f"text {n}"} for n in range(300)],
        [{f"late {n}": n} for n in range(40)],
        [{"a": np.arange(2000.0) * n} for n in range(2)],
        [{"a": n % 2, "a=x": 2.0, "é\n": True, "": 1, ("a", (1, None)): 3} for n in range(9)],
    ],
    ids=["none", "constant", "far", "farther", "gaps", "texts", "late", "wide", "odd names"],
)
def test_extremes_are_learnt(samples):
    one_class, model = StreamClassifier(), StreamClassifier()
    for number, x in enumerate(samples):
        one_class.learn_one(x, "only")
        model.learn_one(x, number % 3)
    asked = [*samples[:5], {"a": 1e150}, {}]
    assert one_class.predict_many(asked) == ["only"] * len(asked)
    assert one_class.predict_proba_one(samples[0]) == {"only": 1.0}
    for row in model.predict_proba_many(asked):
        assert sum(row.values()) == pytest.approx(1.0)
        assert min(row.values()) > 0.0
    assert model.margin_one(samples[0]) >= 0.0


def test_nothing_learnt_gives_no_label():
    model = StreamClassifier()
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": "x"}) == {}
    assert model.predict_many([{}, {"a": 1.0}]) == [None, None]
    assert model.predict_proba_many(np.ones((2, 3))).shape == (2, 0)
    assert (model.classes, model.feature_names, model.count) == ((), (), 0)
    assert list(model.shares.values()) == [0.25] * 4


def test_two_hundred_classes_are_told_apart():
    model = StreamClassifier()
    for _ in range(2):
        for number in range(200):
            model.learn_one({"tens": str(number // 10), "ones": str(number % 10)}, number)
    assert len(model.classes) == 200
    rows = [{"tens": str(number // 10), "ones": str(number % 10)} for number in range(200)]
    found = model.predict_many(rows)
    assert np.mean([label == number for number, label in enumerate(found)]) > 0.9


def test_more_features_than_there_is_room_for():
    model = StreamClassifier()
    model.learn_one({"a": 1.0}, "x")
    before = state_of(model)
    with pytest.raises(ValueError, match=r"to 5001, expected at most 4096\..*FeatureHasher"):
        model.learn_one({f"f{n}": 1.0 for n in range(5000)}, "x")
    assert state_of(model) == before


@pytest.mark.parametrize("delay", [-1, 1.5, "10", None])
def test_delays_are_whole_numbers(delay):
    with pytest.raises((TypeError, ValueError), match="label_delay="):
        StreamClassifier(label_delay=delay)


@pytest.mark.parametrize("x", [{"h3": 7.0, 3: None}, {"h3": "a", 3: 1.0}, {1: "a", "h1": "b"}])
def test_names_of_one_feature(x):
    with pytest.raises(ValueError, match="stand for one feature"):
        StreamClassifier().learn_one(x, "y")


def test_texts_and_numbers_of_like_names_are_apart():
    model = StreamClassifier()
    model.learn_one({"a": "x", "a=x": 7.0, "a=b": "c"}, "y")
    model.learn_one({"a": "b=c"}, "z")
    assert set(model.feature_names) == {"a=x", ("a", "x"), ("a=b", "c"), ("a", "b=c")}


@pytest.mark.parametrize("call", range(4))
def test_too_little_memory_to_grow(call):
    model = StreamClassifier()
    model.learn_one({"a": 1.0}, "x")
    before, grown = state_of(model), Recursion.grown
    failing = iter([grown] * call)

    def grown_or_not(recursion, *sizes):
        return next(failing, fail)(recursion, *sizes)

    def fail(*_):
        raise MemoryError

    with mock.patch.object(Recursion, "grown", grown_or_not), pytest.raises(MemoryError):
        model.learn_one({"a": 2.0, "b": 1.0}, "y")
    assert state_of(model) == before
    assert model.predict_one({"a": 2.0, "b": 1.0}) == "x"


@pytest.mark.parametrize("call", range(9))
def test_an_interrupt_leaves_a_batch_learnt_or_not(call):
    model, twin, stream = twins()
    before = state_of(model)
    twin.learn_many(stream.samples, stream.labels)
    plan, calls = StreamClassifier._plan_experts, iter(range(99))

    def interrupted(*args):
        if next(calls) == call:
            raise KeyboardInterrupt
        return plan(*args)

    patched = mock.patch.object(StreamClassifier, "_plan_experts", interrupted)
    with patched, pytest.raises(KeyboardInterrupt):
        model.learn_many(stream.samples, stream.labels)
    assert state_of(model) == (state_of(twin) if call else before)
