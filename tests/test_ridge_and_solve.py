"""The ridge, and the solution of the normal equations at any rank."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import GramAccumulator, KFold, LeastSquaresClassifier


def solve(A, Y, ridge):
    acc = GramAccumulator()
    acc.update(A, Y)
    return acc.solve(ridge)


def paper_ridge(A, n_classes):
    """Return the ridge of a model that learnt rows of so many classes."""
    model = LeastSquaresClassifier(ridge="paper", fit_intercept=False)
    model.learn_many(A, np.arange(len(A)) % n_classes)
    return model.ridge_


def test_paper_ridge_is_the_papers_formula():
    A = np.random.default_rng(0).normal(size=(100, 8))
    assert paper_ridge(A, 3) == pytest.approx((3 / 8) ** 2 * (A**2).sum(axis=0).min())


def test_units_that_are_always_zero_are_left_out_of_the_minimum():
    assert paper_ridge(np.diag([0.0, 2.0, 8.0, 0.0]), 4) == 4.0
    assert paper_ridge(np.zeros((4, 3)), 4) == 0.0
    assert paper_ridge(np.zeros((4, 0)), 4) == 0.0


def test_paper_ridge_has_a_floor():
    """One unit that hardly ever fires must not make the system singular."""
    A = np.diag(np.full(100, 1e2))
    A[7, 7] = 1e-15
    assert 10 * np.finfo(float).eps * 100 * 1e4 == pytest.approx(paper_ridge(A, 10))


@given(st.floats(0, 1e100))
def test_a_number_is_the_ridge(ridge):
    model = LeastSquaresClassifier(ridge=ridge)
    model.learn_one({"a": 1.0}, "x")
    assert model.ridge_ == ridge


@pytest.mark.parametrize(
    ("ridge", "error"),
    [
        (-1.0, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (np.float32(np.inf), ValueError),
        (10**400, ValueError),
        (Fraction(-1, 3), ValueError),
        ("best", ValueError),
        (Decimal(1), TypeError),
        (None, TypeError),
        (KFold, TypeError),
        (True, TypeError),
        ([1.0], TypeError),
    ],
)
def test_bad_ridges(ridge, error):
    with pytest.raises(error, match=r'ridge=.*Pass a float >= 0, "paper", "auto" or KFold\('):
        LeastSquaresClassifier(ridge=ridge)


RIDGES = 0, 2.5, np.float32(1.0), Fraction(1, 3), "paper", "auto", KFold(), KFold(2)


@pytest.mark.parametrize("ridge", RIDGES)
def test_good_ridges(ridge):
    assert LeastSquaresClassifier(ridge=ridge).ridge is ridge


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20), st.floats(-3, 3))
def test_pseudo_inverse_whatever_the_rank_and_the_units(seed, n_features, n_rows, decades):
    """The minimum-norm solution; a feature's unit does not decide whether it counts."""
    random = np.random.default_rng(seed)
    A = random.integers(-3, 4, (n_rows, n_features)).astype(float)
    A[:, 0] *= 10.0**decades
    Y = random.normal(size=(n_rows, 2))
    weights = solve(A, Y, 0.0)
    expected = np.linalg.pinv(A, rcond=1e-10) @ Y
    np.testing.assert_allclose(weights, expected, atol=1e-6 * (1 + np.abs(expected).max()))


def test_features_of_very_different_size_all_count():
    """Sizes 1e-4 and 1e9 at ridge 0: an unscaled rank tolerance would drop the small one."""
    random = np.random.default_rng(0)
    A = random.normal(size=(100, 2)) * [1e-4, 1e9]
    expected = np.array([[3e4], [-2e-9]])
    weights = solve(A, A @ expected, 0.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-9)


@pytest.mark.parametrize("smallest", [1e-20, 1e-60, 1e-119])
def test_features_of_vanishing_size_do_not_break_the_solution(smallest):
    """Saturated hidden units: a ridge that is nothing to one feature is huge to another."""
    random = np.random.default_rng(0)
    A = random.normal(size=(60, 4)) * [1.0, 1.0, smallest, smallest**0.5]
    A[:, 1] = A[:, 0]
    Y = random.normal(size=(60, 2))
    for ridge in (smallest**2, smallest, 1e-30, 1e-14):
        weights = solve(A, Y, ridge)
        residual = A.T @ (A @ weights - Y) + ridge * weights
        assert np.abs(residual / np.sqrt((A**2).sum(axis=0) + ridge)[:, None]).max() < 1e-8


def test_a_ridge_below_rounding_counts_as_zero():
    A = np.ones((5, 3))
    weights = solve(A, np.ones((5, 1)), 1e-30)
    np.testing.assert_allclose(weights, np.full((3, 1), 1 / 3))


@pytest.mark.parametrize("ridge", [1e-15, 1e-14, 1e-13])
def test_tiny_ridges_do_not_depend_on_rounding(ridge):
    """A column that is the sum of two others: no lucky factor, no noise in the weights."""
    random = np.random.default_rng(0)
    A = random.normal(size=(50, 4))
    A[:, 2] = A[:, 0] + A[:, 1]
    Y = random.normal(size=(50, 1))
    weights = []
    for cuts in ([], [7, 20], range(1, 50)):
        acc = GramAccumulator()
        for part in zip(np.split(A, cuts), np.split(Y, cuts), strict=True):
            acc.update(*part)
        weights.append(acc.solve(ridge))
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-12)
    np.testing.assert_allclose(weights[2], weights[0], atol=1e-12)
    np.testing.assert_allclose(weights[0], np.linalg.pinv(A) @ Y, atol=1e-9)


def test_a_small_ridge_counts_for_small_features_beside_large_dependent_ones():
    """The ridge 1e-3 is nothing to features of size 1e6, and much to one of size 1e-2."""
    random = np.random.default_rng(0)
    A = random.normal(size=(100, 4)) * [1e6, 1e6, 1.0, 1e-2]
    A[:, 2] = A[:, 0] - A[:, 1]
    Y = random.normal(size=(100, 1))
    weights = solve(A, Y, 1e-3)
    stacked = np.vstack([A, np.sqrt(1e-3) * np.eye(4)])
    expected = np.linalg.lstsq(stacked, np.vstack([Y, np.zeros((4, 1))]), rcond=None)[0]
    np.testing.assert_allclose(weights[3], expected[3], rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_solve(shape):
    assert GramAccumulator(*shape).solve(0.0).shape == shape
