"""Rows in, cuts out: all partitions of a topic. No I/O, no clock, no threads.

A *cut* is a position of each partition, and the training set of everything before these positions. One is due after so
many leaves, counted over all partitions; `learn` stops there, in the middle of a batch if need be, so that a cut is the
same for every size of batches. A screened leaf counts once for each `leaf_rows` rows, or models would become ever older
between two cuts. Leaves before the first valid point do not count: nothing could be trained.

A cut is *taken* in the loop that reads, which costs nothing that grows with the points: states never change. It is
*made* in the thread that trains it, or never, where a newer one replaced it: partitions are put together in ascending
order, and their union is reduced under a pilot of its own.

Invariants: a row is learned once however often it is offered. A cut that is made is a pure function of the states that
were taken, wherever and whenever it is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce as folded
from typing import Final, NamedTuple

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.buckets import Bucket, Float, Learned, Moments
from streamsvm.coreset.drift import Drift, drift
from streamsvm.coreset.landmarks import measured_by_landmarks
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.partition import OpenLeaf, Partition, PartitionState, Witness
from streamsvm.coreset.pilot import Pilot, measured
from streamsvm.coreset.reduce import Observed, Purpose, generator, reduce
from streamsvm.learning import training
from streamsvm.learning.recipe_changes import evened
from streamsvm.points import LookedUp, Points, Position, Positions, Rows
from streamsvm.svm import interior_point

SHORT: Final = 10
"""A horizon is short if it has less than one part in so many of its partition's rows."""
REHEARSED: Final = 2_000
"""Rows that `warm_up` learns."""


