"""Several changes of a state that are made as one: an interrupt comes before all of them or after.

An exception from outside (an interrupt from the keyboard, a signal's handler, a timeout) is raised
between two instructions of Python, wherever that is. Here there are none between two changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import starmap
from operator import call, length_hint, setitem
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Thing = TypeVar("Thing")


class Commit:
    """Gather changes, and make them in one call that Python cannot interrupt.

    What may fail, be it for want of memory, is to be done before: a change is a call of a function
    that is written in C (of numpy, of BLAS through scipy, a method of a dict or list) into memory
    that is there. A function of Python's among them would be one that an interrupt may stop. The
    call itself takes some bytes: a change that finds none is tried once more, and those after it
    are made.

    Examples
    --------
    >>> class Model:
    ...     count = 0
    >>> model, rows = Model(), []
    >>> commit = Commit()
    >>> commit.then(rows.append, 1.5)
    >>> commit.set(model, count=1)
    >>> rows, model.count
    ([], 0)
    >>> commit.make()
    >>> rows, model.count
    ([1.5], 1)
    """

    def __init__(self) -> None:
        self._changes: list[tuple[Any, ...]] = []
        self._scratch_is_free = True

    def then(self, change: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Gather a call of a function that is written in C and does not fail."""
        if kwargs:
            self._changes.append((partial(change, *args, **kwargs),))
        else:
            self._changes.append((change, *args))

    def set(self, owner: object, **attributes: Any) -> None:
        """Gather new values of attributes, no properties, that nothing planned later reads."""
        # Measured: to touch an object's `__dict__` makes all its attributes slower from then on.
        for name, value in attributes.items():
            self._changes.append((setattr, owner, name, value))

    def assign(self, owner: object, **attributes: Any) -> None:
        """Gather new values of attributes that later plans read: a draft has them at once."""
        self.set(owner, **attributes)

    def takes_scratch(self) -> bool:
        """Tell whether scratch memory is free for a change: once, as it is held until then."""
        free, self._scratch_is_free = self._scratch_is_free, False
        return free

    def make(self) -> None:
        """Make all changes, in the order in which they came."""
        # At the end one that does nothing: the last one that has begun may be made once more.
        changes = [*self._changes, (bool,)]
        left = iter(changes)
        try:
            deque(starmap(call, left), maxlen=0)
        except BaseException:
            n_begun = len(changes) - length_hint(left)
            if n_begun:
                # There was no memory to call a function with, some bytes: there may be by now.
                deque(starmap(call, changes[n_begun - 1 :]), maxlen=0)
            raise


class DraftCommit(Commit):
    """Gather what is to be done to arrays that drafts share, and set attributes of drafts at once.

    So changes that are planned later see those numbers of a draft that were planned before.
    """

    def assign(self, owner: object, **attributes: Any) -> None:
        """Set attributes of a draft."""
        for name, value in attributes.items():
            setattr(owner, name, value)


class AtOnce(DraftCommit):
    """Make every change as it comes, where nobody would see the half of them: in new objects.

    Examples
    --------
    >>> rows = []
    >>> AT_ONCE.then(rows.append, 1.5)
    >>> rows
    [1.5]
    """

    def then(self, change: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Make a call."""
        change(*args, **kwargs)

    def takes_scratch(self) -> bool:
        """Tell that scratch memory is free: what has come before is done."""
        return True

    set = DraftCommit.assign


AT_ONCE = AtOnce()


def picked_columns(
    matrix: NDArray[np.float64], columns: NDArray[np.intp], commit: Commit
) -> NDArray[np.float64]:
    """Return a new array for columns of a matrix, as they are when a commit is made.

    Examples
    --------
    >>> picked_columns(np.array([[1.0, 2.0, 3.0]], order="F"), np.array([2, 0]), AT_ONCE)
    array([[3., 1.]])
    """
    picked = np.zeros((len(matrix), len(columns)), order="F")
    if picked.size:
        # Column by column as they lie in memory; "clip" spares numpy a copy.
        commit.then(matrix.T.take, columns, axis=0, out=picked.T, mode="clip")
    return picked


def add_to_columns(
    matrix: NDArray[np.float64],
    columns: NDArray[np.intp],
    sums: NDArray[np.float64],
    commit: Commit,
) -> None:
    """Add sums (n_columns, n_rows) to columns of a matrix in Fortran order, in place.

    Examples
    --------
    >>> matrix = np.zeros((2, 3), order="F")
    >>> add_to_columns(matrix, np.array([2, 0]), np.array([[1.0, 2.0], [3.0, 4.0]]), AT_ONCE)
    >>> matrix
    array([[3., 0., 1.],
           [4., 0., 2.]])
    """
    total = np.empty(sums.shape)
    commit.then(matrix.T.take, columns, axis=0, out=total, mode="clip")
    commit.then(np.add, total, sums, out=total)
    commit.then(setitem, matrix.T, columns, total)


def draft_of(thing: Thing) -> Thing:
    """Return a copy with attributes of its own, whose values are those of the original.

    Attributes of a draft may be set at once, arrays that it shares with the original change by a
    commit, which also puts the draft in the place of the original.

    Examples
    --------
    >>> commit = Commit()
    >>> draft_of(commit)._changes is commit._changes
    True
    """
    draft: Thing = object.__new__(type(thing))
    draft.__dict__ = thing.__dict__.copy()
    return draft
