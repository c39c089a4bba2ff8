"""Samples of numbers, text and gaps, read as rows in which what is unknown is NaN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from onlinels.arrays import Floats, Integers, check_not_empty
from onlinels.columns import Columns
from onlinels.encoding import PLAIN_NUMBERS, Layout, read_row
from onlinels.names import Name, check_distinct, feature_key, key_text, plain_name

MOST_CATEGORIES = 64
"""Different texts of one name that get a column each; later ones count as none of these."""


@dataclass(frozen=True)
class Sample:
    """What one sample says: numbers in the order of a layout, and texts by name."""

    layout: Layout
    numbers: Floats
    texts: Mapping[Name, str] = field(default_factory=dict)


def read_stream_sample(x: Any) -> Sample:
    """Read one river sample; None, NaN, pandas.NA and absent features are unknown.

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
    if isinstance(x, Mapping) and not PLAIN_NUMBERS.issuperset(map(type, x.values())):
        return _read_mixed(x)
    try:
        return Sample(*read_row(x))
    except ValueError:
        # Of plain numbers only NaN is let through.
        return _read_mixed(x)


def _read_mixed(x: Mapping[Any, Any]) -> Sample:
    texts = {name: str(value) for name, value in x.items() if isinstance(value, str)}
    numbers = {
        name: value for name, value in x.items() if name not in texts and not _is_missing(value)
    }
    return Sample(*read_row(numbers), texts)


def _is_missing(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    # By its name: pandas.NA, which equals nothing, need not be installed.
    return value is None or type(value).__name__ == "NAType"


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
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"X is of type {type(X).__name__}, expected an array (n_rows, n_columns), a pandas, "
            "polars or pyarrow frame, or a list of dicts. Convert it, for instance with np.asarray."
        ) from error
    except DuplicateError as error:
        raise ValueError(f"X has columns of one name: {error}. Rename all but one.") from error
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
        TypeError
            If a name has no spelling of its own.
        """
        columns, texts = self._columns, self._texts
        for sample in samples:
            columns = columns.extended([sample.layout])
            new = _new_texts(sample, texts)
            if new:
                texts = texts | new
                # Together, so that the order of a dict's keys is no matter.
                added = [_columns_of(name, known[-1:]) for name, known in new.items()]
                columns = columns.extended([tuple(chain(*added))])
        if columns is self._columns and texts is self._texts:
            return self
        # Units are drawn by names: one without a spelling is refused before anything changes.
        for name in columns.names[len(self._columns) :]:
            key_text(feature_key(name))
        reader = RowReader()
        reader._columns, reader._texts = columns, texts
        reader._places = {name: columns.locate(_columns_of(name, texts[name])) for name in texts}
        return reader

    def row(self, sample: Sample) -> Floats:
        """Return a sample as a row (n_columns,); features that no column is for are left out."""
        row = np.full(len(self._columns), np.nan)
        places = self._columns.locate(sample.layout)
        if len(places) and places.min() < 0:
            row[places[places >= 0]] = sample.numbers[places >= 0]
        else:
            row[places] = sample.numbers
        for name, text in sample.texts.items():
            if name in self._texts:
                row[self._places[name]] = [text == known for known in self._texts[name]]
        return row


def _new_texts(sample: Sample, texts: Mapping[Name, list[str]]) -> dict[Name, list[str]]:
    """Return the names whose text is new, with their texts so far and this one."""
    new = {
        name: [*texts.get(name, []), text]
        for name, text in sample.texts.items()
        if text not in texts.get(name, []) and len(texts.get(name, [])) < MOST_CATEGORIES
    }
    for key in check_distinct(new):
        key_text(key)
    return new


def _columns_of(name: Name, texts: Iterable[str]) -> tuple[str, ...]:
    # Equal names, such as 1 and 1.0, are spelt alike.
    return tuple(f"{plain_name(name)}={text}" for text in texts)
