"""Who owns which partitions: a group shares them out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

import pytest

from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster, GroupMember, Message
from tests.brokers.fixtures import TestBroker

PARTITIONS = 4
DEADLINE_S = 60.0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def until(members: Sequence[GroupMember], holds: Callable[[list[frozenset[int]]], bool]) -> list[frozenset[int]]:
    """Poll members until what they own is as it should be."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds(owned := [member.poll() for member in members]):
        assert time.monotonic() < deadline, owned
        time.sleep(0.02)
    return owned


def shared_out(owned: list[frozenset[int]]) -> bool:
    """Tell whether each partition has one owner, and every member one partition at least."""
    return sorted(p for own in owned for p in own) == list(range(PARTITIONS)) and all(owned)


@pytest.mark.real_broker
def test_a_group_shares_partitions_out(broker: TestBroker, stack: ExitStack) -> None:
    """One has all; a second one takes some; when that leaves, the first has all again. Records are read by nobody."""
    cluster, topic, group = Cluster(broker.connection), broker.topic(PARTITIONS), broker.name("group")
    with closing(cluster.outbox()) as outbox:
        for partition in range(PARTITIONS):
            outbox.send(Message(topic, b"x", partition=partition))
        outbox.flush(30.0)
    first = cluster.member(topic, group=group)
    stack.callback(first.close)
    until([first], shared_out)
    first.commit({0: 1})
    second = cluster.member(topic, group=group)
    until([first, second], shared_out)
    second.close()
    until([first], shared_out)
    first.commit(dict.fromkeys(range(PARTITIONS), 1))


@pytest.mark.real_broker
def test_a_missing_topic_is_told(broker: TestBroker, stack: ExitStack) -> None:
    """By a poll, not by silence."""
    member = Cluster(broker.connection).member(broker.name("nowhere"), group=broker.name("group"))
    stack.callback(member.close)
    with pytest.raises(TopicMissing):
        until([member], lambda _: False)
