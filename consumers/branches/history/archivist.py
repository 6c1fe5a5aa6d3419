"""The trainer's part of the archive: what is learned is recorded, and made durable before the checkpoint.

Invariant: nothing here changes what is learned, and nothing here ends a trainer: where the archive cannot be written,
that is logged and counted, and `streamsvm history rebuild` makes what is missing from the log later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from consumers.branches.history.settings import ArchiveConfig
from consumers.metrics import Metrics
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.recorder import Recorder, of_partitions, series_of, waits_at
from streamsvm.branches.history.store import Identity, Store
from streamsvm.branches.history.stretches import archived
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.config import ModelConfig
from streamsvm.coreset.structure import Bucket, Learned
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, StateError, TransientError
from streamsvm.model.left_out import LeftOut, masked
from streamsvm.points import Position, Positions, Rows
from streamsvm.supports import LABELS, require

log = structlog.get_logger("streamsvm.trainer")

MOST_WAITING: Final = 4_096
"""Buckets that wait for a disk that refuses; beyond it the oldest are let go, and a rebuild makes them again."""
DAY_MS: Final = 86_400_000
REBUILD: Final = "run streamsvm history rebuild while the log still holds the rows"


def archive_config(config: ModelConfig, archive: ArchiveConfig) -> ModelConfig:
    """Return by what buckets are archived.

    Raises
    ------
    ConfigurationError
        If nothing can be archived of such a model.
    """
    require({"archive.directory": archive.directory or True, LABELS: config.points.classes})
    try:
        return archived(
            config, leaf_rows=archive.leaf_rows, span_rows=archive.span_rows, bucket_points=archive.bucket_points
        )
    except ValueError as error:
        raise ConfigurationError(str(error), "Change the options under [archive].") from None


class Archivist:
    """Records what a trainer learns.

    Parameters
    ----------
    config : ArchiveConfig
    identity : Identity
    metrics : Metrics
    """

    def __init__(self, config: ArchiveConfig, identity: Identity, metrics: Metrics) -> None:
        assert config.directory is not None
        self._disk = FileSystem(
            config.directory, trusted=config.trust_directory, what="archive", option="--archive-directory"
        )
        self._config, self._identity, self._metrics = config, identity, metrics
        self._store = Store(self._disk)
        self._recorders: dict[int, Recorder] = {}
        self._waiting: list[tuple[int, Position, Bucket]] = []
        self._sizes: dict[Node, int] = {}
        self._forgotten: Mapping[int, frozenset[Position]] = {}

    def open(self, positions: Positions, learned: Mapping[int, Learned], erased: LeftOut | None = None) -> None:
        """Take the directory, and go on where each partition was recorded last.

        Parameters
        ----------
        positions : mapping of partition to Position
            The next row that will be learned.
        learned : mapping of partition to Learned
        erased : LeftOut or None
            The rows of the input that are erased.

        Raises
        ------
        ConfigurationError
            If the directory cannot be written.
        StateError
            If it is the archive of something else, another process holds it, or it may hold an erased row.
        """
        self._disk.lock()
        self._store.clean()
        self._store.require_finished()
        self._store.claim(self._identity)
        listed = self._store.obeying(erased)
        if listed != self._store.forgotten():
            self._store.forget(listed)
        self._forgotten = listed.rows
        nodes = self._store.nodes()
        self._sizes = {node: self._store.size(node) for node in nodes}
        for partition, at in positions.items():
            own = of_partitions(nodes).get(partition, [])
            self._recorders[partition] = self._begun(partition, at, learned[partition].rows, own)
        self._show()

    def close(self) -> None:
        """Release the directory."""
        self._disk.unlock()

    def learned(self, rows: Rows) -> None:
        """Record rows that were learned just now."""
        recorder = self._recorders.get(rows.partition)
        if recorder is None:  # a partition that was added
            base = self._identity.base.get(rows.partition, Position(int(rows.offset[0]), int(rows.row[0])))
            recorder = self._recorders[rows.partition] = Recorder(rows.partition, base, self._identity.config, base, 0)
        for bucket in recorder.learn(masked(rows, self._forgotten)):
            self._waiting.append((rows.partition, recorder.base, bucket))

    def extend(self, base: Positions) -> None:
        """Say where the numbers of partitions begin, also of those that were added."""
        if base != self._identity.base:
            self._identity = Identity(
                name=self._identity.name,
                topic=self._identity.topic,
                topic_id=self._identity.topic_id,
                config=self._identity.config,
                base=base,
            )

    def save(self) -> None:
        """Make what was recorded durable, and let go of what is older than is to be kept.

        A disk that refuses is logged and counted; the next call tries again.
        """
        states = {
            partition: (recorder.base, state)
            for partition, recorder in self._recorders.items()
            if (state := recorder.state) is not None
        }
        try:
            self._store.claim(self._identity)
            made = self._store.save(self._waiting, states)
            self._waiting = []
            self._sizes.update(made)
            self._prune()
        except (TransientError, StateError, OSError) as error:
            self._metrics.increase("streamsvm_archive_failures")
            what, remedy = getattr(error, "what", str(error)), getattr(error, "remedy", REBUILD)
            log.error("archive_failed", what=what, remedy=remedy)
            if len(self._waiting) > MOST_WAITING:
                lost = len(self._waiting) - MOST_WAITING
                self._waiting = self._waiting[lost:]
                log.error("archive_buckets_dropped", buckets=lost, remedy=f"repair the disk, then {REBUILD}")
        self._show()

    def _begun(self, partition: int, at: Position, rows: int, nodes: list[Node]) -> Recorder:
        base, config = self._identity.base[partition], self._identity.config
        try:
            saved = self._store.state(partition)
        except CorruptCheckpoint as error:
            log.warning("archive_state_damaged", partition=partition, what=error.what)
            saved = None
        if saved is not None and saved[0] == base and base <= saved[1].position:
            state = saved[1]
            # What is recorded already is passed over when it comes again.
            if at <= state.position:
                begin = state.buckets[0].extent.start if state.buckets else state.leaf_extent.start
                waits = waits_at(self._store, series_of(nodes).get((partition, base), []), begin)
                return Recorder.restored(partition, base, config, state, waits)
            log.warning(
                "archive_behind",
                partition=partition,
                recorded_to=state.position.offset,
                learned_to=at.offset,
                remedy=REBUILD,
            )
        recorder = Recorder(partition, base, config, at, rows)
        if rows:
            log.warning("archive_begins_late", partition=partition, offset=at.offset, rows_before=rows, remedy=REBUILD)
        return recorder

    def _prune(self) -> None:
        gone = outdated(self._sizes, self._config.keep_days, self._config.keep_bytes)
        if gone:
            self._store.remove(gone)
            for node in gone:
                del self._sizes[node]

    def _show(self) -> None:
        self._metrics.put("streamsvm_archive_bytes", sum(self._sizes.values()))


def outdated(sizes: Mapping[Node, int], keep_days: float | None, keep_bytes: int | None) -> list[Node]:
    """Return the buckets that hold rows older than is to be kept, and of the rest the oldest until bytes suffice.

    Age counts from the newest bucket's oldest row, not from a clock, nor from the greatest timestamp: one record with a
    wrong one would let everything go. A bucket goes with its oldest row: nothing older than two spans' length beyond
    the limit stays, and what is newer has its shorter buckets still.

    Parameters
    ----------
    sizes : mapping of Node to int
        Bytes of each.
    keep_days : float or None
    keep_bytes : int or None
    """
    gone = list[Node]()
    if keep_days is not None and sizes:
        newest = max(node.first_time_ms for node in sizes)
        gone += [node for node in sizes if 0 <= node.first_time_ms < newest - keep_days * DAY_MS]
    if keep_bytes is not None:
        left = sum(size for node, size in sizes.items() if node not in set(gone))
        for node in _oldest_first(sizes.keys() - set(gone)):
            if left <= keep_bytes:
                break
            left -= sizes[node]
            gone.append(node)
    return gone


def _oldest_first(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.first_time_ms, node.start, -node.level))
