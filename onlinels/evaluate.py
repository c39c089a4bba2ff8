"""Progressive validation: every row is predicted, then learnt (prequential, test-then-train)."""

from __future__ import annotations

import datetime as dt
import os
import reprlib
from collections import UserList, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import chain, count
from numbers import Real
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from river import base

from onlinels.checks import (
    SPARSE_TYPES,
    Floats,
    Integers,
    by_row,
    check_count,
    check_kind,
    check_number,
    check_weights,
    refusal,
    wrong_type,
)
from onlinels.numerics import restore
from onlinels.pipelines import FIXED_STEPS, columns_of_rows, end_of, last_step, steps_of
from onlinels.rows.batch import (
    Name,
    as_numpy,
    form_of,
    matched_by_position,
    part_of,
    samples_of,
    source_of,
)
from onlinels.rows.labels import as_list, check_one_column

# river.metrics and river.evaluate, which import scipy.stats and scikit-learn, are imported where
# they are used.

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Tables and streams


@dataclass(frozen=True)
class LabelledTable:
    """Rows with a list of their targets, and arguments of `learn_one` by row."""

    X: Any
    targets: list[Any]
    options: dict[str, Sequence[Any]]
    timestamp: Name | None = None

    def samples(self, part: slice) -> Iterable[Any]:
        """Return rows as river samples."""
        X = part_of(self.X, part)
        of_images = isinstance(X, np.ndarray) and X.ndim > 2
        return ({"image": image} for image in X) if of_images else samples_of(X, self.timestamp)

    def stream(self) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
        """Yield the rows as a river stream."""
        # A thousand rows at a time become Python objects.
        starts = range(0, len(self.targets), 1000)
        samples = chain.from_iterable(self.samples(slice(at, at + 1000)) for at in starts)
        for x, y, *given in zip(samples, self.targets, *self.options.values(), strict=True):
            yield x, y, dict(zip(self.options, given, strict=True))


@matched_by_position
def read_table(model: Any, X: Any, y: Any, w: Any, t: Any) -> LabelledTable:
    """Read an array, a sparse matrix, a frame or a list of dicts, with its targets."""
    # Converted once: parts of them are read one after the other.
    X, y = as_numpy(X), as_numpy(y, "y")
    X = X.tocsr() if isinstance(X, SPARSE_TYPES) else X
    source = source_of(X)
    n_rows = source.shape[0] if hasattr(source, "shape") else len(source)
    several = isinstance(model, (base.MultiTargetRegressor, base.MultiLabelClassifier))
    if not several:
        check_one_column(y)
    targets = list(samples_of(y)) if several else as_list(y, "target per row")
    options: dict[str, Any] = {}
    if w is not None:
        options["w"] = np.broadcast_to(check_weights(w, n_rows), n_rows).tolist()
    if t is not None:
        options["t"] = by_row("t", t, n_rows)
    if len(targets) != n_rows:
        remedy = "Pass one for each row of X."
        raise refusal("y", f"has {len(targets)} values", str(n_rows), remedy)
    # A `WindowedClassifier` reads times from the rows.
    return LabelledTable(X, targets, options, getattr(last_step(model), "timestamp", None))


# Loops over rows


class Counted:
    """A metric over all rows, and over the rows of the current window, as river's loop uses one."""

    def __init__(self, metric: Any) -> None:
        self.whole, self.blank = metric, blank_of(metric)
        self.begin_window()
        self.requires_labels = getattr(metric, "requires_labels", True)

    def begin_window(self) -> None:
        """Count the rows of the next window from 0."""
        self.windowed = blank_of(self.blank)

    def works_with(self, model: Any) -> bool:
        """Return True: the metric has been checked."""
        return True

    def update(self, y_true: Any, y_pred: Any) -> None:
        """Count a prediction."""
        self.whole.update(y_true, y_pred)
        self.windowed.update(y_true, y_pred)


