"""Statistics in folds, chosen by a row's content, and the errors of ridges on held-out folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from onlinels.accumulators.grouped import GROUP, StatisticsGroup, group_is_sound, joined_statistics
from onlinels.accumulators.statistics import Statistics
from onlinels.accumulators.sums import Rows
from onlinels.checks import Floats, Integers, check_count
from onlinels.hashing import hashed_folds, name_hashes
from onlinels.linalg.packed import is_growth
from onlinels.linalg.selection import (
    AS_ACCURATE,
    NOTHING_LEFT,
    Choice,
    best_of,
    exponents,
    held_out_errors,
    in_units,
    no_choice,
    reciprocal,
)
from onlinels.numerics import shallow_copy
from onlinels.rows import Name
from onlinels.saving import WHOLE, array, savable


def _are_sound_folds(folds: Any) -> bool:
    enough = len(folds._members) > 1 and folds._n_named <= len(folds._hashes) == folds.n_features
    return enough and group_is_sound(folds)


@savable({**GROUP, "_hashes": array("u8", 1), "_n_named": WHOLE}, _are_sound_folds)
class FoldedStatistics(StatisticsGroup):
    """Keep rows in K folds, chosen by their content; their sum is what is solved.

    A row's fold is a function of its features' names and values (`fold_of_rows`).
    So folds of two streams merge, and a row that is taken out leaves the fold that it went to.

    Parameters
    ----------
    empty : Statistics
        Statistics without rows, as every fold begins.
    n_folds : int
        K, at least 2.

    Notes
    -----
    K times the memory of one fold, and that of one more while the sum is in use. Learning
    costs what it costs without folds, and 5 to 15 ns for every value.

    Columns are named 0, 1, … until `named` says otherwise.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramSums
    >>> from onlinels.numerics import apply
    >>> folds = FoldedStatistics(Statistics(GramSums(2, 1), False), n_folds=3)
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 2))
    >>> apply(folds.plan(Rows(X, X @ [[2.0], [3.0]] + random.normal(size=(60, 1)))))
    >>> folds.select_ridge(standardised=False).ridge < 1.0, folds.count
    (True, 60)
    """

    group_name = "fold"

    def __init__(self, empty: Statistics, n_folds: int) -> None:
        check_count("n_folds", n_folds, 2)
        super().__init__(empty, n_folds)
        self._hashes = name_hashes(range(self.n_features))
        self._n_named = 0

    @property
    def n_folds(self) -> int:  # type: ignore[override]
        """Number K of folds."""
        return len(self._members)

    def _summed(self) -> Statistics:
        return joined_statistics(self._members)

    def named(self, names: Sequence[Name]) -> Self:
        """Return it with the names of all features, in the order of their columns."""
        if self._n_named >= len(names):
            return self
        new = shallow_copy(self)
        hashes = self._hashes[: self._n_named], name_hashes(names[self._n_named :])
        new._hashes, new._n_named = np.concatenate(hashes), len(names)
        return new

    def _groups(self, rows: Rows) -> Integers:
        return hashed_folds(self._hashes, rows.values, self.n_folds)

    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the statistics of the given features and targets, new ones for -1."""
        new, known = super().reindexed(features, targets), features >= 0
        if not is_growth(features, self.n_features):
            new._n_named = 0
        new._hashes = np.empty(len(features), dtype=np.uint64)
        new._hashes[known] = self._hashes[features[known]]
        new._hashes[~known] = name_hashes(np.flatnonzero(~known).tolist())
        return new

    def select_ridge(self, standardised: bool) -> Choice:
        """Return the ridge of the smallest squared error on held-out folds.

        1.0 if there is no feature; all errors being within rounding, the largest that is searched.

        Parameters
        ----------
        standardised : bool
            Whether the ridge is on features in units of their deviations in the training folds.
        """
        total = self.total
        diagonal = total.diagonal
        if standardised:
            diagonal = np.full(np.count_nonzero(diagonal), total.weight)
        with np.errstate(over="ignore"):  # Of squares beyond float64; ridges end before.
            first, last = exponents(float(np.linalg.norm(diagonal)))
        squares = float(total.target_squares.sum())
        if first == last or squares <= 0.0:
            return no_choice(last)
        errors = cross_validation_errors(self._members, standardised)
        return best_of(
            lambda ridges: np.log(np.maximum(errors(ridges), NOTHING_LEFT * squares)),
            first,
            last,
            AS_ACCURATE,
        )


def cross_validation_errors(
    folds: Sequence[Statistics], standardised: bool = False
) -> Callable[[Floats], Floats]:
    """Return what gives every ridge's sum of squared errors on folds held out in turn.

    For each fold, weights come from the rows of all others, and the weighted squared errors on the
    rows of the fold are summed, over all targets: e = |y|^2 - 2 w'A'y + w'A'A w needs no row.

    Parameters
    ----------
    folds : sequence of Statistics
        Of one kind, and of one size.
    standardised : bool
        Whether the ridge is on features in units of their deviations in the training folds.

    Returns
    -------
    callable
        Of ridges (n_ridges,) over 0; it returns an array as long.

    Notes
    -----
    For every fold one eigendecomposition and two products of M x M matrices, about 14 M^3
    operations, and 2 M^2 N for every ridge.

    References
    ----------
    M. Stone, "Cross-validatory choice and assessment of statistical predictions", Journal of the
    Royal Statistical Society B 36 (1974).

    Examples
    --------
    >>> from onlinels import GramAccumulator
    >>> folds = [GramAccumulator(), GramAccumulator()]
    >>> folds[0].update(np.array([[1.0]]), np.array([[2.0]]))
    >>> folds[1].update(np.array([[1.0]]), np.array([[4.0]]))
    >>> cross_validation_errors(folds)(np.array([1.0]))
    array([9.])
    """
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):  # Beyond float64 is too much.
        for number, held_out in enumerate(folds):
            if held_out.weight > 0.0:
                train = joined_statistics([*folds[:number], *folds[number + 1 :]])
                sums = train.sums_about(train), held_out.sums_about(train)
                if standardised:
                    factors = reciprocal(train.deviations)
                    sums = in_units(sums[0], factors), in_units(sums[1], factors)
                parts.append(held_out_errors(*sums))

    def errors(ridges: Floats) -> Floats:
        """Return the sums of all folds."""
        with np.errstate(over="ignore", invalid="ignore"):
            total: Floats = np.sum([part(ridges) for part in parts], axis=0) + np.zeros(len(ridges))
        total[np.isnan(total)] = np.inf
        return total

    return errors
