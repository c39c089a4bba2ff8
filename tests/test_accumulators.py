"""The three forms against definitions in plain numpy, and rows that are asked for and learnt.

Sums and solutions of every form; the orthogonal form at every ridge and in any units; the recursive
form, which lets the ridge decay; and single rows, whose weights follow them or are solved anew.
"""

import copy
import itertools
import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import onlinels
from onlinels import KFold, LeastSquaresClassifier, LeastSquaresRegressor
from onlinels.linear import state as linear_model
from onlinels.linear.following import MAX_ROWS_BETWEEN_PREDICTIONS
from onlinels.linear.ridge import penalties_of
from onlinels.linear.state import in_force, ready
from support import laws, strategies
from support.slow import pairs_in_turn, the_rest_slow
from support.strategies import kinds

FORGETTING = {}, {"forgetting_factor": 0.95}, {"forgetting_factor": 0.5}, {"half_life": 9.0}

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


OF_ANY_UNITS = {"ridge": 0.0}, {"scaling": "standard"}, {"ridge": 1.0, "scaling": "standard"}


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal", "recursive"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 0.7, 9.81, 37.2, 1.7e9 + 0.3, -1e-200])
@pytest.mark.parametrize(
    ("n_rows", "steps"), [(20, [10]), (50, [1, 7, 50]), (5000, [100, 714, 5000])]
)
def test_a_constant_feature_gets_no_weight(accumulator, constant, n_rows, steps):
    """Its deviation is rounding error, whichever way the rows came; rows without weight are none.

    They differ here, first and in the middle.
    """
    random = np.random.default_rng(0)
    X = np.column_stack([np.full(n_rows, constant), np.arange(float(n_rows))])
    y, weighted = np.arange(n_rows) > n_rows // 2, random.random(n_rows)
    without = [0, n_rows // 2]
    X[without, 0], weighted[without] = 55.6, 0.0
    for settings, step, w in itertools.product(OF_ANY_UNITS, steps, (weighted, weighted > 0.0)):
        model = LeastSquaresClassifier(accumulator=accumulator, **settings)
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            model.learn_many(X[rows], y[rows], w[rows])
        assert not model.output_weights[0].any()
        assert model.output_weights[1].all()


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
    """More features than a block of the stored matrix has columns, and then still more."""
    random = np.random.default_rng(0)
    X, Y = random.integers(-3, 4, (40, 1100)).astype(float), random.integers(-3, 4, (40, 2))
    model = laws.fitted(laws.taught(X[:, :1000], Y), X[:, :1050], Y, 2.0)
    expected = 2.0 * X.T @ X
    expected[:1000, :1000] *= 1.5
    expected[1050:] = expected[:, 1050:] = 0.0
    for x, y in zip(X[:3], Y, strict=False):
        model.learn_one(dict(enumerate(x.tolist())), dict(enumerate(y.tolist())))
        expected += np.outer(x, x)
    sums, weights = model.statistics(), model.output_weights
    assert (sums.gram == expected).all()
    np.testing.assert_allclose(expected @ weights + weights, sums.cross, atol=1e-8)


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


# -- sparse rows ----------------------------------------------------------------------------------


@kinds
@strategies.examples(30)
@given(st.data(), st.sampled_from(FORGETTING))
def test_sparse_rows_are_learnt_as_arrays(kind, data, forgetting):
    rows, make = data.draw(strategies.cases(kind, unlearns=True, max_rows=30))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    X, is_filled = rows.X.astype(float), random.random(rows.X.shape[1]) < 0.3
    X *= is_filled | (random.random(X.shape) < 0.3)
    # Far from 0 without centring, rounding alone tells columns apart.
    X[:, is_filled] += make().fit_intercept * data.draw(st.sampled_from([0.0, 1e6]))
    model, expected = (make().clone({"ridge": 1.0, **forgetting}) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_model, "takes_sparse", lambda _, rows: sparse.issparse(rows))
        for part in data.draw(strategies.splits(len(rows))):
            some = rows.take(part)
            model.learn_many(sparse.csr_array(X[part]), some.y, some.w)
            expected.learn_many(X[part], some.y, some.w)
    assert model.count == expected.count
    assert laws.outputs_of(model) == laws.outputs_of(expected)
    for name, error in (("output_weights", 1e-7), ("ridge_diagonal", 0), ("intercept", 1e-3)):
        found, known = getattr(model, name), getattr(expected, name)
        np.testing.assert_allclose(found, known, rtol=1e-6, atol=error)
    if not forgetting:
        model.unlearn_many(sparse.csr_array(X[:3]), rows.y[:3], rows.w[:3])
        assert model.count == max(0, len(X) - 3)


# -- the orthogonal form --------------------------------------------------------------------------

RIDGES = [0.0, 1e-300, 1e-40, 1e-20, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6]


def solve(A, Y, ridge, batches=(slice(None),), accumulator="orthogonal"):
    """Return the weights of rows that were learnt batch by batch."""
    return laws.taught(A, Y, None, ridge, accumulator, batches=batches).output_weights


def residual_is_rounding(A, Y, W, ridge, size=1e3):
    """Tell whether every feature's normal equation holds, relative to the size of its terms."""
    residual = A.T @ (A @ W - Y) + ridge * W
    # A feature's column includes its row of the ridge.
    lengths = np.sqrt(np.linalg.norm(A, axis=0) ** 2 + ridge)
    fitted = np.linalg.norm(np.abs(A) @ np.abs(W)) + np.linalg.norm(Y)
    allowed = lengths[:, None] * fitted + ridge * np.abs(W)
    return (np.abs(residual) <= size * laws.EPS * allowed + 1e-300).all()


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(10, 30),
    st.sampled_from(RIDGES),
    st.sampled_from([0, 3, 30, 60]),
)
def test_every_ridge_solves_the_rows_with_the_ridge_below(seed, n_features, n_rows, ridge, decades):
    """Full rank, in any units: features of size 1e-60 to 1e60 at once."""
    random = np.random.default_rng(seed)
    units = 10.0 ** random.uniform(-decades, decades, n_features)
    A = random.normal(size=(n_rows, n_features))
    Y = random.normal(size=(n_rows, 2))
    W = solve(A * units, Y, ridge)
    # In units of one: min |A V - Y|^2 + c |units^-1 V|^2 for V = units W.
    stacked = np.vstack([A, np.diag(np.sqrt(ridge) / units)])
    size = np.linalg.norm(stacked, axis=0)
    below = np.vstack([Y, np.zeros((n_features, 2))])
    expected = np.linalg.lstsq(stacked / size, below, rcond=None)[0] / size[:, None]
    found = W * units[:, None]
    np.testing.assert_allclose(found * size[:, None], expected * size[:, None], atol=1e-9)
    assert residual_is_rounding(A * units, Y, W, ridge)


