"""Which feature is which column: by name, whatever the order in which names arrive."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from onlinels.arrays import Integers, Matrix
from onlinels.encoding import ArrayFeature, Layout, Name, names_of

OUTPUT_NAME = "h"
"""What transformers call their output: "h0", "h1", … as numbers, "h" as an array."""


class Columns:
    """The columns of a model: features in the order in which they became known.

    Names that arrive together are sorted, so neither the order of a dict's keys nor that of a
    frame's columns matters, to the last bit.

    Notes
    -----
    A plain array has positions instead of names. Its columns are named 0, 1, …; where a model
    knows none of these names but n features that are numbered 0 … n-1 in another way (an array
    value, ("h", 0) …, or a transformer's "h0" …), the columns are these by position, and the
    other way round. So a pipeline may learn from arrays and predict from dicts.

    Examples
    --------
    >>> columns = Columns().extended([("b", "a")])
    >>> columns.names, columns.locate(("b", "c"))
    (('a', 'b'), array([ 1, -1]))
    """

    def __init__(self) -> None:
        self._index: dict[Name, int] = {}
        self._lengths: dict[Name, int] = {}
        self._last: tuple[Layout, Integers] | None = None

    def __len__(self) -> int:
        return len(self._index)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}

    @property
    def names(self) -> tuple[Name, ...]:
        """Names of the features, in the order of their columns."""
        return tuple(self._index)

    def layouts(self) -> tuple[Layout, ...]:
        """Return layouts that, added to other columns, make all these features known there."""
        features = tuple(ArrayFeature(name, length) for name, length in self._lengths.items())
        arrays = {name for feature in features for name in names_of((feature,))}
        return (features, tuple(name for name in self._index if name not in arrays))

    def extended(self, layouts: Iterable[Layout]) -> Columns:
        """Return columns that know all features of the layouts too: these, if they do already.

        Raises
        ------
        ValueError
            If an array feature has another length than before, or a plain array meets names.
        """
        columns = self
        for layout in layouts:
            if (columns.locate(layout) < 0).any():
                columns = copy.copy(self) if columns is self else columns
                columns._add(layout)
        return columns

    def __copy__(self) -> Columns:
        columns = Columns()
        columns._index, columns._lengths = self._index.copy(), self._lengths.copy()
        return columns

    def _check_lengths(self, layout: Layout) -> None:
        for entry in layout:
            if isinstance(entry, ArrayFeature):
                known = self._lengths.get(entry.name, entry.length)
                if known != entry.length:
                    raise ValueError(
                        f"x[{entry.name!r}] has {entry.length} values, expected {known} as before. "
                        "Bring arrays to one size, or use another name."
                    )

    def _add(self, layout: Layout) -> None:
        """Make the features of a checked layout known, in sorted order."""
        located = self.locate(layout)
        names = tuple(names_of(layout))
        unknown = [name for name, column in zip(names, located, strict=True) if column < 0]
        for name in sorted_names(unknown):
            self._index[name] = len(self._index)
        if not isinstance(layout, range):
            features = [entry for entry in layout if isinstance(entry, ArrayFeature)]
            self._lengths.update({entry.name: entry.length for entry in features})
        self._last = None

    @classmethod
    def in_order(cls, names: Iterable[Name]) -> Columns:
        """Return columns in the order given, as weights that are fixed already need them."""
        columns = cls()
        columns._index = {name: column for column, name in enumerate(names)}
        return columns

    def locate(self, layout: Layout) -> Integers:
        """Return the column of every feature of a layout, -1 where it is unknown.

        Raises
        ------
        ValueError
            If an array feature has another length than before, or a plain array meets names.
        """
        if self._last is None or layout != self._last[0]:
            self._check_lengths(layout)
            self._last = (layout, self._locate(layout))
        return self._last[1]

    def _locate(self, layout: Layout) -> Integers:
        names = tuple(names_of(layout))
        located = np.fromiter((self._index.get(name, -1) for name in names), np.intp, len(names))
        if not self._index or not len(names) or (located >= 0).any():
            return located
        by_position = _match_positions(names, self.names)
        if by_position is not None:
            return by_position
        if isinstance(layout, range):
            raise ValueError(
                f"X is a plain array of {len(layout)} columns, expected features by name "
                f"({_some(self.names)}). Pass a frame or dicts with these names."
            )
        return located

    def place(self, layout: Layout, values: Matrix) -> Matrix:
        """Arrange the columns of values (n, n_columns) as the model's; absent ones are 0.

        Returns
        -------
        ndarray (n, len(self)), dtype of `values`
            `values` itself if nothing has to move.
        """
        located = self.locate(layout)
        if len(located) == len(self) and (located == np.arange(len(self))).all():
            return values
        placed = np.zeros((len(values), len(self)), dtype=values.dtype)
        known = located >= 0
        placed[:, located[known]] = values[:, known]
        return placed


def sorted_names(names: list[Name]) -> list[Name]:
    """Sort names of any hashable types; of different types, by type and spelling.

    Examples
    --------
    >>> sorted_names(["b", 10, 9, "a"])
    [10, 9, 'a', 'b']
    """
    kinds = {type(name) for name in names}
    try:
        if len(kinds) == 1 and kinds <= {int, str, tuple, float}:
            return sorted(names)  # type: ignore[type-var]
    except TypeError:
        pass
    return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def numbered(name: Name) -> tuple[Any, int] | None:
    """Return the family and the number of a numbered name, None for any other.

    Examples
    --------
    >>> numbered(3), numbered("h12"), numbered(("h", 3)), numbered("age")
    ((None, 3), ('h', 12), (('h',), 3), None)
    """
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return None, int(name)
    if isinstance(name, tuple) and len(name) == 2 and isinstance(name[1], int):
        return (name[0],), name[1]
    if isinstance(name, str) and (match := re.fullmatch(OUTPUT_NAME + r"(\d+)", name)):
        return OUTPUT_NAME, int(match[1])
    return None


def _match_positions(names: tuple[Name, ...], known: tuple[Name, ...]) -> Integers | None:
    """Return the column of every name by position, if both are numbered 0 … n-1."""
    here, there = _numbering(names), _numbering(known)
    if here is None or there is None or len(names) != len(known):
        return None
    if not {here[0], there[0]} & {None} and {here[0], there[0]} != {OUTPUT_NAME, (OUTPUT_NAME,)}:
        return None
    columns = np.empty(len(known), dtype=np.intp)
    columns[there[1]] = np.arange(len(known))
    return columns[here[1]]


def _numbering(names: tuple[Name, ...]) -> tuple[Any, Integers] | None:
    """Return the family and the numbers of names that are numbered 0 … n-1 in one family."""
    parts = [part for part in map(numbered, names) if part is not None]
    families = {family for family, _ in parts}
    numbers = np.array([number for _, number in parts], dtype=np.intp)
    if len(families) != 1 or not np.array_equal(np.sort(numbers), np.arange(len(names))):
        return None
    return families.pop(), numbers


def _some(names: tuple[Name, ...]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return shown + (", …" if len(names) > 3 else "")
