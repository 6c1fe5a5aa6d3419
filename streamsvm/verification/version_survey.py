"""Where every version of a model stands, from one reading of the models topic that decodes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Retired, current_key, retired_key
from streamsvm.model.version import version_key, version_number
from streamsvm.places import Count

INCARNATION_HEADER: Final = "streamsvm.incarnation"


class AuditNote(msgspec.Struct):
    """What is read of an entry of the audit trail: which versions are retired, or which alias moved."""

    event: str = ""
    name: str = ""
    alias: str = ""
    versions: tuple[Count, ...] = ()


def note_of(entry: bytes | None, name: str) -> AuditNote:
    """Return what one record of the audit trail says of a model, nothing of whatever else it is."""
    try:
        said = msgspec.json.decode(entry or b"", type=AuditNote)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return AuditNote()
    return said if said.name == name and said.event in ("version_retired", "alias_moved") else AuditNote()


@dataclass(slots=True, kw_only=True)
class VersionSurvey:
    """Where every version stands, from one reading of the models topic that decodes nothing.

    Attributes
    ----------
    name : str
    found : dict of int to list of (int, str)
        Offset and SHA-256 of each record of a number; more than one is a fault.
    retired : dict of int to int
        Offset of the first tombstone of a number.
    end : int
        Offset after the last record seen.
    gone : set of int
        Numbers that the audit trail says are retired: compaction removes the record, and then the tombstone, too.
    forged : dict of int to int
        Offset of the first tombstone of a number that nothing else says is retired.
    was_current : bool
        Whether the audit trail says that a version became current.
    """

    name: str
    found: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    retired: dict[int, int] = field(default_factory=dict)
    end: int = 0
    gone: set[int] = field(default_factory=set)
    forged: dict[int, int] = field(default_factory=dict)
    was_current: bool = False

    def note_audit(self, entry: bytes | None) -> None:
        """Take in one record of the audit trail, whatever it is of."""
        said = note_of(entry, self.name)
        self.gone.update(said.versions)
        self.was_current |= said.alias == current_key(self.name)

    def doubt(self, retired: Retired | None) -> None:
        """Believe no tombstone that neither the aliases topic nor the audit trail, both read since, knows of."""
        said = {number for number in self.retired if retired is not None and number in retired}
        self.forged = {number: at for number, at in self.retired.items() if number not in said | self.gone}
        self.retired = {number: at for number, at in self.retired.items() if number not in self.forged}

    @property
    def faults(self) -> list[str]:
        """Name the tombstones that are not believed."""
        return [
            f"a tombstone at offset {offset} says that {version_key(self.name, number)} is retired, but "
            f"neither {retired_key(self.name)} nor the audit trail does: streamsvm did not write the "
            "tombstone"
            for number, offset in sorted(self.forged.items())
        ]

    @property
    def has_gaps(self) -> bool:
        """Whether a number below the newest has neither a record nor a tombstone."""
        return len(self.found.keys() | self.retired.keys()) < self.newest

    def is_retired(self, number: int) -> bool:
        """Return whether a number was retired, as its tombstone says, or the audit trail."""
        return number in self.retired or number in self.gone

    def note(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Take in one record, in the order of the log."""
        self.end = offset + 1
        number = version_number(key, self.name)
        if number is None:
            return
        if value is None:
            self.retired.setdefault(number, offset)
        else:
            self.found.setdefault(number, []).append((offset, model_codec.sha256(value)))

    @property
    def newest(self) -> int:
        """The greatest number, 0 if there is none."""
        return max((*self.found, *self.retired, *self.gone), default=0)

    def hashes(self, number: int) -> set[str]:
        """Return the SHA-256 of every record of a number."""
        return {sha256 for _, sha256 in self.found.get(number, ())}
