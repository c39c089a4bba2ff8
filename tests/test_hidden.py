"""HiddenLayer: activations of weights by name, of standardised examples and of differences."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from river import compose, metrics, preprocessing
from scipy.special import expit

from onlinels import (
    CalibratedClassifier,
    HiddenLayer,
    LeastSquaresClassifier,
    progressive_val_score,
)
from onlinels.features.hidden import ACTIVATIONS
from onlinels.features.input_weights import (
    DIFFERENCE_KINDS,
    DISTRIBUTIONS,
    LandmarkWeights,
    draw_pairs,
    draw_row,
    landmark_differences,
)
from support import laws, strategies

ROWS = np.random.default_rng(0).normal(size=(6, 4))
LABELS = list("ababab")
FIXED = HiddenLayer.from_examples(ROWS, LABELS, 5).input_weights


FUNCTIONS = {
    "square": np.square,
    "relu": lambda u: np.maximum(u, 0.0),
    "rectified-square": lambda u: np.where(u > 0.0, u**2, 0.0),
    "logistic": expit,
    "tanh": np.tanh,
    "softplus": lambda u: np.log(1.0 + np.exp(u)),
    "absolute": np.abs,
    "cube": lambda u: u**3,
    "cosine": np.cos,
    "gaussian": lambda u: np.exp(-(u**2)),
    "linear": lambda u: u,
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_what_they_say(activation, dtype):
    weights = np.stack([draw_row("gaussian", 0, f"int:{name}", 5) for name in range(4)])
    rows = ROWS.copy()
    activations = HiddenLayer(5, "gaussian", activation, 0, dtype, bias=False).transform_many(rows)
    assert activations.dtype == dtype
    rtol = 1e-7 if dtype == "float64" else 2e-4
    np.testing.assert_allclose(activations, FUNCTIONS[activation](ROWS @ weights), rtol=rtol)
    np.testing.assert_array_equal(rows, ROWS)


@pytest.mark.parametrize(
    ("activation", "dtype", "feature"),
    [("cube", "float32", -1e20), ("cube", "float64", 1e120), ("cosine", "float32", 1e60)],
)
def test_activations_that_leave_the_precision_are_refused(activation, dtype, feature):
    layer = HiddenLayer(50, activation=activation, dtype=dtype)
    layer.transform_one({"a": 1.0})
    size = f"{abs(feature):g}".replace("+", r"\+")
    message = rf"'{activation}'.* {dtype}.* as large as {size}\b"
    for call in (
        lambda: layer.transform_one({"b": 1.0, "c": feature}),
        lambda: layer.transform_many([{"a": 1.0, "b": 2.0}, {"b": feature}]),
    ):
        laws.assert_refused(call, layer, message)


@pytest.mark.parametrize(("activation", "limit"), [("gaussian", 0.0), ("logistic", [0, 1])])
def test_activations_of_huge_features_that_have_a_limit_reach_it(activation, limit):
    layer = HiddenLayer(50, activation=activation, dtype="float32")
    assert np.isin(layer.transform_many(np.full((1, 1), 1e30)), limit).all()


@given(strategies.hidden_settings())
def test_a_bias_is_the_weight_of_a_constant(settings):
    settings |= {"activation": "linear"}
    plain, biased = (HiddenLayer(**settings | {"bias": bias}) for bias in (False, True))
    bias = draw_row(settings["input_weights"], settings["seed"], "bias", settings["n_hidden"])
    added = biased.transform_many(ROWS) - plain.transform_many(ROWS)
    np.testing.assert_allclose(added, np.tile(bias, (len(ROWS), 1)), atol=1e-12)
    assert list(biased.transform_one({}).values()) == bias.tolist()
    # No feature takes its weights.
    for name in ("bias", ("bias",), "str:'bias'"):
        outputs = HiddenLayer(5, activation="linear", bias=False).transform_one({name: 1.0})
        assert [*outputs.values()] != draw_row("gaussian", 0, "bias", 5).tolist()


@pytest.mark.parametrize(
    ("distribution", "square", "fourth_power"),
    [("gaussian", 1.0, 3.0), ("uniform", 1 / 3, 1 / 5), ("bipolar", 1.0, 1.0)],
)
def test_distributions(distribution, square, fourth_power):
    """Weights of a seed and a name are independent of others, and have the moments."""
    rows = [draw_row(distribution, s, n, 100_000) for s, n in [(3, "a"), (3, "b"), (1, "a")]]
    assert np.abs(np.corrcoef(rows) - np.eye(3)).max() < 0.03
    assert abs(rows[0].mean()) < 0.02
    moments = (rows[0] ** 2).mean(), (rows[0] ** 4).mean()
    np.testing.assert_allclose(moments, (square, fourth_power), rtol=0.04)


@given(strategies.hidden_settings(), st.permutations("abcde"))
def test_weights_do_not_depend_on_what_came_first_or_comes_late(settings, names):
    """Nor on what other copies of the layer meet."""
    x = dict(zip("abcde", [1.0, 2.0, -1.0, 0.5, 4.0], strict=True))
    expected = HiddenLayer(**settings).transform_one(x)
    layer = HiddenLayer(**settings)
    for name in names[:3]:
        layer.transform_one({name: 1.0, "zebra": 3.0})
    copies = copy.copy(layer), copy.deepcopy(layer), layer
    for number, each in enumerate(copies):
        each.transform_one({f"own {number}": 1.0})
    for each in copies:
        found = each.transform_one({name: x[name] for name in names})
        assert list(found) == list(expected)
        np.testing.assert_allclose([*found.values()], [*expected.values()], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("wrap", [lambda model: model, CalibratedClassifier])
def test_a_layer_keeps_the_form_of_a_table_that_is_evaluated_row_by_row(wrap):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = wrap(HiddenLayer(5) | LeastSquaresClassifier(1.0))
    progressive_val_score((X, X[:, 0] > 0), model, metrics.Accuracy(), delay=3)
    for rows in (pd.DataFrame(X, columns=["a", "b"]), [{"a": 1.0}]):
        with pytest.raises(ValueError, match="one form"):
            model.predict_many(rows)
    assert len(model.predict_many(X)) == 30


# -- from_examples ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HiddenLayer(5, "difference").transform_one({"a": 1.0}), "from_examples"),
        (lambda: HiddenLayer(5, "difference").transform_many(ROWS), "from_examples"),
        (lambda: HiddenLayer.from_examples(ROWS, ["a"] * 6), "at least two classes"),
        (lambda: HiddenLayer.from_examples(ROWS, None, 5, "difference"), "without y, expected lab"),
        (lambda: HiddenLayer.from_examples(ROWS, None, 5, FIXED), "standardize=True with input_w"),
        (lambda: HiddenLayer.from_examples(ROWS * 1e-60, dtype="float32"), "overflow float32"),
        (lambda: HiddenLayer(6, FIXED), "n_hidden=6 does not fit"),
    ],
)
def test_examples_that_make_no_weights(call, message):
    with pytest.raises(ValueError, match=message):
        call()


KINDS = st.sampled_from([*DISTRIBUTIONS, *DIFFERENCE_KINDS])
POWERS = st.lists(st.integers(-100, 100), min_size=4, max_size=4)


@given(strategies.hidden_settings(), KINDS, POWERS)
def test_units_of_features_do_not_matter_to_a_layer_from_examples(settings, kind, powers):
    """Alone, among others, from arrays and from dicts, it is a layer of standardised features."""
    settings |= {"input_weights": kind, "activation": "relu"}
    means, scales = ROWS.mean(axis=0), ROWS.std(axis=0)
    rows, labels, Z = ROWS + 3.0 * scales, list("aababb"), (ROWS - means) / scales
    of_scaled = HiddenLayer.from_examples(Z, labels, **settings, standardize=False)
    X, Y = (each * 10.0 ** np.array(powers) for each in (ROWS, rows))
    layer = HiddenLayer.from_examples(X, labels, **settings)
    expected = of_scaled.transform_many((rows - means) / scales)
    np.testing.assert_allclose(layer.transform_many(Y), expected, atol=1e-10, rtol=1e-9)
    one = [list(layer.transform_one(dict(enumerate(row))).values()) for row in Y.tolist()]
    np.testing.assert_allclose(one, expected, atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("labels", [None, LABELS])
def test_features_that_are_constant_in_examples_or_not_among_them_have_no_weight(labels):
    X = np.concatenate([ROWS, np.full((6, 1), 0.1)], axis=1)
    layer = HiddenLayer.from_examples(X, labels, 20)
    expected = layer.transform_one(dict(enumerate(X[0])))
    for others in ({4: 5e9}, {4: 0.0}, {"new": 7.0}):
        assert layer.transform_one(dict(enumerate(X[0])) | others) == expected
    # What is absent is 0, before the mean is taken off.
    rows = [dict(enumerate(row)) for row in X[:, :3]]
    absent = HiddenLayer.from_examples([*rows, {3: 1.0}], [*"abababa"], 20)
    zero = absent.transform_one({3: 0.0} | rows[0])
    assert absent.transform_one(rows[0]) == zero


# -- differences of examples -----------------------------------------------------------------------


def definition(drawn, first, second):
    """Return weights (n_features, n_hidden) and offsets (n_hidden,) of pairs of examples."""
    a, b = (drawn.X[rows].astype(np.float64) for rows in (first, second))
    differences, is_centred = a - b, drawn.kind == "centred-difference"
    if is_centred:
        differences -= differences.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(differences, axis=1, keepdims=True)
    # What is shorter is rounding error.
    weights = np.where(lengths > 0.1, differences, 0.0) / np.where(lengths > 0.1, lengths, 1.0)
    return weights.T, -((a + b) * weights).sum(axis=1) / 2.0 * is_centred


@given(strategies.differences(), st.integers(1, 20))
def test_formed_and_landmark_weights_are_the_definition(drawn, n_rows):
    names, pairs = range(drawn.X.shape[1]), draw_pairs(drawn.y, drawn.n_hidden, drawn.seed)
    weights, offsets = definition(drawn, *pairs)
    landmarks = landmark_differences(names, drawn.X, *pairs, drawn.kind.startswith("centred"))
    X = np.random.default_rng(drawn.seed).normal(size=(n_rows, len(names))).astype(drawn.X.dtype)
    X += drawn.X[0]
    eps = np.finfo(drawn.X.dtype).eps
    # Rounding errors are relative to the examples, and differences are at least 0.3 long.
    size = 50.0 * np.abs(drawn.X).max() * len(names)
    for made in (landmarks, landmarks.formed()):
        assert (made.names, made.n_hidden) == (tuple(names), drawn.n_hidden)
        projections = made.project(X)
        assert projections.dtype == drawn.X.dtype
        expected = X.astype(np.float64) @ weights + offsets
        np.testing.assert_allclose(projections, expected, atol=100.0 * eps * (size + 1.0))
        np.testing.assert_allclose(made.weights, weights, atol=eps * (size + 1.0))
        assert not projections[:, ~weights.any(axis=0)].any()
    np.testing.assert_array_equal(landmarks.scales == 0.0, ~weights.any(axis=0))


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


@pytest.mark.parametrize("kind", DIFFERENCE_KINDS)
def test_nothing_of_the_size_of_the_matrix_is_allocated(kind):
    X, layers = np.random.default_rng(0).normal(size=(30, 1500)).astype(np.float32), []

    def make():
        labels = list("abc" * 10)
        layers.append(HiddenLayer.from_examples(X, labels, 4000, kind, dtype="float32"))
        layers[0].transform_many(X)

    assert laws.peak_of(make) < 1500 * 4000 * 4 / 3
    assert isinstance(layers[0].input_weights, LandmarkWeights)


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12), st.integers(0, 99))
def test_pairs_are_of_distinct_classes_and_reach_every_mate(labels, seed):
    pairs = itertools.permutations(range(len(labels)), 2)
    wanted = {(a, b) for a, b in pairs if labels[a] != labels[b]}
    assume(wanted)
    first, second = draw_pairs(labels, 3000, seed)
    found = set(zip(first.tolist(), second.tolist(), strict=True))
    assert found == wanted if len(wanted) < 60 else found <= wanted


# -- names of outputs ------------------------------------------------------------------------------


def test_a_prefix_that_river_leaves_out_of_batches_is_missed():
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    layer = preprocessing.StandardScaler() | HiddenLayer(15) | compose.Suffixer("_u")
    model = (layer + compose.Select("a")) | LeastSquaresClassifier(ridge=1.0)
    laws.fitted_by_row(model, frame.to_dict("records"), [True, False] * 3)
    with pytest.raises(ValueError, match=r"has 'h0' and lacks 'h0_u'.*pass prefix='u_'"):
        model.predict_many(frame)
    # Other new features count for nothing.
    rows = [{"a": 1.0, "new": 1.0}, {"a": 1.0, "h0": 1.0, "h0_u": 1.0, "h0_v": 3.0}]
    assert len(model["LeastSquaresClassifier"].predict_many(rows)) == 2
