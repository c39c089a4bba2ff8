"""HiddenLayer: weights by name, fixed differences, and what a transformer returns."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, preprocessing
from scipy.special import expit

from onlinels import HiddenLayer, LeastSquaresClassifier
from onlinels.features.hidden import ACTIVATIONS
from onlinels.features.input_weights import (
    DIFFERENCE_KINDS,
    DISTRIBUTIONS,
    draw_row,
)
from support import strategies
from support.laws import assert_refused, settings_refused

ROWS = np.random.default_rng(0).normal(size=(6, 4))


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
    [
        ("cube", "float32", 1e20),
        ("cube", "float32", -1e20),
        ("square", "float32", 1e30),
        ("rectified-square", "float32", 1e30),
        ("cube", "float64", 1e120),
        ("linear", "float32", -1e60),
        ("softplus", "float32", 1e60),
        ("cosine", "float32", 1e60),
    ],
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
        assert_refused(call, layer, message)


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


def test_no_feature_takes_the_weights_of_the_bias():
    for name in ("bias", ("bias",), "str:'bias'"):
        alone = HiddenLayer(5, activation="linear").transform_one({name: 1.0})
        assert alone != HiddenLayer(5, activation="linear", bias=True).transform_one({})


@pytest.mark.parametrize(
    ("distribution", "mean_square"), [("gaussian", 1.0), ("uniform", 1 / 3), ("bipolar", 1.0)]
)
def test_distributions(distribution, mean_square):
    rows = [draw_row(distribution, s, n, 100_000) for s, n in [(3, "a"), (3, "b"), (1, "a")]]
    assert np.abs(np.corrcoef(rows) - np.eye(3)).max() < 0.03
    row = rows[0]
    assert abs(row.mean()) < 0.02
    assert np.square(row).mean() == pytest.approx(mean_square, rel=0.02)
    if distribution == "bipolar":
        assert set(row) == {-1.0, 1.0}


@given(strategies.hidden_settings())
def test_weights_do_not_depend_on_what_came_first_or_comes_late(settings):
    layer, one, other = (HiddenLayer(**settings) for _ in range(3))
    alone = layer.transform_one({"a": 0.5, "b": -1.0})
    layer.transform_one({"zebra": 3.0, "aardvark": 1.0})
    assert layer.transform_one({"b": -1.0, "a": 0.5}) == alone
    assert HiddenLayer(**settings).transform_one({"c": 0.0, "b": -1.0, "a": 0.5}) == alone
    for first, last in zip("abcde", "edcba", strict=True):
        one.transform_one({first: 1.0})
        other.transform_one({last: 1.0})
    x = dict(zip("abcde", [1.0, 2.0, -1.0, 0.5, 4.0], strict=True))
    a, b = one.transform_one(x), other.transform_one(x)
    np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_give_frames_of_their_library(library):
    layer, data = HiddenLayer(3), {name: ROWS[:, k] for k, name in enumerate("abcd")}
    out = layer.transform_many(library(data))
    assert type(out) is type(library(data))
    columns = list(out.columns if library is not pa.table else out.column_names)
    assert columns == ["h0", "h1", "h2"]
    one = layer.transform_one({name: float(values[2]) for name, values in data.items()})
    found = [float(out[c][2].as_py() if library is pa.table else out[c][2]) for c in columns]
    np.testing.assert_allclose(found, list(one.values()))
    frame = pd.DataFrame(data, index=list("uvwxyz"))
    assert layer.transform_many(frame).index.tolist() == list("uvwxyz")


def test_numbers_give_numbers_and_arrays_give_arrays():
    layer = HiddenLayer(3)
    out = layer.transform_one({"h": ROWS[0]})
    assert list(out) == ["h"]
    numbers = layer.transform_one({("h", k): value for k, value in enumerate(ROWS[0])})
    assert list(numbers) == ["h0", "h1", "h2"]
    np.testing.assert_array_equal(out["h"], list(numbers.values()))
    many = layer.transform_many([{"h": row} for row in ROWS])
    np.testing.assert_allclose(many[0]["h"], out["h"])
    # Outputs of another layer have one name in every form.
    layer, behind = HiddenLayer(3), HiddenLayer(2)
    of_arrays = behind.transform_many(layer.transform_many(ROWS))
    for x, expected in zip(ROWS.tolist(), of_arrays, strict=True):
        found = behind.transform_one(layer.transform_one(dict(enumerate(x))))
        np.testing.assert_allclose(list(found.values()), expected)


def test_weights_from_examples():
    layer = HiddenLayer.from_examples([{"a": 1.0, "b": 2.0}, {"a": 3.0}], ["x", "y"], n_hidden=4)
    # Features that were not in the examples are ignored.
    assert layer.transform_one({"a": 1.0, "c": 9.0}) == layer.transform_one({"a": 1.0})
    layer = HiddenLayer(5, "difference")
    assert not layer.is_fixed
    for call in (lambda: layer.transform_one({"a": 1.0}), lambda: layer.transform_many(ROWS)):
        with pytest.raises(ValueError, match="from_examples"):
            call()
    with pytest.raises(ValueError, match="at least two classes"):
        HiddenLayer.from_examples(ROWS, ["a"] * 6)
    # Random weights need none.
    with pytest.raises(ValueError, match="'difference' without y, expected labels"):
        HiddenLayer.from_examples(ROWS, input_weights="difference")
    layer = HiddenLayer.from_examples(ROWS, None, 5, input_weights="bipolar", standardize=False)
    expected = HiddenLayer(5, "bipolar").transform_many(ROWS)
    np.testing.assert_array_equal(layer.transform_many(ROWS), expected)


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


@pytest.mark.parametrize("labels", [None, list("ababab")])
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


def test_standard_deviations_beyond_float32_are_refused():
    layer = HiddenLayer.from_examples(ROWS * 1e-30, dtype="float32")
    assert np.isfinite(layer.transform_many(ROWS * 1e-30)).all()
    with pytest.raises(ValueError, match="overflow float32"):
        HiddenLayer.from_examples(ROWS * 1e-60, dtype="float32")
    with pytest.raises(ValueError, match="standardize=True with input_weights=FixedWeights"):
        HiddenLayer.from_examples(ROWS, n_hidden=5, input_weights=FIXED)


def test_a_prefix_names_the_outputs_of_one_and_of_many():
    layer = HiddenLayer(5, prefix="u_")
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    union = compose.TransformerUnion(layer, HiddenLayer(2), compose.Select("a", "b"))
    model = union | LeastSquaresClassifier(ridge=1.0)
    names = set(union.transform_one(dict(zip("abcd", ROWS[0], strict=True))))
    assert len(names) == 9
    assert set(union.transform_many(frame).columns) == names
    for row in frame[1:].to_dict("records"):
        model.learn_one(row, row["a"] > 0.0)
    model.learn_many(frame[:1], [True])
    many = model.predict_proba_many(frame).to_dict("records")
    for row, answer in zip(frame.to_dict("records"), many, strict=True):
        one = model.predict_proba_one(row)
        assert answer == pytest.approx(one)
    sample = {"x": ROWS[0]}
    assert list(layer.transform_one(sample)) == list(layer.transform_many([sample])[0]) == ["u_h"]


def test_a_prefix_that_river_leaves_out_of_batches_is_missed():
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    for step, message in (
        (compose.Suffixer("_u"), "has 'h0' and lacks 'h0_u'.*pass prefix='u_' to the layer"),
        (compose.Prefixer("x_"), "has 'h0' and lacks 'x_h0'.*pass prefix='x_' to the layer"),
    ):
        layer = preprocessing.StandardScaler() | HiddenLayer(15) | step
        model = (layer + compose.Select("a")) | LeastSquaresClassifier(ridge=1.0)
        for row in frame.to_dict("records"):
            model.learn_one(row, row["a"] > 0.0)
        with pytest.raises(ValueError, match=message):
            model.predict_many(frame)
    # Other new features count for nothing.
    linear = model["LeastSquaresClassifier"]
    assert linear.predict_many([{"a": 1.0, "h0": 1.0, "u_h0": 2.0, "x_h0": 3.0}]) == [True]
    assert linear.predict_many([{"a": 1.0, "new": 1.0}]) == [True]


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy])
def test_features_that_one_copy_meets_are_not_the_others(copy_of):
    layer = HiddenLayer(3)
    layer.transform_one(dict.fromkeys("abcd", 1.0))
    other = copy_of(layer)
    expected = layer.transform_one({"late": 1.0})
    other.transform_one({"another": 1.0})
    assert layer.transform_one({"late": 1.0}) == expected
    assert other.transform_one({"late": 1.0}) == expected


FIXED = HiddenLayer.from_examples(ROWS, list("ababab"), 5).input_weights
test_bad_settings = settings_refused(
    HiddenLayer,
    [
        ({"n_hidden": 0}, ValueError, "n_hidden=0 must be at least 1"),
        ({"n_hidden": 2.5}, TypeError, "n_hidden=2.5 must be an int"),
        ({"n_hidden": True}, TypeError, "must be an int"),
        ({"input_weights": "cauchy"}, ValueError, 'not known. Pass one of "gaussian"'),
        ({"activation": "tanhh"}, ValueError, "activation='tanhh' is not known"),
        ({"activation": None}, ValueError, "activation=None is not known"),
        ({"seed": -1}, ValueError, "seed=-1 must be at least 0"),
        ({"seed": None}, TypeError, "seed=None must be an int"),
        ({"bias": 1}, TypeError, "bias=1 must be a bool"),
        ({"dtype": "float16"}, ValueError, "dtype='float16' is not known"),
        ({"n_hidden": 6, "input_weights": FIXED}, ValueError, "n_hidden=6 does not fit"),
        ({"prefix": None}, TypeError, "prefix=None must be a str"),
    ],
)
