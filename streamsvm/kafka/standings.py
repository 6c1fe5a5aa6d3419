"""The positions of a consumer group, and the attempt that committed each of them.

A publisher commits the positions of a batch in the same transaction as the batch's results, and names the attempt in
their metadata (`streamsvm.kafka.membership.MemberProgress`). The successor of a publisher that died reads them here:
they show whether the attempt was decided. A position *in doubt* belongs to a transaction without an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streamsvm.errors import TransientError
from streamsvm.kafka.client import Link, make_consumer
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import OutcomeUnknown, error_of

PROMPT_S: Final = 0.5
"""How long a position may take that no open transaction moves, in seconds."""

_PROMPTLY: Final[dict[str, Option]] = {
    "statistics.interval.ms": 0,
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 100,
}
"""Markers of a commit are written within milliseconds: the client asks again so soon, and less often later."""

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
    """Reads a group's positions, over connections of its own, without disturbing the member that polls.

    By consumers that belong to no group's generation: an administrator's client ends the process where the group's
    coordinator moves while it asks (librdkafka#5040).

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
        self._consumers: dict[str, Consumer] = {}

    def of(self, partitions: Iterable[int]) -> dict[int, GroupStanding]:
        """Return how far the group has come.

        Blocks at most the connection's request timeout, and `PROMPT_S` for each position in doubt and its neighbours.

        Raises
        ------
        BrokerUnavailable, TransientError
            If the group's coordinator does not answer in time.
        ConfigurationError
            If the broker forbids the request: it needs the permission to read as the group.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        if (stable := self._stable(wanted, PROMPT_S)) is not None:
            return stable
        # A stable position is not returned while a transaction that moves it is open; the other read returns the one
        # that was committed before.
        found = self._asked(wanted, "read_uncommitted", self._connection.request_timeout_s)
        doubted = self._doubted(wanted)
        return {partition: replace(one, in_doubt=partition in doubted) for partition, one in found.items()}

    def _doubted(self, partitions: list[int]) -> list[int]:
        """Return the partitions without a stable position."""
        if self._stable(partitions, PROMPT_S) is not None:
            return []
        if len(partitions) == 1:
            return partitions
        half = len(partitions) // 2
        return self._doubted(partitions[:half]) + self._doubted(partitions[half:])

    def _stable(self, partitions: list[int], timeout_s: float) -> dict[int, GroupStanding] | None:
        """Return the positions as soon as no open transaction moves one of them; None if that takes longer."""
        try:
            return self._asked(partitions, "read_committed", timeout_s)
        except TransientError:
            return None

    def _asked(self, partitions: list[int], isolation: str, timeout_s: float) -> dict[int, GroupStanding]:
        consumer = self._consumers.get(isolation) or make_consumer(
            self._connection, self._link, self._group, fixed={**_PROMPTLY, "isolation.level": isolation}
        )
        self._consumers[isolation] = consumer
        doing = f"ask for the positions of group {self._group}"
        try:
            answer = consumer.committed([TopicPartition(self._topic, one) for one in partitions], timeout_s)
        except KafkaException as error:
            raise self._link.failure(error_of(error), doing) from error
        finally:
            consumer.poll(0)  # serves callbacks, which know the reason of a failure
        for tp in answer:
            if tp.error is not None:
                raise self._link.failure(tp.error, doing)
        self._link.saw_answer()
        return {tp.partition: standing_of(tp) for tp in answer}

    def confirm(self, positions: Mapping[int, int], timeout_s: float) -> None:
        """Wait until positions that were committed in a transaction can be read; blocks at most about `timeout_s`.

        A commit is answered before its markers are written: see `Publisher.confirm`.

        Raises
        ------
        OutcomeUnknown
            If the markers did not come: a new publisher must find out.
        """
        if positions and self._stable(list(positions), timeout_s) is None:
            raise OutcomeUnknown(
                f"the positions of group {self._group} were committed, but could not be read back within "
                f"{timeout_s:g} s: a transaction is still open there, or no coordinator answers",
                "Create a new publisher, and read the group's positions before publishing again.",
            )


def standing_of(tp: TopicPartition) -> GroupStanding:
    """Return a committed position with what its metadata names; the metadata may be another program's."""
    offset = tp.offset if tp.offset >= 0 else None
    words = (tp.metadata or "").split(" ", 3)
    if len(words) < 4 or not words[1].isdecimal() or len(words[1]) > 15:
        return GroupStanding(offset)
    topic_id = "" if words[2] == NO_TOPIC_ID else words[2]
    return GroupStanding(offset, attempt=words[0], time_ms=int(words[1]), topic_id=topic_id, transactional_id=words[3])
