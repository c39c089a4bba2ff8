"""The interface that all accumulators share."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from onlinels.accumulators.ledger import lengthened
from onlinels.accumulators.protocol import Statistics
from onlinels.accumulators.removal import SLACK, check_removable, row_squares
from onlinels.arrays import LEAST_ROWS, Floats, Integers, Matrix, check_matrix, row_blocks
from onlinels.row_weights import check_mass, check_weights
from onlinels.targets import check_targets

ONE = np.int64(1)

NAMES = "features'", "targets'"


class Accumulator(Statistics):
    """Sufficient statistics of a stream of rows: they add, subtract, grow, and give weights.

    The statistics of two streams add up to the statistics of both. Output weights are a pure
    function of statistics and ridge. No row is kept.

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
        self._add(*self._read(activations, targets, w), 1)

    def downdate(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Take rows out of the statistics again, in place: the inverse of `update`.

        Parameters are those of `update`; the weights are those the rows have now.

        Raises
        ------
        TypeError, ValueError
            As `update`, and if more would be taken out than was learnt, so far as count, weight
            and sums of squares tell; nothing has changed then.
        """
        self._check_subtracts()
        read = self._read(activations, targets, w)
        weight, taken = self._check_holds_rows(*read)
        if self._is_all(len(read[0]), weight):
            self._clear()
        else:
            self._add(*read, -1)
            self._remove_squares(*taken)

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

    def add_checked(self, activations: Matrix, targets: Matrix, w: float | Floats) -> None:
        """Do as `update`, for rows and weights that are checked, of targets there is room for."""
        self._add(activations, targets, self._n_targets, w, 1)

    def add_known(self, rows: Floats, targets: Matrix, w: float | Floats) -> None:
        """Do as `update`, for checked float64 rows that are short enough not to be refused.

        Features and targets are known; see `harmless_length`.
        """
        if len(rows) == 1 and isinstance(w, float):
            self.add_one(rows, targets, w)
        else:
            self._add_rows(rows, targets, w, 1)

    def add_one(self, row: Floats, targets: Matrix, w: float) -> None:
        """Do as `add_known` for one row (1, n_features)."""
        self.accumulate(row, targets, w)
        self._count += ONE
        self._weigh(targets, w)

    def _add(
        self, activations: Matrix, targets: Matrix, n_targets: int, w: float | Floats, sign: int
    ) -> None:
        signed = sign * w
        self._check_rows(activations, signed)
        self.grow(activations.shape[1], n_targets)
        self._add_rows(activations, targets, signed, sign)

    def _add_rows(self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int) -> None:
        """Accumulate, count and weigh checked rows, with weights of the given sign."""
        shape = len(activations), activations.shape[1]
        for rows in row_blocks(*shape, LEAST_ROWS):
            block = self._cast(activations[rows])
            self.accumulate(block, targets[rows], w if isinstance(w, float) else w[rows])
        self._count += np.int64(sign * len(activations))
        self._weigh(targets, w)

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

    def _clear(self) -> None:
        """Leave nothing behind, not even rounding errors, once all rows are taken out."""
        self._count = np.int64(0)
        self.scale(0.0)

    def merge(self, other: Self) -> None:
        """Add the statistics of `other`, in place; columns that it lacks count as zeros there.

        Raises
        ------
        TypeError
            If `other` is another kind of accumulator.
        """
        self._check_kind(other)
        self._join(other, 1)

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
        if self._is_all(other.count, other.weight):
            self._clear()
        else:
            self._join(other, -1)
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

    def _join(self, other: Self, sign: int) -> None:
        # Only where a ridge is inside can it fail halfway; sums are not worth a copy.
        before = copy.deepcopy(vars(self)) if self.fixed_ridge is not None else {}
        try:
            self.grow(other.n_features, other.n_targets)
            self._combine(other, sign)
        except ValueError:
            vars(self).update(before)
            raise
        self._count += np.int64(sign) * other._count
        self._add_weights(other, sign)
        self._remove_squares(*other._removed)

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
        if factor == 1.0:
            return
        self._scale(factor)
        self._weight *= factor
        self._target_squares *= factor
        self._removed = tuple(factor * removed for removed in self._removed)

    def keep_targets(self, columns: Integers) -> None:
        """Drop all targets but those at the given columns, in place, in the order given."""
        self._keep_weights(columns)
        self._keep_targets(columns)
