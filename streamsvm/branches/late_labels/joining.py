"""What a checkpoint holds of a join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from streamsvm.checkpoint.snapshot import ReadAhead, Snapshot
from streamsvm.coreset.state import Kind, require_lengths
from streamsvm.errors import CorruptCheckpoint
from streamsvm.joining.rows import COUNTED, JoinState, LogState
from streamsvm.points import Position, Rows

PART: Final = "join"
"""The name of the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining(ReadAhead):
    """A log of labels, and how far it is joined with the features.

    Attributes
    ----------
    topic, topic_id : str
        Of the labels.
    base : mapping of partition to Position
        Where labels began to count.
    partitions : mapping of partition to JoinState
    waiting : mapping of partition to Rows
        Joined, and not learned yet; partitions in which nothing waits are left out.
    """

    topic: str
    topic_id: str
    base: Mapping[int, Position]
    partitions: Mapping[int, JoinState]
    waiting: Mapping[int, Rows]

    def emptied(self) -> Joining:
        """Return the join of a checkpoint before the first record of either log."""
        return replace(self, partitions={}, waiting={})

    @property
    def ahead(self) -> Mapping[int, tuple[Position, int]]:
        """How far the features are merged."""
        logs = {partition: state.features for partition, state in self.partitions.items()}
        return {partition: (log.next, log.leader_epoch) for partition, log in logs.items()}

    @property
    def labels_next(self) -> Mapping[int, Position]:
        """The next label to read of each partition."""
        return {**self.base, **{partition: state.labels.next for partition, state in self.partitions.items()}}


def joining_of(snapshot: Snapshot) -> Joining | None:
    """Return the join of a checkpoint; None where labels come with the features."""
    return snapshot.part(PART, Joining)


def with_joining(snapshot: Snapshot, joining: Joining | None) -> Snapshot:
    """Return a checkpoint with this join."""
    return snapshot.with_part(PART, joining)


def _check_join(state: JoinState) -> None:
    for kind, n in (("row", len(state.row_points)), ("early", state.early_key.size)):
        names = (f"{kind}_{name}" for name in ("key", "time", "offset", "row", "sign"))
        require_lengths("a join", n, **{name: getattr(state, name) for name in names})
    if len(state.counts) != len(COUNTED):
        raise CorruptCheckpoint(f"a join is described as one of {len(state.counts)} outcomes, not {len(COUNTED)}")


def _check_joining(joining: Joining) -> None:
    for partition, rows in joining.waiting.items():
        is_joined = rows.beside_offset is not None
        if rows.partition != partition or not is_joined:
            raise CorruptCheckpoint(f"rows that wait in partition {partition} are described as {rows.partition}'s")


KINDS: Final = (Kind(JoinState, _check_join), Kind(LogState), Kind(Joining, _check_joining, PART))
"""With `Rows`, which every build knows, all that a checkpoint has of a join."""
