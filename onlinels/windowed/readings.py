"""Readings of sensors as they come: dicts, frames and arrays with a number for every channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from typing import Any

import numpy as np

from onlinels.arrays import Floats, Matrix
from onlinels.batch import ArrayFeature, Batch, Layout
from onlinels.encoding import read_batch, read_frame, read_sample
from onlinels.frames import as_frame
from onlinels.names import Name
from onlinels.times import read_times


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of sensors.

    Parameters
    ----------
    values : ndarray (n, n_channels)
    layouts : tuple of Layout
        Those of the readings; the last one describes the columns of `values`.
    times : ndarray (n,), optional
        In seconds.
    dates : bool
        Whether the times came as dates.
    source : narwhals DataFrame, list or ndarray
        What was read, for answers in kind.
    """

    values: Matrix
    layouts: tuple[Layout, ...]
    times: Floats | None = None
    dates: bool = False
    source: Any = None


def read_reading(x: Any, timestamp: Name | None) -> Readings:
    """Read one reading, a dict of numbers, and its time if it has the name `timestamp`.

    Raises
    ------
    TypeError
        If `x` is no dict, a value no number, or the time neither a number nor a date.
    ValueError
        If a value or the time is missing or not finite, or a value is an array.

    Examples
    --------
    >>> reading = read_reading({"ax": 1.0, "ay": 2.0, "t": 0.5}, "t")
    >>> reading.values, reading.layouts, reading.times
    (array([[1., 2.]]), (('ax', 'ay'),), array([0.5]))
    """
    if timestamp is None or not isinstance(x, Mapping):
        return _readings(read_sample(x))
    return _readings(read_sample(_without(x, timestamp)), [_time(x, timestamp)], timestamp)


def read_readings(X: Any, timestamp: Name | None) -> Readings:
    """Read readings that follow one another: an array (n, n_columns), a frame or a list of dicts.

    The time is the column, or the entry of each dict, of the name `timestamp`; an array's columns
    are named 0, 1, …

    Raises
    ------
    TypeError, ValueError
        As `read_reading`.

    Examples
    --------
    >>> readings = read_readings(np.array([[0.0, 3.0], [0.5, 4.0]]), timestamp=0)
    >>> readings.values.ravel(), readings.layouts, readings.times
    (array([3., 4.]), ((1,),), array([0. , 0.5]))
    """
    if timestamp is None:
        return _readings(read_batch(X))
    if isinstance(X, np.ndarray):
        return _read_array(X, timestamp)
    if isinstance(X, (list, tuple)):
        if not all(isinstance(x, Mapping) for x in X):
            return _readings(read_batch(X))
        batch = read_batch([_without(x, timestamp) for x in X])
        return _readings(batch, [_time(x, timestamp) for x in X], timestamp, X)
    return _read_frame(X, timestamp)


def _read_array(X: Matrix, timestamp: Name) -> Readings:
    batch = read_batch(X)
    columns = list(range(batch.values.shape[1]))
    if timestamp not in columns:
        raise _no_time("X", timestamp)
    kept = [column for column in columns if column != timestamp]
    stamps = batch.values[:, columns.index(timestamp)].tolist()
    placed = Batch(batch.values[:, kept], (tuple(kept),), X)
    return _readings(placed, stamps, timestamp)


def _read_frame(X: Any, timestamp: Name) -> Readings:
    frame = as_frame(X)
    name: Any = timestamp
    if name not in frame.columns:
        raise _no_time("X", timestamp)
    stamps = frame.get_column(name).to_list()
    return _readings(read_frame(frame.drop(name).to_native()), stamps, timestamp, frame)


def _without(x: Mapping[Any, Any], timestamp: Name) -> dict[Any, Any]:
    return {name: value for name, value in x.items() if name != timestamp}


def _time(x: Mapping[Any, Any], timestamp: Name) -> Any:
    if timestamp not in x:
        raise _no_time("x", timestamp)
    return x[timestamp]


def _no_time(argument: str, timestamp: Name) -> ValueError:
    return ValueError(
        f"{argument} has no {timestamp!r}, expected the time of every reading under this name. "
        "Pass it, or leave timestamp out if readings are evenly spaced."
    )


def _readings(
    batch: Batch, stamps: Sequence[Any] | None = None, timestamp: Name = None, source: Any = None
) -> Readings:
    for layout in batch.layouts:
        if not isinstance(layout, range) and any(isinstance(e, ArrayFeature) for e in layout):
            raise ValueError(
                "A reading holds an array, expected one number for each channel. Pass readings one "
                "by one, or whole windows to the wrapped classifier itself."
            )
    times, dates = (None, False) if stamps is None else _seconds(stamps, timestamp)
    shown = batch.source if source is None else source
    return Readings(batch.values, batch.layouts, times, dates, shown)


def _seconds(stamps: Sequence[Any], timestamp: Name) -> tuple[Floats, bool]:
    """Return the times of readings in seconds, and whether they are dates."""
    dates = [isinstance(stamp, (datetime, np.datetime64)) for stamp in stamps]
    for stamp, is_date in zip(stamps, dates, strict=True):
        number = isinstance(stamp, Real) and not isinstance(stamp, bool)
        if not (is_date or number) or is_date is not dates[0]:
            kind = type(stamp).__name__
            raise TypeError(
                f"{timestamp!r} is {stamp!r} of type {kind}, expected a number of seconds or a "
                "datetime, the same for all readings. Convert it."
            )
    return np.concatenate([read_times(s, 1, dates[0]) for s in stamps]), dates[0]
