"""Work on parts of a batch at the same time, memory of threads, and locks that are copied."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat, starmap, takewhile
from math import prod
from operator import methodcaller
from threading import RLock, local
from typing import Any, TypeVar

import numpy as np

from onlinels.arrays import Matrix
from onlinels.finishing import finish_what_is_learnt
from onlinels.reentry import is_amid_call

VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""What BLAS libraries take their number of threads from, and so does this package."""

Result = TypeVar("Result")
Model = TypeVar("Model", bound=Any)

SMALL_PRODUCT = 1 << 18
"""Multiplications up to which OpenBLAS computes a product in the thread that asks for it."""


def n_threads() -> int:
    """Return how many threads may work: the cores of this process, or fewer if so it is told.

    The first of OPENBLAS_NUM_THREADS, MKL_NUM_THREADS and OMP_NUM_THREADS that is set counts. What
    threadpoolctl sets for BLAS later is not known here.

    Examples
    --------
    >>> n_threads() >= 1
    True
    """
    cores = _n_cores()
    for variable in VARIABLES:
        # OpenMP takes a list, one number for each level of nesting.
        text = os.environ.get(variable, "").partition(",")[0]
        if text.isdecimal() and int(text) > 0:
            return min(cores, int(text))
    return cores


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def even_parts(n: int, step: int, most: int) -> list[slice]:
    """Cut n into parts alike, of whole steps but for the end: one for a thread, or several.

    Parameters
    ----------
    n, step : int
    most : int
        How large a part may be, about.

    Examples
    --------
    >>> [part.stop for part in even_parts(6, step=2, most=2)]
    [2, 4, 6]
    """
    workers = n_threads()
    rounds = max(1, -(-n // (most * workers)))
    size = step * max(1, -(-n // (step * rounds * workers)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def in_threads(work: Callable[[slice], None], parts: Iterable[slice]) -> None:
    """Do work on every part, several at a time.

    Parameters
    ----------
    work : callable
        Takes a part, and touches nothing that another part's does but to read it.
    parts : iterable of slice

    Notes
    -----
    Threads are made anew and end with the call, within 0.1 ms each: none is left over for a
    process that forks. With one part, or one thread allowed, nothing is made.

    Examples
    --------
    >>> done = [0, 0, 0]
    >>> in_threads(lambda part: done.__setitem__(part, [1] * len(done[part])), [slice(0, 2)])
    >>> done
    [1, 1, 0]
    """
    parts = list(parts)
    workers = min(n_threads(), len(parts))
    if workers <= 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, parts):
            pass


LARGEST_HELD = 1 << 23
"""Numbers of an array for which scratch memory is held: 64 MiB in float64."""


class Scratch(local):
    """Memory for what is soon done with, used again and again, by every thread its own.

    Measured: threads that ask for new memory at every step wait for one another.

    Examples
    --------
    >>> scratch = Scratch()
    >>> first = scratch.array("sums", (2, 3), np.float64)
    >>> np.shares_memory(first, scratch.array("sums", (3,), np.float64))
    True
    """

    def __init__(self) -> None:
        self._held: dict[str, Matrix] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Matrix:
        """Return an array of any content, in place of the last one of this name."""
        size = prod(shape)
        if size > LARGEST_HELD:
            return np.empty(shape, dtype)
        held = self._held.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._held[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)


_TAKE, _TRY, _RELEASE = (
    methodcaller("acquire"),
    methodcaller("acquire", False),
    methodcaller("release"),
)


def while_held(locks: Sequence[Any], call: Callable[[], Result]) -> Result:
    """Return what a call returns, holding re-entrant locks so that no two threads wait in a ring.

    Who has to wait for one of them holds none of the others meanwhile, in whatever order they come.

    Examples
    --------
    >>> while_held([RLock(), RLock()], lambda: "alone")
    'alone'
    """
    taken = deque[Any]([None])
    # Made before: at the end they are all released by one call, which no handler of a signal is
    # let into, and before which none that raises can come.
    releasing = map(_RELEASE, iter(taken.pop, None))
    try:
        _take(locks, taken)
        return call()
    finally:
        deque(releasing, maxlen=0)


def _take(locks: Sequence[Any], taken: deque[Any]) -> None:
    """Take locks, and append them to those that are taken, None being the first of these."""
    wanted = list(locks)
    while (n_taken := len(taken) - 1) < len(wanted):
        # That on which it failed comes first: the thread sleeps until it is free.
        wanted = [*wanted[n_taken:], *wanted[:n_taken]]
        deque(map(_RELEASE, starmap(taken.pop, repeat((), n_taken))), maxlen=0)
        # A lock is taken and noted in one call, between which no handler of a signal comes.
        taken.extend(filter(_TAKE, wanted[:1]))
        taken.extend(takewhile(_TRY, wanted[1:]))


class CopyableLock:
    """A lock whose copies, and what comes out of its pickle, are new locks.

    Whoever holds it may take it again: between a block's end and the release an interrupt would
    otherwise lock its own thread out for good.

    Examples
    --------
    >>> with CopyableLock().lock:
    ...     print("alone")
    alone
    """

    def __init__(self) -> None:
        self.lock: Any = RLock()

    def to_change(self, model: object) -> Any:
        """Return the lock, for a change of the model that it belongs to.

        Raises
        ------
        RuntimeError
            If this thread is in the middle of another call of the model: a signal's handler gets
            past the lock, and would change what that call has read.
        """
        if self.is_amid(model):
            raise RuntimeError(
                f"This {type(model).__name__} is in the middle of another call of this thread, "
                "expected none while it changes. Let the handler of a signal note what is to be "
                "learnt, and learn it afterwards; it may predict and save."
            )
        return self.lock

    def to_look(self) -> Any:
        """Return the lock, for a look at all that its model is.

        What this thread has learnt and not finished yet, because a signal's handler came between,
        is finished before.
        """
        if self.lock._is_owned():
            finish_what_is_learnt()
        return self.lock

    def is_amid(self, model: object) -> bool:
        """Tell whether this thread is in the middle of another call of a model."""
        # An interrupt may have left the lock taken: only the calls under way tell.
        return bool(self.lock._is_owned()) and is_amid_call(model, self.lock)

    def __reduce__(self) -> tuple[Any, ...]:
        return CopyableLock, ()


def merged(model: Model, other: Model) -> Model:
    """Let a model take another one's rows by its `_merge`, and return it; both are locked.

    Raises
    ------
    RuntimeError
        As `CopyableLock.to_change`.
    """
    model._alone.to_change(model)
    while_held([model._alone.lock, other._alone.lock], lambda: model._merge(other))
    return model
