"""Progressive validation: every row is predicted, then learnt (prequential, test-then-train)."""

from __future__ import annotations

import os
import re
import reprlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from inspect import Parameter, signature
from itertools import islice
from statistics import StatisticsError
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from river import base, evaluate, metrics
from scipy import sparse

from onlinels.checks import (
    SPARSE_TYPES,
    Floats,
    Integers,
    Matrix,
    check_count,
    check_flag,
    check_kind,
    check_not_negative,
    check_weights,
    readable,
)
from onlinels.labels import as_list, check_one_column
from onlinels.numerics import restore
from onlinels.pipelines import (
    answers_at_once,
    last_step,
    predict_learn_many,
    predict_proba_learn_many,
)
from onlinels.rows import as_frame, as_numpy, check_aligned, part_of, samples_of, source_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = tuple[Any, Any, dict[str, Any]]
"""An item of a river stream: a sample, its target, and arguments of `learn_one` such as w."""

ARGUMENT_ORDER_REMEDY = "The arguments are, in this order: model, X, y, metric."

BLOCK_ROWS = 1000
"""Number of rows of a table that are converted to Python objects at a time."""

EXAMPLE_REMEDY = 'Pass pairs (x, y), or triples (x, y, {"w": weight}).'


# Readers of tables and streams, in batches or row by row


class Batch(NamedTuple):
    """A batch of rows: arguments of `predict_learn_many`, and the targets in a list."""

    X: Any
    y: Any
    truths: list[Any]
    options: dict[str, Any]


class TableReader:
    """Read an array, a sparse matrix, a frame or a list of dicts, with its targets."""

    def __init__(self, X: Any, y: Any, w: Any, t: Any, has_several_targets: bool) -> None:
        check_aligned(X, y=y, w=w, t=t)
        # Converted once: parts of them are read one after the other.
        X, y = as_numpy(X), as_numpy(y, "y")
        self._X: Any = sparse.csr_array(X) if isinstance(X, SPARSE_TYPES) else X
        source = source_of(self._X)
        n_rows = source.shape[0] if hasattr(source, "shape") else len(source)
        if _is_table(y) and has_several_targets:
            self._y, self._truths = y, list(samples_of(y))
        else:
            check_one_column(y, "Pass one target per row.")
            self._truths = as_list(y, "target per row")
            self._y = y if isinstance(y, np.ndarray) else self._truths
        if len(self._truths) != n_rows:
            problem = f"y has {len(self._truths)} targets, expected {n_rows}"
            raise ValueError(f"{problem}. Pass one target per row of X.")
        # Arguments of `learn_one` for every row.
        self.options: dict[str, Any] = {}
        if w is not None:
            self.options["w"] = np.broadcast_to(check_weights(w, n_rows), n_rows)
        if t is not None:
            self.options["t"] = _times(t, n_rows)
        self.n_rows = n_rows
        self.n_read = 0

    def read(self, size: int) -> Batch:
        """Return the next rows, at most `size`; an empty batch at the end of the table."""
        part = slice(self.n_read, min(self.n_read + size, self.n_rows))
        self.n_read = part.stop
        options = {name: values[part] for name, values in self.options.items()}
        return Batch(part_of(self._X, part), part_of(self._y, part), self._truths[part], options)

    def rows(self) -> Iterator[Row]:
        """Iterate over the rows as river samples."""
        while truths := (batch := self.read(BLOCK_ROWS)).truths:
            options = {name: as_list(each) for name, each in batch.options.items()}
            for row, (x, y) in enumerate(zip(_samples(batch.X), truths, strict=True)):
                yield x, y, {name: values[row] for name, values in options.items()}


def _samples(X: Any) -> Iterator[Any]:
    """Iterate over the rows of a table, or of an array of images, as river samples."""
    of_images = isinstance(X, np.ndarray) and X.ndim > 2
    return ({"image": image} for image in X) if of_images else samples_of(X)


class DeferredErrors:
    """Reads several items of an iterator, and raises its errors after the items before them."""

    def __init__(self, items: Iterator[Any]) -> None:
        self.items = items
        self._error: BaseException | None = None

    def next_items(self, size: int) -> list[Any]:
        """Return the next items, at most `size`; an empty list at the end."""
        if self._error is not None:
            raise self._error
        items: list[Any] = []
        try:
            items.extend(islice(self.items, size))
        except BaseException as error:
            if not items:
                raise
            self._error = error
        return items


