"""`streamsvm dead-letters`: what was rejected, why, and what to do about it.

It only reads; copies of one letter (delivery is at least once) are shown once, the newest of them. A letter that was
sent again (`consumers.dead_letters.resending`) says so.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from consumers.host.untrusted_text import printable
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.dead_letter import DecodedDeadLetter, Headers, Receipt
from streamsvm.ingest.decoder import REASONS, REMEDIES
from streamsvm.kafka import Cluster, Record

SHOWN_BYTES: Final = 80
"""Of a value, to people."""
RECEIPTS_BEFORE_MS: Final = 3_600_000
"""How much older than a letter its receipt may be and still be found by who reads only the newest: a trainer that
starts again from its checkpoint writes the letter again."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter, when it was written, in milliseconds since the epoch, and its record's own key and headers."""

    rejected: DecodedDeadLetter
    time_ms: int
    key: bytes | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which letters are wanted.

    Attributes
    ----------
    reasons : frozenset of str
        Letters with a row of one of them; empty: any.
    since_ms : int
        Written then or later, in milliseconds since the epoch.
    model : str
        Of this model's trainer or scorer; empty: any.
    """

    reasons: frozenset[str] = frozenset()
    since_ms: int = 0
    model: str = ""

    @property
    def all(self) -> bool:
        """Whether every letter is wanted."""
        return not self.reasons and not self.since_ms and not self.model

    def __contains__(self, letter: StoredLetter) -> bool:
        one = letter.rejected
        fits = not self.reasons or any(row.reason in self.reasons for row in one.rows)
        return fits and letter.time_ms >= self.since_ms and self.model in ("", one.model)


def chosen(reasons: Iterable[str], since: str, model: str, now: datetime) -> Chosen:
    """Read what was requested.

    Parameters
    ----------
    reasons : iterable of str
    since : str
        A time such as 2026-01-31T12:00:00Z, or how long ago: 90s, 30min, 2h, 7d; empty: whenever.
    model : str
    now : datetime

    Raises
    ------
    ConfigurationError
        If there is no such reason, or the time cannot be read.
    """
    unknown = [reason for reason in reasons if reason not in REASONS]
    if unknown:
        raise ConfigurationError(f"unknown reason {unknown[0]!r}", f"Give one of {', '.join(REASONS)}.")
    return Chosen(frozenset(reasons), since_ms(since, now), model)


def since_ms(text: str, now: datetime) -> int:
    """Return a time that a person gives, in milliseconds since the epoch; 0 if none is given.

    Raises
    ------
    ConfigurationError
        If it is neither a time with a zone nor a span.
    """
    if not text:
        return 0
    ago = _AGO.fullmatch(text)
    try:
        at = now - timedelta(seconds=float(ago[1]) * _UNITS_S[ago[2]]) if ago else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        at = None
    if at is None or at.tzinfo is None:
        raise ConfigurationError(
            f"--since is {text!r}",
            "Give a time with a time zone, such as 2026-01-31T12:00:00Z, or a span such as 90s, 30min, 2h, 7d.",
        )
    return max(0, int(at.timestamp() * 1000))


_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(s|min|h|d)")
_UNITS_S: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}


EVERY: Final = Chosen()


@dataclass(frozen=True, slots=True)
class Letters:
    """What a dead-letter topic holds.

    Attributes
    ----------
    topic : str
    letters : list of StoredLetter
        The newest, oldest first.
    earlier : int
        Offsets before them, at most so many letters.
    foreign : int
        Records among them that are not dead letters of streamsvm.
    receipts : dict of str to Receipt
        What is known to have been sent again, by the letter's id.
    """

    topic: str
    letters: list[StoredLetter]
    earlier: int
    foreign: int
    receipts: dict[str, Receipt] = field(default_factory=dict)


def read_letters(cluster: Cluster, topic: str, last: int | None, wanted: Chosen = EVERY) -> Letters:
    """Read the newest dead letters of a topic; all of it, where not every one is wanted.

    Parameters
    ----------
    cluster : Cluster
    topic : str
        The dead-letter topic.
    last : int or None
        How many of the newest letters; None: all.
    wanted : Chosen

    Raises
    ------
    ConfigurationError
        As `TopicMissing` if there is no such topic.
    TransientError
        If no broker answers.
    """
    few = last if wanted.all else None
    whole, earlier = _Part(), 0
    for partition in cluster.describe(topic).partitions:
        part, before = _newest(cluster, topic, partition, few, wanted)
        whole.add(part)
        earlier += before
    ordered = sorted(whole.letters.values(), key=lambda letter: letter.time_ms)
    shown = ordered if last is None else ordered[-last:]
    if few is not None and earlier and shown:
        whole.receipts |= _receipts_since(cluster, topic, shown[0].time_ms - RECEIPTS_BEFORE_MS)
    return Letters(topic, shown, earlier + len(ordered) - len(shown), whole.foreign, whole.receipts)


@dataclass(slots=True)
class _Part:
    """What was read of a dead-letter topic: letters by id, the newest copy of each; receipts by the letter's id."""

    letters: dict[str, StoredLetter] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    foreign: int = 0

    def add(self, other: _Part) -> None:
        """Take in what was read of another partition."""
        self.letters |= other.letters
        self.receipts |= other.receipts
        self.foreign += other.foreign


