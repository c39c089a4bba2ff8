"""Labels: what they may be, and their columns."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from onlinels.checks import Integers, equals_itself, remedy_by
from onlinels.saving import LABEL, WHOLE, savable, table

Label = Any
"""Any hashable value; river's own label types are narrower, so this is left open."""

OF_ONE_HOT = "Pass one label per row; of one-hot rows np.asarray(y).argmax(axis=1)."


@savable(
    {"_index": table(LABEL, WHOLE)},
    lambda classes: [*classes._index.values()] == [*range(len(classes._index))],
    take=lambda classes: {"_index": classes._index},
    make=lambda state: Classes(state["_index"]),
)
class Classes:
    """The classes of a model, in the order in which their labels were first learnt.

    Any hashable label will do. Numpy scalars become the Python values they hold. Labels that are
    equal (1, 1.0 and True) are one class, named after the first of them.

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
        try:
            return self._index.get(y)
        except (TypeError, ValueError):  # numpy's timedelta64 raises the latter.
            return None

    def of_row(self, y: Any) -> tuple[int | None, bytes]:
        """Return what `column` does, and the targets of such a row as the bytes of float64."""
        column, width = self.column(y), 8 * len(self._index)
        if column is None:
            return None, b""
        start = width - 8 * (column + 1)
        return column, self._one_hot[start : start + width]


def read_label(y: Any) -> Label:
    """Return a label as a hashable Python value that equals itself; numpy scalars become such."""
    if isinstance(y, (np.datetime64, np.timedelta64)) or y is np.ma.masked:
        raise TypeError(f"y is {y!r}, expected a label. Convert dates to text, skip masked rows.")
    label = y.item() if isinstance(y, np.generic) else y
    try:
        hash(label)
    except TypeError as error:
        raise TypeError(
            f"y is {label!r} of type {type(label).__name__}, expected one hashable label. Several "
            "labels per row are out of scope: make a tuple of them, or use river.multioutput."
        ) from error
    if not equals_itself(label):
        raise ValueError(f"y is {label!r}, expected a label that equals itself. Skip the row.")
    return label


def read_labels(y: Any, n_rows: int) -> list[Label]:
    """Return the labels of a batch: an array, a series (pandas, polars, pyarrow …) or a list."""
    check_one_column(y, OF_ONE_HOT)
    labels = list(map(read_label, as_list(y)))
    if len(labels) != n_rows:
        raise ValueError(f"y has {len(labels)} labels, expected {n_rows}. Pass one label per row.")
    return labels


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
    remedy = remedy_by("y", y, {"__next__": "Pass list({name})."}, "Pass one.")
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
