"""The part `info_left_out`: how many rows a version was not trained on, because nothing in the stream is like them."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import LeftOut, Version


class LeftOutPart(
    LeftOut, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_left_out"
):
    """A `LeftOut`, named."""


def encode(version: Version) -> LeftOutPart | None:
    """Return the part; None of a version that was trained on all rows, or points that stand for them."""
    left_out = version.lineage.left_out
    return None if left_out is None else LeftOutPart(**msgspec.structs.asdict(left_out))


def decode(part: LeftOutPart, draft: Draft) -> None:
    """Add the rows; raises `InvalidMessage` if there are none, or the bound is no share."""
    if part.rows < 1 or not 0.0 < part.max_leverage <= 1.0:
        raise InvalidMessage(f"info_left_out names {part.rows} rows beyond a leverage of {part.max_leverage}")
    draft.more["left_out"] = LeftOut(**msgspec.structs.asdict(part))


PART: Final = MessagePart(LeftOutPart, encode, decode)
