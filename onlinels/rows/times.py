"""Times of rows: read exactly, and rounded to float64 only as differences.

A number of nanoseconds since 1970 in float64 is rounded to 256, and a number of seconds to 2.4e-7.
Differences of exact times are rounded once, to the nearest float64.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinels.checks import (
    LEARNABLE,
    MAX_VALUE,
    Floats,
    as_number,
    check_one_per_row,
    check_unstructured,
    is_missing,
    number_text,
    plain_scalar,
    readable,
    refusal,
    unwrapped,
    within_bounds,
)

Time = int | float | Fraction
"""An exact time: an int if it is whole, otherwise a float, or a fraction if no float holds it."""

Times = NDArray[Any]
"""Exact times of rows, (n,): float64 if it holds them all, otherwise objects: int or Fraction."""

NUMBERS = (Real, Decimal)
DATES = (date, np.datetime64)
"""Types of times; datetime and pandas.Timestamp are dates."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE_EPOCH = datetime(1970, 1, 1)

PLAIN_ZONES = None, UTC
"""Time zones of dates that `onlinels.core` reads."""

DATES_OF_CORE = NAIVE_EPOCH, EPOCH, UTC, "tzinfo", "days", "seconds", "microseconds"
"""What it reads them by: see `read_date` in learning.h."""

NANOSECONDS: dict[str, int | Fraction] = {
    "W": 604_800 * 10**9,
    "D": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
    **{unit: Fraction(1, 1000**k) for k, unit in enumerate(("ps", "fs", "as"), 1)},
}
"""Nanoseconds in each unit of numpy that has a fixed length."""

FACTORS = {np.dtype(f"datetime64[{unit}]"): NANOSECONDS[unit] for unit in ("s", "ms", "us", "ns")}
"""Nanoseconds in the units of most dates of numpy and pandas."""

PER_SECOND = 10**9
"""Units of dates in a second."""

MISSING_TIME = "Leave out rows without a time."


@dataclass(frozen=True, eq=False)
class ReadTimes:
    """Times that were read before, which are passed where times are read."""

    times: Times


def exact(number: Any) -> Time:
    """Return a finite number as an equal time.

    Examples
    --------
    >>> exact(np.float64(1.7e18)), exact(np.int64(2**60 + 1)), exact(Decimal("0.5"))
    (1700000000000000000, 1152921504606846977, 0.5)
    >>> exact(Fraction(1, 3)), exact(0.1)
    (Fraction(1, 3), 0.1)
    """
    if isinstance(number, Integral):
        return int(number)
    if not isinstance(number, float) and hasattr(number, "as_integer_ratio"):
        fraction = Fraction(*number.as_integer_ratio())
        if float(fraction) != fraction:
            return fraction.numerator if fraction.denominator == 1 else fraction
    number = float(number)
    return int(number) if number.is_integer() else number


def rational(time: Time) -> int | Fraction:
    """Return a time as a number whose sums and differences are exact."""
    return time if isinstance(time, int) else Fraction(time)


def is_time(value: Any) -> bool:
    """Return whether a value, for example from a file, is an exact time."""
    return type(value) in (int, float, Fraction) and abs(value) <= MAX_VALUE


def times_of(values: Sequence[Time]) -> Times:
    """Return times as an array."""
    floats = np.array([*map(float, values)], dtype=np.float64)
    if floats.tolist() == [*values]:
        return floats
    return np.array([*map(rational, values)], dtype=object)


def since(times: Times, origin: Time) -> Floats:
    """Return the times that have passed since an origin.

    Examples
    --------
    >>> since(times_of([2**60 + 1, 2**60 + 4]), 2**60)
    array([1., 4.])
    """
    if times.dtype == np.float64 and float(origin) == origin:
        passed: Floats = times - float(origin)
        return passed
    return np.array([elapsed(time, origin) for time in times.tolist()], dtype=np.float64)


