"""Updates that are planned and applied, matrix products, growing arrays and threads."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from operator import is_
from threading import local
from typing import Any, Self, TypeVar

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, sgemm, sgemv

from onlinels.checks import MAX_COUNT, SPARSE_TYPES, Matrix, read_only
from onlinels.core.apply import apply
from onlinels.locks import Lock as Lock  # Pickles of earlier versions look for it here.

Calls = tuple[tuple[Any, ...], ...]
"""Planned changes; see `onlinels.core.apply.apply`."""

MAX_PLAN_ATTEMPTS = 3
"""Number of attempts to plan a block after earlier blocks are applied, if an attempt raises."""


def apply_in_blocks(blocks: Iterable[Any], plan: Callable[[Any], Calls]) -> None:
    """Apply the updates of all blocks; an exception between blocks is raised after the last block.

    Examples
    --------
    >>> rows = []
    >>> apply_in_blocks([slice(0, 2), slice(2, 3)], lambda block: ((rows.append, block.stop),))
    >>> rows
    [2, 3]
    """
    left = deque(blocks)
    n_blocks, n_tries = len(left), 0
    raised: BaseException | None = None
    while left:
        # The loop is inside the try, because an interrupt may come between two iterations.
        try:
            while left:
                calls = plan(left[0])
                # The block is removed from the queue in the same C loop as its changes.
                apply((*calls, (left.popleft,)))
                del calls  # They hold a copy of the rows, as the next calls will.
        except BaseException as error:
            n_tries += 1
            if len(left) == n_blocks or n_tries == MAX_PLAN_ATTEMPTS:
                raise
            raised = error
    if raised is not None:
        raise raised


Thing = TypeVar("Thing")

MAX_READINGS = 3
"""Number of times that the arguments of a call are read while reading them changes the model."""


def read_whole(read: Callable[[], Thing], *models: Any) -> Thing:
    """Return what is read of a caller's objects, in a state of models that reading did not change.

    Samples, labels and names may run code of the caller: `__getitem__`, `__hash__`, `__eq__`,
    `__float__`, `__array__`. This code may call the model, although another thread would have to
    wait for the lock, which is held. If it has changed a model, everything is read again: the
    change comes before the call. What is read must not change the models.

    Parameters
    ----------
    read : callable
        Reads the arguments of a call, and computes from them and the models, in any order.
    *models
        The models, whose `_version` is a tuple of the objects by which their states differ.

    Raises
    ------
    RuntimeError
        If the arguments change a model each time they are read.
    """
    for n_left in reversed(range(MAX_READINGS)):
        before = [part for model in models for part in model._version]
        raised: Exception | None = None
        try:
            found = read()
        except Exception as error:
            raised = error
        after = [part for model in models for part in model._version]
        is_same = len(before) == len(after) and all(map(_is_same, before, after))
        if raised is not None and (is_same or not n_left):
            raise raised
        if is_same:
            return found
    raise RuntimeError(
        "The model was changed while it read the arguments of a call, each of "
        f"{MAX_READINGS} times, by code of these arguments, such as __hash__ or __getitem__. "
        "Expected arguments that do not call the model. Pass dicts of numbers and plain labels."
    )


def _is_same(before: Any, after: Any) -> bool:
    # Counts are equal, and other objects are the same: they are replaced with every change.
    return before is after or (type(before) is int and before == after)


TYPES_WITHOUT_ARRAYS = frozenset((str, int, float, bool, bytes, type(None)))
"""Types of most names, labels and numbers."""


class Block(bytearray):
    """Memory of this process for arrays that no other object writes to."""


def is_own(array: Matrix) -> bool:
    """Return whether an array has memory of its own, or is part of a `Block`."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    is_in_block = isinstance(base.obj if isinstance(base, memoryview) else base, Block)
    return is_in_block or (array.flags.owndata and array.flags.writeable)