class Arguments:
    """The arguments of a model's `learn_one` beside x and y."""

    def __init__(self, model: Any) -> None:
        taken: Mapping[str, Parameter] = {}
        with suppress(ValueError):  # Compiled code may not tell its arguments.
            taken = signature(last_step(model).learn_one).parameters
        kinds = [each.kind for each in taken.values()]
        self._takes_all = not kinds or Parameter.VAR_KEYWORD in kinds
        self._names = [name for name in taken if name not in ("x", "y")]
        self._kind = type(last_step(model)).__name__

    def check(self, given: Iterable[str], problem: str) -> None:
        """Raise TypeError unless all given arguments exist; {} in `problem` is an unknown one."""
        for name in () if self._takes_all else given:
            if name not in self._names:
                known = ", ".join(self._names) or "none"
                expected = f"expected only arguments of {self._kind}.learn_one: {known}"
                raise TypeError(f"{problem.format(name)}, {expected}. Leave {name!r} out.")


class StreamReader:
    """Read pairs (x, y), or triples with arguments of `learn_one`, from an iterable."""

    def __init__(self, stream: Any, model: Any) -> None:
        n_rows = getattr(stream, "n_samples", None)
        if n_rows is None and hasattr(stream, "__len__"):
            n_rows = len(stream)
        self.n_rows: int | None = n_rows
        self._rows = DeferredErrors(map(partial(_read_pair, Arguments(model)), enumerate(stream)))
        self.n_read = 0

    def read(self, size: int) -> Batch:
        """Return the next rows, at most `size`; an empty batch at the end of the stream.

        If the stream raises an error, the rows before the error are returned first.
        """
        rows = self._rows.next_items(size)
        self.n_read += len(rows)
        X, y = [x for x, _, _ in rows], [y for _, y, _ in rows]
        given = {name for _, _, options in rows for name in options}
        if "t" in given and not all("t" in options for _, _, options in rows):
            raise ValueError("Some rows have no t, expected a time in every row. Add it.")
        # A row without a weight has the weight 1.
        options = {name: [each.get(name, 1.0) for _, _, each in rows] for name in given}
        return Batch(X, y, y, options)

    def rows(self) -> Iterator[Row]:
        """Iterate over the rows as river samples."""
        return self._rows.items


Reader = TableReader | StreamReader


def _read_pair(arguments: Arguments, numbered: tuple[int, Any]) -> Row:
    number, row = numbered
    if not isinstance(row, (tuple, list)) or len(row) not in (2, 3):
        raise TypeError(f"Row {number} of the stream is {row!r}, expected a pair. {EXAMPLE_REMEDY}")
    x, y, *options = row
    if options and not isinstance(options[0], Mapping):
        problem = (
            f"Row {number} of the stream has {options[0]!r} as its third entry, expected a dict"
        )
        raise TypeError(f"{problem}. {EXAMPLE_REMEDY}")
    if isinstance(y, Mapping) and not isinstance(x, Mapping):
        problem = f"Row {number} of the stream is a pair (y, x), expected (x, y)"
        raise TypeError(f"{problem}. {EXAMPLE_REMEDY}")
    # Copied, because a stream may reuse its dict, and river removes the weight from the options.
    x = x.copy() if type(x) is dict else x
    given = options[0] if options else {}
    # As in river, None means no weight.
    given = {name: value for name, value in given.items() if value is not None}
    arguments.check(given, f"Row {number} of the stream has {{!r}} in its dict")
    return x, y, given


def _is_table(y: Any) -> bool:
    """Return whether targets or predictions have columns, or are dicts in a list."""
    if isinstance(y, (list, tuple)):
        return bool(y) and isinstance(y[0], Mapping)
    return len(getattr(y, "shape", ())) == 2


def _times(t: Any, n_rows: int) -> list[Any]:
    """Return a time per row; a single time is repeated for all rows."""
    if hasattr(t, "__next__"):
        raise TypeError(f"t is of type {type(t).__name__}, expected times. Pass list(t).")
    times = [t] * n_rows if np.ndim(readable(t)) == 0 else as_list(t, "time per row", "t")
    if len(times) != n_rows:
        raise ValueError(f"t has {len(times)} times, expected {n_rows}. Pass one time per row.")
    return times


def _reader_of(model: Any, X: Any, y: Any, w: Any, t: Any) -> Reader:
    """Return a reader of a table with its targets, or of a stream if no targets are given."""
    if hasattr(y, "works_with"):
        remedy = f"{ARGUMENT_ORDER_REMEDY} With a stream of pairs, pass metric by its name."
        raise TypeError(f"y is the metric {y!r}, expected targets. {remedy}")
    if y is not None:
        several = isinstance(model, (base.MultiTargetRegressor, base.MultiLabelClassifier))
        reader = TableReader(X, y, w, t, several)
        Arguments(model).check(reader.options, "{} is given")
        return reader
    for name, values in {"w": w, "t": t}.items():
        if values is not None:
            remedy = f'Pass triples (x, y, {{"{name}": …}}).'
            raise TypeError(f"{name} is given with a stream, expected None. {remedy}")
    return StreamReader(_stream(X), model)


