"""River samples, frames and arrays, read as a matrix whose columns have names."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from river.utils.dataframe import to_numpy

from onlinels.arrays import (
    LARGEST_VALUE,
    OF_FEATURES,
    Matrix,
    check_matrix,
    check_not_empty,
    check_values,
    packed,
    value_remedy,
    within_bounds,
)
from onlinels.batch import ArrayFeature, Batch, Layout, MixedBatch
from onlinels.frames import as_frame
from onlinels.names import Name
from onlinels.scalars import as_number, no_number, shown

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
