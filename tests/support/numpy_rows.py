"""Single rows in numpy, as `_core.c` reads, predicts and learns them: the other side of comparisons."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import ceil
from operator import itemgetter
from struct import Struct
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dgemm, dgemv, dger, dsbmv, dsymv, dsyr, dsyrk

from onlinels.core.apply import Call, apply
from onlinels.core.constants import (
    BEGAN,
    CONSTANT_TOLERANCE,
    DOUBLES_AT,
    DUE_TOLERANCE,
    DUE_WEIGHT,
    EPS,
    GROWTH,
    KEPT,
    LEAST_ROWS,
    MAX_SQUARES,
    MAX_UNITS_GROWTH,
    MIN_FREE,
    MIN_ROWS_DWARFED,
    MIN_SCALE,
    MUCH_HEAVIER,
    MUCH_LARGER,
    NEXT_DUE,
    PREDICTED_AT,
    ROWS_BETWEEN_ORIGINS,
    ROWS_SELECTED_ONE_BY_ONE,
    SCALE,
    SCALED,
    SHARE,
    VALID_UNTIL,
)
from onlinels.core.reference import (
    Numbers,
    PLAIN_NAMES,
    PYTHON_NUMBER_TYPES,
    ends_of,
    equal_rows,
    is_accepted,
    is_one_of,
    is_weight_due,
    prints_of_row,
    settle,
    sum_of_powers,
    weights_of_errors,
)


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


class SingleRows:
    """Single rows of a model in one state: they are predicted, and learnt into the model's arrays.

    Methods return NotImplemented, with nothing changed, for rows that other code must handle.

    The arguments are those of the class in `_core.c`.
    """

    def __init__(self, **named: Any) -> None:
        self._features, self._targets = named["features"], named["targets"]
        self._labels, self._label_types = named["labels"], named["label_types"]
        self._size, self._marks, self._counts = self._features._size, named["marks"], named["counts"]
        self._constants, self._learns = named["constants"], named["learns"]
        self._take_sums(named["whole"], np.zeros(sum(named["whole"].products.shape)))
        self._inverse = self._pending = self._criterion = self._factors = self._penalties = None
        self._weights = named["weights"]
        if named["recursion"] is not None:
            self._inverse, self._pending, self._weights, *others = named["recursion"].arrays
            self._criterion, self._factors, self._penalties = others
        self._inliers = None
        if named["inliers"] is not None:
            self._inliers = object.__new__(SingleRows)
            vars(self._inliers).update(vars(self), _inverse=None, _inliers=None)
            self._inliers._take_sums(named["inliers"], self._values)
        names = "decay", "most", "least_share", "patience", "refines", "forgets"
        vars(self).update({f"_{name}": named[name] for name in names})

    def _take_sums(self, statistics: Any, values: Numbers) -> None:
        self._values, self._tally, self._prints = values, statistics.tally, statistics.prints
        self._is_centred, nowhere = statistics.mean is not None, np.zeros(len(values))
        self._origin, self._offset = statistics.mean or (nowhere, nowhere)
        self._cross, *panels = statistics.products.row_arrays() or (None,)
        self._panels = list(zip(panels[::2], panels[1::2], strict=True))
        self._squares = statistics.squares_of_targets
        # `MUCH_LARGER` times the squares of some earlier sums.
        self._limits = np.zeros(len(values))

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
        if self._cross is None or not self._learns:
            return False
        count, weight, _ = self._tally.tolist()
        if not (0.0 < w <= 1.0 and w <= MUCH_HEAVIER * weight * self._decay):
            return False
        if count >= self._marks[NEXT_DUE]:
            return False
        squares = ddot(self._values, self._values)
        if not (self._is_constant_where_known() and squares <= MAX_SQUARES):
            return False
        if self._inliers is None:
            return not self._is_dwarfed(w)
        return bool(w <= MUCH_HEAVIER * self._inliers._tally[1] * self._decay)

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
        apply((*further, *self._learning(w, self._decay, is_restored)))
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

    def learn_checked(self, row: Numbers, w: float, decay: float) -> None:
        """Learn a row with its targets, which other code has checked."""
        self._values[:] = row
        apply(self._learning(w, decay))

    def _learning(self, w: float, decay: float, is_restored: bool = False) -> list[Call]:
        """Return the calls that learn the row."""
        count, weight, squares = self._tally.tolist()
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
        if self._inliers is not None:
            if not self._inliers._is_dwarfed(w):
                calls += self._inliers._learning(w, decay)
            elif decay != 1.0:
                calls += self._inliers._fading(decay)
        y = sample[None, size:]
        return [
            *calls,
            # A product with the targets as a diagonal matrix. Measured: half the time of numpy.
            (dsbmv, 0, heft, y, sample, 1, size, decay, self._squares, 1, 0, 0, 1),
            (np.add, self._prints, prints_of_row(self._values), self._prints),
            *self._products(row, targets, heft, decay),
            (self._tally.__setitem__, slice(None), (count + 1.0, total, decay**2 * squares + w**2)),
        ]

    def _fading(self, decay: float) -> list[Call]:
        """Return the calls that decay the sums."""
        count, weight, squares = self._tally.tolist()
        products = self._cross, self._squares, *(part for panel in self._panels for part in panel)
        faded = [(np.multiply, each, decay, each) for each in products]
        after = count, decay * weight, decay**2 * squares
        return [*faded, (self._tally.__setitem__, slice(None), after)]

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
