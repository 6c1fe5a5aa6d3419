"""The learner: rows in, cuts out; no I/O, no clock, no threads.

Invariants: a row is learned once however often it is offered; what a cut is made from is fixed when it is taken, and is
never a promise about a later state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset import audit_sample as audit
from streamsvm.coreset import screening
from streamsvm.coreset.forgetting import Horizon
from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed, Purpose, generator
from streamsvm.coreset.structure import Bucket, Learned, time_range
from streamsvm.learning import pilots, training
from streamsvm.learning.cutting import Cut, DueCut, LearnerState, Met, TakenCut
from streamsvm.learning.forgetful import partition_of
from streamsvm.learning.partition import OpenLeaf, Partition, Witness
from streamsvm.learning.tasks import Task, TwoClasses
from streamsvm.points import Points, Position, Positions, Rows

SHORT: Final = 10
"""A horizon is short if it has less than one part in so many of its partition's rows."""
REHEARSED = 2_000
"""Rows with which a learner is warmed up."""


class Learner:
    """Keeps the structures of all partitions and says when a cut is due.

    Parameters
    ----------
    config : ModelConfig
    base : mapping of partition to Position
        Where each partition begins.
    every_leaves : int
        Sealed leaves, over all partitions, after which a cut is due.
    task : Task, optional
        What the labels are for; to tell two classes apart.
    before : mapping of partition to Learned, optional
        What was learned before the base, where that is not the beginning. Only of partitions that forget, and only
        where a span begins: from there on they hold what they would have held.
    """

    def __init__(
        self,
        config: ModelConfig,
        base: Positions,
        every_leaves: int,
        task: Task | None = None,
        before: Mapping[int, Learned] | None = None,
    ) -> None:
        self._config = config
        self._task = task or TwoClasses()
        self._every_leaves = every_leaves
        self._leaves_since_cut = 0
        self._of_cuts = Observed()
        self._partitions = {partition: self._begun(partition, base) for partition in sorted(base)}
        for partition, learned in (before or {}).items():
            self._partitions[partition].begin_after(learned)

    def _begun(self, partition: int, base: Positions) -> Partition:
        return partition_of(partition, base[partition], self._config, self._task)

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return {partition: held.position for partition, held in self._partitions.items()}

    def position(self, partition: int) -> Position:
        """Return the next row to learn of one partition."""
        return self._partitions[partition].position

    @property
    def cut_due(self) -> bool:
        """Whether `take`, `cut` or `decline_cut` must be called before more can be learned."""
        return self._leaves_since_cut >= self._every_leaves

    @property
    def points_held(self) -> int:
        """Points held now: buckets, open leaves and audit samples together."""
        return sum(held.points_held for held in self._partitions.values())

    @property
    def audit_points_held(self) -> int:
        """Points of the audit samples."""
        return sum(len(reservoir) for held in self._partitions.values() for reservoir in held.audit)

    @property
    def points_accepted(self) -> int:
        """Valid points learned since the base."""
        return sum(held.count for held in self._partitions.values())

    @property
    def rows(self) -> int:
        """Rows seen since the base, rejected ones included."""
        return sum(held.learned.rows for held in self._partitions.values())

    @property
    def weight(self) -> float:
        """Total weight of the valid points learned since the base."""
        return sum(float(held.learned.class_weight.sum()) for held in self._partitions.values())

    @property
    def leaves_sealed(self) -> int:
        """Leaves sealed since the base."""
        return sum(held.structure.sealed for held in self._partitions.values())

    def buckets(self) -> dict[int, tuple[Bucket, ...]]:
        """Return the buckets of each partition, the oldest first."""
        return {partition: held.structure.buckets for partition, held in self._partitions.items()}

    def learned(self) -> dict[int, Learned]:
        """Return the totals of all rows that each partition learned since the base."""
        return {partition: held.learned for partition, held in self._partitions.items()}

    def short_share(self) -> float | None:
        """Return which share of a cut's weight horizons shorter than a tenth of their partition's rows have now.

        Of the partition where it is greatest; None where nothing is forgotten, or the horizon is chosen by people.
        """
        if self._config.coreset.memory != "adaptive":
            return None
        learned = self.learned()
        return max(
            sum(one.share for one in horizons if SHORT * one.rows < learned[partition].rows)
            for partition, horizons in self.horizons().items()
        )

    def horizons(self) -> dict[int, tuple[Horizon, ...]]:
        """Return what a cut would be of now, in each partition, the longest first; empty where nothing is forgotten."""
        if not self._config.coreset.forgets:
            return dict.fromkeys(self._partitions, ())
        standings = {partition: held.standing() for partition, held in self._partitions.items()}
        now_ms = max(standing.now_ms for standing in standings.values())
        return {partition: standing.horizons(now_ms) for partition, standing in standings.items()}

    def open_leaves(self) -> dict[int, OpenLeaf]:
        """Return how full each partition's open leaf is; costs nothing that grows with the points."""
        return {partition: held.open_leaf() for partition, held in self._partitions.items()}

    def observed(self) -> Observed:
        """Return what calibrated reductions, of partitions and cuts, met since this was made; zeros of other ones."""
        whole = Observed()
        for observed in (self._of_cuts, *(held.observed for held in self._partitions.values())):
            whole.add(observed)
        return whole

    @property
    def rows_clipped(self) -> int:
        """Accepted rows of which clipping changed a feature, since this learner was made."""
        return sum(held.clipped for held in self._partitions.values()) + self.outliers().rows

    def outliers(self) -> Tally:
        """Return what `coreset.max_leverage` drew in since this learner was made."""
        whole = Tally()
        for held in self._partitions.values():
            whole.add(held.tally)
        return whole

    def learn(self, rows: Rows, until: Position | None = None) -> int:
        """Learn rows of one partition until they end, a cut falls due, or `until` is reached.

        Rows before the partition's position are passed over: they are learned already.

        Returns
        -------
        int
            How many of `rows` are done with; the rest must be offered again.
        """
        held = self._partitions[rows.partition]
        done = rows.index_of(held.position)
        stop = len(rows) if until is None else rows.index_of(until)
        while done < stop and not self.cut_due:
            step = min(held.leaf.missing, self._rows_to_cut(held.leaf), stop - done)
            completed = held.add(rows if step == len(rows) else rows.slice(done, done + step))
            if completed and self._anything_sealed():
                self._leaves_since_cut += completed
            done += step
        return done

    def _rows_to_cut(self, leaf: Leaf) -> int:
        """Return after how many rows of a leaf a cut falls due: a screened leaf counts once each `leaf_rows`."""
        leaf_rows = self._config.coreset.leaf_rows
        return (self._every_leaves - self._leaves_since_cut) * leaf_rows - leaf.rows % leaf_rows

    def _anything_sealed(self) -> bool:
        """Tell whether a valid point was ever sealed: before that there is nothing to train on, and no leaf counts."""
        return any(held.sealed_count for held in self._partitions.values())

    def take(self) -> TakenCut:
        """Take a cut at the present positions; the next one is due `every_leaves` leaves later.

        Nothing is copied or computed: `TakenCut.make` does that, in any thread.
        """
        self._leaves_since_cut = 0
        standings = {partition: held.standing() for partition, held in self._partitions.items()}
        return TakenCut(standings, self._config, self._task)

    def cut(self) -> Cut:
        """Take a cut and make it at once."""
        cut = self.take().make()
        self.note(cut.met)
        return cut

    def note(self, met: Met | None) -> None:
        """Take in what making a cut met, for `observed` and `outliers`."""
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
            held = partition_of(partition, saved.position, self._config, self._task)
            held.restore(saved)
            standings[partition] = held.standing()
        return TakenCut(standings, self._config, self._task)

    def points_beyond(self, cut: DueCut) -> int:
        """Return how many points a cut keeps in memory besides those that are held here."""
        return cut.points_beyond(self._partitions)

    def decline_cut(self) -> None:
        """Pass over a due cut, as during replay."""
        self._leaves_since_cut = 0

    def call_for_cut(self) -> None:
        """Let a cut be due at the present positions, whatever was counted: leaves may stand in no version yet."""
        if self._anything_sealed():
            self._leaves_since_cut = max(self._leaves_since_cut, self._every_leaves)

    def extend(self, base: Positions) -> None:
        """Take up partitions that are new; they change no other partition's structure."""
        assert not base.keys() & self._partitions.keys()
        added = {partition: self._begun(partition, base) for partition in base}
        self._partitions = dict(sorted({**self._partitions, **added}.items()))

    def show(self, witnesses: Mapping[int, Witness]) -> None:
        """Show each partition's points to its witness, as they are learned from now on; not where some are forgotten.

        The points of a partition's first leaf, which get their bounds when it is sealed, are shown then; `show_open`
        shows those that are left.
        """
        for partition, witness in witnesses.items():
            self._partitions[partition].show(witness)

    def show_open(self) -> None:
        """Show what was learned and not shown yet, as a cut has it; nothing may be learned after that."""
        for held in self._partitions.values():
            held.show_open()

    def state(self) -> LearnerState:
        """Return everything a checkpoint needs; later rows do not change it."""
        return LearnerState(
            {partition: held.state() for partition, held in self._partitions.items()},
            self._leaves_since_cut,
        )

    def restore(self, state: LearnerState) -> None:
        """Put a checkpoint's state in place; a partition that it does not know stays at its base."""
        assert state.partitions.keys() <= self._partitions.keys()
        self._leaves_since_cut = state.leaves_since_cut
        for partition, saved in state.partitions.items():
            self._partitions[partition].restore(saved)


