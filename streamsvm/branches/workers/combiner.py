"""The combiner: cuts of partitions that others learned.

A partition's structure is a pure function of its log, the configuration and the seed, so it does not matter who builds
it. Whoever owns a partition hands over its state now and then; the newest states are what a cut is made of.

Invariant: a partition never goes back: a state behind the one that was adopted is passed over. A cut of adopted states
has the bytes of a cut that one learner takes at the same positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsvm.coreset.partition import PartitionState
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.learning.learner import Learner
from streamsvm.points import Position, Rows


class Combiner(Learner):
    """Learner that are adopted, not learned; parameters as of `Learner`."""

    def learn(self, rows: Rows, until: Position | None = None) -> int:  # noqa: ARG002 - no row is learned
        """Refuse rows: they are offered where they are learned."""
        raise AssertionError(f"rows of partition {rows.partition} were offered to a combiner")

    def adopt(self, states: Mapping[int, PartitionState], leaves: int) -> None:
        """Take over the states of some partitions.

        Parameters
        ----------
        states : mapping of partition to PartitionState
            A state that is not past the one held is passed over.
        leaves : int
            Leaves that were completed since the states before.
        """
        for partition, state in states.items():
            if state.position > self.position(partition):
                self._partitions[partition].restore(state)
        if self._anything_sealed():
            self._cutter.leaves += leaves


def adopt(pipeline: Pipeline, states: Mapping[int, PartitionState], leaves: int, read_to: Mapping[int, int]) -> None:
    """Let a pipeline take over what others have learned of some partitions.

    Parameters
    ----------
    pipeline : Pipeline
        Of a combiner.
    states : mapping of partition to PartitionState
    leaves : int
        Leaves completed since the states before.
    read_to : mapping of partition to int
        As of `streamsvm.delivery.reading.Reading.read_to`, of those who learned.
    """
    assert isinstance(pipeline.learner, Combiner)
    pipeline.learner.adopt(states, leaves)
    pipeline.read_on_at(read_to)
