"""Cuts: taken in the poll loop, made in the thread that trains them.

A *cut* is one position per partition, and the training set of everything before these positions. It is done in two
steps, because the poll loop must not wait for the second.

*Taking* (`Cutter.take`) costs the same however much the partitions contain. It collects references: buckets never
change, and a partition that goes on leaves the arrays of its open leaf and its audit sample to the cut. Under the
default policy most cuts are replaced by a newer one before they are trained, so that anything more would be work for
nothing.

*Making* (`TakenCut.make`) is dear: it merges the partitions, solves a pilot, reduces the union to the training set, and
hashes it. The training thread does it, right before it trains (`streamsvm.learning.recipe.make`).

Invariant: a cut that is made is a pure function of what was taken, wherever and whenever it is made. A checkpoint may
therefore save a cut in either form, and the version has the same bytes.

To read: `Cut` (the result), `TakenCut`, and `_made` with `training_set`, which is the whole recipe of a training set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit_sample import Sampled
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, Tally
from streamsvm.coreset.reducers.base import Observed, Purpose, generator, reduce_for
from streamsvm.coreset.structure import Learned
from streamsvm.learning.bounding import note_in_leaf
from streamsvm.learning.memories import Horizon
from streamsvm.learning.partition import Partition
from streamsvm.learning.partition_at_cut import CutParts, PartitionAtCut
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.tasks import Task
from streamsvm.points import Points, Position, Positions


@dataclass(frozen=True, slots=True)
class LearnerState:
    """All that a learner is, for a checkpoint."""

    partitions: Mapping[int, PartitionState]
    leaves_since_cut: int

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return {partition: state.position for partition, state in self.partitions.items()}


@dataclass(frozen=True, slots=True)
class Met:
    """What was counted while a cut was made, for people: nothing depends on it, and no checkpoint contains it.

    Attributes
    ----------
    observed : Observed
        Of the union's reduction.
    first_leaves : mapping of partition to (leaves sealed before, Tally)
        What was drawn in of each open first leaf.
    """

    observed: Observed = field(default_factory=Observed)
    first_leaves: Mapping[int, tuple[int, Tally]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionCoverage:
    """Which rows of one partition count in a cut.

    Attributes
    ----------
    oldest : Position
        Of the oldest row that the cut depends on.
    before : Learned
        What was learned before that.
    horizons : tuple of Horizon
        The longest first; their shares sum to 1.
    """

    oldest: Position
    before: Learned
    horizons: tuple[Horizon, ...]


@dataclass(frozen=True, slots=True)
class CutCoverage:
    """Which rows count in a cut, where these are not all that were learned.

    Attributes
    ----------
    learned : Learned
        Totals of everything that was.
    partitions : mapping of partition to PartitionCoverage
    """

    learned: Learned
    partitions: Mapping[int, PartitionCoverage]


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
        Exact moments of all accepted points up to the cut, or of what is not forgotten of them under the weights that
        it has now, merged in partition order.
    rows : int
        Rows learned, rejected ones included.
    first_time_ms, last_time_ms : int
        As of `streamsvm.coreset.structure.Extent`.
    audit : tuple of Sampled
        The audit sample of each partition that has one, or of each of its labels, in partition order: what a model of
        this cut is judged by; under the same weights.
    held : CutCoverage or None
        What it is of; None: of everything that was learned.
    met : Met or None
        Of a cut that was made just now.
    beside_offsets : mapping of partition to int
        Offset after the newest record of a log beside the input that counted; empty where there is none.
    """

    positions: Mapping[int, Position]
    leader_epochs: Mapping[int, int]
    points: Points
    moments: Moments
    rows: int
    first_time_ms: int
    last_time_ms: int
    audit: tuple[Sampled, ...] = ()
    held: CutCoverage | None = None
    met: Met | None = field(default=None, compare=False)
    beside_offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def learned(self) -> Learned:
        """Totals of everything that was learned up to the cut."""
        if self.held is not None:
            return self.held.learned
        return Learned(
            rows=self.rows,
            count=self.moments.count,
            class_weight=self.moments.class_weight,
            first_time_ms=self.first_time_ms,
            last_time_ms=self.last_time_ms,
        )

    @property
    def points_held(self) -> int:
        """Points of the training set, and of the audit sample."""
        return len(self.points) + sum(len(part.points) for part in self.audit)

    def points_beyond(self, partitions: Mapping[int, Partition]) -> int:  # noqa: ARG002
        """Return how many points it keeps in memory that partitions do not hold: all of them."""
        return self.points_held

    def make(self) -> Cut:
        """Return itself."""
        return self

    def saved(self) -> Cut:
        """Return what a checkpoint holds of it: itself."""
        return self


class TakenCut:
    """A cut that is taken, and made when it is trained.

    Parameters
    ----------
    standings : mapping of partition to PartitionAtCut
    config : ModelConfig
    task : Task
    """

    def __init__(self, standings: Mapping[int, PartitionAtCut], config: ModelConfig, task: Task) -> None:
        self._standings, self._config, self._task = standings, config, task
        self._made: Cut | None = None
        self.positions: Mapping[int, Position] = {
            partition: standing.state.position for partition, standing in standings.items()
        }

    def make(self) -> Cut:
        """Make the cut, and release what it was made from. May run in any thread, in one at a time."""
        if self._made is None:
            # `_made` is assigned first. `saved` and `points_beyond` run in the main thread, and read the standings
            # before they look at `_made`: so they have at least one of the two, and need no lock.
            self._made, self._standings = _made(self._standings, self._config, self._task), {}
        return self._made

    def saved(self) -> Cut | LearnerState:
        """Return what a checkpoint holds of it: the cut if it is made, else all that it is made from."""
        standings = self._standings
        if self._made is not None:
            return self._made
        return LearnerState({partition: standing.state for partition, standing in standings.items()}, 0)

    def points_beyond(self, partitions: Mapping[int, Partition]) -> int:
        """Return how many points it keeps in memory that partitions do not hold, or not any more."""
        standings = self._standings
        if self._made is not None:
            return self._made.points_held
        return sum(partitions[partition].lacks(standing) for partition, standing in standings.items())


