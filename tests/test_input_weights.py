"""Differences of examples as input weights, formed or held as pairs of landmarks."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import ConvolutionalFeatures, HiddenLayer, ShallowConvClassifier
from onlinels.checks import same
from onlinels.features.input_weights import (
    DIFFERENCE_KINDS,
    FixedWeights,
    LandmarkWeights,
    draw_pairs,
    landmark_differences,
)
from support import strategies
from support.laws import peak_of

RANDOM = np.random.default_rng(0)
MANY_FEATURES = RANDOM.normal(size=(20, 400))
LABELS = list("abcd" * 5)


def landmark_layer(n_hidden=300, **settings):
    return HiddenLayer.from_examples(MANY_FEATURES, LABELS, n_hidden, **settings)


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


@given(strategies.differences(dtypes="d"))
def test_centred_projections_are_0_midway_and_positive_at_the_first(drawn):
    both, pairs = made_of(replace(drawn, kind="centred-difference"))
    a, b = drawn.X[pairs[0]], drawn.X[pairs[1]]
    for made in both:
        np.testing.assert_allclose(np.diag(made.project((a + b) / 2.0)), 0.0, atol=1e-8)
        at_first, at_second = np.diag(made.project(a)), np.diag(made.project(b))
        np.testing.assert_allclose(at_first, -at_second, atol=1e-8)
        assert (at_first >= -1e-8).all()
        np.testing.assert_allclose(made.weights.sum(axis=0), 0.0, atol=1e-8)


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
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_landmarks_are_taken_where_they_are_less_work(kind, dtype):
    settings = {"input_weights": kind, "dtype": dtype, "activation": "linear"}
    many = landmark_layer(300, **settings)
    few = landmark_layer(15, **settings)
    assert isinstance(many.input_weights, LandmarkWeights)
    assert isinstance(few.input_weights, FixedWeights)
    narrow = HiddenLayer.from_examples(MANY_FEATURES[:, :50], LABELS, 300, **settings)
    assert isinstance(narrow.input_weights, FixedWeights)
    assert many.is_fixed
    X = np.random.default_rng(1).normal(size=(30, 400))
    formed = HiddenLayer(300, many.input_weights.formed(), "linear", dtype=dtype)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(many.transform_many(X), formed.transform_many(X), atol=tolerance)
    one = np.stack([many.transform_one({"h": row})["h"] for row in X])
    np.testing.assert_allclose(one, formed.transform_many(X), atol=tolerance)
    means, scales = MANY_FEATURES.mean(axis=0), MANY_FEATURES.std(axis=0)
    scaled = [(MANY_FEATURES - means) / scales, LABELS, 300]
    of_scaled = HiddenLayer.from_examples(*scaled, **settings, standardize=False)
    expected = of_scaled.transform_many((X - means) / scales)
    np.testing.assert_allclose(one, expected, atol=10.0 * tolerance)


def test_landmarks_have_the_layers_precision_the_examples_width_and_little_memory():
    layer = landmark_layer()
    weights = layer.input_weights
    single = HiddenLayer(300, weights, dtype="float32")
    assert single.transform_many(MANY_FEATURES).dtype == np.float32
    assert weights.astype("float64") is weights
    assert weights.astype("float32").project(MANY_FEATURES.astype("f")).dtype == np.float32
    layer.check_width(400)
    with pytest.raises(ValueError, match="There are 5 features, expected 400"):
        layer.check_width(5)
    large = landmark_layer(3300)
    assert len(pickle.dumps(large)) - len(pickle.dumps(layer)) < 3000 * 33
    assert large._raw_memory_usage - layer._raw_memory_usage < 3000 * 50


@pytest.mark.parametrize("kind", DIFFERENCE_KINDS)
@pytest.mark.parametrize("n_hidden", [15, 300])
def test_copies_share_what_is_fixed(kind, n_hidden):
    layer = landmark_layer(n_hidden, input_weights=kind)
    expected = layer.transform_many(MANY_FEATURES)
    for twin in (copy.deepcopy(layer), layer.clone()):
        assert twin.input_weights is layer.input_weights
        np.testing.assert_array_equal(twin.transform_many(MANY_FEATURES), expected)
    loaded = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(loaded.transform_many(MANY_FEATURES), expected)
    assert same(loaded._get_params(), layer._get_params())
    other = landmark_layer(n_hidden, input_weights=kind, seed=1)
    assert not same(layer.input_weights, other.input_weights)


@pytest.mark.parametrize("kind", DIFFERENCE_KINDS)
def test_nothing_of_the_size_of_the_matrix_is_allocated(kind):
    X, layers = np.random.default_rng(0).normal(size=(30, 1500)).astype(np.float32), []

    def make():
        labels = list("abc" * 10)
        layers.append(HiddenLayer.from_examples(X, labels, 4000, kind, dtype="float32"))
        layers[0].transform_many(X)

    assert peak_of(make) < 1500 * 4000 * 4 / 3
    assert isinstance(layers[0].input_weights, LandmarkWeights)


@pytest.mark.parametrize("kind", DIFFERENCE_KINDS)
def test_what_is_not_fixed_says_so(kind):
    layer = HiddenLayer(5, kind)
    assert not layer.is_fixed
    with pytest.raises(ValueError, match=f"input_weights='{kind}' is made from examples"):
        layer.transform_many(MANY_FEATURES)


def test_a_network_makes_centred_differences_and_merges():
    random = np.random.default_rng(0)
    images, labels = random.random((60, 8, 8)), random.integers(0, 3, 60)
    hidden = HiddenLayer(60, "centred-difference", "relu")
    model = ShallowConvClassifier(ConvolutionalFeatures(padding=3), hidden, warm_up=20)
    model.learn_many(images[:40], labels[:40])
    other = pickle.loads(pickle.dumps(model.empty()))
    other.learn_many(images[40:], labels[40:])
    model.merge(other)
    assert model.count == 60
    assert isinstance(model._fixed.hidden.input_weights, LandmarkWeights)
    assert len(model.predict_many(images)) == 60


def test_differences_are_unit_length_and_between_classes():
    X, y = np.random.default_rng(1).normal(size=(30, 7)), np.arange(30) % 3
    weights = HiddenLayer.from_examples(X, y, 200, seed=5, standardize=False).input_weights.weights
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1.0)
    first, second = draw_pairs(y.tolist(), 200, seed=5)
    assert (y[first] != y[second]).all()
    differences = (X[first] - X[second]).T
    np.testing.assert_allclose(weights, differences / np.linalg.norm(differences, axis=0))
    # Equal examples give a silent unit.
    layer = HiddenLayer.from_examples(np.ones((2, 3)), ["a", "b"], n_hidden=2)
    assert not layer.transform_many(np.ones((1, 3))).any()


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
