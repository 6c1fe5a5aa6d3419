"""What the topics show of the time before this start: the newest versions, what they knew, and the dead letters.

A page that is looked at after a restart would else know nothing, just when people look. What is read is bounded in
records, bytes and seconds, and it is for people only: whatever cannot be read is left out, and nothing else depends on
it.

Versions are read from the newest one backwards; each names the hash of the one before it, and what does not have that
hash ends the walk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from consumers.host.untrusted_text import printable
from consumers.page.status import Figures, GateStatus, LetterPart, LettersStatus, Moment, VersionPart
from streamsvm.errors import InvalidMessage, StreamsvmError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import RejectedRecord
from streamsvm.kafka import Cluster, Record, RecordFetcher
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Head
from streamsvm.model.skill import SampleFigures
from streamsvm.model.skill_header import AnySkill
from streamsvm.model.version import Version, version_key
from streamsvm.places import time_of
from streamsvm.registry.loading import Loaded, check, loaded_from

log = structlog.get_logger("streamsvm.page")

MOST_VERSIONS: Final = 20
MOST_BYTES: Final = 32 << 20
"""Of versions that are read; kernel machines may take megabytes each."""
NEAR: Final = 8
"""Offsets before a version in which the one before it is looked for; tombstones and markers stand between them."""
MOST_S: Final = 5.0
"""After so many seconds no further version is read."""
READ_TIMEOUT_S: Final = 5.0
MOST_PARTITIONS: Final = 16
"""Of the dead-letter topic that are looked at."""
LAST_OFFSETS: Final = 4
"""Of each of them: a letter, and markers of transactions or receipts."""
MOST_CHARACTERS: Final = 200
"""Of a dead letter's message."""
SECONDS_HEADER: Final = "streamsvm.training.seconds"

