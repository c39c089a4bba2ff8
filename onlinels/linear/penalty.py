"""The ridge in force and the units that it acts on, chosen at fixed counts of rows.

`Events` tells where these rows lie in a batch, and where features begin to vary.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import BLOCK_BYTES, Floats, Integers, Matrix, dense
from onlinels.linear.forgetting import Clock
from onlinels.saving import savable
from onlinels.sums.folds import FoldedStatistics
from onlinels.sums.packed import gathered, origins
from onlinels.sums.products import CONSTANT_TOLERANCE, Rows
from onlinels.sums.selection import (
    MIN_RIDGE_IF_DEPENDENT,
    KFold,
    dependent_columns,
    first_best,
    paper_ridge,
    reciprocal,
    select,
    varying_only,
)
from onlinels.sums.statistics import Statistics

Scaling = str | None
"""The setting `scaling`: "auto", "standard" or None."""

SCALINGS = ("auto", "standard", None)
"""The values of the setting `scaling`."""

MIN_SELECTION_ROWS = 2
"""Total weight of rows from which a ridge is selected; below it, the paper's ridge is in force."""

ROWS_SELECTED_ONE_BY_ONE = 16
"""Number of rows up to which the ridge is selected after every row.

On 600 random problems of 4 to 15 rows, the held-out error was 0.82 to 0.93 times RidgeCV's.
"""

LEAST_GROWTH, LEAST_GROWTH_OF_FOLDS, FEATURES_AT_DOUBLINGS = 1 / 16, 1 / 4, 8192
"""Afterwards, a ridge is selected whenever the number of rows has grown by a sixteenth.

From folds, where a choice costs ten times as much, the growth is a quarter. A choice costs the cube
of the number of features, and learning only the square, so the growth is larger with many features:
an eighth with 512 features, a quarter with 2,048, and twofold from 8,192 on. With a growth of a
quarter, an eighth and a sixteenth, the squared error was at most 1.28, 1.12 and 1.08 times that of
a ridge selected just then, over forty streams in a bad order whose features keep their units
(demos/benchmarks/bad_order.py). Compared with doublings, predicting and learning 8,192 rows of 64
features one by one took 1.1, 1.3 and 1.6 times as long; in batches, 1.6, 2.0 and 2.9 times.
"""

MEMORIES_BETWEEN_SELECTIONS = 4
"""Number of memories (rows or time in which weights decay to 1/e) after which a ridge is due."""


def is_selected(ridge: Any) -> bool:
    """Return whether the setting of the ridge means that a ridge is selected at checkpoints."""
    return isinstance(ridge, KFold) or (isinstance(ridge, str) and ridge == "auto")


def check_scaling(scaling: Any, ridge: Any) -> None:
    """Raise unless the setting `scaling` is known and can be combined with the ridge.

    Examples
    --------
    >>> check_scaling("standard", 0.0)
    Traceback (most recent call last):
        ...
    ValueError: scaling='standard' and ridge=0.0 do not go together: without a ridge, ...
    """
    if not (scaling is None or (isinstance(scaling, str) and scaling in SCALINGS)):
        raise ValueError(f'scaling={scaling!r} is not known. Pass "auto", "standard" or None.')
    if scaling == "standard" and isinstance(ridge, numbers.Real) and ridge == 0.0:
        raise ValueError(
            f"scaling={scaling!r} and ridge={ridge!r} do not go together: without a ridge, the "
            'units of features do not matter. Pass scaling="auto", or a ridge greater than 0.'
        )


def next_checkpoint(count: int, n_varying: int, memory: float = np.inf, n_folds: int = 1) -> int:
    """Return the count of rows at which a ridge is chosen next, given the count at a choice.

    Parameters
    ----------
    count : int
        Number of rows since a feature first varied.
    n_varying : int
        Number of features that had more than one value in these rows.
    memory : float
        Number of rows in which weights decay to 1/e.
    n_folds : int
        Number of folds that the ridge is selected from; 1 for none.

    Examples
    --------
    >>> next_checkpoint(0, 9), next_checkpoint(15, 9), next_checkpoint(101, 9)
    (2, 16, 108)
    >>> next_checkpoint(1000, 512), next_checkpoint(1000, 4096), next_checkpoint(9000, 9000)
    (1125, 1500, 18000)
    >>> next_checkpoint(100, 9, n_folds=5)
    125
    """
    if count < ROWS_SELECTED_ONE_BY_ONE:
        return max(MIN_SELECTION_ROWS, count + 1)
    share = n_varying / FEATURES_AT_DOUBLINGS
    least = LEAST_GROWTH if n_folds == 1 else LEAST_GROWTH_OF_FOLDS
    growth = min(1.0, max(least, share, 0.5 * share**0.5))
    return int(count + np.ceil(min(growth * count, MEMORIES_BETWEEN_SELECTIONS * memory)))


