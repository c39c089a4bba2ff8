"""Which ridge is in force: a number, the paper's, or one selected at checkpoints."""

from __future__ import annotations

import numbers
from typing import Any

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.commit import Commit, draft_of
from onlinels.linalg.selection import KFold, check_ridge, choose_ridge, gcv_ridge

FEWEST_ROWS = 16
"""Rows from which a ridge is selected; fewer say too little, and the paper's is in force."""

FIRST_ROWS = 256
"""Rows from which statistics that hold their ridge inside choose it, unless it is a number."""


def is_selected(setting: Any) -> bool:
    """Tell whether a setting means that the ridge is selected at checkpoints."""
    return isinstance(setting, KFold) or (isinstance(setting, str) and setting == "auto")


def selected_ridge(setting: Any, statistics: Accumulator) -> float | None:
    """Return the ridge that a setting selects from the statistics, None if they say too little.

    That is so for fewer than `FEWEST_ROWS` rows, and while all targets or all features are
    constant.

    Raises
    ------
    ValueError
        If that takes folds which the statistics do not have.
    """
    _check_folds(setting, statistics)
    # What rows that were taken out have left is no feature to choose a ridge for.
    varies = statistics.diagonal.any() and statistics.target_squares.sum() > 0.0
    if statistics.count < FEWEST_ROWS or not varies:
        return None
    if isinstance(setting, KFold) and isinstance(statistics, FoldedAccumulator):
        return statistics.select_ridge()
    return gcv_ridge(statistics.spectrum())


def _check_folds(setting: Any, statistics: Accumulator) -> None:
    if isinstance(setting, KFold) and setting.n_folds != statistics.n_folds:
        raise ValueError(
            f"ridge={setting!r} needs statistics in {setting.n_folds} folds, expected from the "
            "first row on. Make a new model with this ridge."
        )


