"""The part `info_refined`: which version a version was refined from, and how (`streamsvm scale refine`)."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import SHA256
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import LEAST_KEPT, Version

MOST_KEPT: Final = 1 << 24
"""Most rows that a refinement keeps whole."""
MOST_READS: Final = 100
"""Most reads of a refinement: who recomputes a version does as many as it names."""


class Refined(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From which version a refined one was made, and how: its rows were read again, so often, under better machines.

    Attributes
    ----------
    name : str
    number : int
    sha256 : str
        Of the version that was refined; its cut, configuration and tuning are those of this lineage.
    keep : int
        Rows that were kept whole at each read.
    reads : int
    objective : float
        The machine's, over all rows as they were learned, is at most this.
    bound : float
        That of no machine over the same scaler, C and class weights is below this.
    bounded : int
        Rows that were learned with other values than they came with: outliers within their bounds. With 0 both bounds
        are proven of the rows that came.
    """

    name: str
    number: int
    sha256: str
    keep: int
    reads: int
    objective: float
    bound: float
    bounded: int = 0


class RefinedPart(Refined, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_refined"):
    """A `Refined`, named, with all of its fields."""

    bounded: int


def encode(version: Version) -> RefinedPart | None:
    """Return the part; None of what a trainer publishes."""
    refined = version.lineage.fact(Refined)
    return None if refined is None else RefinedPart(**msgspec.structs.asdict(refined))


def decode(part: RefinedPart, draft: Draft) -> None:
    """Add where the version comes from; raises `InvalidMessage` if that is not possible."""
    refined = Refined(**msgspec.structs.asdict(part))
    _check(refined)
    draft.facts.append(refined)


def _check(refined: Refined) -> None:
    if not SHA256.fullmatch(refined.sha256):
        raise InvalidMessage(f"info_refined.sha256 is {refined.sha256!r}, which is not a SHA-256")
    is_possible = 1 <= refined.reads <= MOST_READS and LEAST_KEPT <= refined.keep <= MOST_KEPT
    if refined.number < 1 or not is_possible:
        raise InvalidMessage(
            f"info_refined names version {refined.number}, {refined.reads} reads and {refined.keep} rows kept; "
            f"possible are versions from 1 on, 1 to {MOST_READS} reads, and {LEAST_KEPT} to {MOST_KEPT} rows"
        )
    if not 0.0 <= refined.bound <= refined.objective < math.inf:
        raise InvalidMessage(
            f"info_refined has the objective {refined.objective} and the bound {refined.bound}: the bound must be "
            "0 or more, and not above the objective"
        )
    if refined.bounded < 0:
        raise InvalidMessage(f"info_refined says that {refined.bounded} rows were bounded")


PART: Final = MessagePart(RefinedPart, encode, decode)
