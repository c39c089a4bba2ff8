"""Rows about their mean, for any accumulator: what an exact intercept needs of a stream."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.mean import Mean
from onlinels.arrays import Floats, Integers, Matrix, uncast
from onlinels.targets import target_sums

CONSTANT = 1e-28
"""Variance, relative to the squared mean, up to which a feature is constant (deviation 1e-14)."""

EMPTY = 1e-14
"""Total weight, relative to the weights that led to it, up to which nothing is left."""


class CoMoments(Accumulator):
    """Means, and sums of squares and products about them, of rows that come and go.

    Two groups of rows with total weights p and q, means m and n have the co-moment
    C = C_p + C_q + p q / (p + q) (n - m)(n - m)' (Chan, Golub and LeVeque). The last term is one
    more row, n - m with weight p q / (p + q). So a batch becomes its rows minus their mean, and
    that one row; a merger adds the co-moments, and that one row. What holds the co-moments needs
    to know nothing of this.

    Parameters
    ----------
    comoments : Accumulator
        An empty accumulator, which will hold the centred rows.

    References
    ----------
    T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance:
    analysis and recommendations", The American Statistician 37 (1983), equation 2.1.
    """

    def __init__(self, comoments: Accumulator) -> None:
        super().__init__(comoments.n_features, comoments.n_targets)
        self._comoments = comoments
        self._feature_mean = Mean.zeros(comoments.n_features)
        self._target_mean = Mean.zeros(comoments.n_targets)

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares about its mean, (n_features,).

        What is at the level of rounding errors beside the mean counts as 0: the feature is
        constant.
        """
        squares = self._comoments.diagonal
        squares[squares <= CONSTANT * self._weight * self._feature_mean.value**2] = 0.0
        return self._without_residue(squares)

    def _raw_squares(self) -> tuple[Floats, Floats]:
        about = self._comoments._raw_squares()
        return (
            about[0] + self._weight * self._feature_mean.value**2,
            self.target_squares + self._weight * self._target_mean.value**2,
        )

    def accumulate(self, block: Matrix, targets: Matrix, w: float | Floats) -> None:
        """Add checked float rows with weights of any one sign, without counting them."""
        total = w * len(block) if isinstance(w, float) else float(w.sum())
        if total == 0.0:
            return
        if len(block) == 1:
            self._accumulate_one(block[0], targets, total)
            return
        centred, mean = _about_mean(block, w, total)
        about, targets_mean = self._centred_targets(targets, w, total)
        if not self._empties(total):
            self._comoments.accumulate(centred, about, w)
        self._shift(mean, targets_mean, total)

    def _cast(self, rows: Matrix) -> Matrix:
        # Cast as they are centred, in one pass instead of two.
        return uncast(rows) if len(rows) > 1 else super()._cast(rows)

    def harmless_length(self, weight: float) -> float:
        """Return how long rows may be that cannot outweigh a ridge inside the co-moments."""
        about = self._comoments.harmless_length(weight)
        if about == np.inf:
            return about
        # Neither a row about its mean nor the difference of the means is longer than twice a row
        # and the mean so far, which rows of this length move no further from 0 than they lie.
        mean = float(np.linalg.norm(self._feature_mean.value))
        return min((about - mean) / 2.0, about / 3.0)

    def _check_rows(self, activations: Matrix, w: float | Floats) -> None:
        """Raise if the rows about their mean and the row between the means cannot be added."""
        total = w * len(activations) if isinstance(w, float) else float(w.sum())
        if self.fixed_ridge is None or total == 0.0 or self._empties(total):
            return
        after = self._weight + total
        if after < 0.0:
            raise ValueError(
                f"w holds {-total:g} in all, expected at most the {self._weight:g} that was "
                "learnt. Take out only rows that are in, with the weights that they have now."
            )
        rows, mean = _about_mean(np.asarray(activations, dtype=np.float64), w, total)
        apart = mean.minus(self._feature_mean.lengthened(rows.shape[1]))
        between = self._weight * (total / after)
        weights = np.append(np.broadcast_to(w, len(rows)), between)
        self._comoments._check_rows(np.vstack([rows, apart]), weights)

    def _empties(self, weight: float) -> bool:
        """Tell whether nothing but rounding errors is left once a (negative) weight is added."""
        return abs(self._weight + weight) <= EMPTY * (self._weight + abs(weight))

    def _accumulate_one(self, row: Floats, targets: Matrix, w: float) -> None:
        """Add a row, which is its own mean."""
        total = self._weight + w
        if not self._weight or self._empties(w):
            self._shift(Mean.of(row), self._mean_of_one(targets), w)
            return
        apart, targets_apart = self._feature_mean.to(row), self._target_mean.to_target(targets)
        between, share = self._weight * (w / total), w / total
        self._comoments.accumulate(apart[None], targets_apart[None], between)
        self._target_squares = self._target_squares + between * targets_apart**2
        apart *= share
        targets_apart *= share
        self._feature_mean = self._feature_mean.moved(apart)
        self._target_mean = self._target_mean.moved(targets_apart)
        self._weight = total

    def _mean_of_one(self, targets: Matrix) -> Mean:
        """Return the target of a single row as its own mean."""
        value = np.zeros(self._n_targets)
        if targets.ndim == 1:
            value[targets[0]] = 1.0
        else:
            value[: targets.shape[1]] = targets[0]
        return Mean.of(value)

    def _centred_targets(
        self, targets: Matrix, w: float | Floats, total: float
    ) -> tuple[Matrix, Mean]:
        """Return targets about their mean, and the mean; their squares are accounted for.

        Label columns stay as they are: their weighted sum over centred rows is the same.
        """
        weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(targets))
        if targets.ndim == 1:
            shares = target_sums(targets, self._n_targets, weights) / total
            self._target_squares = self.target_squares + total * shares * (1.0 - shares)
            return targets, Mean(np.zeros(self._n_targets), shares)
        about = targets - targets[0]
        shift = target_sums(about, self._n_targets, weights) / total
        about -= shift[: targets.shape[1]]
        squares = target_sums(about**2, self._n_targets, weights)
        self._target_squares = self.target_squares + squares
        return about, Mean(lengthened(targets[0].copy(), self._n_targets), shift)

    def _shift(self, feature_mean: Mean, target_mean: Mean, weight: float) -> None:
        """Join (or, of negative weight, part from) rows whose centred form is accounted for."""
        total = self._weight + weight
        if self._empties(weight):
            self.scale(0.0)
            feature_mean, target_mean = Mean.zeros(self._n_features), Mean.zeros(self._n_targets)
            total = 0.0
        if not self._weight:
            self._feature_mean, self._target_mean = feature_mean, target_mean
        else:
            apart, targets_apart = self._apart(feature_mean, target_mean)
            between = self._weight * (weight / total)
            self._comoments.accumulate(apart[None], targets_apart[None], between)
            self._target_squares = self.target_squares + between * targets_apart**2
            self._feature_mean = self._feature_mean.moved(apart * (weight / total))
            self._target_mean = self._target_mean.moved(targets_apart * (weight / total))
        self._weight = total

    def _apart(self, feature_mean: Mean, target_mean: Mean) -> tuple[Floats, Floats]:
        return feature_mean.minus(self._feature_mean), target_mean.minus(self._target_mean)

    def _weigh(self, targets: Matrix, w: float | Floats) -> None:
        """Do nothing: weight and squares are counted where means are joined."""

    def _add_weights(self, other: Self, sign: int) -> None:
        """Do nothing: weight and squares are counted where means are joined."""

    def _check_subtracts(self) -> None:
        self._comoments._check_subtracts()

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self._comoments._check_kind(other._comoments)

    def _combine(self, other: Self, sign: int) -> None:
        self._comoments._combine(other._comoments, sign)
        self._target_squares = self.target_squares + sign * lengthened(
            other._target_squares, self._n_targets
        )
        means = (
            other._feature_mean.lengthened(self._n_features),
            other._target_mean.lengthened(self._n_targets),
        )
        if other._weight:
            self._shift(*means, sign * other._weight)

    def _scale(self, factor: float) -> None:
        self._comoments.scale(factor)
        if factor == 0.0:
            self._feature_mean = Mean.zeros(self._n_features)
            self._target_mean = Mean.zeros(self._n_targets)

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        self._comoments.grow(n_features, n_targets)
        self._n_features, self._n_targets = self._comoments.n_features, self._comoments.n_targets
        self._feature_mean = self._feature_mean.lengthened(self._n_features)
        self._target_mean = self._target_mean.lengthened(self._n_targets)
        self._target_squares = lengthened(self._target_squares, self._n_targets)

    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places; see `Accumulator.placed`."""
        places = (feature_columns, target_columns, n_features, n_targets)
        copy = type(self)(self._comoments.placed(*places))
        copy._feature_mean = self._feature_mean.placed(feature_columns, n_features)
        copy._target_mean = self._target_mean.placed(target_columns, n_targets)
        copy._weigh_like(self, feature_columns, target_columns)
        return copy

    def _keep_targets(self, columns: Integers) -> None:
        self._comoments.keep_targets(columns)
        self._target_mean = self._target_mean.kept(columns)


def _about_mean(block: Matrix, w: float | Floats, total: float) -> tuple[Floats, Mean]:
    """Return rows about their mean, and the mean."""
    # Relative to the first row: a constant feature then has exactly its value as mean.
    first = block[0].astype(np.float64)
    centred = block - first
    shift = centred.mean(axis=0) if isinstance(w, float) else w @ centred / total
    centred -= shift
    return centred, Mean(first, shift)
