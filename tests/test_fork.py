"""Processes that are forked while threads learn: models in the new process are whole, and usable.

They run in a process of their own, because pytest's process should not be forked. Since 3.12,
Python warns of any fork beside threads.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

HEAD = """
import os, signal, sys, threading
import numpy as np
import onlinels
from onlinels import checks, numerics
from river import drift

signal.alarm(500)
random = np.random.default_rng(0)
X = random.normal(size=(40, 5))
y = (X[:, 0] > 0).tolist()


def in_child(call):
    '''Fork, call a function in the new process, and return whether it ended well.'''
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
"""

WHOLE = """
from onlinels.sklearn import IncrementalRidgeClassifier

# Several blocks for each batch: a fork in between would find half of the batch.
checks.BLOCK_BYTES = 8 * 5 * 10
checks.MIN_BLOCK_ROWS = 10
linear = onlinels.LeastSquaresClassifier
kinds = [
    lambda: linear(1.0),
    lambda: linear(1.0, accumulator="recursive"),
    lambda: onlinels.StreamClassifier(),
    lambda: onlinels.CalibratedClassifier(linear(1.0)),
    lambda: onlinels.DriftAwareClassifier(linear(1.0), drift.NoDrift()),
    lambda: IncrementalRidgeClassifier(1.0),
]


def learn(model):
    if hasattr(model, "partial_fit"):
        model.partial_fit(X, y, classes=[False, True])
    else:
        model.learn_many(X, y)


def state(model):
    return onlinels.dumps(model.to_river() if hasattr(model, "to_river") else model)


N_BATCHES = 12
states = []
for make in kinds:
    model, after = make(), []
    for _ in range(N_BATCHES):
        learn(model)
        after.append(state(model))
    states.append(after)
models, done = [make() for make in kinds], threading.Event()
for model in models:
    learn(model)


def work(number):
    while not done.is_set():
        model = kinds[number]()
        learn(model)
        models[number] = model
        for _ in range(N_BATCHES - 2):
            learn(model)


def check(is_first=True):
    for after, model in zip(states, models):
        n_learnt = after.index(state(model))
        learn(model)
        assert state(model) == after[n_learnt + 1]
        assert model.predict(X).shape if hasattr(model, "predict") else model.predict_many(X).size
    if is_first:
        # The new process may fork and start threads, too.
        other = threading.Thread(target=learn, args=(models[0],))
        other.start()
        assert in_child(lambda: models[-1].predict(X))
        other.join()


threads = [threading.Thread(target=work, args=(number,)) for number in range(len(models))]
for thread in threads:
    thread.start()
results = [in_child(check) for _ in range(3)]
done.set()
for thread in threads:
    thread.join()
check(False)
print(results)
"""

INSIDE = """
# A function of the user's own forks in the middle of a call of a model.
results = []


def embed(items):
    if threading.current_thread() is not threading.main_thread():
        results.append(in_child(lambda: whole.predict_one({"item": 2.0})))
    return [[float(item), 1.0] for item in items]


whole = onlinels.DriftAwareClassifier(
    onlinels.Embedding(embed, [1.0, 2.0]) | onlinels.LeastSquaresClassifier(1.0), drift.NoDrift()
)
whole.learn_one({"item": 1.0}, "a")
thread = threading.Thread(target=whole.learn_one, args=({"item": 2.0}, "b"))
thread.start()
thread.join()
whole.learn_one({"item": 3.0}, "a")
print(sorted({*results}))
"""

LATE = """
# A thread uses a model until the new process has ended, as if it waited for that process.
numerics.FORK_PATIENCE = 0.2
busy, free = (onlinels.LeastSquaresClassifier(1.0) for _ in range(2))
for model in (busy, free):
    model.learn_many(X, y)


begun, ended = threading.Event(), threading.Event()


def use():
    with busy._lock:
        begun.set()
        ended.wait()


def check(n_forks=2):
    free.learn_many(X, y)
    for call in (busy.predict_many, free.merge):
        try:
            call(X if call != free.merge else busy)
        except RuntimeError as error:
            assert "was forked" in str(error), error
        else:
            raise AssertionError("the busy model answers")
    assert n_forks == 0 or in_child(lambda: check(n_forks - 1))


thread = threading.Thread(target=use)
thread.start()
begun.wait()
results = [in_child(check)]
ended.set()
thread.join()
busy.merge(free)
results.append(in_child(lambda: busy.predict_many(X)))
print(results)
"""


def test_models_in_a_forked_process_are_whole():
    # In one process, because it takes seconds to start.
    command = [sys.executable, "-W", "ignore", "-c", "\n".join((HEAD, WHOLE, INSIDE, LATE))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    expected = f"{[True] * 3}\n{[True]}\n{[True] * 2}\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
