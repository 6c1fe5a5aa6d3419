"""One life of a trainer: everything that a start makes, whole or not at all.

A gap in the input ends a life; the next one is made by the very steps of a fresh start, and nothing of the old one is
left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import structlog

from consumers.branches.challenges.settings import ChallengeOptions
from consumers.branches.history.settings import ArchiveConfig
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.branches.workers.settings import TrainingByWorkers, coresets_topic
from consumers.host.clock import Clock
from consumers.host.runtime import Health, schemas_of
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.abandonable import Stopped, heeding
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity
from consumers.streams.joined_source import JoinedSource, Log
from consumers.streams.ports import Stop, Worker
from consumers.streams.standstill import Standstill
from consumers.streams.topics import written_places
from consumers.trainer import kernels
from consumers.trainer.archiving import Archivist, archive_config
from consumers.trainer.challenges import Challenges, ShadowGate
from consumers.trainer.checkpointing import Saver
from consumers.trainer.components import Components
from consumers.trainer.intake import FLUSH_TIMEOUT_S, Intake, NothingValid
from consumers.trainer.joined_intake import JoinedIntake
from consumers.trainer.owner_watch import OwnerWatch
from consumers.trainer.publishing import VersionPublisher
from consumers.trainer.retention import Keeper
from consumers.trainer.session import STUCK_S, Session
from consumers.trainer.startup import Started, Startup
from consumers.trainer.stream_quality import QualityWatch
from consumers.trainer.topic_watch import Surveyor
from consumers.trainer.workers.adopting import Adopting
from consumers.trainer.workers.crew import Crew, Hands
from streamsvm.archive.store import Identity
from streamsvm.build import build
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import Joining
from streamsvm.config import ModelConfig
from streamsvm.delivery import Delivery
from streamsvm.delivery.decision import reset_token
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.ingest.schemas import Schemas
from streamsvm.kafka import Cluster
from streamsvm.learning.recipe import LabelsOrigin
from streamsvm.learning.training import limited
from streamsvm.model.erased import Erased
from streamsvm.model.pointers import Alias
from streamsvm.registry.signing import Signer
from streamsvm.sections import section

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
        With the rules of time zones of the checkpoint from which it goes on.
    topic_id : str
    partitions : int
        Of the input, at the start.
    current : Alias or None
        The version that was current at the start.
    identity, labels_identity : TopicIdentity
        Of the input, and of the labels' topic; None where labels come with the features.
    sequence : int
        Of the newest checkpoint written; 0 before the first.
    archivist : Archivist or None
        Records what is learned; None where nothing is archived.
    erased : Erased or None
        The rows that are passed over; None where no row was erased.
    """

    config: ModelConfig
    topic_id: str
    partitions: int
    current: Alias | None
    delivery: Delivery
    session: Session
    pipeline: Pipeline
    intake: Intake | JoinedIntake | Crew | Adopting
    worker: Worker
    quality: QualityWatch
    versions: VersionPublisher
    keeper: Keeper
    saver: Saver
    identity: TopicIdentity
    labels_identity: TopicIdentity | None
    surveyor: Surveyor
    labels_surveyor: Surveyor | None
    standstill: Standstill
    owner: OwnerWatch
    challenges: Challenges | None
    sequence: int
    archivist: Archivist | None = None
    erased: Erased | None = None

    def confirm(self) -> None:
        """Return if all that was learned is of the topics that this life began with; blocks as `TopicIdentity.confirm`.

        Raises
        ------
        Recreated, TransientError, ConfigurationError
            As of `TopicIdentity.confirm`.
        """
        learned, intake = self.pipeline.learner.positions, self.intake
        self.identity.confirm({partition: at.offset for partition, at in learned.items()})
        if self.labels_identity is not None and isinstance(intake, JoinedIntake):
            self.labels_identity.confirm({partition: at.offset for partition, at in intake.merged("labels").items()})

    def save(self, flush_s: float = FLUSH_TIMEOUT_S) -> None:
        """Write a checkpoint; none passes a dead letter that is not acknowledged.

        Raises
        ------
        Fenced
            If the model belongs to another process by now; nothing is written then.
        TransientError
            If the dead letters cannot be delivered in time, or the disk refuses; where rows are archived, also if the
            broker does not say whether the input is still the same topic.
        Recreated
            If rows would be archived that are of two topics. A checkpoint of such rows needs no such care: it names the
            old topic's id, and no start goes on from it.
        """
        self.owner.before_saving()
        if self.sequence:
            try:
                self._settle(flush_s)
            except NothingValid:  # positions stay: a better configuration is to read all of it again
                self.saver.passed()
                return
        if self.archivist is not None:  # before the checkpoint, which passes over the rows that it records
            self.confirm()
            self.archivist.extend(self.pipeline.base)
            self.archivist.save()
        self.sequence += 1
        joining = self.intake.joining() if isinstance(self.intake, JoinedIntake) else None
        self.saver.save(self.pipeline.snapshot(self.sequence, self.intake.ends, joining))

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
    labels_letters = _labels_letters(settings, metrics, clock.monotonic)
    heeding(components.stop, components.health.beat, lambda: startup.look(dead_letters, labels_letters))
    schemas = stack.enter_context(schemas_of(settings)) if components.schemas is None else components.schemas
    # Between look and run: the predecessor goes on publishing while this process compiles.
    warm_up(settings, components)
    hands = _hired(settings, components, stack)
    started = startup.run()
    # The checkpoint keeps the rules of time zones that it began with: everything below must be made with those.
    settings = started.settings
    config = settings.models()
    pipeline = _pipeline(started, delivery)
    quality, shadow_gate = _quality(settings, components, delivery, started.current, pipeline)
    challenges = None
    if shadow_gate is not None:
        challenges = Challenges(
            settings, cluster, writer, shadow_gate, quality, metrics, now=clock.now, monotonic=clock.monotonic
        )
        stack.callback(challenges.close)
    worker = components.make_worker(components.train, config)
    stack.callback(worker.close)
    watch = components.make_watch(cluster, topic)
    stack.callback(watch.close)
    # Partitions that came while nobody looked wait for the first check after reading again; it should not take an
    # interval.
    left_out = len(started.topic.partitions) > len(started.base)
    remedy = _way_out(settings.name, delivery.incarnation)
    surveyor = Surveyor(settings.input, started.topic_id, watch, clock.monotonic, remedy=remedy, at_once=left_out)
    intake: Intake | JoinedIntake | Crew | Adopting
    if section(settings, TrainingByWorkers).from_coresets:
        intake = _adopting(settings, components, stack, pipeline, delivery, quality, surveyor, started.topic_id)
    elif hands is not None:
        intake = Crew(
            settings,
            pipeline,
            delivery,
            hands,
            note=lambda rows: quality.learned(rows, again=False),
            metrics=metrics,
            health=components.health,
            monotonic=clock.monotonic,
        )
    elif started.joining is not None and labels_letters is not None:
        all_letters: dict[Log, DeadLetters] = {"features": dead_letters, "labels": labels_letters}
        intake = _joined_intake(settings, components, stack, pipeline, all_letters, started.joining)
    else:
        intake = _intake(settings, components, stack, pipeline, dead_letters, schemas, started.erased)
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
            settings, writer, delivery, quality, clock.now, signer, _origin(started.joining), cluster=cluster
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
        labels_identity=_labels_identity(settings, cluster, started.joining, remedy),
        surveyor=surveyor,
        labels_surveyor=_labels_surveyor(settings, components, stack, started.joining, remedy),
        standstill=components.make_standstill(
            cluster.marks, written_places(settings), STUCK_S, clock.monotonic, metrics
        ),
        owner=components.make_owner_watch(
            cluster, settings.output.aliases_topic, settings.name, delivery.check_owner, clock.monotonic
        ),
        challenges=challenges,
        sequence=started.sequence,
        archivist=_archivist(settings, components, stack, pipeline, started),
        erased=started.erased,
    )


