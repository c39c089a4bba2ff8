"""Rows of stream models in C: whatever else happens, models and answers are those without."""

import copy
import gc
import pickle
import random
import sys
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import StreamClassifier, StreamRegressor, core
from onlinels.core.apply import apply
from onlinels.core.constants import DUE_WEIGHT, KEPT, NEXT_DUE, ROWS_LEARNT
from onlinels.stream import base
from support import laws, strategies

pytestmark = pytest.mark.skipif(core.StreamRows is None, reason="the extension is not in use")

KINDS = StreamClassifier, StreamRegressor
NAMES = "abcde"


class Odd(dict):
    """A sample of another type."""


class Handed:
    """`StreamRows` that hand back all samples, which Python code then reads."""

    def __init__(self, **named):
        self.rows = core.StreamRows(**named)
        self.waits, self.forget = self.rows.waits, self.rows.forget

    def hand_over(self, *arguments):
        return NotImplemented

    scores = label = probabilities = normal = learn = hand_over

    def forecast(self, row, *others):
        return NotImplemented if type(row) is dict else self.rows.forecast(row, *others)

    def plan(self, row, *others):
        return NotImplemented if type(row) is dict else self.rows.plan(row, *others)


class Program:
    """Acts of the user of a stream model, which two models see alike."""

    def __init__(self, seed, kind):
        self.random, self.kind, self.samples = random.Random(seed), kind, []
        self.n_names = self.random.choice([1, 2, 3, 5])
        self.n_labels = self.random.choice([2, 3])
        # Most acts are those that C knows.
        self.share_odd = self.random.choice([0.0, 0.03, 0.2])
        self.has_texts, self.has_gaps = self.random.random() < 0.4, self.random.random() < 0.4

    def sample(self):
        draw, names = self.random, NAMES[: self.n_names]
        if self.samples and draw.random() < 0.1:
            return draw.choice(self.samples)
        x = {name: draw.gauss(3.0, 2.0) for name in names}
        if self.has_texts:
            x |= {"text": draw.choice(["a", "b", "b", None]), "other": draw.choice("cd")}
        if self.has_gaps and draw.random() < 0.3:
            x[draw.choice(names)] = draw.choice([None, np.nan])
        if draw.random() < self.share_odd:
            odd = draw.choice(
                ["absent", "zero", "gap", "text", "new", "type", "int", "huge", "order"]
            )
            name = draw.choice(names)
            changes = {"zero": -0.0, "gap": None, "text": "red", "int": 3, "huge": 1e145}
            x |= {name: changes[odd]} if odd in changes else {}
            x |= {f"new {draw.randrange(3)}": 1.0} if odd == "new" else {}
            if odd == "absent":
                x.pop(name)
            x = Odd(x) if odd == "type" else dict(reversed(x.items())) if odd == "order" else x
        self.samples = [*self.samples[-7:], x]
        return x

    def target(self, x):
        numbers = [value for value in x.values() if isinstance(value, float) and abs(value) < 100.0]
        total = sum(numbers) + 2.0 * (x.get("text") == "b") + self.random.gauss(0.0, 0.5)
        if self.kind is StreamRegressor:
            return total
        return "xyz"[int(total > 4.0) + (self.n_labels == 3 and total > 8.0)]

    def act(self):
        """Return a function of a model, which returns an answer or None."""
        draw, x, w = self.random, self.sample(), 1.0
        if draw.random() < self.share_odd:
            w = draw.choice([0.0, 0.5, 0.25, 2.0, 1])
        names = ["predict_proba_one", "predict_one", "scores_one", "margin_one"]
        if self.kind is StreamRegressor:
            names = ["predict_one", "predict_interval_one"]
        ask, y, roll = draw.choice(names), self.target(x), draw.random()
        if roll < 0.7:
            return lambda m: (getattr(m, ask)(x), m.learn_one(x, y, w))[0]
        if roll < 0.8:
            return lambda m: m.learn_one(x, y, w)
        if roll < 0.8 + 0.5 * self.share_odd:
            return lambda m: getattr(m, ask)(x)
        if roll < 0.9:
            return lambda m: (m.predict_one(x), getattr(m, ask)(x), m.learn_one(x, y))[1]
        others = [
            lambda m: m.count,
            lambda m: m.shares,
            lambda m: m.predict_many([x, *self.samples[:2]]),
            lambda m: m.predict_learn_many([x, x | {"a": 2.0}], [y, y]),
            lambda m: m.learn_many(np.ones((2, self.n_names)), [y, y]),
            lambda m: m.learn_one(x, None),
            lambda m: m.learn_one(x, y, -1.0),
            lambda m: m.learn_one([x], y),
            lambda m: pickle.loads(pickle.dumps(m)),
            copy.deepcopy,
            lambda m: onlinels.loads(onlinels.dumps(m)),
        ]
        return draw.choice(others if draw.random() < self.share_odd else others[:2])