def warm_up(config: ModelConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, whatever learning and training of a configuration run.

    Ten seconds and more on a cold start, so it belongs before the first poll. `say` is told before each part; what it
    raises ends it.
    """
    say("preparing sums and the audit sample")
    Moments.zero(1).add(Points.empty(1, config.points.numpy_dtype))
    audit.warm_up(config.points.numpy_dtype)
    time_range(np.empty(0, np.int64))
    if config.coreset.screens:
        say("preparing the screening")
        screening.warm_up(config.points.numpy_dtype)
    say("preparing the pilots")
    pilots.warm_up(config, say)
    say("preparing trainings")
    training.warm_up(config.svm, say)
    say("preparing reductions")
    _rehearse(config)


def _rehearse(config: ModelConfig) -> None:
    """Send a few rows through a small learner: the rest of what reductions, screens and cuts of its kind compile."""
    own = config.coreset
    coreset = CoresetConfig(
        reducer=own.reducer,
        clusters=own.clusters,
        structure=own.structure,
        screening=own.screening,
        clip_sd=own.clip_sd,
        max_leverage=own.max_leverage,
        audit_points=min(own.audit_points, 8),
        leaf_rows=64,
        bucket_points=32,
        train_points=48,
    )
    points = PointsConfig(dimension=2, dtype=config.points.dtype)
    n, random = REHEARSED, generator(0, Purpose.CUT, (0, 0, 0))
    X = random.standard_normal((n, 2)).astype(points.numpy_dtype)
    y = np.where(X[:, 0] + random.standard_normal(n) > 0, 1, -1).astype(np.int8)
    rows = Rows(
        partition=0,
        offset=np.arange(n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        time_ms=np.full(n, -1, np.int64),
        accepted=np.ones(n, np.bool_),
        points=Points(X, y, np.ones(n)),
        leader_epoch=np.full(n, -1, np.int64),
    )
    learner = Learner(ModelConfig(points=points, coreset=coreset, svm=config.svm), {0: Position(0)}, n)
    learner.learn(rows)
    learner.cut()
