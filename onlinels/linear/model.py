"""The linear model: columns, statistics and a ridge; weights are computed on demand."""

from __future__ import annotations

import copy
import numbers
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from river import base

from onlinels.checks import (
    FEATURE_COUNT_REMEDY,
    MAX_COUNT,
    MIN_BLOCK_ROWS,
    MIN_SUM_OF_SQUARES,
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
    ignoring,
    read_only,
    row_blocks,
    uncast,
    warn_caller,
)
from onlinels.core import SingleRows
from onlinels.core.constants import (
    BEGAN,
    CONSTANT_TOLERANCE,
    DUE_WEIGHT,
    EPS,
    MIN_FREE,
    N_MARKS,
    NEXT_DUE,
    PREDICTED_AT,
    SHARE,
    VALID_UNTIL,
)
from onlinels.core.reference import weights_of_errors
from onlinels.linear.forgetting import Clock, read_decay
from onlinels.linear.ridge import (
    Changes,
    KFold,
    Penalty,
    check_folds,
    check_ridge,
    check_scaling,
    choose_penalty,
    events_in,
    is_selected,
    penalties_of,
    penalty_after,
    ridge_of,
    set_checkpoints,
)
from onlinels.linear.running import (
    MIN_SHARE,
    are_marks,
    begin_after_solving,
    decayed,
    is_answering,
    new_marks,
)
from onlinels.linear.scoring import Discriminant, read_priors
from onlinels.locks import Lock, all_held
from onlinels.numerics import (
    Calls,
    apply_in_blocks,
    enlarged,
    product,
    read_whole,
    restore,
    shallow_copy,
    zero_added,
)
from onlinels.rows.batch import (
    Batch,
    Columns,
    Layout,
    Name,
    Outputs,
    check_mapping,
    layout_of,
    matched_by_position,
    names_of,
    read_batch,
    read_row,
    read_sample,
    warn_of_other_columns,
)
from onlinels.rows.times import from_seconds
from onlinels.saving import locked_copy, locked_deepcopy, locked_state, savable, save_method
from onlinels.sums.digits import are_negligible, lost_by_removals
from onlinels.sums.folds import FoldedStatistics
from onlinels.sums.forms import FactorSums, GramSums
from onlinels.sums.packed import gathered, origins
from onlinels.sums.recursion import Following, Recursion
from onlinels.sums.removals import MAX_LOST
from onlinels.sums.rows import Checked, Rows, Targets
from onlinels.sums.solve import Covariance
from onlinels.sums.statistics import LEARN_AGAIN, RowSums, Statistics, sums_of_sparse, takes_sparse

SUMS_BY_ACCUMULATOR: dict[str, Any] = {
    "gram": GramSums,
    "orthogonal": FactorSums,
    "recursive": GramSums,
}
"""The class of sums for every value of the setting `accumulator`."""

N_FORMER_MARKS = 8
"""Number of marks in files and pickles in which the weight of all rows makes no ridge due."""

MANY_NAMES = 1024
"""Number of features at which a model warns if names are still added."""

MANY_DEVIATIONS = 1e4
"""Distance from the mean, in standard deviations, from which a model warns of a row.

The row must also exceed all other features: one that has hardly varied may well begin to.
"""

MAX_FEATURES_BY_ROW = 128
"""Number of features up to which the core learns the rows of a batch, not BLAS."""

MAX_NUMBERS_BY_ROW = 1 << 22
"""Number of values of a batch up to which the core learns its rows, in about 0.1 s."""

N_SHOWN_FEATURES = 10
"""Number of features that `debug_one` shows for each output."""

LEAST_LATER_RIDGE = 1e-4
"""Ridge, relative to the largest sum of squares, that may be selected after a removal.

A warning tells if a smaller ridge is selected, and the digits that are left are too few for it.
"""

MAX_UNTOLD, MAX_UNTOLD_GROWTH = 1e-9, 1.1
"""Largest error of the fit that removals may cause without a warning, and largest growth of the
bounds of rounding errors by one removal.
"""

MAX_INTERCEPT_ERROR = 1e-10
"""Rounding error of the intercept, relative to the deviation of the targets, that is left alone."""

MIN_NOISE_SHARE = EPS
"""Residual sum of squares, relative to that of the targets, below which rounding prevails."""


class Spread(NamedTuple):
    """Noise variances (n_targets,), the covariance of the weights, and degrees of freedom."""

    noise: Floats
    covariance: Covariance
    free: float


@savable()
class Solution(NamedTuple):
    """Output weights and intercept solved from the statistics, and the ridge in force."""

    # Number of rows learnt before: with another number, the solution is out of date.
    n_rows: int
    ridge: float
    # Units of the features if the ridge acts on scaled features; 0 for constant features.
    units: Floats | None
    output_weights: Floats
    intercept: Floats
    # For predictive variances.
    spread: Spread | None = None
    # For classifiers with priors: the map from least-squares scores to discriminant scores.
    rule: Discriminant | None = None
    # Whether features are so far from 0 that x'W and the intercept would lose digits to each other.
    is_far: bool = False


@savable()
class Settings(NamedTuple):
    """The settings of a model."""

    ridge: Any
    accumulator: Any
    fit_intercept: Any
    forgetting_factor: Any
    half_life: Any
    priors: Any
    scaling: Any

    @property
    def own_scaling(self) -> Any:
        """The scaling in force: "auto" means None unless the ridge is selected."""
        return self.scaling if is_selected(self.ridge) or self.scaling != "auto" else None

    @property
    def is_recursive(self) -> bool:
        """Whether the ridge decays with the rows, so that a solution can follow them."""
        return bool(self.accumulator == "recursive")

    @property
    def follows_rows(self) -> bool:
        """Whether the last solution can be updated row by row instead of solving again."""
        is_number = isinstance(self.ridge, numbers.Real) and float(self.ridge) > 0.0
        forgets = self.forgetting_factor != 1.0 or self.half_life is not None
        changes = (forgets and not self.is_recursive) or self.own_scaling == "standard"
        stays = (is_selected(self.ridge) or is_number) and not changes
        return stays and bool(SUMS_BY_ACCUMULATOR[self.accumulator].allows_recursion)


def read_settings(settings: Settings) -> Settings:
    """Return settings as a model keeps them; raise if they are not valid together.

    Nothing is made of them.
    """
    ridge, accumulator, fit_intercept, *_ = settings
    check_ridge(ridge)
    check_choice("accumulator", accumulator, SUMS_BY_ACCUMULATOR)
    check_flag("fit_intercept", fit_intercept)
    if isinstance(ridge, KFold) and accumulator == "orthogonal":
        raise ValueError(
            f"ridge={ridge!r} and accumulator={accumulator!r} do not go together: a KFold needs "
            'sums of products. Pass accumulator="gram" or "recursive", or ridge="auto".'
        )
    half_life = read_decay(settings.forgetting_factor, settings.half_life)
    check_scaling(settings.scaling, ridge)
    return settings._replace(half_life=half_life, priors=read_priors(settings.priors))


def make_statistics(settings: Settings) -> Statistics:
    """Return empty statistics for valid settings."""
    parts = SUMS_BY_ACCUMULATOR[settings.accumulator](), bool(settings.fit_intercept)
    if isinstance(settings.ridge, KFold):
        return FoldedStatistics(*parts, settings.ridge.n_folds)
    return Statistics(*parts)


