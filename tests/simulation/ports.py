"""The trainer's ports into a world: every call that reaches a broker or a disk is a point of the schedule.

Each promises what the real one documents, no more: an answer may be lost, a request may arrive late, a reader waits for
a transaction that is open below the end it was asked for, and gives up in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

import structlog

from consumers import constants
from consumers.host import Health
from consumers.settings import Settings, Start
from consumers.streams import Standstill
from consumers.trainer import Components, CurrentVersion, MarginGate, OwnerWatch, Trainer, WarmUp, look, present_of
from streamsvm.config import ModelConfig
from streamsvm.delivery import Look
from streamsvm.errors import BrokerUnavailable, Fenced, StateError, StreamsvmError, TopicMissing, TransientError
from streamsvm.kafka import (
    TRANSACTION_TIMEOUT_S,
    Message,
    OffsetOutOfRange,
    OutcomeUnknown,
    Place,
    PublishRefused,
    Record,
    Stamp,
    Stored,
    TopicInfo,
    TopicSpec,
    Watermarks,
    stamped,
)
from streamsvm.learning import Cut, DueCut, Made, TrainFunction, Tuning, make, training
from streamsvm.model import Alias, Version
from streamsvm.quality import Verdict
from tests.simulation.broker import FENCED, EndTxn, Entry, Refused
from tests.simulation.stream import ALIASES, BATCH_RECORDS, CHECKPOINT_INTERVAL_S, MODELS, WATCH_INTERVAL_S, train
from tests.simulation.world import COMMIT_FAULTS, Life, World, clock_of

T = TypeVar("T")
MAX_MESSAGE_BYTES = 1_000_000
_WAITS = 2
POLL_S = 1.0


class InlineWatch:
    """Answers at once, on the caller's thread."""

    def __init__(self, cluster: Cluster, topic: str, _: Callable[[], None] | None = None) -> None:
        self._cluster = cluster
        self._topic = topic
        self._answer: Look | None = None

    def ask(self, reached: Mapping[int, int]) -> None:
        """See `Watch.ask`."""
        self._answer = look(self._cluster, self._topic, reached)

    def take(self) -> Look | None:
        """See `Watch.take`."""
        answer, self._answer = self._answer, None
        return answer

    def close(self) -> None:
        """See `Watch.close`."""


class _AtOnce:
    """Answers at once, on the caller's thread."""

    def _begin(self) -> Any:
        self._run()
        return Ended()


class InlineStandstill(_AtOnce, Standstill):
    """Readers' progress, asked on the caller's thread."""


class Answering:
    """Stands for `consumers.streams.input_watch.InputWatch`, and `OutputWatch`: what is asked here is always well."""

    def __init__(self, *_: object) -> None: ...

    def turn(self, _: object) -> None: ...


class InlineOwnerWatch(_AtOnce, OwnerWatch):
    """The owner record, asked on the caller's thread."""


def heeding_inline(_stop: Stop, _beat: Callable[[], None], call: Callable[[], T], /) -> T:
    """Answer at once, on the caller's thread."""
    return call()


class Beside(Generic[T]):
    """See `consumers.streams.abandonable.Pending`: makes the call when it is asked about it, or takes its time.

    It takes its time before the call, or after: then readers have the version, and the trainer does not know.
    """

    def __init__(self, world: World, life: Life, call: Callable[[], T]) -> None:
        self._world, self._life, self._call = world, life, call
        self._outcomes: list[Callable[[], T]] = []
        self._told = False

    def over(self, timeout_s: float) -> bool:
        self._world.time += timeout_s
        if not self._told and not self._life.dead and (self._outcomes or not self._takes_its_time()):
            self._make()
            self._told = not self._takes_its_time()
        return self._told

    def _takes_its_time(self) -> bool:
        return bool(self._world.decide("sending", "", ["slow publish"]))

    def _make(self) -> None:
        if self._outcomes:
            return
        try:
            returned = self._call()
        except StreamsvmError as error:
            self._outcomes.append(partial(_raised, error))
        else:
            self._outcomes.append(lambda: returned)

    @property
    def returned(self) -> T:
        return self._outcomes[0]()


def _raised(error: Exception) -> NoReturn:
    raise error


class Ended:
    """A thread that has ended."""

    def join(self, timeout_s: float) -> None:
        pass

    def is_alive(self) -> bool:
        return False


