"""What is archived, or looked for, in a topic that is deleted and made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.branches.history.finding import found_by
from consumers.branches.history.settings import ArchiveConfig
from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, Recreated
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_identity import WAY_OUT, AtTheQuestion, never_looking, recreate
from tests.consumers.trainers import Running, produce, records

pytestmark = pytest.mark.real_broker


@pytest.fixture
def connection(real_broker: TestBroker) -> Connection:
    return real_broker.connection


@pytest.fixture
def settings(real_broker: TestBroker, tmp_path: Path) -> Settings:
    return never_looking(real_broker, tmp_path / "checkpoint")


def test_rows_of_two_logs_are_not_archived(
    settings: Settings, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is archived is built from without the log: the trainer asks before that, too, though no version is due."""
    settings = settings.model_copy(update={"archive": ArchiveConfig(directory=tmp_path / "archive")})
    question = AtTheQuestion(monkeypatch, settings.input.topic, lambda: recreate(connection, settings.input.topic))
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        question.armed = True
        with pytest.raises(Recreated, match=WAY_OUT):
            running.wait_until(lambda: False)
        running.failure = None


def test_rows_are_not_found_in_two_logs(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places of one log would be applied to another; so would those of a topic that is not the wanted one."""
    topic, cluster = settings.input.topic, Cluster(connection)
    produce(connection, topic, records(20))
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic))
    question.armed = True
    with pytest.raises(Recreated, match=WAY_OUT):
        found_by(cluster, topic, settings.models(), ["a"], [], timeout_s=60.0)
    with pytest.raises(Recreated):
        found_by(cluster, topic, settings.models(), ["a"], [], topic_id="A" * 22, timeout_s=60.0)
