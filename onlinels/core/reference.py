"""Single rows in numpy: the functions of recursion.h and _core.c, where no compiler was.

The tests compare both. Equations and sources stand in recursion.h.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import starmap
from math import sqrt
from operator import call
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot, dger, dsymv, dsyr

Numbers = NDArray[Any]
Call = tuple[Any, ...]

LAYOUT = 11
"""Number of the arguments and arrays of the classes below, as in _core.c.

It is raised with every change of them, so that a compiled file of another version is not used.
"""

MAX_SQUARES = 1e150
"""Sum of squares of values and targets up to which sums stay within float64."""

MUCH_HEAVIER = 1000.0
"""Weight of a row, relative to the rows before, from which it becomes the origin of the mean."""

ROWS_BETWEEN_ORIGINS = 64
"""Number of single rows after which the origin of the mean becomes the mean."""

MUCH_LARGER = 1e4
"""Square of a row, relative to a sum of squares, above which the row dwarfs the sum.

Its removal would leave at most twelve digits.
"""

MIN_ROWS_DWARFED = 16
"""Total weight of rows from which another row can dwarf them."""

CONSTANT_TOLERANCE = 2.0 * float(np.finfo(np.float64).eps)
"""Relative deviation from the mean, or from the only value, up to which a feature is constant.

