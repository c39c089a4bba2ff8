"""Activations of hidden units, written over the projections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from onlinels.arrays import Matrix


def _cube(projections: Matrix, out: Matrix) -> Matrix:
    # Two products: a power takes many times as long.
    return np.multiply(np.square(projections), projections, out=out)


def _rectified_square(projections: Matrix, out: Matrix) -> Matrix:
    rectified = np.maximum(projections, 0.0, out=out)
    return np.square(rectified, out=out)


def _gaussian(projections: Matrix, out: Matrix) -> Matrix:
    exponents = np.negative(np.square(projections, out=out), out=out)
    return np.exp(exponents, out=out)


ACTIVATIONS: dict[str, Callable[..., Matrix]] = {
    "square": np.square,
    "relu": lambda projections, out: np.maximum(projections, 0.0, out=out),
    "rectified-square": _rectified_square,
    "logistic": expit,
    "tanh": np.tanh,
    "softplus": lambda projections, out: np.logaddexp(0.0, projections, out=out),
    "absolute": np.abs,
    "cube": _cube,
    "cosine": np.cos,
    "gaussian": _gaussian,
    "linear": np.positive,
}
"""Functions of projections and `out`, which may be one array."""


def activate(activation: str, projections: Matrix, features: Matrix) -> Matrix:
    """Return the activations of projections, written over them.

    Parameters
    ----------
    activation : str
    projections : ndarray (n, n_hidden)
    features : ndarray (n, n_features)
        What was projected, for the error.

    Raises
    ------
    ValueError
        If an activation leaves the range of the precision.

    Examples
    --------
    >>> activate("cube", np.array([[2.0]]), np.ones((1, 1)))
    array([[8.]])
    """
    # Overflow on the way may lead to a limit, as of e^(-u^2): only what comes out counts.
    with np.errstate(over="ignore", invalid="ignore"):
        activations = ACTIVATIONS[activation](projections, out=projections)
        # Both pass NaN on.
        extremes = (activations.min(), activations.max())
    if not np.isfinite(extremes).all():
        largest = max(float(features.max()), -float(features.min()))
        remedy = "" if projections.dtype == np.float64 else ', or set dtype="float64"'
        raise ValueError(
            f"activation={activation!r} leaves the range of {projections.dtype} with features as "
            f"large as {largest:g}, expected finite activations. Rescale the features{remedy}."
        )
    return activations
