"""The entries of the audit trail: who did what to which versions, and when; JSON, one record each.

Fields that do not apply are left out. Entries are for people and for whoever looks for what was retired; no reader of
models believes them.
"""

from __future__ import annotations

import msgspec

from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.pointers import Gate
from streamsvm.model.skill import Skill
from streamsvm.model.version import PartitionCut

Unset = msgspec.UnsetType
UNSET = msgspec.UNSET


class CurrentMoved(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="alias_moved"):
    """The trainer let `current` name a version.

    Attributes
    ----------
    name, alias : str
        The model, and the alias's key.
    to : int
        Number of the version.
    sha256 : str
    by, time : str
        Time as ISO 8601.
    gate : Gate or unset
        What the quality gate said; unset without a gate.
    skill : Skill or unset
        Whether the version knows something; unset where quality is not measured, and of more than two labels.
    class_skill : ClassSkill or unset
        The same of more than two labels.
    """

    name: str
    alias: str
    to: int
    sha256: str
    by: str
    time: str
    gate: Gate | Unset = UNSET
    skill: Skill | Unset = UNSET
    class_skill: ClassSkill | Unset = UNSET


class GateRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="gate_refused"):
    """The gate kept `current` where it was; fields as those of `CurrentMoved`."""

    name: str
    alias: str
    to: int
    sha256: str
    by: str
    time: str
    gate: Gate | Unset = UNSET
    skill: Skill | Unset = UNSET
    class_skill: ClassSkill | Unset = UNSET


class VersionRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="version_refused"):
    """A version was not published, because the broker or any reader refuses it; the next one has its number.

    Attributes
    ----------
    version : int
    cut : tuple of PartitionCut
    bytes : int
        Length of its value.
    why, by, session, time : str
    """

    version: int
    cut: tuple[PartitionCut, ...]
    bytes: int
    why: str
    by: str
    session: str
    time: str


class VersionsRetired(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="version_retired"):
    """Versions were retired: by the trainer that keeps the newest only, or by a person."""

    name: str
    versions: list[int]
    by: str
    reason: str
    time: str


class RowsErased(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="rows_erased"):
    """A person had rows of the input erased from what a trainer learns.

    Attributes
    ----------
    name : str
        The model.
    topic : str
        The input.
    rows : list of (int, int, int)
        Partition, offset and row of those that this asked for.
    by, reason, time : str
    """

    name: str
    topic: str
    rows: list[tuple[int, int, int]]
    by: str
    reason: str
    time: str


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A person moved an alias or a pin, or took it away.

    Attributes
    ----------
    event : str
        "alias_moved", "alias_removed", "pinned", "unpinned" or "rolled_back".
    name, alias : str
        The model, and the alias's key.
    before, to : int or None
        Numbers of the versions that it named before, and names now; `before` is "from" in JSON.
    sha256 : str or None
        Of the version that it names now.
    by, reason, time : str
        Who moved it (user@host), why, and when.
    """

    event: str
    name: str
    alias: str
    before: int | None = msgspec.field(name="from")
    to: int | None
    sha256: str | None
    by: str
    reason: str
    time: str


Entry = CurrentMoved | GateRefused | VersionRefused | VersionsRetired | RowsErased | Moved


def encode(entry: msgspec.Struct) -> bytes:
    """Encode an entry's value; a branch has entries of its own."""
    return msgspec.json.encode(entry)
