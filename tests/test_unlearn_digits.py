"""What is left after rows are unlearnt: six digits of the fit, or the model as it was.

The truth are sums of the rows that stay in long double, which never knew the others.
"""

import functools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinels import (
    KFold,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    dumps,
    loads,
)
from onlinels.export import answers_only
from onlinels.sklearn import IncrementalRidge
from support import laws, strategies
from support.models import LINEAR, MODELS

pytestmark = [
    pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Remove the other rows that dwarf them:UserWarning"),
]

RIDGES = 0.0, 1e-6, 1.0, 1e3, "auto", "paper", KFold(3)

CODES = "one feature", "all features", "scale", "level", "target", "none"
"""How the rows that are unlearnt differ from the others."""


class Ledger:
    """A model, and the rows that it holds, with their current weights; some of them are to go."""

    def __init__(self, model, n_features):
        self.model, self.X = model, np.zeros((0, n_features))
        self.y, self.w, self.goes = np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool)

    def rows(self, which=slice(None)):
        return self.X[which], self.y[which], self.w[which]

    def learn(self, X, y, step, goes=False):
        """Let the model learn rows in batches."""
        factor = self.model.forgetting_factor
        for start in range(0, len(X), step):
            part, targets = X[start : start + step], y[start : start + step]
            self.model.learn_many(part, targets)
            self.X, self.y = np.vstack([self.X, part]), np.append(self.y, targets)
            ages = np.arange(len(part) - 1.0, -1.0, -1.0)
            self.w = np.append(self.w * factor ** len(part), factor**ages)
            self.goes = np.append(self.goes, np.full(len(part), goes))

    def unlearn(self, step):
        """Unlearn the rows that are to go; stop at a refusal, and tell whether there was none."""
        gone = np.flatnonzero(self.goes)
        for start in range(0, len(gone), step):
            before = pickle.dumps(self.model)
            try:
                self.model.unlearn_many(*self.rows(gone[start : start + step]))
            except ValueError as error:
                refusal = str(error)
            else:
                continue
            assert "Learn the rows that are to stay again" in refusal
            assert pickle.dumps(self.model) == before
            return False
        self.X, self.y, self.w = self.rows(~self.goes)
        self.goes = self.goes[~self.goes]
        return True


def drawn_rows(random, code):
    """Draw rows to keep, and rows to take out again, which a code makes different."""
    n_features, n_kept = random.choice([1, 2, 3, 5]), random.choice([1, 2, 5, 20, 100])
    offset, level = random.choice([0.0, 0.0, 1.0, 293.0, 1e4]), random.choice([0.0, 0.0, 100.0])
    units = 10.0 ** random.uniform(-3.0, 3.0, n_features) if random.random() < 0.3 else 1.0
    correlation, noise = random.choice([1.0, 1.0, 1e-3]), random.choice([1.0, 1e-3, 0.0])
    weights = random.normal(size=n_features)

    def rows(n_rows):
        X = random.normal(size=(n_rows, n_features))
        if n_features > 1:
            X[:, -1] = X[:, 0] + correlation * (X[:, -1] - X[:, 0])
        return (X + offset) * units, X @ weights + level + noise * random.normal(size=n_rows)

    (X, y), gone = rows(n_kept), coded(random, *rows(random.choice([1, 1, 3, 30, 100])), code)
    shape = random.choice(["plain", "constant", "whole", "one-hot"], p=[0.6, 0.2, 0.1, 0.1])
    if shape == "constant":
        X[:, 0] = random.choice([0.0, 0.1, 9.81, 100.0])
    elif shape == "whole":
        X[:, 0] = random.integers(0, 5, n_kept)
    elif shape == "one-hot":
        X = np.eye(n_features)[random.integers(0, n_features, n_kept)]
    return (X, y), gone


def coded(random, X, y, code):
    """Return rows and targets that differ from others by a code of any size."""
    size = 10.0 ** random.uniform(0.0, 12.0)
    if random.random() < 0.3:
        size = random.choice([99_999_999.0, -999.0, 1e9, 2.0**20])
    if code == "one feature":
        X[:, 0] = size
    elif code == "all features":
        X = size * (1.0 + random.random(X.shape))
    elif code == "scale":
        X *= size
    elif code == "level":
        X += size
    elif code == "target":
        y = size * (1.0 + random.random(len(y)))
    return X, y


