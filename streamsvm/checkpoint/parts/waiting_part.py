"""The part ``waiting``: rows beyond `coreset.max_leverage` that are in no leaf and no bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from streamsvm.checkpoint.forms import Form, OptionalPart, PlacedPoints, describes, require_shapes
from streamsvm.coreset.outliers import Waiting
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.cutting import Cut
from streamsvm.learning.partition_state import PartitionState


def _check(waiting: Waiting) -> None:
    require_shapes("waiting rows", [(waiting.learned.X, waiting.came.X.shape)])


@describes(Waiting, check=_check)
class PlacedWaiting(Form):
    """Describes rows that wait."""

    came: PlacedPoints
    learned: PlacedPoints


class PartitionWaiting(Form, tag_field="part", tag="waiting"):
    """Of a partition in which rows wait."""

    waiting: PlacedWaiting


class CutWaiting(Form, tag_field="part", tag="waiting"):
    """Of a cut that rows are left out of."""

    left_out: int


def _with_partition(state: PartitionState, waiting: Waiting) -> PartitionState:
    if not len(waiting) or waiting.came.dimension != state.leaf_points.dimension:
        raise CorruptCheckpoint(
            f"{len(waiting)} rows of {waiting.came.dimension} features wait in a partition of "
            f"{state.leaf_points.dimension}"
        )
    return replace(state, waiting=waiting)


def _with_cut(cut: Cut, left_out: int) -> Cut:
    if not 0 < left_out <= cut.rows:
        raise CorruptCheckpoint(f"{left_out} of {cut.rows} rows are left out of a cut")
    return replace(cut, left_out=left_out)


PARTITION: Final = OptionalPart(
    form=PartitionWaiting, has=lambda state: state.waiting is not None, joined=_with_partition
)
CUT: Final = OptionalPart(form=CutWaiting, has=lambda cut: cut.left_out > 0, joined=_with_cut)
