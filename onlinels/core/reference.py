"""Functions of recursion.h, stream.h and _core.c in numpy.

Some of them have a use beside C. The others run where no compiler was, and tests compare both.
Equations and sources stand in the headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot, dger, dsymv, dsyr

from onlinels.core.apply import Call, apply
from onlinels.core.constants import (
    CELLS_OF_PARTITION,
    DELAY_UNIT,
    DEVIATION_PER_ABSOLUTE,
    DEVIATIONS_IN_BINS,
    ERROR_DECAY,
    GAIN,
    GRADIENT_RATE,
    INTERVAL_DEVIATIONS,
    INTERVAL_PROBABILITY,
    KEPT,
    LATE_CAUTION,
    LEAST_DEVIATION,
    LEAST_DUE_SHARE,
    LOG_LOSS_DECAY,
    MAX_DEVIATIONS,
    MAX_LOG_WIDTH,
    MAX_MEAN_WEIGHT,
    MAX_RANGE_EXCESS,
    MAX_RELATIVE_ERROR,
    MAX_ROW_LEVERAGE,
    MAX_SCORE,
    MIN_ERRORS,
    MIN_INFORMATION,
    MIN_NOISE,
    MIN_PARTITION_SHARE,
    MIN_RELATIVE_DEVIATION,
    MIN_RIDGE_SHARE,
    MIN_SCALE,
    MIN_SCALE_WEIGHT,
    MIN_SCORE,
    MIN_UNIT_EXPONENT,
    NUMBER_ERROR_DECAY,
    OUTLIERS_BEFORE_RESET,
    ROWS_OF_SCALE,
    SCALE,
    SCALE_DECAY,
    WIDTH_STEP,
)

Numbers = NDArray[Any]

# Arrays without axes: numpy takes a third less time than for its scalars.
ZERO = np.array(0.0)

MULTIPLIER = np.array(0x9E3779B97F4A7C15, np.uint64)
"""An odd number near 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming,
section 6.4): its products with the bits of similar values differ in their first bits."""

IGNORED_BITS, DROPPED_BITS = np.array(20, np.uint64), np.array(43, np.uint64)
"""Last bits of a value that do not count, and last bits of a product that are dropped.

A row may be rounded differently when it is removed than when it was learnt, for example by a
transformer that computes a batch. Of pairs of values that agree to 1e-12, most have one number. Two
values have different ones if a value with `IGNORED_BITS` zeros at the end lies between them.
"""


def hashes_of(values: Numbers) -> Numbers:
    """Return the hash of every value: 21 bits, 0 for 0; see `onlinels.sums.removals`.

    Examples
    --------
    >>> hashes_of(np.array([0.0, -0.0, 1.0, -1.0, 1.0])).tolist()
    [0, 0, 1397946, 2085071, 1397946]
    """
    # Adding 0 makes -0.0 the same as 0.0.
    numbers: Numbers = np.right_shift((values + ZERO).view(np.uint64), IGNORED_BITS)
    numbers *= MULTIPLIER
    numbers >>= DROPPED_BITS
    return numbers


def settle(
    inverse: Numbers, pending: Numbers, factors: Numbers, scratch: Numbers | None = None
) -> None:
    """Add the pending product of a recursion to B, which changes no answer.

    The compiled function also needs scratch memory, as large as the pending product.
    """
    if factors[GAIN]:
        settling = dsyr, float(factors[GAIN]), pending, 0, 1, 0, len(pending), inverse, 1
        apply((settling, (factors.__setitem__, GAIN, 0.0)))


def leverage_of(
    inverse: Numbers, pending: Numbers, factors: Numbers, row: Numbers
) -> tuple[Numbers, float]:
    """Return B z and z'P z of a row z; see `recursion.h`."""
    settle(inverse, pending, factors)
    image: Numbers = dsymv(1.0, inverse, row)
    return image, float(ddot(image, row) / factors[SCALE])


