"""Change the package's code at random, and count how many of the changes some test notices.

pytest -n auto --dist worksteal --cov --cov-context=test --cov-report= --junitxml=tests.xml
python demos/benchmarks/mutation.py --sample 600 onlinels/accumulators onlinels/labels.py

Run it in the project's folder, with the extra `test`. Every change is tried in a process of its
own, and no file is changed; tests that reach its line are run, the quick ones first. What no test
notices is listed at the end, and is in the results, to which further runs add.
"""

from __future__ import annotations

import os

os.environ.update(CI="true", OPENBLAS_NUM_THREADS="1")

# isort: split
import argparse
import json
import random
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from command_line import above_zero, not_negative, positive
from coverage import CoverageData
from mutant_runs import Run, at_once, preload
from mutants import Mutant, mutants_of
from rich.console import Console
from rich.progress import Progress

FEW = 12
"""Quick tests that a change has to pass before the others are tried."""

MANY = 30
"""A line that fewer tests reach is one that runs on import: all tests of its module are its own."""

CHECKED = 10
"""Places at which nothing is changed first: no test may notice that."""

UNKNOWN = 0.1
"""Seconds that a test takes that the report does not tell of."""

TESTS = "tests/"
"""Doctests are left out: pytest imports their modules itself, past what changes them."""

APART = "tests/test_structure", "tests/test_kills", "tests/test_demo"
"""Tests that judge the source, or run it in other processes, where it is not changed."""


@dataclass(frozen=True)
class Result:
    """What came of a change: "caught", "survived" or "reached by no test"."""

    mutant: str
    outcome: str
    test: str = ""


class Tests:
    """Tests by the lines that they reach, and how long they take: those that are there still."""

    def __init__(self, coverage: Path, report: Path) -> None:
        self._there = collected()
        self._data = CoverageData(str(coverage))
        self._data.read()
        cases = ElementTree.parse(report).iter("testcase")  # noqa: S314 - of our own making
        self._seconds = {
            f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(
                case.get("time", 1.0)
            )
            for case in cases
        }
        self._of_files: dict[Path, dict[int, list[str]]] = {}
        self._caught: Counter[tuple[Path, str]] = Counter()

    def reaching(self, mutant: Mutant) -> set[str]:
        """Return the tests that run a line."""
        if mutant.path not in self._of_files:
            contexts = self._data.contexts_by_lineno(str(mutant.path.absolute()))
            self._of_files[mutant.path] = contexts
        lines = self._of_files[mutant.path]
        # Of a statement of several lines some are not listed.
        line = max((each for each in lines if each <= mutant.line), default=0)
        tests = self._names(lines.get(line, []))
        if len(tests) < MANY and "" in lines.get(line, []):
            tests = {name for contexts in lines.values() for name in self._names(contexts)}
        return tests

    def _names(self, contexts: list[str]) -> set[str]:
        names = {context.rpartition("|")[0] for context in contexts} & self._there
        return {name for name in names if name.startswith(TESTS) and not name.startswith(APART)}

    def chosen(self, mutant: Mutant, seconds: float) -> list[str]:
        """Return tests of a change that take so long together, the most promising first.

        Of a test that has parameters, the second turn comes after the first of all others.
        """
        turns: Counter[str] = Counter()
        ordered: list[tuple[int, int, str]] = []
        for name in sorted(self.reaching(mutant), key=lambda name: self._rank(mutant, name)):
            ordered.append((turns[_function(name)], len(ordered), name))
            turns[_function(name)] += 1
        chosen, left = [], seconds
        for _, _, name in sorted(ordered):
            if self._cost(name) <= left:
                left -= self._cost(name)
                chosen.append(name)
        return chosen

    def caught(self, mutant: Mutant, name: str) -> None:
        """Remember which test noticed a change: it may notice others of the same file."""
        self._caught[mutant.path, _function(name)] += 1

    def _cost(self, name: str) -> float:
        return self._seconds.get(name, UNKNOWN) + 0.01

    def _rank(self, mutant: Mutant, name: str) -> float:
        return (self._cost(name) + 0.04) / (1 + 20 * self._caught[mutant.path, _function(name)])


def _function(name: str) -> str:
    return name.partition("[")[0]


