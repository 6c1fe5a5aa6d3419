"""Tables of documents name tests that exist: who can do what, every flow, what may change under a running daemon."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows(first: str, last: str = "", document: str = "SECURITY.md") -> list[list[str]]:
    """Return the rows of the table whose first column, and last one if given, have these headings."""
    for table in re.findall(r"(?:^\|.*\n)+", (ROOT / document).read_text(), re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in table.splitlines()]
        if lines[0][0] == first and last in ("", lines[0][-1]):
            return lines[2:]
    raise AssertionError(f"no table {first} ... {last}")


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


FLOWS = rows("flow", "shown by")
SHOWN = rows("may write to", "shown by")
CHANGES = rows("what changes", "tested by", "deploy/OPERATIONS.md")


@pytest.mark.parametrize("row", [*FLOWS, *SHOWN, *CHANGES], ids=lambda row: row[0])
def test_each_row_names_tests_that_exist(row: list[str]) -> None:
    """A test that was renamed or removed is missed here; a row without one says why."""
    named = NAMED.findall(row[-1])
    assert named or row[-1].startswith("nothing: ")
    assert len(named) == row[-1].count("::"), f"a name is not written as `tests/file.py::test_name`: {row[-1]}"
    for path, name in named:
        assert name in names_in(path), f"{path} has no {name}"


def test_the_tables_are_whole() -> None:
    """A table that the pages lose, or that loses its rows, is missed here."""
    assert len(SHOWN) >= 16
    assert len(FLOWS) >= 19
    assert len(CHANGES) >= 15
