"""The ridge, from its setting to the penalty of every feature, step by step.

1. The setting is a number, "paper", "auto" or a `KFold`; `scaling` is "auto", "standard" or None.
2. "auto" and a `KFold` choose a ridge at checkpoints: counts of rows that grow by a sixteenth. A
   few rows may outweigh all earlier rows, if these were faded, learnt with small weights or learnt
   long ago. So if the rows are worth at most half as many equally weighted rows, which are
   (sum w)^2 / sum w^2, a checkpoint comes also when their weight has grown by a sixteenth, or has
   fallen to between a half and a quarter.
3. Whenever the number of rows, or of the equally weighted rows, has doubled, the ridge is selected
   from the statistics, and whether it acts on raw or on standardised features. In between, both are
   kept if the restricted likelihood accepts them; otherwise the ridge is selected again, and up to
   15 varying features the units, too. So a choice depends on the statistics at two checkpoints, and
   on nothing else. With forgetting, every choice is a selection. A `KFold` selects by the errors on
   held-out folds (`onlinels.sums.folds`). Up to 128 features, C tests and selects
   (core/selection.h).
4. The ridge is the selected ridge, the number, or the paper's; a part of it may be in force, the
   share that decay has left.
5. A batch is cut at its last checkpoints. A feature that begins to vary in it has a unit of its own
   until the next choice.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from onlinels.checks import (
    BLOCK_BYTES,
    MAX_COUNT,
    Floats,
    Integers,
    Matrix,
    as_number,
    check_count,
    dense,
    ignoring,
)
from onlinels.core.constants import (
    BASE_RIDGE,
    BEGAN,
    CHOSEN_ELSEWHERE,
    CONSTANT_TOLERANCE,
    DOUBLES_AT,
    DUE_TOLERANCE,
    FEATURES_AT_DOUBLINGS,
    IS_BASE_SCALED,
    IS_KNOWN,
    IS_SCALED,
    LEAST_DUE_SHARE,
    LEAST_GROWTH,
    MAX_FEATURES_SOLVED,
    MAX_MEAN_WEIGHT,
    MAX_TIE,
    MAX_UNITS_GROWTH,
    MAX_UNITS_RATIO,
    MEMORIES_BETWEEN_SELECTIONS,
    MIN_FEATURES_TO_KEEP_UNITS,
    MIN_PAPER_RIDGE,
    MIN_RIDGE_IF_DEPENDENT,
    MIN_ROWS_PER_FEATURE,
    MIN_SELECTION_ROWS,
    N_CHOICE,
    RAW,
    RAW_OR_STANDARD,
    RIDGE,
    ROWS_SELECTED_ONE_BY_ONE,
    STANDARD,
    UNTIL_REST,
    UNTIL_TIME,
)
from onlinels.core.reference import equal_rows, is_accepted
from onlinels.linear.following import recursion_at
from onlinels.linear.forgetting import Clock
from onlinels.numerics import restore
from onlinels.rows.times import Time, elapsed, exact, is_time, rational
from onlinels.saving import savable, settings_hold
from onlinels.sums.axes import Places, Room, gathered
from onlinels.sums.folds import select_ridge_from_folds, splits_of
from onlinels.sums.recursion import Recursion
from onlinels.sums.rows import Rows
from onlinels.sums.selection import (
    MAX_FEATURES_DECOMPOSED,
    Choice,
    Sums,
    accepts_ridge,
    dependent_columns,
    first_best,
    in_units,
    reciprocal,
    select_ridge,
    varying_only,
)
from onlinels.sums.statistics import Statistics
from onlinels.sums.subsets import Subsets

if TYPE_CHECKING:
    from onlinels.linear.state import State

# ---- 1. The setting ------------------------------------------------------------------------------

RIDGE_NAMES = ("paper", "auto")
"""The names that the setting `ridge` can have."""

RIDGE_REMEDY = 'Pass a float >= 0, "paper", "auto" or KFold(n_folds).'


@savable(settings_hold)
@dataclass(frozen=True)
class KFold:
    """Choose the ridge by exact K-fold cross-validation, from statistics kept in K folds.

    The content of a row determines its fold, so models with folds can merge and unlearn rows.

    Parameters
    ----------
    n_folds : int
        Number K of folds, at least 2.

    Raises
    ------
    TypeError, ValueError
        If `n_folds` is not an integer of at least 2.

    Notes
    -----
    A KFold needs K + 1 times the memory of "auto" and ten to twenty-five times its time for a
    choice, and every row is learnt twice. Use a KFold to limit the largest errors if features have
    heavy tails and the target is not linear in them. If it is linear, "auto" is better with
    outliers, too: a KFold had up to 3.8 times the error of the best ridge. In the share of wrong
    labels, "auto" was as good or better on average (demos/benchmarks/README.md).

    Examples
    --------
    >>> KFold()
    KFold(n_folds=5)
    """

    n_folds: int = 5

    def __post_init__(self) -> None:
        check_count("n_folds", self.n_folds, 2)


Ridge = float | str | KFold
"""The setting `ridge`: a number, "paper", "auto" or a KFold."""


def check_ridge(ridge: Any) -> None:
    """Raise unless `ridge` is a finite number of at least 0, "paper", "auto" or a KFold.

    Raises
    ------
    TypeError
        If `ridge` is not a number, a string or a KFold.
    ValueError
        If `ridge` is a negative, infinite or NaN number, or an unknown name.

    Examples
    --------
    >>> check_ridge("best")
    Traceback (most recent call last):
        ...
    ValueError: ridge='best' is not known. Pass a float >= 0, "paper", "auto" or KFold(n_folds).
    """
    if isinstance(ridge, str):
        if ridge not in RIDGE_NAMES:
            raise ValueError(f"ridge={ridge!r} is not known. {RIDGE_REMEDY}")
    elif not isinstance(ridge, KFold):
        is_real = isinstance(ridge, numbers.Real) and not isinstance(ridge, bool)
        number = as_number(ridge) if is_real else None
        if number is None:
            raise TypeError(f"ridge={ridge!r} must be a number, a name or a KFold. {RIDGE_REMEDY}")
        if not 0.0 <= number < np.inf:
            raise ValueError(f"ridge={number} must be at least 0 and finite. {RIDGE_REMEDY}")


Scaling = str | None
"""The setting `scaling`: "auto", "standard" or None."""

SCALINGS = ("auto", "standard", None)
"""The values of the setting `scaling`."""


def check_scaling(scaling: Any, ridge: Any) -> None:
    """Raise unless the setting `scaling` is known and can be combined with the ridge.

    Examples
    --------
    >>> check_scaling("standard", 0.0)
    Traceback (most recent call last):
        ...
    ValueError: scaling='standard' and ridge=0.0 do not go together: without a ridge, the
    units of features do not matter. Pass scaling="auto", or a ridge greater than 0.
    """
    if not (scaling is None or (isinstance(scaling, str) and scaling in SCALINGS)):
        raise ValueError(f'scaling={scaling!r} is not known. Pass "auto", "standard" or None.')
    if scaling == "standard" and isinstance(ridge, numbers.Real) and ridge == 0.0:
        raise ValueError(
            f"scaling={scaling!r} and ridge={ridge!r} do not go together: without a ridge, the "
            'units of features do not matter. Pass scaling="auto", or a ridge greater than 0.'
        )


def is_selected(ridge: Any) -> bool:
    """Return whether the setting of the ridge means that a ridge is selected at checkpoints."""
    return isinstance(ridge, KFold) or (isinstance(ridge, str) and ridge == "auto")


# ---- 2. When: checkpoints ------------------------------------------------------------------------

LEAST_GROWTH_OF_FOLDS = 1 / 4
"""Growth of the number of rows between checkpoints with folds, where a choice costs ten times as
much."""


def time_between_selections(clock: Clock) -> float:
    """Return the time after a choice in which a ridge is due; infinite without a half-life.

    It is whole if times are dates.
    """
    if clock.half_life is None:
        return np.inf
    time = MEMORIES_BETWEEN_SELECTIONS * clock.lasting
    return float(np.ceil(time)) if clock.counts_dates else time


def time_after(clock: Clock) -> Time | None:
    """Return the time of the stream at which a ridge is due after a choice now, as the core does.

    None before the first row, and beyond all times.
    """
    now, time = clock.now, time_between_selections(clock)
    if now is None or not is_time(float(now) + time):
        return None
    if clock.counts_dates or float(now) != now:
        return rational(now) + Fraction(time)
    return float(now) + time


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
    growth = growth_between(n_varying, n_folds)
    return int(count + np.ceil(min(growth * count, MEMORIES_BETWEEN_SELECTIONS * memory)))


def growth_between(n_varying: int, n_folds: int = 1) -> float:
    """Return the growth of the number of rows from one checkpoint to the next, at most 1."""
    share = n_varying / FEATURES_AT_DOUBLINGS
    least = LEAST_GROWTH if n_folds == 1 else LEAST_GROWTH_OF_FOLDS
    return float(min(1.0, max(least, share, 0.5 * share**0.5)))


def due_weight(weight: float, n_varying: int, n_folds: int = 1) -> float:
    """Return the register `DUE_WEIGHT`, given the weight of all rows at a choice.

    Rows of equal weight do not reach it before the count of the next checkpoint.
    """
    return weight * (1.0 + growth_between(n_varying, n_folds)) * (1.0 - DUE_TOLERANCE)


class Totals(NamedTuple):
    """The numbers, weights and squared weights of all rows after each row of a batch, (n,)."""

    rows: Floats
    weights: Floats
    squares: Floats

    @ignoring("over")
    def first_due(self, due: float, start: int, stop: int) -> int:
        """Return the first of some rows after which the weight makes a ridge due, `stop` if none.

        `due` is the register `DUE_WEIGHT`; see `onlinels.core.reference.is_weight_due`.
        """
        rows, weights, squares = (each[start:stop] for each in self)
        is_due = ((weights >= due) & (due > 0.0)) | (weights < LEAST_DUE_SHARE * due)
        is_due &= 2.0 * weights**2 <= rows * squares
        return start + int(is_due.argmax()) if is_due.any() else stop


def totals_after(began: int, statistics: Statistics, clock: Clock, rows: Rows) -> Totals:
    """Return the totals after each row of a batch, given how many rows do not count.

    `statistics` and `clock` are those before the batch.
    """
    before, n_rows = (statistics.weight, float(statistics.tally[2])), len(rows.targets)
    numbers = float(statistics.count - began) + np.arange(1.0, n_rows + 1.0)
    return Totals(numbers, *clock.totals(before, rows.w, n_rows, rows.times))


def next_doubling(count: int) -> int:
    """Return the next power of two above a count of rows.

    Examples
    --------
    >>> next_doubling(0), next_doubling(3), next_doubling(4)
    (2, 4, 8)
    """
    return max(MIN_SELECTION_ROWS, 1 << count.bit_length())


def is_doubling(count: int, doubles_at: int) -> bool:
    """Return whether a number of rows has doubled, or has fallen to between a half and a quarter.

    Examples
    --------
    >>> is_doubling(17, 32), is_doubling(7, 32), is_doubling(32, 32), is_doubling(2, 0)
    (False, True, True, True)
    """
    return not 0.25 * doubles_at <= count < doubles_at


def core_choice(state: State, kinds: int) -> tuple[Any, ...] | None:
    """Return the choice of a ridge, and what decides on the next, as `onlinels.core` takes them.

    `kinds` are those of the units that the ridge may act on.
    """
    numbers, products, clock = state.penalty.numbers, state.subsets.whole.products, state.clock
    n_features, has_folds = products.shape[0], bool(state.subsets.folds)
    if len(numbers) != N_CHOICE + 3 * n_features:
        return None
    is_large = n_features > MAX_FEATURES_SOLVED or has_folds
    if is_large or not products.allows_recursion:
        kinds = CHOSEN_ELSEWHERE
    if clock.forgetting_factor == 1.0 and clock.hands is None:
        return numbers, kinds, not has_folds, np.inf, np.inf
    return numbers, kinds, False, clock.memory, time_between_selections(clock)


KINDS_OF_UNITS = {None: RAW, "standard": STANDARD, "auto": RAW_OR_STANDARD}
"""The units that a ridge may act on, by the setting `scaling`."""


# ---- 3. What of: the statistics ------------------------------------------------------------------


@savable(take=lambda penalty: penalty.parts())
class Penalty:
    """The ridge that was selected last, the units that it acts on, and the choice that may be kept.

    Parameters
    ----------
    ridge : float or None
        The selected ridge; None if the statistics were too few to select one, or if the setting is
        a number or the paper's.
    units : ndarray (n_features,), or None
        Standard deviations of the features when the ridge was selected; for a feature that began to
        vary later, after its first change; 0 for constant features. None if the ridge acts on
        features as they are.
    base_ridge, base_units
        The same, as they were selected when the number of rows last doubled.
    doubles_at : int
        Number of equally weighted rows from which they are selected again, whatever they are, and
        below a quarter of which.
    until_time : int, float, Fraction or None
        Time of the stream at which a choice is due, as `Clock.now`, with the digits of two floats.
    constants : ndarray (n_features,), or None
        The only value of every feature so far, NaN if it had several; None if not known.
    began : int
        Number of rows before any feature varied, minus one. These rows carry no information about
        the ridge, and the counts of rows begin after them.

    Attributes
    ----------
    numbers : ndarray (N_CHOICE + 3 * n_features,)
        All of these, where `onlinels.core` writes its choices: single numbers (see
        `onlinels.core.constants`), then `units`, `base_units` and `constants`, which are 0 if they
        are None. The properties return copies.

    Notes
    -----
    A penalty belongs to one model. Python code makes a new one with every change.
    """

    numbers: Floats

    def __new__(
        cls,
        ridge: float | None = None,
        units: Floats | None = None,
        base_ridge: float | None = None,
        base_units: Floats | None = None,
        doubles_at: int = 0,
        until_time: Time | None = None,
        constants: Floats | None = None,
        began: int = 0,
    ) -> Self:
        """Make a penalty, with its arguments as pickles of format 3 hold them."""
        arrays = units, base_units, constants
        n_features = max([0, *(len(each) for each in arrays if each is not None)])
        if not (until_time is None or is_time(until_time)):
            raise ValueError(f"a ridge is due at {until_time!r}")
        head: list[Any] = [ridge, base_ridge, units is not None, base_units is not None, doubles_at]
        head += [*in_two(until_time), constants is not None, began]
        new = super().__new__(cls)
        new.numbers = np.zeros(N_CHOICE + 3 * n_features)
        new.numbers[:N_CHOICE] = [np.nan if each is None else each for each in head]
        for row, each in zip(new._arrays, arrays, strict=True):
            if each is not None:
                row[:] = each
        return new

    def parts(self) -> dict[str, Any]:
        """Return the arguments that make this penalty."""
        return {name: getattr(self, name) for name in PENALTY_NAMES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Files, and pickles of earlier versions, hold the parts.
        restore(self, state if "numbers" in state else vars(Penalty(**state)))

    @property
    def _arrays(self) -> Floats:
        arrays: Floats = self.numbers[N_CHOICE:].reshape(3, -1)
        return arrays

    def _number(self, place: int) -> float | None:
        number = float(self.numbers[place])
        return None if np.isnan(number) else number

    def _array(self, row: int, place: int) -> Floats | None:
        return self._arrays[row].copy() if self.numbers[place] else None

    @property
    def ridge(self) -> float | None:
        """The selected ridge, or None."""
        return self._number(RIDGE)

    @property
    def units(self) -> Floats | None:
        """Units of the features, (n_features,), or None."""
        return self._array(0, IS_SCALED)

    @property
    def base_ridge(self) -> float | None:
        """The ridge selected at the last doubling, or None."""
        return self._number(BASE_RIDGE)

    @property
    def base_units(self) -> Floats | None:
        """Units at the last doubling, (n_features,), or None."""
        return self._array(1, IS_BASE_SCALED)

    @property
    def doubles_at(self) -> int:
        """Number of rows at which both are selected again."""
        return int(self.numbers[DOUBLES_AT])

    @property
    def until_time(self) -> Time | None:
        """Time at which a choice is due, or None."""
        time, rest = self.numbers[UNTIL_TIME : UNTIL_REST + 1].tolist()
        if not rest:
            return None if np.isnan(time) else exact(time)
        return exact(Fraction(time) + Fraction(rest))

    @property
    def constants(self) -> Floats | None:
        """The only values of features, (n_features,), NaN for several; None if not known."""
        return self._array(2, IS_KNOWN)

    @property
    def began(self) -> int:
        """Number of rows before any feature varied, minus one."""
        return int(self.numbers[BEGAN])

    @property
    def is_base(self) -> bool:
        """Whether the last choice is that of the last doubling."""
        return self.is_same(self.changed(ridge=self.base_ridge, units=self.base_units))

    def is_same(self, other: Penalty) -> bool:
        """Return whether another penalty has the same ridge, on the same units."""
        mine, theirs = self.units, other.units
        if mine is None or theirs is None:
            return self.ridge == other.ridge and mine is theirs
        return self.ridge == other.ridge and np.array_equal(mine, theirs)

    @property
    def n_varying(self) -> int:
        """Number of features that had several values."""
        return int(np.count_nonzero(np.isnan(self._arrays[2]))) if self.numbers[IS_KNOWN] else 0

    def is_time_due(self, clock: Clock) -> bool:
        """Return whether a choice is due at the time of a clock."""
        if self.until_time is None or clock.now is None:
            return False
        return elapsed(clock.now, self.until_time) >= 0.0

    def changed(self, **parameters: Any) -> Penalty:
        """Return a penalty with other parameters."""
        return Penalty(**self.parts() | parameters)

    def copied(self) -> Penalty:
        """Return an independent copy."""
        return self.changed()

    def with_units(self, features: Integers, units: Floats) -> Penalty:
        """Return the penalty with units of features that begin to vary."""
        new = self.copied()
        for row, place in enumerate((IS_SCALED, IS_BASE_SCALED)):
            if new.numbers[place]:
                new._arrays[row, features] = units
        return new

    def reindexed(self, places: Places) -> Penalty:
        """Return the penalty of other features; new ones were 0 so far."""
        new = self.copied()
        if new.has_arrays:
            rows = [gathered(each, places.features) for each in new._arrays]
            new.numbers = np.concatenate((new.numbers[:N_CHOICE], *rows))
        return new

    def with_room(self, room: Room) -> Penalty:
        """Return the penalty with room for more features, which were 0 so far."""
        old, size, new = self.numbers, N_CHOICE, object.__new__(Penalty)
        if old[IS_KNOWN] or old[IS_SCALED] or old[IS_BASE_SCALED]:
            size += 3 * room.new[0]
        new.numbers = np.zeros(size)
        new.numbers[:N_CHOICE] = old[:N_CHOICE]
        if size > N_CHOICE and len(old) > N_CHOICE:
            new._arrays[:, : room.old[0]] = self._arrays
        return new

    @property
    def has_arrays(self) -> bool:
        """Whether there are units or only values of features."""
        return bool(self.numbers[[IS_SCALED, IS_BASE_SCALED, IS_KNOWN]].any())

    def fits(self, n_features: int) -> bool:
        """Return whether the arrays have `n_features` entries, and the numbers are numbers."""
        numbers, size = self.numbers, self._arrays.shape[1]
        counts = numbers[[DOUBLES_AT, BEGAN]]
        is_sound = np.isfinite(counts).all() and not np.isinf(numbers[:N_CHOICE]).any()
        return bool(is_sound and (size == n_features or not (size or self.has_arrays)))


def in_two(time: Time | None) -> tuple[float | None, float]:
    """Return a time as a float and what it lacks.

    Examples
    --------
    >>> in_two(2**60 + 1), in_two(None)
    ((1.152921504606847e+18, 1.0), (None, 0.0))
    """
    if time is None:
        return None, 0.0
    first = float(time)
    return first, float(Fraction(time) - Fraction(first))


PENALTY_NAMES = (
    *("ridge", "units", "base_ridge", "base_units"),
    *("doubles_at", "until_time", "constants", "began"),
)
"""What a penalty is made of, in files too."""


NO_PENALTY = Penalty()
FIRST_PENALTY = Penalty(doubles_at=next_doubling(0), constants=np.zeros(0))
FIRST_DUE = float(next_checkpoint(0, 0))
"""Choices of models without features, and when the next is due: see `choose_penalty`.

