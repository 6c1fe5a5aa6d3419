"""The part `info_deletes`: up to where deletes of a topic of their own were applied to a version."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version
from streamsvm.places import Offset, Partition

By = Literal["id", "key"]
"""What a delete names."""


class DeletesApplied(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The log of deletes that a version obeys, and how much of both logs was looked at.

    Attributes
    ----------
    topic, topic_id : str
        Of the deletes; the id is empty if the broker does not report topic ids.
    by : "id" or "key"
        What a delete names.
    cut : tuple of (int, int)
        Partition, and the offset before which every delete was applied.
    input : tuple of (int, int)
        Partition of the input, and the offset before which rows were looked at for them: a row past it that is named
        by such a delete is taken out later.
    """

    topic: str
    topic_id: str
    by: By
    cut: tuple[tuple[Partition, Offset], ...]
    input: tuple[tuple[Partition, Offset], ...]


class DeletesPart(
    DeletesApplied, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_deletes"
):
    """A `DeletesApplied`, named."""


def encode(version: Version) -> DeletesPart | None:
    """Return the part; None where no deletes are read."""
    found = version.lineage.fact(DeletesApplied)
    return None if found is None else DeletesPart(**msgspec.structs.asdict(found))


def decode(part: DeletesPart, draft: Draft) -> None:
    """Add the log; raises `InvalidMessage` if partitions are not in order."""
    for name, pairs in (("cut", part.cut), ("input", part.input)):
        partitions = [partition for partition, _ in pairs]
        if partitions != sorted(set(partitions)):
            raise InvalidMessage(f"info_deletes.{name} names the partitions {partitions[:20]}, which do not ascend")
    draft.facts.append(DeletesApplied(**msgspec.structs.asdict(part)))


PART: Final = MessagePart(DeletesPart, encode, decode)
