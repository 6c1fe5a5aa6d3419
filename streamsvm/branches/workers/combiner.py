"""Combining: cuts of partitions that others learned.

A partition's structure is a pure function of its log, the configuration and the seed, so it does not matter who builds
it. Whoever owns a partition hands over its state now and then; the newest states are what a cut is made of.

Invariant: a partition never goes back: `Learner.adopt` passes over a state behind the one that was adopted. A cut of
adopted states has the bytes of a cut that one learner takes at the same positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsvm.coreset.partition import PartitionState
from streamsvm.delivery.pipeline import Pipeline


def adopt(pipeline: Pipeline, states: Mapping[int, PartitionState], leaves: int, read_to: Mapping[int, int]) -> None:
    """Let a pipeline take over what others have learned of some partitions.

    Parameters
    ----------
    pipeline : Pipeline
    states : mapping of partition to PartitionState
    leaves : int
        Leaves completed since the states before.
    read_to : mapping of partition to int
        As of `streamsvm.delivery.reading.Reading.read_to`, of those who learned.
    """
    pipeline.learner.adopt(states, leaves)
    pipeline.read_on_at(read_to)
