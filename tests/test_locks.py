"""Locks of models: no two calls wait for each other, and no call changes what another has read."""

from __future__ import annotations

import copy
import gc
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import RLock

import numpy as np
import pytest
from river import preprocessing

import onlinels
from injection import Within, lines_of
from onlinels import (
    CalibratedClassifier,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    choice,
)
from onlinels.saving import files
from onlinels.threads import while_held

PATIENCE = 20.0
"""Seconds after which threads are taken to wait for ever."""


def in_turns(*calls, n_rounds=60):
    """Make calls again and again, each in a thread of its own; fail if they wait for ever."""
    errors = []

    def run(call):
        try:
            for _ in range(n_rounds):
                call()
        except BaseException as error:
            errors.append(error)

    # Threads that wait for ever are not to keep the tests from ending.
    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "waits for ever"
    finally:
        sys.setswitchinterval(interval)
    assert not errors


def learnt():
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many(np.eye(3), [0, 1, 0])
    return model


def scaled(model):
    return CalibratedClassifier(preprocessing.StandardScaler() | model)


def is_free(lock):
    """Tell whether another thread could take a lock."""

    def try_it():
        if taken := lock.acquire(blocking=False):
            lock.release()
        return taken

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(try_it).result()


@pytest.fixture
def two_locks():
    return RLock(), RLock()


def test_locks_are_taken_together_in_any_order(two_locks):
    one, other = two_locks
    held = []

    def hold():
        held.append(1)
        assert len(held) == 1
        held.pop()

    in_turns(
        lambda: while_held([one, other], hold),
        lambda: while_held([other, one, other], hold),
        n_rounds=2000,
    )
    assert is_free(one)
    assert is_free(other)


def test_who_waits_for_a_lock_holds_no_other(two_locks):
    one, other = two_locks
    entered, go_on = threading.Event(), threading.Event()

    def hold():
        with other:
            entered.set()
            go_on.wait(PATIENCE)

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(hold)
        entered.wait(PATIENCE)

        taking = pool.submit(while_held, [one, other], lambda: True)
        # Whoever holds the busy lock may take the free one, and so may everybody else.
        taken = one.acquire(timeout=PATIENCE)
        one.release()
        go_on.set()
        assert taken
        assert taking.result(PATIENCE)
        holding.result()


class Noted:
    """A lock that counts how often it is held, and raises as it is told."""

    def __init__(self, fails=False):
        self.n_held, self.fails = 0, fails

    def acquire(self, blocking=True):
        if self.fails:
            raise KeyboardInterrupt
        self.n_held += 1
        return True

    def release(self):
        self.n_held -= 1


def test_a_lock_that_cannot_be_taken_leaves_none_held():
    locks = [Noted(), Noted(), Noted(fails=True), Noted()]
    with pytest.raises(KeyboardInterrupt):
        while_held(locks, lambda: None)
    assert [lock.n_held for lock in locks] == [0, 0, 0, 0]


def test_an_interrupt_anywhere_releases_no_lock_that_was_not_taken():
    def use(locks):
        with suppress(KeyboardInterrupt):
            while_held(locks, lambda: None)

    left = []
    for at in range(1, 200):
        locks = [Noted(), Noted()]

        def interrupt():
            raise KeyboardInterrupt

        within = Within(at, interrupt)
        within.run(lambda locks=locks: use(locks))
        assert min(lock.n_held for lock in locks) >= 0
        left.append(max(lock.n_held for lock in locks))
        if within.count < at:
            break
    # It is raised at the line that releases them, too, before which no signal is let in.
    assert len(left) > 5
    assert sum(left) <= 2