def setting(name: str) -> Any:
    """Return the property of a setting that cannot change."""
    doc = f"The setting `{name}`, which is fixed when the model is made."
    return property(attrgetter(f"_settings.{name}"), doc=doc)


def linear_is_sound(model: Any) -> bool:
    """Return whether the parts of a loaded model fit each other, and its settings.

    No new model is made: the settings of a small file can ask for any number of folds.
    """
    statistics, solution, recursion = model._statistics, model._solution, model._recursion
    settings, clock = model._settings, replace(model._clock, now=None, timed=False)
    check_folds(settings.ridge, statistics)
    shape = statistics.n_features, statistics.n_targets
    fits = shape == (len(model._columns), len(model._outputs))
    made = type(statistics.products), statistics.is_centred, type(statistics) is FoldedStatistics
    asked = SUMS_BY_ACCUMULATOR[settings.accumulator], settings.fit_intercept
    fits = fits and made == (*asked, isinstance(settings.ridge, KFold))
    fits = fits and read_settings(settings) == settings
    fits = fits and model._penalty.fits(shape[0]) and are_marks(model._marks)
    if solution is not None:
        shapes = solution.output_weights.shape, solution.intercept.shape
        fits = fits and shapes == (shape, shape[1:])
    if recursion is not None:
        fits = fits and recursion.weights.shape == shape
    return bool(fits and clock == Clock(settings.forgetting_factor, settings.half_life))


