"""What a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamsvm.joining.joiner import JoinState
from streamsvm.learning.cutting import Cut, LearnerState
from streamsvm.model.pointers import Head
from streamsvm.points import Position, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a checkpoint holds of a join.

    Attributes
    ----------
    topic, topic_id : str
        Of the labels.
    base : mapping of partition to Position
        Where labels began to count.
    partitions : mapping of partition to JoinState
    waiting : mapping of partition to Rows
        Joined, and not learned yet; partitions in which nothing waits are left out.
    """

    topic: str
    topic_id: str
    base: Mapping[int, Position]
    partitions: Mapping[int, JoinState]
    waiting: Mapping[int, Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """Which record of erased rows a checkpoint was made under, from the first row that was learned on.

    Attributes
    ----------
    sha256 : str
        Of the record `name@erased`.
    continues : int
        The incarnation whose newest version this one continues: nothing is published before its cut is reached again.
        0: there is none.
    """

    sha256: str
    continues: int


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
    joining : Joining or None
        None where labels come with the features.
    erased : Obeyed or None
        None where no row was erased of the input.
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
    joining: Joining | None = None
    erased: Obeyed | None = None

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return self.learner.positions
