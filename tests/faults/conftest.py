"""The stage of a fault; and what the short form of the matrix leaves out is said at its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import settings_for
from tests.faults.stage import Stage

LONG = "faults_long"
LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker(LONG):
            item.config.stash.setdefault(LEFT_OUT, []).append(item.nodeid)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, [])
    if left_out:
        terminalreporter.write_line(f"faults: {len(left_out)} long tests are left to `make faults`")


@pytest.fixture
def stage(real_broker: TestBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A trainer of a topic of its own, which is still to be created; no process outlives the test."""
    made = Stage(real_broker.connection, settings_for(real_broker.name("fault"), tmp_path / "checkpoint"))
    yield made
    request.node.user_properties.append(("processes", len(made.started)))
    made.clear()
