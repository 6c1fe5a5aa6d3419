"""`streamsvm history`: what an archive holds, and what is missing in it made again from the log.

Invariant: what is made again is byte for byte what was lost. A damaged file is set aside, not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from consumers.branches.history.building import archive_store, log_of
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.stretches import Log, Ranges, ReadsRanges
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.recorder import Recorder, missing_parents, parent_of, series_of
from streamsvm.branches.history.store import Identity, Store
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import ConfigurationError, CorruptCheckpoint
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.points import Position
from streamsvm.process_wide import one_algebra_thread

Say = Callable[[str], object]
SAVED_AT_ONCE = 256
"""Buckets that wait in memory while others are made."""


@dataclass(slots=True)
class Done:
    """What a rebuild came to: counts of buckets, of rows read, and of stretches that the log no longer holds."""

    sound: int = 0
    damaged: int = 0
    made: int = 0
    rows_read: int = 0
    lost: int = 0


def summaries(directory: Path) -> list[dict[str, Any]]:
    """Return what is archived of each series, as plain values; files are counted, not read."""
    store = archive_store(directory)
    identity = identity_of(store)
    span = identity.config.coreset.span_rows or 1
    rows = []
    for (partition, base), nodes in series_of(store.nodes()).items():
        leaves = [node for node in nodes if node.level == 1]
        numbers = {node.number for node in leaves}
        rows.append(
            {
                "partition": partition,
                "base": list(base),
                "start": min(node.start for node in nodes).offset,
                "end": max(node.end for node in nodes).offset,
                "first_time_ms": min((node.first_time_ms for node in nodes if node.first_time_ms >= 0), default=-1),
                "last_time_ms": max(node.last_time_ms for node in nodes),
                "rows": len(leaves) * span,
                "buckets": len(nodes),
                "bytes": sum(map(store.size, nodes)),
                "missing_buckets": (max(numbers) - min(numbers) + 1 - len(numbers) if numbers else 0)
                + len(missing_parents(nodes)),
            }
        )
    return rows


def rebuild(
    cluster: Cluster,
    directory: Path,
    say: Say,
    erased: ErasedRows,
    schemas: SchemaRegistry | None = None,
) -> Done:
    """Read every bucket, and make again what is missing or damaged.

    Parameters
    ----------
    cluster : Cluster
    directory : Path
    say : callable
    erased : ErasedRows
        Which rows the archive's model must not know, besides those that the archive itself names.
    schemas : SchemaRegistry, optional

    Raises
    ------
    ConfigurationError
        If nothing is archived there.
    StateError
        If another process, as its trainer, holds the directory, rows are half forgotten, or it may hold an erased row.
    TransientError
        If the broker does not answer, or the disk refuses.
    """
    disk = FileSystem(directory, what="archive", option="--archive-directory")
    store = Store(disk)
    identity = identity_of(store)
    disk.lock()
    try:
        listed = store.obeying(erased.of_input(identity.name, identity.topic, identity.topic_id))
        if listed != store.forgotten():
            store.forget(listed)
        with (
            one_algebra_thread(),
            Ranges(
                cluster, identity.topic, identity.topic_id, identity.config, READ_TIMEOUT_S, schemas, listed.rows
            ) as ranges,
        ):
            return Rebuild(store, identity, log_of(cluster, identity), ranges, say).run()
    finally:
        disk.unlock()


class Rebuild:
    """One rebuild of an archive that is locked."""

    def __init__(self, store: Store, identity: Identity, log: Log, ranges: ReadsRanges, say: Say) -> None:
        self._store, self._identity, self._log, self._ranges, self._say = store, identity, log, ranges, say
        self._span = identity.config.coreset.span_rows or 1
        self._done = Done()

    def run(self) -> Done:
        """Do it; see `rebuild`."""
        self._store.clean()
        sound = self._sound()
        series = series_of(sound)
        for partition, base in self._identity.base.items():
            series.setdefault((partition, base), [])
        for (partition, base), nodes in sorted(series.items()):
            self._fill(partition, base, [node for node in nodes if node.level == 1])
        self.join()
        self._done.rows_read = self._ranges.rows_read
        return self._done

    def _sound(self) -> list[Node]:
        found = []
        for node in self._store.nodes():
            try:
                self._store.read(node)
            except CorruptCheckpoint as error:
                self._done.damaged += 1
                self._say(f"{node.name} is damaged: {error.what}")
                self._store.set_aside(node)
            else:
                found.append(node)
        self._done.sound = len(found)
        return found

    def _fill(self, partition: int, base: Position, leaves: Sequence[Node]) -> None:
        """Read the rows of spans that are missing between others, before the first and after the last."""
        newest = base == self._identity.base.get(partition)
        before = [*([] if leaves and leaves[0].number == 0 else [None]), *leaves]
        for node, after in pairwise([*before, None]):
            start, first = (node.end, node.number + 1) if node is not None else (base, 0)
            if after is None and not newest:
                continue
            if after is None or after.number != first:
                self._read(partition, base, start, first * self._span, after)

    def _read(self, partition: int, base: Position, start: Position, first_row: int, after: Node | None) -> None:
        begin_of_log, end_of_log = self._log.get(partition, (0, -1))
        if end_of_log < 0 or begin_of_log > start.offset:
            self._done.lost += 1
            upto = "on" if after is None else f"to {after.start.offset:,}"
            self._say(
                f"partition {partition}: the rows from offset {start.offset:,} {upto} are not archived, and the log no "
                "longer holds them"
            )
            return
        recorder = Recorder(partition, base, self._identity.config, start, first_row)
        end = Position(end_of_log) if after is None else after.start
        waiting = []
        for rows in self._ranges.rows(partition, start, end):
            waiting += [(partition, base, bucket) for bucket in recorder.learn(rows)]
            if len(waiting) > SAVED_AT_ONCE:
                self._done.made += len(self._store.save(waiting, {}))
                waiting = []
        self._done.made += len(self._store.save(waiting, {}))

    def join(self) -> None:
        """Make the parents that are missing, level by level."""
        for (partition, base), nodes in series_of(self._store.nodes()).items():
            known, config = list(nodes), self._identity.config
            while pairs := missing_parents(known):
                read = [(self._store.read(older), self._store.read(newer)) for older, newer in pairs]
                made = [parent_of(older, newer, partition, config) for older, newer in read]
                added = [node for node, _ in self._store.save([(partition, base, one) for one in made], {})]
                self._done.made += len(added)
                known += added
                if not added:
                    break


def identity_of(store: Store) -> Identity:
    """Return of what an archive is.

    Raises
    ------
    ConfigurationError
        If nothing is archived there.
    """
    identity = store.identity()
    if identity is None:
        raise ConfigurationError(
            f"nothing is archived in {store}",
            "Give the trainer's archive.directory, with --archive-directory or --config.",
        )
    return identity