def absorb(
    inverse: Numbers,
    weights: Numbers,
    factors: Numbers,
    decay: float,
    gain: float,
    image: Numbers,
    errors: Numbers,
) -> tuple[Call, ...]:
    """Return the calls that learn a row into P and W; see `recursion.h`. No product is pending."""
    scale, kept = float(factors[SCALE]) * decay, float(factors[KEPT]) * decay
    # Arguments by position take half the time of arguments by name; some are defaults.
    calls: tuple[Call, ...] = (
        (dsyr, -gain, image, 0, 1, 0, len(image), inverse, 1),
        (dger, gain, image, errors, 1, 1, weights, 0, 0, 1),
    )
    if scale < MIN_SCALE:
        calls = (*calls, (np.divide, inverse, scale, inverse))
        scale = 1.0
    return (*calls, (factors.__setitem__, ..., np.array([scale, 0.0, kept])))


def weights_of_errors(mean_weight: float, forgets: bool) -> tuple[float, float]:
    """Return the factors v and u of the noise variance RSS / (n - v p) and of the covariance u P.

    If no row is forgotten, both are 1. While a memory fills, the errors of a row of weight w count
    w^2 in the covariance, and both are the mean weight. When the memory is full, the leave-one-out
    error RSS exp(p / n) / n of a new row is that of v = 0 and u = 1.

    Examples
    --------
    >>> weights_of_errors(0.9, False), weights_of_errors(0.9, True), weights_of_errors(0.5, True)
    ((1.0, 1.0), (0.9, 0.9), (0.0, 1.0))
    """
    if not forgets or mean_weight >= 1.0:
        return 1.0, 1.0
    return (mean_weight, mean_weight) if mean_weight > MAX_MEAN_WEIGHT else (0.0, 1.0)


def equal_rows(rows: float, weight: float, squared: float) -> float:
    """Return the number of rows, or of equally weighted rows if these are at most half as many.

    Equally weighted rows that determine as much are (sum w)^2 / sum w^2.

    Examples
    --------
    >>> equal_rows(3.0, 0.75, 0.1875), equal_rows(3.0, 4.0, 6.0), equal_rows(30.0, 4.0, 2.1)
    (3.0, 3.0, 7.0)
    """
    if 2.0 * weight * weight > rows * squared:
        return rows
    return float(np.floor(weight * (weight / (squared or 1.0))))


def is_weight_due(rows: float, weight: float, squared: float, due: float) -> bool:
    """Return whether a ridge is due because of the weight of all rows, given the register of it."""
    is_beyond = weight >= due > 0.0 or weight < LEAST_DUE_SHARE * due
    return is_beyond and equal_rows(rows, weight, squared) < rows


def is_accepted(recursion: tuple[Numbers, ...], freedom: float, squares: float) -> bool:
    """Return whether the restricted likelihood accepts a ridge c, by Rao's score test.

    With K = P A'A = I - P D and n - n_free = `freedom`, the derivative of minus twice the
    log-likelihood by log c is g = (n - n_free) W'DW / J - tr K. Its variance is
    2 (tr K^2 - (tr K)^2 / (n - n_free)). The ridge is accepted if g is at most half a standard
    deviation.

    Parameters
    ----------
    recursion : tuple of ndarray
        Arrays of a recursion: B, u, W, J, factors and full penalties D.
    freedom : float
        Weight of the rows minus the number of parameters without a penalty.
    squares : float
        Sum of squares of all targets.
    """
    inverse, pending, weights, criterion, factors, penalties = recursion
    settle(inverse, pending, factors)
    kept, size = float(factors[KEPT] / factors[SCALE]), len(inverse)
    least = float(criterion.sum())
    if not (freedom > 0.0 and least > MIN_NOISE * squares):
        return False
    # D P, of which the upper triangle is read: tr (P D)^2 is the sum of d_i d_j P_ij^2.
    roots = np.sqrt(penalties)
    scaled = np.triu(inverse) * (kept * roots)
    scaled *= roots[:, None]
    diagonal = scaled.diagonal()
    trace, total = float(diagonal.sum()), 2.0 * float(np.vdot(scaled, scaled))
    effective = size - trace
    square = size - 2.0 * trace + total - float(diagonal @ diagonal)
    penalised = float(factors[KEPT]) * float(penalties @ np.square(weights).sum(axis=1))
    score = freedom * penalised / least - effective
    information = square - effective**2 / freedom
    return bool(information > MIN_INFORMATION * square and score**2 <= 0.5 * information)


