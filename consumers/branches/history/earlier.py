"""Checkpoints from before erased rows: those of a trainer that are kept, and whether the log still goes on from one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from consumers.branches.history.settings import KeptCheckpoints
from consumers.settings import Settings
from streamsvm.branches.history.past import Past
from streamsvm.checkpoint.disk import Disk, FileSystem
from streamsvm.checkpoint.snapshot import ReadAhead, Snapshot
from streamsvm.delivery.decision import places, reads_on
from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster
from streamsvm.sections import section


def past_of(settings: Settings, disk: Disk | None = None) -> Past:
    """Return the kept checkpoints of a trainer, in a directory that is locked by whoever asks."""
    own = settings.checkpoint
    return Past(disk or FileSystem(own.directory, trusted=own.trust_directory), settings.name)


def earlier_of(settings: Settings, past: Past, generations: Iterable[Snapshot]) -> Iterator[Snapshot]:
    """Yield from where learning may begin again, the newest first; nothing where nothing is to be kept."""
    if section(settings, KeptCheckpoints).keep_bytes is None:
        return
    incarnation = None
    for one in generations:  # those of another incarnation are of a stream that a reset gave up
        if incarnation in {None, one.incarnation}:
            incarnation = one.incarnation
            yield one
    yield from past.snapshots()


def lost_beginning(cluster: Cluster, logs: Iterable[ReadAhead]) -> str:
    """Say which log beside the input no longer holds what was read of it; empty if all of them do."""
    for log in logs:
        try:
            topic = cluster.describe(log.topic)
        except TopicMissing:
            return f"the topic {log.topic} no longer exists"
        if (topic.topic_id or "") != log.topic_id:
            return f"the topic {log.topic} was recreated"
        for partition, at in sorted(log.base.items()):
            first, _ = cluster.log_range(log.topic, partition)
            if first > at.offset:
                return f"{log.topic}[{partition}] begins at offset {first:,}, but the model began at {at.offset:,}"
    return ""


def fits_log(cluster: Cluster, snapshot: Snapshot) -> bool:
    """Return whether the log holds the last records that a checkpoint read, unless retention took them, and the next.

    A start compares the same (`streamsvm.delivery.decision`), and refuses; here another checkpoint may do.
    """
    topic, states = snapshot.topic, snapshot.learner.partitions
    for partition, state in states.items():
        first, end = cluster.log_range(topic, partition)
        if not first <= reads_on(snapshot, partition, first, end) <= end or state.position.offset > end:
            return False
    for partition, offset in places(snapshot, None):
        first, end = cluster.log_range(topic, partition)
        epoch = cluster.leader_epoch(topic, partition, offset) if first <= offset < end else None
        if epoch is not None and epoch != states[partition].leader_epoch:
            return False
    return True
