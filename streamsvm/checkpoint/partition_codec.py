"""The trunk of buckets, screens and partitions, for checkpoints and for what travels, and the parts they may have.

`streamsvm.checkpoint.format` puts all partitions into one file, `streamsvm.checkpoint.records` each bucket into a
record of its own. What features add is in `streamsvm.checkpoint.parts`.
"""

from __future__ import annotations

from typing import Any, Final

from streamsvm.checkpoint.forms import (
    Form,
    PlacedArray,
    PlacedExtent,
    PlacedParts,
    PlacedPoints,
    PlacedReservoir,
    describes,
)
from streamsvm.checkpoint.parts import parts_of, spans_part
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.coreset.screening import Screen, Screened

PARTITION_PARTS: Final = parts_of("partition", spans_part.PARTITION)


@describes(Bucket, parts=parts_of("bucket", spans_part.BUCKET))
class PlacedBucket(Form):
    """Describes a bucket."""

    level: int
    index: int
    points: PlacedPoints
    extent: PlacedExtent
    parts: PlacedParts


@describes(Screen)
class PlacedScreen(Form):
    """Describes a screen."""

    rows: int
    rate: float
    scaling: PlacedArray
    coefficients: PlacedArray
    intercept: float
    label_mean: PlacedArray
    terms: PlacedArray
    projection: PlacedArray


@describes(Screened, parts=parts_of("screen"))
class PlacedScreened(Form):
    """Describes the state of a screen."""

    screen: PlacedScreen
    thinnings: int
    accepted: int
    sums: PlacedArray
    weight: PlacedArray
    totals: PlacedArray
    parts: PlacedParts


def partition_state(**fields: Any) -> PartitionState:
    """Return what a partition is; its number does not belong to that."""
    fields.pop("partition")
    return PartitionState(**fields)


@describes(None, make=partition_state, parts=PARTITION_PARTS)
class PlacedPartition(Form):
    """Describes a partition."""

    partition: int
    sealed: int
    leader_epoch: int
    buckets: tuple[PlacedBucket, ...]
    leaf_points: PlacedPoints
    leaf_extent: PlacedExtent
    screened: PlacedScreened | None
    audit: tuple[PlacedReservoir, ...]
    parts: PlacedParts
