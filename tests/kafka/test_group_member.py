"""Who owns which partitions: a group shares them out."""

from __future__ import annotations

from contextlib import closing

import pytest

from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster, GroupMember, Message
from tests.brokers.fixtures import TestBroker
from tests.kafka.steps import eventually, send

PARTITIONS = 4


def shared_out(*members: GroupMember) -> bool:
    """Poll members, and tell whether each partition has one owner, and every member one partition at least."""
    owned = [member.poll() for member in members]
    return sorted(p for own in owned for p in own) == list(range(PARTITIONS)) and all(owned)


@pytest.mark.real_broker
def test_a_group_shares_partitions_out(broker: TestBroker) -> None:
    """One has all; a second one takes some; when that leaves, the first has all again. Records are read by nobody."""
    cluster, topic, group = Cluster(broker.connection), broker.topic(PARTITIONS), broker.name("group")
    send(broker.connection, [Message(topic, b"x", partition=partition) for partition in range(PARTITIONS)])
    with closing(cluster.member(topic, group=group)) as first:
        eventually(lambda: shared_out(first), "it has all")
        first.commit({0: 1})
        with closing(cluster.member(topic, group=group)) as second:
            eventually(lambda: shared_out(first, second), "both have some")
        eventually(lambda: shared_out(first), "it has all again")
        first.commit(dict.fromkeys(range(PARTITIONS), 1))


@pytest.mark.real_broker
def test_a_missing_topic_is_told(broker: TestBroker) -> None:
    """By a poll, not by silence."""
    member = Cluster(broker.connection).member(broker.name("nowhere"), group=broker.name("group"))
    with closing(member), pytest.raises(TopicMissing):
        eventually(lambda: shared_out(member), "it is told")