def elapsed(later: Time, earlier: Time) -> float:
    """Return the time from one time to another."""
    return float(rational(later) - rational(earlier))


def read_times(t: Any, n_rows: int, dates: bool, name: str = "t") -> Times:
    """Return the times of rows, (n_rows,): numbers unchanged, dates in nanoseconds since 1970.

    Parameters
    ----------
    t : number, date, or array, series or list of n_rows of them
        Times of the rows, or one time for all rows. Numbers are those of Python and numpy, and
        decimals; dates are those of Python, numpy, pandas, polars and pyarrow, in any unit.
    n_rows : int
        Number of rows.
    dates : bool
        Whether dates are expected. Those without a time zone count as UTC, and those without a time
        as midnight.
    name : str
        Name of the times in messages.

    Raises
    ------
    TypeError
        If `t` has dates where numbers are expected, or numbers where dates are expected.
    ValueError
        If a time is missing, infinite or beyond 1e150, or the number of times is not `n_rows`.

    Examples
    --------
    >>> read_times([3, 4.5], n_rows=2, dates=False)
    array([3. , 4.5])
    >>> read_times(np.datetime64("2026-05-04T03:02:01.123456789"), n_rows=2, dates=True)
    array([1777863721123456789, 1777863721123456789], dtype=object)
    """
    if np.ma.is_masked(t):
        raise refusal(name, "holds masked times", "finite times", MISSING_TIME)
    check_unstructured(name, t)
    # numpy would convert the numbers of a list to one type.
    is_array = hasattr(t, "dtype") or hasattr(t, "__array__")
    values = np.asarray(readable(t)) if is_array else np.array(t, dtype=object)
    check_one_per_row(name, values.shape, n_rows, "time")
    times = _exact_times(values.ravel(), dates, name)
    return np.broadcast_to(times, n_rows) if values.ndim == 0 else times


def _exact_times(values: NDArray[Any], dates: bool, name: str) -> Times:
    if dates and values.dtype.kind == "M":
        return times_of(_nanoseconds(values, name))
    if not dates and values.dtype in (np.float32, np.float64) and within_bounds(values):
        return values.astype(np.float64)
    if not dates and (values.dtype.kind in "iu" or {*map(type, values)} <= {float, int}):
        numbers = values.tolist()
        if all(abs(number) <= MAX_VALUE for number in numbers):
            return times_of(numbers)
    # Not `tolist`, by which numpy's durations in nanoseconds become numbers.
    return times_of([_time(value, dates, name) for value in values])


def _time(value: Any, dates: bool, name: str) -> Time:
    """Return one time."""
    value = unwrapped(value)
    if is_missing(value):
        raise refusal(name, f"holds {value}", "finite times", MISSING_TIME)
    is_kind = isinstance(value, DATES if dates else NUMBERS) and not isinstance(value, bool)
    number = as_number(value) if is_kind and not dates else 0.0
    if not is_kind or number is None:
        found = f"{name} holds {reprlib.repr(plain_scalar(value))} of type {type(value).__name__}"
        remedy = "Pass dates if half_life is a timedelta, and numbers if it is a number."
        raise TypeError(f"{found}, expected {'dates' if dates else 'numbers'}. {remedy}")
    if dates:
        return _nanoseconds_of(value, name)
    if not abs(number) <= MAX_VALUE:
        expected = f"finite times {LEARNABLE}"
        raise refusal(name, f"holds {number_text(value, number)}", expected, MISSING_TIME)
    return exact(value)


def _nanoseconds_of(value: Any, name: str) -> Time:
    """Return the nanoseconds from 1970 to one date."""
    if hasattr(value, "to_datetime64"):
        value = value.to_datetime64()  # A pandas.Timestamp, in UTC and in its own unit.
    if isinstance(value, np.datetime64):
        return _nanoseconds(np.array([value]), name)[0]
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // MICROSECOND * 1000


def nanoseconds_of(value: Any) -> Any:
    """Return the nanoseconds from 1970 to a date, fast; NotImplemented if it is of another kind.

    Examples
    --------
    >>> nanoseconds_of(datetime(1970, 1, 2)), nanoseconds_of(np.datetime64(7, "us"))
    (86400000000000, 7000)
    >>> nanoseconds_of(np.datetime64("NaT", "us")), nanoseconds_of(1.0)
    (NotImplemented, NotImplemented)
    """
    if type(value) is not datetime:
        if hasattr(value, "to_datetime64"):
            value = value.to_datetime64()
        if type(value) is not np.datetime64:
            return NotImplemented
        kind, value = value.dtype, value.item()
        if type(value) is int and kind in FACTORS:
            return value * FACTORS[kind]
        if type(value) is not datetime:
            return NotImplemented
    since = value - (NAIVE_EPOCH if value.tzinfo is None else EPOCH)
    seconds = 86_400 * since.days + since.seconds
    return 1_000 * (1_000_000 * seconds + since.microseconds)


def _nanoseconds(dates: NDArray[np.datetime64], name: str) -> list[Time]:
    """Return the nanoseconds from 1970 to each date of an array."""
    if np.isnat(dates).any():
        raise refusal(name, "holds NaT", "finite times", MISSING_TIME)
    if np.datetime_data(dates.dtype)[0] in ("Y", "M"):
        days = dates.astype("datetime64[D]")
        if (days.astype(dates.dtype) != dates).any():
            raise ValueError(f"{name} holds a date beyond all days of numpy. Pass other dates.")
        dates = days
    unit, n_units = np.datetime_data(dates.dtype)
    factor = n_units * NANOSECONDS[unit]
    counts = dates.astype(np.int64).tolist()
    if isinstance(factor, int):
        return [count * factor for count in counts]
    return [exact(count * factor) for count in counts]


# Durations

Duration = timedelta | np.timedelta64
"""Time between dates: a timedelta, or numpy's for fractions of microseconds."""

MICROSECOND = timedelta(microseconds=1)


def nanoseconds_in(duration: Duration) -> int | Fraction:
    """Return a duration in nanoseconds.

    Examples
    --------
    >>> nanoseconds_in(timedelta(microseconds=3)), nanoseconds_in(np.timedelta64(500, "ns"))
    (3000, 500)
    """
    if isinstance(duration, timedelta):
        return duration // MICROSECOND * 1000
    unit, n_units = np.datetime_data(duration.dtype)
    return int(duration.astype(np.int64)) * n_units * NANOSECONDS[unit]


def read_duration(value: Any) -> Any:
    """Return a duration of Python, numpy or pandas as a `Duration`; anything else unchanged.

    Examples
    --------
    >>> read_duration(np.timedelta64(2, "h")), read_duration(np.timedelta64(2, "Y"))
    (datetime.timedelta(seconds=7200), np.timedelta64(2,'Y'))
    """
    if hasattr(value, "to_timedelta64"):
        value = value.to_timedelta64()  # A pandas.Timedelta, in its own unit.
    if not isinstance(value, np.timedelta64) or np.datetime_data(value.dtype)[0] not in NANOSECONDS:
        return value
    microseconds = Fraction(nanoseconds_in(value), 1000)
    is_whole = microseconds.denominator == 1 and abs(microseconds) <= timedelta.max // MICROSECOND
    return timedelta(microseconds=int(microseconds)) if is_whole else value


# Times of files that older versions wrote


def from_seconds(seconds: Any, dates: bool) -> Any:
    """Return a time of a file: of dates, older versions wrote the seconds since 1970.

    These were rounded from whole microseconds.

    Examples
    --------
    >>> from_seconds(1777863721.234567, dates=True), from_seconds(2.0, dates=False)
    (1777863721234567000, 2)
    """
    if type(seconds) is not float or not isfinite(seconds):
        return seconds
    return round(seconds * 1e6) * 1000 if dates else exact(seconds)
