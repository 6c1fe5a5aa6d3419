"""Judges what is left of a transaction whose markers did not reach every partition, and returns what completes it.

This is the part of a settlement without I/O: `consumers.streams.settling` reads the records of an attempt from the
broker, calls `judge`, and publishes what the judgement names. `streamsvm.delivery.machine` says when that happens.

A coordinator decides a transaction, logs the decision, answers the commit, and only then writes a marker into each
partition. If the coordinator dies in between and comes back, markers may be missing for good, in some or all
partitions. A record without a marker holds up readers of committed records for ever, and the next marker of the same
producer, from any later transaction, decides whether the record counts as committed. So a process that takes a
transactional id over first checks every partition that the id writes to, ends what still hangs by one abort, and then
judges what is left.

The cases, for an attempt of parts p1 .. pn (a version: its record, the copies, the head, `current`, the audit entry;
a batch of scores: scores, dead letters, how far the input is scored). A part is *visible* if it has a commit marker,
*hung* if it has none, *aborted* if it has an abort marker.

==========================================  =====================================  =================================
what happened                               what a successor finds                 what it does
==========================================  =====================================  =================================
commit decided, every marker written        all visible                            WHOLE: nothing
commit decided, no marker written           all hung                               aborts; VOID: nobody saw it, nobody
                                                                                   was told, the number is free
commit decided, some markers written        some visible, the rest hung            aborts the rest; TORN: publishes
                                                                                   the missing parts again
abort decided (by us, by the coordinator's  aborted or hung, none visible          aborts what hangs; VOID
timeout, by the successor's taking over),
any markers written
undecided: open when the successor came     taking the id aborts it: as above      as above
the settler died before its abort           as its predecessor left it             as above
the settler died after its abort            some visible, the rest aborted;        TORN: the same parts as before
                                            nothing hangs
a person aborted what hung, before any      some visible, the rest aborted;        TORN: the same parts as before
settler's abort                             nothing hangs
the settler's repair was torn as well       the parts visible in either try count  TORN: what is missing in both
a commit answered, the answer not believed  as any of the above                    nobody is told before readers have
before the stable offsets have passed it                                           passed every part: so VOID is safe
a late copy of an earlier commit ended the  a version past the one that the newest TORN: the process that sent it
attempt half sent, and the broker refused   head names                             remembers the rest; LOST if it died,
the rest                                                                           too
the bytes of a version or of its head are   the other one visible                  LOST: refuses, names the records
gone, or do not hash to what is visible                                            (compaction spares them for an hour)
the bytes of another part are gone          the rest visible                       says so, completes the rest
the id expired, the old producer's records  hung, and an abort does not end them   a person must: the exact command
hang
another id's records hang                   hung, stamped by that id               after three timeouts takes that id
                                                                                   over and settles it
records without a stamp hang                hung, nobody knows whose they are      a person must: the exact command
==========================================  =====================================  =================================

An abort is right in every row. A commit marker would also commit what the coordinator had given up; and a settler that
died after its commit, before it had checked all partitions, would leave a transaction half visible. What the
coordinator had decided to commit is completed afterwards, from the bytes that the log still holds, under the same
number. Completing is idempotent: a part is identified by its attempt and its number, whichever transaction made it
visible.

A version's head and `current` name the offset of the version's record. If that record is published again, both are
published again with the new offset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import msgspec

from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Alias, Head, decode_alias, decode_head, encode_alias, encode_head

NOT_STORED: Final = -1
"""Offset of a part that the log never held, and that the process which made it remembers."""
_HEAD: Final = "@head"
_CURRENT: Final = "@current"


class AttemptVerdict(StrEnum):
    """The state of an attempt once none of its records hangs."""

    VOID = "void"
    """No part is visible, as if the attempt had never happened."""
    WHOLE = "whole"
    """Every part is visible."""
    TORN = "torn"
    """Some parts are visible, and the log holds the bytes of the others."""
    LOST = "lost"
    """Some parts are visible, and the bytes of others are gone or do not belong to them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """One record of an attempt, as the log holds it.

    Attributes
    ----------
    attempt : str
    number : int
        Counted from 1. Several records have the same number if the part was published again.
    parts : int
        Number of parts in the attempt; 0 if this record does not say.
    topic : str
    partition, offset : int
    key, value : bytes or None
    headers : tuple of (str, bytes)
    visible : bool
        Whether readers of committed records receive it.
    """

    attempt: str
    number: int
    parts: int
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    visible: bool

    @property
    def where(self) -> str:
        """Its coordinates, for people."""
        if self.offset == NOT_STORED:
            return f"{self.topic} (not stored)"
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on an attempt, and what to publish to complete it.

    Attributes
    ----------
    attempt : str
    verdict : AttemptVerdict
    first : tuple of AttemptRecord
        Parts to publish again, in this order.
    pointers : tuple of AttemptRecord
        Head and aliases to publish after `first`, in the same transaction, `redirected` to the version record's offset.
    version_offset : int or None
        Offset of the version's visible record; None if the record is among `first`, or there is no version.
    gone : tuple of int
        Numbers of parts that the log no longer holds, and that no other part depends on.
    why : str
        Why the attempt is lost, for people.
    """

    attempt: str
    verdict: AttemptVerdict
    first: tuple[AttemptRecord, ...] = ()
    pointers: tuple[AttemptRecord, ...] = ()
    version_offset: int | None = None
    gone: tuple[int, ...] = ()
    why: str = ""


def judge(parts: Iterable[AttemptRecord], models_topic: str = "", decided: Container[str] = ()) -> list[Judgement]:
    """Judge every attempt among records, in the order in which the first record of each was given.

    Parameters
    ----------
    parts : iterable of AttemptRecord
        Every record of these attempts that the log holds, in the order of each partition; nothing hangs among them.
    models_topic : str
        Where versions are; empty if the attempts have none.
    decided : container of str
        Attempts that are known to be committed by another witness: how far the input is scored.
    """
    by_attempt: dict[str, list[AttemptRecord]] = defaultdict(list)
    for part in parts:
        by_attempt[part.attempt].append(part)
    return [_judged(attempt, found, models_topic, attempt in decided) for attempt, found in by_attempt.items()]


def _judged(attempt: str, found: Sequence[AttemptRecord], models_topic: str, decided: bool) -> Judgement:
    # Nobody saw any of it, so nobody is owed the rest; progress that was committed with it proves that it was decided.
    if not decided and not any(part.visible for part in found):
        return Judgement(attempt=attempt, verdict=AttemptVerdict.VOID)
    best = _best(found)
    version = next((part for part in best.values() if part.topic == models_topic and part.value is not None), None)
    pointers = {number: part for number, part in best.items() if models_topic and _points(part)}
    fault = _fault(version, pointers.values())
    if fault:
        return Judgement(attempt=attempt, verdict=AttemptVerdict.LOST, why=f"{fault}; {_seen(found)}")
    offset = version.offset if version is not None and version.visible else None
    # A pointer names its version by offset: if the version must be published again, visible pointers are wrong, too.
    stale = [part for part in pointers.values() if not part.visible or _pointer(part).offset != offset]
    # Pointers go last, since they need the offset that the version gets.
    missing = [part for number, part in best.items() if not part.visible and number not in pointers]
    # Only the last group of an attempt says how many parts it has; retention or compaction may have taken some.
    gone = tuple(sorted(set(range(1, max(part.parts for part in found) + 1)) - best.keys()))
    if not stale and not missing:
        return Judgement(attempt=attempt, verdict=AttemptVerdict.WHOLE, gone=gone)
    return Judgement(
        attempt=attempt,
        verdict=AttemptVerdict.TORN,
        first=tuple(missing),
        pointers=tuple(stale),
        version_offset=offset,
        gone=gone,
    )


def _fault(version: AttemptRecord | None, pointers: Iterable[AttemptRecord]) -> str:
    """Return why a version and the records that name it do not fit together; empty if they do, or there are none."""
    heads = [part for part in pointers if (part.key or b"").endswith(_HEAD.encode())]
    if version is None:
        return f"the version that {heads[0].where} names is no longer in the log" if heads else ""
    if not heads:
        return f"the head record of {version.where} is no longer in the log"
    own = model_codec.sha256(version.value or b"")
    foreign = next((part for part in pointers if _pointer(part).sha256 != own), None)
    return "" if foreign is None else f"{foreign.where} does not name the SHA-256 of {version.where}"


def _best(found: Sequence[AttemptRecord]) -> dict[int, AttemptRecord]:
    """Return, for each part, its newest visible record, or its newest record if none is visible."""
    best: dict[int, AttemptRecord] = {}
    # The last of equal numbers wins: a visible record over an invisible one, then the newer one.
    for part in sorted(found, key=lambda part: (part.number, part.visible, part.offset)):
        best[part.number] = part
    return best


def _seen(found: Sequence[AttemptRecord]) -> str:
    return "readers see " + ", ".join(part.where for part in found if part.visible)


def _points(part: AttemptRecord) -> bool:
    key = (part.key or b"").decode("utf-8", "replace")
    return part.value is not None and key.endswith((_HEAD, _CURRENT))


def _pointer(part: AttemptRecord) -> Head | Alias:
    decode = decode_head if (part.key or b"").endswith(_HEAD.encode()) else decode_alias
    return decode(part.value or b"")


def redirected(pointers: Sequence[AttemptRecord], version_offset: int) -> list[AttemptRecord]:
    """Return a version's head and `current`, changed to name the offset of its record."""
    moved = []
    for part in pointers:
        named = msgspec.structs.replace(_pointer(part), offset=version_offset)
        if isinstance(named, Head):
            moved.append(replace(part, value=encode_head(named)))
        else:
            moved.append(replace(part, value=encode_alias(named)))
    return moved
