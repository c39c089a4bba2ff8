"""Unlearning: a model from which rows were taken out is as if it had never seen them."""

import contextlib
import copy
import functools
import pickle
import warnings
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    dumps,
    loads,
)
from onlinels.sums.statistics import Statistics
from onlinels.sums.subsets import Subsets
from support import laws, strategies
from support.laws import learnt
from support.strategies import kinds


def unlearn_some(model, rows, data):
    """Let a model unlearn drawn rows in batches; return those that stay, and those taken out."""
    taken = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1)))
    for batch in data.draw(strategies.splits(max(1, len(taken)))) if taken else []:
        laws.unlearn(model, rows.take(taken[row] for row in batch))
    return rows.take(row for row in range(len(rows)) if row not in taken), rows.take(taken)


def size_of(rows):
    return float((rows.w @ rows.X.astype(float) ** 2).sum())


@kinds
@given(st.data(), strategies.positive_ridges)
def test_any_subset_is_unlearnt(kind, data, ridge):
    """Classes leave with their rows, and may come back."""
    rows, make = data.draw(strategies.cases(kind, unlearns=True, min_rows=2, whole=True))
    model = learnt(functools.partial(make, ridge=ridge), rows)
    kept, taken = unlearn_some(model, rows, data)
    laws.assert_is_batch_solution(model, kept, size=size_of(rows))
    fresh = learnt(functools.partial(make, ridge=ridge), kept)
    found = laws.aligned_weights(model, fresh)
    np.testing.assert_allclose(found, fresh.output_weights, rtol=1e-7, atol=1e-7)
    if taken.y:
        laws.fitted(model, taken.X, taken.y, taken.w)
    laws.assert_is_batch_solution(model, rows, size=size_of(rows))


@pytest.mark.parametrize("kind", ["labels", "labels with priors"])
@given(st.data())
def test_any_subset_is_unlearnt_at_any_ridge_or_refused(kind, data):
    """Rounding errors may exceed the ridge where features are linearly dependent."""
    rows, make = data.draw(strategies.cases(kind, unlearns=True, min_rows=2, whole=True))
    model = learnt(make, rows)
    try:
        kept, _ = unlearn_some(model, rows, data)
    except ValueError:
        assert 0.0 < model.ridge_ <= 1e3 * laws.EPS * size_of(rows)
        return
    assert (model.count, set(model.classes)) == (len(kept), set(kept.y))
    least = {"labels": 1e-3, "labels with priors": 1e-15}[kind]
    if model.ridge_ >= least or model.ridge == "paper":
        laws.assert_is_batch_solution(model, kept, size=size_of(rows))


@pytest.mark.parametrize("ridge", ["auto", "paper"])
def test_a_ridge_of_removed_rows_does_not_stay(ridge):
    model, X = LeastSquaresRegressor(ridge, "recursive"), np.arange(300.0)[:, None]
    model.learn_many(X, 32.0 + 1.8 * X[:, 0])
    model.learn_one({0: 5.0}, 1.0, w=0.0)
    model.unlearn_many(X, 32.0 + 1.8 * X[:, 0])
    assert (model.ridge_, model.count) == (0.0, 1)
    model.unlearn_one({0: 5.0}, 1.0, w=0.0)
    assert model.count == 0
    new = LeastSquaresRegressor(ridge, "recursive")
    for each in (model, new):
        each.learn_one({0: 1.0}, 5.0)
        each.learn_one({0: 1001.0}, 5.0)
    assert model.ridge_ == new.ridge_
    assert (model.output_weights == new.output_weights).all()


@given(st.data(), strategies.rows(min_rows=2, whole=True), st.sampled_from([0.5, 0.9]))
def test_decayed_rows_are_taken_out_with_the_weight_that_is_left(data, rows, factor):
    row = data.draw(st.integers(0, len(rows) - 1))
    model = LeastSquaresClassifier(0.5, forgetting_factor=factor)
    model.learn_many(rows.X, rows.y, rows.w)
    decayed = rows.weighing(rows.w * factor ** np.arange(len(rows) - 1.0, -1.0, -1.0))
    one = decayed.take([row])
    model.unlearn_many(one.X, one.y, one.w)
    kept = decayed.take(other for other in range(len(rows)) if other != row)
    laws.assert_is_batch_solution(model, kept, size=float((rows.X.astype(float) ** 2).sum()))


