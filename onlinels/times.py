"""Timestamps of rows: numbers or dates, read as float64."""

from __future__ import annotations

import numbers
from datetime import UTC, datetime
from typing import Any

import numpy as np

from onlinels.arrays import Floats
from onlinels.scalars import as_number, equals_itself

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_times(t: Any, n_rows: int, dates: bool) -> Floats:
    """Return the times of rows, (n_rows,): numbers as they are, dates as seconds since 1970.

    Parameters
    ----------
    t : number, datetime, or array, series or list of n_rows of them
    n_rows : int
    dates : bool
        Whether dates are expected; dates without a time zone count as UTC.

    Raises
    ------
    TypeError
        If dates come where numbers are expected, or the other way round.
    ValueError
        If a time is NaN, infinite or missing, or their number is not `n_rows`.

    Examples
    --------
    >>> read_times([3, 4.5], n_rows=2, dates=False)
    array([3. , 4.5])
    >>> read_times(datetime(1970, 1, 2), n_rows=2, dates=True)
    array([86400., 86400.])
    """
    if np.ma.is_masked(t):
        raise ValueError("t holds masked times, expected finite ones. Leave those rows out.")
    values = np.asarray(t)
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(object)
    if values.ndim and values.shape != (n_rows,):
        raise ValueError(
            f"t has shape {values.shape}, expected ({n_rows},). Pass one time per row, or one for "
            "all."
        )
    read = _seconds if dates else _number
    times = np.array([read(value) for value in values.ravel().tolist()], dtype=np.float64)
    if not np.isfinite(times).all():
        raise ValueError(
            f"t holds {times[~np.isfinite(times)][0]}, expected finite times. Leave rows without a "
            "time out."
        )
    return np.broadcast_to(times, n_rows) if values.ndim == 0 else times


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"t holds {value!r} of type {type(value).__name__}, expected numbers, as half_life is "
            "a number. Pass half_life as a timedelta if times are dates."
        )
    number = as_number(value)
    return np.nan if number is None else number


def _seconds(value: Any) -> float:
    if value is None or not equals_itself(value):
        return float("nan")
    if not isinstance(value, datetime):
        raise TypeError(
            f"t holds {value!r} of type {type(value).__name__}, expected datetimes, as half_life "
            "is a timedelta. Pass half_life as a number if times are numbers."
        )
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - EPOCH).total_seconds()
