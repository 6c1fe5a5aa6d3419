"""The part ``forgetful``: what those have besides of whom something is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from streamsvm.checkpoint.forms import Form, Pairs, Part, PlacedArray, PlacedHeld, PlacedLearned, describes
from streamsvm.coreset.forgetting import Horizon
from streamsvm.coreset.shares import Shares
from streamsvm.coreset.structure import Bucket, Learned
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.cutting import Cut, HeldOfCut, HeldOfPartition
from streamsvm.learning.partition_state import Forgetful, PartitionState
from streamsvm.learning.voting import Expert, Voting
from streamsvm.points import Position


class BucketForgetful(Form, tag_field="part", tag="forgetful"):
    """Of a bucket: its own audit sample, its times, and what was learned before it."""

    audit: tuple[PlacedHeld, ...]
    times: tuple[int, int]
    before: PlacedLearned


def _check_expert(expert: Expert) -> None:
    if expert.coefficients.ndim != 2 or expert.intercepts.shape != (len(expert.coefficients),):
        raise CorruptCheckpoint("an expert has arrays of different lengths")


@describes(Expert, check=_check_expert)
class PlacedExpert(Form):
    """Describes the expert of one horizon."""

    border: int
    trained_at: int
    coefficients: PlacedArray
    intercepts: PlacedArray


@describes(Shares)
class PlacedShares(Form):
    """Describes the shares of horizons."""

    slots: tuple[float, ...]
    borders: tuple[int, ...]
    starts: tuple[float, ...]
    mix: tuple[float, float]


def _check_voting(voting: Voting) -> None:
    borders = len(voting.shares.borders)
    if not len(voting.experts) == borders == len(voting.shares.starts):
        raise CorruptCheckpoint(f"there are {len(voting.experts)} experts, but {borders} borders")


@describes(Voting, check=_check_voting)
class PlacedVoting(Form):
    """Describes experts and shares."""

    span: int
    experts: tuple[PlacedExpert, ...]
    shares: PlacedShares
    end: int


class PartitionForgetful(Form, tag_field="part", tag="forgetful"):
    """Of a partition: what it knows besides what it holds."""

    learned: PlacedLearned
    times: PlacedArray
    voting: PlacedVoting | None


@describes(HeldOfPartition)
class PlacedHeldOfPartition(Form):
    """Describes what a cut is of, in one partition."""

    oldest: Position
    before: PlacedLearned
    horizons: tuple[Horizon, ...]


class CutForgetful(Form, tag_field="part", tag="forgetful"):
    """Of a cut: what it is of."""

    learned: PlacedLearned
    partitions: Pairs[PlacedHeldOfPartition]


def _has_forgotten(bucket: Bucket) -> bool:
    return bucket.before is not None


def _of_partition(state: PartitionState) -> dict[str, Any]:
    own = state.forgetful
    assert own is not None
    return {"learned": own.learned, "times": own.times, "voting": own.voting}


def _with_partition(state: PartitionState, **fields: Any) -> PartitionState:
    if fields["times"].ndim != 1 or fields["times"].dtype != np.int64:
        raise CorruptCheckpoint(f"the times of a span are described as {fields['times'].dtype} {fields['times'].shape}")
    if not all(map(_has_forgotten, state.buckets)):
        raise CorruptCheckpoint("a partition has the part 'forgetful', and one of its buckets has not")
    return replace(state, forgetful=Forgetful(**fields))


def _of_cut(cut: Cut) -> dict[str, Any]:
    assert cut.held is not None
    return {"learned": cut.held.learned, "partitions": cut.held.partitions}


def _with_cut(cut: Cut, learned: Learned, partitions: Pairs[HeldOfPartition]) -> Cut:
    return replace(cut, held=HeldOfCut(learned, dict(partitions)))


BUCKET: Final = Part(form=BucketForgetful, has=_has_forgotten)
PARTITION: Final = Part(
    form=PartitionForgetful,
    has=lambda state: state.forgetful is not None,
    of=_of_partition,
    joined=_with_partition,
)
CUT: Final = Part(form=CutForgetful, has=lambda cut: cut.held is not None, of=_of_cut, joined=_with_cut)