@pytest.mark.parametrize(("accumulator", "most_decades"), [("gram", 3), ("orthogonal", 9)])
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20), st.floats(-1, 1), st.data()
)
def test_pseudo_inverse_whatever_the_rank_and_the_units(
    accumulator, most_decades, seed, n_features, n_rows, share, data
):
    """The minimum-norm solution; a feature's unit does not decide whether it counts."""
    random, decades = np.random.default_rng(seed), share * most_decades
    A = random.integers(-3, 4, (n_rows, n_features)).astype(float)
    if data.draw(st.booleans()):
        A[:, -1] = A[:, 0]
    A[:, 0] *= 10.0**decades
    Y = random.normal(size=(n_rows, 2))
    batches = [list(batch) for batch in data.draw(strategies.splits(n_rows))]
    W, expected = solve(A, Y, 0.0, batches, accumulator), laws.minimum_norm(A, Y)
    if abs(decades) < 3:
        np.testing.assert_allclose(expected, np.linalg.pinv(A, rcond=1e-10) @ Y, atol=1e-8)
    lengths = np.maximum(np.linalg.norm(A, axis=0), 1.0)[:, None]
    np.testing.assert_allclose(W, expected, atol=1e-6 / lengths.min())
    assert accumulator == "gram" or residual_is_rounding(A, Y, W, 0.0, 1e5)


