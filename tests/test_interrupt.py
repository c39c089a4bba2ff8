"""A call has happened or has not: when it is interrupted, and when a change or a fork comes in it.

Afterwards the model works on, as it was before the call or as it is after it.
"""

import copy
import os
import pickle
import random
import threading
from collections import UserDict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from river import drift
from sklearn.base import clone

import onlinels
from onlinels import (
    ConvolutionalFeatures,
    DriftAwareClassifier,
    Embedding,
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
    WindowedClassifier,
)
from onlinels.sklearn import IncrementalRidge, IncrementalRidgeClassifier
from support import laws, models, strategies
from support.fault_injection import alike, assert_before_or_after, elsewhere, plain
from support.processes import forked

# Between the opening of a file and the with-block that closes it Python itself has to close it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Features are made from few:UserWarning"),
    pytest.mark.filterwarnings("ignore:X (lacks|has more) columns:UserWarning"),
]

# -- models, and what is done with them ------------------------------------------------------------

RECURSIVE = "recursive"
RANDOM = np.random.default_rng(0)
X = [dict(zip("bac", row, strict=True)) for row in RANDOM.normal(size=(60, 3)).tolist()]
Y = [str(k) for k in (*RANDOM.integers(0, 3, 18), 5, 5, *RANDOM.integers(0, 3, 39), 7)]
NUMBERS = [float(row % 5) for row in range(60)]
PAIRS = [{"p": number, "q": 1.0} for number in NUMBERS]
IMAGES = [{"image": image} for image in RANDOM.random((60, 6, 6))]
TEXTS = [{"id": f"text {row}"} for row in range(60)]
TURNED, TURNED_LABELS = strategies.turned_labels(300, 200, seed=5)


def taught(model, X, y):
    """Return a model of 26 rows, some of them predicted first and some learnt as a batch."""
    for row in range(26):
        if row in (9, 10):
            model.predict_one(X[row])
        if row not in (18, 19):
            model.learn_one(X[row], y[row])
        if row == 19:
            model.learn_many(X[18:20], y[18:20])
    return model


def of_rows(make):
    return lambda X, y: taught(make(), X, y)


def of_images(n_images):
    def make(X, y):
        model = ShallowConvClassifier(
            ConvolutionalFeatures(pool_size=3, stride=3, padding=3),
            HiddenLayer(6, "difference"),
            LeastSquaresClassifier(1.0, fit_intercept=False),
            warm_up=12,
        )
        return laws.fitted(model, stacked(X[:n_images]), y[:n_images])

    return make


def stacked(rows):
    return np.array([next(iter(x.values())) for x in rows])


def as_table(rows):
    return np.array([list(x.values()) for x in rows])


def asked(X, y):
    """Return a stream whose last row, and its forecast, only C knows."""
    model = taught(StreamClassifier(), X, y)
    model.predict_one(X[26])
    return model


def takeover(X, y):
    """Return a stream whose short memory is about to do clearly better."""
    rows = [dict(enumerate(row)) for row in TURNED[:234].tolist()]
    return laws.fitted(StreamClassifier(), [*rows, *X[:26]], [*TURNED_LABELS[:234], *y[:26]])


def learn_batch(model, X, y):
    model.learn_many(X, y)


def answers_to(model, rows):
    ask = getattr(model, "predict_proba_one", None) or model.predict_one
    return [ask(x) for x in rows]


@dataclass
class Subject:
    """A model, the rows that it knows, and how it takes them."""

    make: Callable[..., Any]
    y: list[Any] = field(default_factory=lambda: Y)
    X: list[Any] = field(default_factory=lambda: X)
    batch: Callable[..., Any] = list
    learn: Callable[..., Any] = learn_batch
    ask: Callable[..., Any] = answers_to
    empty: Callable[..., Any] = lambda model: model.empty()

    @cached_property
    def made(self):
        return pickle.dumps(self.make(self.X, self.y))

    def begun(self):
        return pickle.loads(self.made)

    def tell(self, model):
        """Return what a model tells: of rows, names, numbers and predictions."""
        names = "count", "classes", "feature_names", "n_windows", "n_alarms", "features_fixed"
        names = *names, "output_weights", "intercept", "ridge_", "coef_", "alpha_", "shares"
        told = [getattr(model, name) for name in names if hasattr(model, name)]
        return [*told, self.ask(model, self.X[20:23])]

    def go_on(self, model):
        for rows in (slice(40, 44), slice(44, 45)):
            self.learn(model, self.batch(self.X[rows]), self.y[rows])
            self.ask(model, self.X[5:6])

    def other(self, model):
        other = self.empty(model)
        self.learn(other, self.batch(self.X[30:38]), [*self.y[30:37], self.y[-1]])
        return other