Without features, nothing writes to their numbers, so models share them.
"""


def only_values(statistics: Statistics) -> Floats:
    """Return the only value of every feature (n_features,), NaN if it varies."""
    return np.where(statistics.diagonal > 0.0, np.nan, statistics.feature_mean)


def choose_penalty(
    penalty: Penalty,
    ridge: Any,
    scaling: Any,
    subsets: Subsets,
    clock: Clock,
    running: Recursion | None = None,
) -> tuple[Penalty, float, float]:
    """Choose the ridge and units; return the penalty, and when the next ridge is due.

    That is at a count of rows, `NEXT_DUE`, and at the weight `DUE_WEIGHT` of all rows.

    `running` is a recursion with the last choice that has followed all rows, if there is one.
    """
    check_folds(ridge, subsets)
    statistics = subsets.whole
    if penalty.constants is None:
        penalty = penalty.changed(constants=only_values(statistics))
    n_varying = penalty.n_varying
    began = penalty.began if n_varying else max(0, statistics.count - 1)
    count = statistics.count - began
    number, units = penalty.base_ridge, penalty.base_units
    equal = int(equal_rows(count, statistics.weight, float(statistics.tally[2])))
    doubles = is_doubling(equal, penalty.doubles_at)
    is_new = doubles or number is None or not depends_on_doublings(subsets.n_folds, clock)
    are_alike = not is_new and have_units(units, statistics)
    # An explicit "standard" follows every row.
    deviations = None if scaling is None else statistics.deviations
    own = deviations if scaling == "standard" else units
    may_keep = are_alike and not are_too_few(equal, n_varying)
    if not (may_keep and is_kept(penalty, own, statistics, running)):
        tried = kinds_of_units(scaling, deviations)
        if not is_new and n_varying >= MIN_FEATURES_TO_KEEP_UNITS:
            tried = [own if are_alike or units is None else deviations]
        number, units = select_ridge_and_units(subsets, tried, clock.forgets)
    if doubles:
        at = next_doubling(equal)
        penalty = penalty.changed(base_ridge=number, base_units=units, doubles_at=at)
    rows = next_checkpoint(count, n_varying, clock.memory, subsets.n_folds)
    until_weight = due_weight(statistics.weight, n_varying, subsets.n_folds)
    penalty = penalty.changed(ridge=number, units=units, until_time=time_after(clock), began=began)
    return penalty, float(min(began + rows, MAX_COUNT)), until_weight


def depends_on_doublings(n_folds: int, clock: Clock) -> bool:
    """Return whether choices depend on the last doubling: without folds and without forgetting."""
    return n_folds == 1 and not clock.forgets


def kinds_of_units(scaling: Any, deviations: Floats | None) -> list[Floats | None]:
    """Return the units that a ridge may act on; of tied units, the first are selected.

    Raw features come first if raw and standardised features are about the same.

    Examples
    --------
    >>> kinds_of_units("auto", np.array([1.0, 1.5, 0.0]))
    [None, array([1. , 1.5, 0. ])]
    >>> kinds_of_units("auto", np.array([1.0, 10.0]))
    [array([ 1., 10.]), None]
    """
    if scaling != "auto" or deviations is None:
        return [deviations]
    varying = deviations[deviations > 0.0]
    are_alike = not varying.size or varying.max() <= MAX_UNITS_RATIO * varying.min()
    return [None, deviations] if are_alike else [deviations, None]


def have_units(units: Floats | None, statistics: Statistics) -> bool:
    """Return whether no square of a deviation is more than about four times a unit, or less."""
    if units is None:
        return True
    now, before = statistics.deviations**2, units**2
    return not ((now > MAX_UNITS_GROWTH * before) | (before > MAX_UNITS_GROWTH * now)).any()


def are_too_few(equal: int, n_varying: int) -> bool:
    """Return whether there are so few rows for so many features that no ridge is kept."""
    return n_varying > MAX_FEATURES_SOLVED and equal < MIN_ROWS_PER_FEATURE * n_varying


def is_kept(
    penalty: Penalty, units: Floats | None, statistics: Statistics, running: Recursion | None
) -> bool:
    """Return whether the ridge that was selected at the last doubling is kept, on units.

    It is unless Rao's score test rejects the ridge (`onlinels.core.reference.is_accepted`).
    """
    ridge, shape = float(penalty.base_ridge or 0.0), statistics.shape
    freedom = statistics.weight - statistics.is_centred
    squares = float(statistics.target_squares.sum())
    if running is not None and not (running.trust == 1.0 and penalty.is_base):
        running = None
    if running is not None and is_accepted(running.arrays, freedom, squares):
        return True
    if not min(shape):
        return False
    if shape[0] <= MAX_FEATURES_SOLVED:
        sums, diagonal = statistics.sums(), statistics.diagonal
        return accepts_ridge(in_units(varying_only(sums, diagonal), units), ridge)
    if running is not None:
        return False
    penalties, diagonal = penalties_of(ridge, units, statistics)
    weights = np.asfortranarray(statistics.solve(penalties, diagonal))
    found = recursion_at(statistics, weights, ridge, penalties)
    return found is not None and is_accepted(found.arrays, freedom, squares)


def select_ridge_and_units(
    subsets: Subsets, tried: Sequence[Floats | None], forgets: bool
) -> tuple[float | None, Floats | None]:
    """Return the ridge that "auto" or a KFold selects, and the units it acts on, among several.

    Units are those of `select`. Both are None if the statistics are too few. If rows are forgotten,
    their number is that of equally weighted rows, (sum w)^2 / sum w^2, unless a full memory is
    short.
    """
    statistics = subsets.whole
    diagonal = statistics.diagonal
    # Rounding errors left by removed rows are not features to choose a ridge for.
    can_select = diagonal.any() and statistics.target_squares.sum() > 0.0
    if not can_select or statistics.weight < MIN_SELECTION_ROWS:
        return None, None
    if subsets.folds:
        known = statistics, splits_of([fold.whole for fold in subsets.folds])
        choices = [select_ridge_from_folds(*known, each is not None) for each in tried]
        which = first_best(choices)
        return choices[which].ridge, tried[which]
    sums, is_short = varying_only(statistics.sums(), diagonal), False
    if forgets:
        n_varying, mean_weight = np.count_nonzero(diagonal), statistics.mean_weight
        is_full = mean_weight <= MAX_MEAN_WEIGHT and statistics.count > n_varying
        is_short = bool(is_full and sums.weight < n_varying <= MAX_FEATURES_DECOMPOSED)
        sums = sums if is_short else replace(sums, weight=sums.weight / mean_weight)
    choice, which = select(sums, statistics.count, tried, is_short)
    ridge, units = choice.ridge, tried[which]
    squares = diagonal if units is None else diagonal * reciprocal(units) ** 2
    if ridge < MIN_RIDGE_IF_DEPENDENT * squares.max():
        dependent = dependent_columns(varying_only(statistics.sums(), diagonal).gram)
        ridge = max(ridge, MIN_RIDGE_IF_DEPENDENT * float(squares[dependent].max(initial=0.0)))
    return ridge, units


MAX_FEATURES_COMPARED = 512
"""Largest number of features that decide between units."""


def select(
    sums: Sums, n_rows: int, units: Sequence[Floats | None], is_short: bool = False
) -> tuple[Choice, int]:
    """Return the best ridge, and the index of the units of features for which it is the best.

    Parameters
    ----------
    sums : Sums
        Sums of products of the rows, whose memory is overwritten.
    n_rows : int
        Number of rows, an upper bound of the rank of the Gram.
    units : sequence of ndarray (n_features,), or None
        The units to compare. An array holds the standard deviations of the features, with 0 for
        features to leave out, and the ridge acts on standardised features. None: the ridge acts on
        features as they are.

    Notes
    -----
    Restricted likelihoods for different units are likelihoods of the same targets, and can be
    compared; the first of tied units is selected. Units are tied up to a difference of 2 in minus
    twice the log-likelihood, so that noise does not select raw features of different units, which
    would be kept for long. With more than 512 features, at most 512 evenly spaced features decide
    between units.

    Examples
    --------
    >>> gram, cross = np.diag([100.0, 1.0]), np.array([[100.0], [1.0]])
    >>> sums = Sums(gram, cross, np.array([111.0]), weight=10.0)
    >>> choice, which = select(sums, 10, [None, np.array([1.0, 0.1])])
    >>> which
    0
    """
    which = 0
    if len(units) > 1:
        step = -(-len(sums.gram) // MAX_FEATURES_COMPARED)
        part = sums.gram[::step, ::step], sums.cross[::step]
        choices = []
        for deviations in units:
            few = replace(sums, gram=part[0].copy(order="C"), cross=part[1].copy())
            own = None if deviations is None else deviations[::step]
            choices.append(select_ridge(in_units(few, own), n_rows, is_short))
        tie = MAX_TIE / max(1.0, sums.weight - sums.n_free)
        which = first_best([each._replace(tie=max(tie, each.tie)) for each in choices])
        if step == 1:
            return choices[which], which
    return select_ridge(in_units(sums, units[which]), n_rows, is_short), which


def check_folds(ridge: Any, subsets: Subsets) -> None:
    """Raise unless the statistics have the number of folds that the ridge is chosen from."""
    if isinstance(ridge, KFold) and ridge.n_folds != subsets.n_folds:
        raise ValueError(
            f"ridge={ridge!r} needs statistics in {ridge.n_folds} folds, which must be kept from "
            "the first row on. Make a new model with this ridge."
        )


# ---- 4. In force ---------------------------------------------------------------------------------


def ridge_of(ridge: Any, statistics: Statistics, penalty: Penalty, units: Floats | None) -> float:
    """Return the ridge c: the selected ridge, the number of the setting, or the paper's."""
    if penalty.ridge is not None:
        return penalty.ridge
    if isinstance(ridge, numbers.Real):
        return float(ridge)
    diagonal = statistics.diagonal
    squares = diagonal if units is None else diagonal * reciprocal(units) ** 2
    return paper_ridge(squares, statistics.n_targets)


