"""Estimators with scikit-learn's interface around the exact models: fit, partial_fit, coef_."""

from __future__ import annotations

import copy
import numbers
import re
import reprlib
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[attr-defined]

from onlinels.accumulators.statistics import Statistics
from onlinels.checks import (
    Floats,
    Matrix,
    check_mergeable,
    check_not_negative,
    check_values,
    check_weights,
    dense,
    readable,
)
from onlinels.features.hidden import HiddenLayer
from onlinels.features.input_weights import DIFFERENCE_KINDS
from onlinels.labels import Classes, read_labels
from onlinels.linalg.selection import KFold
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import (
    LinearModel,
    Targets,
    checked,
    hold_choices,
    holding,
    learn_rows,
    noise_variances,
    warn_of_narrow_features,
)
from onlinels.linear.penalty import (
    MIN_ROWS_TO_HOLD_RIDGE,
    Penalty,
    check_scaling,
    penalties_of,
    penalty_until_checkpoint,
    select_ridge_and_units,
)
from onlinels.linear.regressors import (
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    check_level,
    t_quantile,
)
from onlinels.numerics import (
    Lock,
    Update,
    all_held,
    apply,
    product,
    restore,
    shallow_copy,
    zero_added,
)
from onlinels.rows import (
    Batch,
    Layout,
    as_frame,
    as_numpy,
    label_array,
    read_batch,
    without_wide_integers,
)
from onlinels.saving import in_plain_types
from onlinels.scoring import probabilities_of

FIXED_PARAMETERS = {
    "fit_intercept": "fit_intercept",
    "solver": "accumulator",
    "forgetting_factor": "forgetting_factor",
}
"""Parameters that cannot change after the first rows, and their names in river's models."""


ESTIMATOR_TERMS = {
    r"\ba ridge\b": "an alpha",
    r"\bridge\b": "alpha",
    r"\baccumulator=": "solver=",
    r"\bw holds\b": "sample_weight holds",
    r"\bseed=": "random_state=",
}
"""Parameter names in the messages of the inner models, and the names of the estimators here."""

NO_DECLARED_LABELS: Matrix = np.empty(0, dtype=np.intp)
"""The declared labels of a classifier for which none were declared."""

VALIDATION_SETTINGS: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
"""Arguments of scikit-learn's `validate_data`."""


class Solution(NamedTuple):
    """Weights (n_features, n_targets) of the current statistics, and their penalty."""

    weights: Floats
    intercept: Floats
    # One number, or one for each target.
    alpha: float | Floats
    # Units of the columns that alpha acts on; None for raw columns.
    units: Floats | None


@contextmanager
def held(*estimators: BaseEstimator) -> Iterator[None]:
    """Hold the locks of estimators, and raise errors with the estimators' own parameter names.

    The first call makes the lock: scikit-learn requires that a constructor sets parameters only.
    """
    # dict.setdefault is atomic: all threads get the same lock.
    with all_held(*(vars(each).setdefault("_lock", Lock()) for each in estimators)):
        try:
            yield
        except (TypeError, ValueError) as error:
            message = str(error)
            for theirs, own in ESTIMATOR_TERMS.items():
                message = re.sub(theirs, own, message)
            if message == str(error):
                raise
            raise type(error)(message) from error


def publish(fitted: BaseEstimator, estimator: BaseEstimator) -> None:
    """Copy the fitted state of a copy to an estimator in one step; parameters do not change."""
    params, state = estimator.get_params(deep=False), vars(estimator)
    known = {name: each for name, each in vars(fitted).items() if name not in (*params, "_lock")}
    # After a fit on columns without names, the old names are removed.
    apply(Update(((state.pop, "feature_names_in_", None), (state.update, known))))


