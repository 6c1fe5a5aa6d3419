"""The one door to Kafka: whatever reaches a broker, outside of this package, is a method of `Cluster` or made by one.

A command, a reader of the registry and a daemon take a `Cluster`, so that a test can put another in its place.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from streamsvm.kafka.connection import Connection, Option, connection_of
from streamsvm.kafka.consuming import Input
from streamsvm.kafka.group_member import GroupMember
from streamsvm.kafka.group_slots import GroupSlots, Process, Slot
from streamsvm.kafka.log import Marks, Place, Start, Watermarks, log_range, log_ranges, start_positions
from streamsvm.kafka.membership import Placement, Subscription
from streamsvm.kafka.outbox import PATIENCE_S, Outbox
from streamsvm.kafka.producing import Publisher
from streamsvm.kafka.reading import RecordFetcher, Stored, Tail, fetch_one, read_stored, read_to_end, stored_at
from streamsvm.kafka.records import Record
from streamsvm.kafka.topics import TopicInfo, Topics, TopicSpec, create_topics

TRANSACTION_TIMEOUT_S = 20.0
"""How long a version may take to be stored, and then to be committed. Each step of a publish has as much: on a broker
that is slow but alive, one may hold the main loop for four times this, which the two minutes of /healthz exceed."""

KNOWN_AFTER_S = 10.0
"""Seconds after `create` in which one of several brokers may not know the topic yet, so that `describe` asks again."""


class Cluster:
    """The broker that a connection reaches.

    Safe from any thread. `marks`, `topic_id`, `describe` keep a client. Every other method makes one of its own, or
    returns an object that has one; see the object's class for what blocks, and what it raises.

    Parameters
    ----------
    connection : Connection, or mapping of librdkafka's options
        Nothing blocks or fails here for want of a broker.
    transaction_timeout_s : float, optional
        Of its publishers; `TRANSACTION_TIMEOUT_S` by default.

    Raises
    ------
    ConfigurationError
        If `connection` is neither, or an option may not be set.
    """

    def __init__(
        self, connection: Connection | Mapping[str, Option], *, transaction_timeout_s: float | None = None
    ) -> None:
        self._connection = connection_of(connection)
        self._timeout_s = TRANSACTION_TIMEOUT_S if transaction_timeout_s is None else transaction_timeout_s
        self._marks = Marks(self._connection)
        self._topics = Topics(self._connection)
        self._made: dict[str, float] = {}

    @property
    def connection(self) -> Connection:
        """How it is reached, for a process of one's own."""
        return self._connection

    @property
    def embedded(self) -> bool:
        """Whether it is the client library's own broker: no transactions, no admin calls."""
        return self._connection.embedded

    @property
    def max_message_bytes(self) -> int:
        """Most bytes that the client sends in one message."""
        return self._connection.max_message_bytes

    @property
    def servers(self) -> str:
        """Its address, for people."""
        return self._connection.servers

    def keeping(self) -> AbstractContextManager[None]:
        """Keep the clients of one question for the next until the end of the block; for who asks many in a row.

        A client that is kept saves the twenty milliseconds in which a new one finds its broker.
        """
        return self._connection.kept.keeping()

    # ------------------------------------------------------------------ topics

    def describe(self, topic: str) -> TopicInfo:
        """Return what the broker says about a topic.

        Blocks at most twice the connection's request timeout. On the embedded broker asking for a topic creates it.

        Raises
        ------
        TopicMissing
            If there is no such topic; the message names topics with similar names.
        BrokerUnavailable
            If no broker answers in time.
        ConfigurationError
            If the broker refuses us.
        """
        return self._topics.describe(topic, self._made.get(topic, 0.0))

    def topic_id(self, topic: str) -> str | None:
        """Return a topic's id now; None where the broker gives none. One request, over a connection that is kept.

        Blocks at most the connection's request timeout.

        Raises
        ------
        TopicMissing, BrokerUnavailable, ConfigurationError
            As for `describe`.
        """
        return self._topics.id_of(topic)

    def create(self, topics: Sequence[TopicSpec]) -> list[str]:
        """Create the topics that do not exist, wait until they can be used, and return their names.

        Topics that exist are left as they are. Blocks at most a few times the connection's request timeout. On the
        embedded broker settings do not apply.

        Raises
        ------
        ConfigurationError
            If the broker refuses a specification or us.
        BrokerUnavailable
            If no broker answers in time.
        """
        created = create_topics(self._connection, topics)
        self._made |= dict.fromkeys((spec.name for spec in topics), time.monotonic() + KNOWN_AFTER_S)
        return created

    # ----------------------------------------------------- questions about a log

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        """Return a partition's first offset and the one after its last, whether committed or not.

        Blocks at most three times the connection's request timeout.

        Raises
        ------
        TopicMissing
            If there is no such topic or partition.
        BrokerUnavailable
            If no broker answers in time.
        """
        return log_range(self._connection, topic, partition)

    def log_ranges(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the same of several partitions of a topic, over one connection; see `log_range`."""
        return log_ranges(self._connection, topic, partitions)

    def starts(self, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
        """Return the position of each partition at which to start reading.

        Blocks at most a few times the connection's request timeout.

        Parameters
        ----------
        topic : str
        partitions : iterable of int
        start : "earliest", "latest" or aware datetime
            The log's first record; the end of what is committed now (records of transactions still open lie behind it,
            none is skipped); or the first record that is not older, the end if all are.

        Raises
        ------
        ConfigurationError
            If a time has no zone, or the embedded broker is asked for a time, which it cannot search.
        TopicMissing, BrokerUnavailable
            As for `log_range`.
        """
        return start_positions(self._connection, topic, partitions, start)

    def leader_epoch(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the leader epoch that appended the record at an offset.

        None if there is no record (a transaction's marker, retention), or the broker tells no epochs.
        """
        if self._connection.embedded:
            return None
        record = fetch_one(self._connection, topic, partition, offset, self._connection.request_timeout_s)
        return record.leader_epoch if record is not None else None

    def marks(self, places: Iterable[Place]) -> dict[Place, Watermarks]:
        """Return how far partitions go, for readers of committed records and for writers; see `Marks.of`."""
        return self._marks.of(places)

    # ------------------------------------------------------------------ records

    def read_to_end(
        self, topic: str, partition: int, *, start: int | None = None, timeout_s: float
    ) -> Iterator[Record]:
        """Read a partition up to its end as of now: every committed record below it, then stop.

        The end is the read-uncommitted high watermark, taken before this returns. Control records and aborted ones at
        the tail are passed over. A transaction still open below the end is waited for: the iterator never ends early,
        since a committed record might yet appear there.

        Parameters
        ----------
        topic, partition
            What to read.
        start : int, optional
            The first offset to read; the log's first by default.
        timeout_s : float
            How long, in seconds, the iterator waits without any progress.

        Returns
        -------
        iterator of Record
            It holds a connection until it is exhausted or closed. Its steps may block, and raise `BrokerUnavailable`
            after `timeout_s` without progress, or `TransientError` if by then a transaction is still open below the
            end.

        Raises
        ------
        OffsetOutOfRange
            If `start` lies outside the log.
        TopicMissing, BrokerUnavailable
            As for `log_range`.
        """
        return read_to_end(self._connection, topic, partition, start=start, timeout_s=timeout_s)

    def newest(self, topic: str, keys: Iterable[bytes], timeout_s: float) -> dict[bytes, Record]:
        """Return the newest committed record of each key in partition 0, having read it to its end.

        The end is the read-uncommitted high watermark of when this is called, see `read_to_end`; but where a key was
        not found and the log has grown, what was added is read, too: compaction may have removed the record meanwhile
        for the sake of a newer one behind that end.
        """
        wanted, found, start = set(keys), dict[bytes, Record](), None
        while True:
            _, end = log_range(self._connection, topic, 0)
            for record in self.read_to_end(topic, 0, start=start, timeout_s=timeout_s):
                if record.key in wanted:
                    found[record.key] = record
            if wanted <= found.keys() or log_range(self._connection, topic, 0)[1] <= end:
                return found
            start = end

    def newest_under(self, topic: str, prefix: bytes, timeout_s: float) -> dict[bytes, Record]:
        """Return the newest committed record of each key that begins so, tombstones included; else as `newest`."""
        found = {}
        for record in self.read_to_end(topic, 0, timeout_s=timeout_s):
            if record.key is not None and record.key.startswith(prefix):
                found[record.key] = record
        return found

    def record(self, topic: str, offset: int, timeout_s: float) -> Record | None:
        """Return the committed record at an offset of partition 0, or None; see `RecordFetcher.fetch_one`."""
        return fetch_one(self._connection, topic, 0, offset, timeout_s)

    def stored(
        self,
        places: Iterable[Place],
        wanted: Callable[[Record], bool],
        *,
        start: int | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        timeout_s: float,
    ) -> list[Stored]:
        """Read every record of partitions up to their ends as of now, aborted ones too, and keep those that are wanted.

        All partitions of a topic are read over one connection, and so in about the time of one.

        Parameters
        ----------
        places : iterable of (str, int)
            Topics and partitions.
        wanted : callable
            Tells of a record whether to keep it.
        start : int, optional
            Begin at this offset; at the log's first by default.
        since_ms : int, optional
            Begin with the first record that is not older, in milliseconds since the epoch, if that comes later.
        until_ms : int, optional
            End before the first record that is not older.
        timeout_s : float
            How long, in seconds, it waits without any progress.

        Returns
        -------
        list of Stored
            The partitions one after the other, each in its order.

        Raises
        ------
        TransientError
            If a transaction is open below the last wanted record: whether its records are committed is not known yet.
        TopicMissing, BrokerUnavailable
            As for `log_range`.
        """
        by_topic = defaultdict[str, list[int]](list)
        for topic, partition in places:
            by_topic[topic].append(partition)
        found = list[Stored]()
        for topic, partitions in by_topic.items():
            found += read_stored(
                self._connection,
                topic,
                partitions,
                wanted,
                start=start,
                since_ms=since_ms,
                until_ms=until_ms,
                timeout_s=timeout_s,
            )
        return found

    def stored_at(self, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
        """Return the record at an offset, or the first one after it, committed or not; None if there is none.

        Raises
        ------
        TopicMissing, BrokerUnavailable
            As for `log_range`.
        """
        return stored_at(self._connection, topic, partition, offset, timeout_s)

    # ------------------------------------------------------------------ readers

    def reader(self) -> RecordFetcher:
        """Make a reader of single records."""
        return RecordFetcher(self._connection)

    def tail(self, topic: str, partition: int, offset: int) -> Tail:
        """Make a follower of a partition, from an offset on; blocks and raises as `Tail` says."""
        return Tail(self._connection, topic, partition, offset)

    def input(self, topic: str, group: str | None) -> Input:
        """Make a reader whose positions are the caller's; observers see them under `group`, None if nobody does."""
        return Input(self._connection, topic, group=group)

    def subscription(
        self,
        topic: str,
        *,
        group: str,
        slot: Slot | None = None,
        client_id: str = "",
        topic_id: str = "",
        model: str = "",
        place: Placement,
    ) -> Subscription:
        """Make a member of a group that shares a topic."""
        return Subscription(
            self._connection,
            topic,
            group=group,
            slot=slot,
            client_id=client_id,
            topic_id=topic_id,
            model=model,
            place=place,
        )

    def slots(self, group: str, *, process: Process | None = None) -> GroupSlots:
        """Make the slots of a group, as this process claims them."""
        return GroupSlots(self._connection, group, process=process)

    def member(self, topic: str, *, group: str) -> GroupMember:
        """Make a member of a group that says whose partitions are whose, and reads nothing."""
        return GroupMember(self._connection, topic, group=group)

    # ------------------------------------------------------------------ writers

    def publisher(
        self, transactional_id: str, writer: str = "", *, transaction_timeout_s: float | None = None
    ) -> Publisher:
        """Make the one writer of a transactional id.

        Parameters
        ----------
        transactional_id : str
        writer : str
            Names it in the stamps of its records.
        transaction_timeout_s : float, optional
            Of its transactions, in seconds; by default the cluster's.
        """
        timeout_s = self._timeout_s if transaction_timeout_s is None else transaction_timeout_s
        return Publisher(self._connection, transactional_id, transaction_timeout_s=timeout_s, writer=writer)

    def outbox(self, *, patience_s: float | None = PATIENCE_S) -> Outbox:
        """Make an outbox that tries to deliver each message for so many seconds; None: for as long as it takes."""
        return Outbox(self._connection, patience_s=patience_s)