@savable()
class Penalty(NamedTuple):
    """The last selected ridge, the units that it acts on, and when the next choice is due.

    Attributes
    ----------
    ridge : float or None
        The selected ridge; None if the statistics were too few to select one.
    units : ndarray (n_features,), or None
        Standard deviations of the features when the ridge was chosen; for a feature that began to
        vary later, after its first change; 0 for constant features. None if the ridge acts on
        features as they are.
    is_due : bool
        Whether the ridge and the units are to be chosen from the current statistics.
    until, until_time : int, float or None
        Count of rows, and time of the stream, at which they are chosen next.
    constants : ndarray (n_features,), or None
        The only value of every feature so far, NaN if it had several; None if not known.
    began : int
        Number of rows before any feature varied, minus one. These rows carry no information about
        the ridge, and the counts of rows begin after them.
    """

    ridge: float | None = None
    units: Floats | None = None
    is_due: bool = True
    until: int = MIN_SELECTION_ROWS
    until_time: float | None = None
    constants: Floats | None = None
    began: int = 0

    def placed(self, places: Integers, n_features: int) -> Penalty:
        """Return the penalty for more features, with the known features at given places."""
        columns, constants, units = origins(places, n_features), self.constants, self.units
        return self._replace(
            constants=None if constants is None else gathered(constants, columns),
            units=None if units is None else gathered(units, columns),
        )

    def with_units(self, features: Integers, units: Floats) -> Penalty:
        """Return the penalty with new units of some features."""
        new = np.array(self.units)
        new[features] = units
        return self._replace(units=new)

    def fits(self, n_features: int) -> bool:
        """Return whether the arrays have `n_features` entries."""
        arrays = (each for each in (self.constants, self.units) if each is not None)
        return all(len(each) == n_features for each in arrays)


def only_values(statistics: Statistics) -> Floats:
    """Return the only value of every feature (n_features,), NaN if it varies."""
    return np.where(statistics.diagonal > 0.0, np.nan, statistics.feature_mean)


def choose_penalty(
    penalty: Penalty, ridge: Any, scaling: Any, statistics: Statistics, clock: Clock
) -> Penalty:
    """Choose the ridge and units from the statistics; return the penalty up to the next choice."""
    check_folds(ridge, statistics)
    deviations = None if scaling is None else statistics.deviations
    tried = [None, deviations] if scaling == "auto" else [deviations]
    number, units = select_ridge_and_units(ridge, statistics, tried) or (None, None)
    constants = only_values(statistics) if penalty.constants is None else penalty.constants
    n_varying = int(np.count_nonzero(np.isnan(constants)))
    began = penalty.began if n_varying else max(0, statistics.count - 1)
    rows = next_checkpoint(statistics.count - began, n_varying, clock.memory, statistics.n_folds)
    time = None
    if clock.now is not None:
        time = clock.now + MEMORIES_BETWEEN_SELECTIONS * clock.lasting
    return Penalty(number, units, False, began + rows, time, constants, began)


def select_ridge_and_units(
    ridge: Any, statistics: Statistics, tried: Sequence[Floats | None]
) -> tuple[float, Floats | None] | None:
    """Return the ridge that "auto" or a KFold selects, and the units it acts on, among several.

    Units are those of `onlinels.sums.selection.select`. None if the statistics are too few.
    """
    diagonal = statistics.diagonal
    # Rounding errors left by removed rows are not features to choose a ridge for.
    can_select = diagonal.any() and statistics.target_squares.sum() > 0.0
    if not can_select or statistics.weight < MIN_SELECTION_ROWS:
        return None
    if isinstance(statistics, FoldedStatistics):
        choices = [statistics.select_ridge(each is not None) for each in tried]
        which = first_best(choices)
        return choices[which].ridge, tried[which]
    choice, which = select(varying_only(statistics.sums(), diagonal), statistics.count, tried)
    ridge, units = choice.ridge, tried[which]
    squares = diagonal if units is None else diagonal * reciprocal(units) ** 2
    if ridge < MIN_RIDGE_IF_DEPENDENT * squares.max():
        dependent = dependent_columns(varying_only(statistics.sums(), diagonal).gram)
        ridge = max(ridge, MIN_RIDGE_IF_DEPENDENT * float(squares[dependent].max(initial=0.0)))
    return ridge, units


