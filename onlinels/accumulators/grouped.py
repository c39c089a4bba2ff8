"""Statistics kept apart by groups of rows, and solved together: by classes, or in folds."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from onlinels.accumulators.statistics import (
    Names,
    Statistics,
    check_sizes,
    check_sums,
    growths,
    held,
)
from onlinels.accumulators.sums import Rows
from onlinels.checks import TOO_MANY_FEATURES, Floats, Integers
from onlinels.linalg.recursion import Recursion
from onlinels.linalg.sketch import RESIDUE
from onlinels.numerics import Calls, State, joined, shallow_copy
from onlinels.rows import Name
from onlinels.saving import listed, made_of, maybe, savable

LIGHTEST = 1e-200
"""Share of all weight up to which a class has none: its sums have lost their digits."""

GROUP = {
    "_empty": made_of(Statistics),
    "_members": listed(made_of(Statistics)),
    "_total": maybe(made_of(Statistics)),
}


def group_is_sound(group: Any) -> bool:
    """Tell whether the parts of a group that came out of a file fit each other."""
    members = [group._empty, *group._members]
    kinds = {(type(each.products), each.is_centred, each.n_features) for each in members}
    return len(kinds) == 1


class StatisticsGroup(ABC):
    """Hold several statistics; a row is learnt by one of them, and the sum of all is solved.

    Parameters
    ----------
    empty : Statistics
        Statistics without rows, as every group begins.
    n_groups : int
    """

    n_folds = 1
    recursion: Recursion | None = None
    holds_ridge = False
    room_remedy = TOO_MANY_FEATURES

    group_name: ClassVar[str]
    """The word for a group in messages."""

    def __init__(self, empty: Statistics, n_groups: int) -> None:
        self._empty = empty
        self._members = [empty.copied() for _ in range(n_groups)]
        # The sum, until something changes.
        self._total: Statistics | None = None

    @abstractmethod
    def _groups(self, rows: Rows) -> Integers:
        """Return the group of every row, (n,)."""

    @abstractmethod
    def _summed(self) -> Statistics:
        """Return new statistics of all rows, as they are solved."""

    @property
    def total(self) -> Statistics:
        """The statistics that are solved: kept until something changes, and not to be changed."""
        if self._total is None:
            self._total = self._summed()
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
        """Return the sums of squares of features and targets of all groups, not about means."""
        features, targets = zip(*(each.raw_squares() for each in self._all()), strict=True)
        return np.sum(features, axis=0), np.sum(targets, axis=0)

    def squares_taken(self) -> tuple[Floats, Floats]:
        """Return the raw squares of features and targets that were taken out of all groups."""
        features, targets = zip(*(each.squares_taken() for each in self._all()), strict=True)
        return np.sum(features, axis=0), np.sum(targets, axis=0)

    def held_targets(self, share: float = RESIDUE) -> Floats:
        """Return every target's sum of squares, 0 where all is out; labels': their weights."""
        return held(self, share)

    def check_room(self, n_features: int, n_targets: int) -> None:
        """Raise ValueError if so many features and targets can never fit into memory."""
        check_sizes(self, n_features, n_targets, self.room_remedy)

    def check_joins(self, other: Any, n_features: int, n_targets: int) -> None:
        """Raise ValueError if statistics of two streams can never be held together."""
        self.check_room(n_features, n_targets)
        check_sums(self, other)

    def _all(self) -> list[Statistics]:
        return [self._empty, *self._members]

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return (len(self._members) + 1) * self._empty.bytes_for(n_features, n_targets)

    def scores_by(self, solution: Recursion, sample: Floats) -> Floats:
        """Return the scores (n_targets,) that a solution gives a sample, whose targets are 0."""
        return self.total.scores_by(solution, sample)

    # Rows.

    def plan(self, rows: Rows, decay: float = 1.0) -> tuple[Calls, State]:
        """Plan to let all groups decay and to learn rows, each in its group."""
        groups = self._groups(rows) if len(rows.targets) else np.zeros(0, dtype=np.intp)
        present = set(np.unique(groups).tolist())
        changes = [self._members[k].plan(rows.some(groups == k), decay) for k in present]
        calls, state = joined(*changes, *self._plan_decay(present, decay))
        return calls, (*state, (self, "_total", None))

    def plan_row(
        self,
        sample: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        recursion: Recursion | None = None,
    ) -> tuple[Calls, State]:
        """Plan to let all groups decay and to learn one row in its group."""
        row = sample[None, : self.n_features], sample[None, self.n_features :]
        (group,) = self._groups(Rows(*row, w)).tolist()
        changes = [self._members[group].plan_row(sample, w, decay)]
        changes += self._plan_decay({group}, decay)
        total = self.total if recursion is not None else None
        if total is not None:
            # Rows that a recursion beside the sum learns are in the sum, too.
            changes.append(total.plan_row(sample, w, decay, recursion))
        calls, state = joined(*changes)
        return calls, (*state, (self, "_total", total))

    def _plan_decay(self, others: set[int], decay: float) -> list[tuple[Calls, State]]:
        """Plan to let all groups decay but some."""
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
        """Return a copy in which every group is without its rows."""
        self._empty.products.check_subtracts()
        groups, members = self._groups(rows), list(self._members)
        for number in np.unique(groups).tolist():
            try:
                members[number] = members[number].without(rows.some(groups == number), names)
            except ValueError as error:
                raise ValueError(f"In {self.group_name} {number} {error}") from error
        return self._of(self._empty, members)

    def grown(self, n_features: int, n_targets: int) -> Self:
        """Return it with room for more features and targets: itself, if it has that."""
        places = growths(self, n_features, n_targets)
        return self if places is None else self.reindexed(*places)

    def named(self, names: Sequence[Name]) -> Self:
        """Return it with the names of all features, by column, which folds need."""
        return self

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
        empty, *members = [each.reindexed(features, targets) for each in self._all()]
        return self._of(empty, members)

    def merged(self, placed: Any) -> Any:
        """Return the statistics of both, in the memory of `placed`, which has all columns."""
        for theirs, mine in zip(placed._members, self._members, strict=False):
            theirs.absorb(mine, 1.0)
        placed._total = None
        return placed

    def _of(self, empty: Statistics, members: list[Statistics]) -> Self:
        """Return a group of other statistics."""
        new = shallow_copy(self)
        new._empty, new._members, new._total = empty, members, None
        return new


AnyStatistics = Statistics | StatisticsGroup


def joined_statistics(parts: Sequence[Statistics]) -> Statistics:
    """Return new statistics that have learnt the rows of all parts."""
    total = parts[0].copied()
    for part in parts[1:]:
        total.absorb(part, 1.0)
    return total


def balancing_factors(weights: Floats) -> Floats:
    """Return n / (K n_k) of every class k, by which classes of any weight n_k count alike.

    Classes, the last axis, do not count without weight.

    Examples
    --------
    >>> balancing_factors(np.array([30.0, 10.0, 0.0]))
    array([0.66666667, 2.        , 0.        ])
    """
    totals = weights.sum(axis=-1, keepdims=True)
    present = weights > LIGHTEST * np.maximum(totals, 0.0)
    shares = present.sum(axis=-1, keepdims=True) * weights
    factors: Floats = np.divide(totals, shares, out=np.zeros(weights.shape), where=present)
    return factors


@savable(GROUP, group_is_sound)
class ClasswiseStatistics(StatisticsGroup):
    """Keep statistics for every class; what is solved weighs all classes alike.

    Solved is the sum over classes k of statistics S_k times n / (K n_k), for n_k the weight of
    the rows of class k, n that of all rows, and K the number of classes with weight. That is the
    batch solution on the same rows with every row's weight multiplied by n / (K n_k), whose n_k
    are those of now: no row needs to know how frequent its class is going to be.

    `weight` is that of the rows as they came; `total` is of rows balanced in this way, whose total
    weight is n too.

    Parameters
    ----------
    empty : Statistics
        Statistics without rows, as every class begins, whose ridge enters at solve time. Rows and
        an intercept's means are balanced alike.

    Notes
    -----
    Memory: K times that of one class, and once more for the balanced sum while it is in use.
    Learning costs what it costs without classes. The sum is made when something is first asked for
    after learning: ``2 K M^2`` operations for M features in the Gram form, up to ``2 K M^3`` in the
    orthogonal form.

    A class whose weight has decayed to 1e-200 of all counts as one without weight, which adds
    nothing.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramSums
    >>> from onlinels.numerics import apply
    >>> classes = ClasswiseStatistics(Statistics(GramSums(1, 2), False))
    >>> rows = Rows(np.array([[1.0], [1.0], [1.0], [2.0]]), np.array([0, 0, 0, 1]))
    >>> apply(classes.plan(rows))
    >>> classes.total.sums().gram, classes.total.sums().cross, classes.weight
    (array([[10.]]), array([[2., 4.]]), 4.0)
    """

    group_name = "class"
    room_remedy = 'Set balance="priors", which keeps statistics once. ' + TOO_MANY_FEATURES

    def __init__(self, empty: Statistics) -> None:
        super().__init__(empty, empty.n_targets)

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return (n_targets + 1) * self._empty.bytes_for(n_features, n_targets)

    def _groups(self, rows: Rows) -> Integers:
        labels = rows.targets if rows.targets.ndim == 1 else rows.targets.argmax(axis=1)
        return labels.astype(np.intp)

    def _summed(self) -> Statistics:
        held = [member.held_targets()[column] for column, member in enumerate(self._members)]
        total, factors = self._empty.copied(), balancing_factors(np.array(held))
        with np.errstate(over="ignore", invalid="ignore"):
            for member, factor in zip(self._members, factors.tolist(), strict=True):
                if factor > 0.0:
                    total.absorb(member, factor)
            squares = total.raw_squares()
        if not all(np.isfinite(sums).all() for sums in squares):
            raise ValueError(
                f"balanced, a class would weigh {factors.max():.1g} times what it does, and sums "
                "of squares would exceed float64, expected less. Rescale features or weights of "
                'rows, or set balance="priors".'
            )
        return total

    def reindexed(self, features: Integers, targets: Integers) -> Self:
        """Return the statistics of the given features and classes, new ones for -1."""
        new = super().reindexed(features, targets)
        new._members = [
            new._members[column] if column >= 0 else new._empty.copied()
            for column in targets.tolist()
        ]
        return new
