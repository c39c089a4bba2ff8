"""Change the package's code at random, and count how many of the changes some test notices.

python tests/support/mutation.py --n 500 --seed 1 onlinels/linear onlinels/linalg \
    --tests tests/test_exactness.py tests/test_classifier.py tests/test_recursive.py

Run it in the project's folder, with the extra `test`. Operators of comparison, of arithmetic and of
logic become their opposites, or take in their bounds; conditions are denied; numbers grow by one,
flags are turned; what is assigned or returned becomes None; calls and raises are left out. Types,
docstrings and the texts of errors stay. Every process has a copy of the tree to itself, in which it
tries one change after the other, up to the first test that fails. The survivors are listed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

from rich.console import Console
from rich.progress import track

OPPOSITES = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)),
)
OPERATORS: dict[Any, Any] = {second: first for first, second in OPPOSITES} | dict(OPPOSITES)
OPERATORS |= {ast.Pow: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
COPIED = ("onlinels", "tests", "demos")


@dataclass(frozen=True)
class Mutant:
    """A change of a file: its path, the line, what stood there, what stands there, the source."""

    path: Path
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before:.60} -> {self.after:.60}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every change of a module that compiles."""
    source = path.read_text("utf-8")
    for node in kept(ast.parse(source)):
        change = CHANGES.get(type(node))
        found = swapped(node) or (change and change(node))
        # Conditions are denied, too.
        test = getattr(node, "test", None)
        denied = (test, ast.UnaryOp(ast.Not(), test)) if test is not None else None
        for place, new in filter(None, ((node, found) if found else None, denied)):
            before = " ".join((ast.get_source_segment(source, place) or "").split())
            if (after := ast.unparse(new)) == ast.unparse(place):
                continue
            text = replaced(source, place, after)
            with suppress(SyntaxError):
                compile(text, path, "exec")
                yield Mutant(path, place.lineno, before, after, text)


def kept(tree: ast.AST) -> Iterator[Any]:
    """Yield the nodes of a tree, but for imports, types, texts and what errors say."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, LEFT_OUT) or child is getattr(tree, "returns", None):
            continue
        if child is not getattr(tree, "annotation", None):
            yield child
            yield from () if isinstance(child, ast.Raise) else kept(child)


def swapped(node: Any) -> Any:
    """Return a node with the opposite of its (first) operator, None if it has none."""
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        new.ops[0] = OPERATORS[type(node.ops[0])]()
    elif type(getattr(node, "op", None)) in OPERATORS:
        new.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in FUNCTIONS:
        new.func.id = FUNCTIONS[new.func.id]
    else:
        return None
    return new


def grown(node: ast.Constant) -> Any:
    """Return a number plus one, the other boolean, None for a text."""
    if isinstance(node.value, bool):
        return ast.Constant(not node.value)
    return ast.Constant(node.value + 1) if isinstance(node.value, (int, float)) else None


def emptied(node: Any) -> Any:
    """Return an assignment or return of None."""
    new = copy.deepcopy(node)
    new.value = ast.Constant(None)
    return None if node.value is None else new


CHANGES: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.UnaryOp: lambda node: node.operand,
    ast.Constant: grown,
    ast.Return: emptied,
    ast.Assign: emptied,
    ast.Raise: lambda node: ast.Pass(),
    ast.Expr: lambda node: ast.Pass() if isinstance(node.value, ast.Call) else None,
}
LEFT_OUT = (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.arg, ast.AnnAssign)


def replaced(source: str, node: ast.stmt | ast.expr, text: str) -> str:
    """Return source in which other text, in brackets if it is a value, stands for a node."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    start, end = lines[first][: node.col_offset], lines[last][node.end_col_offset or 0 :]
    new = f"({text})" if isinstance(node, ast.expr) else text
    return b"".join([*lines[:first], start, new.encode(), end, *lines[last + 1 :]]).decode()


def outcome_of(mutant: Mutant, trees: Queue[Path], arguments: argparse.Namespace) -> str:
    """Run the tests of a change in a copy of the tree: "caught", "survived", "no end"."""
    tree = trees.get()
    file = tree / mutant.path
    before = file.read_text("utf-8")
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"CI": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    try:
        file.write_text(mutant.source, "utf-8")
        done = subprocess.run(
            [*words, *arguments.tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            timeout=arguments.seconds,
        )
        return "survived" if done.returncode == 0 else "caught"
    except subprocess.TimeoutExpired:
        return "no end"
    finally:
        file.write_text(before, "utf-8")
        trees.put(tree)


def positive(text: str) -> int:
    """Read a whole number of at least 1 from a command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def shown(tried: Iterator[str], n: int) -> Iterator[str]:
    """Show on the error stream how many changes were tried, so that results alone are printed."""
    yield from track(tried, "changes", n, console=Console(stderr=True), transient=True)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("modules", type=Path, nargs="+", help="files, and folders of files, of the package")
    add("--tests", nargs="+", required=True, help="files of tests")
    add("--n", type=positive, default=500, help="changes, drawn from all (%(default)s)")
    add("--seed", type=int, default=0, help="of the draw (%(default)s)")
    add("--seconds", type=positive, default=300, help="after which tests have no end")
    add("--processes", type=positive, default=os.cpu_count(), help="at once (%(default)s)")
    arguments = parser.parse_args()
    found = {file for path in arguments.modules for file in (path, *path.rglob("*.py"))}
    files = sorted(file for file in found if file.is_file())
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    drawing = random.Random(arguments.seed)
    sample = drawing.sample(mutants, min(arguments.n, len(mutants)))
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for number in range(arguments.processes):
            trees.put(tree := Path(folder, str(number)))
            for name in COPIED:
                shutil.copytree(name, tree / name)
            shutil.copy("pyproject.toml", tree)
        nothing = Mutant(files[0], 0, "", "", files[0].read_text("utf-8"))
        if outcome_of(nothing, trees, arguments) != "survived":
            parser.error("the tests fail, or take too long, where nothing is changed")
        with ThreadPoolExecutor(arguments.processes) as pool:
            tried = pool.map(lambda mutant: outcome_of(mutant, trees, arguments), sample)
            outcomes = dict(zip(sample, shown(tried, len(sample)), strict=True))
    report(outcomes, len(mutants), arguments.seed)


def report(outcomes: dict[Mutant, str], n_all: int, seed: int) -> None:
    for mutant, outcome in outcomes.items():
        if outcome == "survived":
            print(f"survived: {mutant}")
    print(dict(Counter(outcomes.values())))
    n_caught = sum(outcome != "survived" for outcome in outcomes.values())
    share = n_caught / max(1, len(outcomes))
    print(f"{n_caught} of {len(outcomes)} changes noticed, {share:.1%}; of {n_all}, seed {seed}")


if __name__ == "__main__":
    main()
