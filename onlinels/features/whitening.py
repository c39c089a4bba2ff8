"""ZCA whitening: the rotation-free linear map that makes values uncorrelated and of equal size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from onlinels.arrays import Floats, Matrix
from onlinels.frozen import Frozen


@dataclass(frozen=True, eq=False)
class Whitening(Frozen):
    """The affine map x -> (x - mean) matrix.

    Parameters
    ----------
    mean : ndarray (n_values,)
    matrix : ndarray (n_values, n_values), symmetric
    """

    mean: Floats
    matrix: Floats

    def apply(self, rows: Matrix) -> Floats:
        """Return rows (n, n_values) whitened."""
        whitened: Floats = (rows - self.mean) @ self.matrix
        return whitened


def fit_whitening(rows: Matrix, variance_offset: float) -> Whitening:
    """Fit ZCA whitening to a sample.

    matrix = V (D + variance_offset)^(-1/2) V', where V D V' is the sample's covariance.

    Parameters
    ----------
    rows : ndarray (n, n_values)
    variance_offset : float, above 0
        Added to the variance along every direction; directions of less variance are hardly
        amplified. In squared units of the values.

    Returns
    -------
    Whitening

    Notes
    -----
    ``n n_values^2 + 9 n_values^3`` operations.

    References
    ----------
    A. J. Bell and T. J. Sejnowski (1997), "The 'independent components' of natural scenes are
    edge filters"; A. Coates, H. Lee and A. Y. Ng (2011) for the offset.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 5.0, 9.0])
    >>> whitened = fit_whitening(rows, 1e-9).apply(rows)
    >>> bool(np.allclose(np.cov(whitened.T, bias=True), np.eye(3)))
    True
    """
    values = np.asarray(rows, dtype=np.float64)
    mean = values.mean(axis=0)
    centred = values - mean
    variances, directions = eigh(centred.T @ centred / len(values))
    # Rounding may leave variances a little below 0.
    scales = 1.0 / np.sqrt(np.maximum(variances, 0.0) + variance_offset)
    return Whitening(mean, (directions * scales) @ directions.T)
