"""One life of a trainer: everything that a start makes, whole or not at all.

A gap in the input ends a life; the next one is made by the very steps of a fresh start, and nothing of the old one is
left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from consumers.host.runtime import Health, schemas_of
from consumers.settings import Settings
from consumers.streams.abandonable import heeding
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity
from consumers.streams.ports import Stop, Worker
from consumers.streams.standstill import Standstill
from consumers.streams.topics import written_places
from consumers.trainer.attachment import Attachments, Making, Part, World
from consumers.trainer.checkpointing import Saver
from consumers.trainer.components import Components
from consumers.trainer.intake import FLUSH_TIMEOUT_S, Intake, NothingValid
from consumers.trainer.owner_watch import OwnerWatch
from consumers.trainer.publishing import VersionPublisher
from consumers.trainer.retention import Keeper
from consumers.trainer.session import STUCK_S, Session
from consumers.trainer.source import Source
from consumers.trainer.startup import Started, Startup
from consumers.trainer.stream_quality import QualityWatch
from consumers.trainer.topic_watch import Surveyor
from consumers.trainer.warming import warm_up
from streamsvm.build import build
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.config import ModelConfig
from streamsvm.delivery import Delivery
from streamsvm.delivery.decision import reset_token
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.ingest.schemas import Schemas
from streamsvm.learning.training import limited
from streamsvm.model.pointers import Alias
from streamsvm.points import Rows
from streamsvm.registry.signing import Signer

START_LOOKS_S: Final = 5.0
"""Between two looks of a start that waits for somebody else's transaction to end."""
SHORT_FLUSH_S: Final = 5.0
"""How long a checkpoint holds up the loop for dead letters that cannot be delivered; the next one tries again."""


@dataclass(slots=True, kw_only=True)
class Life:
    """The parts that live from a start to a stop, or to a gap in the input.

    Attributes
    ----------
    config : ModelConfig
        With the rules of time zones of the checkpoint from which it goes on.
    topic_id : str
    partitions : int
        Of the input, at the start.
    current : Alias or None
        The version that was current at the start.
    intake : Source
        The input topic, or what a branch puts in its place.
    identity : TopicIdentity
        Of the input.
    sequence : int
        Of the newest checkpoint written; 0 before the first.
    attachments : Attachments
        Branches that are on.
    parts : tuple of Part
        What these do in every turn.
    """

    config: ModelConfig
    topic_id: str
    partitions: int
    current: Alias | None
    delivery: Delivery
    session: Session
    pipeline: Pipeline
    intake: Source
    worker: Worker
    quality: QualityWatch
    versions: VersionPublisher
    keeper: Keeper
    saver: Saver
    identity: TopicIdentity
    surveyor: Surveyor
    standstill: Standstill
    owner: OwnerWatch
    sequence: int
    attachments: Attachments
    parts: tuple[Part, ...]

    def confirm(self) -> None:
        """Return if all that was learned is of the topics that this life began with; blocks as `TopicIdentity.confirm`.

        Raises
        ------
        Recreated, TransientError, ConfigurationError
            As of `TopicIdentity.confirm`.
        """
        learned = self.pipeline.learner.positions
        self.identity.confirm({partition: at.offset for partition, at in learned.items()})
        self.intake.confirm()

    def save(self, flush_s: float = FLUSH_TIMEOUT_S) -> None:
        """Write a checkpoint; none passes a dead letter that is not acknowledged.

        Raises
        ------
        Fenced
            If the model belongs to another process by now; nothing is written then.
        TransientError
            If the dead letters cannot be delivered in time, or the disk refuses; where a branch saves rows, also if the
            broker does not say whether the input is still the same topic.
        Recreated
            If a branch would save rows that are of two topics. A checkpoint of such rows needs no such care: it names
            the old topic's id, and no start goes on from it.
        """
        self.owner.before_saving()
        if self.sequence:
            try:
                self._settle(flush_s)
            except NothingValid:  # positions stay: a better configuration is to read all of it again
                self.saver.passed()
                return
        for part in self.parts:  # before the checkpoint, which passes over the rows that they save
            part.save(self.confirm, self.pipeline.base)
        self.sequence += 1
        snapshot = self.pipeline.snapshot(self.sequence, self.intake.ends)
        self.saver.save(self.attachments.saved(self.intake.saved(snapshot)))

    def _settle(self, flush_s: float) -> None:
        if self.intake.nothing_valid:
            raise NothingValid
        self.intake.flush(flush_s)

    def save_or_warn(self) -> None:
        """Write a checkpoint, and show observers of the group how far it is; a failure is tried again later."""
        try:
            self.save(SHORT_FLUSH_S)
        except TransientError as error:
            self.saver.failed(error)
            return
        self.show_progress()

    def show_progress(self) -> None:
        """Show observers of the group how far it is; where nothing was valid yet, it is nowhere."""
        if not self.intake.nothing_valid:
            self.intake.show_progress()


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
    writer = _session(settings, components, delivery)
    stack.callback(writer.close)
    attachments = Attachments.of(
        World(settings=settings, components=components, session=writer, delivery=delivery, stack=stack)
    )
    startup = Startup(settings, cluster, checkpoints, attachments, delivery, writer, reset=reset, now=clock.now)
    # Before compiling, which takes a minute the first time: a start that must be refused says so at once.
    heeding(components.stop, components.health.beat, lambda: startup.look(dead_letters))
    schemas = stack.enter_context(schemas_of(settings)) if components.schemas is None else components.schemas
    # Between look and run: the predecessor goes on publishing while this process compiles.
    warm_up(settings, components)
    for attachment in attachments.all:
        attachment.prepare()
    started = startup.run()
    # The checkpoint keeps the rules of time zones that it began with: everything below must be made with those.
    settings = started.settings
    config = settings.models()
    pipeline = _pipeline(started, delivery, attachments.waiting())
    gate = attachments.gate(
        components.make_gate(settings, cluster, started.current, lambda: pipeline.backlog, metrics, delivery.head)
    )
    quality = QualityWatch(settings, cluster, started.current, gate, metrics, clock.monotonic)
    worker = components.make_worker(components.train, config)
    stack.callback(worker.close)
    watch = components.make_watch(cluster, topic)
    stack.callback(watch.close)
    # Partitions that came while nobody looked wait for the first check after reading again; it should not take an
    # interval.
    left_out = len(started.topic.partitions) > len(started.base)
    remedy = _way_out(settings.name, delivery.incarnation)
    surveyor = Surveyor(settings.input, started.topic_id, watch, clock.monotonic, remedy=remedy, at_once=left_out)
    making = Making(
        settings=settings,
        topic_id=started.topic_id,
        dead_letters=dead_letters,
        pipeline=pipeline,
        quality=quality,
        surveyor=surveyor,
        remedy=remedy,
    )
    intake = attachments.source(making)
    if intake is None:
        intake = _intake(making, components, stack, schemas, attachments.passes_over())
    return Life(
        config=config,
        topic_id=started.topic_id,
        partitions=len(started.topic.partitions),
        current=started.current,
        delivery=delivery,
        session=writer,
        pipeline=pipeline,
        intake=intake,
        worker=worker,
        quality=quality,
        versions=VersionPublisher(
            settings, writer, delivery, quality, clock.now, signer, attachments.origin, cluster=cluster
        ),
        keeper=Keeper(settings, cluster, metrics, clock.now),
        saver=saver,
        identity=TopicIdentity(
            cluster,
            topic,
            started.topic_id,
            {p: at.offset for p, at in pipeline.learner.positions.items()},
            remedy=remedy,
        ),
        surveyor=surveyor,
        standstill=components.make_standstill(
            cluster.marks, written_places(settings), STUCK_S, clock.monotonic, metrics
        ),
        owner=components.make_owner_watch(
            cluster, settings.output.aliases_topic, settings.name, delivery.check_owner, clock.monotonic
        ),
        sequence=started.sequence,
        attachments=attachments,
        parts=attachments.parts(making),
    )


