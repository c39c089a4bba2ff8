"""Statistics kept apart by groups of rows, and solved together."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.uncertainty import Covariance
from onlinels.arrays import Floats, Integers, Matrix, row_blocks
from onlinels.spectrum import Spectrum, Sums


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

    def _add_rows(self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int) -> None:
        groups = self._groups(activations, targets)
        self._sum = None
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            for block in row_blocks(len(rows), activations.shape[1]):
                some = rows[block]
                weights = w if isinstance(w, float) else w[some]
                self._members[group]._add_rows(activations[some], targets[some], weights, sign)
        self._count += np.int64(sign * len(activations))

    def add_one(self, row: Floats, targets: Matrix, w: float) -> None:
        """Do as `add_known` for one row (1, n_features)."""
        self._add_rows(row, targets, w, 1)

    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""
        groups = self._groups(block, targets)
        self._sum = None
        for group in np.unique(groups):
            rows = groups == group
            weights = w if isinstance(w, float) else w[rows]
            self._members[group].accumulate(block[rows], targets[rows], weights)

    def _check_subtracts(self) -> None:
        self._prototype._check_subtracts()

    def _clear(self) -> None:
        super()._clear()
        for member in self._members:
            member._clear()

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self._prototype._check_kind(other._prototype)

    def _combine(self, other: Self, sign: int) -> None:
        self._sum = None
        for mine, theirs in zip(self._members, other._members, strict=False):
            (mine.merge if sign > 0 else mine.subtract)(theirs)

    def _add_weights(self, other: Self, sign: int) -> None:
        """Do nothing: the members count their weights."""

    def _scale(self, factor: float) -> None:
        self._sum = None
        for member in self._members:
            member.scale(factor)

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        n_features = max(n_features, self._n_features)
        n_targets = max(n_targets, self._n_targets)
        if (n_features, n_targets) == self._sizes:
            return
        self._sum = None
        for member in (self._prototype, *self._members):
            member.grow(n_features, n_targets)
        self._n_features, self._n_targets = n_features, n_targets

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        places = (feature_columns, target_columns, n_features, n_targets)
        placed = copy.copy(self)
        placed._prototype = self._prototype.placed(*places)
        placed._members = [member.placed(*places) for member in self._members]
        placed._sum = None
        placed._n_features, placed._n_targets = n_features, n_targets
        placed._weigh_like(self, feature_columns, target_columns)
        return placed

    def _keep_targets(self, columns: Integers) -> None:
        self._sum = None
        for member in (self._prototype, *self._members):
            member.keep_targets(columns)

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
