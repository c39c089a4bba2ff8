"""Locks of models: one thread at a time changes a model, and the others wait."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, compress, takewhile
from operator import methodcaller
from threading import RLock
from typing import Any
from weakref import WeakSet

LockOfPython: Any = type(RLock())


class Lock(LockOfPython):  # type: ignore[misc]
    """A re-entrant lock; its copies and unpickled locks are new locks.

    Examples
    --------
    >>> with Lock():
    ...     print("alone")
    alone
    """

    def __new__(cls) -> Lock:
        """Return a new lock, which is released."""
        new: Lock = super().__new__(cls)
        LIVE_LOCKS.add(new)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()


class AbandonedLock(Lock):
    """A lock in a forked process whose holder is a thread of the old process."""

    def acquire(self, *_: Any) -> bool:
        """Raise RuntimeError: the model may be half changed."""
        raise RuntimeError(
            "A thread of the parent process was using the model when this process was forked, "
            "expected that no call runs. Load the model from a file, or fork before the call."
        )

    __enter__ = acquire


LIVE_LOCKS: WeakSet[Lock] = WeakSet()
"""All locks of this process."""


def _abandon_locks() -> None:
    """In a forked process: no thread will release the locks that other threads held."""
    for lock in LIVE_LOCKS:
        if isinstance(lock, AbandonedLock):
            continue
        if lock.acquire(False):
            lock.release()
        else:
            lock.__class__ = AbandonedLock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_locks)


@contextmanager
def all_held(*locks: Lock) -> Iterator[None]:
    """Hold several locks without deadlock, in any order in which other threads acquire them."""
    order = list(set(locks))
    while True:
        held: list[Lock] = []
        with ExitStack() as stack:
            # A C loop acquires and a C loop releases: an interrupt comes before or after a loop.
            stack.callback(deque, map(methodcaller("release"), held), 0)
            # Only the first acquisition waits, so that no threads wait in a ring. No fixed order
            # would do: a wrapper's call holds its own lock when it asks for those of its parts.
            acquired = map(methodcaller("acquire"), order[:1])
            tried = map(methodcaller("acquire", False), order[1:])
            held.extend(compress(order, takewhile(bool, chain(acquired, tried))))
            if len(held) == len(order):
                yield
                return
        order.insert(0, order.pop(len(held)))
