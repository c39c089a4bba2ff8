"""Headers of the core, compiled for tests that call them without Python."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from onlinels import core

# The kernels of wider vectors, which take longest, are compiled in one way.
WAYS = {
    "C99": (["-std=c99", "-DANY_MACHINE"], np.float64),
    "C99, float": (["-std=c99", "-DANY_MACHINE", "-DREAL=float"], np.float32),
    "C++": (["-std=c++17", "-x", "c++"], np.float64),
}
"""Options of the compiler, and the type of numbers, by the way to compile."""


def compiled(way, folder):
    """Return the harness, compiled in a folder without warnings; skip if none can be."""
    compiler = shutil.which("g++" if way == "C++" else "gcc")
    if compiler is None:
        pytest.skip("there is no compiler")
    built, source = folder / "harness.so", Path(__file__).parent / "recursion_harness.c"
    strict = "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fPIC", "-shared"
    headers, files = f"-I{Path(core.__file__).parent}", (str(source), "-o", str(built), "-lm")
    subprocess.run((compiler, "-O2", *strict, headers, *WAYS[way][0], *files), check=True)
    library = ctypes.CDLL(str(built))
    library.kind = WAYS[way][1]
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