DECAYS = {
    "factor": {"forgetting_factor": 0.8},
    "rows": {"half_life": 3.0},
    "times": {"half_life": 3.0},
    "dates": {"half_life": timedelta(hours=3)},
    "none": {},
}
"""Settings of models in which rows lose weight, by how their ages are told."""

NOON = datetime(2026, 3, 1, 12)


@pytest.mark.parametrize("told", DECAYS)
@given(st.data(), strategies.rows(min_rows=2, whole=True), strategies.unlearning_accumulators)
def test_the_weight_that_is_left_follows_from_the_time_or_the_age(told, data, rows, accumulator):
    n_rows = len(rows)
    taken = sorted(data.draw(st.sets(st.integers(0, n_rows - 1), min_size=1, max_size=n_rows - 1)))
    times, ages, left = [None] * n_rows, [None] * n_rows, np.ones(n_rows)
    if told in ("times", "dates"):
        hours = data.draw(st.lists(st.integers(0, 9), min_size=n_rows, max_size=n_rows))
        times = hours if told == "times" else [NOON + timedelta(hours=each) for each in hours]
        left = 2.0 ** ((np.array(hours) - max(hours)) / 3.0)
    elif told != "none":
        ages = [*range(n_rows)][::-1]
        left = (0.8 if told == "factor" else 2.0 ** (-1.0 / 3.0)) ** np.array(ages)
    model = LeastSquaresClassifier(0.5, accumulator, **DECAYS[told])
    model.learn_many(rows.X, rows.y, rows.w, times if times[0] is not None else None)
    one = rows.take(taken)
    when = {"t": [times[k] for k in taken], "age": [ages[k] for k in taken]}
    when = {name: known for name, known in when.items() if known[0] is not None}
    if data.draw(st.booleans()):
        model.unlearn_many(one.X, one.y, one.w, **when)
    else:
        for k, x in enumerate(one.dicts()):
            own = {name: known[k] for name, known in when.items()}
            model.unlearn_one(x, one.y[k], float(one.w[k]), **own)
    kept = rows.weighing(rows.w * left).take(k for k in range(n_rows) if k not in taken)
    laws.assert_is_batch_solution(model, kept, size=float((rows.X.astype(float) ** 2).sum()))


def test_ages_and_times_that_tell_no_weight_are_refused():
    x, y = {"a": 1.0}, "x"
    by_rows = LeastSquaresClassifier(1.0, forgetting_factor=0.5)
    by_times = LeastSquaresClassifier(1.0, half_life=2.0)
    by_life = LeastSquaresClassifier(1.0, half_life=2.0)
    for k in range(4):
        by_life.learn_one({"a": float(k)}, y)
        by_rows.learn_one({"a": float(k)}, y)
        by_times.learn_one({"a": float(k)}, y, t=float(k))
    values = [
        (by_rows, {"t": 3.0}, "t is 3.0, expected None"),
        (by_rows, {"t": 3.0, "age": 1}, "t and age are both passed"),
        (by_rows, {"age": -1}, "age=-1 must be whole and at least 0"),
        (by_rows, {"age": 0.5}, "age=0.5 must be whole"),
        (by_life, {"age": 4}, "age holds 4, expected less than 4, the number of rows learnt"),
        (LeastSquaresClassifier(half_life=2.0), {"age": 0}, "age holds 0, expected less than 0"),
        (by_times, {"age": 1}, "age is 1, expected None"),
        (by_times, {"t": 9.0}, "t is later than all rows learnt"),
    ]
    types = [(by_rows, {"age": "1"}, "age='1' must be a number"), (by_times, {"t": "noon"}, "t")]
    for error, table in ((ValueError, values), (TypeError, types)):
        for model, when, message in table:
            one, many = partial(model.unlearn_one, x, y), partial(model.unlearn_many, [x], [y])
            laws.assert_refused(partial(one, **when), model, message, error)
            laws.assert_refused(partial(many, **when), model, message, error)
    with pytest.raises(ValueError, match="age"):
        by_rows.unlearn_many([x], [y], age=[1, 2])
    plain = LeastSquaresClassifier(1.0)
    plain.learn_many([x, {"a": 3.0}], [y, y])
    plain.unlearn_one(x, y, t=1.0)
    plain.unlearn_one({"a": 3.0}, y, age=7)
    assert plain.count == 0


