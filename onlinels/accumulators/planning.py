"""Changes of statistics, planned on a draft and made by one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.protocol import Statistics
from onlinels.accumulators.removal import SLACK, check_removable
from onlinels.checks import LEAST_ROWS, Floats, Integers, Matrix, row_blocks
from onlinels.commit import Commit, DraftCommit, draft_of

ONE = np.int64(1)

NAMES = "features'", "targets'"


class Planning(Statistics):
    """Statistics whose changes come all together, or not at all.

    A draft is a copy whose numbers are its own, and whose large arrays are those of the original.
    Changes are planned on a draft: numbers are set at once, and what is to be done to the arrays
    is gathered in a commit. Until it is made, the original is as it was, whatever is raised; then
    the draft is in its place.
    """

    def draft(self) -> Self:
        """Return statistics to plan changes on; nothing else may change before they are made."""
        return draft_of(self)

    def _make(self, plan: Callable[[Self, Commit], None]) -> None:
        """Plan changes on a draft, and make them."""
        draft, commit = self.draft(), DraftCommit()
        plan(draft, commit)
        commit.then(vars(self).update, vars(draft))
        commit.make()

    def plan_rows(
        self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int, commit: Commit
    ) -> None:
        """Accumulate, count and weigh checked rows, with weights of the given sign."""
        self.accumulate(self._cast(activations), targets, w, commit)
        self._count += np.int64(sign * len(activations))
        self._weigh(targets, w, commit)

    def plan_row(self, row: Floats, targets: Matrix, commit: Commit) -> bool:
        """Add a checked row (1, n_features) of weight 1 to these very statistics by a commit.

        There is no draft, which takes some microseconds.

        Returns
        -------
        bool
            Whether it was planned; False where it takes a draft.
        """
        self.accumulate(row, targets, 1.0, commit)
        commit.set(self, _count=self._count + ONE)
        self._weigh(targets, 1.0, commit)
        return True

    def plan_blocks(
        self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int, commit: Commit
    ) -> None:
        """Do as `plan_rows`, however many rows there are."""
        if len(activations) > LEAST_ROWS:
            self.own()
        for rows in row_blocks(len(activations), activations.shape[1], LEAST_ROWS):
            weights = w if isinstance(w, float) else w[rows]
            self.plan_rows(activations[rows], targets[rows], weights, sign, commit)

    def _check_removable(self, weight: float, features: Floats, targets: Floats) -> None:
        """Raise if weight or sums of squares to be taken out exceed what was learnt."""
        check_removable("weight", self.weight, weight)
        squares = zip(NAMES, self._raw_squares(), (features, targets), self._removed, strict=True)
        for what, there, taken, before in squares:
            sizes = lengthened(there, len(taken)), taken, lengthened(before, len(taken))
            check_removable(f"{what} sum of squares", *sizes)

    def _is_all(self, count: int, weight: float) -> bool:
        """Tell whether rows of a total weight, checked to be in, are all there are."""
        return count == self._count and self.weight <= (1.0 + SLACK) * weight

    def _clear(self, commit: Commit) -> None:
        """Leave nothing behind, not even rounding errors, once all rows are taken out."""
        self._count = np.int64(0)
        self.plan_scaling(0.0, commit)

    def plan_merger(self, other: Self, sign: int, commit: Commit) -> None:
        """Add the statistics of a checked accumulator (sign 1), or take them away (-1)."""
        self.plan_growth(other.n_features, other.n_targets)
        self._combine(other, sign, commit)
        self._count += np.int64(sign) * other._count
        self._add_weights(other, sign)
        self._remove_squares(*other._removed)

    def plan_scaling(self, factor: float, commit: Commit) -> None:
        """Multiply the weight of everything learnt so far by a checked factor."""
        if factor == 1.0:
            return
        self._scale(factor, commit)
        self._weight *= factor
        self._target_squares = self._target_squares * factor
        self._removed = tuple(factor * removed for removed in self._removed)

    def plan_choice(self, columns: Integers, commit: Commit) -> None:
        """Drop all targets but those at the given columns."""
        self._keep_weights(columns)
        self._keep_targets(columns, commit)