@pytest.mark.parametrize(
    ("accumulator", "apart", "ridge"),
    [
        *(("orthogonal", apart, ridge) for ridge in RIDGES for apart in (0.0, 1e-6)),
        *(("gram", 0.0, ridge) for ridge in (1e-30, 1e-15, 1e-14, 1e-13)),
    ],
)
def test_any_ridge_on_dependent_features_is_free_of_noise(accumulator, apart, ridge):
    """A column that is the sum of two others, and one twice, or nearly; however the rows came."""
    random = np.random.default_rng(0)
    A = random.normal(size=(50, 5))
    A[:, 2], A[:, 4] = A[:, 0] + A[:, 1], A[:, 3]
    A += apart * random.normal(size=A.shape)
    Y = random.normal(size=(50, 1))
    # The exact solution: the ridge within the row space of A.
    left, singular, right = np.linalg.svd(A, full_matrices=False)
    known = singular > 1e-9 * singular[0]
    shrunk = singular[known] / (singular[known] ** 2 + ridge)
    expected = right[known].T @ (shrunk[:, None] * (left[:, known].T @ Y))
    for cuts in ([], [7, 20], range(1, 50)):
        W = solve(A, Y, ridge, np.split(np.arange(50), cuts), accumulator)
        np.testing.assert_allclose(W, expected, atol=1e-7 if accumulator == "orthogonal" else 1e-9)


@pytest.mark.parametrize("small", [1e-2, 1e-6, 1e-9, 1e-13, 1e-20, 1e-60, 1e-119])
def test_dependent_features_of_one_size_leave_those_of_another_alone(small):
    """Two pairs of twins in different units, the sum of small ones, and some far apart from all.

    Hidden units vanish where they saturate: a ridge that is nothing to one is huge to another.
    """
    a, b, c, *others = np.random.default_rng(0).normal(size=(7, 60))
    A = np.column_stack([a, small * b, a, small * b, small * c, small * (b + c), *others[:2]])
    A, Y = A * [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1e-60, small**0.5], np.transpose(others[2:])
    vanishing = small**2, small, 1e-30, 1e-14
    for ridge in (*vanishing, 0.0, 1e-40, 1e-28, 1e-12, 1e-3):
        W = solve(A, Y, ridge)
        np.testing.assert_allclose(W[2], W[0], rtol=1e-8)
        np.testing.assert_allclose(W[3], W[1], rtol=1e-8)
        # Orthogonal to the direction (b, b, c, b + c) = (1, 1, 2, -2), in which rows say nothing.
        np.testing.assert_allclose(W[1] + W[3] + 2 * W[4], 2 * W[5], rtol=1e-7)
        assert residual_is_rounding(A, Y, W, ridge)
        if small <= 1e-20 and ridge in vanishing:
            some = [0, 2, 5, 7]
            gram = solve(A[:, some], Y, ridge, accumulator="gram")
            assert residual_is_rounding(A[:, some], Y, gram, ridge, 1e6)


@pytest.mark.parametrize("ridge", [0.0, 1e-12, 1e-2])
def test_leverages_within_the_row_space_whatever_a_row_has_beside_it(ridge):
    random = np.random.default_rng(0)
    A = random.normal(size=(30, 4))
    A[:, 3] = A[:, 2]
    rows = random.normal(size=(5, 4))
    apart = (rows[:, 2] - rows[:, 3]) / np.sqrt(2.0)
    within = rows - np.outer(apart, [0.0, 0.0, 1.0, -1.0]) / np.sqrt(2.0)
    inverse = np.linalg.pinv(A.T @ A + ridge * np.eye(4), rcond=1e-11)
    expected = np.einsum("ij,jk,ik->i", within, inverse, within)
    if ridge == 1e-2:
        expected += apart**2 / ridge
    model = LeastSquaresRegressor(ridge, "orthogonal", fit_intercept=False)
    model.learn_many(A, random.normal(size=30))
    # The variance of a new target is s^2 (1 + leverage), and that of a row of zeros s^2.
    _, deviations = model.predict_many(np.vstack([np.zeros(4), rows]), with_dist=True)
    found = (deviations[1:] / deviations[0]) ** 2 - 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(("value", "target", "ridge"), [(1e-3, 1e5, 306.7), (1e-3, 7e3, 282.0)])
def test_a_small_row_with_a_large_target_keeps_its_digits_beside_the_ridge(value, target, ridge):
    model = LeastSquaresRegressor(ridge, "orthogonal", fit_intercept=False)
    model.learn_one({"x": value}, target)
    expected = value * target / (value**2 + ridge)
    assert model.output_weights.item() == pytest.approx(expected, rel=1e-14)


