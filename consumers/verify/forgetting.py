"""`streamsvm forget`: rows taken out of the archive, and a report of what was done and of what remains where.

A row is taken out of a bucket by making the bucket again, from the log and without the row; the buckets above it are
made again of those. What comes out is byte for byte the archive of a stream in which the row was rejected when it came.
What a trainer holds in its own memory, and what it has published, is another matter: the report names it.

Invariant: before anything changes, a file names the rows and the buckets that must go; no bucket is removed before all
that takes its place, and needs the log, is on the disk. So a forgetting that is cut short is finished by the same
command, also where the log has lost the rows since, and until then no trainer and no build uses the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consumers.streams.topics import READ_TIMEOUT_S
from consumers.verify.building import log_of
from consumers.verify.erased_rows import of_rows, shown
from consumers.verify.rebuilding import Rebuild, identity_of
from consumers.verify.stretches import Log, Ranges, ReadsRanges
from streamsvm.archive.forgotten import Forgotten
from streamsvm.archive.names import Node
from streamsvm.archive.recorder import Recorder
from streamsvm.archive.store import Identity, Store, UnderWay
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, InvalidMessage
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.learning.partition import PartitionState
from streamsvm.learning.training import limited
from streamsvm.model.machine import KernelMachine
from streamsvm.model.message import decode
from streamsvm.model.version import Version
from streamsvm.points import Position

Say = Callable[[str], object]
REMAINS = (
    "Kafka's own log holds the records until retention removes them, and so do its copies and backups",
    "published versions named here stay what they are: support vectors may be such rows, coefficients follow from them "
    "among others; a tombstone hides a version from readers, and Kafka removes its bytes only where the topic is "
    "compacted",
    "scores hold what output fields passed through, and dead letters whole records: their topics are not looked at",
    "the coresets topic, if one was ever used for this model, holds states of workers until Kafka compacts it",
    "ONNX copies, exported models, proofs and files that were made before this",
    "copies and backups of checkpoints and of the archive made before this; a file system may keep removed bytes",
    "logs of a trainer name no row's content, but other programs' may",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint file: its hash, and what became of it."""

    name: str
    sha256: str
    what: str


@dataclass(slots=True, kw_only=True)
class Report:
    """What a person who answers for deletions can file.

    Attributes
    ----------
    asked : list of str
        Rows, as partition:offset.row.
    by, time : str
    model : str
        The trainer's model; empty if it was not asked to forget.
    done : bool
        Whether it was done; False: only looked at.
    archive : str
        Empty if there is none.
    rows_to_read : int
        Rows that the trainer's next start reads and learns again.
    seconds_to_read : float
        How long that takes, estimated.
    checkpoints : list of Checkpoint
        Those that were removed, and what is there instead.
    retired : list of str
        Versions that were retired because they are of these rows.
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
    model: str = ""
    done: bool = True
    archive: str = ""
    rows_to_read: int = 0
    seconds_to_read: float = 0.0
    checkpoints: list[Checkpoint] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
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
        whence = [f"the model {self.model}"] if self.model else []
        whence += [f"the archive {self.archive}"] if self.archive else []
        lines = [f"# Deletion of rows from {' and '.join(whence)}", "", f"Asked by {self.by}, {self.time}.", ""]
        if not self.done:
            lines += ["**Nothing was changed: this only says what would be done.**", ""]
        elif self.rows_to_read:
            lines += [
                f"The trainer's next start learns {self.rows_to_read:,} rows again, in about "
                f"{self.seconds_to_read:,.0f} s, without these.",
                "",
            ]
        for title, entries in (
            ("Asked for", self.asked),
            ("Found in the log", self.found),
            ("Not there", self.absent),
            ("Checkpoints", [f"{one.name}, SHA-256 {one.sha256}: {one.what}" for one in self.checkpoints]),
            (
                "Buckets made again without them",
                [
                    f"partition {one.partition}, offsets {one.start}-{one.end}, level {one.level}: {one.before} -> "
                    f"{one.after}"
                    for one in self.changed
                ],
            ),
            ("Published versions of these rows", self.versions),
            ("Retired now", self.retired),
            ("What remains, and why", self.remains),
        ):
            lines += [f"## {title}", "", *(f"- {entry}" for entry in entries or ["nothing"]), ""]
        return "\n".join(lines)


def forget(
    cluster: Cluster,
    directory: Path,
    positions: Mapping[int, Sequence[Position]],
    report: Report,
    schemas: SchemaRegistry | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> None:
    """Take rows out of an archive, whose trainer must be stopped.

    Parameters
    ----------
    cluster : Cluster
    directory : Path
    positions : mapping of partition to sequence of Position
    report : Report
        What is found and done is written there.
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
        report.archive = f"{store} of {identity.name}, from the topic {identity.topic}"
        with (
            limited(identity.config.svm),
            Ranges(cluster, identity.topic, identity.topic_id, identity.config, timeout_s, schemas, known) as ranges,
        ):
            work = Forgetting(store, identity, log, ranges, report)
            if not report.model:  # else they were looked at already
                work.look(positions, known)
            work.run(positions)
    finally:
        disk.unlock()


