"""A regressor for streams of dicts, with nothing to choose."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np
from river import base
from scipy.special import ndtri

from onlinels.checks import Floats, check_not_empty, read_number
from onlinels.linear.regressors import (
    OF_TARGETS,
    Ends,
    check_level,
    gaussian,
    intervals_like,
    normals_like,
    read_numbers,
)
from onlinels.numerics import Calls, Lock, State, apply, enlarged, shallow_copy
from onlinels.rows import check_mapping, numbers_like, samples_of, source_of
from onlinels.saving import (
    COLUMNS,
    NOTHING,
    REAL,
    SHARE,
    VECTOR,
    WHOLE,
    listed,
    made_of,
    savable,
    savable_settings,
    settings_hold,
)
from onlinels.stream.base import StreamModel, put_in_place, read_weight
from onlinels.stream.experts import Memories, learn_in_blocks, shares_of
from onlinels.stream.features import N_UNITS, Activations, RunningScaler
from onlinels.stream.rows import Sample, StreamColumns, StreamRow, read_stream_batch
from onlinels.stream.waiting import Waiting, sample_key

N_LAGS = 2
"""Features that tell of the last targets: the last one, and its difference to that before.

Of the mean absolute error on fifteen streams one more gains 0.0%, and one less loses 0.4% (of
elec2's demand 9%).
"""

LEVEL, CHANGE = range(2)
"""What is forecast: the target, and its change from the last one."""

PAIRS = {
    "units": slice(LEVEL, CHANGE + 1),
    "features": slice(LEVEL, 1),
    "changes": slice(CHANGE, 2),
}
"""What the pairs of memories see, and which of the two they forecast.

Measured on fifteen streams: without the change by units the mean absolute error is 2% larger,
without the changes of features 2.3%. All views with both gain nothing.
"""

TARGETS = LEVEL, CHANGE, LEVEL, CHANGE, LEVEL, LEVEL, CHANGE, CHANGE
"""What the experts forecast that are memories: a pair's long one first, then its short one."""

RIVALS = ((0, 2), (1, 3)), ((4, 5),), ((6, 7),)
"""For every pair the experts that forecast the same, by a long and by a short memory."""

EXPERTS = (
    "level by units, long memory",
    "change by units, long memory",
    "level by units, short memory",
    "change by units, short memory",
    "level by features, long memory",
    "level by features, short memory",
    "change by changes, long memory",
    "change by changes, short memory",
    "last target",
    "mean",
)
"""Experts in their order. The last two are no models; without them the error is 1.9% larger."""

RECENT = 0.99
"""What is left of an error after each further row: some 100 rows count."""

RATE = 0.2
"""An expert's share falls by the factor exp(-0.2) with each recent mean error of the forecast more.

From 0.1 to 0.3, and with 0.985 to 0.995 of an error left, the mean absolute error on fifteen
streams stayed within 0.8%.
"""

LARGEST = 100.0
"""Recent mean errors that one error counts for at most.

One outlier would hide all other errors for hundreds of rows. With 20 the error on gas
concentrations, which stay for some rows and then jump, is 17% larger.
"""

N_TARGETS = tuple(len(range(2)[targets]) for targets in PAIRS.values())
"""How many of the two every pair forecasts."""

MARGIN = 0.1
"""Part of the range of all targets by which a forecast may lie outside of it."""

COVERED = 0.9
"""Share of targets that the central interval of this probability is made to hold."""

WITHIN = 1.6448536269514722
"""Standard deviations on each side within which 90% of a normal distribution lie."""

OF_ABSOLUTE = math.sqrt(math.pi / 2.0)
"""Standard deviation of a normal distribution in mean absolute deviations."""

ADAPTING = 0.05
"""Step of the logarithm of the width of intervals, by a miss more than expected.

With it 90% intervals held 88.9% to 91.3% on fifteen streams, without it 74% to 95%.
"""

FEWEST_ERRORS = 1.5
"""Weight of the errors from which there is a deviation: two of them."""

WIDEST = 3.0
"""Limit of this logarithm on both sides."""

JUDGED = "_weight", "_error", "_losses", "_width"
"""What tells how good forecasts are."""

Past = tuple[float, Floats]
"""The target and the values of a row that was learnt."""

NOTHING_LEARNT = np.zeros(0)
"""In place of what the rows before a forecast tell."""


class Answer(NamedTuple):
    """Means and standard deviations (n,) of fresh targets, before rows are learnt."""

    means: Floats
    deviations: Floats


N_HEAD = len(EXPERTS) + 4
"""Numbers of a forecast that waits before the values of a row."""


class Given(NamedTuple):
    """A forecast as it is given: what it is judged by, and what its row is learnt with."""

    # The forecasts of all experts, and their mixture, in units of the target.
    of_experts: Floats
    value: float
    deviation: float
    # The last two rows learnt, or as many as there are.
    past: tuple[Past, ...]

    def packed(self) -> Floats:
        """Return what of it has to wait for the target, (n,); nothing if no row was learnt."""
        if not self.past:
            return NOTHING_LEARNT
        before = self.past[0][0] if self.past[1:] else math.nan
        last, values = self.past[-1]
        return np.concatenate((self.of_experts, (self.value, self.deviation, before, last), values))

    @classmethod
    def unpacked(cls, packed: Floats) -> Given | None:
        """Return what was packed; None if no row was learnt."""
        if not len(packed):
            return None
        of_experts, values = packed[: len(EXPERTS)], packed[N_HEAD:]
        value, deviation, before, last = packed[len(EXPERTS) : N_HEAD].tolist()
        return cls(of_experts, value, deviation, ((before, NOTHING_LEARNT), (last, values)))


class Forecast(NamedTuple):
    """The forecast for a row, and what it is made from."""

    # By pair of memories: what it sees, and its scores (2, n_targets).
    rows: Sequence[Floats]
    scores: Sequence[Floats]
    given: Given


@savable(
    {
        "scaler": made_of(RunningScaler),
        "activations": made_of(Activations),
        "targets": made_of(RunningScaler),
        "weights": listed(listed(COLUMNS, tuple), tuple),
        "losses": listed(SHARE),
        "limits": listed(REAL, tuple),
        "past": made_of(tuple),
        "deviation": SHARE,
    },
    lambda made: _fits(made),
)
class Forecaster(NamedTuple):
    """All that a forecast is made of, at some moment."""

    scaler: RunningScaler
    activations: Activations
    # Of targets, and of their changes.
    targets: RunningScaler
    # For every pair those of the long and of the short memory.
    weights: tuple[tuple[Floats, Floats], ...]
    losses: list[float]
    # The smallest and the largest target.
    limits: tuple[float, float]
    # The last two rows learnt, or as many as there are.
    past: tuple[Past, ...]
    # The standard deviation of a fresh target.
    deviation: float

    def forecast(self, row: Floats) -> Forecast:
        """Return the forecast for a row; features that were not known yet are left out."""
        row = row[: len(self.scaler.means)]
        scaled, changes, lags = self.scaler.transform(row), np.zeros(len(row)), np.zeros(N_LAGS)
        means, deviations = self.targets.means, np.sqrt(self.targets.variances)
        # Where no target is known yet, a change is one from the mean.
        mean = last = float(means[LEVEL])
        if self.past:
            last, values = self.past[-1]
            change = last - self.past[0][0] if self.past[1:] else math.nan
            lags = self.targets.transform(np.array([last, change]))
            changes = scaled - self.scaler.transform(enlarged(values, len(row)))
        activations = self.activations.of(scaled)
        features = activations[N_UNITS:]
        rows = (
            np.concatenate((lags, activations)),
            features,
            np.concatenate((lags, features[:1], changes)),
        )
        pairs = zip(rows, self.weights, strict=True)
        scores = [np.array([seen.dot(long), seen.dot(short)]) for seen, (long, short) in pairs]
        origins, of_all = means + np.array([0.0, last]), np.concatenate(scores, axis=None)
        models = origins.take(TARGETS) + deviations.take(TARGETS) * of_all
        low, high = self.limits
        margin = MARGIN * (high - low)
        forecasts = np.maximum(np.concatenate((models, (last, mean))), low - margin)
        np.minimum(forecasts, high + margin, out=forecasts)
        value = float(shares_of(self.losses, RATE).dot(forecasts))
        return Forecast(rows, scores, Given(forecasts, value, self.deviation, self.past))


def _sizes(n_wide: int) -> tuple[int, ...]:
    """Return the number of columns that every pair sees."""
    n_narrow = n_wide - N_UNITS
    return N_LAGS + n_wide, n_narrow, N_LAGS + n_narrow


def _fits(made: Forecaster) -> bool:
    shapes = zip(_sizes(made.activations.n_wide), N_TARGETS, strict=True)
    fits = [tuple(each.shape for each in pair) for pair in made.weights] == [
        (shape, shape) for shape in shapes
    ]
    n_features = len(made.scaler.means)
    fits = fits and len(made.activations._features) == n_features and len(made.limits) == 2
    fits = fits and (len(made.losses), len(made.targets.means)) == (len(EXPERTS), 2)
    for each in made.past:
        fits = fits and type(each) is tuple and len(each) == 2 and REAL.fits(each[0])
        fits = fits and VECTOR.fits(each[1]) and len(each[1]) <= n_features
    return fits and len(made.past) <= 2


def _is_sound(model: Any) -> bool:
    n_features = len(model._columns.names)
    fits = n_features == len(model._scaler.means) and _fits(model._forecaster())
    fits = fits and model._delayed.maxlen == model.label_delay
    for each in model._delayed:
        fits = fits and type(each) is Forecaster and len(each.scaler.means) <= n_features
    for packed, count in model._waiting:
        fits = fits and count <= model._count
        fits = fits and (not len(packed) or 0 <= len(packed) - N_HEAD <= n_features)
    return fits and settings_hold(model)


@savable_settings(
    _is_sound,
    _lock=made_of(Lock),
    _columns=made_of(StreamColumns),
    _scaler=made_of(RunningScaler),
    _activations=made_of(Activations),
    _targets=made_of(RunningScaler),
    _memories=listed(made_of(Memories)),
    _losses=listed(SHARE),
    _limits=listed(REAL, tuple),
    _past=made_of(tuple),
    _delayed=made_of(deque),
    _waiting=made_of(Waiting),
    _weight=SHARE,
    _error=SHARE,
    _width=REAL,
    _count=WHOLE,
    _seen=NOTHING,
)
class StreamRegressor(StreamModel, base.MiniBatchRegressor):
    """Predict a number from a stream of dicts, whatever is in them and however it changes.

    What `StreamClassifier` is for labels. Features and targets are put on one scale by the rows
    before them, and learnt by recursive least-squares models with a long and a short memory: the
    target, by 160 random units and by the features alone; and its change since the last target, by
    the units and by the features' changes. The forecast mixes them, the last target and the
    running mean by the recent absolute errors of the forecasts given. When a
    short-memory model is clearly better than the long-memory model beside it, the long-memory model
    is reset to a copy of it. So scale, features, forgetting and the share of each model follow the
    stream, and there is nothing to set.

    Parameters
    ----------
    seed : int
        Of the random units; models of one seed and one stream are alike.
    label_delay : int
        How many rows late a target counts whose row was never predicted, such as a row of history.
        The targets of predicted rows are as late as they come: they need no setting.

    Notes
    -----
    Features are those of `StreamClassifier`: numbers, bools, arrays, text of which the first 64
    values are a feature each, None and NaN for what is unknown; new ones at any time. Multiply one
    or the targets by anything, or add anything to them from the first row on: forecasts follow.
    Before anything is learnt the prediction is 0.0.

    The last two targets are features too, and the change from the last one is forecast beside the
    target itself: where neighbours are alike, that says more than all features. Where the order
    says nothing, as in a shuffled table, it costs 0% to 1% of the error.

    Targets may come late, in any order, or never. A forecast waits for its target, at most 4,096 of
    them, under a hash of the sample. When the target comes, the forecast that was given is judged,
    and the row is learnt with the last targets of then, so forecasts and intervals are those for
    targets as late as they come. A sample that is predicted again before it is learnt waits once,
    as the later forecast. A late row is not recognised where rows have equal features, or where a
    step before the model, such as a scaler that learns, has changed its features since: set
    `label_delay` there. With a delay of d rows the width of intervals follows the errors
    ``sqrt(1 + d)`` times more slowly, as forecasts that overlap err alike.

    A value far off counts as one 6 standard deviations off, of targets too, and no forecast leaves
    the range of the targets so far by more than a tenth of it. Whether a target far off is an
    outlier or a new level only the next one tells: the forecast of that one may be far off, too.

    Each expert's weights are the exact ridge solution on the rows so far, in features and targets
    as they were scaled when each row was learnt; memories, ridge and takeovers are those of
    `StreamClassifier`.

    The weight `w` of a row multiplies its squared errors in every expert, and the losses by which
    experts and intervals are judged; the width of intervals follows no row more than one of weight
    1. Units, time, names, the range of targets and the last targets follow every row alike: a row
    of weight 0 is a row of the stream that teaches nothing else. Weights count beside a ridge of 1,
    so divide them by their mean if that is far from 1.

    Order is part of the data here: a batch is learnt row by row, as if it came so, to rounding, and
    models neither merge nor unlearn. Without a `label_delay` rows of known features whose forecasts
    do not wait are learnt in blocks, in a third of the time of many calls of `learn_one`. A row of
    M features costs about ``6 ((M + 160)^2 + 2 M^2)`` operations to learn; memory is ``16 ((M +
    160)^2 + 2 M^2)`` bytes and, for every forecast that waits, ``8 M + 500``, for every row of
    `label_delay` ``96 M + 5,300`` more: it does not depend on the number of rows learnt.

    Whatever is raised while it learns, the model is as before or as after, as in
    `StreamClassifier`.

    References
    ----------
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), sections 2.1 and 2.11:
    the exponentially weighted average forecaster, which mixes the models.

    S. H. Bach and M. A. Maloof, "Paired learners for concept drift", ICDM 2008.

    I. Gibbs and E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021:
    the width of intervals follows how often they have missed.

    P. Joulani, A. Gyorgy and C. Szepesvari, "Online learning under delayed feedback", ICML 2013.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.ChickWeights(), StreamRegressor(), metrics.MAE())
    MAE: 18.672245
    """

    _seen: tuple[bytes, Forecast] | None

    def __init__(self, seed: int = 0, label_delay: int = 0) -> None:
        super().__init__(seed, label_delay)
        self._waiting = Waiting()
        # Of targets, and of their changes.
        self._targets = RunningScaler().grown(2)
        self._memories = self._memories_grown([Memories() for _ in PAIRS])
        # Of every expert, in mean errors of the forecast.
        self._losses = [0.0] * len(EXPERTS)
        # Of targets: the smallest and the largest.
        self._limits = (0.0, 0.0)
        # The recent mean absolute error of the forecast with the weight of its rows, and the
        # logarithm of the factor by which intervals are wider than it makes them.
        self._weight = self._error = self._width = 0.0
        # The last two rows learnt, with their targets.
        self._past: tuple[Past, ...] = ()
        # What the last rows were predicted by whose targets have not come yet.
        self._delayed: deque[Forecaster] = deque(maxlen=label_delay)

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the experts in the forecast, by what they forecast, see and remember."""
        return dict(zip(EXPERTS, shares_of(self._losses, RATE).tolist(), strict=True))

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : mapping
            Feature names to numbers, arrays of numbers, text, None or NaN.
        y : number
        w : float
            Weight, from 0 to 1e5; see the notes.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.learn_one({"size": 3.0, "colour": "red", "age": None}, 7.5)
        >>> model.predict_one({"size": 4.0})
        7.5
        """
        with self._lock:
            taken, target = self._columns.taking(x), read_number("y", y, OF_TARGETS)
            weight, key = read_weight(w), sample_key(x) if len(self._waiting) else None
            apply(self._plan(*taken, target, key, weight))

    def predict_learn_many(self, X: Any, y: Any, w: Any = None, with_dist: bool = False) -> Any:
        """Predict every row of a mini-batch before it is learnt, then learn it.

        This is progressive validation, also called prequential evaluation or test-then-train: the
        result is that of `predict_one` and `learn_one` for one row after the other, to rounding, at
        the speed of `learn_many`. With a `label_delay` it costs what the loop costs.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        y : array, series or list of n_rows numbers
        w : float, or array, series or list of n_rows floats, optional
            Weights, from 0 to 1e5; 1 by default.
        with_dist : bool
            Whether to return distributions of fresh targets instead of numbers; see `predict_many`.

        Returns
        -------
        array, series or list of n_rows floats
            In the kind of `X`, with distributions as `predict_many` returns them; 0.0 for a row
            before which nothing was learnt.

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
        array([0. , 4. , 7.8])
        """
        with self._lock:
            source, later, answers = self._answered(X, y, w)
            means, deviations = map(np.concatenate, zip(*answers, strict=True))
            if with_dist:
                predicted = normals_like(source, means, deviations**2)
            else:
                predicted = numbers_like(source, means)
            put_in_place(self, later)
            return predicted

    def _read_targets(self, samples: list[Sample], y: Any) -> tuple[list[float], list[int]]:
        targets = read_numbers(y, len(samples)).tolist()
        self._activations.grown(self._columns.knowing(samples).names, 0)
        # Late targets judge forecasts by the weights of then.
        new = list(range(len(samples))) if self.label_delay else self._columns.new_rows(samples)
        if not self._count and new[:1] != [0]:
            new.insert(0, 0)
        return targets, new

    def _answer(self, sample: Sample, key: int | None) -> Answer:
        row = self._columns.placed([sample])[0]
        if key is not None:
            # Learnt next: an earlier forecast counts no more.
            apply((self._waiting.plan_take(key), ()))
        given = self._forecast(row).given
        return Answer(np.array([given.value]), np.array([given.deviation]))

    def _independent(self) -> Self:
        model = super()._independent()
        model._delayed, model._waiting = self._delayed.copy(), self._waiting.copied()
        return model

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Return the prediction for one sample, or a normal distribution around it.

        Parameters
        ----------
        x : mapping
            Feature names to numbers, arrays of numbers, text, None or NaN.
        with_dist : bool
            Whether to return the distribution of a fresh target instead of a number.

        Returns
        -------
        float, or river.proba.Gaussian
            Its deviation follows the forecast's recent absolute errors, times a factor that grows
            with every target outside the central 90% and shrinks with every other one: so these 90%
            hold about that share of any stream's targets, whatever the distribution of errors.
            Other intervals are as good as errors are normal. It is infinite until the targets of
            two forecasts have come that were made after the first row was learnt. Before that row
            values are not read, and the forecast is 0.0.

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.learn_many(np.arange(100.0)[:, None], 3.0 * np.arange(100.0))
        >>> round(model.predict_one({0: 100.0})), model.predict_one({0: 1.0}, True).sigma < 10.0
        (300, True)
        """
        with self._lock:
            forecast = self._forecast_one(x)
            return gaussian(forecast, self._deviation() ** 2) if with_dist else forecast

    def predict_many(self, X: Any, with_dist: bool = False) -> Any:
        """Return the prediction for every row, or a normal distribution; all as for the next row.

        Parameters
        ----------
        X : array (n_rows, n_features), frame, or list of dicts
        with_dist : bool
            Whether to return the distributions of fresh targets, as `predict_one` has them.

        Returns
        -------
        ndarray (n_rows,), series or list
            In the kind of `X`. With `with_dist`: two arrays (n_rows,), of means and of standard
            deviations; a frame with the columns "mean" and "std"; a list of river.proba.Gaussian.

        Raises
        ------
        TypeError, ValueError
            If `X` cannot be read, or has no rows.
        """
        with self._lock:
            source, forecasts = self._forecast_many(X)
            if not with_dist:
                return numbers_like(source, forecasts)
            variance = self._deviation() ** 2
            return normals_like(source, forecasts, np.full(len(forecasts), variance))

    def predict_interval_one(self, x: Mapping[Any, Any], level: float = 0.9) -> Ends:
        """Return the ends of an interval that holds a fresh target with a given probability.

        Parameters
        ----------
        x : mapping
            Feature names to numbers, arrays of numbers, text, None or NaN.
        level : float
            The probability, above 0 and below 1.

        Returns
        -------
        tuple of float
            Lower and upper end: the central interval of `predict_one(x, with_dist=True)`. What is
            said there goes for it: 0.9 is held by any stream, other levels as errors are normal.
            From minus to plus infinity until two forecasts have been judged.

        Raises
        ------
        TypeError, ValueError
            If `level` is no such number, or `x` cannot be read.

        Examples
        --------
        >>> model = StreamRegressor()
        >>> model.learn_many(np.arange(100.0)[:, None], 3.0 * np.arange(100.0))
        >>> lower, upper = model.predict_interval_one({0: 100.0}, level=0.9)
        >>> lower < 300.0 < upper
        True
        """
        with self._lock:
            reach = self._reach(check_level(level))
            forecast = self._forecast_one(x)
            return forecast - reach, forecast + reach

    def predict_interval_many(self, X: Any, level: float = 0.9) -> Any:
        """Return an interval for every row, all as for the next row; see `predict_interval_one`.

        Returns
        -------
        tuple, frame or list
            Of an array the lower and the upper ends, two arrays (n_rows,); of a frame one with the
            columns "lower" and "upper"; of a list one of tuples.

        Examples
        --------
        >>> StreamRegressor().predict_interval_many([{"size": 3.0}])
        [(-inf, inf)]
        """
        with self._lock:
            reach = self._reach(check_level(level))
            source, forecasts = self._forecast_many(X)
            return intervals_like(source, forecasts - reach, forecasts + reach)

    def _forecast_one(self, x: Any) -> float:
        """Return the forecast for a sample, which waits for its target."""
        if not self._count:
            check_mapping(x)
            # Values may be anything yet.
            with suppress(Exception):
                apply((self._waiting.plan_add(sample_key(x), NOTHING_LEARNT, 0), ()))
            return 0.0
        given = self._forecast(self._columns.row(x)).given
        apply((self._waiting.plan_add(sample_key(x), given.packed(), self._count), ()))
        return given.value

    def _forecast_many(self, X: Any) -> tuple[Any, Floats]:
        """Return what answers to a batch are like, and the forecast for every row, (n_rows,).

        They wait for their targets.
        """
        rows = self._columns.placed(read_stream_batch(X))
        check_not_empty("X", len(rows))
        forecaster, forecasts = self._forecaster(), np.empty(len(rows))

        def packed() -> Iterator[Floats]:
            for number, row in enumerate(rows):
                given = forecaster.forecast(row.values).given
                forecasts[number] = given.value
                yield given.packed()

        keys = map(sample_key, samples_of(X))
        self._waiting = self._waiting.with_added(keys, packed(), self._count)
        return source_of(X), forecasts

    def _given(self, row: Floats, key: int | None) -> tuple[Given | None, int]:
        """Return the forecast that was given for a late row, and how many rows were learnt since.

        The forecast is None if nothing was learnt before it, and the number 0 if the row is not
        late. A row that was never forecast, or just now, is as late as `label_delay` says.
        """
        found = None if key is None else self._waiting.find(key, self._count)
        if found is not None and found[1]:
            packed, delay = found
            return Given.unpacked(packed), delay
        delay = self.label_delay
        then = self._delayed[0] if len(self._delayed) == delay > 0 else None
        if then is None or not then.past:
            return None, delay
        return then.forecast(row).given, delay

    def _forecaster(self) -> Forecaster:
        """Return what a forecast is made of now; weights change in place."""
        weights = tuple((each.long.weights, each.short.weights) for each in self._memories)
        scales = self._scaler, self._activations, self._targets
        judged = self._losses, self._limits
        return Forecaster(*scales, weights, *judged, self._past, self._deviation())

    def _forecast(self, row: StreamRow) -> Forecast:
        """Return the forecast for a row now: made once, if it is learnt next."""
        key, seen = row.values.tobytes(), self._seen
        if seen is None or seen[0] != key:
            self._seen = seen = key, self._forecaster().forecast(row.values)
        return seen[1]

    def _deviation(self) -> float:
        """Return the standard deviation of a fresh target; one error says little."""
        if self._weight < FEWEST_ERRORS:
            return math.inf
        return OF_ABSOLUTE * self._error * math.exp(self._width)

    def _reach(self, level: float) -> float:
        """Return how far an interval reaches to each side of the forecast."""
        deviation = self._deviation()
        # Infinity times the quantile of a level near 0 would be NaN.
        return deviation if math.isinf(deviation) else -deviation * float(ndtri((1.0 - level) / 2))

    def _plan(
        self, columns: StreamColumns, known: StreamRow, target: float, key: int | None, w: float
    ) -> tuple[Calls, State]:
        """Plan to learn a row in given columns: one pass, and changes that are made together.

        `key` is that of its sample; it may be None if no forecast waits. w is its weight.
        """
        row = known.values
        model = self if columns is self._columns else self._grown(columns)
        past, (judged, delay) = self._past, self._given(row, key)
        if delay:
            # Learnt with the last rows of then, by the scales and weights of now.
            past = past if judged is None else judged.past
            forecast = model._forecaster()._replace(past=past).forecast(row)
        else:
            forecast = model._forecast(known)
            judged = forecast.given if past else None
        both = np.array([target, target - past[-1][0] if past else math.nan])
        errors = None if judged is None else np.abs(judged.of_experts - target).tolist()
        calls, state = model._plan_memories(forecast, errors, self._targets.transform(both), w)
        changes = vars(model).copy() if model is not self else {}
        if judged is not None and errors is not None:
            error = abs(judged.value - target)
            changes |= self._judged(error, errors, judged.deviation, w, delay)
        low, high = self._limits if self._count else (target, target)
        changes |= {
            "_limits": (min(low, target), max(high, target)),
            "_scaler": model._scaler.learnt(row, known.gaps),
            "_targets": self._targets.learnt(both),
            "_past": (*self._past, (target, row))[-2:],
            "_count": self._count + 1,
            "_seen": None,
        }
        if self.label_delay:
            now = self._forecaster()
            weights = tuple((long.copy("F"), short.copy("F")) for long, short in now.weights)
            calls.append((self._delayed.append, now._replace(weights=weights)))
        if key is not None:
            calls += self._waiting.plan_take(key)
        state += [(self, name, value) for name, value in changes.items()]
        return tuple(calls), tuple(state)

    def _plan_block(
        self,
        samples: Sequence[Sample],
        targets: Sequence[float],
        keys: Sequence[int | None],
        weights: Floats,
    ) -> tuple[tuple[Calls, State], Answer]:
        """Plan to learn rows of known features, without delay; return their forecasts, too."""
        placed, past = self._columns.placed(samples), self._past
        n_rows, values = len(placed), np.array([row.values for row in placed])
        y, last = np.array(targets), past[-1][0]
        lasts = np.append(last, y[:-1])
        both = np.array([y, y - lasts]).T
        change = last - past[0][0] if past[1:] else math.nan
        scaler, scalers = self._scaler.along(values, [row.gaps for row in placed])
        of_targets, origins = self._targets.along(both, [()] * n_rows)
        # What `Forecaster.forecast` does, for every row by the rows before it.
        scaled = scalers.transform(values)
        rows_before = np.array([enlarged(past[-1][1], values.shape[1]), *values[:-1]])
        changes = scaled - scalers.transform(rows_before)
        lags = origins.transform(np.array([(last, change), *both[:-1]]))
        activations = self._activations.of(scaled)
        features = activations[:, N_UNITS:]
        rows = (
            np.concatenate((lags, activations), axis=1),
            np.ascontiguousarray(features),
            np.concatenate((lags, features[:, :1], changes), axis=1),
        )
        scaled_targets = origins.transform(both)
        means, deviations = origins.means, np.sqrt(origins.variances)
        low = np.minimum.accumulate(np.append(self._limits[0], y))
        high = np.maximum.accumulate(np.append(self._limits[1], y))
        margin = MARGIN * (high - low)
        ends = (low - margin)[:-1, None], (high + margin)[:-1, None]
        first = (means + np.array([[0.0, 1.0]]) * lasts[:, None])[:, TARGETS]
        # How forecasts are judged before every row, and after the last.
        judged = [{name: getattr(self, name) for name in JUDGED}]
        answers = Answer(np.empty(n_rows), np.empty(n_rows))
        draft, of_rows = shallow_copy(self), weights.tolist()

        def compare(start: int, scores: Sequence[Floats]) -> Iterator[list[int]]:
            part = slice(start, start + scores[0].shape[1])
            of_all = [each.swapaxes(0, 1).reshape(len(each[0]), -1) for each in scores]
            models = first[part] + deviations[part][:, TARGETS] * np.concatenate(of_all, axis=1)
            others = lasts[part, None], means[part, :1]
            forecasts = np.maximum(np.concatenate((models, *others), axis=1), ends[0][part])
            np.minimum(forecasts, ends[1][part], out=forecasts)
            misses = np.abs(forecasts - y[part, None]).tolist()
            del judged[start + 1 :]
            for row, (of_experts, errors) in enumerate(zip(forecasts, misses, strict=True), start):
                vars(draft).update(judged[row])
                value = float(shares_of(draft._losses, RATE).dot(of_experts))
                deviation = draft._deviation()
                answers.means[row], answers.deviations[row] = value, deviation
                error = abs(value - targets[row])
                judged.append(judged[row] | draft._judged(error, errors, deviation, of_rows[row]))
                yield draft._compared(errors)

        of_pairs = [scaled_targets[:, pair] for pair in PAIRS.values()]
        changed = {
            "_memories": learn_in_blocks(self._memories, rows, of_pairs, weights, compare),
            "_limits": (float(low[-1]), float(high[-1])),
            "_scaler": scaler,
            "_targets": of_targets,
            # Copies of two rows: views would keep the whole block.
            "_past": tuple(zip(targets[-2:], values[-2:].copy(), strict=True)),
            "_count": self._count + n_rows,
            "_seen": None,
        }
        changed |= judged[-1]
        return ((), tuple((self, name, value) for name, value in changed.items())), answers

    def _compared(self, errors: list[float]) -> list[int]:
        """Return for every pair whether its long (1) or its short memory (-1) errs more, or 0.

        Both memories are compared on the target of a pair that they have forecast better.
        """
        losses, differences = self._losses, list[int]()
        for rivals in RIVALS:
            long, short = min(rivals, key=lambda both: losses[both[0]] + losses[both[1]])
            differences.append((errors[long] > errors[short]) - (errors[long] < errors[short]))
        return differences

    def _plan_memories(
        self, forecast: Forecast, errors: list[float] | None, scaled: Floats, w: float
    ) -> tuple[list[Any], list[Any]]:
        """Return calls and states of the memories to learn a row with its forecast."""
        calls, state = list[Any](), list[Any]()
        differences = [0] * len(PAIRS) if errors is None else self._compared(errors)
        pairs = zip(
            self._memories, PAIRS.values(), differences, forecast.rows, forecast.scores, strict=True
        )
        for memories, targets, difference, seen, scores in pairs:
            planned = memories.plan(seen, scaled[targets], scores, difference, w)
            calls += planned[0]
            state += planned[1]
        return calls, state

    def _judged(
        self, error: float, errors: list[float], deviation: float, w: float, delay: int = 0
    ) -> dict[str, Any]:
        """Return what tells how good forecasts are, after the errors of one more.

        It was given with a deviation, its target came `delay` rows late, and the row weighs w.
        """
        pace = 1.0 / math.sqrt(1.0 + delay)
        weight = RECENT**pace * self._weight + w
        known = min(error, LARGEST * self._error) if self._error > 0.0 else error
        mean = self._error + w * (known - self._error) / weight if weight else 0.0
        losses, most = self._losses, LARGEST * mean
        if mean > 0.0:
            pairs = zip(losses, errors, strict=True)
            losses = [RECENT * loss + w * min(each, most) / mean for loss, each in pairs]
        width = self._width
        if math.isfinite(deviation):
            missed = error > WITHIN * deviation
            # Heavier rows would throw it to and fro.
            width += min(w, 1.0) * ADAPTING * pace * (missed - (1.0 - COVERED))
            width = min(max(width, -WIDEST), WIDEST)
        return {"_weight": weight, "_error": mean, "_losses": losses, "_width": width}

    def _memories_grown(self, memories: Sequence[Memories]) -> list[Memories]:
        """Return memories of the sizes that the activations ask for."""
        sizes = _sizes(self._activations.n_wide)
        return [each.grown(*shape) for each, *shape in zip(memories, sizes, N_TARGETS, strict=True)]

    def _grown(self, columns: StreamColumns) -> Self:
        """Return a model with room for features met first, as a draft."""
        model = self._in_columns(columns)
        model._activations = self._activations.grown(columns.names, 0)
        model._memories = model._memories_grown(self._memories)
        return model