def by_batches(
    model: Any, method: str, table: LabelledTable, counted: Counted, window: int, batch_size: int
) -> Iterator[int]:
    """Predict and learn batches; yield the number of rows at the end of every window."""
    *steps, last = steps_of(model)
    n_rows = len(table.targets)
    for start in range(0, n_rows, window):
        stop = min(start + window, n_rows)
        for at in range(start, stop, batch_size):
            part = slice(at, min(at + batch_size, stop))
            # Predicted dicts hold the classes that were known before each row, also in a batch.
            as_dicts = method == "predict_proba_learn_many"
            X = list(table.samples(part)) if as_dicts else part_of(table.X, part)
            options = {name: values[part] for name, values in table.options.items()}
            try:
                X = model.transform_many(X) if steps else X
                answers = as_list(getattr(last, method)(X, table.targets[part], **options))
            except (TypeError, ValueError) as error:
                error.add_note(f"The batch has the rows {part.start} to {part.stop - 1}.")
                raise
            for y, answer in zip(table.targets[part], answers, strict=True):
                # As in river, what is predicted before anything is learnt does not count.
                if answer not in (None, {}):
                    counted.update(y, answer)
        yield stop


def checked_rows(stream: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of a stream; raise TypeError unless they are pairs or triples."""
    for number, row in enumerate(stream):
        if not isinstance(row, (tuple, list)) or len(row) not in (2, 3):
            raise TypeError(
                f"Row {number} of the stream is {reprlib.repr(row)}, expected a pair (x, y), or a "
                'triple (x, y, {"w": weight}). Pass such rows, or a table as the tuple (X, y).'
            )
        x, y, *options = row
        # Copied, because river removes the weight.
        yield x, y, *map(dict, options)


def in_form_of(model: Any, X: Any, ends: Iterator[int]) -> Iterator[int]:
    """Yield the ends of windows in which rows of a table are learnt one by one, as dicts.

    A model that has learnt rows of a plain array rejects rows with other names afterwards.
    """
    layout, (steps, last) = columns_of_rows(model, X).layouts[-1], end_of(model)
    formed = [(last, layout)] if hasattr(last, "_take_form") else []
    # A hidden layer in front has the columns of the table.
    formed += [(step, form_of(X)) for step in steps[:1] if hasattr(step, "_take_form")]
    for step, form in formed:
        columns = step._state.columns if hasattr(step, "_state") else step._columns
        columns.in_form(form)  # Raises if the step has learnt other names.
    try:
        yield from ends
    finally:
        for step, form in formed:
            with step._lock:
                if last.count:
                    step._take_form(form)


class Arrivals:
    """Times of rows and delays of their targets, as river's loop asks for them, row by row.

    Raises TypeError or ValueError for those that it could not take.
    """

    def __init__(self, moment: Any, delay: Any) -> None:
        if not (moment is None or isinstance(moment, str) or callable(moment)):
            remedy = "Pass a function for a name of another type, such as lambda x: x[0]."
            raise wrong_type("moment", moment, "the name of a feature, or a function of x", remedy)
        if delay is None and moment is not None:
            remedy = "Pass the time until targets are known, or 0."
            raise refusal("delay", "is None", "a time to add to those of moment", remedy)
        self.is_told = isinstance(delay, str) or callable(delay)
        self._moment, self._delay, self._time = moment, delay, None
        if not self.is_told and delay is not None:
            self._check(delay)

    def arguments(self) -> tuple[Any, Any]:
        """Return `moment` and `delay` for river."""
        moment = None if self._moment is None else self.moment
        return moment, self.delay if self.is_told else self._delay

    def moment(self, x: Any) -> Any:
        """Return the time of a row."""
        self._time = _told("moment", self._moment, x)
        if not self.is_told:
            self._check(self._delay)
        return self._time

    def delay(self, x: Any, y: Any) -> Any:
        """Return the delay of a row's target."""
        delay = _told("delay", self._delay, x, y)
        self._check(delay)
        return delay

    def _check(self, delay: Any) -> None:
        """Raise unless a delay can be added to the time of the row, and is not negative."""
        if isinstance(delay, (dt.timedelta, np.timedelta64)):
            if self._moment is None:
                expected = "a number of rows, because rows have no times without moment"
                remedy = "Pass as moment the name of the feature with the time."
                raise wrong_type("delay", delay, expected, remedy)
            if delay < 0 * delay:
                raise refusal(
                    "delay", f"is {delay!r}", "at least 0", "Pass the time until a target."
                )
        elif self._moment is None or isinstance(delay, (Real, str)):
            check_number("delay", delay, lambda number: number >= 0.0, "at least 0")
        if self._time is not None:
            try:
                self._time + delay
            except TypeError as error:
                expected = f"what can be added to {self._time!r}, which moment gives"
                remedy = "Pass a datetime.timedelta for dates, and a number for numbers."
                raise wrong_type("delay", delay, expected, remedy) from error


def _told(argument: str, source: Any, *row: Any) -> Any:
    """Return what the name of a feature, or a function, tells of a row (x,) or (x, y)."""
    if callable(source):
        return source(*row)
    try:
        return row[0][source]
    except (KeyError, IndexError, TypeError) as error:
        found = f"is {source!r}, which is not in the row {reprlib.repr(row[0])}"
        remedy = "Check the spelling, or pass a function."
        raise refusal(argument, found, "the name of a feature of every row", remedy) from error


class KeyedRows:
    """A stream model, or a pipeline that ends in one, whose rows have keys in river's loop.

    So every label finds the forecast of its row. Rows come as from `numbered_rows`.
    """

    _supervised = True

    def __init__(self, model: Any, counted: Counted) -> None:
        self._model, self._last, self._n_asked = model, last_step(model), 0
        is_probable = isinstance(model, base.Classifier) and not counted.requires_labels
        self._predict = model.predict_proba_one if is_probable else model.predict_one
        # Other rows may wait in the model.
        known = (key for key in self._last.waiting.keys if isinstance(key, int))
        self._first = 1 + max(known, default=-1)

    def predict_one(self, x: Any, number: int, **given: Any) -> Any:
        """Return the answer to the question of the metric."""
        self._n_asked += 1
        return self._predict(x, key=self._first + number, **given)

    def learn_one(self, x: Any, y: Any, number: int, **given: Any) -> None:
        """Learn a row, without a key if its forecast was the oldest of too many."""
        key = self._first + number
        may_lack = self._n_asked - number > self._last.max_waiting
        if not may_lack or (key,) in self._last._state.waiting:
            given["key"] = key
        self._model.learn_one(x, y, **given)


def numbered_rows(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of a stream as triples with their numbers."""
    for number, (x, y, *options) in enumerate(rows):
        yield x, y, dict(*options) | {"number": number}


def by_rows(
    rows: Iterable[Any], model: Any, counted: Any, window: int, moment: Any, delay: Any
) -> Iterator[int]:
    """Evaluate by river's loop; yield the number of rows at the end of every window."""
    from river import evaluate

    n_rows, numbers = 0, count()
    rows = (row for row, _ in zip(rows, numbers, strict=False))
    is_late = moment is not None or delay not in (None, 0, 1)
    if is_late and hasattr(last_step(model), "learn_late"):
        rows, model = numbered_rows(rows), KeyedRows(model, counted)
    for state in evaluate.iter_progressive_val_score(
        rows, model, counted, moment, delay, step=window
    ):
        n_rows = state["Step"]
        yield n_rows
    n_read = next(numbers)
    if n_read > n_rows:
        # River yields nothing if there are fewer rows than one step.
        yield n_read


@dataclass(frozen=True, repr=False, eq=False)
class ProgressiveScore:
    """The result of `progressive_val_score`: a metric over all rows, and its learning curves.

    Attributes
    ----------
    name : str
        Name of the model in plots.
    metric : river.metrics.base.Metric
        The metric that was passed, over all rows; in river's `Rolling`, over its last rows.
    window : int
        Number of rows per window.
    rows : ndarray (n_windows,)
        Number of rows predicted and learnt by the end of every window. The last window may be
        shorter.
    cumulative : ndarray (n_windows,) or (n_windows, n_metrics)
        The metric over all rows up to the end of every window; NaN if the metric is not a number,
        such as ConfusionMatrix. Metrics joined by ``+`` have a column each, and PerOutput has one
        per output.
    windowed : ndarray of the same shape
        The metric over the rows of every window alone.
    seconds : ndarray (n_windows,)
        Time since the start.

    Examples
    --------
    >>> from river import datasets, linear_model, metrics
    >>> model, stream = linear_model.Perceptron(), datasets.Phishing()
    >>> score = progressive_val_score(stream, model, metrics.Accuracy(), window=500)
    >>> score.rows, score.windowed.round(2)
    (array([ 500, 1000, 1250]), array([0.8 , 0.86, 0.87]))
    """

    name: str
    metric: Any
    window: int
    rows: Integers
    cumulative: Floats
    windowed: Floats
    seconds: Floats

    __setstate__ = restore

    def __repr__(self) -> str:
        """Return the metric, the model and the number of rows in one line."""
        n_rows = int(self.rows[-1]) if len(self.rows) else 0
        texts = (
            type(each).__name__ if np.isnan(value_of(each)) else repr(each)
            for each in metrics_in(self.metric)
        )
        return f"{', '.join(texts)} ({self.name}, {n_rows:,} rows)"

    def plot(
        self,
        *others: ProgressiveScore,
        metric: str | None = None,
        path_or_axes: str | os.PathLike[str] | Axes | None = None,
    ) -> Axes:
        """Draw the learning curves of this model and others: windows solid, all rows dashed.

        Needs matplotlib: ``pip install 'onlinels[demos]'``. A last window with fewer rows is not
        drawn, unless it is the only window.

        Parameters
        ----------
        *others : ProgressiveScore
            Scores of other models with the same metric and the same window.
        metric : str, optional
            Name of the metric or output to draw if there are several, such as "Accuracy"; by
            default the first.
        path_or_axes : path, Axes or None
            Path of the picture to save, or axes to draw on. None opens a pyplot figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the drawing.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If one of `others` is not a score or has another window, or a score lacks the metric.
        """
        curves = []
        for score in (self, *others):
            check_kind("others", score, (ProgressiveScore,))
            if score.window != self.window:
                found, expected = f"has windows of {score.window:,} rows", f"{self.window:,}"
                raise refusal(score.name, found, expected, "Evaluate with one window.")
            curves.append((score, *score._curves(metric)))
        with axes_at(path_or_axes, (8.0, 4.0)) as axes:
            for score, _, cumulative, windowed in curves:
                n_whole = max(1, int(np.sum(score.rows % score.window == 0)))
                # A single point is no line.
                marker = "o" if n_whole == 1 else None
                rows, label = score.rows[:n_whole], score.name
                (line,) = axes.plot(rows, windowed[:n_whole], lw=1.8, marker=marker, label=label)
                axes.plot(score.rows, cumulative, color=line.get_color(), lw=1.0, ls=(0, (4, 3)))
            drawn = curves[0][1]
            what = f"{type(drawn).__name__}, per {self.window:,} rows (solid) and so far (dashed)"
            axes.set_title(what, loc="left")
            label = "rows, each answered before it was learnt"
            axes.set(xlabel=label, xlim=(0, None), axisbelow=True)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            if "%" in drawn._fmt:
                axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")
            axes.grid(axis="y", color="#E4E4E4")
            axes.legend(frameon=False)
        return axes

    def _curves(self, name: str | None) -> tuple[Any, Floats, Floats]:
        """Return a metric, by default the first, and its cumulative and windowed values."""
        columns = columns_of(self.metric)
        parts, names = [*columns.values()], [name for _, name in columns]
        name = names[0] if name is None else name
        if name not in names:
            remedy = "Pass one of them, or scores with the same metric."
            raise refusal(f"The score of {self.name}", f"has the metrics {names}", name, remedy)
        place = names.index(name)
        # The curves of a single metric are no tables.
        cumulative, windowed = map(np.atleast_2d, (self.cumulative.T, self.windowed.T))
        return parts[place], cumulative[place], windowed[place]


def inside(metric: Any) -> Any:
    """Return the metric in river's `Rolling`, or the metric itself."""
    from river.utils import Rolling

    return metric.obj if isinstance(metric, Rolling) else metric


def metrics_in(metric: Any) -> list[Any]:
    """Return the metrics that are joined in a metric; of river's `Rolling`, those inside."""
    metric = inside(metric)
    return list(metric) if isinstance(metric, UserList) else [metric]


def blank_of(metric: Any) -> Any:
    """Return a metric of the same settings that has counted nothing.

    The clone of river's `Rolling` is the metric inside, without its window.
    """
    new = inside(metric).clone()
    if inside(metric) is metric:
        return new
    blank = copy(metric)
    blank.obj, blank.window = new, deque(maxlen=metric.window_size)
    return blank


def columns_of(metric: Any) -> dict[tuple[int, str], Any]:
    """Return the metric of every column of the curves, by place and name.

    Metrics joined by ``+`` have a column each, and PerOutput has one per output.
    """
    from river.metrics.multioutput import PerOutput

    columns: dict[tuple[int, str], Any] = {}
    for place, part in enumerate(metrics_in(metric)):
        if isinstance(part, PerOutput):
            columns |= {(place, str(output)): each for output, each in part.metrics.items()}
        else:
            columns[place, type(part).__name__] = part
    return columns


def values_of(metric: Any) -> dict[tuple[int, str], float]:
    """Return the value of every column of the curves."""
    return {column: value_of(each) for column, each in columns_of(metric).items()}


def value_of(metric: Any) -> float:
    """Return the value of a single metric; NaN if it is not a number."""
    try:
        return float(metric.get())
    except (NotImplementedError, TypeError, ValueError):
        # MacroAverage raises StatisticsError, a ValueError, if it has counted nothing.
        return np.nan


@contextmanager
def axes_at(place: Any, size: tuple[float, float], **settings: Any) -> Iterator[Axes]:
    """Give the axes to draw on: those passed, or those of a new figure, saved at a path."""
    try:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
        from matplotlib.figure import Figure
    except ImportError as error:
        problem = "matplotlib is not installed. Run: pip install 'onlinels[demos]'"
        raise ImportError(problem) from error
    if isinstance(place, Axes):
        yield place
        return
    # Only pyplot keeps its figures, to show them.
    figure = (pyplot.figure if place is None else Figure)(figsize=size, layout="constrained")
    if place is not None:
        expected = "a path for the picture, or axes. Pass one, such as pyplot.gca()."
        check_kind("path_or_axes", place, (str, os.PathLike), expected)
    yield figure.add_subplot(**settings)
    if place is not None:
        figure.savefig(place)


def progressive_val_score(
    dataset: Any,
    model: Any,
    metric: Any,
    moment: Any = None,
    delay: Any = None,
    *,
    w: Any = None,
    t: Any = None,
    window: int = 1000,
    batch_size: int = 1000,
    name: str | None = None,
) -> ProgressiveScore:
    """Evaluate a model on a stream by progressive validation, in batches if the model can.

    The model predicts every row before it learns the row: progressive validation (Blum, Kalai and
    Langford), also called prequential evaluation (Dawid) or test-then-train. The arguments are
    those of river's ``evaluate.progressive_val_score``, and the metric has the value that river's
    function returns: it counts the same predictions in the same order, including those before the
    first learnt row. If targets are late, `StreamClassifier` and `StreamRegressor` are passed a key
    with each row, which river's function does not do.

    Parameters
    ----------
    dataset : iterable of (x, y), or tuple (X, y)
        The rows: a stream of pairs (x, y), or of triples with a dict such as ``{"w": 2.0}``, like
        river's data sets; or a table and its targets. X is an array or sparse matrix (n_rows,
        n_features), an array of images, a frame or a list of dicts; y is an array, series or list
        of n_rows targets, for several targets an array, frame or list of dicts. A tuple of length 2
        is always a table: pass a stream of two rows as a list.
    model : classifier, regressor or any other model that river evaluates
        The model to evaluate, which learns the rows. A model with `predict_learn_many`
        (`predict_proba_learn_many` for metrics of probabilities) predicts and learns a table in
        batches. Streams, several targets and other models are predicted and learnt row by row.
    metric : river.metrics.base.Metric
        A river metric of predictions, or several joined by ``+``. It is updated in place, as in
        river.
    moment, delay : optional
        Time of a row, by default its number, and time after which its target is revealed, as in
        river's ``stream.simulate_qa``: a row of time s is learnt before the first row of time
        s + delay or later is predicted. A delay of 0 or 1 row is the same as None.
    w : float, or array, series or list of n_rows floats, optional
        Weights for learning, at least 0. As in river, models whose `learn_one` has no w ignore
        them, and so does the metric.
    t : number or date, or array, series or list of n_rows of them, optional
        Times of the rows, for models with a `half_life`.
    window : int
        Number of rows in a window of the learning curve, at least 1.
    batch_size : int
        Maximum number of rows of a table that are predicted and learnt at once, at least 1. The
        size changes predictions by rounding only.
    name : str, optional
        Name of the model in plots; by default its class, or the steps of a pipeline.

    Returns
    -------
    ProgressiveScore
        The metric, and its learning curve over all rows and over every window.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid; nothing has changed then. Also if the model rejects a row: the
        rows before it have been learnt and counted by the metric, or the batches before it.

    Notes
    -----
    The time is that of the model and of the metric. Batches end at the windows, so windows of less
    than about 100 rows are slower. With a delay of more than one row, or a `moment`, rows are
    predicted one by one.

    References
    ----------
    A. Blum, A. Kalai and J. Langford, "Beating the hold-out: bounds for k-fold and progressive
    cross-validation", COLT 1999.

    A. P. Dawid, "Present position and potential developments: some personal views: statistical
    theory: the prequential approach", J. R. Statist. Soc. A 147 (1984).

    Examples
    --------
    >>> from river import datasets, metrics
    >>> from onlinels import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier()
    >>> score = progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> print(f"{score.metric.get():.0%}")
    89%
    """
    window = check_count("window", window, 1)
    batch_size = check_count("batch_size", batch_size, 1)
    if isinstance(dataset, base.Estimator):
        expected = "rows, in the order dataset, model, metric"
        remedy = "Pass the rows before the model, a table as the tuple (X, y)."
        raise wrong_type("dataset", dataset, expected, remedy)
    check_metric(model, metric)
    table = None
    if isinstance(dataset, tuple) and len(dataset) == 2:
        table = read_table(model, *dataset, w, t)
    elif not (w is None and t is None):
        remedy = 'Pass triples (x, y, {"w": w, "t": t})'
        raise TypeError(f"w or t is given with a stream, expected None. {remedy}.")
    moment, delay = Arrivals(moment, delay).arguments()
    counted, method = Counted(metric), batch_method(model, metric)
    if table is None:
        ends = by_rows(checked_rows(dataset), model, counted, window, moment, delay)
    elif method is not None and moment is None and delay in (None, 0, 1):
        # A target with a delay of one row arrives before the next row is predicted.
        ends = by_batches(model, method, table, counted, window, batch_size)
    else:
        ends = by_rows(table.stream(), model, counted, window, moment, delay)
        ends = in_form_of(model, table.X, ends)
    name = str(model) if name is None else name
    points, start = [], perf_counter()
    for end in ends:
        values = values_of(metric), values_of(counted.windowed)
        points.append((end, *values, perf_counter() - start))
        counted.begin_window()
    stops, *curves, seconds = zip(*points, strict=True) if points else [()] * 4
    columns, n_rows = columns_of(metric), np.array(stops, dtype=np.intp)
    # A single metric has a number per window, and several have a row of numbers.
    is_one = len(columns) == 1 and not isinstance(inside(metric), UserList)
    shape = (len(stops),) if is_one else (len(stops), len(columns))
    cumulative, windowed = (
        # An output that no row of a window had is NaN.
        np.reshape([[each.get(column, np.nan) for column in columns] for each in curve], shape)
        for curve in curves
    )
    times = np.array(seconds)
    return ProgressiveScore(name, metric, window, n_rows, cumulative, windowed, times)


def check_metric(model: Any, metric: Any) -> None:
    """Raise TypeError unless the metric is one of river's, for models like this one."""
    from river.metrics.base import ClusteringMetric

    is_metric = hasattr(metric, "works_with") and not isinstance(metric, (type, ClusteringMetric))
    if not is_metric or not metric.works_with(model):
        found = f"metric={reprlib.repr(metric)} does not work with a model of type "
        expected = "expected, in the order dataset, model, metric, a river metric for the model"
        raise TypeError(
            f"{found}{type(model).__name__}, {expected}. Pass metrics.Accuracy() for a classifier, "
            "metrics.MAE() for a regressor, multioutput.MicroAverage of it for several targets."
        )


def batch_method(model: Any, metric: Any) -> str | None:
    """Return the method that predicts and learns batches; None if the model has none."""
    *steps, last = steps_of(model)
    probable = isinstance(model, base.Classifier) and not metric.requires_labels
    method = "predict_proba_learn_many" if probable else "predict_learn_many"
    fixed = all(isinstance(step, FIXED_STEPS) for step in steps)
    several = isinstance(model, base.MultiTargetRegressor)
    return method if fixed and hasattr(last, method) and not several else None
