"""The part `info_memory`: what a version is of, where the trainer forgets (`coreset.memory`)."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Memory, Version


class MemoryPart(Memory, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_memory"):
    """A `Memory`, named."""


def encode(version: Version) -> MemoryPart | None:
    """Return the part; None of a version of everything."""
    memory = version.lineage.memory
    return None if memory is None else MemoryPart(**msgspec.structs.asdict(memory))


def decode(part: MemoryPart, draft: Draft) -> None:
    """Add the memory; raises `InvalidMessage` if it has weights of another number of labels."""
    for coverage in part.partitions:
        if len(coverage.before.class_weight) != len(draft.labels):
            raise InvalidMessage(
                f"info_memory has {len(coverage.before.class_weight)} class weights for {len(draft.labels)} labels"
            )
    draft.more["memory"] = Memory(**msgspec.structs.asdict(part))


PART: Final = MessagePart(MemoryPart, encode, decode)
