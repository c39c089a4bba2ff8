"""Batches of streams: rows are answered and learnt as one by one."""

import copy
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import StreamClassifier, StreamRegressor
from onlinels.stream import features as stream_features
from support import laws, strategies


@strategies.examples(40)
@given(
    st.data(),
    strategies.streams(max_rows=60, weighed=True),
    st.integers(0, 3),
    st.sampled_from([1, 2, 64]),
)
def test_labels_are_those_of_rows_one_by_one(data, stream, seed, most_texts):
    """New classes, late features, gaps and texts beyond the columns come within a batch."""
    model = StreamClassifier(seed)
    labels, learnt, single = (copy.deepcopy(model) for _ in range(3))
    found, named = [], []
    with mock.patch.object(stream_features, "MAX_CATEGORIES", most_texts):
        for part in strategies.batches(data, len(stream)):
            rows = stream.samples[part], stream.labels[part], stream.w[part]
            found += model.predict_proba_learn_many(*rows)
            named += labels.predict_learn_many(*rows)
            learnt.learn_many(*rows)
        answers = list(zip(stream.samples, stream.labels, stream.w, found, named, strict=True))
        for x, y, w, row, label in answers:
            expected = single.predict_proba_one(x)
            assert list(row) == list(expected)
            # The copy that answers and learns has inverses of another scale.
            np.testing.assert_allclose([*row.values()], [*expected.values()], atol=1e-7)
            assert label == single.predict_one(x) or single.margin_one(x) < 1e-7
            single.learn_one(x, y, w)
        laws.assert_alike_streams(learnt, single, stream.samples)


@strategies.examples(40)
@given(
    st.data(),
    strategies.streams(max_rows=60, weighed=True),
    st.integers(0, 3),
    st.sampled_from([1, 64]),
)
def test_late_rows_in_batches_are_rows_one_by_one(data, stream, seed, most_texts):
    """Batches are predicted; some are learnt later, some are never; others unasked."""
    model = StreamClassifier(seed)
    single, left = copy.deepcopy(model), []
    with mock.patch.object(stream_features, "MAX_CATEGORIES", most_texts):
        for part in strategies.batches(data, len(stream)):
            X = stream.samples[part]
            left.append((X, stream.labels[part], stream.w[part]))
            if data.draw(st.booleans()):
                assert model.predict_proba_many(X) == [single.predict_proba_one(x) for x in X]
            if data.draw(st.booleans()):
                rows = left.pop(data.draw(st.integers(0, len(left) - 1)))
                model.learn_many(*rows)
                for row in zip(*rows, strict=True):
                    single.learn_one(*row)
            assert len(model._state.waiting) == len(single._state.waiting)
            laws.assert_alike_streams(model, single, stream.samples)


@strategies.examples(40)
@given(st.data(), strategies.number_streams(max_rows=60, weighed=True), st.integers(0, 3))
def test_numbers_are_those_of_rows_one_by_one(data, stream, seed):
    model = StreamRegressor(seed)
    learnt, single = copy.deepcopy(model), copy.deepcopy(model)
    found = []
    for part in strategies.batches(data, len(stream)):
        rows = stream.samples[part], stream.labels[part], stream.w[part]
        found += model.predict_learn_many(*rows, with_dist=True)
        learnt.learn_many(*rows)
    size = np.ptp([*stream.labels, 0.0])
    for x, y, w, answer in zip(stream.samples, stream.labels, stream.w, found, strict=True):
        expected = single.predict_one(x, with_dist=True)
        # The copy that answers and learns has inverses of another scale.
        assert answer.mu == pytest.approx(expected.mu, rel=1e-7, abs=1e-7 * size)
        assert answer.sigma == pytest.approx(expected.sigma, rel=1e-6, abs=1e-6 * size)
        single.learn_one(x, y, w)
    laws.assert_alike_streams(learnt, single, stream.samples)


def test_labels_that_no_answer_can_hold_change_nothing():
    """A polars series holds no labels of several types."""
    model, X = StreamClassifier(), pl.DataFrame({"a": np.arange(40.0)})
    model.learn_many(X, [(1, 2), "b"] * 20)
    call = lambda: model.predict_learn_many(X, [(1, 2), "b"] * 20)  # noqa: E731
    laws.assert_refused(call, model, "several types")


@pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])
def test_refused_rows_change_nothing(make):
    random, model = np.random.default_rng(0), make()
    X, y = random.normal(size=(300, 3)), random.integers(0, 2, 300).tolist()
    model.predict_learn_many(X, y)
    laws.assert_batches_refused(model, X, y)
    for call, message in (
        (lambda: model.predict_learn_many(X[0], y), "X"),
        (lambda: model.learn_many(X, y, -np.ones(300)), "w holds -1.0 in row 0, expected weights"),
        (lambda: model.learn_one({0: 1.0}, 1, 2e5), "w holds 200000.0.*at most 100000"),
        (lambda: model.learn_one({0: 1.0}, 1, -1.0), "w holds -1.0"),
    ):
        laws.assert_refused(call, model, message)
    for w in (None, np.ones(1)):
        call = lambda: model.learn_one({0: 1.0}, 1, w)  # noqa: B023, E731
        laws.assert_refused(call, model, "w is .*, expected one number", TypeError)
