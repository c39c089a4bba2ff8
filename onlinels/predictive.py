"""Predictive variances: how far a fresh target may lie from its prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.uncertainty import Covariance
from onlinels.checks import Floats

ROUNDING = float(np.finfo(np.float64).eps)
"""Residual sum of squares, relative to the targets', that cannot be told from 0."""

FEWEST_FREE = 1e-9
"""Degrees of freedom left, relative to the weight of the rows, that cannot be told from 0."""

OVERFLOW: Any = {"over": "ignore", "invalid": "ignore"}
"""How numpy errs in variances: those beyond float64, as of features at 1e-160, are infinite."""


@dataclass(frozen=True)
class Spread:
    """What predictive variances need, all of it a function of the statistics and the ridge.

    A fresh target of row x has the variance s^2 (1 + x'(A'A + c I)^-1 x), with the noise variance
    s^2 = RSS / (n - p), the residual sum of squares and the effective number of parameters p of
    the ridge solution. Were the weights drawn from a normal distribution of variance s^2 / c, this
    would be the variance given all rows, and s^2 its unbiased estimate.

    Parameters
    ----------
    noise : ndarray (n_targets,)
        Noise variance s^2 of every target, infinite while n is not above p.
    ridge : float
    covariance : Covariance

    References
    ----------
    C. M. Bishop, "Pattern Recognition and Machine Learning", 2006, equation 3.59.

    Examples
    --------
    >>> spread = Spread(np.array([4.0]), 0.5, Covariance(np.array([[0.25]]), 1.0))
    >>> spread.variances(np.array([[2.0]]), unknown=np.array([[1.0]]))
    array([[16.]])
    """

    noise: Floats
    ridge: float
    covariance: Covariance

    def variances(self, rows: Floats, unknown: Floats) -> Floats:
        """Return the variance of every row's targets, (n, n_targets).

        Parameters
        ----------
        rows : ndarray (n, n_features)
        unknown : ndarray (n, any)
            Features never learnt: they were 0 in every row, so their weight has the variance
            s^2 / c.
        """
        return _products(1.0 + self.leverages(rows, unknown), self.noise)

    def score_variances(self, rows: Floats, unknown: Floats) -> Floats:
        """Return the variance of every row's predictions alone, without that of a fresh target.

        That is s^2 x'(A'A + c I)^-1 x; parameters and result are those of `variances`.

        Examples
        --------
        >>> spread = Spread(np.array([4.0]), 0.5, Covariance(np.array([[0.25]]), 1.0))
        >>> spread.score_variances(np.array([[2.0]]), unknown=np.array([[1.0]]))
        array([[12.]])
        """
        leverages = self.leverages(rows, unknown)
        if np.isinf(self.noise).any():
            # Not even of rows without any leverage is anything known.
            return np.full((len(leverages), len(self.noise)), np.inf)
        return _products(leverages, self.noise)

    def leverages(self, rows: Floats, unknown: Floats) -> Floats:
        """Return x'(A'A + c I)^-1 x of every row, (n,); parameters are those of `variances`."""
        with np.errstate(**OVERFLOW):
            leverages = self.covariance.leverages(rows)
            if self.ridge > 0.0:
                leverages = leverages + (unknown**2).sum(axis=1) / self.ridge
        return leverages


def _products(leverages: Floats, noise: Floats) -> Floats:
    """Return every leverage times every noise variance; infinite where that is beyond float64."""
    with np.errstate(**OVERFLOW):
        variances = np.outer(leverages, noise)
    variances[np.isnan(variances)] = np.inf
    return variances


def spread_of(statistics: Accumulator, ridge: float, output_weights: Floats) -> Spread:
    """Return the spread at a ridge, from the statistics alone.

    Notes
    -----
    About ``M^3`` operations; afterwards ``M^2`` a prediction, and as much memory as a Gram.
    """
    with np.errstate(**OVERFLOW):
        covariance = statistics.covariance(ridge)
        squares = statistics.target_squares
        residual = squares - statistics.explained_squares(output_weights)
    free = statistics.weight - covariance.n_parameters
    if not statistics.weight or free <= FEWEST_FREE * statistics.weight:
        return Spread(np.full(len(residual), np.inf), ridge, covariance)
    return Spread(np.maximum(residual, ROUNDING * np.abs(squares)) / free, ridge, covariance)