# -- the recursive form ---------------------------------------------------------------------------


def batch_solution(model, X, y, w):
    """Return the weights of a batch with the ridge that a model reports, in units of one."""
    A, T, _, _ = laws.weighted_centred(X, y[:, None], w, model.fit_intercept)
    sizes = np.sqrt((A**2).sum(axis=0) + model.ridge_diagonal)
    stacked = np.vstack([A, np.diag(np.sqrt(model.ridge_diagonal))]) / sizes
    below = np.vstack([T, np.zeros((len(sizes), 1))])
    return np.linalg.lstsq(stacked, below, rcond=None)[0], sizes[:, None]


@pytest.mark.parametrize("step", the_rest_slow([1, 25]))
def test_directions_that_are_never_excited_stay_bounded(step):
    """A plain recursion overflows here: its inverse grows by 1/0.99 with every row."""
    random = np.random.default_rng(0)
    n_rows, decay, ridge = (4_000 if step == 1 else 50_000), 0.99, 1e-3
    X = random.normal(size=(n_rows, 3)) @ random.normal(size=(3, 20))
    Y = X[:, :1] + random.normal(size=(n_rows, 1))
    model = LeastSquaresRegressor(ridge, "recursive", False, forgetting_factor=decay)
    for start in range(0, n_rows, step):
        model.learn_many(X[start : start + step], Y[start : start + step, 0])
    w = decay ** np.arange(n_rows - 1, -1, -1.0)
    diagonal = model.ridge_diagonal
    assert np.all((diagonal >= ridge / 2) & (diagonal <= ridge))
    expected, sizes = batch_solution(model, X[-5000:], Y[-5000:, 0], w[-5000:])
    error = np.abs(model.output_weights * sizes - expected).max()
    assert error < 1e-8 * (1.0 + np.abs(expected).max())


