"""Statistics in folds, chosen by a row's content, and the errors of ridges on held-out folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.accumulators.grouped import GROUP, StatisticsGroup, group_is_sound, joined_statistics
from onlinels.accumulators.statistics import Statistics
from onlinels.accumulators.sums import Rows
from onlinels.checks import Floats, Integers, Matrix, check_count, check_matrix
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
from onlinels.rows import Name, feature_key, key_text
from onlinels.saving import WHOLE, array, savable

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 1 << 16
"""Values hashed at once: they stay in the cache."""

MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
SHIFTS = np.array([30, 27, 31], dtype=np.uint64)
"""Both of the finaliser of SplitMix64."""

DROPPED = np.uint64(29)
"""Binary digits of a float64 that a float32 lacks."""

HALF = np.uint64(1 << 28)
"""Half of the last digit that is kept."""


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
    >>> folds = FoldedStatistics(Statistics(GramSums(2, 1), is_centred=False), n_folds=3)
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


def fold_of_rows(names: Iterable[Name], values: Matrix, n_folds: int) -> Integers:
    """Return the fold of every row: a function of its features' names and values alone.

    A row's hash is the sum over its features that are not 0 of a mixed 64-bit hash of name and
    value, modulo 2^64. So neither the order of the columns counts, nor features that are absent or
    0, nor label and weight. Values count to 24 binary digits, so neither does the dtype (float32 or
    float64), nor the last digits in which a row transformed alone differs from one in a batch.

    Parameters
    ----------
    names : iterable of n_features names
        See `onlinels.rows.feature_key` for which of them stand for one feature.
    values : ndarray (n, n_features), any real dtype
    n_folds : int

    Returns
    -------
    ndarray (n,) of int
        From 0 to below `n_folds`.

    Raises
    ------
    TypeError, ValueError
        If the values are no matrix of finite numbers, or a name has no spelling of its own.

    Notes
    -----
    Equal rows come into one fold, as a row and its repetition should: held-out rows are then not
    among those trained on. 5 to 15 ns a value.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014 (the mixing function).

    Examples
    --------
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> fold_of_rows(["a", "b"], rows, n_folds=3)
    array([0, 0, 1, 2, 0, 0])
    >>> fold_of_rows(["b", "absent", "a"], rows[:2, [1, 1, 0]] * [1, 0, 1], n_folds=3)
    array([0, 0])
    """
    return hashed_folds(name_hashes(names), check_matrix("values", values), n_folds)


def name_hashes(names: Iterable[Name]) -> Hashes:
    """Return a 64-bit hash of every feature's name, the same in every process."""
    texts = (key_text(feature_key(name)) for name in names)
    digests = [blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def hashed_folds(hashes: Hashes, values: Matrix, n_folds: int) -> Integers:
    """Return the fold of every row (n,), given the hashes (n_features,) of its features' names."""
    sums = np.zeros(len(values), dtype=np.uint64)
    step = max(1, BLOCK_VALUES // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        block = np.ascontiguousarray(values[start : start + step], dtype=np.float64)
        # Bits of values rounded to the 24 digits of a float32, in a float64's range.
        rounded = (block.view(np.uint64) + HALF) >> DROPPED
        mixed = _mixed(_mixed(rounded) + hashes)
        mixed[block == 0.0] = 0
        sums[start : start + step] = mixed.sum(axis=1, dtype=np.uint64)
    folds: Integers = (_mixed(sums) % np.uint64(n_folds)).astype(np.intp)
    return folds


def _mixed(bits: Hashes) -> Hashes:
    """Return bits spread over all 64 places."""
    bits = (bits ^ (bits >> SHIFTS[0])) * MULTIPLIERS[0]
    bits = (bits ^ (bits >> SHIFTS[1])) * MULTIPLIERS[1]
    mixed: Hashes = bits ^ (bits >> SHIFTS[2])
    return mixed
