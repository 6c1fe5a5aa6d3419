"""A broker in memory: logs, transactions with fencing, and all that can go wrong between it and a producer.

It keeps what research on Kafka 4 and librdkafka without KIP-890 showed: a transactional id has a producer id and an
epoch; whoever initialises last fences the others and aborts what is open; EndTxn names the epoch, not the transaction,
so one that arrives late ends whatever that epoch has open then; an id that expires gets a new producer id at epoch 0.
Control records take offsets; read_committed ends at the last stable offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from streamsvm.kafka import Record


class Refused(Exception):
    """The broker's answer to a producer: `FENCED`, `UNKNOWN` (the id has expired) or `INVALID` (no transaction)."""


FENCED, UNKNOWN, INVALID = "FENCED", "UNKNOWN", "INVALID"


@dataclass
class Transaction:
    """One transaction of a transactional id; `entries` are the records written in it, by topic and offset."""

    state: Literal["open", "committed", "aborted"] = "open"
    entries: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """One place of a log: a record, or the control record that ends a transaction."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    transaction: Transaction | None = None
    control: bool = False
    leader_epoch: int = 0

    @property
    def readable(self) -> bool:
        """Whether a read_committed reader may see it, once the last stable offset has passed it."""
        return not self.control and (self.transaction is None or self.transaction.state == "committed")


class Log:
    """One partition: the index of an entry is its offset; None where compaction took one."""

    def __init__(self) -> None:
        self.first = 0
        self.entries: list[Entry | None] = []
        self.editions: list[list[Entry | None]] = []
        self.leader_epoch = 0

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset: before it no transaction is open."""
        for offset in range(self.first, self.end):
            entry = self.entries[offset]
            if entry and entry.transaction and entry.transaction.state == "open":
                return offset
        return self.end

    def append(self, entry: Entry) -> int:
        """Append, and return the offset."""
        self.entries.append(entry)
        return self.end - 1

    def committed(self, start: int = 0, stop: int | None = None) -> list[tuple[int, Entry]]:
        """Return what a read_committed reader gets from `start` on, with offsets."""
        stop = self.stable if stop is None else min(stop, self.stable)
        places = ((offset, self.entries[offset]) for offset in range(max(start, self.first), stop))
        return [(offset, entry) for offset, entry in places if entry and entry.readable]

    def compact(self) -> None:
        """Keep the newest record of each key below the last stable offset; control and aborted records go."""
        newest = {entry.key: offset for offset, entry in self.committed()}
        for offset in range(self.first, self.stable):
            entry = self.entries[offset]
            if entry and (not entry.readable or newest[entry.key] != offset):
                self.entries[offset] = None

    def truncate(self, end: int) -> None:
        """Lose everything from `end` on, as an unclean election does: a new leader epoch begins."""
        self.editions.append(list(self.entries))
        del self.entries[end:]
        self.leader_epoch += 1

    def record(self, topic: str, partition: int, offset: int, entry: Entry) -> Record:
        """Return an entry as the client would."""
        time_ms = 1_700_000_000_000 + offset
        return Record(topic, partition, offset, entry.key, entry.value, entry.headers, time_ms, entry.leader_epoch)


@dataclass
class Identity:
    """What the coordinator knows of a transactional id."""

    producer_id: int
    epoch: int = 0
    transaction: Transaction | None = None
    last_end: bool | None = None


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

    Attributes
    ----------
    topics : dict of str to Topic
    late : list of EndTxn
        Requests that may still arrive.
    commits : list of list of (str, int, Entry)
        Every committed record with its topic and offset, by transaction in the order of commits; a plain record is a
        transaction of its own. What compaction and retention later take stays here.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.late: list[EndTxn] = []
        self.commits: list[list[tuple[str, int, Entry]]] = []
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
        self.commits.append([(topic, offset, entry)])
        return offset

    # ----------------------------------------------------------- transactions

    def initialise(self, transactional_id: str) -> tuple[int, int]:
        """Give the id to the caller: end what is open, fence everybody else; return producer id and epoch."""
        identity = self._identities.get(transactional_id)
        if identity is None:
            identity = self._identities[transactional_id] = Identity(self._next_producer_id())
        else:
            self._end(identity, commit=False)
            identity.epoch += 1
        identity.last_end = None
        return identity.producer_id, identity.epoch

    def send(self, transactional_id: str, producer: tuple[int, int], topic: str, entry: Entry) -> int:
        """Append a record in the producer's transaction, which begins with its first one."""
        identity = self._identity(transactional_id, producer)
        if identity.transaction is None:
            identity.transaction = Transaction()
        entry = Entry(entry.value, entry.key, entry.headers, identity.transaction)
        offset = self.log(topic).append(entry)
        identity.transaction.entries.append((topic, offset))
        return offset

    def end(self, request: EndTxn) -> None:
        """Commit or abort whatever the epoch has open; the same answer twice is no error."""
        identity = self._identity(request.transactional_id, (request.producer_id, request.epoch))
        if identity.transaction is None:
            if identity.last_end != request.commit:
                raise Refused(INVALID)
            return
        self._end(identity, request.commit)
        identity.last_end = request.commit

    def expire(self, transactional_id: str) -> None:
        """Forget an id that nothing is open for, as after ``transactional.id.expiration.ms``."""
        del self._identities[transactional_id]

    def time_out(self, transactional_id: str) -> None:
        """Abort what an id has open, and fence its producer, as after ``transaction.timeout.ms``."""
        identity = self._identities[transactional_id]
        self._end(identity, commit=False)
        identity.epoch += 1

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

    def _end(self, identity: Identity, commit: bool) -> None:
        transaction, identity.transaction = identity.transaction, None
        if transaction is None:
            return
        transaction.state = "committed" if commit else "aborted"
        for topic in dict.fromkeys(topic for topic, _ in transaction.entries):
            self.log(topic).append(Entry(None, transaction=transaction, control=True))
        if commit:
            written = ((topic, offset, self.log(topic).entries[offset]) for topic, offset in transaction.entries)
            self.commits.append([(topic, offset, entry) for topic, offset, entry in written if entry])

    def _next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids
