"""The part `info_labels`: the log that the labels come from, where that is not the one of the features."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import PartitionCut, Version


class LabelsLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The log that a version's labels come from; none where they come with the features.

    With it, a position in the lineage's `cut` is the offset of the newest features record merged, and how many points
    were joined since.

    Attributes
    ----------
    topic, topic_id : str
        The id is empty if the broker does not report topic ids.
    cut, base : tuple of PartitionCut
        Positions up to which, and from which, labels counted; leader epochs are not told (-1).
    """

    topic: str
    topic_id: str
    cut: tuple[PartitionCut, ...]
    base: tuple[PartitionCut, ...]


class LabelsPart(LabelsLog, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_labels"):
    """A `LabelsLog`, named."""


def encode(version: Version) -> LabelsPart | None:
    """Return the part; None where labels come with the features."""
    log = version.lineage.fact(LabelsLog)
    return None if log is None else LabelsPart(**msgspec.structs.asdict(log))


def decode(part: LabelsPart, draft: Draft) -> None:
    """Add the log."""
    draft.facts.append(LabelsLog(**msgspec.structs.asdict(part)))


PART: Final = MessagePart(LabelsPart, encode, decode)
