"""What only some accumulators do, with what all others do instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from onlinels.checks import Floats, Matrix
from onlinels.commit import Commit
from onlinels.linalg.selection import Sums
from onlinels.rows import Name


class Hooks:
    """Defaults of accumulators whose ridge enters only at solve time and whose rows come out."""

    _n_features: int

    @property
    def holds_ridge(self) -> bool:
        """Whether the statistics hold their ridge inside, so that it cannot change cheaply."""
        return False

    @property
    def fixed_ridge(self) -> float | None:
        """The ridge inside the statistics; None where it enters only when weights are solved."""
        return None

    @property
    def n_folds(self) -> int:
        """Number of folds in which rows are kept apart; 1 where they are not."""
        return 1

    def bytes_for(self, n_features: int, n_targets: int) -> int:
        """Return the bytes that it takes to learn and to solve so many features and targets.

        By default twice what two matrices take, M x M and M x N.
        """
        return 16 * n_features * (n_features + n_targets)

    def fix_ridge(self, ridge: float) -> None:
        """Take a ridge into the statistics; does nothing where it enters only at solve time."""

    def plan_ridge(self, ridge: float, commit: Commit) -> None:
        """Do as `fix_ridge` when the commit is made."""

    def own(self) -> None:
        """Prepare a draft for changes that build on one another: where these are sums, none do."""

    def plan_restoring(self, commit: Commit) -> None:
        """Bring a ridge inside that has decayed with the rows back; does nothing without one."""

    def unit_rows(self, n_rows: int) -> int:
        """Return how many of the rows of a batch can be learnt by one commit."""
        return n_rows

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge in force on each feature, (n_features,), if `ridge` is the setting."""
        return np.full(self._n_features, ridge)

    def row_scores(self, row: Floats) -> Floats | None:
        """Return the outputs (n_targets,) for a row, or None where weights would be solved first.

        Those at the ridge inside, for a row (n_features,) of float64.
        """
        return None

    def _check_subtracts(self) -> None:
        """Raise if rows cannot be taken out of this kind of statistics."""

    def _check_rows(self, activations: Matrix, w: float | Floats) -> None:
        """Raise if checked rows, all together, cannot be added (or, of w < 0, taken out)."""

    def harmless_length(self, weight: float) -> float:
        """Return the Euclidean length up to which rows cannot outweigh a ridge inside, in O(M).

        Parameters
        ----------
        weight : float
            Total weight of the rows; each may be of that length. Negative: not even rows of zeros.
        """
        return np.inf

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,) of output weights: 0 where rows are as they are."""
        return np.zeros(output_weights.shape[1])

    def name_features(self, names: Sequence[Name]) -> None:
        """Take the names of all features, in the order of their columns; most do not need them."""

    def sums_about(self, centre: Self) -> Sums:
        """Return plain sums of products of the rows, with `centre` at the origin.

        That is about the means of `centre` where there is an intercept, whatever the means here;
        about 0 otherwise. With them the squared error of any output weights can be told.

        Raises
        ------
        TypeError
            If this kind of statistics holds no sums of products.
        """
        raise TypeError(
            f"{type(self).__name__} holds no sums of products, which folds need. "
            'Use accumulator="gram".'
        )
