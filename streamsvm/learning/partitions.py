"""The structures of all partitions, and when a cut of them is due, in whatever process the rows are learned.

`Partitions` is what `streamsvm.delivery.pipeline` needs of the object that learns. There are two kinds:
`streamsvm.learning.learner.Learner` learns rows itself, and a branch may put together what other processes learned.
Neither has I/O, a clock or threads.

Invariant: what a cut is made from is fixed when the cut is taken (`take`), and does not depend on a later state. So a
cut may be made later, in the training thread, while the partitions learn on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from streamsvm.config import ModelConfig
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.structure import Bucket, Learned
from streamsvm.learning.cutting import Cut, Cutter, DueCut, LearnerState, Met, TakenCut
from streamsvm.learning.memories import Horizon
from streamsvm.learning.partition import Partition
from streamsvm.learning.partition_state import OpenLeaf
from streamsvm.learning.tasks import Task, task_of
from streamsvm.points import Position, Positions, Rows

SHORT: Final = 10
"""A horizon is short if it has less than one part in so many of its partition's rows."""


class Partitions(ABC):
    """The structures of all partitions, and when a cut of them is due.

    Parameters
    ----------
    config : ModelConfig
    base : mapping of partition to Position
        Where each partition begins.
    every_leaves : int
        Leaves completed, over all partitions, after which a cut is due.
    task : Task, optional
        What the labels are for; to tell two classes apart.
    """

    def __init__(self, config: ModelConfig, base: Positions, every_leaves: int, task: Task | None = None) -> None:
        self._config = config
        self._task = task or task_of(config)
        self._cutter = Cutter(config, self._task, every_leaves)
        self._of_cuts = Observed()
        # In ascending order, here and in `extend`: parts of a cut are put together in this order, and a hash is taken.
        self._partitions = {partition: self._begun(partition, base) for partition in sorted(base)}

    @abstractmethod
    def learn(self, rows: Rows, until: Position | None = None) -> int:
        """Learn rows of one partition until they end, a cut falls due, or `until` is reached.

        Rows before the partition's position are passed over: they are learned already.

        Returns
        -------
        int
            How many of `rows` are done with; the rest must be offered again.
        """

    def _begun(self, partition: int, base: Positions) -> Partition:
        return Partition(partition, base[partition], self._config, self._task)

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return {partition: own.position for partition, own in self._partitions.items()}

    def position(self, partition: int) -> Position:
        """Return the next row to learn of one partition."""
        return self._partitions[partition].position

    @property
    def cut_due(self) -> bool:
        """Whether `take`, `cut` or `decline_cut` is due."""
        return self._cutter.due

    @property
    def leaves_since_cut(self) -> int:
        """Leaves completed since the last cut was taken or declined."""
        return self._cutter.leaves

    @property
    def points_held(self) -> int:
        """Points kept now: buckets, open leaves and audit samples together."""
        return sum(own.points_held for own in self._partitions.values())

    @property
    def audit_points(self) -> int:
        """Points of the audit samples."""
        return sum(len(reservoir) for own in self._partitions.values() for reservoir in own.audit)

    @property
    def points_accepted(self) -> int:
        """Valid points learned since the base."""
        return sum(own.count for own in self._partitions.values())

    @property
    def rows(self) -> int:
        """Rows seen since the base, rejected ones included."""
        return sum(own.learned.rows for own in self._partitions.values())

    @property
    def weight(self) -> float:
        """Total weight of the valid points learned since the base."""
        return sum(float(own.learned.class_weight.sum()) for own in self._partitions.values())

    @property
    def leaves_sealed(self) -> int:
        """Leaves sealed since the base."""
        return sum(own.structure.sealed for own in self._partitions.values())

    def buckets(self) -> dict[int, tuple[Bucket, ...]]:
        """Return the buckets of each partition, the oldest first."""
        return {partition: own.structure.buckets for partition, own in self._partitions.items()}

    def learned(self) -> dict[int, Learned]:
        """Return the totals of all rows that each partition learned since the base."""
        return {partition: own.learned for partition, own in self._partitions.items()}

    def short_share(self) -> float | None:
        """Return which share of a cut's weight horizons shorter than a tenth of their partition's rows have now.

        Of the partition where it is greatest; None where nothing is forgotten, or the horizon is chosen by people.
        """
        if not any(own.memory.learns_horizons for own in self._partitions.values()):
            return None
        learned = self.learned()
        return max(
            sum(one.share for one in horizons if SHORT * one.rows < learned[partition].rows)
            for partition, horizons in self.horizons().items()
        )

    def horizons(self) -> dict[int, tuple[Horizon, ...]]:
        """Return what a cut would be of now, in each partition, the longest first; empty where nothing is forgotten."""
        if not any(own.memory.forgets for own in self._partitions.values()):
            return dict.fromkeys(self._partitions, ())
        standings = {partition: own.standing() for partition, own in self._partitions.items()}
        now_ms = max(standing.now_ms for standing in standings.values())
        return {partition: standing.horizons(now_ms) for partition, standing in standings.items()}

    def open_leaves(self) -> dict[int, OpenLeaf]:
        """Return how full each partition's open leaf is; costs nothing that grows with the points."""
        return {partition: own.open_leaf() for partition, own in self._partitions.items()}

    def observed(self) -> Observed:
        """Return what calibrated reductions, of partitions and cuts, met since this was made; zeros of other ones."""
        whole = Observed()
        for observed in (self._of_cuts, *(own.observed for own in self._partitions.values())):
            whole.add(observed)
        return whole

    def outliers(self) -> Tally:
        """Return which rows were drawn in since this learner was made."""
        whole = Tally()
        for own in self._partitions.values():
            whole.add(own.bounding.tally)
        return whole

    def _anything_sealed(self) -> bool:
        """Return whether a valid point was ever sealed: before that no leaf counts, and nothing can be trained."""
        return any(own.sealed_count for own in self._partitions.values())

    def take(self) -> TakenCut:
        """Take a cut at the present positions; the next one is due `every_leaves` leaves later.

        Nothing is copied or computed: `TakenCut.make` does that, in any thread.
        """
        return self._cutter.take({partition: own.standing() for partition, own in self._partitions.items()})

    def cut(self) -> Cut:
        """Take a cut and make it at once."""
        cut = self.take().make()
        self.note(cut.met)
        return cut

    def note(self, met: Met | None) -> None:
        """Add what was counted while a cut was made, for `observed` and `outliers`."""
        if met is None:
            return
        self._of_cuts.add(met.observed)
        for partition, (sealed, tally) in met.first_leaves.items():
            self._partitions[partition].note_first_leaf(sealed, tally)

    def taken_of(self, state: LearnerState) -> TakenCut:
        """Return the cut that was taken where a learner of the same configuration had this state."""
        standings = {}
        for partition in sorted(state.partitions):
            saved = state.partitions[partition]
            own = Partition(partition, saved.position, self._config, self._task)
            own.restore(saved)
            standings[partition] = own.standing()
        return TakenCut(standings, self._config, self._task)

    def points_beyond(self, cut: DueCut) -> int:
        """Return how many points a cut keeps in memory besides those that are kept here."""
        return cut.points_beyond(self._partitions)

    def decline_cut(self) -> None:
        """Pass over a due cut, because a version of it exists already: the trainer reads the log again."""
        self._cutter.decline()

    def call_for_cut(self) -> None:
        """Make a cut due at the present positions, whatever was counted: some leaves may be in no version yet."""
        if self._anything_sealed():
            self._cutter.call()

    def extend(self, base: Positions) -> None:
        """Take up partitions that are new; they change no other partition's structure."""
        assert not base.keys() & self._partitions.keys()
        added = {partition: self._begun(partition, base) for partition in base}
        self._partitions = dict(sorted({**self._partitions, **added}.items()))

    def state(self) -> LearnerState:
        """Return everything a checkpoint needs; later rows do not change it."""
        return LearnerState(
            {partition: own.state() for partition, own in self._partitions.items()},
            self._cutter.leaves,
        )

    def restore(self, state: LearnerState) -> None:
        """Restore a checkpoint's state; a partition that is not in the state stays at its base."""
        assert state.partitions.keys() <= self._partitions.keys()
        self._cutter.leaves = state.leaves_since_cut
        for partition, saved in state.partitions.items():
            self._partitions[partition].restore(saved)
