"""How sure the weights are: their covariance, and how much of the targets they explain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from onlinels.checks import Floats


@dataclass(frozen=True)
class Covariance:
    """The covariance of output weights, in units of the noise variance.

    Parameters
    ----------
    matrix : ndarray (n_features, n_features)
        (A'A + c I)^-1.
    n_parameters : float
        Effective number of parameters, the trace of (A'A + c I)^-1 A'A; plus 1 for an intercept.
    origin : ndarray (n_features,), optional
        The mean of the features if there is an intercept, else None.
    intercept_share : float
        Variance of the mean of the targets, if there is an intercept: 1 / n.

    Examples
    --------
    >>> covariance = Covariance(np.diag([0.5, 0.1]), n_parameters=2.0)
    >>> covariance.leverages(np.array([[2.0, 1.0]]))
    array([2.1])
    """

    matrix: Floats
    n_parameters: float
    origin: Floats | None = None
    intercept_share: float = 0.0

    def leverages(self, rows: Floats) -> Floats:
        """Return x'(A'A + c I)^-1 x of every row x (about the mean), plus the intercept's share.

        Notes
        -----
        ``M^2`` operations a row.
        """
        about = rows if self.origin is None else rows - self.origin
        shares = np.einsum("ij,ij->i", about @ self.matrix, about)
        leverages: Floats = np.maximum(shares, 0.0) + self.intercept_share
        return leverages


class Uncertainty(ABC):
    """The part of an accumulator from which predictive variances come."""

    @abstractmethod
    def covariance(self, ridge: float, diagonal: Floats | None = None) -> Covariance:
        """Return the covariance of the weights that `solve` gives; parameters are those of it.

        A feature without data, always 0 (with an intercept: constant), has the variance 1 / c; at
        ridge 0 it has none.
        """

    @abstractmethod
    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return by how much weights lower every target's sum of squares, (n_targets,).

        That is 2 W'A'Y - W'A'A W, so `target_squares` minus it is the residual sum of squares of
        any weights (n_features, n_targets).
        """
