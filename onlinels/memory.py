"""How much memory there is, and a refusal of what cannot fit before any of it is taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

LIMIT = "ONLINELS_MEMORY_LIMIT"
"""Environment variable with the bytes that arrays may take, in place of what is found out."""

CGROUPS = Path("/sys/fs/cgroup")

OF_FEATURES = (
    "Hash features into fewer, for instance with river's FeatureHasher(n_features=1024), or select "
    "some."
)

OF_ROWS = "Pass fewer rows at once."

GIB = float(1 << 30)


def check_room(n_bytes: int, what: str, *sizes: int, remedy: str = OF_FEATURES) -> None:
    """Raise ValueError if arrays cannot fit into memory, before they are made.

    Parameters
    ----------
    n_bytes : int
        What will be held.
    what, remedy : str
        What needs it and what to do about it, for the error.
    *sizes : int
        What to put into the fields of `what`.

    Notes
    -----
    Compared with all the memory there is (`memory_limit`), not with what is free at the moment:
    what is refused could never fit. Linux promises more memory than it has, and ends the process
    when it runs out; nothing could be said then.

    Examples
    --------
    >>> check_room(1 << 60, "A batch of {:,} rows", 9, remedy=OF_ROWS)
    Traceback (most recent call last):
        ...
    ValueError: A batch of 9 rows takes 1.07e+09 GiB of memory, expected at most the ...
    """
    limit = memory_limit()
    if n_bytes > limit:
        raise ValueError(
            f"{what.format(*sizes)} takes {n_bytes / GIB:.3g} GiB of memory, expected at most the "
            f"{limit / GIB:.3g} GiB that there are. {remedy} If there is more memory, set {LIMIT} "
            "to its bytes."
        )


@cache
def memory_limit() -> float:
    """Return the bytes of memory that a process may hold, infinity where nobody knows.

    That is the environment variable ONLINELS_MEMORY_LIMIT, if it holds anything; else the least of
    the machine's memory, the limits of the control groups the process is in (those of a container,
    of a job), and its limit of address space (`ulimit -v`). It is found out once.

    Raises
    ------
    ValueError
        If the variable holds no number above 0.
    """
    given = os.environ.get(LIMIT)
    if not given:
        return min((*_of_machine(), *_of_control_groups(), *_of_process()), default=float("inf"))
    try:
        limit = float(given)
    except ValueError:
        limit = 0.0
    if not limit > 0.0:
        raise ValueError(f"{LIMIT}={given!r} must be a number of bytes above 0, such as 8e9.")
    return limit


def _of_machine() -> Iterator[float]:
    try:
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return


def _of_control_groups() -> Iterator[float]:
    """Yield the limits of the process's groups and those around them, of versions 1 and 2."""
    lines = (line.split(":", 2) for line in _groups() if line.count(":") > 1)
    for _, controllers, path in lines:
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUPS / "memory" if controllers else CGROUPS
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inner = root / path.lstrip("/")
        for folder in (inner, *inner.parents):
            yield from _number_in(folder / name)
            if folder == root:
                break


def _groups() -> list[str]:
    try:
        return Path("/proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return []


def _number_in(file: Path) -> Iterator[float]:
    try:
        yield float(int(file.read_text("utf-8")))
    except (OSError, ValueError):
        # There is no such group here, or its limit is "max".
        return


def _of_process() -> Iterator[float]:
    try:
        import resource
    except ImportError:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield float(limit)
