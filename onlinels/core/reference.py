"""Single rows in numpy: the functions of recursion.h and _core.c, where no compiler was.

The tests compare both. Equations and sources stand in recursion.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil, sqrt
from operator import itemgetter
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy, ddot, dgemm, dgemv, dger, dsbmv, dsymv, dsyr, dsyrk

from onlinels.core.apply import Call, apply
from onlinels.core.constants import (
    BEGAN,
    CELLS_OF_PARTITION,
    CONSTANT_TOLERANCE,
    DEVIATIONS_IN_BINS,
    DOUBLES_AT,
    DUE_TOLERANCE,
    DUE_WEIGHT,
    EPS,
    ERROR_DECAY,
    GAIN,
    GRADIENT_RATE,
    GROWTH,
    KEPT,
    LEAST_DEVIATION,
    LEAST_DUE_SHARE,
    LEAST_ROWS,
    LOG_LOSS_DECAY,
    MAX_DEVIATIONS,
    MAX_MEAN_WEIGHT,
    MAX_ROW_LEVERAGE,
    MAX_SCORE,
    MAX_SQUARES,
    MAX_UNITS_GROWTH,
    MIN_FREE,
    MIN_INFORMATION,
    MIN_NOISE,
    MIN_PARTITION_SHARE,
    MIN_RIDGE_SHARE,
    MIN_ROWS_DWARFED,
    MIN_SCALE,
    MIN_SCALE_WEIGHT,
    MIN_SCORE,
    MUCH_HEAVIER,
    MUCH_LARGER,
    NEXT_DUE,
    OUTLIERS_BEFORE_RESET,
    PREDICTED_AT,
    ROWS_BETWEEN_ORIGINS,
    ROWS_SELECTED_ONE_BY_ONE,
    SCALE,
    SCALE_DECAY,
    SCALED,
    SHARE,
    VALID_UNTIL,
)

Numbers = NDArray[Any]

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


class Reader:
    """Read dicts of numbers by known names, or with one known array, into an array.

    Parameters
    ----------
    columns : dict
        The column of every name that was met; of a name of arrays, (first column, length), and
        the type of the arrays if that is not `array_type`.
    size : int
        Number of columns; those without a name are 0.
    types : frozenset
        Types of numpy's numbers.
    array_type : type
        numpy.ndarray.

    Examples
    --------
    >>> reader = Reader({"a": 0, "b": 1}, 2, frozenset(), np.ndarray)
    >>> reader.row({"b": 2.0, "a": 1}), reader.row({"b": "x"})
    (array([1., 2.]), None)
    """

    def __init__(
        self, columns: dict[Any, Any], size: int, types: frozenset[type], array_type: type
    ) -> None:
        self._columns, self._size, self._types = columns, size, types | PYTHON_NUMBER_TYPES
        self._array_type, self._pack = array_type, Struct(f"{size}d").pack
        # Picks the values of a dict with the names of the last dict, in the order of the columns.
        self._pick: Callable[[Any], Any] | None = None

    def row(self, x: Any) -> Numbers | None:
        """Return the values of a dict, a buffer of float64; None if it is not known."""
        row = self._read(x)[1] if type(x) is dict else None
        return row if row is not None and ddot(row, row) <= MAX_SQUARES else None

    def n_read(self, x: Any, out: Numbers) -> int:
        """Read a dict into an array, unchecked; return its number of names, or -1."""
        n_names, row = self._read(x) if type(x) is dict else (-1, None)
        if row is not None:
            out[:] = row
        return n_names

    def _read(self, x: dict[Any, Any]) -> tuple[int, Numbers | None]:
        """Return the number of names of a dict, and its values; -1 and None if it is not known."""
        # No code of names and values runs: it might change the model that learns the row.
        if self._pick is not None and len(x) == self._size and PLAIN_NAMES.issuperset(map(type, x)):
            with suppress(Exception):
                picked = self._pick(x)
                if self._types.issuperset(map(type, picked)):
                    return len(x), np.frombuffer(self._pack(*picked))
        known = [self._columns.get(name) for name in x if type(name) in (str, int)]
        row = np.zeros(self._size)
        if len(x) == 1 == len(known) and isinstance(known[0], tuple):
            return self._with_array(row, known[0], *x.values())
        are_numbers = all(is_one_of(self._types, value) for value in x.values())
        if not are_numbers or set(map(type, known)) - {int} or len(set(known)) < len(x):
            return -1, None  # Unknown names, other values, or two names of one feature.
        places: Any = known
        try:
            row[places] = [float(value) for value in x.values()]
        except OverflowError:
            return -1, None
        if len(places) == len(row) > 1:
            by_column = sorted(zip(places, x, strict=True), key=itemgetter(0))
            self._pick = itemgetter(*(name for _, name in by_column))
        return len(places), row

    def _with_array(self, row: Numbers, place: Any, value: Any) -> tuple[int, Numbers | None]:
        first, length, *kinds = place
        kind: Any = type(value)
        is_array = kind is (*kinds, self._array_type)[0] and value.dtype.char in "df"
        if not (is_array and value.shape == (length,)):
            return -1, None
        row[first : first + length] = value
        return 1, row


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


class SingleRows:
    """Single rows of a model in one state: they are predicted, and learnt into the model's arrays.

    Methods return NotImplemented, with nothing changed, for rows that other code must handle.

    Parameters
    ----------
    features : Reader
        Reads the features.
    targets : dict, Reader or None
        The column of every label; a reader of named targets; None for one number.
    labels : tuple
        Labels by column.
    label_types : frozenset
        Types of labels.
    arrays : tuple of ndarray or None
        The row with its targets; count, weight and sum of squared weights; origin and offset of the
        mean; A'Y; squares of the targets; prints; B, u, W, J, factors and full penalties of the
        recursion; marks; rows of every class; only values of features; then the panels of A'A: rows
        above, and diagonal blocks.
    decay : float
        Factor on all earlier weights with every row.
    most : float
        Largest ratio of a row to earlier rows and ridge in its direction.
    least_share : float
        Share of a decaying ridge below which it is set to its full size; 0.0 if it does not decay.
    patience : float
        Number of rows without a prediction after which the weights no longer follow.
    refines : bool
        Whether the weights are corrected by the sums before they answer.
    forgets : bool
        Whether the weights of rows decay.
    beside : SingleRows, optional
        Sums of all rows but those that dwarf them, in the same memory of a row.
    """

    def __init__(
        self,
        features: Reader,
        targets: Any,
        labels: Sequence[Any],
        label_types: frozenset[type],
        arrays: tuple[Any, ...],
        decay: float,
        most: float,
        least_share: float,
        patience: float,
        refines: bool,
        forgets: bool,
        beside: SingleRows | None = None,
    ) -> None:
        self._features, self._targets, self._labels = features, targets, labels
        self._label_types = label_types
        self._values, self._tally = arrays[:2]
        self._is_centred, nowhere = arrays[2] is not None, np.zeros(len(self._values))
        self._origin, self._offset = arrays[2:4] if self._is_centred else (nowhere, nowhere)
        self._cross, self._squares, self._prints = arrays[4:7]
        self._inverse, self._pending, self._weights, self._criterion = arrays[7:11]
        self._factors, self._penalties, self._marks, self._counts, self._constants = arrays[11:16]
        self._panels = list(zip(arrays[16::2], arrays[17::2], strict=True))
        self._decay, self._most, self._least_share = decay, most, least_share
        self._patience, self._refines, self._forgets = patience, refines, forgets
        self._size, self._beside = features._size, beside
        # `MUCH_LARGER` times the squares of some earlier sums.
        self._limits = np.zeros(len(self._values))

    # Predicting.

    def _can_answer(self) -> bool:
        if self._weights is None:
            return False
        count, marks = self._tally[0], self._marks
        is_refined = not self._refines or count == marks[PREDICTED_AT]
        return bool(count < min(marks[VALID_UNTIL], marks[NEXT_DUE]) and is_refined)

    def _about(self) -> Numbers:
        """Return the row about the mean, with targets."""
        about: Numbers = self._values - self._origin
        about -= self._offset
        return about

    def _scores_of_row(self, about: Numbers) -> Numbers:
        size = self._size
        scores: Numbers = about[:size].dot(self._weights)
        scores += self._origin[size:] + self._offset[size:]
        return scores

    def _answer(self, x: Any) -> Numbers | None:
        row = self._features.row(x) if self._can_answer() else None
        if row is None:
            return None
        self._values[: self._size] = row
        scores = self._scores_of_row(self._about())
        self._marks[PREDICTED_AT] = self._tally[0]
        return scores

    def label(self, x: Any) -> Any:
        """Return the label of a dict with the highest score."""
        scores = self._answer(x)
        return NotImplemented if scores is None else self._labels[int(scores.argmax())]

    def scores(self, x: Any) -> Any:
        """Return the scores of a dict, a list."""
        scores = self._answer(x)
        return NotImplemented if scores is None else scores.tolist()

    def scores_of(self, row: Numbers) -> Any:
        """Return the scores of a row (n_features,) that other code has checked."""
        if not self._can_answer():
            return NotImplemented
        self._values[: self._size] = row
        self._marks[PREDICTED_AT] = self._tally[0]
        return self._scores_of_row(self._about()).tolist()

    def spread(self, x: Any) -> Any:
        """Return the scores of a dict, the variances of new targets, and the degrees of freedom."""
        if self._inverse is None or self._refines:
            return NotImplemented
        scores = self._answer(x)
        if scores is None or not self._is_constant_where_known():
            return NotImplemented
        settle(self._inverse, self._pending, self._factors)
        row, is_centred = self._about()[: self._size], self._is_centred
        _, weight, squared = self._tally.tolist()
        counts, covariance = weights_of_errors(squared / weight, self._forgets)
        scale, penalties = self._factors[SCALE], self._factors[KEPT] * self._penalties
        # The effective number of parameters is the trace of P A'A = I - P D.
        n_parameters = self._size + is_centred - penalties @ self._inverse.diagonal() / scale
        free = weight - counts * float(n_parameters)
        if not free > MIN_FREE * weight:
            return NotImplemented
        leverage = max(0.0, ddot(row, dsymv(1.0, self._inverse, row)) / scale)
        residual = self._criterion - penalties @ self._weights**2
        noise = np.maximum(residual, EPS * self._squares) / free
        leverage += 1.0 / weight if is_centred else 0.0
        variances = noise * (1.0 + covariance * leverage)
        return scores.tolist(), variances.tolist(), free

    def interval(self, x: Any, least: float, terms: tuple[float, ...]) -> Any:
        """Return the ends of an interval for each target of a dict.

        With at least `least` degrees of freedom, Student's quantile is the sum of the terms over
        powers of these.
        """
        known = self.spread(x)
        if known is NotImplemented or not known[2] >= least:
            return NotImplemented
        scores, variances, free = known
        return ends_of(scores, variances, sum_of_powers(terms, free))

    # Learning.

    def learn(self, x: Any, y: Any, w: float) -> Any:
        """Learn a dict."""
        column = self._read(x, y) if type(w) is float else None
        if column is None or not self._is_plain(w):
            return NotImplemented
        self._learn_read(w, column)
        return None

    def _read(self, x: Any, y: Any) -> int | None:
        """Read a row with its target; return the column of its label, None if it is not known."""
        targets, known = self._values[self._size :], self._targets
        if self._features.n_read(x, self._values[: self._size]) < 0:
            return None
        if isinstance(known, Reader):
            return 0 if known.n_read(y, targets) == len(targets) else None
        if known is None:
            if not is_one_of(self._features._types, y):
                return None
            try:
                targets[0] = y
            except OverflowError:
                return None
            return 0
        column: int | None = known.get(y) if is_one_of(self._label_types, y) else None
        if column is not None:
            targets[:] = 0.0
            targets[column] = 1.0
        return column

    def _is_plain(self, w: float) -> bool:
        if self._cross is None or self._marks is None:
            return False
        count, weight, _ = self._tally.tolist()
        if not (0.0 < w <= 1.0 and w <= MUCH_HEAVIER * weight * self._decay):
            return False
        if count >= self._marks[NEXT_DUE]:
            return False
        squares = ddot(self._values, self._values)
        if not (self._is_constant_where_known() and squares <= MAX_SQUARES):
            return False
        beside = self._beside
        if beside is None:
            return not self._is_dwarfed(w)
        is_plain = w <= MUCH_HEAVIER * beside._tally[1] * self._decay
        return bool(is_plain and (self._decay == 1.0 or not beside._is_dwarfed(w)))

    def _is_dwarfed(self, w: float) -> bool:
        """Return whether the row dwarfs the sums in a column that varies."""
        if self._tally[1] < MIN_ROWS_DWARFED:
            return False
        squares = w * np.square(self._about())
        if (squares <= self._limits).all():  # Sums grow: old limits hold.
            return False
        corners = [corner.diagonal() for _, corner in self._panels]
        self._limits = MUCH_LARGER * np.concatenate((*corners, self._squares))
        mean = self._origin + self._offset
        of_rounding = MUCH_LARGER * CONSTANT_TOLERANCE**2 * self._tally[1] * mean**2
        return bool(((squares > self._limits) & (self._limits > of_rounding)).any())

    def _is_constant_where_known(self) -> bool:
        constants = self._constants
        if constants is None:
            return True
        differs = self._values[: self._size] != constants
        return not differs[constants == constants].any()

    def _learn_read(self, w: float, column: int) -> None:
        further: list[Call] = []
        is_restored = False
        if self._least_share > 0.0:
            share = float(self._marks[SHARE]) * self._decay
            is_restored = share < self._least_share
            further.append((self._marks.__setitem__, SHARE, 1.0 if is_restored else share))
        if self._counts is not None:
            further.append((self._counts.__setitem__, column, self._counts[column] + 1.0))
        apply((*further, *self._learning(w, is_restored)))
        self._pass_checkpoint()

    def _pass_checkpoint(self) -> None:
        """Pass a checkpoint, if one is due, and the ridge is kept; otherwise, a choice is due."""
        marks = self._marks
        count, weight, squared = self._tally.tolist()
        rows = count - float(marks[BEGAN])
        if is_weight_due(rows, weight, squared, float(marks[DUE_WEIGHT])):
            marks[NEXT_DUE] = count
        if count != marks[NEXT_DUE]:
            return
        is_between = marks[LEAST_ROWS] <= equal_rows(rows, weight, squared) < marks[DOUBLES_AT]
        can_keep = marks[GROWTH] > 0.0 and is_between and count < marks[VALID_UNTIL]
        if not can_keep or self._inverse is None or self._refines:
            return
        if marks[SCALED] > 0.0:
            squares = np.concatenate([corner.diagonal() for _, corner in self._panels])
            squares, units = squares / weight, self._penalties / marks[SCALED]
            changes = np.maximum(squares, units) > MAX_UNITS_GROWTH * np.minimum(squares, units)
            if changes[squares != 0.0].any():
                return
        arrays = self._inverse, self._pending, self._weights, self._criterion, self._factors
        freedom = weight - self._is_centred
        if is_accepted((*arrays, self._penalties), freedom, float(self._squares.sum())):
            step = 1.0 if rows < ROWS_SELECTED_ONE_BY_ONE else ceil(marks[GROWTH] * rows)
            due = weight * (1.0 + marks[GROWTH]) * (1.0 - DUE_TOLERANCE)
            marks[[NEXT_DUE, DUE_WEIGHT]] = count + step, due

    def plan_sample(self, w: float) -> tuple[Call, ...]:
        """Return calls that learn the row in the first array, which other code has checked.

        They write into memory, cannot fail, and are to be made in one C loop.
        """
        return tuple(self._learning(w))

    def _learning(self, w: float, is_restored: bool = False) -> list[Call]:
        """Return the calls that learn the row."""
        decay, (count, weight, squares) = self._decay, self._tally.tolist()
        size, marks, sample = self._size, self._marks, self._about()
        past = weight * decay
        total = past + w
        share, heft = w / total, past * (w / total) if self._is_centred else w
        calls: list[Call] = []
        if self._inverse is not None and not is_restored and count < marks[VALID_UNTIL]:
            since = count - marks[PREDICTED_AT]
            if since == 0 or since + 1.0 <= self._patience:
                calls = self._following(sample, heft, decay)
        if self._inverse is not None and not calls:
            calls = [(marks.__setitem__, VALID_UNTIL, 0.0)]
        row, targets = sample[:size], sample[size:]
        if self._is_centred:
            offset = self._offset
            if (count + 1) % ROWS_BETWEEN_ORIGINS:
                calls.append((daxpy, sample, offset, len(sample), share))
            else:
                moved = offset + share * sample
                mean = self._origin + moved
                way = mean - self._origin
                left = (self._origin - (mean - way)) + (moved - way)
                calls += [(np.copyto, offset, left), (np.copyto, self._origin, mean)]
        if self._beside is not None and not self._beside._is_dwarfed(w):
            calls += self._beside._learning(w)
        y = sample[None, size:]
        return [
            *calls,
            # A product with the targets as a diagonal matrix. Measured: half the time of numpy.
            (dsbmv, 0, heft, y, sample, 1, size, decay, self._squares, 1, 0, 0, 1),
            (np.add, self._prints, prints_of_row(self._values), self._prints),
            *self._products(row, targets, heft, decay),
            (self._tally.__setitem__, slice(None), (count + 1.0, total, decay**2 * squares + w**2)),
        ]

    def _products(self, row: Numbers, targets: Numbers, w: float, decay: float) -> list[Call]:
        """Return the calls that add the products of a row."""
        calls: list[Call] = []
        start = 0
        for above, corner in self._panels:
            own = row[start : start + len(corner)]
            if decay == 1.0:
                # Arguments by position: names cost half a microsecond.
                calls.append((dsyr, w, own, 0, 1, 0, len(own), corner, 1))
            else:
                calls.append((dsyrk, w, own[None], decay, corner, 1, 0, 1))
            if start:
                calls.append((dgemm, w, row[None, :start], own[None], decay, above, 1, 0, 1))
            start += len(own)
        if decay == 1.0:
            calls.append((dger, w, row, targets, 1, 1, self._cross, 0, 0, 1))
        else:
            calls.append((dgemm, w, row[None], targets[None], decay, self._cross, 1, 0, 1))
        return calls

    def _following(self, sample: Numbers, w: float, decay: float) -> list[Call]:
        """Return the calls that learn a row into P, W and J; none if the row outweighs them."""
        settle(self._inverse, self._pending, self._factors)
        size, factors, base, j = self._size, self._factors, self._inverse, self._criterion
        scale, row = float(factors[SCALE]) * decay, sample[:size]
        image = dsymv(1.0, base, row)
        leverage = w * ddot(image, row) / scale
        if not (leverage >= 0.0 and 1.0 + leverage <= self._most):
            return []
        gain = w / (scale * (1.0 + leverage))
        # Measured: one call by position takes 0.6 us; two views, a product and a difference 1.0.
        errors = dgemv(-1.0, self._weights, sample, 1.0, sample, 0, 1, size, 1, 1)[size:]
        calls: list[Call] = [
            (dsyr, -gain, image, 0, 1, 0, size, base, 1),
            (dger, gain, image, errors, 1, 1, self._weights, 0, 0, 1),
            # J = decay J + gain scale e e': a product with the errors as a diagonal matrix.
            (dsbmv, 0, gain * scale, errors[None], errors, 1, 0, decay, j, 1, 0, 0, 1),
        ]
        if decay != 1.0:
            if scale < MIN_SCALE:
                calls.append((np.divide, base, scale, base))
                scale = 1.0
            kept = float(factors[KEPT]) * decay
            calls.append((factors.__setitem__, slice(None), (scale, 0.0, kept)))
        return calls

    def learn_many(self, X: Numbers, targets: Numbers) -> bool:
        """Learn the rows of an array: BLAS learns them faster than this code."""
        return False

    def predict_learn(self, X: Numbers, targets: Numbers, w: Numbers, scores: Numbers) -> int:
        """Predict rows, each before it is learnt, up to a row that other code must learn.

        Parameters
        ----------
        X : ndarray (n, n_features)
        targets : ndarray (n, n_targets), or (n,) of int
        w : ndarray (n,)
        scores : ndarray (n, n_targets)
            Receives the scores.
        """
        size = self._size
        for row, weight in enumerate(w.tolist()):
            self._values[:size] = X[row]
            if self._counts is None:
                self._values[size:] = targets[row]
            elif 0 <= targets[row] < len(self._counts):
                self._values[size:] = 0.0
                self._values[size + targets[row]] = 1.0
            else:
                return row
            if not (self._can_answer() and self._is_plain(weight)):
                return row
            scores[row] = self._scores_of_row(self._about())
            self._marks[PREDICTED_AT] = self._tally[0]
            self._learn_read(weight, 0 if self._counts is None else int(targets[row]))
        return len(w)


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


def scale_after(state: Numbers, row: Numbers, out: Numbers) -> None:
    """Write the state after a row: Welford's recursion with weights that decay."""
    counts, means, variances, n_far = state
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
    if not 0 <= column < len(mixture):
        raise ValueError("the class has no score")
    errors *= ERROR_DECAY
    errors += w * (best != column)
    likelihoods = np.exp((mixture - mixture.max())[:, None] * scales)
    shares = likelihoods[column] / likelihoods.sum(axis=0)
    losses -= w * np.log((count * shares + 1.0) / (count + len(mixture)))


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
        self._n_outputs = len(found[-1]) if self._softmaxes else 0
        found.append(np.pad(known, (0, self._n_outputs - n_labels)))
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
        for (_, _, base, pending, factors), row, decay in zip(
            self._memories, self._seen, self._forgetting, strict=False
        ):
            settle(base, pending, factors)
            image, kept = dsymv(1.0, base, row), float(factors[SCALE]) * decay
            total = kept + w * ddot(image, row)
            if not 0.0 < total <= MAX_ROW_LEVERAGE * kept:
                return False
            if float(factors[KEPT]) * decay < MIN_RIDGE_SHARE:
                return False
            self._images.append(image)
            # gain: w P z / (1 + w z'P z) = gain B z, with P = B / scale
            self._gains.append(w / total)
        return True

    def plan(self, errors: Numbers, column: int, is_new: bool, w: float) -> tuple[Call, ...]:
        """Return calls that learn the prepared row; no expert could predict a new class.

        `errors` are those of all scores of linear experts.
        """
        calls = list[Call]()
        if self._softmaxes and not 0 <= column < self._n_outputs:
            raise ValueError("the class has no score")
        left = errors.reshape(-1)
        for r, (_, weights, base, _, factors) in enumerate(self._memories):
            image, gain, decay = self._images[r], self._gains[r], self._forgetting[r]
            own, left = np.split(left, [weights.shape[1]])
            calls.append((dsyr, -gain, image, 0, 1, 0, len(image), base, 1))
            calls.append((dger, gain, image, own, 1, 1, weights, 0, 0, 1))
            kept = float(factors[SCALE]) * decay
            if kept < MIN_SCALE:
                calls.append((np.divide, base, kept, base))
                kept = 1.0
            new = kept, 0.0, float(factors[KEPT]) * decay
            calls.append((factors.__setitem__, slice(None), new))
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
                calls = (*calls, (np.copyto, self._shares, shares))
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
