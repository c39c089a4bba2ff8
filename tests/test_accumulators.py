"""The accumulators against definitions in plain numpy, and what they refuse.

Sparse rows, learnt by sparse products, give the statistics of the same rows as an array.
"""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from onlinels import (
    GramAccumulator,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    OrthogonalAccumulator,
    RecursiveAccumulator,
)
from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.gram import GramSums
from onlinels.accumulators.sparse import sums_of_sparse, takes_sparse
from onlinels.accumulators.statistics import Statistics
from onlinels.linalg import packed
from onlinels.linear import model as linear_model
from support import laws, strategies

# -- sums, solutions, and what is refused ---------------------------------------------------------

KINDS = {
    "gram": GramAccumulator,
    "orthogonal": OrthogonalAccumulator,
    "recursive": lambda: RecursiveAccumulator(ridge=1.0),
    "centred": lambda: laws.centred(GramAccumulator()),
    "centred orthogonal": lambda: laws.centred(OrthogonalAccumulator()),
    "centred recursive": lambda: laws.centred(RecursiveAccumulator(ridge=1.0)),
}
THAT_UNLEARN = [name for name in KINDS if "orthogonal" not in name]


@given(strategies.rows(min_rows=2, whole=True), st.data(), st.booleans())
def test_sums_of_whole_numbers_are_exact_and_come_back(rows, data, as_matrix):
    """To the last bit, after other rows were merged and subtracted again."""
    classes = tuple(dict.fromkeys(rows.y))
    Y, X = laws.one_hot(rows.y, classes), rows.X.astype(float)
    targets = Y if as_matrix else Y.argmax(axis=1)
    first = data.draw(st.integers(1, len(rows) - 1))
    acc, other = GramAccumulator(), GramAccumulator()
    acc.update(X[:first], targets[:first], rows.w[:first])
    other.update(X[first:], targets[first:], rows.w[first:])

    def assert_sums_of(n_rows):
        A, w = X[:n_rows], rows.w[:n_rows, None]
        n_targets = acc.n_targets
        T = np.hstack([Y, np.zeros_like(Y)])[:n_rows, :n_targets]
        assert (acc.gram == A.T @ (w * A)).all()
        assert (acc.cross == A.T @ (w * T)).all()
        assert (acc.diagonal == np.diag(acc.gram)).all()
        assert (acc.target_squares == (w * T**2).sum(axis=0)).all()
        assert (acc.count, acc.weight) == (n_rows, w.sum())

    assert_sums_of(first)
    acc.merge(other)
    assert_sums_of(len(rows))
    acc.subtract(other)
    assert_sums_of(first)


@given(strategies.rows(min_rows=2, whole=True), st.data(), st.sampled_from(THAT_UNLEARN))
def test_what_is_merged_can_be_subtracted(rows, data, name):
    """Down to rows of no weight, perhaps, which are only counted."""
    first = data.draw(st.integers(1, len(rows) - 1))
    Y, w = laws.one_hot(rows.y, tuple(dict.fromkeys(rows.y))), rows.w.astype(float)
    w[:first] *= data.draw(st.integers(0, 1))
    part, other = KINDS[name](), KINDS[name]()
    part.update(rows.X[:first], Y[:first], w[:first])
    before = part.solve(1.0)
    other.update(rows.X[first:], Y[first:], w[first:])
    part.merge(other)
    part.subtract(other)
    np.testing.assert_allclose(part.solve(1.0), before, atol=1e-8)
    assert (part.count, part.weight) == (first, pytest.approx(w[:first].sum()))


@pytest.mark.parametrize("name", THAT_UNLEARN)
def test_a_class_can_be_subtracted_down_to_no_row(name):
    """Nothing of its targets is left to compare errors with."""
    X, Y, w = np.array([[4.0, 0, 5, 3, 5], [5, 0, 0, 2, 3]]), np.eye(2), np.array([2.0, 1.0])
    part, other = KINDS[name](), KINDS[name]()
    part.update(X[:1], Y[:1], w[:1])
    before = part.solve(1.0)
    other.update(X[1:], Y[1:], w[1:])
    part.merge(other)
    part.subtract(other)
    np.testing.assert_allclose(part.solve(1.0), before, atol=1e-11)


