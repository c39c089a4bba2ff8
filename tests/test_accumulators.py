"""The Gram form and its centred wrapper against definitions in plain numpy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
import strategies
from onlinels import GramAccumulator, OrthogonalAccumulator, RecursiveAccumulator

KINDS = [GramAccumulator, OrthogonalAccumulator]
kinds = st.sampled_from(KINDS)
REFUSED = "cannot take rows out"


def empty_of(kind, centred, *sizes):
    return laws.centred(kind(*sizes)) if centred else kind(*sizes)


def targets_of(rows):
    classes = tuple(dict.fromkeys(rows.y))
    columns = np.array([classes.index(label) for label in rows.y])
    return columns, laws.one_hot(rows.y, classes)


@given(strategies.rows(whole=True), st.booleans())
def test_gram_and_cross_are_the_sums(rows, as_matrix):
    columns, Y = targets_of(rows)
    acc = GramAccumulator()
    acc.update(rows.X, Y if as_matrix else columns, rows.w)
    X = rows.X.astype(float)
    assert (acc.gram == X.T @ (rows.w[:, None] * X)).all()
    assert (acc.cross == X.T @ (rows.w[:, None] * Y)).all()
    assert acc.count == len(rows)


@given(strategies.rows(min_rows=2, whole=True), st.data())
def test_merge_and_subtract_are_inverse(rows, data):
    first = data.draw(st.integers(1, len(rows) - 1))
    columns, _ = targets_of(rows)
    part, other = GramAccumulator(), GramAccumulator()
    part.update(rows.X[:first], columns[:first], rows.w[:first])
    before = part.gram, part.cross
    other.update(rows.X[first:], columns[first:], rows.w[first:])
    part.merge(other)
    part.subtract(other)
    n_targets = before[1].shape[1]
    assert (part.gram == before[0]).all()
    assert (part.cross[:, :n_targets] == before[1]).all()
    assert not part.cross[:, n_targets:].any()
    assert part.count == first


@given(strategies.rows(min_rows=2, whole=True), st.data(), st.booleans())
def test_downdate_is_the_inverse_of_update(rows, data, centred):
    """Equal statistics mean equal solutions, so weights are compared too."""
    first = data.draw(st.integers(1, len(rows) - 1))
    columns, _ = targets_of(rows)
    n_targets = int(columns.max()) + 1

    def empty():
        gram = GramAccumulator(rows.X.shape[1], n_targets)
        return laws.centred(gram) if centred else gram

    kept, all_rows = empty(), empty()
    kept.update(rows.X[:first], columns[:first], rows.w[:first])
    all_rows.update(rows.X, columns, rows.w)
    all_rows.downdate(rows.X[first:], columns[first:], rows.w[first:])
    assert all_rows.count == kept.count
    weights, expected = all_rows.solve(1.0), kept.solve(1.0)
    np.testing.assert_allclose(weights, expected, atol=1e-9)
    np.testing.assert_allclose(all_rows.intercept(weights), kept.intercept(expected), atol=1e-9)


@given(strategies.rows(min_rows=2, whole=True), st.data())
def test_centred_merge_and_subtract_are_inverse(rows, data):
    first = data.draw(st.integers(1, len(rows) - 1))
    columns, _ = targets_of(rows)
    part, other = laws.centred(GramAccumulator()), laws.centred(GramAccumulator())
    part.update(rows.X[:first], columns[:first], rows.w[:first])
    before = part.solve(2.0)
    other.update(rows.X[first:], columns[first:], rows.w[first:])
    part.merge(other)
    part.subtract(other)
    np.testing.assert_allclose(part.solve(2.0)[:, : before.shape[1]], before, atol=1e-9)
    assert part.count == first


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [False, True])
def test_scaling_is_weighting_all_rows(kind, centred):
    random = np.random.default_rng(0)
    X, columns = random.normal(size=(30, 4)), random.integers(0, 3, 30)
    scaled, weighted = empty_of(kind, centred), empty_of(kind, centred)
    scaled.update(X, columns)
    scaled.scale(0.25)
    weighted.update(X, columns, 0.25)
    np.testing.assert_allclose(scaled.solve(1.0), weighted.solve(1.0), rtol=1e-12)
    np.testing.assert_allclose(scaled.diagonal, weighted.diagonal, rtol=1e-12)
    # Later rows meet the scaled past.
    for acc in (scaled, weighted):
        acc.update(X[:5] + 1.0, columns[:5])
    np.testing.assert_allclose(scaled.solve(1.0), weighted.solve(1.0), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [False, True])
def test_growing_is_having_known_from_the_start(kind, centred):
    random = np.random.default_rng(1)
    X = random.normal(size=(40, 9))
    columns = random.integers(0, 6, 40)
    late, known = empty_of(kind, centred), empty_of(kind, centred, 9, 6)
    for row in range(40):
        width = min(9, 1 + row // 3)
        X[row, width:] = 0.0
        columns[row] = min(columns[row], row // 5)
        late.update(X[row : row + 1, :width], columns[row : row + 1])
        known.update(X[row : row + 1], columns[row : row + 1])
    assert (late.n_features, late.n_targets) == (9, columns.max() + 1)
    np.testing.assert_allclose(late.solve(0.1), known.solve(0.1)[:, : late.n_targets], atol=1e-12)


def test_many_classes_need_no_one_hot_matrix():
    """100,000 classes: a dense one-hot of the batch would take 800 MB."""
    import tracemalloc

    rows = np.ones((1000, 2))
    acc = GramAccumulator(2, 100_000)
    tracemalloc.start()
    acc.update(rows, np.arange(1000) * 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert acc.cross[:, ::100].sum() == 2000


@given(strategies.rows(whole=True), st.randoms(use_true_random=False), kinds, st.booleans())
def test_placed_columns_carry_everything(rows, random, kind, centred):
    columns, _ = targets_of(rows)
    acc = empty_of(kind, centred)
    acc.update(rows.X, columns, rows.w)
    features = np.array(random.sample(range(acc.n_features + 2), acc.n_features))
    targets = np.array(random.sample(range(acc.n_targets + 1), acc.n_targets))
    placed = acc.placed(features, targets, acc.n_features + 2, acc.n_targets + 1)
    weights = placed.solve(1.0)
    np.testing.assert_allclose(weights[np.ix_(features, targets)], acc.solve(1.0), atol=1e-12)
    constant = placed.intercept(weights)[targets]
    np.testing.assert_allclose(constant, acc.intercept(acc.solve(1.0)), atol=1e-12)
    assert placed.count == acc.count


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_no_weight_count_but_teach_nothing(kind):
    acc = laws.centred(kind())
    acc.update(np.array([[1.0], [2.0]]), np.array([0, 1]))
    before = acc.solve(0.0)
    acc.update(np.array([[9.0], [-9.0]]), np.array([0, 1]), 0.0)
    assert (acc.solve(0.0) == before).all()
    assert acc.count == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", [0.1, 0.7, 9.81, 37.2, 1.7e9 + 0.3, -1e-200])
@pytest.mark.parametrize("n_rows", [50, 5000])
def test_a_constant_feature_gets_no_weight(kind, constant, n_rows):
    """Its deviation is rounding error, whichever way the rows came."""
    X = np.column_stack([np.full(n_rows, constant), np.arange(float(n_rows))])
    columns = (np.arange(n_rows) > 20).astype(int)
    w = np.random.default_rng(0).random(n_rows)
    for step in (n_rows // 50, n_rows // 7, n_rows):
        acc = laws.centred(kind())
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            acc.update(X[rows], columns[rows], w[rows] if step > 50 else None)
        assert acc.diagonal[0] == 0.0
        assert not acc.solve(0.0)[0].any()


@pytest.mark.parametrize("kind", KINDS)
def test_large_means_of_features_and_targets(kind):
    random = np.random.default_rng(0)
    centred = random.normal(size=(2000, 3))
    for mean in (1e6, 1.7e9):
        X = centred + mean
        Y = (X - mean) @ np.ones((3, 1)) + mean
        acc = laws.centred(kind())
        for start in range(0, 2000, 300):
            acc.update(X[start : start + 300], Y[start : start + 300])
        np.testing.assert_allclose(acc.solve(0.0), 1.0, rtol=1e-15 * mean)


def test_nothing_is_left_of_rows_that_are_taken_out():
    acc, fresh = laws.centred(GramAccumulator()), laws.centred(GramAccumulator())
    random = np.random.default_rng(0)
    X, w = random.normal(size=(5, 2)) + 1e6, random.random(5)
    for sign in ("update", "downdate"):
        for row in range(5):
            getattr(acc, sign)(X[row : row + 1], [row % 2], w[row])
    later = random.normal(size=(30, 2))
    columns = (later[:, 0] > 0).astype(int)
    for statistics in (acc, fresh):
        statistics.update(later, columns)
    np.testing.assert_allclose(acc.solve(0.1), fresh.solve(0.1), rtol=1e-12)
    np.testing.assert_allclose(
        acc.intercept(acc.solve(0.1)), fresh.intercept(fresh.solve(0.1)), rtol=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_faint_weights_count_in_proportion(kind):
    for w in (1e-200, 1e-20):
        acc = laws.centred(kind())
        for x, label in ((1.0, 0), (2.0, 1), (4.0, 1)):
            acc.update(np.array([[x]]), [label], w)
        plain = laws.centred(kind())
        plain.update(np.array([[1.0], [2.0], [4.0]]), [0, 1, 1])
        np.testing.assert_allclose(acc.solve(0.0), plain.solve(0.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [False, True])
def test_bad_merges_and_factors_change_nothing(kind, centred):
    acc, other = empty_of(kind, centred), empty_of(kind, not centred, 9, 9)
    stranger = empty_of(next(k for k in KINDS if k is not kind), centred, 9, 9)
    acc.update(np.eye(3), [0, 1, 1])
    more = empty_of(kind, centred)
    more.update(np.ones((4, 5)), [0, 1, 1, 0])
    before = pickle.dumps(acc)
    for call, error, message in [
        (lambda: acc.merge(other), TypeError, "one kind"),
        (lambda: acc.subtract(other), TypeError, "one kind"),
        (lambda: acc.merge(None), TypeError, "NoneType"),
        (lambda: acc.merge(stranger), TypeError, "one kind"),
        (lambda: acc.subtract(stranger), TypeError, "one kind"),
        (lambda: acc.subtract(more), ValueError, f"4 rows, expected at most the 3|{REFUSED}"),
        (lambda: acc.downdate(np.ones((4, 3)), [0] * 4), ValueError, f"at most the 3|{REFUSED}"),
        (lambda: acc.placed([0, 0, 1], [0, 1], 5, 2), ValueError, "feature_columns is"),
        (lambda: acc.placed([0, 1, 2], [0, 2], 5, 2), ValueError, "target_columns is"),
        (lambda: acc.placed([0, 1, -1], [0, 1], 5, 2), ValueError, "feature_columns is"),
        (lambda: acc.scale(-1.0), ValueError, "factor=-1.0"),
        (lambda: acc.scale(float("nan")), ValueError, "factor=nan"),
        (lambda: acc.solve(-1.0), ValueError, "ridge=-1.0"),
        (lambda: acc.solve(float("nan")), ValueError, "ridge=nan"),
        (lambda: acc.update(np.full((1, 3), 1e150), [0], 1e10), ValueError, "w holds 1e"),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert pickle.dumps(acc) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(
    ("activations", "targets", "w", "error", "message"),
    [
        (np.ones(3), [0], None, ValueError, "shape"),
        (np.ones((0, 3)), [], None, ValueError, "0 rows"),
        (np.ones((2, 2)), [0, 1], None, ValueError, "at least 3"),
        ([[1.0, np.nan, 1.0]], [0], None, ValueError, "nan"),
        ([[1.0, np.inf, 1.0]], [0], None, ValueError, "inf"),
        ([[1.0, 1e200, 1.0]], [0], None, ValueError, "1e\\+150"),
        ([["a", "b", "c"]], [0], None, TypeError, "dtype"),
        (np.ones((2, 3)), [0], None, ValueError, "1 rows"),
        (np.ones((2, 3)), [0, -1], None, ValueError, "-1"),
        (np.ones((2, 3)), [0.5, 1.0], None, TypeError, "label"),
        (np.ones((2, 3)), [[np.nan], [1.0]], None, ValueError, "nan"),
        (np.ones((2, 3)), np.ones((3, 1)), None, ValueError, "3 rows"),
        (np.ones((2, 3)), [0, 1], -1.0, ValueError, "at least 0"),
        (np.ones((2, 3)), [0, 1], [1.0], ValueError, "shape"),
        (np.ones((2, 3)), [0, 1], np.nan, ValueError, "nan"),
        (np.ones((2, 3)), [0, 1], ["a", "b"], TypeError, "w is no array"),
        (np.ones((2, 3)), [0, 1], ["1", "2"], TypeError, "w is no array"),
        (np.ones((2, 3)), [0, 1], "2", TypeError, "w is no array"),
        (np.ones((2, 3)), [0, 1], [1.0, [2.0]], TypeError, "w is no array of numbers: .*inhomog"),
        (np.ones((2, 3)), [0, 1], np.ma.array([1, 2], mask=[0, 1]), TypeError, "w is a masked"),
    ],
)
def test_bad_calls_change_nothing(kind, centred, activations, targets, w, error, message):
    acc = empty_of(kind, centred)
    acc.update(np.eye(3), [0, 1, 1])
    before = pickle.dumps(acc)
    with pytest.raises(error, match=message):
        acc.update(activations, targets, w)
    with pytest.raises((error, ValueError), match=f"{message}|{REFUSED}"):
        acc.downdate(activations, targets, w)
    assert pickle.dumps(acc) == before


@given(st.data(), strategies.rows(min_rows=2), kinds, st.booleans(), st.booleans())
def test_squares_weights_and_spectrum_follow_the_rows(data, rows, kind, centred, as_matrix):
    """However the rows came, and after some were merged, decayed or taken out again."""
    columns, Y = targets_of(rows)
    targets = Y * 7.0 - 2.0 if as_matrix else columns
    n_targets = Y.shape[1]
    factor = data.draw(st.sampled_from([1.0, 0.25]))
    first = data.draw(st.integers(1, len(rows) - 1))

    acc, other = (empty_of(kind, centred, rows.X.shape[1], n_targets) for _ in range(2))
    if kind is GramAccumulator:
        acc.update(rows.X[:first], targets[:first], rows.w[:first])
    acc.update(rows.X, targets, rows.w)
    if kind is GramAccumulator:
        acc.downdate(rows.X[:first], targets[:first], rows.w[:first])
    acc.scale(factor)
    other.update(rows.X[:first], targets[:first], rows.w[:first])
    acc.merge(other)
    w = factor * rows.w
    w[:first] += rows.w[:first]
    T = Y * 7.0 - 2.0 if as_matrix else Y
    X, T, _, _ = laws.weighted_centred(rows.X.astype(float), T, w, centred)
    spectrum = acc.spectrum()
    np.testing.assert_allclose(acc.weight, w.sum())
    np.testing.assert_allclose(acc.target_squares, (T**2).sum(axis=0), atol=1e-9)
    size = 1.0 + np.abs(X.T @ X).max()
    expected = np.linalg.eigvalsh(X.T @ X)
    np.testing.assert_allclose(spectrum.eigenvalues, expected, atol=1e-9 * size)
    fitted = (spectrum.rotated_cross**2 / (spectrum.eigenvalues + 1.0)[:, None]).sum(axis=0)
    solved = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ T)
    np.testing.assert_allclose(fitted, (solved * (X.T @ T)).sum(axis=0), rtol=1e-6, atol=1e-6)
    assert (spectrum.weight, spectrum.n_free) == (acc.weight, int(centred))
    rows_mean = w @ rows.X / w.sum() if centred and w.any() else 0.0
    query = rows.X.astype(float) - rows_mean
    inverse = np.linalg.inv(X.T @ X + np.eye(X.shape[1]))
    share = 1.0 / w.sum() if centred else 0.0
    leverages = acc.covariance(1.0).leverages(rows.X.astype(float))
    expected = np.einsum("ij,jk,ik->i", query, inverse, query) + share
    np.testing.assert_allclose(leverages, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_dropped_targets_were_never_there(centred):
    def empty():
        return laws.centred(GramAccumulator()) if centred else GramAccumulator()

    random = np.random.default_rng(0)
    X, columns = random.normal(size=(20, 3)), np.arange(20) % 3
    acc, kept = empty(), empty()
    acc.update(X, columns)
    acc.downdate(X[columns == 1], columns[columns == 1])
    acc.keep_targets(np.array([2, 0]))
    kept.update(X[columns != 1], (columns[columns != 1] == 0).astype(int))
    np.testing.assert_allclose(acc.solve(0.5), kept.solve(0.5), atol=1e-12)
    weights = acc.solve(0.5)
    np.testing.assert_allclose(acc.intercept(weights), kept.intercept(weights), atol=1e-12)
    acc.update(X[:1], [2])
    assert acc.n_targets == 3


@pytest.mark.parametrize("kind", KINDS)
def test_means_far_from_zero_keep_the_digits_of_the_deviations(kind):
    """Rows that float64 holds exactly, 1e9 away from 0: as good as without the offset."""
    random = np.random.default_rng(0)
    X = random.integers(-1000, 1000, (500, 3)) / 256.0
    Y = X @ np.array([[1.0], [2.0], [3.0]]) + random.integers(-8, 8, (500, 1)) / 16.0
    here, there = laws.centred(kind()), laws.centred(kind())
    for row in range(500):
        here.update(X[row : row + 1], Y[row : row + 1])
        there.update(X[row : row + 1] + 2.0**30, Y[row : row + 1] + 2.0**33)
    np.testing.assert_allclose(there.solve(0.0), here.solve(0.0), rtol=1e-13)


def recursive():
    return RecursiveAccumulator(ridge=1.0)


EVERY = {
    "gram": GramAccumulator,
    "orthogonal": OrthogonalAccumulator,
    "recursive": recursive,
    "centred": lambda: laws.centred(GramAccumulator()),
    "centred recursive": lambda: laws.centred(recursive()),
}
THAT_UNLEARN = [make for name, make in EVERY.items() if name != "orthogonal"]


def solved(X, Y, w=None, about_means=False):
    w = np.ones(len(X)) if w is None else w
    A, T, _, _ = laws.weighted_centred(X, Y, w, about_means)
    return np.linalg.solve(A.T @ A + np.eye(X.shape[1]), A.T @ T)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_features", "n_rows"), [(40, 600), (150, 140), (150, 66), (700, 640)])
def test_batches_of_every_length_are_learnt_and_taken_out(name, weighted, n_features, n_rows):
    random = np.random.default_rng(n_rows)
    X, Y = random.normal(size=(n_rows + 20, n_features)), random.normal(size=(n_rows + 20, 3))
    w = random.uniform(0.5, 2.0, n_rows + 20) if weighted else np.ones(n_rows + 20)
    first, rest, about = slice(20), slice(20, None), "centred" in name
    whole, parts = EVERY[name](), EVERY[name]()
    whole.update(X, Y, w)
    for part in (first, rest):
        parts.update(X[part], Y[part], w[part])
    expected = solved(X, Y, w, about)
    np.testing.assert_allclose(parts.solve(1.0), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(whole.solve(1.0), expected, rtol=1e-7, atol=1e-9)
    assert (parts.count, parts.weight) == (n_rows + 20, pytest.approx(whole.weight))
    if name != "orthogonal":
        parts.downdate(X[rest], Y[rest], w[rest])
        expected = solved(X[first], Y[first], w[first], about)
        np.testing.assert_allclose(parts.solve(1.0), expected, rtol=1e-6, atol=1e-8)
        assert parts.count == 20


@pytest.mark.parametrize("make", THAT_UNLEARN)
@pytest.mark.parametrize("by", ["rows", "statistics"])
def test_features_that_leave_leave_nothing(make, by):
    """The rows that leave have features of their own, and are large."""
    random = np.random.default_rng(0)
    X, labels = random.normal(size=(30, 3)), random.integers(0, 2, 30)
    wide = np.hstack([1e3 * random.normal(size=(8, 3)), random.normal(size=(8, 2))])
    stays, leaves, both = make(), make(), make()
    for acc, rows, classes in ((stays, X, labels), (leaves, wide, labels[:8]), (both, X, labels)):
        acc.update(rows, classes)
    both.merge(leaves)
    assert both.n_features == 5
    if by == "rows":
        both.downdate(wide, labels[:8])
    else:
        both.subtract(leaves)
    np.testing.assert_allclose(both.solve(1.0)[:3], stays.solve(1.0), rtol=1e-7, atol=1e-10)
    assert (both.count, both.weight) == (30, pytest.approx(30.0))
    assert both.diagonal[3:].tolist() == [0.0, 0.0]
    assert both.solve(1.0)[3:].tolist() == [[0.0, 0.0]] * 2
    both.subtract(stays)
    assert (both.count, both.weight) == (0, 0.0)
    assert not both.diagonal.any()
    assert not both.target_squares.any()


def test_wide_sums_are_those_of_numpy():
    """More features than a block of the stored matrix has columns."""
    random = np.random.default_rng(0)
    X, Y = random.integers(-3, 4, (40, 1100)).astype(float), random.integers(-3, 4, (40, 2))
    acc = GramAccumulator()
    acc.update(X[:, :1000], Y)
    acc.update(X, Y, 2.0)
    expected = 2.0 * X.T @ X
    expected[:1000, :1000] *= 1.5
    assert (acc.gram == expected).all()
    np.testing.assert_allclose(expected @ acc.solve(1.0) + acc.solve(1.0), acc.cross, atol=1e-8)


@pytest.mark.parametrize("far", [1.0, 1e6, -3e9, 1e-9])
def test_features_that_rounding_alone_moves_are_constant(far):
    acc = laws.centred(GramAccumulator())
    column = np.where(np.arange(40) % 3, far, np.nextafter(far, np.inf))
    acc.update(np.column_stack([column, np.arange(40.0)]), np.zeros((40, 1)))
    assert acc.diagonal[0] == 0.0
    assert acc.diagonal[1] > 0.0
