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


def compiled(name, way, folder):
    """Return the library of a harness, compiled in a folder without warnings; skip if none can."""
    compiler = shutil.which("g++" if way == "C++" else "gcc")
    if compiler is None:
        pytest.skip("there is no compiler")
    built, source = folder / "harness.so", Path(__file__).parent / f"{name}_harness.c"
    strict = "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fPIC", "-shared"
    headers, files = f"-I{Path(core.__file__).parent}", (str(source), "-o", str(built), "-lm")
    subprocess.run((compiler, "-O2", *strict, headers, *WAYS[way][0], *files), check=True)
    return ctypes.CDLL(str(built))