class Gate(MarginGate):
    """The shipped gate, but that the schedule says whether it refuses."""

    def __init__(self, world: World, present: CurrentVersion | None) -> None:
        super().__init__(0.0, present, lambda: (), NoMetrics())
        self._world = world

    def _verdict(self, version: Version, present: Version, cut: Cut) -> Verdict:
        return Verdict(outcome="refused" if self._world.decide("gate", "", ["gate refuses"]) else "passed")


class NoMetrics:
    """Metrics that nobody reads."""

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None: ...

    def begin(self, name: str, label: str, values: Iterable[str]) -> None: ...

    def put(self, name: str, value: float, **labels: str) -> None: ...

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Return nothing, as if nothing had been measured yet."""
        return {}

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def observe_all(self, name: str, values: Any) -> None: ...

    def drop(self, name: str, *labels: str) -> None: ...


class Ports:
    """Everything that one life of a trainer is given."""

    def __init__(self, world: World, life: Life) -> None:
        self.world, self.life = world, life
        self.clock = clock_of(world)
        self.cluster = Cluster(world, life)
        self.disk = DiskPort(world, life)
        self.stop = Stop(world, life)

    def trainer(self, settings: Settings, health: Health, reset: str) -> Trainer:
        """Return the shipped trainer on these ports."""
        components = Components(
            cluster=self.cluster,
            metrics=NoMetrics(),
            health=health,
            stop=self.stop,
            clock=self.clock,
            disk=self.disk,
            train=train,
            make_worker=lambda function, config: Worker(self.world, self.life, function, config),
            make_watch=InlineWatch,
            make_gate=self._gate,
            make_standstill=InlineStandstill,
            make_input_watch=Answering,  # type: ignore[arg-type]
            make_owner_watch=InlineOwnerWatch,
            heeding=heeding_inline,
            aside=partial(Beside, self.world, self.life),
        )
        constants.BATCH_RECORDS, constants.WATCH_INTERVAL_S = BATCH_RECORDS, WATCH_INTERVAL_S
        return Trainer(settings, components, reset=reset, session=self.life.name)

    def _gate(self, settings: Settings, cluster: Cluster, current: Alias | None, *_: object) -> Gate:
        return Gate(self.world, None if current is None else present_of(settings, cluster, current))


class Port:
    """What all ports have: the world, the life of a process, and the broker."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life
        self._broker = world.broker

    def _point(self, label: str) -> None:
        self._world.point(self._life, label)


