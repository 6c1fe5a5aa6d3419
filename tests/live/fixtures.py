"""Stages and brokers for tests that play live; a plugin, so that any test may ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamsvm.kafka import Connection
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun
from tests.consumers.trainers import settings_for
from tests.live.cluster import FORGETFUL, WATCHFUL, Brokers
from tests.live.stage import Stage


@pytest.fixture
def stage(real_broker: TestBroker, tmp_path: Path) -> Iterator[Stage]:
    """A trainer of a topic of its own, which is still to be created; no process outlives the test."""
    made = Stage(real_broker.connection, settings_for(real_broker.name("fault"), tmp_path / "checkpoint"))
    yield made
    made.clear()


@pytest.fixture(scope="session")
def at_hand(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Brokers | Connection]]:
    """Return the brokers of a kind: each is started once, when the first scenario needs it."""
    started: dict[str, Brokers] = {}

    def brokers(kind: str) -> Brokers | Connection:
        if kind == "shared":
            shared: TestBroker = request.getfixturevalue("real_broker")
            return shared.connection
        if kind not in started:
            try:
                settings = {**WATCHFUL, **(FORGETFUL if kind == "forgetful" else {})}
                started[kind] = Brokers(3 if kind == "three" else 1, settings)
                started[kind].start()
            except CannotRun as error:
                pytest.skip(f"no broker to ill-treat: {error}")
        return started[kind]

    yield brokers
    for each in started.values():
        each.stop()