def scale(state: Numbers, row: Numbers, out: Numbers) -> None:
    """Write a row (m,) in standard deviations from the mean; an unknown value (NaN) becomes 0.

    `state` (4, m) holds the weight, the mean and the variance of every feature, and the number of
    its latest outliers.
    """
    counts, means, variances, _ = state
    differences, deviations = row - means, np.sqrt(variances)
    varies = deviations > LEAST_DEVIATION
    # A value other than the only one counts as one deviation.
    scaled = np.where(counts == 0.0, 0.0, np.sign(differences))
    np.divide(differences, deviations, out=scaled, where=varies)
    np.copyto(out, np.clip(np.nan_to_num(scaled, nan=0.0), -MAX_DEVIATIONS, MAX_DEVIATIONS))


def scale_after(state: Numbers, row: Numbers, out: Numbers, n_rows: float) -> None:
    """Write the state after the row of this number: Welford's recursion with weights that decay."""
    counts, means, variances, n_far = state
    if n_rows % ROWS_OF_SCALE == 0.0:
        # The mean of a value that has become constant never converges exactly.
        least = (MIN_RELATIVE_DEVIATION * means) ** 2
        variances = np.where(variances > 0.0, np.maximum(variances, least), 0.0)
    known = row == row
    differences, limits = np.where(known, row - means, 0.0), MAX_DEVIATIONS * np.sqrt(variances)
    far = differences**2 > MAX_DEVIATIONS**2 * variances
    far &= (limits > MAX_DEVIATIONS * LEAST_DEVIATION) & (counts >= MIN_SCALE_WEIGHT)
    differences = np.where(far, np.clip(differences, -limits, limits), differences)
    n_far = np.where(far, n_far + 1.0, 0.0)
    is_reset = n_far == OUTLIERS_BEFORE_RESET
    differences = np.where(is_reset, 0.0, differences)
    counts = SCALE_DECAY * np.where(is_reset, 0.0, counts) + known
    shares, squares = known / np.maximum(counts, 1.0), differences**2
    variances = np.where(is_reset, 0.0, variances)
    variances = variances + shares * (squares - shares * squares - variances)
    means = np.where(is_reset, row, means) + shares * differences
    np.copyto(out, [counts, means, variances, np.where(is_reset, 0.0, n_far)])


def units_of(values: Numbers) -> Numbers:
    """Return the power of 2 above every value other than 0.

    Examples
    --------
    >>> units_of(np.array([3.0, -0.2]))
    array([4.  , 0.25])
    """
    return np.ldexp(1.0, np.maximum(np.frexp(values)[1], MIN_UNIT_EXPONENT))


def pace_of(delay: float) -> float:
    """Return the factor on the speed at which shares and widths follow errors of late labels.

    Overlapping forecasts have similar errors, so errors of late labels tell less.
    """
    return 1.0 / sqrt(1.0 + delay / DELAY_UNIT)


def shares_of(errors: Numbers, rate: float, priors: Numbers | float = 1.0) -> Numbers:
    """Return the shares of experts in a forecast, with sum 1, from their discounted errors.

    Expert i has a share in proportion to p_i exp(-rate L_i): the exponentially weighted average
    forecaster with priors p_i.

    Examples
    --------
    >>> shares_of(np.array([0.0, 2.0]), rate=0.5).round(3)
    array([0.731, 0.269])
    """
    # Measured: methods of arrays, and new arrays, take half as long again.
    shares: Numbers = np.minimum.reduce(errors) - errors
    shares *= rate
    np.exp(shares, out=shares)
    shares *= priors
    shares /= np.add.reduce(shares)
    return shares


