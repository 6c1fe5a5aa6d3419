"""`streamsvm history forget`: rows taken out of the archive, and a report of what was done and of what remains where.

A row is taken out of a bucket by making the bucket again, from the log and without the row; the buckets above it are
made again of those. What comes out is byte for byte the archive of a stream in which the row was rejected when it came.
What a trainer holds in its own memory, and what it has published, is another matter: the report names it.

Invariant: before anything changes, a file names the rows and the buckets that must go; no bucket is removed before all
that takes its place, and needs the log, is on the disk. So a forgetting that is cut short is finished by the same
command, also where the log has lost the rows since, and until then no trainer and no build uses the archive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consumers.branches.history.building import log_of
from consumers.branches.history.erased_rows import ErasedRows, of_rows, shown
from consumers.branches.history.rebuilding import Rebuild, identity_of
from consumers.branches.history.settings import ArchiveConfig
from consumers.branches.history.stretches import Log, Ranges, ReadsRanges
from consumers.host.runtime import schemas_of
from consumers.settings import Settings
from consumers.streams.row_stores import every_store
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.forgotten import Forgotten, Listed, union
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.recorder import Recorder
from streamsvm.branches.history.store import DAMAGED, Identity, Store, UnderWay, begin_of
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.coreset.structure import Bucket
from streamsvm.crashpoints import crash_point
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, InvalidMessage
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.learning.partition_state import PartitionState
from streamsvm.model import message as model_codec
from streamsvm.model.machine import KernelMachine
from streamsvm.model.version import Version
from streamsvm.points import Position
from streamsvm.process_wide import one_algebra_thread
from streamsvm.sections import section


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenBucket:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """What is said of a store that may carry rows.

    Attributes
    ----------
    store, where : str
    holds : str
        What of a row may stand there.
    done : str
        What was done there; empty: nothing.
    remains : str
        What stays there, and why; empty: nothing.
    """

    store: str
    where: str
    holds: str
    done: str
    remains: str


def _standing() -> list[str]:
    """Return what stays of any row, whatever is done."""
    return [f"{store.name}: {store.remains}" for store in every_store() if store.remains]


@dataclass(slots=True, kw_only=True)
class ForgettingReport:
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
    erasures_a_day : int
        How many such commands could be carried out in a day, each for up to as many rows as one record may name.
    checkpoints : list of Checkpoint
        Those that were removed, and what is there instead.
    record, record_before : str
        SHA-256 of the record of erased rows, and of the one before it; empty where there is none.
    takes_place : str
        Which version the trainer's next start publishes in whose place.
    pin : str
        The version at which readers are held, if it is of these rows.
    retired : list of str
        Versions that were retired because they are of these rows.
    found : list of str
        Those that the log still holds, as valid points.
    absent : list of str
        Those of which nothing could have been archived, and why.
    changed : list of RewrittenBucket
    removed : list of str
        Damaged files of the archive that may have held them.
    versions : list of str
        Versions whose rows include one of these, with what is known of it.
    remains : list of str
        Where else something may be, and why.
    stores : list of StoreRow
        Every store that may carry rows.
    """

    asked: list[str]
    by: str
    time: str
    model: str = ""
    done: bool = True
    archive: str = ""
    rows_to_read: int = 0
    seconds_to_read: float = 0.0
    erasures_a_day: int = 0
    record: str = ""
    record_before: str = ""
    takes_place: str = ""
    pin: str = ""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    changed: list[RewrittenBucket] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=_standing)
    stores: list[StoreRow] = field(default_factory=list)

    def note_stores(self, settings: Settings) -> None:
        """Write down every store, and where it is by some settings."""
        self.stores = [
            StoreRow(
                store=store.name,
                where=store.where(settings),
                holds=store.holds,
                done=store.taken_out if self.done and store.is_somewhere(settings) else "",
                remains=store.remains,
            )
            for store in every_store()
        ]

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
                f"{self.seconds_to_read:,.0f} s, without these; {self.erasures_a_day:,} such commands fit into a day.",
                "",
            ]
        if self.record:
            before = f", in the place of {self.record_before}" if self.record_before else ""
            lines += [f"The record of erased rows has the SHA-256 {self.record}{before}.", ""]
        if self.takes_place:
            lines += [f"{self.takes_place}.", ""]
        if self.pin:
            lines += [f"**Readers of current are pinned to {self.pin}, which is of these rows, and keep it.**", ""]
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
            ("Damaged files removed", self.removed),
            ("Published versions of these rows", self.versions),
            ("Retired now", self.retired),
            ("What remains, and why", self.remains),
        ):
            lines += [f"## {title}", "", *(f"- {entry}" for entry in entries or ["nothing"]), ""]
        if self.stores:
            lines += ["## Every store that may carry rows", "", "| store | where | holds | done | remains |"]
            lines += ["|---|---|---|---|---|"]
            lines += [
                f"| {one.store} | {one.where} | {one.holds} | {one.done or 'nothing'} | {one.remains or 'nothing'} |"
                for one in self.stores
            ]
            lines.append("")
        return "\n".join(lines)


