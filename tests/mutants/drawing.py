"""Every small fault that a package can have, and a draw of some of them by a seed.

A site is a place in a file where one piece of text is replaced: the other bytes stay as they are. Left alone are texts,
annotations, decorators, bases of classes, assertions, lines of logs, points at which tests kill a process, and what
only a type checker reads.
"""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", (">=", "<=")),
    ast.LtE: ("<=", (">", "<")),
    ast.Gt: (">", ("<=", ">=")),
    ast.GtE: (">=", ("<", ">")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: (r"\bis\b", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
}
"""The pattern of each comparison in the source, and what may stand there instead."""

CONDITION, RAISE, CONSTANT, CALL = "flipped condition", "removed raise", "changed constant", "removed call"
QUIET: Final = re.compile(r"(\w+\.)*_?log(ger)?\.\w+|crash_point|(warnings\.)?warn")
"""Calls that are left alone: people see what they do, or tests alone."""

JITTED: Final = re.compile(r"njit|intrinsic|overload|vectorize|\bjit")
"""Decorators of what numba compiles or runs while it compiles."""

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One replaced piece of text.

    `file`: Path below the root of the repository. `line, column`: Where it begins: lines from 1, bytes from 0. `what`:
    Which kind of fault it is. `code`: The line as it is, by which a mutant is found again when the lines above it have
    changed. `compiled`: Whether compiled functions of other modules may hold this text.
    """

    file: str
    line: int
    column: int
    old: str
    new: str
    what: str
    code: str
    compiled: bool

    @property
    def name(self) -> str:
        """What tells this mutant from all others of a commit."""
        return f"{self.file}:{self.line}:{self.column} {self.old!r} -> {self.new!r}"

    def apply(self, source: bytes) -> bytes:
        """Return a file with this fault."""
        start = sum(len(line) for line in source.splitlines(keepends=True)[: self.line - 1]) + self.column
        end = start + len(self.old.encode())
        assert source[start:end] == self.old.encode(), self.name
        return source[:start] + self.new.encode() + source[end:]


def draw(root: Path, package: str, number: int, seed: str) -> list[Mutant]:
    """Draw mutants of a package (`streamsvm.quality`), one a site; a smaller draw is the first part of a larger one."""
    sites = [site for path in files_of(root, package) for site in sites_of(path, root)]
    chance = random.Random(f"{package} {seed}")
    chance.shuffle(sites)
    return [chance.choice(site) for site in sites[:number]]


def files_of(root: Path, package: str) -> list[Path]:
    """Return the modules of a package, or the one module of that name."""
    place = root / package.replace(".", "/")
    return sorted(place.rglob("*.py")) or [place.with_suffix(".py")]


def sites_of(path: Path, root: Path) -> list[list[Mutant]]:
    """Return the mutants of each site of a file, by where they begin."""
    reader = _Reader(path, root)
    return [reader.sites[place] for place in sorted(reader.sites)]


def found_again(mutant: Mutant, root: Path) -> Mutant | None:
    """Return a mutant of another commit as it is now; None if its line is gone, or stands at two other places."""
    path = root / mutant.file
    lines = path.read_text().split("\n") if path.exists() else []
    same = [number for number, line in enumerate(lines, 1) if line.strip() == mutant.code]
    if mutant.line not in same and len(same) != 1:
        return None
    return mutant if mutant.line in same else replace(mutant, line=same[0])


def from_row(row: dict[str, Any]) -> Mutant:
    """Return the mutant that a line of results is about."""
    return Mutant(**{name: row[name] for name in Mutant.__dataclass_fields__})


class _Reader(ast.NodeVisitor):
    """Finds the sites of a file."""

    def __init__(self, path: Path, root: Path) -> None:
        self.sites: dict[tuple[int, int, int], list[Mutant]] = {}
        self._file = str(path.relative_to(root))
        source = path.read_bytes()
        self._lines = source.splitlines(keepends=True)
        tree = ast.parse(source)
        self._while_imported = _called_while_imported(tree)
        self._compiles_itself = bool(re.search(rb"\bintrinsic|\boverload\(", source))
        self._compiled = True
        self._depth = 0
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if self._depth == 0:
            self._compiled = self._compiles_itself or node.name in self._while_imported or _is_jitted(node)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._depth += 1
        self._visit_all(node.body)
        self._depth -= 1
        self._compiled = self._compiled or self._depth == 0

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if re.search(r"TYPE_CHECKING|__name__", ast.unparse(node.test)):
            self._visit_all(node.orelse)
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, ["pass"], RAISE)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            if not QUIET.fullmatch(ast.unparse(node.value.func)):
                self._add(node, ["pass"], CALL)
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if not QUIET.fullmatch(ast.unparse(node.func)):
            self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add_between((node.lineno, node.col_offset), _start(node.operand), r"\bnot\b\s*", ("",))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        is_and = isinstance(node.op, ast.And)
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._add_between(
                _end(left), _start(right), r"\band\b" if is_and else r"\bor\b", ("or" if is_and else "and",)
            )
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            self._add_between(_end(left), _start(right), *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, [str(not value)], CONSTANT)
        elif isinstance(value, int | float):
            others = {repr(other) for other in (value + 1, value - 1, 2 * value) if other != value}
            self._add(node, sorted(others), CONSTANT)

    def _visit_all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self.visit(node)

    def _negate(self, test: ast.expr) -> None:
        """Add the contrary of a condition that has no operator to flip."""
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.NamedExpr):
            self._add(test, [f"not ({self._text(_start(test), _end(test))})"], CONDITION)

    def _add(self, node: ast.expr | ast.stmt, instead: list[str], what: str) -> None:
        self._add_text(_start(node), self._text(_start(node), _end(node)), instead, what)

    def _add_between(
        self, begin: tuple[int, int], end: tuple[int, int], pattern: str, instead: tuple[str, ...]
    ) -> None:
        """Add what stands for an operator, if it is the only one there: a comment may hold another."""
        text = self._text(begin, end)
        found = [*re.finditer(pattern, text)]
        if len(found) == 1 and "\n" not in text[: found[0].start()]:
            at = begin[0], begin[1] + len(text[: found[0].start()].encode())
            self._add_text(at, found[0].group(), [*instead], CONDITION)

    def _add_text(self, at: tuple[int, int], old: str, instead: list[str], what: str) -> None:
        code = self._lines[at[0] - 1].decode().strip()
        self.sites.setdefault((*at, len(old)), []).extend(
            Mutant(self._file, *at, old, new, what, code, self._compiled) for new in instead
        )

    def _text(self, begin: tuple[int, int], end: tuple[int, int]) -> str:
        lines = self._lines[begin[0] - 1 : end[0]]
        lines[-1] = lines[-1][: end[1]]
        lines[0] = lines[0][begin[1] :]
        return b"".join(lines).decode()


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _is_jitted(function: ast.AST) -> bool:
    """Return whether numba compiles a function, or one inside it."""
    inner = [node for node in ast.walk(function) if isinstance(node, FUNCTIONS)]
    return any(JITTED.search(ast.unparse(one)) for node in inner for one in node.decorator_list)


def _called_while_imported(tree: ast.Module) -> set[str]:
    """Return the functions whose results may be constants of a module."""
    outside = [node for node in tree.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    calls = [node for one in outside for node in ast.walk(one) if isinstance(node, ast.Call)]
    return {ast.unparse(call.func) for call in calls}
