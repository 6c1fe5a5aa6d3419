"""`streamsvm forget`: rows taken out of the archive, and a report of what was done and of what remains where.

A row is taken out of a bucket by making the bucket again, from the log and without the row; the buckets above it are
made again of those. What comes out is byte for byte the archive of a stream in which the row was rejected when it came.
What a trainer holds in its own memory, and what it has published, is another matter: the report names it.

Invariant: the list of forgotten rows is durable before any bucket changes, and every later read of the log obeys it. So
a forgetting that is cut short leaves buckets missing, which `streamsvm archive rebuild` makes, without the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consumers.streams.topics import READ_TIMEOUT_S
from consumers.verify.building import log_of
from consumers.verify.rebuilding import Rebuild, identity_of
from consumers.verify.stretches import Log, Ranges
from streamsvm.archive.names import Node
from streamsvm.archive.recorder import Recorder
from streamsvm.archive.store import Identity, Store
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, InvalidMessage
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.learning.partition import PartitionState
from streamsvm.learning.training import limited
from streamsvm.model.machine import KernelMachine
from streamsvm.model.message import decode
from streamsvm.model.version import Built, Version
from streamsvm.points import Position

Say = Callable[[str], object]
REMAINS = (
    "Kafka's own log holds the records until retention removes them, and so do its copies and backups",
    "the trainer's memory and checkpoints hold whatever coreset.memory keeps of the rows; under `all` that is for "
    "good, unless the trainer begins anew with --reset after the records are gone",
    "scores, dead letters, the coresets topic, ONNX copies and exported files are not looked at",
    "copies and backups of the archive made before this hold the buckets as they were",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A bucket, or an open span, that was made again: its place, and the hash of its record before and after."""

    partition: int
    start: int
    end: int
    level: int
    before: str
    after: str


@dataclass(slots=True, kw_only=True)
class Report:
    """What a person who answers for deletions can file.

    Attributes
    ----------
    asked : list of str
        Rows, as partition:offset.row.
    by, time : str
    archive : str
    found : list of str
        Those that the log still holds, as valid points.
    absent : list of str
        Those of which nothing could have been archived, and why.
    changed : list of Changed
    versions : list of str
        Versions whose rows include one of these, with what is known of it.
    remains : list of str
        Where else something may be, and why.
    """

    asked: list[str]
    by: str
    time: str
    archive: str
    found: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=lambda: list(REMAINS))

    def plain(self) -> dict[str, Any]:
        """Return it as a plain value."""
        return asdict(self)

    def text(self) -> str:
        """Return it for people."""
        lines = [f"Deletion from the archive {self.archive}, by {self.by}, {self.time}", ""]
        for title, entries in (
            ("Asked for", self.asked),
            ("Found in the log, and taken out", self.found),
            ("Not there", self.absent),
            (
                "Made again without them",
                [
                    f"partition {one.partition}, offsets {one.start}-{one.end}, level {one.level}: {one.before} -> "
                    f"{one.after}"
                    for one in self.changed
                ],
            ),
            ("Published versions of these rows", self.versions),
            ("What remains elsewhere", self.remains),
        ):
            lines += [f"{title}:", *(f"  - {entry}" for entry in entries or ["nothing"]), ""]
        return "\n".join(lines)


