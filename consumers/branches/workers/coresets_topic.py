"""The coresets topic on a broker: what it must be like, how it is read to its end, and how it is written.

What its records mean is `streamsvm.branches.workers.coreset_records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from consumers.branches.workers.settings import TrainingByWorkers, coresets_topic
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.topics import START_AGAIN, OwnTopics
from streamsvm.branches.workers.coreset_log import PartitionLog
from streamsvm.branches.workers.coreset_records import PIECE_BYTES, Opening
from streamsvm.branches.workers.coreset_writer import CoresetWrite
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.crashpoints import crash_point
from streamsvm.errors import ConfigurationError, TopicMissing, TransientError
from streamsvm.kafka import Batch, Cluster, Input, Message, OffsetOutOfRange, Outbox, Record, TopicInfo, TopicSpec
from streamsvm.learning.learner import LearnerState
from streamsvm.places import MOST_DIGITS, whole_number
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.coresets")

READ_TIMEOUT_S: Final = 30.0
MOST_RECORDS: Final = 1_000
FLUSH_TIMEOUT_S: Final = 60.0
"""How long a record may take to be stored. A process that cannot write what it learned ends, and starts again."""
RECORD_BYTES: Final = PIECE_BYTES + 4096
"""Most bytes of a record with its key, headers and framing."""
SETTINGS: Final = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
"""Only whole segments are compacted: with these a reader finds what was written in the last minutes, and the newest."""
MOST_READINGS: Final = 3
"""Of a partition at a start: a second one where an opening was taken back, or more was written than is held at once."""
NAMED_AT_ONCE: Final = 10
PROMISE: Final = "what workers learned is kept"
WATERMARK: Final = "watermark"
READ_TO: Final = "read_to"


def topic_spec(settings: Settings, partitions: int) -> TopicSpec:
    """Return what the coresets topic must be like, for an input of so many partitions."""
    return TopicSpec(coresets_topic(settings), partitions, config=SETTINGS)


def coresets_of(settings: Settings, cluster: Cluster) -> list[TopicSpec]:
    """Return the coresets topic to be made, with as many partitions as the input; nothing where there is no input.

    Nothing, too, where no trainer reads it.
    """
    if not section(settings, TrainingByWorkers).from_coresets:
        return []
    try:
        return [topic_spec(settings, len(cluster.describe(settings.input.topic).partitions))]
    except TopicMissing:
        return []


def check_topic(found: TopicInfo, partitions: int, client_bytes: int) -> None:
    """Refuse a coresets topic that would lose what is needed, or could not take it.

    Settings that the broker does not tell are not judged.

    Parameters
    ----------
    found : TopicInfo
    partitions : int
        Of the input.
    client_bytes : int
        Most bytes that the client sends in one message.

    Raises
    ------
    ConfigurationError
    """
    policy = found.config.get("cleanup.policy", "compact")
    if policy != "compact":
        raise ConfigurationError(
            f"the coresets topic {found.name} has cleanup.policy={policy}, so Kafka would remove what workers learned",
            f"Set the policy: kafka-configs --alter --entity-type topics --entity-name {found.name} --add-config "
            "cleanup.policy=compact",
        )
    if len(found.partitions) < partitions:
        raise ConfigurationError(
            f"the coresets topic {found.name} has {len(found.partitions)} partitions, but the input has {partitions}",
            f"Add partitions: kafka-topics --alter --topic {found.name} --partitions {partitions}. Nothing moves: "
            "partition p belongs to the input's partition p.",
        )
    limit = min(int(found.config.get("max.message.bytes", RECORD_BYTES)), client_bytes)
    if limit < RECORD_BYTES:
        raise ConfigurationError(
            f"the coresets topic {found.name}, or the client, accepts only {limit} bytes per message",
            f"Raise max.message.bytes or message.max.bytes to {RECORD_BYTES} or more.",
        )


def newest_of(follower: Input, topic: str, timeout_s: float) -> Batch:
    """Return what was appended to the coresets topic.

    Raises
    ------
    TransientError
        If the topic was deleted and made again: a start goes on, for the trainer leaves there anew what it has.
    """
    try:
        return follower.poll(MOST_RECORDS, timeout_s)
    except OffsetOutOfRange as lost:
        raise TransientError(
            f"the topic {topic} no longer holds what was read: {lost.what}",
            START_AGAIN,
        ) from None


def manifest_headers(record: Record) -> Mapping[str, bytes]:
    """Return the known headers of a manifest, without any others."""
    return {name: value for name, value in record.headers if name in (WATERMARK, READ_TO) and len(value) <= MOST_DIGITS}


def number_of(headers: Mapping[str, bytes], name: str) -> int | None:
    """Return the number in a header; None where there is none."""
    return whole_number(headers.get(name, b""))


def read_partition(cluster: Cluster, settings: Settings, partition: int) -> tuple[PartitionLog, int]:
    """Read a partition of the coresets topic to its end; return what it holds, and the offset to follow it from.

    Raises
    ------
    TopicMissing, BrokerUnavailable, TransientError
        As for `Cluster.read_to_end`.
    """
    return read_with(PartitionLog(settings.name, partition, settings.models().points.dimension), cluster, settings)


def read_with(found: PartitionLog, cluster: Cluster, settings: Settings) -> tuple[PartitionLog, int]:
    """Read a partition as `read_partition` does, by a log that may know something of it beforehand."""
    topic, partition = coresets_topic(settings), found.partition
    for turn in range(MOST_READINGS):
        found = found if turn == 0 else found.rest()
        # Before reading: what is added meanwhile is read twice, in its order, which changes nothing.
        _, end = cluster.log_range(topic, partition)
        for record in cluster.read_to_end(topic, partition, timeout_s=READ_TIMEOUT_S):
            found.feed(record.offset, record.key, record.value, manifest_headers(record))
        found.highest()
        if not found.again:
            break
    return found, end


def with_adopted(cluster: Cluster, settings: Settings, snapshot: Snapshot) -> LearnerState:
    """Return the states of a checkpoint, or those of complete manifests of its incarnation that are past them.

    Raises
    ------
    TopicMissing, BrokerUnavailable, TransientError
        As for `read_partition`.
    """
    states, leaves = dict(snapshot.learner.partitions), snapshot.learner.leaves_since_cut
    config = ModelConfig.of_canonical(snapshot.configuration)  # options may name other features by now
    leaf_rows, dimension = config.coreset.leaf_rows, config.points.dimension
    known = (snapshot.incarnation, snapshot.topic, snapshot.topic_id, snapshot.configuration_sha256)
    with cluster.keeping():
        for partition, state in snapshot.learner.partitions.items():
            found, _ = read_with(PartitionLog(settings.name, partition, dimension), cluster, settings)
            opening = found.opening
            if opening is None or known != (
                opening.incarnation,
                opening.topic,
                opening.topic_id,
                opening.configuration_sha256,
            ):
                continue
            highest = found.highest() if opening.base == (*snapshot.base[partition],) else None
            if highest is not None and highest.state.position > state.position:
                states[partition] = highest.state
                leaves += highest.manifest.rows // leaf_rows - state.learned.rows // leaf_rows
    return LearnerState(states, leaves)


def log_faults(settings: Settings, partition: int, found: PartitionLog, metrics: Metrics) -> None:
    """Log what was passed over in a partition, by name."""
    more, faults = found.more_faults, found.take_faults()
    if not faults:
        return
    metrics.increase("streamsvm_coresets_passed_over", len(faults) + more)
    for fault in faults[:NAMED_AT_ONCE]:
        log.warning(
            "coreset_record_passed_over",
            record=f"{coresets_topic(settings)}[{partition}]@{fault.offset}",
            key=fault.key,
            why=fault.why,
            more=len(faults) + more - min(len(faults), NAMED_AT_ONCE),
            remedy="no action needed: the highest complete manifest counts, and what it lacks is learned again",
        )


@dataclass(frozen=True, slots=True)
class Due:
    """A publication of one partition, with what its manifest has besides."""

    partition: int
    publication: CoresetWrite
    headers: Mapping[str, bytes]


class CoresetsWriter:
    """Writes publications: all parts, then all manifests, then all tombstones, each once what goes before is stored.

    Parameters
    ----------
    topic : str
    outbox : Outbox
        A message that it cannot deliver ends it; then this process must end.
    metrics : Metrics
    """

    def __init__(self, topic: str, outbox: Outbox, metrics: Metrics) -> None:
        self._topic, self._outbox, self._metrics = topic, outbox, metrics

    def publish(self, due: Sequence[Due]) -> None:
        """Write publications of some partitions; blocks until their manifests are stored.

        Raises
        ------
        TransientError, ConfigurationError, FatalError
            If something could not be stored: it is not known what was.
        """
        parts = [(one.partition, key, value, ()) for one in due for key, value in one.publication.parts]
        self._send("part", parts)
        crash_point("coresets.parts")
        manifests = [(one.partition, *one.publication.manifest, tuple(one.headers.items())) for one in due]
        self._send("manifest", manifests)
        crash_point("coresets.manifests")
        self._send("tombstone", [(o.partition, key, None, ()) for o in due for key in o.publication.tombstones])

    def open(self, opening: Opening) -> None:
        """Write an opening; blocks until it is stored, and raises as `publish`."""
        self._send("opening", [(opening.partition, opening.key, opening.encode(), ())])

    def clear(self, partition: int, keys: Iterable[bytes]) -> None:
        """Give keys tombstones; blocks until they are stored, and raises as `publish`."""
        self._send("tombstone", [(partition, key, None, ()) for key in keys])

    def _send(
        self, kind: str, records: Sequence[tuple[int, bytes, bytes | None, tuple[tuple[str, bytes], ...]]]
    ) -> None:
        if not records:
            return
        for partition, key, value, headers in records:
            self._outbox.send(Message(self._topic, value, key, headers, partition))
        self._outbox.flush(FLUSH_TIMEOUT_S)
        self._metrics.increase("streamsvm_coresets_records", len(records), kind=kind)
        size = sum(len(key) + len(value or b"") for _, key, value, _ in records)
        self._metrics.increase("streamsvm_coresets_bytes", size)


def is_opening(record: Record, name: str) -> bool:
    """Return whether a record is an opening of a model, or takes one back."""
    return record.key is not None and record.key.startswith(f"{name}/o/".encode())


TOPICS: Final = OwnTopics(specs=coresets_of, promise=PROMISE)
