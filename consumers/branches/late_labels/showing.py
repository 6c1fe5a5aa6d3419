"""What `streamsvm model show` says of a version whose labels came late."""

from __future__ import annotations

from typing import Final

from consumers.models.show import ShownFacts, cut_text
from streamsvm.branches.late_labels.labels_part import LabelsLog
from streamsvm.model.version import Version


def lines(version: Version) -> list[tuple[str, str]]:
    """Say which topic labels came from, and up to where; nothing where they came with the points."""
    labels = version.lineage.fact(LabelsLog)
    if labels is None:
        return []
    topic = labels.topic + (f" (id {labels.topic_id})" if labels.topic_id else "")
    return [("labels", f"{topic} up to {cut_text(labels.cut)}")]


SHOWN: Final = ShownFacts(lines)