These are two to four units in the last place: what rounding does to values that would be equal.
"""

MIN_SCALE = 2.0**-32
"""Smallest scale that is kept apart from the inverse; a smaller scale is multiplied in."""

MIN_FREE = 1e-9
"""Degrees of freedom, relative to the weight of the rows, below which they count as 0."""

EPS = float(np.finfo(np.float64).eps)

SCALE, GAIN, KEPT = range(3)
"""Factors of a recursion: P = (B + gain u u') / scale, and the share of D that decay has left."""

PREDICTED_AT, VALID_UNTIL, NEXT_DUE, SHARE = range(4)
"""Marks of a model: counts of rows at the last prediction, from which the weights no longer answer,
and at which a ridge is chosen; and the share of the ridge that decay has left."""

DUE_WEIGHT = 4
"""Mark of a model: weight of all rows at which a ridge is chosen, also before the count of rows
says so, if the rows are far from equally weighted; 0.0 if the weight does not matter."""

BEGAN, LEAST_ROWS, DOUBLES_AT, GROWTH, SCALED = range(5, 10)
"""Marks for checkpoints of the ridge, which `SingleRows` passes while the ridge is kept: count of
rows from which other counts begin; numbers of equally weighted rows from which, and up to which, it
may be kept; the growth of the number of rows from one checkpoint to the next, 0.0 if other code
must choose; and the ridge if it acts on scaled features, else 0.0."""

N_MARKS = 10

DUE_TOLERANCE = 1e-9
"""Rounding of the weight of all rows, relative to it, that does not make a ridge due or not."""

LEAST_DUE_SHARE = 0.25
"""Share of the weight at which a ridge is due, below which it is due, too: from a half to a quarter
of the weight at the last choice is left."""

ROWS_SELECTED_ONE_BY_ONE = 16
"""Number of rows up to which every row is a checkpoint."""

MAX_UNITS_GROWTH = 4.1
"""Factor by which the square of a unit may have changed before a choice is not kept.

It is hardly ever met exactly, where rounding would decide.
"""

MAX_MEAN_WEIGHT = 0.55
"""Mean weight of rows, sum w^2 / sum w, up to which a memory is full.

It falls from 1 to a half while the memory fills: with a forgetting factor f, it is
(1 + f^n) / (1 + f) after n rows.
"""

MIN_NOISE = 1e-8
"""Minimum of |Y - A W|^2 + W'D W, relative to Y'Y, below which rounding prevails in a test."""

MIN_INFORMATION = 1e-12
"""Information about the ridge, relative to the trace of K^2, below which rounding prevails."""

PLAIN_NAMES = frozenset({str, int})
"""Types of names that are compared without Python code."""

PYTHON_NUMBER_TYPES = frozenset({float, int, bool})
"""Python's own types of numbers."""

# Arrays without axes: numpy takes a third less time than for its scalars.
ZERO = np.array(0.0)

MULTIPLIER = np.array(0x9E3779B97F4A7C15, np.uint64)
"""An odd number near 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming,
section 6.4): its products with the bits of similar values differ in their first bits."""

IGNORED_BITS, DROPPED_BITS = np.array(20, np.uint64), np.array(43, np.uint64)
"""Last bits of a value that do not count, and last bits of a product that are dropped.

A row may be rounded differently when it is removed than when it was learnt, for example by a
transformer that computes a batch. Values that agree to 2e-10 have one number.
"""


def numbers_of(values: Numbers, out: Numbers | None = None) -> Numbers:
    """Return the hash of every value: 21 bits, 0 for 0; see `onlinels.sums.removals`.

    Examples
    --------
    >>> numbers_of(np.array([0.0, -0.0, 1.0, -1.0, 1.0])).tolist()
    [0, 0, 1397946, 2085071, 1397946]
    """
    # Adding 0 makes -0.0 the same as 0.0.
    numbers: Numbers = np.right_shift((values + ZERO).view(np.uint64), IGNORED_BITS, out=out)
    numbers *= MULTIPLIER
    numbers >>= DROPPED_BITS
    return numbers


def prints_of_row(values: Numbers) -> Numbers:
    """Return the hashes of the values of a row, and their squares, (2, n)."""
    both = np.empty((2, len(values)), np.uint64)
    numbers = numbers_of(values, both[0])
    np.multiply(numbers, numbers, both[1])
    return both


def settle(
    inverse: Numbers, pending: Numbers, factors: Numbers, scratch: Numbers | None = None
) -> None:
    """Add the pending product of a recursion to B, which changes no answer.

    The compiled function also needs scratch memory, as large as the pending product.
    """
    if factors[GAIN]:
        settling = dsyr, float(factors[GAIN]), pending, 0, 1, 0, len(pending), inverse, 1
        apply((settling, (factors.__setitem__, GAIN, 0.0)))


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
    """Return whether a ridge is due because of the weight of all rows, given the mark of it."""
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


MAX_DEVIATIONS, MIN_DEVIATION = 6.0, 1e-155
"""Limit of a value in standard deviations, so that an outlier affects a single row; and standard
deviation below which values count as equal: dividing by less would overflow."""

MIN_SCALE_WEIGHT, OUTLIERS_BEFORE_RESET = 4.0, 5
"""Minimum weight of rows for a scale that can identify outliers, and number of successive outliers
after which the scale of a feature is reset."""

SCALE_DECAY = 0.9995
"""Factor on a row's weight in its scale with each further row: about 2,000 rows count.

From 0.999 to 1 the mean accuracy on sixteen streams stayed within 0.1 points.
"""


def scale(state: Numbers, row: Numbers, out: Numbers) -> None:
    """Write a row (m,) in standard deviations from the mean; an unknown value (NaN) becomes 0.

    `state` (4, m) holds the weight, the mean and the variance of every feature, and the number of
    its latest outliers.
    """
    counts, means, variances, _ = state
    differences, deviations = row - means, np.sqrt(variances)
    varies = deviations > MIN_DEVIATION
    # A value other than the only one counts as one deviation.
    scaled = np.where(counts == 0.0, 0.0, np.sign(differences))
    np.divide(differences, deviations, out=scaled, where=varies)
    np.copyto(out, np.clip(np.nan_to_num(scaled, nan=0.0), -MAX_DEVIATIONS, MAX_DEVIATIONS))


def scale_after(state: Numbers, row: Numbers, out: Numbers) -> None:
    """Write the state after a row: Welford's recursion with weights that decay."""
    counts, means, variances, n_far = state
    known = row == row
    differences, limits = np.where(known, row - means, 0.0), MAX_DEVIATIONS * np.sqrt(variances)
    far = differences**2 > MAX_DEVIATIONS**2 * variances
    far &= (limits > MAX_DEVIATIONS * MIN_DEVIATION) & (counts >= MIN_SCALE_WEIGHT)
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


CELLS_OF_PARTITION, DEVIATIONS_IN_BINS = 64, 4.0
"""Number of cells of a partition, and standard deviations about the mean that its bins cover."""

LOG_LOSS_DECAY, MIN_PARTITION_SHARE = 0.995, 1e-300
"""Factor on the log-loss of a partition with each further row: about 200 rows count; and the
minimum share of a partition in the mixture, so that it can grow again."""

GRADIENT_RATE = 0.01
"""Learning rate of the softmax regressions, as in river's models."""

MAX_ROW_LEVERAGE = 1e14
"""Largest ratio of a row to earlier rows and ridge in its direction; no digit is left above it."""

N_MEMORIES, PLAIN = 3, 6
"""Number of recursions, and the place of the expert whose scores come from other code."""

N_EXPERTS = PLAIN + 1

SCORE_RANGE = -0.5, 1.5
"""Scores are limited to this range: a single wrong expert must not outvote the others."""


def shares_of(errors: Numbers, rate: float, priors: Numbers | float = 1.0) -> Numbers:
    """Return the shares of experts in a forecast, with sum 1, from their discounted errors.

    Expert i has a share in proportion to p_i exp(-rate L_i): the exponentially weighted average
    forecaster with priors p_i.

    Examples
    --------
    >>> shares_of(np.array([0.0, 2.0]), rate=0.5).round(3)
    array([0.731, 0.269])
    """
    shares = priors * np.exp(rate * (errors.min() - errors))
    normalised: Numbers = shares / shares.sum()
    return normalised


def mix_scores(
    scores: Numbers, priors: Numbers, errors: Numbers, best: Numbers, out: Numbers, rate: float
) -> None:
    """Write the best class of every expert, and the mixture (n,) of scores (n_experts, n)."""
    best[:] = scores.argmax(axis=1)
    out[:] = shares_of(errors, rate, priors) @ np.clip(scores, *SCORE_RANGE)


ERROR_DECAY = 0.998
"""Factor on an error with each further row: about 500 rows count.

From 0.995 to 0.999 the mean accuracy on twenty-five streams stayed within 0.1 points.
"""

MIN_RIDGE_SHARE = 0.0625
"""Share to which the ridge may decay before it is restored, a quarter as often as with 0.5."""


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
    if not 0 <= column < len(mixture):
        raise ValueError("the class has no score")
    errors *= ERROR_DECAY
    errors += w * (best != column)
    likelihoods = np.exp((mixture - mixture.max())[:, None] * scales)
    shares = likelihoods[column] / likelihoods.sum(axis=0)
    losses -= w * np.log((count * shares + 1.0) / (count + len(mixture)))


class Experts:
    """Score rows of scaled features by experts, and let the experts learn them.

    Three recursions, with long and short memories, and a softmax regression have as input units,
    features, the last label and the shares of classes in the cells of partitions; another softmax
    regression has features and the last label. The last expert here is the shares of classes after
    the last label.

    Parameters
    ----------
    arrays : tuple of ndarray
        Input weights (m, n_units) and biases of units; features seen by partitions, bins and shifts
        (3, n_parts); decays of cells; cells (n_cells, 1 + n_labels), with the weight in all and of
        every class; shares of partitions; places of features, labels, the mixture and the narrow
        view in a row; weights of the softmax regressions of the narrow view and of the row, by
        class; then B, u, W and factors of each recursion.
    forgetting : float
        The forgetting factor of each recursion.
    """

    def __init__(self, arrays: tuple[Any, ...], *forgetting: float) -> None:
        self._input_weights, self._biases, self._parts, self._bins, self._shifts = arrays[:5]
        self._decays, self._cells, self._shares = arrays[5:8]
        self._features, self._labels, self._places, self._narrow = arrays[8:12]
        self._softmaxes = arrays[12:14]
        self._memories = [arrays[k : k + 4] for k in range(14, 14 + 4 * N_MEMORIES, 4)]
        self._forgetting = forgetting
        size = len(self._memories[0][1])
        # A place below 0 would be one from the end. -1 stands for no feature.
        ranges = (self._parts, -1, len(self._features)), *((each, 0, size) for each in arrays[8:12])
        if not all(((least <= each) & (each < end)).all() for each, least, end in ranges):
            raise ValueError("places of features or labels lie outside a row")
        self._starts = CELLS_OF_PARTITION * np.arange(len(self._decays))
        self._strides = np.cumprod(np.vstack((np.ones_like(self._bins[0]), self._bins)), axis=0)[:3]
        self._starts[-1] = CELLS_OF_PARTITION * len(self._shares)

    def scores(self, features: Numbers, last: int, out: Numbers) -> None:
        """Write the scores (n_experts, n) of a row (m,) after a label; -1 for none."""
        n_units, n_labels = len(self._biases), len(self._labels)
        self._row = wide = np.zeros(len(self._memories[0][1]))
        np.tanh(features @ self._input_weights + self._biases, out=wide[:n_units])
        wide[n_units] = 1.0
        wide[self._features] = features
        bins = np.append(features, 0.0)[self._parts] * (self._bins / DEVIATIONS_IN_BINS)
        bins = np.clip(bins + self._shifts, 0.0, self._bins - 1.0).astype(np.intp)
        found = (bins * self._strides).sum(axis=0).astype(np.intp)
        is_known = 0 <= last < n_labels
        self._found = np.append(found, 1 + last if is_known else 0) + self._starts
        sums = self._cells[self._found]
        self._known = (sums[:, 1:] + 1.0 / n_labels) / (sums[:, :1] + 1.0)
        wide[self._places] = self._shares @ self._known[:-1] - 1.0 / n_labels
        if is_known:
            wide[self._labels[last]] = 1.0
        self._seen = wide[self._narrow]
        for row, (_, _, weights, _) in zip(out, self._memories, strict=False):
            row[:] = wide @ weights
        for expert, seen in enumerate((self._seen, wide)):
            raw = seen @ self._softmaxes[expert]
            likelihoods = np.exp(raw - raw.max())
            out[N_MEMORIES + expert] = likelihoods / likelihoods.sum()
        out[PLAIN - 1] = 0.0
        out[PLAIN - 1, :n_labels] = self._known[-1]
        self._scores = out[:PLAIN].copy()

    def prepare(self, w: float) -> bool:
        """Prepare to learn the row scored last; return whether it can be learnt.

        It cannot if it outweighs earlier rows too much, or if a ridge has to be restored before.
        """
        self._images, self._gains = [], []
        pairs = zip(self._memories, self._forgetting, strict=True)
        for (base, pending, _, factors), decay in pairs:
            settle(base, pending, factors)
            image, kept = dsymv(1.0, base, self._row), float(factors[SCALE]) * decay
            total = kept + w * ddot(image, self._row)
            if not 0.0 < total <= MAX_ROW_LEVERAGE * kept:
                return False
            if float(factors[KEPT]) * decay < MIN_RIDGE_SHARE:
                return False
            self._images.append(image)
            # gain: w P z / (1 + w z'P z) = gain B z, with P = B / scale
            self._gains.append(w / total)
        return True

    def plan(self, column: int, is_new: bool, w: float) -> tuple[Call, ...]:
        """Return calls that learn the prepared row; no expert could predict a new class."""
        targets, calls = np.zeros(self._scores.shape[1]), list[Call]()
        if not 0 <= column < len(targets):
            raise ValueError("the class has no score")
        targets[column] = 1.0
        errors = targets - self._scores
        for r, (base, _, weights, factors) in enumerate(self._memories):
            image, gain, decay = self._images[r], self._gains[r], self._forgetting[r]
            calls.append((dsyr, -gain, image, 0, 1, 0, len(image), base, 1))
            calls.append((dger, gain, image, errors[r], 1, 1, weights, 0, 0, 1))
            kept = float(factors[SCALE]) * decay
            if kept < MIN_SCALE:
                calls.append((np.divide, base, kept, base))
                kept = 1.0
            new = kept, 0.0, float(factors[KEPT]) * decay
            calls.append((factors.__setitem__, slice(None), new))
        # W += 0.01 w z (y - softmax(z'W))'
        for expert, seen in enumerate((self._seen, self._row)):
            step = w * GRADIENT_RATE, seen, errors[N_MEMORIES + expert], 1, 1
            calls.append((dger, *step, self._softmaxes[expert], 0, 0, 1))
        # Rows without weight count nowhere.
        sums = self._cells[self._found] * (self._decays[:, None] if w > 0.0 else 1.0)
        sums[:, 0] += w
        if column < len(self._labels):
            sums[:, 1 + column] += w
            if not is_new:
                likelihoods = self._known[:-1, column]
                # A partition of loss L weighs exp(-L), where L decays.
                shares = self._shares**LOG_LOSS_DECAY * (likelihoods / likelihoods.max()) ** w
                shares = np.maximum(shares / shares.sum(), MIN_PARTITION_SHARE)
                calls.append((np.copyto, self._shares, shares))
        return (*calls, (self._cells.__setitem__, self._found, sums))


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


def ends_of(
    means: Sequence[float], variances: Sequence[float], reach: float
) -> list[tuple[float, float]]:
    """Return the ends of intervals that reach so many standard deviations from their means."""
    halves = [reach * sqrt(variance) for variance in variances]
    return [(mean - half, mean + half) for mean, half in zip(means, halves, strict=True)]


def is_one_of(types: frozenset[type], value: Any) -> bool:
    """Return whether a value is of one of these types; no Python code of a metaclass runs."""
    kind = type(value)
    return type(kind) is type and kind in types


def apply(calls: Iterable[Call]) -> None:
    """Make planned changes in one C loop: an interrupt comes before or after the loop.

    A planned change is (function, *args) of a C function that writes into memory and does not fail.
    New attributes of an object are one: (vars(object).update, attributes).

    Examples
    --------
    >>> rows = []
    >>> apply([(rows.append, 1.5)])
    >>> rows
    [1.5]
    """
    deque(starmap(call, calls), maxlen=0)
