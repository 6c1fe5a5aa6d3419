"""What the lineage of a version says of the log of its labels, and whether that log still holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsvm.branches.late_labels.labels_part import LabelsLog
from streamsvm.learning.learner import Cut
from streamsvm.model.version import Version, partition_cuts, positions
from streamsvm.points import Position, Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsOrigin:
    """A log of labels: its topic, the topic's id (empty if unknown), and where labels began to count."""

    topic: str
    topic_id: str
    base: Positions

    def fact(self, cut: Cut) -> LabelsLog:
        """Return what a lineage says of it; an offset of -1 in the cut: no label counted yet."""
        offsets = cut.beside_offsets
        until = {
            partition: at if offsets.get(partition, -1) < 0 else Position(offsets[partition])
            for partition, at in self.base.items()
        }
        return LabelsLog(
            topic=self.topic,
            topic_id=self.topic_id,
            cut=partition_cuts(until, {}),
            base=partition_cuts(self.base, {}),
        )

    def missing(self, version: Version, topic_id: str | None, log: Mapping[int, tuple[int, int]]) -> str:
        """Say which part of a version's labels their log does not hold, or nothing.

        Parameters
        ----------
        version : Version
        topic_id : str or None
            The topic's id now; None where there is no such topic.
        log : mapping of partition to (int, int)
            First offset and end of each partition now.
        """
        labels = version.lineage.fact(LabelsLog)
        assert labels is not None
        if topic_id is None:
            return f"the topic {labels.topic} of the labels no longer exists"
        if topic_id != labels.topic_id:
            return (
                f"the topic {labels.topic} of the labels was recreated: its id is {topic_id or 'unknown'}, but the "
                f"version was made from the id {labels.topic_id or 'unknown'}"
            )
        base, cut, cut_of_rows = positions(labels.base), positions(labels.cut), positions(version.lineage.cut)
        if not base.keys() == cut.keys() == cut_of_rows.keys() or not all(
            Position(0) <= base[partition] <= cut[partition] for partition in cut
        ):
            return "base and cut of the version's lineage.labels do not fit together"
        gone = []
        for partition, at in sorted(cut.items()):
            first, end = log.get(partition, (0, -1))
            if first > base[partition].offset and at != base[partition]:
                gone.append(f"partition {partition}: offsets {base[partition].offset:,}-{first - 1:,} were removed")
            if at.offset > end:
                gone.append(f"partition {partition} ends at offset {end:,}: the topic was truncated")
        return f"{labels.topic}: {'; '.join(gone)}" if gone else ""


def labels_origin_of(version: Version) -> LabelsOrigin | None:
    """Return the log of a version's labels; None where they come with the features."""
    log = version.lineage.fact(LabelsLog)
    return None if log is None else LabelsOrigin(topic=log.topic, topic_id=log.topic_id, base=positions(log.base))
