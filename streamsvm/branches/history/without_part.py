"""The part `info_without`: under which record of erased rows a version was made."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import SHA256
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class WithoutRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of erased rows that a version obeys: it is of none of them.

    Attributes
    ----------
    sha256 : str
        Of the record `name@erased` as it was when the version was made.
    """

    sha256: str


class WithoutPart(
    WithoutRows, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_without"
):
    """A `WithoutRows`, named."""


def encode(version: Version) -> WithoutPart | None:
    """Return the part; None where nothing was erased of the input."""
    without = version.lineage.fact(WithoutRows)
    return None if without is None else WithoutPart(**msgspec.structs.asdict(without))


def decode(part: WithoutPart, draft: Draft) -> None:
    """Add which record it is; raises `InvalidMessage` if the part names no hash."""
    if not SHA256.fullmatch(part.sha256):
        raise InvalidMessage(f"info_without.sha256 is {part.sha256[:64]!r}, which is not a SHA-256")
    draft.facts.append(WithoutRows(sha256=part.sha256))


PART: Final = MessagePart(WithoutPart, encode, decode)