TARGETS = dict.fromkeys(models.REGRESSORS, NUMBERS)
TARGETS |= dict.fromkeys(("several", "several of folds"), PAIRS)
MADE = models.MODELS | {
    "paper, forgetting": partial(LeastSquaresClassifier, "paper", forgetting_factor=0.9),
    "recursive, forgetting": partial(LeastSquaresClassifier, 1.0, RECURSIVE, forgetting_factor=0.8),
    "equal priors": partial(LeastSquaresClassifier, priors="equal"),
    # One reading leaves a window due with the next, this one does not.
    "windowed, 3": lambda: WindowedClassifier(LeastSquaresClassifier(1.0), window=3, hop=2),
}
PIPELINES = "pipeline", "regressor behind hidden units"
"""What river holds together, not the package."""
TAUGHT = {
    **{
        name: Subject(of_rows(make), TARGETS.get(name, Y))
        for name, make in MADE.items()
        if name not in PIPELINES
    },
    "blank": Subject(lambda X, y: LeastSquaresClassifier(1.0)),
    "blank stream": Subject(lambda X, y: StreamClassifier()),
    "network that waits": Subject(of_images(8), X=IMAGES, batch=stacked),
    "network of warm-up": Subject(of_images(11), X=IMAGES, batch=stacked),
    "network": Subject(of_images(26), X=IMAGES, batch=stacked),
}
WAITING = {
    "asked": Subject(asked),
    "late": Subject(lambda X, y: laws.learnt_late(X[:29], y)),
    "texts": Subject(of_rows(StreamClassifier), X=TEXTS),
    "takeover": Subject(
        takeover, TURNED_LABELS[234:], [dict(enumerate(row)) for row in TURNED[234:].tolist()]
    ),
}
ESTIMATORS = {
    kind.__name__: Subject(
        lambda X, y, kind=kind: kind().partial_fit(as_table(X[:26]), y[:26]),
        [row % 2 for row in range(60)],
        batch=as_table,
        learn=lambda model, X, y: model.partial_fit(X, y),
        ask=lambda model, rows: model.predict(as_table(rows)),
        empty=clone,
    )
    for kind in (IncrementalRidge, IncrementalRidgeClassifier)
}
SUBJECTS = TAUGHT | WAITING | ESTIMATORS


def widened(rows):
    return [x | {"new": 1.5 * number} for number, x in enumerate(rows)]


def batch(s, of, *rows):
    rows = slice(*rows)
    return of(s.batch(s.X[rows])), of(s.y[rows])


ACTS = {
    "learn_one": lambda m, s, of: m.learn_one(of(s.X[26]), of(s.y[26])),
    "learn_one, another": lambda m, s, of: m.learn_one(of(s.X[27]), of(s.y[26])),
    "learn_one, weighed": lambda m, s, of: m.learn_one(of(s.X[26]), of(s.y[26]), of(2.5)),
    "learn_one, new": lambda m, s, of: m.learn_one(of(s.X[26] | {"new": 2.0}), of(s.y[-1])),
    "learn_many": lambda m, s, of: m.learn_many(*batch(s, of, 26, 35)),
    "learn_many, long": lambda m, s, of: m.learn_many(*batch(s, of, 50), np.arange(50.0)),
    "learn_many, new": lambda m, s, of: m.learn_many(of(widened(s.X[:9])), of(s.y[-9:])),
    "learn_many, refused": lambda m, s, of: m.learn_many([s.X[26], {"d": []}], of(s.y[:2])),
    "predict_learn_many": lambda m, s, of: m.predict_learn_many(*batch(s, of, 26, 31)),
    "predict_proba_learn_many": lambda m, s, of: m.predict_proba_learn_many(*batch(s, of, 26, 31)),
    "observe_one": lambda m, s, of: m.observe_one(of(s.X[26])),
    "unlearn_one": lambda m, s, of: m.unlearn_one(of(s.X[1]), of(s.y[1])),
    "unlearn_many": lambda m, s, of: m.unlearn_many(*batch(s, of, 6)),
    "unlearn_many, a class": lambda m, s, of: m.unlearn_many(*batch(s, of, 18, 20)),
    "unlearn_many, all": lambda m, s, of: m.unlearn_many(*batch(s, of, 26)),
    "merge": lambda m, s, of: m.merge(s.other(m)),
    "fade, weaker": lambda m, s, of: m.fade(0.25),
    "fade, nothing": lambda m, s, of: m.fade(0.0),
    "ridge": lambda m, s, of: setattr(m, "ridge", 3.0),
    "fix_features": lambda m, s, of: m.fix_features(),
    "predict_one": lambda m, s, of: m.predict_one(of(s.X[50])),
    "predict_proba_one": lambda m, s, of: m.predict_proba_one(of(s.X[50])),
    "scores_one": lambda m, s, of: m.scores_one(of(s.X[2])),
    "variance_one": lambda m, s, of: m.variance_one(of(s.X[2])),
    "debug_one": lambda m, s, of: m.debug_one(of(s.X[2])),
    "predict_interval_one": lambda m, s, of: m.predict_interval_one(of(s.X[50])),
    "predict_many": lambda m, s, of: m.predict_many(batch(s, of, 48, 52)[0]),
    "predict_proba_many": lambda m, s, of: m.predict_proba_many(batch(s, of, 48, 52)[0]),
    "fit": lambda m, s, of: m.fit(*batch(s, of, 26)),
    "partial_fit": lambda m, s, of: m.partial_fit(*batch(s, of, 26, 35)),
    "unlearn": lambda m, s, of: m.unlearn(*batch(s, of, 2)),
    "predict": lambda m, s, of: m.predict(batch(s, of, 3)[0]),
    "__deepcopy__": lambda m, s, of: copy.deepcopy(m),
    "save": lambda m, s, of: laws.saved(m),
}
"""What is done, by a method's name, with what the caller passes made `of` plain values."""


