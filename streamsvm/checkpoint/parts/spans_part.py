"""The part ``forgetful``: what a memory of spans has besides.

What says by what spans count is written and read in a form that is plugged in, where one is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Union

import numpy as np

from streamsvm.checkpoint.forms import Form, OptionalPart, PlacedArray, PlacedLearned, PlacedReservoir
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.span_memory import SpansState
from streamsvm.sockets import plugged

if TYPE_CHECKING:
    Voting = Any
else:
    Voting = Union[(*plugged("voting_forms", type), None)]


class BucketSpan(Form, tag_field="part", tag="forgetful"):
    """Of a bucket: its own audit sample, its times, and what was learned before it."""

    audit: tuple[PlacedReservoir, ...]
    times: tuple[int, int]
    before: PlacedLearned


class PartitionSpans(Form, tag_field="part", tag="forgetful"):
    """Of a partition: what it knows besides what it holds."""

    learned: PlacedLearned
    times: PlacedArray
    voting: Voting


def _is_of_spans(bucket: Bucket) -> bool:
    return bucket.before is not None


def _of_partition(state: PartitionState) -> dict[str, Any]:
    own = state.memory
    assert isinstance(own, SpansState)
    return {"learned": own.learned, "times": own.times, "voting": own.voting}


def _with_partition(state: PartitionState, **fields: Any) -> PartitionState:
    if fields["times"].ndim != 1 or fields["times"].dtype != np.int64:
        raise CorruptCheckpoint(f"the times of a span are described as {fields['times'].dtype} {fields['times'].shape}")
    if not all(map(_is_of_spans, state.buckets)):
        raise CorruptCheckpoint("a partition has the part 'forgetful', and one of its buckets has not")
    return replace(state, memory=SpansState(**fields))


BUCKET: Final = OptionalPart(form=BucketSpan, has=_is_of_spans)
PARTITION: Final = OptionalPart(
    form=PartitionSpans,
    has=lambda state: isinstance(state.memory, SpansState),
    of=_of_partition,
    joined=_with_partition,
)
