"""The tables of long tests name tests that exist, and decide as they say."""

from __future__ import annotations

import ast
from itertools import chain
from pathlib import Path

import pytest

from tests import lengths

ROOT = Path(__file__).parent.parent
KEPT = "tests/faults/test_kill.py::test_a_kill_at_any_named_point_changes_nothing"
TRAINER = "tests/consumers/test_trainer.py"
VERIFY = "tests/consumers/test_verify.py"


def functions(file: str) -> set[str]:
    return {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_name_is_of_a_test() -> None:
    """What was renamed in its file would be run by every `make test` again, and nobody would notice."""
    kept = {f"{file}::{name}" for file, names in lengths.EMBEDDED_ENOUGH.items() for name in names}
    for name in chain(lengths.LONG, lengths.LONG_CASES, lengths.NOT_QUICK, kept):
        file, _, function = name.partition("::")
        assert (function in functions(file)) if function else (ROOT / file).is_file(), name


@pytest.mark.parametrize(
    ("nodeid", "is_long"),
    [
        (f"{KEPT}[0]", False),
        (f"{KEPT}[1]", True),
        (f"{VERIFY}::test_one_version_alone[embedded]", False),
        (f"{VERIFY}::test_one_version_alone[real]", True),
        (f"{VERIFY}::test_a_hole_in_the_log_is_said[real]", False),
        (f"{VERIFY}::test_what_a_trainer_published_is_clean[real]", False),
        ("tests/test_lengths.py::test_every_name_is_of_a_test", False),
    ],
)
def test_a_test_is_long_if_a_shorter_one_stands_for_it(nodeid: str, is_long: bool) -> None:
    """Another case of it, or the same on the embedded broker."""
    ids = {f"{VERIFY}::test_one_version_alone[embedded]", nodeid}
    assert lengths.is_long(nodeid, ids, real=False) == is_long
    assert lengths.is_long(nodeid, ids, real=True) == is_long


def test_daemons_run_on_a_real_broker_where_there_is_one() -> None:
    """On the embedded one where there is none, or the test has no other case."""
    on_embedded, on_real = (
        f"{TRAINER}::test_versions_are_those_of_the_stream[{kind}]" for kind in ("embedded", "real")
    )
    ids = {on_embedded, on_real}
    assert [lengths.is_long(each, ids, real=True) for each in (on_embedded, on_real)] == [True, False]
    assert [lengths.is_long(each, ids, real=False) for each in (on_embedded, on_real)] == [False, False]
    assert not lengths.is_long(on_embedded, {on_embedded}, real=True)


def test_a_case_that_is_not_there_is_told() -> None:
    """Of a test that was collected; of others nothing is known."""
    assert lengths.unmatched([f"{KEPT}[0]"]) == []
    assert lengths.unmatched([f"{KEPT}[1]"]) == [f"{KEPT}[0]"]


def test_quick_tests_start_nothing() -> None:
    """By where they stand, and by what they ask for."""
    assert lengths.is_quick("tests/codec/test_points.py::test_x", ["tmp_path"])
    assert not lengths.is_quick("tests/codec/test_points.py::test_x", ["real_broker"])
    assert not lengths.is_quick("tests/svm/test_bias.py::test_x", [])
    assert not lengths.is_quick("tests/faults/test_kill.py::test_x", [])
