"""What all arithmetic here goes through: changes as values, products, growing arrays, threads."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, starmap, takewhile
from math import prod
from operator import call, methodcaller
from threading import RLock, local
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, sgemm, sgemv

from onlinels.checks import SPARSE, Matrix, read_only

Calls = tuple[tuple[Any, ...], ...]
State = tuple[tuple[object, str, Any], ...]


class Update(NamedTuple):
    """Changes that are planned and not made yet."""

    # (function, *args): functions written in C, into memory that is there, that do not fail.
    calls: Calls = ()
    # (object, attribute, new value), for plain attributes.
    state: State = ()


def becoming(instance: Any, other: Any) -> State:
    """Return the changes by which an object takes over all attributes of another one."""
    return tuple((instance, *item) for item in vars(other).items())


def apply(update: tuple[Calls, State]) -> None:
    """Make all changes of an update in one C loop: an interrupt comes before it or after it.

    Attributes are assigned as `object` assigns them: `__setattr__` of a class is not called, which
    would be no C.

    Examples
    --------
    >>> rows = []
    >>> apply(Update(((rows.append, 1.5),)))
    >>> rows
    [1.5]
    """
    calls, state = update
    deque(chain(starmap(call, calls), starmap(object.__setattr__, state)), maxlen=0)


def joined(*updates: tuple[Calls, State]) -> Update:
    """Return one update of several, in their order."""
    calls, states = zip(Update(), *updates, strict=True)
    return Update(tuple(chain(*calls)), tuple(chain(*states)))


MAX_PLAN_ATTEMPTS = 3
"""Attempts to plan a block once blocks before it are learnt, if something is raised meanwhile."""


def apply_in_blocks(blocks: Iterable[slice], plan: Callable[[slice], tuple[Calls, State]]) -> None:
    """Make the updates of all blocks; what is raised between two is raised after the last.

    Examples
    --------
    >>> rows = []
    >>> apply_in_blocks([slice(0, 2), slice(2, 3)], lambda b: Update(((rows.append, b.stop),)))
    >>> rows
    [2, 3]
    """
    left = deque(blocks)
    n_blocks, n_tries = len(left), 0
    raised: BaseException | None = None
    while left:
        # The loop itself is within the try: an interrupt may come where it begins again.
        try:
            while left:
                calls, state = plan(left[0])
                # The block is done in the same loop as its changes.
                apply(((*calls, (left.popleft,)), state))
                del calls, state  # They hold a copy of the rows, and so will the next.
        except BaseException as error:
            n_tries += 1
            if len(left) == n_blocks or n_tries == MAX_PLAN_ATTEMPTS:
                raise
            raised = error
    if raised is not None:
        raise raised


class Lock(type(RLock())):  # type: ignore[misc]
    """A re-entrant lock whose copies, and what comes out of its pickle, are new locks.

    Examples
    --------
    >>> with Lock():
    ...     print("alone")
    alone
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()


@contextmanager
def all_held(*locks: Lock) -> Iterator[None]:
    """Hold several locks, whatever the order in which other threads take them."""
    order = list(set(locks))
    while True:
        held: list[Lock] = []
        with ExitStack() as stack:
            # One C loop takes and one releases: an interrupt comes before it or after it.
            stack.callback(deque, map(methodcaller("release"), held), 0)
            held.extend(takewhile(methodcaller("acquire", False), order))
            if len(held) == len(order):
                yield
                return
        # What another thread holds is waited for while none is held: no ring of threads waits.
        with order[len(held)]:
            pass


Thing = TypeVar("Thing")


def shallow_copy(thing: Thing) -> Thing:
    """Return a copy with attributes of its own, whose values are those of the original."""
    new = object.__new__(type(thing))
    vars(new).update(vars(thing))
    return new


def zero_added(model: Thing, zero: Any) -> Thing:
    """Return a copy of a model that is added to 0, as sum() begins with."""
    # NotImplemented is Python's word for what cannot be added.
    other: Any = NotImplemented
    return copy.copy(model) if type(zero) is int and zero == 0 else other


VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""What BLAS libraries take their number of threads from, and so does this package."""

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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def even_parts(n: int, step: int, most: int) -> list[slice]:
    """Cut n into parts alike of about `most`, of whole steps but for the end: one for a thread.

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
    """Do work on every part, several at a time: it touches nothing of others but to read it.

    Examples
    --------
    >>> done = [0, 0, 0]
    >>> in_threads(lambda part: done.__setitem__(part, [1] * len(done[part])), [slice(0, 2)])
    >>> done
    [1, 1, 0]
    """
    # Threads are made anew and end with the call, within 0.1 ms each: none is left over for a
    # process that forks. With one part, or one thread allowed, nothing is made.
    parts = list(parts)
    workers = min(n_threads(), len(parts))
    if workers <= 1:
        deque(map(work, parts), maxlen=0)
    else:
        with ThreadPoolExecutor(workers) as pool:
            deque(pool.map(work, parts), maxlen=0)


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


def enlarged(array: Matrix, *shape: int) -> Matrix:
    """Return an array with zeros appended, in Fortran order: itself, if it has that shape already.

    Examples
    --------
    >>> enlarged(np.ones((1, 1)), 2, 2)
    array([[1., 0.],
           [0., 0.]])
    """
    if array.shape == shape:
        return array
    larger = np.zeros(shape, array.dtype, order="F")
    larger[tuple(map(slice, array.shape))] = array
    return larger


GEMM: dict[np.dtype[Any], Any] = {np.dtype(np.float32): sgemm, np.dtype(np.float64): dgemm}
GEMV: dict[np.dtype[Any], Any] = {np.dtype(np.float32): sgemv, np.dtype(np.float64): dgemv}


def product(left: Matrix, right: Matrix) -> Matrix:
    """Return left @ right in C order, cast to the wider dtype of the two; left may be sparse.

    Examples
    --------
    >>> product(np.array([[1.0, 2.0]]), np.eye(2))
    array([[1., 2.]])
    """
    # Packages of numpy and scipy bring a BLAS each, with threads that go on spinning for some 50 ms
    # in wait of more work. Measured on two cores: a product by numpy between two updates by scipy
    # makes both slower, a batch of 1,000 rows with 6,400 hidden units by 100 ms of 900.
    if isinstance(left, SPARSE):
        return np.asarray(left @ right)
    dtype = np.result_type(left, right)
    small = left.size * right.shape[1] <= SMALL_PRODUCT
    if small or dtype not in GEMM or not (left.flags.forc and right.flags.forc):
        # By numpy: scipy would copy rows that are parts of longer ones.
        others: Matrix = left @ right
        return others
    # Transposed, as BLAS takes and returns columns; what lies in memory by row is turned there.
    factors = [each.T.astype(dtype, copy=False) for each in (right, left)]
    turned = [not each.flags.f_contiguous for each in factors]
    first, second = (each.T if turn else each for each, turn in zip(factors, turned, strict=True))
    if len(left) == 1:
        # Measured, of one row and 2,000 columns of 6,000 values: 2 ms, and 10 ms as a matrix.
        row: Matrix = GEMV[dtype](1.0, first, second.ravel(), trans=turned[0])
        return row[None]
    columns: Matrix = GEMM[dtype](1.0, first, second, trans_a=turned[0], trans_b=turned[1])
    return columns.T


@dataclass(frozen=True, eq=False)
class Frozen:
    """A dataclass whose arrays nobody can write to, unpickled ones neither.

    It is its own deep copy. What it was made from can still be written to: pass what nobody else
    has.

    Examples
    --------
    >>> @dataclass(frozen=True, eq=False)
    ... class Pair(Frozen):
    ...     values: np.ndarray
    >>> Pair(np.ones(2)).values.flags.writeable
    False
    """

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a pickled state; numpy's own does not say that an array is read-only."""
        vars(self).update(state)
        Frozen.__post_init__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the very same: nobody writes to it."""
        return self
