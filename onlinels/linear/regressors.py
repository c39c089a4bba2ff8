"""Exact online least squares behind river's regressor interfaces: one target, or many by name."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from itertools import starmap
from math import sqrt
from typing import Any

import numpy as np
from river import base

from onlinels.checks import Floats, check_number, check_values, read_number
from onlinels.core.reference import sum_of_powers
from onlinels.linear.forgetting import HalfLife
from onlinels.linear.model import (
    LinearModel,
    linear_is_sound,
    names_of_targets,
    read_asked,
    ready_state,
    scores_of,
)
from onlinels.linear.prequential import Answers, answered, put_in_place
from onlinels.linear.ridge import Ridge, Scaling
from onlinels.linear.settings import Settings
from onlinels.linear.single import ONE_TARGET, rows_of
from onlinels.linear.solving import Spread, spread_of
from onlinels.numerics import read_whole
from onlinels.rows.answers import numbers_like, table_like
from onlinels.rows.batch import (
    ARRAY_TYPES,
    Batch,
    Name,
    array_in,
    matched_by_position,
    plain_names,
    read_batch,
    read_sample,
    reader_of,
    sorted_names,
)
from onlinels.rows.labels import as_list, check_one_column
from onlinels.saving import savable
from onlinels.sums.rows import Targets

TARGET_REMEDY = (
    "Pass one number; for labels use a classifier, for several targets "
    "LeastSquaresMultiTargetRegressor."
)

MISSING_TARGET_REMEDY = "Leave the row out until its target is known; rescale large targets."


Ends = tuple[float, float]
"""The lower and the upper end of an interval."""

Named = tuple[Name, ...] | None
"""Names of several targets; None for one target."""


def gaussian(mean: float, variance: float) -> Any:
    """Return river's normal distribution, whose constructor does not accept its parameters.

    Examples
    --------
    >>> gaussian(1.0, 4.0).mu, gaussian(1.0, 4.0).sigma
    (1.0, 2.0)
    """
    return kind_of_normals().of(mean, variance)


@cache
def kind_of_normals() -> Any:
    """Return the class of normal distributions."""
    # Imported here, because it takes as long as all of this package.
    from onlinels.linear.normal import Gaussian

    return Gaussian


def check_level(level: Any) -> float:
    """Return the probability of an interval; raise unless it is between 0 and 1."""
    check_number("level", level, lambda number: 0.0 < number < 1.0, "above 0 and below 1")
    return float(level)


def _targets_are_sound(model: Any) -> bool:
    outputs = model._state.outputs
    return linear_is_sound(model) and type(outputs) is type(model._known_names)


class RealValuedModel(LinearModel):
    """Linear least squares on real-valued targets; every row has the same targets."""

    # Names of targets that are known before the first row.
    _known_names: tuple[Name, ...] | str = ()

    def _read_one(self, x: Any) -> Batch:
        """Return a sample; before anything is learnt, do not read its values."""
        array_in(x)
        return read_sample({} if self._state.is_blank else x)

    def _spread(self) -> Spread:
        return spread_of(ready_state(self))

    def _normals(self, batch: Batch) -> tuple[Floats, Floats]:
        """Return means and variances of new targets, (n, n_targets) each."""
        return read_whole(lambda: (scores_of(self, batch), self._variances(batch, own=1.0)), self)

    def _spread_one(self, x: Any) -> tuple[Any, float]:
        """Return the mean and variance of every new target for a sample, and degrees of freedom."""
        rows = self._state.following.rows or rows_of(self._state)
        known: Any = NotImplemented if rows is None else rows.spread(x)
        return self._spread_asked(x) if known is NotImplemented else known

    def _spread_asked(self, x: Any) -> tuple[Any, float]:
        """Return the spread of a sample for which the core does not answer."""
        if self._state.is_blank:
            array_in(x)
            return self._one([(0.0, np.inf)] * self._state.statistics.n_targets), 0.0

        def read() -> tuple[Any, float]:
            batch = self._read_one(x)
            # As a prediction, which lets the weights follow the next rows.
            means, variances = self._scores_one(x), self._variances(batch, own=1.0)[0]
            pairs = [*zip(means, variances.tolist(), strict=True)]
            return self._one(pairs), self._spread().free

        return read_whole(read, self)

    def _ends(self, batch: Batch, level: float) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of prediction intervals, (n, n_targets) each."""
        means, variances = self._normals(batch)
        reach = t_quantile(self._spread().free, level) * np.sqrt(variances)
        return means - reach, means + reach

    @property
    def _named(self) -> Named:
        """Names of the targets in answers; None if there is one target, which has no name."""
        return None if self._known_names else self._state.outputs

    def _one(self, values: list[Any]) -> Any:
        """Return the values of the targets of one sample, in the form of its prediction."""
        names = self._named
        return values[0] if names is None else dict(zip(names, values, strict=True))

    def _each(self, make: Any, pairs: Any) -> Any:
        """Return what is made of the two numbers of every target of one sample."""
        if self._known_names:
            return make(*pairs)
        return {name: make(*pair) for name, pair in pairs.items()}

    def _many(self, source: Any, values: Floats) -> Any:
        """Return predictions (n, n_targets) in the kind of the input."""
        names = self._named
        if names is None:
            return numbers_like(source, values[:, 0])
        return table_like(source, names, values)

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False, t: Any = None) -> Any:
        """Return the prediction for one sample, or a normal distribution around it.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        with_dist : bool
            Whether to return the distribution of a new target instead of a number.
        t : optional
            Ignored; river's evaluation passes the time of a row.

        Returns
        -------
        float, or river.proba.Gaussian
            For several targets, a dict of them by target name, {} before anything is learnt. The
            distribution has the variance s^2 (1 + x'(A'A + c S^2)^-1 x), plus the variance of the
            intercept. s^2 = RSS / (n - p) is the residual sum of squares divided by the total
            weight of the rows minus the effective number of parameters. The variance, and `sigma`,
            are infinite unless n is greater than p; so they are infinite before anything is learnt.

        Notes
        -----
        Weights count as numbers of rows. With forgetting, s^2 is RSS / (n - v p), and the other two
        terms of the variance are multiplied by v, for the mean weight v = sum w^2 / sum w, which
        falls from 1 to a half while the memory fills. When it has fallen to 0.55, s^2 is RSS / n
        with n degrees of freedom, and the other terms are as without forgetting: on average over
        rows, this is the leave-one-out error RSS exp(p / n) / n. The ridge counts as prior
        knowledge about the weights, so a ridge that is far too large makes the variance too small
        where it matters.
        The statistics cannot resolve residuals below 1.5e-8 of the targets: `sigma` is then about
        1.5e-8 of the targets. With few rows, Student's t would have heavier tails; see
        `predict_interval_one`.

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0], [3.0]]), [0.1, 0.9, 2.1, 2.9])
        >>> model.predict_one({0: 1.5})
        1.5
        >>> fresh = model.predict_one({0: 1.5}, with_dist=True)
        >>> round(fresh.mu, 3), round(fresh.sigma, 3)
        (1.5, 0.141)
        """
        with self._lock:
            rows, known = self._state.following.rows or rows_of(self._state), NotImplemented
            if with_dist:
                kind = kind_of_normals()
                known = NotImplemented if rows is None else rows.normals(x, kind, "_moments")
                if known is NotImplemented:
                    known = self._each(kind.of, self._spread_asked(x)[0])
            elif rows is not None:
                known = rows.scores(x)
            return self._one(self._scores_asked(x)) if known is NotImplemented else known

    def predict_many(self, X: Any, with_dist: bool = False) -> Any:
        """Return the prediction for every row, or a normal distribution, in the kind of `X`.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows to predict.
        with_dist : bool
            Whether to return distributions of new targets instead of numbers; see `predict_one`.

        Returns
        -------
        array, series or list
            For several targets, an array, a frame or a list of dicts, with a column per target.
            With distributions: for an array, two arrays of means and standard deviations; for a
            frame, a frame with the columns "mean" and "std" (with several targets, "<target>_mean"
            and "<target>_std" of each); for a list, river.proba.Gaussian in the place of numbers.

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0]]), [1.0, 3.0, 5.3])
        >>> model.predict_many(np.array([[2.0], [3.0]])).round(2)
        array([5.25, 7.4 ])
        >>> model.predict_many(np.array([[2.0], [3.0]]), with_dist=True)[1].round(2)
        array([0.17, 0.22])
        """
        with self._lock:
            if not with_dist:
                return self._many(*self._batch_scores(X))
            batch = read_asked(self, X)
            return normals_like(batch.source, *self._normals(batch), self._named)

    @matched_by_position
    def predict_learn_many(
        self, X: Any, y: Any, w: Any = None, t: Any = None, with_dist: bool = False
    ) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train. The
        result is that of calling `predict_one` and `learn_one` for every row in turn, at the speed
        of a batch. The errors are the recursive residuals of the stream.

        Parameters
        ----------
        X, y, w, t
            Rows, targets, weights and times, as in `learn_many`.
        with_dist : bool
            Whether to return distributions of new targets instead of numbers; see `predict_many`.

        Returns
        -------
        array, series or list of n_rows floats
            In the kind of `X`, as in `predict_many`; 0.0 for rows before the first learnt row. In a
            list of several targets, {} if the targets were not known either.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt. The model is then unchanged.

        Notes
        -----
        The cost is that of `LeastSquaresClassifier.predict_learn_many`. With distributions, rows
        are predicted and learnt one by one, for ``M^2`` operations a row more, or ``M^3`` where
        every prediction solves for the weights.

        References
        ----------
        R. L. Brown, J. Durbin and J. M. Evans, "Techniques for testing the constancy of regression
        relationships over time" (1975).

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=1.0, fit_intercept=False)
        >>> model.predict_learn_many(np.array([[1.0], [2.0], [2.0]]), [4.0, 8.0, 8.0])
        array([0.        , 4.        , 6.66666667])
        """
        with self._lock:

            def read() -> tuple[Any, Answers]:
                answers = answered(self, X, y, w, t, with_dist)
                model, source, means, known, variances = answers
                if variances is None:
                    predicted = model._many(source, means)
                else:
                    predicted = normals_like(source, means, variances, model._named)
                if isinstance(source, (list, tuple)):
                    predicted = [row if n else {} for row, n in zip(predicted, known, strict=True)]
                return predicted, answers

            predicted, answers = read_whole(read, self)
            put_in_place(self, answers)
            return predicted

    def predict_interval_one(self, x: Mapping[Any, Any], level: float = 0.9) -> Any:
        """Return the ends of an interval that holds a new target with a given probability.

        Parameters
        ----------
        x : mapping
            Feature names to numbers or arrays of numbers.
        level : float
            The probability, above 0 and below 1.

        Returns
        -------
        tuple of float
            For several targets, a dict of tuples by target name. The lower and the upper end: the
            prediction minus and plus the standard deviation of `predict_one(x, with_dist=True)`,
            multiplied by the quantile of Student's t with n - p degrees of freedom. Minus and plus
            infinity unless n is greater than p, so also before anything is learnt.

        Raises
        ------
        TypeError, ValueError
            If `level` is not a number above 0 and below 1, or `x` cannot be read.

        Notes
        -----
        At first, the standard deviation is estimated from few rows. Student's t accounts for this;
        the normal distribution of `with_dist` does not. With 15 features and 30 rows, intervals of
        level 0.9 contain 90% of new targets; intervals from the normal distribution contain 88%.
        The level is exact for Gaussian noise of one variance and a small ridge. If rows are
        weighted or decay, n is their total weight.

        References
        ----------
        G. A. F. Seber and A. J. Lee, "Linear Regression Analysis", 2nd edition, 2003, section 5.3.

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0], [3.0]]), [0.1, 0.9, 2.1, 2.9])
        >>> [round(end, 2) for end in model.predict_interval_one({0: 1.5}, level=0.9)]
        [1.09, 1.91]
        """
        with self._lock:
            # Measured: a full check takes as long as the interval.
            if type(level) is not float or not 0.0 < level < 1.0:
                level = check_level(level)
            rows = self._state.following.rows or rows_of(self._state)
            terms = quantile_terms(level)
            known = NotImplemented if rows is None else rows.interval(x, *terms)
            if known is not NotImplemented:
                return known
            pairs, free = self._spread_one(x)
            quantile = t_quantile(free, level)

            def ends(mean: float, variance: float) -> Ends:
                half = quantile * sqrt(variance)
                return mean - half, mean + half

            return self._each(ends, pairs)

    def predict_interval_many(self, X: Any, level: float = 0.9) -> Any:
        """Return an interval for every row, in the kind of `X`; see `predict_interval_one`.

        Returns
        -------
        tuple, frame or list
            For an array, two arrays of lower and upper ends; for a frame, a frame with the columns
            "lower" and "upper" (with several targets, "<target>_lower" and "<target>_upper" of
            each); for a list, tuples in the place of numbers.

        Examples
        --------
        >>> model = LeastSquaresRegressor(ridge=0.0)
        >>> model.learn_many(np.array([[0.0], [1.0], [2.0], [3.0]]), [0.1, 0.9, 2.1, 2.9])
        >>> model.predict_interval_many(np.array([[1.5], [3.0]]), level=0.5)[1].round(2)
        array([1.62, 3.07])
        """
        with self._lock:
            level, batch = check_level(level), read_asked(self, X)
            return intervals_like(batch.source, *self._ends(batch, level), self._named)


@savable(_targets_are_sound)
class LeastSquaresRegressor(RealValuedModel, base.MiniBatchRegressor):
    """Predict a number by ridge regression, learnt online and exactly.

    After any sequence of `learn_one`, `learn_many`, `unlearn_*` and `merge`, the output weights
    equal the batch solution w = (A'A + c S^2)^-1 A'y on all rows learnt, where S = diag(s_j) holds
    the units of the features. With an intercept, A and y are about their means. The order of the
    rows and the size of the batches do not matter. There is no learning rate, and no row is kept.

    Parameters
    ----------
    ridge : float, "auto", "paper" or KFold
        The penalty c >= 0 on the weights, or how to select it.
    accumulator : "gram", "orthogonal" or "recursive"
        What the model remembers of the stream.
    fit_intercept : bool
        Whether to fit an intercept, which is exact and has no penalty.
    forgetting_factor : float
        Factor in (0, 1] by which every row learnt multiplies the weight of all earlier rows.
    half_life : float or timedelta, optional
        Time in which the weight of a row halves.
    scaling : "auto", "standard" or None
        The units s_j of the features on which the ridge acts.
    max_features : int, optional
        Number of features up to which new ones are learnt; more are refused.

    Notes
    -----
    `onlinels.LeastSquaresClassifier` describes the parameters, the memory, the cost of learning and
    of solving, the selection of the ridge, and the kinds of input. They are the same here.

    While the weights follow single rows, a predictive distribution or an interval costs ``M^2``
    operations for M features. Otherwise they cost about ``M^3`` operations more, once after
    learning, even after a single row; then ``M^2`` each. They need another ``8 M^2`` bytes.

    A feature that is absent from a sample counts as 0. If a frame passed to a prediction lacks
    learnt columns, a warning names them. Before anything is learnt, the prediction is 0.0, and the
    values of the sample are not read.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LeastSquaresRegressor()
    >>> error = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> print(f"{error.get():.2f}")
    0.51
    """

    _known_names = ONE_TARGET

    def __init__(
        self,
        ridge: Ridge = "auto",
        accumulator: str = "gram",
        fit_intercept: bool = True,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
        scaling: Scaling = "auto",
        max_features: int | None = None,
    ) -> None:
        settings = ridge, accumulator, fit_intercept, forgetting_factor, half_life, None, scaling
        super().__init__(Settings(*settings, max_features), self._known_names)

    def _read_targets(self, y: Any, n_rows: int | None) -> Targets:
        if n_rows is None:
            values = np.array([[read_target("y", y)]])
        else:
            values = read_numbers(y, n_rows)[:, None]
        return Targets(values, self._state.outputs)

    def _target_of(self, read: Targets, row: int) -> Any:
        return float(read.values[row, 0])


@savable(_targets_are_sound)
class LeastSquaresMultiTargetRegressor(  # type: ignore[misc]  # river's learn_one takes more.
    RealValuedModel, base.MultiTargetRegressor
):
    """Predict several numbers by ridge regression, learnt online and exactly.

    Every target has the weights of a `LeastSquaresRegressor` with the same ridge. The statistics of
    the features are kept and factored once for all targets.

    Parameters
    ----------
    ridge : float, "auto", "paper" or KFold
        The penalty c >= 0 on the weights, or how to select it. All targets share one ridge, which
        a target of large values or much noise determines: bring targets to similar units.
    accumulator : "gram", "orthogonal" or "recursive"
        What the model remembers of the stream.
    fit_intercept : bool
        Whether every target has an intercept, which is exact and has no penalty.
    forgetting_factor : float
        Factor in (0, 1] by which every row learnt multiplies the weight of all earlier rows.
    half_life : float or timedelta, optional
        Time in which the weight of a row halves.
    scaling : "auto", "standard" or None
        The units of the features on which the ridge acts.
    max_features : int, optional
        Number of features up to which new ones are learnt; more are refused.

    Notes
    -----
    `onlinels.LeastSquaresClassifier` describes the parameters in full. Cost and memory are those of
    `LeastSquaresRegressor`, with ``M N`` more for M features and N targets.

    The first row determines the targets, and every later row must have all of them. The error of a
    missing target is unknown, not 0, and the statistics that the targets share cannot leave it out.
    For targets that are sometimes missing, use a `LeastSquaresRegressor` each.

    The order of dict keys and of frame columns does not matter, in `y` as in `X`.

    Examples
    --------
    >>> model = LeastSquaresMultiTargetRegressor(ridge=0.0)
    >>> model.learn_one({"size": 1.0}, {"price": 2.0, "weight": 5.0})
    >>> model.learn_one({"size": 2.0}, {"price": 4.0, "weight": 6.0})
    >>> {name: round(value, 9) for name, value in model.predict_one({"size": 4.0}).items()}
    {'price': 8.0, 'weight': 8.0}
    """

    def __init__(
        self,
        ridge: Ridge = "auto",
        accumulator: str = "gram",
        fit_intercept: bool = True,
        forgetting_factor: float = 1.0,
        half_life: HalfLife = None,
        scaling: Scaling = "auto",
        max_features: int | None = None,
    ) -> None:
        settings = ridge, accumulator, fit_intercept, forgetting_factor, half_life, None, scaling
        super().__init__(Settings(*settings, max_features), self._known_names)

    @property
    def target_names(self) -> tuple[Name, ...]:
        """Names of the targets, in the order of the columns of `output_weights`."""
        names: tuple[Name, ...] = self._state.outputs
        return names

    def _read_targets(self, y: Any, n_rows: int | None) -> Targets:
        names, rows = self._state.outputs, []
        plain = None if n_rows is None else read_plain_targets(y, names)
        if plain is not None:
            names, values = plain
            rows.append(values)
        elif n_rows is None or isinstance(y, (list, tuple)):
            samples = {"y": y} if n_rows is None else {f"y[{i}]": row for i, row in enumerate(y)}
            for argument, sample in samples.items():
                names, values = read_named_targets(sample, names, argument)
                rows.append(values)
        elif len(batch := read_batch(y, "y")):
            names, values = arranged(batch.layouts[-1], batch.values.astype(np.float64), names)
            rows.append(values)
        targets = np.concatenate(rows) if rows else np.zeros((0, len(names)))
        n_expected = 1 if n_rows is None else n_rows
        if len(targets) != n_expected or (n_expected and not names):
            raise ValueError(
                f"y has {len(targets)} rows of {len(names)} targets, expected {n_rows} rows of at "
                "least one target. Pass a dict or a row of targets for every row of X."
            )
        return Targets(targets, names)

    def _target_of(self, read: Targets, row: int) -> Any:
        return dict(zip(read.outputs, read.values[row].tolist(), strict=True))


MIN_INTERPOLATED_FREEDOM, MAX_INTERPOLATED_LEVEL, INTERPOLATION_DEGREE = 2.0, 0.9999, 20
"""Degrees of freedom from which, and level up to which, Student's t is interpolated; the degree.

The relative error is at most 5e-14. Measured: the polynomial takes 0.2 us, scipy's quantile 2.
"""


def t_quantile(free: float, level: float) -> float:
    """Return half the width of an interval in standard deviations, by degrees of freedom.

    Without degrees of freedom the variance is infinite, and 1 replaces the quantile.

    Examples
    --------
    >>> round(t_quantile(1.0, level=0.5), 9), t_quantile(0.0, level=0.5)
    (1.0, 1.0)
    >>> round(t_quantile(1000.0, level=0.9), 9)
    1.646378817
    """
    least, terms = quantile_terms(level)
    if free >= least:
        return sum_of_powers(terms, free)
    from scipy.special import stdtrit  # Imported here, because few need it.

    return float(stdtrit(free, (1.0 + level) / 2.0)) if free > 0.0 else 1.0


@lru_cache(maxsize=16)
def quantile_terms(level: float) -> tuple[float, tuple[float, ...]]:
    """Return the degrees of freedom n from which Student's t is interpolated, and its terms in 1/n.

    The polynomial in 1/n agrees with the quantiles at Chebyshev's points.
    """
    from numpy.polynomial import Chebyshev, Polynomial
    from scipy.special import stdtrit

    def quantiles(reciprocals: Floats) -> Floats:
        return np.asarray(stdtrit(1.0 / reciprocals, (1.0 + level) / 2.0))

    if level > MAX_INTERPOLATED_LEVEL:
        return np.inf, ()
    domain = [0.0, 1.0 / MIN_INTERPOLATED_FREEDOM]
    found = Chebyshev.interpolate(quantiles, INTERPOLATION_DEGREE, domain)
    return MIN_INTERPOLATED_FREEDOM, tuple(found.convert(kind=Polynomial).coef.tolist())


def read_target(name: str, value: Any) -> float:
    """Return a target as a float; see `onlinels.checks.read_number`."""
    return read_number(name, value, TARGET_REMEDY, MISSING_TARGET_REMEDY)


def read_numbers(y: Any, n_rows: int) -> Floats:
    """Return the targets (n_rows,) of a batch: an array, a series or a list of numbers."""
    check_one_column(y)
    values = y
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "biuf" or np.ma.isMaskedArray(y):
        entries = enumerate(as_list(y, each="target per row"))
        values = np.array([read_target(f"y[{i}]", value) for i, value in entries])
    if len(values) != n_rows:
        raise ValueError(
            f"y has {len(values)} targets, expected {n_rows}. Pass one target per row."
        )
    check_values("y", values, remedy=MISSING_TARGET_REMEDY)
    numbers: Floats = values.astype(np.float64)
    return numbers


def normals_like(source: Any, means: Floats, variances: Floats, names: Named = None) -> Any:
    """Return a normal distribution per row, or per row and named target: arrays, frame or list.

    Means and variances are arrays (n, n_targets), or (n,) or (n, 1) if the target has no name.
    """
    second = variances if isinstance(source, (list, tuple)) else np.sqrt(variances)
    return _pairs_like(source, gaussian, ("mean", "std"), means, second, names)


def intervals_like(source: Any, lower: Floats, upper: Floats, names: Named = None) -> Any:
    """Return an interval per row, or per row and named target: two arrays, a frame or a list."""
    return _pairs_like(source, lambda *ends: ends, ("lower", "upper"), lower, upper, names)


def _pairs_like(
    source: Any, make: Any, parts: Any, first: Floats, second: Floats, names: Named
) -> Any:
    """Return two arrays, a frame, or a list of what is made of two numbers."""
    if names is None:
        first, second = first.ravel(), second.ravel()
    if isinstance(source, (list, tuple)):
        rows = zip(first.tolist(), second.tolist(), strict=True)
        if names is None:
            return list(starmap(make, rows))
        return [dict(zip(names, map(make, *row), strict=True)) for row in rows]
    if isinstance(source, ARRAY_TYPES):
        return first, second
    columns = parts if names is None else [f"{n}_{part}" for n in names for part in parts]
    pairs = np.stack((first, second), -1).reshape(len(first), len(columns))
    return table_like(source, columns, pairs)


def read_plain_targets(y: Any, known: tuple[Name, ...]) -> tuple[tuple[Name, ...], Floats] | None:
    """Return the names of targets, and their values in a list of dicts, (n_rows, n_targets).

    None if other code must read or reject them.

    Examples
    --------
    >>> read_plain_targets([{"height": 3, "age": 9}, {"age": 8, "height": 2}], ())
    (('age', 'height'), array([[9., 3.],
           [8., 2.]]))
    """
    if type(y) is not list or not y:
        return None
    names = known or names_of_targets(y[0]) or ()
    reader = reader_of({name: column for column, name in enumerate(names)}, len(names))
    if reader is None or {*map(type, y)} != {dict} or {*map(len, y)} != {len(names)}:
        return None
    rows = [reader.row(each) for each in y]
    if any(row is None for row in rows):
        return None
    return names, np.frombuffer(bytearray().join(rows)).reshape(len(y), len(names))


def read_named_targets(
    y: Any, known: tuple[Name, ...] = (), argument: str = "y"
) -> tuple[tuple[Name, ...], Floats]:
    """Return the names of the targets and their values (1, n_targets).

    The names are those known already, or else those in `y`.

    Raises
    ------
    TypeError, ValueError
        If `y` is not a mapping of the known names to finite numbers, or is empty.

    Examples
    --------
    >>> read_named_targets({"height": 3, "age": 9})
    (('age', 'height'), array([[9., 3.]]))
    """
    if not isinstance(y, Mapping):
        raise TypeError(
            f"{argument} is of type {type(y).__name__}, expected a dict of targets. "
            "Pass {name: number}, or use LeastSquaresRegressor for a single target."
        )
    if not y:
        raise ValueError(
            f"{argument} holds no target, expected at least one. Leave out rows without a target."
        )
    values = [read_target(f"{argument}[{name!r}]", y[name]) for name in y]
    return arranged(plain_names(y), np.array([values]), known)


def arranged(
    names: Iterable[Name], values: Floats, known: tuple[Name, ...]
) -> tuple[tuple[Name, ...], Floats]:
    """Return the names of the targets, and columns of values in their order.

    The names are those known already, or else the sorted names given.

    Raises
    ------
    ValueError
        If a known target is missing, or a target is not known.

    Examples
    --------
    >>> arranged(("b", "a"), np.array([[2.0, 1.0]]), known=("a", "b"))
    (('a', 'b'), array([[1., 2.]]))
    """
    places = {name: column for column, name in enumerate(names)}
    known = known or tuple(sorted_names(places))
    for name in known:
        if name not in places:
            raise ValueError(
                f"y lacks the target {name!r}, expected {reprlib.repr(list(known))} in every row. "
                "Fill in the target, leave out the row, or use a LeastSquaresRegressor per target."
            )
    if len(places) > len(known):
        new = next(name for name in places if name not in set(known))
        raise ValueError(
            f"y holds the new target {new!r}, expected {reprlib.repr(list(known))} as in the first "
            "row. Learn the new target with another model, since earlier rows lack it."
        )
    return known, values[:, [places[name] for name in known]]
