"""A limit on the number of features: rows that fit are learnt as without it, others refused."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift

import onlinels
from onlinels import (
    CalibratedClassifier,
    DriftAwareClassifier,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
    from_sums,
)
from support import version_3, version_4
from support.laws import assert_refused
from support.strategies import KINDS, classifier_settings, examples, kinds

PASSED_ON = {
    "copy": copy.copy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "file": lambda model: onlinels.loads(onlinels.dumps(model)),
}
STEPS = ["row", "rows", "frame", "predicted rows", "merge", "fade", *PASSED_ON]
NAMES = st.sets(st.sampled_from("abcdefg"), min_size=1, max_size=4)


def targets(kind, n_rows):
    names = KINDS[kind][1]
    if names is None:
        return ["no", "yes", "no"][:n_rows]
    numbers = [2.0, -1.0, 4.0][:n_rows]
    return [{"u": y, "v": -y} for y in numbers] if names else numbers


def take(model, step, rows, y):
    """Let a model take a step."""
    if step == "row":
        model.predict_one(rows[0])
        model.learn_one(rows[0], y[0])
    elif step == "rows":
        model.learn_many(rows, y)
    elif step == "frame":
        model.learn_many(pd.DataFrame(rows).drop(columns="h", errors="ignore").fillna(0.0), y)
    elif step == "predicted rows":
        model.predict_learn_many(rows, y)
    elif step == "merge":
        other = model.empty()
        other.learn_many(rows, y)
        model.merge(other)
    else:
        model.fade(len(rows) / 3.0 - 1.0 / 3.0)


@kinds
@examples(60)
@given(st.data(), st.integers(1, 9))
def test_what_fits_is_learnt_and_the_rest_changes_nothing(kind, data, most):
    """In any order of steps, beside a model without a limit; an array counts as its entries."""
    settings = data.draw(classifier_settings())
    free, limited = (KINDS[kind][0](**settings, max_features=each) for each in (None, most))
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=12)):
        if step in PASSED_ON:
            limited = PASSED_ON[step](limited)
            assert limited.max_features == most
            continue
        array = {"h": np.arange(3.0)} if data.draw(st.booleans()) else {}
        names = data.draw(st.lists(NAMES, min_size=1, max_size=3))
        rows = [{name: float(ord(name) % 5) for name in each} | array for each in names]
        y, wider = targets(kind, len(rows)), copy.copy(free)
        take(wider, step, rows, y)
        if len(wider.feature_names) > most:
            message = f"^max_features={most} leaves no room for the features .*larger max_features"
            assert_refused(lambda: take(limited, step, rows, y), limited, message)  # noqa: B023
        else:
            take(limited, step, rows, y)
            free = wider
        assert limited.feature_names == free.feature_names
        np.testing.assert_array_equal(limited.output_weights, free.output_weights)


def test_the_error_names_features_and_counts():
    model = LeastSquaresRegressor(max_features=3)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    message = r"max_features=3 .* \['d', 'e'\]: 2 are known, and with all .* would be 5\."
    row = {"e": 0.0, "c": 1.0, "d": 2.0}
    assert_refused(lambda: model.learn_one(row, 1.0), model, message)
    many = {f"x{k}": 1.0 for k in range(999)}
    assert_refused(lambda: model.learn_one(many, 1.0), model, r"\['x1', 'x10', .*\.\.\.\].* 1,001")
    assert_refused(lambda: model.learn_one({"h": np.ones(2)}, 1.0), model, r"\[\('h', 1\)\]")
    new = model.empty()
    assert_refused(lambda: new.learn_many(np.ones((2, 4)), [1, 2]), new, r"\[3\]: 0 are known")


def test_the_limit_changes_on_a_model_that_has_learnt():
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_one({"a": 1.0, "b": 2.0}, "x")
    model.predict_one({"a": 1.0})
    model.max_features = 2
    model.learn_one({"a": 0.0, "b": 1.0}, "y")
    assert_refused(lambda: model.learn_one({"c": 1.0}, "x"), model, "max_features=2")
    assert_refused(lambda: setattr(model, "max_features", 1), model, "must be at least 2")
    assert_refused(lambda: model.mutate({"max_features": 1}), model, "must be at least 2")
    model.mutate({"max_features": 3})
    model.learn_one({"c": 1.0}, "x")
    assert_refused(lambda: model.learn_one({"d": 1.0}, "x"), model, "max_features=3")
    model.max_features = None
    model.learn_one({"d": 1.0}, "x")
    free = LeastSquaresClassifier(ridge=1.0)
    rows = [{"a": 1.0, "b": 2.0}, {"a": 0.0, "b": 1.0}, {"c": 1.0}, {"d": 1.0}]
    for x, y in zip(rows, "xyxx", strict=True):
        free.learn_one(x, y)
    assert model.difference(free) < 1e-12


def test_names_that_are_unlearnt_leave_room():
    model = LeastSquaresRegressor(ridge=1.0, max_features=2)
    model.learn_many([{"a": 1.0}, {"b": 1.0}, {"a": 2.0}], [1.0, 2.0, 3.0])
    model.unlearn_one({"b": 1.0}, 2.0)
    model.learn_one({"c": 4.0}, 2.0)
    assert model.feature_names == ("a", "c")


def test_names_in_questions_are_no_features():
    model = LeastSquaresRegressor(ridge=1.0, max_features=1)
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], [1.0, 2.0, 3.0])
    row = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert model.predict_one(row) == model.predict_one({"a": 1.0})
    assert model.predict_interval_one(row)[0] < model.predict_one(row)
    assert model.unknown_features(row) == ("b", "c")


def test_models_of_other_limits_do_not_merge():
    model, other = LeastSquaresRegressor(max_features=2), LeastSquaresRegressor()
    assert_refused(lambda: model.merge(other), model, "max_features: 2 and None")


def test_sums_of_more_features_are_refused():
    limited = LeastSquaresRegressor(ridge=1.0, max_features=1)
    X, y = np.array([[0.0, 1.0], [1.0, 5.0], [2.0, 0.0]]), np.array([1.0, 3.0, 5.0])
    sums = X.T @ X, X.T @ y, X.sum(axis=0), y.sum(), y @ y, len(y)
    with pytest.raises(ValueError, match="max_features=1"):
        from_sums.regressor_from_sums(limited, *sums)


@pytest.mark.parametrize(
    "wrap",
    [
        CalibratedClassifier,
        lambda model: DriftAwareClassifier(model, drift.binary.DDM()),
    ],
)
def test_a_wrapped_model_refuses_rows_that_change_nothing(wrap):
    model = wrap(LeastSquaresClassifier(ridge=1.0, max_features=2))
    for k in range(20):
        model.learn_one({"a": k % 3, "b": k % 5}, k % 2)
    # What is solved when it is first asked for is kept.
    model.predict_many([{"a": 1.0, "b": 1.0}])
    for call in (
        lambda: model.learn_one({"a": 1.0, "c": 1.0}, 1),
        lambda: model.learn_many([{"a": 1.0, "b": 1.0}, {"c": 1.0}], [0, 1]),
    ):
        assert_refused(call, model, "max_features=2")


@pytest.mark.parametrize("former", [version_3, version_4])
def test_models_of_earlier_versions_have_no_limit(former):
    contents = former.unpacked()
    for models in (onlinels.loads(contents["models"]), pickle.loads(contents["pickles"])):
        linear = [each for each in models.values() if hasattr(each, "max_features")]
        assert linear
        assert {each.max_features for each in linear} == {None}


@pytest.mark.parametrize("make", [StreamClassifier, StreamRegressor])
@pytest.mark.parametrize("asks", [False, True])
def test_stream_models_have_the_limit_too(make, asks):
    """Texts count; rows, batches and copies are refused what does not fit, and change nothing."""
    model, free = make(max_features=3), make()
    for k in range(20):
        x = {"a": float(k), "sky": "clear" if k % 3 else "grey"}
        if asks:
            assert model.predict_one(x | {"other": 1.0}) == free.predict_one(x | {"other": 1.0})
        model.learn_one(x, k % 2)
        free.learn_one(x, k % 2)
    assert model.feature_names == free.feature_names
    fault = r"max_features=3 leaves no room for the features \["
    for same in (model, *(pass_on(model) for pass_on in PASSED_ON.values())):
        assert same.max_features == 3
        for bad in (x | {"b": 1.0}, x | {"sky": "red"}, x | {"c": np.ones(2)}):
            assert_refused(lambda s=same, x=bad: s.learn_one(x, 1), same, fault, ValueError)
            rows = [x, bad]
            assert_refused(lambda s=same, r=rows: s.learn_many(r, [0, 1]), same, fault, ValueError)
        for most in (2, 0, "3"):
            with pytest.raises((TypeError, ValueError), match="max_features="):
                same.max_features = most
        same.max_features = 4
        same.learn_one(x | {"b": 1.0}, 1)
        assert len(same.feature_names) == 4
    assert model.clone().max_features == 4
    assert free.max_features is None
