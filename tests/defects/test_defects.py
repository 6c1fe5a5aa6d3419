"""The list of planted defects is complete: each fits the code that it is planted in, and somebody finds each."""

from __future__ import annotations

import os
import sys
from enum import EnumMeta
from pathlib import Path

import pytest

from tests.defects import DEFECTS, SIMULATED, TABLE, planted
from tests.defects.__main__ import every, of_daemons, planting
from tests.defects.disturbances import CLOCK_FILE, EIO_FILE, TRANSACTION_TIMEOUT
from tests.defects.worlds import WORLDS

ELSEWHERE = {"locks-nothing", "loses-its-disk"}
"""What is planted outside the product, such as in a library."""
PATCHED = [name for name, defect in DEFECTS.items() if defect.patches]


def parts_of_the_product() -> dict[tuple[str, ...], object]:
    """Return all that stands in modules of the product, in their classes, and in the members of their enumerations."""
    found: dict[tuple[str, ...], object] = {}
    for module in [name for name in sys.modules if name.startswith(("streamsvm", "consumers"))]:
        for name, part in {**vars(sys.modules[module])}.items():
            found[module, name] = part
            if isinstance(part, type) and part.__module__ == module:
                found |= {(module, name, inner): one for inner, one in vars(part).items()}
            if isinstance(part, EnumMeta):
                for member in part:
                    found |= {(module, name, member.name, inner): one for inner, one in vars(member).items()}
    return found


@pytest.mark.parametrize("name", [*PATCHED, *TABLE.disturbances])
def test_what_is_planted_fits_and_is_taken_out_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch that fits no longer would show nothing when what it replaces is called."""
    for variable, value in {CLOCK_FILE: tmp_path / "clock", EIO_FILE: tmp_path / "eio", TRANSACTION_TIMEOUT: 1}.items():
        monkeypatch.setenv(variable, str(value))
    fsync, before = os.fsync, parts_of_the_product()
    with planted(name):
        during = parts_of_the_product()
    after = parts_of_the_product()
    assert os.fsync is fsync
    assert [part for part, value in before.items() if after[part] is not value] == []
    assert name in ELSEWHERE or any(before.get(part) is not value for part, value in during.items())


def test_each_world_with_a_defect_is_one_of_a_defect_that_needs_it() -> None:
    """Where the simulation has a part of its own."""
    assert {name for name, simulated in SIMULATED.items() if simulated.world} == {*WORLDS}
    assert {name for name, defect in DEFECTS.items() if not defect.patches} <= {*WORLDS}


def test_each_says_what_it_does() -> None:
    """In a sentence."""
    assert [name for name, defect in DEFECTS.items() if not defect.behaviour.endswith(".")] == []


def test_somebody_finds_each() -> None:
    """No defect is planted in vain."""
    listed = every()
    assert [one.defect for one in listed if not one.by] == []
    assert {one.defect for one in listed} >= {*DEFECTS}


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