def _stream(X: Any) -> Iterable[Any]:
    """Return X if it may be a stream; raise otherwise."""
    if (
        isinstance(X, (np.ndarray, *SPARSE_TYPES))
        or hasattr(X, "columns")
        or isinstance(X, Mapping)
    ):
        raise TypeError(f"y is None with X of type {type(X).__name__}, expected targets. Pass y.")
    if isinstance(X, (str, bytes, os.PathLike)):
        remedy = "Read the file, as with pandas.read_csv, or pass river's stream.iter_csv(path)."
        raise TypeError(f"X={reprlib.repr(X)} is a text or a path, expected rows. {remedy}")
    if not isinstance(X, Iterable):
        problem = f"X is of type {type(X).__name__}, expected a table or a stream"
        raise TypeError(f"{problem}. {ARGUMENT_ORDER_REMEDY}")
    return X


# Metrics


class Pair(metrics.base.Metrics):
    """Two metrics of the same kind: over all rows, and over the rows of the current window."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Update both; faster than river, which chooses labels or probabilities for each metric."""
        for each in self.data:
            each.update(*args, **kwargs)


class ClusteringPair(Pair, metrics.base.ClusteringMetric):  # type: ignore[misc]
    """A Pair of metrics of clusters, which river recognises by their class."""


CONFUSION_UPDATES = {
    metrics.base.ClassificationMetric.update,
    metrics.base.BinaryMetric.update,
    metrics.ConfusionMatrix.update,
}
"""Methods `update` of metrics that update a confusion matrix and nothing else."""

MEAN_METRICS = {
    metrics.CrossEntropy,
    metrics.LogLoss,
    metrics.MAE,
    metrics.MAPE,
    metrics.MSE,
    metrics.RMSE,
    metrics.SMAPE,
}
"""Metrics that are the mean of a function of the target and the prediction."""


def update_many(metric: Any, truths: Sequence[Any], answers: Sequence[Any]) -> None:
    """Update a river metric with many answers; the state equals that of single updates.

    Answers None and {} are skipped, as in river.

    Examples
    --------
    >>> accuracy = metrics.Accuracy()
    >>> update_many(accuracy, ["a", "a", "b"], [None, "a", "a"])
    >>> accuracy
    Accuracy: 50.00%
    """
    if None in answers or {} in answers:
        kept = [pair for pair in zip(truths, answers, strict=True) if pair[1] not in (None, {})]
        truths, answers = [y for y, _ in kept], [answer for _, answer in kept]
    labels, counts, losses = answers, None, {}
    if not getattr(metric, "requires_labels", True):
        labels = [max(p, key=p.__getitem__) for p in answers]
    for each in _single_metrics(metric):
        kind, given = type(each), labels if getattr(each, "requires_labels", True) else answers
        if kind.update in CONFUSION_UPDATES and each.requires_labels:
            counts = Counter(zip(truths, given, strict=True)) if counts is None else counts
            _add_counts(each, counts)
        elif kind in MEAN_METRICS:
            if kind not in losses:
                losses[kind] = list(map(each._eval, truths, given))
            _add_to_mean(each._mean, losses[kind])
        else:
            for truth, answer in zip(truths, given, strict=True):
                each.update(y_true=truth, y_pred=answer)


def _add_counts(metric: Any, counts: Mapping[tuple[Any, Any], int]) -> None:
    """Update a metric of a confusion matrix with the counts of pairs of labels.

    Sums of whole numbers are exact. The pairs are in the order of their first row, like the labels
    in the matrix.
    """
    matrix = getattr(metric, "cm", metric)
    for (truth, answer), count in counts.items():
        metric.update(truth, answer, float(count))
        matrix.n_samples += count - 1


def _add_to_mean(mean: Any, values: Iterable[float]) -> None:
    """Update river's mean with values by river's recurrence: sums would round differently."""
    n, average = mean.n, mean._mean
    for value in values:
        n += 1.0
        average += (1.0 / n) * (value - average)
    mean.n, mean._mean = n, average


def _single_metrics(metric: Any) -> Iterator[Any]:
    """Yield the single metrics that a metric consists of."""
    if isinstance(metric, metrics.base.Metrics):
        for each in metric:
            yield from _single_metrics(each)
    else:
        yield metric


# Loops over a stream

AnswerRows = Callable[[int], tuple[Sequence[Any], Sequence[Any]]]
"""Answers and learns at most a number of further rows; returns their targets and answers."""


