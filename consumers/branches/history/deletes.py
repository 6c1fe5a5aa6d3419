"""Deletes that come as records: a trainer that carries them out, in batches.

What a delete takes out is in `streamsvm.branches.history.deletes`. The trainer looks at the topic every few seconds.
Once the oldest delete that was not carried out is old enough, a thread reads all deletes, and the input once for the
rows that they name; the loop goes on meanwhile. The rows become the record of erased rows, as of
`streamsvm history forget`, in one transaction with how far both logs were looked at; then this life ends, and the next
one begins without the rows and publishes at once. Where no row is named, only how far was looked is written.

A delete that met nothing may be early: as long as it is young, what came since is looked at for it again.

Invariant: whatever is carried out stands in the log of aliases before anything else changes, so a trainer that is
killed anywhere carries it out at its next start. No version is published between the record, which names the newest
one, and the end of the life: where nobody knows whether the record is there, the life ends, too, and the next one reads
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final

import structlog

from consumers.branches.history.earlier import earlier_of, fits_log, lost_beginning, past_of
from consumers.branches.history.finding import FoundRows, looked_for
from consumers.branches.history.settings import ArchiveConfig, DeletesConfig
from consumers.host.runtime import schemas_of
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.abandonable import Aside
from consumers.streams.topics import READ_TIMEOUT_S, KnownPointers
from consumers.trainer.attachment import Attachment, Making, Part, StartOver, World
from consumers.trainer.session import InDoubt
from streamsvm.branches.history.deletes import (
    Applied,
    Wanted,
    applied_key,
    decode_applied,
    encode_applied,
    offsets_of,
    pairs_of,
)
from streamsvm.branches.history.deletes_part import DeletesApplied
from streamsvm.branches.history.erased import MOST, Erased, encode_erased
from streamsvm.branches.history.erasure import beginning
from streamsvm.branches.history.store import Store
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import ConfigurationError, InvalidMessage, StateError, StreamsvmError
from streamsvm.kafka import Cluster, Message, PublishRefused, Record, TopicInfo
from streamsvm.learning.recipe import Origin
from streamsvm.model import trail
from streamsvm.model.left_out import left_out_key
from streamsvm.points import Position
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.trainer")

LOOK_EVERY_S: Final = 5.0
OUTCOMES: Final = ("carried_out", "unknown", "doubled", "early", "later", "past_retention", "unreadable", "lost")
MOST_NAMES: Final = 1_000_000
"""Different names in the topic of deletes: with their times some 200 MB while they are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What deletes were found to name.

    Attributes
    ----------
    ends : mapping of partition to int
        Up to where deletes were read.
    wanted : Wanted
        All of them.
    fresh : tuple of str
        Names of those that were not carried out before.
    doubled, unreadable, lost : int
        Of these; and records that retention removed before they were read.
    youngest : float
        Time of the youngest of all, in milliseconds.
    found : FoundRows or None
        The rows; None where there was no reason to look for them.
    """

    ends: Mapping[int, int]
    wanted: Wanted
    fresh: tuple[str, ...]
    doubled: int
    unreadable: int
    lost: int
    youngest: float
    found: FoundRows | None


class Deletes(Attachment):
    """Deletes of a topic of their own.

    Parameters
    ----------
    world : World
        With `deletes.topic`.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._options = section(world.settings, DeletesConfig)
        self._erased: Erased | None = None
        self._applied: Applied | None = None
        self._topic_id = ""

    def check(self, source: TopicInfo) -> None:  # noqa: ARG002 - the topic has partitions of its own
        """Refuse a topic that loses deletes.

        Raises
        ------
        ConfigurationError
        """
        topic = self._options.topic
        policy = self.world.components.cluster.describe(topic).config.get("cleanup.policy", "delete")
        if "compact" in policy:
            raise ConfigurationError(
                f"the topic of deletes {topic} can lose deletes: its cleanup.policy is {policy}",
                f"Set the policy: kafka-configs --alter --entity-type topics --entity-name {topic} --add-config "
                "cleanup.policy=delete; and retention.ms so that it keeps them while no trainer runs.",
            )

    def found(self, topic: TopicInfo, pointers: KnownPointers) -> None:
        """Take in which rows were erased, and how far deletes were carried out."""
        erased = pointers.erased
        own = isinstance(erased, Erased) and erased.is_of(topic.name, topic.topic_id or "")
        self._erased = erased if own and isinstance(erased, Erased) else None
        deletes = self.world.components.cluster.describe(self._options.topic)
        self._topic_id = deletes.topic_id or ""
        self._applied = self._known() or Applied(
            topic=self._options.topic, topic_id=self._topic_id, by=self._options.by, deletes=(), input=()
        )

    def _known(self) -> Applied | None:
        """Read how far deletes of this very topic were carried out."""
        settings, cluster = self.world.settings, self.world.components.cluster
        key = applied_key(settings.name).encode()
        record = cluster.newest(settings.output.aliases_topic, [key], READ_TIMEOUT_S).get(key)
        if record is None or record.value is None:
            return None
        try:
            found = decode_applied(record.value)
        except InvalidMessage as error:
            raise StateError(
                f"the record {applied_key(settings.name)} cannot be read: {error}",
                "Another program or a newer streamsvm wrote it: use that version of streamsvm.",
            ) from None
        options = self._options
        return found if (found.topic, found.topic_id, found.by) == (options.topic, self._topic_id, options.by) else None

    def origin(self, origin: Origin) -> Origin:
        """Let a version name how far deletes were carried out."""
        own = self._applied
        assert own is not None
        fact = DeletesApplied(topic=own.topic, topic_id=own.topic_id, by=own.by, cut=own.deletes, input=own.input)
        return replace(origin, facts=(*origin.facts, fact))

    def part(self, making: Making) -> Part:
        """Return what looks for deletes, and carries them out."""
        assert self._applied is not None
        return CarriesOut(self, making, self._applied, self._erased)

    def carried_on(self, applied: Applied) -> None:
        """Note that nothing changed but how far was looked."""
        self._applied = applied


