"""A changed default holds for new incarnations; what began before it goes on, and verifies, as it began."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.config import CoresetConfig
from streamsvm.errors import StateError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, run_until, settings_for, versions


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    return broker.connect(fetch_wait_max_ms=10)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("older"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic)])
    return made


def drawn_by_label(settings: Settings, by_label: bool) -> Settings:
    given = settings.coreset.model_dump(include=settings.coreset.model_fields_set)
    return settings.model_copy(update={"coreset": CoresetConfig(**given, audit_by_label=by_label)})


def test_a_common_audit_sample_stays_common(settings: Settings, connection: Connection) -> None:
    """Without a reset, under the same hash, from its checkpoint; whoever gives the option must begin anew."""
    older = drawn_by_label(settings, by_label=False)
    assert "audit_by_label" not in older.models().canonical()["coreset"]
    produce(connection, settings.input.topic, records(100))
    run_until(older, connection, 100)
    produce(connection, settings.input.topic, records(60, seed=2))
    run_until(settings, connection, 60)
    found = versions(connection, settings)
    assert [version.lineage.configuration_sha256 for version in found] == [older.models().sha256()] * 4
    assert verify(Cluster(connection), settings).clean
    given = drawn_by_label(settings, by_label=True)
    with pytest.raises(StateError, match=r"coreset\.audit_by_label was not set, is now True"):
        run_until(given, connection, 0)
    run_until(given, connection, 160, reset="m/1")
    found = versions(connection, settings)
    assert found[-1].lineage.configuration["coreset"]["audit_by_label"] is True
    assert verify(Cluster(connection), settings).clean
