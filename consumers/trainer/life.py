"""One life of a trainer: everything that a start makes, whole or not at all.

A gap in the input ends a life; the next one is made by the very steps of a fresh start, and nothing of the old one is
left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import structlog

from consumers.host.clock import Clock
from consumers.host.runtime import Health, schemas_of
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.ports import Stop, Worker
from consumers.streams.standstill import Standstill
from consumers.streams.topics import written_places
from consumers.trainer import kernels
from consumers.trainer.checkpointing import Saver
from consumers.trainer.components import Components
from consumers.trainer.intake import FLUSH_TIMEOUT_S, Intake
from consumers.trainer.publishing import VersionPublisher
from consumers.trainer.retention import Keeper
from consumers.trainer.session import STUCK_S, Session
from consumers.trainer.startup import Started, Startup
from consumers.trainer.stream_quality import QualityWatch
from consumers.trainer.topic_watch import Surveyor
from streamsvm.build import build
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.config import ModelConfig
from streamsvm.delivery import Delivery
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.learning.training import limited
from streamsvm.model.pointers import Alias
from streamsvm.registry.signing import Signer

log = structlog.get_logger("streamsvm.trainer")

START_LOOKS_S: Final = 5.0
"""Between two looks of a start that waits for somebody else's transaction to end."""
SHORT_FLUSH_S: Final = 5.0
"""How long a checkpoint holds up the loop for dead letters that cannot be delivered; the next one tries again."""
LONG_COMPILE_S: Final = 1.0
"""Loading what an earlier start compiled is over by then; compiling it takes a minute."""
COMPILING: Final = "compiling, which takes up to a minute at the first start"


@dataclass(slots=True, kw_only=True)
class Life:
    """The parts that live from a start to a stop, or to a gap in the input.

    Attributes
    ----------
    config : ModelConfig
        As it goes on from the checkpoint: options that are younger than it, and not given, have their old values.
    topic_id : str
    partitions : int
        Of the input, at the start.
    current : Alias or None
        The version that was current at the start.
    sequence : int
        Of the newest checkpoint written; 0 before the first.
    """

    config: ModelConfig
    topic_id: str
    partitions: int
    current: Alias | None
    delivery: Delivery
    session: Session
    pipeline: Pipeline
    intake: Intake
    worker: Worker
    quality: QualityWatch
    versions: VersionPublisher
    keeper: Keeper
    saver: Saver
    surveyor: Surveyor
    standstill: Standstill
    sequence: int

    def save(self, flush_s: float = FLUSH_TIMEOUT_S) -> None:
        """Write a checkpoint; none passes a dead letter that is not acknowledged.

        Raises
        ------
        TransientError
            If the dead letters cannot be delivered in time, or the disk refuses.
        """
        if self.sequence:
            self.intake.flush(flush_s)
        self.sequence += 1
        self.saver.save(self.pipeline.snapshot(self.sequence, self.intake.ends))

    def save_or_warn(self) -> None:
        """Write a checkpoint, and show observers of the group how far it is; a failure is tried again later."""
        try:
            self.save(SHORT_FLUSH_S)
        except TransientError as error:
            self.saver.failed(error)
            return
        self.intake.show_progress()


class Stopped(Exception):
    """The trainer was told to stop before the start took anything over."""


def begin(
    settings: Settings,
    components: Components,
    checkpoints: CheckpointDirectory,
    stack: ExitStack,
    *,
    session: str,
    reset: str,
    signer: Signer | None,
) -> Life:
    """Start: refuse what must be refused, compile, take the model over, and open everything.

    Parameters
    ----------
    settings : Settings
    components : Components
    checkpoints : CheckpointDirectory
        Locked.
    stack : ExitStack
        What is opened is closed there.
    session : str
        Names this life in what it publishes.
    reset : str
        What `--reset` said.
    signer : Signer or None

    Raises
    ------
    Stopped
        If told to stop before anything was taken over.
    StreamsvmError
        If it must not or cannot go on; then nothing was published.
    """
    clock, metrics, cluster = components.clock, components.metrics, components.cluster
    stack.enter_context(limited(settings.models().svm))  # for pilots too, whether or not a training runs beside them
    topic, letters = settings.input.topic, settings.input.dead_letters
    dead_letters = DeadLetters(settings.name, topic, letters, metrics, clock.monotonic)
    saver = Saver(settings.checkpoint, checkpoints, metrics, components.health, clock.monotonic, clock.now)
    delivery = Delivery(settings.name, session)
    waits = _waiting(components.health, components.stop)
    writer = Session(
        settings,
        cluster,
        delivery,
        metrics=metrics,
        monotonic=clock.monotonic,
        wait=components.stop.wait,
        waiting=waits,
    )
    stack.callback(writer.close)
    startup = Startup(settings, cluster, checkpoints, delivery=delivery, session=writer, reset=reset, now=clock.now)
    # Before compiling, which takes a minute the first time: a start that must be refused says so at once.
    startup.look(dead_letters)
    schemas = stack.enter_context(schemas_of(settings)) if components.schemas is None else components.schemas
    # Between look and run: the predecessor goes on publishing while this process compiles.
    WarmUp(settings.models(), components.health, components.stop, clock, registry=schemas is not None).run()
    started = startup.run()
    # An older checkpoint may keep older defaults alive: everything below must be made with those.
    settings = started.settings
    config = settings.models()
    pipeline = _pipeline(started, delivery)
    quality = _quality(settings, components, delivery, started.current, pipeline)
    outbox = cluster.outbox(patience_s=None)
    stack.callback(outbox.close)
    worker = components.make_worker(components.train, config)
    stack.callback(worker.close)
    watch = components.make_watch(cluster, topic)
    stack.callback(watch.close)
    # Partitions that came while nobody looked wait for the first check after reading again; it should not take an
    # interval.
    left_out = len(started.topic.partitions) > len(started.base)
    reader = cluster.input(topic, settings.input.group or f"streamsvm-{settings.name}")
    stack.callback(reader.close)
    decoder = PointDecoder(config.points, schemas=schemas, recipe=config.features)
    return Life(
        config=config,
        topic_id=started.topic_id,
        partitions=len(started.topic.partitions),
        current=started.current,
        delivery=delivery,
        session=writer,
        pipeline=pipeline,
        intake=Intake(
            settings,
            pipeline,
            reader=reader,
            outbox=outbox,
            dead_letters=dead_letters,
            decoder=decoder,
            metrics=metrics,
            health=components.health,
            monotonic=clock.monotonic,
            clock=clock.now,
        ),
        worker=worker,
        quality=quality,
        versions=VersionPublisher(settings, writer, delivery, quality, clock.now, signer),
        keeper=Keeper(settings, cluster, metrics, clock.now),
        saver=saver,
        surveyor=Surveyor(settings.input, started.topic_id, watch, clock.monotonic, at_once=left_out),
        standstill=components.make_standstill(
            cluster.marks, written_places(settings), STUCK_S, clock.monotonic, metrics
        ),
        sequence=started.sequence,
    )