class CarriesOut(Part):
    """What is done about deletes in every turn.

    Parameters
    ----------
    deletes : Deletes
    making : Making
    applied : Applied
        How far deletes were carried out.
    erased : Erased or None
        The record of erased rows.
    """

    def __init__(self, deletes: Deletes, making: Making, applied: Applied, erased: Erased | None) -> None:
        world = deletes.world
        self._deletes, self._world, self._making = deletes, world, making
        self._settings: Settings = making.settings
        self._options = section(self._settings, DeletesConfig)
        self._metrics: Metrics = world.components.metrics
        self._applied, self._erased = applied, erased
        self._looked = offsets_of(applied.input)
        self._search: Aside[Batch | None] | None = None
        self._sending: tuple[Sequence[tuple[int, Position]], Applied, Callable[[], None]] | None = None
        self._refused: Mapping[int, int] = {}
        self._due_at = 0.0
        self._youngest: float | None = None
        self._looked_at = world.components.clock.monotonic()
        self._metrics.begin("streamsvm_deletes", "outcome", OUTCOMES)

    def turn(self) -> None:
        """Look now and then, and carry out what was found; raises `StartOver` once it is."""
        delivery, now = self._world.delivery, self._world.components.clock.monotonic()
        if self._sending is not None:
            if delivery.ready:
                self._send()
        elif self._search is not None:
            self._look_at_search()
        elif now >= self._due_at and not delivery.replaces and not self._making.pipeline.reads_again:
            self._due_at = now + min(LOOK_EVERY_S, max(self._options.every_s, 0.1))
            self._search = Aside(self._find())

    def _find(self) -> _Find:
        settings, parts = self._settings, self._world.components
        return _Find(
            cluster=parts.cluster,
            settings=settings,
            options=self._options,
            topic=settings.input.topic,
            topic_id=self._making.topic_id,
            applied=self._applied,
            looked=dict(self._looked),
            youngest=self._youngest,
            is_time=parts.clock.monotonic() - self._looked_at >= self._options.every_s,
            now_ms=parts.clock.now().timestamp() * 1e3,
        )

    def _look_at_search(self) -> None:
        assert self._search is not None
        try:
            if not self._search.finished(0.0):
                return
            batch, self._search = self._search.returned, None
            if batch is not None:
                self._youngest = batch.youngest
                if batch.found is not None:
                    self._take(batch, batch.found)
        except _OtherDeletes as error:
            raise StartOver(str(error)) from None
        except StreamsvmError as error:
            self._search = None
            log.warning("deletes_wait", what=error.what, remedy=error.remedy or "no action needed: it is tried again")

    def _take(self, batch: Batch, found: FoundRows) -> None:
        """Decide what becomes of what was found."""
        known = {} if self._erased is None else self._erased.places()
        base = self._making.pipeline.base
        rows = [
            (partition, at)
            for partition, own in sorted(found.places.items())
            for at in sorted(own)
            if partition in base and at >= base[partition] and at not in known.get(partition, ())
        ]
        impossible = self._impossible(rows) if rows else ""
        # Somebody asked for rows to be gone, and they are not: a person has to know for as long as that is so.
        self._world.components.health.require("deletes", impossible[0] if impossible else "")
        if impossible:
            if batch.ends != self._refused:  # it is tried again, and counted once
                self._metrics.increase("streamsvm_deletes", max(1, len(batch.fresh)), outcome="past_retention")
            self._refused = batch.ends
            log.error("deletes_refused", rows=len(rows), what=impossible[0], remedy=impossible[1])
            self._due_at = self._world.components.clock.monotonic() + max(self._options.every_s, 60.0)
            return
        self._looked, self._looked_at = dict(found.ends), self._world.components.clock.monotonic()
        applied = Applied(
            topic=self._applied.topic,
            topic_id=self._applied.topic_id,
            by=self._applied.by,
            deletes=pairs_of(batch.ends),
            input=pairs_of(found.ends),
        )
        if rows or applied.deletes != self._applied.deletes:
            self._sending = rows, applied, partial(self._count, batch, found, len(rows))
        else:
            self._count(batch, found, 0)

    def _impossible(self, rows: Sequence[tuple[int, Position]]) -> tuple[str, str] | str:
        """Say why the log cannot be learned again without rows, and what to do; empty if it can."""
        settings, pipeline, cluster = self._settings, self._making.pipeline, self._world.components.cluster
        erased = self._record(rows)
        if len(erased.rows) > MOST:
            return (
                f"more than {MOST:,} rows would be erased of one model",
                "Write a topic without the rows, and begin anew from that.",
            )
        for partition, at in sorted(pipeline.learner.positions.items()):
            first, _ = cluster.log_range(settings.input.topic, partition)
            begun = pipeline.base[partition]
            if at > begun and first > begun.offset:
                if self._has_earlier(erased):
                    return ""
                return (
                    f"{settings.input.topic}[{partition}] begins at offset {first:,}, but the model began at "
                    f"{begun.offset:,}: it cannot be learned again without the rows",
                    "Begin anew with what the log still holds, with --input-start earliest --reset "
                    f"{settings.name}/{self._world.delivery.incarnation}.",
                )
        try:
            self._require_archive(erased)
        except ConfigurationError as error:
            return error.what, error.remedy
        lost = lost_beginning(cluster, self._making.other_logs)
        return lost and (
            f"{lost}: it cannot be learned again without the rows",
            f"Begin anew with what the logs still hold, with --reset {settings.name}/"
            f"{self._world.delivery.incarnation}.",
        )

    def _require_archive(self, erased: Erased) -> None:
        """See that the next life can take rows out of the archive; raises `ConfigurationError` if it cannot."""
        archive, cluster = section(self._settings, ArchiveConfig), self._world.components.cluster
        if archive.directory is None:
            return
        from consumers.branches.history.forgetting import require_log

        store = Store(FileSystem(archive.directory, what="archive", option="--archive-directory"))
        known = store.forgotten().rows
        places = {p: own - known.get(p, frozenset()) for p, own in erased.places().items()}
        require_log(store, {p: cluster.log_range(erased.topic, p) for p in places}, places)

    def _has_earlier(self, erased: Erased) -> bool:
        """Return whether a checkpoint was kept from which the log can be learned again."""
        settings, snapshot = self._settings, self._making.pipeline.snapshot(0, {})
        earlier = earlier_of(settings, past_of(settings), ())
        fits = partial(fits_log, self._world.components.cluster)
        return beginning(snapshot, erased, self._world.delivery.head, erased.continues, earlier, fits) is not None

    def _count(self, batch: Batch, found: FoundRows, rows: int) -> None:
        met = found.met_ids | found.met_keys
        fresh = set(batch.fresh)
        for outcome, count in (
            ("carried_out", len(fresh & met)),
            ("unknown", len(fresh - met)),
            ("early", 0 if fresh else rows),
            ("doubled", batch.doubled),
            ("unreadable", batch.unreadable),
            ("later", found.younger if fresh else 0),
            ("lost", batch.lost),
        ):
            self._metrics.increase("streamsvm_deletes", count, outcome=outcome)
        if batch.lost:
            log.error(
                "deletes_lost",
                topic=self._applied.topic,
                records=batch.lost,
                remedy="retention removed them before the trainer read them: send them again, and set retention.ms of "
                "the topic so that it keeps deletes for as long as a trainer may be stopped",
            )

    def _messages(self, rows: Sequence[tuple[int, Position]], applied: Applied) -> list[Message]:
        """Return the records of what is carried out; they name the newest version, so make them when they are sent."""
        settings, output, name = self._settings, self._settings.output, self._settings.name
        how_far = Message(output.aliases_topic, encode_applied(applied), applied_key(name).encode(), partition=0)
        if not rows:
            return [how_far]
        entry = trail.RowsErased(
            name=name,
            topic=settings.input.topic,
            rows=[(partition, at.offset, at.row) for partition, at in rows],
            by="trainer",
            reason=f"deletes of the topic {applied.topic}",
            time=self._world.components.clock.now().isoformat(),
        )
        key = left_out_key(name).encode()
        return [
            Message(output.aliases_topic, encode_erased(self._record(rows)), key, partition=0),
            how_far,
            Message(output.audit_topic, trail.encode(entry), key, partition=0),
        ]

    def _record(self, rows: Sequence[tuple[int, Position]]) -> Erased:
        """Return the record of erased rows, with these."""
        settings, delivery, before = self._settings, self._world.delivery, self._erased
        head = delivery.head
        newest = 0 if head is None else head.number
        continued = head is not None and bool(delivery.published_cut) and settings.svm.tune is None
        return Erased(
            topic=settings.input.topic,
            topic_id=self._making.topic_id,
            incarnation=max(delivery.incarnation, before.incarnation if before is not None else 0),
            continues=head.incarnation if continued and head is not None else 0,
            rows=(
                *(before.rows if before is not None else ()),
                *((partition, at.offset, at.row, newest) for partition, at in rows),
            ),
            retires=before.retires if before is not None else (),
        )

    def _send(self) -> None:
        assert self._sending is not None
        rows, applied, count = self._sending
        try:
            self._world.session.publish(self._messages(rows, applied))
        except InDoubt:
            if rows:  # it may stand there: a version of the rows that came after it would be named by nobody
                raise StartOver(f"whether deletes of {applied.topic} are recorded is to be read") from None
            return  # the same record twice says the same
        except PublishRefused as refusal:
            self._sending = None
            log.error("deletes_refused", what=refusal.what, remedy=refusal.remedy)
            return
        self._sending = None
        self._applied = applied
        self._deletes.carried_on(applied)
        count()
        if rows:
            raise StartOver(f"deletes of {applied.topic} take rows out of what was learned")


