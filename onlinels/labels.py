"""Labels: what they may be, and their columns."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from math import prod
from operator import is_, ne
from typing import Any

import numpy as np

from onlinels.checks import Integers, equals_itself, plain_scalar, remedy_by
from onlinels.saving import LABEL, WHOLE, savable, table

Label = Any
"""Any hashable value but None; river's own label types are narrower, so this is left open."""

OF_ONE_HOT = "Pass one label per row; of one-hot rows np.asarray(y).argmax(axis=1)."


@savable(
    {"_index": table(LABEL, WHOLE)},
    lambda classes: [*classes._index.values()] == [*range(len(classes._index))],
    take=lambda classes: {"_index": classes._index},
    make=lambda state: Classes(state["_index"]),
)
class Classes:
    """The classes of a model, in the order in which their labels were first learnt.

    Any hashable label will do but None, which stands for a missing one. Numpy scalars become the
    Python values they hold. Labels that are equal (1, 1.0 and True) are one class, named after the
    first of them.

    Examples
    --------
    >>> classes = Classes().extended(["cat", "dog", "cat"])
    >>> classes.labels, classes.columns(["dog", "cat"])
    (('cat', 'dog'), array([1, 0]))
    """

    def __init__(self, index: dict[Label, int] | None = None) -> None:
        self._index: dict[Label, int] = index or {}
        self.labels: tuple[Label, ...] = tuple(self._index)
        """Labels in the order of their columns."""
        zeros = bytes(8 * (len(self._index) - 1)) if self._index else b""
        self._one_hot = zeros + struct.pack("d", 1.0) + zeros

    def __len__(self) -> int:
        return len(self._index)

    def extended(self, labels: Iterable[Label]) -> Classes:
        """Return classes that know all these labels too: this object, if it does already."""
        index = self._index.copy()
        for label in labels:
            index.setdefault(label, len(index))
        return Classes(index) if len(index) > len(self) else self

    def columns(self, labels: Sequence[Label]) -> Integers:
        """Return the columns of known labels, (len(labels),)."""
        return np.fromiter((self._index[label] for label in labels), np.intp, len(labels))

    def column(self, y: Any) -> int | None:
        """Return the column of a label, None if it is not known or needs a closer look."""
        return self.of_row(y)[0]

    def of_row(self, y: Any) -> tuple[int | None, bytes]:
        """Return what `column` does, and the targets of such a row as the bytes of float64."""
        try:
            # Files of earlier versions may hold None as a class.
            column = None if y is None else self._index.get(y)
        except (TypeError, ValueError):  # numpy's timedelta64 raises the latter.
            column = None
        if column is None:
            return None, b""
        width = 8 * len(self._index)
        start = width - 8 * (column + 1)
        return column, self._one_hot[start : start + width]


UNTIL_KNOWN = "Leave the row out until its label is known."
"""Remedy for missing labels."""

PLAIN_LABELS = frozenset({str, int, bool, float})
"""Types of labels that need no closer look, unless a float is NaN."""


def plain_label(y: Any) -> Any:
    """Return a label with the Python values that numpy scalars hold, in tuples too.

    Examples
    --------
    >>> plain_label((np.int64(3), "a"))
    (3, 'a')
    """
    if isinstance(y, tuple):
        plain = tuple(map(plain_label, y))
        # Named tuples keep their type.
        return y if all(map(is_, y, plain)) else plain
    if hasattr(type(y), "as_py"):
        # A scalar of pyarrow, as its columns iterate.
        return y.as_py()
    return y if isinstance(y, (np.datetime64, np.timedelta64)) else plain_scalar(y)


def read_label(y: Any, argument: str = "y", remedy: str = UNTIL_KNOWN) -> Label:
    """Return a label as a hashable Python value that equals itself; numpy scalars become Python's.

    It is called `argument` in errors; `remedy` says what to do with a row without a label.

    Raises
    ------
    TypeError, ValueError
        If the label is missing (None, NaN, pandas.NA), is not hashable or does not equal itself.
    """
    label = plain_label(y)
    if label is None:
        raise ValueError(f"{argument} is None, expected a label. {remedy}")
    if label is np.ma.masked:
        raise TypeError(f"{argument} is masked, expected a label. {remedy}")
    if isinstance(label, (np.datetime64, np.timedelta64)):
        raise TypeError(f"{argument} is {label!r}, expected a label. Convert dates to text.")
    try:
        hash(label)
    except TypeError as error:
        raise TypeError(
            f"{argument} is {label!r} of type {type(label).__name__}, expected one hashable label. "
            "Several labels per row are out of scope: make a tuple of them, or use "
            "river.multioutput."
        ) from error
    if equals_itself(label):
        return label
    raise ValueError(f"{argument} is {label!r}, expected a label. {remedy}")


def check_one_each(labels: Sequence[Label], n_rows: int) -> None:
    """Raise ValueError unless there is one label per row."""
    if len(labels) != n_rows:
        raise ValueError(f"y has {len(labels)} labels, expected {n_rows}. Pass one label per row.")


def read_labels(y: Any, n_rows: int | None = None, remedy: str = UNTIL_KNOWN) -> list[Label]:
    """Return the labels of a batch: an array, a series (pandas, polars, pyarrow …) or a list.

    There must be one for each row, if the number of rows is given. `remedy` says what to do with
    rows without a label.
    """
    check_one_column(y, OF_ONE_HOT)
    labels = as_list(y)
    if n_rows is not None:
        check_one_each(labels, n_rows)
    # Measured with 100,000 labels: a twentieth of the time of a look at each.
    kinds = set(map(type, labels))
    if kinds <= PLAIN_LABELS and not (float in kinds and any(map(ne, labels, labels))):
        return labels
    return [read_label(label, f"y[{row}]", remedy) for row, label in enumerate(labels)]


def as_list(y: Any, each: str = "label") -> list[Any]:
    """Return the entries of an array, series or list; errors speak of one `each` per row."""
    if isinstance(y, (list, tuple, range)):
        return list(y)
    if isinstance(y, np.ndarray):
        # Entry by entry: dates and masked entries would otherwise become numbers and None.
        return y.tolist() if y.dtype.kind in "biufUO" and type(y) is np.ndarray else list(y)
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, method):
            return list(getattr(y, method)())
    remedy = remedy_by("y", y, {"__next__": "Pass list({name})."}, "Pass a list.")
    raise TypeError(
        f"y is of type {type(y).__name__}, expected an array, series or list of one {each} per "
        f"row. {remedy}"
    )


def check_one_column(y: Any, several: str) -> None:
    """Raise ValueError if targets are a table; `several` says what to do with several columns."""
    # pyarrow's tables have both, and the second is no names.
    names = next((name for name in ("column_names", "columns") if hasattr(type(y), name)), None)
    shape = getattr(y, "shape", (0,))
    if names is None and len(shape) == 1:
        return
    if prod(shape[1:]) == 1:
        several = f"Pass y[{getattr(y, names)[0]!r}]." if names else "Pass y.ravel()."
    raise ValueError(f"y has shape {tuple(shape)}, expected (n_rows,). {several}")
