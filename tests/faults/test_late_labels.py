"""Late labels at length: the order of reading, kills and recomputation change no byte of any version."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsvm.errors import StateError
from tests.brokers.fixtures import TestBroker
from tests.faults.late_labels import VERSIONS, run


@pytest.mark.parametrize(
    ("rows", "kills"), [(4_000, 2), pytest.param(100_000, 20, marks=pytest.mark.faults_long)], ids=["4000", "100000"]
)
def test_three_readings_of_the_same_logs_give_the_same_versions(
    real_broker: TestBroker, tmp_path: Path, rows: int, kills: int
) -> None:
    """One as they come, one in uneven portions, one killed again and again; pandas counts as they do."""
    found = run(real_broker.connection, rows, kills, tmp_path, real_broker.name("late"))
    assert found["versions"] == found["verified"] == VERSIONS
    assert found["joined"] + found["absent"] == rows
    assert found["versions_at_last_kill"] > VERSIONS // 3


def test_a_trainer_that_forgets_what_waits_is_found(real_broker: TestBroker, tmp_path: Path) -> None:
    """The check can fail: without the rows within their horizon other versions follow, or the next start refuses."""
    with pytest.raises((AssertionError, StateError), match=r"killed|different training set"):
        run(real_broker.connection, 4_000, 2, tmp_path, real_broker.name("late"), defect="forgets-what-waits")