CHANGES = {
    "faded": lambda model: model.fade(0.5),
    "another half-life": lambda model: setattr(model, "half_life", 9.0),
    "no half-life": lambda model: setattr(model, "half_life", None),
    "merged with a faded one": lambda model: model.merge(faded_one()),
    "merged into a faded one": lambda model: faded_one().merge(model),
}
"""Changes after which the age of a row no longer tells what is left of its weight."""


def faded_one():
    model = LeastSquaresClassifier(1.0, half_life=2.0)
    model.learn_one({"a": 2.0}, "x", t=1.0)
    model.fade(0.5)
    return model


@pytest.mark.parametrize("change", CHANGES)
def test_after_another_decay_the_weight_does_not_follow_from_the_time(change):
    model = LeastSquaresClassifier(1.0, half_life=2.0)
    for k in range(4):
        model.learn_one({"a": float(k)}, "x", t=float(k))
    CHANGES[change](copy.copy(model).empty())  # Nothing is learnt there.
    model = CHANGES[change](model) or model
    for each in (model, copy.copy(model), pickle.loads(pickle.dumps(model)), loads(dumps(model))):
        for when in ({"t": 1.0}, {"age": 1}):
            one = partial(each.unlearn_one, {"a": 1.0}, "x", **when)
            laws.assert_refused(one, each, "None, because the model was faded, or weights decayed")
        each.unlearn_one({"a": 1.0}, "x", w=0.01)
    model.fade(0)
    model.learn_one({"a": 1.0}, "x")
    model.unlearn_one({"a": 1.0}, "x", t=1.0)
    assert model.count == 0


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("X", "y", "w", "message"),
    [
        ([{"a": 1.0}], ["never seen"], None, "y holds 'never seen'"),
        ([{"a": 1.0}] * 2, ["x", "x"], None, "'x' 2 times, expected at most the 1"),
        ([{"new": 1.0}], ["x"], None, r"x\['new'\] is not 0"),
        ([{"new": 0.0, "b": 0.0}, {"b": 1.0}], ["x", "y"], None, r"x\['b'\] is not 0"),
        ([{"a": 1.0}], ["x"], 9.0, "weight of the rows to remove is 9"),
        ([{"a": 99.0}], ["x"], None, "sum of squares of feature"),
        ([{"a": 0.0}], ["x"], 2.5, "sum of squares of target"),
        ([{"a": 1.0}], ["x"], -1.0, "at least 0"),
        ([{"a": None}], ["x"], None, "None"),
    ],
)
def test_more_than_was_learnt_cannot_be_unlearnt(fit_intercept, X, y, w, message):
    model = LeastSquaresClassifier(ridge=1.0, fit_intercept=fit_intercept)
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], ["x", "y", "y"])
    laws.assert_refused(lambda: model.unlearn_many(X, y, w), model, message)


def halves(make, X, y):
    """Return a model of rows that were taken out again by half, and one of half of each."""
    model, half = make(), make()
    model.learn_many(X, y)
    with pytest.warns(onlinels.DataWarning, match=r"A removal leaves a part of a row\."):
        model.unlearn_many(X, y, 0.5)
    half.learn_many(X, y, 0.5)
    return model, half


