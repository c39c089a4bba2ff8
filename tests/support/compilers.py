"""Programs in C and C++, with headers of the core or those that `onlinels.export.c` has written."""

import ctypes
import shutil
import subprocess
from itertools import count

import pytest

WAYS = {
    "C99 -O0": ("gcc", "-std=c99", "-O0"),
    "C99 -Os": ("gcc", "-std=c99", "-Os"),
    "C++ -O0": ("g++", "-std=c++11", "-x", "c++", "-O0"),
    "C++ -Os": ("g++", "-std=c++11", "-x", "c++", "-Os"),
}
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]

numbers = count()


def compiled(source, way, folder, *flags):
    """Return the library of a C source in a folder; skip the test if there is no compiler.

    The way is a name of `WAYS`, or a compiler with options.
    """
    compiler, *options = WAYS.get(way, way)
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    # A library that has been opened is not read again.
    path = folder / f"program_{next(numbers)}"
    path.with_suffix(".c").write_text(source)
    files = [str(path.with_suffix(".c")), "-o", str(path.with_suffix(".so")), "-lm"]
    command = [compiler, *STRICT, *flags, *options, f"-I{folder}", "-fPIC", "-shared", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(path.with_suffix(".so")))
