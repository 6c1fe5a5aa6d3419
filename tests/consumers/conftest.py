"""The connection of the daemons' tests."""

from __future__ import annotations

import pytest

from streamsvm.kafka import Connection
from tests.brokers.fixtures import TestBroker


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """A connection whose reads answer soon: the embedded broker keeps an idle fetch for its whole wait."""
    return broker.connect(fetch_wait_max_ms=10)
