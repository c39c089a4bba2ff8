"""Locks of models: no two calls wait for each other, and no call changes what another has read."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import RLock

import numpy as np
import pytest

import onlinels
from onlinels import (
    CalibratedClassifier,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.threads import together

PACKAGE = str(Path(onlinels.__file__).parent)
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


def is_free(lock):
    """Tell whether another thread could take a lock."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: lock.acquire(blocking=False)).result()



@pytest.fixture
def two_locks():
    return RLock(), RLock()


def test_locks_are_taken_together_in_any_order(two_locks):
    one, other = two_locks
    held = []

    def take(locks):
        with together(locks):
            held.append(1)
            assert len(held) == 1
            held.pop()

    in_turns(lambda: take([one, other]), lambda: take([other, one, other]), n_rounds=2000)
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

        def take():
            with together([one, other]):
                return True

        taking = pool.submit(take)
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
    with pytest.raises(KeyboardInterrupt), together(locks):
        pass
    assert [lock.n_held for lock in locks] == [0, 0, 0, 0]


def test_an_interrupt_anywhere_releases_no_lock_that_was_not_taken():
    def use(locks):
        with suppress(KeyboardInterrupt), together(locks):
            pass

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
    # Where it comes just before they are released, Python leaves no choice.
    assert len(left) > 5
    assert sum(left) <= 2


class Within:
    """Call a handler at a line of the package in a call, as a signal would.

    Parameters
    ----------
    at : int
        Number of the line; 0 for none.
    handler : callable
    """

    def __init__(self, at=0, handler=None):
        self.at, self.handler, self.count = at, handler, 0

    def _enter(self, frame, event, arg):
        return self._step if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _step(self, frame, event, arg):
        if event == "line":
            self.count += 1
            if self.count == self.at:
                self.handler()
        return self._step

    def run(self, call):
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(before)


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
