"""`streamsvm history build`: a model of any stretch of the past, of archived buckets and the rows at its borders.

A stretch is, of each partition, the rows from the first record of one time on up to the first record of another,
without such stretches in between. Whole spans of it come from the archive, two buckets for each doubling of its length;
the rows at its borders are read again from the log. Where the log has lost those, they are left out and the version
says so: it is always of exactly the rows that its lineage names. `streamsvm verify --name NEW` makes all of it again
from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from consumers.branches.history import beside
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.stretches import Log, Ranges, learned, made_of
from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.branches.history.built_part import Built, BuiltOf
from streamsvm.branches.history.cover import Range, Read, before, cover, spans, without
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.recorder import of_partitions
from streamsvm.branches.history.store import Identity, Store
from streamsvm.branches.history.stretches import Piece, archived
from streamsvm.build import build
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.config import ModelConfig
from streamsvm.coreset.structure import Bucket
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.publication import Publication
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, StateError, TopicMissing
from streamsvm.kafka import Cluster, Connection, SchemaRegistry
from streamsvm.learning.recipe import Made, Origin, version_of
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.machine import LinearMachine
from streamsvm.model.version import Version
from streamsvm.points import Position
from streamsvm.process_wide import one_algebra_thread
from streamsvm.registry.loading import Loaded
from streamsvm.supports import require
from streamsvm.verification.recomputation import configuration_of

SESSION: Final = "build-"
Say = Callable[[str], object]
"""Takes a line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRequest:
    """What is requested.

    Attributes
    ----------
    since, until : datetime or None
        From the first record of this time on, before that of the other; None: from the beginning, to the end.
    holes : sequence of (datetime, datetime)
        What is left out of it.
    partitions : frozenset of int or None
        None: all.
    """

    since: datetime | None
    until: datetime | None
    holes: Sequence[tuple[datetime, datetime]] = ()
    partitions: frozenset[int] | None = None


@dataclass(slots=True)
class BuiltRange:
    """What a stretch came to.

    Attributes
    ----------
    pieces : dict of partition to list of Piece
    parts : list of BuiltOf
    exact : bool
        Whether they are all that was asked for.
    bytes_read : int
        Of buckets.
    rows_read : int
        From the log.
    """

    pieces: dict[int, list[Piece]] = field(default_factory=dict)
    parts: list[BuiltOf] = field(default_factory=list)
    exact: bool = True
    bytes_read: int = 0
    rows_read: int = 0

    @property
    def points(self) -> int:
        """Valid points among its rows."""
        return sum(piece.extent.moments.count for pieces in self.pieces.values() for piece in pieces)