def cases(subjects, acts):
    """Return the names of models with those of what they can do."""
    can = {name: subjects[name].begun() for name in subjects}
    return [
        each for each in product(subjects, acts) if hasattr(can[each[0]], each[1].split(",")[0])
    ]


def some_and_all(cases, every, most):
    """Return cases for `parametrize`, with how often each is tried; by default some of them."""
    slow = pytest.mark.slow
    every_one = [
        pytest.param(*each, 200, id=f"all, {': '.join(each)}", marks=slow) for each in cases
    ]
    return [*(pytest.param(*each, most, id=": ".join(each)) for each in cases[::every]), *every_one]


# -- interrupts ------------------------------------------------------------------------------------


def interrupt(subject, act, most):
    s = SUBJECTS[subject]

    def do(model):
        return ACTS[act](model, s, lambda value: value)

    assert_before_or_after(s.begun(), do, s.go_on, s.tell, most, f"{subject} {act}")


@pytest.mark.parametrize(
    ("subject", "act", "most"), some_and_all(cases(SUBJECTS, ACTS), every=5, most=4)
)
def test_an_interrupted_call_has_happened_or_has_not(subject, act, most):
    interrupt(subject, act, most)


def test_an_interrupted_batch_moves_no_clock_unless_it_is_learnt():
    """What comes later, at a time between, tells where the clock is."""
    model = LeastSquaresRegressor(1.0, half_life=5.0)
    model.learn_many(X[:26], NUMBERS[:26], t=0.0)
    assert_before_or_after(
        model,
        lambda model: model.predict_learn_many(X[26:31], NUMBERS[26:31], t=9.0),
        lambda model: model.learn_many(X[31:40], NUMBERS[31:40], t=6.0),
        lambda model: model.output_weights,
        most=40,
    )


@pytest.mark.parametrize("subject", ["gram", "recursive", "orthogonal"])
def test_an_interrupted_batch_of_several_blocks_has_happened_or_has_not(subject, monkeypatch):
    laws.small_blocks(monkeypatch)
    interrupt(subject, "learn_many, long", 8)


# -- changes within a call -------------------------------------------------------------------------


class Calls:
    """Counts the calls of the caller's own code; makes one call at a given one, or at all after."""

    def __init__(self):
        self.count, self.at, self.again, self.hook, self.is_inside = 0, 0, False, None, False

    def run(self):
        if self.is_inside:
            return
        self.count += 1
        if self.count == self.at or (self.again and 0 < self.at < self.count):
            self.is_inside = True
            try:
                self.hook()
            finally:
                self.is_inside = False


CALLS = Calls()


def calling(base, *methods):
    """Return a class whose methods are the caller's own code."""

    def counted(name):
        def method(self, *arguments, **named):
            CALLS.run()
            return getattr(base, name)(self, *arguments, **named)

        return method

    return type(base.__name__, (base,), {name: counted(name) for name in methods})


@dataclass(frozen=True)
class Held:
    value: Any

    def __float__(self):
        return self.value


class HeldArray:
    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


READ = "__len__", "__iter__", "__getitem__"
Sample, Rows = calling(UserDict, *READ), calling(list, *READ)
Text = calling(str, "__hash__", "__eq__")
Number, Array = calling(Held, "__float__"), calling(HeldArray, "__array__")