def owned(value: Any) -> Any:
    """Return a restored value with its arrays in memory of their own, which is writeable.

    Updates write into arrays without regard to numpy's flags. A pickle of protocol 5, joblib or Ray
    may restore arrays in memory of others: of a file, or of all processes. Lists and dicts are
    changed in place.

    Examples
    --------
    >>> foreign = np.frombuffer(bytes(8))
    >>> mine = owned(("name", [foreign]))[1][0]
    >>> mine.flags.writeable, np.shares_memory(mine, foreign)
    (True, False)
    """
    if isinstance(value, np.ndarray):
        if is_own(value) and type(value) is np.ndarray:
            return value
        # In the same order, as BLAS needs it, and in the byte order of this machine.
        return value.astype(value.dtype.newbyteorder("="), order="K", subok=False)
    if isinstance(value, dict):
        value.update(zip(list(value), _owned_parts(value.values()), strict=True))
    elif isinstance(value, (tuple, list, deque)):
        parts = _owned_parts(value)
        if all(map(is_, parts, value)):
            return value
        if isinstance(value, tuple):
            return tuple.__new__(type(value), parts)  # Also for any NamedTuple.
        value.clear()
        value.extend(parts)
    return value


def _owned_parts(values: Iterable[Any]) -> list[Any]:
    # What several names share they share afterwards.
    parts = list(values)
    known = {id(each): owned(each) for each in parts if type(each) not in TYPES_WITHOUT_ARRAYS}
    return [known.get(id(each), each) for each in parts]


def restore(self: Any, state: dict[str, Any]) -> None:
    """Restore an object from its state, with all arrays in memory of its own."""
    vars(self).update(zip(state, _owned_parts(state.values()), strict=True))


restore.__name__ = restore.__qualname__ = "__setstate__"


def are_columns(*arrays: Matrix) -> bool:
    """Return whether BLAS can write to matrices: float64 in Fortran order, not to a copy."""
    kinds = {(each.ndim, each.dtype, each.flags.f_contiguous) for each in arrays}
    return kinds == {(2, np.dtype(np.float64), True)}


def is_array(value: Any, *shape: int, dtype: Any = np.float64) -> bool:
    """Return whether a loaded value is an array of this shape and dtype, in C order.

    Examples
    --------
    >>> is_array(np.zeros(2), 2), is_array(np.zeros(2), 3), is_array(np.zeros(2, int), 2)
    (True, False, False)
    """
    is_known = type(value) is np.ndarray and value.shape == shape
    return bool(is_known and value.dtype == dtype and value.flags.c_contiguous)


def is_count(value: Any) -> bool:
    """Return whether a loaded value is an int of at least 0 that float64 and int64 hold exactly."""
    return type(value) is int and 0 <= value <= MAX_COUNT


def are_counts(values: Matrix) -> bool:
    """Return whether loaded floats are counts of rows, which merged models round beyond 2^53.

    Examples
    --------
    >>> are_counts(np.array([0.0, 2.0**60])), are_counts(np.array([0.5, np.inf]))
    (True, False)
    """
    return bool((np.isfinite(values) & (values >= 0.0) & (values == np.floor(values))).all())


def shallow_copy(thing: Thing) -> Thing:
    """Return a copy with its own attributes, which have the values of the original."""
    new = object.__new__(type(thing))
    vars(new).update(vars(thing))
    return new


def zero_added(model: Thing, zero: Any) -> Thing:
    """Return a copy of a model that is added to 0, the start value of sum()."""
    # NotImplemented makes Python raise for anything else.
    other: Any = NotImplemented
    return copy.copy(model) if type(zero) is int and zero == 0 else other


THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables that set the number of threads of BLAS libraries and of this package."""

MAX_SINGLE_THREAD_PRODUCT = 1 << 18
"""Number of multiplications up to which OpenBLAS computes a product in the calling thread."""


def n_threads() -> int:
    """Return the number of threads: the cores of this process, or fewer if a variable is set.

    The first of OPENBLAS_NUM_THREADS, MKL_NUM_THREADS and OMP_NUM_THREADS that is set counts.
    Limits that threadpoolctl sets for BLAS later are not known here.

    Examples
    --------
    >>> n_threads() >= 1
    True
    """
    cores = _n_cores()
    for variable in THREAD_VARIABLES:
        # OpenMP accepts a list with one number for each level of nesting.
        text = os.environ.get(variable, "").partition(",")[0]
        if text.isdecimal() and int(text) > 0:
            return min(cores, int(text))
    return cores


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def even_parts(n: int, step: int, most: int) -> list[slice]:
    """Cut n into equal parts of about `most`, in whole steps except at the end, for threads.

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
    """Call a function for every part, in several threads; a call writes to its own part only.

    Examples
    --------
    >>> done = [0, 0, 0]
    >>> in_threads(lambda part: done.__setitem__(part, [1] * len(done[part])), [slice(0, 2)])
    >>> done
    [1, 1, 0]
    """
    # Threads start and end with the call, in 0.1 ms each, so none is left when a process forks.
    # With one part, or one thread, no thread is started.
    parts = list(parts)
    workers = min(n_threads(), len(parts))
    if workers <= 1:
        deque(map(work, parts), maxlen=0)
    else:
        with ThreadPoolExecutor(workers) as pool:
            deque(pool.map(work, parts), maxlen=0)


MAX_SCRATCH_NUMBERS = 1 << 23
"""Largest number of entries of an array whose memory is reused: 64 MiB in float64."""


class Scratch(local):
    """Temporary memory that is reused; every thread has its own.

    Measured: threads that allocate new memory at every step wait for each other.

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
        """Return an array of undefined content, in the memory of the last array of this name."""
        size = prod(shape)
        if size > MAX_SCRATCH_NUMBERS:
            return np.empty(shape, dtype)
        held = self._held.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._held[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)


def enlarged(array: Matrix, *shape: int) -> Matrix:
    """Return an array with zeros appended, in Fortran order; the array itself if its shape fits.

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
    """Return left @ right in C order, in the wider dtype of the two; left may be sparse.

    Examples
    --------
    >>> product(np.array([[1.0, 2.0]]), np.eye(2))
    array([[1., 2.]])
    """
    # The packages of numpy and scipy have a BLAS each, whose threads spin for about 50 ms while
    # they wait for more work. Measured on two cores: a product by numpy between two updates by
    # scipy slows both down, for a batch of 1,000 rows with 6,400 hidden units by 100 ms of 900.
    if isinstance(left, SPARSE_TYPES) or left.size * right.shape[1] <= MAX_SINGLE_THREAD_PRODUCT:
        return np.asarray(left @ right)
    dtype = np.result_type(left, right)
    if dtype not in GEMM or not (left.flags.forc and right.flags.forc):
        # By numpy: scipy would copy rows that are parts of longer rows.
        return np.asarray(left @ right)
    # Transposed, because BLAS reads and returns column-major arrays; BLAS transposes the others.
    factors = [each.T.astype(dtype, copy=False) for each in (right, left)]
    turned = [not each.flags.f_contiguous for each in factors]
    first, second = (each.T if turn else each for each, turn in zip(factors, turned, strict=True))
    if len(left) == 1:
        # Measured for one row and 2,000 columns of 6,000 values: 2 ms, and 10 ms as a matrix.
        row: Matrix = GEMV[dtype](1.0, first, second.ravel(), trans=turned[0])
        return row[None]
    columns: Matrix = GEMM[dtype](1.0, first, second, trans_a=turned[0], trans_b=turned[1])
    return columns.T


@dataclass(frozen=True, eq=False)
class Frozen:
    """A dataclass whose arrays are read-only, also after unpickling.

    A deep copy is the object itself. The arrays that it was made from stay writeable, so pass
    arrays that no other object uses.

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
        """Restore a pickled state; numpy does not pickle that an array is read-only."""
        restore(self, state)
        Frozen.__post_init__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the object itself, which never changes."""
        return self
