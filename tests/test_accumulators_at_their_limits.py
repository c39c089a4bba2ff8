"""What accumulators do where rows, sizes and rounding errors leave them little room."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from onlinels.accumulators import tracking
from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.classwise import ClasswiseAccumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.held_out import Sums, cross_validation_errors, held_out_errors
from onlinels.accumulators.inverse import RunningInverse
from onlinels.accumulators.inverted import inverse_of_gram
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.pivots import check_pivots, checked_factor, inverted
from onlinels.accumulators.recursion import Recursion
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.accumulators.refusal import check_rows
from onlinels.commit import AT_ONCE

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(9, 3)), RANDOM.normal(size=(9, 2))


def solved(X, Y, ridge=1.0):
    return np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ Y)


def recursion_of(X, Y, ridge=1.0):
    gram = GramAccumulator()
    gram.update(X, Y)
    return Recursion.of_gram(gram, gram.diagonal, ridge)


def test_a_long_batch_that_is_interrupted_between_its_blocks_is_learnt_whole(monkeypatch):
    X, Y = RANDOM.normal(size=(500, 20)), RANDOM.normal(size=(500, 2))
    acc = RecursiveAccumulator(20, 2, 1.0)
    make, calls = Accumulator._make, []

    def interrupted(self, plan):
        calls.append(plan)
        if len(calls) == 2:
            raise KeyboardInterrupt
        make(self, plan)

    monkeypatch.setattr(Accumulator, "_make", interrupted)
    blocks = [slice(start, start + 10) for start in range(0, 500, 10)]
    with pytest.raises(KeyboardInterrupt):
        acc._learn_blocks(deque(blocks), X, Y, 2, 1.0)
    assert acc.count == 500
    np.testing.assert_allclose(acc.solve(1.0), solved(X, Y), rtol=1e-9)


def test_recursions_merge_as_they_stand():
    one, other = recursion_of(X[:4], Y[:4]), recursion_of(X[4:], Y[4:])
    one._combine(other, 1, AT_ONCE)
    np.testing.assert_allclose(one.solve(1.0), solved(X, Y), rtol=1e-12)
    assert one._raw_squares()[0] == pytest.approx((X**2).sum(axis=0))


def test_a_recursion_knows_other_ridges_by_way_of_the_gram():
    held = recursion_of(X, Y)
    expected = np.linalg.inv(X.T @ X + 5.0 * np.eye(3))
    for diagonal in (None, held.diagonal):
        covariance = held.covariance(5.0, diagonal)
        np.testing.assert_allclose(covariance.matrix, expected, rtol=1e-12)
    np.testing.assert_allclose(held.solve(5.0), solved(X, Y, 5.0), rtol=1e-12)


def test_a_recursion_without_targets_holds_the_inverse():
    held = Recursion(3, 0, 1.0)
    none = np.zeros((9, 0))
    held._accumulate_one(X[0], none[:1], 1.0, AT_ONCE)
    held.accumulate(X[1:], none[1:], 1.0, AT_ONCE)
    np.testing.assert_allclose(
        held.covariance(1.0).matrix, np.linalg.inv(X.T @ X + np.eye(3)), rtol=1e-12
    )
    held._scale(1.0, AT_ONCE)
    np.testing.assert_allclose(held.diagonal, (X**2).sum(axis=0), rtol=1e-12)


def test_a_gram_that_is_not_positive_definite_has_an_inverse_all_the_same():
    gram = np.diag([4.0, -2.0])
    np.testing.assert_allclose(
        inverse_of_gram(gram, 1.0).times(np.eye(2)), np.diag([1 / 5, 1.0]), rtol=1e-15
    )


def test_a_row_whose_square_is_too_large_counts_by_its_weight():
    inverse = RunningInverse(np.ones(2))
    row, weight = np.array([1e160, 1e160]), 1e-320
    gain = inverse.add_one(row, weight)
    system = np.eye(2) + np.full((2, 2), 1.0)
    np.testing.assert_allclose(inverse.times(np.eye(2)), np.linalg.inv(system), rtol=1e-3)
    assert gain.shape == (2,)
    assert np.isfinite(gain).all()


@pytest.mark.parametrize(
    ("lowest", "highest", "sign", "message"),
    [
        (0.0, 1.0, 1.0, "rounding errors have overgrown"),
        (0.5, 1e300, 1.0, "outweigh what is known"),
        (1e-9, 1.0, -1.0, "hold all but 1e-09 of what is known"),
        (-1.0, 1.0, -1.0, "hold all but 0 of what is known"),
        (np.nan, 1.0, 1.0, "rounding errors have overgrown"),
    ],
)
def test_pivots_that_float64_does_not_resolve(lowest, highest, sign, message):
    with pytest.raises(ValueError, match=message):
        check_pivots(lowest, highest, sign)


@pytest.mark.parametrize("matrix", [[[0.0]], [[1.0, 0.0], [0.0, -1.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_statistics_that_are_not_positive_definite_are_not_inverted(matrix):
    with pytest.raises(ValueError, match="not positive definite"):
        inverted(np.array(matrix, order="F"))


def test_rows_with_features_that_nobody_learnt_are_not_taken_out():
    inverse = RunningInverse(np.ones(2))
    inverse.add(np.ones((3, 2)), np.ones(3))
    check_rows(inverse, 1.0, np.array([[1.0, 1.0, 0.0]]), -np.ones(1))
    with pytest.raises(ValueError, match="3 columns that are not all 0, expected the 2"):
        check_rows(inverse, 1.0, np.array([[1.0, 1.0, 0.5]]), -np.ones(1))


def test_more_weight_than_was_learnt_is_not_taken_out():
    acc = CentredAccumulator(RecursiveAccumulator(ridge=1.0))
    acc.update(X, Y)
    before = acc.solve(1.0)
    with pytest.raises(ValueError, match="w holds 18 in all, expected at most the 9"):
        acc._check_rows(np.vstack([X, X]), -np.ones(18))
    assert (acc.solve(1.0) == before).all()


def test_a_fold_gives_no_more_rows_than_it_has():
    acc = FoldedAccumulator(GramAccumulator, 2)
    acc.update(X, Y)
    again = np.repeat(1e-3 * X[:1], 8, axis=0)
    full = acc._dealt(again)[0]
    n_there = acc._members[full].count
    with pytest.raises(
        ValueError, match=f"In fold {full} activations has 8 rows, expected at most the {n_there} "
    ):
        acc.downdate(again, 1e-3 * Y[:8])
    assert acc.count == 9
    # Columns beyond those that are known count by their number.
    assert (acc._dealt(np.hstack([X, X])) < 2).all()


@pytest.mark.parametrize(
    "make",
    [lambda: FoldedAccumulator(GramAccumulator, 2), lambda: ClasswiseAccumulator(GramAccumulator)],
)
def test_groups_take_rows_in_that_do_not_count(make):
    acc = make()
    labels = np.arange(9) % 2
    acc.plan_growth(3, 2)
    acc.accumulate(X, labels, 1.0, AT_ONCE)
    acc.accumulate(X, labels, np.full(9, 2.0), AT_ONCE)
    np.testing.assert_allclose(sum(each.diagonal for each in acc._members), 3 * (X**2).sum(axis=0))
    assert acc.count == 0


def test_very_many_features_are_not_tracked(monkeypatch):
    acc = GramAccumulator()
    acc.update(X, Y)
    monkeypatch.setattr(tracking, "LARGEST_WHOLE", 2)
    with pytest.raises(ValueError, match="3 features, expected at most 2"):
        tracking.TrackedSolution(acc._gram, solved(X, Y), 1.0, acc.diagonal)


def test_without_targets_no_error_is_held_out():
    none = Sums(np.eye(2), np.zeros((2, 0)), np.zeros(0))
    assert held_out_errors(none, none, np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


def tracked_of(X, Y, ridge=1.0):
    acc = GramAccumulator()
    acc.update(X, Y)
    return acc, tracking.TrackedSolution(acc._gram, solved(X, Y, ridge), ridge, acc.diagonal)


@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_solution_follows_rows_before_it_is_refined(n_rows):
    _, tracked = tracked_of(X[:6], Y[:6])
    tracked.learn(X[6 : 6 + n_rows], Y[6 : 6 + n_rows], np.ones(n_rows))
    np.testing.assert_allclose(
        tracked._weights, solved(X[: 6 + n_rows], Y[: 6 + n_rows]), rtol=1e-9
    )
    tracked.learn(X[6 : 6 + n_rows], Y[6 : 6 + n_rows], -np.ones(n_rows))
    np.testing.assert_allclose(tracked._weights, solved(X[:6], Y[:6]), rtol=1e-9)


@pytest.mark.parametrize("worn", [[1e-3, 1e-3], [0.0, 1e-3]])
def test_a_small_target_is_refined_as_far_as_a_large_one(worn):
    X, Y = RANDOM.normal(size=(40, 6)), RANDOM.normal(size=(40, 2)) * [1.0, 1e-12]
    acc, tracked = tracked_of(X, Y)
    more, targets = RANDOM.normal(size=(30, 6)), RANDOM.normal(size=(30, 2)) * [1.0, 1e-12]
    acc.update(more, targets)
    # As if rounding had worn the solution down.
    tracked._weights = tracked._weights * (1.0 + np.array(worn))
    tracked._trusted = False
    tracked.learn(more, targets, np.ones(30))
    expected = solved(np.vstack([X, more]), np.vstack([Y, targets]))
    found = tracked.solve(acc._gram, acc.cross, 1.0, acc.diagonal)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_recursions_answer_rows_without_solving():
    held = recursion_of(X, Y)
    np.testing.assert_allclose(held.row_scores(X[0]), X[0] @ solved(X, Y), rtol=1e-12)
    acc = CentredAccumulator(RecursiveAccumulator(ridge=1.0))
    acc.update(X, Y)
    about = X - X.mean(axis=0)
    expected = Y.mean(axis=0) + about[0] @ solved(about, Y - Y.mean(axis=0))
    np.testing.assert_allclose(acc.row_scores(X[0]), expected, rtol=1e-12)


@pytest.mark.parametrize("far", [1.0, 1e6, -3e9, 1e-9])
def test_features_that_rounding_alone_moves_are_constant(far):
    acc = CentredAccumulator(GramAccumulator())
    column = np.where(np.arange(40) % 3, far, np.nextafter(far, np.inf))
    acc.update(np.column_stack([column, np.arange(40.0)]), np.zeros((40, 1)))
    assert acc.diagonal[0] == 0.0
    assert acc.diagonal[1] > 0.0


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e3])
@pytest.mark.parametrize("n_before", [1, 2, 500])
@pytest.mark.parametrize("weight", [1.0, 1e6])
def test_rows_that_are_called_harmless_are(mean, n_before, weight):
    acc = CentredAccumulator(RecursiveAccumulator(ridge=1.0))
    before = np.full(n_before, weight)
    acc.update(mean + 1e-6 * RANDOM.normal(size=(n_before, 2)), np.zeros((n_before, 1)), before)
    length = acc.harmless_length(weight)
    assert length > 0.0
    for sign in (1.0, -1.0):
        acc._check_rows(np.array([[sign * length, 0.0]]), weight)
        with pytest.raises(ValueError, match="outweigh"):
            acc._check_rows(np.array([[100 * sign * length, 0.0]]), weight)


def recursive():
    return RecursiveAccumulator(ridge=1.0)


@pytest.mark.parametrize(
    "make",
    [
        GramAccumulator,
        OrthogonalAccumulator,
        recursive,
        lambda: CentredAccumulator(GramAccumulator()),
        lambda: CentredAccumulator(recursive()),
        lambda: FoldedAccumulator(GramAccumulator, 2),
    ],
    ids=["gram", "orthogonal", "recursive", "centred", "centred recursive", "folded"],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_features", "n_rows"), [(40, 600), (150, 140), (150, 66), (700, 640)])
def test_batches_of_every_length_are_learnt_and_taken_out(make, weighted, n_features, n_rows):
    random = np.random.default_rng(n_rows)
    X, Y = random.normal(size=(n_rows + 20, n_features)), random.normal(size=(n_rows + 20, 3))
    w = random.uniform(0.5, 2.0, n_rows + 20) if weighted else None
    first, rest = slice(20), slice(20, None)
    whole, parts = make(), make()
    whole.update(X, Y, w)
    for part in (first, rest):
        parts.update(X[part], Y[part], None if w is None else w[part])
    np.testing.assert_allclose(parts.solve(1.0), expected_of(whole, X, Y, w), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(whole.solve(1.0), parts.solve(1.0), rtol=1e-7, atol=1e-9)
    assert (parts.count, parts.weight) == (n_rows + 20, pytest.approx(whole.weight))
    if isinstance(parts, OrthogonalAccumulator):
        return
    parts.downdate(X[rest], Y[rest], None if w is None else w[rest])
    kept = None if w is None else w[first]
    expected = expected_of(parts, X[first], Y[first], kept)
    np.testing.assert_allclose(parts.solve(1.0), expected, rtol=1e-6, atol=1e-8)
    assert parts.count == 20


def expected_of(acc, X, Y, w):
    """Return the weights of a batch, about the means where an accumulator takes these out."""
    w = np.ones(len(X)) if w is None else w
    if isinstance(acc, CentredAccumulator):
        X, Y = (rows - np.average(rows, axis=0, weights=w) for rows in (X, Y))
    root = np.sqrt(w)[:, None]
    return solved(root * X, root * Y)


def test_growing_on_the_way_changes_nothing():
    for make in (GramAccumulator, OrthogonalAccumulator, recursive):
        acc, wide = make(), np.hstack([X, X[:, ::-1] ** 2])
        acc.update(X, Y[:, :1])
        acc.update(wide, Y)
        rows = np.vstack([np.hstack([X, 0 * X]), wide])
        targets = np.vstack([np.column_stack([Y[:, 0], 0 * Y[:, 0]]), Y])
        np.testing.assert_allclose(acc.solve(1.0), solved(rows, targets), rtol=1e-9)
        if not isinstance(acc, OrthogonalAccumulator):
            acc.downdate(rows[:9], targets[:9])
            np.testing.assert_allclose(acc.solve(1.0), solved(wide, Y), rtol=1e-9)


def test_a_solution_is_refined_with_an_inverse_that_is_behind():
    X, Y = RANDOM.normal(size=(40, 12)), RANDOM.normal(size=(40, 2))
    acc, tracked = tracked_of(X, Y)
    more, targets = 3.0 * RANDOM.normal(size=(3, 12)), RANDOM.normal(size=(3, 2))
    acc.update(more, targets)
    # Three rows that it does not know: conjugate gradients take some steps more.
    tracked._trusted = False
    found = tracked.solve(acc._gram, acc.cross, 1.0, acc.diagonal)
    expected = solved(np.vstack([X, more]), np.vstack([Y, targets]))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("times", [1.2, 1.0 / 1.2])
def test_a_solution_is_tracked_while_the_ridge_drifts_a_little(times):
    acc, tracked = tracked_of(X, Y)
    bound = 1.0 / tracking.DRIFT if times > 1.0 else tracking.DRIFT
    near, far = bound / times, bound * times
    np.testing.assert_allclose(
        tracked.solve(acc._gram, acc.cross, near, acc.diagonal), solved(X, Y, near), rtol=1e-9
    )
    assert tracked.solve(acc._gram, acc.cross, far, acc.diagonal) is None


def test_rows_are_answered_without_solving_however_small_their_features():
    acc = CentredAccumulator(RecursiveAccumulator(ridge=1.0))
    acc.update(1e-3 * X, Y)
    assert acc.row_scores(1e-3 * X[0]) is not None
    acc.update(np.hstack([X, np.zeros((9, 1))]), Y)
    assert acc.row_scores(np.zeros(4)) is None


@pytest.mark.parametrize("make", [GramAccumulator, recursive])
def test_rows_with_columns_of_zeros_are_taken_out(make):
    acc = make()
    acc.update(X, Y)
    acc.downdate(np.hstack([X[:4], np.zeros((4, 2))]), np.hstack([Y[:4], np.zeros((4, 1))]))
    assert (acc.n_features, acc.n_targets, acc.count) == (5, 3, 5)
    np.testing.assert_allclose(acc.solve(1.0)[:3, :2], solved(X[4:], Y[4:]), rtol=1e-9)
    assert not acc.solve(1.0)[3:].any()


@pytest.mark.parametrize("make", [recursive, lambda: CentredAccumulator(recursive())])
def test_features_below_rounding_have_the_ridges_variance(make):
    """P^-1 - D is nothing but rounding there: the statistics themselves tell of such features."""
    acc = make()
    acc.update(X * [1.0, 1e-12, 1.0], Y)
    assert acc.covariance(2.0).matrix[1, 1] == pytest.approx(0.5)
    assert (acc.solve(2.0)[1] != 0.0).all()


def test_errors_beyond_float64_are_the_largest():
    """Of two targets the squares are infinite together, and so is what weights take off them."""
    X, Y = np.ones((1, 1)), np.full((1, 2), 1e150)
    folds = [GramAccumulator(), GramAccumulator()]
    for fold in folds:
        fold.update(X, Y, np.array([1.2e8]))
    assert cross_validation_errors(folds, np.array([1.0])).tolist() == [np.inf]


@pytest.mark.parametrize("n_groups", [2, 3])
def test_folds_take_the_memory_of_each_and_of_their_sum(n_groups):
    one = GramAccumulator().bytes_for(50, 3)
    assert FoldedAccumulator(GramAccumulator, n_groups).bytes_for(50, 3) == (n_groups + 1) * one


def test_classes_take_the_memory_of_each_and_of_their_sum():
    one = GramAccumulator().bytes_for(50, 4)
    assert ClasswiseAccumulator(GramAccumulator).bytes_for(50, 4) == 5 * one


@pytest.mark.parametrize("make", [GramAccumulator, OrthogonalAccumulator, recursive])
@pytest.mark.parametrize(
    ("ridge", "error"), [(-1.0, ValueError), (np.nan, ValueError), (None, TypeError)]
)
def test_no_solution_for_what_is_no_ridge(make, ridge, error):
    acc = make()
    acc.update(X, Y)
    with pytest.raises(error, match="ridge="):
        acc.solve(ridge)


@pytest.mark.parametrize("factor", [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(
    "make",
    [GramAccumulator, OrthogonalAccumulator, recursive, lambda: CentredAccumulator(recursive())],
)
def test_statistics_are_scaled_by_any_factor(make, factor):
    acc, whole = make(), make()
    acc.update(X[:5], Y[:5])
    acc.scale(factor)
    acc.update(X[5:7], Y[5:7])
    acc.update(X[7:8], Y[7:8])
    acc.update(X[8:], Y[8:])
    w = np.append(np.full(5, factor), np.ones(4))
    whole.update(X, Y, w)
    assert acc.weight == whole.weight
    np.testing.assert_allclose(acc.diagonal, whole.diagonal, rtol=1e-12)
    # At another ridge than the one inside, which has faded.
    np.testing.assert_allclose(acc.solve(2.0), whole.solve(2.0), rtol=1e-9)
    ridges = acc.ridge_diagonal(1.0)
    assert ((ridges >= 0.5) & (ridges <= 1.0)).all()


@pytest.mark.parametrize("factor", [0.25, 0.75])
def test_single_rows_are_taken_out_of_what_has_decayed(factor):
    acc = recursive()
    acc.update(X, Y)
    acc.scale(factor)
    acc.downdate(X[[3]], Y[[3]], np.array([factor]))
    left = np.delete(np.arange(9), 3)
    A = np.sqrt(factor) * X[left]
    expected = np.linalg.solve(
        A.T @ A + np.diag(acc.ridge_diagonal(1.0)), A.T @ Y[left] * np.sqrt(factor)
    )
    np.testing.assert_allclose(acc.solve(1.0), expected, rtol=1e-9)
    assert acc.weight == pytest.approx(8 * factor)


def test_all_rows_leave_though_nothing_of_them_could():
    acc, X = recursive(), np.array([[1e5, 0.0]])
    acc.update(X, [[1.0]])
    acc.update(np.array([[0.0, 1.0]]), [[1.0]])
    with pytest.raises(ValueError, match="expected at least 1e-06 to be left"):
        acc.downdate(X, [[1.0]])
    acc.downdate(np.array([[0.0, 1.0]]), [[1.0]])
    acc.downdate(X, [[1.0]])
    assert (acc.count, acc.weight) == (0, 0.0)
    assert not acc.diagonal.any()


def test_features_that_are_constant_but_for_rounding_have_no_weight():
    acc = CentredAccumulator(recursive())
    near = np.where(np.arange(40) % 3, 1e6, np.nextafter(1e6, np.inf))
    rows = np.column_stack([near, np.arange(40.0)])
    acc.update(rows, np.arange(40) % 2)
    assert acc._comoments.diagonal[0] > 0.0
    assert acc.row_scores(rows[0]) is None
    for ridge in (1.0, 2.0):
        weights = acc.solve(ridge)
        assert not weights[0].any()
        assert weights[1].all()


@pytest.mark.parametrize("pivot", [1e-5, 0.5, 1e13])
def test_factors_of_what_float64_resolves(pivot):
    sign = 1.0 if pivot > 1.0 else -1.0
    factor = checked_factor(np.array([[abs(pivot - 1.0)]]), sign)
    assert factor.item() ** 2 == pytest.approx(pivot)


@pytest.mark.parametrize("pivot", [1e-7, 1e15])
def test_no_factor_of_what_float64_does_not_resolve(pivot):
    with pytest.raises(ValueError, match="expected at"):
        checked_factor(np.array([[abs(pivot - 1.0)]]), 1.0 if pivot > 1.0 else -1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FoldedAccumulator(GramAccumulator, 3),
        lambda: ClasswiseAccumulator(GramAccumulator),
    ],
    ids=["folded", "classwise"],
)
def test_groups_that_are_placed_weigh_what_they_did(make):
    acc, w = make(), np.linspace(1.0, 2.0, 9)
    acc.update(X, np.arange(9) % 2, w)
    placed = acc.placed(np.array([4, 0, 2]), np.array([2, 0]), 5, 3)
    assert (placed.count, placed.weight) == (acc.count, acc.weight) == (9, pytest.approx(w.sum()))
    np.testing.assert_allclose(placed.target_squares[[2, 0]], acc.target_squares)
    np.testing.assert_allclose(placed.diagonal[[4, 0, 2]], acc.diagonal)
    np.testing.assert_allclose(placed.solve(1.0)[[4, 0, 2]][:, [2, 0]], acc.solve(1.0))
    assert placed.covariance(1.0).matrix[1, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("ridge", [np.inf, np.nan, 0.0, -1.0])
def test_what_no_inverse_can_hold(ridge):
    with pytest.raises(ValueError, match="ridge="):
        RecursiveAccumulator(ridge=ridge)


def test_rows_of_new_features_may_outweigh_the_ridge():
    inverse, w = RunningInverse(np.ones(2)), np.ones(1)
    check_rows(inverse, 1.0, np.array([[0.0, 1.0, 0.9e7]]), w)
    with pytest.raises(ValueError, match="outweigh what is known in a direction by 1e"):
        check_rows(inverse, 1.0, np.array([[0.0, 1.0, 1.1e7]]), w)
    check_rows(inverse, 100.0, np.array([[0.0, 1.0, 8e7]]), w)


def test_what_weights_leave_by_rounding_is_nothing():
    """0.1 + 0.2 - 0.1 - 0.2 is no weight, though a row of weight 0 is still counted."""
    acc = CentredAccumulator(GramAccumulator())
    for row, w in ((0, 0.1), (1, 0.2), (2, 0.0)):
        acc.update(X[[row]], Y[[row]], np.array([w]))
    for row, w in ((0, 0.1), (1, 0.2)):
        acc.downdate(X[[row]], Y[[row]], np.array([w]))
    assert (acc.count, acc.weight) == (1, 0.0)
    acc.update(X[3:], Y[3:])
    about, targets = X[3:] - X[3:].mean(axis=0), Y[3:] - Y[3:].mean(axis=0)
    np.testing.assert_allclose(acc.solve(1.0), solved(about, targets), rtol=1e-12)
    assert acc.weight == 6.0


def test_a_class_gives_no_more_than_it_has():
    acc, other = ClasswiseAccumulator(GramAccumulator), ClasswiseAccumulator(GramAccumulator)
    acc.update(X, np.arange(9) % 2)
    other.update(1e-3 * X[:5], np.ones(5, dtype=int))
    before = acc.solve(1.0)
    with pytest.raises(ValueError, match="5 rows, expected at most the 4"):
        acc.subtract(other)
    assert (acc.solve(1.0) == before).all()


def test_a_fold_gives_no_more_weight_than_it_has():
    acc, other = FoldedAccumulator(GramAccumulator, 2), FoldedAccumulator(GramAccumulator, 2)
    acc.update(X, Y)
    row = int(np.argmin((X**2).sum(axis=1)))
    there = acc._members[acc._dealt(X)[row]].weight
    assert there + 0.5 < acc.weight
    other.update(X[[row]], np.zeros((1, 2)), np.array([there + 0.5]))
    with pytest.raises(ValueError, match="weight"):
        acc.subtract(other)


def test_recursions_are_placed_where_there_is_room():
    held = recursion_of(X, Y, 4.0)
    placed = held.placed(np.array([3, 0, 2]), np.array([1, 0]), 4, 2)
    np.testing.assert_allclose(placed.solve(4.0)[[3, 0, 2]][:, [1, 0]], solved(X, Y, 4.0))
    assert placed.covariance(4.0).matrix[1, 1] == pytest.approx(0.25)
    with pytest.raises(ValueError, match="target_columns"):
        held.placed(np.array([3, 0, 2]), np.array([1, 1]), 4, 2)
    with pytest.raises(ValueError, match="feature_columns"):
        held.placed(np.array([3, 0, 0]), np.array([1, 0]), 4, 2)