def check_folds(ridge: Any, statistics: Statistics) -> None:
    """Raise unless the statistics have the number of folds that the ridge is chosen from."""
    if isinstance(ridge, KFold) and ridge.n_folds != statistics.n_folds:
        raise ValueError(
            f"ridge={ridge!r} needs statistics in {ridge.n_folds} folds, which must be kept from "
            "the first row on. Make a new model with this ridge."
        )


def ridge_of(ridge: Any, statistics: Statistics, penalty: Penalty, units: Floats | None) -> float:
    """Return the ridge c: the selected ridge, the number of the setting, or the paper's."""
    if penalty.ridge is not None:
        return penalty.ridge
    if isinstance(ridge, numbers.Real):
        return float(ridge)
    diagonal = statistics.diagonal
    if units is not None:
        diagonal = diagonal * reciprocal(units) ** 2
    return paper_ridge(diagonal, statistics.n_targets)


def penalties_of(
    ridge: float, units: Floats | None, statistics: Statistics
) -> tuple[float | Floats, Floats]:
    """Return the penalty of every feature, and the diagonal for solving for the weights.

    With units u, the penalties are c u^2. Constant features have the unit 0, and the weight 0.
    """
    if units is None:
        return ridge, statistics.diagonal
    varies = units > 0.0
    penalties = ridge * np.where(varies, units, 1.0) ** 2
    return penalties, np.where(varies, statistics.diagonal, 0.0)


class Events(NamedTuple):
    """Events in a batch: features that begin to vary, and counts at which a ridge is chosen.

    Attributes
    ----------
    values : ndarray (n_features,)
        The only value of every feature before the batch; NaN if it had several.
    firsts : ndarray (n_features,) of int
        The row in which each feature begins to vary: the length of the batch if it does not vary,
        -1 if it varied before the batch.
    due_at : int
        Number of rows of the batch after which a ridge is chosen for the last time; 0 for never.
    before : int
        Number of rows before the batch.
    is_centred : bool
        Whether rows are learnt about their mean.
    """

    values: Floats
    firsts: Integers
    due_at: int
    before: int
    is_centred: bool

    def after(self, penalty: Penalty, n_rows: int) -> Penalty:
        """Return the penalty after `n_rows` rows of the batch, at least 1, given it before."""
        constants = np.where(self.firsts < n_rows, np.nan, self.values)
        began = began_at(penalty.began, self.before, int(self.firsts.min(initial=n_rows)), n_rows)
        new = penalty._replace(constants=constants, began=began)
        # A choice that failed for lack of memory stays due.
        return new._replace(is_due=new.is_due or n_rows == self.due_at)

    def own_units(
        self, penalty: Penalty, block: slice, rows: Rows, past: float
    ) -> tuple[Integers, Floats]:
        """Return features that begin to vary in a block of the batch, with their first units.

        Parameters
        ----------
        penalty : Penalty
            Penalty before the block. If it has no units, no feature is returned.
        block : slice
            Rows of the batch that are in the block.
        rows : Rows
            The rows of the block.
        past : float
            Weight of all rows before the block.
        """
        begins = np.flatnonzero((self.firsts >= block.start) & (self.firsts < block.stop))
        if penalty.units is None or not begins.size:
            return begins[:0], np.zeros(0)
        first, weights = self.firsts[begins] - block.start, rows.weights()
        totals = past + np.cumsum(weights)
        # Weight of each row as a share of the weight of all rows up to it.
        shares = np.divide(weights, totals, out=np.zeros(len(weights)), where=totals > 0.0)[first]
        if self.is_centred:
            # About the mean: the deviation of a feature with two values is sqrt(p (1 - p)) times
            # their difference.
            shares = shares * (1.0 - shares)
        units = np.sqrt(shares) * np.abs(rows.values[first, begins] - self.values[begins])
        there = units > 0.0
        return begins[there], units[there]


