"""Rows that come one at a time: read without detours, and gathered until somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.linalg.blas import ddot

from onlinels.checks import Floats, Matrix, packed
from onlinels.commit import Commit
from onlinels.rows import PLAIN_NUMBERS, ArrayFeature, Columns, Layout

MOST_ROWS = 64
"""Rows that are gathered at most: as many as the recursive form takes in at once."""

DTYPES = np.float64, np.float32
"""Of arrays that are read without detours: others may overflow."""

LONGEST = 1e75
"""Length up to which a row is read without detours: its squares are far from overflow."""


FEW = 64
"""Values up to which the type of each is looked at.

Measured: of 1,000 that takes 18 us, their sum 5 us.
"""


def are_plain(values: tuple[Any, ...]) -> bool:
    """Tell whether values are plain numbers, by their types or, of many, by that of their sum.

    The sum of numbers is a number; that of anything else is not, or there is none.

    Examples
    --------
    >>> are_plain((1.0, 2)), are_plain((1.0, "2")), are_plain((1.0,) * 100)
    (True, False, True)
    """
    if len(values) <= FEW:
        return PLAIN_NUMBERS.issuperset(map(type, values))
    with np.errstate(all="ignore"):
        return type(sum(values, 0.0)) in PLAIN_NUMBERS


def picker(names: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return what takes the values of these names out of a dict.

    Examples
    --------
    >>> picker(("b", "a"))({"a": 1, "b": 2}), picker(("a",))({"a": 1})
    ((2, 1), (1,))
    """
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda x: (x[name],)


class RowReader:
    """Read samples of the same names as before straight into a model's columns.

    Parameters
    ----------
    columns : Columns
    layout : Layout
        Of plain names, or of one array.
    """

    def __init__(self, columns: Columns, layout: Layout) -> None:
        located = columns.locate(layout)
        self._names = layout
        self._pick = picker(layout)
        self._array = layout[0] if _is_one_array(layout) else None
        self._width = len(columns)
        in_place = len(located) == len(columns) and (located == np.arange(len(columns))).all()
        self._known = np.flatnonzero(located >= 0)
        self._places = None if in_place else located[self._known]
        self.is_complete = len(self._known) == len(located)

    def read(self, x: Any, longest_square: float = LONGEST**2) -> Floats | None:
        """Return a sample as the model's columns (n_features,), or None if it needs a closer look.

        Features that the model does not know are left out.

        Parameters
        ----------
        x : dict
        longest_square : float
            Of the sample's Euclidean length, at most 1e150; negative to refuse all.
        """
        values = self._read_dict(x) if self._array is None else self._read_array(x)
        # A comparison with NaN is false; numpy's own product would warn of an overflow.
        if values is None or not ddot(values, values) <= longest_square:
            return None
        if self._places is None:
            return values
        placed = np.zeros(self._width)
        placed[self._places] = values if self.is_complete else values[self._known]
        return placed

    def _read_dict(self, x: Any) -> Floats | None:
        """Return the values by name, in whatever order; None if names or kinds are others."""
        if type(x) is not dict or len(x) != len(self._names):
            return None
        try:
            values = self._pick(x)
            return packed(values) if are_plain(values) else None
        except Exception:  # Whatever it is, the closer look will say it.
            return None

    def _read_array(self, x: Any) -> Floats | None:
        entry: Any = self._array
        if type(x) is not dict or len(x) != 1:
            return None
        value: Any = x.get(entry.name)
        known = type(value) is np.ndarray and value.shape == (entry.length,)
        return value.astype(np.float64, copy=False) if known and value.dtype in DTYPES else None


def _is_one_array(layout: Layout) -> bool:
    return len(layout) == 1 and isinstance(layout[0], ArrayFeature)


def reader_of(columns: Columns, layout: Layout) -> RowReader | None:
    """Return a reader for samples of a layout; None where these need a closer look each time."""
    if isinstance(layout, range) or not layout:
        return None
    plain = not any(isinstance(entry, ArrayFeature) for entry in layout)
    return RowReader(columns, layout) if plain or _is_one_array(layout) else None


