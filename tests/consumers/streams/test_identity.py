"""A topic that is deleted and made again under its name, between a fetch and what is made of it: nothing of it counts.

The very question whether the topic is the same makes it again, so that each test meets the moment that it is about.
Without the question in that place no test here would end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers import constants
from consumers.settings import Settings
from consumers.streams import identity as identity_module
from consumers.streams.identity import TopicIdentity, identity_of
from consumers.verify.verify import verify
from streamsvm.errors import LogGap, TransientError
from streamsvm.kafka import GONE_AFTER_S, Cluster, Connection, Recreated
from streamsvm.verification import Outcome
from tests.brokers.fixtures import TestBroker
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, never_looking, recreate, refuse_to_say
from tests.consumers.trainers import Running, produce, records, run_until, versions
from tests.kafka import foreign

pytestmark = pytest.mark.real_broker


@pytest.fixture(autouse=True)
def never_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look by the clock never helps here."""
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 3_600.0)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    return never_looking(broker, tmp_path / "checkpoint")


# ---------------------------------------------------------------- the question


def test_a_topic_that_grows_is_the_same(real_broker: TestBroker) -> None:
    """Records and partitions that are added are no reason to stop."""
    topic = real_broker.topic()
    identity = identity_of(Cluster(real_broker.connection), topic)
    produce(real_broker.connection, topic, records(3))
    foreign.add_partitions(real_broker.connection, topic, 3)
    identity.confirm({0: 3})


def test_another_topic_of_the_name_is_refused_with_both_ids(real_broker: TestBroker) -> None:
    """And with the way out that its owner gave; the id of the new one is at hand."""
    topic, cluster = real_broker.topic(), Cluster(real_broker.connection)
    identity = identity_of(cluster, topic, remedy="Begin anew.")
    before = cluster.topic_id(topic)
    recreate(real_broker.connection, topic)
    with pytest.raises(Recreated, match=f"{topic} {WAY_OUT}. Begin anew.") as refused:
        identity.confirm({0: 3})
    assert str(before) in refused.value.what
    assert refused.value.topic_id == cluster.topic_id(topic)


def test_a_topic_is_gone_once_brokers_have_said_so_for_a_while(real_broker: TestBroker) -> None:
    """A broker that has just started may not know its topics yet."""
    topic, cluster, now = real_broker.topic(), Cluster(real_broker.connection), [0.0]
    identity = TopicIdentity(cluster, topic, cluster.topic_id(topic) or "", {}, monotonic=lambda: now[0])
    foreign.delete_topic(real_broker.connection, topic)
    for second in (0.0, GONE_AFTER_S - 1.0):
        now[0] = second
        with pytest.raises(TransientError):
            identity.confirm({})
    now[0] = GONE_AFTER_S
    with pytest.raises(LogGap, match=f"{topic} no longer exists"):
        identity.confirm({})


def test_without_ids_records_are_compared(real_broker: TestBroker) -> None:
    """A topic of the same values, and as long, is another one; one that grew or lost its beginning is not."""
    connection, topic, values = real_broker.connection, real_broker.topic(), records(6)
    produce(connection, topic, values[:3])
    identity = TopicIdentity(Cluster(connection), topic, "", {0: 3})
    produce(connection, topic, values[3:])
    identity.confirm({0: 6})
    foreign.delete_records(connection, topic, 0, 6)
    identity.confirm({0: 6})
    produce(connection, topic, values)
    identity.confirm({0: 12})
    recreate(connection, topic, [*values, *values])
    with pytest.raises(Recreated, match=rf"offset 11 of {topic}\[0\] is not the one that was read"):
        identity.confirm({0: 12})


def test_without_ids_a_shorter_topic_is_another_one(real_broker: TestBroker) -> None:
    """Where there is no record any more, and retention did not take it."""
    connection, topic = real_broker.connection, real_broker.topic()
    produce(connection, topic, records(3))
    identity = TopicIdentity(Cluster(connection), topic, "", {0: 3})
    recreate(connection, topic, records(1))
    with pytest.raises(Recreated):
        identity.confirm({0: 3})


def test_without_ids_that_is_said_once(real_broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning at the start; none on the embedded broker, whose topics cannot be deleted, and which is not asked."""
    said: list[str] = []
    monkeypatch.setattr(identity_module.log, "warning", lambda event, **_: said.append(event))
    TopicIdentity(Cluster(real_broker.connection), real_broker.topic(), "", {})
    assert said == ["topic_without_id"]


# ---------------------------------------------------------------- learning


def test_no_version_of_a_recreated_input_is_published(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second version is trained when its topic goes: the trainer ends with both ids and the way out."""
    question = AtTheQuestion(
        monkeypatch, settings.input.topic, lambda: recreate(connection, settings.input.topic, records(120, seed=9))
    )
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        question.armed = True
        produce(connection, settings.input.topic, records(50, seed=1))
        with pytest.raises(Recreated, match=rf"{WAY_OUT}.*--reset m/1"):
            running.wait_until(lambda: False)
        running.failure = None
    assert [version.stream.points for version in versions(connection, settings)] == [40]


def test_a_version_waits_for_a_broker_that_does_not_say(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published once the broker does, and once only."""
    question = AtTheQuestion(monkeypatch, settings.input.topic, refuse_to_say)
    question.armed = True
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        assert running.value("streamsvm_producer_renewals_total") == 1
    assert [version.stream.points for version in versions(connection, settings)] == [40]


# ---------------------------------------------------------------- reading back


def test_a_version_is_not_compared_with_two_logs(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verify says that the input is another one by now, not that the version is wrong."""
    topic = settings.input.topic
    produce(connection, topic, records(50))
    run_until(settings, connection, 50)
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic, records(60, seed=9)))
    question.armed = True
    report = verify(Cluster(connection), settings)
    assert [row.outcome for row in report.rows] == [Outcome.UNAVAILABLE]
    assert "was recreated" in report.rows[0].note
