"""Several targets by name: read in any form, all of them in every row, answered in kind."""

import numpy as np
import pandas as pd
import pytest

from onlinels import LeastSquaresMultiTargetRegressor
from onlinels.linear.regressors import read_named_targets, read_plain_targets
from support import laws

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])
SAMPLES = [{"a": a, "b": b} for a, b in X.tolist()]
Y = np.array([[0.5, 9.0], [1.5, 8.0], [2.0, 8.5], [4.0, 1.0]])
ROWS = [{"up": up, "down": down} for up, down in Y.tolist()]


def trained(**settings):
    return laws.fitted(LeastSquaresMultiTargetRegressor(**settings), SAMPLES, ROWS)


def test_order_of_targets_never_matters():
    model, other, again = trained(), LeastSquaresMultiTargetRegressor(), trained().empty()
    for x, y in zip(SAMPLES, ROWS, strict=True):
        other.learn_one(x, dict(reversed(y.items())))
    assert other.target_names == model.target_names == ("down", "up")
    laws.assert_same_model(other, model)
    again.learn_many(pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(ROWS)[["down", "up"]])
    assert (again.output_weights == model.output_weights).all()


def test_other_targets_do_not_merge():
    model, other = trained(), LeastSquaresMultiTargetRegressor()
    other.learn_one({"new": 1.0}, {"up": 1.0})
    laws.assert_refused(lambda: model.merge(other), model, r"other has the targets \('up',\)")


ROW, UP = {"a": 1.0, "b": 2.0}, {"up": 1.0, "down": 2.0}
BAD_CALLS = [
    ("learn_one", (ROW, {"up": 1.0}), ValueError, "lacks the target 'down'.*Regressor per target"),
    ("learn_one", (ROW, UP | {"side": 1.0}), ValueError, "y holds the new target 'side'"),
    ("learn_one", (ROW, {}), ValueError, "y holds no target"),
    ("learn_one", (ROW, 3.0), TypeError, "y is of type float, expected a dict"),
    ("learn_one", (ROW, None), TypeError, "NoneType"),
    ("learn_one", (ROW, UP | {"up": None}), ValueError, r"y\['up'\] is None"),
    ("learn_one", (ROW, UP | {"up": np.nan}), ValueError, r"y\['up'\] is nan"),
    ("learn_one", (ROW, UP | {"up": "x"}), TypeError, r"y\['up'\] is 'x'"),
    ("learn_one", (ROW, UP | {"up": np.ones(2)}), TypeError, "ndarray"),
    ("learn_many", ([ROW], [UP, UP]), ValueError, "y has 2 rows of 2 targets, expected 1"),
    ("learn_many", ([ROW] * 2, [UP, {"up": 1.0}]), ValueError, "lacks the target 'down'"),
    ("learn_many", ([ROW] * 2, [UP, None]), TypeError, r"y\[1\] is of type NoneType"),
    ("learn_many", ([ROW], np.ones((1, 2))), ValueError, "lacks the target 'down'"),
    ("learn_many", ([ROW], np.ones(1)), ValueError, r"y has shape \(1,\)"),
    ("learn_many", ([ROW], pd.DataFrame({"up": [1.0], "down": ["x"]})), TypeError, "y has a col"),
    ("learn_many", ([ROW], pd.DataFrame({"up": [1.0], "down": [np.nan]})), ValueError, "y holds"),
    ("learn_many", ([ROW], pd.Series([1.0])), TypeError, "y is of type Series"),
    ("learn_many", ([ROW], [UP], [-1.0]), ValueError, "at least 0"),
    ("unlearn_one", (ROW, {"up": 1.0}), ValueError, "lacks"),
    ("unlearn_many", ([ROW] * 5, [UP] * 5), ValueError, "at most the 4"),
]


test_bad_calls_leave_the_state_untouched = laws.calls_refused(trained, BAD_CALLS)


def test_first_rows_that_differ_leave_the_model_empty():
    model = LeastSquaresMultiTargetRegressor()
    with pytest.raises(ValueError, match="new target 'c'"):
        model.learn_many([ROW] * 2, [{"p": 1.0}, {"p": 1.0, "c": 2.0}])
    assert (model.target_names, model.feature_names, model.count) == ((), (), 0)
    model.learn_one(ROW, {"q": 1.0})
    assert model.target_names == ("q",)


@pytest.mark.parametrize("known", [(), ("a", "b")])
@pytest.mark.parametrize("value", [1.5, -3, True, np.float32(0.5), np.int8(2), 10**400, "1", None])
@pytest.mark.parametrize(
    "last", [{"b": 1.0, "a": 2.0}, {"a": 2.0}, {"a": 1.0, "c": 2.0}, [1.0, 2.0]]
)
def test_targets_of_many_rows_are_those_of_each(known, value, last):
    y = [{"a": value, "b": 2.0}, last]
    found = read_plain_targets(y, known)
    if found is None:
        return
    names, expected = ("a", "b"), [read_named_targets(each, found[0])[1] for each in y]
    assert found[0] == names
    np.testing.assert_array_equal(found[1], np.concatenate(expected))


def test_lists_of_targets_are_learnt_as_tables():
    X, Y = np.arange(12.0).reshape(6, 2) ** 2, np.arange(6.0)[:, None] * [1.0, -1.0]
    many, table = (LeastSquaresMultiTargetRegressor(1.0) for _ in range(2))
    many.learn_many(X, [{"u": u, "t": t} for t, u in Y.tolist()])
    table.learn_many(X, pd.DataFrame(Y, columns=["t", "u"]))
    np.testing.assert_array_equal(many.output_weights, table.output_weights)


def test_targets_whose_names_python_compares_have_intervals():
    """From too few rows for the core's quantiles on, also where it hands rows back."""
    model, plain = (LeastSquaresMultiTargetRegressor(ridge=1.0) for _ in range(2))
    for k in range(30):
        x, targets = {"a": float(k % 5), "b": float(k % 3)}, (float(k), k * 0.5 + k % 3)
        known = model.predict_interval_one(x), plain.predict_interval_one(x)
        ends = (np.array([*each.values()]) for each in known)
        np.testing.assert_allclose(*ends, rtol=1e-9, atol=1e-9)
        distributions = model.predict_one(x, with_dist=True)
        assert [*distributions] == [("t", 1), ("t", 2)][: 2 * (k > 0)]
        model.learn_one(x, dict(zip([("t", 1), ("t", 2)], targets, strict=True)))
        plain.learn_one(x, dict(zip("uv", targets, strict=True)))
