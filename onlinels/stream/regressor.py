"""A regressor for streams of dicts without hyperparameters to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from onlinels.checks import Floats, Integers, check_flag
from onlinels.core.constants import (
    DEVIATION_PER_ABSOLUTE,
    LOG_WIDTH,
    MIN_ERRORS,
    MIN_RIDGE_SHARE,
    N_ERRORS,
    N_LAGS,
    NUMBER_RATE,
    TARGET_UNIT,
)
from onlinels.core.reference import pace_of, shares_of
from onlinels.linear.regressors import (
    Ends,
    LeastSquaresRegressor,
    check_level,
    gaussian,
    intervals_like,
    normals_like,
    read_numbers,
    read_target,
)
from onlinels.numerics import enlarged, is_array
from onlinels.rows.answers import numbers_like
from onlinels.rows.batch import matched_by_position, source_of
from onlinels.saving import savable
from onlinels.stream.base import ExpertsState, StreamModel
from onlinels.stream.features import N_UNITS, RunningScaler, Sample, StreamColumns
from onlinels.stream.waiting import MAX_WAITING, Key, KeyedSample, keyed
from onlinels.sums.axes import grown
from onlinels.sums.recursion import Recursion

QUANTITIES = "level", "change"
"""The two forecast quantities: the target, and its change from the last target."""

LEVEL, CHANGE, BOTH = slice(0, 1), slice(1, 2), slice(0, 2)

RIDGE = 1.0
"""Ridge on every weight.

Activations are of about unit size, so the ridge weighs as much as one row.
"""

SHORT_FORGETTING_FACTOR = 0.99
"""Forgetting factor of the short memories: about 100 rows count."""

MEMORIES = (
    ("units", BOTH, 1.0),
    ("units", BOTH, SHORT_FORGETTING_FACTOR),
    ("features", LEVEL, 1.0),
    ("features", LEVEL, SHORT_FORGETTING_FACTOR),
    ("changes", CHANGE, SHORT_FORGETTING_FACTOR),
)
"""The input of every recursive model, the quantities that it forecasts, and its forgetting factor.

On twenty streams the mean absolute error is 3% larger without changes of features, 0.4% without the
change by units, and 0.1% without the long memory of features. With a long memory of changes it is
0.2% smaller, but 0.5% larger if targets are late.
"""

QUANTITY_OF_MODEL: Integers = np.array([number for _, of, _ in MEMORIES for number in range(2)[of]])
"""The number of the quantity of every forecast of the recursive models."""

EXPERTS = (
    *(
        f"{quantity} by {given}, {'short' if decay < 1.0 else 'long'} memory"
        for given, quantities, decay in MEMORIES
        for quantity in QUANTITIES[quantities]
    ),
    "plain least squares",
    "last target",
    "mean",
)
"""Experts in order."""

PRIORS = np.array([3.0 if name.startswith("plain") else 1.0 for name in EXPERTS])
"""Shares of experts without errors, up to a factor.

