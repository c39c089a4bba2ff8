"""Whether a call was begun in the middle of another one, as by the handler of a signal."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


def is_amid_call(model: object, lock: Any) -> bool:
    """Tell whether a call of a model was interrupted by code that has led to the call of now.

    Parameters
    ----------
    model : object
        Calls of the package that go on count if it is their `self` or `other`.
    lock : object
        Calls that hold several locks count, too, if it is among their `locks`.

    Notes
    -----
    Told by the calls themselves, as a mark that calls set could be left behind by an interrupt.
    Calls of the package that lead straight to this one belong to it.

    Examples
    --------
    >>> is_amid_call([], None)
    False
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_of_package(frame):
        frame = frame.f_back
    while frame is not None:
        if _is_of_package(frame):
            names = frame.f_locals
            if any(names.get(name) is model for name in ("self", "other")):
                return True
            if any(each is lock for each in names.get("locks", ())):
                return True
        frame = frame.f_back
    return False


def _is_of_package(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("onlinels.")
