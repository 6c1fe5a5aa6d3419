"""A topic of labels that is deleted and made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers import constants
from streamsvm.kafka import Recreated
from tests.branches.late_labels.test_labels import joined_settings, stream, topics, write
from tests.brokers.fixtures import TestBroker
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, recreate
from tests.consumers.trainers import Running, records, versions

pytestmark = pytest.mark.real_broker


def test_no_version_of_recreated_labels_is_published(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The labels' topic alone is another one."""
    connection = real_broker.connection
    settings = joined_settings(real_broker.name("labels"), tmp_path / "checkpoint")
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 3_600.0)
    topics(connection, settings)
    features, labels, _ = stream(200)
    question = AtTheQuestion(
        monkeypatch, settings.labels.topic, lambda: recreate(connection, settings.labels.topic, records(300))
    )
    question.armed = True
    write(connection, settings.labels.topic, labels)
    write(connection, settings.input.topic, features)
    with Running(settings, connection) as running:
        with pytest.raises(Recreated, match=rf"{settings.labels.topic} {WAY_OUT}.*--reset m/1"):
            running.wait_until(lambda: False)
        running.failure = None
    assert versions(connection, settings) == []
