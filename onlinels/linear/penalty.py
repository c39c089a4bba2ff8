"""The ridge in force and what it acts on: chosen from statistics at fixed counts of rows."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.accumulators.folds import FoldedStatistics
from onlinels.accumulators.mean import JITTER
from onlinels.accumulators.statistics import Statistics
from onlinels.accumulators.sums import Rows
from onlinels.checks import BLOCK_BYTES, Floats, Integers, Matrix, dense
from onlinels.linalg.packed import gathered, origins
from onlinels.linalg.selection import (
    SMALLEST_LACKING,
    KFold,
    dependent_columns,
    first_best,
    paper_ridge,
    reciprocal,
    select,
    varying_only,
)
from onlinels.linear.forgetting import Clock
from onlinels.saving import FINITE, FLAG, SHARE, VECTOR, WHOLE, maybe, savable

Scaling = str | None
"""A setting: "auto", "standard" or None."""

SCALINGS = ("auto", "standard", None)
"""Settings of what the ridge acts on."""

FEWEST_ROWS = 2
"""Rows, as they weigh, from which a ridge is selected; with one the paper's is in force."""

LEAST_GROWTH, FEATURES_AT_DOUBLINGS = 1 / 16, 8192
"""A ridge is selected whenever the rows have grown by a sixteenth: up to 16 with every row.

With more than 512 features they grow by more, in proportion, up to doublings at 8,192: a choice
costs the cube of the features, and learning only the square.

After rows of noise the squared error was at most 1.06 times that of a ridge selected just then;
with steps of an eighth 1.11, of a quarter 1.28 (demos/benchmarks/bad_order.py). Of 600 random
problems of 4 to 15 rows, the held-out error was 0.82 to 0.93 times RidgeCV's.
"""

FIRST_ROWS = 256
"""Rows from which statistics that hold their ridge inside choose it, unless it is a number."""

MEMORIES = 4
"""Memories, the rows or the time in which weights decay to 1/e, after which a ridge is due."""


def is_selected(ridge: Any) -> bool:
    """Tell whether a setting means that the ridge is selected at checkpoints."""
    return isinstance(ridge, KFold) or (isinstance(ridge, str) and ridge == "auto")


def check_scaling(scaling: Any, ridge: Any) -> None:
    """Raise unless a setting of what the ridge acts on is known, and goes with the ridge.

    Examples
    --------
    >>> check_scaling("standard", 0.0)
    Traceback (most recent call last):
        ...
    ValueError: scaling='standard' and ridge=0.0 do not go together: without a ridge ...
    """
    if not (scaling is None or (isinstance(scaling, str) and scaling in SCALINGS)):
        raise ValueError(f'scaling={scaling!r} is not known. Pass "auto", "standard" or None.')
    if scaling == "standard" and isinstance(ridge, numbers.Real) and ridge == 0.0:
        raise ValueError(
            f"scaling={scaling!r} and ridge={ridge!r} do not go together: without a ridge units of "
            'features do not matter. Pass scaling="auto", or a ridge over 0.'
        )


def next_checkpoint(count: int, n_varying: int, memory: float = np.inf) -> int:
    """Return the count of rows at which a ridge is chosen next, after it was at some.

    Parameters
    ----------
    count : int
    n_varying : int
        Features that had more than one value in these rows.
    memory : float
        Rows in which weights decay to 1/e.

    Examples
    --------
    >>> next_checkpoint(0, 9), next_checkpoint(15, 9), next_checkpoint(100, 9)
    (2, 16, 107)
    >>> next_checkpoint(4000, 2000), next_checkpoint(9000, 9000)
    (4977, 18000)
    """
    growth = min(1.0, max(LEAST_GROWTH, n_varying / FEATURES_AT_DOUBLINGS))
    return int(max(FEWEST_ROWS, count + np.ceil(min(growth * count, MEMORIES * memory))))