def _archivist(
    settings: Settings, components: Components, stack: ExitStack, pipeline: Pipeline, started: Started
) -> Archivist | None:
    """Return what records the rows learned from here on; None where nothing is archived."""
    archive = section(settings, ArchiveConfig)
    if archive.directory is None:
        return None
    identity = Identity(
        name=settings.name,
        topic=settings.input.topic,
        topic_id=started.topic_id,
        config=archive_config(settings.models(), archive),
        base=pipeline.base,
    )
    archivist = Archivist(archive, identity, components.metrics)
    stack.callback(archivist.close)
    archivist.open(pipeline.learner.positions, pipeline.learner.learned(), started.erased)
    return archivist


def _hired(settings: Settings, components: Components, stack: ExitStack) -> Hands | None:
    """Return the workers, prepared; None where the trainer learns by itself.

    Before anything is taken over: a predecessor goes on meanwhile.
    """
    if section(settings, TrainingByWorkers).workers == 1:
        return None
    hands = Hands(settings, components.cluster.connection)
    stack.callback(hands.close)
    if not hands.wait(components.health, components.stop, components.clock.monotonic):
        raise Stopped
    return hands


def _intake(
    settings: Settings,
    components: Components,
    stack: ExitStack,
    pipeline: Pipeline,
    dead_letters: DeadLetters,
    schemas: Schemas | None,
    erased: Erased | None,
) -> Intake:
    """Return what reads and decodes in this process."""
    cluster, config = components.cluster, settings.models()
    outbox = cluster.outbox(patience_s=None)
    stack.callback(outbox.close)
    reader = cluster.input(settings.input.topic, settings.input.group or f"streamsvm-{settings.name}")
    stack.callback(reader.close)
    return Intake(
        settings,
        pipeline,
        reader=reader,
        outbox=outbox,
        dead_letters=dead_letters,
        decoder=PointDecoder(config.points, schemas=schemas, recipe=config.features),
        metrics=components.metrics,
        health=components.health,
        monotonic=components.clock.monotonic,
        clock=components.clock.now,
        erased=erased.places() if erased is not None else {},
    )


def _adopting(
    settings: Settings,
    components: Components,
    stack: ExitStack,
    pipeline: Pipeline,
    delivery: Delivery,
    quality: QualityWatch,
    surveyor: Surveyor,
    topic_id: str,
) -> Adopting:
    """Return what adopts states that workers left in the coresets topic."""
    cluster = components.cluster
    outbox = cluster.outbox()
    stack.callback(outbox.close)
    follower = cluster.input(coresets_topic(settings), None)
    stack.callback(follower.close)
    return Adopting(
        settings,
        pipeline,
        cluster=cluster,
        follower=follower,
        outbox=outbox,
        topic_id=topic_id,
        incarnation=lambda: delivery.incarnation,
        note=lambda rows: quality.learned(rows, again=False),
        log_ends=lambda: {partition: end for partition, (_, end) in surveyor.log.items()},
        metrics=components.metrics,
        health=components.health,
        monotonic=components.clock.monotonic,
    )


def _joined_intake(
    settings: Settings,
    components: Components,
    stack: ExitStack,
    pipeline: Pipeline,
    letters: Mapping[Log, DeadLetters],
    joining: Joining,
) -> JoinedIntake:
    """Return what reads two topics in this process, and joins them."""
    cluster = components.cluster
    outbox = cluster.outbox(patience_s=None)
    stack.callback(outbox.close)
    source = JoinedSource(
        cluster,
        settings.models(),
        features=settings.input.topic,
        labels=settings.labels_topic,
        group=settings.input.group or f"streamsvm-{settings.name}",
        most_rows=section(settings, LabelsConfig).most_rows,
    )
    intake = JoinedIntake(
        settings,
        pipeline,
        source=source,
        cluster=cluster,
        outbox=outbox,
        letters=letters,
        joining=joining,
        metrics=components.metrics,
        health=components.health,
        monotonic=components.clock.monotonic,
        now=components.clock.now,
    )
    stack.callback(intake.close)
    return intake


def _way_out(name: str, incarnation: int) -> str:
    """Return what a person can do about a gap in the input."""
    return (
        f"Begin anew at the configured start (version numbers go on) with --reset {reset_token(name, incarnation)}, or "
        "set input.on_gap = reset to begin anew automatically."
    )


def _labels_identity(
    settings: Settings, cluster: Cluster, joining: Joining | None, remedy: str
) -> TopicIdentity | None:
    """Return the identity of the labels' topic; None where labels come with the features."""
    if joining is None:
        return None
    reached = {partition: at.offset for partition, at in joining.base.items()}
    reached |= {partition: state.labels.next.offset for partition, state in joining.partitions.items()}
    return TopicIdentity(cluster, settings.labels_topic, joining.topic_id, reached, remedy=remedy)


def _labels_surveyor(
    settings: Settings, components: Components, stack: ExitStack, joining: Joining | None, remedy: str
) -> Surveyor | None:
    """Return what looks at the labels' topic; None where labels come with the features."""
    if joining is None:
        return None
    watch = components.make_watch(components.cluster, settings.labels_topic)
    stack.callback(watch.close)
    of_labels = settings.input.model_copy(update={"topic": settings.labels_topic})
    return Surveyor(of_labels, joining.topic_id, watch, components.clock.monotonic, remedy=remedy)


def _labels_letters(settings: Settings, metrics: Metrics, monotonic: Callable[[], float]) -> DeadLetters | None:
    labels = section(settings, LabelsConfig)
    if not labels.topic:
        return None
    return DeadLetters(settings.name, labels.topic, labels.dead_letters, metrics, monotonic)


def _origin(joining: Joining | None) -> LabelsOrigin | None:
    """Return what versions say of the log that their labels come from."""
    if joining is None:
        return None
    return LabelsOrigin(topic=joining.topic, topic_id=joining.topic_id, base=joining.base)


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
        joined=started.joining,
        erased=started.obeyed,
    )


def _quality(
    settings: Settings, components: Components, delivery: Delivery, current: Alias | None, pipeline: Pipeline
) -> tuple[QualityWatch, ShadowGate | None]:
    """Return what judges and measures, and the part of it that challenges need, if there are such."""
    cluster, metrics = components.cluster, components.metrics
    gate = components.make_gate(settings, cluster, current, lambda: pipeline.backlog, metrics, delivery.head)
    shadow = ShadowGate(gate, delivery.head, metrics) if section(settings, ChallengeOptions).challenges else None
    return QualityWatch(settings, cluster, current, shadow or gate, metrics, components.clock.monotonic), shadow


def warm_up(settings: Settings, components: Components) -> None:
    """Compile all that a life calls; raises `Stopped` if told to stop meanwhile."""
    registry = components.schemas is not None or bool(settings.registry.url)
    WarmUp(settings.models(), components.health, components.stop, components.clock, registry=registry).run()


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
