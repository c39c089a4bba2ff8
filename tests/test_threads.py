"""Threads that predict while others learn: every answer is that of a model as it was at a time."""

import copy
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from river.preprocessing import StandardScaler

import onlinels
from onlinels import (
    CalibratedClassifier,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
)
from support import savable_models
from support.laws import fitted
from support.processes import PATIENCE
from support.slow import the_rest_slow

pytestmark = pytest.mark.usefixtures("many_switches")

X = np.random.default_rng(0).normal(size=(60, 40))
Y = [0, 1, 2] * 20
ROW, IMAGE = {0: 0.1, 1: -0.2, 2: 0.3, 3: 0.0}, {"image": np.eye(8)}
SAMPLES = dict.fromkeys((*savable_models.LINEAR, "folds", "priors", "calibrated"), ROW)
SAMPLES |= dict.fromkeys(("network", "network that waits"), IMAGE)
SAMPLES |= {"stream": {"a": 0.3, "text": "t1", "gap": None}, "windowed": {"x": 0.5, "y": -0.5}}
"""Classifiers, and a sample for each."""


def asked(model, sample, done):
    """Predict until all is learnt; return how often, and whether each answer held together."""
    n_answers = 0
    while not done.is_set() or not n_answers:
        label, shares = model.predict_one(sample), model.predict_proba_one(sample)
        assert not shares or sum(shares.values()) == pytest.approx(1.0)
        assert label in (None, *getattr(model, "classes", (label,)))
        n_answers += 1
    return n_answers


@pytest.mark.parametrize("n_times", the_rest_slow([2, 20]))
@pytest.mark.parametrize("name", SAMPLES)
def test_threads_predict_while_one_learns(name, n_times):
    make, learn = savable_models.MODELS[name]
    model, alone = make(np.random.default_rng(0)), make(np.random.default_rng(0))
    sample, done = SAMPLES[name], threading.Event()
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(asked, model, sample, done) for _ in range(3)]
        try:
            for seed in range(n_times):
                learn(model, np.random.default_rng(seed))
        finally:
            done.set()
        assert all(answer.result() > 0 for answer in answers)
    for seed in range(n_times):
        learn(alone, np.random.default_rng(seed))
    # Who looked when decides how rows were added together, and so the rounding.
    expected = alone.predict_proba_one(sample)
    assert model.predict_proba_one(sample) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("accumulator", "n_removed"), [("gram", 180), ("recursive", 180), ("orthogonal", 0)]
)
def test_rows_that_several_threads_learn_and_take_out_are_all_in_or_out(accumulator, n_removed):
    rows = np.random.default_rng(0).normal(size=(300, 3)).tolist()
    model = LeastSquaresRegressor(ridge=1.0, accumulator=accumulator)

    def learn(row):
        model.learn_one(dict(enumerate(row)), row[0])
        if row[1] > 0:
            model.predict_one(dict(enumerate(row)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(learn, rows))
        removed = rows[:n_removed]
        list(pool.map(lambda row: model.unlearn_one(dict(enumerate(row)), row[0]), removed))
    X = np.array(rows[n_removed:])
    expected = fitted(LeastSquaresRegressor(ridge=1.0, accumulator=accumulator), X, X[:, 0])
    assert model.count == len(X)
    np.testing.assert_allclose(model.output_weights, expected.output_weights, atol=1e-9)


def in_turns(*calls):
    """Make calls again and again, each in a thread of its own; fail if they wait for ever."""
    errors = []

    def run(call):
        try:
            for _ in range(20):
                call()
        except BaseException as error:
            errors.append(error)

    # Threads that wait for ever are not to keep the tests from ending.
    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "waits for ever"
    assert not errors


def test_calls_that_hold_several_locks_wait_in_no_ring_and_lose_no_row():
    """Merging holds two locks, and saving those of all parts."""
    a, b = (fitted(LeastSquaresClassifier(ridge=1.0), X[:3], Y[:3]) for _ in range(2))
    wrapper = CalibratedClassifier(a)
    in_turns(
        lambda: onlinels.dumps({"a": a, "b": b}),
        lambda: onlinels.dumps([b, a]),
        lambda: a.merge(b),
        lambda: b.merge(a),
        lambda: onlinels.dumps(wrapper),
        lambda: wrapper.learn_one(dict(enumerate(X[5])), 1),
    )
    # One after the other at the least: 3 + 20 * 3 rows, 3 + 20 times that, and 20 single ones.
    assert a.count + b.count >= 63 + 1263 + 20


def test_a_ridge_that_is_set_meanwhile_is_the_one_in_force():
    for _ in range(10):
        model = fitted(LeastSquaresClassifier(ridge=1.0), X, Y)
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(lambda m=model: m.output_weights) for _ in range(8)]
            model.ridge = 1e6
            for each in asked:
                each.result()
        assert np.abs(model.output_weights).max() < 1e-3


def test_the_first_frames_may_be_learnt_by_several_threads():
    """Narwhals is imported with the first frame, and must not be used half imported."""
    code = """
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from threading import Barrier
        import pandas as pd
        from onlinels import LeastSquaresRegressor

        X, y, begin = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0]), Barrier(8)

        def learn(number):
            begin.wait()
            LeastSquaresRegressor().learn_many(X if number % 2 else X.to_numpy(), y)

        sys.setswitchinterval(1e-4)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(learn, range(8)))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=PATIENCE)


def through_a_file(model, folder):
    onlinels.save(model, folder / "model")
    return onlinels.load(folder / "model")


def within_others(model, folder):
    held = {"held": [CalibratedClassifier(StandardScaler() | model)]}
    return through_a_file(held, folder)["held"][0].classifier["LeastSquaresClassifier"]


COPIES = {
    "save": through_a_file,
    "save within others": within_others,
    "dumps": lambda model, folder: (
        onlinels.loads(onlinels.dumps(CalibratedClassifier(model))).classifier
    ),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "copy": lambda model, folder: copy.copy(model),
}


@pytest.mark.parametrize("taken", COPIES.values(), ids=COPIES)
def test_what_is_saved_or_copied_while_another_thread_learns_is_whole(tmp_path, taken):
    model, counts = LeastSquaresClassifier(ridge=1.0), []

    def take():
        found = taken(model, tmp_path)
        assert found.count % 60 == 0
        if found.count:
            expected = fitted(LeastSquaresClassifier(ridge=1.0), X, Y, w=found.count / 60)
            np.testing.assert_allclose(found.output_weights, expected.output_weights, atol=1e-9)
        counts.append(found.count)

    in_turns(take, lambda: model.learn_many(X, Y))
    assert counts == sorted(counts)


KINDS = "gram, {}", "folds", "recursive, {}", "regressor", "targets", "stream", "stream of numbers"
KINDS = *KINDS, "late", "calibrated", "drift, ADWIN", "windowed", "network", "network that waits"


@pytest.mark.parametrize("name", [*KINDS, "hidden, drawn"])
def test_what_a_pickler_takes_stays_as_it_was(name):
    """A pickler writes what `__getstate__` returned while other threads go on learning."""
    model, learn = savable_models.learnt(name), savable_models.MODELS[name][1]
    (make, arguments, state, *_), expected = model.__reduce_ex__(4), onlinels.dumps(model)
    learn(model, np.random.default_rng(1))
    found = make(*arguments)
    found.__setstate__(pickle.loads(pickle.dumps(state)))
    assert onlinels.dumps(found) == expected
