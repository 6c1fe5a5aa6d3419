"""The input of versions, gone through again: one learner at a time, brought from cut to cut.

Invariant: nothing is written, and nothing is needed of whoever published. Of the input a bounded backlog is held; for a
certificate as many rows as who asks wants to keep, for a version of a branch as many as its lineage says.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Final

from consumers.branches.late_labels.joined_source import JoinedSource
from consumers.streams.identity import TopicIdentity
from consumers.verify.verifier import Verifier, left_out_of
from streamsvm.certificate.certifying import Certificate, Certifier
from streamsvm.errors import LogGap, TopicMissing, TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, OffsetOutOfRange, SchemaRegistry
from streamsvm.learning.recipe import Made
from streamsvm.learning.training import limited
from streamsvm.model.left_out import Places, masked
from streamsvm.model.version import Lineage, Version
from streamsvm.points import Position, Positions, Rows
from streamsvm.verification.recomputation import (
    NotRecomputable,
    Recomputation,
    missing_input,
    missing_labels,
)

BATCH_RECORDS: Final = 1_000
POLL_S: Final = 0.1
BACKLOG_BYTES: Final = 64 << 20
"""Decoded rows that wait because other partitions must come first; beyond it only those others are read."""


class Replayed:
    """The input topics, gone through again incarnation by incarnation.

    Parameters
    ----------
    cluster : Cluster
    timeout_s : float
    schemas : SchemaRegistry, optional
    verifiers : sequence of Verifier
        Of branches.

    Attributes
    ----------
    last : Made or None
        What the version whose value was returned last is of; None where a branch made it of something else.
    """

    def __init__(
        self,
        cluster: Cluster,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,
        verifiers: Sequence[Verifier] = (),
    ) -> None:
        self._cluster = cluster
        self._verifiers = verifiers
        self._without: Places = {}
        self._schemas = schemas
        self._timeout_s = timeout_s
        self._recomputation: Recomputation | None = None
        self._source: _Source | None = None
        self._threads = ExitStack()
        self._learned_before = 0
        self.last: Made | None = None
        self._ids: dict[str, str | None] = {}
        self._logs: dict[str, dict[int, tuple[int, int]]] = {}
        self._topics: dict[str, TopicIdentity] = {}

    def __enter__(self) -> Replayed:
        return self

    def __exit__(self, *exception: object) -> None:
        self._drop()

    @property
    def input_rows(self) -> int:
        """Rows learned, over all incarnations."""
        return self._learned_before + (self._recomputation.input_rows if self._recomputation else 0)

    def value(self, version: Version, lineage: Lineage, certifier: Certifier | None = None) -> bytes:
        """Return the value that a version must have; a certifier, if one is given, sees all of its rows but the open.

        Of a version that no trainer publishes, a branch says so, and no certifier looks.

        Raises
        ------
        NotRecomputable
            If the log does not hold its input, or this build cannot run its configuration.
        """
        self.last = None
        for verifier in self._verifiers:
            found = verifier.value(version, lineage, self)
            if found is not None:
                return found
        recomputation = self._advanced(version, certifier)
        self.last = recomputation.made(version)
        return recomputation.encoded(self.last, version, lineage)

    def log_of(self, topic: str) -> tuple[str | None, Mapping[int, tuple[int, int]]]:
        """Return the id of a topic, None where there is none, and what its log holds of each partition."""
        self._look(topic)
        return self._ids[topic], self._logs[topic]

    def count(self, rows: int) -> None:
        """Count rows that somebody else learned for a version."""
        self._learned_before += rows

    def made(self, version: Version) -> tuple[Recomputation, Made]:
        """Return everything that a version's cut gives, and what names it."""
        recomputation = self._advanced(version, None)
        made = recomputation.made(version)
        self._drop()
        return recomputation, made

    def read(self, version: Version, certifier: Certifier) -> Certificate:
        """Let a certifier see all rows of a version, and return what they prove.

        Raises
        ------
        NotRecomputable
            If the log does not hold its input.
        """
        recomputation = self._advanced(version, certifier)
        recomputation.require_all(version)
        return self._proven(recomputation, certifier)

    def certificate(self, version: Version, certifier: Certifier, reads: int) -> Certificate:
        """Return the certificate of the version whose value was just returned, by so many reads at most.

        If the log loses its input meanwhile: what was proven before.
        """
        present = self._recomputation
        certificate = self.read(version, certifier) if present is None else self._proven(present, certifier)
        while not (certifier.done or certificate.reads >= reads):
            try:
                certificate = self.read(version, certifier)
            except NotRecomputable:
                break
        return certificate

    def _proven(self, recomputation: Recomputation, certifier: Certifier) -> Certificate:
        recomputation.show_open()
        certificate = certifier.certificate()
        self._drop()
        return certificate

    def _advanced(self, version: Version, certifier: Certifier | None) -> Recomputation:
        """Return a learner that stands at a version's cut."""
        recomputation, source = self._opened(version, certifier)
        try:
            tuned_at = recomputation.tuning_cut(version)
            if tuned_at is not None:
                source.advance(recomputation, tuned_at)
                recomputation.tune(version)
            source.advance(recomputation, recomputation.aim(version))
            self._confirm(version)
        except (OffsetOutOfRange, LogGap) as error:
            self._drop()
            self._forget(version)  # retention went on meanwhile: ask again before the next version
            raise NotRecomputable(error.what) from None
        return recomputation

    def _opened(self, version: Version, certifier: Certifier | None) -> tuple[Recomputation, _Source]:
        """Return the learner that this version can be reached with; a new one if the present one cannot."""
        topic = version.lineage.topic
        self._look(topic)
        missing = missing_input(version, self._ids[topic], self._logs[topic]) or self._missing_labels(version)
        if missing:
            raise NotRecomputable(missing)
        without = left_out_of(self._verifiers, version)
        present = None if certifier is not None else self._recomputation  # a certifier sees all rows, or none
        same = present is not None and present.admits(version) and without == self._without
        if present is not None and self._source is not None and same:
            return present, self._source
        self._drop()
        self._without = without
        self._recomputation = Recomputation(version, self._ids[topic] or "", self._logs[topic], certifier)
        self._threads.enter_context(limited(self._recomputation.config.svm))
        if self._recomputation.labels is not None:
            self._source = _Joined(self._cluster, self._recomputation, self._timeout_s)
        else:
            self._source = _Source(self._cluster, self._recomputation, self._timeout_s, self._schemas, without)
        return self._recomputation, self._source

    def _missing_labels(self, version: Version) -> str:
        labels = version.lineage.labels
        if labels is None:
            return ""
        self._look(labels.topic)
        return missing_labels(version, self._ids[labels.topic], self._logs[labels.topic])

    def _look(self, topic: str) -> None:
        """Ask the broker once what there is of a topic."""
        if topic in self._ids:
            return
        try:
            described = self._cluster.describe(topic)
        except TopicMissing:
            self._ids[topic], self._logs[topic] = None, {}
            return
        self._ids[topic] = described.topic_id or ""
        self._topics[topic] = TopicIdentity(self._cluster, topic, described.topic_id or "", {})
        self._logs[topic] = {p: self._cluster.log_range(topic, p) for p in described.partitions}

    def _confirm(self, version: Version) -> None:
        """Return if what was read of a version's topics is of the ones that were asked for."""
        cut, labels = version.lineage.cut, version.lineage.labels
        self._topics[version.lineage.topic].confirm({part.partition: part.offset for part in cut})
        if labels is not None:
            self._topics[labels.topic].confirm({})

    def _forget(self, version: Version) -> None:
        labels = version.lineage.labels
        self._ids.pop(version.lineage.topic)
        if labels is not None:
            self._ids.pop(labels.topic)

    def _drop(self) -> None:
        if self._recomputation is not None:
            self._learned_before += self._recomputation.input_rows
        if self._source is not None:
            self._source.close()
        self._threads.close()
        self._recomputation = self._source = None


