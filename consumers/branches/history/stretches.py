"""Ranges of the input read again, and the versions that are built of them and of archived buckets.

Invariant: what a version of a stretch is follows from its lineage and the log alone: every part is made again from its
own rows, whether or not there is an archive.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import msgspec

from consumers.streams.identity import TopicIdentity
from streamsvm.branches.history.built_part import Built, BuiltOf
from streamsvm.branches.history.forgotten import Forgotten
from streamsvm.branches.history.recorder import Recorder
from streamsvm.branches.history.stretches import Piece, SpanPartition, archived, cut_of
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.config import ModelConfig
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, OffsetOutOfRange, Recreated, SchemaRegistry
from streamsvm.learning.recipe import Made, Origin, make, version_of
from streamsvm.model import message as model_codec
from streamsvm.model.left_out import masked
from streamsvm.model.version import Lineage, Version
from streamsvm.points import Position, Rows
from streamsvm.process_wide import one_algebra_thread
from streamsvm.verification.recomputation import NotRecomputable, configuration_of

BATCH_RECORDS: Final = 4_000
POLL_S: Final = 0.1

Log = Mapping[int, tuple[int, int]]
"""First offset and end of each partition."""


class ReadsRanges(Protocol):
    """What reads rows of a log, as `Ranges` does."""

    forgotten: Forgotten
    rows_read: int

    def rows(self, partition: int, start: Position, end: Position) -> Iterator[Rows]:
        """Yield the rows of a range that the log holds, in order."""
        ...


class Ranges:
    """Reads any ranges of one topic, one after the other.

    Parameters
    ----------
    cluster : Cluster
    topic, topic_id : str
        The id is empty where the broker gives none.
    config : ModelConfig
        By which records are decoded.
    timeout_s : float
        Seconds to wait without progress.
    schemas : SchemaRegistry, optional
    forgotten : mapping of partition to positions, optional
        Rows that are read as rejected ones.

    Attributes
    ----------
    rows_read : int
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        topic_id: str,
        config: ModelConfig,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,
        forgotten: Forgotten | None = None,
    ) -> None:
        self.forgotten: Forgotten = forgotten or {}
        self._topic, self._timeout_s = topic, timeout_s
        labeled = config.label_rule is None  # else labels are of a log of their own
        self._decoder = PointDecoder(config.points, labeled=labeled, schemas=schemas, recipe=config.recipe)
        self._input = cluster.input(topic, None)
        self._identity = TopicIdentity(cluster, topic, topic_id, {}, remedy="What is of the old topic stays as it is.")
        self.rows_read = 0

    def __enter__(self) -> Ranges:
        return self

    def __exit__(self, *exception: object) -> None:
        self._input.close()

    def rows(self, partition: int, start: Position, end: Position) -> Iterator[Rows]:
        """Yield the rows of a range that the log holds, in order.

        Raises
        ------
        OffsetOutOfRange
            If the log no longer holds its beginning.
        TransientError
            If nothing came in time.
        Recreated
            If the topic is another one by now; no row of it is yielded.
        """
        if end <= start:
            return
        self._input.assign({partition: start.offset})
        since = time.monotonic()
        while True:
            records = self._input.poll(BATCH_RECORDS, POLL_S)
            if records:
                self._identity.confirm(records.ends())
            for rows in self._decoder.decode(records).rows:
                since = time.monotonic()
                first, stop = rows.index_of(start), rows.index_of(end)
                if first < stop:
                    self.rows_read += stop - first
                    yield masked(rows.slice(first, stop), self.forgotten)
                if stop < len(rows) or rows.position_after(len(rows) - 1) >= end:
                    return
            met = self._input.seen_end(partition)
            if met is not None and met >= end.offset:
                return
            if time.monotonic() - since > self._timeout_s:
                raise TransientError(
                    f"{self._topic}[{partition}] returned no records up to offset {end.offset} within "
                    f"{self._timeout_s:g} s",
                    "Check that the broker runs and that no transaction is open there, and try again.",
                )


def learned(ranges: Ranges, partition: int, start: Position, end: Position, archive: ModelConfig) -> SpanPartition:
    """Return the rows of a range, learned by themselves."""
    made = SpanPartition(partition, start, archive)
    for rows in ranges.rows(partition, start, end):
        made.learn(rows)
    return made


