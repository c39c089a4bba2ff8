"""Weights of rows: read and checked before anything is learnt."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinels.arrays import LARGEST_VALUE, Floats, Matrix, refuse_masked
from onlinels.scalars import as_number


def check_weights(w: Any, n_rows: int) -> float | Floats:
    """Return row weights as one float for all rows, or as a vector with one weight per row.

    Raises
    ------
    TypeError
        If `w` is masked or not numeric.
    ValueError
        If a weight is negative or not finite, or their number is not `n_rows`.

    Examples
    --------
    >>> check_weights(None, 3), check_weights([1, 2], 2)
    (1.0, array([1., 2.]))
    """
    if w is None:
        return 1.0
    refuse_masked("w", w)
    weights = _as_floats(w)
    if not np.all(np.abs(weights) <= LARGEST_VALUE):
        raise ValueError(
            f"w holds nan, infinite or huge weights, expected numbers from 0 to {LARGEST_VALUE:g}. "
            "Leave rows that should not count out, or weigh them 0."
        )
    if weights.ndim and weights.shape != (n_rows,):
        raise ValueError(
            f"w has shape {weights.shape}, expected ({n_rows},). "
            "Pass one weight per row, or a number."
        )
    if weights.size and weights.min() < 0:
        raise ValueError(
            f"w holds {weights.min()}, expected weights of at least 0. "
            "Negative weights would unlearn; leave rows that should not count out, or weigh them 0."
        )
    return weights.copy() if weights.ndim else float(weights)


def _as_floats(w: Any) -> Floats:
    """Return weights of any kind of numbers as floats; None is NaN, and what is too large inf."""
    try:
        weights = np.asarray(w)
    except ValueError as error:
        raise TypeError(f"w is no array of numbers: {error}. Pass one number per row.") from error
    if weights.dtype.kind in "biuf":
        return weights.astype(np.float64)
    numbers = [np.nan if each is None else as_number(each) for each in weights.ravel().tolist()]
    if weights.dtype.kind != "O" or None in numbers:
        problem = f"it holds {weights.dtype}" if weights.dtype.kind != "O" else "one is none"
        raise TypeError(f"w is no array of numbers: {problem}. Pass one number per row.")
    return np.array(numbers, dtype=np.float64).reshape(weights.shape)


def check_mass(values: Matrix, w: float | Floats) -> None:
    """Raise if weight times squared value could overflow a sum over a stream.

    Raises
    ------
    ValueError
        If the largest weight times the largest squared value is over 1e300.
    """
    heaviest = w if isinstance(w, float) else float(w.max())
    if heaviest <= 1.0 or not values.size:
        return
    largest = max(-float(values.min()), float(values.max()))
    if heaviest > LARGEST_VALUE**2 / max(largest, 1.0) ** 2:
        raise ValueError(
            f"w holds {heaviest:g} for values as large as {largest:g}, expected weight times "
            f"squared value of at most {LARGEST_VALUE**2:g}. Rescale weights or features."
        )
