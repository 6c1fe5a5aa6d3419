"""The log of labels as a start finds it, and whether a checkpoint can go on with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streamsvm.branches.late_labels.joining import joining_of
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.delivery.decision import Present, SideLog


@dataclass(frozen=True, slots=True)
class LabelsPresent(SideLog):
    """A log of labels.

    Attributes
    ----------
    topic, topic_id : str
        The id is empty if unknown.
    log : mapping of partition to (int, int)
        First offset and end of each partition.
    """

    topic: str
    topic_id: str
    log: Mapping[int, tuple[int, int]]

    def difference(self, snapshot: Snapshot, present: Present) -> str:
        """Say in what labels, or partitions, differ from those of a checkpoint of a join."""
        joining = joining_of(snapshot)
        if joining is None:  # a difference of the configuration
            return ""
        if joining.topic != self.topic:
            return (
                f"the checkpoint was made with labels of the topic {joining.topic!r}, but labels.topic is "
                f"{self.topic!r}"
            )
        if len(joining.base) != len(self.log) or len(snapshot.base) != len(present.log):
            return (
                f"the checkpoint was made from {len(joining.base)} partitions, but {present.topic} has "
                f"{len(present.log)} and {self.topic} {len(self.log)}: where partitions are added, keys move, and rows "
                "miss their labels"
            )
        return ""

    def gaps(self, snapshot: Snapshot) -> Iterator[str]:
        """Say where the log of labels does not hold what was read, or what is to be read next."""
        joining = joining_of(snapshot)
        if joining is None:
            return
        if joining.topic_id != self.topic_id:
            yield (
                f"the checkpoint was made with labels of the topic {joining.topic!r} with id "
                f"{joining.topic_id or 'unknown'}, but the topic has the id {self.topic_id or 'unknown'}: it was "
                "recreated"
            )
            return
        for partition, at in sorted(joining.labels_next.items()):
            first, end = self.log.get(partition, (0, 0))
            where = f"{self.topic}[{partition}]"
            if at.offset > end or (at.offset == end and at.row):
                yield (
                    f"the checkpoint is at offset {at.offset} of {where}, but {where} ends at {end}: the topic was "
                    "truncated or recreated"
                )
            if at.offset < first:
                yield (
                    f"the checkpoint is at offset {at.offset} of {where}, but {where} begins at {first}: retention "
                    f"removed {first - at.offset} unread records"
                )
