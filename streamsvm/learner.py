"""The learner: rows in, cuts out; no I/O, no clock, no threads.

Invariants: what a partition holds is a pure function of its log, the configuration and the seed; a row is learned once
however often it is offered; a cut is a training set that is materialised at once, never a promise about a later state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamsvm import kernel_pilot, training
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import audit, screening
from streamsvm.coreset.audit import Held, Reservoir, Sampled
from streamsvm.coreset.calibrated import CalibratedReducer, Observed
from streamsvm.coreset.clipping import Bounds, freed_of_outliers
from streamsvm.coreset.moments import Moments, merge_all
from streamsvm.coreset.reduce import Pilot, Purpose, Reducer, SensitivityReducer, UniformReducer, generator, reduce_for
from streamsvm.coreset.screening import LEAST_CAPACITY, Screen, Screened, Screener, make_screen, turned
from streamsvm.coreset.sensitivity import dual_bound, mean_bound
from streamsvm.coreset.shift import ShiftWatch
from streamsvm.coreset.structure import Bucket, Chain, Extent, Leaf, Structure, Tree, joined, time_range
from streamsvm.kernel_pilot import make_kernel_pilot
from streamsvm.points import Points, Position, Positions, Rows
from streamsvm.svm import interior
from streamsvm.svm.interior import MOST_FEATURES, InteriorPointSolver
from streamsvm.svm.kernels import LinearKernel
from streamsvm.svm.problem import Problem, Solver
from streamsvm.svm.solvers import SOLVERS

REDUCERS: dict[str, Callable[[CoresetConfig], Reducer]] = {
    "uniform": lambda config: UniformReducer(),  # noqa: ARG005
    "sensitivity": lambda config: SensitivityReducer(config.clusters),
    "calibrated": lambda config: CalibratedReducer(),  # noqa: ARG005
}
"""What makes every reducer, by the name it has in the configuration."""

PILOT_TOLERANCE = 0.1
"""KKT gap at which a pilot by pairs is good enough: its dual objective is then within a few per cent of the optimum."""
REHEARSED = 2_000
"""Rows with which a learner is warmed up."""
PILOT_ITERATIONS = 20_000
"""Bound on a pilot's iterations; a solver that meets it leaves a lower bound that is lower, and still certified."""


@dataclass(frozen=True, slots=True)
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
class PartitionState:
    """All that a partition is, for a checkpoint: separable from every other partition.

    Attributes
    ----------
    sealed : int
        Leaves sealed.
    leader_epoch : int
    buckets : tuple of Bucket
        The oldest first.
    leaf_points : Points
    leaf_extent : Extent
        Its `end` is the partition's position.
    screened : Screened or None
        Of the open leaf, if it is screened.
    audit : Held or None
        The audit sample; None where none is kept.
    """

    sealed: int
    leader_epoch: int
    buckets: tuple[Bucket, ...]
    leaf_points: Points
    leaf_extent: Extent
    screened: Screened | None = None
    audit: Held | None = None

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.leaf_extent.end


@dataclass(frozen=True, slots=True)
class LearnerState:
    """All that a learner is, for a checkpoint."""

    partitions: Mapping[int, PartitionState]
    leaves_since_cut: int


