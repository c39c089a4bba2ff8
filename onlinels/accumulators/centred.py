"""An unpenalised intercept for any accumulator, by means and co-moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from onlinels.accumulators.comoments import CoMoments
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats
from onlinels.commit import Commit
from onlinels.linalg.selection import Spectrum, Sums


class CentredAccumulator(CoMoments):
    """Learn rows relative to their mean, so that the intercept is exact and carries no ridge.

    Rows are taken about their mean (see `CoMoments`).

    Parameters
    ----------
    comoments : Accumulator
        An empty accumulator, which will hold the centred rows.

    Notes
    -----
    Never n * mean * mean' is subtracted, so features with a mean of 1e6 and a deviation of 1 keep
    their digits. The centred copy of a batch is one more temporary array of its size.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinels.accumulators.gram import GramAccumulator
    >>> acc = CentredAccumulator(GramAccumulator())
    >>> acc.update(np.array([[1.0], [3.0]]), np.array([[10.0], [14.0]]))
    >>> weights = acc.solve(ridge=0.0)
    >>> round(weights.item(), 12), round(acc.intercept(weights).item(), 12)
    (2.0, 8.0)
    """

    @property
    def holds_ridge(self) -> bool:
        """Whether the co-moments hold their ridge inside."""
        return self._comoments.holds_ridge

    @property
    def fixed_ridge(self) -> float | None:
        """The ridge inside the co-moments; None where it enters only when weights are solved."""
        return self._comoments.fixed_ridge

    def fix_ridge(self, ridge: float) -> None:
        """Take a ridge into the co-moments; does nothing where it enters only at solve time."""
        self._comoments.fix_ridge(ridge)

    def plan_ridge(self, ridge: float, commit: Commit) -> None:
        """Do as `fix_ridge` when the commit is made."""
        self._comoments.plan_ridge(ridge, commit)

    def own(self) -> None:
        """Hold co-moments that are no other's, so that changes may build on one another."""
        self._comoments.own()

    def plan_restoring(self, commit: Commit) -> None:
        """Bring a ridge inside the co-moments back to c; see `RecursiveAccumulator`."""
        self._comoments.plan_restoring(commit)

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return the ridge in force on each feature, (n_features,)."""
        return self._comoments.ridge_diagonal(ridge)

    def spectrum(self) -> Spectrum:
        """Return the co-moments in their eigenbasis; the intercept is one parameter more."""
        return replace(
            self._comoments.spectrum(),
            target_squares=self.target_squares,
            weight=self.weight,
            n_free=1,
        )

    def sums_about(self, centre: Self) -> Sums:
        """Return sums of products about the means of `centre`: one row more than the co-moments."""
        sums = self._comoments.sums_about(centre._comoments)
        # With nothing to centre on, means of 0 make every prediction 0.
        apart, targets_apart = centre._apart(self._feature_mean, self._target_mean)
        return Sums(
            sums.gram + self._weight * np.triu(np.outer(apart, apart)),
            sums.cross + self._weight * np.outer(apart, targets_apart),
            self.target_squares + self._weight * targets_apart**2,
        )

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return (C + c I)^-1 for rows about the mean; the intercept is one parameter more."""
        diagonal = self.diagonal if diagonal is None else diagonal
        slopes = self._comoments.covariance(ridge, diagonal)
        return replace(
            slopes,
            n_parameters=slopes.n_parameters + 1.0,
            origin=self._feature_mean.value,
            intercept_share=1.0 / self._weight if self._weight else np.inf,
        )

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return by how much weights lower every target's sum of squares about its mean."""
        return self._comoments.explained_squares(output_weights)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights (n_features, n_targets); the ridge spares the intercept."""
        return self._comoments.solve(ridge, self.diagonal if diagonal is None else diagonal)

    def row_scores(self, row: Floats) -> Floats | None:
        """Return the outputs (n_targets,) for a row, or None where weights would be solved first.

        The mean of the targets, and what the row's distance from the mean row adds.
        """
        if self.fixed_ridge is None:
            return None
        scores = self._comoments.row_scores(self._feature_mean.to(row))
        if scores is None or self.diagonal.min() <= 0.0:
            return None
        return self._target_mean.value + scores

    def intercept(self, output_weights: Floats) -> Floats:
        """Return the constant (n_targets,): the mean of the targets minus that of the scores."""
        constant: Floats = self._target_mean.value - self._feature_mean.value @ output_weights
        return constant