@strategies.examples(100)
@given(
    code=st.sampled_from(CODES),
    seed=st.integers(0, 2**32 - 1),
    ridge=st.sampled_from(RIDGES),
    fit_intercept=st.booleans(),
    scaling=st.sampled_from(strategies.SCALINGS),
    factor=st.sampled_from([1.0, 1.0, 1.0, 0.9, 0.99]),
    cycles=st.sampled_from([1, 1, 1, 5]),
)
def test_six_digits_are_left_or_the_rows_stay(
    code, seed, ridge, fit_intercept, scaling, factor, cycles
):
    random = np.random.default_rng(seed)
    kept, gone = drawn_rows(random, code)
    if ridge == 0.0:
        scaling = None
    model = LeastSquaresRegressor(
        ridge, "gram", fit_intercept, forgetting_factor=factor, scaling=scaling
    )
    ledger, (X, y) = Ledger(model, kept[0].shape[1]), kept
    n_first, steps = int(random.integers(1, len(X) + 1)), random.choice([1, 10, 1000], 2).tolist()
    ledger.learn(X[:n_first], y[:n_first], steps[0])
    if random.random() < 0.15:
        keep = 10.0 ** -random.uniform(0.0, 9.0)
        model.fade(keep)
        ledger.w *= keep
    for cycle in range(cycles):
        ledger.learn(*gone, steps[0], goes=True)
        if not cycle and random.random() < 0.5:
            ledger.learn(X[n_first:], y[n_first:], steps[0])
        if not ledger.unlearn(steps[1]):
            return
    rows = strategies.Rows(ledger.X, ledger.y.tolist(), ledger.w)
    error = laws.error_of_fit(model, rows)
    if error > 1e-6:
        # Unless the rows that stay are as hard by themselves.
        fresh = LeastSquaresRegressor(model.ridge_, "gram", fit_intercept)
        fresh.learn_many(*ledger.rows())
        assert error < 30.0 * laws.error_of_fit(fresh, rows)


@pytest.mark.parametrize("ridge", [1.0, "auto", 0.0])
@pytest.mark.parametrize(
    ("name", "code", "mean"),
    [
        *(("feature 0", *each) for each in [(1e9, 0.0), (99_999_999.0, 293.0), (1e7, 1013.0)]),
        ("target 'y'", 1e11, 0.0),
    ],
)
def test_a_code_that_would_leave_its_digits_stays(ridge, name, code, mean):
    """Also where all rows that stay are far from 0, and hardly vary beside the code.

    The code is among the first 16 rows, which are not told apart.
    """
    random = np.random.default_rng(0)
    X, y = mean + 0.2 * random.normal(size=(500, 3)), random.normal(size=500)
    y += X.sum(axis=1) - 3 * mean
    X[-1, 0], y[-1] = (code, y[-1]) if name == "feature 0" else (X[-1, 0], code)
    model = laws.fitted(LeastSquaresRegressor(ridge), X[-16:], y[-16:])
    model.learn_many(X[:-16], y[:-16])
    remove = functools.partial(model.unlearn_many, X[-1:], y[-1:])
    laws.assert_refused(remove, model, f"outweigh the rows that stay in {name}")


UNITS = (1.0, 0.0), (1e-3, 0.0), (1.0, 1e3), (1e3, 1e6)


@pytest.mark.parametrize(
    ("scale", "offset", "n_rows", "window", "step"),
    [
        *((*units, 250, 50, 1) for units in UNITS),
        pytest.param(1.0, 0.0, 1_000_000, 500, 10, marks=pytest.mark.slow),
    ],
)
def test_ordinary_sliding_windows_are_never_refused(scale, offset, n_rows, window, step):
    """The newest rows are learnt, the oldest ones unlearnt, and nothing drifts."""
    random = np.random.default_rng(0)
    X = scale * random.normal(size=(n_rows + window, 3)) + offset
    y = X.sum(axis=1) + random.normal(size=len(X))
    model = laws.fitted(LeastSquaresRegressor(1.0), X[:window], y[:window])
    for start in range(0, n_rows, step):
        new, old = slice(start + window, start + window + step), slice(start, start + step)
        model.learn_many(X[new], y[new])
        model.unlearn_many(X[old], y[old])
    fresh = laws.fitted(LeastSquaresRegressor(1.0), X[n_rows:], y[n_rows:])
    rtol = 1e-9 if step == 1 else 1e-8
    np.testing.assert_allclose(model.output_weights, fresh.output_weights, rtol=rtol)