class Horizon(NamedTuple):
    """The newest rows of a partition, so many, and their share of a training set's weight."""

    rows: int
    share: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which rows of a partition count in a cut: from where on, what was learned before, and horizons, longest first."""

    oldest: Position
    before: Learned
    horizons: tuple[Horizon, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Everything that a model of the stream up to some positions is made from.

    Attributes
    ----------
    positions : mapping of partition to Position
    leader_epochs : mapping of partition to int
        Of the newest learned record; -1 where unknown.
    points : Points
        The training set, raw, at most `coreset.train_points` points in partition order.
    moments : Moments
        Exact, of all rows that count, under the weights that they have now; but for `evened` columns.
    learned : Learned
        Totals of everything that was learned.
    audit : tuple of Sampled
        The samples of each partition, under the same weights.
    coverage : mapping of partition to Coverage
        Empty where all rows count.
    beside_offsets : mapping of partition to int
        Offset after the newest record of a log beside the input that counted; empty where there is none.
    observed : Observed or None
        What was counted while it was made, for people; no checkpoint holds it.
    """

    positions: Mapping[int, Position]
    leader_epochs: Mapping[int, int]
    points: Points
    moments: Moments
    learned: Learned
    audit: tuple[Sampled, ...] = ()
    coverage: Mapping[int, Coverage] = field(default_factory=dict)
    beside_offsets: Mapping[int, int] = field(default_factory=dict)
    observed: Observed | None = field(default=None, compare=False)

    @property
    def points_held(self) -> int:
        """Points of the training set, and of the audit samples."""
        return len(self.points) + sum(len(part.points) for part in self.audit)

    def make(self) -> Cut:
        """Return itself."""
        return self

    def saved(self) -> Cut:
        """Return what a checkpoint holds of it: itself."""
        return self


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Everything from which a learner goes on with the same bits."""

    partitions: Mapping[int, PartitionState]
    leaves_since_cut: int

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return {partition: state.position for partition, state in self.partitions.items()}


class TakenCut:
    """A cut that is made when it is trained."""

    def __init__(self, states: Mapping[int, PartitionState], config: ModelConfig) -> None:
        self._states, self._config = states, config
        self._made: Cut | None = None
        self.positions: Mapping[int, Position] = LearnerState(states, 0).positions

    def make(self) -> Cut:
        """Make the cut, and release what it was made from. May run in any thread, in one at a time."""
        if self._made is None:
            # In this order: other threads read the states first, and so have one of the two without a lock.
            self._made, self._states = _cut_of(self._states, self._config), {}
        return self._made

    def saved(self) -> Cut | LearnerState:
        """Return what a checkpoint holds of it: the cut if it is made, else all that it is made from."""
        # The states are read before `_made`: see `make`.
        states = self._states
        return self._made or LearnerState(states, 0)


DueCut = Cut | TakenCut
"""What is to be trained: taken just now, or found whole in a checkpoint."""


class Learner:
    """Learns the rows of all partitions, and stops where a cut is due.

    Parameters
    ----------
    config : ModelConfig
    base : mapping of partition to Position
        Where each partition begins.
    every_leaves : int
        Leaves completed, over all partitions, after which a cut is due.
    before : mapping of partition to Learned, optional
        What was learned before the base, of partitions that forget, where a span begins: from there on they hold what
        they would have held.

    Attributes
    ----------
    leaves_since_cut : int
        Leaves completed since a cut was taken or declined.
    """

    def __init__(
        self, config: ModelConfig, base: Positions, every_leaves: int, before: Mapping[int, Learned] | None = None
    ) -> None:
        self._config, self._every_leaves, self._of_cuts = config, every_leaves, Observed()
        self._leaf_rows = config.coreset.leaf_rows
        self.leaves_since_cut = 0
        self._partitions: dict[int, Partition] = {}
        self._drift: dict[int, tuple[Float, Drift | None]] = {}
        self.extend(base, before)

    def learn(self, rows: Rows, until: Position | None = None) -> int:
        """Learn rows of one partition until they end, a cut falls due, or `until` is reached.

        Rows before the partition's position are passed over: they are learned already. Returns how many of `rows` are
        done with; the rest must be offered again.
        """
        own, leaf_rows = self._partitions[rows.partition], self._leaf_rows
        done = rows.index_of(own.position)
        stop = len(rows) if until is None else rows.index_of(until)
        while done < stop and not self.cut_due:
            seen = own.rows  # of the open leaf, which counts once for each `leaf_rows`
            to_cut = (self._every_leaves - self.leaves_since_cut) * leaf_rows - seen % leaf_rows
            step = min(own.missing, to_cut, stop - done)
            own.add(rows if step == len(rows) else rows.slice(done, done + step))
            completed = (seen + step) // leaf_rows - seen // leaf_rows
            if completed and self._anything_sealed():
                self.leaves_since_cut += completed
            done += step
        return done

    def adopt(self, states: Mapping[int, PartitionState], leaves: int) -> None:
        """Take over what others learned of some partitions, and how many leaves that completed.

        A state that is not past the one that is held is passed over: a partition never goes back.
        """
        for partition, state in states.items():
            if state.position > self.position(partition):
                self._partitions[partition].restore(state)
        if self._anything_sealed():
            self.leaves_since_cut += leaves

    def extend(self, base: Positions, before: Mapping[int, Learned] | None = None) -> None:
        """Take up partitions that are new; they change nothing in the others."""
        assert not base.keys() & self._partitions.keys()
        added = {p: Partition(p, at, self._config, (before or {}).get(p)) for p, at in base.items()}
        # In ascending order: parts of a cut are put together so, and a hash is taken.
        self._partitions = dict(sorted((self._partitions | added).items()))

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return {partition: own.position for partition, own in self._partitions.items()}

    def position(self, partition: int) -> Position:
        """Return the next row to learn of one partition."""
        return self._partitions[partition].position

    @property
    def cut_due(self) -> bool:
        """Whether a cut is to be taken or declined."""
        return self.leaves_since_cut >= self._every_leaves

    def take(self) -> TakenCut:
        """Take a cut at the present positions; the next one is due `every_leaves` leaves later."""
        self.leaves_since_cut = 0
        return TakenCut({partition: own.state() for partition, own in self._partitions.items()}, self._config)

    def cut(self) -> Cut:
        """Take a cut and make it at once."""
        cut = self.take().make()
        self.note(cut)
        return cut

    def note(self, cut: Cut) -> None:
        """Add what was counted while a cut was made, for `observed`."""
        if cut.observed is not None:
            self._of_cuts.add(cut.observed)

    def decline_cut(self) -> None:
        """Pass over a due cut, because a version of it exists already."""
        self.leaves_since_cut = 0

    def call_for_cut(self) -> None:
        """Make a cut due at the present positions, whatever was counted: some leaves may be in no version yet."""
        if self._anything_sealed():
            self.leaves_since_cut = max(self.leaves_since_cut, self._every_leaves)

    def points_beyond(self, cut: DueCut) -> int:
        """Return how many points a cut keeps in memory besides those that are kept here."""
        saved = cut.saved()
        if isinstance(saved, Cut):
            return saved.points_held
        return sum(self._partitions[partition].lacks(state) for partition, state in saved.partitions.items())

    def state(self) -> LearnerState:
        """Return everything from which a learner goes on; later rows do not change it."""
        return LearnerState({p: own.state() for p, own in self._partitions.items()}, self.leaves_since_cut)

    def restore(self, state: LearnerState) -> None:
        """Go on from a state; a partition that is not in it stays at its base."""
        assert state.partitions.keys() <= self._partitions.keys()
        self.leaves_since_cut = state.leaves_since_cut
        for partition, saved in state.partitions.items():
            self._partitions[partition].restore(saved)

    def show(self, witnesses: Mapping[int, Witness]) -> None:
        """Show each partition's points to its witness as they are learned from now on: of those that forget nothing.

        Points of a leaf that is bounded as a whole are shown when it is sealed, or by `show_open`.
        """
        for partition, witness in witnesses.items():
            self._partitions[partition].witness = witness

    def show_open(self) -> None:
        """Show what was learned and not shown yet, as a cut has it; nothing may be learned after that."""
        for own in self._partitions.values():
            own.show_open()

    @property
    def points_held(self) -> int:
        """Points kept now: of buckets, open leaves and audit samples."""
        return sum(own.points_held for own in self._partitions.values())

    @property
    def audit_points(self) -> int:
        """Points of the audit samples."""
        return sum(len(reservoir) for own in self._partitions.values() for reservoir in own.audit)

    @property
    def leaves_sealed(self) -> int:
        """Leaves sealed since the base."""
        return sum(own.sealed for own in self._partitions.values())

    def learned(self) -> dict[int, Learned]:
        """Return the totals of everything that each partition learned since the base."""
        return {partition: own.learned for partition, own in self._partitions.items()}

    @property
    def rows(self) -> int:
        """Rows seen since the base, rejected ones included."""
        return sum(learned.rows for learned in self.learned().values())

    @property
    def points_accepted(self) -> int:
        """Valid points learned since the base."""
        return sum(learned.count for learned in self.learned().values())

    def buckets(self) -> dict[int, tuple[Bucket, ...]]:
        """Return the buckets of each partition, the oldest first."""
        return {partition: own.buckets for partition, own in self._partitions.items()}

    def open_leaves(self) -> dict[int, OpenLeaf]:
        """Return how full each partition's open leaf is."""
        return {partition: own.open_leaf() for partition, own in self._partitions.items()}

    def horizons(self) -> dict[int, tuple[Horizon, ...]]:
        """Return the horizons that a cut would have now, of each partition; none where nothing is forgotten."""
        if not self._config.coreset.forgets:
            return dict.fromkeys(self._partitions, ())
        states = self.state().partitions
        now_ms = latest_ms(states, self._config.coreset)
        return {partition: _horizons(state, self._config.coreset, now_ms) for partition, state in states.items()}

    def short_share(self) -> float | None:
        """Return which share of a cut's weight horizons shorter than a tenth of their partition's rows have now.

        Of the partition where it is greatest; None where horizons are not learned.
        """
        if self._config.coreset.memory != "adaptive":
            return None
        learned = self.learned()
        return max(
            sum(one.share for one in horizons if SHORT * one.rows < learned[partition].rows)
            for partition, horizons in self.horizons().items()
        )

    def drift(self) -> dict[int, Drift]:
        """Return what moved most in each partition that drifts now."""
        for partition, own in self._partitions.items():
            blocks = own.history.mean  # new where a block ended
            if self._drift.get(partition, (None, None))[0] is not blocks:
                self._drift[partition] = blocks, drift(own.history)
        return {partition: one for partition, (_, one) in self._drift.items() if one is not None}

    def observed(self) -> Observed:
        """Return what reductions met since this was made; of cuts, those that were noted."""
        whole = Observed()
        if self._config.coreset.reducer == "uniform":  # nothing is promised
            return whole
        for one in (self._of_cuts, *(own.observed for own in self._partitions.values())):
            whole.add(one)
        return whole

    def outliers(self) -> Tally:
        """Return which rows were drawn in since this was made."""
        whole = Tally()
        for own in self._partitions.values():
            whole.add(own.outliers)
        return whole

    def _anything_sealed(self) -> bool:
        """Return whether a valid point was ever sealed."""
        return any(own.sealed_count for own in self._partitions.values())


