"""How a model changes: calls that are planned first, then made in one C loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import starmap
from operator import call
from typing import Any

Call = tuple[Any, ...]


def apply(calls: Iterable[Call]) -> None:
    """Make planned changes in one C loop: an interrupt comes before or after the loop.

    A planned change is (function, *args) of a C function that writes into memory and does not fail.
    It runs no Python code and handles no signals, as numpy does in `np.copyto`, and where it turns
    a tuple or list into an array. New attributes of an object are one: (vars(object).update,
    attributes).

    Examples
    --------
    >>> rows = []
    >>> apply([(rows.append, 1.5)])
    >>> rows
    [1.5]
    """
    deque(starmap(call, calls), maxlen=0)
