"""A broker in memory: logs, transactions with fencing, and all that can go wrong between it and a producer.

It keeps what research on Kafka 4 and librdkafka without KIP-890 showed: a transactional id has a producer id and an
epoch; whoever initialises last fences the others and aborts what is open; EndTxn names the epoch, not the transaction,
so one that arrives late ends whatever that epoch has open then; an id that expires gets a new producer id at epoch 0.
Control records take offsets; read_committed ends at the last stable offset.

It is no kinder than Kafka about the end of a transaction: the coordinator decides, and takes the transaction for
finished; the marker of each partition is a matter of its own. It may be late, or lost for good, in some partitions or
in all, whatever was decided. What has no marker holds readers up, and the next marker of the same producer id in that
partition, of whatever transaction, decides about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from streamsvm.kafka import Record

Fate = Literal["written", "late", "lost"]
"""What becomes of the marker of one partition."""


class Refused(Exception):
    """The broker's answer to a producer: `FENCED`, `UNKNOWN` (the id has expired) or `INVALID` (no transaction)."""


FENCED, UNKNOWN, INVALID = "FENCED", "UNKNOWN", "INVALID"


@dataclass(frozen=True)
class Entry:
    """One place of a log: a record, or the control record that ends a transaction.

    `producer_id` is that of the transactional producer that wrote it; None outside of transactions. `time_ms` is the
    record's timestamp; None for one that follows from its offset.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    producer_id: int | None = None
    control: bool = False
    leader_epoch: int = 0
    time_ms: int | None = None


@dataclass(frozen=True)
class Marker:
    """A marker on its way to a partition."""

    topic: str
    producer_id: int
    commit: bool


class Log:
    """One partition: the index of an entry is its offset; None where compaction took one."""

    def __init__(self) -> None:
        self.first = 0
        self.entries: list[Entry | None] = []
        self.editions: list[list[Entry | None]] = []
        self.leader_epoch = 0
        self.pending: dict[int, list[int]] = {}
        self._aborted: set[int] = set()
        self._compacted: dict[int, Entry] = {}

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset: before it every transaction has its marker."""
        return min((offsets[0] for offsets in self.pending.values()), default=self.end)

    def append(self, entry: Entry) -> int:
        """Append, and return the offset."""
        self.entries.append(entry)
        if entry.producer_id is not None and not entry.control:
            self.pending.setdefault(entry.producer_id, []).append(self.end - 1)
        return self.end - 1

    def mark(self, producer_id: int, *, commit: bool) -> list[int]:
        """Write a marker: it ends whatever of the producer has none; return the offsets that are committed by it."""
        offsets = self.pending.pop(producer_id, [])
        self.append(Entry(None, producer_id=producer_id, control=True))
        if not commit:
            self._aborted.update(offsets)
        return offsets if commit else []

    def readable(self, offset: int) -> bool:
        """Whether a read_committed reader may see a place, once the last stable offset has passed it."""
        entry = self.entries[offset]
        return entry is not None and not entry.control and offset not in self._aborted

    def committed(self, start: int = 0, stop: int | None = None) -> list[tuple[int, Entry]]:
        """Return what a read_committed reader gets from `start` on, with offsets."""
        stop = self.stable if stop is None else min(stop, self.stable)
        places = ((offset, self.entries[offset]) for offset in range(max(start, self.first), stop))
        return [(offset, entry) for offset, entry in places if entry and self.readable(offset)]

    def compact(self) -> list[Entry]:
        """Keep the newest record of each key below the last stable offset; return the aborted records that go."""
        newest, aborted = {entry.key: offset for offset, entry in self.committed()}, {}
        for offset in range(self.first, self.stable):
            entry = self.entries[offset]
            if entry and (not self.readable(offset) or newest[entry.key] != offset):
                self.entries[offset] = None
                if offset in self._aborted:
                    aborted[offset] = entry
        self._compacted |= aborted
        return list(aborted.values())

    def restore(self) -> bool:
        """Put back the aborted records that compaction took, as a person can; tell whether there were any."""
        for offset, entry in self._compacted.items():
            self.entries[offset] = entry
        restored = bool(self._compacted)
        self._compacted.clear()
        return restored

    def truncate(self, end: int) -> None:
        """Lose everything from `end` on, as an unclean election does: a new leader epoch begins."""
        self.editions.append(list(self.entries))
        del self.entries[end:]
        self.leader_epoch += 1

    def record(self, topic: str, partition: int, offset: int, entry: Entry) -> Record:
        """Return an entry as the client would."""
        time_ms = 1_700_000_000_000 + offset if entry.time_ms is None else entry.time_ms
        return Record(topic, partition, offset, entry.key, entry.value, entry.headers, time_ms, entry.leader_epoch)


@dataclass
class Identity:
    """What the coordinator knows of a transactional id."""

    producer_id: int
    epoch: int = 0
    transaction: list[str] | None = None
    """The topics that the open transaction has records in; None if none is open."""
    last_end: bool | None = None
    markers: list[Marker] = field(default_factory=list)
    """Those that are late; the coordinator begins nothing for the id before they are written."""


@dataclass
class Topic:
    """A topic: the id changes when it is made anew."""

    topic_id: str
    logs: list[Log]