class Forgetting:
    """One forgetting in an archive that is locked; one that was cut short is finished first.

    Parameters
    ----------
    store : Store
    identity : Identity
    log : Log
        First offset and end of each partition.
    ranges : ReadsRanges
    report : Report
    """

    def __init__(self, store: Store, identity: Identity, log: Log, ranges: ReadsRanges, report: Report) -> None:
        self._store, self._identity, self._log, self._ranges, self._report = store, identity, log, ranges, report
        self._span = identity.config.coreset.span_rows or 1

    def run(self, positions: Mapping[int, Sequence[Position]]) -> None:
        """Do it.

        Raises
        ------
        ConfigurationError
            If the log no longer holds the rows of a bucket; then nothing was changed, unless a forgetting was under
            way.
        TransientError
            If the disk refuses; the same call again goes on.
        """
        self._store.clean()
        begun = self._store.under_way()
        if begun is not None:
            self._finish(begun)
        old = tuple(self._affected(positions))
        self._finish(UnderWay(positions={p: frozenset(own) for p, own in positions.items()}, old=old))

    def _finish(self, work: UnderWay) -> None:
        """Write the new beside the old, then remove the old, then join: each step can be done twice."""
        self._ranges.forgotten = _union(self._store.forgotten(), work.positions)
        if not work.saved:
            spans, states = self._made_again(work)
            kept = {Node.of(*span, encode_bucket(span[2])).name for span in spans}
            work = replace(work, old=tuple(node for node in work.old if node.name not in kept))
            self._store.mark(work)
            self._store.forget(self._ranges.forgotten)
            self._store.save(spans, states)
            work = replace(work, saved=True)
            self._store.mark(work)
            self._report.changed += [_changed_state(partition, state) for partition, (_, state) in states.items()]
        self._store.remove(work.old)
        Rebuild(self._store, self._identity, self._log, self._ranges, lambda _: None).join()
        self._tell(work.old)
        self._store.mark(None)

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
            node
            for node in self._store.nodes()
            if any(node.start <= at < node.end for at in positions.get(node.partition, ()))
        ]

    def _made_again(
        self, work: UnderWay
    ) -> tuple[list[tuple[int, Position, Bucket]], dict[int, tuple[Position, PartitionState]]]:
        """Return spans and open spans without the rows; nothing is written yet."""
        spans, old = [], set(work.old)
        there = {
            (node.partition, node.base, node.level, node.number) for node in self._store.nodes() if node not in old
        }
        for node in work.old:
            if node.level == 1 and (node.partition, node.base, node.level, node.number) not in there:
                self._require(node.partition, node.start, node.end)
                recorder = Recorder(
                    node.partition, node.base, self._identity.config, node.start, node.first_row(self._span)
                )
                for rows in self._ranges.rows(node.partition, node.start, node.end):
                    spans += [(node.partition, node.base, bucket) for bucket in recorder.learn(rows)]
        states = {}
        for partition, own in work.positions.items():
            try:
                saved = self._store.state(partition)
            except CorruptCheckpoint:
                saved = None  # a start drops it, and begins with the next span
            if saved is not None and (again := self._open_again(partition, *saved, own)) is not None:
                states[partition] = (saved[0], again)
        return spans, states

    def _open_again(
        self, partition: int, base: Position, state: PartitionState, own: Collection[Position]
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
        made = recorder.state
        assert made is not None
        return replace(made, sealed=state.sealed)  # counts from where the partition was recorded first

    def _require(self, partition: int, start: Position, end: Position) -> None:
        first, last = self._log.get(partition, (0, -1))
        if first > start.offset or end.offset > last:
            raise ConfigurationError(
                f"the bucket of partition {partition}, offsets {start.offset:,} to {end.offset:,}, cannot be made "
                "again: the log no longer holds its rows",
                "Nothing was changed. Remove the bucket's files, and those of longer ones around it, by hand: their "
                "other rows are lost with them.",
            )

    def _tell(self, old: Sequence[Node]) -> None:
        after = {(node.partition, node.base, node.level, node.number): node for node in self._store.nodes()}
        for node in old:
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


def _changed_state(partition: int, state: PartitionState) -> Changed:
    begin = state.buckets[0].extent.start if state.buckets else state.leaf_extent.start
    return Changed(
        partition=partition,
        start=begin.offset,
        end=state.position.offset,
        level=0,
        before="the open span",
        after="made again",
    )


def _union(known: Mapping[int, Collection[Position]], more: Forgotten) -> dict[int, frozenset[Position]]:
    return {p: frozenset(known.get(p, ())) | frozenset(more.get(p, ())) for p in known.keys() | more.keys()}


def report_of(positions: Mapping[int, Sequence[Position]], by: str) -> Report:
    """Return an empty report of what somebody asks for."""
    return Report(
        asked=[shown(partition, at) for partition, own in sorted(positions.items()) for at in sorted(own)],
        by=by,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def note_versions(
    report: Report, cluster: Cluster, models_topic: str, topic: str, positions: Mapping[int, Sequence[Position]]
) -> list[Version]:
    """Name the published versions, of any model of this input, that are of such rows.

    Parameters
    ----------
    report : Report
    cluster : Cluster
    models_topic : str
    topic : str
        The input.
    positions : mapping of partition to sequence of Position

    Returns
    -------
    list of Version
        Those versions.
    """
    of_them = []
    retired = _retired(cluster, models_topic)
    for record in cluster.read_to_end(models_topic, 0, timeout_s=READ_TIMEOUT_S):
        if record.value is None:
            continue
        try:
            version = decode(record.value)
        except InvalidMessage:
            continue  # no reader takes it for a version
        if version.lineage.topic != topic:
            continue
        places = {partition: frozenset(own) for partition, own in positions.items()}
        touched = [shown(*row) for row in of_rows(version, places)]
        if touched and version.key not in retired:
            of_them.append(version)
            kind = "its coefficients follow from them among others"
            if isinstance(version.model.machine, KernelMachine):
                kind = "its support vectors may be such rows themselves"
            report.versions.append(
                f"{version.key}, of {', '.join(touched)}: {kind}; to retire it: streamsvm model retire "
                f"{version.number} --name {version.name}"
            )
    return of_them


def _retired(cluster: Cluster, models_topic: str) -> set[str]:
    """Return the keys of versions that have a tombstone."""
    records = cluster.read_to_end(models_topic, 0, timeout_s=READ_TIMEOUT_S)
    return {(record.key or b"").decode(errors="replace") for record in records if record.value is None}
