"""The linear model: columns, statistics and the ridge in force; weights on demand."""

from __future__ import annotations

import copy
import numbers
import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from sys import maxsize
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from river import base

from onlinels.accumulators.folds import FoldedStatistics
from onlinels.accumulators.gram import GramSums
from onlinels.accumulators.grouped import ClasswiseStatistics
from onlinels.accumulators.mean import JITTER
from onlinels.accumulators.orthogonal import FactorSums
from onlinels.accumulators.recursive import GramBeforeRidge
from onlinels.accumulators.sparse import sums_of_sparse, takes_sparse
from onlinels.accumulators.statistics import Covariance, Statistics
from onlinels.accumulators.sums import Rows, SumsOfProducts
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
    checked_assignment,
    levels_to_caller,
    read_only,
    row_blocks,
    uncast,
)
from onlinels.linalg.recursion import Recursion
from onlinels.linalg.selection import KFold, Ridge, check_ridge
from onlinels.linalg.solve import are_few
from onlinels.linear.forgetting import Clock, HalfLife, check_decay
from onlinels.linear.penalty import (
    FIRST_ROWS,
    AnyStatistics,
    Events,
    Penalty,
    check_folds,
    check_scaling,
    choose,
    events_of,
    is_selected,
    own_units,
    penalties_of,
    ridge_of,
)
from onlinels.numerics import (
    Calls,
    Lock,
    State,
    Update,
    all_held,
    apply,
    apply_in_blocks,
    becoming,
    product,
    shallow_copy,
    zero_added,
)
from onlinels.rows import (
    Batch,
    Columns,
    Layout,
    Name,
    RowReader,
    check_aligned,
    check_mapping,
    read_batch,
    read_row,
    read_sample,
    reader_of,
)
from onlinels.saving import (
    ANYTHING,
    MATRIX,
    NOTHING,
    POSITIVE,
    REAL,
    TEXT,
    VECTOR,
    WHOLE,
    locked_copy,
    made_of,
    maybe,
    savable,
    save_method,
    settings_hold,
)

SUMS: dict[str, Callable[[], SumsOfProducts]] = {
    "gram": GramSums,
    "orthogonal": FactorSums,
    "recursive": GramBeforeRidge,
}
"""The sums of products that the setting `accumulator` names."""

ANEW, FEATURES_ANEW = 1024, 16
"""A solution that goes on is made anew at multiples of 1,024 rows, or 16 times the features'.

Learning never makes errors of an inverse larger, relative to the sums: they only add up.
"""

UNASKED = 4, 16
"""A solution goes on row by row while it is asked for within 4 rows, or the features / 16."""

STRONGEST = 10
"""Features that `debug_one` shows for each output."""

ROUNDING = float(np.finfo(np.float64).eps)
"""Residual sum of squares, relative to the targets', that cannot be told from 0."""

MOST_WARNED = 64
"""Number of sets of absent columns that a model remembers having warned about."""

FEWEST_FREE = 1e-9
"""Degrees of freedom left, relative to the weight of the rows, that cannot be told from 0."""

OVERFLOW: Any = {"over": "ignore", "invalid": "ignore"}
"""How numpy errs in variances: those beyond float64, as of features at 1e-160, are infinite."""


@savable(
    {
        "ridge": REAL,
        "units": maybe(VECTOR),
        "output_weights": MATRIX,
        "intercept": VECTOR,
        "spread": NOTHING,
    },
)
class Solution(NamedTuple):
    """Output weights and intercept as the statistics give them, and the ridge in force."""

    ridge: float
    # Of features, where the ridge acts on them in these units; 0 of those that are constant.
    units: Floats | None
    output_weights: Floats
    intercept: Floats
    # What predictive variances need: the noise of every target, and the covariance.
    spread: tuple[Floats, Covariance] | None = None


class Targets(NamedTuple):
    """Targets of rows that are read.

    Attributes
    ----------
    values : ndarray (n,) of int, or (n, n_targets)
        The column of every row's label, or its targets.
    outputs : Classes, or tuple of names
        Names of the outputs, those of the rows included.
    """

    values: Matrix
    outputs: Any


class Checked(NamedTuple):
    """Rows of a batch that can be learnt: read, placed and checked.

    Attributes
    ----------
    values : array or csr_array (n, n_features)
        In the model's columns, new ones included.
    targets : ndarray (n,) of int, or (n, n_targets) of float
    w : float or ndarray (n,)
        Weights when the rows are learnt.
    times : ndarray (n,), or None
    news : dict
        New attributes of the model: its columns, and the names of its targets.
    n_targets : int
        Targets of the model after these rows.
    """

    values: Any
    targets: Matrix
    w: float | Floats
    times: Floats | None
    news: dict[str, Any]
    n_targets: int

    def part(self, rows: slice) -> Checked:
        """Return some of the rows."""
        return self._replace(
            values=self.values[rows],
            targets=self.targets[rows],
            w=self.w if isinstance(self.w, float) else self.w[rows],
            times=None if self.times is None else self.times[rows],
        )


def _plan_row(
    statistics: AnyStatistics,
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


def _with_units(
    penalty: Penalty,
    events: Events,
    block: slice,
    rows: Rows,
    decay: float,
    statistics: AnyStatistics,
    recursion: Recursion | None,
) -> tuple[Penalty, AnyStatistics, Recursion | None]:
    """Return them with the units that features which begin to vary in some rows have right then."""
    if penalty.units is None:
        return penalty, statistics, recursion
    weights = rows.weights()
    totals = decay * statistics.weight + np.cumsum(weights)
    shares = np.divide(weights, totals, out=np.zeros(len(weights)), where=totals > 0.0)
    begins, own = own_units(events, block, rows.values, shares, statistics.is_centred)
    if not begins.size:
        return penalty, statistics, recursion
    units = penalty.units.copy()
    units[begins] = own
    recursion = recursion and recursion.with_penalties(begins, recursion.ridge * own**2)
    if isinstance(statistics, Statistics):
        statistics = statistics.with_units(begins, own)
    return penalty._replace(units=units), statistics, recursion


def holding(statistics: AnyStatistics, ridge: Any, penalty: Penalty) -> AnyStatistics:
    """Return statistics that hold the ridge of a penalty inside, unless that costs digits."""
    units = penalty.units
    number = ridge_of(ridge, statistics, penalty, units)
    if not number > 0.0:
        return statistics
    # With units given it is c from here on, also where the same one is chosen again.
    varying = np.ones(statistics.n_features) if units is None else units
    assert isinstance(statistics, Statistics)  # Groups hold no ridge.
    try:
        return statistics.with_ridge(number, np.where(varying > 0.0, varying, 1.0))
    except ValueError:
        # Rows that were taken out leave too little for this ridge. The weights stay exact at the
        # ridge inside, or are solved from the Gram.
        return statistics


def make_statistics(
    ridge: Any, accumulator: Any, fit_intercept: Any, balance: Any
) -> AnyStatistics:
    """Return empty statistics of the kind that settings ask for; raise if they do not fit."""
    check_ridge(ridge)
    check_choice("accumulator", accumulator, SUMS)
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
    statistics = Statistics(SUMS[accumulator](), bool(fit_intercept))
    if classwise:
        return ClasswiseStatistics(statistics)
    return FoldedStatistics(statistics, ridge.n_folds) if folds else statistics


def setting(name: str) -> Any:
    """Return the property of a setting that stays as a model was made with it."""
    doc = f"The setting `{name}`, as the model was made with it."
    return property(attrgetter(f"_{name}"), doc=doc)


LINEAR = {
    "_ridge": ANYTHING,
    "_accumulator": TEXT,
    "_fit_intercept": ANYTHING,
    "_forgetting_factor": ANYTHING,
    "_half_life": ANYTHING,
    "_columns": made_of(Columns),
    "_clock": made_of(Clock),
    "_statistics": made_of(Statistics, ClasswiseStatistics, FoldedStatistics),
    "_scaling": ANYTHING,
    "_penalty": made_of(Penalty),
    "_solution": maybe(made_of(Solution)),
    "_recursion": maybe(made_of(Recursion)),
    "_goes_on_until": WHOLE,
    "_asked_at": maybe(WHOLE),
    "_trust": POSITIVE,
    "_lock": made_of(Lock),
    "_reader": NOTHING,
    "_layout": NOTHING,
    "_plain_until": WHOLE,
    "_waiting": NOTHING,
}
"""Fields of every linear model in a file."""


def linear_is_sound(model: Any) -> bool:
    """Tell whether the parts of a model that came out of a file fit each other."""
    statistics, solution, recursion = model._statistics, model._solution, model._recursion
    shape = statistics.n_features, statistics.n_targets
    fits = shape == (len(model._columns), len(model._outputs))
    fits = fits and model._penalty.fits(shape[0])
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
    beside the sums. It is made anew at multiples of max(1,024, 16 n_features rounded up to a power
    of two) rows, and whenever something but single rows has changed.
    """

    accumulator, fit_intercept = setting("accumulator"), setting("fit_intercept")
    scaling = setting("scaling")
    forgetting_factor, half_life = setting("forgetting_factor"), setting("half_life")

    # Hashes of the sets of absent columns named by the latest warnings; not part of the state.
    _warned: tuple[int, ...] = ()

    def __init__(
        self,
        ridge: Ridge,
        accumulator: str,
        fit_intercept: bool,
        forgetting_factor: float,
        half_life: HalfLife,
        balance: str | None = None,
        scaling: str | None = None,
    ) -> None:
        self._statistics = make_statistics(ridge, accumulator, fit_intercept, balance)
        check_decay(forgetting_factor, half_life)
        check_scaling(scaling, ridge)
        self._ridge = ridge
        self._scaling = scaling
        self._accumulator = accumulator
        self._fit_intercept = fit_intercept
        self._forgetting_factor = forgetting_factor
        self._half_life = half_life
        self._columns = Columns()
        self._clock = Clock(forgetting_factor, half_life)
        self._penalty = Penalty()
        self._solution: Solution | None = None
        # The last solution that goes on row by row, the count of rows up to which it does, and that
        # when somebody asked last; None if anything but single rows has changed since.
        self._recursion: Recursion | None = None
        self._goes_on_until = 0
        self._asked_at: int | None = None
        # Below 1 rounding makes the recursion need refining whenever somebody asks.
        self._trust = 1.0
        self._reader: RowReader | None = None
        self._layout: Layout | None = None
        # Count of rows with which something is due, and features that have not varied so far with
        # their values: what the reader's rows are compared with.
        self._plain_until = 0
        self._waiting: tuple[Integers, Floats] | None = None
        self._lock = Lock()
        # Fixes a number inside, or says at once that it cannot be.
        self._settle()

    save = save_method
    __copy__ = locked_copy
    __setattr__ = checked_assignment

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            solution = self._solution
            if solution is not None:
                solution = solution._replace(spread=None)
            unsaved = dict.fromkeys(("_reader", "_layout", "_waiting"))
            state = vars(self) | unsaved | {"_plain_until": 0, "_solution": solution}
            state.pop("_warned", None)
            return state

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"ridge"}

    _names_outputs: ClassVar[str]
    """The attribute that names the outputs."""

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
            self.clone({"ridge": ridge})  # Raises what making such a model raises.
            with self._lock:
                check_folds(ridge, self._statistics)
                news = {"_ridge": ridge, "_penalty": Penalty()}
                is_number = isinstance(ridge, numbers.Real) and self._scaling != "standard"
                if is_number and isinstance(self._statistics, Statistics):
                    # Raises if it cannot be held beside rows that were taken out.
                    news["_statistics"] = self._statistics.with_ridge(float(ridge))
                apply(Update(state=self._anew(**news)))

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
            return self._in_force()[0]

    @property
    def ridge_diagonal(self) -> Floats:
        """The ridge in force on each feature, (n_features,), read-only."""
        with self._lock:
            ridge, units = self._in_force()
            with np.errstate(over="ignore"):  # Of features at 1e150.
                own = None if units is None else ridge * units**2
            return read_only(self._statistics.total.ridge_diagonal(ridge) if own is None else own)

    # The ridge.

    @property
    def _is_chosen(self) -> bool:
        """Whether the ridge, or what it acts on, is chosen at checkpoints."""
        if is_selected(self._ridge):
            return True
        is_number = isinstance(self._ridge, numbers.Real) and self._scaling != "standard"
        return self._statistics.holds_ridge and not is_number

    @property
    def _is_balanced(self) -> bool:
        """Whether every row changes what all others weigh."""
        return isinstance(self._statistics, ClasswiseStatistics)

    @property
    def _own_scaling(self) -> Any:
        """The scaling that a setting means beside the ridge's."""
        return self._scaling if is_selected(self._ridge) or self._scaling != "auto" else None

    @property
    def _follows_rows(self) -> bool:
        """Whether answers between rows need no new solution: the last one goes on with each row."""
        if self._accumulator != "gram":
            return self._accumulator == "recursive"
        ridge: Any = self._ridge
        stays = is_selected(ridge) or (isinstance(ridge, numbers.Real) and float(ridge) > 0.0)
        stays = stays and self._own_scaling != "standard"
        return stays and not (self._clock.forgets or self._is_balanced)

    def _in_force(self) -> tuple[float, Floats | None]:
        """Return the ridge in force and the units that it acts on, once they are settled.

        Units are those of a checkpoint where solutions go on from row to row; an explicit
        "standard", and balanced statistics, follow every row. None: features as they are, or
        units inside the statistics.
        """
        self._settle()
        statistics, penalty = self._statistics, self._penalty
        if statistics.fixed_ridge is not None:
            return statistics.fixed_ridge, None
        units = penalty.units if is_selected(self._ridge) else None
        if self._own_scaling == "standard" or (units is not None and self._is_balanced):
            units = statistics.total.deviations
        return ridge_of(self._ridge, statistics, penalty, units), units

    def _hold_choices(self) -> None:
        """Choose nothing, however many rows come, until something is merged."""
        self._penalty = Penalty(is_due=False, until=maxsize)

    def _choose_anew(self) -> None:
        """Choose everything from the statistics as they are, when somebody asks next."""
        with self._lock:
            self._put_in_place(self._statistics)

    @property
    def _is_settled(self) -> bool:
        """Whether nothing is due from the statistics as they are."""
        return not self._penalty.is_due

    def _settle(self) -> None:
        """Choose what is due from the statistics as they are, and hold it inside where it is."""
        if self._is_settled:
            return
        statistics, penalty = self._statistics, self._penalty
        ridge: Any = self._ridge
        if not self._is_chosen:
            if isinstance(statistics, Statistics) and statistics.holds_ridge:
                statistics = statistics.with_ridge(float(ridge))
            penalty = penalty._replace(is_due=False)
            apply(Update(state=((self, "_statistics", statistics), (self, "_penalty", penalty))))
            return
        penalty = choose(penalty, ridge, self._own_scaling, statistics, self._clock)
        is_fixed = statistics.fixed_ridge is not None
        says = penalty.ridge is not None or not is_selected(ridge)
        if statistics.holds_ridge and says and (is_fixed or statistics.count >= FIRST_ROWS):
            statistics = holding(statistics, ridge, penalty)
        apply(Update(state=((self, "_statistics", statistics), (self, "_penalty", penalty))))

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
        X : array or sparse matrix (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows labels, or of n_rows numbers for a regressor
            If the model has several targets: an array (n_rows, n_targets), frame or list of dicts.
        w : float, or array, series or list of n_rows floats, optional
            Weights, at least 0; 1 by default.
        t : number or datetime, or array, series or list of n_rows of them, optional
            Times of the rows, for models with a `half_life`; by default one unit passes per row.
            Not used without a `half_life`. Datetimes without a time zone count as UTC.

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
        self._learn_checked(self._checked(batch, read, w, t))

    def _checked(self, batch: Batch, read: Targets, w: float | Floats, t: Any) -> Checked:
        """Return rows whose targets are checked, all else checked, too."""
        targets, outputs = read
        columns, n_targets = self._columns.extended(batch.layouts), len(outputs)
        self._statistics.check_room(len(columns), n_targets)
        values = columns.place(batch.layouts, batch.matrix)
        check_mass(values, w, lambda: columns.names)
        if targets.ndim == 2:
            check_mass(targets, w, lambda: outputs)
        times = self._clock.read(t, len(batch))
        news = {self._names_outputs: outputs, "_columns": columns}
        return Checked(values, targets, w, times, news, n_targets)

    def _learn_checked(self, given: Checked) -> None:
        """Learn rows, all or nothing."""
        values, targets, w, times, named, n_targets = given
        n_rows, n_features = len(targets), len(named["_columns"])
        self._settle()
        events = self._events_of(values, w, times)
        if events is None and takes_sparse(self._statistics, values):
            self._learn_sparse(values, targets, w, times, dict(named))
            return
        lacking: list[MemoryError] = []

        def plan(model: Self, block: slice) -> tuple[Calls, State]:
            """Plan to learn a block of the rows."""
            try:
                model._settle()
            except MemoryError as error:
                # A choice takes more memory than learning does. If it fails twice it stays due, the
                # other blocks are learnt, and the error is raised after them.
                if not lacking:
                    lacking.append(error)
                    raise
            part_w = w if isinstance(w, float) else w[block]
            part_times = None if times is None else times[block]
            size = block.stop - block.start
            clock, past, weights = model._clock.tick(part_w, size, part_times)
            weights = float(np.max(weights)) if size == 1 else weights
            rows = Rows(uncast(values[block]), targets[block], weights)
            news = named | {"_clock": clock}
            return model._plan_rows(rows, past, n_targets, news, block, events)

        holds, fixed_ridge = self._statistics.holds_ridge, self._statistics.fixed_ridge
        if not holds or (n_rows == 1 and fixed_ridge is not None):
            apply_in_blocks(self._blocks(n_rows, n_features, events), partial(plan, self))
            return
        # Rows may be refused by the ridge inside, or choose it: a copy learns them.
        aside = shallow_copy(self)
        aside._statistics = self._statistics.copied()
        for block in aside._blocks(n_rows, n_features, events):
            apply(plan(aside, block))
        apply(Update(state=becoming(self, aside)))

    def _events_of(self, values: Any, w: float | Floats, times: Floats | None) -> Events | None:
        """Return what comes in a batch, if anything is chosen at checkpoints."""
        if not self._is_chosen:
            return None
        n_rows = values.shape[0]
        latest, weights = self._clock.latest(n_rows, times), np.broadcast_to(w, n_rows)
        parts = self._penalty, self._statistics, values, weights, self._clock, latest
        return events_of(*parts)

    def _learn_sparse(
        self, values: Any, targets: Matrix, w: float | Floats, times: Any, news: dict[str, Any]
    ) -> None:
        """Learn sparse rows by sparse products: new statistics take the place of the old ones."""
        n_rows, size = values.shape[0], (values.shape[1], len(next(iter(news.values()))))
        clock, past, weights = self._clock.tick(w, n_rows, times)
        weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), n_rows)
        statistics = self._statistics.scaled(past).grown(*size).named(news["_columns"].names)
        assert isinstance(statistics, Statistics)
        learnt = sums_of_sparse(values, targets, weights, size[1], statistics.is_centred)
        statistics.check_joins(learnt, *size)
        statistics.absorb(learnt, 1.0)
        news |= {"_clock": clock, "_statistics": statistics}
        apply(Update(state=self._anew(**news, **self._counts(targets, size[1]))))

    def _blocks(self, n_rows: int, n_features: int, events: Events | None) -> Iterator[slice]:
        """Cut rows at checkpoints, and into blocks of some MiB."""
        if self._statistics.holds_ridge and self._clock.forgets:
            # A ridge that fades with the rows and is restored: no cutting of them may change it.
            yield from (slice(row, row + 1) for row in range(n_rows))
            return
        start = 0
        checkpoints = set() if events is None else {events.due_at}
        for stop in sorted({n_rows, *checkpoints}):
            for block in row_blocks(stop - start, n_features, LEAST_ROWS):
                yield slice(start + block.start, start + block.stop)
            start = stop

    def _plan_rows(
        self,
        rows: Rows,
        decay: float,
        n_targets: int,
        news: dict[str, Any],
        block: slice,
        events: Events | None,
    ) -> tuple[Calls, State]:
        """Plan to learn rows, a block of a batch, with room for columns and targets not yet met."""
        size, n_rows = (rows.values.shape[1], n_targets), len(rows.targets)
        statistics = self._statistics.grown(*size).named(news["_columns"].names)
        penalty, recursion = self._penalty, None
        if n_rows == 1 and self._follows(1):
            recursion = self._recursion and self._recursion.grown(*size)
        if events is not None:
            known = np.arange(self._statistics.n_features)
            penalty = events.after(penalty.placed(known, size[0]), block.stop)
            if penalty.is_due:
                recursion = None
            penalty, statistics, recursion = _with_units(
                penalty, events, block, rows, decay, statistics, recursion
            )
        if n_rows > 1:
            calls, changes = statistics.plan(rows, decay)
        else:
            row = *rows.sample(n_targets), decay
            calls, changes, recursion = _plan_row(statistics, *row, recursion)
        news |= {"_statistics": statistics, "_penalty": penalty, "_recursion": recursion}
        news |= {"_asked_at": self._asked_at if n_rows == 1 else None}
        state = self._anew(**news, **self._counts(rows.targets, n_targets))
        return calls, (*changes, *state)

    def _counts(self, targets: Matrix, n_targets: int) -> dict[str, Any]:
        """Return the new attributes that count rows by their targets."""
        return {}

    def _anew(self, **attributes: Any) -> State:
        """Return new attributes of a model; what follows single rows begins again, if not given."""
        begun: dict[str, Any] = dict.fromkeys(("_solution", "_recursion", "_asked_at"))
        begun["_plain_until"] = 0
        columns = attributes.get("_columns", self._columns)
        n_targets = attributes.get("_statistics", self._statistics).n_targets
        if (columns, n_targets) != (self._columns, self._statistics.n_targets):
            begun["_reader"] = None
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
            that shows, or the recursive form would keep fewer than six digits of the weights;
            nothing has changed then. The orthogonal form cannot unlearn.

        Notes
        -----
        Costs what learning costs, and a copy of the statistics. Digits are lost in proportion to
        how much is taken out beside what stays: rows that weighed 1e8 times as much as the rest
        leave 8 digits less. The recursive form loses up to twice as many, and raises where fewer
        than six would be left; the Gram form does not check.

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
        self._put_in_place(self._without(batch, read.values, w))

    def _without(self, batch: Batch, targets: Matrix, w: float | Floats) -> AnyStatistics:
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
        rows = Rows(uncast(known), targets, w)
        return self._statistics.without(rows, (self.feature_names, self._outputs))

    def _put_in_place(self, statistics: AnyStatistics, **attributes: Any) -> None:
        """Replace the statistics and what goes with them, all at once; a ridge is due."""
        news = {"_statistics": statistics, "_penalty": Penalty()}
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
            size = len(columns), len(outputs[self._names_outputs])
            self._statistics.check_joins(other._statistics, *size)
            mine, theirs = self._statistics, other._statistics
            clock, past, other_past = self._clock.joined(other._clock)
            theirs = theirs.placed(columns.locate(other.feature_names), places, *size)
            theirs = theirs if other_past == 1.0 else theirs.scaled(other_past)
            mine = mine if past == 1.0 else mine.scaled(past)
            if other._is_blank:
                statistics = mine.copied().grown(*size)
                known = np.arange(self._statistics.n_features)
                outputs["_penalty"] = self._penalty.placed(known, size[0])
            elif self._is_blank:
                # Nothing was learnt here: what the other model has selected stays, too.
                known = columns.locate(other.feature_names)
                statistics, outputs["_penalty"] = theirs, other._penalty.placed(known, size[0])
            else:
                statistics = mine.merged(theirs)
            outputs |= {"_columns": columns, "_clock": clock}
            self._put_in_place(statistics.named(columns.names), **outputs)
        return self

    @abstractmethod
    def _matched(self, other: Self) -> tuple[Integers, dict[str, Any]]:
        """Return the columns of another model's targets here, and the attributes that name all."""

    def __add__(self, other: Self) -> Self:
        """Return a new model that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added

    @property
    def _is_blank(self) -> bool:
        # Rows that were taken out in part do not count any more, but still weigh something.
        return not (self.count or self._statistics.weight)

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
                statistics = self._statistics.scaled(float(keep))
                if isinstance(statistics, Statistics):
                    statistics = statistics.restored()
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
        count, decay, waiting = statistics.count, self._clock.forgetting_factor, self._waiting
        # Before a checkpoint.
        sample = reader.read(x, targets) if count + 1 < self._plain_until else None
        if sample is None:
            return False
        if waiting is not None and (sample[waiting[0]] != waiting[1]).any():
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
            return
        if self._reader is None:
            self._reader = reader_of(self._columns, layout, self._statistics.n_targets)
        self._wait_for_changes()

    def _wait_for_changes(self) -> None:
        """Take note of the count of rows with which something is due, and of constant features."""
        penalty, self._waiting = self._penalty, None
        self._plain_until = maxsize if self._is_settled else 0
        if not (self._is_settled and self._is_chosen):
            return
        assert penalty.values is not None
        self._plain_until = penalty.until
        waiting = np.flatnonzero(~np.isnan(penalty.values))
        if waiting.size:
            self._waiting = waiting, penalty.values[waiting]

    # Weights and answers.

    def _solved(self) -> Solution:
        """Return the solution as it is now; the one that went on row by row, if it does."""
        solution = self._solution
        if solution is None:
            ridge, units = self._in_force()
            following, total = self._following(), self._statistics.total
            if following is not None:
                weights = following.weights.copy(order="F")
            else:
                penalties, diagonal = penalties_of(ridge, units, total)
                weights = total.solve(penalties, diagonal)
                self._go_on_from(weights, ridge, penalties)
            self._asked_at = self.count
            solution = Solution(ridge, units, weights, total.intercept(weights))
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
            if self._trust < 1.0 and not self._refined(recursion):
                return None
            # With every prediction: `__setattr__` here is Python, and takes longer.
            vars(self)["_asked_at"] = count
        return recursion

    def _refined(self, recursion: Recursion) -> bool:
        """Refine a solution that goes on by the sums; give it up where rounding has overgrown it.

        It is trusted less as features become more collinear, and no more than at its beginning.
        """
        trust = min(self._trust, self._statistics.total.refine(recursion))
        # With every prediction: `__setattr__` here is Python, and takes longer.
        vars(self).update(_trust=trust or 1.0, _recursion=recursion if trust else None)
        return trust > 0.0

    def _go_on_from(self, weights: Floats, ridge: float, penalties: float | Floats) -> None:
        """Let a solution go on row by row, if statistics are sums that are far from singular."""
        statistics = self._statistics
        if self._is_balanced or are_few(statistics.count, statistics.n_features):
            return  # Every row changes what others weigh; or solved as fast as it could go on.
        if self._recursion is None:
            # The paper's ridge is another one after every row, and so are units of "standard".
            selected = is_selected(self._ridge) and self._penalty.ridge is not None
            stays = (selected or isinstance(self._ridge, numbers.Real)) and ridge > 0.0
            stays = stays and self._own_scaling != "standard"
            if not (stays and self._follows(0)) or self._clock.forgets:
                return
        going_on = None
        with suppress(MemoryError):  # Without room for it the next solution takes longer.
            full = np.array(np.broadcast_to(penalties, statistics.n_features))
            going_on = statistics.total.recursion_of(weights, ridge, full)
        self._recursion, self._trust = (None, 1.0) if going_on is None else going_on
        step = max(ANEW, FEATURES_ANEW << max(0, self._statistics.n_features - 1).bit_length())
        self._goes_on_until = (self.count // step + 1) * step

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return raw outputs (n_targets,) for one sample."""
        reader, statistics, layout = self._reader, self._statistics, None
        sample = None if reader is None else reader.read(x)
        if sample is None:
            if self._is_blank:
                # What transformers give before their first row may be no numbers.
                check_mapping(x)
                return np.zeros(statistics.n_targets)
            layout, values = read_row(x)
            row = self._columns.place((layout,), values[None])[0]
            sample = np.append(row, np.zeros(statistics.n_targets))
        is_plain = self._plain_until > statistics.count
        if not is_plain and statistics.recursion is not None:
            # The setting may have changed, or a ridge may be due.
            self._in_force()
            statistics = self._statistics
        recursion = statistics.recursion or self._following()
        if recursion is None:
            solution = self._solved()
            # One that goes on from now answers the first time as it does the second.
            recursion = self._following()
        if layout is not None:
            self._remember_names(layout)
        elif not is_plain:
            self._wait_for_changes()
        if recursion is not None:
            return self._corrected(statistics.scores_by(recursion, sample))
        known: Floats = sample[: statistics.n_features] @ solution.output_weights
        known += solution.intercept
        return self._corrected(known)

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        """Return what was read, for an answer in kind, and its raw outputs (n, n_targets)."""
        batch = self._read_asked(X)
        return batch.source, self._scores_of(batch)

    def _read_asked(self, X: Any) -> Batch:
        """Read rows to be answered; warn once of every set of columns that a frame lacks."""
        batch = read_batch(X)
        absent, unknown = self._columns.differences(batch)
        key = hash(frozenset(absent))
        if absent and key not in self._warned:
            others = f" (X has {reprlib.repr(unknown)} besides)" if unknown else ""
            warnings.warn(
                f"X lacks {len(absent)} of the {len(self._columns)} columns that the model has "
                f"learnt: {reprlib.repr(absent)}. They count as 0. Check the spelling{others}; "
                "where 0 is meant, add columns of 0, or pass a list of dicts.",
                UserWarning,
                stacklevel=levels_to_caller(),
            )
            # Afterwards: a warning that raises comes again.
            self._warned = (*self._warned[1 - MOST_WARNED :], key)
        return batch

    def _scores_of(self, batch: Batch) -> Floats:
        """Return the raw outputs (n, n_targets) of rows that are read."""
        activations = self._columns.place(batch.layouts, batch.matrix)
        solution = self._solved()
        scores: Floats = product(activations, solution.output_weights)
        scores += solution.intercept
        return self._corrected(scores)

    @abstractmethod
    def _target_of(self, read: Targets, row: int) -> Any:
        """Return the target of a row as `learn_one` takes it."""

    def _independent(self) -> Self:
        """Return a copy that learns on its own; both share what is replaced as a whole."""
        new = shallow_copy(self)
        vars(new)["_statistics"] = self._statistics.copied()
        vars(new)["_recursion"] = self._recursion and self._recursion.copied()
        return new

    def _correct_before(self, scores: Floats, rows: Rows) -> None:
        """Correct scores of rows before each is learnt, in place, as `_corrected` does."""
        return

    def _corrected(self, per_target: Floats) -> Floats:
        """Return weights, constants or scores, targets last, as answers are made of them."""
        return per_target

    def _spread(self) -> tuple[Floats, Covariance]:
        """Return noise variances (n_targets,) and covariance as they are now, as a solution keeps.

        They take about ``M^3`` operations, then ``M^2`` a prediction, and the memory of a Gram.
        """
        solution, statistics = self._solved(), self._statistics.total
        if solution.spread is not None:
            return solution.spread
        with np.errstate(**OVERFLOW):
            covariance = statistics.covariance(
                *penalties_of(solution.ridge, solution.units, statistics)
            )
            noise = noise_variances(statistics, solution.output_weights, covariance)
        self._solution = solution._replace(spread=(noise, covariance))
        return noise, covariance

    def _variances(self, batch: Batch, own: float) -> Floats:
        """Return the variance of every row's predictions, (n, n_targets).

        `own` is that of a fresh target about its prediction, in units of the noise: 1, or 0 for
        that of the prediction alone. Unknown features are at the ridge.
        """
        wider = self._columns.extended(batch.layouts).place(batch.layouts, batch.values)
        known, unknown = np.split(wider, [len(self._columns)], axis=1)
        (noise, covariance), (ridge, units, *_) = self._spread(), self._solved()
        mean, inside = self._statistics.total.feature_mean, self._statistics.fixed_ridge is not None
        if inside:
            units = self._penalty.units
        with np.errstate(**OVERFLOW):
            if units is not None:
                apart = (np.abs(known - mean) > JITTER * np.abs(mean)) & (units == 0.0)
                known = np.where(units > 0.0, known, mean)
                # Of the size that they would have if this row had been learnt.
                weight = self._statistics.weight or 1.0
                unknown = np.hstack((apart, unknown != 0.0)) * (weight + 1.0) / weight**0.5
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


def noise_variances(
    statistics: Statistics, output_weights: Floats, covariance: Covariance
) -> Floats:
    """Return RSS / (n - p) of every target, (n_targets,); infinite as long as n is not above p."""
    with np.errstate(**OVERFLOW):
        squares = statistics.target_squares
        residual = squares - statistics.explained_squares(output_weights)
    free = statistics.weight - covariance.n_parameters
    if not (statistics.weight and free > FEWEST_FREE * statistics.weight):
        return np.full(len(residual), np.inf)
    noise: Floats = np.maximum(residual, ROUNDING * np.abs(squares)) / free
    return noise