class Builder:
    """An archive and the log beside it, from which any stretch can be taken.

    Parameters
    ----------
    cluster : Cluster
    store : Store
    loaded : Loaded
        The newest version of the trainer whose archive it is: its configuration is that of what is built.
    say : callable
    erased : ErasedRows
        Which rows were erased of the archive's model.
    schemas : SchemaRegistry, optional
    timeout_s : float

    Raises
    ------
    ConfigurationError
        If there is no archive, or it is of another model.
    StateError
        If rows are half forgotten there, or it may hold an erased row.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        loaded: Loaded,
        say: Say,
        erased: ErasedRows,
        schemas: SchemaRegistry | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._cluster, self._store, self._say, self._schemas = cluster, store, say, schemas
        self._timeout_s = timeout_s
        self.config = configuration_of(loaded.version.lineage)
        self.identity = _identity_of(store, loaded, self.config)
        own = self.identity
        self._listed = store.obeying(erased.of_input(own.name, own.topic, own.topic_id))
        self._forgotten = self._listed.rows
        self._nodes = of_partitions(store.nodes())
        self._log = log_of(cluster, self.identity)
        self._damaged: set[Node] = set()
        self._kept: dict[Node, Bucket] = {}

    @property
    def erased(self) -> str:
        """SHA-256 of the record of erased rows that it obeys; empty where there is none."""
        return self._listed.erased

    @property
    def archive(self) -> ModelConfig:
        """By what buckets are made."""
        return self.identity.config

    @property
    def first_time_ms(self) -> int:
        """Of the oldest archived row; -1 if none has a time."""
        times = [node.first_time_ms for nodes in self._nodes.values() for node in nodes if node.first_time_ms >= 0]
        return min(times, default=-1)

    @property
    def last_time_ms(self) -> int:
        """Of the newest archived row; -1 if none has a time."""
        return max((node.last_time_ms for nodes in self._nodes.values() for node in nodes), default=-1)

    def take(self, request: RangeRequest) -> BuiltRange:
        """Return everything that a stretch is made of.

        Raises
        ------
        ConfigurationError
            If it names partitions that do not exist.
        TransientError
            If the broker does not answer.
        Recreated
            If the input was deleted and made again meanwhile.
        """
        found = BuiltRange()
        ranges = self._ranges(request, found)
        with (
            one_algebra_thread(),
            Ranges(
                self._cluster,
                self.identity.topic,
                self.identity.topic_id,
                self.config,
                self._timeout_s,
                self._schemas,
                self._forgotten,
            ) as reader,
        ):
            for partition in sorted(ranges):
                for start, end in ranges[partition]:
                    self._take(partition, start, end, found, reader)
            found.rows_read = reader.rows_read
        return found

    def _ranges(self, request: RangeRequest, found: BuiltRange) -> dict[int, list[Range]]:
        """Return what is requested, in positions."""
        chosen = self._partitions(request)
        since = self._positions(request.since, chosen, found, up=True)
        until = self._positions(request.until, chosen, found, up=False, at_end=True)
        holes = [
            (self._positions(first, chosen, found, up=False), self._positions(last, chosen, found, up=True))
            for first, last in request.holes
        ]
        ranges = {}
        for partition in chosen:
            whole = [(since[partition], until[partition])] if since[partition] < until[partition] else []
            ranges[partition] = without(whole, [(first[partition], last[partition]) for first, last in holes])
        return ranges

    def _partitions(self, request: RangeRequest) -> list[int]:
        there = sorted(self._nodes.keys() | self._log.keys() | self.identity.base.keys())
        if request.partitions is None:
            return there
        if unknown := sorted(request.partitions.difference(there)):
            raise ConfigurationError(
                f"{self.identity.topic} has no partition {unknown[0]}",
                f"Name some of its partitions, {there[0]} to {there[-1]}, with --where.",
            )
        return sorted(request.partitions)

    def _positions(
        self, time: datetime | None, partitions: Sequence[int], found: BuiltRange, *, up: bool, at_end: bool = False
    ) -> dict[int, Position]:
        """Return where the first record of a time or later stands in each partition.

        Where only a span is known, the side is taken on which nothing that was not asked for gets in.
        """
        if time is None:
            return {
                partition: self._end(partition) if at_end else self._beginning(partition) for partition in partitions
            }
        time_ms = round(time.timestamp() * 1e3)
        logged = [partition for partition in partitions if partition in self._log]
        starts = self._cluster.starts(self.identity.topic, logged, time) if logged else {}
        return {
            partition: self._position(time, time_ms, partition, starts.get(partition), found, up=up)
            for partition in partitions
        }

    def _position(
        self, time: datetime, time_ms: int, partition: int, start: int | None, found: BuiltRange, *, up: bool
    ) -> Position:
        own = spans(self._nodes.get(partition, []))
        place = before(own, time_ms)
        if place is None:  # after all that is archived
            last = own[-1].end if own else self._beginning(partition)
            return max(last, Position(start or 0))
        span, earlier = own[place], own[place - 1].end if place else self._beginning(partition)
        if start is not None and self._log[partition][0] <= earlier.offset:
            return max(earlier, Position(start))
        if earlier == span.start and span.first_time_ms >= time_ms:
            return span.start
        found.exact = False
        self._say(
            f"partition {partition}: the log no longer holds the offsets {earlier.offset:,} to {span.end.offset:,}, "
            f"among which {time:%Y-%m-%d %H:%M:%S %Z} lies: all of them are left out"
        )
        return span.end if up else earlier

    def _beginning(self, partition: int) -> Position:
        starts = [node.start for node in self._nodes.get(partition, [])]
        base = self.identity.base.get(partition)
        logged = self._log.get(partition)
        if base is not None and (logged is None or logged[0] <= base.offset):
            starts.append(base)
        elif logged is not None and base is None:
            starts.append(Position(logged[0]))
        return min(starts, default=base or Position(0))

    def _end(self, partition: int) -> Position:
        ends = [node.end for node in self._nodes.get(partition, [])]
        if partition in self._log:
            ends.append(Position(self._log[partition][1]))
        return max(ends, default=Position(0))

    def _take(self, partition: int, start: Position, end: Position, found: BuiltRange, reader: Ranges) -> None:
        """Add the parts of one range; a bucket that is damaged is named, and made of others or of the log instead."""
        at = start
        while at < end:
            sound = [node for node in self._nodes.get(partition, []) if node not in self._damaged]
            for step in cover(sound, at, end):
                if isinstance(step, Read):
                    self._take_read(partition, step, found, reader)
                elif not self._take_node(step, found):
                    break
                at = step.end

    def _take_node(self, node: Node, found: BuiltRange) -> bool:
        try:
            bucket = self._kept.get(node) or self._store.read(node)
        except CorruptCheckpoint as error:
            self._say(f"{node.name} in the archive {self._store} is not used: {error.what}")
            self._damaged.add(node)
            return False
        self._kept[node] = bucket
        found.bytes_read += self._store.size(node)
        found.pieces.setdefault(node.partition, []).append(Piece.of(bucket))
        found.parts.append(
            BuiltOf(
                partition=node.partition,
                start=(node.start.offset, node.start.row),
                end=(node.end.offset, node.end.row),
                level=node.level,
                first_row=node.first_row(self.archive.coreset.span_rows or 1),
                sha256=node.sha256,
            )
        )
        return True

    def _take_read(self, partition: int, step: Read, found: BuiltRange, reader: Ranges) -> None:
        first, last = self._log.get(partition, (0, 0))
        if partition not in self._log or first > step.start.offset or step.end.offset > last:
            found.exact = False
            self._say(
                f"partition {partition}: the rows from offset {step.start.offset:,} to {step.end.offset:,} are left "
                "out: neither the archive nor the log holds them"
            )
            return
        own = learned(reader, partition, step.start, step.end, self.archive)
        pieces = [piece for piece in own.pieces() if piece.extent.rows]
        if pieces:
            found.pieces.setdefault(partition, []).extend(own.pieces())
            found.parts.append(
                BuiltOf(
                    partition=partition,
                    start=(step.start.offset, step.start.row),
                    end=(own.position.offset, own.position.row),
                    level=0,
                    first_row=0,
                    sha256="",
                )
            )

    def forgotten(self, found: BuiltRange) -> tuple[tuple[int, int, int], ...]:
        """Return the rows of a stretch's parts that it is not of, because they were forgotten."""
        return tuple(
            (partition, at.offset, at.row)
            for partition, own in sorted(self._forgotten.items())
            for at in sorted(own)
            if any(part.partition == partition and part.start <= at < part.end for part in found.parts)
        )

    def made(self, found: BuiltRange) -> Made:
        """Return the machine of a stretch.

        Raises
        ------
        StateError
            If it has no point.
        """
        if not found.points:
            raise StateError("the stretch holds no valid point", "Choose a longer one; see streamsvm history show.")
        return made_of(found.pieces, self.config, self.archive)


