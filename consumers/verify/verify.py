"""`streamsvm verify`: reads the models topic and the input again, and has every version recomputed.

Invariant: it only reads, and needs nothing of whoever published: no checkpoint, no configuration but the lineage's. Of
the models it holds one at a time, of the input one learner and a bounded backlog; an incarnation's input is read once
for all of its versions.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from consumers.host.runtime import schemas_of
from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.build import build
from streamsvm.certificate.certifying import Certificate, Certifier
from streamsvm.errors import ConfigurationError, TopicMissing, TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, OffsetOutOfRange, Record, SchemaRegistry
from streamsvm.learning.training import limited
from streamsvm.model.message import format_of
from streamsvm.model.version import Lineage, Version, version_number
from streamsvm.points import Position, Positions, Rows
from streamsvm.registry.aliases import Aliases, read_aliases
from streamsvm.verification.auditor import Auditor, incarnation_in
from streamsvm.verification.differences import differences
from streamsvm.verification.names import alias_faults
from streamsvm.verification.recomputation import NotRecomputable, Recomputation, certifier_of, missing_input
from streamsvm.verification.report import Report
from streamsvm.verification.survey import VersionSurvey

BATCH_RECORDS: Final = 1_000
POLL_S: Final = 0.1
BACKLOG_BYTES: Final = 64 << 20
"""Decoded rows that wait because other partitions must come first; beyond it only those others are read."""

ShowProgress = Callable[[int, int], None]
"""Takes the versions done and those there are."""


def verify(
    cluster: Cluster,
    settings: Settings,
    *,
    number: int | None = None,
    keep: int = 0,
    reads: int = 1,
    progress: ShowProgress | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> Report:
    """Recompute published versions from the log, and check their place in the models topic.

    A trainer may be running: what it publishes after this began reading is left out.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
        Only `name` and `output` are looked at.
    number : int, optional
        The one version to recompute; the places of all are checked anyway. Default: all.
    keep : int
        Rows to keep for a certificate of the one version, by default the newest; 0: none is asked for. A version that
        differs from its recomputation has none.
    reads : int
        How often the input is read for the certificate at most: more prove more where one is not enough.
    progress : callable, optional
        Called after each version.
    timeout_s : float
        Seconds to wait without progress.

    Raises
    ------
    ConfigurationError
        If there is no such version, or none at all, or, as `TopicMissing`, no models topic; or if the version cannot
        have a certificate.
    TransientError
        If the broker does not answer, or a transaction stays open.
    """
    begun = time.monotonic()
    before = read_aliases(cluster, settings.name, settings.output.aliases_topic, timeout_s)
    survey = _surveyed(cluster, settings, timeout_s)
    after = read_aliases(cluster, settings.name, settings.output.aliases_topic, timeout_s)
    _judge_tombstones(cluster, settings, survey, after, timeout_s)
    _require(survey, settings, number, after.others)
    if keep and number is None:
        number = _newest_that_stands(survey, settings)
    auditor, at_head, incarnation, input_rows, done = Auditor(survey, number), {}, None, 0, 0
    total = sum(map(len, survey.found.values()))
    with schemas_of(settings) as schemas, _Replayed(cluster, timeout_s, schemas) as replayed:
        for record in _versions(cluster, settings, survey, timeout_s):
            version = _judge(record, auditor, replayed, keep, reads)
            if version is not None and before.head is not None and version.number == before.head.number:
                at_head, incarnation = {version.number: version}, incarnation_in(dict(record.headers))
            done += 1
            if progress is not None:
                progress(done, total)
        input_rows = replayed.input_rows
    return Report(
        name=settings.name,
        models_topic=settings.output.models_topic,
        rows=auditor.rows,
        faults=(
            *survey.faults,
            *alias_faults(before, after.head.number if after.head else 0, survey, at_head, incarnation),
        ),
        notes=tuple(auditor.notes()),
        input_rows=input_rows,
        seconds=time.monotonic() - begun,
    )


def _surveyed(cluster: Cluster, settings: Settings, timeout_s: float) -> VersionSurvey:
    survey = VersionSurvey(name=settings.name)
    for record in cluster.read_to_end(settings.output.models_topic, 0, timeout_s=timeout_s):
        survey.note(record.key, record.value, record.offset)
    return survey


def _judge_tombstones(
    cluster: Cluster, settings: Settings, survey: VersionSurvey, aliases: Aliases, timeout_s: float
) -> None:
    """See that every version that is retired is said to be elsewhere, too, where strangers cannot write."""
    if not survey.has_gaps and not survey.retired:
        return
    with suppress(TopicMissing):  # a topic of versions alone can be verified, too: then tombstones are all there is
        for record in cluster.read_to_end(settings.output.audit_topic, 0, timeout_s=timeout_s):
            survey.note_retired(record.value)
        survey.doubt(aliases.retired)


def _require(survey: VersionSurvey, settings: Settings, number: int | None, others: Collection[str]) -> None:
    models_topic, name = settings.output.models_topic, settings.name
    if not survey.newest:
        listed = ", ".join(sorted(others))
        close = get_close_matches(name, others, 1)
        raise ConfigurationError(
            f"{models_topic} holds no version of {name}",
            f"Choose one of its models with --name: {listed}." + (f" Did you mean {close[0]}?" if close else "")
            if listed
            else "Give the model's name with --name, and its topic with --output-models-topic.",
        )
    if number is not None and number not in survey.found:
        retired = "was retired" if survey.is_retired(number) else "does not exist"
        if number in survey.retired:
            retired += f" at offset {survey.retired[number]}"
        raise ConfigurationError(f"version {number} of {name} {retired}; the newest is {survey.newest}")


def _newest_that_stands(survey: VersionSurvey, settings: Settings) -> int:
    """Return the number of the newest version that is not retired.

    Raises
    ------
    ConfigurationError
        If all are retired.
    """
    standing = survey.found.keys() - survey.retired.keys()
    if not standing:
        raise ConfigurationError(
            f"every version of {settings.name} is retired, so no certificate can be made",
            "Publish a new version, and certify that.",
        )
    return max(standing)


def _versions(cluster: Cluster, settings: Settings, survey: VersionSurvey, timeout_s: float) -> Iterator[Record]:
    """Yield the records of versions that the survey saw."""
    for record in cluster.read_to_end(settings.output.models_topic, 0, timeout_s=timeout_s):
        if record.offset >= survey.end:
            return
        if record.value is not None and version_number(record.key, settings.name) is not None:
            yield record


def _judge(record: Record, auditor: Auditor, replayed: _Replayed, keep: int, reads: int) -> Version | None:
    """Have one record checked, recomputed if it is to be, and its finding written down."""
    assert record.key is not None
    assert record.value is not None
    number, version, faults, note = auditor.open(record.key, record.value, record.offset, dict(record.headers))
    if version is None or not auditor.wants(number):
        auditor.close(number, record.offset, faults, note=note)
        return version
    try:
        certifier = certifier_of(version, keep) if keep else None
        recomputed = replayed.value(version, auditor.placed(version), certifier)
        form = format_of(record.value)
        parts = differences(record.value, recomputed, form)
        certificate = None
        if certifier is not None and not (parts and version.lineage.build == build()):  # a forger chooses C and scaler
            certificate = replayed.certificate(version, certifier, reads)
    except NotRecomputable as error:
        auditor.close(number, record.offset, faults, note=str(error))
    else:
        auditor.close(number, record.offset, faults, version=version, parts=parts, form=form, certificate=certificate)
    return version


class _Replayed:
    """The input topics, gone through again incarnation by incarnation.

    Parameters
    ----------
    cluster : Cluster
    timeout_s : float
    schemas : SchemaRegistry, optional
    """

    def __init__(self, cluster: Cluster, timeout_s: float, schemas: SchemaRegistry | None = None) -> None:
        self._cluster = cluster
        self._schemas = schemas
        self._timeout_s = timeout_s
        self._recomputation: Recomputation | None = None
        self._source: _Source | None = None
        self._threads = ExitStack()
        self._learned_before = 0
        self._ids: dict[str, str | None] = {}
        self._logs: dict[str, dict[int, tuple[int, int]]] = {}

    def __enter__(self) -> _Replayed:
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
        return recomputation.value(version, lineage)

    def certificate(self, version: Version, certifier: Certifier, reads: int) -> Certificate:
        """Return the certificate of the version whose value was just returned, by so many reads at most.

        If the log loses its input meanwhile: what was proven before.
        """
        recomputation = self._recomputation
        while True:
            assert recomputation is not None
            recomputation.show_open()
            certificate = certifier.certificate()
            self._drop()
            if certifier.done or certificate.reads >= reads:
                return certificate
            try:
                recomputation = self._advanced(version, certifier)
                recomputation.require_all(version)
            except NotRecomputable:
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
        except OffsetOutOfRange as error:
            self._drop()
            self._ids.pop(version.lineage.topic)  # retention went on meanwhile: ask again before the next version
            raise NotRecomputable(error.what) from None
        return recomputation

    def _opened(self, version: Version, certifier: Certifier | None) -> tuple[Recomputation, _Source]:
        """Return the learner that this version can be reached with; a new one if the present one cannot."""
        topic = version.lineage.topic
        self._look(topic)
        missing = missing_input(version, self._ids[topic], self._logs[topic])
        if missing:
            raise NotRecomputable(missing)
        present = None if certifier is not None else self._recomputation  # a certifier sees all rows, or none
        if present is not None and self._source is not None and present.admits(version):
            return present, self._source
        self._drop()
        self._recomputation = Recomputation(version, self._ids[topic] or "", self._logs[topic], certifier)
        self._threads.enter_context(limited(self._recomputation.config.svm))
        self._source = _Source(self._cluster, self._recomputation, self._timeout_s, self._schemas)
        return self._recomputation, self._source

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
        self._logs[topic] = {p: self._cluster.log_range(topic, p) for p in described.partitions}

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
    """

    def __init__(
        self,
        cluster: Cluster,
        recomputation: Recomputation,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,
    ) -> None:
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
            self._backlog.setdefault(rows.partition, deque()).append(rows)

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


@contextmanager
def progress_bar(name: str) -> Iterator[ShowProgress | None]:
    """Show a bar on standard error while the block runs; None where standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(f"verify {name}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def summary_line(report: Report) -> str:
    """Return the verdict, the counts and the speed, for people."""
    counts: Mapping[str, int] = {outcome.value: count for outcome, count in report.counts.items()}
    found = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items()) or "none"
    verdict = "clean" if report.clean else "something differs" if report.differs else "not all could be checked"
    seconds = max(report.seconds, 1e-9)
    return (
        f"{report.name} in {report.models_topic}: {verdict}: {found}; "
        f"{report.input_rows:,} input rows in {report.seconds:,.2f} s "
        f"({len(report.rows) / seconds:,.1f} versions/s, {report.input_rows / seconds:,.0f} rows/s)"
    )
