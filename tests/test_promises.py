"""What README, GUARANTEES and SECURITY promise is shown by tests that exist, and nothing is promised without one."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.live.scenarios import SCENARIOS

ROOT = Path(__file__).parent.parent
BOOK = tomllib.loads((ROOT / "tests" / "promises.toml").read_text())
PAGES = ("README.md", "streamsvm/GUARANTEES.md", "SECURITY.md")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\|(?:-+\|)+\n((?:\|.*\n)+)", re.MULTILINE)
UNSHOWN = "nothing shows this"
"""A page may say so of what is not ours to show."""


def folded(text: str) -> str:
    """Return a text with its white space folded."""
    return " ".join(text.split())


def promising(page: str, text: str) -> list[str]:
    """Return what of a page must not stand without a promise that is shown: paragraphs, list items, rows of tables."""
    if page == "SECURITY.md":
        return [row for table in TABLE.findall(text) for row in table.splitlines()]
    parts = re.split(r"^#+ (.*)\n", FENCED.sub("", text), flags=re.MULTILINE)
    of = {
        heading: [folded(block) for block in re.split(r"\n\s*\n|\n(?=- )", body) if block.strip()]
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    if page == "README.md":
        return of["What is promised"] + [block for block in of["What it is for"] if block.startswith("- ")]
    return [block for heading, blocks in of.items() if heading != "Limits of the promise" for block in blocks]


def unshown(page: str, text: str) -> list[str]:
    """Return what a page promises and `promises.toml` does not have."""
    said = [one["says"] for one in BOOK["promise"] if one["page"] == page]
    return [one for one in promising(page, text) if UNSHOWN not in one and not any(says in one for says in said)]


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of a file's functions."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def exists(shown_by: str) -> bool:
    """Return whether a test, or what a command runs, exists."""
    path, _, name = shown_by.partition("::")
    name, _, case = name.partition("[")
    if case and case.removesuffix("]") not in {one.id for one in SCENARIOS}:
        return False
    if name:
        return name.startswith("test_") and (ROOT / path).is_file() and name in functions_of(path)
    if module := re.fullmatch(r"python -m ([\w.]+)", shown_by):
        return (ROOT / module[1].replace(".", "/") / "__main__.py").is_file()
    target = re.search(r"\bmake ([\w-]+)$", shown_by)
    return target is not None and f"\n{target[1]}:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("promise", BOOK["promise"], ids=lambda one: f"{one['page']}: {one['says'][:50]}")
def test_a_promise_stands_in_its_page_and_is_shown(promise: dict[str, str]) -> None:
    """Once, word for word; by at least one test, each of which exists."""
    assert folded((ROOT / promise["page"]).read_text()).count(promise["says"]) == 1
    assert promise["shown_by"]
    assert [one for one in promise["shown_by"] if not exists(one)] == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_promised_without_a_test(page: str) -> None:
    """Where promises stand, each paragraph, list item and row has one that is shown."""
    text = (ROOT / page).read_text()
    assert len(promising(page, text)) > 4
    assert unshown(page, text) == []


@pytest.mark.parametrize(
    ("page", "before", "planted"),
    [
        ("README.md", "\n## On your own Kafka", "- Models never err.\n"),
        ("streamsvm/GUARANTEES.md", "\n`make faults` shows", "- **Nothing is ever late.**\n"),
        ("streamsvm/GUARANTEES.md", "\n## Limits", "\nNothing is ever late.\n"),
        ("SECURITY.md", "| the labels' topic |", "| the weather | rain | stop a trainer |\n"),
    ],
)
def test_a_promise_without_a_test_is_found(page: str, before: str, planted: str) -> None:
    """A sentence more, in a copy of the page, is named."""
    text = (ROOT / page).read_text()
    assert unshown(page, text.replace(before, planted + before, 1)) == [planted.strip()]


def test_a_test_that_does_not_exist_is_found() -> None:
    """A wrong name, a wrong file, a helper that is no test, a wrong target, a wrong module."""
    own = "tests/test_promises.py"
    wrong = (f"{own}::test_nothing", "tests/nothing.py::test_a", f"{own}::exists", "make nothing", "python -m tests.no")
    assert not any(map(exists, wrong))
    assert all(map(exists, (f"{own}::test_a_test_that_does_not_exist_is_found", "make faults")))


def test_what_is_withdrawn_names_what_to_use() -> None:
    """Each by a sentence of its own, once."""
    said = [one["said"] for one in BOOK["withdrawn"]]
    assert len({*said}) == len(said)
    assert all(one["instead"].endswith(".") and one["said"].endswith(".") for one in BOOK["withdrawn"])