def paper_ridge(diagonal: Floats, n_targets: int) -> float:
    """Return the paper's heuristic ridge, c = (N/M)^2 min(diag(A'A)).

    Parameters
    ----------
    diagonal : ndarray (n_features,)
        Diagonal of the Gram A'A. The minimum leaves out features with a sum of squares of 0 (hidden
        units that were never active): they would make the ridge 0, and their weights are 0 for any
        ridge.
    n_targets : int
        Number N of classes; M is the number of features.

    Returns
    -------
    float
        At least ``10 * eps * M`` times the median sum of squares (eps = 2.2e-16): for hidden units
        of one kind, a smaller ridge is lost in the rounding errors of the Gram. 0.0 if all features
        are always 0.

    Notes
    -----
    The ridge grows with the number of rows as the Gram does, so its strength relative to the data
    converges. It depends on the statistics alone, so the size of the batches does not change it.

    References
    ----------
    M. D. McDonnell and T. Vladusich, "Enhanced Image Classification With a Fast-Learning Shallow
    Convolutional Neural Network", IJCNN 2015, section II-C.

    Examples
    --------
    >>> paper_ridge(np.array([4.0, 0.0, 16.0, 4.0]), n_targets=2)
    1.0
    """
    active = diagonal[diagonal > 0.0]
    if not active.size:
        return 0.0
    heuristic = (n_targets / diagonal.size) ** 2 * active.min()
    return float(max(heuristic, MIN_PAPER_RIDGE * active.size * np.median(active)))


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