@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_rows_may_be_taken_out_in_part(accumulator):
    """Half of a row's weight stays, and its class with it; models of halves merge."""
    make = functools.partial(LeastSquaresClassifier, 1.0, accumulator)
    rows = [{"a": 1.0}, {"a": 2.0}, {"a": 5.0}]
    model, half = halves(make, rows, ["x", "y", "y"])
    assert model.classes == ("x", "y")
    assert model.count == 0
    np.testing.assert_allclose(model.output_weights, half.output_weights, atol=1e-12)
    others = [{"a": 3.0}, {"a": -2.0}]
    other, both = halves(make, others, ["x", "y"])[0], make()
    both.learn_many(rows + others, ["x", "y", "y", "x", "y"], 0.5)
    for merged in (model + other, other + model, model.empty() + model + other):
        assert merged.count == 0
        answers = [each.scores_one({"a": 4.0}) for each in (merged, both)]
        assert answers[0] == pytest.approx(answers[1], rel=1e-9)
    make = functools.partial(LeastSquaresRegressor, 1.0, accumulator)
    both = halves(make, rows * 4, [0.0, 1.0, 2.5] * 4)
    spreads = [each.predict_one({"a": 3.0}, with_dist=True).sigma for each in both]
    assert spreads[0] == pytest.approx(spreads[1])


@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_what_was_taken_out_before_a_merger_is_remembered_after_it(accumulator, fit_intercept):
    """Rounding errors that it left are no feature, and no lack of rows."""
    random = np.random.default_rng(0)
    settings = {"ridge": 1.0, "accumulator": accumulator, "fit_intercept": fit_intercept}
    model, other = LeastSquaresRegressor(**settings), LeastSquaresRegressor(**settings)
    kept = [{"a": value} for value in random.normal(size=5)]
    gone = [{"b": value} for value in random.normal(size=50)]
    model.learn_many(kept, random.normal(size=5))
    other.learn_many(gone, y := random.normal(size=50))
    other.learn_one({"a": 0.5}, 1.0)
    for row in random.permutation(50):
        other.unlearn_one(gone[row], y[row])
    for merged in (model + other, other + model):
        assert merged.feature_names == ("a",)
        merged.unlearn_one({"a": 0.5, "b": 0.0}, 1.0)


FORMS = [
    *({"ridge": ridge} for ridge in (0.0, 1e-6, "auto", "paper", KFold(3))),
    {"ridge": 0.0, "fit_intercept": False},
    {"ridge": 10.0, "accumulator": "recursive"},
]


def assert_has_batch_weights(model, X, y, used):
    """Assert that weights are those of rows at the ridges of a model, 0 of features not used."""
    A, T, _, _ = laws.weighted_centred(
        X[:, :used], laws.one_hot(y, model.classes), np.ones(len(y)), model.fit_intercept
    )
    penalty = np.diag(model.ridge_diagonal[:used])
    expected = np.linalg.lstsq(A.T @ A + penalty, A.T @ T, rcond=1e-13)[0]
    np.testing.assert_allclose(model.output_weights[:used], expected, rtol=1e-6, atol=1e-9)
    assert not model.output_weights[used:].any()


@pytest.mark.parametrize("form", FORMS, ids=str)
@strategies.examples(20)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_columns_that_are_constant_in_what_stays_have_no_weight(form, data, seed):
    """What the others leave of their sums is rounding, until the columns vary again."""
    random = np.random.default_rng(seed)
    n_kept, n_gone = data.draw(st.integers(4, 40)), data.draw(st.integers(1, 40))
    constant = 0.0
    if form.get("fit_intercept", True):
        constant = data.draw(st.sampled_from([0.0, 0.1, 9.81, 100.0]))
    X = random.normal(size=(n_kept + n_gone, 2)) + data.draw(st.sampled_from([0.0, 5.0]))
    other = data.draw(st.sampled_from([0.0, 100.0])) + random.normal(size=n_gone)
    X = np.column_stack([X, np.append(np.full(n_kept, constant), other)])
    y = (X[:, 0] + random.normal(size=len(X)) > X[:, 1]).tolist()
    model = LeastSquaresClassifier(**form)
    for row in random.permutation(len(X)):
        model.learn_many(X[[row]], [y[row]])
    order = n_kept + random.permutation(n_gone)
    for batch in data.draw(strategies.splits(n_gone)):
        gone = order[list(batch)]
        if data.draw(st.booleans()):
            model.predict_many(X[:1])
        model.unlearn_many(X[gone], [y[row] for row in gone])
    assert_has_batch_weights(model, X[:n_kept], y[:n_kept], 2)
    more, labels = X[:n_kept] + random.normal(size=(n_kept, 3)), y[:n_kept]
    model.learn_many(more, labels)
    assert_has_batch_weights(model, np.vstack([X[:n_kept], more]), labels * 2, 3)


@pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning")
@strategies.examples(15)
@given(
    seed=st.integers(0, 2**16),
    exponent=st.integers(0, 7),
    scaling=st.sampled_from(strategies.SCALINGS),
)
def test_rows_that_were_taken_out_make_no_later_call_raise(seed, exponent, scaling):
    random = np.random.default_rng(seed)
    X = random.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * random.normal(size=500)
    model = LeastSquaresRegressor(ridge="auto", accumulator="recursive", scaling=scaling)
    for at in (100, 400):
        model.learn_many(X[at - 100 : at], y[at - 100 : at])
        far = random.normal(size=(3, 3)) * 10.0**exponent
        model.learn_many(far, far[:, 0])
        with contextlib.suppress(ValueError):
            model.unlearn_many(far, far[:, 0])
        model.learn_many(X[at : at + 100], y[at : at + 100])
        model.learn_one({0: 1.0, 1: 1.0, 2: 1.0}, 6.0)
        assert np.isfinite(model.predict_one({0: 1.0}))
        assert np.isfinite(onlinels.loads(onlinels.dumps(model)).predict_many(X)).all()


@pytest.mark.parametrize("n_seeds", [15, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ridge", [1.0, KFold(2)])
def test_a_weight_that_rounds_below_0_is_none(ridge, n_seeds):
    """A row without weight stays, so that the others do not leave all at once."""
    for seed in range(n_seeds):
        random = np.random.default_rng(seed)
        n_rows = int(random.integers(2, 14))
        w = random.random(n_rows) * 10.0 ** random.uniform(-2.0, 1.0, n_rows)
        X, y = random.normal(size=(n_rows, 2)), random.normal(size=n_rows)
        model = LeastSquaresRegressor(ridge)
        model.learn_one({0: 1.0, 1: 2.0}, 3.0, w=0.0)
        for row in range(n_rows):
            model.learn_many(X[[row]], y[[row]], w[row])
        with contextlib.suppress(ValueError):  # Too few digits may be left before the last row.
            for row in random.permutation(n_rows):
                model.unlearn_many(X[[row]], y[[row]], w[row])
            assert model.count == 1
            assert not model.output_weights.any()


@pytest.mark.parametrize("kind", [LeastSquaresClassifier, LeastSquaresRegressor])
@strategies.examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    ridge=st.sampled_from(["auto", KFold(3), "paper", 1.0]),
    scaling=st.sampled_from(["auto", None]),
    fit_intercept=st.booleans(),
    data=st.data(),
)
def test_rows_that_were_taken_out_leave_no_difference(
    kind, seed, ridge, scaling, fit_intercept, data
):
    """Models of the same rows select the same ridge, whatever became of these rows before."""
    random = np.random.default_rng(seed)
    n_rows, n_features = data.draw(st.integers(30, 80)), data.draw(st.integers(1, 5))
    names = [f"x{column}" for column in range(n_features)]
    X = random.normal(size=(n_rows, n_features)) * 10.0 ** random.integers(-3, 3, n_features)
    y = (X @ (1.0 / X.std(axis=0)) + random.normal(size=n_rows)).round(6)
    y = np.where(y > 0.0, "up", "down") if kind is LeastSquaresClassifier else y
    rows = [dict(zip(names, x, strict=True)) for x in X.tolist()]
    settings = {"ridge": ridge, "scaling": scaling, "fit_intercept": fit_intercept}
    model, other, never = kind(**settings), kind(**settings), kind(**settings)
    order = random.permutation(n_rows).tolist()
    for row in order:
        (model if row % 2 else other).learn_one(rows[row], y[row])
    model.merge(other)
    model.learn_one({"guest": 50.0, "x0": X[0, 0]}, y[0])
    still_in = copy.copy(model)
    gone, kept = order[:10], sorted(order[10:])
    model.unlearn_one({"guest": 50.0, "x0": X[0, 0]}, y[0])
    model.unlearn_many([rows[row] for row in gone], y[gone])
    never.learn_many([rows[row] for row in kept], y[kept])
    for each in (model, still_in, never):
        each.select_ridge()
    assert model.ridge_ == pytest.approx(never.ridge_, rel=1e-6)
    assert model.difference(never) < 1e-9
    assert onlinels.difference(never, model) == pytest.approx(model.difference(never), abs=1e-12)
    assert still_in.difference(never) > 1e-3
    later = rows[0], y[0]
    for each in (model, never):
        each.learn_one(*later)
    assert model.difference(never) < 1e-9


def test_a_numeric_ridge_is_not_selected():
    """A ridge that has decayed stays so."""
    model = LeastSquaresRegressor(1.0, "recursive", forgetting_factor=0.5)
    for row in range(4):
        model.learn_one({"a": float(row)}, row % 2)
    before = model.ridge_diagonal
    model.select_ridge()
    assert (model.ridge_diagonal == before).all()
    assert before[0] < 1.0


def test_names_that_one_model_lacks_count_as_zero():
    one, other = LeastSquaresClassifier(1.0), LeastSquaresClassifier(1.0)
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 0.0}, {"a": 2.0, "b": 7.0}]
    one.learn_many(rows, ["x", "y", "x"])
    other.learn_many(rows[::-1], ["x", "y", "x"])
    assert one.difference(other) < 1e-15
    other.learn_one({"c": 0.0}, "z", w=0.0)
    assert one.difference(other) < 1e-15
    other.learn_one({"c": 1.0}, "z")
    assert one.difference(other) == other.difference(one) > 0.1
    assert one.empty().difference(one) == pytest.approx(1.0)
    assert one.empty().difference(one.empty()) == 0.0
    laws.assert_refused(
        lambda: one.difference(LeastSquaresClassifier(2.0)), one, "different settings"
    )
    laws.assert_refused(
        lambda: one.difference(LeastSquaresRegressor()), one, "expected Least", TypeError
    )


