"""What a model has learnt stands in one attribute, which changes replace: the rules of a state."""

import ast
import copy

import numpy as np
import pytest
from scipy.sparse import csr_array

from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.core.constants import PREDICTED_AT
from onlinels.linear.model import checked_one
from onlinels.linear.single import is_learnt_in_core
from onlinels.linear.state import (
    chosen,
    faded,
    learn_block,
    learn_row,
    merged,
    pruned,
    ready,
    unlearnt,
    with_sparse,
    without_choices,
)
from support.spent import Spent
from test_structure import MODULES, tree_of

RANDOM = np.random.default_rng(0)
ROWS = [dict(zip("ab", row, strict=True)) for row in RANDOM.normal(size=(40, 2)).tolist()]
LABELS = [*"xyxy"] * 10


def taught(**settings):
    model = LeastSquaresClassifier(**settings)
    for x, y in zip(ROWS, LABELS, strict=True):
        model.predict_one(x)
        model.learn_one(x, y)
    model.predict_many(ROWS[:1])  # The core keeps the solutions of single rows.
    return model


def row_of(model, x=ROWS[0], y="x"):
    return checked_one(model, x, y, 1.0, None)[1]


DECAYING = {"ridge": 1.0, "accumulator": "recursive", "forgetting_factor": 0.98}
CHANGES = {
    "choice that is not due": lambda model: chosen(model._state),
    "ready": lambda model: ready(model._state),
    "row": lambda model: learn_row(model._state, row_of(model)).state,
    "row without weight": lambda model: (
        learn_row(model._state, row_of(model)._replace(w=0.0)).state
    ),
    "block": lambda model: learn_block(model._state, row_of(model), 99.0, None).state,
    "unlearning": lambda model: pruned(
        unlearnt(model._state, row_of(model)), model._state, row_of(model).values, False
    ),
    "merging": lambda model: merged(model._state, taught(**DECAYING)._state),
    "merging with nothing": lambda model: merged(model._state, model.empty()._state),
    "merging into nothing": lambda model: merged(model.empty()._state, model._state),
    "fading": lambda model: faded(model._state, 0.5),
    "without choices": lambda model: without_choices(model._state),
}
SURVIVES = {
    # Share of the ridge, when it is due, predictions, solution.
    "choice that is not due": (True, True, True, True),
    "ready": (True, True, True, True),
    "row": (False, True, True, False),
    "row without weight": (False, True, True, False),
    "block": (False, False, False, False),
    "unlearning": (False, False, False, False),
    "merging": (False, False, False, False),
    "merging with nothing": (True, True, False, False),
    "merging into nothing": (True, True, False, False),
    "fading": (False, False, False, False),
    "without choices": (True, False, False, False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_derived_begins_anew_unless_a_function_passes_it_on(change):
    model = taught(**DECAYING)
    before = model._state.following
    share, due, asked = before.share, before.due, before.registers[PREDICTED_AT]
    assert 0.5 < share < 1.0
    after = CHANGES[change](model).following
    kept = after.share == share, after.due == due, after.registers[PREDICTED_AT] == asked
    assert (*kept, after.solution is not None) == SURVIVES[change]


@pytest.mark.parametrize("change", CHANGES)
def test_a_state_is_changed_by_nothing_but_the_calls_of_its_own_change(change):
    model = taught(**DECAYING)
    known = [*model.predict_proba_many(ROWS), model.difference(copy.deepcopy(model))]
    CHANGES[change](model)
    assert [*model.predict_proba_many(ROWS), model.difference(copy.deepcopy(model))] == known


@pytest.mark.parametrize(
    ("make", "y"),
    [
        (LeastSquaresClassifier, LABELS),
        (lambda: LeastSquaresClassifier(priors="equal", ridge=1.0), LABELS),
        (lambda: LeastSquaresRegressor(KFold(2)), [1.0, 2.0] * 20),
        (lambda: LeastSquaresRegressor(half_life=3.0), [1.0, 2.0] * 20),
        (LeastSquaresMultiTargetRegressor, [{"u": 1.0, "v": 2.0}, {"u": 0.0, "v": 1.0}] * 20),
    ],
)
def test_one_attribute_of_a_model_changes(make, y):
    model = make()
    lock = model._lock
    model.learn_many(ROWS, y)
    for x, target in zip(ROWS, y, strict=True):
        model.predict_one(x)
        model.learn_one(x, target)
    model.unlearn_many(ROWS[:3], y[:3])
    model.fade(0.9)
    model.merge(copy.copy(model))
    assert vars(model) == {"_state": model._state, "_lock": lock}


def test_a_state_that_has_lent_its_arrays_is_spent():
    """In tests, it raises. A row that the core learns by itself replaces no state."""
    model = taught(ridge=1.0)
    before = model._state
    model.learn_one(ROWS[0], "x")
    assert model._state is before
    model.learn_one(ROWS[0] | {"new": 1.0}, "x")
    assert model._state is not before
    assert type(before) is Spent
    with pytest.raises(AssertionError, match="is used: count"):
        _ = before.count


def test_a_row_for_which_room_is_made_is_learnt_by_the_core():
    model, half = taught(ridge=1.0), taught(ridge=1.0, half_life=9.0)
    wide = row_of(model, ROWS[0] | {"new": 1.0}, "z")
    assert is_learnt_in_core(model._state, wide)
    assert is_learnt_in_core(half._state, row_of(half))
    first = row_of(model.empty())
    assert is_learnt_in_core(model.empty()._state, first)
    assert not is_learnt_in_core(model.empty()._state, first._replace(w=0.0))


@pytest.mark.parametrize("settings", [{}, {"half_life": 9.0}, {"forgetting_factor": 0.9}])
def test_a_row_is_learnt_into_its_fold(settings):
    """The other folds decay. An outlier is apart in its fold, too."""
    single, batch = (LeastSquaresClassifier(KFold(2), **settings) for _ in range(2))
    rows, labels = [*ROWS, {"a": 3e3, "b": 1.0}, *ROWS[:3]], [*LABELS, *"xyxy"]
    batch.learn_many(rows, labels)
    for x, y in zip(rows, labels, strict=True):
        single.learn_one(x, y)
    known, expected = single._state.subsets, batch._state.subsets
    assert (known.inliers is None) == bool(settings)
    for own, other in zip([known, *known.folds], [expected, *expected.folds], strict=True):
        assert own.whole.count == other.whole.count
        assert (own.whole.prints == other.whole.prints).all()
        for mine, its in zip(own.whole.row_sums(), other.whole.row_sums(), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-9)
        assert (own.inliers is None) == (other.inliers is None)


def test_sparse_rows_make_a_state_of_new_sums():
    model = taught(ridge=1.0)
    before, row = model._state, row_of(model)
    after = with_sparse(before, row._replace(values=csr_array(row.values)))
    assert (before.count, after.count) == (40, 41)
    assert model.predict_one(ROWS[1]) in ("x", "y")


def writes(tree, names):
    """Yield the assignments to attributes of these names, or to their items, each with its name."""
    for node in ast.walk(tree):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for target in targets if isinstance(node, (ast.Assign, ast.AugAssign)) else ():
            each = target.elts if isinstance(target, ast.Tuple) else [target]
            for one in each:
                held = one.value if isinstance(one, ast.Subscript) else one
                if isinstance(held, ast.Attribute) and held.attr in names:
                    yield held.attr, ast.unparse(node)


def test_one_class_writes_what_is_derived():
    names = "registers", "recursion", "solution", "rows"
    found = {
        (name, path.name)
        for path in MODULES
        for name, line in writes(tree_of(path), names)
        if "following" in line or path.name == "following.py"
    }
    assert found == {(name, "following.py") for name in names}
