"""StreamClassifier: exact in every expert, one by one and in batches, and unharmed by bad input."""

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import compose, datasets, evaluate, feature_extraction, metrics, preprocessing

from onlinels import StreamClassifier
from support import laws, strategies
from support.laws import assert_alike_streams as assert_alike
from support.laws import assert_nearly_alike_streams as assert_nearly_alike
from support.laws import learn_stream as learnt

FRAME_KINDS = "number", "text", "bool", "whole", "constant"


@settings(max_examples=25)
@given(st.data(), strategies.streams(max_rows=60), st.integers(0, 9))
def test_every_expert_is_the_weighted_ridge_solution(data, stream, seed):
    batches = data.draw(strategies.splits(len(stream)))
    forced = data.draw(st.sets(st.integers(0, len(stream) - 1), max_size=3))

    learn = partial(laws.learn_stream_in, batches, stream)
    model = StreamClassifier(seed)
    laws.assert_memories_exact(model, laws.learn_logged(model, learn, forced))
    assert model.count == len(stream)


def test_experts_are_exact_across_takeovers_of_their_own():
    X, y = strategies.turned_labels(900, 300, seed=3)
    model = StreamClassifier()
    logs = laws.learn_logged(model, lambda model: model.learn_many(X, y))
    assert all(len(log.takeovers) >= 2 for log in logs)
    laws.assert_memories_exact(model, logs)


def in_kind(stream, rows, kind):
    if kind == "dicts":
        return [stream.samples[row] for row in rows]
    if kind == "pandas":
        return pd.DataFrame(stream.columns(rows, None if rows[0] % 2 else np.nan))
    if kind == "nullable":
        # Whole numbers stay: pandas warns where it casts large ones to see.
        return pd.DataFrame(stream.columns(rows)).convert_dtypes(convert_integer=False)
    return pl.DataFrame(stream.columns(rows), strict=False)


@settings(max_examples=25)
@given(st.data(), strategies.streams(kinds=FRAME_KINDS, always=True))
def test_batches_of_any_kind_are_rows_one_by_one(data, stream):
    names = dict.fromkeys(name for sample in stream.samples for name in sample)
    # A frame has all columns in all rows: what is not there is a gap.
    samples = [{name: sample.get(name) for name in names} for sample in stream.samples]
    stream = strategies.Stream(samples, stream.labels)
    a, b = StreamClassifier(), learnt(stream)
    for rows in data.draw(strategies.splits(len(stream))):
        kind = data.draw(st.sampled_from(["dicts", "pandas", "nullable", "polars"]))
        y = [stream.labels[row] for row in rows]
        a.learn_many(in_kind(stream, rows, kind), y)
    assert_nearly_alike(a, b, stream.samples)


@given(strategies.rows(max_rows=12), st.sampled_from([None, object]))
def test_arrays_are_rows_one_by_one(rows, dtype):
    a, b = StreamClassifier(), StreamClassifier()
    X = rows.X if dtype is None else rows.X.astype(dtype)
    if X.dtype.kind in "fO":
        X[0, 0] = np.nan
    a.learn_many(X, rows.y)
    for row, label in zip(X.tolist(), rows.y, strict=True):
        b.learn_one(dict(enumerate(row)), label)
    assert_nearly_alike(a, b, [dict(enumerate(row)) for row in X.tolist()])
    by_row = [[*a.predict_proba_one(dict(enumerate(row))).values()] for row in X.tolist()]
    np.testing.assert_array_equal(a.predict_proba_many(X), by_row)


@settings(max_examples=40)
@given(strategies.streams(always=True))
def test_predictions_agree_with_each_other(stream):
    model = learnt(stream)
    probabilities = model.predict_proba_many(stream.samples)
    assert probabilities == [model.predict_proba_one(x) for x in stream.samples]
    assert model.scores_many(stream.samples) == [model.scores_one(x) for x in stream.samples]
    predicted = model.predict_many(stream.samples)
    assert predicted == [model.predict_one(x) for x in stream.samples]
    for row, label in zip(probabilities, predicted, strict=True):
        assert tuple(row) == model.classes
        assert sum(row.values()) == pytest.approx(1.0)
        assert min(row.values()) > 0.0
        assert row[label] >= max(row.values()) * (1.0 - 1e-12)


def test_label_and_highest_probability_agree_while_classes_are_new():
    model = StreamClassifier()
    for number in range(5):
        model.learn_one({"a": float(number)}, f"class {number}")
        for value in (0.0, 1.0, 2.5, 9.0):
            probabilities = model.predict_proba_one({"a": value})
            assert max(probabilities, key=probabilities.get) == model.predict_one({"a": value})


