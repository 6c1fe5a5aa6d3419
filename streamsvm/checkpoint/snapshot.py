"""What a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from streamsvm.learning.learner import Cut, LearnerState
from streamsvm.model.pointers import Head
from streamsvm.points import Position

Kind = TypeVar("Kind")


class RememberedPart:
    """A part of a branch that is so small that a directory of checkpoints remembers it of each file.

    Attributes
    ----------
    sha256 : str
        Of the record that says which rows were left out: one of the names of the state.
    """

    sha256: str

    def check(self, incarnation: int) -> None:
        """Raise `CorruptCheckpoint` where a checkpoint of an incarnation cannot have this part."""
        raise NotImplementedError


class ReadAhead:
    """A part of a branch that reads the input and a log beside it, and holds what lies between and what is learned.

    Attributes
    ----------
    topic, topic_id : str
        Of the log beside the input; the id is empty if unknown.
    base : mapping of partition to Position
        Where that log began to count.
    """

    topic: str
    topic_id: str
    base: Mapping[int, Position]

    def emptied(self) -> ReadAhead:
        """Return what it is where nothing of either log was read."""
        raise NotImplementedError

    @property
    def ahead(self) -> Mapping[int, tuple[Position, int]]:
        """Of each partition the next row to read, and the leader epoch of the newest record read; -1 if unknown."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The learner's state, a pure function of the log, and what it belongs to.

    Attributes
    ----------
    name : str
    incarnation : int
    sequence : int
        Increases by one with each checkpoint written.
    topic, topic_id : str
    base : mapping of partition to Position
        Where this incarnation began.
    configuration : mapping
        The part of the configuration that affects models.
    configuration_sha256 : str
    build : mapping of str to str
    head : Head or None
        The newest head record seen.
    learner : LearnerState
    pending : Cut, LearnerState or None
        A cut that was not published yet: with its training set; or, where that was not made yet, what the learner was
        when the cut was taken.
    read_to : mapping of partition to int
        Offsets past the positions of some partitions. Between position and offset the log held nothing to learn, only
        transaction markers and aborted records.
    parts : mapping of str to object
        What branches keep of themselves there, by the name of their `Kind` at the socket ``state_kinds``.
    """

    name: str
    incarnation: int
    sequence: int
    topic: str
    topic_id: str
    base: Mapping[int, Position]
    configuration: dict[str, Any]
    configuration_sha256: str
    build: dict[str, str]
    head: Head | None
    learner: LearnerState
    pending: Cut | LearnerState | None
    read_to: Mapping[int, int] = field(default_factory=dict)
    parts: Mapping[str, object] = field(default_factory=dict)

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return self.learner.positions

    @property
    def ahead(self) -> Mapping[int, tuple[Position, int]] | None:
        """See `ReadAhead.ahead`; None where nothing was read further than what is learned."""
        return next((part.ahead for part in self.parts.values() if isinstance(part, ReadAhead)), None)

    @property
    def marks(self) -> dict[str, RememberedPart]:
        """The marks among the parts of branches, by name."""
        return {name: part for name, part in self.parts.items() if isinstance(part, RememberedPart)}

    def part(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return what a branch keeps of itself under a name; None where it keeps nothing."""
        found = self.parts.get(name)
        assert found is None or isinstance(found, kind)
        return found

    def with_part(self, name: str, part: object | None) -> Snapshot:
        """Return the same with another part of that name; None: without it."""
        others = {other: kept for other, kept in self.parts.items() if other != name}
        return replace(self, parts=others if part is None else {**others, name: part})
