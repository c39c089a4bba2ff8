"""Weights and answers of a state: functions that change only what is derived from it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, ignoring
from onlinels.core.constants import EPS, MIN_FREE, TO_TELL, UNSOLVED
from onlinels.core.reference import weights_of_errors
from onlinels.linear.ridge import is_selected, penalties_of
from onlinels.linear.scoring import Discriminant
from onlinels.linear.single import follows_rows, is_solved_in_core, rows_of
from onlinels.linear.state import State, chosen, in_force, joined_outputs, places_of
from onlinels.numerics import enlarged, product
from onlinels.saving import savable
from onlinels.sums.axes import Places, gathered, grown, reindexed
from onlinels.sums.digits import are_negligible, lost_by_removals
from onlinels.sums.solve import Covariance
from onlinels.sums.statistics import Statistics

LEAST_LATER_RIDGE = 1e-4
"""Ridge, relative to the largest sum of squares, that may be selected after a removal.

A warning tells if a smaller ridge is selected, and the digits that are left are too few for it.
"""

MAX_INTERCEPT_ERROR = 1e-10
"""Rounding error of the intercept, relative to the deviation of the targets, that is left alone."""

MIN_NOISE_SHARE = EPS
"""Residual sum of squares, relative to that of the targets, below which rounding prevails."""


class Spread(NamedTuple):
    """Noise variances (n_targets,), the covariance of the weights, and degrees of freedom."""

    noise: Floats
    covariance: Covariance
    free: float


@savable()
class Solution(NamedTuple):
    """Output weights and intercept solved from the statistics, and the ridge in force."""

    # Number of rows learnt before: with another number, the solution is out of date.
    n_rows: int
    ridge: float
    # Units of the features if the ridge acts on scaled features; 0 for constant features.
    units: Floats | None
    output_weights: Floats
    intercept: Floats
    # For predictive variances.
    spread: Spread | None = None
    # For classifiers with priors: the map from least-squares scores to discriminant scores.
    rule: Discriminant | None = None
    # Whether features are so far from 0 that x'W and the intercept would lose digits to each other.
    is_far: bool = False


def solve(state: State, found: Callable[[State, float, Any], None] | None = None) -> Solution:
    """Return the current solution of a ready state, from the recursion if that follows the rows.

    `found(state, ridge, units)` is called if the sums are solved.
    """
    following, statistics = state.following, state.statistics
    solution = following.solution
    if solution is not None and solution.n_rows == statistics.count:
        known: Solution = solution
        return known
    (ridge, units), rows = in_force(state), rows_of(state)
    weights = np.zeros(statistics.shape, order="F")
    done = UNSOLVED if rows is None else rows.solve(weights)
    if done == UNSOLVED:
        weights = _solved_here(state, ridge, units, found)
    else:
        if done == TO_TELL and found is not None:
            found(state, ridge, units)
            rows.hold(weights)
        following.note_question(statistics.count)
    intercept, is_far = statistics.intercept(weights), are_far(statistics, weights)
    solution = Solution(statistics.count, ridge, units, weights, intercept, is_far=is_far)
    following.keep(solution, done != UNSOLVED and is_solved_in_core(state))
    return solution


def _solved_here(
    state: State,
    ridge: float,
    units: Floats | None,
    found: Callable[[State, float, Any], None] | None,
) -> Floats:
    """Return the weights of a state that `onlinels.core` does not solve; see `solve`."""
    following, statistics = state.following, state.statistics
    recursion = following.asked(statistics)
    if recursion is not None:
        followed: Floats = recursion.weights.copy(order="F")
        return followed
    penalties, diagonal = penalties_of(ridge, units, statistics)
    # W = (A'A + D)^-1 A'Y, with D = diag(penalties).
    weights = np.asfortranarray(statistics.solve(penalties, diagonal))
    if found is not None:
        found(state, ridge, units)
    if is_solved_in_core(state):
        following.note_question(statistics.count)
    else:
        may_follow = follows_rows(state) and ridge > 0.0
        following.begin(statistics, weights, ridge, penalties, may_follow)
    rows: Any = rows_of(state)
    if rows is not None and following.followed(statistics.count) is None:
        rows.hold(weights)
    return weights


def answer(state: State, rows: Any) -> Floats:
    """Return the least-squares outputs (n, n_targets) of rows, an array or a csr_array."""
    solution, statistics = solve(state), state.statistics
    constant = solution.intercept
    if solution.is_far and isinstance(rows, np.ndarray):
        rows, constant = statistics.about_mean(rows), statistics.target_mean
    outputs: Floats = product(rows, solution.output_weights)
    outputs += constant
    return outputs


@ignoring("over", "invalid")
def are_far(statistics: Statistics, weights: Floats) -> bool:
    """Tell whether the outputs of rows are better computed about the mean of the features."""
    if not (statistics.is_centred and statistics.weight):
        return False
    errors = EPS * (np.abs(statistics.feature_mean) @ np.abs(weights))
    sizes = np.sqrt(statistics.target_squares / statistics.weight)
    return bool((errors > MAX_INTERCEPT_ERROR * sizes).any())


@ignoring("over", "invalid")
def spread_of(state: State) -> Spread:
    """Return noise variances, covariance and degrees of freedom, which the solution keeps.

    With n = sum w and p effective parameters, the noise variance is RSS / (n - p), with n - p
    degrees of freedom, and the covariance of the weights is (A'A + D)^-1 times this variance. If
    rows are forgotten, see `onlinels.core.reference.weights_of_errors`.

    They cost about ``M^3`` operations once, ``M^2`` per prediction, and the memory of a Gram.
    """
    solution, statistics = solve(state), state.statistics
    if solution.spread is not None:
        return solution.spread
    known = penalties_of(solution.ridge, solution.units, statistics)
    covariance = statistics.covariance(*known)
    explained = statistics.products.explained_squares(solution.output_weights)
    squares = statistics.target_squares
    residual = np.maximum(squares - explained, MIN_NOISE_SHARE * np.abs(squares))
    counts, factor = weights_of_errors(statistics.mean_weight, state.clock.forgets)
    free = statistics.weight - counts * covariance.n_parameters
    is_known = free > MIN_FREE * statistics.weight > 0.0
    noise = residual / free if is_known else np.full(len(residual), np.inf)
    spread = Spread(noise, covariance.times(factor), free)
    state.following.keep(solution._replace(spread=spread), state.following.is_of_core)
    return spread


@ignoring("over", "invalid", "divide")
def weight_errors_of(state: State) -> Floats:
    """Return the standard errors of the weights of a ready state, (n_features, n_targets).

    See `onlinels.linear.model.LinearModel.weight_errors`.
    """
    solution, spread, statistics = solve(state), spread_of(state), state.statistics
    covariance, mean, noise = spread.covariance, statistics.mean_weight, spread.noise
    variances = covariance.matrix.diagonal()
    if state.clock.forgets and mean < 1.0:
        # Predictions meet what is forgotten; the weights only meet the errors of weighted rows.
        free = statistics.weight - mean * covariance.n_parameters
        is_known = free > MIN_FREE * statistics.weight > 0.0
        noise = noise * (spread.free / free if is_known else np.inf)
        variances = variances * (mean / weights_of_errors(mean, forgets=True)[1])
    variances = np.outer(variances, noise)
    if solution.ridge == 0.0 or solution.units is not None:
        # Neither rows nor a ridge tell of features without a penalty, or without a unit.
        variances[statistics.diagonal == 0.0] = np.inf
    variances[np.isnan(variances)] = np.inf
    errors: Floats = np.sqrt(np.maximum(variances, 0.0))
    return errors


def lost_digits(state: State, most: float) -> tuple[float, int]:
    """Return the error of the fit that removals have left, and its column; (0.0, 0) if none is."""
    statistics = state.statistics
    if are_negligible(statistics, most):
        return 0.0, 0
    ridge, units = in_force(chosen(state))
    ridges = [ridge]
    if is_selected(state.settings.ridge):
        # Later rows may explain more, so that a smaller ridge is selected.
        largest = statistics.weight if units is not None else statistics.diagonal.max(initial=0.0)
        ridges.append(min(ridge, LEAST_LATER_RIDGE * float(largest)))
    losses = (lost_by_removals(statistics, *penalties_of(c, units, statistics)) for c in ridges)
    return max(losses, key=itemgetter(0))


def difference_between(one: State, two: State, mine: Floats, theirs: Floats) -> float:
    """Return how far two states with output weights are apart; see `onlinels.difference`."""
    columns, outputs = one.columns.joined(two.columns), joined_outputs(one, two)
    size = len(columns), len(outputs)
    known = columns.locate(two.columns.names)
    places = Places.for_union(known, places_of(outputs, two), size)
    own, its = grown(one.statistics, *size), reindexed(two.statistics, places)
    # In units of the features: roots of sums of squares, and effects of deviations.
    squares = np.maximum(own.raw_squares, its.raw_squares)
    f, t = np.split(np.sqrt(np.maximum(squares, 0.0)), [size[0]])
    units = np.maximum(own.deviations, its.deviations)[:, None]
    effects = units * enlarged(mine, *size)
    its_effects = units * gathered(theirs, places.features, places.targets)
    largest = np.maximum(np.abs(effects), np.abs(its_effects)).max(axis=0, initial=0.0)
    if one.settings.priors is not None:
        # Of a class that is shrunk to the mean of all, only rounding is left.
        largest[:] = largest.max(initial=0.0)
    a, b = own.row_sums(), its.row_sums()
    root = np.sqrt(max(a.weight, b.weight) or 1.0)
    return max(
        largest_ratio(effects - its_effects, largest),
        largest_ratio(a.gram - b.gram, np.outer(f, f)),
        largest_ratio(a.cross - b.cross, np.outer(f, t)),
        largest_ratio(a.target_squares - b.target_squares, t**2),
        largest_ratio(a.origin - b.origin, f / root),
        largest_ratio(a.target_origin - b.target_origin, t / root),
        float(abs(a.weight - b.weight) / root**2),
    )


def largest_ratio(differences: Floats, sizes: Floats) -> float:
    """Return the largest difference relative to sizes, 0 where the sizes are 0."""
    ratios = np.divide(differences, sizes, out=np.zeros_like(differences), where=sizes > 0.0)
    return float(np.abs(ratios).max(initial=0.0))
