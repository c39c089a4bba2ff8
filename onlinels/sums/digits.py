"""How many digits of a fit are left after rows were removed."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from onlinels.checks import Floats
from onlinels.core.reference import EPS
from onlinels.sums.packed import PackedSymmetric
from onlinels.sums.removals import MAX_LOST, n_additions
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
    with np.errstate(over="ignore", invalid="ignore"):
        losses = [
            (np.nan_to_num(error, nan=np.inf), column)
            for error, column in _losses(statistics, ridge, diagonal)
        ]
    return max(losses, key=itemgetter(0), default=(0.0, 0))


def are_negligible(statistics: Statistics) -> bool:
    """Tell whether removals have left six digits at any ridge, without solving for the weights.

    Also true if a model that learnt only the rows that stay would have about as few. False if that
    takes a solution: with W unknown, |W| is at most the length of the targets divided by sqrt(s).
    """
    rounding, n_features = statistics.rounding, statistics.n_features
    if not rounding.squares.any():
        return True
    # The errors of the sums of squares if the rows were learnt in one batch.
    of_rows = EPS * np.sqrt(n_additions(statistics.count)) * np.abs(statistics.squares())
    if (rounding.squares <= MAX_EXCESS * of_rows).all():
        return True
    told = np.concatenate((statistics.diagonal, statistics.target_squares))
    varies = told > 0.0
    if not (varies | statistics.are_constant).all():
        return False
    if not varies[:n_features].any() or not varies[n_features:].all():
        return False
    with np.errstate(over="ignore"):
        shares = np.where(varies, _ratio(rounding.squares, told), 0.0)
        means = np.sqrt(_ratio(rounding.sums**2, statistics.weight * told))
        means[~varies] = 0.0
    error = float(np.linalg.norm(shares[:n_features]))
    smallest, largest_zero = _smallest_eigenvalue(statistics, 0.0, told[:n_features])
    losses = (
        error / smallest,
        float(np.sqrt(error * shares[n_features:].max() / smallest)),
        float(shares[n_features:].max()) / LEAST_RESIDUAL,
        float(np.linalg.norm(means) / np.sqrt(smallest)),
    )
    return largest_zero == np.inf and max(losses) <= MAX_LOST


def _losses(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats
) -> Iterator[tuple[float, int]]:
    """Yield errors of the fit by their causes, and the columns of these causes."""
    n_features, rounding = statistics.n_features, statistics.rounding
    errors, of_targets = np.split(rounding.squares, [n_features])
    constant, constant_targets = np.split(statistics.are_constant, [n_features])
    penalties = np.broadcast_to(ridge, n_features).astype(float)
    weights = statistics.solve(ridge, diagonal)
    squares, weight = statistics.target_squares, statistics.weight
    of_target = np.where(constant_targets, 0.0, _ratio(of_targets, squares))

    present = diagonal > 0.0
    if present.any():
        shares = np.where(present, _ratio(errors, diagonal + penalties), 0.0)
        error, cause = float(np.linalg.norm(shares)), int(shares.argmax())
        smallest, largest_zero = _smallest_eigenvalue(statistics, ridge, diagonal)
        # Errors that make dependent features look independent are themselves the smallest
        # eigenvalue. Errors far above the rank tolerance may also hide an independent feature.
        if error > min(MAX_SHARE_OF_EIGENVALUE * smallest, 10.0 * largest_zero):
            yield np.inf, cause
        sizes = np.sqrt((diagonal + penalties) @ weights**2)
        in_fit = error * _ratio(sizes, np.sqrt(squares)) / np.sqrt(smallest)
        in_fit[constant_targets] = 0.0
        yield float(in_fit.max(initial=0.0)), cause
        in_fit = np.sqrt(error * of_target / smallest)
        yield float(in_fit.max(initial=0.0)), n_features + int(of_target.argmax())

    hidden = ~present & ~constant & (errors > 0.0)
    if hidden.any():
        # The weights of these features are 0, as if they did not vary: they lack A'y / D.
        cross = np.abs(statistics.products.gram_and_cross()[1])
        cross += np.sqrt(np.outer(errors, of_targets + EPS * squares))
        missed = np.sqrt(_ratio(cross**2, np.outer(penalties, squares)))
        missed[:, constant_targets] = 0.0
        missed[~hidden] = 0.0
        yield float(missed.max(initial=0.0)), int(missed.max(axis=1, initial=0.0).argmax())
    if (of_target > MAX_LOST * LEAST_RESIDUAL).any():
        # The noise variance, and with it every interval, comes from the residuals.
        explained = statistics.products.explained_squares(weights)
        residual = np.maximum(squares - explained, LEAST_RESIDUAL * squares)
        shares = np.where(constant_targets, 0.0, _ratio(of_targets, residual))
        yield float(shares.max()), n_features + int(shares.argmax())
    if statistics.is_centred and weight > 0.0:
        # Errors of the means are those of the intercept.
        features, targets = np.split(rounding.sums / weight, [n_features])
        whole = np.sqrt(squares / weight + statistics.target_mean**2)
        shares = _ratio(targets + features @ np.abs(weights), whole)
        shares[statistics.are_zero[n_features:]] = 0.0
        yield float(shares.max(initial=0.0)), n_features + int(shares.argmax())


def _smallest_eigenvalue(
    statistics: Statistics, ridge: float | Floats, diagonal: Floats
) -> tuple[float, float]:
    gram = PackedSymmetric.of(statistics.products.gram_and_cross()[0])
    return smallest_present_eigenvalue(gram, ridge, diagonal)


def _ratio(errors: Floats, squares: Floats) -> Floats:
    """Return errors relative to squares; infinite where only the errors are not 0."""
    nothing = np.where(errors > 0.0, np.inf, 0.0)
    return np.divide(errors, squares, out=nothing, where=squares > 0.0)
