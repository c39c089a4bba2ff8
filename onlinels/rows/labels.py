"""Read and check labels, and assign columns to classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_, ne
from typing import Any

import numpy as np

from onlinels.checks import (
    Integers,
    check_unstructured,
    equals_itself,
    is_missing,
    plain_scalar,
    refusal,
    wrong_type,
)
from onlinels.saving import savable

Label = Any
"""Any hashable value except None; river's own label types are narrower."""


def classes_of(labels: Iterable[Label]) -> Classes:
    """Return the classes of labels, in this order."""
    return Classes().extended(labels)


@savable(
    take=lambda classes: {"_index": classes.index},
    make=lambda state: classes_of(state["_index"]),
    is_value=True,
)
class Classes:
    """The classes of a model, in the order in which their labels were first learnt.

    A label is any hashable value except None, which means a missing label. Numpy scalars are
    converted to Python values. Equal labels (1, 1.0 and True) are one class, named after the first
    label.

    Examples
    --------
    >>> classes = Classes().extended(["cat", "dog", "cat"])
    >>> classes.labels, classes.columns(["dog", "cat"])
    (('cat', 'dog'), array([1, 0]))
    """

    are_plain = False
    """Whether all labels are known to be of types that compare without other code."""

    def __init__(self, index: dict[Label, int] | None = None) -> None:
        self.index: dict[Label, int] = index or {}
        """The column of every label."""
        self.labels: tuple[Label, ...] = tuple(self.index)
        """Labels in the order of their columns."""

    def __len__(self) -> int:
        return len(self.index)

    def __reduce__(self) -> Any:
        return classes_of, (self.labels,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Classes:
        """Return the object itself, which never changes."""
        return self

    def extended(self, labels: Iterable[Label]) -> Classes:
        """Return classes with these labels added, or this object if it already has all of them."""
        new = [label for label in dict.fromkeys(labels) if label not in self.index]
        places = {label: column for column, label in enumerate(new, len(self))}
        return Classes(self.index | places) if new else self

    def met(self, y: Any) -> Classes | None:
        """Return classes with a label too; None unless the label and all classes are plain.

        No code of others is run; `read_label` and `extended` read other labels.
        """
        if type(y) not in PLAIN_LABEL_TYPES or y != y:
            return None
        if not (self.are_plain or PLAIN_LABEL_TYPES.issuperset(map(type, self.index))):
            return None
        if y in self.index:
            return self
        new = Classes(self.index | {y: len(self.index)})
        new.are_plain = True
        return new

    def columns(self, labels: Sequence[Label]) -> Integers:
        """Return the columns of known labels, an array (len(labels),)."""
        return np.array(list(map(self.index.__getitem__, labels)), dtype=np.intp)

    def column_of(self, y: Any) -> int | None:
        """Return the column of a label; None if it is not known or needs `read_label` first."""
        try:
            return self.index[y]
        except (KeyError, TypeError, ValueError):  # numpy's timedelta64 raises the last.
            return None


PLAIN_LABEL_TYPES = frozenset({str, int, bool, float})
"""Types of labels that are valid without further checks, unless a float is NaN."""


def plain_label(y: Any) -> Any:
    """Return a label with numpy scalars converted to Python values, also within tuples.

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
        # A pyarrow scalar: iterating over a pyarrow column yields these.
        return y.as_py()
    return y if isinstance(y, (np.datetime64, np.timedelta64)) else plain_scalar(y)


def read_label(y: Any, argument: str = "y") -> Label:
    """Return a label as a hashable Python value; numpy scalars are converted.

    Error messages call the label `argument`.

    Raises
    ------
    TypeError, ValueError
        If the label is missing (`onlinels.checks.is_missing`), or a tuple with NaN, or is not
        hashable.
    """
    if type(y) in PLAIN_LABEL_TYPES and y == y:
        return y
    label = None if y is np.ma.masked else plain_label(y)
    if is_missing(label):
        raise _no_label(label, argument)
    if isinstance(label, (np.datetime64, np.timedelta64)):
        raise TypeError(f"{argument} is {label!r}, expected a label. Convert dates to text.")
    try:
        hash(label)
    except TypeError as error:
        found = f"{argument} is {label!r} of type {type(label).__name__}"
        remedy = "Several labels per row are out of scope: pass a tuple, or use river.multioutput."
        raise TypeError(f"{found}, expected one hashable label. {remedy}") from error
    if not equals_itself(label):
        raise _no_label(label, argument)
    return label


def _no_label(label: Any, argument: str) -> ValueError:
    found, remedy = f"is {label!r}", "Leave the row out until its label is known."
    return refusal(argument, found, "a label", remedy)


def read_labels(y: Any, n_rows: int | None = None) -> list[Label]:
    """Return the labels in an array, a series (pandas, polars, pyarrow …) or a list.

    If `n_rows` is given, any other number of labels raises a ValueError.
    """
    check_one_column(y)
    labels = as_list(y)
    if n_rows is not None and len(labels) != n_rows:
        raise ValueError(f"y has {len(labels)} labels, expected {n_rows}. Pass one label per row.")
    # Measured with 100,000 labels: this takes a twentieth of the time of reading each label.
    kinds = set(map(type, labels))
    if kinds <= PLAIN_LABEL_TYPES and not (float in kinds and any(map(ne, labels, labels))):
        return labels
    return [read_label(label, f"y[{row}]") for row, label in enumerate(labels)]


def read_known_labels(labels: Any) -> tuple[Label, ...] | None:
    """Return the setting `labels`: None, or labels that are known before their rows, as a tuple."""
    if labels is None:
        return None
    remedy = "Pass a list such as ['ok', 'fault'], or None."
    if isinstance(labels, (str, bytes)):
        raise refusal("labels", f"is {labels!r}", "a sequence of labels", remedy)
    given = as_list(labels, "label per class", "labels")
    if not given:
        raise refusal("labels", "is empty", "at least one label", remedy)
    read, known = (read_label(y, f"labels[{n}]") for n, y in enumerate(given)), dict[Label, int]()
    for place, label in enumerate(read):
        if label in known:
            found = f"holds {label!r} at {place}, equal to that at {known[label]}"
            raise refusal("labels", found, "labels that differ", "Name each class once.")
        known[label] = place
    return tuple(known)


def as_list(y: Any, each: str = "label per row", argument: str = "y") -> list[Any]:
    """Return the entries of an array, series or list; error messages call an entry `each`."""
    if isinstance(y, (list, tuple, range)):
        return list(y)
    if isinstance(y, np.ndarray):
        # `tolist` would convert dates to numbers, and masked entries to None.
        return y.tolist() if y.dtype.kind in "biufUO" and type(y) is np.ndarray else list(y)
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(y, method):
            return list(getattr(y, method)())
    expected = f"an array, series or list of one {each}"
    raise wrong_type(argument, y, expected, "Pass a list.")


def check_one_column(y: Any) -> None:
    """Raise ValueError if targets are a table, TypeError if they have named fields."""
    check_unstructured("y", y)
    # A frame has columns; pyarrow's shape of a table is its own.
    is_table = hasattr(type(y), "columns")
    if is_table or len(getattr(y, "shape", (0,))) != 1:
        raise ValueError(
            f"y has shape {tuple(y.shape)}, expected (n_rows,). Pass one column, such as y.ravel() "
            "or y['name'], or of one-hot rows np.asarray(y).argmax(axis=1); for several numbers "
            "per row use LeastSquaresMultiTargetRegressor."
        )
