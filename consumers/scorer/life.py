"""One life of a scorer: everything that a start makes, whole or not at all.

`begin` is called once by `consumers.scorer.scorer.Scorer.run`, which then drives the parts. A slot in the group is not
among them: it comes later and may change (`consumers.scorer.seat`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from consumers.host.runtime import schemas_of
from consumers.scorer.companion import companion_of
from consumers.scorer.components import ScorerComponents
from consumers.scorer.observing import ScorerWatch
from consumers.scorer.placing import Placing
from consumers.scorer.serving import Serving
from consumers.settings import Settings
from consumers.streams.abandonable import BoundedCluster, awaited
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity
from consumers.streams.input_watch import InputWatch
from consumers.streams.scored_progress import ScoredProgress, check_scorer_names, progress_spec, scorer_topics
from consumers.streams.settling import TIMEOUTS
from consumers.streams.standstill import Standstill
from consumers.streams.topics import LETTERS_PROMISE, MADE, OutputWatch, watched_outputs
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import avro_scan
from streamsvm.kafka import Cluster, GroupSlots, TopicInfo, TopicSpec
from streamsvm.registry.signing import TrustedKeys
from streamsvm.registry.subscriber import ModelSubscriber

TRANSACTION_TIMEOUT_S: Final = 10.0
"""How long a batch may take to be stored, and then to be committed; a killed scorer's open transaction holds readers of
the scores back for as long."""
LOST_S: Final = 1.2 * TRANSACTION_TIMEOUT_S
"""A call to the publisher that takes longer than this is abandoned (`consumers.streams.abandonable`): the broker has
ended its transaction by then. The client library may wait for ever where the group's coordinator has moved. A
settlement has no limit of its own: it makes several calls, and may have much to read in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerLife:
    """The parts that live from a start to a stop.

    Attributes
    ----------
    places : sequence of (str, int)
        Partitions that a batch's transaction may write to: scores and dead letters.
    cluster : BoundedCluster
    identity : TopicIdentity
        Of the input.
    progress : ScoredProgress
        How far the input was scored.
    placing : Placing
        Where to read on.
    slots : GroupSlots
        Of the group.
    subscriber : ModelSubscriber
    serving : Serving
    standstill : Standstill
    input_watch : InputWatch
    topics_watch : OutputWatch
    transaction_timeout_s : float
    """

    places: Sequence[tuple[str, int]]
    cluster: BoundedCluster
    identity: TopicIdentity
    progress: ScoredProgress
    placing: Placing
    slots: GroupSlots
    subscriber: ModelSubscriber
    serving: Serving
    standstill: Standstill
    input_watch: InputWatch
    topics_watch: OutputWatch
    transaction_timeout_s: float


def group_of(settings: Settings) -> str:
    """Return the group whose members share the input."""
    return settings.scoring.group or f"{settings.name}-scorer"


def begin(settings: Settings, components: ScorerComponents, watch: ScorerWatch, stack: ExitStack) -> ScorerLife:
    """Wait for the input, create what topics are missing, follow the model, and make all parts.

    Parameters
    ----------
    settings : Settings
    components : ScorerComponents
    watch : ScorerWatch
    stack : ExitStack
        Gets what must be closed.

    Raises
    ------
    Stopped
        If the process is stopped while no broker answers, or the input does not exist.
    StreamsvmError
        If it cannot start for another reason.
    """
    scoring, output, connection = settings.scoring, settings.output, components.connection
    check_scorer_names(settings)
    schemas = components.schemas
    if schemas is None:
        schemas = stack.enter_context(schemas_of(settings))
    if schemas is not None:
        avro_scan.warm_up()  # before anything is read: a first start compiles it, which takes seconds
    cluster = BoundedCluster(connection, transaction_timeout_s=TRANSACTION_TIMEOUT_S, lost_s=LOST_S)
    source = awaited(components.stop, components.health, "broker", lambda: cluster.describe(scoring.topic))
    count, progress_topic = len(source.partitions), scoring.progress
    topics_made = scorer_topics(settings, count)
    made = cluster.create(topics_made)  # some of them, where others exist: one was deleted
    letters = DeadLetters(settings.name, scoring.topic, scoring.dead_letters, components.metrics)
    letters.fit(cluster.describe(scoring.dead_letters), connection.max_message_bytes)
    topics = [cluster.describe(topic) for topic in (scoring.output_topic, scoring.dead_letters)]
    places = [(topic.name, number) for topic in topics for number in topic.partitions]
    limit = topics[0].config.get("max.message.bytes")
    identity = TopicIdentity(cluster, scoring.topic, source.topic_id or "", {})
    progress = ScoredProgress(
        cluster,
        model=settings.name,
        input_topic=scoring.topic,
        topic=progress_topic,
        partitions=_kept(cluster, topics_made[-1]).partitions,
        identity=identity,
        monotonic=time.monotonic,
        wait=components.stop.wait,
    )
    subscriber = ModelSubscriber(
        connection,
        settings.name,
        models_topic=output.models_topic,
        trusted=TrustedKeys.of(output.trusted_keys_file),
    )
    companion = companion_of(settings, connection, components.metrics)
    life = ScorerLife(
        places=places,
        cluster=cluster,
        identity=identity,
        progress=progress,
        placing=Placing(
            cluster,
            progress,
            model=settings.name,
            scoring=scoring,
            identity=identity,
            reset=components.reset_scores,
        ),
        slots=cluster.slots(group_of(settings)),
        subscriber=subscriber,
        serving=Serving(
            scoring,
            "auto" if settings.points is None else settings.points.format,
            components,
            watch,
            subscriber,
            companion=companion,
            dead_letters=letters,
            schemas=schemas,
            max_message_bytes=min(connection.max_message_bytes, int(limit or 1 << 62)),
        ),
        standstill=Standstill(
            cluster.marks,
            [*places, *progress.places],
            TIMEOUTS * TRANSACTION_TIMEOUT_S,
            time.monotonic,
            components.metrics,
        ),
        input_watch=InputWatch(cluster, components.health, time.monotonic),
        topics_watch=OutputWatch(
            settings,
            cluster,
            components.health,
            [
                *watched_outputs(settings)[:2],
                (progress_spec(progress_topic, len(progress.places)), "each row is scored once"),
                (TopicSpec(scoring.output_topic, count), "each score can be read"),
                (TopicSpec(scoring.dead_letters, 1), LETTERS_PROMISE),
            ],
            dict.fromkeys(made if len(made) < len(topics_made) else (), MADE),
        ),
        transaction_timeout_s=TRANSACTION_TIMEOUT_S,
    )
    stack.enter_context(subscriber)
    stack.enter_context(companion)
    return life


def _kept(cluster: Cluster, spec: TopicSpec) -> TopicInfo:
    """Describe the topic of progress.

    Raises
    ------
    ConfigurationError
        If it would lose records.
    """
    topic = cluster.describe(spec.name)
    policy = topic.config.get("cleanup.policy", "compact")
    if policy != "compact":
        raise ConfigurationError(
            f"the topic {topic.name} is unfit: cleanup.policy is {policy}, not compact. Kafka would remove what says "
            "how far the input was scored, and scores would come twice or not at all",
            f"Set it: kafka-configs --alter --entity-type topics --entity-name {topic.name} --add-config "
            "cleanup.policy=compact, or name another topic with --scoring-progress-topic.",
        )
    return topic