@settings(max_examples=25)
@given(st.data(), strategies.streams(always=True), strategies.streams(max_rows=6))
def test_predictions_leave_no_trace(data, stream, others):
    a, b = StreamClassifier(), StreamClassifier()
    asked = [*stream.samples, *others.samples, {"never met": 1.0, "text 0": "never met"}, {}]
    for x, y in zip(stream.samples, stream.labels, strict=True):
        for sample in data.draw(st.permutations(asked))[:4]:
            a.predict_one(sample)
        a.predict_proba_many(others.samples)
        a.learn_one(x, y)
        b.learn_one(x, y)
    assert_alike(a, b, asked)
    backwards = a.predict_proba_many(asked[::-1])
    assert backwards[::-1] == b.predict_proba_many(asked)


@settings(max_examples=25)
@given(strategies.streams(), st.booleans())
def test_copies_and_pickles_go_on_alike(stream, pickled):
    half = len(stream) // 2
    a = learnt(stream, rows=range(half))
    a.predict_one(stream.samples[half])
    b = pickle.loads(pickle.dumps(a)) if pickled else copy.deepcopy(a)
    before = laws.saved(b)
    learnt(stream, a, range(half, len(stream)))
    assert laws.saved(b) == before
    learnt(stream, b, range(half, len(stream)))
    assert_alike(a, b, stream.samples)


@settings(max_examples=40)
@given(st.data(), strategies.streams(kinds=("text", "text", "number", "array")))
def test_the_order_of_keys_is_no_matter(data, stream):
    shuffled = [dict(data.draw(st.permutations(list(x.items())))) for x in stream.samples]
    a, b = learnt(stream), learnt(strategies.Stream(shuffled, stream.labels))
    assert_alike(a, b, stream.samples)
    assert a.predict_proba_many(shuffled) == b.predict_proba_many(stream.samples)


@settings(max_examples=25)
@given(st.data(), strategies.streams(kinds=("number", "whole"), always=True))
def test_units_of_features_are_no_matter(data, stream):
    powers = {
        name: 2.0 ** data.draw(st.integers(-20, 20))
        for name in sorted({name for x in stream.samples for name in x})
    }
    samples = [
        {name: value if value is None else value * powers[name] for name, value in x.items()}
        for x in stream.samples
    ]
    a, b = learnt(stream), learnt(strategies.Stream(samples, stream.labels))
    assert a.predict_proba_many(stream.samples) == b.predict_proba_many(samples)
    assert a.shares == b.shares


def test_the_origin_of_features_is_no_matter():
    random = np.random.default_rng(0)
    # Sixteenths stay exact when 4096 is added.
    X = random.integers(-80, 80, (300, 4)) / 16.0
    y = (X[:, 0] * X[:, 1] > 0.0).tolist()
    a, b = StreamClassifier(), StreamClassifier()
    a.learn_many(X, y)
    b.learn_many(X + 4096.0, y)
    found = b.predict_proba_many(X + 4096.0)
    np.testing.assert_allclose(found, a.predict_proba_many(X), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        preprocessing.StatImputer() | StreamClassifier(),
        compose.SelectType(str) | preprocessing.OneHotEncoder() | StreamClassifier(),
        compose.Select("https", "popup_window", "gap") | StreamClassifier(seed=3),
        feature_extraction.BagOfWords(on="text") | StreamClassifier(),
        compose.Discard("gap") | preprocessing.FeatureHasher(8, seed=1) | StreamClassifier(),
    ],
    ids=["imputer", "one-hot", "select", "words", "hasher"],
)
def test_in_pipelines_and_with_late_labels(model):
    rows = [
        (x | {"colour": "red" if y else "blue", "text": f"very {y} url", "gap": None}, y)
        for x, y in datasets.Phishing().take(60)
    ]
    for delay in (None, 5):
        metric, fresh = metrics.Accuracy(), model.clone()
        evaluate.progressive_val_score(rows, fresh, metric, delay=delay)
        assert 0.4 < metric.get() <= 1.0


def test_late_labels_do_not_mislead_if_it_is_said_how_late():
    """Labels in runs of 25: the last one that is there is always that of the run before."""
    y = (np.arange(1000) // 25 % 3).tolist()
    X, right = np.random.default_rng(0).normal(size=(1000, 2)), []
    for model in (StreamClassifier(), StreamClassifier(label_delay=24)):
        right.append(0)
        for row, x in enumerate(X.tolist()):
            right[-1] += model.predict_one(dict(enumerate(x))) == y[row]
            if row >= 24:
                model.learn_one(dict(enumerate(X[row - 24].tolist())), y[row - 24])
    assert right[0] < 250
    assert right[1] > 750
