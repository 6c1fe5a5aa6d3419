"""The part ``totals``: what is known of all rows, where totals of them are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from streamsvm.branches.bounds.epochs import Epoch
from streamsvm.branches.bounds.frames import Frame
from streamsvm.branches.bounds.totals import Changed, Condensed, Ledger, Totals
from streamsvm.branches.bounds.totals_kernels import STRATA
from streamsvm.checkpoint.forms import Form, OptionalPart, PlacedArray, PlacedPoints, describes, require_shapes
from streamsvm.checkpoint.parts import PartOf
from streamsvm.coreset.screening import Screened
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.cutting import Cut
from streamsvm.learning.partition_state import PartitionState
from streamsvm.points import Points


def _check_frame(frame: Frame) -> None:
    d, factor = frame.machine.size - 1, frame.factor
    require_shapes("totals", [(frame.scaling, (2, d)), (frame.machine, (d + 1,))])
    if factor.shape not in ((1, 1), (d + 1, d + 1)) or factor.dtype != np.float32:
        raise CorruptCheckpoint(f"a metric of {d} features has the shape {factor.shape}")


@describes(Frame, check=_check_frame)
class PlacedFrame(Form):
    """Describes under what rows were condensed."""

    scaling: PlacedArray
    machine: PlacedArray
    factor: PlacedArray


def _check_epoch(epoch: Epoch) -> None:
    g, d, stratum = epoch.stratum.size, epoch.frame.machine.size - 1, epoch.stratum
    require_shapes("totals", [(each, (g,)) for each in (stratum, epoch.weight, epoch.length, epoch.nearest)])
    require_shapes("totals", [(epoch.sums, (g, d)), (epoch.error, (d,))])
    if ((stratum < 0) | (stratum >= STRATA)).any():
        raise CorruptCheckpoint(f"there are {STRATA} strata, numbered from 0")


@describes(Epoch, check=_check_epoch)
class PlacedEpoch(Form):
    """Describes rows that were condensed under one frame."""

    frame: PlacedFrame
    rows: int
    stratum: PlacedArray
    weight: PlacedArray
    length: PlacedArray
    nearest: PlacedArray
    sums: PlacedArray
    error: PlacedArray


def _check_changed(changed: Changed) -> None:
    require_shapes("totals", [(changed.weight, (2,)), (changed.moved, (2, changed.moved.shape[-1]))])


@describes(Changed, check=_check_changed)
class PlacedChanged(Form):
    """Describes how far rows were moved when they were learned."""

    rows: int
    weight: PlacedArray
    moved: PlacedArray


@describes(Totals)
class PlacedTotals(Form, omit_defaults=True):
    """Describes the totals of all rows that a set of points stands for."""

    own: PlacedArray
    beside: PlacedPoints
    epochs: tuple[PlacedEpoch, ...]
    changed: PlacedChanged | None = None


def _condensed(beside: Points, **fields: Any) -> Condensed:
    state = Condensed(held_beside=(beside,), **fields)
    d = state.frame.machine.size - 1
    require_shapes("totals", [(each, (STRATA,)) for each in (state.weight, state.length, state.nearest)])
    require_shapes("totals", [(state.sums, (STRATA, d)), (state.spread, (d,)), (state.own, (state.own.size,))])
    require_shapes("totals", [(beside.X, (len(beside), d))])
    _require_dimension(state.changed, d)
    return state


def _require_dimension(changed: Changed | None, d: int) -> None:
    if changed is not None:
        require_shapes("totals", [(changed.moved, (2, d))])


@describes(Condensed, make=_condensed)
class PlacedCondensed(Form, omit_defaults=True):
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
    changed: PlacedChanged | None = None


class BucketTotals(Form, tag_field="part", tag="totals"):
    """Of a bucket."""

    totals: PlacedTotals


class LeafTotals(Form, tag_field="part", tag="totals"):
    """Of an open leaf that is not screened, some of whose points did not come as they are."""

    leaf_totals: PlacedTotals


class ScreenTotals(Form, tag_field="part", tag="totals"):
    """Of a screen: the rows that its leaf does not hold any more."""

    condensed: PlacedCondensed


class CutTotals(Form, tag_field="part", tag="totals"):
    """Of a cut: the ledger, whose points are null where they are the training set."""

    points: PlacedPoints | None
    totals: PlacedTotals


def _fitting(totals: Totals, points: Points) -> Totals:
    """Return totals that are of these points."""
    d = points.dimension
    require_shapes("totals", [(totals.own, (len(points),)), (totals.beside.X, (len(totals.beside), d))])
    require_shapes("totals", [(epoch.error, (d,)) for epoch in totals.epochs])
    _require_dimension(totals.changed, d)
    return totals


def _with_bucket(bucket: Bucket, totals: Totals) -> Bucket:
    return replace(bucket, totals=_fitting(totals, bucket.points))


def _with_leaf(state: PartitionState, leaf_totals: Totals) -> PartitionState:
    totals = _fitting(leaf_totals, state.leaf_points)
    there = 0 if totals.changed is None else np.count_nonzero(totals.own == 0.0)
    if state.screened is not None or totals.epochs or not 0 < there == len(totals.beside):
        raise CorruptCheckpoint("the open leaf has the part 'totals', which does not fit its points")
    return replace(state, leaf_totals=totals)


def _with_screen(state: object, condensed: Condensed) -> Screened:
    if not isinstance(state, Screened):
        raise CorruptCheckpoint("a screen for more than two labels has the part 'totals'")
    return replace(state, condensed=condensed)


def _of_cut(cut: Cut) -> Mapping[str, Any]:
    ledger = cut.ledger
    assert isinstance(ledger, Ledger)
    points = None if ledger.shares(cut.points) else ledger.points
    return {"points": points, "totals": ledger.totals}


def _with_cut(cut: Cut, points: Points | None, totals: Totals) -> Cut:
    own = cut.points if points is None else points
    return replace(cut, ledger=Ledger(own, _fitting(totals, own)))


LEAF: Final = OptionalPart(form=LeafTotals, has=lambda state: state.leaf_totals is not None, joined=_with_leaf)
BUCKET: Final = OptionalPart(form=BucketTotals, has=lambda bucket: bucket.totals is not None, joined=_with_bucket)
SCREEN: Final = OptionalPart(
    form=ScreenTotals,
    has=lambda state: isinstance(state, Screened) and state.condensed is not None,
    joined=_with_screen,
)
CUT: Final = OptionalPart(form=CutTotals, has=lambda cut: cut.ledger is not None, of=_of_cut, joined=_with_cut)
OF_BUCKET: Final = PartOf("bucket", BUCKET)
OF_LEAF: Final = PartOf("partition", LEAF)
OF_SCREEN: Final = PartOf("screen", SCREEN)
OF_CUT: Final = PartOf("cut", CUT)
