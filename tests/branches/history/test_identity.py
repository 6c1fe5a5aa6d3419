"""Rows that are looked for in a topic that is deleted and made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.branches.history.deletes import Named
from consumers.branches.history.finding import rows_named
from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, Recreated
from tests.brokers.fixtures import TestBroker
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, never_looking, recreate
from tests.consumers.trainers import produce, records

pytestmark = pytest.mark.real_broker


@pytest.fixture
def connection(real_broker: TestBroker) -> Connection:
    return real_broker.connection


@pytest.fixture
def settings(real_broker: TestBroker, tmp_path: Path) -> Settings:
    return never_looking(real_broker, tmp_path / "checkpoint")


def test_rows_are_not_found_in_two_logs(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places of one log would be applied to another."""
    topic, cluster = settings.input.topic, Cluster(connection)
    produce(connection, topic, records(20))
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic))
    question.armed = True
    with pytest.raises(Recreated, match=WAY_OUT):
        rows_named(cluster, topic, settings.models(), Named({"a": None}), timeout_s=60.0)