@contextmanager
def opened(
    cluster: Cluster,
    directory: Path,
    report: ForgettingReport,
    schemas: SchemaRegistry | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> Iterator[Forgetting]:
    """Lock an archive, and yield what takes rows out of it.

    Raises
    ------
    ConfigurationError
        If nothing is archived there.
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
        report.archive = f"{store} of {identity.name}, from the topic {identity.topic}"
        known = store.forgotten().rows
        with (
            one_algebra_thread(),
            Ranges(cluster, identity.topic, identity.topic_id, identity.config, timeout_s, schemas, known) as ranges,
        ):
            yield Forgetting(store, identity, log_of(cluster, identity), ranges, report)
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
    report : ForgettingReport
    """

    def __init__(
        self, store: Store, identity: Identity, log: Log, ranges: ReadsRanges, report: ForgettingReport
    ) -> None:
        self._store, self._identity, self._log, self._ranges, self._report = store, identity, log, ranges, report
        self._span = identity.config.coreset.span_rows or 1
        self._erased: Erased | None = None

    def record_of(self, erased: ErasedRows) -> Erased | None:
        """Return the record of the rows that were erased of the archive's model."""
        own = self._identity
        return erased.of_input(own.name, own.topic, own.topic_id)

    @property
    def begun(self) -> Forgotten:
        """The rows that a command was to take out of model and archive, which was ended before the record of them."""
        found = self._store.under_way()
        return {} if found is None or found.archive_only else found.positions

    def require_recorded(self, erased: Erased | None) -> None:
        """Refuse to take rows out of the archive alone that a command began to erase of the model, too.

        Raises
        ------
        StateError
            If they are not in the model's record: the mark of the archive is all that knows of them.
        """
        recorded = {} if erased is None else erased.places()
        if any(frozenset(own) - recorded.get(p, frozenset()) for p, own in self.begun.items()):
            self._store.require_finished()

    def require_log(self, positions: Mapping[int, Sequence[Position]]) -> None:
        """See that all that holds some rows can be made again; raises as `require_log`."""
        require_log(self._store, self._log, positions)

    def mark(self, positions: Mapping[int, Sequence[Position]]) -> None:
        """Let nobody use the archive before rows, which are about to be erased of its model, are out of it.

        Raises
        ------
        TransientError
            If the disk refuses.
        """
        places, old = {p: frozenset(own) for p, own in positions.items()}, set[Node]()
        begun = self._store.under_way()
        if begun is not None and begun.saved:
            self._finish(begun)
        elif begun is not None:
            places, old = union(places, begun.positions), set(begun.old)
        old |= set(self._store.holding(places))
        self._store.mark(UnderWay(positions=places, old=tuple(sorted(old)), archive_only=False))
        crash_point("erase.marked")

    def run(self, positions: Mapping[int, Sequence[Position]], erased: Erased | None = None) -> None:
        """Do it; what was begun is finished first, and what was erased of the archive's model goes, too.

        Parameters
        ----------
        positions : mapping of partition to sequence of Position
        erased : Erased or None
            The record of the model.

        Raises
        ------
        ConfigurationError
            If the log no longer holds the rows of a bucket; then nothing was changed, unless a forgetting was under
            way.
        TransientError
            If the disk refuses; the same call again goes on.
        """
        self._erased = erased
        self._store.clean()
        begun = self._store.under_way()
        if begun is not None:
            self._finish(begun)
        done, listed = {} if begun is None else begun.positions, self._store.forgotten().rows
        recorded = {} if erased is None else erased.places()
        wanted = union(
            {p: frozenset(own) - frozenset(done.get(p, ())) for p, own in positions.items()},
            {p: own - listed.get(p, frozenset()) for p, own in recorded.items()},
        )
        if begun is None or any(wanted.values()):
            self._finish(UnderWay(positions=wanted, old=tuple(self._store.holding(wanted))))
        self._look_at_damaged()

    def _finish(self, work: UnderWay) -> None:
        """Write the new beside the old, then remove the old, then join: each step can be done twice."""
        before = self._store.forgotten()
        self._ranges.forgotten = rows = union(before.rows, work.positions)
        if not work.saved:
            spans, states = self._made_again(work)
            kept = {Node.of(*span, encode_bucket(span[2])).name for span in spans}
            work = replace(work, old=tuple(node for node in work.old if node.name not in kept))
            self._store.mark(work)
            self._discard([name for p in work.positions if (name := self._damaged_span(p))])
            self._store.forget(Listed(rows, self._obeyed(rows) or before.erased))
            self._store.save(spans, states)
            work = replace(work, saved=True)
            self._store.mark(work)
            self._report.changed += [_changed_state(partition, state) for partition, (_, state) in states.items()]
        self._store.remove(work.old)
        Rebuild(self._store, self._identity, self._log, self._ranges, lambda _: None).join()
        self._note_rewritten(work.old)
        self._store.mark(None)

    def _obeyed(self, rows: Mapping[int, frozenset[Position]]) -> str:
        """Return the SHA-256 of the record of erased rows if the list names all of them; else nothing."""
        own = self._erased
        if own is None or not all(places <= rows.get(p, frozenset()) for p, places in own.places().items()):
            return ""
        return own.sha256

    def _damaged_span(self, partition: int) -> str:
        """Return the name of a damaged open span, which may hold any row; empty if it is sound, or not there."""
        try:
            self._store.state(partition)
        except CorruptCheckpoint:
            return self._store.state_name(partition)
        return ""

    def _look_at_damaged(self) -> None:
        """Remove what was set aside and is of forgotten rows by its name, and name the rest."""
        rows, gone = self._store.forgotten().rows, []
        for name in self._store.damaged():
            node = Node.parse(name.removesuffix(DAMAGED))
            if node is not None and any(node.start <= at < node.end for at in rows.get(node.partition, ())):
                gone.append(name)
            else:
                self._report.remains.append(
                    f"{name} in the archive was set aside because it is damaged, and was not looked into: by its name "
                    "it is of other rows; remove it by hand if in doubt"
                )
        self._discard(gone)

    def _discard(self, names: list[str]) -> None:
        self._store.discard(names)
        self._report.removed += names

    def look(self, positions: Mapping[int, Sequence[Position]]) -> None:
        """Find out which of the rows there are."""
        known = self._store.forgotten().rows
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

    def _made_again(
        self, work: UnderWay
    ) -> tuple[list[tuple[int, Position, Bucket]], dict[int, tuple[Position, PartitionState]]]:
        """Return spans and open spans without the rows; nothing is written yet."""
        spans, old, nodes = [], set(work.old), self._store.nodes()
        there = {(node.partition, node.base, node.level, node.number) for node in nodes if node not in old}
        for node in old.intersection(nodes):  # but for one that a person removed, as its log is gone
            if node.level == 1 and (node.partition, node.base, node.level, node.number) not in there:
                _require(self._log, node.partition, node.start, node.end)
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
                saved = None  # it is removed, and a start begins with the next span
            if saved is not None and (again := self._open_again(partition, *saved, own)) is not None:
                states[partition] = (saved[0], again)
        return spans, states

    def _open_again(
        self, partition: int, base: Position, state: PartitionState, own: Collection[Position]
    ) -> PartitionState | None:
        begin = begin_of(state)
        if not any(begin <= at < state.position for at in own):
            return None
        _require(self._log, partition, begin, state.position)
        rows_of_span = state.leaf_extent.rows + sum(bucket.extent.rows for bucket in state.buckets)
        assert state.memory is not None
        first_row = state.memory.learned.rows + state.leaf_extent.rows - rows_of_span
        recorder = Recorder(partition, base, self._identity.config, begin, first_row)
        for rows in self._ranges.rows(partition, begin, state.position):
            recorder.learn(rows)
        made = recorder.state
        assert made is not None
        return replace(made, sealed=state.sealed)  # counts from where the partition was recorded first

    def _note_rewritten(self, old: Sequence[Node]) -> None:
        after = {(node.partition, node.base, node.level, node.number): node for node in self._store.nodes()}
        for node in old:
            made = after.get((node.partition, node.base, node.level, node.number))
            self._report.changed.append(
                RewrittenBucket(
                    partition=node.partition,
                    start=node.start.offset,
                    end=node.end.offset,
                    level=node.level,
                    before=node.sha256,
                    after=made.sha256 if made else "removed: a half of it is missing",
                )
            )


def require_log(store: Store, log: Log, positions: Mapping[int, Collection[Position]]) -> None:
    """See that all of an archive that holds some rows can be made again.

    Raises
    ------
    ConfigurationError
        If the log no longer holds it.
    """
    places = {p: frozenset(own) for p, own in positions.items()}
    for node in store.holding(places):
        if node.level == 1:
            _require(log, node.partition, node.start, node.end)
    for partition, own in places.items():
        try:
            saved = store.state(partition)
        except CorruptCheckpoint:
            continue
        if saved is not None and any(begin_of(saved[1]) <= at < saved[1].position for at in own):
            _require(log, partition, begin_of(saved[1]), saved[1].position)


def _require(log: Log, partition: int, start: Position, end: Position) -> None:
    first, last = log.get(partition, (0, -1))
    if first > start.offset or end.offset > last:
        raise ConfigurationError(
            f"the bucket of partition {partition}, offsets {start.offset:,} to {end.offset:,}, cannot be made "
            "again: the log no longer holds its rows",
            "Nothing was changed. Remove the bucket's files, and those of longer ones around it, by hand: their "
            "other rows are lost with them.",
        )


def take_out(settings: Settings, cluster: Cluster, erased: Erased) -> list[RewrittenBucket]:
    """Take erased rows out of a trainer's own archive, before it goes on; return what was made again.

    Raises
    ------
    ConfigurationError
        If the log no longer holds the rows of a bucket.
    StateError
        If another process holds the directory.
    TransientError
        If the broker does not answer, or the disk refuses.
    """
    directory = section(settings, ArchiveConfig).directory
    assert directory is not None
    store = Store(FileSystem(directory, what="archive", option="--archive-directory"))
    identity = store.identity()
    # One of something else is refused by whoever opens it.
    if identity is None or (identity.name, identity.topic, identity.topic_id) != (
        settings.name,
        erased.topic,
        erased.topic_id,
    ):
        return []
    if store.under_way() is None and store.forgotten().erased == erased.sha256:
        return []
    report = report_of({}, "trainer")
    with schemas_of(settings) as schemas, opened(cluster, directory, report, schemas) as work:
        work.run({}, erased)
    return report.changed


def _changed_state(partition: int, state: PartitionState) -> RewrittenBucket:
    begin = state.buckets[0].extent.start if state.buckets else state.leaf_extent.start
    return RewrittenBucket(
        partition=partition,
        start=begin.offset,
        end=state.position.offset,
        level=0,
        before="the open span",
        after="made again",
    )


def report_of(positions: Mapping[int, Sequence[Position]], by: str) -> ForgettingReport:
    """Return an empty report of what somebody asks for."""
    return ForgettingReport(
        asked=[shown(partition, at) for partition, own in sorted(positions.items()) for at in sorted(own)],
        by=by,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def note_versions(
    report: ForgettingReport,
    cluster: Cluster,
    models_topic: str,
    topic: str,
    positions: Mapping[int, Sequence[Position]],
) -> list[Version]:
    """Name the published versions, of any model of this input, that are of such rows.

    Parameters
    ----------
    report : ForgettingReport
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
            version = model_codec.decode(record.value)
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
                f"{version.key}, SHA-256 {model_codec.sha256(record.value)}, of {', '.join(touched)}: {kind}; to "
                f"retire it: streamsvm model retire {version.number} --name {version.name}"
            )
    return of_them


def _retired(cluster: Cluster, models_topic: str) -> set[str]:
    """Return the keys of versions that have a tombstone."""
    records = cluster.read_to_end(models_topic, 0, timeout_s=READ_TIMEOUT_S)
    return {(record.key or b"").decode(errors="replace") for record in records if record.value is None}
