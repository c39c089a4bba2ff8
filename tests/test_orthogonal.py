"""The orthogonal form against batch definitions: Gram, solutions at every ridge, refusals."""

import functools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, OrthogonalAccumulator
from support import laws, strategies

EPS = np.finfo(np.float64).eps
RIDGES = [0.0, 1e-300, 1e-40, 1e-20, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6]


def targets_of(rows, as_matrix):
    classes = tuple(dict.fromkeys(rows.y))
    Y = laws.one_hot(rows.y, classes)
    return (7.0 * Y - 2.0, 7.0 * Y - 2.0) if as_matrix else (Y.argmax(axis=1), Y)


def accumulated(X, targets, w=None, sizes=(0, 0), batches=(...,)):
    acc = OrthogonalAccumulator(*sizes)
    for batch in batches:
        acc.update(X[batch], targets[batch], None if w is None else w[batch])
    return acc


def assert_factors(acc, X, Y, w):
    """Assert R'R = A'A and R'Q'Y = A'Y, to rounding relative to the lengths of the columns."""
    root = np.sqrt(w)[:, None]
    A, T = root * X, root * Y
    gram, cross = acc.factor.T @ acc.factor, acc.factor.T @ acc.rotated_targets
    lengths, target_lengths = np.linalg.norm(A, axis=0), np.linalg.norm(T, axis=0)
    small = 100 * EPS * np.sqrt(len(X))
    assert (np.abs(gram - A.T @ A) <= small * np.outer(lengths, lengths)).all()
    assert (np.abs(cross - A.T @ T) <= small * np.outer(lengths, target_lengths)).all()
    np.testing.assert_allclose(acc.diagonal, lengths**2, rtol=1e-13)
    np.testing.assert_allclose(acc.target_squares, target_lengths**2, rtol=1e-12)
    assert not np.tril(acc.factor, -1).any()
    assert acc.count == len(X)
    assert acc.weight == pytest.approx(w.sum())


def minimum_norm(A, Y, rank_tolerance=1e-9):
    """Return the minimum-norm solution, with the rank found on columns of unit length.

    A+ = N (A D N')+ by an orthonormal basis of the row space of A = (A D) D^-1, D of any scale.
    """
    lengths = np.linalg.norm(A, axis=0)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    _, singular, right = np.linalg.svd(A * scale)
    rank = int((singular > rank_tolerance * singular.max(initial=0.0)).sum())
    if not rank:
        return np.zeros((A.shape[1], Y.shape[1]))
    basis = np.linalg.qr(lengths[:, None] * right[:rank].T)[0]
    reduced = A @ basis
    size = np.linalg.norm(reduced, axis=0)
    return basis @ (np.linalg.lstsq(reduced / size, Y, rcond=None)[0] / size[:, None])


def with_ridge(A, Y, ridge):
    """Return the solution of the rows with the ridge's rows below them."""
    stacked = np.vstack([A, np.sqrt(ridge) * np.eye(A.shape[1])])
    return minimum_norm(stacked, np.vstack([Y, np.zeros((A.shape[1], Y.shape[1]))]), 0.0)


@given(st.data(), strategies.rows(), st.booleans())
def test_any_split_is_the_factor_of_all_rows(data, rows, as_matrix):
    targets, Y = targets_of(rows, as_matrix)
    sizes = data.draw(st.sampled_from([0, rows.X.shape[1]])), Y.shape[1]
    acc = accumulated(rows.X, targets, rows.w, sizes, data.draw(strategies.splits(len(rows))))
    assert_factors(acc, rows.X.astype(float), Y, rows.w)


