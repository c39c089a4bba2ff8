"""What every kind of accumulator has to bring of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np

from onlinels.accumulators.hooks import Hooks
from onlinels.accumulators.ledger import Ledger
from onlinels.accumulators.uncertainty import Uncertainty
from onlinels.checks import Floats, Integers, Matrix
from onlinels.commit import Commit
from onlinels.linalg.selection import Spectrum
from onlinels.saving.files import Savable


class Statistics(Hooks, Ledger, Uncertainty, Savable):
    """Sums over rows and what follows from them, without checks; see `Accumulator`.

    What takes a commit is called on a draft: its numbers change at once, and the arrays that it
    shares with the original when the commit is made.
    """

    @abstractmethod
    def accumulate(self, block: Floats, targets: Matrix, w: float | Floats, commit: Commit) -> None:
        """Add checked rows, as `_cast` returns them, with weights of any one sign, uncounted."""

    def accumulate_both(
        self,
        parts: tuple[Floats, Matrix, float | Floats],
        row: tuple[Floats, Floats, float],
        commit: Commit,
    ) -> None:
        """Do as `accumulate` for rows, and for one more row (1, n_features)."""
        self.accumulate(*parts, commit)
        self.accumulate(*row, commit)

    def _cast(self, rows: Matrix) -> Matrix:
        """Return rows of any real dtype as `accumulate` takes them."""
        return np.ascontiguousarray(rows, dtype=np.float64)

    @property
    @abstractmethod
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,)."""

    @abstractmethod
    def plan_growth(self, n_features: int, n_targets: int) -> None:
        """Make room in a draft for features and targets that were 0 in every row so far."""

    @abstractmethod
    def placed(
        self, feature_columns: Integers, target_columns: Integers, n_features: int, n_targets: int
    ) -> Self:
        """Return a copy whose columns stand at the given places among more columns.

        Parameters
        ----------
        feature_columns : ndarray (self.n_features,) of int
            The new column of every feature.
        target_columns : ndarray (self.n_targets,) of int
            The new column of every target.
        n_features, n_targets : int
            The sizes of the copy.

        Raises
        ------
        ValueError
            If two columns have one place, or a place is beyond the sizes.
        """

    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, from which a ridge is chosen."""

    @abstractmethod
    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets).

        Parameters
        ----------
        ridge : float
            The ridge c; 0.0 gives the pseudo-inverse solution of minimum norm.
        diagonal : ndarray (n_features,), optional
            Instead of `self.diagonal`: with 0 for features that hold only rounding errors.
        """

    @abstractmethod
    def _combine(self, other: Self, sign: int, commit: Commit) -> None:
        """Add or take away the statistics of `other`, whose columns there is room for."""

    @abstractmethod
    def _scale(self, factor: float, commit: Commit) -> None:
        """Multiply all sums by a checked factor."""

    @abstractmethod
    def _keep_targets(self, columns: Integers, commit: Commit) -> None:
        """Drop all targets but those at checked columns."""
