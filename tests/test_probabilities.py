"""From scores to probabilities: the nearest distribution with something for every class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onlinels import LeastSquaresClassifier

UNSURE = 0.02
"""Probability that is spread over all classes."""


def probabilities_of(scores):
    """Ask a model whose scores are the features themselves."""
    n_classes = scores.shape[1]
    model = LeastSquaresClassifier(ridge=0.0, fit_intercept=False)
    model.learn_many(np.eye(n_classes), list(range(n_classes)))
    np.testing.assert_allclose(model.scores_many(scores), scores, rtol=1e-12)
    return model.predict_proba_many(scores)


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 7)),
        elements=st.one_of(st.floats(-2.0, 2.0), st.floats(-1e6, 1e6)),
    ),
    st.integers(0, 2**32 - 1),
)
def test_probabilities_are_the_nearest_distribution_that_is_nowhere_0(scores, seed):
    """No other one is nearer: the variational inequality (s - p).(q - p) <= 0."""
    p, n_classes = probabilities_of(scores), scores.shape[1]
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert (p >= (1.0 - 1e-12) * UNSURE / n_classes).all()
    q = np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=len(scores))
    others = UNSURE / n_classes + (1.0 - UNSURE) * q
    allowed = 1e-12 * (1.0 + np.abs(scores).max())
    assert (((scores - p) * (others - p)).sum(axis=1) <= allowed).all()
    for row, probabilities in zip(scores, p, strict=True):
        assert (np.diff(probabilities[np.argsort(row)]) >= 0).all()


def test_scores_that_are_probabilities_stay_as_they_are():
    p = np.array([[0.5, 0.25, 0.25], [0.9, 0.05, 0.05]])
    np.testing.assert_allclose(probabilities_of(p), p, rtol=1e-12)


def test_huge_scores_are_no_trouble():
    assert probabilities_of(np.array([[7.0], [1e119], [-1e149]])).tolist() == [[1.0]] * 3
    found = probabilities_of(np.array([[1e119, 1.0, -1e119]]))[0]
    assert found == pytest.approx([1.0 - UNSURE * 2 / 3, UNSURE / 3, UNSURE / 3])
