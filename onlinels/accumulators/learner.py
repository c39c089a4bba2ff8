"""How rows enter statistics and leave them: the checks at the boundary, then block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from onlinels.accumulators.ledger import Ledger
from onlinels.arrays import (
    Floats,
    Matrix,
    check_mass,
    check_matrix,
    check_weights,
    row_blocks,
)
from onlinels.targets import check_targets


class RowLearner(Ledger, ABC):
    """Check rows, add them with their weights, and count them.

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
        self._signed_update(activations, targets, w, 1)

    def downdate(self, activations: Matrix, targets: Matrix, w: Any = None) -> None:
        """Take rows out of the statistics again, in place: the inverse of `update`.

        Parameters and errors are those of `update`; the weights are those the rows have now.
        """
        self._signed_update(activations, targets, w, -1)

    def _signed_update(self, activations: Matrix, targets: Matrix, w: Any, sign: int) -> None:
        activations = check_matrix("activations", activations)
        if sign < 0:
            self._check_subtracts()
        if activations.shape[1] < self._n_features:
            raise ValueError(
                f"activations has {activations.shape[1]} columns, expected at least "
                f"{self._n_features}. Pass 0 for features that are absent."
            )
        if sign < 0:
            self._check_holds(activations)
        targets, n_targets = check_targets(targets, len(activations))
        weights = check_weights(w, len(activations))
        check_mass(activations, weights)
        signed = sign * weights
        self.grow(activations.shape[1], n_targets)
        self._add_rows(activations, targets, signed, sign)

    def _add_rows(self, activations: Matrix, targets: Matrix, w: float | Floats, sign: int) -> None:
        """Accumulate, count and weigh checked rows, with weights of the given sign."""
        for rows in row_blocks(*activations.shape):
            block = np.ascontiguousarray(activations[rows], dtype=np.float64)
            self.accumulate(block, targets[rows], w if isinstance(w, float) else w[rows])
        self._count += np.int64(sign * len(activations))
        self._weigh(targets, w)

    def _check_holds(self, activations: Matrix) -> None:
        """Raise if more rows are to be taken out than are in."""
        if len(activations) > self._count:
            raise ValueError(
                f"activations has {len(activations)} rows, expected at most the {self._count} that "
                "were learnt. Take out only rows that are in."
            )

    def _check_subtracts(self) -> None:
        """Raise if rows cannot be taken out of this kind of statistics."""

    @abstractmethod
    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats) -> None:
        """Add checked float64 rows with weights of any one sign, without counting them."""

    @abstractmethod
    def grow(self, n_features: int, n_targets: int) -> None:
        """Make room for features and targets that were 0 in every row so far, in place."""
