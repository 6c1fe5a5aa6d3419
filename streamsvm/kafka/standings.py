"""The positions of a consumer group, and the attempt that committed each of them.

A publisher commits the positions of a batch in the same transaction as the batch's results, and names the attempt in
their metadata (`streamsvm.kafka.membership.MemberProgress`). The successor of a publisher that died reads them here:
they show whether the attempt was decided. A position *in doubt* belongs to a transaction without an end.
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
        Whether a transaction that moves it has no end yet: no member may read on from `offset` then.
    attempt, transactional_id : str
        The attempt that committed it, and its publisher's id; empty if the metadata has none.
    time_ms : int
        When that attempt added the position, in milliseconds since the epoch; 0 if the metadata has none.
    topic_id : str
        Of the topic in whose log the position is; empty if the metadata has none.
    """

    offset: int | None = None
    in_doubt: bool = False
    attempt: str = ""
    transactional_id: str = ""
    time_ms: int = 0
    topic_id: str = ""


class Standings:
    """Reads a group's positions, over a connection of its own, without disturbing the member that polls.

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
            If the group's coordinator does not answer in time.
        ConfigurationError
            If the broker forbids the request: it needs the permission to read as the group.
        """
        # Two requests where there is a doubt: a stable read refuses the position of an open transaction, and the other
        # read returns the one that was committed before.
        found = self._ask(partitions, require_stable=True)
        doubted = [partition for partition, one in found.items() if one.in_doubt]
        committed = self._ask(doubted, require_stable=False)
        return {**found, **{partition: replace(one, in_doubt=True) for partition, one in committed.items()}}

    def _ask(self, partitions: Iterable[int], *, require_stable: bool) -> dict[int, GroupStanding]:
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        if not wanted:
            return {}
        self._admin = self._admin or make_admin(self._connection, self._link)
        doing = f"ask for the positions of group {self._group}"
        (future,) = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group, wanted)],
            require_stable=require_stable,
            request_timeout=self._connection.request_timeout_s,
        ).values()
        try:
            answer = self._link.answer(future).topic_partitions
        except KafkaException as error:
            # Callbacks give the reason of a failure. A new client is made for the next request, because this one may
            # have cached a coordinator that is gone.
            self._admin.poll(0)
            self._admin = None
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
            reason = "a transaction is still open there"
            try:
                if not any(standing.in_doubt for standing in self.of(positions).values()):
                    return
            except TransientError as error:
                reason = error.what
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(
                    f"the positions of group {self._group} were committed, but could not be read back within "
                    f"{timeout_s:g} s: {reason}",
                    "Create a new publisher, and read the group's positions before publishing again.",
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, SLICE_S)


def standing_of(tp: TopicPartition) -> GroupStanding:
    """Return a committed position with what its metadata names; the metadata may be another program's."""
    offset = tp.offset if tp.offset >= 0 else None
    words = (tp.metadata or "").split(" ", 3)
    if len(words) < 4 or not words[1].isdecimal() or len(words[1]) > 15:
        return GroupStanding(offset)
    topic_id = "" if words[2] == NO_TOPIC_ID else words[2]
    return GroupStanding(offset, attempt=words[0], time_ms=int(words[1]), topic_id=topic_id, transactional_id=words[3])