class TimeIsOverError(Exception):
    """What the handler raises."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", ["copy", "merge", "save", "learn_one"])
def test_a_timeout_at_any_moment_keeps_no_other_thread_out(call, tmp_path):
    model, other, armed = learnt(), learnt(), [False]
    calls = {
        "copy": lambda: copy.copy(model),
        "merge": lambda: model.merge(other),
        "save": lambda: onlinels.save([model, other], tmp_path / "models"),
        "learn_one": lambda: model.learn_one({0: 1.0}, 1),
    }

    def over(*_):
        if armed[0]:
            armed[0] = False
            raise TimeIsOverError

    def timed(seconds):
        armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, seconds)
        calls[call]()
        armed[0] = False

    random, n_over = np.random.default_rng(0), 0
    start = time.perf_counter()
    timed(PATIENCE)
    lasts = time.perf_counter() - start
    before = signal.signal(signal.SIGALRM, over)
    try:
        for _ in range(300):
            try:
                timed(random.uniform(0.0, 1.2 * lasts) + 1e-6)
            except TimeIsOverError:
                n_over += 1
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            assert is_free(model._alone.lock)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()  # Of an archive that was left open Python says so, here and now.
    assert n_over


def test_saves_of_the_same_models_in_two_orders_end(tmp_path):
    a, b = learnt(), learnt()
    in_turns(
        lambda: onlinels.save({"a": a, "b": b}, tmp_path / "one"),
        lambda: onlinels.save({"b": b, "a": a}, tmp_path / "other"),
    )


def test_saves_and_merges_end(tmp_path):
    a, b = sorted([learnt(), learnt()], key=lambda model: id(model._alone))
    in_turns(
        lambda: onlinels.save([b, a], tmp_path / "one"),
        lambda: a.merge(b).fade(0.5),
        lambda: onlinels.save([a, b], tmp_path / "other"),
    )


def test_saves_beside_a_wrapper_end(tmp_path):
    inner = learnt()
    wrapper = CalibratedClassifier(inner)
    in_turns(
        lambda: onlinels.save({"inner": inner, "wrapper": wrapper}, tmp_path / "one"),
        lambda: wrapper.learn_one({0: 1.0, 1: 2.0, 2: 3.0}, 1),
        n_rounds=150,
    )


def test_what_a_wrapper_holds_is_saved_as_a_whole(tmp_path):
    inner = learnt()
    wrapper, path, counts = CalibratedClassifier(inner), tmp_path / "model", []

    def save():
        wrapper.save(path)
        saved = onlinels.load(path).classifier
        assert saved.count == saved._class_counts.sum() == saved._statistics.weight
        counts.append(saved.count)

    in_turns(save, lambda: inner.learn_many(np.eye(3), [0, 1, 1]), n_rounds=100)
    assert counts == sorted(counts)


@pytest.mark.parametrize("wrap", [CalibratedClassifier, scaled], ids=["alone", "in a pipeline"])
def test_what_a_wrapper_holds_is_locked_while_it_is_saved(wrap, tmp_path, monkeypatch):
    inner, free = learnt(), []
    write = files.write_container

    def written(*arguments, **named):
        free.append(is_free(inner._alone.lock))
        write(*arguments, **named)

    monkeypatch.setattr(files, "write_container", written)
    wrap(inner).save(tmp_path / "model")
    assert free == [False]
    assert is_free(inner._alone.lock)


NAMES = "b", "a", "c"
SETTINGS = {
    "gram": {"ridge": 1.0},
    "auto": {},
    "paper": {"ridge": "paper", "forgetting_factor": 0.9},
    "recursive": {"ridge": 1.0, "accumulator": "recursive"},
    "orthogonal": {"ridge": 1.0, "accumulator": "orthogonal"},
}
DRAWN = np.random.default_rng(0)
X = [dict(zip(NAMES, row, strict=True)) for row in DRAWN.normal(size=(90, 3)).tolist()]
Y = DRAWN.integers(0, 3, 90).tolist()

CALLS = {
    "a row": lambda m: m.learn_one(X[50], Y[50]),
    "a weighed row": lambda m: m.learn_one(X[50], Y[50], 2.5),
    "a row between predictions": lambda m: (m.predict_one(X[1]), m.learn_one(X[50], Y[50], 2.0)),
    "a new feature": lambda m: m.learn_one(X[50] | {"new": 1.5}, Y[50]),
    "a batch": lambda m: m.learn_many(X[50:56], Y[50:56]),
    "a look": lambda m: m.ridge_,
}
SHORT = "a row", "a look"


def begun(settings, n_rows=28):
    """Return a model that has learnt rows of which the last wait."""
    model = LeastSquaresClassifier(**SETTINGS[settings])
    for number in range(n_rows):
        model.learn_one(X[number], Y[number])
        if number == 20:
            model.predict_one(X[1])
    # What stands where no row is yet is to be noticed if it is learnt.
    model._gathered._rows[len(model._gathered._targets) :] = 1e3
    return model


def answers_of(model):
    # The scores first: whatever else is asked would let rows in.
    scores = list(model.scores_one(X[2]).values())
    return [scores, model.output_weights, model.intercept, [model.count], model._class_counts]


def assert_same(found, expected, where):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8, err_msg=str(where))


def teach(model, refused):
    """Learn a row as a handler may: if that is refused, take note of it."""
    try:
        model.learn_one(X[70], Y[70])
    except RuntimeError as error:
        refused.append(str(error))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_row_learnt_by_a_handler_is_learnt_or_refused(settings, call):
    outcomes = {}
    for n_refused, rows in {0: ["before", "after"], 1: ["never"]}.items():
        outcomes[n_refused] = []
        for when in rows:
            model = begun(settings)
            if when == "before":
                model.learn_one(X[70], Y[70])
            CALLS[call](model)
            if when == "after":
                model.learn_one(X[70], Y[70])
            outcomes[n_refused].append(answers_of(model))
    seen = set()
    for at in lines_of(lambda: begun(settings), CALLS[call], 1 if call in SHORT else None):
        model, refused = begun(settings), []
        within = Within(at, lambda model=model, refused=refused: teach(model, refused))
        within.run(lambda model=model: CALLS[call](model))
        found = answers_of(model)
        either = [expected for expected in outcomes[len(refused)] if near(found, expected)]
        assert either, (at, found, outcomes[len(refused)])
        assert all("in the middle of another call" in said for said in refused)
        seen.add(len(refused))
    assert 1 in seen


def near(found, expected):
    pairs = zip(found, expected, strict=True)
    return all(np.allclose(one, other, rtol=1e-6, atol=1e-8) for one, other in pairs)


LOOKS = {
    "predict": lambda m: m.predict_one(X[4]),
    "predict many": lambda m: m.predict_many(X[4:7]),
    "count": lambda m: m.count,
    "copy": copy.deepcopy,
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_look_by_a_handler_changes_nothing(settings, call, look):
    model = begun(settings)
    CALLS[call](model)
    expected = answers_of(model)
    for at in lines_of(lambda: begun(settings), CALLS[call], 1 if call in SHORT else None):
        model = begun(settings)
        within = Within(at, lambda model=model: LOOKS[look](model))
        within.run(lambda model=model: CALLS[call](model))
        assert_same(answers_of(model), expected, at)


def test_a_solution_that_a_handler_asks_for_is_not_taken_for_that_of_later_rows():
    rows = np.random.default_rng(0).normal(size=(120, 48))
    begun = LeastSquaresRegressor(ridge=1.0)
    begun.learn_many(rows[:100], rows[:100, 0] ** 2)
    begun.predict_many(rows[:1])
    begun.learn_many(rows[100:101], [1.0])

    def call(model):
        model.learn_many(rows[101:102], [2.0])

    expected = copy.deepcopy(begun)
    call(expected)
    for at in lines_of(lambda: copy.deepcopy(begun), call, every=1):
        model = copy.deepcopy(begun)
        within = Within(at, lambda model=model: model.predict_many(rows[:1]))
        within.run(lambda model=model: call(model))
        np.testing.assert_allclose(model.output_weights, expected.output_weights, err_msg=str(at))


def test_a_ridge_is_selected_from_the_rows_of_its_checkpoint_whatever_a_handler_asks(monkeypatch):
    def learn(model):
        # The checkpoint is at 32 rows: the ridge is selected before those after it are let in.
        model.learn_many(X[30:40], Y[30:40])
        return model.ridge_

    expected, model = learn(begun("auto", 30)), begun("auto", 30)
    select, asked = choice.selected_ridge, []

    def interrupted(setting, statistics):
        if not asked and statistics.count == 32:
            asked.append(True)
            model.predict_one(X[4])
        return select(setting, statistics)

    monkeypatch.setattr(choice, "selected_ridge", interrupted)
    assert learn(model) == pytest.approx(expected, rel=1e-9)
    assert asked


def test_the_rest_of_a_batch_that_a_handler_lets_in_decays_once():
    def call(model):
        # Let in by two commits, as the ridge is selected at 32 rows.
        model.learn_many(X[30:40], Y[30:40])

    begun = LeastSquaresClassifier(forgetting_factor=0.9)
    begun.learn_many(X[:30], Y[:30])
    expected, counted = copy.deepcopy(begun), Within(only="_let_in")
    counted.run(lambda: call(expected))
    assert counted.count > 3
    for at in range(1, counted.count + 1):
        model = copy.deepcopy(begun)
        within = Within(at, lambda model=model: model.predict_one(X[4]), "_let_in")
        within.run(lambda model=model: call(model))
        assert_same(answers_of(model), answers_of(expected), at)


def test_rows_and_targets_stay_together_whatever_a_handler_learns():
    """The smallest case: without the refusal rows went with the targets of others."""
    model = LeastSquaresRegressor(ridge=1.0, fit_intercept=False)
    for number in range(4):
        model.learn_one({"a": 1.0 + number}, 1.0 + number)

    def teach():
        with suppress(RuntimeError):
            model.learn_one({"a": 1e3}, 1e3)

    for at in lines_of(lambda: copy.deepcopy(model), lambda m: m.learn_one({"a": 5.0}, 5.0)):
        Within(at, teach).run(lambda: model.learn_one({"a": 5.0}, 5.0))
    # The ridge takes a little off the slope of 1; a row of another target would take more.
    squares = float(model._statistics.diagonal[0])
    assert model.output_weights.item() == pytest.approx(squares / (squares + 1.0))


CHANGES = {
    "learn_one": lambda m: m.learn_one(X[70], Y[70]),
    "learn_many": lambda m: m.learn_many(X[70:73], Y[70:73]),
    "unlearn_one": lambda m: m.unlearn_one(X[1], Y[1]),
    "unlearn_many": lambda m: m.unlearn_many(X[1:3], Y[1:3]),
    "fade": lambda m: m.fade(0.5),
    "merge": lambda m: m.merge(begun("gram")),
    "ridge": lambda m: setattr(m, "ridge", 7.0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("outer", ["learn_many", "predict_one", "merge into", "save", "save list"])
def test_every_change_amid_another_call_is_refused_and_nothing_has_changed(change, outer, tmp_path):
    model, into, refused = begun("gram"), begun("gram"), []
    calls = {
        "learn_many": lambda: model.learn_many(X[50:56], Y[50:56]),
        "predict_one": lambda: model.predict_one(X[4]),
        "merge into": lambda: into.merge(model),
        "save": lambda: model.save(tmp_path / "model"),
        "save list": lambda: onlinels.save([model], tmp_path / "models"),
    }

    def handle():
        try:
            CHANGES[change](model)
        except RuntimeError as error:
            refused.append(str(error))

    expected = copy.deepcopy(model)
    counted = Within()
    counted.run(calls[outer])
    model = begun("gram")
    # In the middle of it, where the lock is held.
    Within(counted.count * 2 // 3, handle).run(calls[outer])
    assert len(refused) == 1
    assert "expected none while it changes" in refused[0]
    if outer == "learn_many":
        expected.learn_many(X[50:56], Y[50:56])
    assert model.ridge == 1.0
    assert_same(answers_of(model), answers_of(expected), outer)


def test_a_lock_that_an_interrupt_left_taken_keeps_nobody_of_its_thread_out():
    for kind, targets in (
        (LeastSquaresClassifier, 1),
        (LeastSquaresMultiTargetRegressor, {"p": 1}),
    ):
        model = kind(ridge=1.0)
        model._alone.lock.acquire()
        for _ in range(3):
            model.learn_one({"a": 1.0}, targets)
        assert model.count == 3
    wrapper = CalibratedClassifier(LeastSquaresClassifier(ridge=1.0))
    wrapper.classifier._alone.lock.acquire()
    wrapper._alone.lock.acquire()
    for label in (0, 1, 0):
        wrapper.learn_one({"a": 1.0}, label)
    assert wrapper.count == 3
