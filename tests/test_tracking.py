"""Weights asked for between rows: tracked at O(M^2) a row, and as exact as if solved anew."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
import strategies
from onlinels import GramAccumulator, LeastSquaresClassifier
from onlinels.accumulators import tracker
from onlinels.accumulators.tracking import TrackedSolution

N_FEATURES = 40


def stream(n_rows=150, n_features=N_FEATURES, condition=1.0, seed=0):
    """Correlated rows of whole-number labels."""
    random = np.random.default_rng(seed)
    mixing = np.linalg.qr(random.normal(size=(n_features, n_features)))[0]
    mixing *= np.logspace(0.0, -np.log10(condition) / 2.0, n_features)[:, None]
    X = random.normal(size=(n_rows, n_features)) @ mixing + 3.0
    y = random.integers(0, 4, n_rows).tolist()
    y[-10:] = ["late"] * 10
    return strategies.Rows(X, y, np.ones(n_rows))


@pytest.fixture
def solved_anew(monkeypatch):
    """Count how often weights are solved from scratch."""
    calls = []

    def counted(*arguments):
        calls.append(1)
        return solve_gram(*arguments)

    solve_gram = tracker.solve_gram
    monkeypatch.setattr(tracker, "solve_gram", counted)
    return calls


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [1e-3, "paper", "auto"])
def test_predicting_after_every_row_is_exact_and_rarely_solves(
    ridge, fit_intercept, condition, solved_anew
):
    rows = stream(condition=condition)
    model = LeastSquaresClassifier(ridge=ridge, fit_intercept=fit_intercept)
    model.learn_many(rows.X[:60], rows.y[:60])
    for row in range(60, 150):
        model.predict_many(rows.X[row : row + 1])
        model.learn_many(rows.X[row : row + 1], rows.y[row : row + 1])
        if row % 10 == 0:
            laws.assert_is_batch_solution(model, rows.take(range(row + 1)))
    laws.assert_is_batch_solution(model, rows)
    assert len(solved_anew) < 30


def test_a_ridge_that_has_changed_for_good_gets_a_factor_of_its_own(monkeypatch):
    steps = []
    refined = TrackedSolution._refined

    def counted(self, *arguments):
        steps.append(1)
        return refined(self, *arguments)

    monkeypatch.setattr(TrackedSolution, "_refined", counted)
    rows = stream(n_rows=400)
    model = LeastSquaresClassifier(ridge=1.0)
    for row in range(150):
        model.predict_many(rows.X[row : row + 1])
        model.learn_many(rows.X[row : row + 1], rows.y[row : row + 1])
    model.ridge, before = 1.3, len(steps)
    for row in range(150, 400):
        model.predict_many(rows.X[row : row + 1])
        model.learn_many(rows.X[row : row + 1], rows.y[row : row + 1])
    assert 0 < len(steps) - before < 30
    laws.assert_is_batch_solution(model, rows)


@pytest.mark.parametrize("ridge", [1.0, "paper"])
def test_decay_is_tracked_too(ridge, solved_anew):
    rows = stream()
    model = LeastSquaresClassifier(ridge=ridge, forgetting_factor=0.99)
    for row in range(150):
        model.predict_many(rows.X[row : row + 1])
        model.learn_many(rows.X[row : row + 1], rows.y[row : row + 1])
    rows.w[:] = 0.99 ** np.arange(149.0, -1.0, -1.0)
    laws.assert_is_batch_solution(model, rows)
    assert len(solved_anew) < 60


@given(st.data(), st.sampled_from([1e-9, 1e-3, 1.0, "paper"]), st.booleans())
def test_whatever_happens_between_predictions(data, ridge, fit_intercept):
    """Rows, heavy rows, rows taken out, batches, changed ridges, new features and classes."""
    rows = stream(60, 20, condition=data.draw(st.sampled_from([1.0, 1e6])))
    rows.w[:] = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, 1e6]), min_size=60, max_size=60), label="w"
    )
    rows.w[0] = 1.0
    model = LeastSquaresClassifier(ridge=ridge, fit_intercept=fit_intercept)
    kept, start = list(range(30)), 30
    model.learn_many(rows.X[:30], rows.y[:30], rows.w[:30])
    for step in data.draw(st.lists(st.sampled_from(["row", "batch", "out", "ridge"]), max_size=12)):
        if step == "out" and len(kept) > 20:
            gone = kept.pop()
            model.unlearn_many(rows.X[[gone]], [rows.y[gone]], rows.w[[gone]])
        elif step == "ridge":
            model.mutate({"ridge": data.draw(st.sampled_from([1e-6, 1.5, 2.0, 1e3]))})
        elif start < 55:
            stop = start + (1 if step == "row" else 5)
            model.learn_many(rows.X[start:stop], rows.y[start:stop], rows.w[start:stop])
            kept, start = kept + list(range(start, stop)), stop
        laws.assert_is_batch_solution(
            model, rows.take(kept), size=float((rows.w @ rows.X**2).sum())
        )


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_go_on_alike_to_the_last_bit(copied):
    rows = stream()
    model = LeastSquaresClassifier(ridge=0.1)
    for row in range(100):
        model.learn_many(rows.X[row : row + 1], rows.y[row : row + 1])
        model.predict_many(rows.X[:1])
    twin = copied(model)
    for row in range(100, 150):
        assert (model.output_weights == twin.output_weights).all()
        for one in (model, twin):
            one.learn_many(rows.X[row : row + 1], rows.y[row : row + 1])


def test_nothing_is_tracked_unless_somebody_asks_often():
    rows = stream()
    acc = GramAccumulator()
    acc.update(rows.X, np.zeros(150, dtype=int))
    acc.solve(1.0)
    assert acc._tracker._tracked is None
    acc.update(rows.X[:1], [0])
    acc.solve(1.0)
    assert acc._tracker._tracked is not None
    for row in range(N_FEATURES):
        acc.update(rows.X[row : row + 1], [0])
    assert acc._tracker._tracked is None


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_asking_never_changes_what_heavy_rows_leave(size):
    """Taken out again, they leave rounding errors in an inverse, which the Gram does not have."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 100)), (np.arange(300) % 2).tolist()
    heavy = size * random.normal(size=(1, 100))
    asked, silent = LeastSquaresClassifier(ridge=1.0), LeastSquaresClassifier(ridge=1.0)
    for model in (asked, silent):
        model.learn_many(X, y)
    for step in ("learn_many", "unlearn_many"):
        asked.predict_many(X[:1])
        for model in (asked, silent):
            getattr(model, step)(heavy, [1])
    np.testing.assert_allclose(asked.output_weights, silent.output_weights, atol=1e-12)