class LinearModel(base.Estimator, ABC):
    """A linear model with features by name and statistics of the rows.

    Weights are computed on demand, and the ridge enters then. A change of the statistics is planned
    as a whole and applied in one C loop. Rare changes make new objects, which replace the old ones.

    If predictions are made between single rows, a recursion beside the sums updates the last
    solution (`onlinels.linear.running`).
    """

    accumulator, fit_intercept = setting("accumulator"), setting("fit_intercept")
    scaling = setting("scaling")
    forgetting_factor, half_life = setting("forgetting_factor"), setting("half_life")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings = read_settings(settings)
        self._statistics = make_statistics(settings)
        self._columns = Columns()
        self._clock = Clock(settings.forgetting_factor, settings.half_life)
        self._penalty = Penalty()
        self._solution: Solution | None = None
        # What follows single rows: None unless predictions come between them. It replaces a
        # solution while the marks say so.
        self._recursion: Recursion | None = None
        self._marks = new_marks()
        # Reads, predicts and learns single rows: None until the next row after any other change.
        self._rows: SingleRows | None = None
        self._lock = Lock()
        # Sets the first checkpoint.
        self._choose_if_due()

    save = save_method
    __copy__, __deepcopy__, __getstate__ = locked_copy, locked_deepcopy, locked_state
    __setattr__ = checked_assignment

    def _own_state(self) -> dict[str, Any]:
        """Return the attributes that are copied, pickled and saved."""
        solution, marks = self._solution, self._marks.copy()
        if solution is not None:
            is_current = solution.n_rows == self.count
            solution = solution._replace(spread=None) if is_current else None
        marks[BEGAN:] = 0.0  # What `_single_rows` sets.
        state = vars(self) | {"_rows": None, "_solution": solution, "_marks": marks}
        state.pop("_warned_of", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore(self, state)
        if len(self._marks) == N_FORMER_MARKS:
            self._marks = np.append(self._marks, np.zeros(N_MARKS - N_FORMER_MARKS))
        until = from_seconds(self._penalty.until_time, self._clock.counts_dates)
        self._penalty = self._penalty._replace(until_time=until)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"ridge"}

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the model differ; see `read_whole`."""
        parts = self._statistics, self._columns, self._outputs, self._settings, self._marks
        return *parts, self.count

    _names_outputs: ClassVar[str]
    """The attribute that names the outputs."""

    @property
    @abstractmethod
    def _outputs(self) -> Sequence[Any]:
        """Names of the columns of `output_weights`."""

    @property
    def ridge(self) -> Any:
        """The ridge setting: a number, "auto", "paper" or a KFold."""
        return self._settings.ridge

    @ridge.setter
    def ridge(self, ridge: Any) -> None:
        if type(ridge) is not type(self.ridge) or ridge != self.ridge:
            self.clone({"ridge": ridge})  # Raises if no model can be made with this ridge.
            with self._lock:
                settings = self._settings._replace(ridge=ridge)
                check_folds(ridge, self._statistics)
                statistics = self._statistics
                if not isinstance(ridge, KFold):
                    statistics = statistics.without_folds()
                check_digits(self._draft(_settings=settings), statistics, f"ridge={ridge!r}")
                self._put_in_place(statistics, _settings=settings)

    @property
    def feature_names(self) -> tuple[Name, ...]:
        """Names of the features, in the order of the rows of `output_weights`."""
        return self._columns.names

    @property
    def count(self) -> int:
        """Number of rows learnt and not unlearnt, whatever their weights; exact up to 2^53."""
        return self._statistics.count

    @property
    def output_weights(self) -> Floats:
        """Output weights (n_features, n_targets), read-only: a column per class or target."""
        with self._lock:
            return read_only(self._weights()[0])

    @property
    def intercept(self) -> Floats:
        """Intercept of every output, (n_targets,), read-only; zeros without an intercept."""
        with self._lock:
            return read_only(self._weights()[1])

    @property
    def ridge_(self) -> float:
        """The ridge that was set or selected; forgetting may leave less: see `ridge_diagonal`."""
        with self._lock:
            return self._chosen()[0]

    @property
    def ridge_diagonal(self) -> Floats:
        """The ridge in force on each feature, (n_features,), read-only."""
        with self._lock:
            ridge, units = self._in_force()
            return read_only(diagonal_of(ridge, units, len(self._columns)))

    def statistics(self) -> RowSums:
        """Return the sums of products of the rows learnt, from which the weights are computed.

        Returns
        -------
        RowSums
            A named tuple of read-only arrays: `gram` (A'A), `cross` (A'Y), `sums`, `target_sums`,
            `target_squares`, `weight` (that of all rows), `origin` and `target_origin`. With
            an intercept, the origins are the means of features and targets, and the sums about
            them are 0. Without one, the origins are 0; `sums` and `target_sums` are not known then,
            and 0 too. Targets of classes are 0 or 1, and their origin is always 0: `target_sums`
            are the weights of the classes, and the columns of `cross` the sums of their rows.

        Notes
        -----
        `onlinels.from_sums.regressor_from_sums` takes these sums in this order.

        Examples
        --------
        >>> from onlinels import LeastSquaresRegressor, from_sums
        >>> model = LeastSquaresRegressor(ridge=1.0)
        >>> model.learn_many(np.array([[1.0], [3.0]]), [4.0, 8.0])
        >>> sums = model.statistics()
        >>> sums.gram, sums.cross, sums.origin, sums.weight
        (array([[2.]]), array([[4.]]), array([2.]), 2.0)
        >>> from_sums.regressor_from_sums(model, *sums).predict_one({0: 2.0})
        6.0
        """
        with self._lock:
            return self._statistics.row_sums()

    # The ridge.

    def _chosen(self) -> tuple[float, Floats | None]:
        """Choose the ridge if it is due; return the ridge c and the units that it acts on.

        The units are those of the last checkpoint, but an explicit "standard" follows every row.
        None: features as they are.
        """
        self._choose_if_due()
        statistics, penalty, settings = self._statistics, self._penalty, self._settings
        follows = settings.own_scaling == "standard"
        units = statistics.deviations if follows else penalty.units
        return ridge_of(settings.ridge, statistics, penalty, units), units

    def _in_force(self) -> tuple[float, Floats | None]:
        """Return the ridge in force, which may have decayed, and the units that it acts on."""
        ridge, units = self._chosen()
        return ridge * float(self._marks[SHARE]), units

    def _choose_if_due(self) -> None:
        """Choose a ridge and units that are due, or keep them."""
        if self.count < self._marks[NEXT_DUE]:
            return
        old, settings, marks = self._penalty, self._settings, self._marks
        # The core tells states apart by the number of rows, and leaves rows that float64 cannot
        # count to other code.
        penalty, due, until_weight = old, float(MAX_COUNT), 0.0
        if is_selected(settings.ridge):
            running = self._recursion if self.count < marks[VALID_UNTIL] else None
            known = settings.ridge, settings.own_scaling, self._statistics, self._clock
            penalty, due, until_weight = choose_penalty(old, *known, running)
        news: dict[str, Any] = {"_penalty": penalty}
        is_whole = marks[SHARE] == 1.0
        if penalty.ridge is None or not (is_whole and penalty.is_same(old)):
            news |= {"_solution": None, "_recursion": None, "_rows": None}
        vars(self).update(news)
        marks[[SHARE, NEXT_DUE, DUE_WEIGHT]] = 1.0, due, until_weight
        if self._rows is not None and is_selected(settings.ridge):
            set_checkpoints(marks, penalty, self._statistics.n_folds, self._clock)

    def select_ridge(self) -> None:
        """Select the ridge now, from all rows learnt, if `ridge` is "auto" or a KFold.

        A ridge is otherwise selected at fixed counts of rows. Afterwards, models that hold the same
        rows have the same ridge, however they came to hold them: by rows, merges or removals. With
        a number or "paper", nothing happens.

        Notes
        -----
        From 1 to 16 times the ``M^3 / 3`` operations of a solution for M features.

        Examples
        --------
        >>> from onlinels import LeastSquaresRegressor
        >>> rows = [{"a": float(k % 7), "b": float(k % 5)} for k in range(30)]
        >>> model, never = LeastSquaresRegressor(), LeastSquaresRegressor()
        >>> for k, x in enumerate(rows):
        ...     model.learn_one(x, x["a"] + k % 3)
        >>> model.unlearn_many(rows[21:], [x["a"] + k % 3 for k, x in enumerate(rows)][21:])
        >>> never.learn_many(rows[:21], [x["a"] + k % 3 for k, x in enumerate(rows)][:21])
        >>> model.select_ridge(), never.select_ridge(), model.difference(never) < 1e-9
        (None, None, True)
        """
        with self._lock:
            if is_selected(self.ridge):
                self._put_in_place(self._statistics)

    # Learning and unlearning.

    @abstractmethod
    def _read_targets(self, y: Any, n_rows: int | None) -> Targets:
        """Return the checked targets of rows, or of one sample if `n_rows` is None."""

    @matched_by_position
    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch, with the same result as learning its rows one by one.

        Parameters
        ----------
        X : array or sparse matrix (n_rows, n_features), frame, or list of dicts
            Rows to learn.
        y : array, series or list of n_rows labels, or of n_rows numbers for a regressor
            Labels or targets of the rows. For a model of several targets: an array (n_rows,
            n_targets), a frame or a list of dicts.
        w : float, or array, series or list of n_rows floats, optional
            Weights of the rows, at least 0; 1 by default.
        t : number or date, or array, series or list of n_rows of them, optional
            Times of the rows, for models with a `half_life`; by default one unit passes per row.
            Ignored without a `half_life`. Numbers are in the unit of `half_life`; if `half_life` is
            a timedelta, pass dates. Dates without a time zone count as UTC.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt. The model is then unchanged.

        Notes
        -----
        After any exception, including a keyboard interrupt and a lack of memory, the model has
        learnt either all rows or none. The same holds for every method that changes the model.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier()
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), ["low", "low", "high"])
        >>> model.predict_many(np.array([[-1.0], [3.0]]))
        array(['low', 'high'], dtype='<U4')
        """
        with self._lock:
            if w is None and self._learn_array(X, y):
                return
            rows = read_whole(lambda: checked(self, *read_rows(self, X, y, w, t), t), self)
            if len(rows.targets):
                learn_rows(self, rows)

    def _learn_array(self, X: Any, y: Any) -> bool:
        """Learn a plain array of known columns in one call of the core; return if it could."""
        is_plain = type(X) in (np.ndarray, Outputs) and X.dtype == np.float64 and X.ndim == 2
        is_plain = is_plain and X.flags.c_contiguous and X.flags.aligned
        is_listed = isinstance(y, (list, tuple)) or (isinstance(y, np.ndarray) and y.ndim > 0)
        if not (is_plain and is_listed and X.shape == (len(y), len(self._columns))):
            return False
        # A single row may be followed by the weights; other threads wait while many are learnt.
        can = 0 < X.shape[1] <= MAX_FEATURES_BY_ROW and len(X) > 1 and X.size <= MAX_NUMBERS_BY_ROW
        if not (can and self._columns.are(layout_of(X))):
            return False
        read = read_whole(lambda: self._read_targets(y, len(X)), self)
        is_known = self._columns.are(layout_of(X)) and len(read.outputs) == len(self._outputs)
        rows = (self._rows or self._single_rows()) if is_known else None
        if rows is None:
            return False
        targets = np.require(read.values, requirements=("C", "A"))
        is_learnt = rows.learn_many(X, targets)
        if is_learnt and self._recursion is not None:
            self._rows = self._recursion = None
        return bool(is_learnt)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        y : hashable, number, or mapping of target names to numbers
            For a classifier the label, known or new: None, NaN and pandas.NA are missing labels,
            and raise. For a regressor the target, or the targets by name.
        w : float
            Weight, at least 0: learning with weight 2 equals learning twice.
        t : number or date, optional
            Time of the sample, for models with a `half_life`; by default one unit passes. Ignored
            without a `half_life`. Dates without a time zone count as UTC.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt. The model is then unchanged.

        Examples
        --------
        >>> from onlinels import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier()
        >>> model.learn_one({"age": 3.0}, "young")
        >>> model.predict_one({"age": 4.0})
        'young'
        """
        with self._lock:
            rows = self._rows or self._single_rows()
            if rows is not None and rows.learn(x, y, w) is not NotImplemented:
                return
            sample, row = read_whole(lambda: self._checked_one(x, y, w, t), self)
            learn_rows(self, row)
            self._columns.note(sample.layouts[0])

    def _checked_one(self, x: Any, y: Any, w: Any, t: Any) -> tuple[Batch, Checked]:
        read, sample = self._read_targets(y, None), read_sample(x)
        return sample, checked(self, sample, read, check_weights(w, 1), t)

    def _take_form(self, layout: Layout) -> None:
        """Note whether rows that are learnt one by one, as dicts, come from a plain array."""
        columns = self._columns.in_form(layout)
        if columns is not self._columns:
            vars(self).update(_columns=columns, _rows=None)

    def _counts(self, targets: Matrix, n_targets: int) -> dict[str, Any]:
        """Return the new attributes that count rows by their targets."""
        return {}

    def _new_state(self, **attributes: Any) -> dict[str, Any]:
        """Return new attributes of the model; what depends on others is dropped if not given."""
        derived = {"_solution": None, "_recursion": None, "_rows": None, "_marks": new_marks()}
        return derived | attributes

    def _draft(self, **attributes: Any) -> Self:
        """Return a copy with new attributes, which shares all others and learns no rows."""
        new = shallow_copy(self)
        vars(new).update(self._new_state(**attributes))
        return new

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Unlearn one sample; see `unlearn_many`."""
        with self._lock:
            self._unlearn(
                lambda: (read_sample(x), self._read_targets(y, None), check_weights(w, 1))
            )

    @matched_by_position
    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Unlearn rows: the model is then as if it had never learnt them.

        A class leaves `classes` with its last row, and a feature leaves `feature_names` with the
        last row in which it is not 0. The entries of an array leave together, and so do outputs of
        a transformer that came as arrays; the columns of a plain array stay.

        Parameters
        ----------
        X, y
            Rows and labels or targets, as in `learn_many`.
        w : float, or array, series or list of n_rows floats, optional
            Current weights of the rows: the weights when they were learnt, multiplied by the decay
            since then. No time passes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be read, if the rows detectably exceed the rows learnt, or if fewer
            than six digits of the fit would remain. The model is then unchanged. With
            "orthogonal", a model cannot unlearn.

        Notes
        -----
        At the same ridge, the model is the one that never learnt the rows; the ridge is selected
        again. Unlearning costs as much as learning, a copy of the statistics, and ``M^3 / 3``
        operations for M features to count the digits that are left; if these are few, also a
        selection of the ridge and a solution. Digits are lost in proportion to the sums of squares
        removed relative to those that stay, the ridge included: squares of 1e7 times those of the
        other rows leave about eight digits. Rows that dwarf all others (`Statistics.dwarfing`)
        cost none, unless they were among the first 16.

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
            self._unlearn(lambda: self._read_learnt(X, y, w))

    def _read_learnt(self, X: Any, y: Any, w: Any) -> tuple[Batch, Targets, float | Floats]:
        """Return the rows of a batch to unlearn, with their targets and weights."""
        read = read_rows(self, X, y, w)
        warn_of_other_columns(self._columns, read[0])
        return read

    def _unlearn(
        self,
        read: Callable[[], tuple[Batch, Targets, float | Floats]],
        keeps_features: bool = False,
    ) -> None:
        """Remove the rows that a function reads: all rows, or none if an error is raised.

        Features that no row has left go, unless `keeps_features` is true.
        """
        vars(self).update(read_whole(lambda: self._unlearnt(*read(), keeps_features), self))

    def _unlearnt(
        self, batch: Batch, read: Targets, w: float | Floats, keeps_features: bool
    ) -> dict[str, Any]:
        """Return the attributes of the model without some rows."""
        if not len(batch):
            return {}
        statistics, outputs, news = self._without(batch, read, w)
        check_digits(self, statistics, "Removing these rows")
        if not (keeps_features or statistics.count or statistics.weight):
            return self._blank_state()
        features = np.arange(statistics.n_features)
        if not keeps_features:
            features = self._columns.staying(statistics.are_gone[: len(features)])
        if (len(features), len(outputs)) != (statistics.n_features, statistics.n_targets):
            news["_columns"] = self._columns
            if len(features) < statistics.n_features:
                news["_columns"] = self._columns.only(features)
            statistics = statistics.reindexed(features, outputs).named(news["_columns"].names)
        return self._replacing(statistics, **news)

    def _without(
        self, batch: Batch, read: Targets, w: float | Floats
    ) -> tuple[Statistics, Integers, dict[str, Any]]:
        """Return the statistics without some rows, the outputs that stay, and new attributes."""
        left = without(self, batch, read.values, w)
        return left, np.arange(left.n_targets), {}

    def _blank_state(self) -> dict[str, Any]:
        """Return the attributes of a model that has forgotten everything but the settings."""
        return vars(self.empty()) | {"_lock": self._lock}

    def _replacing(self, statistics: Statistics, **attributes: Any) -> dict[str, Any]:
        """Return the attributes that replace those of the model; a choice of the ridge is due."""
        news = {"_statistics": statistics, "_penalty": Penalty()}
        return self._new_state(**(news | attributes))

    def _put_in_place(self, statistics: Statistics, **attributes: Any) -> None:
        """Replace the statistics and other attributes at once."""
        vars(self).update(self._replacing(statistics, **attributes))

    def merge(self, other: Self) -> Self:
        """Add the rows of another model, in place, matching features and outputs by name.

        Parameters
        ----------
        other : model of the same kind
            Model with the same settings. It does not change.

        Returns
        -------
        model
            This model, as if it had learnt the rows of both. Merging a model that has learnt
            nothing changes nothing.

        Raises
        ------
        TypeError, ValueError
            If the kinds or the settings of the models differ. The model is then unchanged.

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
            vars(self).update(read_whole(lambda: self._merged(other), self, other))
        return self

    def _merged(self, other: Self) -> dict[str, Any]:
        """Return the attributes of the model with the rows of another model."""
        columns = self._columns.joined(other._columns)
        places, outputs = self._matched(other)
        size = len(columns), len(outputs[self._names_outputs])
        self._statistics.check_joins(other._statistics, *size)
        clock, past, other_past = self._clock.joined(other._clock)
        known, theirs = columns.locate(other.feature_names), other._statistics
        if other_past != 1.0:
            theirs = theirs.scaled(other_past)
        theirs = theirs.reindexed(origins(known, size[0]), origins(places, size[1]))
        statistics = self._statistics.scaled(past).grown(*size)
        # If one has learnt nothing, the ridge that the other has selected stays.
        kept = self if other._is_blank else other if self._is_blank else None
        if kept is None:
            statistics.absorb(theirs)
        else:
            statistics = statistics if kept is self else theirs.copied()
            known = columns.locate(kept.feature_names)
            outputs["_penalty"] = kept._penalty.placed(known, size[0])
            outputs["_marks"] = new_marks(*kept._marks[[SHARE, NEXT_DUE, DUE_WEIGHT]])
        outputs |= {"_columns": columns, "_clock": clock}
        return self._replacing(statistics.named(columns.names), **outputs)

    @abstractmethod
    def _matched(self, other: Self) -> tuple[Integers, dict[str, Any]]:
        """Return the columns of another model's outputs here, and the attributes that name all."""

    def __add__(self, other: Self) -> Self:
        """Return a new model that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added

    def difference(self, other: Self) -> float:
        """Return how far another model is from this one; see `onlinels.difference`."""
        check_mergeable(self, other)
        with all_held(self._lock, other._lock):
            return read_whole(lambda: self._difference(other), self, other)

    def _difference(self, other: Self) -> float:
        columns = self._columns.joined(other._columns)
        places, outputs = self._matched(other)
        size = len(columns), len(outputs[self._names_outputs])
        known = origins(columns.locate(other.feature_names), size[0])
        targets = origins(places, size[1])
        own, its = self._statistics.grown(*size), other._statistics.reindexed(known, targets)
        # In units of the features: roots of sums of squares, and effects of deviations.
        squares = np.maximum(own.raw_squares(), its.raw_squares())
        f, t = np.split(np.sqrt(np.maximum(squares, 0.0)), [size[0]])
        units = np.maximum(own.deviations, its.deviations)[:, None]
        effects = units * enlarged(self._weights()[0], *size)
        its_effects = units * gathered(other._weights()[0], known, targets)
        largest = np.maximum(np.abs(effects), np.abs(its_effects)).max(axis=0, initial=0.0)
        a, b = own.row_sums(), its.row_sums()
        root = np.sqrt(max(a.weight, b.weight) or 1.0)
        return max(
            largest_ratio(effects - its_effects, largest),
            largest_ratio(a.gram - b.gram, np.outer(f, f)),
            largest_ratio(a.cross - b.cross, np.outer(f, t)),
            largest_ratio(a.target_squares - b.target_squares, t**2),
            largest_ratio(a.origin - b.origin, f / root),
            largest_ratio(a.target_origin - b.target_origin, t / root),
            float(abs(a.weight - b.weight) / root**2),
        )

    @property
    def _is_blank(self) -> bool:
        # Rows that were unlearnt in part are not counted, but part of their weight remains.
        return not (self.count or self._statistics.weight)

    def fade(self, keep: float) -> None:
        """Multiply the weight of every row learnt so far by a factor, in place.

        Afterwards the output weights solve (k A'A + c S^2) W = k A'Y on the rows learnt, where k is
        the factor: the batch solution on rows of k times their weights, with the same ridge.

        Parameters
        ----------
        keep : float
            The factor, from 0 to 1. With 0 the model becomes `empty()`: it forgets classes and
            features too, and predicts as before the first row. Otherwise classes, features and
            `count` stay.

        Raises
        ------
        TypeError, ValueError
            If `keep` is not a number from 0 to 1. The model is then unchanged.

        Notes
        -----
        ``M^2`` operations. Unless `keep` is 1, a selected ridge is selected again, and a ridge that
        has decayed is set to c again.

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
            keep = float(keep)
            if keep == 0.0:
                vars(self).update(self._blank_state())
            elif keep < 1.0:
                self._put_in_place(self._statistics.scaled(keep))

    def empty(self) -> Self:
        """Return a new model with the same settings that has learnt nothing."""
        return self.clone()

    # Single rows.

    def _single_rows(self) -> SingleRows | None:
        """Make what reads, predicts and learns single rows of this model, and store it."""
        statistics, penalty, settings = self._statistics, self._penalty, self._settings
        if not (statistics.weight and statistics.n_features and statistics.n_targets):
            return None
        clock, marks, solution = self._clock, self._marks, self._solution
        decay = clock.forgetting_factor
        # If a feature begins to vary, other code learns a row.
        constants = None
        if is_selected(settings.ridge):
            set_checkpoints(marks, penalty, statistics.n_folds, clock)
            if penalty.constants is not None and penalty.n_varying < len(penalty.constants):
                constants = penalty.constants
        decays_errors = decay != 1.0 and statistics.rounding.weight
        is_other = clock.half_life is not None or decays_errors or statistics.n_folds > 1
        weights = None
        if solution is not None and solution.n_rows == statistics.count:
            weights = solution.output_weights
        targets, labels, counts = self._row_outputs()
        self._rows = statistics.single_rows(
            self._columns.met,
            (targets, labels),
            weights,
            Following(self._recursion, marks),
            counts,
            constants,
            decay,
            MIN_SHARE if settings.is_recursive and decay != 1.0 else 0.0,
            learns=not is_other,
            forgets=clock.forgets,
        )
        return self._rows

    @abstractmethod
    def _row_outputs(self) -> tuple[Any, Any, Floats | None]:
        """Return how targets of single rows are read, and counts; see `Statistics.single_rows`."""

    # Weights and predictions.

    def _solved(self) -> Solution:
        """Return the current solution, from the recursion if that follows the rows."""
        solution, statistics = self._solution, self._statistics
        if solution is not None and solution.n_rows == statistics.count:
            return solution
        ridge, units = self._in_force()
        if self._recursion is not None and is_answering(self._marks, statistics, self._recursion):
            weights = self._recursion.weights.copy(order="F")
        else:
            if statistics.beside is not None and statistics.is_alone:
                statistics = statistics.alone()
                vars(self).update(_statistics=statistics, _rows=None)
            warn_of_narrow_features(self, statistics)
            penalties, diagonal = penalties_of(ridge, units, statistics)
            # W = (A'A + D)^-1 A'Y, with D = diag(penalties).
            weights = np.asfortranarray(statistics.solve(penalties, diagonal))
            if is_selected(self.ridge):
                warn_of_lost_digits(statistics, ridge, units)
            # Before a ridge is selected, the paper's ridge is in force, which changes with every
            # row.
            is_paper = self._penalty.ridge is None and not isinstance(self.ridge, numbers.Real)
            self._rows = self._recursion = None
            if not (self._settings.follows_rows and ridge > 0.0) or is_paper:
                self._marks[PREDICTED_AT] = -np.inf
            self._recursion = begin_after_solving(
                self._marks, statistics, weights, ridge, penalties
            )
        intercept, is_far = statistics.intercept(weights), are_far(statistics, weights)
        solution = Solution(statistics.count, ridge, units, weights, intercept, is_far=is_far)
        self._solution = solution
        return solution

    def _weights(self) -> tuple[Floats, Floats]:
        """Return the output weights and the intercept of the scores."""
        solution = self._solved()
        return solution.output_weights, solution.intercept

    def _answers(self, outputs: Floats) -> Floats:
        """Return the scores (..., n_targets) of least-squares outputs."""
        return outputs

    def _row_scores(self, x: Mapping[Any, Any]) -> Floats:
        """Return scores (n_targets,) for one sample."""
        rows = self._rows
        known = NotImplemented if rows is None else rows.scores(x)
        if known is not NotImplemented:
            return self._answers(np.array(known))
        row = read_whole(lambda: self._placed_one(x), self)
        if row is None:
            return np.zeros(self._statistics.n_targets)
        statistics, solution = self._statistics, self._solved()
        rows = self._rows or self._single_rows()
        # What learns single rows gives the same scores the first time and the second time.
        known = NotImplemented if rows is None else rows.scores_of(row)
        if known is NotImplemented:
            known = outputs_of(statistics, solution, row[None])[0]
        return self._answers(np.array(known))

    def _placed_one(self, x: Any) -> Floats | None:
        """Return a sample in the columns of the model; None before anything is learnt."""
        if self._is_blank:
            # Before their first row, transformers may return values that are not numbers.
            check_mapping(x)
            return None
        layout, values = read_row(x)
        row: Floats = self._columns.place((layout,), values[None])[0]
        self._columns.note(layout)
        self._warn_of_unknown(layout)
        return row

    # Names of a row to predict, none of which was known.
    _warned_of: frozenset[Name] = frozenset()

    def _warn_of_unknown(self, layout: Layout) -> None:
        """Warn of a row of which no name is known, once for the same names."""
        n_known = len(self._columns)
        if not (layout and n_known) or (self._columns.locate(layout) >= 0).any():
            return
        names = [*names_of(layout)]
        unknown = frozenset(names)
        if unknown == self._warned_of:
            return
        self._warned_of = unknown
        warn_caller(
            "The model knows none of the features of x.",
            f"{reprlib.repr(names)} do not count, and the {n_known} features that the model knows "
            f"count as 0: {reprlib.repr(self.feature_names)}. Check the spelling; "
            "unknown_features(x) lists unknown features.",
        )

    def unknown_features(self, x: Mapping[Any, Any]) -> tuple[Name, ...]:
        """Return the names of a sample that the model has not learnt, which predictions leave out.

        Examples
        --------
        >>> from onlinels import LeastSquaresRegressor
        >>> model = LeastSquaresRegressor()
        >>> model.learn_one({"wind": 1.0, "rain": 0.0}, 5.0)
        >>> model.unknown_features({"wind": 2.0, "rian": 1.0})
        ('rian',)
        """
        with self._lock:
            layout = read_row(x)[0]
            is_unknown = read_whole(lambda: self._columns.locate(layout) < 0, self)
            return tuple(compress(names_of(layout), is_unknown))

    def _batch_scores(self, X: Any) -> tuple[Any, Floats]:
        """Return the input, for the kind of the answer, and its scores (n, n_targets)."""
        batch = read_asked(self, X)
        return batch.source, scores_of(self, batch)

    @abstractmethod
    def _target_of(self, read: Targets, row: int) -> Any:
        """Return the target of a row as an argument of `learn_one`."""

    def _independent(self) -> Self:
        """Return a copy that learns on its own; the two share attributes that are never mutated."""
        new = shallow_copy(self)
        new._statistics, new._marks = self._statistics.copied(), self._marks.copy()
        new._recursion, new._rows = self._recursion and self._recursion.copied(), None
        return new

    @ignoring("over", "invalid")
    def _variances(self, batch: Batch, own: float) -> Floats:
        """Return the variance of every row's predictions, (n, n_targets).

        `own` is the variance of a new target about its prediction, in units of the noise: 1 for
        new targets, 0 for the predictions alone. For unknown features only the ridge is known.
        """
        wider, n_known = read_whole(
            lambda: (
                self._columns.extended(batch.layouts).place(batch.layouts, batch.values),
                len(self._columns),
            ),
            self,
        )
        known, unknown = np.split(wider, [n_known], axis=1)
        (noise, covariance, _), solution = spread_of(self), self._solved()
        ridge, units = solution.ridge, solution.units
        mean = self._statistics.feature_mean
        if units is not None:
            differs = np.abs(known - mean) > CONSTANT_TOLERANCE * np.abs(mean)
            differs &= units == 0.0
            known = np.where(units > 0.0, known, mean)
            # Scaled as if this row had been learnt.
            weight = self._statistics.weight or 1.0
            unknown = np.hstack((differs, unknown != 0.0)) * (weight + 1.0) / weight**0.5
        leverages = covariance.leverages(known)
        if ridge > 0.0:
            leverages = leverages + (unknown**2).sum(axis=1) / ridge
        variances = np.outer(own + leverages, noise)
        # The variance exceeds float64, or the noise is unknown.
        variances[np.isnan(variances)] = np.inf
        return variances

    def debug_one(self, x: Mapping[Any, Any]) -> str:
        """Return as text the score of every output, with its ten largest effects.

        The effects add up to the score minus the score of the mean of all rows learnt; without an
        intercept, minus the score of a row of zeros. A classifier shows the probabilities too.
        """
        with self._lock:
            about, scores = read_whole(lambda: self._about_mean(x), self)
            weights, baselines = self.output_weights, scores - about @ self.output_weights
            parts, known = about[:, None] * weights, self._shown(scores)
            kind = "mean" if self._statistics.is_centred else "empty"
            lines = []
            for column, output in enumerate(self._outputs):
                header = f"{output}: {known[column]}score {scores[column]:.6g}"
                lines.append(f"{header}, of the {kind} row {baselines[column]:.6g}")
                strongest = np.argsort(-np.abs(parts[:, column]), kind="stable")[:N_SHOWN_FEATURES]
                lines += [
                    f"    {self.feature_names[feature]}: {about[feature]:+.6g} from the {kind} * "
                    f"{weights[feature, column]:.6g} = {parts[feature, column]:+.6g}"
                    for feature in strongest
                ]
            return "\n".join(lines)

    def _about_mean(self, x: Mapping[Any, Any]) -> tuple[Floats, Floats]:
        """Return a sample about the mean of all rows (n_features,), and its scores."""
        row = read_sample(x)
        activations = self._columns.place(row.layouts, row.values)
        return self._statistics.about_mean(activations)[0], scores_of(self, row)[0]

    def _shown(self, scores: Floats) -> list[str]:
        """Return what `debug_one` shows of every output before its score."""
        return [""] * len(scores)


@ignoring("over")  # Of features at 1e150.
def diagonal_of(ridge: float, units: Floats | None, n_features: int) -> Floats:
    """Return the ridge on each feature, (n_features,)."""
    return ridge * (np.ones(n_features) if units is None else units**2)


def hold_choices(model: LinearModel) -> None:
    """Make a model choose no ridge, whatever rows it learns, until a merge."""
    marks = model._marks.copy()
    marks[[NEXT_DUE, DUE_WEIGHT]] = np.inf, 0.0
    vars(model).update(_penalty=Penalty(), _rows=None, _marks=marks)


def holds_choices(model: LinearModel) -> bool:
    """Return whether `hold_choices` is in force."""
    is_held = is_selected(model.ridge) and model._marks[NEXT_DUE] == np.inf
    return bool(is_held and model._penalty.ridge is None)


def largest_ratio(differences: Floats, sizes: Floats) -> float:
    """Return the largest difference relative to sizes, 0 where the sizes are 0."""
    ratios = np.divide(differences, sizes, out=np.zeros_like(differences), where=sizes > 0.0)
    return float(np.abs(ratios).max(initial=0.0))


def read_rows(
    model: LinearModel, X: Any, y: Any, w: Any, t: Any = None
) -> tuple[Batch, Targets, float | Floats]:
    """Return the rows of a batch with their targets and weights, read and checked one by one."""
    batch = read_batch(X)
    return batch, model._read_targets(y, len(batch)), check_weights(w, len(batch))


def checked(model: LinearModel, batch: Batch, read: Targets, w: float | Floats, t: Any) -> Checked:
    """Check the values, weights and times of rows; return the rows in the model's columns."""
    targets, outputs = read
    columns = model._columns.extended(batch.layouts)
    model._statistics.check_room(len(columns), len(outputs))
    values = columns.place(batch.layouts, batch.matrix)
    check_mass(values, w, lambda: columns.names)
    if targets.ndim == 2:
        check_mass(targets, w, lambda: outputs)
    n_known, n_new = len(model._columns), len(columns) - len(model._columns)
    passes = model.count > 0 and n_known < MANY_NAMES <= len(columns)
    # An array in a dict adds its entries at once.
    if passes and n_new < MANY_NAMES // 2 and not columns.are(range(len(columns))):
        warn_caller(
            "The model has many features by name, and names are still added.",
            f"Memory grows with the square of their number, {len(columns):,}. "
            f"{FEATURE_COUNT_REMEDY}",
        )
    return Checked(values, targets, w, model._clock.read(t, len(batch)), columns, outputs)


def learn_rows(model: LinearModel, rows: Checked) -> None:
    """Learn checked rows: all rows, or none if an error is raised."""
    model._choose_if_due()
    n_rows, before, statistics = len(rows.targets), model.count, model._statistics
    due_at: dict[int, bool] = {}
    changes: Changes | None = None
    if is_selected(model.ridge):
        known = model._penalty, model._marks, statistics
        due_at, changes = events_in(*known, model._clock, rows)
    elif takes_sparse(statistics, rows.values):
        vars(model).update(learnt_sparse(model, rows))
        return
    blocks = blocks_of(n_rows, rows.shape[0], due_at)
    lacking = list[MemoryError]()

    def plan(block: slice) -> Calls:
        """Choose a ridge that is due, then plan to learn a block of rows.

        Choosing a ridge needs more memory than learning. If the choice fails twice, it stays due,
        the other blocks are learnt, and the MemoryError is raised after them.
        """
        try:
            model._choose_if_due()
        except MemoryError as error:
            if not lacking:
                lacking.append(error)
                raise
        # A choice that failed stays due.
        at = next((at for at in due_at if at >= block.stop), None)
        due = float(model._marks[NEXT_DUE] if at is None else before + at)
        in_block = changes and (changes[0], changes[1] - block.start)
        return plan_block(model, rows.part(block), due, in_block, at is not None and due_at[at])

    was_alone = statistics.beside is None
    apply_in_blocks(blocks, plan)
    if was_alone and model._statistics.beside is not None:
        warn_of_dwarfing(model, model._statistics.beside)


def blocks_of(n_rows: int, n_features: int, due_at: Iterable[int]) -> Iterator[slice]:
    """Cut rows where a ridge is chosen, and into blocks of some MiB."""
    for start, stop in pairwise((0, *due_at, n_rows)):
        for block in row_blocks(stop - start, n_features, MIN_BLOCK_ROWS):
            yield slice(start + block.start, start + block.stop)


def plan_block(
    model: LinearModel, rows: Checked, due: float, changes: Changes | None, doubles: bool
) -> Calls:
    """Plan to learn a block of checked rows, with room for their columns and targets.

    `due` is the count of rows at which a ridge is chosen next, and `doubles` whether it must be
    selected then. `changes` are those of features in the block, if the ridge is selected.
    """
    n_rows, shape = len(rows.targets), rows.shape
    clock, past, weights = model._clock.tick(rows.w, n_rows, rows.times)
    learnt = Rows(uncast(rows.values), rows.targets, weights)
    statistics = model._statistics.grown(*shape).named(rows.columns.names)
    penalty, recursion, before = model._penalty, model._recursion, model._marks
    if doubles:
        # Which doublings were skipped does not matter.
        penalty = penalty._replace(doubles_at=0)
    marks = new_marks(share_after(model, rows), due, float(before[DUE_WEIGHT]))
    if recursion is not None:
        is_single = n_rows == 1 and statistics.is_single(learnt, past)
        recursion = recursion.grown(*shape) if is_single else None
    if changes is not None:
        known = penalty, model._statistics, changes
        penalty, features, units = penalty_after(*known, learnt, past)
        if recursion is not None and features.size:
            recursion = recursion.with_penalties(features, recursion.ridge * units**2)
    if n_rows == 1:
        marks[PREDICTED_AT] = before[PREDICTED_AT]
    # A row after which the ridge has its full size again is not followed.
    is_restored = past != 1.0 and bool(marks[SHARE] >= before[SHARE])
    followed = None if is_restored else recursion
    if followed is not None:
        marks[VALID_UNTIL] = before[VALID_UNTIL]
    calls = statistics.plan(learnt, past, Following(followed, marks))
    news = {model._names_outputs: rows.outputs} | model._counts(rows.targets, shape[1])
    news |= {"_columns": rows.columns, "_clock": clock, "_recursion": recursion, "_marks": marks}
    state = model._new_state(_statistics=statistics, _penalty=penalty, **news)
    return (*calls, (vars(model).update, state))


def share_after(model: LinearModel, rows: Checked) -> float:
    """Return the share of the ridge after rows: in the recursive form it decays with the past."""
    n_rows, share = len(rows.targets), float(model._marks[SHARE])
    if not (model._clock.forgets and model._settings.is_recursive and n_rows):
        return share
    factors = model._clock.factors(n_rows, rows.times)
    if not model._statistics.weight:
        # An empty past does not decay.
        weighty = np.broadcast_to(rows.w, n_rows) > 0.0
        factors[: int(weighty.argmax()) + 1 if weighty.any() else n_rows] = 1.0
    return decayed(share, factors.tolist())


def learnt_sparse(model: LinearModel, rows: Checked) -> dict[str, Any]:
    """Return the state after learning sparse rows by sparse products, with new statistics."""
    n_rows, shape = len(rows.targets), rows.shape
    clock, past, weights = model._clock.tick(rows.w, n_rows, rows.times)
    weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), n_rows)
    statistics = model._statistics.scaled(past).grown(*shape).named(rows.columns.names)
    learnt = sums_of_sparse(rows.values, rows.targets, weights, shape[1], statistics.is_centred)
    statistics.check_joins(learnt, *shape)
    statistics.absorb(learnt)
    news = {model._names_outputs: rows.outputs} | model._counts(rows.targets, shape[1])
    news |= {"_columns": rows.columns, "_clock": clock}
    news["_marks"] = new_marks(share_after(model, rows), float(model._marks[NEXT_DUE]))
    return model._new_state(_statistics=statistics, **news)