class Waiting:
    """Rows that are yet to be let into statistics, in the order in which they came.

    Parameters
    ----------
    rows : ndarray (n, n_features)
    targets : ndarray (n,) of int, or (n, n_targets) of float
    w : float or ndarray (n,)
        Weights when they are learnt.
    times : ndarray (n,), optional

    Examples
    --------
    >>> waiting = Waiting(np.array([[1.0], [2.0]]), np.array([0, 1]))
    >>> commit = Commit()
    >>> waiting.plan_claim(commit)
    2
    >>> waiting.plan_letting_in(1, commit) is waiting
    True
    >>> commit.make()
    >>> len(waiting), waiting.first(1)
    (1, (array([[2.]]), array([1]), 1.0, None))
    """

    is_harmless = False
    """Whether the rows are known not to outweigh any ridge held inside."""

    def __init__(
        self, rows: Matrix, targets: Any, w: float | Floats = 1.0, times: Floats | None = None
    ) -> None:
        self._rows, self._targets, self._w, self._times = rows, targets, w, times
        # How many are let in; in a list, as then a commit can tell whether it still holds.
        self._mark = [0]

    def __len__(self) -> int:
        return len(self._targets) - sum(self._mark)

    def has_room(self, n_features: int) -> bool:
        """Tell whether another row of so many features may wait here, too."""
        return False

    def first(self, n_rows: int) -> tuple[Matrix, Any, float | Floats, Floats | None]:
        """Return the first rows that wait, views, their targets, weights and times."""
        (start,) = self._mark
        part = slice(start, start + n_rows)
        w = self._w if isinstance(self._w, float) else self._w[part]
        times = None if self._times is None else self._times[part]
        return self._rows[part], np.asarray(self._targets[part]), w, times

    def plan_claim(self, commit: Commit) -> int:
        """Let a commit make no change, but fail, if others have let rows in since it was planned.

        So may do a signal's handler that looks at the model. Return how many rows are claimed.
        """
        (start,) = self._mark
        commit.then(self._mark.remove, start)
        return len(self._targets) - start

    def unless_let_in(self) -> Commit:
        """Return a commit to which the same applies, and which lets no rows in."""
        commit = Commit()
        commit.then(self._mark.append, len(self._targets) - self.plan_claim(commit))
        return commit

    def plan_letting_in(self, n_rows: int, commit: Commit) -> Waiting | None:
        """Let the first rows wait no longer when the commit is made; return what is left then."""
        commit.then(self._mark.append, self._mark[0] + n_rows)
        return self if n_rows < len(self) else None

    def own(self) -> None:
        """Copy the rows that wait, for others may write to them."""
        rest = slice(sum(self._mark), None)
        rows, targets = np.array(self._rows[rest]), np.array(self._targets[rest])
        w = self._w if isinstance(self._w, float) else self._w[rest]
        times = None if self._times is None else self._times[rest]
        vars(self).update(vars(Waiting(rows, targets, w, times)))


class Gathered(Waiting):
    """Rows of known features that come one by one, with their targets.

    Parameters
    ----------
    n_features : int

    Examples
    --------
    >>> rows = Gathered(2)
    >>> rows.add(np.array([1.0, 2.0]), 0)
    >>> len(rows), rows.first(1)
    (1, (array([[1., 2.]]), array([0]), 1.0, None))
    """

    is_harmless = True

    def __init__(self, n_features: int) -> None:
        super().__init__(np.empty((MOST_ROWS, n_features)), [])

    def has_room(self, n_features: int) -> bool:
        """Tell whether another row of so many features may wait here, too."""
        return len(self._targets) < MOST_ROWS and self._rows.shape[1] == n_features

    def plan_letting_in(self, n_rows: int, commit: Commit) -> Waiting:
        """Let the first rows wait no longer; more may come."""
        commit.then(self._mark.append, self._mark[0] + n_rows)
        return self

    def add(self, row: Floats, target: Any) -> None:
        """Take a row (n_features,) in."""
        self._rows[len(self._targets)] = row
        # From here on it is there.
        self._targets.append(target)
