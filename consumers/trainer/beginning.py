"""A start: the model is taken over, and a life is made of what was found.

`begin` is called by the trainer's loop, once for each life. It does, in this order:

1. `consumers.trainer.taking_over.take_over`: refuse what must be refused, compile, take the transactional id over,
   decide how to go on, and restore the learner;
2. make the quality gate, the training thread, the intake and the watches;
3. put them together as a `Life`.

If any step raises, the stack closes what was opened, nothing was published, and another trainer of the model, if there
was one, is fenced at most. A branch takes part by its attachment: it may put another source in the place of the intake
(late labels, workers), and add to the gate and to what versions name (`consumers.trainer.attachment`).
"""

from __future__ import annotations

from contextlib import ExitStack

from consumers.settings import Settings
from consumers.streams.identity import TopicIdentity
from consumers.streams.topics import OutputWatch, OwnTopics, watched_outputs, written_places
from consumers.trainer.attachment import Making
from consumers.trainer.checkpointing import Saver
from consumers.trainer.components import Components
from consumers.trainer.intake import Intake
from consumers.trainer.life import Life
from consumers.trainer.publishing import VersionPublisher
from consumers.trainer.retention import Keeper
from consumers.trainer.session import STUCK_S
from consumers.trainer.stream_quality import QualityWatch
from consumers.trainer.taking_over import TakenOver, take_over
from consumers.trainer.topic_watch import Surveyor
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.model.left_out import Places
from streamsvm.registry.signing import Signer
from streamsvm.sockets import DAEMONS, plugged


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
        If the process was stopped before anything was taken over.
    StreamsvmError
        If it must not or cannot go on; then nothing was published.
    """
    clock, metrics, cluster = components.clock, components.metrics, components.cluster
    saver = Saver(settings.checkpoint, checkpoints, metrics, components.health, clock.monotonic, clock.now)
    taken = take_over(settings, components, checkpoints, stack, session=session, reset=reset)
    started, delivery, pipeline, attachments = taken.started, taken.delivery, taken.pipeline, taken.attachments
    # These settings, not those that were given: an incarnation keeps the time zone rules with which it began, and
    # everything below must read times by them.
    settings = started.settings
    config, topic = settings.models(), settings.input.topic
    gate = components.make_gate(settings, cluster, started.current, lambda: pipeline.backlog, metrics, delivery.head)
    quality = QualityWatch(settings, cluster, started.current, gate, metrics)
    worker = components.make_worker(components.train, config)
    stack.callback(worker.close)
    making = Making(
        settings=settings,
        topic_id=started.topic_id,
        dead_letters=taken.dead_letters,
        pipeline=pipeline,
        quality=quality,
        surveyor=_surveyor(taken, components, stack),
        remedy=taken.remedy,
        left_out=attachments.left_out(),
        other_logs=attachments.other_logs(),
    )
    intake = attachments.source(making)
    if intake is None:
        intake = _intake(taken, making.left_out, components, stack)
    return Life(
        config=config,
        topic_id=started.topic_id,
        partitions=len(started.topic.partitions),
        current=started.current,
        delivery=delivery,
        session=taken.session,
        pipeline=pipeline,
        intake=intake,
        worker=worker,
        quality=quality,
        versions=VersionPublisher(
            settings, taken.session, delivery, quality, clock.now, signer, attachments.origin, cluster=cluster
        ),
        keeper=Keeper(settings, cluster, clock.now),
        saver=saver,
        identity=TopicIdentity(
            cluster,
            topic,
            started.topic_id,
            {p: at.offset for p, at in pipeline.learner.positions.items()},
            remedy=making.remedy,
            monotonic=clock.monotonic,
        ),
        surveyor=making.surveyor,
        standstill=components.make_standstill(
            cluster.marks, written_places(settings), STUCK_S, clock.monotonic, metrics
        ),
        input_watch=components.make_input_watch(cluster, components.health, clock.monotonic),
        owner=components.make_owner_watch(
            cluster, settings.output.aliases_topic, settings.name, delivery.check_owner, clock.monotonic
        ),
        sequence=started.sequence,
        attachments=attachments,
        checkpoints=checkpoints,
    )


def _surveyor(taken: TakenOver, components: Components, stack: ExitStack) -> Surveyor:
    started, source = taken.started, taken.started.settings.input
    settings = taken.started.settings
    cluster, watched = components.cluster, watched_outputs(settings)
    branches = plugged("topics", OwnTopics, DAEMONS)
    own = [(spec, one.promise) for one in branches for spec in one.specs(settings, cluster)]
    outputs = OutputWatch(settings, cluster, components.health, watched + own, taken.started.outputs)

    def look() -> None:
        outputs.look()
        for spec, _ in own:
            outputs.refuse_made_again(spec.name)

    watch = components.make_watch(components.cluster, source.topic, look)
    stack.callback(watch.close)
    # Partitions that came while nobody looked wait for the first check after reading again; it should not take an
    # interval.
    left_out = len(started.topic.partitions) > len(started.base)
    monotonic = components.clock.monotonic
    return Surveyor(source, started.topic_id, watch, monotonic, remedy=taken.remedy, at_once=left_out)


def _intake(taken: TakenOver, left_out: Places, components: Components, stack: ExitStack) -> Intake:
    """Return what reads and decodes in this process."""
    cluster, settings = components.cluster, taken.started.settings
    config = settings.models()
    outbox = cluster.outbox(patience_s=None)
    stack.callback(outbox.close)
    reader = cluster.input(settings.input.topic, f"streamsvm-{settings.name}")
    stack.callback(reader.close)
    return Intake(
        settings,
        taken.pipeline,
        reader=reader,
        outbox=outbox,
        dead_letters=taken.dead_letters,
        decoder=PointDecoder(config.points, schemas=taken.schemas, recipe=config.recipe, name=settings.name),
        metrics=components.metrics,
        health=components.health,
        monotonic=components.clock.monotonic,
        clock=components.clock.now,
        left_out=left_out,
    )
