"""Rows gathered between looks: the same model as without, whatever happens in between."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
)
from onlinels.gathering import LONGEST, MOST_ROWS

NAMES = "b", "a", "c"
SETTINGS = [
    {"ridge": 1.0},
    {"ridge": 1.0, "accumulator": "recursive"},
    {"ridge": 1.0, "accumulator": "recursive", "fit_intercept": False},
    {"ridge": 1.0, "accumulator": "orthogonal"},
    {"ridge": 1.0, "forgetting_factor": 0.9},
    {"ridge": 1.0, "forgetting_factor": 0.9, "accumulator": "recursive"},
    {"ridge": "paper"},
    {"ridge": 0.5, "balance": "classwise"},
    {},
]


def stream(n_rows, seed=0):
    random = np.random.default_rng(seed)
    rows = random.integers(-9, 10, (n_rows, 3)).tolist()
    return [dict(zip(NAMES, row, strict=True)) for row in rows], random.integers(
        0, 3, n_rows
    ).tolist()


def learnt(model, X, y):
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
    return model


@contextmanager
def unchanged(model):
    """Check that a call that fails leaves no trace."""
    before = pickle.dumps(model)
    yield
    assert pickle.dumps(model) == before


def waiting(model):
    return len(model._gathered or ())


def assert_same_answers(model, other):
    assert (model.classes, model.count) == (other.classes, other.count)
    names, others = model.feature_names, other.feature_names
    assert set(names) == set(others)
    rows = [others.index(name) for name in names]
    np.testing.assert_allclose(
        model.output_weights, other.output_weights[rows], rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(model.intercept, other.intercept, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("settings", SETTINGS)
@given(st.lists(st.integers(0, 140), max_size=4), st.integers(2, 140), st.integers(0, 99))
def test_looks_in_between_change_nothing(settings, looks, n_rows, seed):
    X, y = stream(n_rows, seed)
    model = LeastSquaresClassifier(**settings)
    for number, (x, label) in enumerate(zip(X, y, strict=True)):
        if number in looks:
            model.predict_one(x)
        model.learn_one(x, label)
    batch = LeastSquaresClassifier(**settings)
    batch.learn_many(X, y)
    assert_same_answers(model, batch)


def test_rows_are_gathered_and_taken_in():
    X, y = stream(MOST_ROWS + 10)
    model = LeastSquaresClassifier(ridge=1.0)
    learnt(model, X[:5], [0, 1, 2, 0, 1])
    # The first row of these names, and the first of each class, took a closer look.
    assert waiting(model) == 2
    learnt(model, X[5:], y[5:])
    assert 0 < waiting(model) < MOST_ROWS
    assert model.count == len(X)
    assert waiting(model) == 0


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_hold_what_was_gathered(settings, copied):
    X, y = stream(30)
    model = learnt(LeastSquaresClassifier(**settings), X, y)
    clone = copied(model)
    learnt(model, X[:7], y[:7])
    learnt(clone, X[:7], y[:7])
    assert clone.count == model.count == 37
    assert (clone.output_weights == model.output_weights).all()


@pytest.mark.parametrize("settings", [{"ridge": 1.0}, {"ridge": 1.0, "accumulator": "recursive"}])
def test_merging_and_unlearning_count_what_was_gathered(settings):
    X, y = stream(40)
    one = learnt(LeastSquaresClassifier(**settings), X[:20], y[:20])
    two = learnt(LeastSquaresClassifier(**settings), X[20:], y[20:])
    assert waiting(one)
    assert waiting(two)
    one.merge(two)
    both = learnt(LeastSquaresClassifier(**settings), X, y)
    assert_same_answers(one, both)
    learnt(one, X, y)
    one.unlearn_many(X, y)
    assert_same_answers(one, both)


def test_a_ridge_that_is_changed_holds_for_all():
    X, y = stream(40)
    for accumulator in ("gram", "recursive"):
        model = LeastSquaresClassifier(ridge=1.0, accumulator=accumulator)
        learnt(model, X[:20], y[:20])
        model.ridge = 7.0
        learnt(model, X[20:], y[20:])
        expected = LeastSquaresClassifier(ridge=7.0)
        expected.learn_many(X, y)
        assert_same_answers(model, expected)


@pytest.mark.parametrize(
    "x",
    [
        {"b": 1.0, "a": None, "c": 2.0},
        {"b": 1.0, "a": float("nan"), "c": 2.0},
        {"b": 1.0, "a": float("inf"), "c": 2.0},
        {"b": 1.0, "a": 1e200, "c": 2.0},
        {"b": 1.0, "a": 10**400, "c": 2.0},
        {"b": 1.0, "a": "1.0", "c": 2.0},
        {"b": 1.0, "a": 1j, "c": 2.0},
        {"b": 1.0, "a": np.ma.masked, "c": 2.0},
        [1.0, 2.0, 3.0],
        None,
    ],
)
def test_samples_that_cannot_be_learnt_are_refused_as_ever(x):
    X, y = stream(20)
    model = learnt(LeastSquaresClassifier(ridge=1.0), X, y)
    with unchanged(model), pytest.raises((TypeError, ValueError)):
        model.learn_one(x, 0)
    with pytest.raises((TypeError, ValueError)):
        model.predict_one(x)


@pytest.mark.parametrize("label", [[1], float("nan"), np.datetime64("2020-01-01"), np.ma.masked])
def test_labels_that_cannot_be_learnt_are_refused_as_ever(label):
    X, y = stream(20)
    model = learnt(LeastSquaresClassifier(ridge=1.0), X, y)
    with unchanged(model), pytest.raises((TypeError, ValueError)):
        model.learn_one(X[0], label)


def test_rows_that_outweigh_a_ridge_inside_are_refused_at_once():
    X, y = stream(20)
    model = learnt(LeastSquaresClassifier(ridge=1.0, accumulator="recursive"), X, y)
    huge = {"b": 1e9, "a": -1e9, "c": 1e8}
    with unchanged(model), pytest.raises(ValueError, match="outweigh"):
        model.learn_one(huge, 0)


@pytest.mark.parametrize(
    "value", [True, 3, np.int64(3), np.float32(0.5), Decimal("0.25"), 10**20, LONGEST, 1e100]
)
def test_numbers_of_any_kind_and_size_count_the_same(value):
    X, y = stream(12)
    X = [*X, {"b": value, "a": 1.0, "c": 0.0}]
    y = [*y, 1]
    model = learnt(LeastSquaresClassifier(ridge=1.0), X, y)
    batch = LeastSquaresClassifier(ridge=1.0)
    batch.learn_many(X, y)
    np.testing.assert_allclose(model.output_weights, batch.output_weights, rtol=1e-6, atol=1e-12)


def test_other_orders_and_sets_of_names_meet_the_same_columns():
    X, y = stream(60)
    random = np.random.default_rng(1)
    mixed = []
    for number, x in enumerate(X):
        items = [item for item in x.items() if number < 20 or item[1] % 4]
        mixed.append(dict(items[index] for index in random.permutation(len(items))))
    mixed[40:] = [x | {"late": 1.0} for x in mixed[40:]]
    model, batch = LeastSquaresClassifier(ridge=1.0), LeastSquaresClassifier(ridge=1.0)
    for x, label in zip(mixed, y, strict=True):
        model.predict_one(x | {"unknown": 5.0})
        model.predict_one(x | {"unknown": 5.0})
        model.learn_one(x, label)
    batch.learn_many(mixed, y)
    assert_same_answers(model, batch)
    for x in mixed:
        assert model.scores_one(x) == pytest.approx(batch.scores_one(x))
        assert model.scores_one(x | {"unknown": 5.0}) == pytest.approx(batch.scores_one(x))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_arrays_in_samples_are_gathered_too(dtype):
    rows = np.random.default_rng(0).integers(-9, 10, (30, 4)).astype(dtype)
    y = (np.arange(30) % 3).tolist()
    X = [{"h": row} for row in rows]
    model = learnt(LeastSquaresClassifier(ridge=1.0), X, y)
    assert bool(waiting(model)) == (dtype is not np.int64)
    batch = LeastSquaresClassifier(ridge=1.0)
    batch.learn_many(X, y)
    assert_same_answers(model, batch)
    with unchanged(model), pytest.raises(ValueError, match="expected 4 as before"):
        model.learn_one({"h": np.ones(5)}, 0)


def test_an_array_that_changes_later_was_learnt_as_it_was():
    X, y = stream(20)
    row = np.ones(3)
    model, expected = (LeastSquaresClassifier(ridge=1.0) for _ in range(2))
    for x, label in zip(X, y, strict=True):
        row[:] = list(x.values())
        model.learn_one({"h": row}, label)
        expected.learn_many([{"h": row}], [label])
    row[:] = 1e9
    assert_same_answers(model, expected)


def test_dates_are_asked_for_as_ever():
    model = LeastSquaresClassifier(ridge=1.0, half_life=timedelta(days=1))
    for _ in range(3):
        with pytest.raises(ValueError, match="t is None"):
            model.learn_one({"a": 1.0}, 0)


def test_regressors_gather_too():
    X, y = stream(50)
    model, batch = LeastSquaresRegressor(ridge=1.0), LeastSquaresRegressor(ridge=1.0)
    learnt(model, X, y)
    assert waiting(model)
    batch.learn_many(X, y)
    np.testing.assert_allclose(model.output_weights, batch.output_weights, rtol=1e-9, atol=1e-12)
    assert model.count == 50
    learnt(model, X, y)
    other = pickle.loads(pickle.dumps(model))
    assert model.predict_one(X[0]) == other.predict_one(X[0])
    for bad in ("1", None, float("nan"), 1e200):
        with unchanged(model), pytest.raises((TypeError, ValueError)):
            model.learn_one(X[0], bad)


def test_several_targets_are_gathered_by_name():
    X, y = stream(50)
    several = [{"p": label, "q": -2.0 * label} for label in y]
    several[10:] = [{"q": each["q"], "p": each["p"]} for each in several[10:]]
    model, batch = (LeastSquaresMultiTargetRegressor(ridge=1.0) for _ in range(2))
    learnt(model, X, several)
    assert waiting(model)
    batch.learn_many(X, several)
    np.testing.assert_allclose(model.output_weights, batch.output_weights, rtol=1e-9, atol=1e-12)
    with unchanged(model), pytest.raises(ValueError, match="p"):
        model.learn_one(X[0], {"p": 1.0})


def same(one, other, x):
    """Check that both answer alike, for one row and for many, at the same ridge."""
    assert one.ridge_ == pytest.approx(other.ridge_, rel=1e-9)
    for model in (one, other):
        single = model.scores_one(x)
        assert single == pytest.approx(copy.deepcopy(other).scores_many([x])[0], abs=1e-9)


REFUSED = KFold(5), -1.0, 0.0, "none"


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("refused", REFUSED)
def test_a_ridge_that_cannot_be_loses_no_row(settings, refused):
    X, y = stream(20)
    model = learnt(LeastSquaresClassifier(**settings), X, y)
    whole = learnt(LeastSquaresClassifier(**settings), X, y)
    first, model.ridge = model.ridge, refused
    for look in (lambda: model.count, lambda: model.output_weights, lambda: pickle.dumps(model)):
        with suppress(ValueError):
            look()
    model.ridge = first
    assert model.count == 20
    assert model._class_counts.sum() == 20
    same(model, whole, X[0])


@pytest.mark.parametrize("first", [1.0, "paper"])
@pytest.mark.parametrize("look", [True, False])
def test_a_ridge_that_is_set_and_set_back_answers_as_if_it_never_was(first, look):
    X, y = stream(300)
    model = LeastSquaresClassifier(ridge=first, accumulator="recursive")
    whole = learnt(copy.deepcopy(model), X, y)
    learnt(model, X[:290], y[:290])
    model.ridge = 100.0
    if look:
        model.predict_one(X[0])
    model.ridge = first
    learnt(model, X[290:], y[290:])
    if first != "paper":
        same(model, whole, X[1])
    assert model.scores_one(X[1]) == pytest.approx(model.scores_many([X[1]])[0])


@pytest.mark.parametrize("n_rows", [3, 400, 511, 512, 513])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("ridge", ["paper", "auto", 7.0])
def test_a_ridge_set_between_rows_is_in_force_however_rows_are_looked_at(settings, ridge, n_rows):
    X, y = stream(520)
    models = [LeastSquaresClassifier(**settings) for _ in range(3)]
    for number, model in enumerate(models):
        for row, (x, label) in enumerate(zip(X, y, strict=True)):
            if row == n_rows:
                model.ridge = ridge
            # A weight of the type int is read with all checks.
            model.learn_one(x, label, 1 if number == 1 else 1.0)
            if number == 2:
                _ = model.count
    for other in models[1:]:
        same(models[0], other, X[0])


@pytest.mark.parametrize("accumulator", ["recursive", "gram"])
def test_a_row_of_zeros_far_from_the_mean_is_not_gathered(accumulator):
    model = LeastSquaresClassifier(ridge=1.0, accumulator=accumulator)
    for row in range(5):
        model.learn_one({"a": 3e7}, row % 2)
    if accumulator == "gram":
        model.learn_one({"a": 0.0}, "new")
        assert model.count == 6
        return
    for label in (0, "new"):
        with unchanged(model), pytest.raises(ValueError, match="outweigh"):
            model.learn_one({"a": 0.0}, label)
        with unchanged(model), pytest.raises(ValueError, match="outweigh"):
            model.learn_many([{"a": 0.0}], [label])
    assert model.classes == (0, 1)
    model.scores_one({"a": 3e7})


def test_what_is_harmless_is_told_anew_when_a_look_fixes_another_ridge():
    model = LeastSquaresRegressor(ridge=1.0, accumulator="recursive", fit_intercept=False)
    for row in range(6):
        model.learn_one({"a": 1.0 + row, "b": 0.0}, 1.0)
    model.ridge = 1e-20
    model.predict_one({"a": 1.0, "b": 0.0})
    model.ridge = 1e-20 + 0.0
    with pytest.raises(ValueError, match="outweigh"):
        model.learn_one({"a": 0.0, "b": 1e5}, 1.0)
    assert model.count == 6


def test_an_error_while_rows_are_let_in_loses_none(monkeypatch):
    X, y = stream(30)
    model = learnt(LeastSquaresClassifier(ridge=1.0), X, y)
    assert waiting(model)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(model._sums), "plan_rows", fail)
        with pytest.raises(MemoryError):
            _ = model.count
    assert model.count == 30


@pytest.mark.parametrize("settings", SETTINGS)
def test_threads_that_predict_at_once_agree(settings):
    X, y = stream(60)
    for _ in range(20):
        model = learnt(LeastSquaresClassifier(**settings), X, y)
        expected = copy.deepcopy(model).output_weights
        start = threading.Barrier(3)

        def predict(model=model, start=start):
            start.wait()
            return model.scores_one(X[0])

        with ThreadPoolExecutor(3) as pool:
            answers = [pool.submit(predict) for _ in range(3)]
        assert len({tuple(answer.result().items()) for answer in answers}) <= 3
        np.testing.assert_allclose(model.output_weights, expected, atol=1e-9)
        assert model.count == 60


@pytest.mark.parametrize("value", [1e200, -1e200, np.longdouble("1e400")])
def test_values_that_overflow_are_refused_without_a_warning(value):
    model = LeastSquaresClassifier(ridge=1.0)
    for row in range(4):
        model.learn_one({"a": np.array([1.0, row])}, row % 2)
    for x in ({"a": np.array([1.0, value])},):
        with unchanged(model), pytest.raises(ValueError, match="x"):
            model.learn_one(x, 0)
    named = learnt(LeastSquaresClassifier(ridge=1.0), *stream(9))
    with unchanged(named), pytest.raises(ValueError, match="x"):
        named.learn_one({"b": float(value) if abs(value) < 1e300 else value, "a": 1.0, "c": 1.0}, 0)


VALUES = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-(10**6), 10**6),
    st.booleans(),
    st.sampled_from(
        [
            np.float32(1.5),
            np.float64(-2.0),
            np.uint8(200),
            np.int64(-7),
            np.bool_(True),
            np.float16(0.5),
            np.longdouble(3.0),
            Fraction(1, 3),
            Decimal("2.5"),
            np.array(4.0),
            np.array([5.0]),
            np.array([1.0, 2.0]),
            np.float32(3e38),
            np.nan,
            np.inf,
            -np.inf,
            10**400,
            1e200,
            "3",
            None,
            1j,
            np.datetime64("2020-01-01"),
            np.timedelta64(3, "D"),
            timedelta(3),
            [1.0],
            np.ma.masked,
        ]
    ),
)


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from([0, 100]), st.randoms())
def test_known_names_in_any_order_are_read_as_at_first_sight(values, n_others, shuffle):
    values = values + [1.0] * n_others
    names = [f"name {number}" for number in range(len(values))]
    model = LeastSquaresClassifier(ridge=1.0)
    for label in (0, 1, 0):
        model.learn_one(dict.fromkeys(names, 1.0 + label), label)
    assert model._reader is not None
    x = dict(zip(names, values, strict=True))
    shuffle.shuffle(names)
    other_order = {name: x[name] for name in names}
    careful = copy.deepcopy(model)  # Without a reader.
    answers = []
    for each in (model, careful):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                answers.append(each.predict_proba_one(other_order))
            except (TypeError, ValueError) as error:
                answers.append(type(error))
        assert not warned
    if isinstance(answers[0], dict):
        assert answers[0] == pytest.approx(answers[1])
    else:
        assert answers[0] is answers[1]
