"""`streamsvm verify`: reads the models topic and the input again, and computes every version anew.

What it proves: that each version is what its lineage says, a pure function of the log, its configuration, the seed and
its cut. It needs nothing from the publisher: no checkpoint, and no configuration but the one in the lineage.

The order is in `verify`. It reads the aliases, surveys the models topic without decoding (`VersionSurvey`), reads the
aliases again, and then goes through the versions in log order. For each, `streamsvm.verification.auditor` checks its
place, and `consumers.verify.replayed` makes it again from the input, with one learner for all versions of an
incarnation. The aliases are read twice because a trainer may be running: what was published in between is left out.

Invariant: it only reads. In memory are one model at a time, one learner and a bounded part of the input; an
incarnation's input is read once for all of its versions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from consumers.host.runtime import schemas_of
from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S
from consumers.verify.replayed import Replayed
from consumers.verify.verifier import verifiers_of
from streamsvm.build import build
from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.kafka import Cluster, Record
from streamsvm.model.left_out import require_read
from streamsvm.model.pointers import current_key
from streamsvm.model.version import Version, version_number
from streamsvm.registry.aliases import Aliases, models_there, read_aliases
from streamsvm.verification.auditor import Auditor, incarnation_in
from streamsvm.verification.differences import differences
from streamsvm.verification.names import alias_faults
from streamsvm.verification.recomputation import NotRecomputable, RowsLeftOut, certifier_of
from streamsvm.verification.report import VerificationReport
from streamsvm.verification.version_survey import VersionSurvey

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
) -> VerificationReport:
    """Recompute published versions from the log, and check their place in the models topic.

    A trainer may be running: what it publishes after this began reading is left out.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
        Of these `name` and `output` are looked at, and what branches need to find what else rows are made of.
    number : int, optional
        The one version to recompute; the places of all are checked anyway. Default: all.
    keep : int
        Rows to keep for a certificate of the one version, by default the newest; 0: no certificate. A version that
        differs from its recomputation has none.
    reads : int
        How often the input is read for the certificate at most. A second reading can prove more than the first.
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
    require_read(settings.name, after.left_out)
    _judge_tombstones(cluster, settings, survey, after, timeout_s)
    _require(survey, settings, number, after.others)
    if keep and number is None:
        number = _newest_that_stands(survey, settings)
    auditor, at_head, incarnation, input_rows, done = Auditor(survey, number), {}, None, 0, 0
    total = sum(map(len, survey.found.values()))
    with ExitStack() as stack:
        schemas = stack.enter_context(schemas_of(settings))
        verifiers = verifiers_of(cluster, settings, timeout_s, schemas)
        replayed = stack.enter_context(Replayed(cluster, timeout_s, schemas, verifiers))
        for record in _versions(cluster, settings, survey, timeout_s):
            version = _judge(record, auditor, replayed, keep, reads)
            if version is not None and before.head is not None and version.number == before.head.number:
                at_head, incarnation = {version.number: version}, incarnation_in(dict(record.headers))
            done += 1
            if progress is not None:
                progress(done, total)
        input_rows = replayed.input_rows
    return VerificationReport(
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
    """Compare tombstones, and that nothing is current, with the audit trail, which fewer programs may write to."""
    if not survey.has_gaps and not survey.retired and current_key(settings.name) in aliases.named:
        return
    with suppress(TopicMissing):  # a topic of versions alone can be verified, too: then tombstones are all there is
        for record in cluster.read_to_end(settings.output.audit_topic, 0, timeout_s=timeout_s):
            survey.note_audit(record.value)
        survey.doubt(aliases.retired)


def _require(survey: VersionSurvey, settings: Settings, number: int | None, others: Collection[str]) -> None:
    models_topic, name = settings.output.models_topic, settings.name
    if not survey.newest:
        raise ConfigurationError(f"{models_topic} holds no version of {name}", models_there(name, others))
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


def _judge(record: Record, auditor: Auditor, replayed: Replayed, keep: int, reads: int) -> Version | None:
    """Check one record, recompute its version if that is wanted, and note the finding."""
    assert record.key is not None
    assert record.value is not None
    number, version, faults, note = auditor.open(record.key, record.value, record.offset, dict(record.headers))
    if version is None or not auditor.wants(number):
        auditor.close(number, record.offset, faults, note=note)
        return version
    try:
        certifier = certifier_of(version, keep) if keep else None
        placed = auditor.placed(version)
        parts = differences(record.value, replayed.value(version, placed, certifier))
        certificate = None
        # Not for a version that differs on the same build. Its lineage is not what it was made from, and a certificate
        # would prove something about a problem that a forger chose.
        if certifier is not None and not (parts and version.lineage.build == build()):
            certificate = replayed.certificate(version, certifier, reads)
    except NotRecomputable as error:
        auditor.close(number, record.offset, faults, note=str(error), left_out=isinstance(error, RowsLeftOut))
    else:
        auditor.close(number, record.offset, faults, version=version, parts=parts, certificate=certificate)
    return version


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


def summary_line(report: VerificationReport) -> str:
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