def _in_batches(model: Any, learn: Any, reader: Reader, are_dicts: bool) -> AnswerRows:
    """Predict and learn whole batches at once; `are_dicts` passes rows as dicts."""

    def answer_rows(size: int) -> tuple[Sequence[Any], Sequence[Any]]:
        batch = reader.read(size)
        if not batch.truths:
            return (), ()
        is_first = not _names_of(model)
        # Predicted dicts hold the classes that were known before each row, also within a batch.
        X = list(_samples(batch.X)) if are_dicts else batch.X
        try:
            answers = learn(X, batch.y, **batch.options)
        except (TypeError, ValueError) as error:
            first = reader.n_read - len(batch.truths)
            error.args = tuple(_renumbered(each, first) for each in error.args)
            raise
        listed = _listed(answers, _names_of(model))
        if is_first and isinstance(listed[0], dict):
            # Before the first row no target is known, but a table has a column for every target.
            listed[0] = {}
        return batch.truths, listed

    return answer_rows


ROW_NUMBERS = re.compile(r"(\b[Xywt]\[|\bin row |^[Xy] holds \S+ at position \()(\d+)")
"""Numbers of rows in messages: "X[5]['a']", "in row 5", "X holds nan at position (5, 0)"."""


def _renumbered(message: Any, first: int) -> Any:
    """Return a message about a batch with row numbers of the whole stream.

    Examples
    --------
    >>> _renumbered("X[5]['a'] is None, expected a number.", 1000)
    "X[1005]['a'] is None, expected a number."
    """
    if not isinstance(message, str):
        return message
    return ROW_NUMBERS.sub(lambda found: f"{found[1]}{int(found[2]) + first}", message)


def _names_of(model: Any) -> Sequence[Any]:
    """Return the names of the columns of a model's answers: classes or targets."""
    last = last_step(model)
    names: Sequence[Any] = getattr(last, "classes", getattr(last, "target_names", ()))
    return names


def _listed(answers: Any, names: Sequence[Any]) -> list[Any]:
    """Return one prediction per row: a label, a number, or a dict for a row of a table."""
    if isinstance(answers, (list, tuple)) or not _is_table(answers):
        return as_list(answers, "answer per row")
    table: Matrix = answers if isinstance(answers, np.ndarray) else as_frame(answers).to_numpy()
    return [dict(zip(names, row, strict=True)) for row in table.tolist()]


def _with_delay(model: Any, predict: Any, reader: Reader, delay: int) -> AnswerRows:
    """Answer every row when it arrives, and learn it `delay` rows later."""

    def learnt() -> Iterator[tuple[Any, Any]]:
        waiting: deque[tuple[Any, Row]] = deque()
        rows = reader.rows()
        row = next(rows, None)
        while row is not None or waiting:
            if row is None or len(waiting) == delay:
                answer, (x, y, options) = waiting.popleft()
                model.learn_one(x, y, **options)
                yield y, answer
            if row is not None:
                waiting.append((predict(row[0]), row))
                row = next(rows, None)

    pairs = DeferredErrors(learnt())

    def answer_rows(size: int) -> tuple[Sequence[Any], Sequence[Any]]:
        part = pairs.next_items(size)
        return [y for y, _ in part], [answer for _, answer in part]

    return answer_rows


def _by_checkpoints(
    answer_rows: AnswerRows, metric: Any, step: int, batch_size: int
) -> Iterator[tuple[int, Any]]:
    """Yield the number of rows predicted and the last prediction, at multiples of `step`."""
    n_rows = 0
    while True:
        truths, answers = answer_rows(min(batch_size, step - n_rows % step))
        if not truths:
            break
        update_many(metric, truths, answers)
        n_rows += len(truths)
        if n_rows % step == 0:
            yield n_rows, answers[-1]
    if n_rows % step:
        yield n_rows, None


def _by_river(
    model: Any, rows: Iterator[Any], metric: Any, step: int, moment: Any, delay: Any
) -> Iterator[tuple[int, Any]]:
    """Yield the same as `_by_checkpoints`, by river's own loop."""
    n_read = n_rows = 0

    def counted() -> Iterator[Any]:
        nonlocal n_read
        for row in rows:
            n_read += 1
            yield row

    states = evaluate.iter_progressive_val_score(
        counted(), model, metric, moment, delay, step=step, yield_predictions=True
    )
    try:
        for state in states:
            n_rows = state["Step"]
            yield n_rows, state["Prediction"]
    except KeyError as error:
        for name, feature in {"moment": moment, "delay": delay}.items():
            if isinstance(feature, str) and error.args == (feature,):
                problem = f"{name}={feature!r} is not a feature of row {n_read - 1} of the stream"
                raise ValueError(f"{problem}. Pass the name of a feature in every row.") from error
        raise
    if n_read > n_rows:
        # River yields nothing if there are fewer rows than one step.
        yield n_read, None