@strategies.examples(20)
@given(seed=st.integers(0, 2**32 - 1), ridge=st.sampled_from(RIDGES))
def test_ordinary_removals_are_never_refused(seed, ridge):
    """Some rows of many, one site of two, in any units."""
    random = np.random.default_rng(seed)
    n_features = int(random.integers(1, 8))
    X = random.normal(size=(300, n_features)) * 10.0 ** random.uniform(-3.0, 3.0, n_features)
    y = X @ random.normal(size=n_features) + random.normal(size=300)
    site = slice(0, int(random.integers(1, 250)))
    X[site] += random.uniform(0.0, 10.0) * X.std(axis=0)
    model = laws.fitted(LeastSquaresRegressor(ridge), X, y)
    model.unlearn_many(X[site], y[site])
    rows = strategies.Rows(X[site.stop :], y[site.stop :].tolist(), np.ones(300 - site.stop))
    assert laws.error_of_fit(model, rows) < 1e-9


def test_a_smaller_ridge_needs_more_digits_than_a_removal_has_left():
    random = np.random.default_rng(0)
    X, outlier = random.normal(size=(50, 3)), 3e5 * random.normal(size=(1, 3))
    y = X.sum(axis=1) + random.normal(size=50)
    model = laws.fitted(LeastSquaresRegressor(1e6), outlier, [0.0])
    model.learn_many(X, y)
    model.unlearn_many(outlier, [0.0])
    change = functools.partial(setattr, model, "ridge", 1e-6)
    laws.assert_refused(change, model, "ridge=1e-06 leaves about")
    assert model.ridge == 1e6


@pytest.mark.parametrize("singly", [True, False])
def test_digits_are_counted_before_classes_leave(singly):
    """The only row of a class dwarfs the others, and takes its class along."""
    X, y = np.random.default_rng(0).normal(size=(12, 3)), ["a", "b"] * 6
    X[5], y[5] = X[5] * 1e4, "c"
    model = laws.fitted(LeastSquaresClassifier(ridge=1.0), X, y)
    unlearn = functools.partial(model.unlearn_many, X[5:6], ["c"])
    if singly:
        unlearn = functools.partial(model.unlearn_one, dict(enumerate(X[5])), "c")
    with pytest.warns(UserWarning, match="leaves about 8 digits"):
        unlearn()
    assert (model.classes, model.count) == (("a", "b"), 11)
    never = LeastSquaresClassifier(ridge=1.0)
    never.learn_many(np.delete(X, 5, axis=0), y[:5] + y[6:])
    assert model.difference(never) < 1e-7


def test_a_warning_tells_of_digits_that_a_ridge_selected_later_lacks():
    """At first hardly anything of the targets is explained, so that the ridge is large."""
    random = np.random.default_rng(3)
    X, outlier = random.normal(size=(60, 3)), 3e5 * random.normal(size=(1, 3))
    model = laws.fitted(LeastSquaresRegressor("auto", scaling=None), outlier, [0.0])
    model.learn_many(X, random.normal(size=60))
    # More rounding, of the same sums.
    sums = model._state.statistics
    lost = replace(sums, rounding=sums.rounding._replace(squares=np.full(4, 1e-2)))
    model._state = model._state.with_sums(replace(model._state.subsets, whole=lost))
    with pytest.warns(UserWarning, match="selected after rows were removed"):
        model.predict_many(X)
    model.predict_many(X)  # Once.


@pytest.mark.parametrize("singly", [True, False])
@pytest.mark.parametrize(("far", "w"), [(1e12, 1e-15), (1e10, 1e-12), (1e15, 1e-25)])
def test_a_far_first_row_of_little_weight_costs_the_others_no_digits(far, w, singly):
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 1))
    y = 2.0 * X[:, 0]
    model, fresh = LeastSquaresRegressor(1e-3), LeastSquaresRegressor(1e-3)
    model.learn_one({0: far}, 0.5, w)
    for start in range(0, 50, 1 if singly else 50):
        for each in (model, fresh):
            each.learn_many(X[start:][: 1 if singly else 50], y[start:][: 1 if singly else 50])
    model.unlearn_one({0: far}, 0.5, w)
    assert model.predict_one({0: 1.0}) == pytest.approx(fresh.predict_one({0: 1.0}), rel=1e-6)


