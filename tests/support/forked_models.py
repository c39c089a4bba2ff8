"""Fork while threads use models, and say whether the new processes ended well.

A process of its own, `python tests/support/forked_models.py`: pytest's should not be forked.
"""

import os
import signal
import sys
import threading

import numpy as np
import pytest
from river import drift

from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    Embedding,
    LeastSquaresClassifier,
    StreamClassifier,
    checks,
    dumps,
)
from onlinels.linear import state as linear_model
from onlinels.sklearn import IncrementalRidgeClassifier

X = np.random.default_rng(0).normal(size=(40, 5))
Y = (X[:, 0] > 0).tolist()
N_BATCHES = 12
KINDS = [
    lambda: LeastSquaresClassifier(1.0),
    lambda: LeastSquaresClassifier(1.0, accumulator="recursive"),
    StreamClassifier,
    lambda: CalibratedClassifier(LeastSquaresClassifier(1.0)),
    lambda: DriftAwareClassifier(LeastSquaresClassifier(1.0), drift.NoDrift()),
    lambda: IncrementalRidgeClassifier(1.0),
]


def in_child(call):
    """Fork, call a function in the new process, and return whether it ended well."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            call()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def learn(model):
    getattr(model, "partial_fit", getattr(model, "learn_many", None))(X, Y)


def ask(model):
    getattr(model, "predict", getattr(model, "predict_many", None))(X)


def state(model):
    return dumps(model.to_river() if hasattr(model, "to_river") else model)


def states_of(model):
    """Return the states of a model after each of its batches."""
    after = []
    for _ in range(N_BATCHES):
        learn(model)
        after.append(state(model))
    return after


def check_whole(model, after):
    """Assert that a model is as after one of its batches, and goes on with the next."""
    n_learnt = after.index(state(model))
    learn(model)
    assert state(model) == after[n_learnt + 1]
    ask(model)


def check_usable(models, states):
    """Assert that each model is whole, unless a thread was in a call: then it says so."""
    for model, after in zip(models, states, strict=True):
        try:
            check_whole(model, after)
        except RuntimeError as error:
            if "was forked" not in str(error):
                raise
    # The new process may fork and start threads, too.
    made = KINDS[0]()
    other = threading.Thread(target=learn, args=(made,))
    other.start()
    assert in_child(lambda: learn(KINDS[0]()))
    other.join()
    ask(made)


def between_batches():
    """Fork while a thread teaches a model of each kind: in the new process none is half changed."""
    # Several blocks for each batch: a fork in between would find half of the batch.
    checks.BLOCK_BYTES = 8 * 5 * 10
    linear_model.MIN_BLOCK_ROWS = 10
    states = [states_of(make()) for make in KINDS]
    models, done = [make() for make in KINDS], threading.Event()
    for model in models:
        learn(model)

    def teach(number):
        while not done.is_set():
            model = KINDS[number]()
            learn(model)
            models[number] = model
            for _ in range(N_BATCHES - 2):
                learn(model)

    threads = [threading.Thread(target=teach, args=(number,)) for number in range(len(models))]
    for thread in threads:
        thread.start()
    results = [in_child(lambda: check_usable(models, states)) for _ in range(3)]
    done.set()
    for thread in threads:
        thread.join()
    for model, after in zip(models, states, strict=True):
        check_whole(model, after)
    return results


def inside_a_call():
    """Let a function of the user's own fork in the middle of a call of a model."""
    results = []

    def embed(items):
        if threading.current_thread() is not threading.main_thread():
            results.append(in_child(lambda: model.predict_one({"item": 2.0})))
        return [[float(item), 1.0] for item in items]

    linear = Embedding(embed, [1.0, 2.0]) | LeastSquaresClassifier(1.0)
    model = DriftAwareClassifier(linear, drift.NoDrift())
    model.learn_one({"item": 1.0}, "a")
    thread = threading.Thread(target=model.learn_one, args=({"item": 2.0}, "b"))
    thread.start()
    thread.join()
    model.learn_one({"item": 3.0}, "a")
    return results


def in_use():
    """Let a thread use a model until the new process has ended, as if it waited for that."""
    busy, free = (LeastSquaresClassifier(1.0) for _ in range(2))
    for model in (busy, free):
        learn(model)
    begun, ended = threading.Event(), threading.Event()

    def use():
        with busy._lock:
            begun.set()
            ended.wait()

    def check(n_forks=2):
        learn(free)
        for call in (lambda: ask(busy), lambda: free.merge(busy)):
            with pytest.raises(RuntimeError, match="was forked"):
                call()
        assert n_forks == 0 or in_child(lambda: check(n_forks - 1))

    thread = threading.Thread(target=use)
    thread.start()
    begun.wait()
    results = [in_child(check)]
    ended.set()
    thread.join()
    busy.merge(free)
    return [*results, in_child(lambda: ask(busy))]


if __name__ == "__main__":
    signal.alarm(500)
    for scene in (between_batches, inside_a_call, in_use):
        print(scene.__name__, {*scene()})
