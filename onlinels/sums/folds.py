"""Statistics in folds by the content of rows, and errors of ridges on held-out folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, Integers, Matrix, check_count, ignoring
from onlinels.numerics import Calls, is_array, is_count, shallow_copy
from onlinels.rows.batch import Name, name_text, numbered
from onlinels.saving import savable
from onlinels.sums.packed import gathered, is_growth
from onlinels.sums.recursion import Following
from onlinels.sums.rows import Rows
from onlinels.sums.selection import (
    MAX_ROUNDING_ERROR,
    SQUARED_ERROR_TOLERANCE,
    Choice,
    best_of,
    exponents,
    held_out_errors,
    in_units,
    length_of,
    no_choice,
    varying_only,
)
from onlinels.sums.statistics import Names, Statistics, SumsOfProducts, is_sound

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 1 << 16
"""Number of values that are hashed at once, so that they stay in the cache."""

MIX_MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
MIX_SHIFTS = np.array([30, 27, 31], dtype=np.uint64)
"""Constants of the finaliser of SplitMix64."""

DROPPED_BITS = np.uint64(29)
"""Number of binary digits that a float64 has and a float32 lacks."""

HALF_UNIT = np.uint64(1 << 28)
"""Half a unit of the last digit that is kept."""


def name_hashes(names: Iterable[Name]) -> Hashes:
    """Return a 64-bit hash of the name of every feature, the same in every process."""
    # "h3", ("h", 3) and 3 share a hash, which decides about folds only, as in earlier versions.
    texts = (name_text(numbered(name)) for name in names)
    digests = [blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def hashed_folds(hashes: Hashes, values: Matrix, n_folds: int) -> Integers:
    """Return the folds (n,) of rows, given the hashes (n_features,) of their features' names.

    The hash of a row is the sum, modulo 2^64, of a mixed 64-bit hash of name and value over its
    features that are not 0. Therefore the order of the columns, features that are absent or 0, the
    label and the weight do not matter. Values are rounded to 24 binary digits, so the dtype
    (float32 or float64) does not matter, and neither do the last digits, in which a row that is
    transformed alone can differ from the same row in a batch. Equal rows are in the same fold, so
    that no training row equals a held-out row. The cost is 5 to 15 ns per value.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014 (the mixing function).

    Examples
    --------
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> hashed_folds(name_hashes(["a", "b"]), rows, n_folds=3)
    array([0, 0, 1, 2, 0, 0])
    >>> hashed_folds(name_hashes(["b", "absent", "a"]), rows[:2, [1, 1, 0]] * [1, 0, 1], n_folds=3)
    array([0, 0])
    """
    sums = np.zeros(len(values), dtype=np.uint64)
    step = max(1, BLOCK_VALUES // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        block = np.ascontiguousarray(values[start : start + step], dtype=np.float64)
        # Bits of values rounded to the 24 digits of a float32, with the range of float64.
        rounded = (block.view(np.uint64) + HALF_UNIT) >> DROPPED_BITS
        mixed = splitmix(splitmix(rounded) + hashes)
        mixed[block == 0.0] = 0
        sums[start : start + step] = mixed.sum(axis=1, dtype=np.uint64)
    folds: Integers = (splitmix(sums) % np.uint64(n_folds)).astype(np.intp)
    return folds


def splitmix(bits: Hashes) -> Hashes:
    """Return mixed bits: each input bit affects all 64 output bits."""
    bits = (bits ^ (bits >> MIX_SHIFTS[0])) * MIX_MULTIPLIERS[0]
    bits = (bits ^ (bits >> MIX_SHIFTS[1])) * MIX_MULTIPLIERS[1]
    mixed: Hashes = bits ^ (bits >> MIX_SHIFTS[2])
    return mixed


def _are_sound_folds(folds: Any) -> bool:
    each = [folds, *folds._folds]
    kinds = {(type(one.products), one.is_centred, one.n_features, one.n_targets) for one in each}
    enough = len(folds._folds) > 1 and is_array(folds._hashes, folds.n_features, dtype=np.uint64)
    named = is_count(folds._n_named) and folds._n_named <= folds.n_features
    return is_sound(folds) and enough and named and len(kinds) == 1


@savable(_are_sound_folds)
class FoldedStatistics(Statistics):
    """Statistics of all rows, and of each of K folds of the rows.

    The fold of a row is a function of the names and values of its features (`hashed_folds`). The
    folds of two streams can therefore be merged, and a removed row leaves the fold that learnt it.

    Parameters
    ----------
    sums : SumsOfProducts
        Empty sums, which no other object uses.
    is_centred : bool
        Whether rows are learnt about their mean.
    n_folds : int
        Number K of folds, at least 2.

    Notes
    -----
    Folds need K + 1 times the memory of statistics. Every row is learnt twice, and every value
    costs 5 to 15 ns more.

    Examples
    --------
    >>> from onlinels.sums.forms import GramSums
    >>> from onlinels.core.apply import apply
    >>> folds = FoldedStatistics(GramSums(2, 1), False, n_folds=3).named(["a", "b"])
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 2))
    >>> apply(folds.plan(Rows(X, X @ [[2.0], [3.0]] + random.normal(size=(60, 1)))))
    >>> folds.select_ridge(standardised=False).ridge < 1.0, folds.count
    (True, 60)
    """

    def __init__(self, sums: SumsOfProducts, is_centred: bool, n_folds: int) -> None:
        check_count("n_folds", n_folds, 2)
        super().__init__(sums, is_centred)
        empty = Statistics(sums, is_centred)
        self._folds = [empty.copied() for _ in range(n_folds)]
        self._hashes = np.zeros(self.n_features, dtype=np.uint64)
        self._n_named = 0

    @property
    def n_folds(self) -> int:  # type: ignore[override]
        """Number K of folds."""
        return len(self._folds)

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes needed to learn and to solve for these numbers of columns."""
        return (self.n_folds + 1) * super().bytes_for(n_features, n_targets)

    def _by_fold(self, rows: Rows) -> list[Rows]:
        """Return the rows of every fold.

        Rows of weight 0, which are in no sums, are always in the first fold: a feature that only
        such rows have may leave before they do.
        """
        places = hashed_folds(self._hashes, rows.values, self.n_folds)
        places[rows.weights() == 0.0] = 0
        return [rows.some(places == fold) for fold in range(self.n_folds)]

    def plan(self, rows: Rows, decay: float = 1.0, following: Following | None = None) -> Calls:
        """Plan to decay all rows and to learn new rows, in their folds too."""
        calls = super().plan(rows, decay, following)
        for fold, part in zip(self._folds, self._by_fold(rows), strict=True):
            if len(part.targets) or decay != 1.0:
                calls += fold.plan(part, decay)
        return calls

    # Rare changes: a new object aside.

    def without(self, rows: Rows, names: Names) -> Self:
        """Return a copy without checked rows, which every fold must hold."""
        folds = list(self._folds)
        for number, part in enumerate(self._by_fold(rows)):
            if len(part.targets):
                try:
                    folds[number] = folds[number].without(part, names)
                except ValueError as error:
                    raise ValueError(f"In fold {number}: {error}") from error
        new = super().without(rows, names)
        new._folds = folds
        return new

    def named(self, names: Sequence[Name]) -> Self:
        """Return the statistics with the names of all features, in the order of the columns."""
        if self._n_named >= len(names):
            return self
        new = shallow_copy(self)
        hashes = self._hashes[: self._n_named], name_hashes(names[self._n_named :])
        new._hashes, new._n_named = np.concatenate(hashes), len(names)
        return new

    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the statistics of the given features and targets; -1 stands for a new column."""
        new = super().reindexed(features, targets)
        new._folds = [each.reindexed(features, targets) for each in self._folds]
        if not is_growth(features, self.n_features):
            new._n_named = 0
        new._hashes = gathered(self._hashes, features)
        return new

    def without_folds(self) -> Statistics:
        """Return the statistics of all rows; both objects share memory."""
        new = Statistics(self._sums, self.is_centred)
        own = vars(new).keys() | {"_beside"}
        vars(new).update({name: each for name, each in vars(self).items() if name in own})
        return new

    def absorb(self, other: Self) -> None:
        """Add checked statistics of at most as many columns, in place, by fold."""
        super().absorb(other)
        for mine, theirs in zip(self._folds, other._folds, strict=True):
            mine.absorb(theirs)

    def select_ridge(self, standardised: bool) -> Choice:
        """Return the ridge with the smallest squared error on held-out folds.

        1.0 if there is no feature. If all errors are within rounding, the largest ridge searched.

        Parameters
        ----------
        standardised : bool
            Whether the ridge acts on features divided by their standard deviations in the training
            folds.
        """
        diagonal = self.diagonal
        if standardised:
            diagonal = np.full(np.count_nonzero(diagonal), self.weight)
        first, last = exponents(length_of(diagonal))
        squares = float(self.target_squares.sum())
        if first == last or squares <= 0.0:
            return no_choice(last)
        errors = cross_validation_errors(self._folds, standardised)

        def criterion(ridges: Floats) -> Floats:
            logarithms: Floats = np.log(np.maximum(errors(ridges), MAX_ROUNDING_ERROR * squares))
            return logarithms

        return best_of(criterion, first, last, SQUARED_ERROR_TOLERANCE)


@ignoring("over", "invalid")  # Errors beyond float64 count as infinite.
def cross_validation_errors(
    folds: Sequence[Statistics], standardised: bool = False
) -> Callable[[Floats], Floats]:
    """Return a function that computes the cross-validation errors of ridges.

    For each fold, weights are computed from the rows of all other folds, and the weighted squared
    errors on the rows of the fold are summed over all targets: e = |y|^2 - 2 w'A'y + w'A'A w needs
    no row.

    Parameters
    ----------
    folds : sequence of Statistics
        Statistics of one kind and one size.
    standardised : bool
        Whether the ridge acts on features divided by their standard deviations in the training
        folds.

    Returns
    -------
    callable
        Function of ridges (n_ridges,) above 0 that returns their sums of squared errors
        (n_ridges,).

    Notes
    -----
    Every fold costs an eigendecomposition and two products of M x M matrices, about 14 M^3
    operations; every ridge costs 2 M^2 N.

    References
    ----------
    M. Stone, "Cross-validatory choice and assessment of statistical predictions", Journal of the
    Royal Statistical Society B 36 (1974).

    Examples
    --------
    >>> from onlinels.sums.forms import GramSums
    >>> from onlinels.core.apply import apply
    >>> folds = [Statistics(GramSums(1, 1), False) for _ in range(2)]
    >>> for fold, y in zip(folds, (2.0, 4.0)):
    ...     apply(fold.plan(Rows(np.array([[1.0]]), np.array([[y]]))))
    >>> cross_validation_errors(folds)(np.array([1.0]))
    array([9.])
    """
    parts = []
    for number, held_out in enumerate(folds):
        if held_out.weight > 0.0:
            first, *others = *folds[:number], *folds[number + 1 :]
            train = first.copied()
            for fold in others:
                train.absorb(fold)
            units = train.deviations if standardised else None
            sums = varying_only(train.sums(), train.diagonal), held_out.sums_about(train)
            parts.append(held_out_errors(*(in_units(each, units) for each in sums)))

    @ignoring("over", "invalid")
    def errors(ridges: Floats) -> Floats:
        """Return the sums of squared errors over all folds."""
        total: Floats = np.sum([part(ridges) for part in parts], axis=0) + np.zeros(len(ridges))
        total[np.isnan(total)] = np.inf
        return total

    return errors