@savable(
    {
        "ridge": maybe(SHARE),
        "units": maybe(VECTOR),
        "is_due": FLAG,
        "until": WHOLE,
        "until_time": maybe(FINITE),
        "constants": maybe(VECTOR),
    }
)
class Penalty(NamedTuple):
    """The ridge that was selected last, the units that it acts on, and when the next is due.

    Attributes
    ----------
    ridge : float or None
        None where statistics said too little.
    units : ndarray (n_features,), or None
        Deviations of features when the ridge was chosen; of a feature that began to vary later,
        after its first change; 0 of constant ones. None where the ridge acts on features as they
        are.
    is_due : bool
        Whether everything is due: from the statistics as they are.
    until, until_time : int, float or None
        Count of rows, and time of the stream, at which everything is due next.
    constants : ndarray (n_features,), or None
        The only value of every feature so far, NaN if it had several; None: not known.
    """

    ridge: float | None = None
    units: Floats | None = None
    is_due: bool = True
    until: int = FEWEST_ROWS
    until_time: float | None = None
    constants: Floats | None = None

    def placed(self, places: Integers, n_features: int) -> Penalty:
        """Return it for more features, of which those known so far stand at given places."""
        columns, constants, units = origins(places, n_features), self.constants, self.units
        return self._replace(
            constants=None if constants is None else gathered(constants, columns),
            units=None if units is None else gathered(units, columns),
        )

    def with_units(self, features: Integers, units: Floats) -> Penalty:
        """Return it with other units of some features."""
        new = np.array(self.units)
        new[features] = units
        return self._replace(units=new)

    def own_units(
        self, events: Events, block: slice, rows: Rows, past: float
    ) -> tuple[Integers, Floats]:
        """Return features that begin to vary in a block of a batch, and their units right then.

        Parameters
        ----------
        events : Events
            In the batch.
        block : slice
        rows : Rows
            Of the block.
        past : float
            Weight of all rows before them.
        """
        begins = np.flatnonzero((events.firsts >= block.start) & (events.firsts < block.stop))
        if self.units is None or not begins.size:
            return begins[:0], np.zeros(0)
        first, weights = events.firsts[begins] - block.start, rows.weights()
        totals = past + np.cumsum(weights)
        # Weight of every row, of the weight of all rows up to it.
        shares = np.divide(weights, totals, out=np.zeros(len(weights)), where=totals > 0.0)[first]
        if events.is_centred:
            # Units are about the mean: deviations of a feature with two values.
            shares = shares * (1.0 - shares)
        units = np.sqrt(shares) * np.abs(rows.values[first, begins] - events.values[begins])
        there = units > 0.0
        return begins[there], units[there]

    def fits(self, n_features: int) -> bool:
        """Tell whether it is of so many features."""
        return all(each is None or len(each) == n_features for each in (self.constants, self.units))


class Events(NamedTuple):
    """What comes in a batch: features that begin to vary, and checkpoints.

    Attributes
    ----------
    values : ndarray (n_features,)
        The only value of every feature before the batch, NaN if it had several.
    firsts : ndarray (n_features,) of int
        The row in which each begins to vary: the length of the batch if in none, -1 if before it.
    due_at : int
        After how many rows everything is due last; 0 for never.
    is_centred : bool
        Whether rows are learnt about their mean.
    """

    values: Floats
    firsts: Integers
    due_at: int
    is_centred: bool

    def after(self, penalty: Penalty, n_rows: int) -> Penalty:
        """Return what a penalty before the batch is after so many rows, at least 1, of it."""
        new = penalty._replace(constants=np.where(self.firsts < n_rows, np.nan, self.values))
        # What could not be chosen for want of memory stays due.
        return new._replace(is_due=new.is_due or n_rows == self.due_at)