def _newest(cluster: Cluster, topic: str, partition: int, few: int | None, wanted: Chosen) -> tuple[_Part, int]:
    """Read a partition's newest letters, at least so many if it has them, and return how many offsets lie before.

    Receipts, copies and markers take offsets, too: so the stretch that is read grows until the letters are there.
    """
    low, high = cluster.log_range(topic, partition)
    stretch = high - low if few is None else few
    while True:
        start, part = max(low, high - stretch), _Part()
        for record in cluster.read_to_end(topic, partition, start=start, timeout_s=READ_TIMEOUT_S):
            _sort_in(part, record, wanted)
        if few is None or start == low or len(part.letters) >= few:
            return part, start - low
        stretch *= 4


def _sort_in(part: _Part, record: Record, wanted: Chosen) -> None:
    receipt = deadletter.decode_receipt(record.value, record.headers)
    if receipt is not None:
        part.receipts[receipt.id] = receipt
        return
    try:
        letter = _letter(record)
    except InvalidMessage:
        part.foreign += 1
    else:
        if letter in wanted:
            part.letters.pop(letter.rejected.id, None)
            part.letters[letter.rejected.id] = letter


def _receipts_since(cluster: Cluster, topic: str, at_ms: int) -> dict[str, Receipt]:
    """Read the receipts written since a time; they all stand in partition 0."""
    start = None
    if not cluster.embedded:
        start = cluster.starts(topic, [0], datetime.fromtimestamp(max(0, at_ms) / 1_000, UTC))[0]
    records = cluster.read_to_end(topic, 0, start=start, timeout_s=READ_TIMEOUT_S)
    found = (deadletter.decode_receipt(record.value, record.headers) for record in records)
    return {receipt.id: receipt for receipt in found if receipt is not None}


def _letter(record: Record) -> StoredLetter:
    rejected = deadletter.decode(record.value, record.headers)
    return StoredLetter(rejected, record.timestamp_ms or 0, record.key, deadletter.own_headers(record.headers))


def lines(letter: StoredLetter, receipt: Receipt | None = None, *, name_model: bool = False) -> Iterator[str]:
    """Yield where a record stood and what is wrong with it, its first bad row for all of them; then how it begins.

    Parameters
    ----------
    letter : StoredLetter
    receipt : Receipt, optional
        What says that it was sent again.
    name_model : bool
        Whether to say which model's trainer or scorer rejected it.
    """
    one, first = letter.rejected, letter.rejected.rows[0]
    rows = "" if one.rejected == "1 of 1" else f" row {first.row}, {one.rejected} rows"
    by = f" by {one.model}" if name_model else ""
    called = "".join(f" id {mark}" for mark in (point_id(one),) if mark is not None)
    yield printable(f"{one.topic}[{one.partition}]@{one.offset}{rows}{called}{by}  {first.reason}: {first.message}")
    more = f" ... ({one.value_bytes:,} bytes, --json shows them)" if one.value_bytes > SHOWN_BYTES else ""
    yield "    " + printable((one.value or b"")[:SHOWN_BYTES].decode(errors="backslashreplace")) + more
    if receipt is not None:
        yield printable(f"    sent again to {receipt.to} by {receipt.by} at {receipt.time}")


class _NamedPoint(msgspec.Struct):
    """What is read of a rejected point: whatever else it holds, it may have an id."""

    id: str | int | None = None


