"""Buckets and partitions as bytes: the one codec of what is learned, for checkpoints and for what travels.

A description, JSON, names every array by dtype, shape and place; the arrays stand one after another, little-endian, in
C order. `streamsvm.checkpoint.format` puts all partitions into one file, `streamsvm.checkpoint.records` each bucket
into a record of its own.

Invariant: a reader compares every size with the bytes that are there before it allocates memory, and each byte belongs
to exactly one array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.class_screening import ClassScreen, ClassScreened
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.screening import Screen, Screened
from streamsvm.coreset.screening_kernels import BINS
from streamsvm.coreset.screens import AnyScreened
from streamsvm.coreset.shares import Shares
from streamsvm.coreset.structure import Bucket, Extent, Learned
from streamsvm.coreset.totals import Condensed, Epoch, Frame, Totals
from streamsvm.coreset.totals_kernels import STRATA
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.partition import Forgetful, PartitionState
from streamsvm.learning.voting import Expert, Voting
from streamsvm.points import Points, Position

LARGEST_LENGTH: Final = 1 << 40
"""Largest length of an array along one axis. An array with an empty axis holds no bytes, so only this bounds its
others."""
_DTYPES: Final = frozenset({"<f4", "<f8", "|i1", "<i4", "<i8", "<u8"})


class PlacedArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an array stands, in bytes from the first one, and what it is."""

    at: int
    dtype: str
    shape: tuple[int, ...]


class PlacedPoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes a set of points."""

    X: PlacedArray
    y: PlacedArray
    weight: PlacedArray


class PlacedMoments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes exact moments."""

    count: int
    class_weight: PlacedArray
    mean: PlacedArray
    square: PlacedArray


class PlacedExtent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes what rows a set of points stands for."""

    start: tuple[int, int]
    end: tuple[int, int]
    rows: int
    first_time_ms: int
    last_time_ms: int
    moments: PlacedMoments


class PlacedFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes under what rows were condensed."""

    scaling: PlacedArray
    machine: PlacedArray
    factor: PlacedArray


class PlacedEpoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes rows that were condensed under one frame."""

    frame: PlacedFrame
    rows: int
    stratum: PlacedArray
    weight: PlacedArray
    length: PlacedArray
    nearest: PlacedArray
    sums: PlacedArray
    error: PlacedArray


class PlacedTotals(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes the totals of all rows that a set of points stands for."""

    own: PlacedArray
    beside: PlacedPoints
    epochs: tuple[PlacedEpoch, ...]


class PlacedCondensed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes an epoch in the making, of a screened leaf."""

    frame: PlacedFrame
    rows: int
    weight: PlacedArray
    length: PlacedArray
    nearest: PlacedArray
    sums: PlacedArray
    spread: PlacedArray
    own: PlacedArray
    beside: PlacedPoints
    border: float
    most: int


class PlacedBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes a bucket."""

    level: int
    index: int
    points: PlacedPoints
    extent: PlacedExtent
    totals: PlacedTotals | msgspec.UnsetType = msgspec.UNSET


