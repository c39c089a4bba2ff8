"""Samples, names, labels and weights whose own code calls the model in the middle of a call.

Such a change comes before the call or after it, as a whole, and the model works on.
"""

import copy
import random
from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    HiddenLayer,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    ShallowConvClassifier,
    StreamClassifier,
    StreamRegressor,
    WindowedClassifier,
)
from support.fault_injection import alike, plain


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


class Sample(Mapping):
    def __init__(self, known):
        self.known = known

    def __len__(self):
        CALLS.run()
        return len(self.known)

    def __iter__(self):
        CALLS.run()
        return iter(self.known)

    def __getitem__(self, name):
        CALLS.run()
        return self.known[name]


class Text(str):
    """A name or a label."""

    __slots__ = ()

    def __hash__(self):
        CALLS.run()
        return str.__hash__(self)

    def __eq__(self, other):
        CALLS.run()
        return str.__eq__(self, other)


class Label:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        CALLS.run()
        return hash(self.name)

    def __eq__(self, other):
        CALLS.run()
        return self.name == (other.name if isinstance(other, Label) else other)

    def __str__(self):
        return self.name

    def __repr__(self):
        return repr(self.name)


class Number:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        CALLS.run()
        return self.value


class Rows(list):
    def __len__(self):
        CALLS.run()
        return list.__len__(self)

    def __iter__(self):
        CALLS.run()
        return list.__iter__(self)

    def __getitem__(self, place):
        CALLS.run()
        return list.__getitem__(self, place)


