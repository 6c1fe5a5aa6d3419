"""What can be wrong with logs or with a history: a closed list of names, each with its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lost-version": "a trainer said that a version is published, and no committed record of it is there",
        "lost-score": "the group has passed a point, or a scorer counted it as scored, and no committed score is there",
        "lost-move": "an operator was told that a move is done, and no committed record of it is there",
        "torn-version": "a version is committed without head, alias or audit entry, or one of those without it",
        "torn-move": "an alias is moved without an audit entry, or the reverse",
        "doubled-version": "a number is published twice, or named twice by head or audit trail",
        "doubled-score": "a point is answered twice",
        "doubled-move": "one call of an operator moved something twice",
        "missing-version": "a number is left out",
        "reordered": "numbers, heads or cuts go back",
        "zombie": "a process publishes after another one has taken over",
        "aborted-read": "a reader of committed records, or a subscriber, got what is not committed in the end",
        "refused-but-done": "an operator was told that nothing was done, and it was",
        "skipped-read": "a reader of committed records went past a record that is committed",
        "inconsistent-read": "two readers found different records at one offset, or offsets went back under a reader",
        "forged": "a hash, a parent or an incarnation is not what its record says",
        "disobeyed-gate": "alias, audit trail or what is compared are not what the gate's word makes of them",
        "lost-letter": "a row that is refused was passed, and no dead letter of it is there",
        "forged-letter": "a dead letter is of a row that is sound",
        "forged-score": "a score names a version or a hash that no committed version has",
        "mixed": "a version is of other rows than those of the topic that it names, below its cut",
        "incomplete-manifest": "at some prefix of what workers left the highest manifest lacks a part",
        "rewritten-state": "workers left other bytes under one name",
        "adopted-incomplete": "a version stands where no complete manifest of a worker stood",
        "misjoined": "rows were joined, or refused, that the rule of the join over both logs does not join, or refuse",
        "unasked": "a scorer answered points of a topic that was made again, though it was to stop before it",
        "phantom": "a version or score was made of points that were never fed",
        "stuck-reader": "the last stable offset stood still below the end beyond the bound, nothing being wrong",
        "stuck-trainer": "points wait, and no version covers them, for longer than the bound after all was well again",
        "stuck-scorer": "points wait without an answer for longer than the bound after all was well again",
        "stuck-and-green": "a daemon called itself healthy all the time while its topics stood still beyond the bound",
        "refused-to-start": "a daemon ended with a refusal that nothing explains, or without both ids of a topic",
    }
)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that must not be.

    `name`: One of `NAMES`. `why`: One sentence. `records`: What it concerns: topic[partition]@offset, version, point,
    call or process.
    """

    name: str
    why: str
    records: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.name in NAMES, self.name

    def line(self, most: int = 6) -> str:
        """Return it for people."""
        named = ", ".join(self.records[:most]) + (
            f" and {len(self.records) - most} more" if self.records[most:] else ""
        )
        return f"{self.name}: {self.why}" + (f" ({named})" if named else "")


def each(name: str, why: str, records: Iterable[str]) -> list[Anomaly]:
    """Return one anomaly that concerns all these records, or none if there are none."""
    concerned = tuple(records)
    return [Anomaly(name, why, concerned)] if concerned else []
