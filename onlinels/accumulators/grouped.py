"""Statistics kept apart by groups of rows, and solved together."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.planning import ONE
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats, Integers, Matrix
from onlinels.commit import Commit
from onlinels.linalg.selection import Spectrum, Sums


class GroupedAccumulator(Accumulator):
    """Learn every row into the accumulator of its group; what is solved is made of all of them.

    Parameters
    ----------
    make : callable
        Returns a new, empty accumulator of a kind whose ridge enters at solve time.
    n_groups : int
        Groups at the start.
    """

    def __init__(self, make: Callable[[], Accumulator], n_groups: int) -> None:
        self._prototype = make()
        self._members = [copy.deepcopy(self._prototype) for _ in range(n_groups)]
        super().__init__(self._prototype.n_features, self._prototype.n_targets)
        self._sum: Accumulator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sum": None}

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        n_members = max(len(self._members), self._n_members_for(n_targets)) + 1
        return n_members * self._prototype.bytes_for(n_features, n_targets)

    def _n_members_for(self, n_targets: int) -> int:
        """Return how many groups so many targets need; by default it does not depend on them."""
        return 0

    @abstractmethod
    def _groups(self, activations: Matrix, targets: Matrix) -> Integers:
        """Return the group of every row, (n,)."""

    @abstractmethod
    def _summed(self) -> Accumulator:
        """Return a new accumulator of what is solved."""

    @property
    def total(self) -> Accumulator:
        """What is solved. It is kept until something changes; do not change it."""
        if self._sum is None:
            self._sum = self._summed()
        return self._sum

    @property
    def weight(self) -> float:
        """Total weight of the rows learnt, as it counts now."""
        return sum(member.weight for member in self._members)

    @property
    def target_squares(self) -> Floats:
        """Every target's weighted sum of squares, (n_targets,), in what is solved."""
        return self.total.target_squares

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), in what is solved."""
        return self._without_residue(self.total.diagonal)

    def _raw_squares(self) -> tuple[Floats, Floats]:
        squares = [member._raw_squares() for member in self._members]
        features, targets = np.zeros(self._n_features), np.zeros(self._n_targets)
        for of_features, of_targets in squares:
            features[: len(of_features)] += of_features
            targets[: len(of_targets)] += of_targets
        return features, targets

    def draft(self) -> Self:
        """Return statistics to plan changes on; its members are those of the original at first."""
        draft = super().draft()
        draft._members = self._members.copy()
        return draft

    def _drafted(self, group: int) -> Accumulator:
        """Return a member of a draft, as a draft, too."""
        self._sum = None
        member = self._members[group] = self._members[group].draft()
        return member

    def plan_rows(
        self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int, commit: Commit
    ) -> None:
        """Learn checked rows, each in its group, with weights of the given sign."""
        groups = self._groups(activations, targets)
        for group in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == group)
            weights = w if isinstance(w, float) else w[rows]
            self._drafted(group).plan_rows(activations[rows], targets[rows], weights, sign, commit)
        self._count += np.int64(sign * len(activations))

    def plan_row(self, row: Floats, targets: Matrix, commit: Commit) -> bool:
        """Add a row to its group; the sum of the groups is to be made anew in any case."""
        (group,) = self._groups(row, targets).tolist()
        commit.set(self, _sum=None, _count=self._count + ONE)
        member: Accumulator = self._members[group]
        return member.plan_row(row, targets, commit)

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        groups = self._groups(block, targets)
        for group in np.unique(groups).tolist():
            rows = groups == group
            weights = w if isinstance(w, float) else w[rows]
            self._drafted(group).accumulate(block[rows], targets[rows], weights, commit)

    def _check_subtracts(self) -> None:
        self._prototype._check_subtracts()

    def _clear(self, commit: Commit) -> None:
        super()._clear(commit)
        for group in range(len(self._members)):
            self._drafted(group)._clear(commit)

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self._prototype._check_kind(other._prototype)

    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        for group, theirs in enumerate(other._members):
            taken = [] if sign > 0 else self._members[group]._check_holds(theirs)
            mine = self._drafted(group)
            if sign > 0:
                mine.plan_merger(theirs, 1, commit)
            else:
                mine._plan_subtraction(theirs, taken, commit)

    def _add_weights(self, other: Self, sign: int) -> None:
        """Do nothing: the members count their weights."""

    def _scale(self, factor: float, commit: Commit) -> None:
        for group in range(len(self._members)):
            self._drafted(group).plan_scaling(factor, commit)

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far."""
        n_features = max(n_features, self._n_features)
        n_targets = max(n_targets, self._n_targets)
        if (n_features, n_targets) == self._sizes:
            return
        self._prototype = self._prototype.draft()
        self._prototype.plan_growth(n_features, n_targets)
        for group in range(len(self._members)):
            self._drafted(group).plan_growth(n_features, n_targets)
        self._n_features, self._n_targets = n_features, n_targets

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        places = (feature_columns, target_columns, n_features, n_targets)
        placed = object.__new__(type(self))
        vars(placed).update(vars(self))
        placed._prototype = self._prototype.placed(*places)
        placed._members = [member.placed(*places) for member in self._members]
        placed._sum = None
        placed._n_features, placed._n_targets = n_features, n_targets
        placed._weigh_like(self, feature_columns, target_columns)
        return placed

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        self._prototype = self._prototype.draft()
        self._prototype.plan_choice(columns, commit)
        for group in range(len(self._members)):
            self._drafted(group).plan_choice(columns, commit)

    def spectrum(self) -> Spectrum:
        """Return the spectrum of what is solved."""
        return self.total.spectrum()

    def sums_about(self, centre: Self) -> Sums:
        """Return the sums of products of what is solved; see `Accumulator.sums_about`."""
        return self.total.sums_about(centre.total)

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return (A'A + c I)^-1; see `Uncertainty.covariance`."""
        return self.total.covariance(ridge, self.diagonal if diagonal is None else diagonal)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return by how much weights lower every target's sum of squares, (n_targets,)."""
        return self.total.explained_squares(output_weights)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets)."""
        return self.total.solve(ridge, self.diagonal if diagonal is None else diagonal)

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,) that goes with the output weights."""
        return self.total.intercept(output_weights)