class _Partition:
    """One partition's structure, open leaf and audit sample."""

    def __init__(self, partition: int, base: Position, config: ModelConfig) -> None:
        coreset = config.coreset
        self._partition, self._config = partition, config
        self._bounds: Bounds | None = None
        self.clipped = 0
        self.leader_epoch = -1
        self.leaf = Leaf(base, coreset.leaf_rows, config.points.dimension, config.points.numpy_dtype)
        self.structure = make_structure(partition, config.seed, coreset)
        self._shift = ShiftWatch(config.points.dimension)
        self.audit = make_reservoir(partition, config)

    @property
    def position(self) -> Position:
        return self.leaf.end

    @property
    def extent(self) -> Extent:
        return joined([bucket.extent for bucket in self.structure.buckets] + [self.leaf.extent])

    def add(self, rows: Rows) -> int:
        """Add rows that fit into the leaf; tell how many leaves of `leaf_rows` rows that completed."""
        leaf_rows = self._config.coreset.leaf_rows
        before = self.leaf.rows
        if self.audit is not None:
            self.audit.add(rows)
        self.leaf.add(self._clip(rows))
        self.leader_epoch = int(rows.leader_epoch[-1])
        completed = self.leaf.rows // leaf_rows - before // leaf_rows
        if self.leaf.full:
            self._seal()
        return completed

    def _seal(self) -> None:
        self._look_for_shift()
        points, extent = self._sealed_leaf()
        sealed = [bucket.extent.moments for bucket in self.structure.buckets]
        seen = merge_all([*sealed, extent.moments], points.dimension)
        solved: dict[tuple[Position, Position], Pilot] = {}

        def pilot_of(points: Points, extent: Extent) -> Pilot:
            solved[extent.start, extent.end] = pilot_for(points, extent.moments.weight, seen, self._config)
            return solved[extent.start, extent.end]

        self.structure.insert(points, extent, pilot_of)
        self.bound()
        screen = self._next_screen(solved)
        if screen is not None:
            self.leaf.screen(Screener.begin(screen, *self._leaf_name))

    @property
    def observed(self) -> Observed:
        """What calibrated reductions met; of other ones, nothing."""
        reducer = self.structure.reducer
        return reducer.observed if isinstance(reducer, CalibratedReducer) else Observed()

    @property
    def _leaf_name(self) -> tuple[int, int, int]:
        return self._config.seed, self._partition, self.structure.sealed

    def _next_screen(self, solved: Mapping[tuple[Position, Position], Pilot]) -> Screen | None:
        """Make the next leaf's screen from the sealed buckets; None if it is to be short, or a label is missing.

        `solved` has the pilots that were just solved, by what their points stood for: one of everything is not solved
        anew.
        """
        coreset, buckets = self._config.coreset, self.structure.buckets
        whole = joined([bucket.extent for bucket in buckets])
        span = int(whole.rows * coreset.screening) // coreset.leaf_rows * coreset.leaf_rows
        if not self._screens or span < 2 * coreset.leaf_rows or not whole.moments.class_weight.all():
            return None
        points, moments = Points.union([bucket.points for bucket in buckets]), whole.moments
        pilot = solved.get((whole.start, whole.end))
        if pilot is None:
            pilot = make_pilot(points, moments.weight, moments, self._config.svm)
        if pilot.lower_bound <= 0.0:
            return None
        random = generator(self._config.seed, Purpose.SKETCH, (self._partition, self.structure.sealed, 0))
        return make_screen(points, pilot, moments, span, span * moments.count / whole.rows, coreset.leaf_rows, random)

    @property
    def _screens(self) -> bool:
        coreset = self._config.coreset
        return coreset.screens and self._config.svm.kernel == "linear" and coreset.leaf_rows >= LEAST_CAPACITY

    def state(self) -> PartitionState:
        """Return everything a checkpoint needs; what the open leaf may still change is copied."""
        screened = self.leaf.screened
        return PartitionState(
            self.structure.sealed,
            self.leader_epoch,
            self.structure.buckets,
            _copy(self.leaf.points),
            self.leaf.extent,
            None if screened is None else screened.copy(),
            None if self.audit is None else self.audit.state(),
        )

    def restore(self, saved: PartitionState) -> None:
        """Put a checkpoint's state in place."""
        self.leader_epoch = saved.leader_epoch
        self.structure.restore(saved.sealed, saved.buckets)
        screener = None if saved.screened is None else Screener(saved.screened.copy(), *self._leaf_name)
        self.leaf.restore(saved.leaf_points, saved.leaf_extent, screener)
        self.bound()
        if self.audit is not None and saved.audit is not None:
            self.audit.restore(saved.audit)

    def _clip(self, rows: Rows) -> Rows:
        if self._bounds is None:
            return rows
        points, clipped = self._bounds.clip(rows.points)
        self.clipped += int(np.count_nonzero(clipped & rows.accepted))
        return replace(rows, points=points)

    def sampled(self, class_weight: NDArray[np.float64]) -> Sampled | None:
        """Return the audit sample, clipped as the next row would be: a model is judged by what it was to learn."""
        if self.audit is None:
            return None
        sampled = self.audit.sampled(class_weight)
        return sampled if self._bounds is None else replace(sampled, points=self._bounds.clip(sampled.points)[0])

    def bound(self) -> None:
        """Set the bounds of clipping by what is sealed: a function of the buckets, so that no state holds it."""
        clip_sd = self._config.coreset.clip_sd
        if clip_sd is not None:
            moments = merge_all(
                [bucket.extent.moments for bucket in self.structure.buckets], self._config.points.dimension
            )
            self._bounds = Bounds.of(moments, clip_sd) if moments.count else None

    def _sealed_leaf(self) -> tuple[Points, Extent]:
        """Return the full leaf; one that nothing was sealed before is clipped by its own bounds."""
        points, extent = self.leaf.seal(self.observed)
        clip_sd = self._config.coreset.clip_sd
        if clip_sd is None or self._bounds is not None:
            return points, extent
        points, clipped = freed_of_outliers(points, extent.moments, clip_sd)
        self.clipped += int(np.count_nonzero(clipped))
        return points, replace(extent, moments=Moments.zero(points.dimension).add(points))

    def _look_for_shift(self) -> None:
        """Note a leaf that is unlike all sealed ones; it changes nothing."""
        if isinstance(self.structure.reducer, CalibratedReducer):
            leaf, buckets = self.leaf.extent.moments, self.structure.buckets
            sealed = merge_all([bucket.extent.moments for bucket in buckets], len(leaf.mean))
            shifted = self._shift.shifted(sealed, leaf, self.leaf.points)
            if self.leaf.screened is not None:
                shifted |= turned(self.leaf.screened, Points.union([bucket.points for bucket in buckets]))
            self.structure.reducer.observed.shifted += shifted


