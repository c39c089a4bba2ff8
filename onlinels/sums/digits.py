"""How many digits of a fit are left after rows were removed."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import Floats, ignoring
from onlinels.core.constants import EPS
from onlinels.sums.forms import GramSums
from onlinels.sums.removals import MAX_LOST, are_constant, n_additions
from onlinels.sums.solve import smallest_present_eigenvalue
from onlinels.sums.statistics import Statistics

MAX_SHARE_OF_EIGENVALUE = 0.1
"""Rounding errors, relative to the smallest eigenvalue, up to which their effect is known."""

MAX_EXCESS = 10.0
"""Rounding errors, relative to those of learning the rows that stay, up to which they are usual."""

LEAST_RESIDUAL = 1e-3
"""Residual sum of squares, relative to that of the targets, from which its digits count."""


def lost_by_removals(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats
) -> tuple[float, int]:
    """Return the error of the fit that removed rows have left, and the column of its cause.

    The error is an estimate, relative to the targets. Rounding errors E of A'A and e of A'y change
    W = (A'A + D)^-1 A'y by (A'A + D)^-1 (e - E W). In units in which A'A + D has a unit diagonal
    and the smallest eigenvalue s, the fit changes by at most (|e| + |E| |W|) / sqrt(s), as long as
    |E| is well below s.

    Parameters
    ----------
    statistics : Statistics
        Statistics in the Gram form, from which rows were removed.
    ridge, diagonal
        Parameters of `Statistics.solve`.

    Returns
    -------
    error : float
        Infinite if nothing can be said.
    column : int
        Column of a feature or, from `n_features` on, of a target.
    """
    return _largest_loss(statistics, ridge, diagonal, statistics.solve(ridge, diagonal))


def are_negligible(statistics: Statistics, most: float = MAX_LOST) -> bool:
    """Tell whether removals have left six digits at any ridge, without solving for the weights.

    Other digits if another error is passed as `most`.

    Also true if a model that learnt only the rows that stay would have about as few. False if that
    takes a solution: with W unknown, |W| is at most the length of the targets divided by sqrt(s).
    """
    # The errors of the sums of squares if the rows were learnt in one batch.
    of_rows = EPS * np.sqrt(float(n_additions(statistics.count))) * np.abs(statistics.squares)
    if (statistics.rounding.squares <= MAX_EXCESS * of_rows).all():
        return True
    return _largest_loss(statistics, 0.0, statistics.diagonal)[0] <= most


@ignoring("over", "invalid")
def _largest_loss(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats, weights: Floats | None = None
) -> tuple[float, int]:
    losses = [
        (float(np.nan_to_num(error, nan=np.inf)), column)
        for error, column in _losses(statistics, ridge, diagonal, weights)
    ]
    return max(losses, key=itemgetter(0))


def _are_constant(statistics: Statistics) -> NDArray[np.bool_]:
    """Return which features, then targets, have one value in all rows; 0 if not centred."""
    if statistics.mean is None:
        return statistics.are_zero
    n_rows = statistics.count - statistics.weightless
    return are_constant(statistics.prints, n_rows) | (n_rows <= 1)


def gram_sums(statistics: Statistics) -> GramSums:
    """Return A'A and A'Y of statistics in any form."""
    products = statistics.products
    if isinstance(products, GramSums):
        return products
    return GramSums.of(*products.gram_and_cross())


def _losses(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats, weights: Floats | None
) -> Iterator[tuple[float, int]]:
    """Yield errors of the fit by their causes, and the columns of these causes.

    Without weights, these are bounds for any weights and any ridge.
    """
    products, rounding, n_features = gram_sums(statistics), statistics.rounding, len(diagonal)
    errors, of_targets = np.split(rounding.squares, [n_features])
    constant, constant_targets = np.split(_are_constant(statistics), [n_features])
    squares, weight = statistics.target_squares, statistics.weight or np.inf
    penalties = np.broadcast_to(ridge, n_features).astype(float)
    of_target = np.where(constant_targets, 0.0, _ratio(of_targets, squares))
    worst_target = n_features + int(of_target.argmax())
    of_mean, of_target_mean = np.split(rounding.sums / weight, [n_features])

    present = diagonal > 0.0
    if present.any():
        system = np.where(present, diagonal + penalties, np.inf)
        error, cause = float(np.linalg.norm(errors / system)), int((errors / system).argmax())
        smallest, largest_zero = smallest_present_eigenvalue(products.gram, ridge, diagonal)
        # Errors that make dependent features look independent are themselves the smallest
        # eigenvalue. Errors far above the rank tolerance may also hide an independent feature.
        if error > min(MAX_SHARE_OF_EIGENVALUE * smallest, 10.0 * largest_zero):
            yield np.inf, cause
        if weights is None and largest_zero < np.inf:
            yield np.inf, cause  # A tiny ridge would amplify the errors.
        # The length of W in these units, relative to that of the targets.
        if weights is None:
            lengths, of_means = np.full(len(squares), smallest**-0.5), of_mean / np.sqrt(system)
            of_target_mean += np.linalg.norm(of_means) * lengths * np.sqrt(squares)
        else:
            lengths = np.sqrt(_ratio((diagonal + penalties) @ weights**2, squares))
            of_target_mean += of_mean @ np.abs(weights)
        lengths[constant_targets] = 0.0
        yield error * float(lengths.max()) / smallest**0.5, cause
        yield float(np.sqrt(error * of_target.max() / smallest)), worst_target

    hidden = ~present & ~constant & (errors > 0.0)
    if hidden.any():
        # The weights of these features are 0, as if they did not vary: they lack A'y / D.
        cross = np.abs(products.cross) + np.sqrt(np.outer(errors, of_targets + EPS * squares))
        missed = np.sqrt(_ratio(cross**2, np.outer(penalties, squares)))
        missed[:, constant_targets] = 0.0
        missed[~hidden] = 0.0
        yield float(missed.max()), int(missed.max(axis=1).argmax())
    # The noise variance, and with it every interval, comes from the residuals.
    residual = LEAST_RESIDUAL * squares
    if weights is not None and (of_target > MAX_LOST * LEAST_RESIDUAL).any():
        residual = np.maximum(residual, squares - products.explained_squares(weights))
    shares = np.where(constant_targets, 0.0, _ratio(of_targets, residual))
    yield float(shares.max()), n_features + int(shares.argmax())
    if statistics.is_centred:
        # Errors of the means are those of the intercept.
        shares = _ratio(of_target_mean, np.sqrt(squares / weight + statistics.target_mean**2))
        shares[statistics.are_zero[n_features:]] = 0.0
        yield float(shares.max()), n_features + int(shares.argmax())


def _ratio(errors: Floats, squares: Floats) -> Floats:
    """Return errors relative to squares; infinite where only the errors are not 0."""
    nothing = np.where(errors > 0.0, np.inf, 0.0)
    return np.divide(errors, squares, out=nothing, where=squares > 0.0)