def _checked(
    model: Any, X: Any, y: Any, metric: Any, w: Any, t: Any, moment: Any, delay: Any
) -> tuple[Reader, AnswerRows | None]:
    """Check everything except the single rows; return their reader, and a function to predict them.

    The function is None if river's own loop processes the rows.
    """
    if not hasattr(model, "learn_one") or isinstance(model, type):
        problem = f"model={reprlib.repr(model)} is not a model with learn_one"
        raise TypeError(
            f"{problem}. Pass a model such as LeastSquaresClassifier(). {ARGUMENT_ORDER_REMEDY}"
        )
    reader = _reader_of(model, X, y, w, t)
    if not hasattr(metric, "works_with") or isinstance(metric, type):
        problem = f"metric={reprlib.repr(metric)} is not a river metric"
        remedy = "Pass a metric such as metric=river.metrics.Accuracy(), or several joined by +."
        raise TypeError(f"{problem}. {remedy} {ARGUMENT_ORDER_REMEDY}")
    if not metric.works_with(model):
        remedy = (
            "Pass a metric of labels for a classifier, of numbers for a regressor, and for several "
            "targets a metric such as metrics.multioutput.MicroAverage(metrics.MAE())."
        )
        kind = type(last_step(model)).__name__
        raise TypeError(f"metric={type(metric).__name__}() does not work with {kind}. {remedy}")
    _check_delay(moment, delay)
    probable = isinstance(model, base.Classifier) and not metric.requires_labels
    learn_many = predict_proba_learn_many if probable else predict_learn_many
    is_number = isinstance(delay, (int, np.integer, type(None)))
    if moment is not None or not is_number or not answers_at_once(model, learn_many.__name__):
        return reader, None
    if delay is None or delay <= 1:
        # A label with a delay of one row arrives before the next row is predicted.
        return reader, _in_batches(model, partial(learn_many, model), reader, probable)
    predict = model.predict_proba_one if probable else model.predict_one
    return reader, _with_delay(model, predict, reader, int(delay))


def _check_delay(moment: Any, delay: Any) -> None:
    """Raise unless `delay` can be added to the moment of a row, or to its number."""
    if moment is not None:
        if not (isinstance(moment, str) or callable(moment)):
            expected = "the name of a feature or a function of x"
            raise TypeError(f"moment={moment!r} must be {expected}. Pass one of them.")
        if delay is None:
            problem = "delay is None with a moment, expected the delay of labels"
            raise ValueError(f"{problem}. Pass delay, such as datetime.timedelta(hours=1).")
    elif isinstance(delay, timedelta):
        problem = f"delay={delay!r} is given without a moment, expected both"
        raise TypeError(f"{problem}. Pass moment, the name of the feature that contains the time.")
    elif not (delay is None or callable(delay) or isinstance(delay, str)):
        check_not_negative("delay", delay)


# Public functions


@dataclass(frozen=True, repr=False, eq=False)
class ProgressiveScore:
    """The result of `progressive_val_score`: a metric over all rows, and its learning curves.

    Attributes
    ----------
    name : str
        Name of the model in plots.
    metric : river.metrics.base.Metric
        The metric that was passed, over all rows.
    window : int
        Number of rows per window.
    rows : ndarray (n_windows,)
        Number of rows predicted and learnt by the end of every window. The last window may be
        shorter.
    cumulative : ndarray (n_windows,) or (n_windows, n_metrics)
        The metric over all rows up to the end of every window; NaN if the metric is not a number,
        such as ConfusionMatrix. Metrics joined by ``+`` have a column each, and PerOutput has a
        column for each output.
    windowed : ndarray of the same shape
        The metric over the rows of every window alone.
    seconds : ndarray (n_windows,)
        Time since the start.

    Examples
    --------
    >>> from river import datasets, linear_model, metrics
    >>> model, stream = linear_model.Perceptron(), datasets.Phishing()
    >>> score = progressive_val_score(model, stream, metric=metrics.Accuracy(), window=500)
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
        return f"{_text_of(self.metric)} ({self.name}, {n_rows:,} rows)"

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
            Name of the metric to draw if there are several, such as "Accuracy", or "price - MAE"
            for the output "price" of PerOutput(MAE()); the first metric of this name is drawn. By
            default the first of all metrics.
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
            If one of `others` is not a score or has another window, a score lacks the metric, or
            the metric is not a number.
        """
        scores = (self, *others)
        for score in others:
            check_kind("others", score, (ProgressiveScore,))
            if score.window != self.window:
                windows = f"{score.window:,} rows, {self.name} of {self.window:,}"
                problem = f"{score.name} has windows of {windows}"
                raise ValueError(
                    f"{problem}, expected equal windows. Evaluate both with the same window."
                )
        name = _names_in(self.metric)[0] if metric is None else metric
        curves = [score._curves(name) for score in scores]
        axes: Axes
        with axes_at(path_or_axes, _new_axes, "plot", "set_xlabel") as axes:
            for score, (cumulative, windowed) in zip(scores, curves, strict=True):
                n_whole = max(1, int(np.sum(score.rows % score.window == 0)))
                # A single point is no line.
                marker = "o" if n_whole == 1 else None
                rows, label = score.rows[:n_whole], score.name
                (line,) = axes.plot(rows, windowed[:n_whole], lw=1.8, marker=marker, label=label)
                axes.plot(score.rows, cumulative, color=line.get_color(), lw=1.0, ls=(0, (4, 3)))
            _annotate(axes, name, self)
        return axes

    def _curves(self, name: str) -> tuple[Floats, Floats]:
        """Return the cumulative and the windowed values of a metric."""
        names = _names_in(self.metric)
        if name not in names:
            problem = f"The score of {self.name} has the metrics {names}, not {name!r}"
            raise ValueError(f"{problem}. Pass one of them, or scores with the same metric.")
        curves = (
            each.reshape(len(self.rows), len(names)) for each in (self.cumulative, self.windowed)
        )
        cumulative, windowed = (each[:, names.index(name)] for each in curves)
        if np.isnan(cumulative).all():
            problem = (
                f"{name} of {self.name} has no values to draw, expected a metric that is a number"
            )
            remedy = "Evaluate a sum with such a metric: metrics.Accuracy() + …"
            raise ValueError(f"{problem}, over at least one row. {remedy}")
        return cumulative, windowed


