"""An unpenalised intercept for any accumulator, by means and co-moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.linalg.blas import daxpy

from onlinels.accumulators.base import (
    LEDGER,
    Accumulator,
    Covariance,
    Rows,
    answer_of,
    has_sound_sizes,
    with_target_sums,
)
from onlinels.checks import LARGEST_VALUE, Floats, Integers, Matrix
from onlinels.linalg.packed import PANEL
from onlinels.linalg.recursion import FOLLOWED, Recursion
from onlinels.linalg.selection import Sums
from onlinels.numerics import Calls, State, Update, apply, enlarged, shallow_copy
from onlinels.saving import VECTOR, Field, is_instance, savable

CONSTANT = 1e-28
"""Variance, relative to the squared mean, up to which a feature is constant (deviation 1e-14)."""

EMPTY = 1e-14
"""Total weight, relative to the weights that led to it, up to which nothing is left."""

SETTLED = 64
"""Single rows after which the origin of means is settled where they are."""

MEAN = Field(
    f"{VECTOR.said}, of values up to {LARGEST_VALUE:g}",
    # Nor is the way from an origin to a mean much longer.
    lambda value: VECTOR.fits(value) and bool((np.abs(value) <= 10.0 * LARGEST_VALUE).all()),
)


@savable(
    {
        **LEDGER,
        "comoments": is_instance(Accumulator),
        "_origin": MEAN,
        "_offset": MEAN,
    },
    lambda acc: has_sound_sizes(acc, (acc.comoments.n_features, acc.comoments.n_targets)),
)
class CentredAccumulator(Accumulator):
    """Learn rows relative to their mean, so that the intercept is exact and carries no ridge.

    The co-moments of two parts add up once the outer product of the way between their means is
    added, weighted by n_a n_b / (n_a + n_b): Chan, Golub and LeVeque (1983). A mean is kept as an
    origin (the first row, at first) and an offset, so that it keeps its digits far from 0.

    Parameters
    ----------
    comoments : Accumulator
        Empty statistics, which meet rows about their means.

    Examples
    --------
    >>> from onlinels import GramAccumulator
    >>> acc = CentredAccumulator(GramAccumulator())
    >>> acc.update(np.array([[1.0], [3.0]]), np.array([[10.0], [14.0]]))
    >>> weights = acc.solve(ridge=0.0)
    >>> weights.round(9), acc.intercept(weights).round(9)
    (array([[2.]]), array([8.]))
    """

    by_column = ("_origin", "_offset")
    is_centred = True

    def __init__(self, comoments: Accumulator) -> None:
        self.comoments = comoments
        super().__init__(comoments.n_features, comoments.n_targets)
        # The mean of the rows and, after it, that of the targets.
        self._origin, self._offset = np.zeros((2, self._n_features + self._n_targets))

    bytes_for = answer_of("comoments.bytes_for")
    holds_ridge = answer_of("comoments.holds_ridge")
    fixed_ridge = answer_of("comoments.fixed_ridge")
    recursion = answer_of("comoments.recursion")
    recursion_of = answer_of("comoments.recursion_of")
    refine = answer_of("comoments.refine")
    ridge_diagonal = answer_of("comoments.ridge_diagonal")
    explained_squares = answer_of("comoments.explained_squares")
    restore_ridge = answer_of("comoments.restore_ridge")
    forget_unused = answer_of("comoments.forget_unused")
    _plan_sums = answer_of("comoments._plan_sums")
    _target_squares = answer_of("comoments._target_squares")
    _check_subtracts = answer_of("comoments._check_subtracts")

    def scores_by(self, solution: Recursion, sample: Floats) -> Floats:
        """Return the scores (n_targets,) that a solution gives a sample, whose targets are 0."""
        apart = sample - self._origin
        apart -= self._offset
        # Its targets are 0: the scores less those, about the mean, are the scores.
        return solution.errors(apart, -1.0)

    @property
    def feature_mean(self) -> Floats:
        """Mean of the rows, (n_features,)."""
        mean: Floats = (self._origin + self._offset)[: self._n_features]
        return mean

    @property
    def target_mean(self) -> Floats:
        """Mean of the targets, (n_targets,)."""
        mean: Floats = (self._origin + self._offset)[self._n_features :]
        return mean

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares about its mean, (n_features,)."""
        return self._varying(self.comoments.diagonal, self.feature_mean)

    @property
    def target_squares(self) -> Floats:
        """Every target's weighted sum of squares about its mean, (n_targets,); 0 if constant."""
        return self._varying(self._target_squares.copy(), self.target_mean)

    def _varying(self, squares: Floats, mean: Floats) -> Floats:
        """Return sums of squares about means, in place, with 0 where only rounding is left."""
        with np.errstate(over="ignore"):  # Nothing stands beside what is beyond float64.
            squares[squares <= CONSTANT * self._weight * mean**2] = 0.0
        return squares

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return (
            self.comoments._raw_squares()[0] + self._weight * self.feature_mean**2,
            self._target_squares + self._weight * self.target_mean**2,
        )

    def plan_row(
        self,
        sample: Floats,
        w: float = 1.0,
        decay: float = 1.0,
        solution: Recursion | None = None,
    ) -> tuple[Calls, State]:
        """Plan to let everything decay and to learn one row; see `Accumulator.plan_row`."""
        past, some = self._weight * decay, self._n_features and self._n_targets
        if not (past and some) or (self._gave_back and decay != 1.0):
            # A first row is the mean.
            return self._plan_many(self._row_of(sample, w), decay)
        after, count = past + w, self._count + 1
        share = w / after
        between = past * share
        apart = sample - self._origin
        apart -= self._offset
        calls, state = self.comoments._plan_row(apart, between, decay)
        if solution is not None:
            more = solution.plan(apart, solution.errors(apart), between, most=FOLLOWED)
            calls, state = calls + more[0], state + more[1]
        state = (*state, (self, "_count", count), (self, "_weight", after))
        if count % SETTLED:
            return (*calls, (daxpy, apart, self._offset, len(apart), share)), state
        return calls, (*state, *self._moved(apart, share))

    def augmented(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Return rows about the mean, 1 after each, targets about theirs, and their means."""
        n_features, origin, offset = self._n_features, self._origin, self._offset
        values = np.ones((len(rows.values), n_features + 1))
        np.subtract(rows.values, origin[:n_features], out=values[:, :n_features])
        values[:, :n_features] -= offset[:n_features]
        targets = rows.dense_targets(slice(0, self._n_targets))
        targets -= origin[n_features:]
        targets -= offset[n_features:]
        return values, targets, self.target_mean

    def _plan_many(self, rows: Rows, decay: float) -> tuple[Calls, State]:
        past, total = self._weight * decay, rows.sign * float(rows.weights().sum())
        counted = (*self._counted(rows, decay), *self._squares_noted(rows, decay))
        if not total:
            return self._plan_decay(decay, counted)
        if abs(past + total) <= EMPTY * (past + abs(total)):
            return self._plan_decay(0.0, counted)
        return self._plan_joining(rows, total, past, decay, counted)

    def _plan_decay(self, decay: float, counted: tuple[Any, ...]) -> tuple[Calls, State]:
        """Plan to let everything decay; of factor 0 nothing is left, of means neither."""
        nothing: tuple[Calls, State] = ((), ())
        sums = self.comoments._plan_sums(self._no_rows(), decay) if decay != 1.0 else nothing
        state: State = ((self, "_weight", self._weight * decay),)
        if decay == 0.0:
            nothing_left = np.zeros(len(self._origin))
            state = (*state, *self._settled(nothing_left, nothing_left))
        return sums[0], (*sums[1], *counted, *state)

    def _plan_joining(
        self, rows: Rows, total: float, past: float, decay: float, counted: tuple[Any, ...]
    ) -> tuple[Calls, State]:
        """Plan to learn rows about their mean, and the way between the means as one row more."""
        # Relative to the first row: a constant feature then has exactly its value as mean.
        first = rows.values[0].astype(np.float64)
        n_rows, w = len(rows.values), rows.w
        # With room for one row more if there is a past; by column where the sums of products are in
        # panels. Measured: turned first and centred then takes 0.6 of the time.
        by_column = self._n_features > PANEL
        size = (n_rows + 1 if past else n_rows), self._n_features
        values = np.empty(size, order="F" if by_column else "C")
        block = values[:n_rows]
        if by_column:
            np.copyto(block, rows.values)
            block -= first
        else:
            np.subtract(rows.values, first, out=block)
        # The mean is the same to the last digit wherever rows lie in memory.
        shift = block.mean(axis=0) if isinstance(w, float) else w @ block / abs(total)
        block -= shift
        targets, target_first, target_shift, squares = _targets_about_mean(
            rows, self._n_targets, abs(total)
        )
        mean = np.concatenate((first, target_first)), np.concatenate((shift, target_shift))
        if not past:
            centred = Rows(block, targets, w, rows.sign, target_squares=squares)
            # Nothing is left of the past, not even rounding errors.
            sums = self.comoments._plan_sums(centred, 0.0)
            state = self._settled(*mean)
        else:
            after = past + total
            between = past * (abs(total) / after)
            apart = self._way_to(*mean)
            targets_apart = apart[self._n_features :]
            # With one weight for all rows BLAS adds them as they are.
            root = np.sqrt(between / w) if isinstance(w, float) else 1.0
            w = w if isinstance(w, float) else np.append(w, between)
            values[-1] = root * apart[: self._n_features]
            squares = squares + between * targets_apart**2
            last = root * targets_apart
            joining = Rows(values, targets, w, rows.sign, last, squares, rows.followed)
            sums = self.comoments._plan_sums(joining, decay)
            state = self._moved(apart, total / after)
        return sums[0], (*sums[1], *counted, (self, "_weight", past + total), *state)

    def _means(self, n_features: int, n_targets: int) -> list[Floats]:
        """Return origin and offset of the means, at given lengths."""
        return [
            np.concatenate(
                (
                    enlarged(each[: self._n_features], n_features),
                    enlarged(each[self._n_features :], n_targets),
                )
            )
            for each in (self._origin, self._offset)
        ]

    def _way_to(self, origin: Floats, offset: Floats) -> Floats:
        """Return how far other means, by origin and offset, are from those here."""
        way: Floats = (origin - self._origin) + (offset - self._offset)
        return way

    def _moved(self, apart: Floats, share: float) -> State:
        """Return the state after the means went a share of a way."""
        return self._settled(self._origin, self._offset + share * apart)

    def _settled(self, origin: Floats, offset: Floats) -> State:
        """Return the state of means that are given by origin and offset: rounded, and the rest."""
        mean = origin + offset
        way = mean - origin
        rest = (origin - (mean - way)) + (offset - way)
        return ((self, "_origin", mean), (self, "_offset", rest))

    def _check_kind(self, other: Any) -> None:
        super()._check_kind(other)
        self.comoments._check_kind(other.comoments)

    def _absorb_sums(self, other: Self, w: float) -> None:
        self.comoments._note_absorbed(other.comoments, w)
        self.comoments._absorb_sums(other.comoments, w)
        weight = w * other._weight
        total = self._weight + weight
        if not other._weight:
            return
        theirs = other._means(self._n_features, self._n_targets)
        if not self._weight:
            apply(Update(state=self._settled(*theirs)))
            return
        if abs(total) <= EMPTY * (self._weight + abs(weight)):
            apply(self._plan_decay(0.0, ()))
            return
        apart = self._way_to(*theirs)
        between = self._weight * (abs(weight) / total)
        joining = self._row_of(apart, between)._replace(sign=float(np.sign(w)))
        apply(self.comoments._plan_sums(joining, 1.0))
        apply(Update(state=self._moved(apart, weight / total)))

    def _rearrange_sums(self, features: Integers, targets: Integers) -> None:
        size = self._n_features, self._n_targets
        self.comoments = self.comoments.rearranged(features, targets, *size)

    def _keep_sums(self, columns: Integers) -> None:
        self.comoments = self.comoments.with_targets(columns)

    def with_ridge(self, ridge: float, units: Floats | None = None) -> Self:
        """Return it with a ridge inside the co-moments, where it is held there."""
        new = shallow_copy(self)
        new.comoments = self.comoments.with_ridge(ridge, units)
        return new

    def with_units(self, features: Integers, units: Floats) -> Self:
        """Return it with other units in the co-moments; see `Accumulator.with_units`."""
        new = shallow_copy(self)
        new.comoments = self.comoments.with_units(features, units)
        return new

    def solve(
        self,
        ridge: float | Floats,
        diagonal: Floats | None = None,
        n_rows: int | None = None,
    ) -> Floats:
        """Return the output weights (n_features, n_targets); the ridge spares the intercept."""
        n_rows = self._count if n_rows is None else n_rows
        diagonal = self.diagonal if diagonal is None else diagonal
        weights = self.comoments.solve(ridge, diagonal, n_rows)
        # Rounding errors, which a small ridge would blow up.
        weights[:, self.target_squares == 0.0] = 0.0
        return weights

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,): the mean of the targets minus that of the scores."""
        constant: Floats = self.target_mean - self.feature_mean @ output_weights
        return constant

    def sums(self) -> Sums:
        """Return the co-moments in new memory; the intercept is one parameter more."""
        return replace(
            self.comoments.sums(),
            target_squares=self.target_squares,
            weight=self.weight,
            n_free=1,
        )

    def sums_about(self, centre: Self) -> Sums:
        """Return sums of products about the means of `centre`: one row more than the co-moments."""
        sums = self.comoments.sums_about(centre.comoments)
        # With nothing to centre on, means of 0 make every prediction 0.
        way = centre._way_to(*self._means(centre._n_features, centre._n_targets))
        apart, targets_apart = way[: centre._n_features], way[centre._n_features :]
        return Sums(
            sums.gram + self._weight * np.outer(apart, apart),
            sums.cross + self._weight * np.outer(apart, targets_apart),
            self.target_squares + self._weight * targets_apart**2,
            self.weight,
            n_free=1,
        )

    def covariance(self, ridge: float | Floats, diagonal: Floats | None = None) -> Covariance:
        """Return (C + D)^-1 for rows about the mean; the intercept is one parameter more."""
        diagonal = self.diagonal if diagonal is None else diagonal
        slopes = self.comoments.covariance(ridge, diagonal)
        return replace(
            slopes,
            n_parameters=slopes.n_parameters + 1.0,
            origin=self.feature_mean,
            intercept_share=1.0 / self._weight if self._weight else np.inf,
        )


def _targets_about_mean(
    rows: Rows, n_targets: int, total: float
) -> tuple[Matrix, Floats, Floats, Floats]:
    """Return targets about their mean, the mean, and the weighted sums of squares about it."""
    targets, weights = rows.targets, rows.weights()
    if targets.ndim == 1:
        by_class = with_target_sums(np.zeros(n_targets), targets, weights)
        in_all = by_class.sum()
        # The other classes by subtraction from their own sum: exactly 0 where there is one class.
        squares = by_class * ((in_all - by_class) / in_all)
        return targets, np.zeros(n_targets), by_class / in_all, squares
    about = targets - targets[0]
    shift = with_target_sums(np.zeros(n_targets), about, weights) / total
    about -= shift[: targets.shape[1]]
    squares = with_target_sums(np.zeros(n_targets), about**2, weights)
    return about, enlarged(targets[0].copy(), n_targets), shift, squares