class Cluster(Port):
    """See `streamsvm.kafka.Cluster`."""

    embedded = False
    max_message_bytes = MAX_MESSAGE_BYTES
    servers = "simulated"

    def keeping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def describe(self, topic: str) -> TopicInfo:
        if topic in self._world.logs:
            self._point(f"asks for {topic}")
        found = self._broker.topics.get(topic)
        if found is None:
            raise TopicMissing(f"topic {topic} does not exist")
        policy = "compact" if topic in (ALIASES, MODELS) else "delete"
        settings = {"cleanup.policy": policy, "retention.ms": "-1", "retention.bytes": "-1"}
        return TopicInfo(topic, found.topic_id, tuple(range(len(found.logs))), settings)

    def topic_id(self, topic: str) -> str | None:
        if (found := self._broker.topics.get(topic)) is None:
            raise TopicMissing(f"topic {topic} does not exist")
        return found.topic_id

    def create(self, topics: Sequence[TopicSpec]) -> list[str]:
        return []

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        self._point(f"asks for the range of {topic}[{partition}]")
        log = self._broker.log(topic, partition)
        return log.first, log.end

    def log_ranges(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        return {partition: self.log_range(topic, partition) for partition in partitions}

    def starts(self, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
        return {partition: self._broker.log(topic, partition).first for partition in partitions}

    def leader_epoch(self, topic: str, partition: int, offset: int) -> int | None:
        self._point(f"asks for the leader epoch of {topic}[{partition}]@{offset}")
        log = self._broker.log(topic, partition)
        entry = log.entries[offset] if log.first <= offset < log.end else None
        return entry.leader_epoch if entry and log.readable(offset) else None

    def newest(self, topic: str, keys: Iterable[bytes], timeout_s: float) -> dict[bytes, Record]:
        self._point(f"asks for the end of {topic}")
        log, end = self._awaited(topic, timeout_s)
        wanted = set(keys)
        found = {
            entry.key: log.record(topic, 0, offset, entry)
            for offset, entry in log.committed(stop=end)
            if entry.key in wanted
        }
        missing = wanted - found.keys()
        return found | self.newest(topic, wanted, timeout_s) if missing and self._end(topic) > end else found

    def read_to_end(
        self, topic: str, partition: int, *, start: int | None = None, timeout_s: float
    ) -> Iterator[Record]:
        log, end = self._awaited(topic, timeout_s)
        return iter([log.record(topic, 0, at, entry) for at, entry in log.committed(start or 0, end)])

    def _awaited(self, topic: str, timeout_s: float) -> tuple[Any, int]:
        """Return a log and its end, below which no transaction is open any more."""
        log, end = self._broker.log(topic), self._end(topic)
        for _ in range(_WAITS):
            if log.stable >= end:
                break
            self._world.end_what_can_end()
            self._world.time += timeout_s / _WAITS
            self._point(f"waits for a transaction in {topic}")
        if log.stable < end:
            self._life.hidden = True
            raise TransientError(f"could not read {topic}: an open transaction holds readers up there")
        self._point(f"reads {topic}")
        return log, end

    def newest_under(self, topic: str, prefix: bytes, timeout_s: float) -> dict[bytes, Record]:
        keys = {entry.key for _, entry in self._broker.log(topic).committed() if entry.key.startswith(prefix)}
        return self.newest(topic, keys, timeout_s)

    def record(self, topic: str, offset: int, timeout_s: float) -> Record | None:
        self._point(f"fetches {topic}@{offset}")
        log = self._broker.log(topic)
        return next((log.record(topic, 0, at, entry) for at, entry in log.committed(offset) if at == offset), None)

    def _end(self, topic: str) -> int:
        return self._broker.log(topic).end

    def marks(self, places: Iterable[Place]) -> dict[Place, Watermarks]:
        self._point("asks for stable offsets and ends")
        self._world.end_what_can_end()
        logs = {place: self._broker.log(*place) for place in places}
        return {place: Watermarks(log.stable, log.end) for place, log in logs.items()}

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
        return [one for place in places for one in self._stored(place, wanted, start or 0, since_ms, until_ms)]

    def _stored(
        self,
        place: Place,
        wanted: Callable[[Record], bool],
        start: int,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Stored]:
        topic, partition = place
        self._point(f"reads {topic}, aborted records too")
        log = self._broker.log(topic, partition)
        end = log.end
        if log.stable < end:
            raise TransientError(f"could not read {topic}: an open transaction holds readers up there")
        entries = ((offset, log.entries[offset]) for offset in range(max(log.first, start), end))
        return [
            Stored(record, log.readable(offset))
            for offset, entry in entries
            if entry and not entry.control and wanted(record := log.record(topic, partition, offset, entry))
        ]

    def stored_at(self, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
        self._point(f"looks at {topic}@{offset}, committed or not")
        log = self._broker.log(topic, partition)
        places = ((at, log.entries[at]) for at in range(offset, log.end))
        return next((log.record(topic, partition, at, one) for at, one in places if one and not one.control), None)

    def publisher(self, transactional_id: str, writer: str = "") -> Publisher:
        return Publisher(self._world, self._life, transactional_id, writer)

    def outbox(self, *, patience_s: float | None = None) -> Outbox:
        return Outbox(self._world, self._life)

    def input(self, topic: str, group: str) -> Input:
        return Input(self._world, self._life, topic)

    def reader(self) -> RecordFetcher:
        return RecordFetcher(self._world, self._life)


class Publisher(Port):
    """See `streamsvm.kafka.Publisher`."""

    results = MODELS
    """The topic that the broker may refuse a message of."""

    def __init__(self, world: World, life: Life, transactional_id: str, writer: str = "") -> None:
        super().__init__(world, life)
        self._id = transactional_id
        self._writer = writer or f"{life.name}/for {transactional_id}"
        self._attempts = 0
        self._unmarked: dict[str, int] = {}
        self._producer = (-1, -1)
        self._ended: StreamsvmError | None = None
        self._sent = False
        self.attempted: tuple[Message, ...] = ()

    def start(self) -> None:
        self._point("init_transactions")
        self._life.writers[self._id] = self._writer
        fault = self._world.decide("network", "", ["unavailable", "init unanswered"])
        if fault != "unavailable":
            self._life.fences = True
            self._world.takes(self._life)
            self._life.fenced_at = None
            self._producer = self._broker.initialise(self._id)
        if fault:
            raise BrokerUnavailable("no broker answered")
        self._point("initialised")

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        progress: Any = None,
    ) -> list[int]:
        if self._ended is not None:
            raise self._ended
        self.confirm()
        self._sent, sent = False, dict[str, int]()
        self._attempts += 1
        attempt, count = f"{self._writer}.{self._attempts}", len(messages)
        self._life.hidden |= last is not None and all(Stamp.of(message.headers) for message in messages)
        self._point("begins a transaction")
        self.attempted = tuple(stamped(messages, attempt, self._id, 1, 0 if last else count))
        try:
            offsets = self._send(self.attempted, sent)
            if last is not None:
                self._point("sends what points at it")
                pointers = last(offsets)
                made = stamped(pointers, attempt, self._id, count + 1, count + len(pointers))
                self.attempted += tuple(made)
                self._send(made, sent)
            if progress is not None:
                self._place(progress, attempt)
            self._point("commits")
            self._commit()
        except Refused as refusal:
            raise self._failure(refusal) from None
        self._unmarked = sent
        self._point("committed")
        return offsets

    def confirm(self) -> None:
        for _ in range(_WAITS):
            held_up = [topic for topic, last in self._unmarked.items() if self._broker.log(topic).stable <= last]
            if not held_up:
                if self._unmarked:
                    self._unmarked, self.attempted = {}, ()
                return
            self._world.end_what_can_end()
            self._world.time += TRANSACTION_TIMEOUT_S / _WAITS
            self._point(f"waits for markers in {', '.join(held_up)}")
        self._ended = OutcomeUnknown("readers did not pass what was committed")
        raise self._ended

    def sweep(self, messages: Sequence[Message]) -> None:
        self._point("begins a transaction to be aborted")
        self._attempts += 1
        swept: dict[str, int] = {}
        try:
            attempt = f"{self._writer}.{self._attempts}"
            self._send(stamped(messages, attempt, self._id, 1, len(messages)), swept, faulty=False)
            self._point("aborts")
            self._abort()
        except Refused as refusal:
            raise self._failure(refusal) from None
        self._unmarked = swept
        self._point("aborted")

    def close(self) -> None:
        if not self._life.dead and self._ended is None and self._sent:
            self._abort()

    def _entry(self, message: Message) -> Entry:
        """Return a message as the broker stores it."""
        return Entry(message.value, message.key, message.headers)

    def _place(self, progress: Any, attempt: str) -> None:
        """Add a group's positions to the transaction."""
        raise NotImplementedError

    def _send(self, messages: Sequence[Message], sent: dict[str, int], *, faulty: bool = True) -> list[int]:
        fault = ""
        if faulty and any(message.topic == self.results for message in messages):
            fault = self._world.decide("version", "", ["refused", "failed"])
        if fault == "refused":
            self._abort()
            self._world.refused_versions.append(messages[0].value)
            raise PublishRefused("the broker refused a message")
        offsets = []
        for message in messages:
            offsets.append(self._broker.send(self._id, self._producer, message.topic, self._entry(message)))
            self._sent = True
            sent[message.topic] = offsets[-1]
        if fault == "failed":
            self._abort()
            raise TransientError("the broker failed before the commit")
        return offsets

    def _commit(self) -> None:
        fault = self._world.decide("commit", "", COMMIT_FAULTS)
        request = EndTxn(self._id, *self._producer, commit=True)
        if fault == "late":
            self._broker.late.append(request)
        elif fault != "unsent":
            self._broker.end(request)
        self._sent = False
        if fault == "asked twice":  # the client lost its connection, asked again, and was answered
            self._broker.late.append(request)
            self._lose_connection()
        elif fault:
            self._ended = OutcomeUnknown("the outcome of a transaction is unknown")
            raise self._ended

    def _lose_connection(self) -> None:
        self._ended = OutcomeUnknown("a connection was lost while a transaction was ended")

    def _abort(self) -> None:
        if self._sent:
            self._sent = False
            try:
                self._broker.end(EndTxn(self._id, *self._producer, commit=False))
            except Refused as refusal:
                raise self._failure(refusal) from None

    def _failure(self, refusal: Refused) -> StreamsvmError:
        if str(refusal) == FENCED:
            self._ended = Fenced("another instance took over")
            self._life.fenced_at = self._world.time
        else:
            self._ended = OutcomeUnknown(f"the outcome of a transaction is unknown: {refusal}")
        self._world.note(f"{self._life.name}: {self._ended}")
        return self._ended


class Outbox(Port):
    """See `streamsvm.kafka.Outbox`: what is queued arrives at the latest by `flush`."""

    def __init__(self, world: World, life: Life) -> None:
        super().__init__(world, life)
        self._queued: list[Message] = []

    def send(self, message: Message) -> None:
        self._queued.append(message)

    def poll(self) -> None:
        if self._queued and self._world.decide("letters", "", ["letters arrive"]):
            self._deliver()

    def flush(self, timeout_s: float) -> None:
        self._point("flushes dead letters")
        self._deliver()

    def close(self) -> None:
        self._queued.clear()

    def _deliver(self) -> None:
        for message in self._queued:
            self._broker.produce(message.topic, Entry(message.value, message.key, message.headers))
        self._queued.clear()


class RecordFetcher(Port):
    """See `streamsvm.kafka.RecordFetcher`."""

    def fetch_one(self, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
        self._point(f"fetches {topic}[{partition}]@{offset}")
        log = self._broker.log(topic, partition)
        found = next(iter(log.committed(offset, offset + 1)), None)
        return None if found is None else log.record(topic, partition, *found)

    def close(self) -> None: ...


class Input(Port):
    """See `streamsvm.kafka.Input`; one poll returns records of one partition.

    As the client does, it notices that the log was cut off below where it reads (KIP-320), and mostly that a topic was
    deleted: not where it asked the broker for no topics between the deletion and the making of another one.
    """

    def __init__(self, world: World, life: Life, topic: str) -> None:
        super().__init__(world, life)
        self._at: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._name = topic
        self._topic = self._broker.topics[topic]
        self._ends: dict[int, int] = {}
        self._paused: set[int] = set()

    def assign(self, positions: Mapping[int, int]) -> None:
        self._point(f"reads {self._name} from {dict(positions)}")
        self._life.reads = True
        self._at, self._epochs, self._ends = dict(positions), {}, {}
        self._paused.clear()

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        self._point(f"polls {self._name}")
        self._world.time += POLL_S
        if self._world.decide("clock", "", ["late poll"]):
            self._world.time += CHECKPOINT_INTERVAL_S
        fetched = sorted(self._at.keys() - self._paused)
        if not fetched:
            return []
        ready = [partition for partition in fetched if self._ready(partition)]
        self._ends |= {p: self._broker.log(self._name, p).stable for p in fetched if p not in ready}
        if not ready:
            self._rest()
            return []
        self._world.idle = 0
        return self._take(self._choose(ready), max_records)

    def _ready(self, partition: int) -> list[tuple[int, Entry]]:
        log, at = self._broker.log(self._name, partition), self._at[partition]
        topic = self._broker.topics[self._name]
        if topic is not self._topic:
            if not self._world.decide("client", "", ["unnoticed"]):
                raise TopicMissing(f"topic {self._name} was deleted")
            self._topic = topic
        before = log.entries[at - 1] if log.first < at <= log.end else None
        diverged = before and self._epochs.get(partition, before.leader_epoch) != before.leader_epoch
        if diverged or not log.first <= at <= log.end:
            raise OffsetOutOfRange(self._name, partition, at, log.first, log.end)
        return log.committed(at)

    def _choose(self, ready: list[int]) -> int:
        other = len(ready) > 1 and self._world.decide("order", "", ["other partition"])
        return ready[1] if other else ready[0]

    def _take(self, partition: int, most: int) -> list[Record]:
        if self._world.decide("batch", "", ["small batch"]):
            most = 1
        taken = self._ready(partition)[:most]
        log = self._broker.log(self._name, partition)
        self._at[partition] = taken[-1][0] + 1
        self._epochs[partition] = taken[-1][1].leader_epoch
        return [log.record(self._name, partition, offset, entry) for offset, entry in taken]

    def _rest(self) -> None:
        if not self._world.people.append() and self._world.rest(self._life):
            self._world.stopping = True

    def pause(self, partitions: Iterable[int] | None = None) -> None:
        self._paused |= {*(self._at if partitions is None else partitions)}

    def resume(self, partitions: Iterable[int] | None = None) -> None:
        self._paused -= {*(self._at if partitions is None else partitions)}

    def stable_end(self, partition: int) -> int | None:
        return self._broker.log(self._name, partition).end

    def in_open_transactions(self) -> dict[int, int]:
        return {}

    def seen_end(self, partition: int) -> int | None:
        return self._ends.get(partition)

    def commit(self, positions: Mapping[int, int]) -> None: ...

    def connected(self) -> bool:
        return True

    def close(self) -> None: ...


class Worker:
    """See `consumers.streams.ports.Worker`: trains when it is asked for the result, or takes its time."""

    def __init__(self, world: World, life: Life, function: TrainFunction, config: ModelConfig) -> None:
        self._world, self._life = world, life
        self._function, self._config = function, config
        self.training: DueCut | None = None

    def submit(self, cut: DueCut, in_force: Tuning | None) -> None:
        assert self.training is None
        self.training, self._in_force = cut, in_force

    def take(self, timeout_s: float = 0.0) -> Made | None:
        self._world.time += timeout_s
        cut = self.training
        if cut is None or self._world.decide("training", "", ["slow training"]):
            return None
        self.training = None
        return make(cut, self._config, self._in_force, train=self._function)

    def close(self) -> None: ...


class Stop(Port):
    """See `consumers.streams.ports.Stop`: set when the world is calm and there is nothing left to do."""

    def is_set(self) -> bool:
        self._world.check_thread()
        return self._world.stopping and self._world.calm

    def wait(self, timeout: float | None = None) -> bool:
        self._point("waits")
        self._world.time += timeout or 0.0
        return self.is_set()


class DiskPort(Port):
    """See `streamsvm.checkpoint.disk.Disk`."""

    def __init__(self, world: World, life: Life) -> None:
        super().__init__(world, life)
        self._loaded = False
        self._writing = self._written = -1

    def __str__(self) -> str:
        return "simulated"

    @property
    def _disk(self) -> Any:
        return self._life.instance.disk

    def lock(self) -> str:
        self._point("locks its directory")
        if self._disk.holder is not None:
            raise StateError("another process holds the checkpoint directory")
        self._disk.holder = self._life
        return ""

    def unlock(self, left: str = "") -> None:
        if self._disk.holder is self._life:
            self._disk.holder = None

    def names(self) -> list[str]:
        return self._disk.names()

    def size(self, name: str) -> int:
        return len(self._disk.read(name))

    def read(self, name: str) -> bytes:
        content = self._disk.read(name)
        if not self._loaded:
            self._loaded = True
            self._world.loads(self._life, content)
        return content

    def write(self, name: str, content: bytes) -> None:
        self._point(f"writes {name}")
        self._full()
        self._disk.write(name, content)
        self._writing = len(self._world.saved)
        self._world.saved.append((self._life.instance.name, content))

    def sync(self, name: str) -> None:
        self._point("syncs it")
        self._full()
        self._disk.sync(name)

    def rename(self, old: str, new: str) -> None:
        self._point("renames it")
        self._disk.rename(old, new)
        self._written = self._writing

    def remove(self, name: str) -> None:
        if not self._life.dead:
            self._point(f"removes {name}")
            self._disk.remove(name)

    def sync_names(self) -> None:
        self._point("syncs the directory")
        self._disk.sync_names()
        self._disk.saved = self._written
        self._point("saved")

    def _full(self) -> None:
        if self._world.decide("disk", "", ["disk full"]):
            raise OSError(28, "No space left on device")


@contextmanager
def quiet():
    """Silence the trainer's log, and let it compile once, for all simulated processes are one.

    The solver is spared altogether: no simulated world uses it. No thread reports how far compiling is.
    """
    compiled = set[str]()

    def compile_once(self: WarmUp) -> None:
        if self._config.sha256() not in compiled:
            warm_up(self)
            compiled.add(self._config.sha256())

    before, warm_up, tell, solver = structlog.get_config(), WarmUp.run, WarmUp._log_progress, training.warm_up
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    WarmUp.run, WarmUp._log_progress, training.warm_up = compile_once, lambda self: None, lambda config, say: None
    try:
        yield
    finally:
        structlog.configure(**before)
        WarmUp.run, WarmUp._log_progress, training.warm_up = warm_up, tell, solver
