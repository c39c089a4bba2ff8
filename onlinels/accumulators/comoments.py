"""Rows about their mean, for any accumulator: what an exact intercept needs of a stream."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.mean import Mean, about_mean, targets_about_mean
from onlinels.accumulators.planning import ONE
from onlinels.checks import Floats, Integers, Matrix, uncast
from onlinels.commit import Commit, draft_of

CONSTANT = 1e-28
"""Variance, relative to the squared mean, up to which a feature is constant (deviation 1e-14)."""

EMPTY = 1e-14
"""Total weight, relative to the weights that led to it, up to which nothing is left."""

SETTLED = 64
"""Single rows after which the origin of means is settled where they are."""


class CoMoments(Accumulator):
    """Means, and sums of squares and products about them, of rows that come and go.

    Two groups of rows with total weights p and q, means m and n have the co-moment
    C = C_p + C_q + p q / (p + q) (n - m)(n - m)' (Chan, Golub and LeVeque). The last term is one
    more row, n - m with weight p q / (p + q). So a batch becomes its rows minus their mean, and
    that one row; a merger adds the co-moments, and that one row. What holds them is none the wiser.

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
        self._comoments = comoments
        super().__init__(comoments.n_features, comoments.n_targets)
        self._feature_mean = Mean.zeros(comoments.n_features)
        self._target_mean = Mean.zeros(comoments.n_targets)

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets."""
        return self._comoments.bytes_for(n_features, n_targets)

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares about its mean, (n_features,).

        What is at the level of rounding errors beside the mean counts as 0: a constant.
        """
        squares = self._comoments.diagonal
        with np.errstate(over="ignore"):  # Nothing stands beside what is beyond float64.
            squares[squares <= CONSTANT * self._weight * self._feature_mean.value**2] = 0.0
        return self._without_residue(squares)

    def _raw_squares(self) -> tuple[Floats, Floats]:
        about = self._comoments._raw_squares()
        return (
            about[0] + self._weight * self._feature_mean.value**2,
            self.target_squares + self._weight * self._target_mean.value**2,
        )

    def draft(self) -> Self:
        """Return statistics to plan changes on, down to the co-moments."""
        draft = draft_of(self)
        draft._comoments = self._comoments.draft()
        return draft

    def unit_rows(self, n_rows: int) -> int:
        """Return how many of the rows of a batch can be learnt by one commit."""
        return self._comoments.unit_rows(n_rows)

    def accumulate(self, block: Matrix, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked float rows with weights of any one sign, without counting them."""
        total = w * len(block) if isinstance(w, float) else float(w.sum())
        if total == 0.0:
            return
        if len(block) == 1:
            self._accumulate_one(block[0], targets, total, commit)
            return
        centred, mean = about_mean(block, w, total)
        about, targets_mean, squares = targets_about_mean(targets, self._n_targets, w, total)
        self._target_squares = self.target_squares + squares
        self._shift(mean, targets_mean, total, commit, (centred, about, w))

    def _cast(self, rows: Matrix) -> Matrix:
        # Cast as they are centred, in one pass instead of two.
        return uncast(rows) if len(rows) > 1 else super()._cast(rows)

    def harmless_length(self, weight: float) -> float:
        """Return how long rows may be that cannot outweigh a ridge inside the co-moments."""
        # A row about its mean is no longer than twice a row; means lie apart by no more than that,
        # or than a row and the mean so far, which rows move no further from 0 than they lie.
        mean = float(np.linalg.norm(self._feature_mean.value))
        return (self._comoments.harmless_length(weight) - mean) / 2.0

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
        rows, mean = about_mean(np.asarray(activations, dtype=np.float64), w, total)
        apart = mean.minus(self._feature_mean.lengthened(rows.shape[1]))
        between = self._weight * (total / after)
        weights = np.append(np.broadcast_to(w, len(rows)), between)
        self._comoments._check_rows(np.vstack([rows, apart]), weights)

    def _empties(self, weight: float) -> bool:
        """Tell whether nothing but rounding errors is left once a (negative) weight is added."""
        return abs(self._weight + weight) <= EMPTY * (self._weight + abs(weight))

    def _accumulate_one(self, row: Floats, targets: Matrix, w: float, commit: Commit) -> None:
        """Add a row, which is its own mean."""
        total = self._weight + w
        if not self._weight or self._empties(w):
            self._shift(Mean.of(row), Mean.of_target(targets, self._n_targets), w, commit)
            return
        apart, targets_apart = self._feature_mean.to(row), self._target_mean.to_target(targets)
        between, share = self._weight * (w / total), w / total
        means = self._moved_means(apart * share, targets_apart * share, not self._count % SETTLED)
        self._comoments.accumulate(apart[None], targets_apart[None], between, commit)
        commit.assign(
            self,
            _target_squares=self._target_squares + between * targets_apart**2,
            _feature_mean=means[0],
            _target_mean=means[1],
            _weight=total,
        )

    def _moved_means(self, step: Floats, targets_step: Floats, settles: bool) -> tuple[Mean, Mean]:
        means = self._feature_mean.moved(step), self._target_mean.moved(targets_step)
        return (means[0].settled(), means[1].settled()) if settles else means

    def _shift(
        self,
        feature_mean: Mean,
        target_mean: Mean,
        weight: float,
        commit: Commit,
        centred: tuple[Floats, Matrix, float | Floats] | None = None,
    ) -> None:
        """Join (or, of negative weight, part from) rows of this mean, with their centred form.

        None if that is accounted for; the squares of their targets are.
        """
        total = self._weight + weight
        if self._empties(weight):
            self.plan_scaling(0.0, commit)
            feature_mean, target_mean = Mean.zeros(self._n_features), Mean.zeros(self._n_targets)
            total = 0.0
        if not self._weight:
            self._feature_mean, self._target_mean = feature_mean, target_mean
            if total and centred is not None:
                self._comoments.accumulate(*centred, commit)
        else:
            apart, targets_apart = self._apart(feature_mean, target_mean)
            between = self._weight * (weight / total)
            row = apart[None], targets_apart[None], between
            if centred is None:
                self._comoments.accumulate(*row, commit)
            else:
                self._comoments.accumulate_both(centred, row, commit)
            self._target_squares = self.target_squares + between * targets_apart**2
            share = weight / total
            means = self._moved_means(apart * share, targets_apart * share, True)
            self._feature_mean, self._target_mean = means
        self._weight = total

    def _apart(self, feature_mean: Mean, target_mean: Mean) -> tuple[Floats, Floats]:
        return feature_mean.minus(self._feature_mean), target_mean.minus(self._target_mean)

    def plan_row(self, row: Floats, targets: Matrix, commit: Commit) -> bool:
        """Add a row to these statistics; False if it is the first, which makes its own mean."""
        if self._weight:
            self._accumulate_one(row[0], targets, 1.0, commit)
            commit.set(self, _count=self._count + ONE)
        return bool(self._weight)

    def _weigh(self, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Do nothing: weight and squares are counted where means are joined."""

    def _add_weights(self, other: Self, sign: int) -> None:
        """Do nothing: see `_weigh`."""

    def _check_subtracts(self) -> None:
        self._comoments._check_subtracts()

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self._comoments._check_kind(other._comoments)

    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        self._comoments._combine(other._comoments, sign, commit)
        self._target_squares = self.target_squares + sign * lengthened(
            other._target_squares, self._n_targets
        )
        means = (
            other._feature_mean.lengthened(self._n_features),
            other._target_mean.lengthened(self._n_targets),
        )
        if other._weight:
            self._shift(*means, sign * other._weight, commit)

    def _scale(self, factor: float, commit: Commit) -> None:
        self._comoments.plan_scaling(factor, commit)
        if factor == 0.0:
            self._feature_mean = Mean.zeros(self._n_features)
            self._target_mean = Mean.zeros(self._n_targets)

    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far."""
        self._comoments.plan_growth(n_features, n_targets)
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

    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        self._comoments.plan_choice(columns, commit)
        self._target_mean = self._target_mean.kept(columns)
