"""Topics: descriptions and creation; and who of a group owns which partitions."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from streamsvm.errors import ConfigurationError, TopicMissing, TransientError
from streamsvm.kafka import Cluster, GroupMember, Message, TopicInfo, TopicSpec, topics
from streamsvm.kafka.topics import _described
from tests.brokers.fixtures import TestBroker
from tests.kafka.steps import eventually, send


def test_missing_topics_are_created_and_existing_ones_left(broker: TestBroker) -> None:
    """Creating returns the names that were missing."""
    one, two = TopicSpec(broker.name()), TopicSpec(broker.name(), partitions=2)
    assert Cluster(broker.connection).create([one]) == [one.name]
    assert Cluster(broker.connection).create([one, two]) == [two.name]
    assert Cluster(broker.connection).create([one, two]) == []


@pytest.mark.real_broker
def test_a_topic_is_described(broker: TestBroker) -> None:
    """A description has the topic's id, partitions and settings."""
    topic = broker.topic(partitions=3, config={"cleanup.policy": "compact", "max.message.bytes": "5000"})
    info = Cluster(broker.connection).describe(topic)
    assert (info.name, info.partitions) == (topic, (0, 1, 2))
    assert info.config["cleanup.policy"] == "compact"
    assert info.config["max.message.bytes"] == "5000"
    assert "retention.ms" in info.config
    assert info.topic_id
    assert info.topic_id != Cluster(broker.connection).describe(broker.topic()).topic_id
    assert info == Cluster(broker.connection).describe(topic)


@pytest.mark.embedded_broker
def test_the_embedded_broker_creates_what_is_asked_for(broker: TestBroker) -> None:
    """On the embedded broker every topic exists, with four partitions and no id."""
    info = Cluster(broker.connection).describe(broker.name())
    assert (info.topic_id, info.partitions, info.config) == (None, (0, 1, 2, 3), {})
    with pytest.raises(ConfigurationError, match="5 partitions"):
        Cluster(broker.connection).create([TopicSpec(broker.name(), partitions=5)])


@pytest.mark.real_broker
def test_an_id_is_asked_for_again_by_a_new_client(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for a broker that died would use up all the time, though another one could answer."""
    topic, waited, real = broker.topic(), [], topics.Admin
    others = [True]

    class Waiting(topics.Admin):
        def ask(self, *_: Any, share: float, **__: Any) -> dict[Any, Any]:
            waited.append(share)
            raise TransientError("no broker answered")

    monkeypatch.setattr(topics, "Admin", lambda given: (Waiting if others and others.pop() else real)(given))
    assert topics.Topics(broker.connection).id_of(topic) == Cluster(broker.connection).describe(topic).topic_id
    assert waited == [0.2]


@pytest.mark.real_broker
def test_a_topic_of_ones_own_is_asked_for_again(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several brokers one may not know yet what another has made; who made nothing is told at once."""
    topic, late = broker.name(), [True, True]

    def asked(*given: Any) -> TopicInfo:
        if late:
            late.pop()
            raise TopicMissing(topic, "")
        return _described(*given)

    own = Cluster(broker.connection)
    own.create([TopicSpec(topic)])
    monkeypatch.setattr(topics, "_described", asked)
    with pytest.raises(TopicMissing, match=topic):
        Cluster(broker.connection).describe(topic)
    assert own.describe(topic).name == topic
    assert not late


@pytest.mark.real_broker
def test_a_misspelt_topic_is_not_created_by_asking_and_is_told_its_neighbours(broker: TestBroker) -> None:
    """As often as one asks; the remedy names those that exist and are spelled nearly so, none where there are none."""
    topic = broker.name("deliveries")
    Cluster(broker.connection).create([TopicSpec(topic)])
    for _ in range(2):
        with pytest.raises(TopicMissing, match=topic.removeprefix("d")) as caught:
            Cluster(broker.connection).describe(topic.removeprefix("d"))
        assert topic in caught.value.remedy
    with pytest.raises(TopicMissing, match=r"correct its name\.$"):
        Cluster(broker.connection).describe("0" * 200)


@pytest.mark.real_broker
def test_a_wrong_specification_is_refused(broker: TestBroker) -> None:
    """What the broker does not accept is a configuration error that names the topic."""
    policy, unknown = {"cleanup.policy": "nonsense"}, {"no.such.setting": "1"}
    name = broker.name()
    for spec in ({"partitions": 0}, {"replication_factor": 99}, {"config": policy}, {"config": unknown}):
        with pytest.raises(ConfigurationError, match=name):
            Cluster(broker.connection).create([TopicSpec(name, **spec)])  # type: ignore[arg-type]


def shared_out(*members: GroupMember) -> bool:
    """Poll members, and tell whether each partition has one owner, and every member one partition at least."""
    owned = [member.poll() for member in members]
    return sorted(p for own in owned for p in own) == [0, 1, 2, 3] and all(owned)


@pytest.mark.real_broker
def test_a_group_shares_partitions_out(broker: TestBroker) -> None:
    """One has all; a second one takes some; when that leaves, the first has all again. Records are read by nobody."""
    cluster, topic, group = Cluster(broker.connection), broker.topic(partitions=4), broker.name("group")
    send(broker.connection, [Message(topic, b"x", partition=partition) for partition in range(4)])
    with closing(cluster.member(topic, group=group)) as first:
        eventually(lambda: shared_out(first), "it has all")
        first.commit({0: 1})
        with closing(cluster.member(topic, group=group)) as second:
            eventually(lambda: shared_out(first, second), "both have some")
        eventually(lambda: shared_out(first), "it has all again")
        first.commit(dict.fromkeys(range(4), 1))


@pytest.mark.real_broker
def test_a_member_of_a_missing_topic_is_told(broker: TestBroker) -> None:
    """By a poll, not by silence."""
    member = Cluster(broker.connection).member(broker.name("nowhere"), group=broker.name("group"))
    with closing(member), pytest.raises(TopicMissing):
        eventually(lambda: shared_out(member), "it is told")
