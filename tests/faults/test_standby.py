"""Copies that stand by, as processes: killed ones lose no version, and the next takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.fixtures import TestBroker
from tests.faults.standby import run


@pytest.mark.long
def test_a_killed_copy_is_succeeded_and_no_version_is_lost(real_broker: TestBroker, tmp_path: Path) -> None:
    """`python -m tests.faults.standby` is the long form, which says how long it takes."""
    found = run(real_broker.connection, 2, tmp_path, real_broker.name("standby"))
    assert (found["versions"], found["same_as_one_trainer"], found["verified"]) == (5, True, True)
    assert found["seconds_to_a_bare_lock"]["count"] == 2
