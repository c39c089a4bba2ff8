"""Answers in kind: arrays for arrays, frames of the same library for frames, lists for lists."""

from __future__ import annotations

import re
import struct
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from river.utils.dataframe import to_native_frame, to_native_series, to_numpy

from onlinels.checks import (
    LARGEST_VALUE,
    OF_FEATURES,
    OF_ROWS,
    Floats,
    Integers,
    Matrix,
    as_number,
    check_matrix,
    check_not_empty,
    check_room,
    check_values,
    equals_itself,
    no_number,
    packed,
    shown,
    value_remedy,
    within_bounds,
)
from onlinels.labels import Label, label_array

Name = Hashable

OUTPUT_NAME = "h"
"""What transformers call their output: "h0", "h1", … as numbers, "h" as an array."""


def plain_name(name: Name) -> Name:
    """Return a name as a plain Python value: numpy scalars as what they hold, 1.0 and True as 1.

    Examples
    --------
    >>> plain_name(np.str_("a")), plain_name(np.int64(3)), plain_name(2.0)
    ('a', 3, 2)
    """
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return tuple(map(plain_name, name))
    if isinstance(name, (bool, float)) and name == name // 1:
        return int(name)
    return str(name) if isinstance(name, str) else name


def feature_key(name: Name) -> Name:
    """Return what stands for a feature, whichever way it is named.

    The i-th output of a transformer is one feature, as "h3", as entry ("h", 3) of an array, or as
    column 3 of a plain array; so pipelines may learn from arrays and predict from dicts.

    Examples
    --------
    >>> feature_key("h3"), feature_key(("h", 3)), feature_key(3), feature_key("3")
    (3, 3, 3, '3')
    """
    name = plain_name(name)
    if isinstance(name, str) and (match := re.fullmatch(OUTPUT_NAME + r"(0|[1-9]\d*)", name)):
        return int(match[1])
    if isinstance(name, tuple) and len(name) == 2 and name[0] == OUTPUT_NAME:
        return name[1] if isinstance(name[1], int) else name
    return name


def check_distinct(names: Iterable[Name]) -> list[Name]:
    """Return the keys of names that come together, each of another feature.

    Raises
    ------
    ValueError
        If two names stand for one feature, or a name is NaN.

    Examples
    --------
    >>> check_distinct(["a", 3, "h3"])
    Traceback (most recent call last):
        ...
    ValueError: The names 3 and 'h3' stand for one feature, expected each once. ...
    """
    names = list(names)
    keys = [feature_key(name) for name in names]
    if not all(map(equals_itself, keys)):
        raise ValueError("A feature's name is NaN, expected one that equals itself. Rename it.")
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        first, second = [n for n, key in zip(names, keys, strict=True) if key == twice][:2]
        raise ValueError(
            f"The names {first!r} and {second!r} stand for one feature, expected each once. "
            "Rename one, for instance with river's compose.Prefixer."
        )
    return keys


def key_text(key: Name) -> str:
    """Return a text that stands for a feature's key, the same in every process.

    Raises
    ------
    TypeError
        If the name has no spelling of its own, only the address of an object.

    Examples
    --------
    >>> key_text(3), key_text("3")
    ('int:3', "str:'3'")
    """
    parts = key if isinstance(key, tuple) else (key,)
    if not all(map(_has_spelling, parts)):
        raise TypeError(
            f"Feature name {key!r} has no spelling of its own, expected a str, a number or a tuple "
            "of these. Rename it, or give its class a __repr__."
        )
    return f"{type(key).__name__}:{_spelling(key)}"


def _spelling(key: Any) -> str:
    """Return what `repr` does; of a tuple, also where a signal's handler asks amid its `repr`."""
    if type(key) is not tuple:
        return repr(key)
    return f"({', '.join(map(_spelling, key))}{',' * (len(key) == 1)})"


def _has_spelling(part: Any) -> bool:
    # The order of a set is not the same in every process.
    return _spelling(part) != object.__repr__(part) and not isinstance(part, (set, frozenset))


