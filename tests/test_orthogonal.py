"""The orthogonal form against batch definitions: solutions at every ridge, in any units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinels import LeastSquaresClassifier, LeastSquaresRegressor
from support import laws, strategies

EPS = np.finfo(np.float64).eps
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
    return (np.abs(residual) <= size * EPS * allowed + 1e-300).all()


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
    ("accumulator", "ridge"),
    [
        *(("orthogonal", ridge) for ridge in RIDGES),
        *(("gram", ridge) for ridge in (1e-30, 1e-15, 1e-14, 1e-13)),
    ],
)
def test_any_ridge_on_dependent_features_is_free_of_noise(accumulator, ridge):
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
        W = solve(A, Y, ridge, np.split(np.arange(50), cuts), accumulator)
        np.testing.assert_allclose(W, expected, atol=1e-7 if accumulator == "orthogonal" else 1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-40, 1e-28, 1e-12])
@pytest.mark.parametrize("small", [1e-2, 1e-6, 1e-9, 1e-13])
def test_dependent_features_of_one_size_leave_those_of_another_alone(ridge, small):
    """Two pairs of twins in different units, the sum of small ones, and one far apart from all."""
    random = np.random.default_rng(0)
    a, b, c, d = random.normal(size=(4, 60))
    A = np.column_stack([a, small * b, a, small * b, small * c, small * (b + c), d * 1e-60])
    Y = random.normal(size=(60, 2))
    W = solve(A, Y, ridge)
    np.testing.assert_allclose(W[2], W[0], rtol=1e-8)
    np.testing.assert_allclose(W[3], W[1], rtol=1e-8)
    # Orthogonal to the direction (b, b, c, b + c) = (1, 1, 2, -2), in which the rows say nothing.
    np.testing.assert_allclose(W[1] + W[3] + 2 * W[4], 2 * W[5], rtol=1e-7)
    assert residual_is_rounding(A, Y, W, ridge)


@pytest.mark.parametrize("ridge", [1e-12, 1e-9, 1e-6, 1e-3, 1.0])
def test_a_tiny_ridge_counts_on_nearly_dependent_features(ridge):
    """Columns 1e-6 apart: the Gram would have 4 digits left, and the ridge would drown in it."""
    random = np.random.default_rng(0)
    A = random.normal(size=(50, 4))
    A[:, 1] = A[:, 0] + 1e-6 * A[:, 1]
    Y = random.normal(size=(50, 1))
    W, below = solve(A, Y, ridge, np.arange(50)[:, None]), np.sqrt(ridge) * np.eye(4)
    expected = laws.minimum_norm(np.vstack([A, below]), np.vstack([Y, np.zeros((4, 1))]), 0.0)
    np.testing.assert_allclose(W, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("smallest", [1e-20, 1e-60, 1e-119])
def test_features_of_vanishing_size_do_not_break_the_solution(smallest, accumulator):
    """Saturated hidden units: a ridge that is nothing to one feature is huge to another."""
    random = np.random.default_rng(0)
    A = random.normal(size=(60, 4)) * [1.0, 1.0, smallest, smallest**0.5]
    A[:, 1] = A[:, 0]
    Y = random.normal(size=(60, 2))
    is_gram = accumulator == "gram"
    for ridge in (smallest**2, smallest, 1e-30, 1e-14, *([] if is_gram else [0.0, 1e-3])):
        W = solve(A, Y, ridge, accumulator=accumulator)
        assert residual_is_rounding(A, Y, W, ridge, 1e6 if is_gram else 1e3)
        if not is_gram:
            np.testing.assert_allclose(W[1], W[0], rtol=1e-7)


def test_the_classifier_separates_what_the_gram_cannot():
    """A polynomial of degree 6 on [2, 3]: its powers are dependent to a Gram in float64."""
    x, labels, errors = np.linspace(2.0, 3.0, 200), np.arange(200) // 25 % 2, []
    X, exact = x[:, None] ** np.arange(1, 7), np.polynomial.Chebyshev.fit(x, labels, 6)(x)
    for accumulator in ("orthogonal", "gram"):
        model = laws.fitted(LeastSquaresClassifier(0.0, accumulator), X, labels)
        errors.append(np.abs(model.scores_many(X)[:, model.classes.index(1)] - exact).max())
    assert errors[0] < 1e-6 < 1e-3 < errors[1]


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