def test_weights_that_were_handed_out_are_left_alone():
    rows = stream()
    acc = GramAccumulator()
    acc.update(rows.X, np.zeros(150, dtype=int))
    acc.solve(1.0)
    acc.update(rows.X[:1], [0])
    weights = acc.solve(1.0)
    before = weights.copy()
    acc.update(rows.X[1:2], [0])
    assert (weights == before).all()
    weights[:] = 7.0
    assert not (acc.solve(1.0) == 7.0).any()


def tracked_acc(n_features, n_targets=1):
    """Return statistics whose solution is tracked from here on, and rows to come."""
    X = np.random.default_rng(0).normal(size=(400, n_features))
    Y = X[:, :n_targets] ** 2
    acc = GramAccumulator()
    acc.update(X[:200], Y[:200])
    for row in (198, 199):
        acc.solve(1.0)
        acc.update(X[[row]], Y[[row]])
    acc.solve(1.0)
    return acc, X[200:], Y[200:]


@pytest.mark.parametrize(("n_features", "longest"), [(20, 64), (100, 100)])
def test_nothing_is_tracked_for_longer_than_its_features_and_64_rows(
    n_features, longest, solved_anew
):
    acc, X, Y = tracked_acc(n_features)
    solved_anew.clear()
    for row in range(longest - 1):
        acc.update(X[[row]], Y[[row]])
        acc.solve(1.0)
    assert not solved_anew
    for row in range(longest - 1, longest + 2):
        acc.update(X[[row]], Y[[row]])
        acc.solve(1.0)
    assert len(solved_anew) == 1


def test_targets_that_nothing_was_learnt_of_are_tracked_as_zeros(solved_anew):
    acc, X, Y = tracked_acc(30)
    solved_anew.clear()
    acc.grow(30, 3)
    weights = acc.solve(1.0)
    assert weights.shape == (30, 3)
    assert weights[:, 0].all()
    assert not weights[:, 1:].any()
    acc.update(X[[0]], np.column_stack([Y[[0]], [[1.0]], [[2.0]]]))
    fresh = copy.deepcopy(acc)
    fresh._tracker = tracker.Tracker()
    np.testing.assert_allclose(acc.solve(1.0), fresh.solve(1.0), rtol=1e-9)
    assert len(solved_anew) == 1  # For the fresh one.


def test_features_whose_squares_are_no_numbers_stay_without_weight():
    acc, X, Y = tracked_acc(30)
    X[:, 7] *= 1e-170
    acc.scale(0.0)
    for row in range(60):
        acc.update(X[[row]], Y[[row]])
        assert not acc.solve(1.0)[7].any()
    assert acc._tracker._tracked is not None


def test_without_memory_to_track_a_solution_it_is_solved_anew(monkeypatch):
    acc, X, Y = tracked_acc(30)
    expected = copy.deepcopy(acc)
    acc._tracker = tracker.Tracker()

    def no_memory(*arguments):
        raise MemoryError

    monkeypatch.setattr(tracker, "TrackedSolution", no_memory)
    for row in range(3):
        acc.update(X[[row]], Y[[row]])
        expected.update(X[[row]], Y[[row]])
        np.testing.assert_allclose(acc.solve(1.0), expected.solve(1.0), rtol=1e-9)
    assert acc._tracker._tracked is None
    assert expected._tracker._tracked is not None