def test_a_row_whose_weight_has_decayed_to_nothing_can_be_removed_and_the_model_saved():
    model = LeastSquaresRegressor(1.0, forgetting_factor=0.5)
    model.learn_one({"a": 1.0, "gone": 2.0}, 1.0)
    for row in range(1100):
        model.learn_one({"a": float(row % 7)}, float(row % 3))
    model.unlearn_one({"a": 1.0, "gone": 2.0}, 1.0, w=0.0)
    assert model.feature_names == ("a",)
    assert loads(dumps(model)).count == model.count == 1100


def test_a_row_of_weight_0_can_be_removed_after_the_others():
    model = LeastSquaresRegressor(1.0)
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"b": 1.0}], [1.0, 2.0, 3.0], [1.0, 1.0, 0.0])
    model.unlearn_one({"a": 1.0}, 1.0)
    model.unlearn_one({"b": 1.0}, 3.0, w=0.0)
    model.unlearn_one({"a": 2.0}, 2.0)
    assert dumps(model) == dumps(model.empty())


@pytest.mark.parametrize("ridge", [1.0, 0.01, "auto"])
def test_a_row_may_differ_in_its_last_digit_when_it_is_removed(ridge):
    """Here x / 11 is learnt, and x * (1 / 11) is removed, of a feature that is mostly 0."""
    random = np.random.default_rng(0)
    rows = [{"a": float(random.normal())} for _ in range(300)]
    for row in range(0, 300, 97):
        rows[row]["rare"] = float(random.integers(1, 100))
    model, y = LeastSquaresRegressor(ridge), random.normal(size=300).tolist()
    for row, x in enumerate(rows):
        model.learn_one({name: value / 11.0 for name, value in x.items()}, y[row])
        if row >= 50:
            old = rows[row - 50]
            model.unlearn_one({name: v * (1.0 / 11.0) for name, v in old.items()}, y[row - 50])
    assert model.count == 50


def test_rows_whose_weight_is_lost_beside_the_removed_weight_stay():
    model = LeastSquaresRegressor(1.0)
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], [1.0, 2.0, 3.0])
    model.fade(1e-17)
    model.learn_one({"a": 5.0}, 3.0)
    laws.assert_refused(lambda: model.unlearn_one({"a": 5.0}, 3.0), model, "rows that would stay")


# Names


def named_rows(random, n_rows):
    """Return dicts, of which each has some names of its own."""
    shared = ["common-1", "common-2"]
    return [
        {name: float(random.normal()) for name in shared if random.random() < 0.8}
        | {f"secret-{row // 3}-{random.integers(2)}": float(random.choice([1.0, 2.5, -1.0]))}
        for row in range(n_rows)
    ]


NAMING_MODELS = (
    *("gram", "no intercept", "recursive", "recursive, auto", "priors"),
    *("regressor", "regressor of folds", "several"),
)


def targets_for(kind, random, n_rows):
    if kind in LINEAR:
        return [f"class-{random.integers(5)}" for _ in range(n_rows)]
    y = random.normal(size=n_rows).tolist()
    return [{"p": target, "q": 2.0 * target} for target in y] if kind == "several" else y


