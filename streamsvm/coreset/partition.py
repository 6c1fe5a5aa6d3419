"""One partition of the input: its open leaf, the tree of its buckets, and its audit sample.

A row is drawn in, if it is an outlier, by what is sealed; it may enter the audit sample; and it goes into the leaf, of
which a screened one keeps some rows. The rows of a leaf that nothing sealed bounds yet (the first one; where rows are
forgotten, the first of each span) are kept as they came, and drawn in when the leaf is sealed or cut.

A leaf is full after so many rows *seen*. Sealing does, in this order: the leaf becomes a bucket; of one bucket too many
the two lightest neighbours become one, which gives up least, and keeps each bucket an unbroken range of the log (in a
counter the last ones of as many rows do: Alg. 2 of Tukan et al. 2020); where a bucket has too many points, they are
reduced; and what was measured of everything that is kept screens the next leaf.
One pilot, of all that is kept, serves all of that: each reduction keeps the gradient at the optimum of all rows. It is
solved from the machine of the pilot that screened the leaf.
Where rows are forgotten `memories` says what becomes of a full leaf.

Conserved, and asserted at each seal: rows, positions, and the weight of each label.

Invariant: what a partition holds is a pure function of its rows in log order, the configuration and the seed. Neither
other partitions nor the borders of batches have a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce as folded
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.coreset.audit import Sampled, merged, reservoirs, shares
from streamsvm.coreset.buckets import Bucket, Extent, Learned, Moments, joined, label_weights
from streamsvm.coreset.curves import measured_by_curves
from streamsvm.coreset.drift import History
from streamsvm.coreset.landmarks import measured_by_landmarks
from streamsvm.coreset.memories import Memory, latest
from streamsvm.coreset.outliers import RowBound, Tally
from streamsvm.coreset.pilot import Measured, measured
from streamsvm.coreset.reduce import Observed, Purpose, generator, reduce
from streamsvm.coreset.screen import LEAST_ROOM, TARGET, Name, Screen, screen
from streamsvm.points import Points, Position, Rows

LEAST_LEAVES: Final = 2
"""A leaf that would span fewer unscreened ones is not screened: a screen is a pass over each row."""
POINTS_A_TOTAL: Final = 10
"""Points of a leaf for each of its K (d + 3) totals, with which it spans its full share; with fewer it spans less."""
LEAST_SHARE: Final = 0.25
CONSERVED: Final = 1e-6
"""Relative error of a label's weight beyond which something is wrong; rounding is below 1e-12."""

