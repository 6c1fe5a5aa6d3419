"""One broker as an object: everything that a trainer asks of it, so that a test can put another in its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from streamsvm.kafka.connection import Connection
from streamsvm.kafka.consuming import Input
from streamsvm.kafka.log import Mark, Marks, Place, Start, log_range, start_positions
from streamsvm.kafka.outbox import Outbox
from streamsvm.kafka.producing import Publisher
from streamsvm.kafka.reading import Stored, fetch_one, read_stored, read_to_end, stored_at
from streamsvm.kafka.records import Record
from streamsvm.kafka.topics import TopicInfo, TopicSpec, create_topics, describe_topic

TRANSACTION_TIMEOUT_S = 20.0
"""How long a version may take to be stored, and then to be committed. Each step of a publish has as much: on a broker
that is slow but alive, one may hold the main loop for four times this, which `http.stuck_after_s` must exceed."""


class Cluster:
    """The broker that a connection reaches; each method is the function of like name, and blocks and raises as it does.

    Parameters
    ----------
    connection : Connection
        Nothing blocks or fails here for want of a broker.
    transaction_timeout_s : float, optional
        Of its publishers; `TRANSACTION_TIMEOUT_S` by default.
    """

    def __init__(self, connection: Connection, *, transaction_timeout_s: float | None = None) -> None:
        self._connection = connection
        self._timeout_s = TRANSACTION_TIMEOUT_S if transaction_timeout_s is None else transaction_timeout_s
        self._marks = Marks(connection)

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

    def describe(self, topic: str) -> TopicInfo:
        """See `describe_topic`."""
        return describe_topic(self._connection, topic)

    def create(self, topics: Sequence[TopicSpec]) -> list[str]:
        """See `create_topics`."""
        return create_topics(self._connection, topics)

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        """See `log_range`."""
        return log_range(self._connection, topic, partition)

    def starts(self, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
        """See `start_positions`."""
        return start_positions(self._connection, topic, partitions, start)

    def leader_epoch(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the leader epoch that appended the record at an offset.

        None if there is no record (a transaction's marker, retention), or the broker tells no epochs.
        """
        if self._connection.embedded:
            return None
        record = fetch_one(self._connection, topic, partition, offset, self._connection.request_timeout_s)
        return record.leader_epoch if record is not None else None

    def newest(self, topic: str, keys: Iterable[bytes], timeout_s: float) -> dict[bytes, Record]:
        """Return the newest committed record of each key in partition 0, having read it to its end.

        The end is the read-uncommitted high watermark of when this is called, see `read_to_end`; but where a key was
        not found and the log has grown, what was added is read, too: compaction may have removed the record meanwhile
        for the sake of a newer one behind that end.
        """
        wanted, found, start = set(keys), dict[bytes, Record](), None
        while True:
            _, end = log_range(self._connection, topic, 0)
            for record in read_to_end(self._connection, topic, 0, start=start, timeout_s=timeout_s):
                if record.key in wanted:
                    found[record.key] = record
            if wanted <= found.keys() or log_range(self._connection, topic, 0)[1] <= end:
                return found
            start = end

    def newest_under(self, topic: str, prefix: bytes, timeout_s: float) -> dict[bytes, Record]:
        """Return the newest committed record of each key that begins so, tombstones included; else as `newest`."""
        found = {}
        for record in read_to_end(self._connection, topic, 0, timeout_s=timeout_s):
            if record.key is not None and record.key.startswith(prefix):
                found[record.key] = record
        return found

    def record(self, topic: str, offset: int, timeout_s: float) -> Record | None:
        """Return the committed record at an offset of partition 0, None if there is none; see `fetch_one`."""
        return fetch_one(self._connection, topic, 0, offset, timeout_s)

    def marks(self, places: Iterable[Place]) -> dict[Place, Mark]:
        """Return how far partitions go, for readers of committed records and for writers; see `Marks.of`."""
        return self._marks.of(places)

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
        """Return the wanted records of partitions, aborted ones too; see `read_stored`."""
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
        """Return the first record from an offset on, committed or not; see `stored_at`."""
        return stored_at(self._connection, topic, partition, offset, timeout_s)

    def publisher(self, transactional_id: str, writer: str = "") -> Publisher:
        """Make a publisher; `writer` names it in the stamps of its records."""
        return Publisher(self._connection, transactional_id, transaction_timeout_s=self._timeout_s, writer=writer)

    def outbox(self) -> Outbox:
        """Make an outbox that tries to deliver as long as it takes: an outage only delays."""
        return Outbox(self._connection, patience_s=None)

    def input(self, topic: str, group: str) -> Input:
        """Make an input."""
        return Input(self._connection, topic, group=group)
