"""Which sums a row enters: those of all rows, those of its fold, and those of all but outliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Self

import numpy as np

from onlinels.checks import FEATURE_COUNT_REMEDY, check_room
from onlinels.core.constants import EPS, MUCH_LARGER
from onlinels.core.reference import hashes_of
from onlinels.numerics import Calls, is_array
from onlinels.rows.batch import Name
from onlinels.saving import savable
from onlinels.sums.audit import (
    REMOVAL_TOLERANCE,
    Names,
    are_gone,
    are_same_rows,
    check_left,
    check_removable,
    check_sum,
    dwarfing,
    dwarfing_ratio,
    exceeds,
    held_by,
    is_rounded,
    rounding_of_removal,
)
from onlinels.sums.axes import Places, Room, gathered, reindexed
from onlinels.sums.folds import Hashes, hashed_folds, name_hashes
from onlinels.sums.rows import Mean, Rows
from onlinels.sums.statistics import Statistics


def without_rows(before: Statistics, rows: Rows, names: Names) -> Statistics:
    """Return statistics without checked rows, and with features that only these had set to 0."""
    rows = rows._replace(sign=-1.0)
    check_removable(before, rows, names)
    weight = float(rows.weights().sum())
    if len(rows.targets) == before.count and before.weight <= (1.0 + REMOVAL_TOLERANCE) * weight:
        # Everything, including rounding errors.
        empty = type(before.products)(*before.products.shape)
        return Statistics.empty(empty, before.is_centred)
    new = before.with_rows(rows)
    check_left(new.squares, rounding_of_removal(before), names)
    if new.mean is not None:
        # Exactly, whatever rounding has left.
        gone = are_gone(new)
        new = new.changed(mean=Mean(*(np.where(gone, 0.0, each) for each in new.mean)))
    return new


def subsets_are_sound(subsets: Any) -> bool:
    """Return whether the statistics of loaded subsets fit each other."""
    whole, folds = subsets.whole, subsets.folds
    each = [whole, *(fold.whole for fold in folds)]
    each += [] if subsets.inliers is None else [subsets.inliers]
    kinds = {(type(one), type(one.products), one.products.shape, one.is_centred) for one in each}
    fits = type(folds) is tuple and len(folds) != 1 and not any(fold.folds for fold in folds)
    n_named = whole.n_features if folds else 0
    fits = fits and type(whole) is Statistics and len(kinds) == 1
    return fits and is_array(subsets.hashes, n_named, dtype=np.uint64)


NO_HASHES = np.zeros(0, dtype=np.uint64)


@savable(subsets_are_sound)
@dataclass(frozen=True, eq=False)
class Subsets:
    """Statistics of all rows of a model, and of some of its rows.

    Attributes
    ----------
    whole : Statistics
        Of all rows. All answers come from these.
    inliers : Statistics or None
        Of all rows but outliers, which dwarf them, if there are any (`onlinels.sums.audit`). They
        take over, with all their digits, when the last outlier is removed.
    folds : tuple of Subsets
        Of the rows of every fold, if a ridge is chosen from folds. The fold of a row is a function
        of the names and values of its features, so folds of two streams can be merged, and a
        removed row leaves the fold that learnt it.
    hashes : ndarray (n_features,)
        Hashes of the names of the features, for folds; empty without folds.
    """

    whole: Statistics
    inliers: Statistics | None = None
    folds: tuple[Subsets, ...] = ()
    hashes: Hashes = field(default_factory=lambda: NO_HASHES)

    @property
    def n_folds(self) -> int:
        """Number of folds; 1 without folds."""
        return max(1, len(self.folds))

    @property
    def is_usual(self) -> bool:
        """Whether there are only the statistics of all rows."""
        return self.inliers is None and not self.folds

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes needed to learn and to solve for these numbers of columns."""
        n_parts = 1 + len(self.folds) + (self.inliers is not None)
        return n_parts * self.whole.products.bytes_for(n_features, n_targets)

    def check_fits(self, n_features: int, n_targets: int) -> None:
        """Raise ValueError if these numbers of features and targets can never fit into memory.

        The limit is the memory of the machine, or `ONLINELS_MEMORY_LIMIT` bytes.
        """
        known = self.whole.products.shape
        if n_features > known[0] or n_targets > known[1]:
            sizes = max(n_features, known[0]), max(n_targets, known[1])
            what = "Learning and solving {:,} features with {:,} targets"
            check_room(self.bytes_for(*sizes), what, *sizes, remedy=FEATURE_COUNT_REMEDY)

    def each(self, function: Callable[[Statistics], Statistics]) -> Self:
        """Return these subsets with a function applied to the statistics of each."""
        inliers = None if self.inliers is None else function(self.inliers)
        folds = tuple(fold.each(function) for fold in self.folds)
        return replace(self, whole=function(self.whole), inliers=inliers, folds=folds)

    def copied(self) -> Self:
        """Return an independent copy."""
        return self.each(Statistics.copied)

    def scaled(self, factor: float) -> Self:
        """Return a copy with the weight of every row multiplied by a factor."""
        return self.each(lambda part: part.scaled(factor))

    def grown(self, n_features: int, n_targets: int, names: Sequence[Name]) -> Self:
        """Return subsets with room for features and targets that were 0 so far, or `self`.

        They share arrays in which nothing changes.
        """
        old = self.whole.products.shape
        if old[0] >= n_features and old[1] >= n_targets:
            return self
        return self.with_room(Room(old, (max(old[0], n_features), max(old[1], n_targets))), names)

    def with_room(self, room: Room, names: Sequence[Name]) -> Self:
        """Return subsets with room for more features, of all these names, and for more targets."""
        whole, inliers = self.whole.with_room(room), self.inliers and self.inliers.with_room(room)
        folds, hashes = self.folds, self.hashes
        if folds:
            folds = tuple(fold.with_room(room, ()) for fold in folds)
            hashes = np.concatenate((hashes, name_hashes(names[room.old[0] :])))
        return type(self)(whole, inliers, folds, hashes)

    def at(self, places: Places, names: Sequence[Name]) -> Self:
        """Return the subsets of other features, which have names, and of other targets."""
        new = self.each(lambda part: reindexed(part, places))
        if self.folds:
            hashes, others = gathered(self.hashes, places.features), places.features < 0
            if others.any():
                hashes[others] = name_hashes(compress(names, others))
            new = replace(new, hashes=hashes)
        return new

    # Rows.

    def by_fold(self, rows: Rows) -> list[Rows]:
        """Return the rows of every fold.

        Rows of weight 0, which are in no sums, are always in the first fold: a feature that only
        such rows have may leave before they do.
        """
        if not self.folds:
            return []
        places = hashed_folds(self.hashes, rows.values, len(self.folds))
        places[rows.weights() == 0.0] = 0
        return [rows.some(places == fold) for fold in range(len(self.folds))]

    def plus_rows(self, rows: Rows, decay: float) -> tuple[Self, Calls]:
        """Return subsets with rows, and calls that write products; see `Statistics.plus_rows`."""
        inliers, folds = self.inliers, list(self.folds)
        are_outliers = dwarfing(self.whole if inliers is None else inliers, rows, decay)
        if inliers is None and are_outliers.any():
            inliers = self.whole.copied()
        whole, calls = self.whole.plus_rows(rows, decay)
        if inliers is not None:
            inliers, more = inliers.plus_rows(rows.some(~are_outliers), decay)
            calls += more
        for number, part in enumerate(self.by_fold(rows)):
            if len(part.targets) or decay != 1.0:
                folds[number], more = folds[number].plus_rows(part, decay)
                calls += more
        return replace(self, whole=whole, inliers=inliers, folds=tuple(folds)), calls

    def for_row(self, row: Rows, decay: float) -> tuple[Self, Self | None, Calls]:
        """Return subsets into which `onlinels.core` can learn a row, and of these the row's fold.

        Calls let the other folds decay.
        """
        whole, inliers, folds = self.whole, self.inliers, list[Any](self.folds)
        own: Self | None = None
        calls: Calls = ()
        if inliers is None and dwarfing(whole, row, decay).any():
            inliers = whole.copied()
        if decay != 1.0:
            whole = replace(whole, rounding=whole.rounding.scaled(decay))
            inliers = inliers and replace(inliers, rounding=inliers.rounding.scaled(decay))
        for number, part in enumerate(self.by_fold(row)):
            if len(part.targets):
                own = folds[number] = folds[number].for_row(row, decay)[0]
            elif decay != 1.0:
                folds[number], more = folds[number].plus_rows(part, decay)
                calls += more
        return replace(self, whole=whole, inliers=inliers, folds=tuple(folds)), own, calls

    def without(self, rows: Rows, names: Names) -> Self:
        """Return subsets without checked rows, which every fold must hold."""
        folds = list(self.folds)
        for number, part in enumerate(self.by_fold(rows)):
            if len(part.targets):
                try:
                    folds[number] = folds[number].without(part, names)
                except ValueError as error:
                    raise ValueError(f"In fold {number}: {error}") from error
        new = replace(self, whole=without_rows(self.whole, rows, names), folds=tuple(folds))
        return new if self.inliers is None else new._without_inliers(self.whole, rows, names)

    def _without_inliers(self, before: Statistics, rows: Rows, names: Names) -> Self:
        """Return these subsets, whose inliers still hold removed rows, without these."""
        alone, inliers, whole = replace(self, inliers=None), self.inliers, self.whole
        assert inliers is not None
        rounding = rounding_of_removal(before)
        held = held_by(inliers, rows)
        if before.count - inliers.count == 1:
            # The outlier may have been outgrown; its fingerprint is what the inliers lack.
            hashes = hashes_of(np.hstack((rows.values, rows.dense_targets(whole.n_targets))))
            lacking = before.prints[0] - inliers.prints[0]
            (found,) = np.nonzero((hashes == lacking).all(axis=1))
            held = ~np.isin(np.arange(len(hashes)), found[:1])
        elif held.any() and whole.mean_weight != 1.0 and is_rounded(whole, inliers):
            return alone  # Outliers may have decayed, and be among these.
        try:
            inliers = without_rows(inliers, rows.some(held), names) if held.any() else inliers
        except ValueError:
            pass  # Some of the rows were outliers after all.
        else:
            if inliers.count < whole.count:
                return replace(self, inliers=inliers)
        is_same = abs(whole.weight - inliers.weight) <= REMOVAL_TOLERANCE * inliers.weight
        if inliers.count == whole.count and are_same_rows(whole, inliers):
            return replace(alone, whole=inliers)
        if inliers.count == whole.count and is_same:
            # Of the outliers, nothing may be left.
            check_left(-np.abs(whole.squares - inliers.squares), rounding, names)
        return alone

    def __add__(self, other: Self) -> Self:
        """Return the subsets of both streams, which have the same columns."""
        check_sum(self.whole, other.whole)
        folds = tuple(map(Subsets.__add__, self.folds, other.folds))
        inliers = self._joined_inliers(other)
        return replace(self, whole=self.whole + other.whole, inliers=inliers, folds=folds)

    def _joined_inliers(self, other: Self) -> Statistics | None:
        """Return the sum of the inliers of both, without what dwarfs it; None without outliers."""
        mine, theirs = (one.whole if one.inliers is None else one.inliers for one in (self, other))
        ratios = dwarfing_ratio(mine, theirs), dwarfing_ratio(theirs, mine)
        if mine is self.whole and theirs is other.whole and max(ratios) <= MUCH_LARGER:
            return None
        if ratios[0] > ratios[1]:
            mine, theirs = theirs, mine
        return mine + theirs if max(ratios) <= MUCH_LARGER else mine.copied()

    @property
    def is_dwarfed(self) -> bool:
        """Whether outliers are left for sure, whatever rounding hides."""
        if self.inliers is None:
            return False
        own = self.inliers.varying
        return bool((self.whole.varying > MUCH_LARGER * own)[own > 0.0].any())

    @property
    def is_alone(self) -> bool:
        """Whether no row dwarfs the others any longer, so that the whole may stand alone."""
        inliers, whole = self.inliers, self.whole
        if inliers is None or inliers.weight <= EPS * whole.weight:
            return True
        return not (exceeds(whole, inliers, 2.0) or is_rounded(whole, inliers))
