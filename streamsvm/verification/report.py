"""What `verify` found: one row for each version, and what the whole run came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

import msgspec

from streamsvm.certificate import Certificate
from streamsvm.model.version import version_key

EXIT_CLEAN: Final = 0
EXIT_DIFFERS: Final = 1
EXIT_INCOMPLETE: Final = 3


class Outcome(StrEnum):
    """What was found out about one record of a version."""

    IDENTICAL = "identical"
    DIFFERS = "differs"
    FOREIGN = "foreign"
    UNAVAILABLE = "unavailable"
    LEFT_OUT = "erased"
    RETIRED = "retired"
    PASSED = "passed"


MEANINGS: Final[Mapping[Outcome, str]] = {
    Outcome.IDENTICAL: "recomputed, and identical to the last byte",
    Outcome.DIFFERS: "contradicts its lineage, its place in the topic or its own hash",
    Outcome.FOREIGN: "recomputed and different, but made by another build or for another CPU, so no verdict is "
    "possible",
    Outcome.UNAVAILABLE: "not recomputed: the log no longer holds its input, or this build cannot recompute it",
    Outcome.LEFT_OUT: "cannot be made again: rows of it were erased",
    Outcome.RETIRED: "retired, not recomputed",
    Outcome.PASSED: "not requested: its place in the topic was checked, its content was not",
}
"""Every outcome, for people."""


@dataclass(frozen=True, slots=True)
class RecordFinding:
    """The finding about one record.

    Attributes
    ----------
    number : int
    offset : int
        Of the record in the models topic.
    outcome : Outcome
    faults : tuple of str
        What is wrong; none unless it `DIFFERS`.
    note : str
        Why it was not checked, or what differs on another build.
    certificate : Certificate or None
        What all rows of its input prove of it, if that was asked for.
    """

    number: int
    offset: int
    outcome: Outcome
    faults: tuple[str, ...] = ()
    note: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """What a verification found.

    Attributes
    ----------
    name, models_topic : str
    rows : tuple of RecordFinding
        In the order of the models topic.
    faults : tuple of str
        What is wrong with the topic as a whole, and with its aliases.
    notes : tuple of str
        What could not be checked besides single versions.
    input_rows : int
        Rows of the input that were learned.
    seconds : float
        Wall time of it all.
    """

    name: str
    models_topic: str
    rows: tuple[RecordFinding, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    input_rows: int
    seconds: float

    @property
    def differs(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.faults) or any(row.faults for row in self.rows)

    @property
    def complete(self) -> bool:
        """Whether everything that was requested could be checked."""
        unchecked = {Outcome.FOREIGN, Outcome.UNAVAILABLE, Outcome.LEFT_OUT}
        return not self.notes and not any(row.outcome in unchecked for row in self.rows)

    @property
    def clean(self) -> bool:
        """Whether everything was checked and nothing is wrong."""
        return self.complete and not self.differs

    @property
    def exit_status(self) -> int:
        """0: clean; 1: something is wrong; 3: nothing is, but not everything could be checked."""
        if self.differs:
            return EXIT_DIFFERS
        return EXIT_CLEAN if self.complete else EXIT_INCOMPLETE

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many versions came to each outcome."""
        found = Counter(row.outcome for row in self.rows)
        return {outcome: found[outcome] for outcome in Outcome if found[outcome]}

    def lines(self) -> Iterator[str]:
        """Yield each finding in a line; versions in a row that share a reason share its line."""
        for fault in self.faults:
            yield fault
        for row in self.rows:
            for fault in row.faults:
                yield f"{version_key(self.name, row.number)} (offset {row.offset}): {fault}"
        for row in self.rows:
            if row.certificate is not None:
                yield f"{version_key(self.name, row.number)}: {row.certificate}"
        yield from self.notes
        noted = [row for row in self.rows if row.note]
        for (outcome, note), group in groupby(noted, key=lambda row: (row.outcome, row.note)):
            yield f"{self._span([row.number for row in group])}: {MEANINGS[outcome]}: {note}"

    def _span(self, numbers: Sequence[int]) -> str:
        first = version_key(self.name, numbers[0])
        return first if len(numbers) == 1 else f"{first} to {version_key(self.name, numbers[-1])}"

    def plain(self) -> dict[str, Any]:
        """Return the whole report as a plain JSON value."""
        return {
            "name": self.name,
            "models_topic": self.models_topic,
            "clean": self.clean,
            "exit_status": self.exit_status,
            "counts": {outcome.value: count for outcome, count in self.counts.items()},
            "faults": list(self.faults),
            "notes": list(self.notes),
            "versions": [_plain(row) for row in self.rows],
            "input_rows": self.input_rows,
            "seconds": round(self.seconds, 6),
        }


def _plain(row: RecordFinding) -> dict[str, Any]:
    """Return a row as a plain JSON value; the certificate only where one was requested."""
    plain: dict[str, Any] = msgspec.to_builtins(row)
    if row.certificate is None:
        del plain["certificate"]
    return plain