@pytest.mark.parametrize("centred", [False, True])
def test_a_ridge_that_has_faded_is_whole_after_other_changes(centred):
    """Not after a merge with a model without rows; solutions are laws of any calls in any order."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 8)), random.normal(size=40)

    def faded():
        model = LeastSquaresRegressor(5.0, "recursive", centred, forgetting_factor=0.985)
        return laws.fitted(model, X, y)

    changed, strong, empty = faded(), faded(), faded().empty()
    changed.ridge = 3.0
    strong.fade(0.25)
    for model, ridge in ((faded() + faded(), 5.0), (changed, 3.0), (strong, 5.0)):
        assert (model.ridge_diagonal == ridge).all()
    for model in (faded(), faded() + empty, empty + faded()):
        assert model.ridge_diagonal.tolist() == [pytest.approx(5.0 * 0.985**39)] * 8


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("w", [0.0, 0])
def test_rows_without_weight_at_the_beginning_leave_the_ridge(asks, w):
    rows = [({"x": 1.0}, 5.0, w), ({"x": 2.0}, 1.0, 1.0), ({"x": 3.0}, 2.0, 1.0)]
    model = LeastSquaresRegressor(1.0, "recursive", forgetting_factor=0.6)
    for x, y, weight in rows:
        if asks:
            model.predict_one(x)
        model.learn_one(x, y, w=weight)
    assert model.ridge_diagonal.tolist() == [0.6]


@pytest.mark.parametrize("decay", [{"forgetting_factor": 0.93}, {"half_life": 6.0}])
@pytest.mark.parametrize("fit_intercept", [False, True])
@strategies.examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 20]), st.data())
def test_rows_one_by_one_are_rows_in_batches(decay, fit_intercept, seed, every, data):
    """With predictions of known names between rows, over several resets of the ridge."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(60, 3)) + 1.0, random.normal(size=60)
    w = data.draw(st.sampled_from([np.ones(60), random.integers(0, 3, 60) * 1.0]))
    single = LeastSquaresRegressor(2.0, "recursive", fit_intercept, **decay)
    batches, before = single.empty(), single.empty()
    for row, (x, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        if row % every == 0:
            single.predict_one(dict(zip("abc", x, strict=True)))
        single.learn_one(dict(zip("abc", x, strict=True)), target, w=w[row])
    for batch in data.draw(strategies.splits(60)):
        batches.learn_many(X[batch], y[batch], w[batch])
        before.predict_learn_many(X[batch], y[batch], w[batch])
    for other in (batches, before):
        np.testing.assert_allclose(other.ridge_diagonal, single.ridge_diagonal, rtol=1e-9)
        np.testing.assert_allclose(other.output_weights, single.output_weights, atol=1e-8)


@pytest.mark.parametrize(("kind", "fit_intercept"), pairs_in_turn(strategies.SHAPES, [False, True]))
@strategies.examples(20)
@given(
    st.sampled_from([0.3, 0.5, 0.6, 0.8, 0.9, 0.99]),
    st.sampled_from([1e-6, 1e-2, 1.0, 100.0]),
    st.integers(1, 7),
    st.integers(0, 2**32 - 1),
)
def test_what_is_forgotten_fast_leaves_the_batch_solution(
    kind, fit_intercept, factor, ridge, step, seed
):
    random = np.random.default_rng(seed)
    X = strategies.SHAPES[kind](random, 90)
    y = X[:, 0] / np.abs(X[:, 0]).max() + random.normal(size=90)
    model = LeastSquaresRegressor(ridge, "recursive", fit_intercept, forgetting_factor=factor)
    asked, grown = dict(enumerate(X[0].tolist())), 0.0
    for start in range(0, 90, step):
        stop = min(start + step, 90)
        model.learn_many(X[start:stop], y[start:stop])
        model.predict_one(asked)
        w = factor ** np.arange(stop - 1.0, -1.0, -1.0)
        expected, sizes = batch_solution(model, X[:stop], y[:stop], w)
        # What has grown to s keeps 16 - log10(s / c) digits.
        grown = max(factor**step * grown, (w @ X[:stop] ** 2).sum() / ridge)
        allowed = 1e-7 + 1e3 * laws.EPS * grown
        error = np.abs(model.output_weights * sizes - expected).max()
        assert allowed > 0.1 or error <= allowed * (1.0 + np.abs(expected).max())


def test_a_ridge_that_is_chosen_once_more_does_not_depend_on_the_cutting():
    """Rows say nothing of the targets: it stays at the end of the range searched."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(552, 3)), random.normal(size=552)
    settings = {"accumulator": "recursive", "forgetting_factor": 0.9, "scaling": None}
    whole, cut = LeastSquaresRegressor(**settings), LeastSquaresRegressor(**settings)
    whole.learn_many(X, y)
    for start in range(0, 552, 8):
        cut.learn_many(X[start : start + 8], y[start : start + 8])
    np.testing.assert_allclose(cut.ridge_diagonal, whole.ridge_diagonal)


@pytest.mark.parametrize(("ridge", "n_features"), [(KFold(3), 2), ("auto", 2), ("auto", 130)])
def test_a_late_feature_has_the_share_of_the_ridge_that_is_left(ridge, n_features):
    random = np.random.default_rng(3)
    names, n_rows = [f"x{column}" for column in range(n_features)], 18 + 3 * n_features
    asked, silent = (
        LeastSquaresRegressor(ridge, "recursive", forgetting_factor=0.95) for _ in range(2)
    )
    for row in range(n_rows):
        x = dict(zip(names, random.normal(size=n_features).tolist(), strict=True))
        y = x["x0"] + float(random.normal())
        if row >= n_rows - 3:
            asked.predict_one(x)
        asked.learn_one(x, y)
        silent.learn_one(x, y)
    for model in (asked, silent):
        model.learn_one(x | {"late": -0.07}, 2.5)
    expected = silent.predict_one(x | {"late": 3.0})
    assert asked.predict_one(x | {"late": 3.0}) == pytest.approx(expected, rel=1e-9)


# -- single rows ----------------------------------------------------------------------------------


@st.composite
def streams(draw, max_rows=60):
    """Draw a model, and rows as dicts with targets: independent, correlated or collinear."""
    ridge = draw(st.sampled_from([1.0, 1e-3, 1e-9, 30.0, 0.0, "paper", "auto"]))
    settings = {"ridge": ridge, "fit_intercept": draw(st.booleans())}
    settings["scaling"] = draw(st.sampled_from(["auto", None, "standard"][: 3 - (ridge == 0.0)]))
    settings["accumulator"] = draw(strategies.unlearning_accumulators)
    settings |= draw(st.sampled_from(FORGETTING))
    n, m = draw(st.integers(2, max_rows)), draw(st.integers(1, 9))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X, rank = numbers.normal(size=(n, m)), draw(st.sampled_from([m, m, 2, 1]))
    if rank < m:
        near = draw(st.sampled_from([0.0, 1e-7, 1e-3, 0.1]))
        X = numbers.normal(size=(n, rank)) @ numbers.normal(size=(rank, m)) + near * X
    X *= draw(st.sampled_from([1.0, 100.0])) ** numbers.integers(-1, 2, m)
    X += draw(st.sampled_from([0.0, 0.0, 10.0]))
    X[:, numbers.random(m) < 0.1] = draw(st.sampled_from([0.0, 0.1]))
    y = X @ numbers.normal(size=m) + numbers.normal(size=n)
    kind, y = draw(
        st.sampled_from([(LeastSquaresRegressor, y), (LeastSquaresClassifier, y > y.mean())])
    )
    return kind(**settings), [dict(enumerate(row)) for row in X.tolist()], y.tolist()


def residual_of(model):
    """Return how far the weights are from solving the normal equations, relative to their terms."""
    state = ready(model._state)
    penalties, diagonal = penalties_of(*in_force(state), state.statistics)
    gram, cross = state.statistics.products.gram_and_cross()
    gram = np.triu(gram) + np.triu(gram, 1).T + np.diag(np.broadcast_to(penalties, len(gram)))
    W, active = model.output_weights, diagonal > 0.0
    W = W[:, state.statistics.target_squares > 0.0] if state.statistics.is_centred else W
    cross = (
        cross[:, state.statistics.target_squares > 0.0] if state.statistics.is_centred else cross
    )
    apart, sizes = np.abs(gram @ W - cross), np.abs(gram) @ np.abs(W) + np.abs(cross)
    scale = np.sqrt(np.where(active, gram.diagonal(), np.inf))[:, None]
    largest = (sizes / scale).max(initial=0.0) or 1.0
    assert not W[~active].any()
    return float((apart / scale)[active].max(initial=0.0) / largest)


def unlearnt(model, row, _):
    """Unlearn the last row, unless it has been forgotten in part, or few digits would be left."""
    with suppress(ValueError):
        model.unlearn_one(*row)


def merged(model, _, rows):
    other = model.empty()
    other.learn_many(*(each[:3] for each in rows))
    model.merge(other)


EVENTS = [unlearnt, merged, lambda model, *_: model.fade(0.5), lambda *_: None]
EVENTS += [lambda model, _, rows: model.learn_many(*rows)]
"""What comes between rows: functions of a model, its last row, and all rows."""

WAYS = copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))
WAYS += (lambda model: onlinels.loads(onlinels.dumps(model)),)


@pytest.mark.filterwarnings("ignore")
@strategies.examples(100)
@given(streams(), st.data())
def test_weights_solve_the_sums_in_every_way(stream, data):
    """Whenever rows are asked for, forgotten, unlearnt, merged or faded; copies have the bits."""
    model, rows, y = stream
    n_asked = data.draw(st.sampled_from([1, 1, 2, MAX_ROWS_BETWEEN_PREDICTIONS + 2]))
    at, both = data.draw(st.integers(0, len(rows) - 1)), [model]
    event, way = data.draw(st.sampled_from(EVENTS)), data.draw(st.sampled_from(WAYS))
    asked = data.draw(st.sampled_from([[], rows[:1], rows[:2]]))
    for k, (x, target) in enumerate(zip(rows, y, strict=True)):
        if k % n_asked == 0:
            found = [(each.predict_one(x), each._row_scores(x)) for each in both]
            assert repr(found[0]) == repr(found[-1])
        for each in both:
            each.learn_one(x, target)
        if k == at:
            model.predict_many(asked)
            both.append(way(model))
            for each in both:
                event(each, (x, target), (rows, y))
    np.testing.assert_array_equal(*(each.output_weights for each in both))
    one = model._row_scores(rows[0])
    np.testing.assert_allclose(one, model._batch_scores(rows[:1])[1][0], rtol=1e-6, atol=1e-9)
    # Without a ridge, directions that count as dependent are left out.
    assert residual_of(model) < (1e-5 if model.ridge == 0.0 else 1e-8)
