"""The interface that all accumulators share."""

from __future__ import annotations

from collections import deque
from typing import Any, Self

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.planning import Planning
from onlinels.accumulators.removal import row_squares
from onlinels.checks import (
    LEAST_ROWS,
    Floats,
    Integers,
    Matrix,
    check_mass,
    check_matrix,
    check_weights,
    row_blocks,
)
from onlinels.commit import Commit
from onlinels.targets import check_targets


class Accumulator(Planning):
    """Sufficient statistics of a stream of rows: they add, subtract, grow, and give weights.

    The statistics of two streams add up to the statistics of both. Output weights are a pure
    function of statistics and ridge. No row is kept.

    Whatever is raised while they change, an interrupt from the keyboard included: they have changed
    as a whole, or not at all.

    Parameters
    ----------
    n_features : int
        Columns of the activations known beforehand. More may come at any time.
    n_targets : int
        Targets (classes) known beforehand. More may come at any time.
    """

    def update(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Add rows to the statistics, in place.

        Parameters
        ----------
        activations : ndarray (n, n_features), any real dtype
            Columns beyond those known are new features, 0 in every row so far.
        targets : ndarray (n,) of int, or (n, n_targets) of float
            The column of every row's label, or a matrix of targets. Columns beyond those known
            are new targets, 0 in every row so far.
        w : float or ndarray (n,), optional
            Weights of the rows, at least 0; 1 by default.

        Raises
        ------
        TypeError, ValueError
            If shapes do not fit or a value is not finite; nothing has changed then.
        """
        activations, targets, n_targets, w = self._read(activations, targets, w)
        self.check_room(activations.shape[1], n_targets)
        self._check_rows(activations, w)
        blocks = deque(row_blocks(len(activations), activations.shape[1], LEAST_ROWS))
        if len(blocks) > 1 and self.fixed_ridge is None:
            self._learn_blocks(blocks, activations, targets, n_targets, w)
            return

        def plan(draft: Self, commit: Commit) -> None:
            """Learn all rows."""
            draft.plan_growth(activations.shape[1], n_targets)
            draft.plan_blocks(activations, targets, w, 1, commit)

        self._make(plan)

    def _learn_blocks(
        self,
        blocks: deque[slice],
        activations: Matrix,
        targets: Matrix,
        n_targets: int,
        w: float | Floats,
    ) -> None:
        """Learn the blocks of a batch too long for one commit; all of them, once it has begun."""
        n_blocks = len(blocks)

        def plan(draft: Self, commit: Commit) -> None:
            """Learn the next block."""
            rows = blocks[0]
            draft.plan_growth(activations.shape[1], n_targets)
            weights = w if isinstance(w, float) else w[rows]
            draft.plan_rows(activations[rows], targets[rows], weights, 1, commit)
            commit.then(blocks.popleft)

        try:
            while blocks:
                self._make(plan)
        except BaseException:
            while 0 < len(blocks) < n_blocks:
                self._make(plan)
            raise

    def downdate(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Take rows out of the statistics again, in place: the inverse of `update`.

        Parameters are those of `update`; the weights are those the rows have now.

        Raises
        ------
        TypeError, ValueError
            As `update`, and if more would be taken out than was learnt, so far as count, weight
            and sums of squares tell; nothing has changed then.
        """
        self._make(self.removal(activations, targets, w))

    def removal(self, activations: Matrix, targets: Matrix, w: Any) -> Any:
        """Return what plans the removal of rows on a draft; raise if they cannot be taken out."""
        self._check_subtracts()
        read = self._read(activations, targets, w)
        weight, taken = self._check_holds_rows(*read)
        is_all = self._is_all(len(read[0]), weight)
        rows, targets, n_targets, w = read
        if not is_all:
            self._check_rows(rows, -1 * w)

        def plan(draft: Self, commit: Commit) -> None:
            """Take the rows out."""
            if is_all:
                draft._clear(commit)
                return
            draft.plan_growth(rows.shape[1], n_targets)
            draft.plan_blocks(rows, targets, -1 * w, -1, commit)
            draft._remove_squares(*taken)

        return plan

    def _check_holds_rows(
        self, activations: Matrix, targets: Matrix, n_targets: int, w: float | Floats
    ) -> tuple[float, tuple[Floats, Floats]]:
        """Return weight and squares of read rows to be taken out, or raise if they are not in."""
        if len(activations) > self._count:
            raise ValueError(
                f"activations has {len(activations)} rows, expected at most the {self._count} "
                "that were learnt. Take out only rows that are in."
            )
        weights = np.broadcast_to(w, len(activations))
        taken = row_squares(activations, targets, n_targets, weights)
        self._check_removable(float(weights.sum()), *taken)
        return float(weights.sum()), taken

    def _read(
        self, activations: Matrix, targets: Matrix, w: Any
    ) -> tuple[Matrix, Matrix, int, float | Floats]:
        """Return rows, targets, the number of targets and weights, all checked."""
        activations = check_matrix("activations", activations)
        if activations.shape[1] < self._n_features:
            raise ValueError(
                f"activations has {activations.shape[1]} columns, expected at least "
                f"{self._n_features}. Pass 0 for features that are absent."
            )
        targets, n_targets = check_targets(targets, len(activations))
        weights = check_weights(w, len(activations))
        check_mass(activations, weights)
        return activations, targets, max(n_targets, self._n_targets), weights

    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
        self._make(lambda draft, _: draft.plan_growth(n_features, n_targets))

    def merge(self, other: Self) -> None:
        """Add the statistics of `other`, in place; columns that it lacks count as zeros there.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        """
        self._check_kind(other)
        self.check_joins(other, other.n_features, other.n_targets)
        self._make(lambda draft, commit: draft.plan_merger(other, 1, commit))

    def subtract(self, other: Self) -> None:
        """Take the statistics of `other` away, in place: the inverse of `merge`.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        ValueError
            If it has learnt more rows, or holds larger sums of squares.
        """
        self._check_kind(other)
        self._check_subtracts()
        taken = self._check_holds(other)
        self._make(lambda draft, commit: draft._plan_subtraction(other, taken, commit))

    def _plan_subtraction(self, other: Self, taken: list[Floats], commit: Commit) -> None:
        if self._is_all(other.count, other.weight):
            self._clear(commit)
        else:
            self.plan_merger(other, -1, commit)
            self._remove_squares(*taken)

    def _check_holds(self, other: Self) -> list[Floats]:
        """Return the squares of statistics to be taken out, or raise if they are not in."""
        if other._count > self._count:
            raise ValueError(
                f"other has learnt {other._count} rows, expected at most the {self._count} here. "
                "Subtract only what was merged."
            )
        sizes = map(max, self._sizes, other._sizes)
        taken = [lengthened(*each) for each in zip(other._raw_squares(), sizes, strict=True)]
        self._check_removable(other.weight, *taken)
        return taken

    def unfolded(self) -> Accumulator:
        """Return the same statistics in one fold: these, if they are; a new sum, otherwise."""
        return self

    def _check_kind(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"other is of type {type(other).__name__}, expected {type(self).__name__}. "
                "Combine accumulators of one kind."
            )

    def scale(self, factor: float) -> None:
        """Multiply the weight of everything learnt so far, in place.

        Parameters
        ----------
        factor : float
            At least 0 and finite.

        Raises
        ------
        ValueError
            If it is not.
        """
        if not 0.0 <= factor < np.inf:
            raise ValueError(f"factor={factor!r} must be at least 0 and finite. Pass such a float.")
        self._make(lambda draft, commit: draft.plan_scaling(factor, commit))

    def restore_ridge(self) -> None:
        """Bring a ridge inside that has decayed with the rows back; does nothing without one."""
        self._make(lambda draft, commit: draft.plan_restoring(commit))

    def keep_targets(self, columns: Integers) -> None:
        """Drop all targets but those at the given columns, in place, in the order given."""
        self._make(lambda draft, commit: draft.plan_choice(columns, commit))
