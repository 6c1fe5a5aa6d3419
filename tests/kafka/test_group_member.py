"""Who owns which partitions: a group shares them out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import get_args

import pytest
from confluent_kafka import KafkaError

from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.kafka import Cluster, Connection, GroupMember, GroupProtocol, Message, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.brokers.settings import KAFKA_VERSION

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


@pytest.mark.parametrize("protocol", get_args(GroupProtocol))
@pytest.mark.real_broker
def test_a_group_shares_partitions_out(broker: TestBroker, stack: ExitStack, protocol: GroupProtocol) -> None:
    """One has all; a second one takes some; when that leaves, the first has all again. Records are read by nobody."""
    if protocol == "consumer" and KAFKA_VERSION.startswith("3."):
        pytest.skip(f"Kafka {KAFKA_VERSION} does not know the protocol `consumer`: refused, as the next test has it")
    cluster, topic, group = Cluster(broker.connection), broker.topic(PARTITIONS), broker.name("group")
    with closing(cluster.outbox()) as outbox:
        for partition in range(PARTITIONS):
            outbox.send(Message(topic, b"x", partition=partition))
        outbox.flush(30.0)
    first = cluster.member(topic, group=group, protocol=protocol)
    stack.callback(first.close)
    until([first], shared_out)
    first.commit({0: 1})
    second = cluster.member(topic, group=group, protocol=protocol)
    until([first, second], shared_out)
    second.close()
    until([first], shared_out)
    first.commit(dict.fromkeys(range(PARTITIONS), 1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "setting", "value", "why"),
    [
        ("3.9.1", "group.coordinator.rebalance.protocols", "classic", KafkaError._UNSUPPORTED_FEATURE),
        ("4.3.1", "group.coordinator.rebalance.protocols", "classic", KafkaError.UNSUPPORTED_VERSION),
        ("4.3.1", "group.consumer.migration.policy", "disabled", KafkaError.GROUP_ID_NOT_FOUND),
    ],
    ids=["too old", "told not to", "a classic group"],
)
def test_a_refused_protocol_is_named(
    stack: ExitStack, caplog: pytest.LogCaptureFixture, version: str, setting: str, value: str, why: int
) -> None:
    """Within seconds, with the reason, and not by owning nothing for ever; the protocol `classic` works there."""
    try:
        own = JvmBroker({setting: value}, version=version)
        stack.callback(own.stop)
        own.start()
    except CannotRun as missing:
        pytest.skip(str(missing))
    caplog.set_level(logging.DEBUG)
    cluster = Cluster(Connection(options={"bootstrap.servers": own.bootstrap_servers}))
    cluster.create([TopicSpec("points", PARTITIONS)])
    classic = cluster.member("points", group="workers")
    stack.callback(classic.close)
    until([classic], shared_out)
    member = cluster.member("points", group="workers", protocol="consumer")
    stack.callback(member.close)
    with pytest.raises(ConfigurationError) as refused:
        until([member, classic], lambda _: False)
    for said in (own.bootstrap_servers, "the group workers", KafkaError(why).str()):
        assert said in refused.value.what
    assert "worker.group_protocol = classic" in refused.value.remedy
    assert not [line for line in caplog.messages if "CGRP" in line]  # lines of `debug`, which nobody asked for


@pytest.mark.real_broker
def test_a_missing_topic_is_told(broker: TestBroker, stack: ExitStack) -> None:
    """By a poll, not by silence."""
    member = Cluster(broker.connection).member(broker.name("nowhere"), group=broker.name("group"))
    stack.callback(member.close)
    with pytest.raises(TopicMissing):
        until([member], lambda _: False)
