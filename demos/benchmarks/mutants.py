"""Small changes of a module's source, each of which a test should notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
"""Of each operator how it is written, and what it becomes."""

FLAGS = "overwrite_", "trans", "lower", "clean"
"""How the names of BLAS's flags begin, which are numbers."""

FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change: the characters from `start` to `end` of a file become `text`."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def source(self) -> str:
        """Return the changed source."""
        before = self.path.read_text()
        return before[: self.start] + self.text + before[self.end :]

    def __str__(self) -> str:
        before = " ".join(self.path.read_text()[self.start : self.end].split())
        return f"{self.path}:{self.line} at {self.start}: {before:.60} -> {self.text:.60}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every change of a module that compiles.

    Operators become their opposites, or take in their bounds; conditions are denied; numbers grow
    by one, flags of BLAS are turned; values that are assigned or returned become None; calls and
    raises are left out. Types, docstrings and the texts of errors stay.
    """
    places = _Places(path)
    for statement in ast.parse(places.source).body:
        if not (_is_type(statement) or isinstance(statement, (ast.Import, ast.ImportFrom))):
            places.visit(statement)
    for mutant in places.found:
        try:
            compile(mutant.source(), path, "exec")
        except SyntaxError:
            continue
        yield mutant


def _is_type(statement: ast.stmt) -> bool:
    """Tell whether a statement only names a type: Labels = list[str], T = TypeVar("T")."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return not name.isupper()
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


class _Places(ast.NodeVisitor):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_text()
        self.lines = self.source.splitlines(keepends=True)
        self.found: list[Mutant] = []

    def _at(self, line: int, column: int) -> int:
        before = sum(map(len, self.lines[: line - 1]))
        return before + len(self.lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._at(node.lineno, node.col_offset), self._at(*end)

    def _change(self, node: ast.stmt | ast.expr, text: str) -> None:
        self.found.append(Mutant(self.path, node.lineno, *self._span(node), text))

    def _deny(self, node: ast.expr) -> None:
        start, end = self._span(node)
        self._change(node, f"(not ({self.source[start:end]}))")

    def _empty(self, node: ast.expr | None) -> None:
        if node is not None and not (isinstance(node, ast.Constant) and node.value is None):
            self._change(node, "None")

    def _swap(self, left: ast.expr, operator: ast.AST, right: ast.expr, more: str = "") -> None:
        # Brackets may stand between an operator and its operands.
        if type(operator) in OPERATORS:
            old, new = (written + more for written in OPERATORS[type(operator)])
            start = self.source.index(old, self._span(left)[1], self._span(right)[0])
            line = left.end_lineno or left.lineno
            self.found.append(Mutant(self.path, line, start, start + len(old), new))

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
            self._swap(left, operator, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._swap(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._swap(node.target, node.op, node.value, "=")
        self.visit(node.value)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._swap(node.values[0], node.op, node.values[1])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, end = self._span(node.operand)
        self._change(node, f"({self.source[start:end]})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._change(node, str(not node.value))
        elif isinstance(node.value, (int, float)):
            self._change(node, repr(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        self._deny(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._deny(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._change(node.test, "False")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        self._empty(node.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._empty(node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._empty(node.value)
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._change(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._change(node, "pass")
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            self._change(node.func, FUNCTIONS[node.func.id])
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if (node.arg or "").startswith(FLAGS) and isinstance(node.value, ast.Constant):
            self._change(node.value, str(int(not node.value.value)))
        else:
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts as they are."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
