"""Statistics that are taken out: what is left, to the last of it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.classwise import ClasswiseAccumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.held_out import cross_validation_errors
from onlinels.accumulators.inverse import RunningInverse
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.accumulators.removal import check_removable

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.normal(size=(30, 3)), RANDOM.integers(0, 2, 30)
PLACES = [slice(0, 11), slice(11, 19), slice(19, 30)]


def recursive():
    return RecursiveAccumulator(ridge=1.0)


def folded():
    return FoldedAccumulator(GramAccumulator, 3)


def classwise():
    return ClasswiseAccumulator(lambda: CentredAccumulator(GramAccumulator()))


MAKERS = [
    GramAccumulator,
    recursive,
    folded,
    classwise,
    lambda: CentredAccumulator(GramAccumulator()),
    lambda: CentredAccumulator(recursive()),
]
every = pytest.mark.parametrize(
    "make", MAKERS, ids=["gram", "recursive", "folded", "classwise", "centred", "both"]
)


def learnt(make, X, labels, w=None):
    acc = make()
    acc.update(X, labels, w)
    return acc


def assert_same(found, expected):
    n = expected.n_features
    np.testing.assert_allclose(found.solve(1.0)[:n], expected.solve(1.0), rtol=1e-7, atol=1e-10)
    assert (found.count, found.weight) == (expected.count, pytest.approx(expected.weight))
    for mine, theirs in zip(members(found), members(expected), strict=True):
        assert (mine.count, mine.weight) == (theirs.count, pytest.approx(theirs.weight))


def members(acc):
    return getattr(acc, "_members", [])


@every
def test_what_was_merged_is_subtracted_again(make):
    # The site that leaves has features of its own, of which nothing stays.
    wide = np.hstack([1e3 * RANDOM.normal(size=(8, 3)), RANDOM.normal(size=(8, 2))])
    stays, leaves = learnt(make, X, LABELS), learnt(make, wide, LABELS[:8])
    both = learnt(make, X, LABELS)
    both.merge(leaves)
    assert both.n_features == 5
    both.subtract(leaves)
    assert_same(both, stays)
    assert both.diagonal[3:].tolist() == [0.0, 0.0]
    assert both.solve(1.0)[3:].tolist() == [[0.0, 0.0]] * 2


@every
def test_rows_and_their_features_leave(make):
    wide = np.hstack([1e3 * RANDOM.normal(size=(8, 3)), RANDOM.normal(size=(8, 2))])
    both = learnt(make, X, LABELS)
    both.update(wide, LABELS[:8])
    both.downdate(wide, LABELS[:8])
    assert_same(both, learnt(make, X, LABELS))
    assert both.diagonal[3:].tolist() == [0.0, 0.0]


@every
@pytest.mark.parametrize("by", ["rows", "statistics"])
def test_nothing_is_left_when_all_have_left(make, by):
    acc, other = learnt(make, X, LABELS), learnt(make, X, LABELS)
    if by == "rows":
        acc.downdate(X, LABELS)
    else:
        acc.subtract(other)
    for each in (acc, *members(acc)):
        assert (each.count, each.weight) == (0, 0.0)
        assert not each.diagonal.any()
        assert not each.target_squares.any()
    acc.update(X[:9], LABELS[:9])
    assert_same(acc, learnt(make, X[:9], LABELS[:9]))


@pytest.mark.parametrize("make", [folded, classwise])
def test_a_group_gives_no_more_than_it_holds(make):
    acc, before = learnt(make, X, LABELS), learnt(make, X, LABELS)
    heavy = learnt(make, X, LABELS, np.where(LABELS == 1, 1.5, 0.1))
    with pytest.raises(ValueError, match="to be taken out is"):
        acc.subtract(heavy)
    few, more = learnt(make, X[:9], LABELS[:9]), learnt(make, X[:12], LABELS[:12])
    with pytest.raises(ValueError, match="expected at most the"):
        few.subtract(more)
    assert_same(acc, before)
    assert_same(few, learnt(make, X[:9], LABELS[:9]))


def test_statistics_of_another_kind_do_not_combine():
    for acc in (learnt(folded, X, LABELS), learnt(classwise, X, LABELS)):
        for act in (acc.merge, acc.subtract):
            with pytest.raises(TypeError, match="other is"):
                act(learnt(GramAccumulator, X, LABELS))
    two = learnt(lambda: FoldedAccumulator(GramAccumulator, 2), X, LABELS)
    others = learnt(lambda: ClasswiseAccumulator(GramAccumulator), X, LABELS)
    for act in ("merge", "subtract"):
        with pytest.raises(ValueError, match="other has 2 folds, expected 3"):
            getattr(learnt(folded, X, LABELS), act)(two)
        with pytest.raises(TypeError, match="other is"):
            getattr(learnt(classwise, X, LABELS), act)(others)


def test_held_out_errors_are_those_of_weights_from_the_other_folds():
    Y = RANDOM.normal(size=(30, 2))
    ridges = np.array([0.1, 1.0, 50.0])
    for make, about in ((GramAccumulator, 0.0), (MAKERS[4], 1.0)):
        folds = [learnt(make, X[rows] + 2.0, Y[rows] + 5.0) for rows in PLACES]
        expected = np.zeros(3)
        for rows in PLACES:
            others = np.ones(30, dtype=bool)
            others[rows] = False
            A, B = X + 2.0, Y + 5.0
            centre, target = about * A[others].mean(axis=0), about * B[others].mean(axis=0)
            A, B = A - centre, B - target
            for number, ridge in enumerate(ridges):
                system = A[others].T @ A[others] + ridge * np.eye(3)
                weights = np.linalg.solve(system, A[others].T @ B[others])
                expected[number] += ((B[rows] - A[rows] @ weights) ** 2).sum()
        empty = make()
        empty.grow(3, 2)
        np.testing.assert_allclose(cross_validation_errors(folds, ridges), expected, rtol=1e-9)
        found = cross_validation_errors([*folds, empty], ridges)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_many_rows_that_were_never_learnt_are_not_taken_out():
    inverse = RunningInverse(np.ones(3))
    inverse.add(X[:2], np.ones(2))
    for rows in (X[:3], X[:9]):
        with pytest.raises(ValueError, match=r"taken? out"):
            inverse.check_removable(rows, np.ones(len(rows)))
    inverse.add(X[2:], np.ones(28))
    inverse.check_removable(X[:3], np.ones(3))
    inverse.check_removable(X[:9], np.ones(9))


def test_what_is_too_much_is_told_with_its_column():
    check_removable("weight", 3.0, 3.0)
    check_removable("sum", np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-12]))
    with pytest.raises(ValueError, match=r"^The weight to be taken out is 3, expected at"):
        check_removable("weight", 2.0, 3.0)
    with pytest.raises(ValueError, match=r"^The sum to be taken out is 3 in column 1, expected at"):
        check_removable("sum", np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    # Rounding errors of what was there before are allowed for.
    check_removable("weight", 1.0, 1.0 + 1e-8, 1e9)


def test_nothing_is_harmless_before_a_ridge_is_known():
    assert RecursiveAccumulator().harmless_length(1.0) == 0.0
    assert RecursiveAccumulator().harmless_length(0.0) == 0.0
    assert recursive().harmless_length(0.0) == np.inf


def test_folds_whose_columns_were_placed_learn_on():
    acc, expected = learnt(folded, X, LABELS), learnt(folded, X, LABELS)
    same = np.arange(3), np.arange(2)
    placed = acc.placed(*same, 3, 2)
    for each in (placed, expected):
        each.update(X[:7] + 1.0, LABELS[:7])
    assert placed.n_folds == 3
    assert_same(placed, expected)