def told_of(act, model):
    try:
        return act(model)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def approximate(told):
    """Return an answer for a comparison: probabilities are rounded in other ways."""
    if isinstance(told, list):
        return [approximate(each) for each in told]
    numbers = isinstance(told, dict) or (isinstance(told, tuple) and type(told[0]) is float)
    return pytest.approx(told, rel=1e-12, abs=1e-12) if numbers else told


def assert_alike(seed, kind, n_acts):
    """Assert that a model with rows in C and one without do the same; return how C was used."""
    program, models, used = Program(seed, kind), [kind(), kind()], 0
    for number in range(n_acts):
        act = program.act()
        found = told_of(act, models[0])
        used += models[0]._known.known_rows is not None
        with mock.patch.object(base, "StreamRows", Handed):
            expected = told_of(act, models[1])
        if isinstance(found, kind):
            models = [found, expected]
        else:
            assert found == approximate(expected), (seed, number)
        if number % 50 == 49:
            assert models[0]._state.waiting.matches == models[1]._state.waiting.matches
    assert laws.saved(models[0]) == laws.saved(models[1]), seed
    return used


@pytest.mark.filterwarnings("ignore::onlinels.DataWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 300), marks=pytest.mark.slow)])
def test_models_are_those_without_rows_in_c(kind, seeds):
    assert sum(assert_alike(seed, kind, 150) for seed in seeds) > 20 * len(seeds)


@pytest.mark.filterwarnings("ignore::onlinels.DataWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_stream_passes_what_is_due_after_so_many_rows(kind):
    """Labels are counted by 500, and a scale by 1,024; ridges are restored."""
    random_, models = np.random.default_rng(1), [kind(), kind()]
    for number, row in enumerate(random_.normal(size=(1300, 2)).tolist()):
        x = {"a": row[0], "b": row[1] + 0.01 * number}
        y = row[0] if kind is StreamRegressor else row[0] > 0.0
        for rows, model in zip((core.StreamRows, Handed), models, strict=True):
            with mock.patch.object(base, "StreamRows", rows):
                model.predict_one(x)
                model.learn_one(x, y)
    assert models[0]._state.waiting.matches == models[1]._state.waiting.matches
    assert laws.saved(models[0]) == laws.saved(models[1])


def trained(kind, n_rows=40):
    model = kind()
    for row in np.random.default_rng(2).normal(size=(n_rows, 3)).tolist():
        x = dict(zip("abc", row, strict=True))
        model.predict_one(x)
        model.learn_one(x, row[0] if kind is StreamRegressor else "yn"[row[0] > 0.0])
    return model


VALUES = np.random.default_rng(3).normal(size=(30, 3)).tolist()
SAMPLES = [dict(zip("abc", row, strict=True)) for row in VALUES]


@strategies.examples(20)
@given(st.sampled_from(KINDS), st.integers(0, 29), st.booleans(), st.sampled_from("cpd"))
def test_a_copy_goes_on_with_the_same_bits(kind, n_rows, is_asked, how):
    model = trained(kind)
    y = 0.5 if kind is StreamRegressor else "y"
    for x in SAMPLES[:n_rows]:
        model.predict_one(x)
        model.learn_one(x, y)
    if is_asked:
        model.predict_one(SAMPLES[-1])
    ways = {"c": copy.deepcopy, "p": pickle.dumps, "d": onlinels.dumps}
    made = ways[how](model)
    made = {"c": lambda m: m, "p": pickle.loads, "d": onlinels.loads}[how](made)
    assert laws.saved(made) == laws.saved(model)
    for x in SAMPLES[::-1]:
        assert made.predict_one(x) == model.predict_one(x)
        model.learn_one(x, y)
        made.learn_one(x, y)
    assert laws.saved(made) == laws.saved(model)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_rows_change_while_it_reads_reads_again(kind):
    """The sample calls the model, which learns rows in C meanwhile."""
    model, expected = trained(kind), trained(kind)
    y = 0.5 if kind is StreamRegressor else "y"

    class Calling(dict):
        def items(self):
            if not self.called:
                self.called = True
                for x in SAMPLES[:4]:
                    model.predict_one(x)
                    model.learn_one(x, y)
            return super().items()

    x = Calling(SAMPLES[5])
    x.called = False
    model.learn_one(x, y)
    for each in SAMPLES[:4]:
        expected.predict_one(each)
        expected.learn_one(each, y)
    expected.learn_one(Odd(SAMPLES[5]), y)
    assert model.count == expected.count == 45
    assert laws.saved(laws.unasked(model)) == laws.saved(laws.unasked(expected))


def arguments_of(kind):
    """Return the arguments of `StreamRows` for a model, and the model's state."""
    model = trained(kind)
    return laws.arguments_of_rows(model), model._state


def others_than(value):
    """Yield what is no such argument."""
    if isinstance(value, np.ndarray):
        yield from (value.astype(np.float32), None, "text")
        if value.size:
            yield value.ravel()[:-1].copy()
    elif isinstance(value, tuple):
        yield from (None, value[:-1], (*value, *value[:1])) if value else (None, ("y",))
    elif not isinstance(value, (int, float, dict)):
        yield from (object(), [], "text")


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_do_not_fit_are_refused(kind):
    """As in a file that somebody has changed."""
    named, _ = arguments_of(kind)
    core.StreamRows(**named)
    cases = [(name, other) for name, value in named.items() for other in others_than(value)]
    for number, array in enumerate(named["arrays"]):
        arrays = [*named["arrays"]]
        for arrays[number] in others_than(array):
            cases.append(("arrays", tuple(arrays)))
    for name, other in cases:
        is_tuple = name in ("arrays", "experts") and other is not None
        if is_tuple and len(other) > len(named[name]):
            continue  # What is more is not read.
        with pytest.raises((TypeError, ValueError, IndexError, BufferError)):
            core.StreamRows(**named | {name: other})


def forecast_and_learn(rows, x, forecast, y):
    assert rows.forecast(x, forecast, None) == ()
    apply(rows.plan(x, y, 1.0, forecast, 0.0, False, None))


def learn_in_turn(rows, numbers, x, y):
    """Learn a row at once, but if it makes a power of 2 rows, as Python code does then."""
    n_rows = int(numbers[ROWS_LEARNT])
    if n_rows & (n_rows + 1):
        assert rows.learn(x, y, 1.0) is None
    else:
        assert rows.learn(x, y, 1.0) is NotImplemented
        apply(rows.plan(x, y, 1.0, None, 0.0, False, None))
        rows.forget()


@pytest.mark.parametrize("kind", KINDS)
def test_no_memory_and_no_reference_is_lost(kind):
    (named, state), y = arguments_of(kind), {StreamRegressor: 0.5, StreamClassifier: "y"}[kind]
    # No row is due for Python code.
    state.plain.model._state.following.registers[[NEXT_DUE, DUE_WEIGHT]] = np.inf, 0.0
    odd = [{"a": "text"}, {"a": 1.0, "z": 1.0}, {}, Odd(SAMPLES[0]), {"a": 1e200}]
    kept = [SAMPLES[0], *SAMPLES[0], *SAMPLES[0].values(), *odd, *named.values()]
    numbers, forecast = named["arrays"][0], np.empty(state.size)
    row = np.array([*SAMPLES[0].values()]), ()
    column = {"y": 0, 0.5: 0.5}[y]

    def turn():
        rows = core.StreamRows(**named)
        for each in state.memories:
            each.factors[KEPT] = 1.0
        named["arrays"][1][:] = 0
        for x in SAMPLES[:5]:
            learn_in_turn(rows, numbers, x, y)
            for ask in (rows.scores, rows.label, rows.probabilities, rows.normal):
                ask(x)
            learn_in_turn(rows, numbers, x, y)
        for x in odd:
            assert rows.learn(x, y, 1.0) is rows.label(x) is NotImplemented or not x
        assert rows.learn(SAMPLES[0], None, 1.0) is NotImplemented
        rows.normal(SAMPLES[0])
        rows.label(SAMPLES[0])
        assert len(rows.waits()[1]) == 8 * len(forecast)
        rows.forget()
        assert rows.waits() is None
        forecast_and_learn(rows, SAMPLES[0], forecast, y)
        forecast_and_learn(rows, row, forecast, column)

    for _ in range(3):
        turn()
    gc.collect()
    tracemalloc.start()
    before, counts = tracemalloc.get_traced_memory()[0], [*map(sys.getrefcount, kept)]
    for _ in range(200):
        turn()
    gc.collect()
    more = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert more < 10_000
    assert [*map(sys.getrefcount, kept)] == pytest.approx(counts, abs=3)
