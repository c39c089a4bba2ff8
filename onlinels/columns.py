"""Which feature is which column: by name, whatever the order in which names arrive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onlinels.arrays import Integers, Matrix
from onlinels.batch import ArrayFeature, Layout, names_of
from onlinels.memory import OF_ROWS, check_room
from onlinels.names import Name, check_distinct, feature_key, plain_name, sorted_names


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