_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Past:
    """What was found.

    Attributes
    ----------
    versions : tuple of VersionPart
        The newest first.
    newest : Loaded or None
        The newest version as it is.
    letters : LettersStatus or None
    """

    versions: tuple[VersionPart, ...] = ()
    newest: Loaded | None = None
    letters: LettersStatus | None = None

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Return how good answers were when each version was published, the oldest first."""
        return tuple(
            Moment(
                part.published,
                Figures(part.balanced_accuracy),
                part.points,
                None,
                answered=part.answered,
                true=part.true,
            )
            for part in reversed(self.versions)
            if part.balanced_accuracy is not None
        )


def past_of(cluster: Cluster, name: str, models_topic: str, letters_topic: str, head: Head | None) -> Past:
    """Read the newest versions and dead letters, as far as they can be read.

    Blocks some seconds at most where brokers answer, and a few times `READ_TIMEOUT_S` where they do not.

    Parameters
    ----------
    cluster : Cluster
    name, models_topic, letters_topic : str
    head : Head or None
        The newest version.
    """
    loaded: list[tuple[Loaded, Record]] = []
    if head is not None:
        with _as_far_as_possible(models_topic), closing(cluster.reader()) as reader:
            for one in _walk(reader, name, models_topic, head):
                loaded.append(one)  # noqa: PERF402 - what was read before a failure stays
    return Past(
        versions=tuple(_line(one, record) for one, record in loaded),
        newest=loaded[0][0] if loaded else None,
        letters=letters_of(cluster, name, letters_topic),
    )


def letters_of(cluster: Cluster, name: str, topic: str, beat: Callable[[], object] = lambda: None) -> LettersStatus:
    """Return what a dead-letter topic holds: how many, at most, and the newest one of this model."""
    count, found = None, list[LetterPart]()
    with _as_far_as_possible(topic):
        ranges = {number: cluster.log_range(topic, number) for number in cluster.describe(topic).partitions}
        count = sum(high - low for low, high in ranges.values())
        for number, (low, high) in list(ranges.items())[:MOST_PARTITIONS]:
            beat()
            if high > low:
                start = max(low, high - LAST_OFFSETS)
                records = cluster.read_to_end(topic, number, start=start, timeout_s=READ_TIMEOUT_S)
                found += [letter for record in records if (letter := _letter(record, name)) is not None]
    return LettersStatus(
        topic=topic, before=count, newest=max(found, key=lambda one: one.time or _LONG_AGO, default=None)
    )


def letter_of(topic: str, rejected: RejectedRecord, now: datetime) -> LetterPart:
    """Return the dead letter of a record that was rejected just now."""
    record, first = rejected.record, rejected.rejections[0]
    return LetterPart(
        topic=topic,
        partition=record.partition,
        offset=record.offset,
        row=first.row,
        reason=first.reason,
        message=_short(first.what),
        time=now,
    )


@contextmanager
def _as_far_as_possible(topic: str) -> Iterator[None]:
    """Let what cannot be read be: a page that knows less harms nobody."""
    try:
        yield
    except StreamsvmError as error:
        log.info("past_not_read", topic=topic, what=error.what, remedy="no action needed: the page shows less")


def _walk(reader: RecordFetcher, name: str, topic: str, head: Head) -> Iterable[tuple[Loaded, Record]]:
    """Yield versions, the newest first, while each has the hash that the next one names."""
    until, read = time.monotonic() + MOST_S, 0
    number, sha256 = head.number, head.sha256
    record = reader.fetch_one(topic, 0, head.offset, READ_TIMEOUT_S)
    for _ in range(MOST_VERSIONS):
        if record is None:
            return
        version = check(record, name, number, sha256)
        yield loaded_from(record, version), record
        read += len(record.value or b"")
        if version.lineage.parent is None or read > MOST_BYTES or time.monotonic() > until:
            return
        number, sha256 = number - 1, version.lineage.parent
        near, start = list[Record](), max(0, record.offset - NEAR)
        while start < record.offset:  # what is read at once may be a part
            near += reader.fetch_from(topic, 0, start, record.offset - start, READ_TIMEOUT_S)
            start = near[-1].offset + 1 if near else record.offset
        key = version_key(name, number).encode()
        record = next((one for one in near if one.key == key and model_codec.sha256(one.value or b"") == sha256), None)


def _line(loaded: Loaded, record: Record) -> VersionPart:
    headers = dict(record.headers)
    published = loaded.published_at
    return version_line(
        loaded.version,
        loaded.sha256,
        time_of((record.timestamp_ms or 0) / 1000.0 if published is None else published) or _LONG_AGO,
        seconds=_float(headers.get(SECONDS_HEADER)) or 0.0,
        gate=_gate(headers),
        skill=loaded.skill,
        earlier=True,
    )


def version_line(
    version: Version,
    sha256: str,
    published: datetime,
    *,
    seconds: float,
    gate: GateStatus | None,
    skill: AnySkill | None,
    earlier: bool = False,
) -> VersionPart:
    """Return what the page says of one version."""
    fit, stream, audit = version.fit, version.stream, version.audit
    figures = None if skill is None else skill.figures
    gap = None
    if fit.dual_objective is not None and fit.objective:
        gap = (fit.objective - fit.dual_objective) / fit.objective
    return VersionPart(
        number=version.number,
        sha256=sha256,
        parent=version.lineage.parent,
        published=published,
        current=False,
        rows=stream.rows,
        points=stream.points,
        training_points=fit.points,
        support_vectors=fit.support_vectors,
        objective=fit.objective,
        gap=gap,
        audit_low=None if audit is None else audit.low,
        audit_high=None if audit is None else audit.high,
        converged=fit.converged,
        seconds=seconds,
        gate=gate,
        cut={str(part.partition): (part.offset, part.row) for part in version.lineage.cut},
        balanced_accuracy=None if figures is None else figures.balanced_accuracy.value,
        answered=figures.said if isinstance(figures, SampleFigures) else None,
        true=figures.true if isinstance(figures, SampleFigures) else None,
        skill="" if skill is None else skill.state,
        earlier=earlier,
    )


def _gate(headers: dict[str, bytes]) -> GateStatus | None:
    outcome = headers.get(model_codec.GATE_HEADER, b"").decode(errors="replace")
    if outcome not in ("passed", "refused", "unscored"):
        return None
    own, other = (
        _float(headers.get(header)) for header in (model_codec.GATE_ACCURACY_HEADER, model_codec.GATE_PRESENT_HEADER)
    )
    return GateStatus(outcome, "", own, other)  # type: ignore[arg-type] # checked above


def _float(header: bytes | None) -> float | None:
    try:
        value = None if header is None else float(header)
    except ValueError:
        return None
    return value if value is not None and 0.0 <= value < 1e12 else None


def _letter(record: Record, name: str) -> LetterPart | None:
    try:
        one = deadletter.decode(record.value, record.headers)
    except InvalidMessage:
        return None
    if one.model not in ("", name):
        return None
    first, written = one.rows[0], record.timestamp_ms
    return LetterPart(
        topic=_short(one.topic),
        partition=one.partition,
        offset=one.offset,
        row=first.row,
        reason=_short(first.reason),
        message=_short(first.message),
        time=None if written is None else time_of(written / 1000.0),
    )


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 3]}..."
