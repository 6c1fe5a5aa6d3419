"""The combiner: cuts of partitions that others learned.

A partition's structure is a pure function of its log, the configuration and the seed, so it does not matter who builds
it. Whoever owns a partition hands over its state now and then; the newest states are what a cut is made of.

Invariant: a partition never goes back: a state behind the one that was adopted is passed over. A cut of adopted states
has the bytes of a cut that one learner takes at the same positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsvm.config import ModelConfig
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.partitions import Partitions
from streamsvm.learning.tasks import Task
from streamsvm.points import Position, Positions, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What somebody who learns says besides states: for people, it decides nothing.

    Attributes
    ----------
    observed : Observed
        What reductions met since that learner was made.
    outliers : Tally
        Rows that were drawn in.
    """

    observed: Observed = field(default_factory=Observed)
    outliers: Tally = field(default_factory=Tally)


class Combiner(Partitions):
    """Partitions that are adopted, not learned; parameters as of `Partitions`."""

    def __init__(self, config: ModelConfig, base: Positions, every_leaves: int, task: Task | None = None) -> None:
        super().__init__(config, base, every_leaves, task)
        self._reports: dict[int, WorkerReport] = {}
        self._rows_reported: dict[int, int] = {}

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

    def report(self, source: int, report: WorkerReport) -> None:
        """Note what one of those who learn has met so far; it replaces the report before."""
        self._reports[source] = report

    def report_rows(self, source: int, rows: int) -> None:
        """Note how many rows one of those who learn has learned by now."""
        self._rows_reported[source] = rows

    @property
    def rows_elsewhere(self) -> int:
        """Rows learned, by the newest reports, and not adopted yet."""
        return max(0, sum(self._rows_reported.values()) - self.rows)

    def observed(self) -> Observed:
        """Return what reductions met, those of cuts and those that were reported."""
        whole = super().observed()
        for report in self._reports.values():
            whole.add(report.observed)
        return whole

    def outliers(self) -> Tally:
        """Return the reported outliers, and what cuts of open first leaves met."""
        whole = super().outliers()
        for report in self._reports.values():
            whole.add(report.outliers)
        return whole


def combiner_of(pipeline: Pipeline) -> Combiner:
    """Return who combines in the pipeline of a trainer for whom others learn."""
    assert isinstance(pipeline.learner, Combiner)
    return pipeline.learner


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
    combiner_of(pipeline).adopt(states, leaves)
    pipeline.read_on_at(read_to)
