"""Weights of rows in the models of dict streams: what they multiply, and what follows every row.

That weighted rows are learnt as the definition says is tested where it is tested of all rows.
"""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import StreamClassifier, StreamRegressor
from onlinels.core.constants import ERROR_WEIGHT
from support import laws, strategies

MODELS = pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])


def drawn(make, n_rows=80):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 3))
    y = X[:, 0] + 0.3 * random.normal(size=n_rows)
    return X, y if make is StreamRegressor else y > 0.0


def assert_memories_kept(model, before):
    for each, same in zip(model._state.memories, before._state.memories, strict=True):
        np.testing.assert_array_equal(each.weights, same.weights)


@strategies.examples(25)
@given(st.data(), strategies.streams(max_rows=40), st.integers(1, 12))
def test_of_rows_without_weight_only_the_last_label_counts(data, stream, n_light):
    """Their labels may be any of those that are known, but for one that later rows see."""
    model = laws.learn_stream(stream)
    known, n_rows = st.sampled_from(model.classes), n_light + 1
    samples = [data.draw(st.sampled_from(stream.samples)) for _ in range(n_rows)]
    kept = [data.draw(known)]
    others = [copy.deepcopy(model) for _ in range(2)]
    for each in others:
        labels = [data.draw(known) for _ in range(n_light)] + kept
        laws.learn_stream(strategies.Stream(samples, labels, [0.0] * n_rows), each)
        assert_memories_kept(each, model)
    answers, expected = (laws.answers_of(each, stream.samples) for each in others)
    assert answers == expected


def test_targets_of_rows_without_weight_judge_nothing():
    X, y = drawn(StreamRegressor)
    model = laws.fitted(StreamRegressor(), X, y)
    before, x = copy.deepcopy(model), {0: 1.0, 1: 1.0, 2: 1.0}
    model.learn_one(x, 7.0, 0.0)
    assert model.predict_one(x, with_dist=True).sigma == before.predict_one(x, with_dist=True).sigma
    both, prior = (model, before), np.log([*StreamRegressor().shares.values()])
    found, expected = (np.log([*each.shares.values()]) - prior for each in both)
    # Recent errors fade, as with every row.
    np.testing.assert_allclose(found - found[0], 0.99 * (expected - expected[0]), atol=1e-12)
    weight, weight_before = (each._state.numbers[ERROR_WEIGHT] for each in both)
    assert weight == pytest.approx(0.99 * weight_before)
    assert_memories_kept(model, before)


@MODELS
def test_weights_come_in_any_kind_or_as_one_for_all(make):
    X, y = drawn(make, 30)
    frame, w = pd.DataFrame(X, columns=["a", "b", "c"]), [1.0, 2.0, 0.0] * 10
    models = [make() for _ in range(4)]
    for model, weights in zip(models, (w, np.array(w), pd.Series(w), pl.Series(w)), strict=True):
        model.predict_learn_many(frame, y, weights)
    assert len({laws.saved(model) for model in models}) == 1
    models = [make() for _ in range(4)]
    for model, weights in zip(models, (None, 1.0, 1, np.ones(30)), strict=True):
        model.learn_many(frame, y, weights)
    assert len({laws.saved(model) for model in models}) == 1
    with pytest.raises(ValueError, match="w has the index of X in another order"):
        models[0].learn_many(frame, y, pd.Series(w)[::-1])


@MODELS
def test_the_heaviest_rows_are_learnt(make):
    """Wide rows, of which some weigh 1e5 and some nothing, outgrow nothing."""
    random = np.random.default_rng(0)
    X, w = random.choice([-1e5, 1e5], (200, 130)), random.choice([0.0, 1e-300, 1.0, 1e5], 200)
    y = (X[:, 0] > 0.0).astype(int)
    model = make()
    model.predict_learn_many(X, y, w)
    assert np.mean(np.round(model.predict_many(X).astype(float)) == y) > 0.9


@pytest.mark.parametrize("w", [1e-6, 0.01, 1.0])
def test_intervals_become_finite_after_as_many_rows_for_any_weight(w):
    random, model = np.random.default_rng(0), StreamRegressor()
    for row in range(10):
        x = {"a": float(random.normal())}
        low, high = model.predict_interval_one(x)
        assert np.isfinite(high - low) == (row >= 3)
        model.learn_one(x, 2.0 * x["a"] + float(random.normal()), w=w)
