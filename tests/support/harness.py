"""Headers of the core, compiled for tests that call them without Python."""

import ctypes
from pathlib import Path

import numpy as np

from onlinels import core
from support import compilers

# The kernels of wider vectors, which take longest, are compiled in one way.
C99 = "gcc", "-std=c99", "-O2", "-DANY_MACHINE"
WAYS = {
    "C99": (C99, np.float64),
    "C99, float": ((*C99, "-DREAL=float"), np.float32),
    "C++": (("g++", "-std=c++17", "-x", "c++", "-O2"), np.float64),
}
"""Compiler with options, and the type of numbers, by the way to compile."""


def compiled(way, folder):
    """Return the harness, compiled in a folder without warnings; skip if none can be."""
    options, kind = WAYS[way]
    source = (Path(__file__).parent / "recursion_harness.c").read_text()
    headers = f"-I{Path(core.__file__).parent}"
    library = compilers.compiled(source, options, folder, headers, "-Wno-unused-function")
    library.kind = kind
    return library


def choose(library, sums, kinds, is_short=False, kind=np.float64):
    """Return the ridge that selection.h selects from sums, and which kind of units it acts on."""
    arrays, found = _arrays_of(sums, is_short, kind), np.zeros(1)
    units = [_pointer(None if each is None else np.ascontiguousarray(each)) for each in kinds]
    units += [None] * (2 - len(kinds))
    number = ctypes.c_int(len(kinds))
    which = library.choose(*_sizes(sums), *map(_pointer, arrays), number, *units, _pointer(found))
    return float(found[0]), which


def is_kept(library, sums, ridge, kind=np.float64):
    """Return whether the test of selection.h accepts a ridge."""
    arrays = _arrays_of(sums, False, kind)
    return library.is_kept(*_sizes(sums), *map(_pointer, arrays), None, ctypes.c_double(ridge))


def _sizes(sums):
    return map(ctypes.c_ssize_t, sums.cross.shape)


def _arrays_of(sums, is_short, kind):
    numbers = sums.target_squares.sum(), sums.weight, sums.n_free, is_short
    gram, cross = (
        np.array(sums.gram.T, dtype=kind, order="C"),
        np.array(sums.cross.T, dtype=kind, order="C"),
    )
    return gram, cross, sums.gram.diagonal().copy(), np.array(numbers, dtype=np.float64)


def _pointer(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)