def test_many_classes_need_no_one_hot_matrix():
    """100,000 classes: a dense one-hot of the batch would take 800 MB."""
    rows = np.ones((1000, 2))
    acc = GramAccumulator(2, 100_000)
    tracemalloc.start()
    acc.update(rows, np.arange(1000) * 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000
    assert acc.cross[:, ::100].sum() == 2000


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


@pytest.mark.parametrize("far", [1.0, 1e6, -3e9, 1e-9])
def test_features_that_rounding_alone_moves_are_constant(far):
    column = np.where(np.arange(40) % 3, far, np.nextafter(far, np.inf))
    model = LeastSquaresRegressor(0.0)
    model.learn_many(np.column_stack([column, np.arange(40.0)]), np.arange(40.0) % 7)
    with pytest.warns(UserWarning, match=r"1 of 2 features vary by rounding alone.*\(0,\)"):
        assert (model.output_weights.ravel() != 0.0).tolist() == [False, True]


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
def test_means_far_from_zero_keep_the_digits_of_the_deviations(accumulator):
    """Rows that float64 holds exactly, 1e9 away from 0: as good as without the offset."""
    random = np.random.default_rng(0)
    X = random.integers(-1000, 1000, (500, 3)) / 256.0
    y = X @ [1.0, 2.0, 3.0] + random.integers(-8, 8, 500) / 16.0
    here, there = (LeastSquaresRegressor(0.0, accumulator) for _ in range(2))
    for row, target in zip(X, y, strict=True):
        here.learn_many(row[None], [target])
        there.learn_many(row[None] + 2.0**30, [target + 2.0**33])
    np.testing.assert_allclose(there.output_weights, here.output_weights, rtol=1e-13)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("w", [1e-200, 1e-20])
def test_faint_weights_count_in_proportion(accumulator, w):
    faint, plain = (LeastSquaresClassifier(0.0, accumulator) for _ in range(2))
    for x, label in ((1.0, 0), (2.0, 1), (4.0, 1)):
        faint.learn_one({"a": x}, label, w)
        plain.learn_one({"a": x}, label)
    np.testing.assert_allclose(faint.output_weights, plain.output_weights)


def solved(X, Y, w, about_means):
    A, T, _, _ = laws.weighted_centred(X, Y, w, about_means)
    return np.linalg.solve(A.T @ A + np.eye(X.shape[1]), A.T @ T)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "centred orthogonal"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_features", "n_rows"), [(40, 600), (150, 140), (150, 66), (700, 640)])
def test_batches_of_every_length_are_learnt_and_taken_out(name, weighted, n_features, n_rows):
    random = np.random.default_rng(n_rows)
    X, Y = random.normal(size=(n_rows + 20, n_features)), random.normal(size=(n_rows + 20, 3))
    w = random.uniform(0.5, 2.0, n_rows + 20) if weighted else np.ones(n_rows + 20)
    first, rest, about = slice(20), slice(20, None), "centred" in name
    whole, parts = KINDS[name](), KINDS[name]()
    whole.update(X, Y, w)
    for part in (first, rest):
        parts.update(X[part], Y[part], w[part])
    expected = solved(X, Y, w, about)
    np.testing.assert_allclose(parts.solve(1.0), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(whole.solve(1.0), expected, rtol=1e-7, atol=1e-9)
    assert (parts.count, parts.weight) == (n_rows + 20, pytest.approx(w.sum()))
    if name in THAT_UNLEARN:
        parts.downdate(X[rest], Y[rest], w[rest])
        expected = solved(X[first], Y[first], w[first], about)
        np.testing.assert_allclose(parts.solve(1.0), expected, rtol=1e-6, atol=1e-8)
        assert parts.count == 20


@pytest.mark.parametrize("name", THAT_UNLEARN)
@pytest.mark.parametrize("by", ["rows", "statistics"])
def test_features_that_leave_leave_nothing(name, by):
    """The rows that leave have features of their own, and are large."""
    random = np.random.default_rng(0)
    X, labels = random.normal(size=(30, 3)), random.integers(0, 2, 30)
    wide = np.hstack([1e3 * random.normal(size=(8, 3)), random.normal(size=(8, 2))])
    stays, leaves, both = (KINDS[name]() for _ in range(3))
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


OF_OTHERS = [
    ("gram", "centred", TypeError, "the same kind"),
    ("gram", "orthogonal", TypeError, "the same kind"),
    ("orthogonal", "gram", TypeError, "the same kind"),
    ("centred", "gram", TypeError, "the same kind"),
    ("centred", "centred orthogonal", TypeError, "the same kind"),
]


@pytest.mark.parametrize(("name", "other", "error", "message"), OF_OTHERS)
def test_accumulators_of_other_kinds_do_not_merge(name, other, error, message):
    acc, stranger = KINDS[name](), KINDS[other]()
    for each in (acc, stranger):
        each.update(np.eye(3), [0, 1, 1])
    before = pickle.dumps(acc)
    for call in (acc.merge, acc.subtract):
        with pytest.raises(error, match=message):
            call(stranger)
        with pytest.raises(TypeError, match="NoneType"):
            call(None)
    assert pickle.dumps(acc) == before


BAD_ROWS = [
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
    (np.ones((2, 3)), [0, 1], ["1", "2"], TypeError, "w is .*, expected numbers"),
    (np.ones((2, 3)), [0, 1], "2", TypeError, "w is .*, expected numbers"),
    (np.ones((2, 3)), [0, 1], [1.0, [2.0]], TypeError, "w is .*, expected numbers"),
    (np.ones((2, 3)), [0, 1], np.ma.array([1, 2], mask=[0, 1]), TypeError, "w is a masked"),
    (np.full((1, 3), 1e150), [0], 1e10, ValueError, "w holds 1e"),
]
BAD_CALLS = [
    ("downdate", (np.ones((4, 3)), [0] * 4), "at most the 3|cannot remove rows"),
    ("placed", ([0, 0, 1], [0, 1], 5, 2), "feature_columns is"),
    ("placed", ([0, 1, 2], [0, 2], 5, 2), "target_columns is"),
    ("placed", ([0, 1, -1], [0, 1], 5, 2), "feature_columns is"),
    ("scale", (-1.0,), "factor=-1.0"),
    ("scale", (float("nan"),), "factor=nan"),
    ("solve", (-1.0,), "ridge=-1.0"),
    ("scale", ("x",), "factor='x' must be a number"),
    ("solve", (float("nan"),), "ridge=nan"),
    ("solve", ("auto",), "ridge='auto' is a setting of models"),
    ("solve", (np.ones(2),), r"ridge has shape \(2,\)"),
    ("solve", (-np.ones(3),), "ridge has entries below 0"),
]


@pytest.mark.parametrize("name", [name for name in KINDS if "recursive" not in name])
def test_bad_calls_change_nothing(name):
    acc, more = KINDS[name](), KINDS[name]()
    acc.update(np.eye(3), [0, 1, 1])
    more.update(np.ones((4, 5)), [0, 1, 1, 0])
    before = pickle.dumps(acc)
    for activations, targets, w, error, message in BAD_ROWS:
        with pytest.raises(error, match=message):
            acc.update(activations, targets, w)
        with pytest.raises((error, ValueError), match=f"{message}|cannot remove rows"):
            acc.downdate(activations, targets, w)
        assert pickle.dumps(acc) == before
    for method, arguments, message in [
        *BAD_CALLS,
        ("subtract", (more,), "4 rows, expected at most the 3|cannot remove rows"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            getattr(acc, method)(*arguments)
        assert pickle.dumps(acc) == before


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


@strategies.examples(60)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([2, 4, 1024]))
def test_sums_are_those_of_an_array(data, centred, labels, width):
    random, X, w = drawn(data, centred)
    targets = random.integers(0, 3, len(X)) if labels else random.normal(size=(len(X), 2)) + 1e3
    n_targets = 3 if labels else 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "PANEL_COLUMNS", width)
        expected = Accumulator(GramSums(), X.shape[1], n_targets, centred)
        expected.update(X, targets, w)
        made = sums_of_sparse(sparse.csr_array(X), targets, w, n_targets, centred)
        ours, theirs = made.sums(), expected.sums()
        size = np.sqrt(np.outer(X.std(axis=0) + 1.0, X.std(axis=0) + 1.0)) * len(X)
        triangle = np.triu_indices(X.shape[1])
        tolerance = 1e-9 * size[triangle].max()
        np.testing.assert_allclose(ours.gram[triangle], theirs.gram[triangle], 1e-9, tolerance)
        np.testing.assert_allclose(ours.cross, theirs.cross, 1e-9, 1e-6)
        np.testing.assert_allclose(ours.target_squares, theirs.target_squares, 1e-9, 1e-9)
        assert (made.count, made.weight) == (expected.count, expected.weight)
        np.testing.assert_allclose(made.feature_mean, expected.feature_mean, 1e-12, 1e-12)
        if not centred:
            assert (ours.gram[triangle] == theirs.gram[triangle]).all()
        both = expected.copied()
        both.absorb(made, 1.0)
        assert both.count == 2 * len(X)


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


def test_only_what_is_quicker_is_learnt_so():
    rows = sparse.random_array((3000, 500), density=0.01, format="csr", rng=0)
    centred = Statistics(GramSums(), True)
    assert takes_sparse(centred, rows)
    assert not takes_sparse(centred, rows[:5])
    assert not takes_sparse(centred, rows.toarray())
    assert not takes_sparse(LeastSquaresRegressor(1.0, "orthogonal")._statistics, rows)
    model, expected = LeastSquaresRegressor(1.0), LeastSquaresRegressor(1.0)
    y = np.asarray(rows.sum(axis=1)).ravel()
    model.learn_many(rows, y)
    expected.learn_many(rows.toarray(), y)
    np.testing.assert_allclose(model.output_weights, expected.output_weights, rtol=1e-9)
    with pytest.raises(ValueError, match="nan"):
        model.learn_many(rows * np.nan, y)
    assert model.count == 3000


# -- copies, sizes and rare changes ----------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [GramAccumulator, OrthogonalAccumulator, lambda: RecursiveAccumulator(ridge=1.0)]
)
def test_some_of_the_targets_are_a_copy(make):
    acc = make()
    acc.update(np.eye(3) * 2.0, np.diag([1.0, 2.0, 3.0]))
    before = laws.saved(acc)
    some = acc.with_targets(np.array([0, 1, 2]))
    some.update(np.ones((1, 3)), np.ones((1, 3)))
    some.scale(0.25)
    assert laws.saved(acc) == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda acc: type(acc)(-1, 1), ValueError, "n_features=-1"),
        (lambda acc: type(acc)(1, 1.5), TypeError, "n_targets=1.5"),
        (lambda acc: type(acc)(True, 1), TypeError, "n_features=True"),
        (lambda acc: acc.grow(3.5, 1), TypeError, "n_features=3.5"),
        (lambda acc: acc.with_targets(np.array([-1])), ValueError, "columns is"),
        (lambda acc: acc.with_targets(np.array([0, 0])), ValueError, "columns is"),
        (lambda acc: acc.with_targets(np.array([True, False])), TypeError, "dtype bool"),
        (lambda acc: acc.placed(np.array([0.0]), np.arange(2), 1, 2), TypeError, "dtype float64"),
        (lambda acc: setattr(acc, "sums", 5), AttributeError, "no setting 'sums'"),
    ],
)
@pytest.mark.parametrize(
    "kind", [GramAccumulator, OrthogonalAccumulator, RecursiveAccumulator], ids=lambda kind: kind
)
def test_bad_sizes_and_places_are_refused(kind, call, error, message):
    acc = kind(1, 2)
    laws.assert_refused(lambda: call(acc), acc, message, error)


@pytest.mark.parametrize("accumulator", ["gram", "orthogonal"])
@pytest.mark.parametrize("ridge", [0.0, 1e-8])
def test_a_rare_change_of_a_feature_far_from_0_has_a_weight(accumulator, ridge):
    """One row of 1,000 differs by a relative 1e-12: rounding is 8,000 times smaller."""
    x, y = np.full(1000, 1e9), np.zeros(1000)
    x[-1] += 1e-3
    y[-1] = 5.0
    difference = x[-1] - x[0]
    squares = difference**2 * 0.999
    model = LeastSquaresRegressor(ridge, accumulator)
    model.learn_many(x[:, None], y)
    expected = 5.0 * difference * 0.999 / (squares + ridge)
    assert model.output_weights.item() == pytest.approx(expected, rel=1e-6)
