"""Records as they were once written: they are cases of the contract, and are written as before."""

from __future__ import annotations

from tests.contract.cases import cases
from tests.golden import HERE
from tests.golden.points import records

FILES = sorted(HERE.glob("*.point"))


def test_there_is_a_file_of_every_format_and_a_case_of_every_file() -> None:
    """What is written today in each format has its file; JSON and Avro are the same bytes on every machine."""
    written, read = records(), {case.value for case in cases("points")}
    assert {path.name for path in FILES} >= set(written)
    assert {path.name for path in FILES if path.read_bytes() not in read} == set()
    for name, value in written.items():
        if "arrow" not in name:  # other releases of the library may pad or lay out the same stream differently
            assert (HERE / name).read_bytes() == value, name