def sorted_names(names: Iterable[Name]) -> list[Name]:
    """Sort names of any hashable types: numbered ones by number, others by type and spelling.

    Examples
    --------
    >>> sorted_names(["b", "h10", "h9", "a"])
    ['h9', 'h10', 'a', 'b']
    """
    return sorted(names, key=_sorting_key)


def _sorting_key(name: Name) -> tuple[Any, ...]:
    key = feature_key(name)
    if isinstance(key, int):
        return (0, key)
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int):
        return (1, _spelling(key[0]), key[1])
    return (2, type(key).__name__, _spelling(key))


@dataclass(frozen=True)
class ArrayFeature:
    """An array value of a sample: `length` features named (name, 0) to (name, length - 1)."""

    name: Name
    length: int


Layout = range | tuple[Name | ArrayFeature, ...]
"""The columns of a batch: a range for a plain array, else names and array features in order."""


@dataclass(frozen=True)
class Batch:
    """A mini-batch as read.

    Parameters
    ----------
    values : ndarray (n, n_columns)
        Checked numbers of any real dtype.
    layouts : tuple of Layout
        The layouts of the rows, in order of their first one; the last describes `values`.
    source : narwhals DataFrame, list or ndarray
        What was read, for answers in kind.
    """

    values: Matrix
    layouts: tuple[Layout, ...]
    source: Any

    def __len__(self) -> int:
        return len(self.values)


class MixedBatch(Batch):
    """Samples of different features, whose matrix is made when it is asked for.

    A model that has no room for so many features refuses them before.

    Parameters
    ----------
    samples : sequence of tuple of Layout and ndarray
        The samples as read.
    source : list
    """

    _samples: list[tuple[list[int], Matrix]]

    def __init__(self, samples: Sequence[tuple[Layout, Matrix]], source: Any) -> None:
        layouts = dict.fromkeys(layout for layout, _ in samples)
        _check_one_length([entry for layout in layouts for entry in layout])
        keys = {layout: check_distinct(names_of(layout)) for layout in layouts}
        columns = {key: column for column, key in enumerate(dict.fromkeys(chain(*keys.values())))}
        places = {layout: [columns[key] for key in keys[layout]] for layout in layouts}
        read = [(places[layout], values) for layout, values in samples]
        described = (*layouts, tuple(columns))
        vars(self).update(_samples=read, layouts=described, source=source)

    def __len__(self) -> int:
        return len(self._samples)

    @cached_property
    def values(self) -> Matrix:
        """Checked numbers, (n, n_columns); absent ones are 0."""
        size = len(self), len(self.layouts[-1])
        what = "X with {:,} rows of {:,} features"
        check_room(8 * size[0] * size[1], what, *size, remedy=OF_ROWS)
        matrix = np.zeros(size)
        for row, (places, values) in zip(matrix, self._samples, strict=True):
            row[places] = values
        return matrix


def names_of(layout: Layout) -> Iterator[Name]:
    """Iterate over the feature names of a layout, array features spelt out.

    Examples
    --------
    >>> list(names_of(("age", ArrayFeature("h", 2))))
    ['age', ('h', 0), ('h', 1)]
    """
    for entry in layout:
        if isinstance(entry, ArrayFeature):
            yield from ((entry.name, index) for index in range(entry.length))
        else:
            yield entry


def _check_one_length(entries: Sequence[Name | ArrayFeature]) -> None:
    features = [entry for entry in entries if isinstance(entry, ArrayFeature)]
    lengths = {feature.name: feature.length for feature in features}
    for feature in features:
        if feature.length != lengths[feature.name]:
            raise ValueError(
                f"X[...][{feature.name!r}] has {feature.length} values in one row and "
                f"{lengths[feature.name]} in another, expected one. Bring arrays to one size."
            )