def events_of(
    penalty: Penalty,
    statistics: Statistics,
    values: Matrix,
    w: Floats,
    clock: Clock,
    latest: Floats | None,
) -> Events:
    """Return what comes in a batch.

    Parameters
    ----------
    penalty : Penalty
        Before the batch, as are the statistics and the clock. Nothing is due.
    statistics : Statistics
    values : ndarray (n, n_features)
    w : ndarray (n,)
        Weights. Rows of weight 0 change nothing.
    clock : Clock
    latest : ndarray (n,), or None
        Latest time of the stream after every row, where there are times.
    """
    n_rows, n_features = values.shape
    used, only = np.flatnonzero(w > 0.0), np.zeros(n_features)
    if statistics.weight:
        # Features that are new were 0.
        known = penalty.constants if penalty.constants is not None else only_values(statistics)
        only[: len(known)] = known
    elif statistics.is_centred and len(used):
        only[:] = dense(values[used[:1]])[0]
    firsts = first_changes(only, values, used)
    steps = Steps(statistics.count, np.sort(firsts), clock, latest)
    due_at = steps.last_due(n_rows, penalty.until, penalty.until_time)
    return Events(only, firsts, due_at, statistics.is_centred)


def first_rows_that_vary(events: Events | None, n_rows: int) -> Integers:
    """Return the rows of a batch in which any feature begins to vary, ascending."""
    if events is None:
        return np.zeros(0, dtype=np.intp)
    return np.unique(events.firsts[(events.firsts >= 0) & (events.firsts < n_rows)])


class Steps(NamedTuple):
    """Checkpoints in a batch.

    Attributes
    ----------
    before : int
        Rows before the batch.
    begun : ndarray (n_features,) of int
        Rows of the batch in which features begin to vary, ascending.
    clock : Clock
    latest : ndarray (n_rows,), or None
        Latest time after every row, where there are times.
    """

    before: int
    begun: Integers
    clock: Clock
    latest: Floats | None

    def varying(self, at: int) -> int:
        """Return how many features vary after so many rows of the batch."""
        return int(np.searchsorted(self.begun, at))

    def last_due(self, n_rows: int, until: int, until_time: float | None) -> int:
        """Return after how many rows everything is due last, 0 for never, given the next times."""
        last = 0
        while True:
            at = max(until - self.before, last + 1)
            if self.latest is not None and until_time is not None:
                at = min(at, int(np.searchsorted(self.latest, until_time)) + 1)
            if at > n_rows:
                return last
            last = at
            until = next_checkpoint(self.before + at, self.varying(at), self.clock.memory)
            if self.latest is not None:
                until_time = float(self.latest[at - 1]) + MEMORIES * self.clock.lasting


def only_values(statistics: Statistics) -> Floats:
    """Return the only value of every feature (n_features,), NaN if it varies."""
    return np.where(statistics.diagonal > 0.0, np.nan, statistics.feature_mean)


