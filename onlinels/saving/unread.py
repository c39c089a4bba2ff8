"""Arrays that stay in their file until they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any

import numpy as np

from onlinels.checks import Matrix

READING = RLock()
"""Held by whoever reads what was left for later: threads that come meanwhile find it read.

One that its holder may take again, as `Lock` says.
"""


def _renew() -> None:
    """Make the lock anew in a forked process: whoever held it is not there."""
    global READING
    READING = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class Unread:
    """An array in a file: its shape is known, its numbers are not read yet.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    by_column : bool
        Whether it will be in Fortran order.
    read : callable
        Returns the array, or raises ValueError if it is not what was saved.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, by_column: bool, read: Callable[[], Matrix]
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.by_column = by_column
        self.read = read

    def __deepcopy__(self, memo: dict[int, Any]) -> Unread:
        """Return the very same: what is in the file does not change."""
        return self


class ReadLater:
    """An object of which some arrays may be read when somebody first asks for one.

    The statistics of a model that was loaded: predictions do not need them. All that are left are
    read at once; until then they are no attributes, so that nothing is slower afterwards.

    Examples
    --------
    >>> class Sums(ReadLater):
    ...     total: Matrix
    >>> sums = Sums()
    >>> sums.leave_unread({"total": Unread((2,), "f8", True, lambda: np.ones(2))})
    >>> shape_of(sums, "total"), "total" in vars(sums)
    ((2,), False)
    >>> sums.total, "total" in vars(sums)
    (array([1., 1.]), True)
    """

    def leave_unread(self, arrays: dict[str, Unread]) -> None:
        """Take arrays in, by attribute, that are read when they are needed."""
        vars(self)["_unread"] = arrays

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is no attribute.
        if name in vars(self).get("_unread", ()):
            self.read_unread()
        try:
            return vars(self)[name]
        except KeyError:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(said) from None

    def read_unread(self) -> None:
        """Read what is left to be read, before copies are made that would read it again."""
        if "_unread" not in vars(self):
            return
        with READING:
            state = vars(self)
            unread: dict[str, Unread] = state.get("_unread", {})
            missing = unread.keys() - state.keys()
            state.update({name: unread[name].read() for name in missing})
            state.pop("_unread", None)

    def __getstate__(self) -> dict[str, Any]:
        self.read_unread()
        return vars(self).copy()


def shape_of(owner: Any, name: str) -> tuple[int, ...]:
    """Return the shape of an array attribute, without reading it."""
    unread: dict[str, Unread] = vars(owner).get("_unread", {})
    shape: tuple[int, ...] = unread[name].shape if name in unread else vars(owner)[name].shape
    return shape
