"""Differences of examples as input weights, formed or held as pairs of landmarks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import HiddenLayer
from onlinels.features.input_weights import (
    DIFFERENCE_KINDS,
    LandmarkWeights,
    draw_pairs,
    landmark_differences,
)
from support import strategies
from support.laws import peak_of


def definition(drawn):
    """Return weights (n_features, n_hidden) and offsets (n_hidden,), unit by unit."""
    X = drawn.X.astype(np.float64)
    first, second = draw_pairs(drawn.y, drawn.n_hidden, drawn.seed)
    weights, offsets = np.zeros((X.shape[1], drawn.n_hidden)), np.zeros(drawn.n_hidden)
    for unit, (a, b) in enumerate(zip(X[first], X[second], strict=True)):
        w = a - b
        if drawn.kind == "centred-difference":
            w = w - w.mean()
        # What is shorter is rounding error.
        if np.linalg.norm(w) > 0.1:
            weights[:, unit] = w / np.linalg.norm(w)
        if drawn.kind == "centred-difference":
            offsets[unit] = -(a + b) @ weights[:, unit] / 2.0
    return weights, offsets


def made_of(drawn):
    """Return both forms of the weights, and the pairs that they are made of."""
    pairs = draw_pairs(drawn.y, drawn.n_hidden, drawn.seed)
    centred, names = drawn.kind.startswith("centred"), range(drawn.X.shape[1])
    landmarks = landmark_differences(names, drawn.X, *pairs, centred)
    return [landmarks.formed(), landmarks], pairs


@given(strategies.differences(), st.integers(1, 20))
def test_formed_and_landmark_weights_are_the_definition(drawn, n_rows):
    names = range(drawn.X.shape[1])
    weights, offsets = definition(drawn)
    X = np.random.default_rng(drawn.seed).normal(size=(n_rows, len(names))).astype(drawn.X.dtype)
    X += drawn.X[0]
    eps = np.finfo(drawn.X.dtype).eps
    # Rounding errors are relative to the examples, and differences are at least 0.3 long.
    size = 50.0 * np.abs(drawn.X).max() * len(names)
    for made in made_of(drawn)[0]:
        assert made.names == tuple(names)
        assert made.n_hidden == drawn.n_hidden
        projections = made.project(X)
        assert projections.dtype == drawn.X.dtype
        expected = X.astype(np.float64) @ weights + offsets
        np.testing.assert_allclose(projections, expected, atol=100.0 * eps * (size + 1.0))
        np.testing.assert_allclose(made.weights, weights, atol=eps * (size + 1.0))
        assert not projections[:, ~weights.any(axis=0)].any()
    np.testing.assert_array_equal(made.scales == 0.0, ~weights.any(axis=0))


@pytest.mark.parametrize("kind", DIFFERENCE_KINDS)
def test_a_large_mean_costs_no_digits(kind):
    random = np.random.default_rng(0)
    X = (random.normal(size=(60, 500)) + 1000.0).astype(np.float32)
    pairs = (*draw_pairs(list(range(40)), 300, seed=0), kind.startswith("centred"))
    expected = landmark_differences(range(500), X[:40].astype(np.float64), *pairs)
    expected = expected.formed().project(X[40:].astype(np.float64))
    made = landmark_differences(range(500), X[:40], *pairs)
    for each in (made, made.formed()):
        errors = np.abs(each.project(X[40:]) - expected)
        # The products are a thousand times as large.
        assert errors.max() < 1e-7 * 1000.0 * 500**0.5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_examples_a_constant_apart_are_equal_once_centred(dtype):
    X = np.random.default_rng(0).normal(size=(2, 50)).astype(dtype)
    X[1] = X[0] + np.array(0.3, dtype=dtype)
    pair = np.array([0]), np.array([1])
    assert not landmark_differences(range(50), X, *pair, True).project(X).any()
    assert landmark_differences(range(50), X, *pair, False).project(X).all()


@pytest.mark.parametrize("kind", DIFFERENCE_KINDS)
def test_nothing_of_the_size_of_the_matrix_is_allocated(kind):
    X, layers = np.random.default_rng(0).normal(size=(30, 1500)).astype(np.float32), []

    def make():
        labels = list("abc" * 10)
        layers.append(HiddenLayer.from_examples(X, labels, 4000, kind, dtype="float32"))
        layers[0].transform_many(X)

    assert peak_of(make) < 1500 * 4000 * 4 / 3
    assert isinstance(layers[0].input_weights, LandmarkWeights)


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12), st.integers(0, 99))
def test_pairs_are_of_distinct_classes_and_reach_every_mate(labels, seed):
    if len(set(labels)) == 1:
        with pytest.raises(ValueError, match="at least two classes"):
            draw_pairs(labels, 5, seed)
        return
    first, second = draw_pairs(labels, 3000, seed)
    assert all(labels[a] != labels[b] for a, b in zip(first, second, strict=True))
    wanted = {
        (a, b) for a in range(len(labels)) for b in range(len(labels)) if labels[a] != labels[b]
    }
    if len(wanted) < 60:
        assert set(zip(first.tolist(), second.tolist(), strict=True)) == wanted
