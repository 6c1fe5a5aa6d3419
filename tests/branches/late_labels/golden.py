"""The golden checkpoint with a join."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from streamsvm.branches.late_labels.joining import Joining, with_joining
from streamsvm.checkpoint import Snapshot
from streamsvm.joining import Joiner, JoinRules
from streamsvm.learning import Cut
from streamsvm.points import Position
from tests.joining import reference
from tests.joining.test_joiner import feature_rows, label_rows


def with_join(saved: Snapshot) -> Snapshot:
    """Return a snapshot with a join of partition 0: some rows wait for labels, some labels for rows."""
    pending = saved.pending
    assert isinstance(pending, Cut)
    dimension = pending.points.dimension
    rules = JoinRules(horizon_ms=10_000, early_ms=10_000, absent="drop", most_rows=1 << 20)
    joiner = Joiner(0, rules, dimension, np.dtype(np.float32), Position(0), Position(0))
    n = 6
    waiting = feature_rows([reference.Feature(at, at, str(at)) for at in range(n)])
    X = np.arange(n * dimension, dtype=np.float32).reshape(n, dimension)
    joiner.add_features(replace(waiting, X=X))
    joiner.add_labels(label_rows([reference.Label(at, at, str(at + 3), 1) for at in range(n)]))
    joined, _ = joiner.join()
    assert joined is not None
    first = replace(saved.learner.partitions[0], beside_offset=12)
    learner = replace(saved.learner, partitions={**saved.learner.partitions, 0: first})
    joining = Joining(
        topic="labels", topic_id="id", base={0: Position(2)}, partitions={0: joiner.state()}, waiting={0: joined}
    )
    with_offsets = replace(saved, learner=learner, pending=replace(pending, beside_offsets={0: 3}))
    return with_joining(with_offsets, joining)


SNAPSHOTS: Final = {"checkpoint-1-joined": with_join}