@given(st.data(), strategies.rows(min_rows=2), st.booleans())
def test_any_tree_of_merges_is_the_factor_of_all_rows(data, rows, as_matrix):
    targets, Y = targets_of(rows, as_matrix)
    accumulators = [
        accumulated(rows.X, targets, rows.w, (0, Y.shape[1]), [batch])
        for batch in data.draw(strategies.splits(len(rows)))
    ]
    while len(accumulators) > 1:
        right = accumulators.pop(data.draw(st.integers(0, len(accumulators) - 1)))
        left = accumulators[data.draw(st.integers(0, len(accumulators) - 1))]
        before = pickle.dumps(right)
        left.merge(right)
        assert pickle.dumps(right) == before
    assert_factors(accumulators[0], rows.X.astype(float), Y, rows.w)


@given(strategies.rows(), st.randoms(use_true_random=False), st.booleans())
def test_placed_columns_carry_everything(rows, random, as_matrix):
    targets, Y = targets_of(rows, as_matrix)
    acc = accumulated(rows.X, targets, rows.w, (0, Y.shape[1]))
    n_features, n_targets = acc.n_features + 2, acc.n_targets + 1
    features = np.array(random.sample(range(n_features), acc.n_features))
    if random.random() < 0.3:
        features.sort()
    places = np.array(random.sample(range(n_targets), acc.n_targets))
    placed = acc.placed(features, places, n_features, n_targets)
    X, T = np.zeros((len(rows), n_features)), np.zeros((len(rows), n_targets))
    X[:, features], T[:, places] = rows.X, Y
    assert_factors(placed, X, T, rows.w)
    # It is an accumulator like any other, and no view of the first.
    before = acc.factor
    placed.update(X, T, rows.w)
    doubled = (np.concatenate([part, part]) for part in (X, T, rows.w))
    assert_factors(placed, *doubled)
    assert (acc.factor == before).all()


@given(st.data(), strategies.rows())
def test_scaling_and_dropping_targets(data, rows):
    targets, Y = targets_of(rows, as_matrix=False)
    acc = accumulated(rows.X, targets, rows.w)
    factor = data.draw(st.sampled_from([0.0, 1e-3, 0.5, 4.0]))
    acc.scale(factor)
    kept = data.draw(st.permutations(range(Y.shape[1])))[: data.draw(st.integers(1, Y.shape[1]))]
    acc = acc.with_targets(np.array(kept))
    assert_factors(acc, rows.X.astype(float), Y[:, kept], factor * rows.w)
    acc.update(rows.X, Y[:, kept], rows.w)
    acc.merge(accumulated(rows.X, Y[:, kept], rows.w))
    weights = np.concatenate([factor * rows.w, rows.w, rows.w])
    assert_factors(acc, np.tile(rows.X.astype(float), (3, 1)), np.tile(Y[:, kept], (3, 1)), weights)


def test_growing_is_having_known_from_the_start():
    (X, columns, widths), late = laws.growing_rows(), OrthogonalAccumulator()
    for row, width in enumerate(widths):
        late.update(X[row : row + 1, :width], columns[row : row + 1])
    assert_factors(late, X, np.eye(columns.max() + 1)[columns], np.ones(60))
    known = accumulated(X, columns, sizes=(9, 6))
    np.testing.assert_allclose(late.solve(0.1), known.solve(0.1)[:, : late.n_targets], atol=1e-13)


def test_many_classes_need_no_one_hot_matrix():
    """100,000 classes: a dense one-hot of the batch would take 800 MB."""
    rows, acc = np.ones((1000, 2)), OrthogonalAccumulator(2, 100_000)
    assert laws.peak_of(lambda: acc.update(rows, np.arange(1000) * 100)) < 12_000_000
    assert (acc.factor.T @ acc.rotated_targets)[:, ::100].sum() == pytest.approx(2000)
    columns = np.arange(30) % 7
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert_factors(accumulated(X, columns), X, np.eye(7)[columns], np.ones(30))


