"""What happened on the way from rows to a published version: facts, to be counted, logged or shown.

Pipeline and publisher return them. Observers (metrics, log, page) read them, and change nothing that is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsvm.errors import StreamsvmError
from streamsvm.learning.learner import TakenCut
from streamsvm.learning.recipe import Made
from streamsvm.model.pointers import Gate, Head
from streamsvm.model.skill_header import AnySkill
from streamsvm.model.version import Version
from streamsvm.points import Rows


@dataclass(frozen=True, slots=True)
class RowsLearned:
    """Rows were learned; `again` if the newest version has learned them before."""

    rows: Rows
    again: bool


@dataclass(frozen=True, slots=True)
class CutTaken:
    """A due cut was taken; `replaced` if one that waited to be trained gave way to it."""

    cut: TakenCut
    replaced: bool


@dataclass(frozen=True, slots=True)
class CutDeclined:
    """A due cut was not taken: it was published before, or lies behind what was."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Reading again has reached the newest version's cut in every partition; all partitions are read from here on."""

    version: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """Where reading goes on.

    Attributes
    ----------
    offsets : dict of partition to int
        While reading again, those of the partitions that are behind.
    again : bool
        Whether rows are read again up to the newest version.
    at_newest : bool
        Whether the learner stands exactly where the newest version was cut.
    differs : str
        How the training set there differs from the published one, where another build made it; else empty.
    """

    offsets: dict[int, int]
    again: bool
    at_newest: bool
    differs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A version is published.

    Attributes
    ----------
    version : Version
    made : Made
    head : Head
        That names it.
    gate : Gate or None
    skill : Skill or None
        None where quality is not measured.
    time : datetime
    value_bytes : int
    after_doubt : bool
        Whether only the topic could tell, after a transaction of unknown outcome.
    """

    version: Version
    made: Made
    head: Head
    gate: Gate | None
    skill: AnySkill | None
    time: datetime
    value_bytes: int
    after_doubt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The broker, or any reader, refuses a version; the next one takes its number."""

    version: Version
    made: Made
    value_bytes: int
    why: StreamsvmError


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A training needs no publishing: a version of its cut, or of a later one, is published."""

    made: Made
