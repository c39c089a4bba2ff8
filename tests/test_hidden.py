"""HiddenLayer: weights by name, fixed differences, and what a transformer returns."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import strategies
from onlinels import HiddenLayer, LeastSquaresClassifier
from onlinels.features.draws import draw_pairs, draw_row

ROWS = np.random.default_rng(0).normal(size=(6, 4))


def test_activations_are_what_they_say():
    for activation, function in {
        "square": np.square,
        "relu": lambda z: np.maximum(z, 0),
        "logistic": expit,
    }.items():
        layer = HiddenLayer(5, activation=activation)
        weights = np.stack([draw_row("gaussian", 0, f"int:{name}", 5) for name in range(4)])
        np.testing.assert_allclose(layer.transform_many(ROWS), function(ROWS @ weights))


@pytest.mark.parametrize(
    ("distribution", "mean_square"), [("gaussian", 1.0), ("uniform", 1 / 3), ("bipolar", 1.0)]
)
def test_distributions(distribution, mean_square):
    row = draw_row(distribution, 3, "a", 100_000)
    assert abs(row.mean()) < 0.02
    assert np.square(row).mean() == pytest.approx(mean_square, rel=0.02)
    if distribution == "bipolar":
        assert set(row) == {-1.0, 1.0}


def test_rows_are_independent_of_each_other_and_of_the_seed():
    rows = [draw_row("gaussian", s, n, 20_000) for s, n in [(0, "a"), (0, "b"), (1, "a")]]
    assert np.abs(np.corrcoef(rows) - np.eye(3)).max() < 0.03


@given(strategies.hidden_settings())
def test_a_late_feature_changes_nothing_else(settings):
    layer = HiddenLayer(**settings)
    alone = layer.transform_one({"a": 0.5, "b": -1.0})
    layer.transform_one({"zebra": 3.0, "aardvark": 1.0})
    assert layer.transform_one({"b": -1.0, "a": 0.5}) == alone
    assert HiddenLayer(**settings).transform_one({"c": 0.0, "b": -1.0, "a": 0.5}) == alone


@given(strategies.hidden_settings())
def test_weights_do_not_depend_on_what_came_first(settings):
    one, other = HiddenLayer(**settings), HiddenLayer(**settings)
    for name in "abcde":
        one.transform_one({name: 1.0})
    for name in "edcba":
        other.transform_one({name: 1.0})
    x = dict(zip("abcde", [1.0, 2.0, -1.0, 0.5, 4.0], strict=True))
    a, b = one.transform_one(x), other.transform_one(x)
    np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_give_frames_of_their_library(library):
    layer = HiddenLayer(3)
    data = {name: ROWS[:, k] for k, name in enumerate("abcd")}
    out = layer.transform_many(library(data))
    assert type(out) is type(library(data))
    columns = list(out.columns if library is not pa.table else out.column_names)
    assert columns == ["h0", "h1", "h2"]
    one = layer.transform_one({name: float(values[2]) for name, values in data.items()})
    np.testing.assert_allclose(
        [float(out[c][2].as_py() if library is pa.table else out[c][2]) for c in columns],
        list(one.values()),
    )


def test_pandas_index_is_kept():
    frame = pd.DataFrame(ROWS, columns=list("abcd"), index=list("uvwxyz"))
    assert HiddenLayer(2).transform_many(frame).index.tolist() == list("uvwxyz")


def test_numbers_give_numbers_and_arrays_give_arrays():
    layer = HiddenLayer(3)
    out = layer.transform_one({"h": ROWS[0]})
    assert list(out) == ["h"]
    numbers = layer.transform_one({f"h{k}": value for k, value in enumerate(ROWS[0])})
    assert list(numbers) == ["h0", "h1", "h2"]
    np.testing.assert_array_equal(out["h"], list(numbers.values()))
    many = layer.transform_many([{"h": row} for row in ROWS])
    np.testing.assert_allclose([x["h"] for x in many], layer.transform_many(ROWS))


def test_a_pipeline_learns_from_arrays_and_predicts_from_dicts():
    labels = (ROWS[:, 0] > 0).tolist()
    model = HiddenLayer(20) | LeastSquaresClassifier(ridge=0.1)
    model.learn_many(ROWS, labels)
    scores = model["LeastSquaresClassifier"].scores_many(model["HiddenLayer"].transform_many(ROWS))
    for row, expected, label in zip(ROWS, scores, model.predict_many(ROWS), strict=True):
        for x in (dict(enumerate(row)), {"h": row}):
            assert model.predict_one(x) == label
            one = model["LeastSquaresClassifier"].scores_one(model["HiddenLayer"].transform_one(x))
            np.testing.assert_allclose(list(one.values()), expected, atol=1e-9)


def test_two_names_of_one_input_are_an_error():
    with pytest.raises(ValueError, match="3 and 'h3' stand for one feature"):
        HiddenLayer(5).transform_one({3: 1.0, "h3": 0.0})


def test_names_are_what_they_equal():
    one, other = HiddenLayer(5), HiddenLayer(5)
    x = {"a": 1.0, 2: 3.0, 1: 0.5}
    y = {np.str_("a"): 1.0, np.int64(2): 3.0, True: 0.5}
    assert one.transform_one(x) == other.transform_one(y)


def test_a_name_without_a_spelling_changes_nothing():
    layer = HiddenLayer(5)
    before = pickle.dumps(layer)
    with pytest.raises(TypeError, match="no spelling"):
        layer.transform_one({object(): 1.0, "a": 2.0})
    assert pickle.dumps(layer) == before


def test_differences_are_unit_length_and_between_classes():
    X = np.random.default_rng(1).normal(size=(30, 7))
    y = np.arange(30) % 3
    layer = HiddenLayer.from_examples(X, y, n_hidden=200, seed=5)
    weights = layer.input_weights.weights
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1.0)
    first, second = draw_pairs(y.tolist(), 200, seed=5)
    assert (y[first] != y[second]).all()
    differences = (X[first] - X[second]).T
    np.testing.assert_allclose(weights, differences / np.linalg.norm(differences, axis=0))


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


def test_equal_examples_give_a_silent_unit():
    layer = HiddenLayer.from_examples(np.ones((2, 3)), ["a", "b"], n_hidden=2)
    assert not layer.transform_many(np.ones((1, 3))).any()


def test_fixed_weights_ignore_features_that_were_not_in_the_examples():
    layer = HiddenLayer.from_examples([{"a": 1.0, "b": 2.0}, {"a": 3.0}], ["x", "y"], n_hidden=4)
    with_new = layer.transform_one({"a": 1.0, "c": 9.0})
    assert with_new == layer.transform_one({"a": 1.0})


def test_unfixed_differences_say_what_to_do():
    layer = HiddenLayer(5, "difference")
    assert not layer.is_fixed
    for call in (lambda: layer.transform_one({"a": 1.0}), lambda: layer.transform_many(ROWS)):
        with pytest.raises(ValueError, match="from_examples"):
            call()


def test_random_weights_need_no_examples():
    layer = HiddenLayer.from_examples(ROWS, list("ababab"), 5, input_weights="bipolar")
    np.testing.assert_array_equal(
        layer.transform_many(ROWS), HiddenLayer(5, "bipolar").transform_many(ROWS)
    )


@pytest.mark.parametrize(
    "copy_of", [copy.deepcopy, lambda m: m.clone(), lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_transform_alike(copy_of):
    for layer in (HiddenLayer(5), HiddenLayer.from_examples(ROWS, list("ababab"), 5)):
        expected = layer.transform_many(ROWS)
        np.testing.assert_array_equal(copy_of(layer).transform_many(ROWS), expected)


def test_float32_is_kept():
    layer = HiddenLayer(5, dtype="float32")
    assert layer.transform_many(ROWS.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(
        layer.transform_many(ROWS), HiddenLayer(5).transform_many(ROWS), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_hidden": 0}, ValueError, "n_hidden=0 must be at least 1"),
        ({"n_hidden": 2.5}, TypeError, "n_hidden=2.5 must be an int"),
        ({"n_hidden": True}, TypeError, "must be an int"),
        ({"input_weights": "cauchy"}, ValueError, 'not known. Pass one of "gaussian"'),
        ({"activation": "tanhh"}, ValueError, "activation='tanhh' is not known"),
        ({"activation": None}, ValueError, "activation=None is not known"),
        ({"seed": -1}, ValueError, "seed=-1 must be at least 0"),
        ({"seed": None}, TypeError, "seed=None must be an int"),
        ({"dtype": "float16"}, ValueError, "dtype='float16' is not known"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        HiddenLayer(**settings)


def test_one_class_gives_no_differences():
    with pytest.raises(ValueError, match="at least two classes"):
        HiddenLayer.from_examples(ROWS, ["a"] * 6)


def test_fixed_weights_have_one_width():
    fixed = HiddenLayer.from_examples(ROWS, list("ababab"), 5).input_weights
    with pytest.raises(ValueError, match="n_hidden=6 does not fit"):
        HiddenLayer(6, fixed)
