"""Threads that predict while others learn: every answer is that of a model as it was at a time."""

import copy
import itertools
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

LINEAR = [name for name in savable_models.LINEAR if "half_life" not in name]
CLASSIFIERS = [
    *LINEAR,
    "folds",
    "priors",
    "stream",
    "calibrated",
    "network",
    "network that waits",
    "windowed",
]
pytestmark = pytest.mark.usefixtures("many_switches")


def asked(model, sample, done):
    """Predict until all is learnt; return how often, and whether each answer held together."""
    n_answers = 0
    while not done.is_set() or not n_answers:
        label, shares = model.predict_one(sample), model.predict_proba_one(sample)
        if shares:
            assert sum(shares.values()) == pytest.approx(1.0)
            assert label is None or label in model.classes if hasattr(model, "classes") else True
        n_answers += 1
    return n_answers


SAMPLES = {
    "stream": {"a": 0.3, "text": "t1", "gap": None},
    "network": {"image": np.eye(8)},
    "network that waits": {"image": np.eye(8)},
    "windowed": {"x": 0.5, "y": -0.5},
}


@pytest.mark.parametrize("n_times", the_rest_slow([2, 20]))
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_threads_predict_while_one_learns(name, n_times):
    make, learn = savable_models.MODELS[name]
    model, alone = make(np.random.default_rng(0)), make(np.random.default_rng(0))
    sample, done = SAMPLES.get(name, {0: 0.1, 1: -0.2, 2: 0.3, 3: 0.0}), threading.Event()
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
    found, expected = model.predict_proba_one(sample), alone.predict_proba_one(sample)
    assert found.keys() == expected.keys()
    # Who looked when decides how rows were added together, and so the rounding.
    for label, share in expected.items():
        assert found[label] == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_rows_that_several_threads_learn_and_take_out_are_all_in_or_out(accumulator):
    model = LeastSquaresRegressor(ridge=1.0, accumulator=accumulator)
    expected = LeastSquaresRegressor(ridge=1.0, accumulator=accumulator)
    X = np.random.default_rng(0).normal(size=(600, 3))

    def learn(part):
        for row in X[part]:
            model.learn_one(dict(enumerate(row.tolist())), float(row[0]))
            if row[1] > 0:
                model.predict_one(dict(enumerate(row.tolist())))

    def unlearn(part):
        for row in X[part]:
            model.unlearn_one(dict(enumerate(row.tolist())), float(row[0]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(learn, [slice(k, None, 4) for k in range(4)]))
        if accumulator != "orthogonal":
            list(pool.map(unlearn, [slice(k, 360, 4) for k in range(4)]))
            X = X[360:]
    expected.learn_many(X, X[:, 0])
    assert model.count == len(X)
    np.testing.assert_allclose(model.output_weights, expected.output_weights, atol=1e-9)


def test_models_that_merge_with_each_other_do_not_wait_for_ever():
    one, other = LeastSquaresClassifier(), LeastSquaresClassifier()
    for number, model in enumerate((one, other)):
        model.learn_one({"x": 1.0}, number)
    in_turns(lambda: one.merge(other), lambda: other.merge(one), n_rounds=4)
    # One after the other at the least: 1 + 4, and 1 + 4 times that.
    assert one.count + other.count >= 26


def test_a_ridge_that_is_set_meanwhile_is_the_one_in_force():
    for _ in range(10):
        model = LeastSquaresClassifier(ridge=1.0)
        model.learn_many(np.random.default_rng(0).normal(size=(60, 40)), [0, 1, 2] * 20)
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(lambda m=model: m.output_weights) for _ in range(8)]
            model.ridge = 1e6
            for each in asked:
                each.result()
        assert np.abs(model.output_weights).max() < 1e-3


def in_turns(*calls, n_rounds=20):
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
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "waits for ever"
    assert not errors


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


