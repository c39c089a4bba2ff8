"""Models that learnt parts of the rows merge to the model of all rows, in any order and tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from support import laws, strategies
from support.strategies import Rows, examples, kinds

NAMES = ["a", "h0", "h1", "h10", 7, ("h", 2), ("x", 0), ("x", 1), "z"]


@kinds
@examples(75)
@given(st.data())
def test_any_tree_of_merges_is_the_batch_solution(kind, data):
    """Sites see different features and classes, vanishing ones too, in any order of keys.

    An empty model among them changes nothing.
    """
    rows, make = data.draw(strategies.cases(kind, min_rows=2))
    names = data.draw(st.permutations(NAMES))[: rows.X.shape[1]]
    rows.X[: data.draw(st.integers(0, len(rows)))][:, data.draw(st.integers(0, len(names))) :] = 0
    samples = [
        {name: x[name] for name in data.draw(st.permutations(names)) if x[name]}
        for x in rows.dicts(names)
    ]
    models = [make(), make()]
    for part in data.draw(strategies.splits(len(rows))):
        some = slice(part.start, part.stop)
        models.append(laws.fitted(make(), samples[some], rows.y[some], rows.w[some]))
        ask = data.draw(st.sampled_from([models[-1].predict_many, len]))
        ask(samples)
    merged = laws.merged_in_any_tree(models, data)
    for each in (merged, merged + merged.empty(), onlinels.merge(merged.empty(), merged)):
        columns = [names.index(name) for name in each.feature_names]
        known = Rows(rows.X[:, columns], rows.y, rows.w)
        laws.assert_is_batch_solution(each, known, range(len(columns)))
        laws.assert_same_model(each, merged)


REGRESSOR = laws.fitted(LeastSquaresRegressor(), [{"a": 1.0}], [1.0])
SEVERAL = laws.fitted(LeastSquaresMultiTargetRegressor(), [{"a": 1.0}], [{"u": 1.0}])
OTHERS = [
    (REGRESSOR, LeastSquaresRegressor(ridge=2.0), ValueError, "ridge: 'auto' and 2.0"),
    (REGRESSOR, LeastSquaresRegressor(half_life=2.0), ValueError, "half_life: None and 2.0"),
    (REGRESSOR, LeastSquaresClassifier(), TypeError, "LeastSquaresClassifier"),
    (REGRESSOR, LeastSquaresMultiTargetRegressor(), TypeError, "MultiTarget"),
    (REGRESSOR, HiddenLayer(), TypeError, "HiddenLayer"),
    (
        SEVERAL,
        laws.fitted(SEVERAL.empty(), [{"new": 1.0}], [{"v": 1.0}]),
        ValueError,
        r"other has the targets \('v',\)",
    ),
]


@pytest.mark.parametrize(("model", "other", "error", "message"), OTHERS)
def test_models_that_do_not_merge(model, other, error, message):
    laws.assert_refused(lambda: model.merge(other), model, message, error)