class PlacedLearned(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes totals of all rows learned."""

    rows: int
    count: int
    class_weight: PlacedArray
    first_time_ms: int
    last_time_ms: int


class PlacedClasses(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes what a screen for more than two labels has besides: what is of each label, and of each problem."""

    labels: PlacedArray
    intercepts: PlacedArray
    class_weight: PlacedArray
    counts: PlacedArray
    active: PlacedArray


class PlacedScreened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes the state of a screen; of more than two labels, most arrays have an axis more, that of the problems."""

    rows: int
    rate: float
    scaling: PlacedArray
    coefficients: PlacedArray
    intercept: float
    label_mean: PlacedArray
    terms: PlacedArray
    projection: PlacedArray
    thinnings: int
    accepted: int
    sums: PlacedArray
    weight: PlacedArray
    totals: PlacedArray
    reach: float | msgspec.UnsetType = msgspec.UNSET
    classes: PlacedClasses | msgspec.UnsetType = msgspec.UNSET
    condensed: PlacedCondensed | msgspec.UnsetType = msgspec.UNSET


class PlacedHeld(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes an audit sample, or that of one label."""

    points: PlacedPoints
    priority: PlacedArray
    threshold: float


class PlacedOwnBucket(PlacedBucket, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a bucket of a partition that forgets."""

    audit: tuple[PlacedHeld, ...]
    times: tuple[int, int]
    before: PlacedLearned


class PlacedExpert(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes the expert of one horizon."""

    border: int
    trained_at: int
    coefficients: PlacedArray
    intercepts: PlacedArray


class PlacedShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes the shares of horizons."""

    slots: tuple[float, ...]
    borders: tuple[int, ...]
    starts: tuple[float, ...]
    mix: tuple[float, float]


class PlacedVoting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes experts and shares."""

    span: int
    experts: tuple[PlacedExpert, ...]
    shares: PlacedShares
    end: int


class PlacedForgetful(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes what a partition that forgets knows besides what it holds."""

    learned: PlacedLearned
    times: PlacedArray
    voting: PlacedVoting | None


class PlacedPartition1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a partition in the formats 1 and 2."""

    partition: int
    sealed: int
    leader_epoch: int
    buckets: tuple[PlacedBucket, ...]
    leaf_points: PlacedPoints
    leaf_extent: PlacedExtent


class PlacedPartition3(PlacedPartition1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a partition in the formats 3 to 5."""

    screened: PlacedScreened | None
    audit: PlacedHeld | None


class PlacedPartition(PlacedPartition1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a partition in format 6."""

    screened: PlacedScreened | None
    audit: tuple[PlacedHeld, ...]


class PlacedPartition7(PlacedPartition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a partition that forgets, in format 7."""

    buckets: tuple[PlacedOwnBucket, ...]
    forgetful: PlacedForgetful


class PlacedPartition8(PlacedPartition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a partition whose labels come from a log of their own, in format 8."""

    labels_offset: int


class StateWriter:
    """Appends arrays one after another and keeps their places.

    Parameters
    ----------
    joins : bool
        Whether labels come from a log of their own; then partitions say how far it counted.
    """

    def __init__(self, *, joins: bool = False) -> None:
        self._joins = joins
        self.parts: list[bytes] = []
        self._at = 0

    def array(self, array: NDArray[Any]) -> PlacedArray:
        """Append an array."""
        dtype = array.dtype.newbyteorder("<").str
        assert dtype in _DTYPES
        content = np.ascontiguousarray(array, dtype=dtype).tobytes()
        placed = PlacedArray(self._at, dtype, array.shape)
        self.parts.append(content)
        self._at += len(content)
        return placed

    def points(self, points: Points) -> PlacedPoints:
        """Append a set of points."""
        return PlacedPoints(self.array(points.X), self.array(points.y), self.array(points.weight))

    def moments(self, moments: Moments) -> PlacedMoments:
        """Append moments."""
        return PlacedMoments(
            moments.count, self.array(moments.class_weight), self.array(moments.mean), self.array(moments.square)
        )

    def extent(self, extent: Extent) -> PlacedExtent:
        """Append an extent."""
        return PlacedExtent(
            start=extent.start,
            end=extent.end,
            rows=extent.rows,
            first_time_ms=extent.first_time_ms,
            last_time_ms=extent.last_time_ms,
            moments=self.moments(extent.moments),
        )

    def partition(self, partition: int, state: PartitionState) -> PlacedPartition:
        """Append the state of a partition."""
        forgetful = state.forgetful
        kind: Callable[..., PlacedPartition] = PlacedPartition if forgetful is None else PlacedPartition7
        kind = PlacedPartition8 if self._joins else kind
        return kind(
            partition=partition,
            sealed=state.sealed,
            leader_epoch=state.leader_epoch,
            buckets=tuple(self.bucket(bucket) for bucket in state.buckets),
            leaf_points=self.points(state.leaf_points),
            leaf_extent=self.extent(state.leaf_extent),
            screened=None if state.screened is None else self.screened(state.screened),
            audit=tuple(self.held(held) for held in state.audit),
            **self.forgotten(forgetful),
            **self.labelled(state),
        )

    def labelled(self, state: PartitionState) -> dict[str, Any]:
        """Write how far labels counted; nothing where they come with the features."""
        return {"labels_offset": state.labels_offset} if self._joins else {}

    def forgotten(self, state: Forgetful | None) -> dict[str, Any]:
        """Write what a partition that forgets knows besides; nothing of another."""
        if state is None:
            return {}
        learned, times = self.learned(state.learned), self.array(state.times.astype(np.float64))
        return {"forgetful": PlacedForgetful(learned=learned, times=times, voting=self.voting(state.voting))}

    def voting(self, voting: Voting | None) -> PlacedVoting | None:
        """Append experts and shares; nothing where there are none."""
        if voting is None:
            return None
        shares = voting.shares
        return PlacedVoting(
            span=voting.span,
            experts=tuple(
                PlacedExpert(one.border, one.trained_at, self.array(one.coefficients), self.array(one.intercepts))
                for one in voting.experts
            ),
            shares=PlacedShares(slots=shares.slots, borders=shares.borders, starts=shares.starts, mix=shares.mix),
            end=voting.end,
        )

    def learned(self, learned: Learned) -> PlacedLearned:
        """Append totals."""
        return PlacedLearned(
            rows=learned.rows,
            count=learned.count,
            class_weight=self.array(learned.class_weight),
            first_time_ms=learned.first_time_ms,
            last_time_ms=learned.last_time_ms,
        )

    def bucket(self, bucket: Bucket) -> PlacedBucket:
        """Append a bucket."""
        points, extent = self.points(bucket.points), self.extent(bucket.extent)
        if bucket.before is None:
            totals = msgspec.UNSET if bucket.totals is None else self.totals(bucket.totals)
            return PlacedBucket(bucket.level, bucket.index, points, extent, totals)
        return PlacedOwnBucket(
            bucket.level,
            bucket.index,
            points,
            extent,
            audit=tuple(self.held(held) for held in bucket.audit),
            times=bucket.times,
            before=self.learned(bucket.before),
        )

    def totals(self, totals: Totals) -> PlacedTotals:
        """Append totals."""
        return PlacedTotals(
            own=self.array(totals.own),
            beside=self.points(totals.beside),
            epochs=tuple(self.epoch(epoch) for epoch in totals.epochs),
        )

    def frame(self, frame: Frame) -> PlacedFrame:
        """Append a frame."""
        return PlacedFrame(
            scaling=self.array(frame.scaling), machine=self.array(frame.machine), factor=self.array(frame.factor)
        )

    def epoch(self, epoch: Epoch) -> PlacedEpoch:
        """Append an epoch."""
        return PlacedEpoch(
            frame=self.frame(epoch.frame),
            rows=epoch.rows,
            stratum=self.array(epoch.stratum),
            weight=self.array(epoch.weight),
            length=self.array(epoch.length),
            nearest=self.array(epoch.nearest),
            sums=self.array(epoch.sums),
            error=self.array(epoch.error),
        )

    def condensed(self, state: Condensed) -> PlacedCondensed:
        """Append an epoch in the making."""
        return PlacedCondensed(
            frame=self.frame(state.frame),
            rows=state.rows,
            weight=self.array(state.weight),
            length=self.array(state.length),
            nearest=self.array(state.nearest),
            sums=self.array(state.sums),
            spread=self.array(state.spread),
            own=self.array(state.own),
            beside=self.points(state.beside),
            border=state.border,
            most=state.most,
        )

    def screened(self, state: AnyScreened) -> PlacedScreened:
        """Append a screen's state."""
        if isinstance(state, ClassScreened):
            return self.class_screened(state)
        screen = state.screen
        return PlacedScreened(
            rows=screen.rows,
            rate=screen.rate,
            scaling=self.array(screen.scaling),
            coefficients=self.array(screen.coefficients),
            intercept=screen.intercept,
            label_mean=self.array(screen.label_mean),
            terms=self.array(screen.terms),
            projection=self.array(screen.projection),
            reach=screen.reach or msgspec.UNSET,
            thinnings=state.thinnings,
            accepted=state.accepted,
            sums=self.array(state.sums),
            weight=self.array(state.weight),
            totals=self.array(state.totals),
            condensed=msgspec.UNSET if state.condensed is None else self.condensed(state.condensed),
        )

    def class_screened(self, state: ClassScreened) -> PlacedScreened:
        """Append the state of a screen for more than two labels."""
        screen = state.screen
        return PlacedScreened(
            rows=screen.rows,
            rate=screen.rate,
            scaling=self.array(screen.scaling),
            coefficients=self.array(screen.coefficients),
            intercept=0.0,
            label_mean=self.array(screen.label_mean),
            terms=self.array(screen.terms),
            projection=self.array(screen.projection),
            thinnings=state.thinnings,
            accepted=state.accepted,
            sums=self.array(state.sums),
            weight=self.array(state.weight),
            totals=self.array(np.concatenate([state.moments_sums, state.gradient])),
            classes=PlacedClasses(
                labels=self.array(screen.labels),
                intercepts=self.array(screen.intercepts),
                class_weight=self.array(screen.class_weight),
                counts=self.array(state.counts),
                active=self.array(state.active),
            ),
        )

    def held(self, held: Held) -> PlacedHeld:
        """Append an audit sample."""
        return PlacedHeld(self.points(held.points), self.array(held.priority), held.threshold)


class StateReader:
    """Reads arrays in the order in which they were written; checks every size against the bytes that are left."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._at = 0

    def array(self, placed: PlacedArray) -> NDArray[Any]:
        """Read the next array.

        Raises
        ------
        CorruptCheckpoint
            If it is not the next one, or larger than the bytes that are left.
        """
        if placed.dtype not in _DTYPES or not all(0 <= length <= LARGEST_LENGTH for length in placed.shape):
            raise CorruptCheckpoint(f"an array is described as {placed.dtype} {placed.shape}")
        if placed.at != self._at:
            raise CorruptCheckpoint(
                f"an array begins at byte {placed.at}, but the array before it ends at byte {self._at}"
            )
        dtype = np.dtype(placed.dtype)
        self._at += math.prod(placed.shape) * dtype.itemsize
        if self._at > len(self._arrays):
            raise CorruptCheckpoint(
                f"an array ends at byte {self._at}, but the file has only {len(self._arrays)} bytes of arrays"
            )
        flat = np.frombuffer(self._arrays[placed.at : self._at], dtype=dtype)
        return flat.reshape(placed.shape).astype(dtype.newbyteorder("="))

    def end(self) -> None:
        """Check that every byte was read.

        Raises
        ------
        CorruptCheckpoint
        """
        if self._at != len(self._arrays):
            raise CorruptCheckpoint(
                f"the arrays end at byte {self._at}, but the file has {len(self._arrays)} bytes of arrays"
            )

    def points(self, placed: PlacedPoints) -> Points:
        """Read a set of points."""
        points = Points(self.array(placed.X), self.array(placed.y), self.array(placed.weight))
        if points.X.ndim != 2 or not points.y.shape == points.weight.shape == (len(points.X),):
            raise CorruptCheckpoint("a set of points has arrays of different shapes")
        return points

    def moments(self, placed: PlacedMoments) -> Moments:
        """Read moments."""
        return Moments(
            placed.count, self.array(placed.class_weight), self.array(placed.mean), self.array(placed.square)
        )

    def extent(self, placed: PlacedExtent) -> Extent:
        """Read an extent."""
        return Extent(
            start=Position(*placed.start),
            end=Position(*placed.end),
            rows=placed.rows,
            first_time_ms=placed.first_time_ms,
            last_time_ms=placed.last_time_ms,
            moments=self.moments(placed.moments),
        )

    def partition(self, placed: PlacedPartition1) -> PartitionState:
        """Read the state of a partition, in whatever format it was described."""
        return PartitionState(
            sealed=placed.sealed,
            leader_epoch=placed.leader_epoch,
            buckets=tuple(self.bucket(bucket) for bucket in placed.buckets),
            leaf_points=self.points(placed.leaf_points),
            leaf_extent=self.extent(placed.leaf_extent),
            screened=self.screened(placed.screened)
            if isinstance(placed, (PlacedPartition3, PlacedPartition)) and placed.screened is not None
            else None,
            audit=tuple(self.held(held) for held in _held_by(placed)),
            forgetful=self.forgetful(placed.forgetful) if isinstance(placed, PlacedPartition7) else None,
            labels_offset=placed.labels_offset if isinstance(placed, PlacedPartition8) else -1,
        )

    def forgetful(self, placed: PlacedForgetful) -> Forgetful:
        """Read what a partition that forgets knows besides what it holds."""
        learned, times = self.learned(placed.learned), self.array(placed.times)
        if times.ndim != 1:
            raise CorruptCheckpoint(f"the times of a span have the shape {times.shape}")
        return Forgetful(
            learned=learned,
            times=times.astype(np.int64),
            voting=None if placed.voting is None else self.voting(placed.voting),
        )

    def voting(self, placed: PlacedVoting) -> Voting:
        """Read experts and shares."""
        shares = placed.shares
        experts = tuple(
            Expert(one.border, one.trained_at, self.array(one.coefficients), self.array(one.intercepts))
            for one in placed.experts
        )
        if not len(experts) == len(shares.borders) == len(shares.starts):
            raise CorruptCheckpoint(f"there are {len(experts)} experts, but {len(shares.borders)} borders")
        if any(one.coefficients.ndim != 2 or len(one.coefficients) != one.intercepts.size for one in experts):
            raise CorruptCheckpoint("an expert has arrays of different lengths")
        return Voting(
            placed.span,
            experts,
            Shares(slots=shares.slots, borders=shares.borders, starts=shares.starts, mix=shares.mix),
            placed.end,
        )

    def learned(self, placed: PlacedLearned) -> Learned:
        """Read totals."""
        return Learned(
            rows=placed.rows,
            count=placed.count,
            class_weight=self.array(placed.class_weight),
            first_time_ms=placed.first_time_ms,
            last_time_ms=placed.last_time_ms,
        )

    def bucket(self, placed: PlacedBucket) -> Bucket:
        """Read a bucket."""
        points, extent = self.points(placed.points), self.extent(placed.extent)
        if not isinstance(placed, PlacedOwnBucket):
            totals = None if isinstance(placed.totals, msgspec.UnsetType) else self.totals(placed.totals, points)
            return Bucket(placed.level, placed.index, points, extent, totals=totals)
        audit = tuple(self.held(held) for held in placed.audit)
        return Bucket(placed.level, placed.index, points, extent, audit, placed.times, self.learned(placed.before))

    def totals(self, placed: PlacedTotals, points: Points) -> Totals:
        """Read the totals of a set of points."""
        own, beside = self.array(placed.own), self.points(placed.beside)
        epochs = tuple(self.epoch(epoch) for epoch in placed.epochs)
        _require_shapes([(own, (len(points),)), (beside.X, (len(beside), points.dimension))])
        for epoch in epochs:
            _require_shapes([(epoch.error, (points.dimension,))])
        return Totals(own, beside, epochs)

    def frame(self, placed: PlacedFrame) -> Frame:
        """Read a frame."""
        scaling, machine, factor = map(self.array, (placed.scaling, placed.machine, placed.factor))
        d = machine.size - 1
        _require_shapes([(scaling, (2, d)), (machine, (d + 1,))])
        if factor.shape not in ((1, 1), (d + 1, d + 1)) or factor.dtype != np.float32:
            raise CorruptCheckpoint(f"a metric of {d} features has the shape {factor.shape}")
        return Frame(scaling=scaling, machine=machine, factor=factor)

    def epoch(self, placed: PlacedEpoch) -> Epoch:
        """Read an epoch."""
        frame = self.frame(placed.frame)
        stratum, weight, length, nearest = map(
            self.array, (placed.stratum, placed.weight, placed.length, placed.nearest)
        )
        sums, error = self.array(placed.sums), self.array(placed.error)
        g, d = stratum.size, frame.machine.size - 1
        _require_shapes([(each, (g,)) for each in (stratum, weight, length, nearest)])
        _require_shapes([(sums, (g, d)), (error, (d,))])
        if ((stratum < 0) | (stratum >= STRATA)).any():
            raise CorruptCheckpoint(f"there are {STRATA} strata, numbered from 0")
        return Epoch(
            frame=frame,
            rows=placed.rows,
            stratum=stratum,
            weight=weight,
            length=length,
            nearest=nearest,
            sums=sums,
            error=error,
        )

    def condensed(self, placed: PlacedCondensed) -> Condensed:
        """Read an epoch in the making."""
        frame = self.frame(placed.frame)
        weight, length, nearest = map(self.array, (placed.weight, placed.length, placed.nearest))
        sums, spread, own = map(self.array, (placed.sums, placed.spread, placed.own))
        beside, d = self.points(placed.beside), frame.machine.size - 1
        _require_shapes([(each, (STRATA,)) for each in (weight, length, nearest)])
        _require_shapes([(sums, (STRATA, d)), (spread, (d,)), (own, (own.size,)), (beside.X, (len(beside), d))])
        return Condensed(
            frame=frame,
            rows=placed.rows,
            weight=weight,
            length=length,
            nearest=nearest,
            sums=sums,
            spread=spread,
            own=own,
            held_beside=(beside,),
            border=placed.border,
            most=placed.most,
        )

    def screened(self, placed: PlacedScreened) -> AnyScreened:
        """Read a screen's state."""
        if placed.classes is not msgspec.UNSET:
            return self.class_screened(placed, placed.classes)
        screen = Screen(
            rows=placed.rows,
            rate=placed.rate,
            scaling=self.array(placed.scaling),
            coefficients=self.array(placed.coefficients),
            intercept=placed.intercept,
            label_mean=self.array(placed.label_mean),
            terms=self.array(placed.terms),
            projection=self.array(placed.projection),
            reach=0.0 if placed.reach is msgspec.UNSET else placed.reach,
        )
        return Screened(
            screen=screen,
            thinnings=placed.thinnings,
            accepted=placed.accepted,
            sums=self.array(placed.sums),
            weight=self.array(placed.weight),
            totals=self.array(placed.totals),
            condensed=None if isinstance(placed.condensed, msgspec.UnsetType) else self.condensed(placed.condensed),
        )

    def class_screened(self, placed: PlacedScreened, of_classes: PlacedClasses) -> ClassScreened:
        """Read the state of a screen for more than two labels."""
        arrays = {
            name: self.array(getattr(placed, name))
            for name in ("scaling", "coefficients", "label_mean", "terms", "projection", "sums", "weight", "totals")
        }
        more = {
            name: self.array(getattr(of_classes, name))
            for name in ("labels", "intercepts", "class_weight", "counts", "active")
        }
        _check_class_screen(arrays, more)
        totals = arrays["totals"]
        return ClassScreened(
            screen=ClassScreen(
                rows=placed.rows,
                rate=placed.rate,
                scaling=arrays["scaling"],
                class_weight=more["class_weight"],
                labels=more["labels"],
                coefficients=arrays["coefficients"],
                intercepts=more["intercepts"],
                label_mean=arrays["label_mean"],
                terms=arrays["terms"],
                projection=arrays["projection"],
            ),
            thinnings=placed.thinnings,
            counts=more["counts"],
            sums=arrays["sums"],
            weight=arrays["weight"],
            active=more["active"],
            moments_sums=totals[:2],
            gradient=totals[2:],
        )

    def held(self, placed: PlacedHeld) -> Held:
        """Read an audit sample."""
        held = Held(self.points(placed.points), self.array(placed.priority), placed.threshold)
        if held.priority.shape != (len(held.points),):
            raise CorruptCheckpoint("an audit sample has arrays of different lengths")
        return held


def _check_class_screen(arrays: dict[str, NDArray[Any]], more: dict[str, NDArray[Any]]) -> None:
    """Refuse arrays of a screen that do not fit each other: compiled loops look into them without asking."""
    classes, problems = more["class_weight"].size, more["labels"].size
    d = arrays["scaling"].shape[-1] if arrays["scaling"].ndim else 0
    shapes = {
        "scaling": (2, d),
        "coefficients": (problems, d),
        "label_mean": (problems, 2, d),
        "terms": (problems, 2, 6),
        "sums": (classes, BINS),
        "weight": (classes,),
        "totals": (2 + problems, d),
        "labels": (problems,),
        "intercepts": (problems,),
        "class_weight": (classes,),
        "counts": (classes,),
        "active": (problems, 2),
        "projection": (
            problems,
            d + 1 + -(d + 1) % 4,
            arrays["projection"].shape[-1] if arrays["projection"].ndim else 0,
        ),
    }
    for name, array in {**arrays, **more}.items():
        if array.shape != shapes[name]:
            raise CorruptCheckpoint(f"{name} of a screen has the shape {array.shape}, where {shapes[name]} fits")
    labels = more["labels"]
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise CorruptCheckpoint(f"a screen for {classes} labels has a problem of label {int(labels.max())}")


def _require_shapes(arrays: Sequence[tuple[NDArray[Any], tuple[int, ...]]]) -> None:
    for array, shape in arrays:
        if array.shape != shape:
            raise CorruptCheckpoint(f"an array of totals has the shape {array.shape}, not {shape}")


def _held_by(placed: PlacedPartition1) -> tuple[PlacedHeld, ...]:
    if isinstance(placed, PlacedPartition):
        return placed.audit
    return (placed.audit,) if isinstance(placed, PlacedPartition3) and placed.audit is not None else ()
