"""The linear least-squares layer: rows by feature name in, statistics, weights and scores out."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.balance import Balance
from onlinels.checks import LARGEST_VALUE, Floats, Integers, Matrix, check_mass
from onlinels.choice import RidgeChoice
from onlinels.commit import AT_ONCE, Commit, DraftCommit
from onlinels.gathering import Waiting
from onlinels.letting_in import LetIn
from onlinels.linalg.selection import KFold, Ridge
from onlinels.linear.forgetting import Clock, HalfLife, check_decay
from onlinels.remembering import make_statistics
from onlinels.rows import Batch, Columns, Name
from onlinels.solution import Solution


class LinearLeastSquares(LetIn):
    """What classifiers and regressors share: features by name, statistics, weights on demand.

    Subclasses bring the targets.
    """

    def __init__(
        self,
        ridge: Ridge,
        accumulator: str,
        fit_intercept: bool,
        forgetting_factor: float,
        half_life: HalfLife,
        balance: Balance = None,
    ) -> None:
        super().__init__(make_statistics(ridge, accumulator, fit_intercept, balance))
        check_decay(forgetting_factor, half_life)
        self.ridge = ridge
        self.accumulator = accumulator
        self.fit_intercept = fit_intercept
        self.forgetting_factor = forgetting_factor
        self.half_life = half_life
        self._columns = Columns()
        self._clock = Clock(forgetting_factor, half_life)
        self._choice = RidgeChoice()
        self._solved: Solution | None = None
        if self._statistics.holds_ridge:
            # Fixes a number, or says at once that it cannot be.
            self._choice.in_force(ridge, self._statistics)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"ridge"}

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features, in the order of the rows of `output_weights`."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt and not taken out again, whatever their weights."""
        return self._statistics.count

    @property
    def _is_blank(self) -> bool:
        # Rows that were taken out in part do not count any more, but still weigh something.
        return not (self.count or self._statistics.weight)

    def _learn_rows(
        self, columns: Columns, batch: Batch, targets: Matrix, w: Any, t: Any, **outputs: Any
    ) -> None:
        """Learn rows whose labels or targets are checked: all or nothing.

        Parameters
        ----------
        columns : Columns
        batch : Batch
        targets : ndarray
        w, t
            Checked weights, and times as they came.
        **outputs
            The attribute that names the outputs, with those of the batch.
        """
        self._choice.check(self.ridge, self._statistics)
        self._sums.check_room(len(columns), len(next(iter(outputs.values()))))
        activations = columns.place(batch.layouts, batch.values)
        check_mass(activations, w)
        waiting = Waiting(activations, targets, w, self._clock.read(t, len(activations)))
        if self._may_be_refused(activations, w):
            trial = copy.deepcopy(self)
            trial._lock = self._lock
            trial._put_in(waiting, columns, outputs)
            vars(self).update(vars(trial))
        else:
            self._put_in(waiting, columns, outputs)

    def _may_be_refused(self, activations: Matrix, w: float | Floats) -> bool:
        """Tell, at little cost, whether rows might be too much for a ridge that is held inside."""
        statistics = self._statistics
        if not statistics.holds_ridge:
            return False
        n_rows = len(activations)
        several = self._choice.unit_rows(self.ridge, statistics, n_rows) < n_rows
        if several or (self._clock.forgets and n_rows > 1):
            return True
        lengths = (np.asarray(activations, dtype=np.float64) ** 2).sum(axis=1)
        weight = w * len(lengths) if isinstance(w, float) else float(w.sum())
        # Of shorter rows squares may be lost to underflow.
        longest = max(float(np.sqrt(lengths.max())), 1.0 / LARGEST_VALUE)
        return not longest <= statistics.harmless_length(weight)

    def _unlearn_rows(self, batch: Batch, targets: Matrix, w: float | Floats) -> None:
        """Take rows out whose labels or targets are checked: all or nothing."""
        columns = self._columns.extended(batch.layouts)
        activations = columns.place(batch.layouts, batch.values)
        known, new = np.split(activations, [len(self._columns)], axis=1)
        if new.any():
            name = columns.names[len(self._columns) + int(new.any(axis=0).argmax())]
            raise ValueError(
                f"x[{name!r}] is not 0, expected a feature that was learnt. "
                "Take out only rows that are in."
            )
        remove = self._statistics.removal(known, targets, w)
        sums, commit = self._sums.draft(), DraftCommit()
        remove(sums, commit)
        outputs = self._outputs_left(sums, targets, commit)
        self._plan_anew(sums, self._choice.unlearnt(), commit, **outputs)
        commit.make()

    def _outputs_left(self, sums: Accumulator, targets: Matrix, commit: Commit) -> dict[str, Any]:
        """Return the attributes that name outputs and count their rows, once rows are out."""
        return {}

    def _merge_rows(
        self, other: Self, columns: Columns, target_columns: Integers, **attributes: Any
    ) -> None:
        """Add the statistics of a model whose settings are checked, its columns matched.

        The first of the attributes names the outputs of both.
        """
        sizes = len(columns), len(next(iter(attributes.values())))
        self._statistics.check_joins(other._statistics, *sizes)
        clock, mine, theirs = self._clock.joined(other._clock)
        mine_alike, theirs_alike = self._alike(other)
        places = columns.locate(other.feature_names), target_columns
        placed = theirs_alike.placed(*places, *sizes)
        placed.scale(theirs)
        commit = DraftCommit()
        if self._is_blank:
            # Nothing was learnt here: what the other model has selected stays, too.
            sums, choice = placed, copy.deepcopy(other._choice)
        else:
            # A ridge that is chosen now and then held is chosen from a copy.
            holds = mine_alike.holds_ridge
            sums = copy.deepcopy(mine_alike) if holds else mine_alike.draft()
            sums.plan_growth(*sizes)
            choice = self._choice
            if not other._is_blank:
                arrays = AT_ONCE if holds else commit
                sums.plan_scaling(mine, arrays)
                sums.plan_merger(placed, 1, arrays)
                choice = choice.merged(self.ridge, sums)
        sums.name_features(columns.names)
        self._plan_anew(sums, choice, commit, _columns=columns, _clock=clock, **attributes)
        commit.make()

    def _alike(self, other: Self) -> tuple[Accumulator, Accumulator]:
        """Return the statistics of both models, in one number of folds if both know something.

        The ridge may have been changed since, and equal settings of now say nothing of folds.
        """
        mine, theirs = self._statistics, other._statistics
        if mine.n_folds == theirs.n_folds or self._is_blank or other._is_blank:
            return mine, theirs
        if isinstance(self.ridge, KFold):
            raise ValueError(
                f"other has statistics in {theirs.n_folds} folds, expected {mine.n_folds} as here. "
                "Make both models with this ridge, or change both to another before they merge."
            )
        return mine.unfolded(), theirs.unfolded()

    def _fade_rows(self, keep: float) -> None:
        """Multiply the weight of all rows learnt by a checked factor; the ridge stays."""
        sums, commit = self._statistics.draft(), DraftCommit()
        sums.plan_scaling(keep, commit)
        sums.plan_restoring(commit)
        self._plan_anew(sums, self._choice.unlearnt(), commit)
        commit.make()

    def empty(self) -> Self:
        """Return a model with the same settings that has learnt nothing."""
        return self.clone()
