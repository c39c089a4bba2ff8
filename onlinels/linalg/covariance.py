"""The covariance of output weights, and the leverages of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinels.checks import Floats


@dataclass(frozen=True)
class Covariance:
    """The covariance of output weights, in units of the noise variance.

    Parameters
    ----------
    matrix : ndarray (n_features, n_features)
        (A'A + D)^-1.
    n_parameters : float
        Effective number of parameters, the trace of (A'A + D)^-1 A'A; plus 1 for an intercept.
    origin : ndarray (n_features,), optional
        The mean of the features with an intercept; None without an intercept.
    intercept_share : float
        Variance of the mean of the targets with an intercept: 1 / n.

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
        """Return x'(A'A + D)^-1 x of every row x (about the mean), plus the intercept's share."""
        about = rows if self.origin is None else rows - self.origin
        shares = np.einsum("ij,ij->i", about @ self.matrix, about)
        leverages: Floats = np.maximum(shares, 0.0) + self.intercept_share
        return leverages