def own(value):
    """Return what holds the same as a plain value, and is read by the caller's own code."""
    if isinstance(value, dict):
        return Sample({own(name): own(each) for name, each in value.items()})
    kinds = {list: lambda rows: Rows(map(own, rows)), str: Text, float: Number, np.ndarray: Array}
    return kinds.get(type(value), lambda value: value)(value)


CHANGES = {
    "a row": lambda m, s: m.learn_one(s.X[52], s.y[-1]),
    "a new feature": lambda m, s: m.learn_one(s.X[52] | {"other": 1.0}, s.y[-1]),
    "no past": lambda m, s: m.fade(0.0),
    "a weaker past": lambda m, s: m.fade(0.5),
    "a question": lambda m, s: m.predict_one(s.X[52]),
}


def outcome(act, model):
    """Return what an act on a model answers, in plain values, or the name of its error."""
    try:
        answer = act(model)
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        return type(error).__name__
    return plain(None if answer is model else answer)


READERS = [name for name in ACTS if not name.startswith(("fade", "ridge", "fix", "__", "save"))]
CHANGED = [(*case, change) for case, change in product(cases(TAUGHT, READERS), CHANGES)]


@pytest.mark.parametrize(
    ("subject", "act", "change", "most"), some_and_all(CHANGED, every=37, most=3)
)
def test_a_change_within_a_call_comes_before_or_after_it(subject, act, change, most):
    s, begun, expected = SUBJECTS[subject], SUBJECTS[subject].begun(), []

    def do(model):
        return ACTS[act](model, s, own)

    def alter(model):
        return CHANGES[change](model, s)

    def found(model, answer):
        told = plain(s.tell(model))
        s.go_on(model)
        return [answer, told, plain(s.tell(model))]

    for steps in ((alter, do), (do, alter)):
        model = copy.deepcopy(begun)
        answers = {step: outcome(step, model) for step in steps}
        expected.append(found(model, answers[do]))
    CALLS.count = 0
    outcome(do, copy.deepcopy(begun))
    places = range(1, CALLS.count + 1)
    if most < len(places):
        places = sorted(random.Random(0).sample(places, most))
    # Once at each place, and then at every place.
    for at in (*places, 0):
        model = copy.deepcopy(begun)
        CALLS.count, CALLS.at, CALLS.again = 0, at or 1, not at
        CALLS.hook = lambda model=model: outcome(alter, model)
        try:
            answer = outcome(do, model)
        finally:
            CALLS.at = 0
        if CALLS.count < at:
            continue  # Equal labels were compared less often than in the copy before.
        after = found(model, answer)
        assert not at or any(alike(after, each) for each in expected), (at, after, expected)


# -- forks -----------------------------------------------------------------------------------------

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@contextmanager
def running(*acts):
    """Run acts in threads of their own, which end after the block."""
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def calling_back(hook):
    """Return a model of which a call calls a function of the user's own, in the middle."""

    def embed(items):
        hook(items)
        return [[float(item), 1.0] for item in items]

    linear = Embedding(embed, [1.0, 2.0]) | LeastSquaresClassifier(1.0)
    return DriftAwareClassifier(linear, drift.NoDrift())


@forks
def test_a_process_that_is_forked_inside_a_call_goes_on_with_the_model():
    results = []

    def hook(items):
        if items == [2.0]:
            results.append(forked(lambda: model.predict_one({"item": 3.0})))

    model = calling_back(hook)
    with running(lambda: model.learn_one({"item": 2.0}, "b")):
        pass
    model.learn_one({"item": 3.0}, "a")
    assert results == [0]


@forks
def test_a_model_that_a_thread_of_another_process_uses_is_refused():
    begun, ended = threading.Event(), threading.Event()

    def hook(items):
        if items == [2.0]:
            begun.set()
            ended.wait()

    busy, free = calling_back(hook), calling_back(lambda items: None)

    def check(n_forks=2):
        elsewhere(lambda: free.learn_one({"item": 1.0}, "a"))
        for call in (busy.predict_one, lambda x: onlinels.dumps([free, busy])):
            with pytest.raises(RuntimeError, match="was forked"):
                call({"item": 1.0})
        assert n_forks == 0 or forked(lambda: check(n_forks - 1)) == 0

    with running(lambda: busy.learn_one({"item": 2.0}, "b")):
        begun.wait()
        try:
            assert forked(check) == 0
        finally:
            ended.set()
    assert forked(lambda: busy.predict_one({"item": 1.0})) == 0
