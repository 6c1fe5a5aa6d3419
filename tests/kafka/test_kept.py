"""Clients that are kept from one question to the next, and let go of in time."""

from __future__ import annotations

from typing import Any

import pytest

from streamsvm.errors import TopicMissing, TransientError
from streamsvm.kafka import Cluster, Connection, TopicSpec, client
from streamsvm.kafka.kept import Kept
from tests.brokers.fixtures import TestBroker
from tests.kafka.steps import PATIENCE_S, numbers, send_values, values_of
from tests.registry.test_subscriber import restartable_broker


class Noted:
    """A client that notes whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The consumers that were made for questions, one after the other."""
    consumers: list[Any] = []
    make = client.make_consumer

    def noting(*args: Any, **kwargs: Any) -> Any:
        consumers.append(make(*args, **kwargs))
        return consumers[-1]

    monkeypatch.setattr(client, "make_consumer", noting)
    return consumers


def test_a_client_is_kept_for_its_purpose_until_the_last_block_ends() -> None:
    """Outside of a block it is closed at once; within one it waits, and is handed out to one asker at a time."""
    kept, first, second = Kept[Noted](), Noted(), Noted()
    kept.give("questions", first)
    assert first.closed
    with kept.keeping():
        with kept.keeping():
            kept.give("questions", second)
        assert not second.closed
        assert kept.take("something else") is None
        assert kept.take("questions") is second
        assert kept.take("questions") is None
        kept.give("questions", second)
    assert second.closed
    assert kept.take("questions") is None


def test_many_questions_take_a_client_for_each_kind(broker: TestBroker, made: list[Any]) -> None:
    """Ranges of several topics, records to the end and single ones; and the answers are right each time."""
    connection = broker.connect()
    cluster, topics = Cluster(connection), [broker.topic(), broker.topic()]
    for many, topic in enumerate(topics):
        send_values(connection, topic, numbers(many + 1))
    with cluster.keeping():
        for _ in range(3):
            assert [cluster.log_range(topic, 0) for topic in topics] == [(0, 1), (0, 2)]
            for many, topic in enumerate(topics):
                assert values_of(cluster.read_to_end(topic, 0, timeout_s=PATIENCE_S)) == numbers(many + 1)
            assert cluster.record(topics[1], 1, PATIENCE_S).value == numbers(2)[1]  # type: ignore[union-attr]
    assert len(made) == 3
    cluster.log_range(topics[0], 0)
    assert len(made) == 4
    for each in made:
        with pytest.raises(RuntimeError, match="closed"):
            each.assignment()


def test_a_question_that_fails_costs_its_client(real_broker: TestBroker, made: list[Any]) -> None:
    """What it knows of the topic may be what is wrong; so does a reading that is given up half-way."""
    cluster, topic = Cluster(real_broker.connect()), real_broker.topic()
    send_values(real_broker.connection, topic, numbers(3))
    with cluster.keeping():
        with pytest.raises(TopicMissing):
            cluster.log_range(real_broker.name("nowhere"), 0)
        assert cluster.log_range(topic, 0) == (0, 3)
        assert len(made) == 2
        records = cluster.read_to_end(topic, 0, timeout_s=PATIENCE_S)
        assert next(iter(records)).offset == 0
        records.close()  # type: ignore[attr-defined]
        assert values_of(cluster.read_to_end(topic, 0, timeout_s=PATIENCE_S)) == numbers(3)
        assert len(made) == 4


@pytest.mark.long
def test_a_broker_that_came_back_is_asked_by_a_new_client() -> None:
    """A kept client whose connection is gone would fail, where a new one waits for the broker."""
    with restartable_broker() as broker:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers}, request_timeout_s=5.0)
        cluster = Cluster(connection)
        cluster.create([TopicSpec("t", 1)])
        with cluster.keeping():
            assert cluster.log_range("t", 0) == (0, 0)
            broker.kill()
            with pytest.raises(TransientError):
                cluster.log_range("t", 0)
            broker.start()
            assert cluster.log_range("t", 0) == (0, 0)
            broker.restart()
            assert cluster.log_range("t", 0) == (0, 0)