class IncrementalModel(BaseEstimator):
    """Base of both estimators: a river model learns the rows; weights are computed on demand."""

    # What `alpha` may be, for messages.
    _alphas: ClassVar[str]

    n_features_in_: int
    feature_names_in_: Matrix

    # Made by the first rows.
    _model: LinearModel
    # The last solution, by its parameters; empty after rows are learnt. A dict, because predict
    # must not set an attribute.
    _solutions: dict[Any, Solution]

    def __init__(
        self,
        alpha: Any = "auto",
        *,
        fit_intercept: bool = True,
        solver: str = "gram",
        forgetting_factor: float = 1.0,
        scaling: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.forgetting_factor = forgetting_factor
        self.scaling = scaling

    def _get_params(self) -> dict[str, Any]:
        return self.get_params(deep=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __getstate__(self) -> dict[str, Any]:
        """Return a consistent state: copies and pickles learn independently."""
        with held(self):
            state: dict[str, Any] = vars(self).copy()
            del state["_lock"]
            if hasattr(self, "_model"):
                state["_model"] = copy.copy(self._model)
                state["_solutions"] = self._solutions.copy()
            return state

    __setstate__ = restore

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    # Parameters.

    def _check_parameters(self) -> None:
        alpha = self.alpha
        if isinstance(alpha, str):
            if alpha != "auto":
                raise ValueError(f'alpha={alpha!r} is not known. Pass "auto" or a number.')
        else:
            for each in np.ravel(np.asarray(alpha, dtype=object)).tolist():
                if not isinstance(each, numbers.Real) or isinstance(each, bool):
                    problem = f"alpha={reprlib.repr(alpha)} must be {self._alphas}"
                    raise TypeError(f"{problem}. {_alpha_remedy(each)}")
                check_not_negative("alpha", each)
        check_scaling(self.scaling, "auto")

    def _settings(self) -> dict[str, Any]:
        """Return the settings of the river model; its ridge and scaling are decided here."""
        settings = {theirs: getattr(self, mine) for mine, theirs in FIXED_PARAMETERS.items()}
        ridge: Any = 1.0
        if self.solver == "recursive":
            # An inverse contains one ridge in fixed units. Otherwise the model stores sums of
            # products, which contain neither.
            is_fixed = isinstance(self.alpha, numbers.Real) and self.scaling != "standard"
            ridge = float(self.alpha) if is_fixed else "auto"
        return {"ridge": ridge, "scaling": None} | settings

    def _check_unchanged(self) -> None:
        """Raise if a parameter that the statistics depend on has changed."""
        made, now = self._model._get_params(), self._settings()
        for mine, theirs in FIXED_PARAMETERS.items():
            if made[theirs] != now[theirs]:
                raise ValueError(
                    f"{mine} has changed from {made[theirs]!r} to {now[theirs]!r} since rows were "
                    "learnt, expected the same value. Set it back, or call fit, which starts again."
                )
        if self._model.ridge != now["ridge"]:
            self._model.ridge = now["ridge"]

    # Rows in and out.

    @abstractmethod
    def _read_rows(self, X: Any, y: Any, begins: bool) -> tuple[Any, Targets]:
        """Return checked rows, and targets in the form of the river model."""

    @abstractmethod
    def _new_model(self, targets: Targets) -> LinearModel:
        """Return an empty river model for targets of this kind."""

    def _weights_of(self, targets: Targets, sample_weight: Any, begins: bool) -> float | Floats:
        """Return the weights of rows; `begins` is True for the first rows."""
        return check_weights(sample_weight, len(targets.values), "sample_weight")

    @property
    def _layout(self) -> Layout:
        """The names of the columns in the river model."""
        names = getattr(self, "feature_names_in_", None)
        return range(self.n_features_in_) if names is None else tuple(names)

    def _batch(self, X: Any) -> Batch:
        return replace(read_batch(X), layouts=(self._layout,))

    def _learn(self, X: Any, y: Any, sample_weight: Any, begins: bool, **attributes: Any) -> Self:
        """Learn rows, or start again with them; a copy with new attributes reads them first."""
        new = shallow_copy(self)
        vars(new).update(attributes)
        new._check_parameters()
        X, targets = new._read_rows(X, y, begins)
        weights = new._weights_of(targets, sample_weight, begins)
        if begins:
            if not np.any(weights):
                raise ValueError(
                    "sample_weight is zero in every row, expected a weight above 0 in at least one "
                    "of the first rows. Leave out rows of weight 0."
                )
            new._model, new._solutions = new._new_model(targets), {}
        else:
            self._check_unchanged()
            # Before the rows: after an interrupt in between, the weights are computed again.
            self._solutions.clear()
        if new._model.ridge == "auto":
            # The estimator selects alpha when it solves; the river model need not.
            hold_choices(new._model)
        learn_rows(new._model, checked(new._model, new._batch(X), targets, weights, None))
        publish(new, self)
        return self

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove learnt rows, as if the estimator had never learnt them.

        Parameters
        ----------
        X, y
            The rows, as `partial_fit` learnt them.
        sample_weight
            Their current weights: with forgetting, the decayed weights.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the rows detectably remove more than was learnt, if fewer than six digits of the fit
            would remain, or with solver="orthogonal", which cannot remove rows. Nothing has changed
            then.

        Examples
        --------
        >>> model = IncrementalRidge(alpha=1.0).partial_fit([[0.0], [1.0], [9.0]], [0.0, 1.0, 5.0])
        >>> model.unlearn([[9.0]], [5.0]).n_samples_seen_
        2
        """
        with held(self):
            check_is_fitted(self)
            self._check_parameters()
            self._check_unchanged()
            X, targets = shallow_copy(self)._read_rows(X, y, False)
            weights = self._weights_of(targets, sample_weight, False)
            self._solutions.clear()
            self._model._unlearn(
                self._batch(X), targets, weights, keeps_features=True, in_force=self._in_force_on
            )
        return self

    def _in_force_on(self, statistics: Statistics) -> list[tuple[float | Floats, Floats | None]]:
        """Return the alphas in force on statistics, as parameters of `Statistics.solve`."""
        alpha, units = alpha_of(statistics, self.alpha, self.scaling)
        return [penalties for _, _, penalties in by_alpha(statistics, alpha, units)]

    def merge(self, other: Self) -> Self:
        """Add the rows of another estimator to this one, in place; the other does not change.

        Parameters
        ----------
        other : estimator of the same class, parameters and features
            The estimator whose rows are added. `a + b` and `sum([a, b, c])` return a new estimator
            instead.

        Returns
        -------
        self
            As if it had learnt the rows of both.

        Examples
        --------
        >>> a = IncrementalRidge(alpha=1.0).partial_fit([[0.0], [1.0]], [0.0, 1.0])
        >>> b = IncrementalRidge(alpha=1.0).partial_fit([[2.0], [3.0]], [2.0, 3.0])
        >>> (a + b).n_samples_seen_, a.merge(b).n_samples_seen_
        (4, 4)
        """
        check_mergeable(self, other)
        with held(self, other):
            if not hasattr(other, "_model"):
                return self
            if hasattr(self, "_model"):
                self._join(other)
            else:
                new = copy.copy(other)
                vars(new).update(self.get_params(deep=False))
                new._check_unchanged()
                publish(new, self)
        return self

    def _join(self, other: Self) -> None:
        """Add the statistics of another estimator; both have learnt rows."""
        mine, theirs = ([*each._layout] for each in (self, other))
        if mine != theirs:
            raise ValueError(
                f"other has the features {theirs}, expected {mine}. Merge estimators that were "
                "fitted to the same columns."
            )
        for each in (self, other):
            each._check_unchanged()
        self._solutions.clear()
        self._model.merge(other._model)

    def __add__(self, other: Self) -> Self:
        """Return a new estimator that has learnt the rows of both."""
        if not isinstance(other, IncrementalModel):
            return NotImplemented
        return copy.copy(self).merge(other)

    __radd__ = zero_added

    # Weights and predictions.

    def _solution_key(self) -> tuple[Any, ...]:
        """Return the parameters that weights depend on."""
        return (*np.ravel(self.alpha).tolist(), self.scaling, *self._settings().values())

    def _solved(self) -> Solution:
        """Return the weights of the current statistics for the current parameters."""
        check_is_fitted(self)
        key = self._solution_key()
        if key not in self._solutions:
            self._check_parameters()
            self._check_unchanged()
            alpha, units = alpha_of(self._model._statistics, self.alpha, self.scaling)
            solution = solved(self._model, alpha, units, self._layout)
            self._solutions.clear()
            self._solutions[key] = solution
        return self._solutions[key]

    def _rows_to_predict(self, X: Any) -> Any:
        """Return checked rows to predict."""
        check_is_fitted(self)
        return validate_data(self, readable_rows(X), **VALIDATION_SETTINGS, reset=False)

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows learnt and not removed, whatever their weights."""
        with held(self):
            check_is_fitted(self)
            return self._model.count

    @property
    def alpha_(self) -> Any:
        """The alpha in force: a float, or an array (n_targets,) if each target has its own."""
        with held(self):
            return copy.copy(self._solved().alpha)

    def to_river(self) -> Any:
        """Return a river model with the same statistics; it then learns independently.

        Returns
        -------
        LeastSquaresClassifier, LeastSquaresRegressor or LeastSquaresMultiTargetRegressor
            Columns without names are the features 0, 1, … of dicts. With alpha="auto" the ridge is
            `alpha_` until the river model selects the next ridge.

        Raises
        ------
        ValueError
            If each target has its own alpha: the river models have one ridge.

        Examples
        --------
        >>> model = IncrementalRidge(alpha=0.0).partial_fit([[0.0], [1.0]], [0.0, 2.0])
        >>> round(model.to_river().predict_one({0: 3.0}), 9)
        6.0
        """
        with held(self):
            check_is_fitted(self)
            self._check_parameters()
            if np.ndim(self.alpha):
                raise ValueError(
                    f"alpha={self.alpha!r} has a value for each target, expected one number: in "
                    "river models all targets share it. Set alpha to one number first."
                )
            ridge = self.alpha if isinstance(self.alpha, str) else float(self.alpha)
            model = with_settings(copy.copy(self._model), ridge=ridge, scaling=self.scaling)
            if ridge == "auto":
                keep_ridge(model, self._solved())
            return model

    @classmethod
    def _of_river(cls, model: Any, kinds: tuple[type[LinearModel], ...], **parameters: Any) -> Self:
        """Return an estimator with the statistics of a river model."""
        if not isinstance(model, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(
                f"model is of type {type(model).__name__}, expected {expected}. Of a pipeline, "
                "pass the last step."
            )
        check_has_counterpart(model)
        # No other thread changes the copy.
        model = copy.copy(model)
        names, made = model.feature_names, cast(Any, cls)
        new: Self = made(alpha=model.ridge, scaling=model.scaling, **parameters)
        for mine, theirs in FIXED_PARAMETERS.items():
            setattr(new, mine, getattr(model, theirs))
        if not model._is_blank:
            new.n_features_in_ = len(names)
            if names and isinstance(names[0], str):
                new.feature_names_in_ = np.array(names, dtype=object)
            # Until new rows are learnt, the weights in force and the predictions do not change.
            ridge, units, weights, intercept, *_ = model._solved()
            inside = model._statistics.recursion
            if inside is not None and model.scaling is not None:
                units = np.sqrt(inside.full_penalties / inside.ridge)
            order = model._columns.locate(new._layout)
            new._model = with_settings(model, **new._settings())
            solution = Solution(weights[order], intercept, ridge, units)
            new._solutions = {new._solution_key(): solution}
        return new


def with_settings(model: LinearModel, **settings: Any) -> LinearModel:
    """Return a river model with other settings and the statistics of a given model."""
    known = vars(model)
    keep = ("_columns", "_clock", "_classes", "_class_counts", "_target_names")
    new: LinearModel = model.clone(settings)
    new._put_in_place(known["_statistics"], **{name: known[name] for name in keep if name in known})
    return new


def check_has_counterpart(model: LinearModel) -> None:
    """Raise unless an estimator here can have the settings and features of a river model."""
    is_number = isinstance(model.ridge, numbers.Real)
    if model.half_life is not None or not (is_number or model.ridge == "auto"):
        raise ValueError(
            f"model has ridge={model.ridge!r} and half_life={model.half_life!r}, expected a number "
            'or "auto" as ridge, and half_life=None. Clone it with these settings before it learns.'
        )
    names = model.feature_names
    numbered = set(names) == set(range(len(names)))
    if not (numbered or all(isinstance(name, str) for name in names)):
        raise ValueError(
            f"model has features named {names!r}, expected names that are all texts, or the "
            "numbers 0, 1, …. Let a new model learn features with these names."
        )


def keep_ridge(model: LinearModel, solution: Solution) -> None:
    """Give a river model the alpha that was selected here, until its next checkpoint."""
    statistics, alpha = model._statistics, float(solution.alpha)
    penalty = penalty_until_checkpoint(Penalty(), alpha, solution.units, statistics, model._clock)
    is_inside = statistics.recursion is not None
    if statistics.holds_ridge and (is_inside or statistics.count >= MIN_ROWS_TO_HOLD_RIDGE):
        statistics = holding(statistics, model.ridge, penalty)
    model._put_in_place(statistics, _penalty=penalty)


def solved(
    model: LinearModel, alpha: float | Floats, units: Floats | None, layout: Layout
) -> Solution:
    """Return the weights for one alpha, or one for each target, in the column order of a layout."""
    statistics = model._statistics
    warn_of_narrow_features(model, statistics)
    weights = np.empty((statistics.n_features, statistics.n_targets), order="F")
    for targets, own, penalties in by_alpha(statistics, alpha, units):
        weights[:, targets] = own.solve(*penalties)[:, targets]
    intercept = statistics.intercept(weights)
    order = model._columns.locate(layout)
    return Solution(weights[order], intercept, alpha, units)


def readable_rows(X: Any) -> Any:
    """Return rows as scikit-learn can read them, with the names of their columns."""
    X = as_numpy(X)
    return X if readable(X) is X else without_wide_integers(as_frame(X)).to_native()


def _alpha_remedy(alpha: Any) -> str:
    """Return the remedy for an alpha that is not a number."""
    if isinstance(alpha, KFold):
        of_river = "LeastSquaresRegressor or LeastSquaresClassifier"
        return f'Pass "auto", which needs no folds, or pass the KFold to a {of_river}.'
    return 'Pass "auto" or a number.'


def alpha_of(
    statistics: Statistics, alpha: Any, scaling: str | None
) -> tuple[float | Floats, Floats | None]:
    """Return the alpha in force (or one for each target) and the units that it acts on."""
    deviations = None if scaling is None else statistics.deviations
    units = deviations if scaling == "standard" else None
    if isinstance(alpha, str):
        tried = [None, deviations] if scaling == "auto" else [units]
        return select_ridge_and_units("auto", statistics, tried) or (1.0, units)
    check_alphas(alpha, statistics.n_targets)
    given: Floats = np.array(alpha, dtype=np.float64)
    return given if given.ndim else float(given), units


def check_alphas(alpha: Any, n_targets: int) -> None:
    """Raise unless there is one alpha, or one for each target."""
    shape = np.shape(alpha)
    if shape and shape != (n_targets,):
        raise ValueError(
            f"alpha has shape {shape}, expected one number, or one for each of the {n_targets} "
            f"targets. Pass a number, or an array of {n_targets}."
        )


def by_alpha(
    statistics: Statistics, alpha: float | Floats, units: Floats | None
) -> Iterator[tuple[Matrix, Statistics, tuple[float | Floats, Floats | None]]]:
    """Yield, for each alpha, its targets, its statistics, and penalties and diagonal to solve."""
    alphas = np.broadcast_to(alpha, statistics.n_targets)
    for each in np.unique(alphas).tolist():
        if statistics.recursion is not None and each > 0.0:
            inside = None if units is None else np.where(units > 0.0, units, 1.0)
            yield alphas == each, statistics.with_ridge(each, inside), (each, None)
        else:
            yield alphas == each, statistics, penalties_of(each, units, statistics)


class IncrementalRidge(MultiOutputMixin, RegressorMixin, IncrementalModel):
    """Fit ridge regression in chunks; the result equals a single fit on all rows.

    After any sequence of `partial_fit`, `unlearn` and `merge`, `coef_` and `intercept_` equal those
    of `sklearn.linear_model.Ridge` with the same alpha on all rows. The estimator stores sums of
    products and no rows. It has no learning rate, and alpha="auto" is selected from the sums.

    Parameters
    ----------
    alpha : "auto", float, or array of float (n_targets,)
        The penalty on squared weights, at least 0; each of several targets may have its own. "auto"
        selects the alpha with the largest restricted likelihood for all targets together, from the
        sums, when weights are first needed after learning. Alpha may be changed at any time.
    fit_intercept : bool
        Whether to fit an intercept, which has no penalty.
    solver : "gram", "orthogonal" or "recursive"
        The form of the statistics; see the table in the notes.
    forgetting_factor : float
        Factor in (0, 1] by which every learnt row multiplies the weights of all earlier rows.
    scaling : None, "standard" or "auto"
        What the penalty acts on: raw columns (None), or columns divided by their standard
        deviations over all rows learnt ("standard"). "auto", with alpha="auto", selects whichever
        of the two has the higher likelihood.

    Attributes
    ----------
    coef_ : ndarray (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray (n_targets,)
    alpha_ : float or ndarray (n_targets,)
        The alpha in force.
    n_samples_seen_ : int
        Rows learnt and not removed.

    Notes
    -----
    ============  ===========================  ===================================================
    solver        stores                       use it
    ============  ===========================  ===================================================
    "gram"        sums of products             by default; the only one that learns sparse rows by
                                               sparse products, where that is quicker
    "orthogonal"  the factor R of a QR         for nearly collinear columns, whose digits it keeps;
                  decomposition                it cannot unlearn
    "recursive"   an inverse and the weights   for single rows, with one number as alpha; with any
                                               other alpha it stores sums of products like "gram",
                                               until alpha is set to a number
    ============  ===========================  ===================================================

    Costs for M columns:

    ==================================  =============================================
    memory                              ``4 M^2`` bytes, up to 1,024 columns ``8 M^2``
    learn a row                         ``M^2`` operations
    first weights after learning        ``M^3 / 3`` operations; ten times that for "auto"
    ==================================  =============================================

    `sample_weight` counts repetitions: a row of weight 2 equals two rows. ``n_features_in_`` and
    ``feature_names_in_`` are as everywhere in scikit-learn.

    Every public method and attribute takes the estimator's lock, so several threads may call it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> y = X @ [1.0, 2.0, 3.0] + 4.0
    >>> model = IncrementalRidge(alpha=1.0)
    >>> for chunk in np.split(np.arange(1000), 10):
    ...     model = model.partial_fit(X[chunk], y[chunk])
    >>> bool(np.allclose(model.coef_, Ridge(alpha=1.0).fit(X, y).coef_, rtol=1e-12))
    True
    """

    _alphas = '"auto", a number of at least 0, or a list of one such number per target'

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Discard everything learnt, then learn these rows; see `partial_fit`."""
        with held(self):
            return self._learn(X, y, sample_weight, begins=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows in addition to the rows learnt before.

        Parameters
        ----------
        X : array, frame or sparse matrix (n_samples, n_features)
            Rows of numbers.
        y : array (n_samples,) or (n_samples, n_targets)
            Targets, numbers.
        sample_weight : float or array (n_samples,), optional
            Weights, at least 0: weight 2 equals learning the row twice.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the rows cannot be learnt; nothing has changed then.
        """
        with held(self):
            return self._learn(X, y, sample_weight, begins=not hasattr(self, "_model"))

    def _read_rows(self, X: Any, y: Any, begins: bool) -> tuple[Any, Targets]:
        if np.ma.is_masked(y):
            raise ValueError("y contains masked targets, expected numbers. Leave these rows out.")
        X, y = readable_rows(X), as_numpy(readable(y), "y")
        X, y = validate_data(
            self, X, y, **VALIDATION_SETTINGS, multi_output=True, y_numeric=True, reset=begins
        )
        targets = np.asarray(y, dtype=np.float64)
        check_values("y", targets)
        names: tuple[Any, ...] = ("y",) if y.ndim == 1 else tuple(range(y.shape[1]))
        if not begins and names != self._model._outputs:
            before = "(n,)" if self._has_one_target else f"(n, {len(self._model._outputs)})"
            raise ValueError(
                f"y has shape {y.shape}, expected {before} as before. Pass the same targets."
            )
        check_alphas(self.alpha, len(names))
        return X, Targets(targets.reshape(len(targets), -1), names)

    def _new_model(self, targets: Targets) -> LinearModel:
        if targets.outputs == ("y",):
            return LeastSquaresRegressor(**self._settings())
        return LeastSquaresMultiTargetRegressor(**self._settings())

    @property
    def _has_one_target(self) -> bool:
        """Whether targets are a vector."""
        return isinstance(self._model, LeastSquaresRegressor)

    @property
    def coef_(self) -> Floats:
        """Weights, (n_features,) or (n_targets, n_features)."""
        with held(self):
            weights = self._solved().weights
            return weights[:, 0].copy() if self._has_one_target else weights.T.copy()

    @property
    def intercept_(self) -> Any:
        """The intercept, a float or (n_targets,)."""
        with held(self):
            intercept = self._solved().intercept
            return float(intercept[0]) if self._has_one_target else intercept.copy()

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions, and their standard deviations on request.

        Parameters
        ----------
        X : array, frame or sparse matrix (n_samples, n_features)
            Rows to predict.
        return_std : bool
            Whether to return also the standard deviation of a new target about its prediction.

        Returns
        -------
        ndarray (n_samples,) or (n_samples, n_targets), or a pair of these arrays
        """
        with held(self):
            X, solution, one = self._rows_to_predict(X), self._solved(), self._has_one_target
            scores = scored(X, solution.weights, solution.intercept)
            if not return_std:
                return scores[:, 0] if one else scores
            deviations, _ = self._deviations(X)
            return (scores[:, 0], deviations[:, 0]) if one else (scores, deviations)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return intervals that contain new targets with a given probability.

        Parameters
        ----------
        X : array, frame or sparse matrix (n_samples, n_features)
            Rows to predict.
        level : float
            The probability, above 0 and below 1.

        Returns
        -------
        lower, upper : ndarray (n_samples,) or (n_samples, n_targets)
            Infinite until there are more rows than parameters.

        Raises
        ------
        ValueError
            If `level` is not between 0 and 1.

        Notes
        -----
        Student's t intervals, equal to those of
        `onlinels.LeastSquaresRegressor.predict_interval_many` at the same ridge. They are exact for
        alpha=0 and normal errors of equal variance. For M features the first call after learning
        takes about ``M^3`` operations, then each row ``M^2``.

        Examples
        --------
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.1, 2.9]
        >>> model = IncrementalRidge(alpha=0.0).fit(X, y)
        >>> [end.round(2) for end in model.predict_interval([[1.5]])]
        [array([1.09]), array([1.91])]
        """
        with held(self):
            level = check_level(level)
            X, solution = self._rows_to_predict(X), self._solved()
            scores = scored(X, solution.weights, solution.intercept)
            deviations, free = self._deviations(X)
            reach = t_quantile(free, level) * deviations
            ends = scores - reach, scores + reach
            return (ends[0][:, 0], ends[1][:, 0]) if self._has_one_target else ends

    def _deviations(self, X: Any) -> tuple[Floats, Floats]:
        """Return deviations (n, n_targets) of new targets, and degrees of freedom (n_targets,)."""
        model, solution = self._model, self._solved()
        statistics = model._statistics
        rows = model._columns.place((self._layout,), dense(X))
        variances = np.empty((len(rows), statistics.n_targets))
        free = np.empty(statistics.n_targets)
        weights = np.empty_like(solution.weights)
        weights[model._columns.locate(self._layout)] = solution.weights
        for targets, own, penalties in by_alpha(statistics, solution.alpha, solution.units):
            covariance = own.covariance(*penalties)
            noise = noise_variances(statistics, weights, covariance)
            varying = rows
            if solution.units is not None and own is statistics:
                varying = np.where(solution.units > 0.0, rows, statistics.feature_mean)
            leverages = covariance.leverages(varying)
            variances[:, targets] = np.outer(1.0 + leverages, noise[targets])
            free[targets] = statistics.weight - covariance.n_parameters
        return np.sqrt(variances), free

    @classmethod
    def from_river(cls, model: Any) -> Self:
        """Return an estimator with the statistics of a river regressor; it learns independently.

        Parameters
        ----------
        model : LeastSquaresRegressor or LeastSquaresMultiTargetRegressor
            A regressor with a number or "auto" as ridge, and no half_life.
        """
        return cls._of_river(model, (LeastSquaresRegressor, LeastSquaresMultiTargetRegressor))


class IncrementalRidgeClassifier(ClassifierMixin, IncrementalModel):
    """Fit a ridge classifier in chunks; the result equals a single fit on all rows.

    After any sequence of `partial_fit`, `unlearn` and `merge`, `coef_` and `intercept_` equal those
    of `sklearn.linear_model.RidgeClassifier` with the same alpha on all rows, as if all classes had
    been known from the first row on.

    Parameters
    ----------
    alpha : "auto" or float
        The penalty on squared weights, as in `IncrementalRidge`; all classes share it.
    fit_intercept : bool
    solver : "gram", "orthogonal" or "recursive"
    forgetting_factor : float
    scaling : None, "standard" or "auto"
        As in `IncrementalRidge`.
    class_weight : None, dict or "balanced"
        Factors on the weights of rows by their label; the factor of a label that is not in the dict
        is 1. "balanced" uses the factors n / (K n_k) if n_k of the n rows of `fit` are in class k
        of K. `partial_fit` raises ValueError with "balanced", as that of
        `sklearn.linear_model.SGDClassifier` does: the numbers n_k of a stream are known only at its
        end, and sums for every class would take K times the memory. Use a dict with `partial_fit`.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        Labels, sorted.
    coef_ : ndarray (n_classes, n_features), for two classes (1, n_features)
        Weights for targets that are 1 for the class and -1 for the others.
    intercept_ : ndarray (n_classes,), for two classes (1,)
        Intercepts for the same targets.
    alpha_ : float
    n_samples_seen_ : int
        As in `IncrementalRidge`.

    Notes
    -----
    A label takes ``M`` operations a row, however many classes there are.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = IncrementalRidgeClassifier().partial_fit(X[:900], y[:900])
    >>> model = model.partial_fit(X[900:1500], y[900:1500])
    >>> round(model.score(X[1500:], y[1500:]), 2)
    0.87
    """

    _alphas = '"auto" or a number of at least 0'

    _declared = NO_DECLARED_LABELS
    # Factors of the labels that class_weight="balanced" has computed.
    _balanced: dict[Any, float] = {}  # noqa: RUF012

    def __init__(
        self,
        alpha: Any = "auto",
        *,
        fit_intercept: bool = True,
        solver: str = "gram",
        forgetting_factor: float = 1.0,
        scaling: str | None = None,
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            forgetting_factor=forgetting_factor,
            scaling=scaling,
        )
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if np.ndim(self.alpha):
            raise ValueError(
                f'alpha={self.alpha!r} is a list, expected one number or "auto": all classes share '
                "one alpha. Pass one number."
            )
        given = self.class_weight
        if isinstance(given, dict):
            for label, factor in given.items():
                check_not_negative(f"class_weight[{label!r}]", factor)
        elif not (given is None or (isinstance(given, str) and given == "balanced")):
            raise ValueError(
                f'class_weight={given!r} is not known. Pass None, a dict or "balanced".'
            )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Discard everything learnt, then learn these rows; see `partial_fit`."""
        with held(self):
            return self._learn(X, y, sample_weight, begins=True, _declared=NO_DECLARED_LABELS)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows in addition to the rows learnt before.

        Parameters
        ----------
        X : array, frame or sparse matrix (n_samples, n_features)
            Rows of numbers.
        y : array (n_samples,)
            Labels. New labels may arrive at any time.
        classes : array, optional
            Labels to list in `classes_` before their first row arrives.
        sample_weight : float or array (n_samples,), optional
            Weights, at least 0: weight 2 equals learning the row twice.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the rows cannot be learnt; nothing has changed then.
        """
        with held(self):
            if isinstance(self.class_weight, str):
                raise ValueError(
                    f"class_weight={self.class_weight!r}, expected None or a dict for partial_fit: "
                    "the number of rows that each class will have is unknown. Call fit, or pass "
                    "the weights of sklearn.utils.class_weight.compute_class_weight as a dict."
                )
            begins, labels = not hasattr(self, "_model"), self._declared
            if classes is not None:
                labels = united(labels, declared_labels(classes))
            return self._learn(X, y, sample_weight, begins, _declared=labels)

    def _read_rows(self, X: Any, y: Any, begins: bool) -> tuple[Any, Targets]:
        X, y = readable_rows(X), plain_labels("y", as_numpy(readable(y), "y"))
        X, y = validate_data(self, X, y, **VALIDATION_SETTINGS, reset=begins)
        check_classification_targets(y)
        labels, which = np.unique(y, return_inverse=True)
        before = Classes() if begins else self._model._classes  # type: ignore[attr-defined]
        known = self._declared if begins else united(self._declared, self._seen_labels())
        united(known, labels)
        classes = before.extended(labels.tolist())
        return X, Targets(classes.columns(labels.tolist())[which], classes)

    def _new_model(self, targets: Targets) -> LinearModel:
        return LeastSquaresClassifier(**self._settings())

    def _weights_of(self, targets: Targets, sample_weight: Any, begins: bool) -> float | Floats:
        weights = super()._weights_of(targets, sample_weight, begins)
        labels, given = targets.outputs.labels, self.class_weight
        if given == "balanced":
            if begins:
                counts = np.bincount(targets.values)
                balanced = len(targets.values) / (len(counts) * counts)
                self._balanced = dict(zip(labels, balanced.tolist(), strict=True))
            given = self._balanced
        elif begins:
            self._balanced = {}
        if given is None:
            return weights
        factors = np.array([float(given.get(label, 1.0)) for label in labels])
        by_row: Floats = weights * factors[targets.values]
        return by_row

    def _join(self, other: Self) -> None:
        united(self.classes_, other.classes_)
        if self._balanced != other._balanced:
            raise ValueError(
                f"other has the class weights {reprlib.repr(other._balanced)}, expected "
                f"{reprlib.repr(self._balanced)}: class_weight='balanced' computes them from the "
                "rows of one call of fit. Fit both with the same dict as class_weight."
            )
        super()._join(other)
        self._declared = united(self._declared, other._declared)

    def _seen_labels(self) -> Matrix:
        """Return the labels that have rows, sorted."""
        return sorted_labels("y", self._model._outputs)

    @property
    def classes_(self) -> Matrix:
        """The labels that were declared or have rows, sorted."""
        with held(self):
            check_is_fitted(self)
            return united(self._declared, self._seen_labels())

    def _by_class(self) -> tuple[Floats, Floats]:
        """Return weights (n_features, n_classes) and intercepts, for targets 0 and 1."""
        solution, labels = self._solved(), self.classes_.tolist()
        places = {label: column for column, label in enumerate(self._model._outputs)}
        columns = [(k, places[label]) for k, label in enumerate(labels) if label in places]
        here, there = map(list, zip(*columns, strict=True)) if columns else ([], [])
        weights = np.zeros((len(solution.weights), len(labels)))
        intercept = np.zeros(len(labels))
        weights[:, here], intercept[here] = solution.weights[:, there], solution.intercept[there]
        return weights, intercept

    @property
    def coef_(self) -> Floats:
        """Weights (n_classes, n_features), for two classes (1, n_features)."""
        with held(self):
            by_class = signed(self._by_class()[0])
        coef: Floats = by_class.T[1:] if by_class.shape[1] == 2 else by_class.T
        return coef.copy()

    @property
    def intercept_(self) -> Floats:
        """Intercepts (n_classes,), for two classes (1,)."""
        with held(self):
            intercept = signed(self._by_class()[1])
        return intercept[1:] if len(intercept) == 2 else intercept

    def _labelled_scores(self, X: Any) -> tuple[Matrix, Floats]:
        """Return the scores (n, n_classes) of rows, and the labels at the same moment."""
        with held(self):
            X = self._rows_to_predict(X)
            weights, intercept = self._by_class()
            if not intercept.size:
                raise ValueError(
                    "Every row has been unlearnt, expected at least one row. Learn rows first."
                )
            return self.classes_, scored(X, weights, intercept)

    def decision_function(self, X: Any) -> Floats:
        """Return scores (n_samples, n_classes), for two classes (n_samples,); the highest wins."""
        scores = signed(self._labelled_scores(X)[1])
        return scores[:, -1] if scores.shape[1] <= 2 else scores

    def predict(self, X: Any) -> Matrix:
        """Return the label with the highest score for every row."""
        labels, scores = self._labelled_scores(X)
        best: Matrix = labels[scores.argmax(axis=1)]
        return best

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities (n_samples, n_classes), the projection of scores onto the simplex.

        See `onlinels.scoring.probabilities_of`.
        """
        return probabilities_of(self._labelled_scores(X)[1])

    @classmethod
    def from_river(cls, model: Any) -> Self:
        """Return an estimator with the statistics of a river classifier; it learns independently.

        Parameters
        ----------
        model : LeastSquaresClassifier
            A classifier with a number or "auto" as ridge, no half_life and no priors.
        """
        if getattr(model, "priors", None) is not None:
            raise ValueError(
                f"model has priors={model.priors!r}, expected None: in scikit-learn, "
                "LinearDiscriminantAnalysis has priors and ridge classifiers do not. Set "
                "model.priors = None first."
            )
        new = cls._of_river(model, (LeastSquaresClassifier,))
        if hasattr(new, "_model"):
            sorted_labels("model", new._model._outputs)
        return new

    def to_river(self) -> Any:
        """Return a river classifier with the same statistics; see `IncrementalRidge.to_river`.

        The river models have no setting `class_weight`: rows that were learnt keep the weights that
        it gave them, and a warning tells how to weight later rows.
        """
        made = super().to_river()
        if self.class_weight is not None:
            warnings.warn(
                f"class_weight={self.class_weight!r} is not a setting of the river model, which "
                "weights later rows by w alone. Pass the weight of each label as w.",
                UserWarning,
                stacklevel=2,
            )
        return made


def scored(X: Any, weights: Floats, intercept: Floats) -> Floats:
    """Return scores (n, n_targets) of rows, which may be sparse."""
    scores: Floats = product(X, weights)
    scores += intercept
    return scores


def signed(by_class: Floats) -> Floats:
    """Convert weights or intercepts for targets 0 and 1, classes last, to targets -1 and 1."""
    of_signs: Floats = 2.0 * by_class - by_class.sum(axis=-1, keepdims=True)
    return of_signs


def declared_labels(classes: Any) -> Matrix:
    """Return declared labels, sorted; raise if they cannot be labels."""
    remedy = "Pass the labels as y will have them, or leave classes out."
    shape = np.shape(classes)
    if len(shape) != 1:
        raise ValueError(f"classes has shape {shape}, expected (n_classes,). {remedy}")
    try:
        labels = np.asarray(plain_labels("classes", classes))
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("nan and infinity are not labels.")
        check_classification_targets(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"classes={classes!r} cannot be labels: {error} {remedy}") from error
    return np.unique(labels)


def plain_labels(argument: str, labels: Any) -> Any:
    """Return labels that a numpy array holds exactly; raise if labels are missing or change."""
    array = np.asarray(labels)
    is_numpy = isinstance(getattr(labels, "dtype", array.dtype), np.dtype)
    is_numpy = is_numpy and not isinstance(labels, (list, tuple, np.ma.MaskedArray))
    if array.ndim != 1 or (is_numpy and array.dtype.kind in "biufcU"):
        return labels
    # Numpy would convert numbers beside texts to texts, and nullable integers to floats.
    return exact_array(argument, read_labels(labels))


def exact_array(argument: str, labels: Sequence[Any]) -> Matrix:
    """Return labels as an array (n,); raise unless an array holds exactly these labels."""
    labels = [*map(in_plain_types, labels)]
    different = list(dict.fromkeys(labels))
    array = label_array(labels)
    if array.dtype == object and all(isinstance(label, numbers.Real) for label in different):
        # Numpy converts a list of bools and integers beyond int64 to objects.
        kinds = {type(label) for label in different}
        own = [label_array([each for each in different if type(each) is kind]) for kind in kinds]
        array = np.array(labels, np.result_type(*own))
    if array.dtype == object or set(array.tolist()) != set(different):
        raise ValueError(
            f"{argument} holds the labels {reprlib.repr(different)}, expected labels that one "
            "array stores exactly: only texts, or only numbers of one type. Convert all labels to "
            "text first, for instance with [repr(label) for label in labels]."
        )
    return array


def sorted_labels(argument: str, labels: Sequence[Any]) -> Matrix:
    """Return different labels, sorted, as an array; raise as `exact_array`.

    Examples
    --------
    >>> sorted_labels("y", ["b", "a", "b"]), sorted_labels("y", [1, 0.5])
    (array(['a', 'b'], dtype='<U1'), array([0.5, 1. ]))
    """
    return np.unique(exact_array(argument, labels)) if len(labels) else NO_DECLARED_LABELS


def united(known: Matrix, labels: Matrix) -> Matrix:
    """Return the labels of both, sorted; raise unless an array can hold both."""
    if not len(known) or not len(labels):
        return labels if len(labels) else known
    both: Matrix = np.union1d(known, labels)
    values = [*known.tolist(), *labels.tolist()]
    return both if set(both.tolist()) == set(values) else sorted_labels("y", values)


class HiddenLayerTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Compute the hidden activations of `onlinels.HiddenLayer` by fit and transform.

    The input weights are fixed. `fit` uses its rows only for the scales of columns and, for
    differences, for examples; the first chunk is enough.

    Parameters
    ----------
    n_hidden, input_weights, activation, bias
        As in `onlinels.HiddenLayer`. Differences of classes need y.
    standardize : bool
        Whether to standardise the input columns by their means and deviations in the rows of `fit`.
    random_state : int, RandomState or None
        Seed of the random input weights; None draws other weights in every fit.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(HiddenLayerTransformer(100), IncrementalRidgeClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    # Made by fit.
    _layer: HiddenLayer
    _n_features_out: int

    def __init__(
        self,
        n_hidden: int = 300,
        *,
        input_weights: str = "gaussian",
        activation: str = "relu",
        bias: bool = True,
        standardize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.input_weights = input_weights
        self.activation = activation
        self.bias = bias
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the input weights, and compute the scales of columns."""
        kind = self.input_weights
        labels = y if isinstance(kind, str) and kind in DIFFERENCE_KINDS else None
        with held(self):
            seed = self.random_state
            if not isinstance(seed, numbers.Integral):
                seed = int(check_random_state(seed).randint(2**31))
            new = shallow_copy(self)
            X = validate_data(new, readable_rows(X), dtype=VALIDATION_SETTINGS["dtype"])
            settings = self.n_hidden, self.input_weights, self.activation, int(seed)
            flags: dict[str, Any] = {"bias": self.bias, "standardize": self.standardize}
            new._layer = HiddenLayer.from_examples(X, labels, *settings, **flags)
            new._n_features_out = self.n_hidden
            publish(new, self)
        return self

    def transform(self, X: Any) -> Floats:
        """Return activations (n_samples, n_hidden)."""
        with held(self):
            check_is_fitted(self, "_layer")
            X = validate_data(
                self, readable_rows(X), dtype=VALIDATION_SETTINGS["dtype"], reset=False
            )
            layer = self._layer
        # A fixed layer needs no lock: several threads may transform at once.
        activations: Floats = layer.transform_many(X)
        return activations


__all__ = ["HiddenLayerTransformer", "IncrementalRidge", "IncrementalRidgeClassifier"]
