"""The golden checkpoint of partitions that forget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from streamsvm.branches.memories.shares import Shares
from streamsvm.branches.memories.voting import Expert, Voting
from streamsvm.checkpoint import Snapshot
from streamsvm.coreset import Learned
from streamsvm.learning import Cut, CutCoverage, Horizon, PartitionCoverage, SpansState
from streamsvm.points import Position
from tests.golden.checkpoint import handmade


def handmade_forgetful() -> Snapshot:
    """Return the same of partitions that forget, with experts and shares in one of them."""
    snapshot = handmade()
    filled, empty = snapshot.learner.partitions[0], snapshot.learner.partitions[3]
    before = Learned(
        rows=64, count=60, class_weight=np.array([20.5, 40.0]), first_time_ms=1_600_000_000_000, last_time_ms=-1
    )
    voting = Voting(
        16,
        (Expert(64, 80, np.array([[0.5, -1e-9]]), np.array([0.25])),),
        Shares(slots=(0.75, 0.25), borders=(64,), starts=(1.0,), mix=(0.125, 0.875)),
        80,
    )
    (bucket,) = filled.buckets
    own = replace(bucket, audit=filled.audit, times=(1_700_000_000_000, 1_700_000_000_400), before=before)
    memory = SpansState(learned=before, times=np.array([1_700_000_000_500, 3]), voting=voting)
    partitions = {
        0: replace(filled, buckets=(own,), memory=memory),
        3: replace(empty, memory=SpansState(learned=Learned.nothing(2), times=np.empty(0, np.int64), voting=None)),
    }
    held = CutCoverage(
        before,
        {
            0: PartitionCoverage(Position(2), before, (Horizon(13, 0.625), Horizon(1, 0.375))),
            3: PartitionCoverage(Position(5), Learned.nothing(2), ()),
        },
    )
    assert isinstance(snapshot.pending, Cut)
    return replace(
        snapshot,
        learner=replace(snapshot.learner, partitions=partitions),
        pending=replace(snapshot.pending, held=held),
    )


CHECKPOINTS: Final[Mapping[str, Callable[[], Snapshot]]] = {"checkpoint-1-forgetful": handmade_forgetful}
PARTS: Final = tuple((place, "checkpoint-1-forgetful", "forgetful") for place in ("partition", "bucket", "cut"))
