"""Scores and labels whose topics are deleted and made again."""

from __future__ import annotations

import pytest

from consumers.branches.challenges.reading import logs_of, read_served
from consumers.settings import Settings
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Recreated
from tests.brokers.fixtures import TestBroker
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, recreate
from tests.consumers.scorer.running import Running as Scoring
from tests.consumers.scorer.test_identity import asking_always
from tests.consumers.trainers import produce
from tests.registry.test_subscriber import eventually

pytestmark = pytest.mark.real_broker


@pytest.fixture
def connection(real_broker: TestBroker) -> Connection:
    return real_broker.connection


@pytest.fixture
def scored(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return asking_always(connection, monkeypatch)


@pytest.mark.parametrize("which", ["scores", "labels"])
def test_scores_and_labels_are_not_joined_across_two_logs(
    connection: Connection, scored: Settings, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """The quality as served is of one log of each."""
    points_topic = scored.scoring.topic
    settings = Settings.model_validate(
        scored.model_dump(exclude={"features", "events"})
        | {"points": {"dimension": 2}, "input": {"topic": points_topic}}
    )
    produce(connection, points_topic, [encode([1.0, 0.0], 1, id=number) for number in range(20)])
    with Scoring(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 20, "all are scored")
    cluster, logs = Cluster(connection), logs_of(settings)
    topic = getattr(logs, which)
    assert len(read_served(cluster, settings).served) == 20
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic, partitions=4), after=1)
    question.armed = True
    with pytest.raises(Recreated, match=f"{topic} {WAY_OUT}"):
        read_served(cluster, settings)
