"""How many digits of a fit are left after rows were removed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onlinels.accumulators.statistics import Statistics
from onlinels.checks import Floats
from onlinels.linalg.rounding import MAX_ROUNDING

MAX_LOST = 1e-6
"""Largest error of the fit, relative to the targets, that removals may cause."""

LEAST_RESIDUAL = 1e-3
"""Residual sum of squares, relative to that of the targets, from which its digits count."""


def lost_by_removals(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats | None = None
) -> tuple[float, int]:
    """Return the error of the fit that removed rows have left, and the column of its cause.

    The error is an estimate, relative to the targets: rounding errors E of A'A and e of A'y change
    W = (A'A + D)^-1 A'y by (A'A + D)^-1 (e - E W). In units in which A'A + D has a unit diagonal
    and the smallest eigenvalue s, the fit changes by at most |E| / s and |e| / sqrt(s).

    Parameters
    ----------
    statistics : Statistics
        Statistics from which rows were removed.
    ridge, diagonal
        Parameters of `Statistics.solve`.

    Returns
    -------
    error : float
        Infinite if nothing can be said.
    column : int
        Column of a feature or, from `n_features` on, of a target.
    """
    if not statistics.rounding.squares.any():
        return 0.0, 0
    return max(_losses(statistics, ridge, diagonal), key=lambda loss: loss[0])


def _losses(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats | None
) -> Iterator[tuple[float, int]]:
    """Yield errors of the fit by their causes, and the columns of these causes."""
    n_features, rounding = statistics.n_features, statistics.rounding
    errors, of_targets = np.split(rounding.squares, [n_features])
    constant, constant_targets = np.split(statistics.are_constant, [n_features])
    diagonal = statistics.diagonal if diagonal is None else diagonal
    penalties = np.broadcast_to(ridge, n_features).astype(float)
    present, hidden = diagonal > 0.0, (diagonal <= 0.0) & ~constant & (errors > 0.0)
    shares = np.where(present, _ratio(errors, diagonal + penalties), 0.0)
    error, cause = float(np.linalg.norm(shares)), int(shares.argmax()) if n_features else 0
    if hidden.any():
        # The weights of these features are 0, as if they did not vary.
        missed = np.where(hidden, np.sqrt(MAX_ROUNDING * _ratio(errors, penalties)), 0.0)
        yield float(missed.max()), int(missed.argmax())
    # Sums that hold an inverse have compared it with a sketch.
    if present.any() and statistics.recursion is None:
        smallest, largest_zero = statistics.products.smallest_eigenvalue(ridge, diagonal)
        error = error / smallest if error < largest_zero else np.inf
    yield error, cause

    squares, weight = statistics.target_squares, statistics.weight
    shares = np.where(constant_targets, 0.0, _ratio(of_targets, squares))
    cause = n_features + int(shares.argmax()) if shares.size else 0
    yield float(np.sqrt(error * shares.max(initial=0.0))), cause
    weights = statistics.solve(ridge, diagonal)
    if (shares > MAX_LOST * LEAST_RESIDUAL).any():
        # The noise variance, and with it every interval, comes from the residuals.
        explained = statistics.products.explained_squares(weights)
        residual = np.maximum(squares - explained, LEAST_RESIDUAL * squares)
        shares = np.where(constant_targets, 0.0, _ratio(of_targets, residual))
        yield float(shares.max()), n_features + int(shares.argmax())
    if statistics.is_centred and weight > 0.0:
        # Errors of the means are those of the intercept.
        features, targets = np.split(rounding.sums / weight, [n_features])
        sizes = np.sqrt(squares / weight + statistics.target_mean**2)
        shares = _ratio(targets + features @ np.abs(weights), sizes)
        shares[statistics.are_zero[n_features:]] = 0.0
        yield float(shares.max(initial=0.0)), n_features + int(shares.argmax())


def _ratio(errors: Floats, squares: Floats) -> Floats:
    """Return errors relative to squares; infinite where only the errors are not 0."""
    nothing = np.where(errors > 0.0, np.inf, 0.0)
    return np.divide(errors, squares, out=nothing, where=squares > 0.0)