def collected() -> set[str]:
    """Return the names of all tests."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    return {line for line in found.stdout.splitlines() if "::" in line}


def main(arguments: list[str] | None = None) -> None:
    """Try a sample of the changes, and list those that survive."""
    options = parse_arguments(arguments)
    tests = Tests(options.coverage, options.durations)
    sample = drawn(options.modules, options.sample, options.seed)
    known = read_results(options.results)
    preload()
    console, logs = Console(), options.results.with_suffix(".logs")
    with Progress(console=console, disable=not options.progress) as progress:
        task = progress.add_task("changes", total=len(sample))
        left = [mutant for mutant in sample if str(mutant) not in known]
        progress.advance(task, len(sample) - len(left))
        with options.results.open("a") as file:
            check_unchanged(left, tests, logs)
            runs = (run_of(mutant, tests, options.seconds) for mutant in left)
            for run in at_once(runs, options.processes, logs):
                if run.caught_by:
                    tests.caught(run.mutant, run.caught_by)
                result = Result(str(run.mutant), run.outcome, run.caught_by)
                known[result.mutant] = result
                print(json.dumps(asdict(result)), file=file, flush=True)
                progress.advance(task)
    report(console, [known[str(mutant)] for mutant in sample])


def drawn(modules: list[Path], n_sample: int, seed: int) -> list[Mutant]:
    """Return changes of modules and folders of modules in random order."""
    files = [file for path in modules for file in (path.glob("*.py") if path.is_dir() else [path])]
    mutants = [mutant for file in sorted(files) for mutant in mutants_of(file)]
    drawing = random.Random(seed)  # noqa: S311 - no secret
    return drawing.sample(mutants, min(n_sample, len(mutants)))


def read_results(path: Path) -> dict[str, Result]:
    lines = path.read_text().splitlines() if path.exists() else []
    results = (Result(**json.loads(line)) for line in lines)
    return {result.mutant: result for result in results}


def run_of(mutant: Mutant, tests: Tests, seconds: float) -> Run:
    """Return what is to be tried of a change: a few tests, and then the others."""
    chosen = tests.chosen(mutant, seconds)
    return Run(mutant, [group for group in (chosen[:FEW], chosen[FEW:]) if group])


def check_unchanged(mutants: list[Mutant], tests: Tests, logs: Path) -> None:
    """Raise if tests fail where nothing is changed: then they would notice everything."""
    same = [replace(mutant, end=mutant.start, text="") for mutant in mutants[:CHECKED]]
    for run in at_once((run_of(each, tests, 10.0) for each in same), 2, logs):
        if run.outcome == "caught":
            raise RuntimeError(f"{run.caught_by} fails where nothing is changed. Mend it first.")


def report(console: Console, results: list[Result]) -> None:
    """Print the share of changes that were noticed, by file, and those that were not."""
    outcomes = Counter(result.outcome for result in results)
    for name, of_file in sorted(by_file(results)):
        caught = sum(result.outcome == "caught" for result in of_file)
        console.print(f"{name}: {caught} of {len(of_file)}")
    for result in results:
        if result.outcome != "caught":
            console.print(f"{result.outcome}: {result.mutant}", markup=False, highlight=False)
    share = outcomes["caught"] / max(1, len(results))
    console.print(f"{outcomes['caught']:,} of {len(results):,} changes were noticed: {share:.1%}")


def by_file(results: list[Result]) -> Iterator[tuple[str, list[Result]]]:
    files = {result.mutant.partition(":")[0] for result in results}
    for name in files:
        yield name, [each for each in results if each.mutant.startswith(f"{name}:")]


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("modules", type=Path, nargs="+", help="files, and folders of files")
    add("--coverage", type=Path, default=Path(".coverage"), help="with a context for every test")
    add("--durations", type=Path, default=Path("tests.xml"), help="pytest's report in XML")
    add("--sample", type=positive, default=600, help="changes, drawn from all")
    add("--seed", type=not_negative, default=0, help="of the sample")
    add("--seconds", type=above_zero, default=30.0, help="of tests, for one change at most")
    add("--processes", type=positive, default=os.cpu_count(), help="changes tried at once")
    add("--results", type=Path, default=Path("mutation.jsonl"), help="where they are kept")
    add("--no-progress", dest="progress", action="store_false")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
