"""A regressor for streams of dicts without hyperparameters to choose."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from river import base

from onlinels.checks import Floats
from onlinels.core.constants import MIN_RIDGE_SHARE
from onlinels.core.reference import shares_of
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
from onlinels.numerics import enlarged, is_array, is_count, read_whole, shallow_copy
from onlinels.rows.answers import numbers_like
from onlinels.rows.batch import check_mapping, matched_by_position, samples_of, source_of
from onlinels.saving import savable
from onlinels.stream.base import (
    MAX_PLAIN_VALUE,
    Found,
    PlainExpert,
    StreamModel,
    Waiting,
    sample_key,
    stream_is_sound,
    units_of,
)
from onlinels.stream.features import (
    N_UNITS,
    Activations,
    RunningScaler,
    Sample,
    StreamColumns,
    StreamRow,
)
from onlinels.sums.recursion import Recursion

N_LAGS = 2
"""Features made from the last targets: the last target, and its change from the one before.

On fifteen streams, one more lag reduces the mean absolute error by 0.0%, and one less increases it
by 0.4% (on elec2's demand by 9%).
"""

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

QUANTITY_OF_MODEL = [number for _, of, _ in MEMORIES for number in range(2)[of]]
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

ERROR_DECAY = 0.99
"""Factor on an error with each further row: about 100 rows count."""

LEARNING_RATE = 0.2
"""An expert's share is multiplied by exp(-0.2) for each error as large as the recent mean error.

From 0.15 to 0.3 the mean absolute error on twenty streams stayed within 1%.
"""

DELAY_UNIT = 5.0
"""Delay in rows at which errors count 1.4 times as long.

From 3 to 50 the mean absolute error on twenty streams stayed within 1%; with 50, 90% intervals
contain fewer late targets.
"""

MAX_RELATIVE_ERROR = 100.0
"""Limit of a single error, in recent mean errors.

Without it an outlier would dominate all other errors for hundreds of rows. With 20 the mean
absolute error on twenty streams is 0.1% smaller, with 10 it is 0.2% larger.
"""

MAX_RANGE_EXCESS = 0.1
"""Share of the range of all targets by which a forecast may exceed the range."""

INTERVAL_PROBABILITY = 0.9
"""Probability of the central interval whose coverage is controlled."""

INTERVAL_DEVIATIONS = 1.6448536269514722
"""Standard deviations on each side that contain 90% of a normal distribution."""

DEVIATION_PER_ABSOLUTE = math.sqrt(math.pi / 2.0)
"""Standard deviation of a normal distribution in units of its mean absolute deviation."""

WIDTH_STEP = 0.05
"""Step of the logarithm of the width of intervals, for one miss more than expected.

With it 90% intervals contained 87.9% to 90.7% of the targets on twenty streams.
"""

LATE_CAUTION = 0.2
"""Part of the expected misses by which intervals are too wide if targets are very late.

The size of errors changes before late targets arrive, more often upwards. With 1,000 rows of delay,
90% intervals contained 1.5% more of the targets than without it.
"""

MIN_ERRORS = 2
"""Minimum number of errors, of any weight above 0, for a finite deviation."""

MAX_LOG_WIDTH = 3.0
"""Limit of the logarithm of the width, in both directions."""

Past = tuple[float, Floats]
"""The target and the values of a learnt row."""

EMPTY_PAST = np.zeros(0)
"""The packed form of a forecast before the first learnt row."""


N_HEADER_NUMBERS = len(EXPERTS) + 3
"""How many numbers of a stored forecast precede the values of a row."""


class Forecast(NamedTuple):
    """The forecast for a row, and what is needed to learn the row with it."""

    # The forecasts of all experts, and their mixture, in units of the target.
    of_experts: Floats
    value: float
    # The last two rows learnt, or fewer.
    past: tuple[Past, ...]
    # For every recursive model its input and its scores. They are not stored.
    given: tuple[tuple[Floats, Floats], ...] = ()

    def packed(self) -> Floats:
        """Return the numbers to store until the target arrives, (n,); empty if no row is learnt."""
        if not self.past:
            return EMPTY_PAST
        before = self.past[0][0] if self.past[1:] else math.nan
        last, values = self.past[-1]
        return np.concatenate((self.of_experts, (self.value, before, last), values))

    @classmethod
    def unpacked(cls, packed: Floats) -> Forecast:
        """Return the forecast from its packed form, without rows if no row was learnt."""
        if not len(packed):
            return cls(packed, 0.0, ())
        of_experts, values = packed[: len(EXPERTS)], packed[N_HEADER_NUMBERS:]
        value, before, last = packed[len(EXPERTS) : N_HEADER_NUMBERS].tolist()
        return cls(of_experts, value, ((before, EMPTY_PAST), (last, values)))


def median_of(values: Floats, shares: Floats) -> float:
    """Return the weighted median, interpolated between the middles of the shares.

    Examples
    --------
    >>> median_of(np.array([9.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25]))
    1.6666666666666665
    """
    order = values.argsort(kind="stable")
    ordered = shares[order]
    return float(np.interp(0.5, ordered.cumsum() - ordered / 2.0, values[order]))


def _forecasts_are_sound(model: Any) -> bool:
    n_features, sizes = len(model._columns.names), sizes_of(model._activations)
    fits = stream_is_sound(model, LeastSquaresRegressor) and len(model._targets.means) == 2
    shapes = [each.weights.shape for each in model._memories]
    fits = fits and shapes == [(sizes[name], of.stop - of.start) for name, of, _ in MEMORIES]
    fits = fits and is_array(model._losses, len(EXPERTS)) and is_count(model._n_errors)
    lengths = range(N_HEADER_NUMBERS, N_HEADER_NUMBERS + n_features + 1)
    waiting = model._waiting.fits(model._count, lambda packed: len(packed) in (0, *lengths))
    for past in (model._past, model._late):
        fits = fits and len(past) <= N_LAGS and all(len(row) <= n_features for _, row in past)
        fits = fits and all(is_array(row, len(row)) for _, row in past)
    return fits and waiting


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
    forecast under a hash of the sample until its target arrives, at most 4,096 forecasts. When the
    target arrives, the stored forecast is judged, and the row is learnt with the last targets that
    were known at the forecast. Forecasts and intervals therefore account for the delay of the
    targets. A sample that is predicted again before it is learnt is stored once, with the later
    forecast. If its features equal those of another row, a late row may have no stored forecast: it
    counts as late as the row before. A late row is not recognised if a step before the model, such
    as a scaler that learns, has changed its features since. The model warns if a tenth of the last
    500 labels finds no forecast or may have found that of another row.
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
    for every stored forecast       ``8 M + 500`` bytes more
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

    _seen: tuple[bytes, Forecast] | None

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._waiting = Waiting()
        # The scaler of targets and of their changes.
        self._targets = RunningScaler().grown(2)
        self._memories = [Recursion(0, 0, RIDGE, MIN_RIDGE_SHARE) for _ in MEMORIES]
        # Plain least squares, and the unit of its targets, the power of 2 above the first one.
        self._plain, self._unit = PlainExpert(LeastSquaresRegressor()), 0.0
        # Recent losses of every expert, in mean errors of the forecast.
        self._losses = np.zeros(len(EXPERTS))
        # The smallest and the largest target.
        self._limits = (0.0, 0.0)
        # The weight of recent rows, the recent mean absolute error of the forecast, and the
        # logarithm of the factor on the width of intervals that follows from this error.
        self._n_errors, self._weight, self._error, self._width = 0, 0.0, 0.0, 0.0
        # The last two rows learnt, with their targets.
        self._past: tuple[Past, ...] = ()
        # How many rows late the last target was, and what was known then if it was measured.
        self._delay = 0
        self._late: tuple[Past, ...] = ()
        self._grow(self._columns)

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the experts in the forecast, by their forecast quantity, input and memory."""
        return dict(zip(EXPERTS, self._shares().tolist(), strict=True))

    def _shares(self) -> Floats:
        return shares_of(self._losses, LEARNING_RATE * pace_of(self._delay), PRIORS)

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
            means, variances = np.array(pairs).reshape(-1, 2).T
            return predictions_like(source, means, variances, with_dist)

        return self._answer_and_learn(StreamRegressor._mean_and_variance, in_kind, X, y, w)

    def _read_targets(self, samples: list[Sample], y: Any) -> list[float]:
        targets: list[float] = read_numbers(y, len(samples)).tolist()
        self._activations.grown(self._columns.extended(samples).names, 0)
        return targets

    def _mean_and_variance(self, x: Any) -> tuple[float, float]:
        """Return the mean and the variance of a new target."""
        return self._forecast_one(x), self._deviation() ** 2

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Return the prediction for one sample, or a normal distribution around it.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        with_dist : bool
            Whether to return the distribution of a new target instead of a number.

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
            after the first row was learnt. Before the first row is learnt, values are not read and
            the forecast is 0.0.

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.learn_many(np.arange(100.0)[:, None], 3.0 * np.arange(100.0))
        >>> round(model.predict_one({0: 100.0})), model.predict_one({0: 1.0}, True).sigma < 10.0
        (300, True)
        """
        with self._lock:
            mean, variance = self._mean_and_variance(x)
            return gaussian(mean, variance) if with_dist else mean

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
            forecasts, variance = self._forecast_many(X), self._deviation() ** 2
            variances = np.full(len(forecasts), variance)
            return predictions_like(source_of(X), forecasts, variances, with_dist)

    def predict_interval_one(self, x: Mapping[Any, Any], level: float = 0.9) -> Ends:
        """Return the ends of an interval that contains a new target with a given probability.

        Parameters
        ----------
        x : mapping
            Features by name: numbers, arrays of numbers, text, None or NaN.
        level : float
            The probability, above 0 and below 1.

        Returns
        -------
        tuple of float
            Lower and upper end: the central interval of `predict_one(x, with_dist=True)`. As there,
            the level 0.9 is accurate if targets arrive in order, other levels if errors are
            normal. The interval is infinite until two forecasts have been judged.

        Raises
        ------
        TypeError, ValueError
            If `level` is not a number above 0 and below 1, or `x` cannot be read.

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
            forecast = self._forecast_one(x)
            half_width = self._half_width(level)
            return forecast - half_width, forecast + half_width

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
            forecasts = self._forecast_many(X)
            half_width = self._half_width(level)
            return intervals_like(source_of(X), forecasts - half_width, forecasts + half_width)

    def _forecast_one(self, x: Any) -> float:
        """Return the forecast for a sample, and store it until the target arrives."""
        if not self._count:
            check_mapping(x)
            # Values are not checked before the first learnt row.
            with suppress(Exception):
                key = read_whole(lambda: sample_key(x), self)
                self._waiting.add(key, EMPTY_PAST, 0)
            return 0.0
        row, key = read_whole(lambda: (self._row(x), sample_key(x)), self)
        given = self._next_forecast(row.values)
        self._waiting.add(key, given.packed(), self._count)
        return given.value

    def _forecast_many(self, X: Any) -> Floats:
        """Return the forecasts for the rows of a batch (n_rows,), and store them."""

        def read() -> tuple[Waiting, Floats]:
            rows, waiting = self._columns.placed(self._read_asked(X)), copy.deepcopy(self._waiting)
            self._warn_of_texts([name for row in rows for name in row.texts])
            forecasts = []
            for x, row in zip(samples_of(X), rows, strict=True):
                given = self._forecast(row.values, self._past)
                forecasts.append(given.value)
                waiting.add(sample_key(x), given.packed(), self._count)
            return waiting, np.array(forecasts)

        self._waiting, forecasts = read_whole(read, self)
        return forecasts

    def _next_forecast(self, row: Floats) -> Forecast:
        """Return the current forecast for a row; it is reused if the row is learnt next."""
        key, seen = row.tobytes(), self._seen
        if seen is None or seen[0] != key:
            self._seen = seen = key, self._forecast(row, self._past)
        return seen[1]

    def _forecast(self, row: Floats, past: tuple[Past, ...]) -> Forecast:
        """Return the current forecast for a row that follows the last rows."""
        row, targets = row[: len(self._scaler.means)], self._targets
        scaled, changes, lags = self._scaler.transform(row), np.zeros(len(row)), np.zeros(N_LAGS)
        # Before the first target, a change is measured from the mean.
        mean = last = float(targets.means[0])
        if past:
            last, values = past[-1]
            change = last - past[0][0] if past[1:] else math.nan
            lags = targets.transform(np.array([last, change]))
            changes = scaled - self._scaler.transform(enlarged(values, len(row)))
        activations = self._activations.of(scaled)
        features = activations[N_UNITS:]
        rows = {
            "units": np.concatenate((lags, activations)),
            "features": features,
            "changes": np.concatenate((lags, features[:1], changes)),
        }
        pairs = zip(MEMORIES, self._memories, strict=True)
        given = tuple((rows[name], rows[name].dot(each.weights)) for (name, *_), each in pairs)
        # The target is the mean or the last target, plus so many standard deviations.
        origins = targets.means + np.array([0.0, last])
        models = np.sqrt(targets.variances).take(QUANTITY_OF_MODEL)
        models *= np.concatenate([scores for _, scores in given])
        models += origins.take(QUANTITY_OF_MODEL)
        raw = self._plain.read(row, self._scaler.means)
        (plain,) = self._plain.score(raw, self._count) * self._unit
        low, high = self._limits
        margin = MAX_RANGE_EXCESS * (high - low)
        forecasts = np.maximum(np.concatenate((models, (plain, last, mean))), low - margin)
        np.minimum(forecasts, high + margin, out=forecasts)
        # Before any error is known, a median limits the effect of an expert far from all others.
        mixture = np.dot if self._n_errors else median_of
        return Forecast(forecasts, float(mixture(forecasts, self._shares())), past, given)

    def _deviation(self) -> float:
        """Return the standard deviation of a new target, infinite before the second error."""
        if self._n_errors < MIN_ERRORS:
            return math.inf
        return DEVIATION_PER_ABSOLUTE * self._error * math.exp(self._width)

    def _half_width(self, level: float) -> float:
        """Return half the width of an interval about the forecast."""
        from scipy.special import ndtri  # Imported here, because few need it.

        deviation = self._deviation()
        # Infinity times the quantile of a level near 0 would be NaN.
        return deviation if math.isinf(deviation) else -deviation * float(ndtri((1.0 - level) / 2))

    def _read_target(self, y: Any) -> float:
        return read_target("y", y)

    def _learn(self, columns: StreamColumns, known: StreamRow, y: Any, key: int, w: float) -> None:
        row, target, draft = known.values, y, shallow_copy(self)
        if columns is not self._columns:
            draft._grow(columns)
        found = self._waiting.find(key, self._count, self._delay)
        stored, past, delay = self._before(found)
        forecast = draft._next_forecast(row) if past is self._past else draft._forecast(row, past)
        # A row of history, or predicted just now, is judged by the current forecast.
        judged = stored or forecast
        draft._delay, draft._late = delay, past if stored else ()
        if judged.past:
            draft._judge(judged, target, w)
        both = np.array([target, target - past[-1][0] if past else math.nan])
        scaled = self._targets.transform(both)
        calls = self._waiting.plan_label(key, found, delay)
        of_memories = zip(MEMORIES, draft._memories, forecast.given, strict=True)
        for (_, of, decay), memory, (seen, scores) in of_memories:
            calls += memory.plan(seen, scaled[of] - scores, w, decay)
        low, high = self._limits if self._count else (target, target)
        draft._limits = min(low, target), max(high, target)
        draft._unit = self._unit or (float(units_of(both[:1])[0]) if target else 0.0)
        plain, y = self._plain.knowing(row), target / (draft._unit or 1.0)
        y = min(max(y, -MAX_PLAIN_VALUE), MAX_PLAIN_VALUE)
        draft._plain = plain.owing(plain.read(row, draft._scaler.means), y, w)
        draft._scaler = draft._scaler.learnt(row, known.gaps)
        draft._targets = self._targets.learnt(both)
        draft._past = (*self._past, (target, row))[-2:]
        draft._count, draft._seen = self._count + 1, None
        self._become(draft, calls)
        self._warn_of_matches()

    def _before(self, found: Found | None) -> tuple[Forecast | None, tuple[Past, ...], int]:
        """Return the stored forecast of a late row, the last rows known then, and the delay.

        Among late rows, a row without a forecast is as late as the row before: it may equal
        another row.
        """
        if found is not None and found.delay:
            stored = Forecast.unpacked(found.forecast)
            return stored, stored.past or self._past, found.delay
        if found is None and self._late:
            return Forecast.unpacked(EMPTY_PAST), self._late, self._delay
        return None, self._past, 0

    def _judge(self, judged: Forecast, target: float, w: float) -> None:
        """Count the errors of a forecast in a draft of the model."""
        error, pace = abs(judged.value - target), pace_of(self._delay)
        if self._n_errors >= MIN_ERRORS:
            # Compared with the current width, which earlier late targets have changed already.
            missed = error > INTERVAL_DEVIATIONS * self._deviation()
            # Larger weights would make the width oscillate.
            expected = (1.0 - INTERVAL_PROBABILITY) * (1.0 - LATE_CAUTION * (1.0 - pace))
            step = min(w, 1.0) * WIDTH_STEP * pace * (missed - expected)
            self._width = min(max(self._width + step, -MAX_LOG_WIDTH), MAX_LOG_WIDTH)
        decay = 1.0 - (1.0 - ERROR_DECAY) * pace
        self._weight = decay * self._weight + w
        known = min(error, MAX_RELATIVE_ERROR * self._error) if self._error > 0.0 else error
        mean = self._error + w * (known - self._error) / self._weight if self._weight else 0.0
        self._error = mean
        if mean > 0.0:
            errors = np.minimum(np.abs(judged.of_experts - target), MAX_RELATIVE_ERROR * mean)
            self._losses = decay * self._losses + w * (errors / mean)
        self._n_errors += w > 0.0

    def _grow(self, columns: StreamColumns) -> None:
        """Make room in a draft of the model for new features."""
        self._extend_columns(columns)
        self._activations = self._activations.grown(columns.names, 0)
        sizes = sizes_of(self._activations)
        pairs = zip(self._memories, MEMORIES, strict=True)
        self._memories = [
            each.grown(sizes[name], of.stop - of.start) for each, (name, of, _) in pairs
        ]


def sizes_of(activations: Activations) -> dict[str, int]:
    """Return the number of features of every input of the recursive models."""
    n_wide = activations.n_wide
    n_narrow = n_wide - N_UNITS
    return {"units": N_LAGS + n_wide, "features": n_narrow, "changes": N_LAGS + n_narrow}


def pace_of(delay: int) -> float:
    """Return the factor on the speed at which shares and widths follow errors of late targets.

    Overlapping forecasts have similar errors, so errors of late targets count longer.
    """
    return 1.0 / math.sqrt(1.0 + delay / DELAY_UNIT)


def predictions_like(source: Any, means: Floats, variances: Floats, with_dist: bool) -> Any:
    """Return means, or normal distributions, in the kind of a batch."""
    return normals_like(source, means, variances) if with_dist else numbers_like(source, means)
