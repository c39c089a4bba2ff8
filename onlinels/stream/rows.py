"""Samples as rows of a matrix whose columns come as features do."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Floats, Integers, check_not_empty, packed, within_bounds
from onlinels.rows import (
    PLAIN_NUMBERS,
    Columns,
    Layout,
    Name,
    as_frame,
    check_distinct,
    feature_key,
    key_text,
    names_of,
    plain_name,
    read_row,
)

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


MOST_FEATURES = 4096
"""Features at most: four inverses of that many rows and columns take half a gigabyte."""

MOST_CATEGORIES = 64
"""Different texts of one name that get a column each; later ones count as none of these."""


Texts = dict[Name, list[str]]
"""By name, the texts that have a column, in their order."""


class RowReader:
    """Place samples in the columns of a model, which come as features do.

    A text is a column of its own, named (name, text): 1 where that is the text of the name, else
    0. What a sample leaves out is 0, as in river's linear models; its gaps are NaN.

    Examples
    --------
    >>> from onlinels.stream.samples import read_stream_sample
    >>> reader = RowReader().knowing([read_stream_sample({"a": 2.0, "b": "x", "c": 1.0})])
    >>> reader.names, reader.row(read_stream_sample({"a": None, "b": "y"}))
    (('a', 'c', ('b', 'x')), array([nan,  0.,  0.]))
    """

    def __init__(self, columns: Columns | None = None, texts: Texts | None = None) -> None:
        self._columns = Columns() if columns is None else columns
        self._texts: Texts = {} if texts is None else texts
        self._places = {
            name: self._columns.locate(_columns_of(name, known))
            for name, known in self._texts.items()
        }
        # For speed: the last layout, and one that fills all columns, with its order.
        self._last: Layout | None = None
        self._complete: tuple[Layout, Integers] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": None, "_complete": None}

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the columns."""
        return self._columns.names

    def knowing(self, samples: Sequence[Sample]) -> RowReader:
        """Return a reader that knows all features of the samples too: this one, if it does.

        Raises
        ------
        ValueError
            If an array has another length than before, two names are one feature, or there are
            more than 4,096.
        TypeError
            If a name has no spelling of its own.
        """
        columns, texts, last = self._columns, self._texts, self._last
        for sample in samples:
            if sample.layout != last or sample.texts or sample.gaps:
                columns, texts = _extended(columns, texts, sample)
            last = sample.layout
        reader = self
        if columns is not self._columns or texts is not self._texts:
            _check_new_names(columns.names, len(self._columns))
            reader = RowReader(columns, texts)
        reader._last = last
        return reader

    def row(self, sample: Sample) -> Floats:
        """Return a sample as a row (n_columns,); features that no column is for are left out."""
        layout, numbers, texts, gaps = sample
        complete = self._complete
        if complete is not None and layout == complete[0] and not (texts or gaps):
            return numbers[complete[1]]
        places = self._columns.locate(layout)
        known = places >= 0
        row = np.zeros(len(self._columns))
        row[places[known]] = numbers[known]
        if len(places) == len(row) and known.all():
            self._complete = layout, places.argsort()
        for name in texts.keys() & self._texts.keys():
            row[self._places[name]] = [texts[name] == text for text in self._texts[name]]
        for name in gaps:
            row[self._columns_of_gap(name)] = np.nan
        return row

    def _columns_of_gap(self, name: Name) -> Integers:
        """Return the columns that a gap leaves unknown: of its texts, numbers and arrays."""
        own = self._columns.columns_of(name)
        return np.concatenate((own, self._places[name])) if name in self._places else own


def _check_new_names(names: Sequence[Name], n_known: int) -> None:
    """Refuse features before anything changes: too many, or without a spelling to draw units by."""
    if len(names) > MOST_FEATURES:
        raise ValueError(
            f"x brings the features to {len(names)}, expected at most {MOST_FEATURES}. Hash them "
            "into fewer with river's FeatureHasher(n_features=1024) before this model."
        )
    for name in names[n_known:]:
        key_text(feature_key(name))


def _extended(columns: Columns, texts: Texts, sample: Sample) -> tuple[Columns, Texts]:
    """Return columns and texts that know a sample too: the same objects, if they do already."""
    new = {
        name: [*texts.get(name, []), text]
        for name, text in sample.texts.items()
        if text not in texts.get(name, []) and len(texts.get(name, [])) < MOST_CATEGORIES
    }
    if sample.texts or sample.gaps:
        check_distinct((*names_of(sample.layout), *sample.texts, *sample.gaps))
    columns = columns.extended([sample.layout])
    if not new:
        return columns, texts
    # Together, so that the order of a dict's keys is no matter.
    added = chain(*(_columns_of(name, known[-1:]) for name, known in new.items()))
    return columns.extended([tuple(added)]), texts | new


def _columns_of(name: Name, texts: Iterable[str]) -> tuple[Name, ...]:
    return tuple((plain_name(name), text) for text in texts)