def as_frame(X: Any, argument: str = "X") -> nw.DataFrame[Any]:
    """Return a frame (pandas, polars, pyarrow …), called `argument` in errors, as narwhals' own.

    Raises
    ------
    TypeError
        If it is no frame.
    ValueError
        If two of its columns have one name.
    """
    try:
        return nw.from_native(X, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"{argument} is of type {type(X).__name__}, expected an array (n_rows, n_columns), a "
            "pandas, polars or pyarrow frame, or a list of dicts. Convert it, for instance with "
            "np.asarray."
        ) from error
    except DuplicateError as error:
        raise ValueError(
            f"{argument} has columns of one name: {error}. Rename all but one."
        ) from error


def samples_of(X: Any) -> Iterator[Mapping[Any, Any]]:
    """Iterate over the rows of a mini-batch as river samples, values as they are.

    Examples
    --------
    >>> list(samples_of(np.array([[1.0, 2.0]])))
    [{0: 1.0, 1: 2.0}]
    """
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(
                f"X has shape {X.shape}, expected (n_rows, n_columns). Pass one row per sample."
            )
        return (dict(enumerate(row)) for row in X.tolist())
    if isinstance(X, (list, tuple)):
        return iter(X)
    rows: Iterator[Mapping[Any, Any]] = as_frame(X).iter_rows(named=True)
    return rows


Row = Mapping[Any, Any]


PLAIN_NUMBERS = frozenset(
    {float, int, bool, np.bool_, np.float32, np.float64, np.int32, np.int64, np.uint8}
)
"""Types of values that need no closer look."""


def read_row(x: Row) -> tuple[Layout, Matrix]:
    """Read one river sample.

    Parameters
    ----------
    x : mapping
        Feature names to numbers, or to arrays of numbers.

    Returns
    -------
    layout : tuple
    values : ndarray (n_columns,), float64

    Raises
    ------
    TypeError
        If `x` is not a mapping or a value is not a number.
    ValueError
        If a value is missing or not finite.

    Examples
    --------
    >>> read_row({"age": 3, "height": 1.5})
    (('age', 'height'), array([3. , 1.5]))
    """
    if not isinstance(x, Mapping):
        raise TypeError(
            f"x is of type {type(x).__name__}, expected a dict of features. "
            "Pass one sample as {name: value}; batches go to the *_many methods."
        )
    if not PLAIN_NUMBERS.issuperset(map(type, x.values())):
        return _read_mixed_row(x)
    try:
        values = packed(x.values()).copy()
    except struct.error:
        return _read_mixed_row(x)
    if values.size and not within_bounds(values):
        for name, value in x.items():
            _number(name, value)
    return tuple(x), values


def read_sample(x: Row) -> Batch:
    """Read one river sample as a batch of one row; see `read_row`."""
    layout, values = read_row(x)
    return Batch(values[None], (layout,), None)


def _read_mixed_row(x: Row) -> tuple[Layout, Matrix]:
    """Read a sample that holds arrays, or say which value is not a number."""
    layout: list[Name | ArrayFeature] = []
    parts = []
    for name, value in x.items():
        if isinstance(value, np.ndarray) and value.ndim:
            check_values(f"x[{name!r}]", value)
            layout.append(ArrayFeature(name, value.size))
            parts.append(value.astype(np.float64).ravel())
        else:
            layout.append(name)
            parts.append(np.array([_number(name, value)]))
    return tuple(layout), np.concatenate(parts)


def _number(name: Name, value: Any) -> float:
    if value is None:
        raise ValueError(
            f"x[{name!r}] is None, expected a number. Leave an absent feature out (it counts as "
            "0), or fill it with river's preprocessing.StatImputer."
        )
    number = as_number(value)
    if number is None:
        raise TypeError(no_number(f"x[{name!r}]", value))
    if not abs(number) <= LARGEST_VALUE:
        remedy = value_remedy(number, OF_FEATURES)
        raise ValueError(f"x[{name!r}] is {shown(value, number)}, {remedy}")
    return number


