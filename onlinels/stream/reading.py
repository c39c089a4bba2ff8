"""Samples of numbers, text and gaps, read as rows in which what is unknown is NaN."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from onlinels.arrays import Floats, Integers, check_not_empty, packed, within_bounds
from onlinels.columns import Columns
from onlinels.encoding import PLAIN_NUMBERS, Layout, read_row
from onlinels.frames import as_frame
from onlinels.names import Name

MOST_CATEGORIES = 64
"""Different texts of one name that get a column each; later ones count as none of these."""


NO_TEXTS: Mapping[Name, str] = {}


class Sample(NamedTuple):
    """What one sample says: numbers in the order of a layout, and texts by name."""

    layout: Layout
    numbers: Floats
    texts: Mapping[Name, str]


def read_stream_sample(x: Any) -> Sample:
    """Read one river sample; None, NaN and absent features are unknown.

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
    >>> sample.layout, sample.numbers, sample.texts
    (('size',), array([3.]), {'colour': 'red'})
    """
    if type(x) is dict and PLAIN_NUMBERS.issuperset(map(type, x.values())):
        try:
            numbers = packed(x.values())
        except struct.error:
            return _read_mixed(x)
        if not numbers.size or within_bounds(numbers):
            return Sample(tuple(x), numbers, NO_TEXTS)
    return _read_mixed(x)


def _read_mixed(x: Mapping[Any, Any]) -> Sample:
    if not isinstance(x, Mapping):
        return Sample(*read_row(x), NO_TEXTS)
    texts = {name: str(value) for name, value in x.items() if isinstance(value, str)}
    numbers = {
        name: value for name, value in x.items() if name not in texts and not _is_missing(value)
    }
    return Sample(*read_row(numbers), texts)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


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


class RowReader:
    """Place samples in the columns of a model, which come as features do.

    A text is a column of its own, named "name=text": 1 where that is the text of the name, 0
    where it is another one, unknown where the name is absent.

    Examples
    --------
    >>> reader = RowReader().knowing([read_stream_sample({"a": 2.0, "b": "x"})])
    >>> reader.names, reader.row(read_stream_sample({"b": "y"}))
    (('a', 'b=x'), array([nan,  0.]))
    """

    def __init__(self) -> None:
        self._columns = Columns()
        self._texts: dict[Name, list[str]] = {}
        self._places: dict[Name, Integers] = {}
        # For speed: the last layout, and one that fills all columns, with its order.
        self._last: Layout | None = None
        self._complete: Layout | None = None
        self._order: Integers = np.zeros(0, dtype=np.intp)

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the columns."""
        return self._columns.names

    def knowing(self, samples: Iterable[Sample]) -> RowReader:
        """Return a reader that knows all features of the samples too: this one, if it does.

        Raises
        ------
        ValueError
            If an array has another length than before, or two names are one feature.
        """
        columns, texts = self._columns, self._texts
        layout = self._last
        for sample in samples:
            if sample.layout != layout or sample.texts:
                columns, texts = _extended(columns, texts, sample)
            layout = sample.layout
        if columns is self._columns and texts is self._texts:
            reader = self
        else:
            reader = RowReader()
            reader._columns, reader._texts = columns, texts
            reader._places = {n: columns.locate(_columns_of(n, texts[n])) for n in texts}
        reader._last = layout
        return reader

    def row(self, sample: Sample) -> Floats:
        """Return a sample as a row (n_columns,); features that no column is for are left out."""
        if sample.layout == self._complete and not sample.texts:
            return sample.numbers[self._order]
        places = self._columns.locate(sample.layout)
        known = places >= 0
        row = np.full(len(self._columns), np.nan)
        row[places[known]] = sample.numbers[known]
        if len(places) == len(row) and known.all():
            self._complete, self._order = sample.layout, places.argsort()
        for name, text in sample.texts.items():
            if name in self._texts:
                row[self._places[name]] = [text == known for known in self._texts[name]]
        return row


def _extended(
    columns: Columns, texts: dict[Name, list[str]], sample: Sample
) -> tuple[Columns, dict[Name, list[str]]]:
    """Return columns and texts that know a sample too: the same objects, if they do already."""
    new = {
        name: [*texts.get(name, []), text]
        for name, text in sample.texts.items()
        if text not in texts.get(name, []) and len(texts.get(name, [])) < MOST_CATEGORIES
    }
    columns = columns.extended([sample.layout])
    for name, known in new.items():
        columns = columns.extended([_columns_of(name, known[-1:])])
    return columns, texts | new if new else texts


def _columns_of(name: Name, texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}={text}" for text in texts)