def mix_scores(
    scores: Numbers, priors: Numbers, errors: Numbers, best: Numbers, out: Numbers, rate: float
) -> None:
    """Write the best class of every expert, and the mixture (n,) of scores (n_experts, n)."""
    best[:] = scores.argmax(axis=1)
    out[:] = shares_of(errors, rate, priors) @ np.clip(scores, MIN_SCORE, MAX_SCORE)


def judge_row(
    best: Numbers,
    mixture: Numbers,
    scales: Numbers,
    errors: Numbers,
    losses: Numbers,
    column: int,
    count: float,
    w: float,
) -> None:
    """Count the errors of experts, and the losses of scales, after a row of a class, in place.

    `onlinels.linear.scoring.calibrate` defines the probabilities of the scales.
    """
    losses_of(mixture, scales, losses, column, count, w)
    errors *= ERROR_DECAY
    errors += w * (best != column)


def losses_of(
    scores: Numbers, scales: Numbers, losses: Numbers, column: int, count: float, w: float
) -> None:
    """Add the losses of scores of classes, for each scale, in place."""
    if not 0 <= column < len(scores):
        raise ValueError("the class has no score")
    likelihoods = np.exp((scores - scores.max())[:, None] * scales)
    shares = likelihoods[column] / likelihoods.sum(axis=0)
    losses -= w * np.log((count * shares + 1.0) / (count + len(scores)))


def mix_forecasts(
    scores: Numbers,
    targets: Numbers,
    quantities: Numbers,
    priors: Numbers,
    losses: Numbers,
    out: Numbers,
    plain: float,
    unit: float,
    last: float,
    low: float,
    high: float,
    rate: float,
) -> float:
    """Write the forecasts of all experts, in units of the target, and return their mixture.

    `scores` are those of linear experts, each of a quantity: 0 for the target, and 1 for its change
    from the last target. `targets` (4, 2) is the scale of both, as in `scale`.
    """
    _, means, variances, _ = targets
    # The target is the mean or the last target, plus so many standard deviations.
    origins = means + np.array([0.0, last])
    linear = scores * np.sqrt(variances).take(quantities) + origins.take(quantities)
    forecasts = np.concatenate((linear, [plain * unit, last, means.item(0)]))
    margin = MAX_RANGE_EXCESS * (high - low)
    np.clip(forecasts, low - margin, high + margin, out=out)
    return float(out @ shares_of(losses, rate, priors))


def judge_forecast(
    forecasts: Numbers,
    losses: Numbers,
    n_errors: float,
    weight: float,
    error: float,
    width: float,
    mixture: float,
    target: float,
    w: float,
    pace: float,
) -> tuple[float, float, float, float]:
    """Count the errors of a forecast number: losses in place; return the next four, changed.

    These are the number of errors of any weight, the weight of recent ones, their mean, and the
    logarithm of the width of intervals.
    """
    deviation = abs(mixture - target)
    if n_errors >= MIN_ERRORS:
        # Compared with the current width, which earlier late targets have changed already.
        own = DEVIATION_PER_ABSOLUTE * error * exp(width)
        missed = deviation > INTERVAL_DEVIATIONS * own
        # Larger weights would make the width oscillate.
        expected = (1.0 - INTERVAL_PROBABILITY) * (1.0 - LATE_CAUTION * (1.0 - pace))
        step = min(w, 1.0) * WIDTH_STEP * pace * (missed - expected)
        width = min(max(width + step, -MAX_LOG_WIDTH), MAX_LOG_WIDTH)
    decay = 1.0 - (1.0 - NUMBER_ERROR_DECAY) * pace
    weight = decay * weight + w
    known = min(deviation, MAX_RELATIVE_ERROR * error) if error > 0.0 else deviation
    error = error + w * (known - error) / weight if weight else 0.0
    if error > 0.0:
        relative = np.minimum(np.abs(forecasts - target) / error, MAX_RELATIVE_ERROR)
        losses *= decay
        losses += w * relative
    return n_errors + (w > 0.0), weight, error, width