def latest_ms(states: Mapping[int, PartitionState], coreset: CoresetConfig) -> int:
    """Return the latest time of a span of any partition, from which ages count; -1 where age is counted in rows."""
    return max(state.latest_ms(coreset) for state in states.values())


def _horizons(state: PartitionState, coreset: CoresetConfig, now_ms: int) -> tuple[Horizon, ...]:
    if state.memory is None:
        return ()
    return tuple(Horizon(*one) for one in state.memory.newest(coreset, state.buckets, state.own, now_ms))


def _cut_of(taken: Mapping[int, PartitionState], config: ModelConfig) -> Cut:
    """Put the states of all partitions together, in their order, and reduce the union of their points."""
    coreset, observed = config.coreset, Observed()
    states = {partition: state.drawn_in() for partition, state in taken.items()}
    # By the newest rows, not by a clock: a memory that forgets by time must give the same cut in a year.
    now_ms = latest_ms(states, coreset)
    parts, audit, coverage = list[Points](), list[Sampled](), dict[int, Coverage]()
    moments = Moments.zero(config.points.dimension, config.points.classes)
    for partition, state in states.items():
        factors = state.factors(coreset, now_ms)
        parts += state.parts(factors)
        audit += state.samples(coreset, factors)
        moments = moments.merge(state.moments(factors))
        if state.memory is not None:
            oldest = state.memory.oldest(coreset, state.buckets, state.own, now_ms)
            coverage[partition] = Coverage(*oldest, _horizons(state, coreset, now_ms))
    positions = LearnerState(states, 0).positions
    points = Points.empty(config.points.dimension, config.points.numpy_dtype)
    if parts:
        union, name = Points.union(parts), cut_name(positions)
        near = next((state.screen.pilot for state in states.values() if state.screen is not None), None)
        points = training_set(union, coreset.train_points, moments, config, Purpose.CUT, name, observed, near)
    learned = folded(Learned.join, [state.learned for state in states.values()])
    if config.earlier:
        moments = evened(moments, float(learned.class_weight.sum()), config)
    return Cut(
        positions=positions,
        leader_epochs={partition: state.leader_epoch for partition, state in states.items()},
        points=points,
        moments=moments,
        learned=learned,
        audit=tuple(audit),
        coverage=coverage,
        beside_offsets={
            partition: state.beside_offset for partition, state in states.items() if config.label_rule is not None
        },
        observed=observed,
    )


