"""Tests of changed modules, each in a process of its own, forked once the libraries are there."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mutants import Mutant

LIBRARIES = (
    *("pytest", "hypothesis.extra.numpy", "scipy.stats", "scipy.linalg", "pandas", "polars"),
    *("pyarrow", "river.checks", "river.compose", "river.datasets", "river.ensemble"),
    *("river.evaluate", "river.preprocessing", "river.linear_model", "sklearn.datasets"),
    *("sklearn.linear_model", "_pytest.doctest"),
)
"""What is imported before the processes part."""

LONGEST = 240.0
"""Seconds after which a change counts as caught: its tests do not end."""

MEMORY = 12 << 30
"""Bytes that a process may take."""

FAILED = 1, 2
"""Pytest's exit codes where a test failed, and where a module could not be imported."""


@dataclass(eq=False)
class Run:
    """A change, and groups of tests that it has yet to pass."""

    mutant: Mutant
    groups: list[list[str]]
    outcome: str = "reached by no test"
    caught_by: str = ""
    log: Path = Path()
    until: float = field(default=0.0)


def preload() -> None:
    """Import the libraries."""
    for name in LIBRARIES:
        importlib.import_module(name)


def at_once(runs: Iterator[Run], n_processes: int, logs: Path) -> Iterator[Run]:
    """Run tests of several changes at once, and yield each when it is done."""
    logs.mkdir(exist_ok=True)
    going: dict[int, Run] = {}
    waiting = True
    while waiting or going:
        while waiting and len(going) < n_processes:
            run = next(runs, None)
            if run is None:
                waiting = False
            elif run.groups:
                run.log = logs / f"{len(going)}-{os.getpid()}-{time.monotonic_ns()}.txt"
                going[_start(run)] = run
            else:
                yield run
        for pid, code in _ended(going):
            run = going.pop(pid)
            if _is_done(run, code):
                run.log.unlink(missing_ok=True)
                yield run
            else:
                going[_start(run)] = run


def _start(run: Run) -> int:
    run.until = time.monotonic() + LONGEST
    tests = run.groups.pop(0)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _test(run.mutant, tests, run.log)
        finally:
            os._exit(FAILED[0])
    return pid


def _test(mutant: Mutant, tests: Sequence[str], log: Path) -> None:
    """Run tests of a change in this process, which ends with pytest's exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    package = mutant.path.parts[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(mutant))
    pytest: Any = importlib.import_module("pytest")
    quiet = ["-x", "-q", "--tb=no", *(f"-pno:{name}" for name in ("cacheprovider", "xdist", "cov"))]
    # Hypothesis is there before pytest could rewrite its assertions, which needs no warning.
    harmless = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"
    os._exit(int(pytest.main([*quiet, harmless, *tests])))


def _ended(going: dict[int, Run]) -> list[tuple[int, int]]:
    """Return the processes that have ended, and their exit codes."""
    time.sleep(0.02)
    ended = []
    for pid, run in going.items():
        late = time.monotonic() > run.until
        if late:
            os.killpg(pid, signal.SIGKILL)
        found, status = os.waitpid(pid, 0 if late else os.WNOHANG)
        if found:
            ended.append((pid, FAILED[0] if late else os.waitstatus_to_exitcode(status)))
    return ended


def _is_done(run: Run, code: int) -> bool:
    if code == 0:
        run.outcome = "survived"
        return not run.groups
    if code not in FAILED and code > 0:
        text = run.log.read_text(errors="replace")
        raise RuntimeError(f"pytest ended with {code} for {run.mutant}:\n{text[-3000:]}")
    run.outcome = "caught"
    lines = run.log.read_text(errors="replace").splitlines()
    named = [line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    run.caught_by = named[0] if named else "no end, or no process left"
    return True


class _Loader(SourceFileLoader):
    """Loads a changed source as if it stood in the file."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, str(mutant.path.absolute()))
        self._source = mutant.source()

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._source, self.path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = ".".join(mutant.path.with_suffix("").parts)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, self._mutant)
        file = self._mutant.path.absolute()
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)
