"""Which of the trunk's tests a branch takes with it: hardly any, and a new one would be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsvm.sockets import DAEMONS, branches
from tests.branches.without import TRUNK, importers, message_parts
from tests.forked import ROOT

ALLOWED = {
    # Pages about the whole product: each row, each message.
    "tests/test_supports.py": {"challenges", "history", "events"},
    "tests/interop/test_asyncapi.py": {"challenges", "history", "late_labels"},
    # Rows of the fault matrix that are about a branch.
    "tests/faults/test_challenges.py": {"challenges"},
    "tests/faults/test_erasures.py": {"history"},
    "tests/faults/test_group_workers.py": {"workers"},
    "tests/faults/test_three_brokers.py": {"workers"},
    # Every process that may be of an older or a later release than its neighbours.
    "tests/upgrade/test_upgrade.py": {"workers"},
    "tests/faults/test_late_labels.py": {"late_labels", "history", "events"},
    # Every format of a registry, and files of a trainer's rows, are of points and of raw events.
    "tests/consumers/test_evaluated_version.py": {"events"},
    "tests/consumers/test_formats.py": {"events"},
}
"""Test files outside of `tests/branches` that need a branch; benchmarks are of the whole product."""


def test_the_trunks_tests_import_no_branch() -> None:
    """By themselves or through others; the list is complete, and nothing stands on it that need not."""
    found: dict[str, set[str]] = {}
    for branch in {*branches(), *branches(DAEMONS)}:
        for path in importers(branch, ROOT):
            if path.name.startswith("test_") and path.parts[1] not in ("branches", "benchmarks"):
                found.setdefault(str(path), set()).add(branch)
    assert found == ALLOWED
    assert not [name for name in found if name.startswith(TRUNK)]


def test_an_import_through_another_file_is_found(tmp_path: Path) -> None:
    """Also one inside a function, and of a name in a package."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "__init__.py").touch()
    (tests / "far.py").write_text("def late():\n    from streamsvm.branches import history\n")
    (tests / "test_near.py").write_text("from tests import far\n")
    (tests / "test_other.py").write_text("import streamsvm.branches.historical\n")
    assert importers("history", tmp_path) == [Path("tests/far.py"), Path("tests/test_near.py")]


@pytest.mark.parametrize(
    ("branch", "parts"),
    [
        ("history", {"info_built", "info_deletes", "info_refined", "info_without"}),
        ("late_labels", {"info_labels"}),
        ("challenges", set()),
    ],
)
def test_the_parts_of_a_branch_are_known(branch: str, parts: set[str]) -> None:
    """They are taken out of the golden versions of a copy."""
    assert message_parts(branch) == parts