def read_batch(X: Any) -> Batch:
    """Read a mini-batch: a matrix, a frame (pandas, polars, pyarrow …) or a list of samples.

    Raises
    ------
    TypeError
        If `X` is none of these, or holds anything but numbers.
    ValueError
        If it has no rows, a wrong shape, names that occur twice, or values that are missing or
        not finite.

    Examples
    --------
    >>> batch = read_batch([{"a": 1}, {"b": 2}])
    >>> batch.layouts[-1], batch.values
    (('a', 'b'), array([[1., 0.],
           [0., 2.]]))
    """
    if isinstance(X, np.ndarray):
        values = check_matrix("X", X)
        return Batch(values, (range(values.shape[1]),), values)
    if isinstance(X, (list, tuple)):
        return _read_rows(X)
    return read_frame(X)


def _read_rows(rows: Sequence[Any]) -> Batch:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"X[{number}] is of type {type(row).__name__}, expected dicts in a list. "
                "Make an array of rows of numbers, with np.asarray."
            )
    read = [read_row(row) for row in rows]
    check_not_empty("X", len(read))
    if len({layout for layout, _ in read}) == 1:
        return Batch(np.stack([values for _, values in read]), (read[0][0],), rows)
    return MixedBatch(read, rows)


def read_frame(X: Any, argument: str = "X") -> Batch:
    """Read a frame (pandas, polars, pyarrow …), called `argument` in errors; see `read_batch`."""
    frame = as_frame(X, argument)
    check_not_empty(argument, len(frame))
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind == nw.Boolean):
            raise TypeError(
                f"{argument} has a column {name!r} of type {kind}, expected numbers. Encode text "
                "and categories with river's OneHotEncoder; cast numbers in columns of objects."
            )
    values = to_numpy(frame, dtype=_common_dtype(frame))
    return Batch(check_matrix(argument, values), (tuple(frame.columns),), frame)


def _common_dtype(frame: nw.DataFrame[Any]) -> type:
    """Keep frames of nothing but float32 as they are: the accumulators cast once."""
    return np.float32 if set(frame.schema.values()) == {nw.Float32()} else np.float64