class RidgeChoice:
    """The ridge in force, and when it is selected.

    A selected ridge is a function of the statistics as they were when the count of rows was last
    a power of two, or rows were last merged or taken out; where these say too little, the paper's
    ridge is in force instead. So no way to cut the stream changes it, and it costs an
    eigendecomposition only a logarithmic number of times. Selecting waits until somebody asks or
    the statistics are about to change; what another checkpoint within the same batch supersedes
    is never selected.

    Statistics that hold their ridge inside take a number at once, and any other setting at the
    first checkpoint from `FIRST_ROWS` rows on; then they keep it until they are merged.
    """

    def __init__(self) -> None:
        self._setting: Any = None
        self._selected: float | None = None
        self._is_due = True

    def in_force(
        self, setting: Any, statistics: Accumulator, commit: Commit | None = None
    ) -> float:
        """Return the ridge in force under a setting; if it is selected, a commit takes note.

        Raises
        ------
        TypeError, ValueError
            If the setting is none (it may have been changed since it was checked).

        Notes
        -----
        O(M), or one eigendecomposition if a selection is due.
        """
        check_ridge(setting)
        self._settle(setting, statistics)
        if statistics.fixed_ridge is not None:
            return statistics.fixed_ridge
        if is_selected(setting):
            if self._is_due or self._setting != setting:
                selected = selected_ridge(setting, statistics)
                news = {"_selected": selected, "_setting": setting, "_is_due": False}
                commit = commit or Commit()
                commit.then(vars(self).update, news)
                commit.make()
            if self._selected is not None:
                return self._selected
        return _unselected(setting, statistics)

    def is_settled(self, setting: Any, statistics: Accumulator) -> bool:
        """Tell whether the ridge inside, if statistics hold one, is what the setting asks for."""
        if not statistics.holds_ridge:
            return True
        return statistics.fixed_ridge is not None and bool(self._setting == setting)

    def check(self, setting: Any, statistics: Accumulator) -> None:
        """Raise before anything is learnt if a setting that was changed cannot be taken.

        Raises
        ------
        TypeError, ValueError
            If it is none, or not one that can be held inside the statistics.
        """
        check_ridge(setting)
        _check_folds(setting, statistics)
        if isinstance(setting, numbers.Real):
            self._settle(setting, statistics)

    def _settle(self, setting: Any, statistics: Accumulator) -> None:
        """Fix a ridge inside the statistics if it is a number, or was fixed and has changed."""
        if statistics.holds_ridge and setting != self._setting:
            if isinstance(setting, numbers.Real):
                self._fix_at(float(setting), setting, statistics)
            elif statistics.fixed_ridge is not None:
                self._fix(setting, statistics)

    def _fix(self, setting: Any, statistics: Accumulator) -> None:
        """Choose a ridge from the statistics and fix it inside; 0 waits for the next time."""
        selected = selected_ridge(setting, statistics) if is_selected(setting) else None
        ridge = _unselected(setting, statistics) if selected is None else selected
        if ridge > 0.0:
            self._fix_at(ridge, setting, statistics)

    def _fix_at(self, ridge: float, setting: Any, statistics: Accumulator) -> None:
        commit = Commit()
        statistics.plan_ridge(ridge, commit)
        commit.set(self, _setting=setting)
        commit.make()

    def cuts(self, setting: Any, statistics: Accumulator) -> bool:
        """Tell whether a ridge is still selected at checkpoints."""
        unfixed = statistics.holds_ridge and statistics.fixed_ridge is None
        return unfixed or is_selected(setting)

    def unit_rows(self, setting: Any, statistics: Accumulator, n_rows: int) -> int:
        """Return how many rows of a batch are learnt before a ridge may be selected.

        That is up to the last checkpoint in the batch, or the first for a ridge to be held inside.
        """
        if not self.cuts(setting, statistics):
            return n_rows
        count = statistics.count
        if statistics.holds_ridge and statistics.fixed_ridge is None:
            return min(n_rows, (1 << count.bit_length()) - count)
        last = 1 << ((count + n_rows).bit_length() - 1)
        return last - count if last > count else n_rows

    def is_wanted(self, setting: Any, statistics: Accumulator, n_rows: int) -> bool:
        """Tell whether a selection is due that so many rows that come next do not supersede."""
        changed = self._setting != setting
        due = is_selected(setting) and (self._is_due or changed)
        matters = due or (changed and statistics.holds_ridge)
        return bool(matters) and not self.reaches_checkpoint(statistics, n_rows)

    def reaches_checkpoint(self, statistics: Accumulator, n_rows: int) -> bool:
        """Tell whether so many rows more reach a count at which a ridge is selected."""
        count = int(statistics._count)
        return (count + n_rows).bit_length() > count.bit_length()

    def after(self, statistics: Accumulator, n_rows: int) -> RidgeChoice:
        """Return the choice once so many rows more are learnt."""
        if not self.reaches_checkpoint(statistics, n_rows):
            return self
        choice = draft_of(self)
        choice._is_due = True
        return choice

    def fixes(self, statistics: Accumulator, n_rows: int) -> bool:
        """Tell whether a ridge is chosen and held inside once so many rows more are learnt."""
        if not self.reaches_checkpoint(statistics, n_rows):
            return False
        unfixed = statistics.holds_ridge and statistics.fixed_ridge is None
        return unfixed and statistics.count + n_rows >= FIRST_ROWS

    def fixed(self, setting: Any, statistics: Accumulator) -> RidgeChoice:
        """Choose a ridge and hold it inside the statistics; return the choice after it."""
        choice = draft_of(self)
        choice._fix(setting, statistics)
        return choice

    def unlearnt(self) -> RidgeChoice:
        """Return the choice once rows were taken out: anew, unless the ridge is held inside."""
        choice = draft_of(self)
        choice._is_due = True
        return choice

    def merged(self, setting: Any, statistics: Accumulator) -> RidgeChoice:
        """Return the choice once statistics were merged: anew, and at once if it is held inside."""
        choice = self.unlearnt()
        if statistics.holds_ridge and isinstance(setting, str) and statistics.count >= FIRST_ROWS:
            choice._fix(setting, statistics)
        return choice


def _unselected(setting: Any, statistics: Accumulator) -> float:
    """Return the ridge of a number, or else the paper's."""
    given = "paper" if is_selected(setting) else setting
    return choose_ridge(given, statistics.diagonal, statistics.n_targets)
