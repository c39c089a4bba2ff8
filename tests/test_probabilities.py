"""From scores to probabilities: the projections onto the simplex."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onlinels.scoring import UNSURE, probabilities_of, project_to_simplex

scores = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 7)),
    elements=st.floats(-1e6, 1e6),
)


@given(scores)
def test_probabilities_are_a_distribution(scores):
    p = project_to_simplex(scores)
    assert (p >= 0).all()
    assert (p <= 1).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)


def test_without_classes_there_are_no_probabilities():
    assert project_to_simplex(np.zeros((2, 0))).shape == (2, 0)


def test_huge_scores_are_no_trouble():
    assert project_to_simplex(np.array([[1e119], [-1e150]])).tolist() == [[1.0], [1.0]]
    assert project_to_simplex(np.array([[1e119, 1.0, -1e119]])).tolist() == [[1.0, 0.0, 0.0]]


@given(scores)
def test_probabilities_keep_the_order_of_scores(scores):
    p = project_to_simplex(scores)
    for row, probabilities in zip(scores, p, strict=True):
        assert (np.diff(probabilities[np.argsort(row)]) >= 0).all()


@given(arrays(np.float64, (3, 4), elements=st.floats(-2, 2)), st.integers(0, 2**32 - 1))
def test_projection_is_the_nearest_distribution(scores, seed):
    """No other distribution is nearer: the variational inequality (s - p).(q - p) <= 0."""
    p = project_to_simplex(scores)
    q = np.random.default_rng(seed).dirichlet(np.ones(4), size=3)
    assert (((scores - p) * (q - p)).sum(axis=1) <= 1e-12).all()


def test_distributions_stay_as_they_are():
    p = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(project_to_simplex(p), p)


@given(scores)
def test_nobody_is_ever_quite_sure(scores):
    p = probabilities_of(scores)
    n_classes = scores.shape[1]
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert (p >= (1.0 - 1e-12) * UNSURE / n_classes).all()
    assert (p <= 1.0).all()
    for row, probabilities in zip(scores, p, strict=True):
        assert (np.diff(probabilities[np.argsort(row)]) >= 0).all()


@given(arrays(np.float64, (3, 4), elements=st.floats(-2, 2)), st.integers(0, 2**32 - 1))
def test_probabilities_are_the_nearest_ones_that_are_not_0(scores, seed):
    p = probabilities_of(scores)
    q = UNSURE / 4 + (1 - UNSURE) * np.random.default_rng(seed).dirichlet(np.ones(4), size=3)
    assert (((scores - p) * (q - p)).sum(axis=1) <= 1e-12).all()


def test_scores_that_are_probabilities_stay_as_they_are():
    p = np.array([[0.5, 0.25, 0.25], [0.9, 0.05, 0.05]])
    np.testing.assert_allclose(probabilities_of(p), p, rtol=1e-14)
    assert probabilities_of(np.array([[7.0]])).tolist() == [[1.0]]
    assert probabilities_of(np.zeros((2, 0))).shape == (2, 0)
