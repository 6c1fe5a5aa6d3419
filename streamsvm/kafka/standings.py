"""How far a consumer group has come, and which attempt moved it there.

A publisher commits the positions of a batch in the transaction of what was made of it, and says in their metadata which
attempt that was (`streamsvm.kafka.membership.MemberProgress`). Who comes after a publisher that died reads it here: the
positions tell whether the attempt was decided, and a position that is *in doubt* has a transaction without an end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streamsvm.errors import TransientError
from streamsvm.kafka.client import SLICE_S, Link, make_admin
from streamsvm.kafka.connection import Connection
from streamsvm.kafka.failures import OutcomeUnknown, error_of

_SHORTEST_LOOK_S = 0.002

NO_TOPIC_ID: Final = "-"
"""Stands in a position's metadata for the id of a topic that has none."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """How far a group has come in one partition.

    Attributes
    ----------
    offset : int or None
        The next offset to read, as it was committed last; None where the group has no position.
    in_doubt : bool
        Whether a transaction that moves it has no end yet: nobody may read on from `offset` then.
    attempt, transactional_id : str
        Which attempt of whom moved it there; empty where that is not said.
    time_ms : int
        When that attempt added the position, in milliseconds since the epoch; 0 where that is not said.
    topic_id : str
        Of the topic in whose log the position is; empty where that is not said.
    """

    offset: int | None = None
    in_doubt: bool = False
    attempt: str = ""
    transactional_id: str = ""
    time_ms: int = 0
    topic_id: str = ""


class Standings:
    """Asks how far a group has come, over one kept connection, without disturbing the member that polls.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    group, topic : str
    """

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._link = Link(connection)
        self._admin: AdminClient | None = None

    def of(self, partitions: Iterable[int]) -> dict[int, GroupStanding]:
        """Return how far the group has come; blocks at most twice the connection's request timeout.

        Raises
        ------
        BrokerUnavailable, TransientError
            If the group's coordinator does not say it in time.
        ConfigurationError
            If the broker forbids the question: who may read as the group may ask.
        """
        found = self._ask(partitions, require_stable=True)
        doubted = [partition for partition, one in found.items() if one.in_doubt]
        committed = self._ask(doubted, require_stable=False)
        return {**found, **{partition: replace(one, in_doubt=True) for partition, one in committed.items()}}

    def _ask(self, partitions: Iterable[int], *, require_stable: bool) -> dict[int, GroupStanding]:
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        if not wanted:
            return {}
        if self._admin is None:
            self._admin = make_admin(self._connection, self._link)
        doing = f"ask for the positions of group {self._group}"
        (future,) = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group, wanted)],
            require_stable=require_stable,
            request_timeout=self._connection.request_timeout_s,
        ).values()
        try:
            answer = future.result().topic_partitions
        except KafkaException as error:
            self._admin.poll(0)  # serves the callbacks that know why
            self._admin = None  # the next question is asked with what a new client finds out
            raise self._link.failure(error_of(error), doing) from error
        self._link.saw_answer()
        found = {}
        for tp in answer:
            if tp.error is not None and tp.error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise self._link.failure(tp.error, doing)
            found[tp.partition] = GroupStanding(in_doubt=True) if tp.error is not None else standing_of(tp)
        return found

    def confirm(self, positions: Mapping[int, int], timeout_s: float) -> None:
        """Wait until positions that were committed in a transaction can be read; blocks at most about `timeout_s`.

        A commit is answered before its markers are written: see `Publisher.confirm`.

        Raises
        ------
        OutcomeUnknown
            If the markers did not come: a new publisher must find out.
        """
        deadline, pause_s = time.monotonic() + timeout_s, _SHORTEST_LOOK_S
        while True:
            said = "a transaction is still open there"
            try:
                if not any(standing.in_doubt for standing in self.of(positions).values()):
                    return
            except TransientError as error:
                said = error.what
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(
                    f"the positions of group {self._group} were committed, but could not be read back within "
                    f"{timeout_s:g} s: {said}",
                    "Create a new publisher, and read the group's positions before publishing again.",
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, SLICE_S)


def standing_of(tp: TopicPartition) -> GroupStanding:
    """Return what a committed position says; its metadata may be another program's."""
    offset = tp.offset if tp.offset >= 0 else None
    words = (tp.metadata or "").split(" ", 3)
    if len(words) < 4 or not words[1].isdecimal() or len(words[1]) > 15:
        return GroupStanding(offset)
    topic_id = "" if words[2] == NO_TOPIC_ID else words[2]
    return GroupStanding(offset, attempt=words[0], time_ms=int(words[1]), topic_id=topic_id, transactional_id=words[3])
