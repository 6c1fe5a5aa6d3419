"""The audit samples of a partition: of its whole stream, or of each of its spans."""

from __future__ import annotations

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit_sample import LABELS, Reservoir, shares
from streamsvm.learning.tasks import Task


def make_reservoirs(partition: int, config: ModelConfig, task: Task) -> tuple[Reservoir, ...]:
    """Return the empty audit sample of a partition, or that of each label; none if `audit_points` is 0."""
    points = config.points
    return tuple(
        Reservoir(capacity, partition, config.seed, points.dimension, points.numpy_dtype, label)
        for label, capacity in audit_shares(config, task).items()
    )


def audit_shares(config: ModelConfig, task: Task) -> dict[int, int]:
    """Return how many points the audit sample of a partition, or of a span, holds, of each label or of all together."""
    coreset = config.coreset
    capacity = coreset.bucket_audit_points if coreset.forgets else coreset.audit_points
    return shares(capacity, task.classes == len(LABELS))
