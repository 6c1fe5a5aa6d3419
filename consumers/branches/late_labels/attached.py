"""Late labels in a trainer: a second topic at the start, and a source that joins both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumers import constants
from consumers.branches.late_labels.joined_intake import JoinedIntake
from consumers.branches.late_labels.joined_source import JoinedSource
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity
from consumers.streams.topics import check_input
from consumers.trainer.attachment import Attachment, Making, World
from consumers.trainer.source import Source
from consumers.trainer.topic_watch import Surveyor
from streamsvm.branches.late_labels.joining import Joining, joining_of
from streamsvm.branches.late_labels.lineage import LabelsOrigin
from streamsvm.branches.late_labels.present import LabelsPresent
from streamsvm.checkpoint.snapshot import ReadAhead
from streamsvm.delivery.decision import Begin, Present, Resume
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import TopicInfo
from streamsvm.learning.recipe import Origin
from streamsvm.points import Position, Rows
from streamsvm.sections import section


class LateLabels(Attachment):
    """Labels of a topic of their own.

    Parameters
    ----------
    world : World
        With `labels.topic`.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        settings, parts = world.settings, world.components
        self._labels_config = section(settings, LabelsConfig)
        self._topic = self._labels_config.topic
        self._cluster = parts.cluster
        self._letters = DeadLetters(
            settings.name, self._topic, self._labels_config.dead_letters, parts.metrics, parts.clock.monotonic
        )
        self._joining: Joining | None = None

    @property
    def joining(self) -> Joining:
        """What the join is at the start; only after that was decided."""
        assert self._joining is not None
        return self._joining

    def check(self, source: TopicInfo) -> None:
        """Refuse a topic of labels that does not go with the input."""
        check_input(self._labels(source), "labels", "--labels-topic")

    def fit(self, topics: Mapping[str, TopicInfo], partitions: int) -> None:  # noqa: ARG002
        """Fit the labels' dead letters into their topic."""
        self._letters.fit(topics[self._labels_config.dead_letters], self._cluster.max_message_bytes)

    def present(self, present: Present, topic: TopicInfo) -> Present:
        """Add the log of the labels."""
        labels = self._labels(topic)
        ranges = {partition: self._cluster.log_range(labels.name, partition) for partition in labels.partitions}
        own = LabelsPresent(labels.name, labels.topic_id or "", ranges)
        return replace(present, beside=(*present.beside, own))

    def begun(self, begun: Begin | Resume, topic: TopicInfo) -> None:
        """Go on with the join of a checkpoint, or begin one."""
        self._joining = joining_of(begun.snapshot) if isinstance(begun, Resume) else self._first(topic)

    def other_logs(self) -> tuple[ReadAhead, ...]:
        """Return the log of the labels."""
        return (self.joining,)

    def waiting(self) -> Mapping[int, Rows]:
        """Return what is joined and not learned yet."""
        return self.joining.waiting

    def source(self, making: Making) -> Source:
        """Return what reads two topics in this process, and joins them."""
        cluster, settings, parts = self._cluster, making.settings, self.world.components
        outbox = cluster.outbox(patience_s=None)
        self.world.stack.callback(outbox.close)
        joined = JoinedSource(
            cluster,
            settings.models(),
            features=settings.input.topic,
            labels=self._topic,
            group=f"streamsvm-{settings.name}",
            most_rows=constants.MOST_WAITING_ROWS,
            left_out=making.left_out,
            name=settings.name,
        )
        intake = JoinedIntake(
            settings,
            making.pipeline,
            source=joined,
            cluster=cluster,
            outbox=outbox,
            letters={"features": making.dead_letters, "labels": self._letters},
            joining=self.joining,
            identity=self._identity(making.remedy),
            surveyor=self._surveyor(making),
            metrics=parts.metrics,
            health=parts.health,
            monotonic=parts.clock.monotonic,
            now=parts.clock.now,
        )
        self.world.stack.callback(intake.close)
        return intake

    def origin(self, origin: Origin) -> Origin:
        """Add the log that the labels come from."""
        own = self.joining
        log = LabelsOrigin(topic=own.topic, topic_id=own.topic_id, base=own.base)
        return replace(origin, of_cut=(*origin.of_cut, log))

    def _labels(self, source: TopicInfo) -> TopicInfo:
        """Describe the labels' topic.

        Raises
        ------
        ConfigurationError
            If it has another number of partitions than the input: then rows and labels of a key do not meet.
        """
        topic = self._cluster.describe(self._topic)
        if len(topic.partitions) != len(source.partitions):
            raise ConfigurationError(
                f"{source.name} has {len(source.partitions)} partitions, and the labels' topic {topic.name} has "
                f"{len(topic.partitions)}: rows and labels of one key must lie in partitions of one number",
                "Recreate one of the topics, and let both be written with the same key and partitioner.",
            )
        return topic

    def _first(self, topic: TopicInfo) -> Joining:
        labels = self._labels(topic)
        starts = self._cluster.starts(labels.name, labels.partitions, self.world.settings.input.start)
        base = {partition: Position(offset) for partition, offset in sorted(starts.items())}
        return Joining(topic=labels.name, topic_id=labels.topic_id or "", base=base, partitions={}, waiting={})

    def _identity(self, remedy: str) -> TopicIdentity:
        own = self.joining
        reached = {partition: at.offset for partition, at in own.base.items()}
        reached |= {partition: state.labels.next.offset for partition, state in own.partitions.items()}
        return TopicIdentity(self._cluster, self._topic, own.topic_id, reached, remedy=remedy)

    def _surveyor(self, making: Making) -> Surveyor:
        parts = self.world.components
        watch = parts.make_watch(self._cluster, self._topic, None)
        self.world.stack.callback(watch.close)
        of_labels = making.settings.input.model_copy(update={"topic": self._topic})
        return Surveyor(of_labels, self.joining.topic_id, watch, parts.clock.monotonic, remedy=making.remedy)