def point_id(one: DecodedDeadLetter) -> str | None:
    """Return the id of a letter's first bad row; None where the record does not say it as JSON."""
    try:
        if one.rejected.endswith(" of 1"):
            return _cut(msgspec.json.decode(one.value or b"", type=_NamedPoint).id)
        rows = msgspec.json.decode(one.value or b"", type=list[msgspec.Raw])
        return _cut(msgspec.json.decode(rows[one.rows[0].row], type=_NamedPoint).id)
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError, RecursionError):
        return None


def _cut(mark: str | int | None) -> str | None:
    return None if mark is None else str(mark)[:SHOWN_BYTES]


def report(found: Letters) -> Iterator[str]:
    """Yield the letters, what to do about each reason, and how many there are."""
    several = len({letter.rejected.model for letter in found.letters}) > 1
    for letter in found.letters:
        yield from lines(letter, found.receipts.get(letter.rejected.id), name_model=several)
    yield from advice(found.letters)
    if several:
        yield from counts(found.letters, found.receipts)
    foreign = f", {found.foreign:,} records skipped that are not dead letters" if found.foreign else ""
    earlier = f", up to {found.earlier:,} earlier ones not shown (see --last)" if found.earlier else ""
    yield f"{found.topic}: {_letters(len(found.letters))}{foreign}{earlier}"


def counts(letters: Iterable[StoredLetter], receipts: Collection[str]) -> Iterator[str]:
    """Yield a line for each model: how many letters, how many rows of each reason, how many were sent again already."""
    by_model = defaultdict[str, list[StoredLetter]](list)
    for letter in letters:
        by_model[letter.rejected.model].append(letter)
    for model, own in sorted(by_model.items()):
        reasons = Counter(row.reason for letter in own for row in letter.rejected.rows).most_common()
        rows = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        sent = sum(letter.rejected.id in receipts for letter in own)
        yield printable(f"{model}: {_letters(len(own))} ({rows})" + (f", {sent:,} of them sent before" if sent else ""))


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def advice(letters: Iterable[StoredLetter]) -> Iterator[str]:
    """Yield a line for each reason, the commonest first: how many rows, what it means, what to do."""
    counted = Counter(row.reason for letter in letters for row in letter.rejected.rows)
    for reason, count in counted.most_common():
        meaning, remedy = REASONS.get(reason, "a reason that another build writes"), REMEDIES.get(reason, "")
        yield printable(f"{reason} ({count:,}): {meaning}. {remedy}".rstrip())


def plain(letter: StoredLetter, receipt: Receipt | None = None) -> dict[str, Any]:
    """Return a letter, and its receipt, as a plain JSON value; bytes of the value that are not UTF-8 are escaped."""
    one = letter.rejected
    again, why_not = again_of(one)
    return {
        "id": one.id,
        "point_id": point_id(one),
        "model": one.model,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "time_ms": letter.time_ms,
        "rejected": one.rejected,
        "rows": [{"row": row.row, "reason": row.reason, "message": row.message} for row in one.rows],
        "value": None if one.value is None else one.value.decode(errors="backslashreplace"),
        "value_bytes": one.value_bytes,
        "again": None if again is None else again.decode(errors="backslashreplace"),
        "why_not": why_not or None,
        "sent_again": None if receipt is None else {"to": receipt.to, "by": receipt.by, "time": receipt.time},
    }


def again_of(one: DecodedDeadLetter) -> tuple[bytes | None, str]:
    """Return the rejected rows of a record, to be sent again, or the reason why they cannot be sent.

    Rows of the record that were accepted are learned, or scored, already.
    """
    bad, whole = (int(part) for part in one.rejected.split(" of "))
    if not one.value:
        return None, "the record had no value"
    if one.value_bytes > len(one.value):
        return None, f"only the first {len(one.value):,} of the value's {one.value_bytes:,} bytes were kept"
    if bad == whole:
        return one.value, ""
    if len(one.rows) < bad:
        return None, f"only {len(one.rows):,} of the record's {bad:,} rejected rows are listed"
    try:
        rows = msgspec.json.decode(one.value, type=list[msgspec.Raw])
        return b"[" + b",".join(bytes(rows[row.row]) for row in one.rows) + b"]", ""
    except (msgspec.DecodeError, IndexError):
        return None, f"{one.rejected} rows were rejected, and rows can be extracted from a JSON array only"
