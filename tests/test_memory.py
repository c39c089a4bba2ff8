"""No row is kept, models take the memory that they say and own it, and wide ones are warned of."""

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

from onlinels import Embedding, LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.from_sums import regressor_from_sums
from support import laws, savable_models
from support.laws import saved

# -- how much memory -------------------------------------------------------------------------------


SIZED = "gram, {}", "orthogonal, {}", "stream", "stream of numbers", "scaled", "network"


@pytest.mark.parametrize("name", SIZED)
def test_size_does_not_depend_on_the_length_of_the_stream(name):
    random, (_, learn) = np.random.default_rng(1), savable_models.MODELS[name]
    tracemalloc.start()
    model = savable_models.learnt(name, 20)
    size, memory = len(pickle.dumps(model)), model._raw_memory_usage
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(60):
        learn(model, random)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # Room for larger counts, and caches of the interpreter; the rows would take 35 KB or more.
    assert len(pickle.dumps(model)) < size + 64
    assert model._raw_memory_usage <= memory + 256
    assert grown < 25_000


def test_names_that_change_in_every_row_leave_no_trace_but_their_columns():
    model, random, memory = LeastSquaresClassifier(), np.random.default_rng(0), []
    model.learn_one(dict.fromkeys(range(50), 1.0), "a")
    for _ in range(320):
        memory.append(model._raw_memory_usage)
        names = random.choice(50, size=25, replace=False).tolist()
        model.learn_one(dict.fromkeys(names, 1.0), "a")
        model.predict_one(dict.fromkeys(names, 1.0))
    assert max(memory) <= max(memory[:20]) + 4096


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


# -- arrays that go in and come out ----------------------------------------------------------------


class Recording:
    """A generator whose arrays are overwritten when those whom they were passed have read them."""

    def __init__(self, seed):
        self.generator, self.drawn = np.random.default_rng(seed), []

    def __getattr__(self, name):
        def draw(*arguments, **named):
            self.drawn.append(getattr(self.generator, name)(*arguments, **named))
            return self.drawn[-1]

        return draw

    def spoil(self):
        for each in self.drawn:
            if isinstance(each, np.ndarray):
                each[...] = 77


@pytest.mark.parametrize("name", savable_models.MODELS)
def test_arrays_that_a_model_was_made_of_or_has_learnt_may_be_overwritten(name):
    make, learn = savable_models.MODELS[name]
    random = Recording(0)
    model, other = make(np.random.default_rng(0)), make(random)
    for seed in (1, 2):
        random.spoil()
        assert saved(other) == saved(model)
        random = Recording(seed)
        learn(model, np.random.default_rng(seed))
        learn(other, random)
    random.spoil()
    assert saved(other) == saved(model)


def of_probes(values):
    return Embedding(lambda items: list(map(np.ravel, items)), list(values))


def of_sums(values):
    gram, (cross, sums, origin) = values[0], values[1:, 0]
    return regressor_from_sums(LeastSquaresRegressor(1.0), gram, cross, sums, 1.0, 9.0, 12, origin)


@pytest.mark.parametrize("make", [of_probes, of_sums])
def test_arrays_that_hold_what_was_learnt_elsewhere_may_be_overwritten(make):
    values = np.full((4, 3, 3), 0.1) + np.eye(3)
    model = make(values)
    before = saved(model)
    values[...] = 77.0
    assert saved(model) == before


@pytest.mark.parametrize("name", savable_models.LINEAR)
def test_arrays_that_were_returned_stay_as_they_are(name):
    model, (_, learn) = savable_models.learnt(name), savable_models.MODELS[name]
    taken = [getattr(model, each) for each in ("output_weights", "intercept", "ridge_diagonal")]
    before = copy.deepcopy(taken)
    for other in (model, copy.copy(model), pickle.loads(pickle.dumps(model))):
        learn(other, np.random.default_rng(1))
        for array, copied in zip(taken, before, strict=True):
            np.testing.assert_array_equal(array, copied)
