"""Whatever is raised while a model changes: it has changed as a whole, or not at all.

`python tests/test_interrupts.py` raises at every instruction of every operation, which takes long.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import random
import sys
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from injection import (
    Allocations,
    Injected,
    answers_of,
    digest,
    n_instructions,
    raised_at,
    same_answers,
    state_of,
)
from onlinels import (
    GramAccumulator,
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    OrthogonalAccumulator,
    RecursiveAccumulator,
)
from onlinels.accumulators.centred import CentredAccumulator

ERRORS = KeyboardInterrupt, MemoryError, Injected
N_SAMPLED = 4
"""Instructions of every operation at which an error is raised in continuous integration."""

SETTINGS = {
    "gram": {"ridge": 1.0},
    "gram-plain": {"ridge": 1.0, "fit_intercept": False},
    "gram-auto": {},
    "gram-paper": {"ridge": "paper", "forgetting_factor": 0.9},
    "gram-auto-forgetting": {"forgetting_factor": 0.9, "fit_intercept": False},
    "gram-folds": {"ridge": KFold(3)},
    "gram-folds-plain": {"ridge": KFold(2), "fit_intercept": False, "forgetting_factor": 0.9},
    "gram-half-life": {"ridge": 1.0, "half_life": 5.0},
    "gram-classwise": {"balance": "classwise"},
    "gram-priors": {"ridge": 1.0, "balance": "priors"},
    "orthogonal": {"ridge": 1.0, "accumulator": "orthogonal"},
    "orthogonal-plain": {"accumulator": "orthogonal", "fit_intercept": False},
    "orthogonal-forgetting": {
        "ridge": "paper",
        "accumulator": "orthogonal",
        "forgetting_factor": 0.9,
    },
    "orthogonal-classwise": {"ridge": 1.0, "accumulator": "orthogonal", "balance": "classwise"},
    "recursive": {"ridge": 1.0, "accumulator": "recursive"},
    "recursive-plain": {"ridge": 1.0, "accumulator": "recursive", "fit_intercept": False},
    "recursive-auto": {"accumulator": "recursive"},
    "recursive-paper": {"ridge": "paper", "accumulator": "recursive", "fit_intercept": False},
    "recursive-forgetting": {
        "ridge": 1.0,
        "accumulator": "recursive",
        "forgetting_factor": 0.9,
    },
    "recursive-forgetting-auto": {
        "accumulator": "recursive",
        "forgetting_factor": 0.8,
        "fit_intercept": False,
    },
}
NAMES = "b", "a", "c"


def stream(n_rows, seed=0):
    drawn = np.random.default_rng(seed)
    X = [dict(zip(NAMES, row, strict=True)) for row in drawn.normal(size=(n_rows, 3)).tolist()]
    return X, drawn.integers(0, 3, n_rows).tolist()


X, Y = stream(60)


def widened(rows):
    return [x | {"new": 1.5 * number} for number, x in enumerate(rows)]


OPERATIONS = {
    "one row": lambda m: m.learn_one(X[5], Y[5]),
    "a row in turns": lambda m: in_turns_of_one(m),
    "a weighed row": lambda m: m.learn_one(X[5], Y[5], 2.5),
    "a new feature": lambda m: m.learn_one(X[5] | {"new": 2.0}, Y[5]),
    "a new class": lambda m: m.learn_one(X[5], 7),
    "a batch": lambda m: m.learn_many(X[:9], Y[:9]),
    "a weighed batch": lambda m: m.learn_many(X[:9], Y[:9], np.arange(9.0)),
    "a long batch": lambda m: m.learn_many(X[:50], Y[:50]),
    "new features and classes": lambda m: m.learn_many(widened(X[:9]), [*Y[:6], 8, 9, 8]),
    "a prediction": lambda m: m.predict_one(X[3]),
    "predictions": lambda m: m.predict_many(X[:3]),
    "a ridge": lambda m: m.ridge_,
    "another ridge": lambda m: setattr(m, "ridge", 3.0),
    "predictions at another ridge": lambda m: m.predict_many(X[:3]),
    "a row at another ridge": lambda m: m.learn_one(X[5], Y[5]),
    "less of the past": lambda m: m.fade(0.75),
    "much less of the past": lambda m: m.fade(0.25),
    "nothing of the past": lambda m: m.fade(0.0),
    "another model": lambda m: m.merge(other_of(m)),
    "a copy": copy.deepcopy,
    "unlearning a row": lambda m: m.unlearn_one(X[1], Y[1]),
    "unlearning a batch": lambda m: m.unlearn_many(X[:6], Y[:6]),
    "unlearning a class": lambda m: m.unlearn_many(X[18:20], [5, 5]),
    "unlearning all": lambda m: m.unlearn_many([*X[:18], *X[18:20], *X[20:26]], taught()),
}


def taught():
    return [*Y[:18], 5, 5, *Y[20:26]]


def in_turns_of_one(model):
    model.predict_one(X[5])
    model.learn_one(X[5], Y[5])


def other_of(model):
    other = model.empty()
    other.learn_many(widened(X[30:38]), [*Y[30:36], 11, 12])
    return other


BEGUN = {}


def prepared(settings, kind=LeastSquaresClassifier):
    """Return a model that has learnt 26 rows: the last 6 wait, where rows wait at all."""
    labels = taught() if kind is LeastSquaresClassifier else [float(y) for y in taught()]
    if kind is LeastSquaresMultiTargetRegressor:
        labels = [{"u": y, "v": 1.0 - y} for y in labels]
    begun = str((kind, settings))
    if begun not in BEGUN:
        model = kind(**settings)
        for x, y in zip(X[:18], labels, strict=False):
            model.learn_one(x, y)
            if x is X[9]:
                model.predict_one(x)
        model.learn_many(X[18:20], labels[18:20])
        BEGUN[begun] = pickle.dumps(model)
    model = pickle.loads(BEGUN[begun])
    for x, y in zip(X[20:26], labels[20:], strict=True):
        model.learn_one(x, y)
    return model


def at_another_ridge(model, operation):
    """Set a ridge that operations at another one find."""
    if operation.endswith("at another ridge") and not isinstance(model.ridge, KFold):
        model.ridge = 3.0 if model.ridge != 1.0 else "paper"
    return model


class Case:
    """An operation on a model, and what may be left of it when an error is raised."""

    def __init__(self, make, operation, after=None):
        self.make, self.operation = make, operation
        self.carry_on = after or (lambda model: model.learn_many(X[40:44], Y[40:44]))
        counted, before, done = make(), make(), make()
        self.n_instructions = n_instructions(lambda: operation(counted))
        try:
            operation(done)
        except ValueError:
            # Refused (the orthogonal form does not unlearn): it is as before in any case.
            done = make()
        self.outcomes = [self.outcome(before), self.outcome(done)]

    def outcome(self, model):
        # A ridge that was set enters statistics that hold it when somebody asks: here.
        answers, state = answers_of(model), state_of(model)
        self.carry_on(model)
        return state, answers, answers_of(model)

    def check(self, model, where, raised=True):
        """Raise unless the model is as before or as after; as after, if nothing came out.

        A row that was read with all checks because of an error is let in another time: the sums
        are then rounded otherwise.
        """
        state, answers, later = self.outcome(model)
        for expected, its_answers, its_later in self.outcomes[0 if raised else 1 :]:
            if state == expected or not raised:
                assert same_answers(answers, its_answers), f"other answers {where}"
                assert same_answers(later, its_later), f"goes on otherwise {where}"
                return
        raise AssertionError(f"neither as before nor as after {where}")

    def interrupted(self, at, error):
        model = self.make()
        raised = True
        with suppress(ValueError):
            raised = raised_at(lambda: self.operation(model), at, error)
        self.check(model, f"{error.__name__} at {at} of {self.n_instructions}", raised)

    def places(self, n_places, seed):
        drawn = random.Random(seed)
        places = range(1, self.n_instructions + 1)
        return drawn.sample(places, min(n_places, len(places)))


@pytest.fixture(autouse=True)
def soon_enough(monkeypatch):
    """Let the ridge be chosen, and batches be cut, where there are few rows."""
    patch(monkeypatch.setattr)


def patch(setattr_):
    setattr_("onlinels.choice.FIRST_ROWS", 32)
    setattr_("onlinels.accumulators.corrected.N_RECENT", 64)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_an_error_anywhere_leaves_all_or_nothing(settings, operation):
    make = partial(at_another_ridge, operation=operation)
    case = Case(lambda: make(prepared(SETTINGS[settings])), OPERATIONS[operation])
    for number, at in enumerate(case.places(N_SAMPLED, settings + operation)):
        case.interrupted(at, ERRORS[number % len(ERRORS)])


@pytest.fixture
def small_blocks(monkeypatch):
    """Let batches of few rows be learnt in several commits."""
    cut_small(monkeypatch.setattr)


def cut_small(setattr_):
    setattr_("onlinels.letting_in.LEAST_ROWS", 4)
    setattr_("onlinels.accumulators.base.LEAST_ROWS", 4)
    setattr_("onlinels.accumulators.planning.LEAST_ROWS", 4)
    setattr_("onlinels.accumulators.recursion.BLOCK_ROWS", 2)
    setattr_("onlinels.accumulators.recursion.TOGETHER", 3)
    setattr_("onlinels.checks.BLOCK_BYTES", 64)


@pytest.mark.parametrize("operation", ["a long batch", "new features and classes", "one row"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_batches_of_several_commits_are_learnt_whole(settings, operation, small_blocks):
    case = Case(lambda: prepared(SETTINGS[settings]), OPERATIONS[operation])
    for number, at in enumerate(case.places(2 * N_SAMPLED, settings)):
        case.interrupted(at, ERRORS[number % len(ERRORS)])


def test_rows_that_are_left_waiting_are_the_model_s_own(small_blocks):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    labels = (rows[:, 0] > 0.0).tolist()

    def interrupted(at):
        model, mine = LeastSquaresClassifier(ridge=1.0), rows.copy()
        raised_at(lambda: model.learn_many(mine, labels), at, KeyboardInterrupt)
        mine[:] = np.nan
        return model

    whole, sizes = LeastSquaresClassifier(ridge=1.0), set()
    whole.learn_many(rows, labels)
    n_places = n_instructions(lambda: LeastSquaresClassifier(ridge=1.0).learn_many(rows, labels))
    for at in range(1, n_places, 97):
        model = interrupted(at)
        sizes.add(len(model._gathered or ()))
        if model.count:
            np.testing.assert_allclose(model.output_weights, whole.output_weights)
    assert len(sizes) > 3


@pytest.mark.parametrize("settings", ["gram-auto", "orthogonal", "recursive", "recursive-auto"])
@pytest.mark.parametrize("kind", [LeastSquaresRegressor, LeastSquaresMultiTargetRegressor])
def test_an_error_anywhere_in_a_regressor_leaves_all_or_nothing(settings, kind):
    def target(y):
        return {"v": 2.0 - y, "u": float(y)} if kind is LeastSquaresMultiTargetRegressor else y

    labels = [target(y) for y in Y]
    operations = [
        lambda m: m.learn_one(X[5], labels[5]),
        lambda m: m.learn_many(X[:9], labels[:9], 2.0),
        lambda m: m.learn_many(widened(X[:40]), labels[:40]),
        lambda m: m.unlearn_many(X[:6], labels[:6]),
        lambda m: m.predict_many(X[:3]),
        lambda m: m.fade(0.3),
    ]
    for operation in operations:
        make = partial(prepared, SETTINGS[settings], kind)
        case = Case(make, operation, lambda m: m.learn_many(X[40:44], labels[40:44]))
        for number, at in enumerate(case.places(N_SAMPLED, settings)):
            case.interrupted(at, ERRORS[number % len(ERRORS)])


@pytest.mark.parametrize("settings", ["gram-auto", "gram-folds", "orthogonal", "recursive"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_memory_that_is_short_leaves_all_or_nothing(settings, operation, monkeypatch):
    case = Case(lambda: prepared(SETTINGS[settings]), OPERATIONS[operation])
    with monkeypatch.context() as patched:
        counted = Allocations(patched)
        model = case.make()
        with suppress(ValueError):
            counted.run(lambda: case.operation(model))
    drawn = random.Random(operation)
    places = range(1, counted.count + 1)
    for at in drawn.sample(places, min(N_SAMPLED, len(places))):
        model = case.make()
        with monkeypatch.context() as patched:
            failing = Allocations(patched, at)
            with suppress(ValueError, MemoryError):
                failing.run(lambda model=model: case.operation(model))
        case.check(model, f"allocation {at} of {counted.count}")


def accumulators():
    for kind in (GramAccumulator, OrthogonalAccumulator, lambda: RecursiveAccumulator(ridge=1.0)):
        yield kind
        yield lambda kind=kind: CentredAccumulator(kind())


ON_ACCUMULATORS = {
    "update": lambda acc, rows: acc.update(rows[:20], np.arange(20) % 3),
    "wider": lambda acc, rows: acc.update(np.hstack([rows, rows[:, :2]])[:3], np.array([0, 4, 1])),
    "downdate": lambda acc, rows: acc.downdate(rows[:6], np.arange(6) % 3),
    "merge": lambda acc, rows: acc.merge(copy.deepcopy(acc)),
    "subtract": lambda acc, rows: acc.subtract(copy.deepcopy(acc)),
    "scale": lambda acc, rows: acc.scale(0.7),
    "grow": lambda acc, rows: acc.grow(9, 9),
    "keep": lambda acc, rows: acc.keep_targets(np.array([2, 0])),
    "fix": lambda acc, rows: acc.fix_ridge(2.0),
    "restore": lambda acc, rows: acc.restore_ridge(),
}


@pytest.mark.parametrize("operation", ON_ACCUMULATORS)
@pytest.mark.parametrize("make", list(accumulators()))
def test_an_error_anywhere_in_an_accumulator_leaves_all_or_nothing(make, operation, small_blocks):
    rows = np.random.default_rng(0).normal(size=(20, 3))

    def learnt():
        acc = make()
        acc.update(rows, np.arange(20) % 3)
        acc.scale(0.9)
        return acc

    def change(acc):
        with suppress(ValueError):
            ON_ACCUMULATORS[operation](acc, rows)

    done = learnt()
    change(done)
    outcomes = [digest(learnt()), digest(done)]
    counted = learnt()
    n_places = n_instructions(lambda: change(counted))
    for at in random.Random(operation).sample(range(1, n_places), min(8, n_places - 1)):
        acc = learnt()
        raised_at(lambda acc=acc: change(acc), at, ERRORS[at % len(ERRORS)])
        assert digest(acc) in outcomes, f"{at} of {n_places}"


def main():
    """Raise at every instruction; print how often, and what went wrong."""

    def set_at(path, value):
        module, name = path.rsplit(".", 1)
        setattr(importlib.import_module(module), name, value)

    patch(set_at)
    total = failed = 0
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    chosen = sys.argv[2:] or list(SETTINGS)
    pairs = [(s, o) for s in chosen for o in OPERATIONS]
    for settings, operation in pairs:
        make = partial(at_another_ridge, operation=operation)
        case = Case(lambda s=settings, m=make: m(prepared(SETTINGS[s])), OPERATIONS[operation])
        first = 1 + random.Random(operation).randrange(step)
        for at in range(first, case.n_instructions + 1, step):
            total += 1
            try:
                case.interrupted(at, ERRORS[at % len(ERRORS)])
            except BaseException as error:
                failed += 1
                print(settings, operation, type(error).__name__, error, flush=True)
    print(f"{len(pairs)} operations, {total} errors raised, {failed} failures", flush=True)


if __name__ == "__main__":
    main()