@pytest.mark.parametrize("centred", [False, True])
def test_taking_rows_out_is_refused(centred):
    acc = laws.centred(OrthogonalAccumulator()) if centred else OrthogonalAccumulator()
    acc.update(np.eye(3), [0, 1, 1])
    other = pickle.loads(pickle.dumps(acc))
    for call in (
        lambda: acc.downdate(np.eye(3)[:1], [0]),
        lambda: acc.downdate(np.ones((1, 9)), [5]),
        lambda: acc.subtract(other),
    ):
        laws.assert_refused(call, acc, r"cannot remove rows.*stably.*GramAccumulator")


def residual_is_rounding(A, Y, W, ridge, size=1e3):
    """Tell whether every feature's normal equation holds, relative to the size of its terms."""
    residual = A.T @ (A @ W - Y) + ridge * W
    # A feature's column includes its row of the ridge.
    lengths = np.sqrt(np.linalg.norm(A, axis=0) ** 2 + ridge)
    fitted = np.linalg.norm(np.abs(A) @ np.abs(W)) + np.linalg.norm(Y)
    allowed = lengths[:, None] * fitted + ridge * np.abs(W)
    return (np.abs(residual) <= size * EPS * allowed + 1e-300).all()


def assert_solves(A, Y, W, ridge):
    residual = A.T @ (A @ W - Y) + ridge * W
    lengths = np.sqrt((A**2).sum(axis=0) + ridge)
    assert np.abs(residual / lengths[:, None]).max() < 1e-12


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
    W = accumulated(A * units, Y).solve(ridge)
    # In units of one: min |A V - Y|^2 + c |units^-1 V|^2 for V = units W.
    stacked = np.vstack([A, np.diag(np.sqrt(ridge) / units)])
    size = np.linalg.norm(stacked, axis=0)
    below = np.vstack([Y, np.zeros((n_features, 2))])
    expected = np.linalg.lstsq(stacked / size, below, rcond=None)[0] / size[:, None]
    found = W * units[:, None]
    np.testing.assert_allclose(found * size[:, None], expected * size[:, None], atol=1e-9)
    assert residual_is_rounding(A * units, Y, W, ridge)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20), st.floats(-9, 9), st.data()
)
def test_pseudo_inverse_whatever_the_rank_and_the_units(seed, n_features, n_rows, decades, data):
    """The minimum-norm solution; a feature's unit does not decide whether it counts."""
    random = np.random.default_rng(seed)
    A = random.integers(-3, 4, (n_rows, n_features)).astype(float)
    if data.draw(st.booleans()):
        A[:, -1] = A[:, 0]
    A[:, 0] *= 10.0**decades
    Y = random.normal(size=(n_rows, 2))
    acc = accumulated(A, Y, batches=data.draw(strategies.splits(n_rows)))
    expected = minimum_norm(A, Y)
    if abs(decades) < 3:
        np.testing.assert_allclose(expected, np.linalg.pinv(A, rcond=1e-10) @ Y, atol=1e-8)
    lengths = np.maximum(np.linalg.norm(A, axis=0), 1.0)[:, None]
    np.testing.assert_allclose(acc.solve(0.0), expected, atol=1e-6 / lengths.min())
    assert residual_is_rounding(A, Y, acc.solve(0.0), 0.0, 1e5)


@pytest.mark.parametrize("ridge", RIDGES)
def test_any_ridge_on_dependent_features_is_free_of_noise(ridge):
    """A column that is the sum of two others, and one twice; however the rows came."""
    random = np.random.default_rng(0)
    A = random.normal(size=(50, 5))
    A[:, 2], A[:, 4] = A[:, 0] + A[:, 1], A[:, 3]
    Y = random.normal(size=(50, 1))
    # The exact solution: the ridge within the row space of A.
    left, singular, right = np.linalg.svd(A, full_matrices=False)
    shrunk = singular[:3] / (singular[:3] ** 2 + ridge)
    expected = right[:3].T @ (shrunk[:, None] * (left[:, :3].T @ Y))
    for cuts in ([], [7, 20], range(1, 50)):
        acc = accumulated(A, Y, batches=np.split(np.arange(50), cuts))
        np.testing.assert_allclose(acc.solve(ridge), expected, atol=1e-7)


