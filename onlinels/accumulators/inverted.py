"""What an inverse and output weights tell of the rows that they follow."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.fading import FadingRidge
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.inverse import RunningInverse
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats
from onlinels.linalg.selection import Spectrum


class Inverted(Accumulator):
    """Hold P = (A'A + D)^-1 and the output weights W = P A'Y, and answer from them.

    Parameters
    ----------
    n_features, n_targets : int
    ridge : float
        The ridge c > 0 on every feature; D = c I until something is forgotten.
    """

    def __init__(self, n_features: int, n_targets: int, ridge: float) -> None:
        super().__init__(n_features, n_targets)
        self._ridge = ridge
        self._inverse: RunningInverse
        self._weights: Floats
        self._forget()

    def _forget(self) -> None:
        # Whether no other statistics share these: what is new, or was copied.
        self._is_own = True
        self._ridges = FadingRidge(self._n_features, self._ridge)
        self._squares = np.zeros(self._n_features)
        self._inverse = RunningInverse(self._ridges.entries)
        self._weights = np.zeros((self._n_features, self._n_targets), order="F")

    def information(self) -> GramAccumulator:
        """Return A'A and A'Y, from P^-1 - D and P^-1 W, in ``M^3`` operations."""
        upper = np.triu(self._inverse.matrix())
        full = upper + np.triu(upper, 1).T
        cross = full @ self._weights[: self._n_features, : self._n_targets]
        full.flat[:: self._n_features + 1] -= self._ridges.entries
        never = self._squares == 0.0
        full[never], full[:, never], cross[never] = 0.0, 0.0, 0.0
        return GramAccumulator.of(full, cross)

    @property
    def diagonal(self) -> Floats:
        """Every feature's weighted sum of squares, (n_features,), as a new array."""
        return self._squares.copy()

    def _raw_squares(self) -> tuple[Floats, Floats]:
        return self._squares, self.target_squares

    def row_scores(self, row: Floats) -> Floats | None:
        """Return the outputs (n_targets,) for a row; None while a feature was 0 in all rows."""
        squares = self._squares
        # Measured: a third of the time of a minimum.
        if not len(squares) or squares[squares.argmin()] <= 0.0:
            return None
        scores: Floats = row @ self._weights[: len(row), : self._n_targets]
        return scores

    @property
    def fixed_ridge(self) -> float:
        """The ridge c inside the statistics."""
        return self._ridge

    def ridge_diagonal(self, ridge: float) -> Floats:
        """Return D, (n_features,), if `ridge` is the one inside; else that ridge everywhere."""
        if ridge == self._ridge:
            return self._ridges.entries
        return super().ridge_diagonal(ridge)

    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, by way of the Gram."""
        return self.information().spectrum()

    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return P, if `ridge` is the one inside; see `Uncertainty.covariance`."""
        if ridge != self._ridge:
            diagonal = self._squares if diagonal is None else diagonal
            return self.information().covariance(ridge, diagonal)
        matrix = self._inverse.times(np.eye(self._n_features))
        parameters = self._n_features - float(self._ridges.entries @ matrix.diagonal())
        return Covariance(matrix, parameters)

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, by way of the Gram."""
        return self.information().explained_squares(output_weights)

    def solve(self, ridge: float, diagonal: Floats | None = None) -> Floats:
        """Return the output weights: at once, if `ridge` is the one inside."""
        diagonal = self._squares if diagonal is None else diagonal
        if ridge != self._ridge:
            return self.information().solve(ridge, diagonal)
        here = self._weights[: self._n_features, : self._n_targets]
        weights: Floats = here.copy(order="F")
        if diagonal.size and diagonal.min() <= 0.0:
            weights[diagonal <= 0.0] = 0.0
        return weights


def inverse_of_gram(gram: Floats, ridge: float) -> RunningInverse:
    """Return (A'A + c I)^-1; eigenvalues that rounding put below c are c, the least they can be."""
    matrix = gram.copy()
    matrix.flat[:: len(gram) + 1] += ridge
    try:
        return RunningInverse.of(matrix)
    except ValueError:
        eigenvalues, vectors = eigh(gram)
        shares = vectors / (np.maximum(eigenvalues, 0.0) + ridge)
        return RunningInverse.holding(shares @ vectors.T)
