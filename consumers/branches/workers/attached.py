"""Workers in a trainer: a combiner in the learner's place, and a source that adopts what workers learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumers.branches.workers.adopting import Adopting
from consumers.branches.workers.coresets_topic import check_topic, topic_spec, with_adopted
from consumers.branches.workers.crew import Crew, Hands
from consumers.branches.workers.settings import TrainingByWorkers, coresets_topic
from consumers.streams.abandonable import Stopped
from consumers.trainer.attachment import Attachment, Making, World
from consumers.trainer.source import Source
from streamsvm.branches.workers.combiner import Combiner
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.errors import TopicMissing
from streamsvm.kafka import TopicInfo
from streamsvm.points import Position
from streamsvm.sections import section


class Workers(Attachment):
    """Workers of this process, or those that leave what they learn in the coresets topic.

    Parameters
    ----------
    world : World
        With `training.workers` above 1, or `training.from_coresets`.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._training = section(world.settings, TrainingByWorkers)
        self._hands: Hands | None = None

    def fit(self, topics: Mapping[str, TopicInfo], partitions: int) -> None:  # noqa: ARG002
        """Create and check the coresets topic."""
        settings, cluster = self.world.settings, self.world.components.cluster
        if self._training.from_coresets:
            cluster.create([topic_spec(settings, partitions)])
            check_topic(cluster.describe(coresets_topic(settings)), partitions, cluster.max_message_bytes)

    def recalled(self, snapshot: Snapshot) -> Snapshot:
        """Return a checkpoint with what workers left in the coresets topic since.

        So a trainer that was away goes on although the input no longer holds what its workers have read meanwhile.
        """
        if not self._training.from_coresets:
            return snapshot
        try:
            learner = with_adopted(self.world.components.cluster, self.world.settings, snapshot)
        except TopicMissing:  # made a moment later
            return snapshot
        return replace(snapshot, learner=learner)

    def learner(self, config: ModelConfig, base: dict[int, Position]) -> Combiner:
        """Return what holds the partitions that workers learn."""
        return Combiner(config, base, self.world.settings.training.every_leaves)

    def prepare(self) -> None:
        """Start the workers of this process, and wait until they are prepared."""
        if self._training.workers == 1:
            return
        parts = self.world.components
        self._hands = Hands(self.world.settings, parts.cluster.connection)
        self.world.stack.callback(self._hands.close)
        if not self._hands.wait(parts.health, parts.stop, parts.clock.monotonic):
            raise Stopped

    def source(self, making: Making) -> Source:
        """Return what adopts what workers learned."""
        return self._adopting(making) if self._hands is None else self._crew(making, self._hands)

    def _crew(self, making: Making, hands: Hands) -> Crew:
        parts, quality = self.world.components, making.quality
        return Crew(
            making.settings,
            making.pipeline,
            self.world.delivery,
            hands,
            left_out=making.left_out,
            note=lambda rows: quality.learned(rows, again=False),
            metrics=parts.metrics,
            health=parts.health,
            monotonic=parts.clock.monotonic,
        )

    def _adopting(self, making: Making) -> Adopting:
        parts, quality, delivery = self.world.components, making.quality, self.world.delivery
        cluster, surveyor = parts.cluster, making.surveyor
        outbox = cluster.outbox()
        self.world.stack.callback(outbox.close)
        follower = cluster.input(coresets_topic(making.settings), None)
        self.world.stack.callback(follower.close)
        return Adopting(
            making.settings,
            making.pipeline,
            cluster=cluster,
            follower=follower,
            outbox=outbox,
            topic_id=making.topic_id,
            left_out=making.left_out,
            incarnation=lambda: delivery.incarnation,
            note=lambda rows: quality.learned(rows, again=False),
            log_ends=lambda: {partition: end for partition, (_, end) in surveyor.log.items()},
            metrics=parts.metrics,
            health=parts.health,
            monotonic=parts.clock.monotonic,
        )