def test_saves_of_the_same_models_in_two_orders_and_merges_end(tmp_path):
    a, b = LeastSquaresClassifier(ridge=1.0), LeastSquaresClassifier(ridge=1.0)
    for model in (a, b):
        model.learn_many(np.eye(3), [0, 1, 0])
    in_turns(
        lambda: onlinels.save({"a": a, "b": b}, tmp_path / "one"),
        lambda: a.merge(b).fade(0.5),
        lambda: onlinels.save({"b": b, "a": a}, tmp_path / "other"),
        lambda: onlinels.save([b, a], tmp_path / "third"),
    )


HOLDERS = {
    "alone": (lambda model: model, lambda held: held),
    "wrapped": (CalibratedClassifier, lambda held: held.classifier),
    "in a container": (
        lambda model: ({"held": [CalibratedClassifier(StandardScaler() | model)]},),
        lambda held: held[0]["held"][0].classifier["LeastSquaresClassifier"],
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_saved_while_another_thread_learns_is_whole(tmp_path, holder):
    hold, taken = HOLDERS[holder]
    model, path, counts = LeastSquaresClassifier(ridge=1.0), tmp_path / "model", []
    held = hold(model)
    X, y = savable_models.rows(np.random.default_rng(0), 60, 150)

    def save():
        onlinels.save(held, path)
        saved = taken(onlinels.load(path))
        assert saved.count % 60 == 0
        if saved.count:
            expected = fitted(LeastSquaresClassifier(ridge=1.0), X, y, w=saved.count / 60)
            np.testing.assert_allclose(saved.output_weights, expected.output_weights, atol=1e-9)
        counts.append(saved.count)

    in_turns(save, lambda: model.learn_many(X, y))
    assert counts == sorted(counts)


def test_a_wrapper_is_saved_while_it_is_taught(tmp_path):
    """Saving holds the locks of all parts, wherever they lie in memory, and waits in no ring."""
    for number in range(8):
        others = [LeastSquaresClassifier() for _ in range(number)]
        wrapped = LeastSquaresClassifier(ridge=1.0)
        others.clear()
        model = CalibratedClassifier(wrapped)
        in_turns(
            lambda model=model: model.save(tmp_path / "model.npz"),
            lambda model=model: model.learn_one({"a": model.count % 7}, model.count % 2),
            n_rounds=30,
        )
        assert model.classifier.count == 30


KINDS = "gram, {}", "folds", "recursive, {}", "regressor", "targets", "stream", "stream of numbers"
KINDS = *KINDS, "late", "calibrated", "drift, ADWIN", "windowed", "network"
KINDS = *KINDS, "network that waits", "hidden, drawn"


@pytest.mark.parametrize("name", KINDS)
def test_what_a_pickler_takes_stays_as_it_was(name):
    """A pickler writes what `__getstate__` returned while other threads go on learning."""
    model, learn = savable_models.learnt(name), savable_models.MODELS[name][1]
    taken, expected = model.__reduce_ex__(4), onlinels.dumps(model)
    learn(model, np.random.default_rng(1))
    assert onlinels.dumps(rebuilt(taken)) == expected


def rebuilt(reduced):
    make, arguments, state = pickle.loads(pickle.dumps(reduced[:3]))
    made = make(*arguments)
    made.__setstate__(state)
    return made


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "dumps": lambda model: onlinels.loads(onlinels.dumps(model)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_while_another_thread_learns_is_whole(how):
    model, done = LeastSquaresClassifier(ridge=1.0), threading.Event()
    model.learn_many(np.eye(4), list("xyxy"))

    def teach():
        for number in itertools.count():
            model.learn_one({0: number % 7.0, 1: 1.0, 2: number % 3.0, 3: 0.0}, "xy"[number % 2])
            if done.is_set():
                return

    with ThreadPoolExecutor(1) as pool:
        teaching = pool.submit(teach)
        try:
            for _ in range(60):
                copied = COPIES[how](model)
                sums = copied.statistics()
                weights = sums.weight, sums.target_sums.sum(), copied._state.counts.sum()
                assert weights == pytest.approx((copied.count,) * 3, abs=1e-6)
        finally:
            done.set()
        teaching.result()