DueCut = Cut | TakenCut
"""What is to be trained: taken just now, or found whole in a checkpoint."""


class Cutter:
    """Counts leaves, and takes a cut of partitions when one is due.

    Parameters
    ----------
    config : ModelConfig
    task : Task
    every_leaves : int
        Leaves completed, over all partitions, after which a cut is due.

    Attributes
    ----------
    leaves : int
        Leaves completed since the last cut was taken or declined.
    """

    def __init__(self, config: ModelConfig, task: Task, every_leaves: int) -> None:
        self._config, self._task = config, task
        self._every_leaves = every_leaves
        self.leaves = 0

    @property
    def due(self) -> bool:
        """Whether a cut is due."""
        return self.leaves >= self._every_leaves

    @property
    def missing(self) -> int:
        """Leaves after which a cut falls due."""
        return self._every_leaves - self.leaves

    def take(self, standings: Mapping[int, PartitionAtCut]) -> TakenCut:
        """Take a cut of the partitions as they stand; the next one is due `every_leaves` leaves later."""
        self.leaves = 0
        return TakenCut(standings, self._config, self._task)

    def decline(self) -> None:
        """Pass over a due cut."""
        self.leaves = 0

    def call(self) -> None:
        """Make a cut due, whatever was counted."""
        self.leaves = max(self.leaves, self._every_leaves)


def _made(standings: Mapping[int, PartitionAtCut], config: ModelConfig, task: Task) -> Cut:
    # The time of the newest row, not of a clock: a memory that forgets by time must give the same cut in a year.
    now_ms = max(standing.now_ms for standing in standings.values())
    parts = {partition: standing.parts(config, task, now_ms) for partition, standing in standings.items()}
    moments = Moments.zero(config.points.dimension, task.classes)
    for part in parts.values():
        moments = moments.merge(part.moments)
    learned = Learned.nothing(task.classes)
    for standing in standings.values():
        learned = learned.join(standing.state.learned)
    positions = {partition: standing.state.position for partition, standing in standings.items()}
    met = Met(first_leaves=_first_leaves(standings, {partition: part.found for partition, part in parts.items()}))
    points = [points for part in parts.values() for points in part.points]
    return Cut(
        positions=positions,
        leader_epochs={partition: standing.state.leader_epoch for partition, standing in standings.items()},
        points=training_set(points, moments, positions, config, task, met.observed),
        moments=moments,
        rows=learned.rows,
        first_time_ms=learned.first_time_ms,
        last_time_ms=learned.last_time_ms,
        audit=tuple(sampled for part in parts.values() for sampled in part.audit),
        held=_coverage(standings, parts, learned, now_ms),
        met=met,
        beside_offsets={
            partition: standing.state.beside_offset for partition, standing in standings.items() if config.label_rule
        },
    )


def _coverage(
    standings: Mapping[int, PartitionAtCut],
    parts: Mapping[int, CutParts],
    learned: Learned,
    now_ms: int,
) -> CutCoverage | None:
    """Return what a cut is of, where that is not everything that was learned."""
    weighings = {p: standing.weighing for p, standing in standings.items() if standing.weighing is not None}
    if not weighings:
        return None
    return CutCoverage(
        learned=learned,
        partitions={
            partition: PartitionCoverage(*weighing.oldest(now_ms), parts[partition].horizons)
            for partition, weighing in weighings.items()
        },
    )


def _first_leaves(
    standings: Mapping[int, PartitionAtCut], found: Mapping[int, Found | None]
) -> dict[int, tuple[int, Tally]]:
    tallies = {}
    for partition, standing in standings.items():
        if standing.bound is not None:
            continue
        tally, outliers = Tally(), found[partition]
        if outliers is not None:
            note_in_leaf(tally, outliers, partition, standing.state.leaf_extent, standing.places)
        tallies[partition] = (standing.state.sealed, tally)
    return tallies


def training_set(
    parts: list[Points],
    moments: Moments,
    positions: Positions,
    config: ModelConfig,
    task: Task,
    observed: Observed | None = None,
) -> Points:
    """Return the union of all parts, reduced to `coreset.train_points` where it is larger; note how that went."""
    if not parts:
        return Points.empty(config.points.dimension, config.points.numpy_dtype)
    union = Points.union(parts)
    # As in a structure, a set that fits is kept as it is: the first versions are trained on every row.
    if len(union) <= config.coreset.train_points:
        return union
    reducer = task.reducer(config.coreset)
    pilot = task.pilot(union, moments.weight, moments, config) if reducer.needs_pilot else None
    # From the positions, and not from a count of cuts: a trainer that passed over cuts while it read the log again, and
    # one that made them, then draw the same points.
    random = generator(config.seed, Purpose.CUT, cut_counter(positions))
    reduced = reduce_for(reducer, union, config.coreset.train_points, random, pilot)
    if observed is not None:
        observed.add(reducer.observed)
    return reduced


def cut_counter(positions: Positions) -> tuple[int, int, int]:
    """Return 192 bits that name a cut: the first three words of the SHA-256 of its positions."""
    plain = json.dumps([[partition, *positions[partition]] for partition in sorted(positions)])
    words = np.frombuffer(hashlib.sha256(plain.encode()).digest(), dtype="<u8")
    return int(words[0]), int(words[1]), int(words[2])
