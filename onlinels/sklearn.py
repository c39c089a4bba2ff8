"""Estimators with scikit-learn's interface around the exact models: fit, partial_fit, coef_."""

from __future__ import annotations

import copy
import numbers
import re
import reprlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
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

from onlinels.checks import (
    Floats,
    Matrix,
    check_mergeable,
    check_weights,
    readable,
    refusal,
)
from onlinels.features.hidden import HiddenLayer
from onlinels.features.input_weights import DIFFERENCE_KINDS
from onlinels.linear.classifier import LeastSquaresClassifier
from onlinels.linear.model import checked, ready_state, scores_of, teach, unlearn
from onlinels.linear.regressors import (
    LeastSquaresMultiTargetRegressor,
    LeastSquaresRegressor,
    check_level,
)
from onlinels.linear.scoring import probabilities_of
from onlinels.linear.state import in_force, makes_no_choices, without_choices
from onlinels.locks import Lock, all_held
from onlinels.numerics import read_whole, restore, shallow_copy, zero_added
from onlinels.rows.answers import label_array
from onlinels.rows.batch import (
    Batch,
    Layout,
    as_frame,
    as_numpy,
    matched_by_position,
    read_batch,
    without_wide_integers,
)
from onlinels.rows.labels import read_label, read_labels
from onlinels.saving import in_plain_types
from onlinels.sums.rows import Rows, Targets

FIXED_PARAMETERS = {
    "fit_intercept": "fit_intercept",
    "solver": "accumulator",
    "forgetting_factor": "forgetting_factor",
    "scaling": "scaling",
}
"""Parameters that cannot change after the first rows, and their names in river's models."""


ESTIMATOR_TERMS = {
    r"\ba ridge\b": "an alpha",
    r"\bridge\b": "alpha",
    r"\baccumulator=": "solver=",
    r"\bw holds\b": "sample_weight holds",
    r"\bseed=": "random_state=",
    r"\bMake all models with one model's empty\(\)": "Make all estimators with sklearn.base.clone",
    r"\bLeastSquaresMultiTargetRegressor\b": "y of shape (n_samples, n_targets)",
    r"\briver's preprocessing\.StatImputer, which fills None": "scikit-learn's SimpleImputer",
    r"\briver's preprocessing\.OneHotEncoder": "scikit-learn's OneHotEncoder",
    r"\briver's FeatureHasher\(": "scikit-learn's HashingVectorizer(",
}
"""Names in the messages of the inner models, and what estimators have in their place."""

FLOAT_TYPES = (np.float64, np.float32)

VALIDATION_SETTINGS: dict[str, Any] = {"accept_sparse": "csr", "dtype": FLOAT_TYPES}
"""Arguments of scikit-learn's `validate_data`."""


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
    own = {*estimator.get_params(deep=False), "_lock"}
    kept = {name: each for name, each in vars(estimator).items() if name in own}
    # Replaced as a whole: after a fit on columns without names, the old names are gone.
    estimator.__dict__ = vars(fitted) | kept


