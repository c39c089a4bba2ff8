"""Models in a forked process that were held by threads which it does not have."""

from __future__ import annotations

import os
from typing import Any
from weakref import ref

_LIVING: set[ref[Any]] = set()


def note_lock(holder: Any) -> None:
    """Take note of what holds a lock, as `lock`, for as long as it lives."""
    # Measured: a WeakSet takes three times as long.
    _LIVING.add(ref(holder, _LIVING.discard))


class Orphaned:
    """In the place of a lock that a thread held which a forked process does not have.

    Examples
    --------
    >>> with Orphaned():
    ...     print("alone")
    Traceback (most recent call last):
    ...
    RuntimeError: Another thread was at work on this model when the process was forked: ...
    """

    def acquire(self, blocking: bool = True) -> bool:
        """Raise: nobody will ever release the lock, and what it guards may be half changed."""
        raise RuntimeError(
            "Another thread was at work on this model when the process was forked: it may be half "
            'changed here. Start processes by "spawn" or "forkserver", or fork between calls.'
        )

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        """Have nothing to release."""

    def _is_owned(self) -> bool:
        return False


def refuse_orphans() -> None:
    """Refuse, in a process that was just forked, the models whose locks would never be free.

    The forking process waits for nobody: a batch that a thread learns may take it minutes.
    """
    for each in filter(None, (known() for known in list(_LIVING))):
        if each.lock.acquire(blocking=False):
            each.lock.release()
        else:
            each.lock = Orphaned()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=refuse_orphans)
