"""The linear model: columns, statistics and the ridge in force; weights on demand."""

from __future__ import annotations

import copy
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from river import base

from onlinels.accumulators.base import Accumulator, Covariance, Rows
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.grouped import ClasswiseAccumulator, FoldedAccumulator
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.checks import (
    LEAST_ROWS,
    Floats,
    Integers,
    Matrix,
    check_between,
    check_choice,
    check_flag,
    check_mass,
    check_mergeable,
    check_weights,
    read_only,
    row_blocks,
    uncast,
)
from onlinels.linalg.recursion import Recursion
from onlinels.linalg.selection import KFold, Ridge, check_ridge, gcv_ridge, paper_ridge
from onlinels.linear.forgetting import Clock, HalfLife, check_decay
from onlinels.numerics import (
    Calls,
    Lock,
    State,
    Update,
    all_held,
    apply,
    apply_in_blocks,
    product,
    shallow_copy,
)
from onlinels.rows import (
    Batch,
    Columns,
    Layout,
    Name,
    RowReader,
    check_aligned,
    read_batch,
    read_row,
    read_sample,
    reader_of,
)
from onlinels.saving import (
    ANYTHING,
    FLAG,
    MATRIX,
    NOTHING,
    REAL,
    SHARE,
    TEXT,
    VECTOR,
    WHOLE,
    is_instance,
    locked_copy,
    made_of,
    maybe,
    savable,
    save_method,
    settings_hold,
)

Targets = tuple[Matrix, dict[str, Any]]
"""Targets by row, and the attribute that names the outputs, those of the rows included."""

ACCUMULATORS: dict[str, Callable[[], Accumulator]] = {
    "gram": GramAccumulator,
    "orthogonal": OrthogonalAccumulator,
    "recursive": RecursiveAccumulator,
}

FEWEST_ROWS = 16
"""Rows from which a ridge is selected; fewer say too little, and the paper's is in force."""

FIRST_ROWS = 256
"""Rows from which statistics that hold their ridge inside choose it, unless it is a number."""

REFRESHED = 64
"""Least number of rows after which a solution that went on row by row is made anew."""

UNASKED = 4, 16
"""A solution goes on row by row while it is asked for within 4 rows, or the features / 16."""

STRONGEST = 10
"""Features that `debug_one` shows for each output."""

ROUNDING = float(np.finfo(np.float64).eps)
"""Residual sum of squares, relative to the targets', that cannot be told from 0."""

FEWEST_FREE = 1e-9
"""Degrees of freedom left, relative to the weight of the rows, that cannot be told from 0."""

OVERFLOW: Any = {"over": "ignore", "invalid": "ignore"}
"""How numpy errs in variances: those beyond float64, as of features at 1e-160, are infinite."""


@savable(
    {"ridge": REAL, "output_weights": MATRIX, "intercept": VECTOR, "spread": NOTHING},
)
class Solution(NamedTuple):
    """Output weights and intercept as the statistics give them, and the ridge in force."""

    ridge: float
    output_weights: Floats
    intercept: Floats
    # What predictive variances need: the noise of every target, and the covariance.
    spread: tuple[Floats, Covariance] | None = None


@savable({"setting": ANYTHING, "selected": maybe(SHARE), "is_due": FLAG})
class Choice(NamedTuple):
    """The ridge that was selected last, under which setting, and whether that is due again."""

    setting: Any = None
    selected: float | None = None
    is_due: bool = True


def is_selected(setting: Any) -> bool:
    """Tell whether a setting means that the ridge is selected at checkpoints."""
    return isinstance(setting, KFold) or (isinstance(setting, str) and setting == "auto")


def selected_ridge(setting: Any, statistics: Accumulator) -> float | None:
    """Return the ridge that a setting selects from the statistics, None if they say too little."""
    _check_folds(setting, statistics)
    if not is_selected(setting) or statistics.count < FEWEST_ROWS:
        return None
    # What rows that were taken out have left is no feature to choose a ridge for.
    if not (statistics.diagonal.any() and statistics.target_squares.sum() > 0.0):
        return None
    if isinstance(setting, KFold) and isinstance(statistics, FoldedAccumulator):
        return statistics.select_ridge()
    return gcv_ridge(statistics.spectrum())