@pytest.mark.parametrize("ridge", [0.0, 1e-40, 1e-28, 1e-12])
@pytest.mark.parametrize("small", [1e-2, 1e-6, 1e-9, 1e-13])
def test_dependent_features_of_one_size_leave_those_of_another_alone(ridge, small):
    """Two pairs of twins in different units, the sum of small ones, and one far apart from all."""
    random = np.random.default_rng(0)
    a, b, c, d = random.normal(size=(4, 60))
    A = np.column_stack([a, small * b, a, small * b, small * c, small * (b + c), d * 1e-60])
    Y = random.normal(size=(60, 2))
    W = accumulated(A, Y).solve(ridge)
    np.testing.assert_allclose(W[2], W[0], rtol=1e-8)
    np.testing.assert_allclose(W[3], W[1], rtol=1e-8)
    # Orthogonal to the direction (b, b, c, b + c) = (1, 1, 2, -2), in which the rows say nothing.
    np.testing.assert_allclose(W[1] + W[3] + 2 * W[4], 2 * W[5], rtol=1e-7)
    assert_solves(A, Y, W, ridge)


@pytest.mark.parametrize("ridge", [1e-12, 1e-9, 1e-6, 1e-3, 1.0])
def test_a_tiny_ridge_counts_on_nearly_dependent_features(ridge):
    """Columns 1e-6 apart: the Gram would have 4 digits left, and the ridge would drown in it."""
    random = np.random.default_rng(0)
    A = random.normal(size=(50, 4))
    A[:, 1] = A[:, 0] + 1e-6 * A[:, 1]
    Y = random.normal(size=(50, 1))
    acc, expected = accumulated(A, Y, batches=np.arange(50)[:, None]), with_ridge(A, Y, ridge)
    np.testing.assert_allclose(acc.solve(ridge), expected, atol=1e-8 * np.abs(expected).max())


def test_features_of_very_different_size_all_count():
    random = np.random.default_rng(0)
    A = random.normal(size=(100, 2)) * [1e-100, 1e100]
    expected = np.array([[3e100], [-2e-100]])
    np.testing.assert_allclose(accumulated(A, A @ expected).solve(0.0), expected, rtol=1e-13)


@pytest.mark.parametrize("smallest", [1e-20, 1e-60, 1e-119])
def test_features_of_vanishing_size_do_not_break_the_solution(smallest):
    random = np.random.default_rng(0)
    A = random.normal(size=(60, 4)) * [1.0, 1.0, smallest, smallest**0.5]
    A[:, 1] = A[:, 0]
    Y = random.normal(size=(60, 2))
    for ridge in (0.0, smallest**2, smallest, 1e-30, 1e-14, 1e-3):
        W = accumulated(A, Y).solve(ridge)
        assert_solves(A, Y, W, ridge)
        np.testing.assert_allclose(W[1], W[0], rtol=1e-7)


@given(st.integers(0, 2**32 - 1), st.sampled_from(RIDGES))
def test_features_of_rounding_errors_get_no_weight(seed, ridge):
    random = np.random.default_rng(seed)
    A, Y = random.normal(size=(20, 6)), random.normal(size=(20, 2))
    noise = random.random(6) < 0.4
    A[:, noise] *= 1e-17
    acc = accumulated(A, Y)
    diagonal = np.where(noise, 0.0, acc.diagonal)
    rows = random.normal(size=(3, 6))
    W, leverages = acc.solve(ridge, diagonal), acc.covariance(ridge, diagonal).leverages(rows)
    assert not W[noise].any()
    kept = accumulated(A[:, ~noise], Y)
    np.testing.assert_allclose(W[~noise], kept.solve(ridge), rtol=1e-9, atol=1e-12)
    expected = kept.covariance(ridge).leverages(rows[:, ~noise])
    if ridge:
        expected = expected + (rows[:, noise] ** 2).sum(axis=1) / ridge
    np.testing.assert_allclose(leverages, expected, rtol=1e-9)


