"""The records of the aliases topic, as JSON: the head, the owner, retired versions, aliases, and what the gate said.

A record of these has no format number. The head, what it says of the gate, and the owner may get fields, with defaults:
older builds pass over them. An alias and the retired versions stay as they are, since half of what is meant would be
obeyed otherwise: what comes later has a key of its own, and builds pass over keys that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.ancestry import chosen
from streamsvm.model.version import PartitionCut, TuningInForce
from streamsvm.places import Count, Offset, OffsetOrUnknown, Partition, Row

Record = TypeVar("Record")


class GatePart(msgspec.Struct, frozen=True):
    """One partition's part of the points that the quality gate scored: those from `begin` to before `end`.

    Attributes
    ----------
    partition : int
    begin, end : tuple of (int, int)
        Offset and row.
    """

    partition: Partition
    begin: tuple[OffsetOrUnknown, Row]
    end: tuple[Offset, Row]


class GateRival(msgspec.Struct, frozen=True):
    """A version with which the quality gate compared: its place, as in an alias, and its balanced accuracy.

    Attributes
    ----------
    number : int
    sha256 : str
    offset : int
    balanced_accuracy : float or None
        None if no points were scored.
    """

    number: Count
    sha256: str
    offset: OffsetOrUnknown
    balanced_accuracy: float | None


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of the quality gate on a version; see `streamsvm.quality.gate`.

    The verdict depends on how much had been read when the version was ready, so it is never part of the hashed value.

    Attributes
    ----------
    outcome : "passed", "refused" or "unscored"
        "refused" leaves the alias `current` unchanged.
    why : str
        Why the version could not be scored, why it does not become the first current one, or why it passes whatever was
        scored; else empty.
    scored_on : "window", "audit", "training" or ""
        Points after the version's cut, the audit sample, or the training set.
    points : int
        Number of points scored.
    candidate, present : float or None
        Balanced accuracy of the version, and of the version that `current` names, on the same points.
    against : int or None
        Number of the version that `current` names; None if there is none.
    margin : float
        By how much the version may be worse and still pass.
    window : tuple of GatePart
        Positions of the points in the input; empty for the other samples.
    recent : tuple of GateRival
        The versions compared with: the current one, then those that were current before, the newest first.
    """

    outcome: Literal["passed", "refused", "unscored"]
    why: str
    scored_on: Literal["window", "audit", "training", ""]
    points: Count
    candidate: float | None
    present: float | None
    against: Count | None
    margin: float
    window: tuple[GatePart, ...]
    recent: tuple[GateRival, ...]

    @property
    def holds_back(self) -> bool:
        """Whether the version does not become current now."""
        return self.outcome == "refused"


class Alias(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an alias such as `name@current` names: a version's number, its value's SHA-256 and its record's offset.

    Attributes
    ----------
    number : int
    sha256 : str
    offset : int
    why : str
        Why it names the version whatever a gate said; empty, and not written, where a gate or a person decided.
    """

    number: Count
    sha256: str
    offset: OffsetOrUnknown
    why: str = ""

    @property
    def place(self) -> tuple[int, str, int]:
        """What it names, without the reason."""
        return self.number, self.sha256, self.offset


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of the models topic. Every transaction that publishes writes it; a starting trainer reads it.

    Attributes
    ----------
    number : int
        Number of the newest version.
    incarnation : int
    cut : tuple of PartitionCut
    sha256 : str
        SHA-256 of the newest version's value.
    offset : int
        Offset of its record in the models topic.
    training_set_sha256 : str
    build : mapping of str to str
    tuning : TuningInForce or None
        The tuning with which the newest version was trained; None without tuning.
    gate : Gate or None
        The quality gate's verdict on the newest version; None without a gate.
    links : tuple of Alias
        The versions to which the next version links (`streamsvm.model.ancestry`), as far as known.
    trained_sha256 : str
        Of the options that the newest version was trained with.
    """

    number: Count
    incarnation: Count
    cut: tuple[PartitionCut, ...]
    sha256: str
    offset: Offset
    training_set_sha256: str
    build: dict[str, str]
    tuning: TuningInForce | None = None
    gate: Gate | None = None
    links: tuple[Alias, ...]
    trained_sha256: str = ""

    @property
    def alias(self) -> Alias:
        """The value of an alias that names the newest version."""
        return Alias(self.number, self.sha256, self.offset)


class Retired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The retired versions. Readers trust this record only, because every writer of models can write tombstones.

    Attributes
    ----------
    below : int
        All versions with lower numbers are retired, by a trainer that keeps only the newest, except `kept`.
    kept : tuple of int
        Versions below `below` that are not retired, because an alias or a pin named them.
    others : tuple of int
        Further versions, which people retired, ascending.
    """

    below: Count
    kept: tuple[Count, ...]
    others: tuple[Count, ...]

    def __contains__(self, number: int) -> bool:
        """Return whether a version is retired."""
        return (number < self.below and number not in self.kept) or number in self.others

    def with_others(self, numbers: Iterable[int]) -> Retired:
        """Return the record after people retired more versions."""
        others = {*self.others, *numbers}
        kept = tuple(number for number in self.kept if number not in others)
        beyond = tuple(sorted(number for number in others if number >= self.below))
        return Retired(self.below, kept, beyond)


class Owner(msgspec.Struct, frozen=True):
    """The process that publishes: ``PID@HOST#`` and a random number, and the time when it took over (ISO 8601)."""

    session: str
    since: str


def head_key(name: str) -> str:
    """Return the key of the head record."""
    return f"{name}@head"


def owner_key(name: str) -> str:
    """Return the key of a model's owner record."""
    return f"{name}@owner"


def retired_key(name: str) -> str:
    """Return the key of the record of retired versions."""
    return f"{name}@retired"


def current_key(name: str) -> str:
    """Return the key of the alias that the trainer moves."""
    return f"{name}@current"


def pin_key(name: str) -> str:
    """Return the key of the pin, which people set to hold the readers of `current` at a version."""
    return f"{name}@current#pin"


def links_after(before: Head | None, number: int) -> tuple[Alias, ...]:
    """Return the links of the version after `number`; `before` is the head that version `number` followed."""
    known = () if before is None else (*before.links, before.alias)
    return chosen(number + 1, ((one.number, one) for one in known))


def encode_head(head: Head) -> bytes:
    """Encode a head record's value."""
    return msgspec.json.encode(head)


def decode_head(value: bytes) -> Head:
    """Decode a head record's value; `InvalidMessage` if it is not one."""
    return decode_record(value, Head)


def encode_owner(owner: Owner) -> bytes:
    """Encode an owner record's value."""
    return msgspec.json.encode(owner)


def decode_owner(value: bytes) -> Owner:
    """Decode an owner record's value; `InvalidMessage` if it is not one."""
    return decode_record(value, Owner)


def encode_retired(retired: Retired) -> bytes:
    """Encode the value of the record of retired versions."""
    return msgspec.json.encode(retired)


def decode_retired(value: bytes) -> Retired:
    """Decode the value of the record of retired versions; `InvalidMessage` if it is not one."""
    return decode_record(value, Retired)


def encode_alias(alias: Alias) -> bytes:
    """Encode an alias record's value."""
    return msgspec.json.encode(alias)


def decode_alias(value: bytes) -> Alias:
    """Decode an alias record's value; `InvalidMessage` if it is not one."""
    return decode_record(value, Alias)


def decode_record(value: bytes, form: type[Record]) -> Record:
    """Decode a record of a given form; `InvalidMessage` if it is not one."""
    try:
        return msgspec.json.decode(value, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(f"the value is not a {form.__name__.lower()} record: {error}") from None