def _waiting(health: Health, stop: Stop) -> Callable[[str], bool]:
    """Return what a start calls while it waits: it says why, waits a moment, and tells whether to go on waiting."""

    def waits(why: str) -> bool:
        health.beat()
        health.require("publish", why)
        return not stop.wait(START_LOOKS_S)

    return waits


def _pipeline(started: Started, delivery: Delivery) -> Pipeline:
    settings = started.settings
    return Pipeline(
        delivery,
        started.learner,
        settings.models(),
        name=settings.name,
        topic=settings.input.topic,
        topic_id=started.topic_id,
        base=started.base,
        build=build(),
        waits_for_training=settings.training.policy == "every",
        waiting=started.waiting,
        read_to=started.read_to,
    )


def _quality(
    settings: Settings, components: Components, delivery: Delivery, current: Alias | None, pipeline: Pipeline
) -> QualityWatch:
    cluster, metrics = components.cluster, components.metrics
    gate = components.make_gate(settings, cluster, current, lambda: pipeline.backlog, metrics, delivery.head)
    return QualityWatch(settings, cluster, current, gate, metrics, components.clock.monotonic)


class WarmUp:
    """Compiles before the transactional id is taken over, so that the predecessor goes on meanwhile.

    Parameters
    ----------
    config : ModelConfig
    health : Health
    stop : Stop
    clock : Clock
    registry : bool
        Whether there is a source of Avro's schemas.
    """

    def __init__(
        self, config: ModelConfig, health: Health, stop: Stop, clock: Clock, *, registry: bool = False
    ) -> None:
        self._config = config
        self._registry = registry
        self._health = health
        self._stop = stop
        self._clock = clock
        self._since = clock.monotonic()
        self._what, self._told = "", False
        self._compiled = kernels.Compiled()

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._since

    def run(self) -> None:
        """Compile all that a life calls.

        Raises
        ------
        Stopped
            If told to stop meanwhile.
        """
        log.debug("preparing", solver=self._config.svm.solver, reducer=self._config.coreset.reducer)
        # A thread says it, because the first part alone may take half a minute: nothing in it can say so.
        teller = threading.Timer(LONG_COMPILE_S, self._tell)
        teller.daemon = True
        teller.start()
        try:
            with kernels.counting() as self._compiled:
                kernels.prepare(self._config, self._part, registry=self._registry)
        finally:
            teller.cancel()
            teller.join()
        if self._compiled.functions and self._seconds > LONG_COMPILE_S:
            log.info(
                "compiled",
                functions=self._compiled.functions,
                seconds=round(self._seconds, 1),
                remedy="the compiled code is cached; the next start loads it",
            )
        if self._stop.is_set():
            raise Stopped

    def _part(self, what: str) -> None:
        """Look whether to stop before each part, for a part may take many seconds; say it where it takes a while."""
        self._health.beat()
        if self._stop.is_set():
            raise Stopped
        self._what = what
        if self._told:
            log.info("compiling", what=what, functions=self._compiled.functions)

    def _tell(self) -> None:
        self._told = True
        self._health.require("start", COMPILING)
        log.info(
            "compiling",
            what=self._what,
            functions=self._compiled.functions,
            remedy="no action needed: a first start compiles for up to a minute; to compile beforehand, run "
            "`streamsvm compile` with the same options",
        )