def recorded(ranges: Ranges, part: BuiltOf, archive: ModelConfig) -> Bucket | None:
    """Return the bucket that the rows of a part become; None if they become another, or none."""
    start, end = Position(*part.start), Position(*part.end)
    if part.first_row % (archive.coreset.span_rows or 1):
        return None
    recorder = Recorder(part.partition, start, archive, start, part.first_row)
    found: Bucket | None = None
    for rows in ranges.rows(part.partition, start, end):
        for bucket in recorder.learn(rows):
            found = bucket
    whole = found is not None and (found.extent.start, found.extent.end, found.level) == (start, end, part.level)
    return found if whole else None


def archive_of(built: Built, config: ModelConfig) -> ModelConfig:
    """Return by what the parts of a version were made.

    Raises
    ------
    NotRecomputable
        If no archive has such sizes.
    """
    try:
        return archived(config, leaf_rows=built.leaf_rows, span_rows=built.span_rows, bucket_points=built.bucket_points)
    except ValueError as error:
        raise NotRecomputable(f"no archive makes such parts: {str(error).splitlines()[0]}") from None


def forgotten_of(built: Built) -> dict[int, set[Position]]:
    """Return the rows of a version's parts that it is not of."""
    found: dict[int, set[Position]] = {}
    for partition, offset, row in built.forgotten:
        found.setdefault(partition, set()).add(Position(offset, row))
    return found


def made_of(pieces: Mapping[int, list[Piece]], config: ModelConfig, archive: ModelConfig) -> Made:
    """Return what is trained on a stretch."""
    with one_algebra_thread():
        return make(cut_of(pieces, config, archive), config)


def rebuilt(
    cluster: Cluster,
    version: Version,
    lineage: Lineage,
    topic_id: str | None,
    log: Log,
    timeout_s: float,
    schemas: SchemaRegistry | None,
) -> tuple[bytes, int]:
    """Return the value that a version of a stretch must have, every part made again from the log, and the rows read.

    Parameters
    ----------
    cluster : Cluster
    version : Version
    lineage : Lineage
        What names its predecessors.
    topic_id : str or None
        Of the input now; None where there is none.
    log : mapping of partition to (int, int)
    timeout_s : float
    schemas : SchemaRegistry, optional

    Raises
    ------
    NotRecomputable
        If the log does not hold its rows.
    """
    built, own = version.lineage.fact(Built), version.lineage
    assert built is not None
    if topic_id is None or topic_id != own.topic_id:
        state = "no longer exists" if topic_id is None else "was recreated"
        raise NotRecomputable(f"the topic {own.topic} {state}: the version can be built again from its archive only")
    for part in built.parts:
        first, end = log.get(part.partition, (0, -1))
        if first > part.start[0] or part.end[0] > end:
            raise NotRecomputable(
                f"{own.topic}[{part.partition}] no longer holds the offsets {part.start[0]:,} to {part.end[0]:,}: the "
                "version can be built again from its archive only"
            )
    config = configuration_of(own)
    archive = archive_of(built, config)
    pieces, parts = dict[int, list[Piece]](), list[BuiltOf]()
    forgotten = forgotten_of(built)
    with one_algebra_thread(), Ranges(cluster, own.topic, topic_id, config, timeout_s, schemas, forgotten) as ranges:
        try:
            for part in built.parts:
                found, named = _made_again(ranges, part, archive)
                pieces.setdefault(part.partition, []).extend(found)
                parts.append(named)
        except (OffsetOutOfRange, Recreated) as error:
            raise NotRecomputable(error.what) from None
        read = ranges.rows_read
    made = made_of(pieces, config, archive)
    origin = Origin(
        name=version.name,
        number=version.number,
        parent=lineage.parent,
        links=lineage.links,
        topic=own.topic,
        topic_id=topic_id,
        base={partition: found[0].extent.start for partition, found in pieces.items()},
        build=own.build,
        facts=(msgspec.structs.replace(built, parts=tuple(parts)),),
    )
    return model_codec.encode(version_of(made, config, origin)), read


def _made_again(ranges: Ranges, part: BuiltOf, archive: ModelConfig) -> tuple[list[Piece], BuiltOf]:
    """Return a part made again, and what it is named then."""
    if not part.level:
        own = learned(ranges, part.partition, Position(*part.start), Position(*part.end), archive)
        return own.pieces(), msgspec.structs.replace(part, end=tuple(own.position))
    bucket = recorded(ranges, part, archive)
    if bucket is None:
        raise NotRecomputable(
            f"the rows of partition {part.partition}, offsets {part.start[0]:,} to {part.end[0]:,}, make no bucket of "
            f"level {part.level}: records in between were removed; an input topic must not be compacted"
        )
    return [Piece.of(bucket)], msgspec.structs.replace(part, sha256=encode_bucket(bucket).name.sha256)