class _OtherDeletes(Exception):
    """The topic of deletes is another one than the one that was read so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Find:
    """One look at the deletes, in a thread of its own; returns None where nothing new is known.

    Attributes
    ----------
    applied : Applied
        How far deletes were carried out.
    looked : mapping of partition to int
        How far rows were looked for.
    youngest : float or None
        Time of the youngest delete, in milliseconds, once all were read.
    is_time : bool
        Whether `every_s` have passed since rows were looked for.
    """

    cluster: Cluster
    settings: Settings
    options: DeletesConfig
    topic: str
    topic_id: str
    applied: Applied
    looked: Mapping[int, int]
    youngest: float | None
    is_time: bool
    now_ms: float

    def __call__(self) -> Batch | None:
        deletes, applied = self.applied.topic, offsets_of(self.applied.deletes)
        described = self.cluster.describe(deletes)
        if (described.topic_id or "") != self.applied.topic_id:
            raise _OtherDeletes(f"the topic {deletes} was deleted and made again")
        ranges = {p: self.cluster.log_range(deletes, p) for p in described.partitions}
        first = {p: max(begin, min(applied.get(p, 0), end)) for p, (begin, end) in ranges.items()}
        is_new = any(end > applied.get(p, 0) for p, (_, end) in ranges.items())
        if is_new and self._is_young(first, ranges):
            return None
        if not is_new and not self._may_be_early(self.youngest):
            return None
        return self._read(first, ranges, is_new=is_new)

    def _is_young(self, first: Mapping[int, int], ranges: Mapping[int, tuple[int, int]]) -> bool:
        """Return whether the oldest delete that was not carried out is to wait for more; only new ones are read."""
        oldest = inf
        for partition, (_, end) in sorted(ranges.items()):
            if first[partition] < end:
                records = self.cluster.read_to_end(
                    self.options.topic, partition, start=first[partition], timeout_s=READ_TIMEOUT_S
                )
                oldest = min(oldest, min((_time_ms(record) for record in records), default=inf))
        # A time far ahead is one of a clock that is wrong, or of another unit: it must not put the rest off for ever.
        return abs(self.now_ms - oldest) < self.options.every_s * 1e3

    def _may_be_early(self, youngest: float | None) -> bool:
        """Return whether some delete is young enough to be looked for again, and there is something to look at."""
        if youngest is not None and self.now_ms - youngest > self.options.early_s * 1e3:
            return False
        return self.is_time and self._has_grown()

    def _read(self, first: Mapping[int, int], ranges: Mapping[int, tuple[int, int]], *, is_new: bool) -> Batch | None:
        """Read all deletes, and the rows that they name: all of them if some are new, else those that came since.

        Raises
        ------
        ConfigurationError
            If there are too many.
        """
        applied = offsets_of(self.applied.deletes)
        wanted, fresh, youngest = Wanted(self.options.by), dict[str, None](), -1.0
        doubled = unreadable = 0
        for partition, (begin, end) in sorted(ranges.items()):
            if begin >= end:
                continue
            for record in self.cluster.read_to_end(self.options.topic, partition, timeout_s=READ_TIMEOUT_S):
                if record.offset >= end:  # it came since, and belongs to the next batch
                    break
                before = wanted.doubled, wanted.unreadable
                name = wanted.add(record.key, record.value, _time_ms(record))
                youngest = max(youngest, _time_ms(record))
                if record.offset >= first[partition]:
                    doubled += wanted.doubled - before[0]
                    unreadable += wanted.unreadable - before[1]
                    if name:
                        fresh[name] = None
                if len(wanted.until) > MOST_NAMES:
                    raise ConfigurationError(
                        f"the topic {self.options.topic} holds deletes of more than {MOST_NAMES:,} names",
                        "Set retention.ms of the topic so that deletes which were carried out long ago are removed.",
                    )
        batch = Batch(
            ends={partition: end for partition, (_, end) in ranges.items()},
            wanted=wanted,
            fresh=tuple(fresh),
            doubled=doubled,
            unreadable=unreadable,
            lost=sum(max(0, begin - applied.get(partition, 0)) for partition, (begin, _) in ranges.items()),
            youngest=youngest,
            found=None,
        )
        if not is_new and not self._may_be_early(youngest):
            return batch
        with schemas_of(self.settings) as schemas:
            found = looked_for(
                self.cluster,
                self.topic,
                self.settings.models(),
                {name: wanted.until[name] for name in wanted.ids},
                {name: wanted.until[name] for name in wanted.keys},
                start=None if is_new else self.looked,
                topic_id=self.topic_id,
                schemas=schemas,
                timeout_s=READ_TIMEOUT_S,
            )
        return replace(batch, found=found)

    def _has_grown(self) -> bool:
        return any(
            self.cluster.log_range(self.topic, partition)[1] > self.looked.get(partition, 0)
            for partition in self.cluster.describe(self.topic).partitions
        )


def _time_ms(record: Record) -> int:
    return -1 if record.timestamp_ms is None else record.timestamp_ms
