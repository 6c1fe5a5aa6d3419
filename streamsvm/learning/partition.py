"""One partition of the input: its open leaf, its structure, its audit sample.

What a partition has *learned* only grows: rows, points, their weight. What it *holds* is what a cut is made of: all of
that, or what is not forgotten of it. A structure that forgets (`streamsvm.coreset.dyadic`) has nodes that know their
own rows only; then the open span is bounded, screened and audited by itself, as the first leaf of a stream is.

Invariant: the content of a partition is a pure function of its log, the configuration and the seed. Other partitions
have no influence on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.coreset.audit_sample import EVERY_LABEL, LABELS, Held, Reservoir, Sampled, merged, shares
from streamsvm.coreset.class_screening import least_capacity, make_class_screen, span_share
from streamsvm.coreset.clipping import Bounds, freed_of_outliers
from streamsvm.coreset.dyadic import OPEN, stretch_of
from streamsvm.coreset.forgetting import Forgetting, Horizon, Stretch, latest
from streamsvm.coreset.leaf import Leaf, totals_of
from streamsvm.coreset.moments import Moments, merge_all
from streamsvm.coreset.outliers import Found, Outlier, OutlierBounds, Tally
from streamsvm.coreset.reducers.base import Observed, Purpose, Reducer, generator
from streamsvm.coreset.screening import TARGET, Screen, Screener, condensing, make_landmark_screen, make_screen
from streamsvm.coreset.screens import AnyScreen, AnyScreened, AnyScreener, begun, calibrated, resumed, turned
from streamsvm.coreset.shift import HeldWatch, ShiftWatch, is_steady
from streamsvm.coreset.structure import (
    NO_TIMES,
    Bucket,
    Chain,
    Extent,
    Learned,
    PilotOf,
    Structure,
    Tree,
    joined,
)
from streamsvm.coreset.totals import Totals
from streamsvm.learning.landmark_pilots import again
from streamsvm.learning.pilots import linear_pilot
from streamsvm.learning.tasks import Task
from streamsvm.learning.voting import Voting
from streamsvm.plugs import Table
from streamsvm.points import Points, Position, Rows

LEAST_TIMES: Final = 5
"""Rows of a known time that an open span must have before it has one: of fewer, a strange one may be the median."""
SEALS_A_PILOT: Final = 4
"""Leaves that are sealed and screened by the same landmarks without `coreset.leaf_parts`. Each pilot takes a tenth of a
second."""
GROWTH_A_PILOT: Final = 1.5
"""By what a stream grows, otherwise, while the same landmarks are asked: its machine changes little meanwhile."""
Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Offsets and rows of accepted points, in their order."""
Witness = Callable[[Points, Points], object]
"""Takes valid points in the order of the log, as they came and as they are learned. They may be views: what is to
outlive the call must be copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetful:
    """What a partition that forgets knows besides what it holds.

    Attributes
    ----------
    learned : Learned
        Of everything sealed since the base.
    times : ndarray of shape (k,), int64
        Times of some rows of the open span, whose median is that of the span; empty where age is not counted in time.
    voting : Voting or None
        Experts and shares of horizons, if they say what counts.
    """

    learned: Learned
    times: NDArray[np.int64]
    voting: Voting | None = None


def span_times(times: NDArray[np.int64]) -> tuple[int, int]:
    """Return the time of a span, twice: the (lower) median of its rows' times; -1 of none."""
    if not len(times):
        return NO_TIMES
    median = int(np.partition(times, (len(times) - 1) // 2)[(len(times) - 1) // 2])
    return median, median


def learned(forgetful: Forgetful | None, buckets: Sequence[Bucket], leaf: Extent) -> Learned:
    """Return the totals of all rows that a partition learned."""
    if forgetful is not None:
        return forgetful.learned.join(leaf.learned)
    return joined([bucket.extent for bucket in buckets] + [leaf]).learned


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The complete state of a partition, for a checkpoint; independent of every other partition.

    Attributes
    ----------
    sealed : int
        Number of leaves sealed.
    leader_epoch : int
    buckets : tuple of Bucket
        The oldest first.
    leaf_points : Points
    leaf_extent : Extent
        Its `end` is the partition's position.
    screened : Screened, ClassScreened or None
        The state of the open leaf's screen, if it is screened.
    audit : tuple of Held
        The audit sample, or that of each label; none if `audit_points` is 0. Where buckets have their own: that of the
        open span.
    forgetful : Forgetful or None
        What a partition that forgets knows besides.
    labels_offset : int
        Offset after the newest record of the labels log that counted; -1 where labels do not come from a log of their
        own, or none did yet.
    leaf_totals : Totals or None
        Of an open leaf that is not screened, if some of its points did not come as they are, and totals are kept.
    """

    sealed: int
    leader_epoch: int
    buckets: tuple[Bucket, ...]
    leaf_points: Points
    leaf_extent: Extent
    screened: AnyScreened | None = None
    audit: tuple[Held, ...] = ()
    forgetful: Forgetful | None = None
    labels_offset: int = -1
    leaf_totals: Totals | None = None

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.leaf_extent.end

    @property
    def learned(self) -> Learned:
        """Totals of all rows learned since the base."""
        return learned(self.forgetful, self.buckets, self.leaf_extent)

    @property
    def rows_accepted(self) -> int:
        """Number of rows learned so far, without rejected rows."""
        return self.learned.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A partition as it stood at a cut. Nothing in it changes any more, whatever the partition learns.

    Attributes
    ----------
    state : PartitionState
        Buckets by reference; the arrays of leaf and audit sample are those of the partition, which copies them before
        it changes them.
    bounds : Bounds or None
        By which the next row is clipped.
    outlier_bounds : OutlierBounds or None
        None before anything was sealed.
    places : tuple of (offsets, rows)
        Where the points of a first leaf stand in the log; empty where that is not known.
    forgetting : Forgetting or None
        None where nothing is forgotten.
    """

    state: PartitionState
    bounds: Bounds | None
    outlier_bounds: OutlierBounds | None
    places: tuple[Places, ...]
    forgetting: Forgetting | None = None

    @property
    def now_ms(self) -> int:
        """The latest time of a span; -1 where none has one, or age is not counted in time."""
        return latest(self._stretches())[-1]

    def parts(self, config: ModelConfig, task: Task, now_ms: int) -> Parts:
        """Return everything that is held, under the weights that it has in a cut.

        Parameters
        ----------
        config : ModelConfig
        task : Task
        now_ms : int
            The latest time of all partitions.
        """
        state = self.state
        points, moments, found = self._open_points(config, task)
        factors = self._factors(now_ms, moments)
        held = [(bucket.points, bucket.extent.moments) for bucket in state.buckets] + [(points, moments)]
        counting = [(*one, factor) for one, factor in zip(held, factors, strict=True) if factor > 0.0]
        whole = Moments.zero(config.points.dimension, task.classes)
        for _, own, factor in counting:
            whole = whole.merge(own.scaled(factor))
        return Parts(
            points=tuple(own.scaled(factor) for own, _, factor in counting if len(own)),
            moments=whole,
            audit=tuple(self._sampled(factors, whole.class_weight, config, task)),
            found=found,
            horizons=self.horizons(now_ms),
            totals=self._totals(points) if keeps_totals(config, task) else (),
        )

    def _totals(self, open_points: Points) -> tuple[tuple[Points, Totals], ...]:
        """Return everything that is held with its totals; empty where a bucket has none."""
        found = [(bucket.points, bucket.totals) for bucket in self.state.buckets]
        leaf = self.state
        found.append((open_points, totals_of(open_points, leaf.leaf_points, leaf.screened, leaf.leaf_totals)))
        known = tuple((points, totals) for points, totals in found if totals is not None)
        return known if len(known) == len(found) else ()

    def _stretches(self) -> list[Stretch]:
        """Return what is held as a rule of forgetting sees it, the open span as one."""
        state = self.state
        full = [bucket for bucket in state.buckets if bucket.level != OPEN]
        rows = state.leaf_extent.rows + sum(bucket.extent.rows for bucket in state.buckets[len(full) :])
        known = np.empty(0, np.int64) if state.forgetful is None else state.forgetful.times
        times = span_times(known) if len(known) >= LEAST_TIMES else NO_TIMES
        return [*map(stretch_of, full), Stretch(rows, times)]

    def _factors(self, now_ms: int, leaf: Moments) -> list[float]:
        """Return by what the weights of each bucket, and of the open leaf, count."""
        if self.forgetting is None:
            return [1.0] * (len(self.state.buckets) + 1)
        if self.state.forgetful is not None and self.state.forgetful.voting is not None:
            return self.state.forgetful.voting.factors(self.state.buckets, leaf)
        found = self.forgetting.factors(self._stretches(), now_ms)
        return found + found[-1:] * (len(self.state.buckets) + 1 - len(found))

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first; empty where nothing is forgotten."""
        state = self.state
        if self.forgetting is None or state.forgetful is None:
            return ()
        if state.forgetful.voting is not None:
            return state.forgetful.voting.horizons(state.leaf_extent)
        stretches = self._stretches()
        pairs = zip(stretches, self.forgetting.factors(stretches, now_ms), strict=True)
        return (Horizon(sum(stretch.rows for stretch, factor in pairs if factor > 0.0), 1.0),)

    def oldest(self, now_ms: int) -> tuple[Position, Learned]:
        """Return where the oldest rows that count begin, and what was learned before them; only where some do not."""
        assert self.forgetting is not None
        assert self.state.forgetful is not None
        factors = self.forgetting.factors(self._stretches(), now_ms)
        for bucket, factor in zip(self.state.buckets, factors, strict=False):
            if factor > 0.0:
                assert bucket.before is not None
                return bucket.extent.start, bucket.before
        return self.state.leaf_extent.start, self.state.forgetful.learned

    def open_points(self, config: ModelConfig, task: Task) -> Points:
        """Return the points of the open leaf as a cut has them."""
        return self._open_points(config, task)[0]

    def _open_points(self, config: ModelConfig, task: Task) -> tuple[Points, Moments, Found | None]:
        """Return points and moments of the open leaf, a first leaf clipped as if sealed; and the outliers of that."""
        state = self.state
        bounds = self._first_bounds(config)
        if bounds is None:
            points = state.leaf_points
            calm = points if state.screened is None else calibrated(points, state.screened, Observed())
            return calm, state.leaf_extent.moments, None
        points, found = bounds.draw_in(state.leaf_points)
        if found is None:
            return points, state.leaf_extent.moments, None
        return points, Moments.zero(points.dimension, task.classes).add(points), found

    def _sampled(
        self, factors: Sequence[float], class_weight: NDArray[np.float64], config: ModelConfig, task: Task
    ) -> Iterator[Sampled]:
        """Yield the audit sample, or that of each label, of everything that counts."""
        more = config.coreset.audit_points // (config.coreset.bucket_audit_points or 1)
        shares = audit_shares(config, task)
        for place, ((label, most), own) in enumerate(zip(shares.items(), self.clipped_audit(config), strict=True)):
            older = [
                bucket.audit[place].scaled(factor)
                for bucket, factor in zip(self.state.buckets, factors, strict=False)
                if factor > 0.0 and bucket.audit
            ]
            held = merged([*older, own.scaled(factors[-1])], more * most) if older else own
            yield held.sampled(
                class_weight if label == EVERY_LABEL else np.where(np.equal(LABELS, label), class_weight, 0.0)
            )

    def clipped_audit(self, config: ModelConfig) -> Iterator[Held]:
        """Yield the audit sample, or that of each label, clipped like the next row: models learn clipped points."""
        outliers = self.outlier_bounds or self._first_bounds(config)
        for held in self.state.audit:
            points = held.points if self.bounds is None else self.bounds.clip(held.points)[0]
            yield replace(held, points=points if outliers is None else outliers.draw_in(points)[0])

    def _first_bounds(self, config: ModelConfig) -> OutlierBounds | None:
        return first_bounds(config.coreset, self.outlier_bounds, self.state.leaf_points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a partition brings to a cut, under the weights that it has there.

    Attributes
    ----------
    points : tuple of Points
        The oldest first; none is empty.
    moments : Moments
        Of the rows that they stand for.
    audit : tuple of Sampled
        The audit sample of these rows, or that of each label.
    found : Found or None
        The outliers of an open first leaf.
    horizons : tuple of Horizon
        What they are of; empty where nothing is forgotten.
    totals : tuple of (Points, Totals)
        Of buckets and open leaf; empty where nobody keeps them.
    """

    points: tuple[Points, ...]
    moments: Moments
    audit: tuple[Sampled, ...]
    found: Found | None
    horizons: tuple[Horizon, ...]
    totals: tuple[tuple[Points, Totals], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLeaf:
    """How full a partition's open leaf is.

    Attributes
    ----------
    sealed : int
        Number of leaves sealed before this one.
    start, end : Position
        The leaf's rows; `end` is exclusive.
    rows, span : int
        Rows seen, and the number of rows at which the leaf is full.
    points : int
        Points that the leaf holds.
    """

    sealed: int
    start: Position
    end: Position
    rows: int
    span: int
    points: int


class Partition:
    """One partition's structure, open leaf and audit sample.

    Parameters
    ----------
    partition : int
    base : Position
        The partition's first row.
    config : ModelConfig
    task : Task
    """

    def __init__(self, partition: int, base: Position, config: ModelConfig, task: Task) -> None:
        coreset, points = config.coreset, config.points
        self._partition, self._config, self._task = partition, config, task
        self._bounds: Bounds | None = None
        self._outlier_bounds: OutlierBounds | None = None
        self._places: list[Places] | None = []
        self._standing: Standing | None = None
        self._of_open_leaf = Tally()
        self._tally = Tally()
        self._witness: Witness | None = None
        self._band = 0.0
        self._keeps_totals = keeps_totals(config, task)
        self.clipped = 0
        self.leader_epoch = -1
        self.labels_offset = -1
        self.leaf = Leaf(base, coreset.leaf_rows, points.dimension, points.numpy_dtype, task.classes)
        self.structure = self._empty_structure()
        self._shift = ShiftWatch(points.dimension, task.classes)
        self._held = HeldWatch()
        self._turned: bool | None = None
        self.audit = make_reservoirs(partition, config, task)

    def _empty_structure(self) -> Structure:
        return make_structure(self._partition, self._config.seed, self._config.coreset, self._task)

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.leaf.end

    @property
    def points_held(self) -> int:
        """Points of buckets, open leaf and audit sample."""
        return self.structure.points_held + len(self.leaf) + sum(map(len, self.audit))

    @property
    def count(self) -> int:
        """Valid points learned since the base."""
        return self.sealed_count + self.leaf.count

    @property
    def sealed_count(self) -> int:
        """Valid points sealed since the base."""
        return self.structure.count

    @property
    def learned(self) -> Learned:
        """Totals of all rows learned since the base."""
        return learned(self._forgetful(), self.structure.buckets, self.leaf.extent)

    @property
    def forgetting(self) -> Forgetting | None:
        """The rule by which rows are forgotten; None: none is."""
        return None

    def show(self, witness: Witness) -> None:
        """Show all points that are learned from now on to a witness: those of a first leaf when it is sealed."""
        assert self._witness is None
        assert self.forgetting is None
        self._witness = witness

    def show_open(self) -> None:
        """Show the points of an open first leaf, too, as a cut has them; nothing can be learned after that."""
        if self._witness is not None and self._is_first_leaf:
            self._witness(self.leaf.points, self.standing().open_points(self._config, self._task))
        self._witness = None

    @property
    def _is_first_leaf(self) -> bool:
        """Whether the points of the open leaf get their bounds from itself, when it is sealed."""
        coreset = self._config.coreset
        return (coreset.max_leverage is not None and self._outlier_bounds is None) or (
            coreset.clip_sd is not None and self._bounds is None
        )

    def begin_after(self, learned: Learned) -> None:
        """Take what was learned before the base for granted; only a partition that forgets can."""
        raise AssertionError(f"{learned.rows} rows cannot be left out: everything counts here")

    def _forgetful(self) -> Forgetful | None:
        """Return what is known besides what is held; None where nothing is forgotten."""
        return None

    def add(self, rows: Rows) -> int:
        """Add rows that fit into the leaf; return how many multiples of `leaf_rows` rows this completed."""
        leaf_rows = self._config.coreset.leaf_rows
        before = self.leaf.rows
        self._standing = None
        bounded = self._bounded(rows)
        for reservoir in self.audit:
            reservoir.add(bounded)
        clipped = self._clip(bounded)
        if self._witness is not None and not self._is_first_leaf:
            self._witness(rows.points.take(rows.accepted), clipped.points.take(rows.accepted))
        is_changed = self._keeps_totals and clipped.points is not rows.points
        self.leaf.add(clipped, rows.points if is_changed else None)
        self.leader_epoch = int(rows.leader_epoch[-1])
        if rows.labels_offset is not None:
            self.labels_offset = int(rows.labels_offset[-1])
        completed = self.leaf.rows // leaf_rows - before // leaf_rows
        if self.leaf.full:
            self._seal()
        return completed

    def _seal(self) -> None:
        self._turned = None
        self._look_for_shift()
        coreset = self._config.coreset
        self._band = coreset.band_of(coreset.bucket_points) if self._is_steady() else 0.0
        solved: dict[tuple[Position, Position], Any] = {}
        self._insert(solved)
        self.bound()
        screen = self._next_screen(solved)
        if screen is not None:
            self.leaf.screen(screen)

    def _insert(self, solved: dict[tuple[Position, Position], Any]) -> None:
        """Put the full leaf into the structure; take in the pilots that this solves."""
        held, screened, known = self.leaf.points, self.leaf.screened, self.leaf.totals
        points, extent = self._sealed_leaf()
        totals = totals_of(points, held, screened, known) if self._keeps_totals else None
        if self._witness is not None and self._is_first_leaf:
            self._witness(held, points)
        sealed = [bucket.extent.moments for bucket in self.structure.buckets]
        seen = merge_all([*sealed, extent.moments], points.dimension)
        pilots = self._pilots(solved, seen, None if screened is None else screened.screen)
        self.structure.insert(points, extent, pilots, totals=totals)

    def _pilots(
        self, solved: dict[tuple[Position, Position], Any], seen: Moments | None, screen: AnyScreen | None = None
    ) -> PilotOf:
        """Return what solves pilots, of nodes that are a part of what was seen; None: that know themselves only.

        The landmarks of the leaf's own screen serve `seals_a_pilot` seals.
        """
        of_landmarks = screen if isinstance(screen, Screen) and screen.of_landmarks else None
        keeps = self.structure.sealed % seals_a_pilot(self._config.coreset) > 0

        def pilot_of(points: Points, extent: Extent) -> Any:
            known = seen or extent.moments
            if keeps and of_landmarks is not None:
                found: Any = again(of_landmarks.landmarks, points, extent.moments.weight, known, self._config)
            else:
                found = self._task.pilot(points, extent.moments.weight, known, self._config).with_band(self._band)
            solved[extent.start, extent.end] = found
            return found

        return pilot_of

    def open_leaf(self) -> OpenLeaf:
        """Return how full the open leaf is."""
        leaf = self.leaf
        start, rows = leaf.extent.start, leaf.rows
        return OpenLeaf(
            sealed=self.structure.sealed,
            start=start,
            end=leaf.end,
            rows=rows,
            span=rows + leaf.missing,
            points=len(leaf.points),
        )

    @property
    def observed(self) -> Observed:
        """Counts of calibrated reductions by outcome; zero for other reducers."""
        return self.structure.reducer.observed

    @property
    def _leaf_name(self) -> tuple[int, int, int]:
        return self._config.seed, self._partition, self.structure.sealed

    def _next_screen(self, solved: Mapping[tuple[Position, Position], Any]) -> AnyScreener | None:
        """Make the next leaf's screen from the sealed buckets; None if the leaf is to be short, or a label is missing.

        `solved` holds the pilots that sealing has just solved, by the rows that their points represent. If one of them
        covers all rows, it is used instead of solving the same pilot again.
        """
        coreset, buckets = self._config.coreset, self.structure.known
        if not buckets:
            return None
        whole = joined([bucket.extent for bucket in buckets])
        span = self._rows_to_screen(whole.rows)
        least = coreset.leaf_rows * (2 if coreset.landmarks is None else 1)
        if not self._screens or span < least or np.count_nonzero(whole.moments.class_weight) < 2:
            return None
        points, moments = Points.union([bucket.points for bucket in buckets]), whole.moments
        pilot = solved.get((whole.start, whole.end))
        accepted = span * moments.count / whole.rows
        if coreset.landmarks is not None:
            if pilot is None:
                pilot = self._task.pilot(points, moments.weight, moments, self._config)
            if pilot.landmarks is None and not pilot.crowded:
                return None
            landmarks = make_landmark_screen(points, pilot, moments, span, accepted, coreset.leaf_rows)
            return begun(landmarks, *self._leaf_name)
        random = generator(self._config.seed, Purpose.SKETCH, (self._partition, self._leaf_name[2], 0))
        if self._task.classes > 2:
            shared = pilot or self._task.pilot(points, moments.weight, moments, self._config)
            several = make_class_screen(points, shared, moments, span, accepted, coreset.leaf_rows, random)
            return None if several is None else begun(several, *self._leaf_name)
        if pilot is None:
            pilot = linear_pilot(points, moments.weight, moments, self._config.svm).with_band(self._band)
        if pilot.lower_bound <= 0.0:
            return None
        screen = make_screen(points, pilot, moments, span, accepted, coreset.leaf_rows, random)
        capacity = coreset.leaf_rows
        condensed = condensing(screen, points, pilot, accepted, capacity) if self._keeps_totals else None
        return Screener.begin(screen, *self._leaf_name, condensed)

    def _rows_to_screen(self, known: int) -> int:
        """Return how many rows the next leaf may span, given the rows that are known to it."""
        coreset, share = self._config.coreset, self._config.coreset.screening
        if coreset.landmarks is not None:
            if self.structure.points_held + coreset.leaf_rows <= coreset.bucket_points:
                return 0  # there is room for a whole leaf
            # Not longer than until its points stand for as many rows as those of the bucket do.
            share = min(share, TARGET * coreset.leaf_rows / max(1, self.structure.points_held))
        if self._task.classes > 2:
            share *= span_share(self._task.classes, self._config.points.dimension, coreset.leaf_rows)
        return int(known * share) // coreset.leaf_rows * coreset.leaf_rows

    @property
    def _screens(self) -> bool:
        coreset = self._config.coreset
        classes = self._task.classes
        enough = (classes == 2 or coreset.class_screening) and coreset.leaf_rows >= least_capacity(classes)
        has_pilot = self._config.svm.kernel == "linear" or coreset.landmarks is not None
        return coreset.screens and has_pilot and enough

    def state(self) -> PartitionState:
        """Return everything that a checkpoint needs; later rows do not change it."""
        return self.standing().state

    def standing(self) -> Standing:
        """Return the partition as it stands; copies nothing, and does nothing where no row came since the last call."""
        if self._standing is None:
            points, extent, screened = self.leaf.state()
            state = PartitionState(
                sealed=self.structure.sealed,
                leader_epoch=self.leader_epoch,
                buckets=self.structure.buckets,
                leaf_points=points,
                leaf_extent=extent,
                screened=screened,
                audit=tuple(reservoir.state() for reservoir in self.audit),
                forgetful=self._forgetful(),
                labels_offset=self.labels_offset,
                leaf_totals=self.leaf.totals,
            )
            self._standing = Standing(
                state=state,
                bounds=self._bounds,
                outlier_bounds=self._outlier_bounds,
                places=tuple(self._places or ()),
                forgetting=self.forgetting,
            )
        return self._standing

    def lacks(self, standing: Standing) -> int:
        """Return how many points are kept in memory by how it stood once, and by nothing else."""
        if standing is self._standing:
            return 0
        then, kept = standing.state, {id(bucket) for bucket in self.structure.buckets}
        lacking = sum(len(bucket.points) for bucket in then.buckets if id(bucket) not in kept)
        parts = [(then.leaf_points, self.leaf.points)]
        parts += [(held.points, reservoir.points) for held, reservoir in zip(then.audit, self.audit, strict=True)]
        return lacking + sum(len(old) for old, now in parts if not _share(old, now))

    def restore(self, saved: PartitionState) -> None:
        """Restore the state from a checkpoint."""
        self._standing, self._of_open_leaf = None, Tally()
        self.leader_epoch = saved.leader_epoch
        self.labels_offset = saved.labels_offset
        self.structure.restore(saved.sealed, saved.buckets)
        screener = None if saved.screened is None else self._reopened(saved.screened)
        self.leaf.restore(saved.leaf_points, saved.leaf_extent, screener, saved.leaf_totals)
        self._places = None if len(saved.leaf_points) else []
        self.bound()
        # Formats 1 and 2 held no sample.
        for reservoir, held in zip(self.audit if saved.audit else (), saved.audit, strict=True):
            reservoir.restore(held)

    def _reopened(self, screened: AnyScreened) -> AnyScreener:
        """Return the screener to go on with, with room for as many weights as the leaf may hold points."""
        opened = resumed(screened, *self._leaf_name)
        condensed = opened.state.condensed if isinstance(opened, Screener) else None
        if condensed is not None:
            own = np.zeros(self._config.coreset.leaf_rows)
            own[: len(condensed.own)] = condensed.own
            condensed.own = own
        return opened

    def _clip(self, rows: Rows) -> Rows:
        if self._bounds is None:
            return rows
        points, clipped = self._bounds.clip(rows.points)
        self.clipped += int(np.count_nonzero(clipped & rows.accepted))
        return replace(rows, points=points)

    def bound(self) -> None:
        """Compute the clipping bounds from the sealed buckets, so that a checkpoint need not hold them."""
        coreset = self._config.coreset
        if coreset.clip_sd is None and coreset.max_leverage is None:
            return
        known = self.structure.known
        moments = merge_all([bucket.extent.moments for bucket in known], self._config.points.dimension)
        if coreset.clip_sd is not None:
            self._bounds = Bounds.of(moments, coreset.clip_sd) if moments.count else None
        if coreset.max_leverage is not None:
            held = [bucket.points for bucket in known]
            share = coreset.max_leverage
            self._outlier_bounds = OutlierBounds.of(moments, held, share) if moments.count else None

    @property
    def tally(self) -> Tally:
        """What `coreset.max_leverage` clipped since this object was made, with the last cut of an open first leaf."""
        whole = Tally()
        whole.add(self._tally)
        whole.add(self._of_open_leaf)
        return whole

    def note_first_leaf(self, sealed: int, tally: Tally) -> None:
        """Take in what was drawn in of an open first leaf at a cut, unless that leaf is sealed by now.

        Replaced, not added to: every cut looks at the same open leaf again, and must not count its outliers twice.
        """
        if self.structure.sealed == sealed and self._outlier_bounds is None:
            self._of_open_leaf = tally

    def _bounded(self, rows: Rows) -> Rows:
        """Clip values beyond the bounds of the sealed leaves; of a first leaf, only record where its points are."""
        if self._outlier_bounds is None:
            if self._places is not None and self._config.coreset.max_leverage is not None:
                self._places.append((rows.offset[rows.accepted], rows.row[rows.accepted]))
            return rows
        points, found = self._outlier_bounds.draw_in(rows.points, rows.accepted)
        if found is None:
            return rows
        at = found.worst.row
        self._tell(self._tally, found, Position(int(rows.offset[at]), int(rows.row[at])), None)
        return replace(rows, points=points)

    def _tell(self, tally: Tally, found: Found, begin: Position, end: Position | None) -> None:
        note(tally, found, self._partition, begin, end)

    def _moments(self, points: Points) -> Moments:
        return Moments.zero(points.dimension, self._task.classes).add(points)

    def _sealed_leaf(self) -> tuple[Points, Extent]:
        """Return the full leaf; a first leaf is clipped by its own bounds."""
        bounds = first_bounds(self._config.coreset, self._outlier_bounds, self.leaf.points)
        points, extent = self.leaf.seal(self.observed)
        if bounds is not None:
            points, found = bounds.draw_in(points)
            if found is not None:
                note_in_leaf(self._tally, found, self._partition, extent, tuple(self._places or ()))
                extent = replace(extent, moments=self._moments(points))
        self._places, self._of_open_leaf = [], Tally()
        clip_sd = self._config.coreset.clip_sd
        if clip_sd is None or self._bounds is not None:
            return points, extent
        points, clipped = freed_of_outliers(points, extent.moments, clip_sd)
        self.clipped += int(np.count_nonzero(clipped))
        return points, replace(extent, moments=self._moments(points))

    def _is_steady(self) -> bool:
        """Tell whether the full leaf is like everything that is held: only then may a band be trusted.

        A pure function of what is held, unlike the watch for observers, which remembers what was merged.
        """
        coreset, buckets, leaf = self._config.coreset, self.structure.buckets, self.leaf
        if not coreset.band_of(coreset.bucket_points) or not buckets:
            return False
        before, moments = joined([bucket.extent for bucket in buckets]).moments, leaf.extent.moments
        if not is_steady(before, moments) or self._held.shifted(buckets, moments, leaf.points):
            return False
        return not self._has_turned()

    def _has_turned(self) -> bool:
        """Tell whether the full leaf, a screened one, follows another rule than what is known; asked twice a seal."""
        if self.leaf.screened is None:
            return False
        if self._turned is None:
            known = Points.union([bucket.points for bucket in self.structure.known])
            self._turned = turned(self.leaf.screened, known)
        return self._turned

    def _look_for_shift(self) -> None:
        """Count a leaf that differs from all sealed ones; this affects no model."""
        if self.structure.reducer.observes:
            leaf, buckets = self.leaf.extent.moments, self.structure.buckets
            sealed = merge_all([bucket.extent.moments for bucket in buckets], len(leaf.mean))
            shifted = self._shift.shifted(sealed, leaf, self.leaf.points)
            self.structure.reducer.observed.shifted += shifted | self._has_turned()


def seals_a_pilot(coreset: CoresetConfig) -> int:
    """Return how many leaves are sealed and screened by the same landmarks."""
    if coreset.leaf_parts is None:
        return SEALS_A_PILOT
    share = min(coreset.screening, TARGET * coreset.leaf_rows / coreset.bucket_points)
    return max(1, round(np.log(GROWTH_A_PILOT) / np.log1p(share))) if share > 0.0 else 1


def keeps_totals(config: ModelConfig, task: Task) -> bool:
    """Tell whether totals of all rows are kept: not where an estimator of more classes shares one structure."""
    return config.totals and task.classes == 2


def make_structure(partition: int, seed: int, config: CoresetConfig, task: Task) -> Structure:
    """Return the empty structure of a partition."""
    return STRUCTURES[config.merges](partition, seed, config, task.reducer(config))


def _tree(partition: int, seed: int, config: CoresetConfig, reducer: Reducer[Any]) -> Tree:
    assert config.buckets is not None
    return Tree(partition, seed, config.buckets, config.bucket_points, reducer)


def _chain(partition: int, seed: int, config: CoresetConfig, reducer: Reducer[Any]) -> Chain:
    return Chain(partition, seed, config.bucket_points, reducer)


STRUCTURES: Final[Table[Callable[[int, int, CoresetConfig, Reducer[Any]], Structure]]] = Table(
    "coreset.structure", {"tree": _tree, "chain": _chain}
)
"""What makes each structure of which nothing is forgotten, by its name: see `CoresetConfig.merges`."""


def make_reservoirs(partition: int, config: ModelConfig, task: Task) -> tuple[Reservoir, ...]:
    """Return the empty audit sample of a partition, or that of each label; none if `audit_points` is 0."""
    points = config.points
    return tuple(
        Reservoir(capacity, partition, config.seed, points.dimension, points.numpy_dtype, label)
        for label, capacity in audit_shares(config, task).items()
    )


def audit_shares(config: ModelConfig, task: Task) -> dict[int, int]:
    """Return how many points the audit sample of a partition, or of a span, holds, of each label or of all together."""
    coreset = config.coreset
    capacity = coreset.bucket_audit_points if coreset.forgets else coreset.audit_points
    return shares(capacity, coreset.audit_by_label and task.classes == len(LABELS))


def first_bounds(coreset: CoresetConfig, sealed: OutlierBounds | None, leaf: Points) -> OutlierBounds | None:
    """Return the bounds of an open first leaf, before which nothing was sealed; None if it is no such leaf."""
    if coreset.max_leverage is None or sealed is not None or not len(leaf):
        return None
    return OutlierBounds.of_first_leaf(leaf, coreset.max_leverage)


def note_in_leaf(tally: Tally, found: Found, partition: int, leaf: Extent, places: tuple[Places, ...]) -> None:
    """Add the outliers found in a first leaf to a tally; without places, they stand somewhere in the leaf."""
    if not places:
        note(tally, found, partition, leaf.start, leaf.end)
        return
    offset, row = (np.concatenate(parts) for parts in zip(*places, strict=True))
    note(tally, found, partition, Position(int(offset[found.worst.row]), int(row[found.worst.row])), None)


def note(tally: Tally, found: Found, partition: int, begin: Position, end: Position | None) -> None:
    """Add outliers to a tally, the farthest of which begins at a position; without an end, it is that one row."""
    worst, after = found.worst, end or Position(begin.offset, begin.row + 1)
    outlier = Outlier(
        partition=partition,
        begin=begin,
        end=after,
        feature=worst.feature,
        value=worst.value,
        bound=worst.bound,
        excess=worst.size,
    )
    tally.note(found.rows, found.weights, outlier)


def _share(one: Points, other: Points) -> bool:
    """Tell whether two views, both from its beginning, are of one buffer."""
    return one.weight.ctypes.data == other.weight.ctypes.data