# ---- 5. In a batch -------------------------------------------------------------------------------


Changes = tuple[Floats, Integers]
"""Only values of features before rows, and the rows in which each begins to vary, (n_features,).

The only value is NaN if a feature had several, and the row negative if the feature varied before.
"""


def events_in(state: State, rows: Rows) -> tuple[dict[int, bool], Changes]:
    """Return the events in a batch: checkpoints, and the rows in which features begin to vary.

    Parameters
    ----------
    state : State
        State before the batch, with nothing due.
    rows : Rows
        Rows of the batch. Rows of weight 0 change nothing.

    Returns
    -------
    due_at : dict
        Numbers of rows of the batch after which a ridge must be chosen, ascending, and whether it
        must be selected there: the last doubling and the last checkpoint. The choice at the last
        checkpoint depends on the choice at the last doubling. All others leave no trace.
    changes : Changes
    """
    penalty, clock, statistics = state.penalty, state.clock, state.statistics
    n_rows, n_folds, following = len(rows.targets), state.subsets.n_folds, state.following
    changes, before = changes_in(penalty, statistics, rows), statistics.count
    passed, begun = clock.passed(n_rows, rows.times, penalty.until_time), np.sort(changes[1])
    began = began_at(penalty.began, before, begun, n_rows)
    totals = totals_after(began, statistics, clock, rows)
    due, until_weight = following.due, following.due_weight
    last = doubled = 0
    doubles_at = penalty.doubles_at
    until = np.inf if penalty.until_time is None else 0.0
    while True:
        at = int(min(due - before, n_rows + 1))
        if passed is not None:
            at = min(at, int(np.searchsorted(passed, until)) + 1)
        # A long time plus a short one may be the same float: the next checkpoint is the next row.
        at = max(at, last + 1)
        at = min(at, totals.first_due(until_weight, last, at) + 1)
        if at > n_rows:
            ats = (doubled, last) if depends_on_doublings(n_folds, clock) else (last,)
            return {each: each == doubled for each in ats if each}, changes
        last = at
        began = began_at(penalty.began, before, begun, at)
        count, n_varying = before + at - began, int(np.searchsorted(begun, at))
        # With forgetting, doublings do not matter.
        weight, squared = float(totals.weights[at - 1]), float(totals.squares[at - 1])
        equal = int(equal_rows(count, weight, squared))
        if is_doubling(equal, doubles_at):
            doubled, doubles_at = at, next_doubling(equal)
        due = began + next_checkpoint(count, n_varying, clock.memory, n_folds)
        until_weight = due_weight(weight, n_varying, n_folds)
        if passed is not None:
            until = float(passed[at - 1]) + time_between_selections(clock)


