"""What many tests of daemons start from: a connection, and settings of a trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import settings_for


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """A connection whose reads answer soon: the embedded broker keeps an idle fetch for its whole wait."""
    return broker.connect(fetch_wait_max_ms=10)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    """Settings of a trainer whose input has four partitions, on both kinds of brokers."""
    made = settings_for(broker.name("t"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return made