class Learner:
    """Keeps the structures of all partitions and says when a cut is due.

    Parameters
    ----------
    config : ModelConfig
    base : mapping of partition to Position
        Where each partition begins.
    every_leaves : int
        Sealed leaves, over all partitions, after which a cut is due.
    """

    def __init__(self, config: ModelConfig, base: Positions, every_leaves: int) -> None:
        self._config = config
        self._every_leaves = every_leaves
        self._leaves_since_cut = 0
        self._union_reducer = REDUCERS[config.coreset.reducer](config.coreset)
        self._partitions = {partition: _Partition(partition, base[partition], config) for partition in sorted(base)}

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

    def buckets(self) -> dict[int, tuple[Bucket, ...]]:
        """Return the buckets of each partition, the oldest first."""
        return {partition: held.structure.buckets for partition, held in self._partitions.items()}

    def observed(self) -> Observed:
        """Return what calibrated reductions, of partitions and cuts, met since this was made; zeros of other ones."""
        whole = Observed()
        for reducer in (self._union_reducer, *(held.structure.reducer for held in self._partitions.values())):
            if isinstance(reducer, CalibratedReducer):
                whole.add(reducer.observed)
        return whole

    @property
    def rows_clipped(self) -> int:
        """Accepted rows of which clipping changed a feature, since this learner was made."""
        return sum(held.clipped for held in self._partitions.values())

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
        parts = [
            part
            for held in self._partitions.values()
            for part in (*(bucket.points for bucket in held.structure.buckets), held.leaf.calibrated(Observed()))
            if len(part)
        ]
        extents = [held.extent for held in self._partitions.values()]
        moments = Moments.zero(self._config.points.dimension)
        for extent in extents:
            moments = moments.merge(extent.moments)
        self._leaves_since_cut = 0
        return Cut(
            self.positions,
            {partition: held.leader_epoch for partition, held in self._partitions.items()},
            self._training_set(parts, moments),
            moments,
            sum(extent.rows for extent in extents),
            min((extent.first_time_ms for extent in extents if extent.first_time_ms >= 0), default=-1),
            max(extent.last_time_ms for extent in extents),
            tuple(
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
        pilot = pilot_for(union, moments.weight, moments, self._config) if reducer.needs_pilot else None
        random = generator(self._config.seed, Purpose.CUT, cut_counter(self.positions))
        return reduce_for(reducer, union, coreset.train_points, random, pilot)

    def extend(self, base: Positions) -> None:
        """Take up partitions that are new; they change no other partition's structure."""
        assert not base.keys() & self._partitions.keys()
        added = {partition: _Partition(partition, base[partition], self._config) for partition in base}
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


def make_structure(partition: int, seed: int, config: CoresetConfig) -> Structure:
    """Return the empty structure of a partition."""
    reducer = REDUCERS[config.reducer](config)
    if config.structure == "chain":
        return Chain(partition, seed, config.bucket_points, reducer)
    return Tree(partition, seed, config.fan_in, config.bucket_points, reducer)


def make_reservoir(partition: int, config: ModelConfig) -> Reservoir | None:
    """Return the empty audit sample of a partition; None where none is kept."""
    capacity, points = config.coreset.audit_points, config.points
    return Reservoir(capacity, partition, config.seed, points.dimension, points.numpy_dtype) if capacity else None


def pilot_for(points: Points, weight: float, seen: Moments, config: ModelConfig) -> Pilot:
    """Solve the pilot that the configured reducer can use.

    That is the one of the trained kernel for `calibrated`. The bounds of `sensitivity` are the linear problem's.
    """
    if config.svm.kernel != "linear" and config.coreset.reducer == "calibrated":
        return make_kernel_pilot(points, weight, seen, config.svm)
    return make_pilot(points, weight, seen, config.svm)


def make_pilot(points: Points, weight: float, seen: Moments, config: SvmConfig) -> Pilot:
    """Solve a node's own problem roughly (Alg. 1, lines 1 and 2).

    Parameters
    ----------
    points : Points
        The node's points, at least one.
    weight : float
        U_node, the exact weight that they stand for.
    seen : Moments
        Of everything that the node is a part of: its partition up to that count, or a whole cut.
    config : SvmConfig

    Returns
    -------
    Pilot
        Of the linear problem, whatever kernel is trained. With one label only, the constant of that label and the
        bound 0.

    Notes
    -----
    A node reduced under the full regulariser would let the union of K nodes err by K times as much of it. So it gets
    the share U_node / U of |w|^2 / 2, which is the problem of penalty C U / U_node up to a factor, and sensitivities
    are ratios. C is the penalty that a training of everything seen would use; with a fixed C and several partitions a
    partition knows its own weight only, which costs accuracy of the bounds, never determinism.
    """
    scaler = training.scaler_of(seen, config)
    penalty = config.penalty(seen.weight) * seen.weight / weight
    if abs(int(points.y.sum(dtype=np.int64))) == len(points):
        label = float(points.y[0])
        return Pilot(penalty, scaler.mean, scaler.scale, np.zeros(points.dimension), label, 0.0)
    class_weight = config.class_weights(seen.class_weight)
    Z, weighted = scaler.transform(points.X), points.class_weighted(class_weight).weight
    upper = penalty * weighted
    problem = Problem(Z, points.y, upper, LinearKernel(), PILOT_TOLERANCE, PILOT_ITERATIONS)
    solution = pilot_solver(len(points), points.dimension).solve(problem)
    assert solution.alpha is not None
    assert solution.coefficients is not None
    bound = max(dual_bound(Z, points.y, upper, solution.alpha), mean_bound(Z, points.y, weighted, penalty))
    return Pilot(penalty, scaler.mean, scaler.scale, solution.coefficients, solution.intercept, bound, class_weight)


def pilot_solver(points: int, dimension: int) -> Solver:
    """Return what solves pilots of so many points and features: rough, deterministic, with dual variables."""
    return InteriorPointSolver() if min(points, dimension) < MOST_FEATURES else SOLVERS["stda"]()


def warm_up(config: ModelConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, whatever learning and training of a configuration run.

    Ten seconds and more on a cold start, so it belongs before the first poll; `say` is told before what may take long.
    """
    Moments.zero(1).add(Points.empty(1, config.points.numpy_dtype))
    audit.warm_up(config.points.numpy_dtype)
    interior.warm_up()
    time_range(np.empty(0, np.int64))
    if config.coreset.screens:
        screening.warm_up(config.points.numpy_dtype)
    if config.svm.kernel != "linear" and config.coreset.reducer == "calibrated":
        kernel_pilot.warm_up(say)
    training.warm_up(config.svm, say)
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


def _copy(points: Points) -> Points:
    return Points(points.X.copy(), points.y.copy(), points.weight.copy())
