"""A stage for tests that play on the broker of all tests; a plugin, so that any test may ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import settings_for
from tests.live.stage import Stage


@pytest.fixture
def stage(real_broker: TestBroker, tmp_path: Path) -> Iterator[Stage]:
    """A trainer of a topic of its own, which is still to be created; no process outlives the test."""
    made = Stage(real_broker.connection, settings_for(real_broker.name("fault"), tmp_path / "checkpoint"))
    yield made
    made.clear()