@dataclass(frozen=True)
class EndTxn:
    """A request to end a transaction that is on its way, or lost."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool


class Broker:
    """Topics and the coordinator of transactions.

    `late`: Requests that may still arrive. `shown`: Every committed record with its topic and offset, in the order in
    which readers could get it. What compaction and retention later take stays here. `fates`: Given a transactional id
    and the topics of a transaction that was decided just now, returns what becomes of the marker of each; all are
    written by default.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.late: list[EndTxn] = []
        self.shown: list[tuple[str, int, Entry]] = []
        self.fates: Callable[[str, Sequence[str]], Mapping[str, Fate]] = lambda _, topics: dict.fromkeys(
            topics, "written"
        )
        self._identities: dict[str, Identity] = {}
        self._producer_ids = 0
        self._topic_ids = 0

    def create(self, name: str, partitions: int) -> None:
        """Make a topic, or make it anew."""
        self._topic_ids += 1
        self.topics[name] = Topic(f"id-{self._topic_ids}", [Log() for _ in range(partitions)])

    def log(self, topic: str, partition: int = 0) -> Log:
        """Return a partition's log."""
        return self.topics[topic].logs[partition]

    def produce(self, topic: str, entry: Entry, partition: int = 0) -> int:
        """Append a record outside of any transaction."""
        offset = self.log(topic, partition).append(entry)
        self.shown.append((topic, offset, entry))
        return offset

    # ----------------------------------------------------------- transactions

    def initialise(self, transactional_id: str) -> tuple[int, int]:
        """Give the id to the caller: end what is open, fence everybody else; return producer id and epoch."""
        identity = self._identities.get(transactional_id)
        if identity is None:
            identity = self._identities[transactional_id] = Identity(self._next_producer_id())
        else:
            self._end(transactional_id, identity, commit=False)
            self.deliver_markers(transactional_id)
            identity.epoch += 1
        identity.last_end = None
        return identity.producer_id, identity.epoch

    def send(self, transactional_id: str, producer: tuple[int, int], topic: str, entry: Entry) -> int:
        """Append a record in the producer's transaction, which begins with its first one."""
        identity = self._identity(transactional_id, producer)
        if identity.transaction is None:
            self.deliver_markers(transactional_id)
            identity.transaction = []
        if topic not in identity.transaction:
            identity.transaction.append(topic)
        return self.log(topic).append(replace(entry, producer_id=identity.producer_id))

    def end(self, request: EndTxn) -> None:
        """Commit or abort whatever the epoch has open; the same answer twice is no error."""
        identity = self._identity(request.transactional_id, (request.producer_id, request.epoch))
        if identity.transaction is None:
            if identity.last_end != request.commit:
                raise Refused(INVALID)
            return
        self._end(request.transactional_id, identity, request.commit)
        identity.last_end = request.commit

    def expire(self, transactional_id: str) -> None:
        """Forget an id that nothing is open for, as after ``transactional.id.expiration.ms``."""
        del self._identities[transactional_id]

    def time_out(self, transactional_id: str) -> None:
        """Abort what an id has open, and fence its producer, as after ``transaction.timeout.ms``."""
        identity = self._identities[transactional_id]
        self._end(transactional_id, identity, commit=False)
        identity.epoch += 1

    def deliver_markers(self, transactional_id: str) -> None:
        """Write the markers of an id that are late."""
        identity = self._identities[transactional_id]
        markers, identity.markers = identity.markers, []
        for marker in markers:
            self._mark(marker)

    def late_markers(self, transactional_id: str) -> bool:
        """Tell whether markers of an id are late."""
        identity = self._identities.get(transactional_id)
        return identity is not None and bool(identity.markers)

    def orphans(self) -> list[tuple[str, int]]:
        """Return topics and producer ids that hold readers up, and that no transactional id has any more."""
        known = {identity.producer_id for identity in self._identities.values()}
        return [
            (name, producer_id)
            for name, topic in self.topics.items()
            for log in topic.logs
            for producer_id in log.pending
            if producer_id not in known
        ]

    def first_of(self, topic: str, producer_id: int) -> Entry | None:
        """Return the first record of a producer that holds readers of a topic of one partition up."""
        log = self.log(topic)
        return log.entries[log.pending[producer_id][0]]

    def abort_by_hand(self, topic: str, producer_id: int) -> None:
        """Write an abort marker, as ``kafka-transactions.sh abort`` does."""
        self._mark(Marker(topic, producer_id, commit=False))

    def open(self, transactional_id: str) -> bool | None:
        """Tell whether an id has a transaction open; None if it is not known."""
        identity = self._identities.get(transactional_id)
        return None if identity is None else identity.transaction is not None

    def identity_of(self, transactional_id: str) -> Identity | None:
        """Return what the coordinator knows of an id."""
        return self._identities.get(transactional_id)

    def open_ids(self) -> list[str]:
        """Return the ids that have a transaction open."""
        return [name for name, identity in self._identities.items() if identity.transaction is not None]

    def _identity(self, transactional_id: str, producer: tuple[int, int]) -> Identity:
        identity = self._identities.get(transactional_id)
        if identity is None or identity.producer_id != producer[0]:
            raise Refused(UNKNOWN)
        if identity.epoch != producer[1]:
            raise Refused(FENCED)
        return identity

    def _end(self, transactional_id: str, identity: Identity, commit: bool) -> None:
        transaction, identity.transaction = identity.transaction, None
        if transaction is None:
            return
        fates = self.fates(transactional_id, transaction)
        for topic in transaction:
            marker = Marker(topic, identity.producer_id, commit)
            if fates[topic] == "written":
                self._mark(marker)
            elif fates[topic] == "late":
                identity.markers.append(marker)

    def _mark(self, marker: Marker) -> None:
        log = self.log(marker.topic)
        for offset in log.mark(marker.producer_id, commit=marker.commit):
            entry = log.entries[offset]
            if entry is not None:
                self.shown.append((marker.topic, offset, entry))

    def _next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids
