"""A scorer's ports into a world: its group, its positions, its slot, its publisher; the shipped scorer does the rest.

The group's positions are a log of their own, `POSITIONS`, in which transactions end by markers as in any other: while
the transaction that moves one has no marker there, it cannot be read. The group's generation keeps a member that was
replaced from committing, and a static member that takes over a slot fences the one that had it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import msgspec

from consumers.page import ScorerBoard
from consumers.scorer import (
    Companion,
    Placing,
    Scorer,
    ScorerComponents,
    ScorerLife,
    Serving,
    group_of,
    life as lives,
    observing,
    scorer,
    seat,
)
from consumers.settings import ScoringConfig, Settings
from consumers.streams import DeadLetters, ScoredProgress, ScoredTo, TopicIdentity, score_settlement, settling
from streamsvm.errors import Fenced, TransientError
from streamsvm.kafka import FROM_THE_FIRST, GroupPosition, Message, OffsetOutOfRange, Place, Record, Slot, Stored
from streamsvm.learning import Origin, make, version_of
from streamsvm.model import Version, message as model_codec
from streamsvm.points import Position
from streamsvm.registry import Loaded
from tests.simulation import ports
from tests.simulation.broker import Entry
from tests.simulation.ports import NoMetrics, Stop
from tests.simulation.stream import NAME, Reference, settings_for, train, value
from tests.simulation.world import Life, World

POINTS, POINT_LETTERS, SCORES, POSITIONS = "points", "points.dlq", "scores", "positions of the group"
PROGRESS: Final = "scores.progress"
REPAIR_FAILED: Final = "what readers half see was to be completed, and that was aborted"
BEGIN_MS: Final = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000)
LONGEST_WAIT_S: Final = 12.0
"""For so long a publisher waits for markers, and a scorer for positions that it committed."""
_WAITS: Final = 2


@cache
def settings_of(on_gap: str) -> Settings:
    """Return a scorer's settings."""
    own = settings_for("every")
    return own.model_copy(update={"scoring": ScoringConfig(topic=POINTS, output_topic=SCORES, on_gap=on_gap)})


@cache
def version(number: int) -> tuple[Version, bytes]:
    """Return a version, and the value of its record."""
    config = settings_for("every").models()
    entries = tuple(Entry(value(0, at, 0)) for at in range(4 * number))
    reference = Reference(config)
    cut = reference.expected({0: Position(0)}, {0: Position(len(entries))}, {0: entries}).cut
    origin = Origin(name=NAME, number=number, parent=None, links=(), topic="in", topic_id="", base={}, build={})
    made = version_of(make(cut, config, train=train), config, origin)
    return made, model_codec.encode(made)


class Group:
    """The coordinator of the group: who is a member in which slot, and since which generation."""

    def __init__(self) -> None:
        self.members: dict[int, Life] = {}
        self.used: set[int] = set()
        self.generation = 0

    def join(self, slot: int, life: Life) -> None:
        """Let a process in; in a slot that has a member it replaces that one, without a rebalance."""
        self.used.add(slot)
        self.generation += slot not in self.members
        self.members[slot] = life

    def expire(self, lives: Iterable[Life]) -> None:
        """Let the sessions of these processes run out."""
        left = {slot: life for slot, life in self.members.items() if life not in lives}
        self.generation += left != self.members
        self.members = left

    def partitions(self, slot: int, count: int) -> list[int]:
        """Return the partitions of a member."""
        slots = sorted(self.members)
        return [partition for partition in range(count) if slots[partition % len(slots)] == slot]


@dataclass(frozen=True)
class Progress:
    """See `streamsvm.kafka.MemberProgress`."""

    positions: Mapping[int, int]
    slot: int
    life: Life
    generation: int
    topic_id: str


class ScorePublisher(ports.Publisher):
    """See `streamsvm.kafka.Publisher`: positions go into the transaction after the records."""

    results = SCORES

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        progress: Any = None,
    ) -> list[int]:
        if progress is not None:
            return super().publish(messages, last, progress)
        self._world.excuses.append(REPAIR_FAILED)
        offsets = super().publish(messages, last, progress)
        self._world.excuses.remove(REPAIR_FAILED)
        return offsets

    def _place(self, progress: Progress, attempt: str) -> None:
        """Add positions, unless their member was replaced meanwhile."""
        self._point("scores.sent")
        group: Group = self._world.group
        member = group.members.get(progress.slot) is progress.life and group.generation == progress.generation
        if not member:
            self._abort()
            raise TransientError("another member holds the partitions")
        self._life.hidden = False
        for partition, offset in progress.positions.items():
            told = f"{attempt} {progress.topic_id} {NAME}"
            entry = Entry(json.dumps([offset, told]).encode(), str(partition).encode(), time_ms=self._now_ms())
            self._broker.send(self._id, self._producer, POSITIONS, entry)
            self._sent = True
        self._point("scores.placed")

    def _entry(self, message: Message) -> Entry:
        return Entry(message.value, message.key, message.headers, time_ms=self._now_ms())

    def poll(self) -> None: ...

    def _now_ms(self) -> int:
        return BEGIN_MS + round(1_000 * self._world.time)


def hint(world: World, partition: int) -> GroupPosition:
    """Return what the group says of a partition; what open transactions move does not count."""
    log, key = world.broker.log(POSITIONS), str(partition).encode()
    pending = {at for held in log.pending.values() for at in held}
    there = [
        entry.value
        for at, entry in enumerate(log.entries)
        if entry and entry.key == key and log.readable(at) and at not in pending
    ]
    if not there or there[-1] is None:
        return GroupPosition()
    offset, told = json.loads(there[-1])
    words = told.split(" ")
    return GroupPosition(offset, words[1], words[2]) if told else GroupPosition(offset)


def progress(world: World, partition: int) -> ScoredTo | None:
    """Return how far readers see that a partition is scored."""
    prefix = f"{NAME} {POINTS} {partition} ".encode()
    found = [entry.value for _, entry in world.broker.log(PROGRESS).committed() if entry.key.startswith(prefix)]
    return msgspec.json.decode(found[-1], type=ScoredTo) if found else None


class Subscription(ports.Input):
    """See `streamsvm.kafka.Subscription`."""

    def __init__(self, world: World, life: Life, slot: int, topic_id: str, place: Any) -> None:
        super().__init__(world, life, POINTS)
        self._group: Group = world.group
        self._slot, self._topic_id, self._place = slot, topic_id, place
        self._generation = -1
        self._astray, self.unplaced = True, ""
        self._first_polled: dict[int, int] = {}

    @property
    def joined(self) -> bool:
        return self._generation >= 0

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        self._point(f"polls {POINTS}")
        self._world.time += 0.5
        if self._world.calm:
            self._group.expire([one for one in self._group.members.values() if one.dead])
        owner = self._group.members.get(self._slot)
        if self.joined and owner is not None and owner is not self._life:
            raise Fenced("another member has joined the group in this slot")
        if owner is not self._life:
            self._group.join(self._slot, self._life)
        if self._generation != self._group.generation:
            self._generation, self._astray, self._at = self._group.generation, True, {}
            self._first_polled.clear()
            return []
        if self._astray and not self._go_to_positions():
            self._rest()
            return []
        try:
            ready = [partition for partition in sorted(self._at) if self._ready(partition)]
        except OffsetOutOfRange:
            self._astray = True
            return []
        if not ready:
            self._rest()
            return []
        self._world.idle = 0
        records = self._take(self._choose(ready), max_records)
        self._first_polled.setdefault(records[0].partition, records[0].offset)
        return records

    def _go_to_positions(self) -> bool:
        try:
            hints = {p: hint(self._world, p) for p in self._own()}
            placed = self._place(self._own(), hints, self._first_polled)
        except TransientError as error:
            self.unplaced = error.what
            self._world.end_what_can_end()
            return False
        self.unplaced = ""
        self._at = {partition: self._offset(partition, at) for partition, at in placed.items()}
        self._epochs, self._astray = {}, False
        return True

    def _offset(self, partition: int, placed: int) -> int:
        if placed != FROM_THE_FIRST:
            return placed
        self._first_polled.pop(partition, None)
        return self._broker.log(POINTS, partition).first

    def _own(self) -> list[int]:
        return self._group.partitions(self._slot, len(self._broker.topics[POINTS].logs))

    def begin_again(self) -> None:
        for partition in self._at:
            self._first_polled.pop(partition, None)
            self._at[partition] = self._broker.log(POINTS, partition).first
        self._epochs = {}

    def follow(self, topic_id: str) -> None:
        self._topic_id, self._topic = topic_id, self._broker.topics[POINTS]
        self._first_polled.clear()
        self.rewind()

    def rewind(self) -> None:
        self._astray = True

    def progress(self, positions: Mapping[int, int]) -> Progress:
        return Progress(positions, self._slot, self._life, self._generation, self._topic_id)

    def commit(self, positions: Mapping[int, int]) -> None:
        for partition, offset in positions.items():
            self._broker.produce(POSITIONS, Entry(json.dumps([offset, ""]).encode(), str(partition).encode()))

    def backlog(self) -> dict[int, int]:
        return {}


class ScorerCluster(ports.Cluster):
    """See `consumers.streams.abandonable.BoundedCluster`."""

    publishers = ScorePublisher

    def slots(self, group: str) -> Slots:
        return Slots(self._world, self._life, group)

    def subscription(
        self, topic: str, *, group: str, slot: Slot, client_id: str, topic_id: str, model: str, place: Any
    ) -> Subscription:
        return Subscription(self._world, self._life, slot.number, topic_id, place)

    def publisher(self, transactional_id: str, writer: str = "") -> ScorePublisher:
        self._world.publishers += 1
        return self.publishers(self._world, self._life, transactional_id, f"~{self._world.publishers}")

    def _stored(
        self,
        place: Place,
        wanted: Callable[[Record], bool],
        start: int,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Stored]:
        found = super()._stored(place, wanted, start)
        times = [(one, one.record.timestamp_ms or 0) for one in found]
        begun = [one for one, time_ms in times if time_ms >= (since_ms or 0)][:1]
        later = [one for one, time_ms in times if until_ms is not None and time_ms > until_ms][:1]
        stop = later[0].record.offset if later else 1 << 60
        return [one for one in found if begun and begun[0].record.offset <= one.record.offset < stop]


class Slots:
    """See `streamsvm.kafka.GroupSlots`; who is dead is known at a first claim, if it ran on this host."""

    client_id = "simulated"

    def __init__(self, world: World, life: Life, group: str) -> None:
        self._world, self._life, self._group = world, life, group
        self._first = True

    def claim(self) -> Slot:
        self._world.point(self._life, "claims a slot")
        group: Group = self._world.group
        if self._world.wanted_slot is not None:
            return Slot(self._group, self._world.wanted_slot)
        knows = self._first and not self._world.decide("slot", "", ["dead unknown"])
        self._first = False
        taken = [slot for slot, life in group.members.items() if not (knows and life.dead)]
        return Slot(self._group, next(slot for slot in range(len(taken) + 1) if slot not in taken))

    def release(self, slot: Slot) -> None: ...


class Subscriber:
    """See `streamsvm.registry.subscriber.ModelSubscriber`: has the newest version at once."""

    connected, missing, refused, names = True, "", 0, ()

    def __init__(self, world: World) -> None:
        self._world = world
        self._loaded: Loaded | None = None

    @property
    def loaded(self) -> Loaded:
        number, (made, content) = self._world.versions, version(self._world.versions)
        if self._loaded is None or self._loaded.version.number != number:
            self._loaded = Loaded(version=made, sha256=model_codec.sha256(content), offset=number - 1, loaded_at=0.0)
        return self._loaded


class Inline:
    """See `consumers.streams.abandonable.Aside`: makes the call at once, on the caller's thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._failure: Exception | None = None
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised where the call is waited for
            self._failure = error

    def finished(self, timeout_s: float) -> bool:
        if self._failure is not None:
            raise self._failure
        return True


class ScorerPorts:
    """Everything that one life of a scorer is given."""

    clusters = ScorerCluster
    embedded, servers = False, "simulated"

    def __init__(self, world: World, life: Life) -> None:
        self.world, self.life = world, life
        self.clock = ports.clock_of(world)
        self.cluster = self.clusters(world, life)
        self.stop = Stop(world, life)

    def scorer(self, settings: Settings) -> Scorer:
        """Return the shipped scorer on these ports."""
        assert self.life.health is not None
        return Scorer(
            settings,
            ScorerComponents(
                connection=self,  # type: ignore[arg-type]
                metrics=NoMetrics(),  # type: ignore[arg-type]
                health=self.life.health,
                stop=self.stop,  # type: ignore[arg-type]
                board=ScorerBoard(),
            ),
        )

    def begin(
        self, settings: Settings, components: ScorerComponents, watch: observing.ScorerWatch, _: ExitStack
    ) -> ScorerLife:
        """See `consumers.scorer.life.begin`: the same parts, on these ports."""
        scoring, cluster = settings.scoring, self.cluster
        source, letters = cluster.describe(POINTS), DeadLetters(NAME, POINTS, POINT_LETTERS, components.metrics)
        letters.fit(cluster.describe(POINT_LETTERS), cluster.max_message_bytes)
        subscriber, companion = Subscriber(self.world), Companion()
        identity: Any = TopicIdentity(cluster, POINTS, source.topic_id or "", {})  # type: ignore[arg-type]
        port: Any = cluster
        done = ScoredProgress(
            port,
            model=NAME,
            input_topic=POINTS,
            topic=PROGRESS,
            partitions=[0],
            identity=identity,
            monotonic=self.clock.monotonic,
            wait=self.stop.wait,
        )
        serving: Any = partial(Serving, scoring, "auto", components, watch)
        return ScorerLife(
            places=[(SCORES, 0), (POINT_LETTERS, 0)],
            cluster=cluster,  # type: ignore[arg-type]
            identity=identity,
            progress=done,
            placing=Placing(port, done, model=NAME, scoring=scoring, identity=identity),
            slots=cluster.slots(group_of(settings)),  # type: ignore[arg-type]
            subscriber=subscriber,  # type: ignore[arg-type]
            serving=serving(
                subscriber,
                companion=companion,
                dead_letters=letters,
                schemas=None,
                max_message_bytes=cluster.max_message_bytes,
            ),
            standstill=ports.InlineStandstill(
                cluster.marks,
                [(SCORES, 0), (POINT_LETTERS, 0), *done.places],
                settling.TIMEOUTS * lives.TRANSACTION_TIMEOUT_S,
                self.clock.monotonic,
                components.metrics,
            ),
            input_watch=ports.Answering(),  # type: ignore[arg-type]
            topics_watch=ports.Answering(),  # type: ignore[arg-type]
            transaction_timeout_s=lives.TRANSACTION_TIMEOUT_S,
        )


@contextmanager
def wired(world: World) -> Iterator[None]:
    """Put a world in the place of what a scorer takes from its process: clock, threads, chance, and its composition."""
    seconds = ports.clock_of(world).monotonic
    time = SimpleNamespace(monotonic=seconds, time=lambda: BEGIN_MS / 1_000 + seconds())

    def begin(settings: Settings, components: Any, watch: Any, stack: ExitStack) -> ScorerLife:
        return components.connection.begin(settings, components, watch, stack)

    def crash_point(name: str) -> None:
        life = world.living()
        life.hidden |= name == "settle.swept"
        world.point(life, name)

    def heed(_stop: Any, _beat: Callable[[], None], call: Callable[[], Any]) -> Any:
        return call()

    with ExitStack() as stack:
        own = {"time": time, "random": SimpleNamespace(random=lambda: 0.5), "Aside": Inline, "heeding": heed}
        own |= {"begin": begin, "Cluster": lambda components: components.cluster}
        stack.enter_context(mock.patch.multiple(scorer, **own))
        stack.enter_context(mock.patch.object(seat, "time", time))
        for module in (scorer, score_settlement, settling):
            stack.enter_context(mock.patch.object(module, "crash_point", crash_point))
        yield