def forget(
    cluster: Cluster,
    directory: Path,
    positions: Mapping[int, Sequence[Position]],
    by: str,
    schemas: SchemaRegistry | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> Report:
    """Take rows out of an archive, whose trainer must be stopped.

    Parameters
    ----------
    cluster : Cluster
    directory : Path
    positions : mapping of partition to sequence of Position
    by : str
        Who asks.
    schemas : SchemaRegistry, optional
    timeout_s : float

    Raises
    ------
    ConfigurationError
        If nothing is archived there, or a bucket of such a row cannot be made again, because the log no longer holds
        its rows. Nothing is changed then.
    StateError
        If another process, as its trainer, holds the directory.
    TransientError
        If the broker does not answer, or the disk refuses.
    """
    disk = FileSystem(directory, what="archive", option="--archive-directory")
    store = Store(disk)
    identity = identity_of(store)
    disk.lock()
    try:
        log, known = log_of(cluster, identity), store.forgotten()
        all_of_them = {
            partition: known.get(partition, frozenset()) | set(positions.get(partition, ()))
            for partition in known.keys() | positions.keys()
        }
        report = Report(
            asked=[shown(partition, at) for partition, own in sorted(positions.items()) for at in sorted(own)],
            by=by,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            archive=f"{store} of {identity.name}, from the topic {identity.topic}",
        )
        with (
            limited(identity.config.svm),
            Ranges(cluster, identity.topic, identity.config, timeout_s, schemas, all_of_them) as ranges,
        ):
            work = _Forgetting(store, identity, log, ranges, report)
            work.look(positions, known)
            spans, states = work.made_again(positions)
            store.forget(all_of_them)
            work.replace(positions, spans, states)
        return report
    finally:
        disk.unlock()


class _Forgetting:
    def __init__(self, store: Store, identity: Identity, log: Log, ranges: Ranges, report: Report) -> None:
        self._store, self._identity, self._log, self._ranges, self._report = store, identity, log, ranges, report
        self._span = identity.config.coreset.span_rows or 1
        self._nodes = store.nodes()

    def look(self, positions: Mapping[int, Sequence[Position]], known: Mapping[int, frozenset[Position]]) -> None:
        """Find out which of the rows there are."""
        rules, self._ranges.forgotten = self._ranges.forgotten, {}
        for partition, own in sorted(positions.items()):
            first, end = self._log.get(partition, (0, 0))
            for at in sorted(own):
                name = shown(partition, at)
                if at in known.get(partition, ()):
                    self._report.found.append(f"{name}, which was forgotten before")
                elif partition not in self._log or at.offset >= end:
                    self._report.absent.append(f"{name}: the log has not reached this offset")
                elif at.offset < first:
                    self._report.absent.append(f"{name}: the log no longer holds it, so it cannot be looked at")
                else:
                    self._look_at(partition, at, name)
        self._ranges.forgotten = rules

    def _look_at(self, partition: int, at: Position, name: str) -> None:
        for rows in self._ranges.rows(partition, at, Position(at.offset, at.row + 1)):
            if rows.accepted[0]:
                self._report.found.append(name)
            else:
                self._report.absent.append(f"{name}: the row was rejected when it came, so nothing learned it")
            return
        self._report.absent.append(f"{name}: the log holds no such row")

    def _affected(self, positions: Mapping[int, Sequence[Position]]) -> list[Node]:
        return [
            node for node in self._nodes if any(node.start <= at < node.end for at in positions.get(node.partition, ()))
        ]

    def made_again(
        self, positions: Mapping[int, Sequence[Position]]
    ) -> tuple[list[tuple[int, Position, Bucket]], dict[int, tuple[Position, PartitionState]]]:
        """Return spans and open spans without the rows; nothing is written yet."""
        spans = []
        for node in self._affected(positions):
            if node.level == 1:
                self._require(node.partition, node.start, node.end)
                recorder = Recorder(
                    node.partition, node.base, self._identity.config, node.start, node.first_row(self._span)
                )
                for rows in self._ranges.rows(node.partition, node.start, node.end):
                    spans += [(node.partition, node.base, bucket) for bucket in recorder.learn(rows)]
        states = {}
        for partition, own in positions.items():
            try:
                saved = self._store.state(partition)
            except CorruptCheckpoint:
                saved = None  # a start drops it, and begins with the next span
            if saved is not None and (again := self._open_again(partition, *saved, own)) is not None:
                states[partition] = (saved[0], again)
        return spans, states

    def _open_again(
        self, partition: int, base: Position, state: PartitionState, own: Sequence[Position]
    ) -> PartitionState | None:
        begin = state.buckets[0].extent.start if state.buckets else state.leaf_extent.start
        if not any(begin <= at < state.position for at in own):
            return None
        self._require(partition, begin, state.position)
        rows_of_span = state.leaf_extent.rows + sum(bucket.extent.rows for bucket in state.buckets)
        assert state.forgetful is not None
        first_row = state.forgetful.learned.rows + state.leaf_extent.rows - rows_of_span
        recorder = Recorder(partition, base, self._identity.config, begin, first_row)
        for rows in self._ranges.rows(partition, begin, state.position):
            recorder.learn(rows)
        return recorder.state

    def _require(self, partition: int, start: Position, end: Position) -> None:
        first, last = self._log.get(partition, (0, -1))
        if first > start.offset or end.offset > last:
            raise ConfigurationError(
                f"the bucket of partition {partition}, offsets {start.offset:,} to {end.offset:,}, cannot be made "
                "again: the log no longer holds its rows",
                "Nothing was changed. Remove the bucket's files, and those of longer ones around it, by hand: their "
                "other rows are lost with them.",
            )

    def replace(
        self,
        positions: Mapping[int, Sequence[Position]],
        spans: Sequence[tuple[int, Position, Bucket]],
        states: Mapping[int, tuple[Position, PartitionState]],
    ) -> None:
        """Put what was made again in the place of what was there."""
        before = self._affected(positions)
        self._store.remove(before)
        self._store.save(spans, states)
        rebuild = Rebuild(self._store, self._identity, self._log, self._ranges, lambda _: None)
        rebuild.join()
        after = {(node.partition, node.base, node.level, node.number): node for node in self._store.nodes()}
        for node in before:
            made = after.get((node.partition, node.base, node.level, node.number))
            self._report.changed.append(
                Changed(
                    partition=node.partition,
                    start=node.start.offset,
                    end=node.end.offset,
                    level=node.level,
                    before=node.sha256,
                    after=made.sha256 if made else "removed: a half of it is missing",
                )
            )
        for partition, (_, state) in states.items():
            self._report.changed.append(
                Changed(
                    partition=partition,
                    start=(state.buckets[0].extent if state.buckets else state.leaf_extent).start.offset,
                    end=state.position.offset,
                    level=0,
                    before="the open span",
                    after="made again",
                )
            )


def note_versions(
    report: Report, cluster: Cluster, models_topic: str, topic: str, positions: Mapping[int, Sequence[Position]]
) -> None:
    """Name the published versions, of any model of this input, that are of such rows.

    Parameters
    ----------
    report : Report
    cluster : Cluster
    models_topic : str
    topic : str
        The input.
    positions : mapping of partition to sequence of Position
    """
    for record in cluster.read_to_end(models_topic, 0, timeout_s=READ_TIMEOUT_S):
        if record.value is None:
            continue
        try:
            version = decode(record.value)
        except InvalidMessage:
            continue  # no reader takes it for a version
        if version.lineage.topic != topic:
            continue
        touched = [
            shown(partition, at) for partition, own in positions.items() for at in own if _is_of(version, partition, at)
        ]
        if touched:
            kind = "its coefficients follow from them among others"
            if isinstance(version.model.machine, KernelMachine):
                kind = "its support vectors may be such rows themselves"
            report.versions.append(
                f"{version.key}, of {', '.join(touched)}: {kind}; to retire it: streamsvm model retire "
                f"{version.number} --name {version.name}"
            )


def _is_of(version: Version, partition: int, at: Position) -> bool:
    lineage = version.lineage
    if isinstance(lineage.built, Built):
        place = (partition, at.offset, at.row)
        parts = [part for part in lineage.built.parts if part.partition == partition]
        return place not in lineage.built.forgotten and any(part.start <= at < part.end for part in parts)
    base = {part.partition: Position(part.offset, part.row) for part in lineage.base}
    cut = {part.partition: Position(part.offset, part.row) for part in lineage.cut}
    return partition in base and base[partition] <= at < cut[partition]


def shown(partition: int, at: Position) -> str:
    """Write a row as `--position` takes it."""
    return f"{partition}:{at.offset}" + (f".{at.row}" if at.row else "")
