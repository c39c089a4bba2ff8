"""No row is kept, models take the memory that they say, and what cannot fit is refused."""

import gc
import pickle
import tracemalloc

import numpy as np
import pytest

from onlinels import (
    LeastSquaresClassifier,
)
from support import laws, models


def learn(model, n_rows, random):
    for start in range(0, n_rows, 500):
        X = random.normal(size=(500, 12))
        model.learn_many(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1))
        if start % 10_000 == 0:
            model.predict_many(X[:2])


SMALL = {"image_shape": (3, 4), "drop_ring": 0, "padding": 6}
SIZED = {kind: models.MODELS[kind] for kind in ("gram", "orthogonal", "pipeline")}
SIZED["network"] = lambda: models.digits_network(100, **SMALL)


@pytest.mark.parametrize("kind", SIZED)
def test_size_does_not_depend_on_the_length_of_the_stream(kind):
    random, model = np.random.default_rng(0), SIZED[kind]()
    learn(model, 1000, random)
    size, memory = len(pickle.dumps(model)), model._raw_memory_usage
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    learn(model, 11_000, random)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # Larger counts take some bytes more; one row would take 96.
    assert abs(len(pickle.dumps(model)) - size) < 40
    # Room for larger counts, and caches of the interpreter; 11,000 rows would take 1 MB.
    assert model._raw_memory_usage <= memory + 256
    assert abs(grown) < 100_000


@pytest.mark.parametrize("kind", ["gram", "stream", "stream regressor"])
def test_one_by_one_keeps_nothing_either(kind):
    random, model, sizes = np.random.default_rng(0), models.MODELS[kind](), []
    for n_rows in (1000, 2000):
        for row in random.normal(size=(n_rows, 5)).tolist():
            model.learn_one(dict(enumerate(row)), row[0] > 0)
        sizes.append((len(pickle.dumps(model)), model._raw_memory_usage))
    assert abs(sizes[1][0] - sizes[0][0]) < 64
    assert sizes[1][1] <= sizes[0][1] + 256


def test_names_that_change_in_every_row_leave_no_trace_but_their_columns():
    model = LeastSquaresClassifier()
    model.learn_one(dict.fromkeys(range(50), 1.0), "a")
    random = np.random.default_rng(0)
    memory = 0
    for row in range(320):
        if row < 20:
            memory = max(memory, model._raw_memory_usage)
        names = random.choice(50, size=25, replace=False).tolist()
        model.learn_one(dict.fromkeys(names, 1.0), "a")
        model.predict_one(dict.fromkeys(names, 1.0))
    assert model._raw_memory_usage <= memory + 4096


def test_learning_and_solving_take_two_grams():
    """One that is learnt, a copy of it that is factored, and little besides."""
    rows, labels = np.random.default_rng(0).normal(size=(3, 40, 1200)), np.arange(40) % 4
    gram, model = 8 * 1200**2, LeastSquaresClassifier(ridge=1.0)
    learning = laws.peak_of(lambda: [model.learn_many(X, labels) for X in rows])
    assert learning < 1.05 * gram + 4 * rows[0].nbytes
    assert laws.peak_of(lambda: model.output_weights) < 1.2 * gram
    assert model.output_weights.shape == (1200, 4)


def test_names_that_keep_coming_are_warned_of_once():
    model, words = LeastSquaresClassifier(1.0), [f"word{number}" for number in range(1300)]
    rows = [dict.fromkeys(words[start : start + 100], 1.0) for start in range(0, 1300, 100)]
    for x in rows[:10]:
        model.learn_one(x, True)
    with pytest.warns(UserWarning, match=r"many features by name.* 1,100\..*FeatureHasher") as seen:
        model.learn_one(rows[10], True)
    for x in rows[11:]:
        model.learn_one(x, True)
    assert [one.filename for one in seen] == [__file__]
    assert model.count == 13
    # A wide array, in a dict too, is meant.
    model = LeastSquaresClassifier(1.0)
    model.learn_one({"hour": 3.0}, True)
    model.learn_one({"hour": 2.0, "embedding": np.ones(1500)}, False)
    LeastSquaresClassifier(1.0).learn_many(np.ones((2, 1030)), [True, False])
