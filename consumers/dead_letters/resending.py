"""`streamsvm dead-letters --resend`: sends rejected records to a topic again, edited or unchanged.

What is sent is the rejected rows of a record and no others: those beside them were learned, or scored, before. A record
that several models rejected is sent once, whoever reads it then, and a receipt says so for the letter of each. The
record keeps its key and headers; the header `streamsvm.resent.id` names its letter. What a person changed of it comes
as the lines that `dead-letters --json` printed, whose field `again` is what is sent.

Once each, and why: the transaction that sends a letter again writes a receipt into the dead-letter topic. Whoever
resends takes one transactional id first, the same for all who resend from that topic, and reads letters and receipts
after it: another's transaction then stands, and its receipts are seen, or it is aborted, and sent nothing to whoever
reads committed records only. So a letter whose receipt is there is never sent again, whoever calls how often, killed or
not. What this does not cover: a copy of the letter that a trainer writes after retention removed the receipt; the
embedded broker, which has no transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from consumers.dead_letters.listing import Chosen, StoredLetter, again_of, counts, read_letters
from consumers.models.moving import user_at_host
from streamsvm.errors import ConfigurationError, Fenced, TransientError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.dead_letter import RESENT_HEADER, Receipt
from streamsvm.kafka import Cluster, Message, OutcomeUnknown

ATTEMPTS: Final = 5
RECORDS_AT_ONCE: Final = 100
"""In one transaction: a record may have a megabyte."""
TRANSACTION_TIMEOUT_S: Final = 30.0


class Mended(msgspec.Struct, frozen=True):
    """A line of `dead-letters --json`, as far as it matters here."""

    id: str
    again: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Resent:
    """What became of the letters that were requested.

    Attributes
    ----------
    sent : int
    before : int
        Sent by an earlier call.
    left : Counter of str
        Not sent, by the reason.
    missing : list of str
        Ids of edited letters that the topic does not hold, or that were not asked for.
    """

    sent: int = 0
    before: int = 0
    left: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)

    def lines(self, source: str, target: str) -> Iterator[str]:
        """Yield what happened, for people."""
        for why, count in self.left.most_common():
            yield f"not sent ({count:,}): {why}"
        if self.missing:
            example = f"such as {self.missing[0]}"
            yield f"not sent ({len(self.missing):,}): edited letters that {source} does not hold, {example}"
        again = f", {self.before:,} were sent before" if self.before else ""
        yield f"{source}: {self.sent:,} sent to {target}{again}"


def mended_lines(lines: Iterable[bytes], where: str) -> dict[str, bytes | None]:
    """Read edited letters: the value to send, by the letter's id; None where nothing is to be sent.

    Parameters
    ----------
    lines : iterable of bytes
        Of `dead-letters --json`; `again` is text, as it is printed, or the value itself.
    where : str
        For messages.

    Raises
    ------
    ConfigurationError
        If a line is not a letter.
    """
    found: dict[str, bytes | None] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            mended = msgspec.json.decode(line, type=Mended)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"line {number} of {where} is not a letter: {error}",
                "Give the lines that `streamsvm dead-letters --json` printed, and change only the field `again`.",
            ) from None
        found[mended.id] = _value_of(mended.again)
    return found


def _value_of(again: msgspec.Raw) -> bytes | None:
    raw = bytes(again)
    if raw == b"null":
        return None
    return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """What a call would send; nothing is written yet.

    Attributes
    ----------
    ids : frozenset of str
        The letters that can be sent.
    models : tuple of str
        Whose letters were chosen, sent before or not.
    counts : tuple of str
        How many letters of which model and reason were chosen, for people.
    """

    ids: frozenset[str]
    models: tuple[str, ...]
    counts: tuple[str, ...]

    def require_one_model(self) -> None:
        """Refuse letters of more than one model.

        Raises
        ------
        ConfigurationError
            A record that one model rejected may be good, and learned, elsewhere.
        """
        if len(self.models) > 1:
            raise ConfigurationError(
                f"these are letters of {len(self.models)} models: {', '.join(self.models)}",
                "Give --name for those of one model; or --all-models, if the topic is to get the records of all.",
            )


def plan(
    cluster: Cluster, source: str, target: str, wanted: Chosen, mended: dict[str, bytes | None] | None = None
) -> ResendPlan:
    """Read what `resend` would send; parameters and errors as there."""
    _require_another(source, target)
    cluster.describe(target)
    found = _sort_out(cluster, source, target, wanted, mended)
    ids = frozenset(letter.rejected.id for record in found.ready for letter in record.letters)
    models = tuple(sorted({letter.rejected.model for letter in found.chosen}))
    return ResendPlan(ids, models, tuple(counts(found.chosen, found.before)))


def resend(
    cluster: Cluster,
    source: str,
    target: str,
    wanted: Chosen,
    now: datetime,
    *,
    mended: dict[str, bytes | None] | None = None,
    agreed: Collection[str] | None = None,
) -> Resent:
    """Send letters again that were not sent yet, each in the transaction that writes its receipt.

    Parameters
    ----------
    cluster : Cluster
    source : str
        The dead-letter topic.
    target : str
        Where they go.
    wanted : Chosen
    now : datetime
        For the receipts.
    mended : dict, optional
        What to send instead, by the letter's id; only these letters are sent then.
    agreed : collection of str, optional
        Ids of the letters that a person agreed to send: those that came since are left.

    Raises
    ------
    TopicMissing
        If there is no such topic.
    TransientError
        If the broker does not answer, or others kept resending; what was sent has its receipt.
    """
    _require_another(source, target)
    cluster.describe(target)
    tried: set[str] = set()
    sent: set[str] = set()
    for _ in range(ATTEMPTS):
        publisher = cluster.publisher(f"streamsvm/{source}/resend", transaction_timeout_s=TRANSACTION_TIMEOUT_S)
        try:
            publisher.start()
            found = _sort_out(cluster, source, target, wanted, mended, agreed)
            sent |= tried & found.before
            for start in range(0, len(found.ready), RECORDS_AT_ONCE):
                some = found.ready[start : start + RECORDS_AT_ONCE]
                names = {letter.rejected.id for record in some for letter in record.letters}
                tried |= names
                publisher.publish(_messages(some, source, target, now))
                sent |= names
        except (Fenced, OutcomeUnknown):
            continue  # what was sent has its receipt, and is found by it
        else:
            return Resent(len(sent), len(found.before - sent), found.left, found.missing)
        finally:
            publisher.close()
    raise TransientError(
        f"sending failed {ATTEMPTS} times: another call resent from {source} at the same time, or the broker did not "
        "confirm this one",
        "Run the command again: letters that were sent are not sent twice.",
    )


def _require_another(source: str, target: str) -> None:
    if target == source:
        raise ConfigurationError(
            f"--resend is {target}, which is the dead-letter topic itself",
            "Give the topic that the trainer learns from, or that the scorer scores.",
        )


@dataclass(frozen=True, slots=True)
class _Again:
    """A record to be sent, and the letters that ask for it: of each model that rejected it, one."""

    value: bytes
    letters: list[StoredLetter]


@dataclass(frozen=True, slots=True)
class _Found:
    """The chosen letters; what to send of them, the ids of those sent before, and why others are not sent."""

    chosen: list[StoredLetter]
    ready: list[_Again]
    before: set[str]
    left: Counter[str]
    missing: list[str]


def _sort_out(
    cluster: Cluster,
    source: str,
    target: str,
    wanted: Chosen,
    mended: dict[str, bytes | None] | None,
    agreed: Collection[str] | None = None,
) -> _Found:
    """Read letters and receipts, and say of each letter what is to be sent, or why nothing is."""
    letters = read_letters(cluster, source, None, wanted)
    there = {letter.rejected.id for letter in letters.letters}
    chosen = [letter for letter in letters.letters if mended is None or letter.rejected.id in mended]
    found = _Found(chosen, [], set(), Counter(), [name for name in mended or () if name not in there])
    elsewhere = {(place_of(name), one.rows) for name, one in letters.receipts.items() if one.to == target}
    together: dict[tuple[str, bytes], _Again] = {}
    for letter in chosen:
        name = letter.rejected.id
        place = place_of(name)
        if name in letters.receipts or (place, rows_of(letter)) in elsewhere:
            found.before.add(name)
            continue
        value, why = again_of(letter.rejected) if mended is None else (mended[name], "its field `again` is null")
        if value is None:
            found.left[why] += 1
        elif agreed is None or name in agreed:
            together.setdefault((place, value), _Again(value, [])).letters.append(letter)
    found.ready.extend(together.values())
    return found


def place_of(name: str) -> str:
    """Return the record that a letter is of, by the letter's id: its topic, partition and offset."""
    return name.partition("/")[2]


def rows_of(letter: StoredLetter) -> int:
    """Return how many rows of its record a letter is of."""
    return int(letter.rejected.rejected.split(" of ")[0])


def _messages(some: Sequence[_Again], source: str, target: str, now: datetime) -> list[Message]:
    messages = []
    for record in some:
        first = record.letters[0]
        kept = tuple(header for header in first.headers if header[0] != RESENT_HEADER)
        named = (*kept, (RESENT_HEADER, first.rejected.id.encode()))
        messages.append(Message(target, record.value, first.key, named))
        for letter in record.letters:
            name, at = letter.rejected.id, now.isoformat(timespec="seconds")
            receipt = deadletter.encode_receipt(Receipt(name, target, rows_of(letter), user_at_host(), at))
            messages.append(Message(source, receipt.value, receipt.key, receipt.headers, 0))
    return messages