def publish_built(
    connection: Connection,
    target: Settings,
    builder: Builder,
    request: RangeRequest,
    found: BuiltRange,
    made: Made,
    by: str,
) -> Publication:
    """Publish a model of a stretch under a name of its own.

    Parameters
    ----------
    connection : Connection
    target : Settings
        With that name.
    builder : Builder
    request : RangeRequest
    found : BuiltRange
    made : Made
    by : str
        Who asks, for the audit trail.
    """
    config, archive, identity = builder.config, builder.archive.coreset, builder.identity
    assert archive.span_rows is not None
    built = Built(
        model=identity.name,
        erased=builder.erased,
        parts=tuple(found.parts),
        leaf_rows=archive.leaf_rows,
        span_rows=archive.span_rows,
        bucket_points=archive.bucket_points,
        since_ms=_milliseconds(request.since),
        until_ms=_milliseconds(request.until),
        without_ms=tuple((_ms(first), _ms(last)) for first, last in request.holes),
        exact=found.exact,
        forgotten=builder.forgotten(found),
    )

    def make(delivery: Delivery) -> tuple[Version, Made]:
        origin = Origin(
            name=target.name,
            number=delivery.next_number,
            parent=delivery.parent,
            links=tuple(Ancestor(link.number, link.sha256) for link in delivery.links),
            topic=identity.topic,
            topic_id=identity.topic_id,
            base={partition: pieces[0].extent.start for partition, pieces in found.pieces.items()},
            build=build(),
            facts=(built,),
        )
        return version_of(made, config, origin), made

    beside.require_own_name(connection, target)
    return beside.publish(connection, target, SESSION, make, by)


