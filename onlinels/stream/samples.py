"""Samples of numbers, text and gaps, and what they say."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from onlinels.arrays import Floats, check_not_empty, packed, within_bounds
from onlinels.batch import Layout
from onlinels.encoding import PLAIN_NUMBERS, read_row
from onlinels.frames import as_frame
from onlinels.names import Name

TIMES = datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64

NO_TEXTS: Mapping[Name, str] = {}


class Sample(NamedTuple):
    """What one sample says: numbers in the order of a layout, texts by name, names of gaps."""

    layout: Layout
    numbers: Floats
    texts: Mapping[Name, str] = NO_TEXTS
    gaps: tuple[Name, ...] = ()


def read_stream_sample(x: Any) -> Sample:
    """Read one river sample; None, NaN and pandas.NA are gaps.

    Parameters
    ----------
    x : mapping
        Feature names to numbers, arrays of numbers, text, None or NaN.

    Raises
    ------
    TypeError
        If `x` is not a mapping, or a value is of another kind.
    ValueError
        If a number is infinite or beyond 1e150.

    Examples
    --------
    >>> sample = read_stream_sample({"size": 3, "colour": "red", "age": None})
    >>> sample.layout, sample.numbers, sample.texts, sample.gaps
    (('size',), array([3.]), {'colour': 'red'}, ('age',))
    """
    if _is_plain(x):
        try:
            numbers = packed(x.values())
        except struct.error:
            return _read_mixed(x)
        if not numbers.size or within_bounds(numbers):
            return Sample(tuple(x), numbers)
    return _read_mixed(x)


def _is_plain(x: Any) -> bool:
    return type(x) is dict and PLAIN_NUMBERS.issuperset(map(type, x.values()))


class ReadOnce:
    """Read samples, and one that is predicted and then learnt only once.

    Measured: to compare two dicts takes a tenth of the time of reading and placing one.

    Examples
    --------
    >>> reader = ReadOnce()
    >>> reader.read({"a": 1.0, "b": 2.0}) is reader.read({"b": 2.0, "a": 1.0})
    True
    """

    def __init__(self) -> None:
        self._last: tuple[dict[Any, Any], Sample] | None = None

    def read(self, x: Any) -> Sample:
        """Return what a sample says: the very same object, if it says the same as the last one."""
        last = self._last
        if last is not None and _is_plain(x) and x == last[0]:
            return last[1]
        sample = read_stream_sample(x)
        # Arrays may change, and text is read rarely: only plain numbers are kept.
        self._last = (dict(x), sample) if sample.texts is NO_TEXTS else None
        return sample


def _read_mixed(x: Any) -> Sample:
    if not isinstance(x, Mapping):
        return Sample(*read_row(x))
    texts = {name: str(value) for name, value in x.items() if isinstance(value, str)}
    gaps = tuple(name for name, value in x.items() if _is_missing(value))
    others = texts.keys() | gaps
    numbers = {name: value for name, value in x.items() if name not in others}
    for name, value in numbers.items():
        if isinstance(value, TIMES):
            raise TypeError(
                f"x[{name!r}] is {value!s} of type {type(value).__name__}, expected a number. Turn "
                "a time into seconds since a fixed one, its hour or its day."
            )
    return Sample(*read_row(numbers), texts, gaps)


def _is_missing(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    # By its name: pandas, whose NA equals nothing, need not be installed.
    kind = type(value)
    return value is None or (kind.__name__ == "NAType" and kind.__module__.startswith("pandas"))


def read_stream_batch(X: Any) -> tuple[Any, list[Sample]]:
    """Read a mini-batch row by row: an array, a frame (pandas, polars, pyarrow …) or dicts.

    Returns
    -------
    source : narwhals DataFrame, list or ndarray
        What was read, for answers in kind.
    samples : list of Sample

    Raises
    ------
    TypeError, ValueError
        If `X` is of another kind or has no rows, or a row cannot be read.
    """
    source, rows = _rows_of(X)
    samples = [read_stream_sample(row) for row in rows]
    check_not_empty("X", len(samples))
    return source, samples


def _rows_of(X: Any) -> tuple[Any, Iterable[Any]]:
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(
                f"X has shape {X.shape}, expected (n_rows, n_columns). Pass one row per sample."
            )
        return X, (dict(enumerate(row)) for row in X.tolist())
    if isinstance(X, (list, tuple)):
        return X, X
    frame = as_frame(X)
    return frame, frame.iter_rows(named=True)
