"""What a checkpoint says of a partition that forgets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsvm.checkpoint import format as codec
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning import LearnerState
from tests.branches.memories.golden import handmade_forgetful
from tests.golden.checkpoint import handmade


def test_a_partition_forgets_with_all_of_its_buckets() -> None:
    """One that has not the part is refused."""
    state = handmade_forgetful().learner.partitions[0]
    (bucket,) = state.buckets
    unfit = replace(handmade(), learner=LearnerState({0: replace(state, buckets=(replace(bucket, before=None),))}, 0))
    with pytest.raises(CorruptCheckpoint, match="has the part 'forgetful', and one of its buckets has not"):
        codec.decode(codec.encode(unfit))