Witness = Callable[[Points, Points], object]
"""Called with valid points in the order of the log, as they came and as they are learned; they may be views."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLeaf:
    """How full an open leaf is: leaves sealed before it, its rows and those that it spans, and the points it holds."""

    sealed: int
    start: Position
    end: Position
    rows: int
    span: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """All that a partition is.

    Attributes
    ----------
    sealed : int
        Leaves sealed.
    leader_epoch : int
        Of the newest record; -1 where unknown.
    buckets : tuple of Bucket
        The oldest first.
    leaf : Points
        As they are held: of a screened leaf not calibrated.
    extent : Extent
        Of the open leaf; its moments are those of a leaf that is not screened.
    screen : Screen or None
    raw : bool
        Whether the leaf's rows are as they came, because nothing is sealed that bounds them.
    audit : tuple of Sampled
        One, or one a label: of all rows, or of those of the open span where rows are forgotten.
    history : History
        Of all rows since the base, as they are learned; without those of a leaf that are as they came.
    memory : Memory or None
        None where nothing is forgotten.
    beside_offset : int
        Offset after the newest record of a log beside the input that counted; -1 where there is none, or none did yet.
    since : Moments or None
        Of what was sealed since records became other columns (`carrying`): only these rows bound others; None where
        that never happened.
    """

    sealed: int
    leader_epoch: int
    buckets: tuple[Bucket, ...]
    leaf: Points
    extent: Extent
    screen: Screen | None
    raw: bool
    audit: tuple[Sampled, ...]
    history: History
    memory: Memory | None = None
    beside_offset: int = -1
    since: Moments | None = None

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.extent.end

    def drawn_in(self) -> PartitionState:
        """Return the state as a cut has it: a leaf whose rows are as they came, and their samples, are drawn in."""
        if not self.raw or not len(self.leaf):
            return replace(self, raw=False)
        bound = RowBound.of_first_leaf(self.leaf)
        drawn = bound.draw_in(self.leaf)
        if drawn is self.leaf:
            return replace(self, raw=False)
        moments = Moments.zero(drawn.dimension, len(self.extent.moments.class_weight)).add(drawn)
        lost, samples = moments.class_weight - self.extent.moments.class_weight, []
        for one in self.audit:
            weight, own = moments.class_weight, np.ones(len(one.points), np.bool_)
            if self.since is not None:  # samples have older rows, too, which are bounded already
                weight, own = one.class_weight + lost, one.points.not_before(self.extent.start)
            samples.append(one.relearned(bound.draw_in(one.points, own), weight))
        extent = replace(self.extent, moments=moments)
        return replace(self, raw=False, leaf=drawn, extent=extent, audit=tuple(samples))

    @property
    def own(self) -> Extent:
        """The open leaf, with the moments of all its rows as they are learned."""
        if self.raw:
            return self.drawn_in().extent
        return self.extent if self.screen is None else replace(self.extent, moments=self.screen.moments)

    @property
    def whole(self) -> Extent:
        """Everything that is held, as it is held: where nothing is forgotten that is all that was learned."""
        return joined([*self.buckets, Bucket(self.leaf, self.own)])

    @property
    def learned(self) -> Learned:
        """Totals of everything that was learned, dropped or not."""
        return self.whole.learned if self.memory is None else self.memory.learned.join(self.own.learned)

    def latest_ms(self, coreset: CoresetConfig) -> int:
        """Return the latest time of a span; -1 where none has one, or age is in rows."""
        if self.memory and coreset.length_s is not None:
            return latest(self.memory.stretches(coreset, self.buckets, self.own))[-1]
        return -1

    def factors(self, coreset: CoresetConfig, now_ms: int) -> list[float]:
        """Return by what each bucket and the open leaf count; `now_ms` is the latest time of all partitions."""
        if self.memory is None:
            return [1.0] * (len(self.buckets) + 1)
        return self.memory.factors(coreset, self.buckets, self.own, now_ms)

    def moments(self, factors: Sequence[float]) -> Moments:
        """Return the moments of all rows that count, under these factors."""
        each = [*(bucket.extent.moments for bucket in self.buckets), self.own.moments]
        return folded(
            Moments.merge,
            [one.scaled(factor) for one, factor in zip(each, factors, strict=True) if factor > 0.0],
            Moments.zero(len(each[-1].mean), len(each[-1].class_weight)),
        )

    def parts(self, factors: Sequence[float] | None = None) -> list[Points]:
        """Return the points of each bucket and of the open leaf that count, under their weights in a cut."""
        # That a leaf which has just begun has few points is nothing to tell people of.
        leaf = self.drawn_in().leaf if self.screen is None else self.screen.calibrated(self.leaf, Observed())
        each = [*(bucket.points for bucket in self.buckets), leaf]
        pairs = zip(each, factors or [1.0] * len(each), strict=True)
        return [points.scaled(factor) for points, factor in pairs if len(points) and factor > 0.0]

    def samples(self, coreset: CoresetConfig, factors: Sequence[float] | None = None) -> tuple[Sampled, ...]:
        """Return the audit sample, or that of each label, of all rows that count."""
        own = self.drawn_in().audit
        if self.memory is None or factors is None:
            return own
        found, more = [], coreset.audit_points // (coreset.bucket_audit_points or 1)
        each = shares(coreset.bucket_audit_points, len(self.extent.moments.class_weight)).values()
        for place, most in enumerate(each):
            pairs = zip(self.buckets, factors, strict=False)
            older = [bucket.audit[place].scaled(factor) for bucket, factor in pairs if factor > 0.0 and bucket.audit]
            found.append(merged([*older, own[place].scaled(factors[-1])], more * most))
        return tuple(found)


class Partition:
    """One partition's stream.

    Parameters
    ----------
    partition : int
    base : Position
    config : ModelConfig
    before : Learned, optional
        What was learned before the base, where a span begins, by one that forgets.

    Attributes
    ----------
    audit : tuple of Reservoir
        One, or one a label; none without `audit_points`.
    observed : Observed
    sealed : int
        Leaves sealed.
    buckets : tuple of Bucket
        The oldest first.
    history : History
        As of `PartitionState`.
    witness : Witness or None
        Is shown points once they are learned.
    """

    def __init__(self, partition: int, base: Position, config: ModelConfig, before: Learned | None = None) -> None:
        points, self._partition, self._config = config.points, partition, config
        room = config.coreset.leaf_rows
        self._labels, self._room = points.classes, room
        self._blank = Moments.zero(points.dimension, points.classes)
        self._buffer = Points.empty(points.dimension, points.numpy_dtype, room)
        self._kept, self._shared = 0, False
        self._extent = Extent(start=base, end=base, rows=0, first_time_ms=-1, last_time_ms=-1, moments=self._blank)
        self._screen: Screen | None = None
        self.sealed, self._leader_epoch, self._beside_offset = 0, -1, -1
        self.buckets: tuple[Bucket, ...] = ()
        self.witness: Witness | None = None
        self._memory: Memory | None = None
        if config.coreset.memory != "all":
            learned = self._extent.learned if before is None else before
            assert not learned.rows % config.coreset.span_rows
            self._memory = Memory(learned=learned, times=np.empty(0, np.int64))
        self._sealed: Extent | None = None
        self._since: Moments | None = None
        self._now: PartitionState | None = None
        self._bound: RowBound | None = None
        self._tally = Tally()
        self.audit = reservoirs(partition, config)
        self.history = History.zero(points.dimension, points.classes)
        self.observed = Observed()

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self._extent.end

    @property
    def rows(self) -> int:
        """Rows of the open leaf."""
        return self._extent.rows

    @property
    def missing(self) -> int:
        """Rows after which the open leaf is full."""
        room = self._room if self._screen is None else self._screen.span
        if self._memory is not None:  # a leaf that was sealed early leaves less of its span
            span = self._config.coreset.span_rows
            room = min(room, span - self._memory.learned.rows % span)
        return room - self._extent.rows

    @property
    def points_held(self) -> int:
        """Points of the buckets, of the open leaf and of the audit samples."""
        audit = sum(len(one.points) for bucket in self.buckets for one in bucket.audit)
        return self._kept + sum(len(bucket.points) for bucket in self.buckets) + audit + sum(map(len, self.audit))

    @property
    def sealed_count(self) -> int:
        """Valid points that were sealed."""
        if self._memory is not None:
            return self._memory.learned.count
        return self._sealed.moments.count if self._sealed else 0

    @property
    def learned(self) -> Learned:
        """Totals of everything that was learned."""
        if self._bound is None:
            return self.state().learned
        sealed = self._memory or self._sealed
        assert sealed
        return sealed.learned.join(self._own_extent.learned)

    @property
    def _own_extent(self) -> Extent:
        return self._extent if self._screen is None else replace(self._extent, moments=self._screen.moments)

    def open_leaf(self) -> OpenLeaf:
        """Return how full the open leaf is."""
        own = self._extent
        return OpenLeaf(
            sealed=self.sealed, start=own.start, end=own.end, rows=own.rows, span=own.rows + self.missing,
            points=self._kept,
        )  # fmt: skip

    def show_open(self) -> None:
        """Show the witness the points of a leaf that is bounded as a whole, as a cut has them; nothing comes after."""
        if self.witness is not None and self._bound is None:
            state = self.state()
            self.witness(state.leaf, state.drawn_in().leaf)
        self.witness = None

    def lacks(self, then: PartitionState) -> int:
        """Return how many points are in memory only because of an earlier state."""
        if then is self._now:
            return sum(len(sample.points) for sample in then.audit)
        kept = {id(bucket) for bucket in self.buckets}
        found = sum(len(bucket.points) for bucket in then.buckets if id(bucket) not in kept)
        if not np.may_share_memory(then.leaf.weight, self._buffer.weight):
            found += len(then.leaf)
        return found + sum(len(sample.points) for sample in then.audit)

    @property
    def outliers(self) -> Tally:
        """What was drawn in since this was made, an open leaf whose rows are as they came included."""
        found = replace(self._tally)
        if self._bound is None:
            self._drawn_in(self.state(), found)
        return found

    def add(self, rows: Rows) -> None:
        """Learn rows, at most `missing`."""
        assert 0 < len(rows) <= self.missing
        self._now = None
        if self._memory is not None:
            self._memory = self._memory.noted(rows, self._extent.rows, self._config.coreset)
        first, last = rows.times.ends()
        before = self._extent
        self._extent = Extent(
            start=before.start,
            end=rows.position_after(len(rows) - 1),
            rows=before.rows + len(rows),
            # The leaf's first and last time, not its least and greatest: a batch's ends depend on where it is cut.
            first_time_ms=before.first_time_ms if before.first_time_ms >= 0 else first,
            last_time_ms=last if last >= 0 else before.last_time_ms,
            moments=before.moments,
        )
        self._leader_epoch = int(rows.leader_epoch[-1])
        if rows.beside_offset is not None:
            self._beside_offset = int(rows.beside_offset[-1])
        rows, came = self._within(rows), rows
        if self.witness is not None and self._bound is not None:
            self.witness(came.valid, rows.valid)
        for reservoir in self.audit:
            reservoir.add(rows)
        points = rows.placed if self._screen is None else rows.valid
        if self._bound is not None:
            self.history = self.history.add(points)
        if self._screen is None:
            # Behind what `state` has handed out, which is never changed.
            end = self._kept + len(points)
            self._buffer.write(self._kept, points)
            self._kept, self._extent = end, replace(self._extent, moments=self._extent.moments.add(points))
        else:
            self._own(self._kept)  # thinning moves what is kept
            self._screen, self._kept = screen(self._screen, rows, self._buffer, self._kept, self._name)
        if not self.missing:
            self._seal()

    def state(self) -> PartitionState:
        """Return all that it is, the same until a row comes; later rows do not change it, and no points are copied."""
        if not self._now:
            self._shared = True
            self._now = PartitionState(
                sealed=self.sealed,
                leader_epoch=self._leader_epoch,
                buckets=self.buckets,
                leaf=self._buffer.take(slice(0, self._kept)),
                extent=self._extent,
                screen=None if self._screen is None else self._screen.copy(),
                raw=self._bound is None,
                audit=tuple(reservoir.sample for reservoir in self.audit),
                history=self.history,
                memory=self._memory,
                beside_offset=self._beside_offset,
                since=self._since,
            )
        return self._now

    def restore(self, state: PartitionState) -> None:
        """Go on from a state."""
        self.sealed, self._leader_epoch, self.buckets, self._now = state.sealed, state.leader_epoch, state.buckets, None
        self._memory, self._beside_offset, self.history = state.memory, state.beside_offset, state.history
        self._since = state.since
        self._own(0)
        self._buffer.write(0, state.leaf)
        self._kept, self._extent = len(state.leaf), state.extent
        self._screen = None if state.screen is None else state.screen.copy()
        self._set_samples(state)
        self._renew_bound()
        assert state.raw == (self._bound is None)

    def _within(self, rows: Rows) -> Rows:
        """Return rows drawn in by what is sealed, where that bounds them."""
        if self._bound is None:
            return rows
        points = self._bound.draw_in(rows.points, rows.accepted)
        if points is rows.points:
            return rows
        self._tally.note(rows.placed, replace(rows, points=points).valid, self._bound.mean, self._partition)
        return replace(rows, points=points)

    def _drawn_in(self, state: PartitionState, tally: Tally) -> PartitionState:
        """Return the state drawn in; count the rows of its leaf that change by that."""
        drawn = state.drawn_in()
        if drawn.leaf is not state.leaf:
            tally.note(state.leaf, drawn.leaf, RowBound.of_first_leaf(state.leaf).mean, self._partition)
        return drawn

    def _renew_bound(self) -> None:
        held = known(self.buckets, self._memory, self._config.coreset)
        self._sealed = joined(held) if held else None
        bounding = self._since
        if not bounding and self._sealed:
            bounding = self._sealed.moments
        self._bound = RowBound.of(bounding) if bounding and bounding.count else None

    def _set_samples(self, state: PartitionState) -> None:
        for reservoir, sample in zip(self.audit, state.audit, strict=True):
            reservoir.sample = sample

    def _own(self, kept: int) -> None:
        """Take new memory, with the first points of the old, where `state` returned views of the old."""
        if self._shared:
            old, X = self._buffer, self._buffer.X
            self._buffer, self._shared = Points.empty(X.shape[1], X.dtype, len(old)), False
            self._buffer.write(0, old.take(slice(0, kept)))

    @property
    def _name(self) -> Name:
        # Where rows are forgotten by the leaf's place in the log, wherever reading began.
        return self._config.seed, self._partition, self._memory.learned.rows if self._memory else self.sealed

    def seal_early(self) -> None:
        """Seal the open leaf as it is, if it has a row."""
        if self.rows:
            self._seal()

    def _seal(self) -> None:
        points, own = self._buffer.take(slice(0, self._kept)), self._own_extent
        if self._bound is None:
            came, state = points, self._drawn_in(self.state(), self._tally)
            points, own = state.leaf, state.extent
            self.history = self.history.add(points)
            if self.witness is not None:
                self.witness(came, points)
            self._set_samples(state)
        if self._screen is not None:
            points = self._screen.calibrated(points, self.observed)
        leaf = Bucket(Points.union([points]), own)
        if self._since is not None:
            self._since = self._since.merge(own.moments)
        if self._memory is None:
            whole = screening = own if self._sealed is None else self._sealed.join(own)
            span = self._span(whole.rows)
            found = self._merge([*self.buckets, leaf], whole, screens=span > 0)
        else:
            rows = self._memory.learned.rows % self._config.coreset.span_rows + leaf.extent.rows
            span = self._span(rows)
            if rows == self._config.coreset.span_rows:
                samples = tuple(reservoir.sample for reservoir in self.audit)
                leaf, self.audit = replace(leaf, audit=samples), reservoirs(self._partition, self._config)
            self.buckets, self._memory, found = self._memory.sealed(
                self.buckets, leaf, self._partition, self._config, self.observed, screens=span > 0
            )
            whole, screening = joined(self.buckets), self.buckets[-1].extent
            if not self._memory.learned.rows % self._config.coreset.span_rows:
                self._since = None  # a new span is bounded by itself
        self.sealed += 1
        self._renew_bound()
        self._screen = Screen.begin(found, screening, span, self._room, self._name) if found is not None else None
        self._own(0)
        end = self._extent.end
        self._kept, self._now = 0, None
        self._extent = Extent(start=end, end=end, rows=0, first_time_ms=-1, last_time_ms=-1, moments=self._blank)
        # Nothing was lost: a wrong merge ends here, and publishes nothing.
        now = self._sealed if self._sealed and not self._memory else whole
        assert (now.rows, now.start, now.end) == (whole.rows, whole.start, whole.end)
        held = sum(label_weights(bucket.points, self._labels) for bucket in self.buckets)
        seen = whole.moments.class_weight
        assert np.isfinite(held).all()
        if self._config.coreset.bucket_points >= self._labels:  # fewer points cannot stand for each label
            assert (np.abs(held - seen) <= CONSERVED * seen.max(initial=1.0)).all(), (held, seen)

    def _merge(self, buckets: list[Bucket], whole: Extent, *, screens: bool) -> Measured | None:
        """Make buckets of the present ones and a leaf; return what was measured of all where it `screens` the next."""
        coreset = self._config.coreset
        most = 1 if coreset.structure == "chain" else coreset.sizes.buckets
        groups = [slice(at, at + 1) for at in range(len(buckets))]
        if coreset.structure == "counter":  # Alg. 2, but for digits that carry over: these become one at once
            at = len(buckets) - 1
            while at and buckets[at - 1].extent.rows == joined(buckets[at:]).rows:
                at -= 1
            groups[at:] = [slice(at, len(buckets))]
        elif len(buckets) > most:
            at = lightest_neighbours([bucket.extent.moments.weight for bucket in buckets])
            groups[at : at + 2] = [slice(at, at + 2)]
        ends = [0, *accumulate(len(bucket.points) for bucket in buckets)]
        sizes = [ends[group.stop] - ends[group.start] for group in groups]
        found = None
        if coreset.reducer != "uniform" and ends[-1] and (screens or max(sizes) > coreset.bucket_points):
            union = Points.union([bucket.points for bucket in buckets])
            before = self._screen.pilot if self._screen else None
            random = self._generator(Purpose.SKETCH)
            if self._config.pilots.kernel == "additive" and self._labels == 2 and screens:
                found = measured_by_curves(union, whole.moments, whole.rows, self._config, random, before)
            elif self._config.pilots.kernel != "rbf":
                found = measured(union, whole.moments.weight, whole.moments, self._config.pilots, random, before)
            else:
                found = measured_by_landmarks(union, whole.moments, whole.rows, self._config, before)
        made = []
        for group, size in zip(groups, sizes, strict=True):
            members = buckets[group]
            if len(members) == 1 and size <= coreset.bucket_points:
                made += members
                continue
            own = Points.union([bucket.points for bucket in members])
            if size > coreset.bucket_points:
                of_part = None if found is None else found.part(slice(ends[group.start], ends[group.stop]))
                own = reduce(
                    own, coreset.bucket_points, of_part, self._generator(Purpose.NODE), self._labels, self.observed
                )
            made.append(Bucket(own, joined(members)))
        self.buckets = tuple(made)
        return found if screens else None

    def _generator(self, purpose: Purpose) -> np.random.Generator:
        return generator(self._config.seed, purpose, (self._partition, self.sealed, 0))

    def _span(self, rows: int) -> int:
        """Return how many rows the leaf after so many may span, in whole leaves; 0 where none is screened."""
        coreset, labels, d = self._config.coreset, self._labels, self._config.points.dimension
        if not coreset.screens or self._room < max(LEAST_ROOM, 4 * labels) or coreset.structure == "counter":
            return 0
        share, least = coreset.SCREENING, LEAST_LEAVES
        if self._memory is not None:
            # The rows are those of the open span: of the others nothing in it may depend.
            return coreset.span_rows - rows if coreset.span_rows - rows >= least * self._room else 0
        if self._config.pilots.kernel == "rbf":
            # A point of the leaf then stands for as many rows as one of a full bucket does.
            share, least = min(share, TARGET * self._room / coreset.bucket_points), 1
        elif labels > 2:
            share *= min(1.0, max(LEAST_SHARE, self._room / (POINTS_A_TOTAL * labels * (d + 3))))
        span = int(rows * share) // self._room * self._room
        return span if span >= least * self._room else 0


def lightest_neighbours(weights: Sequence[float]) -> int:
    """Return the index of the first of the two neighbours with the least weight together; of equal ones the oldest."""
    together = [older + newer for older, newer in pairwise(weights)]
    return together.index(min(together))


def known(buckets: tuple[Bucket, ...], memory: Memory | None, coreset: CoresetConfig) -> tuple[Bucket, ...]:
    """Return the buckets that bound and screen the next leaf: where rows are forgotten, only that of its own span."""
    if memory is None:
        return buckets
    return buckets[-1:] if memory.learned.rows % coreset.span_rows else ()