def _session(settings: Settings, components: Components, delivery: Delivery) -> Session:
    return Session(
        settings,
        components.cluster,
        delivery,
        metrics=components.metrics,
        monotonic=components.clock.monotonic,
        wait=components.stop.wait,
        waiting=_waiting(components.health, components.stop),
    )


def _intake(
    making: Making,
    components: Components,
    stack: ExitStack,
    schemas: Schemas | None,
    passes_over: Sequence[Callable[[Rows], Rows]],
) -> Intake:
    """Return what reads and decodes in this process."""
    cluster, settings = components.cluster, making.settings
    config = settings.models()
    outbox = cluster.outbox(patience_s=None)
    stack.callback(outbox.close)
    reader = cluster.input(settings.input.topic, settings.input.group or f"streamsvm-{settings.name}")
    stack.callback(reader.close)
    return Intake(
        settings,
        making.pipeline,
        reader=reader,
        outbox=outbox,
        dead_letters=making.dead_letters,
        decoder=PointDecoder(config.points, schemas=schemas, recipe=config.features),
        metrics=components.metrics,
        health=components.health,
        monotonic=components.clock.monotonic,
        clock=components.clock.now,
        passes_over=passes_over,
    )


def _way_out(name: str, incarnation: int) -> str:
    """Return what a person can do about a gap in the input."""
    return (
        f"Begin anew at the configured start (version numbers go on) with --reset {reset_token(name, incarnation)}, or "
        "set input.on_gap = reset to begin anew automatically."
    )


def _waiting(health: Health, stop: Stop) -> Callable[[str], bool]:
    """Return what a start calls while it waits: it says why, waits a moment, and returns whether to go on waiting."""

    def waits(why: str) -> bool:
        health.beat()
        health.require("publish", why)
        return not stop.wait(START_LOOKS_S)

    return waits


def _pipeline(started: Started, delivery: Delivery, waiting_rows: Mapping[int, Rows] | None) -> Pipeline:
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
        waiting_rows=waiting_rows,
    )
