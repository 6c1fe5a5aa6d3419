"""The input of versions, gone through again: one learner at a time, brought from cut to cut.

Invariant: nothing is written, and nothing is needed from the publisher. Of the input a bounded backlog is in memory;
for a certificate as many rows as who asks wants to keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from consumers.streams.identity import TopicIdentity
from consumers.verify.source import InputSource, ReplaySource
from consumers.verify.verifier import Verifier, left_out_of
from streamsvm.certificate import Certificate, Certifier
from streamsvm.errors import LogGap, TopicMissing
from streamsvm.kafka import Cluster, OffsetOutOfRange, SchemaRegistry
from streamsvm.model.left_out import Places
from streamsvm.model.version import Lineage, Version
from streamsvm.verification.recomputation import NotRecomputable, OtherLog, Recomputation, missing_input


class Replayed:
    """The input topics, gone through again incarnation by incarnation.

    Parameters
    ----------
    cluster : Cluster
    timeout_s : float
    schemas : SchemaRegistry, optional
    verifiers : sequence of Verifier
        Of branches.
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
        self._source: ReplaySource | None = None
        self._learned_before = 0
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

        Raises
        ------
        NotRecomputable
            If the log does not hold its input, or this build cannot run its configuration.
        """
        recomputation = self._advanced(version, certifier)
        return recomputation.encoded(recomputation.made(version), version, lineage, self.facts(version))

    def facts(self, version: Version) -> tuple[msgspec.Struct, ...]:
        """Return what a version that a trainer published must say of where it comes from, by what branches know."""
        return tuple(fact for verifier in self._verifiers for fact in verifier.facts(version))

    def _read(self, version: Version, certifier: Certifier) -> Certificate:
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
        certificate = self._read(version, certifier) if present is None else self._proven(present, certifier)
        while not (certifier.done or certificate.reads >= reads):
            try:
                certificate = self._read(version, certifier)
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
            while (changed_at := recomputation.change_cut(version)) is not None:
                source.advance(recomputation, changed_at)
                recomputation.change(version)
                source.close()
                self._source = source = self._source_of(version, recomputation)
            tuned_at = recomputation.tuning_cut(version)
            if tuned_at is not None:
                source.advance(recomputation, tuned_at)
                recomputation.tune(version)
            source.advance(recomputation, recomputation.aim(version))
            self._confirm(version, recomputation.others)
        except (OffsetOutOfRange, LogGap) as error:
            self._drop()
            self._forget(
                version, recomputation.others
            )  # retention went on meanwhile: ask again before the next version
            raise NotRecomputable(error.what) from None
        return recomputation

    def _opened(self, version: Version, certifier: Certifier | None) -> tuple[Recomputation, ReplaySource]:
        """Return the learner that this version can be reached with; a new one if the present one cannot."""
        topic = version.lineage.topic
        self._look(topic)
        others = tuple(filter(None, (verifier.other_log(version) for verifier in self._verifiers)))
        missing = missing_input(version, self._ids[topic], self._logs[topic]) or self._missing(version, others)
        if missing:
            raise NotRecomputable(missing)
        without = left_out_of(self._verifiers, version)
        present = None if certifier is not None else self._recomputation  # a certifier sees all rows, or none
        same = present is not None and present.admits(version, others) and without == self._without
        if present is not None and self._source is not None and same:
            return present, self._source
        self._drop()
        self._without = without
        self._recomputation = Recomputation(version, self._ids[topic] or "", self._logs[topic], certifier, others)
        self._source = self._source_of(version, self._recomputation)
        return self._recomputation, self._source

    def _source_of(self, version: Version, recomputation: Recomputation) -> ReplaySource:
        own = [verifier.source(version, recomputation, self._without) for verifier in self._verifiers]
        found = next(filter(None, own), None)
        if found is not None:
            return found
        return InputSource(self._cluster, recomputation, self._timeout_s, self._schemas, self._without)

    def _missing(self, version: Version, others: Sequence[OtherLog]) -> str:
        """Return which part of what a version was made from the logs beside its input do not hold, or nothing."""
        for log in others:
            self._look(log.topic)
            if said := log.missing(version, self._ids[log.topic], self._logs[log.topic]):
                return said
        return ""

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

    def _confirm(self, version: Version, others: Sequence[OtherLog]) -> None:
        """Return if what was read of a version's topics is of the requested ones."""
        cut = version.lineage.cut
        self._topics[version.lineage.topic].confirm({part.partition: part.offset for part in cut})
        for log in others:
            self._topics[log.topic].confirm({})

    def _forget(self, version: Version, others: Sequence[OtherLog]) -> None:
        for topic in (version.lineage.topic, *(log.topic for log in others)):
            self._ids.pop(topic)

    def _drop(self) -> None:
        if self._recomputation is not None:
            self._learned_before += self._recomputation.input_rows
        if self._source is not None:
            self._source.close()
        self._recomputation = self._source = None
