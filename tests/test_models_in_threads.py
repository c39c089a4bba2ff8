"""Threads that predict while others learn: every answer is that of a model as it was at a time."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import savable
from onlinels import DriftAwareClassifier, LeastSquaresClassifier, LeastSquaresRegressor

LINEAR = [name for name in savable.LINEAR if "half_life" not in name]
CLASSIFIERS = [
    *LINEAR,
    "folds",
    "classwise",
    "stream",
    "calibrated",
    "network",
    "network that waits",
    "windowed",
]


@pytest.fixture(autouse=True)
def many_switches():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


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
    "stream": {"a": 0.3, "text": "1", "gap": None},
    "network": {"image": np.eye(8)},
    "network that waits": {"image": np.eye(8)},
    "windowed": {"x": 0.5, "y": -0.5},
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_threads_predict_while_one_learns(name):
    make, learn = savable.MODELS[name]
    model, alone = make(np.random.default_rng(0)), make(np.random.default_rng(0))
    sample, done = SAMPLES.get(name, {0: 0.1, 1: -0.2, 2: 0.3, 3: 0.0}), threading.Event()
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(asked, model, sample, done) for _ in range(3)]
        try:
            for seed in range(4):
                learn(model, np.random.default_rng(seed))
        finally:
            done.set()
        assert all(answer.result() > 0 for answer in answers)
    for seed in range(4):
        learn(alone, np.random.default_rng(seed))
    found, expected = model.predict_proba_one(sample), alone.predict_proba_one(sample)
    assert found.keys() == expected.keys()
    # Who looked when decides how rows were added together, and so the rounding.
    for label, share in expected.items():
        assert found[label] == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
def test_rows_of_several_threads_are_all_learnt(accumulator):
    model = LeastSquaresRegressor(ridge=1.0, accumulator=accumulator)
    expected = LeastSquaresRegressor(ridge=1.0, accumulator=accumulator)
    X = np.random.default_rng(0).normal(size=(600, 3))

    def learn(part):
        for row in X[part]:
            model.learn_one(dict(enumerate(row.tolist())), float(row[0]))
            if row[1] > 0:
                model.predict_one(dict(enumerate(row.tolist())))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(learn, [slice(k, None, 4) for k in range(4)]))
    expected.learn_many(X, X[:, 0])
    assert model.count == 600
    np.testing.assert_allclose(model.output_weights, expected.output_weights, atol=1e-9)


def test_models_that_merge_with_each_other_do_not_wait_for_ever():
    models = [LeastSquaresClassifier(), LeastSquaresClassifier()]
    for number, model in enumerate(models):
        model.learn_one({"x": 1.0}, number)

    def merge(pair):
        one, other = pair
        for _ in range(4):
            one.merge(other)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(merge, [models, models[::-1]]))
    # One after the other at the least: 1 + 4, and 1 + 4 times that.
    assert sum(model.count for model in models) >= 26


def test_rows_that_several_threads_take_out_are_all_out():
    model = LeastSquaresClassifier(ridge=1.0)
    X = np.random.default_rng(0).normal(size=(400, 3))
    model.learn_many(X, [0, 1] * 200)

    def unlearn(part):
        for number in range(400)[part]:
            model.unlearn_one(dict(enumerate(X[number].tolist())), number % 2)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(unlearn, [slice(k, 360, 4) for k in range(4)]))
    assert model.count == 40
    expected = LeastSquaresClassifier(ridge=1.0)
    expected.learn_many(X[360:], [0, 1] * 20)
    np.testing.assert_allclose(model.output_weights, expected.output_weights, atol=1e-9)


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


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_lock_of_a_model_stays(name):
    make, learn = savable.MODELS[name]
    model = make(np.random.default_rng(0))
    lock = model._alone
    learn(model, np.random.default_rng(1))
    if hasattr(model, "fade"):
        model.fade(0.5)
        model.fade(0.0)
    if hasattr(model, "merge"):
        model.merge(make(np.random.default_rng(0)))
    assert model._alone is lock


def test_locks_stay_where_the_past_is_weakened():
    wrapped = LeastSquaresClassifier(ridge=1.0)
    model = DriftAwareClassifier(wrapped)
    locks = model._alone, wrapped._alone
    X = np.random.default_rng(0).normal(size=(1500, 2))
    y = (X[:, 0] > 0) ^ (np.arange(1500) > 700)
    model.learn_many(X[:1000], y[:1000])
    for row, label in zip(X[1000:], y[1000:].tolist(), strict=True):
        model.learn_one(dict(enumerate(row.tolist())), label)
    assert model.n_alarms
    assert (model._alone, model.classifier._alone) == locks
