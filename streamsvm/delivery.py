"""Publish and recovery as a state machine without I/O or clock: what a start finds decides what it does.

The log decides: the record set that publishes a version is its commit point, and the head record among it says where
the topic stands. A checkpoint only caches a pure function of the log, so recovery never trusts it over the topic.

Invariants: numbers rise by one; within an incarnation each version's cut follows the one before it in every partition
and differs from it; a cut at or behind the head's is never published again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamsvm.codec.checkpoint import Snapshot
from streamsvm.codec.model import Head, positions
from streamsvm.errors import StateError
from streamsvm.points import Position, Positions, precedes

FIRST_INCARNATION: Final = 1


@dataclass(frozen=True, slots=True)
class Present:
    """What the world is like at a start.

    Attributes
    ----------
    name : str
    topic, topic_id : str
        Of the input; the id is empty where the broker tells none.
    configuration : mapping
        The model-affecting one, and its hash.
    configuration_sha256 : str
    log : mapping of partition to (int, int)
        First offset and end of each partition of the input.
    head : Head or None
        The newest head record of the models topic.
    reset : str
        What `--reset` said; empty if nothing.
    """

    name: str
    topic: str
    topic_id: str
    configuration: dict[str, Any]
    configuration_sha256: str
    log: Mapping[int, tuple[int, int]]
    head: Head | None
    reset: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin an incarnation at the configured start; numbers go on after `head`."""

    incarnation: int
    head: Head | None


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on from a checkpoint; `reset_ignored` if a reset was asked for that did not apply."""

    snapshot: Snapshot
    head: Head | None
    reset_ignored: bool


def reset_token(name: str, incarnation: int) -> str:
    """Return what `--reset` must say to end an incarnation."""
    return f"{name}/{incarnation}"


def decide(snapshot: Snapshot | None, present: Present) -> Begin | Resume:
    """Decide how to start.

    Parameters
    ----------
    snapshot : Snapshot or None
        The newest valid checkpoint.
    present : Present

    Raises
    ------
    StateError
        If going on could be silently wrong; the message names both values and the exact way to begin anew.
    """
    head = present.head
    if snapshot is None:
        if head is None:
            return Begin(FIRST_INCARNATION, None)
        refusal = f"the models topic holds {present.name}@{head.number}, but there is no checkpoint to go on from"
        return _refuse_or_reset(refusal, present, head.incarnation, head)
    refusal = _refusal(snapshot, present)
    if refusal:
        newest = max((found for found in (head, snapshot.head) if found), key=lambda found: found.number, default=None)
        ended = max(snapshot.incarnation, head.incarnation if head else 0)
        return _refuse_or_reset(refusal, present, ended, newest)
    return Resume(snapshot, head or snapshot.head, reset_ignored=bool(present.reset))


def _refuse_or_reset(refusal: str, present: Present, ended: int, head: Head | None) -> Begin:
    token = reset_token(present.name, ended)
    if present.reset == token:
        return Begin(ended + 1, head)
    raise StateError(
        refusal,
        "Put back the checkpoint or the configuration that belongs to it, or begin anew from the configured start "
        f"(version numbers go on) with --reset {token}",
    )


def _refusal(snapshot: Snapshot, present: Present) -> str:
    """Say why this checkpoint must not be used, or nothing."""
    if snapshot.name != present.name:
        return f"the checkpoint belongs to the model {snapshot.name!r}, this one is {present.name!r}"
    if snapshot.configuration_sha256 != present.configuration_sha256:
        differences = "; ".join(_differences(snapshot.configuration, present.configuration))
        return f"the configuration differs from the checkpoint's: {differences}"
    if (snapshot.topic, snapshot.topic_id) != (present.topic, present.topic_id):
        return (
            f"the checkpoint was made from the topic {snapshot.topic!r} (id {snapshot.topic_id or 'unknown'}), "
            f"the input is {present.topic!r} (id {present.topic_id or 'unknown'})"
        )
    head = present.head
    if head is not None and head.incarnation > snapshot.incarnation:
        return (
            f"the models topic is at incarnation {head.incarnation}, the checkpoint at {snapshot.incarnation}: "
            "another trainer went on"
        )
    if snapshot.head is not None and (head is None or head.number < snapshot.head.number):
        found = f"ends at {present.name}@{head.number}" if head else f"holds no {present.name}"
        return f"the checkpoint knows {present.name}@{snapshot.head.number}, but the models topic {found}"
    return _out_of_log(snapshot, present)


def _out_of_log(snapshot: Snapshot, present: Present) -> str:
    wanted: list[tuple[str, Positions]] = [("the checkpoint", snapshot.positions)]
    if present.head is not None and present.head.incarnation == snapshot.incarnation:
        wanted.append((f"{present.name}@{present.head.number}", positions(present.head.cut)))
    for who, vector in wanted:
        for partition, position in vector.items():
            if partition not in present.log:
                return f"{who} stands in partition {partition} of {present.topic}, which does not exist"
            first, end = present.log[partition]
            if position.offset > end or (position.offset == end and position.row):
                return (
                    f"{who} stands at offset {position.offset} of {present.topic}[{partition}], "
                    f"which ends at {end}: the topic was truncated or recreated"
                )
            if who == "the checkpoint" and position.offset < first:
                return (
                    f"the checkpoint stands at offset {position.offset} of {present.topic}[{partition}], "
                    f"which begins at {first}: retention removed {first - position.offset} records unread"
                )
    return ""


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    found = []
    for key in sorted(before.keys() | now.keys()):
        name = f"{path}.{key}" if path else key
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, name)
        elif old != new:
            found.append(f"{name} was {old!r}, is {new!r}")
    return found


class Delivery:
    """Where publishing stands, within one process.

    Parameters
    ----------
    incarnation : int
    head : Head or None
        The newest head record; it may be of an earlier incarnation.
    """

    def __init__(self, incarnation: int, head: Head | None) -> None:
        self._incarnation = incarnation
        self._head = head

    @property
    def incarnation(self) -> int:
        """Number of the incarnation that publishes."""
        return self._incarnation

    @property
    def head(self) -> Head | None:
        """The newest head."""
        return self._head

    @property
    def next_number(self) -> int:
        """Number of the next version."""
        return self._head.number + 1 if self._head else 1

    @property
    def parent(self) -> str | None:
        """SHA-256 of the newest version."""
        return self._head.sha256 if self._head else None

    @property
    def published_cut(self) -> dict[int, Position]:
        """The newest cut that this incarnation published; empty if none."""
        if self._head is None or self._head.incarnation != self._incarnation:
            return {}
        return positions(self._head.cut)

    def admits(self, cut: Positions) -> bool:
        """Tell whether a cut may become a version: at or past the head's everywhere, and not the same."""
        published = self.published_cut
        return precedes(published, cut) and dict(cut) != published

    def replaying(self, reached: Positions) -> bool:
        """Tell whether some partition is still behind the head's cut."""
        return any(reached[partition] < position for partition, position in self.published_cut.items())

    def published(self, head: Head) -> None:
        """Note that a version is committed."""
        assert head.number == self.next_number
        self._head = head