class Experts:
    """Score rows of scaled features by experts, and let the experts learn them.

    A row is [units, 1, then features, the last label, and shares of classes in the cells of
    partitions at their places]. Linear experts see parts of it: recursions, with long and short
    memories, and softmax regressions. If there are any, the last expert here is the shares of
    classes after the last label.

    Parameters
    ----------
    arrays : tuple of ndarray
        Input weights (m, n_units) and biases of units; features seen by partitions, bins and shifts
        (3, n_parts); decays of cells; cells (n_cells, 1 + n_labels), with the weight in all and of
        every class; shares of partitions; places of features, labels and the mixture in a row; the
        forgetting factor of each recursion; then the places that each recursion sees, its W, B, u
        and factors; then the places that each softmax regression sees, and its weights.
    """

    def __init__(self, arrays: tuple[Any, ...]) -> None:
        self._input_weights, self._biases, self._parts, self._bins, self._shifts = arrays[:5]
        self._decays, self._cells, self._shares = arrays[5:8]
        self._features, self._labels, self._places = arrays[8:11]
        self._forgetting, end = arrays[11].tolist(), 12 + 5 * len(arrays[11])
        self._memories = [arrays[k : k + 5] for k in range(12, end, 5)]
        self._softmaxes = [arrays[k : k + 2] for k in range(end, len(arrays), 2)]
        self._size = len(self._biases) + 1 + len(self._features) + 2 * len(self._labels)
        views = [view for view, *_ in (*self._memories, *self._softmaxes)]
        # A place below 0 would be one from the end. -1 stands for no feature.
        ranges = (self._parts, -1, len(self._features)), *((each, 0, self._size) for each in views)
        ranges += tuple((each, 0, self._size) for each in arrays[8:11])
        if not all(((least <= each) & (each < end)).all() for each, least, end in ranges):
            raise ValueError("places of features or labels lie outside a row")
        # Of the softmax regressions.
        self.n_outputs = self._softmaxes[-1][1].shape[1] if self._softmaxes else 0
        self._starts = CELLS_OF_PARTITION * np.arange(len(self._decays))
        self._strides = np.cumprod(np.vstack((np.ones_like(self._bins[0]), self._bins)), axis=0)[:3]

    def scores(self, features: Numbers, last: int, out: Numbers) -> None:
        """Write the scores, by expert, of a row (m,) after a label; -1 for none."""
        n_units, n_labels = len(self._biases), len(self._labels)
        wide, found = np.zeros(self._size), list[Numbers]()
        np.tanh(features @ self._input_weights + self._biases, out=wide[:n_units])
        wide[n_units] = 1.0
        wide[self._features] = features
        if n_labels:
            self._look_up(features, last, wide)
        self._seen = [wide[view] for view, *_ in (*self._memories, *self._softmaxes)]
        for seen, (_, weights, *_) in zip(self._seen, self._memories, strict=False):
            found.append(seen @ weights)
        for seen, (_, weights) in zip(self._seen[len(found) :], self._softmaxes, strict=True):
            raw = seen @ weights
            likelihoods = np.exp(raw - raw.max())
            found.append(likelihoods / likelihoods.sum())
        # No column for the classes beyond those that are remembered.
        known = self._known[-1] if n_labels else np.zeros(0)
        found.append(np.pad(known, (0, self.n_outputs - n_labels)))
        out.reshape(-1)[:] = np.concatenate(found)

    def _look_up(self, features: Numbers, last: int, wide: Numbers) -> None:
        """Find the cells of a row, and write the mixture of their shares, and the last label."""
        n_labels = len(self._labels)
        bins = np.append(features, 0.0)[self._parts] * (self._bins / DEVIATIONS_IN_BINS)
        bins = np.clip(bins + self._shifts, 0.0, self._bins - 1.0).astype(np.intp)
        cells = (bins * self._strides).sum(axis=0).astype(np.intp)
        is_known = 0 <= last < n_labels
        self._found = np.append(cells, 1 + last if is_known else 0) + self._starts
        sums = self._cells[self._found]
        self._known = (sums[:, 1:] + 1.0 / n_labels) / (sums[:, :1] + 1.0)
        wide[self._places] = self._shares @ self._known[:-1] - 1.0 / n_labels
        if is_known:
            wide[self._labels[last]] = 1.0

    def prepare(self, w: float) -> bool:
        """Prepare to learn the row scored last; return whether it can be learnt.

        It cannot if it outweighs earlier rows too much, or if a ridge has to be restored before.
        """
        self._images, self._gains = [], []
        for (_, _, inverse, pending, factors), row, decay in zip(
            self._memories, self._seen, self._forgetting, strict=False
        ):
            image, leverage = leverage_of(inverse, pending, factors, row)
            total = 1.0 + w * leverage / decay
            if not 0.0 < total <= MAX_ROW_LEVERAGE or factors[KEPT] * decay < MIN_RIDGE_SHARE:
                return False
            self._images.append(image)
            self._gains.append(w / float(factors[SCALE] * decay * total))
        return True

    def plan(self, errors: Numbers, column: int, is_new: bool, w: float) -> tuple[Call, ...]:
        """Return calls that learn the prepared row; no expert could predict a new class.

        `errors` are those of all scores of linear experts.
        """
        calls = list[Call]()
        if self._softmaxes and not 0 <= column < self.n_outputs:
            raise ValueError("the class has no score")
        left = errors.reshape(-1)
        for r, (_, weights, inverse, _, factors) in enumerate(self._memories):
            own, left = np.split(left, [weights.shape[1]])
            step = self._forgetting[r], self._gains[r], self._images[r], own
            calls += absorb(inverse, weights, factors, *step)
        # W += 0.01 w z (y - softmax(z'W))'
        others = self._seen[len(self._memories) :]
        for (_, weights), seen in zip(self._softmaxes, others, strict=True):
            own, left = np.split(left, [weights.shape[1]])
            calls.append((dger, w * GRADIENT_RATE, seen, own, 1, 1, weights, 0, 0, 1))
        return (*calls, *self._plan_cells(column, is_new, w))

    def _plan_cells(self, column: int, is_new: bool, w: float) -> tuple[Call, ...]:
        """Return calls by which the cells and partitions of the row learn its class."""
        if not len(self._labels):
            return ()
        # Rows without weight count nowhere.
        sums = self._cells[self._found] * (self._decays[:, None] if w > 0.0 else 1.0)
        calls: tuple[Call, ...] = ((self._cells.__setitem__, self._found, sums),)
        sums[:, 0] += w
        if column < len(self._labels):
            sums[:, 1 + column] += w
            if not is_new:
                likelihoods = self._known[:-1, column]
                # A partition of loss L weighs exp(-L), where L decays.
                shares = self._shares**LOG_LOSS_DECAY * (likelihoods / likelihoods.max()) ** w
                shares = np.maximum(shares / shares.sum(), MIN_PARTITION_SHARE)
                calls = (*calls, (self._shares.__setitem__, ..., shares))
        return calls


def sum_of_powers(terms: Sequence[float], n: float) -> float:
    """Return the sum of the k-th term over n^k, from k = 0 on.

    Examples
    --------
    >>> sum_of_powers((1.0, 2.0, 4.0), n=2.0)
    3.0
    """
    total = 0.0
    for term in reversed(terms):
        total = total / n + term
    return total


def is_one_of(types: frozenset[type], value: Any) -> bool:
    """Return whether a value is of one of these types; no Python code of a metaclass runs."""
    kind = type(value)
    return type(kind) is type and kind in types
