"""The linear least-squares layer: rows by feature name in, statistics, weights and scores out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.arrays import Floats, Integers, Matrix
from onlinels.balance import Balance
from onlinels.choice import RidgeChoice
from onlinels.columns import Columns
from onlinels.decay import Clock, HalfLife, Tick, check_decay
from onlinels.encoding import Batch
from onlinels.names import Name
from onlinels.remembering import make_statistics
from onlinels.ridge import KFold, Ridge
from onlinels.row_weights import check_mass
from onlinels.solution import Solution, WeightsOnDemand


class LinearLeastSquares(WeightsOnDemand):
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

    def __copy__(self) -> Self:
        """Return an independent copy: statistics that two models share would serve neither."""
        return copy.deepcopy(self)

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

    def _ticks(self, w: float | Floats, n_rows: int, t: Any) -> list[tuple[slice, Tick]]:
        """Return the pieces in which a batch is learnt, and what time does to weights in each."""
        clock, times, ticks = self._clock, self._clock.read(t, n_rows), []
        pieces = self._choice.pieces(self.ridge, self._sums, n_rows)
        if self._sums.holds_ridge and clock.forgets:
            # A ridge that fades with the rows and is restored: no cutting of them may change it.
            pieces = (slice(row, row + 1) for row in range(n_rows))
        for rows in pieces:
            weights = w if isinstance(w, float) else w[rows]
            part = None if times is None else times[rows]
            ticks.append((rows, clock.tick(weights, rows.stop - rows.start, part)))
            clock = ticks[-1][1].clock
        return ticks

    def _learn_rows(
        self, columns: Columns, batch: Batch, targets: Matrix, n_targets: int, w: Any, t: Any
    ) -> None:
        """Learn rows whose labels or targets are checked: all or nothing."""
        self._choice.check(self.ridge, self._statistics)
        activations = columns.place(batch.layouts, batch.values)
        check_mass(activations, w)
        ticks = self._ticks(w, len(activations), t)
        with self._undone_on_error(self._may_be_refused(activations, w, len(ticks))):
            self._make_room(columns, n_targets)
            self._learn_pieces(activations, targets, ticks, self._sums.add_checked)
        self._look_closely()

    def _add_gathered(self, rows: Floats, targets: Any) -> None:
        # Of the sums as they are: to look at the statistics would add these rows again.
        if self._clock.forgets or self._choice.cuts(self.ridge, self._sums):
            ticks = self._ticks(1.0, len(rows), None)
            self._learn_pieces(rows, targets, ticks, self._sums.add_known)
        else:
            self._sums.add_known(rows, targets, 1.0)
            self._choice.after(self.ridge, self._sums, len(rows))

    def _learn_pieces(
        self,
        activations: Matrix,
        targets: Matrix,
        ticks: list[tuple[slice, Tick]],
        add: Callable[[Matrix, Matrix, Any], None],
    ) -> None:
        for rows, tick in ticks:
            n_rows = rows.stop - rows.start
            self._choice.before(self.ridge, self._sums, n_rows)
            if tick.past != 1.0:
                self._sums.scale(tick.past)
            add(activations[rows], targets[rows], tick.w)
            self._clock = tick.clock
            self._choice.after(self.ridge, self._sums, n_rows)

    def _may_be_refused(self, activations: Matrix, w: float | Floats, n_pieces: int) -> bool:
        """Tell, at little cost, whether rows might be too much for a ridge that is held inside."""
        statistics = self._statistics
        if not statistics.holds_ridge:
            return False
        lengths = (np.asarray(activations, dtype=np.float64) ** 2).sum(axis=1)
        weight = w * len(lengths) if isinstance(w, float) else float(w.sum())
        longest = float(np.sqrt(lengths.max()))
        return n_pieces > 1 or not longest <= statistics.harmless_length(weight)

    @contextmanager
    def _undone_on_error(self, risky: bool) -> Iterator[None]:
        """Bring the state back if rows are refused halfway; only a ridge held inside does that."""
        before = copy.deepcopy(vars(self)) if risky else {}
        try:
            yield
        except ValueError:
            vars(self).update(before)
            raise

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
        self._statistics.downdate(known, targets, w)
        self._choice.unlearnt()
        self._solved = None
        self._look_closely()

    def _merge_rows(
        self, other: Self, columns: Columns, target_columns: Integers, n_targets: int
    ) -> None:
        """Add the statistics of a model whose settings are checked, its columns matched."""
        self._take_in()
        other._take_in()
        clock, mine, theirs = self._clock.joined(other._clock)
        places = columns.locate(other.feature_names), target_columns
        mine_alike, theirs_alike = self._alike(other)
        placed = theirs_alike.placed(*places, len(columns), n_targets)
        placed.scale(theirs)
        with self._undone_on_error(self._statistics.fixed_ridge is not None):
            self._statistics = mine_alike
            self._make_room(columns, n_targets)
            if self._is_blank:
                # Nothing was learnt here: what the other model has selected stays, too.
                self._statistics, self._choice = placed, copy.deepcopy(other._choice)
            elif not other._is_blank:
                self._statistics.scale(mine)
                self._statistics.merge(placed)
                self._choice.merged(self.ridge, self._statistics)
            self._clock = clock

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
        statistics = self._statistics
        with self._undone_on_error(statistics.fixed_ridge is not None):
            statistics.scale(keep)
            statistics.restore_ridge()
        self._choice.unlearnt()
        self._solved = None
        self._look_closely()

    def _make_room(self, columns: Columns, n_targets: int) -> None:
        """Take columns into use, which so far are 0 in every row: allocate first, then commit."""
        self._statistics.grow(len(columns), n_targets)
        self._statistics.name_features(columns.names)
        self._columns = columns
        self._solved = None
        self._look_closely()

    def empty(self) -> Self:
        """Return a model with the same settings that has learnt nothing."""
        return self.clone()
