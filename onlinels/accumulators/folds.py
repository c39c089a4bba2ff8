"""Statistics in folds, chosen by a row's content, and the errors of ridges on held-out folds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from onlinels.accumulators.statistics import (
    Names,
    Statistics,
    check_sizes,
    check_sums,
    growths,
)
from onlinels.accumulators.sums import Rows
from onlinels.checks import Floats, Integers, check_count
from onlinels.hashing import hashed_folds, name_hashes
from onlinels.linalg.packed import is_growth
from onlinels.linalg.recursion import Recursion
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
from onlinels.linalg.sketch import RESIDUE
from onlinels.numerics import Calls, State, joined, shallow_copy
from onlinels.rows import Name
from onlinels.saving import WHOLE, array, listed, made_of, maybe, savable


def _are_sound_folds(folds: Any) -> bool:
    members = [folds._empty, *folds._members]
    kinds = {(type(each.products), each.is_centred, each.n_features) for each in members}
    enough = len(folds._members) > 1 and folds._n_named <= len(folds._hashes) == folds.n_features
    return enough and len(kinds) == 1


@savable(
    {
        "_empty": made_of(Statistics),
        "_members": listed(made_of(Statistics)),
        "_total": maybe(made_of(Statistics)),
        "_hashes": array("u8", 1),
        "_n_named": WHOLE,
    },
    _are_sound_folds,
)
class FoldedStatistics:
    """Keep rows in K folds, chosen by their content; their sum is what is solved.

    A row's fold is a function of its features' names and values (`fold_of_rows`).
    So folds of two streams merge, and a row that is taken out leaves the fold that it went to.

    Parameters
    ----------
    empty : Statistics
        Statistics without rows, as every fold begins, whose ridge enters at solve time.
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

    recursion: Recursion | None = None
    holds_ridge = False

    def __init__(self, empty: Statistics, n_folds: int) -> None:
        check_count("n_folds", n_folds, 2)
        self._empty = empty
        self._members = [empty.copied() for _ in range(n_folds)]
        # The sum, until something changes.
        self._total: Statistics | None = None
        self._hashes = name_hashes(range(self.n_features))
        self._n_named = 0

    @property
    def n_folds(self) -> int:
        """Number K of folds."""
        return len(self._members)

    @property
    def total(self) -> Statistics:
        """The statistics that are solved: kept until something changes, and not to be changed."""
        if self._total is None:
            self._total = joined_statistics(self._members)
        return self._total

    @property
    def n_features(self) -> int:
        """Number of columns of the activations."""
        return self._empty.n_features

    @property
    def n_targets(self) -> int:
        """Number of targets (classes)."""
        return self._empty.n_targets

    @property
    def count(self) -> int:
        """Number of rows learnt, whatever their weights."""
        return sum(member.count for member in self._members)

    @property
    def weight(self) -> float:
        """Total weight of the rows learnt, as it counts now."""
        return sum(member.weight for member in self._members)

    @property
    def is_centred(self) -> bool:
        """Whether rows are learnt about their mean."""
        return self._empty.is_centred

    def raw_squares(self) -> tuple[Floats, Floats]:
        """Return the weighted sums of squares of features and targets, not about their means."""
        features, targets = zip(*(each.raw_squares() for each in self._members), strict=True)
        return np.sum(features, axis=0), np.sum(targets, axis=0)

    def held_targets(self, share: float = RESIDUE) -> Floats:
        """Return every target's sum of squares, 0 where all is out; labels': their weights."""
        return self.total.held_targets(share)

    def check_room(self, n_features: int, n_targets: int) -> None:
        """Raise ValueError if so many features and targets can never fit into memory."""
        check_sizes(self, n_features, n_targets)

    def check_joins(self, other: Any, n_features: int, n_targets: int) -> None:
        """Raise ValueError if statistics of two streams can never be held together."""
        self.check_room(n_features, n_targets)
        check_sums(self, other)

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return (len(self._members) + 1) * self._empty.bytes_for(n_features, n_targets)

    def scores_by(self, solution: Recursion, sample: Floats) -> Floats:
        """Return the scores (n_targets,) that a solution gives a sample, whose targets are 0."""
        return self.total.scores_by(solution, sample)

    # Rows.

    def _folds(self, rows: Rows) -> Integers:
        """Return the fold of every row, (n,)."""
        return hashed_folds(self._hashes, rows.values, self.n_folds)

    def plan(self, rows: Rows, decay: float = 1.0) -> tuple[Calls, State]:
        """Plan to let all folds decay and to learn rows, each in its fold."""
        folds = self._folds(rows) if len(rows.targets) else np.zeros(0, dtype=np.intp)
        present = set(np.unique(folds).tolist())
        changes = [self._members[k].plan(rows.some(folds == k), decay) for k in present]
        calls, state = joined(*changes, *self._plan_decay(present, decay))
        return calls, (*state, (self, "_total", None))

    def plan_row(
        self,
        sample: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        recursion: Recursion | None = None,
    ) -> tuple[Calls, State]:
        """Plan to let all folds decay and to learn one row in its fold."""
        row = sample[None, : self.n_features], sample[None, self.n_features :]
        (fold,) = self._folds(Rows(*row, w)).tolist()
        changes = [self._members[fold].plan_row(sample, w, decay)]
        changes += self._plan_decay({fold}, decay)
        total = self.total if recursion is not None else None
        if total is not None:
            # Rows that a recursion beside the sum learns are in the sum, too.
            changes.append(total.plan_row(sample, w, decay, recursion))
        calls, state = joined(*changes)
        return calls, (*state, (self, "_total", total))

    def _plan_decay(self, others: set[int], decay: float) -> list[tuple[Calls, State]]:
        """Plan to let all folds decay but some."""
        if decay == 1.0:
            return []
        fading = [each for k, each in enumerate(self._members) if k not in others]
        return [each.plan(Rows.none(each.n_features), decay) for each in fading]

    # Rare changes: a new object aside.

    def copied(self) -> Self:
        """Return an independent copy."""
        return copy.deepcopy(self)

    def scaled(self, factor: float) -> Self:
        """Return a copy in which everything learnt weighs a factor of what it did."""
        return self._of(self._empty, [member.scaled(factor) for member in self._members])

    def without(self, rows: Rows, names: Names) -> Self:
        """Return a copy in which every fold is without its rows."""
        folds, members = self._folds(rows), list(self._members)
        for number in np.unique(folds).tolist():
            try:
                members[number] = members[number].without(rows.some(folds == number), names)
            except ValueError as error:
                raise ValueError(f"In fold {number} {error}") from error
        return self._of(self._empty, members)

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return it with room for more features and targets: itself, if it has that."""
        places = growths(self, n_features, n_targets)
        return self if places is None else self.reindexed(*places)

    def named(self, names: Sequence[Name]) -> Self:
        """Return it with the names of all features, in the order of their columns."""
        if self._n_named >= len(names):
            return self
        new = shallow_copy(self)
        hashes = self._hashes[: self._n_named], name_hashes(names[self._n_named :])
        new._hashes, new._n_named = np.concatenate(hashes), len(names)
        return new

    def with_ridge(self, ridge: float, units: Floats | None = None) -> Self:
        """Return it: no ridge is inside, it enters when the sum is solved."""
        return self

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return it: units enter when the sum is solved."""
        return self

    def restored(self) -> Self:
        """Return it: no ridge inside has decayed."""
        return self

    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the statistics of the given features and targets, new ones for -1."""
        members = [each.reindexed(features, targets) for each in self._members]
        new = self._of(self._empty.reindexed(features, targets), members)
        known = features >= 0
        if not is_growth(features, self.n_features):
            new._n_named = 0
        new._hashes = np.empty(len(features), dtype=np.uint64)
        new._hashes[known] = self._hashes[features[known]]
        new._hashes[~known] = name_hashes(np.flatnonzero(~known).tolist())
        return new

    def merged(self, placed: Any) -> Any:
        """Return the statistics of both, in the memory of `placed`, which has all columns."""
        for theirs, mine in zip(placed._members, self._members, strict=True):
            theirs.absorb(mine, 1.0)
        placed._total = None
        return placed

    def _of(self, empty: Statistics, members: list[Statistics]) -> Self:
        """Return folds of other statistics."""
        new = shallow_copy(self)
        new._empty, new._members, new._total = empty, members, None
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


AnyStatistics = Statistics | FoldedStatistics


def joined_statistics(parts: Sequence[Statistics]) -> Statistics:
    """Return new statistics that have learnt the rows of all parts."""
    total = parts[0].copied()
    for part in parts[1:]:
        total.absorb(part, 1.0)
    return total


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