class Columns:
    """The columns of a model: features in the order in which they became known.

    Names that arrive together are sorted, so neither the order of a dict's keys nor that of a
    frame's columns matters, to the last bit. A plain array has positions instead of names: its
    columns are the features 0, 1, … (see `feature_key` for other ways to name these). Plain arrays
    and names that are no numbers do not mix: which column is which would be a guess.

    Notes
    -----
    Columns never change; `extended` makes new ones. Only the last layout is remembered, for speed.

    Examples
    --------
    >>> columns = Columns().extended([("b", "a")])
    >>> columns.names, columns.locate(("b", "c"))
    (('a', 'b'), array([ 1, -1]))
    """

    def __init__(self) -> None:
        self._names: dict[Name, Name] = {}
        self._index: dict[Name, int] = {}
        self._lengths: dict[Name, int] = {}
        self._plain = False
        self._last: tuple[Layout, Integers] | None = None

    def __len__(self) -> int:
        return len(self._index)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}

    @classmethod
    def in_order(cls, names: Iterable[Name]) -> Columns:
        """Return columns in the order given, as weights that are fixed already need them."""
        columns = cls()
        for name in names:
            columns._append(name)
        return columns

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the features as they first came, in the order of their columns."""
        return tuple(self._names.values())

    def layouts(self) -> tuple[Layout, ...]:
        """Return layouts that, added to other columns, make all these features known there."""
        features = tuple(ArrayFeature(name, length) for name, length in self._lengths.items())
        plain = (range(0),) if self._plain else ()
        return (*plain, features, self.names)

    def extended(self, layouts: Iterable[Layout]) -> Columns:
        """Return columns that know all features of the layouts too: these, if they do already.

        Raises
        ------
        ValueError
            If an array feature has another length than before, two names of a layout are one
            feature, or a plain array meets features that have other names.
        """
        columns = self
        for layout in layouts:
            if (columns.locate(layout) < 0).any() or columns._learns_from(layout):
                columns = columns._copy() if columns is self else columns
                columns._add(layout)
        return columns

    def _copy(self) -> Columns:
        columns = Columns()
        columns._names, columns._index = self._names.copy(), self._index.copy()
        columns._lengths, columns._plain = self._lengths.copy(), self._plain
        return columns

    def _add(self, layout: Layout) -> None:
        """Make the features of a checked layout known, in sorted order."""
        for name in sorted_names(names_of(layout)):
            self._append(name)
        self._lengths |= self._new_lengths(layout)
        self._plain |= isinstance(layout, range)
        self._last = None

    def _append(self, name: Name) -> None:
        key = feature_key(name)
        if key not in self._index:
            self._index[key] = len(self._index)
            self._names[key] = plain_name(name)

    def _learns_from(self, layout: Layout) -> bool:
        """Tell whether a layout of known features says more about them."""
        if isinstance(layout, range):
            return not self._plain
        return bool(self._new_lengths(layout))

    def _new_lengths(self, layout: Layout) -> dict[Name, int]:
        entries = () if isinstance(layout, range) else layout
        features = [entry for entry in entries if isinstance(entry, ArrayFeature)]
        return {f.name: f.length for f in features if f.name not in self._lengths}

    def locate(self, layout: Layout) -> Integers:
        """Return the column of every feature of a layout, -1 where it is unknown.

        Raises
        ------
        ValueError
            As `extended`.
        """
        # Of the one that is compared: a signal's handler may leave another layout's in its place.
        last = self._last
        if last is None or layout != last[0]:
            self._check_lengths(layout)
            self._last = last = (layout, self._locate(layout))
        return last[1]

    def columns_of(self, name: Name) -> Integers:
        """Return the columns of a name: its own, and those of an array; none if it is unknown."""
        entries = ((name, index) for index in range(self._lengths.get(name, 0)))
        keys = map(feature_key, (name, *entries))
        return np.array([self._index[key] for key in keys if key in self._index], dtype=np.intp)

    def _check_lengths(self, layout: Layout) -> None:
        for entry in layout:
            if isinstance(entry, ArrayFeature):
                known = self._lengths.get(entry.name, entry.length)
                if known != entry.length:
                    raise ValueError(
                        f"x[{entry.name!r}] has {entry.length} values, expected {known} as before. "
                        "Bring arrays to one size, or use another name."
                    )

    def _locate(self, layout: Layout) -> Integers:
        keys = check_distinct(names_of(layout))
        if isinstance(layout, range):
            problem = "Columns are those of a plain array, expected names as before, such as {}"
            _check_numbers(self._index, problem)
        elif self._plain:
            problem = "Features have names such as {}, expected 0, 1, … as columns of plain arrays"
            _check_numbers(keys, problem)
        return np.array([self._index.get(key, -1) for key in keys], dtype=np.intp)

    def place(self, layouts: Sequence[Layout], values: Matrix) -> Matrix:
        """Arrange the columns of values as the model's; absent ones are 0.

        Parameters
        ----------
        layouts : sequence of Layout
            Those of the rows; the last describes the columns of `values`.
        values : ndarray (n, n_columns)

        Returns
        -------
        ndarray (n, len(self)), dtype of `values`
            `values` itself if nothing has to move.

        Raises
        ------
        ValueError
            As `extended`.
        """
        for layout in layouts[:-1]:
            self._check_lengths(layout)
        located = self.locate(layouts[-1])
        if len(located) == len(self) and (located == np.arange(len(self))).all():
            return values
        size, what = (len(values), len(self)), "A batch of {:,} rows with {:,} features"
        check_room(values.itemsize * size[0] * size[1], what, *size, remedy=OF_ROWS)
        placed = np.zeros(size, dtype=values.dtype)
        known = located >= 0
        placed[:, located[known]] = values[:, known]
        return placed


def _check_numbers(keys: Iterable[Name], problem: str) -> None:
    named = next((key for key in keys if not isinstance(key, int)), None)
    if named is not None:
        raise ValueError(f"{problem.format(repr(named))}. Learn and predict in one form.")


def labels_like(source: Any, labels: Sequence[Label]) -> Any:
    """Return one label per row: an array, a series of the frame's library, or a list.

    Raises
    ------
    ValueError
        If the frame's library cannot hold these labels in one series.
    """
    if isinstance(source, np.ndarray):
        return label_array(labels)
    if not isinstance(source, nw.DataFrame):
        return list(labels)
    if label_array(labels).dtype != object:
        return to_native_series(list(labels), name=None, like=source)
    if source.implementation.is_pandas_like():
        # As objects: pandas would turn None into NaN, and tuples into something else.
        frame, namespace = source.to_native(), nw.get_native_namespace(source)
        return namespace.Series(label_array(labels), index=frame.index, dtype=object)
    known = [label for label in labels if label is not None]
    if label_array(known).dtype != object or not known:
        return to_native_series(list(labels), name=None, like=source)
    raise ValueError(
        f"Labels of several types ({', '.join(sorted({type(y).__name__ for y in labels}))}) or "
        "tuples cannot be one series of this library. Pass a pandas frame, an array or dicts."
    )


def numbers_like(source: Any, values: Floats) -> Any:
    """Return one number per row, (n,): an array, a series of the frame's library, or a list.

    Examples
    --------
    >>> numbers_like([{}, {}], np.array([1.0, 2.0]))
    [1.0, 2.0]
    """
    if isinstance(source, np.ndarray):
        return values
    if not isinstance(source, nw.DataFrame):
        return values.tolist()
    return to_native_series(values, name=None, like=source)


def table_like(source: Any, names: Sequence[Hashable], values: Matrix) -> Any:
    """Return a table: an array (n, n_names), a frame of the same library, or a list of dicts.

    Raises
    ------
    ValueError
        If the frame's library names columns by text and two names have the same spelling.
    """
    if isinstance(source, np.ndarray):
        return values
    if isinstance(source, nw.DataFrame):
        return _frame_like(source, names, values)
    return [dict(zip(names, row, strict=True)) for row in values.tolist()]


def _frame_like(source: nw.DataFrame[Any], names: Sequence[Hashable], values: Matrix) -> Any:
    if not source.implementation.is_pandas_like():
        _check_spelling(names)
        return to_native_frame(values, like=source, columns=names)
    frame: Any = to_native_frame(values, like=source, columns=[str(i) for i in range(len(names))])
    # Set afterwards: only pandas itself takes names that are no text, and tuples as they are.
    index = nw.get_native_namespace(source).Index
    frame.columns = index(list(names), tupleize_cols=False)
    return frame


def _check_spelling(names: Sequence[Hashable]) -> None:
    spelt = [str(name) for name in names]
    twice = next((name for name in spelt if spelt.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"Two columns would be called {twice!r}, expected names that differ as text. "
            "Pass a pandas frame or an array, or rename one."
        )


def output_row(values: Matrix, as_array: bool) -> dict[Hashable, Any]:
    """Return a transformer's output for one sample: {"h0": …}, or {"h": array}.

    Examples
    --------
    >>> output_row(np.array([1.0, 2.0]), as_array=False)
    {'h0': 1.0, 'h1': 2.0}
    """
    if as_array:
        return {OUTPUT_NAME: values}
    return dict(zip(_output_names(len(values)), values.tolist(), strict=True))


def output_table(source: Any, values: Matrix, as_array: bool) -> Any:
    """Return a transformer's output for a mini-batch, in the kind of its input."""
    if as_array and isinstance(source, (list, tuple)):
        return [{OUTPUT_NAME: row} for row in values]
    return table_like(source, _output_names(values.shape[1]), values)


@lru_cache(maxsize=16)
def _output_names(length: int) -> tuple[str, ...]:
    return tuple(f"{OUTPUT_NAME}{index}" for index in range(length))


def holds_array(layout: Layout) -> bool:
    """Tell whether a sample holds an array value, so that an array goes out, too."""
    # A plain array's columns are a range, of thousands of numbers behind stage 1.
    named = not isinstance(layout, range)
    return named and any(isinstance(entry, ArrayFeature) for entry in layout)
