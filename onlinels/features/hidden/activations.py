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