class IncrementalModel(BaseEstimator):
    """Base of both estimators: a river model learns, unlearns, merges and predicts."""

    n_features_in_: int

    # Of the river model, by the number of axes of the targets.
    _river_classes: ClassVar[tuple[Any, ...]]
    # Made by the first rows.
    _model: Any
    # Labels of the argument `classes` of a classifier.
    _declared: tuple[Any, ...] = ()

    def __init__(
        self,
        alpha: Any = "auto",
        *,
        fit_intercept: bool = True,
        solver: str = "gram",
        forgetting_factor: float = 1.0,
        scaling: str | None = "auto",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.forgetting_factor = forgetting_factor
        self.scaling = scaling

    # What merging compares.
    _get_params = BaseEstimator.get_params

    def __getstate__(self) -> dict[str, Any]:
        """Return a consistent state: copies and pickles learn independently."""
        with held(self):
            return {name: copy.copy(each) for name, each in vars(self).items() if name != "_lock"}

    __setstate__ = restore

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    @property
    def _version(self) -> tuple[Any, ...]:
        """The objects by which states of the estimator differ; see `read_whole`."""
        model = vars(self).get("_model")
        return model, self._declared, *(() if model is None else model._version)

    def _checked_alpha(self) -> Any:
        """Return alpha; raise unless it is known."""
        alpha = self.alpha
        is_number = isinstance(alpha, numbers.Real) and not isinstance(alpha, bool)
        known = alpha == "auto" if isinstance(alpha, str) else is_number and float(alpha) >= 0.0
        if not known:
            found, expected = f"alpha={reprlib.repr(alpha)}", 'a number of at least 0, or "auto"'
            remedy = "For another alpha per target, fit an estimator per target."
            raise refusal(found, "is not known", expected, remedy)
        return alpha

    def _current(self) -> Any:
        """Return the river model with the current alpha; raise if other parameters changed."""
        check_is_fitted(self)
        model, alpha = self._model, self._checked_alpha()
        for mine, theirs in FIXED_PARAMETERS.items():
            before, now = getattr(model, theirs), getattr(self, mine)
            if before != now:
                found = f"has changed from {before!r} to {now!r} since rows were learnt"
                remedy = "Set it back, or call fit, which starts again."
                raise refusal(mine, found, "the same value", remedy)
        if model.ridge != alpha:
            model.ridge = alpha
        if makes_no_choices(model._state):
            model.select_ridge()  # A call that learnt rows was interrupted before it did.
        return model

    # Rows in and out.

    @abstractmethod
    def _read_rows(self, X: Any, y: Any, begins: bool) -> tuple[Any, Targets]:
        """Return checked rows, and their targets as the river model takes them."""

    def _made(self, n_axes: int) -> Any:
        """Return the river model; the first rows make it, for targets of so many axes."""
        if not hasattr(self, "_model"):
            settings = {theirs: getattr(self, mine) for mine, theirs in FIXED_PARAMETERS.items()}
            self._model = self._river_classes[n_axes - 1](self._checked_alpha(), **settings)
        return self._model

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Batch, Targets, float | Floats]:
        """Return rows, targets and weights, read and checked."""
        begins = not hasattr(self, "_model")
        X, targets = self._read_rows(X, y, begins)
        weights = check_weights(sample_weight, len(targets.values), "sample_weight")
        if begins and not np.any(weights):
            found, expected = "is zero in every row", "one above 0 in the first rows"
            raise refusal("sample_weight", found, expected, "Leave out rows of weight 0.")
        return self._batch(X), targets, weights

    @property
    def _layout(self) -> Layout:
        """The names of the columns in the river model."""
        names = getattr(self, "feature_names_in_", None)
        return range(self.n_features_in_) if names is None else tuple(names)

    def _batch(self, X: Any) -> Batch:
        return replace(read_batch(X), layouts=(self._layout,))

    def _asked(self, X: Any) -> tuple[Any, Batch]:
        """Return the river model and checked rows to predict."""
        model = self._current()
        if model._state.is_blank:
            raise refusal("Every row", "has been unlearnt", "at least one", "Learn rows first.")
        X = validate_data(self, readable_rows(X), **VALIDATION_SETTINGS, reset=False)
        # Validated already: reading the values once more would take a third of the time.
        batch = self._batch(X) if issparse(X) else Batch(len(X), lambda: X, (self._layout,), X)
        return model, batch

    @matched_by_position
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Discard everything learnt, then learn these rows; see `partial_fit`."""
        with held(self):
            return self._learn(self._forgotten, X, y, sample_weight)

    def _forgotten(self) -> Self:
        """Return a copy that has learnt nothing."""
        new = shallow_copy(self)
        for name in ("_model", "_declared"):
            vars(new).pop(name, None)
        return new

    def _learn(self, make: Callable[[], Any], X: Any, y: Any, sample_weight: Any) -> Self:
        """Learn rows with a copy of this estimator that is made, then take over its state."""

        def read() -> tuple[Any, Any, Rows]:
            new = make()
            batch, targets, weights = new._read(X, y, sample_weight)
            model = new._current()
            return new, model, checked(model, batch, targets, weights, None)

        new, model, rows = read_whole(read, self)
        if self.alpha == "auto":
            # Alpha is selected when weights are next needed, not at the model's checkpoints.
            model._state = without_choices(model._state)
        teach(model, rows)
        model.select_ridge()
        publish(new, self)
        return self

    @matched_by_position
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
            model = self._current()
            unlearn(model, lambda: self._read(X, y, sample_weight), keeps_features=True)
        return self

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
        with held(self):
            check_mergeable(self, other)
        with held(self, other):
            if hasattr(self, "_model") and hasattr(other, "_model"):
                self._join(other)
            elif hasattr(other, "_model"):
                publish(copy.copy(other), self)
        return self

    def _join(self, other: Self) -> None:
        """Add the statistics of another estimator; both have learnt rows."""
        mine, theirs = ([*each._layout] for each in (self, other))
        if mine != theirs:
            remedy = "Merge estimators that were fitted to the same columns."
            raise refusal("other", f"has the features {theirs}", str(mine), remedy)
        self._current().merge(other._current())

    def __add__(self, other: Self) -> Self:
        """Return a new estimator that has learnt the rows of both."""
        return copy.copy(self).merge(other)

    __radd__ = zero_added

    # Weights and predictions.

    @abstractmethod
    def _shaped(self, values: Floats) -> Floats:
        """Return values (n, n_outputs) of the river model as scikit-learn has them."""

    def _weights(self) -> Floats:
        """Return weights by column and, in the last row, intercepts, as a new array."""
        model = self._current()
        order = model._state.columns.locate(self._layout)
        return self._shaped(np.vstack((model.output_weights[order], model.intercept)))

    @property
    def coef_(self) -> Floats:
        """Weights (n_features,) or (n_targets, n_features); for two classes (1, n_features)."""
        with held(self):
            return self._weights()[:-1].T

    @property
    def intercept_(self) -> Any:
        """The intercept, a float or (n_targets,); for two classes (1,)."""
        with held(self):
            intercept = self._weights()[-1]
            return intercept if np.ndim(intercept) else float(intercept)

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows learnt and not removed, whatever their weights."""
        with held(self):
            check_is_fitted(self)
            return int(self._model.count)

    @property
    def alpha_(self) -> float:
        """The alpha that was set or selected."""
        with held(self):
            return float(self._current().ridge_)

    @property
    def scaling_(self) -> str | None:
        """What alpha acts on: "standard" for standardised columns, None for raw ones."""
        with held(self):
            return None if in_force(ready_state(self._current()))[1] is None else "standard"

    def to_river(self) -> Any:
        """Return a river model with the same statistics; it then learns independently.

        Returns
        -------
        LeastSquaresClassifier, LeastSquaresRegressor or LeastSquaresMultiTargetRegressor
            Columns without names are the features 0, 1, … of dicts. With alpha="auto" the ridge is
            `alpha_` until the river model selects the next ridge. A river model learns further
            chunks by `learn_many`, and cannot become an estimator again. The river models have no
            setting `class_weight`: pass the weight of each label as ``w``.

        Examples
        --------
        >>> model = IncrementalRidge(alpha=0.0).partial_fit([[0.0], [1.0]], [0.0, 2.0])
        >>> round(model.to_river().predict_one({0: 3.0}), 9)
        6.0
        """
        with held(self):
            return copy.copy(self._current())