def test_removals_leave_no_numbers_of_the_rows():
    """A file keeps bounds of rounding errors; they are the same for other rows of the same size."""
    random = np.random.default_rng(0)
    X, y = random.normal(50.0, 10.0, (40, 3)), random.normal(size=40)
    states = []
    for row in ([53.123, 41.456, 61.789], [47.321, 58.654, 44.987]):
        for kind, target in ((LeastSquaresRegressor, 0.25), (LeastSquaresClassifier, "b")):
            model = kind(ridge=1.0)
            model.learn_many(X, y if target == 0.25 else np.where(y > 0.0, "a", "b"))
            model.learn_many([dict(enumerate(row))], [target])
            model.unlearn_many([dict(enumerate(row))], [target])
            states.append(model._state.statistics.rounding)
    for one, other in zip(states[:2], states[2:], strict=True):
        for a, b in zip(one[:3], other[:3], strict=True):
            np.testing.assert_array_equal(a, b)
            assert (np.log2(a) % 1 == 0).all()


def test_removed_rows_that_lack_columns_are_told():
    model = LeastSquaresRegressor(ridge=1.0)
    rows = np.random.default_rng(0).normal(size=(9, 3))
    model.learn_many(rows, rows[:, 0])
    with pytest.warns(UserWarning, match=r"X lacks .* 1 of 3 columns .*\[2\]"):
        model.unlearn_many(rows[:1, :2], rows[:1, 0])


@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_rows_that_the_sums_about_the_mean_exclude_are_refused(accumulator):
    """A record in another unit, without a value, or with another target; and other large rows."""
    rows, y = [{"temp": 36.2 + k % 20 / 10} for k in range(100)], np.arange(100) % 20 / 10
    model = LeastSquaresRegressor(1.0, accumulator)
    model.learn_many(rows, y)
    for x, target, cause in [
        ({"temp": 97.2}, 1.0, "temp"),
        ({}, 1.0, "temp"),
        (rows[3], 90.0, "y"),
    ]:
        match = f"leave -.* of (feature|target) '{cause}' about its mean|of target"
        laws.assert_refused(functools.partial(model.unlearn_one, x, target), model, match)
    with pytest.warns(UserWarning, match="standard deviations"):
        model.learn_one({"temp": 99999999.0}, 1.0)
    for value in (9999999.0, 99999998.0, 5e4):
        one = functools.partial(model.unlearn_one, {"temp": value}, 1.0)
        laws.assert_refused(one, model, "about its mean")
    model.unlearn_one({"temp": 99999999.0}, 1.0)
    assert model.count == 100


