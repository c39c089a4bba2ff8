"""Answers in the kind of the rows: arrays for arrays, frames of one library, or lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from onlinels.checks import Matrix
from onlinels.rows.batch import ARRAY_TYPES, OUTPUT_NAME, as_outputs, is_frame
from onlinels.rows.labels import PLAIN_LABEL_TYPES
from onlinels.saving import in_plain_types


def label_array(labels: Sequence[Any]) -> Matrix:
    """Return labels as an array (n,): of their type if they have one type, else of objects.

    Examples
    --------
    >>> label_array([1, 0]), label_array([None, (1, 2)])
    (array([1, 0]), array([None, (1, 2)], dtype=object))
    """
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= PLAIN_LABEL_TYPES:
        own = np.array(labels)
        # Some ints beyond 63 bits would become floats, and a str would lose a NUL at its end.
        if type(own.item(0)) in kinds and set(own.tolist()) == set(labels):
            return own
    array = np.empty(len(labels), dtype=object)
    array[:] = list(labels)
    return array


def labels_like(source: Any, labels: Sequence[Any], classes: Sequence[Any] = ()) -> Any:
    """Return one label per row: an array, a series of the frame's library, or a list.

    If there are no labels, the result is of the type that the model's `classes` have.
    """
    if isinstance(source, ARRAY_TYPES):
        return label_array(labels) if labels else label_array(classes)[:0]
    if not is_frame(source):
        return list(labels)
    in_pandas = source.implementation.is_pandas_like()
    if not in_pandas:
        labels = [*map(in_plain_types, labels)]
    given = labels if in_pandas else [y for y in labels if y is not None]
    array = label_array(given) if labels else label_array(classes)[:0]
    if array.dtype == object and not all(isinstance(label, str) for label in array):
        if in_pandas:
            # As objects: pandas would convert None to NaN, and change tuples.
            pandas = source.implementation.to_native_namespace()
            return pandas.Series(array, index=source.to_native().index, dtype=object)
        kinds = ", ".join(sorted({type(y).__name__ for y in labels}))
        raise ValueError(
            f"Labels of several types, tuples or integers beyond 64 bits ({kinds}) cannot be one "
            "series of this library. Pass a pandas frame, an array or dicts."
        )
    # Pyarrow infers neither unsigned integers from a list, nor the type of no labels. Text is
    # faster from a list.
    is_typed = len(array) == len(labels) and array.dtype.kind not in ("OU" if labels else "O")
    return numbers_like(source, array if is_typed else list(labels))


def numbers_like(source: Any, values: Any) -> Any:
    """Return one number per row, (n,): an array, a series of the frame's library, or a list."""
    if isinstance(source, ARRAY_TYPES):
        return values
    if not is_frame(source):
        return values.tolist()
    from onlinels.rows.frames import to_native_series

    return to_native_series(values, name=None, like=source)


def table_like(source: Any, names: Sequence[Hashable], values: Matrix) -> Any:
    """Return a table: an array (n, n_names), a frame of the same library, or a list of dicts."""
    if isinstance(source, ARRAY_TYPES):
        return values
    if not is_frame(source):
        return [dict(zip(names, row, strict=True)) for row in values.tolist()]
    if source.implementation.is_pandas_like():
        pandas = source.implementation.to_native_namespace()
        # Pandas would make levels of tuples, and convert 0.5 and a large int to floats.
        kind = object if len(set(map(type, names))) > 1 else None
        columns = pandas.Index(list(names), tupleize_cols=False, dtype=kind)
        return pandas.DataFrame(values, source.to_native().index, columns)
    from onlinels.rows.frames import to_native_frame

    names = [*map(in_plain_types, names)]
    twice = [name for name, times in Counter(map(str, names)).items() if times > 1]
    if twice:
        raise ValueError(
            f"Two columns would be called {twice[0]!r}, expected names that differ as text. Pass a "
            "pandas frame or an array, or rename one column."
        )
    # Narwhals cannot make a frame from an array if a column name is empty.
    of_names: Any = dict(zip(names, values.T, strict=True)) if "" in names else values
    return to_native_frame(of_names, like=source, columns=names)


def output_row(values: Matrix, as_array: bool, prefix: str = "") -> dict[Hashable, Any]:
    """Return the output of a transformer for one sample: {"h0": …} or {"h": array}, prefixed."""
    if as_array:
        return {prefix + OUTPUT_NAME: as_outputs(values)}
    return dict(zip(_output_names(len(values), prefix), values.tolist(), strict=True))


def output_table(source: Any, values: Matrix, as_array: bool, prefix: str = "") -> Any:
    """Return the output of a transformer for a mini-batch, in the kind of its input."""
    stem = prefix + OUTPUT_NAME
    if as_array and isinstance(source, (list, tuple)):
        return [{stem: row} for row in as_outputs(values)]
    if isinstance(source, ARRAY_TYPES):
        return as_outputs(values, stem)
    return table_like(source, _output_names(values.shape[1], prefix), values)


@lru_cache(maxsize=16)
def _output_names(length: int, prefix: str) -> tuple[str, ...]:
    # Not the text of the prefix: equal prefixes, such as members of a StrEnum, share this cache.
    return tuple(prefix + OUTPUT_NAME + str(index) for index in range(length))