def without(model: LinearModel, batch: Batch, targets: Matrix, w: float | Floats) -> Statistics:
    """Return the statistics without some learnt rows."""
    columns = model._columns.extended(batch.layouts)
    values = columns.place(batch.layouts, batch.values)
    known, new = np.split(values, [len(model._columns)], axis=1)
    new = new[np.broadcast_to(w, len(new)) > 0.0]
    if new.any():
        name = columns.names[len(model._columns) + int(new.any(axis=0).argmax())]
        raise ValueError(
            f"x[{name!r}] is not 0, expected a feature that was learnt. "
            "Remove only rows that were learnt."
        )
    rows, names = Rows(uncast(known), targets, w), (model.feature_names, model._outputs)
    return model._statistics.without(rows, names)


def check_digits(model: LinearModel, statistics: Statistics, cause: str) -> None:
    """Raise ValueError if removals leave fewer than six digits of the fit; warn of fewer than nine.

    Parameters
    ----------
    model : LinearModel
        The model with its settings.
    statistics : Statistics
        Statistics that are to replace those of the model.
    cause : str
        Beginning of the message.
    """
    if are_negligible(statistics, MAX_UNTOLD):
        return
    new = model._draft(_statistics=statistics, _penalty=Penalty())
    ridge, units = new._in_force()
    ridges = [ridge]
    if is_selected(model.ridge):
        # Later rows may explain more, so that a smaller ridge is selected.
        most = statistics.weight if units is not None else statistics.diagonal.max(initial=0.0)
        ridges.append(min(ridge, LEAST_LATER_RIDGE * float(most)))
    losses = (lost_by_removals(statistics, *penalties_of(c, units, statistics)) for c in ridges)
    lost, column = max(losses, key=itemgetter(0))
    if lost <= MAX_UNTOLD:
        return
    names, is_feature = (*model.feature_names, *model._outputs), column < statistics.n_features
    is_dwarfed = statistics.is_dwarfed
    remedy = "Remove the other rows that dwarf them, too." if is_dwarfed else LEARN_AGAIN
    told = (
        f"{cause} leaves about {digits_of(lost)} digits of the fit, expected at least "
        f"{6 if lost > MAX_LOST else 9}, because the removed rows outweigh the rows that stay in "
        f"{'feature' if is_feature else 'target'} {names[column]!r}. {remedy}"
    )
    # The statistics beside have all digits, and take over when the last of the others is removed.
    if lost > MAX_LOST and not is_dwarfed:
        raise ValueError(told)
    # A window that slides adds little with every row, and its bounds exceed its errors.
    before, after = model._statistics.rounding.squares, statistics.rounding.squares
    if statistics is model._statistics or (after > MAX_UNTOLD_GROWTH * before).any():
        warn_caller("Digits of the fit are lost by removals.", told)


