"""A member of a consumer group, and its right to say how far the group has come.

A program that publishes results of some records commits their positions in the same transaction, or else after it.
Both are safe only while the member has the partitions, which the group may give to others at any time. Hence the rules
here: rebalances are served inside `poll` and nowhere else, a batch that one interrupts is not returned, and the
`MemberProgress` of a batch carries the group's generation of that moment, by which the broker refuses a member that was
replaced since.

A member that has a slot (`streamsvm.kafka.group_slots`) is a static member: when it stops or dies, the group keeps its
place and its partitions until a successor takes the slot, which needs no rebalance, or until its session has run out.
The client library does not inform the broker when a static member leaves. So when a slot is given up for good, the
remaining members wait until the session has run out, and the session is therefore short.

Source: KIP-447; KIP-345 for static members. A commit that names no member at all would be let through unchecked: none
such is ever made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message as Consumed, TopicPartition

from streamsvm.errors import StateError, TransientError
from streamsvm.kafka.client import ASKS, CLOSE_TIMEOUT_S, FOLLOWS_PARTITIONS, SLICE_S, Link, close_within, make_consumer
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.consuming import DEFAULT_BUFFERED_BYTES, buffer_of
from streamsvm.kafka.failures import OffsetOutOfRange, error_of, text_of
from streamsvm.kafka.feed import Feed
from streamsvm.kafka.group_slots import Slot
from streamsvm.kafka.records import Record

REWIND_TIMEOUT_S = 2.0
"""How long one question for the group's positions may hold up a poll; it is asked again at the next."""

LEAVE_TIMEOUT_S = 3.0
"""How long a member that leaves waits for a rebalance that is under way."""

FROM_THE_FIRST: Final = OFFSET_BEGINNING
"""Where a partition is read from its first record on."""

NO_TOPIC_ID: Final = "-"
"""Stands in a position's metadata for the id of a topic that has none."""

_CLASSIC: dict[str, Option] = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
}
_LIVELINESS: dict[str, Option] = {"heartbeat.interval.ms": 1000, "session.timeout.ms": 6000}
"""A member learns of a rebalance at its heartbeat, and a cooperative one has two rounds: 3 s would make it six. The
partitions of a member that died wait for its session to run out; 6 s is the least that brokers allow by default
(``group.min.session.timeout.ms``), and the client's own default of 45 s is as long as nobody would read them."""
_OBSERVES: dict[str, Option] = {"isolation.level": "read_uncommitted", "statistics.interval.ms": 0}
_NEXT_GENERATION: dict[str, Option] = {"group.protocol": "consumer"}


@dataclass(frozen=True, slots=True)
class MemberProgress:
    """How far a member has come, for a publisher to commit with what was made of the records.

    Attributes
    ----------
    what : str
        Topic and group, for messages.
    offsets : tuple of TopicPartition
        The next offset to read in each partition.
    member : object
        The client's token of the group, the member and its generation.
    topic_id : str
        Of the topic whose positions these are; empty where the broker gives no ids.
    model : str
        Whose work they say is done.
    """

    what: str
    offsets: tuple[TopicPartition, ...]
    member: Any
    topic_id: str = ""
    model: str = ""

    def stamped(self, attempt: str) -> list[TopicPartition]:
        """Return the offsets with metadata: which attempt commits them, of which topic's log, and for which model.

        `position_of` reads them.
        """
        metadata = f"{attempt} {self.topic_id or NO_TOPIC_ID} {self.model}"
        return [TopicPartition(tp.topic, tp.partition, tp.offset, metadata) for tp in self.offsets]


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """How far a group says that it has come in one partition.

    Attributes
    ----------
    offset : int or None
        The next offset to read, as it was committed last; None where the group has no position.
    topic_id : str
        Of the topic in whose log it is; empty if whoever committed it did not say.
    model : str
        For which it was committed; empty if nobody said.
    """

    offset: int | None = None
    topic_id: str = ""
    model: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the group has a position."""
        return self.offset is not None


def position_of(tp: TopicPartition) -> GroupPosition:
    """Return a committed position with what its metadata names; the metadata may be another program's."""
    offset = tp.offset if tp.offset >= 0 else None
    words = (tp.metadata or "").split(" ")
    if len(words) >= 4 and words[1].isdecimal():  # of a scorer that had no records of its progress
        words = ["", words[2], ""]
    if len(words) != 3:
        return GroupPosition(offset)
    return GroupPosition(offset, "" if words[1] == NO_TOPIC_ID else words[1], words[2])


