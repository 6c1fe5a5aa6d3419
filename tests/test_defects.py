"""The list of planted defects is complete: every table of them is in it, and somebody finds each."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from tests.defects import TESTS, Found, every, of_daemons, planting

TABLES = ("DEFECTS", "ALTERATIONS")


@pytest.fixture(scope="module")
def listed() -> list[Found]:
    return every()


def tables() -> dict[str, list[str]]:
    """Return what stands in each table of defects, wherever in the tests there is one."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in (one.id for one in targets if isinstance(one, ast.Name) and one.id in TABLES):
                module = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
                table = getattr(import_module(module), name)
                found[f"{module}.{name}"] = (
                    list(table) if isinstance(table, Mapping) else [one.__name__.replace("_", "-") for one in table]
                )
    return found


def test_every_table_of_defects_is_in_the_list(listed: list[Found]) -> None:
    """Of those for whole daemons all but disturbances, which are nobody's to find."""
    names = {one.defect for one in listed}
    known = tables()
    assert len(known) >= 6
    left = {table: set(rows) - names for table, rows in known.items()}
    disturbances = {
        "tests.branches.workers.planted.DEFECTS",
        "tests.faults.planted.DEFECTS",
        "tests.faults.altered.ALTERATIONS",
    }
    assert {table for table, rows in left.items() if rows} == disturbances
    assert left["tests.faults.planted.DEFECTS"] == {
        "ends-transactions-early",
        "follows-another-clock",
        "freezes-before-its-positions",
        "freezes-before-its-scores",
        "hangs-in-the-client",
        "loses-an-answer",
        "loses-its-disk",
        "publishes-often",
    }
    assert left["tests.branches.workers.planted.DEFECTS"] == {"publishes-often"}
    assert left["tests.faults.altered.ALTERATIONS"] == {"impatient", "trains_slowly", "steady", "unhurried"}


def test_somebody_finds_each(listed: list[Found]) -> None:
    """No defect is planted in vain."""
    assert [one.defect for one in listed if not one.by] == []


def test_a_defect_that_nobody_finds_would_be_named(tmp_path: Path) -> None:
    """The check can fail: in a tree whose only test names one of the daemons' defects, nobody finds the others."""
    (tmp_path / "test_one.py").write_text('def test_it() -> None:\n    start("impatient,forgets-the-leaf")\n')
    found = {one.defect: one.by for one in of_daemons(tmp_path)}
    assert found["forgets-the-leaf"] == f"{tmp_path.name}/test_one.py::test_it"
    assert found["locks-nothing"] == ""


def test_a_test_of_what_is_planted_is_known_by_its_name(tmp_path: Path) -> None:
    """Whatever folder it stands in."""
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "test_new.py"
    path.write_text("def test_a_planted_defect_is_found(): ...\ndef test_it(): ...\ndef planted_defect(): ...\n")
    assert list(planting(tmp_path)) == [(path, "test_a_planted_defect_is_found")]
