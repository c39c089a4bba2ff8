"""A limit on the number of features: rows that fit are learnt as without it, others refused."""

import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    StreamClassifier,
    StreamRegressor,
)
from onlinels.from_sums import regressor_from_sums
from support.laws import assert_refused
from support.strategies import classifier_settings, examples
from support.streams import COPIES


def merge(model, rows, y):
    other = model.empty()
    other.learn_many(rows, y)
    model.merge(other)


def learn_frame(model, rows, y):
    model.learn_many(pd.DataFrame(rows).drop(columns="h", errors="ignore").fillna(0.0), y)


STEPS = {
    "row": lambda m, rows, y: m.learn_one(rows[0], y[0]),
    "rows": lambda m, rows, y: m.learn_many(rows, y),
    "frame": learn_frame,
    "predicted rows": lambda m, rows, y: m.predict_learn_many(rows, y),
}
OF_LINEAR = STEPS | {"merge": merge, "fade": lambda m, rows, y: m.fade(len(rows) / 3.0 - 1 / 3.0)}
LABELS, NUMBERS = ["no", "yes", "no"], [2.0, -1.0, 4.0]
LINEAR, NONE = classifier_settings(), st.just({})
KINDS = {
    "labels": (LeastSquaresClassifier, LINEAR, OF_LINEAR, LABELS),
    "numbers": (LeastSquaresRegressor, LINEAR, OF_LINEAR, NUMBERS),
    "several": (
        LeastSquaresMultiTargetRegressor,
        *(LINEAR, OF_LINEAR, [{"u": y, "v": -y} for y in NUMBERS]),
    ),
    "stream": (StreamClassifier, NONE, STEPS, LABELS),
    "stream of numbers": (StreamRegressor, NONE, STEPS, NUMBERS),
}
"""Models, what draws their settings, what they may do, and targets of three rows."""

VALUES = {name: float(ord(name) % 5) for name in "abcdefg"}
NAMES = st.sets(st.sampled_from([*VALUES]), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(st.data(), st.integers(1, 9))
def test_what_fits_is_learnt_and_the_rest_changes_nothing(kind, data, most):
    """In any order of steps; an array counts as its entries, and a name in a question as none."""
    make, settings, steps, targets = KINDS[kind]
    settings = data.draw(settings)
    free, limited = (make(**settings, max_features=each) for each in (None, most))
    for step in data.draw(st.lists(st.sampled_from([*steps, *COPIES]), min_size=1, max_size=12)):
        if step in COPIES:
            limited = COPIES[step](limited)
            assert limited.max_features == most
            continue
        array = {"h": np.arange(3.0)} if data.draw(st.booleans()) else {}
        texts = {"text": "x"} if steps is STEPS and data.draw(st.booleans()) else {}
        names = data.draw(st.lists(NAMES, min_size=1, max_size=3))
        rows = [{name: VALUES[name] for name in each} | array | texts for each in names]
        take, wider = steps[step], copy.copy(free)
        take(wider, rows, targets[: len(rows)])
        if len(wider.feature_names) > most:
            message = f"^max_features={most} leaves no room for the features .*larger max_features"
            call = lambda: take(limited, rows, targets[: len(rows)])  # noqa: B023, E731
            assert_refused(call, limited, message)
        else:
            take(limited, rows, targets[: len(rows)])
            free = wider
        assert limited.feature_names == free.feature_names
        assert repr(limited.predict_many(rows)) == repr(free.predict_many(rows))
        assert repr(limited.predict_one(rows[0])) == repr(free.predict_one(rows[0]))
    assert limited.clone().max_features == most


MANY, SUMS = {f"x{k}": 1.0 for k in range(999)}, (np.zeros(4), np.zeros(4), 0.0, 0.0, 9)
REFUSED = [
    (
        lambda model: model.learn_one({"e": 0.0, "c": 1.0, "d": 2.0}, 1.0),
        r"max_features=3 .* \['d', 'e'\]: 2 are known, and with all .* would be 5\.",
    ),
    (lambda model: model.learn_one(MANY, 1.0), r"\['x1', 'x10', .*\.\.\.\].* 1,001"),
    (lambda model: model.learn_one({"h": np.ones(2)}, 1.0), r"\[\('h', 1\)\]"),
    (lambda model: model.empty().learn_many(np.ones((2, 4)), [1, 2]), r"\[3\]: 0 are known"),
    (lambda model: regressor_from_sums(model.empty(), np.eye(4), *SUMS), "max_features=3"),
    (lambda model: model.merge(LeastSquaresRegressor()), "max_features: 3 and None"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_the_error_names_features_and_counts(call, message):
    model = LeastSquaresRegressor(max_features=3)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    assert_refused(lambda: call(model), model, message)


def test_names_that_are_unlearnt_leave_room():
    model = LeastSquaresRegressor(ridge=1.0, max_features=2)
    model.learn_many([{"a": 1.0}, {"b": 1.0}, {"a": 2.0}], [1.0, 2.0, 3.0])
    model.unlearn_one({"b": 1.0}, 2.0)
    model.learn_one({"c": 4.0}, 2.0)
    assert model.feature_names == ("a", "c")


@pytest.mark.parametrize("make", [LeastSquaresClassifier, StreamClassifier])
def test_the_limit_changes_on_a_model_that_has_learnt(make):
    model = make()
    model.learn_one({"a": 1.0, "b": 2.0}, "x")
    model.max_features = 2
    assert_refused(lambda: model.learn_one({"c": 1.0}, "x"), model, "max_features=2")
    assert_refused(lambda: setattr(model, "max_features", 1), model, "max_features=1")
    model.mutate({"max_features": 3})
    model.learn_one({"c": 1.0}, "x")
    assert_refused(lambda: model.learn_one({"d": 1.0}, "x"), model, "max_features=3")
    model.max_features = None
    model.learn_one({"d": 1.0}, "x")
    assert model.feature_names == (*"abcd",)
