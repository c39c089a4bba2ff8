"""Answers in kind: arrays for arrays, frames of the same library for frames, lists for lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from river.utils.dataframe import to_native_frame, to_native_series

from onlinels.arrays import Floats, Matrix
from onlinels.batch import ArrayFeature, Layout
from onlinels.labels import Label, label_array
from onlinels.names import OUTPUT_NAME


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