@pytest.mark.parametrize("n_rows", [600, pytest.param(3200, marks=pytest.mark.slow)])
def test_a_window_that_slides_does_not_warn(n_rows):
    """With the digits that are left by all removals together, one of 3,000 would."""
    random = np.random.default_rng(3)
    X, noise = random.normal(size=(n_rows, 2)), random.normal(size=n_rows)
    y = X @ [1.0, -2.0] + noise
    model, rows = LeastSquaresRegressor(ridge=0.0), [{"a": a, "b": b} for a, b in X.tolist()]
    for row in range(n_rows):
        model.learn_one(rows[row], y[row])
        if row >= 60:
            model.unlearn_one(rows[row - 60], y[row - 60])
    last = LeastSquaresRegressor(ridge=0.0)
    last.learn_many(rows[-60:], y[-60:])
    assert model.difference(last) < 1e-12


def test_rows_removed_with_more_than_their_weight():
    """The squared weights of the rows that stay are at least as large as those of equal rows."""
    random = np.random.default_rng(0)
    rows, y = [dict(zip("ab", x, strict=True)) for x in random.normal(size=(24, 2)).tolist()], "01"
    model = LeastSquaresClassifier(accumulator="recursive", forgetting_factor=0.9)
    for row in range(20):
        model.learn_one(rows[row], y[row % 2])
    model.fade(0.5)
    model.unlearn_many(rows[1:3], ["1", "0"])
    for row in range(20, 24):
        assert set(model.predict_proba_one(rows[row])) == {"0", "1"}
        model.learn_one(rows[row], y[row % 2])
    assert model.count == 22


def test_a_feature_of_rows_without_weight_stays_with_them():
    model = LeastSquaresRegressor(1.0)
    model.learn_many([{"a": float(k), "c": 1.0} for k in range(5)], [2.0 * k for k in range(5)])
    model.learn_one({"a": 1.0, "b": 2.0}, 3.0, w=0.0)
    model.learn_one({"z": 1.0}, 3.0, w=0.0)
    model.unlearn_one({"a": 3.0, "c": 1.0}, 6.0)
    assert set(model.feature_names) == {*"abcz"}
    model.unlearn_one({"a": 1.0, "b": 2.0}, 3.0, w=0.0)
    assert set(model.feature_names) == {*"acz"}
    model.unlearn_one({"z": 1.0}, 3.0, w=0.0)
    assert set(model.feature_names) == {*"ac"}


SUM_OF_TENTHS = sum([0.1] * 10)  # The number before 1.


@pytest.mark.parametrize(
    ("learnt", "removed"),
    [
        (1.0, SUM_OF_TENTHS),
        (SUM_OF_TENTHS, 1.0),
        (0.5, np.nextafter(0.5, 0.0)),
        (-3.0, -3.0 * (1.0 + 1e-10)),
        (-3.0, -3.0 * (1.0 - 1e-10)),
    ],
)
@pytest.mark.parametrize("form", ["dicts", "frames", "sparse"])
def test_a_name_leaves_whatever_the_last_digits(form, learnt, removed):
    model = LeastSquaresRegressor(1.0)
    model.learn_many([{"a": float(k % 5)} for k in range(20)], [float(k % 3) for k in range(20)])
    for value, change in ((learnt, "learn"), (removed, "unlearn"), (7.0, "learn")):
        x = {"a": 1.0, "b": value}
        if form == "dicts":
            getattr(model, f"{change}_one")(x, 2.0)
            continue
        frame = pandas.DataFrame([x] * 2)
        if form == "sparse":
            frame = frame.astype(pandas.SparseDtype(float, 0.0))
        getattr(model, f"{change}_many")(frame, [2.0, 2.0])
        if change == "unlearn":
            assert model.feature_names == ("a",)
    n_rows = 1 if form == "dicts" else 2
    for _ in range(n_rows):
        model.unlearn_one({"a": 1.0, "b": np.nextafter(7.0, 8.0)}, 2.0)
    assert model.feature_names == ("a",)