@pytest.mark.filterwarnings("ignore:Digits of the fit are lost at the selected:UserWarning")
@pytest.mark.parametrize("kind", NAMING_MODELS)
@strategies.examples(15)
@given(data=st.data(), seed=st.integers(0, 2**16), merges=st.booleans(), asks=st.booleans())
def test_no_name_that_only_removed_rows_had_is_left(kind, data, seed, merges, asks):
    """Whatever the order, the batches and the mergers; files have none either."""
    random, n_rows, make = np.random.default_rng(seed), data.draw(st.integers(1, 15)), MODELS[kind]
    model, X, y = make(), named_rows(random, n_rows), targets_for(kind, random, n_rows)
    n_mine = data.draw(st.integers(0, n_rows)) if merges else n_rows
    model.learn_many(X[:n_mine], y[:n_mine])
    if merges:
        other = laws.fitted_by_row(make(), X[n_mine:], y[n_mine:])
        model.merge(other)
    order, n_gone = data.draw(st.permutations(range(n_rows))), data.draw(st.integers(1, n_rows))
    for batch in data.draw(strategies.splits(n_gone)):
        gone = [order[row] for row in batch]
        try:
            model.unlearn_many([X[row] for row in gone], [y[row] for row in gone])
        except ValueError as error:
            # With more features than rows, a tiny ridge that folds select needs more digits.
            assume("digits of the fit" not in str(error))
            raise
        if asks:
            model.predict_one(X[0])
    left = {name for row in order[n_gone:] for name in X[row]}
    assert set(model.feature_names) == left
    if n_gone == n_rows:
        assert dumps(model) == dumps(make())
        return
    gone = {name for x in X for name in x} - left
    model.predict_one({})
    for state in (laws.stored_bytes(model), laws.stored_bytes(answers_only(model))):
        assert not any(name.encode() in state for name in gone)
    assert loads(dumps(model)).feature_names == model.feature_names


def test_arrays_and_positions_keep_their_features_together():
    model = LeastSquaresRegressor(1.0)
    model.learn_many([{"v": np.array([1.0, 0.0])}, {"v": np.array([0.0, 2.0])}], [1.0, 2.0])
    model.unlearn_one({"v": np.array([0.0, 2.0])}, 2.0)
    assert model.feature_names == (("v", 0), ("v", 1))
    model.learn_one({"v": np.array([3.0, 2.0]), "b": 1.0}, 1.0)
    model.unlearn_many([{"v": np.array([1.0, 0.0])}, {"v": np.array([3.0, 2.0]), "b": 1.0}], [1, 1])
    assert model.feature_names == ()
    plain = laws.fitted(LeastSquaresRegressor(1.0), np.array([[1.0, 0.0], [1.0, 2.0]]), [1.0, 2.0])
    plain.unlearn_many(np.array([[1.0, 2.0]]), [2.0])
    assert plain.feature_names == (0, 1)


def test_the_estimators_keep_their_columns():
    X, y = np.eye(3), np.arange(3.0)
    model = IncrementalRidge(alpha=1.0).fit(X, y).unlearn(X[2:], y[2:])
    assert model.coef_.shape == (3,)


# Narrow features


@strategies.examples(30)
@given(
    exponent=st.integers(-30, 60),
    n_units=st.integers(0, 2**20),
    step=st.integers(3, 1000),
    n_rows=st.integers(6, 60),
    accumulator=st.sampled_from(["gram", "orthogonal"]),
    n_batch=st.sampled_from([1, 7, 100]),
)
def test_a_feature_varies_as_float64_says(exponent, n_units, step, n_rows, accumulator, n_batch):
    """Values some units in the last place apart, as long as float64 holds them exactly."""
    random = np.random.default_rng(n_units)
    first = np.ldexp(2.0**52 + n_units, exponent)
    counts = np.arange(n_rows) * step
    x = first + np.ldexp(counts.astype(float), exponent)
    y = 3.0 * counts / step + random.normal(size=n_rows)
    model, near = (LeastSquaresRegressor(0.0, accumulator) for _ in range(2))
    for start in range(0, n_rows, n_batch):
        part = slice(start, start + n_batch)
        model.learn_many(x[part, None], y[part])
        near.learn_many(counts[part, None].astype(float), y[part])
    slope = np.ldexp(near.output_weights.item(), -exponent)
    assert model.output_weights.item() == pytest.approx(slope, rel=1e-9)
    expected = near.predict_many(counts[:, None].astype(float))
    np.testing.assert_allclose(model.predict_many(x[:, None]), expected, rtol=1e-9, atol=1e-9)
    assert model.predict_one({0: float(x[2])}) == pytest.approx(expected[2], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
def test_a_warning_names_features_that_count_as_constant(accumulator):
    first = 1.7e18
    x = [{"time": first + 256.0 * (row % 2), "a": float(row)} for row in range(20)]
    model = laws.fitted(LeastSquaresRegressor(0.0, accumulator), x, np.arange(20.0) % 7)
    with pytest.warns(UserWarning, match=r"vary by rounding alone.* 1 of 2 .*'time'"):
        weights = model.output_weights
    assert (weights.ravel() == 0.0).tolist() == [name == "time" for name in model.feature_names]