def steps_of(since: datetime, until: datetime, every: float) -> list[tuple[datetime, datetime]]:
    """Return stretches of so many seconds that follow one another; the last one may be shorter."""
    borders, at = [], since.timestamp()
    while at < until.timestamp():
        borders.append(datetime.fromtimestamp(at, UTC))
        at += every
    return list(pairwise([*borders, until]))


def archive_store(directory: Path) -> Store:
    """Return an archive to read, which its trainer may be writing."""
    return Store(FileSystem(directory, what="archive", option="--archive-directory"))


def as_plain(made: Made, names: Sequence[str]) -> Mapping[str, float]:
    """Return intercept and coefficients of a linear machine on raw features, by name.

    Raises
    ------
    ConfigurationError
        If the machine is not linear.
    """
    machine, scaler = made.trained.model.machine, made.trained.model.scaler
    require({"--every": True, "svm.kernel": "linear" if isinstance(machine, LinearMachine) else "rbf"})
    assert isinstance(machine, LinearMachine)
    raw = machine.coefficients / scaler.scale
    named = names or [f"x[{index}]" for index in range(len(raw))]
    return {"intercept": machine.intercept - float(raw @ scaler.mean), **dict(zip(named, map(float, raw), strict=True))}


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else _ms(time)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1e3)


def _identity_of(store: Store, loaded: Loaded, config: ModelConfig) -> Identity:
    version, lineage = loaded.version, loaded.version.lineage
    identity = store.identity()
    if identity is None:
        raise ConfigurationError(
            f"nothing is archived in {store}",
            "Give the trainer's archive.directory, with --archive-directory or --config.",
        )
    sizes = identity.config.coreset
    again = archived(config, leaf_rows=sizes.leaf_rows, span_rows=sizes.span_rows, bucket_points=sizes.bucket_points)
    theirs = (identity.topic, identity.topic_id, identity.config.sha256())
    if theirs != (lineage.topic, lineage.topic_id, again.sha256()):
        raise ConfigurationError(
            f"the archive {store} is of {identity.name}, and its input, features or options are not those of "
            f"{version.key}",
            "Name the archive's own model with --name.",
        )
    return identity


def log_of(cluster: Cluster, identity: Identity) -> Log:
    """Return what the log holds; nothing where its topic is gone, or another one by now."""
    try:
        described = cluster.describe(identity.topic)
    except TopicMissing:
        return {}
    if (described.topic_id or "") != identity.topic_id:
        return {}
    return {partition: cluster.log_range(identity.topic, partition) for partition in described.partitions}