def first_changes(only: Floats, values: Matrix, used: Integers) -> Integers:
    """Return the first of the rows in use in which each feature differs from its only value.

    It is the number of rows, if in none, and -1 where that value is NaN.

    Examples
    --------
    >>> values = np.array([[9.0, 2.0, 4.0], [0.0, 2.0, 5.0], [0.0, 2.0, 5.0]])
    >>> first_changes(np.array([np.nan, 2.0, 4.0]), values, np.arange(3))
    array([-1,  3,  1])
    """
    n_rows = values.shape[0]
    firsts = np.where(np.isnan(only), -1, n_rows)
    # In ever longer blocks: most features vary in the first few rows.
    start, size = 0, 1
    while start < len(used):
        waiting = np.flatnonzero(firsts == n_rows)
        if not waiting.size:
            break
        rows = used[start : start + size]
        apart = np.abs(dense(values[np.ix_(rows, waiting)]) - only[waiting])
        differs = apart > JITTER * np.abs(only[waiting])
        found = differs.any(axis=0)
        firsts[waiting[found]] = rows[differs[:, found].argmax(axis=0)]
        start, size = start + size, min(4 * size, max(1, BLOCK_BYTES // (8 * len(waiting))))
    return firsts


def choose(
    penalty: Penalty, ridge: Any, scaling: Any, statistics: Statistics, clock: Clock
) -> Penalty:
    """Return the penalty that is chosen now."""
    check_folds(ridge, statistics)
    deviations = None if scaling is None else statistics.deviations
    # Held inside, a ridge on features as they are would drown later ones of other units.
    both = scaling == "auto" and not statistics.holds_ridge
    tried = [None, deviations] if both else [deviations]
    found = selected(statistics, tried) if is_selected(ridge) else None
    number, units = found or (None, deviations if scaling == "standard" else None)
    return settled(penalty, number, units, statistics, clock)


def selected(
    statistics: Statistics, tried: Sequence[Floats | None]
) -> tuple[float, Floats | None] | None:
    """Return the ridge that is selected from statistics, and on which of several units it acts.

    Units are those of `onlinels.linalg.selection.select`. None where statistics say too little.
    """
    diagonal = statistics.diagonal
    # What rows that were taken out have left is no feature to choose a ridge for.
    says = diagonal.any() and statistics.target_squares.sum() > 0.0
    if not says or statistics.weight < FEWEST_ROWS:
        return None
    if isinstance(statistics, FoldedStatistics):
        choices = [statistics.select_ridge(each is not None) for each in tried]
        which = first_best(choices)
        return choices[which].ridge, tried[which]
    choice, which = select(varying_only(statistics.sums(), diagonal), statistics.count, tried)
    ridge, units = choice.ridge, tried[which]
    squares = diagonal if units is None else diagonal * reciprocal(units) ** 2
    if ridge < SMALLEST_LACKING * squares.max():
        dependent = dependent_columns(varying_only(statistics.sums(), diagonal).gram)
        ridge = max(ridge, SMALLEST_LACKING * float(squares[dependent].max(initial=0.0)))
    return ridge, units


def settled(
    penalty: Penalty,
    ridge: float | None,
    units: Floats | None,
    statistics: Statistics,
    clock: Clock,
) -> Penalty:
    """Return the penalty with a ridge and units in force until the next checkpoint."""
    constants = penalty.constants
    if constants is None:
        constants = only_values(statistics)
    n_varying = int(np.count_nonzero(np.isnan(constants)))
    return penalty._replace(
        ridge=ridge,
        units=units,
        is_due=False,
        until=next_checkpoint(statistics.count, n_varying, clock.memory),
        until_time=None if clock.now is None else clock.now + MEMORIES * clock.lasting,
        constants=constants,
    )


def check_folds(ridge: Any, statistics: Statistics) -> None:
    """Raise unless statistics are in as many folds as the ridge is chosen from."""
    if isinstance(ridge, KFold) and ridge.n_folds != statistics.n_folds:
        raise ValueError(
            f"ridge={ridge!r} needs statistics in {ridge.n_folds} folds, expected from the "
            "first row on. Make a new model with this ridge."
        )


def ridge_of(ridge: Any, statistics: Statistics, penalty: Penalty, units: Floats | None) -> float:
    """Return the ridge that was selected, or else the number of a setting, or the paper's."""
    if is_selected(ridge) and penalty.ridge is not None:
        return penalty.ridge
    if isinstance(ridge, numbers.Real):
        return float(ridge)
    diagonal = statistics.diagonal
    if units is not None:
        diagonal = diagonal * reciprocal(units) ** 2
    return paper_ridge(diagonal, statistics.n_targets)


def penalties_of(
    ridge: float, units: Floats | None, statistics: Statistics
) -> tuple[float | Floats, Floats | None]:
    """Return the penalty of every feature, and the diagonal by which weights are solved.

    With units the penalties are c u^2; features of the unit 0, which are constant, have no weight.
    """
    if units is None:
        return ridge, None
    varies = units > 0.0
    penalties = ridge * np.where(varies, units, 1.0) ** 2
    return penalties, np.where(varies, statistics.diagonal, 0.0)
