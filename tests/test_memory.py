"""No row is kept, models take the memory that they say and own it, and wide ones are warned of."""

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

from onlinels import Embedding, LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.from_sums import regressor_from_sums
from support import laws, models, savable_models
from support.laws import saved

# -- how much memory -------------------------------------------------------------------------------


def learn_batches(model, n_rows, random):
    for start in range(0, n_rows, 500):
        X = random.normal(size=(500, 12))
        model.learn_many(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1))
        if start % 10_000 == 0:
            model.predict_many(X[:2])


def learn_singly(model, n_rows, random):
    for row in random.normal(size=(n_rows, 5)).tolist():
        model.learn_one(dict(enumerate(row)), row[0] > 0)


SMALL = {"image_shape": (3, 4), "drop_ring": 0, "padding": 6}
SIZED = {
    **{
        f"{kind}, batches": (models.MODELS[kind], learn_batches, 4_000)
        for kind in ("gram", "orthogonal", "pipeline")
    },
    "network": (lambda: models.digits_network(100, **SMALL), learn_batches, 4_000),
    **{
        f"{kind}, rows": (models.MODELS[kind], learn_singly, 2_000)
        for kind in ("gram", "stream", "stream regressor")
    },
}


@pytest.mark.parametrize("kind", SIZED)
def test_size_does_not_depend_on_the_length_of_the_stream(kind):
    random, (make, learn, n_rows) = np.random.default_rng(0), SIZED[kind]
    model = make()
    tracemalloc.start()
    learn(model, 1000, random)
    size, memory = len(pickle.dumps(model)), model._raw_memory_usage
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    learn(model, n_rows, random)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # Room for larger counts, and caches of the interpreter; the rows would take 80 KB or more.
    assert abs(len(pickle.dumps(model)) - size) < 64
    assert model._raw_memory_usage <= memory + 256
    assert abs(grown) < 60_000


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


MADE = {
    "probes": lambda values: Embedding(lambda items: list(map(np.ravel, items)), list(values)),
    "sums": lambda values: regressor_from_sums(
        LeastSquaresRegressor(1.0),
        np.eye(3) + values[0],
        *values[1:3, 0],
        1.0,
        9.0,
        12,
        origin=values[3, 0],
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_arrays_that_hold_what_was_learnt_elsewhere_may_be_overwritten(name):
    values = np.full((4, 3, 3), 0.1)
    model = MADE[name](values)
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