@contextmanager
def axes_at(path_or_axes: Any, new_axes: Callable[[Any], Any], *methods: str) -> Iterator[Any]:
    """Yield the given axes, or axes of a new figure for a path or None; save the figure at a path.

    `new_axes` creates axes from a function that creates a figure. Axes without one of `methods`
    raise a TypeError.
    """
    axes, is_path = path_or_axes, isinstance(path_or_axes, (str, os.PathLike))
    if axes is None or is_path:
        try:
            from matplotlib import pyplot
            from matplotlib.figure import Figure
        except ImportError as error:
            problem = "matplotlib is not installed. Run: pip install 'onlinels[demos]'"
            raise ImportError(problem) from error
        # Only pyplot keeps its figures, to show them.
        axes = new_axes(Figure if is_path else pyplot.figure)
    elif not all(hasattr(axes, name) for name in methods):
        # The module pyplot has some of these only.
        problem = f"path_or_axes={axes!r} is neither a path nor axes"
        raise TypeError(f"{problem}. Pass a path for the picture, or axes such as pyplot.gca().")
    yield axes
    if is_path:
        axes.figure.savefig(path_or_axes)


def _new_axes(figure: Any) -> Any:
    return figure(figsize=(8.0, 4.0), layout="constrained").add_subplot()


def _annotate(axes: Any, name: str, score: ProgressiveScore) -> None:
    """Label the axes."""
    from matplotlib.ticker import FuncFormatter, StrMethodFormatter

    axes.set_title(f"{name}, per {score.window:,} rows (solid) and so far (dashed)", loc="left")
    axes.set_xlabel("rows, each answered before it was learnt")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    drawn = [*_columns_of(score.metric).values()][_names_in(score.metric).index(name)]
    if "%" in drawn._fmt:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g}%"))
    axes.grid(axis="y", color="#E4E4E4")
    axes.set_axisbelow(True)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)