def cut_name(positions: Positions) -> tuple[int, int, int]:
    """Return 192 bits that name a cut by its positions: a trainer may pass over cuts, so that a count would not do."""
    plain = json.dumps([[partition, *positions[partition]] for partition in sorted(positions)])
    words = np.frombuffer(hashlib.sha256(plain.encode()).digest(), dtype="<u8")
    return int(words[0]), int(words[1]), int(words[2])


def training_set(
    points: Points,
    m: int,
    moments: Moments,
    config: ModelConfig,
    purpose: Purpose,
    name: tuple[int, int, int],
    observed: Observed,
    near: Pilot | None = None,
) -> Points:
    """Return points that stand for all rows of some moments, reduced to m where there are more.

    Newton's method begins at the machines of the pilot `near`.
    """
    if len(points) <= m:
        return points
    found = None
    if config.coreset.reducer != "uniform":
        if config.pilots.kernel != "rbf":
            sketch = generator(config.seed, Purpose.SKETCH, name)
            found = measured(points, moments.weight, moments, config.pilots, sketch, near)
        else:
            found = measured_by_landmarks(points, moments, moments.count, config, None)
    return reduce(points, m, found, generator(config.seed, purpose, name), config.points.classes, observed)


def warm_up(config: ModelConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, all functions that learning and cutting run for a configuration.

    Call it before the first poll: a cold start takes ten seconds and more. `say` is called with a sentence before each
    part; an exception that it raises ends the warm-up.
    """
    # What pilots of many features are solved by, and trainings.
    interior_point.warm_up()
    training.warm_up(config.svm, say)
    # Small leaves, buckets and training set: every kind of reduction happens within `REHEARSED` rows.
    own, labels = config.coreset, tuple(range(config.points.classes)) if config.points.classes > 2 else (-1, 1)
    coreset = CoresetConfig(
        reducer=own.reducer,
        structure=own.structure,
        points=2_112 if own.structure == "counter" else 352,
        train_points=48,
    )
    points = PointsConfig(dimension=2, dtype=config.points.dtype, labels=labels)
    random = generator(0, Purpose.CUT, (0, 0, 0))
    X = random.standard_normal((REHEARSED, 2)).astype(points.numpy_dtype)
    y = np.searchsorted(np.linspace(-1.0, 1.0, len(labels) + 1)[1:-1], X[:, 0] + 0.3 * X[:, 1]).astype(np.int8)
    whole = Rows(
        partition=0,
        offset=np.arange(REHEARSED),
        row=np.zeros(REHEARSED, np.int64),
        last=np.ones(REHEARSED, np.bool_),
        times=LookedUp.of(np.full(REHEARSED, -1, np.int64)),
        accepted=np.ones(REHEARSED, np.bool_),
        points=Points(X, y if len(labels) > 2 else 2 * y - 1, np.ones(REHEARSED)),
        leader_epoch=np.full(REHEARSED, -1, np.int64),
    )
    learner = Learner(
        ModelConfig(points=points, coreset=coreset, svm=config.svm, pilots=config.pilots),
        {0: Position(0)},
        REHEARSED,
    )
    for part, until in (("sums and the audit sample", 20), ("pilots and screens", 500), ("reductions", REHEARSED)):
        say(f"preparing {part}")
        learner.learn(whole, Position(until))
    say("preparing cuts")
    learner.cut()
