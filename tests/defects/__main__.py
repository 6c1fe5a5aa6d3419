"""Every planted defect, and who finds it: `python -m tests.defects`.

Besides those of `tests.defects` there are mistakes that tests make for themselves, in a file, a message or a decoder,
and of which a test takes each row: such a test says in its name that a defect, a mistake or a fault is planted, or that
something would be found.

A line is a defect, the test or the command, and what the defect does, with tabs between them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final

from tests.defects import DEFECTS, SIMULATED

TESTS: Final = Path(__file__).parents[1]
PLANTING: Final = re.compile("planted_(defect|mistake|fault)|missing_fsync|would_be_found")
"""Names of tests that find what is planted, row by row."""
SCENARIOS: Final = "tests/live/test_scenarios.py"
SIMULATION: Final = "tests/simulation/test_simulation.py::test_a_planted_defect_is_found"
JOINING: Final = "tests/joining/test_planted.py::test_a_planted_defect_is_found"


@dataclass(frozen=True, order=True)
class Found:
    """A defect, and the test or the command that finds it."""

    defect: str
    by: str


def every(tests: Path = TESTS) -> list[Found]:
    """Return all defects of a tree of tests, which must be the one that is imported."""
    rows = [one for path, name in planting(tests) for one in of_table(path.relative_to(tests.parent), name)]
    return sorted({*(one for one in rows if one.defect not in {*DEFECTS, *SIMULATED}), *of_daemons(tests)})


def planting(tests: Path) -> Iterator[tuple[Path, str]]:
    """Yield the tests that find what is planted: file and name."""
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and PLANTING.search(node.name):
                yield path, node.name


def of_table(path: Path, name: str) -> Iterator[Found]:
    """Yield a row for each set of arguments of a test; one that has none is a defect by its own name."""
    test = getattr(import_module(".".join(path.with_suffix("").parts)), name)
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    if not marks:
        yield Found(name.removeprefix("test_").replace("_", " "), f"{path}::{name}")
        return
    for case in product(*(_ids(mark) for mark in marks)):
        yield Found(" ".join(", ".join(case).split()), f"{path}::{name}")


def _ids(mark: Any) -> list[str]:
    given = mark.kwargs.get("ids")
    if given is not None and not callable(given):
        return [str(one) for one in given]
    return [", ".join(_words(getattr(row, "values", row))) for row in mark.args[1]]


def _words(row: Any) -> list[str]:
    values = row if isinstance(row, tuple | list) else [row]
    return [str(getattr(value, "__name__", value)) for value in values]


def of_daemons(tests: Path = TESTS) -> Iterator[Found]:
    """Yield the defects of the table, each with every test and scenario that names it; nobody finds one without."""
    files = [path for path in sorted(tests.rglob("test_*.py")) if path.parent != Path(__file__).parent]
    named = {str(path.relative_to(tests.parent)): _named(path) for path in files}
    if tests == TESTS:
        named[SCENARIOS] = [(f"test_scenario[{one.id}]", {*one.planted}) for one in _scenarios() if one.found]
    for name, defect in DEFECTS.items():
        by = [f"{path}::{test}" for path, found in named.items() for test, words in found if name in words]
        if tests == TESTS:
            by += [f"{SIMULATION}[{world}]" for world in SIMULATED if world.removeprefix("scorer-that-") == name]
            by += [f"{JOINING}[{name}]"] if defect.joined else []
        by += [f"python -m tests.live defects {name}"] if defect.live and not by else []
        yield from (Found(name, one) for one in by or [""])


def _scenarios() -> list[Any]:
    from tests.live.scenarios import SCENARIOS

    return [*SCENARIOS]


def _named(path: Path) -> list[tuple[str, set[str]]]:
    """Return the words that each test of a file names; what stands in a table beside them is named by the first."""
    nodes = ast.parse(path.read_text()).body
    tests = [one for one in nodes if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    found = [(one.name, _words_of(one)) for one in tests]
    tables = [_words_of(one) for one in nodes if isinstance(one, ast.Assign | ast.AnnAssign)]
    return [*found, *((tests[0].name, words) for words in tables if tests)]


def _words_of(tree: ast.AST) -> set[str]:
    """Return the words of all texts, by themselves or joined as command lines take them."""
    texts = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return {word for text in texts for word in re.split("[+,]", text)}


def main() -> int:
    """Print them; the exit status is 1 if nobody finds one."""
    found = every()
    for one in found:
        print(f"{one.defect}\t{one.by or 'nobody'}\t{DEFECTS[one.defect].behaviour if one.defect in DEFECTS else ''}")
    return 0 if all(one.by for one in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
