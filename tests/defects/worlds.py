"""Simulated worlds that have a defect themselves: where the simulation has a part of its own, a patch changes nothing.

Most remove what answers one of the ways in which simpler protocols broke under model checking; the decisions in
`streamsvm/DESIGN.md` say which part answers what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from consumers.host.runtime import Health
from consumers.settings import Settings
from consumers.trainer.trainer import Trainer
from streamsvm.kafka import Message, OutcomeUnknown, Record
from streamsvm.model.pointers import current_key, decode_head, head_key
from streamsvm.model.version import version_key
from tests.defects import SIMULATED
from tests.defects.planting import Simulated, planted
from tests.simulation import ports
from tests.simulation.broker import EndTxn, Entry, Refused
from tests.simulation.people import BY_PEOPLE
from tests.simulation.running import SHIPPED, Design
from tests.simulation.scorer_ports import Progress, ScorePublisher, ScorerCluster, ScorerPorts, Subscription
from tests.simulation.stream import ALIASES, MODELS, NAME
from tests.simulation.world import Profile, World


def _nothing(*_: Any, **__: Any) -> None: ...


Last = Callable[[Sequence[int]], Sequence[Message]] | None


def _with_cluster(cluster: type[ports.Cluster]) -> Design:
    """Return a world of another broker."""

    class Ports(ports.Ports):
        def __init__(self, world: World, life: Any) -> None:
            super().__init__(world, life)
            self.cluster = cluster(world, life)

    return Design(ports=Ports)


def _with_disk(disk: type[ports.DiskPort]) -> Design:
    class Ports(ports.Ports):
        def __init__(self, world: World, life: Any) -> None:
            super().__init__(world, life)
            self.disk = disk(world, life)

    return Design(ports=Ports)


def _with_publisher(publisher: type[ports.Publisher]) -> Design:
    class Cluster(ports.Cluster):
        def publisher(self, transactional_id: str, writer: str = "") -> ports.Publisher:
            return publisher(self._world, self._life, transactional_id, writer)

    return _with_cluster(Cluster)


def _resending(publisher: Any, *, renews: bool = True) -> Any:
    """Return a publisher that sends again what ended in doubt, by a new producer or by the same one."""

    class Resending(publisher):  # type: ignore[misc]
        def publish(self, messages: Sequence[Message], last: Last = None, progress: Any = None) -> list[int]:
            try:
                return super().publish(messages, last, progress)
            except OutcomeUnknown:
                self._ended = None
                if renews:
                    self.start()
                return super().publish(messages, last, progress)

    return Resending


class _KeepingItsProducer(ports.Publisher):
    def start(self) -> None:
        known = self._life.__dict__.setdefault("producer", None)
        if known is None:
            super().start()
            self._life.__dict__["producer"] = self._producer
        self._producer = self._life.__dict__["producer"]


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

    def publish(self, messages: Sequence[Message], last: Last = None, progress: Any = None) -> list[int]:
        key = current_key(NAME).encode()
        written = [entry for _, entry in self._broker.log(ALIASES).committed() if entry.key == key]
        pinned = bool(written) and written[-1].headers == BY_PEOPLE and written[-1].value is not None

        def without_current(offsets: Sequence[int]) -> Sequence[Message]:
            assert last is not None
            return [message for message in last(offsets) if not (pinned and message.key == key)]

        return super().publish(messages, last and without_current, progress)


class _WorldOfOneKey(World):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.people.pin_key = current_key(NAME)


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


class _Unsynced(ports.DiskPort):
    def sync(self, name: str) -> None: ...

    def sync_names(self) -> None:
        self._point("saved")


class _LossyOutbox(ports.Outbox):
    def flush(self, timeout_s: float) -> None: ...


class _LossyCluster(ports.Cluster):
    def outbox(self, *, patience_s: float | None = None) -> ports.Outbox:
        return _LossyOutbox(self._world, self._life)


class _SweepingByCommit(ports.Publisher):
    def _abort(self) -> None:
        if self._sent:
            self._sent = False
            try:
                self._broker.end(EndTxn(self._id, *self._producer, commit=True))
            except Refused as refusal:
                raise self._failure(refusal) from None


def _unconfirmed(publisher: Any) -> Any:
    """Return a publisher that waits for no markers."""
    return type("Unconfirmed", (publisher,), {"confirm": _nothing})


class _InputPastRetention(ports.Input):
    def _ready(self, partition: int) -> list[tuple[int, Entry]]:
        self._at[partition] = max(self._at[partition], self._broker.log(self._name, partition).first)
        return super()._ready(partition)


class _PastRetention(ports.Cluster):
    """Neither a start nor a poll notices that records are gone which were not read."""

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, super().log_range(topic, partition)[1]

    def input(self, topic: str, group: str) -> ports.Input:
        return _InputPastRetention(self._world, self._life, topic)


def _with_score_publisher(publisher: type[ScorePublisher]) -> Design:
    cluster = type("Cluster", (ScorerCluster,), {"publishers": publisher})
    return Design(ports=type("Ports", (ScorerPorts,), {"clusters": cluster}))


class _Unchecked(ScorePublisher):
    """A coordinator that takes scores from members that were replaced."""

    def _place(self, progress: Progress, attempt: str) -> None:
        group = self._world.group
        group.members.setdefault(progress.slot, progress.life)
        with mock.patch.dict(group.members, {progress.slot: progress.life}):
            super()._place(replace(progress, generation=group.generation), attempt)


class _SweepingScoresByCommit(ScorePublisher):
    def _abort(self) -> None:
        self._sent = False
        self._commit()


WORLDS: Final[Mapping[str, Design]] = {
    "resends": _with_publisher(_resending(ports.Publisher)),
    "keeps-its-producer": _with_publisher(_resending(_KeepingItsProducer, renews=False)),
    "names-its-id-by-incarnation": Design(ports=_PortsByIncarnation),
    "takes-what-is-left-for-the-head": _with_cluster(_HeadOfWhatIsLeft),
    "shares-the-key-of-current": Design(ports=_with_publisher(_OneKey).ports, world=_WorldOfOneKey),
    "orders-checkpoints-by-epoch": _with_disk(_ByEpoch),
    "reads-to-the-stable-offset": _with_cluster(_ToTheStableOffset),
    "reads-before-it-takes-the-id": _with_cluster(_ReadingBefore),
    "syncs-no-checkpoint": _with_disk(_Unsynced),
    "flushes-no-dead-letters": _with_cluster(_LossyCluster),
    "settles-by-commit": _with_publisher(_SweepingByCommit),
    "believes-every-answer": _with_publisher(_unconfirmed(ports.Publisher)),
    "jumps-over-removed-records": _with_cluster(_PastRetention),
    "scorer-that-resends": _with_score_publisher(_resending(ScorePublisher)),
    "scorer-that-settles-by-commit": _with_score_publisher(_SweepingScoresByCommit),
    "scorer-that-believes-every-answer": _with_score_publisher(_unconfirmed(ScorePublisher)),
    "scorer-that-passes-over-what-failed": SHIPPED,
    "scorer-that-names-no-member": _with_score_publisher(_Unchecked),
}
"""By the names of `SIMULATED`."""

BESIDES: Final[Mapping[str, tuple[Any, str]]] = {
    "scorer-that-passes-over-what-failed": (Subscription, "rewind"),
}
"""What does nothing there."""


def profile_of(simulated: Simulated, number: int) -> Profile:
    """Return the n-th of the small worlds in which a defect shows."""
    policy = simulated.policies[number % len(simulated.policies)]
    faults = {"slow training": 3, "late poll": 3, "small batch": 3, **simulated.faults}
    if simulated.two:
        faults |= {"copy": 1, "switch": 6, "survivor": 1}
    one = simulated
    return Profile(
        policy, one.partitions, one.records, one.steps, faults, one.two, variants=one.variants, scorer=one.scorer
    )


@contextmanager
def defective(name: str) -> Iterator[Design]:
    """Lend a world with a defect in it, or in the shipped code, for a while."""
    place = SIMULATED[name]
    with alone(name), ExitStack() as stack:
        if not place.world:
            stack.enter_context(planted(name.removeprefix("scorer-that-")))
        elif name in BESIDES:
            stack.enter_context(mock.patch.object(*BESIDES[name], _nothing))
        yield WORLDS[name] if place.world else SHIPPED


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Take out, for a while, what would make good what a defect breaks; the promise holds without it.

    Who settles after each taking, and waits for the markers of each commit, has nothing of its own beyond the last
    stable offset when it reads. Here only the reader waits for a transaction that is open.
    """
    with ExitStack() as stack:
        if SIMULATED[name].alone:
            stack.enter_context(planted("settles-nothing"))
            stack.enter_context(mock.patch.object(ports.Publisher, "confirm", _nothing))
        yield