def readable_rows(X: Any) -> Any:
    """Return rows as scikit-learn can read them, with the names of their columns."""
    X = as_numpy(X)
    return X if readable(X) is X else without_wide_integers(as_frame(X)).to_native()


class IncrementalRidge(MultiOutputMixin, RegressorMixin, IncrementalModel):
    """Fit ridge regression in chunks; the result equals a single fit on all rows.

    After any sequence of `partial_fit`, `unlearn` and `merge`, `coef_` and `intercept_` equal those
    of `sklearn.linear_model.Ridge` with the same alpha on all rows. The estimator stores sums of
    products and no rows. It has no learning rate, and alpha="auto" is selected from the sums.

    Parameters
    ----------
    alpha : "auto" or float
        The penalty on squared weights, at least 0. "auto" selects the alpha with the largest
        restricted likelihood for all targets together, from the sums, when weights are first needed
        after learning. Alpha may be changed at any time.
    fit_intercept : bool
        Whether to fit an intercept, which has no penalty.
    solver : "gram", "orthogonal" or "recursive"
        The form of the statistics; see the table in the notes.
    forgetting_factor : float
        Factor in (0, 1] by which every learnt row multiplies the weights of all earlier rows.
    scaling : "auto", "standard" or None
        What the penalty acts on: raw columns (None), or columns divided by their standard
        deviations over all rows learnt ("standard"). With alpha="auto", "auto" selects whichever
        of the two has the higher likelihood; with a number, it means None.

    Attributes
    ----------
    coef_ : ndarray (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray (n_targets,)
    alpha_ : float
        The alpha that was set or selected; with forgetting and "recursive", it decays with the rows
        and is set to this value again when it falls below half of it.
    scaling_ : "standard" or None
        What alpha acts on. Only with None is `alpha_` the alpha of the same `Ridge`; so if alpha is
        to be set to `alpha_` later, choose `scaling` before the first row.
    n_samples_seen_ : int
        Rows learnt and not removed.

    Notes
    -----
    ============  ===========================  ===================================================
    solver        stores                       use it
    ============  ===========================  ===================================================
    "gram"        sums of products             by default; learns sparse rows by sparse products,
                                               where that is quicker
    "orthogonal"  the factor R of a QR         for nearly collinear columns, whose digits it keeps;
                  decomposition                it cannot unlearn
    "recursive"   sums of products             as "gram", but with forgetting alpha decays with the
                                               rows: for single rows
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

    _river_classes = (LeastSquaresRegressor, LeastSquaresMultiTargetRegressor)

    @matched_by_position
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
            return self._learn(lambda: shallow_copy(self), X, y, sample_weight)

    def _read_rows(self, X: Any, y: Any, begins: bool) -> tuple[Any, Targets]:
        if np.ma.is_masked(y):
            raise refusal("y", "contains masked targets", "numbers", "Leave these rows out.")
        X, y = readable_rows(X), as_numpy(readable(y), "y")
        X, y = validate_data(
            self, X, y, **VALIDATION_SETTINGS, multi_output=True, y_numeric=True, reset=begins
        )
        model = self._made(y.ndim)
        expected = self._shaped(np.empty((len(y), len(model._state.outputs)))).shape
        if model._state.outputs and y.shape != expected:
            before = f"{expected} as before"
            raise refusal("y", f"has shape {y.shape}", before, "Pass the same targets.")
        return X, model._read_targets(y, len(y))

    def _shaped(self, values: Floats) -> Floats:
        return values[:, 0] if self._model._named is None else values

    score = matched_by_position(RegressorMixin.score)

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
            model, batch = self._asked(X)
            if not return_std:
                return self._shaped(scores_of(model, batch))
            means, variances = model._normals(batch)
            return self._shaped(means), self._shaped(np.sqrt(variances))

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
            model, batch = self._asked(X)
            lower, upper = map(self._shaped, model._ends(batch, check_level(level)))
            return lower, upper


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
    scaling : "auto", "standard" or None
        As in `IncrementalRidge`.

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
    A label takes ``M`` operations a row, however many classes there are. There is no
    `class_weight`, because the class frequencies of a stream are known only at its end: pass the
    weights of rows, such as those of `sklearn.utils.class_weight.compute_sample_weight`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = IncrementalRidgeClassifier().partial_fit(X[:900], y[:900])
    >>> model = model.partial_fit(X[900:1500], y[900:1500])
    >>> round(model.score(X[1500:], y[1500:]), 2)
    0.87
    """

    _river_classes = (LeastSquaresClassifier,)

    @matched_by_position
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

            def make() -> Any:
                new = shallow_copy(self)
                if classes is not None:
                    labels = (read_label(each, f"classes[{k}]") for k, each in enumerate(classes))
                    new._declared = (*self._declared, *labels)
                return new

            return self._learn(make, X, y, sample_weight)

    def _read_rows(self, X: Any, y: Any, begins: bool) -> tuple[Any, Targets]:
        y = as_numpy(readable(y), "y")
        is_plain = type(y) is np.ndarray and (y.dtype != object or y.ndim != 1)
        if not (is_plain or y is None):
            # Numpy would convert numbers beside texts to texts, and nullable integers to floats.
            y = exact_array("y", read_labels(y))
        X, y = validate_data(self, readable_rows(X), y, **VALIDATION_SETTINGS, reset=begins)
        check_classification_targets(y)
        # Measured: a fifth faster than reading the label of each row.
        labels, which = np.unique(y, return_inverse=True)
        model = self._made(1)
        exact_array("y", [*self._declared, *model.classes, *labels.tolist()])
        columns, classes = model._read_targets(labels, len(labels))
        return X, Targets(columns[which], classes)

    def _join(self, other: Self) -> None:
        declared = (*self._declared, *other._declared)
        exact_array("other", [*declared, *self._model.classes, *other._model.classes])
        super()._join(other)
        self._declared = (*self._declared, *other._declared)

    @property
    def classes_(self) -> Matrix:
        """The labels that were declared or have rows, sorted."""
        with held(self):
            check_is_fitted(self)
            return np.unique(exact_array("y", [*self._declared, *self._model.classes]))

    def _by_class(self, values: Floats) -> Floats:
        """Return values (n, n_classes) in the order of `classes_`; 0 for labels without rows."""
        labels = self.classes_.tolist()
        ordered = np.zeros((len(values), len(labels)))
        ordered[:, [labels.index(label) for label in self._model.classes]] = values
        return ordered

    def _shaped(self, values: Floats) -> Floats:
        # From targets 0 and 1 to targets -1 and 1; of two classes only the second.
        by_class = self._by_class(values)
        signed: Floats = 2.0 * by_class - by_class.sum(axis=-1, keepdims=True)
        return signed[:, 1:] if signed.shape[1] == 2 else signed

    def _scores(self, X: Any) -> Floats:
        """Return scores (n, n_classes) for targets 0 and 1, in the order of the river model."""
        model, batch = self._asked(X)
        return scores_of(model, batch)

    score = matched_by_position(ClassifierMixin.score)

    def decision_function(self, X: Any) -> Floats:
        """Return scores (n_samples, n_classes), for two classes (n_samples,); the highest wins."""
        with held(self):
            scores = read_whole(lambda: self._shaped(self._scores(X)), self)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Matrix:
        """Return the label with the highest score for every row."""
        with held(self):
            scores, classes = read_whole(lambda: (self._scores(X), self._model.classes), self)
            return np.asarray(exact_array("y", classes)[scores.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities (n_samples, n_classes), the projection of scores onto the simplex.

        See `onlinels.linear.scoring.probabilities_of`.
        """
        with held(self):
            return probabilities_of(read_whole(lambda: self._by_class(self._scores(X)), self))


def exact_array(argument: str, labels: Iterable[Any]) -> Matrix:
    """Return labels as an array (n,); raise unless an array holds exactly these labels."""
    labels = [*map(in_plain_types, labels)]
    array = label_array(labels)
    if labels and array.dtype == object:
        different = reprlib.repr(list(dict.fromkeys(labels)))
        kinds = " and ".join(dict.fromkeys(type(label).__name__ for label in labels))
        found = f"holds the labels {different} of type {kinds}, counting earlier rows"
        remedy = "Convert all labels to one type first, such as int, or to text with repr."
        raise refusal(argument, found, "labels that one array stores exactly", remedy)
    return array


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

    @matched_by_position
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the input weights, and compute the scales of columns."""
        labels = y if str(self.input_weights) in DIFFERENCE_KINDS else None
        with held(self):
            seed = self.random_state
            if not isinstance(seed, numbers.Integral):
                seed = int(check_random_state(seed).randint(2**31))
            new = shallow_copy(self)
            X = validate_data(new, readable_rows(X), dtype=FLOAT_TYPES)
            settings = self.get_params(deep=False) | {"seed": int(seed)}
            del settings["random_state"]
            new._layer = HiddenLayer.from_examples(X, labels, **settings)
            new._n_features_out = self.n_hidden
            publish(new, self)
        return self

    def transform(self, X: Any) -> Floats:
        """Return activations (n_samples, n_hidden)."""
        with held(self):
            check_is_fitted(self, "_layer")
            X = validate_data(self, readable_rows(X), dtype=FLOAT_TYPES, reset=False)
            layer = self._layer
        # A fixed layer needs no lock: several threads may transform at once.
        return np.asarray(layer.transform_many(X))


__all__ = ["HiddenLayerTransformer", "IncrementalRidge", "IncrementalRidgeClassifier"]