class Array:
    """An array of another library."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        CALLS.run()
        return np.array(self.values, dtype)


def sample(*values):
    names = Text("a"), "b", Text("new")
    return Sample({name: Number(value) for name, value in zip(names, values, strict=False)})


RANDOM = np.random.default_rng(0)
X = [dict(zip("ab", row, strict=True)) for row in RANDOM.normal(size=(30, 2)).tolist()]
Y = [f"{row % 2}" for row in range(30)]
NUMBERS = [float(row % 5) for row in range(30)]
PAIRS = [{"p": number, "q": 1.0} for number in NUMBERS]


def taught(model, targets):
    for x, y in zip(X[:20], targets, strict=False):
        model.predict_one(x)
        model.learn_one(x, y)
    return model


def linear(kind, targets, **settings):
    return lambda: taught(kind(**settings), targets)


IMAGES = RANDOM.random((30, 6, 6))


def network(n_images, warm_up=12):
    model = ShallowConvClassifier.from_preset(
        "digits", n_hidden=6, warm_up=warm_up, image_shape=(6, 6), pool_size=3, padding=3
    )
    model.learn_many(IMAGES[:n_images], Y[:n_images])
    return model


CLASSIFIERS = {
    "auto": linear(LeastSquaresClassifier, Y),
    "number": linear(LeastSquaresClassifier, Y, ridge=1.0),
    "orthogonal": linear(LeastSquaresClassifier, Y, ridge=1.0, accumulator="orthogonal"),
    "recursive": linear(LeastSquaresClassifier, Y, ridge=1.0, accumulator="recursive"),
    "folds": linear(LeastSquaresClassifier, Y, ridge=KFold(2)),
    "priors": linear(LeastSquaresClassifier, Y, ridge=1.0, priors={Label("0"): 2.0}),
    "blank": lambda: LeastSquaresClassifier(1.0),
    "other labels": lambda: taught(LeastSquaresClassifier(1.0), [Label(y) for y in Y]),
    "stream": lambda: taught(StreamClassifier(), Y),
    "blank stream": StreamClassifier,
    "stream of other labels": lambda: taught(StreamClassifier(), [Label(y) for y in Y]),
    "calibrated": lambda: taught(CalibratedClassifier(LeastSquaresClassifier(1.0)), Y),
    "calibrated, paper": lambda: taught(CalibratedClassifier(LeastSquaresClassifier("paper")), Y),
    "drift": lambda: taught(DriftAwareClassifier(LeastSquaresClassifier(1.0)), Y),
    "pipeline": lambda: taught(
        CalibratedClassifier(HiddenLayer(3) | LeastSquaresClassifier(1.0)), Y
    ),
    "windowed": lambda: taught(WindowedClassifier(LeastSquaresClassifier(1.0), window=2, hop=1), Y),
}
REGRESSORS = {
    "regressor": linear(LeastSquaresRegressor, NUMBERS, ridge=1.0),
    "stream regressor": lambda: taught(StreamRegressor(), NUMBERS),
    "blank stream regressor": StreamRegressor,
}
SEVERAL = {"several": linear(LeastSquaresMultiTargetRegressor, PAIRS, ridge=1.0)}


def batch():
    return Rows([sample(0.5, 1.0), sample(-0.5, 2.0)])


LABELS = {
    "learn_one": lambda m: m.learn_one(sample(0.5, 1.0), Label("1")),
    "learn a plain row": lambda m: m.learn_one({"a": 0.5, "b": 1.0}, Label("1")),
    "learn a new class": lambda m: m.learn_one(sample(0.5, 1.0, 2.0), Label("new")),
    "learn_one, weighed": lambda m: m.learn_one(sample(0.5, 1.0), "1", Number(0.5)),
    "learn_many": lambda m: m.learn_many(batch(), Rows([Label("1"), Label("new")])),
    "predict_learn_many": lambda m: m.predict_learn_many(batch(), Rows([Label("1"), Label("new")])),
    "predict_proba_learn_many": lambda m: m.predict_proba_learn_many(
        batch(), Rows([Label("1"), Label("new")])
    ),
    "predict_one": lambda m: m.predict_one(sample(0.5, 1.0)),
    "predict_proba_one": lambda m: m.predict_proba_one(sample(0.5, 1.0)),
    "scores_one": lambda m: m.scores_one(sample(0.5, 1.0)),
    "predict_many": lambda m: m.predict_many(batch()),
    "predict_proba_many": lambda m: m.predict_proba_many(batch()),
    "variance_one": lambda m: m.variance_one(sample(0.5, 1.0)),
    "debug_one": lambda m: m.debug_one(sample(0.5, 1.0)),
    "unlearn_one": lambda m: m.unlearn_one(
        Sample({Text(name): Number(value) for name, value in X[1].items()}), Label("1")
    ),
    "unlearn_many": lambda m: m.unlearn_many(Rows(map(Sample, X[1:3])), Rows([Label("1"), "0"])),
    "observe_one": lambda m: m.observe_one(sample(0.5, 1.0)),
    "merge": lambda m: m.merge(
        taught(m.empty(), [Label(y) for y in Y]) if hasattr(m, "empty") else m
    ),
}
TARGETS = {
    "learn_one": lambda m: m.learn_one(sample(0.5, 1.0, 2.0), Number(3.0), Number(0.5)),
    "learn_many": lambda m: m.learn_many(batch(), Rows([Number(2.0), 1.0])),
    "predict_learn_many": lambda m: m.predict_learn_many(batch(), Rows([Number(2.0), 1.0])),
    "predict_one": lambda m: m.predict_one(sample(0.5, 1.0)),
    "interval": lambda m: m.predict_interval_one(sample(0.5, 1.0)),
    "predict_many": lambda m: m.predict_many(batch()),
    "intervals": lambda m: m.predict_interval_many(batch()),
    "unlearn_one": lambda m: m.unlearn_one(Sample(X[1]), Number(NUMBERS[1])),
}


def pair():
    return Sample({Text("p"): Number(3.0), "q": Number(1.0)})


PAIR_ACTS = {
    "learn_one": lambda m: m.learn_one(sample(0.5, 1.0), pair()),
    "learn_many": lambda m: m.learn_many(batch(), Rows([pair(), pair()])),
    "predict_one": lambda m: m.predict_one(sample(0.5, 1.0)),
}
CHANGES = {
    "a row": lambda m, y: m.learn_one({"a": 2.0, "b": 0.5}, y),
    "a new feature": lambda m, y: m.learn_one({"a": 2.0, "b": 0.5, "other": 1.0}, y),
    "no past": lambda m, y: m.fade(0.0),
    "a weaker past": lambda m, y: m.fade(0.5),
    "a question": lambda m, y: m.predict_one({"a": 2.0, "b": 0.25}),
}


def told(model):
    """Return what a model tells: of classes, counts and predictions."""
    found = [model.predict_one(X[25])]
    for name in ("count", "classes", "feature_names", "n_windows", "n_alarms"):
        if hasattr(model, name):
            found.append(getattr(model, name))
    # A row may count for the scale as it was scored before the change.
    if hasattr(model, "predict_proba_one") and not isinstance(model, CalibratedClassifier):
        found.append(model.predict_proba_one(X[25]))
    if isinstance(model, LeastSquaresClassifier):
        assert model._state.counts.sum() == model.count
    return found


def cases():
    """Return models, acts, targets and changes: all pairs of models and acts, with each change."""
    found = []
    for models, acts, y in (
        (CLASSIFIERS, LABELS, "new"),
        (REGRESSORS, TARGETS, 3.0),
        (SEVERAL, PAIR_ACTS, {"p": 3.0, "q": 2.0}),
    ):
        kinds = {name: type(make()) for name, make in models.items()}
        for name, act, change in product(models, acts, CHANGES):
            if hasattr(kinds[name], act.split(",")[0]) or " " in act or "interval" in act:
                found.append((f"{name}: {act}: {change}", models[name], acts[act], y, change))
    return found


CASES = cases()
# Every 37th pair, so that each model, each act and each change occurs.
SOME = [pytest.param(*case, 3, id=name) for name, *case in CASES[::37]]
ALL = [pytest.param(*c, 10**9, id=f"all, {n}", marks=pytest.mark.slow) for n, *c in CASES]


def outcome(act, model):
    """Return what an act on a model leaves and answers, in plain values."""
    answer = None
    try:
        answer = act(model)
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        answer = type(error).__name__
    if answer is model:
        answer = None
    return plain(answer)


def check(make, act, change, most, told, after):
    """Make a change at each place of the act; compare with the change before and after the act."""
    begun, expected = make(), []
    for steps in ((change, act), (act, change)):
        model = copy.deepcopy(begun)
        answers = [outcome(step, model) for step in steps]
        answer = answers[steps.index(act)]
        expected.append([answer, plain(told(model)), plain(after(model))])
    CALLS.count = 0
    outcome(act, copy.deepcopy(begun))
    places = range(1, CALLS.count + 1)
    if most < len(places):
        places = sorted(random.Random(0).sample(places, most))
    # Once at each place, and then at every place.
    for at in (*places, 0):
        model = copy.deepcopy(begun)
        CALLS.count, CALLS.at, CALLS.again = 0, at or 1, not at
        CALLS.hook = lambda model=model: outcome(change, model)
        try:
            answer = outcome(act, model)
        finally:
            CALLS.at = 0
        if CALLS.count < at:
            continue  # Equal labels were compared less often than in the copy before.
        found = [answer, plain(told(model)), plain(after(model))]
        assert not at or any(alike(found, each) for each in expected), (at, found, expected)


def after(model):
    """Let a model go on; return what it tells."""
    y = Y if hasattr(model, "predict_proba_one") else NUMBERS
    y = PAIRS if hasattr(model, "target_names") else y
    for row in range(3):
        model.predict_one(X[20 + row])
        model.learn_one(X[20 + row], y[20 + row])
    return told(model)


@pytest.mark.parametrize(("make", "act", "y", "change", "most"), [*SOME, *ALL])
def test_a_change_within_a_call_comes_before_or_after_it(make, act, y, change, most):
    if "past" in change and not hasattr(make(), "fade"):
        pytest.skip("such a model has no fade")
    check(make, act, lambda m: CHANGES[change](m, y), most, told, after)


def images(*numbers):
    return Array(IMAGES[list(numbers)])


OF_IMAGES = {
    "learn_one": lambda m: m.learn_one({"image": Array(IMAGES[20])}, Label("1"), Number(0.5)),
    "learn_many": lambda m: m.learn_many(images(20, 21), Rows([Label("1"), Label("new")])),
    "predict_learn_many": lambda m: m.predict_learn_many(images(20, 21), Rows([Label("1"), "0"])),
    "predict_one": lambda m: m.predict_one({"image": Array(IMAGES[20])}),
    "unlearn_one": lambda m: m.unlearn_one({"image": Array(IMAGES[1])}, Label("1")),
    "merge": lambda m: m.merge(network(3)) if not m.features_fixed else None,
}


@pytest.mark.parametrize("most", [3, pytest.param(10**9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("act", OF_IMAGES)
@pytest.mark.parametrize("n_images", [6, 11, 14])
def test_networks(n_images, act, most):
    """The eleventh and twelfth images end the warm-up."""

    def told_of_images(model):
        return [model.count, sorted(map(str, model.classes)), model.features_fixed]

    def go_on(model):
        model.learn_many(IMAGES[24:28], Y[24:28])
        model.predict_one({"image": IMAGES[28]})
        return told_of_images(model)

    def change(model):
        model.learn_one({"image": IMAGES[22]}, "other")

    check(lambda: network(n_images), OF_IMAGES[act], change, most, told_of_images, go_on)
