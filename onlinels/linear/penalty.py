"""The ridge in force and the units that it acts on, chosen at fixed counts of rows."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinels.accumulators.folds import FoldedStatistics
from onlinels.accumulators.statistics import Statistics
from onlinels.checks import Floats, Integers
from onlinels.linalg.packed import gathered, origins
from onlinels.linalg.selection import (
    MIN_RIDGE_IF_DEPENDENT,
    KFold,
    dependent_columns,
    first_best,
    paper_ridge,
    reciprocal,
    select,
    varying_only,
)
from onlinels.linear.forgetting import Clock
from onlinels.saving import savable

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

MIN_ROWS_TO_HOLD_RIDGE = 256
"""Number of rows from which sums that hold the ridge choose it, unless it is a number."""

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
        return all(each is None or len(each) == n_features for each in (self.constants, self.units))


def only_values(statistics: Statistics) -> Floats:
    """Return the only value of every feature (n_features,), NaN if it varies."""
    return np.where(statistics.diagonal > 0.0, np.nan, statistics.feature_mean)


def choose_penalty(
    penalty: Penalty, ridge: Any, scaling: Any, statistics: Statistics, clock: Clock
) -> Penalty:
    """Choose the ridge and units from the current statistics; return the new penalty."""
    check_folds(ridge, statistics)
    deviations = None if scaling is None else statistics.deviations
    # A ridge held inside the sums, on raw features, would over-penalise later features in other
    # units.
    both = scaling == "auto" and not statistics.holds_ridge
    tried = [None, deviations] if both else [deviations]
    found = select_ridge_and_units(ridge, statistics, tried) if is_selected(ridge) else None
    number, units = found or (None, deviations if scaling == "standard" else None)
    return penalty_until_checkpoint(penalty, number, units, statistics, clock)


def select_ridge_and_units(
    ridge: Any, statistics: Statistics, tried: Sequence[Floats | None]
) -> tuple[float, Floats | None] | None:
    """Return the ridge that "auto" or a KFold selects, and the units it acts on, among several.

    Units are those of `onlinels.linalg.selection.select`. None if the statistics are too few.
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


def penalty_until_checkpoint(
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
    began = penalty.began if n_varying else max(0, statistics.count - 1)
    return penalty._replace(
        ridge=ridge,
        units=units,
        is_due=False,
        until=began
        + next_checkpoint(statistics.count - began, n_varying, clock.memory, statistics.n_folds),
        until_time=None
        if clock.now is None
        else clock.now + MEMORIES_BETWEEN_SELECTIONS * clock.lasting,
        constants=constants,
        began=began,
    )


def check_folds(ridge: Any, statistics: Statistics) -> None:
    """Raise unless the statistics have the number of folds that the ridge is chosen from."""
    if isinstance(ridge, KFold) and ridge.n_folds != statistics.n_folds:
        raise ValueError(
            f"ridge={ridge!r} needs statistics in {ridge.n_folds} folds, which must be kept from "
            "the first row on. Make a new model with this ridge."
        )


def ridge_of(ridge: Any, statistics: Statistics, penalty: Penalty, units: Floats | None) -> float:
    """Return the ridge in force: the selected ridge, the number of the setting, or the paper's."""
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
    """Return the penalty of every feature, and the diagonal for solving for the weights.

    With units u, the penalties are c u^2. Constant features have the unit 0, and the weight 0.
    """
    if units is None:
        return ridge, None
    varies = units > 0.0
    penalties = ridge * np.where(varies, units, 1.0) ** 2
    return penalties, np.where(varies, statistics.diagonal, 0.0)
