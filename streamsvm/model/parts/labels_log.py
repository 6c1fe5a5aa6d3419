"""The part `info_labels`: the log that the labels come from, where that is not the one of the features."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import Part
from streamsvm.model.version import LabelsLog, Version


class LabelsPart(LabelsLog, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_labels"):
    """A `LabelsLog`, named."""


def encode(version: Version) -> LabelsPart | None:
    """Return the part; None where labels come with the features."""
    log = version.lineage.labels
    return None if log is None else LabelsPart(**msgspec.structs.asdict(log))


def decode(part: LabelsPart, draft: Draft) -> None:
    """Add the log."""
    draft.more["labels"] = LabelsLog(**msgspec.structs.asdict(part))


PART: Final = Part(LabelsPart, encode, decode)
