"""Letting rows into the statistics of a model: each time as many as one commit takes."""

from __future__ import annotations

import copy
from typing import Any

from onlinels.accumulators.base import Accumulator
from onlinels.checks import LEAST_ROWS, Matrix, row_blocks
from onlinels.choice import RidgeChoice
from onlinels.commit import AT_ONCE, Commit, DraftCommit
from onlinels.gathering import Waiting
from onlinels.linear.forgetting import Clock
from onlinels.rows import Columns
from onlinels.solution import WeightsOnDemand


class LetIn(WeightsOnDemand):
    """The learning half of a linear layer, for rows and targets that are checked.

    Many rows take several commits: the ridge may have to be selected between them, or they are too
    many to be held another time. The first commit puts all of them where rows wait. So after an
    interrupt none is learnt, or all are as soon as somebody looks.
    """

    _clock: Clock

    def _put_in(self, waiting: Waiting, columns: Columns, outputs: dict[str, Any]) -> None:
        """Let rows in, that cannot be refused, with what they know of columns and outputs.

        Once the first of them are in, the others wait, and are let in by whoever looks next.
        """
        commit = DraftCommit()
        waiting.plan_claim(commit)
        n_rows = self._rows_together(len(waiting))
        self._plan(waiting, n_rows, commit, columns, *map(len, outputs.values()))
        commit.set(self, _reader=None, **outputs)
        try:
            commit.make()
            self._take_in()
        except BaseException:
            if self._gathered is waiting:
                waiting.own()
            raise

    def _rows_together(self, n_rows: int) -> int:
        """Return how many of the next rows can be learnt by one commit."""
        sums = self._sums
        if n_rows == 1 or (sums.holds_ridge and self._clock.forgets):
            # A ridge that fades with the rows and is restored: no cutting of them may change it.
            return 1
        n_rows = min(n_rows, self._choice.unit_rows(self.ridge, sums, n_rows))
        n_rows = min(n_rows, sums.unit_rows(n_rows))
        if n_rows <= LEAST_ROWS:
            return n_rows
        return int(next(row_blocks(n_rows, len(self._columns), LEAST_ROWS)).stop)

    def _let_in(self, waiting: Waiting) -> None:
        commit = DraftCommit()
        n_rows = waiting.plan_claim(commit)
        if n_rows == 1 and waiting.is_harmless and self._let_one_in(waiting):
            return
        self._plan(waiting, self._rows_together(n_rows), commit)
        commit.make()

    def _let_one_in(self, waiting: Waiting) -> bool:
        """Let a single row in without a draft, and tell whether that could be."""
        sums, commit = self._sums, Commit()
        if self._clock.forgets or self._choice.reaches_checkpoint(sums, 1):
            return False
        if waiting.plan_claim(commit) != 1:
            return False
        self._select_before(waiting)
        row, targets, _, _ = waiting.first(1)
        if not sums.plan_row(row, targets, commit):
            return False
        self._plan_count(targets[0], commit)
        waiting.plan_letting_in(1, commit)
        commit.make()
        return True

    def _plan(
        self,
        waiting: Waiting,
        n_rows: int,
        commit: DraftCommit,
        columns: Columns | None = None,
        n_outputs: int = 0,
    ) -> None:
        """Plan to let the first rows in that wait, whose columns and outputs may be new."""
        self._select_before(waiting)
        choice = self._choice.after(self._sums, n_rows)
        fixes = choice.fixes(self._sums, n_rows)
        # A ridge that is chosen now and then held is chosen from a copy that has learnt the rows.
        sums = copy.deepcopy(self._sums) if fixes else self._sums.draft()
        arrays = AT_ONCE if fixes else commit
        rows, targets, w, times = waiting.first(n_rows)
        if columns is not None and (columns is not self._columns or n_outputs != sums.n_targets):
            sums.plan_growth(len(columns), n_outputs)
            sums.name_features(columns.names)
            commit.set(self, _columns=columns)
        tick = self._clock.tick(w, n_rows, times)
        sums.plan_scaling(tick.past, arrays)
        if not waiting.is_harmless:
            sums._check_rows(rows, tick.w)
        sums.plan_rows(rows, targets, tick.w, 1, arrays)
        if fixes:
            choice = choice.fixed(self.ridge, sums)
        if n_rows > 1 or not self._plan_count(targets[0], commit):
            commit.set(self, **self._counts_after(targets, 1))
        commit.set(self, _sums=sums, _clock=tick.clock, _solved=None)
        if choice is not self._choice:
            commit.then(vars(self._choice).update, vars(choice))
        # What others look at first comes last.
        commit.set(self, _gathered=waiting.plan_letting_in(n_rows, commit))

    def _select_before(self, waiting: Waiting) -> None:
        """Select a ridge, if that is due and rows that wait do not reach another checkpoint."""
        # Of the sums as they are: to look at the statistics would add these rows again.
        if self._choice.is_wanted(self.ridge, self._sums, len(waiting)):
            commit = waiting.unless_let_in()
            self._choice.in_force(self.ridge, self._sums, commit)

    def _plan_count(self, target: Any, commit: Commit) -> bool:
        """Plan to count a row by its target, if that is known; tell whether it is."""
        return True

    def _counts_after(self, targets: Matrix, sign: int) -> dict[str, Any]:
        """Return the attributes that count rows by their targets, once some came or went."""
        return {}

    def _plan_anew(
        self, sums: Accumulator, choice: RidgeChoice, commit: Commit, **attributes: Any
    ) -> None:
        """Plan to put attributes in place, and to forget what follows from them."""
        commit.set(self, _sums=sums, _solved=None, _reader=None, **attributes)
        commit.then(vars(self._choice).update, vars(choice))
