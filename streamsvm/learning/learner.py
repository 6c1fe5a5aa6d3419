"""The learner: rows in, cuts out; no I/O, no clock, no threads.

Invariants: a row is learned once however often it is offered; a cut is a training set that is materialised at once,
never a promise about a later state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset import audit_sample as audit
from streamsvm.coreset import screening
from streamsvm.coreset.audit_sample import Sampled
from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed, Purpose, generator, reduce_for
from streamsvm.coreset.structure import Bucket, time_range
from streamsvm.learning import pilots, training
from streamsvm.learning.partition import OpenLeaf, Partition, PartitionState
from streamsvm.learning.tasks import Task, TwoClasses
from streamsvm.points import Points, Position, Positions, Rows

REHEARSED = 2_000
"""Rows with which a learner is warmed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A vector of positions and everything that a model of the stream up to there is made from.

    Attributes
    ----------
    positions : mapping of partition to Position
    leader_epochs : mapping of partition to int
        Leader epoch of the newest learned record; -1 where unknown.
    points : Points
        The training set, raw, at most `coreset.train_points` points in partition order.
    moments : Moments
        Exact moments of all accepted points up to the cut, merged in partition order.
    rows : int
        Rows seen, rejected ones included.
    first_time_ms, last_time_ms : int
        Least and greatest record timestamp; -1 if unknown.
    audit : tuple of Sampled
        The audit sample of each partition that has one, in partition order: what a model of this cut is judged by.
    """

    positions: Mapping[int, Position]
    leader_epochs: Mapping[int, int]
    points: Points
    moments: Moments
    rows: int
    first_time_ms: int
    last_time_ms: int
    audit: tuple[Sampled, ...] = ()

    @property
    def points_held(self) -> int:
        """Points of the training set and of the audit sample."""
        return len(self.points) + sum(len(part.points) for part in self.audit)


@dataclass(frozen=True, slots=True)
class LearnerState:
    """All that a learner is, for a checkpoint."""

    partitions: Mapping[int, PartitionState]
    leaves_since_cut: int


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
    """

    def __init__(self, config: ModelConfig, base: Positions, every_leaves: int, task: Task | None = None) -> None:
        self._config = config
        self._task = task or TwoClasses()
        self._every_leaves = every_leaves
        self._leaves_since_cut = 0
        self._union_reducer = self._task.reducer(config.coreset)
        self._partitions = {partition: self._begun(partition, base) for partition in sorted(base)}

    def _begun(self, partition: int, base: Positions) -> Partition:
        return Partition(partition, base[partition], self._config, self._task)

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return {partition: held.position for partition, held in self._partitions.items()}

    @property
    def cut_due(self) -> bool:
        """Whether `cut` or `decline_cut` must be called before more can be learned."""
        return self._leaves_since_cut >= self._every_leaves

    @property
    def points_held(self) -> int:
        """Points held now: buckets, open leaves and audit samples together."""
        return self.audit_points_held + sum(
            len(held.leaf.points) + sum(len(bucket.points) for bucket in held.structure.buckets)
            for held in self._partitions.values()
        )

    @property
    def audit_points_held(self) -> int:
        """Points of the audit samples."""
        return sum(len(held.audit) for held in self._partitions.values() if held.audit is not None)

    @property
    def points_accepted(self) -> int:
        """Valid points learned since the base."""
        return sum(held.extent.moments.count for held in self._partitions.values())

    @property
    def rows(self) -> int:
        """Rows seen since the base, rejected ones included."""
        return sum(
            held.leaf.rows + sum(bucket.extent.rows for bucket in held.structure.buckets)
            for held in self._partitions.values()
        )

    @property
    def weight(self) -> float:
        """Total weight of the valid points learned since the base."""
        return sum(
            held.leaf.extent.moments.weight + sum(bucket.extent.moments.weight for bucket in held.structure.buckets)
            for held in self._partitions.values()
        )

    @property
    def leaves_sealed(self) -> int:
        """Leaves sealed since the base."""
        return sum(held.structure.sealed for held in self._partitions.values())

    def buckets(self) -> dict[int, tuple[Bucket, ...]]:
        """Return the buckets of each partition, the oldest first."""
        return {partition: held.structure.buckets for partition, held in self._partitions.items()}

    def open_leaves(self) -> dict[int, OpenLeaf]:
        """Return how full each partition's open leaf is; costs nothing that grows with the points."""
        return {partition: held.open_leaf() for partition, held in self._partitions.items()}

    def observed(self) -> Observed:
        """Return what calibrated reductions, of partitions and cuts, met since this was made; zeros of other ones."""
        whole = Observed()
        for reducer in (self._union_reducer, *(held.structure.reducer for held in self._partitions.values())):
            whole.add(reducer.observed)
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
        return any(
            bucket.extent.moments.count for held in self._partitions.values() for bucket in held.structure.buckets
        )

    def cut(self) -> Cut:
        """Materialise the training set of the present positions; the next cut is due `every_leaves` leaves later."""
        opened = [held.open_points() for held in self._partitions.values()]
        extents = [extent for _, extent in opened]
        parts = [
            part
            for held, (leaf, _) in zip(self._partitions.values(), opened, strict=True)
            for part in (*(bucket.points for bucket in held.structure.buckets), leaf)
            if len(part)
        ]
        moments = Moments.zero(self._config.points.dimension, self._task.classes)
        for extent in extents:
            moments = moments.merge(extent.moments)
        self._leaves_since_cut = 0
        return Cut(
            positions=self.positions,
            leader_epochs={partition: held.leader_epoch for partition, held in self._partitions.items()},
            points=self._training_set(parts, moments),
            moments=moments,
            rows=sum(extent.rows for extent in extents),
            first_time_ms=min((extent.first_time_ms for extent in extents if extent.first_time_ms >= 0), default=-1),
            last_time_ms=max(extent.last_time_ms for extent in extents),
            audit=tuple(
                sampled
                for held, extent in zip(self._partitions.values(), extents, strict=True)
                if (sampled := held.sampled(extent.moments.class_weight)) is not None
            ),
        )

    def decline_cut(self) -> None:
        """Pass over a due cut, as during replay."""
        self._leaves_since_cut = 0

    def call_for_cut(self) -> None:
        """Let a cut be due at the present positions, whatever was counted: leaves may stand in no version yet."""
        if self._anything_sealed():
            self._leaves_since_cut = max(self._leaves_since_cut, self._every_leaves)

    def _training_set(self, parts: list[Points], moments: Moments) -> Points:
        coreset = self._config.coreset
        if not parts:
            return Points.empty(self._config.points.dimension, self._config.points.numpy_dtype)
        union = Points.union(parts)
        if len(union) <= coreset.train_points:
            return union
        reducer = self._union_reducer
        pilot = self._task.pilot(union, moments.weight, moments, self._config) if reducer.needs_pilot else None
        random = generator(self._config.seed, Purpose.CUT, cut_counter(self.positions))
        return reduce_for(reducer, union, coreset.train_points, random, pilot)

    def extend(self, base: Positions) -> None:
        """Take up partitions that are new; they change no other partition's structure."""
        assert not base.keys() & self._partitions.keys()
        added = {partition: self._begun(partition, base) for partition in base}
        self._partitions = dict(sorted({**self._partitions, **added}.items()))

    def state(self) -> LearnerState:
        """Return everything a checkpoint needs; the open leaves are copied, buckets are immutable."""
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


def cut_counter(positions: Positions) -> tuple[int, int, int]:
    """Return 192 bits that name a cut: the first three words of the SHA-256 of its positions."""
    plain = json.dumps([[partition, *positions[partition]] for partition in sorted(positions)])
    words = np.frombuffer(hashlib.sha256(plain.encode()).digest(), dtype="<u8")
    return int(words[0]), int(words[1]), int(words[2])