def events_of(
    penalty: Penalty,
    statistics: Statistics,
    values: Matrix,
    w: Floats,
    clock: Clock,
    times: Floats | None,
) -> Events:
    """Return the events in a batch.

    Parameters
    ----------
    penalty : Penalty
        Penalty before the batch, with nothing due.
    statistics : Statistics
        Statistics before the batch.
    values : ndarray (n, n_features)
        Rows of the batch.
    w : ndarray (n,)
        Weights of the rows. Rows of weight 0 change nothing.
    clock : Clock
        Clock before the batch.
    times : ndarray (n,), or None
        Times of the rows.
    """
    n_rows, n_features = values.shape
    used, only = np.flatnonzero(w > 0.0), np.zeros(n_features)
    if statistics.weight:
        # New features were 0 so far.
        known = penalty.constants if penalty.constants is not None else only_values(statistics)
        only[: len(known)] = known
    elif statistics.is_centred and len(used):
        only[:] = dense(values[used[:1]])[0]
    firsts = first_changes(only, values, used)
    begun = np.sort(firsts)
    latest = clock.latest(n_rows, times)
    due_at = last_checkpoint(penalty, statistics, begun, n_rows, clock, latest)
    return Events(only, firsts, due_at, statistics.count, statistics.is_centred)


def began_at(began: int, before: int, first: int, n_rows: int) -> int:
    """Return the number of rows before any feature varied, minus one, after rows of a batch.

    One is subtracted because the last of these rows has the first value of the feature that begins
    to vary, and counts.

    Parameters
    ----------
    began, before : int
        This number, and the number of all rows, before the batch.
    first : int
        First row of the batch in which a feature begins to vary; -1 if one varied before.
    n_rows : int
        Number of rows of the batch.
    """
    return began if first < 0 else max(0, before + min(first, n_rows) - 1)


def last_checkpoint(
    penalty: Penalty,
    statistics: Statistics,
    begun: Integers,
    n_rows: int,
    clock: Clock,
    latest: Floats | None,
) -> int:
    """Return the number of rows of a batch at the last choice of a ridge; 0 for no choice.

    Parameters
    ----------
    penalty : Penalty
        Penalty before the batch.
    statistics : Statistics
        Statistics before the batch.
    begun : ndarray (n_features,) of int
        Rows of the batch in which features begin to vary, ascending.
    n_rows : int
        Number of rows of the batch.
    clock : Clock
        Clock before the batch.
    latest : ndarray (n_rows,), or None
        Latest time of the stream after every row; None without times.
    """
    before, n_folds = statistics.count, statistics.n_folds
    last, until, until_time = 0, penalty.until, penalty.until_time
    while True:
        at = until - before
        if latest is not None and until_time is not None:
            at = min(at, int(np.searchsorted(latest, until_time)) + 1)
        # A time of 1e18 plus a few units is the same float: the next checkpoint is the next row.
        at = max(at, last + 1)
        if at > n_rows:
            return last
        last = at
        began = began_at(penalty.began, before, int(begun.min(initial=at)), at)
        n_varying = int(np.searchsorted(begun, at))
        until = began + next_checkpoint(before + at - began, n_varying, clock.memory, n_folds)
        if latest is not None:
            until_time = float(latest[at - 1]) + MEMORIES_BETWEEN_SELECTIONS * clock.lasting


def first_changes(only: Floats, values: Matrix, used: Integers) -> Integers:
    """Return the first row, among those in use, in which each feature differs from its only value.

    The number of rows if the feature does not differ; -1 if its only value is NaN.

    Examples
    --------
    >>> values = np.array([[9.0, 2.0, 4.0], [0.0, 2.0, 5.0], [0.0, 2.0, 5.0]])
    >>> first_changes(np.array([np.nan, 2.0, 4.0]), values, np.arange(3))
    array([-1,  3,  1])
    """
    n_rows = values.shape[0]
    firsts = np.where(np.isnan(only), -1, n_rows)
    # Blocks become longer and longer, because most features vary in the first few rows.
    start, size = 0, 1
    while start < len(used):
        waiting = np.flatnonzero(firsts == n_rows)
        if not waiting.size:
            break
        rows = used[start : start + size]
        deviations = np.abs(dense(values[np.ix_(rows, waiting)]) - only[waiting])
        differs = deviations > CONSTANT_TOLERANCE * np.abs(only[waiting])
        found = differs.any(axis=0)
        firsts[waiting[found]] = rows[differs[:, found].argmax(axis=0)]
        start, size = start + size, min(4 * size, max(1, BLOCK_BYTES // (8 * len(waiting))))
    return firsts