def digits_of(lost: float) -> int:
    """Return the number of digits that an error leaves, from 0 to 8; at most 5 if too few."""
    return int(np.clip(-np.log10(lost), 0.0, 5.0 if lost > MAX_LOST else 8.0))


def read_asked(model: LinearModel, X: Any) -> Batch:
    """Read rows to predict; warn of columns that a frame lacks."""
    batch = read_batch(X)
    warn_of_other_columns(model._columns, batch)
    return batch


def scores_of(model: LinearModel, batch: Batch) -> Floats:
    """Return the scores (n, n_targets) of rows that are read."""
    activations = read_whole(lambda: model._columns.place(batch.layouts, batch.matrix), model)
    solution = model._solved()
    return model._answers(outputs_of(model._statistics, solution, activations))


def outputs_of(statistics: Statistics, solution: Solution, rows: Any) -> Floats:
    """Return the least-squares outputs (n, n_targets) of rows, an array or a csr_array."""
    constant = solution.intercept
    if solution.is_far and isinstance(rows, np.ndarray):
        rows, constant = statistics.about_mean(rows), statistics.target_mean
    outputs: Floats = product(rows, solution.output_weights)
    outputs += constant
    return outputs


@ignoring("over", "invalid")
def are_far(statistics: Statistics, weights: Floats) -> bool:
    """Tell whether the outputs of rows are better computed about the mean of the features."""
    if not (statistics.is_centred and statistics.weight):
        return False
    errors = EPS * (np.abs(statistics.feature_mean) @ np.abs(weights))
    sizes = np.sqrt(statistics.target_squares / statistics.weight)
    return bool((errors > MAX_INTERCEPT_ERROR * sizes).any())


def warn_of_dwarfing(model: LinearModel, others: Statistics) -> None:
    """Warn of the first rows that dwarf all others, if they are far from these in any units."""
    whole, squares = model._statistics, others.squares()
    weight, features = whole.weight - others.weight, len(model.feature_names)
    means = [np.append(each.feature_mean, each.target_mean) for each in (whole, others)]
    distances = (means[0] - means[1]) * (whole.weight / weight)
    varies = squares > 0.0
    ratios = np.divide(distances**2, squares, out=np.zeros(len(squares)), where=varies)
    column = int(ratios.argmax())
    deviations = float(np.sqrt(ratios[column] * others.weight))
    if deviations < MANY_DEVIATIONS or distances[column] ** 2 < squares.max():
        return
    name = f"x[{model.feature_names[column]!r}]" if column < features else "y"
    # Beyond 2^53 rows, one more makes no difference.
    value, n_rows = means[1][column] + distances[column], max(1, whole.count - others.count)
    warn_caller(
        "A few rows dwarf all others.",
        f"{name} is about {value:g} in {n_rows:,} of {whole.count:,} rows, {deviations:,.0f} "
        "standard deviations from the mean of the others. These rows decide the weights: reject "
        "codes of missing values, clip values, or pass a smaller w.",
    )


def warn_of_narrow_features(model: Any, statistics: Statistics) -> None:
    """Warn of features that vary too little to have a weight."""
    if model._clock.forgets:
        return  # Features whose other values are forgotten are constant.
    # After a removal, the squares may be rounding errors.
    errors = statistics.rounding.squares[: statistics.n_features]
    narrow = (statistics.dropped >= MIN_SUM_OF_SQUARES) & (errors == 0.0)
    if not narrow.any():
        return
    names = tuple(compress(model.feature_names, narrow))
    place = int(narrow.argmax())
    warn_caller(
        "Some features vary by rounding alone, as far as float64 can tell.",
        f"{len(names)} of {len(narrow)} features count as constant: {reprlib.repr(names)}. If "
        f"x[{names[0]!r}] varies, subtract a fixed value near "
        f"{statistics.feature_mean[place]:g} from it before it is rounded.",
    )


