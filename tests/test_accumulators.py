"""Sums and solutions against definitions in plain numpy.

Sparse rows, learnt by sparse products, give the statistics of the same rows as an array.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.linear import state as linear_model
from onlinels.linear.ridge import Penalty
from onlinels.sums.axes import Places, Room, reindexed
from onlinels.sums.recursion import Recursion
from support import laws, strategies
from support.slow import pairs_in_turn

# -- sums and solutions ---------------------------------------------------------------------------


@given(strategies.rows(min_rows=2, whole=True), st.data())
def test_sums_of_whole_numbers_are_exact_and_come_back(rows, data):
    """To the last bit, after other rows were merged and unlearnt again."""
    Y, X = laws.one_hot(rows.y, tuple(dict.fromkeys(rows.y))), rows.X.astype(float)
    first = data.draw(st.integers(1, len(rows) - 1))
    batches = slice(first), slice(first, None)
    model, other = (laws.taught(X, Y, rows.w, batches=[batch]) for batch in batches)

    def assert_sums_of(n_rows):
        A, T, w = X[:n_rows], Y[:n_rows], rows.w[:n_rows, None]
        sums = model.statistics()
        assert (sums.gram == A.T @ (w * A)).all()
        assert (sums.cross == A.T @ (w * T)).all()
        assert (sums.target_squares == (w * T**2).sum(axis=0)).all()
        assert (model.count, sums.weight) == (n_rows, w.sum())

    assert_sums_of(first)
    model.merge(other)
    assert_sums_of(len(rows))
    model.unlearn_many(X[first:], Y[first:], rows.w[first:])
    assert_sums_of(first)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("constant", [0.1, 0.7, 9.81, 37.2, 1.7e9 + 0.3, -1e-200])
@pytest.mark.parametrize("n_rows", [50, 5000])
def test_a_constant_feature_gets_no_weight(accumulator, constant, n_rows):
    """Its deviation is rounding error, whichever way the rows came."""
    X = np.column_stack([np.full(n_rows, constant), np.arange(float(n_rows))])
    y = np.arange(n_rows) > 20
    w = np.random.default_rng(0).random(n_rows)
    for step in (n_rows // 50, n_rows // 7, n_rows):
        model = LeastSquaresClassifier(0.0, accumulator)
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            model.learn_many(X[rows], y[rows], w[rows] if step > 50 else None)
        assert not model.output_weights[0].any()
        assert model.output_weights[1].all()


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
@pytest.mark.parametrize("constant", [0.0, 0.1])
@pytest.mark.parametrize("first", [0, 10])
@pytest.mark.parametrize("setting", ["auto", 1.0])
def test_a_row_without_weight_does_not_make_a_feature_vary(accumulator, constant, first, setting):
    """Wherever in a batch it comes: nothing is measured from it."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        X, w = random.normal(size=(20, 2)), random.random(20)
        X[:, 1] = constant
        X[first, 1], w[first] = 55.6, 0.0
        model = LeastSquaresClassifier(setting, accumulator, scaling="standard")
        for part in (slice(10), slice(10, 20)):
            model.learn_many(X[part], random.random(10) > 0.5, w[part])
        assert not model.output_weights[1].any()


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("w", [1e-200, 1e-20])
def test_faint_weights_count_in_proportion(accumulator, w):
    faint, plain = (LeastSquaresClassifier(0.0, accumulator) for _ in range(2))
    for x, label in ((1.0, 0), (2.0, 1), (4.0, 1)):
        faint.learn_one({"a": x}, label, w)
        plain.learn_one({"a": x}, label)
    np.testing.assert_allclose(faint.output_weights, plain.output_weights)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(
    ("shape", "weighted"),
    pairs_in_turn([(40, 600), (150, 140), (150, 66), (700, 640)], [False, True]),
)
def test_batches_of_every_length_are_learnt_and_taken_out(accumulator, centred, shape, weighted):
    n_features, n_rows = shape
    random = np.random.default_rng(n_rows)
    X, Y = random.normal(size=(n_rows + 20, n_features)), random.normal(size=(n_rows + 20, 3))
    w = random.uniform(0.5, 2.0, n_rows + 20) if weighted else np.ones(n_rows + 20)
    first, rest, form = slice(20), slice(20, None), (1.0, accumulator, centred)
    whole, parts = laws.taught(X, Y, w, *form), laws.taught(X, Y, w, *form, [first, rest])

    def solved(which):
        A, T, _, _ = laws.weighted_centred(X[which], Y[which], w[which], centred)
        return np.linalg.solve(A.T @ A + np.eye(n_features), A.T @ T)

    expected = solved(slice(None))
    np.testing.assert_allclose(parts.output_weights, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(whole.output_weights, expected, rtol=1e-7, atol=1e-9)
    if accumulator != "orthogonal":
        parts.unlearn_many(X[rest], Y[rest], w[rest])
        np.testing.assert_allclose(parts.output_weights, solved(first), rtol=1e-6, atol=1e-8)
        assert parts.count == 20


@pytest.mark.filterwarnings("ignore:X has more columns than the rows")
def test_wide_sums_are_those_of_numpy():
    """More features than a block of the stored matrix has columns."""
    random = np.random.default_rng(0)
    X, Y = random.integers(-3, 4, (40, 1100)).astype(float), random.integers(-3, 4, (40, 2))
    model = laws.fitted(laws.taught(X[:, :1000], Y), X, Y, 2.0)
    expected = 2.0 * X.T @ X
    expected[:1000, :1000] *= 1.5
    sums, weights = model.statistics(), model.output_weights
    assert (sums.gram == expected).all()
    np.testing.assert_allclose(expected @ weights + weights, sums.cross, atol=1e-8)


# -- sparse rows ----------------------------------------------------------------------------------


def drawn(data, centred):
    """Draw rows, most of them zeros, of columns that are filled or not, far from 0 or not."""
    n_rows, n_features = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 9))
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    X = random.integers(-9, 10, (n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.3)
    X = X.astype(float)
    # Far from 0 without centring, rounding alone tells columns apart.
    offsets = st.sampled_from([0.0, 3.0, 1e6] if centred else [0.0, 3.0])
    for column in np.flatnonzero(random.random(n_features) < 0.3):
        X[:, column] = random.integers(-9, 10, n_rows) + data.draw(offsets)
    w = random.integers(0, 3, n_rows).astype(float)
    w[0] = 1.0
    return random, X, w


@strategies.examples(30)
@given(st.data(), st.booleans(), st.sampled_from([1.0, 0.9]))
def test_models_learn_sparse_rows_as_arrays(data, fit_intercept, forgetting_factor):
    random, X, w = drawn(data, fit_intercept)
    settings = {"fit_intercept": fit_intercept, "forgetting_factor": forgetting_factor}
    values, labels = X[:, 0] + random.normal(size=len(X)), random.integers(0, 3, len(X))
    for kind, y in ((LeastSquaresRegressor, values), (LeastSquaresClassifier, labels)):
        model, expected = kind(1.0, **settings), kind(1.0, **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear_model, "takes_sparse", lambda _, rows: sparse.issparse(rows))
            for part in (slice(0, 10), slice(10, 20), slice(20, None)):
                if len(X[part]):
                    model.learn_many(sparse.csr_array(X[part]), y[part], w[part])
                    expected.learn_many(sparse.csr_array(X[part]).toarray(), y[part], w[part])
        assert model.count == expected.count
        scores, known = model.output_weights, expected.output_weights
        np.testing.assert_allclose(scores, known, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(model.intercept, expected.intercept, rtol=1e-6, atol=1e-3)
        if kind is LeastSquaresClassifier:
            assert model.classes == expected.classes
        if forgetting_factor == 1.0:
            model.unlearn_many(sparse.csr_array(X[:3]), y[:3], w[:3])
            assert model.count == max(0, len(X) - 3)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("ridge", [0.0, 1e-8])
def test_a_rare_change_of_a_feature_far_from_0_has_a_weight(accumulator, ridge):
    """One row of 1,000 differs by a relative 1e-12: rounding is 8,000 times smaller."""
    x, y = np.full(1000, 1e9), np.zeros(1000)
    x[-1] += 1e-3
    y[-1] = 5.0
    difference = x[-1] - x[0]
    squares = difference**2 * 0.999
    model = laws.fitted(LeastSquaresRegressor(ridge, accumulator), x[:, None], y)
    expected = 5.0 * difference * 0.999 / (squares + ridge)
    assert model.output_weights.item() == pytest.approx(expected, rel=1e-6)


def alike(one, other):
    """Return whether two objects have equal arrays, in one order, and equal numbers."""
    if isinstance(one, np.ndarray):
        same = one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
        orders = [(each.flags.c_contiguous, each.flags.f_contiguous) for each in (one, other)]
        return same and orders[0] == orders[1]
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(alike, one, other))
    if hasattr(one, "__dict__"):
        # The pending product of a recursion counts for nothing once it is added.
        names = vars(one).keys() - {"pending"}
        return all(alike(getattr(one, name), getattr(other, name)) for name in names)
    return one == other


@strategies.examples(30)
@given(st.data(), st.sampled_from(["gram", "orthogonal"]), st.booleans())
def test_room_for_more_columns_is_that_of_places_for_them(data, accumulator, fit_intercept):
    """Also beyond a panel of A'A; for statistics, recursions and penalties."""
    few = [0, 1, 3, *([1023, 1024, 1025, 1500] if accumulator == "gram" else [])]
    m, n = data.draw(st.sampled_from(few)), data.draw(st.integers(1, 3))
    new = m + data.draw(st.sampled_from([0, 1, 2, 30])), n + data.draw(st.integers(0, 2))
    random = np.random.default_rng(0)
    model = LeastSquaresClassifier(1.0, accumulator, fit_intercept)
    if m:
        model.learn_many(random.normal(size=(9, m)), np.arange(9) % n)
        model.learn_many(random.normal(size=(2, m)), [0, 0], w=[0.5, 0.0])
    else:
        model.learn_many([{}] * 4, np.arange(4) % n)
    statistics, room = model._state.statistics, Room((m, n), new)
    places = Places.for_growth(room.old, room.new)
    assert alike(statistics.with_room(room), reindexed(statistics, places))
    units = random.random(m)
    for penalty in (Penalty(), Penalty(2.0, units, 3.0, None, 8, None, units * np.nan, 3)):
        assert alike(penalty.with_room(room), penalty.reindexed(places))
    if 0 < m < 99:
        recursion = Recursion(m, n, ridge=2.0)
        recursion.answer_and_learn(random.normal(size=(5, m)), random.normal(size=(5, n)))
        recursion.factors[:], recursion.pending[:] = (0.5, 0.25, 0.7), random.normal(size=m)
        assert alike(recursion.with_room(room), recursion.reindexed(places))