@given(strategies.rows(min_rows=2), st.sampled_from(RIDGES))
def test_leverages_and_sums_are_those_of_the_rows(rows, ridge):
    targets, Y = targets_of(rows, as_matrix=False)
    acc = accumulated(rows.X, targets, rows.w)
    root = np.sqrt(rows.w)[:, None]
    A, T = root * rows.X.astype(float), root * Y
    _, singular, right = np.linalg.svd(A, full_matrices=False)
    present = singular > 1e-10 * singular.max(initial=1e-300)
    within = A @ right[present].T
    expected = (within**2 / (singular[present] ** 2 + ridge)).sum(axis=1)
    np.testing.assert_allclose(acc.covariance(ridge).leverages(A), expected, rtol=1e-6, atol=1e-6)
    sums, size = acc.sums(), 1e-12 * (1.0 + np.linalg.norm(A) ** 2 + np.linalg.norm(T) ** 2)
    np.testing.assert_allclose(np.triu(sums.gram), np.triu(A.T @ A), atol=size)
    np.testing.assert_allclose(sums.cross, A.T @ T, atol=size)
    assert (sums.weight, sums.n_free) == (acc.weight, 0)


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
    acc = accumulated(A, np.zeros((30, 1)))
    np.testing.assert_allclose(acc.covariance(ridge).leverages(rows), expected, rtol=1e-8)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_solve(shape):
    acc = OrthogonalAccumulator(*shape)
    assert acc.solve(0.0).shape == shape
    assert acc.covariance(1.0).leverages(np.zeros((2, shape[0]))).tolist() == [0.0, 0.0]
    assert acc.sums().cross.shape == shape
    acc.update(np.zeros((2, shape[0])), np.zeros((2, shape[1])))
    acc.merge(OrthogonalAccumulator())
    assert acc.solve(0.0).shape == shape


def test_an_intercept_by_centring():
    """Means far away, nearly dependent features: the factor of the centred rows."""
    random = np.random.default_rng(0)
    X = random.integers(-1000, 1000, (300, 3)) / 256.0
    X[:, 2] = X[:, 0] + X[:, 2] * 2.0**-20
    Y = X @ np.array([[1.0], [2.0], [3.0]]) + random.integers(-8, 8, (300, 1)) / 16.0
    acc, *parts = (laws.centred(OrthogonalAccumulator()) for _ in range(4))
    for row in range(300):
        for statistics in (acc, parts[row % 3]):
            statistics.update(X[[row]] + 2.0**20, Y[[row]])
    merged = functools.reduce(lambda left, right: left.merge(right) or left, parts)
    A, T = X - X.mean(axis=0), Y - Y.mean(axis=0)
    for ridge in (0.0, 1e-12, 1e-6):
        expected = with_ridge(A, T, ridge)
        for statistics in (acc, merged):
            np.testing.assert_allclose(statistics.solve(ridge), expected, rtol=1e-6)


def test_the_classifier_separates_what_the_gram_cannot():
    """A polynomial of degree 6 on [2, 3]: its powers are dependent to a Gram in float64."""
    x = np.linspace(2.0, 3.0, 200)
    X = x[:, None] ** np.arange(1, 7)
    labels = (np.arange(200) // 25 % 2).tolist()
    exact = np.polynomial.Chebyshev.fit(x, np.array(labels, float), 6)(x)
    errors = {}
    for accumulator in ("gram", "orthogonal"):
        model = LeastSquaresClassifier(ridge=0.0, accumulator=accumulator)
        model.learn_many(X, labels)
        scores = model.scores_many(X)[:, model.classes.index(1)]
        errors[accumulator] = np.abs(scores - exact).max()
    assert errors["orthogonal"] < 1e-6 < 1e-3 < errors["gram"]
