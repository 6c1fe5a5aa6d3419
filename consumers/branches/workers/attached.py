"""Workers in a trainer: a source that adopts what workers learned, which the learner takes over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumers.branches.workers.adopting import Adopting
from consumers.branches.workers.coresets_topic import check_topic, topic_spec, with_adopted
from consumers.branches.workers.settings import coresets_topic
from consumers.trainer.attachment import Attachment, Making
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.errors import TopicMissing
from streamsvm.kafka import TopicInfo


class Workers(Attachment):
    """Workers that leave what they learn in the coresets topic, for a trainer with `training.from_coresets`."""

    def fit(self, topics: Mapping[str, TopicInfo], partitions: int) -> None:  # noqa: ARG002
        """Create and check the coresets topic."""
        settings, cluster = self.world.settings, self.world.components.cluster
        cluster.create([topic_spec(settings, partitions)])
        check_topic(cluster.describe(coresets_topic(settings)), partitions, cluster.max_message_bytes)

    def recalled(self, snapshot: Snapshot) -> Snapshot:
        """Return a checkpoint with what workers left in the coresets topic since.

        So a trainer that was away goes on although the input no longer holds what its workers have read meanwhile.
        """
        try:
            learner = with_adopted(self.world.components.cluster, self.world.settings, snapshot)
        except TopicMissing:  # made a moment later
            return snapshot
        return replace(snapshot, learner=learner)

    def source(self, making: Making) -> Adopting:
        """Return what adopts what workers learned."""
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