def _check_folds(setting: Any, statistics: Accumulator) -> None:
    if isinstance(setting, KFold) and setting.n_folds != statistics.n_folds:
        raise ValueError(
            f"ridge={setting!r} needs statistics in {setting.n_folds} folds, expected from the "
            "first row on. Make a new model with this ridge."
        )


def ridge_of(setting: Any, statistics: Accumulator, selected: float | None) -> float:
    """Return the ridge that was selected, or else the number of a setting, or the paper's."""
    if selected is not None:
        return selected
    if isinstance(setting, numbers.Real):
        return float(setting)
    return paper_ridge(statistics.diagonal, statistics.n_targets)


def holding(setting: Any, statistics: Accumulator, choice: Choice) -> tuple[Accumulator, Choice]:
    """Return statistics with the ridge of now inside; one of 0 that is no number waits."""
    ridge = ridge_of(setting, statistics, selected_ridge(setting, statistics))
    if ridge > 0.0 or isinstance(setting, numbers.Real):
        return statistics.with_ridge(ridge), choice._replace(setting=setting)
    return statistics, choice


def reaches_checkpoint(count: int, n_rows: int) -> bool:
    """Tell whether so many rows more reach a power of two, at which a ridge is selected."""
    return (count + n_rows).bit_length() > count.bit_length()


def _plan_row(
    statistics: Accumulator,
    sample: Floats,
    w: float,
    decay: float,
    solution: Recursion | None,
) -> tuple[Calls, State, Recursion | None]:
    """Plan to learn a row; a solution that cannot follow is given up, and the sums still learn."""
    try:
        return (*statistics.plan_row(sample, w, decay, solution), solution)
    except ValueError:
        if solution is None:
            raise
        return (*statistics.plan_row(sample, w, decay), None)


def make_statistics(ridge: Any, accumulator: Any, fit_intercept: Any, balance: Any) -> Accumulator:
    """Return empty statistics of the kind that settings ask for; raise if they do not fit."""
    check_ridge(ridge)
    check_choice("accumulator", accumulator, ACCUMULATORS)
    check_flag("fit_intercept", fit_intercept)
    if balance is not None and balance not in ("classwise", "priors"):
        raise ValueError(f'balance={balance!r} is not known. Pass None, "classwise" or "priors".')
    folds, classwise = isinstance(ridge, KFold), balance == "classwise"
    clashes = (
        (
            folds and classwise,
            f'ridge={ridge!r} and balance="classwise"',
            "statistics are kept apart by folds or by classes",
            'ridge="auto", or balance="priors"',
        ),
        (
            folds and accumulator != "gram",
            f"ridge={ridge!r} and accumulator={accumulator!r}",
            "folds are sums of products",
            'accumulator="gram", or ridge="auto"',
        ),
        (
            classwise and accumulator == "recursive",
            'accumulator="recursive" and balance="classwise"',
            "the recursive form holds its ridge inside, which cannot be weighted by class",
            'accumulator="gram", or balance="priors"',
        ),
    )
    for is_so, settings, reason, remedy in clashes:
        if is_so:
            raise ValueError(f"{settings} do not go together: {reason}. Pass {remedy}.")
    make = partial(_make_one, accumulator, bool(fit_intercept))
    if classwise:
        return ClasswiseAccumulator(make)
    return FoldedAccumulator(make, ridge.n_folds) if folds else make()


def _make_one(accumulator: str, fit_intercept: bool) -> Accumulator:
    statistics = ACCUMULATORS[accumulator]()
    return CentredAccumulator(statistics) if fit_intercept else statistics


def setting(name: str) -> Any:
    """Return the property of a setting that stays as a model was made with it."""

    def refuse(model: Any, value: Any) -> None:
        raise AttributeError(
            f"{name} cannot change in a model that is made, only ridge can. Make a new one, for "
            f"instance with clone({{{name!r}: {value!r}}})."
        )

    return property(attrgetter(f"_{name}"), refuse)


LINEAR = {
    "_ridge": ANYTHING,
    "_accumulator": TEXT,
    "_fit_intercept": ANYTHING,
    "_forgetting_factor": ANYTHING,
    "_half_life": ANYTHING,
    "_columns": made_of(Columns),
    "_clock": made_of(Clock),
    "_statistics": is_instance(Accumulator),
    "_choice": made_of(Choice),
    "_solution": maybe(made_of(Solution)),
    "_recursion": maybe(made_of(Recursion)),
    "_goes_on_until": WHOLE,
    "_asked_at": maybe(WHOLE),
    "_is_refined": FLAG,
    "_lock": made_of(Lock),
    "_reader": NOTHING,
    "_layout": NOTHING,
}
"""Fields of every linear model in a file."""


def linear_is_sound(model: Any) -> bool:
    """Tell whether the parts of a model that came out of a file fit each other."""
    statistics, solution, recursion = model._statistics, model._solution, model._recursion
    shape = statistics.n_features, statistics.n_targets
    fits = shape == (len(model._columns), len(model._outputs))
    if solution is not None:
        shapes = solution.output_weights.shape, solution.intercept.shape
        fits = fits and shapes == (shape, shape[1:])
    if recursion is not None:
        fits = fits and (recursion.n_features, recursion.n_targets) == shape
    clock = replace(model._clock, now=None, timed=False)
    fits = fits and clock == Clock(model.forgetting_factor, model.half_life)
    return bool(fits and settings_hold(model))


class LinearModel(base.Estimator, ABC):
    """Features by name, statistics of the rows, and weights on demand.

    A change of the statistics is planned as a whole and applied by one C loop; rare changes are
    made in new objects, which replace the old ones. The ridge enters when weights are solved,
    unless the statistics hold it inside (the recursive form).

    Where weights are asked for between single rows, the last solution goes on as a recursion
    beside the sums, and is made anew after max(64, n_features) rows, and whenever something but
    single rows has changed.
    """

    accumulator, fit_intercept = setting("accumulator"), setting("fit_intercept")
    forgetting_factor, half_life = setting("forgetting_factor"), setting("half_life")

    def __init__(
        self,
        ridge: Ridge,
        accumulator: str,
        fit_intercept: bool,
        forgetting_factor: float,
        half_life: HalfLife,
        balance: str | None = None,
    ) -> None:
        self._statistics = make_statistics(ridge, accumulator, fit_intercept, balance)
        check_decay(forgetting_factor, half_life)
        self._ridge = ridge
        self._accumulator = accumulator
        self._fit_intercept = fit_intercept
        self._forgetting_factor = forgetting_factor
        self._half_life = half_life
        self._columns = Columns()
        self._clock = Clock(forgetting_factor, half_life)
        self._choice = Choice()
        self._solution: Solution | None = None
        # The last solution that goes on row by row, the count of rows up to which it does, and that
        # when somebody asked last; None if anything but single rows has changed since.
        self._recursion: Recursion | None = None
        self._goes_on_until = 0
        self._asked_at: int | None = None
        # Whether rounding lets the recursion need no refining when somebody asks.
        self._is_refined = True
        self._reader: RowReader | None = None
        self._layout: Layout | None = None
        self._lock = Lock()
        # Fixes a number inside, or says at once that it cannot be.
        self._settle()

    save = save_method
    __copy__ = locked_copy

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            solution = self._solution
            if solution is not None:
                solution = solution._replace(spread=None)
            return vars(self) | {"_reader": None, "_layout": None, "_solution": solution}

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"ridge"}

    @property
    @abstractmethod
    def _outputs(self) -> Sequence[Any]:
        """Names of the columns of `output_weights`."""

    @property
    def ridge(self) -> Any:
        """The setting of the ridge."""
        return self._ridge

    @ridge.setter
    def ridge(self, ridge: Any) -> None:
        if type(ridge) is not type(self._ridge) or ridge != self._ridge:
            with self._lock:
                apply(Update(state=self._anew(_ridge=ridge)))

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features, in the order of the rows of `output_weights`."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt and not taken out again, whatever their weights."""
        return self._statistics.count

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_features, n_targets), read-only."""
        with self._lock:
            solution = self._solved()
            return read_only(self._corrected(solution.output_weights))

    @property
    def intercept(self) -> Floats:
        """Constant added to every score, (n_targets,), read-only; zeros without an intercept."""
        with self._lock:
            return read_only(self._corrected(self._solved().intercept))

    @property
    def ridge_(self) -> float:
        """The ridge in force."""
        with self._lock:
            return self._ridge_in_force()

    @property
    def ridge_diagonal(self) -> Floats:
        """The ridge in force on each feature, (n_features,), read-only."""
        with self._lock:
            return read_only(self._statistics.ridge_diagonal(self._ridge_in_force()))

    # The ridge.

    def _ridge_in_force(self) -> float:
        """Return the ridge in force; if it is selected, that is noted."""
        setting = self._ridge
        check_ridge(setting)
        self._settle()
        if self._statistics.fixed_ridge is not None:
            return self._statistics.fixed_ridge
        if not is_selected(setting):
            return ridge_of(setting, self._statistics, None)
        if self._choice.is_due or self._choice.setting != setting:
            selected = selected_ridge(setting, self._statistics)
            self._choice = Choice(setting, selected, is_due=False)
        return ridge_of(setting, self._statistics, self._choice.selected)

    def _settle(self, is_time: bool = False) -> None:
        """Hold a ridge inside, where it is held: a number at once, others in time or if changed."""
        statistics, known = self._statistics, isinstance(self._ridge, numbers.Real)
        changed = self._ridge != self._choice.setting
        changed = changed and (known or statistics.fixed_ridge is not None)
        if statistics.holds_ridge and (is_time or changed):
            statistics, choice = holding(self._ridge, statistics, self._choice)
            apply(Update(state=((self, "_statistics", statistics), (self, "_choice", choice))))

    # Rows in and out.

    @abstractmethod
    def _read_targets(self, y: Any, n_rows: int | None) -> Targets:
        """Return the checked targets of rows, or of one sample where `n_rows` is None."""

    def _read_many(
        self, X: Any, y: Any, w: Any, t: Any = None
    ) -> tuple[Batch, Targets, float | Floats]:
        batch = read_batch(X)
        check_aligned(X, y=y, w=w, t=t)
        return batch, self._read_targets(y, len(batch)), check_weights(w, len(batch))

    def _learn_sample(self, x: Any, targets: Targets, w: float, t: Any) -> None:
        sample = read_sample(x)
        self._learn(sample, targets, check_weights(w, 1), t)
        self._remember_names(sample.layouts[0])

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch, with the same result as learning its rows one by one.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels, or of n_rows numbers for a regressor
            If the model has several targets: an array (n_rows, n_targets), frame or list of dicts.
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0; 1 by default.
        t : number or datetime, or array, series or list of n_rows of them, optional
            Times of the rows, for models with a `half_life`; by default one unit passes per row.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Notes
        -----
        Whatever is raised, an interrupt from the keyboard or a lack of memory included: nothing has
        changed, or all of it has. The same holds for everything that changes the model.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier()
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
        >>> model.predict_many(np.array([[-1.0], [3.0]]))
        array(['low', 'high'], dtype='<U4')
        """
        with self._lock:
            self._learn(*self._read_many(X, y, w, t), t)

    def _learn(self, batch: Batch, read: Targets, w: float | Floats, t: Any) -> None:
        """Learn rows whose targets are checked, all or nothing."""
        targets, outputs = read
        check_ridge(self._ridge)
        _check_folds(self._ridge, self._statistics)
        if isinstance(self._ridge, numbers.Real):
            self._settle()
        columns = self._columns.extended(batch.layouts)
        n_targets = len(next(iter(outputs.values())))
        self._statistics.check_room(len(columns), n_targets)
        values = columns.place(batch.layouts, batch.values)
        check_mass(values, w)
        if targets.ndim == 2:
            check_mass(targets, w)
        n_rows, times = len(values), self._clock.read(t, len(values))

        def plan(model: Self, block: slice) -> tuple[Calls, State]:
            """Plan to learn a block of the rows."""
            if not (model._is_settled or reaches_checkpoint(model.count, n_rows - block.start)):
                model._ridge_in_force()
            part_w = w if isinstance(w, float) else w[block]
            part_times = None if times is None else times[block]
            size = block.stop - block.start
            clock, past, weights = model._clock.tick(part_w, size, part_times)
            weights = float(np.max(weights)) if size == 1 else weights
            rows = Rows(uncast(values[block]), targets[block], weights)
            news = outputs | {"_clock": clock, "_columns": columns}
            return model._plan_rows(rows, past, n_targets, news)

        holds, fixed_ridge = self._statistics.holds_ridge, self._statistics.fixed_ridge
        if not holds or (n_rows == 1 and fixed_ridge is not None):
            apply_in_blocks(self._units(n_rows, len(columns)), partial(plan, self))
            return
        # Rows may be refused by the ridge inside, or choose it: a copy learns them.
        aside = shallow_copy(self)
        aside._statistics = self._statistics.copied()
        for block in aside._units(n_rows, len(columns)):
            count = aside.count
            apply(plan(aside, block))
            reached = reaches_checkpoint(count, block.stop - block.start)
            if reached and aside._statistics.fixed_ridge is None and aside.count >= FIRST_ROWS:
                aside._settle(is_time=True)
        apply(Update(state=tuple((self, name, value) for name, value in vars(aside).items())))

    def _units(self, n_rows: int, n_features: int) -> Iterator[slice]:
        """Cut rows where a ridge may be selected between them, and into blocks of some MiB."""
        if self._statistics.holds_ridge and self._clock.forgets:
            # A ridge that fades with the rows and is restored: no cutting of them may change it.
            yield from (slice(row, row + 1) for row in range(n_rows))
            return
        count, start = self.count, 0
        powers = range(count.bit_length(), (count + n_rows).bit_length())
        if not self._statistics.holds_ridge or self._statistics.fixed_ridge is not None:
            powers = powers[-1:] if is_selected(self._ridge) else powers[:0]
        for stop in [*((1 << power) - count for power in powers), n_rows]:
            for block in row_blocks(stop - start, n_features, LEAST_ROWS):
                yield slice(start + block.start, start + block.stop)
            start = stop

    def _plan_rows(
        self, rows: Rows, decay: float, n_targets: int, news: dict[str, Any]
    ) -> tuple[Calls, State]:
        """Plan to learn rows with room for columns and targets that may be new."""
        size, n_rows = (rows.values.shape[1], n_targets), len(rows.targets)
        statistics = self._statistics.grown(*size).named(news["_columns"].names)
        reached = reaches_checkpoint(self.count, n_rows)
        choice = self._choice._replace(is_due=True) if reached else self._choice
        recursion = None
        if n_rows == 1 and self._follows(1) and not (reached and is_selected(self._ridge)):
            recursion = self._recursion and self._recursion.grown(*size)
        if n_rows > 1:
            calls, changes = statistics.plan(rows, decay)
        else:
            row = *rows.sample(n_targets), decay
            calls, changes, recursion = _plan_row(statistics, *row, recursion)
        news |= {"_statistics": statistics, "_choice": choice, "_recursion": recursion}
        news |= {"_asked_at": self._asked_at if n_rows == 1 else None}
        state = self._anew(**news, **self._counts(rows.targets, n_targets))
        return calls, (*changes, *state)

    def _counts(self, targets: Matrix, n_targets: int) -> dict[str, Any]:
        """Return the new attributes that count rows by their targets."""
        return {}

    def _anew(self, **attributes: Any) -> State:
        """Return new attributes of a model; what follows single rows begins again, if not given."""
        begun = dict.fromkeys(("_solution", "_recursion", "_asked_at", "_reader"))
        return tuple((self, name, value) for name, value in (begun | attributes).items())

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one sample out again; see `unlearn_many`."""
        with self._lock:
            self._unlearn(read_sample(x), self._read_targets(y, None), check_weights(w, 1))

    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Take rows out again: the model is then as if it had never seen them.

        A class leaves `classes` with the last of its rows; features stay, without effect.

        Parameters
        ----------
        X, y
            As `learn_many` reads them.
        w : float, or array, series or list of n_rows floats, optional
            Weights as they count now: those the rows were learnt with, times what has decayed
            since. No time passes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be read, or more would be taken out than was learnt, so far as
            that shows; nothing has changed then. The orthogonal form cannot unlearn.

        Notes
        -----
        Costs what learning costs, and a copy of the statistics. Digits are lost in proportion to
        how much is taken out beside what stays: rows that weighed 1e8 times as much as the rest
        leave 8 digits less.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier()
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
        >>> model.unlearn_one({0: 2.0}, "high")
        >>> model.classes, model.count
        (('low',), 2)
        """
        with self._lock:
            self._unlearn(*self._read_many(X, y, w))

    def _unlearn(self, batch: Batch, read: Targets, w: float | Floats) -> None:
        """Take rows out whose targets are read, all or nothing."""
        self._put_in_place(self._without(batch, read[0], w))

    def _without(self, batch: Batch, targets: Matrix, w: float | Floats) -> Accumulator:
        """Return the statistics without rows that are in."""
        columns = self._columns.extended(batch.layouts)
        values = columns.place(batch.layouts, batch.values)
        known, new = np.split(values, [len(self._columns)], axis=1)
        if new.any():
            name = columns.names[len(self._columns) + int(new.any(axis=0).argmax())]
            raise ValueError(
                f"x[{name!r}] is not 0, expected a feature that was learnt. "
                "Take out only rows that are in."
            )
        left = self._statistics.copied()
        left.take_out(Rows(uncast(known), targets, w))
        return left

    def _put_in_place(self, statistics: Accumulator, **attributes: Any) -> None:
        """Replace the statistics and what goes with them, all at once; a ridge is due."""
        news = {"_statistics": statistics, "_choice": self._choice._replace(is_due=True)}
        apply(Update(state=self._anew(**(news | attributes))))

    def merge(self, other: Self) -> Self:
        """Add what another model has learnt, in place, matching features and outputs by name.

        Parameters
        ----------
        other : model of the same kind
            A model of the same settings. It stays as it is.

        Returns
        -------
        model
            This model, as if it had learnt the rows of both. A model that has learnt nothing
            changes nothing.

        Raises
        ------
        TypeError, ValueError
            If the models' kinds or settings differ; nothing has changed then.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> a, b = LeastSquaresClassifier(), LeastSquaresClassifier()
        >>> a.learn_one({"x": 1.0}, "one")
        >>> b.learn_one({"y": 2.0}, "two")
        >>> a.merge(b).classes, a.feature_names, a.count
        (('one', 'two'), ('x', 'y'), 2)
        """
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            columns = self._columns.extended(other._columns.layouts())
            places, outputs = self._matched(other)
            size = len(columns), len(next(iter(outputs.values())))
            self._statistics.check_joins(other._statistics, *size)
            mine, theirs = self._alike(other)
            clock, past, other_past = self._clock.joined(other._clock)
            theirs = theirs.placed(columns.locate(other.feature_names), places, *size)
            if other_past != 1.0:
                theirs.scale(other_past)
            if past != 1.0:
                mine = mine.copied()
                mine.scale(past)
            if other._is_blank:
                statistics, choice = mine.copied().grown(*size), self._choice
            elif self._is_blank:
                # Nothing was learnt here: what the other model has selected stays, too.
                statistics, choice = theirs, other._choice
            else:
                statistics, choice = mine.merged(theirs), self._choice._replace(is_due=True)
                holds = statistics.holds_ridge and isinstance(self._ridge, str)
                if holds and statistics.count >= FIRST_ROWS:
                    statistics, choice = holding(self._ridge, statistics, choice)
            outputs |= {"_choice": choice, "_columns": columns, "_clock": clock}
            self._put_in_place(statistics.named(columns.names), **outputs)
        return self

    @abstractmethod
    def _matched(self, other: Self) -> tuple[Integers, dict[str, Any]]:
        """Return the columns of another model's targets here, and the attributes that name all.

        The first of them has the length of all targets.
        """

    def __add__(self, other: Self) -> Self:
        """Return a new model that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    @property
    def _is_blank(self) -> bool:
        # Rows that were taken out in part do not count any more, but still weigh something.
        return not (self.count or self._statistics.weight)

    def _alike(self, other: Self) -> tuple[Accumulator, Accumulator]:
        """Return the statistics of both models, in one number of folds if both know something.

        The ridge may have been changed since, and equal settings of now say nothing of folds.
        """
        mine, theirs = self._statistics, other._statistics
        if mine.n_folds == theirs.n_folds or self._is_blank or other._is_blank:
            return mine, theirs
        if isinstance(self._ridge, KFold):
            raise ValueError(
                f"other has statistics in {theirs.n_folds} folds, expected {mine.n_folds} as here. "
                "Make both models with this ridge, or change both to another before they merge."
            )
        return mine.unfolded(), theirs.unfolded()

    def fade(self, keep: float) -> None:
        """Multiply the weight of every row learnt so far, in place: the past counts less.

        From then on the weights solve (k A'A + c I) W = k A'Y on the rows learnt, k being what is
        kept: the batch solution on rows of k times their weights, and ridges as before.

        Parameters
        ----------
        keep : float
            From 0 to 1. At 0 this is `empty()`, in place: classes and features are forgotten too,
            so `predict_one` answers as before the first row. Otherwise they and `count` stay.

        Raises
        ------
        TypeError, ValueError
            If it is none; nothing has changed then.

        Notes
        -----
        ``M^2`` operations, and about ``3 M^3`` in the recursive form, whose ridge is inside; it is
        c afterwards. A ridge that is selected, but not held inside, is selected anew.

        Examples
        --------
        >>> from onlinels import LeastSquaresRegressor
        >>> model = LeastSquaresRegressor(ridge=1.0, fit_intercept=False)
        >>> model.learn_one({"x": 2.0}, 4.0)
        >>> model.fade(keep=0.25)
        >>> round(model.output_weights.item(), 9), model.count
        (1.0, 1)
        """
        with self._lock:
            check_between("keep", keep, 0.0, 1.0)
            if keep == 0.0:
                new = vars(self.empty()) | {"_lock": self._lock}
                apply(Update(state=tuple((self, name, value) for name, value in new.items())))
            elif keep < 1.0:
                statistics = self._statistics.copied()
                statistics.scale(float(keep))
                statistics.restore_ridge()
                self._put_in_place(statistics)

    def empty(self) -> Self:
        """Return a model with the same settings that has learnt nothing."""
        return self.clone()

    # Rows one by one.

    def _learn_row(self, x: Any, targets: bytes, *counting: tuple[Any, ...]) -> bool:
        """Learn a sample of the usual names, with targets that are read; tell whether it could be.

        Targets are the bytes of float64, one each; a call may count a row of its label.
        """
        reader, statistics, recursion = self._reader, self._statistics, self._recursion
        if reader is None or not reader.is_complete or self._clock.half_life is not None:
            return False
        count, decay = statistics.count, self._clock.forgetting_factor
        # Before a power of two a ridge may be chosen.
        sample = reader.read(x, targets) if count & (count + 1) else None
        if sample is None:
            return False
        if recursion is None:
            calls, state = statistics.plan_row(sample, 1.0, decay)
        else:
            follows = recursion if self._asked_at == count or self._follows(1) else None
            calls, state, follows = _plan_row(statistics, sample, 1.0, decay, follows)
            if follows is None:
                state = (*state, (self, "_recursion", None))
        if self._solution is not None:
            state = (*state, (self, "_solution", None))
        apply(((*calls, *counting), state))
        return True

    def _follows(self, n_more: int) -> bool:
        """Tell whether a solution goes on after some single rows more, if nobody asks before."""
        if self._asked_at is None:
            return False
        at_least, share = UNASKED
        most = max(at_least, self._statistics.n_features // share)
        return self._statistics.count + n_more - self._asked_at <= most

    def _remember_names(self, layout: Layout) -> None:
        """Take note of the names of a sample: if they come again, they may for long."""
        if layout != self._layout:
            self._reader, self._layout = None, layout
        elif self._reader is None and self._is_settled:
            self._reader = reader_of(self._columns, layout, self._statistics.n_targets)

    @property
    def _is_settled(self) -> bool:
        """Whether rows need no look at the ridge before the next checkpoint."""
        holds = self._statistics.holds_ridge
        if not (holds or is_selected(self._ridge)):
            return True
        is_known = self._statistics.fixed_ridge is not None if holds else not self._choice.is_due
        return is_known and bool(self._choice.setting == self._ridge)

    # Weights and answers.

    def _solved(self) -> Solution:
        """Return the solution as it is now; the one that went on row by row, if it does."""
        solution = self._solution
        if solution is None:
            ridge = self._ridge_in_force()
            following = self._following()
            if following is not None:
                weights = following.weights.copy(order="F")
            else:
                weights = self._statistics.solve(ridge)
                self._go_on_from(weights, ridge)
            self._asked_at = self.count
            solution = Solution(ridge, weights, self._statistics.intercept(weights))
            self._solution = solution
        return solution

    def _following(self) -> Recursion | None:
        """Return the solution that has followed single rows, if it has and is as good as anew."""
        recursion, statistics = self._recursion, self._statistics
        if recursion is None:
            return None
        count = statistics.count
        if count >= self._goes_on_until:
            return None
        if count != self._asked_at:
            if not self._is_refined:
                statistics.refine(recursion)
            self._asked_at = count
        return recursion

    def _go_on_from(self, weights: Floats, ridge: float) -> None:
        """Let a solution go on row by row, if statistics are sums that are far from singular."""
        if self._recursion is None:
            # The paper's ridge is another one after every row.
            selected = is_selected(self._ridge) and self._choice.selected is not None
            stays = (selected or isinstance(self._ridge, numbers.Real)) and ridge > 0.0
            if not (stays and self._follows(0)) or self._clock.forgets:
                return
        going_on = None
        with suppress(MemoryError):  # Without room for it the next solution takes longer.
            going_on = self._statistics.recursion_of(weights, ridge)
        self._recursion, self._is_refined = (None, True) if going_on is None else going_on
        self._goes_on_until = self.count + max(REFRESHED, self._statistics.n_features)

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return raw outputs (n_targets,) for one sample."""
        reader, statistics, layout = self._reader, self._statistics, None
        sample = None if reader is None else reader.read(x)
        if sample is None:
            layout, values = read_row(x)
            row = self._columns.place((layout,), values[None])[0]
            if statistics.recursion is not None:
                # The setting may have changed; a reader is made once it is in force.
                self._ridge_in_force()
                statistics = self._statistics
            sample = np.append(row, np.zeros(statistics.n_targets))
        recursion = statistics.recursion or self._following()
        if recursion is None:
            solution = self._solved()
            # One that goes on from now answers the first time as it does the second.
            recursion = self._following()
        if layout is not None:
            self._remember_names(layout)
        if recursion is not None:
            return self._corrected(statistics.scores_by(recursion, sample))
        known: Floats = sample[: statistics.n_features] @ solution.output_weights
        known += solution.intercept
        return self._corrected(known)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        """Return what was read, for an answer in kind, and its raw outputs (n, n_targets)."""
        batch = read_batch(X)
        return batch.source, self._scores_of(batch)

    def _scores_of(self, batch: Batch) -> Floats:
        """Return the raw outputs (n, n_targets) of rows that are read."""
        activations = self._columns.place(batch.layouts, batch.values)
        solution = self._solved()
        scores: Floats = product(activations, solution.output_weights)
        scores += solution.intercept
        return self._corrected(scores)

    def _corrected(self, per_target: Floats) -> Floats:
        """Return weights, constants or scores, targets last, as answers are made of them."""
        return per_target

    def _spread(self) -> tuple[Floats, Covariance]:
        """Return noise variances (n_targets,) and covariance as they are now, as a solution keeps.

        They take about ``M^3`` operations, then ``M^2`` a prediction, and the memory of a Gram.
        """
        solution, statistics = self._solved(), self._statistics
        if solution.spread is not None:
            return solution.spread
        with np.errstate(**OVERFLOW):
            covariance = statistics.covariance(solution.ridge)
            squares = statistics.target_squares
            residual = squares - statistics.explained_squares(solution.output_weights)
        noise, free = np.full(len(residual), np.inf), statistics.weight - covariance.n_parameters
        if statistics.weight and free > FEWEST_FREE * statistics.weight:
            noise = np.maximum(residual, ROUNDING * np.abs(squares)) / free
        self._solution = solution._replace(spread=(noise, covariance))
        return noise, covariance

    def _variances(self, batch: Batch, own: float) -> Floats:
        """Return the variance of every row's predictions, (n, n_targets).

        `own` is that of a fresh target about its prediction, in units of the noise: 1, or 0 for
        that of the prediction alone. Unknown features are at the ridge.
        """
        wider = self._columns.extended(batch.layouts).place(batch.layouts, batch.values)
        known, unknown = np.split(wider, [len(self._columns)], axis=1)
        (noise, covariance), ridge = self._spread(), self._solved().ridge
        with np.errstate(**OVERFLOW):
            leverages = covariance.leverages(known)
            if ridge > 0.0:
                leverages = leverages + (unknown**2).sum(axis=1) / ridge
            variances = np.outer(own + leverages, noise)
        # Beyond float64, or nothing is known of the noise.
        variances[np.isnan(variances)] = np.inf
        return variances

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return the score of every output and what the ten strongest features add to it."""
        with self._lock:
            row = read_sample(x)
            activations = self._columns.place(row.layouts, row.values)[0]
            weights, intercept = self.output_weights, self.intercept
            parts, scores = activations[:, None] * weights, activations @ weights + intercept
            lines = []
            for column, output in enumerate(self._outputs):
                lines.append(
                    f"{output}: score {scores[column]:.5f}, intercept {intercept[column]:.5f}"
                )
                strongest = np.argsort(-np.abs(parts[:, column]), kind="stable")[:STRONGEST]
                lines += [
                    f"    {self.feature_names[feature]}: {activations[feature]:.5f} * "
                    f"{weights[feature, column]:.5f} = {parts[feature, column]:.5f}"
                    for feature in strongest
                ]
            return "\n".join(lines)
