"""Planted defects: the shipped code, or its world, without one of the parts that keep the promise.

Each removes what answers one of the ten ways in which simpler protocols broke under model checking; the decisions in
`streamsvm/DESIGN.md` say which part answers what. A simulation that did not find them would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from unittest import mock

import msgspec

from consumers.host.runtime import Health
from consumers.settings import Settings
from consumers.streams.identity import TopicIdentity
from consumers.streams.topics import READ_TIMEOUT_S, KnownPointers, read_pointers
from consumers.streams.version_settlement import VersionSettlement
from consumers.trainer.gatekeeping import MarginGate
from consumers.trainer.session import Session
from consumers.trainer.startup import Startup
from consumers.trainer.trainer import Trainer
from streamsvm.checkpoint import directory as checkpoint
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.delivery import publication
from streamsvm.delivery.machine import Delivery
from streamsvm.kafka import Message, OutcomeUnknown, Record
from streamsvm.learning.cutting import LearnerState
from streamsvm.learning.learner import Learner
from streamsvm.learning.naming import tuning_of
from streamsvm.model.pointers import (
    Alias,
    Gate,
    Head,
    Owner,
    current_key,
    decode_head,
    encode_alias,
    encode_owner,
    head_key,
    owner_key,
)
from streamsvm.model.version import Version, version_key
from streamsvm.points import Positions
from tests.plugged import of_branches
from tests.simulation import ports, scorer_defects
from tests.simulation.broker import EndTxn, Refused
from tests.simulation.people import BY_PEOPLE
from tests.simulation.planting import Defect, replaced, with_cluster
from tests.simulation.running import Design
from tests.simulation.stream import ALIASES, MODELS, NAME, settings_for
from tests.simulation.world import World


def _with_publisher(publisher: type[ports.Publisher]) -> Design:
    class Cluster(ports.Cluster):
        def publisher(self, transactional_id: str, writer: str = "") -> ports.Publisher:
            return publisher(self._world, self._life, transactional_id, writer)

    return with_cluster(Cluster)


# ------------------------------------------------------------------ 1, 2 and 5


_decode = checkpoint.decode


def _decode_with_positions_only(content: bytes) -> Snapshot:
    snapshot = _decode(content)
    if snapshot.pending is None:
        return snapshot
    learner = Learner(settings_for("every").models(), snapshot.base, 1)
    learner.restore(snapshot.learner)
    pending, now = snapshot.pending, learner.cut()
    if isinstance(pending, LearnerState):
        pending = learner.taken_of(pending).make()
    pending = replace(pending, points=now.points, moments=now.moments, rows=now.rows)
    return replace(snapshot, pending=pending)


def _always(self: Delivery, cut: Positions) -> bool:
    return True


def _by_identity(self: Delivery, cut: Positions) -> bool:
    return dict(cut) != self.published_cut


# ----------------------------------------------------------------------- 3, 4


class _Resending(ports.Publisher):
    def publish(
        self, messages: Sequence[Message], last: Callable[[Sequence[int]], Sequence[Message]] | None = None
    ) -> list[int]:
        try:
            return super().publish(messages, last)
        except OutcomeUnknown:
            self._ended = None
            self.start()
            return super().publish(messages, last)


def _anybody(self: Delivery, owner: Owner | None) -> None: ...


class _KeepingItsProducer(ports.Publisher):
    def start(self) -> None:
        known = self._life.__dict__.setdefault("producer", None)
        if known is None:
            super().start()
            self._life.__dict__["producer"] = self._producer
        self._producer = self._life.__dict__["producer"]

    def publish(
        self, messages: Sequence[Message], last: Callable[[Sequence[int]], Sequence[Message]] | None = None
    ) -> list[int]:
        try:
            return super().publish(messages, last)
        except OutcomeUnknown:
            self._ended = None
            return super().publish(messages, last)


# --------------------------------------------------------------------- 6 to 8


def _numbers_begin_again(self: Delivery) -> int:
    return self.head.number + 1 if self.head and self.head.incarnation == self.incarnation else 1


class _IdByIncarnation(ports.Cluster):
    incarnation = 1

    def publisher(self, transactional_id: str, writer: str = "") -> ports.Publisher:
        return super().publisher(f"{transactional_id}/{self.incarnation}", writer)


class _PortsByIncarnation(ports.Ports):
    def trainer(self, settings: Settings, health: Health, reset: str) -> Trainer:
        self.cluster = _IdByIncarnation(self.world, self.life)
        names = self.life.instance.disk.generations()
        incarnation = int(names[-1].split("-")[1]) if names else 1
        self.cluster.incarnation = int(reset.rsplit("/", 1)[1]) + 1 if reset else incarnation
        return super().trainer(settings, health, reset)


class _HeadOfWhatIsLeft(ports.Cluster):
    """Takes the newest version that is not retired for the head."""

    def newest(self, topic: str, keys: Any, timeout_s: float) -> dict[bytes, Record]:
        found = super().newest(topic, keys, timeout_s)
        key = head_key(NAME).encode()
        found.pop(key, None)
        retired = {entry.key for _, entry in self._broker.log(MODELS).committed() if entry.value is None}
        log = self._broker.log(ALIASES)
        for offset, entry in log.committed():
            if entry.key == key and entry.value:
                number = decode_head(entry.value).number
                if version_key(NAME, number).encode() not in retired:
                    found[key] = log.record(topic, 0, offset, entry)
        return found


class _OneKey(ports.Publisher):
    """Moves `current` only if people have not pinned it under the same key, as far as it knows when it begins."""

    def publish(
        self, messages: Sequence[Message], last: Callable[[Sequence[int]], Sequence[Message]] | None = None
    ) -> list[int]:
        key = current_key(NAME).encode()
        written = [entry for _, entry in self._broker.log(ALIASES).committed() if entry.key == key]
        pinned = bool(written) and written[-1].headers == BY_PEOPLE and written[-1].value is not None

        def without_current(offsets: Sequence[int]) -> Sequence[Message]:
            assert last is not None
            return [message for message in last(offsets) if not (pinned and message.key == key)]

        return super().publish(messages, last and without_current)


class _WorldOfOneKey(World):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.people.pin_key = current_key(NAME)


# ---------------------------------------------------------------- 9, 10 and 11


class _ByEpoch(ports.DiskPort):
    """Names checkpoints by the producer's epoch first."""

    def write(self, name: str, content: bytes) -> None:
        super().write(self._named(name), content)

    def sync(self, name: str) -> None:
        super().sync(self._named(name))

    def rename(self, old: str, new: str) -> None:
        super().rename(self._named(old), self._named(new))

    def _named(self, name: str) -> str:
        identity = self._broker.identity_of(f"streamsvm/{NAME}/{MODELS}")
        epoch = identity.epoch if identity else 0
        return f"checkpoint-{epoch:06d}-{0:012d}-{name.rsplit('-', 1)[1]}"


