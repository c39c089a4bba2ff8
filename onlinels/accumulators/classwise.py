"""Statistics kept apart by classes, so that all classes count alike when weights are solved."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.grouped import GroupedAccumulator
from onlinels.accumulators.removal import row_squares
from onlinels.balance import balancing_factors
from onlinels.checks import TOO_MANY_FEATURES, Floats, Integers, Matrix
from onlinels.commit import AT_ONCE, Commit


class ClasswiseAccumulator(GroupedAccumulator):
    """Keep statistics for every class; what is solved weighs all classes alike.

    Solved is the sum over classes k of statistics S_k times n / (K n_k), for n_k the weight of
    the rows of class k, n that of all rows, and K the number of classes with weight. That is the
    batch solution on the same rows with every row's weight multiplied by n / (K n_k), whose n_k
    are those of now: no row needs to know how frequent its class is going to be.

    `weight` is that of the rows as they came; `target_squares`, `diagonal`, `spectrum` and
    everything that is solved are those of rows balanced in this way, whose total weight is n too.

    Parameters
    ----------
    make : callable
        Returns a new, empty accumulator of a kind whose ridge enters at solve time; rows and an
        intercept's means are balanced alike.

    Notes
    -----
    Memory: K times that of one accumulator, once more for the balanced sum while it is in use,
    and once more while it is made. Learning costs what it costs without classes. The sum is made
    when something is first asked for after learning: ``3 K M^2`` operations for M features in the
    Gram form, up to ``2 K M^3`` in the orthogonal form.

    A class whose weight has decayed to 1e-200 of all counts as one without weight, which adds
    nothing.

    Examples
    --------
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> acc = ClasswiseAccumulator(GramAccumulator)
    >>> acc.update(np.array([[1.0], [1.0], [1.0], [2.0]]), np.array([0, 0, 0, 1]))
    >>> acc.total.gram, acc.total.cross, acc.weight
    (array([[10.]]), array([[2., 4.]]), 4.0)
    """

    room_remedy = 'Set balance="priors", which keeps statistics once. ' + TOO_MANY_FEATURES

    def __init__(self, make: Callable[[], Accumulator]) -> None:
        super().__init__(make, 0)
        self._add_members()

    def _n_members_for(self, n_targets: int) -> int:
        return n_targets

    def _add_members(self) -> None:
        missing = self._n_targets - len(self._members)
        self._members += [copy.deepcopy(self._prototype) for _ in range(missing)]

    def _member(self, column: int) -> Accumulator:
        """Return the statistics of a class, empty ones if it is not known."""
        return self._members[column] if column < len(self._members) else self._prototype

    def _groups(self, activations: Matrix, targets: Matrix) -> Integers:
        return targets.astype(np.intp)

    def _summed(self) -> Accumulator:
        total = copy.deepcopy(self._prototype)
        held = [member._held_squares[column] for column, member in enumerate(self._members)]
        factors = balancing_factors(np.array(held, dtype=np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            for member, factor in zip(self._members, factors.tolist(), strict=True):
                if factor > 0.0:
                    balanced = copy.deepcopy(member)
                    balanced.scale(factor)
                    # Nobody sees the half of it: the total is new.
                    total.plan_merger(balanced, 1, AT_ONCE)
                    # Rounding errors of what was taken out are larger by the same factor.
                    total._remove_squares(*balanced._removed)
            _check_finite(total._raw_squares(), factors)
        return total

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), in what is solved."""
        return self.total.diagonal

    def _read(
        self, activations: Matrix, targets: Matrix, w: Any
    ) -> tuple[Matrix, Matrix, int, float | Floats]:
        read = super()._read(activations, targets, w)
        if read[1].ndim != 1:
            raise ValueError(
                f"targets has shape {read[1].shape}, expected ({len(read[0])},): a row belongs to "
                "one class. Pass the integer columns of the labels."
            )
        return read

    def removal(self, activations: Matrix, targets: Matrix, w: Any) -> Any:
        """Return what plans the removal of rows on a draft, each from its class, or raise."""
        self._check_subtracts()
        activations, targets, n_targets, w = self._read(activations, targets, w)
        weights = np.broadcast_to(w, len(activations))
        groups = self._groups(activations, targets)
        removals = {}
        for group in np.unique(groups).tolist():
            rows = groups == group
            part = activations[rows], groups[rows], weights[rows]
            removals[group] = self._member(group).removal(*part)
        taken = row_squares(activations, groups, n_targets, weights)

        def plan(draft: Self, commit: Commit) -> None:
            """Take the rows out."""
            draft.plan_growth(activations.shape[1], n_targets)
            for group, remove in removals.items():
                remove(draft._drafted(group), commit)
            draft._note_removal(len(activations), *taken, commit)

        return plan

    def subtract(self, other: Self) -> None:
        """Take the statistics of `other` away, in place; see `Accumulator.subtract`."""
        self._check_kind(other)
        self._check_subtracts()
        for column, theirs in enumerate(other._members):
            self._member(column)._check_holds(theirs)
        count, taken = other.count, other._raw_squares()

        def plan(draft: Self, commit: Commit) -> None:
            """Take the statistics out."""
            draft.plan_growth(other.n_features, other.n_targets)
            draft._combine(other, -1, commit)
            draft._note_removal(count, *taken, commit)

        self._make(plan)

    def _note_removal(self, n_rows: int, features: Floats, targets: Floats, commit: Commit) -> None:
        self._sum = None
        self._count -= np.int64(n_rows)
        self._remove_squares(features, targets)
        if not (self._count or self.weight):
            self._clear(commit)

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features, and for classes without rows so far."""
        super().plan_growth(n_features, n_targets)
        self._add_members()

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        placed = super().placed(feature_columns, target_columns, n_features, n_targets)
        moved, placed._members = placed._members, []
        placed._add_members()
        for column, member in zip(target_columns, moved, strict=True):
            placed._members[column] = member
        return placed

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        """Drop all classes but some, with their rows."""
        super()._keep_targets(columns, commit)
        self._members = [self._members[column] for column in columns]
        self._count = np.int64(sum(member.count for member in self._members))


def _check_finite(squares: tuple[Floats, Floats], factors: Floats) -> None:
    """Raise if balanced sums of squares are beyond float64."""
    if not all(np.isfinite(sums).all() for sums in squares):
        raise ValueError(
            f"balanced, a class would weigh {factors.max():.1g} times what it does, and sums of "
            "squares would exceed float64, expected less. Rescale features or weights of rows, or "
            'set balance="priors".'
        )
