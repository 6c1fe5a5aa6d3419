"""`streamsvm history forget`: rows taken out of what a trainer has learned, and of what it will learn.

What was learned of a row cannot be told from what was learned of others. So the places of erased rows become a record
of the aliases topic, which every start and every `verify` reads; what was learned goes; and the trainer's next start
reads the log again from where the model began, or from a checkpoint of before the rows that was kept
(`checkpoint.keep_bytes`), the rows counting as rejected when they came. Structure, checkpoint and later versions are
then those of a stream in which they were rejected.

Order: the record, in one transaction with its audit entry, under the trainer's own transactional id; then the
checkpoints of this directory. Whatever ends the command in between, a start finds the record, and obeys it: a trainer
on another machine does, too.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from consumers import constants
from consumers.branches.history.earlier import earlier_of, fits_log, lost_beginning, past_of
from consumers.branches.history.erased_rows import shown
from consumers.branches.history.forgetting import Checkpoint, ForgettingReport
from consumers.branches.history.ranges import Log, Ranges
from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S, KnownPointers, read_pointers
from consumers.trainer.session import InDoubt, Session
from streamsvm.branches.history.erased import MOST, Erased, encode_erased
from streamsvm.branches.history.erasure import beginning, emptied, lacks, obeys, remove_disobedient
from streamsvm.branches.history.past import rows_of
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import Disk, FileSystem
from streamsvm.checkpoint.snapshot import ReadAhead, Snapshot
from streamsvm.config import ModelConfig
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.machine import Delivery
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.kafka import Cluster, Connection, Message, SchemaRegistry
from streamsvm.model import trail
from streamsvm.model.left_out import left_out_key
from streamsvm.model.pointers import Head
from streamsvm.points import Position

PAUSE_S: Final = 0.2
Positions = Mapping[int, Sequence[Position]]


def erase(
    connection: Connection,
    settings: Settings,
    positions: Positions,
    report: ForgettingReport,
    *,
    reason: str = "",
    agree: Callable[[], bool],
    schemas: SchemaRegistry | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> bool:
    """Erase rows from what a trainer, which must be stopped, has learned and will learn.

    Parameters
    ----------
    connection : Connection
    settings : Settings
        The trainer's.
    positions : mapping of partition to sequence of Position
    report : ForgettingReport
        What is found and done is written there.
    reason : str
        For the audit trail.
    agree : callable
        Returns whether to go on, once the report says which rows are learned again. Nothing is changed before.
    schemas : SchemaRegistry, optional
    timeout_s : float

    Returns
    -------
    bool
        Whether it was done; also where nothing of these rows was to be done.

    Raises
    ------
    ConfigurationError
        If that is not possible; nothing was changed.
    StateError
        If a trainer holds the checkpoint directory.
    TransientError
        If the broker does not answer, or the disk refuses.
    """
    place = settings.checkpoint.directory
    if not place.is_dir():
        raise _without_checkpoint(settings)
    cluster = Cluster(connection)
    disk = FileSystem(place, trusted=settings.checkpoint.trust_directory)
    with CheckpointDirectory(disk, constants.CHECKPOINTS) as directory, cluster.keeping():
        erasure = _Erasure(connection, cluster, settings, disk, directory, report, timeout_s)
        erasure.look(positions, schemas)
        if not erasure.unfinished:
            return True
        report.rows_to_read = erasure.rows_to_read()
        if not agree():
            return False
        erasure.record(reason)
        crash_point("erase.recorded")
        erasure.empty()
        crash_point("erase.emptied")
        return True


def configuration_of(settings: Settings) -> ModelConfig:
    """Return the configuration of the newest checkpoint, by which records are decoded.

    Raises
    ------
    ConfigurationError
        If there is none.
    StateError
        If a trainer holds the directory.
    """
    place = settings.checkpoint.directory
    if not place.is_dir():
        raise _without_checkpoint(settings)
    disk = FileSystem(place, trusted=settings.checkpoint.trust_directory)
    with CheckpointDirectory(disk, constants.CHECKPOINTS) as directory:
        for generation in directory.generations():
            if generation.snapshot is not None and generation.snapshot.name == settings.name:
                return ModelConfig.of_canonical(generation.snapshot.configuration)
    raise _without_checkpoint(settings)


class _Erasure:
    """One erasure, from the look to the end, in a checkpoint directory that is locked."""

    def __init__(
        self,
        connection: Connection,
        cluster: Cluster,
        settings: Settings,
        disk: Disk,
        directory: CheckpointDirectory,
        report: ForgettingReport,
        timeout_s: float,
    ) -> None:
        self._connection, self._cluster, self._settings = connection, cluster, settings
        self._disk, self._directory, self._report, self._timeout_s = disk, directory, report, timeout_s
        self._snapshot = self._newest()
        self._config = ModelConfig.of_canonical(self._snapshot.configuration)
        self._log = self._log_of_input()
        self._wanted: list[tuple[int, Position]] = []
        self._past = past_of(settings, disk)
        self._found = read_pointers(cluster, settings, timeout_s)
        self._known, self._head = self._applying(self._found), self._found.head

    def _newest(self) -> Snapshot:
        for generation in self._directory.generations():
            snapshot = generation.snapshot
            if snapshot is None:
                continue
            if snapshot.name != self._settings.name:
                raise _without_checkpoint(self._settings, f"; those there are of {snapshot.name}")
            return snapshot
        raise _without_checkpoint(self._settings)

    def _log_of_input(self) -> Log:
        topic, snapshot = self._cluster.describe(self._settings.input.topic), self._snapshot
        if (topic.name, topic.topic_id or "") != (snapshot.topic, snapshot.topic_id):
            raise ConfigurationError(
                f"the checkpoint is of the topic {snapshot.topic} with the id {snapshot.topic_id or 'unknown'}, "
                f"but the input {topic.name} has the id {topic.topic_id or 'unknown'}",
                "Give the trainer's input.topic. Of a topic that is gone nothing can be learned again: begin anew with "
                "the --reset that a start of the trainer prints.",
            )
        return {partition: self._cluster.log_range(topic.name, partition) for partition in topic.partitions}

    def _applying(self, found: KnownPointers) -> Erased | None:
        erased = found.erased
        assert erased is None or isinstance(erased, Erased)
        return erased if erased is not None and erased.is_of(self._snapshot.topic, self._snapshot.topic_id) else None

    # ------------------------------------------------------------ before anything changes

    @property
    def unfinished(self) -> bool:
        """Whether something is to be done: rows to be recorded, or a checkpoint that may hold recorded ones."""
        known = self._known
        found = [each.snapshot for each in self._directory.generations() if each.snapshot is not None]
        return bool(self._wanted) or (
            known is not None
            and not (
                all(obeys(snapshot, known) for snapshot in found)
                and all(lacks(snapshot, known) for snapshot in self._past.snapshots())
            )
        )

    def look(self, positions: Positions, schemas: SchemaRegistry | None) -> None:
        """Find out which of the rows there are."""
        known = {} if self._known is None else self._known.places()
        with Ranges(
            self._cluster, self._snapshot.topic, self._snapshot.topic_id, self._config, self._timeout_s, schemas
        ) as ranges:
            for partition, own in sorted(positions.items()):
                for at in sorted(set(own)):
                    name = shown(partition, at)
                    if at in known.get(partition, ()):
                        self._report.found.append(f"{name}, which was erased before")
                        continue
                    why = self._absence(partition, at, ranges)
                    if why:
                        self._report.absent.append(f"{name}: {why}")
                    else:
                        self._report.found.append(name)
                        self._wanted.append((partition, at))
        if len(self._wanted) + sum(map(len, known.values())) > MOST:
            raise ConfigurationError(
                f"more than {MOST:,} rows would be erased of one model",
                "Write a topic without the rows, and begin anew from that.",
            )

    def _absence(self, partition: int, at: Position, ranges: Ranges) -> str:
        """Say why nothing can have been learned of a row; empty if something was, or will be."""
        base = self._snapshot.base.get(partition)
        first, end = self._log.get(partition, (0, 0))
        if base is None or partition not in self._log:
            return "the model does not learn this partition"
        if at.offset >= end:
            return "the log has not reached this offset"
        if at < base:
            return "the model began after it"
        if at.offset < first:
            return "the log no longer holds it, so it cannot be looked at"
        for rows in ranges.rows(partition, at, Position(at.offset, at.row + 1)):
            return "" if rows.accepted[0] else "the row was rejected when it came, so nothing learned it"
        return "the log holds no such row"

    def rows_to_read(self) -> int:
        """Return how many rows the next start reads and learns again.

        Raises
        ------
        ConfigurationError
            If the log no longer holds what was learned.
        """
        snapshot, learner = self._snapshot, self._snapshot.learner
        learned, begun = rows_of(snapshot), self._beginning()
        if begun is not None:
            return max(0, learned - rows_of(begun))
        for partition, state in sorted(learner.partitions.items()):
            first, _ = self._log.get(partition, (0, -1))
            if state.position > snapshot.base[partition] and first > snapshot.base[partition].offset:
                raise ConfigurationError(
                    f"{snapshot.topic}[{partition}] begins at offset {first:,}, but the model began at "
                    f"{snapshot.base[partition].offset:,}: it cannot be learned again without the rows",
                    "Nothing was changed. Either begin anew with what the log still holds, with the trainer's "
                    f"--input-start earliest --reset {snapshot.name}/{snapshot.incarnation}, and remove the old "
                    "checkpoints.",
                )
        others = [part for part in snapshot.parts.values() if isinstance(part, ReadAhead)]
        if lost := lost_beginning(self._cluster, others):
            raise ConfigurationError(
                f"{lost}: it cannot be learned again without the rows",
                "Nothing was changed. Begin anew with what the logs still hold, with the trainer's --reset "
                f"{snapshot.name}/{snapshot.incarnation}, and remove the old checkpoints.",
            )
        return learned

    def _beginning(self) -> Snapshot | None:
        """Return the checkpoint from which the next start learns again; None: from the beginning."""
        known = self._known
        if self._wanted:
            known = self._recorded(self._found, self._head)
        if known is None:
            return None
        return beginning(self._snapshot, known, self._head, known.continues, self._earlier(), self._fits)

    def _earlier(self) -> Iterator[Snapshot]:
        generations = (each.snapshot for each in self._directory.generations())
        return earlier_of(self._settings, self._past, (one for one in generations if one is not None))

    def _fits(self, snapshot: Snapshot) -> bool:
        return fits_log(self._cluster, snapshot)

    # ------------------------------------------------------------ what is done

    def record(self, reason: str) -> None:
        """Take the model over, so that no trainer goes on with it, and publish the record of erased rows."""
        if not self._wanted:
            return  # a command before this one was ended after the record
        settings, name = self._settings, self._settings.name
        delivery = Delivery(name, f"forget-{secrets.token_hex(8)}")
        session = Session(settings, self._cluster, delivery, Metrics(TRAINER), time.monotonic)
        try:
            found = session.take_over(datetime.now(UTC))
            head, before = found.head, self._applying(found)
            self._head = head
            if head is not None and head.incarnation > max(
                self._snapshot.incarnation, before.incarnation + 1 if before else 0
            ):
                raise StateError(
                    f"{name}@{head.number} is of the incarnation {head.incarnation}, but the newest checkpoint in "
                    f"{self._disk} is of {self._snapshot.incarnation}: another trainer has continued this model",
                    "Run the command where that trainer's checkpoints are. Nothing was changed.",
                )
            rows = [(partition, at.offset, at.row) for partition, at in self._wanted]
            self._known = self._recorded(found, head)
            self._report.record_before = before.sha256 if before is not None else ""
            self._report.record = self._known.sha256
            self._report.takes_place = self._taken_place(head)
            now, by = datetime.now(UTC).isoformat(timespec="seconds"), self._report.by
            entry = trail.RowsErased(name=name, topic=self._snapshot.topic, rows=rows, by=by, reason=reason, time=now)
            key, output = left_out_key(name).encode(), settings.output
            messages = [
                Message(output.aliases_topic, encode_erased(self._known), key, partition=0),
                Message(output.audit_topic, trail.encode(entry), key, partition=0),
            ]
            delivery.begins(found.owner, self._known.incarnation, head, head)
            while True:
                try:
                    session.publish(messages)
                except InDoubt:  # the record twice is the same record
                    while not session.renew():
                        time.sleep(PAUSE_S)
                else:
                    return
        finally:
            session.close()

    def _recorded(self, found: KnownPointers, head: Head | None) -> Erased:
        """Return the record of erased rows, with those that are wanted."""
        before, newest = self._applying(found), head.number if head is not None else 0
        return Erased(
            topic=self._snapshot.topic,
            topic_id=self._snapshot.topic_id,
            incarnation=max(
                self._snapshot.incarnation,
                head.incarnation if head is not None else 0,
                before.incarnation if before is not None else 0,
            ),
            continues=self._continues(found, before),
            rows=(
                *(before.rows if before is not None else ()),
                *((partition, at.offset, at.row, newest) for partition, at in self._wanted),
            ),
        )

    def _taken_place(self, head: Head | None) -> str:
        """Say which version the next start publishes, where one is continued."""
        name, known = self._settings.name, self._known
        if head is None or known is None:
            return ""
        if known.continues != head.incarnation:
            return f"versions are published anew from the beginning, from {name}@{head.number + 1} on"
        return (
            f"{name}@{head.number + 1} takes the place of {name}@{head.number}, at its cut, before a new row is learned"
        )

    def _continues(self, found: KnownPointers, before: Erased | None) -> int:
        """Return the incarnation whose newest version stays the newest until the log is learned again up to its cut."""
        # C and gamma that were chosen with the rows must be chosen again, and so must all that was published of them.
        if found.head is None or self._config.svm.tune is not None:
            return 0
        own = found.head.incarnation
        if own == self._snapshot.incarnation:
            return own
        is_continued = before is not None and before.continues == own
        return own if is_continued and before is not None and self._snapshot.incarnation > before.incarnation else 0

    def empty(self) -> None:
        """Put a checkpoint of before the rows, or with nothing learned, in the place of those that may hold them."""
        assert self._known is not None
        known, kept = self._known, self._past.names
        before = {each.name for each in self._directory.generations()}
        self._report.checkpoints += [self._checkpoint(name, "removed") for name in [*sorted(before), *kept]]
        snapshot = emptied(self._snapshot, known, self._head, self._earlier(), self._fits)
        if snapshot is not self._snapshot:
            self._directory.save(replace(snapshot, sequence=snapshot.sequence + 1))
        remove_disobedient(self._directory, known, self._settings.name)
        self._past.remove_unless(lambda one: lacks(one, known))
        left = {each.name for each in self._directory.generations()} | set(self._past.names)
        self._report.checkpoints = [one for one in self._report.checkpoints if one.name not in left]
        for each in self._directory.generations():
            if each.snapshot is None:
                self._report.checkpoints.append(self._checkpoint(each.name, f"cannot be read, and stays: {each.fault}"))
            else:
                self._report.checkpoints.append(self._checkpoint(each.name, "is what the trainer continues from"))
        self._report.checkpoints += [
            self._checkpoint(name, "is kept: it is from before the rows") for name in self._past.names
        ]

    def _checkpoint(self, name: str, what: str) -> Checkpoint:
        return Checkpoint(name=name, sha256=sha256(self._disk.read(name)).hexdigest(), what=what)


def _without_checkpoint(settings: Settings, more: str = "") -> ConfigurationError:
    return ConfigurationError(
        f"no checkpoint of {settings.name} was found in {settings.checkpoint.directory}{more}",
        "Run the command where the trainer's checkpoints are, with its --checkpoint-directory.",
    )