class _PortsByEpoch(ports.Ports):
    def __init__(self, world: World, life: Any) -> None:
        super().__init__(world, life)
        self.disk = _ByEpoch(world, life)


@contextmanager
def _nobody_waits_for_markers() -> Iterator[None]:
    """Commit and go on, as before partitions were settled: only the reader then waits for a transaction that is open.

    Who settles after each taking, and waits for the markers of each commit, has nothing of its own beyond the last
    stable offset when it reads.
    """
    with (
        mock.patch.object(VersionSettlement, "settle", _without_settling),
        mock.patch.object(ports.Publisher, "confirm", _without_waiting),
    ):
        yield


def _without_waiting(self: ports.Publisher) -> None: ...


class _ToTheStableOffset(ports.Cluster):
    def _end(self, topic: str) -> int:
        return self._broker.log(topic).stable


class _ReadingBefore(ports.Cluster):
    """Reads the head once, before it takes the transactional id, and believes that ever after."""

    _read: Record | None = None
    _has_read = False

    def newest(self, topic: str, keys: Any, timeout_s: float) -> dict[bytes, Record]:
        found = super().newest(topic, keys, timeout_s)
        key = head_key(NAME).encode()
        if not self._has_read:
            self._read, self._has_read = found.get(key), True
        return {**found, key: self._read} if self._read else {k: record for k, record in found.items() if k != key}


def _without_looking(self: Startup) -> None: ...


# ---------------------------------------------------------------- not numbered


class _Unsynced(ports.DiskPort):
    def sync(self, name: str) -> None: ...

    def sync_names(self) -> None:
        self._point("saved")


class _PortsUnsynced(ports.Ports):
    def __init__(self, world: World, life: Any) -> None:
        super().__init__(world, life)
        self.disk = _Unsynced(world, life)


class _LossyOutbox(ports.Outbox):
    def flush(self, timeout_s: float) -> None: ...


class _LossyCluster(ports.Cluster):
    def outbox(self, *, patience_s: float | None = None) -> ports.Outbox:
        return _LossyOutbox(self._world, self._life)


@contextmanager
def _learning_twice() -> Iterator[None]:
    """Let the learner take rows that it knows for new ones."""
    learn = Learner.learn

    def twice(self: Learner, rows: Any, until: Any = None) -> int:
        at = self.positions[rows.partition]
        first = rows.index_of(at)
        held = self._partitions[rows.partition]
        if 0 < first < len(rows) and held.leaf.missing > 1:
            held.leaf.add(rows.slice(first - 1, first))
        return learn(self, rows, until)

    with mock.patch.object(Learner, "learn", twice):
        yield


_pointers = publication.pointers