def penalty_after(
    penalty: Penalty, statistics: Statistics, changes: Changes, rows: Rows, past: float
) -> tuple[Penalty, Integers, Floats]:
    """Return the penalty after rows, and the features that get units in them, with these units.

    Parameters
    ----------
    penalty, statistics : Penalty, Statistics
        Both before the rows. If the penalty has no units, no feature gets one.
    changes : Changes
        Changes of features in the rows, and in later rows.
    rows : Rows
        At least one row, with the weights after all rows are learnt.
    past : float
        Factor on the weight of all earlier rows.
    """
    (only, firsts), n_rows, known = changes, len(rows.values), statistics.shape
    constants = np.where(firsts < n_rows, np.nan, only)
    began = began_at(penalty.began, statistics.count, firsts, n_rows)
    if len(only) > known[0]:
        penalty = penalty.with_room(Room(known, (len(only), known[1])))
    penalty = penalty.changed(constants=constants, began=began)
    begins = np.flatnonzero((firsts >= 0) & (firsts < n_rows))
    if penalty.units is None or not begins.size:
        return penalty, begins[:0], np.zeros(0)
    first, weights = firsts[begins], rows.weights()
    totals = past * statistics.weight + np.cumsum(weights)
    # Weight of each row as a share of the weight of all rows up to it.
    shares = np.divide(weights, totals, out=np.zeros(n_rows), where=totals > 0.0)[first]
    if statistics.is_centred:
        # About the mean: the deviation of a feature with two values is sqrt(p (1 - p)) times
        # their difference.
        shares = shares * (1.0 - shares)
    units = np.sqrt(shares) * np.abs(rows.values[first, begins] - only[begins])
    there = units > 0.0
    begins, units = begins[there], units[there]
    return penalty.with_units(begins, units), begins, units


def changes_in(penalty: Penalty, statistics: Statistics, rows: Rows) -> Changes:
    """Return the changes of features in rows; see `events_in` for the parameters.

    The row is the number of rows for features that do not change.
    """
    values, weights = rows.values, np.broadcast_to(rows.w, len(rows.targets))
    used, only = np.flatnonzero(weights > 0.0), np.zeros(values.shape[1])
    if statistics.weight:
        # New features were 0 so far.
        known = penalty.constants if penalty.constants is not None else only_values(statistics)
        only[: len(known)] = known
    elif statistics.is_centred and len(used):
        only[:] = dense(values[used[:1]])[0]
    return only, first_changes(only, values, used)


def began_at(began: int, before: int, firsts: Integers, n_rows: int) -> int:
    """Return the number of rows before any feature varied, minus one, after rows of a batch.

    One is subtracted because the last of these rows has the first value of the feature that begins
    to vary, and counts.

    Parameters
    ----------
    began, before : int
        This number, and the number of all rows, before the batch.
    firsts : ndarray (n_features,) of int
        Rows of the batch in which features begin to vary; -1 for those that varied before.
    n_rows : int
        Number of rows of the batch.
    """
    first = int(firsts.min(initial=n_rows))
    return began if first < 0 else max(0, before + first - 1)


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
