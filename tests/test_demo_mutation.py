"""Changes of code that tests should notice: which there are, and that they are found out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")

SCRIPT = Path(__file__).parent.parent / "demos" / "benchmarks" / "mutation.py"

SOURCE = '''"""Sums."""

LARGEST = 10

Row = list[int]


def added(row: Row, most: int = LARGEST) -> int:
    """Return the sum of a row."""
    if (len(row)) > most and row:
        raise ValueError(f"{len(row) + 1} are too many")
    total: int = 0
    for each in row:
        total += each
    print(total)
    return total
'''

TESTS = """
import pytest
from small.sums import added

@pytest.mark.parametrize("row", [[], [1, 2]])
def test_added(row):
    assert added(row) == sum(row)

def test_too_many():
    with pytest.raises(ValueError):
        added([1] * 11)
"""


@pytest.fixture
def project(tmp_path):
    """Write a package of one module and its tests."""
    for folder in ("small", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "small" / "__init__.py").touch()
    (tmp_path / "small" / "sums.py").write_text(SOURCE)
    (tmp_path / "tests" / "test_sums.py").write_text(TESTS)
    return tmp_path


def test_what_is_changed(load_benchmark, project):
    mutants = load_benchmark("mutants").mutants_of(project / "small" / "sums.py")
    assert {str(each).partition(": ")[2] for each in mutants} == {
        "10 -> None",
        "10 -> 11",
        "(len(row)) > most and row -> (not ((len(row)) > most and row))",
        "and -> or",
        "> -> >=",
        'raise ValueError(f"{len(row) + 1} are too many") -> pass',
        "0 -> None",
        "0 -> 1",
        "+= -> -=",
        "print(total) -> pass",
        "total -> None",
    }


def run(project, *command):
    environment = {**os.environ, "PYTHONPATH": str(project), "COVERAGE_CORE": "ctrace"}
    for name in [name for name in environment if name.startswith(("PYTEST", "COV_CORE"))]:
        del environment[name]
    done = subprocess.run(
        [sys.executable, *command], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_tests_let_through(project):
    coverage = ["--cov=small", "--cov-context=test", "--cov-report=", "--junitxml=tests.xml"]
    run(project, "-m", "pytest", "-p", "no:cacheprovider", *coverage)
    printed = run(project, SCRIPT, "--no-progress", "--processes=2", "small").splitlines()
    survivors = {line.partition(": ")[2] for line in printed if line.startswith("survived")}
    assert survivors == {
        "small/sums.py:10 at 147: > -> >=",
        "small/sums.py:15 at 286: print(total) -> pass",
    }
    assert printed[-1] == "9 of 11 changes were noticed: 81.8%"
    assert (project / "small" / "sums.py").read_text() == SOURCE
    again = run(project, SCRIPT, "--no-progress", "small").splitlines()
    assert again == printed