def test_sums_of_earlier_versions_tell_what_is_gone_by_their_hashes():
    """These did not count values. New columns are counted, also after a merge."""

    def earlier(*rows):
        model = LeastSquaresRegressor(1.0)
        model.learn_many(rows, [float(k) for k in range(len(rows))])
        statistics, former = model._state.statistics, object.__new__(Statistics)
        former.__setstate__(statistics.parts() | {"prints": statistics.prints[:2]})
        model._state = model._state.with_sums(Subsets(former))
        return model

    model = earlier({"a": 1.0}, {"a": 2.0, "b": 0.1}) + earlier({"a": 3.0}, {"b": 0.3})
    model.learn_one({"c": 1.0}, 5.0)
    model.unlearn_one({"c": SUM_OF_TENTHS}, 5.0)
    assert model.feature_names == ("a", "b")
    model.unlearn_one({"a": 2.0, "b": 0.1}, 1.0)
    assert model.feature_names == ("a", "b")
    model.unlearn_one({"b": 0.3}, 1.0)
    assert model.feature_names == ("a",)
    model.unlearn_one({"a": 1.0}, 0.0)
    assert (model.feature_names, model.count) == (("a",), 1)


@pytest.mark.parametrize(
    ("age", "w", "names"), [(30, 1.0, "uv"), (31, 1.0, "uvz"), (30, 0.5, "uvz")]
)
def test_a_rest_of_a_row_is_told(age, w, names):
    model = LeastSquaresClassifier(1.0, forgetting_factor=0.95)
    for k in range(60):
        x, y = {"a": float(k % 5)}, "uv"[k % 2]
        model.learn_one(*((x | {"b": 1.0}, "z") if k == 29 else (x, y)))
    with warnings.catch_warnings(record=True, action="always") as caught:
        model.unlearn_one({"a": 4.0, "b": 1.0}, "z", w, age=age)
    assert model.classes == tuple(names)
    assert ("b" in model.feature_names) == ("z" in names) == bool(caught)
    for warning in caught:
        assert warning.category is onlinels.DataWarning
        assert "No row of class 'z' is left, but a weight of " in str(warning.message)


def test_a_rest_of_a_row_as_an_error_changes_nothing():
    model = LeastSquaresRegressor(1.0)
    model.learn_many([{"a": 1.0, "b": 0.1}, {"a": 2.0}, {"a": 4.0}], [1.0, 2.0, 3.0])
    before = dumps(model)
    rounded = float(np.nextafter(np.float32(0.1), np.float32(0.0)))
    with pytest.raises(onlinels.DataWarning, match="No row with feature 'b' is left"):
        model.unlearn_one({"a": 1.0, "b": rounded}, 1.0)
    assert dumps(model) == before
    with pytest.raises(ValueError, match=r"is 0\.010000000298, expected at most the 0\.01 learnt"):
        model.unlearn_one({"a": 1.0, "b": float(np.float32(0.1))}, 1.0)
    model.unlearn_one({"a": 1.0, "b": 0.1}, 1.0)
    assert model.feature_names == ("a",)


def test_without_an_intercept_a_removal_of_all_weight_leaves_no_rounding_of_a_mean():
    model = LeastSquaresClassifier(ridge=0.1, fit_intercept=False)
    model.learn_many(np.array([[0.5, 0.8], [0.6, 0.9]]), ["dog", "cat"], w=[0.0, 0.0])
    row, weight = np.array([0.9, 0.6]), 0.9 * 0.3
    model.learn_one(row, "dog", w=weight)
    # A last digit of the weight is left.
    model.unlearn_one(row, "dog", w=np.nextafter(weight, 0.0))
    model.learn_one(np.array([0.4, 0.3]), "cat", w=0.4)
    gram, cross = 0.4 * np.outer([0.4, 0.3], [0.4, 0.3]), 0.4 * np.array([0.4, 0.3])
    weights = np.linalg.solve(gram + 0.1 * np.eye(2), cross)
    assert model.output_weights[:, model.classes.index("cat")] == pytest.approx(weights, rel=1e-9)
