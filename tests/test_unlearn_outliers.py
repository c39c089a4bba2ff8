"""Rows that dwarf all others lie apart: when they leave, the others have all their digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import KFold, LeastSquaresClassifier, LeastSquaresRegressor, dumps, loads
from support import laws, strategies

pytestmark = [
    pytest.mark.filterwarnings("ignore:A few rows dwarf:UserWarning"),
    # Where some of them are left, these decide.
    pytest.mark.filterwarnings("ignore:.*Remove the other rows that dwarf them:UserWarning"),
]

WAYS = "rows", "batches", "at once", "merged", "merged by the other"
SETTINGS = (
    {"ridge": 1.0},
    {"ridge": 1.0, "accumulator": "recursive"},
    {"ridge": 0.1, "fit_intercept": False},
    {"ridge": 1e-3, "scaling": "standard"},
    {"ridge": "auto"},
    {"ridge": KFold(3)},
    {"ridge": 1.0, "forgetting_factor": 0.99},
    {"ridge": 1.0, "half_life": 69.0},
    {"ridge": 1.0, "accumulator": "recursive", "forgetting_factor": 0.99},
)


def learn(model, X, y, way):
    """Let a model learn rows, and ask it in between if they come one by one."""
    if way == "rows":
        for x, target in zip(X.tolist(), y.tolist(), strict=True):
            model.predict_one(dict(enumerate(x)))
            model.learn_one(dict(enumerate(x)), target)
    elif len(X):
        model.learn_many(X, y)


def assert_same_sums(a, b):
    """Assert that the sums of two models agree to thirteen digits of what their rows add."""
    mine, theirs = a.statistics(), b.statistics()
    assert mine.weight == pytest.approx(theirs.weight, rel=1e-13)
    root = np.sqrt(np.append(theirs.gram.diagonal(), theirs.target_squares))
    n = len(theirs.gram)
    for name, size in (
        ("gram", np.outer(root[:n], root[:n])),
        ("cross", np.outer(root[:n], root[n:])),
        ("target_squares", root[n:] ** 2),
        ("origin", root[:n] + np.abs(theirs.origin)),
        ("target_origin", root[n:] + np.abs(theirs.target_origin)),
    ):
        error = np.abs(getattr(mine, name) - getattr(theirs, name))
        assert (error <= 1e-13 * size + 1e-300).all(), name


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("way", WAYS)
@strategies.examples(8)
@given(
    seed=st.integers(0, 2**32 - 1),
    what=st.sampled_from(["one feature", "all features", "target"]),
    exponent=st.integers(5, 12),
    n_apart=st.sampled_from([1, 1, 3, 40]),
    saves=st.booleans(),
)
def test_removed_rows_leave_all_digits(settings, way, seed, what, exponent, n_apart, saves):
    random, size = np.random.default_rng(seed), 10.0**exponent
    n_features = int(random.integers(1, 6))
    X = random.normal(size=(150, n_features)) * 10.0 ** random.uniform(-1.0, 1.0, n_features)
    X += random.choice([0.0, 5.0])
    y = X.sum(axis=1) + random.normal(size=150)
    gone = X[:n_apart] + random.normal(size=(n_apart, n_features))
    targets = y[:n_apart].copy()
    if what == "target":
        targets = 100.0 * size * (1.0 + random.random(n_apart))
    else:
        columns = slice(0, 1) if what == "one feature" else slice(None)
        gone[:, columns] = 100.0 * size * (1.0 + random.random(gone[:, columns].shape))
    model, fresh = LeastSquaresRegressor(**settings), LeastSquaresRegressor(**settings)
    decay = settings.get("forgetting_factor", 0.5 ** (1.0 / settings.get("half_life", np.inf)))
    if way == "at once":
        rows = np.vstack([X[:100], gone, X[100:]])
        learn(model, rows, np.concatenate([y[:100], targets, y[100:]]), way)
    else:
        learn(model, X[:100], y[:100], way)
        if "merged" in way:
            other = laws.fitted(LeastSquaresRegressor(**settings), gone, targets)
            model = model.merge(other) if way == "merged" else other.merge(model)
        else:
            learn(model, gone, targets, way)
        model = loads(dumps(model)) if saves else model
        learn(model, X[100:], y[100:], way)
    learn(fresh, X[:100], y[:100], "batches")
    if "merged" not in way and decay < 1.0:
        fresh.fade(decay**n_apart)  # The rows took time.
    learn(fresh, X[100:], y[100:], "batches")
    w = decay ** (50.0 + np.arange(n_apart - 1.0, -1.0, -1.0))
    earlier = 50.0 + np.arange(99.0, -1.0, -1.0) + (0.0 if "merged" in way else n_apart)
    weights = decay ** np.concatenate([earlier, np.arange(49.0, -1.0, -1.0)])
    rows = np.vstack([X, gone]), [*y, *targets], np.append(weights, w)
    laws.assert_is_batch_solution(model, strategies.Rows(*rows))
    order = random.permutation(n_apart)
    for some in np.array_split(order, random.integers(1, n_apart + 1)):
        model.unlearn_many(gone[some], targets[some], w[some])
    assert model.count == 150
    assert_same_sums(model, fresh)


def test_a_name_that_only_rows_apart_had_leaves_with_them():
    random = np.random.default_rng(0)
    model, fresh = LeastSquaresClassifier(1.0), LeastSquaresClassifier(1.0)
    x = [dict(zip("ab", row, strict=True)) for row in random.normal(size=(60, 2)).tolist()]
    for row in range(60):
        for each in (model, fresh):
            each.learn_one(x[row], row % 2)
        if row == 30:
            model.learn_one({"b": 1e9, "secret": 1.0}, "bad")
    model.unlearn_one({"b": 1e9, "secret": 1.0}, "bad")
    assert (model.feature_names, model.classes) == (("a", "b"), (0, 1))
    assert b"secret" not in laws.stored_bytes(model)
    np.testing.assert_array_equal(model.output_weights, fresh.output_weights)


@pytest.mark.filterwarnings("ignore:Removing these rows leaves:UserWarning")
@strategies.examples(20)
@given(
    seed=st.integers(0, 2**32 - 1),
    settings=st.sampled_from(
        [*SETTINGS[:6], {"ridge": "paper"}, {"ridge": 1.0, "priors": "equal"}]
    ),
    way=st.sampled_from(WAYS),
    n_rows=st.sampled_from([12, 15, 20, 60]),
    exponent=st.floats(3.0, 12.0),
    saves=st.booleans(),
)
def test_classes_and_features_leave_with_rows_that_dwarf(
    seed, settings, way, n_rows, exponent, saves
):
    """Or the removal is refused, and the model stays as it is."""
    random = np.random.default_rng(seed)
    X = [{"a": a, "b": b} for a, b in random.normal(size=(n_rows, 2)).tolist()]
    y = ["xy"[row % 2] for row in range(n_rows)]
    gone = [({"b": 10.0**exponent, "secret": 10.0**exponent}, "0"), ({"a": 2.0}, "z")]
    gone = gone[: int(random.integers(1, 3))]
    model, fresh = (LeastSquaresClassifier(**settings) for _ in range(2))
    fresh.learn_many(X, y)
    rows = [*zip(X, y, strict=True)]
    if "merged" in way:
        other = laws.fitted(model.empty(), *map(list, zip(*gone, strict=True)))
        model.learn_many(X, y)
        model = model.merge(other) if way == "merged" else other.merge(model)
    else:
        rows[n_rows // 2 : n_rows // 2] = gone
        for part in [[row] for row in rows] if way == "rows" else [rows]:
            model.learn_many(*map(list, zip(*part, strict=True)))
    model = loads(dumps(model)) if saves else model
    before, told = dumps(model), ""
    try:
        model.unlearn_many(*map(list, zip(*gone, strict=True)))
    except ValueError as error:
        told = str(error)
    if told:
        assert told.startswith("Removing these rows leaves about ")
        assert dumps(model) == before
        return
    assert sorted(model.classes) == ["x", "y"]
    assert sorted(model.feature_names) == ["a", "b"]
    assert (model.count, b"secret" in dumps(model)) == (n_rows, False)
    model.select_ridge()
    fresh.select_ridge()
    shares = [each.predict_proba_one(X[0]) for each in (model, fresh)]
    assert shares[0] == pytest.approx(shares[1], rel=1e-3, abs=1e-3)


def test_the_only_row_of_a_class_that_dwarfs_the_others_leaves_with_a_warning():
    X, y = np.random.default_rng(0).normal(size=(12, 3)), ["a", "b"] * 6
    X[5], y[5] = 1e4 * X[5], "c"
    model = laws.fitted(LeastSquaresClassifier(ridge=1.0), X, y)
    with pytest.warns(UserWarning, match=r"leaves about \d digits .* in (feature|target)"):
        model.unlearn_one(dict(enumerate(X[5])), "c")
    assert (model.classes, model.count) == (("a", "b"), 11)


@pytest.mark.parametrize("singly", [True, False])
def test_all_rows_may_leave_in_any_order(singly):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    X[::9] *= 1e8
    model = laws.fitted(LeastSquaresRegressor(1.0), X, X[:, 0])
    for part in np.array_split(random.permutation(60), 60 if singly else 4):
        model.unlearn_many(X[part], X[part, 0])
    assert dumps(model) == dumps(model.empty())


def test_rows_that_were_not_learnt_are_refused_beside_rows_apart():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    X[30] *= 1e8
    model = laws.fitted(LeastSquaresRegressor(1.0), X, X[:, 0])
    for row, y in ((2.0 * X[30], X[30, 0]), (X[30], 2.0 * X[30, 0])):
        laws.assert_refused(lambda: model.unlearn_many(row[None], [y]), model, "expected at most")  # noqa: B023


@pytest.mark.parametrize("accumulator", ["gram", "recursive"])
def test_the_memory_for_rows_apart_is_given_back_when_they_are_forgotten(accumulator):
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 30))
    X[50] *= 1e8
    model = LeastSquaresRegressor(1.0, accumulator, forgetting_factor=0.95)
    sizes = []
    for start in range(0, 1500, 20):
        model.learn_many(X[start : start + 20], X[start : start + 20, 0])
        model.predict_one(dict(enumerate(X[0].tolist())))
        sizes.append(len(dumps(model)))
    assert sizes[3] > 1.5 * sizes[1] > 1.4 * sizes[-1]
    rows = strategies.Rows(X, X[:, 0].tolist(), 0.95 ** np.arange(1499.0, -1.0, -1.0))
    assert laws.error_of_fit(model, rows) < 1e-9


@pytest.mark.filterwarnings("ignore:t is so late")
@pytest.mark.parametrize("learns_one", [True, False])
def test_a_row_is_no_outlier_if_all_others_are_forgotten(learns_one):
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    X[30] *= 3e3
    model = LeastSquaresRegressor(1.0, half_life=1.0)
    model.learn_many(X, X[:, 0], t=0.0)
    subsets = model._state.subsets
    assert (subsets.whole.count, subsets.inliers.count) == (40, 39)
    for t in (53.0, 54.0):
        if learns_one:
            model.learn_one({0: 1e3, 1: 1e3}, 1e3, t=t)
        else:
            model.learn_many(np.full((1, 2), 1e3), [1e3], t=[t])
    subsets = model._state.subsets
    assert (subsets.whole.count, subsets.inliers.count) == (42, 41)
    np.testing.assert_allclose(subsets.inliers.tally[1:], [1.5, 1.25])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"a": 99_999_999.0, "b": 1.0}, 0.0, r" x\['a'\] is about 1e\+08 in 1 of 101 rows"),
        ({"a": 1.0, "b": 1.0}, -1e9, r" y is about -1e\+09 in 1 of 101 rows, [\d,]+ standard"),
        ({"a": 1e100, "b": 1.0}, 0.0, r" x\['a'\] is about 1e\+100 .* \d\.\d*e\+\d+ standard"),
    ],
)
def test_a_message_names_the_first_rows_that_decide_the_weights(x, y, message, recwarn):
    random = np.random.default_rng(0)
    model = LeastSquaresRegressor()
    for row in random.normal(size=(100, 3)).tolist():
        model.learn_one({"a": row[0], "b": row[1]}, row[2])
    assert not recwarn
    with pytest.warns(UserWarning, match=message):
        model.learn_one(x, y)
    model.learn_one({"a": 1e12, "b": 1.0}, y)
    assert not recwarn


def test_no_message_where_a_feature_begins_to_vary(recwarn):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    X[:100, 0] *= 1e-12
    laws.fitted(LeastSquaresRegressor(), X, X[:, 1])
    assert not recwarn


@pytest.mark.filterwarnings("always:.*digits of the fit:UserWarning")
@pytest.mark.parametrize(("size", "n_digits"), [(1e2, None), (1e4, 8), (1e5, 6)])
def test_a_message_tells_of_digits_that_moderate_rows_take(size, n_digits, recwarn):
    random = np.random.default_rng(0)
    X, more = random.normal(size=(16, 2)), random.normal(size=(100, 2))
    X[3] *= size
    y = random.normal(size=16)
    model = laws.fitted(LeastSquaresRegressor(1.0), X, y)
    model.learn_many(more, more[:, 0])
    model.unlearn_many(X[3:4], y[3:4])
    told = [str(each.message) for each in recwarn]
    expected = [] if n_digits is None else [f"leaves about {n_digits} digits"]
    assert len(told) == len(expected)
    assert all(part in text for part, text in zip(expected, told, strict=True))


@pytest.mark.parametrize("factor", [1.0, 0.98])
def test_digits_that_a_removal_takes_come_back_with_the_last_of_the_rows(factor):
    """Also if the rows left no longer dwarf the others, for these have grown or forgotten them."""
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 2))
    model, fresh = (LeastSquaresRegressor(1.0, forgetting_factor=factor) for _ in range(2))
    for each in (model, fresh):
        laws.fitted(each, X[:100], X[:100, 0])
    codes = np.array([[1e7, 1.0], [3e3, 1.0]])
    model.learn_many(codes, [0.0, 0.0])
    if factor < 1.0:
        fresh.fade(factor**2)
    with pytest.warns(UserWarning, match="Remove the other rows that dwarf them"):
        model.unlearn_many(codes[:1], [0.0], factor)
    for start in range(100, 900, 50):
        for each in (model, fresh):
            each.learn_many(X[start : start + 50], X[start : start + 50, 0])
        model.predict_one({0: 1.0, 1: 0.0})
    model.unlearn_many(codes[1:], [0.0], factor**800)
    assert_same_sums(model, fresh)


def test_a_row_is_learnt_once_whose_weight_is_lost_beside_others():
    """Its distance from the others is not known then, and no warning tells it."""
    rows = [({"a": 1.0}, 1.0)] * 9 + [({"a": 0.15}, 1e150)] + [({"a": 1.0}, 1.0)] * 4
    rows += [({"a": 0.07, "b": -0.01}, 1.0), ({"a": 1.0}, 1.0), ({"a": 0.35, "b": -1e150}, 1.0)]
    model = LeastSquaresRegressor(1.0)
    for x, w in rows:
        model.learn_one(x, 1.0, w)
    assert model.count == len(rows)