def progressive_val_score(
    model: Any,
    X: Any,
    y: Any = None,
    metric: Any = None,
    *,
    w: Any = None,
    t: Any = None,
    moment: Any = None,
    delay: Any = None,
    window: int = 1000,
    batch_size: int = 1000,
    name: str | None = None,
    progress: bool = False,
) -> ProgressiveScore:
    """Evaluate a model on a stream by progressive validation, in batches if the model can.

    The model predicts every row before it learns the row: progressive validation (Blum, Kalai and
    Langford), also called prequential evaluation (Dawid) or test-then-train. The metric has the
    value that river's ``evaluate.progressive_val_score`` returns: it counts the same predictions in
    the same order, including those before the first learnt row.

    Parameters
    ----------
    model : classifier, regressor or any other model that river evaluates
        The model to evaluate, which learns the rows. A model with `predict_learn_many`
        (`predict_proba_learn_many` for metrics of probabilities) predicts and learns whole batches;
        any other model is evaluated by river's loop, row by row.
    X : array or sparse matrix (n_rows, n_features), array of images, frame, list of dicts, stream
        The rows. A stream is an iterable of pairs (x, y), or triples with a dict such as
        ``{"w": 2.0}``, like river's data sets.
    y : array, series or list of n_rows targets
        Targets, omitted if `X` is a stream. Several targets are an array, frame or list of dicts.
    metric : river.metrics.base.Metric
        A river metric, or several joined by ``+``. It is updated in place, as in river.
    w : float, or array, series or list of n_rows floats, optional
        Weights for learning, at least 0, for models that learn with weights. As in river, the
        metric does not use them.
    t : number or datetime, or array, series or list of n_rows of them, optional
        Times of the rows, for models with a `half_life`.
    moment : str or function of x, optional
        Name of the feature that holds the time of a row. By default the time of a row is its
        number.
    delay : int, str, timedelta or function of x and y, optional
        Delay after which the target is revealed, in rows or in units of `moment`, as in river's
        ``stream.simulate_qa``: a row of time s is learnt before the first row of time s + delay or
        later is predicted. A delay of 0 or 1 row is the same as None. A str is the name of the
        feature that holds the delay.
    window : int
        Number of rows in a window of the learning curve, at least 1.
    batch_size : int
        Maximum number of rows that are predicted and learnt at once, at least 1. The size changes
        predictions by rounding only.
    name : str, optional
        Name of the model in plots; by default its class, or the steps of a pipeline.
    progress : bool
        Whether to show a progress bar, which needs rich: ``pip install 'onlinels[demos]'``.

    Returns
    -------
    ProgressiveScore
        The metric, and its learning curve over all rows and over every window.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid; nothing has changed then. Also if the model rejects a row; then
        the batches before the row have been learnt, and the batch of the row has not. If rows are
        learnt one by one, as with a delay, all rows before the rejected row have been learnt. The
        metric counts the rows that have been learnt.
    ImportError
        If `progress` is True and rich is not installed.

    Notes
    -----
    The time is that of the model and of the metric. On one machine metrics of a confusion matrix,
    MAE, MSE and RMSE take 0.3 to 0.6 microseconds a row, LogLoss 4. Batches end at the windows, so
    windows of less than about 100 rows are slower. With a delay of more than one row, or a
    `moment`, rows are answered one by one.

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
    >>> model, metric = LeastSquaresClassifier(), metrics.Accuracy()
    >>> progressive_val_score(model, datasets.Phishing(), metric=metric)
    Accuracy: 88...% (LeastSquaresClassifier, 1,250 rows)
    """
    window = check_count("window", window, 1)
    check_flag("progress", progress)
    if name is not None:
        check_kind("name", name, (str,))
    batch_size = check_count("batch_size", batch_size, 1)
    reader, answer_rows = _checked(model, X, y, metric, w, t, moment, delay)
    is_clustering = isinstance(metric, metrics.base.ClusteringMetric)
    kind: Any = ClusteringPair if is_clustering else Pair
    blank = metric.clone()
    both = kind([metric, blank.clone()])
    if answer_rows is None:
        checkpoints = _by_river(model, reader.rows(), both, window, moment, delay)
    else:
        checkpoints = _by_checkpoints(answer_rows, both, window, batch_size)
    name = str(model) if name is None else name
    rows, cumulative, windowed, seconds = [], [], [], []
    with _bar(name if progress else None, reader.n_rows) as show:
        start = perf_counter()
        for n_rows, _ in checkpoints:
            rows.append(n_rows)
            cumulative.append(_values_of(metric))
            windowed.append(_values_of(both[1]))
            seconds.append(perf_counter() - start)
            both[1] = blank.clone()
            show(n_rows, metric)
    return ProgressiveScore(
        name,
        metric,
        window,
        rows=np.array(rows, dtype=np.intp),
        cumulative=_curve(cumulative, metric),
        windowed=_curve(windowed, metric),
        seconds=np.array(seconds, dtype=np.float64),
    )


def iter_progressive_val_score(
    model: Any,
    X: Any,
    y: Any = None,
    metric: Any = None,
    *,
    w: Any = None,
    t: Any = None,
    moment: Any = None,
    delay: Any = None,
    step: int = 1,
    batch_size: int = 1000,
    measure_time: bool = False,
    measure_memory: bool = False,
    yield_predictions: bool = False,
) -> Iterator[dict[str, Any]]:
    """Evaluate a model on a stream by progressive validation, and yield its state at checkpoints.

    Progressive validation is also called prequential evaluation or test-then-train. The checkpoints
    are those of river's ``evaluate.iter_progressive_val_score``. At each checkpoint the model has
    learnt the rows so far and no others.

    Parameters
    ----------
    model, X, y, metric, w, t, moment, delay, batch_size
        Arguments of `progressive_val_score`.
    step : int
        Rows from one checkpoint to the next, at least 1. Batches end at checkpoints, so steps of
        less than about 100 rows are slower.
    measure_time, measure_memory, yield_predictions : bool
        Whether to add the time since the start, the bytes of the model, and the last prediction
        (None at the end of a stream whose length is not a multiple of `step`).

    Returns
    -------
    iterator of dict
        The metric under the name of its class, "Step", and on request "Time", "Memory" and
        "Prediction". A stream of fewer than `step` rows yields nothing.

    Raises
    ------
    TypeError, ValueError
        Under the conditions of `progressive_val_score`.

    Examples
    --------
    >>> from river import datasets, linear_model, metrics
    >>> model, stream = linear_model.Perceptron(), datasets.Phishing()
    >>> steps = iter_progressive_val_score(model, stream, metric=metrics.Accuracy(), step=500)
    >>> [state["Step"] for state in steps]
    [500, 1000, 1250]
    """
    step = check_count("step", step, 1)
    batch_size = check_count("batch_size", batch_size, 1)
    reader, answer_rows = _checked(model, X, y, metric, w, t, moment, delay)
    if answer_rows is None:
        # River's own loop, because it counts the labels that active learners request.
        rows: Any = reader.rows()
        measures = measure_time, measure_memory, yield_predictions
        return evaluate.iter_progressive_val_score(
            rows, model, metric, moment, delay, step, *measures
        )

    def states() -> Iterator[dict[str, Any]]:
        start = perf_counter()
        for n_rows, answer in _by_checkpoints(answer_rows, metric, step, batch_size):
            if n_rows < step:
                break
            state: dict[str, Any] = {type(each).__name__: each for each in _parts_of(metric)}
            state["Step"] = n_rows
            if measure_time:
                state["Time"] = timedelta(seconds=perf_counter() - start)
            if measure_memory:
                state["Memory"] = model._raw_memory_usage
            if yield_predictions:
                state["Prediction"] = answer
            yield state

    return states()


