"""Events in a batch: features that begin to vary, and counts at which a ridge is chosen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinels.accumulators.mean import CONSTANT_TOLERANCE
from onlinels.accumulators.statistics import Statistics
from onlinels.accumulators.sums import Rows
from onlinels.checks import BLOCK_BYTES, Floats, Integers, Matrix, dense
from onlinels.linear.forgetting import Clock
from onlinels.linear.penalty import (
    MEMORIES_BETWEEN_SELECTIONS,
    Penalty,
    next_checkpoint,
    only_values,
)


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
    latest: Floats | None,
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
    latest : ndarray (n,), or None
        Latest time of the stream after every row; None without times.
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


def first_rows_that_vary(events: Events | None, n_rows: int) -> Integers:
    """Return the rows of a batch in which any feature begins to vary, ascending."""
    if events is None:
        return np.zeros(0, dtype=np.intp)
    return np.unique(events.firsts[(events.firsts >= 0) & (events.firsts < n_rows)])


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