def _pointers_with_current(sent: publication.Publication, topics: Any, offsets: Any) -> list[Message]:
    messages, key = _pointers(sent, topics, offsets), current_key(NAME).encode()
    if not any(message.key == key for message in messages):
        alias = encode_alias(sent.head_at(offsets[0]).alias)
        messages.append(Message(ALIASES, alias, key, partition=0))
    return messages


_published = MarginGate.published


def _published_whatever_it_said(self: MarginGate, version: Version, gate: Gate | None, alias: Alias) -> None:
    assert gate is not None
    _published(self, version, msgspec.structs.replace(gate, outcome="passed"), alias)


@contextmanager
def _remembering() -> Iterator[None]:
    """Keep the tuning in force in memory, not by the head."""
    published, kept = Delivery.published, dict[int, Any]()

    def noting(self: Delivery, head: Head) -> None:
        published(self, head)
        kept[id(self)] = self, tuning_of(head)

    known = property(lambda self: kept.get(id(self), (self, None))[1])
    with mock.patch.object(Delivery, "published", noting), mock.patch.object(Delivery, "tuning", known):
        yield


# ------------------------------------------------------- markers that never came


def _without_settling(self: VersionSettlement, publisher: Any) -> None: ...


def _without_completing(self: VersionSettlement, publisher: Any, left_open: Any) -> None: ...


def _nothing_lacks(self: VersionSettlement, mine: Any, others: Any) -> bool:
    return False


class _SweepingByCommit(ports.Publisher):
    def _abort(self) -> None:
        if self._sent:
            self._sent = False
            try:
                self._broker.end(EndTxn(self._id, *self._producer, commit=True))
            except Refused as refusal:
                raise self._failure(refusal) from None


class _Unconfirmed(ports.Publisher):
    confirm = _without_waiting


def _owner_record_first(self: Session, now: datetime) -> KnownPointers:
    self._delivery.fits()
    self._take()
    owner = encode_owner(Owner(self._delivery.session, now.isoformat()))
    self._transaction([Message(ALIASES, owner, owner_key(NAME).encode(), partition=0)], None)
    self._settle()
    self._delivery.owned()
    return read_pointers(self._cluster, self._settings, READ_TIMEOUT_S)


def _without_asking(self: TopicIdentity, reached: Mapping[int, int]) -> None: ...


def _never(self: Session) -> bool:
    return False


HANGS = {"markers lost": 2, "kill": 2, "unanswered": 1, "time out": 1}
DOUBTS = {"unanswered": 2, "unsent": 1, "late": 2, "deliver": 2}