def warn_of_lost_digits(statistics: Statistics, ridge: float, units: Floats | None) -> None:
    """Warn if removals leave fewer than six digits at a ridge that was selected later."""
    if are_negligible(statistics):
        return
    lost = lost_by_removals(statistics, *penalties_of(ridge, units, statistics))[0]
    if lost > 2.0 * MAX_LOST:
        warn_caller(
            "Digits of the fit are lost at the selected ridge.",
            f"The ridge {ridge:g} was selected after rows were removed, and these leave about "
            f"{digits_of(lost)} digits of the fit, expected at least 6. Set a larger number as "
            f"ridge. {LEARN_AGAIN}",
        )


@ignoring("over", "invalid")
def spread_of(model: LinearModel) -> Spread:
    """Return noise variances, covariance and degrees of freedom, which the solution keeps.

    With n = sum w and p effective parameters, the noise variance is RSS / (n - p), with n - p
    degrees of freedom, and the covariance of the weights is (A'A + D)^-1 times this variance. If
    rows are forgotten, see `onlinels.core.reference.weights_of_errors`.

    They cost about ``M^3`` operations once, ``M^2`` per prediction, and the memory of a Gram.
    """
    solution, statistics = model._solved(), model._statistics
    if solution.spread is not None:
        return solution.spread
    known = penalties_of(solution.ridge, solution.units, statistics)
    covariance = statistics.covariance(*known)
    explained = statistics.products.explained_squares(solution.output_weights)
    squares = statistics.target_squares
    residual = np.maximum(squares - explained, MIN_NOISE_SHARE * np.abs(squares))
    counts, factor = weights_of_errors(statistics.mean_weight, model._clock.forgets)
    free = statistics.weight - counts * covariance.n_parameters
    is_known = free > MIN_FREE * statistics.weight > 0.0
    noise = residual / free if is_known else np.full(len(residual), np.inf)
    spread = Spread(noise, covariance.times(factor), free)
    model._solution = solution._replace(spread=spread)
    return spread