From 2 to 6 for plain least squares, the mean absolute error on twenty streams stayed within 1% with
targets at most 200 rows late.
"""

NO_NUMBERS = np.zeros(0)
"""What stands for arrays that are not known."""

NO_CELLS = (
    *(np.zeros((3, 0), dtype=np.int64), np.zeros((3, 0)), np.zeros((3, 0))),
    *(np.zeros(1), np.zeros((1, 1)), NO_NUMBERS),
)
"""The arrays of cells for `onlinels.core.Experts`: only classes have cells."""

N_VALUES_BEFORE = len(EXPERTS) + 1 + N_LAGS
"""How many numbers of a forecast precede the values of the last row."""


class RegressorState(ExpertsState):
    """What a `StreamRegressor` has learnt."""

    forgetting, blank = np.array([decay for *_, decay in MEMORIES]), NO_NUMBERS
    in_place = (*ExpertsState.in_place, "targets", "losses", "past", "late")
    names_of_former = (
        *ExpertsState.names_of_former,
        *("_unit", "_limits", "_n_errors", "_weight", "_error", "_width"),
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed, LeastSquaresRegressor())
        # The scaler of targets and of their changes.
        self.targets = RunningScaler().grown(2)
        self.memories = [Recursion(0, 0, RIDGE, MIN_RIDGE_SHARE) for _ in MEMORIES]
        # Recent losses of every expert, in mean errors of the forecast.
        self.losses = np.zeros(len(EXPERTS))
        # The last two targets and the values of the last row; and what these were when the last
        # target that was late was forecast.
        self.past, self.late = np.zeros(N_LAGS), np.zeros(N_LAGS)
        self.grow(self.columns)

    @property
    def shares(self) -> Floats:
        """Shares of the experts in the forecast."""
        return shares_of(self.losses, NUMBER_RATE * pace_of(self.delay), PRIORS)

    @property
    def spread(self) -> float:
        """The standard deviation of a new target, infinite before the second error."""
        n_errors, _, error, width = map(float, self.numbers[N_ERRORS : LOG_WIDTH + 1])
        if n_errors < MIN_ERRORS:
            return math.inf
        return DEVIATION_PER_ABSOLUTE * error * math.exp(width)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of plain least squares."""
        return 1

    @property
    def size(self) -> int:
        """Number of numbers of a forecast."""
        return N_VALUES_BEFORE + len(self.columns.names)

    def own_arrays(self) -> tuple[Any, ...]:
        """Return further arrays for `StreamRows`."""
        targets, *_ = self.targets.arrays
        return PRIORS, self.losses, targets, QUANTITY_OF_MODEL, self.past, self.late

    def views(self) -> dict[str, Integers]:
        """Return the places of every input of the memories in [units, 1, features, changes, lags].

        An input keeps its order when features are added.
        """
        made, n_wide = self.activations, self.activations.n_wide
        n_rows = n_wide + made.n_features + N_LAGS
        every = np.arange(n_rows, dtype=np.int64)
        changes, lags = every[n_wide:-N_LAGS], every[-N_LAGS:]
        return {
            "units": np.concatenate((lags, every[:n_wide])),
            "features": made.narrow,
            "changes": np.concatenate((lags, made.narrow[:1], changes)),
        }

    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays of the linear experts (see `onlinels.core.reference.Experts`)."""
        made, views = self.activations, self.views()
        weights, biases = made.arrays
        features, *others = made.places
        # Units do not see changes and lags.
        added = np.arange(made.n_wide, made.n_wide + made.n_features + N_LAGS, dtype=np.int64)
        seen = np.concatenate((weights, np.zeros((len(added), N_UNITS))))
        rows = seen, biases, *NO_CELLS, np.concatenate((features, added)), *others
        return *rows, *self.memory_arrays(views[name] for name, *_ in MEMORIES)

    def make_room(self, columns: StreamColumns, target: float) -> tuple[float, bool]:
        """Make room in a draft for a row."""
        if columns is not self.columns:
            self.grow(columns)
        return target, False

    def grow(self, columns: StreamColumns) -> None:
        """Make room in a draft for new features."""
        super().grow(columns)
        n_features = len(columns.names)
        self.activations = self.activations.grown(columns.names, 0)
        self.past, self.late = (
            enlarged(each, N_LAGS + n_features) for each in (self.past, self.late)
        )
        views = self.views()
        self.memories = [
            grown(each, len(views[name]), of.stop - of.start)
            for each, (name, of, _) in zip(self.memories, MEMORIES, strict=True)
        ]

    def take_former(self, saved: Mapping[str, Any]) -> None:
        """Take the numbers of a file of an earlier version."""
        super().take_former(saved)
        former = "_unit", "_n_errors", "_weight", "_error", "_width"
        numbers = [float(saved[name]) for name in former] + [
            float(each) for each in saved["_limits"]
        ]
        self.numbers[TARGET_UNIT:] = numbers
        self.past, self.late = (
            past_of(saved.get(name, ()), len(self.columns.names)) for name in ("_past", "_late")
        )


def past_of(rows: Sequence[tuple[float, Floats]], n_features: int) -> Floats:
    """Return the last two targets and the last row, from at most two rows with their targets."""
    if not rows:
        return np.zeros(N_LAGS + n_features)
    before = rows[0][0] if rows[1:] else math.nan
    last, values = rows[-1]
    return enlarged(np.concatenate(([before, last], values)), N_LAGS + n_features)


def _forecasts_are_sound(model: Any) -> bool:
    state, n_features = model._state, len(model._state.columns.names)
    lengths = 0, *range(N_VALUES_BEFORE, N_VALUES_BEFORE + n_features + 1)
    fits = state.is_sound(LeastSquaresRegressor, 0, lambda each: len(each.forecast) in lengths)
    views, shapes = state.views(), [each.weights.shape for each in state.memories]
    fits = fits and shapes == [(len(views[name]), of.stop - of.start) for name, of, _ in MEMORIES]
    fits = fits and is_array(state.losses, len(EXPERTS)) and len(state.targets.means) == 2
    return fits and all(is_array(each, N_LAGS + n_features) for each in (state.past, state.late))


@savable(_forecasts_are_sound)
class StreamRegressor(StreamModel, base.MiniBatchRegressor):
    """Predict numbers from a stream of dicts with numbers, texts and gaps, and adapt to drift.

    This is the counterpart of `StreamClassifier` for numbers. The model standardises features and
    targets by the rows before them. Recursive least-squares models forecast the target from 160
    random units and from the features alone, and its change since the last target from the units
    and from the changes of the features, with a long memory, a short memory, or both. Other experts
    are plain least squares on the raw features, the last target and the running mean. The forecast
    mixes all experts by their recent absolute errors. Scale, features, forgetting and the share of
    each expert therefore follow the stream, and no hyperparameter has to be set.

    Parameters
    ----------
    seed : int
        Seed of the random units. Models with the same seed and the same stream are equal.
    max_features : int, optional
        Largest number of features, as in `StreamClassifier`.
    max_waiting : int
        Maximum number of forecasts with a key that wait for their targets, and of those without,
        as in `StreamClassifier`.

    Notes
    -----
    **Features** are those of `StreamClassifier`: numbers, bools, arrays, and texts, of which the
    first 64 of a name are a feature each; None, NaN and texts after a number are unknown values.
    New features may arrive at any time. If a feature or the targets are multiplied by a factor or
    shifted from the first row on, forecasts change accordingly; those of plain least squares do so
    approximately unless the factor is a power of 2. Before the first row is learnt, the prediction
    is 0.0.

    The last two targets are also features, and the model forecasts the change from the last target
    beside the target itself: where successive targets are similar, this is more informative than
    all features. Where the order carries no information, as in a shuffled table, it increases the
    error by 0% to 1%.

    **Late targets.** Targets may arrive late, in any order, or never. The model stores each
    forecast until its target arrives, within `max_waiting`. When the target arrives, the
    stored forecast is judged, and the row is learnt with the last targets that were known at the
    forecast. Forecasts and intervals therefore account for the delay of the targets. If rows have
    an identity, pass it as `key`, as to a `StreamClassifier`. Without a key, the forecast is stored
    under a hash of the sample. A sample that is then predicted again before another row is learnt
    is stored once. If its features equal those of another row, a late row may have no stored
    forecast: it counts as late as the row before. A late row without a key is not recognised if a
    step before the model, such as a scaler that learns, has changed its features since. The model
    warns if a tenth of the last 500 labels finds no forecast or may have found that of another row.
    With a delay of d rows, errors count ``sqrt(1 + d / 5)`` times longer, because overlapping
    forecasts have similar errors. Until the first error is known, the forecast is the weighted
    median of the experts. The width of intervals follows the latest known errors. Where the size of
    errors changes within d rows, the intervals contain more or less than 90% of the targets.

    **Outliers.** Values and targets more than 6 standard deviations from the mean count as 6
    standard deviations from it, and no forecast exceeds the range of the targets so far by more
    than a tenth of the range. Only the next target shows whether a distant target is an outlier or
    a new level: the forecast for that next target may also be far from it.

    **Weights and ridge.** The weights of each recursive model are the exact ridge solution on the
    rows so far, with features and targets as they were scaled when each row was learnt. A row
    weighs 1 in a long memory, and 0.99 to the power of the number of rows since in a short one,
    where the ridge of 1 decays to 1/16 with the rows and is then restored. Plain least squares is a
    `LeastSquaresRegressor`: it selects its ridge, an unknown value is the mean, and each feature
    has a unit that is a power of 2, of the size of its first value.

    The weight `w` of a row multiplies its squared errors in every expert, and the losses by which
    experts and intervals are judged; for the width of intervals, a weight above 1 counts as 1.
    Units, time, names, the range of targets and the last targets follow every row equally, even a
    row of weight 0. Weights count relative to a ridge of 1, so divide them by their mean if the
    mean is far from 1.

    **Batches.** The order of rows matters: a batch is learnt row by row, and models neither merge
    nor unlearn.

    **Costs** for M features. Memory does not depend on the number of rows learnt.

    ==============================  ===============================================================
    learn a row                     about ``6 (M + 160)^2 + 11 M^2`` operations
    `learn_many`                    the time of as many calls of `learn_one`, and the memory of a
                                    second model during the call
    memory                          ``16 (M + 160)^2 + 40 M^2`` bytes
    for every stored forecast       ``24 M + 900`` bytes more
    ==============================  ===============================================================

    **Exceptions.** If a call raises, the model is as before the call or as after it, as with
    `StreamClassifier`.

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11:
    the exponentially weighted average forecaster, which mixes the models.

    I. Gibbs and E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021:
    the width of intervals follows the rate of targets outside them.

    P. Joulani, A. Gyorgy and C. Szepesvari, "Online learning under delayed feedback", ICML 2013.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = StreamRegressor()
    >>> error = evaluate.progressive_val_score(datasets.ChickWeights(), model, metrics.MAE())
    >>> print(f"{error.get():.0f}")
    19
    """

    _blank_state = RegressorState

    def __init__(
        self, seed: int = 0, *, max_features: int | None = None, max_waiting: int = MAX_WAITING
    ) -> None:
        super().__init__(seed, max_features, max_waiting)

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the experts in the forecast, by their forecast quantity, input and memory."""
        return dict(zip(EXPERTS, self._known.shares.tolist(), strict=True))

    @matched_by_position
    def predict_learn_many(self, X: Any, y: Any, w: Any = None, with_dist: bool = False) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train. The
        result equals that of calling `predict_one` and `learn_one` for one row after the other.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows of features.
        y : array, series or list of n_rows numbers
            Targets of the rows.
        w : float, or array, series or list of n_rows floats, optional
            Weights of the rows, from 0 to 1e5; 1 by default.
        with_dist : bool
            Whether to return distributions of new targets instead of numbers; see `predict_many`.

        Returns
        -------
        array, series or list of n_rows floats
            Predictions, of the same kind as `X`; 0.0 for a row before the first learnt row. With
            `with_dist`, distributions in the form of `predict_many`.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        References
        ----------
        A. P. Dawid, "Present position and potential developments: some personal views. Statistical
        theory: the prequential approach" (1984).

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.predict_learn_many(np.array([[1.0], [2.0], [2.0]]), [4.0, 8.0, 8.0]).round(1)
        array([0. , 4. , 7.3])
        """

        def in_kind(source: Any, pairs: list[tuple[float, float]], _: Any) -> Any:
            means, deviations = np.array(pairs).reshape(-1, 2).T
            return predictions_like(source, means, deviations**2, with_dist)

        return self._answer_and_learn(StreamRegressor._normal, in_kind, X, y, w)

    def _read_targets(self, samples: list[Sample], y: Any) -> list[float]:
        targets: list[float] = read_numbers(y, len(samples)).tolist()
        self._state.activations.grown(self._state.columns.extended(samples).names, 0)
        return targets

    def _read_target(self, y: Any) -> float:
        return read_target("y", y)

    def _normal(self, x: Any) -> tuple[float, float]:
        """Return the mean and the standard deviation of a new target."""
        if type(x) is KeyedSample:
            stored = self._forecast_row(*x)
            return forecast_value(stored.forecast), stored.spread
        rows = self._rows_for(x)
        found: Any = NotImplemented if rows is None else rows.normal(x)
        if found is NotImplemented:
            found = forecast_value(self._forecast_one(x)), self._state.spread
        mean, deviation = found
        return mean, deviation

    def _means(self, X: Any) -> Floats:
        """Return the means of new targets for the rows of a batch."""
        return np.array([forecast_value(each) for each in self._forecast_many(X)])

    def predict_one(
        self, x: Mapping[Any, Any], with_dist: bool = False, *, key: Key | None = None
    ) -> Any:
        """Return the prediction for one sample, or a normal distribution around it.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        with_dist : bool
            Whether to return the distribution of a new target instead of a number.
        key : str, int, bytes, or tuple of them, optional
            What tells the row apart from others until its target arrives; see
            `StreamClassifier.predict_one`.

        Returns
        -------
        float, or river.proba.Gaussian
            The standard deviation is proportional to the forecast's recent mean absolute error,
            with a factor that grows with every target outside the central 90% and shrinks with
            every other target. The central 90% therefore contain about 90% of the targets, whatever
            the distribution of errors, if targets arrive at once or in order; other intervals are
            accurate if errors are normal. Targets that are very late, or arrive in any order, have
            had 50% to 100% within.
            The deviation is infinite until the targets of two forecasts have arrived that were made
            after the first row was learnt. Before the first row is learnt, the forecast is 0.0, and
            values are not read unless there is a key.

        Raises
        ------
        TypeError, ValueError
            If `x` cannot be read, or a forecast of another sample waits under the key; nothing has
            changed then.

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.learn_many(np.arange(100.0)[:, None], 3.0 * np.arange(100.0))
        >>> round(model.predict_one({0: 100.0})), model.predict_one({0: 1.0}, True).sigma < 10.0
        (300, True)
        """
        if with_dist is not False:
            check_flag("with_dist", with_dist)
        with self._lock:
            mean, deviation = self._normal(x if key is None else keyed(x, key))
            return gaussian(mean, deviation**2) if with_dist else mean

    def predict_many(self, X: Any, with_dist: bool = False) -> Any:
        """Return the prediction for every row as if it were the next, or a normal distribution.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
            Rows of features.
        with_dist : bool
            Whether to return the distributions of new targets, as `predict_one` does.

        Returns
        -------
        ndarray (n_rows,), series or list
            Predictions, of the same kind as `X`. With `with_dist`: for an array two arrays
            (n_rows,) of means and standard deviations, for a frame a frame with the columns "mean"
            and "std", for a list a list of river.proba.Gaussian.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read.
        """
        with self._lock:
            means = self._means(X)
            variances = np.full(len(means), self._state.spread**2)
            return predictions_like(source_of(X), means, variances, with_dist)

    def predict_interval_one(
        self, x: Mapping[Any, Any], level: float = 0.9, *, key: Key | None = None
    ) -> Ends:
        """Return the ends of an interval that contains a new target with a given probability.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        level : float
            The probability, above 0 and below 1.
        key : str, int, bytes, or tuple of them, optional
            What tells the row apart from others until its target arrives; see
            `StreamClassifier.predict_one`.

        Returns
        -------
        tuple of float
            Lower and upper end: the central interval of `predict_one(x, with_dist=True)`. As there,
            the level 0.9 is accurate if targets arrive in order, other levels if errors are
            normal. The interval is infinite until two forecasts have been judged.

        Raises
        ------
        TypeError, ValueError
            If `level` is not a number above 0 and below 1, `x` cannot be read, or a forecast of
            another sample waits under the key.

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.learn_many(np.arange(100.0)[:, None], 3.0 * np.arange(100.0))
        >>> lower, upper = model.predict_interval_one({0: 100.0}, level=0.9)
        >>> lower < 300.0 < upper
        True
        """
        with self._lock:
            level = check_level(level)
            mean, deviation = self._normal(x if key is None else keyed(x, key))
            half_width = half_width_of(deviation, level)
            return mean - half_width, mean + half_width

    def predict_interval_many(self, X: Any, level: float = 0.9) -> Any:
        """Return an interval for every row as if it were the next; see `predict_interval_one`.

        Returns
        -------
        tuple, frame or list
            For an array two arrays (n_rows,) of lower and upper ends, for a frame a frame with the
            columns "lower" and "upper", for a list a list of tuples.

        Examples
        --------
        >>> StreamRegressor().predict_interval_many([{"size": 3.0}])
        [(-inf, inf)]
        """
        with self._lock:
            level = check_level(level)
            means, half_width = self._means(X), half_width_of(self._state.spread, level)
            return intervals_like(source_of(X), means - half_width, means + half_width)


def forecast_value(forecast: Floats) -> float:
    """Return the number of a forecast, which is 0.0 before the first row."""
    return float(forecast[len(EXPERTS)]) if len(forecast) else 0.0


def half_width_of(deviation: float, level: float) -> float:
    """Return half the width of an interval about the forecast."""
    from scipy.special import ndtri  # Imported here, because few need it.

    # Infinity times the quantile of a level near 0 would be NaN.
    return deviation if math.isinf(deviation) else -deviation * float(ndtri((1.0 - level) / 2))


def predictions_like(source: Any, means: Floats, variances: Floats, with_dist: bool) -> Any:
    """Return means, or normal distributions, in the kind of a batch."""
    return normals_like(source, means, variances) if with_dist else numbers_like(source, means)