class _Source:
    """Reads one input topic and brings a learner from cut to cut.

    Parameters
    ----------
    cluster : Cluster
    recomputation : Recomputation
    timeout_s : float
    schemas : SchemaRegistry, optional
    without : mapping of partition to positions
        Rows that are learned as rejected ones.
    """

    def __init__(
        self,
        cluster: Cluster,
        recomputation: Recomputation,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,
        without: Places = MappingProxyType({}),
    ) -> None:
        self._without = without
        self._timeout_s = timeout_s
        self._topic = recomputation.topic
        self._decoder = PointDecoder(recomputation.config.points, schemas=schemas, recipe=recomputation.config.features)
        self._input = cluster.input(self._topic, None)
        self._assigned: frozenset[int] = frozenset()
        self._backlog: dict[int, deque[Rows]] = {}

    def close(self) -> None:
        """Let go of the broker."""
        self._input.close()

    def advance(self, recomputation: Recomputation, cut: Positions) -> None:
        """Learn each partition up to its part of a cut.

        Raises
        ------
        OffsetOutOfRange
            If the log no longer holds what is needed.
        TransientError
            If nothing came in time.
        """
        since = time.monotonic()
        while behind := self._behind(recomputation.positions, cut):
            if any(self._learn(recomputation, partition, cut[partition]) for partition in behind):
                since = time.monotonic()
            elif time.monotonic() - since > self._timeout_s:
                raise self._stuck(behind, cut)
            else:
                self._read(behind, recomputation.positions)

    def _behind(self, positions: Positions, cut: Positions) -> dict[int, Position]:
        """Return the partitions that a cut has not been reached in, nor passed because its last record is gone."""
        return {
            partition: at
            for partition, at in positions.items()
            if at < cut[partition]
            and not ((waiting := self._backlog.get(partition)) and waiting[0].index_of(cut[partition]) == 0)
        }

    def _learn(self, recomputation: Recomputation, partition: int, until: Position) -> bool:
        """Learn what waits of a partition up to its part of a cut; tell whether there was anything."""
        waiting = self._backlog.get(partition)
        if not waiting:
            return False
        while waiting:
            rest = recomputation.learn(waiting.popleft(), until)
            if len(rest):
                waiting.appendleft(rest)
                break
        return True

    def _read(self, behind: Positions, positions: Positions) -> None:
        """Read on: all partitions, or only those that are behind where too much of the others waits already."""
        held = sum(rows.points.nbytes for waiting in self._backlog.values() for rows in waiting)
        if held > BACKLOG_BYTES:
            self._assign(behind)
        elif not behind.keys() <= self._assigned:
            self._assign(positions)
        for rows in self._decoder.decode(self._input.poll(BATCH_RECORDS, POLL_S)).rows:
            self._backlog.setdefault(rows.partition, deque()).append(masked(rows, self._without))

    def _assign(self, positions: Positions) -> None:
        self._input.assign({partition: at.offset for partition, at in positions.items()})
        self._assigned = frozenset(positions)
        self._backlog = {}

    def _stuck(self, behind: Positions, cut: Positions) -> TransientError:
        partition, at = next(iter(sorted(behind.items())))
        return TransientError(
            f"{self._topic}[{partition}] returned no records from offset {at.offset} to {cut[partition].offset} "
            f"within {self._timeout_s:g} s",
            "Check that the broker runs and that no transaction is open there, and try again.",
        )


class _Joined(_Source):
    """Joins the two logs of a version again, from where they began; parameters as of `_Source`."""

    def __init__(self, cluster: Cluster, recomputation: Recomputation, timeout_s: float) -> None:
        assert recomputation.labels is not None
        self._timeout_s = timeout_s
        self._topic = recomputation.topic
        self._backlog = {}
        self._source = JoinedSource(
            cluster,
            recomputation.config,
            features=recomputation.topic,
            labels=recomputation.labels.topic,
            group=None,
            most_rows=sys.maxsize,
        )
        self._source.begin(recomputation.positions, recomputation.labels.base)

    def close(self) -> None:
        """Let go of the broker."""
        self._source.close()

    def _read(self, behind: Positions, positions: Positions) -> None:  # noqa: ARG002
        """Join what is at hand of the partitions that are behind; where nothing is, read on."""
        joined = self._source.join(behind.keys())
        for partition, rows, _ in joined:
            if rows is not None:
                self._backlog.setdefault(partition, deque()).append(rows)
        if not joined:
            self._source.read(BATCH_RECORDS, POLL_S)