Placement = Callable[[Iterable[int], Mapping[int, GroupPosition], Mapping[int, int]], Mapping[int, int]]
"""Given partitions, the group's positions (none where its coordinator does not answer) and the first record that was
read of each, returns where each is read on."""


class Subscription:
    """A member of a consumer group: records come again unless their position is committed.

    Not thread-safe, except for `connected`. Partitions move between members cooperatively; what one
    had polled but not committed is polled again by the next.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    topic : str
        The topic.
    group : str
        The group that shares the work.
    max_buffered_bytes : int
        How much is fetched ahead of `poll`, in bytes; one fetched batch may come on top.
    slot : Slot, optional
        The slot in which to be a static member; without one, and on the embedded broker, a member is dynamic.
    client_id : str
        How the group lists this member, if not by the connection's name.
    topic_id : str
        Of the topic whose positions are committed; empty where the broker gives no ids.
    model : str
        For which they are committed.
    place : callable
        Says where partitions are read on. `poll` tries again at a `TransientError`, and raises any other.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        group: str,
        max_buffered_bytes: int = DEFAULT_BUFFERED_BYTES,
        slot: Slot | None = None,
        client_id: str = "",
        topic_id: str = "",
        model: str = "",
        place: Placement,
    ) -> None:
        self._topic = topic
        self._group = group
        self._topic_id, self._model = topic_id, model
        self._place = place
        self._classic = not connection.embedded
        self._static = self._classic and slot is not None
        self._connection, self._link = connection, Link(connection)
        self._observer: Consumer | None = None
        self._astray = self._has_foreign = False
        self._unplaced = ""
        self._first: dict[int, int] = {}
        self._placed: dict[int, int] = {}
        self._consumer = make_consumer(
            connection,
            self._link,
            group,
            defaults={**FOLLOWS_PARTITIONS, **(_LIVELINESS if self._classic else {})},
            fixed={
                **buffer_of(max_buffered_bytes),
                # The classic protocol is known to every broker; the embedded one takes seconds for it,
                # and lets nobody into a group that was left until the last session has run out.
                **(_CLASSIC if self._classic else _NEXT_GENERATION),
                **({"group.instance.id": slot.instance_id} if slot is not None and self._classic else {}),
                **({"client.id": client_id} if client_id else {}),
            },
        )
        self._feed = Feed(self._consumer, self._link, connection, topic, group=group, on_unplaced=self._place_late)
        self._subscribe()

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_given, on_revoke=self._on_taken, on_lost=self._on_taken
        )

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Record]:
        """Return at most `max_records` records as soon as there are any; blocks at most `timeout_s`.

        After a `rewind`, and after a rebalance that took partitions, it first asks where the group stands, which may
        take `REWIND_TIMEOUT_S` more. Call it at least every ``max.poll.interval.ms`` (5 minutes), or the partitions go
        to others.

        Raises
        ------
        StateError
            If `place` raises it.
        Fenced
            If another member has joined the group in this one's slot: close this one, its records are read again.
        TopicMissing, ConfigurationError, FatalError
            As for `Input.poll`.
        """
        if self._has_foreign:
            # A member of this slot that read another topic left a moment ago, and a group keeps the assignment of a
            # slot for as long as a session. A member that joins once more is asked what it subscribes to.
            self._has_foreign = False
            self._leave()
            self._subscribe()
            return []
        if self._astray:
            self._astray = not self._go_to_positions(self._consumer.assignment())
        try:
            records = self._feed.take(max_records, timeout_s, gather=False)
        except OffsetOutOfRange:
            # The log was cut while it was read: whoever places says where to go on.
            self._feed.resume()
            self._astray = True
            return []
        if self._astray:  # the batch may hold records of partitions that are another member's by now
            return []
        for record in records:
            self._first.setdefault(record.partition, record.offset)
        return records

    def begin_again(self) -> None:
        """Read all that is assigned from its first record on; a rebalance or a `rewind` places it again."""
        self._feed.resume()
        try:
            self._move({tp.partition: FROM_THE_FIRST for tp in self._consumer.assignment()})
        except KafkaException as error:  # of a member that was fenced meanwhile, which the next `poll` says
            self._unplaced = text_of(error_of(error))

    def follow(self, topic_id: str) -> None:
        """Go over to the topic that has the name now: the next `poll` asks where the group stands in that one."""
        self._topic_id = topic_id
        self._first.clear()
        self._placed.clear()
        self._feed.resume()
        self.rewind()

    def rewind(self) -> None:
        """Read again, from the next `poll` on, what was polled and not committed."""
        self._astray = True

    def progress(self, positions: Mapping[int, int]) -> MemberProgress:
        """Return the next offsets to read as a publisher can commit them; ask for it before the next `poll`.

        Raises
        ------
        TransientError
            If this process is not a member of the group now: its records may be another's. Rewind, and poll again.
        """
        member = self._consumer.consumer_group_metadata()
        if not self._consumer.memberid():  # asked last: a membership cannot come back before the next poll
            raise TransientError(f"the membership in group {self._group} was lost", "Continue polling.")
        return MemberProgress(
            f"positions of {self._topic} as {self._group}",
            tuple(self._offsets(positions)),
            member,
            topic_id=self._topic_id,
            model=self._model,
        )

    def commit(self, positions: Mapping[int, int]) -> None:
        """Commit the next offsets to read, and wait for the broker; partitions since lost are left out.

        Blocks at most about the connection's request timeout.

        Raises
        ------
        TransientError
            If it failed for now, or another member holds the partitions by now: go on polling.
        ConfigurationError
            If the broker forbids it.
        """
        assigned = {tp.partition for tp in self._consumer.assignment()}
        offsets = self._offsets({p: offset for p, offset in positions.items() if p in assigned})
        if not offsets:
            return
        doing = f"commit positions of {self._topic} as {self._group}"
        try:
            committed = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise self._link.failure(error_of(error), doing) from error
        for tp in committed:
            if tp.error is not None:
                raise self._link.failure(tp.error, doing)

    @property
    def joined(self) -> bool:
        """Whether the group has let this member in, as far as the last `poll` knows."""
        return bool(self._consumer.memberid())

    @property
    def assigned(self) -> tuple[int, ...]:
        """The partitions of this member, as of the last `poll`."""
        return tuple(tp.partition for tp in self._consumer.assignment())

    def backlog(self) -> dict[int, int]:
        """Return the records between what was polled and the end, for each partition of this member; never blocks.

        Ends are those of the last fetch, without `in_open_transactions`. A partition for which no fetch was
        answered yet is left out, and so is every one after a `rewind`, until the next `poll` has gone back.
        """
        if self._astray:
            return {}
        try:
            placed = self._consumer.position(self._consumer.assignment())
        except KafkaException:
            return {}
        found = {tp.partition: self._behind(tp) for tp in placed}
        return {partition: records for partition, records in found.items() if records is not None}

    def in_open_transactions(self) -> dict[int, int]:
        """Return how many offsets of each partition are withheld; see `Input.in_open_transactions`."""
        return {partition: count for (topic, partition), count in self._link.open.items() if topic == self._topic}

    def _behind(self, tp: TopicPartition) -> int | None:
        """Return the records behind a position; its own, or the end that was met last, past transactions' markers."""
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, tp.partition), cached=True)
        except KafkaException:
            return None
        placed = self._placed.get(tp.partition, OFFSET_END)
        begun = low if placed == FROM_THE_FIRST else placed
        at = max(tp.offset, self._feed.ends.get(tp.partition, -1), begun)
        high -= self._link.open.get((self._topic, tp.partition), 0)
        return max(0, high - at) if high >= 0 and at >= 0 else None

    def connected(self) -> bool:
        """Return whether a broker's connection was up at the last `poll`; any thread may ask."""
        return self._link.up

    @property
    def unplaced(self) -> str:
        """Why the last `poll` could not ask where the group stands, and so returned nothing; empty if it could.

        A broker does not return it while any transaction is open that commits positions of the group.
        """
        return self._unplaced

    def close(self) -> None:
        """Leave the group, so that others take over at once; blocks at most `LEAVE_TIMEOUT_S` and `CLOSE_TIMEOUT_S`.

        A static member only goes: the group keeps its slot until a successor comes, or the session has run out.
        """
        if self._classic and not self._static:
            self._leave()
        if self._observer is not None:
            close_within(self._observer, CLOSE_TIMEOUT_S)
        close_within(self._consumer, CLOSE_TIMEOUT_S)

    def _leave(self) -> None:
        """Leave the group, as soon as a rebalance that is under way allows it.

        The client's `close` alone tells the broker nothing of a member that holds no partition just then. The group
        would go on counting it, and give it partitions that nobody reads until its session has run out.
        """
        deadline = time.monotonic() + LEAVE_TIMEOUT_S
        with suppress(KafkaException):
            self._consumer.unsubscribe()
            while self._consumer.memberid() and time.monotonic() < deadline:
                self._consumer.consume(1, SLICE_S)

    def _offsets(self, positions: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]

    def _on_given(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        # The client takes up the group's position by itself, whoever committed it.
        self._astray |= bool(partitions)
        self._has_foreign = any(tp.topic != self._topic for tp in partitions)

    def _on_taken(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self._astray = True
            self._first.pop(tp.partition, None)
            self._placed.pop(tp.partition, None)

    def _go_to_positions(self, partitions: list[TopicPartition]) -> bool:
        """Read partitions on from where they are placed; return whether that could be told."""
        try:
            hints = self._hints(partitions)
            self._move(self._place([tp.partition for tp in partitions], hints, self._first))
        except TransientError as error:
            self._unplaced = f"{error.what}{self._unplaced and f' ({self._unplaced})'}"
            return False
        except KafkaException as error:  # a member that was fenced meanwhile cannot be moved: `poll` says so
            self._unplaced = text_of(error_of(error))
            return False
        self._unplaced = ""
        return True

    def _hints(self, partitions: list[TopicPartition]) -> dict[int, GroupPosition]:
        """Return the group's positions; none while its coordinator does not answer.

        Asked by a client that is no member, and takes the position before one that an open transaction moves: nobody
        may ever end that transaction. An administrator's client would end the process where the coordinator moves while
        it asks (librdkafka#5040).
        """
        self._unplaced = ""
        if self._observer is None:
            self._observer = make_consumer(self._connection, self._link, self._group, defaults=ASKS, fixed=_OBSERVES)
        try:
            committed = self._observer.committed(partitions, REWIND_TIMEOUT_S) if partitions else []
        except KafkaException as error:
            self._unplaced = text_of(error_of(error))
            return {}
        finally:
            self._observer.poll(0)  # serves callbacks
        failed = [tp.error for tp in committed if tp.error is not None]
        if failed:
            self._unplaced = text_of(failed[0])
            return {}
        return {tp.partition: position_of(tp) for tp in committed}

    def _move(self, positions: Mapping[int, int]) -> None:
        """Read on from these offsets."""
        self._placed |= positions
        for partition, offset in positions.items():
            if offset == FROM_THE_FIRST:
                self._first.pop(partition, None)
        # Taken out and put back, not sought: what was fetched ahead must go, also from a partition in error.
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition) for partition in positions])
        self._consumer.incremental_assign(self._offsets(positions))

    def _place_late(self, partitions: set[int], dropped: Sequence[Consumed]) -> None:
        """Place partitions of which the client says that the group has no position.

        It may say so late, when they were read already, or even committed. So the group is asked again, and without a
        position the first record that came is the place.
        """
        # Some may have been taken away after the client had asked for their positions.
        assigned = [tp for tp in self._consumer.assignment() if tp.partition in partitions]
        for message in dropped:
            if any(tp.partition == message.partition() for tp in assigned):
                self._first.setdefault(message.partition() or 0, message.offset() or 0)
        try:
            self._astray |= not self._go_to_positions(assigned)
        except StateError:  # raised by the next `poll`, which asks for all partitions
            self._astray = True