def _parts_of(metric: Any) -> list[Any]:
    """Return the metrics that are joined in a metric."""
    return list(metric) if isinstance(metric, metrics.base.Metrics) else [metric]


class Column(NamedTuple):
    """A column of learning curves: a metric of a sum, or that of an output in a PerOutput."""

    # Place of the metric in the sum, and the output in a PerOutput, () otherwise.
    place: int
    output: tuple[Any, ...]

    def name_of(self, metric: Any) -> str:
        """Return the name in plots, such as "MAE", or "price - MAE" as in river's text."""
        return " - ".join([*map(str, self.output), type(metric).__name__])


def _columns_of(metric: Any) -> dict[Column, Any]:
    """Return the single metrics by their columns; a PerOutput has a metric for every output."""
    columns: dict[Column, Any] = {}
    for place, part in enumerate(_parts_of(metric)):
        if isinstance(part, metrics.multioutput.PerOutput) and part.metrics:
            columns |= {Column(place, (name,)): each for name, each in part.metrics.items()}
        else:
            columns[Column(place, ())] = part
    return columns


def _names_in(metric: Any) -> list[str]:
    """Return the names of the columns of a metric."""
    return [column.name_of(each) for column, each in _columns_of(metric).items()]


def _values_of(metric: Any) -> dict[Column, float]:
    """Return the values in the columns of a metric."""
    return {column: _value_of(each) for column, each in _columns_of(metric).items()}


def _value_of(metric: Any) -> float:
    """Return the value of a single metric; NaN if it is not a number."""
    try:
        return float(metric.get())
    except StatisticsError:
        # A MacroAverage without predictions averages nothing; other metrics begin with a value.
        return _value_of(metric.metric) if hasattr(metric, "metric") else np.nan
    except (NotImplementedError, TypeError):
        return np.nan


def _curve(points: Sequence[dict[Column, float]], metric: Any) -> Floats:
    """Return the values at the ends of windows, with a column for each of several metrics.

    An output without predictions has the value of a metric that has counted nothing.
    """
    columns = _columns_of(metric)
    blank = {column: _value_of(each.clone()) for column, each in columns.items()}
    rows = [[(blank | point)[column] for column in columns] for point in points]
    several = isinstance(metric, (metrics.base.Metrics, metrics.multioutput.PerOutput))
    shape = (len(rows), len(columns)) if several else len(rows)
    return np.array(rows, dtype=np.float64).reshape(shape)


def _text_of(metric: Any) -> str:
    """Return a metric in one line; only the names of values that are not numbers."""
    return ", ".join(
        column.name_of(each)
        if np.isnan(_value_of(each))
        else " - ".join([*map(str, column.output), repr(each)])
        for column, each in _columns_of(metric).items()
    )


@contextmanager
def _bar(name: str | None, n_rows: int | None) -> Iterator[Callable[[int, Any], None]]:
    """Give a function that shows the progress; without a name it shows nothing."""
    if name is None:
        yield lambda done, metric: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError as error:
        problem = "rich is not installed. Run: pip install 'onlinels[demos]'"
        raise ImportError(problem) from error
    before = TextColumn("{task.description}", markup=False)
    after = TextColumn("{task.fields[value]}", markup=False)
    columns = before, BarColumn(), MofNCompleteColumn(), after
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(name, total=n_rows, value="")

        def show(done: int, metric: Any) -> None:
            shown.update(task, completed=done, value=_text_of(metric))

        yield show