OWN: Final[Mapping[str, Defect]] = {
    "1 a pending cut is kept as positions only": Defect(
        "its training set",
        "not what a clean run gives",
        {"kill": 2, "power loss": 1},
        planted=replaced(checkpoint, "decode", _decode_with_positions_only),
    ),
    "2 versions beyond the checkpoint do not drop a pending cut": Defect(
        "the comparison of cuts with the head's",
        "reordered",
        {"kill": 2, "newest lost": 1},
        planted=replaced(Delivery, "admits", _always),
    ),
    "3 the same is sent again after a timeout": Defect(
        "reading the topic after an unknown outcome", "(doubled|missing)-version", DOUBTS, _with_publisher(_Resending)
    ),
    "3 a producer is used again after a timeout": Defect(
        "a new producer after an unknown outcome",
        "(doubled|missing)-version|torn-version",
        {"late": 2, "deliver": 2},
        _with_publisher(_KeepingItsProducer),
    ),
    "4 nobody asks whose the model is": Defect(
        "the owner record",
        "zombie|now ends at|(doubled|missing)-version",
        {**DOUBTS, "failed": 2, "unavailable": 1},
        planted=replaced(Delivery, "check_owner", _anybody),
        two=True,
    ),
    "5 an unfinished publish is known by what it is, not by where it ends": Defect(
        "the order of cuts",
        "reordered",
        {"kill": 2, "refused": 1, "newest lost": 1},
        planted=replaced(Delivery, "admits", _by_identity),
    ),
    "6 a reset begins the numbers again": Defect(
        "numbers across incarnations",
        "(doubled|missing)-version",
        {"all lost": 1, "kill": 1},
        planted=replaced(Delivery, "next_number", property(_numbers_begin_again)),
    ),
    "6 the transactional id names the incarnation": Defect(
        "fencing across incarnations",
        "(doubled|missing)-version|reordered|zombie|torn-version",
        {"all lost": 1, "reset": 1},
        Design(ports=_PortsByIncarnation),
        two=True,
    ),
    "7 the head is the newest version that is left": Defect(
        "the head record",
        "(doubled|missing)-version|ends at",
        {"retire": 2, "kill": 2, "newest lost": 2},
        with_cluster(_HeadOfWhatIsLeft),
    ),
    "8 people and trainer share the key of current": Defect(
        "a key for pins",
        "people pinned|disobeyed-gate",
        {"pin": 2},
        Design(ports=_with_publisher(_OneKey).ports, world=_WorldOfOneKey),
    ),
    "9 checkpoints are ordered by the producer's epoch": Defect(
        "an order of their own", "older checkpoint", {"kill": 3, "expire": 2}, Design(ports=_PortsByEpoch)
    ),
    "10 the end is the last stable offset": Defect(
        "reading to the high watermark",
        "(doubled|missing)-version|ends at|the models topic holds no",
        {"foreign": 2, "end foreign": 2, "kill": 2},
        with_cluster(_ToTheStableOffset),
        alone=_nobody_waits_for_markers,
    ),
    "10 the topic is read before the id is taken": Defect(
        "reading after init_transactions",
        "(doubled|missing)-version|ends at|reordered",
        {"kill": 1},
        with_cluster(_ReadingBefore),
        two=True,
    ),
    "11 a start does not look before it fences": Defect(
        "the look", "and then refused to start", {"all lost": 1}, planted=replaced(Startup, "_look", _without_looking)
    ),
    "checkpoints are not synced": Defect(
        "fsync", "no checkpoint|older checkpoint", {"power loss": 3}, Design(ports=_PortsUnsynced)
    ),
    "dead letters are not flushed before a checkpoint": Defect(
        "the flush", "lost-letter", {"kill": 3}, with_cluster(_LossyCluster)
    ),
    "a version becomes current whatever the gate says": Defect(
        "the gate's word in the transaction",
        "disobeyed-gate",
        {"gate refuses": 2, "kill": 1},
        planted=replaced(publication, "pointers", _pointers_with_current),
    ),
    "the gate compares with what it refused": Defect(
        "the difference between the newest version and the current one",
        "disobeyed-gate",
        {"gate refuses": 2, "kill": 1},
        planted=replaced(MarginGate, "published", _published_whatever_it_said),
    ),
    "the tuning in force ends with the process": Defect(
        "the head's word on it", "is not tuned at the cut", {"kill": 2}, planted=_remembering
    ),
    "a dead transaction is not settled": Defect(
        "ending what has no marker",
        "(doubled|missing)-version|readers of|torn-version|did not come to rest|at rest no version",
        HANGS,
        planted=replaced(VersionSettlement, "settle", _without_settling),
    ),
    "what is half visible is not completed": Defect(
        "publishing the missing records again",
        "(doubled|missing)-version|torn-version|ends at",
        HANGS,
        planted=replaced(VersionSettlement, "_complete", _without_completing),
    ),
    "what somebody else aborted is not completed": Defect(
        "the look at the newest attempt where nothing hangs",
        "(doubled|missing)-version|torn-version|ends at|disobeyed-gate",
        {"markers lost": 2, "kill": 3, "expire": 2, "abort by hand": 2},
        planted=replaced(VersionSettlement, "_lacks_parts", _nothing_lacks),
    ),
    "a dead transaction is settled by a commit": Defect(
        "the abort",
        "(doubled|missing)-version|torn-version|zombie|is not a version|see only a part of",
        HANGS,
        _with_publisher(_SweepingByCommit),
    ),
    "the next transaction does not wait for the markers of the last one": Defect(
        "the look at the stable offsets after a commit",
        "(doubled|missing)-version|torn-version|ends at|disobeyed-gate",
        {"markers lost": 2, "kill": 1, "failed": 2, "refused": 1},
        _with_publisher(_Unconfirmed),
    ),
    "the owner record comes before the settling": Defect(
        "their order",
        "(doubled|missing)-version|torn-version|zombie",
        HANGS,
        planted=replaced(Session, "take_over", _owner_record_first),
    ),
    "who was fenced does not wait for the owner record": Defect(
        "the wait",
        "took the id back",
        {"time out": 1, "failed": 1},
        planted=replaced(Session, "_may_be_taken_over", _never),
        two=True,
    ),
    "a topic is asked for its id by the clock only": Defect(
        "the question before each publish",
        "is not what a clean run gives|went back to incarnation",
        {"recreate": 2, "unnoticed": 4},
        planted=replaced(TopicIdentity, "confirm", _without_asking),
        records=8,
    ),
    "a row is learned twice": Defect(
        "the position inside a record", "clean run|at rest no version", {"kill": 2}, planted=_learning_twice
    ),
}
"""The trunk's; the number is that of the counterexample which it stands for."""

DEFECTS: Final[Mapping[str, Defect]] = {
    name: defect
    for found in (OWN, scorer_defects.DEFECTS, *of_branches("simulated_defects", "DEFECTS"))
    for name, defect in found.items()
}
"""Every defect by name."""
