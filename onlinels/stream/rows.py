"""Convert samples of numbers, texts and gaps to rows of a matrix that gains columns on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from onlinels.checks import Floats, is_unknown, plain_value
from onlinels.rows.batch import (
    ARRAY_TYPES,
    Columns,
    Layout,
    Name,
    as_frame,
    check_distinct,
    check_mapping,
    feature_key,
    holds_sparse,
    read_batch,
    read_row,
    samples_of,
)
from onlinels.saving import savable

MAX_FEATURES = 4096
"""Maximum number of features: four inverses of this size take half a gigabyte."""

MAX_CATEGORIES = 64
"""Number of texts of one name that get a column each; later texts are identified by a hash."""

N_TEXT_HASHES = 1 << 16
"""Number of hashes for the texts of a name: of 10,000 texts, one in seven shares its hash."""


Sample = tuple[Layout, Floats, list[tuple[Name, str]], list[Name]]
"""The content of a sample: a layout, its numbers, pairs (name, text), and names of gaps."""


class StreamRow(NamedTuple):
    """A sample in the columns of a stream."""

    values: Floats
    # Names of its gaps, also of names without a value so far.
    gaps: Sequence[Name] = ()
    # Numbers of its texts without a column.
    texts: Sequence[int] = ()


def read_stream_row(x: Any, argument: str = "x") -> Sample:
    """Read one river sample of numbers, arrays and texts; None, NaN and pandas.NA are gaps.

    `argument` is the name of the sample in messages.

    Examples
    --------
    >>> read_stream_row({"size": 3, "colour": "red", "age": None})
    (('size',), array([3.]), [('colour', 'red')], ['age'])
    """
    check_mapping(x, argument)
    numbers, texts, gaps = {}, [], []
    for name, value in x.items():
        if isinstance(value, str):
            # Not `str`, which returns another text for some subclasses, such as enumerations.
            texts.append((plain_value(name), str.__str__(value)))
        elif is_gap(value):
            gaps.append(plain_value(name))
        else:
            numbers[name] = value
    if texts or gaps:
        check_distinct(x)
    return *read_row(numbers, argument), texts, gaps


def read_stream_batch(X: Any) -> list[Sample]:
    """Read a mini-batch as `read_stream_row` reads rows, but numbers without gaps all at once."""
    try:
        batch = read_batch(X)
        if len(batch.layouts) == 1:
            layout = tuple(batch.layouts[0])
            return [(layout, row, [], []) for row in batch.values.astype(np.float64)]
    except (TypeError, ValueError):
        pass  # Texts or gaps, or an error that reading row by row explains.
    return [read_stream_row(x, f"X[{row}]") for row, x in enumerate(samples_of(X))]


def is_gap(value: Any) -> bool:
    """Tell whether a value is missing."""
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return value is None or is_unknown(value)


@savable()
class StreamColumns:
    """The columns of a stream of samples: numbers, entries of arrays, and texts.

    A text is a column of its own, named (name, text): 1 in samples with this text, else 0. A name
    with more than 64 texts is crowded: its later texts have a hash instead of a column. An absent
    feature is 0, as in river's linear models; a gap is NaN.

    Examples
    --------
    >>> columns, _ = StreamColumns().extended_and_read({"a": 2.0, "b": "x", "c": 1.0})
    >>> columns.names, columns.row({"a": None, "b": "y"}).values
    (('a', 'c', ('b', 'x')), array([nan,  0.,  0.]))
    """

    def __init__(self) -> None:
        self._columns = Columns()
        self._texts: dict[Name, dict[str, int]] = {}
        # Names with more texts than columns, in the order in which they became crowded.
        self._crowded: dict[Name, int] = {}

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the columns."""
        return self._columns.names

    @property
    def n_crowded(self) -> int:
        """Number of names with texts that have no column."""
        return len(self._crowded)

    def row(self, x: Any) -> StreamRow:
        """Return a sample as a row (n_columns,); features without a column are ignored."""
        known = self._columns.row(x)
        return self._placed(read_stream_row(x)) if known is None else StreamRow(known)

    def _placed(self, sample: Sample) -> StreamRow:
        layout, _, texts, gaps = sample
        if not texts and not gaps:
            self._columns.note(layout)
        return self.placed([sample])[0]

    def columns_of(self, name: Name) -> list[int]:
        """Return the columns of a name: of its number, its array and its texts."""
        return [*self._columns.columns_of(name).tolist(), *self._texts.get(name, {}).values()]

    def differences(self, X: Any) -> tuple[int, list[Name], list[Name]]:
        """Return the number of names, the names that a frame or array lacks, and its other names.

        Dicts lack no names, and neither do frames with pandas' Sparse columns
        (`onlinels.rows.batch.Columns.differences`).
        """
        if isinstance(X, ARRAY_TYPES):
            given: Sequence[Any] = range(X.shape[1])
        elif isinstance(X, (list, tuple)) or holds_sparse(as_frame(X)):
            return 0, [], []
        else:
            given = as_frame(X).columns
        texts = {(name, text) for name, columns in self._texts.items() for text in columns}
        named = (*(name for name in self.names if name not in texts), *self._texts)
        known = {feature_key(name): name for name in named}
        keys = {feature_key(name): name for name in given}
        absent = [name for key, name in known.items() if key not in keys]
        return len(known), absent, [name for key, name in keys.items() if key not in known]

    def extended_and_read(self, x: Any) -> tuple[StreamColumns, StreamRow]:
        """Return columns extended by the features of a river sample, and the sample as a row."""
        known = self._columns.row(x)
        if known is not None:
            return self, StreamRow(known)
        sample = read_stream_row(x)
        columns = self.extended([sample])
        return columns, columns._placed(sample)

    def extended(self, samples: Iterable[Sample]) -> StreamColumns:
        """Return columns with all features of the samples: this object if it has them already."""
        columns, texts, crowded = self._columns, self._texts, self._crowded
        known: Layout | None = None
        for layout, _, named, _ in samples:
            if layout == known and not named:
                continue
            known = layout
            new = [(name, text) for name, text in named if text not in texts.get(name, {})]
            full = {name for name, _ in new if len(texts.get(name, {})) == MAX_CATEGORIES}
            new = [(name, text) for name, text in new if name not in full]
            for name in sorted(full - crowded.keys(), key=repr):
                crowded = crowded | {name: len(crowded)}
            # Together and sorted, so that the order of a dict's keys does not matter.
            columns = columns.extended([(*layout, *new)])
            for name, text in sorted(new, key=repr):
                (column,) = columns.columns_of((name, text))
                texts = texts | {name: texts.get(name, {}) | {text: int(column)}}
        if columns is self._columns and crowded is self._crowded:
            return self
        if len(columns) > MAX_FEATURES:
            fault = f"x raises the number of features to {len(columns)}"
            remedy = "Hash them with river's FeatureHasher(n_features=1024)."
            raise ValueError(f"{fault}, expected at most {MAX_FEATURES}. {remedy}")
        made = StreamColumns()
        made._columns, made._texts, made._crowded = columns, texts, crowded
        return made

    def placed(self, samples: Sequence[Sample]) -> list[StreamRow]:
        """Return samples as rows (n_columns,); features without a column are ignored."""
        rows: list[StreamRow] = []
        # Rows of one layout are placed together.
        for layout, group in groupby(samples, itemgetter(0)):
            alike = list(group)
            placed = self._columns.place((layout,), np.array([each[1] for each in alike]))
            rows += map(self._completed, placed, alike)
        return rows

    def _completed(self, row: Floats, sample: Sample) -> StreamRow:
        """Return a row of numbers with the texts and gaps of its sample."""
        _, _, texts, gaps = sample
        if not texts and not gaps:
            return StreamRow(row)
        hashed = []
        for name, text in texts:
            column = self._texts.get(name, {}).get(text)
            if column is not None:
                row[column] = 1.0
            elif name in self._crowded:
                of_text = crc32(text.encode("utf-8", "surrogatepass")) % N_TEXT_HASHES
                hashed.append(N_TEXT_HASHES * self._crowded[name] + of_text)
        for name in gaps:
            row[self.columns_of(name)] = np.nan
        # Sorted, so that the order of a dict's keys does not matter.
        return StreamRow(row, sorted(gaps, key=repr), sorted(hashed))
